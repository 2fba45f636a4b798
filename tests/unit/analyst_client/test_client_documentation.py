"""The examples of the docstrings run, and the public names are those that are written down."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import analyst_client

MODULES = [
    importlib.import_module(module.name) for module in pkgutil.walk_packages(analyst_client.__path__, "analyst_client.")
] + [analyst_client]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run_as_written(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_public_names_are_exactly_those_imported() -> None:
    public = {name for name in vars(analyst_client) if not name.startswith("_")}
    modules = {
        "accuracy",
        "assumptions",
        "client",
        "columns",
        "curators",
        "design",
        "errors",
        "estimators",
        "inference",
        "jobs",
        "planning",
        "power",
        "rehearsal",
        "plots",
        "release",
        "twin",
        "values",
        "verify",
    }
    assert public - modules == set(analyst_client.__all__)


def test_public_names_are_in_alphabetical_order() -> None:
    assert analyst_client.__all__ == sorted(analyst_client.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", analyst_client.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert getattr(analyst_client, name).__doc__


@pytest.mark.parametrize("heavy", ["scipy", "pandas", "matplotlib", "sklearn", "curator_service"])
def test_import_is_light(heavy: str) -> None:
    code = f"import sys, analyst_client; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
