"""Noisy normal equations of one target, from one release or several, in one set of scaled units."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.noise import LAPLACE_EXCESS_KURTOSIS, NoiseLaw
from analyst_client.inference.quantiles import variance_points
from analyst_client.inference.score import ScoreRegion, ScoreView
from analyst_client.inference.sums import ResidualSums
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import Column, Term

SCALE_POINTS = 24
"""Equally likely values that stand for a residual variance which the privacy noise leaves uncertain."""


class StandardUnits(NamedTuple):
    r"""Coefficients γ of columns that are centred and scaled to a variance of 1: :math:`\theta = \theta_0 + U\gamma`.

    Attributes
    ----------
    matrix : ndarray of shape (D, D)
        U. The first coordinate of γ is the constant's.
    origin : ndarray of shape (D,)
        :math:`\theta_0`, which predicts the mean of the target, as far as is known, and nothing of terms.
    """

    matrix: FloatArray
    origin: FloatArray


@dataclass(frozen=True, eq=False)
class Site:
    r"""The equations of one release, in the units that all sites of a fit share.

    Attributes
    ----------
    release : Release
    xtx : ndarray of shape (D, D)
    xty : ndarray of shape (D,)
    yty : float or None
    rows : float or None
        Σw²: the constant's own entry; without a constant what the analyst states, or None.
    to_common : ndarray of shape (D, D)
        T: common terms are T times the release's own, and behind these as many others as it has no row of.
    target_scale, target_shift : float
        r and q: the common target is r times the release's own plus q.
    overlap : int
        How many releases of the fit are of the same population, this one included: their rows may be the same.
    variance : float or None
        Residual variance of public rows, which they tell by themselves; None for a hospital's.
    corrected : NoiseLaw or None
        The law of the noise where it is not that of the release: of a refined fit.
    spread : ndarray of shape (D, D) or None
        The sampling covariance of its score over s².
    sums : ResidualSums or None
        What tells residuals and R² by itself, of a refined fit; `yty` is then of other rows.

    Notes
    -----
    With own statistics A, b, c: :math:`TAT^\top`, :math:`T(rb + qA_0)` and :math:`r^2c + 2rqb_0 + q^2A_{00}`, where 0
    is the constant. A coefficient vector θ stands for the own :math:`\beta = (T^\top\theta - qe_0)/r`, and scores
    and residual sums carry over: :math:`g = rT\,g_{own}(\beta)`, :math:`\mathrm{RSS} = r^2\,\mathrm{RSS}_{own}(\beta)`.
    """

    release: Release
    xtx: FloatArray
    xty: FloatArray
    yty: float | None
    rows: float | None
    to_common: FloatArray
    target_scale: float
    target_shift: float
    overlap: int = 1
    variance: float | None = None
    corrected: NoiseLaw | None = None
    spread: FloatArray | None = None
    sums: ResidualSums | None = None

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise in the release's own units. Raise `EstimationError` when it is not stated."""
        if self.corrected is not None:
            return self.corrected
        return NoiseLaw.of(self.release.noise, len(self.xty) - self.gaps).padded(self.gaps)

    @property
    def gaps(self) -> int:
        """How many directions of the common terms no row of the release has: those of levels that it does not declare.

        Its own statistics are 0 there, exactly and without noise.
        """
        return 0 if self.corrected is not None else len(self.xty) - len(self.release.terms)

    @property
    def seen(self) -> FloatArray:
        """An orthonormal basis of the directions that its rows may have, of shape (D, D - gaps)."""
        d = len(self.xty)
        return np.eye(d) if not self.gaps else np.linalg.qr(self.to_common[:, : d - self.gaps])[0]

    @property
    def sampling(self) -> FloatArray:
        r"""A bound of the sampling covariance of the score within a sum of sites, over s², of shape (D, D).

        It is A, `overlap` times over where other releases may have the same rows.

        Notes
        -----
        Weights w ≤ 1 that depend on x alone, those of the row map ``ball``, make the covariance :math:`s^2M` with
        :math:`M = \sum w^4xx^\top`, and :math:`0 \preceq M \preceq A = \sum w^2xx^\top`. The release does not tell
        where between the two: rows near the centers, whose weight is 1, may be the only ones in which a term varies. So
        A is the least bound that holds for all rows. It moves with A when terms are moved or scaled, so standard errors
        do not depend on where bounds are centred. How much larger than needed it is: ``bench/weights.py``.
        """
        return self.overlap * (self.xtx if self.spread is None else self.spread)

    def own(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients in the release's own units."""
        beta: FloatArray = self.to_common.T @ theta
        beta[0] -= self.target_shift
        return beta / self.target_scale

    def noise_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the covariance of the privacy noise in the score at θ, of shape (D, D)."""
        own = self.law.covariance(self.own(theta))
        covariance: FloatArray = self.target_scale**2 * (self.to_common @ own @ self.to_common.T)
        return covariance

    def noise_form(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return N and l: :math:`\mathrm{tr}(ZC(\theta)) = \theta^\top N\theta + 2l^\top\theta` + constant."""
        N, linear = self.law.quadratic_form(self.target_scale**2 * (self.to_common.T @ Z @ self.to_common))
        N, linear = self.to_common @ N / self.target_scale**2, self.to_common @ linear / self.target_scale
        return N @ self.to_common.T, linear - self.target_shift * N[:, 0]

    def directions(self, directions: FloatArray) -> FloatArray:
        """Return the rows u of ``directions``, which weigh the common score, as weights of the own score."""
        own: FloatArray = self.target_scale * (directions @ self.to_common)
        return own

    def residual_sum(self, theta: FloatArray) -> float:
        """Return the noisy residual sum of squares at θ. Raise `EstimationError` without yᵀy."""
        if self.yty is None:
            raise EstimationError("the residual scale needs yᵀy: ask for the statistic 'yty'")
        return float(self.yty - 2.0 * self.xty @ theta + theta @ self.xtx @ theta)

    def residual_sum_covariance(self, theta: FloatArray, other: FloatArray) -> float:
        """Return the covariance of the privacy noise in the residual sums at two coefficient vectors."""
        return self.target_scale**4 * self.law.residual_sum_covariance(self.own(theta), self.own(other))


@dataclass(frozen=True, eq=False)
class ResidualScale:
    """Residual variances, in scaled units.

    Attributes
    ----------
    variances : ndarray of shape (K,)
        s² of each site. Not negative: where the noise leaves it uncertain, the mean of a normal law around the estimate
        that is cut off at 0.
    unbiased : ndarray of shape (K,)
        The estimates themselves, which may be below 0.
    noise_sd : ndarray of shape (K,)
        Standard deviation of the privacy noise in each.
    dof : float
        Rows that s² is estimated from, less coefficients.
    """

    variances: FloatArray
    unbiased: FloatArray
    noise_sd: FloatArray
    dof: float


@dataclass(frozen=True, eq=False)
class Equations:
    r"""The weighted sum of several sites' noisy equations: :math:`\sum_k w_k\tilde A_k\theta = \sum_k w_k\tilde b_k`.

    Attributes
    ----------
    sites : tuple of Site
    weights : ndarray of shape (K,)
        w, the largest 1.
    slopes : ndarray of shape (K,)
        How fast each weight grows with the site's own noisy count, see `xtx`.
    hospitals : Equations or None
        Those of the hospitals alone, where public rows take part.
    standard : StandardUnits or None
        Where they are known: of a refined fit.
    columns : tuple of Column
    terms : tuple of Term
    target : Term
    """

    sites: tuple[Site, ...]
    weights: FloatArray
    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    target: Term
    slopes: FloatArray | None = None
    hospitals: "Equations | None" = None
    standard: StandardUnits | None = None

    def of_contrasts(self, contrasts: FloatArray) -> "Equations":
        """Return the equations from which contrasts are inferred: of several coefficients, the hospitals' alone.

        What is borrowed from public rows is bounded coefficient by coefficient. In a sum of them small shifts would
        add up, and so would luck in which ones are borrowed.
        """
        several = len(contrasts) > 1 or np.count_nonzero(contrasts) > 1
        return self.hospitals if several and self.hospitals is not None else self

    @property
    def has_constant(self) -> bool:
        """True if the first term is the constant."""
        return self.terms[0].kind == "constant"

    @property
    def penalised(self) -> FloatArray:
        """1 for a term, 0 for the constant, of shape (D,)."""
        return np.array([float(term.kind != "constant") for term in self.terms])

    @property
    def combined(self) -> tuple[Term, ...]:
        """The terms that `terms` are combinations of, the same at all sites; else none, and none of a refined fit."""
        return () if self.sites[0].corrected is not None else self.sites[0].release.combined

    @property
    def combinations(self) -> FloatArray | None:
        """The weights of these in the combinations, of shape (D', D); see `Release`."""
        return self.sites[0].release.combinations if self.combined else None

    @property
    def constant_form(self) -> FloatArray | None:
        """Weights of the terms that add up to the constant, of shape (D,); None where none do."""
        return np.eye(len(self.terms))[0] if self.has_constant else self.sites[0].release.constant_form

    @property
    def row_map(self) -> str | None:
        """The row map of all curators; None where they used different ones that leave the model as it is."""
        maps = {site.release.row_map for site in self.sites}
        return maps.pop() if len(maps) == 1 else None

    @cached_property
    def xtx(self) -> FloatArray:
        r"""The pooled noisy XᵀX, of shape (D, D).

        A weight that grows with the site's noisy count is the larger the larger that count's own noise :math:`E_{00}`
        was: :math:`E[w(n + E_{00})E_{00}] = v_{00}E[w']` (Stein's lemma), which is taken off again, here and in `xty`.
        """
        pooled = weighted_sum(self.weights, [site.xtx for site in self.sites])
        for excess, site in self._excess_counts:
            first = site.to_common[:, 0]
            pooled = pooled - excess * np.outer(first, first)
        return pooled

    @cached_property
    def xty(self) -> FloatArray:
        """The pooled noisy Xᵀy, of shape (D,)."""
        pooled = weighted_sum(self.weights, [site.xty for site in self.sites])
        for excess, site in self._excess_counts:
            pooled = pooled - excess * site.target_shift * site.to_common[:, 0]
        return pooled

    @property
    def _excess_counts(self) -> list[tuple[float, Site]]:
        """Return the mean number of rows that each site's noise adds through its weight."""
        if self.slopes is None:
            return []
        pairs = zip(self.slopes, self.sites, strict=True)
        return [(float(slope * site.law.xtx[0, 0]), site) for slope, site in pairs if slope != 0.0]

    @cached_property
    def rows(self) -> float:
        """Σw² of all sites' rows, as far as the noise tells. Raise `EstimationError` where it is not known."""
        rows = [site.rows for site in self.sites]
        if any(count is None for count in rows):
            raise EstimationError(
                "without a constant the release does not tell how many rows there are: ask with intercept=True, "
                "or state rows= when fitting"
            )
        return float(sum(max(site.rows or 0.0, 0.0) / site.overlap for site in self.sites))

    @property
    def counts_alike(self) -> bool:
        """True if every row counts for 1. Scores of a refined fit are of all rows alike."""
        return all(site.release.weighting is None or site.corrected is not None for site in self.sites)

    @property
    def people(self) -> float | None:
        """The number of rows, up to noise; None where rows are weighted, or nothing counts them."""
        counted = self.counts_alike and all(site.rows is not None for site in self.sites)
        return self.rows if counted else None

    @cached_property
    def solution(self) -> FloatArray:
        """The solution θ of the pooled equations, of shape (D,). Raise `EstimationError` when they are singular."""
        try:
            solution = np.asarray(np.linalg.solve(self.xtx, self.xty), dtype=np.float64)
        except np.linalg.LinAlgError:
            solution = np.full(len(self.xty), np.nan)
        if not np.isfinite(solution).all() or np.linalg.cond(self.xtx) * np.finfo(np.float64).eps > 0.1:
            raise EstimationError("XᵀX is singular: some term is a sum of others, so its coefficient is not determined")
        return solution

    def sampling_covariance(self, variances: FloatArray) -> FloatArray:
        r"""Return :math:`\sum_k w_k^2 s_k^2S_k` with each site's `Site.sampling` S, semidefinite, of shape (D, D).

        Releases of one population share rows, so their sampling errors do not average out: of m of them the sum has at
        most m times the covariance that independent ones would have, and just that where all rows are the same.
        """
        return _nearest_semidefinite(weighted_sum(self.weights**2 * variances, [site.sampling for site in self.sites]))

    def noise_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the covariance of the privacy noise in the pooled score at θ, of shape (D, D)."""
        return weighted_sum(self.weights**2, [site.noise_covariance(theta) for site in self.sites])

    @cached_property
    def scale(self) -> ResidualScale:
        """The residual scale at the solution, see `residual_scale`."""
        return residual_scale(self, self.solution)

    @cached_property
    def residual_variance(self) -> tuple[float, float]:
        """The residual variance of all rows, and the deviation of its noise: of hospitals', where there are any.

        Of several it is the mean over their rows. A refined fit tells it by itself.
        """
        sums, scale = self.sites[0].sums, self.scale
        if sums is not None:
            return (sums.residual - sums.excess) / sums.rows, math.sqrt(sums.covariance[0, 0]) / sums.rows
        hospitals = [k for k, site in enumerate(self.sites) if site.variance is None] or [0]
        rows = np.maximum([self.sites[k].rows or 0.0 for k in hospitals], 0.0)
        shares = rows / rows.sum() if rows.any() else np.full(len(rows), 1.0 / len(rows))
        return float(shares @ scale.unbiased[hospitals]), float(np.sqrt(shares**2 @ scale.noise_sd[hospitals] ** 2))

    @property
    def is_biased(self) -> bool:
        """True if the target took part in the weights of some rows: then only points can be estimated."""
        return any(site.release.weights_target for site in self.sites)

    def check_unbiased(self) -> None:
        """Raise `EstimationError` where nothing can be inferred but points."""
        if self.is_biased:
            raise EstimationError(
                f"{self.target.name} took part in the weights of the rows, so a fit of it is biased, and no interval, "
                "standard error or test of it holds; coef_ and predict are there. Ask the curator for it as the "
                "target, or for a release with rows='box'"
            )

    @cached_property
    def covariance(self) -> FloatArray:
        """Ω, the covariance of the pooled score at the solution: sampling and privacy noise, of shape (D, D).

        Raise `EstimationError` where the target took part in the weights of rows.
        """
        self.check_unbiased()
        return self.sampling_covariance(self.scale.variances) + self.noise_covariance(self.solution)

    @cached_property
    def region(self) -> ScoreRegion:
        """The confidence region of all coefficients together."""
        return self.region_of(self.xtx)

    def region_along(self, contrasts: FloatArray) -> ScoreRegion:
        """Return the region of the values of some linear functions of the coefficients, of shape (q, D)."""
        return self.region_of(self.xtx, contrasts)

    def region_of(self, xtx: FloatArray, contrasts: FloatArray | None = None) -> ScoreRegion:
        """Return the region that another matrix would give with the same noise."""
        view = self._view if xtx is self.xtx else ScoreView(xtx, self.covariance)
        weights = view.weights_of(contrasts)
        forms = [site.noise_form(weights) for site in self.sites]
        N = weighted_sum(self.weights**2, [form[0] for form in forms])
        linear = weighted_sum(self.weights**2, [form[1] for form in forms])
        return ScoreRegion(view, self.solution, (N + N.T) / 2.0, linear + N @ self.solution)

    @cached_property
    def _view(self) -> ScoreView:
        return ScoreView(self.xtx, self.covariance)

    def excess_kurtosis(self, contrasts: FloatArray) -> FloatArray:
        r"""Return the excess kurtosis of each :math:`c^\top A^{-1}g` at the solution, of shape (P,)."""
        theta, directions = self.solution, self._directions(contrasts)
        variance = np.sum((directions @ self.covariance) * directions, axis=1)
        cumulants = np.zeros(len(contrasts))
        for weight, site in zip(self.weights, self.sites, strict=True):
            cumulants += site.law.fourth_cumulant(weight * site.directions(directions), site.own(theta))
        known = np.where(variance > 0.0, variance, 1.0)
        excess: FloatArray = np.where(variance > 0.0, np.minimum(cumulants / known**2, LAPLACE_EXCESS_KURTOSIS), 0.0)
        return excess

    def joint_excess_kurtosis(self, contrasts: FloatArray) -> float:
        r"""Return that of the sum of squares of the standardised :math:`CA^{-1}g`, see `p_value`."""
        if all(site.law.excess_kurtosis == 0.0 for site in self.sites):
            return 0.0  # of a matrix that is hardly definite nothing is to be factored then
        theta, directions = self.solution, self._directions(contrasts)
        root = np.linalg.cholesky(directions @ self.covariance @ directions.T)
        whitened = np.asarray(np.linalg.solve(root, directions), dtype=np.float64)
        return sum(
            site.law.joint_fourth_cumulant(weight * site.directions(whitened), site.own(theta))
            for weight, site in zip(self.weights, self.sites, strict=True)
        )

    def spreads(self, contrasts: FloatArray) -> FloatArray | None:
        """Return likely variances of each contrast over the assumed one, of shape (P, n); None where s² is known.

        The privacy noise in yᵀy leaves the hospitals' s² uncertain: each is taken as normal around its estimate, given
        that it is positive, and these are equally likely points of that law. Those of several add up as independent
        ones do: by the root of the sum of squares.
        """
        scale = self.scale
        unsure = [k for k, site in enumerate(self.sites) if site.variance is None and scale.noise_sd[k] > 0.0]
        if not unsure:
            return None
        directions = self._directions(contrasts)
        whole = np.sum((directions @ self.covariance) * directions, axis=1)
        known = np.where(whole > 0.0, whole, 1.0)
        moves = []
        for k in unsure:
            share = np.array([float(j == k) for j in range(len(self.sites))])
            sampled = np.sum((directions @ self.sampling_covariance(share)) * directions, axis=1) / known
            points = variance_points(float(scale.unbiased[k]), float(scale.noise_sd[k]), SCALE_POINTS)
            moves.append(np.multiply.outer(sampled, points - scale.variances[k]))
        sds = np.std(moves, axis=2)
        together = np.sqrt(np.sum(sds**2, axis=0)) / np.maximum(np.sum(sds, axis=0), 1e-300)
        spreads: FloatArray = np.maximum(1.0 + together[:, np.newaxis] * np.sum(moves, axis=0), 1e-12)
        return spreads

    def _directions(self, contrasts: FloatArray) -> FloatArray:
        """Return what the score is multiplied with in each contrast of the solution, of shape (P, D)."""
        assert len(self.solution)  # which says so where there is none
        return np.asarray(np.linalg.solve(self.xtx.T, contrasts.T).T, dtype=np.float64)

    def reweighted(self, weights: FloatArray, slopes: FloatArray | None = None) -> "Equations":
        """Return the same sites with other weights, and how fast these grow with noisy counts."""
        largest = float(np.max(weights))
        return replace(self, weights=weights / largest, slopes=None if slopes is None else slopes / largest)


def residual_scale(equations: Equations, theta: FloatArray) -> ResidualScale:
    r"""Estimate residual variances from noisy residual sums at the solution.

    Notes
    -----
    At the true θ a noisy residual sum has mean :math:`s^2\Sigma w^2` (Σw⁴ ≤ Σw² for weighted rows makes the division
    by Σw² err on the safe side). At the solution :math:`\hat\theta = \theta + A^{-1}g` site k's is smaller by

    .. math:: 2w_k\,\mathrm{tr}(A^{-1}\Omega_k) - \mathrm{tr}(A_kA^{-1}\Omega A^{-1})

    in the mean. The part of Ω that is privacy noise is known; the part that is sampling is a multiple of each s² and
    becomes the degrees of freedom, which for one release of unweighted rows without noise are n − D. Each hospital has
    an s² of its own, see `own_variances`; public sites' are known from their own rows alone.
    """
    sites, weights = equations.sites, equations.weights
    inverse = np.linalg.inv(equations.xtx)
    scale = np.array([site.variance if site.variance is not None else 0.0 for site in sites])
    noise_sd = np.zeros(len(sites))
    hospitals = [k for k, site in enumerate(sites) if site.variance is None]
    total = equations.rows  # says so where it is not known
    if not hospitals:
        return ResidualScale(scale, scale, noise_sd, total - len(theta))
    noise = [site.noise_covariance(theta) for site in sites]
    known = weighted_sum(weights**2, noise) + weighted_sum(weights**2 * scale, [site.xtx for site in sites])
    private = np.array([float(site.variance is None) for site in sites])
    unknown = weighted_sum(weights**2 * private, [site.sampling for site in sites])
    sums, variances, rows, counts = (np.zeros(len(hospitals)) for _ in range(4))
    for i, k in enumerate(hospitals):
        site, around = sites[k], inverse @ sites[k].xtx @ inverse
        sums[i] = site.residual_sum(theta) + 2.0 * weights[k] * np.sum(inverse * noise[k]) - np.sum(around * known)
        taken = 2.0 * weights[k] / site.overlap * np.sum(inverse * site.sampling) - np.sum(around * unknown)
        rows[i], counts[i] = (site.rows or 0.0) - taken, max(site.rows or 0.0, 0.0) / site.overlap
        variances[i] = site.residual_sum_covariance(theta, theta)
    shares = np.ones(len(hospitals))
    for _ in range(2):  # the second pass weights noisy residual sums by what they are worth
        counted = float(shares @ rows)
        estimate = float(shares @ sums) / counted if counted > 0.0 else 0.0
        spread = variances + 2.0 * np.maximum(rows, 1.0) * max(estimate, 0.0) ** 2
        shares = np.maximum(rows, 0.0) / np.where(spread > 0.0, spread, 1.0)
        shares = shares / np.max(shares) if shares.any() else np.ones(len(hospitals))
    sd = math.sqrt(float(shares**2 @ variances)) / max(float(shares @ rows), 1.0)
    unbiased = scale.copy()
    square = float(np.sum([sites[k].yty or 0.0 for k in hospitals])) / max(float(np.sum(counts)), 1.0)
    own = own_variances((estimate, sd), square, sums, rows, variances)
    unbiased[hospitals], noise_sd[hospitals], scale[hospitals] = own
    effective = float(shares @ counts) ** 2 / max(float(shares**2 @ counts), 1e-300)
    return ResidualScale(scale, unbiased, noise_sd, effective - len(theta))


def own_variances(
    common: tuple[float, float], square: float, sums: FloatArray, rows: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return residual variances of single hospitals, the deviations of their noise, and their means above 0.

    Parameters
    ----------
    common : (float, float)
        Their mean, and the deviation of its noise.
    square : float
        Mean square of the target.
    sums, rows, noise : ndarray of shape (K,)
        Residual sums of squares, the rows that these are of, and the variances of their noise.

    Returns
    -------
    tuple of ndarray of shape (K,)
        Estimates, deviations of their noise, and the means of normal laws that are cut off at 0.

    Notes
    -----
    A hospital's own s² may be as large as the mean square m of the target, however small that of others is. So its
    estimate with noise of deviation v counts as :math:`m^2/(m^2 + v^2)`, and the mean of all as the rest. Where noise
    hides it, as much as m is left uncertain, and the mean of the law that is cut off at 0 errs on the safe side.
    """
    estimate, sd = common
    if len(sums) == 1:
        own, unsure = np.array([estimate]), np.array([sd])
    else:
        counted = np.maximum(rows, 1.0)
        prior, v = max(estimate, sd, square) ** 2, noise / counted**2
        weight = np.divide(prior, prior + v, out=np.zeros_like(v), where=(rows > 1.0) & (prior + v > 0.0))
        own = weight * sums / counted + (1.0 - weight) * estimate
        unsure = np.where(weight > 0.0, np.sqrt(weight * v), np.sqrt(prior))
    means = [
        max(s, 0.0) if v == 0.0 else np.mean(variance_points(s, v, SCALE_POINTS))
        for s, v in zip(own.tolist(), unsure.tolist(), strict=True)
    ]
    return own, unsure, np.array(means)


def weighted_sum(weights: FloatArray, arrays: list[FloatArray]) -> FloatArray:
    """Return the weighted sum of arrays of one shape."""
    if len(arrays) == 1 and weights[0] == 1.0:
        return arrays[0]
    total: FloatArray = np.tensordot(weights, np.array(arrays), axes=1)
    return total


def _nearest_semidefinite(A: FloatArray) -> FloatArray:
    """Return A with its negative eigenvalues set to 0."""
    eigenvalues, vectors = np.linalg.eigh(A)
    if eigenvalues[0] >= 0.0:
        return A
    nearest: FloatArray = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    return nearest
