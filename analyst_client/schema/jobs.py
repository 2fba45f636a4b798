"""A release that takes longer than one answer: a job of the curator."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, quiet, untrusted
from analyst_client.schema.answers import Answer
from analyst_client.schema.reading import LOCAL, read_members
from analyst_client.schema.wire import Fields

JOB_STATES = frozenset({"running", "done", "voided", "cancelled", "expired"})


def _read_state(fields: Fields, name: str) -> str:
    state = fields.text(name)
    if state not in JOB_STATES:
        raise fields.fault(name, "a known state of a job")
    return state


@dataclass(frozen=True)
class Job(Displayable):
    """A job as it was last seen; `CuratorClient.job` looks again, `CuratorClient.wait` until it ends.

    Attributes
    ----------
    id : str or None
        None when the curator answered at once, without a job.
    dataset : str
    state : str
        ``"running"``, ``"done"``, ``"voided"``, ``"cancelled"``, or ``"expired"`` with its permit; only a job that is
        done was charged.
    progress : float
        Part of the job's time that has passed, 0 to 1. The time is set by public facts, not by the rows.
    created_at : str or None
    request : dict
        The request with every default filled in.
    release_id : str or None
        Id of its release, once it is done.
    reason : str or None
        Reason for which it was voided.
    idempotency_key : str or None
        Key of the request, where this client sent it.
    result : Release or None
        The release, where it came at once.

    Examples
    --------
    >>> Job("job_0123", "flchain", "running", 0.25, "2026-01-01T00:00:00Z").is_running
    True
    """

    id: Annotated[str | None, Fields.text]
    dataset: str
    state: Annotated[str, _read_state]
    progress: float
    created_at: Annotated[str | None, Fields.text]
    request: Annotated[dict[str, Any], Fields.mapping] = field(default_factory=dict)
    release_id: Annotated[str | None, "release"] = None
    reason: str | None = None
    idempotency_key: str | None = None
    result: Annotated[Answer | None, LOCAL] = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        """True if the job goes on."""
        return self.state == "running"

    def _view(self) -> View:
        return show_job(self)

    @classmethod
    def read(cls, fields: Fields, idempotency_key: str | None = None) -> "Job":
        """Read from an answer.

        Parameters
        ----------
        fields : Fields
            Members of the answer.
        idempotency_key : str, optional
            Key of the request, where this client sent it.

        Returns
        -------
        Job
            Without its release.
        """
        job = cls(**read_members(cls, fields, idempotency_key=idempotency_key))
        if job.state == "done" and job.release_id is None:
            raise fields.fault("release", "the release of a job that is done")
        return job

    @classmethod
    def at_once(cls, release: Answer, idempotency_key: str) -> "Job":
        """Return the job that was not needed.

        Parameters
        ----------
        release : Release, CountsRelease or another answer
            The release that came at once.
        idempotency_key : str
            Key of the request.

        Returns
        -------
        Job
            Done, with the release, and without an id.
        """
        return cls(
            id=None,
            dataset=release.dataset,
            state="done",
            progress=1.0,
            created_at=release.created_at,
            request=release.request,
            release_id=release.id,
            idempotency_key=idempotency_key,
            result=release,
        )


def show_job(job: "Job") -> View:
    """Show how a job stands."""
    stated: list[tuple[Inline, Inline]] = [("state", job.state)]
    if job.is_running:
        stated.append(("time passed", f"{job.progress:.0%}"))
    if job.created_at is not None:
        stated.append(("made at", job.created_at))
    if job.release_id is not None:
        stated.append(("release", code(job.release_id)))
    if job.reason is not None:
        stated.append(("reason", job.reason))
    name = quiet("that was not needed") if job.id is None else code(job.id)
    return (facts(join("Job ", name, quiet(" on "), untrusted(job.dataset)), stated),)
