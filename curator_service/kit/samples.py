"""Samples of the last day, in a file of a fixed size: a ring of slots, of which each new one replaces the oldest.

Every process of a machine adds to the same slots, under a lock. The file needs no database, so it has the minutes in
which that did not answer, too; and it is written whole at the start, so a full disk does not stop it.
"""

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

SLOT_S, DAY_S = 300, 86_400
SLOTS = DAY_S // SLOT_S + 1
"""Those of a day, and one that is being filled."""
_SLOT = struct.Struct("<qIIIbb2x")
_MOST = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Sample:
    """What a slot says.

    Attributes
    ----------
    requests, refused, failed : int
        Requests that were answered, of which refused (4xx), and of which failed (5xx).
    memory_free, disk_free : int or None
        The least share that was free, in percent; None where it is not known.
    """

    requests: int = 0
    refused: int = 0
    failed: int = 0
    memory_free: int | None = None
    disk_free: int | None = None

    def __add__(self, other: "Sample") -> "Sample":
        """Return what two processes, or two minutes, say together."""
        requests, refused, failed = (min(one + two, _MOST) for one, two in zip(self.counts, other.counts, strict=True))
        return Sample(
            requests,
            refused,
            failed,
            _least(self.memory_free, other.memory_free),
            _least(self.disk_free, other.disk_free),
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of requests."""
        return self.requests, self.refused, self.failed


def _least(one: int | None, two: int | None) -> int | None:
    return min((share for share in (one, two) if share is not None), default=None)


class Samples:
    """The ring.

    Parameters
    ----------
    path : Path
        The file, which is made with the first sample.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, at: float, sample: Sample) -> None:
        """Add to the slot of a moment, in seconds since 1970.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        number = int(at // SLOT_S)
        place = number % SLOTS * _SLOT.size
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size != SLOTS * _SLOT.size:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, bytes(SLOTS * _SLOT.size), 0)
            held, there = _read(os.pread(descriptor, _SLOT.size, place))
            found = there + sample if held == number else sample
            shares = (-1 if share is None else share for share in (found.memory_free, found.disk_free))
            os.pwrite(descriptor, _SLOT.pack(number, *found.counts, *shares), place)
        finally:
            os.close(descriptor)

    def read(self, at: float) -> list[tuple[int, Sample | None]]:
        """Return the whole slots of the day before a moment, the oldest first, each with its begin.

        The sample is None where nothing was added.
        """
        last = int(at // SLOT_S)
        try:
            content = self._path.read_bytes()
        except OSError:
            content = b""
        held = (
            dict(_read(slot) for (slot,) in struct.iter_unpack(f"{_SLOT.size}s", content))
            if (len(content) == SLOTS * _SLOT.size)
            else {}
        )
        return [(number * SLOT_S, held.get(number)) for number in range(last - SLOTS + 1, last)]


def _read(slot: bytes) -> tuple[int, Sample]:
    number, requests, refused, failed, *shares = _SLOT.unpack(slot)
    memory, disk = (share if 0 <= share <= 100 else None for share in shares)
    return number, Sample(requests, refused, failed, memory, disk)
