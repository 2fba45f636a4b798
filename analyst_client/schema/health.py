"""The health of the service, for its operators."""

from dataclasses import dataclass

from analyst_client.schema.reading import Readable


@dataclass(frozen=True)
class Finding(Readable):
    """A check and its result.

    Attributes
    ----------
    what : str
    state : str
        ``"well"``, ``"care"`` or ``"ill"``.
    found, remedy : str
        The latter is empty where nothing is to be done.
    """

    what: str
    state: str
    found: str
    remedy: str


@dataclass(frozen=True)
class Task(Readable):
    """The last end of a task of the operator."""

    ended_at: str
    is_well: bool


@dataclass(frozen=True)
class PastSeal(Readable):
    """A seal that was ended by a reconciliation; the members say when, and by whom."""

    ended_at: str
    ended_by: str
    approved_by: str | None


@dataclass(frozen=True)
class Sample(Readable):
    """Five minutes of the last day.

    Attributes
    ----------
    at : str
        When they begin.
    requests, refused, failed : int
        Requests, of which refused (4xx), and of which failed (5xx).
    memory_free, disk_free : int or None
        The least that was free, in percent.
    """

    at: str
    requests: int
    refused: int
    failed: int
    memory_free: int | None
    disk_free: int | None


@dataclass(frozen=True)
class Health(Readable):
    """The state of the service now, and the last day.

    Attributes
    ----------
    version : str
    sealed : bool
    findings : tuple of Finding
        Of checks that are made now, the worst first.
    doctor_at : str or None
        When ``curator doctor`` ran last; None where that is unknown.
    doctor : tuple of Finding
        Its findings of all else.
    backup, verified : Task or None
        The last end of ``curator backup`` and of ``curator ledger verify``; None where none is known.
    last_cut, next_cut : str
    overdue : int
        Datasets that should have been cut, and release nothing until they are.
    jobs : int
        Jobs that wait or are worked on.
    oldest_job : str or None
        When the oldest of them was asked for.
    seals : tuple of PastSeal
    samples : tuple of Sample
        Those that there are, the oldest first.
    """

    version: str
    sealed: bool
    findings: tuple[Finding, ...]
    doctor_at: str | None
    doctor: tuple[Finding, ...]
    backup: Task | None
    verified: Task | None
    last_cut: str
    next_cut: str
    overdue: int
    jobs: int
    oldest_job: str | None
    seals: tuple[PastSeal, ...]
    samples: tuple[Sample, ...]
