"""Why a sign-in fails: each reality has its own reason, in the log and for whoever may know."""

import json
import logging
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jwt
import pytest
from issuers import ISSUER, RSA, Documents, T, claims, providers, public_jwk, sign
from support import open_world
from typer.testing import CliRunner

from curator_service.cli import providers as cli_providers
from curator_service.identity.oidc import keys as oidc_keys
from curator_service.identity.oidc.faults import WORDS, Fault, TokenFault
from curator_service.identity.oidc.fetching import ProviderUnreachable
from curator_service.identity.oidc.keys import KeySet
from curator_service.kit.problems import Unavailable

SECRET = "a-claim-that-nobody-logs"
PAGE = Path(__file__).parents[3] / "docs" / "identity.md"

SIGNED: list[tuple[Fault, dict[str, Any]]] = [
    (Fault.AUDIENCE, {"aud": SECRET}),
    (Fault.AUDIENCE, {"aud": ...}),
    (Fault.AUDIENCE_ACCOUNT, {"aud": "account"}),
    (Fault.AUDIENCE_ACCOUNT, {"aud": ["account"]}),
    (Fault.TIMES, {"exp": ...}),
    (Fault.TIMES, {"iat": "now"}),
    (Fault.NOT_YET, {"nbf": T + 61}),
    (Fault.NOT_YET, {"iat": T + 3600, "exp": T + 7200}),
    (Fault.EXPIRED, {"exp": T - 61}),
    (Fault.LIFETIME, {"exp": T + 90_000}),
    (Fault.SUBJECT, {"sub": ...}),
    (Fault.SUBJECT, {"sub": ""}),
    (Fault.GROUPS_ABSENT, {"groups": ...}),
    (Fault.GROUPS_OVERAGE, {"groups": ..., "_claim_names": {"groups": "src1"}}),
    (Fault.GROUPS_OVERAGE, {"groups": ..., "hasgroups": True}),
    (Fault.GROUPS_PATHS, {"groups": ["/researchers", SECRET]}),
    (Fault.GROUPS_TEXT, {"groups": "researchers,dpo"}),
    (Fault.GROUPS_TEXT, {"groups": "researchers dpo"}),
    (Fault.GROUPS_UNMAPPED, {"groups": [SECRET]}),
    (Fault.GROUPS_UNMAPPED, {"groups": []}),
]
UNSIGNED: list[tuple[Fault, str]] = [
    (Fault.TOO_LONG, sign(claims(groups=["x" * 100] * 200))),
    (Fault.FORM, "eyJ.not"),
    (Fault.ENCRYPTED, "eyJhbGciOiJkaXIifQ..a.b.c"),
    (Fault.ISSUER, sign(claims(iss=f"{ISSUER}/"))),
    (Fault.HEADER, sign(claims(), header={"zip": "DEF"})),
    (Fault.KEY_ID, sign(claims()).replace(sign(claims()).split(".")[0], "eyJhbGciOiJSUzI1NiJ9")),
    (Fault.ALGORITHM, sign(claims(), "ec384")),
    (Fault.TYPE, sign(claims(), header={"typ": "logout+jwt"})),
    (Fault.KEY, sign(claims(), header={"kid": "made-up"})),
    (Fault.SIGNATURE, sign(claims(), "other", header={"kid": "rsa"})),
]


def fault_of(text: str) -> TokenFault:
    with pytest.raises(TokenFault) as found:
        providers(Documents()).sign_in(text)
    return found.value


@pytest.mark.parametrize(("fault", "changes"), SIGNED, ids=str)
def test_a_signed_token_has_a_reason_of_its_own(fault: Fault, changes: dict[str, Any]) -> None:
    found = fault_of(sign_anything(claims(**changes)))
    assert (found.fault, found.is_signed, found.provider) == (fault, True, "hospital")


def sign_anything(said: dict[str, Any]) -> str:
    """Sign what a library would refuse to."""
    return jwt.api_jws.encode(
        json.dumps(said).encode(), RSA, algorithm="RS256", headers={"kid": "rsa", "typ": "at+jwt"}
    )


@pytest.mark.parametrize(("fault", "text"), UNSIGNED, ids=lambda one: str(one)[:16])
def test_a_token_of_anybody_has_a_reason_that_he_is_not_told(fault: Fault, text: str) -> None:
    found = fault_of(text)
    assert (found.fault, found.is_signed) == (fault, False)


@pytest.mark.parametrize("said", ["aud", "groups", "exp", "nbf"])
def test_no_reason_is_told_of_what_somebody_else_has_signed(said: str) -> None:
    forged = sign(claims(**{said: T - 10_000 if said in {"exp", "nbf"} else "account"}), "other", header={"kid": "rsa"})
    assert fault_of(forged).fault is Fault.SIGNATURE


