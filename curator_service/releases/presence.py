"""Which processes of this machine live: each keeps a file locked, and the kernel lets go of it at their end."""

import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

WORKER_ID = re.compile(r"wrk_[0-9a-f]+")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_IDENTITY_MAX = 100
_ATTEMPTS, _PAUSE_S = 100, 0.01


class Presence:
    """Locks of the processes that run on one kernel.

    A lock is held from before a process reserves anything until it ends, however it ends, stopped ones included. So
    a file that can be locked is of a process that is dead: no clock is asked. The files of each boot are in a folder
    of their own, so that nothing is concluded of a process on another machine, or before this one was started anew:
    these are left to their lease. Each file says which one it is, by device and inode: the copy of one, as of a folder
    that was moved to another disk, is locked by nobody, and tells nothing.

    Parameters
    ----------
    folder : Path
        On a disk of this machine.
    """

    def __init__(self, folder: Path) -> None:
        self._parent = folder
        self._held: int | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of this boot; None on a system that does not tell one from another."""
        try:
            return self._parent / _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            return None

    def announce(self, worker_id: str) -> bool:
        """Hold the lock of a process until it ends; False where that is not possible."""
        folder = self.folder
        if folder is None:
            return False
        path = folder / worker_id
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for _ in range(_ATTEMPTS):
                held = _lock(path, os.O_CREAT)
                if held is None:  # somebody looks at it in this instant
                    time.sleep(_PAUSE_S)
                elif _is_named(held, path):
                    self._held = held
                    os.write(held, _identify(held))
                    return True
                else:  # it was removed before it was locked
                    os.close(held)
        except OSError:
            pass
        return False

    def leave(self, worker_id: str) -> None:
        """Let go of the own lock."""
        if self._held is not None:
            held, self._held = self._held, None
            folder = self.folder
            if folder is not None:
                with suppress(OSError):  # it tells that the process has ended
                    (folder / worker_id).unlink()
            os.close(held)

    def is_dead(self, worker_id: str, *, forget: bool = False) -> bool:
        """Tell whether a process that held its lock has ended; False where that is not known.

        Parameters
        ----------
        worker_id : str
        forget : bool
            Remove its file: nothing is left of it.
        """
        folder = self.folder
        if folder is None or not WORKER_ID.fullmatch(worker_id):  # from the database, which others may write
            return False
        path = folder / worker_id
        try:
            held = _lock(path)
        except OSError:
            return False
        if held is None:
            return False
        try:
            dead = _is_named(held, path) and os.read(held, _IDENTITY_MAX) == _identify(held)
            if dead and forget:
                path.unlink()
        except OSError:
            return False
        finally:
            os.close(held)
        return dead

    def list_known(self) -> list[str]:
        """Return the processes that announced themselves since the machine was started."""
        folder = self.folder
        try:
            return [] if folder is None else os.listdir(folder)
        except OSError:
            return []


def _lock(path: Path, flags: int = 0) -> int | None:
    """Open a file and lock it; None if somebody has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _identify(descriptor: int) -> bytes:
    """Return what a file says of itself, and a copy of it does not say truly."""
    status = os.fstat(descriptor)
    return f"{status.st_dev} {status.st_ino}\n".encode()


def _is_named(descriptor: int, path: Path) -> bool:
    """Tell whether a file still has its name."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))
