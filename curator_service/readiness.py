"""Whether this process can serve: looked at on a thread of its own, once for all who ask meanwhile."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from curator_service.container import Curator

ANSWER_S = 5.0
"""Whoever asks hears within so many seconds, however long the database takes."""
FAILURE_SHOWN_S = 30.0
"""For how long a write that failed on a disk shows, in seconds."""


class Readiness:
    """Answers `/readyz`.

    Anybody may ask, without a token and as often as they like. So no look takes a thread that others wait for, and
    those who ask while one is under way share the next.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = curator
        self._pool = ThreadPoolExecutor(1, "readiness")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[str] | None = None

    async def status(self) -> str:
        """Return ``ready``, ``not ready`` or ``sealed``, as it is after the call."""
        if self._next is None:
            self._next = asyncio.create_task(self._look_in_turn())
        try:
            return await asyncio.wait_for(asyncio.shield(self._next), ANSWER_S)
        except TimeoutError:
            return "not ready"

    async def _look_in_turn(self) -> str:
        async with self._turn:
            self._next = None  # what begins now may miss what happens from now on: whoever comes waits for another look
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._look)

    def _look(self) -> str:
        database, guard = self._curator.database, self._curator.ledger.guard
        try:
            database.check_file()
            current, head = database.revisions()
            if current != head:
                return "not ready"
            if guard.reason():
                return "sealed"
            if not self._curator.datasets.has_all_rows():
                return "not ready"
        except Exception:
            return "sealed" if database.fault else "not ready"
        failed_at = max(database.failed_at, guard.anchor.failed_at)
        return "not ready" if time.monotonic() - failed_at < FAILURE_SHOWN_S else "ready"

    def close(self) -> None:
        """End the thread, when its look is over."""
        self._pool.shutdown(wait=False)
