"""The anchor: signed checkpoints in a folder that is not backed up and restored with the database.

A database that was restored from a backup is behind its anchor, and shows it at the next start. The file has a
checkpoint in each line. Of each population the highest tells whether the database is behind. All lines are evidence
when a database is reconciled, so a line is left out only where another one proves as much (`compact`).
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic_core import from_json

from curator_service.kit import db
from curator_service.kit.files import identify, sync
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint, canonical


class AnchorError(RuntimeError):
    """The anchor cannot be read or written; the message says why, for the admin."""


class Anchor:
    """The highest checkpoint of each population, durably.

    Parameters
    ----------
    folder : Path
        On a disk of this machine: the file is locked while it is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, Checkpoint] = {}
        self._read_up_to = 0
        self._read_file: tuple[int, int] | None = None
        self._waiting: dict[str, SignedCheckpoint] = {}
        self.failed_at = float("-inf")
        self._guard, self._turn, self._reading = threading.Lock(), threading.Lock(), threading.Lock()
        self.path = folder / "checkpoints"
        self._file, self._lock = _KeptOpen(self.path), _KeptOpen(folder / ".lock")
        # While it is open, no file that is put in its place gets its number.
        self._read = _KeptOpen(self.path, os.O_RDONLY)

    def floor(self, population: str) -> tuple[int, int]:
        """Return the order of the highest checkpoint that this process has seen: every later entry is above it."""
        seen = self._seen.get(population)
        return (0, 0) if seen is None else seen.order

    def notice(self, checkpoint: Checkpoint) -> None:
        """Remember that an entry exists, without writing it down."""
        if checkpoint.order > self.floor(checkpoint.population):
            self._seen[checkpoint.population] = checkpoint

    def is_written(self, checkpoint: Checkpoint) -> bool:
        """Tell whether this process has written a checkpoint down, or a higher one."""
        return checkpoint.order <= self._written.get(checkpoint.population, (0, 0))

    def refresh(self) -> None:
        """Notice what other processes of this machine have written since the last time.

        Raises
        ------
        AnchorError
        """
        try:
            found = os.stat(self._file.path)
            if found.st_size == self._read_up_to and identify(found) == self._read_file:
                return
            with self._reading:
                descriptor = self._read.descriptor()
                opened = identify(os.fstat(descriptor))
                if opened != self._read_file or (
                    self._read_up_to and os.pread(descriptor, 1, self._read_up_to - 1) != b"\n"
                ):
                    self._read_up_to, self._read_file = 0, opened  # another file was put in its place: read all of it
                with open(descriptor, "rb", closefd=False) as file:
                    file.seek(self._read_up_to)
                    new = file.read()
                whole = new[: new.rfind(b"\n") + 1]
                for signed in self._parse(whole):
                    self.notice(signed.checkpoint)
                self._read_up_to += len(whole)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._fails("read", error) from None

    def move(self, signed: SignedCheckpoint) -> None:
        """Write a checkpoint down, unless a higher one of its population is.

        Whoever waits for the file is written with whoever comes first: one write, and one wait for the disk, for all.

        Raises
        ------
        AnchorError
        """
        population, order = signed.checkpoint.population, signed.checkpoint.order
        if self.is_written(signed.checkpoint):
            return
        with self._guard:
            waiting = self._waiting.get(population)
            if waiting is None or waiting.checkpoint.order < order:
                self._waiting[population] = signed
        with self._in_line():
            if self.is_written(signed.checkpoint):
                return
            with self._guard:
                batch, self._waiting = self._waiting, {}
            best = batch.get(population)
            if best is None or best.checkpoint.order < order:  # whoever took it with theirs could not write
                batch[population] = signed
            try:
                with self._locked():
                    self._append(batch)
            except OSError as error:
                raise self._fails("written", error) from None
            for written in batch.values():
                self.notice(written.checkpoint)
                self._written[written.checkpoint.population] = written.checkpoint.order

    def keep(self, signed: SignedCheckpoint) -> None:
        """Write down what a client brought: evidence of a history that this process does not have.

        Raises
        ------
        AnchorError
        """
        try:
            with self._in_line(), self._locked():
                self._append({signed.checkpoint.population: signed})
        except OSError as error:
            raise self._fails("written", error) from None

    def compact(self, is_needed: Callable[[SignedCheckpoint], bool]) -> None:
        """Leave out the lines that are not needed, durably.

        Raises
        ------
        AnchorError
        """
        try:
            with self._in_line(), self._locked():
                self._replace(_lines([signed for signed in self.log() if is_needed(signed)]))
        except OSError as error:
            raise self._fails("written", error) from None

    def _fails(self, to_be: str, error: OSError) -> AnchorError:
        self.failed_at = time.monotonic()
        return AnchorError(f"the anchor in {self.folder} cannot be {to_be}: {error.strerror}")

    def read(self) -> dict[str, SignedCheckpoint]:
        """Return the highest checkpoint of each population: two processes may have written in another order than that.

        Raises
        ------
        AnchorError
        """
        found: dict[str, SignedCheckpoint] = {}
        for signed in self.log():
            before = found.get(signed.checkpoint.population)
            if before is None or signed.checkpoint.order > before.checkpoint.order:
                found[signed.checkpoint.population] = signed
        return found

    def log(self) -> list[SignedCheckpoint]:
        """Return every checkpoint, in the order in which they were written; none if there is no file.

        Raises
        ------
        AnchorError
            If the file holds something else than checkpoints. A last line that was cut short, as by a loss of power,
            is left out.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._fails("read", error) from None
        return self._parse(content)

    def _parse(self, content: bytes) -> list[SignedCheckpoint]:
        *lines, _cut = content.split(b"\n")
        try:
            return [SignedCheckpoint.read(from_json(line)) for line in lines]
        except (ValueError, KeyError, TypeError):
            raise AnchorError(f"{self.path} holds a line that is no checkpoint") from None

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        """Wait for this process's turn: no longer than whoever has it may wait for the file."""
        if not self._turn.acquire(timeout=db.BUSY_TIMEOUT_MS / 1000):
            raise AnchorError(f"the anchor in {self.folder} is being written for too long")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = self._lock.descriptor()
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self._lock.descriptor()
        _lock_in_time(lock)
        try:
            yield
        except OSError:
            self._file.close()  # what a disk has failed on is opened anew
            raise
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    def _append(self, batch: Mapping[str, SignedCheckpoint]) -> None:
        lines = _lines(batch.values())
        descriptor = self._file.descriptor()
        size, found = _whole_lines(descriptor)
        if found > size:
            self._leave_torn_line_behind(size)
            descriptor = self._file.descriptor()
        if os.pwrite(descriptor, lines, size) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fdatasync(descriptor)
        if size == 0:
            sync(self.folder)
        with self._reading:
            # Nobody else wrote in between: there is nothing to read.
            if self._read_up_to == size and self._read_file == identify(os.fstat(descriptor)):
                self._read_up_to += len(lines)

    def _leave_torn_line_behind(self, size: int) -> None:
        """Put a copy of the whole lines in the file's place.

        Who reads takes no lock, so what somebody may have begun to read never changes: a line written over a torn one
        would be read as the end of it.
        """
        self._replace(self.path.read_bytes()[:size])

    def _replace(self, content: bytes) -> None:
        copy = self.folder / ".checkpoints"
        with open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        copy.replace(self.path)
        sync(self.folder)


