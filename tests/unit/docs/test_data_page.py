"""The walk through docs/data.md shows what its commands say."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from curator_service.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
WALK = PAGE[PAGE.index("## From a file") : PAGE.index("## The manifest")]


def shown(language: str) -> str:
    found = re.search(rf"(?ms)^```{language}\n(.*?)^```", WALK)
    assert found is not None
    return found[1]


def run(command: str) -> str:
    (line,) = (line for line in WALK.splitlines() if line.startswith(command))
    words = line.split(" --out")[0].split()[1:]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_columns_of_the_draft_are_those_that_are_drafted() -> None:
    drafted = run("curator manifest draft")
    columns = shown("toml").split("\n\n")
    assert len(columns) == 3
    assert all(column.strip() in drafted for column in columns)


def test_the_report_is_what_the_check_says() -> None:
    assert shown("text").strip() in run("curator manifest check")
