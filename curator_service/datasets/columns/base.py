"""The declaration of a column: what every type has, and what a type says of itself.

A type from outside is one class: it is imported before a manifest of it is read. To the mathematics, to clients and
to pages its values are one of three things: numbers in public bounds, levels, or truths (`privacy.design.ColumnType`).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, SerializeAsAny, ValidationError
from pydantic_core import PydanticCustomError

from curator_service.datasets.columns.arrays import FlagArray, FloatArray, Written, Wrong
from curator_service.datasets.columns.texts import Header, Name, Text, Words, is_unset
from curator_service.datasets.sketch import Values
from curator_service.privacy.design import Column, MissingRule
from curator_service.privacy.lattice import StoredArray

UNFILLED = "bounds_to_fill_in"
"""Type of the error of a member that a draft leaves to a person."""


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One column of a batch.

    Attributes
    ----------
    stored : ndarray of int32, shape (n,)
        Stored integers; missing where a value breaks the declaration.
    values : Values
        What a sketch sees.
    numbers : ndarray of float64, shape (n,), or None
        Numbers before the lattice, NaN where missing; None of levels.
    missing : ndarray of bool, shape (n,)
        True where there is no value; not where one breaks the declaration.
    """

    stored: StoredArray
    values: Values
    numbers: FloatArray | None
    missing: FlagArray


class Read(NamedTuple):
    """A column as it was read: stored integers, what a sketch sees, and numbers before the lattice or None."""

    stored: StoredArray
    values: Values
    numbers: FloatArray | None


class ColumnDeclaration(BaseModel):
    """One column: its type, unit, description, what a missing value means, and where it stands in the source.

    A class with a `type` of its own adds its members, and says how the column is stored and read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)

    raw_types: ClassVar[Mapping[str, Callable[[pa.DataType], bool]]] = {}
    """Types of raw columns that a cluster's engine may read, by their names; none where it reads no such column."""
    croissant: ClassVar[str]
    xsd: ClassVar[str]
    """The type of its values in the words of two catalogues."""

    name: Name
    type: str
    unit: Text | None = None
    description: Text = ""
    missing: MissingRule = MissingRule.OMIT
    source: Header | None = Field(None, exclude_if=is_unset)
    missing_values: Words | None = Field(None, exclude_if=is_unset)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Register a type."""
        kind = cls.model_fields["type"].default
        if isinstance(kind, str) and COLUMN_TYPES.setdefault(kind, cls) is not cls:
            raise TypeError(f"a column type {kind!r} is declared already")

    @property
    def header(self) -> str:
        """Name of the column in the source."""
        return self.source or self.name

    @property
    @abstractmethod
    def column(self) -> Column:
        """The declaration as the privacy core reads it."""

    @property
    @abstractmethod
    def public_range(self) -> str:
        """A sentence for people: the public bounds with their unit, or the levels."""

    @property
    def is_plain_number(self) -> bool:
        """Whether a word of the source is the number that it writes, or missing."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether every value is a whole number, as counts are."""
        return False

    @property
    def takes_any_word(self) -> bool:
        """Whether a word that is no level has a level all the same."""
        return False

    @abstractmethod
    def read(self, array: pa.Array, written: Written, wrong: Wrong) -> Read:
        """Read raw values. What breaks the declaration is told to `wrong`, and stored as missing.

        Raises
        ------
        WrongColumn
            Where the column as a whole holds no values of the type.
        """

    def store(self, values: pa.Array) -> StoredArray:
        """Cut raw values of one of `raw_types` to the stored lattice; nothing is refused: a cluster has its rows."""
        raise NotImplementedError(f"{self.type} columns are not read in a cluster")


COLUMN_TYPES: dict[str, type[ColumnDeclaration]] = {}
"""Every type that was declared, by its name."""


def _read_declaration(value: Any) -> ColumnDeclaration:
    """Read a column by the class of its type."""
    if isinstance(value, ColumnDeclaration):
        return value
    if not isinstance(value, Mapping):
        raise PydanticCustomError("column", "a column is a table with its name and type")
    if missing := [name for name in ("name", "type") if name not in value]:
        raise _wrong([{"type": "missing", "loc": (name,), "input": dict(value)} for name in missing])
    kind = COLUMN_TYPES.get(value["type"]) if isinstance(value["type"], str) else None
    if kind is None:
        rule = PydanticCustomError("column_type", "is one of {types}", {"types": ", ".join(COLUMN_TYPES)})
        raise _wrong([{"type": rule, "loc": ("type",), "input": value["type"]}])
    others = {name for other in COLUMN_TYPES.values() for name in other.model_fields}
    if foreign := [name for name in value if name in others - set(kind.model_fields)]:
        own = [name for name in kind.model_fields if name not in ColumnDeclaration.model_fields]
        raise ValueError(f"a {value['type']} column has no {' or '.join(foreign)}; of its own it has {', '.join(own)}")
    return kind.model_validate(value)


def _wrong(items: list[Any]) -> ValidationError:
    return ValidationError.from_exception_data("column", items)


AnyColumn = Annotated[SerializeAsAny[ColumnDeclaration], PlainValidator(_read_declaration)]
"""A declaration, read by the class that its `type` names."""
