"""Write files so that they survive a power cut, open files that an operator names, and lock."""

import fcntl
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read: a device or a pipe may have no end, or never begin.

    Raises
    ------
    ValueError
        If it is something else; it names no path.
    """
    # Without O_NONBLOCK the opening of a pipe waits for whoever writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (not found.st_size and _has_bytes(descriptor)):
        os.close(descriptor)
        raise ValueError("not a regular file: what comes out of a pipe or a device goes into a file first")
    return os.fdopen(descriptor, "rb")


def _has_bytes(descriptor: int) -> bool:
    """Return True if a file of size 0 has bytes, or cannot say: a kernel makes some up as they are read."""
    try:
        return bool(os.pread(descriptor, 1, 0))
    except OSError:
        return True


def write_private(path: Path, text: str) -> None:
    """Write a text into a file that its owner alone reads, whoever might have read the file that was there."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
            file.truncate()
        file.write(text)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, flags: int = 0) -> int | None:
    """Open a file and lock it until its descriptor is closed; None if somebody has it."""
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


def identify(found: os.stat_result) -> tuple[int, int]:
    """Return the file's identity, which is equal for two names of one file."""
    return found.st_dev, found.st_ino


def is_named(descriptor: int, path: Path) -> bool:
    """Return whether a file still has its name."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))
