"""Commands print in every encoding, and their tables fit 80 columns with every word whole."""

import importlib
import os
import re
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from forks import fork
from rich.table import Table

from curator_service import cli
from curator_service.cli.terminal import Terminal

IN_C = "ascii in C"
"""A console of the locale C where Python takes that at its word: words that are not in ASCII arrive as bytes."""
ENCODINGS = ["cp1252", "cp437", "cp850", "ascii", "latin-1", "utf-8", IN_C]
COMMANDS = [
    ["--help"],
    ["populations", "--help"],
    ["populations", "create", "village", "--adjacency", "add_remove", "--epsilon", "1", "--delta", "1e-6"],
    ["populations", "list"],
    ["populations", "list", "--json"],
    ["datasets", "add", "manifest.toml", "rows.csv"],
    ["datasets", "show", "cohort"],
    ["datasets", "show", "cohort", "--json"],
    ["datasets", "list"],
    ["manifest", "draft", "rows.csv"],
    ["tokens", "create", "ada", "--role", "analyst"],
    ["tokens", "list"],
    ["permits", "grant", "ada", "cohort"],
    ["permits", "list"],
    ["ledger", "show", "village"],
    ["ledger", "verify"],
    ["spending"],
    ["spending", "--format", "csv"],
    ["keys", "list"],
    ["doctor"],
    ["ledger", "show", "ε"],
    ["principals", "appoint", "ε", "--role", "analyst"],
    ["providers", "explain"],
    ["backup", "Größe – ε.tar"],
    ["nonsense"],
]
PROGRAM = f"""
import sys
from curator_service.cli import main
for command in {COMMANDS!r}:
    sys.argv = ["curator", *(word.encode().decode(sys.getfilesystemencoding(), "surrogateescape") for word in command)]
    sys.stdout.write("### " + ascii(" ".join(command))[1:-1] + "\\n")
    try:
        main()
    except SystemExit as left:
        code = left.code or 0
    sys.stdout.write("status " + str(code) + "\\n")
    sys.stdout.flush()
"""
MANIFEST = """
name = "cohort"
description = "Blood – creatinine in µmol/l, of ≤ 100 people"
population = "village"
row_capacity = 100
rows_are_persons = true

[[columns]]
name = "age"
type = "numeric"
lower = 0
upper = 100
description = "Age ± 1 year, of everybody who was examined in the hospital of the village"

[[columns]]
name = "dose"
type = "numeric"
unit = "µg"
lower = 0
upper = 1
"""


def run(encoding: str, folder: Path) -> tuple[str, str]:
    """Run the commands one after another; return what they write, and their errors."""
    (folder / "manifest.toml").write_text(MANIFEST, encoding="utf-8")
    (folder / "rows.csv").write_text("age,dose\n" + "50,0.5\n61,0.25\n" * 20, encoding="utf-8")
    typed = folder / "typed"
    typed.write_text("zeilen – ε\n", encoding="utf-8")
    changes = {"COLUMNS": "80", "CURATOR_DATA_DIR": str(folder / "data")}
    if encoding not in {"ascii", IN_C}:
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            work = partial(_run_here, folder)
            process = fork(work, changes, out.fileno(), err.fileno(), given=str(typed), encoding=encoding)
            process.join()
        text, errors = ((folder / name).read_bytes().decode(encoding) for name in ("out", "err"))
        assert process.exitcode == 0, errors
        return text, errors
    # What Python and typer make of streams in ASCII is decided where an interpreter starts.
    told = {"PYTHONIOENCODING": encoding}
    if encoding == IN_C:
        told = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    environment = os.environ | told | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | changes
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "program.py"]
    ended = subprocess.run(
        command, cwd=folder, env=environment, input=typed.read_bytes(), capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode("ascii")
    return ended.stdout.decode("ascii"), ended.stderr.decode("ascii")


def _run_here(folder: Path) -> None:
    os.chdir(folder)
    importlib.reload(cli)  # else its main is the module of this name, where that was imported before
    exec(PROGRAM, {})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_commands_print_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    text, errors = run(encoding, tmp_path)
    codes = [int(code) for code in re.findall(r"^status (\d+)$", text, re.MULTILINE)]
    unreadable = "some words are not of this console's encoding" in errors
    assert len(codes) == len(COMMANDS)
    *_, ledger, principals, providers, backup, nonsense = codes
    assert set(codes[:-5]) == {0}
    assert (ledger, principals) == (1, 2 if encoding == IN_C else 1)
    assert (providers, backup, nonsense) == (2 if unreadable else 1, 0, 2)
    assert unreadable == (encoding in {"ascii", IN_C})
    assert (tmp_path / "Größe – ε.tar").is_file()
    encoding = encoding.removesuffix(" in C")
    assert "Traceback" not in text + errors
    assert not re.search(r"\\u25", text + errors)  # every frame has a spelling
    said = dict(re.findall(r"### (.*?)\n(.*?)(?=###|\Z)", text, re.DOTALL))
    assert len(said) == len(COMMANDS)
    assert ("limit ε" in said["populations list"]) == (encoding in {"cp437", "utf-8"})
    assert ("ug" in said["datasets show cohort"]) == (encoding == "ascii")
    assert ("±" in said["datasets show cohort"]) == (encoding != "ascii")
    assert ("\\u00b5g" in said["datasets show cohort --json"]) == (
        encoding != "utf-8"
    )  # a program reads what was declared
    assert max(map(len, text.splitlines())) <= 160
    for command in ("populations list", "datasets list", "ledger show village", "permits list", "keys list", "doctor"):
        assert max(map(len, said[command].splitlines())) <= 80, command
        assert "…" not in said[command]
    assert re.search(r"prm_[0-9a-f]{24}\b", said["permits list"])
    assert re.search(r"key_[0-9a-f]{32}\b", said["keys list"])
    assert "No such command 'nonsense'" in errors


def written(table: Table, width: int = 80) -> list[str]:
    terminal = Terminal(file=StringIO(), width=width)
    terminal.print(table)
    return terminal.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_table_is_narrowed_between_its_words() -> None:
    table = Table("population", "what was said of it")
    table.add_row("olmsted_county", "one two three four five six seven eight nine ten")
    lines = written(table, 40)
    assert max(map(len, lines)) == 40
    assert [word for line in lines for word in re.findall(r"[a-z_]+", line)][6:] == [
        *("olmsted_county", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    ]


def test_a_table_whose_words_are_too_long_lists_its_cells() -> None:
    table = Table("id", "key", "note", title="Keys")
    for letter in "ab":
        table.add_row(letter * 32, letter.upper() * 44, "")
    lines = [re.findall(r"\w+", line) for line in written(table) if re.search(r"\w", line)]
    assert lines == [
        ["Keys"],
        *([head, word] for c in "ab" for head, word in (("id", c * 32), ("key", c.upper() * 44))),
    ]


def test_an_empty_table_still_names_its_columns() -> None:
    heads = [f"a_long_head_{k}" for k in range(9)]
    assert re.findall(r"\w+", " ".join(written(Table(*heads)))) == heads
