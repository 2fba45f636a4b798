"""Threshold sessions: opened and charged whole, asked one question at a time, and ended for good."""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from http import HTTPStatus
from typing import Any

import numpy as np
from pydantic_core import from_json, to_json

from curator_service.datasets.repository import Dataset, find_dataset_by_id
from curator_service.datasets.service import DatasetService
from curator_service.entries.base import Entry
from curator_service.entries.rules import Asked, find_broken
from curator_service.entries.sessions import KIND, AnswerQuestion, CloseSession, OpenSession
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.repository import Principal, find_principal_by_id
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import DATABASE_ERRORS, Connection, Database, is_retryable
from curator_service.kit.idempotency import check_key, key_reused
from curator_service.kit.limiter import ConcurrencyLimiter
from curator_service.kit.problems import Problem, RequestInvalid, Unavailable
from curator_service.ledger.accounts.unit_of_work import Ledger, Payer, Refused, new_id
from curator_service.ledger.chain.entries import Receipt, StoredEntry
from curator_service.ledger.repository import Population, find_entry, find_population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import LedgerService, find_headrooms
from curator_service.ledger.trust.guard import unverified
from curator_service.permits.repository import list_uses
from curator_service.permits.service import PermitNeeded, PermitService, permit_expired, rule_broken
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import PlanError
from curator_service.privacy.lattice import IntArray
from curator_service.privacy.samplers import Distribution, NoiseSource
from curator_service.privacy.thresholds import SessionNoise, plan_session
from curator_service.releases.keys import KeyClaims
from curator_service.releases.preparation import digest
from curator_service.releases.refusal import session_exceeded
from curator_service.releases.repository import KnownKey, answer_key, find_key
from curator_service.releases.response_time import ResponseTimer
from curator_service.releases.submission import ATTEMPTS
from curator_service.sessions import repository
from curator_service.sessions.noise import seal, unseal
from curator_service.sessions.questions import STEP, Question, question_sensitivity, read_question
from curator_service.sessions.repository import Session
from curator_service.sessions.response_models import (
    AskedModel,
    HeldSession,
    QuestionAnswer,
    QuestionModel,
    SessionAnswer,
    SessionHistory,
    SessionTerms,
)
from curator_service.sessions.schemas import QuestionRequest, SessionRequest

_ID_PATTERN = re.compile(r"ses_[0-9a-f]{24}")
_LAPLACE = Distribution.DISCRETE_LAPLACE


class SessionNotFound(Problem):
    """No such session, or somebody else's: which of these is not said."""

    slug = "session-not-found"
    status = HTTPStatus.NOT_FOUND
    title = "There is no such session"


class SessionEnded(Problem):
    """The session answers no more questions."""

    slug = "session-ended"
    status = HTTPStatus.CONFLICT
    title = "The session has ended"


@dataclass(frozen=True)
class _Opening:
    """A session that is to be opened under a key."""

    dataset: Dataset
    asked: SessionRequest
    noise: SessionNoise
    key: str

    @property
    def fingerprint(self) -> str:
        """What the key stands for."""
        return f"{digest(self.asked.model_dump(exclude_none=True), dataset=self.dataset.id)}:session"

    @cached_property
    def release(self) -> Asked:
        """The session, as the rules of a permit see it."""
        return Asked(KIND, self.dataset.name, self.noise.cost(self.dataset.accountant))


@dataclass(frozen=True)
class _Asking:
    """A question under a key, of an open session."""

    session: Session
    opened: Entry[OpenSession]
    opening: Receipt
    question: Question
    analyst: Principal
    key: str

    @property
    def fingerprint(self) -> str:
        """What the key stands for."""
        return f"{digest(self.question.stated, session=self.session.id)}:question"

    @property
    def payer(self) -> Payer:
        """Payer of the session, whose permit must hold; what was opened goes on whatever project that has later."""
        said = self.opened.said
        return Payer(self.analyst.id, said.permit or "", said.project or "", self.session.id)

    @property
    def release(self) -> Asked:
        """The session, as the rules of a permit see it."""
        return Asked(KIND, self.opened.said.dataset, int(self.opened.place.units))


