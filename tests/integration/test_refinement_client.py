"""Refinements with the real client and the real curator: what they cost, what they find, and how they go on."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import World, client_of, make_rows, open_world, spent

from analyst_client import BayesianRegression, CuratorClient, EstimationError, RefinedRegression, load_fit
from analyst_client.errors import ServiceError
from analyst_client.refinement import Refinement, RefinementRules
from analyst_client.terms import col, log, poly
from curator_service.privacy.accountant import Price

COUNT = 900
FEATURES = ["age", "sex", "height"]
TIGHT: dict[str, Any] = {"mu": 4.0, "expected_rows": COUNT}


def draw_rows() -> list[dict[str, str]]:
    """Return rows of which kappa is about a line in age and sex."""
    generator, rows = np.random.default_rng(5), make_rows(COUNT, seed=11)
    for row in rows:
        age = float(np.clip(generator.normal(66.0, 5.0), 50.0, 100.0))
        signal = 2.0 + 0.06 * (age - 66.0) + 0.5 * (row["sex"] == "M")
        row["age"], row["kappa"] = repr(age), repr(float(np.clip(signal + 0.3 * generator.standard_normal(), 0.0, 6.0)))
    return rows


ROWS = draw_rows()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("refine"), rows=ROWS, limit=Price(mu=1000.0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(world: World) -> CuratorClient:
    return client_of(world)


@pytest.fixture(scope="module")
def bought(client: CuratorClient) -> Refinement:
    return client.refine("cohort", FEATURES, target="kappa", **TIGHT)


class TestCost:
    def test_a_refinement_costs_its_price_and_what_it_bought_is_never_charged_again(
        self, client: CuratorClient
    ) -> None:
        before = spent(client)
        options: dict[str, Any] = {"target": "kappa", "mu": 3.0, "expected_rows": COUNT}
        first = client.refine("cohort", ["age"], **options)
        assert spent(client) - before == pytest.approx(9.0, rel=1e-5)
        assert sum(release.cost.mu**2 for release in first.releases) == pytest.approx(9.0, rel=1e-5)  # type: ignore[union-attr, operator]
        again = client.refine("cohort", ["age"], **options)
        assert [one.text for one in again.releases] == [one.text for one in first.releases]
        assert spent(client) - before == pytest.approx(9.0, rel=1e-5)

    def test_it_is_refused_where_noise_is_laplace_and_the_target_is_no_number(self, client: CuratorClient) -> None:
        before = spent(client)
        with pytest.raises(ValueError, match="one target"):
            client.refine("cohort", ["age"], mu=1.0)
        with pytest.raises(ValueError, match="'alive' is none"):
            client.refine("cohort", ["age"], target="alive", mu=1.0)
        assert spent(client) == before


class TestFit:
    def test_it_is_least_squares_where_the_price_is_large(self, bought: Refinement) -> None:
        fit = RefinedRegression().fit(bought)
        named = dict(zip(fit.param_names_, fit.params_, strict=True))
        age = next(name for name in named if "age" in name)
        assert named[age] == pytest.approx(0.06, abs=0.004)
        assert named["sex[M]"] == pytest.approx(0.5, abs=0.06)
        low, high = dict(zip(fit.param_names_, fit.conf_int(), strict=True))[age]
        assert low < 0.06 < high
        assert high - low < 0.02

    def test_it_predicts_from_rows_as_they_are_within_the_target_s_range(self, bought: Refinement) -> None:
        fit = RefinedRegression().fit(bought)
        assert fit.feature_names_in_.tolist() == FEATURES
        frame = {"age": [60.0, 72.0, 1e9], "sex": ["F", "M", "M"], "height": [170.0, 170.0, 170.0]}
        found = fit.predict(frame, clip=True)
        assert found[:2] == pytest.approx([1.64, 2.86], abs=0.1)
        assert found[2] <= fit.refined_.target.high

    def test_it_says_that_predictions_shrink_and_coefficients_do_not(self, bought: Refinement) -> None:
        fit = RefinedRegression().fit(bought)
        frame = {"age": [60.0], "sex": ["F"], "height": [170.0]}
        ((low, high),) = fit.predict_interval(frame, mean=True)
        assert fit.predict(frame)[0] != pytest.approx((low + high) / 2.0, rel=1e-9)
        said = "Predictions rest on coefficients of their own, shrunk as far as the noise asks for."
        assert said in " ".join(str(fit.summary()).split())

    @pytest.mark.filterwarnings("ignore:the chains have not mixed")
    def test_a_saved_one_is_the_same(self, bought: Refinement, tmp_path: Path) -> None:
        bought.save(tmp_path / "refined.json")
        loaded = Refinement.load(tmp_path / "refined.json")
        assert repr(loaded) == repr(bought)
        first, second = RefinedRegression().fit(bought), RefinedRegression().fit(loaded)
        assert first.coef_ == pytest.approx(second.coef_, rel=1e-9)
        assert first.conf_int() == pytest.approx(second.conf_int(), rel=1e-9)
        unpickled = pickle.loads(pickle.dumps(first))
        assert unpickled.conf_int() == pytest.approx(first.conf_int(), rel=1e-12)
        assert unpickled.f_test().pvalue == pytest.approx(first.f_test().pvalue, rel=1e-9)
        assert unpickled.predict([[60.0, "F", 170.0]]) == first.predict([[60.0, "F", 170.0]])
        for fit in (first, BayesianRegression(draws=20, chains=2).fit(bought)):
            fit.save(tmp_path / "fit.json")
            assert load_fit(tmp_path / "fit.json").params == fit.params

    def test_what_a_plan_would_post_on_another_machine_need_not_be_what_was_posted(self, bought: Refinement) -> None:
        moved = replace(bought.problem, mu=bought.problem.mu * (1.0 + 1e-9))  # every posted number differs a little
        found = Refinement(moved, bought.rules, bought.releases, bought.codings).found
        assert found.theta == pytest.approx(bought.found.theta, rel=1e-4)

    def test_releases_of_another_plan_are_refused(self, bought: Refinement) -> None:
        for releases in (bought.releases[:-1], (*bought.releases, bought.releases[-1]), bought.releases[::-1]):
            with pytest.raises(ServiceError):
                _ = Refinement(bought.problem, bought.rules, releases, bought.codings).found

    def test_formulas_conditions_and_what_is_computed_are_refined(self, client: CuratorClient) -> None:
        found = client.refine("cohort", "kappa ~ log(age) * sex", where="height > 150", **TIGHT)
        fit = RefinedRegression().fit(found)
        assert fit.predict({"age": [66.0], "sex": ["F"]}, clip=True) == pytest.approx([2.0], abs=0.15)
        found = client.refine("cohort", [poly("age", 2), log(col("weight"))], target="kappa", **TIGHT)
        assert np.isfinite(RefinedRegression().fit(found).predict({"age": [66.0], "weight": [80.0]}, clip=True)).all()


class TestLowPrices:
    def test_the_mean_alone_is_told_of_a_price_that_is_too_low_for_more(self, client: CuratorClient) -> None:
        found = client.refine("cohort", FEATURES, target="kappa", mu=0.003, expected_rows=COUNT, even_so=True)
        fit = RefinedRegression().fit(found)
        assert len(found.releases) == len(RefinementRules().means)
        frame = {"age": [60.0, 72.0], "sex": ["F", "M"], "height": [170.0, 170.0]}
        assert fit.predict(frame).tolist() == [fit.intercept_] * 2
        with pytest.raises(EstimationError, match="not enough for XᵀX"):
            fit.conf_int()

    def test_the_rest_goes_to_the_mean_where_looks_have_lost_it(self, client: CuratorClient) -> None:
        rules = RefinementRules(lost=0.0)
        found = client.refine("cohort", FEATURES, target="kappa", mu=2.0, expected_rows=COUNT, rules=rules)
        assert len(found.releases) == len(rules.looks) + len(rules.means)
        assert RefinedRegression().fit(found).intercept_ == pytest.approx(2.0, abs=0.3)

    def test_scores_alone_are_bought_where_xtx_is_not_affordable(self, client: CuratorClient) -> None:
        rules = RefinementRules(affordable=1e-6)
        found = client.refine("cohort", FEATURES, target="kappa", mu=2.0, expected_rows=COUNT, rules=rules)
        assert "gram" not in {str(release.request["kind"]) for release in found.releases}
        assert len(found.releases) == len(rules.looks) + rules.blind_steps
        fit = RefinedRegression().fit(found)
        assert fit.predict({"age": [66.0], "sex": ["F"], "height": [170.0]}) == pytest.approx([2.0], abs=0.3)
        with pytest.raises(EstimationError, match="not enough for XᵀX"):
            fit.conf_int()
        assert "not enough for XᵀX" in str(fit.summary())


def test_the_law_of_a_score_is_the_one_that_the_ledger_charged(bought: Refinement) -> None:
    score = next(one for one in bought.releases if one.request["kind"] == "score")
    share = score.request["shares"]["score"]
    assert score.cost is not None
    assert score.cost.mu is not None
    assert score.noise.score == pytest.approx(1.0 / (score.cost.mu * share**0.5), rel=1e-3)  # type: ignore[attr-defined]
