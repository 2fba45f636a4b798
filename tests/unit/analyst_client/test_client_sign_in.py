"""Sign-in with a code: the client carries the provider's answer to its curator and to nobody else."""

import base64
import json
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from client_examples import TOKEN, URL, Curator, compact

from analyst_client import CuratorClient, CuratorError, TransportError
from analyst_client.errors import AuthenticationError, TokenExpiryWarning
from analyst_client.http.sign_in import SignedIn, sign_in
from analyst_client.schema import Identity

ISSUER = "https://login.example"
ME = {
    "id": "prn_0", "name": "ada", "shown_name": "Ada <b>", "roles": ["analyst"], "read_only": False,
    "authenticated_by": "token", "token": "0123456789abcdef", "issuer": None, "expires_at": "2099-01-01T00:00:00Z",
    "visas": [],
}  # fmt: skip


def me(**changes: Any) -> httpx.Response:
    return httpx.Response(200, content=compact(ME | changes))


def in_days(days: float) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def access_token(name: str, audience: Any = "curator") -> str:
    said = base64.urlsafe_b64encode(json.dumps({"aud": audience, "n": name}).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{said}.{name}"


class Place:
    """A curator that believes one access token, and the provider that gives them."""

    def __init__(self, **described: Any) -> None:
        self.described = described
        self.issuers: list[dict[str, Any]] = [
            {
                "name": "hospital",
                "issuer": ISSUER,
                "client_id": "nb",
                "scope": "openid",
                "parameters": {"resource": "r"},
            }
        ]
        self.polls: list[Any] = ["authorization_pending", "ok"]
        self.device = {
            "device_code": "dev",
            "user_code": "ABCD",
            "verification_uri": f"{ISSUER}/device",
            "expires_in": 600,
        }
        self.valid = ""
        self.audience: Any = "curator"
        self.lasts_s: float | None = 600
        self.refreshing: list[str] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.made = 0
        self.moment = 0.0
        self.waits: list[float] = []
        self.shown: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        content = {name: value[0] for name, value in parse_qs(request.content.decode()).items()}
        self.asked.append((request.url.host, request.url.path, content))
        if request.url.host == "login.example":
            assert "authorization" not in request.headers
            return self.provide(request.url.path, content)
        if request.url.path == "/v1/sign-in":
            assert "authorization" not in request.headers
            return httpx.Response(200, json={"issuers": self.issuers})
        if request.headers.get("authorization") == f"Bearer {self.valid}":
            return me(authenticated_by="provider", token=None, issuer=ISSUER, expires_at=in_days(0.1))
        return httpx.Response(401, json={"type": "/problems/authentication-required", "title": "no", "detail": "no"})

    def provide(self, path: str, content: dict[str, str]) -> httpx.Response:
        if path == "/.well-known/openid-configuration":
            told = {"issuer": ISSUER, "device_authorization_endpoint": f"{ISSUER}/d", "token_endpoint": f"{ISSUER}/t"}
            return httpx.Response(200, json=told | self.described)
        if path == "/d":
            return httpx.Response(200, json=self.device)
        if content["grant_type"] == "refresh_token":
            if content["refresh_token"] not in self.refreshing:
                return httpx.Response(400, json={"error": "invalid_grant"})
            self.refreshing.remove(content["refresh_token"])
            return self.grant()
        answer = self.polls.pop(0)
        if answer == "lost":
            raise httpx.ConnectError("lost")
        if isinstance(answer, httpx.Response):
            return answer
        return self.grant() if answer == "ok" else httpx.Response(400, json={"error": answer})

    def grant(self) -> httpx.Response:
        self.made += 1
        self.valid = access_token(f"access{self.made}", self.audience)
        self.refreshing = [f"refresh{self.made}"]
        lasts = {} if self.lasts_s is None else {"expires_in": self.lasts_s}
        return httpx.Response(200, json={"access_token": self.valid, "refresh_token": f"refresh{self.made}", **lasts})

    def wait(self, span: float) -> None:
        self.waits.append(span)
        self.moment += span

    def sign_in(self, **changes: Any) -> SignedIn:
        options: dict[str, Any] = {
            "provider": None, "show": self.shown.append, "place": None, "timeout_s": 5.0, "allow_http": False,
            "transport": httpx.MockTransport(self), "sleep": self.wait, "clock": lambda: self.moment,
        }  # fmt: skip
        return sign_in(URL, **options | changes)

    def client(self, signed_in: SignedIn) -> CuratorClient:
        return CuratorClient(URL, signed_in, transport=httpx.MockTransport(self), memory=None, max_attempts=1)


# --- Who asks


def test_whoami_shows_itself_as_a_table() -> None:
    found = Curator(me()).client().whoami()
    assert found.name == "ada"
    assert repr(found) == "<Identity ada: analyst, until 2099-01-01T00:00:00Z>"
    assert "Ada &lt;b&gt;" in found._repr_html_()
    for text in ("ada", "analyst", "0123456789abcdef", "2099-01-01"):
        assert text in str(found)
    with pytest.raises(AttributeError):
        found.name = "ben"  # type: ignore[misc]


@pytest.mark.parametrize("days", [13.9, 0.5, -1])
def test_a_token_that_ends_soon_is_warned_of(days: float) -> None:
    with pytest.warns(TokenExpiryWarning, match="rotate it"):
        found = Curator(me(expires_at=in_days(days))).client().whoami()
    assert "rotate it" in str(found)


def test_a_token_that_goes_on_is_not_warned_of_nor_is_a_sign_in() -> None:
    assert "rotate" not in str(Curator(me(expires_at=in_days(14.1))).client().whoami())
    told = me(expires_at=in_days(0.1), authenticated_by="provider", token=None, issuer=ISSUER)
    assert ISSUER in str(Curator(told).client().whoami())


def test_what_a_token_may_is_said() -> None:
    assert "only looks" in str(Curator(me(read_only=True)).client().whoami())
    assert "https://ega.example/D1" in str(Curator(me(visas=["https://ega.example/D1"])).client().whoami())
    assert isinstance(Curator(me(roles=[])).client().whoami(), Identity)


# --- A code


def test_the_code_is_shown_and_the_provider_asked_at_its_pace() -> None:
    place = Place()
    place.polls = ["authorization_pending", "slow_down", "authorization_pending", "lost", "ok"]
    signed_in = place.sign_in()
    assert place.waits == [5, 5, 10, 10, 20]
    assert place.shown == [f"To sign in, open {ISSUER}/device and type in ABCD, within 10 min."]
    assert place.client(signed_in).whoami().name == "ada"
    forms = [content for host, path, content in place.asked if path in {"/d", "/t"}]
    assert forms[0] == {"client_id": "nb", "scope": "openid", "resource": "r"}
    assert forms[1] == {
        "client_id": "nb", "resource": "r", "device_code": "dev",
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    }  # fmt: skip


def test_a_pace_that_the_provider_states_is_kept() -> None:
    place = Place()
    place.device |= {"interval": 2, "verification_uri_complete": f"{ISSUER}/device?c=ABCD"}
    place.sign_in()
    assert place.waits == [2, 2]
    assert f"Or open {ISSUER}/device?c=ABCD and compare" in place.shown[0]


@pytest.mark.parametrize("error", ["access_denied", "expired_token", "invalid_client", 7])
def test_a_refusal_ends_it(error: Any) -> None:
    place = Place()
    place.polls = [error]
    with pytest.raises(AuthenticationError):
        place.sign_in()


def test_a_page_on_the_way_is_no_provider() -> None:
    page = httpx.Response(200, html="<title>Guest network</title>")
    place = Place()
    place.polls = [page, httpx.Response(403, html="<p>no"), "ok"]
    assert place.sign_in().token()
    transport = httpx.MockTransport(lambda _: page)
    with pytest.raises(TransportError, match="HTTP 200 with a page: 'Guest network'"):
        CuratorClient.sign_in(URL, transport=transport, memory=None)


def test_a_code_that_nobody_types_in_ends_in_its_time() -> None:
    place = Place()
    place.polls = ["authorization_pending"] * 1000
    with pytest.raises(AuthenticationError, match="time was over"):
        place.sign_in()
    assert place.moment <= 605


def test_what_a_provider_shows_obeys_no_terminal() -> None:
    place = Place()
    place.device |= {"user_code": "A\x1b[2J\u202eB"}
    place.sign_in()
    assert not {"\x1b", "\u202e"} & set(place.shown[0])


# --- Renewal


def test_a_token_is_renewed_before_it_ends_and_when_it_is_refused() -> None:
    place = Place()
    signed_in = place.sign_in()
    client = place.client(signed_in)
    assert place.made == 1
    place.wait(580)
    assert client.whoami().name == "ada"
    assert place.made == 2
    place.valid = access_token("revoked")  # what is held now is refused
    assert client.whoami().name == "ada"
    assert place.made == 3


def test_a_charge_is_sent_again_with_its_own_key_after_a_renewal() -> None:
    place, keys = Place(), []
    signed_in = place.sign_in()
    place.valid = "other"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/releases"):
            keys.append((request.headers["idempotency-key"], request.content))
        return place(request)

    client = CuratorClient(URL, signed_in, transport=httpx.MockTransport(answer), memory=None, max_attempts=1)
    with pytest.raises(CuratorError):
        client.release("flchain", ["age"], target="kappa", mu=0.1, rows="box", even_so=True)
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_whoever_cannot_be_renewed_is_told_to_sign_in_again() -> None:
    place = Place()
    client = place.client(place.sign_in())
    place.refreshing = []
    place.valid = "other"
    with pytest.raises(AuthenticationError):
        client.whoami()
    asked = len(place.asked)
    with pytest.raises(AuthenticationError):
        client.whoami()
    assert [path for _, path, _ in place.asked[asked:]] == ["/v1/me"]


def test_what_is_kept_is_its_owner_s_alone_and_is_gone_on_with(tmp_path: Path) -> None:
    place, kept = Place(), tmp_path / "state" / "kept"
    place.sign_in(place=kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "access" not in kept.read_text(encoding="utf-8")
    place.sign_in(place=kept, show=pytest.fail)
    place.described = {}
    place.issuers[0]["client_id"] = "another"
    place.polls = ["ok"]
    place.sign_in(place=kept)
    assert len(place.shown) == 2
    kept.write_text("{", encoding="utf-8")
    place.polls = ["ok"]
    place.sign_in(place=kept)
    assert len(place.shown) == 3


def test_two_processes_share_what_is_kept(tmp_path: Path) -> None:
    """A refresh token is good once: whoever comes second takes the one that the first kept."""
    place, kept = Place(), tmp_path / "kept"
    first = place.sign_in(place=kept)
    second = place.sign_in(place=kept)
    place.wait(1000)
    assert second.token() == place.valid
    place.wait(1000)
    assert first.token() == place.valid


def test_to_keep_it_takes_a_memory() -> None:
    with pytest.raises(ValueError, match="memory"):
        CuratorClient.sign_in(URL, keep=True, memory=None, transport=httpx.MockTransport(Place()))


# --- To whom a token goes


@pytest.mark.parametrize(
    ("audience", "goes"),
    [
        ("curator", True), (["curator", "x"], True), (None, True), (7, True), ([], True),
        (URL, True), ([URL, "https://other.example"], True), (f"{URL}/", True),
        ("https://other.example", False), (["https://other.example", "curator"], False),
        ("https://other.example:8443", False), ("http://127.0.0.1:1", False),
    ],
)  # fmt: skip
def test_a_token_for_another_address_is_not_sent(audience: Any, goes: bool) -> None:
    """A curator that lies about where to sign in could collect tokens that are good at another one."""
    place = Place()
    place.audience = audience
    if goes:
        place.sign_in()
        return
    with pytest.raises(AuthenticationError, match="not for"):
        place.sign_in()
    assert not [path for host, path, _ in place.asked if host != "login.example" and path != "/v1/sign-in"]


def breaks(change: Callable[[Place], None]) -> None:
    place = Place()
    change(place)
    with pytest.raises((CuratorError, ValueError)):
        place.sign_in()
    assert place.made == 0


def test_nothing_is_sent_in_clear_or_to_an_issuer_that_is_not_what_it_says() -> None:
    for described in (
        {"token_endpoint": "http://login.example/t"},
        {"device_authorization_endpoint": "http://login.example/d"},
        {"device_authorization_endpoint": None},
        {"token_endpoint": "file:///etc/passwd"},
        {"issuer": "https://login.example/"},
    ):
        breaks(lambda place, described=described: place.described.update(described))  # type: ignore[misc]
    breaks(lambda place: place.issuers[0].update(issuer="http://login.example"))
    breaks(lambda place: place.device.update(verification_uri="http://login.example/device"))
    breaks(lambda place: place.device.update(verification_uri="javascript:alert(1)"))


def test_where_there_are_several_providers_one_is_named() -> None:
    place = Place()
    place.issuers.append(place.issuers[0] | {"name": "other", "issuer": "https://other.example"})
    with pytest.raises(ValueError, match="hospital, other"):
        place.sign_in()
    place.sign_in(provider="hospital")
    place.issuers = []
    with pytest.raises(ValueError, match="none"):
        place.sign_in()


def test_no_secret_is_in_a_repr_or_an_error() -> None:
    place = Place()
    signed_in = place.sign_in()
    held = signed_in.token()
    assert held not in repr(signed_in) + repr(place.client(signed_in))

    def leak(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"could not send {request.headers['Authorization']}")

    client = CuratorClient(URL, signed_in, transport=httpx.MockTransport(leak), memory=None, max_attempts=1)
    with pytest.raises(TransportError) as caught:
        client.whoami()
    assert held not in str(caught.value)
    assert TOKEN
