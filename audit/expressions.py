"""Random expressions on hostile rows: none may fail, leave its bounds, warn, or depend on the rows beside it.

python -m audit.expressions --count 100000 --seed 1
"""

import argparse
import json
import math
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from curator_service.kinds.features import read_feature, state_feature
from curator_service.privacy.design import Column, ColumnType, Design, MissingRule, code_rows, make_design
from curator_service.privacy.expressions import DerivedColumn, ExpressionError
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, StoredArray

EXPRESSIONS, ROWS = 100_000, 24
Store = Callable[[Column, Mapping[str, int]], int]
"""The stored integer of a column for a row, by another program."""

_BOUNDS: Mapping[str, tuple[MissingRule, float, float]] = {
    "plain": (MissingRule.COMPLETE, 50.0, 100.0),
    "from_zero": (MissingRule.OMIT, 0.0, 6.0),
    "around": (MissingRule.INDICATOR, -3.0, 2.0),
    "awkward": (MissingRule.MIDPOINT, -0.1, 0.30000000000000004),
    "narrow": (MissingRule.COMPLETE, 1e16 + 2, 1e16 + 8),
    "near": (MissingRule.COMPLETE, 1.0, 1.0 + 1e-15),
    "tiny": (MissingRule.OMIT, 1e-99, 3e-99),
    "small": (MissingRule.MIDPOINT, -1e-60, 1e-50),
    "large": (MissingRule.OMIT, -1e100, 1e99),
    "larger": (MissingRule.COMPLETE, 1e-3, 1e300),
}
COLUMNS: Mapping[str, Column] = {
    column.name: column
    for column in (
        *(Column(name, ColumnType.NUMERIC, *declared) for name, declared in _BOUNDS.items()),
        Column("sex", ColumnType.CATEGORICAL, MissingRule.COMPLETE, levels=("F", "M", "X")),
        Column("odd", ColumnType.CATEGORICAL, MissingRule.INDICATOR, levels=('a"]', "b, c", "1 to 2", "(1)", "é:")),
        Column("flag", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
        Column("sure", ColumnType.BOOLEAN, MissingRule.COMPLETE, levels=("no", "yes")),
    )
}
_NUMBERS = (0, 1, 2, -1, 3, 0.5, 60, 75.0, 0.1, -1e-3, 1e6, 1e-99, 1e99, 1e16, 10**22, 1e-100, -0.0, 2**53 + 1)
_STORED = (
    MISSING, MISSING + 1, -STORED_UNIT - 1, -STORED_UNIT, 1 - STORED_UNIT, -1, 0, 1, 2, 3, 4096, STORED_UNIT - 1,
    STORED_UNIT, STORED_UNIT + 1, 2**31 - 1,
)  # fmt: skip


def draw_number(rng: random.Random, depth: int) -> Any:
    """Return an expression that is a number, mostly."""
    kind = rng.random()
    if depth <= 0 or kind < 0.15:
        return rng.choice(list(_BOUNDS)) if rng.random() < 0.65 else rng.choice(_NUMBERS)
    inner = [draw_number(rng, depth - 1 - rng.randrange(2)) for _ in range(rng.choice((2, 2, 2, 3)))]
    if kind < 0.25:  # like terms, which may cancel
        return {"add": [*inner, *({"multiply": [rng.choice((-2, -1, 2)), one]} for one in inner if rng.random() < 0.5)]}
    if kind < 0.3:  # products beyond what a float holds, of numbers that may be 0
        far = [{"add": [draw_number(rng, 0), rng.choice((1e99, -1e99, 1e33)) * i]} for i in range(1, 6)]
        return {"multiply": [*inner, *far[: rng.randint(1, 5)]]}
    if kind < 0.55:
        return {rng.choice(("add", "multiply", "minimum", "maximum")): inner}
    if kind < 0.7:
        return {rng.choice(("subtract", "divide")): inner[:2]}
    if kind < 0.76:
        return {"power": [inner[0], rng.randint(1, 9)]}
    if kind < 0.84:
        return {rng.choice(("log", "sqrt")): [{"add": [{"absolute": [inner[0]]}, rng.choice((1e-99, 0.1, 1))]}]}
    if kind < 0.96:
        return {rng.choice(("absolute", "negate", "log", "exp", "sqrt")): inner[:1]}
    return draw_truth(rng, depth - 1)


def draw_truth(rng: random.Random, depth: int) -> Any:
    """Return an expression that is a condition."""
    kind = rng.random()
    if depth <= 0 or kind < 0.15:
        return rng.choice(("flag", "sure"))
    if kind < 0.3:
        return {"missing": [rng.choice(list(COLUMNS))]}
    if kind < 0.6:
        word = rng.choice(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))
        return {word: [draw_number(rng, depth - 1) for _ in range(2)]}
    if kind < 0.65:
        return {"between": [draw_number(rng, depth - 1) for _ in range(3)]}
    if kind < 0.75:
        name = rng.choice(("sex", "odd"))
        return {"in": [name, rng.sample(COLUMNS[name].levels, rng.randint(1, 2))]}
    if kind < 0.83:
        return {"not": [draw_truth(rng, depth - 1)]}
    return {rng.choice(("and", "or")): [draw_truth(rng, depth - 1) for _ in range(rng.randint(2, 3))]}


