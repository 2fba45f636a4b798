"""The dashboard in Debian's Chromium: what axe finds, what leaves the origin, what runs, and what fits on a screen."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from browsers import launch, list_violations
from dashboard_worlds import MARKUP, PEOPLE, furnished_world, serve, session_of
from patience import scaled
from support import World

from curator_service.kit.samples import SLOT_S, SLOTS, Sample

pytestmark = [pytest.mark.slow, pytest.mark.machines]


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("past")
    with furnished_world(folder, inbox=folder / "inbox") as world:
        fill_inbox(folder / "inbox")
        yield world


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return another one, for what is decided."""
    folder = tmp_path_factory.mktemp("changing")
    with furnished_world(folder, inbox=folder / "inbox") as world:
        fill_inbox(folder / "inbox")
        yield world


def fill_inbox(folder: Path) -> None:
    """Put files there: one to register, one of hostile names, and one that is no table."""
    folder.mkdir()
    rows = "".join(f"{20 + i % 60},{'ab'[i % 2]},2020-01-{1 + i % 28:02d},{i % 7}\n" for i in range(100))
    (folder / "visits.csv").write_text(f"age (years),ward,seen,{MARKUP.split('>')[0].replace(',', '')}\n{rows}")
    (folder / "\u202eevitisop<b>{{ 7 * 7 }}.csv").write_text("a,b\n1,2\n")
    (folder / ("w" * 250)).write_text("17,18\n19,20\n")


@pytest.fixture(scope="module")
def address(past: World) -> Iterator[str]:
    with serve(past) as served:
        yield served


@pytest.fixture(scope="module")
def browser(past: World, changing: World) -> Iterator[Any]:
    """Return a browser; worlds come first and go last."""
    del past, changing
    with launch() as launched:
        yield launched


