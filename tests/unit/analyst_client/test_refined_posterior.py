"""The posterior of refined fits: its density and its draws, what they cover, and what is refused."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from analyst_client import (
    BayesianRegression,
    EstimationError,
    EstimationWarning,
    RefinedRegression,
    RobustPrivateRegression,
)
from analyst_client.inference import Prior
from analyst_client.inference.corrected_posterior import CorrectedModel, sample_corrected_posterior
from analyst_client.inference.equations import Equations
from analyst_client.inference.noise import CorrectedLaw
from analyst_client.refinement import GeneralizedRules, Refinement, RefinementRules
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from bench.ideal import IdealCurator
from bench.refined import least_squares
from bench.refined_posterior import Floats, coverage, weighted_draws

MU = 0.237
"""ε = 1 at δ = 10⁻⁶."""


def rows_of(n: int) -> Floats:
    generator = np.random.default_rng([7, n])
    x = generator.standard_normal((n, 3))
    return np.column_stack([x, x @ [0.6, -0.4, 0.3] + 0.7 * generator.standard_normal(n)])


@cache
def refinement_of(n: int, mu: float, *, predictions: bool = False) -> Refinement:
    curator = IdealCurator.of_rows(rows_of(n), [(-8.0, 6.0)] * 3 + [(-9.0, 8.0)], np.random.default_rng(n))
    return curator.refine(mu, RefinementRules.for_predictions() if predictions else None)


def equations_of(refinement: Refinement) -> Equations:
    found = refinement.found
    assert isinstance(found, Refined)
    return corrected_equations(found)


def quick_fit(refinement: Refinement, prior: Prior | None = None, draws: int = 20, seed: int = 1) -> BayesianRegression:
    """Fit with few draws, of which it warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        return BayesianRegression(prior, draws, chains=2, seed=seed).fit(refinement)


class TestDensity:
    def test_gradients_are_those_of_numerical_differences(self) -> None:
        model, step = CorrectedModel(equations_of(refinement_of(1000, MU)), Prior()), 1e-5
        around, factor = model.rough_posterior()
        generator = np.random.default_rng(1)
        near, far = around + generator.standard_normal((5, 4)) @ factor.T, generator.standard_normal((5, 4))
        for points in (near, far):
            _, gradient = model.log_density(points)
            moved = [model.log_density(points + side * step * np.eye(4)[j])[0] for j in range(4) for side in (1, -1)]
            differences = (np.array(moved[::2]) - np.array(moved[1::2])).T / (2.0 * step)
            assert gradient == pytest.approx(differences, rel=1e-5, abs=1e-5)

    def test_covariance_is_that_of_noise_and_of_sampling_in_the_law(self) -> None:
        equations = equations_of(refinement_of(1000, MU))
        model, (site,) = CorrectedModel(equations, Prior()), equations.sites
        gamma = np.array([0.3, 0.9, -0.7, 0.5])
        theta = model.units.origin + model.units.matrix @ gamma
        whole = equations.noise_covariance(theta) + equations.sampling_covariance(equations.scale.variances)
        found = model.covariance((model.turn @ gamma + model.shift)[np.newaxis])[0]
        assert site.to_common @ found @ site.to_common.T == pytest.approx(whole, rel=1e-9)

    def test_no_place_is_too_far_for_a_chain(self) -> None:
        model = CorrectedModel(equations_of(refinement_of(1000, MU)), Prior())
        value, gradient = model.log_density(np.array([[np.nan] * 4, [np.inf] * 4, [1e5] * 4]))
        assert np.all(value == -np.inf)
        assert not gradient.any()


