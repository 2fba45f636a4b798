"""Normal priors in closed form: the textbook's formulas, draws at the same precisions, and what they need."""

from dataclasses import replace

import numpy as np
import pytest
from client_examples import noised, release_of_rows
from numpy.typing import NDArray
from sklearn.linear_model import BayesianRidge

from analyst_client import OLS, BayesianRegression, EmpiricalBayes, EstimationError, EstimationWarning, Release
from analyst_client.inference.shrinkage import WienerFilter
from analyst_client.kinds import Noise

FloatArray = NDArray[np.float64]
TRUTH = np.array([0.2, 0.4, -0.3])


def rows(seed: int, n: int = 1000) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.0, 1.0, (n, 2))
    return X, TRUTH[0] + X @ TRUTH[1:] + generator.normal(0.0, 0.3, n)


def noisy(seed: int, sd: float, n: int = 1000) -> Release:
    noise = Noise(sd, sd, sd, sd, distribution="discrete_gaussian")
    return noised(release_of_rows(*rows(seed, n)), noise, np.random.default_rng(seed + 1000))


def test_the_filter_is_the_posterior_mean_and_its_likelihood_the_density_of_the_data() -> None:
    generator = np.random.default_rng(1)
    A, root = (generator.normal(size=(4, 4)) for _ in range(2))
    A, covariance, b = A + A.T, root @ root.T + np.eye(4), generator.normal(size=4)
    variances = np.array([0.01, 0.5, 7.0])
    for free in (0, 1):
        flat = np.array([1e8 * float(j < free) for j in range(4)])  # a prior that is as good as flat
        wiener = WienerFilter(A, b, covariance, free)
        inverses, densities = [], []
        for variance in variances:
            prior = np.diag(np.where(flat > 0.0, flat, variance))
            law = A @ prior @ A + covariance
            inverses.append(prior @ A @ np.linalg.inv(law))
            densities.append(-0.5 * np.linalg.slogdet(law)[1] - 0.5 * b @ np.linalg.solve(law, b))
            assert wiener.inverse(np.array([variance]), np.ones(1)) == pytest.approx(inverses[-1], abs=1e-6)
        likelihood = wiener.log_likelihood(variances)
        assert likelihood - likelihood[0] == pytest.approx(np.array(densities) - densities[0], abs=1e-6)
        weights = np.array([0.2, 0.5, 0.3])
        averaged = np.einsum("k,kij->ij", weights, np.array(inverses))
        assert wiener.inverse(variances, weights) == pytest.approx(averaged, abs=1e-6)


def test_without_noise_fixed_precisions_give_the_textbooks_posterior() -> None:
    X, y = rows(2)
    tau, lam = 9.0, 25.0
    fit = EmpiricalBayes(residual_precision=tau, coefficient_precision=lam).fit(release_of_rows(X, y))
    centred = X - X.mean(axis=0)
    information = tau * centred.T @ centred + lam * np.eye(2)
    mean = np.linalg.solve(information, tau * centred.T @ y)
    assert fit.coef_ == pytest.approx(mean, abs=1e-6)
    assert fit.posterior_cov_[1:, 1:] == pytest.approx(np.linalg.inv(information), rel=1e-5)
    assert (fit.prior_variance_, fit.residual_variance_) == (1.0 / lam, 1.0 / tau)


def test_without_noise_and_with_nothing_fixed_it_is_bayesian_ridge_regression() -> None:
    X, y = rows(3)
    fit = EmpiricalBayes().fit(release_of_rows(X, y))
    theirs = BayesianRidge(alpha_1=0.0, alpha_2=0.0, lambda_1=0.0, lambda_2=0.0, tol=1e-12).fit(X, y)
    assert fit.coef_ == pytest.approx(theirs.coef_, rel=2e-3)
    sd = np.sqrt(np.diag(fit.posterior_cov_))[1:]
    assert sd == pytest.approx(np.sqrt(np.diag(theirs.sigma_)), rel=0.01)
    half = np.ptp(fit.conf_int(0.6827, method="posterior"), axis=1)[1:] / 2.0
    assert half == pytest.approx(sd, rel=1e-3)


@pytest.mark.simulations
def test_the_closed_form_is_near_the_draws_at_the_same_precisions() -> None:
    release = noisy(4, 10.0)
    drawn = BayesianRegression(seed=1).fit(release)
    draws = drawn.posteriors_[0]
    closed = EmpiricalBayes(
        residual_precision=float(draws.residual_precision.mean()),
        coefficient_precision=float(draws.coefficient_precision.mean()),
    ).fit(release)
    width = np.ptp(drawn.conf_int(), axis=1)
    assert np.abs(closed.conf_int(method="posterior") - drawn.conf_int()).max(axis=1) / width == pytest.approx(
        np.zeros(3), abs=0.1
    )


@pytest.mark.simulations
def test_credible_intervals_cover_where_the_release_tells_of_both_precisions() -> None:
    covered = []
    for seed in range(200):
        low, high = EmpiricalBayes().fit(noisy(100 + seed, 12.0, 2000)).conf_int(method="posterior").T
        covered.append(np.mean((low <= TRUTH) & (high >= TRUTH)))
    assert 0.92 <= np.mean(covered) <= 0.98


def test_several_hospitals_narrow_it() -> None:
    alone, together = (
        np.ptp(EmpiricalBayes().fit(releases).conf_int(method="posterior"), axis=1)
        for releases in (noisy(5, 10.0), [noisy(seed, 10.0) for seed in (5, 6, 7, 8)])
    )
    assert together / alone == pytest.approx(np.full(3, 0.5), rel=0.15)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_a_stated_residual_precision_does_without_yty() -> None:
    lacking = replace(noisy(9, 5.0), yty=None)
    with pytest.raises(EstimationError, match="yᵀy"):
        EmpiricalBayes().fit(lacking)
    fit = EmpiricalBayes(residual_precision=1.0 / 0.09).fit(lacking)
    assert fit.coef_ == pytest.approx(OLS().fit(lacking).coef_, abs=0.05)
    assert np.all(np.isfinite(BayesianRegression(seed=1, draws=50).fit(lacking).conf_int()))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["residual_precision", "coefficient_precision"])
def test_precisions_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        EmpiricalBayes(**{name: value}).fit(noisy(10, 5.0))


def test_posterior_intervals_that_are_the_priors_are_warned_of() -> None:
    """Its estimates are no less worth there, so that `fit` says nothing."""
    fit = EmpiricalBayes().fit(noisy(1, 150.0, 500))
    with pytest.warns(EstimationWarning, match="is mostly the prior's.*'fieller'") as caught:
        fit.conf_int(method="posterior")
    assert caught[0].filename == __file__
    assert "mostly the prior's" in " ".join(fit.caveats())
    quiet = EmpiricalBayes().fit(noisy(1, 3.0, 5000))
    quiet.conf_int(method="posterior")
    assert "mostly the prior's" not in " ".join(quiet.caveats())
