"""Columns of levels: a category with its declared levels, and a boolean with two, the false one first."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from curator_service.datasets.columns.arrays import (
    FloatArray,
    Written,
    Wrong,
    WrongColumn,
    name_type,
    to_floats,
    to_number,
)
from curator_service.datasets.columns.base import UNFILLED, ColumnDeclaration, Read
from curator_service.datasets.columns.texts import AnyLevel, Level, is_unset
from curator_service.datasets.sketch import code_levels
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, StoredArray

LEVELS_MAX = 1000
UNKNOWN = -1
"""The code of a word that is no level."""
_PLAIN = ("false", "true")
_TRUTHS = dict.fromkeys(("false", "0", "f", "no", "n", "0.0"), 0)
_TRUTHS |= dict.fromkeys(("true", "1", "t", "yes", "y", "1.0"), 1)


class OfLevels(ColumnDeclaration):
    """A column whose values are declared levels, stored as their codes."""

    croissant = "sc:Text"
    xsd = "string"

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if any(label != label.strip() for label in self.labels):
            raise ValueError("a level must not begin or end with a space: values are read without")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("levels must differ from each other")
        if self.missing is MissingRule.INDICATOR and "missing" in self.labels:
            raise ValueError("a level called 'missing' would be confused with the indicator of a missing value")
        return self

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The levels in order, as people read them: two at least."""

    @property
    def column(self) -> Column:
        """A category."""
        return Column(self.name, ColumnType.CATEGORICAL, self.missing, levels=self.labels, unit=self.unit)

    @property
    def public_range(self) -> str:
        """The levels."""
        return f"One of: {', '.join(self.labels)}"

    @property
    def numbers(self) -> Mapping[float, int]:
        """The codes of levels that are numbers."""
        return {}

    def read(self, array: pa.Array, written: Written, wrong: Wrong) -> Read:
        """Read words, numbers or booleans as codes."""
        codes = self._settle(self._read_codes(array, written), wrong)
        return Read(codes, code_levels(self.labels, codes), None)

    def match(self, word: str, written: Written) -> int:
        """Return the code of a word that is not empty: `MISSING`, or `UNKNOWN` where it is no level."""
        if (code := self._codes.get(word)) is not None:
            return code
        number = to_number(word, written.decimal) if self.numbers else None
        if number is None:
            return UNKNOWN
        return MISSING if np.isnan(number) or number in written.missing_numbers else self.numbers.get(number, UNKNOWN)

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def _read_codes(self, array: pa.Array, written: Written) -> StoredArray:
        if pa.types.is_boolean(array.type):
            return self._match_truths(array)
        if not pa.types.is_string(array.type):
            if not self.numbers:
                raise WrongColumn(_told_of_texts(array.type))
            return self._match_numbers(to_floats(array), written)
        found = pc.dictionary_encode(written.blank(array))
        by_word = [self.match(word, written) if word else MISSING for word in found.dictionary.to_pylist()]
        codes = np.array(by_word or [MISSING], dtype=np.int32)
        return np.asarray(codes[found.indices.to_numpy(zero_copy_only=False)], np.int32)

    def _match_truths(self, array: pa.Array) -> StoredArray:
        raise WrongColumn("column holds booleans, and its declaration is a category")

    def _match_numbers(self, floats: FloatArray, written: Written) -> StoredArray:
        coded = np.full(len(floats), UNKNOWN, dtype=np.int32)
        for number, code in self.numbers.items():
            coded[floats == number] = code
        for missing in written.missing_numbers:
            coded[floats == missing] = MISSING
        coded[np.isnan(floats)] = MISSING
        return coded

    def _settle(self, coded: StoredArray, wrong: Wrong) -> StoredArray:
        """Say which values are no level, and store them as missing."""
        unknown = coded == UNKNOWN
        if unknown.any():
            wrong.add(unknown, f"value is not one of the declared levels {', '.join(self.labels)}")
        return np.where(unknown, np.int32(MISSING), coded)


