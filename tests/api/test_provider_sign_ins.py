"""Signing in at an identity provider with a browser: the way in, the way to an approval, and what attackers try."""

import hashlib
import hmac
import html
import json
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from dashboard_worlds import ORIGIN, Person, fields_of, text_of, token_of
from issuers import ISSUER, RSA, T, claims, provider, sign
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
    secret_of,
    tampered,
)
from support import World, open_world

from curator_service.backup import write_backup
from curator_service.dashboard import sign_ins as signing_in
from curator_service.dashboard.sessions import form_token
from curator_service.identity.oidc.fetching import ProviderUnreachable
from curator_service.identity.oidc.providers import IdentityProviders
from curator_service.identity.policy import Role
from curator_service.kit.limiter import FailureLimiter, RateLimiter


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with open_place(tmp_path) as opened:
        yield opened


@pytest.fixture
def either(tmp_path: Path, database_url: str | None) -> Iterator[Place]:
    """Return a place on each of the two databases."""
    with open_place(tmp_path, url=database_url) as opened:
        yield opened


def assert_used(place: Place, address: str, kept: str) -> None:
    """Check that no other answer to a sign-in is taken from whoever has its cookie."""
    # Another code for the same state, as a provider that does not keep codes apart would redeem twice.
    again, new = place.person(), place.issuer.sign_in(address)
    again.cookies.set(SIGN_IN, kept, domain="curator.test", path="/")
    for cookie in again.cookies.jar:
        cookie._rest = {"SameSite": "Lax"}  # type: ignore[attr-defined]
    redeemed = len(place.issuer.redeemed)
    refused(again.arrive(new), "was used before")
    assert len(place.issuer.redeemed) == redeemed


