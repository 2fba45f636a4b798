"""Callers that wait for the end of a job: one look at the database for all of them, and no thread for any."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from fastapi import Request, Response

from curator_service.kit.db import DATABASE_ERRORS, Database
from curator_service.kit.limiter import ConcurrencyLimiter
from curator_service.kit.problems import TooManyRequests
from curator_service.ledger.accounts.reservations import list_jobs

WAIT_MAX_S = 20
"""For how long a caller may wait in one request, in seconds."""
WAITS_MAX = 64
"""How many may wait at once; whoever comes beyond them is answered at once."""
LOOK_S = 0.1
"""Between two looks, in seconds: a job's end is public, and so is everything that this follows."""


class JobWaits:
    """Lets callers wait until jobs have ended, in whatever process these run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places = ConcurrencyLimiter(WAITS_MAX, "waits", retry_after_s=1)
        self._waiting: dict[asyncio.Future[None], str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, "waits")
        self._stopped = False

    async def wait(self, job_id: str, principal_id: str, wait_s: float) -> None:
        """Return when a job has ended, when the time is over, or at once if too many wait or the server stops."""
        if self._stopped:
            return
        with suppress(TooManyRequests, TimeoutError), self._places.place(principal_id):
            ended = asyncio.get_running_loop().create_future()
            self._waiting[ended] = job_id
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
            try:
                await asyncio.wait_for(ended, min(wait_s, WAIT_MAX_S))
            finally:
                del self._waiting[ended]

    async def _look(self) -> None:
        while self._waiting:
            await asyncio.sleep(LOOK_S)
            with suppress(*DATABASE_ERRORS):  # then the next look tells, or the time is over
                running = await asyncio.get_running_loop().run_in_executor(self._pool, self._list_running)
                self._wake(set(self._waiting.values()) - running)

    def _list_running(self) -> set[str]:
        with self._database.read() as connection:
            return {job_id for job_id, _owner, _beat in list_jobs(connection)}

    def _wake(self, jobs: Collection[str]) -> None:
        for ended, job_id in self._waiting.items():
            if job_id in jobs and not ended.done():
                ended.set_result(None)

    def stop(self) -> None:
        """Let nobody wait any more: the server's answers go out, and it ends. In the event loop's thread."""
        self._stopped = True
        self._wake(self._waiting.values())

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=False)


def waits_for_end(endpoint: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Let an endpoint's caller wait for the job that it shows: ``Prefer: wait=20`` (RFC 7240).

    The whole endpoint answers before and after, so that whoever may not see the job does not wait for it.
    """

    @functools.wraps(endpoint)
    async def waiting(request: Request, **parameters: Any) -> Response:
        response = await endpoint(request, **parameters)
        wait_s = _read_wait_s(request.headers.get("prefer", ""))
        if not wait_s or response.status_code != 200 or "Retry-After" not in response.headers:
            return response
        waits: JobWaits = request.app.state.job_waits
        await waits.wait(parameters["job_id"], request.scope["state"]["principal"], wait_s)
        return await endpoint(request, **parameters)

    return waiting


def _read_wait_s(preferences: str) -> int:
    """Return the seconds of the preference ``wait``; 0 where there is none that can be read."""
    for preference in preferences.replace(";", ",").split(","):
        name, _, value = preference.partition("=")
        value = value.strip().strip('"')
        if name.strip().lower() == "wait" and value.isascii() and value.isdigit():
            return int(value[:9])
    return 0
