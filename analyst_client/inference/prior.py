"""Priors of a Bayesian linear regression."""

import math
from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray


@dataclass(frozen=True)
class Prior:
    r"""Priors on the scale where terms and target lie in [−1, 1].

    Of a refinement they are on the scale where columns and target have a deviation of 1 around 0, as far as it told,
    and those of residuals are not used.

    Attributes
    ----------
    residual_shape, residual_rate : float
        Of the Gamma law of τ, the precision of a residual. The default, of mean 50, puts 95 % of residual standard
        deviations between 0.07 and 0.89.
    coefficient_shape, coefficient_rate : float
        Of the Gamma law of λ, the precision of every coefficient beside the constant's; the shape is above 1. Then
        coefficients follow a multivariate t law with twice the shape degrees of freedom, of variance rate/(shape − 1).
        The default, 4 degrees and standard deviation 0.71, has 95 % of coefficients in ±1.4.
    constant_sd : float
        Standard deviation of the constant's coefficient, which λ does not touch: a prediction of a target in [−1, 1]
        with every other term at 0.

    Raises
    ------
    ValueError
        When a number is not positive and finite, or `coefficient_shape` is not above 1.

    Examples
    --------
    >>> from analyst_client import BayesianRegression, Release
    >>> from analyst_client.inference import Prior
    >>> release = Release.from_arrays([[900.0, 0.0], [0.0, 300.0]], [90.0, 150.0], 120.0, features=["age"], noise=5.0)
    >>> narrow = Prior(coefficient_shape=20.0, coefficient_rate=0.05)  # slopes near 0
    >>> BayesianRegression(prior=narrow, seed=1).fit(release).coef_.round(2).tolist()
    [0.47]
    """

    residual_shape: float = 1.0
    residual_rate: float = 0.02
    coefficient_shape: float = 2.0
    coefficient_rate: float = 0.5
    constant_sd: float = 2.0

    def __post_init__(self) -> None:
        """Check ranges."""
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and positive, not {value!r}")
        if self.coefficient_shape <= 1.0:
            raise ValueError(f"coefficient_shape must be above 1, not {self.coefficient_shape!r}")

    def coefficient_sd(self, size: int, constant: bool) -> FloatArray:
        """Return the prior standard deviation of each coefficient.

        Parameters
        ----------
        size : int
            Number of coefficients, D.
        constant : bool
            Whether the first one is the constant's.

        Returns
        -------
        ndarray of shape (D,)
            Scaled units; that of a multivariate t law for all but the constant's.
        """
        sd = np.full(size, math.sqrt(self.coefficient_rate / (self.coefficient_shape - 1.0)))
        if constant:
            sd[0] = self.constant_sd
        return sd

    def precision(self, lam: FloatArray, size: int, constant: bool) -> FloatArray:
        """Return the prior precision of each coefficient given λ.

        Parameters
        ----------
        lam : ndarray of shape (...)
            Precision λ of the coefficients beside the constant's.
        size : int
            Number of coefficients, D.
        constant : bool
            Whether the first one is the constant's.

        Returns
        -------
        ndarray of shape (..., D)
            Scaled units.
        """
        precision = np.repeat(lam[..., np.newaxis], size, axis=-1)
        if constant:
            precision[..., 0] = self.constant_sd**-2
        return precision
