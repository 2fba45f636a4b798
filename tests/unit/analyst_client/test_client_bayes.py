"""Bayesian fits: near the score intervals where data speak, the prior's where they do not, and said so."""

import pickle
import sys
from functools import cache

import numpy as np
import pytest
from client_examples import noised, release_of_rows
from sklearn.base import clone

from analyst_client import (
    OLS,
    BayesianRegression,
    Column,
    EstimationError,
    EstimationWarning,
    Release,
    RobustPrivateRegression,
)
from analyst_client.inference import Prior
from analyst_client.kinds import Noise

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")  # tests draw few
NOISE = Noise(8.0, 6.0, 5.0, 4.0, distribution="discrete_gaussian")


def release(noise: Noise = NOISE, targets: int = 1) -> Release:
    """Return a noisy release of 2,000 rows in units of their own."""
    generator = np.random.default_rng(8)
    X = generator.uniform(-1.0, 1.0, (2000, 2))
    y = np.column_stack([0.2 + X @ [0.4, -0.2] + generator.normal(0.0, 0.2, 2000) for _ in range(targets)])
    columns = [Column.numeric("age", 50, 100), Column.numeric("dose", 0, 10)]
    responses = [Column.numeric(name, 0, 6) for name in ("y", "z")[:targets]]
    return noised(release_of_rows(X, y, features=columns, targets=responses), noise, generator, targets=responses)


@cache
def fitted(kind: type[BayesianRegression] = BayesianRegression) -> BayesianRegression:
    """Return the fit of the release, once for all tests that read it."""
    return kind(seed=1, draws=300).fit(release())


@pytest.mark.usefixtures("few_draws")
@pytest.mark.simulations
def test_credible_intervals_are_near_the_score_intervals_where_data_speak() -> None:
    fit = fitted()
    score = fit.conf_int(method="fieller")
    width = score[:, 1] - score[:, 0]
    assert fit.conf_int() == pytest.approx(score, abs=0.15 * float(np.max(width)))
    assert np.all(np.abs(np.ptp(fit.conf_int(), axis=1) / width - 1.0) < 0.2)
    assert fit.std_errors_ == pytest.approx(OLS().fit(release()).std_errors_, rel=0.2)
    assert OLS().fit(release()).conf_int(method="posterior") == pytest.approx(
        fit.conf_int(), abs=0.15 * float(np.max(width))
    )


@pytest.mark.simulations
def test_the_plugin_posterior_is_too_narrow() -> None:
    known, unknown = map(fitted, (BayesianRegression, RobustPrivateRegression))
    assert np.all(np.ptp(unknown.conf_int(), axis=1) < 0.7 * np.ptp(known.conf_int(), axis=1))


def test_draws_are_in_raw_units() -> None:
    fit = fitted()
    draws = fit.posterior_draws()
    assert draws.shape == (4, 300, 3)
    assert draws.reshape(-1, 3).mean(axis=0) == pytest.approx(np.concatenate([[fit.intercept_], fit.coef_]), rel=1e-9)
    scaled = fit.posteriors_[0].beta[..., 1].ravel()
    assert draws[..., 1].ravel() == pytest.approx(scaled * 3.0 / 25.0, rel=1e-12)


def test_where_the_release_says_little_the_posterior_is_the_priors_and_says_so() -> None:
    loud = release(Noise(4000.0, 3000.0, 4000.0, 4000.0, distribution="discrete_gaussian"))
    with pytest.warns(EstimationWarning, match="age, dose is mostly the prior's") as caught:
        fit = BayesianRegression(seed=1, draws=100).fit(loud)
    assert caught[0].filename == __file__
    assert fit.posteriors_[0].prior_dominated.all()
    for said in (str(fit.summary()), " ".join(fit.caveats())):
        assert "mostly the prior's" in said
    assert "mostly the prior's" not in str(fitted().summary())
    assert "mostly the prior's" not in " ".join(fitted().caveats())


