"""README.md does what it says: its first lines run on the install above them, and that install exists."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from analyst_client import load_fit

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVER, CLIENT = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (".", "analyst_client")
)
# What the extras add: none of it is there after the plain install.
BEYOND = (
    "alembic",
    "arviz",
    "fastapi",
    "matplotlib",
    "mpmath",
    "pandas",
    "pyarrow",
    "pydantic",
    "sklearn",
    "sqlalchemy",
)
WITHOUT = f"""
import sys
for name in {(*BEYOND, "curator_service", "typer", "rich", "click")!r}:
    sys.modules[name] = None
"""


def first_block() -> str:
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    return found[1]


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an empty folder, as if nothing but the plain install were there."""
    environment = os.environ | {"COLUMNS": "80", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", WITHOUT + program]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_first_block_runs_on_the_plain_install(tmp_path: Path) -> None:
    ended = run(first_block(), tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "kappa ~ age + sex + creatinine of flchain" in ended.stderr
    assert "kappa (mg/dL) by RefinedRegression()" in ended.stdout
    assert "\\begin{tabular}" in ended.stdout
    kept = load_fit(tmp_path / "kappa.json")
    assert f"{kept.params['age']:.4g}" in ended.stdout


def test_the_plain_install_is_plain(tmp_path: Path) -> None:
    """The test above can fail: what an extra adds cannot be imported there."""
    assert "ModuleNotFoundError" in run("import matplotlib", tmp_path).stderr


def test_there_is_an_install_line_for_each_user() -> None:
    lines = re.findall(r"\| `pip install '?(dp-curator[\w-]*)(?:\[(\w+)\])?'?` \|", README)
    for project, extras in ((CLIENT, ["", "plots", "formula", "truststore"]), (SERVER, ["", "spark"])):
        assert [extra for name, extra in lines if name == project["name"]] == extras
        assert set(extras) - {""} <= set(project["optional-dependencies"])
    assert {name for name, _ in lines} == {CLIENT["name"], SERVER["name"]}


@pytest.mark.parametrize("name", ["numpy", "scipy", "httpx", "cryptography"])
def test_what_the_plain_install_holds_is_named(name: str) -> None:
    assert any(text.startswith(name) for text in CLIENT["dependencies"])
    (line,) = (line for line in README.splitlines() if line.startswith("| an analyst |"))
    assert name in line
