"""Columns as a hospital declares them, and the terms of a regression that they are coded as."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analyst_client.display.model import Inline, join, quiet, untrusted
from analyst_client.error_base import ServiceError
from analyst_client.schema.wire import Fields

CONSTANT = "(constant)"
LEVELS_MAX = 12


@dataclass(frozen=True)
class Column:
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

    Examples
    --------
    >>> Column.numeric("age", 50, 100, unit="years")
    Column(name='age', type='numeric', missing='omit', lower=50.0, upper=100.0, levels=(), unit='years', description='')
    >>> Column.categorical("sex", ["F", "M"]).levels
    ('F', 'M')
    """

    name: str
    type: str
    missing: str = "omit"
    lower: float | None = None
    upper: float | None = None
    levels: tuple[str, ...] = ()
    unit: str | None = None
    description: str = ""

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
    def boolean(cls, name: str, labels: tuple[str, str] = ("false", "true"), *, missing: str = "omit") -> "Column":
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

    @classmethod
    def read(cls, fields: Fields) -> "Column":
        """Read from an answer. Raise `ServiceError` for a declaration that contradicts itself."""
        try:
            return cls(
                fields.text("name"),
                fields.text("type"),
                fields.text("missing"),
                lower=fields.optional("lower", fields.number),
                upper=fields.optional("upper", fields.number),
                levels=fields.optional("levels", fields.texts) or (),
                unit=fields.optional("unit", fields.text),
                description=fields.optional("description", fields.text) or "",
            )
        except ValueError as error:
            raise ServiceError(f"malformed answer: {fields.where}: {error}") from None


@dataclass(frozen=True)
class Term:
    """A term of the regression, or a target: what one row of XᵀX or one column of Xᵀy stands for.

    Attributes
    ----------
    name : str
    kind : str
        ``"constant"``, ``"numeric"``, ``"level"``, ``"boolean"`` or ``"missing"``.
    column : str or None
        Column that it is made of; None for the constant.
    center, scale : float
        A raw value x stands in the statistics as ``(x - center) / scale``.
    unit, level : str or None
    """

    name: str
    kind: str
    column: str | None = None
    center: float = 0.0
    scale: float = 1.0
    unit: str | None = None
    level: str | None = None

    @classmethod
    def read(cls, fields: Fields) -> "Term":
        """Read from an answer."""
        kind = fields.text("kind")
        if kind not in {"constant", "numeric", "level", "boolean", "missing"}:
            raise fields.fault("kind", "a known kind of term")
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
    members = asdict(column)
    unused = ("levels",) if column.type == "numeric" else ("lower", "upper")
    return {name: value for name, value in members.items() if name not in unused}


def term_json(term: Term) -> dict[str, Any]:
    """Write a term as the wire does."""
    return {name: value for name, value in asdict(term).items() if value is not None}


def write_words(words: Sequence[str]) -> Inline:
    """Write some words of a server in one line."""
    shown = [untrusted(word) for word in words[:LEVELS_MAX]]
    if len(words) > LEVELS_MAX:
        shown.append(quiet(f"and {len(words) - LEVELS_MAX:,} more"))
    return join(*shown, by=", ")
