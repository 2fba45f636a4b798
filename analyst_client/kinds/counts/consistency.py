"""Counts that contradict neither each other nor what a count is: least squares over joint cells, none negative."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.counts.axes import TableAxis
from analyst_client.kinds.counts.table import Table

CELLS_MAX = 50_000
SD_MIN = 1e-3
"""Noise that is smaller counts as this much: exact counts have a finite weight."""


def fit_consistent(tables: Sequence[Table]) -> tuple[FloatArray, ...]:
    """Return consistent counts of each table; see `CountsRelease.consistent`."""
    fitted: dict[int, FloatArray] = {}
    for group in connected(tables):
        solved = fit_group([tables[i] for i in group])
        fitted |= dict(zip(group, solved, strict=True))
    return tuple(fitted[i] for i in range(len(tables)))


def connected(tables: Sequence[Table]) -> list[list[int]]:
    """Return which tables share columns, directly or through others."""
    groups: list[tuple[set[str], list[int]]] = []
    for i, counts in enumerate(tables):
        names, members = {axis.name for axis in counts.axes}, [i]
        apart = []
        for others, places in groups:
            if names & others:
                names, members = names | others, places + members
            else:
                apart.append((others, places))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def fit_group(tables: Sequence[Table]) -> list[FloatArray]:
    """Solve for tables that share columns."""
    from scipy import optimize  # noqa: PLC0415 -- the import of the client stays quick

    axes: dict[str, list[TableAxis]] = {}
    for counts in tables:
        for axis in counts.axes:
            axes.setdefault(axis.name, []).append(axis)
    sizes = {name: np.shape(place_cells(listed[0], listed))[1] for name, listed in axes.items()}
    size = math.prod(sizes.values())
    if size > CELLS_MAX:
        raise ValueError(f"the tables have {size:,} joint cells, and at most {CELLS_MAX:,} are solved for")
    operators = [operator_of(counts, axes, sizes) for counts in tables]
    weights = [1.0 / max(counts.draw_sd, SD_MIN) / np.sqrt(counts.draws) for counts in tables]
    shape = tuple(sizes.values())

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        joint, value, gradient = x.reshape(shape), 0.0, np.zeros(shape)
        for counts, (add, spread), weight in zip(tables, operators, weights, strict=True):
            residual = (add(joint) - counts.values) * weight
            value += 0.5 * float(np.sum(residual**2))
            gradient += spread(residual * weight)
        return value, gradient.ravel()

    start = np.full(size, max(1.0, *(float(counts.values.sum()) for counts in tables)) / size)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-9, "maxcor": 30}
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * size, options=options)
    joint = found.x.reshape(shape)
    return [frozen(np.array(add(joint))) for add, _ in operators]


def operator_of(counts: Table, axes: Mapping[str, list[TableAxis]], sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """Return how joint cells add up to a table, and the transpose of that."""
    letters = dict(zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False))
    inside = "".join(letters.values())
    outside = "".join(letters[axis.name].upper() for axis in counts.axes)
    places = [place_cells(axis, axes[axis.name]) for axis in counts.axes]
    factors = [letters[axis.name].upper() + letters[axis.name] for axis in counts.axes]
    others = [name for name in axes if name not in {axis.name for axis in counts.axes}]
    ones = [np.ones(sizes[name]) for name in others]

    def add(joint: FloatArray) -> FloatArray:
        summed: FloatArray = np.einsum(f"{','.join([inside, *factors])}->{outside}", joint, *places, optimize=True)
        return summed

    def spread(residual: FloatArray) -> FloatArray:
        terms = [outside, *factors, *(letters[name] for name in others)]
        back: FloatArray = np.einsum(f"{','.join(terms)}->{inside}", residual, *places, *ones, optimize=True)
        return back

    return add, spread


def place_cells(axis: TableAxis, beside: Sequence[TableAxis]) -> FloatArray:
    """Return which joint cells of a column make each cell of an axis: a matrix of 0 and 1.

    The joint cells are the finest bins of all axes of the column, or its levels; then one for missing values, and one
    for values that are outside of all edges, where there are such.
    """
    if axis.edges is None:
        matrix = np.eye(axis.bins)
    else:
        ends = sorted({edge for other in beside for edge in other.edges or ()})
        lows = np.array(ends[:-1])
        matrix = np.array([(lows >= low) & (lows < high) for low, high in pairwise(axis.edges)], dtype=float)
    complete = axis.column.missing == "complete" and not any(other.missing for other in beside)
    if not complete:
        matrix = np.pad(matrix, ((0, int(axis.missing)), (0, 1)))
        if axis.missing:
            matrix[-1, -1] = 1.0
    bounds = (axis.column.lower, axis.column.upper)
    if axis.edges is not None and (min(lows), max(ends)) != bounds:
        matrix = np.pad(matrix, ((0, 0), (0, 1)))
    return matrix
