"""The posterior given noisy statistics: its density by finite differences and simulation, its draws by quadrature."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from analyst_client.inference.evidence import Evidence, NoisyMoments
from analyst_client.inference.noise_model import NoiseModel
from analyst_client.inference.posterior import PosteriorDraws, sample_plugin_posterior, sample_posterior
from analyst_client.inference.prior import Prior
from analyst_client.inference.sampling import compute_ess, compute_rhat
from bench.calibration import draw_release

FloatArray = NDArray[np.float64]

BETA, SD = np.array([0.1, 0.5, -0.3]), 0.2
ROWS = 500


def exact_moments(rng: np.random.Generator, beta: FloatArray = BETA, constant: bool = True) -> NoisyMoments:
    X = rng.uniform(-1.0, 1.0, (ROWS, len(beta)))
    if constant:
        X[:, 0] = 1.0
    y = X @ beta + rng.normal(0.0, SD, ROWS)
    d, rows = len(beta), None if constant else float(ROWS)
    return NoisyMoments(X.T @ X, X.T @ y, float(y @ y), np.zeros((d, d)), np.zeros(d), 0.0, constant, rows)


def of_one(moments: NoisyMoments) -> Evidence:
    return Evidence((moments,))


def noisy_moments(rng: np.random.Generator, sd: float = 10.0, constant: bool = True) -> NoisyMoments:
    exact = exact_moments(rng, constant=constant)
    d = len(exact.xty)
    variance = sd**2 * (0.5 + 0.5 * np.eye(d))
    noise = np.triu(np.sqrt(variance) * rng.normal(size=(d, d)))
    return replace(
        exact,
        xtx=exact.xtx + noise + np.triu(noise, 1).T,
        xty=exact.xty + sd * rng.normal(size=d),
        yty=exact.yty + 2.0 * sd * rng.normal(),
        xtx_variance=variance,
        xty_variance=np.full(d, sd**2),
        yty_variance=4.0 * sd**2,
    )


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("yty_known", [True, False])
def test_gradient_is_that_of_the_density(constant: bool, yty_known: bool) -> None:
    rng = np.random.default_rng(1)
    moments = noisy_moments(rng, constant=constant)
    model = NoiseModel(of_one(moments if yty_known else replace(moments, yty=0.0, yty_variance=math.inf)), Prior())
    position = np.append(BETA, 3.0) + 0.1 * rng.normal(size=(5, 4))
    _, gradient = model.log_density(position)
    for j, step in enumerate(1e-5 * np.eye(4)):
        difference = (model.log_density(position + step)[0] - model.log_density(position - step)[0]) / 2e-5
        assert difference == pytest.approx(gradient[:, j], rel=1e-5, abs=1e-4)


def test_density_is_nothing_where_numbers_are_absurd() -> None:
    model = NoiseModel(of_one(noisy_moments(np.random.default_rng(2))), Prior())
    value, gradient = model.log_density(
        np.array([[0.1, 0.5, 1e5, 3.0], [0.1, 0.5, 0.3, np.nan], [0.1, 0.5, 0.3, 99.0]])
    )
    assert np.all(value == -np.inf)
    assert np.all(np.isfinite(gradient))


@pytest.mark.simulations
def test_drawn_exact_statistics_leave_noise_of_the_stated_law() -> None:
    rng, count = np.random.default_rng(4), 1500
    upper = np.triu_indices(3)
    noise = []
    for _ in range(count):
        moments = noisy_moments(rng)
        (xtx,), (xty,), (yty,), _ = NoiseModel(of_one(moments), Prior()).sample_exact(
            BETA[np.newaxis], np.array([SD**-2]), rng
        )
        assert np.array_equal(xtx, xtx.T)
        entries = (moments.xtx - xtx)[upper], moments.xty - xty, [moments.yty - yty]
        noise.append(np.concatenate(entries))
    sd = np.sqrt(np.concatenate([moments.xtx_variance[upper], moments.xty_variance, [moments.yty_variance]]))
    assert np.cov(np.array(noise).T / sd[:, np.newaxis]) == pytest.approx(np.eye(10), abs=4.5 * math.sqrt(2.0 / count))


def test_what_was_released_without_noise_stays_as_it_is() -> None:
    moments = exact_moments(np.random.default_rng(5))
    posterior = sample_posterior(of_one(replace(moments, yty_variance=100.0)), draws=100, seed=1)
    assert np.all(posterior.xtx == moments.xtx)
    assert np.all(posterior.xty == moments.xty)
    assert posterior.yty.std() > 0.0
    assert posterior.definite_share == 1.0


@pytest.mark.simulations
def test_without_noise_every_posterior_is_the_ordinary_one() -> None:
    moments = exact_moments(np.random.default_rng(6))
    aware = sample_posterior(of_one(moments), draws=500, seed=1)
    plugin = sample_plugin_posterior(of_one(moments), Prior(), draws=500, seed=1)
    for of in (lambda p: p.beta, lambda p: np.log(p.residual_precision), lambda p: p.yty):
        # More than three standard errors of two runs with 500 effective draws each.
        far = 0.2 * of(plugin).std(axis=(0, 1)) + 1e-6
        assert np.all(np.abs(of(aware).mean(axis=(0, 1)) - of(plugin).mean(axis=(0, 1))) < far)
        assert of(aware).std(axis=(0, 1)) == pytest.approx(of(plugin).std(axis=(0, 1)), rel=0.1, abs=1e-6)


@pytest.mark.simulations
def test_draws_agree_with_quadrature() -> None:
    moments = NoisyMoments(
        np.array([[120.0]]), np.array([60.0]), 55.0, np.full((1, 1), 900.0), np.full(1, 400.0), 900.0, False, 400.0
    )
    beta, log_tau = np.linspace(-3.0, 6.0, 241), np.linspace(-4.0, 8.0, 161)
    grid = np.stack(np.meshgrid(beta, log_tau, indexing="ij"), axis=-1)
    value, _ = NoiseModel(of_one(moments), Prior()).log_density(grid.reshape(-1, 2))
    weight = np.exp(value - value.max()).reshape(grid.shape[:2])
    weight /= weight.sum()
    posterior = sample_posterior(of_one(moments), draws=1000, seed=2)
    for axis, drawn in ((0, posterior.beta[..., 0]), (1, np.log(posterior.residual_precision))):
        density = weight.sum(axis=1 - axis)
        levels = np.cumsum(density) - density / 2.0
        places = np.interp([0.025, 0.25, 0.5, 0.75, 0.975], levels, (beta, log_tau)[axis])
        # Of 3,000 effective draws or so, three standard errors are 0.027.
        below = [(drawn < place).mean() for place in places]
        assert below == pytest.approx([0.025, 0.25, 0.5, 0.75, 0.975], abs=0.03)


def posterior_ranks(evidence: Evidence, truth: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the share of the posterior below each true value, by importance sampling from a t that adapts."""
    model, dof, size = NoiseModel(evidence, Prior()), 5.0, len(truth)
    centre, factor, slope = model.rough_posterior()
    centre[:-1] -= slope * math.exp(-centre[-1])
    factor = 2.0 * factor
    for power in (0.1, 0.3, 1.0, 1.0):  # flattened while the proposal is rough
        unit = rng.normal(size=(1000, size)) / np.sqrt(rng.chisquare(dof, (1000, 1)) / dof)
        points = centre + unit @ factor.T
        bent = points + np.exp(-points[:, -1:]) * np.append(slope, 0.0)
        log_weight = model.log_density(bent)[0] + 0.5 * (dof + size) * np.log1p(np.sum(unit**2, axis=1) / dof)
        weight = np.exp(power * (log_weight - log_weight.max()))
        weight /= weight.sum()
        centre, factor = weight @ points, np.linalg.cholesky(np.cov(points, rowvar=False, aweights=weight))
    below: FloatArray = weight @ (bent < truth)
    return below


