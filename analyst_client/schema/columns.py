"""Columns as a hospital declares them, and the terms of a regression that they are coded as."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from analyst_client.display.model import Inline, join, quiet, untrusted
from analyst_client.schema.reading import Readable
from analyst_client.schema.wire import Fields
from analyst_client.terms.expression import BASES, NOTHING, Expression, read_expression

CONSTANT = "(constant)"
COMBINATION = "combination"
"""Kind of a term that is combined of others."""
NO_FACTORS = ("constant", "product", COMBINATION)
"""Kinds of terms that no product is made of."""
LEVELS_MAX = 12
PLAIN = ("false", "true")
"""Labels of a boolean that declares none."""
TRUTHS = {"false": 0, "no": 0, "n": 0, "0": 0, "true": 1, "yes": 1, "y": 1, "1": 1}
"""Words for false and true in the file of such a boolean, in small letters."""


@dataclass(frozen=True)
class Column(Readable):
    """A declared column of a dataset.

    Attributes
    ----------
    name, type, missing : str
        `type` is ``"numeric"``, ``"categorical"`` or ``"boolean"``; `missing` is the rule for a missing value,
        ``"omit"``, ``"midpoint"``, ``"indicator"`` or ``"complete"``.
    lower, upper : float or None
        Public bounds of a numeric column in its unit; None where nothing is clipped.
    levels : tuple of str
        Declared levels; of a boolean, the label of false and the label of true.
    unit : str or None
    description : str
    whole : bool
        Whether every value is a whole number, as counts are: declared, and checked when rows are registered.

    Examples
    --------
    >>> Column.numeric("age", 50, 100, unit="years")  # doctest: +ELLIPSIS
    Column(name='age', type='numeric', missing='omit', lower=50.0, upper=100.0, levels=(), unit='years', ...)
    >>> Column.categorical("sex", ["F", "M"]).levels
    ('F', 'M')
    """

    name: str
    type: str
    missing: Annotated[str, Fields.text] = "omit"
    lower: float | None = None
    upper: float | None = None
    levels: tuple[str, ...] = ()
    unit: str | None = None
    description: str = ""
    whole: bool = False

    def __post_init__(self) -> None:
        """Refuse a declaration that contradicts itself."""
        if self.type not in {"numeric", "categorical", "boolean"}:
            raise ValueError(f"column {self.name!r} has the unknown type {self.type!r}")
        if self.missing not in {"omit", "midpoint", "indicator", "complete"}:
            raise ValueError(f"column {self.name!r} has the unknown missing rule {self.missing!r}")
        if self.type == "numeric" and (self.lower is None) != (self.upper is None):
            raise ValueError(f"column {self.name!r} has one bound: both or none are needed")
        if self.lower is not None and self.upper is not None and not -math.inf < self.lower < self.upper < math.inf:
            raise ValueError(f"column {self.name!r} needs finite bounds, lower < upper")
        if self.type == "boolean" and len(self.levels) != 2:
            raise ValueError(f"column {self.name!r} needs two labels, false first")
        if len(set(self.levels)) != len(self.levels) or (self.type == "categorical" and not self.levels):
            raise ValueError(f"column {self.name!r} needs levels, each once")

    def label(self, word: str) -> str:
        """Return the level that a word of a file stands for; a word that stands for none is returned as it is.

        Examples
        --------
        >>> Column.boolean("insured").label("Yes")
        'true'
        """
        is_plain = self.type == "boolean" and self.levels == PLAIN
        return PLAIN[TRUTHS[word.lower()]] if is_plain and word.lower() in TRUTHS else word

    @classmethod
    def numeric(
        cls,
        name: str,
        lower: float | None = None,
        upper: float | None = None,
        *,
        missing: str = "omit",
        unit: str | None = None,
    ) -> "Column":
        """Declare a numeric column; values are clipped to its bounds, if it has any.

        Parameters
        ----------
        name : str
            Name of the column.
        lower, upper : float, optional
            Public bounds, in its unit: both or none.
        missing : str
            Rule for a missing value: ``"omit"``, ``"midpoint"``, ``"indicator"`` or ``"complete"``.
        unit : str, optional
            Unit, to be shown.

        Returns
        -------
        Column
            Of the type ``"numeric"``.

        Raises
        ------
        ValueError
            When one bound is missing, or they are not finite and increasing.
        """
        low, high = (None if bound is None else float(bound) for bound in (lower, upper))
        return cls(name, "numeric", missing, low, high, unit=unit)

    @classmethod
    def categorical(cls, name: str, levels: "list[str] | tuple[str, ...]", *, missing: str = "omit") -> "Column":
        """Declare a categorical column; beside a constant its first level is the reference.

        Parameters
        ----------
        name : str
            Name of the column.
        levels : list or tuple of str
            Its values, each once.
        missing : str
            Rule for a missing value: ``"omit"``, ``"midpoint"``, ``"indicator"`` or ``"complete"``.

        Returns
        -------
        Column
            Of the type ``"categorical"``.

        Raises
        ------
        ValueError
            When there is no level, or one stands twice.
        """
        return cls(name, "categorical", missing, levels=tuple(levels))

    @classmethod
    def boolean(cls, name: str, labels: tuple[str, str] = PLAIN, *, missing: str = "omit") -> "Column":
        """Declare a boolean column.

        Parameters
        ----------
        name : str
            Name of the column.
        labels : tuple of str
            The label of false and the label of true.
        missing : str
            Rule for a missing value: ``"omit"``, ``"midpoint"``, ``"indicator"`` or ``"complete"``.

        Returns
        -------
        Column
            Of the type ``"boolean"``.

        Raises
        ------
        ValueError
            When there are not two labels.
        """
        return cls(name, "boolean", missing, levels=tuple(labels))


@dataclass(frozen=True)
class DerivedColumn(Column):
    """A column that the curator computes from others, row by row; its bounds follow from theirs.

    Attributes
    ----------
    expression : Expression
    sources : tuple of Column
        The declared columns that it is computed from.

    Examples
    --------
    >>> from analyst_client.terms import col
    >>> from analyst_client.tutorial import recorded_client
    >>> features = ["age", "sex", "kappa", "lambda", "mgus", col("kappa") + col("lambda") >= 4.72]
    >>> options = {"rows": "box", "statistics": ["xtx"], "epsilon": 1.3, "delta": 1e-6}
    >>> high = recorded_client("paper").quote("flchain", features, **options).features[-1]
    >>> high.type, high.expression, [column.name for column in high.sources]
    ('boolean', 4.72 <= (kappa + lambda), ['kappa', 'lambda'])
    """

    expression: Expression = field(default=NOTHING, compare=False)  # its name tells which it is
    sources: tuple[Column, ...] = ()

    @classmethod
    def read_of(cls, fields: Fields, declared: Mapping[str, Column]) -> "DerivedColumn":
        """Read from an answer that states the declared columns too.

        Parameters
        ----------
        fields : Fields
            The member of the answer.
        declared : mapping of str to Column
            Columns by name.
        """
        plain = Column.read(fields)
        try:
            expression = read_expression(fields.members.get("expression"))
            sources = tuple(declared[name] for name in expression.columns)
        except (ValueError, KeyError):
            raise fields.fault("expression", "an expression of the listed columns") from None
        return cls(**vars(plain), expression=expression, sources=sources)


def stored_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that are in an analyst's rows: those that computed ones are made of, in place of these."""
    stored = [c for column in columns for c in (column.sources if isinstance(column, DerivedColumn) else (column,))]
    return tuple({column.name: column for column in stored}.values())


