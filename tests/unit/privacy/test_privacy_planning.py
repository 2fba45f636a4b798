"""Planning: integer scales as small as the price allows, and a cost that never exceeds it."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_service.kinds.gram import plan as planning
from curator_service.kinds.gram.plan import GramPlan, default_shares, plan_gram
from curator_service.kinds.gram.sensitivity import GramJointBound, joint_cost, nieminen_sensitivity
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import ACCOUNTANTS, GDP, PURE, ZCDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, Mechanism, PlanError
from curator_service.privacy.conversions import exact, mu_squared_of_pure
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, make_design
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.parts import GaussianPart, LaplacePart, Part
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY
from curator_service.privacy.samplers import SCALE_MIN

MICRO = Fraction(1, 10**12)
XTX, XTY, YTY, LAMBDA_MIN = Statistic
THREE = (XTX, XTY, YTY)
EQUAL = dict.fromkeys(THREE, Fraction(1, 3))
QUICK = settings(deadline=None)
SETTINGS = settings(deadline=None, max_examples=60)
MAPS = [Box(), Ball.of_norm(1.2), Unit(), UnitXY()]
every_accountant = pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=lambda a: a.name)
every_curved = pytest.mark.parametrize("accountant", [GDP, ZCDP], ids=lambda a: a.name)


def design(numeric: int = 2, levels: int = 3, targets: int = 1, intercept: bool = True) -> Design:
    category = Column("c", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=tuple("abcdef"[:levels]))
    features = tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(numeric))
    outcomes = tuple(Column(f"y{i}", ColumnType.NUMERIC) for i in range(targets))
    return make_design((*features, category), outcomes, intercept=intercept)


def price_of(units: int, accountant: Accountant = GDP) -> Price:
    """Return the price that is so many units of an account, exactly."""
    if accountant is PURE:
        return Price(epsilon=units / 1e12)
    price = Price(rho=units / (2e12 if accountant is GDP else 1e12))
    assert accountant.units_of(price) == units
    return price


def plan(
    price: Price | int,
    row_map: RowMap | None = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    shares: Mapping[Statistic, Fraction] | None = None,
    of: Design | None = None,
    accountant: Accountant = GDP,
    mechanism: Mechanism = Mechanism.GAUSSIAN,
    calibration: Calibration = Calibration.ANALYTIC,
    rows_per_person: int = 1,
) -> GramPlan:
    return plan_gram(
        of or design(),
        row_map or Box(),
        adjacency,
        row_capacity=10**6,
        price=price_of(price, accountant) if isinstance(price, int) else price,
        shares=shares or default_shares(tuple(Statistic), mechanism, calibration),
        accountant=accountant,
        mechanism=mechanism,
        calibration=calibration,
        rows_per_person=rows_per_person,
    )


def cost_of_part(accountant: Accountant, part: Part) -> Fraction:
    """Return a part's cost from first principles: the worse of all weight on the diagonal, or off it."""
    if isinstance(part, LaplacePart):
        epsilon = part.sensitivity / part.scale
        one = {"gdp": mu_squared_of_pure(epsilon), "zcdp": epsilon**2 / 2, "pure": epsilon}[accountant.name]
        return part.copies * one
    loss, factor = (9, Fraction(1)) if accountant is GDP else (0, Fraction(1, 2))
    worst = part.sensitivity_squared / (part.sigma**2 - loss)
    if part.sigma_offdiagonal is not None:
        worst = max(worst, part.sensitivity_squared / 2 / (part.sigma_offdiagonal**2 - loss))
    return part.copies * worst * factor


def cost_of_plan(accountant: Accountant, made: GramPlan, adjacency: Adjacency) -> Fraction:
    """Return a plan's exact cost: the joint bound for Gaussian noise where rows are replaced, else the sum."""
    costs = {part.statistic: cost_of_part(accountant, part) for part in made.parts}
    apart = sum(costs.values(), Fraction(0))
    if adjacency is Adjacency.ADD_REMOVE or XTX not in costs or isinstance(made.parts[0], LaplacePart):
        return apart
    groups, wide = made.design.group_count, made.design.wide_group_count
    joint_constant = Fraction(groups**2 + wide, groups**2) if isinstance(made.row_map, Box) else Fraction(1)
    xtx, xty, yty = (costs.get(s, Fraction(0)) for s in THREE)
    corner, middle = yty + xty / 4, xty / 2 + joint_constant * xty**2 / (16 * xtx)
    return min(xtx + max(corner, middle), xtx + xty + yty) + costs.get(LAMBDA_MIN, Fraction(0))


