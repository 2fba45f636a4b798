"""Surveys: a question goes out, each report comes in once, nothing leads to who gave it, and nothing is charged."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import Api, World, carry_to, client_of, problem

from analyst_client.admin import CuratorAdmin
from analyst_client.errors import SurveyError
from analyst_client.local import (
    LInfinitySampler,
    Participant,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    UnaryEncoding,
    estimate_shares,
    find_survey,
    give_report,
    survey_terms,
)
from curator_service.identity.policy import Role
from curator_service.kit.limiter import RateLimiter
from curator_service.surveys.schemas import ReportRequest
from curator_service.surveys.service import SurveyEnded

URL = "http://127.0.0.1"
SMOKING = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=2, study="smoking 2026")


@dataclass
class Place:
    """A curator with a steward who runs surveys, and people who have no token."""

    world: World
    admin: CuratorAdmin
    people: dict[str, Any]
    api: Api

    def open(self, name: str = "smoking", question: Question = SMOKING, **terms: Any) -> None:
        self.admin.open_survey(survey_terms(name, question, **({"reports_max": 20} | terms)))


@pytest.fixture
def place(both: World) -> Iterator[Place]:
    api = both.api(None)
    with CuratorAdmin(URL, both.add_token("stella", Role.STEWARD), transport=carry_to(api)) as admin:
        yield Place(both, admin, {"transport": carry_to(api)}, api)


def test_people_answer_once_and_an_analyst_estimates(place: Place, tmp_path: Path) -> None:
    before = place.world.account()
    place.open()
    invitations = place.admin.invite("smoking", limit=20).invitations
    assert len({*invitations}) == 20
    found = find_survey(URL, "smoking", **place.people)
    assert (found.question, found.reports, found.is_open) == (SMOKING, 0, True)
    reports = []
    for number, invitation in enumerate(invitations[:12]):
        person = Participant(tmp_path / f"{number}.json", limit=2)
        reports.append(person.answer(found.question, "yes" if number % 3 else "no"))
        for _ in range(2):  # an answer may be lost
            give_report(URL, "smoking", reports[-1], invitation=invitation, **place.people)
    with client_of(place.world) as client:
        read = client.survey_reports("smoking")
    assert dict(zip(read.tokens, read.answers, strict=True)) == {one["token"]: one["answer"] for one in reports}
    assert list(read.tokens) == sorted(read.tokens)
    assert len(estimate_shares(read)) == 2
    assert place.admin.close_survey("smoking").is_open is False
    with pytest.raises(SurveyError):
        give_report(URL, "smoking", SMOKING.report("no"), invitation=invitations[12], **place.people)
    give_report(URL, "smoking", reports[0], invitation=invitations[0], **place.people)  # it is there
    assert find_survey(URL, "smoking", **place.people).reports == 12
    assert place.world.account() == before
    acts = [entry for entry in place.world.entries("_register") if entry["kind"].startswith("survey")]
    assert [act["kind"] for act in acts] == ["survey", "survey-closed"]
    assert acts[0]["question_digest"] == SMOKING.digest
    assert place.world.curator.ledger.verify("_register").ok


def send(place: Place, survey: str, report: dict[str, Any], invitation: str | None = None) -> Any:
    more = {} if invitation is None else {"invitation": invitation}
    return place.api.post(f"/v1/surveys/{survey}/reports", json=report | more, token=None)


def test_an_invitation_gives_one_report_of_its_own_survey(place: Place) -> None:
    place.open()
    place.open("another")
    (first, second), (foreign,) = (
        place.admin.invite(name, limit=count).invitations for name, count in (("smoking", 2), ("another", 1))
    )
    report = SMOKING.report("no")
    assert send(place, "smoking", report, first).status_code == 201
    number, code = first.split("_")[1:]
    beyond = f"inv_{21}_{code}"
    for wrong in (first, foreign, None, "", f"inv_0{number}_{code}", f"inv_2_{code}", beyond, first.upper(), "inv_1_"):
        problem(send(place, "smoking", SMOKING.report("no"), wrong), "report-refused", 403)
    assert send(place, "smoking", SMOKING.report("no"), second).status_code == 201
    other = report | {"answer": 1 - report["answer"]}
    problem(send(place, "smoking", other, first), "report-refused", 403)
    assert find_survey(URL, "smoking", **place.people).reports == 2
    assert place.admin.invite("smoking", after=19).invitations[0].startswith("inv_20_")
    assert place.admin.invite("smoking", after=20).invitations == ()


def test_nothing_leads_from_a_report_to_its_invitation(place: Place) -> None:
    """What is stored of either does not hold the other, nor a time; the embedded database keeps no order of rows."""
    place.open()
    invitations = place.admin.invite("smoking", limit=9).invitations
    reports = [SMOKING.report("yes") for _ in invitations]
    for report, invitation in [*zip(reports, invitations, strict=True)][::-1]:
        assert send(place, "smoking", report, invitation).status_code == 201
    stored = sorted(("smoking", report["token"], str(report["answer"])) for report in reports)
    assert sorted(place.world.sql("SELECT * FROM survey_reports")) == stored
    used = {code for _, code in place.world.sql("SELECT survey, code FROM used_invitations")}
    assert len(used) == 9
    assert not used & {invitation.split("_")[2] for invitation in invitations}
    if place.world.curator.database.is_sqlite:
        assert place.world.sql("SELECT * FROM survey_reports") == stored
        with pytest.raises(sqlite3.OperationalError, match="rowid"):
            place.world.sql("SELECT rowid FROM used_invitations")


def test_invitations_of_a_key_that_is_not_here_are_refused_and_not_in_error(place: Place) -> None:
    place.open()
    (invitation,) = place.admin.invite("smoking", limit=1).invitations
    for path in place.world.settings.keys_folder.glob("*.pem"):
        path.rename(path.with_suffix(".away"))
    problem(send(place, "smoking", SMOKING.report("no"), invitation), "busy", 503)


def test_anybody_may_answer_where_the_survey_says_so_and_it_warns(place: Place) -> None:
    place.open(participants="anyone", reports_max=3)
    found = find_survey(URL, "smoking", **place.people)
    assert "as often as they like" in " ".join(found.protection)
    for _ in range(3):
        give_report(URL, "smoking", SMOKING.report("no"), **place.people)
    problem(send(place, "smoking", SMOKING.report("no")), "survey-ended", 409)
    refused = place.api.post("/v1/surveys/smoking/invitations", json={}, token=place.world.tokens["stella"])
    problem(refused, "request-invalid", 422)


def test_reports_that_come_at_once_are_as_many_as_may_be(place: Place) -> None:
    place.open(participants="anyone", reports_max=5)
    twice = [ReportRequest(**SMOKING.report("no")) for _ in range(6)] * 2

    def give(report: ReportRequest) -> bool:
        try:
            return place.world.curator.surveys.give("smoking", report, "192.0.2.1").token == report.token
        except SurveyEnded:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(give, twice)) >= 5
    with client_of(place.world) as client:
        assert len(client.survey_reports("smoking")) == find_survey(URL, "smoking", **place.people).reports == 5


@pytest.mark.parametrize(
    "question",
    [
        SMOKING,
        UnaryEncoding({"ward": ["a", "b", "c"]}, epsilon="1/2"),
        PiecewiseMechanism({"age": (0, 120)}, epsilon=3),
        LInfinitySampler({"age": (0, 120), "bmi": (10, 60)}, epsilon=1, protects="group"),
    ],
    ids=lambda question: question.mechanism,
)
def test_answers_of_every_mechanism_fit_and_others_do_not(place: Place, question: Question) -> None:
    place.open("asked", question, participants="anyone")
    columns = question.columns  # type: ignore[attr-defined]
    record = {name: values[0] for name, values in columns.items()}
    report = question.report(record)
    assert send(place, "asked", report).status_code == 201
    size = question.law.size
    for wrong in (-1, size, "0" * size, "0" * (size - 1), "2" * size, 10**30, 0.5, True, None, [0], "0"):
        is_one = question.law.reads(wrong)
        answer = send(place, "asked", question.report(record) | {"answer": wrong})
        assert answer.status_code == (201 if is_one else 422), wrong
    problem(send(place, "asked", SMOKING.report("no") | {"question": "0" * 64}), "request-invalid", 422)
    assert find_survey(URL, "asked", **place.people).question == question


def test_a_survey_is_named_once_and_says_what_its_answers_are(place: Place) -> None:
    place.open()
    with pytest.raises(SurveyError):
        place.open()
    terms = survey_terms("other", SMOKING, reports_max=5)
    token = place.world.tokens["stella"]
    epsilon = terms["question"] | {"epsilon": "0/1"}
    wrongs = (
        {"below": None},
        {"bits": 3},
        {"reports_max": 0},
        {"name": "a/b"},
        {"question": {}},
        {"question": epsilon},
    )
    for wrong in wrongs:
        problem(place.api.post("/v1/surveys", json=terms | wrong, token=token), "request-invalid", 422)
    problem(place.api.get("/v1/surveys/other", token=None), "survey-not-found", 404)
    with client_of(place.world) as client, pytest.raises(SurveyError):
        client.survey_reports("other")
    assert [one.name for one in place.admin.list_surveys()] == ["smoking"]


def test_a_question_that_was_changed_in_the_tables_is_not_handed_out(place: Place) -> None:
    """Whoever may change the tables could ask people for more of their privacy."""
    place.open()
    asked = json.dumps(SMOKING.to_json() | {"epsilon": "20"}, sort_keys=True, separators=(",", ":"))
    place.world.sql(f"UPDATE surveys SET question = '{asked}'")
    problem(place.api.get("/v1/surveys/smoking", token=None), "ledger-unverified", 503)
    assert place.world.curator.ledger.guard.reason()


def test_strangers_give_no_more_reports_than_may_come_from_an_address(place: Place) -> None:
    place.open(participants="anyone", reports_max=1_000)
    place.api.app.state.curator.surveys.rate = RateLimiter(3, "reports of one address")
    assert [send(place, "smoking", SMOKING.report("no")).status_code for _ in range(5)] == [201, 201, 201, 429, 429]
