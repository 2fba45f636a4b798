"""Parts of the plan of logistic and Poisson regressions, and that it ends well whatever the noise is."""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import EstimationError, GeneralizedRules
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.family import Family, normal_information
from analyst_client.refinement.generalized import RefinedGeneralized, noisy_directions, step_shares
from analyst_client.refinement.information import likelihood
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
    rules = GeneralizedRules()
    last = rules.steps - 1
    assert set(step_shares(rules, last, 5, 20_000.0, 0.01)) == {"score", "norms", "meat"}
    assert set(step_shares(rules, last, 5, 200.0, 0.01)) == {"score", "norms"}
    assert set(step_shares(rules, 0, 5, 20_000.0, 0.01)) == {"score", "norms"}
    assert sum(step_shares(rules, last, 5, 20_000.0, 0.01).values()) == pytest.approx(1.0)


def test_gradients_are_clipped_as_far_out_as_leaves_noise_at_half_of_sampling() -> None:
    rules, d, mu2 = GeneralizedRules(), 5, 0.03
    costs = rules.step_costs(mu2)
    few, some, many, most = (rules.first_norm(d, n, costs) for n in (500.0, 2_000.0, 40_000.0, 640_000.0))
    assert few == rules.norm
    assert some**2 * d / (2_000.0 * sum(costs[3:])) == pytest.approx(0.5)
    assert most == pytest.approx(2.0 * many)  # by the fourth root of the rows
    told, collinear, hidden = (noisy_directions(np.array([least, 0.5, 2.0])) for least in (0.3, 0.04, -1.0))
    assert [told, collinear, hidden] == pytest.approx([3.0, 7.5, 30.0])
    assert rules.first_norm(10.0 * d, 2_000.0, costs) == rules.norm


@pytest.mark.parametrize("n", [2_000, 20_000])
def test_later_scores_have_noise_of_about_half_their_sampling_variance(n: int) -> None:
    generator = np.random.default_rng(5)
    x = generator.standard_normal((n, 3))
    y = (generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(float)
    columns, bounds = dict(zip("abc", x.T, strict=True)) | {"y": y}, dict.fromkeys("abc", (-5.0, 5.0))
    found = IdealCurator(columns, bounds, generator).refine(0.25, family="binomial").found
    assert isinstance(found, RefinedGeneralized)
    assert found.moments is not None
    assert found.theta is not None
    H, _ = found.moments.information(found.theta)
    told = sum(np.trace(one.P.T @ H @ one.P) / (4.0 * one.sd**2) for one in found.measurements[3:])
    assert 0.5 < 1.0 / told < 1.0  # a part of each score's cost is for its histogram, or for Σ g gᵀ


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["plain", "separated", "rare", "constant"])
def test_whatever_rows_and_noise_are_the_plan_ends_with_numbers(family: str, kind: str) -> None:
    generator = np.random.default_rng(4)
    for trial in range(12):
        n, mu = int(generator.choice([30, 300, 3000])), float(generator.choice([0.02, 0.2, 2.0, 200.0]))
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
        assert np.isfinite(told.covariance(np.eye(4))).all()
        assert (np.diag(told.covariance(np.eye(4))) > 0.0).all()
