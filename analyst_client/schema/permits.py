"""Permits: people, datasets, purpose, amount and end of an allowed spending; and the requests for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, listing, untrusted
from analyst_client.display.terminal import plain
from analyst_client.schema.amounts import Amount
from analyst_client.schema.reading import Readable
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, repr=False)
class Permit(Displayable, Readable):
    """A permit under which releases are charged.

    Attributes
    ----------
    id : str
    project : str
        Name to give as ``project=``; empty for a plain grant.
    people, datasets : tuple of str
    purpose, legal_basis, conditions : str
    limits : dict of str to (int or None)
        Of each population what may be spent of it, in units of its account; None for all of it.
    granted_at : str
    expires_at, ended_at : str or None
        Moment from which on nothing is charged; moment in which it was ended before its time.
    version : int
        Grows with each change.
    rules : dict or None
        Rules for each release, by their names.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> permit = client.permits()[0]
    >>> permit.people, permit.datasets, permit.expires_at
    (('anna',), ('flchain',), None)
    """

    id: str
    project: str
    people: tuple[str, ...]
    datasets: tuple[str, ...]
    purpose: str
    legal_basis: str
    conditions: str
    limits: dict[str, int | None]
    granted_at: str
    expires_at: str | None
    ended_at: str | None
    version: int
    rules: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """Show what it is for, and until when."""
        until = f"ended {self.ended_at}" if self.ended_at else f"until {self.expires_at or 'it is ended'}"
        return plain(f"<Permit {self.id} {self.project or 'without a project'}: {', '.join(self.datasets)}, {until}>")

    def _view(self) -> View:
        stated: list[tuple[Inline, Inline]] = [
            ("project", untrusted(self.project) if self.project else "none"),
            ("people", listing([untrusted(name) for name in self.people])),
            ("datasets", listing([untrusted(name) for name in self.datasets])),
            ("purpose", untrusted(self.purpose)),
            ("legal basis", untrusted(self.legal_basis)),
            ("conditions", untrusted(self.conditions)),
            ("rules", untrusted(_write_term(self.rules))),
            ("granted at", self.granted_at),
            ("ends at", self.ended_at or self.expires_at or "no end"),
        ]
        return (facts(join("Permit ", code(self.id)), [(name, text) for name, text in stated if text]),)


def _text_or_empty(fields: Fields, name: str) -> str:
    return fields.optional(name, fields.text) or ""


def _read_amounts(fields: Fields, name: str) -> dict[str, Amount]:
    within = fields.optional(name, fields.object)
    return {} if within is None else {part: Amount.read(within.object(part)) for part in AMOUNTS}


@dataclass(frozen=True)
class Message(Readable):
    """What somebody asked or answered about a proposal.

    Attributes
    ----------
    by, at, text : str
        A name, a moment and the words.
    """

    by: str
    at: str
    text: str


@dataclass(frozen=True, repr=False)
class Proposal(Displayable, Readable):
    """A wish that somebody else decides about.

    Attributes
    ----------
    id : str
    state : str
        ``"open"``, ``"approved"``, ``"rejected"``, ``"applied"`` at once, ``"superseded"`` by another one,
        ``"withdrawn"`` by whoever asked, ``"expired"``, or ``"unattested"``: it waits, and the register does not say
        that it was asked so.
    scope : str
        ``"permit"``; empty for the limit of a population; ``"population"`` for a new one; ``"rows"``.
    label : str
        Of a permit its id.
    population : str
    reason, decision : str
        Reasons of whoever asked, and of whoever decided.
    terms : dict or None
        A permit's, or a new population's, as on the wire.
    proposed_at : str
    decided_at : str or None
    proposer, decider : str or None
        Names of whoever asked and decided; None in a list.
    before : dict or None
        Of an open change of a permit its terms as they are now; None in a list.
    amounts : dict of str to Amount
        Of a limit what it was (``"from"``), what is asked (``"to"``) and what is ``"spent_and_held"``; empty in a list.
    messages : tuple of Message
        Questions and answers about it; empty in a list. `CuratorClient.answer` adds one.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> proposal = client.proposals()[0]
    >>> proposal.state, proposal.reason
    ('open', 'The study begins in January')
    """

    id: str
    state: str
    scope: str
    label: str
    population: str
    reason: str
    decision: Annotated[str, _text_or_empty]
    terms: Mapping[str, Any] | None
    proposed_at: str
    decided_at: str | None
    proposer: str | None = None
    decider: str | None = None
    before: Mapping[str, Any] | None = None
    amounts: Annotated[Mapping[str, Amount], _read_amounts] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()

    def __repr__(self) -> str:
        """Show what it is about, and how it stands."""
        return plain(f"<Proposal {self.id} of a {self.scope or 'limit'}: {self.state}>")

    @property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Each term as it is now and as it would be, as text; empty where it is not known, or nothing."""
        if self.amounts:
            return {"limit": (_write_amount(self.amounts["from"]), _write_amount(self.amounts["to"]))}
        asked, now = self.terms or {}, self.before or {}
        names = [*TERMS, *(name for name in asked if name not in TERMS)]
        pairs = {name: (_write_term(now.get(name)), _write_term(asked.get(name))) for name in names}
        return {name: pair for name, pair in pairs.items() if pair != ("", "")}

    def _view(self) -> View:
        stated: list[tuple[Inline, Inline]] = [
            ("about", join(self.scope or "the limit of ", untrusted(self.label or self.population), by=" ")),
            ("state", self.state),
            ("reason", untrusted(self.reason)),
            ("decision", untrusted(self.decision)),
            ("asked at", self.proposed_at),
            ("asked by", untrusted(self.proposer or "")),
            ("decided at", self.decided_at or ""),
            ("decided by", untrusted(self.decider or "")),
        ]
        for name, (now, then) in self.changes.items():
            changed = self.amounts or (self.before is not None and now != then)
            shown = join(untrusted(now or "nothing"), "→", untrusted(then or "nothing"), by=" ")
            stated.append((name.replace("_", " "), shown if changed else untrusted(then)))
        if self.amounts:
            stated.append(("spent and held", _write_amount(self.amounts["spent_and_held"])))
        stated += [(join(untrusted(one.by), one.at, by=", "), untrusted(one.text)) for one in self.messages]
        return (facts(join("Proposal ", code(self.id)), [(name, text) for name, text in stated if _is_said(text)]),)