class _KeptOpen:
    """A file that stays open for as long as its name stands for it; one thread at a time uses it.

    A process that was forked opens its own: it would have its parent's locks with the descriptor.
    """

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self.path, self.flags = os.fspath(path), flags
        self._opened: tuple[int, tuple[int, int], int] | None = None

    def descriptor(self) -> int:
        """Return a descriptor of the file that has the name now."""
        if self._opened is not None:
            descriptor, identity, process = self._opened
            with suppress(FileNotFoundError):
                if identify(os.stat(self.path)) == identity and process == os.getpid():
                    return descriptor
        descriptor = os.open(self.path, self.flags, 0o600)
        self.close()
        self._opened = descriptor, identify(os.fstat(descriptor)), os.getpid()
        return descriptor

    def close(self) -> None:
        """Close it, until it is asked for again."""
        if self._opened is not None:
            (descriptor, *_), self._opened = self._opened, None
            os.close(descriptor)

    __del__ = close


def _lock_in_time(descriptor: int) -> None:
    """Lock a file, or give up when whoever has it does not go on, as a process that was stopped."""
    end = time.monotonic() + db.BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.001)
        else:
            return


def _lines(checkpoints: Iterable[SignedCheckpoint]) -> bytes:
    return b"".join(canonical(signed.payload).encode() + b"\n" for signed in checkpoints)


def _whole_lines(descriptor: int) -> tuple[int, int]:
    """Return where the last whole line ends, and where the file does."""
    end = size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) == b"\n":
        return size, size
    while end:
        start = max(0, end - 4096)
        last = os.pread(descriptor, end - start, start).rfind(b"\n")
        if last >= 0:
            return start + last + 1, size
        end = start
    return 0, size
