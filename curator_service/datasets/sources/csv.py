"""Rows of a CSV file, checked against a manifest: the only reader of raw values."""

import csv
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.batches import SourceBatch
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sketch import Sketcher, Values, code_levels, code_numbers, code_words
from curator_service.kit.files import open_regular
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, StoredArray, to_stored

_CHUNK_ROWS = 50_000
_CHUNK_CHARACTERS = 2**25
_LINE_CHARACTERS_MAX = 2**22
"""A line is held in memory many times over before its fields are counted."""
_BOOLEAN_WORDS = {"false": 0, "0": 0, "true": 1, "1": 1}

Progress = Callable[[float], None]


class IngestError(ValueError):
    """The file breaks the manifest; the message names file, line and column, for the admin, and shows no value."""


def iterate_rows(manifest: Manifest, source: Path, sketcher: Sketcher, progress: Progress) -> Iterator[SourceBatch]:
    """Yield the rows of a file in order, as stored integers.

    Parameters
    ----------
    manifest : Manifest
    source : Path
        UTF-8, with a header that names at least the declared columns; others are not read.
    sketcher : Sketcher
        Sees raw values, before the lattice.
    progress : callable
        Called with the share of the file that was read.

    Raises
    ------
    IngestError
        Naming file, line and column, and showing no value.
    """
    columns = [declaration.column for declaration in manifest.columns]
    names = [*([] if manifest.subject is None else [manifest.subject]), *(column.name for column in columns)]

    def parse(rows: list[list[str]], lines: list[int]) -> SourceBatch:
        stored, values = _parse_columns(columns, names, rows, lines, source)
        if manifest.subject is None:
            sketcher.add(values)
            return SourceBatch(stored, None, len(rows))
        subjects = _parse_subjects(manifest.subject, names, rows, lines, source)
        sketcher.add(values, code_words(subjects))
        return SourceBatch(stored, subjects, len(rows))

    try:
        with _open_source(source) as binary:
            size = max(os.fstat(binary.fileno()).st_size, 1)
            text = open(binary.fileno(), encoding="utf-8-sig", newline="", closefd=False)  # noqa: SIM115 -- of `binary`
            reader = csv.reader(_read_lines(text, source), strict=True)
            header = _check_header(names, next(reader, None), source)
            positions = [header.index(name) for name in names]
            rows: list[list[str]] = []
            lines: list[int] = []
            held = 0
            start = reader.line_num + 1
            for row in reader:
                if reader.line_num != start:
                    raise IngestError(
                        f"{source}, line {start}: a field goes on beyond the end of its line. One row is one line: a "
                        "quote that is not closed would swallow other rows. Close it, or leave out columns of free text"
                    )
                if row or len(header) == 1:  # a blank line is no row, unless the one field of a row is missing
                    fields = row or [""]
                    if len(fields) != len(header):
                        raise IngestError(
                            f"{source}, line {start}: {len(fields)} fields where the header has {len(header)}"
                        )
                    rows.append([fields[position] for position in positions])
                    lines.append(start)
                    held += sum(map(len, rows[-1]))
                start = reader.line_num + 1
                if len(rows) == _CHUNK_ROWS or held > _CHUNK_CHARACTERS:
                    yield parse(rows, lines)
                    progress(os.lseek(binary.fileno(), 0, os.SEEK_CUR) / size)
                    rows, lines, held = [], [], 0
            if rows:
                yield parse(rows, lines)
            progress(1.0)
    except UnicodeDecodeError:
        raise IngestError(f"{source}: not UTF-8 text") from None
    except csv.Error as error:
        raise IngestError(f"{source}, line {reader.line_num}: {error}") from None


def _open_source(source: Path) -> BinaryIO:
    try:
        return open_regular(source)
    except ValueError as error:
        raise IngestError(f"{source}: {error}") from None