ROW_MAPS = st.one_of(st.sampled_from([Box(), Unit(), UnitXY()]), st.floats(0.05, 4).map(Ball.of_norm))
UNITS = st.one_of(st.integers(10**9, 10**14), st.sampled_from([10**9, 10**9 + 1, 56_028_963_825]))
LAPLACE_UNITS = st.integers(10**12, 10**14)  # small shares of less are below the lattice
MODES = st.sampled_from(
    [(m, c) for m, known in planning.CALIBRATIONS.items() for c in known]
    + [(Mechanism.GAUSSIAN, Calibration.ANALYTIC), (Mechanism.LAPLACE, Calibration.ANALYTIC)]
)
PRICES = st.one_of(
    st.tuples(st.floats(-2, 2), st.floats(-12, -2)).map(lambda p: Price(float(f"{10 ** p[0]:.4g}"), 10 ** p[1])),
    st.floats(-4, 2).map(lambda p: Price(epsilon=float(f"{10**p:.4g}"))),
    st.floats(-2, 1).map(lambda p: Price(mu=10**p)),
    st.floats(-4, 2).map(lambda p: Price(rho=10**p)),
)


@st.composite
def share_maps(draw: st.DrawFn) -> Mapping[Statistic, Fraction]:
    chosen = draw(st.lists(st.sampled_from(Statistic), min_size=1, unique=True))
    if draw(st.booleans()):
        return default_shares(tuple(chosen))
    weights = {s: Fraction(draw(st.integers(1, 100))) for s in chosen}
    total = sum(weights.values()) * draw(st.fractions(1, 2, max_denominator=7))
    return {s: w / total for s, w in weights.items()}


@dataclass(frozen=True)
class Request:
    price: Price
    row_map: RowMap
    adjacency: Adjacency
    shares: Mapping[Statistic, Fraction]
    targets: int
    accountant: Accountant
    mode: tuple[Mechanism, Calibration]
    rows_per_person: int

    def plan(self) -> GramPlan:
        return plan(
            self.price,
            self.row_map,
            self.adjacency,
            self.shares,
            design(targets=self.targets),
            self.accountant,
            *self.mode,
            self.rows_per_person,
        )

    def attempt(self) -> GramPlan | PlanError:
        try:
            return self.plan()
        except PlanError as refusal:
            return refusal

    def refusals(self) -> Iterator[str]:
        """Name the fields that a rule speaks against, in order of precedence."""
        mechanism, calibration = self.mode
        if mechanism is Mechanism.GAUSSIAN:
            if self.accountant is PURE:
                yield "mechanism"
            if self.price.is_pure:
                yield "price"
        if self.accountant is PURE and not self.price.is_pure:
            yield "price"
        if self.accountant is ZCDP and self.price.mu is not None:
            yield "price"
        if calibration in {Calibration.CLASSICAL, Calibration.WANG2018}:
            if self.price.delta is None:
                yield "price"
            elif calibration is Calibration.CLASSICAL:
                copies = {s: self.targets if s in {XTY, YTY} else 1 for s in self.shares}
                if any(exact(self.price.epsilon or 0) * v / copies[s] >= 1 for s, v in self.shares.items()):
                    yield "price"
        if calibration is Calibration.NIEMINEN2017 and (
            not isinstance(self.row_map, Box) or LAMBDA_MIN in self.shares or self.rows_per_person > 1
        ):
            yield "calibration"


REQUESTS = st.builds(
    Request,
    PRICES,
    ROW_MAPS,
    st.sampled_from(Adjacency),
    share_maps(),
    st.integers(1, 3),
    st.sampled_from(list(ACCOUNTANTS.values())),
    MODES,
    st.sampled_from([1, 1, 2, 7]),
)


# --- every request ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=400)
@given(REQUESTS)
def test_a_request_is_planned_within_its_price_or_refused_by_a_rule(request: Request) -> None:
    expected = next(request.refusals(), None)
    made = request.attempt()
    if isinstance(made, PlanError):
        if expected is not None:
            assert made.field == expected
        elif made.field == "calibration":  # only a published formula can ask for less noise than is paid for
            assert "less noise than (epsilon, delta) needs" in str(made)
            assert request.mode[1] in {Calibration.CLASSICAL, Calibration.WANG2018}
        else:
            assert made.field == "price"
            assert "too small" in str(made) or "too large" in str(made)
        return
    assert expected is None
    assert 0 < made.cost <= request.accountant.units_of(request.price)
    assert made.cost == math.ceil(cost_of_plan(request.accountant, made, request.adjacency) / MICRO)
    assert made.cost == request.accountant.cost(made.parts, made.joint)
    assert [part.statistic for part in made.parts] == [s for s in Statistic if s in request.shares]


@SETTINGS
@given(UNITS, ROW_MAPS, share_maps(), st.integers(1, 3), st.sampled_from([GDP, ZCDP]))
def test_every_part_is_within_its_share(
    units: int, row_map: RowMap, shares: Mapping[Statistic, Fraction], targets: int, accountant: Accountant
) -> None:
    made = plan(units, row_map, shares=shares, of=design(targets=targets), accountant=accountant)
    for part in made.parts:
        assert cost_of_part(accountant, part) <= units * MICRO * shares[part.statistic]


