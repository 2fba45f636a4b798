"""Confidence has one word, `level`, in every public function, and one check."""

import inspect
import math
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from analyst_client import OLS, Release, describe
from analyst_client.exports import public_names
from analyst_client.level import check_level

OTHER_WORDS = {"alpha", "beta", "conf", "conf_level", "confidence", "confidence_level", "coverage", "sig_level"}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public function, class and method by name."""
    for name, module in public_names().items():
        if module == "analyst_client.terms":  # where a level is that of a category
            continue
        found = getattr(import_module(module), name)
        if callable(found):
            yield name, found
        if inspect.isclass(found):
            methods = [(word, getattr(found, word)) for word in dir(found) if not word.startswith("_")]
            yield from ((f"{name}.{word}", method) for word, method in methods if callable(method))


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except ValueError:  # a built-in one has no signature
        return {}


ALL = {name: (function, parameters_of(function)) for name, function in public_callables()}
WITH_LEVEL = {
    name: (function, parameters)
    for name, (function, parameters) in ALL.items()
    if "level" in parameters and not inspect.isclass(function)
}


def test_confidence_has_no_other_word() -> None:
    assert {name: set(found) & OTHER_WORDS for name, (_, found) in ALL.items() if set(found) & OTHER_WORDS} == {}


def test_every_kind_of_public_name_was_looked_at() -> None:
    assert {"OLS.conf_int", "describe", "Table.interval", "CountsQuote.largest_error", "coefficient_forest"} <= set(
        WITH_LEVEL
    )
    assert len(WITH_LEVEL) > 100


@pytest.mark.parametrize("name", WITH_LEVEL)
def test_a_wrong_level_is_refused_everywhere(name: str) -> None:
    function, parameters = WITH_LEVEL[name]
    assert parameters["level"].default == 0.95
    place = list(parameters).index("level")
    others = {word: None for word, one in parameters.items() if word != "level" and one.default is one.empty}
    for wrong, hint in (
        (0.05, "0.05 looks like alpha: say level=0.95"),
        (95, "95 looks like a percentage: say level=0.95"),
    ):
        with pytest.raises(ValueError, match=hint):
            function(**others, level=wrong)
        if parameters["level"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            with pytest.raises(ValueError, match=hint):
                function(*[None] * place, wrong)
    with pytest.raises(TypeError, match=r"takes level= and no alpha=: .* alpha=0.05 is level=0.95"):
        function(**others, alpha=0.05)


@pytest.mark.parametrize("wrong", [0.0, 0.499, 1.0, 1.5, 5, 50, 100.0, -0.95, math.nan, math.inf])
def test_what_is_no_level_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="level is the probability that the interval holds the truth"):
        check_level(wrong)


def test_a_higher_level_is_a_longer_interval() -> None:
    release = Release.from_arrays([[30.0, 0.0], [0.0, 20.0]], [[1.5], [0.6]], [9.0], features=["age"])
    fit = OLS().fit(release)
    lengths = [float(fit.conf_int(level)[1] @ [-1.0, 1.0]) for level in (0.5, 0.8, 0.95, 0.99)]
    assert lengths == sorted(lengths)
    assert fit.conf_int(0.95) == pytest.approx(fit.conf_int())
    assert describe(release, level=0.9).level == 0.9
