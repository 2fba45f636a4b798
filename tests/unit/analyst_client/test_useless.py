"""Warnings of useless requests from public numbers: never claimed where rows could show otherwise."""

import math
import pickle
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analyst_client import OLS, Assumptions, Column, EstimationError, UselessRequestError
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.kinds.gram.examples import QUOTE
from analyst_client.planning import rehearse
from analyst_client.planning.dummy_data import dummy_rows
from analyst_client.planning.relations import Base, Terms, find_relations
from analyst_client.planning.useless import find_certain
from analyst_client.schema.columns import Basis, DerivedColumn, Term, stored_columns, terms_of
from analyst_client.terms import col, cut, log, maximum, minimum, sqrt
from analyst_client.terms.certain import Facts, decisive, is_decided_by_one
from analyst_client.terms.expression import Expression, as_expression, call
from analyst_client.terms.python import read_condition
from analyst_client.terms.values import Values, evaluate

COLUMNS = {
    column.name: column
    for column in (
        Column.numeric("x", -2, 3, missing="complete"),
        Column.numeric("y", 1, 4, missing="midpoint"),
        Column.numeric("z", 0, 8, missing="omit"),
        Column.categorical("c", ["k", "l", "m"], missing="complete"),
        Column.categorical("g", ["p", "q"], missing="indicator"),
        Column.boolean("b", ("no", "yes"), missing="indicator"),
    )
}
EIGHTHS = np.arange(9) / 4.0 - 1.0
"""Places of numbers that a curator keeps exactly, both ends among them."""


def make_grid() -> dict[str, Values]:
    """Return every row of some values of each column, missing ones where they are allowed."""
    axes = []
    for column in COLUMNS.values():
        if column.type == "numeric":
            assert column.lower is not None
            assert column.upper is not None
            middle, half = (column.lower + column.upper) / 2.0, (column.upper - column.lower) / 2.0
            values = (middle + half * EIGHTHS[:: 2 if column.name == "x" else 4]).tolist()
        else:
            values = [float(place) for place in range(len(column.levels))]
        axes.append(values if column.missing == "complete" else [*values, math.nan])
    rows = np.array(list(product(*axes)))
    return {c.name: Values(rows[:, j], c.levels) for j, c in enumerate(COLUMNS.values())}


GRID = make_grid()

