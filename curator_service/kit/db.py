"""The database: two engines on one URL, units of work, and the migrations' head."""

import functools
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    URL,
    ClauseElement,
    Dialect,
    Engine,
    MetaData,
    PoolProxiedConnection,
    create_engine,
    event,
    insert,
    make_url,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase

from curator_service.kit.files import identify

log = logging.getLogger("curator_service")

BUSY_TIMEOUT_MS = 30_000
SERVICE_GROUP = "curator_service"
"""The role of PostgreSQL that may do the service's work, and change no history; a migration makes it."""
CONNECTIONS_PER_POOL = 8
"""Connections to PostgreSQL of each of a worker's two pools; one more shows whether it can write."""
PROBE_MS = 3_000
"""For how long a write that shows whether one is possible may wait, in milliseconds."""

# A pooler such as PgBouncer may give each transaction another session. So every setting is one of the transaction, and
# comes with its BEGIN, in one exchange with the server.
_BY_KEYS = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; "
    "SET LOCAL jit = off"
)
"""Each statement follows an index, in its order, and reads a few rows.

Without statistics, as of a new table, PostgreSQL guesses that few rows stand behind a key that thousands share, reads
all of them, and sorts them.
"""
_POSTGRES_WRITE = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED; {_BY_KEYS}; SET LOCAL lock_timeout = {BUSY_TIMEOUT_MS}; "
    f"SET LOCAL idle_in_transaction_session_timeout = {BUSY_TIMEOUT_MS}; "
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Settings of a unit of work.

A conditional UPDATE waits for a competing one and then sees its result: that is READ COMMITTED. The timeouts bound how
long a worker that hangs keeps others waiting. A commit is durable: a server's default of ``off`` is undone, and any
stronger one left.
"""
_POSTGRES_PROBE = f"{_POSTGRES_WRITE}; SET LOCAL lock_timeout = {PROBE_MS}; SET LOCAL statement_timeout = {PROBE_MS}"
_POSTGRES_READ = f"BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY; {_BY_KEYS}"
_POSTGRES_SNAPSHOT = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {_BY_KEYS}"

DATABASE_ERRORS = (sqlite3.Error, psycopg.Error, SQLAlchemyError)
"""What the drivers and the pool raise: whether a commit that ends so has happened is not known."""


def is_retryable(error: BaseException) -> bool:
    """Tell whether a unit of work was undone for its moment alone: a deadlock, or a conflict with another one."""
    return isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure)


def is_busy(error: BaseException) -> bool:
    """Tell whether the embedded database was locked by somebody else."""
    cause = getattr(error, "orig", error)
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


_SQLITE_OF_DISK = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
}


def is_of_disk(error: BaseException) -> bool:
    """Tell whether the database could not write, or read, its files: not a matter of the moment."""
    cause = getattr(error, "orig", error)
    if isinstance(cause, psycopg.Error):
        return cause.sqlstate == "53100" or (cause.sqlstate or "").startswith("58")  # disk_full; system errors
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_OF_DISK


class DatabaseReplaced(sqlite3.OperationalError):
    """A file of the embedded database, its log included, is another one than this process has open."""


class Connection:
    """A pooled connection of the driver: `Statement`s run on it.

    SQLAlchemy's own costs as much to make, begin and commit as six statements.
    """

    __slots__ = ("_pooled", "cursor", "dialect")

    def __init__(self, engine: Engine) -> None:
        self._pooled: PoolProxiedConnection = engine.raw_connection()
        driver: Any = self._pooled.driver_connection
        self.cursor: Callable[[], DBAPICursor] = driver.cursor
        self.dialect = engine.dialect

    def run(self, text: str) -> None:
        """Run a statement without values or rows."""
        with closing(self.cursor()) as cursor:
            cursor.execute(text)

    def commit(self) -> None:
        """Commit."""
        self._pooled.commit()

    def undo(self) -> None:
        """Undo what was not committed; a connection on which that fails is not used again."""
        try:
            self._pooled.rollback()
        except DATABASE_ERRORS:
            self._pooled.invalidate()

    def close(self) -> None:
        """Give it back."""
        self._pooled.close()


class Base(DeclarativeBase):
    """Base of every slice's models."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class SchemaError(ValueError):
    """The database's schema is not the one of this version."""


