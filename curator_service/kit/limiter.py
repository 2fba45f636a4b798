"""Bounds on what is worked on at once, and on how often somebody asks: no one principal keeps the others waiting."""

import hashlib
import ipaddress
import math
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from curator_service.kit.problems import Problem, TooManyRequests

_ROUNDING_S = 1e-6  # of sums of intervals


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


class RateLimiter:
    """A token bucket for each key: so many at once, and as many again within a minute.

    One number stands for a bucket, the moment at which it is full again; a full one is forgotten. Where there are more
    keys than are kept, that of whoever has asked least lately is forgotten too: a stranger with many addresses gains
    a bucket, and takes no memory.

    Parameters
    ----------
    what : str
        What is bounded, in the plural, for the text of a refusal.
    keys_max : int
        For how many keys a bucket is kept.
    now : callable
        A monotonic clock, in seconds.
    """

    def __init__(
        self, per_minute: int, what: str, *, keys_max: int = 10_000, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_minute, self.what, self.keys_max = per_minute, what, keys_max
        self._interval_s = 60.0 / per_minute
        self._now = now
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._turn = threading.Lock()

    def check(self, key: str) -> None:
        """Refuse if nothing is left in a bucket; take nothing.

        Raises
        ------
        TooManyRequests
        """
        with self._turn:
            self._look(key)

    def take(self, key: str) -> None:
        """Take one from a bucket.

        Raises
        ------
        TooManyRequests
            If nothing is left: nothing is taken then.
        """
        with self._turn:
            full_at = self._look(key)
            self._full_at[key] = full_at + self._interval_s
            self._full_at.move_to_end(key)
            if len(self._full_at) > self.keys_max:
                self._full_at.popitem(last=False)

    def _look(self, key: str) -> float:
        """Return when a bucket is full again; refuse where that is further away than one that is empty is."""
        now = self._now()
        full_at = max(self._full_at.get(key, now), now)
        wait_s = full_at + self._interval_s - now - 60.0
        if wait_s > _ROUNDING_S:
            raise TooManyRequests(
                f"{self.per_minute} {self.what} a minute are what there may be. Nothing was charged or reserved; send "
                "the request again later, with the same Idempotency-Key where it has one.",
                retry_after_s=math.ceil(wait_s - _ROUNDING_S),
            )
        return full_at


class FailureLimiter:
    """Refuses an address from which too many tokens failed, before anything is looked up.

    Analysts of one hospital share an address. So whoever was let in before, with the same header, is asked no less than
    always: somebody else's failures lock nobody out.

    Parameters
    ----------
    rate : RateLimiter
        By address.
    failure : type of Problem
        What a token that is not good is refused with.
    known_max : int
        How many headers that were good are remembered, as hashes under a key of this process.
    """

    def __init__(self, rate: RateLimiter, failure: type[Problem], *, known_max: int = 4096) -> None:
        self.rate, self.failure, self.known_max = rate, failure, known_max
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._turn = threading.Lock()

    @contextmanager
    def watch(self, peer: str, authorization: str | None) -> Iterator[None]:
        """Watch an authentication: it is refused where too many have failed, and counts if it fails.

        Parameters
        ----------
        peer : str
            The address, as `network_of` names it.
        authorization : str, optional
            The header.

        Raises
        ------
        TooManyRequests
        """
        header = hashlib.blake2b((authorization or "").encode(), key=self._key, digest_size=16).digest()
        if header not in self._known:
            self.rate.check(peer)
        try:
            yield
        except self.failure:
            with self._turn:
                self._known.pop(header, None)
            self.rate.take(peer)
            raise
        with self._turn:
            self._known[header] = None
            self._known.move_to_end(header)
            if len(self._known) > self.known_max:
                self._known.popitem(last=False)


def network_of(host: str) -> str:
    """Return whose address it is: itself, or the network of 64 bits, of which somebody has every address.

    Parameters
    ----------
    host : str
        As a connection or a proxy states it.

    Returns
    -------
    str
        ``unknown`` for what is no address.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)
