"""HTTP with a token, time limits and safe retries.

A request is sent again, with the same body and the same idempotency key, after a transport error and after an answer
that promises another outcome later. The curator charges a key once, so sending again can only fetch what was charged.
"""

import ssl
import time
from collections.abc import Callable, Mapping

import httpx

from analyst_client.errors import CuratorError, TransportError
from analyst_client.http.credentials import BearerAuth, Credentials, StaticToken
from analyst_client.http.problems import CUT_SHORT, ENCODINGS, find_foreign, foreign, read_problem
from analyst_client.http.proxies import EnvironmentTransport, is_loopback
from analyst_client.http.retry import LONGEST_RETRY_AFTER_S, delay_before, is_retried, read_retry_after


class Transport:
    """Send requests to one curator.

    Parameters
    ----------
    url : str
        Address of the curator, without ``/v1``.
    token : str or Credentials
        The analyst's token, or what knows one. It is shown nowhere: not in a repr, not in an error.
    timeout_s : float
        Longest wait for a connection, for a write and for a read, each in seconds.
    max_attempts : int
        How often one request is sent, at most.
    transport : httpx.BaseTransport, optional
        What carries the requests; tests give an `httpx.MockTransport`.
    allow_http : bool
        Let the token travel in clear to another host.
    sleep : callable
        Waits so many seconds.
    clock : callable
        Tells seconds that only grow.
    """

    def __init__(
        self,
        url: str,
        token: str | Credentials,
        *,
        timeout_s: float,
        max_attempts: int,
        transport: httpx.BaseTransport | None = None,
        allow_http: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = check_url(url, allow_http)
        self._credentials = StaticToken(token) if isinstance(token, str) else token
        if max_attempts < 1 or not timeout_s > 0:
            raise ValueError("max_attempts must be at least 1 and timeout_s positive")
        self._max_attempts = max_attempts
        self.timeout_s = timeout_s
        self.sleep = sleep
        self.clock = clock
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Accept": "application/json", "Accept-Encoding": ENCODINGS, "Cache-Control": "no-cache"},
            auth=BearerAuth(self._credentials),
            timeout=timeout_s,
            transport=EnvironmentTransport() if transport is None else transport,
            trust_env=False,  # the transport reads it
        )

    def __repr__(self) -> str:
        """Show the address, never the token."""
        return f"Transport({str(self.url)!r})"

    def send_token(self, token: str) -> None:
        """Send another token from now on."""
        self._credentials.close()
        self._credentials = StaticToken(token)
        self._http.auth = BearerAuth(self._credentials)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        self._credentials.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        charges: bool = True,
    ) -> httpx.Response:
        """Send a request until it is answered; return an answer of success.

        Parameters
        ----------
        method, path : str
        params : mapping of str to str, optional
            The query.
        content : bytes, optional
            JSON.
        idempotency_key : str, optional
            The same for each time that this is sent.
        headers : mapping of str to str, optional
        charges : bool
            Whether what has a key may be charged, for the text of an error.

        Returns
        -------
        httpx.Response

        Raises
        ------
        CuratorError
            The curator's refusal, or `TransportError` when no attempt was answered.
        """
        sent = dict(headers or {})
        if content is not None:
            sent["Content-Type"] = "application/json"
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        attempt = 1
        while True:
            try:
                answer = self._http.request(method, path, params=params, content=content, headers=sent)
            except httpx.RequestError as error:
                if speaks_no_tls(error):
                    raise TransportError(self._plain_port(), idempotency_key=idempotency_key) from None
                failure: CuratorError = self._no_answer(error, attempt, idempotency_key, charges)
                retry_after_s, again = None, not isinstance(error, httpx.UnsupportedProtocol)
            else:
                why, doubt = find_foreign(answer) if answer.is_success else None, _doubt(idempotency_key, charges)
                if answer.is_success and why is None:
                    return answer
                if why is None:
                    failure = read_problem(answer, doubt, idempotency_key)
                else:
                    failure = foreign(answer, why, doubt, idempotency_key)
                retry_after_s = read_retry_after(answer)
                # A request that is repeated too early fails again: if the wait is long, the caller gets the refusal.
                again = is_retried(failure) and (retry_after_s or 0.0) <= LONGEST_RETRY_AFTER_S
                again |= why == CUT_SHORT
            if not again or attempt >= self._max_attempts:
                raise failure
            self.sleep(delay_before(attempt + 1, retry_after_s))
            attempt += 1

    def _plain_port(self) -> str:
        plain, host = str(self.url.copy_with(scheme="http")), self.url.host
        way = f"{plain!r}" if is_loopback(host) else f"{plain!r} with allow_http=True, or its TLS proxy"
        return f"{host} answers, and not in TLS, so nothing was sent: this port is that of {way}"

    def _no_answer(
        self, error: httpx.RequestError, attempt: int, idempotency_key: str | None, charges: bool
    ) -> TransportError:
        cause = self._credentials.hide(f"{type(error).__name__}: {error}")
        message = f"no answer from {self.url.host} after {attempt} attempt(s) ({cause})"
        return TransportError(message + _doubt(idempotency_key, charges), idempotency_key=idempotency_key)


def _doubt(idempotency_key: str | None, charges: bool) -> str:
    """Return a warning that an unanswered request may have been charged or done."""
    if idempotency_key is None:
        return ""
    done = "charged" if charges else "done"
    return f"; it may have been {done}: ask again with idempotency_key={idempotency_key!r}"


def speaks_no_tls(error: BaseException | None) -> bool:
    """Return True if the server at an ``https://`` address does not speak TLS."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
        error = error.__cause__ or error.__context__
    return False


def check_url(url: str, allow_http: bool) -> httpx.URL:
    """Return the address. Raise `ValueError` when the token would travel in clear, or elsewhere."""
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise ValueError(f"not an address: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("the curator's address must start with https:// (or http:// on this machine)")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("the curator's address must hold no user, query or fragment")
    if parsed.path.rstrip("/").endswith("/v1"):
        plain = str(parsed).removesuffix("/v1")
        raise ValueError(f"the curator's address is given without /v1, which the client adds: {plain!r}")
    if parsed.scheme == "http" and not allow_http and not is_loopback(parsed.host):
        raise ValueError(f"http:// to {parsed.host} would send the token in clear: use https://, or allow_http=True")
    return parsed
