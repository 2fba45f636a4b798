"""Somebody signs in at a real OpenID provider with a code, from the client, and is charged at a real curator."""

import json
import re
import secrets
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_worlds import serve_world
from support import World

from analyst_client import CuratorAdmin, CuratorClient
from analyst_client.admin.command import main as administer
from analyst_client.errors import AuthenticationError, PermissionDeniedError
from analyst_client.http import sign_in as signing_in
from curator_service.approvals.problems import SecondAdminNeeded
from curator_service.identity.oidc.code_flow import Transaction
from curator_service.identity.repository import Principal
from curator_service.kit.clock import utc_now

sys.path.insert(0, str(Path(__file__).parents[1] / "oidc"))
from openid_provider import approve, follow, run_provider

pytestmark = [pytest.mark.slow, pytest.mark.machines]
AUDIENCE = "urn:curator:of-tests"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with run_provider(access_token_s=60) as found:
        yield found


@pytest.fixture
def place(issuer: str, tmp_path: Path) -> Iterator[tuple[World, str]]:
    provider = {
        "issuer": issuer,
        "name": "login",
        "audience": AUDIENCE,
        "client_id": "notebooks",
        "scope": "openid offline_access release",
        "parameters": {"resource": AUDIENCE},
        "roles": {"researchers": ["analyst"], "data-protection": ["privacy_officer"]},
    }
    with serve_world(tmp_path / "world", providers=(provider,)) as served:
        yield served


def typing_as(who: str) -> Any:
    """Return what shows an invitation to somebody who follows it at once, elsewhere."""

    def show(text: str) -> None:
        found = re.search(r"Or open (\S+) and compare", text)
        assert found is not None, text
        threading.Thread(target=approve, args=(found[1], who), daemon=True).start()

    return show


def test_somebody_signs_in_with_a_code_and_is_charged(place: tuple[World, str], tmp_path: Path) -> None:
    world, url = place
    memory = tmp_path / "memory" / "seen.json"
    with CuratorClient.sign_in(url, show=typing_as("ada"), memory=memory, keep=True) as client:
        found = client.whoami()
        assert (found.name, found.shown_name, found.roles) == ("login.ada", "Dr ada", ("analyst",))
        assert found.authenticated_by == "provider"
        assert client.datasets() == ()
        world.curator.permits.grant("login.ada", "cohort", actor="operator:test")
        client.release("cohort", ["age"], target="kappa", rows="box", mu=0.05)
        kept = memory.with_name("seen.json.sign-in")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        # The provider lets an access token live for a minute: it is renewed before, and a refused one at once.
        credentials: Any = client._transport._credentials
        first = credentials.token()
        credentials._ends = float("-inf")
        assert credentials.token() != first
        assert client.whoami().name == "login.ada"
        credentials._access = "eyJ.not.it"
        assert client.whoami().name == "login.ada"
    # The next time nobody types anything in.
    with CuratorClient.sign_in(url, show=pytest.fail, memory=memory, keep=True) as again:
        assert again.whoami().name == "login.ada"
    charges = [entry for entry in world.entries() if entry["kind"] == "charge"]
    people = {principal.id: principal for principal in world.curator.identity.list_principals()}
    assert [people[entry["actor"]].name for entry in charges] == ["login.ada"]
    acts = world.curator.register.list_entries(after=0, count=1000)
    assert [act["roles"] for act in acts if act.get("issuer")] == [["analyst"]]
    assert world.curator.ledger.verify("_register").ok


def test_groups_decide_the_roles(place: tuple[World, str]) -> None:
    _, url = place
    with CuratorClient.sign_in(url, show=typing_as("olga"), memory=None) as client:
        assert client.whoami().roles == ("privacy_officer",)
        with pytest.raises(PermissionDeniedError):
            client.release("cohort", ["age"], target="kappa", rows="box", mu=0.05)


