"""Sources of rows: raw columns in batches, and the place of each row."""

import os
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from curator_service.datasets.keys import looks_like_key
from curator_service.datasets.manifest import Manifest

_T = TypeVar("_T")
_END: Any = object()
BATCH_ROWS = 50_000
BATCH_CHARACTERS = 2**25
"""Of declared columns, where rows are text: a batch ends with the row that goes beyond."""

KEY_CHARACTERS_MAX = 200
"""Of a value of a column that looks like a key and is not declared: a longer text is none, and is not held."""

Progress = Callable[[int, float | None], None]
"""Called with the number of rows that were read, and their share of all, where it is known."""


class IngestError(ValueError):
    """The rows break the manifest; the message names file, line and column, for the admin, and shows no value."""


class MalformedSource(IngestError):
    """A source is not written as a table is; the message counts no rows, so that a page may show it."""


class TextsTooLong(IngestError):
    """A column holds texts that are no values of a table."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


class Faults:
    """Takes what breaks the manifest. This one ends the reading at the first fault; others may gather them."""

    def __init__(self, source: "Source") -> None:
        self._source = source

    def add(self, rule: str, places: Sequence[int] | None, column: str | None = None) -> None:
        """Take a fault.

        Parameters
        ----------
        rule : str
            What is wrong; it shows no value.
        places : sequence of int or None
            Of the rows, at least one; None of a whole column.

        Raises
        ------
        IngestError
            Unless the rows behind it shall be read too.
        """
        place = "" if places is None else f", {self._source.place} {places[0]}"
        raise IngestError(f"{self._source.label}{place}{'' if column is None else f', column {column!r}'}: {rule}")


class Doubt(Exception):
    """The fast reader of a source leaves the decision to the careful one; the rows may be right."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Rows as a source has them.

    Attributes
    ----------
    columns : sequence of pa.Array
        The columns of the subject, where one is declared, and the declared columns in order: words, or typed values.
    places : sequence of int or None
        Where each row is, for messages; None from a reader that does not know, and leaves every doubt to another.
    share : float or None
        How much of the source was read.
    keys : mapping of str to pa.Array
        The columns that the manifest does not declare and that look like keys: see `find_keys`.
    """

    columns: Sequence[pa.Array]
    places: Sequence[int] | None
    share: float | None
    keys: Mapping[str, pa.Array] = field(default_factory=dict)


class Source(Protocol):
    """Rows to register. Where rows are cut into batches follows from the rows alone: it decides what is sketched."""

    @property
    def label(self) -> str:
        """Name in messages."""

    @property
    def place(self) -> str:
        """Unit of the number of a row: lines, or rows."""

    @property
    def decimal(self) -> str:
        """The decimal sign of words."""

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield the declared columns of every row, in order.

        Raises
        ------
        IngestError
        Doubt
            If `reread` has to decide.
        """

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield the same batches once more, from the first one, and where each row is.

        Raises
        ------
        IngestError
        """

    def list_columns(self) -> list[str]:
        """Return what the columns that can be read are called, in order.

        Raises
        ------
        IngestError
        """

    def close(self) -> None:
        """Give up what a reading that was left before its end holds."""

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes that were read, when all were; empty where a source has none."""


def read_ahead(items: Generator[_T]) -> Generator[_T]:
    """Yield items while a thread makes the next one; when this is closed, so are they, and no thread is left."""
    with closing(items), ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(next, items, _END)
        while (item := ahead.result()) is not _END:
            ahead = pool.submit(next, items, _END)
            yield item


def read_batches(
    manifest: Manifest, source: Source, faults: Faults, use: Callable[[RawBatch], _T]
) -> Generator[tuple[RawBatch, _T]]:
    """Yield batches and what is made of each; where a reader or `use` is in doubt, the careful reader goes on.

    Raises
    ------
    IngestError
    """
    done = 0
    try:
        with closing(source.read(manifest)) as batches:
            for raw in batches:
                used = use(raw)
                done += 1
                yield raw, used
    except Doubt:
        pass
    else:
        return
    with closing(source.reread(manifest, faults)) as batches:
        for number, raw in enumerate(batches):
            if number >= done:
                yield raw, use(raw)


def list_headers(manifest: Manifest) -> list[str]:
    """Return what the columns of a raw batch are called in the source."""
    return [*manifest.subject_columns, *(declaration.header for declaration in manifest.columns)]


def find_keys(manifest: Manifest, found: Sequence[str]) -> list[str]:
    """Return the columns of a source that the manifest does not declare, and that look like keys of its persons."""
    declared, counts = {*list_headers(manifest), *manifest.not_persons}, Counter(found)
    return [name for name in found if counts[name] == 1 and name not in declared and looks_like_key(name)]


def check_columns(declared: Sequence[str], found: Sequence[str], place: str) -> None:
    """Refuse a source that has not each declared column, once; the message names all of those.

    Raises
    ------
    IngestError
    """
    counts = Counter(found)
    wrong = {
        how: [name for name in declared if (counts[name] > 1) is repeated and counts[name] != 1]
        for how, repeated in (("no column", False), ("more than one column", True))
    }
    said = [f"{how} {', '.join(map(repr, names))}" for how, names in wrong.items() if names]
    if said:
        raise IngestError(f"{place}: {', and '.join(said)}, which the manifest declares")


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, copied only where it has to be."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def look_of(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes when somebody writes into a file."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
