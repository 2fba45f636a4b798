"""Bayesian linear regressions: one that knows the noise, and the published one that does not."""

import math
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.refinement_fit import RefinementFit
from analyst_client.estimators.telling import Columns
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.base import Bound
from analyst_client.inference.caveats import variance_warnings, weight_notes
from analyst_client.inference.corrected_posterior import draw_posterior
from analyst_client.inference.equations import Equations
from analyst_client.inference.evidence import Evidence
from analyst_client.inference.posterior import CoefficientDraws, PosteriorDraws, sample_plugin_posterior
from analyst_client.inference.prior import Prior
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.inference.shrinkage import normal_posterior
from analyst_client.inference.summary import number, numbers, percent_of
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement

SHORT_BY = 1.2


class PosteriorFit(LinearFit):
    """Base of Bayesian regressions: draws in raw units, credible intervals, diagnostics.

    Attributes
    ----------
    seed_ : int
        The seed of the draws, by chance where none was stated.
    """

    seed_: int

    def __init__(self, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: int | None = None) -> None:
        self.prior = prior
        self.draws = draws
        self.chains = chains
        self.seed = seed

    def _seed(self) -> int:
        """Return the seed, one by chance where none is stated: the same for all targets, and kept for `save`."""
        if "seed_" not in vars(self):
            self.seed_ = secrets.randbits(32) if self.seed is None else self.seed
        return self.seed_

    def _chosen(self) -> dict[str, Any]:
        return {"seed": self.seed_}

    @abstractmethod
    def _sample(self, equations: Equations) -> CoefficientDraws:
        """Draw from the posterior of one target."""

    def _solve(self, equations: Equations) -> Solution:
        drawn = self._sample(equations)
        self.penalty_ = 0.0
        flat = drawn.beta.reshape(-1, drawn.beta.shape[-1])
        mean, covariance = flat.mean(axis=0), np.atleast_2d(np.cov(flat.T))
        if not isinstance(drawn, PosteriorDraws):  # of a refinement: the gain of a normal law with this covariance
            scores = equations.sampling_covariance(equations.scale.variances) + equations.noise_covariance(mean)
            return Solution(mean, covariance @ np.linalg.solve(scores, equations.xtx).T, covariance, drawn)
        residual_variance = float(np.mean(1.0 / drawn.residual_precision))
        prior_variance = float(1.0 / np.mean(drawn.coefficient_precision))
        near = normal_posterior(equations, residual_variance, prior_variance)
        return Solution(mean, near.inverse, covariance, drawn)

    @property
    def posteriors_(self) -> tuple[Any, ...]:
        """Draws of each target, in scaled units: `PosteriorDraws`, of a refinement `CoefficientDraws`."""
        self._check_fitted()
        return tuple(results.solution.posterior for results in self.results_)

    def _drawn_of(self, results: TargetResults) -> Any:
        return self.posteriors_[self.results_.index(results)]

    def posterior_draws(self, target: str | None = None) -> FloatArray:
        """Return draws of the parameters in raw units, of shape (chains, draws, P)."""
        results = self._results_of(target)
        raw: FloatArray = self._drawn_of(results).beta @ results.contrasts.T + results.offsets
        return raw

    def _figures(self, results: Any, level: float, bound: Bound | None) -> tuple[Columns, list[str]]:
        if bound is not None:
            return super()._figures(results, level, bound)
        drawn, flat = self._drawn_of(results), self.posterior_draws(results.target.name).reshape(-1, len(results.names))
        low, high = results.posterior_interval(level).T
        columns = {"mean": flat.mean(axis=0), "sd": flat.std(axis=0), f"{percent_of(level)} from": low, "to": high}
        shown: dict[str, Sequence[str]] = {head: numbers(column.tolist()) for head, column in columns.items()}
        for head, column, form in (
            ("sd / prior", drawn.sd_ratio, ".2f"),
            ("ESS", drawn.ess, ".0f"),
            ("R̂", drawn.rhat, ".3f"),
        ):
            shown[head] = [f"{value:{form}}" for value in column]
        note = "sd / prior is how much of the prior's spread is left, in scaled units: near 0 the data speak."
        return list(shown.items()), [note, *weight_notes(results)]

    def _facts(self, results: Any, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        if bound is not None:
            return super()._facts(results, level, bound)
        drawn = self._drawn_of(results)
        if isinstance(drawn, PosteriorDraws):
            residuals = results.target.scale / np.sqrt(drawn.residual_precision)
            residual = f"{number(float(np.mean(residuals)))} ± {number(float(np.std(residuals)))}"
        else:  # of a refinement it is taken as known
            residual = number(math.sqrt(results.scale))
        chains, draws = drawn.beta.shape[:2]
        return [
            ("draws", f"{draws:,} in each of {chains} chains"),
            ("residual sd", residual),
            ("definite draws", f"{drawn.definite_share:.0%} of the latent XᵀX"),
        ]

    def to_inference_data(self, target: str | None = None) -> Any:
        """Return the draws for ArviZ: an `InferenceData`, or from version 1 of ArviZ a `DataTree`. Needs ArviZ.

        Groups: ``posterior`` with ``coefficients`` (raw units, dimension ``term``), ``residual_sd`` (raw units) and
        ``coefficient_precision`` (the prior's scaled units); ``constant_data`` with the released statistics. Of a
        refinement there is no ``residual_sd``, which is taken as known.
        """
        results = self._results_of(target)
        drawn = self._drawn_of(results)
        equations = results.equations
        posterior = {
            "coefficients": self.posterior_draws(target),
            "coefficient_precision": drawn.coefficient_precision,
        }
        if isinstance(drawn, PosteriorDraws):
            posterior["residual_sd"] = equations.target.scale / np.sqrt(drawn.residual_precision)
        released = {"noisy_xtx": equations.xtx, "noisy_xty": equations.xty}
        dims = {"coefficients": ["term"], "noisy_xtx": ["term", "other_term"], "noisy_xty": ["term"]}
        coords = {"term": list(results.names), "other_term": list(results.names)}
        return as_inference_data(posterior, released, coords, dims)


class BayesianRegression(RefinementFit, PosteriorFit):
    r"""Bayesian linear regression that knows the privacy noise.

    The exact statistics are latent: integrated out while the coefficients are drawn, and drawn given them; see
    `analyst_client.inference.posterior.sample_posterior`. Where the release says little the posterior is the prior's,
    and the fit says so. A refinement is fitted as a release is, by the equations of which `RefinedRegression` has
    intervals, see `analyst_client.inference.corrected_posterior.CorrectedModel`.

    Parameters
    ----------
    prior : Prior, optional
        Gamma priors on the precisions of residuals and of coefficients, in scaled units: of several releases those of
        the one that tells most. Of a refinement it is that of coefficients alone, in units of standardised columns and
        target; the residual variance is the one that scores tell.
    draws, chains : int
        Draws of each chain, and chains.
    seed : int, optional
        Of the local sampling; no privacy depends on it.

    Examples
    --------
    >>> from analyst_client import BayesianRegression, Release
    >>> release = Release.from_arrays(
    ...     [[900.0, 0.0], [0.0, 300.0]], [90.0, 150.0], 120.0, features=["age"], noise=5.0)
    >>> fit = BayesianRegression(seed=1).fit(release)
    >>> fit.coef_.round(1).tolist(), fit.posterior_draws().shape
    ([0.5], (4, 1000, 2))
    """

    _family: ClassVar[str] = "gaussian"

    _fit_releases = LinearFit._fit_releases

    def _fit_refinement(self, refinement: Refinement) -> None:
        terms, _ = self._take(refinement)
        found = self.refined_
        if not isinstance(found, Refined) or found.frame is None or found.gram is None:
            raise EstimationError(
                "the price was not enough for XᵀX, so there is no posterior; RefinedRegression has coef_ and predict. "
                "At a higher price, or with more rows, a refinement buys it"
            )
        target = replace(found.frame.target, name=refinement.problem.target.name)
        self._fit_equations([replace(corrected_equations(found), terms=terms, target=target)])
        self._keep_refined(refinement, self.results_[0])
        for text in variance_warnings(self.results_[0]):
            warn_caller(text, EstimationWarning)

    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        predicted = super()._predict(X, clip)
        return self.refined_.target.cut(predicted) if hasattr(self, "refined_") else predicted

    def _sample(self, equations: Equations) -> CoefficientDraws:
        return draw_posterior(equations, self.prior, self.draws, self.chains, self._seed())


class RobustPrivateRegression(PosteriorFit):
    """Robust private linear regression: a Bayesian fit that takes the noisy statistics for exact.

    The published method [1]_, [2]_, to reproduce results: ask for its release with ``rows="box", mechanism="laplace"``
    (and ``calibration="nieminen2017"`` for its own noise). Its intervals are too narrow, as nothing in it knows of the
    noise; `BayesianRegression` does. See `analyst_client.inference.posterior.sample_plugin_posterior`.

    Parameters
    ----------
    prior : Prior, optional
        Default the published one, ``Prior(2, 2, 2, 2)``.
    draws, chains : int
        Draws of each chain, and chains.
    seed : int, optional
        Of the local sampling; no privacy depends on it.

    References
    ----------
    .. [1] A. Nieminen, "Differentially private robust linear regression", 2017.
    .. [2] A. Honkela, M. Das, A. Nieminen, O. Dikmen, S. Kaski, "Efficient differentially private learning improves
       drug sensitivity prediction", Biology Direct 13, 2018.

    Examples
    --------
    >>> from analyst_client import Release, RobustPrivateRegression
    >>> release = Release.from_arrays(
    ...     [[900.0, 0.0], [0.0, 300.0]], [90.0, 150.0], 120.0, features=["age"], noise=5.0)
    >>> RobustPrivateRegression(seed=1).fit(release).coef_.round(1).tolist()
    [0.5]
    """

    def _sample(self, equations: Equations) -> PosteriorDraws:
        return sample_plugin_posterior(Evidence.of(equations), self.prior, self.draws, self.chains, self._seed())

    def _own_caveats(self, results: TargetResults) -> list[str]:
        """Compare its deviations with the standard errors of least squares, privacy noise included."""
        known = np.sum((results.contrasts @ results.equations.region.covariance()) * results.contrasts, axis=1)
        ratios = np.sqrt(known) / results.std_errors
        short = [(name, ratio) for name, ratio in zip(results.names, ratios, strict=True) if ratio > SHORT_BY]
        if not short:
            return []
        named = ", ".join(f"{name} by {ratio:.1f}" for name, ratio in short)
        return [
            "this posterior takes the released statistics for exact: with the privacy noise in them, least squares has "
            f"standard errors larger than its deviations, of {named} times. Its intervals miss the truth; those of "
            "BayesianRegression, and conf_int(method='fieller'), know the noise."
        ]


def as_inference_data(
    posterior: dict[str, FloatArray],
    released: dict[str, FloatArray],
    coords: dict[str, list[str]],
    dims: dict[str, list[str]],
) -> Any:
    """Return ArviZ's container, by whichever of its interfaces is installed."""
    try:
        arviz: Any = import_module("arviz")  # not in the base install, and two interfaces by one name
    except ImportError:
        raise EstimationError("this needs ArviZ: pip install arviz") from None
    groups = {"posterior": posterior, "constant_data": released}
    if int(arviz.__version__.split(".")[0]) >= 1:  # one mapping of groups
        return arviz.from_dict(groups, coords=coords, dims=dims)
    return arviz.from_dict(**groups, coords=coords, dims=dims)
