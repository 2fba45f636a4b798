"""A whole release never moves further than it is charged: every statistic and target together, over the noise bought.

The joint bound under `replace_one` is attacked twice: through the code, by search and by climbing from many starts; and
as a formula, by gradient ascent over all that a row of a bounded norm or of a box could be.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from neighbours import (
    ADD_REMOVE,
    REPLACE_ONE,
    XTX,
    XTY,
    YTY,
    Case,
    FloatArray,
    label,
    lambda_min_cost,
    plan_of,
    release_goal,
    released_cost,
    worst_release,
)

from curator_service.kinds.gram import plan as planning
from curator_service.kinds.gram import sensitivity
from curator_service.kinds.gram.plan import GramPlan, default_shares
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, PURE, VARIANCE_LOSS, ZCDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.parts import GaussianPart

MICRO = Fraction(1, 10**12)
STARTS, STEPS = 96, 80
LAPLACE, GAUSSIAN = Mechanism.LAPLACE, Mechanism.GAUSSIAN


def shares_of(xtx: float, xty: float, yty: float) -> Mapping[Statistic, Fraction]:
    given = {XTX: xtx, XTY: xty, YTY: yty}
    return {s: Fraction(v).limit_denominator(1000) for s, v in given.items() if v}


SHARES = {
    "default": default_shares((XTX, XTY, YTY)),
    "with-lambda-min": default_shares(tuple(Statistic)),
    "thirds": shares_of(1 / 3, 1 / 3, 1 / 3),
    "xtx-heavy": shares_of(0.9, 0.05, 0.05),
    "xty-heavy": shares_of(0.05, 0.9, 0.05),
    "yty-heavy": shares_of(0.05, 0.05, 0.9),
    "xtx-tiny": shares_of(0.001, 0.6, 0.399),
    "xty-tiny": shares_of(0.5, 0.001, 0.499),
    "without-yty": shares_of(0.5, 0.5, 0),
    "without-yty-steep": shares_of(0.25, 0.75, 0),
    "without-xty": shares_of(0.5, 0, 0.5),
    "without-xtx": shares_of(0, 0.7, 0.3),
}
# Where the joint bound is reached by two orthogonal or nearly orthogonal rows of full norm, or is a plain sum.
REACHED = {"default", "with-lambda-min", "thirds", "xtx-heavy", "yty-heavy", "without-yty", "without-yty-steep"}
CASES = {
    Case("n", intercept=False): set(),
    Case("nn", intercept=False): {"xtx-heavy", "yty-heavy", "xty-tiny", "without-xty"},
    Case("nnn"): {"xtx-heavy", "yty-heavy"},
    Case("nnnnnn", intercept=False): {"xtx-heavy", "yty-heavy", "without-yty"},
    Case("3n"): {"without-yty-steep"},
    Case("4", intercept=False): set(),
    Case("22", intercept=False): set(),
    Case("3b", intercept=False): set(),
    Case("nn", targets=2): set(),
    Case("nnnn", intercept=False, targets=3): set(),
    Case("n", 0.9, intercept=False): set(),
    Case("nn", 0.9, intercept=False): REACHED,
    Case("nn", 0.7): set(),
    Case("nn", 1.2): set(),
    Case("nnn", 1.6, targets=2): REACHED,
    Case("nnnnnn", 1.0, intercept=False, targets=3): REACHED,
    Case("3n", 1.2): set(),
    Case("nn", ((256, 0), (0, 256)), intercept=False): REACHED,
    Case("nnn", ((1, -2), (250, 3), (-4, 300), (31, 2)), targets=2): set(),
    Case("nn", "unit", intercept=False): REACHED,
    Case("n", "unit"): set(),
    Case("nnn", "unit", targets=3): REACHED,
    Case("nn", "unit_xy"): REACHED,
    Case("nnnn", "unit_xy", intercept=False, targets=2): REACHED,
}
FEW = [
    Case("nn", intercept=False),
    Case("3n"),
    Case("nn", 0.9, intercept=False),
    Case("nnn", 1.6, targets=2),
    Case("n", "unit", targets=3),
    Case("nn", "unit_xy"),
]
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)


def attack(
    case: Case, adjacency: Adjacency, account: Accountant = GDP, *, rows: int = 1, **options: Any
) -> tuple[Fraction, int, GramPlan]:
    """Return what the worst neighbours found cost, λ_min at its bound, and what was charged, in the account's unit."""
    plan = plan_of(case, adjacency, accountant=account, rows_per_person=rows, **options)
    goal = release_goal(case, plan, VARIANCE_LOSS if account is GDP else 0)
    witness = worst_release(case, adjacency, goal)
    return released_cost(case, plan, account, witness, rows) + lambda_min_cost(plan, account), plan.cost, plan


