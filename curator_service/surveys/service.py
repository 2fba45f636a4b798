"""Surveys: opened and closed in the register; each report is checked for its form, and kept once."""

import hmac
import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from hashlib import sha256
from http import HTTPStatus

from pydantic_core import from_json

from curator_service.entries.base import REGISTER, Entry
from curator_service.identity.repository import Principal
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Database
from curator_service.kit.limiter import RateLimiter
from curator_service.kit.names import NAME
from curator_service.kit.problems import Problem, RequestInvalid, Unavailable
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.repository import find_entry
from curator_service.ledger.trust.guard import Guard, unverified
from curator_service.register.service import Register
from curator_service.surveys import repository
from curator_service.surveys.entries import SurveyClosed, SurveyOpened
from curator_service.surveys.repository import Stored
from curator_service.surveys.response_models import (
    GivenAnswer,
    InvitationsAnswer,
    LocalReport,
    ReportsAnswer,
    SurveyAnswer,
)
from curator_service.surveys.schemas import LocalQuestion, ReportRequest, SurveyRequest

_INVITATION = re.compile(r"inv_([1-9][0-9]{0,6})_([0-9a-f]{32})")
_PURPOSE = "surveys"
_UP = Context(prec=3, rounding=ROUND_CEILING)
"""Of what is said to be the most."""


class SurveyNotFound(Problem):
    """No such survey."""

    slug = "survey-not-found"
    status = HTTPStatus.NOT_FOUND
    title = "There is no such survey"


class SurveyExists(Problem):
    """The name of a survey is taken."""

    slug = "survey-exists"
    status = HTTPStatus.CONFLICT
    title = "There is such a survey already"


class SurveyEnded(Problem):
    """The survey takes no more reports."""

    slug = "survey-ended"
    status = HTTPStatus.CONFLICT
    title = "The survey takes no more reports"


class ReportRefused(Problem):
    """A report without a right to it."""

    slug = "report-refused"
    status = HTTPStatus.FORBIDDEN
    title = "The report was not taken"


@dataclass(frozen=True)
class Survey:
    """A survey as its entry states it, with its question."""

    row: Stored
    opened: Entry[SurveyOpened]
    entry_hash: str
    question: LocalQuestion


