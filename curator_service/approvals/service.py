"""Decisions that take two people: what only restricts holds at once, what widens waits for somebody else.

The guarantee of an account is that of the highest limit that it ever had, so a raise is an entry that names two people.
What is decided about (limits here, permits in `permits`, rows of other people) writes its own entry.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from curator_service.approvals import repository as proposals
from curator_service.approvals.repository import ACCOUNT, APPLIED, APPROVED, OPEN, OPENING, REJECTED, ROWS, Proposal
from curator_service.approvals.terms import PopulationTerms
from curator_service.identity.repository import Principal
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.ledger import repository
from curator_service.ledger.accounts.unit_of_work import Ledger, Refused, new_id
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.service import (
    LedgerService,
    PopulationError,
    open_population,
    plan_population,
    units_of_limit,
)
from curator_service.privacy.accountant import Price

_ID_PATTERN = re.compile(r"prp_[0-9a-f]{24}")
OPEN_MAX = 20
"""How many proposals of one person may wait: nobody hides those of others behind his own."""
Write = Callable[[Ledger, Proposal, str], list[Receipt]]
"""Carries a proposal out, in a unit of work, as approved by somebody; returns the receipts of its entries."""


class LimitConflict(Problem):
    """The limit cannot be set as asked: it would fall below what is spent, or has changed in the meantime."""

    slug = "limit-conflict"
    status = HTTPStatus.CONFLICT
    title = "The limit cannot be set so"


class SecondAdminNeeded(Problem):
    """Whoever proposes something cannot approve it."""

    slug = "second-admin-needed"
    status = HTTPStatus.FORBIDDEN
    title = "Somebody else must approve"


class ApprovalService:
    """Proposals, and what becomes of them.

    Parameters
    ----------
    database : Database
    ledger : LedgerService
    now : callable
        The clock.

    Attributes
    ----------
    writers : dict of str to callable
        What carries out a proposal, by its scope.
    """

    def __init__(self, database: Database, ledger: LedgerService, now: Clock) -> None:
        self.database = database
        self.ledger = ledger
        self.now = now
        self.writers: dict[str, Write] = {ACCOUNT: _write_limit, OPENING: _write_opening, ROWS: _write_confirmation}

    def propose_limit(self, population: str, limit: Price, reason: str, by: Principal) -> Proposal:
        """Lower the limit of an account at once, or propose to raise it.

        Raises
        ------
        NotFound, RequestInvalid, LimitConflict, LedgerUnverified
        """
        self.ledger.guard.check_open()
        with self.database.read() as connection:
            account = find_population(connection, population) if NAME.fullmatch(population) else None
        if account is None:
            raise NotFound("There is no population of this name.")
        try:
            units = units_of_limit(account.accountant, limit)
        except PopulationError as error:
            raise RequestInvalid.at("/limit", str(error)) from None
        moment = timestamp(self.now())
        proposal = Proposal(new_id("prp_"), population, ACCOUNT, "", units, account.limit, reason, by.id, moment, OPEN)
        return self.propose(proposal, at_once=units <= account.limit)

    def propose_population(self, name: str, terms: PopulationTerms, reason: str, by: Principal) -> Proposal:
        """Propose to give people a budget, which always waits for somebody else.

        Raises
        ------
        RequestInvalid, LimitConflict, LedgerUnverified
        """
        self.ledger.guard.check_open()
        moment = timestamp(self.now())
        try:
            planned = _plan(name, terms, moment)
        except PopulationError as error:
            raise RequestInvalid.at("", str(error)) from None
        with self.database.read() as connection:
            if find_population(connection, name) is not None:
                raise LimitConflict("The population exists: a budget is given once, and raised by its limit.")
        proposal = Proposal(
            id=new_id("prp_"),
            population=name,
            scope=OPENING,
            label="",
            limit=planned.limit,
            was=-1,
            reason=reason,
            proposed_by=by.id,
            proposed_at=moment,
            state=OPEN,
            content=terms.model_dump_json(exclude={"name", "reason"}, exclude_none=True),
        )
        return self.propose(proposal, at_once=False)

    def propose(self, proposal: Proposal, *, at_once: bool) -> Proposal:
        """Carry a proposal out, if it only restricts, or let it wait for somebody else.

        Raises
        ------
        LimitConflict, LedgerUnverified
        """
        if at_once:
            by, moment = proposal.proposed_by, proposal.proposed_at
            applied = replace(proposal, state=APPLIED, decided_by=by, decided_at=moment)
            self._apply(applied, approved_by=by, new=True)
            return applied
        with self.database.begin() as connection:
            if proposals.count_open(connection, proposal.proposed_by) >= OPEN_MAX:
                raise LimitConflict(
                    f"{OPEN_MAX} of your proposals wait already: let some be decided before you ask on."
                )
            proposals.insert_proposal(connection, proposal)
        return proposal

    def decide(
        self, proposal_id: str, by: Principal, *, approve: bool, reason: str = "", seen: str | None = None
    ) -> Proposal:
        """Approve or reject a proposal; whoever made it may only take it back.

        Parameters
        ----------
        proposal_id : str
        by : Principal
        approve : bool
        reason : str
        seen : str, optional
            The digest of the proposal that was shown; a page always has one.

        Raises
        ------
        NotFound, SecondAdminNeeded, LimitConflict, LedgerUnverified
        """
        proposal = self.get_proposal(proposal_id, seen=seen)
        if proposal.state != OPEN:
            raise LimitConflict(f"The proposal was {proposal.state} before.")
        if approve and proposal.proposed_by == by.id:
            raise SecondAdminNeeded("Whoever makes a proposal cannot approve it: ask another privacy officer.")
        decided = replace(
            proposal,
            state=APPROVED if approve else REJECTED,
            decided_by=by.id,
            decided_at=timestamp(self.now()),
            decision=reason,
        )
        if approve:
            self.ledger.guard.check_open()
            self._apply(decided, approved_by=by.id, new=False)
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

    def get_proposal(self, proposal_id: str, *, seen: str | None = None) -> Proposal:
        """Return a proposal.

        Parameters
        ----------
        proposal_id : str
        seen : str, optional
            The digest that it must have.

        Raises
        ------
        NotFound
        LimitConflict
            If it is another than was seen.
        """
        found = None
        if _ID_PATTERN.fullmatch(proposal_id):
            with self.database.read() as connection:
                found = proposals.find_proposal(connection, proposal_id)
        if found is None:
            raise NotFound("There is no proposal of this id.")
        if seen is not None and seen != found.digest:
            raise LimitConflict("This proposal is not the one that you were shown. Nothing was done: look at it anew.")
        return found

    def _apply(self, proposal: Proposal, *, approved_by: str, new: bool) -> None:
        try:
            with self.ledger.unit() as ledger:
                receipts = self.writers[proposal.scope](ledger, proposal, approved_by)
                if new:
                    proposals.insert_proposal(ledger.connection, proposal)
                else:
                    _close(ledger.connection, proposal)
                # What was proposed before was about another state than the one that holds now.
                proposals.supersede(ledger.connection, proposal)
        except Refused:
            raise LimitConflict(
                "The limit cannot be set: it would fall below what is spent and held, or it was changed, or the "
                "proposal decided, in the meantime. Look at the account and ask anew."
            ) from None
        for receipt in receipts:
            self.ledger.guard.anchor_before_send(receipt, just_written=True)


def payload_of(proposal: Proposal, approved_by: str) -> dict[str, Any]:
    """Return what the entry of every decision says of it."""
    return {
        "actor": proposal.proposed_by,
        "approved_by": approved_by,
        "reason": proposal.reason,
        "time": proposal.decided_at,
    }


def _write_limit(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    head = repository.set_limit(ledger.connection, proposal.population, was=proposal.was, units=proposal.limit)
    if head is None:
        raise Refused
    ledger.check(head, limit=proposal.was, posted=head.posted, pending=head.pending)
    return [ledger.record(head, "limit", proposal.limit, payload_of(proposal, approved_by))]


def _plan(name: str, terms: PopulationTerms, moment: str) -> Population:
    return plan_population(name, terms.adjacency, terms.accountant, terms.limit.price, terms.delta, moment)


def _write_opening(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    payload = payload_of(proposal, approved_by)
    population = _plan(
        proposal.population, PopulationTerms.model_validate_json(proposal.content), str(proposal.decided_at)
    )
    try:
        return [open_population(ledger, population, payload)]
    except PopulationError:
        raise Refused from None


def _write_confirmation(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    payload = payload_of(proposal, approved_by) | {"rows": proposal.label}
    return [ledger.note(proposal.population, "confirmation", payload)]


def _close(connection: Connection, proposal: Proposal) -> None:
    if not proposals.decide_proposal(connection, proposal):
        raise Refused