class PoolerError(ValueError):
    """A pooler between the curator and PostgreSQL does not keep transactions together."""


class Database:
    """One database, embedded SQLite or PostgreSQL, through the same code.

    Parameters
    ----------
    url : str
        SQLAlchemy URL.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.url = parsed
        if self.is_sqlite and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        options: dict[str, Any] = {"hide_parameters": True}
        if self.is_sqlite:
            options |= {"paramstyle": "named", "pool_size": 20, "max_overflow": 60, "pool_use_lifo": True}
        else:
            # Threads wait for a connection: a worker must not use up what the server grants to all of them.
            options |= {"pool_pre_ping": True, "pool_size": CONNECTIONS_PER_POOL, "max_overflow": 0}
            # A prepared statement belongs to a session, and a pooler changes sessions.
            options |= {"connect_args": {"prepare_threshold": None}}
        # Transactions begin where this module says so.
        options |= {"isolation_level": "AUTOCOMMIT"}
        self._writer = create_engine(parsed, **options)
        self._reader = create_engine(parsed, **options)
        self._prober = create_engine(parsed, **options | {"pool_size": 1, "max_overflow": 0})
        # A commit of one connection to the embedded database voids what every other one has in its cache.
        self._read_by = self._writer if self.is_sqlite else self._reader
        self._local = threading.local()
        self._files: dict[str, tuple[int, int]] = {}
        self._holder: sqlite3.Connection | None = None
        self._opening = threading.Lock()
        self.fault = ""
        self.failed_at = float("-inf")
        # SQLite has one writer, and lets others sleep and try again: within a process, waiting in line is fairer.
        self._turn = threading.Lock() if self.is_sqlite else None
        if self.is_sqlite:
            for engine in (self._writer, self._reader, self._prober):
                event.listen(engine, "connect", self._open_sqlite)
            event.listen(self._prober, "connect", _wait_briefly)
            event.listen(self._writer, "begin", functools.partial(_begin, "BEGIN IMMEDIATE"))
        else:
            event.listen(self._writer, "begin", functools.partial(_begin, _POSTGRES_WRITE))
            event.listen(self._reader, "begin", functools.partial(_begin, _POSTGRES_READ))
            for engine in (self._writer, self._reader, self._prober):
                event.listen(engine, "do_connect", _connect_postgres)

    @property
    def is_sqlite(self) -> bool:
        """True if this is the embedded database."""
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a unit of work: committed, durably, on success; undone on any exception.

        On SQLite it holds the write lock from the start, so that what it reads cannot change under it.

        Raises
        ------
        DatabaseReplaced
            If a file of the embedded database is another one than was opened: what was written is in a file without
            a name then, and nobody must be told that it is stored.
        """
        if getattr(self._local, "writing", False):
            raise RuntimeError("a unit of work was opened within another: it would wait for itself")
        self.give_back()  # whoever waits for the writer's turn must not keep readers waiting
        self._local.writing = True
        try:
            self.check_file()
            with self._in_line(), closing(Connection(self._writer)) as connection:
                try:
                    connection.run("BEGIN IMMEDIATE" if self.is_sqlite else _POSTGRES_WRITE)
                    self._local.unit = connection
                    yield connection
                    connection.commit()
                except BaseException:
                    connection.undo()
                    raise
            self.check_file()
        except DATABASE_ERRORS as error:
            if is_of_disk(error):
                self.failed_at = time.monotonic()
            raise
        finally:
            self._local.writing, self._local.unit = False, None

    def can_write(self, write: Callable[[Connection], object]) -> bool:
        """Commit a write; tell whether that is possible now, or was for somebody else meanwhile.

        It has a connection of its own and waits in no line, so that no crowd of requests keeps it waiting. Where the
        embedded database is locked all the time, whoever else commits shows that it is by a crowd.

        Parameters
        ----------
        write : callable
            Runs statements.
        """
        try:
            self.check_file()
            with closing(Connection(self._prober)) as connection:
                seen = self._find_version(connection)
                try:
                    connection.run("BEGIN IMMEDIATE" if self.is_sqlite else _POSTGRES_PROBE)
                    write(connection)
                    connection.commit()
                except BaseException as error:
                    connection.undo()
                    if is_busy(error):
                        return self._find_version(connection) != seen
                    raise
        except DATABASE_ERRORS:
            return False
        return True

    def _find_version(self, connection: Connection) -> object:
        """Return what changes for a connection with each commit of another; None where nobody waits for others."""
        if not self.is_sqlite:
            return None
        with closing(connection.cursor()) as cursor:
            return cursor.execute("PRAGMA data_version").fetchone()

    def check_file(self) -> None:
        """Check that the embedded database's files are those that this process has open.

        What was committed last is in the write-ahead log alone, until a checkpoint: where that has lost its name, it is
        gone with the process.

        Raises
        ------
        DatabaseReplaced
            From then on always, until every connection is closed.
        """
        for path, opened in self._files.items():
            if self.fault:
                break
            try:
                found = identify(os.stat(path))
            except OSError:
                found = None
            if found != opened:
                self.fault = f"the database's file {path} was replaced, moved or removed while the curator ran"
                log.error("SEALED: %s. Nothing is released until it is started again.", self.fault)
        if self.fault:
            raise DatabaseReplaced(self.fault)

    def _open_sqlite(self, connection: Any, record: Any) -> None:
        """Note which files were opened, or check that they are those of the other connections."""
        self.check_file()
        with self._opening:
            if self._holder is None and self.url.database:
                self._hold(self.url.database)
        _configure_sqlite(connection, record)

    def _hold(self, database: str) -> None:
        """Keep one connection open and note its files: SQLite removes the log when the last one of all is closed."""
        holder = sqlite3.connect(database, check_same_thread=False)  # `dispose` closes it, in whatever thread
        try:
            _configure_sqlite(holder, None)
            holder.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read opens the log
            paths = [f"{database}{end}" for end in ("", "-wal", "-shm")]
            self._files = {path: identify(os.stat(path)) for path in paths if os.path.exists(path)}
        except BaseException:
            holder.close()
            raise
        self._holder = holder

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        """Wait for this process's turn to write: no longer than whoever has it may wait for the database."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000):
            raise sqlite3.OperationalError("database is locked")
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection for single statements that only read.

        Within a unit of work of this thread it is the unit's: to wait for a second one while others wait for the first
        would be a deadlock, where a pooler has few. Within `shared_read` it is the one of this thread.
        """
        unit: Connection | None = getattr(self._local, "unit", None)
        if unit is not None:
            yield unit
            return
        if not getattr(self._local, "shared_read", False):
            with closing(self._open_to_read()) as connection:
                yield connection
            return
        if self._local.connection is None:
            self._local.connection = self._open_to_read()
        try:
            yield self._local.connection
        except DATABASE_ERRORS:
            self.give_back()  # a transaction in which a statement failed runs no other
            raise

    def _open_to_read(self) -> Connection:
        """Open a connection for statements that each see what was committed before them."""
        connection = Connection(self._read_by)
        if not self.is_sqlite:  # there one statement needs no transaction
            try:
                connection.run(_POSTGRES_READ)
            except BaseException:
                connection.close()
                raise
        return connection

    @contextmanager
    def shared_read(self) -> Iterator[None]:
        """Let the reads of this thread share one connection: checking one out costs more than a look-up."""
        if getattr(self._local, "shared_read", False):  # within another such block: its connection is shared
            yield
            return
        self._local.shared_read, self._local.connection = True, None
        try:
            yield
        finally:
            self.give_back()
            self._local.shared_read = False

    def give_back(self) -> None:
        """Give back the connection that this thread's reads share, until the next read: for work that takes time."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a read of many statements that all see one instant; writers go on."""
        with closing(Connection(self._read_by)) as connection:
            connection.run("BEGIN" if self.is_sqlite else _POSTGRES_SNAPSHOT)
            try:
                yield connection
            finally:
                connection.undo()

    def check_schema(self, *, is_current: bool = True) -> None:
        """Refuse a schema that this version does not know; with `is_current` also an older one.

        Raises
        ------
        SchemaError
        """
        current, head = self.revisions()
        if current is not None:
            check_revision(current)
        if is_current and current != head:
            raise SchemaError("the database's schema is not current; run `curator db upgrade` first (after a backup)")

    def upgrade(self, revision: str = "head") -> None:
        """Bring the schema to a revision of the migrations.

        Raises
        ------
        SchemaError
            If this version does not know it.
        """
        self.check_schema(is_current=False)
        with self._writer.connect() as connection:
            config = _migration_config()
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            connection.commit()
        if self.is_sqlite and self.url.database:
            Path(self.url.database).chmod(0o600)

    def write_back(self) -> None:
        """Bring what the embedded database's log holds into its file, as far as that waits for nobody."""
        if self.is_sqlite:
            with self.read() as connection:
                connection.run("PRAGMA wal_checkpoint(PASSIVE)")

    def forget_deleted(self) -> None:
        """Empty the embedded database's log, which holds pages as they were; as far as nobody reads them now."""
        if self.is_sqlite:
            with self.read() as connection:
                connection.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def revisions(self) -> tuple[str | None, str | None]:
        """Return the schema's revision and the migrations' head.

        Raises
        ------
        PoolerError
            If a pooler refuses transactions.
        """
        try:
            with self._reader.connect() as connection:
                current = MigrationContext.configure(connection).get_current_revision()
        except DATABASE_ERRORS as error:
            if "statement pooling" not in str(error):
                raise
            raise PoolerError(
                "the pooler in CURATOR_DATABASE_URL refuses transactions; set its pool_mode to transaction or session"
            ) from None
        return current, _head_revision()

    def now(self) -> datetime:
        """Return the clock of the database's server; of the embedded database, this machine's."""
        if self.is_sqlite:
            return datetime.now(UTC)
        with self._reader.connect() as connection:
            moment: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return moment

    def has_group(self) -> bool:
        """Tell whether the group that the service needs on PostgreSQL has its rights; the embedded one needs none."""
        if self.is_sqlite:
            return True
        with self._reader.connect() as connection:
            may = "SELECT has_table_privilege(oid, 'ledger_entries', 'INSERT') FROM pg_roles WHERE rolname = %(group)s"
            return bool(connection.exec_driver_sql(may, {"group": SERVICE_GROUP}).scalar())

    def dispose(self) -> None:
        """Close every pooled connection."""
        for engine in (self._writer, self._reader, self._prober):
            engine.dispose()
        with self._opening:
            self._files, self.fault = {}, ""
            if self._holder is not None:
                self._holder.close()
                self._holder = None

    @property
    def engine(self) -> Engine:
        """The engine of units of work, for what SQLAlchemy itself reads or writes."""
        return self._writer


