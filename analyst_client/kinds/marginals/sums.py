"""Count, mean and standard deviation of a column out of noisy sums of its powers."""

import math
from dataclasses import dataclass, replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.quadratic import Quadratic, solve_quadratic
from analyst_client.kinds.counts.laws import combined_quantile
from analyst_client.kinds.counts.table import Estimate, check_of
from analyst_client.kinds.marginals.histogram import Histogram
from analyst_client.kinds.marginals.items import Marginal

COUNT, FIRST, SECOND = np.eye(3)
ROUNDING = 0.5 / (2**17 - 1) + 0.5 / 2**30
"""Largest rounding error of u in moments: values are rounded where they are stored, and to a q-th, q = 2¹⁷ − 1."""
COUNT_SDS = 5.0
"""A standard deviation is told where the number of rows is so many deviations of its noise above 0."""


@dataclass(frozen=True, eq=False)
class Sums:
    r"""The number of rows n, :math:`\sum u` and :math:`\sum u^2`, with u in [−1, 1] for a value within its bounds.

    Attributes
    ----------
    values : ndarray of shape (3,)
    covariance : ndarray of shape (3, 3)
        Of their noise.
    is_laplace : bool
    reach : float
        How far a value may be from the one that was added up: half a bin's width, or `ROUNDING` of moments.
    """

    values: FloatArray
    covariance: FloatArray
    is_laplace: bool
    reach: float

    @classmethod
    def of_moments(cls, marginal: Marginal, place: int) -> "Sums":
        r"""Read those of a column: released were half of n, :math:`\sum u`, and :math:`\sum u^2` less half of n."""
        form = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
        return cls(form @ marginal.values[place], marginal.sd**2 * form @ form.T, marginal.is_laplace, ROUNDING)

    @classmethod
    def of_bins(cls, histogram: Histogram) -> "Sums":
        """Add up the bins of a histogram, as if each row lay in the middle of its bin."""
        bins = len(histogram.values)
        middles = (2.0 * np.arange(bins) + 1.0) / bins - 1.0
        forms = np.stack([np.ones(bins), middles, middles**2])
        return cls(forms @ histogram.values, histogram.covariance(*forms), histogram.is_laplace, 1.0 / bins)

    def seeing(self, other: "Sums") -> "Sums":
        """Return what is known of the same rows from noise beside: of all sums if both are moments, or of n alone.

        It is the estimate of least squares.
        """
        return self._updated(other, np.eye(3) if self.reach == other.reach == ROUNDING else COUNT[np.newaxis])

    def seeing_count(self, other: "Sums") -> "Sums":
        """Return the estimate, improved by the count of another column with as many rows and independent noise."""
        return self._updated(other, COUNT[np.newaxis])

    def less(self, other: "Sums") -> "Sums":
        """Return the difference of both, whose noise is independent."""
        return replace(self, values=self.values - other.values, covariance=self.covariance + other.covariance)

    def _updated(self, other: "Sums", form: FloatArray) -> "Sums":
        seen = form @ (self.covariance + other.covariance) @ form.T
        gain = np.linalg.lstsq(seen, form @ self.covariance, rcond=None)[0].T
        values = self.values + gain @ form @ (other.values - self.values)
        return replace(self, values=values, covariance=self.covariance - gain @ form @ self.covariance)

    def count(self, level: float) -> Estimate:
        """Return n, of these very rows."""
        half = self._quantile(level) * math.sqrt(self._variance(COUNT))
        n = float(self.values[0])
        return Estimate(n, max(n - half, 0.0), max(n + half, 0.0), level)

    def mean(self, level: float, of: str) -> Estimate:
        r"""Return the mean of u.

        Notes
        -----
        Fieller's interval ("Some problems in interval estimation", JRSS B 16, 1954): the θ at which
        :math:`(\sum u-\theta n)^2\le z^2\,\mathrm{Var}(\theta)`, with the noise of both sums and, of a population, n
        times the variance of u. It is wider by `reach` at either end: no row is farther from where it was added up.
        """
        check_of(of)
        n, first = float(self.values[0]), float(self.values[1])
        C, z2 = self.covariance.tolist(), self._quantile(level) ** 2
        sampled = n * (math.sqrt(self._likely_variance()) + self.reach) ** 2 if of == "population" and n > 0.0 else 0.0
        form = Quadratic(first**2 - z2 * (C[1][1] + sampled), -2.0 * (first * n - z2 * C[0][1]), n**2 - z2 * C[0][0])
        if not (n > 0.0 and form.square > 0.0):  # the noise does not tell n from 0
            return Estimate(_ratio(first, n), -1.0, 1.0, level)
        low, high = solve_quadratic(form).hull
        low, high = (min(max(end, -1.0), 1.0) for end in (low - self.reach, high + self.reach))
        return Estimate(_ratio(first, n), low, high, level)

    def std(self, level: float, of: str) -> Estimate:
        r"""Return the standard deviation of u.

        Notes
        -----
        With :math:`T=\sum u^2-(\sum u)^2/n`, less what the noise adds to it on average, the interval holds the
        variances v at which :math:`(T-vn)^2\le z^2\,\mathrm{Var}(v)`: the noise of T, to the second order, and of n. Of
        a population n − 1 stands for n, and :math:`2v^2(n-1)` is beside the noise, as of normal values. It is wider by
        `reach` at either end: values that are moved by no more have a standard deviation that differs by no more. It is
        all of [0, 1] where n is not `COUNT_SDS` times its noise: there the second order is not enough.
        """
        check_of(of)
        n, z2 = float(self.values[0]), self._quantile(level) ** 2
        if n <= 0.0:
            return Estimate(math.nan, 0.0, 1.0, level)
        T, variance, beside = self._squares()
        rows = max(n - 1.0, 0.0) if of == "population" else n
        sampled = 2.0 * rows if of == "population" else 0.0
        value = min(math.sqrt(max(T / rows, 0.0)), 1.0) if rows > 0.0 else math.nan
        square = rows**2 - z2 * (self._variance(COUNT) + sampled)
        if square <= 0.0 or n < COUNT_SDS * math.sqrt(self._variance(COUNT)):
            return Estimate(value, 0.0, 1.0, level)
        low, high = solve_quadratic(Quadratic(T**2 - z2 * variance, -2.0 * (T * rows - z2 * beside), square)).hull
        low, high = (math.sqrt(max(end, 0.0)) for end in (low, high))
        return Estimate(value, max(low - self.reach, 0.0), min(high + self.reach, 1.0), level)

    def _squares(self) -> tuple[float, float, float]:
        """Return T of `std`, the variance of its noise, and its covariance with that of n."""
        n, first, second = map(float, self.values)
        mean = first / n
        of_mean = self._variance(FIRST - mean * COUNT) / n  # what the noise of the mean takes off T, on average
        T = second - 2.0 * mean * first + mean**2 * n + of_mean
        form = mean**2 * COUNT - 2.0 * mean * FIRST + SECOND
        return T, self._variance(form) + 2.0 * of_mean**2, float(form @ self.covariance @ COUNT)

    def _likely_variance(self) -> float:
        """Return the variance of u, or what its noise makes of it if that is more."""
        n = float(self.values[0])
        T, variance, _ = self._squares()
        return min(max(T, math.sqrt(variance)) / n, 1.0)

    def _variance(self, form: FloatArray) -> float:
        return max(float(form @ self.covariance @ form), 0.0)

    def _quantile(self, level: float) -> float:
        return combined_quantile((1.0 - level) / 2.0, laplace=self.is_laplace)


def _ratio(above: float, below: float) -> float:
    return min(max(above / below, -1.0), 1.0) if below > 0.0 else math.nan
