"""Expressions, conditions and formulas of the client, without a curator."""

import doctest
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_client import Column, Model
from analyst_client.errors import FormulaError
from analyst_client.schema import DerivedColumn
from analyst_client.schema.requests import selection_members
from analyst_client.terms import Expression, bs, col, cut, exp, interaction, log, maximum, minimum, ns, poly, reference
from analyst_client.terms.expression import read_expression
from analyst_client.terms.python import read_condition
from analyst_client.terms.values import Values, basis_values, evaluate

PAGE = Path(__file__).parents[3] / "docs" / "formulas.md"
NAN = float("nan")
ROWS = {
    "x": Values(np.array([1.0, 2.0, NAN, -1.0])),
    "y": Values(np.array([2.0, NAN, 3.0, 4.0])),
    "b": Values(np.array([1.0, 0.0, NAN, 1.0])),
    "sex": Values(np.array([0.0, 1.0, 2.0, NAN]), ("F", "M", "X")),
}


def test_the_page_of_formulas_holds() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert (found.failed, found.attempted > 5) == (0, True)


WRITTEN: list[tuple[Any, Any]] = [
    (col("a") - 2 * col("b") / 3, {"subtract": ["a", {"divide": [{"multiply": [2.0, "b"]}, 3.0]}]}),
    (-(abs(col("a")) ** 2), {"negate": [{"power": [{"absolute": ["a"]}, 2]}]}),
    (1 / col("a") + exp("b"), {"add": [{"divide": [1.0, "a"]}, {"exp": ["b"]}]}),
    (minimum("a", 3, col("b")), {"minimum": ["a", 3.0, "b"]}),
    (
        (col("a") > 1) | ~(col("s") != "F"),
        {"or": [{"greater": ["a", 1.0]}, {"not": [{"not": [{"in": ["s", ["F"]]}]}]}]},
    ),
    (col("a").between(1, 2) & (col("a") != 1.5), {"and": [{"between": ["a", 1.0, 2.0]}, {"not_equal": ["a", 1.5]}]}),
    (cut("a", [1, 2]), {"cut": ["a", [1.0, 2.0]]}),
    (reference("s", "M"), {"reference": ["s", "M"]}),
    (bs("a", knots=[1]), {"spline": ["a", [1.0], 3]}),
    (interaction("s", poly("a", 2)), {"interaction": ["s", {"polynomial": ["a", 2]}]}),
    (poly("a", 1), "a"),
]


@pytest.mark.parametrize(("expression", "written"), WRITTEN, ids=lambda value: str(value)[:30])
def test_objects_are_written_as_the_wire_has_them(expression: Expression, written: Any) -> None:
    assert expression.to_json() == written
    assert read_expression(written).to_json() == written


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x + y", [3, NAN, NAN, 3]),
        ("log(x)", [0, np.log(2), NAN, NAN]),
        ("x < y", [1, NAN, NAN, 1]),
        ("not x < y", [0, NAN, NAN, 0]),
        ("b and x > 1", [0, 0, NAN, 0]),
        ("b or x > 0", [1, 1, NAN, 1]),
        ("missing(x) | x.isna()", [0, 0, 1, 0]),
        ("sex in ['F', 'X']", [1, 0, 1, NAN]),
        ("sex not in ('F',) and 'M' != sex", [0, 0, 1, NAN]),
        ("relevel(sex, 'X')", [1, 2, 0, NAN]),
        ("max(x, 0) ** 2 / y", [0.5, NAN, NAN, 0]),
        ("x.between(0, 1) == 1", [1, 0, NAN, 0]),
    ],
)
def test_values_are_missing_where_something_decisive_is(text: str, values: list[float]) -> None:
    np.testing.assert_allclose(evaluate(read_condition(text), ROWS).numbers, values)


def test_a_cut_has_its_levels_as_answers_name_them() -> None:
    found = evaluate(cut("x", [-1, 1.5, 3]), {"x": Values(np.array([-1.0, 1.5, 3.0, 7.0, NAN]))})
    assert found.levels == ("-1 to 1.5", "1.5 to 3")
    np.testing.assert_array_equal(found.numbers, [0, 1, 1, 1, NAN])


@pytest.mark.parametrize("word", ["spline", "natural_spline"])
def test_splines_are_a_partition_of_one_and_stay_at_their_bounds(word: str) -> None:
    u = np.array([-3.0, -1.0, -0.4, 0.0, 0.7, 1.0, 9.0, NAN])
    values = basis_values(word, ((-0.5, 0.1), 3), u)
    np.testing.assert_allclose(values[:-1].sum(axis=1), 1.0)
    assert np.isnan(values[-1]).all()
    assert (values[:-1] >= 0).all()
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[5], values[6])


