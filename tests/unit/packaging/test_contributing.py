"""Tools of contributors and of the hosted checks run the project's own commands, and these are there."""

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_hooks_fetch_nothing() -> None:
    assert set(re.findall(r"- repo: (\S+)", HOOKS)) == {"local"}
    assert set(re.findall(r"language: (\S+)", HOOKS)) == {"system"}


def test_hooks_are_tools_of_the_lock() -> None:
    tools = set(re.findall(r"entry: \.venv/bin/(\w+)", HOOKS))
    assert len(re.findall(r"entry: ", HOOKS)) == len(re.findall(r"entry: \.venv/bin/", HOOKS))
    assert {"ruff", "mypy"} <= tools <= {re.split(r"[^\w-]", text)[0] for text in EXTRAS["dev"]}


def test_the_hosted_checks_are_those_of_the_repository() -> None:
    assert re.findall(r"run: (.+)", WORKFLOW) == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_hosted_database_is_the_one_of_the_containers() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"image: (postgres:\S+)", WORKFLOW)) == set(re.findall(r"image: (postgres:\S+)", compose))
