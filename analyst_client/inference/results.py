"""Results of a fit for one target, in raw units: standard errors, tests, intervals, and how much of it is noise."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.agreement import random_effects
from analyst_client.inference.base import Bound, IntervalMethod, Results, Solved, TestResult, shifted
from analyst_client.inference.bootstrap import bootstrap_solutions
from analyst_client.inference.corrected_posterior import draw_posterior
from analyst_client.inference.equations import Equations
from analyst_client.inference.multiplicity import Family, count_slopes
from analyst_client.inference.posterior import CoefficientDraws
from analyst_client.inference.quantiles import student_quantile
from analyst_client.inference.score import (
    ConfidenceSet,
    Shadow,
    StatedBounds,
    critical_value,
    joint_critical_value,
    p_value,
)
from analyst_client.inference.shrinkage import NormalPosterior
from analyst_client.inference.sums import ResidualSums
from analyst_client.schema.columns import Term

HIDDEN = 2.0
"""Deviations of its noise that a residual variance exceeds, or it is not told."""
JOINT_SHARE = 0.2
"""Part of the error of an interval under a stated bound that the joint test of all coefficients may make."""


@dataclass(frozen=True)
class Identification:
    """The strength of the data against the noise, in the weakest direction.

    Attributes
    ----------
    strength : float
        Largest critical value at which every interval is bounded; infinite without noise in XᵀX.
    critical : float
        The critical value of the asked size.
    direction : ndarray of shape (D,)
        The scaled coefficients along which the data say least, of length 1.
    factor : float
        Factor by which µ of the cost, or the number of rows, would have to grow for intervals to be bounded for sure,
        if terms were uncorrelated; more if they are not. Infinite where not even their spread shows through the noise.
    """

    strength: float
    critical: float
    direction: FloatArray
    factor: float

    @property
    def ratio(self) -> float:
        """Strength over critical value: intervals are bounded above 1, and near the delta method's above 10 or so."""
        return self.strength / self.critical

    @property
    def is_bounded(self) -> bool:
        """True if every interval is bounded."""
        return self.ratio > 1.0


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution that an estimator makes of the equations.

    Attributes
    ----------
    theta : ndarray of shape (D,)
        Scaled coefficients.
    inverse : ndarray of shape (D, D)
        What Xᵀy was multiplied with, or would be in a linear method near this one.
    covariance : ndarray of shape (D, D) or None
        Of `theta`, where the estimator knows it by itself; else that of ``inverse`` times the score.
    posterior : CoefficientDraws, NormalPosterior or None
        Whose mean is `theta`, where it is one.
    """

    theta: FloatArray
    inverse: FloatArray
    covariance: FloatArray | None = None
    posterior: CoefficientDraws | NormalPosterior | None = None


@dataclass(frozen=True, eq=False)
class TargetResults(Results):
    """Inference about the coefficients of one target, from its normal equations.

    Attributes
    ----------
    equations : Equations
    solution : Solution
        The estimator's.
    """

    inverts: ClassVar[str] = "Fieller"

    equations: Equations
    solution: Solution

    @cached_property
    def solved(self) -> Solved:
        """The coefficients in scaled units."""
        equations = self.equations
        return Solved(equations.terms, equations.target, self.solution.theta, equations.row_map)

    @property
    def combined(self) -> tuple[Term, ...]:
        """The terms that those of the fit are combinations of; else none."""
        return self.equations.combined

    @property
    def combinations(self) -> FloatArray | None:
        """Their weights in the combinations."""
        return self.equations.combinations

    @property
    def method(self) -> IntervalMethod:
        """Credible intervals of draws, where the estimator has any; else those of the score test."""
        return "posterior" if isinstance(self.solution.posterior, CoefficientDraws) else "fieller"

    @property
    def dof(self) -> float:
        """Residual degrees of freedom, Σw² − D. Raise `EstimationError` below 1, where no quantile says anything."""
        dof = self.equations.scale.dof
        if dof < 1.0:
            raise EstimationError(
                f"the release tells of {self.equations.rows:.1f} rows, and has {len(self.names)} terms: too few"
            )
        return dof

    def quantile(self, level: float) -> float:
        """Return Student's."""
        return student_quantile((1.0 - level) / 2.0, self.dof)

    def covariance_of(self, contrasts: FloatArray) -> FloatArray:
        r"""Return the covariance of linear functions of the scaled coefficients: the delta method.

        :math:`H\Omega H^\top` with the estimator's own inverse H; what a penalty pulls away is not in it.
        """
        self.equations.check_unbiased()
        covariance = self.solution.covariance
        if covariance is None:
            covariance = self.solution.inverse @ self.equations.covariance @ self.solution.inverse.T
        found: FloatArray = contrasts @ covariance @ contrasts.T
        return found

    @property
    def privacy_share(self) -> FloatArray:
        """Share of each estimate's variance that is privacy noise, 0 to 1, of shape (P,); NaN without an interval."""
        bounded = [found.is_bounded for found in self.confidence_sets()]
        return np.where(bounded, self.noise_share, math.nan)

    @property
    def noise_share(self) -> FloatArray:
        """Share of privacy noise in the variance of estimates by the delta method, of shape (P,)."""
        spread = self.contrasts @ self.solution.inverse
        noise = np.sum((spread @ self.equations.noise_covariance(self.equations.solution)) * spread, axis=1)
        share: FloatArray = noise / np.sum((spread @ self.equations.covariance) * spread, axis=1)
        return share

    @cached_property
    def excess_kurtosis(self) -> FloatArray:
        """Of each parameter's score, of shape (P,): 0 but for Laplace noise."""
        return self.equations.excess_kurtosis(self.contrasts)

    def confidence_sets(self, level: float = 0.95) -> list[ConfidenceSet]:
        """Return the P score-test confidence sets, in raw units; a set may be unbounded."""
        if self.equations.hospitals is not None:
            return super().confidence_sets(level)
        kurtosis, spreads = self.excess_kurtosis, self.equations.spreads(self.contrasts)
        critical = critical_value(level, self.dof, kurtosis, spreads)
        return shifted(map(Shadow.project, self._shadows, critical.tolist()), self.offsets)

    def contrast_sets(self, contrasts: FloatArray, offsets: FloatArray, level: float) -> list[ConfidenceSet]:
        """Return the confidence sets of other linear functions of the scaled coefficients."""
        if self.equations.hospitals is not None:  # one by one, as each has the equations that it may have
            return [
                self._sets(self.equations.of_contrasts(contrast[np.newaxis]), contrast[np.newaxis], [shift], level)[0]
                for contrast, shift in zip(contrasts, offsets, strict=True)
            ]
        return self._sets(self.equations, contrasts, offsets, level)

    def _sets(
        self,
        equations: Equations,
        contrasts: FloatArray,
        offsets: Iterable[float],
        level: float,
    ) -> list[ConfidenceSet]:
        kurtosis = equations.excess_kurtosis(contrasts)
        critical = critical_value(level, self.dof, kurtosis, equations.spreads(contrasts))
        return shifted(project_each(equations, contrasts, critical), offsets)

    @cached_property
    def _shadows(self) -> tuple[Shadow, ...]:
        """The shadow of the score region on each parameter, from the equations that identify it."""
        found = []
        for contrast in self.contrasts:
            one = contrast[np.newaxis]
            found.append(self.equations.of_contrasts(one).region_along(one).shadow(contrast))
        return tuple(found)

    def bounded_intervals(self, bound: Bound, level: float = 0.95) -> FloatArray:
        r"""Return the P confidence intervals given that coefficients obey a stated bound, of shape (P, 2), raw units.

        NaN where no value of a parameter agrees with both the bound and the release.

        Raises
        ------
        EstimationError
            When no coefficients within the bound agree with the release.

        Notes
        -----
        With α for 1 less the level, each is the score test's confidence set of level 1 − 0.8α, cut by the values that
        the parameter has anywhere in the *joint* region of level 1 − 0.2α of all D coefficients, as far as that obeys
        the bound, or by an interval that holds these (`ScoreRegion.outer_intervals`). Where the bound is true both miss
        the truth with probability α at most.
        The score test's own region may not be cut by the bound: its one degree of freedom is what minimising over all
        other coefficients leaves, and where the bound stops that minimum it leaves more.
        """
        (bounds, limits), d = self._stated(bound), len(self.names)
        sets = self.confidence_sets(1.0 - (1.0 - JOINT_SHARE) * (1.0 - level))
        whole = np.eye(d)
        equations = self.equations.of_contrasts(whole)
        spreads = equations.spreads(whole)
        critical = joint_critical_value(
            1.0 - JOINT_SHARE * (1.0 - level),
            d,
            self.dof,
            equations.joint_excess_kurtosis(whole),
            None if spreads is None else spreads.mean(axis=0),
        )
        outer = equations.region.outer_intervals(self.contrasts, critical, bounds)
        if outer is None:
            raise EstimationError(
                "no coefficients within the stated bound agree with the release: the bound is too small, or the linear "
                "model does not hold"
            )
        low = np.maximum(outer[:, 0] + self.offsets, -limits)
        high = np.minimum(outer[:, 1] + self.offsets, limits)
        found = np.array([one.cut(*ends) for one, *ends in zip(sets, low, high, strict=True)])
        found[found[:, 0] > found[:, 1]] = np.nan
        return found

    def _stated(self, bound: Bound) -> tuple[StatedBounds, FloatArray]:
        """Return what is bounded, and limits of the P parameters. Raise `ValueError` for what is no bound."""
        equations, first = self.equations, int(self.equations.has_constant)
        named = dict(bound) if isinstance(bound, Mapping) else {}
        unknown = sorted(set(named) - set(self.names))
        if unknown or bound == {}:
            raise ValueError(f"there is no parameter {', '.join(unknown)} to bound; there are {', '.join(self.names)}")
        for limit in named.values() if isinstance(bound, Mapping) else [bound]:
            if not (isinstance(limit, Real) and not isinstance(limit, bool) and limit > 0.0 and math.isfinite(limit)):
                raise ValueError(f"a bound must be finite and positive, in raw units, not {limit!r}")
        if isinstance(bound, Mapping):
            limits = np.array([named.get(name, np.inf) for name in self.names], dtype=np.float64)
            stated = np.flatnonzero(np.isfinite(limits))
            rows, offsets = self.contrasts[stated] / limits[stated, np.newaxis], self.offsets[stated] / limits[stated]
            return StatedBounds(rows, offsets, stated), limits
        size = float(bound) / equations.target.scale  # of the scaled slopes
        slopes = np.eye(len(self.names))[first:]
        limits = size * np.abs(np.diag(self.contrasts))
        limits[:first] = np.inf
        return StatedBounds(slopes / size, np.zeros(len(slopes)), np.zeros(len(slopes), dtype=np.int64)), limits

    def _conf_int(self, level: float, method: IntervalMethod, bound: Bound | None) -> FloatArray:
        self.equations.check_unbiased()
        if bound is not None:
            return self.bounded_intervals(bound, level)
        if method == "fieller":
            return np.array([found.hull for found in self.confidence_sets(level)])
        if method == "posterior":
            return self.posterior_interval(level)
        if method == "random-effects":
            center, half = random_effects(self.equations, self.contrasts, level)
            return np.column_stack([center - half, center + half]) + self.offsets[:, np.newaxis]
        if method == "bootstrap":
            centre = self.contrasts @ self.equations.solution
            off = bootstrap_solutions(self.equations) @ self.contrasts.T - centre
            low, high = np.quantile(off, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
            centre = centre + self.offsets
            return np.column_stack([centre - high, centre - low])
        return super()._conf_int(level, method, bound)

    @cached_property
    def posterior(self) -> CoefficientDraws | NormalPosterior:
        """The estimator's posterior, or draws under the default prior, the same ones every time."""
        own = self.solution.posterior
        return draw_posterior(self.equations, seed=0) if own is None else own

    def posterior_interval(self, level: float = 0.95) -> FloatArray:
        """Return the P equal-tailed credible intervals, of shape (P, 2), in raw units."""
        places = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        posterior = self.posterior
        if isinstance(posterior, NormalPosterior):
            covariance = self.contrasts @ posterior.covariance @ self.contrasts.T
            quantiles = [NormalDist().inv_cdf(place) for place in places]
            interval: FloatArray = self.params[:, np.newaxis] + np.outer(np.sqrt(np.diag(covariance)), quantiles)
            return interval
        flat = posterior.beta.reshape(-1, len(self.names)) @ self.contrasts.T + self.offsets
        drawn: FloatArray = np.quantile(flat, places, axis=0).T
        return drawn

    @cached_property
    def tests(self) -> tuple[TestResult, ...]:
        """Tests of each parameter being 0, by the statistic that `confidence_sets` invert."""
        return tuple(
            self._judge(contrast[np.newaxis], shadow.statistic(-offset))
            for contrast, shadow, offset in zip(self.contrasts, self._shadows, self.offsets.tolist(), strict=True)
        )

    def family_size(self, family: Family = "fit") -> int:
        """Return how many slopes are tested together. Raise `ValueError` for an unknown family."""
        equations, slopes = self.equations, super().family_size(family)
        whole = family == "release" and not equations.combined and all(one.corrected is None for one in equations.sites)
        return max(slopes, count_slopes(equations.sites[0].release)) if whole else slopes

    def test(self, contrasts: FloatArray, values: FloatArray) -> TestResult:
        r"""Test :math:`C\theta = r` in scaled units, for C of shape (q, D)."""
        equations = self.equations.of_contrasts(contrasts)
        return self._judge(contrasts, equations.region_along(contrasts).statistic(contrasts, values))

    def _judge(self, contrasts: FloatArray, statistic: float) -> TestResult:
        q, dof = len(contrasts), self.dof
        equations = self.equations.of_contrasts(contrasts)
        kurtosis = (
            float(equations.excess_kurtosis(contrasts)[0]) if q == 1 else equations.joint_excess_kurtosis(contrasts)
        )
        spreads = equations.spreads(contrasts)
        spread = None if spreads is None else spreads.mean(axis=0)
        return TestResult(statistic / q, q, dof, p_value(statistic, dof, kurtosis, q, spread))

    @property
    def slopes(self) -> FloatArray:
        """Contrasts of all coefficients beside the constant: of combinations, what moves none that is the constant."""
        form = self.equations.constant_form
        if self.equations.combined and form is not None:
            return np.linalg.qr(form[:, np.newaxis], mode="complete")[0][:, 1:].T
        return super().slopes

    @property
    def scale(self) -> float:
        """Residual variance of the private rows (of the public ones if there are no others), raw units squared.

        NaN where the noise hides it: where it is not above twice the deviation of its noise, or `rsquared` is NaN.
        """
        if any(
            site.variance is None and site.release.weights_rows and site.release.constant_form is None
            for site in self.equations.sites
        ):
            raise EstimationError("rows were weighted, and without a constant the release does not tell by how much")
        variance, noise_sd = self.equations.residual_variance
        hidden = noise_sd > 0.0 and (variance < HIDDEN * noise_sd or math.isnan(self.rsquared))
        return math.nan if hidden else max(variance, 0.0) * self.equations.target.scale**2

    @property
    def main_site(self) -> int:
        """The first site whose residual variance is the model's."""
        return next((k for k, site in enumerate(self.equations.sites) if site.variance is None), 0)

    @cached_property
    def _sums(self) -> ResidualSums | None:
        """Residual and total sum of squares; None of a refined fit that bought nothing that tells them."""
        assert self.dof > 0.0  # which says so where there are too few rows
        equations = self.equations
        if equations.sites[0].corrected is not None:
            return equations.sites[0].sums
        null = np.zeros(len(equations.terms))
        kind = equations.sites[self.main_site].variance is None  # of hospitals' rows, if there are any
        counted = [k for k, site in enumerate(equations.sites) if (site.variance is None) == kind]
        sites, weights = [equations.sites[k] for k in counted], equations.weights[counted]
        if (form := equations.constant_form) is not None:
            entries = np.array([(form @ site.xty, form @ site.xtx @ form) for site in sites])
            null = form * (weights @ entries[:, 0]) / (weights @ entries[:, 1])
        rows = weights * [site.rows or 0.0 for site in sites]
        counted_rows = sum(max(site.rows or 0.0, 0.0) / site.overlap for site in sites)
        squares = float(rows @ equations.scale.unbiased[counted])
        residual = max(squares, 0.0) * (counted_rows - len(self.names)) / counted_rows
        total = float(weights @ [site.residual_sum(null) for site in sites])
        points = (equations.solution, null)
        noise = [[[site.residual_sum_covariance(a, b) for b in points] for a in points] for site in sites]
        covariance = np.einsum("k,kij->ij", weights**2, np.array(noise))
        inverse = np.linalg.inv(equations.xtx)  # what fitting takes off the residual sum has noise of its own
        whole = inverse @ equations.covariance
        sampled = inverse @ equations.sampling_covariance(equations.scale.variances)
        covariance[0, 0] += 2.0 * max(float(np.sum(whole * whole.T) - np.sum(sampled * sampled.T)), 0.0)
        return ResidualSums(residual, total, covariance, counted_rows)

    @property
    def rsquared(self) -> float:
        """R², corrected for the privacy noise; about the mean if there is a constant.

        NaN where nothing tells it, and where all that its interval says is that it lies within [0, 1].
        """
        return math.nan if self._sums is None or self.rsquared_interval() == (0.0, 1.0) else self._sums.rsquared

    @property
    def rsquared_adj(self) -> float:
        r""":math:`1 - (1 - R^2)(n - 1)/(n - D)` (Ezekiel 1930); n over n − D without a constant."""
        rows = self.dof + len(self.names) - float(self.equations.constant_form is not None)
        return 1.0 - (1.0 - self.rsquared) * rows / self.dof

    def rsquared_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of R², within [0, 1]; see `ResidualSums.rsquared_interval`.

        It begins at 0 where `f_test` does not tell the fit from its mean, and does not end there where that test does.
        """
        if self._sums is None:
            return 0.0, 1.0
        low, high = self._sums.rsquared_interval(float(critical_value(level, self.dof, np.zeros(1))[0]))
        if len(self.names) > int(self.equations.has_constant):
            if self.f_test().pvalue > 1.0 - level:
                return 0.0, high
            if high == 0.0:
                return 0.0, 1.0
        return low, high

    @property
    def vif(self) -> FloatArray:
        """Variance inflation of each term beside the constant; NaN where noise hides it, as intervals have no end."""
        xtx = self.equations.xtx
        first = int(self.equations.has_constant)
        spread = np.diag(xtx)[first:].copy()
        if first:
            spread -= xtx[0, 1:] ** 2 / xtx[0, 0]
        hidden = bool(np.linalg.eigvalsh(xtx)[0] <= 0.0)
        with suppress(EstimationError):  # of unknown rows it is not told
            hidden = hidden or not self.identification().is_bounded
        if hidden:
            return np.full(len(spread), math.nan)
        factors: FloatArray = spread * np.diag(np.linalg.inv(xtx))[first:]
        return factors

    def identification(self, level: float = 0.95) -> Identification:
        r"""Return the strength of the data against the noise.

        Notes
        -----
        With noise of variance v beside a matrix whose smallest eigenvalue is λ the strength is about λ²/v, and the
        noise moves λ by up to :math:`2\sqrt{vD}`. So intervals are bounded for sure from
        :math:`\lambda \ge \sqrt v(\sqrt k + 2\sqrt D)` on. The noise hides a small λ itself; what it shows is the
        spread of each term, that is λ if terms are uncorrelated. λ/√v grows with the cost's µ and with the rows.
        """
        equations = self.equations
        strengths, d = [shadow.strength for shadow in self._shadows], len(self.names)
        weakest = self.contrasts[int(np.argmin(strengths))][np.newaxis]
        spreads = equations.spreads(self.contrasts)
        critical = float(np.max(critical_value(level, self.dof, self.excess_kurtosis, spreads)))
        direction = equations.of_contrasts(weakest).region_along(weakest).weakest_direction()
        apart = np.diag(np.diag(equations.xtx))
        if equations.has_constant:
            apart[0], apart[:, 0] = equations.xtx[0], equations.xtx[:, 0]
        least = np.eye(d)[[int(np.argmin(np.diag(apart)))]]
        shown = equations.region_of(apart, least).strength if np.linalg.eigvalsh(apart)[0] > 0.0 else 0.0
        needed = math.sqrt(critical) + 2.0 * math.sqrt(d)
        factor = needed / math.sqrt(shown) if shown > 0.0 else math.inf
        return Identification(min(strengths), critical, direction / np.linalg.norm(direction), factor)


def project_each(equations: Equations, contrasts: FloatArray, critical: FloatArray) -> list[ConfidenceSet]:
    """Return the confidence set of each contrast, with the noise in what tells of it."""
    return [
        equations.region_along(contrast[np.newaxis]).shadow(contrast).project(k)
        if contrast.any()
        else ConfidenceSet("interval", 0.0, 0.0)
        for contrast, k in zip(contrasts, critical.tolist(), strict=True)
    ]
