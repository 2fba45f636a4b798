"""One call to a fit, with the real client and the real curator: how it chooses, asks, and what it charges."""

import io
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import support
from support import World, client_of, make_rows, open_population, open_world, spent

import analyst_client
from analyst_client import (
    CuratorClient,
    EmpiricalBayes,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    terms,
)
from analyst_client.errors import (
    BudgetExceededError,
    DatasetNotFoundError,
    NotConfirmedError,
    TransportError,
    UselessRequestError,
)
from analyst_client.fitting.question import Question
from analyst_client.fitting.ways import find_released
from analyst_client.kinds.gram.release import Release
from analyst_client.terms import col, poly
from curator_service.privacy.accountant import Price

COUNT = 600
ASKED: dict[str, Any] = {"data": "cohort", "epsilon": 8.0, "expected_rows": 5000, "yes": True, "progress": False}
COUNTED = [(*column[:4], support.COUNTED) if column[0] == "lambda" else column for column in support.COLUMNS]
COUNTED.append(("vital", "boolean", "complete", ("dead", "living"), None))


def draw_rows() -> list[dict[str, str]]:
    generator, rows = np.random.default_rng(5), make_rows(COUNT, seed=11)
    for row in rows:
        row["lambda"] = repr(float(min(generator.poisson(0.8), 6)))
        row["vital"] = "living" if generator.uniform() < 0.7 else "dead"
    return rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("fit"), rows=draw_rows(), limit=Price(mu=200.0)) as opened:
        opened.grant("ada", opened.register("counted", "town", draw_rows(), columns=COUNTED))
        yield opened


@pytest.fixture(scope="module")
def client(world: World) -> CuratorClient:
    return client_of(world)


def run_call(call: str, client: CuratorClient) -> Any:
    """Run what a fit says is the same."""
    names = {name: getattr(analyst_client, name) for name in analyst_client.__all__}
    return eval(call, names | {name: getattr(terms, name) for name in terms.__all__} | {"client": client})


FAMILIES = {
    "numeric": ("kappa ~ age + sex", "cohort", RefinedRegression, "gaussian, as kappa is a number"),
    "boolean": ("alive ~ age", "cohort", LogisticRegression, "binomial, as alive is true or false"),
    "whole from 0": ("`lambda` ~ age", "counted", PoissonRegression, "poisson, as lambda is declared a whole number"),
    "not whole": ("`lambda` ~ age", "cohort", RefinedRegression, "gaussian, as lambda is a number"),
    "of a whole number": ("sqrt(`lambda`) ~ age", "counted", RefinedRegression, "gaussian"),
    "a condition": ("I(kappa > 3) ~ age", "cohort", LogisticRegression, "binomial"),
}


@pytest.mark.parametrize(("model", "data", "kind", "family"), FAMILIES.values(), ids=FAMILIES)
def test_the_family_follows_from_the_target(
    client: CuratorClient, model: str, data: str, kind: type, family: str
) -> None:
    fit = client.fit(model, **ASKED | {"data": data})
    assert type(fit) is kind
    assert fit.choice_.family.startswith(family)


def test_a_family_may_be_named(client: CuratorClient) -> None:
    fit = client.fit("alive ~ age", family="gaussian", **ASKED)
    assert type(fit) is RefinedRegression or type(fit) is EmpiricalBayes
    before = spent(client)
    with pytest.raises(ValueError, match=r"no way to this fit: .* is of a boolean"):
        client.fit("kappa ~ age", family="binomial", **ASKED)
    assert spent(client) == before
    with pytest.raises(ValueError, match="family is one of gaussian, binomial, poisson, not 'logit'"):
        client.fit("alive ~ age", family="logit", **ASKED)


CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a formula": ("kappa ~ age * sex", {}),
    "columns": (["age", "weight", "sex"], {"target": "kappa"}),
    "terms": ([col("age"), col("weight") * 2.0], {"target": col("kappa") + 1.0}),
    "a basis": ([poly("weight", 2), "sex"], {"target": "kappa", "where": col("age") > 52.0}),
    "rows and weights": ("kappa ~ age", {"where": "sex == 'F' and age > 55", "weights": "ward == 'a'"}),
    "a model": (analyst_client.Model("kappa ~ age").where("sex == 'M'"), {}),
    "a label": (["age"], {"data": "counted", "target": col("vital") == "living"}),
    "an offset": ("`lambda` ~ age", {"data": "counted", "offset": "log(weight)"}),
    "odds": ("alive ~ age + sex", {}),
    "numbers and names of arrays": (
        [*np.array(["age", "smoker"])],
        {"target": "kappa", "expected_rows": np.int64(5000)},
    ),
}


