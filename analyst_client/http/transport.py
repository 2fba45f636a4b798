"""HTTP with a token, time limits and safe retries.

A request is sent again, with the same body and the same idempotency key, after a transport error and after an answer
that promises another outcome later. The curator charges a key once, so sending again can only fetch what was charged.
"""

import time
from collections.abc import Callable, Mapping

import httpx

from analyst_client.errors import CuratorError, TransportError
from analyst_client.http.connections import Connections, find_barrier
from analyst_client.http.credentials import BearerAuth, Credentials, StaticToken
from analyst_client.http.problems import CUT_SHORT, find_foreign, foreign, read_problem, say_doubt
from analyst_client.http.proxies import find_variable, is_loopback, is_port
from analyst_client.http.retry import LONGEST_RETRY_AFTER_S, delay_before, is_retried, read_retry_after

ANSWER_BYTES_MAX = 256 * 2**20
"""Bound on an unpacked answer, where its request states no other."""


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
        self._http = Connections(
            transport,
            {"Cache-Control": "no-cache"},
            base_url=self.url,
            auth=BearerAuth(self._credentials),
            timeout=timeout_s,
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
        bytes_max: int | None = None,
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
        bytes_max : int, optional
            Bound on the unpacked answer; `ANSWER_BYTES_MAX` if none is given.

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
        bound = ANSWER_BYTES_MAX if bytes_max is None else bytes_max
        attempt, doubt = 1, ""
        while True:
            try:
                answer, why = self._http.fetch(method, path, bound, params=params, content=content, headers=sent)
            except httpx.RequestError as error:
                barrier = find_barrier(error, self.url)
                if barrier is not None:
                    message = self._credentials.hide(barrier) + (doubt or "; nothing was sent")
                    raise TransportError(message, idempotency_key=idempotency_key) from None
                doubt = say_doubt(idempotency_key, charges)
                failure: CuratorError = self._no_answer(error, attempt, doubt, idempotency_key)
                retry_after_s, again = None, not isinstance(error, httpx.UnsupportedProtocol)
            else:
                doubt = say_doubt(idempotency_key, charges)
                why = find_foreign(answer) if why is None and answer.is_success else why
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

    def _no_answer(
        self, error: httpx.RequestError, attempt: int, doubt: str, idempotency_key: str | None
    ) -> TransportError:
        variable = find_variable(self.url)
        way = "" if variable is None else f", by the proxy of {variable}"
        cause = self._credentials.hide(f"{type(error).__name__}: {error}{way}")
        message = f"no answer from {self.url.host} after {attempt} attempt(s) ({cause}){doubt}"
        return TransportError(message, idempotency_key=idempotency_key)


def check_url(url: str, allow_http: bool) -> httpx.URL:
    """Return the address. Raise `ValueError` when the token would travel in clear, or elsewhere."""
    try:
        parsed = httpx.URL(url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise ValueError(f"not an address: {error}") from None
    if not is_port(parsed.port):
        raise ValueError(f"not an address: a port is from 1 to 65535, and not {parsed.port}")
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
