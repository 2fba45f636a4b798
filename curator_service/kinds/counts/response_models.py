"""Requests, quotes and answers of the kind ``counts``, as they are sent."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.datasets.response_models import ColumnModel
from curator_service.kinds.features import DerivedModel, StatedFeature
from curator_service.kinds.response_models import (
    AnswerMembers,
    DerivedMembers,
    KindModels,
    QuoteMembers,
    StatisticModel,
)
from curator_service.kit.wire import STRICT, left_out
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.samplers import Distribution

_ByTable = Field(json_schema_extra={"additionalProperties": False})
_TableName = Annotated[str, Field(pattern=r"^table_[0-9]+$")]


class CanonicalAxis(BaseModel):
    """A column, in bins between edges where it is numeric, and whether a missing value has a cell."""

    model_config = STRICT

    column: StatedFeature
    edges: list[float] = left_out()
    missing: bool


class CanonicalTable(BaseModel):
    """A joint histogram; axes stand in the manifest's order."""

    model_config = STRICT

    axes: list[CanonicalAxis]


class CanonicalCountsRequest(BaseModel):
    """A canonical request: every default is filled in, and tables stand in their one order."""

    model_config = STRICT

    kind: Literal["counts"]
    tables: list[CanonicalTable]
    mechanism: Mechanism
    calibration: Calibration
    price: PriceModel
    shares: list[float]
    where: StatedFeature = left_out()
    weight: StatedFeature = left_out()
    fresh: bool


class AxisModel(CanonicalAxis):
    """An axis with its cells: levels, or bins between edges; a missing value's cell is the last."""

    cells: list[str] = left_out()


class TableModel(BaseModel):
    """A table, by the name that its statistic and its noise have."""

    model_config = STRICT

    name: _TableName
    axes: list[AxisModel]


class CountsModel(StatisticModel):
    """The cells of a table, those of the last axis next to each other."""

    draws: Annotated[
        list[int], Field(description="How many draws of noise are in each value, where stored cells were added up")
    ] = left_out()


class CountsNoise(BaseModel):
    """The law of the noise, and its standard deviation in each table: the largest, where it differs by cell."""

    model_config = STRICT

    distribution: Distribution
    sd: Annotated[dict[_TableName, float], _ByTable]


class _CountsMembers(BaseModel):
    """Members of quotes and answers of the kind."""

    kind: Literal["counts"]
    request: CanonicalCountsRequest
    columns: list[ColumnModel]
    tables: list[TableModel]
    derived: list[DerivedModel] = left_out()
    noise: CountsNoise


class CountsQuote(_CountsMembers, QuoteMembers):
    """Price and noise of a request for tables, and what is stored already."""


class CountsAnswer(_CountsMembers, DerivedMembers, AnswerMembers):
    """A release of tables, with noise."""

    statistics: Annotated[dict[_TableName, CountsModel], _ByTable]


COUNTS = KindModels(request=CanonicalCountsRequest, quote=CountsQuote, answer=CountsAnswer)