class Basis(NamedTuple):
    """Functions of a number, and one of them.

    Attributes
    ----------
    column : str
    word : str
        ``"polynomial"``, ``"spline"`` or ``"natural_spline"``.
    parameters : tuple
        As the wire has them.
    center, scale : float
        The functions are of ``(x - center) / scale``.
    place : int
        Which function, from 0.
    """

    column: str
    word: str
    parameters: tuple[Any, ...]
    center: float
    scale: float
    place: int

    @classmethod
    def read(cls, fields: Fields) -> "Basis":
        """Read from an answer."""
        word = next((word for word in BASES if fields.has(word)), None)
        if word is None:
            raise fields.fault("kind", "a basis that this version knows: a newer one may know more")
        parameters = tuple(tuple(part) if isinstance(part, list) else part for part in fields.array(word))
        numbers = fields.number("center"), fields.number("scale"), fields.integer("place")
        return cls(fields.text("column"), word, parameters, *numbers)

    @property
    def scaled_parameters(self) -> tuple[Any, ...]:
        """A degree; or the knots in scaled units, and a degree."""
        if self.word == "polynomial":
            return self.parameters
        knots, degree = (*self.parameters, 3)[:2]
        return tuple((knot - self.center) / self.scale for knot in knots), degree


@dataclass(frozen=True)
class Term:
    """A term of the regression, or a target: what one row of XᵀX or one column of Xᵀy stands for.

    Attributes
    ----------
    name : str
    kind : str
        ``"constant"``, ``"numeric"``, ``"level"``, ``"boolean"``, ``"missing"``, ``"basis"``, ``"product"`` or
        ``"combination"``, of terms that a release lists beside it.
    column : str or None
        The feature that it belongs to: a column, or a basis of one such as ``polynomial(age, 2)``, or an interaction
        such as ``sex:age``; None for the constant, and the name itself of a combination.
    center, scale : float
        A raw value x stands in the statistics as ``(x - center) / scale``.
    unit, level : str or None
    basis : Basis or None
        The function of the column that it is.
    factors : tuple of Term
        Terms that it is the product of.

    Examples
    --------
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> age = release.terms[1]
    >>> age.name, age.center, age.scale
    ('age', 75.0, 25.0)
    """

    name: str
    kind: str
    column: str | None = None
    center: float = 0.0
    scale: float = 1.0
    unit: str | None = None
    level: str | None = None
    basis: Basis | None = None
    factors: "tuple[Term, ...]" = ()

    @classmethod
    def read(cls, fields: Fields) -> "Term":
        """Read from an answer."""
        kind = fields.text("kind")
        if kind == "product":
            listed = fields.array("factors")
            # Products within products are refused before they are read: they may be nested without end.
            if not listed or any(one.get("kind") in NO_FACTORS for one in listed if isinstance(one, dict)):
                raise fields.fault("factors", "a list of terms")
            factors = fields.each("factors", cls.read)
            return cls(fields.text("name"), kind, ":".join(str(factor.column) for factor in factors), factors=factors)
        if kind == COMBINATION:
            return cls(fields.text("name"), kind, fields.text("name"))
        if kind not in {"constant", "numeric", "level", "boolean", "missing", "basis"}:
            raise fields.fault("kind", "a known kind of term")
        if kind == "basis":
            name, basis = fields.text("name"), Basis.read(fields)
            if basis.scale <= 0.0:
                raise fields.fault("scale", "positive")
            return cls(name, kind, name.rpartition("[")[0], basis=basis)
        term = cls(
            fields.text("name"),
            kind,
            None if kind == "constant" else fields.text("column"),
            fields.number("center") if kind == "numeric" or fields.has("center") else 0.0,
            fields.number("scale") if kind == "numeric" or fields.has("scale") else 1.0,
            fields.optional("unit", fields.text),
            fields.text("level") if kind == "level" else None,
        )
        if term.scale <= 0.0:
            raise fields.fault("scale", "positive")
        return term

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it is made of.

        Examples
        --------
        >>> square = Term("polynomial(age, 2)[2]", "basis", basis=Basis("age", "polynomial", (2,), 75.0, 25.0, 1))
        >>> Term("sex[M]:…", "product", factors=(Term("sex[M]", "level", "sex"), square)).columns
        ('sex', 'age')
        """
        if self.kind == COMBINATION:
            return ()
        if self.factors:
            return tuple(dict.fromkeys(name for factor in self.factors for name in factor.columns))
        name = self.column if self.basis is None else self.basis.column
        return () if name is None else (name,)

    @property
    def group(self) -> tuple[Any, ...]:
        """The key of terms that together are at most 1 in size in every row, as levels of a category are."""
        if self.factors:
            return tuple(factor.group for factor in self.factors)
        is_polynomial = self.basis is not None and self.basis.word == "polynomial"
        return (self.column, self.name) if is_polynomial else (self.column,)


def terms_of(columns: tuple[Column, ...], constant: bool) -> tuple[Term, ...]:
    """Code columns as the curator does: beside a constant the first level of a category is left out."""
    terms = [Term(CONSTANT, "constant")] if constant else []
    for column in columns:
        if column.type == "categorical":
            levels = column.levels[1:] if constant else column.levels
            terms += [Term(f"{column.name}[{level}]", "level", column.name, level=level) for level in levels]
        else:
            terms.append(plain_term(column))
        if column.missing == "indicator":
            terms.append(Term(f"{column.name}[missing]", "missing", column.name))
    return tuple(terms)


def plain_term(column: Column) -> Term:
    """Return the one term of a numeric or boolean column, which is also how a target is coded."""
    if column.type == "categorical":
        raise ValueError(f"column {column.name!r} is categorical and cannot be a target")
    if column.type == "boolean" or column.lower is None or column.upper is None:
        return Term(column.name, column.type, column.name, unit=column.unit)
    center, scale = (column.lower + column.upper) / 2, (column.upper - column.lower) / 2
    return Term(column.name, "numeric", column.name, center, scale, column.unit)


def column_json(column: Column) -> dict[str, Any]:
    """Write a column as the wire does."""
    unused = ("levels",) if column.type == "numeric" else ("lower", "upper")
    # `whole` is declared with a dataset, and no answer repeats it.
    left_out = {*unused, "whole", "expression", "sources"}
    members = {name: value for name, value in vars(column).items() if name not in left_out}
    return members | ({"expression": column.expression.to_json()} if isinstance(column, DerivedColumn) else {})


def term_json(term: Term) -> dict[str, Any]:
    """Write a term as the wire does."""
    if term.factors:
        return {"name": term.name, "kind": term.kind, "factors": [term_json(factor) for factor in term.factors]}
    if term.basis is not None:
        column, word, parameters, *rest = term.basis
        listed = [list(part) if isinstance(part, tuple) else part for part in parameters]
        numbers = dict(zip(("center", "scale", "place"), rest, strict=True))
        return {"name": term.name, "kind": term.kind, "column": column, **numbers, word: listed}
    plain = ("name", "kind", "column", "center", "scale", "unit", "level")
    return {name: getattr(term, name) for name in plain if getattr(term, name) is not None}


def write_words(words: Sequence[str]) -> Inline:
    """Write some words of a server in one line."""
    shown = [untrusted(word) for word in words[:LEVELS_MAX]]
    if len(words) > LEVELS_MAX:
        shown.append(quiet(f"and {len(words) - LEVELS_MAX:,} more"))
    return join(*shown, by=", ")