class _Declared(OfLevels):
    """Levels that the manifest lists."""

    levels: tuple[AnyLevel, ...] = Field((), max_length=LEVELS_MAX)

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels as texts."""
        return tuple(map(_label, self.levels))

    @cached_property
    def numbers(self) -> Mapping[float, int]:
        """The codes of levels that are declared as numbers."""
        return {float(level): code for code, level in enumerate(self.levels) if not isinstance(level, str)}


class Categorical(_Declared):
    """A category; `other` is the level of every word that is none."""

    raw_types: ClassVar = {"string": pa.types.is_string}
    type: Literal["categorical"] = "categorical"
    other: Level | None = Field(None, exclude_if=is_unset)

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if not self.levels:
            raise PydanticCustomError(UNFILLED, "needs {members}", {"members": "levels"})
        if len(self.levels) < 2:
            raise ValueError("a categorical column needs at least two declared levels")
        if self.other is not None and self.other not in self.labels:
            raise ValueError("other names one of the levels of a category: it takes every word that is no level")
        return self

    @property
    def takes_any_word(self) -> bool:
        """Whether there is a level for other words."""
        return self.other is not None

    def _settle(self, coded: StoredArray, wrong: Wrong) -> StoredArray:
        if self.other is None:
            return super()._settle(coded, wrong)
        return np.where(coded == UNKNOWN, np.int32(self._codes[self.other]), coded)

    def store(self, values: pa.Array) -> StoredArray:
        """Code words; words that are no level are no level of the lattice either."""
        return _code_words(pc.utf8_trim_whitespace(values), self._codes)


class Boolean(_Declared):
    """A truth: by the common words for false and true, or by two levels, the false one first."""

    raw_types: ClassVar = {"boolean": pa.types.is_boolean, "string": pa.types.is_string}
    croissant = "sc:Boolean"
    xsd = "boolean"
    type: Literal["boolean"] = "boolean"

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if len(self.levels) not in {0, 2}:
            raise ValueError("a boolean column declares no levels, or two: the false one first")
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """The declared levels, or the plain ones."""
        return super().labels or _PLAIN

    @cached_property
    def numbers(self) -> Mapping[float, int]:
        """The codes of 0 and 1, or of declared numbers."""
        return super().numbers if self.levels else {0.0: 0, 1.0: 1}

    @property
    def column(self) -> Column:
        """A truth."""
        return Column(self.name, ColumnType.BOOLEAN, self.missing, levels=self.labels, unit=self.unit)

    def match(self, word: str, written: Written) -> int:
        """Return 0 for a false word and 1 for a true one."""
        if self.levels:
            return super().match(word, written)
        lowered = str(pc.utf8_lower(pa.scalar(word, pa.string())).as_py())
        if written.decimal == "," and lowered in {"0,0", "1,0"}:
            lowered = lowered.replace(",", ".")
        return _TRUTHS.get(lowered, UNKNOWN)

    def _match_truths(self, array: pa.Array) -> StoredArray:
        coded: StoredArray = pc.fill_null(pc.cast(array, pa.int32()), MISSING).to_numpy(zero_copy_only=False)
        return coded

    def store(self, values: pa.Array) -> StoredArray:
        """Code booleans and words."""
        if pa.types.is_boolean(values.type):
            values = pc.if_else(values, self.labels[1], self.labels[0])
        words, codes = pc.utf8_trim_whitespace(values), self._codes
        if self.labels == _PLAIN:
            words, codes = pc.utf8_lower(words), {**codes, "0": 0, "1": 1}
        return _code_words(words, codes)


def _code_words(words: pa.Array, codes: Mapping[str, int]) -> StoredArray:
    return np.array([codes.get(word, UNKNOWN) if word else MISSING for word in words.to_pylist()], dtype=np.int32)


def _told_of_texts(found: pa.DataType) -> str:
    if pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found):
        return "column holds numbers, and its declared levels are texts: write the levels as numbers"
    return f"column holds {name_type(found)}, and its declared levels are texts"


def _label(level: str | float) -> str:
    if isinstance(level, str):
        return level
    return str(int(level)) if level == int(level) else repr(level)
