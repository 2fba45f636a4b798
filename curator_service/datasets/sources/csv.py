"""Rows of a CSV file: a fast reader, and a careful one that decides where the fast one is in doubt.

The fast reader cuts the file into blocks of whole lines, looks whether quotes, line ends and text are as plain as both
readers take them, and gives a block to Arrow. Whatever is not plain, or breaks the manifest, is left to the careful
reader, which begins again at the first line and alone says what is wrong, and where.
"""

import codecs
import csv
import io
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from curator_service.datasets.columns.arrays import Written, parse_numbers
from curator_service.datasets.manifest import CsvOptions, Manifest
from curator_service.datasets.sources import base
from curator_service.datasets.sources.base import (
    Doubt,
    Faults,
    IngestError,
    RawBatch,
    check_columns,
    find_keys,
    list_headers,
    read_ahead,
    to_array,
)
from curator_service.datasets.sources.streams import Changed, Digested, DigestedFile, SoundLines, Unpacked
from curator_service.privacy.sums import ROW_CAPACITY_MAX

_T = TypeVar("_T")
_BLOCK_BYTES = 2**22
_BLANK_LINES = 100_000
"""Lines without a row that may be read: one behind each row, and so many more."""
_LINE_CHARACTERS_MAX = 2**22
"""A line is held in memory many times over before its fields are counted."""
_PLAIN_LINE_BYTES = 2**17
"""Below what a field may have in Python's reader (`csv.field_size_limit`)."""
_WIDE_LINE_BYTES = 300
"""Where lines are longer, batches may end by characters, which then are counted."""
_BOM = codecs.BOM_UTF8
_LF = 10


class CsvSource:
    """A CSV file with a header, its own or from `options`, of at least the declared columns; others are not read.

    Parameters
    ----------
    options : CsvOptions
        How it is written.
    """

    place = "line"

    def __init__(self, path: Path, options: CsvOptions) -> None:
        self._path = path
        self._options = options  # of the manifest, or of whoever writes the text
        self._state: tuple[int, str] | None = None
        self.label = str(path)
        self.decimal: str = options.decimal
        self.digest = ""

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield rows as Arrow reads them; see `Source`."""
        with self._open(manifest.row_capacity, None) as (file, stream):
            try:
                yield from _FastReader(manifest, self._options, file, stream).read()
                self.digest = file.finish()
            finally:
                self._state = file.state

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield rows as Python reads them; see `Source`."""
        with self._open(manifest.row_capacity, self._state) as (file, stream):
            records = _Records(self._options, file, stream, self.label)
            yield from records.read(manifest, faults)
            self.digest = file.finish()

    def list_columns(self) -> list[str]:
        """Return what the columns are called; see `Source`."""
        if self._options.header is not None:
            return list(self._options.header)
        with self._open(ROW_CAPACITY_MAX, None) as (file, stream):
            return _Records(self._options, file, stream, self.label).read_header()

    def close(self) -> None:
        """Hold nothing; see `Source`."""

    @contextmanager
    def _open(self, row_capacity: int, state: tuple[int, str] | None) -> Iterator[tuple[Digested, io.RawIOBase]]:
        with DigestedFile(self._path, state) as file:
            packed = self._options.compression
            try:
                if packed == "none":
                    yield file, file
                else:
                    yield file, Unpacked(file, packed, row_capacity, self.label)
            except Changed:
                raise IngestError(f"{self.label}: somebody wrote into the file while it was read") from None


class TolerantCsv(CsvSource):
    """A CSV file in which lines of another encoding are faults, and no end of the reading: for a draft."""

    _tell: Callable[[int], None]

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield rows, unless a line is in another encoding; see `Source`."""
        self._tell = _doubt
        yield from super().read(manifest)

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield the rows of other lines; see `Source`."""
        self._tell = lambda line: faults.add(f"not {self._options.encoding.upper()} text, as other lines are", [line])
        yield from super().reread(manifest, faults)

    def list_columns(self) -> list[str]:
        """Return what the columns are called; see `Source`."""
        self._tell = self._refuse_header
        return super().list_columns()

    def _refuse_header(self, line: int) -> None:
        if line == 1:
            raise IngestError(f"{self.label}, line 1: not {self._options.encoding.upper()} text, as other lines are")

    @contextmanager
    def _open(self, row_capacity: int, state: tuple[int, str] | None) -> Iterator[tuple[Digested, io.RawIOBase]]:
        with super()._open(row_capacity, state) as (file, stream):
            if self._options.encoding.startswith("utf-16"):
                yield file, stream
            else:
                yield file, SoundLines(stream, self._options.encoding, self._tell)


def _doubt(_line: int) -> None:
    raise Doubt


