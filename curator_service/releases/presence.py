"""Live processes of this machine: each keeps a file locked, and the kernel lets go of it at their end."""

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from curator_service.kit.files import is_named, lock

WORKER_ID = re.compile(r"wrk_[0-9a-f]+")
_BOOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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
            for _ in range(_ATTEMPTS):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                try:
                    held = lock(path, os.O_CREAT)
                except FileNotFoundError:  # somebody swept the folder, on another machine that shares it
                    continue
                if held is None:  # somebody looks at it in this instant
                    time.sleep(_PAUSE_S)
                elif is_named(held, path):
                    self._held = held
                    os.write(held, _identify(held))
                    return True
                else:  # it was removed before it was locked
                    os.close(held)
        except OSError:
            pass
        return False

    def leave(self, worker_id: str, *, forget: bool) -> None:
        """Let go of the own lock, and remove its file if nothing is left of this process: else the next one asks it."""
        if self._held is not None:
            held, self._held = self._held, None
            folder = self.folder
            if forget and folder is not None:
                with suppress(OSError):
                    (folder / worker_id).unlink()
            os.close(held)

    def sweep(self) -> None:
        """Remove what processes of other boots left: files that nobody holds, and folders that are empty then."""
        own = self.folder
        if own is None:
            return
        with suppress(OSError):
            for folder in self._parent.iterdir():
                if _BOOT.fullmatch(folder.name) and folder != own:
                    _sweep(folder)

    def is_dead(self, worker_id: str, *, forget: bool = False) -> bool:
        """Tell whether a process that held its lock has ended; False where that is not known.

        Parameters
        ----------
        forget : bool
            Remove its file: nothing is left of it.
        """
        folder = self.folder
        if folder is None or not WORKER_ID.fullmatch(worker_id):  # from the database, which others may write
            return False
        path = folder / worker_id
        try:
            held = lock(path)
        except OSError:
            return False
        if held is None:
            return False
        try:
            dead = is_named(held, path) and os.read(held, _IDENTITY_MAX) == _identify(held)
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


def _sweep(folder: Path) -> None:
    for path in list(folder.iterdir()):
        held = lock(path) if WORKER_ID.fullmatch(path.name) else None
        if held is not None:
            if is_named(held, path):  # else somebody else swept it, and another process may have the name by now
                path.unlink()
            os.close(held)
    with suppress(OSError):  # something is held, or is not of a process
        folder.rmdir()


def _identify(descriptor: int) -> bytes:
    """Return what a file says of itself, and a copy of it does not say truly."""
    status = os.fstat(descriptor)
    return f"{status.st_dev} {status.st_ino}\n".encode()