class TestWayIn:
    def test_each_provider_has_a_link_and_without_one_there_is_none(self, place: Place) -> None:
        page = place.person().get("/admin/sign-in?next=/admin/keys%3Fa%3Db").text
        assert re.findall(r'href="(/admin/sign-in/[^"]+)"', page) == [
            f"/admin/sign-in/{name}?next=/admin/keys%3Fa%3Db" for name in ("hospital", "other")
        ]
        place.curator.identity.providers = IdentityProviders((provider(),), (), place.world.clock, place._fetch)
        assert "/admin/sign-in/" not in place.person().get("/admin/sign-in").text

    def test_somebody_signs_in_and_is_whom_the_interface_knows(self, either: Place) -> None:
        person, before = either.person(), either.acts()
        address = begin(person, next="/admin/permits")
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked | {"state": "", "nonce": "", "code_challenge": ""} == {
            "tenant": "a", "response_type": "code", "client_id": "dashboard", "scope": "openid", "state": "",
            "nonce": "", "redirect_uri": f"{ORIGIN}/admin/sign-in/hospital/callback", "code_challenge": "",
            "code_challenge_method": "S256",
        }  # fmt: skip
        assert min(map(len, (asked["state"], asked["nonce"], asked["code_challenge"]))) == 43
        answer = person.arrive(either.issuer.sign_in(address))
        assert '<meta http-equiv="refresh" content="0; url=/admin/permits">' in answer.text
        assert '<a class="button main" href="/admin/permits">' in answer.text
        assert answer.headers["referrer-policy"] == "no-referrer"
        page = person.get("/admin/permits").text
        assert "hospital.248289761001" in page
        assert "Ada Lovelace" in page
        # The same person with an access token is nobody else, and nothing more is written of them.
        api = either._first._api
        found = api.get("/v1/me", token=sign(claims(iat=T + 1)))
        assert (found.json()["name"], found.json()["roles"]) == ("hospital.248289761001", ["analyst"])
        assert either.acts() == before + 2  # the principal, and the displayed name
        assert either.people() == ["hospital.248289761001"]

    def test_cookies_are_out_of_reach_of_scripts_other_hosts_and_other_sites(self, place: Place) -> None:
        person = place.person()
        answer = person.get("/admin/sign-in/hospital")
        (cookie,) = answer.headers.get_list("set-cookie")
        name, *attributes = (part.strip() for part in cookie.split(";"))
        assert name.startswith(f"{SIGN_IN}=")
        assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Lax", "Secure", "Max-Age=600"}
        answer = person.arrive(place.issuer.sign_in(answer.headers["location"]))
        session, kept = answer.headers.get_list("set-cookie")
        if SIGN_IN in session:
            session, kept = kept, session
        assert {part.strip() for part in session.split(";")[1:]} == {"Path=/", "HttpOnly", "SameSite=Strict", "Secure"}
        assert kept.startswith(f"{SIGN_IN}=;")
        assert "Max-Age=0" in kept

    def test_each_sign_in_has_secrets_of_its_own_which_tell_nothing_of_each_other(self, place: Place) -> None:
        seen = []
        for _ in range(2):
            person = place.person()
            address = begin(person)
            asked = dict(parse_qsl(urlsplit(address).query))
            seen += [asked["state"], asked["nonce"], asked["code_challenge"], person.cookies[SIGN_IN]]
            person.arrive(place.issuer.sign_in(address))
        verifiers = [form["code_verifier"] for _, form in place.issuer.redeemed]
        assert len({*seen, *verifiers}) == 10

    def test_the_database_has_nothing_that_completes_a_sign_in(self, place: Place) -> None:
        person = place.person()
        address = begin(person)
        secret, asked = secret_of(person), dict(parse_qsl(urlsplit(address).query))
        person.arrive(place.issuer.sign_in(address))
        stored = repr(place.world.sql("SELECT * FROM sign_ins"))
        assert hashlib.sha256(secret.encode()).hexdigest() in stored
        for hidden in (secret, asked["state"], asked["nonce"], asked["code_challenge"]):
            assert hidden not in stored

    def test_sessions_of_a_provider_are_in_no_backup(self, place: Place, tmp_path: Path) -> None:
        place.signed_in()
        begin(place.person())
        written = write_backup(place.world.curator, tmp_path / "backup.tar")["rows"]
        assert not {"sign_ins", "browser_sessions"} & set(written)

    @pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
    def test_a_client_with_a_secret_proves_itself(self, tmp_path: Path, way: str) -> None:
        file = tmp_path / "secret"
        file.write_text("s3:cret +/é\n", encoding="utf-8")
        with open_world(tmp_path / "world", public_url=ORIGIN) as world:
            place = Place(world, client_secret_file=file, auth_method=way)
            assert is_in(place.signed_in())
            ((authorization, form),) = place.issuer.redeemed
            if way == "client_secret_basic":
                assert b64decode(authorization.removeprefix("Basic ")) == b"dashboard:s3%3Acret+%2B%2F%C3%A9"
                assert "client_secret" not in form
            else:
                assert (authorization, form["client_id"], form["client_secret"]) == ("", "dashboard", "s3:cret +/é")

    def test_a_public_client_states_its_name(self, place: Place) -> None:
        place.signed_in()
        ((authorization, form),) = place.issuer.redeemed
        assert (authorization, form["client_id"], "client_secret" in form) == ("", "dashboard", False)

    def test_whoever_has_no_group_is_not_let_in_and_leaves_no_trace(self, place: Place) -> None:
        person, before = place.person(), place.acts()
        answer = person.arrive(place.issuer.sign_in(begin(person), groups=["visitors"]))
        refused(answer, "no group of yours there has a role here")
        assert not is_in(person)
        assert (place.people(), place.acts()) == ([], before)

    def test_roles_are_those_of_the_groups(self, place: Place) -> None:
        officer = place.signed_in(groups=OFFICER)
        assert officer.get("/admin/proposals").status_code == 200
        assert place.signed_in(sub="somebody").get("/admin/proposals").status_code == 403

    def test_whoever_is_signed_in_goes_on(self, place: Place) -> None:
        person = place.signed_in()
        assert begin(person, next="/admin/keys") == "/admin/keys"
        assert SIGN_IN not in person.cookies

    def test_under_a_seal_nobody_new_comes(self, place: Place) -> None:
        place.world.curator.ledger.guard.seal("an incident")
        person = place.person()
        refused(person.arrive(place.issuer.sign_in(begin(person))), "seal", 503)
        assert place.people() == []