numbers = st.deferred(
    lambda: (
        st.sampled_from([col("x"), col("y"), col("z")])
        | st.sampled_from([-2.0, -0.5, 0.1, 1.0, 3.0]).map(as_expression)
        | st.builds(call, st.sampled_from(["add", "subtract", "multiply"]), numbers, numbers)
        | st.builds(call, st.sampled_from(["minimum", "maximum"]), numbers, numbers)
        | st.builds(call, st.sampled_from(["absolute", "negate"]), numbers)
        | st.builds(lambda of: of**2, numbers)
        | st.builds(lambda of: log(abs(of) + 0.5), numbers)
        | st.builds(lambda one, other: one / (other**2 + 1), numbers, numbers)
        | conditions.filter(lambda one: one.operator != "column")
    )
)
comparisons = st.sampled_from(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
conditions = st.deferred(
    lambda: (
        st.builds(call, comparisons, numbers, numbers)
        | st.builds(call, comparisons, st.sampled_from([col("x"), col("y"), col("z")]), st.integers(-3, 9).map(float))
        | st.sampled_from([["k"], ["k", "m"], ["l"]]).map(col("c").isin)
        | st.sampled_from([col("b"), col("g").isin(["q"]), col("y").is_missing(), col("b").is_missing()])
        | st.builds(lambda low: cut("x", [-2.0, 0.0, low, 3.0]).isin([f"0 to {low:g}"]), st.sampled_from([1.0, 2.5]))
        | st.builds(call, st.sampled_from(["and", "or"]), conditions, conditions)
        | st.builds(lambda one: ~one, conditions)
    )
)
quickly = settings(max_examples=120, deadline=None)


def is_small(*expressions: Expression) -> bool:
    return all(sum(1 for _ in one.nodes()) <= 25 for one in expressions)


def rows_where(condition: Expression) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.broadcast_to(evaluate(condition, GRID).numbers == 1.0, len(GRID["x"].numbers))


# Conditions


@pytest.mark.parametrize(
    "text",
    [
        "x > 3", "x < -2", "x > 200", "y + x > 7.1", "x * y > 12.5", "x**2 < -1", "abs(x) > 3.1", "log(y) > 2",
        "x > 2 and x < 1", "x >= 1 and not x >= 1", "c == 'k' and c == 'l'", "c == 'k' and c in ['l', 'm']",
        "x == 0.70000000001",
        "b and not b", "x > 2.5 and x + y < 3.4", "min(x, y) > 3.5", "max(x, y) < 1 - 0.1", "x > 9 or x < -9",
        "(c == 'k' or c == 'l') and c == 'm'", "between(x, 4, 5)", "b == 'yes' and b == 'no'", "x == 1 and x == 2",
        "log(y) > 1 and log(y) < 0.9", "sqrt(y) > 2.1", "exp(x) < 0.1", "1 / y > 1.2", "y + 1 < y",
    ],
)  # fmt: skip
def test_a_condition_that_holds_in_no_row_is_known(text: str) -> None:
    condition, facts = read_condition(text), Facts(COLUMNS)
    assert facts.read(condition).constant == 0 or not (facts.restrict(condition) and facts.restrict(condition))
    assert not rows_where(condition).any()


@pytest.mark.parametrize(
    "text", ["x >= 3", "x <= -2", "x == 3", "x == 0.5", "y + x >= 7", "x * y >= 12", "b or not b", "missing(y)"]
)
def test_a_condition_that_may_hold_is_not_refused(text: str) -> None:
    condition, facts = read_condition(text), Facts(COLUMNS)
    assert facts.read(condition).constant != 0
    assert facts.restrict(condition)
    assert facts.restrict(condition)
    assert rows_where(condition).any()


@quickly
@given(conditions)
def test_what_is_claimed_of_a_condition_is_so_on_every_row(condition: Expression) -> None:
    assume(is_small(condition))
    facts, true = Facts(COLUMNS), rows_where(condition)
    holds = facts.read(condition).constant
    feasible = facts.restrict(condition) and facts.restrict(condition)
    if holds == 0 or not feasible:
        assert not true.any()
        return
    if holds == 1:
        values = np.broadcast_to(evaluate(condition, GRID).numbers, true.shape)
        whole = reduce(np.logical_and, (~np.isnan(GRID[name].numbers) for name in decisive(condition)), True)
        assert np.all(values[np.broadcast_to(whole, true.shape)] == 1.0)
    for name, column in COLUMNS.items():
        kept = GRID[name].numbers[true]
        if name in facts.present:
            assert not np.isnan(kept).any()
        kept = kept[~np.isnan(kept)]
        if column.type == "numeric":
            low, high = facts.range_of(("number", name))
            assert np.all((kept >= low) & (kept <= high))
        elif name in facts.levels:
            assert {column.levels[int(place)] for place in kept} <= set(facts.levels[name])


@quickly
@given(numbers)
def test_bounds_of_an_expression_hold_its_values(expression: Expression) -> None:
    assume(is_small(expression))
    form, values = Facts(COLUMNS).read(expression), evaluate(expression, GRID).numbers
    values = np.atleast_1d(values)[~np.isnan(np.atleast_1d(values))]
    assume(np.max(np.abs(values), initial=0.0) < 1e100)  # what is larger is refused by the curator
    slack = 1e-9 * max(1.0, float(np.max(np.abs(values), initial=0.0)))
    assert np.all((values >= form.low - slack) & (values <= form.high + slack))
    if form.constant is not None:
        assert values == pytest.approx(np.full(len(values), float(form.constant)), abs=slack)


# Relations


def derive(expression: Expression) -> Column:
    """Return the column that a curator would make of an expression, by bounds of its own."""
    if expression.operator == "column":
        return COLUMNS[expression.parameters[0]]
    rules = {COLUMNS[name].missing for name in decisive(expression)}
    rule = next((rule for rule in ("omit", "indicator", "midpoint") if rule in rules), "complete")
    sources = tuple(COLUMNS[name] for name in expression.columns)
    kind, name = "numeric", repr(expression)
    if expression.operator in {"cut", "reference"}:
        levels = tuple(Facts(COLUMNS).levels_of(expression))
        return DerivedColumn(name, "categorical", rule, levels=levels, expression=expression, sources=sources)
    if expression.operator in {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "between", "in",
                               "missing", "and", "or", "not"}:  # fmt: skip
        return DerivedColumn(name, "boolean", rule, levels=("false", "true"), expression=expression, sources=sources)
    form = Facts(COLUMNS).read(expression)
    return DerivedColumn(name, kind, rule, form.low, form.high, expression=expression, sources=sources)


def find_dependent(
    terms: Sequence[Term], columns: Sequence[Column], where: Expression | None = None
) -> dict[str, list[str]]:
    """Return the terms that are claimed to be functions of those before, with these."""
    facts = Facts(COLUMNS)
    if where is not None:
        assert facts.restrict(where)
        facts.restrict(where)
    for column in columns:
        if column.missing == "omit" and not (
            isinstance(column, DerivedColumn) and is_decided_by_one(column.expression)
        ):
            of = decisive(column.expression) if isinstance(column, DerivedColumn) else (column.name,)
            facts.present |= set(of)
    rows, base = Terms(COLUMNS | {column.name: column for column in columns}, facts), Base()
    found = {term.name: base.add(term.name, rows.row(term)) for term in terms}
    return {name: others for name, others in found.items() if others is not None}


def check_dependent(
    terms: Sequence[Term], columns: Sequence[Column], where: Expression | None, found: dict[str, list[str]]
) -> None:
    """Assert that each claim holds in every row of the grid that counts."""
    kept = np.ones(len(GRID["x"].numbers), dtype=bool) if where is None else rows_where(where)
    frame = {}
    for column in stored_columns(columns):
        values = GRID[column.name].numbers[kept]
        labels = [None if np.isnan(v) else v if column.type == "numeric" else column.levels[int(v)] for v in values]
        frame[column.name] = np.array(labels, dtype=object)
    if not kept.any() or not frame:
        return
    X = design_matrix(frame, columns, terms, clip=False)
    X = X[~np.isnan(X).any(axis=1)]
    names = [term.name for term in terms]
    for name, others in found.items():
        beside = X[:, [names.index(other) for other in others]]
        own = X[:, names.index(name)]
        left = own - beside @ np.linalg.lstsq(beside, own, rcond=None)[0] if others and len(X) else own
        assert left == pytest.approx(np.zeros(len(X)), abs=1e-6), (name, others)


@quickly
@given(st.lists(numbers, min_size=1, max_size=5), st.none() | conditions)
def test_a_claimed_relation_holds_in_every_row(features: list[Expression], where: Expression | None) -> None:
    assume(is_small(*features) and (where is None or is_small(where)))
    asked = {repr(one): one for one in [*features, col("c"), col("b"), col("y")]}
    spread = [derive(one) for one in asked.values() if 1e-9 < np.ptp(Facts(COLUMNS).read(one)[1:]) < 1e6]
    if where is not None:
        facts = Facts(COLUMNS)
        assume(facts.read(where).constant != 0 and facts.restrict(where) and facts.restrict(where))
    terms = terms_of(tuple(spread), True)
    terms = tuple({term.name: term for term in terms}.values())
    check_dependent(terms, spread, where, find_dependent(terms, spread, where))


RELATED: list[tuple[str, list[Any], str | None]] = [
    ("a multiple", ["x", col("x") * 2], None),
    ("a shift of a multiple", ["x", 1 - col("x") / 3], None),
    ("a sum", ["x", "z", col("x") + col("z")], None),
    ("a sum of three", ["x", "z", col("x") - 2 * col("z") + 5], None),
    ("a square", [col("x") ** 2, (col("x") - 1) ** 2, "x"], None),
    ("a product", [col("x") * col("z"), (col("x") + 1) * col("z"), "z"], None),
    ("a minimum that is never cut", ["x", minimum("x", 100.0)], None),
    ("a size of what has a sign", ["z", abs(col("z"))], None),
    ("logarithms in other bases", [log(col("z") + 1), log(col("z") + 1) / math.log(2)], None),
    ("logarithms of a product", [log(col("y") * 2), log("y")], None),
    ("a quotient", [col("x") / col("y"), (2 * col("x") + col("y")) / col("y")], "not missing(y)"),
    ("a level", ["c", col("c") == "k"], None),
    ("opposites", [col("x") > 1, col("x") <= 1], None),
    ("a cut", [cut("x", [-2.0, 0.0, 1.0, 3.0]), call("greater_equal", "x", 0.0)], None),
    ("a cut within another", [cut("x", [-2.0, 0.0, 1.0, 3.0]), cut("x", [-2.0, 1.0, 3.0])], None),
    ("a comparison that is never true", ["z", col("x") > 200], None),
    ("a level that is fixed", ["c", "z"], "c == 'k'"),
    ("a number that is fixed", ["x", "z"], "x == 3"),
    ("a boolean that is fixed", ["b", "z"], "b"),
    ("levels that are left", ["c", "z"], "c == 'k' or c == 'l'"),
    ("intervals that are left", [cut("x", [-2.0, 0.0, 1.0, 3.0]), "z"], "x >= 1"),
    ("an indicator without missing values", ["g"], "not missing(g)"),
    ("a minimum that is cut by where", ["x", minimum("x", 1.0)], "x < 0.5"),
]  # fmt: skip
FREE: list[tuple[str, list[Any], str | None]] = [
    ("powers", ["x", col("x") ** 2, col("x") ** 3, col("x") ** 9], None),
    ("nearly a multiple", ["x", col("x") * 2 + col("z") * 1e-9], None),
    ("a sum of which a part is missing at its midpoint", ["x", "y", col("x") + col("y")], None),
    ("a minimum that is cut at the very end", ["x", minimum("x", 2.9999999)], None),
    ("a comparison that holds at the very end", ["x", call("greater_equal", "x", 3.0)], None),
    ("levels", ["c", "g", "b"], None),
    ("a function", ["z", log(col("z") + 1), sqrt("z"), maximum("z", 4.0)], None),
    ("subsets of a category", ["c", "x"], "c != 'k'"),
]


@pytest.mark.parametrize(("features", "where"), [case[1:] for case in RELATED], ids=[case[0] for case in RELATED])
def test_an_exact_relation_is_found(features: list[Any], where: str | None) -> None:
    columns = [derive(as_expression(one)) for one in features]
    condition = None if where is None else read_condition(where)
    terms = terms_of(tuple(columns), True)
    found = find_dependent(terms, columns, condition)
    assert found
    check_dependent(terms, columns, condition, found)


@pytest.mark.parametrize(("features", "where"), [case[1:] for case in FREE], ids=[case[0] for case in FREE])
def test_terms_that_some_row_tells_apart_are_not_called_related(features: list[Any], where: str | None) -> None:
    columns = [derive(as_expression(one)) for one in features]
    condition = None if where is None else read_condition(where)
    terms = terms_of(tuple(columns), True)
    related = {name for name in find_dependent(terms, columns, condition) if not name.startswith("c[")}
    assert not related


def test_all_levels_add_up_to_the_constant() -> None:
    """As R's dummy trap has it; without the constant each level has a term of its own."""
    levels = terms_of((COLUMNS["c"],), False)
    assert not find_dependent(levels, [COLUMNS["c"]])
    assert find_dependent((*terms_of((), True), *levels), [COLUMNS["c"]]) == {"c[m]": ["(constant)", "c[k]", "c[l]"]}


def basis_terms(word: str, parameters: tuple[Any, ...], count: int, column: str = "x") -> tuple[Term, ...]:
    """Return the functions of a basis beside a constant, as a curator states them."""
    first = 0 if word == "polynomial" else 1
    lower, upper = COLUMNS[column].lower, COLUMNS[column].upper
    assert lower is not None
    assert upper is not None
    center, scale = (lower + upper) / 2.0, (upper - lower) / 2.0
    name = f"{word}({column})"
    return tuple(
        Term(f"{name}[{k + 1}]", "basis", name, basis=Basis(column, word, parameters, center, scale, k))
        for k in range(first, count)
    )


BASES = [
    ("polynomial", (3,), 3), ("spline", ((0.0, 1.0), 3), 6), ("spline", ((0.5,), 2), 4),
    ("natural_spline", ((0.0, 2.0),), 4),
    ("natural_spline", ((0.3,), 3), 3),
]  # fmt: skip


@pytest.mark.parametrize(("word", "parameters", "count"), BASES)
def test_a_basis_holds_the_line_and_what_else_it_spans(word: str, parameters: tuple[Any, ...], count: int) -> None:
    x = COLUMNS["x"]
    beside, line = terms_of((), True), terms_of((x,), False)
    functions = basis_terms(word, parameters, count)
    assert not find_dependent((*beside, *functions), [x])
    whole = (*beside, *functions, *line)
    found = find_dependent(whole, [x])
    assert set(found) == {"x"}
    check_dependent(whole, [x], None, found)
    square = derive(col("x") ** 2)
    spanned = word != "natural_spline"
    assert bool(find_dependent((*beside, *functions, *terms_of((square,), False)), [x, square])) == spanned


# Quotes


class Asked:
    """A request, as far as it is judged."""

    def __init__(self, **members: Any) -> None:
        self.members, self.lacks_target = members, False


def dataset_of(quote: Any, capacity: int, rows: int | None = None, per_person: int = 1) -> Any:
    class Declared:
        columns = (*quote.columns, Column.numeric("kappa", 0, 6))
        row_capacity, rows_per_person = capacity, per_person

    Declared.rows = rows  # type: ignore[attr-defined]
    return Declared


def at_price(strength: float) -> Any:
    """Return the quote of the examples at another price: noise falls as one over it."""
    names = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty")
    noise = replace(QUOTE.noise, **{name: getattr(QUOTE.noise, name) / strength for name in names})
    cost = replace(QUOTE.cost, mu=QUOTE.cost.mu * strength)
    return replace(QUOTE, noise=noise, cost=cost)


def simulate(quote: Any, rows: float, count: int = 40) -> float:
    """Return the share of releases of rows at the ends of all bounds that give some coefficient a bounded interval."""
    generator = np.random.default_rng(1)
    frame: dict[str, Any] = dummy_rows(quote.columns, 2000, 3, missing={})
    for column in quote.columns:
        if column.type == "numeric":
            frame[column.name] = np.where(generator.random(2000) < 0.5, column.lower, column.upper)
    frame["kappa"] = np.clip(3.0 + generator.standard_normal(2000), 0.0, 6.0)
    guess, bounded = Assumptions.from_rows(quote, frame).with_rows(rows), 0
    for seed in range(count):
        with suppress(EstimationError):
            bounded += bool(np.isfinite(OLS().fit(rehearse(quote, guess, seed=seed)).conf_int()).all(axis=1)[1:].any())
    return bounded / count


def test_a_price_that_buys_no_interval_is_known_and_what_would_is_said() -> None:
    dear, cheap = at_price(1.0), at_price(0.0015)
    assert find_certain(Asked(), dear, dataset_of(dear, 10_000)) == ((), ())
    (reason,) = find_certain(Asked(), cheap, dataset_of(cheap, 10_000)).useless
    assert "of 10,000 rows spread to the ends of all bounds at most" in reason
    assert simulate(cheap, 10_000) <= float(re.search(r"at most (\d+)%", reason)[1]) / 100  # type: ignore[index]
    times = int(re.search(r"or (\d+) times the rows", reason)[1])  # type: ignore[index]
    assert find_certain(Asked(), cheap, dataset_of(cheap, 10_000 * times)) == ((), ())
    assert simulate(cheap, 10_000 * times) >= 0.5
    assert find_certain(Asked(), cheap, dataset_of(cheap, 10_000), once=False) == ((), ())


def test_a_price_that_may_buy_an_interval_of_one_term_is_noted_and_not_refused() -> None:
    useless, notes = find_certain(Asked(), at_price(0.003), dataset_of(QUOTE, 10_000))
    assert useless == ()
    assert "few releases at this price give all terms together intervals with ends" in notes[0]


def test_rows_are_those_that_are_stated_or_public_or_the_capacity() -> None:
    cheap = at_price(0.0015)
    assert find_certain(Asked(), cheap, dataset_of(cheap, 10_000)).useless
    assert not find_certain(Asked(), cheap, dataset_of(cheap, 1_000_000)).useless
    assert find_certain(Asked(expected_rows=10_000), cheap, dataset_of(cheap, 1_000_000)).useless
    assert find_certain(Asked(), cheap, dataset_of(cheap, 1_000_000, rows=10_000)).useless
    assert not find_certain(Asked(), cheap, dataset_of(cheap, 1_000_000, rows=10_000, per_person=100)).useless


def test_fifty_terms_are_judged_before_anybody_waits() -> None:
    columns = tuple(Column.numeric(f"x{j}", 0, 1 + j) for j in range(49))
    quote = replace(QUOTE, features=columns, inner_columns=(), terms=terms_of(columns, True))
    declared = dataset_of(quote, 100_000)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        assert not find_certain(Asked(), quote, declared).useless
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.25  # 0.02 s where nothing else runs
    assert find_relations(quote, Facts({column.name: column for column in declared.columns})) == ([], [])


def test_the_error_survives_a_pickle_and_lists_its_reasons() -> None:
    error = pickle.loads(pickle.dumps(UselessRequestError(("one", "two"))))
    assert error.reasons == ("one", "two")
    assert str(error).endswith(":\n  - one\n  - two")
    assert isinstance(error, ValueError)