@pytest.mark.parametrize(("model", "options"), CALLS.values(), ids=CALLS)
def test_the_call_that_it_prints_does_the_same_and_costs_nothing(
    client: CuratorClient, model: Any, options: dict[str, Any]
) -> None:
    before = spent(client)
    fit = client.fit(model, **ASKED | options)
    after = spent(client)
    assert before < after
    again = run_call(fit.choice_.call, client)
    assert type(again) is type(fit)
    assert again.params_ == pytest.approx(fit.params_)
    assert again.conf_int() == pytest.approx(fit.conf_int())
    assert spent(client) == after


def test_what_it_charges_is_the_price(client: CuratorClient) -> None:
    before = client.budget("cohort").posted.mu
    fit = client.fit("kappa ~ age + weight", **ASKED)
    after, cost = client.budget("cohort").posted.mu, fit.choice_.taken.cost
    assert before is not None
    assert after is not None
    assert cost is not None
    assert cost.epsilon == pytest.approx(8.0)
    assert 0.5 * cost.mu**2 < after**2 - before**2 <= cost.mu**2 * (1.0 + 1e-9)  # what no step needs goes back


ORDERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "columns": (["height", "sex", "age"], ["sex", "age", "height"], {"target": "kappa"}),
    "products": (
        "height ~ sex + age + ward + ward:age + age:sex",
        "height ~ ward + age + sex + age:ward + sex:age",
        {},
    ),
    "terms": (
        [poly("age", 2), "ward", col("height") * 2.0],
        ["ward", col("height") * 2.0, poly("age", 2)],
        {"target": "kappa"},
    ),
    "odds": ("alive ~ weight + sex + age", "alive ~ age + weight + sex", {}),
    "an offset": ("`lambda` ~ sex + age", "`lambda` ~ age + sex", {"data": "counted", "offset": "log(weight)"}),
}


def columns_of(rows: list[dict[str, str]]) -> dict[str, list[Any]]:
    numeric = {name for name, type_, *_ in support.COLUMNS if type_ == "numeric"}
    return {name: [float(row[name] or "nan") if name in numeric else row[name] for row in rows] for name in rows[0]}