@pytest.mark.filterwarnings("ignore::analyst_client.EstimationWarning")
def test_the_plugin_posterior_says_by_how_much_it_is_too_sure() -> None:
    noisy = release(Noise(40.0, 30.0, 30.0, 30.0, distribution="discrete_gaussian"))
    fit = RobustPrivateRegression(seed=1, draws=300).fit(noisy)
    ratio = float(OLS().fit(noisy).std_errors_[1] / fit.std_errors_[1])
    assert ratio > 1.5
    for said in (str(fit.summary()), " ".join(fit.caveats())):
        assert "takes the released statistics for exact" in said.replace("\n", " ")
        assert f"age by {ratio:.1f}" in said.replace("\n", " ")
    assert "for exact" not in " ".join(fitted().caveats())


def test_chains_that_are_too_short_are_warned_of() -> None:
    with pytest.warns(EstimationWarning, match="have not mixed"):
        fit = BayesianRegression(seed=1, draws=20).fit(release())
    assert "have not mixed" in str(fit.summary())


def test_several_targets_have_a_posterior_each() -> None:
    fit = BayesianRegression(seed=1, draws=20).fit(release(targets=2))
    assert len(fit.posteriors_) == 2
    assert fit.conf_int().shape == (2, 3, 2)
    assert fit.posterior_draws("z").shape == (4, 20, 3)
    with pytest.raises(ValueError, match="say which of y, z"):
        fit.posterior_draws()


def test_the_same_seed_gives_the_same_draws_and_pickles() -> None:
    first, second = fitted(), BayesianRegression(seed=1, draws=300).fit(release())
    assert np.array_equal(first.posterior_draws(), second.posterior_draws())
    assert np.array_equal(pickle.loads(pickle.dumps(first)).conf_int(), first.conf_int())
    assert repr(clone(first)) == repr(first)


def test_a_strong_prior_pulls() -> None:
    strong = Prior(coefficient_shape=1e6, coefficient_rate=1.0)
    with pytest.warns(EstimationWarning, match="mostly the prior's"):
        fit = BayesianRegression(strong, seed=1, draws=100).fit(release())
    assert np.all(np.abs(fit.scaled_coef_[1:]) < 0.01)


def test_without_a_constant_rows_must_be_stated() -> None:
    made = release_of_rows(np.random.default_rng(1).uniform(-1, 1, (50, 2)), np.ones(50), constant=False, noise=1.0)
    with pytest.raises(EstimationError, match="rows="):
        BayesianRegression().fit(made)
    assert BayesianRegression(seed=1, draws=50).fit(made, rows=50).coef_.shape == (2,)


@pytest.mark.filterwarnings("ignore:\\nArviZ is undergoing:FutureWarning")  # of version 0.23, when it is imported
def test_draws_go_to_arviz() -> None:
    """The version that is installed: before version 1 groups are arguments of its interface, from it on one mapping."""
    import arviz

    fit = fitted()
    data = fit.to_inference_data()
    coefficients = data["posterior"]["coefficients"]
    assert coefficients.dims == ("chain", "draw", "term")
    assert coefficients["term"].values.tolist() == ["(constant)", "age", "dose"]
    assert np.array_equal(coefficients.values, fit.posterior_draws())
    assert float(data["posterior"]["residual_sd"].mean()) == pytest.approx(3.0 * 0.2, rel=0.2)
    assert data["constant_data"]["noisy_xtx"].shape == (3, 3)
    drawn = fit.posteriors_[0]
    for name, own in (("ess", drawn.ess), ("rhat", drawn.rhat)):
        theirs = getattr(arviz, name)(data, var_names=["coefficients"])
        table = theirs.get("posterior", theirs)
        raw = np.asarray(table["coefficients"].values)
        # of raw coefficients: slopes are scaled ones times a number, the intercept is a sum of several
        assert raw[1:] == pytest.approx(own[1:], rel=0.03 if name == "ess" else 1e-3)


def test_without_arviz_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(EstimationError, match="pip install arviz"):
        fitted().to_inference_data()