@SETTINGS
@given(UNITS, ROW_MAPS, st.sampled_from(Adjacency), share_maps(), st.integers(1, 3), st.sampled_from([GDP, ZCDP]))
def test_no_gaussian_scale_could_be_one_smaller(
    units: int,
    row_map: RowMap,
    adjacency: Adjacency,
    shares: Mapping[Statistic, Fraction],
    targets: int,
    accountant: Accountant,
) -> None:
    made = plan(units, row_map, adjacency, shares, design(targets=targets), accountant)
    if made.joint is not None and {XTX, XTY} <= set(shares):
        return  # shares are then of the joint bound: see the tests of it
    for part in made.parts:
        assert isinstance(part, GaussianPart)
        allowed = units * MICRO * shares[part.statistic]
        less = GaussianPart(
            part.statistic, part.sensitivity_squared, part.sigma - 1, part.sigma_offdiagonal, part.copies
        )
        assert cost_of_part(accountant, less) > allowed
        if part.sigma_offdiagonal is not None:
            less = GaussianPart(
                part.statistic, part.sensitivity_squared, part.sigma, part.sigma_offdiagonal - 1, part.copies
            )
            assert cost_of_part(accountant, less) > allowed


@SETTINGS
@example(6_250_000_000_000, Box(), Adjacency.ADD_REMOVE, {XTX: Fraction(1, 5), XTY: Fraction(4, 5)}, 1)
@given(LAPLACE_UNITS, ROW_MAPS, st.sampled_from(Adjacency), share_maps(), st.integers(1, 3))
def test_no_laplace_scale_could_be_one_smaller_where_epsilon_is_split(
    units: int, row_map: RowMap, adjacency: Adjacency, shares: Mapping[Statistic, Fraction], targets: int
) -> None:
    made = plan(units, row_map, adjacency, shares, design(targets=targets), PURE, Mechanism.LAPLACE)
    for part in made.parts:
        assert isinstance(part, LaplacePart)
        allowed = units * MICRO * shares[part.statistic] / part.copies
        # What takes the price to its last unit may be one too dear, as costs are rounded up.
        assert part.sensitivity / part.scale <= allowed <= part.sensitivity / (part.scale - 1)


@SETTINGS
@given(
    LAPLACE_UNITS, ROW_MAPS, st.sampled_from(Adjacency), share_maps(), st.integers(1, 3), st.sampled_from([GDP, ZCDP])
)
def test_laplace_scales_use_up_a_price_in_the_accounts_number(
    units: int,
    row_map: RowMap,
    adjacency: Adjacency,
    shares: Mapping[Statistic, Fraction],
    targets: int,
    accountant: Accountant,
) -> None:
    made = plan(units, row_map, adjacency, shares, design(targets=targets), accountant, Mechanism.LAPLACE)
    closer = [
        LaplacePart(p.statistic, p.sensitivity, math.floor(p.scale * (1 - 4e-7)) - 1, p.copies)
        for p in made.parts
        if isinstance(p, LaplacePart)
    ]
    assert made.cost <= units < accountant.cost(closer)


@SETTINGS
@given(LAPLACE_UNITS, share_maps())
def test_shares_of_a_laplace_price_are_of_its_epsilon(units: int, shares: Mapping[Statistic, Fraction]) -> None:
    made = plan(units, shares=shares, mechanism=Mechanism.LAPLACE)
    per_share = [part.sensitivity * part.copies / part.scale / shares[part.statistic] for part in made.parts]
    assert float(max(per_share) / min(per_share)) == pytest.approx(1, abs=2 / SCALE_MIN)


@every_curved
def test_a_laplace_price_in_epsilon_alone_is_split_as_it_is(accountant: Accountant) -> None:
    made = plan(Price(epsilon=1.0), shares=EQUAL, accountant=accountant, mechanism=Mechanism.LAPLACE)
    assert [part.scale for part in made.parts] == [math.ceil(3 * part.sensitivity) for part in made.parts]
    # The price of the whole ε is above the sum of its parts: what is not drawn is not charged.
    assert made.cost < accountant.units_of(Price(epsilon=1.0)) / 2


@pytest.mark.parametrize("statistic", Statistic)
@every_accountant
def test_a_laplace_price_for_one_statistic_is_used_up(statistic: Statistic, accountant: Accountant) -> None:
    for epsilon in (0.0001, 0.001234567, 0.01, 0.1, 0.123456789, 1.0, 3.3):
        price = Price(epsilon=epsilon)
        made = plan(price, shares={statistic: Fraction(1)}, accountant=accountant, mechanism=Mechanism.LAPLACE)
        assert made.cost <= accountant.units_of(price) <= made.cost * (1 + 1e-6) + 1


# --- refusals ---------------------------------------------------------------------------------------------------------


def refusal_of(**request: object) -> PlanError:
    with pytest.raises(PlanError) as refusal:
        plan(**request)  # type: ignore[arg-type]
    return refusal.value


