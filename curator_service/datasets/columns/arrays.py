"""Raw arrays of Arrow, word by word: numbers, blanks, instants, and which rows break a rule."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.kit.instants import MICROSECONDS, parse_instant

FloatArray = npt.NDArray[np.float64]
FlagArray = npt.NDArray[np.bool_]
_MICROSECONDS_OF = {"d": 86_400e6, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}


class WrongColumn(Exception):
    """A whole column breaks its declaration: the rule."""


class Wrong:
    """Rows that break a declaration within one column of a batch."""

    def __init__(self, count: int) -> None:
        self.rows: FlagArray = np.zeros(count, np.bool_)
        self.found: list[tuple[list[int] | None, str]] = []

    def add(self, rows: FlagArray | None, rule: str) -> None:
        """Note rows, or the whole column, unless they were noted for another rule; the rule never shows a value."""
        fresh = None if rows is None else np.flatnonzero(rows & ~self.rows).tolist()
        if fresh != []:
            self.rows |= True if rows is None else rows
            self.found.append((fresh, rule))


@dataclass(frozen=True, slots=True)
class Written:
    """How a source writes numbers and missing values.

    Attributes
    ----------
    decimal : str
        The decimal sign.
    missing : sequence of str
        Words that stand for a missing value, beside the empty one.
    missing_numbers : tuple of float
        Those of them that are numbers.
    """

    decimal: str
    missing: Sequence[str]
    missing_numbers: tuple[float, ...] = field(init=False)
    _words: pa.Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prepare what is asked for each batch."""
        read = (to_number(word, self.decimal) for word in self.missing)
        object.__setattr__(self, "missing_numbers", tuple(number for number in read if number is not None))
        object.__setattr__(self, "_words", pa.array(["", *self.missing], pa.string()))

    def blank(self, words: pa.Array) -> pa.Array:
        """Return words without spaces around them; empty ones where the value is missing."""
        words = pc.utf8_trim_whitespace(pc.fill_null(words, ""))
        return words if len(self._words) == 1 else pc.if_else(pc.is_in(words, self._words), "", words)


def parse_numbers(words: pa.Array, decimal: str) -> tuple[FloatArray, FlagArray]:
    """Return numbers, NaN for an empty word, and which words are none, NaN as well."""
    filled = pc.if_else(pc.equal(words, ""), "nan", words)
    wrong = np.zeros(len(words), np.bool_)
    if decimal != ".":
        wrong |= pc.match_substring(filled, ".").to_numpy(zero_copy_only=False)
        filled = pc.replace_substring(filled, decimal, ".")
    if wrong.any():
        filled = pc.if_else(pa.array(wrong), "nan", filled)
    try:
        return pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False), wrong
    except pa.ArrowInvalid:
        found = pc.dictionary_encode(filled)
        unread = np.array([to_number(word, ".") is None for word in found.dictionary.to_pylist()], np.bool_)
        wrong |= unread[found.indices.to_numpy(zero_copy_only=False)]
    return pc.cast(pc.if_else(pa.array(wrong), "nan", filled), pa.float64()).to_numpy(zero_copy_only=False), wrong


def to_number(word: str, decimal: str) -> float | None:
    """Return the number that a word writes, or None."""
    if decimal != ".":
        if "." in word:
            return None
        word = word.replace(decimal, ".")
    with suppress(pa.ArrowInvalid):
        return float(pc.cast(pa.array([word], pa.string()), pa.float64())[0].as_py())
    return None


def to_floats(array: pa.Array) -> FloatArray:
    """Return numbers as the same digits in a CSV file would be read; null is NaN."""
    kind = array.type
    if pa.types.is_decimal(kind):
        array = pc.cast(pc.cast(array, pa.string()), pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        array = pc.cast(array, pa.float64(), safe=False)
    else:
        raise WrongColumn(f"column holds {name_type(kind)}, and its declaration asks for numbers")
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def parse_instants(words: pa.Array, with_time: bool, wrong: Wrong) -> tuple[npt.NDArray[np.int64], FlagArray]:
    """Return microseconds since 1970 of dates or times that are words, and which are there."""
    found = pc.dictionary_encode(words)
    texts = found.dictionary.to_pylist()
    parsed = [0 if not text else parse_instant(text, with_time=with_time) for text in texts]
    places = found.indices.to_numpy(zero_copy_only=False)
    unread = np.array([instant is None for instant in parsed], np.bool_)
    if unread.any():
        example = "2020-01-31T23:59:00" if with_time else "2020-01-31"
        wrong.add(unread[places], f"value is not a {'time' if with_time else 'date'} like {example}")
    instants = np.array([instant or 0 for instant in parsed], np.int64)
    return instants[places], np.array([bool(text) for text in texts], np.bool_)[places]


def to_instants(array: pa.Array, with_time: bool, wrong: Wrong) -> tuple[npt.NDArray[np.int64], FlagArray]:
    """Return microseconds since 1970 of dates or timestamps, and which are there."""
    kind = array.type
    if not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
        raise WrongColumn(f"column holds {name_type(kind)}, and its declaration asks for dates or times")
    present = pc.is_valid(array).to_numpy(zero_copy_only=False)
    counted = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    counts = pc.fill_null(pc.cast(array, counted), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    unit = "d" if pa.types.is_date32(kind) else "ms" if pa.types.is_date(kind) else kind.unit
    far = np.abs(counts.astype(np.float64)) * _MICROSECONDS_OF[unit] > 2**58  # 7,000 years before and after 1970
    wrong.add(far, "value is no instant of the years 1 to 9999")
    # Digits finer than microseconds are left out, as of words.
    near = np.where(far, 0, counts)
    instants = near // 1000 if unit == "ns" else near * int(_MICROSECONDS_OF[unit])
    if not with_time:
        apart = instants % MICROSECONDS["days"] != 0
        wrong.add(apart, "value has a time of the day, and its declaration asks for a date")
    return instants, present


def name_type(kind: pa.DataType) -> str:
    """Return a short name of a type; that of a nested one may be long."""
    return "nested values" if pa.types.is_nested(kind) else str(kind)[:40]
