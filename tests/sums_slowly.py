"""Sums over rows in Python's integers, one row after another: what every engine is held against.

    python tests/sums_slowly.py

writes the sums that engines must give when the service starts.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from expressions_slowly import MISSING, UPPER, Q, Row, code, store, weigh

import curator_service.kinds
from curator_service.datasets.batches import MARK
from curator_service.datasets.engines import conformance
from curator_service.kinds.counts.conformance import KERNELS as COUNTS
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.tables import Axis
from curator_service.kinds.gram.conformance import KERNELS as GRAM
from curator_service.kinds.marginals.conformance import KERNELS as MARGINALS
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.score.conformance import KERNELS as SCORE
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.privacy.bins import equal_edges

KERNELS = {"gram": GRAM, "counts": COUNTS, "marginals": MARGINALS, "score": SCORE}


def rounded(value: Fraction) -> Fraction:
    """Return the nearest float, as IEEE has it: Python divides integers so."""
    return Fraction(value.numerator / value.denominator)


@cache
def cut(value: float, lower: float, upper: float) -> int:
    if math.isnan(value):
        return MISSING
    low, high = Fraction(lower) / 2, Fraction(upper) / 2
    try:
        place = rounded(rounded(Fraction(value) - rounded(low + high)) / rounded(high - low))
    except OverflowError:
        return UPPER if value > 0 else -UPPER
    return max(-UPPER, min(round(place * UPPER), UPPER))


def shrink(row_map: Any, terms: list[int], targets: list[int], constant: int) -> list[int]:
    kind, squared = type(row_map).__name__, sum(z * z for z in terms[constant:])
    everything = [*terms, *targets]
    if kind == "Ball":
        squared, radius = sum(z * z for z in terms), row_map.radius
        return [scale(z, radius, math.isqrt(squared) + 1) if squared > radius**2 else z for z in everything]
    if kind == "Box":
        return everything
    part = [scale(z, 256 * Q if squared else 0, math.isqrt(squared * 2**16) + 1) for z in everything]
    mapped = terms[:constant] + part[constant : len(terms)]
    return mapped + ([max(-Q, min(z, Q)) for z in part[len(terms) :]] if kind == "UnitXY" else targets)


def scale(value: int, multiplier: int, divisor: int) -> int:
    return (1 if value > 0 else -1) * (abs(value) * multiplier // divisor)


def cell(axis: Any, value: int) -> int:
    if axis.missing and value == MISSING:
        return axis.size - 1
    if axis.edges is None:
        return value if 0 <= value < len(axis.column.levels) else -1
    cuts = [cut(edge, axis.column.lower, axis.column.upper) for edge in axis.edges]
    cuts[-1] += axis.edges[-1] >= axis.column.upper
    return bisect_right(cuts, value) - 1 if cuts[0] <= value < cuts[-1] else -1


def sum_slowly(kernel: Any, rows: Sequence[Row]) -> list[int]:
    """Return the sums of a kernel over rows, flat; rows have their marks."""
    where, weight = kernel.selection.where, kernel.selection.weight
    counted = [row for row in rows if row[MARK] == 1 and (where is None or store(where, row) == 1)]
    weighed = [(row, w) for row in counted if (w := 1.0 if weight is None else weigh(weight, row)) is not None]
    sums = {CountsKernel: _count, MarginalsKernel: _add_marginals, ScoreKernel: _add_scores}
    return sums.get(type(kernel), _multiply)(kernel, weighed)


def _count(kernel: Any, weighed: Sequence[tuple[Row, float]]) -> list[int]:
    sums = []
    for table in kernel.tables:
        cells = dict.fromkeys(product(*(range(axis.size) for axis in table.axes)), 0)
        for row, weight in weighed:
            place = tuple(cell(axis, store(axis.column, row)) for axis in table.axes)
            if place in cells:
                cells[place] += math.trunc(weight * (Q * Q))
        sums += cells.values()
    return sums


def _add_marginals(kernel: Any, weighed: Sequence[tuple[Row, float]]) -> list[int]:
    sums = []
    for marginal in kernel.marginals:
        for column in marginal.columns:
            added = [0] * marginal.column_size
            for row, weight in weighed:
                w = math.trunc(weight * (Q * Q))
                for i, number in enumerate(marginal_of(marginal, column, store(column, row))):
                    added[i] += scale(number, w, Q * Q)
            sums += added
    return sums


def marginal_of(marginal: Any, column: Any, value: int) -> list[int]:
    """Return what a stored value adds, in Python's integers."""
    if value == MISSING:
        return [0] * marginal.column_size
    if marginal.type == "moments":
        z, h = round(Fraction(max(-UPPER, min(value, UPPER)) * Q, UPPER)), Q * Q // 2
        return [h, Q * z, z * z - h - 1]
    numbers: list[int] = []
    levels = [2**k for k in range(1, marginal.levels + 1)] if marginal.type == "tree" else [marginal.bins]
    for size in levels:
        axis = Axis(column, tuple(equal_edges(size, column.lower, column.upper)), False)
        place = cell(axis, value)
        numbers += [Q * Q * (i == place) for i in range(size)]
    return numbers


