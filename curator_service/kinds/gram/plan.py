"""Turn a request and its price into integer noise scales and a cost; public numbers only."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.kernel import lambda_min_float_error
from curator_service.privacy.accountant import GDP, PURE, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import (
    CALIBRATIONS,
    Calibration,
    Mechanism,
    PlanError,
    nieminen_sensitivity,
    scale_for,
    sigma_for,
    sigma_of_formula,
)
from curator_service.privacy.conversions import UNITS_PER_ONE, exact, largest_below, round_down
from curator_service.privacy.design import Design
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part, Statistic
from curator_service.privacy.row_maps import Box, RowMap
from curator_service.privacy.samplers import Distribution

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
    parts : tuple of Part
        One per statistic, in the order of `Statistic`.
    joint_constant : Fraction or None
        Where rows are replaced and XᵀX is released with Gaussian noise: see `sensitivity.joint_cost`.
    lambda_min_tolerance : int
        To within what λ_min is computed; in its sensitivity.
    cost : int
        In units of the account, from the integers in `parts`, rounded up.
    """

    design: Design
    row_map: RowMap
    parts: tuple[Part, ...]
    joint_constant: Fraction | None
    lambda_min_tolerance: int
    cost: int

    @property
    def pure_epsilon(self) -> Fraction | None:
        """The pure ε of the release alone; None with Gaussian noise, which has none."""
        if any(isinstance(part, GaussianPart) for part in self.parts):
            return None
        return sum((part.copies * part.epsilon for part in self.parts if isinstance(part, LaplacePart)), Fraction(0))