class TestPaid:
    """What was paid is taken first, by its terms, its scales and its price."""

    def test_the_same_call_is_free_and_not_asked(self, client: CuratorClient) -> None:
        first = client.fit("kappa ~ creatinine", **ASKED)
        before = spent(client)
        again = client.fit("kappa ~ creatinine", **ASKED | {"yes": False})
        assert again.choice_.is_free
        assert again.params_ == pytest.approx(first.params_)
        assert spent(client) == before

    def test_one_release_that_was_bought_in_two_steps_is_free_the_second_time(self, client: CuratorClient) -> None:
        first = client.fit("kappa ~ stage * weight", **ASKED)
        assert first.choice_.taken.name == "one release"
        before = spent(client)
        again = client.fit("kappa ~ stage * weight", **ASKED | {"yes": False})
        assert again.choice_.is_free
        assert again.params_ == pytest.approx(first.params_)
        assert spent(client) == before

    @pytest.mark.parametrize(("model", "other", "options"), ORDERS.values(), ids=ORDERS)
    def test_another_order_of_the_same_terms_is_the_same_fit(
        self, client: CuratorClient, model: Any, other: Any, options: dict[str, Any]
    ) -> None:
        first = client.fit(model, **ASKED | options)
        before = spent(client)
        again = client.fit(other, **ASKED | options | {"yes": False})
        assert spent(client) == before
        assert again.choice_.is_free
        assert list(again.param_names_) != list(first.param_names_)
        order = [list(first.param_names_).index(name) for name in again.param_names_]
        assert again.params_ == pytest.approx(first.params_[order])
        assert again.conf_int() == pytest.approx(first.conf_int()[order])
        assert again.cov_params() == pytest.approx(first.cov_params()[np.ix_(order, order)])
        frame = {name: column[:5] for name, column in columns_of(draw_rows()).items()}
        assert again.predict(frame, clip=True) == pytest.approx(first.predict(frame, clip=True))
        assert run_call(again.choice_.call, client).params_ == pytest.approx(again.params_)

    def test_a_wanted_accuracy_that_was_bought_is_not_bought_again(self, client: CuratorClient) -> None:
        asked: dict[str, Any] = {"half_width": {"age": 0.03}, "guess": {"rows": COUNT}, "progress": False}
        first = client.fit("`lambda` ~ age + ward", "cohort", yes=True, **asked)
        before = spent(client)
        again = client.fit("`lambda` ~ age + ward", "cohort", **asked)
        assert again.choice_.is_free
        assert again.params_ == pytest.approx(first.params_)
        assert spent(client) == before

    def test_a_line_that_fails_makes_nothing_bought_another_way(self, client: CuratorClient, monkeypatch: Any) -> None:
        client.fit("kappa ~ dose", **ASKED)
        before = spent(client)

        def fail(*_: Any, **__: Any) -> None:
            raise TransportError("the line is broken")

        monkeypatch.setattr(CuratorClient, "_read_refinement", fail)
        with pytest.raises(TransportError, match="the line is broken"):
            client.fit("kappa ~ dose", **ASKED)
        assert spent(client) == before

    def test_a_release_that_holds_the_model_is_taken(self, client: CuratorClient) -> None:
        bought = client.release(
            "cohort", ["age", "height", "sex"], target="kappa", rows="box", epsilon=60.0, delta=1e-6
        )
        before = spent(client)
        fit = client.fit("kappa ~ height", **ASKED | {"yes": False})
        assert bought.id in fit.choice_.call
        assert ", which is paid already. Its intervals should be" in fit.choice_.reason
        assert run_call(fit.choice_.call, client).params_ == pytest.approx(fit.params_)
        assert spent(client) == before

    def test_one_that_would_tell_much_less_is_not(self, client: CuratorClient) -> None:
        client.release("cohort", ["ward", "age"], target="weight", rows="box", epsilon=0.3, delta=1e-6)
        fit = client.fit("weight ~ ward", **ASKED)
        assert not fit.choice_.is_free
        assert any(way.cost is None for way in fit.choice_.ways)

    @pytest.mark.parametrize("rows", ["sex == 'F'", None], ids=["of others", "of these"])
    def test_one_of_other_rows_is_none(self, client: CuratorClient, rows: str | None) -> None:
        client.release("cohort", ["region"], target="kappa", where=rows, rows="box", epsilon=50.0, delta=1e-6)
        fit = client.fit("kappa ~ region", **ASKED | {"epsilon": 8.0 if rows else 8.1})
        assert fit.choice_.is_free == (rows is None)

    @pytest.mark.parametrize("times", [0.0, -3.0, 1e6])
    def test_no_released_number_decides(self, client: CuratorClient, monkeypatch: Any, times: float) -> None:
        client.release("cohort", ["smoker", "age"], target="kappa", rows="box", epsilon=40.0, delta=1e-6)
        asked = ASKED | {"epsilon": 9.0}
        honest = client.fit("kappa ~ smoker", **asked).choice_
        fetch = CuratorClient.fetch_release

        def lie(self: CuratorClient, name: str) -> Any:
            found = fetch(self, name)
            return replace(found, xtx=times * found.xtx, xty=times * found.xty) if isinstance(found, Release) else found

        monkeypatch.setattr(CuratorClient, "fetch_release", lie)
        from analyst_client.fitting.choice import choose

        stated = {"epsilon": 9.0}
        told = choose(Question.read(client, "cohort", "kappa ~ smoker", {"expected_rows": 5000.0}, stated))
        assert [(way.name, way.expected, way.cost) for way in told.ways] == [
            (way.name, way.expected, way.cost) for way in honest.ways
        ]