LAPLACE, FORMULA = {"mechanism": Mechanism.LAPLACE}, Price(epsilon=0.5, delta=1e-6)
WAYS_OUT: list[tuple[dict[str, object], str, list[str]]] = [
    # what is asked, the field that is refused, and what its text says
    *(({"price": Price(1.0, delta), "accountant": PURE}, "mechanism", ["ask for laplace"]) for delta in (None, 1e-6)),
    *(({"price": Price(1.0), "accountant": a}, "price", ["state delta", "laplace"]) for a in (GDP, ZCDP)),
    ({"price": Price(mu=0.5), "accountant": ZCDP, **LAPLACE}, "price", ["rho"]),
    *(
        ({"price": price, "accountant": PURE, **LAPLACE}, "price", ["epsilon alone"])
        for price in (Price(mu=0.5), Price(rho=0.5), Price(epsilon=1.0, delta=1e-6))
    ),
    ({"price": Price(epsilon=1001.0), "accountant": GDP, **LAPLACE}, "price", ["at most 1000"]),
    ({"price": Price(epsilon=1.0, delta=1e-16), "accountant": GDP, **LAPLACE}, "price", ["at least 1e-15"]),
    ({"price": Price(epsilon=1001.0, delta=1e-6), "accountant": ZCDP, **LAPLACE}, "price", ["at most 1000"]),
    *(
        (
            {"price": FORMULA, "shares": EQUAL, "mechanism": m, "calibration": c},
            "calibration",
            [*planning.CALIBRATIONS[m]],
        )
        for m in Mechanism
        for c in Calibration
        if c not in planning.CALIBRATIONS[m]
    ),
    *(
        ({"price": price, "shares": EQUAL, "calibration": calibration}, "price", ["epsilon and delta"])
        for calibration in (Calibration.CLASSICAL, Calibration.WANG2018)
        for price in (Price(mu=0.2), Price(rho=0.02))
    ),
    *(({"price": 1, "row_map": row_map}, "price", ["too small"]) for row_map in (Box(), Ball.of_norm(1.2))),
    *(
        ({"price": Price(rho=1e28), "row_map": row_map, "accountant": a}, "price", ["too large"])
        for row_map in (Box(), Ball.of_norm(1.2))
        for a in (GDP, ZCDP)
    ),
    *(({"price": Price(mu=1e-7), "row_map": m}, "price", ["smallest unit"]) for m in (Box(), Ball.of_norm(1.2))),
    *(
        ({"price": Price(epsilon=1e-9), "accountant": a, **LAPLACE}, "price", ["too small"])
        for a in ACCOUNTANTS.values()
    ),
]


@pytest.mark.parametrize(("asked", "field", "words"), WAYS_OUT, ids=range(len(WAYS_OUT)))
def test_a_refusal_names_the_field_and_what_would_work(asked: dict[str, object], field: str, words: list[str]) -> None:
    error = refusal_of(**asked)
    assert error.field == field
    assert all(word in str(error) for word in words)


def test_a_ball_of_radius_zero_is_refused() -> None:
    with pytest.raises(PlanError):
        plan(10**10, Ball(0))


@pytest.mark.parametrize(
    "shares",
    [{XTX: Fraction(1), XTY: Fraction(1)}, {XTX: Fraction(0)}, {XTX: Fraction(-1, 2)}, {XTX: Fraction(11, 10)}],
)
def test_shares_that_are_not_a_split_are_refused(shares: dict[Statistic, Fraction]) -> None:
    with pytest.raises(ValueError, match="shares must be positive"):
        plan(10**10, shares=shares)


def test_a_person_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        plan(10**10, rows_per_person=0)


def test_a_design_without_a_term_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one term"):
        plan(10**10, of=Design(()))


REFUSED = [
    {"price": Price(rho=1e28)},
    {"price": Price(mu=1e-7)},
    {"price": Price(epsilon=1.0)},
    {"price": Price(epsilon=100.0, delta=1e-6), "calibration": Calibration.WANG2018},
    {"price": Price(epsilon=10.0, delta=1e-6), "calibration": Calibration.CLASSICAL},
]


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_a_refusal_leaves_an_affordable_request_as_it_was(refused: dict[str, object]) -> None:
    before = plan(Price(epsilon=1.0, delta=1e-6))
    refusal_of(**refused)
    assert plan(Price(epsilon=1.0, delta=1e-6)) == before


# --- scales -----------------------------------------------------------------------------------------------------------


def test_a_box_has_one_scale_and_a_ball_two() -> None:
    assert plan(10**10, Box()).parts[0].sigma_offdiagonal is None
    for row_map in MAPS[1:]:
        ball = plan(10**10, row_map).parts[0]
        assert ball.sigma == pytest.approx(math.sqrt(2) * ball.sigma_offdiagonal, rel=1e-6)


@every_curved
@pytest.mark.parametrize("mechanism", Mechanism)
def test_each_target_is_charged(mechanism: Mechanism, accountant: Accountant) -> None:
    wanted = {"shares": {XTY: Fraction(1)}, "mechanism": mechanism, "accountant": accountant}
    one, three = (plan(10**8, of=design(targets=t), **wanted).parts[0] for t in (1, 3))  # type: ignore[arg-type]
    assert (one.copies, three.copies) == (1, 3)
    # The µ² of a pure ε is a little more than quadratic.
    assert three.scales[0] == pytest.approx(one.scales[0] * math.sqrt(3), rel=1e-5)


def test_each_target_takes_its_part_of_a_pure_epsilon() -> None:
    shares = {YTY: Fraction(1)}
    one, three = (
        plan(10**12, shares=shares, of=design(targets=t), accountant=PURE, mechanism=Mechanism.LAPLACE).parts[0]
        for t in (1, 3)
    )
    assert isinstance(one, LaplacePart)
    assert isinstance(three, LaplacePart)
    assert three.scale == 3 * one.scale


