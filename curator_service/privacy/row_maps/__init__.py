"""Row maps: how far one row can move a statistic, and what it becomes so that it cannot move it further."""

from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import Field, GetJsonSchemaHandler, PlainValidator, SerializeAsAny, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from curator_service.privacy.row_maps.base import ROW_MAPS, RowMap, Rows, RowsInvalidError
from curator_service.privacy.row_maps.box import Box, BoxRows  # isort: split

from curator_service.privacy.row_maps.ball import Ball, BallRows, small_norm  # isort: split

from curator_service.privacy.row_maps.unit import Unit, UnitRows, UnitXY, UnitXYRows  # isort: split

from curator_service.privacy.row_maps.linear import LinearRows

__all__ = [
    "ROW_MAPS",
    "Ball",
    "BallRows",
    "Box",
    "BoxRows",
    "LinearRows",
    "RowMap",
    "Rows",
    "RowsInvalidError",
    "RowsModel",
    "Unit",
    "UnitRows",
    "UnitXY",
    "UnitXYRows",
    "make_row_map",
    "small_norm",
]


def _read(value: Any) -> Rows:
    """Read a row map by the class of its name."""
    if isinstance(value, Rows):
        return value
    if not isinstance(value, Mapping):
        raise PydanticCustomError("row_map", "a row map is an object with its name as map")
    kind = ROW_MAPS.get(value["map"]) if isinstance(value.get("map"), str) else None
    if kind is None:
        rule = PydanticCustomError("row_map", "the row map is one of {names}", {"names": ", ".join(ROW_MAPS)})
        at = {"type": rule, "loc": ("map",), "input": value.get("map")}
        raise ValidationError.from_exception_data("rows", [at])  # type: ignore[list-item]
    return kind.model_validate(value)


class _Described:
    """Describes row maps as JSON: those that were declared by when the document is made."""

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe them."""
        union: Any = Annotated[Union[tuple(ROW_MAPS.values())], Field(discriminator="map")]  # noqa: UP007
        return handler(TypeAdapter(union).core_schema)


RowsModel = Annotated[SerializeAsAny[Rows], PlainValidator(_read), _Described()]
"""A row map as a request names it."""


def make_row_map(rows: Mapping[str, Any]) -> RowMap:
    """Return the row map that a canonical request states."""
    return ROW_MAPS[rows["map"]].make(rows)
