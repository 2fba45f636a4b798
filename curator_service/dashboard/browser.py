"""Requests and answers of a browser: cookies, forms, origin of a request, and the policy of a page."""

from urllib.parse import parse_qs, unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from curator_service.api.below import PATH
from curator_service.api.observer import peer_of
from curator_service.kit.problems import BodyMalformed, MediaTypeUnsupported

FIELDS_MAX = 2000
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # Within the dashboard alone: without a referrer policy that sends one, a form is posted with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
SESSION, ENTRY, SIGN_IN = "curator-session", "curator-entry", "curator-sign-in"
"""Names of cookies: who is signed in, which browser is about to be, and what one has begun at a provider."""


class Browser:
    """One request of a browser, as the worker thread reads it."""

    def __init__(self, request: Request, body: bytes) -> None:
        headers: Headers = request.headers
        self.method = request.method
        self.path = request.url.path
        self.address = self.path + (f"?{request.url.query}" if request.url.query else "")
        self.query = request.query_params
        self.instance: str = request.state.instance
        self.is_htmx = headers.get("hx-request") == "true"
        self._cookies = _read_cookies(headers.getlist("cookie"))
        self._body = body
        self._content_type = headers.get("content-type", "")
        self._host = urlsplit(f"//{headers.get('host', '')}")
        self._origin = headers.get("origin")
        self._site = headers.get("sec-fetch-site")
        self.peer = peer_of(request.scope)
        self._below = str(request.scope.get(PATH, ""))
        self.is_bare = request.url.scheme == "http" and self._host.hostname in _LOOPBACK

    def cookie(self, name: str) -> str:
        """Return a cookie of ours; empty if the browser has none."""
        return self._cookies.get(self._name_of(name), "")

    def set_cookie(self, name: str, value: str, *, site: str = "Strict", age_s: int | None = None) -> str:
        """Return the header that sets a cookie, or with an empty value removes it.

        Parameters
        ----------
        site : str
            ``Strict``, or ``Lax`` for one that comes with a link from elsewhere, too.
        age_s : int, optional
            For how many seconds the browser keeps it; until it is closed if not given.
        """
        age = f"; Max-Age={age_s or 0}" if not value or age_s else ""
        secure = "" if self.is_bare else "; Secure"
        return f"{self._name_of(name)}={value}; Path={self._below or '/'}; HttpOnly; SameSite={site}{secure}{age}"

    def _name_of(self, name: str) -> str:
        """Return a name that no other host, path or plain connection can set; a loopback without TLS cannot have it.

        Below a path other services of the host must not be sent the cookie, so it is bound to that path: then another
        host of the same domain can set one of the name, which is no session of anybody who signed in here.
        """
        return name if self.is_bare else f"__Secure-{name}" if self._below else f"__Host-{name}"

    @property
    def is_sent_from_elsewhere(self) -> bool:
        """True if the browser says that a page of another origin led here."""
        return self._site in {"cross-site", "same-site"}

    def is_own_form(self) -> bool:
        """Tell whether a form was posted from a page of this origin, as far as the browser says where from.

        A browser says so in `Origin`, in `Sec-Fetch-Site`, or in both; who says nothing is none.
        """
        if self._origin is None and self._site is None:
            return False
        if self._site not in {None, "same-origin"}:
            return False
        return self._origin is None or self._is_own(self._origin)

    def _is_own(self, origin: str) -> bool:
        try:
            stated = urlsplit(origin)
            # A proxy may pass the name on without its port; then the browser's word on the site must do.
            same_port = stated.port == self._host.port or (self._host.port is None and self._site == "same-origin")
        except ValueError:
            return False
        known = stated.scheme == "https" or (stated.scheme == "http" and stated.hostname in _LOOPBACK)
        return known and stated.hostname == self._host.hostname and same_port

    def form(self) -> dict[str, list[str]]:
        """Return the fields of the form that was posted, with lines that end in one sign where a browser sends two.

        Raises
        ------
        MediaTypeUnsupported, BodyMalformed
        """
        if self._content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
            raise MediaTypeUnsupported("A form is sent as `application/x-www-form-urlencoded`.")
        try:
            fields = parse_qs(
                self._body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"
            )
        except ValueError:
            raise BodyMalformed("The form cannot be read.") from None
        return {name: [text.replace("\r\n", "\n") for text in texts] for name, texts in fields.items()}


def _read_cookies(headers: list[str]) -> dict[str, str]:
    """Return cookies by their names, to the byte: a browser keeps other hosts from setting ours by the name alone.

    So nothing is cut off a name, not even what Python takes for a blank, such as the byte 85 (hex), and what is there
    twice with two values is none.
    """
    found: dict[str, str] = {}
    for pair in ";".join(headers).split(";"):
        name, _, value = pair.removeprefix(" ").partition("=")
        found[name] = value if found.get(name, value) == value else ""
    return found


def own_address(text: str) -> str:
    """Return an address of the dashboard to go on to; the overview instead of any other.

    A browser goes up a step where a part is two dots, also in escapes: below a path, to another service of the host.
    """
    is_ours = text == "/admin" or text.startswith(("/admin/", "/admin?"))
    goes_up = any(unquote(part) in {".", ".."} for part in text.partition("?")[0].split("/"))
    is_plain = text.isprintable() and "\\" not in text and text.isascii()
    return text if is_ours and is_plain and not goes_up else "/admin"