class TestDraws:
    def test_exact_xtx_solves_the_equations_where_it_alone_is_unsure(self) -> None:
        model, generator = CorrectedModel(equations_of(refinement_of(1000, MU)), Prior()), np.random.default_rng(1)
        model.rest = 1e-9 * model.rest
        gamma = generator.standard_normal((50, 4))
        delta = gamma @ model.turn.T + model.shift
        exact = model.sample_xtx(gamma, generator)
        assert exact == pytest.approx(exact.swapaxes(1, 2))
        off = np.einsum("nij,nj->ni", exact, delta) - model.score
        assert np.abs(off).max() < 1e-3 * np.abs(delta @ model.xtx - model.score).max()

    def test_much_budget_leaves_least_squares(self) -> None:
        fit = BayesianRegression(seed=1).fit(refinement_of(5000, 60.0))
        coefficients, _ = least_squares(rows := rows_of(5000))
        X = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        variance = np.sum((rows[:, -1] - X @ coefficients) ** 2) / (len(rows) - 4)
        errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
        draws = fit.posterior_draws().reshape(-1, 4)
        assert np.abs(draws.mean(axis=0) - coefficients).max() < 0.1 * errors.min()
        assert draws.std(axis=0) == pytest.approx(errors, rel=0.06)
        assert fit.params_ == pytest.approx(draws.mean(axis=0))
        assert np.max(fit.posteriors_[0].rhat) < 1.01

    @pytest.mark.simulations
    def test_chains_agree_with_weighted_draws_where_noise_matters(self) -> None:
        equations = equations_of(refinement_of(400, 0.15))
        drawn = sample_corrected_posterior(equations, draws=1500, seed=1)
        model = CorrectedModel(equations, Prior())
        gamma, weights = weighted_draws(model, np.random.default_rng(2), 20_000)
        beta = model.units.origin + gamma @ model.units.matrix.T
        mean = weights @ beta
        sd = np.sqrt(weights @ (beta - mean) ** 2)
        flat = drawn.beta.reshape(-1, 4)
        assert np.max(drawn.sd_ratio) > 0.1  # the noise does matter
        assert np.all(np.abs(flat.mean(axis=0) - mean) < 0.1 * sd)
        assert flat.std(axis=0) == pytest.approx(sd, rel=0.1)

    def test_noise_that_outweighs_the_rows_leaves_the_prior_and_says_so(self) -> None:
        equations = equations_of(refinement_of(1000, MU))
        (site,) = equations.sites
        law = site.corrected
        assert isinstance(law, CorrectedLaw)
        noisier = replace(law, xtx=1e6 * law.xtx, score=1e6 * law.score)
        drawn = sample_corrected_posterior(
            replace(equations, sites=(replace(site, corrected=noisier),)), draws=250, seed=3
        )
        assert drawn.definite_share < 0.5
        assert drawn.prior_dominated.all()

    def test_a_small_prior_shrinks(self) -> None:
        wide, narrow = (
            quick_fit(refinement_of(1000, MU), prior, draws=100)
            for prior in (None, Prior(coefficient_shape=1e4, coefficient_rate=1.0))
        )
        assert np.all(np.abs(narrow.coef_) < 0.3 * np.abs(wide.coef_))

    def test_a_seed_repeats_the_draws(self) -> None:
        first, second, other = (quick_fit(refinement_of(1000, MU), seed=seed).posterior_draws() for seed in (1, 1, 2))
        assert first.shape == (2, 20, 4)
        assert np.array_equal(first, second)
        assert not np.array_equal(first, other)


@pytest.mark.simulations
class TestCalibration:
    """Credible intervals hold coefficients that were drawn from the prior as often as they say."""

    def test_of_equations_drawn_from_their_own_law(self) -> None:
        equations = equations_of(refinement_of(2000, MU))
        (site,), repeats, generator = equations.sites, 300, np.random.default_rng(5)
        law, units, prior = site.corrected, equations.standard, Prior()
        assert isinstance(law, CorrectedLaw)
        assert units is not None
        T, sampling = site.to_common, equations.sampling_covariance(equations.scale.variances)
        exact = np.linalg.solve(T, np.linalg.solve(T, site.xtx).T)
        held = []
        for _ in range(repeats):
            lam = generator.gamma(prior.coefficient_shape, 1.0 / prior.coefficient_rate)
            gamma = generator.standard_normal(4) * np.append(prior.constant_sd, np.full(3, lam**-0.5))
            theta = units.origin + units.matrix @ gamma
            (E,), (e,) = law.draw(generator, 1)
            xty = T @ (exact @ site.own(theta) + e) + generator.multivariate_normal(np.zeros(4), sampling)
            own = replace(site, xtx=T @ (exact + E) @ T.T, xty=xty)
            model = CorrectedModel(replace(equations, sites=(own,)), prior)
            drawn, weights = weighted_draws(model, generator)
            below = weights @ (drawn < gamma)
            held.append(np.mean((below > 0.025) & (below < 0.975)))
        assert abs(np.mean(held) - 0.95) < 3.0 * np.std(held) / np.sqrt(repeats)

    def test_of_refinements_with_ideal_noise(self) -> None:
        share, error, left, count = coverage(200, 5000, 3, MU)
        assert count == 200
        assert left > 0.01  # the prior is felt
        assert abs(share[2] - 0.95) < 3.0 * error[2]


