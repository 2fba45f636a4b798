"""Rows of Parquet files: one, or a folder of them in the order of their names."""

import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.columns.arrays import name_type
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources import base
from curator_service.datasets.sources.base import (
    Faults,
    IngestError,
    RawBatch,
    TextsTooLong,
    check_columns,
    find_keys,
    list_headers,
    look_of,
    read_ahead,
    to_array,
)
from curator_service.datasets.sources.pages import PagesUnreadable, look_through
from curator_service.kit.files import open_regular

MAGIC = b"PAR1"
_SUFFIX = ".parquet"
_FILES_MAX = 10_000
_FOOTER_BYTES_MAX = 2**24
"""What the footer of a thousand columns in thousands of row groups takes; it is unpacked before it can be judged."""
_COLUMNS_MAX = 10_000
_CHUNK_BYTES_MAX = 2**30
"""Of one column in one row group, unpacked."""
_PAGES_BYTES, _PAGES_BYTES_EACH = 2**28, 2**22
"""What may lie in memory at once of all pages, and more of it for each declared column."""
_READ_ROWS = base.BATCH_ROWS  # other numbers of them would have to be copied into batches
_READ_BYTES = 2**26
"""Of texts of one column that are read at once."""
TEXT_BYTES_MAX = 2**12
"""Of one value: a level has 200 characters at most, and a text that is longer is no number, date or identifier."""
_BATCH_BYTES, _BATCH_BYTES_EACH = 2**10 * _READ_ROWS, 2**5 * _READ_ROWS
"""Of texts in the rows of a batch, and more of it for each declared column."""


@dataclass(frozen=True, slots=True)
class _File:
    """Facts of a file that are read before its rows."""

    path: Path
    look: tuple[int, ...]
    digest: str
    rows: int
    batch_rows: int
    types: tuple[pa.DataType, ...]


