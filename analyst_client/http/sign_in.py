"""Signing in at an identity provider, from where there is no browser (RFC 8628): a code, typed in somewhere else.

The provider's word is for the curator, which verifies it. Here it is only carried, and looked at as far as is needed
to carry it nowhere else.
"""

import base64
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from analyst_client.display.terminal import plain
from analyst_client.errors import AuthenticationError, ServiceError, TransportError
from analyst_client.forks import renew_in_forks
from analyst_client.http.connections import Connections, find_barrier
from analyst_client.http.credentials import check_token
from analyst_client.http.problems import describe_page, is_page
from analyst_client.http.proxies import is_loopback
from analyst_client.http.session import read_text
from analyst_client.http.transport import check_url
from analyst_client.ledger.files import make_private_folder, replace_file
from analyst_client.ledger.memory import Memory, MemoryPlace
from analyst_client.schema.wire import Fields, parse_json

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
RENEWED_BEFORE_S = 30.0
_INTERVAL_S, _SLOWER_S, _LONGEST_S = 5.0, 5.0, 60.0
_ANSWER_MAX = 256 * 1024


@dataclass(frozen=True)
class Provider:
    """An identity provider at which somebody may sign in for a curator, and where it answers."""

    issuer: str
    client_id: str
    scope: str
    parameters: Mapping[str, str]
    device_endpoint: str
    token_endpoint: str


class SignedIn:
    """Credentials of somebody who signed in.

    Parameters
    ----------
    provider : Provider
    curator : httpx.URL
        For whom they are: a token for somebody else is not sent there.
    http : Connections
        Asks the provider.
    clock : callable
        Seconds that only grow.
    place : Path, optional
        File that keeps the refresh token; else it lives as long as this process.
    """

    def __init__(
        self,
        provider: Provider,
        curator: httpx.URL,
        http: Connections,
        clock: Callable[[], float],
        place: Path | None,
    ) -> None:
        self._provider, self._curator, self._http, self._clock, self._place = provider, curator, http, clock, place
        self.start_anew()
        renew_in_forks(self)
        self._access, self._refresh, self._ends = "", "", float("-inf")

    def __repr__(self) -> str:
        """Show where, never what."""
        return f"SignedIn({self._provider.issuer!r})"

    def start_anew(self) -> None:
        """Make the lock anew: in a fork, the thread that holds it may not be there."""
        self._lock = threading.Lock()

    def token(self) -> str:
        """Return the access token, renewed where its time is nearly over."""
        with self._lock:
            if self._clock() > self._ends - RENEWED_BEFORE_S:
                self._renew()
            return self._access

    def renew(self, refused: str) -> bool:
        """Get another access token, unless another thread has."""
        with self._lock:
            return self._access != refused or self._renew()

    def hide(self, text: str) -> str:
        """Return a text without any token in it."""
        for secret in filter(None, (self._access, self._refresh)):
            text = text.replace(secret, "…")
        return text

    def accept(self, answer: Fields) -> None:
        """Take a token from the provider's answer, and store its refresh token.

        Raises
        ------
        AuthenticationError
            If it is for another curator.
        """
        access = answer.text("access_token")
        try:
            check_token(access)
        except ValueError:
            raise ServiceError("malformed answer: the provider's token is none") from None
        check_audience(access, self._curator)
        lasts_s = answer.number("expires_in") if answer.has("expires_in") else 300.0
        self._access, self._ends = access, self._clock() + lasts_s
        if answer.has("refresh_token"):
            self._refresh = answer.text("refresh_token")
            self._keep()

    def resume(self) -> bool:
        """Go on with what was kept; False where there is nothing, or it has ended."""
        with self._lock:
            return bool(self._kept()) and self._renew()

    def close(self) -> None:
        """Close the connections to the provider."""
        self._http.close()

    def _renew(self) -> bool:
        # Where a refresh token is good once, another process may have kept the next one.
        for refresh in dict.fromkeys(filter(None, (self._refresh, self._kept()))):
            asked = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": self._provider.client_id}
            told = {**self._provider.parameters, **asked}
            status, answer = post_form(self._http, self._provider.token_endpoint, told)
            if status == httpx.codes.OK:
                self._refresh = refresh
                self.accept(answer)
                return True
        self._refresh = ""  # it has ended: whoever asks again must sign in anew
        return False

    def _kept(self) -> str:
        if self._place is None:
            return ""
        try:
            kept = Fields(parse_json(self._place.read_text(encoding="utf-8")))
            is_same = (kept.text("issuer"), kept.text("client_id")) == (self._provider.issuer, self._provider.client_id)
            return kept.text("refresh_token") if is_same else ""
        except (OSError, ValueError, ServiceError):
            return ""

    def _keep(self) -> None:
        if self._place is None:
            return
        told = {"issuer": self._provider.issuer, "client_id": self._provider.client_id, "refresh_token": self._refresh}
        make_private_folder(self._place.parent)
        replace_file(self._place, json.dumps(told).encode())


