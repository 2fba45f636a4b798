"""The terms of a request: how columns become the columns of X and y on the request lattice.

The same coding serves the Gram that is cached at ingest and a pass over rows, so that both give the same integers.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

import numpy as np

from curator_service.kit.caches import cache_sized
from curator_service.privacy.bases import Basis, Polynomial, tabulate
from curator_service.privacy.combinations import Combinations
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
    """What values of a column are, whatever type its manifest declares: these three the proofs know."""

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

    @classmethod
    def number(
        cls, name: str, lower: float = 0.0, upper: float = 1.0, missing: MissingRule = MissingRule.OMIT
    ) -> "Column":
        """Return a column of numbers without a unit."""
        return cls(name, ColumnType.NUMERIC, missing, lower, upper)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers between the bounds."""
        return self.type is ColumnType.NUMERIC

    @property
    def is_level(self) -> bool:
        """Whether its values are levels, none of which is a number."""
        return self.type is ColumnType.CATEGORICAL

    @property
    def is_truth(self) -> bool:
        """Whether its values are false and true, which are 0 and 1 wherever a number is asked for."""
        return self.type is ColumnType.BOOLEAN

    @property
    def reads(self) -> tuple[str, ...]:
        """The stored columns that its values are made of."""
        return (self.name,)

    @property
    def flagged(self) -> "Column":
        """The column whose missing values are exactly its own: one that it is computed from, or itself."""
        return self

    @property
    def work(self) -> int:
        """Work to compute it for a row, in products of two numbers; nothing where it is stored."""
        return 0

    def read(self, stored: Mapping[str, StoredArray], count: int) -> StoredArray:
        """Return its values for so many rows, as stored integers."""
        del count
        return stored[self.name]


@dataclass(frozen=True, slots=True)
class Curve:
    """Functions of a numeric column, in place of the column itself."""

    column: Column
    basis: Basis

    @property
    def name(self) -> str:
        """The basis and its column, as people read it: different for different curves."""
        return self.basis.name_of(self.column.name)


@dataclass(frozen=True, slots=True)
class Interaction:
    """Products of the terms of several factors: each of one with each of the others.

    Attributes
    ----------
    factors : tuple of Column or Curve
        Two at least, each once.
    """

    factors: tuple[Column | Curve, ...]

    @property
    def name(self) -> str:
        """The names of the factors."""
        return ":".join(factor.name for factor in self.factors)


Feature = Column | Curve | Interaction


def columns_of(feature: Feature) -> tuple[Column, ...]:
    """Return the columns of a feature, in order."""
    match feature:
        case Interaction(factors):
            return tuple(column for factor in factors for column in columns_of(factor))
        case Curve(column):
            return (column,)
        case Column():
            return (feature,)


class TermKind(StrEnum):
    """Coding of a term."""

    CONSTANT = "constant"
    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    LEVEL = "level"
    MISSING = "missing"
    BASIS = "basis"
    PRODUCT = "product"
    COMBINATION = "combination"


@dataclass(frozen=True, slots=True)
class Term:
    """One column of X, or one target: at most `UNIT` in size for every row.

    The sizes of terms with the same `group` add up to at most `UNIT` in every row, so together they count as one term.
    A one-hot coding is such a group: at most one of its terms differs from 0. A group is named by its kind and its
    columns, so that no column's name can make it join another.

    Attributes
    ----------
    support : int
        How many terms of its group may differ from 0 in a row.
    basis, place : Basis and int, or None
        Which function of which basis it is.
    factors : tuple of Term
        What it is the product of.
    """

    name: str
    kind: TermKind
    group: tuple[object, ...]
    column: str | None = None
    level: int | None = None
    center: float = 0.0
    scale: float = 1.0
    unit: str | None = None
    support: int = 1
    basis: Basis | None = None
    place: int | None = None
    factors: tuple["Term", ...] = ()


