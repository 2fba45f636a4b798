"""Queries of threshold sessions."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, bindparam, delete, insert, select

from curator_service.kit.db import Connection, Statement
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.models import LedgerEntryRow
from curator_service.sessions.models import SessionNoiseRow, SessionQuestionRow, SessionRow


@dataclass(frozen=True, slots=True)
class Session:
    """A session, by its row: the place of the entry that opened it, and whose it is said to be."""

    id: str
    population: str
    dataset_id: str
    principal_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SealedNoise:
    """The noise of a session's threshold, encrypted under a secret of a key."""

    key_id: str
    sealed: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of a session as it was asked, with the entry of its answer."""

    number: int
    question: str
    entry: StoredEntry


_SESSION = (
    SessionRow.id,
    SessionRow.population,
    SessionRow.dataset_id,
    SessionRow.principal_id,
    SessionRow.sequence,
)
_INSERT = Statement(insert(SessionRow))
_FIND = Statement(select(*_SESSION).where(SessionRow.id == bindparam("session")))
_OPEN = select(*_SESSION).join(SessionNoiseRow, SessionNoiseRow.session_id == SessionRow.id).order_by(SessionRow.id)
_LIST_OPEN = Statement(_OPEN)
_LIST_OPEN_OF = Statement(_OPEN.where(SessionRow.principal_id == bindparam("principal")))
_INSERT_NOISE = Statement(insert(SessionNoiseRow))
_FIND_NOISE = Statement(
    select(SessionNoiseRow.key_id, SessionNoiseRow.sealed).where(SessionNoiseRow.session_id == bindparam("session"))
)
_DELETE_NOISE = Statement(delete(SessionNoiseRow).where(SessionNoiseRow.session_id == bindparam("session")))
_INSERT_QUESTION = Statement(insert(SessionQuestionRow))
_ASKED = (
    select(
        SessionQuestionRow.number,
        SessionQuestionRow.question,
        LedgerEntryRow.sequence,
        LedgerEntryRow.payload,
        LedgerEntryRow.entry_hash,
        LedgerEntryRow.signature,
    )
    .join(SessionRow, SessionRow.id == SessionQuestionRow.session_id)
    .join(
        LedgerEntryRow,
        (LedgerEntryRow.population == SessionRow.population) & (LedgerEntryRow.sequence == SessionQuestionRow.sequence),
    )
    .where(SessionQuestionRow.session_id == bindparam("session"))
)
_QUESTIONS = Statement(
    _ASKED.where(SessionQuestionRow.number > bindparam("after", type_=BigInteger))
    .order_by(SessionQuestionRow.number)
    .limit(bindparam("count"))
)
_LAST_QUESTION = Statement(_ASKED.order_by(SessionQuestionRow.number.desc()).limit(1))


def insert_session(connection: Connection, session: Session, noise: SealedNoise) -> None:
    """Insert a session that is open."""
    _INSERT.execute(
        connection,
        id=session.id,
        population=session.population,
        dataset_id=session.dataset_id,
        principal_id=session.principal_id,
        sequence=session.sequence,
    )
    _INSERT_NOISE.execute(connection, session_id=session.id, key_id=noise.key_id, sealed=noise.sealed)


def find_session(connection: Connection, session_id: str) -> Session | None:
    """Return a session, or None."""
    row = _FIND.first(connection, session=session_id)
    return None if row is None else Session(*row)


def list_open(connection: Connection, *, of: str | None) -> list[Session]:
    """Return the sessions whose noise is still here; with `of`, those of one principal."""
    found = _LIST_OPEN.all(connection) if of is None else _LIST_OPEN_OF.all(connection, principal=of)
    return [Session(*row) for row in found]


def find_noise(connection: Connection, session_id: str) -> SealedNoise | None:
    """Return the noise of a session; None where it has ended, or its noise was lost."""
    row = _FIND_NOISE.first(connection, session=session_id)
    return None if row is None else SealedNoise(*row)


def forget_noise(connection: Connection, session_id: str) -> None:
    """Delete the noise of a session, which ends it."""
    _DELETE_NOISE.execute(connection, session=session_id)


def insert_question(connection: Connection, session_id: str, number: int, sequence: int, question: str) -> None:
    """Insert a question that was answered."""
    _INSERT_QUESTION.execute(connection, session_id=session_id, number=number, sequence=sequence, question=question)


def list_questions(connection: Connection, session_id: str, *, after: int, count: int) -> list[AskedQuestion]:
    """Return the questions of a session after a number, each with the entry of its answer."""
    found = _QUESTIONS.all(connection, session=session_id, after=after, count=count)
    return [AskedQuestion(number, question, StoredEntry(*entry)) for number, question, *entry in found]


def find_last_question(connection: Connection, session_id: str) -> AskedQuestion | None:
    """Return the last question of a session, or None where none was asked."""
    row = _LAST_QUESTION.first(connection, session=session_id)
    if row is None:
        return None
    number, question, *entry = row
    return AskedQuestion(number, question, StoredEntry(*entry))
