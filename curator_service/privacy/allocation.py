"""From a price and its split to integer scales whose cost, added up from those very integers, is within the price."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from curator_service.privacy.accountant import PURE, Accountant, JointBound, Price
from curator_service.privacy.calibration import Calibration, Mechanism, PlanError, scale_for, sigma_for
from curator_service.privacy.conversions import UNITS_PER_ONE, exact, largest_below
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part
from curator_service.privacy.samplers import Distribution

DISTRIBUTIONS = {
    Mechanism.GAUSSIAN: Distribution.DISCRETE_GAUSSIAN,
    Mechanism.LAPLACE: Distribution.DISCRETE_LAPLACE,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Sensitivity and noise that a release must state of one statistic, at any price.

    Attributes
    ----------
    statistic : str
    distribution : Distribution
    sensitivity : Fraction
        Of one copy, in lattice units: the squared L2 sensitivity for Gaussian noise, the L1 sensitivity for Laplace
        noise.
    copies : int
    has_pairs : bool
        Whether it may have a scale of its own off the diagonal, whose entries then weigh √2 in the sensitivity.
    """

    statistic: str
    distribution: Distribution
    sensitivity: Fraction
    copies: int = 1
    has_pairs: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """Parts, and what they cost together, in units of the account, rounded up."""

    parts: tuple[Part, ...]
    cost: int

    @property
    def pure_epsilon(self) -> Fraction | None:
        """The pure ε of the release alone; None with Gaussian noise, which has none."""
        if any(isinstance(part, GaussianPart) for part in self.parts):
            return None
        return sum((part.copies * part.epsilon for part in self.parts if isinstance(part, LaplacePart)), Fraction(0))


def allocate(
    bounds: Sequence[Bound],
    shares: Sequence[Fraction],
    *,
    price: Price,
    accountant: Accountant,
    mechanism: Mechanism,
    joint: JointBound | None = None,
) -> Allocation:
    """Give each statistic its share of a price, as the account counts it, and the least noise that this pays for.

    Parameters
    ----------
    shares : sequence of Fraction
        Positive, of sum 1 at most; in the order of the bounds.
    joint : JointBound or None
        Where the statistics cost less together than one by one: each is then given more.

    Raises
    ------
    PlanError
        Where no such noise is to be had at this price; the message says what would do.
    """
    limit = read_limit(accountant, mechanism, price)
    if mechanism is Mechanism.LAPLACE:
        candidates = laplace_parts(bounds, shares, [bound.sensitivity for bound in bounds], accountant, price, limit)
    else:
        candidates = _gaussian_parts(bounds, shares, accountant, Fraction(limit, UNITS_PER_ONE), joint)
    return first_within(limit, candidates, accountant, joint)


def read_limit(accountant: Accountant, mechanism: Mechanism, price: Price) -> int:
    """Return the units that a price pays for.

    Raises
    ------
    PlanError
        If the account does not sell such noise, or not at a price so stated.
    """
    if mechanism is Mechanism.GAUSSIAN:
        if accountant is PURE:
            raise PlanError(
                "mechanism",
                "the population's account counts pure epsilon, which Gaussian noise has not: ask for laplace",
            )
        if price.is_pure:
            raise PlanError("price", "Gaussian noise has no pure epsilon: state delta beside it, or ask for laplace")
    try:
        return accountant.units_of(price)
    except ValueError as error:
        raise PlanError("price", str(error)) from None


def first_within(
    limit: int,
    candidates: Iterable[tuple[Part, ...]],
    accountant: Accountant,
    joint: JointBound | None,
    calibration: Calibration = Calibration.ANALYTIC,
) -> Allocation:
    """Return the first parts whose cost, from the integers that are used, is within a limit.

    Raises
    ------
    PlanError
        If none is: a published formula may draw less noise than its (ε, δ) needs.
    """
    for parts in candidates:
        cost = accountant.cost(parts, joint)
        if cost <= limit:
            return Allocation(parts, cost)
    raise PlanError(
        "calibration", f"at this price {calibration} draws less noise than (epsilon, delta) needs: use analytic"
    )


def _gaussian_parts(
    bounds: Sequence[Bound],
    shares: Sequence[Fraction],
    accountant: Accountant,
    number: Fraction,
    joint: JointBound | None,
) -> Iterator[tuple[Part, ...]]:
    stretches = [Fraction(1)]
    if joint is not None:
        # Together the parts cost less than their sum: each may be dearer by the same factor. Rounding σ up can, at odd
        # shares, raise the joint bound by a hair; then a little less decides, or the sum, which it cannot raise.
        together = joint.cost({bound.statistic: share for bound, share in zip(bounds, shares, strict=True)})
        stretch = sum(shares) / together
        stretches = [stretch, stretch * (1 - Fraction(1, 10**6)), *stretches]
    for stretch in stretches:
        parts: list[Part] = []
        for bound, share in zip(bounds, shares, strict=True):
            part_number, squared = number * share * stretch, bound.sensitivity
            sigma = sigma_for(accountant, bound.copies * squared, part_number)
            part = GaussianPart(bound.statistic, squared, sigma, copies=bound.copies)
            if bound.has_pairs:
                part = replace(part, sigma_offdiagonal=sigma_for(accountant, squared / 2, part_number))
            parts.append(part)
        yield tuple(parts)


def laplace_parts(
    bounds: Sequence[Bound],
    shares: Sequence[Fraction],
    drawn_for: Sequence[Fraction],
    accountant: Accountant,
    price: Price,
    limit: int,
) -> Iterator[tuple[Part, ...]]:
    """Yield parts of Laplace noise, the least noise first.

    Parameters
    ----------
    drawn_for : sequence of Fraction
        L1 sensitivities from which scales are found: those of the bounds, or a published formula's.
    limit : int
        What it pays for, in units.
    """
    stated = list(zip(bounds, shares, drawn_for, strict=True))

    def parts_at(epsilon: Fraction) -> tuple[Part, ...]:
        return tuple(
            LaplacePart(
                bound.statistic, bound.sensitivity, scale_for(bound.copies * drawn, epsilon * share), bound.copies
            )
            for bound, share, drawn in stated
        )

    weights = [(float(share) / bound.copies, bound.copies) for bound, share, _ in stated]
    epsilon = Fraction(
        largest_below(lambda e: sum(c * accountant.float_laplace(e * w) for w, c in weights), limit / UNITS_PER_ONE)
    )
    if price.epsilon is not None and price.is_pure:
        epsilon = min(epsilon, exact(price.epsilon))
    # Costs are rounded up, and the float is only an estimate: a little less fits.
    return (parts_at(epsilon * (1 - Fraction(k, 10**9))) for k in (0, 1, 10, 100))