CONSTANT = Term("(constant)", TermKind.CONSTANT, group=(TermKind.CONSTANT, ""))


def _value_term(column: Column) -> Term:
    if column.is_truth:
        return Term(column.name, TermKind.BOOLEAN, (TermKind.BOOLEAN, column.name), column.name)
    center, scale = center_and_scale(column.lower, column.upper)
    group = (TermKind.NUMERIC, column.name)
    return Term(column.name, TermKind.NUMERIC, group, column.name, center=center, scale=scale, unit=column.unit)


def feature_terms(feature: Feature, *, drop_first_level: bool) -> tuple[Term, ...]:
    """Return the terms of one feature.

    Parameters
    ----------
    drop_first_level : bool
        Whether a category leaves out its first level, and a spline its first function, as they do beside a constant.

    Returns
    -------
    tuple of Term
        A category's levels and its indicator of a missing value form one one-hot group. A numeric or boolean
        indicator is a group of its own: a looser bound, and a true one.
    """
    match feature:
        case Curve():
            return _curve_terms(feature, drop_first=drop_first_level)
        case Interaction():
            return _products(feature, drop_first_level=drop_first_level)
        case Column():
            return _column_terms(feature, drop_first_level=drop_first_level)


def count_terms(feature: Feature, *, drop_first_level: bool) -> int:
    """Return how many terms a feature has, without making them: an interaction may have more than memory holds."""
    if isinstance(feature, Interaction):
        return math.prod(map(len, _values_of_factors(feature, drop_first_level=drop_first_level)))
    return len(feature_terms(feature, drop_first_level=drop_first_level))


def _column_terms(column: Column, *, drop_first_level: bool) -> tuple[Term, ...]:
    categorical = column.is_level
    one_hot = (TermKind.LEVEL, column.name)
    if categorical:
        terms = tuple(
            Term(f"{column.name}[{level}]", TermKind.LEVEL, one_hot, column.name, level=code)
            for code, level in enumerate(column.levels)
            if code > 0 or not drop_first_level
        )
    else:
        terms = (_value_term(column),)
    if column.missing is not MissingRule.INDICATOR or not categorical:
        return (*terms, *_flag(column))
    return (*terms, Term(f"{column.name}[missing]", TermKind.MISSING, one_hot, column.name))


def _flag(column: Column) -> tuple[Term, ...]:
    """Return the indicator of a missing value: the same for all that is computed from one column."""
    if column.missing is not MissingRule.INDICATOR:
        return ()
    name = column.flagged.name
    return (Term(f"{name}[missing]", TermKind.MISSING, (TermKind.MISSING, name), name),)


def _curve_terms(curve: Curve, *, drop_first: bool) -> tuple[Term, ...]:
    """Return the functions of a basis, the polynomials each by itself and B-splines as one group, and an indicator."""
    basis, value = curve.basis, _value_term(curve.column)
    group = (TermKind.BASIS, curve.name)
    terms = tuple(
        replace(
            value,
            name=f"{curve.name}[{place + 1}]",
            kind=TermKind.BASIS,
            group=(*group, place) if isinstance(basis, Polynomial) else group,
            unit=None,
            support=basis.support,
            basis=basis,
            place=place,
        )
        for place in range(basis.size)
    )
    # B-splines add up to a constant.
    kept = terms[1:] if drop_first and not isinstance(basis, Polynomial) else terms
    return (*kept, *_flag(curve.column))


def _products(interaction: Interaction, *, drop_first_level: bool) -> tuple[Term, ...]:
    """Return products of factors' values: sizes of a product of groups add up to at most 1, as those of each do."""
    return tuple(
        Term(
            ":".join(factor.name for factor in chosen),
            TermKind.PRODUCT,
            (TermKind.PRODUCT, *(factor.group for factor in chosen)),
            support=math.prod(factor.support for factor in chosen),
            factors=chosen,
        )
        for chosen in product(*_values_of_factors(interaction, drop_first_level=drop_first_level))
    )


