"""Somebody signs in at the dashboard with a real OpenID provider, in Debian's Chromium, and decides a proposal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsers import launch, list_violations
from dashboard_worlds import serve
from support import World, open_world

from curator_service.identity.policy import Role
from curator_service.kit.clock import utc_now

sys.path.insert(0, str(Path(__file__).parents[1] / "oidc"))
from openid_provider import run_provider

pytestmark = [pytest.mark.slow, pytest.mark.machines]
PICTURES = os.environ.get("CURATOR_TEST_PICTURES")
"""A folder in which to leave what the pages look like."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world in which a raised limit waits for a second officer."""
    folder = tmp_path_factory.mktemp("sign-in")
    secret = folder / "secret"
    secret.write_text("of-tests-and-nobody-else", encoding="utf-8")
    with run_provider() as issuer:
        provider = {
            "issuer": issuer,
            "name": "login",
            "audience": "urn:curator:of-tests",
            "browser": {"client_id": "dashboard", "client_secret_file": str(secret)},
            "roles": {"researchers": ["analyst"], "auditors": ["auditor"], "data-protection": ["privacy_officer"]},
        }
        options: dict[str, Any] = {"providers": (provider,), "public_url": "http://127.0.0.1"}
        with open_world(folder / "world", moment=utc_now(), **options) as world:
            world.add_token("otto", Role.PRIVACY_OFFICER)
            raised = {"limit": {"epsilon": 1.5, "delta": 1e-6}, "reason": "a second study of the same people"}
            answer = world.api("otto").post("/v1/admin/populations/town/limits", json=raised)
            assert answer.status_code == 202
            yield world


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with serve(world) as served:
        yield served


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Any]:
    del address
    with launch() as launched:
        yield launched


@contextmanager
def opened(browser: Any, **options: Any) -> Iterator[Any]:
    context = browser.new_context(**options)
    try:
        yield context.new_page()
    finally:
        context.close()


def take_picture(page: Any, name: str) -> None:
    if PICTURES is not None:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def enter(page: Any, who: str) -> None:
    """Fill in the provider's pages: who it is, and then, once, that the curator may know it."""
    page.fill("input[name=login]", who)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    if page.locator("input[name=prompt][value=consent]").count():
        page.click("button[type=submit]")


def sign_in(page: Any, address: str, who: str, *, path: str = "/admin") -> None:
    page.goto(f"{address}{path}")
    page.click("text=Sign in at login")
    enter(page, who)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_at_the_entrance_with_a_provider(browser: Any, address: str, scheme: str) -> None:
    for width in (320, 1280):
        with opened(browser, color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 800}) as page:
            page.goto(f"{address}/admin/sign-in")
            take_picture(page, f"entrance-{scheme}-{width}")
            assert list_violations(page, scheme) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.goto(f"{address}/admin/sign-in/login/callback?code=x&state=y")
            take_picture(page, f"refused-{scheme}-{width}")
            assert list_violations(page, scheme) == []


def test_an_auditor_signs_in_looks_and_signs_out(browser: Any, address: str) -> None:
    with opened(browser, java_script_enabled=False) as page:
        sign_in(page, address, "audra", path="/admin/ledger")
        page.wait_for_url(f"{address}/admin/ledger")
        assert "login.audra" in page.inner_text(".who")
        assert "Dr audra" in page.inner_text(".who")
        page.goto(f"{address}/admin/proposals")
        assert page.locator("[formaction]").count() == 0
        assert "Propose a budget" not in page.inner_text("main")
        cookies = {one["name"]: one for one in page.context.cookies() if one["name"].startswith("curator-")}
        assert set(cookies) == {"curator-session", "curator-entry"}
        assert cookies["curator-session"]["sameSite"] == "Strict"
        page.click("text=Sign out")
        page.goto(f"{address}/admin/ledger")
        assert page.locator("#token").count() == 1


def test_a_keyboard_is_enough(browser: Any, address: str) -> None:
    with opened(browser) as page:
        page.goto(f"{address}/admin")
        for _ in range(2):  # the link to the content, and then the first way in
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Sign in at login"
        page.keyboard.press("Enter")
        page.wait_for_selector("input[name=login]")


def test_whoever_is_in_no_group_is_not_let_in(browser: Any, address: str, world: World) -> None:
    with opened(browser) as page:
        sign_in(page, address, "visitor")
        page.wait_for_selector("[role=alert]")
        assert "no group of yours there has a role here" in page.inner_text("[role=alert]")
        page.goto(f"{address}/admin")
        assert page.locator("#token").count() == 1
    assert "login.visitor" not in {one.name for one in world.curator.identity.list_principals()}


def test_whoever_turns_back_is_told_so(browser: Any, address: str) -> None:
    with opened(browser) as page:
        page.goto(f"{address}/admin")
        page.click("text=Sign in at login")
        page.click("text=[ Cancel ]")
        page.wait_for_selector("[role=alert]")
        assert "You were not signed in at login" in page.inner_text("[role=alert]")


def test_a_proposal_is_approved_by_whoever_signed_in_again_without_scripts(
    browser: Any, address: str, world: World
) -> None:
    (proposal,) = world.curator.approvals.list_proposals()
    with opened(browser, java_script_enabled=False) as page:
        sign_in(page, address, "olga", path="/admin/proposals")
        page.wait_for_url(f"{address}/admin/proposals")
        page.click("text=Raise the limit of town")
        page.fill("#reason", "the second study is sound")
        page.click("#decision button.main")
        page.click("main form button.main")
        assert "Nothing was done yet" in page.inner_text("main")
        take_picture(page, "again")
        page.click("text=Sign in again at login")
        # The provider knows her since a moment ago, and asks all the same.
        enter(page, "olga")
        page.wait_for_url(f"{address}/admin/confirm")
        assert world.curator.approvals.get_proposal(proposal.id).state == "open"
        assert "the second study is sound" in page.inner_text("main")
        take_picture(page, "confirm")
        page.click("text=Do it")
        page.wait_for_url(f"{address}/admin/proposals/{proposal.id}?done=approved")
    decided = world.curator.approvals.get_proposal(proposal.id)
    assert (decided.state, decided.decision) == ("approved", "the second study is sound")
    assert world.curator.ledger.verify("town").ok


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_way_to_a_decision(browser: Any, address: str, scheme: str) -> None:
    with opened(browser, color_scheme=scheme, bypass_csp=True, viewport={"width": 320, "height": 800}) as page:
        sign_in(page, address, "olga")
        page.wait_for_url(f"{address}/admin")
        page.goto(f"{address}/admin/populations/town")
        page.locator("input[name=reason]").last.fill("less " * 20)
        page.fill("#epsilon", "0.9")
        page.fill("#delta", "1e-6")
        page.locator("form[action$=limit] button").click()
        page.wait_for_selector("text=Sign in again at login")
        take_picture(page, f"again-{scheme}-320")
        assert list_violations(page, scheme) == []
        page.click("text=Sign in again at login")
        enter(page, "olga")
        page.wait_for_url(f"{address}/admin/confirm")
        take_picture(page, f"confirm-{scheme}-320")
        assert list_violations(page, scheme) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
