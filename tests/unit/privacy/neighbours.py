"""The attack on sensitivities: search neighbouring datasets through the code that a release runs.

A `Case` is a request. Persons (stored integers) are coded by `code_rows` and mapped by the row map; those that move a
`Goal` most, alone or one for another, are kept, varied and climbed with. What is found is then measured exactly, by
`compute_gram` on two whole datasets.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from grams import SufficientStatistics, split_gram
from scipy.spatial.distance import cdist

from curator_service.kinds.gram.kernel import compute_lambda_min
from curator_service.kinds.gram.plan import GramPlan, default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, PURE, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.combinations import Combinations
from curator_service.privacy.design import (
    Column,
    ColumnType,
    Design,
    MissingRule,
    code_rows,
    combine_terms,
    make_design,
)
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, IntArray, StoredArray
from curator_service.privacy.parts import GaussianPart, LaplacePart
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY, make_row_map
from curator_service.privacy.sums import INT64_CAPACITY_MAX, compute_gram, split

FloatArray = npt.NDArray[np.float64]
XTX, XTY, YTY, LAMBDA_MIN = Statistic
ADD_REMOVE, REPLACE_ONE = Adjacency
ROW_CAPACITY = 10**6
POOL, GENERATIONS = 140, 6


def label(value: object) -> str:
    """Name a parameter of a test the same in every process: a function or an object by its own name, not its place."""
    return str(getattr(value, "__name__", None) or getattr(value, "name", None) or value)


MARKS = {"": MissingRule.OMIT, "?": MissingRule.MIDPOINT, "!": MissingRule.INDICATOR, "*": MissingRule.COMPLETE}
BOUNDS = {"n": (-1.0, 1.0), "a": (0.0, 10.0), "w": (-3.0, 50.0), "h": (-1.7e308, 1.7e308), "z": (3.0, 5.0)}
DAMAGED = [2**31 - 1, -(2**31) + 1, STORED_UNIT + 1, 10, -1]


class Norm(Enum):
    """The measure of a move: squared in L2, plain in L1."""

    L2_SQUARED = "l2"
    L1 = "l1"


L2_SQUARED, L1 = Norm


@dataclass(frozen=True)
class Case:
    """A request to attack.

    Features are letters: n numeric (a, w and h with other public bounds), z a numeric column that is constant in the
    data, b boolean, 1 to 9 a category of so many levels. After a letter ``?`` keeps missing values as the midpoint,
    ``!`` flags them in an indicator, ``*`` refuses them at upload. `rows` is a row map's name, or the norm of a ball.
    A tuple of weights for each term, over 2^8, makes rows of combinations. `tight` names what the search must reach to
    99 %.
    """

    features: str
    rows: str | float | tuple[tuple[int, ...], ...] = "box"
    intercept: bool = True
    targets: int = 1
    tight: str = ""

    def __str__(self) -> str:
        return f"{'1+' if self.intercept else ''}{self.features}-{self.rows}-{self.targets}y"

    @cached_property
    def columns(self) -> list[Column]:
        """Features, then targets."""
        marked = re.findall(r"(\w)([?!*]?)", self.features)
        features = [_declare(f"x{i}", letter, MARKS[mark]) for i, (letter, mark) in enumerate(marked)]
        return features + [_declare(f"y{k}", "n", MissingRule.OMIT) for k in range(self.targets)]

    @cached_property
    def grids(self) -> list[list[int]]:
        """Stored integers worth trying, per column."""
        letters = re.findall(r"(\w)[?!*]?", self.features) + ["n"] * self.targets
        return [_grid(column, letter) for column, letter in zip(self.columns, letters, strict=True)]

    @cached_property
    def free(self) -> npt.NDArray[np.bool_]:
        """True for columns that hold any number of an interval."""
        return np.array(
            [c.type is ColumnType.NUMERIC and len(g) > 2 for c, g in zip(self.columns, self.grids, strict=True)]
        )

    @cached_property
    def design(self) -> Design:
        count = len(self.columns) - self.targets
        features, targets = tuple(self.columns[:count]), tuple(self.columns[count:])
        design = make_design(features, targets, intercept=self.intercept)
        return combine_terms(design, Combinations(self.rows, 8)) if isinstance(self.rows, tuple) else design

    @cached_property
    def row_map(self) -> RowMap:
        if isinstance(self.rows, tuple):
            return make_row_map({"map": "linear"})
        named: dict[str | float, RowMap] = {"box": Box(), "unit": Unit(), "unit_xy": UnitXY()}
        return named[self.rows] if isinstance(self.rows, str) else Ball.of_norm(self.rows)

    def is_tight(self, statistic: Statistic, norm: Norm, adjacency: Adjacency) -> bool:
        """Read "xtx+" as XᵀX in both norms under add_remove, "xtx2=" in L2 under replace_one, "xtx" as all four."""
        for name, number, sign in re.findall(r"([a-z_]+)([12]?)([+=]?)", self.tight):
            same_norm = number in ("", "2" if norm is L2_SQUARED else "1")
            if name == statistic and same_norm and sign in ("", "+" if adjacency is ADD_REMOVE else "="):
                return True
        return False


def _declare(name: str, letter: str, rule: MissingRule) -> Column:
    if letter in BOUNDS:
        return Column(name, ColumnType.NUMERIC, rule, *BOUNDS[letter])
    if letter == "b":
        return Column(name, ColumnType.BOOLEAN, rule, levels=("no", "yes"))
    return Column(name, ColumnType.CATEGORICAL, rule, levels=tuple("abcdefghi"[: int(letter)]))


def _grid(column: Column, letter: str) -> list[int]:
    missing = [] if column.missing is MissingRule.COMPLETE else [MISSING]
    if letter == "z":
        return [STORED_UNIT // 3, *missing]
    if column.type is ColumnType.NUMERIC:
        return [STORED_UNIT, -STORED_UNIT, 0, STORED_UNIT // 2, *missing]
    return [*range(len(column.levels)), *missing]


# --- what a release of a case charges -------------------------------------------------------------------------------


def plan_of(case: Case, adjacency: Adjacency, **options: Any) -> GramPlan:
    """Plan a release as the service does; what is not said is small and Gaussian, under µ²."""
    mechanism = options.get("mechanism", Mechanism.GAUSSIAN)
    pure = options.get("accountant", GDP) is PURE
    options.setdefault("price", Price(epsilon=0.5) if pure else Price(rho=0.05))
    options.setdefault("shares", default_shares(tuple(Statistic), mechanism))
    options.setdefault("row_capacity", ROW_CAPACITY)
    return plan_gram(case.design, case.row_map, adjacency, **options)


def charged(case: Case, statistic: Statistic, norm: Norm, adjacency: Adjacency, rows_per_person: int = 1) -> Fraction:
    """The sensitivity of one target's copy that a release pays for, in L2 squared (Gaussian) or L1 (Laplace)."""
    mechanism = Mechanism.GAUSSIAN if norm is L2_SQUARED else Mechanism.LAPLACE
    plan = plan_of(case, adjacency, mechanism=mechanism, rows_per_person=rows_per_person)
    part = next(p for p in plan.parts if p.statistic is statistic)
    return part.sensitivity_squared if isinstance(part, GaussianPart) else part.sensitivity


