"""Requests, quotes and answers of the kind ``score``, as they are sent."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from curator_service.datasets.response_models import ColumnModel
from curator_service.kinds.features import DerivedModel, StatedFeature
from curator_service.kinds.response_models import AnswerMembers, KindModels, QuoteMembers, StatisticModel
from curator_service.kinds.score.schema import Coefficients, Directions
from curator_service.kinds.score.statistics import Statistic
from curator_service.kinds.term_models import CodedTerm, TargetModel
from curator_service.kit.wire import STRICT, Digest, left_out
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.losses import Loss
from curator_service.privacy.samplers import Distribution


class ScoreShares(BaseModel):
    """Shares of the price for each requested statistic."""

    model_config = STRICT

    score: float = left_out()
    norms: float = left_out()
    meat: float = left_out()


class CanonicalScoreRequest(BaseModel):
    """A canonical request: every default is filled in. Sent again, it is the same request."""

    model_config = STRICT

    kind: Literal["score"]
    features: list[StatedFeature]
    target: StatedFeature
    intercept: bool
    loss: Loss
    link: Digest = left_out()
    coefficients: Coefficients
    directions: Directions
    where: StatedFeature = left_out()
    weight: StatedFeature = left_out()
    statistics: list[Statistic]
    mechanism: Mechanism
    calibration: Calibration
    price: PriceModel
    shares: ScoreShares
    fresh: bool


class ScoreStatistics(BaseModel):
    """The statistics that were asked for."""

    model_config = STRICT

    score: StatisticModel = left_out()
    norms: StatisticModel = left_out()
    meat: StatisticModel = left_out()


class ScoreDeviations(BaseModel):
    """Standard deviations, in scaled units, of the statistics that were asked for."""

    model_config = STRICT

    score: float = left_out()
    norms: float = left_out()
    meat_diagonal: float = left_out()
    meat_offdiagonal: float = left_out()


class ScoreNoise(BaseModel):
    """The law of the noise, and how large it is."""

    model_config = STRICT

    distribution: Distribution
    sd: ScoreDeviations


class _ScoreMembers(BaseModel):
    """Members of quotes and answers of the kind."""

    kind: Literal["score"]
    request: CanonicalScoreRequest
    columns: list[ColumnModel]
    terms: list[Annotated[CodedTerm, Field(discriminator="kind")]]
    target: TargetModel
    derived: list[DerivedModel] = left_out()
    noise: ScoreNoise


class ScoreQuote(_ScoreMembers, QuoteMembers):
    """Price and noise of a request for a score, and what is stored already."""


class ScoreAnswer(_ScoreMembers, AnswerMembers):
    """A release of a score, with noise."""

    statistics: ScoreStatistics


SCORE = KindModels(request=CanonicalScoreRequest, quote=ScoreQuote, answer=ScoreAnswer)
