"""Queries of what was proposed and waits for a second person: limits, permits, rows like another population's."""

import hashlib
import json
from dataclasses import astuple, dataclass, replace
from typing import Final, Literal

from sqlalchemy import bindparam, case, func, insert, select, update

from curator_service.kit.db import Connection, Statement
from curator_service.ledger.models import ProposalRow

Scope = Literal["", "population", "analyst", "project", "permit", "rows"]
State = Literal["open", "approved", "rejected", "applied", "superseded", "withdrawn", "expired", "unattested"]
OPEN: Final = "open"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
APPLIED: Final = "applied"
SUPERSEDED: Final = "superseded"
WITHDRAWN: Final = "withdrawn"
EXPIRED: Final = "expired"
UNATTESTED: Final = "unattested"
"""How one is shown that waits by its row, and is not what the register says was asked; it is stored nowhere."""
ROWS: Final = "rows"
"""Scope of a proposal to register rows; the label is a keyed digest of them, their manifest and whose they are like."""


ACCOUNT: Final = ""
"""Scope of a proposal about an account's limit."""
OPENING: Final = "population"
"""Scope of a proposal to give people a budget; the label is empty, and the content says which."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal: applied at once, or waiting for a second person.

    Attributes
    ----------
    population : str
        For a permit the first, by name, of those whose datasets it is about.
    scope : str
        Empty for the account's limit; ``population`` for a new one; ``permit``; ``rows``.
    label : str
        The permit's id; empty for the account.
    limit, was : int
        What is asked, and what held when it was asked: units of a limit; of a permit, 0 and its version.
    content : str
        A permit's terms, or a new population's, as JSON.
    decision : str
        Why it was approved or rejected.
    """

    id: str
    population: str
    scope: Scope
    label: str
    limit: int
    was: int
    reason: str
    proposed_by: str
    proposed_at: str
    state: State
    decided_by: str | None = None
    decided_at: str | None = None
    content: str = ""
    decision: str = ""

    @property
    def digest(self) -> str:
        """A hash of what was proposed: whoever approves says with it what they saw."""
        told = replace(self, state=OPEN, decided_by=None, decided_at=None, decision="")
        return hashlib.sha256(json.dumps(astuple(told)).encode()).hexdigest()


_COLUMNS = (
    ProposalRow.id,
    ProposalRow.population,
    ProposalRow.scope,
    ProposalRow.label,
    ProposalRow.limit_units,
    ProposalRow.from_units,
    ProposalRow.reason,
    ProposalRow.proposed_by,
    ProposalRow.proposed_at,
    ProposalRow.state,
    ProposalRow.decided_by,
    ProposalRow.decided_at,
    ProposalRow.content,
    ProposalRow.decision,
)
_INSERT = Statement(insert(ProposalRow))
_FIND = Statement(select(*_COLUMNS).where(ProposalRow.id == bindparam("proposal")))
_LIST = Statement(
    select(*_COLUMNS)
    .order_by(case((ProposalRow.state == OPEN, 0), else_=1), ProposalRow.proposed_at.desc(), ProposalRow.id)
    .limit(1000)
)
_BY_PERSON = ProposalRow.proposed_by == bindparam("person")
_LIST_OF = Statement(
    select(*_COLUMNS)
    .where(_BY_PERSON)
    .order_by(case((ProposalRow.state == OPEN, 0), else_=1), ProposalRow.proposed_at.desc(), ProposalRow.id)
    .limit(1000)
)
_LIST_OPEN = Statement(select(*_COLUMNS).where(ProposalRow.state == OPEN).order_by(ProposalRow.id))
_COUNT_OPEN = Statement(select(func.count()).where(ProposalRow.state == OPEN, _BY_PERSON))
_COUNT_SINCE = Statement(select(func.count()).where(_BY_PERSON, ProposalRow.proposed_at > bindparam("moment")))
_DECIDE = Statement(
    update(ProposalRow)
    .where(ProposalRow.id == bindparam("proposal"), ProposalRow.state == OPEN)
    .values(
        state=bindparam("outcome"),
        decided_by=bindparam("admin"),
        decided_at=bindparam("moment"),
        decision=bindparam("why"),
    )
)


_SUPERSEDE = Statement(
    update(ProposalRow)
    .where(
        ProposalRow.state == OPEN,
        ProposalRow.population == bindparam("population"),
        ProposalRow.scope == bindparam("scope"),
        ProposalRow.label == bindparam("label"),
        ProposalRow.id != bindparam("proposal"),
    )
    .values(state=SUPERSEDED, decided_by=bindparam("admin"), decided_at=bindparam("moment"))
)


def find_proposal(connection: Connection, proposal_id: str) -> Proposal | None:
    """Return a proposal, or None."""
    row = _FIND.first(connection, proposal=proposal_id)
    return None if row is None else Proposal(*row)


def list_proposals(connection: Connection, *, of: str | None = None) -> list[Proposal]:
    """Return proposals: what waits first, the newest of it before the others; with `of`, those that somebody made."""
    found = _LIST.all(connection) if of is None else _LIST_OF.all(connection, person=of)
    return [Proposal(*row) for row in found]


def list_open(connection: Connection) -> list[Proposal]:
    """Return every proposal that waits."""
    return [Proposal(*row) for row in _LIST_OPEN.all(connection)]


def count_since(connection: Connection, principal_id: str, moment: str) -> int:
    """Return how many proposals somebody made after a moment, whatever became of them."""
    row = _COUNT_SINCE.first(connection, person=principal_id, moment=moment)
    return 0 if row is None else int(row[0])


def count_open(connection: Connection, principal_id: str) -> int:
    """Return how many proposals of somebody wait."""
    row = _COUNT_OPEN.first(connection, person=principal_id)
    return 0 if row is None else int(row[0])


def supersede(connection: Connection, proposal: Proposal) -> None:
    """Close every other open proposal about the same."""
    _SUPERSEDE.execute(
        connection,
        population=proposal.population,
        scope=proposal.scope,
        label=proposal.label,
        proposal=proposal.id,
        admin=proposal.decided_by,
        moment=proposal.decided_at,
    )


def insert_proposal(connection: Connection, proposal: Proposal) -> None:
    """Insert a proposal."""
    _INSERT.execute(
        connection,
        id=proposal.id,
        population=proposal.population,
        scope=proposal.scope,
        label=proposal.label,
        limit_units=proposal.limit,
        from_units=proposal.was,
        reason=proposal.reason,
        proposed_by=proposal.proposed_by,
        proposed_at=proposal.proposed_at,
        state=proposal.state,
        decided_by=proposal.decided_by,
        decided_at=proposal.decided_at,
        content=proposal.content,
        decision=proposal.decision,
    )


def decide_proposal(connection: Connection, proposal: Proposal) -> bool:
    """Write what was decided of an open proposal; False if it was decided before."""
    changed = _DECIDE.changed(
        connection,
        proposal=proposal.id,
        outcome=proposal.state,
        why=proposal.decision,
        admin=proposal.decided_by,
        moment=proposal.decided_at,
    )
    return changed == 1