# --- persons, and what each contributes -----------------------------------------------------------------------------


def fresh_persons(case: Case, count: int, rng: np.random.Generator) -> StoredArray:
    """Draw persons: corners and midpoints of every column, anything between, and integers that no upload writes."""
    persons = np.empty((count, len(case.columns)), dtype=np.int32)
    for j, (column, grid) in enumerate(zip(case.columns, case.grids, strict=True)):
        persons[:, j] = rng.choice(grid[: -1 if rng.random() < 0.5 and len(grid) > 1 else None], size=count)
        if case.free[j]:
            between = rng.random(count) < 0.3
            persons[between, j] = rng.integers(-STORED_UNIT, STORED_UNIT, size=between.sum(), endpoint=True)
        if case.free[j] or column.type is not ColumnType.NUMERIC:
            damaged = rng.random(count) < 0.03
            persons[damaged, j] = rng.choice(DAMAGED, size=damaged.sum())
    return persons


def first_persons(case: Case, rng: np.random.Generator) -> StoredArray:
    """Every combination of grid values where there are few; otherwise corners, rows of equal size, a null row."""
    if math.prod(len(grid) for grid in case.grids) <= 2 * POOL:
        return np.array(list(product(*case.grids)), dtype=np.int32)
    numeric = np.array([c.type is ColumnType.NUMERIC for c in case.columns])
    signs = fresh_persons(case, 40, rng)
    corners = np.where(numeric, STORED_UNIT * rng.choice([-1, 1], size=signs.shape), signs)
    tops = np.array([[STORED_UNIT if n else len(c.levels) - 1 for n, c in zip(numeric, case.columns, strict=True)]])
    null = np.array([[grid[-1] for grid in case.grids]])
    return np.concatenate([tops, null, corners, fresh_persons(case, POOL, rng)]).astype(np.int32)