def draw_feature(rng: random.Random, depth: int = 4) -> Any:
    """Return a feature: an expression, a category, a basis, or an interaction."""
    kind = rng.random()
    if kind < 0.6:
        return draw_number(rng, depth)
    if kind < 0.75:
        return draw_truth(rng, depth)
    if kind < 0.8:
        name = rng.choice(("sex", "odd"))
        return {"reference": [name, rng.choice(COLUMNS[name].levels)]}
    if kind < 0.86:
        name = rng.choice(list(_BOUNDS))
        return {"cut": [name, _draw_points(rng, name)]}
    if kind < 0.92:
        return {"polynomial": [draw_number(rng, 1), rng.randint(2, 4)]}
    if kind < 0.925:  # few: a table takes longer than all the rest
        name = rng.choice(list(_BOUNDS))
        return {rng.choice(("spline", "natural_spline")): [name, _draw_points(rng, name)]}
    return {"interaction": [draw_feature(rng, 1) for _ in range(rng.randint(2, 3))]}


def _draw_points(rng: random.Random, name: str) -> list[float]:
    _, lower, upper = _BOUNDS[name]
    inside = (rng.random(), 1e-20, 2e-20, 1e-8, 1 - 1e-8, 1 - 1e-16)
    return sorted({lower + (upper - lower) * rng.choice(inside) for _ in range(rng.randint(1, 4))})


def draw_rows(rng: random.Random, count: int = ROWS) -> dict[str, StoredArray]:
    """Return rows of corners, of numbers beside them, and of what only a damaged file would hold."""
    return {
        name: np.array(
            [rng.choice(_STORED) if rng.random() < 0.8 else rng.randint(MISSING, 2**31 - 1) for _ in range(count)],
            np.int32,
        )
        for name in COLUMNS
    }


def examine(value: object, rows: Mapping[str, StoredArray], store: Store | None = None) -> str | None:
    """Return what is wrong with a feature on rows; None where nothing is, or where it is refused as it should be.

    Raises
    ------
    ExpressionError
        Where it is refused.
    """
    feature = read_feature(value, COLUMNS)
    stated = state_feature(feature)
    if read_feature(json.loads(json.dumps(stated)), COLUMNS) != feature:
        return "its canonical form is read as another one"
    count = len(next(iter(rows.values())))
    for intercept in (True, False):
        design = make_design((feature,), (), intercept=intercept)
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            coded = code_rows(rows, design, count)
            found = find_excess(design, coded)
            if found is not None:
                return found
            for i in range(0, count, 5):
                alone = code_rows({name: values[i : i + 1] for name, values in rows.items()}, design, 1)
                if not np.array_equal(alone[0], coded[i]):
                    return "a row has other values among others"
            backwards = code_rows({name: values[::-1] for name, values in rows.items()}, design, count)
            if not np.array_equal(backwards[::-1], coded):
                return "a row has other values in another order"
    for column in design.sources:
        if isinstance(column, DerivedColumn):
            computed = column.read(rows, count)
            kept = computed[computed != MISSING]
            last = STORED_UNIT if column.type is ColumnType.NUMERIC else max(1, len(column.levels) - 1)
            least = -STORED_UNIT if column.type is ColumnType.NUMERIC else 0
            if kept.size and not least <= kept.min() <= kept.max() <= last:
                return "a stored value is beyond its bounds"
            if not (math.isfinite(column.lower) and math.isfinite(column.upper) and column.lower < column.upper):
                return "its bounds are none"
            if store is not None:
                one_by_one = [store(column, {name: int(v[i]) for name, v in rows.items()}) for i in range(count)]
                if one_by_one != computed.tolist():
                    return "another program finds other values"
    return None


def find_excess(design: Design, coded: npt.NDArray[np.float64]) -> str | None:
    """Return the excess of coded rows over the bounds of sensitivities, or None."""
    sizes = np.abs(coded)
    if not (np.isfinite(coded).all() and (coded == np.rint(coded)).all()):
        return "a value is no integer"
    members: dict[object, list[int]] = {}
    for j, term in enumerate(design.terms):
        members.setdefault(term.group, []).append(j)
    for places, (_, support) in zip(members.values(), design.supports, strict=True):
        if sizes[:, places].sum(axis=1).max(initial=0) > UNIT:
            return "the sizes of a group add up to more than q"
        if np.count_nonzero(sizes[:, places], axis=1).max(initial=0) > support:
            return "more terms of a group than its support differ from 0"
    return None


def sweep(count: int = EXPRESSIONS, seed: int = 1, store: Store | None = None) -> tuple[list[str], int]:
    """Return what is wrong with so many random features, and how many of them were not refused."""
    rng = random.Random(seed)
    found, accepted = [], 0
    rows = draw_rows(rng)
    for i in range(count):
        if i % 100 == 0:
            rows = draw_rows(rng)
        value = draw_feature(rng, rng.randint(1, 5))
        try:
            wrong = examine(value, rows, store)
            accepted += 1
        except ExpressionError:
            continue
        except Exception as error:  # whatever is raised is what is looked for
            wrong = f"{type(error).__name__}: {error}"
        if wrong is not None:
            found.append(f"{wrong}: {json.dumps(value)}")
    return found, accepted


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=EXPRESSIONS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found, accepted = sweep(options.count, options.seed)
    print(f"{options.count} features, {accepted} of them not refused; {len(found)} findings", *found[:20], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
