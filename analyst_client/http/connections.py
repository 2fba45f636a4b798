"""Connections to one host: answers within a bound of bytes, and the reasons why no connection was made."""

import ssl
from typing import Any

import httpx

from analyst_client.forks import renew_in_forks
from analyst_client.http.proxies import (
    HOLDS_BOTH,
    SYSTEM,
    EnvironmentTransport,
    find_authorities,
    find_variable,
    is_loopback,
    say_exception,
)

ENCODINGS = "gzip, deflate"
_PLAIN = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
_OTHER_HOST = {62, 64}  # X509_V_ERR_HOSTNAME_MISMATCH, and that of an IP address


class Connections(httpx.Client):
    """An HTTP client that bounds each answer; without a transport of its own it takes the ways of the environment."""

    def __init__(self, transport: httpx.BaseTransport | None, headers: dict[str, str], **options: Any) -> None:
        super().__init__(
            transport=EnvironmentTransport() if transport is None else transport,
            trust_env=False,  # the transport reads it
            headers={"Accept": "application/json", "Accept-Encoding": ENCODINGS} | headers,
            **options,
        )
        renew_in_forks(self)

    def start_anew(self) -> None:
        """Make the cookies anew, which have a lock; the transport looks after its own."""
        self.cookies = httpx.Cookies()

    def fetch(self, method: str, url: str, bytes_max: int, **content: Any) -> tuple[httpx.Response, str | None]:
        """Return an answer, unpacked within a bound, and why it was not read; None if it was."""
        with self.stream(method, url, **content) as answer:
            encoding, parts, size, why = answer.headers.get("Content-Encoding", "identity").lower(), [], 0, None
            if encoding not in {"identity", *ENCODINGS.split(", ")}:
                why = "it is encoded as nobody asked"
            for part in () if why else answer.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > bytes_max:
                    why, parts = f"it has more than {bytes_max:,} bytes", []
                    break
        headers = [(name, value) for name, value in answer.headers.multi_items() if name != "content-encoding"]
        read = httpx.Response(answer.status_code, headers=headers, content=b"".join(parts), request=answer.request)
        return read, why


def find_barrier(error: httpx.RequestError, url: httpx.URL) -> str | None:
    """Say why no connection was made, and a way out; None for a failure that another attempt may not meet."""
    variable, host = find_variable(url), url.host
    past = say_exception(host)
    status = str(error)[:3] if isinstance(error, httpx.ProxyError) else ""
    if status == "407":
        return f"the proxy asks for a name and a password ({error}): {variable} {HOLDS_BOTH}; or {past}"
    if status.startswith(("2", "3", "4")):
        return f"the proxy refuses a connection to {host} ({error}): sign in to the network, have it allowed, or {past}"
    cause = _find_tls_error(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _say_distrust(cause, host)
    if cause is None or cause.reason not in _PLAIN:
        return None
    if variable is not None:
        return f"the proxy shows something for {host} that is not in TLS, as a sign-in page is: sign in, or {past}"
    plain = str(url.copy_with(scheme="http"))
    way = f"{plain!r}" if is_loopback(host) else f"{plain!r} with allow_http=True, or its TLS proxy"
    return f"{host} answers, and not in TLS: this port is that of {way}"


def _say_distrust(cause: ssl.SSLCertVerificationError, host: str) -> str:
    shown = f"the certificate that was shown for {host} does not hold ({cause.verify_message}"
    if cause.verify_code in _OTHER_HOST:
        return f"{shown}): another server answers, such as a sign-in page, or the address has another name"
    _, source = find_authorities()
    message = f"{shown}; trusted are the authorities of {source}): a device on the way may have made it. "
    message += "SSL_CERT_FILE=FILE trusts those of a file in PEM, such as your hospital's"
    return (
        message
        if source == SYSTEM
        else f"{message}; without it, pip install 'dp-curator-client[truststore]' trusts those of the system"
    )


def _find_tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error