def _vary(case: Case, persons: StoredArray, count: int, rng: np.random.Generator) -> StoredArray:
    """Move one or several values of good persons: draw anew, flip, shift a little or a lot."""
    varied = persons[rng.integers(0, len(persons), size=count)]
    change = rng.random(varied.shape)
    step = rng.normal(size=varied.shape) * STORED_UNIT * 10.0 ** rng.uniform(-4, -0.5, size=varied.shape)
    moved = np.clip(np.rint(varied + step), -STORED_UNIT, STORED_UNIT).astype(np.int64)
    present = (varied != MISSING) & case.free
    result = np.where(present & (change > 0.6), moved, varied.astype(np.int64))
    result = np.where(present & (change > 0.5) & (change <= 0.6), -result, result)
    return np.where(change < 0.15, fresh_persons(case, count, rng), result).astype(np.int32)


def mapped(case: Case, persons: StoredArray) -> FloatArray:
    """Code and map persons, as a release does."""
    rows = code_rows({c.name: persons[:, j] for j, c in enumerate(case.columns)}, case.design, len(persons))
    return case.row_map.apply(rows, case.design)


def gram(case: Case, persons: StoredArray) -> SufficientStatistics:
    terms = len(case.design.terms)
    return split_gram(compute_gram([mapped(case, persons)], terms + case.targets), terms)


_upper = cache(np.triu_indices)


