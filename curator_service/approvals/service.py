"""Changing limits: lowering at once, raising with the approval of a second admin.

The guarantee of an account is that of the highest limit that it ever had, so a raise is an entry that names two admins.
A limit of an analyst or a project divides what the account holds; the first one that is set counts as lowering.
"""

import re
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from curator_service.approvals import repository as proposals
from curator_service.approvals.repository import APPLIED, APPROVED, OPEN, REJECTED, ROWS, Proposal
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, find_principal
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.ledger import repository
from curator_service.ledger.accounts.unit_of_work import Ledger, Refused, new_id
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.service import LedgerService, PopulationError, units_of_limit
from curator_service.privacy.accountant import Price

ACCOUNT, ANALYST = "", "analyst"
_ID_PATTERN = re.compile(r"prp_[0-9a-f]{24}")


class LimitConflict(Problem):
    """The limit cannot be set as asked: it would fall below what is spent, or has changed in the meantime."""

    slug = "limit-conflict"
    status = HTTPStatus.CONFLICT
    title = "The limit cannot be set so"


class SecondAdminNeeded(Problem):
    """Whoever proposes a raise cannot approve it."""

    slug = "second-admin-needed"
    status = HTTPStatus.FORBIDDEN
    title = "Another admin must approve"


class LimitService:
    """Limits of accounts, and of what analysts and projects may take of them.

    Parameters
    ----------
    database : Database
    ledger : LedgerService
    now : callable
        The clock.
    """

    def __init__(self, database: Database, ledger: LedgerService, now: Clock) -> None:
        self.database = database
        self.ledger = ledger
        self.now = now

    def propose(self, population: str, scope: str, label: str, limit: Price, reason: str, admin: Principal) -> Proposal:
        """Lower a limit at once, or propose to raise it.

        Parameters
        ----------
        population : str
        scope : str
            Empty for the account; ``analyst`` or ``project``.
        label : str
            The analyst's name, or the project; empty for the account.
        limit : Price
        reason : str
        admin : Principal

        Raises
        ------
        NotFound, RequestInvalid, LimitConflict, LedgerUnverified
        """
        self.ledger.guard.check_open()
        with self.database.read() as connection:
            account = find_population(connection, population) if NAME.fullmatch(population) else None
            if account is None:
                raise NotFound("There is no population of this name.")
            label = _resolve(connection, scope, label)
            was = _current(connection, account, scope, label)
        try:
            units = units_of_limit(account.accountant, limit)
        except PopulationError as error:
            raise RequestInvalid.at("/limit", str(error)) from None
        moment = timestamp(self.now())
        proposal = Proposal(new_id("prp_"), population, scope, label, units, was, reason, admin.id, moment, OPEN)
        if 0 <= was < units:
            with self.database.begin() as connection:
                proposals.insert_proposal(connection, proposal)
            return proposal
        applied = replace(proposal, state=APPLIED, decided_by=admin.id, decided_at=moment)
        self._apply(applied, approved_by=admin.id, new=True)
        return applied

    def decide(self, proposal_id: str, admin: Principal, *, approve: bool) -> Proposal:
        """Approve or reject a proposal; whoever made it may only take it back.

        Raises
        ------
        NotFound, SecondAdminNeeded, LimitConflict, LedgerUnverified
        """
        proposal = self._find(proposal_id)
        if proposal.state != OPEN:
            raise LimitConflict(f"The proposal was {proposal.state} before.")
        if approve and proposal.proposed_by == admin.id:
            raise SecondAdminNeeded("Whoever makes a proposal cannot approve it: ask another admin.")
        state = APPROVED if approve else REJECTED
        decided = replace(proposal, state=state, decided_by=admin.id, decided_at=timestamp(self.now()))
        if approve:
            self.ledger.guard.check_open()
            self._apply(decided, approved_by=admin.id, new=False)
            return decided
        try:
            with self.database.begin() as connection:
                _close(connection, decided)
        except Refused:
            raise LimitConflict("The proposal was decided in the meantime.") from None
        return decided

    def list_proposals(self) -> list[Proposal]:
        """Return proposals, the newest first."""
        with self.database.read() as connection:
            return proposals.list_proposals(connection)

    def _find(self, proposal_id: str) -> Proposal:
        found = None
        if _ID_PATTERN.fullmatch(proposal_id):
            with self.database.read() as connection:
                found = proposals.find_proposal(connection, proposal_id)
        if found is None:
            raise NotFound("There is no proposal of this id.")
        return found

    def _apply(self, proposal: Proposal, *, approved_by: str, new: bool) -> Receipt:
        try:
            with self.ledger.unit() as ledger:
                receipt = _write(ledger, proposal, approved_by)
                if new:
                    proposals.insert_proposal(ledger.connection, proposal)
                else:
                    _close(ledger.connection, proposal)
                # What was proposed before was about another limit than the one that holds now.
                proposals.supersede(ledger.connection, proposal)
        except Refused:
            raise LimitConflict(
                "The limit cannot be set: it would fall below what is spent and held, or it was changed, or the "
                "proposal decided, in the meantime. Look at the account and ask anew."
            ) from None
        self.ledger.guard.anchor_before_send(receipt, just_written=True)
        return receipt


def _resolve(connection: Connection, scope: str, label: str) -> str:
    if scope == ANALYST:
        principal = find_principal(connection, label)
        if principal is None or principal.role is not Role.ANALYST:
            raise RequestInvalid.at("/label", f"there is no analyst {label!r}")
        return principal.id
    return label


def _current(connection: Connection, account: Population, scope: str, label: str) -> int:
    if scope == ACCOUNT:
        return account.limit
    share = repository.find_share(connection, account.name, scope, label)
    return -1 if share is None or share.limit is None else share.limit


def _write(ledger: Ledger, proposal: Proposal, approved_by: str) -> Receipt:
    payload: dict[str, Any] = {
        "actor": proposal.proposed_by,
        "approved_by": approved_by,
        "reason": proposal.reason,
        "time": proposal.decided_at,
    }
    if proposal.scope == ROWS:
        return ledger.note(proposal.population, "confirmation", payload | {"rows": proposal.label})
    if proposal.scope == ACCOUNT:
        head = repository.set_limit(ledger.connection, proposal.population, was=proposal.was, units=proposal.limit)
        if head is None:
            raise Refused
        ledger.check(head, limit=proposal.was, posted=head.posted, pending=head.pending)
        return ledger.record(head, "limit", proposal.limit, payload)
    head = ledger.next(proposal.population)
    was = None if proposal.was < 0 else proposal.was
    share = proposal.scope, proposal.label
    if not repository.limit_share(ledger.connection, proposal.population, *share, was=was, units=proposal.limit):
        raise Refused
    payload |= {"scope": proposal.scope, "label": proposal.label}
    return ledger.record(head, "limit", proposal.limit, payload)


def _close(connection: Connection, proposal: Proposal) -> None:
    if not proposals.decide_proposal(connection, proposal):
        raise Refused
