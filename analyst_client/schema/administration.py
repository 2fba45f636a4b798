"""Answers for administrators: accounts, spending, tokens, principals and held amounts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from analyst_client.schema.amounts import Amount
from analyst_client.schema.permits import Permit
from analyst_client.schema.reading import HERE, Readable, read_members
from analyst_client.schema.wire import Fields

_TOKEN = re.compile("cur_[0-9a-f]{16}_[A-Za-z0-9_-]{43}")
GROUPS = ("analyst", "project", "dataset", "kind", "month")
"""Members by which charges can be summed."""


@dataclass(frozen=True)
class Account(Readable):
    """A population and its account.

    Attributes
    ----------
    population, accountant, adjacency : str
    limit, highest_limit, posted, pending, remaining : Amount
        The budget, the highest that it ever was, the sum of the charges, what is held and what is left. The sum of the
        charges bounds what was learnt so far under ``"pure"`` alone.
    share_spent : float
        Part of the limit that is spent or held, 0 to 1.
    """

    population: str
    accountant: str
    adjacency: str
    limit: Amount
    highest_limit: Amount
    posted: Amount
    pending: Amount
    remaining: Amount
    share_spent: float


@dataclass(frozen=True)
class Question(Readable):
    """A release as a question, without its numbers.

    Attributes
    ----------
    release, population, sequence, dataset, kind : str
        The release, and its entry in the ledger.
    asked_at, asked_by : str
        The latter is a name.
    permit, project : str or None
    words : str
        The question, or that it cannot be shown: what is stored is not the answer that the ledger's entry states.
    formula : str or None
        Of a model.
    asked : dict or None
        The request, as on the wire; None where it cannot be shown.
    units : str
        The charge; ``"0"`` of an answer that was cut out of a stored one.
    epsilon : float or None
        The same at the account's δ; None beyond 1000.
    source : str or None
        The release that it was cut out of.
    """

    release: str
    population: str
    sequence: str
    dataset: str
    kind: str
    asked_at: str
    asked_by: str
    permit: str | None
    project: str | None
    words: str
    formula: str | None
    asked: Mapping[str, Any] | None
    units: str
    epsilon: float | None
    source: str | None


@dataclass(frozen=True)
class Spent:
    """The sum of a group of charges.

    Attributes
    ----------
    population : str
    group : dict of str to str
        By what it is grouped.
    charges : int
        How many.
    spent : Amount
        The sum of these charges. It bounds what was learnt so far under ``"pure"`` alone.
    """

    population: str
    group: Mapping[str, str]
    charges: int
    spent: Amount

    @classmethod
    def read(cls, fields: Fields, by: Sequence[str] = GROUPS) -> "Spent":
        """Read from an answer that was asked to be grouped so."""
        group = {name: fields.text(name) for name in by}
        return cls(**read_members(cls, fields, group=group))


@dataclass(frozen=True)
class Token(Readable):
    """A token, without what its holder sends.

    Attributes
    ----------
    id, name : str
        Its id, which is no secret, and its holder.
    roles : tuple of str
        What it may act as.
    read_only : bool
        Whether it may only look.
    created_at, expires_at : str
    last_used_at : str or None
        Within an hour.
    revoked_at, replaced_by : str or None
        When it was revoked, and what it was rotated into.
    """

    id: str
    name: str
    roles: tuple[str, ...]
    read_only: bool
    created_at: str
    expires_at: str
    last_used_at: str | None
    revoked_at: str | None
    replaced_by: str | None


def _read_secret(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not _TOKEN.fullmatch(text):
        raise fields.fault(name, "a token of a curator")
    return text


@dataclass(frozen=True)
class NewToken(Readable):
    """A token that was made now.

    Attributes
    ----------
    about : Token
    text : str
        What its holder sends. It is shown in no repr.
    """

    about: Annotated[Token, HERE]
    text: Annotated[str, "token", _read_secret] = field(repr=False)


@dataclass(frozen=True)
class Person(Readable):
    """A principal and its roles.

    Attributes
    ----------
    id, name : str
        Id and name that chain and policy use.
    shown_name : str
        Name that pages and tables display beside that; the same where nobody set one.
    roles : tuple of str
    issuer : str or None
        The identity provider where they sign in; None for tokens of the curator's own.
    email : str or None
    """

    id: str
    name: str
    shown_name: str
    roles: tuple[str, ...]
    issuer: str | None
    email: str | None = None


@dataclass(frozen=True)
class Held(Readable):
    """An amount that a job or a reservation holds.

    Attributes
    ----------
    id, dataset, population, holder : str
        Of the job or the reservation; whose it is.
    project : str or None
    permit : str
    remaining : Amount
        What of it is neither spent nor given back.
    created_at : str
    expires_at : str or None
        End of a reservation; None of a job.
    """

    id: str
    dataset: str
    population: str
    holder: str
    project: str | None
    permit: str
    remaining: Amount
    created_at: str
    expires_at: str | None


@dataclass(frozen=True)
class OtherUse(Readable):
    """A dataset that an analyst may still use, by another permit.

    Attributes
    ----------
    analyst, dataset, permit, project : str
    expires_at : str or None
        Moment from which on it may only be read.
    """

    analyst: str
    dataset: str
    permit: str
    project: str
    expires_at: str | None

    def __str__(self) -> str:
        """Say it in a sentence."""
        until = "" if self.expires_at is None else f"; from {self.expires_at} on only to read"
        return f"{self.analyst} may still use {self.dataset} by {self.permit} ({self.project or 'no project'}){until}"


@dataclass(frozen=True)
class EndedPermit(Readable):
    """A permit that was ended, and what its people may still use by others.

    Attributes
    ----------
    permit : Permit
    still_usable : tuple of OtherUse
    """

    permit: Annotated[Permit, HERE]
    still_usable: tuple[OtherUse, ...]


@dataclass(frozen=True)
class Seal(Readable):
    """The seal: a sealed curator releases nothing.

    Attributes
    ----------
    sealed : bool
    reason : str
    since : str or None
    """

    sealed: bool
    reason: str
    since: str | None

    @property
    def way_out(self) -> str:
        """The command that lifts the seal, on the curator's machine; empty if there is no seal."""
        return "at the curator's machine: `curator restore --reconcile`, once its cause is gone" if self.sealed else ""
