"""Parts of the plan of logistic and Poisson regressions, and that it ends well whatever the noise is."""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import EstimationError, LogisticRegression, PoissonRegression
from analyst_client.refinement import GeneralizedRules
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.clipping import clipped_law
from analyst_client.refinement.family import Family, normal_information
from analyst_client.refinement.generalized import RefinedGeneralized, rarity, step_shares
from analyst_client.refinement.information import likelihood
from analyst_client.refinement.requests import whitened
from bench.ideal import IdealCurator

FAMILIES = {"binomial": Family("binomial"), "poisson": Family("poisson", 40.0)}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_information_of_normal_terms_is_that_of_many_rows(name: str) -> None:
    family, generator = FAMILIES[name], np.random.default_rng(1)
    v = generator.standard_normal((400_000, 3))
    v[:, 0], v[:, 2] = 1.0, 0.3 + 0.5 * v[:, 1] + 0.8 * v[:, 2]
    theta = np.array([-0.4, 0.7, -0.5])
    eta = v @ theta
    expected = (v * family.slope(eta)[:, None]).T @ v / len(v)
    found, slope = normal_information(family, v.T @ v / len(v), theta, float(family.mean(eta).mean()))
    assert found == pytest.approx(expected, abs=0.015 * expected[0, 0])
    assert slope == pytest.approx(float(family.slope(eta).mean()), rel=0.01)


def test_products_through_directions_tell_the_matrix() -> None:
    generator = np.random.default_rng(2)
    A = np.cov(generator.standard_normal((3, 50)))
    P = np.eye(3) + 0.3 * generator.standard_normal((3, 3))
    belief = Belief(np.zeros(9), 100.0 * np.eye(9), 3)
    belief.see_products(P, P.T @ A @ P, 0.01, 0.01)
    assert belief.xtx == pytest.approx(A, abs=0.02)
    u = np.array([1.0, -2.0, 0.5])
    assert belief.xtx_deviation(u) < 0.5
    told = Belief(np.zeros(5), np.diag([4.0, 1.0, 9.0, 0.0, 0.0]), 2)
    assert told.xtx_deviation(np.array([1.0, 2.0])) == pytest.approx(math.sqrt(4.0 + 16.0 + 144.0))


