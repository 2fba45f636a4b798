"""The noise of cells as the independent draws that it is made of: its covariance, and how long its tails are."""

from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class CellNoise:
    r"""Noise of K numbers, :math:`e=D\epsilon` with M independent draws of variance 1.

    Attributes
    ----------
    draws : ndarray of shape (K, M)
        D.
    excess_kurtosis : ndarray of shape (M,)
        Of each draw: 0 for Gaussian noise, 3 for Laplace noise.
    """

    draws: FloatArray
    excess_kurtosis: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Covariance, of shape (K, K)."""
        return self.draws @ self.draws.T

    def of(self, M: FloatArray) -> "CellNoise":
        """Return the noise of the sums Mc of the numbers c."""
        return CellNoise(M @ self.draws, self.excess_kurtosis)

    def kurtosis_along(self, directions: FloatArray, variances: FloatArray) -> FloatArray:
        r"""Return the excess kurtosis that noise gives numbers which hold it in given directions.

        Parameters
        ----------
        directions : ndarray of shape (..., K)
            u: a number holds the noise :math:`u^\top e`.
        variances : ndarray of shape (...)
            Of the numbers, with whatever they hold beside noise. Where one is 0 the kurtosis is taken as 0.

        Returns
        -------
        ndarray of shape (...)

        Notes
        -----
        Cumulants of independent draws add up, so the fourth of :math:`u^\top D\epsilon` is
        :math:`\sum_j\kappa_j(D^\top u)_j^4`, exactly. What a number holds beside noise counts as normal.
        """
        if not self.excess_kurtosis.any():
            return np.zeros(np.shape(variances))
        positive = np.asarray(variances) > 0.0
        deviations = np.sqrt(np.where(positive, variances, 1.0))
        scaled = (directions @ self.draws) / deviations[..., None]
        return np.where(positive, scaled**4 @ self.excess_kurtosis, 0.0)

    def joint_kurtosis(self, directions: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return the kurtosis that noise gives the sum of squares of q numbers, and its share in their variance.

        Parameters
        ----------
        directions : ndarray of shape (..., q, K)
            U: the numbers hold the noise :math:`Ue`.
        covariance : ndarray of shape (..., q, q)
            C, of the numbers with whatever they hold beside noise.

        Returns
        -------
        tuple of ndarray
            Of shape (...) each: :math:`\sum_{ij}\mathrm{cum}(z_i,z_i,z_j,z_j)` of :math:`z=C^{-1/2}Ue`, which the
            variance of :math:`|z|^2` has beyond that of a normal z, and the mean variance of z.

        Notes
        -----
        A draw that z holds t times, t a vector, adds :math:`\kappa|t|^4` and :math:`|t|^2/q`.
        """
        held = directions @ self.draws
        squares = np.sum(held * np.linalg.solve(covariance, held), axis=-2)
        return squares**2 @ self.excess_kurtosis, np.sum(squares, axis=-1) / max(held.shape[-2], 1)