def is_absent(url: URL) -> bool:
    """Tell whether an embedded database's file is not there, or empty: opening it would make one."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return False
    try:
        return os.stat(url.database).st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False


def name_database(url: URL) -> str:
    """Return which database it is, without who logs in, or how."""
    if url.host is None:
        return f"{url.get_backend_name()}, {url.database}"
    return f"{url.get_backend_name()}, {url.database} on {url.host}"


class Statement:
    """A statement that SQLAlchemy builds, once per dialect, and the driver runs.

    Running an expression through SQLAlchemy costs eight times the embedded database's own work; a release runs ten.

    Parameters
    ----------
    expression : ClauseElement
        With its values as named `bindparam`; an INSERT takes one for each column.
    """

    def __init__(self, expression: ClauseElement) -> None:
        self._expression = expression
        self._compiled: dict[str, tuple[str, dict[str, object]]] = {}

    def _build(self, dialect: Dialect) -> ClauseElement:
        del dialect
        return self._expression

    def execute(self, connection: Connection, /, **values: object) -> DBAPICursor:
        """Run the statement; return the driver's cursor."""
        text, literals = self._compile(connection.dialect)
        cursor = connection.cursor()
        try:
            cursor.execute(text, literals | values if literals else values)
        except BaseException:
            cursor.close()
            raise
        return cursor

    def execute_each(self, connection: Connection, rows: Iterable[dict[str, object]]) -> None:
        """Run the statement once for each row of values: on PostgreSQL in one exchange with the server."""
        text, literals = self._compile(connection.dialect)
        with closing(connection.cursor()) as cursor:
            cursor.executemany(text, [literals | row for row in rows])

    def _compile(self, dialect: Dialect) -> tuple[str, dict[str, object]]:
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._build(dialect).compile(dialect=dialect)
            literals = {name: value for name, value in compiled.params.items() if value is not None}
            found = self._compiled[dialect.name] = str(compiled), literals
        return found

    def first(self, connection: Connection, /, **values: object) -> tuple[Any, ...] | None:
        """Run the statement; return its first row, if it has one.

        PostgreSQL takes no text with a zero byte, so that nothing has such a name.
        """
        if any(isinstance(value, str) and "\0" in value for value in values.values()):
            return None
        cursor = self.execute(connection, **values)
        try:
            row: tuple[Any, ...] | None = cursor.fetchone()
        finally:
            cursor.close()  # a read that is not over would hold its snapshot
        return row

    def all(self, connection: Connection, /, **values: object) -> list[tuple[Any, ...]]:
        """Run the statement; return every row."""
        cursor = self.execute(connection, **values)
        try:
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def stream(self, connection: Connection, /, **values: object) -> Iterator[tuple[Any, ...]]:
        """Run the statement; yield its rows as the database sends them. `execute` holds all that PostgreSQL sends."""
        text, literals = self._compile(connection.dialect)
        with closing(connection.cursor()) as cursor:
            if isinstance(cursor, psycopg.Cursor):
                yield from cursor.stream(text, literals | values)
            else:
                cursor.execute(text, literals | values)
                while (row := cursor.fetchone()) is not None:
                    yield row

    def changed(self, connection: Connection, /, **values: object) -> int:
        """Run the statement; return how many rows it wrote."""
        count: int = self.execute(connection, **values).rowcount
        return count


