"""A world with a past for the dashboard: months of charges, permits, proposals, and texts of people who mean harm."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from patience import scaled
from support import ADMIN, World, body, make_rows, open_population, open_world

from analyst_client.local import RandomizedResponse, survey_terms
from curator_service.api.connections import server_options
from curator_service.app import create_app
from curator_service.identity.names import EMAIL_MAX, NAME_MAX, make_plain
from curator_service.identity.policy import Role
from curator_service.identity.repository import PersonName
from curator_service.kit.clock import timestamp
from curator_service.privacy.accountant import Price

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TURNED = "\u202eevitisop\u2066 \u200fend"
HOSTILE = f"{MARKUP} {{{{ 7 * 7 }}}} '\"><b> {TURNED} " + "w" * 300
"""Markup, a template, quotes, signs that turn text around, and a word without an end; within 500 characters."""
PEOPLE = {
    "ada": (Role.ANALYST,),
    "ben": (Role.ANALYST,),
    "audra": (Role.AUDITOR,),
    "stella": (Role.STEWARD,),
    "opal": (Role.OPERATOR,),
    "olga": (Role.PRIVACY_OFFICER,),
    "otto": (Role.PRIVACY_OFFICER,),
    "root": ADMIN,
}
ORIGIN = "https://curator.test"


def furnish(world: World) -> None:
    """Let half a year pass: charges in several months, permits, proposals of all sorts, and a lowered limit."""
    curator, clock = world.curator, world.clock
    for who, roles in PEOPLE.items():
        world.tokens[who] = curator.identity.create_token(who, *roles, days=400).text
    name_people(world)
    open_population(curator, "olmsted", Price(rho=0.5), accountant="zcdp")
    open_population(curator, "registry-2019", Price(epsilon=2.0), accountant="pure")
    open_population(curator, "maternity", Price(mu=0.11))
    maternity = world.register("births", "maternity", make_rows(30, seed=11))
    world.grant("ada", maternity)
    api = world.api("ada")
    for month in range(6):
        for repeat in range(month % 3 + 1):
            price = {"mu": 0.03 + 0.006 * month}
            asked = body(price=price, fresh=True, features=["age", "weight"][: 1 + repeat % 2])
            answer = api.post("/v1/datasets/cohort/releases", json=asked, key=f"k{month}{repeat}")
            assert answer.status_code == 201, answer.text
        if month % 2 == 0:
            small = body(price={"mu": 0.06}, fresh=True)
            answer = api.post("/v1/datasets/births/releases", json=small, key=f"b{month}")
            assert answer.status_code == 201, answer.text
        clock.advance(days=31)
        curator.versions.cut_due()
    world.permit("kidney-2027", people=("ada", "ben"), limit={"epsilon": 0.5, "delta": 1e-6})
    world.permit("frailty", people=("ben",), purpose=HOSTILE[:500], conditions=HOSTILE[:500], legal_basis=TURNED)
    asked = {"project": "registry-linkage", "people": ["ben"], "datasets": ["cohort", "births"]}
    asked |= {"expires_at": "2099-01-01T00:00:00Z", "purpose": HOSTILE[:500], "legal_basis": "consent"}
    asked |= {"reason": HOSTILE[:500], "limit": {"mu": 0.05}}
    assert world.api("olga").post("/v1/permits", json=asked).status_code == 202
    opened = {"name": "nursing-homes", "adjacency": "replace_one", "limit": {"mu": 0.5}, "reason": "the cohort of 2026"}
    assert world.api("olga").post("/v1/admin/populations", json=opened).status_code == 202
    raised = {"limit": {"epsilon": 1.5, "delta": 1e-6}, "reason": "a second study of the same people"}
    assert world.api("otto").post("/v1/admin/populations/town/limits", json=raised).status_code == 202
    lowered = {"limit": {"rho": 0.3}, "reason": "the study became smaller"}
    assert world.api("olga").post("/v1/admin/populations/olmsted/limits", json=lowered).status_code == 200
    reserved = {"price": {"mu": 0.1}, "expires_in_s": 86400, "project": "kidney-2027"}
    held = world.api("ada").post("/v1/datasets/cohort/reservations", json=reserved, key="held")
    assert held.status_code == 201, held.text
    ask_of_wards(world)
    question = RandomizedResponse({"smoker": ["no", MARKUP]}, epsilon=1, study=MARKUP)
    asked = survey_terms("smoking", question, reports_max=9)
    assert world.api("stella").post("/v1/surveys", json=asked).status_code == 201


def name_people(world: World) -> None:
    """Let people have displayed names: of other scripts, long, as a provider states it, and changed in its row."""
    people = world.curator.identity.people
    ids = {one.name: one.id for one in world.curator.identity.list_principals()}
    for who, name, email in (
        ("ada", "Ada Lovelace", "ada@hospital.example"), ("ben", "בן כהן", ""), ("olga", "Ольга Петрова", "olga@x"),
        ("stella", "W" * 100, ""), ("audra", "Audra McDonald", ""),
    ):  # fmt: skip
        people.name(ids[who], name, email, actor=ids[who])
    stated = PersonName(make_plain(TURNED + MARKUP, NAME_MAX), make_plain(f"{TURNED}@x", EMAIL_MAX))
    people.state(ids["otto"], stated, timestamp(world.clock()))
    world.sql(f"UPDATE person_names SET name = 'Grace Hopper' WHERE principal_id = '{ids['audra']}'")


def ask_of_wards(world: World) -> None:
    """Let a session be open on a dataset of which a level is markup, with questions about it."""
    columns = [
        ("age", "numeric", "complete", (50.0, 100.0), "years"),
        ("ward", "categorical", "complete", ("a", MARKUP), None),
    ]
    rows = [{"age": "70", "ward": ward} for ward in 30 * ("a", MARKUP)]
    world.grant("ada", world.register("wards", "town", rows, columns=columns))
    api, asked = world.api("ada"), {"positives": 40, "direction": "any", "price": {"epsilon": 0.05}}
    opened = api.post("/v1/datasets/wards/sessions", json=asked, key="wards")
    assert opened.status_code == 201, opened.text
    share = {"share": True, "weight": {"divide": ["age", 100]}, "threshold": 0.5, "direction": "below"}
    for key, question in {
        "count": {"where": {"in": ["ward", [MARKUP]]}, "threshold": 20, "direction": "above"},
        "share": {"where": {"not": [{"in": ["ward", [MARKUP]]}]}, **share},
        "all": {"threshold": 1e6, "direction": "above"},
    }.items():
        answer = api.post(f"/v1/sessions/{opened.json()['id']}/questions", json=question, key=key)
        assert answer.status_code == 201, answer.text


def session_of(world: World) -> str:
    """Return the id of that session."""
    (found,) = world.sql("SELECT id FROM sessions")
    return str(found[0])


@contextmanager
def furnished_world(folder: Path, *, ends: datetime | None = None, **options: Any) -> Iterator[World]:
    """Open a world whose past ends now."""
    ends = datetime.now(UTC) if ends is None else ends
    with open_world(folder, moment=ends - timedelta(days=6 * 31, minutes=1), **options) as world:
        furnish(world)
        yield world


@contextmanager
def serve(world: World) -> Iterator[str]:
    """Serve a world on loopback, in the present; yield its address, which is its public one if it has any."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = world.settings
        app = create_app(settings.model_copy(update={"public_url": settings.public_url and address}))
        world.apps.append(app)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, log_level="error", lifespan="on", **server_options(world.settings))
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        for _ in range(int(scaled(200))):
            if server.started:
                break
            time.sleep(0.05)
        assert server.started
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(scaled(20))


