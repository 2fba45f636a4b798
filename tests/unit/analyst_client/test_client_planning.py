"""Plans: inversion, monotonicity, identity with what estimators say, agreement with simulation, and refusals."""

import doctest
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst_client import OLS, AdaSSP, Assumptions, Column, Release, dummy_twin, epsilon_for, expected_accuracy
from analyst_client.kinds import Noise, Quote
from analyst_client.kinds.gram.examples import QUOTE
from analyst_client.planning import expectation, power_table, rehearse, rows_for, sample_size_table
from analyst_client.planning.prices import PriceScale, epsilon_of, gdp_delta, mu_of_pure, number_of, zcdp_delta
from analyst_client.planning.rehearsal import DummyReleases
from analyst_client.schema import Cost, Dataset
from analyst_client.schema.columns import plain_term, terms_of
from curator_service.privacy.accountant import GDP, ZCDP, Price
from curator_service.privacy.conversions import exact, mu_squared_of_pure
from curator_service.privacy.conversions import gdp_delta as exact_gdp_delta

PAGE = Path(__file__).parents[3] / "docs" / "planning.md"
COEFFICIENTS = {"age": 0.01, "creatinine": 0.3, "lambda": 0.6}
EVEN_NOISE = Noise(3.0, 3.0, 3.0, 3.0, None, "discrete_gaussian")
COST = Cost(0.2, 0.02, 0.84, 1e-6, None, None, 0.1)
LAWS: dict[str, Any] = {
    "means": {"age": 65.0, "creatinine": 1.0, "lambda": 1.5, "kappa": 1.4},
    "sds": {"age": 10.0, "creatinine": 0.5, "lambda": 0.8},
    "correlation": 0.2,
}


def assume(quote: Quote = QUOTE, rows: float = 6000, **changes: Any) -> Assumptions:
    stated: dict[str, Any] = LAWS | {"residual_sd": 0.5, "coefficients": COEFFICIENTS} | changes
    return Assumptions.of(quote, rows=rows, **stated)


def quote_of(
    features: list[Column],
    targets: tuple[str, ...] = ("y",),
    *,
    constant: bool = True,
    rows: dict[str, Any] | None = None,
    noise: Noise = EVEN_NOISE,
    cost: Cost = COST,
) -> Quote:
    """Return a quote whose targets lie within −2 and 2."""
    return replace(
        QUOTE,
        request={"rows": rows or {"map": "box"}, "calibration": "analytic"},
        features=tuple(features),
        terms=terms_of(tuple(features), constant),
        targets=tuple(plain_term(Column.numeric(name, -2, 2)) for name in targets),
        noise=noise,
        cost=cost,
    )


def with_noise(quote: Quote, factor: float) -> Quote:
    """Return the quote with noise so many times as large."""
    sds = {name: factor * value for name, value in vars(quote.noise).items() if isinstance(value, float)}
    return replace(quote, noise=replace(quote.noise, **sds))


