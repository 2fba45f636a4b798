"""Cells of two columns in a released Gram matrix: XᵀX of indicators is made of counts."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, product

import numpy as np

from analyst_client.analyses.moments import check_people
from analyst_client.analyses.table_results import Factor
from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.kinds.counts.axes import MISSING
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import Column, Term

LEAST_VARIANCE = 1e-12
"""Of the largest: what is told without noise is weighted by this."""


def read_cells(release: Release, rows: str, columns: str) -> tuple[list[Factor], FloatArray, FloatArray]:
    r"""Return the factors of a table of two columns, its noisy cells, and the weights of the draws in their noise.

    Raises
    ------
    ValueError
        When there is no such column, or it is numeric.
    EstimationError
        When the release weights rows, misses statistics, or does not tell all cells.

    Notes
    -----
    An entry of XᵀX is a sum of cells plus noise of known variance: :math:`\tilde a=Ac+e`. Beside a constant the number
    of rows and the levels' margins are told more than once, the reference level by what is left. The cells are the
    least squares :math:`\hat c=(A^\top WA)^{-1}A^\top W\tilde a` with weights one over the variance.
    """
    check_people(release)
    if rows == columns:
        raise ValueError("a table needs two columns")
    found = {name: _find_column(release, name) for name in (rows, columns)}
    factors = [Factor(name, _levels(column)) for name, column in found.items()]
    cells = list(product(*(factor.levels for factor in factors)))
    sums, entries, variances = map(np.array, zip(*_read_entries(release, found, cells), strict=True))
    told = np.any(sums != 0.0, axis=1)  # two levels of a column are never both there
    A, y, v = sums[told], entries[told], variances[told]
    weights = 1.0 / np.maximum(v, LEAST_VARIANCE * np.max(v)) if np.max(v) > 0.0 else np.ones(len(v))
    normal = (A.T * weights) @ A
    if np.linalg.matrix_rank(normal) < len(cells):
        raise EstimationError("the release does not tell all cells of these columns")
    solver = np.linalg.solve(normal, A.T * weights)
    return factors, (solver @ y).reshape([len(factor.levels) for factor in factors]), solver * np.sqrt(v)


def _find_column(release: Release, name: str) -> Column:
    columns = {target.name: Column.boolean(target.name) for target in release.targets if target.kind == "boolean"}
    columns |= {column.name: column for column in release.features}
    if name not in columns:
        raise ValueError(f"the release has no column {name!r} with levels; it has {', '.join(columns)}")
    if columns[name].type == "numeric" or columns[name].missing == "midpoint":
        raise ValueError(f"the levels of {name!r} are no cells that hold every row of the release")
    return columns[name]


def _levels(column: Column) -> tuple[str, ...]:
    return (*column.levels, MISSING) if column.missing == "indicator" else column.levels


def _read_entries(
    release: Release, columns: dict[str, Column], cells: Sequence[tuple[str, ...]]
) -> Iterator[tuple[FloatArray, float, float]]:
    """Yield each released entry about two columns: the sum of cells that it is, its value, and its noise's variance."""

    def code(term: Term) -> FloatArray:
        if term.column is None:
            return np.ones(len(cells))
        level = {"missing": MISSING, "level": term.level}.get(term.kind, columns[term.column].levels[1])
        place = list(columns).index(term.column)
        return np.array([float(cell[place] == level) for cell in cells])

    def variance(sd: float | None) -> float:
        if sd is None:
            raise EstimationError("the release does not state the noise of what it told")
        return sd**2

    release = release.as_released
    noise = release.noise
    terms = [(i, code(term)) for i, term in enumerate(release.terms) if term.column is None or term.column in columns]
    for (i, one), (j, other) in combinations_with_replacement(terms, 2):
        if release.xtx is not None:
            sd = noise.xtx_diagonal if i == j else noise.xtx_offdiagonal
            yield one * other, release.xtx[i, j], variance(sd)
    for t, target in enumerate(release.targets):
        if target.column in columns:
            for i, one in terms:
                if release.xty is not None:
                    yield one * code(target), release.xty[i, t], variance(noise.xty)
            if release.yty is not None:
                yield code(target), release.yty[t], variance(noise.yty)
