"""Requests of threshold sessions."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from curator_service.entries.sessions import Direction
from curator_service.kinds.features import FeatureModel
from curator_service.kinds.request import ColumnName
from curator_service.kit.wire import STRICT
from curator_service.ledger.schemas import PriceModel
from curator_service.privacy.thresholds import POSITIVES_MAX


class SessionRequest(BaseModel):
    """A request to open a session.

    Attributes
    ----------
    positives : int
        The session ends with so many questions that were answered yes.
    direction : str
        ``above``: every question is whether a number is at least its threshold, ``below``: at most. Both need
        populations to which people are added (`add_remove`) and give less noise than ``any``, under which each question
        says its own direction and may be one of a share.
    price : PriceModel
        ε alone.
    """

    model_config = STRICT

    positives: Annotated[int, Field(ge=1, le=POSITIVES_MAX)]
    direction: Direction
    price: PriceModel
    project: ColumnName | None = None


class QuestionRequest(BaseModel):
    """A question: whether a number of rows, a sum of weights or a share reaches a threshold.

    Attributes
    ----------
    where : feature, optional
        A condition; rows in which it does not hold count for nothing.
    weight : feature, optional
        A number within [0, 1] for which a row counts in place of 1.
    share : bool
        Ask for the mean of the weights of those rows, in place of their sum.
    threshold : float
        In rows; of a share within [0, 1].
    direction : str, optional
        ``above`` (at least) or ``below`` (at most); needed where the session's is ``any``.
    """

    model_config = STRICT

    where: FeatureModel | None = None
    weight: FeatureModel | None = None
    share: bool = False
    threshold: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e12)]
    direction: Literal["above", "below"] | None = None


SESSION_EXAMPLE: dict[str, Any] = {"positives": 1, "direction": "above", "price": {"epsilon": 0.3}}
QUESTION_EXAMPLE: dict[str, Any] = {"where": {"greater": ["creatinine", 2]}, "threshold": 50}