def test_replace_one_needs_more_noise_than_add_remove() -> None:
    for row_map in (Box(), Ball.of_norm(1.2)):
        less, more = (plan(10**10, row_map, a, shares={s: Fraction(1, 4) for s in Statistic}).parts for a in Adjacency)
        assert more[0].sigma > less[0].sigma
        assert more[1].sigma > less[1].sigma
        # What yᵀy and λ_min can move is the same: the joint bound alone makes them a little dearer, with less noise.
        assert less[2].sensitivity_squared == more[2].sensitivity_squared
        assert less[3].sensitivity_squared == more[3].sensitivity_squared


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("statistic", THREE)
@pytest.mark.parametrize("row_map", MAPS, ids=lambda m: type(m).__name__)
def test_a_person_of_m_rows_needs_m_times_the_noise(
    row_map: RowMap, statistic: Statistic, mechanism: Mechanism
) -> None:
    for adjacency in Adjacency:
        one, seven = (
            plan(10**10, row_map, adjacency, {statistic: Fraction(1)}, mechanism=mechanism, rows_per_person=m).parts[0]
            for m in (1, 7)
        )
        assert seven.scales == pytest.approx([7 * scale for scale in one.scales], rel=1e-7)


def test_a_person_of_m_rows_moves_lambda_min_m_times_as_far_but_its_error_once() -> None:
    one, seven = (
        plan(10**10, shares={LAMBDA_MIN: Fraction(1)}, rows_per_person=m).parts[0].sensitivity_squared for m in (1, 7)
    )
    norm_squared = Box().norm_squared(design())
    assert math.isqrt(int(seven)) - math.isqrt(int(one)) == 6 * norm_squared


def test_three_statistics_at_one_and_a_millionth_cost_7_32_units_of_noise_each() -> None:
    for part in plan(56_028_963_825, shares=EQUAL).parts:
        assert part.sigma / math.sqrt(part.sensitivity_squared) == pytest.approx(7.32, abs=0.005)


def test_the_float_error_of_lambda_min_is_charged() -> None:
    shares = {LAMBDA_MIN: Fraction(1)}
    scales = [
        plan_gram(design(), Box(), Adjacency.ADD_REMOVE, row_capacity=n, price=Price(rho=0.005), shares=shares)
        .parts[0]
        .sigma
        for n in (1, 5 * 10**8)
    ]
    assert scales[0] < scales[1]


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_plan_does_not_use_the_number_of_columns_of_a_group(mechanism: Mechanism) -> None:
    shares = {XTX: Fraction(1)}
    few, many = (plan(10**10, shares=shares, of=design(levels=k), mechanism=mechanism).parts[0] for k in (3, 6))
    assert few == many
    pairs = Fraction(4**2 + 4, 2)
    if isinstance(few, GaussianPart):
        assert few.sensitivity_squared == UNIT**4 * pairs
    else:
        assert few.sensitivity == UNIT**2 * pairs


# --- the joint bound --------------------------------------------------------------------------------------------------

COSTS = st.fractions(min_value=Fraction(1, 10**6), max_value=10**3)
CURVATURES = st.fractions(min_value=1, max_value=2)


@QUICK
@given(COSTS, st.just(Fraction(0)) | COSTS, st.just(Fraction(0)) | COSTS, CURVATURES)
@example(Fraction(1), Fraction(1), Fraction(0), Fraction(1))
def test_a_joint_cost_lies_between_its_dearest_part_and_the_sum(
    xtx: Fraction, xty: Fraction, yty: Fraction, joint_constant: Fraction
) -> None:
    assert max(xtx, xty, yty) <= joint_cost(xtx, xty, yty, joint_constant) <= xtx + xty + yty


@QUICK
@given(COSTS, COSTS, COSTS, CURVATURES, st.fractions(min_value=Fraction(1, 100), max_value=100))
def test_a_joint_cost_scales_with_its_parts(
    xtx: Fraction, xty: Fraction, yty: Fraction, joint_constant: Fraction, factor: Fraction
) -> None:
    scaled = joint_cost(xtx * factor, xty * factor, yty * factor, joint_constant)
    assert scaled == factor * joint_cost(xtx, xty, yty, joint_constant)


@QUICK
@given(COSTS, COSTS, CURVATURES)
def test_a_joint_cost_without_xty_is_the_sum(xtx: Fraction, yty: Fraction, joint_constant: Fraction) -> None:
    assert joint_cost(xtx, Fraction(0), yty, joint_constant) == xtx + yty


@QUICK
@given(COSTS, COSTS, COSTS, CURVATURES, st.fractions(min_value=0, max_value=1))
def test_a_joint_cost_grows_with_xty_with_yty_and_with_the_curvature(
    xtx: Fraction, xty: Fraction, yty: Fraction, joint_constant: Fraction, more: Fraction
) -> None:
    cost = joint_cost(xtx, xty, yty, joint_constant)
    assert cost <= joint_cost(xtx, xty + more, yty, joint_constant)
    assert cost <= joint_cost(xtx, xty, yty + more, joint_constant)
    assert cost <= joint_cost(xtx, xty, yty, joint_constant + more)


