"""Times and results of the operator's tasks: commands note them, and the server shows them."""

import os
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from curator_service.kit.files import write_private


class Milestone(StrEnum):
    """A task that a timer runs; each is a file in the data folder."""

    LEDGER_VERIFIED = "ledger_verified"
    BACKUP_WRITTEN = "backup_written"


class Noted(NamedTuple):
    """The end of a task in seconds since 1970, and its success."""

    at: float
    is_well: bool


_WELL = "well"


def note(folder: Path, milestone: Milestone, *, is_well: bool = True) -> bool:
    """Note that a task has ended now.

    Parameters
    ----------
    folder : Path
        The data folder.
    is_well : bool
        Whether all was well.

    Returns
    -------
    bool
        Whether it could be noted.
    """
    file = folder / milestone
    fresh = file.with_suffix(f".{os.getpid()}")
    try:
        write_private(fresh, _WELL if is_well else "broken")
        fresh.replace(file)
    except OSError:
        return False
    return True


def find(folder: Path, milestone: Milestone) -> Noted | None:
    """Return how a task ended last; None where it never did, or that cannot be read."""
    file = folder / milestone
    try:
        return Noted(file.stat().st_mtime, file.read_text(encoding="ascii") == _WELL)
    except (OSError, ValueError):
        return None