class TestFit:
    def test_all_that_a_posterior_of_releases_has(self) -> None:
        refinement = refinement_of(1000, MU)
        fit = quick_fit(refinement, draws=100)
        interval = fit.conf_int()
        drawn = fit.posterior_draws().reshape(-1, 4)
        assert interval == pytest.approx(np.quantile(drawn, [0.025, 0.975], axis=0).T)
        refined = RefinedRegression().fit(refinement)
        assert fit.conf_int(method="fieller") == pytest.approx(refined.conf_int())
        assert fit.std_errors_ == pytest.approx(fit.posterior_draws().reshape(-1, 4).std(axis=0), rel=0.01)
        assert list(fit.feature_names_in_) == ["x1", "x2", "x3"]
        assert list(fit.target_names_) == ["y"]
        assert fit.predict({"x1": [0.0], "x2": [0.0], "x3": [0.0]}) == pytest.approx([fit.intercept_])
        text = str(fit.summary())
        assert "ESS" in text
        assert "residual sd" in text
        assert "beyond its declared bounds" not in text

    def test_arviz_takes_it(self) -> None:
        pytest.importorskip("arviz")
        data = quick_fit(refinement_of(1000, MU)).to_inference_data()
        assert data["posterior"]["coefficients"].shape == (2, 20, 4)
        assert "residual_sd" not in data["posterior"]

    @pytest.mark.usefixtures("few_draws")
    @pytest.mark.filterwarnings("ignore:the chains have not mixed")
    def test_a_refined_regression_has_its_intervals_by_name(self) -> None:
        refinement = refinement_of(1000, MU)
        found = RefinedRegression().fit(refinement).conf_int(method="posterior")
        assert found == pytest.approx(BayesianRegression(draws=300, seed=0).fit(refinement).conf_int())

    def test_predictions_stay_within_what_was_found_of_the_target(self) -> None:
        fit = quick_fit(refinement_of(1000, MU))
        assert fit.predict([[1e3, -1e3, 1e3]], clip=False) == pytest.approx([fit.refined_.target.high])


class TestRefusals:
    def test_columns_that_were_cut_for_predictions(self) -> None:
        with pytest.raises(EstimationError, match="columns were cut"):
            BayesianRegression().fit(refinement_of(1000, MU, predictions=True))

    def test_a_price_that_bought_no_xtx(self) -> None:
        with pytest.raises(EstimationError, match="the price was not enough for XᵀX"):
            BayesianRegression().fit(refinement_of(60, MU))

    @pytest.mark.parametrize("stated", [{"target": "y"}, {"features": ["x1"]}, {"rows": 1000.0}])
    def test_what_a_refinement_has_already(self, stated: dict[str, object]) -> None:
        with pytest.raises(ValueError, match=r"fit\(refinement\) takes nothing else"):
            BayesianRegression().fit(refinement_of(1000, MU), **stated)  # type: ignore[arg-type]

    def test_another_family(self) -> None:
        rows = rows_of(1000)
        rows[:, -1] = rows[:, -1] > 0.0
        curator = IdealCurator.of_rows(rows, [*[(-8.0, 6.0)] * 3, None], np.random.default_rng(1))
        refinement = curator.refine(MU, GeneralizedRules(), family="binomial")
        with pytest.raises(ValueError, match="fit it with LogisticRegression"):
            BayesianRegression().fit(refinement)

    def test_too_few_draws(self) -> None:
        with pytest.raises(ValueError, match="4 draws and 2 chains"):
            BayesianRegression(draws=2).fit(refinement_of(1000, MU))

    def test_a_posterior_that_takes_statistics_for_exact(self) -> None:
        with pytest.raises(ValueError, match="is fitted on releases"):
            RobustPrivateRegression().fit(refinement_of(1000, MU))  # type: ignore[arg-type]
