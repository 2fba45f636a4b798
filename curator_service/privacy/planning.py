"""Turn a request and its price into integer noise scales and a cost; public numbers only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from curator_service.privacy import sensitivity
from curator_service.privacy.accountant import VARIANCE_LOSS, GaussianPart, compute_cost
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import UNITS_PER_MU_SQUARED
from curator_service.privacy.design import Design
from curator_service.privacy.rows import Ball, RowMap
from curator_service.privacy.samplers import SIGMA_MAX, SIGMA_MIN
from curator_service.privacy.statistics import lambda_min_float_error


class Statistic(StrEnum):
    """What a ``gram`` release may hold, in the order in which it is drawn and sent."""

    XTX = "xtx"
    XTY = "xty"
    YTY = "yty"
    LAMBDA_MIN = "lambda_min"


LAMBDA_MIN_SHARE = Fraction(1, 20)
_DEFAULT_WEIGHTS = {Statistic.XTX: Fraction(500), Statistic.XTY: Fraction(415), Statistic.YTY: Fraction(85)}


class PriceOutOfRangeError(ValueError):
    """The price asks for a noise scale that the lattice cannot state."""


@dataclass(frozen=True, slots=True)
class GramPlan:
    """Everything that decides a ``gram`` release but the data.

    Attributes
    ----------
    design : Design
    row_map : Box or Ball
    parts : tuple of GaussianPart
        One per statistic, in the order of `Statistic`.
    cost : int
        µ² in units of 10⁻¹², from the integers in `parts`, rounded up.
    """

    design: Design
    row_map: RowMap
    parts: tuple[GaussianPart, ...]
    cost: int


@lru_cache(maxsize=32)
def default_shares(statistics: tuple[Statistic, ...]) -> Mapping[Statistic, Fraction]:
    """Split a price over statistics: 0.5, 0.415, 0.085 in proportion, λ_min one twentieth of the whole.

    Examples
    --------
    >>> {s.value: float(v) for s, v in default_shares((Statistic.XTX, Statistic.XTY, Statistic.YTY)).items()}
    {'xtx': 0.5, 'xty': 0.415, 'yty': 0.085}
    """
    rest = Fraction(1)
    shares: dict[Statistic, Fraction] = {}
    weights = {s: w for s, w in _DEFAULT_WEIGHTS.items() if s in statistics}
    if Statistic.LAMBDA_MIN in statistics:
        shares[Statistic.LAMBDA_MIN] = LAMBDA_MIN_SHARE if weights else rest
        rest -= shares[Statistic.LAMBDA_MIN]
    shares |= {s: rest * w / sum(weights.values()) for s, w in weights.items()}
    return MappingProxyType({s: shares[s] for s in statistics})


def sigma_for_mu_squared(sensitivity_squared: Fraction, mu_squared: Fraction) -> int:
    """Return the least integer σ with Δ²/(σ² − 9) ≤ µ²: ⌈√(Δ²/µ² + 9)⌉, in exact arithmetic.

    Raises
    ------
    PriceOutOfRangeError
        If σ would leave [2^10, 2^53].
    """
    if mu_squared <= 0:
        raise PriceOutOfRangeError("the price is below the account's smallest unit")
    square = math.ceil(sensitivity_squared / mu_squared + VARIANCE_LOSS)
    sigma = math.isqrt(square - 1) + 1
    if sigma > SIGMA_MAX:
        raise PriceOutOfRangeError("the price is too small: the noise would be larger than the lattice can hold")
    if sigma < SIGMA_MIN:
        raise PriceOutOfRangeError("the price is too large: the noise would be finer than the lattice")
    return sigma


def plan_gram(
    design: Design,
    row_map: RowMap,
    adjacency: Adjacency,
    *,
    row_capacity: int,
    price_units: int,
    shares: Mapping[Statistic, Fraction],
) -> GramPlan:
    """Split a price over statistics and find each one's integer scales.

    Parameters
    ----------
    design : Design
    row_map : Box or Ball
    adjacency : Adjacency
    row_capacity : int
        Public bound on the number of rows; enters the float error of λ_min alone.
    price_units : int
        µ² in units of 10⁻¹².
    shares : mapping of Statistic to Fraction
        Positive, adding up to at most 1.

    Returns
    -------
    GramPlan
        With ``cost <= price_units``.

    Raises
    ------
    PriceOutOfRangeError
        If the price is too small or too large for the lattice.
    ValueError
        If the shares are not positive or add up to more than 1.
    """
    if not all(share > 0 for share in shares.values()) or sum(shares.values()) > 1:
        raise ValueError("shares must be positive and add up to at most 1")
    return _plan(design, row_map, adjacency, row_capacity, price_units, tuple(shares.items()))


@lru_cache(maxsize=1024)
def _plan(
    design: Design,
    row_map: RowMap,
    adjacency: Adjacency,
    row_capacity: int,
    price_units: int,
    share_items: tuple[tuple[Statistic, Fraction], ...],
) -> GramPlan:
    shares = dict(share_items)
    norm_squared = row_map.norm_squared(design)
    float_error = lambda_min_float_error(len(design.terms), norm_squared, row_capacity)
    price = Fraction(price_units, UNITS_PER_MU_SQUARED)
    parts = []
    for statistic in (s for s in Statistic if s in shares):
        copies, sigma_offdiagonal = 1, None
        match statistic:
            case Statistic.XTX if isinstance(row_map, Ball):
                squared = sensitivity.xtx_ball_l2_squared(norm_squared, adjacency)
                sigma_offdiagonal = sigma_for_mu_squared(squared / 2, price * shares[statistic])
            case Statistic.XTX:
                squared = sensitivity.xtx_box_l2_squared(design.group_count, design.wide_group_count, adjacency)
            case Statistic.XTY:
                squared, copies = sensitivity.xty_l2_squared(norm_squared, adjacency), len(design.targets)
            case Statistic.YTY:
                squared, copies = sensitivity.yty_l2_squared(), len(design.targets)
            case Statistic.LAMBDA_MIN:
                squared = sensitivity.lambda_min_l2_squared(norm_squared, float_error)
        sigma = sigma_for_mu_squared(copies * squared, price * shares[statistic])
        parts.append(GaussianPart(statistic.value, squared, sigma, sigma_offdiagonal, copies))
    cost = compute_cost(parts)
    assert cost <= price_units
    return GramPlan(design, row_map, tuple(parts), cost)
