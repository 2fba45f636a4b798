"""Families of generalised linear models in a refinement: means, their slopes, and the information of a normal index."""

import math
from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.normal_index import NODE_WEIGHTS, NODES, offset_of, sigmoid

LOSSES = {"gaussian": "linear", "binomial": "logistic", "poisson": "poisson"}
"""The curator's loss of each family."""
_SPREAD_LEAST, SPREAD_MOST = 1e-2, 5.0
"""Deviations of an index at which derivatives are taken: below the first nothing changes, beyond the last is noise."""


@dataclass(frozen=True)
class Family:
    """A family with its canonical link; means and residuals are in units of the largest target, as a score's are.

    Attributes
    ----------
    name : str
        ``"binomial"`` or ``"poisson"``.
    unit : float
        1, or the upper bound B of counts: a residual is (y − min(exp η, B))/B.
    """

    name: str
    unit: float = 1.0

    @property
    def loss(self) -> str:
        """The curator's loss."""
        return LOSSES[self.name]

    @property
    def dispersion(self) -> float:
        """Variance of a residual over the slope of the mean: counts in units of B vary by 1/B of their mean."""
        return 1.0 / self.unit

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return what the target is expected to be, over its largest."""
        if self.name == "binomial":
            return sigmoid(eta)
        expected: FloatArray = np.exp(np.minimum(eta - math.log(self.unit), 0.0))
        return expected

    def slope(self, eta: FloatArray) -> FloatArray:
        """Return how fast the mean grows with η."""
        mean = self.mean(eta)
        return mean * (1.0 - mean) if self.name == "binomial" else mean

    def link(self, rate: float) -> float:
        """Return η of a mean in (0, 1)."""
        return math.log(rate / (1.0 - rate)) if self.name == "binomial" else math.log(rate * self.unit)

    def normal_mean(self, center: float, spread: float) -> float:
        """Return the expected mean of a normal index."""
        return float(NODE_WEIGHTS @ self.mean(center + min(spread, SPREAD_MOST) * NODES))

    def normal_variance(self, center: float, spread: float) -> float:
        """Return the variance of the mean of a normal index."""
        means = self.mean(center + min(spread, SPREAD_MOST) * NODES)
        return float(NODE_WEIGHTS @ means**2 - (NODE_WEIGHTS @ means) ** 2)

    def slopes(self, rate: float, spread: float) -> tuple[float, float, float]:
        """Return the expected slope, and its first and second derivatives, of a normal index with a mean rate.

        By Stein's identity derivatives are expectations of the slope times Z/s and (Z² − 1)/s².
        """
        s = min(max(spread, _SPREAD_LEAST), SPREAD_MOST)
        weighted = NODE_WEIGHTS * self.slope(offset_of(self.mean, self.link, rate, s) + s * NODES)
        return float(weighted.sum()), float(weighted @ NODES) / s, float(weighted @ (NODES**2 - 1.0)) / s**2


def index_direction(second: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the mean of terms v, the covariance of v and vᵀθ, and the deviation of vᵀθ, by E[v vᵀ]."""
    mean = second[0] / second[0, 0]
    q: FloatArray = second @ theta - mean * float(second[0] @ theta)
    return mean, q, math.sqrt(max(float(theta @ q), 0.0))


def normal_information(family: Family, second: FloatArray, theta: FloatArray, rate: float) -> tuple[FloatArray, float]:
    r"""Return :math:`E[m'(\eta)\,vv^\top]` and :math:`E\,m'(\eta)`, as they are for normal terms v.

    Parameters
    ----------
    family : Family
    second : ndarray of shape (d, d)
        E[v vᵀ], the constant first.
    theta : ndarray of shape (d,)
        Coefficients beside the constant are read; where the constant's puts the index follows from the rate.
    rate : float
        Mean of the target in (0, 1): that of the fitted means at the solution, as the constant is among the terms.

    Notes
    -----
    With mean μ and covariance Σ of v, q = Σθ and w₀, w₁, w₂ the expectations of m′, m″ and m‴, it is
    :math:`w_0(\Sigma + \mu\mu^\top) + w_1(\mu q^\top + q\mu^\top) + w_2 qq^\top`: Stein's identity, twice.
    """
    mean, q, spread = index_direction(second, theta)
    if spread > SPREAD_MOST:
        q *= SPREAD_MOST / spread
    w0, w1, w2 = family.slopes(rate, spread)
    cross = np.outer(mean, q)
    return w0 * second + w1 * (cross + cross.T) + w2 * np.outer(q, q), w0
