"""Answers on the health of the service."""

from typing import Annotated

from pydantic import Field

from curator_service.kit.wire import Answer, Moment


class FindingModel(Answer):
    """A check and its result."""

    what: str
    state: Annotated[str, Field(description="well, care or ill")]
    found: str
    remedy: Annotated[str, Field(description="Empty where nothing is to be done")]


class TaskModel(Answer):
    """The last end of a task of the operator."""

    ended_at: Moment
    is_well: bool


class PastSealModel(Answer):
    """A seal that was ended by a reconciliation."""

    ended_at: Moment
    ended_by: Annotated[str, Field(description="A name")]
    approved_by: str | None


class SampleModel(Answer):
    """Five minutes of the last day."""

    at: Annotated[Moment, Field(description="When they begin")]
    requests: int
    refused: Annotated[int, Field(description="Of the requests, those with a status of 4xx")]
    failed: Annotated[int, Field(description="Of the requests, those with a status of 5xx")]
    memory_free: Annotated[int | None, Field(description="The least, in percent, in steps of ten")]
    disk_free: Annotated[int | None, Field(description="The least of the folders' disks, in percent")]


class HealthReportAnswer(Answer):
    """The state of the service now, and the last day."""

    version: str
    sealed: bool
    findings: Annotated[list[FindingModel], Field(description="Of checks that are made now, the worst first")]
    doctor_at: Annotated[Moment | None, Field(description="When `curator doctor` ran last; null where that is unknown")]
    doctor: Annotated[list[FindingModel], Field(description="Its findings of all else")]
    backup: Annotated[TaskModel | None, Field(description="Of `curator backup`; null where none is known")]
    verified: Annotated[TaskModel | None, Field(description="Of `curator ledger verify`; null where none is known")]
    last_cut: Moment
    next_cut: Moment
    overdue: Annotated[int, Field(description="Datasets that should have been cut, and release nothing until they are")]
    jobs: Annotated[int, Field(description="Those that wait or are worked on")]
    oldest_job: Moment | None
    seals: list[PastSealModel]
    samples: Annotated[list[SampleModel], Field(description="Those that there are, the oldest first")]
