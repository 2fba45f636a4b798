"""The dashboard as browsers without scripts see it: sessions, forms, who sees and does what, and numbers."""

import hashlib
import html
import json
import re
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest
from dashboard_worlds import MARKUP, ORIGIN, PEOPLE, Person, fields_of, furnished_world, session_of, text_of, token_of
from starlette.routing import Route
from support import TERMS, World, ZeroNoise, body, open_world

from curator_service.approvals.entries import Discussed
from curator_service.backup import write_backup
from curator_service.dashboard.browser import own_address
from curator_service.dashboard.pages.populations import months_between
from curator_service.dashboard.precision import expected_lengths
from curator_service.dashboard.rendering import write_brief, write_percent
from curator_service.dashboard.sessions import form_token
from curator_service.entries.base import REGISTER
from curator_service.identity.policy import POLICY, Role
from curator_service.kit.clock import timestamp
from curator_service.kit.db import Base
from curator_service.ledger.chain.attestation import list_attested
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.search import list_entries_that_say
from curator_service.permits.spending import By, list_spent, write_csv
from curator_service.privacy.accountant import Price
from curator_service.privacy.guessing import best_guess, percent_up

COOKIE = "__Host-curator-session"
POLICY_TEXT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world with half a year behind it, which tests of this module look at and do not change."""
    with furnished_world(tmp_path_factory.mktemp("past")) as world:
        yield world


@pytest.fixture(scope="module")
def people(past: World) -> dict[str, Person]:
    """Return everybody, signed in, at one application."""
    first = Person(past, "olga")
    return {who: first if who == "olga" else Person(past, who, app=first.app) for who in PEOPLE}


@pytest.fixture
def officers(world: World) -> World:
    """Return a world with three privacy officers, and an auditor."""
    for who in ("olga", "otto", "ruth"):
        world.add_token(who, Role.PRIVACY_OFFICER)
    return world


def list_said(world: World, proposal_id: str) -> list[Discussed]:
    """Return what the register has of a discussion."""
    holds, about = world.curator.ledger.guard.trust.holds, ("proposal", [proposal_id])
    with world.curator.database.read() as connection:
        return [one.said for one in list_attested(connection, REGISTER, Discussed, holds, about=about)]


def releases_of(world: World) -> list[str]:
    """Return the ids of releases of the town."""
    return [entry["release"] for entry in world.entries() if entry["kind"] == "charge"]


def pages_of(world: World) -> list[str]:
    """Return the address of each kind of page, with what there is in a furnished world."""
    permit = next(one.id for one in world.curator.permits.list_permits() if one.terms.project == "frailty")
    return [
        "/admin", "/admin?q=town&sort=name", "/admin/populations/town", "/admin/ledger",
        "/admin/populations/town/ledger",
        "/admin/populations/town/ledger/6", "/admin/populations/town/ledger/37", "/admin/spending",
        "/admin/spending?by=month&by=kind&population=town", "/admin/permits", f"/admin/permits/{permit}",
        "/admin/permits/ask", f"/admin/permits/{permit}/change", "/admin/proposals",
        *(f"/admin/proposals/{one.id}" for one in world.curator.approvals.list_proposals()),
        "/admin/proposals/population", "/admin/datasets",
        "/admin/releases", *(f"/admin/releases/{one}" for one in releases_of(world)[:2]),
        "/admin/datasets/cohort", "/admin/inbox", "/admin/tokens/new", "/admin/surveys", "/admin/surveys/smoking",
        "/admin/sessions",
        f"/admin/sessions/{session_of(world)}", "/admin/tokens",
        "/admin/people", "/admin/people/otto", "/admin/keys", "/admin/nothing-here",
    ]  # fmt: skip


def routes_of(app: Any) -> list[Route]:
    """Return the pages' own routes, however they are nested."""
    found, pending = [], list(app.routes)
    while pending:
        route = pending.pop()
        if getattr(route, "path", "").startswith("/admin") and hasattr(route, "endpoint"):
            found.append(route)
        pending += getattr(route, "routes", None) or []
        pending += getattr(getattr(route, "original_router", None), "routes", None) or []
    return found


class Tags(HTMLParser):
    """Every tag of a page, with its attributes as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def amounts(page: str) -> dict[str, list[str]]:
    """Return the rows of a table of amounts: what each number says, by the row's title."""
    rows = re.findall(r"<tr[^>]*>\s*<th scope=\"row\">(.*?)</th>(.*?)</tr>", page, re.DOTALL)
    return {
        text_of(title).strip(): [text_of(one) for one in re.findall(r"<td[^>]*>(.*?)</td>", row)] for title, row in rows
    }


def stated(amount: dict[str, Any]) -> list[str]:
    """Return an amount of the interface as a page must say it."""
    notions = [amount[name] for name in ("epsilon", "mu", "rho")]
    return ["–" if value is None else repr(value) for value in notions] + [amount["units"]]