class SessionService:
    """Threshold sessions.

    Parameters
    ----------
    claims : KeyClaims
        Ties keys to entries.
    passes : ConcurrencyLimiter
        Of what takes time while its caller waits; the same as of releases.
    response_timer : ResponseTimer
        Makes answers show at public times.
    pace : float
        How many times as long as on the reference machine work is made to take here.
    now : callable
        The clock.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        datasets: DatasetService,
        permits: PermitService,
        noise: NoiseSource,
        *,
        claims: KeyClaims,
        passes: ConcurrencyLimiter,
        response_timer: ResponseTimer,
        pace: float,
        now: Clock,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.datasets = datasets
        self.permits = permits
        self.noise = noise
        self.claims = claims
        self.passes = passes
        self.response_timer = response_timer
        self.pace = pace
        self.now = now

    # --- Before, and opening

    def quote(self, dataset: Dataset, asked: SessionRequest) -> SessionTerms:
        """Return noise and price of a session; no row is read.

        Raises
        ------
        RequestInvalid
        """
        noise = _plan(dataset, asked)
        with self.database.read() as connection:
            population = find_population(connection, dataset.population)
        assert population is not None
        return SessionTerms.model_construct(**_terms(dataset.name, population, asked.direction, noise))

    def open(self, dataset: Dataset, asked: SessionRequest, analyst: Principal, key: str | None) -> SessionAnswer:
        """Charge a session and open it; the same key gives the same session for ever.

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, RequestInvalid, BudgetExceeded, PermitNeeded, LedgerUnverified,
        TooManyRequests, Unavailable
        """
        opening = _Opening(dataset, asked, _plan(dataset, asked), check_key(key))
        for _ in range(ATTEMPTS):
            with self.database.read() as connection:
                known = find_key(connection, analyst.id, opening.key)
                if known is not None:
                    return self._replay_opening(connection, known, opening.fingerprint, analyst.id)
                population = find_population(connection, dataset.population)
                assert population is not None
                use = self.permits.choose(connection, analyst, dataset, asked.project, opening.release)
                if isinstance(use, Problem):
                    raise use
                payer = Payer(analyst.id, use.permit, use.project)
                room = find_headrooms(connection, population, payer)[0]
            if population.sealed or self.ledger.guard.degraded_reason:
                raise unverified()
            self.datasets.check_available(dataset)
            if opening.release.units > room.left:
                raise session_exceeded(opening.release.units, population, room)
            drawn = self._draw(opening.noise.threshold_scale)  # of no data, and outside of the lock
            try:
                receipt = self._charge(opening, payer, drawn)
            except Refused:
                continue
            except DATABASE_ERRORS as error:
                if is_retryable(error):
                    continue
                raise
            self.ledger.guard.anchor_before_send(receipt, just_written=True)
            return _opened(Entry.read(from_json(receipt.payload_text)), receipt, population)
        raise Unavailable("Too many requests decide about this account at once. Nothing was charged; send it again.")

    def _charge(self, opening: _Opening, payer: Payer, drawn: int) -> Receipt:
        """Charge a session, write its entry and keep its noise, in one unit of work."""
        dataset, noise, release = opening.dataset, opening.noise, opening.release
        moment, session_id = timestamp(self.now()), new_id("ses_")
        with self.ledger.unit() as ledger:
            if not self.claims.claim(ledger.connection, payer.principal_id, opening.key, opening.fingerprint):
                raise Refused
            head = ledger.charge(dataset.population, dataset.id, release.units, payer, moment)
            answer_key(ledger.connection, payer.principal_id, opening.key, dataset.population, head.sequence)
            self.datasets.check_current(ledger.connection, dataset)
            ledger.check_latest(dataset.registration, head, payer, release)
            opened = OpenSession(
                **payer.stated,
                time=moment,
                session=session_id,
                dataset=dataset.name,
                snapshot=dataset.commitment,
                direction=opening.asked.direction,
                positives=noise.positives,
                sensitivity=str(noise.sensitivity),
                threshold_scale=str(noise.threshold_scale),
                question_scale=str(noise.question_scale),
            )
            receipt = ledger.record(head, opened, release.units)
            sealed = seal(self.ledger.guard.keys, drawn, receipt.entry_hash)
            session = Session(session_id, dataset.population, dataset.id, payer.principal_id, head.sequence)
            repository.insert_session(ledger.connection, session, sealed)
        return receipt

    def _replay_opening(
        self, connection: Connection, known: KnownKey, fingerprint: str, analyst_id: str
    ) -> SessionAnswer:
        entry, population = self._find_known(connection, known, fingerprint)
        receipt, read = self._attest(population.name, entry), Entry.read(from_json(entry.payload_text))
        if not isinstance(read.said, OpenSession) or read.said.actor != analyst_id:
            raise self._contradiction("a key stands for another entry than the opening that it was used for")
        return _opened(read, receipt, population)

    def _find_known(self, connection: Connection, known: KnownKey, fingerprint: str) -> tuple[StoredEntry, Population]:
        """Return the entry that a key stands for, with its account."""
        if known.fingerprint != fingerprint or known.entry is None:
            raise key_reused()
        name, sequence = known.entry
        entry, population = find_entry(connection, name, sequence), find_population(connection, name)
        if entry is None or population is None:
            raise self._contradiction("a key stands for an entry that is not there")
        return entry, population

    # --- Questions

    def ask(
        self, session_id: str, asked: QuestionRequest, analyst: Principal, dataset: Dataset, key: str | None
    ) -> QuestionAnswer:
        """Answer a question; the same key gives the same answer for ever.

        Everything is decided in one unit of work, and durable before the answer leaves: the key, the answer, and how
        many more may be positive.

        Raises
        ------
        IdempotencyKeyMissing, IdempotencyKeyReused, RequestInvalid, SessionNotFound, SessionEnded, LedgerUnverified,
        DatasetUnavailable, TooManyRequests, Unavailable
        """
        key, session = check_key(key), self.find(session_id)
        if session.principal_id != analyst.id:
            raise session_not_found()
        opened, opening = self._opening(session)
        question = read_question(dataset, opened.said, asked, self.pace)
        asking = _Asking(session, opened, opening, question, analyst, key)
        found = self._find_answer(asking)
        if found is not None:
            return found
        self._check_open(asking)
        drawn = self._draw(int(opened.said.question_scale))  # of no data, and outside of the lock
        with self.passes.place(analyst.id), self.response_timer.ending_at_public_time(question.duration_s):
            sums = self.datasets.sum_rows(dataset, question.kernel).values
        for _ in range(ATTEMPTS):
            try:
                with self.ledger.unit() as ledger:
                    receipt = self._decide(ledger, asking, sums, drawn)
            except Refused:
                self._check_permit(asking)
            except DATABASE_ERRORS as error:
                if not is_retryable(error):
                    raise  # a commit whose outcome is unknown is looked up by the key of a retry
            else:
                self.ledger.guard.anchor_before_send(receipt, just_written=True)
                answered = self._answered(asking, receipt)
                if answered.positives_left == 0:
                    self._forget(session)
                return answered
            found = self._find_answer(asking)
            if found is not None:
                return found
        raise Unavailable("Too many requests decide about this account at once. Nothing was asked; send it again.")

    def _forget(self, session: Session) -> None:
        """Delete the noise of a session that has ended, if the database lets us.

        In the unit of work that answers, a statement that a positive answer alone has would tell it where it fails.
        """
        with suppress(Problem, *DATABASE_ERRORS), self.database.begin() as connection:
            repository.forget_noise(connection, session.id)

    def _draw(self, scale: int) -> int:
        return int(np.asarray(self.noise.sample(_LAPLACE, [scale]))[0])

    def _check_open(self, asking: "_Asking") -> None:
        """Refuse early what the unit of work would refuse, before rows are read."""
        said, dataset = asking.opened.said, asking.question.dataset
        if self.ledger.guard.reason():
            raise unverified()
        missing = self.permits.find_missing_visa(asking.analyst, dataset.name)
        if missing is not None:
            raise missing
        is_same = (said.snapshot, said.dataset) == (dataset.commitment, dataset.name)
        if not is_same or not self._is_open(asking.session, asking.opened):
            raise _ended(asking.session)
        self.datasets.check_available(dataset)

    def _decide(self, ledger: Ledger, asking: "_Asking", sums: IntArray, drawn: int) -> Receipt:
        """Compare noisy number and noisy threshold, and write the answer, with the account locked."""
        session, question, connection = asking.session, asking.question, ledger.connection
        if not self.claims.claim(connection, asking.analyst.id, asking.key, asking.fingerprint):
            raise Refused
        moment = timestamp(self.now())
        head = ledger.use(session.population, session.dataset_id, asking.payer, moment)
        answer_key(connection, asking.analyst.id, asking.key, session.population, head.sequence)
        self.datasets.check_current(connection, question.dataset)
        ledger.check_latest(question.dataset.registration, head, asking.payer, asking.release)
        # The chain alone says how many answers there were; the row, whose secret it is, only that it goes on.
        state = ledger.find_session(head, session.id, session.sequence)
        kept = repository.find_noise(connection, session.id)
        noise = None if kept is None else unseal(self.ledger.guard.keys, kept, asking.opening.entry_hash)
        if state is None or noise is None:
            raise _ended(session)
        is_positive = question.exceeds(sums, drawn, noise)
        number = state.answered + 1
        repository.insert_question(connection, session.id, number, head.sequence, to_json(question.stated).decode())
        answer = AnswerQuestion(
            actor=asking.analyst.id,
            time=moment,
            session=session.id,
            number=number,
            positives=state.positives,
            question_digest=question.digest,
            answer="positive" if is_positive else "negative",
        )
        return ledger.record(head, answer, 0)

    def _find_answer(self, asking: "_Asking") -> QuestionAnswer | None:
        """Return the answer that a key has already."""
        with self.database.read() as connection:
            known = find_key(connection, asking.analyst.id, asking.key)
            if known is None:
                return None
            entry, population = self._find_known(connection, known, asking.fingerprint)
        return self._answered(asking, self._attest(population.name, entry))

    def _answered(self, asking: "_Asking", receipt: Receipt) -> QuestionAnswer:
        """Return an answer as its entry states it."""
        session, said = asking.session, Entry.read(from_json(receipt.payload_text)).said
        if not isinstance(said, AnswerQuestion) or (said.session, said.question_digest) != (
            session.id,
            asking.question.digest,
        ):
            raise self._contradiction("a key stands for another answer than was given to it")
        return QuestionAnswer.model_construct(
            session=session.id,
            number=said.number,
            is_positive=said.is_positive,
            positives_left=asking.opened.said.positives - said.positives - said.is_positive,
            question=QuestionModel.model_construct(**asking.question.stated),
            receipt=from_json(receipt.text),
        )

    def _check_permit(self, asking: "_Asking") -> None:
        """Say why the permit of a session does not hold any more, where it does not: no other one stands in."""
        said, dataset = asking.opened.said, asking.question.dataset
        with self.database.read() as connection:
            uses = list_uses(connection, asking.analyst.id, dataset.id, timestamp(self.now()))
        paid = next((use for use in uses if use.permit == said.permit), None)
        if paid is None:
            projects = sorted({use.project for use in uses if use.project})
            raise PermitNeeded("The session's permit does not let you use this dataset any more.", projects=projects)
        if not paid.lasts:
            raise permit_expired(paid.expires_at)
        broken = find_broken(paid.rules, asking.release)
        if broken is not None:
            raise rule_broken(broken, paid.project)

    def _list_answers(self, session: Session, *, after: int, count: int) -> list[AskedModel]:
        """Return answers as their entries state them; seal the curator where a stored question is another one."""
        with self.database.read() as connection:
            found = repository.list_questions(connection, session.id, after=after, count=count)
        answers = []
        if found:  # what is not anchored yet may be wound back, and must not have been seen
            self._attest(session.population, found[-1].entry)
        for one in found:
            self.ledger.guard.check_attested(session.population, one.entry)
            said = Entry.read(from_json(one.entry.payload_text)).said
            question = from_json(one.question)
            is_stated = (
                isinstance(said, AnswerQuestion)
                and (said.session, said.number) == (session.id, one.number)
                and said.question_digest == digest(question, dataset=session.dataset_id)
            )
            if not is_stated:
                raise self._contradiction(f"a question of the session {session.id} is not what the ledger says of it")
            answers.append(
                AskedModel.model_construct(
                    number=one.number,
                    question=QuestionModel.model_construct(**question),
                    is_positive=said.is_positive,
                    answered_at=said.time,
                )
            )
        return answers

    # --- Reading and closing

    def find(self, session_id: str) -> Session:
        """Return a session by its row; the caller checks who may see it.

        Raises
        ------
        SessionNotFound
        """
        session = None
        if _ID_PATTERN.fullmatch(session_id):
            with self.database.read() as connection:
                session = repository.find_session(connection, session_id)
        if session is None:
            raise session_not_found()
        return session

    def find_for(self, session_id: str, reader: Principal, action: Action) -> Session:
        """Return a session that is the reader's own, or anybody's to roles that may do this to all.

        Raises
        ------
        SessionNotFound
        """
        session = self.find(session_id)
        if session.principal_id != reader.id and allowed_objects(reader.roles, action) is not Objects.ALL:
            raise session_not_found()
        return session

    def get(self, session: Session, *, after: int, count: int) -> SessionHistory:
        """Return a session with a page of its questions."""
        opened, _ = self._opening(session)
        page = self._list_answers(session, after=after, count=count + 1)
        return SessionHistory.model_construct(
            **self._describe(session, opened.said),
            is_open=self._is_open(session, opened),
            questions=page[:count],
            next=page[count - 1].number if len(page) > count else None,
        )

    def _describe(self, session: Session, said: OpenSession) -> dict[str, Any]:
        """Return the members of a session without its questions."""
        with self.database.read() as connection:
            population = find_population(connection, session.population)
            holder = find_principal_by_id(connection, session.principal_id)
        assert population is not None
        answered, positives = self._count_answers(session)
        return {
            **_terms(said.dataset, population, said.direction, _noise_of(said)),
            "id": session.id,
            "created_at": said.time,
            "holder": session.principal_id if holder is None else holder.name,
            "project": said.project,
            "permit": said.permit,
            "answered": answered,
            "positives_left": said.positives - positives,
        }

    def _is_open(self, session: Session, opened: Entry[OpenSession]) -> bool:
        """Return whether a session answers questions, as far as a look tells; the unit of work decides."""
        with self.database.read() as connection:
            population = find_population(connection, session.population)
            dataset = find_dataset_by_id(connection, session.dataset_id, granted_to=None)
            kept = repository.find_noise(connection, session.id)
        return (
            kept is not None
            and population is not None
            and opened.place.epoch == population.epoch
            and dataset is not None
            and not dataset.is_retired
            and dataset.commitment == opened.said.snapshot
            and self._count_answers(session)[1] < opened.said.positives
        )

    def _count_answers(self, session: Session) -> tuple[int, int]:
        """Return how many answers a session has given, and how many positive ones, by the entry of the last."""
        with self.database.read() as connection:
            last = repository.find_last_question(connection, session.id)
        if last is None:
            return 0, 0
        self._attest(session.population, last.entry)
        said = Entry.read(from_json(last.entry.payload_text)).said
        if not isinstance(said, AnswerQuestion) or said.session != session.id:
            raise self._contradiction(f"a question of the session {session.id} is not what the ledger says of it")
        return said.number, said.positives + said.is_positive

    def list_held(self, *, of: str | None) -> list[HeldSession]:
        """Return the sessions that are open; with `of`, those of one principal."""
        with self.database.read() as connection:
            found = repository.list_open(connection, of=of)
        opened = [(one, self._opening(one)[0]) for one in found]
        return [
            HeldSession.model_construct(**self._describe(one, entry.said))
            for one, entry in opened
            if self._is_open(one, entry)
        ]

    def close(self, session: Session, by: Principal) -> SessionHistory:
        """End a session; nothing that it was charged returns.

        Raises
        ------
        SessionEnded, LedgerUnverified
        """
        for _ in range(ATTEMPTS):
            self.ledger.guard.check_open()
            try:
                receipt = self._close(session, by)
            except Refused:
                continue
            self.ledger.guard.anchor_before_send(receipt, just_written=True)
            return self.get(session, after=0, count=1)
        raise Unavailable("Too many requests decide about this account at once. Nothing was closed; send it again.")

    def _close(self, session: Session, by: Principal) -> Receipt:
        with self.ledger.unit() as ledger:
            head = ledger.next(session.population)
            if ledger.find_session(head, session.id, session.sequence) is None:
                raise _ended(session)
            repository.forget_noise(ledger.connection, session.id)
            closed = CloseSession(
                actor=by.id, time=timestamp(self.now()), session=session.id, holder=session.principal_id
            )
            return ledger.record(head, closed, 0)

    def _opening(self, session: Session) -> tuple[Entry[OpenSession], Receipt]:
        """Return the entry that opened a session; seal the curator where its row names another one."""
        with self.database.read() as connection:
            stored = find_entry(connection, session.population, session.sequence)
        if stored is None:
            raise self._contradiction(f"the entry that opened {session.id} is not there")
        receipt = self._attest(session.population, stored)
        entry = Entry.read(from_json(stored.payload_text))
        said = entry.said
        if not isinstance(said, OpenSession) or (said.session, said.actor) != (session.id, session.principal_id):
            raise self._contradiction(f"the session {session.id} is not what the ledger says of it")
        return entry, receipt

    def _attest(self, population: str, entry: StoredEntry) -> Receipt:
        self.ledger.guard.check_attested(population, entry)
        receipt = Receipt(entry.payload_text, entry.entry_hash, entry.signature)
        self.ledger.guard.anchor_before_send(receipt)
        return receipt

    def _contradiction(self, reason: str) -> Problem:
        self.ledger.guard.seal(reason)
        return unverified()


def _plan(dataset: Dataset, asked: SessionRequest) -> SessionNoise:
    """Plan the noise of a session. Raise `RequestInvalid` where there is none such."""
    is_monotone = asked.direction != "any"
    if is_monotone and dataset.adjacency is not Adjacency.ADD_REMOVE:
        rule = "people are replaced here, which moves a number either way: take the direction any"
        raise RequestInvalid.at("/direction", rule)
    try:
        return plan_session(
            dataset.accountant,
            asked.price.price,
            sensitivity=question_sensitivity(dataset.manifest.rows_per_person),
            positives=asked.positives,
            is_monotone=is_monotone,
        )
    except PlanError as error:
        raise RequestInvalid.at(f"/{error.field}", str(error)) from None


def _noise_of(said: OpenSession) -> SessionNoise:
    scales = int(said.threshold_scale), int(said.question_scale)
    return SessionNoise(int(said.sensitivity), said.positives, said.direction != "any", *scales)


def _terms(dataset: str, population: Population, direction: str, noise: SessionNoise) -> dict[str, Any]:
    """Return what is public of a session's noise and price."""
    return {
        "dataset": dataset,
        "population": population.name,
        "direction": direction,
        "positives": noise.positives,
        "step": str(STEP),
        "sensitivity": str(noise.sensitivity),
        "threshold_scale": str(noise.threshold_scale),
        "question_scale": str(noise.question_scale),
        "pure_epsilon": _up(noise.epsilon),
        "cost": AmountModel.of(population.view(noise.cost(population.accountant))),
    }


def _up(number: Fraction) -> float:
    """Return the least float that is not below a number, or the one after it."""
    found = float(number)
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)


def _opened(entry: Entry[OpenSession], receipt: Receipt, population: Population) -> SessionAnswer:
    said = entry.said
    return SessionAnswer.model_construct(
        **_terms(said.dataset, population, said.direction, _noise_of(said)),
        id=said.session,
        created_at=said.time,
        project=said.project,
        receipt=from_json(receipt.text),
    )


def _ended(session: Session) -> SessionEnded:
    return SessionEnded(
        f"The session {session.id!r} answers no more questions: it was closed, had its last positive answer, "
        "was opened before a cut or a restore, or its noise was lost. Nothing was asked; open another one."
    )


def session_not_found() -> SessionNotFound:
    """Build the refusal of a session that is not there or not visible: which of these is not said."""
    return SessionNotFound("There is no session of this id among those that you may see.")