@QUICK
@given(COSTS, COSTS, COSTS, CURVATURES, st.fractions(min_value=0, max_value=1))
def test_a_joint_cost_grows_with_xtx_unless_xty_is_four_times_as_dear(
    xtx: Fraction, xty: Fraction, yty: Fraction, joint_constant: Fraction, more: Fraction
) -> None:
    if joint_constant * xty**2 <= 16 * xtx**2:
        assert joint_cost(xtx, xty, yty, joint_constant) <= joint_cost(xtx + more, xty, yty, joint_constant)


@pytest.mark.parametrize("row_map", MAPS, ids=lambda m: type(m).__name__)
@every_curved
def test_together_the_parts_of_replaced_rows_get_less_noise_than_apart(accountant: Accountant, row_map: RowMap) -> None:
    price = Price(epsilon=1.0, delta=1e-6)
    limit = accountant.units_of(price)
    made = plan(price, row_map, Adjacency.REPLACE_ONE, accountant=accountant)
    shares = default_shares(tuple(Statistic))
    for part in made.parts:
        apart = plan(
            price, row_map, Adjacency.REPLACE_ONE, {part.statistic: shares[part.statistic]}, accountant=accountant
        ).parts[0]
        assert all(mine < theirs for mine, theirs in zip(part.scales, apart.scales, strict=True))
    assert limit * (1 - 1e-6) < made.cost <= limit
    # Beyond the price by the rule of the sum: there is the gain.
    assert accountant.cost(made.parts) > limit * 1.05


@SETTINGS
@example(21_407_767_153, Ball.of_norm(0.5), {XTX: Fraction(9, 74), XTY: Fraction(65, 74)}, 1, GDP, 1)
@given(UNITS, ROW_MAPS, share_maps(), st.integers(1, 3), st.sampled_from([GDP, ZCDP]), st.sampled_from([1, 5]))
def test_a_plan_of_replaced_rows_uses_up_its_shares_but_for_the_little_that_rounding_may_take(
    units: int, row_map: RowMap, shares: Mapping[Statistic, Fraction], targets: int, accountant: Accountant, rows: int
) -> None:
    made = plan(
        units, row_map, Adjacency.REPLACE_ONE, shares, design(targets=targets), accountant, rows_per_person=rows
    )
    least = min(min(part.scales) for part in made.parts)
    little = Fraction(8, least) + (Fraction(2, 10**6) if made.joint else 0)
    assert units * sum(shares.values()) * (1 - little) - 1 <= made.cost <= units


UNEVEN = {XTX: Fraction(1, 9), XTY: Fraction(7, 9), YTY: Fraction(1, 9)}
"""Xᵀy is far dearer than XᵀX: a σ of XᵀX that is rounded up raises the joint bound by a hair."""


@pytest.mark.parametrize("units", [10_000_000_039_595, 10_000_000_182_137])
def test_where_rounding_raises_the_joint_bound_above_the_price_a_little_less_is_used(units: int) -> None:
    made = plan(units, Box(), Adjacency.REPLACE_ONE, UNEVEN)
    assert units * (1 - Fraction(1, 10**5)) < made.cost <= units


def test_where_noise_is_so_fine_that_a_little_less_does_not_help_the_sum_decides() -> None:
    price = Price(mu=28666062.9)
    made, units = plan(price, Box(), Adjacency.REPLACE_ONE, UNEVEN), GDP.units_of(price)
    assert made.cost < units * 0.9
    for part in made.parts:
        assert cost_of_part(GDP, part) <= units * MICRO * UNEVEN[part.statistic]


def test_there_is_no_joint_bound_for_rows_that_are_added_or_for_laplace_noise() -> None:
    assert plan(10**10).joint is None
    assert plan(10**10, adjacency=Adjacency.REPLACE_ONE, mechanism=Mechanism.LAPLACE).joint is None
    assert plan(10**10, adjacency=Adjacency.REPLACE_ONE, shares={XTY: Fraction(1)}).joint is None


def test_the_curvature_of_a_box_grows_with_wide_groups_and_that_of_a_norm_does_not() -> None:
    replaced = Adjacency.REPLACE_ONE
    assert plan(10**10, Box(), replaced).joint == GramJointBound(Fraction(4**2 + 1, 4**2))
    assert all(plan(10**10, row_map, replaced).joint == GramJointBound(Fraction(1)) for row_map in MAPS[1:])


# --- published calibrations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row_map", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    ("calibration", "per_unit"), [(Calibration.WANG2018, 11.85), (Calibration.CLASSICAL, 16.51)], ids=["wang", "kalaja"]
)
@every_curved
def test_a_formula_s_scales_are_the_published_ones_and_cost_less_than_the_price(
    accountant: Accountant, calibration: Calibration, per_unit: float, row_map: RowMap
) -> None:
    price = Price(epsilon=1.0, delta=1e-6)
    made = plan(price, row_map, shares=EQUAL, accountant=accountant, calibration=calibration)
    for part in made.parts:
        assert isinstance(part, GaussianPart)
        assert part.sigma / math.sqrt(part.sensitivity_squared) == pytest.approx(per_unit, abs=0.005)
        assert part.scales[0] == part.scales[1]  # the formula has one scale for the whole triangle
    assert made.cost < accountant.units_of(price) / 2


