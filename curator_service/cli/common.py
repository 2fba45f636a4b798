"""Helpers of every command: opening the curator, output for people and for programs, errors for the operator."""

import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName
from pydantic import ValidationError
from pydantic_core import to_jsonable_python
from rich import markup
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, ProgrammingError
from threadpoolctl import threadpool_limits

from curator_service.backup import BackupError
from curator_service.cli.terminal import Terminal
from curator_service.container import Curator, make_curator
from curator_service.datasets.access import AccessError
from curator_service.datasets.erasures import ErasureError
from curator_service.datasets.exports.required import ExportError
from curator_service.datasets.manifest import ManifestError
from curator_service.datasets.reidentification import SubjectKeyError
from curator_service.datasets.service import RegistrationError
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.sql import open_query
from curator_service.datasets.versions import ChangeError
from curator_service.evidence.service import EvidenceError
from curator_service.identity.policy import Action
from curator_service.identity.repository import Principal
from curator_service.identity.service import IdentityError
from curator_service.kinds.registry import KINDS
from curator_service.kit.db import PoolerError, SchemaError, is_absent, name_database
from curator_service.kit.names import make_visible
from curator_service.kit.problems import Problem
from curator_service.kit.spelling import UNREADABLE, is_unicode
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.service import PopulationError
from curator_service.ledger.trust.anchor import AnchorError
from curator_service.ledger.trust.histories import HistoryError
from curator_service.ledger.trust.recovery import ReconciliationError
from curator_service.permits.service import PermitError
from curator_service.privacy.selftest import SelfTestError, run_self_test
from curator_service.settings import Settings, explain

out = Terminal()
err = Terminal(stderr=True)
ManifestFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
DataSource = Annotated[
    Path | None,
    typer.Argument(exists=True, readable=True, help="The rows: a CSV or Parquet file, or a folder of Parquet files."),
]
QueryFile = Annotated[
    Path | None, typer.Option(dir_okay=False, help="A file with a query whose result is the rows, not DATA.")
]
DatabaseName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Where --sql is asked: a name in CURATOR_SOURCES.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without a question; needed where there is no terminal.")]
_ERRORS = (
    AccessError,
    EvidenceError,
    ExportError,
    ManifestError,
    IngestError,
    RegistrationError,
    ChangeError,
    ErasureError,
    IdentityError,
    PermitError,
    PopulationError,
    SigningError,
    SubjectKeyError,
    AnchorError,
    BackupError,
    ReconciliationError,
    HistoryError,
    PoolerError,
    SchemaError,
    FileNotFoundError,
)
_WITHOUT_RIGHTS = (InsufficientPrivilege, InvalidSchemaName)
"""What PostgreSQL says to a role that may not do it, or may not even see the schema."""


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal, and end the command unless the answer is yes; `yes` is the answer of a script."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("there is no terminal to ask on: add --yes")
    if not typer.confirm(question, err=True):
        fail("nothing was changed")


def read_settings() -> Settings:
    """Read the settings; a mistake in them ends the command with its place and rule."""
    try:
        return Settings()
    except (ValueError, FileNotFoundError) as error:
        fail("\n".join(explain(error)), status=2 if isinstance(error, ValidationError) else 1)


def escape(text: str) -> str:
    """Return text that a terminal shows as it is, whoever wrote it."""
    return markup.escape(make_visible(text))


def fail(message: str, status: int = 1) -> NoReturn:
    """End the command with a message."""
    for line in message.splitlines():
        err.print(f"[red]error:[/red] {escape(line)}", highlight=False, soft_wrap=True)
    raise typer.Exit(status)


def read_input(size: int | None = None) -> str:
    """Read a line of standard input, or so much; what is not of its encoding ends the command."""
    try:
        return sys.stdin.readline() if size is None else sys.stdin.read(size)
    except UnicodeDecodeError:
        fail(UNREADABLE, status=2)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what is refused into one clear line."""
    try:
        yield
    except _ERRORS as error:
        fail(str(error))


@contextmanager
def reading(name: str) -> Iterator[Progress]:
    """Show how far a source was read, while it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=err, transient=True) as bar:
        task = bar.add_task(f"reading {name}", total=1.0)
        yield lambda count, share: bar.update(
            task, completed=share or 0.0, description=f"reading {name}: {count:,} rows"
        )