class TestPrices:
    @pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 20.0, 200.0])
    def test_conversions_are_the_curator_s(self, epsilon: float, delta: float) -> None:
        price = Price(epsilon=epsilon, delta=delta)
        assert number_of(gdp_delta, epsilon, delta) ** 2 == pytest.approx(GDP.units_of(price) / 1e12, rel=3e-7)
        assert number_of(zcdp_delta, epsilon, delta) == pytest.approx(ZCDP.units_of(price) / 1e12, rel=3e-7)

    @pytest.mark.parametrize(("epsilon", "mu"), [(0.01, 0.001), (0.01, 0.02), (1.0, 0.1), (1.0, 3.0), (50.0, 5.0)])
    def test_delta_keeps_its_digits_where_it_is_tiny(self, epsilon: float, mu: float) -> None:
        expected = float(exact_gdp_delta(exact(epsilon), exact(mu) ** 2))
        assert gdp_delta(epsilon, mu) == pytest.approx(expected, rel=1e-8, abs=1e-300)

    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
    def test_mu_of_pure_epsilon_is_the_curator_s(self, epsilon: float) -> None:
        assert mu_of_pure(epsilon) == pytest.approx(math.sqrt(mu_squared_of_pure(exact(epsilon))), rel=1e-9)

    @pytest.mark.parametrize("curve", [gdp_delta, zcdp_delta])
    def test_epsilon_and_number_invert_each_other(self, curve: Any) -> None:
        for epsilon in (0.01, 0.5, 4.0, 100.0):
            assert epsilon_of(curve, number_of(curve, epsilon, 1e-6), 1e-6) == pytest.approx(epsilon, rel=1e-9)

    def test_an_epsilon_out_of_range_is_infinite(self) -> None:
        assert epsilon_of(gdp_delta, 1e3, 1e-6) == math.inf

    def test_the_quoted_price_has_strength_one(self) -> None:
        prices = PriceScale(QUOTE)
        assert prices.strength(1.0) == pytest.approx(1.0, rel=1e-9)
        cost = prices.cost(1.0)
        assert (cost.mu, cost.epsilon) == pytest.approx((QUOTE.cost.mu, 1.0))
        assert cost.share_of_budget == pytest.approx(QUOTE.cost.share_of_budget)

    def test_under_zcdp_noise_falls_with_the_root_of_rho(self) -> None:
        quote = replace(QUOTE, cost=Cost(None, 0.02, 0.97, 1e-6, None, None, 0.1))
        prices = PriceScale(quote)
        cost = prices.cost(2.0)
        assert cost.mu is None
        assert (cost.rho, cost.share_of_budget) == pytest.approx((0.08, 0.4))
        assert prices.strength(cost.epsilon) == pytest.approx(2.0, rel=1e-6)
        assert prices.noise(quote.noise, 2.0).xty == pytest.approx((QUOTE.noise.xty or 0.0) / 2.0)

    def test_under_pure_epsilon_noise_falls_with_epsilon(self) -> None:
        noise = replace(QUOTE.noise, distribution="discrete_laplace")
        quote = replace(QUOTE, noise=noise, cost=Cost(0.5, 0.1, 0.5, 0.0, None, 0.5, 0.1))
        cost = PriceScale(quote).cost(3.0)
        assert (cost.epsilon, cost.pure_epsilon, cost.delta) == pytest.approx((1.5, 1.5, 0.0))
        assert cost.share_of_budget == pytest.approx(0.3)
        assert PriceScale(quote).strength(1.5) == pytest.approx(3.0)

    def test_laplace_noise_under_gdp_costs_what_the_curator_says(self) -> None:
        # The curator's own quote of the demo's request at a pure ε of 1, and µ² at other ε from its accountant.
        request = QUOTE.request | {"shares": {"xtx": 0.35, "xty": 0.6, "yty": 0.05}, "mechanism": "laplace"}
        cost = Cost(0.8682619515169371, 0.376939408226, 4.16391148, 1e-6, None, 1.0, 1.7968762483161005)
        noise = replace(QUOTE.noise, distribution="discrete_laplace")
        prices = PriceScale(replace(QUOTE, request=request, noise=noise, cost=cost))
        assert prices.cost(1.0).epsilon == pytest.approx(4.16391148, rel=1e-6)
        at_two = sum(mu_squared_of_pure(exact(2.0) * exact(share)) for share in (0.35, 0.6, 0.05))
        assert prices.cost(2.0).mu == pytest.approx(math.sqrt(at_two), rel=1e-9)

    def test_published_calibrations_are_not_planned_for(self) -> None:
        quote = replace(QUOTE, request=QUOTE.request | {"calibration": "wang2018"})
        with pytest.raises(ValueError, match="quote without calibration"):
            epsilon_for(0.1, "age", quote, assume(quote))

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e4, math.nan])
    def test_nonsense_prices_are_refused(self, epsilon: float) -> None:
        with pytest.raises(ValueError, match="epsilon must be above 0 and at most 1000"):
            power_table("age", [0.01], QUOTE, assume(), epsilons=[epsilon])

    def test_a_nonsense_delta_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
            epsilon_for(0.1, "age", QUOTE, assume(), delta=2.0)