class _Records:
    """Reads line by line, as Python does."""

    def __init__(self, options: CsvOptions, file: Digested, stream: io.RawIOBase, label: str) -> None:
        self._options, self._file, self._label = options, file, label
        encoding = "utf-8-sig" if options.encoding == "utf-8" else options.encoding
        self._text = io.TextIOWrapper(io.BufferedReader(stream), encoding=encoding, newline="")
        self._reader = csv.reader(_read_lines(self._text, label), **_dialect(options))

    def read_header(self) -> list[str]:
        """Return the fields of the first line, without spaces around them."""
        with closing(self._explain(self._reader)) as lines:
            return [name.strip() for name in next(lines, [])]

    def read(self, manifest: Manifest, faults: Faults) -> Iterator[RawBatch]:
        """Yield batches; a line with too many or too few fields is a fault, and no row."""
        yield from self._explain(self._read(manifest, faults))

    def _read(self, manifest: Manifest, faults: Faults) -> Iterator[RawBatch]:
        reader, label = self._reader, self._label
        header = _take_header(self._options, reader)
        positions, keys = _find_columns(manifest, header, label)
        width = len(header or ())
        rows: list[list[str]] = []
        lines: list[int] = []
        held = 0
        spare = _BLANK_LINES
        start = reader.line_num + 1
        for row in reader:
            if reader.line_num != start:
                raise IngestError(
                    f"{label}, line {start}: a field goes on beyond the end of its line. One row is one line: a "
                    "quote that is not closed would swallow other rows. Close it, or leave out columns of free text"
                )
            if row or width == 1:  # a blank line is no row, unless the one field of a row is missing
                spare += 1
                fields = row or [""]
                if len(fields) == width:
                    rows.append([fields[position] for position in positions])
                    held += sum(map(len, rows[-1]))
                    texts = (fields[position] for position in keys.values())
                    rows[-1] += [text if len(text) <= base.KEY_CHARACTERS_MAX else "" for text in texts]
                    lines.append(start)
                else:
                    faults.add(f"{len(fields)} fields where the header has {width}", [start])
            else:
                spare -= 1
                if spare < 0:
                    raise IngestError(
                        f"{label}, line {start}: {_BLANK_LINES} more blank lines than rows above them; is it a table?"
                    )
            start = reader.line_num + 1
            if len(rows) == base.BATCH_ROWS or held > base.BATCH_CHARACTERS:
                yield _to_raw(rows, lines, self._file.share, keys)
                rows, lines, held = [], [], 0
        if rows:
            yield _to_raw(rows, lines, 1.0, keys)

    def _explain(self, items: Iterator[_T]) -> Generator[_T]:
        refusal = None
        try:
            yield from items
        except UnicodeError:  # of half a pair of surrogates, too, in the encodings that let it pass
            refusal = f"{self._label}: not {self._options.encoding.upper()} text"
        except csv.Error as error:
            refusal = f"{self._label}, line {self._reader.line_num}: {error}"
        finally:
            self._text.detach().detach()  # or they close the file before its digest is whole
        if refusal is not None:  # behind the handlers: the error of a text holds the text
            raise IngestError(refusal)


def _dialect(options: CsvOptions) -> dict[str, Any]:
    if not options.quote:
        return {"delimiter": options.separator, "quoting": csv.QUOTE_NONE, "quotechar": None, "strict": True}
    return {"delimiter": options.separator, "quotechar": options.quote, "strict": True}


def _take_header(options: CsvOptions, lines: Iterator[list[str]]) -> list[str] | None:
    """Return the declared header, or the fields of the first line; None where there is no line."""
    return next(lines, None) if options.header is None else list(options.header)


def _to_raw(rows: list[list[str]], lines: list[int], share: float | None, keys: Collection[str]) -> RawBatch:
    """Return rows as columns; those of keys are the last."""
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(rows[0]))]
    declared = len(columns) - len(keys)
    return RawBatch(columns[:declared], lines, share, dict(zip(keys, columns[declared:], strict=True)))


def _read_lines(text: io.TextIOWrapper, label: str) -> Iterator[str]:
    number = 0
    while line := text.readline(_LINE_CHARACTERS_MAX + 1):
        number += 1
        if len(line) > _LINE_CHARACTERS_MAX:
            raise IngestError(f"{label}, line {number}: longer than {_LINE_CHARACTERS_MAX} characters; is it a table?")
        yield line


def _find_columns(manifest: Manifest, header: list[str] | None, label: str) -> tuple[list[int], dict[str, int]]:
    """Return where the declared columns are, and those that look like keys by name."""
    if header is None:
        raise IngestError(f"{label}, line 1: the file is empty; it needs a header")
    names = [name.strip() for name in header]
    declared = list_headers(manifest)
    check_columns(declared, names, f"{label}, line 1")
    places = {name: place for place, name in enumerate(names)}
    return [places[name] for name in declared], {name: places[name] for name in find_keys(manifest, names)}


