"""Tries of the last day, in a file: a bound on questions whose answers tell a little of the rows."""

import fcntl
import os
from datetime import datetime, timedelta
from pathlib import Path

from curator_service.kit.clock import timestamp
from curator_service.kit.files import sync

_SPAN = timedelta(days=1)


class Tries:
    """Counts what is tried: each try before it is made, in a file that no restore brings back.

    Parameters
    ----------
    path : Path
        In the folder of the anchor.
    tries_max : int
        Within a day.
    """

    def __init__(self, path: Path, tries_max: int) -> None:
        self._path, self._tries_max = path, tries_max

    def take(self, moment: datetime) -> bool:
        """Count a try, durably; False where as many were made within a day as may be."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "a+b") as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            file.seek(0)
            since = timestamp(moment - _SPAN).encode()
            if sum(line > since for line in file.read().splitlines()) >= self._tries_max:
                return False
            file.write(timestamp(moment).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        sync(self._path.parent)
        return True