class TestAsking:
    """Nothing is charged without a yes."""

    @pytest.fixture
    def answer(self, monkeypatch: Any) -> Iterator[Any]:
        def set_answer(text: str) -> None:
            stdin = io.StringIO(text)
            monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
            monkeypatch.setattr(sys, "stdin", stdin)

        return set_answer

    @pytest.mark.parametrize("said", ["n\n", "\n", "what\n"])
    def test_a_no_buys_nothing(self, client: CuratorClient, answer: Any, said: str, capsys: Any) -> None:
        answer(said)
        before = spent(client)
        with pytest.raises(NotConfirmedError, match="not bought"):
            client.fit("kappa ~ stage", **ASKED | {"yes": False})
        assert spent(client) == before
        shown = capsys.readouterr()
        assert "kappa ~ stage of cohort" in shown.err
        assert re.search(r"a refinement, \d+ steps +ε = 8", shown.err)

    def test_a_yes_buys(self, client: CuratorClient, answer: Any) -> None:
        answer("y\n")
        assert not client.fit("kappa ~ treated", **ASKED | {"yes": False}).choice_.is_free

    def test_where_nobody_can_be_asked_it_says_so(self, client: CuratorClient, monkeypatch: Any) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        before = spent(client)
        with pytest.raises(NotConfirmedError, match="say yes=True"):
            client.fit("kappa ~ frail", **ASKED | {"yes": False})
        assert spent(client) == before

    def test_what_is_stored_no_more_is_not_bought(self, client: CuratorClient, monkeypatch: Any) -> None:
        before, quote = spent(client), CuratorClient.quote

        def quote_stored(self: CuratorClient, data: str, asked: Any, **options: Any) -> Any:
            found = quote(self, data, asked, **options)
            return replace(found, stored_release="rel_gone") if isinstance(asked, str) else found

        monkeypatch.setattr(CuratorClient, "quote", quote_stored)
        (way,) = find_released(Question.read(client, "cohort", "kappa ~ frail", {}, {"epsilon": 7.7}))
        assert way.cost is None
        with pytest.raises(ValueError, match="nothing was charged"):
            way.buy(False)
        assert spent(client) == before

    def test_a_price_above_the_stated_one_is_refused(self, client: CuratorClient) -> None:
        before = spent(client)
        with pytest.raises(ValueError, match="more than max_epsilon = –: nothing was charged"):
            client.fit("kappa ~ frail", max_epsilon=math.nan, **ASKED)
        with pytest.raises(ValueError, match="more than max_epsilon = –: nothing was charged"):
            client.release("cohort", ["frail"], target="kappa", mu=1.0, max_epsilon=math.nan)
        with pytest.raises(ValueError, match=r"ε = 8 .* more than max_epsilon = 2: nothing was charged"):
            client.fit("kappa ~ frail", max_epsilon=2.0, **ASKED)
        assert spent(client) == before


def test_more_than_is_left_is_not_even_asked(tmp_path: Any) -> None:
    with open_world(tmp_path, rows=draw_rows(), limit=Price(mu=2.0)) as world:
        client = client_of(world)
        with pytest.raises(BudgetExceededError, match=r"more than is left \(the budget has .*\): epsilon='left' buys"):
            client.fit("kappa ~ age", **ASKED | {"epsilon": 100.0, "yes": False})
        assert spent(client) == 0.0