def contributions(case: Case, persons: StoredArray) -> FloatArray:
    """Return each person's contribution, in units of q²: the upper triangle of XᵀX, Xᵀy target by target, yᵀy."""
    rows = mapped(case, persons) / UNIT
    terms = len(case.design.terms)
    x, y = rows[:, :terms], rows[:, terms:]
    first, second = _upper(terms)
    xty = (y[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    return np.concatenate([x[:, first] * x[:, second], xty, y**2], axis=1)


# --- what is to be moved --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """Entries of `contributions`, each with a weight, and the norm in which their move is measured."""

    weights: tuple[float, ...]
    norm: Norm

    @property
    def metric(self) -> str:
        return "sqeuclidean" if self.norm is L2_SQUARED else "cityblock"


def _diagonal(case: Case) -> npt.NDArray[np.bool_]:
    terms = len(case.design.terms)
    return np.eye(terms, dtype=bool)[np.triu_indices(terms)]


def goal_of(case: Case, statistic: Statistic, norm: Norm) -> Goal:
    """One statistic of the first target; XᵀX in L2 with its off-diagonal weighted √2 unless rows are in the box."""
    diagonal, terms = _diagonal(case), len(case.design.terms)
    off = math.sqrt(2) if norm is L2_SQUARED and case.rows != "box" else 1.0
    xtx = np.where(diagonal, 1.0, off) * (statistic is XTX)
    xty = np.repeat(np.eye(1, case.targets), terms) * (statistic is XTY)
    yty = np.eye(1, case.targets)[0] * (statistic is YTY)
    return Goal((*xtx, *xty, *yty), norm)


def release_goal(case: Case, plan: GramPlan, loss: int = 0) -> Goal:
    """Everything that a plan releases but λ_min, each entry over the noise that it really gets."""
    norm = L2_SQUARED if isinstance(plan.parts[0], GaussianPart) else L1
    parts = {part.statistic: part for part in plan.parts}
    sizes = {XTX: len(_diagonal(case)), XTY: case.targets * len(case.design.terms), YTY: case.targets}
    weights: list[float] = []
    for statistic, size in sizes.items():
        if statistic not in parts:
            weights += [0.0] * size
            continue
        on, off = (UNIT**2 / (math.sqrt(s**2 - loss) if norm is L2_SQUARED else s) for s in parts[statistic].scales)
        weights += np.where(_diagonal(case), on, off).tolist() if statistic is XTX else [on] * size
    return Goal(tuple(weights), norm)


def _moves(goal: Goal, added: FloatArray, adjacency: Adjacency) -> FloatArray:
    """Return the distance that each person moves a goal, against none or against each other one."""
    weights = np.array(goal.weights)
    vectors = added[:, weights > 0] * weights[weights > 0]
    others = vectors if adjacency is REPLACE_ONE else np.zeros((1, vectors.shape[1]))
    moves: FloatArray = cdist(vectors, others, goal.metric)
    return moves


# --- the search -----------------------------------------------------------------------------------------------------


def search(
    case: Case, adjacency: Adjacency, goals: tuple[Goal, ...], generations: int = GENERATIONS
) -> list[StoredArray]:
    """Return, for each goal, the persons found that move it most: one, or one and the one who replaces them."""
    found = breed(case, adjacency, goals, generations)
    return [climb(case, goal, witness[None])[0] for goal, witness in zip(goals, found, strict=True)]


def breed(case: Case, adjacency: Adjacency, goals: tuple[Goal, ...], generations: int) -> list[StoredArray]:
    """Return what `search` climbs from."""
    rng = np.random.default_rng(20240607)
    persons = first_persons(case, rng)
    best = [0.0] * len(goals)
    witnesses = [persons[:1]] * len(goals)
    for _ in range(generations):
        added = contributions(case, persons)
        good = []
        for k, goal in enumerate(goals):
            moves = _moves(goal, added, adjacency)
            order = np.argpartition(moves, -min(40, moves.size), axis=None)[-40:]
            pairs = np.stack(np.unravel_index(order, moves.shape), axis=1)[:, : 2 if adjacency is REPLACE_ONE else 1]
            good.append(np.unique(pairs)[:30])
            top = int(np.argmax(moves.flat[order]))
            if moves.flat[order[top]] > best[k]:
                best[k], witnesses[k] = float(moves.flat[order[top]]), persons[pairs[top]]
        elite = persons[np.unique(np.concatenate(good))]
        varied = _vary(case, elite, max(POOL - len(elite), 60), rng)
        persons = np.concatenate([*witnesses, elite, varied, fresh_persons(case, 20, rng)])
    return witnesses


def climb(case: Case, goal: Goal, starts: StoredArray, steps: int = 28) -> StoredArray:
    """Climb from neighbours (shape n × persons × columns) by pattern search along every value and along the gradient.

    Returns
    -------
    ndarray of int32
        The neighbours that were reached, the furthest first.
    """
    count, persons, columns = starts.shape
    weights = np.array(goal.weights)

    def value(points: IntArray) -> FloatArray:
        shape = points.shape[:-2]
        added = contributions(case, points.reshape(-1, columns).astype(np.int32)) * weights
        added = added.reshape(*shape, persons, -1)
        moved = added[..., 0, :] - added[..., 1, :] if persons == 2 else added[..., 0, :]
        return (moved**2).sum(axis=-1) if goal.norm is L2_SQUARED else np.abs(moved).sum(axis=-1)

    points = starts.astype(np.int64)
    free = (case.free & (points != MISSING)).reshape(count, -1)
    axes = np.flatnonzero(free.any(axis=0))
    if not len(axes):
        return starts
    directions = np.zeros((len(axes), persons * columns))
    directions[np.arange(len(axes)), axes] = 1
    directions = np.concatenate([directions, -directions])
    values, size = value(points), np.full(count, 0.3 * STORED_UNIT)

    def moved_by(steps: FloatArray) -> IntArray:
        flat = points.reshape(count, 1, -1)
        there = np.clip(np.rint(flat + steps), -STORED_UNIT, STORED_UNIT).astype(np.int64)
        there = np.where(free[:, None, :], there, flat)
        return there.reshape(count, -1, persons, columns)

    for _ in range(steps):
        probes = moved_by(size[:, None, None] * directions)
        found = value(probes)
        slope = (found - values[:, None]) @ directions
        slope /= np.abs(slope).max(axis=1, keepdims=True) + 1e-300
        rising = np.maximum(found - values[:, None], 0) @ directions
        rising /= np.abs(rising).max(axis=1, keepdims=True) + 1e-300
        along = np.stack([slope, rising, slope / 4, rising / 4], axis=1)
        more = moved_by(size[:, None, None] * along)
        probes, found = np.concatenate([probes, more], axis=1), np.concatenate([found, value(more)], axis=1)
        top = found.argmax(axis=1)
        reached = found[np.arange(count), top]
        better = reached > values
        points = np.where(better[:, None, None], probes[np.arange(count), top], points)
        values = np.maximum(values, reached)
        size = np.where(better, size * 1.2, size * 0.4)
    return points[np.argsort(-values)].astype(np.int32)


# --- measured exactly, on two whole datasets ------------------------------------------------------------------------


def whole_datasets(
    case: Case, witness: StoredArray, rows_per_person: int = 1
) -> tuple[SufficientStatistics, SufficientStatistics]:
    """Statistics of fifty others with the first person, and with the second or with nobody in their place."""
    others = fresh_persons(case, 50, np.random.default_rng(5))
    first, second = np.repeat(witness[:1], rows_per_person, axis=0), np.repeat(witness[1:], rows_per_person, axis=0)
    return gram(case, np.concatenate([others, first])), gram(case, np.concatenate([others, second]))


def exact_moves(
    case: Case, before: SufficientStatistics, after: SufficientStatistics
) -> dict[Statistic, dict[tuple[int, int], int]]:
    """Return the move of each released entry, by its place: (row, column), (term, target), (target, target)."""
    terms = range(len(case.design.terms))
    xtx, xty, yty = before.xtx - after.xtx, before.xty - after.xty, before.yty - after.yty
    return {
        XTX: {(i, j): int(xtx[i, j]) for i in terms for j in terms if i <= j},
        XTY: {(i, t): int(xty[i, t]) for i in terms for t in range(case.targets)},
        YTY: {(t, t): int(yty[t]) for t in range(case.targets)},
    }


def measure(case: Case, statistic: Statistic, norm: Norm, witness: StoredArray, rows_per_person: int = 1) -> int:
    """Return the exact move of one statistic of the first target."""
    moves = exact_moves(case, *whole_datasets(case, witness, rows_per_person))[statistic]
    if norm is L1:
        return sum(abs(m) for (_, j), m in moves.items() if statistic is XTX or j == 0)
    if statistic is XTX:
        return sum(m**2 * (1 + (i != j and case.rows != "box")) for (i, j), m in moves.items())
    return sum(m**2 for (_, j), m in moves.items() if j == 0)


@cache
def worst_neighbours(case: Case, adjacency: Adjacency) -> dict[tuple[Statistic, Norm], StoredArray]:
    """Search for every statistic in both norms at once: what moves one often moves another."""
    wanted = [(s, n) for s in (XTX, XTY, YTY) for n in Norm if (s, n) != (YTY, L1)]
    found = search(case, adjacency, tuple(goal_of(case, *pair) for pair in wanted))
    witnesses = dict(zip(wanted, found, strict=True))
    return witnesses | {(YTY, L1): witnesses[YTY, L2_SQUARED]}


@cache
def largest_move(case: Case, statistic: Statistic, norm: Norm, adjacency: Adjacency, rows_per_person: int = 1) -> int:
    """The largest move found of one statistic, squared in L2, in lattice units."""
    if statistic is LAMBDA_MIN:
        move = largest_lambda_min_move(case, adjacency, rows_per_person)
        return move**2 if norm is L2_SQUARED else move
    return measure(case, statistic, norm, worst_neighbours(case, adjacency)[statistic, norm], rows_per_person)


@cache
def largest_lambda_min_move(
    case: Case, adjacency: Adjacency, rows_per_person: int = 1, row_capacity: int = ROW_CAPACITY
) -> int:
    """Search rows, and the datasets around them whose smallest eigenvalue they move most, as it is computed."""
    rng = np.random.default_rng(7)
    tolerance = plan_of(case, adjacency, row_capacity=row_capacity).lambda_min_tolerance
    persons = np.concatenate([first_persons(case, rng), fresh_persons(case, POOL, rng)])
    rows = mapped(case, persons)[:, : len(case.design.terms)].astype(np.int64)
    lengths = (rows**2).sum(axis=1)
    null, best = np.zeros_like(rows[0]), 0

    def computed(xtx: IntArray) -> int:
        """Compute it as it is of a dataset of this capacity; `xtx` has Python's integers."""
        held = xtx if row_capacity <= INT64_CAPACITY_MAX else split(xtx)
        return compute_lambda_min(held.astype(np.int64), tolerance)

    for x in rng.permutation(rows[lengths * 1000 >= 999 * lengths.max()])[:16]:
        norm = int(x @ x)
        with_x = compute_gram([x[None]], len(x)) * rows_per_person
        for others in (rows[np.abs(rows @ x) * 10**4 <= norm], rows[rng.integers(0, len(rows), size=5)]):
            for repeats in (1, 40, (row_capacity - rows_per_person) // max(len(others), 1)):
                around = compute_gram([others], len(x)).astype(object) * repeats
                top = computed(around + with_x)
                for v in [null] if adjacency is ADD_REMOVE else [null, *others[:1]]:
                    with_v = compute_gram([v[None]], len(x)) * rows_per_person
                    best = max(best, abs(top - computed(around + with_v)))
    return best


# --- whole releases -------------------------------------------------------------------------------------------------


def released_cost(
    case: Case, plan: GramPlan, accountant: Accountant, witness: StoredArray, rows_per_person: int = 1
) -> Fraction:
    """Return the exact cost in the account of a move of everything released but λ_min, over the noise that was bought.

    A discrete Gaussian entry is a part of its own, whose sensitivity is its move. Laplace entries of one statistic and
    target cost what an ε-DP mechanism costs with ε = Σ |move|/t.
    """
    moves = exact_moves(case, *whole_datasets(case, witness, rows_per_person))
    total = Fraction(0)
    for part in plan.parts:
        if part.statistic is LAMBDA_MIN:
            continue
        if isinstance(part, LaplacePart):
            sizes = dict.fromkeys(range(part.copies), 0)
            for (_, j), move in moves[part.statistic].items():
                sizes[0 if part.statistic is XTX else j] += abs(move)
            total += sum(accountant.laplace(Fraction(size, part.scale)) for size in sizes.values() if size)
            continue
        on, off = part.scales
        for (i, j), move in moves[part.statistic].items():
            sigma = off if part.statistic is XTX and i != j else on
            total += accountant.gaussian(GaussianPart(part.statistic, Fraction(move**2), sigma))
    return total


def lambda_min_cost(plan: GramPlan, accountant: Accountant) -> Fraction:
    """Return the cost of λ_min at its bound."""
    for part in plan.parts:
        if part.statistic is LAMBDA_MIN:
            return accountant.gaussian(part) if isinstance(part, GaussianPart) else accountant.laplace(part.epsilon)
    return Fraction(0)


def worst_release(case: Case, adjacency: Adjacency, goal: Goal, starts: int = 16) -> StoredArray:
    """Search, then climb from many starts, for the neighbours that move a whole release most."""
    rng = np.random.default_rng(99)
    found = breed(case, adjacency, (goal,), 3)[0]
    persons = 2 if adjacency is REPLACE_ONE else 1
    pool = fresh_persons(case, starts * persons, rng).reshape(starts, persons, -1)
    if len(found) == persons:
        pool = np.concatenate([found[None], pool])
    return climb(case, goal, pool)[0]
