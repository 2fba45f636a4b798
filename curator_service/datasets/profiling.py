"""Guesses at the columns of a source, from all of its rows or from blocks."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from curator_service.datasets.candidates import ShownWords
from curator_service.datasets.manifest import COLUMNS_MAX, Manifest
from curator_service.datasets.profiles import ADDRESS, DATE, MISSING_WORDS, Profile
from curator_service.datasets.report import Fault, GatheredFaults
from curator_service.datasets.sources.base import MalformedSource, Progress, Source, TextsTooLong, read_batches
from curator_service.privacy.sums import ROW_CAPACITY_MAX

FAULTY_SHARE_MAX = 0.01
"""Of the lines that cannot be read; beyond it there is no draft."""
_HEADER_MAX = 200
_NUMBER = re.compile(r"[-+]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?")
_BLOCK_ROWS, _BLOCK_EVERY = 100, 50
"""Behind the first rows one block of so many is looked at, of so many blocks."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """Observations of a source.

    Attributes
    ----------
    columns : list of Profile
    left_out : list of str
        Columns that cannot be read, and why.
    rows : int
    is_whole : bool
        Whether all rows were looked at, and not blocks of them.
    faults : tuple of Fault
        Of lines that could not be read.
    """

    columns: list[Profile]
    left_out: list[str]
    rows: int
    is_whole: bool
    faults: tuple[Fault, ...]


def profile_columns(
    source: Source,
    rows_max: int | None,
    progress: Progress = lambda _rows, _share: None,
    *,
    is_declared: bool = False,
) -> Profiles:
    """Read rows of a source without a manifest.

    Parameters
    ----------
    rows_max : int or None
        Behind so many rows blocks of the rest are looked at; None looks at all rows.
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.
    is_declared : bool
        Whether the header was declared, and is none of the source's lines.

    Raises
    ------
    IngestError
    """
    headers, left_out = source.list_columns(), []
    if not is_declared:
        _check_header(source, headers)
    readable = []
    for place, header in enumerate(headers):
        if not header.strip():
            left_out.append(f"column {place + 1} has no name")
        elif len(header) > _HEADER_MAX or not header.isprintable() or header != header.strip():
            left_out.append(f"column {place + 1} has a name that is too long, or not printable")
        else:
            readable.append(header)
    while True:
        if len(readable) > COLUMNS_MAX or not readable:
            raise MalformedSource(
                f"{source.label}: {len(readable)} columns that can be read; a manifest has 1 to {COLUMNS_MAX}"
            )
        try:
            found = _profile(source, readable, left_out, rows_max, progress)
        except TextsTooLong as error:
            readable.remove(error.column)
            left_out.append(f"{error.column!r} holds texts too long for a table")
        else:
            break
    if not is_declared:
        for profile in found.columns:
            if profile.has_header or (profile.are_like_header and profile.present):
                place = headers.index(profile.header)
                raise _refuse_header(source, place, "is among the values of its column, or of their form")
    return found


def _check_header(source: Source, headers: Sequence[str]) -> None:
    """Refuse a first line that seems to be a row; the message shows nothing of it."""
    for place, header in enumerate(headers):
        word = header.strip()
        if not word:
            continue
        if headers.count(header) > 1:
            raise _refuse_header(source, place, "stands there more than once")
        if _NUMBER.fullmatch(word):
            raise _refuse_header(source, place, "is a number")
        if word in MISSING_WORDS or re.match(DATE, word) or ADDRESS.fullmatch(word):
            raise _refuse_header(source, place, "is a date, an address or a word for a missing value")


def _refuse_header(source: Source, place: int, rule: str) -> MalformedSource:
    said = f"{source.label}: the name of column {place + 1} {rule}, so the first line may be a person's row"
    ways = "if the file has no header, name its columns with `curator manifest draft --header`; if it has one, give "
    ways += "that column another name"
    return MalformedSource(f"{said}: {ways}")


def _profile(
    source: Source, headers: Sequence[str], left_out: list[str], rows_max: int | None, progress: Progress
) -> Profiles:
    profiles, rows, is_whole = [Profile(header) for header in headers], 0, True
    declared = [{"name": f"c{i}", "type": "boolean", "source": header} for i, header in enumerate(headers)]
    probe = Manifest.model_validate(
        {"name": "draft", "population": "draft", "row_capacity": ROW_CAPACITY_MAX, "columns": declared}
    )
    faults, shown = GatheredFaults(source), ShownWords(profiles)
    with closing(read_batches(probe, source, faults, lambda raw: raw)) as batches:
        for number, (raw, _) in enumerate(batches):
            count = len(raw.columns[0])
            places = np.arange(count)
            if rows_max is not None and rows + count > rows_max:
                in_block = (places // _BLOCK_ROWS + number) % _BLOCK_EVERY == 0
                places, is_whole = places[(places < rows_max - rows) | in_block], False
            taken = pa.array(places)
            shown.add([
                profile.add(array if len(places) == count else array.take(taken), source.decimal)
                for profile, array in zip(profiles, raw.columns, strict=True)
            ])  # fmt: skip
            rows += count
            progress(rows, raw.share)
    shown.finish()
    return Profiles(profiles, left_out, rows, is_whole, faults.list_all())