def test_each_reason_has_words_and_stands_in_the_documentation() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("### When a sign-in fails")[2].partition("\n### ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == {str(fault) for fault in Fault}
    assert WORDS.keys() == set(Fault)


def test_the_log_has_the_reason_and_the_person_has_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_world(tmp_path) as world, caplog.at_level(logging.WARNING, "curator_service"):
        api = world.api(None)
        api.app.state.curator.identity.providers = providers(Documents(), now=world.clock)
        for fault, changes in SIGNED:
            caplog.clear()
            answer = api.get("/v1/me", token=sign_anything(claims(**changes)))
            assert (answer.status_code, WORDS[fault] in answer.json()["detail"]) == (401, True)
            assert [one.getMessage() for one in caplog.records] == [f"a sign-in at hospital fails: {fault}"]
            assert SECRET not in answer.text + caplog.text
        for fault, text in UNSIGNED:
            caplog.clear()
            detail = api.get("/v1/me", token=text).json()["detail"]
            assert "Send a valid token" in detail
            assert caplog.records[-1].getMessage().endswith(f"fails: {fault}")


class TestKeys:
    @pytest.fixture
    def ticking(self) -> tuple[KeySet, Documents, Callable[[float], None]]:
        moment, documents = [1000.0], Documents()
        keys = KeySet(ISSUER, documents, clock=lambda: moment[0])

        def advance(span: float) -> None:
            moment[0] += span

        assert keys.find("rsa", "RS256") is not None
        return keys, documents, advance

    def test_a_new_key_that_cannot_be_fetched_now_is_no_fault_of_the_token_once_a_period(
        self, ticking: tuple[KeySet, Documents, Callable[[float], None]]
    ) -> None:
        keys, documents, advance = ticking
        documents.keys.append(public_jwk("other"))
        documents.down = True
        advance(oidc_keys.AGAIN_S + 1)
        with pytest.raises(Unavailable):
            keys.find("other", "RS256")
        asked = len(documents.asked)
        for n in range(20):
            assert keys.find(f"made-up-{n}", "RS256") is None
        assert keys.find("rsa", "RS256") is not None
        assert len(documents.asked) == asked
        documents.down = False
        advance(oidc_keys.AGAIN_S + 1)
        assert keys.find("other", "RS256") is not None

    def test_a_made_up_id_is_none_and_asks_once_a_minute(
        self, ticking: tuple[KeySet, Documents, Callable[[float], None]]
    ) -> None:
        keys, documents, advance = ticking
        advance(oidc_keys.AGAIN_S + 1)
        asked = len(documents.asked)
        for n in range(20):
            assert keys.find(f"made-up-{n}", "RS256") is None
        assert len(documents.asked) == asked + 2  # the description and the keys


INSIDE = "https://keycloak.internal:8443/realm"


class TestFetchAddress:
    def fetch(self, described: dict[str, Any], asked: list[str]) -> Any:
        def fetch(url: str, *_: Any) -> Any:
            asked.append(url)
            shown = {
                f"{INSIDE}/.well-known/openid-configuration": {"issuer": ISSUER, **described},
                f"{INSIDE}/keys": {"keys": [public_jwk("rsa")]},
            }
            if url not in shown:
                raise ProviderUnreachable("nothing is there")
            return shown[url]

        return fetch

    @pytest.mark.parametrize("keys", [f"{ISSUER}/keys", f"{INSIDE}/keys"])
    def test_what_is_fetched_comes_from_there_and_the_issuer_stays(self, keys: str) -> None:
        asked: list[str] = []
        found = providers(
            self.fetch({"jwks_uri": keys, "authorization_endpoint": f"{ISSUER}/auth"}, asked),  # type: ignore[arg-type]
            fetch_address=INSIDE,
        )
        assert found.sign_in(sign(claims())).principal.issuer == ISSUER
        with pytest.raises(TokenFault):
            found.sign_in(sign(claims(iss=INSIDE)))
        assert all(url.startswith(INSIDE) for url in asked)
        key_set = found._keys[ISSUER]
        assert key_set.find_address("authorization_endpoint") == f"{ISSUER}/auth"  # browsers go to the issuer

    def test_a_description_of_another_issuer_is_not_taken(self) -> None:
        found = providers(
            self.fetch({"issuer": INSIDE, "jwks_uri": f"{INSIDE}/keys"}, []),  # type: ignore[arg-type]
            fetch_address=INSIDE,
        )
        with pytest.raises(Unavailable):
            found.sign_in(sign(claims()))


class TestExplain:
    @pytest.mark.parametrize(
        ("text", "said", "status"),
        [
            (sign(claims()), "the token holds", 0),
            (sign(claims(groups=["/researchers"])), "groups-paths", 1),
            (sign(claims(aud="account", name="\x1b[31m")), "audience-account", 1),
            (sign(claims(), "other", header={"kid": "rsa"}), "signature", 1),
            ("", "form", 1),
            ("garbage", "form", 1),
        ],
    )
    def test_a_token_on_standard_input(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str, status: int
    ) -> None:
        with open_world(tmp_path) as world:
            world.curator.identity.providers = providers(Documents(), now=world.clock)
            monkeypatch.setattr(cli_providers, "open_curator", lambda: nullcontext(world.curator))
            count = len(world.curator.register.list_entries(after=0, count=1000))
            ended = CliRunner().invoke(cli_providers.providers, ["explain"], input=text + "\n")
            assert (ended.exit_code, said in ended.output) == (status, True), ended.output
            assert "\x1b[31m" not in ended.output
            told = CliRunner().invoke(cli_providers.providers, ["explain", "--json"], input=text)
            assert json.loads(told.stdout)["fault"] == (said if status else None)
            assert len(world.curator.register.list_entries(after=0, count=1000)) == count
