"""Row maps: how far one row can move a statistic, and what it becomes so that it cannot move it further."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from curator_service.privacy.row_maps.ball import Ball, BallRows
from curator_service.privacy.row_maps.base import RowMap
from curator_service.privacy.row_maps.box import Box, BoxRows
from curator_service.privacy.row_maps.linear import LinearRows
from curator_service.privacy.row_maps.unit import Unit, UnitRows, UnitXY

__all__ = ["ROW_MAPS", "Ball", "BallRows", "Box", "LinearRows", "RowMap", "RowsModel", "Unit", "UnitXY", "make_row_map"]

_UNSIZED: Mapping[str, RowMap] = {"box": Box(), "unit": Unit(), "unit_xy": UnitXY()}
ROW_MAPS = ("box", "ball", "unit", "unit_xy", "linear")
"""Their names, as datasets state them."""
RowsModel = Annotated[BoxRows | BallRows | UnitRows | LinearRows, Field(discriminator="map")]
"""A row map as a request names it."""


def make_row_map(rows: Mapping[str, Any]) -> RowMap:
    """Return the row map that a canonical request states."""
    if rows["map"] == "linear":
        return Ball.of_norm(1.0)
    return Ball.of_norm(rows["norm"]) if rows["map"] == "ball" else _UNSIZED[rows["map"]]
