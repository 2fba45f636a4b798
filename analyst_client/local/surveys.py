"""Surveys: a curator hands out one question to anybody, and collects the reports that people made themselves."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import httpx

from analyst_client.error_base import ServiceError
from analyst_client.http.credentials import Nobody
from analyst_client.http.session import path_segment, read_text
from analyst_client.http.transport import Transport
from analyst_client.local.mechanisms import Kary, Window
from analyst_client.local.questions import Question
from analyst_client.schema.reading import Readable
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields, parse_json


@dataclass(frozen=True)
class Survey(Readable):
    """A question whose reports a curator collects.

    Attributes
    ----------
    name : str
    canonical : str
        Canonical JSON of its question.
    participants : str
        ``"invited"``: each invitation gives one report; ``"anyone"``: no invitation is needed.
    reports_max, reports : int
        Largest number of reports, and their number so far.
    is_open : bool
        Whether it takes more.
    opened_at : str
    protection : tuple of str
        Sentences of the curator on what protects whom in it, and what does not.

    Examples
    --------
    >>> from analyst_client.local import find_survey
    >>> from analyst_client.tutorial import ADDRESS, METHODS, Recorded
    >>> survey = find_survey(ADDRESS, "smoking", transport=Recorded(METHODS))
    >>> survey.participants, survey.reports_max, survey.is_open
    ('anyone', 500, True)
    """

    name: str
    canonical: Annotated[str, "question"]
    participants: str
    reports_max: int
    reports: int
    is_open: bool
    opened_at: str
    protection: tuple[str, ...]

    @property
    def question(self) -> Question:
        """Its question. Raise `ServiceError` where this client knows no such one."""
        try:
            return Question.from_json(json.loads(self.canonical))
        except (ValueError, TypeError, RecursionError):
            raise ServiceError("malformed answer: question is no question that this client knows") from None


@dataclass(frozen=True)
class Invitations(Readable):
    """Invitations of a survey, each for one person."""

    invitations: tuple[str, ...]


def survey_terms(
    name: str,
    question: Question,
    *,
    reports_max: int,
    participants: Literal["invited", "anyone"] = "invited",
) -> dict[str, Any]:
    """Return the terms of a survey, for `CuratorAdmin.open_survey` or a file for ``curator-admin surveys open``.

    Parameters
    ----------
    name : str
        1 to 63 letters, digits, dots, hyphens or underscores, with a letter first.
    question : Question
        Of anything that `analyst_client.local` asks.
    reports_max : int
        Largest number of reports, and the number of invitations.
    participants : {"invited", "anyone"}
        Whether a report needs an invitation.

    Returns
    -------
    dict
        With the question, and the form of its answers.

    Examples
    --------
    >>> from analyst_client.local import RandomizedResponse, survey_terms
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1, study="smoking 2026")
    >>> terms = survey_terms("smoking", question, reports_max=500, participants="anyone")
    >>> terms["name"], terms["participants"], terms["below"]
    ('smoking', 'anyone', 2)
    """
    law = question.law
    form = {"below": law.size} if isinstance(law, Kary | Window) else {"bits": law.size}
    asked = {"name": name, "question": question.to_json(), "participants": participants, "reports_max": reports_max}
    return asked | form


def find_survey(url: str, name: str, **connection: Any) -> Survey:
    """Return a survey, as anybody sees it; no token is sent.

    Parameters
    ----------
    url : str
        Address of the curator, without ``/v1``.
    name : str
        Name of the survey.
    **connection
        ``timeout_s``, ``max_attempts`` and what else `Transport` takes.

    Returns
    -------
    Survey
        Compare its question's digest with what the study published before answering.

    Raises
    ------
    ServiceError
        Where the survey takes no reports on its question, as this client reads it.
    CuratorError
        See `analyst_client.errors`.

    Examples
    --------
    >>> from analyst_client.local import find_survey
    >>> from analyst_client.tutorial import ADDRESS, METHODS, Recorded
    >>> survey = find_survey(ADDRESS, "smoking", transport=Recorded(METHODS))  # in earnest without transport=
    >>> survey.question.study, float(survey.question.cost)
    ('smoking 2026', 1.0)
    """
    fields = _send(url, "GET", f"/v1/surveys/{path_segment(name)}", None, connection)
    survey = Survey.read(fields)
    if fields.text("question_digest") != survey.question.digest:  # a report would be paid for, and refused
        raise ServiceError("malformed answer: question_digest is not that of the question")
    return survey


def give_report(
    url: str, name: str, report: Mapping[str, Any], *, invitation: str | None = None, **connection: Any
) -> None:
    """Give a report to a survey; given again, after an answer that was lost, it changes nothing.

    Parameters
    ----------
    url : str
        Address of the curator, without ``/v1``.
    name : str
        Name of the survey.
    report : mapping
        Return value of `Participant.answer`: the one that is kept, so that nobody gets two of one person.
    invitation : str, optional
        Needed by a survey of invited people.
    **connection
        ``timeout_s``, ``max_attempts`` and what else `Transport` takes.

    Raises
    ------
    SurveyError
        Where the survey has ended, or the invitation gave another report.
    CuratorError
        See `analyst_client.errors`.

    Examples
    --------
    >>> from analyst_client.local import find_survey, give_report
    >>> from analyst_client.tutorial import ADDRESS, METHODS, Recorded
    >>> transport = Recorded(METHODS)  # in earnest there is none
    >>> survey = find_survey(ADDRESS, "smoking", transport=transport)
    >>> kept = {"question": survey.question.digest, "token": 16 * "5a", "answer": 1}  # of Participant.answer
    >>> give_report(ADDRESS, "smoking", kept, transport=transport)
    """
    body = dict(report) if invitation is None else {**report, "invitation": invitation}
    _send(url, "POST", f"/v1/surveys/{path_segment(name)}/reports", as_json(body), connection)


def _send(url: str, method: str, path: str, content: bytes | None, connection: Mapping[str, Any]) -> Fields:
    stated: dict[str, Any] = {"timeout_s": 30.0, "max_attempts": 4} | dict(connection)
    transport = Transport(url, Nobody(), **stated)
    try:
        answer: httpx.Response = transport.request(method, path, content=content)
        return Fields(parse_json(read_text(answer)))
    finally:
        transport.close()