@dataclass(slots=True)
class _Part:
    """Rows of a block that no batch has yet."""

    table: pa.Table
    size: int
    lengths: npt.NDArray[np.int64] | None
    share: float | None


class _FastReader:
    """Reads plain blocks with Arrow, one of them ahead of what is yielded."""

    def __init__(self, manifest: Manifest, options: CsvOptions, file: Digested, stream: io.RawIOBase) -> None:
        self._manifest = manifest
        self._options = options
        self._file = file
        self._stream = stream
        self._columns: list[str] = []
        self._keys: dict[str, str] = {}
        self._width = 0
        self._wide: bool | None = None
        self._spare = _BLANK_LINES

    def read(self) -> Iterator[RawBatch]:
        """Yield batches that are cut where the careful reader cuts them."""
        parts: list[_Part] = []
        with closing(read_ahead(self._parse_part(block) for block in self._read_blocks())) as parsed:
            for part in parsed:
                parts.append(part)
                yield from self._cut(parts, last=False)
        yield from self._cut(parts, last=True)

    def _parse_part(self, block: bytes) -> _Part:
        if self._wide is None:
            self._wide = len(block) > _WIDE_LINE_BYTES * (_count_lines(block) + 1)
        table = self._parse(block)
        blank_lines = _count_lines(block) + (not block.endswith(b"\n")) - table.num_rows
        if blank_lines > self._spare:  # perhaps; where they are among the rows is not known
            raise Doubt
        self._spare += table.num_rows - blank_lines
        lengths = _count_characters(table.select(list(dict.fromkeys(self._columns)))) if self._wide else None
        table = self._leave_out_long_keys(table)
        return _Part(table, len(block), lengths, self._file.share)

    def _leave_out_long_keys(self, table: pa.Table) -> pa.Table:
        for name in self._keys.values():
            texts = to_array(table[name])
            short = pc.if_else(pc.greater(pc.utf8_length(texts), base.KEY_CHARACTERS_MAX), "", texts)
            table = table.set_column(table.column_names.index(name), name, short)
        return table

    def _cut(self, parts: list[_Part], *, last: bool) -> Iterator[RawBatch]:
        """Take whole batches off the rows that wait."""
        while parts and (count := self._count_batch(parts, last=last)):
            table = pa.concat_tables([part.table for part in parts]).slice(0, count)
            columns = [to_array(table[name]) for name in self._columns]
            keys = {name: to_array(table[place]) for name, place in self._keys.items()}
            yield RawBatch(columns, None, parts[-1].share, keys)
            while parts and count >= parts[0].table.num_rows:
                count -= parts.pop(0).table.num_rows
            if count:
                first = parts[0]
                lengths = None if first.lengths is None else first.lengths[count:]
                parts[0] = _Part(first.table.slice(count), first.size, lengths, first.share)

    def _count_batch(self, parts: list[_Part], *, last: bool) -> int:
        """Return how many rows the next batch has; 0 if more have to be read."""
        count = sum(part.table.num_rows for part in parts)
        if self._wide:
            lengths = np.concatenate([part.lengths for part in parts if part.lengths is not None])
            full = np.flatnonzero(np.cumsum(lengths[: base.BATCH_ROWS]) > base.BATCH_CHARACTERS)
            if len(full):
                return int(full[0]) + 1
        elif sum(part.size for part in parts) > base.BATCH_CHARACTERS:
            raise Doubt
        if count >= base.BATCH_ROWS:
            return base.BATCH_ROWS
        return count if last else 0

    def _read_blocks(self) -> Iterator[bytes]:
        """Yield plain blocks of whole lines, behind the header."""
        decoder = None
        if self._options.encoding != "utf-8":
            decoder = codecs.getincrementaldecoder(self._options.encoding)()
        carried, began = b"", False
        while True:
            raw = self._stream.read(_BLOCK_BYTES) or b""
            block = carried + (raw if decoder is None else _decode(decoder, raw))
            cut = len(block) if not raw else block.rfind(b"\n") + 1
            if len(block) - cut > _PLAIN_LINE_BYTES:
                raise Doubt
            block, carried = block[:cut], block[cut:]
            if block and not began:
                block, began = self._read_header(block), True
            if block:
                self._check_plain(block, decoded=decoder is not None)
                yield block
            if not raw:
                if not began:
                    raise Doubt
                return

    def _read_header(self, block: bytes) -> bytes:
        """Return what is behind the header."""
        if self._options.encoding == "utf-8":
            block = block.removeprefix(_BOM)
        line, found, rest = (b"", b"", block) if self._options.header else block.partition(b"\n")
        self._check_plain(line + found, decoded=False)
        try:
            header = _take_header(self._options, csv.reader([line.decode()], **_dialect(self._options)))
            positions, keys = _find_columns(self._manifest, header, "")
        except (csv.Error, IngestError):
            raise Doubt from None
        self._width = len(header or ())
        self._columns = [f"{position}" for position in positions]
        self._keys = {name: f"{position}" for name, position in keys.items()}
        return rest

    def _check_plain(self, block: bytes, *, decoded: bool) -> None:
        """Refuse to decide on what the two readers may take differently."""
        if block.startswith(_BOM) or b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
            raise Doubt
        if not decoded and not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError:
                raise Doubt from None
        _check_lengths(block)
        quote = self._options.quote.encode()
        if quote and quote in block:
            _check_quotes(np.frombuffer(block, np.uint8), ord(quote), ord(self._options.separator))

    def _parse(self, block: bytes) -> pa.Table:
        """Parse numbers as numbers where Arrow can, and as words where it cannot."""
        numbers = {} if self._wide else self._plain_numbers()
        table = self._parse_as(block, numbers)
        if table is None and numbers:
            table = self._parse_as(block, {})
            table = None if table is None else self._convert(table, numbers)
        if table is None:
            raise Doubt
        return table

    def _convert(self, table: pa.Table, names: Collection[str]) -> pa.Table | None:
        """Read numbers as the coder reads words; None if one is wrong."""
        written = Written(self._options.decimal, self._manifest.missing_values or ())
        columns = {name: to_array(table[name]) for name in table.column_names}
        for name in names:
            numbers, wrong = parse_numbers(written.blank(columns[name]), written.decimal)
            if wrong.any():
                return None
            columns[name] = pa.array(numbers)
        return pa.table(columns)

    def _plain_numbers(self) -> dict[str, pa.DataType]:
        """Return the columns of which a word is a number, or empty."""
        declared = self._columns[len(self._columns) - len(self._manifest.columns) :]
        return {
            name: pa.float64()
            for name, column in zip(declared, self._manifest.columns, strict=True)
            if column.is_plain_number and column.missing_values in {None, self._manifest.missing_values}
        }

    def _parse_as(self, block: bytes, types: dict[str, pa.DataType]) -> pa.Table | None:
        quote, names = self._options.quote, list(dict.fromkeys([*self._columns, *self._keys.values()]))
        try:
            return arrow_csv.read_csv(
                pa.BufferReader(block),
                arrow_csv.ReadOptions(column_names=[f"{i}" for i in range(self._width)]),
                arrow_csv.ParseOptions(
                    delimiter=self._options.separator,
                    quote_char=quote or False,
                    double_quote=bool(quote),
                    escape_char=False,
                    newlines_in_values=False,
                    ignore_empty_lines=self._width > 1,
                ),
                arrow_csv.ConvertOptions(
                    check_utf8=False,  # it was
                    column_types=dict.fromkeys(names, pa.string()) | types,
                    include_columns=names,
                    null_values=["", *(self._manifest.missing_values or ())],
                    strings_can_be_null=False,
                    decimal_point=self._options.decimal,
                ),
            )
        except pa.ArrowException:  # it quotes what it could not read
            return None