@pytest.mark.simulations
def test_ranks_of_what_the_prior_drew_are_uniform() -> None:
    """Simulation-based calibration (Talts et al. 2018) of the density, where every XᵀX is as likely as any other.

    A uniform rank u has 12(u − ½)² of mean 1 and variance ⅘; half the noise in the likelihood makes it 1.4. The four
    parameters of a release are counted as two independent ones. With fresh seeds it fails once in some 1,000 runs.
    """
    rng, releases = np.random.default_rng(11), 120
    found = np.array([posterior_ranks(*draw_release(rng, 500, 2, 50.0, "released"), rng) for _ in range(releases)])
    assert abs(np.mean(12.0 * (found - 0.5) ** 2) - 1.0) < 3.5 * math.sqrt(0.8 / (2 * releases))
    assert np.all(np.abs(np.mean(found, axis=0) - 0.5) < 4.0 * math.sqrt(1.0 / 12.0 / releases))


@cache
def drawn_of(sd: float) -> PosteriorDraws:
    """Return draws of a posterior given noise of a deviation."""
    return sample_posterior(of_one(noisy_moments(np.random.default_rng(8), sd)), draws=100, seed=4)


def test_noise_that_outweighs_the_data_leaves_the_prior_and_says_so() -> None:
    moments = noisy_moments(np.random.default_rng(7), sd=1e4)
    posterior = sample_posterior(of_one(replace(moments, xtx=np.diag([500.0, 170.0, 170.0]))), draws=100, seed=3)
    assert posterior.prior_dominated.all()
    assert posterior.definite_share < 0.5
    assert not drawn_of(10.0).prior_dominated.any()


