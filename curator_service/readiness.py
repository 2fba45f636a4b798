"""Readiness of this process: checked on a thread of its own, once for all who ask meanwhile."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from curator_service.api.metrics import State
from curator_service.container import Curator
from curator_service.kit.milestones import Milestone, find
from curator_service.ledger.accounts.reservations import beat, list_jobs

ANSWER_S = 5.0
"""Whoever asks hears within so many seconds, however long the database takes."""
FAILURE_SHOWN_S = 30.0
"""For how long a write that failed on a disk shows, in seconds."""
WRITTEN_EVERY_S = 1.0
"""For how long what a write has shown holds, in seconds: however many ask, it is made no more often."""
T = TypeVar("T")


class SharedLook(Generic[T]):
    """Looks at something, one look for all who ask meanwhile.

    Anybody may ask, without a token and as often as they like. So no look takes a thread that others wait for, and
    those who ask while one is under way share the next.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._pool = ThreadPoolExecutor(1, "look")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None

    async def see(self) -> T:
        """Return what is so after the call.

        Raises
        ------
        TimeoutError
            If it takes too long.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._look_in_turn())
        return await asyncio.wait_for(asyncio.shield(self._next), ANSWER_S)

    async def _look_in_turn(self) -> T:
        async with self._turn:
            self._next = None  # what begins now may miss what happens from now on: whoever comes waits for another look
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._look)

    def close(self) -> None:
        """End the thread, when its look is over."""
        self._pool.shutdown(wait=False)


class Readiness:
    """Answers `/readyz`.

    Parameters
    ----------
    data_dir : Path
        Where `curator ledger verify` notes how it ended.
    """

    def __init__(self, curator: Curator, data_dir: Path) -> None:
        self._curator, self._data_dir = curator, data_dir
        self._looks = SharedLook(self._look)
        self._writing = threading.Lock()
        self._tried_at, self._could_write = float("-inf"), False

    async def status(self) -> str:
        """Return ``ready``, ``not ready`` or ``sealed``, as it is after the call."""
        try:
            return await self._looks.see()
        except TimeoutError:
            return "not ready"

    def state(self) -> State:
        """Look, and say it to the metrics."""
        jobs_open = waiting_bytes = None
        with suppress(Exception):
            with self._curator.database.read() as connection:
                jobs_open = len(list_jobs(connection))
            waiting_bytes = self._curator.datasets.measure_waiting()
        return State(self._look(), jobs_open, waiting_bytes)

    def _look(self) -> str:
        database, guard = self._curator.database, self._curator.ledger.guard
        try:
            database.check_file()
            current, head = database.revisions()
            if current != head:
                return "not ready"
            if guard.reason():
                return "sealed"
            if not self._curator.datasets.has_all_rows() or not self._can_write():
                return "not ready"
        except Exception:
            return "sealed" if database.fault else "not ready"
        verified = find(self._data_dir, Milestone.LEDGER_VERIFIED)
        if verified is not None and not verified.is_well:
            return "not ready"  # it holds no more, and the next start would seal
        failed_at = max(database.failed_at, guard.anchor.failed_at)
        return "not ready" if time.monotonic() - failed_at < FAILURE_SHOWN_S else "ready"

    def _can_write(self) -> bool:
        """Return whether the database takes this process's beat: a read-only or locked one still answers reads."""
        worker = self._curator.job_runner.worker_id
        with self._writing:
            if time.monotonic() - self._tried_at >= WRITTEN_EVERY_S:
                self._could_write = self._curator.database.can_write(lambda connection: beat(connection, worker))
                self._tried_at = time.monotonic()
            return self._could_write

    def close(self) -> None:
        """End the thread, when its look is over."""
        self._looks.close()
