"""A world in which people sign in at the dashboard with a browser, at two identity providers."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from dashboard_worlds import ORIGIN, Person, text_of
from issuers import ISSUER, NOW, SignInPages, provider
from support import World, open_world

from curator_service.identity.oidc.providers import IdentityProviders

SESSION, SIGN_IN = "__Host-curator-session", "__Host-curator-sign-in"
OTHER = "https://other.example"
CLIENT = {"client_id": "dashboard"}
OFFICER = ["dpo"]
"""Groups that give the role of a privacy officer."""


class Place:
    """A world with two providers, and one application of it."""

    def __init__(self, world: World, **client: Any) -> None:
        self.world = world
        self.issuer, self.other = SignInPages(world.clock), SignInPages(world.clock, OTHER)
        self._first = Person(world)
        self.app = self._first.app
        self.curator: Any = self.app.state.curator
        ours = provider(browser=CLIENT | client)
        self.curator.identity.providers = IdentityProviders(
            (ours, provider(browser=CLIENT, issuer=OTHER, name="other")), (), world.clock, self._fetch
        )

    def _fetch(self, url: str, *rest: Any) -> Any:
        if url.startswith(OTHER):
            found = self.other(url.replace(f"{OTHER}/.well", f"{ISSUER}/.well") if "/.well" in url else url, *rest)
            return found | {"issuer": OTHER} if "/.well" in url else found
        return self.issuer(url, *rest)

    def person(self) -> Person:
        return Person(self.world, app=self.app)

    def signed_in(self, **said: Any) -> Person:
        person = self.person()
        answer = person.arrive(self.issuer.sign_in(begin(person), **said))
        assert answer.status_code == 200, text_of(answer.text)
        return person

    def acts(self) -> int:
        return len(self.world.curator.register.list_entries(after=0, count=1000))

    def people(self) -> list[str]:
        return [one.name for one in self.world.curator.identity.list_principals() if one.issuer]

    def used(self) -> int:
        ((count,),) = self.world.sql("SELECT count(*) FROM sign_ins")
        return int(count)


def begin(person: Person, name: str = "hospital", **query: str) -> str:
    """Follow the link of the entrance; return where the browser is sent."""
    answer = person.get(f"/admin/sign-in/{name}", params=query, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303, text_of(answer.text)
    return answer.headers["location"]


def said_in(person: Person) -> list[str]:
    """Return what the cookie of a sign-in says: its secret first."""
    text = person.cookies[SIGN_IN].partition(".")[0]
    said: list[str] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return said


def secret_of(person: Person) -> str:
    return said_in(person)[0]


def is_in(person: Person) -> bool:
    status = person.get("/admin").status_code
    assert status in {200, 303}  # the page, or the way in
    return status == 200


def refused(answer: httpx.Response, said: str, status: int = 403) -> None:
    assert (answer.status_code, said in text_of(answer.text)) == (status, True), text_of(answer.text)
    assert all(SESSION not in one for one in answer.headers.get_list("set-cookie"))
    assert "http-equiv" not in answer.text


def tampered(answer: str, **changes: Any) -> str:
    parts = urlsplit(answer)
    said = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
    return f"{parts.path}?{urlencode({name: value for name, value in said.items() if value is not None}, doseq=True)}"


@contextmanager
def open_place(folder: Path, **options: Any) -> Iterator[Place]:
    """Open a place at the moment in which its providers live."""
    with open_world(folder, public_url=ORIGIN, **options) as world:
        assert world.clock() == NOW
        yield Place(world)
