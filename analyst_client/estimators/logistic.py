"""Logistic regression from second-order statistics: scaled least squares, shrunk by what the noise is known to be."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, EstimationWarning
from analyst_client.estimators.base import Features, Releases, Rows
from analyst_client.estimators.combined import CombinedFit
from analyst_client.estimators.generalized import CASES_PER_TERM, GeneralizedFit, separation_warnings
from analyst_client.estimators.linalg import invert_symmetric
from analyst_client.estimators.linear import LinearFit
from analyst_client.estimators.telling import Columns
from analyst_client.estimators.warn import warn_caller
from analyst_client.inference.base import Bound, Points, Solved, TestResult
from analyst_client.inference.caveats import agreement_warnings, level_warnings
from analyst_client.inference.equations import Equations
from analyst_client.inference.heads import NOT_TOLD, head_of
from analyst_client.inference.normal_index import NODE_WEIGHTS, NODES, crossing, offset_of, sigmoid
from analyst_client.inference.pooling import as_releases
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.inference.shrinkage import WienerFilter
from analyst_client.inference.summary import HOLM_NOTE, number, p_columns
from analyst_client.kinds.gram.design import code
from analyst_client.refinement.refinement import Refinement
from analyst_client.schema.columns import Column, Term

SPREAD_MAX = 5.0
INDEX_SHARE = 0.5
LINEAR_LEVEL = 0.05
PROJECTION_NOTE = (
    "There are no standard errors: p-values are those of the linear projection, which is 0 where a coefficient is, for "
    "normal features."
)
PRIOR_VARIANCES = np.exp(np.linspace(-8.0, 5.0, 60))


class ShrunkProjection(LinearFit):
    r"""The linear projection of a target, each direction shrunk by how far the data stand out of the noise there.

    Attributes
    ----------
    gram_ : ndarray of shape (D, D)
        The pooled noisy XᵀX with its negative eigenvalues set to 0.
    base_rate_ : float
        Share of the target's rows that are true, as the noise tells; of weighted rows where these are weighted.

    Notes
    -----
    The noisy equations are :math:`\tilde b = \tilde A\theta + g` with privacy noise g of known covariance Ω(θ). Under
    the prior :math:`\theta \sim N(\theta_0, \tau^2 I)`, :math:`\theta_0 = (\bar y, 0, \dots, 0)`, the posterior mean is
    :math:`\theta_0` and what `WienerFilter` makes of :math:`\tilde b - \tilde A\theta_0`, averaged over τ² by its
    marginal likelihood, on a grid even in its logarithm. Ω is that at θ₀: taken at the
    estimate, again and again, it gained nothing on real data. Without noise nothing is shrunk: this is least squares.
    """

    gram_: FloatArray
    base_rate_: float

    def _solve(self, equations: Equations) -> Solution:
        check_boolean(equations)
        self.penalty_ = 0.0
        eigenvalues, vectors = np.linalg.eigh(equations.xtx)
        self.gram_ = A = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        self.base_rate_ = base_rate(float(A[0, 0]), float(equations.xty[0]))
        centre = np.zeros(len(A))
        centre[0] = self.base_rate_
        score = equations.xty - A @ centre
        inverse = shrunk_inverse(A, equations.noise_covariance(centre), score)
        return Solution(centre + inverse @ score, inverse)


class ProjectedResults(Points):
    """Log odds of a release: points, and tests that slopes are 0 by the linear projection.

    Parameters
    ----------
    linear : TargetResults
        Of the projection.
    scale, offset : float
        Log odds are these times the projection and more.
    """

    def __init__(self, linear: TargetResults, scale: float, offset: float) -> None:
        terms, target, theta, row_map, _ = linear.solved
        constant = np.eye(len(theta))[0]
        untold = (
            "a release of XᵀX tells no standard errors of log odds, as no interval would hold the bias of the "
            "approximation: client.refine(…, family='binomial') buys them. pvalues_, f_test() and anova() tell which "
            "coefficients are 0, by the linear projection"
        )
        super().__init__(Solved(terms, target, scale * theta + offset * constant, row_map), untold)
        self.linear = linear

    @property
    def tests(self) -> tuple[TestResult, ...]:
        """Tests of each slope being 0; the constant has none."""
        return (TestResult(math.nan, 1, math.nan, math.nan), *self.linear.tests[1:])

    def test(self, contrasts: FloatArray, values: FloatArray) -> TestResult:
        """Test that linear functions of slopes are 0: those of the projection are so where these are."""
        return self.told if np.any(values) or np.any(contrasts[:, 0]) else self.linear.test(contrasts, values)


class LogisticRegression(CombinedFit, GeneralizedFit):
    r"""Logistic regression of a boolean target, from a refinement, or from XᵀX and Xᵀy alone.

    On a refinement (`CuratorClient.refine` with ``family="binomial"``) it is maximum likelihood, by gradients that were
    bought one after another, with standard errors and intervals: see `GeneralizedFit`. On a release of XᵀX and Xᵀy it
    is an approximation. That needs a constant among the terms, and no yᵀy: a release without it has less noise in the
    others.

    Attributes
    ----------
    coef_ : ndarray of shape (D',)
        Log odds for one raw unit of each term beside the constant.
    intercept_ : float
        Log odds where all terms are 0.
    classes_ : ndarray of bool, of shape (2,)
        False and true: a release does not hold the labels of its target, `CuratorClient.dataset` does.
    base_rate_ : float
        Share of true values, of weighted rows where these are weighted. The mean of the fitted probabilities equals it
        under the normal law of the index. Of a refinement as it was told first.
    refined_ : RefinedGeneralized
        Answers of the releases of a refinement; only of one.
    hospitals_ : dict of str to LogisticRegression
        The fit of each hospital by itself; only of several refinements.
    scale_ : float
        Only of a release, as `linear_` and `spread_` are: c, by which the coefficients of the linear projection are
        multiplied.
    spread_ : float
        Standard deviation of the fitted log odds over rows.
    linear_ : LinearFit
        The linear projection. Its ``pvalues_`` test whether a term adds to a linear prediction by the others; its
        intervals are of probabilities, not of log odds.

    Notes
    -----
    For normal features the coefficients of a logistic regression are a multiple of those of least squares (Stein's
    identity) [1]_. Let :math:`\eta = x^\top\beta` with the slopes β of the linear projection, and m and v the mean and
    the variance of η, which XᵀX tells. Then :math:`\mathrm{cov}(\eta, y) = v`, and c and a solve the equations of
    maximum likelihood along η under its normal law:

    .. math:: E\,\sigma(a + c\eta) = \bar y, \qquad
       \mathrm{cov}(\eta, \sigma(a + c\eta)) = v, \quad\text{that is}\quad c\,E\,\sigma'(a + c\eta) = 1.

    Features far from normal bias c: fitted probabilities are then too sure or not sure enough, while their order
    stays that of the linear projection. See docs/glm.md, also for why PASS-GLM, the quadratic approximation of the
    likelihood [2]_, is this with c fixed beforehand.

    The standard deviation of cη is at most 5: beyond, no variance of η is large enough for a normal law (the classes
    are separated), or the noise made it so. Any release with a constant and a boolean target can be fitted.

    References
    ----------
    .. [1] M. Erdogdu, M. Bayati, L. Dicker, "Scaled least squares estimator for GLMs in large-scale problems", 2016.
    .. [2] J. Huggins, R. Adams, T. Broderick, "PASS-GLM: polynomial approximate sufficient statistics for scalable
       Bayesian GLM inference", 2017.

    Examples
    --------
    >>> from analyst_client import Column, LogisticRegression, Release
    >>> xtx, xty = [[100.0, 0.0], [0.0, 25.0]], [50.0, 5.0]
    >>> release = Release.from_arrays(xtx, xty, features=["age"], targets=[Column.boolean("ill")])
    >>> fit = LogisticRegression().fit(release)
    >>> fit.coef_.round(3).tolist(), round(fit.intercept_, 6)
    ([0.833], 0.0)
    >>> fit.predict([[-1.0], [1.0]]).tolist(), fit.predict_proba([[1.0]]).round(3).tolist()
    ([False, True], [[0.303, 0.697]])
    """

    _estimator_type: ClassVar[str] = "classifier"
    _family: ClassVar[str] = "binomial"
    _ratio: ClassVar[str] = "odds ratio"
    _link: ClassVar[str] = "the log odds of "
    _no_values: ClassVar[str] = (
        "a new value of a boolean is false or true, and has no interval: predict(X, interval='mean') has those of "
        "probabilities"
    )

    classes_: NDArray[np.bool_]
    base_rate_: float
    scale_: float
    spread_: float
    linear_: ShrunkProjection

    def _fit_releases(self, releases: Releases, target: str | None, features: Features, rows: Rows) -> None:
        first = as_releases(releases)[0]
        if target is None and len(first.targets) > 1:
            raise ValueError(f"the release has several targets: say which of {', '.join(first.target_names)}")
        linear = ShrunkProjection().fit(releases, target, features=features, rows=rows)
        theta = linear.scaled_coef_
        mean, variance = index_moments(linear.gram_, theta)
        offset, scale = solve_link(linear.base_rate_, variance)
        self._offset = offset - scale * mean
        self.linear_, self.base_rate_, self.scale_ = linear, linear.base_rate_, scale
        self.spread_, self.classes_ = scale * math.sqrt(variance), np.array([False, True])
        self._keep(
            [ProjectedResults(linear.results_[0], scale, self._offset)], linear.columns_, list(linear.feature_names_in_)
        )
        for text in link_warnings(self, linear.results_[0]):
            warn_caller(text, EstimationWarning)

    def _fit_refinement(self, refinement: Refinement) -> None:
        super()._fit_refinement(refinement)
        self.base_rate_, self.classes_ = self.refined_.rate, np.array([False, True])

    def _fit_refinements(self, refinements: Mapping[str, Refinement]) -> None:
        super()._fit_refinements(refinements)
        found = [one.refined_ for one in self.hospitals_.values()]
        rates, rows = [one.rate for one in found], [max(one.rows, 1.0) for one in found]
        self.base_rate_, self.classes_ = float(np.average(rates, weights=rows)), np.array([False, True])

    @property
    def _is_refined(self) -> bool:
        return not hasattr(self, "linear_")

    def _test_notes(self, results: Any) -> tuple[str, ...]:
        return super()._test_notes(results) if self._is_refined else (PROJECTION_NOTE,)

    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        if self._is_refined:
            return super()._caveats(results, level)
        found = link_warnings(self, results.linear)
        with suppress(EstimationError):  # without yᵀy nothing tests them
            pairs = zip(results.names[1:], results.pvalues[1:], strict=True)
            unsure = [name for name, p in pairs if p > LINEAR_LEVEL]
            if unsure:
                found.append(
                    f"the release does not tell the coefficients of {', '.join(unsure)} from 0 (p of the linear "
                    f"projection above {LINEAR_LEVEL:g}), however large their odds ratios look."
                )
        return (*found, *agreement_warnings(results.linear.equations), *level_warnings(results.linear.equations))

    def _head(self, results: Any) -> list[tuple[str, str]]:
        if self._is_refined:
            return super()._head(results)
        equations = results.linear.equations
        rate = NOT_TOLD if equations.people is None else number(self.base_rate_)
        return [*head_of(equations), ("base rate", rate), ("sd of the log odds", number(self.spread_))]

    def _figures(self, results: Any, level: float, bound: Bound | None) -> tuple[Columns, list[str]]:
        if self._is_refined:
            return super()._figures(results, level, bound)
        tested = [(f"{name} (linear)", texts) for name, texts in p_columns(results.pvalues, 1).items()]
        return [*self._points(results), *tested], [PROJECTION_NOTE, *[HOLM_NOTE] * (len(tested) > 1)]

    def _own_notes(self) -> tuple[str, ...]:
        return super()._own_notes() if self._is_refined else ("Odds ratios are for one raw unit.",)

    def decision_function(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Return log odds of true.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        clip : bool, optional
            As for `predict`.

        Returns
        -------
        ndarray of shape (n,)
            NaN for a row that misses a value that a prediction needs.
        """
        self._check_fitted()
        return self._predict(X, clip)

    def _predict(self, X: Any, clip: bool | None) -> FloatArray:
        if self._is_refined:
            return self._index(X, clip)
        odds: FloatArray = self._offset + self.scale_ * self.linear_.predict(X, clip)
        return odds

    def predict_proba(self, X: Any, clip: bool | None = None) -> FloatArray:
        """Return the probabilities of false and of true.

        Parameters
        ----------
        X : data frame, or array-like of shape (n, n_features_in_)
            As for `predict`.
        clip : bool, optional
            As for `predict`.

        Returns
        -------
        ndarray of shape (n, 2)
            NaN for a row that misses a value that a prediction needs.
        """
        odds = self.decision_function(X, clip)
        return np.column_stack([sigmoid(-odds), sigmoid(odds)])

    def _answer(self, X: Any, clip: bool | None) -> NDArray[np.bool_]:
        odds = self._predict(X, clip)
        if np.isnan(odds).any():
            raise ValueError("a row misses a value that a prediction needs: predict_proba gives NaN there")
        return odds > 0.0

    def _expect(self, X: Any, clip: bool | None) -> FloatArray:
        return self.predict_proba(X, clip)[:, 1]

    def _observed(self, y: ArrayLike) -> FloatArray:
        return code(Column.boolean("y"), np.asarray(y, dtype=object), clip=False)

    def _score(self, predicted: FloatArray, observed: FloatArray) -> float:
        if not len(observed):
            raise ValueError("no row has both a prediction and y")
        return float(np.mean((predicted > 0.0) == (observed == 1.0)))


def check_boolean(equations: Equations) -> None:
    """Raise `EstimationError` where equations do not tell of a boolean target and its mean."""
    target: Term = equations.target
    if target.kind != "boolean":
        raise EstimationError(
            f"a logistic regression needs a target that is declared boolean, and {target.name!r} is {target.kind}: "
            "ask the curator to declare it, or fit a linear regression"
        )
    if equations.combined:
        raise EstimationError(
            "a logistic regression of XᵀX needs terms, and the release is of combinations of these: ask for the terms "
            "themselves"
        )
    if not equations.has_constant:
        raise EstimationError("without a constant the release does not tell the base rate: ask with intercept=True")
    maps = [site.release.mapped_by for site in equations.sites]
    divided = next((row_map for row_map in maps if row_map.divides_targets), None)
    if divided is not None:
        raise EstimationError(
            f"rows mapped by {divided.name!r} have their target divided, so it is not boolean any more"
        )


def link_warnings(fit: LogisticRegression, results: TargetResults) -> list[str]:
    """Return where the normal law of the index is far from what the moments allow, or there is little to learn from."""
    found, equations, gram = [], results.equations, fit.linear_.gram_
    rows = max(float(gram[0, 0]), 1.0)
    cases = rows * min(fit.base_rate_, 1.0 - fit.base_rate_)
    noise = math.sqrt(float(equations.noise_covariance(np.zeros(len(gram)))[0, 0]))
    if cases < max(CASES_PER_TERM * len(gram), 3.0 * noise):
        found.append(
            f"the rarer class counts for about {cases:,.0f} rows, with noise of ± {noise:,.0f}: too few for "
            f"{len(gram)} terms."
        )
    found += separation_warnings("the log odds have", fit.spread_)
    theta, mean = fit.linear_.scaled_coef_, gram[0] / rows
    variance = np.maximum(np.diag(gram) / rows - mean**2, 0.0)
    whole = max(float(theta @ gram @ theta) / rows - float(mean @ theta) ** 2, 1e-300)
    odd = [
        term.name
        for term, own, center, spread in zip(equations.terms, theta**2 * variance / whole, mean, variance, strict=True)
        if own > INDEX_SHARE and fit.spread_ > 1.0 and is_skewed(term, float(center), float(spread))
    ]
    if odd:
        found.append(
            f"most of the log odds comes from {', '.join(odd)}, far from normal by its mean and variance: odds ratios "
            "can be far off. The order of predictions holds."
        )
    return found


def is_skewed(term: Term, mean: float, variance: float) -> bool:
    """Return whether a term cannot be near normal: it has two values, or is piled up at a bound of [−1, 1].

    Examples
    --------
    >>> age = Term("age", "numeric", "age", 50.0, 25.0)
    >>> is_skewed(age, 0.0, 0.1), is_skewed(age, -0.9, 0.05), is_skewed(Term("ill", "boolean", "ill"), 0.5, 0.25)
    (False, True, True)
    """
    if term.kind != "numeric":
        return term.kind != "constant"
    return abs(mean) <= 1.0 and 1.0 - abs(mean) < 1.5 * math.sqrt(variance)


def base_rate(rows: float, positives: float) -> float:
    """Return the share of true values, kept off 0 and 1 by a row where noise or rarity takes it there."""
    rows = max(rows, 1.0)
    least = 1.0 / (rows + 2.0)
    return min(max(positives / rows, least), 1.0 - least)


def shrunk_inverse(A: FloatArray, noise: FloatArray, score: FloatArray) -> FloatArray:
    """Return what the score is multiplied with, of shape (D, D); see the notes of `ShrunkProjection`.

    Examples
    --------
    >>> shrunk_inverse(np.diag([4.0, 2.0]), np.zeros((2, 2)), np.ones(2)).tolist()
    [[0.25, 0.0], [0.0, 0.5]]
    """
    level = float(np.trace(noise))
    if level <= 0.0:
        return invert_symmetric(A)
    wiener = WienerFilter(A, score, noise + np.eye(len(A)) * (1e-12 * level))
    log_likelihood = wiener.log_likelihood(PRIOR_VARIANCES)
    weights = np.exp(log_likelihood - np.max(log_likelihood))
    return wiener.inverse(PRIOR_VARIANCES, weights / np.sum(weights))


def index_moments(A: FloatArray, theta: FloatArray) -> tuple[float, float]:
    r"""Return mean and variance of :math:`x^\top\theta`, the constant included, from a semidefinite XᵀX."""
    rows = max(float(A[0, 0]), 1.0)
    mean = float(A[0] @ theta) / rows
    return mean, max(float(theta @ A @ theta) / rows - mean**2, 0.0)


def calibrate(rate: float, spread: float) -> float:
    r"""Return a with :math:`E\,\sigma(a + sZ) = \bar y` for a standard normal Z.

    Examples
    --------
    >>> round(calibrate(0.2, 0.0), 4), round(calibrate(0.2, 2.0), 4)
    (-1.3863, -2.2285)
    """
    return offset_of(sigmoid, logit, rate, spread)


def logit(rate: float) -> float:
    """Return the log odds of a rate in (0, 1)."""
    return math.log(rate / (1.0 - rate))


def solve_link(rate: float, variance: float) -> tuple[float, float]:
    r"""Return a and c with :math:`E\,\sigma(a + c\eta) = \bar y` and :math:`\mathrm{cov}(\eta, \sigma(a + c\eta)) = v`.

    Parameters
    ----------
    rate : float
        :math:`\bar y`, in (0, 1).
    variance : float
        v of a centred normal η, not negative.

    Notes
    -----
    With s = c√v the second equation is :math:`E\,Z\sigma(a(s) + sZ) = \sqrt v`, whose left side grows with s from 0 to
    the normal density at the quantile of the rate. Where it does not reach √v before s = 5, s is 5.

    Examples
    --------
    >>> a, c = solve_link(0.5, 0.01)
    >>> round(a, 6), round(c, 3)
    (0.0, 4.167)
    """
    sd = math.sqrt(variance)
    if sd < 1e-6:  # σ' is even to the first order
        return calibrate(rate, 0.0), 1.0 / (rate * (1.0 - rate))

    def excess(spread: float) -> float:
        return float(NODE_WEIGHTS @ (NODES * sigmoid(calibrate(rate, spread) + spread * NODES))) - sd

    spread = SPREAD_MAX if excess(SPREAD_MAX) <= 0.0 else crossing(excess, 0.0, SPREAD_MAX)
    return calibrate(rate, spread), spread / sd
