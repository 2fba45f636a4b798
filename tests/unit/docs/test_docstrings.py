"""Docstrings of what analysts import: numpydoc's checks of sections, where a section helps a reader.

`make lint` has numpydoc's other checks, for both packages. Those of sections are asked here of exported names alone,
and of parameters and returned values where a function takes two arguments or more: a one-line accessor stays one line.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

from analyst_client import terms
from analyst_client.exports import public_names

ALWAYS = {"GL07", "GL08", "PR02", "PR03", "PR04", "PR07", "PR08", "PR09", "RT02", "RT03", "RT04", "RT05"}
OF_MANY_ARGUMENTS = {"PR01", "RT01"}
QUESTIONS = ("How ", "What ", "When ", "Where ", "Which ", "Who ", "Whose ", "Why ")
# Their options are documented once, at `release`, `refine` and `fit` of `CuratorClient`.
OPTIONS_OF_ANOTHER = {
    *(
        f"analyst_client.client.CuratorClient.{name}"
        for name in ("quote", "submit_release", "quote_refinement", "submit_refinement")
    ),
    *(f"analyst_client.curators.Curators.{name}" for name in ("plan", "refine", "fit")),
}


def exported(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module exports, and the public members of its classes, each by the name where it is defined."""
    for name in module.__all__:
        value = getattr(module, name)
        yield f"{value.__module__}.{value.__qualname__}", value
        for owner in inspect.getmro(value) if inspect.isclass(value) else ():
            if owner.__module__.startswith("analyst_client."):
                for member, held in vars(owner).items():
                    defined = held.__func__ if isinstance(held, classmethod | staticmethod) else held
                    if not member.startswith("_") and isinstance(defined, FunctionType | property | cached_property):
                        yield f"{owner.__module__}.{owner.__qualname__}.{member}", defined


MODULES = [import_module(name) for name in dict.fromkeys(public_names().values()) if name != terms.__name__]
"""Functions of terms have one line each."""
EXPORTED = dict(found for module in MODULES for found in exported(module))


def numpydoc_faults(name: str, value: Any) -> list[str]:
    rules = ALWAYS
    if isinstance(value, FunctionType) and len(inspect.signature(value).parameters.keys() - {"self", "cls"}) > 1:
        rules = ALWAYS | OF_MANY_ARGUMENTS
    if name in OPTIONS_OF_ANOTHER:
        rules = rules - {"PR01", "PR02"}
    return [f"{rule}: {text}" for rule, text in validate(name)["errors"] if rule in rules]


def described(value: Any) -> dict[str, str]:
    """Return the descriptions of parameters and attributes, those of a class with those that it inherits."""
    found = {}
    for owner in reversed(inspect.getmro(value)) if inspect.isclass(value) else (value,):
        doc = get_doc_object(owner)
        for part in (*doc["Parameters"], *(doc["Attributes"] if inspect.isclass(owner) else ())):
            found |= {name.strip(" *"): " ".join(part.desc) for name in part.name.split(",")}
    return found


def raises_in_silence(function: FunctionType) -> list[str]:
    """Return the errors that a function itself raises and its docstring does not name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = {
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    return sorted(name for name in raised if name not in (function.__doc__ or ""))


@pytest.mark.parametrize("name", EXPORTED)
def test_sections_are_those_of_numpydoc(name: str) -> None:
    assert numpydoc_faults(name, EXPORTED[name]) == []


@pytest.mark.parametrize("name", EXPORTED)
def test_a_description_begins_with_a_term_and_not_with_a_question(name: str) -> None:
    doc = Validator(get_doc_object(EXPORTED[name]))
    texts = {"summary": doc.summary} | described(EXPORTED[name])
    assert {at: text for at, text in texts.items() if text.startswith(QUESTIONS)} == {}


@pytest.mark.parametrize("name", [name for name, value in EXPORTED.items() if inspect.isclass(value)])
def test_what_a_value_is_made_of_is_a_parameter_or_an_attribute(name: str) -> None:
    value, fields = EXPORTED[name], set()  # errors are raised by the client, which alone makes them
    if hasattr(value, "_fields"):
        fields = set(value._fields)
    elif isinstance(value.__init__, FunctionType) and not issubclass(value, BaseException):
        fields = {field for field in inspect.signature(value).parameters if not field.startswith("_")}
    assert fields - described(value).keys() == set()


@pytest.mark.parametrize("name", [name for name, value in EXPORTED.items() if isinstance(value, FunctionType)])
def test_an_error_that_is_raised_is_named(name: str) -> None:
    assert raises_in_silence(EXPORTED[name]) == []
