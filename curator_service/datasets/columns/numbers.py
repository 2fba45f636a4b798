"""Columns of numbers: public bounds in a unit; dates and times are numbers since an origin."""

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from curator_service.datasets.columns.arrays import (
    FloatArray,
    Written,
    Wrong,
    parse_instants,
    parse_numbers,
    to_floats,
    to_instants,
)
from curator_service.datasets.columns.base import UNFILLED, ColumnDeclaration, Read
from curator_service.datasets.columns.texts import Instant, is_unset, to_iso
from curator_service.datasets.sketch import code_numbers
from curator_service.kit.instants import MICROSECONDS, count_units, parse_instant
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import StoredArray, center_and_scale, to_stored

UNITS = ("days", "hours", "seconds")
"""In which dates and times may be counted."""


class OfNumbers(ColumnDeclaration):
    """A column whose values are numbers within public bounds."""

    croissant = "sc:Float"
    xsd = "double"
    lower: float | None = None
    upper: float | None = None

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if empty := [name for name in ("lower", "upper") if getattr(self, name) is None]:
            raise PydanticCustomError(UNFILLED, "needs {members}", {"members": " and ".join(empty)})
        center_and_scale(*self.bounds)
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """The public bounds."""
        assert self.lower is not None
        assert self.upper is not None
        return self.lower, self.upper

    @property
    def measured_in(self) -> str | None:
        """The unit of its numbers."""
        return self.unit

    @property
    def column(self) -> Column:
        """Numbers between the bounds."""
        return Column(self.name, ColumnType.NUMERIC, self.missing, *self.bounds, unit=self.measured_in)

    @property
    def public_range(self) -> str:
        """The bounds, with the unit."""
        unit = f" {self.measured_in}" if self.measured_in else ""
        lower, upper = self.bounds
        return f"From {lower:g} to {upper:g}{unit}; values beyond count as the bound"

    def read(self, array: pa.Array, written: Written, wrong: Wrong) -> Read:
        """Read numbers, and put them on the lattice."""
        numbers = self.read_numbers(array, written, wrong)
        return Read(to_stored(numbers, *self.bounds), code_numbers(numbers), numbers)

    @abstractmethod
    def read_numbers(self, array: pa.Array, written: Written, wrong: Wrong) -> FloatArray:
        """Read numbers, NaN where one is missing or wrong."""


class Numeric(OfNumbers):
    """Numbers, or dates or times by their `format`, counted since `origin` in a unit."""

    raw_types: ClassVar = {
        "integer": pa.types.is_integer,
        "floating": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
    }
    type: Literal["numeric"] = "numeric"
    whole: bool = Field(False, strict=True, exclude_if=lambda whole: not whole)
    format: Literal["date", "datetime"] | None = Field(None, exclude_if=is_unset)
    origin: Instant | None = Field(None, exclude_if=is_unset)

    @model_validator(mode="before")
    @classmethod
    def _read_instants_of_bounds(cls, data: Any) -> Any:
        """Turn bounds that are written as dates into numbers since the origin."""
        if not isinstance(data, dict) or data.get("format") not in ("date", "datetime"):
            return data
        form, unit, bounds = data["format"], data.get("unit", "days"), {}
        origin = to_iso(data.get("origin"))
        if unit not in UNITS or not isinstance(origin, str) or parse_instant(origin) is None:
            raise ValueError(
                f"a {form} needs origin, a date such as 1970-01-01, and unit, one of {', '.join(UNITS)}: it is read as "
                "a number since then"
            )
        for name in ("lower", "upper"):
            value = to_iso(data.get(name))
            if isinstance(value, str):
                instant = parse_instant(value)
                if instant is None:
                    raise ValueError(f"{name} is neither a number nor a date such as 2020-01-31")
                bounds[name] = count_units(instant, origin, unit)
        return data | bounds | {"unit": unit}

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.whole and (self.format or any(bound % 1.0 for bound in self.bounds)):
            raise ValueError("whole is of a numeric column that is no date, with bounds that are whole numbers")
        if self.origin and not self.format:
            raise ValueError("origin goes with format: what counts from there, a date or a datetime?")
        return self

    @property
    def measured_in(self) -> str | None:
        """The unit, and the origin of a date."""
        return self.unit if self.format is None else f"{self.unit} since {self.origin}"

    @property
    def is_plain_number(self) -> bool:
        """Whether a word is a number: not a date."""
        return self.format is None

    @property
    def is_whole(self) -> bool:
        """Whether they are declared whole."""
        return self.whole

    def read_numbers(self, array: pa.Array, written: Written, wrong: Wrong) -> FloatArray:
        """Read numbers, or dates and times as numbers."""
        read = self._read_instants if self.format else self._read_numbers
        numbers = read(array, written, wrong)
        if self.whole:
            broken = (numbers % 1.0 != 0.0) & ~np.isnan(numbers)
            wrong.add(broken, "value is not a whole number, and the manifest declares it whole")
            numbers = np.where(broken, np.nan, numbers)
        return numbers

    def _read_numbers(self, array: pa.Array, written: Written, wrong: Wrong) -> FloatArray:
        if pa.types.is_string(array.type):
            numbers, unread = parse_numbers(written.blank(array), written.decimal)
            wrong.add(unread, "value is not a number")
        else:
            numbers = to_floats(array)
        if np.isinf(numbers).any():
            wrong.add(np.isinf(numbers), "value is not a number, but an infinity")
            numbers = np.where(np.isinf(numbers), np.nan, numbers)
        for missing in written.missing_numbers:
            numbers = np.where(numbers == missing, np.nan, numbers)
        return numbers

    def _read_instants(self, array: pa.Array, written: Written, wrong: Wrong) -> FloatArray:
        origin = parse_instant(self.origin or "")
        assert origin is not None
        if pa.types.is_string(array.type):
            instants, present = parse_instants(written.blank(array), self.format == "datetime", wrong)
        else:
            instants, present = to_instants(array, self.format == "datetime", wrong)
        numbers: FloatArray = (instants - origin) / MICROSECONDS[self.unit or "days"]
        numbers[~present | wrong.rows] = np.nan
        return numbers

    def store(self, values: pa.Array) -> StoredArray:
        """Cut numbers to the lattice: infinities to a bound."""
        numbers = pc.fill_null(pc.cast(values, pa.float64(), safe=False), float("nan"))
        return to_stored(numbers.to_numpy(zero_copy_only=False), *self.bounds)