class TestAssumptions:
    def test_uniform_columns_have_the_moments_of_the_uniform_law(self) -> None:
        quote = quote_of([Column.numeric("a", 0, 10), Column.numeric("b", -1, 1)])
        assumptions = Assumptions.of(quote, rows=100, residual_sd=1.0)
        np.testing.assert_allclose(assumptions.moments, np.diag([1.0, 1 / 3, 1 / 3]), atol=5e-3)
        assert assumptions.weight == 1.0
        assert any("taken as uniform" in note for note in assumptions.notes)

    def test_stated_means_sds_and_shares_are_met(self) -> None:
        quote = quote_of([Column.numeric("a", 0, 10), Column.categorical("c", ["x", "y", "z"]), Column.boolean("d")])
        assumptions = Assumptions.of(
            quote,
            rows=100,
            residual_sd=1.0,
            means={"a": 4.0},
            sds={"a": 1.0},
            shares={"c": {"y": 0.2, "z": 0.7}, "d": 0.1},
        )
        first = assumptions.moments[0]
        np.testing.assert_allclose(first, [1.0, -0.2, 0.2, 0.7, 0.1], atol=1e-3)
        assert assumptions.moments[1, 1] - first[1] ** 2 == pytest.approx(0.04, rel=1e-3)

    def test_columns_are_correlated_as_stated(self) -> None:
        quote = quote_of([Column.numeric("a", -10, 10), Column.numeric("b", -10, 10)])
        stated: dict[str, Any] = {"sds": {"a": 1.0, "b": 1.0}, "correlation": [[1.0, -0.6], [-0.6, 1.0]]}
        moments = Assumptions.of(quote, rows=100, residual_sd=1.0, **stated).moments
        assert moments[1, 2] / moments[1, 1] == pytest.approx(-0.6, rel=1e-2)

    def test_rows_are_weighted_as_the_ball_weights_them(self) -> None:
        features = [Column.numeric("a", -1, 1), Column.numeric("b", -1, 1)]
        quote = quote_of(features, rows={"map": "ball", "norm": 1.1})
        frame = {"a": [0.5, 1.0, -1.0, 0.0], "b": [0.0, 1.0, 0.2, 0.1], "y": [0.0, 1.0, 0.3, -0.1]}
        X = np.column_stack([np.ones(4), frame["a"], frame["b"]])
        w = np.minimum(1.0, 1.1 / np.linalg.norm(X, axis=1))
        assumptions = Assumptions.from_rows(quote, frame)
        np.testing.assert_allclose(assumptions.moments, (w[:, None] * X).T @ (w[:, None] * X) / 4)
        assert assumptions.weight == pytest.approx(np.mean(w**2))

    def test_coefficients_come_back_in_raw_units(self) -> None:
        assumptions = assume()
        found = assumptions.parameters()
        assert {name: found[name] for name in COEFFICIENTS} == pytest.approx(COEFFICIENTS)
        assert found["sex[M]"] == pytest.approx(0.0, abs=1e-12)
        assert assumptions.residual_sd() == pytest.approx(0.5)
        changed = assumptions.with_coefficient("age", 0.05)
        assert changed.parameters()["age"] == pytest.approx(0.05)
        assert changed.moments[0] @ changed.coefficients == pytest.approx(
            assumptions.moments[0] @ assumptions.coefficients
        )

    @pytest.mark.parametrize(
        ("stated", "residual_sd", "explained"),
        [
            ({"residual_sd": 0.6, "rsquared": 0.5}, 0.6, 0.36),
            ({"sds": {"y": 1.0}, "rsquared": 0.36}, 0.8, 0.36),
            ({"sds": {"y": 1.0}, "residual_sd": 0.8}, 0.8, 0.36),
            ({"coefficients": {"a": math.sqrt(3 * 0.36)}, "rsquared": 0.36}, 0.8, 0.36),
            ({"coefficients": {"a": math.sqrt(3 * 0.36)}, "sds": {"y": 1.0}}, 0.8, 0.36),
        ],
    )
    def test_two_statements_of_spread_give_the_third(
        self, stated: dict[str, Any], residual_sd: float, explained: float
    ) -> None:
        quote = quote_of([Column.numeric("a", -1, 1)])
        assumptions = Assumptions.of(quote, rows=100, **stated)
        assert assumptions.residual_sd() == pytest.approx(residual_sd, rel=1e-3)
        assert assumptions.rsquared() == pytest.approx(explained / (explained + residual_sd**2), rel=1e-3)

    def test_several_targets_have_their_own(self) -> None:
        quote = quote_of([Column.numeric("a", -1, 1)], ("y", "z"))
        assumptions = Assumptions.of(
            quote, rows=100, residual_sd={"y": 0.3, "z": 0.6}, coefficients={"y": {"a": 0.5}, "z": {"a": -0.2}}
        )
        assert assumptions.parameters("z")["a"] == pytest.approx(-0.2)
        assert expected_accuracy(quote, assumptions, target="y").residual_sd == pytest.approx(0.3)
        with pytest.raises(ValueError, match="say which of y, z with target="):
            expected_accuracy(quote, assumptions)
        with pytest.raises(ValueError, match="no target 'w'"):
            expected_accuracy(quote, assumptions, target="w")

    def test_a_boolean_target_has_a_share_of_true(self) -> None:
        plain = quote_of([Column.numeric("a", -1, 1)])
        quote = replace(plain, targets=(plain_term(Column.boolean("ill")),))
        for shares, mean in (({}, 0.5), ({"ill": 0.2}, 0.2)):
            assumptions = Assumptions.of(quote, rows=100, residual_sd=0.4, shares=shares)
            assert assumptions.moments[0] @ assumptions.coefficients[:, 0] == pytest.approx(mean)
        with pytest.raises(ValueError, match="target 'ill' is boolean: state shares="):
            Assumptions.of(quote, rows=100, residual_sd=0.4, means={"ill": 0.2})

    def test_an_indicator_needs_missing_values(self) -> None:
        quote = quote_of([Column.numeric("a", -1, 1, missing="indicator")])
        assumptions = Assumptions.of(quote, rows=100, residual_sd=1.0)
        assert assumptions.moments[0, 2] == pytest.approx(0.1, rel=1e-2)
        assert any("taken as missing" in note for note in assumptions.notes)

    def test_a_release_of_the_same_request_is_taken_as_it_is(self) -> None:
        quiet = with_noise(QUOTE, 1e-6)
        known = assume(quiet)
        found = Assumptions.from_release(quiet, rehearse(quiet, known))
        assert found.parameters() == pytest.approx(known.parameters(), rel=0.2, abs=0.1)
        assert found.rows * found.moments == pytest.approx(6000 * known.moments, rel=1e-3)
        assert found.residual_sd() == pytest.approx(0.5, rel=0.05)
        assert found.rows == pytest.approx(known.rows, rel=0.1)  # the least that the norm allows
        assert Assumptions.from_release(quiet, rehearse(quiet, known), rows=50).rows == 50.0

    def test_a_release_with_other_bounds_is_moved_to_the_quote_s(self) -> None:
        loose = quote_of([Column.numeric("a", -4, 8)], noise=Noise(1e-6, 1e-6, 1e-6, 1e-6))
        tight = quote_of([Column.numeric("a", -1, 5)], noise=Noise(1e-6, 1e-6, 1e-6, 1e-6))
        laws: dict[str, Any] = {"means": {"a": 2.0}, "sds": {"a": 0.5}, "residual_sd": 0.2, "coefficients": {"a": 0.3}}
        release = DummyReleases(loose, Assumptions.of(loose, rows=1000, **laws)).release()
        found, expected = Assumptions.from_release(tight, release), Assumptions.of(tight, rows=1000, **laws)
        np.testing.assert_allclose(found.moments, expected.moments, atol=1e-4)
        assert found.parameters() == pytest.approx(expected.parameters(), rel=1e-4)
        assert found.rows == pytest.approx(1000.0)

    def test_a_release_of_unweighted_rows_is_weighted_like_normal_ones(self) -> None:
        features = [Column.numeric(f"x{j}", -1, 1) for j in range(4)]
        box, ball = (quote_of(features, rows=rows) for rows in ({"map": "box"}, {"map": "ball", "norm": 1.1}))
        laws: dict[str, Any] = {
            "means": {"x0": 0.3},
            "sds": {f"x{j}": 0.3 for j in range(4)},
            "residual_sd": 0.2,
            "coefficients": {"x0": 0.3},
        }
        release = DummyReleases(box, Assumptions.of(box, rows=5000, **laws)).release()
        found, expected = Assumptions.from_release(ball, release), Assumptions.of(ball, rows=5000, **laws)
        np.testing.assert_allclose(found.moments, expected.moments, atol=6e-3)
        assert found.weight == pytest.approx(expected.weight, abs=0.01)

    def test_a_noisy_release_is_made_definite(self) -> None:
        loud = with_noise(QUOTE, 30.0)
        found = Assumptions.from_release(QUOTE, rehearse(loud, assume(loud), seed=3), rows=6000)
        assert np.linalg.eigvalsh(found.moments)[0] > 0.0

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"rows": 3}, "rows must be more than the 5 terms"),
            ({"rows": math.nan}, "rows must be more than the 5 terms"),
            ({"residual_sd": -1.0}, "residual_sd must be positive, in the target's unit"),
            ({"residual_sd": None}, "residual_sd=; or rsquared= with"),
            ({"coefficients": {}, "residual_sd": None, "rsquared": 0.5}, "residual_sd=; or rsquared= with"),
            ({"rsquared": 1.0}, "rsquared must be at least 0 and below 1"),
            ({"sds": {"kappa": 0.1}, "residual_sd": None}, "the coefficients alone give 'kappa'"),
            ({"coefficients": {"height": 1.0}}, "no term 'height' to have a coefficient; there are"),
            ({"means": {"height": 1.0}}, "there is no column 'height'; there are age"),
            ({"means": {"sex": 1.0}}, "column 'sex' is categorical: state shares="),
            ({"sds": {"age": 0.0}}, "the sd of 'age' must be positive"),
            ({"shares": {"age": 0.5}}, "column 'age' is numeric: state a mean and an sd"),
            ({"shares": {"sex": {"X": 0.5}}}, "shares of 'sex' must be by level: F, M"),
            ({"shares": {"sex": {"M": 1.5}}}, "must be between 0 and 1 and add up to 1"),
            ({"shares": {"sex": {"M": 0.0}}}, "State shares above 0"),
            ({"correlation": 1.0}, "correlation must be positive definite"),
            ({"correlation": -0.5}, "must be above -0.33"),
            ({"correlation": [1.0, 2.0]}, "of shape"),
            ({"means": {"kappa": 9.0}}, "the mean of 'kappa' must lie within its bounds, 0 to 6"),
            ({"shares": {"kappa": 0.5}}, "target 'kappa' is numeric: state means="),
            ({"missing": {"creatinine": 0.1}}, "count the complete ones in rows="),
            ({"missing": {"age": 0.1}}, "declared complete"),
        ],
    )
    def test_nonsense_is_refused_with_a_way_out(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            assume(**changes)

    def test_other_requests_are_refused(self) -> None:
        other = replace(QUOTE, request=QUOTE.request | {"rows": {"map": "box"}})
        with pytest.raises(ValueError, match="make them anew"):
            expected_accuracy(other, assume())
        with pytest.raises(ValueError, match="knows the row maps 'box', 'ball', 'unit', and not 'unit_xy'"):
            assume(replace(QUOTE, request={"rows": {"map": "unit_xy"}}))

    def test_a_frame_with_too_few_rows_is_refused(self) -> None:
        twin = dummy_twin([*QUOTE.features, Column.numeric("kappa", 0, 6)], 4)
        with pytest.raises(ValueError, match=r"state what you assume with Assumptions\.of"):
            Assumptions.from_rows(QUOTE, twin)

    def test_a_release_that_lacks_something_is_refused(self) -> None:
        other = Release.from_arrays(np.eye(2), [0.0, 0.0], 1.0, features=["age"], targets=["kappa"])
        with pytest.raises(ValueError, match=r"lacks sex\[M\], creatinine, lambda: state what you assume"):
            Assumptions.from_release(QUOTE, other)


class TestExpectedAccuracy:
    @pytest.mark.parametrize("constant", [True, False])
    @pytest.mark.parametrize("rows", [{"map": "box"}, {"map": "ball", "norm": 1.2}, {"map": "unit"}])
    def test_without_noise_it_is_what_ols_says_of_the_assumed_statistics(
        self, rows: dict[str, Any], constant: bool
    ) -> None:
        features = [Column.numeric("a", 0, 10), Column.categorical("c", ["x", "y", "z"])]
        quote = quote_of(features, rows=rows, constant=constant, noise=Noise(0.0, 0.0, 0.0, 0.0))
        assumptions = Assumptions.of(quote, rows=5000, residual_sd=0.5, coefficients={"a": 0.1, "c[z]": -0.3})
        counted = None if constant else assumptions.rows * assumptions.weight
        fit = OLS().fit(DummyReleases(quote, assumptions).release(), rows=counted)
        expected = expected_accuracy(quote, assumptions)
        # Weighted rows: the estimators take a little more than the mean weight, which moves a residual sum by D of n.
        tolerance = 1e-3 if rows["map"] == "ball" else 1e-9
        np.testing.assert_allclose(expected.std_errors, fit.std_errors_, rtol=tolerance)
        np.testing.assert_allclose(expected.half_lengths, np.diff(fit.conf_int())[:, 0] / 2, rtol=tolerance)
        np.testing.assert_allclose(expected.values, fit.params_, rtol=1e-7, atol=1e-9)
        assert expected.rsquared == pytest.approx(fit.rsquared_, rel=tolerance)
        assert expected.rsquared_interval == pytest.approx(fit.rsquared_interval(), rel=tolerance)
        assert np.all(expected.privacy_shares == 0.0)
        assert expected.bounded == 1.0

    def test_without_noise_it_is_the_textbook_s(self) -> None:
        quote = quote_of([Column.numeric("a", -1, 1)], noise=Noise(0.0, 0.0, 0.0, 0.0))
        expected = expected_accuracy(quote, Assumptions.of(quote, rows=1000, residual_sd=0.5, coefficients={"a": 0.4}))
        assert expected.std_errors[1] == pytest.approx(0.5 / math.sqrt(1000 / 3), rel=2e-3)
        assert expected.prediction_sd == pytest.approx(0.5 * math.sqrt(1 + 2 / 1000), rel=1e-3)

    @pytest.mark.parametrize("distribution", ["discrete_gaussian", "discrete_laplace"])
    @pytest.mark.parametrize("factor", [1.0, 4.0])
    def test_the_formula_agrees_with_simulation(self, factor: float, distribution: str) -> None:
        quote = with_noise(replace(QUOTE, noise=replace(QUOTE.noise, distribution=distribution)), factor)
        assumptions = assume(quote)
        many = 200 if factor > 1 else 50  # three standard errors of the largest median: about 0.1 and 0.03
        formula, drawn = (expected_accuracy(quote, assumptions, simulate=count) for count in (0, many))
        assert drawn.simulated == many
        np.testing.assert_allclose(formula.half_lengths, drawn.half_lengths, rtol=0.1 if factor > 1 else 0.04)
        np.testing.assert_allclose(formula.std_errors, drawn.std_errors, rtol=0.1 if factor > 1 else 0.04)
        np.testing.assert_allclose(formula.privacy_shares, drawn.privacy_shares, atol=0.05)
        assert formula.bounded == pytest.approx(drawn.bounded, abs=0.05)

    @pytest.mark.parametrize("factor", [8.0, 12.0])
    def test_the_share_of_bounded_intervals_agrees_with_simulation(self, factor: float) -> None:
        quote = with_noise(QUOTE, factor)
        formula, drawn = (expected_accuracy(quote, assume(quote), simulate=count) for count in (0, 120))
        assert formula.bounded == pytest.approx(drawn.bounded, abs=0.15)

    def test_lost_data_have_unbounded_intervals(self) -> None:
        quote = with_noise(QUOTE, 300.0)
        expected = expected_accuracy(quote, assume(quote))
        assert np.isinf(expected.half_lengths).all()
        assert expected.bounded < 0.05
        assert expected.describe("age") == "at the quoted ε = 1 most intervals of age would be unbounded."
        assert "∞" in str(expected)

    def test_rows_without_a_constant_can_be_planned_for(self) -> None:
        quote = quote_of([Column.numeric("a", -1, 1)], constant=False)
        assumptions = Assumptions.of(quote, rows=2000, residual_sd=0.5, coefficients={"a": 0.3})
        formula, drawn = (expected_accuracy(quote, assumptions, simulate=count) for count in (0, 100))
        np.testing.assert_allclose(formula.half_lengths, drawn.half_lengths, rtol=0.05)

    def test_it_reads_as_a_table(self) -> None:
        expected = expected_accuracy(QUOTE, assume())
        assert str(expected).startswith("kappa (mg/dL) of flchain: the accuracy to expect")
        assert "<caption>Parameters</caption>" in expected._repr_html_()
        assert expected.to_frame()["half_length"].tolist() == expected.half_lengths.tolist()
        assert expected.half_length("age") == expected.half_lengths[1]

    @pytest.mark.parametrize(
        ("noise", "message"),
        [({"yty": None}, "intervals need the statistics yty"), ({"xtx_diagonal": None}, "need the statistics xtx")],
    )
    def test_a_quote_without_what_intervals_need_is_refused(self, noise: dict[str, None], message: str) -> None:
        quote = replace(QUOTE, noise=replace(QUOTE.noise, **noise))
        with pytest.raises(ValueError, match=message):
            expected_accuracy(quote, assume(quote))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [({"level": 0.0}, "level is the probability"), ({"simulate": -3}, "simulate must be a number of releases")],
    )
    def test_nonsense_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            expected_accuracy(QUOTE, assume(), **arguments)

    def test_an_unknown_parameter_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no parameter 'height'; there are"):
            expected_accuracy(QUOTE, assume()).half_length("height")

    def test_a_quote_without_target_is_refused(self) -> None:
        quote = replace(QUOTE, targets=())
        with pytest.raises(ValueError, match="ask for a quote with target="):
            expected_accuracy(quote, Assumptions.of(quote, rows=100))


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whether intervals are bounded, for plans that are held against others of the same draws."""
    monkeypatch.setattr(expectation, "DRAWS", 16)


@pytest.mark.usefixtures("few_draws")
class TestPlans:
    @pytest.mark.parametrize("half_length", [0.003, 0.01, 0.05])
    def test_the_price_found_gives_the_wanted_half_length(self, half_length: float) -> None:
        plan = epsilon_for(half_length, "age", QUOTE, assume())
        strength = PriceScale(QUOTE).strength(plan.epsilon)
        bought = with_noise(QUOTE, 1.0 / strength)
        assert expected_accuracy(bought, assume()).half_length("age") == pytest.approx(half_length, rel=1e-4)
        assert plan.mu == pytest.approx((QUOTE.cost.mu or 0.0) * strength, rel=1e-6)
        assert plan.share_of_budget == pytest.approx(QUOTE.cost.share_of_budget * strength**2, rel=1e-6)

    def test_the_quote_s_own_accuracy_costs_the_quoted_price(self) -> None:
        expected = expected_accuracy(QUOTE, assume()).half_length("lambda")
        plan = epsilon_for(expected, "lambda", QUOTE, assume())
        assert plan.epsilon == pytest.approx(1.0, rel=1e-6)
        assert rows_for(expected, "lambda", QUOTE, assume()).rows == pytest.approx(6000, abs=1.5)

    def test_from_any_quoted_price_the_same_price_follows(self) -> None:
        prices = PriceScale(QUOTE)
        dear = replace(with_noise(QUOTE, 0.25), cost=prices.cost(4.0))
        plans = [epsilon_for(0.004, "age", quote, assume(quote)) for quote in (QUOTE, dear)]
        assert plans[0].epsilon == pytest.approx(plans[1].epsilon, rel=1e-6)
        assert plans[0].share_of_budget == pytest.approx(plans[1].share_of_budget, rel=1e-6)

    def test_a_shorter_interval_costs_more_and_takes_more_rows(self) -> None:
        lengths = [0.05, 0.01, 0.002]
        prices = [epsilon_for(length, "age", QUOTE, assume()).epsilon for length in lengths]
        rows = [rows_for(length, "age", QUOTE, assume()).rows for length in lengths]
        assert prices == sorted(prices)
        assert rows == sorted(rows)

    def test_more_rows_need_a_lower_price(self) -> None:
        found = [epsilon_for(0.01, "age", QUOTE, assume(rows=rows)).epsilon for rows in (3000, 6000, 12000)]
        assert found == sorted(found, reverse=True)

    def test_delta_changes_how_the_price_is_stated_not_what_it_is(self) -> None:
        loose, strict = (epsilon_for(0.01, "age", QUOTE, assume(), delta) for delta in (1e-5, 1e-9))
        assert loose.mu == pytest.approx(strict.mu)
        assert loose.epsilon < strict.epsilon

    def test_the_rows_found_give_the_wanted_half_length(self) -> None:
        plan = rows_for(0.001, "age", QUOTE, assume())
        assert expected_accuracy(QUOTE, assume(rows=plan.rows)).half_length("age") == pytest.approx(0.001, rel=1e-3)
        assert "rows at the quoted ε = 1" in str(plan)

    def test_sampling_error_alone_may_be_too_large(self) -> None:
        plan = epsilon_for(1e-4, "age", QUOTE, assume())
        assert not plan.is_feasible
        assert (plan.epsilon, plan.mu, plan.share_of_budget) == (math.inf, None, math.inf)
        assert "out of reach at any ε: sampling error alone" in plan.text
        without = with_noise(QUOTE, 1e-9)
        half = expected_accuracy(without, assume()).half_length("age")
        needed = 6000 * (half / 1e-4) ** 2
        assert expected_accuracy(without, assume(rows=needed)).half_length("age") == pytest.approx(1e-4, rel=1e-3)

    def test_a_price_above_the_budget_is_said_to_be(self) -> None:
        assert "times the whole budget" in epsilon_for(0.0019, "age", QUOTE, assume()).text

    def test_an_unbounded_quote_is_said_to_be(self) -> None:
        quote = with_noise(QUOTE, 300.0)
        assert "most intervals would be unbounded" in epsilon_for(0.01, "age", quote, assume(quote)).text
        assert "unbounded intervals in most releases" in rows_for(0.01, "age", quote, assume(quote)).text

    def test_laplace_noise_is_planned_in_pure_epsilon(self) -> None:
        noise = replace(QUOTE.noise, distribution="discrete_laplace")
        quote = replace(QUOTE, noise=noise, cost=Cost(0.5, 0.1, 0.5, 0.0, None, 0.5, 0.1))
        expected = expected_accuracy(quote, assume(quote)).half_length("age")
        plan = epsilon_for(expected, "age", quote, assume(quote))
        assert plan.epsilon == pytest.approx(0.5, rel=1e-6)
        assert "needs a pure ε = 0.5" in plan.text

    @pytest.mark.parametrize("half_length", [0.0, -1.0, math.inf, math.nan])
    def test_nonsense_is_refused(self, half_length: float) -> None:
        for find in (epsilon_for, rows_for):
            with pytest.raises(ValueError, match="half_length must be positive"):
                find(half_length, "age", QUOTE, assume())

    def test_an_unknown_parameter_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no parameter 'sex'; there are"):
            epsilon_for(0.1, "sex", QUOTE, assume())


@pytest.mark.usefixtures("few_draws")
class TestPower:
    def test_power_grows_with_the_price_the_rows_and_the_effect(self) -> None:
        for table in (
            power_table("age", [0.002, 0.005, 0.02], QUOTE, assume()),
            sample_size_table("age", [0.002, 0.005, 0.02], QUOTE, assume()),
        ):
            filled = np.nan_to_num(table.power, nan=0.0)
            assert np.all(np.diff(filled, axis=0) >= 0.0)
            assert np.all(np.diff(filled, axis=1) >= 0.0)
            assert np.all((filled >= 0.0) & (filled <= 1.0))
            assert table.needed[0] > table.needed[1] > table.needed[2]

    def test_what_is_needed_has_the_wanted_power(self) -> None:
        table = power_table("age", [0.01], QUOTE, assume(), power=0.9)
        again = power_table("age", [0.01], QUOTE, assume(), epsilons=table.needed)
        assert again.power[0, 0] == pytest.approx(0.9, abs=1e-3)
        sizes = sample_size_table("age", [0.01], QUOTE, assume(), power=0.9)
        again = sample_size_table("age", [0.01], QUOTE, assume(), rows=sizes.needed)
        assert again.power[0, 0] == pytest.approx(0.9, abs=1e-3)

    def test_an_effect_lost_in_sampling_error_is_never_found(self) -> None:
        table = power_table("age", [1e-5], QUOTE, assume())
        assert table.needed == (math.inf,)
        assert "never" in str(table)

    def test_without_noise_it_is_the_z_test_s(self) -> None:
        quote = quote_of([Column.numeric("a", -1, 1)], noise=Noise(0.0, 0.0, 0.0, 0.0))
        assumptions = Assumptions.of(quote, rows=100_000, residual_sd=0.5)
        error = 0.5 / math.sqrt(100_000 / 3)
        table = sample_size_table("a", [2.8 * error], quote, assumptions, rows=[100_000])
        assert table.power[0, 0] == pytest.approx(0.8, abs=2e-3)

    def test_it_reads_as_a_table(self) -> None:
        table = power_table("age", [0.01, 0.02], QUOTE, assume(), epsilons=[0.05, 1.0])
        assert len(table.records()) == 4
        assert table.to_frame().columns.tolist() == ["epsilon", "share_of_budget", "half_length", "effect", "power"]
        assert str(table).startswith("power to find an effect of age, two-sided at 0.05")
        assert "<caption>Power by true effect</caption>" in table._repr_html_()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"effects": []}, "effects must be true coefficients other than 0"),
            ({"effects": [0.0]}, "effects must be true coefficients other than 0"),
            ({"power": 0.01}, "power must be above 1 − level"),
            ({"rows": [2.0]}, "rows must be numbers of rows, each at least"),
        ],
    )
    def test_nonsense_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        stated: dict[str, Any] = {"effects": [0.01]} | arguments
        with pytest.raises(ValueError, match=message):
            sample_size_table("age", stated.pop("effects"), QUOTE, assume(), **stated)


class TestRehearsals:
    def test_a_rehearsal_has_the_real_release_s_shape(self) -> None:
        release = rehearse(QUOTE, assume())
        assert (release.terms, release.targets, release.features) == (QUOTE.terms, QUOTE.targets, QUOTE.features)
        assert (release.request, release.noise) == (QUOTE.request, QUOTE.noise)
        assert (release.row_map, release.receipt, release.dataset) == ("ball", None, "flchain (dummy)")
        assert release.cost == QUOTE.cost
        assert Release.from_text(release.text) == release

    @pytest.mark.parametrize("fit", [OLS(), AdaSSP()])
    def test_an_analysis_runs_on_it(self, fit: Any) -> None:
        quote = replace(QUOTE, noise=replace(QUOTE.noise, lambda_min=30.0))
        fit.fit(rehearse(quote, assume(quote)))
        assert "kappa" in str(fit.summary())
        assert np.isfinite(fit.predict(dummy_twin(quote.features, 5))).all()

    def test_the_seed_decides(self) -> None:
        first, again, other = (rehearse(QUOTE, assume(), seed) for seed in (1, 1, 2))
        assert first == again
        assert first != other

    def test_only_asked_statistics_are_there(self) -> None:
        quote = replace(QUOTE, targets=(), noise=Noise(1.0, 1.0, distribution="discrete_gaussian"))
        release = rehearse(quote, Assumptions.of(quote, rows=100))
        assert release.xtx is not None
        assert (release.xty, release.yty, release.lambda_min) == (None, None, None)

    @pytest.mark.parametrize("distribution", ["discrete_gaussian", "discrete_laplace"])
    def test_noise_has_the_stated_deviations(self, distribution: str) -> None:
        quote = replace(QUOTE, noise=replace(QUOTE.noise, distribution=distribution))
        dummies = DummyReleases(quote, assume(quote))
        generator = np.random.default_rng(5)
        drawn = [dummies.release(generator) for _ in range(400)]
        off = np.array([release.xtx for release in drawn]) - dummies.xtx
        assert np.std(off[:, 0, 0]) == pytest.approx(quote.noise.xtx_diagonal, rel=0.15)
        assert np.std(off[:, 0, 1]) == pytest.approx(quote.noise.xtx_offdiagonal, rel=0.15)
        assert np.array_equal(off[:, 0, 1], off[:, 1, 0])

    def test_intervals_of_rehearsals_cover(self) -> None:
        quote, truth = QUOTE, assume()
        dummies, generator = DummyReleases(quote, truth), np.random.default_rng(11)
        beta = np.array(list(truth.parameters().values()))
        covered = []
        for _ in range(200):
            low, high = OLS().fit(dummies.release(generator)).conf_int().T
            covered.append((low <= beta) & (beta <= high))
        assert 0.92 <= np.mean(covered) <= 0.985


class TestTwin:
    COLUMNS = (
        Column.numeric("age", 50, 100, missing="complete"),
        Column.categorical("sex", ["F", "M", "X"]),
        Column.boolean("smoker", ("no", "yes"), missing="midpoint"),
    )

    def test_marginals_follow_the_schema(self) -> None:
        twin = dummy_twin(self.COLUMNS, 4000, seed=3)
        assert twin["age"].min() >= 50.0
        assert twin["age"].max() <= 100.0
        assert twin["age"].mean() == pytest.approx(75.0, abs=1.0)
        for name, labels in (("sex", ("F", "M", "X")), ("smoker", ("no", "yes"))):
            found, counts = np.unique(twin[name].astype(str), return_counts=True)
            assert found.tolist() == sorted(labels)
            np.testing.assert_allclose(counts / 4000, 1 / len(labels), atol=0.05)

    def test_columns_are_independent(self) -> None:
        columns = [Column.numeric(name, 0, 1) for name in "abc"]
        twin = dummy_twin(columns, 4000)
        correlations = np.corrcoef([twin[name] for name in "abc"])
        assert np.abs(correlations - np.eye(3)).max() < 0.06

    def test_a_dataset_stands_for_its_columns(self) -> None:
        dataset = Dataset("d", "", "p", "add_remove", 10, None, self.COLUMNS, (), (), "gdp", (), 1)
        assert dummy_twin(dataset, 3)["age"].tolist() == dummy_twin(self.COLUMNS, 3)["age"].tolist()

    def test_values_are_missing_where_the_schema_allows_it(self) -> None:
        twin = dummy_twin(self.COLUMNS, 100, missing=0.2)
        assert not np.isnan(twin["age"]).any()
        assert sum(value is None for value in twin["sex"]) == 20

    def test_assumptions_can_be_made_of_it(self) -> None:
        columns = (*QUOTE.features, Column.numeric("kappa", 0, 6))
        assumptions = Assumptions.from_rows(QUOTE, dummy_twin(columns, 5000), rows=6000)
        assert assumptions.rows == 6000.0
        assert assumptions.rsquared() < 0.01
        assert assumptions.residual_sd() == pytest.approx(6 / math.sqrt(12), rel=0.05)

    @pytest.mark.parametrize("arguments", [{"rows": 0}, {"rows": 2.5}, {"rows": True}, {"rows": 5, "missing": 1.0}])
    def test_nonsense_is_refused(self, arguments: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="must be a"):
            dummy_twin(self.COLUMNS, **arguments)


def test_the_examples_of_the_page_are_what_comes_out() -> None:
    options = doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(PAGE), module_relative=False, globs={"quote": QUOTE}, optionflags=options)
    assert found.attempted > 5
    assert found.failed == 0
