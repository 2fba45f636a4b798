"""Credentials of the caller: a token of the curator's own, or one that an identity provider renews."""

from collections.abc import Generator
from typing import Protocol

import httpx

LENGTH = 64
"""Characters of a curator's own token, which begins with ``cur_``; tokens of identity providers have any."""
_QUOTES = tuple("'\"`‘’“”")


class Credentials(Protocol):
    """A source of tokens for the header ``Authorization: Bearer``."""

    def token(self) -> str:
        """Return the text that is sent now, renewed where its time is nearly over."""

    def renew(self, refused: str) -> bool:
        """Get another text in the place of one that was refused; False where there is none."""

    def hide(self, text: str) -> str:
        """Return a text without any secret in it."""

    def close(self) -> None:
        """Close what renews it."""


class StaticToken:
    """A token that stays as it is.

    Parameters
    ----------
    text : str
        Printable ASCII without spaces; the end of a line around it is left out.

    Raises
    ------
    ValueError
    """

    def __init__(self, text: str) -> None:
        self._text = text.strip("\r\n")
        check_token(self._text)

    def token(self) -> str:
        """Return the token."""
        return self._text

    def renew(self, refused: str) -> bool:
        """Say that there is no other."""
        del refused
        return False

    def hide(self, text: str) -> str:
        """Return a text without the token."""
        return text.replace(self._text, "…")

    def close(self) -> None:
        """Do nothing."""


class Nobody:
    """Credentials of whoever has none."""

    def token(self) -> str:
        """Return nothing: no header is sent."""
        return ""

    def renew(self, refused: str) -> bool:
        """Say that there is none."""
        del refused
        return False

    def hide(self, text: str) -> str:
        """Return the text: nothing in it is secret."""
        return text

    def close(self) -> None:
        """Do nothing."""


class BearerAuth(httpx.Auth):
    """Puts credentials on requests; what was refused is sent once more where they could be renewed.

    Parameters
    ----------
    credentials : Credentials
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send with a token; the same body and key again after a renewal, which the curator charges once."""
        sent = self._credentials.token()
        if sent:
            request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED and self._credentials.renew(sent):
            assert isinstance(response.stream, httpx.SyncByteStream)
            response.stream.close()  # httpx would read the refusal, without a bound
            response.stream = httpx.ByteStream(b"")
            request.headers["Authorization"] = f"Bearer {self._credentials.token()}"
            yield request


def check_token(text: str) -> None:
    """Check that a token can stand in a header. Raise `ValueError`, which does not repeat it."""
    told = (
        (not text, "it is empty: is the variable or the file that it comes from set?"),
        (text.endswith(("…", "...")), "it ends in dots: copy all of it"),
        (text[:7].lower() == "bearer ", "it begins with the word Bearer: leave that out"),
        (text != text.strip(), "it has a blank around it: leave that out"),
        (text[:1] in _QUOTES or text[-1:] in _QUOTES, "it has quotes around it: leave them out"),
        (not text.isascii() or not text.isprintable() or " " in text, "something else is in it: copy it again"),
        (text.startswith("cur_") and len(text) < LENGTH, f"of {LENGTH} characters it has {len(text)}: copy all of it"),
    )
    for is_wrong, hint in told:
        if is_wrong:
            raise ValueError(f"the token must be printable ASCII without spaces, as it was issued; {hint}")
