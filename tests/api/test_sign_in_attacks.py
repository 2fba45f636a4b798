"""Attacks on sign-ins of browsers: cookies of a sibling host, rows that somebody wrote, hostile providers."""

import json
import re
import sys
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from dashboard_worlds import ORIGIN, Person, text_of
from issuers import ISSUER, T, claims, provider, public_jwk, sign
from patience import scaled
from sign_in_worlds import (
    CLIENT,
    OFFICER,
    OTHER,
    SESSION,
    SIGN_IN,
    Place,
    begin,
    is_in,
    open_place,
    refused,
    said_in,
    secret_of,
    tampered,
)
from support import open_world

from curator_service.dashboard.sessions import BrowserSessions, SignInRefused, hash_of
from curator_service.dashboard.sign_ins import Answer
from curator_service.identity.oidc.providers import IdentityProviders
from curator_service.identity.policy import Role
from curator_service.kit.limiter import FailureLimiter, RateLimiter

LIMIT = "/admin/populations/town/limit"
LOWERED = {"notion": "mu", "mu": "0.1", "epsilon": "", "reason": "less"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with open_place(tmp_path) as opened:
        yield opened


@pytest.fixture
def either(tmp_path: Path, database_url: str | None) -> Iterator[Place]:
    """Return a place on each of the two databases."""
    with open_place(tmp_path, url=database_url) as opened:
        yield opened


def stale(place: Place) -> Person:
    """Return an officer who signed in at the provider an hour ago."""
    return place.signed_in(groups=OFFICER, auth_time=T - 3600)


def hidden_in(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of a page."""
    assert page.status_code == 200, text_of(page.text)
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))


def led(answer: httpx.Response) -> str:
    """Return where a page asks to sign in again."""
    assert answer.status_code == 403, text_of(answer.text)
    found = re.search(r'href="(https://login[^"]+)"', answer.text)
    assert found is not None, text_of(answer.text)
    return found[1].replace("&amp;", "&")


def forge(person: Person, cookie: str) -> None:
    """Put another text into the cookie of a browser's sign-in."""
    (kept,) = [one for one in person.cookies.jar if one.name == SIGN_IN]
    kept.value = cookie


def send_cookies(person: Person, address: str, *cookies: bytes) -> httpx.Response:
    """Ask with cookies as a browser has them, to the byte."""
    bare = Person(person.world, app=person.app)
    return bare.get(address, headers=[(b"cookie", b"; ".join(cookies)), (b"sec-fetch-site", b"same-origin")])


class TestTossedCookies:
    """A sibling host sets cookies for the whole domain, under any name that a browser does not take for one of ours."""

    @pytest.mark.parametrize("blank", [b"\x85", b"\xa0", b"\t", b"\x1f", b"\x0c", b'"'])
    def test_a_name_with_blanks_around_it_is_another_name(self, place: Place, blank: bytes) -> None:
        person = place.signed_in()
        session = person.cookies[SESSION].encode()
        name = SESSION.encode()
        assert send_cookies(person, "/admin", name + b"=" + session).status_code == 200
        for tossed in (blank + name, name + blank):
            assert send_cookies(person, "/admin", tossed + b"=" + session).status_code == 303

    @pytest.mark.parametrize("blank", [b"\x85", b"\xa0"])
    def test_a_sign_in_of_somebody_else_is_not_put_into_a_browser(self, place: Place, blank: bytes) -> None:
        """Login CSRF, or an officer who signs in and makes the stale session of whoever sits at their desk fresh."""
        attacker = place.person()
        answer = place.issuer.sign_in(begin(attacker), sub="attacker")
        secret = attacker.cookies[SIGN_IN].encode()
        refused(
            send_cookies(attacker, answer, blank + SIGN_IN.encode() + b"=" + secret), "did not send back the cookie"
        )
        assert place.issuer.redeemed == []

    def test_a_cookie_that_is_there_twice_with_two_values_is_none(self, place: Place) -> None:
        person = place.signed_in()
        ours = f"{SESSION}={person.cookies[SESSION]}".encode()
        assert send_cookies(person, "/admin", f"{SESSION}={'A' * 43}".encode(), ours).status_code == 303
        assert send_cookies(person, "/admin", ours, f"{SESSION}={'A' * 43}".encode()).status_code == 303

    def test_a_cookie_without_a_name_is_none(self, place: Place) -> None:
        person = place.signed_in()
        value = f"{SESSION}={person.cookies[SESSION]}".encode()
        assert send_cookies(person, "/admin", b"=" + value).status_code == 303


class TestRows:
    """Somebody writes the tables, and has no key."""

    def test_a_kept_form_that_changes_for_a_moment_is_not_shown(self, either: Place) -> None:
        person = stale(either)
        address = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        person.arrive(either.issuer.sign_in(address, groups=OFFICER))
        sessions: BrowserSessions = either.curator.browser_sessions
        session = sessions.find(person.cookies[SESSION])
        assert session is not None
        kept = sessions.find_kept(session)
        assert kept is not None
        forged = {"address": "/admin/proposals/prp_0/approve", "act": kept.act, "about": [], "fields": []}
        either.world.sql(f"UPDATE browser_sessions SET kept = '{json.dumps(forged)}'")
        assert sessions.find_kept(session) is None

    @pytest.mark.parametrize(
        ("place_of", "written"),
        [
            (2, "2026-03-01T12:00:00+14:00"),
            (2, "2026-03-01T11:50:01Z"),
            (1, "other"),
            (3, ""),
            (4, "https://evil.test/"),
        ],
    )
    def test_a_sign_in_that_somebody_changed_is_none(self, place: Place, place_of: int, written: str) -> None:
        """One that seems to have begun earlier would take what the provider asked this morning for what it asks now."""
        person = stale(place)
        address = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        said, proof = said_in(person), person.cookies[SIGN_IN].partition(".")[2]
        said[place_of] = written
        forge(person, f"{urlsafe_b64encode(json.dumps(said).encode()).rstrip(b'=').decode()}.{proof}")
        answer = place.issuer.sign_in(address.replace("prompt=login", ""), groups=OFFICER, auth_time=T - 600)
        refused(person.arrive(answer), "not the answer to a sign-in")
        led(person.submit("/admin/populations/town", LIMIT, **LOWERED))

    @pytest.mark.parametrize("cookie", ["A" * 43, ".", "e30.", "W10.x", "bnVsbA.x", "W1tb.x", "\xe9.x", "WyIiLCIiXQ.x"])
    def test_a_cookie_that_was_never_made_here_is_none(self, place: Place, cookie: str) -> None:
        answer = place.issuer.sign_in(begin(place.person()))
        sent = f"{SIGN_IN}={cookie}".encode("latin-1")
        refused(send_cookies(place.person(), answer, sent), "not the answer to a sign-in")

    def test_a_cookie_that_was_never_made_here_is_not_even_read(self, place: Place) -> None:
        """JSON that is nested nearly too deep to be read is too deep to be written."""
        for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() + 10):
            text = '["s", "hospital", "t", "", ' + "[" * depth + "]" * (depth + 1)
            assert place.curator.sign_ins.find_session(f"{urlsafe_b64encode(text.encode()).decode()}.x") == ""

    def test_a_sign_in_elsewhere_is_not_made_one_for_an_open_session(self, place: Place) -> None:
        """An officer signs in at one machine; the session that was left open at another one does not become fresh."""
        left, elsewhere = stale(place), place.person()
        address = begin(elsewhere)
        said, proof = said_in(elsewhere), elsewhere.cookies[SIGN_IN].partition(".")[2]
        said[3] = hash_of(left.cookies[SESSION])
        forge(elsewhere, f"{urlsafe_b64encode(json.dumps(said).encode()).rstrip(b'=').decode()}.{proof}")
        refused(elsewhere.arrive(place.issuer.sign_in(address, groups=OFFICER)), "not the answer to a sign-in")
        led(left.submit("/admin/populations/town", LIMIT, **LOWERED))

    @pytest.mark.parametrize("moment", ["2026-03-02T12:00:00Z", "tomorrow", "", "2026-03-01T12:00:00"])
    def test_when_a_session_was_seen_keeps_it_no_longer(self, place: Place, moment: str) -> None:
        person = place.signed_in()
        place.world.sql(f"UPDATE browser_sessions SET seen_at = '{moment}'")
        assert not is_in(person)

    def test_people_of_a_provider_that_was_taken_away_do_not_become_those_of_another(self, place: Place) -> None:
        person = place.signed_in()
        other = provider(browser=CLIENT, issuer=OTHER, name="other")
        place.curator.identity.providers = IdentityProviders((other,), (), place.world.clock, place._fetch)
        assert not is_in(person)
        place.world.sql(f"UPDATE principals SET issuer = '{OTHER}' WHERE issuer <> ''")
        assert not is_in(person)

    def test_an_approval_is_of_what_was_shown(self, either: Place) -> None:
        """A proposal that somebody wrote anew between the page and the click is another one."""
        either.world.add_token("otto", Role.PRIVACY_OFFICER)
        raised = {"limit": {"epsilon": 1.1, "delta": 1e-6}, "reason": "a second study"}
        asked = either.world.api("otto").post("/v1/admin/populations/town/limits", json=raised).json()
        shown, said = f"/admin/proposals/{asked['id']}", {"reason": "it is sound"}
        person, form = stale(either), f"{shown}/approve"
        fields = hidden_in(person.get(shown)) | said
        address = led(person.post(form, fields))
        before = either.world.account().limit
        either.world.sql(f"UPDATE proposals SET limit_units = limit_units * 2 WHERE id = '{asked['id']}'")
        person.arrive(either.issuer.sign_in(address, groups=OFFICER))
        kept = hidden_in(person.get("/admin/confirm"))
        answer = person.post(form, kept)
        assert (answer.status_code, "is not the proposal that was shown" in text_of(answer.text)) == (409, True)
        assert either.world.account().limit == before
        # Nor is what is shown now approved: the register says what was proposed.
        fields = hidden_in(person.get(shown)) | said
        assert person.post(form, said | {"form_token": fields["form_token"]}).status_code == 409
        answer = person.post(form, fields)
        assert (answer.status_code, "register" in text_of(answer.text)) == (409, True)
        either.world.sql(f"UPDATE proposals SET limit_units = limit_units / 2 WHERE id = '{asked['id']}'")
        fields = hidden_in(person.get(shown)) | said
        assert person.post(form, fields).headers["location"] == f"{shown}?done=approved"


class TestFreshness:
    def test_a_token_that_may_do_less_makes_no_session_fresh(self, place: Place) -> None:
        """A notebook's token lies in a file; a session with more roles was left open beside it."""
        world = place.world
        identity = world.curator.identity
        whole = identity.create_token("olga", Role.PRIVACY_OFFICER, Role.ANALYST).text
        fewer = identity.create_token("olga", Role.ANALYST).text
        looks = identity.create_token("olga", Role.PRIVACY_OFFICER, Role.ANALYST, read_only=True).text
        person = Person(world, app=place.app)
        assert person.sign_in(whole).status_code == 303
        world.clock.advance(minutes=6)
        for less in (fewer, looks):
            answer = person.submit("/admin/populations/town", LIMIT, **LOWERED, token=less)
            assert (answer.status_code, "not a valid token" in text_of(answer.text)) == (403, True)
        answer = person.submit("/admin/populations/town", LIMIT, **LOWERED, token=whole)
        assert answer.headers["location"].endswith("done=restricted")

    def test_a_clock_that_was_set_back_makes_nothing_fresh(self, place: Place) -> None:
        place.world.clock.advance(hours=3)
        person = place.signed_in(groups=OFFICER)
        begun = place.person()
        answer = place.issuer.sign_in(begin(begun), groups=OFFICER)
        place.world.clock.advance(hours=-3)
        assert not is_in(person)
        refused(begun.arrive(answer), "not the answer to a sign-in")

    def test_what_will_be_proved_later_is_not_proved(self, place: Place) -> None:
        person = stale(place)
        address = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        answer = place.issuer.sign_in(address, groups=OFFICER, auth_time=T + 3600)
        refused(person.arrive(answer), "did not ask you anew")

    def test_a_form_that_was_done_is_not_offered_again(self, either: Place) -> None:
        person = stale(either)
        address = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        person.arrive(either.issuer.sign_in(address, groups=OFFICER))
        fields = hidden_in(person.get("/admin/confirm"))
        assert person.post(LIMIT, fields | {"mu": "x"}).status_code == 422
        assert person.post(LIMIT, fields).headers["location"].endswith("done=restricted")
        assert person.get("/admin/confirm").headers["location"] == "/admin"
        ((kept,),) = either.world.sql("SELECT kept FROM browser_sessions")
        assert kept == ""

    def test_of_two_forms_in_two_tabs_the_last_is_shown_after_its_own_sign_in_alone(self, place: Place) -> None:
        person = stale(place)
        first = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        second = led(person.submit("/admin/populations/town", LIMIT, **LOWERED | {"mu": "0.2"}))
        refused(person.arrive(place.issuer.sign_in(first, groups=OFFICER)), "not the answer to a sign-in")
        assert person.get("/admin/confirm").headers["location"] == "/admin"
        person.arrive(place.issuer.sign_in(second, groups=OFFICER))
        assert hidden_in(person.get("/admin/confirm"))["mu"] == "0.2"

    def test_whose_work_ends_is_said_before_the_last_click(self, place: Place) -> None:
        permit = place.world.permit("kidney")
        person, address = stale(place), f"/admin/permits/{permit}/end"
        answer = person.submit(f"/admin/permits/{permit}", address, reason="over")
        arrived = person.arrive(place.issuer.sign_in(led(answer), groups=OFFICER))
        assert arrived.status_code == 200
        for page in (answer, person.get("/admin/confirm")):
            for said in (f"End the permit {permit}", "kidney", "ada", "cohort"):
                assert said in text_of(page.text)

    def test_strangers_at_the_same_address_keep_no_officer_from_an_approval(self, place: Place) -> None:
        person = stale(place)
        held = FailureLimiter(RateLimiter(3, "failures", now=lambda: 0.0), place.curator.failures.failure)
        object.__setattr__(place.curator, "failures", held)
        stranger = place.person()
        answer = place.issuer.sign_in(begin(stranger))
        for status in (403, 403, 403, 429):
            assert stranger.arrive(tampered(answer, state="x")).status_code == status
        address = led(person.submit("/admin/populations/town", LIMIT, **LOWERED))
        assert person.arrive(place.issuer.sign_in(address, groups=OFFICER)).status_code == 200

    def test_of_two_workers_one_redeems_an_answer(self, either: Place) -> None:
        person = either.person()
        answer = dict(parse_qsl(urlsplit(either.issuer.sign_in(begin(person))).query))
        said = Answer(answer["state"], answer["code"], answer["iss"], "")
        secret, start = person.cookies[SIGN_IN], threading.Barrier(2)

        def complete(_: int) -> bool:
            start.wait(scaled(10))
            try:
                either.curator.sign_ins.complete("hospital", secret, said)
            except SignInRefused:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(complete, range(2))) == [False, True]
        assert len(either.issuer.redeemed) == 1