class SurveyService:
    """Surveys.

    Parameters
    ----------
    rate : RateLimiter
        Of looks and reports without a token, by the address that they come from.
    now : callable
        The clock.
    """

    def __init__(self, database: Database, register: Register, guard: Guard, *, rate: RateLimiter, now: Clock) -> None:
        self.database = database
        self.register = register
        self.guard = guard
        self.rate = rate
        self.now = now

    def open(self, asked: SurveyRequest, by: Principal) -> SurveyAnswer:
        """Open a survey. Nothing is charged: no row of anybody is here.

        Raises
        ------
        SurveyExists, LedgerUnverified, Unavailable
        """
        opened = SurveyOpened(
            actor=by.id,
            time=timestamp(self.now()),
            survey=asked.name,
            question_digest=asked.question.digest,
            participants=asked.participants,
            reports_max=asked.reports_max,
            below=None if asked.below is None else str(asked.below),
            bits=asked.bits,
        )
        with self.register.unit() as unit:
            unit.act(opened)  # it locks the register, so that a name is taken once
            if repository.find_survey(unit.connection, asked.name) is not None:
                raise SurveyExists(f"{asked.name!r} is the name of a survey: take another one.")
            sequence = unit.receipts[-1].signed.checkpoint.sequence
            repository.insert_survey(unit.connection, asked.name, sequence, asked.question.text)
        return self.get(asked.name)

    def find(self, name: str) -> Survey:
        """Return a survey as the register attests it; seal the curator where its row says something else.

        Raises
        ------
        SurveyNotFound, LedgerUnverified
        """
        row = None
        if NAME.fullmatch(name):
            with self.database.read() as connection:
                row = repository.find_survey(connection, name)
        if row is None:
            raise SurveyNotFound(f"{name!r} is no survey of this curator.")
        return self._read(row)

    def get(self, name: str) -> SurveyAnswer:
        """Return a survey, with what protects whom in it; see `find`."""
        return _answer(self.find(name))

    def look(self, name: str, peer: str) -> SurveyAnswer:
        """Return a survey to anybody; see `find`. Raise `TooManyRequests` beyond what may come from an address."""
        self.rate.take(peer)
        return self.get(name)

    def list_all(self) -> list[SurveyAnswer]:
        """Return all surveys, by name."""
        with self.database.read() as connection:
            rows = repository.list_surveys(connection)
        return [_answer(self._read(row)) for row in rows]

    def _read(self, row: Stored) -> Survey:
        with self.database.read() as connection:
            stored = find_entry(connection, REGISTER, row.sequence)
        if stored is not None:
            self.guard.check_attested(REGISTER, stored)
            entry = Entry.read(from_json(stored.payload_text))
            said, of = entry.said, row.name
            with suppress(ValueError):  # of a text that is no question
                question = LocalQuestion.model_validate(from_json(row.question))
                if isinstance(said, SurveyOpened) and (said.survey, said.question_digest) == (of, question.digest):
                    return Survey(row, entry, stored.entry_hash, question)
        self.guard.seal(f"the survey {row.name!r} is not what the register says of it")
        raise unverified()

    def list_invitations(self, name: str, *, after: int, count: int) -> InvitationsAnswer:
        """Return invitations after the `after`-th. They follow from a key of the keys folder, and are stored nowhere.

        Raises
        ------
        SurveyNotFound, RequestInvalid
            If its reports need none.
        """
        survey = self.find(name)
        if survey.opened.said.participants != "invited":
            raise RequestInvalid.at("", "anybody may answer this survey: it has no invitations")
        numbers = range(after + 1, min(after + count, survey.opened.said.reports_max) + 1)
        return InvitationsAnswer.model_construct(
            invitations=[f"inv_{number}_{self._code(survey, number)}" for number in numbers]
        )

    def give(self, name: str, report: ReportRequest, peer: str) -> GivenAnswer:
        """Keep a report; the same one again changes nothing.

        Raises
        ------
        SurveyNotFound, SurveyEnded, ReportRefused, RequestInvalid, TooManyRequests
        """
        self.rate.take(peer)
        survey = self.find(name)
        said = survey.opened.said
        if report.question != said.question_digest:
            raise RequestInvalid.at("/question", "it is the digest of another question than the survey's")
        if not _fits(report.answer, said):
            raise RequestInvalid.at("/answer", f"an answer is {_form(said)}")
        used = self._check_invitation(survey, report.invitation) if said.participants == "invited" else ""
        answer = json.dumps(report.answer)
        with self.database.begin() as connection:
            row = repository.lock_survey(connection, name)
            known = repository.find_answer(connection, name, report.token)
            if known is None:
                if row.closed_at or row.reports >= said.reports_max:
                    raise SurveyEnded("It was closed, or has as many reports as it may.")
                if used and not repository.use_invitation(connection, name, used):
                    raise ReportRefused("The invitation gave another report before: each gives one.")
                repository.insert_report(connection, name, report.token, answer)
            elif known != answer:
                raise ReportRefused("A report with this token is here, with another answer.")
        return GivenAnswer.model_construct(survey=name, token=report.token)

    def list_reports(self, name: str, *, after: str, count: int) -> ReportsAnswer:
        """Return a page of reports. Each is private by itself, whoever reads it."""
        digest = self.find(name).opened.said.question_digest
        with self.database.read() as connection:
            page = repository.list_reports(connection, name, after=after, count=count + 1)
        reports = [
            LocalReport.model_construct(question=digest, token=token, answer=answer)
            for token, answer in ((token, _read_answer(text)) for token, text in page[:count])
            if answer is not None
        ]
        return ReportsAnswer.model_construct(reports=reports, next=page[count - 1][0] if len(page) > count else None)

    def close(self, name: str, by: Principal) -> SurveyAnswer:
        """End a survey; its reports stay.

        Raises
        ------
        SurveyNotFound, SurveyEnded, LedgerUnverified, Unavailable
        """
        self.find(name)
        moment = timestamp(self.now())
        with self.register.unit() as unit:
            unit.act(SurveyClosed(actor=by.id, time=moment, survey=name))
            if not repository.close_survey(unit.connection, name, moment):
                raise SurveyEnded("It was closed before.")
        return self.get(name)

    def _check_invitation(self, survey: Survey, invitation: str | None) -> str:
        """Return by which code an invitation is noted as used, which tells nobody without the key of which it is."""
        found = _INVITATION.fullmatch(invitation or "")
        if found is not None:
            number = int(found[1])
            is_one = number <= survey.opened.said.reports_max
            if hmac.compare_digest(found[2], self._code(survey, number)) and is_one:
                return self._code(survey, number, "used")
        raise ReportRefused("A report of this survey needs an invitation to it, such as inv_7_…, and each gives one.")

    def _code(self, survey: Survey, number: int, what: str = "invitation") -> str:
        try:
            secret = self.guard.keys.secret(survey.opened.place.key_id, _PURPOSE)
        except SigningError:
            raise Unavailable("The key that the survey's invitations follow from is not here: put it back.") from None
        about = f"{what}\n{survey.entry_hash}\n{number}"  # of this opening: a restored chain takes its sequence again
        return hmac.new(secret, about.encode(), sha256).hexdigest()[:32]


