"""The terms of a request: how stored columns become the columns of X and y on the request lattice.

The same coding serves the Gram that is cached at ingest and a pass over rows, so that both give the same integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from curator_service.privacy.lattice import (
    MISSING,
    UNIT,
    FlagArray,
    RowArray,
    StoredArray,
    center_and_scale,
    to_request_lattice,
)


class ColumnType(StrEnum):
    """What a column holds."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    BOOLEAN = "boolean"


class MissingRule(StrEnum):
    """What a missing value means; fixed in the manifest, never read from the data."""

    OMIT = "omit"
    MIDPOINT = "midpoint"
    INDICATOR = "indicator"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Column:
    """The public declaration of a column.

    Attributes
    ----------
    name : str
    type : ColumnType
    missing : MissingRule
    lower, upper : float
        Public bounds in the column's unit; 0 and 1 unless numeric.
    levels : tuple of str
        Declared levels of a category, in order; the two labels of a boolean, the false one first.
    unit : str or None
    """

    name: str
    type: ColumnType
    missing: MissingRule = MissingRule.OMIT
    lower: float = 0.0
    upper: float = 1.0
    levels: tuple[str, ...] = ()
    unit: str | None = None


class TermKind(StrEnum):
    """How a term is coded."""

    CONSTANT = "constant"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    LEVEL = "level"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Term:
    """One column of X, or one target: at most `UNIT` in size for every row.

    Terms with the same `group` are coded one-hot: at most one of them differs from 0 in any row. A group is named by
    its kind and its column, so that no column's name can make it join another.
    """

    name: str
    kind: TermKind
    group: tuple[TermKind, str]
    column: str | None = None
    level: int | None = None
    center: float = 0.0
    scale: float = 1.0
    unit: str | None = None


CONSTANT = Term("(constant)", TermKind.CONSTANT, group=(TermKind.CONSTANT, ""))


def _value_term(column: Column) -> Term:
    if column.type is ColumnType.BOOLEAN:
        return Term(column.name, TermKind.BOOLEAN, (TermKind.BOOLEAN, column.name), column.name)
    center, scale = center_and_scale(column.lower, column.upper)
    group = (TermKind.NUMERIC, column.name)
    return Term(column.name, TermKind.NUMERIC, group, column.name, center=center, scale=scale, unit=column.unit)


def feature_terms(column: Column, *, drop_first_level: bool) -> tuple[Term, ...]:
    """Return the terms of one feature.

    Parameters
    ----------
    column : Column
    drop_first_level : bool
        Whether a category leaves out its first declared level, as it does beside a constant.

    Returns
    -------
    tuple of Term
        A category's levels and its indicator of a missing value form one one-hot group. A numeric or boolean
        indicator is a group of its own: a looser bound, and a true one.
    """
    categorical = column.type is ColumnType.CATEGORICAL
    one_hot = (TermKind.LEVEL, column.name)
    if categorical:
        terms = tuple(
            Term(f"{column.name}[{level}]", TermKind.LEVEL, one_hot, column.name, level=code)
            for code, level in enumerate(column.levels)
            if code > 0 or not drop_first_level
        )
    else:
        terms = (_value_term(column),)
    if column.missing is not MissingRule.INDICATOR:
        return terms
    group = one_hot if categorical else (TermKind.MISSING, column.name)
    return (*terms, Term(f"{column.name}[missing]", TermKind.MISSING, group, column.name))


def target_term(column: Column) -> Term:
    """Return the term of a target.

    Raises
    ------
    ValueError
        If the column is a category: it has no single number to predict.
    """
    if column.type is ColumnType.CATEGORICAL:
        raise ValueError(f"the categorical column {column.name!r} cannot be a target")
    return _value_term(column)


def omits_rows(column: Column, *, as_target: bool) -> bool:
    """Tell, from the declaration alone, whether a missing value here takes the row out of a request.

    A target has no column to flag a missing value in, so `indicator` omits there.
    """
    return column.missing is MissingRule.OMIT or (as_target and column.missing is MissingRule.INDICATOR)