@cache
def attacked(case: Case, split: str, adjacency: Adjacency) -> tuple[Fraction, int, GramPlan]:
    return attack(case, adjacency, shares=SHARES[split])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_replaced_person_costs_more_than_the_release_is_charged(case: Case) -> None:
    for split in SHARES:
        moved, cost, _ = attacked(case, split, REPLACE_ONE)
        assert moved <= cost * MICRO, split


@pytest.mark.parametrize("case", [case for case, reached in CASES.items() if reached], ids=str)
def test_the_joint_bound_is_reached_to_one_percent(case: Case) -> None:
    for split in CASES[case]:
        moved, cost, plan = attacked(case, split, REPLACE_ONE)
        assert moved >= Fraction(99, 100) * cost * MICRO, split
        assert plan.joint is not None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_added_person_costs_what_the_release_is_charged(case: Case) -> None:
    for split in ("default", "with-lambda-min", "yty-heavy", "xtx-tiny", "without-xtx"):
        moved, cost, plan = attacked(case, split, ADD_REMOVE)
        assert moved <= cost * MICRO, split
        # The worst row of one statistic is the worst of all: the sum is reached, so no joint bound could hold here.
        assert case == Case("nn", 0.7) or moved >= Fraction(99, 100) * cost * MICRO, split
        assert plan.joint is None


def test_the_joint_bound_saves_a_quarter_of_the_price() -> None:
    case = Case("nn", 0.9, intercept=False)
    plan = plan_of(case, REPLACE_ONE, shares=SHARES["default"])
    sum_of_parts = sum(part.relative_cost(VARIANCE_LOSS) for part in plan.parts if isinstance(part, GaussianPart))
    assert plan.cost * MICRO < Fraction(3, 4) * sum_of_parts


@BOTH
@pytest.mark.parametrize("split", ["default", "with-lambda-min", "xty-heavy", "without-yty"])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_no_neighbour_costs_more_than_is_charged_under_rho(case: Case, split: str, adjacency: Adjacency) -> None:
    moved, cost, _ = attack(case, adjacency, ZCDP, shares=SHARES[split])
    assert moved <= cost * MICRO
    assert moved >= Fraction(1, 2) * cost * MICRO


@BOTH
@pytest.mark.parametrize("calibration", [Calibration.CLASSICAL, Calibration.WANG2018], ids=str)
@pytest.mark.parametrize("account", [GDP, ZCDP], ids=lambda a: a.name)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_no_neighbour_costs_more_than_is_charged_under_a_published_calibration(
    case: Case, account: Accountant, calibration: Calibration, adjacency: Adjacency
) -> None:
    moved, cost, _ = attack(
        case,
        adjacency,
        account,
        calibration=calibration,
        price=Price(epsilon=1.0, delta=1e-6),
        shares=default_shares(tuple(Statistic), GAUSSIAN, calibration),
    )
    assert 0 < moved <= cost * MICRO


@BOTH
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_neighbour_moves_a_laplace_release_further_than_epsilon(case: Case, adjacency: Adjacency) -> None:
    moved, cost, plan = attack(case, adjacency, PURE, mechanism=LAPLACE)
    assert moved <= cost * MICRO
    assert plan.joint is None


SUMS = [Case("nnn"), Case("nnnnnn", intercept=False), Case("4", intercept=False), Case("nn", 0.9, intercept=False)]


@pytest.mark.parametrize("case", [*SUMS, Case("nn", "unit", intercept=False), Case("n", "unit", targets=3)], ids=str)
def test_the_sum_of_epsilons_is_reached_to_one_percent_when_a_person_is_added(case: Case) -> None:
    moved, cost, _ = attack(case, ADD_REMOVE, PURE, mechanism=LAPLACE)
    assert moved >= Fraction(99, 100) * cost * MICRO


@BOTH
@pytest.mark.parametrize("account", [GDP, ZCDP], ids=lambda a: a.name)
@pytest.mark.parametrize("case", FEW, ids=str)
def test_no_neighbour_costs_more_than_a_laplace_release_is_charged_under_mu_or_rho(
    case: Case, account: Accountant, adjacency: Adjacency
) -> None:
    moved, cost, _ = attack(case, adjacency, account, mechanism=LAPLACE)
    assert moved <= cost * MICRO