class Tab:
    """Somebody's page in a browser; notes what it asks for elsewhere, and what goes wrong on it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.asked: list[str] = []
        self.elsewhere: list[str] = []
        self.faults: list[str] = []
        page.route("**/*", self._route)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda said: self.faults.append(said.text) if said.type in {"error", "warning"} else None)

    def _route(self, route: Any) -> None:
        self.asked.append(route.request.url)
        if route.request.url.startswith(f"{self.address}/"):
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()

    def open(self, path: str) -> None:
        self.page.goto(f"{self.address}{path}")

    def sign_in(self, token: str) -> None:
        self.open("/admin/sign-in")
        self.page.fill("#token", token)
        self.page.click("button.main")
        self.page.wait_for_url(f"{self.address}/admin")


@contextmanager
def opened(browser: Any, address: str, token: str | None = None, **options: Any) -> Iterator[Tab]:
    context = browser.new_context(**options)
    try:
        tab = Tab(context.new_page(), address)
        if token is not None:
            tab.sign_in(token)
        yield tab
    finally:
        context.close()


def pages_of(world: World) -> list[str]:
    permits = [one for one in world.curator.permits.list_permits() if one.terms.project]
    return [
        "/admin/releases",
        f"/admin/releases/{next(one['release'] for one in world.entries() if one['kind'] == 'charge')}",
        "/admin", "/admin/populations/town", "/admin/ledger", "/admin/populations/town/ledger",
        "/admin/populations/town/ledger/6", "/admin/spending?by=month&by=analyst", "/admin/permits",
        *(f"/admin/permits/{permit.id}" for permit in permits), f"/admin/permits/{permits[0].id}/change",
        "/admin/permits/ask", "/admin/proposals", "/admin/proposals/population",
        *(f"/admin/proposals/{one.id}" for one in world.curator.approvals.list_proposals()),
        "/admin/datasets", "/admin/datasets/cohort", "/admin/sessions",
        "/admin/surveys", "/admin/surveys/smoking",
        f"/admin/sessions/{session_of(world)}", "/admin/tokens",
        "/admin/people", "/admin/people/olga", "/admin/people/otto", "/admin/keys", "/admin/nothing-here",
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_leaves_the_origin(browser: Any, past: World, address: str, scheme: str) -> None:
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as tab:
        tab.open("/admin/sign-in")
        faults = {"/admin/sign-in": list_violations(tab.page, scheme)}
        tab.sign_in(past.tokens["olga"])
        for page in pages_of(past):
            tab.open(page)
            for summary in tab.page.query_selector_all("details:not([open]) > summary"):
                summary.click()
            faults[page] = list_violations(tab.page, scheme)
        assert {page: found for page, found in faults.items() if found} == {}
        assert tab.elsewhere == []
        assert len(tab.asked) > len(faults)


@pytest.mark.parametrize("who", list(PEOPLE))
def test_pages_of_everybody_load_without_a_fault(browser: Any, past: World, address: str, who: str) -> None:
    """The policy of these pages refuses nothing that they need, and what people wrote does nothing."""
    with opened(browser, address, past.tokens[who]) as tab:
        links = tab.page.eval_on_selector_all("nav[aria-label=Pages] a", "all => all.map(a => a.getAttribute('href'))")
        assert links[0] == "/admin"
        pages = pages_of(past)[:-1] if who == "olga" else links
        for page in pages:
            tab.open(page)
            assert tab.page.title() != "owned"
            assert tab.page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert tab.faults == []
        assert tab.elsewhere == []


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_every_page_fits_its_screen(browser: Any, past: World, address: str, width: int) -> None:
    with opened(browser, address, past.tokens["olga"], viewport={"width": width, "height": 700}) as tab:
        for page in pages_of(past):
            tab.open(page)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, page
            wide = "all => all.filter(a => a.scrollWidth > a.clientWidth + 1).map(a => a.outerHTML.slice(0, 200))"
            assert width > 400 or tab.page.eval_on_selector_all(".scroll", wide) == [], page
            small = tab.page.eval_on_selector_all(
                "nav a, button, .button, select",
                "all => all.filter(a => a.offsetParent && a.getBoundingClientRect().height < 24).map(a => a.outerHTML)",
            )
            assert small == [], page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_health_of_a_day_fits_and_is_accessible(browser: Any, past: World, address: str, scheme: str) -> None:
    moment, samples = datetime.now(UTC).timestamp(), past.curator.health.samples
    for i in range(SLOTS):
        samples.add(moment - i * SLOT_S, Sample(i, 1, int(i == 9), 60, 40))
    with opened(browser, address, past.tokens["opal"], color_scheme=scheme, bypass_csp=True) as tab:
        tab.open("/admin/health")
        assert tab.page.locator("figure svg").count() == 4
        for summary in tab.page.query_selector_all("details:not([open]) > summary"):
            summary.click()
        assert list_violations(tab.page, scheme) == []
        for width in (320, 390, 820, 1280):
            tab.page.set_viewport_size({"width": width, "height": 700})
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_search_shows_what_it_finds_without_leaving_the_page(browser: Any, past: World, address: str) -> None:
    with opened(browser, address, past.tokens["olga"]) as tab:
        tab.page.evaluate("window.kept = true")
        tab.page.locator("#q").press_sequentially("mat")
        expect = pytest.importorskip("playwright.sync_api").expect
        expect(tab.page.locator("article")).to_have_count(1, timeout=scaled(5000))
        assert tab.page.locator("article h2").inner_text() == "maternity"
        assert re.search(r"[?&]q=mat\b", tab.page.url)
        assert tab.page.evaluate("window.kept && document.activeElement.id") == "q"
        # The browser keeps no page that somebody else could find there; an address, until the tab is closed.
        kept = tab.page.evaluate("[...Object.values(localStorage), ...Object.values(sessionStorage)]")
        assert all(text.startswith("/admin") for text in kept)
        tab.page.go_back()
        expect(tab.page.locator("article")).to_have_count(5, timeout=scaled(5000))


def test_all_of_it_works_without_scripts(browser: Any, past: World, address: str) -> None:
    with opened(browser, address, past.tokens["olga"], java_script_enabled=False) as tab:
        tab.page.fill("#q", "mat")
        tab.page.click("form[role=search] button")
        assert tab.page.locator("article").count() == 1
        tab.page.click("article h2 a")
        tab.page.click("text=Its ledger has")
        tab.page.select_option("#kind", "charge")
        tab.page.click("form[role=search] button")
        assert tab.page.locator("tbody tr").count() == 3
        tab.page.click("tbody th a >> nth=0")
        assert tab.page.locator(".checks .is-good").count() == 3
        assert not tab.page.locator("button.copy").is_visible()
        tab.page.click("text=Sign out")
        assert tab.page.locator("#token").count() == 1


def test_a_keyboard_is_enough(browser: Any, past: World, address: str) -> None:
    with opened(browser, address, past.tokens["olga"]) as tab:
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        tab.page.keyboard.press("Enter")
        assert tab.page.evaluate("document.activeElement.id") == "content"
        reached = set()
        for _ in range(40):
            tab.page.keyboard.press("Tab")
            found = tab.page.evaluate(
                "(() => { const a = document.activeElement, s = getComputedStyle(a);"
                " return [a.tagName + (a.id || a.textContent.trim()), s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
            )
            assert found[0].startswith("BODY") or (found[1] == "solid" and found[2] >= 2), found
            reached.add(found[0])
        assert {"INPUTq", "SELECTsort", "BUTTONShow", "Amaternity"} <= reached


def test_a_decision_is_taken_on_a_page(browser: Any, changing: World) -> None:
    with serve(changing) as address:
        with opened(browser, address, changing.tokens["root"]) as tab:
            tab.open("/admin/proposals")
            tab.page.click("text=Raise the limit of town")
            tab.page.fill("#text", "Which study is the second?")
            tab.page.click("#discussion button")
            assert "Which study is the second?" in tab.page.inner_text("#discussion")
            tab.page.click("#decision button.main")  # without a reason the browser sends nothing
            assert tab.page.locator("#decision").count() == 1
            tab.page.fill("#reason", "the second study is sound")
            tab.page.click("#decision button.main")
            assert "the guarantee becomes that of the new limit" in tab.page.inner_text("main")
            tab.page.click("main form button.main")
            assert "It holds from now on" in tab.page.locator("[role=status]").inner_text()
            assert tab.faults == []
        assert changing.account().limit == changing.account().highest_limit > 10**11
        assert changing.entries()[-1]["kind"] == "limit"


def test_paper_has_no_forms_and_all_of_a_table(browser: Any, past: World, address: str) -> None:
    with opened(browser, address, past.tokens["olga"]) as tab:
        tab.open("/admin/populations/town")
        tab.page.emulate_media(media="print")
        for hidden in (".frame", "form", ".skip"):
            assert tab.page.locator(f"{hidden}:visible").count() == 0
        assert tab.page.locator("svg.bar").first.is_visible()
        assert len(tab.page.pdf(format="A4")) > 10_000


def pages_of_stewards(world: World) -> list[str]:
    return ["/admin/inbox", *(f"/admin/inbox/{one.id}" for one in world.curator.inbox.list_files()[0])]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("who", ["stella", "opal"])
def test_pages_of_stewards_and_operators_have_no_fault_and_fit_a_telephone(
    browser: Any, past: World, address: str, who: str, scheme: str
) -> None:
    token = past.tokens["ada"].split("_")[1]
    pages = pages_of_stewards(past) if who == "stella" else ["/admin/tokens/new", f"/admin/tokens/{token}/rotate"]
    small = {"width": 320, "height": 700}
    with opened(browser, address, past.tokens[who], color_scheme=scheme, bypass_csp=True, viewport=small) as tab:
        for page in [*pages, "/admin/tokens", "/admin/people", "/admin/people/stella"] if who == "opal" else pages:
            tab.open(page)
            assert tab.page.title() != "owned"
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= 320, page
            for summary in tab.page.query_selector_all("details:not([open]) > summary"):
                summary.click()
            assert list_violations(tab.page, scheme) == [], page
        assert tab.elsewhere == []


@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_file_is_registered_on_a_page(browser: Any, changing: World, has_scripts: bool) -> None:
    name = f"visits{has_scripts}"
    with (
        serve(changing) as address,
        opened(browser, address, changing.tokens["stella"], java_script_enabled=has_scripts) as tab,
    ):
        tab.page.click("text=Inbox")
        tab.page.click("text=visits.csv")
        assert not tab.page.locator("#levels-1").is_visible()  # a number has no levels
        tab.page.fill("#name", name)
        tab.page.select_option("#population", "town")
        tab.page.select_option("#whose", "persons")
        tab.page.fill("#row_capacity", "99")
        tab.page.fill("#lower-1", "18")
        tab.page.fill("#upper-1", "90")
        tab.page.fill("#levels-2", "a\nb")
        tab.page.select_option("#kind-3", "")
        tab.page.select_option("#kind-4", "")
        tab.page.click("form .main")
        assert "there are more rows than the row_capacity of 99" in tab.page.locator("[role=alert]").inner_text()
        tab.page.fill("#row_capacity", "1000")
        tab.page.click("form .main")
        assert "Registered." in tab.page.locator("[role=status]").inner_text()
        assert tab.page.locator("h1").inner_text() == name
    assert name in {one.name for one in changing.curator.datasets.list_all()}


def test_a_name_is_set_shown_and_erased_on_pages(browser: Any, changing: World) -> None:
    with serve(changing) as address, opened(browser, address, changing.tokens["opal"]) as tab:
        tab.page.click("nav >> text=People")
        tab.page.fill("#q", "ben")
        tab.page.wait_for_url(lambda url: url.endswith("/admin/people?q=ben"))
        tab.page.click("text=Look")
        tab.page.fill("#display_name", "\u0412en Nevis")
        tab.page.click("form .main")
        assert "U+0412, is Cyrillic" in tab.page.locator("[role=alert]").inner_text()
        tab.page.fill("#display_name", "בן־דוד")
        tab.page.fill("#email", "ben@hospital.example")
        tab.page.click("form .main")
        assert "Done." in tab.page.locator("[role=status]").inner_text()
        # A name from right to left turns nothing of what stands beside it.
        name, code = (tab.page.locator(f"h1 .person {one}").bounding_box() for one in ("bdi", "code"))
        assert name["x"] + name["width"] <= code["x"]
        tab.open("/admin/tokens")
        assert "בן־דוד ben" in tab.page.locator("#found").inner_text()
        tab.open("/admin/people/ben")
        tab.page.click("text=Erase them …")
        tab.page.click("text=Erase them now")
        assert "Erased." in tab.page.locator("[role=status]").inner_text()
        assert tab.page.locator("h1").inner_text() == "ben"
        assert tab.faults == [
            "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
        ]


def test_a_token_is_made_on_a_page_and_copied(browser: Any, changing: World) -> None:
    with serve(changing) as address:
        permissions = ["clipboard-read", "clipboard-write"]
        with opened(browser, address, changing.tokens["opal"], permissions=permissions) as tab:
            tab.page.click("nav >> text=Tokens")
            tab.page.click("text=Make a token")
            tab.page.fill("#name", "cora")
            tab.page.click("form .main")
            made = tab.page.locator("#made").inner_text()
            tab.page.click("text=Copy")
            assert tab.page.evaluate("navigator.clipboard.readText()") == made
            # Neither a way back nor a page of the history shows it again.
            tab.open("/admin")
            tab.page.go_back()
            assert made not in tab.page.content()
            kept = tab.page.evaluate("[...Object.values(localStorage), ...Object.values(sessionStorage)]")
            assert all(made not in text for text in kept)
        assert changing.curator.identity.authenticate(f"Bearer {made}").name == "cora"