class TestRoles:
    def test_under_a_seal_a_session_has_no_more_than_the_groups_of_now(self, place: Place) -> None:
        place.signed_in(groups=OFFICER)
        place.world.clock.advance(minutes=1)
        place.world.curator.ledger.guard.seal("an incident")
        person = place.person()
        refused(person.arrive(place.issuer.sign_in(begin(person))), "Your groups have changed")
        again = place.person()
        assert again.arrive(place.issuer.sign_in(begin(again), groups=OFFICER)).status_code == 200
        assert again.get("/admin/proposals").status_code == 200


HUGE = 10**400


def test_a_secret_that_was_taken_away_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret\n", encoding="utf-8")
    with open_world(tmp_path / "world", public_url=ORIGIN) as world:
        place = Place(world, client_secret_file=file)
        person = place.person()
        answer = place.issuer.sign_in(begin(person))
        file.unlink()
        refused(person.arrive(answer), "cannot read its secret", 503)


def test_no_log_has_what_completes_a_sign_in(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    person = place.person()
    address = begin(person)
    asked, secret = dict(parse_qsl(urlsplit(address).query)), secret_of(person)
    answer = place.issuer.sign_in(address, groups=OFFICER, auth_time=T - 3600)
    code = dict(parse_qsl(urlsplit(answer).query))["code"]
    refused(person.arrive(answer.replace("iss=", "iss=x")), "does not hold")
    again = place.person()
    assert again.arrive(place.issuer.sign_in(begin(again), groups=OFFICER, auth_time=T - 3600)).status_code == 200
    led(again.submit("/admin/populations/town", LIMIT, **LOWERED))
    hidden = [secret, asked["state"], asked["nonce"], asked["code_challenge"], code, again.cookies[SESSION]]
    hidden += [form["code_verifier"] for _, form in place.issuer.redeemed]
    # The browser of these tests is in the same process, and logs what it asks for.
    ours = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    told = " ".join(repr(vars(one)) + one.getMessage() for one in ours)
    assert "request" in told
    assert [one for one in hidden if one in told] == []


class TestHostileProviders:
    """Hostile answers of a provider are refused: none is a fault of the curator's."""

    @pytest.mark.parametrize(
        "said",
        [
            {"sub": "a\ud800"}, {"nonce": "\ud800"}, {"exp": HUGE}, {"iat": -9e10}, {"iat": -1}, {"nbf": HUGE},
            {"name": "a\ud800"}, {"auth_time": HUGE}, {"groups": "\ud800"},
        ],
        ids=["sub", "nonce", "exp", "iat", "iat before", "nbf", "name", "auth_time", "groups"],
    )  # fmt: skip
    def test_a_token_with_anything_in_it(self, place: Place, said: dict[str, Any]) -> None:
        person = place.person()
        answer = person.arrive(place.issuer.sign_in(begin(person), **said))
        if "auth_time" in said:
            assert answer.status_code == 200
        else:
            refused(answer, "does not hold")
        shown = {name: value for name, value in said.items() if name not in {"nonce", "auth_time"}}
        if shown:
            assert place._first._api.get("/v1/me", token=sign(claims(**shown))).status_code == 401

    @pytest.mark.parametrize(
        "other",
        [{"kty": "EC", "crv": []}, {"kty": "EC", "crv": {}}, {"key_ops": 7}, {"key_ops": None}, {"kty": "EC", "x": 1}],
        ids=str,
    )
    def test_a_key_with_anything_in_it_hides_no_other(self, place: Place, other: dict[str, Any]) -> None:
        place.issuer.keys = [public_jwk("ec", kid="bad") | other, public_jwk("rsa")]
        assert is_in(place.signed_in())

    @pytest.mark.parametrize("name", ["jwks_uri", "authorization_endpoint", "token_endpoint"])
    @pytest.mark.parametrize(
        "address",
        ["http://127.0.0.1:9999/x", "http://localhost/x", "http://[::1]/x", "https://127.0.0.1/x", "https://a/\ud800"],
        ids=ascii,
    )
    def test_a_document_from_elsewhere_names_no_address_of_this_machine(
        self, place: Place, name: str, address: str
    ) -> None:
        """The curator would post there what whoever wrote the document likes, past every wall around this machine."""
        place.issuer.described[name] = address
        answer = place.person().get("/admin/sign-in/hospital")
        if name == "token_endpoint":
            assert answer.status_code == 303
            person = place.person()
            place.issuer.described[name] = f"{ISSUER}/token"
            refused(person.arrive(place.issuer.sign_in(begin(person))), "does not say where", 503)
            assert place.curator.sign_ins.find_fault("hospital")
        else:
            assert answer.status_code == 503
        assert address not in place.issuer.asked
        assert place.issuer.redeemed == []

    def test_nobody_s_token_is_sent_to_an_address_of_this_machine(self, place: Place) -> None:
        ours = provider(browser=CLIENT, passports=True)
        place.curator.identity.providers = IdentityProviders((ours,), (), place.world.clock, place._fetch)
        place.issuer.described["userinfo_endpoint"] = "http://127.0.0.1:9999/x"
        assert place._first._api.get("/v1/me", token=sign(claims())).status_code == 200
        assert "http://127.0.0.1:9999/x" not in place.issuer.asked


@pytest.mark.parametrize("host", ["[", "[::1", "a:b:c", "curator.test:x", "]", "[::1]x"])
def test_a_host_that_is_none_is_no_fault(place: Place, host: str) -> None:
    answer = place.person().get("/admin/sign-in", headers={"Host": host})
    assert answer.status_code in {200, 400}