@BOTH
@pytest.mark.parametrize("case", [Case("nn"), Case("3n", intercept=False), Case("nn", targets=2)], ids=str)
def test_no_neighbour_moves_nieminens_release_further_than_it_is_charged(case: Case, adjacency: Adjacency) -> None:
    moved, cost, _ = attack(
        case,
        adjacency,
        PURE,
        mechanism=LAPLACE,
        calibration=Calibration.NIEMINEN2017,
        shares=default_shares((XTX, XTY, YTY), LAPLACE, Calibration.NIEMINEN2017),
    )
    assert moved <= cost * MICRO


@BOTH
@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize(("account", "mechanism"), [(GDP, GAUSSIAN), (ZCDP, GAUSSIAN), (PURE, LAPLACE)], ids=label)
@pytest.mark.parametrize("case", [Case("3n"), Case("nn", 0.9, intercept=False, targets=2)], ids=str)
def test_several_rows_of_one_person_cost_no_more_than_the_release_is_charged(
    case: Case, account: Accountant, mechanism: Mechanism, rows: int, adjacency: Adjacency
) -> None:
    moved, cost, _ = attack(case, adjacency, account, rows=rows, mechanism=mechanism)
    assert moved <= cost * MICRO
    if case.rows != "box" and (mechanism is GAUSSIAN or adjacency is ADD_REMOVE):
        assert moved >= Fraction(99, 100) * cost * MICRO


# --- the search would see a release that is charged too little ------------------------------------------------------


@pytest.fixture
def uncached_plans() -> Iterator[None]:
    """Plans are remembered: forget them, so that a patched formula is used, and leaves no trace."""
    planning._plan.cache_clear()
    yield
    planning._plan.cache_clear()


JointCost = Callable[[Fraction, Fraction, Fraction, Fraction], Fraction]
PAIR = Case("nn", 0.9, intercept=False)
JOINT_COST = sensitivity.joint_cost
WRONG_JOINT_COSTS: list[tuple[str, JointCost, Case, str]] = [
    ("max dropped, yty kept", lambda x, b, e, c: x + b / 4 + e, PAIR, "default"),
    ("max dropped, xty kept", lambda x, b, e, c: x + b / 2 + c * b**2 / (16 * x), PAIR, "yty-heavy"),
    ("xty²/16 dropped", lambda x, b, e, c: x + b / 4 + max(e, b / 4), PAIR, "default"),
    ("xty²/16 dropped", lambda x, b, e, c: x + b / 4 + max(e, b / 4), PAIR, "without-yty-steep"),
    ("xty²/16 read as xty²/32", lambda x, b, e, c: x + b / 4 + max(e, b / 4 + c * b**2 / (32 * x)), PAIR, "default"),
    ("first xty/4 read as 0", lambda x, b, e, c: x + max(e, b / 4 + c * b**2 / (16 * x)), PAIR, "default"),
    ("first xty/4 read as 0", lambda x, b, e, c: x + max(e, b / 4 + c * b**2 / (16 * x)), PAIR, "yty-heavy"),
    ("second xty/4 read as 0", lambda x, b, e, c: x + b / 4 + max(e, c * b**2 / (16 * x)), PAIR, "without-yty"),
    ("the worst part alone", lambda x, b, e, c: max(x, b, e), PAIR, "default"),
    ("xtx dropped", lambda x, b, e, c: b + e, Case("nnn"), "default"),
    ("curvature read as 1", lambda x, b, e, c: JOINT_COST(x, b, e, Fraction(1)), Case("3n"), "without-yty-steep"),
    ("curvature read as 1/2", lambda x, b, e, c: JOINT_COST(x, b, e, c / 2), Case("nn", "unit_xy"), "default"),
]


@pytest.mark.usefixtures("uncached_plans")
@pytest.mark.parametrize(("what", "wrong", "case", "split"), WRONG_JOINT_COSTS, ids=label)
def test_the_search_detects_a_wrong_joint_bound(
    monkeypatch: pytest.MonkeyPatch, what: str, wrong: JointCost, case: Case, split: str
) -> None:
    monkeypatch.setattr(sensitivity, "joint_cost", wrong)
    moved, cost, _ = attack(case, REPLACE_ONE, shares=SHARES[split])
    assert moved > cost * MICRO, what