class ParquetSource:
    """Parquet files with at least the declared columns; others are not read.

    Parameters
    ----------
    path : Path
        A file, or a folder: then every ``*.parquet`` in it, in the order of names.
    """

    place = "row"
    decimal = "."

    def __init__(self, path: Path) -> None:
        self._path = path
        self.label = str(path)
        self.digest = ""

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield rows; see `Source`."""
        paths, declared = self._list_files(), list_headers(manifest)
        keys = self._find_keys(manifest, paths)
        names = [*declared, *keys]
        files = [self._look(path, names) for path in paths]
        _check_types(files, names)
        total = sum(file.rows for file in files)
        if total > manifest.row_capacity:
            raise IngestError(
                f"{self.label}: more rows than the manifest's row_capacity of {manifest.row_capacity}; nothing was cut"
            )
        for raw in self._cut(files, declared, keys, total):
            columns, found = raw.columns[: len(declared)], raw.columns[len(declared) :]
            yield replace(raw, columns=columns, keys=dict(zip(keys, found, strict=True)))
        for file in files:
            self._check_same(_find_stat(file.path), file)
        whole = b"".join(bytes.fromhex(file.digest) for file in files)
        self.digest = files[0].digest if len(files) == 1 else hashlib.sha256(whole).hexdigest()

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield rows; no reader is in doubt of typed values."""
        del faults
        yield from self.read(manifest)

    def list_columns(self) -> list[str]:
        """Return what the columns that are not nested are called; see `Source`."""
        with self._open(self._list_files()[0], []) as (_, reader):
            schema = reader.schema_arrow
            return [field.name for field in schema if not pa.types.is_nested(field.type)]

    def close(self) -> None:
        """Hold nothing; see `Source`."""

    def _list_files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        found = sorted(path for path in self._path.iterdir() if path.suffix == _SUFFIX)
        for path in found:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise IngestError(f"{path}: not a regular file; a folder's files are in it themselves, not linked")
        if not found or len(found) > _FILES_MAX:
            raise IngestError(f"{self.label}: has {'no' if not found else 'too many'} files *{_SUFFIX}")
        return found

    def _find_keys(self, manifest: Manifest, paths: Sequence[Path]) -> list[str]:
        """Return the columns that look like keys, have one type in all files, and hold no long texts."""
        keys: list[tuple[str, pa.DataType]] | None = None
        for path in paths:
            with self._open(path, []) as (file, reader):
                schema = reader.schema_arrow
                names = [name for name in find_keys(manifest, schema.names) if _is_of_keys(schema.field(name).type)]
                names = [name for name in names if _has_short_texts(path, file.fileno(), reader, name)]
            found = [(name, _normalise(pa.nulls(0, schema.field(name).type)).type) for name in names]
            keys = found if keys is None else [one for one in keys if one in found]
        return [name for name, _ in keys or ()]

    def _look(self, path: Path, names: list[str]) -> _File:
        with self._open(path, names) as (file, reader):
            look = look_of(os.fstat(file.fileno()))
            batch_rows = _check_pages(path, file.fileno(), reader, names)
            kinds = (reader.schema_arrow.field(name).type for name in names)
            types = tuple(_normalise(pa.nulls(0, kind)).type for kind in kinds)
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto
            return _File(path, look, digest, reader.metadata.num_rows, batch_rows, types)

    @contextmanager
    def _open(self, path: Path, declared: list[str]) -> Iterator[tuple[BinaryIO, pq.ParquetFile]]:
        """Open a file, and look at what its footer declares before any of it is read."""
        try:
            file = open_regular(path)
        except ValueError as error:
            raise IngestError(f"{path}: {error}") from None
        with file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            tail = file.read(8)
            if size < 12 or tail[4:] != MAGIC:
                raise IngestError(f"{path}: not a whole Parquet file")
            if int.from_bytes(tail[:4], "little") > min(_FOOTER_BYTES_MAX, size - 12):
                raise IngestError(f"{path}: its footer has more than {_FOOTER_BYTES_MAX} bytes, or more than the file")
            try:
                reader = pq.ParquetFile(
                    pa.PythonFile(file, mode="r"),
                    thrift_string_size_limit=_FOOTER_BYTES_MAX,
                    thrift_container_size_limit=10**6,
                    pre_buffer=False,
                    buffer_size=2**20,
                )
                _check_footer(path, reader, declared, size)
            except (pa.ArrowException, OSError, ValueError) as error:
                if isinstance(error, IngestError):
                    raise
                reader = None
            if reader is None:
                raise IngestError(f"{path}: not a whole Parquet file")
            with reader:
                yield file, reader

    def _cut(self, files: Sequence[_File], declared: list[str], keys: list[str], total: int) -> Iterator[RawBatch]:
        waiting: list[pa.RecordBatch] = []
        held = done = 0
        with closing(read_ahead(self._iterate(files, declared, keys))) as batches:
            for batch in batches:
                waiting.append(batch)
                held += batch.num_rows
                while held >= base.BATCH_ROWS:
                    raw, waiting = _take(waiting, base.BATCH_ROWS, done, total)
                    done, held = done + base.BATCH_ROWS, held - base.BATCH_ROWS
                    yield raw
        if held:
            yield _take(waiting, held, done, total)[0]

    def _iterate(self, files: Sequence[_File], declared: list[str], keys: list[str]) -> Generator[pa.RecordBatch]:
        """Yield rows, of one file after another."""
        texts, key_texts, names = _Texts(declared), _Texts(keys), [*declared, *keys]
        for about in files:
            damaged = False
            with self._open(about.path, names) as (file, reader):
                self._check_same(os.fstat(file.fileno()), about)
                try:
                    for batch in reader.iter_batches(batch_size=about.batch_rows, columns=names):
                        arrays = [texts.check(about.path, name, batch.column(name)) for name in declared]
                        arrays += [key_texts.check_key(about.path, name, batch.column(name)) for name in keys]
                        texts.end_rows(batch.num_rows)
                        key_texts.end_rows(batch.num_rows)
                        yield pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(names))])
                except (pa.ArrowException, OSError):  # it may quote what it could not read
                    damaged = True
            if damaged:
                raise IngestError(f"{self.label}: a page is damaged, or not text where text is declared")

    def _check_same(self, found: os.stat_result | None, about: _File) -> None:
        if found is None or look_of(found) != about.look:
            raise IngestError(f"{self.label}: somebody wrote into the file while it was read")


class _Texts:
    """Bounds what texts take in memory, beside the rows that are read with them."""

    def __init__(self, names: list[str]) -> None:
        self._bytes_max = _BATCH_BYTES + len(names) * _BATCH_BYTES_EACH
        self._held = dict.fromkeys(names, 0)
        self._rows = 0

    def check(self, path: Path, name: str, array: pa.Array) -> pa.Array:
        """Return one type for every way to write a text.

        Raises
        ------
        IngestError
            If one is too long.
        """
        if not pa.types.is_dictionary(array.type):
            array = _normalise(array)
        texts = array.dictionary if pa.types.is_dictionary(array.type) else array
        if _holds_texts(texts.type):
            lengths = pc.binary_length(texts)
            if (pc.max(lengths).as_py() or 0) > TEXT_BYTES_MAX:
                raise _too_long(path, name)
            self._held[name] += pc.sum(lengths if texts is array else pc.take(lengths, array.indices)).as_py() or 0
        if sum(self._held.values()) > self._bytes_max:
            most = max(self._held, key=lambda name: self._held[name])
            raise TextsTooLong(
                f"{path}: more than {self._bytes_max} bytes of text in {_READ_ROWS} rows, most of them in the column "
                f"{most!r}; leave out columns of free text",
                most,
            )
        return array if texts is array else _normalise(array)

    def check_key(self, path: Path, name: str, array: pa.Array) -> pa.Array:
        """Return what `check` does, and no values where texts are too long: then the column is no key."""
        try:
            return self.check(path, name, array)
        except TextsTooLong:
            return pa.nulls(len(array), _normalise(pa.nulls(0, array.type)).type)

    def end_rows(self, count: int) -> None:
        """Count the rows of what was checked; as many as are read at once share a bound."""
        self._rows += count
        if self._rows >= _READ_ROWS:
            self._held, self._rows = dict.fromkeys(self._held, 0), 0


