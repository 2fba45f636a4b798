"""Queries of surveys."""

from dataclasses import dataclass

from sqlalchemy import bindparam, insert, select, update

from curator_service.kit.db import Connection, Statement
from curator_service.surveys.models import SurveyReportRow, SurveyRow, UsedInvitationRow


@dataclass(frozen=True, slots=True)
class Stored:
    """A survey's row."""

    name: str
    sequence: int
    question: str
    reports: int
    closed_at: str


_SURVEY = select(
    SurveyRow.name, SurveyRow.sequence, SurveyRow.question, SurveyRow.reports, SurveyRow.closed_at
).order_by(SurveyRow.name)
_OF_SURVEY = SurveyReportRow.survey == bindparam("of")
_INSERT = Statement(insert(SurveyRow))
_FIND = Statement(_SURVEY.where(SurveyRow.name == bindparam("of")))
_LIST = Statement(_SURVEY)
_CLOSE = Statement(
    update(SurveyRow)
    .where(SurveyRow.name == bindparam("of"), SurveyRow.closed_at == "")
    .values(closed_at=bindparam("at"))
)
_COUNT = Statement(
    update(SurveyRow).where(SurveyRow.name == bindparam("of")).values(reports=SurveyRow.reports + bindparam("more"))
)
_FIND_REPORT = Statement(select(SurveyReportRow.answer).where(_OF_SURVEY, SurveyReportRow.token == bindparam("token")))
_INSERT_REPORT = Statement(insert(SurveyReportRow))
_LIST_REPORTS = Statement(
    select(SurveyReportRow.token, SurveyReportRow.answer)
    .where(_OF_SURVEY, SurveyReportRow.token > bindparam("after"))
    .order_by(SurveyReportRow.token)
    .limit(bindparam("count"))
)
_FIND_USED = Statement(
    select(UsedInvitationRow.code).where(
        UsedInvitationRow.survey == bindparam("of"), UsedInvitationRow.code == bindparam("code")
    )
)
_INSERT_USED = Statement(insert(UsedInvitationRow))


def insert_survey(connection: Connection, name: str, sequence: int, question: str) -> None:
    """Insert a survey that is open."""
    _INSERT.execute(connection, name=name, sequence=sequence, question=question, reports=0, closed_at="")


def find_survey(connection: Connection, name: str) -> Stored | None:
    """Return a survey's row, or None."""
    row = _FIND.first(connection, of=name)
    return None if row is None else Stored(*row)


def list_surveys(connection: Connection) -> list[Stored]:
    """Return the rows of all surveys, by name."""
    return [Stored(*row) for row in _LIST.all(connection)]


def close_survey(connection: Connection, name: str, moment: str) -> bool:
    """Close a survey; False if it is closed."""
    return _CLOSE.changed(connection, of=name, at=moment) == 1


def lock_survey(connection: Connection, name: str) -> Stored:
    """Keep other reports waiting until this unit of work has ended, and return the survey's row."""
    _COUNT.execute(connection, of=name, more=0)
    found = find_survey(connection, name)
    assert found is not None
    return found


def find_answer(connection: Connection, name: str, token: str) -> str | None:
    """Return the answer of a report, or None where there is none with this token."""
    row = _FIND_REPORT.first(connection, of=name, token=token)
    return None if row is None else str(row[0])


def insert_report(connection: Connection, name: str, token: str, answer: str) -> None:
    """Insert a report, its survey locked."""
    _COUNT.execute(connection, of=name, more=1)
    _INSERT_REPORT.execute(connection, survey=name, token=token, answer=answer)


def list_reports(connection: Connection, name: str, *, after: str, count: int) -> list[tuple[str, str]]:
    """Return tokens and answers after a token. Tokens are random, so their order tells nothing of who came when."""
    return [(token, answer) for token, answer in _LIST_REPORTS.all(connection, of=name, after=after, count=count)]


def use_invitation(connection: Connection, name: str, code: str) -> bool:
    """Note that an invitation was used, its survey locked; False if it was."""
    if _FIND_USED.first(connection, of=name, code=code) is not None:
        return False
    _INSERT_USED.execute(connection, survey=name, code=code)
    return True
