"""Expected inference: at statistics that are assumed, and as far as the noise of a release moves it."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, ResidualScale, residual_scale
from analyst_client.inference.pooling import pool
from analyst_client.inference.results import Solution, TargetResults
from analyst_client.inference.score import critical_value
from analyst_client.kinds.gram.quote import Noise, Quote
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.rehearsal import DummyReleases

DRAWS = 200
WORK_MAX = 2e7
"""Draws times D³: with many terms fewer draws tell how many releases have bounded intervals."""


@dataclass(frozen=True, eq=False)
class AssumedEquations(Equations):
    """Equations whose residual variance is assumed, not estimated."""

    variance: float = math.nan

    @cached_property
    def scale(self) -> ResidualScale:
        """The assumed residual variance, as uncertain as an estimate would be."""
        estimated = residual_scale(self, self.solution)
        assumed = np.array([self.variance])
        return replace(estimated, variances=assumed, unbiased=assumed)


@dataclass(frozen=True, eq=False)
class Point:
    """Expected inference at one cost and one number of rows, parameter by parameter, in raw units.

    Attributes
    ----------
    results : TargetResults
        Inference at the assumed statistics.
    std_errors, half_lengths, critical : ndarray of shape (P,)
        With the noise's own effect on them; half lengths are infinite where most releases would have them so. Critical
        values are those of a squared standardised estimate.
    privacy_shares : ndarray of shape (P,)
    identification : float
    bounded : float
        Share of releases with bounded intervals.
    """

    results: TargetResults
    std_errors: FloatArray
    half_lengths: FloatArray
    critical: FloatArray
    privacy_shares: FloatArray
    identification: float
    bounded: float


class Expectation:
    r"""Expected inference of one target, at any cost.

    Raises
    ------
    ValueError
        When the quote lacks a statistic that inference needs, or the assumptions are of another request.

    Notes
    -----
    At the assumed statistics :math:`\Omega = s^2A + C(\beta)` and :math:`V = A^{-1}\Omega A^{-1}`. A release has
    :math:`\tilde A = A + E` instead, and estimates β with covariance V. With :math:`P = A^{-1}`,
    :math:`N(Z) = \mathrm{E}[EZE]` and :math:`V_C = PCP`, to second order in E

    .. math:: \mathrm{E}\,\tilde P\tilde\Omega\tilde P = V + s^2PN(P)P + P\,N(V_C + V)\,P + PN(P)V_C + V_CN(P)P.

    Standard errors and half lengths are those at the assumed statistics, times the root of what its diagonal gains.
    Whether intervals are bounded is counted over draws of E, the same ones every time.
    """

    def __init__(self, quote: Quote, assumptions: Assumptions, target: str | None, level: float) -> None:
        self.t = assumptions.index_of(target)
        lacking = [name for name, sd in _needed(quote.noise).items() if sd is None]
        if lacking:
            raise ValueError(f"intervals need the statistics {', '.join(lacking)}: ask for a quote with them")
        self.level = level
        self.assumptions = assumptions
        self._release = DummyReleases(quote, assumptions).release()
        self._quote = quote

    def at(self, noise: Noise | None = None, rows: float | None = None) -> Point:
        """Return the expected inference under other noise, or with another number of rows."""
        assumptions = self.assumptions if rows is None else self.assumptions.with_rows(rows)
        expected = DummyReleases(self._quote, assumptions)
        release = replace(
            self._release,
            xtx=expected.xtx,
            xty=expected.xty,
            yty=expected.yty,
            noise=self._quote.noise if noise is None else noise,
        )
        target = assumptions.targets[self.t].name
        (plain,) = pool(release, target)
        if not plain.has_constant:  # a constant tells the number of rows
            (plain,) = pool(release, target, assumptions.rows * assumptions.weight)
        equations = AssumedEquations(
            plain.sites,
            plain.weights,
            plain.columns,
            plain.terms,
            plain.target,
            variance=float(assumptions.residual_variances[self.t]),
        )
        results = TargetResults(
            equations, Solution(equations.solution, np.asarray(np.linalg.inv(equations.xtx), dtype=np.float64))
        )
        try:
            return self._point(results)
        except EstimationError as error:
            raise ValueError(str(error)) from None

    def _point(self, results: TargetResults) -> Point:
        grown, bounded = _growth(results), self._share_bounded(results)
        critical = critical_value(self.level, results.dof, results.excess_kurtosis)
        center_low_high = results.conf_int(self.level)
        half = (center_low_high[:, 1] - center_low_high[:, 0]) / 2.0 * grown
        identification = results.identification(self.level)
        return Point(
            results,
            results.std_errors * grown,
            half if bounded >= 0.5 else np.full(len(half), np.inf),
            critical,
            results.noise_share,
            identification.ratio,
            bounded,
        )

    def _share_bounded(self, results: TargetResults) -> float:
        """Return the share of releases with bounded intervals: their noisy XᵀX is definite, and strong enough."""
        equations = results.equations
        law, d = equations.sites[0].law, len(equations.solution)
        identification = results.identification(self.level)
        # Noise of unit scale moves no eigenvalue by more than about 2√D.
        if math.sqrt(identification.strength) > 3.0 * math.sqrt(d) + 2.0 * math.sqrt(identification.critical):
            return 1.0
        count = int(min(max(WORK_MAX / d**3, 16), DRAWS))
        drawn, _ = law.draw(np.random.default_rng(0), count)
        noisy = equations.xtx + drawn
        weakest = min(results.contrasts, key=lambda c: equations.region_along(c[np.newaxis]).strength)
        strength = np.array([equations.region_of(one, weakest[np.newaxis]).strength for one in noisy])
        definite = np.linalg.eigvalsh(noisy)[:, 0] > 0.0
        return float(np.mean(definite & (strength > identification.critical)))


def _needed(noise: Noise) -> dict[str, float | None]:
    return {"xtx": noise.xtx_diagonal, "xty": noise.xty, "yty": noise.yty}


def _growth(results: TargetResults) -> FloatArray:
    """Return by how much the noise's second order raises each standard error, see `Expectation`."""
    equations, P = results.equations, results.solution.inverse
    law, contrasts = equations.sites[0].law, results.contrasts
    V = P @ equations.covariance @ P
    private = P @ equations.noise_covariance(equations.solution) @ P
    sampled = P @ equations.sampling_covariance(equations.scale.variances) @ P

    def form(Z: FloatArray) -> FloatArray:
        return law.quadratic_form(Z)[0]

    inverse = form(P)
    gained = sampled @ inverse @ P + P @ form(private + V) @ P + P @ inverse @ private + private @ inverse @ P
    before = np.sum((contrasts @ V) * contrasts, axis=1)
    growth: FloatArray = np.sqrt(1.0 + np.sum((contrasts @ gained) * contrasts, axis=1) / before)
    return growth
