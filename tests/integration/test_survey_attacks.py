"""Attacks on surveys: by strangers, by who opens one, by a hostile curator, and by a database that was restored."""

import json
import math
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, get_args

import httpx
import pytest
from scenes import copy_of
from support import World, carry_to, client_of, problem
from test_surveys import SMOKING, URL, Place, send

from analyst_client import CuratorClient
from analyst_client.admin import CuratorAdmin
from analyst_client.errors import ServiceError
from analyst_client.local import Question, find_survey, give_report, survey_terms
from analyst_client.local.exact import EPSILON_MAX, EPSILON_MIN, PARTS_MAX
from curator_service.identity.policy import Role
from curator_service.kit.limiter import RateLimiter
from curator_service.surveys import schemas
from curator_service.surveys.schemas import LocalQuestion
from curator_service.surveys.service import describe_protection


@contextmanager
def place_of(world: World) -> Iterator[Place]:
    api = world.api(None)
    with CuratorAdmin(URL, world.tokens["stella"], transport=carry_to(api)) as admin:
        yield Place(world, admin, {"transport": carry_to(api)}, api)


@pytest.fixture
def place(both: World) -> Iterator[Place]:
    both.add_token("stella", Role.STEWARD)
    with place_of(both) as found:
        yield found


# --- Strangers


@pytest.mark.parametrize("name", ["%00", "smoking%00", "SMOKING", "smoking%0a", "%ff", "x" * 5000])
def test_no_name_that_a_stranger_writes_is_an_error_of_the_database(place: Place, name: str) -> None:
    place.open(participants="anyone")
    problem(place.api.get(f"/v1/surveys/{name}", token=None), "survey-not-found", 404)
    problem(send(place, name, SMOKING.report("no")), "survey-not-found", 404)
    page = place.api.get("/v1/surveys/smoking/reports?after=%00", token=place.world.tokens["ada"])
    problem(page, "request-invalid", 422)


def test_an_invitation_that_many_send_at_once_gives_one_report(place: Place) -> None:
    """To several processes, as it were: each application has its own connections."""
    place.open()
    (invitation,) = place.admin.invite("smoking", limit=1).invitations
    apis = [place.world.api(None) for _ in range(6)]
    reports = [SMOKING.report("no") | {"invitation": invitation} for _ in apis]
    with ThreadPoolExecutor(len(apis)) as pool:
        found = list(
            pool.map(
                lambda one: one[0].post("/v1/surveys/smoking/reports", json=one[1]), zip(apis, reports, strict=True)
            )
        )
    assert Counter(one.status_code for one in found) == {201: 1, 403: 5}


# --- Who opens a survey


def ask_raw(place: Place, **members: Any) -> httpx.Response:
    """Open a survey by hand, with other members of its question."""
    terms = survey_terms("raw", SMOKING, reports_max=5, participants="anyone")
    sent = json.dumps(terms | {"question": terms["question"] | members}).replace('"DEEP"', "[" * 300 + "]" * 300)
    headers = {"Content-Type": "application/json"}
    token = place.world.tokens["stella"]
    return place.api.post("/v1/surveys", content=sent.replace('"HUGE"', "1e400"), headers=headers, token=token)


@pytest.mark.parametrize("value", ["DEEP", "HUGE", "\ud800"])
def test_no_question_is_opened_that_cannot_be_shown_afterwards(place: Place, value: str) -> None:
    """A survey is there for good, so that the list of all of them could never be shown again."""
    problem(ask_raw(place, more=value), "request-invalid", 422)
    assert list(place.admin.list_surveys()) == []


@pytest.mark.parametrize("epsilon", ["000000000002/1", "02", "4/2"])
def test_epsilon_is_written_as_clients_write_it(place: Place, epsilon: str) -> None:
    problem(ask_raw(place, epsilon=epsilon), "request-invalid", 422)


def test_a_question_that_is_not_written_as_clients_do_is_refused_before_somebody_pays(place: Place) -> None:
    """The digest in their reports would be another one."""
    assert ask_raw(place, levels={"smoker": ["no", "yes"]}).status_code == 201
    with pytest.raises(ServiceError, match="question_digest"):
        find_survey(URL, "raw", **place.people)


@pytest.mark.parametrize("epsilon", ["1/1000", "7/10", "1", "20"])
def test_what_is_said_to_be_the_most_is_not_less(epsilon: str) -> None:
    above, below = (int(part) for part in (epsilon + "/1").split("/")[:2])
    asked = LocalQuestion(**SMOKING.to_json() | {"epsilon": epsilon})
    odds, (protected, *_, false) = math.exp(above / below), describe_protection(asked, "invited")
    assert odds <= float(protected.split("at most ")[1].split()[0]) <= 1.01 * odds
    assert (odds + 1) / (odds - 1) <= float(false.split("up to ")[1].split()[0])


