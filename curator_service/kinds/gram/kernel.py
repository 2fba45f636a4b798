"""Exact sufficient statistics of mapped rows, in integers of the request lattice."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from curator_service.datasets.engines.numpy import tile_rows
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.design import (
    Column,
    Design,
    Term,
    TermKind,
    code_rows,
    make_design,
)
from curator_service.privacy.expressions.work import work_in_tiles
from curator_service.privacy.lattice import UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.mechanism import Output, upper_triangle
from curator_service.privacy.row_maps import Ball, RowMap
from curator_service.privacy.selection import EVERY_ROW, Selection
from curator_service.privacy.sums import compute_gram, round_limbs, split_integer

_TABLE_PRODUCTS, _FACTOR_PRODUCTS, _ROOT_PRODUCTS, _WEIGHT_PRODUCTS, _COMBINED_PRODUCTS = 38, 22, 40, 6, 20
"""What a row takes for a value of a basis, each further factor of a product, its weight, each number so weighed, and
rounding a combination."""


def needs_pass(design: Design, row_map: RowMap, selection: Selection = EVERY_ROW) -> bool:
    """Tell whether a request needs a pass over rows: from declarations, never from the data."""
    if design.omitting or row_map.weighs_terms or selection:
        return True
    if design.combinations is not None:
        return True
    computed = any(column.reads != (column.name,) for column in design.sources)
    return computed or any(term.kind in {TermKind.BASIS, TermKind.PRODUCT} for term in design.terms)


@dataclass(frozen=True, slots=True)
class GramKernel:
    """Σ z zᵀ over mapped rows z of terms and targets: see `datasets.engines.base.RowKernel`."""

    design: Design
    row_map: RowMap
    selection: Selection = EVERY_ROW

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that rows are made of."""
        return tuple(dict.fromkeys((*self.design.columns, *self.selection.reads)))

    @property
    def width(self) -> int:
        """Terms and targets, or what is combined into terms, where that is more."""
        return self.design.width

    @property
    def _entries(self) -> int:
        return len(self.design.terms) + len(self.design.targets)

    @property
    def products(self) -> int:
        """Multiplications for one row, and what its terms take to compute in products of two numbers."""
        computed = sum(column.work for column in {*self.design.sources, *self.selection.columns})
        terms = sum(map(work_of, (*self.design.coded, *self.design.targets)))
        weights = 0 if self.selection.weight is None else _ROOT_PRODUCTS + _WEIGHT_PRODUCTS * self._entries
        each = len(self.design.combined) + _COMBINED_PRODUCTS if self.design.combined else 0
        combined = len(self.design.terms) * each
        return self._entries**2 + combined + work_in_tiles(computed + terms + weights, tile_rows(self.width))

    @property
    def cached_terms(self) -> tuple[Term, ...] | None:
        """Terms and targets, where their sums are a block of the Gram that snapshots keep."""
        if needs_pass(self.design, self.row_map, self.selection):
            return None
        return (*self.design.terms, *self.design.targets)

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        """Code rows, map them, and weigh what came out."""
        rows = code_rows(stored, self.design, len(out), self.selection.select(stored, counted), out)
        self.row_map.apply(rows, self.design, rows)
        weights = self.selection.weigh(stored, len(out))
        if weights is not None:
            rows *= np.sqrt(weights)[:, None]
            np.trunc(rows, out=rows)

    def sum(self, rows: RowArray) -> IntArray:
        """Return Σ z zᵀ."""
        return compute_gram([rows[:, : self._entries]], self._entries)


def work_of(term: Term) -> int:
    """Return what a term takes beside being read, in products of two numbers."""
    match term.kind:
        case TermKind.BASIS:
            return _TABLE_PRODUCTS
        case TermKind.PRODUCT:
            return _FACTOR_PRODUCTS * (len(term.factors) - 1) + sum(map(work_of, term.factors))
    return 0


def typical_kernel(width: int) -> GramKernel:
    """Return the kernel of a request of so many numbers: a constant, features and a target, in a ball."""
    columns = [Column.number(f"x{i}", -1.0, 1.0) for i in range(width - 1)]
    return GramKernel(make_design(tuple(columns[:-1]), (columns[-1],), intercept=True), Ball.of_norm(1.5))


