"""The examples of the docstrings run, and the public names are those that are written down."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from counts_examples import CountsCurator
from marginals_examples import MarginalsCurator
from score_examples import ScoreCurator

import analyst_client
from analyst_client import _public

MODULES = [
    importlib.import_module(module.name) for module in pkgutil.walk_packages(analyst_client.__path__, "analyst_client.")
] + [analyst_client]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run_as_written(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("page", "curator", "least"),
    [
        ("analyses", CountsCurator, 6),
        ("counts", CountsCurator, 11),
        ("marginals", MarginalsCurator, 9),
        ("scores", ScoreCurator, 9),
        ("tables", CountsCurator, 21),
    ],
)
def test_the_pages_for_analysts_say_what_is_so(page: str, curator: type[CountsCurator], least: int) -> None:
    text = str(Path(__file__).parents[3] / "docs" / f"{page}.md")
    found = doctest.testfile(text, module_relative=False, globs={"client": curator().client()})
    assert found.attempted >= least
    assert found.failed == 0


def test_public_names_are_exactly_those_imported() -> None:
    imported = {name for name in vars(_public) if not name.startswith("__")}
    assert imported == set(analyst_client.__all__)
    assert set(analyst_client.__all__) <= set(dir(analyst_client))


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Adassp'"):
        analyst_client.Adassp  # noqa: B018


def test_public_names_are_in_alphabetical_order() -> None:
    assert analyst_client.__all__ == sorted(analyst_client.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", analyst_client.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert getattr(analyst_client, name).__doc__


@pytest.mark.parametrize("heavy", ["scipy", "pandas", "matplotlib", "sklearn", "curator_service"])
def test_import_is_light(heavy: str) -> None:
    code = f"import sys; from analyst_client import *; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_check_of_a_file_imports_neither_arithmetic_nor_http() -> None:
    code = "import sys, analyst_client.verify; print(*sorted({'numpy', 'httpx', 'scipy'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


@pytest.mark.parametrize(
    "path",
    [
        *(
            "errors.CuratorError",
            "errors.ServiceError",
            "planning.AccuracyPlan",
            "planning.epsilon_for",
            "planning.rows_for",
        ),
        *("planning.AccuracyPlan", "planning.epsilon_for", "planning.rows_for", "verify.verify_text", "verify.main"),
    ],
)
def test_documented_modules_hold_their_names(path: str) -> None:
    module, name = path.split(".")
    assert callable(getattr(importlib.import_module(f"analyst_client.{module}"), name))
