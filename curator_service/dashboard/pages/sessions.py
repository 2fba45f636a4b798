"""Threshold sessions: those that are open, and one with its terms, its questions and its end."""

from dataclasses import dataclass

from fastapi import APIRouter, Response

from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.dashboard.pages.parts import moment_of, state_of
from curator_service.dashboard.pages.stakes import guess_by
from curator_service.datasets.repository import find_dataset_by_id
from curator_service.evidence.words import PROTECTED
from curator_service.identity.policy import Action, Objects
from curator_service.kinds.wording import write_asked
from curator_service.kit.problems import Problem
from curator_service.ledger import search
from curator_service.ledger.service import LedgerService
from curator_service.permits.service import PermitService
from curator_service.privacy.expressions.text import write_number
from curator_service.sessions.acts import close_session
from curator_service.sessions.repository import Session
from curator_service.sessions.response_models import QuestionModel, SessionHistory
from curator_service.sessions.service import SessionService

router = APIRouter(prefix="/admin")
PAGE, QUESTIONS, VERSIONS = 50, 100, 100


@dataclass(frozen=True, slots=True)
class End:
    """Why a session ended, and the entry that says so; 0 where none does."""

    why: str
    time: str = ""
    entry: int = 0


@router.get("/sessions")
@page(Action.READ_RESERVATION)
def show_sessions(context: PageContext) -> Response:
    """Show the sessions that are open; to an analyst, their own."""
    asked, start = context.browser.query.get("q", "").strip(), context.count("start", 0)
    of = None if context.objects is Objects.ALL else context.principal.id
    found = [
        one
        for one in context.get(SessionService).list_held(of=of)
        if any(
            asked.lower() in text.lower()
            for text in (one.id, one.dataset, one.population, one.holder, one.project or "", one.permit or "")
        )
    ]
    return context.render(
        "sessions.html",
        sessions=found[start : start + PAGE],
        asked=asked,
        start=start,
        page_size=PAGE,
        found=len(found),
    )


@router.get("/sessions/{session_id}")
@page(Action.READ_RESERVATION)
def show_session(context: PageContext, session_id: str) -> Response:
    """Show one session."""
    return _show(context, session_id)


def _show(context: PageContext, session_id: str, problem: Problem | None = None) -> Response:
    sessions, permits = context.get(SessionService), context.get(PermitService)
    start = context.count("start", 0, 2**31)
    session = sessions.find_for(session_id, context.principal, Action.READ_RESERVATION)
    shown = sessions.get(session, after=start, count=QUESTIONS)
    with context.services.database.read() as connection:
        dataset = find_dataset_by_id(connection, session.dataset_id, granted_to=None)
    assert dataset is not None
    account = context.get(LedgerService).get_population(session.population)
    return context.render(
        "session.html",
        200 if problem is None else int(problem.status),
        shown=shown,
        accountant=dataset.accountant.name,
        guess=guess_by(account, int(shown.cost.units)),
        protected=PROTECTED[account.adjacency],
        opening=session.sequence,
        permit_is="" if shown.permit is None else state_of(permits.get_permit(shown.permit), moment_of(context)),
        end=None if shown.is_open else _find_end(context, session, shown),
        questions=[(one, describe_question(one.question)) for one in shown.questions],
        start=start,
        page_size=QUESTIONS,
        found=shown.answered,
        faults=[] if problem is None else list_faults(problem),
    )


def describe_question(question: QuestionModel) -> str:
    """Return a question in words, as those of releases are.

    Examples
    --------
    >>> asked = {"share": False, "threshold": 50.0, "direction": "above", "where": {"less": [70, "age"]}}
    >>> describe_question(QuestionModel(**asked))
    'at least 50 rows with age > 70'
    """
    stated = question.model_dump()
    where = f" with {write_asked(stated['where'])}" if "where" in stated else ""
    bound = f"at {'least' if question.direction == 'above' else 'most'} {write_number(question.threshold)}"
    if "weight" not in stated:
        return f"{bound} rows{where}"
    weight = write_asked(stated["weight"])
    return f"the {'mean' if question.share else 'sum'} of {weight} is {bound}, over rows{where}"


def _find_end(context: PageContext, session: Session, shown: SessionHistory) -> End:
    """Return why a session ended, as far as its chain says."""
    if shown.positives_left == 0:
        return End("it gave its last positive answer")
    said_of = [("kind", "close"), ("session", session.id)], [("kind", "dataset"), ("dataset_id", session.dataset_id)]
    with context.services.database.read() as connection:
        closed, cuts = (
            search.list_entries_that_say(connection, session.population, said, before=2**62, count=VERSIONS)[0]
            for said in said_of
        )
    for entry, said in closed:
        who = context.people.find(said["actor"]).label if context.may(Action.READ_PRINCIPALS) else ""
        return End(f"it was closed by {who}" if who else "it was closed", said["time"], entry.sequence)
    later = [(entry, said) for entry, said in cuts if entry.sequence > session.sequence]
    if later:
        entry, said = later[-1]
        return End("its dataset was cut", said["time"], entry.sequence)
    return End("a database was restored, or the noise of its threshold was lost")


def _describe(context: PageContext, session_id: str) -> tuple[str, list[tuple[str, str]]]:
    sessions = context.get(SessionService)
    shown = sessions.get(sessions.find_for(session_id, context.principal, Action.END_RESERVATION), after=0, count=1)
    return f"Close the session {session_id}", [("holder", shown.holder), ("dataset", shown.dataset)]


add_form(
    router,
    "/sessions/{session_id}/close",
    close_session,
    words=_describe,
    done=lambda answer: f"/admin/sessions/{answer.id}?done=closed",
    again=lambda context, problem, session_id: _show(context, session_id, problem),
)