class TestSession:
    def test_it_ends_when_it_is_signed_out_of_and_cannot_be_replayed(self, place: Place) -> None:
        person = place.signed_in()
        kept = person.cookies[SESSION]
        assert person.submit("/admin", "/admin/sign-out").headers["location"] == "/admin/sign-in"
        person.cookies.set(SESSION, kept, domain="curator.test", path="/")
        assert not is_in(person)

    def test_it_can_be_ended_while_it_does_not_hold(self, place: Place) -> None:
        """Whoever signs out while a provider is taken away is not signed in when it comes back."""
        person, identity = place.signed_in(), place.curator.identity
        session, providers = person.cookies[SESSION], identity.providers
        identity.providers = None
        assert person.post("/admin/sign-out", {"form_token": form_token(session)}).status_code == 303
        identity.providers = providers
        person.cookies.set(SESSION, session, domain="curator.test", path="/")
        assert not is_in(person)

    def test_it_ends_with_the_provider_s_longest_life(self, tmp_path: Path) -> None:
        with open_world(tmp_path, public_url=ORIGIN) as world:
            place = Place(world)
            short = provider(browser=CLIENT, lifetime_max_s=1500)
            place.curator.identity.providers = IdentityProviders((short,), (), world.clock, place._fetch)
            person = place.signed_in()
            world.clock.advance(minutes=24)
            assert is_in(person)
            world.clock.advance(minutes=1)
            assert not is_in(person)

    def test_it_ends_after_eight_hours_whatever_the_provider_allows(self, place: Place) -> None:
        person = place.signed_in()
        for _ in range(8 * 3 - 1):
            place.world.clock.advance(minutes=20)
            assert is_in(person)
        place.world.clock.advance(minutes=20)
        assert not is_in(person)

    def test_it_has_the_roles_of_now_and_ends_with_the_last(self, place: Place) -> None:
        person = place.signed_in(groups=OFFICER)
        place.world.clock.advance(minutes=1)
        place.signed_in(groups=["researchers"])
        assert person.get("/admin/proposals").status_code == 403
        assert is_in(person)
        place.world.sql("UPDATE principals SET roles = '' WHERE issuer <> ''")
        assert not is_in(person)

    def test_a_row_that_somebody_changed_gives_it_no_role(self, place: Place) -> None:
        person = place.signed_in()
        place.world.sql("UPDATE principals SET roles = 'privacy_officer' WHERE issuer <> ''")
        assert not is_in(person)

    def test_it_ends_where_the_provider_has_no_client_here_any_more(self, place: Place) -> None:
        person = place.signed_in()
        place.curator.identity.providers = IdentityProviders((provider(),), (), place.world.clock, place._fetch)
        assert not is_in(person)

    def test_a_row_that_somebody_made_of_a_session_of_nobody_s_provider_lets_nobody_in(self, place: Place) -> None:
        """Whoever writes the table alone could else be anybody who has a token, without one."""
        person = Person(place.world, "ada", app=place.app)
        assert is_in(person)
        place.world.sql("UPDATE browser_sessions SET token_id = ''")
        assert not is_in(person)


