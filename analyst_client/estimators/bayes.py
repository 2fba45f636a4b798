"""Bayesian linear regressions: one that knows the noise, and the published one that does not."""

from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import LinearFit
from analyst_client.estimators.refinement_fit import check_family, feature_columns, read_columns
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.corrected_posterior import draw_posterior
from analyst_client.inference.equations import Equations
from analyst_client.inference.evidence import Evidence
from analyst_client.inference.multiplicity import Family
from analyst_client.inference.posterior import CoefficientDraws, PosteriorDraws, sample_plugin_posterior
from analyst_client.inference.prior import Prior
from analyst_client.inference.results import Bound, IntervalMethod, Solution, TargetResults
from analyst_client.inference.shrinkage import normal_posterior
from analyst_client.inference.summary import Summary, summarise_posterior, variance_warnings
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement

SHORT_BY = 1.2


class PosteriorFit(LinearFit):
    """Base of Bayesian regressions: draws in raw units, credible intervals, diagnostics."""

    def __init__(self, prior: Prior | None = None, draws: int = 1000, chains: int = 4, seed: int | None = None) -> None:
        self.prior = prior
        self.draws = draws
        self.chains = chains
        self.seed = seed

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

    @takes_level
    def conf_int(
        self,
        level: float = 0.95,
        method: IntervalMethod = "posterior",
        bound: Bound | None = None,
        *,
        simultaneous: bool | Family = False,
    ) -> FloatArray:
        """Return credible intervals, or with another `method` confidence intervals.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        method : str
            ``"posterior"`` are equal-tailed intervals of the draws; the others are those of `LinearFit.conf_int`.
        bound : float or mapping of str to float, optional
            As for `LinearFit.conf_int`, with ``"fieller"``.
        simultaneous : bool or str
            As for `LinearFit.conf_int`, with ``"fieller"`` or ``"delta"``.

        Returns
        -------
        ndarray of shape (P, 2) or (T, P, 2)
            Raw units.
        """
        return self._intervals(level, method, bound, simultaneous)

    @takes_level
    def summary(self, level: float = 0.95, target: str | None = None, bound: Bound | None = None) -> Summary:
        """Return a table of posterior means, deviations and intervals, with what the draws are worth.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
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
            return super().summary(level, target, bound)
        results = self._results_of(target)
        drawn = self._drawn_of(results)
        draws = self.posterior_draws(target)
        return summarise_posterior(repr(self), results, drawn, draws, level, self._own_caveats(results), self._spent())

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


class BayesianRegression(PosteriorFit):
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

    def fit(
        self,
        releases: Refinement | Release | Sequence[Release],
        target: str | None = None,
        *,
        features: Sequence[str] | None = None,
        rows: float | Sequence[float] | None = None,
    ) -> Self:
        """Fit on a refinement; or on a release, or several that tell of the same terms: each is weighted by its noise.

        Parameters
        ----------
        releases : Refinement, Release or sequence of Release
            Releases: one for each hospital; bounds, scalings and noise may differ. See
            `analyst_client.inference.pooling.pool`.
        target : str, optional
            Of releases. One of the targets, or of the features. Default all targets.
        features : sequence of str, optional
            Of releases. Columns that explain, at no further cost. Default all but the target; see `Release.select`.
        rows : float or sequence of float, optional
            Number of rows of each release, for inference where it has no constant to tell.

        Returns
        -------
        Self
            The estimator, fitted.

        Raises
        ------
        EstimationError
            When the releases do not determine the fit, or one of them cannot be sums over rows. When the price of a
            refinement did not buy XᵀX.
        ValueError
            When a hyper-parameter is out of range, there is no such target, or releases do not fit together. When a
            refinement is of another family, or given with a target, features or rows, which it has already.

        Warns
        -----
        EstimationWarning
            When a posterior is mostly the prior's, or its chains have not mixed. When releases do not tell of the same
            coefficients, or the target took part in the weights of the rows. When a refinement's rules were for
            predictions, and intervals may be too short. See also `caveats`.
        """
        if isinstance(releases, Refinement):
            return self._fit_refinement(releases, (target, features, rows))
        super().fit(releases, target, features=features, rows=rows)
        self.__dict__.pop("refined_", None)
        return self

    def _fit_refinement(self, refinement: Refinement, stated: tuple[object, ...]) -> Self:
        if any(one is not None for one in stated):
            raise ValueError("a refinement is of one target and its features: fit(refinement) takes nothing else")
        check_family(refinement, "gaussian")
        found = refinement.found
        if not isinstance(found, Refined) or found.frame is None or found.gram is None:
            raise EstimationError(
                "the price was not enough for XᵀX, so there is no posterior; RefinedRegression has coef_ and predict. "
                "At a higher price, or with more rows, a refinement buys it"
            )
        self._fit_equations([corrected_equations(found)])
        self.refined_, self.row_map_, self.columns_ = found, None, read_columns(refinement, found.frame)
        self.target_names_ = np.array([refinement.problem.target.name], dtype=object)
        self.feature_names_in_ = np.array(feature_columns(refinement), dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        for text in variance_warnings(self.results_[0]):
            warn_caller(text, EstimationWarning)
        return self

    def predict(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Predict targets in their raw units; of a refinement, within the range that it found for the target.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            Raw units, as for other fits.
        clip : bool, optional
            As for other fits. Numbers are cut to the ranges that a refinement found for them either way.

        Returns
        -------
        ndarray of shape (n,) or (n, T)
            NaN for a row that misses a column declared `omit` or `complete`.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number.
        """
        predicted = super().predict(X, clip)
        return self.refined_.target.cut(predicted) if hasattr(self, "refined_") else predicted

    def _sample(self, equations: Equations) -> CoefficientDraws:
        return draw_posterior(equations, self.prior, self.draws, self.chains, self.seed)


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
