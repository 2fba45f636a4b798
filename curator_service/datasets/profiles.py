"""What the columns of a source seem to be: for a draft of a manifest that a person completes."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.manifest import COLUMNS_MAX, Manifest
from curator_service.datasets.report import CODES, GatheredFaults
from curator_service.datasets.sources.base import IngestError, Source, TextsTooLong, read_batches
from curator_service.datasets.sources.coding import parse_numbers
from curator_service.kit.instants import parse_instant
from curator_service.privacy.sums import ROW_CAPACITY_MAX

MISSING_WORDS = ("NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", ".", "..", "?", "-", "--")
"""Words that stand for a missing value in many files; a number never does without a person's word."""
LEVELS_FEW = 20
"""Levels that a draft lists."""
NUMBERS_FEW = 10
"""Distinct whole numbers that may be codes of a category."""
_WORDS_KEPT = 2000
_DISTINCT_ROWS = 50_000
_HEADER_MAX = 200


@dataclass(slots=True)
class Profile:
    """What was seen of one column. Its words stay here, and only levels are ever shown.

    Attributes
    ----------
    header : str
    rows, present : int
        Rows, and those with a value, words of `MISSING_WORDS` left out.
    words : set of str
        Distinct values, as long as there are not too many.
    missing_words : set of str
        Of `MISSING_WORDS`.
    """

    header: str
    rows: int = 0
    present: int = 0
    words: set[str] = field(default_factory=set, repr=False)
    missing_words: set[str] = field(default_factory=set)
    has_few_words: bool = True
    are_numbers: bool = True
    are_whole: bool = True
    are_dates: bool = True
    are_instants: bool = True
    are_addresses: bool = True
    distinct: int = 0
    sampled: int = 0
    _codes: set[float] = field(default_factory=set, repr=False)
    _lowest: float = np.inf
    _highest: float = -np.inf

    def add(self, array: pa.Array, decimal: str) -> None:
        """Take in the next values."""
        words = pc.utf8_trim_whitespace(pc.fill_null(_to_words(array), ""))
        self.rows += len(words)
        found = pc.value_counts(words)
        counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        self.missing_words |= counts.keys() & set(MISSING_WORDS)
        fresh = [word for word in counts if word and word not in MISSING_WORDS]
        present = sum(counts[word] for word in fresh)
        if self.sampled < _DISTINCT_ROWS:
            self.distinct, self.sampled = self.distinct + len(fresh), self.sampled + present
        self.present += present
        self.has_few_words = self.has_few_words and len(self.words | set(fresh)) <= _WORDS_KEPT
        self.words = self.words | set(fresh) if self.has_few_words else set()
        self._judge(fresh, decimal)

    def _judge(self, words: Sequence[str], decimal: str) -> None:
        if self.are_numbers:
            numbers, wrong = parse_numbers(pa.array(words, pa.string()), decimal)
            self.are_numbers = not wrong.any() and bool(np.isfinite(numbers).all())
            self.are_whole = self.are_whole and self.are_numbers and bool((numbers == np.rint(numbers)).all())
        if self.are_numbers:
            found = set(numbers.tolist())
            self._codes |= found & set(CODES)
            plain = found - set(CODES)
            self._lowest, self._highest = min(self._lowest, *plain, np.inf), max(self._highest, *plain, -np.inf)
        self.are_dates = self.are_dates and all(parse_instant(word, with_time=False) is not None for word in words)
        self.are_instants = self.are_instants and all(parse_instant(word) is not None for word in words)
        self.are_addresses = self.are_addresses and all(map(_ADDRESS.fullmatch, words))

    @property
    def codes(self) -> list[int]:
        """Those of `CODES` beyond all other numbers."""
        return sorted(int(code) for code in self._codes if not self._lowest <= code <= self._highest)

    @property
    def distinct_share(self) -> float:
        """Distinct values for each row that has one, of the first rows."""
        return self.distinct / max(self.sampled, 1)


_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|[+(]?[0-9][0-9()/ .-]{6,}[0-9]")
"""E-mail addresses and telephone numbers; a number alone, or a date, is told apart before."""


def profile_columns(source: Source, rows_max: int | None) -> tuple[list[Profile], list[str], bool]:
    """Read rows of a source without a manifest.

    Parameters
    ----------
    source : Source
    rows_max : int or None
        After so many rows no further batch is read; None reads all.

    Returns
    -------
    profiles : list of Profile
    left_out : list of str
        Columns that cannot be read, and why.
    is_whole : bool
        Whether all rows were read.

    Raises
    ------
    IngestError
    """
    headers, left_out = source.list_columns(), []
    readable = []
    for place, header in enumerate(headers):
        if not header.strip():
            left_out.append(f"column {place + 1} has no name")
        elif headers.count(header) > 1:
            left_out.append(f"{header!r} is the name of more than one column")
        elif len(header) > _HEADER_MAX or not header.isprintable() or header != header.strip():
            left_out.append(f"column {place + 1} has a name that is too long, or not printable")
        else:
            readable.append(header)
    while True:
        if len(readable) > COLUMNS_MAX or not readable:
            raise IngestError(
                f"{source.label}: {len(readable)} columns that can be read; a manifest has 1 to {COLUMNS_MAX}"
            )
        try:
            profiles, is_whole = _profile(source, readable, rows_max)
        except TextsTooLong as error:
            readable.remove(error.column)
            left_out.append(f"{error.column!r} holds texts too long for a table")
        else:
            return profiles, left_out, is_whole


def _profile(source: Source, headers: Sequence[str], rows_max: int | None) -> tuple[list[Profile], bool]:
    profiles, rows = [Profile(header) for header in headers], 0
    declared = [{"name": f"c{i}", "type": "boolean", "source": header} for i, header in enumerate(headers)]
    probe = Manifest.model_validate(
        {"name": "draft", "population": "draft", "row_capacity": ROW_CAPACITY_MAX, "columns": declared}
    )
    with closing(read_batches(probe, source, GatheredFaults(source), lambda raw: raw)) as batches:
        for raw, _ in batches:
            for profile, array in zip(profiles, raw.columns, strict=True):
                profile.add(array if rows_max is None else array[: rows_max - rows], source.decimal)
            rows += len(raw.columns[0])
            if rows_max is not None and rows >= rows_max:
                return profiles, rows == rows_max and raw.share == 1.0
    return profiles, True


def _to_words(array: pa.Array) -> pa.Array:
    """Return words as a CSV file would have them."""
    kind = array.type
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), None, array)
    if pa.types.is_timestamp(kind):
        array = pc.cast(array, pa.timestamp("us"), safe=False)
    try:
        return pc.cast(array, pa.string())
    except pa.ArrowException:
        return pa.nulls(len(array), pa.string())