@pytest.mark.parametrize("epsilon", [ASKED["epsilon"], "left"])
@pytest.mark.parametrize("bought", [0, 3])
def test_an_interrupted_one_goes_on_with_what_it_holds(
    tmp_path: Any, monkeypatch: Any, bought: int, epsilon: Any
) -> None:
    asked = ASKED | {"epsilon": epsilon}
    with open_world(tmp_path, rows=draw_rows(), limit=Price(mu=2.0)) as world:
        client, count, releases = client_of(world), iter(range(100)), CuratorClient.release

        def stop(self: CuratorClient, *arguments: Any, **options: Any) -> Any:
            if next(count) == bought:
                raise KeyboardInterrupt
            return releases(self, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(CuratorClient, "release", stop)
            with pytest.raises(KeyboardInterrupt):
                client.fit("kappa ~ age", **asked)
        cost = client.fit("kappa ~ age", **asked).choice_.taken.cost
        assert cost is not None
        assert cost.mu is not None
        assert spent(client) <= cost.mu**2 * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({"age": [1.0]}, {}, "the name of a dataset at the curator, not a dict"),
        ("cohort", {"half_width": 0.05}, r"half_width=\{'age': 0.05\}"),
        ("cohort", {"yes": "no"}, "yes is True or False, not 'no'"),
    ],
)
def test_arguments_that_are_something_else(
    client: CuratorClient, data: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        client.fit("kappa ~ age", data, **options)


def test_a_dataset_that_is_not_there_is_answered_with_those_that_are(client: CuratorClient) -> None:
    with pytest.raises(DatasetNotFoundError, match=r"granted: did you mean 'cohort'\?$"):
        client.fit("kappa ~ age", "cohrt", epsilon=1.0)
    with pytest.raises(DatasetNotFoundError, match=r"granted; there are cohort, counted$"):
        client.release("nhanes", ["age"], target="kappa", mu=1.0)


class TestPrices:
    def test_a_wanted_accuracy_finds_its_price(self, client: CuratorClient) -> None:
        asked: dict[str, Any] = {"data": "cohort", "yes": True, "progress": False}
        guess = {"rows": COUNT, "sds": {"age": 14.0, "lambda": 0.9}}
        found = {}
        for width in (0.02, 0.05):
            fit = client.fit("`lambda` ~ age", half_width={"age": width}, guess=guess, **asked)
            cost = fit.choice_.taken.cost
            found[width] = cost.epsilon if cost else 0.0
            low, high = fit.conf_int()[1]
            assert (high - low) / 2.0 == pytest.approx(width, rel=0.6)
        assert found[0.02] > found[0.05]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"half_width": {"age": 1e-9}}, "out of reach of the whole budget"),
            ({"half_width": {"sex": 0.1}}, "names 'sex', and the terms are age, weight"),
            ({"half_width": {"age": -1.0}}, "each with a positive number"),
            ({"half_width": {"age": 0.1}, "epsilon": 1.0}, "leave out epsilon"),
            ({}, "state a price: epsilon=1.0"),
            ({"epsilon": 1.0, "mu": 1.0}, "state one cost"),
            ({"epsilon": "left", "mu": 1.0}, "leave out mu"),
        ],
    )
    def test_prices_that_make_no_sense_are_refused(
        self, client: CuratorClient, options: dict[str, Any], message: str
    ) -> None:
        before = spent(client)
        with pytest.raises(ValueError, match=message):
            client.fit("kappa ~ age + weight", data="cohort", yes=True, progress=False, **options)
        assert spent(client) == before

    def test_all_that_is_left_is_spent(self, tmp_path: Any) -> None:
        with open_world(tmp_path, rows=draw_rows(), limit=Price(mu=5.0)) as world:
            client = client_of(world)
            client.fit("kappa ~ age", data="cohort", epsilon="left", yes=True, progress=False)
            assert client.budget("cohort").share_spent == pytest.approx(1.0, abs=1e-6)
            with pytest.raises(ValueError, match="nothing is left of the budget of 'town'"):
                client.fit("kappa ~ sex", data="cohort", epsilon="left", yes=True, progress=False)


def test_what_tells_nothing_is_refused(client: CuratorClient) -> None:
    before = spent(client)
    with pytest.raises(UselessRequestError, match="tells no slope"):
        client.fit("creatinine ~ weight", data="cohort", epsilon=0.001, expected_rows=100, yes=True, progress=False)
    assert spent(client) == before


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_other_accounts(tmp_path: Any, accountant: str) -> None:
    with open_world(tmp_path, limit=Price(mu=5.0)) as world:
        limit = Price(epsilon=500.0) if accountant == "pure" else Price(rho=500.0)
        open_population(world.curator, "village", limit, accountant=accountant)
        world.grant("ada", world.register("counted", "village", draw_rows(), columns=COUNTED))
        client = client_of(world)
        asked: dict[str, Any] = {"data": "counted", "epsilon": 40.0, "yes": True, "progress": False}
        fit = client.fit("kappa ~ age", **asked)
        assert type(fit) is (EmpiricalBayes if accountant == "pure" else RefinedRegression)
        before = client.budget("counted").share_spent
        assert run_call(fit.choice_.call, client).params_ == pytest.approx(fit.params_)
        assert client.budget("counted").share_spent == before
        if accountant == "pure":
            assert "counts in pure ε" in fit.choice_.refused[0]