class Person:
    """Somebody with a browser that has no scripts: httpx on the application, with cookies.

    Parameters
    ----------
    world : World
    who : str or None
        Signs in; None does not.
    app : FastAPI, optional
        One that there is.
    """

    def __init__(
        self, world: World, who: str | None = None, *, app: FastAPI | None = None, origin: str = ORIGIN
    ) -> None:
        self._api = world.api(None)
        self.world, self.origin = world, origin
        self.app = self._api.app if app is None else app
        self.cookies = httpx.Cookies()
        if who is not None:
            self.sign_in(world.tokens[who])

    def get(self, address: str, **options: Any) -> httpx.Response:
        return self._request("GET", address, **options)

    def post(self, address: str, fields: dict[str, Any], **options: Any) -> httpx.Response:
        """Post a form as a browser does, from a page of the same origin."""
        headers = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin", **options.pop("headers", {})}
        sent = {name: value for name, value in headers.items() if value is not None}
        return self._request("POST", address, data=fields, headers=sent, **options)

    def _request(self, method: str, address: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=self.origin, cookies=self.cookies) as client:
                answer = await client.request(method, address, **options)
                self.cookies = client.cookies
                return answer

        return self._api.runner.run(send())

    def arrive(self, address: str, **options: Any) -> httpx.Response:
        """Follow a link of a page elsewhere, with which a browser sends no cookie that is strict."""
        kept, self.cookies = self.cookies, httpx.Cookies()
        for cookie in kept.jar:
            if "sign-in" in cookie.name:  # the one that is lax
                self.cookies.jar.set_cookie(cookie)
            else:
                assert cookie.get_nonstandard_attr("SameSite") == "Strict"
        headers = {"Sec-Fetch-Site": "cross-site", **options.pop("headers", {})}
        answer = self.get(address, headers=headers, **options)
        brought, self.cookies = self.cookies, kept
        for name in {cookie.name for cookie in kept.jar if "sign-in" in cookie.name}:
            del self.cookies[name]
        self.cookies.update(brought)
        return answer

    def sign_in(self, token: str, **fields: str) -> httpx.Response:
        form = token_of(self.get("/admin/sign-in"))
        return self.post("/admin/sign-in", {"form_token": form, "token": token, **fields})

    def submit(self, page: str, address: str, **fields: str) -> httpx.Response:
        """Open a page, and post one of its forms."""
        return self.post(address, {"form_token": token_of(self.get(page)), **fields})


def token_of(answer: httpx.Response) -> str:
    """Return the form token of a page."""
    assert answer.status_code in {200, 403, 409, 422}, answer.text[:2000]
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', answer.text)
    assert found is not None, answer.text[:2000]
    return found[1]


class _Fields(HTMLParser):
    """What a browser would send of the last form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}
        self._select = self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found = {}
        elif tag == "select":
            self._select = said["name"]
            self.found.setdefault(self._select, []).append("")
        elif tag == "option" and "selected" in said:
            self.found[self._select][-1] = said["value"]
        elif tag == "textarea":
            self._textarea = said["name"]
            self.found.setdefault(self._textarea, []).append("")
        elif tag == "input" and (said.get("type") != "checkbox" or "checked" in said):
            self.found.setdefault(said["name"], []).append(said.get("value", ""))

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.found[self._textarea][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._textarea = "" if tag == "textarea" else self._textarea


def fields_of(answer: httpx.Response) -> dict[str, list[str]]:
    """Return the fields of the last form of a page, each with its values in order."""
    parser = _Fields()
    parser.feed(answer.text)
    return parser.found


def text_of(html: str) -> str:
    """Return what a page says, without its tags."""
    import html as library

    return library.unescape(re.sub(r"<[^>]+>", "", html))
