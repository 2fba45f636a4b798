"""What writing durably takes, and opening what an operator names."""

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
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file: what comes out of a pipe or a device goes into a file first")
    return os.fdopen(descriptor, "rb")


def sync(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