def _values_of_factors(interaction: Interaction, *, drop_first_level: bool) -> list[list[Term]]:
    factors = [feature_terms(factor, drop_first_level=drop_first_level) for factor in interaction.factors]
    # Whether a number or a boolean is missing has a term beside them; a category's missing level is one of its levels.
    return [
        [term for term in terms if term.kind is not TermKind.MISSING or term.group[0] is TermKind.LEVEL]
        for terms in factors
    ]


def target_term(column: Column) -> Term:
    """Return the term of a target.

    Raises
    ------
    ValueError
        If the column is a category: it has no single number to predict.
    """
    if column.is_level:
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
    sources : tuple of Column
        The columns that terms, targets and omissions read, each once.
    combined : tuple of Term
        What rows are coded as first, where the terms are combinations of it; else nothing.
    combinations : Combinations or None
    """

    terms: tuple[Term, ...]
    targets: tuple[Term, ...] = ()
    omitting: frozenset[str] = frozenset()
    sources: tuple[Column, ...] = ()
    combined: tuple[Term, ...] = ()
    combinations: Combinations | None = None

    @property
    def coded(self) -> tuple[Term, ...]:
        """The terms that rows are coded as."""
        return self.combined or self.terms

    @property
    def width(self) -> int:
        """Number of columns for coding: terms and targets, or the combined columns where those are more."""
        return max(len(self.coded), len(self.terms)) + len(self.targets)

    @property
    def has_constant(self) -> bool:
        """True if the first term is the constant."""
        return bool(self.terms) and self.terms[0].kind is TermKind.CONSTANT

    @property
    def group_count(self) -> int:
        """R² of the box in units of q²: the number of terms, a group counted once."""
        return len({term.group for term in self.terms})

    @property
    def wide_group_count(self) -> int:
        """h: the number of groups of two or more terms."""
        groups = [term.group for term in self.terms]
        return sum(groups.count(group) > 1 for group in set(groups))

    @property
    def supports(self) -> tuple[tuple[int, int], ...]:
        """Of each group its number of terms, and how many of them may differ from 0 in a row."""
        sizes = Counter(term.group for term in self.terms)
        supports = {term.group: term.support for term in self.terms}
        return tuple((size, min(size, supports[group])) for group, size in sizes.items())

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that are read, each once, in order."""
        return tuple(dict.fromkeys(name for column in self.sources for name in column.reads))


DESIGNS_BYTES = 2**26
"""Of designs that are remembered, and as many of plans: callers choose how many terms a request has."""


def bytes_of_design(design: Design) -> int:
    """Return about how many bytes a design takes, with what is planned of it."""
    return 1024 + sum(2048 + len(term.name) for term in design.terms)


@cache_sized(DESIGNS_BYTES, bytes_of_design)
def make_design(features: tuple[Feature, ...], targets: tuple[Column, ...], *, intercept: bool) -> Design:
    """Build the design of a request from public declarations.

    Parameters
    ----------
    intercept : bool
        Whether a constant term is added; then each category leaves out its first level.

    Raises
    ------
    ValueError
        If a feature or a target is named twice: its terms would not be one group any more.
    """
    names = [feature.name for feature in (*features, *targets)]
    if len(set(names)) != len(names):
        raise ValueError("a column can be one feature or one target, once")
    terms = [CONSTANT] if intercept else []
    for feature in features:
        terms.extend(feature_terms(feature, drop_first_level=intercept))
    terms = list(dict.fromkeys(terms))  # one indicator for all that is computed from a column
    read = tuple(dict.fromkeys(column for feature in features for column in columns_of(feature)))
    omitting = {c.name for c in read if omits_rows(c, as_target=False)}
    omitting |= {c.name for c in targets if omits_rows(c, as_target=True)}
    flagged = (column.flagged for column in read if column.missing is MissingRule.INDICATOR)
    sources = tuple(dict.fromkeys((*read, *targets, *flagged)))
    return Design(tuple(terms), tuple(target_term(c) for c in targets), frozenset(omitting), sources)


