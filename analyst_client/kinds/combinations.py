"""Weights of terms as they are posted: whole numbers over a power of two, by the names of terms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.arrays import frozen
from analyst_client.schema.wire import Fields

BITS_MAX = 30
WEIGHTS_MAX = 2**35
"""Most that the sizes of one combination's numbers may add up to."""


@dataclass(frozen=True)
class Combinations:
    """k combinations of terms: numbers over 2^bits, in the fewest bits that hold them, without terms of zeros alone.

    Equal weights are equal values of this class, in whatever bits and order they were stated.

    `numbers` has k of them by the name of a term.
    """

    numbers: dict[str, tuple[int, ...]]
    bits: int

    @classmethod
    def canonical(cls, numbers: Mapping[str, Sequence[int]], bits: int) -> "Combinations":
        """Return numbers in the fewest bits that hold them.

        Examples
        --------
        >>> Combinations.canonical({"age": [4, 6], "sex[M]": [0, 0]}, 3)
        Combinations(numbers={'age': (2, 3)}, bits=2)
        """
        kept = {name: tuple(map(int, row)) for name, row in numbers.items() if any(row)}
        while bits and not any(number % 2 for row in kept.values() for number in row):
            kept, bits = {name: tuple(number // 2 for number in row) for name, row in kept.items()}, bits - 1
        return cls(kept, bits)

    @classmethod
    def nearest(
        cls, weights: Mapping[str, Sequence[float]], what: str, *, norm: float = 1.0, bits: int = BITS_MAX
    ) -> "Combinations":
        """Round weights, divided by a norm, to as many bits as can be posted, from 0 to 30.

        Each term has as many; one that is left out has zeros. Raise `ValueError`, which names `what` they are, when
        there are none, or not as many for each term, or one is not finite, too large or too small to be posted.

        Examples
        --------
        >>> Combinations.nearest({"age": [0.5, 3.0], "sex[M]": [0.0, -1.0]}, "matrix", norm=2.0)
        Combinations(numbers={'age': (1, 6), 'sex[M]': (0, -2)}, bits=2)
        """
        if not math.isfinite(norm) or norm <= 0.0:
            raise ValueError(f"norm must be finite and positive, not {norm!r}")
        if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= BITS_MAX:
            raise ValueError(f"bits must be a whole number from 0 to {BITS_MAX}, not {bits!r}")
        with np.errstate(over="ignore"):
            scaled = _as_matrix(weights, what) / norm
        if not np.isfinite(scaled).all():
            raise ValueError(f"{what} must be finite numbers, and so must they be over the norm")
        bits = _most_bits(scaled, what, bits)
        numbers = np.rint(np.ldexp(scaled, bits))
        if empty := [k for k, column in enumerate(numbers.T, 1) if not column.any()]:
            raise ValueError(
                f"{what} of combination {empty[0]} are all 0, or smaller than 2^-{bits + 1}: they are posted as whole "
                f"numbers over 2^{bits}"
            )
        return cls.canonical(dict(zip(weights, numbers.astype(np.int64).tolist(), strict=True)), bits)

    @property
    def count(self) -> int:
        """The number k of combinations."""
        return len(next(iter(self.numbers.values())))

    @property
    def values(self) -> dict[str, FloatArray]:
        """The weights themselves, of shape (k,), by the name of a term: float64 holds them exactly."""
        return {
            name: frozen(np.ldexp(np.array(row, dtype=np.float64), -self.bits)) for name, row in self.numbers.items()
        }

    def matrix(self, names: Sequence[str], count: int) -> FloatArray:
        """Return the weights of terms of these names, read-only, of shape (D, k)."""
        values, zeros = self.values, np.zeros(count)
        return frozen(np.array([values.get(name, zeros) for name in names]).reshape(len(names), count))

    @property
    def members(self) -> dict[str, Any]:
        """Members ``bits`` and ``matrix`` of the wire."""
        return {"bits": self.bits, "matrix": {name: list(row) for name, row in self.numbers.items()}}


def _as_matrix(weights: Mapping[str, Sequence[float]], what: str) -> FloatArray:
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(f"{what} are given by the names of terms, such as {{'age': [0.5, 2.0]}}")
    rows = [np.asarray(row, dtype=np.float64) for row in weights.values()]
    for name, row in zip(weights, rows, strict=True):
        if row.ndim != 1 or not len(row):
            raise ValueError(f"{what} of {name!r} are a list, with a number for each combination")
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{what} of {name!r} are {len(row)} numbers, where those of the first term are {len(rows[0])}"
            )
    return np.array(rows)


def _most_bits(scaled: FloatArray, what: str, most: int) -> int:
    """Return the most bits with which no combination's rounded numbers add up to more than `WEIGHTS_MAX`."""
    for bits in range(most, -1, -1):
        with np.errstate(over="ignore"):
            if np.abs(np.rint(np.ldexp(scaled, bits))).sum(axis=0).max() <= WEIGHTS_MAX:
                return bits
    raise ValueError(
        f"the {what} of a combination add up to more than 2^35 in size: divide them, or take a norm that does"
    )


def read_combinations(fields: Fields, names: Sequence[str], count: int | None = None) -> Combinations:
    """Read ``bits`` and ``matrix`` of k combinations of terms of these names; raise `ServiceError` on wrong ones.

    `count` is k, where something else of the answer says it.
    """
    rows = fields.object("matrix").members
    lengths = {len(row) if isinstance(row, list) else 0 for row in rows.values()} | ({count} if count else set())
    numbers = [number for row in rows.values() if isinstance(row, list) for number in row]
    if not rows or len(lengths) != 1 or 0 in lengths or not set(rows) <= set(names) or not _are_whole(numbers):
        raise fields.fault("matrix", "lists of whole numbers, of one length, for terms that are listed")
    if not all(map(any, zip(*rows.values(), strict=True))):
        raise fields.fault("matrix", "free of combinations of nothing")
    return Combinations.canonical(rows, read_bits(fields))


def read_bits(fields: Fields) -> int:
    """Read how many binary digits numbers have behind the point."""
    bits = fields.integer("bits")
    if not 0 <= bits <= BITS_MAX:
        raise fields.fault("bits", f"from 0 to {BITS_MAX}")
    return bits


def _are_whole(numbers: Sequence[Any]) -> bool:
    return all(isinstance(one, int) and not isinstance(one, bool) and abs(one) <= WEIGHTS_MAX for one in numbers)
