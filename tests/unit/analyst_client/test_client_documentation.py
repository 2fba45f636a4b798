"""The examples of the docstrings run, and the public names are those that are written down."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from counts_examples import CountsCurator
from marginals_examples import MarginalsCurator
from matplotlib import pyplot as plt
from score_examples import ScoreCurator

import analyst_client
from analyst_client import CuratorClient, Curators
from analyst_client.estimators.base import Fit
from analyst_client.exports import public_names

MODULES = [
    importlib.import_module(module.name) for module in pkgutil.walk_packages(analyst_client.__path__, "analyst_client.")
] + [analyst_client]
PUBLIC = [importlib.import_module(name) for name in dict.fromkeys(public_names().values()) if name != "analyst_client"]
EXPORTED = {name: getattr(importlib.import_module(module), name) for name, module in public_names().items()}
METHODS = {
    f"{owner.__name__}.{name}": member
    for owner in (CuratorClient, Curators, Fit)
    for name, member in inspect.getmembers(owner)
    if not name.startswith("_") and (callable(member) or inspect.isdatadescriptor(member))
}
SHOWN = {
    (test.name.rpartition(".")[2], f"{example.source}\n{example.want}")
    for module in MODULES
    for test in doctest.DocTestFinder().find(module)
    for example in test.examples
}
"""Lines of all examples, each with the name in whose docstring it stands."""


def is_shown(name: str, value: object) -> bool:
    """Return whether a docstring has an example, or another's example has its name as a word."""
    member = name.rpartition(".")[2]
    word = re.compile(rf"\.{member}\b" if "." in name else rf"\b{member}\b")
    return ">>> " in (value.__doc__ or "") or any(owner != member and word.search(lines) for owner, lines in SHOWN)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run_as_written(module: ModuleType) -> None:
    try:
        assert doctest.testmod(module).failed == 0
    finally:
        plt.close("all")  # what examples draw


@pytest.mark.parametrize(("name", "value"), (EXPORTED | METHODS).items(), ids=[*EXPORTED, *METHODS])
def test_a_name_that_analysts_use_has_an_example(name: str, value: object) -> None:
    assert is_shown(name, value)


def test_a_name_without_an_example_would_be_seen() -> None:
    assert not is_shown("CuratorClient.forget", test_a_name_without_an_example_would_be_seen)
    assert not is_shown("Forgotten", test_a_name_without_an_example_would_be_seen)
    assert is_shown("PurchasePlan.buy", test_a_name_without_an_example_would_be_seen)


@pytest.mark.parametrize(
    ("page", "curator", "least"),
    [
        ("analyses", CountsCurator, 6),
        ("kinds#Counts", CountsCurator, 11),
        ("kinds#Marginals", MarginalsCurator, 9),
        ("kinds#Scores", ScoreCurator, 9),
        ("tables", CountsCurator, 21),
    ],
)
def test_the_pages_for_analysts_say_what_is_so(page: str, curator: type[CountsCurator], least: int) -> None:
    name, _, section = page.partition("#")
    text = (Path(__file__).parents[3] / "docs" / f"{name}.md").read_text(encoding="utf-8")
    text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0] if section else text
    example = doctest.DocTestParser().get_doctest(text, {"client": curator().client()}, page, None, None)
    found = doctest.DocTestRunner().run(example)
    assert found.attempted >= least
    assert found.failed == 0


def test_the_first_names_are_few_and_each_is_another_modules_too() -> None:
    shown = sorted(analyst_client.__all__)
    assert 30 <= len(shown) <= 45
    others = {name for module in PUBLIC for name in module.__all__} | {"CuratorAdmin", "CuratorClient"}
    assert set(shown) <= others
    assert set(shown) <= set(dir(analyst_client))


@pytest.mark.parametrize("module", [analyst_client, *PUBLIC], ids=lambda module: module.__name__)
def test_public_names_are_in_alphabetical_order_and_have_docstrings(module: ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    assert [name for name in module.__all__ if not getattr(module, name).__doc__] == []


@pytest.mark.parametrize(
    "module", [module for module in PUBLIC if "__getattr__" in vars(module)], ids=lambda module: module.__name__
)
def test_a_public_name_is_no_modules(module: ModuleType) -> None:
    """Else it would mean the module as soon as that was imported."""
    modules = {name for _, name, _ in pkgutil.iter_modules(getattr(module, "__path__", []))}
    assert modules & set(module.__all__) == set()


def test_each_name_is_one_modules() -> None:
    listed = [name for module in PUBLIC for name in module.__all__]
    assert len(listed) == len(set(listed))


def test_modules_are_attributes_before_they_are_imported() -> None:
    code = "import analyst_client; print(analyst_client.planning.epsilon_for.__name__)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "epsilon_for\n"


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Adassp'"):
        analyst_client.Adassp  # noqa: B018


def test_import_is_light() -> None:
    heavy = {"scipy", "pandas", "matplotlib", "sklearn", "curator_service"}
    code = f"import sys; from analyst_client import *; print(*sorted({heavy!r} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []


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
