"""A fit on paper: a summary as text and as HTML, and how its numbers are written."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.html import as_html
from analyst_client.display.model import Note, View, code, facts, table
from analyst_client.display.terminal import as_text
from analyst_client.errors import EstimationError
from analyst_client.inference.multiplicity import holm
from analyst_client.inference.score import ConfidenceSet

HOLM_NOTE = "'p Holm' allows for all slopes of this fit, so that the smallest may be picked."
FAMILY_NOTE = f"{HOLM_NOTE} Intervals hold one by one; those of conf_int(simultaneous=True) hold all together."


CALL = "the same as"
"""Name of the fact that is a call, to be typed again."""


@dataclass(frozen=True)
class Summary(Displayable):
    """A table of coefficients with the quality of the fit and warnings.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        A name and a value.
    heads : tuple of str
    rows : tuple of tuple of str
        One for each parameter.
    notes : tuple of str
        Warnings and explanations.
    caption : str
        What the rows are.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    caption: str = "Coefficients"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the member that has what statsmodels calls so."""
            hint = ": see to_latex(), and that of the fit for a paper" if name == "as_latex" else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def _view(self) -> View:
        numeric = range(1, len(self.heads))
        return (
            facts(self.title, [(name, code(value) if name == CALL else value) for name, value in self.facts]),
            table(self.caption, self.heads, self.rows, numeric=numeric),
            *map(Note, self.notes),
        )

    def as_text(self) -> str:
        """Return plain text."""
        return as_text(self._view())

    def as_html(self) -> str:
        """Return a piece of HTML: two tables and notes."""
        return as_html(self._view())

    __repr__ = Displayable.__str__


def percent_of(level: float) -> str:
    """Return the coverage of intervals as a percentage.

    Examples
    --------
    >>> percent_of(0.95), percent_of(0.999)
    ('95%', '99.9%')
    """
    return f"{100.0 * level:.6g}%"


def load_pandas() -> Any:
    """Return pandas. Raise `EstimationError` where it is not installed."""
    try:
        import pandas  # noqa: PLC0415 -- not in the base install
    except ImportError:
        raise EstimationError("data frames need pandas: pip install pandas") from None
    return pandas


def bounds(found: ConfidenceSet) -> tuple[str, str]:
    """Return the two ends of a confidence set as text."""
    if found.kind == "line":
        return "−∞", "∞"
    if found.kind == "rays":
        return f"≤ {number(found.lower)}", f"or ≥ {number(found.upper)}"
    return number(found.lower), number(found.upper)


def number(value: float) -> str:
    """Return a number with four significant digits.

    Examples
    --------
    >>> number(0.123456), number(-1234567.0), number(float("inf"))
    ('0.1235', '−1.235e+06', '∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−", 1)


def numbers(values: Iterable[float]) -> list[str]:
    """Return each number as text."""
    return [number(value) for value in values]


def p_columns(pvalues: FloatArray, first: int) -> dict[str, list[str]]:
    """Return p-values as text, and Holm's where there are several slopes: the constant, `first`, is in no family.

    Examples
    --------
    >>> import numpy as np
    >>> p_columns(np.array([0.5, 0.01, 0.2]), 1)
    {'p': ['0.500', '0.010', '0.200'], 'p Holm': ['–', '0.020', '0.200']}
    """
    columns = {"p": [p_text(p) for p in pvalues.tolist()]}
    if len(pvalues) > 1 + first:
        columns["p Holm"] = ["–"] * first + [p_text(p) for p in holm(pvalues[first:]).tolist()]
    return columns


def p_text(value: float, *, relation: bool = False) -> str:
    """Return a p-value, with its relation in a sentence.

    Examples
    --------
    >>> p_text(0.04321), p_text(1e-9), p_text(math.nan), p_text(0.04321, relation=True)
    ('0.043', '< 0.001', '–', '= 0.043')
    """
    if math.isnan(value):
        return "–"
    if value < 0.001:
        return "< 0.001"
    return f"{'= ' if relation else ''}{value:.3f}"
