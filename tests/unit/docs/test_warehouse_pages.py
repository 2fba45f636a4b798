"""Pages for warehouses: omop.md shows what a declaration becomes; the statements of fhir.md run."""

import io
import re
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from curator_service.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    found = FENCE.findall((DOCS / page).read_text(encoding="utf-8"))
    return [text for kind, text in found if kind == language]


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def test_the_declaration_becomes_the_columns_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    declared, drafted = blocks("omop.md", "toml")
    Path("diabetes.omop.toml").write_text(declared, encoding="utf-8")
    run("manifest", "omop", "diabetes.omop.toml")
    columns = drafted.split("\n\n")
    assert len(columns) == 3
    assert all(column.strip() in Path("diabetes.toml").read_text(encoding="utf-8") for column in columns)
    assert "FROM results.cohort" in Path("diabetes.sql").read_text(encoding="utf-8")


def test_an_export_becomes_the_rows_that_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written, (shown,), (manifest,) = io.StringIO(), blocks("fhir.md", "text"), blocks("fhir.md", "toml")
    with redirect_stdout(written):
        exec("\n".join(blocks("fhir.md", "python")), {})
    assert written.getvalue().strip() == shown.strip()
    assert pq.read_table("rows.parquet").column_names == [
        "patient_id",
        *(c["name"] for c in tomllib.loads(manifest)["columns"]),
    ]
    Path("weights.toml").write_text(manifest, encoding="utf-8")
    assert "3 rows of up to 20,000, of 3 persons" in run("manifest", "check", "weights.toml", "rows.parquet")
