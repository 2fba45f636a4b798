"""Every value prints in every encoding, and every table fits 80 columns between its words."""

import io
import os
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from displayed import shown

from analyst_client import EstimationWarning, spelling
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import table
from analyst_client.display.terminal import as_text, measure
from analyst_client.exports import public_names
from analyst_client.kinds.published import PublishedAnswer
from curator_service.kit import spelling as of_the_server

IN_C = "ascii in C"
"""A console of the locale C where Python takes that at its word: standard output is in ASCII, and not strict."""
ENCODINGS = ["cp1252", "cp437", "ascii", "latin-1", IN_C]
PRINT = """
import pickle, sys
import analyst_client
with open(sys.argv[1], "rb") as file:
    for name, value in pickle.load(file).items():
        print(f"### {name}", value, repr(value), sep="\\n")
"""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    with pytest.warns(EstimationWarning):
        return shown()


class Keeper(pickle.Pickler):
    """Pickle answers as they stand: the text of an example is not the one that it would be read from."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, PublishedAnswer):
            return object.__new__, (type(value),), vars(value)
        return NotImplemented


@pytest.fixture(scope="module")
def kept(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the values, which are computed once and printed by a process for each encoding."""
    path = tmp_path_factory.mktemp("values") / "values"
    with path.open("wb") as file:
        Keeper(file).dump(values)
    return str(path)


def print_in(encoding: str, program: list[str], **variables: str) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join(filter(None, sys.path))
    told = {"PYTHONIOENCODING": encoding}
    if encoding == IN_C:
        told = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    environment = os.environ | told | {"PYTHONPATH": paths, "COLUMNS": "80"} | variables
    return subprocess.run([sys.executable, *program], env=environment, capture_output=True, check=False)


def kinds_of(parent: type) -> set[type]:
    """Return the classes of the package below one that are no base of others."""
    below = parent.__subclasses__()
    return set().union(*map(kinds_of, below)) if below else {parent}


def test_a_value_of_every_kind_is_printed(values: dict[str, Any]) -> None:
    for name, module in public_names().items():
        getattr(import_module(module), name)
    kinds = {kind for kind in kinds_of(Displayable) if kind.__module__.startswith("analyst_client.")}
    assert {kind.__name__ for kind in kinds} - {type(value).__name__ for value in values.values()} == set()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_value_prints_in_every_encoding(encoding: str, kept: str) -> None:
    ended = print_in(encoding, ["-W", "ignore", "-c", PRINT, kept])
    assert ended.returncode == 0, ended.stderr.decode()
    encoding = encoding.removesuffix(" in C")
    text = ended.stdout.decode(encoding)
    assert text.count("### ") > 70
    for word in ("Standard errors hold sampling", "95% from", "kidneys"):
        assert word in text
    lost = {"ascii": "±²°µ≤−…–ε─", "latin-1": "≤−…–ε─", "cp1252": "≤−ε─", "cp437": "−…–"}[encoding]
    assert not set(lost) & set(text)
    assert ("epsilon = 1 at delta = 1e-06" in text) == (encoding != "cp437")
    assert ("mu-study" in text) == (encoding == "ascii")
    assert "CuratorError" in text
    assert "年" not in text
    assert "\\u5e74" in text  # what has no spelling is escaped, as Python itself does on the error stream


def test_a_table_is_aligned_after_its_glyphs_are_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    block = table("µ", ("term", "ε"), [["R²", "1 ± 2"], ["a", "−3"]], numeric={1})
    assert as_text((block,), 80).splitlines() == [
        "mu",
        "-------------",
        "term  epsilon",
        "-------------",
        "R^2   1 +/- 2",
        "a          -3",
    ]


def words_of(text: str) -> set[str]:
    """Return what no line may break: all between spaces, but a function's argument may begin a line."""
    return set(re.sub(r"[─█▒░]|(?<=\w\()(?=\w)", " ", text).split())


