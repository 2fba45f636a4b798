"""The caller, as the curator knows it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, listing, strong, untrusted
from analyst_client.display.terminal import plain
from analyst_client.schema.reading import Readable

WARNED_DAYS = 14


@dataclass(frozen=True, repr=False)
class Identity(Displayable, Readable):
    """The caller, as the curator knows whom it answers.

    Attributes
    ----------
    name : str
        Name in permits and in the ledger.
    shown_name : str
        Name that pages and tables display beside it; the same where nobody set one.
    roles : tuple of str
        Roles of this call: those of its holder that the token has.
    read_only : bool
        Whether it may only look.
    authenticated_by : str
        ``"token"``, or ``"provider"`` where somebody signed in.
    token : str or None
        The token's id, which is no secret.
    issuer : str or None
        The identity provider.
    expires_at : str
        End of the token, or of the sign-in.
    visas : tuple of str
        Values of the visas that the provider passed on.
    email : str or None
        Address that pages display beside it.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> identity = client.whoami()
    >>> identity.name, identity.roles, identity.read_only
    ('anna', ('analyst',), False)
    """

    name: str
    shown_name: str
    roles: tuple[str, ...]
    read_only: bool
    authenticated_by: str
    token: str | None
    issuer: str | None
    expires_at: str
    visas: tuple[str, ...]
    email: str | None = None

    def __repr__(self) -> str:
        """Show the name, the roles and the end of the token."""
        return plain(f"<Identity {self.name}: {', '.join(self.roles)}, until {self.expires_at}>")

    def days_left(self, now: datetime | None = None) -> float:
        """Return for how many days this goes on, by this machine's clock."""
        end = datetime.fromisoformat(self.expires_at)
        return (end - (datetime.now(UTC) if now is None else now)).total_seconds() / 86400

    @property
    def ends_soon(self) -> bool:
        """True if a token ends so soon that it should be rotated."""
        return self.authenticated_by == "token" and self.days_left() < WARNED_DAYS

    def _view(self) -> View:
        known: Inline = code(self.token) if self.token else untrusted(self.issuer or "")
        until: Inline = self.expires_at
        if self.ends_soon:
            until = join(until, strong(f" ({max(0.0, self.days_left()):.0f} days left: rotate it)"))
        stated: list[tuple[Inline, Inline]] = [
            ("name", untrusted(self.name)),
            ("shown as", untrusted(self.shown_name)),
            *([("e-mail", untrusted(self.email))] if self.email else []),
            ("roles", join(", ".join(self.roles), " (only looks)" if self.read_only else "")),
            ("token" if self.token else "signed in at", known),
            ("until", until),
        ]
        if self.visas:
            stated.append(("visas", listing([untrusted(value) for value in self.visas])))
        return (facts("You, as the curator knows you", stated),)
