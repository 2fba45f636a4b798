"""Refinements of two hospitals, and one call for both, with real clients and real curators."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from support import World, client_of, make_rows, open_population, open_world, spent

import analyst_client
from analyst_client import (
    AdaSSP,
    BudgetExceededError,
    CuratorClient,
    Curators,
    EmpiricalBayes,
    EstimationError,
    EstimationWarning,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    load_fit,
    terms,
)
from analyst_client.errors import (
    NotConfirmedError,
    ReceiptInvalidError,
    ServiceError,
    TransportError,
    UselessRequestError,
)
from analyst_client.inference.combined import CombinedResults, combine
from analyst_client.refinement import Refinement, RefinementRules
from analyst_client.terms import col, poly
from curator_service.privacy.accountant import Price

COUNT = 600
COUNTED = [(*column[:4], support.COUNTED) if column[0] == "lambda" else column for column in support.COLUMNS]
PRICE: dict[str, Any] = {"mu": 40.0, "expected_rows": COUNT, "progress": False}
FITS: dict[str, Any] = {
    "gaussian": (RefinedRegression, "weight"),
    "binomial": (LogisticRegression, "alive"),
    "poisson": (PoissonRegression, "lambda"),
}


def draw_rows(seed: int) -> list[dict[str, str]]:
    generator, rows = np.random.default_rng(seed), make_rows(COUNT, seed=seed)
    for row in rows:
        age = float(np.clip(generator.normal(66.0, 5.0), 50.0, 100.0))
        index = 0.15 * (age - 66.0) + 0.8 * (row["sex"] == "M") - 0.4
        row["age"], row["weight"] = repr(age), repr(float(80.0 + 5.0 * index + generator.normal()))
        row["alive"] = "true" if generator.uniform() < 1.0 / (1.0 + np.exp(-index)) else "false"
        row["lambda"] = repr(float(min(generator.poisson(np.exp(0.4 * index)), 6)))
    return rows


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    with ExitStack() as stack:
        opened = {}
        for seed, name in enumerate(("north", "south"), 1):
            folder = tmp_path_factory.mktemp(name)
            world = stack.enter_context(open_world(folder, rows=draw_rows(seed), limit=Price(mu=300.0)))
            world.grant("ada", world.register("counted", "town", draw_rows(seed), columns=COUNTED))
            opened[name] = world
        yield opened


@pytest.fixture
def curators(worlds: dict[str, World]) -> Curators:
    return Curators({name: client_of(world) for name, world in worlds.items()})


@pytest.fixture(scope="module")
def bought(worlds: dict[str, World]) -> dict[str, dict[str, Refinement]]:
    curators = Curators({name: client_of(world) for name, world in worlds.items()})
    found = {}
    for family, (_, target) in FITS.items():
        data = "counted" if family == "poisson" else "cohort"
        found[family] = curators.refine(data, ["age", "sex"], target=target, family=family, **PRICE)
    return found


def spendings(curators: Curators) -> tuple[float, ...]:
    return tuple(spent(client) for client in curators.clients.values())


@pytest.mark.parametrize("family", FITS)
class TestCombined:
    def test_it_is_generalised_least_squares_of_the_hospitals_fits(self, bought: Any, family: str) -> None:
        kind, _ = FITS[family]
        fit = kind().fit(bought[family])
        alone = [kind().fit(one) for one in bought[family].values()]
        errors = [np.diff(one.conf_int()).ravel() / 3.92 for one in alone]
        longer = [np.diag(error / one.std_errors_) for one, error in zip(alone, errors, strict=True)]
        whole = [stretch @ one.cov_params() @ stretch for one, stretch in zip(alone, longer, strict=True)]
        inverses = [np.linalg.inv(covariance) for covariance in whole]
        covariance = np.linalg.inv(sum(inverses))
        moment = sum(inverse @ one.params_ for inverse, one in zip(inverses, alone, strict=True))
        assert fit.params_ == pytest.approx(covariance @ moment, rel=1e-3)
        assert fit.cov_params() == pytest.approx(covariance, rel=1e-3, abs=1e-12)
        assert (fit.std_errors_ < np.array(errors)).all()
        left = [one.params_ - fit.params_ for one in alone]
        expected = sum(off @ inverse @ off for off, inverse in zip(left, inverses, strict=True))
        assert fit.heterogeneity_test().statistic == pytest.approx(expected, rel=1e-2)
        assert fit.heterogeneity_test().dof == len(fit.params_)
        assert list(fit.hospitals_) == ["north", "south"]
        assert fit.hospitals_["north"].params_ == pytest.approx(alone[0].params_)

    def test_a_list_and_another_order_of_columns_and_hospitals_are_the_same(self, bought: Any, family: str) -> None:
        kind, _ = FITS[family]
        named, listed = kind().fit(bought[family]), kind().fit(list(bought[family].values())[::-1])
        assert listed.params_ == pytest.approx(named.params_)
        assert listed.conf_int() == pytest.approx(named.conf_int())
        assert kind().fit([bought[family]["north"]]).params_ == pytest.approx(named.hospitals_["north"].params_)

    def test_tables_and_predictions(self, bought: Any, family: str) -> None:
        kind, _ = FITS[family]
        fit = kind().fit(bought[family])
        assert "differences of hospitals" in dict(fit.summary().facts)
        assert dict(fit.summary().facts)["hospitals"] == "north, south"
        assert fit.anova()["age"].pvalue == pytest.approx(fit.pvalues_[1])
        assert fit.t_test("age = 0")["age = 0"].std_error == pytest.approx(fit.std_errors_[1])
        assert fit.glance()["releases"].item() == 2
        rows = {"age": [60.0, 72.0], "sex": ["F", "M"]}
        coef = dict(zip(fit.term_names_, fit.coef_, strict=True))
        index = fit.intercept_ + coef["age"] * np.array([60.0, 72.0]) + coef["sex[M]"] * np.array([0.0, 1.0])
        if family == "binomial":
            assert fit.decision_function(rows) == pytest.approx(index)
            assert fit.predict_proba(rows)[:, 1] == pytest.approx(1.0 / (1.0 + np.exp(-index)))
        else:
            assert fit.predict(rows) == pytest.approx(index if family == "gaussian" else np.exp(index))

    def test_a_saved_fit_is_the_same(self, bought: Any, family: str, tmp_path: Path) -> None:
        kind, _ = FITS[family]
        fit = kind().fit(bought[family])
        fit.save(tmp_path / "fit.json")
        loaded = load_fit(tmp_path / "fit.json")
        assert list(loaded.hospitals_) == ["north", "south"]
        assert loaded.conf_int() == pytest.approx(fit.conf_int())

    def test_a_saved_fit_with_other_numbers_is_refused(self, bought: Any, family: str, tmp_path: Path) -> None:
        FITS[family][0]().fit(bought[family]).save(tmp_path / "fit.json")
        body = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
        north = json.loads(body["refinements"]["north"])
        release = json.loads(north["releases"][-1])
        release["noise"]["sd"] = {name: sd / 2.0 for name, sd in release["noise"]["sd"].items()}
        north["releases"][-1] = json.dumps(release)
        body["refinements"]["north"] = json.dumps(north)
        (tmp_path / "fit.json").write_text(json.dumps(body), encoding="utf-8")
        with pytest.raises(ReceiptInvalidError, match="is damaged, or was changed"):
            load_fit(tmp_path / "fit.json")

    def test_a_saved_fit_with_other_terms_is_refused(self, bought: Any, family: str, tmp_path: Path) -> None:
        FITS[family][0]().fit(bought[family]["north"]).save(tmp_path / "fit.json")
        body = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
        north = json.loads(body["refinement"])
        for coding in north["codings"]:
            for term in (*coding["terms"], *coding["targets"]):
                term["scale"] *= 2.0
        body["refinement"] = json.dumps(north)
        (tmp_path / "fit.json").write_text(json.dumps(body), encoding="utf-8")
        with pytest.raises(ServiceError, match=r"lacks a release|not those of its releases"):
            load_fit(tmp_path / "fit.json")

    def test_margins_are_over_rows_of_one_s_own(self, bought: Any, family: str) -> None:
        kind, _ = FITS[family]
        fit, rows = kind().fit(bought[family]), {"age": [60.0, 72.0], "sex": ["F", "M"]}
        low, high = fit.predict_interval(rows, mean=True).T
        assert np.all(low < high)
        assert math.isfinite(fit.margins(rows)["age", "per unit"].std_error)
        if family == "gaussian":
            assert fit.margins()["age", "per unit"].value == pytest.approx(fit.coef_[0])
        else:
            with pytest.raises(EstimationError, match=r"rows of your own: margins\(frame\)"):
                fit.margins()


def test_a_hospital_that_tells_nothing_of_a_term_is_named_with_it(bought: Any) -> None:
    fit = LogisticRegression().fit(bought["binomial"])
    results = fit.results_[0]
    assert isinstance(results, CombinedResults)
    assert not any("tells nothing" in text for text in fit.caveats())
    north, south = results.estimates
    south.covariance[1], south.covariance[:, 1] = 0.0, 0.0
    south.covariance[1, 1] = math.inf
    fit.results_ = (combine(results.solved, [north, south], results.params),)
    said = "south tells nothing of age by itself: there its intervals have no end."
    assert said in fit.caveats()
    assert said in " ".join(str(fit.summary()).split())


class TestLinear:
    def test_what_is_of_one_hospital_says_so(self, bought: Any) -> None:
        fit = RefinedRegression().fit(bought["gaussian"])
        rows = {"age": [60.0], "sex": ["F"]}
        for read in (
            *(lambda name=name: getattr(fit, name) for name in ("rsquared_", "scale_", "vif_", "privacy_share_")),
            *(fit.rsquared_interval, fit.identification, fit.leave_one_site_out, lambda: fit.predict_interval(rows)),
        ):
            with pytest.raises(EstimationError, match="hospitals_ has their fits"):
                read()
        assert fit.hospitals_["north"].rsquared_ > 0.0

    def test_the_interval_of_a_mean_holds_the_prediction(self, bought: Any) -> None:
        fit, rows = RefinedRegression().fit(bought["gaussian"]), {"age": [60.0], "sex": ["F"]}
        ((low, high),) = fit.predict_interval(rows, mean=True)
        assert (low + high) / 2.0 == pytest.approx(fit.predict(rows)[0])
        ((least, most),) = fit.hospitals_["north"].predict_interval(rows, mean=True)
        assert high - low < most - least


def test_hospitals_that_disagree_are_told(worlds: dict[str, World], bought: Any) -> None:
    turned = [row | {"weight": repr(160.0 - float(row["weight"]))} for row in draw_rows(3)]
    open_population(worlds["south"].curator, "village", Price(mu=100.0))
    worlds["south"].grant("ada", worlds["south"].register("turned", "village", turned))
    south = client_of(worlds["south"]).refine("turned", ["age", "sex"], target="weight", **PRICE)
    with pytest.warns(EstimationWarning, match="the hospitals do not tell of the same coefficients"):
        fit = RefinedRegression().fit([bought["gaussian"]["north"], south])
    assert fit.heterogeneity_test().pvalue < 1e-6
    assert any("hospitals_ has each by itself" in text for text in fit.caveats())


def test_one_population_twice_counts_its_people_once(curators: Curators, bought: Any) -> None:
    north = bought["gaussian"]["north"]
    again = curators.clients["north"].refine("cohort", ["age", "sex"], target="weight", **PRICE | {"mu": 41.0})
    fit, alone = RefinedRegression().fit([north, again]), RefinedRegression().fit(north)
    assert fit.std_errors_ == pytest.approx(np.diff(alone.conf_int()).ravel() / 3.92, rel=0.1)
    assert any("same people" in text for text in fit.caveats())
    with pytest.raises(ValueError, match="in the list twice"):
        RefinedRegression().fit([north, north])


def test_a_hospital_that_bought_a_mean_alone_is_left_out(curators: Curators, bought: Any) -> None:
    for family, (kind, target) in FITS.items():
        data = "counted" if family == "poisson" else "cohort"
        little = curators.clients["south"].refine(
            data, ["age", "sex"], target=target, family=family, even_so=True, **PRICE | {"mu": 0.028}
        )
        fit, alone = kind().fit({"n": bought[family]["north"], "s": little}), kind().fit(bought[family]["north"])
        assert fit.params_ == pytest.approx(alone.params_)
        assert any(text.startswith("s is left out: the price was") for text in fit.caveats()), fit.caveats()
        assert "n, s (left out)" in str(fit.summary())
        with pytest.raises(EstimationError, match="heterogeneity needs two hospitals"):
            fit.heterogeneity_test()
        nothing = kind().fit(
            [
                little,
                curators.clients["north"].refine(
                    data, ["age", "sex"], target=target, family=family, even_so=True, **PRICE | {"mu": 0.028}
                ),
            ]
        )
        with pytest.raises(EstimationError, match="no hospital tells an interval: refinement 1"):
            nothing.conf_int()
        assert np.isfinite(nothing.predict({"age": [60.0, 72.0], "sex": ["F", "M"]})).all()
        assert str(nothing.summary())


class TestRefusals:
    def test_terms_must_be_the_same(self, curators: Curators, bought: Any) -> None:
        north, south = (bought["gaussian"][name] for name in ("north", "south"))
        client = curators.clients["south"]
        with pytest.raises(ValueError, match="has no target 'weight'"):
            RefinedRegression().fit([north, client.refine("cohort", ["age", "sex"], target="height", **PRICE)])
        for features, said in ((["age"], "different terms: sex"), ([poly("age", 2), "sex"], "different terms")):
            with pytest.raises(ValueError, match=said):
                RefinedRegression().fit([north, client.refine("cohort", features, target="weight", **PRICE)])
        for estimator, said in (
            (AdaSSP(), "not fitted on several"),
            (PoissonRegression(), "is of the gaussian family"),
        ):
            with pytest.raises(ValueError, match=said):
                estimator.fit([north, south])
        release = client.release("cohort", ["age", "sex"], target="weight", mu=1.0)
        with pytest.raises(ValueError, match="refinements alone, or releases alone"):
            RefinedRegression().fit([north, release])
        with pytest.raises(ValueError, match="takes nothing else"):
            RefinedRegression().fit([north, south], "weight")

    def test_columns_that_were_cut_are_not_the_same(self, curators: Curators) -> None:
        rules = RefinementRules.for_predictions()
        cut = curators.refine("cohort", ["age"], target="weight", rules=rules, **PRICE)
        with pytest.raises(ValueError, match="for predictions alone"):
            RefinedRegression().fit(cut)


class TestRefine:
    def test_nothing_is_held_or_charged_where_one_refuses(self, curators: Curators) -> None:
        before = spendings(curators)
        asked: Any = {**PRICE, "each": {"south": {"mu": 310.0}}}
        with pytest.raises(BudgetExceededError, match="south") as refusal:
            curators.refine("cohort", ["age", "height"], target="kappa", **asked)
        assert any("held at north was given back" in note for note in refusal.value.__notes__)
        assert spendings(curators) == before

    def test_an_interrupted_one_goes_on_and_pays_no_step_twice(
        self, curators: Curators, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, asked = spendings(curators), (["age", "ward"], {"target": "kappa", **PRICE, "mu": 20.0})
        client, releases = curators.clients["south"], CuratorClient.release
        count = iter(range(100))

        def stop(self: CuratorClient, *arguments: Any, **options: Any) -> Any:
            if self._session is client._session and next(count) == 3:
                raise KeyboardInterrupt
            return releases(self, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(CuratorClient, "release", stop)
            with pytest.raises(KeyboardInterrupt):
                curators.refine("cohort", asked[0], **asked[1])
        found = curators.refine("cohort", asked[0], **asked[1])
        spent_now = [after - first for after, first in zip(spendings(curators), before, strict=True)]
        assert max(spent_now) <= 400.0 * (1.0 + 1e-9)
        assert list(found) == ["north", "south"]
        after = spendings(curators)
        again = curators.refine("cohort", asked[0], **asked[1])
        assert [one.releases[-1].id for one in again.values()] == [one.releases[-1].id for one in found.values()]
        assert spendings(curators) == after

    def test_public_numbers_that_tell_nothing_name_the_place(self, curators: Curators) -> None:
        before = spendings(curators)
        with pytest.raises(UselessRequestError, match="at south"):
            curators.refine("cohort", ["age"], target="kappa", **PRICE | {"each": {"south": {"mu": 0.01}}})
        assert spendings(curators) == before


ASKED: dict[str, Any] = {"data": "cohort", "epsilon": 8.0, "expected_rows": 5000, "yes": True, "progress": False}


def run_call(call: str, curators: Curators) -> Any:
    names = {name: getattr(analyst_client, name) for name in analyst_client.__all__}
    return eval(call, names | {name: getattr(terms, name) for name in terms.__all__} | {"curators": curators})


CALLS: dict[str, tuple[Any, type, dict[str, Any]]] = {
    "a number": ("kappa ~ age + sex", RefinedRegression, {}),
    "a boolean": (["age"], LogisticRegression, {"target": "alive", "where": col("weight") > 60.0}),
    "a count": ("`lambda` ~ age", PoissonRegression, {"data": {"south": "counted", "north": "counted"}}),
}


@pytest.mark.parametrize(("model", "kind", "options"), CALLS.values(), ids=CALLS)
def test_one_call_fits_all_hospitals_and_prints_the_same(
    curators: Curators, model: Any, kind: type, options: dict[str, Any]
) -> None:
    before = spendings(curators)
    fit = curators.fit(model, **ASKED | options)
    after = spendings(curators)
    assert type(fit) is kind
    assert list(fit.hospitals_) == ["north", "south"]
    assert all(first < last for first, last in zip(before, after, strict=True))
    assert run_call(fit.choice_.call, curators).params_ == pytest.approx(fit.params_)
    again = curators.fit(model, **ASKED | options | {"yes": False})
    assert again.choice_.is_free
    assert spendings(curators) == after


def test_another_order_of_the_same_terms_costs_nothing_anywhere(curators: Curators, tmp_path: Path) -> None:
    first = curators.fit("kappa ~ weight + sex + age", **ASKED)
    before = spendings(curators)
    again = curators.fit("kappa ~ age + weight + sex", **ASKED | {"yes": False})
    assert spendings(curators) == before
    assert first.term_names_.tolist() == ["weight", "sex[M]", "sex[X]", "age"]
    assert again.term_names_.tolist() == ["age", "weight", "sex[M]", "sex[X]"]
    assert again.coef_ == pytest.approx(first.coef_[[3, 0, 1, 2]])
    again.save(tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json").params == again.params


def test_the_choice_shows_the_price_at_each_and_asks(curators: Curators, monkeypatch: pytest.MonkeyPatch) -> None:
    before = spendings(curators)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(NotConfirmedError):
        curators.fit("kappa ~ height", **ASKED | {"yes": False})
    with pytest.raises(ValueError, match="more than max_epsilon = 1"):
        curators.fit("kappa ~ height", max_epsilon=1.0, **ASKED)
    with pytest.raises(ValueError, match="yes is True or False, not 'no'"):
        curators.fit("kappa ~ height", **ASKED | {"yes": "no"})
    with pytest.raises(ValueError, match="no curator is named west"):
        curators.fit("kappa ~ height", **ASKED | {"data": {"west": "cohort"}})
    assert spendings(curators) == before
    choice = curators.fit("kappa ~ height", **ASKED).choice_
    assert "cost at south" in str(choice)
    assert re.search(r"a refinement at each hospital +ε = 8 at each", str(choice))
    assert {way.name for way in choice.ways} >= {"one release at each hospital"}
    assert choice.taken.half_length < choice.taken.places["south"].half_length


def test_a_fit_of_some_hospitals_asks_and_charges_these_alone(curators: Curators) -> None:
    north, south = spendings(curators)
    fit = curators.fit("kappa ~ frail + age", **ASKED | {"data": {"south": "cohort"}})
    assert "{'south': 'cohort'}" in fit.choice_.call
    assert run_call(fit.choice_.call, curators).params_ == pytest.approx(fit.params_)
    assert spendings(curators)[0] == north
    assert spendings(curators)[1] > south


def test_the_table_shows_the_price_at_each_hospital(curators: Curators) -> None:
    curators.fit("kappa ~ frail", **ASKED | {"data": {"south": "cohort"}})
    choice = str(curators.fit("kappa ~ frail", **ASKED).choice_)
    assert re.search(r"a refinement at each +ε = 8 at north; paid at south", choice)
    assert re.search(r"one release at each +ε = 8 at each", choice)


def test_a_line_that_fails_makes_nothing_bought_another_way(
    curators: Curators, monkeypatch: pytest.MonkeyPatch
) -> None:
    curators.fit("kappa ~ smoker", **ASKED)
    before = spendings(curators)

    def fail(*_: Any, **__: Any) -> None:
        raise TransportError("the line is broken")

    monkeypatch.setattr(curators.clients["south"], "_read_refinement", fail)
    with pytest.raises(TransportError, match="at the curator 'south': the line is broken"):
        curators.fit("kappa ~ smoker", **ASKED)
    assert spendings(curators) == before


def test_an_account_of_pure_epsilon_takes_releases_everywhere(worlds: dict[str, World], curators: Curators) -> None:
    north = worlds["north"]
    open_population(north.curator, "pure", Price(epsilon=50.0), accountant="pure")
    north.grant("ada", north.register("pure", "pure", draw_rows(4)))
    fit = curators.fit("weight ~ age", **ASKED | {"data": {"north": "pure", "south": "cohort"}})
    assert type(fit) is EmpiricalBayes
    assert "each={'north': {'mechanism': 'laplace', 'rows': 'box'}" in fit.choice_.call
    assert "at north: it is of Gaussian noise" in " ".join(fit.choice_.refused)
    assert run_call(fit.choice_.call, curators).params_ == pytest.approx(fit.params_)