def _too_long(path: Path, name: str) -> TextsTooLong:
    said = f"{path}: the column {name!r} has a value of more than {TEXT_BYTES_MAX} bytes of text"
    return TextsTooLong(f"{said}, which is no number, date, level or identifier", name)


def _check_footer(path: Path, reader: pq.ParquetFile, declared: list[str], size: int) -> None:
    about = reader.metadata
    if about.num_columns > _COLUMNS_MAX:
        raise IngestError(f"{path}: more than {_COLUMNS_MAX} columns; write those that are declared alone")
    check_columns(declared, reader.schema_arrow.names, str(path))
    for name in declared:
        kind = reader.schema_arrow.field(name).type
        if pa.types.is_nested(kind):
            raise IngestError(f"{path}: the column {name!r} holds nested values; write one value in each row")
    rows, places = 0, _find_places(reader, declared)
    for group in (about.row_group(i) for i in range(about.num_row_groups)):
        rows += group.num_rows
        for chunk in (group.column(place) for place in places):
            if not 0 <= chunk.total_compressed_size <= size or chunk.total_uncompressed_size > _CHUNK_BYTES_MAX:
                raise IngestError(
                    f"{path}: a row group of more than {_CHUNK_BYTES_MAX} bytes in a column, or than the file; "
                    "write smaller row groups"
                )
            if chunk.num_values != group.num_rows:
                raise IngestError(f"{path}: not a whole Parquet file")
    if rows != about.num_rows or rows < 0:
        raise IngestError(f"{path}: not a whole Parquet file")


def _find_places(reader: pq.ParquetFile, declared: list[str]) -> dict[int, str]:
    """Return where the declared columns are, and what they are called."""
    schema, names = reader.metadata.schema, set(declared)
    return {place: path for place in range(len(schema)) if (path := schema.column(place).path) in names}


def _check_pages(path: Path, descriptor: int, reader: pq.ParquetFile, declared: list[str]) -> int:
    """Return how many rows may be read at once, from the headers of pages, whatever the footer says."""
    about, places = reader.metadata, _find_places(reader, declared)
    schema = about.schema
    row, unpacked = 1, dict.fromkeys(places, 0)
    for place, name in places.items():
        if (row := max(row, schema.column(place).length)) > TEXT_BYTES_MAX:  # of values of one length
            raise _too_long(path, name)
    for chunks in (about.row_group(i) for i in range(about.num_row_groups)):
        for place, name in places.items():
            has_texts = schema.column(place).physical_type == "BYTE_ARRAY"
            try:
                found = look_through(descriptor, chunks.column(place), has_texts, _READ_BYTES)
            except PagesUnreadable:
                found = None
            if found is None:
                raise IngestError(f"{path}: a page of the column {name!r} is damaged")
            if found.longest > TEXT_BYTES_MAX:
                raise _too_long(path, name)
            row, unpacked[place] = max(row, found.row), max(unpacked[place], found.unpacked)
            if row > _READ_BYTES:
                said = f"{path}: a page of the column {name!r} has {row} bytes of text that rows share, or one row has"
                raise TextsTooLong(f"{said}; write smaller pages", name)
    if (total := sum(unpacked.values())) > _PAGES_BYTES + len(declared) * _PAGES_BYTES_EACH:
        raise IngestError(f"{path}: pages of {total} bytes have to be unpacked at once; write smaller pages")
    return min(_READ_ROWS, _READ_BYTES // row)


def _check_types(files: Sequence[_File], names: list[str]) -> None:
    for file in files[1:]:
        for name, kind, first in zip(names, file.types, files[0].types, strict=True):
            if kind != first:
                raise IngestError(
                    f"{file.path}: the column {name!r} holds {name_type(kind)}, and {name_type(first)} in the first "
                    "file"
                )


def _find_stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _is_of_keys(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return is_number or _holds_texts(kind) or bool(pa.types.is_fixed_size_binary(kind))


def _has_short_texts(path: Path, descriptor: int, reader: pq.ParquetFile, name: str) -> bool:
    try:
        _check_pages(path, descriptor, reader, [name])
    except TextsTooLong:
        return False
    return True


def _holds_texts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)) or bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    )


def _take(waiting: list[pa.RecordBatch], count: int, done: int, total: int) -> tuple[RawBatch, list[pa.RecordBatch]]:
    table = pa.Table.from_batches(waiting)
    columns = [to_array(column) for column in table.slice(0, count).columns]
    rest = table.slice(count).to_batches()
    return RawBatch(columns, range(done + 1, done + count + 1), (done + count) / total), rest


def _normalise(array: pa.Array) -> pa.Array:
    """Return one type for every way to write a text."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        array = pc.cast(array, pa.string())
    if pa.types.is_string(array.type):
        array.validate(full=True)  # UTF-8, as everywhere
    return array
