"""Sweeps: words make none due, code does, and none is recorded that did not pass."""

import re
from pathlib import Path

import pytest
import sweeps

CODE = '"""Say one."""\n\n\ndef one(a: int = 1) -> str:\n    """Say it."""\n    return f"{a} one"\n'

MARK = "import pytest\npytestmark = pytest.mark.apples\n"


@pytest.mark.parametrize(
    "changed",
    [
        CODE.replace("Say it.", "Say it again."),
        CODE.replace("Say one", "Say two"),
        CODE.replace('one"\n', 'one"  # said\n'),
        CODE.replace("\n\n\n", "\n\n"),
        CODE.replace('    """Say it."""\n', ""),
    ],
)
def test_words_make_no_sweep_due(changed: str) -> None:
    assert changed != CODE
    assert sweeps.read_code(changed) == sweeps.read_code(CODE)


@pytest.mark.parametrize(
    "changed",
    [
        CODE.replace("= 1", "= 2"),
        CODE.replace("} one", "} two"),
        CODE.replace("return", "yield"),
        CODE.replace('return f"{a} one"', 'return "a" f"{a} one"'),
        CODE + "\n\nTWO = 2\n",
    ],
)
def test_code_does(changed: str) -> None:
    assert sweeps.read_code(changed) != sweeps.read_code(CODE)


@pytest.mark.parametrize("name", sweeps.SWEEPS)
def test_a_sweep_is_about_its_own_tests_and_what_it_names(name: str) -> None:
    sweep = sweeps.SWEEPS[name]
    files = {str(path.relative_to(sweeps.ROOT)) for path in sweeps.list_files(name)}
    assert any("/test_" in file for file in files)
    assert all((sweeps.ROOT / place).exists() for place in sweep.code)


def test_make_test_leaves_out_what_a_sweep_runs_and_nothing_else() -> None:
    commands = re.findall(r"\(PYTEST\)(.*)$", (sweeps.ROOT / "Makefile").read_text(), re.MULTILINE)
    left_out = [set(re.findall(r"not (\w+)", command)) - {"slow"} for command in commands]
    assert left_out == [set(sweeps.SWEEPS), set(sweeps.SWEEPS)]


def test_modules_of_bench_are_followed() -> None:
    files = {str(path.relative_to(sweeps.ROOT)) for path in sweeps.list_files("simulations")}
    assert {"analyst_client/inference/score.py", "bench/refined.py"} <= files
    assert "bench/ideal.py" in files  # by what others of bench import


def test_helpers_of_tests_are_followed() -> None:
    files = {str(path.relative_to(sweeps.ROOT)) for path in sweeps.list_files("crashes")}
    assert {"tests/e2e/test_kills.py", "tests/e2e/deployments.py", "tests/e2e/process_factory.py"} <= files


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the address of a page that is not there yet, for one sweep of one file that holds a digest of `CODE`."""
    monkeypatch.setattr(sweeps, "ROOT", tmp_path)
    monkeypatch.setattr(sweeps, "PAGE", tmp_path / "page.md")
    sweep = sweeps.Sweep("Apples fall.", ("code.py",))
    monkeypatch.setattr(sweeps, "SWEEPS", {"apples": sweep})
    (tmp_path / "code.py").write_text(CODE)
    own = tmp_path / "tests" / "apples"
    own.mkdir(parents=True)
    (own / "test_apples.py").write_text(f"{MARK}def test_one():\n    pass\n")
    return tmp_path / "page.md"


def run(page: Path, *words: str) -> int:
    """Run the command, as its caller would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["sweeps.py", "--workers", "0", *words])
        status: int = sweeps.main()
    return status


def test_a_sweep_that_held_is_due_when_its_code_has_changed(page: Path) -> None:
    assert sweeps.is_due("apples")
    assert run(page) == 0
    assert "| `test_apples.py` | 1 |" in page.read_text()
    assert not sweeps.is_due("apples")
    (page.parent / "code.py").write_text(CODE.replace("Say it.", "Say it again."))
    assert not sweeps.is_due("apples")
    (page.parent / "code.py").write_text(CODE.replace("= 1", "= 2"))
    assert sweeps.is_due("apples")


@pytest.mark.parametrize("body", ["assert False", "import pytest; pytest.skip('no pear')"])
def test_a_sweep_that_failed_or_skipped_a_case_is_not_recorded(page: Path, body: str) -> None:
    own = page.parent / "tests" / "apples" / "test_apples.py"
    own.write_text(f"{MARK}def test_one():\n    {body}\n")
    assert run(page) == 1
    assert run(page, "--check") == 1
    assert not page.exists()


def test_an_unknown_sweep_is_refused_with_those_that_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(page, "pears")
    assert "no sweep pears: there are apples" in capsys.readouterr().err
