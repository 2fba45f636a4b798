"""Small files that must not be half written: whole replacement, a lock between processes, a private folder."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import errno
    import msvcrt

    def lock(handle: int) -> None:
        """Wait until no other process holds the file."""
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError as error:
                if error.errno != errno.EDEADLK:  # what it says after ten seconds of waiting
                    raise
            else:
                return

    def unlock(handle: int) -> None:
        """Let others hold the file."""
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(handle: int) -> None:
        """Wait until nobody else holds the file, be it another process or another client of this one."""
        fcntl.flock(handle, fcntl.LOCK_EX)

    def unlock(handle: int) -> None:
        """Let others hold the file."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def default_memory_path(url: str) -> Path:
    """Return where a user's memory of one curator is kept: a name made of its address, in the user's state folder.

    Raises
    ------
    OSError
        If this user has no home.
    """
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME"
    stated = Path(os.environ.get(variable, ""))
    if not stated.is_absolute():  # unset, or to be ignored according to the XDG specification
        try:
            stated = Path.home() / ("AppData/Local" if sys.platform == "win32" else ".local/state")
        except RuntimeError as error:
            raise OSError(str(error)) from None
    return stated / "dp-curator" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner enters; one that exists is left as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that belongs to a file; it lies beside it, for the file itself is replaced."""
    handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(handle)
        try:
            yield
        finally:
            unlock(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: beside its place, to the disk, then moved. Its owner alone may read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if sys.platform != "win32":  # the new name is durable only when its folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