def test_the_last_steps_buy_products_where_they_tell_something() -> None:
    rules, binomial, poisson = GeneralizedRules(), FAMILIES["binomial"], FAMILIES["poisson"]
    last = rules.steps - 1
    whole, without = {"score", "norms", "meat"}, {"score", "norms"}
    assert set(step_shares(rules, last, 5, 20_000.0, 0.01, 1.3, binomial)) == whole
    assert set(step_shares(rules, last, 5, 200.0, 0.01, 1.3, binomial)) == without
    assert set(step_shares(rules, last, 5, 20_000.0, 0.01, 13.0, binomial)) == without
    assert set(step_shares(rules, rules.steps // 2, 5, 20_000.0, 0.01, 1.3, binomial)) == without
    assert set(step_shares(rules, rules.steps // 2, 5, 1000.0, 0.01, 1.3, poisson)) == whole
    assert set(step_shares(rules, last, 5, 50.0, 0.01, 1.3, poisson)) == without
    assert sum(step_shares(rules, last, 5, 20_000.0, 0.01, 1.3, binomial).values()) == pytest.approx(1.0)


def test_gradients_are_clipped_as_far_out_as_the_rarer_class_is_long_or_noise_allows() -> None:
    rules, d, mu2 = GeneralizedRules(), 5, 0.03
    costs = rules.step_costs(mu2)
    few, some, many, most = (rules.gradient_norm(d, n, costs, 1.0) for n in (200.0, 2_000.0, 40_000.0, 640_000.0))
    assert few == rules.norm
    assert some**2 * d / (2_000.0 * sum(costs[3:])) == pytest.approx(1.0)
    assert most == pytest.approx(2.0 * many)  # by the fourth root of the rows
    assert [rarity(FAMILIES["binomial"], rate) for rate in (0.05, 0.95)] == pytest.approx([19.0**0.5] * 2)
    assert rarity(FAMILIES["poisson"], 0.05) == 1.0
    assert rules.gradient_norm(d, 200.0, costs, 4.0) == 4.0 * rules.norm


def test_a_boolean_that_is_rarely_true_is_not_stretched_as_far_as_a_number() -> None:
    A, n = np.diag([1.0, 0.01, 0.01]), 1000.0
    belief = Belief(np.concatenate([n * A[np.triu_indices(3)], np.zeros(3)]), np.eye(9), 3)
    P = whitened(belief, n, np.array([True, True, False]))
    assert np.diag(P) == pytest.approx([1.0, 10.0, 0.1**-0.5], rel=1e-3)


@pytest.mark.parametrize(("name", "rate"), [("binomial", 0.5), ("binomial", 0.05), ("poisson", 0.1)])
def test_what_clipping_takes_is_that_of_many_rows(name: str, rate: float) -> None:
    family, generator = FAMILIES[name], np.random.default_rng(6)
    v = generator.standard_normal((300_000, 3))
    v[:, 0] = 1.0
    theta = np.array([family.link(rate), 0.5, -0.3])
    means = family.mean(v @ theta)
    uneven = 2.0  # of rates, beyond Poisson's law
    drawn = generator.gamma(1.0 / uneven, uneven, len(v)) * means * family.unit
    y = generator.uniform(size=len(v)) < means if name == "binomial" else generator.poisson(drawn) / family.unit
    excess = 1.0 if name == "binomial" else 1.0 + uneven * family.unit * float(np.mean(means**2) / means.mean())
    P = np.eye(3) / (1.5 * np.sqrt(3.0 * np.var(y - means)))
    g = (v @ P) * (y - means)[:, None]
    length = np.linalg.norm(g, axis=1)
    clipped = g / np.maximum(length, 1.0)[:, None]
    law = clipped_law(family, v.T @ v / len(v), theta, P, excess)
    assert law.share == pytest.approx(float(np.mean(length > 1.0)), abs=0.02)
    assert law.square == pytest.approx(float(np.mean(np.minimum(length, 1.0) ** 2)), rel=0.1)
    assert law.moved == pytest.approx(clipped.mean(axis=0), abs=0.15 * float(np.abs(clipped.mean(axis=0)).max()) + 3e-3)
    assert np.abs(law.moved).max() > 0.02 or rate == 0.5
    assert 0.3 < law.kept < 0.95


def weak(family: str, mu: float = 0.27, robust: bool | None = None, **rules: Any) -> Any:
    """Return a fit of rows with a rare boolean and two columns that are nearly the same."""
    generator, n = np.random.default_rng(5), 8000
    x = generator.standard_normal(n)
    columns = {"a": x, "b": x + 0.004 * generator.standard_normal(n), "c": generator.standard_normal(n)}
    columns["few"] = (generator.uniform(size=n) < 0.002).astype(float)
    index = 0.6 * x - 0.4 * columns["c"]
    y = generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-index))
    if family == "poisson":
        y = generator.poisson(np.exp(0.5 + index) * generator.gamma(1.0, 1.0, n))
    bounds = dict.fromkeys("abc", (-8.0, 8.0)) | ({"y": (0.0, 100.0)} if family == "poisson" else {})
    curator = IdealCurator(columns | {"y": y.astype(float)}, bounds, generator)
    kind = {"binomial": LogisticRegression, "poisson": PoissonRegression}[family]
    return kind(robust).fit(curator.refine(mu, GeneralizedRules(**rules), family=family))


@pytest.mark.parametrize("family", FAMILIES)
def test_each_coefficient_has_its_own_ends(family: str) -> None:
    fit = weak(family)
    told = dict(zip(fit.param_names_, np.isfinite(fit.conf_int()).all(axis=1), strict=True))
    assert told == {"(constant)": True, "a": False, "b": False, "c": True, "few": False}
    covariance, pvalues = fit.cov_params(), fit.pvalues_
    assert np.isinf(np.diag(covariance)).tolist() == np.isnan(pvalues).tolist() == [False, True, True, False, True]
    assert not np.isnan(covariance).any()
    text = str(fit.summary())
    assert "of a, b, few" in " ".join(text.split())
    assert "−∞" in text


def test_intervals_are_robust_wherever_products_were_bought_and_always_of_counts() -> None:
    fit = weak("poisson")
    assert fit.std_errors_ == pytest.approx(weak("poisson", robust=True).std_errors_)
    assert fit.std_errors_[3] > 1.1 * weak("poisson", robust=False).std_errors_[3]  # counts vary more than their mean
    assert "dispersion, about" in str(fit.summary())
    assert 3.0 < weak("poisson", mu=1.5).dispersion_ < 7.0
    without = weak("poisson", meat_affordable=0.0)
    with pytest.raises(EstimationError, match="counts may vary by more than their mean"):
        without.conf_int()
    assert np.isfinite(weak("poisson", robust=False, meat_affordable=0.0).conf_int()[0]).all()
    assert np.isfinite(weak("binomial", meat_affordable=0.0).conf_int()[0]).all()


def test_predictions_of_a_rare_class_have_its_rate_and_coefficients_are_a_pair_with_intervals() -> None:
    generator, n = np.random.default_rng(8), 5000
    x = generator.standard_normal((n, 2))
    y = generator.uniform(size=n) < 1.0 / (1.0 + np.exp(3.0 - x[:, 0]))
    rates, losses = [], []
    for seed in range(12):
        columns = {"a": x[:, 0], "b": x[:, 1], "y": y.astype(float)}
        curator = IdealCurator(columns, dict.fromkeys("ab", (-10.0, 10.0)), np.random.default_rng(seed))
        fit = LogisticRegression().fit(curator.refine(0.087, family="binomial"))
        p = fit.predict_proba({"a": x[:, 0], "b": x[:, 1]})[:, 1]
        rates.append(p.mean() / y.mean())
        losses.append(-np.mean(np.where(y, np.log(p), np.log(1.0 - p))))
        assert fit.params_ == pytest.approx(fit.conf_int().mean(axis=1))
        predicts = float((fit.results_[0].contrasts @ fit.refined_.frame.matrix @ fit.refined_.calibrated)[0])
        assert fit.decision_function({"a": [0.0], "b": [0.0]})[0] == pytest.approx(predicts)
    base = -(y.mean() * np.log(y.mean()) + (1.0 - y.mean()) * np.log(1.0 - y.mean()))
    assert 0.8 < np.mean(rates) < 1.2
    assert np.mean(losses) < base


def test_an_offset_has_the_coefficient_1() -> None:
    generator, n = np.random.default_rng(9), 8000
    x, exposure = generator.standard_normal(n), generator.uniform(-1.0, 3.0, n)
    y = generator.poisson(np.exp(-0.5 + 0.4 * x + exposure)).astype(float)
    curator = IdealCurator(
        {"x": x, "o": exposure, "y": y}, {"x": (-8.0, 8.0), "o": (-4.0, 4.0), "y": (0.0, 200.0)}, generator
    )
    fit = PoissonRegression().fit(curator.refine(2.0, family="poisson", offset="o"))
    assert fit.param_names_.tolist() == ["(constant)", "x"]
    assert fit.coef_.shape == (1,)
    assert fit.conf_int() == pytest.approx(np.array([[-0.5, -0.5], [0.4, 0.4]]), abs=0.06)
    assert ((fit.conf_int() - [[-0.5], [0.4]]) * [-1.0, 1.0] > 0.0).all()
    expected = fit.predict({"x": [0.0, 0.0], "o": [0.0, 1.0]})
    assert expected[1] / expected[0] == pytest.approx(np.e, rel=1e-4)
    assert fit.predict({"x": x, "o": exposure}).mean() == pytest.approx(y.mean(), rel=0.1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["plain", "separated", "rare", "constant"])
def test_whatever_rows_and_noise_are_the_plan_ends_with_numbers(family: str, kind: str) -> None:
    generator = np.random.default_rng(4)
    first = 6 * (kind in {"separated", "rare"})  # every pair of a number of rows and a price, of two kinds each
    for trial in range(first, first + 6):
        n, mu = (30, 300, 3000)[trial % 3], (0.02, 0.2, 2.0, 200.0)[trial % 4]
        x: Any = generator.uniform(-1.0, 1.0, (n, 3))
        if kind == "constant":
            x[:, 1] = 0.25
        index = 30.0 * x[:, 0] if kind == "separated" else x[:, 0] - (8.0 if kind == "rare" else 0.0)
        if family == "binomial":
            y = (generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-index))).astype(float)
        else:
            y = np.minimum(generator.poisson(np.exp(np.minimum(index, 4.0))), 40).astype(float)
        bounds = {"a": (-1.0, 1.0), "b": (-50.0, 50.0), "c": (-1.0, 3.0)}
        bounds |= {} if family == "binomial" else {"y": (0.0, 40.0)}
        curator = IdealCurator(dict(zip("abc", x.T, strict=True)) | {"y": y}, bounds, generator)
        found = curator.refine(mu, family=family).found
        assert isinstance(found, RefinedGeneralized)
        assert curator.spent == pytest.approx(mu**2), trial
        assert 0.0 < found.rate < 1.0
        if found.theta is None:
            assert n * mu < GeneralizedRules().least_rows
            continue
        assert np.isfinite(found.theta).all()
        try:
            told = likelihood(found)
        except EstimationError:
            continue
        try:
            covariance = told.covariance(np.eye(4))
        except EstimationError:
            assert told.robust is None
            continue
        assert not np.isnan(covariance).any()
        assert (np.diag(covariance) > 0.0).all()
