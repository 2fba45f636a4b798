"""Acts of threshold sessions."""

from typing import Annotated

from fastapi import Response
from pydantic import Field

from curator_service.api.acts import PAGE, Acts, After, RetryKey
from curator_service.api.context import RequestContext
from curator_service.api.http import json_response
from curator_service.datasets.acts import DatasetName, find_dataset
from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetNotFound, DatasetService
from curator_service.identity.policy import Action, Objects
from curator_service.kit.idempotency import check_key
from curator_service.sessions.response_models import (
    HeldSessionsAnswer,
    QuestionAnswer,
    SessionAnswer,
    SessionHistory,
    SessionTerms,
)
from curator_service.sessions.schemas import QUESTION_EXAMPLE, SESSION_EXAMPLE, QuestionRequest, SessionRequest
from curator_service.sessions.service import SessionService, session_not_found

acts = Acts("sessions")

_Limit = Annotated[int, Field(ge=1, le=1000, description="Number of questions to show.")]
ThresholdSessionId = Annotated[str, Field(description="A threshold session's id; `sessions list` shows it.")]


@acts.route(
    Action.QUOTE,
    "POST /v1/datasets/{name}/sessions/quotes",
    asks=SessionRequest,
    example=SESSION_EXAMPLE,
    answer=SessionTerms,
)
def quote_session(context: RequestContext, name: DatasetName) -> SessionTerms:
    """Return noise and price of a threshold session, free; no row is read."""
    dataset = find_dataset(context, name)
    return context.get(SessionService).quote(dataset, context.call.parse(SessionRequest))


@acts.route(
    Action.REQUEST_RELEASE,
    "POST /v1/datasets/{name}/sessions",
    asks=SessionRequest,
    example=SESSION_EXAMPLE,
    key=RetryKey.REQUIRED,
    status=201,
    responses={201: {"model": SessionAnswer}},
)
def open_session(context: RequestContext, name: DatasetName) -> Response:
    """Charge a threshold session to the budget, whole, and open it for questions that cost nothing more."""
    dataset = find_dataset(context, name)
    key, asked = check_key(context.call.idempotency_key), context.call.parse(SessionRequest)
    return json_response(context.get(SessionService).open(dataset, asked, context.principal, key), 201)


@acts.route(
    Action.REQUEST_RELEASE,
    "POST /v1/sessions/{session_id}/questions",
    asks=QuestionRequest,
    example=QUESTION_EXAMPLE,
    key=RetryKey.REQUIRED,
    status=201,
    responses={201: {"model": QuestionAnswer}},
)
def ask_question(context: RequestContext, session_id: ThresholdSessionId) -> Response:
    """Answer a question of a threshold session with yes or no: your own session alone."""
    sessions = context.get(SessionService)
    key, asked = check_key(context.call.idempotency_key), context.call.parse(QuestionRequest)
    dataset = _dataset_of(context, sessions.find(session_id).dataset_id)
    return json_response(sessions.ask(session_id, asked, context.principal, dataset, key), 201)


@acts.route(Action.READ_RESERVATION, "GET /v1/sessions", "sessions list")
def list_sessions(context: RequestContext) -> HeldSessionsAnswer:
    """List threshold sessions that are open; to an analyst, their own."""
    of = None if context.objects is Objects.ALL else context.principal.id
    return HeldSessionsAnswer.model_construct(sessions=context.get(SessionService).list_held(of=of))


@acts.route(Action.READ_RESERVATION, "GET /v1/sessions/{session_id}", responses={200: {"model": SessionHistory}})
def get_session(
    context: RequestContext, session_id: ThresholdSessionId, after: After = 0, limit: _Limit = PAGE
) -> SessionHistory:
    """Return a threshold session with its answers: your own; an officer or operator sees anybody's."""
    sessions = context.get(SessionService)
    session = sessions.find_for(session_id, context.principal, Action.READ_RESERVATION)
    return sessions.get(session, after=after, count=limit)


@acts.route(
    Action.END_RESERVATION,
    "DELETE /v1/sessions/{session_id}",
    "sessions close",
    consequence="It answers no more questions, and nothing that it was charged returns",
)
def close_session(context: RequestContext, session_id: ThresholdSessionId) -> SessionHistory:
    """End a threshold session: your own; an officer or operator ends anybody's."""
    sessions = context.get(SessionService)
    return sessions.close(sessions.find_for(session_id, context.principal, Action.END_RESERVATION), context.principal)


def _dataset_of(context: RequestContext, dataset_id: str) -> Dataset:
    try:
        return context.get(DatasetService).get_visible_by_id(context.principal, context.objects, dataset_id)
    except DatasetNotFound:
        raise session_not_found() from None