# --- A database that was restored


def test_an_invitation_does_not_count_in_a_survey_of_its_name_and_place_in_a_restored_database(place: Place) -> None:
    restored = copy_of(place.world, anchor_lost=True)
    try:
        with place_of(restored) as after:
            after.open()
            ((there,),) = restored.sql("SELECT sequence FROM surveys")
            for i in range(there):
                ((last,),) = place.world.sql("SELECT head_sequence FROM populations WHERE name = '_register'")
                if last == there - 1:
                    break
                place.open(f"filler{i}")
            place.open()
            assert place.world.sql("SELECT sequence FROM surveys WHERE name = 'smoking'") == [(there,)]
            (invitation,) = place.admin.invite("smoking", limit=1).invitations
            problem(send(after, "smoking", SMOKING.report("no"), invitation), "report-refused", 403)
    finally:
        restored.close()


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"format": 2}'])
def test_a_text_in_the_tables_that_is_no_question_is_no_internal_error(place: Place, text: str) -> None:
    place.open()
    place.world.sql(f"UPDATE surveys SET question = '{text}'")
    problem(place.api.get("/v1/surveys/smoking", token=None), "ledger-unverified", 503)


# --- A hostile curator, and a client


@pytest.mark.parametrize("mechanism", ["piecewise", "l_infinity_sampler", "moment_sampler", "gradient_sampler"])
def test_a_process_that_asks_nothing_itself_knows_every_kind_of_question(mechanism: str) -> None:
    """A person's program finds a survey, and has no other need of its module."""
    run = f"""
from analyst_client.local import Question
try:
    Question.from_json({{"format": 1, "mechanism": {mechanism!r}}})
except ValueError:
    pass
print({mechanism!r} in Question._kinds)
"""
    assert subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_question_of_very_many_columns_takes_no_memory() -> None:
    bounds = [[f"c{i}", ["0", "1"]] for i in range(2_000)]
    asked = {"format": 1, "mechanism": "moment_sampler", "epsilon": "1", "study": "", "protects": "person"}
    Question.from_json(SMOKING.to_json())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="2000"):
            Question.from_json(asked | {"bounds": bounds, "target": "c0"})
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_pages_of_reports_that_do_not_end_are_an_error(place: Place) -> None:
    asked: list[httpx.Request] = []
    place.open()
    with client_of(place.world) as client:
        survey = client._session.ask("GET", "/v1/surveys/smoking").body.members

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        page = {"reports": [], "next": "0" * 32 if len(asked) < 9 else None}
        return httpx.Response(200, json=page if request.url.path.endswith("/reports") else survey)

    with (
        CuratorClient(URL, place.world.tokens["ada"], transport=httpx.MockTransport(answer)) as client,
        pytest.raises(ServiceError, match="page"),
    ):
        client.survey_reports("smoking")


def test_a_row_that_is_no_report_hides_no_other(place: Place) -> None:
    """Whoever may write tables could store what is no answer."""
    place.open(participants="anyone")
    give_report(URL, "smoking", SMOKING.report("no"), **place.people)
    place.world.sql("INSERT INTO survey_reports (survey, token, answer) VALUES ('smoking', '" + "0" * 32 + "', '{')")
    with client_of(place.world) as client:
        assert len(client.survey_reports("smoking")) == 1


def test_what_no_client_reads_is_refused(place: Place) -> None:
    assert (schemas.EPSILON_MIN, schemas.EPSILON_MAX, schemas.PARTS_MAX) == (EPSILON_MIN, EPSILON_MAX, PARTS_MAX)
    assert set(get_args(LocalQuestion.model_fields["mechanism"].annotation)) == set(Question._kinds)
    terms = survey_terms("other", SMOKING, reports_max=5)
    for wrong in ({"mechanism": "none"}, {"epsilon": "1/1001"}, {"epsilon": "21"}, {"epsilon": "1000001/1000003"}):
        asked = terms | {"question": terms["question"] | wrong}
        problem(place.api.post("/v1/surveys", json=asked, token=place.world.tokens["stella"]), "request-invalid", 422)


def test_strangers_look_no_more_often_than_may_come_from_an_address(place: Place) -> None:
    place.open()
    place.api.app.state.curator.surveys.rate = RateLimiter(2, "looks")
    assert [place.api.get("/v1/surveys/smoking", token=None).status_code for _ in range(3)] == [200, 200, 429]
