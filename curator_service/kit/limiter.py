"""A bound on what is worked on at once, of which nobody takes more than half."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from curator_service.kit.problems import TooManyRequests


class ConcurrencyLimiter:
    """Refuses work beyond a bound, for all and for each principal, before it begins.

    It counts what is being worked on, and nothing else, so a refusal tells no more than that.

    Parameters
    ----------
    total : int
        How much may be worked on at once. One principal has half of it at most, so that another one finds room.
    what : str
        What is bounded, in the plural, for the text of a refusal.
    retry_after_s : int
        When to ask again, in seconds.
    """

    def __init__(self, total: int, what: str, *, retry_after_s: int) -> None:
        self.total, self.each = total, max(1, total // 2)
        self.what = what
        self.retry_after_s = retry_after_s
        self._held: Counter[str] = Counter()
        self._turn = threading.Lock()

    def acquire(self, principal_id: str) -> None:
        """Take a place, and keep it until `release`.

        Raises
        ------
        TooManyRequests
        """
        with self._turn:
            own, all_of_them = self._held[principal_id], self._held.total()
            if own < self.each and all_of_them < self.total:
                self._held[principal_id] += 1
                return
            self._forget_idle(principal_id)
        if own >= self.each:
            rule = f"{own} {self.what} of yours are being worked on, and one principal may have no more at once"
        else:
            rule = f"{all_of_them} {self.what} are being worked on, and there may be no more at once"
        raise TooManyRequests(
            f"{rule}. Nothing was charged or reserved; send the request again later, with the same Idempotency-Key "
            "where it has one.",
            retry_after_s=self.retry_after_s,
        )

    def release(self, principal_id: str) -> None:
        """Give a place back."""
        with self._turn:
            self._held[principal_id] -= 1
            self._forget_idle(principal_id)

    def _forget_idle(self, principal_id: str) -> None:
        if not self._held[principal_id]:
            del self._held[principal_id]

    @contextmanager
    def place(self, principal_id: str) -> Iterator[None]:
        """Hold a place for the time of a block.

        Raises
        ------
        TooManyRequests
        """
        self.acquire(principal_id)
        try:
            yield
        finally:
            self.release(principal_id)