def test_a_natural_spline_is_straight_at_its_bounds() -> None:
    step = 1e-3
    for edge in (-1.0, 1.0):
        points = edge - np.sign(edge) * step * np.arange(3)
        left, middle, right = basis_values("natural_spline", ((-0.3, 0.4), 3), points)
        assert np.abs(left - 2 * middle + right).max() < 3 * step**3 * 100


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: bs("a"), "has df or knots"),
        (lambda: bs("a", df=4, knots=[1]), "has df or knots"),
        (lambda: ns("a", df=1), "df is at least 2"),
        (lambda: bs("a", df=5).to_json(), "no knots yet"),
        (lambda: cut("a", [2, 1]), "numbers that increase"),
        (lambda: cut("a", "12"), "a list of numbers"),
        (lambda: col(3), "named by a text"),  # type: ignore[arg-type]
        (lambda: log(poly("a", 2)), "is several terms"),
        (lambda: interaction("a", interaction("b", "c")), "is several terms"),
        (lambda: col("a") ** 0.5, "an exponent is a whole number"),  # type: ignore[operator]
        (lambda: col("a") + None, "no column, number or expression"),
        (lambda: col("a").isin("F"), "a list of texts"),
        (lambda: reference("a", 3), "a level is a text"),  # type: ignore[arg-type]
        (lambda: maximum("a", True), "no column, number or expression"),
    ],
)
def test_what_means_nothing_is_refused_where_it_is_made(make: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        make()


def test_an_expression_is_no_condition_of_python() -> None:
    with pytest.raises(TypeError, match="join conditions with & and"):
        _ = col("a") > 1 and col("b") > 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("age >", "age >"),
        ("age > ", "age >"),
        ("(age > 3) & open('x')", "open"),
        ("age if sex else 3", "age if sex else 3"),
    ],
)
def test_a_fault_of_a_condition_shows_its_place(text: str, place: str) -> None:
    with pytest.raises(FormulaError) as caught:
        selection_members(text, None)
    assert text[caught.value.start : caught.value.stop] == place
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.start) == (str(caught.value), caught.value.start)


def test_hostile_texts_end_in_a_fault() -> None:
    for text in (
        "(" * 5000 + "a" + ")" * 5000,
        "-" * 100_000 + "a",
        "a" * 100_000 + "(",
        "a\x00b",
        "a; b",
        "a := 3",
        "*a",
    ):
        with pytest.raises(FormulaError):
            read_condition(text)


def test_columns_that_are_words_of_python_have_their_names() -> None:
    assert read_condition("lambda > 3 and class == 'a lambda'").to_json() == {
        "and": [{"greater": ["lambda", 3.0]}, {"in": ["class", ["a lambda"]]}]
    }
    assert read_condition("mean.radius > 3").columns == ("mean.radius",)


def test_a_model_gathers_conditions() -> None:
    model = Model("y ~ x").where("x > 1").where(col("z") < 2).weighted("x / 10")
    assert repr(model) == "Model('y ~ x') where (x > 1.0) & (z < 2.0) weighted by x / 10.0"
    columns = [Column.numeric("x", 0, 10), Column.numeric("y", 0, 1)]
    assert set(model.read(columns).options) == {"targets", "where", "weight"}


def test_a_derived_column_is_equal_by_what_is_declared() -> None:
    one, other = (DerivedColumn("log(x)", "numeric", lower=0.0, upper=1.0, expression=log("x")) for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("formula", "features"),
    [
        ("kappa ~ .", "(age, lambda, sex, mean.radius)"),
        ("kappa ~ . - age", "(lambda, sex, mean.radius)"),
        ("kappa ~ `lambda` + log(lambda + 1)", "(lambda, log(lambda + 1.0))"),
        ("kappa ~ mean.radius * sex", "(mean.radius, sex, mean.radius:sex)"),
        ("kappa ~ {age + 1} + Q('lambda')", "(age + 1.0, lambda)"),
        ("~ (age + sex)**2", "(age, age:sex, sex)"),
    ],
)
def test_formulas_name_columns_of_any_name(formula: str, features: str) -> None:
    columns = [Column.numeric(name, 0, 10) for name in ("age", "lambda", "mean.radius", "kappa")]
    columns.insert(2, Column.categorical("sex", ["F", "M"]))
    assert repr(Model(formula).read(columns).features) == features