def _read_answer(text: str) -> int | str | None:
    """Return a stored answer; None of a text that this service did not store."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


def _fits(answer: int | str, said: SurveyOpened) -> bool:
    if said.below is not None:
        return isinstance(answer, int) and answer < int(said.below)
    return isinstance(answer, str) and len(answer) == said.bits


def _form(said: SurveyOpened) -> str:
    if said.below is not None:
        return f"a whole number from 0 to below {said.below}"
    return f"{said.bits} bits, as text"


def _answer(survey: Survey) -> SurveyAnswer:
    said = survey.opened.said
    return SurveyAnswer.model_construct(
        name=said.survey,
        question=survey.question.text,
        question_digest=said.question_digest,
        participants=said.participants,
        reports_max=said.reports_max,
        reports=survey.row.reports,
        is_open=not survey.row.closed_at and survey.row.reports < said.reports_max,
        opened_at=said.time,
        protection=describe_protection(survey.question, said.participants),
    )


def describe_protection(question: LocalQuestion, participants: str) -> list[str]:
    """Say what protects whom in a survey, and what does not."""
    odds = math.exp(float(Fraction(question.epsilon)))
    most, moved = (f"{_UP.create_decimal_from_float(x):g}" for x in (odds, (odds + 1) / (odds - 1)))
    unit = "a person's record" if question.protects == "person" else "a group's record, thus of each of its members"
    protected = (
        f"A report is ε = {question.epsilon} locally private for all of {unit}: whatever the record is, any report is "
        f"at most {most} times as likely as with another record. The noise was added before the report came here, "
        "so this holds against the curator and every reader, too."
    )
    adding = (
        "A person's ε adds up over reports, surveys, and what curators that hold their rows release. This curator does "
        "not know who answers what: only the person can keep that sum."
    )
    known = (
        "Each invitation gives one report. That it was used is kept apart from the report, without a time, under a "
        "code that leads to the invitation with the curator's keys alone. Whoever has these with its database or "
        "several backups, or watches its machine, log or network, may still connect them: then the noise alone "
        "protects. Whoever may read the invitations could answer in another's place."
        if participants == "invited"
        else "Anybody may answer, and as often as they like: it is not known of how many people the reports are."
    )
    false = (
        f"False reports: k of n move an estimate by up to {moved} k/n of its range, and by more "
        "under mechanisms of more than two answers. No report shows that it is false."
    )
    return [protected, adding, known, false]