class TestAnswers:
    """Of an answer everything may be somebody else's."""

    def test_an_answer_is_good_once_though_the_browser_keeps_its_cookie(self, either: Place) -> None:
        person = either.person()
        address = begin(person)
        kept, answer = person.cookies[SIGN_IN], either.issuer.sign_in(address)
        assert person.arrive(answer).status_code == 200
        assert_used(either, address, kept)

    @pytest.mark.parametrize("state", [None, "", "x", "é", "A" * 43, ["A" * 43, "B"]])
    def test_an_answer_has_the_state_that_was_sent(self, place: Place, state: Any) -> None:
        person = place.person()
        answer = place.issuer.sign_in(begin(person))
        refused(person.arrive(tampered(answer, state=state)), "not the answer to a sign-in")
        assert place.issuer.redeemed == []
        # It was somebody else's answer, so the browser's own is still good.
        assert person.arrive(answer).status_code == 200

    def test_a_state_that_is_there_twice_is_none(self, place: Place) -> None:
        person = place.person()
        answer = place.issuer.sign_in(begin(person))
        state = parse_qs(urlsplit(answer).query)["state"][0]
        refused(person.arrive(tampered(answer, state=[state, state])), "not the answer to a sign-in")

    def test_nobody_is_signed_in_as_somebody_else_by_a_link(self, place: Place) -> None:
        """An attacker's answer in a victim's browser: with no sign-in of its own, and with one."""
        attacker, victim = place.person(), place.person()
        answer = place.issuer.sign_in(begin(attacker), sub="attacker")
        refused(victim.arrive(answer), "did not send back the cookie")
        begin(victim)
        refused(victim.arrive(answer), "not the answer to a sign-in")
        assert place.people() == []

    def test_a_code_that_somebody_saw_is_good_with_its_verifier_alone(self, place: Place) -> None:
        """The victim's code, put into an answer to the attacker's own sign-in."""
        attacker, victim = place.person(), place.person()
        stolen = parse_qs(urlsplit(place.issuer.sign_in(begin(victim), sub="victim")).query)["code"][0]
        answer = place.issuer.sign_in(begin(attacker), sub="attacker")
        refused(attacker.arrive(tampered(answer, code=stolen)), "does not hold")
        assert place.people() == []

    def test_a_token_is_made_for_this_sign_in(self, place: Place) -> None:
        for nonce in (..., "", "x", 1, ["x"], "A" * 43):
            person = place.person()
            refused(person.arrive(place.issuer.sign_in(begin(person), nonce=nonce)), "does not hold")
        assert place.people() == []

    def test_a_provider_answers_for_itself_alone(self, place: Place) -> None:
        """Mix-up: a sign-in that began at one provider is answered by another, wherever that sends the browser."""
        person = place.person()
        answer = place.issuer.sign_in(begin(person, "hospital"))
        refused(person.arrive(tampered(answer, iss=OTHER)), "does not hold")
        person = place.person()
        answer = place.issuer.sign_in(begin(person, "hospital"))
        swapped = tampered(answer, iss=OTHER).replace("/hospital/", "/other/")
        refused(person.arrive(swapped), "not the answer to a sign-in")
        assert (place.issuer.redeemed, place.other.redeemed) == ([], [])

    def test_a_provider_that_says_that_it_names_itself_does(self, place: Place) -> None:
        person = place.person()
        refused(person.arrive(tampered(place.issuer.sign_in(begin(person)), iss=None)), "does not hold")
        place.other.described["authorization_response_iss_parameter_supported"] = False
        person = place.person()
        answer = place.other.sign_in(begin(person, "other"), iss=OTHER)
        assert person.arrive(tampered(answer, iss=None)).status_code == 200

    def test_a_token_of_another_issuer_that_is_trusted_is_not_taken(self, place: Place) -> None:
        person = place.person()
        refused(person.arrive(place.issuer.sign_in(begin(person), iss=OTHER)), "does not hold")

    @pytest.mark.parametrize("unit", [1, -1])
    def test_a_sign_in_ends_after_ten_minutes(self, place: Place, unit: int) -> None:
        person = place.person()
        address = begin(person)
        place.world.clock.advance(minutes=10, seconds=-unit)
        answer = person.arrive(place.issuer.sign_in(address))
        assert answer.status_code == (200 if unit == 1 else 403)
        assert is_in(person) is (unit == 1)

    def test_one_that_has_ended_is_forgotten_when_another_is_answered(self, either: Place) -> None:
        either.signed_in()
        either.world.clock.advance(minutes=12)
        either.signed_in()
        assert either.used() == 1

    @pytest.mark.parametrize("error", ["access_denied", "server_error", "<script>alert(1)</script>"])
    def test_what_a_provider_says_is_shown_in_our_words(self, place: Place, error: str) -> None:
        person = place.person()
        page = '<b onclick="x">Your account is locked: call +1 900</b>'
        said = tampered(
            place.issuer.sign_in(begin(person)), code=None, error=error, error_description=page, error_uri=page
        )
        answer = person.arrive(said)
        refused(answer, "You were not signed in at hospital")
        for foreign in (error, "locked", "onclick", "900"):
            assert foreign not in answer.text
        assert place.used() == 0

    @pytest.mark.parametrize(
        "told",
        [{}, {"id_token": None}, {"id_token": 7}, {"id_token": ["a"]}, {"id_token": "eyJ" + "A" * 20_000 + ".."}],
        ids=["nothing", "null", "number", "list", "long"],
    )
    def test_an_answer_without_a_token_lets_nobody_in(self, place: Place, told: dict[str, Any]) -> None:
        person = place.person()
        answer = place.issuer.sign_in(begin(person))
        place.curator.identity.providers._flows["hospital"]._fetch = lambda *_: told
        refused(person.arrive(answer), "does not hold")

    @pytest.mark.parametrize("code", [None, "", "x" * 5000])
    def test_what_is_no_code_is_not_redeemed(self, place: Place, code: str | None) -> None:
        person = place.person()
        refused(person.arrive(tampered(place.issuer.sign_in(begin(person)), code=code)), "does not hold")
        assert place.issuer.redeemed == []

    def test_a_provider_that_does_not_answer_is_said_to_be_so(self, place: Place) -> None:
        place.issuer.down = True
        answer = place.person().get("/admin/sign-in/hospital")
        assert answer.status_code == 503
        assert "does not answer now" in text_of(answer.text)
        assert 'id="token"' in answer.text  # the other way in goes on
        assert place.used() == 0

    @pytest.mark.parametrize("place_of", ["authorization_endpoint", "token_endpoint"])
    @pytest.mark.parametrize("address", ["http://login.example/x", "javascript:alert(1)", "", None, 7])
    def test_nobody_is_sent_to_an_address_without_https(self, place: Place, place_of: str, address: Any) -> None:
        person = place.person()
        if place_of == "authorization_endpoint":
            place.issuer.described[place_of] = address
            answer = person.get("/admin/sign-in/hospital")
            assert (answer.status_code, "location" in answer.headers) == (503, False)
            return
        answer = place.issuer.sign_in(begin(person))
        place.curator.identity.providers._keys[ISSUER].document[place_of] = address
        refused(person.arrive(answer), "does not say where", 503)
        assert place.issuer.redeemed == []


def b64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def unsigned(said: dict[str, Any]) -> str:
    return f"{b64(json.dumps({'alg': 'none', 'kid': 'rsa'}).encode())}.{b64(json.dumps(said).encode())}."


def by_public_key(said: dict[str, Any]) -> str:
    secret = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{b64(json.dumps({'alg': 'HS256', 'kid': 'rsa'}).encode())}.{b64(json.dumps(said).encode())}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def by_client_secret(said: dict[str, Any]) -> str:
    return jwt.encode(said, "dashboard" * 8, algorithm="HS256", headers={"kid": "rsa"})