def choose_source(data: Path | None, sql: Path | None, database: str | None) -> Path | Source:
    """Return where rows come from: a path, or a query; what is neither, or both, ends the command."""
    if data is not None and sql is None and database is None:
        return data
    if data is not None or sql is None or database is None:
        fail("the rows are DATA, a file or a folder, or what --sql QUERY_FILE gives beside --database NAME")
    known = read_settings().sources
    if database not in known:
        fail(f"there is no database {database!r} in CURATOR_SOURCES; known: {', '.join(sorted(known)) or 'none'}")
    return open_query(sql, database, known[database].get_secret_value())


def check_machine(curator: Curator | None = None) -> None:
    """Check what the proofs assume of this machine, and a curator's engine; end the command where it does not hold."""
    try:
        with threadpool_limits(1, user_api="blas"):
            run_self_test(KINDS.self_tests)
            if curator is not None:
                curator.check_engine()
    except SelfTestError as error:
        fail(str(error))


def check_schema(curator: Curator, *, creates: bool) -> None:
    """Bring the embedded database to the current schema; ask for `curator db upgrade` on any other."""
    current, head = curator.database.revisions()
    if current != head and curator.database.is_sqlite and (creates or current is not None):
        curator.database.upgrade()
    curator.database.check_schema()


@contextmanager
def open_curator(*, current_schema: bool = True, to_write: bool = False, creates: bool = False) -> Iterator[Curator]:
    """Open the curator of the settings, and turn what goes wrong into one clear line.

    With `to_write` the ledger is verified first: a chain that was wound back must not grow. Only a command that
    `creates` makes an embedded database where there is none: any other would say of a wrong folder that all is well.
    """
    settings = read_settings()
    try:
        url = make_url(settings.url)
        if not creates and is_absent(url):
            variable = "CURATOR_DATA_DIR" if settings.database_url is None else "CURATOR_DATABASE_URL"
            fail(
                f"there is no curator: the database ({name_database(url)}) is not there. Let {variable} name the place "
                "of yours, get it back with `curator restore FILE`, or make a new one with `curator populations create`"
            )
        curator = make_curator(settings)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        fail("CURATOR_DATABASE_URL is not an address of SQLite or PostgreSQL, such as postgresql://host/database")
    except OSError as error:
        fail(f"the folder of the data or of the database cannot be used: {error.strerror}")
    try:
        if current_schema:
            check_schema(curator, creates=creates)
        if to_write and (reason := curator.start()):
            fail(f"the curator is sealed: {reason}. Nothing is written until `curator restore --reconcile`")
        yield curator
    except _ERRORS as error:
        fail(str(error))
    except Problem as error:
        fail(error.detail)
    except (ProgrammingError, *_WITHOUT_RIGHTS) as error:
        if not isinstance(getattr(error, "orig", error), _WITHOUT_RIGHTS):
            raise
        fail("the role in CURATOR_DATABASE_URL may not do this; run the command with that of the database's owner")
    except OperationalError:
        fail("the database does not answer; check CURATOR_DATABASE_URL and that the server runs")
    finally:
        curator.datasets.storage.engine.close()
        curator.database.dispose()


def authenticate_admin(curator: Curator, token: str) -> Principal:
    """Return whose token it is, if that is an admin's."""
    principal = curator.identity.authenticate(f"Bearer {token}")
    curator.identity.authorize(principal, Action.SET_LIMIT)
    return principal


def actor() -> str:
    """Name the operator for the ledger."""
    try:
        return f"operator:{getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as containers have
        return f"operator:{os.getuid()}"


def emit(content: Any, *, as_json: bool, table: Table | str) -> None:
    """Print a result for a program or for a person."""
    if as_json:
        is_ascii = not is_unicode(sys.stdout)
        text = json.dumps(content, indent=2, ensure_ascii=is_ascii, default=to_jsonable_python)
        typer.echo(make_visible(text))
    else:
        out.print(table, soft_wrap=isinstance(table, str))


def write_document(text: str) -> None:
    """Write what a program reads, such as CSV or TOML: in UTF-8, whatever the encoding of the terminal is."""
    typer.echo(text.encode(), nl=False)
