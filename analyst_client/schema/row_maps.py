"""Row maps: what a release's rows were made of, as far as a fit, a plan or an export must know it.

A map from outside is a subclass, with an instance in `ROW_MAPS`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import number
from analyst_client.schema.wire import as_float

NAME_MAX = 100
"""Characters of a row map's name; a longer one is shown as its beginning."""


class RowMap:
    """A row map. As it stands here a row may count for less, by a weight that is not known.

    Attributes
    ----------
    name : str
        As requests and releases state it.
    by_terms : bool
        Whether what becomes of a row follows from its terms: then it is another for other features.
    divides_terms : bool
        Whether the terms beside the constant are over their norm: sums of them are no moments of columns.
    divides_targets : bool
        Whether targets are over that norm too: then the constant stands for the norm.
    is_planned : bool
        Whether `weigh` is right, so that accuracy can be expected before a release.
    has_weight : bool
        Whether the weight of a row can be written as an expression of its terms and the stated norm, as the ball's and
        the box's: robust standard errors need it.
    """

    name: str
    by_terms: bool = True
    divides_terms: bool = False
    divides_targets: bool = False
    is_planned: bool = False
    has_weight: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a row keeps its terms, up to a weight that is known."""
        return self.is_planned and not self.divides_terms

    def norm(self, rows: Mapping[str, Any]) -> float | None:
        """Return the norm that longer rows are shrunk to, in scaled units; None where none is stated."""
        del rows
        return None

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell whether a row may count for less than another, where the longest possible one has that norm."""
        del rows, longest_squared
        return True

    def clause(self, rows: Mapping[str, Any]) -> str:
        """Return what became of rows, where it shrinks or divides them."""
        del rows
        return f"rows count by a weight of the row map {_shown(self.name)}"

    def weigh(self, X: FloatArray, rows: Mapping[str, Any]) -> FloatArray:
        """Return the weight of each row of scaled terms, of shape (n,)."""
        del rows
        return np.ones(len(X))

    @property
    def division(self) -> str:
        """Why sums are no moments, where terms are divided."""
        return f"rows mapped by {_shown(self.name)} were divided by their norm"

    def keeps_scale(self, *, has_constant: bool) -> bool:
        """Tell whether the model is linear in scaled terms over their norm: then coefficients stay those of these."""
        return self.divides_terms and (has_constant or not self.divides_targets)


class _Box(RowMap):
    """Rows as they are."""

    name = "box"
    by_terms = False
    is_planned = True
    has_weight = True

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell that no row does."""
        del rows, longest_squared
        return False


class _Ball(RowMap):
    """Rows longer than a norm are shrunk to it, targets alike."""

    name = "ball"
    is_planned = True
    has_weight = True

    def norm(self, rows: Mapping[str, Any]) -> float | None:
        """Return the stated norm."""
        norm = rows.get("norm")
        return as_float(norm) if isinstance(norm, int | float) and norm > 0 else None

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell whether a row may be longer than the norm."""
        norm = self.norm(rows)
        return norm is None or norm * norm < longest_squared

    def clause(self, rows: Mapping[str, Any]) -> str:
        """Name the norm."""
        norm = self.norm(rows)
        if norm is None:
            return "long rows count for less"
        return f"rows longer than {number(norm)} in scaled units, the constant included, count for less"

    def weigh(self, X: FloatArray, rows: Mapping[str, Any]) -> FloatArray:
        r"""Return :math:`\min(1, R/\lVert x\rVert)`."""
        norm, length = self.norm(rows), np.linalg.norm(X, axis=1)
        if norm is None:
            return np.ones(len(X))
        weights: FloatArray = np.minimum(1.0, norm / np.maximum(length, norm))
        return weights


class _Unit(RowMap):
    """Terms beside the constant over their norm."""

    name = "unit"
    divides_terms = True
    is_planned = True

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell that none does: each has the norm 1."""
        del rows, longest_squared
        return False

    def clause(self, rows: Mapping[str, Any]) -> str:
        """Say so."""
        del rows
        return "rows are divided by their norm"


class _UnitXY(_Unit):
    """Terms beside the constant, and targets, over the norm of these terms."""

    name = "unit_xy"
    divides_targets = True
    is_planned = False  # the weight reaches into the target


class _Linear(RowMap):
    """Combinations of terms, shrunk to a norm of 1."""

    name = "linear"

    def clause(self, rows: Mapping[str, Any]) -> str:
        """Say so."""
        del rows
        return "rows whose combinations are longer than 1 count for less"


class UnknownRowMap(RowMap):
    """A map that this client does not know: its releases are read and verified, and nothing is fitted to them."""

    divides_terms = True
    divides_targets = True

    def __init__(self, name: object) -> None:
        self.name = _shown(name)

    @property
    def division(self) -> str:
        """What this client cannot tell."""
        return f"rows were mapped by {self.name}, which this client does not know"

    def clause(self, rows: Mapping[str, Any]) -> str:
        """Say so."""
        del rows
        return self.division


ROW_MAPS: dict[str, RowMap] = {row_map.name: row_map for row_map in (_Box(), _Ball(), _Unit(), _UnitXY(), _Linear())}
"""Every row map that this client knows, by its name."""


def row_map_named(name: object) -> RowMap:
    """Return a row map by its name; the box where rows were not mapped. Whatever a server states has one."""
    if name is None:
        return ROW_MAPS["box"]
    return (ROW_MAPS.get(name) if isinstance(name, str) else None) or UnknownRowMap(name)


def _shown(name: object) -> str:
    text = repr(name)
    return text if len(text) <= NAME_MAX else f"{text[:NAME_MAX]}…"
