"""The real client refuses requests that public numbers show to be useless, before the real curator charges them."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support import World, client_of, make_rows, open_world

from analyst_client import (
    Column,
    CountsRequest,
    CuratorClient,
    Curators,
    MarginalsRequest,
    Moments,
    Release,
    Tree,
    UselessRequestError,
)
from analyst_client.terms import col, poly
from analyst_client.terms.certain import Facts
from analyst_client.terms.expression import Expression, as_expression, call
from analyst_client.terms.python import FormulaError
from curator_service.privacy import design
from curator_service.privacy.accountant import Price
from curator_service.privacy.expressions import ExpressionError, parse
from curator_service.privacy.expressions.evaluate import evaluate
from curator_service.privacy.lattice import STORED_UNIT

MU: dict[str, Any] = {"mu": 1.0}
TINY: dict[str, Any] = {"mu": 1e-4}
WHOLE = 61
"""An age that a curator keeps as a number beside it: no step of its bounds is there."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    rows = make_rows(400, seed=3)
    for row in rows[:100]:
        row["age"] = str(WHOLE)
    for row in rows[100:150]:
        row["age"] = "75"
    with open_world(tmp_path_factory.mktemp("useless"), rows=rows, limit=Price(mu=1000.0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(world: World) -> CuratorClient:
    return client_of(world)


def spent(client: CuratorClient) -> tuple[Any, Any]:
    budget = client.budget("cohort")
    return budget.posted.units, budget.pending.units


def asks(features: Any, **options: Any) -> Callable[[CuratorClient, bool], Any]:
    price = {} if {"mu"} & set(options) or not isinstance(features, list | str) else MU
    # One step: two would ask what the row map is, too.
    rows = {"rows": "box"} if isinstance(features, str) or options.get("target") is not None else {}
    return lambda client, even_so: client.release("cohort", features, even_so=even_so, **price, **rows, **options)


USELESS: dict[str, tuple[Callable[[CuratorClient, bool], Any], str]] = {
    "no target": (asks(["age", "sex"]), "no target is named.*target=None"),
    "never": (asks(["sex"], target="kappa", where="age > 200"), r"where, age > 200.0, is true of no row.*50 to 100"),
    "never together": (asks(["sex"], target="kappa", where="age > 70 and age < 60"), "is true of no row"),
    "never kept": (asks(["sex"], target="kappa", where=f"age == {WHOLE}.00000000001"), r"kept in steps.*between\(age"),
    "never, of counts": (asks(CountsRequest(["sex"], where="age > 200", **MU)), "is true of no row"),
    "never, of marginals": (asks(MarginalsRequest([Tree(["age"])], where="age > 200", **MU)), "is true of no row"),
    "a multiple": (asks("kappa ~ age + I(2*age)"), r"\(age \* 2\) is an exact linear function of age: leave out"),
    "a sum": (asks(["age", "creatinine", col("age") + col("creatinine")], target="kappa"), "function of age, creat"),
    "a line beside its basis": (asks(["age", poly("age", 3)], target="kappa"), "is an exact linear function of age"),
    "a dummy trap": (asks([col("sex").isin(["F"]), "sex"], target="kappa"), r"sex\[X\] is an exact linear function"),
    "a comparison that is never true": (asks("kappa ~ sex + I(age > 200)"), "is the same in every row that counts"),
    "a level that where fixes": (asks("kappa ~ sex", where="sex == 'F'"), r"sex\[M\], sex\[X\] are the same"),
    "a boolean that where fixes": (asks(["treated", "age"], target="kappa", where="treated"), "treated.* the same"),
    "a target made of a feature": (asks(["kappa"], target=2 * col("kappa") + 1), "the target .* function of kappa"),
    "a target that where fixes": (asks(["age"], target="alive", where="alive"), "the target alive is the same"),
    "a weight of 0": (asks(["age"], target="kappa", weight=0.5 * (col("age") > 200)), "weight, .* is 0 in every row"),
    "a price": (asks(["age", "sex"], target="kappa", **TINY), "even of 1,000 rows .* ε = .* would do, or"),
    "the price of descriptions": (asks(["age", "sex"], target=None, **TINY), "the noise of XᵀX hides all of 1,000"),
    "the price of counts": (asks(CountsRequest(["sex"], **TINY)), "the noise of sex hides all of 1,000 rows"),
    "the price of moments": (asks(MarginalsRequest([Moments(["age"])], **TINY)), "moments of age hides all of 1,000"),
    "marginals of one value": (asks(MarginalsRequest([Tree(["age"])], where="age == 75", **MU)), "age is the same"),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_it_is_refused_before_it_is_charged_and_asked_for_even_so(client: CuratorClient, name: str) -> None:
    ask, rule = USELESS[name]
    before = spent(client)
    with pytest.raises(UselessRequestError, match=rule) as caught:
        ask(client, False)
    assert "even_so=True" in str(caught.value)
    assert caught.value.reasons
    assert spent(client) == before
    answer = ask(client, True)
    assert spent(client) > before
    assert ask(client, False).id == answer.id  # what is stored costs nothing, and is refused nowhere


@pytest.mark.parametrize(
    ("features", "options"),
    [
        (["age", "sex"], {"target": None}),
        (["age", "sex"], {"statistics": ["xtx"]}),
        (["age", col("age") * 2], {"target": None}),
        (["age", "sex"], {"targets": ["kappa", "alive"], "where": "alive"}),
        (["age", "height", col("age") + col("height")], {"target": "kappa"}),  # a missing height tells them apart
        (["sex", "age"], {"target": "kappa", "where": "sex != 'F' or age > 60"}),
        ("kappa ~ age + I(age**2) + log(age) + sqrt(age)", {}),
    ],
)
def test_what_may_tell_something_is_answered(client: CuratorClient, features: Any, options: dict[str, Any]) -> None:
    assert client.quote("cohort", features, **MU, **options).useless == ()
    assert client.release("cohort", features, **MU, **options).xtx is not None


def test_what_changes_nothing_is_noted(client: CuratorClient) -> None:
    everybody = client.quote("cohort", ["sex"], target="kappa", where="age > 20", mu=1.1)
    assert everybody.notes == ("where, age > 20.0, is true of every row",)
    assert "is true of every row" in str(everybody)
    told = client.quote("cohort", ["sex"], target="kappa", where="creatinine < 7", mu=1.1)
    assert told.notes == ("where, creatinine < 7.0, is true of every row that does not miss creatinine",)
    related = client.quote("cohort", ["age", col("age") * 2], target=None, mu=1.1)
    assert "exact linear function of age" in related.notes[0]


def test_a_quote_says_what_a_release_would_be_refused_for(client: CuratorClient) -> None:
    quote = client.quote("cohort", "kappa ~ age + I(2*age)", mu=1.2)
    assert quote.affordable
    with pytest.raises(UselessRequestError) as caught:
        client.release("cohort", "kappa ~ age + I(2*age)", mu=1.2)
    assert caught.value.reasons == quote.useless
    assert "tells nothing" in str(quote)
    with pytest.raises(UselessRequestError):
        client.submit_release("cohort", "kappa ~ age + I(2*age)", mu=1.2)


def test_a_whole_number_is_kept_as_it_is_and_one_of_many_decimals_is_not(client: CuratorClient) -> None:
    """What is claimed of ``==``: 100 people are 61 years old."""
    counted = []
    for text in (f"age == {WHOLE}", f"age == {WHOLE}.00000000001"):
        found = client.release("cohort", CountsRequest(["alive"], where=text, mu=9.0), even_so=True)
        counted.append(float(found.tables[0].values.sum()))
    assert counted == pytest.approx([100.0, 0.0], abs=3.0)


def test_a_category_of_a_number_is_refused_and_what_is_named_works(client: CuratorClient) -> None:
    with pytest.raises(FormulaError, match=r"would be one slope: as levels it is cut\(age, \[") as e:
        client.quote("cohort", "kappa ~ sex + C(age)", **MU)
    assert (e.value.start, e.value.stop) == (14, 20)
    named = e.value.rule.split("as levels it is ")[1].split(", and as a slope")[0]
    assert len(client.quote("cohort", f"kappa ~ sex + {named}", **MU).terms) == 5
    assert len(client.quote("cohort", "kappa ~ C(sex) + C(alive) + C(cut(age, [60]))", **MU).terms) == 5


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"target": "kappa", "where": "age > 200"}, "is true of no row"),
        ({"target": "kappa", "where": "sex == 'F'"}, "are the same in every row"),
        ({"target": "kappa", "mu": 0.003}, r"tells no slope.*slopes need .* times the µ, or .* rows"),
        ({"target": "alive", "family": "binomial", "where": "alive"}, "the target alive is the same"),
        (
            {"target": "kappa", "family": "binomial"},
            r"of a boolean, and 'kappa' is none.*such as target=col",
        ),
        ({"target": "dose", "family": "poisson"}, "begin below 0: ask for family='gaussian'"),
        ({"target": "alive", "family": "poisson"}, "'alive' is none"),
    ],
)
def test_a_refinement_that_tells_no_slope_is_refused_before_anything_is_held(
    client: CuratorClient, options: dict[str, Any], rule: str
) -> None:
    before = spent(client)
    with pytest.raises(ValueError, match=rule):
        client.refine("cohort", ["age", "sex"], **MU | options)
    assert spent(client) == before