@dataclass(frozen=True, slots=True)
class Design:
    """Terms and targets of a request, in order.

    Attributes
    ----------
    terms : tuple of Term
        The columns of X, the constant first where there is one.
    targets : tuple of Term
    omitting : frozenset of str
        Columns whose missing value takes the whole row out.
    """

    terms: tuple[Term, ...]
    targets: tuple[Term, ...] = ()
    omitting: frozenset[str] = frozenset()

    @property
    def has_constant(self) -> bool:
        """Whether the first term is the constant."""
        return bool(self.terms) and self.terms[0].kind is TermKind.CONSTANT

    @property
    def group_count(self) -> int:
        """R² of the box in units of q²: the number of terms, a one-hot group counted once."""
        return len({term.group for term in self.terms})

    @property
    def wide_group_count(self) -> int:
        """h: the number of one-hot groups of two or more terms."""
        groups = [term.group for term in self.terms]
        return sum(groups.count(group) > 1 for group in set(groups))

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that the terms and targets read, each once, in order."""
        names = (term.column for term in (*self.terms, *self.targets))
        return tuple(dict.fromkeys(name for name in names if name is not None))


@lru_cache(maxsize=1024)
def make_design(features: tuple[Column, ...], targets: tuple[Column, ...], *, intercept: bool) -> Design:
    """Build the design of a request from public declarations.

    Parameters
    ----------
    features, targets : tuple of Column
    intercept : bool
        Whether a constant term is added; then each category leaves out its first level.

    Raises
    ------
    ValueError
        If a column is named twice: its terms would not be one group any more.
    """
    names = [column.name for column in (*features, *targets)]
    if len(set(names)) != len(names):
        raise ValueError("a column can be one feature or one target, once")
    terms = [CONSTANT] if intercept else []
    for column in features:
        terms.extend(feature_terms(column, drop_first_level=intercept))
    omitting = {c.name for c in features if omits_rows(c, as_target=False)}
    omitting |= {c.name for c in targets if omits_rows(c, as_target=True)}
    return Design(tuple(terms), tuple(target_term(c) for c in targets), frozenset(omitting))


def cached_design(columns: tuple[Column, ...]) -> Design:
    """Return the widest box design of columns that omit no row: a constant, and every level of every category.

    Any request without omission, by the box map, is a block of its Gram: terms are equal when they are coded alike.
    """
    wide = make_design(columns, (), intercept=False)
    return Design((CONSTANT, *wide.terms))


def code_rows(
    columns: Mapping[str, StoredArray],
    design: Design,
    row_count: int,
    counted: FlagArray | None = None,
    out: RowArray | None = None,
) -> RowArray:
    """Code stored rows on the request lattice.

    Parameters
    ----------
    columns : mapping of str to ndarray of int32, shape (n,)
        Stored integers of every column in ``design.columns``.
    design : Design
    row_count : int
        n, for a design that reads no column.
    counted : ndarray of bool, shape (n,), optional
        Which rows count; all of them, if it is not given.
    out : ndarray of float64, shape (n, terms + targets), optional
        Where the result is written.

    Returns
    -------
    ndarray of float64, shape (n, terms + targets)
        Integers in ``[-q, q]``. A row that does not count, or misses a value of an omitting column, is all zeros.
    """
    fields = (*design.terms, *design.targets)
    rows = np.empty((row_count, len(fields)), dtype=np.float64, order="F") if out is None else out
    work, equal = np.empty(row_count, dtype=np.int32), np.empty(row_count, dtype=np.bool_)
    for j, term in enumerate(fields):
        if term.column is None:
            rows[:, j] = UNIT
        elif term.kind is TermKind.NUMERIC:
            to_request_lattice(columns[term.column], rows[:, j], work, missing=term.column not in design.omitting)
        else:
            np.equal(columns[term.column], _code_of(term), out=equal)
            np.multiply(equal, np.float64(UNIT), out=rows[:, j])
    if counted is None and not design.omitting:
        return rows
    kept = np.ones(row_count, dtype=np.bool_) if counted is None else counted.copy()
    for name in design.omitting:
        kept &= np.not_equal(columns[name], MISSING, out=equal)
    rows *= kept.astype(np.float64)[:, None]  # the same work for any number of them
    return rows


def _code_of(term: Term) -> int:
    """Return the stored integer of rows in which a term is 1."""
    code = {TermKind.BOOLEAN: 1, TermKind.MISSING: MISSING}.get(term.kind, term.level)
    assert code is not None
    return code
