"""A curator below a path of a host that has other services: pages, forms, cookies, documents and addresses."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from dashboard_worlds import Person, token_of
from pydantic import ValidationError
from support import World, body, open_world

from analyst_client import CuratorClient, CuratorError
from curator_service.settings import Settings

URL = "https://hospital.example/curator"
ATTRIBUTE = re.compile(r'(?:href|src|action|formaction|hx-get)="([^"#]*)')


class Proxied(Person):
    """Somebody behind a proxy that passes paths on as they are, or takes ours off."""

    takes_off = False

    def _request(self, method: str, address: str, **options: Any) -> Any:
        path = address.removeprefix(URL)
        if self.takes_off:
            path = path.removeprefix("/curator") or "/"
            kept = "; ".join(f"{one.name}={one.value}" for one in self.cookies.jar)  # the browser sees the whole path
            options["headers"] = {"Cookie": kept} | options.get("headers", {})
        elif not path.startswith("/curator"):
            path = f"/curator{path}"
        return super()._request(method, path, **options)


class Stripped(Proxied):
    takes_off = True


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("below"), public_url=URL) as world:
        yield world


@pytest.fixture(params=[Proxied, Stripped])
def olga(request: pytest.FixtureRequest, below: World) -> Person:
    below.tokens.setdefault("root", "")
    return request.param(below, "root", origin="https://hospital.example")  # type: ignore[no-any-return]


def test_every_link_of_every_page_leads_to_a_page_below_the_path(olga: Person) -> None:
    seen, left = set[str](), ["/curator/admin"]
    while left:
        address = left.pop()
        if address in seen or "/csv" in address or len(seen) > 60:
            continue
        seen.add(address)
        answer = olga.get(address)
        assert answer.status_code == 200, address
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert int(answer.headers["content-length"]) == len(answer.content)
        for found in ATTRIBUTE.findall(answer.text):
            assert found.startswith(("/curator/", "data:")) or not found, (address, found)
            if 'href="' + found in answer.text and f'action="{found}' not in answer.text:
                left.append(found.replace("&amp;", "&"))
    assert {"/curator/admin", "/curator/admin/ledger", "/curator/admin/populations/town"} <= seen
    assert any("/static/style.css" in one for one in seen)


def test_forms_lead_on_below_the_path(olga: Person) -> None:
    form = "/curator/admin/populations/town"
    fields = {"form_token": token_of(olga.get(form)), "notion": "mu", "mu": "0.9", "reason": "less"}
    answer = olga.post(f"{form}/limit", fields)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/curator/admin/populations/town?done=")


def test_the_cookie_is_sent_to_no_other_service_of_the_host(below: World) -> None:
    person = Proxied(below, origin="https://hospital.example")
    answer = person.sign_in(below.tokens["root"])
    assert answer.headers["location"] == "/curator/admin"
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if "curator-session=" in one and "=;" not in one]
    attributes = {part.strip() for part in cookie.split(";")[1:]}
    assert cookie.startswith("__Secure-curator-session=")
    assert {"Path=/curator", "Secure", "HttpOnly", "SameSite=Strict"} <= attributes


def test_the_name_of_the_host_leads_to_the_pages(below: World, world: World) -> None:
    assert Person(world).get("/").headers["location"] == "/admin"
    for address in ("/curator", "/curator/"):
        assert Proxied(below).get(address).headers["location"] == "/curator/admin"
    assert Person(below).get("/curatorial/admin").status_code == 404


def test_whoever_is_not_signed_in_is_led_back_to_where_they_wanted(below: World) -> None:
    led = Proxied(below, origin="https://hospital.example").get("/admin/ledger").headers["location"]
    assert led == "/curator/admin/sign-in?next=/admin/ledger"


@pytest.mark.parametrize("steps", ["..", "%2e%2e", ".%2E"])
def test_nobody_is_led_to_another_service_of_the_host(below: World, steps: str) -> None:
    person = Proxied(below, "root", origin="https://hospital.example")
    led = person.get("/admin/sign-in", params={"next": f"/admin/{steps}/{steps}/wiki"}).headers["location"]
    assert led == "/curator/admin"


@pytest.mark.parametrize("host", ["evil.example", "hospital.example.evil", "hospital.example:444"])
def test_what_a_host_header_says_is_in_no_link(below: World, host: str) -> None:
    person = Proxied(below, "root", origin="https://hospital.example")
    for address in ("/admin", "/admin/ledger", "/docs"):
        answer = person.get(address, headers={"Host": host, "X-Forwarded-Host": host})
        assert "evil" not in answer.text
        assert "evil" not in str(answer.headers)


def test_the_document_and_its_page_say_where_the_interface_is(below: World, world: World) -> None:
    person = Proxied(below)
    assert person.get("/openapi.json").json()["servers"] == [{"url": "/curator"}]
    assert "url: '/curator/openapi.json'" in person.get("/docs").text
    assert "servers" not in Person(world).get("/openapi.json").json()


def test_programs_find_what_an_answer_points_to(below: World) -> None:
    api = below.api("ada")
    answer = api.post("/curator/v1/datasets/cohort/releases", json=body(price={"mu": 0.1}), key="k")
    assert answer.status_code == 201
    assert answer.headers["location"].startswith("/curator/v1/releases/rel_")
    assert api.get(answer.headers["location"]).status_code == 200


def test_the_library_takes_an_address_with_a_path(below: World) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(404, json={})

    with (
        CuratorClient(
            URL, below.tokens["ada"], memory=None, transport=httpx.MockTransport(answer), max_attempts=1
        ) as client,
        pytest.raises(CuratorError),
    ):
        client.datasets()
    assert asked
    assert all(path.startswith("/curator/v1/") for path in asked)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (None, ""),
        ("https://h.example", ""),
        ("https://h.example/", ""),
        ("https://h.example/curator/", "/curator"),
        ("https://h.example:8443/a/b-c", "/a/b-c"),
        ("http://localhost:8000/x", "/x"),
    ],
)
def test_a_public_address_may_have_a_path(tmp_path: Path, url: str | None, path: str) -> None:
    assert Settings(data_dir=tmp_path, public_url=url).public_path == path


@pytest.mark.parametrize(
    "url",
    ["https://h/../x", "https://h/a/./b", "https://h//a", "https://h/a b", "https://h/a?b", "https://h/%2e", "h/a"],
)
def test_a_public_address_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValidationError, match="a public address is https://HOST"):
        Settings(data_dir=tmp_path, public_url=url)
