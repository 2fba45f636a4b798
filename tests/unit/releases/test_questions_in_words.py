"""Requests in words: what is asked, of which rows, and that no request is without words."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from curator_service.kinds.registry import KINDS
from curator_service.kinds.wording import describe_model, describe_rows, write_asked, write_formula
from curator_service.privacy.expressions.operators import OPERATORS

GOLDEN = Path(__file__).parents[2] / "golden" / "answers.json"
MODEL = {"intercept": True, "rows": {"map": "box"}}
STEP = {"loss": "logistic", "coefficients": {"bits": 1, "weights": {"(constant)": 3}}, "intercept": True}


def collect(found: Any, kept: dict[str, dict[str, Any]]) -> None:
    """Keep each request of a release in recorded answers, whatever they are within."""
    if isinstance(found, dict):
        request = found.get("request")
        if isinstance(request, dict) and "kind" in request and "shares" in request:
            kept[json.dumps(request, sort_keys=True)] = request
        for value in found.values():
            collect(value, kept)
    elif isinstance(found, list):
        for value in found:
            collect(value, kept)
    elif isinstance(found, str) and found.startswith('{"'):
        with suppress(ValueError):
            collect(json.loads(found), kept)


def words_of(request: dict[str, Any]) -> str:
    return KINDS[request["kind"]].describe_question(request) + describe_rows(request)


@pytest.mark.parametrize(
    ("request_", "words", "formula"),
    [
        (
            {"kind": "gram", "features": ["age", "sex"], "targets": ["kappa"], "where": {"less": ["creatinine", 2.0]}}
            | MODEL,
            "sums for linear models of kappa on age and sex, of rows with creatinine < 2",
            "kappa ~ age + sex",
        ),
        (
            {
                "kind": "gram",
                "features": [],
                "targets": ["kappa", {"log": ["lambda"]}],
                "weight": {"divide": ["age", 100]},
            }
            | MODEL,
            "sums for linear models of kappa and log(lambda) on a constant alone, each row weighted by age / 100",
            "kappa + log(lambda) ~ 1",
        ),
        (
            {
                "kind": "gram",
                "features": [{"polynomial": ["age", 2]}, {"interaction": ["age", "sex"]}],
                "targets": ["y"],
            }
            | MODEL
            | {"intercept": False},
            "sums for linear models of y on polynomial(age, 2) and age × sex, without a constant",
            "y ~ polynomial(age, 2) + (age × sex) + 0",
        ),
        (
            {"kind": "gram", "features": ["age"], "targets": ["y"]} | MODEL | {"rows": {"map": "linear", "matrix": {}}},
            "one step of refining a linear model of y on age: products of its terms",
            "y ~ age",
        ),
        (
            {"kind": "counts", "tables": [{"axes": [{"column": "sex"}, {"column": {"cut": ["age", [50, 70]]}}]}]},
            "counts of rows by sex × cut(age, 50, 70)",
            "",
        ),
        (
            {"kind": "marginals", "marginals": [{"type": "moments", "columns": ["age", "kappa"]}]},
            "mean and standard deviation of age and kappa",
            "",
        ),
        (
            {
                "kind": "marginals",
                "marginals": [{"type": "flat", "columns": ["age"], "bins": 8}, {"type": "tree", "columns": ["y"]}],
            },
            "histogram of age, in 8 bins; distribution and quantiles of y",
            "",
        ),
        (
            {"kind": "score", "features": ["age"], "target": {"less": [6.0, "kappa"]}} | STEP,
            "one step of fitting a logistic model of kappa > 6 on age: its gradient, clipped row by row",
            "kappa > 6 ~ age",
        ),
        (
            {"kind": "score", "features": ["age", "y"], "target": {"less": [6.0, "y"]}, "loss": "linear"}
            | {"coefficients": {"bits": 0, "weights": {"(constant)": -1}}, "intercept": True},
            "one step of refining a model: where age and y lie, together with y > 6, clipped row by row",
            "y > 6 ~ age + y",
        ),
    ],
)
def test_a_request_is_a_question_in_words(request_: dict[str, Any], words: str, formula: str) -> None:
    assert words_of(request_) == words
    assert KINDS[request_["kind"]].write_formula(request_) == formula


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("age", "age"),
        (2.5, "2.5"),
        ({"not": ["smoker"]}, "not smoker"),
        ({"not": [{"or": ["smoker", {"equal": ["sex", "F"]}]}]}, "not (smoker or sex is F)"),
        ({"and": [{"less": [50, "age"]}, {"less_equal": ["age", 70]}]}, "age > 50 and age ≤ 70"),
        ({"in": ["ward", ["a", "b"]]}, "ward is a or b"),
        ({"power": [{"add": ["age", -75.0]}, 2.0]}, "(age + -75)^2"),
        ({"multiply": [{"add": ["a", "b"]}, "c"]}, "(a + b) × c"),
        ({"minimum": ["creatinine", 2.8]}, "minimum(creatinine, 2.8)"),
        ({"unheard": ["a", {"b": 1}]}, "unheard(a, b(1))"),
    ],
)
def test_what_is_computed_is_written_as_people_do(asked: Any, words: str) -> None:
    assert write_asked(asked) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"multiply": [{"less": ["age", 70]}, "b"]}, {"less": ["age", {"multiply": [70, "b"]}]}),
        ({"less": ["age", {"and": ["a", "b"]}]}, {"and": [{"less": ["age", "a"]}, "b"]}),
        ({"not": [{"in": ["sex", ["F", "M"]]}]}, {"or": [{"not": [{"in": ["sex", ["F"]]}]}, "M"]}),
        ({"in": ["sex", ["F", "M"]]}, {"or": [{"in": ["sex", ["F"]]}, "M"]}),
        ({"in": ["sex", ["F", "M"]]}, {"in": ["sex", ["F or M"]]}),
        ({"and": [{"in": ["sex", ["F"]]}, "b"]}, {"in": ["sex", ["F and b"]]}),
        ({"less": ["a", {"less": ["b", "c"]}]}, {"less": [{"less": ["a", "b"]}, "c"]}),
        ({"equal": ["a", {"less": ["b", "c"]}]}, {"less": [{"equal": ["a", "b"]}, "c"]}),
        ({"not": [{"less": ["a", "b"]}]}, {"less": [{"not": ["a"]}, "b"]}),
        ({"add": [{"not": ["a"]}, "b"]}, {"not": [{"add": ["a", "b"]}]}),
    ],
)
def test_two_questions_have_two_wordings(one: Any, other: Any) -> None:
    """An officer who reads the words alone reads what was asked."""
    assert write_asked(one) != write_asked(other)


def test_lists_tell_a_condition_from_two_columns() -> None:
    both, apart = ({"features": features} for features in ([{"and": ["a", "b"]}], ["a", "b"]))
    assert describe_model(both, ["y"]) != describe_model(apart, ["y"])
    assert write_formula(both, [{"add": ["y", "z"]}]) != write_formula(both, ["y", "z"])


def test_the_target_of_a_step_is_told_whatever_its_coefficients() -> None:
    request = {"kind": "score", "features": ["age"], "target": "hiv", "loss": "linear", "intercept": True}
    assert "hiv" in words_of(request | {"coefficients": {"bits": 0, "weights": {"(constant)": -1}}})


def test_every_operator_has_words() -> None:
    for name in OPERATORS:
        assert write_asked({name: ["a", "b"]})


def test_every_recorded_request_has_words() -> None:
    kept: dict[str, dict[str, Any]] = {}
    collect(json.loads(GOLDEN.read_text(encoding="utf-8")), kept)
    assert len(kept) > 10
    assert {request["kind"] for request in kept.values()} >= {"gram", "counts", "marginals", "score"}
    for request in kept.values():
        words = words_of(request)
        assert all(name in words for name in names_of(request.get("where"))), words
        assert "{" not in words


def names_of(asked: Any) -> list[str]:
    """Return the names of columns in a condition."""
    if isinstance(asked, str):
        return [asked]
    parts = [*asked.values()] if isinstance(asked, dict) else asked if isinstance(asked, list) else []
    return [name for part in parts for name in names_of(part)]
