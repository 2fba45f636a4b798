"""Rows of Parquet files: one, or a folder of them in the order of their names."""

import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources import base
from curator_service.datasets.sources.base import (
    Faults,
    IngestError,
    RawBatch,
    check_columns,
    list_headers,
    look_of,
    read_ahead,
)
from curator_service.datasets.sources.coding import name_type
from curator_service.kit.files import open_regular

MAGIC = b"PAR1"
_SUFFIX = ".parquet"
_FILES_MAX = 10_000
_FOOTER_BYTES_MAX = 2**24
"""What the footer of a thousand columns in thousands of row groups takes; it is unpacked before it can be judged."""
_COLUMNS_MAX = 10_000
_CHUNK_BYTES_MAX = 2**30
"""Of one column in one row group, unpacked."""
_READ_ROWS = 2**16


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
        with ExitStack() as stack:
            opened = [(path, stack.enter_context(_open(path))) for path in self._list_files()]
            looks = [look_of(os.fstat(file.fileno())) for _, file in opened]
            digests = [_digest(file) for _, file in opened]
            readers = [stack.enter_context(self._check(path, file, list_headers(manifest))) for path, file in opened]
            self._check_types(readers, [path for path, _ in opened], list_headers(manifest))
            total = sum(reader.metadata.num_rows for reader in readers)
            if total > manifest.row_capacity:
                raise IngestError(
                    f"{self.label}: more rows than the manifest's row_capacity of {manifest.row_capacity}; nothing was "
                    "cut"
                )
            yield from self._cut(readers, list_headers(manifest), total)
            if looks != [look_of(os.fstat(file.fileno())) for _, file in opened]:
                raise IngestError(f"{self.label}: somebody wrote into the file while it was read")
            whole = b"".join(bytes.fromhex(digest) for digest in digests)
            self.digest = digests[0] if len(digests) == 1 else hashlib.sha256(whole).hexdigest()

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield rows; no reader is in doubt of typed values."""
        del faults
        yield from self.read(manifest)

    def list_columns(self) -> list[str]:
        """Return what the columns that are not nested are called; see `Source`."""
        path = self._list_files()[0]
        with _open(path) as file:
            schema = self._check(path, file, []).schema_arrow
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

    def _check(self, path: Path, file: BinaryIO, declared: list[str]) -> pq.ParquetFile:
        """Look at what a footer declares before any of it is read."""
        file.seek(0, os.SEEK_END)
        size = file.tell()
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
            self._check_footer(path, reader, declared, size)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, IngestError):
                raise
            reader = None
        if reader is None:
            raise IngestError(f"{path}: not a whole Parquet file")
        return reader

    def _check_types(self, readers: Sequence[pq.ParquetFile], paths: Sequence[Path], names: list[str]) -> None:
        for name in names:
            first, *kinds = (_normalise(pa.nulls(0, reader.schema_arrow.field(name).type)).type for reader in readers)
            for path, kind in zip(paths[1:], kinds, strict=True):
                if kind != first:
                    raise IngestError(
                        f"{path}: the column {name!r} holds {name_type(kind)}, and {name_type(first)} in the first file"
                    )

    def _check_footer(self, path: Path, reader: pq.ParquetFile, declared: list[str], size: int) -> None:
        about = reader.metadata
        if about.num_columns > _COLUMNS_MAX:
            raise IngestError(f"{path}: more than {_COLUMNS_MAX} columns; write those that are declared alone")
        check_columns(declared, reader.schema_arrow.names, str(path))
        for name in declared:
            kind = reader.schema_arrow.field(name).type
            if pa.types.is_nested(kind):
                raise IngestError(f"{path}: the column {name!r} holds nested values; write one value in each row")
        places = [i for i in range(about.num_columns) if about.schema.column(i).path in set(declared)]
        rows = 0
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

    def _cut(self, readers: Sequence[pq.ParquetFile], names: list[str], total: int) -> Iterator[RawBatch]:
        waiting: list[pa.RecordBatch] = []
        held = done = 0
        for batch in read_ahead(self._iterate(readers, names)):
            waiting.append(batch)
            held += batch.num_rows
            while held >= base.BATCH_ROWS:
                raw, waiting = _take(waiting, base.BATCH_ROWS, done, total)
                done, held = done + base.BATCH_ROWS, held - base.BATCH_ROWS
                yield raw
        if held:
            yield _take(waiting, held, done, total)[0]

    def _iterate(self, readers: Sequence[pq.ParquetFile], names: list[str]) -> Iterator[pa.RecordBatch]:
        for reader in readers:
            try:
                for batch in reader.iter_batches(batch_size=_READ_ROWS, columns=names):
                    arrays = [_normalise(batch.column(name)) for name in names]
                    yield pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(names))])
            except (pa.ArrowException, OSError):  # it may quote what it could not read
                damaged = True
            else:
                damaged = False
            if damaged:
                raise IngestError(f"{self.label}: a page is damaged, or not text where text is declared")


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except ValueError as error:
        raise IngestError(f"{path}: {error}") from None


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # it has readinto


def _take(waiting: list[pa.RecordBatch], count: int, done: int, total: int) -> tuple[RawBatch, list[pa.RecordBatch]]:
    table = pa.Table.from_batches(waiting)
    columns = [column.combine_chunks() for column in table.slice(0, count).columns]
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
