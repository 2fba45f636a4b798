"""Principals and tokens in the register: write access to the tables alone makes nobody an analyst.

A row of the tables counts as far as attested entries of the register say the same: the tables may only restrict.
"""

import hashlib
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from curator_service.entries.base import Event
from curator_service.identity.entries import PersonNamed, PersonNameErased, PrincipalNamed, TokenIssued, TokenRevoked
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, Scopes, TokenRecord
from curator_service.kit.db import Connection

PROVIDER = "provider"
"""The actor of an entry that an identity provider's statement made."""
NAMINGS_PER_DAY_MAX = 10
"""How often somebody may change the own displayed name within 24 hours: each is an entry of the register, for ever."""
REREAD_S = 60.0
"""How long a process goes on without asking for entries that others wrote, where nothing makes it ask."""


class ActsUnit(Protocol):
    """A unit of work that changes tables, and says so in the register."""

    connection: Connection

    def act(self, event: Event) -> None:
        """Append an act."""


class Acts(Protocol):
    """The register."""

    def unit(self) -> AbstractContextManager[ActsUnit]:
        """Open a unit of work."""

    def is_open(self) -> bool:
        """Tell whether acts can be written now."""

    def list_acts(self, after: int, /) -> tuple[int, list[Event]] | None:
        """Return what attested acts after a sequence say, and the last sequence; None without a register."""


def commitment(token_id: str, secret_hash: str) -> str:
    """Return what the register says of a token's secret: enough to hold its row against, and no more.

    A hash of the stored hash: a secret has 256 random bits, so nothing is to be guessed of it.
    """
    return hashlib.sha256(f"curator-token:1\n{token_id}\n{secret_hash}".encode()).hexdigest()


@dataclass(slots=True)
class _Issued:
    """Statement of the register about a token."""

    principal: str
    commitment: str
    scopes: Scopes
    issued_at: str
    expires_at: str
    revoked: bool = False


@dataclass(slots=True)
class Known:
    """Statement of the register about a principal.

    Attributes
    ----------
    name : str
    roles : frozenset of Role
    issuer : str
        The identity provider that vouches for it; empty for a local one.
    claim : str
        The claim by which that provider tells it from others.
    told_at : str
        When the provider said so last.
    applications : set of str
        Applications of that provider through which it was seen.
    linked_to : str
        The principal that is the same person and acts in its place; empty for one that acts itself.
    naming : str
        The digest of its displayed name and e-mail; empty if it has none.
    is_stated : bool
        Whether nobody but its provider has named it.
    named_at : list of str
        When it was named, or its name erased, last: so many times as count for a bound.
    """

    name: str = ""
    roles: frozenset[Role] = frozenset()
    issuer: str = ""
    claim: str = ""
    told_at: str = ""
    applications: set[str] = field(default_factory=set)
    linked_to: str = ""
    naming: str = ""
    is_stated: bool = True
    named_at: deque[str] = field(default_factory=lambda: deque(maxlen=NAMINGS_PER_DAY_MAX))