def test_no_word_of_the_tutorial_is_broken_at_80_columns(values: dict[str, Any]) -> None:
    tables = {name: value for name, value in values.items() if hasattr(value, "_view") and "hostile" not in name}
    assert sum(name.startswith("tutorial") for name in tables) >= 10
    for name, value in tables.items():
        narrow = as_text(value._view(), 80)
        assert max(map(measure, narrow.splitlines())) <= 80, name
        whole = words_of(as_text(value._view(), 1000))
        too_long = {word for word in whole if len(word) > 60}  # a signature, which no line of 80 holds beside its name
        assert {part for part in words_of(narrow) - whole if not any(part in word for word in too_long)} == set(), name


def test_a_table_of_many_groups_is_shown_in_parts() -> None:
    heads = ["variable", "statistic", *(f"group {k}" for k in range(7))]
    rows = [["a long name", "mean", *["−1234.5 [−1300.1, −1200.7]"] * 7]]
    block = table("Groups", heads, rows, numeric=range(2, 9))
    lines = as_text((block,), 80).splitlines()
    assert [line.split()[2:] for line in lines if line.startswith("variable")] == [
        ["group", "0", "group", "1", "group", "2"],
        ["group", "3", "group", "4", "group", "5"],
        ["group", "6"],
    ]
    assert max(map(measure, lines)) <= 80
    assert "\n".join(lines).count("[−1300.1, −1200.7]") == 7


def test_both_ends_of_an_interval_stay_together() -> None:
    heads = ["term", *("a_long_head_of_a_column_" + letter for letter in "abc"), "from", "to"]
    block = table("Fit", heads, [["minimum(creatinine, 2)", *"12345"]], numeric=range(1, 6))
    lines = as_text((block,), 80).splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("term")][-1] == ["from", "to"]
    assert "minimum(" in "\n".join(as_text((block,), 40).splitlines())


def test_glyphs_are_spelled_by_what_stands_beside_them() -> None:
    for text, expected in (
        ("ε ≤ 1 ± 0.5 – 7 × 10⁻⁶", "epsilon <= 1 +/- 0.5 - 7 x 10^-6"),
        ("µ², 10 µg and µ", "mu^2, 10 ug and mu"),
        ("XᵀX, R², R̂", "X'X, R^2, Rhat"),
        ("┏━┓│╭─╮", "+-+|+-+"),
        ("Müller 年", r"M\xfcller \u5e74"),
    ):
        assert text.encode("ascii", spelling.HANDLER).decode() == expected
    assert "Müller ±".encode("cp1252", spelling.HANDLER).decode("cp1252") == "Müller ±"


def test_the_server_spells_as_the_client_does() -> None:
    assert (of_the_server.GLYPHS, of_the_server.SUPERSCRIPTS) == (spelling.GLYPHS, spelling.SUPERSCRIPTS)


@pytest.mark.parametrize(
    ("stream", "handler"),
    [
        (("cp1252", "strict"), spelling.HANDLER),
        (("ascii", "surrogateescape"), spelling.HANDLER),
        (("ascii", "replace"), "replace"),
        (("utf-8", "strict"), "strict"),
        (("utf-16", "strict"), "strict"),
    ],
)
def test_only_a_stream_that_would_raise_is_told_to_spell(stream: tuple[str, str], handler: str) -> None:
    wrapped = io.TextIOWrapper(io.BytesIO(), *stream)
    spelling.let_print(wrapped)
    assert wrapped.errors == handler


def test_without_a_standard_output_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    spelling.let_print(None)
    for stream in (None, io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        assert spelling.spell("ε ≤ 1") == "ε ≤ 1"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_verification_prints_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a study – ε.json"
    path.write_text("{}", encoding="utf-8")
    ended = print_in(encoding, ["-m", "analyst_client.verify", str(path)])
    assert ended.returncode == 2, ended.stderr.decode()
    text = ended.stdout.decode(encoding.removesuffix(" in C"))
    # In C the name arrives as bytes that nobody can read, and is shown so.
    assert ("study \\udce2" if encoding == IN_C else f"study {'–' if encoding == 'cp1252' else '-'} ") in text