ISSUED: dict[str, Callable[[dict[str, Any]], str]] = {
    "none": unsigned,
    "public key": by_public_key,
    "client secret": by_client_secret,
    "another key": lambda said: sign(said, "other", header={"kid": "rsa", "typ": "JWT"}),
    "access token": lambda said: sign(said, header={"typ": "at+jwt"}),
    "logout token": lambda said: sign(said, header={"typ": "logout+jwt"}),
    "another algorithm": lambda said: sign(said, "rsa", algorithm="PS256", header={"typ": "JWT"}),
}


class TestTokens:
    """The verifier is that of access tokens, whose own attacks are tested elsewhere; these are of its use here."""

    @pytest.mark.parametrize("forged", list(ISSUED))
    def test_a_token_has_a_signature_of_the_provider_of_a_pinned_kind(self, place: Place, forged: str) -> None:
        place.issuer.issued = ISSUED[forged]
        person = place.person()
        refused(person.arrive(place.issuer.sign_in(begin(person))), "does not hold")
        assert place.people() == []

    @pytest.mark.parametrize(
        "said",
        [
            {"aud": "notebooks"}, {"aud": "curator"}, {"aud": ...}, {"aud": []}, {"aud": ["notebooks", "other"]},
            {"azp": "notebooks"}, {"azp": ""}, {"azp": 1}, {"aud": ["dashboard", "notebooks"]},
            {"aud": ["dashboard", "notebooks"], "azp": "notebooks"}, {"sub": ...}, {"sub": ""}, {"sub": "s" * 256},
            {"exp": T - 61}, {"exp": ...}, {"iat": T + 100}, {"iat": ...}, {"nbf": T + 100}, {"iss": f"{ISSUER}/"},
        ],
        ids=str,
    )  # fmt: skip
    def test_a_token_is_for_this_client_and_of_now(self, place: Place, said: dict[str, Any]) -> None:
        person = place.person()
        refused(person.arrive(place.issuer.sign_in(begin(person), **said)), "does not hold")
        assert place.people() == []

    @pytest.mark.parametrize(
        "said",
        [{"aud": ["dashboard"]}, {"azp": "dashboard"}, {"aud": ["dashboard", "api"], "azp": "dashboard"}],
        ids=str,
    )
    def test_a_token_may_name_its_client_in_each_way(self, place: Place, said: dict[str, Any]) -> None:
        assert is_in(place.signed_in(**said))

    def test_an_id_token_is_no_access_token(self, place: Place) -> None:
        answer = place._first._api.get("/v1/me", token=sign(claims(aud="dashboard"), header={"typ": "JWT"}))
        assert answer.status_code == 401


