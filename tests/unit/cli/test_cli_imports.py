"""Starting is cheap: a list of commands, and a check of a file, import no more than they need."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from curator_service.cli.lazy import as_command
from curator_service.cli.main import Commands, app

OF_THE_SERVER = {
    *("alembic", "cryptography", "fastapi", "mpmath", "numpy", "psycopg", "pyarrow", "pydantic", "scipy", "sqlalchemy"),
    *("threadpoolctl", "uvicorn"),
}
COUNT = """
import runpy, sys
sys.argv[1:] = {arguments!r}
try:
    runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
except SystemExit as end:
    assert not end.code, end.code
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(*sorted(loaded & {heavy!r}), file=sys.stderr)
"""


def heavy_imports(module: str, *arguments: str, heavy: set[str]) -> list[str]:
    """Return which of some modules a program imports before it ends well."""
    program = COUNT.format(module=module, arguments=list(arguments), heavy=heavy)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ended.stderr.split()


def test_help_imports_neither_database_nor_arithmetic() -> None:
    assert heavy_imports("curator_service.cli.main", "--help", heavy=OF_THE_SERVER) == []


def test_a_command_imports_what_it_needs_and_no_server() -> None:
    """The test above can fail: the names are those of modules that commands do import."""
    servers = {"fastapi", "starlette", "uvicorn", "httptools"}
    found = set(heavy_imports("curator_service.cli.main", "populations", "--help", heavy=OF_THE_SERVER | servers))
    assert {"numpy", "pydantic", "sqlalchemy"} <= found
    assert not found & servers


@pytest.mark.parametrize("name", Commands.places)
def test_every_command_is_where_its_place_says(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    listed = Commands.places[name].help
    command = Commands.load(name)
    assert command.name == name
    assert command.help.partition("\n\n")[0].replace("\n", " ") == listed


def test_a_typing_error_is_answered_with_the_command_that_was_meant() -> None:
    shown = CliRunner().invoke(app, ["populatoins"])
    assert shown.exit_code == 2
    assert "Did you mean 'populations'" in " ".join(shown.output.split())


def test_a_group_of_one_command_stays_a_group() -> None:
    group = typer.Typer()
    group.command("only")(lambda: None)
    assert list(as_command("group", group, "A group.").commands) == ["only"]