class TestSignIn:
    def test_a_token_begins_a_session_that_is_bound_to_this_host_and_out_of_reach_of_scripts(
        self, world: World
    ) -> None:
        person = Person(world)
        answer = person.sign_in(world.tokens["ada"])
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
        cookies = answer.headers.get_list("set-cookie")
        attributes = {part.strip() for part in next(one for one in cookies if COOKIE in one).split(";")[1:]}
        assert attributes == {"Path=/", "HttpOnly", "SameSite=Strict", "Secure"}
        assert person.get("/admin").status_code == 200

    def test_neither_the_session_s_id_nor_the_token_is_stored_or_shown(self, world: World) -> None:
        person = Person(world, "ada")
        session, secret = person.cookies[COOKIE], world.tokens["ada"].split("_", 2)[2]
        with sqlite3.connect(world.settings.data_dir / "curator.sqlite3") as connection:
            stored = "\n".join(connection.iterdump())
        assert "browser_sessions" in stored
        for hidden in (session, world.tokens["ada"], secret):
            assert hidden not in stored
            assert all(hidden not in person.get(page).text for page in ("/admin", "/admin/keys"))

    def test_a_loopback_without_tls_has_a_cookie_under_another_name_and_no_other_host_has(self, world: World) -> None:
        local, remote = Person(world, origin="http://127.0.0.1:8000"), Person(world, origin="http://curator.test")
        assert local.sign_in(world.tokens["ada"]).status_code == 303
        assert set(local.cookies) == {"curator-session"}
        assert local.get("/admin").status_code == 200
        sent = remote.get("/admin/sign-in").headers["set-cookie"]
        assert sent.startswith("__Host-curator-entry=")
        assert sent.endswith("; Secure")

    @pytest.mark.parametrize("token", ["", "cur_0", "cur_0123456789abcdef_" + "A" * 43, "Bearer x", "é" * 60])
    def test_whatever_is_no_token_begins_nothing(self, world: World, token: str) -> None:
        person = Person(world)
        answer = person.sign_in(token)
        assert answer.status_code == 403
        assert COOKIE not in answer.headers.get("set-cookie", "")
        assert person.get("/admin").status_code == 303

    def test_a_session_that_somebody_else_has_set_is_not_taken_over(self, world: World) -> None:
        attacker, victim = Person(world, "ben"), Person(world)
        planted = attacker.cookies[COOKIE]
        victim.cookies.set(COOKIE, planted, domain="curator.test", path="/")
        form = re.search(r'name="form_token"', victim.get("/admin/sign-in").text)
        assert form is None  # a session that holds leads on; and whoever signs in with no session gets a new id
        free = Person(world)
        free.cookies.set(COOKIE, "A" * 43, domain="curator.test", path="/")
        free.sign_in(world.tokens["ada"])
        ids = [cookie.value for cookie in free.cookies.jar if cookie.name == COOKIE]
        assert any(one not in {"A" * 43, planted} for one in ids)

    @pytest.mark.parametrize("wrong", ["no cookie", "foreign form", "no form token", "other origin", "says nothing"])
    def test_nobody_is_signed_in_by_a_form_of_another_page(self, world: World, wrong: str) -> None:
        person, other = Person(world), Person(world)
        form, foreign = token_of(person.get("/admin/sign-in")), token_of(other.get("/admin/sign-in"))
        fields, headers = {"form_token": form, "token": world.tokens["ada"]}, {}
        if wrong == "no cookie":
            person.cookies.clear()
        elif wrong == "foreign form":
            fields["form_token"] = foreign
        elif wrong == "no form token":
            del fields["form_token"]
        elif wrong == "other origin":
            headers = {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"}
        else:
            headers = {"Origin": None, "Sec-Fetch-Site": None}
        assert person.post("/admin/sign-in", fields, headers=headers).status_code == 403
        assert COOKIE not in person.cookies

    @pytest.mark.parametrize(
        "address",
        [
            "https://evil.test/",
            "//evil.test",
            "/\\evil.test",
            "/v1/keys",
            "/administrator",
            "/admin\n/x",
            "javascript:x",
            "/admin/../elsewhere",
            "/admin/x/../../elsewhere?a=b",
            "/admin/%2e%2e/elsewhere",
            "/admin/.%2E/elsewhere",
            "/admin/./..",
        ],
    )
    def test_whoever_signs_in_goes_on_within_the_dashboard_alone(self, world: World, address: str) -> None:
        assert own_address(address) == "/admin"
        answer = Person(world).sign_in(world.tokens["ada"], next=address)
        assert answer.headers["location"] == "/admin"

    def test_whoever_is_not_signed_in_comes_back_to_the_page_that_was_asked_for(self, world: World) -> None:
        person = Person(world)
        answer = person.get("/admin/populations/town?rows=5")
        assert answer.headers["location"] == "/admin/sign-in?next=/admin/populations/town%3Frows%3D5"
        assert 'value="/admin/populations/town?rows=5"' in person.get(answer.headers["location"]).text

    def test_a_script_that_asks_for_a_part_of_a_page_is_sent_to_sign_in_as_a_whole(self, world: World) -> None:
        answer = Person(world).get("/admin?q=x", headers={"HX-Request": "true"})
        assert (answer.status_code, answer.text) == (200, "")
        assert answer.headers["hx-redirect"].startswith("/admin/sign-in?next=")


class TestSession:
    def is_in(self, person: Person) -> bool:
        return person.get("/admin").status_code == 200

    def test_it_ends_after_half_an_hour_without_a_page(self, both: World) -> None:
        person = Person(both, "ada")
        both.clock.advance(minutes=29)
        assert self.is_in(person)
        both.clock.advance(minutes=29)
        assert self.is_in(person)
        both.clock.advance(minutes=31)
        assert not self.is_in(person)

    def test_it_ends_after_eight_hours_however_busy(self, world: World) -> None:
        person = Person(world, "ada")
        for _ in range(8 * 3 - 1):
            both = world.clock.advance(minutes=20)
            assert both is None
            assert self.is_in(person)
        world.clock.advance(minutes=20)
        assert not self.is_in(person)

    def test_it_ends_with_its_token(self, world: World) -> None:
        revoked, expired = Person(world, "ada"), Person(world)
        world.curator.identity.revoke_token(world.tokens["ada"].split("_")[1])
        assert not self.is_in(revoked)
        token = world.curator.identity.create_token("cora", Role.ANALYST, days=1)
        world.clock.advance(hours=23, minutes=50)
        expired.sign_in(token.text)
        assert self.is_in(expired)
        world.clock.advance(minutes=11)
        assert not self.is_in(expired)

    def test_a_session_that_was_signed_out_of_cannot_be_replayed(self, world: World) -> None:
        person = Person(world, "ada")
        kept = person.cookies[COOKIE]
        assert person.submit("/admin", "/admin/sign-out").headers["location"] == "/admin/sign-in"
        assert COOKIE not in person.cookies
        person.cookies.set(COOKIE, kept, domain="curator.test", path="/")
        assert not self.is_in(person)

    def test_nobody_is_signed_out_by_another_page(self, world: World) -> None:
        person = Person(world, "ada")
        evil = {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"}
        form = token_of(person.get("/admin"))
        assert person.post("/admin/sign-out", {"form_token": form}, headers=evil).status_code == 403
        assert person.post("/admin/sign-out", {"form_token": "0" * 64}).status_code == 403
        assert self.is_in(person)

    def test_the_token_of_a_session_is_no_credential_of_the_interface(self, world: World) -> None:
        person = Person(world, "ada")
        assert person.get("/v1/datasets").status_code == 401
        assert (
            person.get("/v1/datasets", headers={"Authorization": f"Bearer {person.cookies[COOKIE]}"}).status_code == 401
        )

    @pytest.mark.parametrize(
        "changed",
        [
            "principal_id = '{olga}'", "token_id = '{token}'", "principal_id = '{olga}', token_id = '{token}'",
            "confirmed_at = '2026-03-01T12:10:00Z'", "ends_at = '2026-03-02T12:00:00Z'", "proof = ''",
            "kept = '{{}}'", "principal_id = '{olga}', token_id = '{token}', proof = (SELECT proof FROM other)",
        ],
    )  # fmt: skip
    def test_a_row_that_somebody_changed_is_no_session(self, officers: World, changed: str) -> None:
        """Whoever has the database's login, and not the host, is not made an officer by a session of an analyst."""
        olga, ada = Person(officers, "olga"), Person(officers, "ada")
        ((theirs, token, _),) = officers.sql(
            "SELECT principal_id, token_id, proof FROM browser_sessions s JOIN principals p ON p.id = s.principal_id "
            "WHERE p.name = 'olga'"
        )
        text = changed.format(olga=theirs, token=token).replace("other", "browser_sessions WHERE id_hash <> s.id_hash")
        own = hashlib.sha256(ada.cookies[COOKIE].encode()).hexdigest()
        officers.sql(f"UPDATE browser_sessions AS s SET {text} WHERE id_hash = '{own}'")
        assert not self.is_in(ada)
        assert self.is_in(olga)

    def test_without_the_private_keys_nobody_signs_in_and_is_told_why(self, world: World) -> None:
        world.settings.keys_folder.rename(world.folder / "elsewhere")
        answer = Person(world).sign_in(world.tokens["ada"])
        assert answer.status_code == 503
        assert "private keys are not here" in text_of(answer.text)

    def test_a_session_that_cannot_be_proved_leads_to_the_page_that_says_why(self, world: World) -> None:
        person = Person(world, "ada")
        world.settings.keys_folder.rename(world.folder / "elsewhere")
        started = Person(world)  # another process, which has not seen the keys
        started.cookies.update(person.cookies)
        answer = started.get("/admin/keys")
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/sign-in?next=/admin/keys")
        answer = started.get("/admin/sign-in")
        assert answer.status_code == 503
        assert "private keys are not here" in text_of(answer.text)

    def test_the_oldest_of_one_person_ends_where_there_are_as_many_as_may_be(
        self, both: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("curator_service.dashboard.sessions.SESSIONS_MAX", 2)
        other = Person(both, "ben")
        opened = []
        for _ in range(3):
            both.clock.advance(seconds=1)
            opened.append(Person(both, "ada", app=other.app))
        assert [self.is_in(person) for person in (*opened, other)] == [False, True, True, True]

    def test_whoever_has_none_writes_nothing_by_signing_out(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stranger, made_up = Person(world), "A" * 43
        headers = {"Cookie": f"{COOKIE}={made_up}"}
        with monkeypatch.context() as watched:
            watched.setattr(stranger.app.state.curator.database, "begin", None)
            answer = stranger.post("/admin/sign-out", {"form_token": form_token(made_up)}, headers=headers)
        assert answer.headers["location"] == "/admin/sign-in"

    def test_a_backup_holds_no_session_so_that_none_comes_back(self, world: World, tmp_path: Path) -> None:
        Person(world, "ada")
        assert "browser_sessions" not in write_backup(world.curator, tmp_path / "backup.tar")["rows"]


class TestRates:
    def test_who_asks_for_many_pages_is_told_when_to_look_again_and_nobody_else_is(self, tmp_path: Path) -> None:
        with open_world(tmp_path, requests_per_minute=5) as world:
            ada = Person(world, "ada")  # signing in is one of them
            ben = Person(world, "ben", app=ada.app)
            assert [ada.get("/admin").status_code for _ in range(4)] == [200] * 4
            answer = ada.get("/admin/keys")
            assert (answer.status_code, 1 <= int(answer.headers["retry-after"]) <= 12) == (429, True)
            assert f"Open this page again in {answer.headers['retry-after']} s" in text_of(answer.text)
            assert 'aria-label="Pages"' in answer.text  # within the frame of every page
            assert "Idempotency-Key" not in answer.text
            # Another session is not another person; a program of the same person, and other people, are served.
            assert Person(world, app=ada.app).sign_in(world.tokens["ada"]).status_code == 429
            assert ada._api.get("/v1/keys", token=world.tokens["ada"]).status_code == 200
            assert ben.get("/admin").status_code == 200

    def test_a_form_beyond_the_rate_does_nothing(self, tmp_path: Path) -> None:
        with open_world(tmp_path, requests_per_minute=2) as world:
            world.add_token("olga", Role.PRIVACY_OFFICER)
            person, before = Person(world, "olga"), world.account().limit
            form = {"form_token": token_of(person.get("/admin")), "notion": "mu", "mu": "0.1", "reason": "less"}
            assert person.post("/admin/populations/town/limit", form).status_code == 429
            assert world.account().limit == before


class TestForms:
    @pytest.mark.parametrize(
        ("form", "headers"),
        [
            ("none", {}),
            ("foreign", {}),
            ("of somebody else", {}),
            ("own", {"Origin": "https://evil.test"}),
            ("own", {"Origin": "null"}),
            ("own", {"Origin": "http://curator.test"}),
            ("own", {"Sec-Fetch-Site": "same-site"}),
            ("own", {"Sec-Fetch-Site": "cross-site", "Origin": None}),
            ("own", {"Sec-Fetch-Site": None, "Origin": None}),
        ],
    )
    def test_no_act_is_done_by_a_form_that_the_session_was_not_shown(
        self, officers: World, form: str, headers: dict[str, str | None]
    ) -> None:
        """Of every address that a form can be posted to: one that is added is tried, too."""
        person, other = Person(officers, "olga"), Person(officers, "otto")
        own, theirs = token_of(person.get("/admin")), token_of(other.get("/admin"))
        token = {"none": "", "foreign": "0" * 64, "of somebody else": theirs, "own": own}[form]
        values = {
            "population": "town",
            "permit_id": "x",
            "proposal_id": "x",
            "token_id": "x",
            "session_id": "x",
            "survey": "x",
            "file_id": "x",
            "name": "olga",
        }
        before = [officers.account(name).sequence for name in ("town", "valley")]
        posted = 0
        for route in routes_of(person.app):
            if "POST" in (route.methods or ()) and not route.path.endswith("/sign-in"):
                address = re.sub(r"{(\w+)(:\w+)?}", lambda found: values[found[1]], route.path)
                fields = {"form_token": token, "notion": "mu", "mu": "0.1", "reason": "x"}
                assert person.post(address, fields, headers=headers).status_code == 403, address
                posted += 1
        assert posted == 23
        assert [officers.account(name).sequence for name in ("town", "valley")] == before
        assert person.get("/admin").status_code == 200

    def test_a_form_is_no_upload_and_no_json(self, officers: World) -> None:
        person = Person(officers, "olga")
        answer = person._request(
            "POST",
            "/admin/permits/ask",
            json={"form_token": "x"},
            headers={"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"},
        )
        assert answer.status_code == 415

    def test_every_form_that_is_posted_holds_the_session_s_own_token(
        self, past: World, people: dict[str, Person]
    ) -> None:
        own = token_of(people["olga"].get("/admin"))
        for page in pages_of(past):
            for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", people["olga"].get(page).text, re.DOTALL):
                assert f'name="form_token" value="{own}"' in form, page


class TestFreshness:
    def ask(self, person: Person, **fields: str) -> Any:
        asked = {"notion": "mu", "mu": "0.1", "epsilon": "", "reason": "less"} | fields
        return person.submit("/admin/populations/town", "/admin/populations/town/limit", **asked)

    def test_what_may_be_spent_is_changed_by_whoever_entered_the_token_just_now(self, officers: World) -> None:
        person = Person(officers, "olga")
        officers.clock.advance(minutes=4)
        assert self.ask(person).headers["location"] == "/admin/populations/town?done=restricted"
        assert officers.account().limit == 10**10

    def test_else_it_is_asked_for_again_and_what_was_filled_in_is_kept(self, officers: World) -> None:
        person = Person(officers, "olga")
        officers.clock.advance(minutes=6)
        answer = self.ask(person)
        assert answer.status_code == 403
        assert 'name="mu" value="0.1"' in answer.text
        assert officers.account().sequence == len(officers.entries())
        before = officers.account().limit
        for wrong in ("cur_wrong", officers.tokens["otto"]):
            assert self.ask(person, token=wrong).status_code == 403
        assert officers.account().limit == before
        again = self.ask(person, token=officers.tokens["olga"])
        assert again.headers["location"] == "/admin/populations/town?done=restricted"
        assert officers.tokens["olga"] not in again.text
        assert self.ask(person, mu="0.05").status_code == 303  # it counts for the next minutes

    def test_every_act_that_changes_what_may_be_spent_asks(self, officers: World) -> None:
        roles = (Role.PRIVACY_OFFICER, Role.OPERATOR, Role.STEWARD)
        officers.tokens["rosa"] = officers.curator.identity.create_token("rosa", *roles).text
        person = Person(officers, "rosa")
        officers.clock.advance(minutes=6)
        form = token_of(person.get("/admin"))
        for address in (
            "/admin/populations/town/limit",
            "/admin/proposals/prp_0/approve",
            "/admin/permits/prm_0/change",
            "/admin/permits/prm_0/end",
            "/admin/tokens/0/revoke",
            "/admin/tokens/new",
            "/admin/tokens/0/rotate",
            "/admin/inbox/0",
            "/admin/sessions/ses_0/close",
            "/admin/surveys/smoking/close",
        ):
            answer = person.post(address, {"form_token": form})
            assert answer.status_code == 403, address
            assert "Enter your token again" in answer.text


class TestPolicy:
    """Links follow the policy; `test_authorization` has the answers of pages to each caller."""

    @pytest.mark.parametrize("who", list(PEOPLE))
    def test_a_page_that_may_not_be_opened_is_not_linked(
        self, past: World, people: dict[str, Person], who: str
    ) -> None:
        person, shown, closed = people[who], people[who].get("/admin").text, 0
        for page in pages_of(past)[:-1]:
            path = page.partition("?")[0]
            if path.count("/") == 2 and person.get(page).status_code == 403:
                closed += 1
                assert f'href="{path}"' not in shown
        assert closed or who in {"olga", "otto", "root", "audra"}

    @pytest.mark.parametrize("who", ["audra", "opal", "stella", "ada"])
    def test_what_may_not_be_done_is_not_shown(self, past: World, people: dict[str, Person], who: str) -> None:
        person = people[who]
        acts = {route.path: route.endpoint.action for route in routes_of(person.app)
                if "POST" in route.methods and hasattr(route.endpoint, "action")}  # fmt: skip
        for page in pages_of(past):
            found = re.findall(r'(?:form)?action="(/admin/[^"]+)"', person.get(page).text)
            for address in set(found) - {"/admin/sign-out"}:
                for path, action in acts.items():
                    if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), address):
                        assert any(role in POLICY[action] for role in PEOPLE[who]), (page, address)

    def test_whoever_only_looks_reads_what_waits_and_is_shown_no_act(
        self, past: World, people: dict[str, Person]
    ) -> None:
        person = Person(past, app=people["olga"].app)
        token = past.curator.identity.create_token("olga", Role.PRIVACY_OFFICER, read_only=True, days=400)
        person.sign_in(token.text)
        for page in pages_of(past):
            found = re.findall(r'method="post" action="(/admin/[^"]+)"|formaction="', person.get(page).text)
            looks = ["/admin/ledger/receipt"] if page == "/admin/ledger" else []  # nothing is done by it
            assert found == ["/admin/sign-out", *looks], page
        assert person.submit("/admin/ledger", "/admin/ledger/receipt", receipt="{}").status_code == 422
        shown = person.get("/admin/proposals")
        assert "nursing-homes" in shown.text
        assert 'href="/admin/proposals/population"' not in shown.text
        assert 'href="/admin/proposals"' in person.get("/admin").text

    def test_an_analyst_sees_nothing_of_what_was_not_granted(self, past: World, people: dict[str, Person]) -> None:
        person = people["ada"]
        theirs = [one.id for one in past.curator.permits.list_permits() if "ada" not in one.people.values()]
        assert theirs
        for page in (
            "/admin/populations/valley",
            "/admin/datasets/hidden",
            "/admin/populations/olmsted",
            *(f"/admin/permits/{permit}" for permit in theirs),
            *(f"/admin/permits/{permit}/change" for permit in theirs),
        ):
            assert person.get(page).status_code == 404, page
        for page in ("/admin", "/admin/permits", "/admin/datasets", "/admin/populations/town", "/admin/permits/ask"):
            shown = person.get(page).text
            for hidden in ("valley", "hidden<", "hidden,", "olmsted", "registry-2019", "frailty", *theirs):
                assert hidden not in shown, (page, hidden)
        assert "kidney-2027" in person.get("/admin/permits").text


class TestNumbers:
    def test_the_overview_s_are_those_of_the_interface(self, past: World, people: dict[str, Person]) -> None:
        page = people["olga"].get("/admin").text
        articles = dict(re.findall(r'<article[^>]*data-population="([^"]+)">(.*?)</article>', page, re.DOTALL))
        assert set(articles) == {"town", "valley", "olmsted", "registry-2019", "maternity"}
        for name, article in articles.items():
            budget = people["olga"].get(f"/v1/ledger/{name}", headers=bearer(past, "olga")).json()
            rows = amounts(article)
            for title, member in (
                ("spent", "posted"),
                ("held", "pending"),
                ("limit",) * 2,
                ("left", "remaining"),
                ("highest limit", "highest_limit"),
            ):
                assert rows[title] == stated(budget[member]), (name, title)
            limit = int(budget["limit"]["units"])
            shares = {one: int(budget[one]["units"]) / limit for one in ("posted", "pending", "remaining")}
            assert re.findall(r"<b>([^<]*%)</b>", article) == [
                html.escape(write_percent(one)) for one in shares.values()
            ]
            assert f"ε = {write_brief(budget['limit']['epsilon'])}" in text_of(article)

    def test_what_is_left_is_told_in_studies_to_whoever_may_read_spending(
        self, past: World, people: dict[str, Person]
    ) -> None:
        permits, units = 1, past.account().posted
        assert (
            f"Can still buy {'not one' if past.account().remaining * permits < units else 'one'} more study"
            in text_of(people["olga"].get("/admin/populations/town").text)
        )
        assert "Can still buy" not in text_of(people["ada"].get("/admin/populations/town").text)

    def test_an_account_s_entry_s_and_permit_s_are_those_of_the_interface(
        self, past: World, people: dict[str, Person]
    ) -> None:
        olga, headers = people["olga"], bearer(past, "olga")
        ledger = olga.get("/v1/ledger/town?limit=1000", headers=headers).json()
        rows = amounts(olga.get("/admin/populations/town").text)
        for title, member in (("spent", "posted"), ("held", "pending"), ("left", "remaining"), ("limit",) * 2):
            assert rows[title] == stated(ledger[member]), title
        assert rows["highest limit"] == stated(ledger["highest_limit"])
        charge = next(entry for entry in ledger["entries"] if entry["kind"] == "charge")
        page = olga.get(f"/admin/populations/town/ledger/{charge['sequence']}").text
        assert amounts(page)["this entry"] == stated(dict(AmountModel.of(past.account().view(int(charge["units"])))))
        receipt = re.search(r'<pre id="receipt"[^>]*>(.*?)</pre>', page, re.DOTALL)
        assert receipt is not None
        assert f'"entry_hash":"{charge["entry_hash"]}"' in html.unescape(receipt[1])

    def test_spending_is_that_of_the_interface(self, past: World, people: dict[str, Person]) -> None:
        olga, headers = people["olga"], bearer(past, "olga")
        for groups in (["analyst", "project"], ["month"], ["dataset", "kind", "month"]):
            by = ",".join(groups)
            told = olga.get(f"/v1/admin/spending?by={by}", headers=headers).json()["spending"]
            page = olga.get("/admin/spending?" + "&".join(f"by={group}" for group in groups)).text
            rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", page, re.DOTALL)
            assert len(rows) == len(told) > 0
            for row, one in zip(rows, told, strict=True):
                shown = [text_of(cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
                assert shown[-2:] == [str(one["charges"]), f"{write_brief(one['spent']['epsilon'])} δ 1e-06"]
            csv = olga.get("/admin/spending.csv?" + "&".join(f"by={group}" for group in groups))
            found = list_spent(past.curator.database, [By(group) for group in groups])
            assert csv.text == write_csv(found, [By(group) for group in groups])
            assert csv.headers["content-type"].startswith("text/csv")

    def test_pages_of_spending_follow_each_other_and_leave_nothing_out(
        self, both: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from curator_service.dashboard.pages import spending

        for who in ("ada", "ben"):
            priced = {"price": {"mu": 0.01}, "fresh": True}
            for key, asked in enumerate(
                (body(**priced), {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], **priced})
            ):
                answer = both.api(who).post("/v1/datasets/cohort/releases", json=asked, key=f"k{key}")
                assert answer.status_code == 201, answer.text
        groups = [By.ANALYST, By.KIND]
        every = list_spent(both.curator.database, groups)
        assert [(one.population.name, *one.group.values(), one.charges) for one in every] == [
            ("town", "ada", "counts", 1), ("town", "ada", "gram", 1),
            ("town", "ben", "counts", 1), ("town", "ben", "gram", 1),
        ]  # fmt: skip
        assert list_spent(both.curator.database, groups, "valley") == []
        monkeypatch.setattr(spending, "PAGE", 1)
        person, address, seen = Person(both, "audra"), "/admin/spending?by=analyst&by=kind", []
        while address:
            page = person.get(address).text
            seen += re.findall(r'<code>(\w+)</code></span></td><td><bdi class="said">(\w+)</bdi></td>', page)
            following = re.search(r'rel="next" href="([^"]+)"', page)
            address = html.unescape(following[1]) if following else ""
        assert seen == [tuple(one.group.values()) for one in every]

    def test_what_was_left_by_month_begins_with_the_account(self) -> None:
        assert months_between("2025-12", "2026-02") == ["2025-12", "2026-01", "2026-02"]


def bearer(world: World, who: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {world.tokens[who]}"}


class TestText:
    def test_what_people_write_stays_text(self, past: World, people: dict[str, Person]) -> None:
        shown = 0
        for page in pages_of(past):
            text = people["olga"].get(page).text
            for harm in ("<img src=x", "<script>doc", "\u202e", "\u200f", "\u2066", "49 '&#34;"):
                assert harm not in text, (page, harm)
            shown += html.escape(MARKUP).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text
        assert shown >= 3
        assert "\\u202eevitisop" in people["olga"].get("/admin/proposals").text

    def test_pages_have_a_strict_policy_and_nothing_that_it_forbids(
        self, past: World, people: dict[str, Person]
    ) -> None:
        for page in [*pages_of(past), "/admin/sign-in"]:
            answer = people["otto"].get(page)
            assert answer.headers["content-security-policy"] == POLICY_TEXT
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-frame-options"] == "DENY"
            for tag, attributes in Tags(answer.text).found:
                assert tag != "style", page
                assert tag != "script" or "src" in attributes, page
                assert not [name for name in attributes if name == "style" or name.startswith("on")], page
                for name in ("src", "href", "action", "formaction"):
                    assert (attributes.get(name) or "/admin").startswith(("/admin", "#")), (page, attributes)

    def test_the_interface_keeps_its_own_policy(self, people: dict[str, Person]) -> None:
        headers = people["ada"].get("/healthz").headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"

    def test_files_are_kept_and_changed_ones_asked_for_anew(self, people: dict[str, Person]) -> None:
        page = people["ada"].get("/admin").text
        addresses = set(re.findall(r'"(/admin/static/[^"]+)"', page))
        assert len(addresses) == 4
        for address in addresses:
            answer = people["ada"].get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            assert re.fullmatch(r".*\?[0-9a-f]{16}", address)
        assert people["ada"].get("/admin/static/../models.py").status_code == 404


class TestPeople:
    def test_both_names_stand_on_every_page_that_names_somebody(self, past: World, people: dict[str, Person]) -> None:
        both = '<span class="person"><bdi class="said">Ada Lovelace</bdi> <code>ada</code></span>'
        permit = next(one.id for one in past.curator.permits.list_permits() if one.terms.project == "kidney-2027")
        for page in (
            "/admin/populations/town", "/admin/populations/town/ledger", "/admin/populations/town/ledger/6",
            "/admin/spending?by=analyst", "/admin/permits", f"/admin/permits/{permit}", "/admin/permits/ask",
            "/admin/releases?population=town", f"/admin/releases/{releases_of(past)[0]}", "/admin/sessions",
            f"/admin/sessions/{session_of(past)}", "/admin/tokens", "/admin/people",
        ):  # fmt: skip
            assert both in people["olga"].get(page).text, page
        assert both in people["ada"].get("/admin").text

    def test_a_changed_name_and_one_of_a_provider_are_shown_as_such(
        self, past: World, people: dict[str, Person]
    ) -> None:
        page = people["root"].get("/admin/people").text
        assert "Grace Hopper" not in page
        assert '<bdi class="said">cannot be shown</bdi> <code>audra</code>' in page
        assert "\\u202eevitisop\\u2066 \\u200fend&lt;img" in page
        assert '<bdi class="said">בן כהן</bdi> <code>ben</code>' in page
        shown = people["root"].get("/admin/people/audra").text
        assert 'name="display_name" required maxlength="100" autocomplete="off" dir="auto" value=""' in shown

    def test_people_are_found_by_either_name_and_by_e_mail(self, people: dict[str, Person]) -> None:
        for asked, found in (("lovelace", ["ada"]), ("כהן", ["ben"]), ("hospital.example", ["ada"]), ("oPA", ["opal"])):
            page = people["root"].get(f"/admin/people?q={asked}").text
            assert re.findall(r'<th scope="row">.*?<code>(\w+)</code>', page) == found, asked
        assert "There is nobody of this name." in people["root"].get("/admin/people?q=Grace").text

    def test_a_person_leads_to_tokens_permits_and_questions_also_by_the_displayed_name(
        self, past: World, people: dict[str, Person]
    ) -> None:
        page = people["olga"].get("/admin/people/ada").text
        for address in ("/admin/tokens?q=ada&amp;state=all", "/admin/permits?q=ada", "/admin/releases?who=ada"):
            assert f'href="{address}"' in page
            assert "Ada Lovelace" in people["olga"].get(html.unescape(address)).text
        assert "kidney-2027" in people["audra"].get("/admin/permits?q=lovelace").text
        assert "kidney-2027" not in people["audra"].get("/admin/permits?q=loveless").text
        assert "/admin/tokens" not in people["ada"].get("/admin/people/ada").text
        by_name = people["olga"].get("/admin/tokens?q=lovelace").text
        assert "Ada Lovelace" in by_name
        assert "Ольга" not in by_name[by_name.index('id="found"') :]

    def test_a_name_is_set_and_erased_on_a_page(self, both: World) -> None:
        both.add_token("opal", Role.OPERATOR)
        opal, form = Person(both, "opal"), {"display_name": "Ada Lovelace", "email": "ada@hospital.example"}
        form |= {"form_token": token_of(opal.get("/admin"))}
        answer = opal.post("/admin/people/ada/name", form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/people/ada?done=named")
        assert "Done. It is displayed" in opal.get(answer.headers["location"]).text
        refused = opal.post("/admin/people/ada/name", form | {"display_name": "\u0410da"})
        assert refused.status_code == 422
        assert "display_name: character 1, U+0410, is Cyrillic" in text_of(refused.text)
        assert 'value="\u0410da"' in refused.text
        answer = opal.post("/admin/people/ada/erase", {"form_token": form["form_token"]})
        assert (answer.status_code, answer.headers["location"]) == (303, "/admin/people/ada?done=name-erased")
        assert both.sql("SELECT count(*) FROM person_names") == [(0,)]
        assert "Lovelace" not in opal.get("/admin/people/ada").text

    def test_to_erase_takes_a_proof_of_who_that_is_and_to_set_leaves_no_form_behind(self, both: World) -> None:
        """A form that waits holds what was entered: a name would be in one more table."""
        ada = Person(both, "ada")
        form = {"form_token": token_of(ada.get("/admin")), "display_name": "Ada Lovelace"}
        both.clock.advance(minutes=6)
        assert ada.post("/admin/people/ada/name", form).status_code == 303
        assert ada.post("/admin/people/ada/erase", {"form_token": form["form_token"]}).status_code == 403
        assert both.sql("SELECT name FROM person_names") == [("Ada Lovelace",)]
        assert both.sql("SELECT DISTINCT kept FROM browser_sessions") == [("",)]

    def test_everybody_has_a_page_of_their_own_and_no_other(self, past: World, people: dict[str, Person]) -> None:
        ada = people["ada"]
        assert 'href="/admin/people/ada"' in ada.get("/admin").text
        assert 'href="/admin/people"' not in ada.get("/admin/people/ada").text
        assert ada.get("/admin/people/ben").status_code == 404
        assert 'href="/admin/people/audra"' not in people["audra"].get("/admin").text
        officer = people["olga"].get("/admin/people/ada").text
        assert 'action="/admin/people/ada/erase"' in officer
        assert 'action="/admin/people/ada/name"' not in officer


class TestLedger:
    def found(self, person: Person, query: str) -> list[str]:
        page = person.get(f"/admin/populations/town/ledger?{query}")
        assert page.status_code == 200
        return re.findall(r'class="kind kind-\w+" title="[^"]*">(\w+)<', page.text)

    def test_entries_are_found_by_what_they_say(self, past: World, people: dict[str, Person]) -> None:
        entries, olga = past.entries(), people["olga"]
        assert self.found(olga, "") == [entry["kind"] for entry in reversed(entries)]
        for kind in {entry["kind"] for entry in entries}:
            assert self.found(olga, f"kind={kind}") == [kind] * sum(entry["kind"] == kind for entry in entries)
        month = entries[10]["time"][:7]
        assert len(self.found(olga, f"month={month}")) == sum(entry["time"].startswith(month) for entry in entries)
        ids = {one.name: one.id for one in past.curator.identity.list_principals()}
        assert len(self.found(olga, "actor=ada")) == sum(entry["actor"] == ids["ada"] for entry in entries)
        assert len(self.found(olga, "actor=operator:test")) == sum(
            entry["actor"] == "operator:test" for entry in entries
        )
        permit = next(entry["permit"] for entry in entries if entry["kind"] == "charge")
        both = [entry for entry in entries if entry.get("permit") == permit and entry["kind"] == "charge"]
        assert self.found(olga, f"permit={permit}&kind=charge") == ["charge"] * len(both)
        assert self.found(olga, "actor=nobody") == []

    def test_pages_follow_each_other_and_leave_nothing_out(self, both: World, monkeypatch: pytest.MonkeyPatch) -> None:
        from curator_service.dashboard.pages import ledger
        from curator_service.ledger import search as repository

        monkeypatch.setattr(ledger, "PAGE", 2)
        monkeypatch.setattr(repository, "WINDOW", 3)
        for i in range(4):
            asked = body(price={"mu": 0.01}, fresh=True)
            assert both.api("ada").post("/v1/datasets/cohort/releases", json=asked, key=f"k{i}").status_code == 201
        person = Person(both, "audra")
        for query in ("kind=charge", "kind=permit", ""):
            address, seen = f"/admin/populations/town/ledger?{query}", []
            for _ in range(20):
                page = person.get(address).text
                seen += [int(number) for number in re.findall(r'/ledger/(\d+)">\d+</a></th>', page)]
                following = re.search(r'rel="next" href="([^"]+)"', page)
                if following is None:
                    break
                address = html.unescape(following[1])
            expected = [e["sequence"] for e in both.entries() if not query or e["kind"] == query.partition("=")[2]]
            assert seen == expected[::-1], query

    def test_what_stands_deeper_in_an_entry_is_not_what_it_says(self, both: World) -> None:
        text = '{"actor":"ada","kind":"charge","time":"2026-03-01T12:00:00Z","units":"1",'
        text += '"x":{"actor":"eve","time":"2020-"}}'
        both.sql(f"INSERT INTO ledger_entries VALUES ('town', 99, '{text}', '{'0' * 64}', '')")
        for said, found in (([("actor", "ada")], [99]), ([("actor", "eve")], []), ([("time", "2020-")], [])):
            with both.curator.database.read() as connection:
                entries, _ = list_entries_that_say(connection, "town", [*said, ("kind", "charge")], before=100, count=5)
            assert [entry.sequence for entry, _ in entries] == found

    def test_an_entry_that_holds_says_so_and_one_that_was_changed_does_too(self, world: World) -> None:
        person = Person(world, "audra")
        page = person.get("/admin/populations/town/ledger/2").text
        for what in ("Hash", "Link", "Signature"):
            assert f"{what} holds" in page
        for (name,) in world.sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger_entries'"
        ):
            world.sql(f"DROP TRIGGER {name}")
        world.sql("""UPDATE ledger_entries SET payload = replace(payload, '"actor":"operator:test"', '"actor":"nobody"')
                     WHERE population = 'town' AND sequence = 2""")
        page = person.get("/admin/populations/town/ledger/2").text
        assert "Hash does not hold" in page
        assert "Link holds" in page
        world.sql("UPDATE ledger_entries SET entry_hash = '%s' WHERE population = 'town' AND sequence = 2" % ("0" * 64))
        assert "Signature does not hold" in person.get("/admin/populations/town/ledger/2").text
        assert "Link does not hold" in person.get("/admin/populations/town/ledger/3").text
        world.sql("UPDATE ledger_entries SET payload = 'no entry' WHERE population = 'town' AND sequence = 2")
        assert "Hash does not hold" in person.get("/admin/populations/town/ledger/2").text
        assert person.get("/admin/populations/town/ledger").status_code == 200

    @pytest.mark.parametrize("sequence", ["0", "99", "-1", "x", "9" * 30, "２"])
    def test_what_is_no_entry_is_not_found(self, people: dict[str, Person], sequence: str) -> None:
        assert people["olga"].get(f"/admin/populations/town/ledger/{sequence}").status_code == 404


class TestActs:
    TERMS: ClassVar = {
        "project": "kidney", "people": "ada", "datasets": "cohort", "purpose": "kidneys", "legal_basis": "consent",
        "expires_at": "2099-01-01T00:00", "notion": "epsilon", "epsilon": "0.5", "delta": "1e-6", "reason": "a study",
    }  # fmt: skip

    def test_a_permit_is_asked_for_granted_by_another_changed_and_ended(self, officers: World) -> None:
        olga, otto = Person(officers, "olga"), Person(officers, "otto")
        assert olga.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS).status_code == 303
        proposal = officers.curator.approvals.list_proposals()[0]
        approve = f"/admin/proposals/{proposal.id}/approve"
        shown = f"/admin/proposals/{proposal.id}"
        assert 'value="approve"' not in olga.get(shown).text
        refused = olga.submit("/admin/proposals", approve, seen=proposal.digest, reason="mine")
        assert refused.status_code == 403
        assert "ask another privacy officer" in refused.text
        assert 'value="approve"' in otto.get(shown).text
        silent = otto.submit(shown, approve, seen=proposal.digest)
        assert (silent.status_code, "state why" in text_of(silent.text)) == (422, True)
        sure = otto.submit(shown, f"{shown}/confirm", seen=proposal.digest, outcome="approve", reason="a good study")
        assert sure.status_code == 200
        assert f'action="{approve}"' in sure.text
        assert "What is released under it cannot be taken back" in text_of(sure.text)
        assert officers.curator.approvals.get_proposal(proposal.id).state == "open"
        assert (
            otto.submit("/admin/proposals", approve, reason="sound", seen=proposal.digest)
            .headers["location"]
            .endswith("done=approved")
        )
        permit = officers.curator.permits.get_permit(proposal.label)
        assert permit.terms.expires_at == "2099-01-01T00:00:00Z"
        address = f"/admin/permits/{permit.id}"
        fewer = self.TERMS | {"epsilon": "0.25", "reason": "less will do"}
        assert olga.submit(f"{address}/change", f"{address}/change", **fewer).headers["location"].endswith("restricted")
        page = otto.get(address).text
        assert "Version 2 holds for town" in page
        assert "less will do" in page
        assert otto.submit(address, f"{address}/end", reason="it is over").headers["location"].endswith("done=ended")
        assert officers.curator.permits.get_permit(permit.id).ended_at
        assert "Ended for town" in otto.get(address).text

    def test_a_form_that_is_refused_says_why_and_keeps_what_was_entered(self, officers: World) -> None:
        olga = Person(officers, "olga")
        for wrong, said in (
            ({"people": "nobody"}, "there is no analyst 'nobody'"),
            ({"expires_at": "2001-01-01T00:00"}, "a permit ends in the future"),
            ({"epsilon": "much"}, "valid number"),
            ({"purpose": ""}, "a project states its purpose"),
        ):
            answer = olga.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS | wrong)
            assert answer.status_code == 422
            assert said in text_of(answer.text), text_of(answer.text)
            assert 'value="a study"' in answer.text
        lines = olga.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS | {"people": "ada\r\nnobody"})
        assert fields_of(lines)["people"] == ["ada\nnobody"]  # a browser ends lines with two signs
        assert officers.curator.approvals.list_proposals() == []

    def test_a_proposal_is_refused_with_a_reason(self, officers: World) -> None:
        olga, otto = Person(officers, "olga"), Person(officers, "otto")
        asked = {"notion": "epsilon", "epsilon": "2", "delta": "1e-6", "reason": "more"}
        answer = olga.submit("/admin/populations/town", "/admin/populations/town/limit", **asked)
        assert answer.headers["location"] == "/admin/populations/town?done=asked"
        proposal = officers.curator.approvals.list_proposals()[0]
        shown = f"/admin/proposals/{proposal.id}"
        otto.submit(shown, f"{shown}/reject", reason="not yet", seen=proposal.digest)
        decided = officers.curator.approvals.get_proposal(proposal.id)
        assert (decided.state, decided.decision) == ("rejected", "not yet")
        assert "not yet" not in otto.get("/admin/proposals").text
        assert "not yet" in otto.get("/admin/proposals?state=rejected").text

    def test_a_decision_of_somebody_else_in_the_meantime_is_shown_and_stays(self, officers: World) -> None:
        olga, otto, ruth = (Person(officers, who) for who in ("olga", "otto", "ruth"))
        asked = {"notion": "epsilon", "epsilon": "2", "delta": "1e-6", "reason": "more"}
        olga.submit("/admin/populations/town", "/admin/populations/town/limit", **asked)
        proposal = officers.curator.approvals.list_proposals()[0]
        shown, said = f"/admin/proposals/{proposal.id}", {"seen": proposal.digest, "reason": "it is enough"}
        assert ruth.submit(shown, f"{shown}/reject", **said | {"reason": "too much"}).status_code == 303
        for step in ("confirm", "approve", "reject"):
            late = (
                otto.submit(shown, f"{shown}/{step}", outcome="approve", **said)
                if step == "confirm"
                else otto.submit(shown, f"{shown}/{step}", **said)
            )
            assert late.status_code == 409, step
            told = text_of(late.text)
            assert "Nothing was done" in told
            assert "by ruth: too much" in " ".join(told.split())
        decided = officers.curator.approvals.get_proposal(proposal.id)
        assert (decided.state, decided.decision) == ("rejected", "too much")

    def test_questions_and_answers_stand_in_the_register_and_are_read_by_both(self, officers: World) -> None:
        ada, ben, otto, audra = (Person(officers, who) for who in ("ada", "ben", "otto", "audra"))
        asked = self.TERMS | {"people": "ada"}
        ada.submit("/admin/permits/ask", "/admin/permits/ask", **asked)
        proposal = officers.curator.approvals.list_proposals()[0]
        theirs, own = f"/admin/proposals/{proposal.id}", f"/admin/asked/{proposal.id}"
        question = otto.submit(theirs, f"{theirs}/messages", text=f"Why so much? {MARKUP}")
        assert question.headers["location"] == f"{theirs}?done=said"
        assert f'href="{own}"' in ada.get("/admin/permits").text
        assert "Why so much?" in text_of(ada.get(own).text)
        assert MARKUP not in ada.get(own).text
        assert ada.submit(own, f"{own}/messages", text="Intervals would be twice as long").status_code == 303
        for person in (otto, audra):
            assert "Intervals would be twice as long" in text_of(person.get(theirs).text)
        assert "/messages" not in audra.get(theirs).text
        assert ben.get(own).status_code == 404
        assert ben.post(f"{own}/messages", {"form_token": token_of(ben.get("/admin")), "text": "I"}).status_code == 404
        assert [one.text for one in list_said(officers, proposal.id)][1] == "Intervals would be twice as long"
        otto.submit(theirs, f"{theirs}/reject", seen=proposal.digest, reason="no")
        late = ada.submit(own, f"{own}/messages", text="but")
        assert late.status_code == 409
        assert "waits no more" in text_of(late.text)
        assert len(list_said(officers, proposal.id)) == 2

    def test_a_page_says_what_a_permit_takes_tells_and_risks_and_what_its_people_hold(self, officers: World) -> None:
        ada, otto = Person(officers, "ada"), Person(officers, "otto")
        ada.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS | {"epsilon": "0.5"})
        proposal = officers.curator.approvals.list_proposals()[0]
        page = " ".join(text_of(otto.get(f"/admin/proposals/{proposal.id}").text).split())
        account = officers.account()
        units = account.accountant.units_of(Price(epsilon=0.5, delta=1e-6))
        assert f"Of what is left{write_percent(units / account.remaining)}" in page
        assert f"at most {percent_up(best_guess([(account.accountant, units)]))} of 100 guesses" in page
        told = expected_lengths(account, (10_000,), units=units)[0]
        assert f"of a mean {told.mean / told.plain:.1f} times" in page
        left = account.view_left(account.remaining - units).epsilon
        assert f"Left once all of it is spent ε = {write_brief(left)}" in page.replace("spentε", "spent ε")
        assert "What these people hold already" in page
        assert "aplaingrantadatown" in page.replace(" ", "")
        officers.add_token("cleo", Role.ANALYST)
        ada.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS | {"people": "cleo", "project": "liver"})
        (other,) = [one for one in officers.curator.approvals.list_proposals() if one.id != proposal.id]
        assert "None of them holds another permit" in otto.get(f"/admin/proposals/{other.id}").text

    def test_a_granted_proposal_leads_to_its_permit_and_names_people_as_displayed(self, officers: World) -> None:
        ada, otto = Person(officers, "ada"), Person(officers, "otto")
        ids = {one.name: one.id for one in officers.curator.identity.list_principals()}
        officers.curator.identity.people.name(ids["ada"], "Ada Lovelace", "", actor=ids["ada"])
        ada.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS)
        proposal = officers.curator.approvals.list_proposals()[0]
        shown, link = f"/admin/proposals/{proposal.id}", f'href="/admin/permits/{proposal.label}"'
        page = otto.get(shown).text
        terms = page[page.index("<dt>people</dt>") : page.index("<dt>datasets</dt>")]
        assert "Ada Lovelace" in terms
        assert 'href="/admin/populations/town"' in page
        assert link not in page
        otto.submit(shown, f"{shown}/approve", seen=proposal.digest, reason="sound")
        assert link in otto.get(shown).text

    def test_the_queue_is_searched_by_state_subject_and_words(self, officers: World) -> None:
        ada, otto = Person(officers, "ada"), Person(officers, "otto")
        ada.submit("/admin/permits/ask", "/admin/permits/ask", **self.TERMS)
        otto.submit(
            "/admin/populations/town", "/admin/populations/town/limit",
            notion="epsilon", epsilon="2", delta="1e-6", reason="more",
        )  # fmt: skip
        for query, found in (
            ("", {"permit", ""}), ("about=limits", {""}), ("about=permits", {"permit"}), ("q=kidney", {"permit"}),
            ("q=otto", {""}), ("state=rejected", set()), ("state=every+state&q=ADA", {"permit"}), ("q=%25", set()),
        ):  # fmt: skip
            page = otto.get(f"/admin/proposals?{query}").text
            ids = set(re.findall(r'data-proposal="(prp_\w+)"', page))
            assert ids == {one.id for one in officers.curator.approvals.list_proposals() if one.scope in found}, query

    def test_whoever_asked_sees_the_decision_and_takes_the_rest_back(self, officers: World) -> None:
        ada, ben, otto, audra = (Person(officers, who) for who in ("ada", "ben", "otto", "audra"))
        form = {"people": "ada", "datasets": "cohort", "purpose": "p", "legal_basis": "l", "notion": ""}
        form |= {"expires_at": "2099-01-01T00:00"}
        for project in ("first", "second"):
            ada.submit(
                "/admin/permits/ask", "/admin/permits/ask", project=project, reason=f"the {project} study", **form
            )
        first, second = sorted(officers.curator.approvals.list_proposals(), key=lambda one: one.reason)
        reject = f"/admin/proposals/{first.id}/reject"
        otto.submit("/admin/proposals", reject, reason="no legal basis is named", seen=first.digest)
        shown = text_of(ada.get("/admin/permits").text)
        assert "What you have asked for" in shown
        assert "no legal basis is named" in shown
        assert "the first study" not in ben.get("/admin/permits").text
        taken = ada.submit("/admin/permits", f"/admin/proposals/{second.id}/withdraw")
        assert taken.headers["location"] == "/admin/permits?done=withdrawn"
        assert officers.curator.approvals.get_proposal(second.id).state == "withdrawn"
        page = audra.get("/admin/proposals?state=withdrawn").text  # an auditor looks, and has no form to decide with
        assert "the second study" in page
        assert "/confirm" not in audra.get(f"/admin/proposals/{first.id}").text
        assert "/reject" not in page

    def test_a_budget_is_proposed_and_given_by_another(self, officers: World) -> None:
        olga, otto = Person(officers, "olga"), Person(officers, "otto")
        form = "/admin/proposals/population"
        asked = {"name": "river", "adjacency": "add_remove", "accountant": "zcdp", "notion": "rho", "rho": "0.25"}
        refused = olga.submit(form, form, **asked | {"name": "town", "reason": "again"})
        assert refused.status_code == 409
        assert "a budget is given once" in text_of(refused.text)
        assert 'value="0.25"' in refused.text
        assert olga.submit(form, form, **asked, reason="a cohort").headers["location"] == "/admin/proposals?done=asked"
        assert "Give the population river a budget" in text_of(otto.get("/admin/proposals").text)
        proposal = officers.curator.approvals.list_proposals()[0]
        approve = f"/admin/proposals/{proposal.id}/approve"
        otto.submit("/admin/proposals", approve, seen=proposal.digest, reason="a cohort of its own")
        assert officers.account("river").limit == 250_000_000_000

    def test_a_limit_below_what_is_spent_is_refused_with_a_reason(self, officers: World) -> None:
        answer = officers.api("ada").post("/v1/datasets/cohort/releases", json=body(price={"mu": 0.1}), key="k")
        assert answer.status_code == 201
        olga = Person(officers, "olga")
        asked = {"notion": "mu", "mu": "0.01", "reason": "less"}
        answer = olga.submit("/admin/populations/town", "/admin/populations/town/limit", **asked)
        assert answer.status_code == 409
        assert "would fall below what is spent" in text_of(answer.text)

    def test_a_revoked_token_ends_its_session(self, world: World) -> None:
        ada, opal = Person(world, "ada"), Person(world)
        opal.sign_in(world.add_token("opal", Role.OPERATOR))
        token = world.tokens["ada"].split("_")[1]
        assert f"/admin/tokens/{token}/revoke" in opal.get("/admin/tokens").text
        answer = opal.submit("/admin/tokens", f"/admin/tokens/{token}/revoke")
        assert answer.headers["location"] == "/admin/tokens?done=revoked"
        assert ada.get("/admin").status_code == 303
        again = opal.submit("/admin/tokens", f"/admin/tokens/{token}/revoke")
        assert again.headers["location"] == "/admin/tokens?done=revoked"  # as whoever repeats it expects