def _read_lines(text: TextIO, source: Path) -> Iterator[str]:
    number = 0
    while line := text.readline(_LINE_CHARACTERS_MAX + 1):
        number += 1
        if len(line) > _LINE_CHARACTERS_MAX:
            raise IngestError(f"{source}, line {number}: longer than {_LINE_CHARACTERS_MAX} characters; is it a table?")
        yield line


def _check_header(declared: Sequence[str], header: list[str] | None, source: Path) -> list[str]:
    if header is None:
        raise IngestError(f"{source}, line 1: the file is empty; it needs a header")
    names = [name.strip() for name in header]
    for name in declared:
        if names.count(name) != 1:
            found = "no column" if name not in names else "more than one column"
            raise IngestError(f"{source}, line 1: {found} {name!r}, which the manifest declares")
    return names


def _parse_columns(
    columns: Sequence[Column], header: Sequence[str], rows: list[list[str]], lines: list[int], source: Path
) -> tuple[dict[str, StoredArray], list[Values]]:
    stored, raw = {}, []
    for column in columns:
        position = header.index(column.name)
        words = pc.utf8_trim_whitespace(pa.array([row[position] for row in rows], pa.string()))
        values, codes, problem = _parse_words(column, words)
        if problem is None and column.missing is MissingRule.COMPLETE and (values == MISSING).any():
            problem = int(np.argmax(values == MISSING)), "is missing, and the manifest declares it complete"
        if problem is not None:
            index, reason = problem
            raise IngestError(f"{source}, line {lines[index]}, column {column.name!r}: the value {reason}")
        assert codes is not None
        stored[column.name] = values
        raw.append(codes)
    return stored, raw


def _parse_subjects(
    subject: str, header: Sequence[str], rows: list[list[str]], lines: list[int], source: Path
) -> list[str]:
    position = header.index(subject)
    words = [_fold(row[position]) for row in rows]
    if "" in words:
        line = lines[words.index("")]
        raise IngestError(f"{source}, line {line}, column {subject!r}: the subject is missing; whose row is it?")
    return words


def _fold(subject: str) -> str:
    """Return what look-alikes have in common: taking two persons for one is safe, taking one for two is not."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", subject).casefold())
    return "".join(c for c in folded if unicodedata.category(c) not in {"Cf", "Cc", "Zs", "Zl", "Zp"})


def _parse_words(column: Column, words: pa.StringArray) -> tuple[StoredArray, Values | None, tuple[int, str] | None]:
    """Return stored integers, what a sketch sees, and the first word that breaks the declaration, with the rule."""
    if column.type is ColumnType.NUMERIC:
        blank = pc.equal(words, "")
        filled = pc.if_else(blank, "nan", words)
        try:
            numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            index = next(i for i, word in enumerate(filled.to_pylist()) if not _is_number(word))
            return np.empty(0, np.int32), None, (index, "is not a number")
        if np.isinf(numbers).any():
            wrong = int(np.argmax(np.isinf(numbers))), "is not a number, but an infinity"
            return np.empty(0, np.int32), None, wrong
        return to_stored(numbers, column.lower, column.upper), code_numbers(numbers), None
    coded = code_words_stored(column, words)
    if (coded == -1).any():
        wrong = int(np.argmax(coded == -1)), f"is not one of the declared levels {', '.join(column.levels)}"
        return coded, None, wrong
    return coded, code_levels(column.levels, coded), None


def code_words_stored(column: Column, words: pa.StringArray) -> StoredArray:
    """Return stored integers of words without spaces around them: −1 for one that is no declared level."""
    codes = {level: code for code, level in enumerate(column.levels)}
    if column.type is ColumnType.BOOLEAN and column.levels == ("false", "true"):
        codes, words = _BOOLEAN_WORDS, pc.utf8_lower(words)
    return np.array([codes.get(word, -1) if word else MISSING for word in words.to_pylist()], dtype=np.int32)


def _is_number(word: str) -> bool:
    with suppress(pa.ArrowInvalid):
        pc.cast(pa.array([word]), pa.float64())
        return True
    return False