@every_curved
def test_wang_s_noise_at_large_epsilon_costs_more_than_the_price(accountant: Accountant) -> None:
    price = Price(epsilon=100.0, delta=1e-6)
    wanted = {"shares": EQUAL, "accountant": accountant, "calibration": Calibration.WANG2018}
    error = refusal_of(price=price, **wanted)
    assert error.field == "calibration"
    # What it names does work: another calibration, or less.
    assert "use analytic" in str(error)
    assert plan(price, shares=EQUAL, accountant=accountant)
    assert plan(Price(epsilon=10.0, delta=1e-6), **wanted)  # type: ignore[arg-type]


@every_curved
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_wang_s_noise_for_one_statistic_alone_costs_more_than_the_price(accountant: Accountant, epsilon: float) -> None:
    price, shares = Price(epsilon=epsilon, delta=1e-6), {XTX: Fraction(1)}
    error = refusal_of(price=price, shares=shares, accountant=accountant, calibration=Calibration.WANG2018)
    assert error.field == "calibration"
    assert "use analytic" in str(error)
    assert plan(price, shares=shares, accountant=accountant)


@every_curved
@pytest.mark.parametrize(
    ("shares", "targets", "largest"),
    [
        (EQUAL, 1, "3"),
        ({XTX: Fraction(1)}, 1, "1"),
        ({XTX: Fraction(1, 4), XTY: Fraction(3, 4)}, 3, "4"),
        ({XTX: Fraction(1, 2), XTY: Fraction(1, 2)}, 1, "2"),
    ],
)
def test_classical_is_refused_where_a_part_s_epsilon_reaches_one(
    accountant: Accountant, shares: dict[Statistic, Fraction], targets: int, largest: str
) -> None:
    wanted = {"shares": shares, "of": design(targets=targets), "accountant": accountant}
    wanted["calibration"] = Calibration.CLASSICAL
    for epsilon in (float(largest), float(largest) + 0.001, 1000.0):
        error = refusal_of(price=Price(epsilon=epsilon, delta=1e-6), **wanted)
        assert error.field == "price"
        assert f"just below {largest}" in str(error).rstrip(".")
    assert plan(Price(epsilon=float(largest) - 1e-6, delta=1e-6), **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("adjacency", Adjacency)
@every_accountant
def test_nieminen_s_scales_are_those_of_the_thesis(accountant: Accountant, adjacency: Adjacency) -> None:
    numeric = make_design(
        tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(6)),
        (Column("y", ColumnType.NUMERIC),),
        intercept=False,
    )
    d, bound = 6, UNIT
    shares = {XTX: Fraction(35, 100), XTY: Fraction(60, 100), YTY: Fraction(5, 100)}
    epsilon = Fraction(7, 10)
    made = plan(
        Price(epsilon=0.7), Box(), adjacency, shares, numeric, accountant, Mechanism.LAPLACE, Calibration.NIEMINEN2017
    )
    p1, p2, p3 = shares.values()
    assert [part.scales[0] for part in made.parts] == [
        math.ceil(d * (d + 1) * bound**2 / (p1 * epsilon)),
        math.ceil(2 * d * bound * bound / (p2 * epsilon)),
        math.ceil(bound**2 / (p3 * epsilon)),
    ]
    # What a row can really move is half of d(d+1) B² and, where rows are replaced, all of 2d B².
    xtx, xty, yty = (part.epsilon for part in made.parts if isinstance(part, LaplacePart))
    assert xtx == pytest.approx(p1 * epsilon / 2, rel=1e-9)
    assert xty == pytest.approx(p2 * epsilon / (1 if adjacency is Adjacency.REPLACE_ONE else 2), rel=1e-9)
    assert yty == pytest.approx(p3 * epsilon, rel=1e-9)
    assert made.cost <= accountant.units_of(Price(epsilon=0.7))


def test_nieminen_s_sensitivities_are_never_below_the_true_ones() -> None:
    for numeric in (1, 2, 5):
        for adjacency in Adjacency:
            of = design(numeric)
            price = Price(epsilon=1.0)
            for statistic in THREE:
                part = plan(price, Box(), adjacency, {statistic: Fraction(1)}, of, PURE, Mechanism.LAPLACE).parts[0]
                assert isinstance(part, LaplacePart)
                assert part.sensitivity <= nieminen_sensitivity(statistic, len(of.terms))


@pytest.mark.parametrize(
    "outside",
    [
        {"row_map": Ball.of_norm(1.2)},
        {"row_map": Unit()},
        {"shares": {XTX: Fraction(1, 2), LAMBDA_MIN: Fraction(1, 2)}},
        {"rows_per_person": 2},
    ],
    ids=["ball", "unit", "lambda_min", "two rows"],
)
@every_accountant
def test_nieminen_s_calibration_is_for_the_box_the_three_statistics_and_one_row(
    accountant: Accountant, outside: dict[str, object]
) -> None:
    wanted = {"price": Price(epsilon=1.0), "shares": EQUAL, "accountant": accountant}
    wanted |= {"mechanism": Mechanism.LAPLACE, "calibration": Calibration.NIEMINEN2017}
    assert plan(**wanted)  # type: ignore[arg-type]
    error = refusal_of(**{**wanted, **outside})
    assert error.field == "calibration"
    assert "box" in str(error)