def _multiply(kernel: Any, weighed: Sequence[tuple[Row, float]]) -> list[int]:
    design, width = kernel.design, len(kernel.design.terms) + len(kernel.design.targets)
    sources = {column.name: column for column in design.sources}
    gram = [[0] * width for _ in range(width)]
    for row, weight in weighed:
        if any(store(sources[name], row) == MISSING for name in design.omitting):
            continue
        terms, targets = ([code(term, sources, row) for term in side] for side in (design.coded, design.targets))
        if design.combinations is not None:
            terms = combine(design.combinations, terms)
        mapped = shrink(kernel.row_map, terms, targets, int(design.has_constant))
        z = [math.trunc(entry * math.sqrt(weight)) for entry in mapped]
        gram = [[old + a * b for old, b in zip(line, z, strict=True)] for line, a in zip(gram, z, strict=True)]
    return [entry for line in gram for entry in line]


def _add_scores(kernel: Any, weighed: Sequence[tuple[Row, float]]) -> list[int]:
    design, count = kernel.design, kernel.directions.count
    sources = {column.name: column for column in design.sources}
    score, norms, meat = [0] * count, [0] * 13, [[0] * count for _ in range(count)]
    edges = [Q * Q * Fraction(8, 5) ** (2 * step) // 1 for step in range(-8, 4)]
    for row, weight in weighed:
        if any(store(sources[name], row) == MISSING for name in design.omitting):
            continue
        z, u = [code(term, sources, row) for term in design.terms], code(design.targets[0], sources, row)
        r = residual(kernel.loss, dot(kernel.coefficients, z)[0] / 2.0**kernel.coefficients.bits, u, design.targets[0])
        moved = [d / 2.0**kernel.directions.bits * (r / Q) for d in dot(kernel.directions, z)]
        g = [max(-(2**21), min(round(one), 2**21)) for one in moved]
        squared = sum(one * one for one in g)
        norms[sum(squared >= edge for edge in edges)] += math.trunc(weight * (Q * Q))
        if squared > Q * Q:
            g = [scale(one, Q, math.isqrt(squared) + 1) for one in g]
        g = [math.trunc(one * weight) for one in g]
        score = [old + Q * one for old, one in zip(score, g, strict=True)]
        meat = [[old + a * b for old, b in zip(line, g, strict=True)] for line, a in zip(meat, g, strict=True)]
    parts = {"score": score, "norms": norms, "meat": [meat[i][j] for i in range(count) for j in range(i, count)]}
    return [number for statistic in kernel.statistics for number in parts[statistic]]


def residual(loss: str, eta: float, u: int, target: Any) -> float:
    """Return y less its mean at η, in lattice units, in floats as they are added, multiplied and divided."""
    if loss == "linear":
        return u - eta
    place = round(max(-16 * 4096, min(eta * (4096 / Q), 16 * 4096)))
    if loss == "logistic":
        return u - round(2**30 / (1 + exp_slowly(-place / 4096))) * (Q / 2**30)
    upper = target.center + target.scale
    return (target.center + target.scale * (u / Q) - min(exp_slowly(place / 4096), upper)) / upper * Q


def exp_slowly(value: float) -> float:
    """Return what `elementary.exp` makes of one number, step by step."""
    high, low = float.fromhex("0x1.62E42FEE00000p-1"), float.fromhex("0x1.A39EF35793C76p-33")
    k = round(value / (high + low))
    r, total = (value - k * high) - k * low, 1 / math.factorial(14)
    for i in reversed(range(14)):
        total = total * r + 1 / math.factorial(i)
    return math.ldexp(total, k)


def dot(combinations: Any, terms: Sequence[int]) -> list[int]:
    return [
        sum(w * z for w, z in zip(column, terms, strict=True)) for column in zip(*combinations.weights, strict=True)
    ]


def combine(combinations: Any, terms: Sequence[int]) -> list[int]:
    """Return combinations of a row's terms, rounded and cut."""
    rounded = [round(Fraction(one, 2**combinations.bits)) for one in dot(combinations, terms)]
    return [max(-(2**21), min(one, 2**21)) for one in rounded]


def rows_of(stored: Mapping[str, Sequence[int]]) -> list[Row]:
    """Return rows of columns."""
    return [dict(zip(stored, map(int, row), strict=True)) for row in zip(*stored.values(), strict=True)]


def table_rows() -> list[Row]:
    """Return the table of the engines' check; raw values are stored as they are here, and not as there."""
    table: dict[str, Sequence[int]] = dict(conformance.make_table())
    for name, values in conformance.RAW.items():
        column = conformance.COLUMNS[name]
        table[name] = [cut(values[i % len(values)], column.lower, column.upper) for i in range(conformance.ROWS)]
    return rows_of(table)


def write_sums(folder: Path) -> None:
    """Write the sums of every kind's kernels, below a folder of kinds."""
    rows = table_rows()
    for kind, kernels in KERNELS.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(sum_slowly(kernel, rows))}" for name, kernel in kernels.items()]
        (folder / kind / "conformance.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_sums(Path(curator_service.kinds.__path__[0]))