def flatten(gram: IntArray, term_count: int, outputs: tuple[Output, ...], lambda_min_tolerance: int) -> IntArray:
    """Cut the Gram of (terms, targets) into what leaves: XᵀX by pairs, Xᵀy, yᵀy of each target, λ_min.

    Parameters
    ----------
    gram : ndarray of int64, shape (D + T, D + T)
        Or (2, D + T, D + T): two limbs of each entry, of `privacy.sums.split`.
    term_count : int
        D.

    Returns
    -------
    ndarray of int64, shape (entries,)
        In the order of the outputs; (2, entries) of limbs.
    """
    xtx, limbs = gram[..., :term_count, :term_count], gram.shape[:-2]
    targets = np.arange(term_count, gram.shape[-1])
    flat: list[IntArray] = []
    for output in outputs:
        match Statistic(output.statistic):
            case Statistic.XTX:
                flat.append(xtx.reshape(*limbs, -1)[..., upper_triangle(term_count)])
            case Statistic.XTY:
                flat.append(gram[..., :term_count, term_count:].reshape(*limbs, -1))
            case Statistic.YTY:  # the products of two targets are not part of a release
                flat.append(gram[..., targets, targets])
            case Statistic.LAMBDA_MIN:  # at a public time, for how long the search takes depends on the sums
                value = compute_lambda_min(xtx, lambda_min_tolerance)
                flat.append(np.array(split_integer(value) if limbs else [value], dtype=np.int64))
    return np.concatenate(flat, axis=-1)


def compute_lambda_min(xtx: IntArray, tolerance: int = 1) -> int:
    """Compute λ_min(XᵀX), to within a proved error.

    Parameters
    ----------
    xtx : ndarray of int64, shape (D, D)
        Positive semidefinite. Or (2, D, D): two limbs of each entry.
    tolerance : int
        ε ≥ `lambda_min_float_error`, public.

    Returns
    -------
    int
        A multiple of the tolerance, from λ_min − 2ε to λ_min + ε.

    Notes
    -----
    The answer is a k ε for which the Cholesky factorisation of A − k ε I runs to its end and that of A − (k+1) ε I does
    not. In float64 that decides the sign of λ_min(A − k ε I) up to ε, with a proved constant, whatever the order of
    its operations [1]_; which k the search tries first, from a computed spectrum, is of no matter.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed. (2002), theorems 10.3 and 10.7.
    """
    matrix = xtx.astype(np.float64) if xtx.ndim == 2 else round_limbs(xtx)
    identity = np.eye(len(matrix))

    def is_definite(k: int) -> bool:
        try:
            np.linalg.cholesky(matrix - float(k * tolerance) * identity)
        except np.linalg.LinAlgError:
            return False
        return True

    try:
        low = round(float(np.linalg.eigvalsh(matrix)[0]) / tolerance)
    except np.linalg.LinAlgError:  # it did not converge: no stored row may make a request fail
        low = 0
    width = 1
    while not is_definite(low):
        low, width = low - width, 2 * width
    high = low + 1
    while is_definite(high):
        low, high = high, high + 1
    return low * tolerance


def lambda_min_float_error(term_count: int, norm_squared: int, row_capacity: int) -> int:
    """Bound the error of a Cholesky factorisation as a test of definiteness, in squared lattice units.

    Parameters
    ----------
    term_count : int
        D.
    norm_squared : int
        R², bound on ‖row‖².
    row_capacity : int
        N, most rows that the dataset may hold.

    Returns
    -------
    int
        ε = ⌈3 (D + 2)² 2⁻⁵³ N min(q², R²)⌉ + 1: where the test says yes, λ_min ≥ −ε; where it says no, λ_min ≤ ε.

    Notes
    -----
    Let B be the rounded matrix A − k I, u = 2⁻⁵³, T = N R² ≥ tr A, M = N min(q², R²) ≥ max a_ii, so that T ≤ D M.
    Rounding moves B by at most 4 u T in norm. If the factorisation ends, B + E = RᵀR with ‖E‖ ≤ g tr B, and if
    λ_min(B) > D g max b_ii it ends [1]_, with g = γ/(1−γ), γ = (D+2) u, twice that for libraries that multiply by
    reciprocals of pivots. So ε ≥ 4 u T + 2.1 (D+2) u D M covers both.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed. (2002), theorems 10.3 and 10.7.
    """
    largest = row_capacity * min(UNIT**2, norm_squared)
    return math.ceil(Fraction(3 * (term_count + 2) ** 2 * largest, 2**53)) + 1


def is_lambda_min_right() -> bool:
    """Decide an eigenvalue that is 2⁴⁰ times smaller than its matrix: a float32 factorisation could not."""
    largest, smallest = 2**60, 2**20
    xtx = np.array([[largest, largest - smallest], [largest - smallest, largest]], dtype=np.int64)
    tolerance = lambda_min_float_error(2, UNIT**2, -(-largest // UNIT**2))
    computed = compute_lambda_min(xtx, tolerance)
    return smallest - 2 * tolerance <= computed <= smallest + tolerance