# --- shares -----------------------------------------------------------------------------------------------------------


@QUICK
@given(st.lists(st.sampled_from(Statistic), min_size=1, unique=True), MODES)
def test_default_shares_add_up_to_one(chosen: list[Statistic], mode: tuple[Mechanism, Calibration]) -> None:
    shares = default_shares(tuple(chosen), *mode)
    assert list(shares) == chosen
    assert all(share > 0 for share in shares.values())
    assert sum(shares.values()) == 1


@pytest.mark.parametrize(
    ("mechanism", "weights"), [(Mechanism.GAUSSIAN, "0.5 0.415 0.085"), (Mechanism.LAPLACE, "0.35 0.6 0.05")]
)
def test_default_shares_of_each_mechanism(mechanism: Mechanism, weights: str) -> None:
    assert list(default_shares(THREE, mechanism).values()) == [Fraction(w) for w in weights.split()]


def test_nieminen_s_split_is_that_of_laplace_noise() -> None:
    laplace = default_shares(THREE, Mechanism.LAPLACE)
    assert default_shares(THREE, Mechanism.LAPLACE, Calibration.NIEMINEN2017) == laplace


@pytest.mark.parametrize("calibration", [Calibration.CLASSICAL, Calibration.WANG2018])
def test_the_published_gaussian_formulas_split_into_equal_parts(calibration: Calibration) -> None:
    for chosen in (THREE, tuple(Statistic), (XTX, YTY)):
        shares = default_shares(chosen, Mechanism.GAUSSIAN, calibration)
        assert set(shares.values()) == {Fraction(1, len(chosen))}


def test_lambda_min_takes_a_twentieth_of_the_whole() -> None:
    shares = default_shares(tuple(Statistic))
    assert shares[LAMBDA_MIN] == Fraction(1, 20)
    assert shares[XTX] == Fraction(19, 20) * Fraction(1, 2)


def test_a_caller_cannot_change_the_default_shares_of_others() -> None:
    first = default_shares((XTX, YTY))
    with contextlib.suppress(TypeError):  # a read-only mapping refuses
        first[XTX] = Fraction(1, 1000)  # type: ignore[index]
    assert sum(default_shares((XTX, YTY)).values()) == 1


def test_shares_change_the_plan_and_their_order_does_not() -> None:
    a, b = {XTX: Fraction(1, 4), YTY: Fraction(1, 2)}, {XTX: Fraction(1, 2)}
    assert plan(10**10, shares=a).parts[0].sigma > plan(10**10, shares=b).parts[0].sigma
    assert plan(10**10, shares=a) == plan(10**10, shares=dict(reversed(a.items())))


# --- what a plan depends on -------------------------------------------------------------------------------------------


def test_each_public_number_of_a_request_has_its_own_plan() -> None:
    # Plans may be remembered: a memory that ignored one of these would give another request's noise.
    shares = {XTX: Fraction(1, 2), LAMBDA_MIN: Fraction(1, 2)}
    known = [
        plan_gram(d, m, a, row_capacity=n, price=price_of(p), shares=shares, rows_per_person=k)
        for d in (design(2), design(3))
        for m in (Box(), Ball(UNIT), Ball(UNIT + 1))
        for a in Adjacency
        for n in (10, 10**8)
        for p in (10**10, 10**11)
        for k in (1, 2)
    ]
    assert len({(made.design, *(part.sigma for part in made.parts)) for made in known}) == 96


def test_each_account_mechanism_and_calibration_has_its_own_plan() -> None:
    price = Price(epsilon=0.5, delta=1e-6)
    gaussian = [
        plan(price, shares=EQUAL, accountant=accountant, calibration=calibration)
        for accountant in (GDP, ZCDP)
        for calibration in planning.CALIBRATIONS[Mechanism.GAUSSIAN]
    ]
    laplace = [
        plan(price, shares=EQUAL, accountant=accountant, mechanism=Mechanism.LAPLACE, calibration=calibration)
        for accountant in (GDP, ZCDP)
        for calibration in planning.CALIBRATIONS[Mechanism.LAPLACE]
    ]
    # A published formula has the same scales under either account, but not the same cost.
    assert len({(made.cost, *(part.scales for part in made.parts)) for made in (*gaussian, *laplace)}) == 10


def test_the_loss_of_variance_is_paid_under_gaussian_dp_alone() -> None:
    # Noise of variance 1024² − 4 would be worth the price: nine more than that is above 1024², four more is not.
    price = Price(rho=float(Fraction(UNIT**4, 2 * (2**20 - 4))))
    scales = [plan(price, shares={YTY: Fraction(1)}, accountant=a).parts[0].scales[0] for a in (GDP, ZCDP)]
    assert scales == [1025, 1024]
