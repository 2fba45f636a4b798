"""Residual and total sums of squares of one set of rows, with the law of their noise, and R² of them."""

import math
from dataclasses import dataclass

from analyst_client.arrays import FloatArray

NORMAL_FOURTH = 4.0


@dataclass(frozen=True, eq=False)
class ResidualSums:
    r"""Sums over the same rows: residuals' squares, and those of the target around its mean.

    Attributes
    ----------
    residual, total : float
        R and T, in squares of the scaled target.
    covariance : ndarray of shape (2, 2)
        Of their privacy noise.
    rows : float
    fourth : float
        Mean fourth power of standardised rows, or a bound of it: 4 of normal ones.
    tail : float
        By how much of itself either sum may be too small, as long rows were clipped.
    excess : float
        Residual sum of squares that better coefficients would not have, as is expected.
    excess_most : float
        An upper bound of it.
    """

    residual: float
    total: float
    covariance: FloatArray
    rows: float
    fourth: float = NORMAL_FOURTH
    tail: float = 0.0
    excess: float = 0.0
    excess_most: float = 0.0

    @property
    def rsquared(self) -> float:
        """R², corrected for the privacy noise. NaN where the target hardly varies."""
        return 1.0 - max(self.residual - self.excess, 0.0) / self.total if self.total > 0.0 else math.nan

    def rsquared_interval(self, critical: float) -> tuple[float, float]:
        r"""Return a confidence interval of R², within [0, 1], with the square of a quantile.

        Notes
        -----
        :math:`\varphi = 1 - R^2` solves :math:`R - \varphi T = 0` in the mean; Fieller's method inverts the test of it.
        To the covariance of the noise comes the sampling variance :math:`m\varphi^2(1-\varphi)/n` of φ. A row adds
        :math:`r^2 - \varphi(r + f)^2` with residual r and fitted value f: a quadratic form of
        :math:`(r/\sigma_r, f/\sigma_f)` with the norm :math:`\varphi\sqrt{1-\varphi}\,T/n`, so m is at most their mean
        fourth power, and 4 for normal rows. Where a clip took up to a part b of one sum alone, the odds of φ are off by
        up to :math:`1 + b`, either way.
        """
        noise = self.covariance
        square = self.total**2 - critical * noise[1, 1]
        if square <= 0.0 or self.total <= 0.0:
            return 0.0, 1.0
        ratio = min(max(self.residual / self.total, 0.0), 1.0)
        sampling = self.fourth * ratio**2 * (1.0 - ratio) / self.rows * self.total**2
        linear = self.residual * self.total - critical * noise[0, 1]
        rest = self.residual**2 - critical * (noise[0, 0] + sampling)
        root = math.sqrt(max(linear**2 - square * rest, 0.0))
        ends = [min(max((linear + sign * root) / square, 0.0), 1.0) for sign in (-1.0, 1.0)]
        odds = (1.0 / (1.0 + self.tail), 1.0 + self.tail)
        high, low = ((1.0 - p) / (p * by + 1.0 - p) for p, by in zip(ends, odds, strict=True))
        return low, min(high + self.excess_most / self.total, 1.0)