class TestTokens:
    ASKED: ClassVar = {"name": "cora", "roles": "analyst", "days": "30"}

    @pytest.fixture
    def opal(self, both: World) -> Person:
        both.add_token("opal", Role.OPERATOR)
        return Person(both, "opal")

    def make(self, person: Person, **changes: Any) -> Any:
        entered = {name: [text] for name, text in (self.ASKED | changes).items()}
        return person.post("/admin/tokens/new", fields_of(person.get("/admin/tokens/new")) | entered)

    def test_one_is_shown_once_and_kept_nowhere(
        self, both: World, opal: Person, caplog: pytest.LogCaptureFixture
    ) -> None:
        fields = fields_of(opal.get("/admin/tokens/new")) | {"name": ["cora"]}
        made = opal.post("/admin/tokens/new", fields)
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        (text,) = re.findall(r"cur_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made.text)
        caller = both.api(None).get("/v1/me", token=text).json()
        assert (caller["name"], caller["roles"], caller["read_only"]) == ("cora", ["analyst"], False)
        secret = text.split("_", 2)[2]
        for table in Base.metadata.tables:
            assert secret not in str(both.sql(f"SELECT * FROM {table}"))
        assert secret not in caplog.text
        assert secret not in opal.get("/admin/tokens").text
        again = opal.post("/admin/tokens/new", fields)
        assert (again.status_code, "cannot be shown again" in text_of(again.text)) == (409, True)
        assert secret not in again.text
        assert [one.principal.name for one in both.curator.identity.list_tokens()].count("cora") == 1

    def test_it_has_the_roles_and_the_end_that_were_asked_for(self, both: World, opal: Person) -> None:
        made = self.make(opal, roles="auditor", days="7", read_only="yes")
        (text,) = re.findall(r"cur_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made.text)
        caller = both.api(None).get("/v1/me", token=text).json()
        assert (caller["roles"], caller["read_only"]) == (["auditor"], True)
        assert caller["expires_at"] == timestamp(both.clock() + timedelta(days=7))
        entries = both.curator.register.list_entries(after=0, count=1000)
        (entry,) = [one for one in entries if one["kind"] == "token" and one["holder"] == "cora"]
        assert entry["actor"] == next(one.id for one in both.curator.identity.list_principals() if one.name == "opal")

    @pytest.mark.parametrize("role", ["steward", "privacy_officer", "operator", "root"])
    def test_none_is_made_or_rotated_for_whoever_is_appointed_at_the_machine(
        self, both: World, opal: Person, role: str
    ) -> None:
        before = len(both.curator.identity.list_tokens())
        assert self.make(opal, roles=role).status_code == 422
        both.curator.identity.create_token("vera", Role.ANALYST)
        for known in (Role.STEWARD, Role.PRIVACY_OFFICER, Role.OPERATOR):
            both.curator.identity.set_roles("vera", known, Role.ANALYST, actor="operator:test")
            assert "for analysts and auditors alone" in text_of(self.make(opal, name="vera").text)
            token = both.curator.identity.create_token("vera", Role.ANALYST)
            rotated = opal.submit(f"/admin/tokens/{token.id}/rotate", f"/admin/tokens/{token.id}/rotate", grace_s="0")
            assert (rotated.status_code, "for analysts and auditors alone" in text_of(rotated.text)) == (422, True)
            assert both.curator.identity.find_valid(token.id) is not None
            assert f"{token.id}/rotate" not in opal.get("/admin/tokens").text
        assert len(both.curator.identity.list_tokens()) == before + 4

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"name": "no name"}, "name"),
            ({"days": "0"}, "days"),
            ({"days": "forever"}, "days"),
            ({"roles": ""}, "roles"),
            ({"once": ""}, "open the form anew"),
            ({"once": "short"}, "open the form anew"),
            ({"name": "olga2", "roles": "analyst steward"}, "roles"),
        ],
    )
    def test_what_is_wrong_makes_none(self, both: World, opal: Person, changes: dict[str, str], said: str) -> None:
        before = len(both.curator.identity.list_tokens())
        answer = self.make(opal, **changes)
        assert (answer.status_code, said in text_of(answer.text)) == (422, True)
        assert len(both.curator.identity.list_tokens()) == before

    @pytest.mark.parametrize(("grace_s", "status"), [("0", 401), ("3600", 200)])
    def test_a_rotated_one_ends_as_it_was_said(self, both: World, opal: Person, grace_s: str, status: int) -> None:
        token = both.tokens["ada"].split("_")[1]
        address = f"/admin/tokens/{token}/rotate"
        assert address in opal.get("/admin/tokens").text
        made = opal.submit(address, address, grace_s=grace_s)
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        (text,) = re.findall(r"cur_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made.text)
        assert both.api(None).get("/v1/me", token=text).json()["name"] == "ada"
        assert both.api(None).get("/v1/me", token=both.tokens["ada"]).status_code == status
        again = opal.submit("/admin", address, grace_s=grace_s)
        assert (again.status_code, "was rotated before" in text_of(again.text)) == (422, True)
        assert opal.submit("/admin", address, grace_s="86401").status_code == 422

    def test_whoever_approved_what_somebody_spends_does_not_get_their_token(self, officers: World) -> None:
        officers.add_token("opal", Role.OPERATOR)
        both = (Role.OPERATOR, Role.PRIVACY_OFFICER)
        officers.curator.identity.set_roles("opal", *both, actor="operator:test")
        officers.tokens["opal"] = officers.curator.identity.create_token("opal", *both).text
        proposal = officers.api("olga").post("/v1/permits", json=TERMS).json()["id"]
        assert officers.api("opal").post(f"/v1/admin/proposals/{proposal}/approve").status_code == 200
        opal, token = Person(officers, "opal"), officers.tokens["ada"].split("_")[1]
        address = f"/admin/tokens/{token}/rotate"
        for answer in (self.make(opal, name="ada"), opal.submit("/admin/tokens", address, grace_s="0")):
            assert (answer.status_code, "you approved what 'ada' may spend" in text_of(answer.text)) == (422, True)

    def test_it_takes_a_proof_of_the_last_minutes(self, both: World, opal: Person) -> None:
        both.clock.advance(minutes=6)
        before = len(both.curator.identity.list_tokens())
        asked = self.make(opal)
        assert (asked.status_code, "Enter your token again" in text_of(asked.text)) == (403, True)
        token = both.tokens["ada"].split("_")[1]
        assert opal.submit("/admin", f"/admin/tokens/{token}/rotate", grace_s="0").status_code == 403
        assert len(both.curator.identity.list_tokens()) == before
        made = opal.post("/admin/tokens/new", fields_of(asked) | {"token": [both.tokens["opal"]]})
        assert made.status_code == 201
        assert both.tokens["opal"] not in made.text


class TestThresholdSessions:
    ASKED: ClassVar = {"positives": 2, "direction": "above", "price": {"epsilon": 0.1}}

    def open(self, world: World, *thresholds: float) -> str:
        """Open a session of ada's, and ask of its number of rows; return its page."""
        world.noise = ZeroNoise()
        api = world.api("ada")
        opened = api.post("/v1/datasets/cohort/sessions", json=self.ASKED, key="open").json()["id"]
        for number, threshold in enumerate(thresholds):
            answer = api.post(f"/v1/sessions/{opened}/questions", json={"threshold": threshold}, key=f"q{number}")
            assert answer.status_code == 201, answer.text
        return f"/admin/sessions/{opened}"

    def test_one_has_its_terms_and_its_questions_in_words(self, past: World, people: dict[str, Person]) -> None:
        address = f"/admin/sessions/{session_of(past)}"
        told = people["olga"].get(f"/v1{address.removeprefix('/admin')}", headers=bearer(past, "olga")).json()
        shown = people["olga"].get(address).text
        assert amounts(shown)["charged"] == stated(told["cost"])
        assert MARKUP not in shown
        level = json.dumps(MARKUP)
        cells = re.findall(r'<td class="about">(.*?)</td><td>(yes|no)</td>', shown)
        assert [(text_of(text), answer == "yes") for text, answer in cells] == [
            (f"at least 20 rows with ward is {level}", told["questions"][0]["is_positive"]),
            (
                "the mean of age / 100 is at most 0.5, over rows with ward is a",
                told["questions"][1]["is_positive"],
            ),
            ("at least 1000000 rows", told["questions"][2]["is_positive"]),
        ]
        assert f"{told['positives_left']} of 40 left" in text_of(shown)
        guess = percent_up(best_guess([(past.account().accountant, int(told["cost"]["units"]))]))
        assert f"at most {guess} of 100 guesses whether that person" in text_of(shown)
        row = text_of(people["olga"].get("/admin/sessions?q=wards").text)
        assert f"{told['positives_left']} of 40" in row
        assert "no such session" in text_of(people["olga"].get("/admin/sessions?q=nowhere").text)

    def test_accounts_permits_and_entries_lead_to_it(self, past: World, people: dict[str, Person]) -> None:
        (found,) = [entry for entry in past.entries() if entry["kind"] == "session"]
        answers = [entry["sequence"] for entry in past.entries() if entry["kind"] == "answer"]
        link = f'href="/admin/sessions/{found["session"]}"'
        for sequence in (found["sequence"], *answers):
            assert link in people["olga"].get(f"/admin/populations/town/ledger/{sequence}").text
            assert link not in people["audra"].get(f"/admin/populations/town/ledger/{sequence}").text
        for page in ("/admin/populations/town", f"/admin/permits/{found['permit']}"):
            (search,) = re.findall(r'href="(/admin/sessions\?q=[^"]+)"', people["olga"].get(page).text)
            assert link in people["olga"].get(search).text
            assert "/admin/sessions?q" not in people["audra"].get(page).text
        ledger = f'href="/admin/populations/town/ledger/{found["sequence"]}"'
        assert ledger in people["olga"].get(f"/admin/sessions/{found['session']}").text
        assert ledger not in people["opal"].get(f"/admin/sessions/{found['session']}").text

    def test_the_ledger_says_of_which_session_an_answer_is(self, past: World, people: dict[str, Person]) -> None:
        page = people["audra"].get("/admin/populations/town/ledger?kind=answer").text
        about = re.findall(r'<td class="about">(.*?)</td>', page)
        assert [text_of(text) for text in about] == [session_of(past)] * 3

    def test_questions_are_shown_page_by_page(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("curator_service.dashboard.pages.sessions.QUESTIONS", 2)
        address, person, seen = self.open(world, 500, 501, 502, 503, 504), Person(world, "ada"), []
        while address:
            page = person.get(address).text
            seen += re.findall(r"at least (\d+) rows", page)
            (address,) = [html.unescape(one) for one in re.findall(r'rel="next" href="([^"]+)"', page)] or [""]
        assert seen == ["500", "501", "502", "503", "504"]

    def test_one_whose_permit_ended_says_so(self, officers: World) -> None:
        address, olga = self.open(officers), Person(officers, "olga")
        assert "no question is answered" not in olga.get(address).text
        officers.end_grant("ada", next(d.id for d in officers.curator.datasets.list_all() if d.name == "cohort"))
        asked = officers.api("ada").post(
            f"/v1{address.removeprefix('/admin')}/questions", json={"threshold": 5}, key="q"
        )
        assert asked.status_code in {403, 404}
        assert "ended: no question is answered under it" in text_of(olga.get(address).text)

    @pytest.mark.parametrize("end", ["a yes", "the holder", "an officer", "a cut", "lost noise"])
    def test_one_that_ended_says_why(self, officers: World, end: str) -> None:
        address = self.open(officers, *((1, 1) if end == "a yes" else (500,)))
        ada, olga = Person(officers, "ada"), Person(officers, "olga")
        if end in {"the holder", "an officer"}:
            who = ada if end == "the holder" else olga
            assert who.submit(address, f"{address}/close").headers["location"] == f"{address}?done=closed"
            again = who.submit("/admin", f"{address}/close")
            assert (again.status_code, "answers no more questions" in again.text) == (409, True)
        elif end == "a cut":
            for _ in range(2):
                officers.clock.advance(days=31)
                officers.curator.versions.cut_due()
            ada, olga = Person(officers, "ada"), Person(officers, "olga")
        elif end == "lost noise":
            officers.sql("DELETE FROM session_noise")
        said = {
            "a yes": "it gave its last positive answer",
            "the holder": "it was closed by ada",
            "an officer": "it was closed by olga",
            "a cut": "its dataset was cut",
            "lost noise": "the noise of its threshold was lost",
        }[end]
        shown = olga.get(address).text
        assert said in text_of(shown)
        entries = officers.entries()
        ended = [one for one in entries if one["kind"] == "close" or one.get("version") == "2"]
        links = [f'href="/admin/populations/town/ledger/{one["sequence"]}"' in shown for one in ended]
        assert links == [True] * (end in {"the holder", "an officer", "a cut"})
        own = ada.get(address).text
        assert said.removesuffix(" by ada").removesuffix(" by olga") in text_of(own)
        assert "olga" not in own
        assert "/close" not in own + shown
        assert address not in olga.get("/admin/sessions").text


class TestSealed:
    def test_a_sealed_curator_says_why_to_whoever_may_know_and_the_way_out_to_all(self, officers: World) -> None:
        officers.curator.ledger.guard.seal("the ledger of 'town' has no entry at sequence 22")
        officer, analyst = Person(officers, "olga"), Person(officers, "ada")
        for page in ("/admin", "/admin/keys"):
            for person in (officer, analyst):
                text = text_of(person.get(page).text)
                assert "The curator is sealed" in text
                assert "curator restore --reconcile" in text
            assert "has no entry at sequence 22" in text_of(officer.get(page).text)
            assert "has no entry" not in analyst.get(page).text
        asked = {"notion": "mu", "mu": "0.1", "reason": "less"}
        answer = officer.submit("/admin/populations/town", "/admin/populations/town/limit", **asked)
        assert answer.status_code == 503


def test_pages_are_in_no_document_and_each_has_an_action_or_is_the_entrance(world: World) -> None:
    api = world.api()
    assert not [path for path in api.get("/openapi.json").json()["paths"] if path.startswith("/admin")]
    open_to_all = {route.path for route in routes_of(api.app) if not hasattr(route.endpoint, "action")}
    assert open_to_all == {
        "/admin/sign-in", "/admin/sign-in/{name}", "/admin/sign-in/{name}/callback", "/admin/sign-out",
        "/admin/static/{name}",
    }  # fmt: skip


class TestSurveys:
    def test_a_survey_says_what_protects_whom_and_is_closed(self, past: World) -> None:
        stella, audra = (Person(past, who) for who in ("stella", "audra"))
        page = stella.get("/admin/surveys/smoking")
        shown = text_of(page.text)
        for said in ("0 of 9 reports", "Each invitation gives one report", "False reports", "randomized_response"):
            assert said in shown, said
        assert MARKUP not in page.text
        assert "smoking" in text_of(stella.get("/admin/surveys").text)
        assert "Close this survey" not in text_of(audra.get("/admin/surveys/smoking").text)
        assert stella.get("/admin/surveys/nothing").status_code == 404
