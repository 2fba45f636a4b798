"""Parts of a release: statistics, each with its sensitivity and the integer scales of its noise."""

from dataclasses import dataclass
from fractions import Fraction

from curator_service.privacy.samplers import Distribution


@dataclass(frozen=True, slots=True)
class GaussianPart:
    """A statistic with discrete Gaussian noise.

    Attributes
    ----------
    statistic : str
        Its name in requests, answers and entries.
    sensitivity_squared : Fraction
        Δ₂², the squared L2 sensitivity of one copy, in lattice units.
    sigma : int
        Scale of the noise; of the diagonal, where the off-diagonal has its own.
    sigma_offdiagonal : int or None
        Scale of the off-diagonal of a symmetric matrix, whose entries then weigh √2 in Δ₂.
    copies : int
        Number of vectors that a row can each move as far: each has draws of its own at this scale.
    """

    statistic: str
    sensitivity_squared: Fraction
    sigma: int
    sigma_offdiagonal: int | None = None
    copies: int = 1

    distribution = Distribution.DISCRETE_GAUSSIAN

    @property
    def scales(self) -> tuple[int, int]:
        """The scale on the diagonal and off it; equal where there is one."""
        return self.sigma, self.sigma if self.sigma_offdiagonal is None else self.sigma_offdiagonal

    def relative_cost(self, variance_loss: int) -> Fraction:
        """Return copies · Δ₂²/(σ² − loss), with the lesser of σ_d² − loss and 2(σ_o² − loss) where there are two.

        The loss is what an accountant takes off a variance: 9 under Gaussian DP, 0 under zero-concentrated DP.
        """
        variance = self.sigma**2 - variance_loss
        if self.sigma_offdiagonal is not None:
            variance = min(variance, 2 * (self.sigma_offdiagonal**2 - variance_loss))
        return self.copies * self.sensitivity_squared / variance


@dataclass(frozen=True, slots=True)
class LaplacePart:
    """A statistic with discrete Laplace noise.

    Attributes
    ----------
    statistic : str
        Its name in requests, answers and entries.
    sensitivity : Fraction
        Δ₁, the L1 sensitivity of one copy, in lattice units.
    scale : int
        t of the noise.
    copies : int
        Number of vectors that a row can each move as far: each has draws of its own at this scale.
    """

    statistic: str
    sensitivity: Fraction
    scale: int
    copies: int = 1

    distribution = Distribution.DISCRETE_LAPLACE

    @property
    def scales(self) -> tuple[int, int]:
        """The scale on the diagonal and off it, which are equal."""
        return self.scale, self.scale

    @property
    def epsilon(self) -> Fraction:
        """The pure ε of one copy: Δ₁/t, exactly, as P(k) ∝ exp(−|k|/t) on the integers."""
        return self.sensitivity / self.scale


Part = GaussianPart | LaplacePart
