"""Bayesian linear regressions: one that knows the noise, and the published one that does not."""

from abc import abstractmethod
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.errors import EstimationError
from analyst_client.estimators.base import LinearFit
from analyst_client.inference.equations import Equations
from analyst_client.inference.evidence import Evidence
from analyst_client.inference.posterior import PosteriorDraws, sample_plugin_posterior, sample_posterior
from analyst_client.inference.prior import Prior
from analyst_client.inference.results import Bound, IntervalMethod, Solution, TargetResults
from analyst_client.inference.shrinkage import normal_posterior
from analyst_client.inference.summary import Summary, summarise_posterior

FloatArray = NDArray[np.float64]
SHORT_BY = 1.2


class PosteriorFit(LinearFit):
    """Base of Bayesian regressions: draws in raw units, credible intervals, diagnostics."""

    def __init__(self, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: int | None = None) -> None:
        self.prior = prior
        self.draws = draws
        self.chains = chains
        self.seed = seed

    @abstractmethod
    def _sample(self, equations: Equations) -> PosteriorDraws:
        """Draw from the posterior of one target."""

    def _solve(self, equations: Equations) -> Solution:
        drawn = self._sample(equations)
        self.penalty_ = 0.0
        flat = drawn.beta.reshape(-1, drawn.beta.shape[-1])
        residual_variance = float(np.mean(1.0 / drawn.residual_precision))
        prior_variance = float(1.0 / np.mean(drawn.coefficient_precision))
        near = normal_posterior(equations, residual_variance, prior_variance)
        return Solution(flat.mean(axis=0), near.inverse, np.atleast_2d(np.cov(flat.T)), drawn)

    @property
    def posteriors_(self) -> tuple[PosteriorDraws, ...]:
        """Draws of each target, in scaled units, with the latent exact statistics."""
        self._check_fitted()
        found = [results.solution.posterior for results in self.results_]
        return tuple(drawn for drawn in found if isinstance(drawn, PosteriorDraws))

    def _drawn_of(self, results: TargetResults) -> PosteriorDraws:
        return self.posteriors_[self.results_.index(results)]

    def posterior_draws(self, target: str | None = None) -> FloatArray:
        """Return draws of the parameters in raw units, of shape (chains, draws, P)."""
        results = self._results_of(target)
        raw: FloatArray = self._drawn_of(results).beta @ results.contrasts.T + results.offsets
        return raw

    def conf_int(
        self, alpha: float = 0.05, method: IntervalMethod = "posterior", bound: Bound | None = None
    ) -> FloatArray:
        """Return credible intervals, or with another `method` confidence intervals.

        Parameters
        ----------
        alpha : float
            1 less the probability, in (0, 1).
        method : str
            ``"posterior"`` are equal-tailed intervals of the draws; the others are those of `LinearFit.conf_int`.
        bound : float or mapping of str to float, optional
            As for `LinearFit.conf_int`, with ``"fieller"``.

        Returns
        -------
        ndarray of shape (P, 2) or (T, P, 2)
            Raw units.
        """
        return self._intervals(alpha, method, bound)

    def summary(self, alpha: float = 0.05, target: str | None = None, bound: Bound | None = None) -> Summary:
        """Return a table of posterior means, deviations and intervals, with what the draws are worth.

        Parameters
        ----------
        alpha : float
            1 less the probability, in (0, 1).
        target : str, optional
            One of the targets; needed where the fit has several.
        bound : float or mapping of str to float, optional
            The table is then that of the score test's intervals under it, which have no prior. Default none.

        Returns
        -------
        Summary
            Printed, it is text.
        """
        if bound is not None:
            return super().summary(alpha, target, bound)
        results = self._results_of(target)
        drawn = self._drawn_of(results)
        draws = self.posterior_draws(target)
        return summarise_posterior(repr(self), results, drawn, draws, alpha, self._own_caveats(results))

    def to_inference_data(self, target: str | None = None) -> Any:
        """Return the draws for ArviZ: an `InferenceData`, or from version 1 of ArviZ a `DataTree`. Needs ArviZ.

        Groups: ``posterior`` with ``coefficients`` (raw units, dimension ``term``), ``residual_sd`` (raw units) and
        ``coefficient_precision`` (the prior's scaled units); ``constant_data`` with the released statistics.
        """
        results = self._results_of(target)
        drawn = self._drawn_of(results)
        equations = results.equations
        posterior = {
            "coefficients": self.posterior_draws(target),
            "residual_sd": equations.target.scale / np.sqrt(drawn.residual_precision),
            "coefficient_precision": drawn.coefficient_precision,
        }
        released = {"noisy_xtx": equations.xtx, "noisy_xty": equations.xty}
        dims = {"coefficients": ["term"], "noisy_xtx": ["term", "other_term"], "noisy_xty": ["term"]}
        coords = {"term": list(results.names), "other_term": list(results.names)}
        return as_inference_data(posterior, released, coords, dims)


class BayesianRegression(PosteriorFit):
    r"""Bayesian linear regression that knows the privacy noise.

    The exact statistics are latent: integrated out while the coefficients are drawn, and drawn given them; see
    `analyst_client.inference.posterior.sample_posterior`. Where the release says little the posterior is the prior's,
    and the fit says so.

    Parameters
    ----------
    prior : Prior, optional
        Gamma priors on the precisions of residuals and of coefficients, in scaled units: of several releases those of
        the one that tells most.
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

    def _sample(self, equations: Equations) -> PosteriorDraws:
        return sample_posterior(Evidence.of(equations), self.prior, self.draws, self.chains, self.seed)


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
        return sample_plugin_posterior(Evidence.of(equations), self.prior, self.draws, self.chains, self.seed)

    def _own_caveats(self, results: TargetResults) -> list[str]:
        """Compare its deviations with the standard errors of least squares, privacy noise included."""
        known = np.sum((results.contrasts @ results.equations.region.covariance()) * results.contrasts, axis=1)
        ratios = np.sqrt(known) / results.bse
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
