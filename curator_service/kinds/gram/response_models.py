"""Requests, quotes and answers of the kind ``gram``, as they are sent."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.datasets.response_models import ColumnModel
from curator_service.kinds.features import DerivedModel, StatedFeature
from curator_service.kinds.gram.statistics import Statistic
from curator_service.kinds.response_models import (
    AnswerMembers,
    DerivedMembers,
    KindModels,
    QuoteMembers,
    StatisticModel,
)
from curator_service.kinds.term_models import CodedTerm, TargetModel
from curator_service.kit.wire import STRICT, left_out
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.row_maps import RowsModel
from curator_service.privacy.samplers import Distribution


class GramShares(BaseModel):
    """Shares of the price for each requested statistic."""

    model_config = STRICT

    xtx: float = left_out()
    xty: float = left_out()
    yty: float = left_out()
    lambda_min: float = left_out()


class CanonicalGramRequest(BaseModel):
    """A canonical request: every default is filled in. Sent again, it is the same request."""

    model_config = STRICT

    kind: Literal["gram"]
    features: list[StatedFeature]
    targets: list[StatedFeature]
    where: StatedFeature = left_out()
    weight: StatedFeature = left_out()
    intercept: bool
    rows: RowsModel
    statistics: list[Statistic]
    mechanism: Mechanism
    calibration: Calibration
    price: PriceModel
    shares: GramShares
    fresh: bool


class CombinationTerm(BaseModel):
    """A combination of the terms listed in `combined`, with the weights that the request has."""

    model_config = STRICT

    kind: Literal["combination"]
    name: str


TermModel = Annotated[CodedTerm | CombinationTerm, Field(discriminator="kind")]


class GramStatistics(BaseModel):
    """The statistics that were asked for."""

    model_config = STRICT

    xtx: StatisticModel = left_out()
    xty: StatisticModel = left_out()
    yty: StatisticModel = left_out()
    lambda_min: StatisticModel = left_out()


class GramDeviations(BaseModel):
    """Standard deviations, in scaled units, of the statistics that were asked for."""

    model_config = STRICT

    xtx_diagonal: float = left_out()
    xtx_offdiagonal: float = left_out()
    xty: float = left_out()
    yty: float = left_out()
    lambda_min: float = left_out()


class GramNoise(BaseModel):
    """The law of the noise, and how large it is."""

    model_config = STRICT

    distribution: Distribution
    sd: GramDeviations


class _GramMembers(BaseModel):
    """Members of quotes and answers of the kind."""

    kind: Literal["gram"]
    request: CanonicalGramRequest
    features: list[ColumnModel]
    terms: list[TermModel]
    combined: list[Annotated[CodedTerm, Field(discriminator="kind")]] = left_out()
    targets: list[TargetModel]
    columns: list[ColumnModel] = left_out()
    derived: list[DerivedModel] = left_out()
    noise: GramNoise


class GramQuote(_GramMembers, QuoteMembers):
    """Price and noise of a request for XᵀX, Xᵀy, yᵀy and λ_min, and what is stored already."""


class GramAnswer(_GramMembers, DerivedMembers, AnswerMembers):
    """A release of XᵀX, Xᵀy, yᵀy and λ_min, with noise."""

    statistics: GramStatistics


GRAM = KindModels(request=CanonicalGramRequest, quote=GramQuote, answer=GramAnswer)
