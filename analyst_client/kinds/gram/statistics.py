"""Noisy sufficient statistics of a regression: what a release and its parts hold, as they are read from an answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from analyst_client.kinds.gram.coding import check_terms, name_features, read_coding
from analyst_client.kinds.gram.quote import Noise
from analyst_client.schema.columns import Column, Term
from analyst_client.schema.wire import Fields, as_float
from analyst_client.terms.expression import Expression

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class NoisyStatistics:
    """Statistics of D terms and T targets, in scaled units, with the deviations of their noise.

    Attributes
    ----------
    features : tuple of Column
        Columns that are features by themselves: not those that only a basis or an interaction is made of.
    inner_columns : tuple of Column
        Columns that only a basis or an interaction is made of, and targets that are computed.
    terms, targets : tuple of Term
        Rows of `xtx`, the constant first if there is one; columns of `xty`.
    expressions : mapping of str to Expression
        Features and targets as they are asked for, by name.
    xtx : ndarray of shape (D, D) or None
    xty : ndarray of shape (D, T) or None
    yty : ndarray of shape (T,) or None
    lambda_min : float or None
    noise : Noise
    """

    features: tuple[Column, ...]
    inner_columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    expressions: Mapping[str, Expression]
    xtx: FloatArray | None
    xty: FloatArray | None
    yty: FloatArray | None
    lambda_min: float | None
    noise: Noise

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns that terms are made of, and targets that are computed."""
        return (*self.features, *self.inner_columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features: of columns, bases and interactions."""
        return name_features(self.features, self.terms)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the D terms, the constant included."""
        return tuple(term.name for term in self.terms)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the T targets."""
        return tuple(term.name for term in self.targets)

    @property
    def has_constant(self) -> bool:
        """Whether the first term is the constant."""
        return self.terms[0].kind == "constant"


def read_statistics(body: Fields) -> dict[str, Any]:
    """Read the statistics of an answer, by the names of `NoisyStatistics`; raise `ServiceError` on a wrong one."""
    coding = read_coding(body)
    terms, targets = coding["terms"], coding["targets"]
    check_terms(body, (*coding["features"], *coding["inner_columns"]), terms, targets)
    statistics = body.object("statistics")
    d, t = len(terms), len(targets)
    triangle = read_values(statistics, "xtx", [d, d], d * (d + 1) // 2, packing="upper")
    xty = read_values(statistics, "xty", [d, t], d * t)
    lambda_min = read_values(statistics, "lambda_min", [], 1)
    return {
        **coding,
        "xtx": None if triangle is None else frozen(unpack_symmetric(triangle, d)),
        "xty": None if xty is None else frozen(xty.reshape(d, t)),
        "yty": read_values(statistics, "yty", [t], t),
        "lambda_min": None if lambda_min is None else float(lambda_min[0]),
        "noise": Noise.read(body.object("noise")),
    }


def read_values(statistics: Fields, name: str, shape: list[int], size: int, packing: str = "full") -> FloatArray | None:
    """Return the packed values of one statistic, read-only; None when it was not released."""
    if not statistics.has(name):
        return None
    entry = statistics.object(name)
    if entry.array("shape") != shape or entry.text("packing") != packing:
        raise entry.fault("shape", f"{shape} with packing {packing!r}")
    packed = entry.array("values")
    if len(packed) != size or any(isinstance(value, bool) or not isinstance(value, int | float) for value in packed):
        raise entry.fault("values", f"an array of {size} numbers")
    values = np.array([as_float(value) for value in packed], dtype=np.float64)
    if not np.isfinite(values).all():
        raise entry.fault("values", "finite")
    return frozen(values)


def unpack_symmetric(triangle: FloatArray, d: int) -> FloatArray:
    """Return the symmetric matrix of a row-wise upper triangle.

    Examples
    --------
    >>> unpack_symmetric(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    matrix = np.zeros((d, d))
    rows, columns = np.triu_indices(d)
    matrix[rows, columns] = triangle
    matrix[columns, rows] = triangle
    return matrix


def frozen(values: FloatArray) -> FloatArray:
    """Return the array, read-only from now on."""
    values.setflags(write=False)
    return values
