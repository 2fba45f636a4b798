"""Requests, quotes and answers of the kind ``marginals``, as they are sent."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.datasets.response_models import ColumnModel
from curator_service.kinds.features import DerivedModel, StatedFeature
from curator_service.kinds.response_models import AnswerMembers, KindModels, QuoteMembers, StatisticModel
from curator_service.kit.wire import STRICT, left_out
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.samplers import Distribution

_ByMarginal = Field(json_schema_extra={"additionalProperties": False})
_MarginalName = Annotated[str, Field(pattern=r"^marginal_[0-9]+$")]


class _CanonicalMarginal(BaseModel):
    model_config = STRICT

    columns: list[StatedFeature]


class CanonicalTree(_CanonicalMarginal):
    """Rows by 2, 4, …, 2^levels equal bins of each column's bounds; columns stand in the manifest's order."""

    type: Literal["tree"]
    levels: int


class CanonicalFlat(_CanonicalMarginal):
    """Rows by equal bins of each column's bounds; columns stand in the manifest's order."""

    type: Literal["flat"]
    bins: int


class CanonicalMoments(_CanonicalMarginal):
    """Half of the rows that have a value u, Σ u and Σ (u² − 1/2); columns stand in the manifest's order."""

    type: Literal["moments"]


class CanonicalMarginalsRequest(BaseModel):
    """A canonical request: every default is filled in, and marginals stand in their one order."""

    model_config = STRICT

    kind: Literal["marginals"]
    marginals: list[Annotated[CanonicalTree | CanonicalFlat | CanonicalMoments, Field(discriminator="type")]]
    mechanism: Mechanism
    calibration: Calibration
    price: PriceModel
    shares: list[float]
    where: StatedFeature = left_out()
    weight: StatedFeature = left_out()
    fresh: bool


class TreeModel(CanonicalTree):
    """A tree, by the name that its statistic and its noise have; the numbers of level 1 come first."""

    name: _MarginalName


class FlatModel(CanonicalFlat):
    """A flat histogram, by the name that its statistic and its noise have."""

    name: _MarginalName


class MomentsModel(CanonicalMoments):
    """Moments, by the name that their statistic and their noise have."""

    name: _MarginalName


class MarginalsNoise(BaseModel):
    """The law of the noise, and its standard deviation in each marginal."""

    model_config = STRICT

    distribution: Distribution
    sd: Annotated[dict[_MarginalName, float], _ByMarginal]


class _MarginalsMembers(BaseModel):
    """Members of quotes and answers of the kind."""

    kind: Literal["marginals"]
    request: CanonicalMarginalsRequest
    columns: list[ColumnModel]
    marginals: list[Annotated[TreeModel | FlatModel | MomentsModel, Field(discriminator="type")]]
    derived: list[DerivedModel] = left_out()
    noise: MarginalsNoise


class MarginalsQuote(_MarginalsMembers, QuoteMembers):
    """Price and noise of a request for marginals, and what is stored already."""


class MarginalsAnswer(_MarginalsMembers, AnswerMembers):
    """A release of marginals, with noise."""

    statistics: Annotated[dict[_MarginalName, StatisticModel], _ByMarginal]


MARGINALS = KindModels(request=CanonicalMarginalsRequest, quote=MarginalsQuote, answer=MarginalsAnswer)