AMOUNTS = ("from", "to", "spent_and_held")
TERMS = ("project", "people", "datasets", "limit", "expires_at", "purpose", "legal_basis", "conditions", "rules")
"""Members of a permit, in the order in which they are shown."""


def _write_amount(amount: Amount) -> str:
    return f"ε {amount.epsilon:.6g} at δ {amount.delta:g}" + (f" ({amount.units} units)" if amount.units else "")


def _write_term(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_write_member(one)}" for name, one in value.items() if one is not None)
    return "" if value is None else str(value)


def _write_member(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else repr(value)


def _is_said(text: Inline) -> bool:
    return text not in {"", untrusted("")}


def permit_body(
    people: Sequence[str],
    datasets: Sequence[str],
    *,
    reason: str,
    limit: Mapping[str, float] | None,
    rules: Mapping[str, Any] | None = None,
    **texts: str | datetime | None,
) -> bytes:
    """Write what is asked for; what is left out is not sent."""
    for names in (people, datasets):
        if isinstance(names, str):
            raise ValueError("people and datasets are lists of names")  # noqa: TRY004 -- one kind of error for arguments
    body: dict[str, Any] = {"people": list(people), "datasets": list(datasets), "reason": reason}
    body |= {name: text for name, text in texts.items() if text is not None}
    body |= {} if limit is None else {"limit": dict(limit)}
    return as_json(body if rules is None else body | {"rules": dict(rules)})
