"""Arrays of an answer: packed numbers, read and checked."""

import math
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.schema.wire import Fields, as_float

Number = TypeVar("Number", np.float64, np.int64)


def read_values(statistics: Fields, name: str, shape: list[int], size: int, packing: str = "full") -> FloatArray | None:
    """Return the packed values of one statistic, read-only; None when it was not released."""
    return read_packed(statistics.object(name), shape, size, packing) if statistics.has(name) else None


def read_packed(entry: Fields, shape: list[int], size: int, packing: str = "full") -> FloatArray:
    """Return the packed values of a statistic, read-only."""
    if entry.array("shape") != shape or entry.text("packing") != packing:
        raise entry.fault("shape", f"{shape} with packing {packing!r}")
    values = np.array([as_float(value) for value in read_numbers(entry, "values", size)], dtype=np.float64)
    if not np.isfinite(values).all():
        raise entry.fault("values", "finite")
    return frozen(values)


def read_numbers(entry: Fields, name: str, size: int) -> list[Any]:
    """Return an array of so many numbers, as they are on the wire."""
    listed = entry.array(name)
    if len(listed) != size or any(isinstance(value, bool) or not isinstance(value, int | float) for value in listed):
        raise entry.fault(name, f"an array of {size} numbers")
    return listed


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


def frozen(values: NDArray[Number]) -> NDArray[Number]:
    """Return the array, read-only from now on."""
    values.setflags(write=False)
    return values


def _read_statistic(body: Fields, name: str) -> FloatArray:
    entry = body.object("statistics").object(name)
    shape = entry.array("shape")
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise entry.fault("shape", "made of lengths")
    return read_packed(entry, shape, math.prod(shape)).reshape(shape)


Statistic = Annotated[FloatArray, _read_statistic]
"""A member of a release: the statistic of its name, in the shape that the answer states."""