def combine_terms(design: Design, combinations: Combinations) -> Design:
    """Return the design whose terms are combinations of another one's; each is a group of its own."""
    terms = tuple(
        Term(f"combination[{place}]", TermKind.COMBINATION, (TermKind.COMBINATION, place))
        for place in range(1, combinations.count + 1)
    )
    return replace(design, terms=terms, combined=design.terms, combinations=combinations)


def cached_design(columns: tuple[Column, ...]) -> Design:
    """Return the widest box design of columns that omit no row: a constant, and every level of every category.

    Any request without omission, by the box map, is a block of its Gram: terms are equal when they are coded alike.
    """
    wide = make_design(columns, (), intercept=False)
    return replace(wide, terms=(CONSTANT, *wide.terms))


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
    row_count : int
        n, for a design that reads no column.
    counted : ndarray of bool, shape (n,), optional
        Which rows count; all of them, if it is not given.
    out : ndarray of float64, shape (n, design.width), optional
        Where the result is written.

    Returns
    -------
    ndarray of float64, shape (n, terms + targets)
        Integers in ``[-q, q]``; combinations are within ±`LONGEST`, and for a row map to bound. A row that does not
        count, or misses a value of an omitting column, is all zeros.
    """
    wide = np.empty((row_count, design.width), dtype=np.float64, order="F") if out is None else out
    fields = (*design.coded, *design.targets)
    rows = wide[:, : len(fields)]
    work = np.empty(row_count, dtype=np.int32)
    values = {column.name: column.read(columns, row_count) for column in design.sources}
    for j, term in enumerate(fields):
        _code(term, values, design.omitting, rows[:, j], work)
    if counted is not None or design.omitting:
        kept = np.ones(row_count, dtype=np.bool_) if counted is None else counted.copy()
        for name in design.omitting:
            kept &= values[name] != MISSING
        rows *= kept.astype(np.float64)[:, None]  # the same work for any number of them
    if design.combinations is None:
        return rows
    held, count = len(design.combined), len(design.terms)
    combinations, targets = design.combinations.round(rows[:, :held]), rows[:, held:].copy()
    wide[:, :count] = combinations
    wide[:, count : count + len(design.targets)] = targets
    return wide[:, : count + len(design.targets)]


def _code(
    term: Term, values: Mapping[str, StoredArray], omitting: frozenset[str], out: RowArray, work: StoredArray
) -> None:
    """Write one term of every row."""
    match term.kind:
        case TermKind.CONSTANT:
            out[:] = UNIT
        case TermKind.NUMERIC | TermKind.BASIS:
            stored = values[term.column or ""]
            to_request_lattice(stored, out, work, missing=term.column not in omitting)
            if term.basis is not None and term.place is not None:
                out[:] = tabulate(term.basis, term.center, term.scale)[term.place].take(out.astype(np.int64) + UNIT)
                out *= stored != MISSING
        case TermKind.PRODUCT:
            _code(term.factors[0], values, omitting, out, work)
            factor = np.empty_like(out)
            for other in term.factors[1:]:
                _code(other, values, omitting, factor, work)
                # Below 2^34, so exact; a quotient that is no integer is 2^-17 from one at least, which no rounding
                # bridges: towards zero, so that sizes of a group add up to q at most.
                out *= factor
                out /= UNIT
                np.trunc(out, out=out)
        case _:
            np.multiply(values[term.column or ""] == _code_of(term), np.float64(UNIT), out=out)


def _code_of(term: Term) -> int:
    """Return the stored integer of rows in which a term is 1."""
    code = {TermKind.BOOLEAN: 1, TermKind.MISSING: MISSING}.get(term.kind, term.level)
    assert code is not None
    return code