class InsertIfAbsent(Statement):
    """Insert a row unless its key is taken, waiting for whoever is inserting the same key; `changed` tells."""

    def __init__(self, model: type[Base]) -> None:
        super().__init__(insert(model))
        self._model = model

    def _build(self, dialect: Dialect) -> ClauseElement:
        statement: ClauseElement = (
            (sqlite if dialect.name == "sqlite" else postgresql).insert(self._model).on_conflict_do_nothing()
        )
        return statement


def migrations_dir() -> Path:
    """Return the migrations: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def _migration_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_dir()))
    return config


def check_revision(revision: str) -> None:
    """Refuse the revision of a schema that this version does not know.

    Raises
    ------
    SchemaError
    """
    if revision not in _known_revisions():
        raise SchemaError(
            f"the database's schema, revision {revision}, is that of another version, which this one cannot read: run "
            "that version, or restore a backup of this one"
        )


@functools.cache
def _known_revisions() -> frozenset[str]:
    return frozenset(script.revision for script in ScriptDirectory.from_config(_migration_config()).walk_revisions())


@functools.cache
def _head_revision() -> str | None:
    """Return the newest revision: reading the migrations takes milliseconds, and they do not change under a process."""
    return ScriptDirectory.from_config(_migration_config()).get_current_head()


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # every BEGIN is said here
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten
    cursor.execute("PRAGMA recursive_triggers=ON")  # or REPLACE would delete past the append-only triggers
    cursor.close()


def _connect_postgres(dialect: Dialect, _record: Any, arguments: Any, named: Any) -> Any:
    """Connect; what the system refuses beside the socket, as a descriptor to wait with, is an error of the database."""
    try:
        return dialect.connect(*arguments, **named)
    except OSError as error:
        raise psycopg.OperationalError(f"no connection: {error.strerror}") from None


def _wait_briefly(connection: Any, _record: Any) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"PRAGMA busy_timeout={PROBE_MS}")


def _begin(statements: str, connection: Any) -> None:
    """Begin a transaction of SQLAlchemy's own as those of this module begin."""
    connection.connection.cursor().execute(statements)
