"""The memory of one curator's ledger: kept in a file that several clients share, or in this process alone."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from analyst_client.errors import LedgerMemoryError, ServiceError
from analyst_client.forks import renew_in_forks
from analyst_client.ledger.files import default_memory_path, locked, make_private_folder, replace_file
from analyst_client.ledger.history import LedgerHistory

MemoryPlace: TypeAlias = Path | Literal["default"] | None
Stamp: TypeAlias = tuple[int, int, int]


class Memory:
    """Memory of a curator's ledger, shared by threads and, through a file, by processes.

    A memory that cannot be read is refused: forgetting silently would let a curator that was wound back pass.

    Parameters
    ----------
    place : Path, "default" or None
        The file; ``"default"`` is one for each curator in the user's state folder; None is this process alone.
    curator : str
        The curator's address.

    Raises
    ------
    ValueError
        If `place` is none of these.
    LedgerMemoryError
        If the file cannot be read or understood.
    """

    def __init__(self, place: MemoryPlace, curator: str) -> None:
        if place == "default":
            try:
                place = default_memory_path(curator)
            except OSError as error:
                raise LedgerMemoryError(f"no folder for what was seen of the ledger ({error}): give memory=") from None
        if not (place is None or isinstance(place, Path)):
            raise ValueError('memory must be a pathlib.Path, "default", or None')
        self.path = place
        self._curator = curator
        self.start_anew()
        renew_in_forks(self)
        self._state = LedgerHistory()
        self._on_disk = LedgerHistory()
        self._stamp: Stamp | None = None
        self.refresh()

    def start_anew(self) -> None:
        """Make the lock of threads anew: in a fork, the thread that holds it may not be there."""
        self._lock = threading.Lock()

    def refresh(self) -> LedgerHistory:
        """Return the remembered history, with the additions of other processes."""
        with self._lock:
            if self.path is not None and self._read_stamp() not in {None, self._stamp}:
                with self._exclusive():
                    self._absorb()
            return self._state

    def prepare(self) -> None:
        """Find out before anything is charged whether the file can be kept."""
        if self.path is not None:
            with self._lock, self._exclusive():
                pass

    def update(self, change: Callable[[LedgerHistory], LedgerHistory]) -> None:
        """Change what is remembered, in one step for all threads and processes.

        Parameters
        ----------
        change : callable
            Gets what is remembered and returns what is to be; what it raises leaves everything as it was.
        """
        with self._lock, self._exclusive():
            if self.path is not None:
                self._absorb()
            changed = change(self._state)
            if self.path is not None and changed != self._on_disk:
                self._write(self.path, changed)
            self._state = changed

    def _absorb(self) -> None:
        """Add what the file holds."""
        stamp = self._read_stamp()
        on_disk = LedgerHistory() if stamp is None else self._read()
        self._state = self._state.merged(on_disk)
        self._on_disk, self._stamp = on_disk, stamp

    def _read_stamp(self) -> Stamp | None:
        assert self.path is not None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable("read", error) from None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> LedgerHistory:
        assert self.path is not None
        try:
            return LedgerHistory.from_json(self.path.read_bytes().decode("utf-8"))
        except OSError as error:
            raise self._unusable("read", error) from None
        except (ValueError, ServiceError) as error:
            said = str(error).removeprefix("malformed answer: ")
            raise LedgerMemoryError(
                f"{self.path} is damaged: {said}. It holds what this curator signed before; without it a ledger that "
                "was wound back cannot be told. Put back a copy of it; or, if nobody can have tampered with the "
                "curator, move it away, and the next answer is trusted as a first one. memory= names another file.",
                path=self.path,
            ) from None

    def _write(self, path: Path, state: LedgerHistory) -> None:
        try:
            replace_file(path, state.to_json(self._curator))
        except OSError as error:
            raise self._unusable("written", error) from None
        self._on_disk, self._stamp = state, self._read_stamp()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other processes out."""
        if self.path is None:
            yield
            return
        with ExitStack() as held:
            try:
                make_private_folder(self.path.parent)
                held.enter_context(locked(self.path))
            except OSError as error:
                raise self._unusable("locked", error) from None
            yield

    def _unusable(self, done: str, error: OSError) -> LedgerMemoryError:
        return LedgerMemoryError(
            f"{self.path} cannot be {done} ({os.strerror(error.errno) if error.errno else error}): it is to hold what "
            "this curator signed. Make its folder writable, or give another file as memory=, or memory=None to "
            "remember nothing beyond this process.",
            path=self.path,
        )