def _decode(decoder: codecs.IncrementalDecoder, raw: bytes) -> bytes:
    try:
        return decoder.decode(raw, final=not raw).encode()
    except UnicodeError:
        raise Doubt from None


def _count_lines(block: bytes) -> int:
    """Count line ends; `bytes.count` takes several times as long."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LF))


def _check_lengths(block: bytes) -> None:
    """Doubt where a line is too long, looking for its end alone."""
    start = 0
    while len(block) - start >= _PLAIN_LINE_BYTES:  # the last end that this line may have is as good as its own
        start = block.rfind(b"\n", start, start + _PLAIN_LINE_BYTES) + 1
        if not start:
            raise Doubt


def _check_quotes(codes: npt.NDArray[np.uint8], quote: int, separator: int) -> None:
    """Doubt unless each quote opens a field, closes it, or is one of two that stand for one within it."""
    places = np.flatnonzero(codes == quote)
    opening, closing = places[::2], places[1::2]
    if len(opening) != len(closing):
        raise Doubt
    before = np.where(opening > 0, codes[opening - 1], _LF)
    after = codes[np.minimum(closing + 1, len(codes) - 1)]
    after = np.where(closing + 1 < len(codes), after, _LF)
    doubled = np.concatenate([[False], opening[1:] == closing[:-1] + 1])
    opens = (before == separator) | (before == _LF) | doubled
    closes = (after == separator) | (after == _LF) | (after == ord("\r")) | (after == quote)
    if not (opens.all() and closes.all()):
        raise Doubt
    ends = np.flatnonzero(codes == _LF)
    if (np.searchsorted(ends, opening) != np.searchsorted(ends, closing)).any():
        raise Doubt


def _count_characters(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return how many characters each row has."""
    total = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        total += pc.utf8_length(column).to_numpy()
    return total