def test_a_plan_of_several_curators_is_refused_before_anything_is_held(client: CuratorClient) -> None:
    before = spent(client)
    plan = Curators({"north": client}).plan("cohort", ["age"], target="kappa", where="age > 200", mu=0.9)
    with pytest.raises(UselessRequestError, match="at north: where, age > 200"):
        plan.buy()
    assert spent(client) == before
    assert isinstance(plan.buy(even_so=True)["north"], Release)


def draw_condition(rng: random.Random, read: Mapping[str, Sequence[float]]) -> Expression:
    """Return comparisons with numbers at bounds, read ones, their neighbours, and ones of few digits."""
    name = rng.choice("xy")
    number = rng.choice([min(read[name]), max(read[name]), *read[name]])
    near = math.nextafter(number, rng.choice([-math.inf, math.inf]))
    value = as_expression(rng.choice([number, near, float(f"{number:.{rng.randint(1, 9)}g}")]))
    one = rng.choice([col(name), col(name), col(name), col("x") + col("y"), 3.0 * col(name)])
    other = rng.choice([value, value, value, value, col(name), col("x") + col("y")])
    found = call(rng.choice(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]), one, other)
    joined = rng.random()
    return found if joined < 0.7 else call("and" if joined < 0.85 else "or", found, draw_condition(rng, read))