@pytest.mark.simulations
def test_credible_intervals_widen_with_noise() -> None:
    sds = [drawn_of(sd).beta.std(axis=(0, 1)) for sd in (0.1, 10.0, 30.0)]
    assert np.all(np.diff(sds, axis=0) > 0.0)


def test_a_seed_repeats_the_draws() -> None:
    first, moments = drawn_of(10.0), noisy_moments(np.random.default_rng(8))
    second, other = (sample_posterior(of_one(moments), draws=100, seed=seed) for seed in (4, 5))
    assert np.array_equal(first.beta, second.beta)
    assert not np.array_equal(first.beta, other.beta)
    shapes = {name: value.shape for name, value in vars(first).items() if isinstance(value, np.ndarray)}
    assert shapes == {
        "beta": (4, 100, 3),
        "residual_precision": (4, 100),
        "coefficient_precision": (4, 100),
        "xtx": (4, 100, 3, 3),
        "xty": (4, 100, 3),
        "yty": (4, 100),
        "rhat": (3,),
        "ess": (3,),
        "sd_ratio": (3,),
    }


def test_plugin_posterior_survives_indefinite_statistics() -> None:
    moments = noisy_moments(np.random.default_rng(11), sd=1000.0)
    assert np.linalg.eigvalsh(moments.xtx)[0] < 0.0
    posterior = sample_plugin_posterior(of_one(moments), draws=100, seed=6)
    assert np.all(np.isfinite(posterior.beta))
    assert np.linalg.eigvalsh(posterior.xtx[0, 0])[0] > -1e-9


def test_plugin_posterior_needs_yty() -> None:
    moments = replace(noisy_moments(np.random.default_rng(12)), yty_variance=math.inf)
    with pytest.raises(ValueError, match="needs yᵀy"):
        sample_plugin_posterior(of_one(moments))
    assert np.all(sample_posterior(of_one(moments), draws=100, seed=7).rhat < 1.1)


def ar1(rng: np.random.Generator, phi: float, chains: int, n: int, shift: float = 0.0) -> FloatArray:
    x = np.zeros((chains, n))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + math.sqrt(1.0 - phi**2) * rng.normal(size=chains)
    return x + shift * np.arange(chains)[:, np.newaxis]


def test_diagnostics_equal_those_of_arviz() -> None:
    rng = np.random.default_rng(20)
    for arguments, ess, rhat in (  # the numbers are those of arviz 0.23: `az.ess`, `az.rhat`
        ((0.0, 4, 250), 1063.239, 0.998755),
        ((0.9, 4, 1000), 250.0234, 1.015314),
        ((-0.5, 4, 500), 6602.060, 1.004898),
        ((0.5, 3, 333), 383.1226, 1.007990),
        ((0.5, 4, 200, 0.3), 52.39443, 1.077519),
    ):
        draws = ar1(rng, *arguments)  # type: ignore[arg-type]
        assert compute_ess(draws) == pytest.approx(ess, rel=0.025)
        assert compute_rhat(draws) == pytest.approx(rhat, abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"xtx_variance": np.full((3, 3), -1.0)}, "variances"),
        ({"yty_variance": math.nan}, "variances"),
        ({"xty_variance": np.zeros(2)}, "shape"),
        ({"constant": False}, "rows"),
        ({"rows": 0.0}, "rows"),
    ],
)
def test_moments_are_refused_when_they_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(exact_moments(np.random.default_rng(13)), **changes)


def test_priors_and_counts_are_refused_out_of_range() -> None:
    moments = exact_moments(np.random.default_rng(14))
    for changes in ({"constant_sd": 0.0}, {"residual_rate": math.inf}, {"coefficient_shape": 1.0}):
        with pytest.raises(ValueError, match=next(iter(changes))):
            Prior(**changes)
    with pytest.raises(ValueError, match="2 chains"):
        sample_posterior(of_one(moments), chains=1)
    with pytest.raises(ValueError, match="4 draws"):
        sample_plugin_posterior(of_one(moments), draws=3)
