"""Reading rows in a process of its own, in memory bounded by public numbers: a file may be a bomb, or forged."""

from collections.abc import Callable
from typing import Any

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.base import IngestError, Progress
from curator_service.kit.apart import Bounds, Told, WorkEnded, WorkRefused, work_apart

_MEMORY_BYTES = 2**29
_COLUMNS_FREE, _COLUMN_BYTES = 16, 2**24
"""Columns within `_MEMORY_BYTES`, and what each further one needs at most: batches have up to 50,000 rows of it."""
_PERSON_BYTES, _IDENTIFIED_BYTES = 2, 2**9
"""For each row: what is looked through at once of persons, and whose identifier was written already."""
_PROCESSOR_S = 600
_ROWS_PER_SECOND = 500
"""Of rows as wide as they may be, by the careful reader."""


def bound_reading(manifest: Manifest, *, keeps_identifiers: bool = False) -> Bounds:
    """Return what a reading of all rows may take: 512 MiB, and more for many columns and for persons.

    Parameters
    ----------
    keeps_identifiers : bool
        Whether identifiers are kept, encrypted.
    """
    person_bytes = _IDENTIFIED_BYTES if keeps_identifiers else _PERSON_BYTES
    persons = 0 if manifest.subject is None else manifest.row_capacity
    columns = max(len(manifest.columns) - _COLUMNS_FREE, 0)
    memory = _MEMORY_BYTES + columns * _COLUMN_BYTES + persons * person_bytes
    return Bounds(memory, _PROCESSOR_S + manifest.row_capacity // _ROWS_PER_SECOND)


def read_apart(work: Callable[[Progress], Told], label: str, bounds: Bounds, progress: Progress) -> Told:
    """Read rows in a process of its own.

    Parameters
    ----------
    work : callable
        Of what it tells how far it has come; it can be pickled, and its answer is JSON.
    label : str
        What messages call the source.
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.

    Raises
    ------
    IngestError
        That of the work, or that it was ended.
    """
    try:
        return work_apart(_Reading(work), bounds, IngestError, lambda said: progress(*said))
    except WorkRefused as error:
        refusal = str(error)
    except WorkEnded as error:
        refusal = (
            f"{label}: its reading was ended, and nothing is kept of it: {error}. A reading may take "
            f"{bounds.memory_bytes / 2**20:,.0f} MiB of memory"
        )
    raise IngestError(refusal)


class _Reading:
    """Work that tells its progress."""

    def __init__(self, work: Callable[[Progress], Told]) -> None:
        self._work = work

    def __call__(self, tell: Callable[[Any], None]) -> Told:
        return self._work(lambda rows, share: tell((rows, share)))