def sign_in(
    url: str,
    *,
    provider: str | None,
    show: Callable[[str], None] | None,
    place: Path | None,
    timeout_s: float,
    transport: httpx.BaseTransport | None,
    allow_http: bool,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SignedIn:
    """Let somebody sign in for a curator; see `CuratorClient.sign_in`."""
    curator = check_url(url, allow_http)
    http = Connections(transport, {}, timeout=timeout_s)
    try:
        told = find_provider(http, curator, provider)
        signed_in = SignedIn(told, curator, http, clock, place)
        if not signed_in.resume():
            device = _ask_for_code(http, told)
            (show or _show)(_invitation(device))
            signed_in.accept(_poll(http, told, device, sleep, clock))
    except BaseException:
        http.close()
        raise
    return signed_in


def find_place(url: str, memory: MemoryPlace, allow_http: bool) -> Path:
    """Return the file beside a memory that keeps what renews a sign-in.

    Raises
    ------
    ValueError
        If the memory is this process alone.
    """
    held = Memory(memory, str(check_url(url, allow_http))).path
    if held is None:
        raise ValueError("keep=True needs a memory: a file beside it holds what renews the sign-in")
    return held.with_name(f"{held.name}.sign-in")


def find_provider(http: Connections, curator: httpx.URL, name: str | None) -> Provider:
    """Ask a curator where to sign in, and the provider where it answers.

    Raises
    ------
    ValueError
        If there are several providers, or none of this name.
    CuratorError
    """
    listed = _get(http, f"{str(curator).rstrip('/')}/v1/sign-in").each("issuers", lambda one: one)
    found = [one for one in listed if name in {None, one.text("name"), one.text("issuer")}]
    if len(found) != 1:
        names = ", ".join(plain(one.text("name")) for one in listed) or "none: use a token of the curator's own"
        raise ValueError(f"name one provider= of those where one signs in for this curator; there is {names}")
    issuer = found[0].text("issuer")
    described = _get(http, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if described.text("issuer") != issuer:
        raise AuthenticationError(f"{plain(issuer)} describes itself as another issuer")
    parameters = found[0].object("parameters").members
    return Provider(
        issuer=issuer,
        client_id=found[0].text("client_id"),
        scope=found[0].text("scope"),
        parameters={str(key): str(value) for key, value in parameters.items()},
        device_endpoint=_secure(described.text("device_authorization_endpoint")),
        token_endpoint=_secure(described.text("token_endpoint")),
    )


def check_audience(token: str, curator: httpx.URL) -> None:
    """Check that a token which names addresses names the curator's: a curator must not be given another one's.

    A curator that lies about where to sign in could ask for a token that is good elsewhere. What is no address, or no
    token that can be read, says nothing.

    Raises
    ------
    AuthenticationError
    """
    try:
        payload = token.split(".")[1]
        audience = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["aud"]
    except (ValueError, KeyError, TypeError, IndexError):
        return
    named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    addresses = [httpx.URL(one) for one in named if isinstance(one, str) and one.startswith(("https://", "http://"))]
    if addresses and all((one.host, one.port) != (curator.host, curator.port) for one in addresses):
        raise AuthenticationError(f"the token that was asked for is for {plain(str(addresses[0]))}, not for {curator}")


def post_form(http: Connections, url: str, content: Mapping[str, str]) -> tuple[int, Fields]:
    """Ask a provider; return its status and its answer.

    Raises
    ------
    TransportError, ServiceError
    """
    answer = _fetch(http, "POST", url, data=dict(content))
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        raise TransportError(f"{answer.url.host} answered HTTP {answer.status_code}")
    return answer.status_code, _read(answer)


def _ask_for_code(http: Connections, provider: Provider) -> Fields:
    asked = {**provider.parameters, "client_id": provider.client_id, "scope": provider.scope}
    status, device = post_form(http, provider.device_endpoint, asked)
    if status != httpx.codes.OK:
        raise AuthenticationError(f"{plain(provider.issuer)} lets nobody sign in so ({_error_of(device)})")
    return device


def _poll(
    http: Connections,
    provider: Provider,
    device: Fields,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Fields:
    """Ask whether somebody has typed the code in, as often as the provider lets one."""
    interval_s = max(1.0, device.number("interval") if device.has("interval") else _INTERVAL_S)
    end = clock() + device.number("expires_in")
    asked = {
        **provider.parameters,
        "grant_type": DEVICE_GRANT,
        "device_code": device.text("device_code"),
        "client_id": provider.client_id,
    }
    while clock() < end:
        sleep(interval_s)
        try:
            status, answer = post_form(http, provider.token_endpoint, asked)
        except TransportError:
            interval_s = min(2 * interval_s, _LONGEST_S)
            continue
        if status == httpx.codes.OK:
            return answer
        error = _error_of(answer)
        if error == "slow_down":
            interval_s += _SLOWER_S
        elif error != "authorization_pending":
            raise AuthenticationError(f"nobody was signed in at {plain(provider.issuer)}: {error}")
    raise AuthenticationError("nobody typed the code in before its time was over: sign in again")


def _invitation(device: Fields) -> str:
    address, code = _secure(device.text("verification_uri")), plain(device.text("user_code"))
    minutes = max(1, round(device.number("expires_in") / 60))
    text = f"To sign in, open {plain(address)} and type in {code}, within {minutes} min."
    if device.has("verification_uri_complete"):
        text += f" Or open {plain(_secure(device.text('verification_uri_complete')))} and compare the code."
    return text


def _show(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _get(http: Connections, url: str) -> Fields:
    answer = _fetch(http, "GET", _secure(url))
    if answer.status_code != httpx.codes.OK:
        raise ServiceError(f"{answer.url.host} answered HTTP {answer.status_code}", status=answer.status_code)
    return _read(answer)


def _fetch(http: Connections, method: str, url: str, **content: Any) -> httpx.Response:
    try:
        answer, why = http.fetch(method, url, _ANSWER_MAX, **content)
    except httpx.RequestError as error:
        barrier = find_barrier(error, httpx.URL(url))
        raise TransportError(barrier or f"no answer from {httpx.URL(url).host} ({type(error).__name__})") from None
    if why is not None:
        raise ServiceError(f"malformed answer of {answer.url.host}: {why}", status=answer.status_code)
    return answer


def _read(answer: httpx.Response) -> Fields:
    if is_page(answer):
        raise TransportError(f"{answer.url.host} answered HTTP {answer.status_code} with {describe_page(answer)}")
    return Fields(parse_json(read_text(answer)))


def _secure(url: str) -> str:
    """Return an address to which a secret may be sent. Raise `AuthenticationError` for others."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.host and (parsed.scheme == "https" or (parsed.scheme == "http" and is_loopback(parsed.host))):
        return url
    raise AuthenticationError(f"{plain(url)!r} is no address of https, so nothing is sent there")


def _error_of(answer: Fields) -> str:
    said: Any = answer.members.get("error")
    return plain(said) if isinstance(said, str) else "no reason was given"
