"""Requesting a release, however long it takes: at once, by a job, or by joining the job that already works on it."""

import math
from typing import Any, NamedTuple

from analyst_client.errors import (
    JobEndedError,
    JobRunningError,
    JobVoidedError,
    RequestInvalidError,
    ServiceError,
    ServiceUnavailableError,
)
from analyst_client.http.problems import under_key
from analyst_client.http.retry import delay_before, read_retry_after, read_wait
from analyst_client.http.session import OLDER_SOURCES, CuratorResponse, Session, dataset_path, path_segment
from analyst_client.kinds.base import Request
from analyst_client.ledger.trust import LedgerSnapshot
from analyst_client.schema.administration import Held
from analyst_client.schema.answers import Answer
from analyst_client.schema.jobs import Job


class Pace(NamedTuple):
    """Timing of polls for a job: seconds until the next one, and seconds that one may wait for the end of the job."""

    retry_after_s: float | None = None
    wait_s: float = 0.0


class Purchasing:
    """Send charging requests and follow their jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._transport = session.transport
        # The ledger's state before the request that made each job: the charge has a higher sequence.
        self._snapshots: dict[str, LedgerSnapshot] = {}
        # The request of each job, by key: the answer is put into the order of the request.
        self._requests: dict[str, Request[Any, Any]] = {}

    def buy(
        self, dataset: str, request: Request[Any, Any], key: str, *, respond_async: bool, wait_s: float | None
    ) -> Answer:
        """Send a request and wait for its release; `wait_s` bounds the wait for a job, in seconds."""
        deadline = self._deadline(wait_s)
        joined: str | None = None
        with under_key(key):
            while True:
                try:
                    job, pace = self._send(dataset, request, key, respond_async=respond_async)
                    return self._finish(self._poll(job, pace, deadline))
                except ServiceUnavailableError as refused:
                    # When the other's job has ended, the same request finds its release, or starts a job of its own.
                    if refused.job is None or refused.job == joined:
                        raise
                    joined = refused.job
                    self._poll(*self._find_joined_job(refused, key), deadline)

    def submit(self, dataset: str, request: Request[Any, Any], key: str) -> Job:
        """Send a request and return its job, or the job that already works on it."""
        with under_key(key):
            try:
                return self._send(dataset, request, key, respond_async=True)[0]
            except ServiceUnavailableError as refused:
                return self._find_joined_job(refused, key)[0]

    def refresh(self, job: Job | Held | str, wait_s: int = 0) -> tuple[Job, Pace]:
        """Return a job as it is now, or when it has ended within so many seconds, and how to look again."""
        if isinstance(job, Job) and job.id is None:
            return job, Pace()
        response = self._session.ask("GET", job_path(job), prefer=f"wait={wait_s}" if wait_s else None)
        return Job.read(response.body, key_of(job)), _pace(response)

    def wait(self, job: Job | Held | str, wait_s: float | None) -> Answer:
        """Wait until a job ends, and return its release."""
        deadline = self._deadline(wait_s)
        with under_key(key_of(job)):
            return self._finish(self._poll(*self.refresh(job), deadline))

    def cancel(self, job: Job | Held | str) -> Job:
        """Cancel a job that runs."""
        if isinstance(job, Job) and job.id is None:
            raise JobEndedError("the curator answered at once: there is no job to cancel", job=job)
        try:
            return Job.read(self._session.ask("DELETE", job_path(job)).body, key_of(job))
        except JobEndedError as error:
            error.job = self.refresh(job)[0]
            if error.job.state == "cancelled":  # by an attempt whose answer was lost
                return error.job
            raise

    def _send(self, dataset: str, request: Request[Any, Any], key: str, *, respond_async: bool) -> tuple[Job, Pace]:
        self._requests[key] = request
        response = self._session.ask(
            "POST",
            dataset_path(dataset) + "/releases",
            dataset=dataset,
            content=request.to_json(),
            idempotency_key=key,
            prefer="respond-async" if respond_async else None,
        )
        if response.http.status_code == 202:
            return self._accept_job(response, dataset, key)
        snapshot = None if response.source in OLDER_SOURCES else response.snapshot
        release = self._session.accept_release(response, snapshot, dataset=dataset)
        del self._requests[key]
        return Job.at_once(request.arrange(release), key), Pace()

    def _accept_job(self, response: CuratorResponse, dataset: str, key: str) -> tuple[Job, Pace]:
        job = Job.read(response.body, key)
        if job.dataset != dataset or job.id is None:
            raise ServiceError(f"malformed answer: {dataset!r} was asked, and a job of {job.dataset!r} was answered")
        if response.source not in OLDER_SOURCES:
            self._snapshots.setdefault(job.id, response.snapshot)
        return job, _pace(response)

    def _find_joined_job(self, refused: ServiceUnavailableError, key: str) -> tuple[Job, Pace]:
        """Look at the job that a refusal names; raise the refusal when it names none that this analyst may see."""
        if refused.job is None:
            raise refused
        try:
            response = self._session.ask("GET", job_path(refused.job))
        except RequestInvalidError:
            raise refused from None
        return Job.read(response.body, key), _pace(response)

    def _poll(self, job: Job, pace: Pace, deadline: float | None) -> Job:
        """Look at a job until it has ended: let the curator tell of its end, or look as seldom as it asks."""
        polls, is_told = 1, True
        while job.is_running:
            clock = self._transport.clock
            left_s = math.inf if deadline is None else deadline - clock()
            hold_s = int(min(pace.wait_s, left_s, self._transport.timeout_s / 2)) if is_told else 0
            if hold_s < 1:
                hold_s, delay_s = 0, delay_before(polls + 1, pace.retry_after_s)
                if delay_s > left_s:
                    raise JobRunningError(
                        f"{job.id} is still running ({job.progress:.0%} of its time has passed) and may yet be "
                        "charged: wait for it again",
                        job=job,
                    )
                self._transport.sleep(delay_s)
                polls += 1
            began = clock()
            job, pace = self.refresh(job, hold_s)
            is_told = clock() - began > hold_s / 2  # else it answers at once: too many wait, or it stops
        return job

    def _finish(self, job: Job) -> Answer:
        """Return the release of a job that has ended."""
        if job.result is not None:
            return job.result
        if job.state != "done" or job.release_id is None or job.id is None:
            reason = f" ({job.reason})" if job.reason else ""
            raise JobVoidedError(
                f"{job.id} was {job.state}{reason}: nothing was charged, and the same call with the same "
                "idempotency_key may be repeated",
                job=job,
            )
        release = self._session.fetch_release(job.release_id, self._snapshots.get(job.id), dataset=job.dataset)
        self._snapshots.pop(job.id, None)
        request = self._requests.get(job.idempotency_key or "")
        return release if request is None else request.arrange(release)

    def _deadline(self, wait_s: float | None) -> float | None:
        if wait_s is None:
            return None
        if not wait_s >= 0.0:
            raise ValueError("wait_s must not be negative")
        return self._transport.clock() + wait_s


def _pace(response: CuratorResponse) -> Pace:
    return Pace(read_retry_after(response.http), read_wait(response.http))


def job_path(job: Job | Held | str) -> str:
    """Return the path of a job."""
    job_id = job if isinstance(job, str) else job.id
    return f"/v1/jobs/{path_segment(job_id or '')}"


def key_of(job: Job | Held | str) -> str | None:
    """Return the idempotency key of a job, where it is known."""
    return job.idempotency_key if isinstance(job, Job) else None