def test_nothing_is_claimed_of_a_condition_that_a_curator_reads_otherwise() -> None:
    rng, claims = random.Random(6), 0
    bounds = [(0.0, 1.0), (50.0, 100.0), (-0.1, 0.3), (1e-12, 0.001), (1e6, 1e6 + 2.0), (1e9, 1e9 + 1.0), (0.0, 1e-160)]
    steps = np.array([-STORED_UNIT, 1 - STORED_UNIT, -1, 0, 1, STORED_UNIT - 1, STORED_UNIT, 123456789, -987654321])
    for _ in range(400):
        ends = {name: rng.choice(bounds) for name in "xy"}
        declared = {name: Column.numeric(name, *ends[name], missing="complete") for name in "xy"}
        kept = {
            name: design.Column(name, design.ColumnType.NUMERIC, design.MissingRule.COMPLETE, *ends[name])
            for name in "xy"
        }
        stored = {"x": np.repeat(steps, len(steps)).astype(np.int32), "y": np.tile(steps, len(steps)).astype(np.int32)}
        read = {name: evaluate(parse(name, kept), stored, len(stored["x"])).numbers.tolist() for name in "xy"}
        condition = draw_condition(rng, read)
        try:
            tree = parse(condition.to_json(), kept)
        except ExpressionError:  # a number is compared with itself
            continue
        true, facts = evaluate(tree, stored, len(stored["x"])).numbers == 1.0, Facts(declared)
        holds = facts.read(condition).constant
        is_possible = facts.restrict(condition) and facts.restrict(condition)
        assert is_possible or not true.any(), (condition, ends)
        assert holds is None or (true == holds).all(), (condition, ends)
        claims += holds is not None or not is_possible
    assert claims > 80
