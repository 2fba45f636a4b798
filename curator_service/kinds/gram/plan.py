"""Turn a request and its price into integer noise scales and a cost; public numbers only."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.kernel import lambda_min_float_error
from curator_service.kinds.gram.sensitivity import GramJointBound
from curator_service.kinds.gram.statistics import Statistic, output_of
from curator_service.kit.caches import cache_sized
from curator_service.privacy.accountant import GDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.allocation import (
    DISTRIBUTIONS,
    Allocation,
    Bound,
    allocate,
    first_within,
    laplace_parts,
    read_limit,
)
from curator_service.privacy.calibration import CALIBRATIONS, Calibration, Mechanism, PlanError, sigma_of_formula
from curator_service.privacy.conversions import exact, round_down
from curator_service.privacy.design import DESIGNS_BYTES, Design, bytes_of_design
from curator_service.privacy.mechanism import Output
from curator_service.privacy.parts import GaussianPart, Part
from curator_service.privacy.row_maps import RowMap
from curator_service.privacy.selection import EVERY_ROW, Selection

LAMBDA_MIN_SHARE = Fraction(1, 20)
_GAUSSIAN_WEIGHTS = {Statistic.XTX: Fraction(500), Statistic.XTY: Fraction(415), Statistic.YTY: Fraction(85)}
_LAPLACE_WEIGHTS = {Statistic.XTX: Fraction(35), Statistic.XTY: Fraction(60), Statistic.YTY: Fraction(5)}
"""p₁, p₂, p₃ of Nieminen 2017, section 4.1: the split of ε that predicted best of all on a grid of steps of 0.05."""


@dataclass(frozen=True, slots=True)
class GramPlan:
    """Everything that decides a ``gram`` release but the data.

    Attributes
    ----------
    design : Design
    row_map : RowMap
    allocation : Allocation
        One part per statistic, in the order of `Statistic`.
    joint : GramJointBound or None
        Where rows are replaced and XᵀX is released with Gaussian noise.
    lambda_min_tolerance : int
        To within what λ_min is computed; in its sensitivity.
    selection : Selection
        Which rows count, and for how much: no bound depends on it.
    """

    design: Design
    row_map: RowMap
    allocation: Allocation
    joint: GramJointBound | None
    lambda_min_tolerance: int
    selection: Selection = EVERY_ROW

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each statistic with the scales of its noise."""
        return self.allocation.parts

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Output of each statistic."""
        return tuple(output_of(Statistic(part.statistic), self.design) for part in self.parts)

    @property
    def cost(self) -> int:
        """In units of the account, from the integers in `parts`, rounded up."""
        return self.allocation.cost


@dataclass(frozen=True, slots=True)
class _SensitivityInputs:
    """Request, with the bounds that follow from it."""

    design: Design
    row_map: RowMap
    adjacency: Adjacency
    row_capacity: int
    rows_per_person: int
    statistics: tuple[Statistic, ...]

    @property
    def norm_squared(self) -> int:
        return self.row_map.norm_squared(self.design)

    @property
    def is_box(self) -> bool:
        return self.row_map.bounds_entries

    def copies(self, statistic: Statistic) -> int:
        return len(self.design.targets) if statistic in {Statistic.XTY, Statistic.YTY} else 1

    def l2_squared(self, statistic: Statistic) -> Fraction:
        """Return the squared L2 sensitivity of one copy, for a person with all rows that one may have."""
        groups, wide = self.design.group_count, self.design.wide_group_count
        match statistic:
            case Statistic.XTX if self.is_box:
                squared = sensitivity.xtx_box_l2_squared(groups, wide, self.adjacency)
            case Statistic.XTX:
                squared = sensitivity.xtx_norm_l2_squared(self.norm_squared, self.adjacency)
            case Statistic.XTY:
                squared = sensitivity.xty_l2_squared(self.norm_squared, self.adjacency)
            case Statistic.YTY:
                squared = sensitivity.yty() ** 2
            case Statistic.LAMBDA_MIN:
                return self._lambda_min() ** 2
        return squared * self.rows_per_person**2

    def l1(self, statistic: Statistic) -> Fraction:
        """Return the L1 sensitivity of one copy, for a person with all rows that one may have."""
        groups, wide = self.design.group_count, self.design.wide_group_count
        match statistic:
            case Statistic.XTX if self.is_box:
                bound = sensitivity.xtx_box_l1(groups, wide, self.adjacency)
            case Statistic.XTX:
                bound = sensitivity.xtx_norm_l1(self.norm_squared, self.design.supports, self.adjacency)
            case Statistic.XTY:
                bound = sensitivity.xty_l1(
                    self.norm_squared, self.design.supports, self.adjacency, lengthens=self.row_map.lengthens
                )
            case Statistic.YTY:
                bound = sensitivity.yty()
            case Statistic.LAMBDA_MIN:
                return self._lambda_min()
        return bound * self.rows_per_person

    @property
    def lambda_min_tolerance(self) -> int:
        return lambda_min_float_error(len(self.design.terms), self.norm_squared, self.row_capacity)

    def _lambda_min(self) -> Fraction:
        return sensitivity.lambda_min(self.norm_squared, self.lambda_min_tolerance, self.rows_per_person)

    def joint(self, mechanism: Mechanism) -> GramJointBound | None:
        """Return the joint bound, where there is one."""
        is_replaced = self.adjacency is Adjacency.REPLACE_ONE and Statistic.XTX in self.statistics
        if mechanism is not Mechanism.GAUSSIAN or not is_replaced:
            return None
        if not self.is_box:
            return GramJointBound(Fraction(1))
        groups, wide = self.design.group_count, self.design.wide_group_count
        return GramJointBound(sensitivity.xtx_box_joint_constant(groups, wide))

    def bounds(self, mechanism: Mechanism) -> tuple[Bound, ...]:
        """Return what a release must state of each statistic."""
        gaussian = mechanism is Mechanism.GAUSSIAN
        return tuple(
            Bound(
                statistic,
                DISTRIBUTIONS[mechanism],
                self.l2_squared(statistic) if gaussian else self.l1(statistic),
                self.copies(statistic),
                gaussian and statistic is Statistic.XTX and not self.is_box,
            )
            for statistic in self.statistics
        )


@lru_cache(maxsize=128)
def default_shares(
    statistics: tuple[Statistic, ...],
    mechanism: Mechanism = Mechanism.GAUSSIAN,
    calibration: Calibration = Calibration.ANALYTIC,
) -> Mapping[Statistic, Fraction]:
    """Split a price over statistics: λ_min one twentieth of the whole, the others in fixed proportions.

    Gaussian noise: 0.5, 0.415, 0.085 of µ² or ρ. Laplace noise: 0.35, 0.6, 0.05 of ε. The published formulas
    ``classical`` and ``wang2018``: equal parts.

    Examples
    --------
    >>> {s.value: float(v) for s, v in default_shares((Statistic.XTX, Statistic.XTY, Statistic.YTY)).items()}
    {'xtx': 0.5, 'xty': 0.415, 'yty': 0.085}
    """
    if calibration in {Calibration.CLASSICAL, Calibration.WANG2018}:
        return MappingProxyType({s: Fraction(1, len(statistics)) for s in statistics})
    proportions = _GAUSSIAN_WEIGHTS if mechanism is Mechanism.GAUSSIAN else _LAPLACE_WEIGHTS
    rest = Fraction(1)
    shares: dict[Statistic, Fraction] = {}
    weights = {s: w for s, w in proportions.items() if s in statistics}
    if Statistic.LAMBDA_MIN in statistics:
        shares[Statistic.LAMBDA_MIN] = LAMBDA_MIN_SHARE if weights else rest
        rest -= shares[Statistic.LAMBDA_MIN]
    shares |= {s: rest * w / sum(weights.values()) for s, w in weights.items()}
    return MappingProxyType({s: shares[s] for s in statistics})


def plan_gram(
    design: Design,
    row_map: RowMap,
    adjacency: Adjacency,
    *,
    row_capacity: int,
    price: Price,
    shares: Mapping[Statistic, Fraction],
    accountant: Accountant = GDP,
    mechanism: Mechanism = Mechanism.GAUSSIAN,
    calibration: Calibration = Calibration.ANALYTIC,
    rows_per_person: int = 1,
) -> GramPlan:
    """Split a price over statistics and find each one's integer scales.

    Parameters
    ----------
    row_capacity : int
        Public bound on the number of rows; enters the float error of λ_min alone.
    shares : mapping of Statistic to Fraction
        Positive, adding up to at most 1: of µ² or ρ for Gaussian noise, of ε for Laplace noise and for the published
        formulas, which split δ alike.
    accountant : Accountant
        That of the population.
    rows_per_person : int
        Most rows of one person that count.

    Returns
    -------
    GramPlan
        Its cost is at most the price.

    Raises
    ------
    PlanError
        If the account does not sell this, or the price is too small or too large for the lattice.
    ValueError
        If the shares are not positive or add up to more than 1.
    """
    if not all(share > 0 for share in shares.values()) or sum(shares.values()) > 1:
        raise ValueError("shares must be positive and add up to at most 1")
    if rows_per_person < 1 or not design.terms:
        raise ValueError("a person has at least one row, and a design at least one term")
    statistics = tuple(s for s in Statistic if s in shares)
    inputs = _SensitivityInputs(design, row_map, adjacency, row_capacity, rows_per_person, statistics)
    return _plan(inputs, price, tuple(shares[s] for s in statistics), accountant, mechanism, calibration)


def derive_bounds(
    design: Design,
    row_map: RowMap,
    adjacency: Adjacency,
    *,
    row_capacity: int,
    statistics: tuple[Statistic, ...],
    mechanism: Mechanism,
    rows_per_person: int = 1,
) -> tuple[tuple[Bound, ...], GramJointBound | None]:
    """Return the sensitivities, and the joint bound, of every plan of such a release: see `plan_gram`."""
    inputs = _SensitivityInputs(design, row_map, adjacency, row_capacity, rows_per_person, statistics)
    return inputs.bounds(mechanism), inputs.joint(mechanism)


def _bytes_of_plan(plan: GramPlan) -> int:
    return bytes_of_design(plan.design)


@cache_sized(DESIGNS_BYTES, _bytes_of_plan)
def _plan(
    inputs: _SensitivityInputs,
    price: Price,
    shares: tuple[Fraction, ...],
    accountant: Accountant,
    mechanism: Mechanism,
    calibration: Calibration,
) -> GramPlan:
    if calibration not in CALIBRATIONS[mechanism]:
        known = " or ".join(CALIBRATIONS[mechanism])
        raise PlanError("calibration", f"{mechanism} noise is calibrated as {known}, not as {calibration}")
    bounds, joint = inputs.bounds(mechanism), inputs.joint(mechanism)
    if calibration is Calibration.ANALYTIC:
        allocation = allocate(bounds, shares, price=price, accountant=accountant, mechanism=mechanism, joint=joint)
    else:
        limit = read_limit(accountant, mechanism, price)
        if mechanism is Mechanism.GAUSSIAN:
            candidates = iter([_formula_parts(bounds, shares, price, calibration)])
        else:
            drawn_for = _nieminen_sensitivities(inputs)
            candidates = laplace_parts(bounds, shares, drawn_for, accountant, price, limit)
        allocation = first_within(limit, candidates, accountant, joint, calibration)
    return GramPlan(inputs.design, inputs.row_map, allocation, joint, inputs.lambda_min_tolerance)


def _formula_parts(
    bounds: tuple[Bound, ...], shares: tuple[Fraction, ...], price: Price, calibration: Calibration
) -> tuple[Part, ...]:
    """Return parts of Kalaja's or Wang's formula: every target is a part, one σ for the whole triangle."""
    if price.epsilon is None or price.delta is None:
        raise PlanError("price", f"{calibration} is a formula of epsilon and delta: state the price so")
    epsilon, delta = exact(price.epsilon), exact(price.delta)
    each = [(bound, share / bound.copies) for bound, share in zip(bounds, shares, strict=True)]
    largest = max(share for _, share in each)
    if calibration is Calibration.CLASSICAL and epsilon * largest >= 1:
        raise PlanError(
            "price",
            f"classical holds only where each part's epsilon is below 1; one has {float(epsilon * largest):g}. The "
            f"largest epsilon that passes is just below {round_down(1 / largest, 6):g}",
        )
    parts: list[Part] = []
    for bound, share in each:
        sigma = sigma_of_formula(calibration, bound.sensitivity, epsilon * share, delta * share)
        pairs = sigma if bound.has_pairs else None
        parts.append(GaussianPart(bound.statistic, bound.sensitivity, sigma, pairs, bound.copies))
    return tuple(parts)


def _nieminen_sensitivities(inputs: _SensitivityInputs) -> list[Fraction]:
    if not inputs.is_box or Statistic.LAMBDA_MIN in inputs.statistics or inputs.rows_per_person > 1:
        raise PlanError("calibration", "nieminen2017 is for the box map, xtx, xty and yty, and one row per person")
    return [sensitivity.nieminen_sensitivity(s, len(inputs.design.terms)) for s in inputs.statistics]