@pytest.mark.usefixtures("uncached_plans")
@pytest.mark.parametrize("case", [PAIR, Case("nnn"), Case("4", intercept=False), Case("n", "unit")], ids=str)
def test_the_search_detects_a_joint_bound_where_rows_are_added(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    monkeypatch.setattr(planning._SensitivityInputs, "joint", lambda *_: sensitivity.GramJointBound(Fraction(1)))
    moved, cost, _ = attack(case, ADD_REMOVE, shares=SHARES["default"])
    assert moved > cost * MICRO


@BOTH
@pytest.mark.parametrize(("account", "mechanism"), [(GDP, GAUSSIAN), (ZCDP, GAUSSIAN), (PURE, LAPLACE)], ids=label)
def test_the_search_detects_rows_per_person_that_are_not_paid(
    account: Accountant, mechanism: Mechanism, adjacency: Adjacency
) -> None:
    plan = plan_of(PAIR, adjacency, accountant=account, mechanism=mechanism)
    goal = release_goal(PAIR, plan, VARIANCE_LOSS if account is GDP else 0)
    witness = worst_release(PAIR, adjacency, goal)
    assert released_cost(PAIR, plan, account, witness, 2) > plan.cost * MICRO


@pytest.mark.parametrize(
    ("mechanism", "adjacency"), [(GAUSSIAN, ADD_REMOVE), (GAUSSIAN, REPLACE_ONE), (LAPLACE, ADD_REMOVE)], ids=str
)
def test_the_search_detects_a_target_that_is_not_charged(mechanism: Mechanism, adjacency: Adjacency) -> None:
    moved, _, plan = attack(Case("nnn", 1.6, targets=2), adjacency, ZCDP, mechanism=mechanism)
    one_target_each = [replace(part, copies=1) for part in plan.parts]
    assert moved > ZCDP.cost(one_target_each, plan.joint) * MICRO


@BOTH
def test_the_search_detects_scales_of_xtx_that_are_swapped(adjacency: Adjacency) -> None:
    case = PAIR
    plan = plan_of(case, adjacency, shares={XTX: Fraction(1)})
    (part,) = plan.parts
    on, off = part.scales
    assert isinstance(part, GaussianPart)
    parts = (replace(part, sigma=off, sigma_offdiagonal=on),)
    swapped = replace(plan, allocation=replace(plan.allocation, parts=parts))
    witness = worst_release(case, adjacency, release_goal(case, swapped))
    assert released_cost(case, swapped, GDP, witness) > plan.cost * MICRO
    assert GDP.cost(swapped.parts) > plan.cost  # and the account sees it


# --- the joint bound as a formula, over all that rows could be --------------------------------------------------------


def _worst_of_norm(dimension: int, targets: int, costs: FloatArray, rng: np.random.Generator) -> float:
    """Ascend over pairs of rows of norm at most 1, and targets in [−1, 1]."""

    def project(z: FloatArray) -> FloatArray:
        length = np.linalg.norm(z, axis=-1, keepdims=True)
        return z / np.maximum(length, 1)

    return _ascend(project, np.full((dimension, dimension), 0.5), 4.0, 1, targets, costs, dimension, rng)


def _worst_of_box(singles: int, wide: int, targets: int, costs: FloatArray, rng: np.random.Generator) -> float:
    """Ascend over pairs of rows of single terms in [−1, 1] and groups of two, one of which may differ from 0."""
    groups, count = singles + wide, singles + 2 * wide
    chosen = rng.integers(0, 2, size=(STARTS, 2, wide))
    allowed = np.concatenate(
        [np.ones((STARTS, 2, singles)), np.stack([chosen, 1 - chosen], axis=-1).reshape(STARTS, 2, -1)], axis=-1
    )

    def project(z: FloatArray) -> FloatArray:
        return np.clip(z, -1, 1) * allowed

    weights = np.where(np.eye(count, dtype=bool), 1.0, 0.5) / (groups**2 + wide)
    return _ascend(project, weights, 4.0 * groups, 1, targets, costs, count, rng)


def _ascend(
    project: Callable[[FloatArray], FloatArray],
    weights: FloatArray,
    xty_bound: float,
    yty_bound: float,
    targets: int,
    costs: FloatArray,
    dimension: int,
    rng: np.random.Generator,
) -> float:
    """Return the most that Σ w_ij ΔXX² + b/(T·bound) ‖ΔXy‖² + e/T Δyy² reaches from many starts."""
    z, y = project(rng.normal(size=(STARTS, 2, dimension))), rng.uniform(-1, 1, size=(STARTS, 2, targets))
    y = np.where(rng.random(y.shape) < 0.7, rng.choice([-1.0, 0.0, 1.0], size=y.shape), y)
    y = np.where(rng.random((STARTS, 1, 1)) < 0.3, y[..., :1], y)  # every target alike
    xtx, xty, yty = costs[0], costs[1] / targets / xty_bound, costs[2] / targets / yty_bound

    def value(z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        sign = np.array([1.0, -1.0])
        gram = np.einsum("npi,npj,p->nij", z, z, sign) * weights
        cross = np.einsum("npi,npt,p->nit", z, y, sign)
        square = np.einsum("npt,p->nt", y**2, sign)
        total = xtx * (gram**2 / weights).sum((1, 2)) + xty * (cross**2).sum((1, 2)) + yty * (square**2).sum(1)
        by_z = 4 * xtx * np.einsum("nij,npj,p->npi", gram, z, sign) + 2 * xty * np.einsum(
            "nit,npt,p->npi", cross, y, sign
        )
        by_y = 2 * xty * np.einsum("nit,npi,p->npt", cross, z, sign) + 4 * yty * square[:, None] * y * sign[:, None]
        return total, by_z, by_y

    step = np.full(STARTS, 0.5)
    best, by_z, by_y = value(z, y)
    for _ in range(STEPS):
        size = np.sqrt((by_z**2).sum((1, 2)) + (by_y**2).sum((1, 2))) + 1e-300
        scale = (step / size)[:, None, None]
        new_z, new_y = project(z + scale * by_z), np.clip(y + scale * by_y, -1, 1)
        total, grad_z, grad_y = value(new_z, new_y)
        up = total > best
        z, y = np.where(up[:, None, None], new_z, z), np.where(up[:, None, None], new_y, y)
        by_z, by_y = np.where(up[:, None, None], grad_z, by_z), np.where(up[:, None, None], grad_y, by_y)
        best, step = np.maximum(best, total), np.where(up, step * 1.3, step * 0.5)
    return float(best.max())


def _costs(rng: np.random.Generator) -> FloatArray:
    """Costs of three parts, alike or of very different sizes, one of them perhaps 0."""
    costs = rng.dirichlet([1, 1, 1]) if rng.random() < 0.5 else 10.0 ** rng.uniform(-3, 0, size=3)
    costs[2] *= rng.random() < 0.8
    return np.asarray(costs)


@pytest.mark.parametrize(("dimension", "targets"), list(product(range(1, 7), range(1, 4))))
def test_no_rows_of_bounded_norm_beat_the_joint_bound(dimension: int, targets: int) -> None:
    rng = np.random.default_rng(dimension * 10 + targets)
    for _ in range(4):
        costs = _costs(rng)
        bound = float(sensitivity.joint_cost(*(Fraction(c) for c in costs), Fraction(1)))
        assert _worst_of_norm(dimension, targets, costs, rng) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("dimension", range(2, 7))
@pytest.mark.parametrize("targets", [1, 2, 3])
@pytest.mark.parametrize("costs", [(0.5, 0.415, 0.085), (0.2, 0.1, 0.7), (0.3, 0.7, 0), (0.8, 0.1, 0.1)], ids=str)
def test_rows_of_bounded_norm_reach_the_joint_bound(dimension: int, targets: int, costs: tuple[float, ...]) -> None:
    bound = float(sensitivity.joint_cost(*(Fraction(c) for c in costs), Fraction(1)))
    assert _worst_of_norm(dimension, targets, np.array(costs), np.random.default_rng(3)) >= 0.99 * bound


BOXES = [(1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (0, 1), (0, 2), (0, 3), (1, 1), (2, 1), (1, 2), (3, 1), (2, 2), (4, 1)]


@pytest.mark.parametrize(("singles", "wide"), BOXES)
@pytest.mark.parametrize("targets", [1, 2])
def test_no_rows_of_a_box_beat_the_joint_bound(singles: int, wide: int, targets: int) -> None:
    rng = np.random.default_rng(singles * 100 + wide * 10 + targets)
    joint_constant = sensitivity.xtx_box_joint_constant(singles + wide, wide)
    for _ in range(4):
        costs = _costs(rng)
        bound = float(sensitivity.joint_cost(*(Fraction(c) for c in costs), joint_constant))
        assert _worst_of_box(singles, wide, targets, costs, rng) <= bound * (1 + 1e-9)
