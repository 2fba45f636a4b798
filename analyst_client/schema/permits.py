"""Permits: who may spend, what of, what for, how much and until when; and what is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, listing, untrusted
from analyst_client.display.terminal import plain
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, repr=False)
class Permit(Displayable):
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
            ("granted at", self.granted_at),
            ("ends at", self.ended_at or self.expires_at or "no end"),
        ]
        return (facts(join("Permit ", code(self.id)), [(name, text) for name, text in stated if text]),)

    @classmethod
    def read(cls, fields: Fields) -> "Permit":
        """Read from an answer."""
        limits = fields.object("limits")
        return cls(
            id=fields.text("id"),
            project=fields.text("project"),
            people=fields.texts("people"),
            datasets=fields.texts("datasets"),
            purpose=fields.text("purpose"),
            legal_basis=fields.text("legal_basis"),
            conditions=fields.text("conditions"),
            limits={name: limits.optional(name, limits.integer) for name in limits.members},
            granted_at=fields.text("granted_at"),
            expires_at=fields.optional("expires_at", fields.text),
            ended_at=fields.optional("ended_at", fields.text),
            version=fields.integer("version"),
        )


@dataclass(frozen=True, repr=False)
class Proposal(Displayable):
    """A wish that somebody else decides about.

    Attributes
    ----------
    id : str
    state : str
        ``"open"``, ``"approved"``, ``"rejected"``, ``"applied"`` at once, or ``"superseded"``.
    scope : str
        ``"permit"``; empty for the limit of a population; ``"rows"``.
    label : str
        Of a permit its id.
    population : str
    reason, decision : str
        Reasons of whoever asked, and of whoever decided.
    terms : dict or None
        A permit's, as on the wire.
    proposed_at : str
    decided_at : str or None
    """

    id: str
    state: str
    scope: str
    label: str
    population: str
    reason: str
    decision: str
    terms: Mapping[str, Any] | None
    proposed_at: str
    decided_at: str | None

    def __repr__(self) -> str:
        """Show what it is about, and how it stands."""
        return plain(f"<Proposal {self.id} of a {self.scope or 'limit'}: {self.state}>")

    def _view(self) -> View:
        stated: list[tuple[Inline, Inline]] = [
            ("about", join(self.scope or "the limit of ", untrusted(self.label or self.population), by=" ")),
            ("state", self.state),
            ("reason", untrusted(self.reason)),
            ("decision", untrusted(self.decision)),
            ("asked at", self.proposed_at),
            ("decided at", self.decided_at or ""),
        ]
        return (facts(join("Proposal ", code(self.id)), [(name, text) for name, text in stated if text]),)

    @classmethod
    def read(cls, fields: Fields) -> "Proposal":
        """Read from an answer."""
        return cls(
            id=fields.text("id"),
            state=fields.text("state"),
            scope=fields.text("scope"),
            label=fields.text("label"),
            population=fields.text("population"),
            reason=fields.text("reason"),
            decision=fields.optional("decision", fields.text) or "",
            terms=fields.optional("terms", lambda name: fields.object(name).members),
            proposed_at=fields.text("proposed_at"),
            decided_at=fields.optional("decided_at", fields.text),
        )


def permit_body(
    people: Sequence[str],
    datasets: Sequence[str],
    *,
    reason: str,
    limit: Mapping[str, float] | None,
    **texts: str | None,
) -> bytes:
    """Write what is asked for; what is left out is not sent."""
    for names in (people, datasets):
        if isinstance(names, str):
            raise ValueError("people and datasets are lists of names")  # noqa: TRY004 -- one kind of error for arguments
    body: dict[str, Any] = {"people": list(people), "datasets": list(datasets), "reason": reason}
    body |= {name: text for name, text in texts.items() if text is not None}
    return as_json(body if limit is None else body | {"limit": dict(limit)})