def test_an_officer_signs_in_once_and_administers_from_afar(
    place: tuple[World, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, url = place
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CURATOR_TOKEN", raising=False)
    with CuratorAdmin.sign_in(url, show=typing_as("olga"), keep=True) as admin:
        assert admin.whoami().roles == ("privacy_officer",)
    lower = ["limits", "set", "town", "--mu", "0.1", "--reason", "less", "--yes"]
    assert administer(["--server", url, "--sign-in", "--json", *lower]) == 0  # nobody types anything in
    assert json.loads(capsys.readouterr().out)["state"] == "applied"
    olga = next(one for one in world.curator.identity.list_principals() if one.name == "login.olga")
    assert world.entries("town")[-1]["actor"] == olga.id
    assert administer(["--server", url, "--sign-in", "--provider", "elsewhere", "whoami"]) == 2
    assert "login" in capsys.readouterr().err


def test_whoever_is_in_no_group_is_not_let_in(place: tuple[World, str]) -> None:
    world, url = place
    with (
        CuratorClient.sign_in(url, show=typing_as("visitor"), memory=None) as client,
        pytest.raises(AuthenticationError),
    ):
        client.whoami()
    assert "login.visitor" not in {principal.name for principal in world.curator.identity.list_principals()}


def test_a_code_that_nobody_types_in_lets_nobody_in(place: tuple[World, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, url = place
    moment = [0.0]
    with pytest.raises(AuthenticationError, match="before its time was over"):
        signing_in.sign_in(
            url, provider=None, show=lambda _: None, place=None, timeout_s=30, transport=None, allow_http=False,
            sleep=lambda span: moment.__setitem__(0, moment[0] + 40 * span), clock=lambda: moment[0],
        )  # fmt: skip


def test_a_code_that_is_refused_lets_nobody_in(place: tuple[World, str]) -> None:
    _, url = place

    def refuse(text: str) -> None:
        found = re.search(r"Or open (\S+) and compare", text)
        assert found is not None
        with httpx.Client(follow_redirects=True, trust_env=False) as browser:
            page = browser.get(found[1])
            from openid_provider import _Form

            form = _Form(page.text)
            page = browser.post(page.url.join(form.action or ""), data=form.fields)
            form = _Form(page.text)
            browser.post(page.url.join(form.action or ""), data={**form.fields, "abort": "yes"})

    with pytest.raises(AuthenticationError, match="access_denied"):
        CuratorClient.sign_in(url, show=refuse, memory=None)


def test_a_token_for_another_audience_is_refused_by_the_curator(place: tuple[World, str], issuer: str) -> None:
    """The same provider, client and person, for another resource."""
    _, url = place

    def elsewhere(request: httpx.Request) -> httpx.Response:
        with httpx.Client(trust_env=False) as client:
            content = request.content.replace(b"urn%3Acurator%3Aof-tests", b"urn%3Aanother")
            headers = {name: value for name, value in request.headers.items() if name != "content-length"}
            answer = client.request(request.method, request.url, content=content, headers=headers)
        return httpx.Response(answer.status_code, content=answer.content, headers={"content-type": "application/json"})

    assert issuer
    with (
        CuratorClient.sign_in(
            url, show=typing_as("ada"), memory=None, transport=httpx.MockTransport(elsewhere)
        ) as client,
        pytest.raises(AuthenticationError),
    ):
        client.whoami()


CALLBACK = "http://127.0.0.1/admin/sign-in/login/callback"


@pytest.mark.parametrize("setting", [{}, {"subject_claim": "oid"}], ids=str)
def test_one_person_to_whose_dashboard_the_provider_states_another_subject(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    """She proposes from a notebook, and approves at the dashboard; another officer is a second person."""
    secret = tmp_path / "secret"
    secret.write_text("of-tests-and-nobody-else", encoding="utf-8")
    with run_provider(dashboard_subjects="pairwise") as issuer:
        provider = {
            "issuer": issuer, "name": "login", "audience": AUDIENCE, "client_id": "notebooks",
            "scope": "openid offline_access release", "parameters": {"resource": AUDIENCE},
            "browser": {"client_id": "dashboard", "client_secret_file": str(secret)},
            "roles": {"auditors": ["privacy_officer"], "data-protection": ["privacy_officer"]}, **setting,
        }  # fmt: skip
        with serve_world(tmp_path / "world", providers=(provider,), public_url="http://127.0.0.1") as (world, url):
            identity, approvals = world.curator.identity, world.curator.approvals

            def at_the_dashboard(who: str) -> Principal:
                flow = Transaction(secrets.token_urlsafe(32), CALLBACK)
                assert identity.providers is not None
                answer = follow(identity.providers.begin("login", flow, anew=False), who, CALLBACK)
                found = identity.providers.complete("login", flow, answer["code"], answer["iss"], utc_now())
                assert found is not None
                return identity.admit(found.principal, found.told_at, found.recognition)

            with CuratorAdmin.sign_in(url, show=typing_as("olga")) as admin:
                proposal = admin.set_limit("town", {"mu": 2.0}, "more").id
                asker = admin.whoami().name
            olga = at_the_dashboard("olga")
            assert (olga.name == asker) is bool(setting)
            with pytest.raises(SecondAdminNeeded):
                approvals.decide(proposal, olga, approve=True)
            if setting:
                assert approvals.decide(proposal, at_the_dashboard("audra"), approve=True).state == "approved"
                return
            with pytest.raises(SecondAdminNeeded, match="two applications"):
                approvals.decide(proposal, at_the_dashboard("audra"), approve=True)
            with CuratorAdmin.sign_in(url, show=typing_as("audra")) as admin:
                assert admin.approve_proposal(proposal).state == "approved"