@dataclass(frozen=True, slots=True)
class _SensitivityInputs:
    """What is asked, with the bounds that follow from it."""

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
        return isinstance(self.row_map, Box)

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
                bound = sensitivity.xtx_norm_l1(self.norm_squared, groups, wide, self.adjacency)
            case Statistic.XTY:
                bound = sensitivity.xty_l1(self.norm_squared, groups, self.adjacency)
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

    def joint_constant(self) -> Fraction | None:
        """Return what the joint bound needs, where it holds."""
        if self.adjacency is not Adjacency.REPLACE_ONE or Statistic.XTX not in self.statistics:
            return None
        if not self.is_box:
            return Fraction(1)
        return sensitivity.xtx_box_joint_constant(self.design.group_count, self.design.wide_group_count)


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
    design : Design
    row_map : RowMap
    adjacency : Adjacency
    row_capacity : int
        Public bound on the number of rows; enters the float error of λ_min alone.
    price : Price
    shares : mapping of Statistic to Fraction
        Positive, adding up to at most 1: of µ² or ρ for Gaussian noise, of ε for Laplace noise and for the published
        formulas, which split δ alike.
    accountant : Accountant
        That of the population.
    mechanism : Mechanism
    calibration : Calibration
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
    ordered = tuple((s, shares[s]) for s in Statistic if s in shares)
    inputs = _SensitivityInputs(design, row_map, adjacency, row_capacity, rows_per_person, tuple(s for s, _ in ordered))
    return _plan(inputs, price, ordered, accountant, mechanism, calibration)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a release must state of one statistic, whatever its price.

    Attributes
    ----------
    statistic : Statistic
    distribution : Distribution
    sensitivity : Fraction
        Of one copy: the squared L2 sensitivity for Gaussian noise, the L1 sensitivity for Laplace noise.
    copies : int
    has_pairs : bool
        Whether it may have a scale of its own off the diagonal, whose entries then weigh √2 in the sensitivity.
    """

    statistic: Statistic
    distribution: Distribution
    sensitivity: Fraction
    copies: int
    has_pairs: bool


def derive_bounds(
    design: Design,
    row_map: RowMap,
    adjacency: Adjacency,
    *,
    row_capacity: int,
    statistics: tuple[Statistic, ...],
    mechanism: Mechanism,
    rows_per_person: int = 1,
) -> tuple[tuple[Bound, ...], Fraction | None]:
    """Return the sensitivities, and the joint bound constant, of every plan of such a release: see `plan_gram`."""
    inputs = _SensitivityInputs(design, row_map, adjacency, row_capacity, rows_per_person, statistics)
    gaussian = mechanism is Mechanism.GAUSSIAN
    bounds = tuple(
        Bound(
            statistic,
            GaussianPart.distribution if gaussian else LaplacePart.distribution,
            inputs.l2_squared(statistic) if gaussian else inputs.l1(statistic),
            inputs.copies(statistic),
            gaussian and statistic is Statistic.XTX and not inputs.is_box,
        )
        for statistic in statistics
    )
    return bounds, inputs.joint_constant() if gaussian else None


@lru_cache(maxsize=1024)
def _plan(
    inputs: _SensitivityInputs,
    price: Price,
    shares: tuple[tuple[Statistic, Fraction], ...],
    accountant: Accountant,
    mechanism: Mechanism,
    calibration: Calibration,
) -> GramPlan:
    if calibration not in CALIBRATIONS[mechanism]:
        known = " or ".join(CALIBRATIONS[mechanism])
        raise PlanError("calibration", f"{mechanism} noise is calibrated as {known}, not as {calibration}")
    if mechanism is Mechanism.LAPLACE:
        limit, candidates = _laplace_parts(inputs, price, shares, accountant, calibration)
    else:
        limit, candidates = _gaussian_parts(inputs, price, shares, accountant, calibration)
    joint_constant = inputs.joint_constant() if mechanism is Mechanism.GAUSSIAN else None
    for parts in candidates:
        cost = accountant.cost(parts, joint_constant)
        if cost <= limit:
            return GramPlan(inputs.design, inputs.row_map, parts, joint_constant, inputs.lambda_min_tolerance, cost)
    raise PlanError(
        "calibration",
        f"at this price {calibration} draws less noise than (epsilon, delta) needs: use analytic",
    )


_Parts = tuple[int, Iterator[tuple[Part, ...]]]


def _gaussian_parts(
    inputs: _SensitivityInputs,
    price: Price,
    shares: tuple[tuple[Statistic, Fraction], ...],
    accountant: Accountant,
    calibration: Calibration,
) -> _Parts:
    """Return the units that the price pays for, and parts to try, the least noise first."""
    if accountant is PURE:
        raise PlanError(
            "mechanism", "the population's account counts pure epsilon, which Gaussian noise has not: ask for laplace"
        )
    if price.is_pure:
        raise PlanError("price", "Gaussian noise has no pure epsilon: state delta beside it, or ask for laplace")
    limit = _units(accountant, price)
    if calibration is Calibration.ANALYTIC:
        return limit, _analytic_parts(inputs, Fraction(limit, UNITS_PER_ONE), shares, accountant)
    if price.epsilon is None or price.delta is None:
        raise PlanError("price", f"{calibration} is a formula of epsilon and delta: state the price so")
    return limit, iter([_formula_parts(inputs, exact(price.epsilon), exact(price.delta), shares, calibration)])


def _analytic_parts(
    inputs: _SensitivityInputs,
    number: Fraction,
    shares: tuple[tuple[Statistic, Fraction], ...],
    accountant: Accountant,
) -> Iterator[tuple[Part, ...]]:
    joint_constant = inputs.joint_constant()
    stretches = [Fraction(1)]
    if joint_constant is not None:
        # Together the parts cost less than their sum: each may be dearer by the same factor. Rounding σ up can, at odd
        # shares, raise the joint bound by a hair; then a little less decides, or the sum, which it cannot raise.
        share = dict(shares)
        xtx, xty, yty = (share.get(s, Fraction(0)) for s in (Statistic.XTX, Statistic.XTY, Statistic.YTY))
        saved = xtx + xty + yty - sensitivity.joint_cost(xtx, xty, yty, joint_constant)
        whole = sum(share.values())
        stretches = [whole / (whole - saved), whole / (whole - saved) * (1 - Fraction(1, 10**6)), *stretches]
    for stretch in stretches:
        parts: list[Part] = []
        for statistic, share_of in shares:
            copies, squared = inputs.copies(statistic), inputs.l2_squared(statistic)
            part_number = number * share_of * stretch
            sigma = sigma_for(accountant, copies * squared, part_number)
            part = GaussianPart(statistic, squared, sigma, copies=copies)
            if statistic is Statistic.XTX and not inputs.is_box:
                part = replace(part, sigma_offdiagonal=sigma_for(accountant, squared / 2, part_number))
            parts.append(part)
        yield tuple(parts)


def _formula_parts(
    inputs: _SensitivityInputs,
    epsilon: Fraction,
    delta: Fraction,
    shares: tuple[tuple[Statistic, Fraction], ...],
    calibration: Calibration,
) -> tuple[Part, ...]:
    """Return parts of Kalaja's or Wang's formula: every target is a part, one σ for the whole triangle."""
    largest = max(share / inputs.copies(statistic) for statistic, share in shares)
    if calibration is Calibration.CLASSICAL and epsilon * largest >= 1:
        raise PlanError(
            "price",
            f"classical holds only where each part's epsilon is below 1; one has {float(epsilon * largest):g}. The "
            f"largest epsilon that passes is just below {round_down(1 / largest, 6):g}",
        )
    parts: list[Part] = []
    for statistic, share in shares:
        copies, squared = inputs.copies(statistic), inputs.l2_squared(statistic)
        sigma = sigma_of_formula(calibration, squared, epsilon * share / copies, delta * share / copies)
        whole = statistic is Statistic.XTX and not inputs.is_box
        parts.append(GaussianPart(statistic, squared, sigma, sigma if whole else None, copies))
    return tuple(parts)


def _laplace_parts(
    inputs: _SensitivityInputs,
    price: Price,
    shares: tuple[tuple[Statistic, Fraction], ...],
    accountant: Accountant,
    calibration: Calibration,
) -> _Parts:
    limit = _units(accountant, price)
    if calibration is Calibration.NIEMINEN2017 and (
        not inputs.is_box or Statistic.LAMBDA_MIN in inputs.statistics or inputs.rows_per_person > 1
    ):
        raise PlanError("calibration", "nieminen2017 is for the box map, xtx, xty and yty, and one row per person")

    def parts_at(epsilon: Fraction) -> tuple[Part, ...]:
        parts: list[Part] = []
        for statistic, share in shares:
            copies, bound = inputs.copies(statistic), inputs.l1(statistic)
            drawn_for = bound
            if calibration is Calibration.NIEMINEN2017:
                drawn_for = nieminen_sensitivity(statistic, len(inputs.design.terms))
            parts.append(LaplacePart(statistic, bound, scale_for(copies * drawn_for, epsilon * share), copies))
        return tuple(parts)

    weights = [(float(share) / inputs.copies(s), inputs.copies(s)) for s, share in shares]
    epsilon = Fraction(
        largest_below(lambda e: sum(c * accountant.float_laplace(e * w) for w, c in weights), limit / UNITS_PER_ONE)
    )
    if price.epsilon is not None and price.is_pure:
        epsilon = min(epsilon, exact(price.epsilon))
    # Costs are rounded up, and the float is only an estimate: a little less fits.
    return limit, (parts_at(epsilon * (1 - Fraction(k, 10**9))) for k in (0, 1, 10, 100))


def _units(accountant: Accountant, price: Price) -> int:
    try:
        return accountant.units_of(price)
    except ValueError as error:
        raise PlanError("price", str(error)) from None