class TestBrowsers:
    @pytest.mark.parametrize("header", ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-Host", "Origin"])
    def test_no_header_says_where_a_provider_sends_the_browser_back_to(self, place: Place, header: str) -> None:
        answer = place.person().get(
            "/admin/sign-in/hospital", headers={header: "host=evil.test"[5 * (header != "Forwarded") :]}
        )
        asked = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        assert asked["redirect_uri"] == f"{ORIGIN}/admin/sign-in/hospital/callback"
        assert answer.headers["location"].startswith(f"{ISSUER}/auth")

    @pytest.mark.parametrize(
        "address",
        ["https://evil.test/", "//evil.test", "/\\evil.test", "/v1/keys", "/administrator", "javascript:x",
         "/admin\n/x", '/admin/"><script>', "/admin/é"],
    )  # fmt: skip
    def test_whoever_signs_in_goes_on_within_the_dashboard_alone(self, place: Place, address: str) -> None:
        person = place.person()
        answer = person.arrive(place.issuer.sign_in(begin(person, next=address)))
        expected = "/admin/&#34;&gt;&lt;script&gt;" if "script>" in address else "/admin"
        assert re.findall(r'content="0; url=([^"]*)"', answer.text) == [expected]
        assert begin(person, next=address) == html.unescape(expected)  # and who is signed in already

    @pytest.mark.parametrize("query", ["a" * 5000, '"' * 2000], ids=["long", "longer as JSON"])
    def test_an_address_that_no_cookie_holds_is_left_out(self, place: Place, query: str) -> None:
        person = place.person()
        address = begin(person, next=f"/admin/keys?{query}")
        assert len(person.cookies[SIGN_IN]) < 4000
        assert 'url=/admin"' in person.arrive(place.issuer.sign_in(address)).text

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    def test_no_other_page_begins_a_sign_in(self, place: Place, site: str) -> None:
        answer = place.person().get("/admin/sign-in/hospital", headers={"Sec-Fetch-Site": site})
        assert answer.headers["location"] == "/admin/sign-in"
        assert SIGN_IN not in answer.headers.get("set-cookie", "")

    def test_a_session_that_somebody_else_has_set_is_not_taken_over(self, place: Place) -> None:
        planted, victim = "A" * 43, place.person()
        victim.cookies.set(
            SESSION,
            planted,
            domain="curator.test",
            path="/",
        )
        for cookie in victim.cookies.jar:
            cookie._rest = {"SameSite": "Strict"}  # type: ignore[attr-defined]
        answer = victim.arrive(place.issuer.sign_in(begin(victim)))
        ((new,),) = [
            re.findall(f"{SESSION}=([^;]+)", one) for one in answer.headers.get_list("set-cookie") if SESSION in one
        ]
        assert (len(new), new == planted) == (43, False)
        stored = {row[0] for row in place.world.sql("SELECT id_hash FROM browser_sessions")}
        assert stored == {hashlib.sha256(new.encode()).hexdigest()}

    @pytest.mark.parametrize("name", ["nobody", "Hospital", "<b>x"])
    def test_a_provider_that_is_not_set_is_not_there(self, place: Place, name: str) -> None:
        answer = place.person().get(f"/admin/sign-in/{name}")
        assert answer.status_code == 403
        assert name not in answer.text
        assert SIGN_IN not in answer.headers["set-cookie"]

    @pytest.mark.parametrize("origin", ["http://127.0.0.1:8000", "http://[::1]:8000", "http://localhost:8000"])
    def test_a_loopback_without_tls_works_too(self, place: Place, origin: str) -> None:
        place.curator.sign_ins.public_url = origin
        person = Person(place.world, app=place.app, origin=origin)
        address = begin(person)
        assert dict(parse_qsl(urlsplit(address).query))["redirect_uri"].startswith(f"{origin}/admin/")
        assert set(person.cookies) == {"curator-sign-in"}
        assert person.arrive(place.issuer.sign_in(address)).status_code == 200
        assert is_in(person)


class TestRates:
    def test_who_begins_many_sign_ins_keeps_nobody_out_and_writes_nothing(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A hospital has one address: whoever begins as many as may fail there, and more, begins nothing of others."""
        held = FailureLimiter(RateLimiter(3, "failures", now=lambda: 0.0), place.curator.failures.failure)
        object.__setattr__(place.curator, "failures", held)
        person, stranger = place.person(), place.person()
        address = begin(person)
        with monkeypatch.context() as watched:
            watched.setattr(place.curator.database, "begin", None)
            for _ in range(30):
                begin(stranger)
        assert place.used() == 0
        assert person.arrive(place.issuer.sign_in(address)).status_code == 200
        assert is_in(person)

    def test_no_more_answers_are_kept_than_there_may_be(self, either: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(signing_in, "USED_MAX", 3)
        for _ in range(5):
            either.world.clock.advance(seconds=1)
            either.signed_in()
        assert either.used() == 3

    def test_an_answer_that_gave_way_to_others_is_still_used(
        self, either: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever sends many answers makes the curator forget none that may come again."""
        monkeypatch.setattr(signing_in, "USED_MAX", 3)
        person = either.person()
        address = begin(person)
        kept = person.cookies[SIGN_IN]
        assert person.arrive(either.issuer.sign_in(address)).status_code == 200
        for _ in range(3):
            either.world.clock.advance(seconds=1)
            either.signed_in()
        assert either.used() == 3
        assert_used(either, address, kept)
        assert is_in(either.signed_in())

    def test_what_fails_counts_by_address_and_keeps_nobody_out_who_was_let_in(self, place: Place) -> None:
        limiter = place.curator.failures
        held = FailureLimiter(RateLimiter(3, "failures", now=lambda: 0.0), limiter.failure)
        object.__setattr__(place.curator, "failures", held)
        ada = place._first._api
        assert ada.get("/v1/me", token=place.world.tokens["ada"]).status_code == 200
        person = place.person()
        answer = place.issuer.sign_in(begin(person))
        for _ in range(3):
            assert person.arrive(tampered(answer, state="x")).status_code == 403
        assert person.arrive(answer).status_code == 429
        assert ada.get("/v1/me", token=place.world.tokens["ben"]).status_code == 429
        assert ada.get("/v1/me", token=place.world.tokens["ada"]).status_code == 200

    def test_that_somebody_was_let_in_lets_no_other_sign_in_pass(self, place: Place) -> None:
        held = FailureLimiter(RateLimiter(3, "failures", now=lambda: 0.0), place.curator.failures.failure)
        object.__setattr__(place.curator, "failures", held)
        place.signed_in()
        for _ in range(3):
            assert place._first._api.get("/v1/me", token="cur_wrong").status_code == 401
        person = place.person()
        assert person.arrive(place.issuer.sign_in(begin(person), sub="another")).status_code == 429

    def test_tokens_that_are_entered_and_do_not_hold_count_too(self, world: World) -> None:
        person = Person(world)
        held = FailureLimiter(RateLimiter(3, "failures", now=lambda: 0.0), person.app.state.curator.failures.failure)
        object.__setattr__(person.app.state.curator, "failures", held)
        for _ in range(3):
            assert person.sign_in("cur_wrong").status_code == 403
        assert person.sign_in(world.tokens["ada"]).status_code == 429


class TestFreshness:
    """What may be spent is changed by whoever proved just now who that is."""

    LIMIT = "/admin/populations/town/limit"

    def ask(self, person: Person, **fields: str) -> httpx.Response:
        asked = {"notion": "mu", "mu": "0.1", "epsilon": "", "reason": "less & <b>"} | fields
        return person.submit("/admin/populations/town", self.LIMIT, **asked)

    def led(self, answer: httpx.Response) -> str:
        """Return where a page asks to sign in again."""
        assert answer.status_code == 403, text_of(answer.text)
        assert "Nothing was done yet" in text_of(answer.text)
        found = re.search(r'href="(https://login[^"]+)"', answer.text)
        assert found is not None, answer.text
        return found[1].replace("&amp;", "&")

    def stale(self, place: Place, **said: Any) -> Person:
        """Return an officer who signed in at the provider an hour ago."""
        return place.signed_in(groups=OFFICER, auth_time=T - 3600, **said)

    def test_a_sign_in_that_the_provider_did_not_ask_anything_for_is_not_one_of_now(self, place: Place) -> None:
        for auth_time in (T - 3600, T - 61, ..., "x", True, float("nan")):
            person = place.signed_in(groups=OFFICER, auth_time=auth_time)
            assert "prompt=login" in self.led(self.ask(person))
        assert self.ask(place.signed_in(groups=OFFICER)).headers["location"].endswith("done=restricted")

    def test_a_form_is_kept_while_its_holder_signs_in_again_and_sent_by_a_last_click(self, either: Place) -> None:
        person, before = self.stale(either), either.world.account().limit
        address = self.led(self.ask(person))
        asked = dict(parse_qsl(urlsplit(address).query))
        assert (asked["prompt"], asked["max_age"]) == ("login", "0")
        either.world.clock.advance(seconds=30)
        answer = person.arrive(either.issuer.sign_in(address, groups=OFFICER))
        assert 'content="0; url=/admin/confirm"' in answer.text
        assert all(SESSION not in one for one in answer.headers.get_list("set-cookie"))
        page = person.get("/admin/confirm")
        assert (page.status_code, either.world.account().limit) == (200, before)
        assert "Change the limit of town" in text_of(page.text)
        assert "less & <b>" in text_of(page.text.replace("<b>", "")).replace("\n", " ")
        assert f'action="{self.LIMIT}"' in page.text
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        assert fields["mu"] == "0.1"
        done = person.post(self.LIMIT, fields | {"reason": "less"})
        assert done.headers["location"].endswith("done=restricted")
        assert either.world.account().limit < before

    def test_nothing_is_done_by_looking(self, place: Place) -> None:
        person, entries = self.stale(place), len(place.world.entries())
        address = self.led(self.ask(person))
        assert person.get("/admin/confirm").headers["location"] == "/admin"
        person.arrive(place.issuer.sign_in(address, groups=OFFICER))
        for _ in range(3):
            person.get("/admin/confirm")
            assert person.get(self.LIMIT).status_code in {404, 405}
        assert len(place.world.entries()) == entries
        place.world.clock.advance(minutes=5)
        assert person.get("/admin/confirm").headers["location"] == "/admin"
        self.led(self.ask(person))

    @pytest.mark.parametrize("auth_time", [T - 3600, T - 61, ..., None, "x", True, [], float("inf")], ids=str)
    def test_it_must_have_been_proved_after_it_was_asked_for(self, place: Place, auth_time: Any) -> None:
        person = self.stale(place)
        address = self.led(self.ask(person))
        answer = person.arrive(place.issuer.sign_in(address, groups=OFFICER, auth_time=auth_time))
        assert answer.status_code == 403
        self.led(self.ask(person))

    def test_it_must_have_been_proved_by_whoever_has_the_session(self, place: Place) -> None:
        person, acts = self.stale(place), place.acts()
        address = self.led(self.ask(person))
        refused(person.arrive(place.issuer.sign_in(address, groups=OFFICER, sub="boss")), "Somebody else signed in")
        assert (place.people(), place.acts()) == (["hospital.248289761001"], acts)
        self.led(self.ask(person))

    def test_a_sign_in_of_another_browser_makes_no_session_fresh(self, place: Place) -> None:
        """The holder signs in for themselves elsewhere, or an attacker leads them to do so."""
        person, elsewhere = self.stale(place), place.person()
        address = self.led(self.ask(person))
        answer = place.issuer.sign_in(address, groups=OFFICER)
        refused(elsewhere.arrive(answer), "did not send back the cookie")
        elsewhere.arrive(place.issuer.sign_in(begin(elsewhere), groups=OFFICER))
        self.led(self.ask(person))

    def test_whoever_lost_the_role_meanwhile_does_nothing(self, place: Place) -> None:
        person = self.stale(place)
        address = self.led(self.ask(person))
        place.world.clock.advance(seconds=30)
        person.arrive(place.issuer.sign_in(address, groups=["researchers"]))
        assert self.ask_again(person).status_code == 403
        assert place.world.account().limit == place.world.account().highest_limit

    def ask_again(self, person: Person) -> httpx.Response:
        return person.post(self.LIMIT, {"form_token": token_of(person.get("/admin")), "notion": "mu", "mu": "0.1"})

    def test_whoever_lost_every_group_loses_the_session(self, place: Place) -> None:
        person = self.stale(place)
        address = self.led(self.ask(person))
        refused(person.arrive(place.issuer.sign_in(address, groups=[])), "no group of yours")
        assert not is_in(person)

    def test_a_session_that_ended_meanwhile_does_not_come_back(self, place: Place) -> None:
        person = self.stale(place)
        address = self.led(self.ask(person))
        person.submit("/admin", "/admin/sign-out")
        refused(person.arrive(place.issuer.sign_in(address, groups=OFFICER)), "has ended meanwhile")
        assert not is_in(person)

    def test_a_token_of_the_curator_s_makes_no_session_of_a_provider_fresh(self, place: Place) -> None:
        person = self.stale(place)
        place.world.add_token("olga", Role.PRIVACY_OFFICER)
        self.led(self.ask(person, token=place.world.tokens["olga"]))

    def test_a_token_is_made_by_the_last_click_and_its_form_is_forgotten(self, either: Place) -> None:
        person = either.signed_in(groups=["it"], auth_time=T - 3600)
        form = "/admin/tokens/new"
        asked = fields_of(person.get(form)) | {"name": ["cora"]}
        address = self.led(person.post(form, asked))
        either.world.clock.advance(seconds=30)
        person.arrive(either.issuer.sign_in(address, groups=["it"]))
        page = person.get("/admin/confirm")
        assert "Make a token for cora" in text_of(page.text)
        assert asked["once"][0] not in text_of(page.text)
        assert "cora" not in [one.name for one in either.world.curator.identity.list_principals()]
        assert person.post(form, fields_of(page)).status_code == 201
        assert person.get("/admin/confirm").headers["location"] == "/admin"

    def test_what_is_approved_is_said_before_the_last_click(self, place: Place) -> None:
        place.world.add_token("otto", Role.PRIVACY_OFFICER)
        raised = {"limit": {"epsilon": 1.5, "delta": 1e-6}, "reason": "a second study"}
        asked = place.world.api("otto").post("/v1/admin/populations/town/limits", json=raised)
        proposal = asked.json()["id"]
        person = self.stale(place)
        form = f"/admin/proposals/{proposal}/approve"
        seen = place.world.curator.approvals.get_proposal(proposal).digest
        led = person.submit("/admin/proposals", form, reason="it is sound", seen=seen)
        address = self.led(led)
        person.arrive(place.issuer.sign_in(address, groups=OFFICER))
        assert place.world.curator.approvals.get_proposal(proposal).state == "open"
        page = person.get("/admin/confirm").text
        for shown in (text_of(led.text), text_of(page)):
            for said in ("Approve: Raise the limit of town", "otto", "a second study", "ε 1.0,", "ε 1.5,"):
                assert said in shown
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
        assert seen not in text_of(page)
        assert person.post(form, fields).headers["location"] == f"/admin/proposals/{proposal}?done=approved"
        decided = place.world.curator.approvals.get_proposal(proposal)
        assert (decided.state, decided.decision) == ("approved", "it is sound")

    def test_every_act_that_changes_what_may_be_spent_asks(self, place: Place) -> None:
        person = self.stale(place)
        form = token_of(person.get("/admin"))
        permit, token = place.world.permit(), place.world.tokens["ada"].split("_")[1]
        for address in (
            self.LIMIT, "/admin/proposals/population", f"/admin/permits/{permit}/change",
            f"/admin/permits/{permit}/end", f"/admin/tokens/{token}/revoke",
        ):  # fmt: skip
            answer = person.post(address, {"form_token": form})
            self.led(answer)
            assert ("ada" in text_of(answer.text)) is (permit in address or token in address)
        for address in ("/admin/permits/prm_0/change", "/admin/permits/prm_0/end", "/admin/tokens/0/revoke"):
            assert person.post(address, {"form_token": form}).status_code == 404


def test_a_provider_that_breaks_off_lets_nobody_in(place: Place) -> None:
    def fail(*_: Any) -> Any:
        raise ProviderUnreachable("login.example sends more than a document, or too slowly")

    person = place.person()
    answer = place.issuer.sign_in(begin(person))
    place.curator.identity.providers._flows["hospital"]._fetch = fail
    refused(person.arrive(answer), "does not hold")
