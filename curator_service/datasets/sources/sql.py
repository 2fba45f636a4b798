"""Rows that a query gives: PostgreSQL copies them out as CSV, any other database hands them over one by one.

A query is read in one transaction that sees one instant, and may not write. What a database says of an error may hold
a value, so its class alone is repeated.
"""

import datetime
import decimal
import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from sqlalchemy import URL, Connection, CursorResult, create_engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from curator_service.datasets.manifest import CsvOptions, Manifest
from curator_service.datasets.sources import base
from curator_service.datasets.sources.base import (
    Faults,
    IngestError,
    RawBatch,
    Source,
    check_columns,
    find_keys,
    list_headers,
)
from curator_service.datasets.sources.csv import CsvSource
from curator_service.datasets.sources.streams import Changed, Digested
from curator_service.kit.files import open_regular

_QUERY_BYTES_MAX = 2**20
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL max_parallel_workers_per_gather = 0",  # a second reading meets rows in the same order
    "SET LOCAL synchronize_seqscans = off",
    "SAVEPOINT begun",
)


def open_query(path: Path, database: str, url: str) -> Source:
    """Return the result of a query as a source.

    Parameters
    ----------
    path : Path
        One statement; its columns are called what the manifest says.
    database : str
        What messages call the database.
    url : str
        Of SQLAlchemy; no message repeats it.

    Raises
    ------
    IngestError
    """
    query, address = _read_query(path), None
    with suppress(ArgumentError):
        address = make_url(url)
    if address is None:
        raise IngestError(f"the database {database!r}: its address in CURATOR_SOURCES is not one of SQLAlchemy's")
    kind = CopySource if address.get_backend_name() == "postgresql" else QuerySource
    return kind(path, query, database, address)


def _read_query(path: Path) -> str:
    try:
        with open_regular(path) as file:
            raw = file.read(_QUERY_BYTES_MAX + 1)
        query = raw.decode().strip().removesuffix(";")
    except UnicodeDecodeError:
        query = ""
    except ValueError as error:
        raise IngestError(f"{path}: {error}") from None
    if not query or len(raw) > _QUERY_BYTES_MAX:
        raise IngestError(f"{path}: not a query in UTF-8 of up to {_QUERY_BYTES_MAX} bytes")
    return query


def _refusal(label: str, error: Exception) -> IngestError:
    found = getattr(error, "orig", None) or error
    state = getattr(found, "sqlstate", None)
    return IngestError(f"{label}: the database says {type(found).__name__}" + (f" (SQLSTATE {state})" if state else ""))


