"""The law of the noise in one release, and what it does to the normal equations."""

import math
from dataclasses import dataclass, replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.kinds.gram.quote import Noise

LAPLACE_EXCESS_KURTOSIS = 3.0


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    r"""Independent noise of known variance in every released entry.

    With noise E in XᵀX (one draw per unordered pair), e in Xᵀy and f in yᵀy, the noisy equations
    :math:`\tilde g(\beta) = \tilde b - \tilde A\beta` are off the exact ones by :math:`e - E\beta`, and the noisy
    residual sum by :math:`f - 2e^\top\beta + \beta^\top E\beta`.

    Attributes
    ----------
    xtx : ndarray of shape (D, D)
        Variances :math:`v_{ij}` of E, symmetric.
    xty : ndarray of shape (D,)
        Variances of e.
    yty : float or None
        Variance of f; None when yᵀy was not released.
    excess_kurtosis : float
        Of every entry: 0 for Gaussian noise, 3 for Laplace noise.
    """

    xtx: FloatArray
    xty: FloatArray
    yty: float | None
    excess_kurtosis: float

    @classmethod
    def of(cls, noise: Noise, d: int) -> "NoiseLaw":
        """Read from what a release states for D terms. Raise `EstimationError` when it states too little."""
        if noise.xtx_diagonal is None or noise.xtx_offdiagonal is None or noise.xty is None:
            raise EstimationError("this needs the noise of XᵀX and Xᵀy, which the release does not state")
        xtx = np.full((d, d), noise.xtx_offdiagonal**2)
        np.fill_diagonal(xtx, noise.xtx_diagonal**2)
        yty = None if noise.yty is None else noise.yty**2
        kurtosis = LAPLACE_EXCESS_KURTOSIS if "laplace" in noise.distribution else 0.0
        return cls(xtx, np.full(d, noise.xty**2), yty, kurtosis)

    def padded(self, count: int) -> "NoiseLaw":
        """Return the law with `count` terms more, whose entries have no noise."""
        if not count:
            return self
        return replace(self, xtx=np.pad(self.xtx, (0, count)), xty=np.pad(self.xty, (0, count)))

    def covariance(self, beta: FloatArray) -> FloatArray:
        r"""Return the covariance of :math:`e - E\beta`, of shape (D, D).

        :math:`C_{ii} = v_i + \sum_k v_{ik}\beta_k^2` and :math:`C_{ij} = v_{ij}\beta_i\beta_j`: rows i and j of E
        share the one draw :math:`E_{ij} = E_{ji}`.
        """
        covariance = self.xtx * np.outer(beta, beta)
        np.fill_diagonal(covariance, self.xty + self.xtx @ beta**2)
        return covariance

    def quadratic_form(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return N and l: :math:`\mathrm{tr}(Z\,C(\beta)) = \beta^\top N\beta + 2l^\top\beta` + constant."""
        N = Z * self.xtx
        np.fill_diagonal(N, self.xtx @ np.diag(Z))
        return N, np.zeros(len(N))

    def residual_sum_covariance(self, beta: FloatArray, gamma: FloatArray) -> float:
        r"""Return the covariance of :math:`f - 2e^\top\beta + \beta^\top E\beta` and the same for γ.

        Raises
        ------
        EstimationError
            When yᵀy was not released.
        """
        if self.yty is None:
            raise EstimationError("the residual scale needs yᵀy: ask for the statistic 'yty'")
        products = beta * gamma
        from_xtx = 2.0 * products @ self.xtx @ products - np.diag(self.xtx) @ products**2
        return float(self.yty + 4.0 * self.xty @ products + from_xtx)

    def fourth_cumulant(self, directions: FloatArray, beta: FloatArray) -> FloatArray:
        r"""Return the fourth cumulants of :math:`u^\top(e - E\beta)`.

        Parameters
        ----------
        directions : ndarray of shape (P, D)
            One u per row.
        beta : ndarray of shape (D,)

        Notes
        -----
        Cumulants of independent draws add up; that of :math:`aX` is :math:`a^4\kappa v^2` with excess kurtosis κ. The
        weight of :math:`E_{ij}` is :math:`u_i\beta_j + u_j\beta_i`, of :math:`E_{ii}` it is :math:`u_i\beta_i`.
        """
        if self.excess_kurtosis == 0.0:
            return np.zeros(len(directions))
        rows, columns = np.triu_indices(len(beta), 1)
        pairs = directions[:, rows] * beta[columns] + directions[:, columns] * beta[rows]
        fourth = (
            directions**4 @ self.xty**2
            + (directions * beta) ** 4 @ np.diag(self.xtx) ** 2
            + pairs**4 @ self.xtx[rows, columns] ** 2
        )
        cumulants: FloatArray = self.excess_kurtosis * fourth
        return cumulants

    def joint_fourth_cumulant(self, directions: FloatArray, beta: FloatArray) -> float:
        r"""Return :math:`\sum_{ij}\mathrm{cum}(z_i, z_i, z_j, z_j)` of the q numbers :math:`z = U(e - E\beta)`.

        It is what the variance of :math:`|z|^2` has beyond that of a normal z. A draw of variance v that z holds c
        times, c a vector, adds :math:`\kappa(v|c|^2)^2`.
        """
        if self.excess_kurtosis == 0.0:
            return 0.0
        rows, columns = np.triu_indices(len(beta), 1)
        pairs = directions[:, rows] * beta[columns] + directions[:, columns] * beta[rows]
        sums = (
            np.sum((np.sum(directions**2, axis=0) * self.xty) ** 2)
            + np.sum((np.sum((directions * beta) ** 2, axis=0) * np.diag(self.xtx)) ** 2)
            + np.sum((np.sum(pairs**2, axis=0) * self.xtx[rows, columns]) ** 2)
        )
        return float(self.excess_kurtosis * sums)

    def draw(self, generator: np.random.Generator, count: int) -> tuple[FloatArray, FloatArray]:
        """Draw noise for XᵀX and Xᵀy, of shapes (count, D, D) and (count, D): local simulation, not privacy."""
        d = len(self.xty)
        sample = generator.laplace if self.excess_kurtosis > 0.0 else generator.normal
        unit = math.sqrt(0.5) if self.excess_kurtosis > 0.0 else 1.0
        rows, columns = np.triu_indices(d)
        xtx = np.zeros((count, d, d))
        triangle = sample(0.0, unit, (count, len(rows))) * np.sqrt(self.xtx[rows, columns])
        xtx[:, rows, columns] = triangle
        xtx[:, columns, rows] = triangle
        return xtx, sample(0.0, unit, (count, d)) * np.sqrt(self.xty)


@dataclass(frozen=True, eq=False)
class CorrectedLaw(NoiseLaw):
    r"""Noise of equations whose Xᵀy was measured around coefficients :math:`\bar\beta`, Gaussian.

    A score at :math:`\bar\beta` tells :math:`b - A\bar\beta` with noise e of its own, and
    :math:`\tilde b = \tilde A\bar\beta + \widetilde{(b - A\bar\beta)}` makes a pair of both. Its equations are off by
    :math:`e - E(\beta-\bar\beta)`: what is unsure of XᵀX weighs as much as β is away from where the score was taken.

    Attributes
    ----------
    center : ndarray of shape (D,)
        :math:`\bar\beta`.
    score : ndarray of shape (D, D)
        Covariance of e.

    Notes
    -----
    :math:`\bar\beta` was chosen by what had been released, E included, and is taken as given. The dependence is of the
    second order: :math:`\beta-\bar\beta` moves by :math:`A^{-1}E(\beta-\bar\beta)`, so what it adds to the equations is
    :math:`EA^{-1}E(\beta-\bar\beta)`.
    """

    center: FloatArray
    score: FloatArray

    def covariance(self, beta: FloatArray) -> FloatArray:
        r"""Return the covariance of :math:`e - E(\beta-\bar\beta)`, of shape (D, D)."""
        covariance: FloatArray = super().covariance(beta - self.center) + self.score
        return covariance

    def quadratic_form(self, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return N and l, as of `NoiseLaw`."""
        N, _ = super().quadratic_form(Z)
        return N, -N @ self.center

    def residual_sum_covariance(self, beta: FloatArray, gamma: FloatArray) -> float:
        r"""Return the covariance of :math:`f - 2(e + E\bar\beta)^\top\beta + \beta^\top E\beta` and the same for γ."""
        if self.yty is None:
            raise EstimationError("the residual scale needs yᵀy: ask for the statistic 'yty'")
        first, second = (np.outer(x, x - 2.0 * self.center) for x in (beta, gamma))
        first, second = (first + first.T) / 2.0, (second + second.T) / 2.0
        pairs = 2.0 * np.sum(self.xtx * first * second) - np.diag(self.xtx) @ (np.diag(first) * np.diag(second))
        return float(self.yty + 4.0 * beta @ self.score @ gamma + pairs)

    def draw(self, generator: np.random.Generator, count: int) -> tuple[FloatArray, FloatArray]:
        """Draw noise for XᵀX and Xᵀy, of shapes (count, D, D) and (count, D): local simulation, not privacy."""
        xtx, _ = super().draw(generator, count)
        errors = generator.multivariate_normal(np.zeros(len(self.center)), self.score, count, method="cholesky")
        return xtx, errors + xtx @ self.center
