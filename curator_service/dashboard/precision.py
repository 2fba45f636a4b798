r"""Precision that a budget can still give, without a privacy notion: the lengths of intervals.

One `gram` release of one feature and one target that takes all that is left, under the row map `box`. Feature and
target are standardised: their bounds lie three deviations from the centre, so that in scaled units a deviation is
:math:`s = 1/3`. Each entry of Xᵀy has noise of deviation :math:`\sigma` in scaled units, and with n rows

.. math:: L_\text{mean} = 2z\sqrt{\frac1n + \frac{\sigma^2}{n^2 s^2}}, \qquad
   L_\text{slope} = 2z\sqrt{\frac1n + \frac{\sigma^2}{n^2 s^4}}

are the lengths, in deviations, of the 95 % intervals of a mean and of a slope of 0: the sampling error of n rows, and
the noise on the sum that is divided by n or by ns². A slope that is not 0 has the noise of XᵀX on it as well. It is a
guide to orders of magnitude: `analyst_client.expected_accuracy` says it for an analyst's own columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import PURE, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism, PlanError
from curator_service.privacy.design import Column, make_design
from curator_service.privacy.mechanism import noise_sd
from curator_service.privacy.row_maps import Box

ROWS = (500, 2_000, 10_000, 50_000, 200_000)
Z = 1.959963984540054
"""Of a 95 % interval."""
DEVIATION = 1 / 3
"""Of a standardised column, in scaled units."""
_STATISTICS = (Statistic.XTX, Statistic.XTY, Statistic.YTY)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of 95 % intervals with so many rows, in deviations.

    Attributes
    ----------
    rows : int
    mean, slope : float
    plain : float
        Of either without privacy.
    """

    rows: int
    mean: float
    slope: float
    plain: float


def expected_lengths(population: Population, rows: Sequence[int] = ROWS, *, units: int | None = None) -> list[Lengths]:
    """Return what a part of a budget could tell; nothing where it is too little, or too much, for one release.

    Parameters
    ----------
    units : int, optional
        All that is left, if not given.
    """
    left = population.view_left(population.remaining if units is None else units)
    price = getattr(left, population.accountant.notion)
    sigma = None if not price else _sigma(population.accountant, population.adjacency, price)
    return [] if sigma is None else [_lengths(n, sigma) for n in rows]


def _lengths(n: int, sigma: float) -> Lengths:
    def length(noise: float) -> float:
        return 2 * Z * math.sqrt(1 / n + (noise / n) ** 2)

    return Lengths(n, length(sigma / DEVIATION), length(sigma / DEVIATION**2), length(0.0))


@lru_cache(maxsize=1024)
def _sigma(accountant: Accountant, adjacency: Adjacency, price: float) -> float | None:
    """Return the deviation of the noise on an entry of Xᵀy, in scaled units."""
    mechanism = Mechanism.LAPLACE if accountant is PURE else Mechanism.GAUSSIAN
    feature, target = (Column.number(name, -1.0, 1.0) for name in ("x", "y"))
    try:
        plan = plan_gram(
            make_design((feature,), (target,), intercept=True),
            Box(),
            adjacency,
            row_capacity=1,
            price=Price(**{accountant.notion: price}),
            shares=default_shares(_STATISTICS, mechanism),
            accountant=accountant,
            mechanism=mechanism,
        )
    except PlanError:
        return None
    part = next(part for part in plan.parts if part.statistic == Statistic.XTY)
    return noise_sd(part.distribution, part.scales[0])