class CopySource(CsvSource):
    """Result of a query that PostgreSQL copies out as CSV."""

    def __init__(self, path: Path, query: str, database: str, url: URL) -> None:
        super().__init__(path, CsvOptions())
        self.label = f"{path} (its result in {database!r} as CSV)"
        self._copy = f"COPY ({query}\n) TO STDOUT (FORMAT csv, HEADER)".encode()
        self._url = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def _open(self, row_capacity: int, state: tuple[int, str] | None) -> Iterator[tuple[Digested, io.RawIOBase]]:
        del row_capacity
        failure = None
        try:
            with (
                self._connect().cursor() as cursor,
                cursor.copy(self._copy) as copy,
                _CopyStream(copy, state) as stream,
            ):
                yield stream, stream
        except Changed:
            failure = IngestError(
                f"{self.label}: the query gave other rows, or another order, the second time; give it an ORDER BY"
            )
        except psycopg.Error as error:
            failure = _refusal(self.label, error)
        if failure is not None:
            raise failure

    def _connect(self) -> psycopg.Connection[Any]:
        """Return the connection, within the transaction: a second reading sees the same instant."""
        if self._connection is not None:
            self._connection.execute("ROLLBACK TO SAVEPOINT begun")  # a copy that was left is cancelled
        else:
            self._connection = psycopg.connect(self._url, prepare_threshold=None)
            for statement in _SETTINGS:
                self._connection.execute(statement)
            # Of more than one statement nothing is prepared: nothing ends the transaction that may not write.
            prepared = self._connection.pgconn.prepare(b"", self._copy)
            if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.lookup((prepared.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode())
        return self._connection

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield rows; see `Source`."""
        try:
            yield from super().read(manifest)
        except GeneratorExit:  # a doubt: the same transaction is asked again
            raise
        except base.Doubt:
            raise
        except BaseException:
            self.close()
            raise
        self.close()

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield rows; see `Source`."""
        try:
            yield from super().reread(manifest, faults)
        finally:
            self.close()

    def list_columns(self) -> list[str]:
        """Return what the columns are called; see `Source`."""
        try:
            return super().list_columns()
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; see `Source`."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _CopyStream(Digested):
    """Bytes that are copied out."""

    def __init__(self, copy: psycopg.Copy, expected: tuple[int, str] | None) -> None:
        super().__init__(expected)
        self._copy, self._held = copy, memoryview(b"")

    def _take(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer):  # the server sends a row at a time, and who reads wants blocks
            if not self._held:
                self._held = memoryview(self._copy.read())
            if not self._held:
                break
            taken = min(len(buffer) - filled, len(self._held))
            buffer[filled : filled + taken] = self._held[:taken]
            self._held, filled = self._held[taken:], filled + taken
        return filled


def _to_key(value: object) -> str | None:
    text = None if value is None else str(value)
    return None if text is None or len(text) > base.KEY_CHARACTERS_MAX else text


class QuerySource:
    """Result of a query that a database gives row by row."""

    place = "row"
    decimal = "."
    digest = ""

    def __init__(self, path: Path, query: str, database: str, url: URL) -> None:
        self.label = f"{path} (its result in {database!r})"
        self._query = query
        self._url = url

    def read(self, manifest: Manifest) -> Generator[RawBatch]:
        """Yield rows; see `Source`."""
        with self._ask() as result:
            yield from self._iterate(result, manifest)

    def reread(self, manifest: Manifest, faults: Faults) -> Generator[RawBatch]:
        """Yield rows; a reader that knows where they are is never asked twice."""
        del faults
        yield from self.read(manifest)

    def list_columns(self) -> list[str]:
        """Return what the columns are called; see `Source`."""
        with self._ask() as result:
            return list(result.keys())

    def close(self) -> None:
        """Hold nothing; see `Source`."""

    @contextmanager
    def _ask(self) -> Iterator[CursorResult[Any]]:
        failure = None
        try:
            engine = create_engine(self._url)
            try:
                with engine.connect() as connection:
                    yield self._execute(connection)
            finally:
                engine.dispose()
        except (SQLAlchemyError, ImportError) as error:
            failure = _refusal(self.label, error)
        if failure is not None:
            raise failure

    def _execute(self, connection: Connection) -> CursorResult[Any]:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = ON")
        else:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        streamed = connection.execution_options(stream_results=True, max_row_buffer=base.BATCH_ROWS)
        return streamed.exec_driver_sql(self._query)

    def _iterate(self, result: CursorResult[Any], manifest: Manifest) -> Iterator[RawBatch]:
        names, found, done = list_headers(manifest), list(result.keys()), 0
        check_columns(names, found, self.label)
        places = [found.index(name) for name in names]
        keys = {name: found.index(name) for name in find_keys(manifest, found)}
        while rows := result.fetchmany(base.BATCH_ROWS):
            columns = [
                pa.array([self._to_word(row[place], name) for row in rows], pa.string())
                for name, place in zip(names, places, strict=True)
            ]
            texts = {name: pa.array([_to_key(row[place]) for row in rows], pa.string()) for name, place in keys.items()}
            yield RawBatch(columns, range(done + 1, done + len(rows) + 1), None, texts)
            done += len(rows)

    def _to_word(self, value: object, name: str) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float | decimal.Decimal):
            return str(value)
        if isinstance(value, datetime.date):
            return value.isoformat()
        raise IngestError(
            f"{self.label}: the column {name!r} holds {type(value).__name__}; a text, a number, a boolean, a date or a "
            "time is read"
        )
