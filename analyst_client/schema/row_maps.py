"""Row maps: what a release's rows were made of, as far as a fit, a plan or an export must know it.

A map from outside is a subclass, with an instance in `ROW_MAPS`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import number


class RowMap:
    """A row map. As it stands here it leaves rows as they are.

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
    """

    name: str
    by_terms: bool = True
    divides_terms: bool = False
    divides_targets: bool = False
    is_planned: bool = True

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
        return False

    def clause(self, rows: Mapping[str, Any]) -> str | None:
        """Return what became of rows, where it shrinks or divides them; None where nothing did."""
        del rows
        return None

    def weigh(self, X: FloatArray, rows: Mapping[str, Any]) -> FloatArray:
        """Return the weight of each row of scaled terms, of shape (n,)."""
        del rows
        return np.ones(len(X))

    @property
    def division(self) -> str:
        """Why sums are no moments, where terms are divided."""
        return f"rows mapped by {self.name!r} were divided by their norm"

    def keeps_scale(self, *, has_constant: bool) -> bool:
        """Tell whether the model is linear in scaled terms over their norm: then coefficients stay those of these."""
        return self.divides_terms and (has_constant or not self.divides_targets)


class _Box(RowMap):
    """Rows as they are."""

    name = "box"
    by_terms = False


class _Ball(RowMap):
    """Rows longer than a norm are shrunk to it, targets alike."""

    name = "ball"

    def norm(self, rows: Mapping[str, Any]) -> float | None:
        """Return the stated norm."""
        norm = rows.get("norm")
        return float(norm) if isinstance(norm, int | float) else None

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell whether a row may be longer than the norm."""
        norm = self.norm(rows)
        return norm is None or norm**2 < longest_squared

    def clause(self, rows: Mapping[str, Any]) -> str | None:
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

    def clause(self, rows: Mapping[str, Any]) -> str | None:
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
    is_planned = False

    def shrinks(self, rows: Mapping[str, Any], longest_squared: float) -> bool:
        """Tell that it may: how long combinations are follows from their weights."""
        del rows, longest_squared
        return True

    def clause(self, rows: Mapping[str, Any]) -> str | None:
        """Say so."""
        del rows
        return "rows whose combinations are longer than 1 count for less"


class UnknownRowMap(RowMap):
    """A map that this client does not know: its releases are read and verified, and nothing is fitted to them."""

    divides_terms = True
    divides_targets = True
    is_planned = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def division(self) -> str:
        """What this client cannot tell."""
        return f"rows were mapped by {self.name!r}, which this client does not know"

    def clause(self, rows: Mapping[str, Any]) -> str | None:
        """Say so."""
        del rows
        return self.division


ROW_MAPS: dict[str, RowMap] = {row_map.name: row_map for row_map in (_Box(), _Ball(), _Unit(), _UnitXY(), _Linear())}
"""Every row map that this client knows, by its name."""


def row_map_named(name: str | None) -> RowMap:
    """Return a row map by its name; the box where rows were not mapped."""
    return ROW_MAPS["box"] if name is None else ROW_MAPS.get(name) or UnknownRowMap(name)