class Attestation:
    """Statements of the register that this process has read."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts
        self._after = 0
        self._read_at = float("-inf")
        self._lock = threading.Lock()
        self._people: dict[str, Known] = {}
        self._ids: dict[str, str] = {}
        self._holders: dict[str, str] = {}
        self._successors: dict[str, list[str]] = {}
        self._tokens: dict[str, _Issued] = {}

    def refresh(self) -> None:
        """Read what was written since the last time."""
        with self._lock:
            found = self._acts.list_acts(self._after)
            self._read_at = time.monotonic()
            if found is not None:
                last, acts = found
                for act in acts:
                    self._learn(act)
                self._after = last

    def restrict(self, record: TokenRecord, moment: str) -> TokenRecord | None:
        """Return a token as far as the register attests it, or None."""
        if time.monotonic() - self._read_at > REREAD_S or not self._covers(record):
            self.refresh()
        issued = self._find_issued(record)
        if issued is None or moment >= issued.expires_at:
            return None
        roles = record.principal.roles & self.roles_of(record.principal.id)
        principal = replace(record.principal, roles=issued.scopes.restrict(roles), read_only=issued.scopes.read_only)
        return replace(record, principal=principal, expires_at=min(record.expires_at, issued.expires_at))

    def as_issued(self, record: TokenRecord) -> TokenRecord | None:
        """Return a token as the register issued it, for what is made of it; None where its row is another one."""
        issued = self._find_issued(record)
        if issued is None:
            return None
        principal = replace(record.principal, name=self.name_of(issued.principal))
        ends = issued.expires_at
        return replace(record, principal=principal, scopes=issued.scopes, created_at=issued.issued_at, expires_at=ends)

    def _find_issued(self, record: TokenRecord) -> _Issued | None:
        issued = self._tokens.get(record.id)
        is_same = (
            issued is not None
            and not issued.revoked
            and issued.principal == record.principal.id
            and issued.commitment == commitment(record.id, record.secret_hash)
        )
        return issued if is_same else None

    def restrict_roles(self, principal: Principal) -> frozenset[Role]:
        """Return the roles of a stored principal as far as the register attests them."""
        is_old = time.monotonic() - self._read_at > REREAD_S
        if is_old or not principal.roles <= self.roles_of(principal.id):
            self.refresh()
        return principal.roles & self.roles_of(principal.id)

    def find(self, principal_id: str) -> Known | None:
        """Return what the register says of a principal; None if it knows none of this id."""
        return self._people.get(principal_id)

    def roles_of(self, principal_id: str) -> frozenset[Role]:
        """Return the roles that the register gives to somebody."""
        return self._people.get(principal_id, _NOBODY).roles

    def name_of(self, principal_id: str) -> str:
        """Return the name that the register gives to somebody; empty if none."""
        return self._people.get(principal_id, _NOBODY).name

    def id_of(self, name: str) -> str:
        """Return the id of the principal to which the register gives a name; empty if it gives it to none."""
        return self._ids.get(name, "")

    def ids_of_person(self, principal_id: str) -> list[str]:
        """Return the principals that are one person with a principal, itself among them."""
        person = self.person_of(principal_id)
        return [one for one in self._people if self.person_of(one) == person]

    def person_of(self, principal_id: str) -> str:
        """Return the principal that acts for the person of a principal: itself, unless it was linked to another."""
        return self._people.get(principal_id, _NOBODY).linked_to or principal_id

    def holder_of_identity(self, identity: str) -> str:
        """Return the principal that acts for whom a provider identifies so; empty if nobody was seen with it."""
        holder = self._holders.get(identity, "")
        return self.person_of(holder) if holder else ""

    def successors_of(self, token_id: str) -> list[str]:
        """Return what rotations made of a token, as the register says."""
        return self._successors.get(token_id, [])

    def holder_of(self, token_id: str) -> str:
        """Return the name of whom a token was issued to; empty if none was."""
        issued = self._tokens.get(token_id)
        return "" if issued is None else self.name_of(issued.principal)

    def id_of_holder(self, token_id: str) -> str:
        """Return the id of whom a token was issued to; empty if none was."""
        issued = self._tokens.get(token_id)
        return "" if issued is None else issued.principal

    def is_live(self, token_id: str) -> bool:
        """Tell whether the register has a token's issue, and no revocation of it."""
        issued = self._tokens.get(token_id)
        return issued is not None and not issued.revoked

    def _covers(self, record: TokenRecord) -> bool:
        return record.id in self._tokens and record.principal.roles <= self.roles_of(record.principal.id)

    def _learn(self, act: Event) -> None:
        match act:
            case PrincipalNamed():
                self._learn_principal(act)
            case PersonNamed() | PersonNameErased() if act.principal in self._people:
                known = self._people[act.principal]
                known.naming = act.commitment if isinstance(act, PersonNamed) else ""
                known.is_stated = known.is_stated and act.actor == PROVIDER
                known.named_at.append(act.time)
            case TokenIssued():
                scopes = Scopes.read(",".join(act.scopes))
                self._tokens[act.token] = _Issued(act.principal, act.commitment, scopes, act.time, act.expires_at)
                replaced = self._tokens.get(act.replaces or "")
                if act.replaces and act.replaced_ends_at and replaced is not None:
                    self._successors.setdefault(act.replaces, []).append(act.token)
                    replaced.expires_at = min(replaced.expires_at, act.replaced_ends_at)
            case TokenRevoked() if act.token in self._tokens:
                self._tokens[act.token].revoked = True

    def _learn_principal(self, act: PrincipalNamed) -> None:
        principal, links = act.principal, act.links or []
        known = self._people.setdefault(principal, Known())
        known.name, known.roles = act.name, frozenset(act.roles)
        self._ids.setdefault(act.name, principal)
        known.issuer, known.told_at, known.claim = act.issuer or "", act.told_at or "", act.claim or ""
        known.applications.update(act.applications or [])
        # Of two that two processes linked at once, the first acts for the person.
        holder = self.person_of(self._holders.setdefault(act.identity or principal, principal))
        if holder != principal and holder not in links:
            principal, links = holder, [principal]
        known.linked_to = ""
        if links:
            for one, other in self._people.items():
                if one in links or other.linked_to in links:
                    other.linked_to, other.roles = principal, frozenset()


_NOBODY = Known()
