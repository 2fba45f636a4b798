"""Decisions that take two people: what only restricts holds at once, what widens waits for somebody else.

The guarantee of an account is that of the highest limit that it ever had, so a raise is an entry that names two people.
What is decided about (limits here, permits in `permits`, rows of other people) writes its own entry. What is asked, and
what came to nothing (refused, taken back, expired), stands in the register.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from curator_service.approvals import repository as proposals
from curator_service.approvals.entries import (
    Closed,
    Discussed,
    ProposalExpired,
    ProposalRejected,
    ProposalWithdrawn,
    Proposed,
)
from curator_service.approvals.problems import (
    Conflict,
    LimitConflict,
    PopulationExists,
    ProposalDecided,
    ProposalUnattested,
    SecondAdminNeeded,
    TooManyProposals,
)
from curator_service.approvals.repository import (
    ACCOUNT,
    APPLIED,
    APPROVED,
    EXPIRED,
    OPEN,
    OPENING,
    REJECTED,
    ROWS,
    UNATTESTED,
    WITHDRAWN,
    Proposal,
    State,
)
from curator_service.approvals.response_models import LimitChange, MessageAnswer, ProposalAnswer, ProposalDetailAnswer
from curator_service.approvals.terms import PermitTerms, PopulationTerms
from curator_service.entries.base import REGISTER, Decision
from curator_service.entries.rows import Confirmation
from curator_service.entries.terms import PERMIT, Limit
from curator_service.identity.entries import TokenIssued
from curator_service.identity.policy import Action, allowed_objects
from curator_service.identity.repository import Principal
from curator_service.kit.clock import Clock, timestamp
from curator_service.kit.db import Connection, Database
from curator_service.kit.idempotency import id_of_request, key_reused
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound, RequestInvalid
from curator_service.ledger import repository
from curator_service.ledger.accounts.unit_of_work import Ledger, Refused, new_id
from curator_service.ledger.chain.attestation import Holds, list_attested
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import (
    LedgerService,
    PopulationError,
    check_delta,
    open_population,
    plan_population,
    units_of_limit,
)
from curator_service.privacy.accountant import Price

_ID_PATTERN = re.compile(r"prp_[0-9a-f]{24}")
OPEN_MAX = 20
"""How many proposals of one person may wait: nobody hides those of others behind his own."""
MADE_PER_DAY_MAX = 50
"""How many somebody may make within 24 hours: each is an entry of the register, for ever."""
MESSAGES_MAX = 10
"""How many messages one side may write, whoever asks for it or everybody else: each is an entry of the register."""
DAYS_OPEN = 90
"""For how long a proposal waits."""
_NEVER = "9999-12-31T23:59:59Z"
_CLOSED: dict[str, type[Closed]] = {
    REJECTED: ProposalRejected,
    WITHDRAWN: ProposalWithdrawn,
    EXPIRED: ProposalExpired,
}
Write = Callable[[Ledger, Proposal, str], list[Receipt]]
"""Carries a proposal out, in a unit of work, as approved by somebody; returns the receipts of its entries."""


Read = Callable[[Connection, Proposal, Principal], PermitTerms | None]
"""Returns the terms that hold now, where a proposal would change some and whoever reads may see them."""


class ApprovalService:
    """Proposals, and what becomes of them.

    Whoever asks may send a key with each retry of one request: the proposal's id follows from both, so that a retry
    finds what the first made. Of a decision a retry is the same act of the same person for the same reason.

    Parameters
    ----------
    find_doubt : callable
        Says of two ids of principals why they may be one person; empty where they are two.
    find_name : callable
        Returns the name that the register gives to an id, whatever a row says; empty if none.
    now : callable
        The clock.

    Attributes
    ----------
    writers : dict of str to callable
        What carries out a proposal, by its scope.
    list_spenders : callable
        Returns the ids of those who may spend of a population, which a higher limit lets spend more.
    readers : dict of str to callable
        What tells the terms that a proposal would change.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        find_doubt: Callable[[str, str], str],
        find_name: Callable[[str], str],
        now: Clock,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.find_doubt = find_doubt
        self.find_name = find_name
        self.now = now
        self.list_spenders: Callable[[Connection, str], Collection[str]] = lambda *_: ()
        self.readers: dict[str, Read] = {}
        self.writers: dict[str, Write] = {ACCOUNT: _write_limit, OPENING: _write_opening, ROWS: _write_confirmation}

    # --- Asking

    def propose_limit(
        self,
        population: str,
        limit: Price,
        reason: str,
        by: Principal,
        *,
        replaces: bool = False,
        key: str | None = None,
    ) -> Proposal:
        """Lower the limit of an account at once, or propose to raise it.

        With `replaces` it is proposed that a limit which is no higher takes the place of one that was given by mistake:
        of an account that was never used, whose guarantee is then that of the new limit.

        Raises
        ------
        NotFound, RequestInvalid, IdempotencyKeyReused, LimitConflict, TooManyProposals, LedgerUnverified
        """
        self.ledger.guard.check_open()
        with self.database.read() as connection:
            account = find_population(connection, population) if NAME.fullmatch(population) else None
        if account is None:
            raise NotFound("There is no population of this name.")
        try:
            if (limit.delta or 0.0) > account.delta:
                check_delta(limit.delta)
            units = units_of_limit(account.accountant, limit)
        except PopulationError as error:
            raise RequestInvalid.at("/limit", str(error)) from None
        known = self.find_repeat(by, key, scope=ACCOUNT, population=population, limit=units, reason=reason)
        if known is not None:
            if is_replacement(known) is not replaces:
                raise key_reused()
            return known
        if replaces and units > account.limit:
            raise RequestInvalid.at("/replaces", "a limit that replaces another is no higher; propose to raise it")
        if replaces:
            with self.database.read() as connection:
                _check_unused(connection, population)
        moment, made = timestamp(self.now()), make_id(by, key)
        proposal = Proposal(made, population, ACCOUNT, "", units, account.limit, reason, by.id, moment, OPEN)
        return self.propose(proposal, at_once=units <= account.limit and not replaces)

    def propose_population(
        self, name: str, terms: PopulationTerms, reason: str, by: Principal, *, key: str | None = None
    ) -> Proposal:
        """Propose to give people a budget, which always waits for somebody else.

        Raises
        ------
        RequestInvalid, IdempotencyKeyReused, PopulationExists, TooManyProposals, LedgerUnverified
        """
        self.ledger.guard.check_open()
        moment = timestamp(self.now())
        try:
            planned = _plan(name, terms, moment)
        except PopulationError as error:
            raise RequestInvalid.at("", str(error)) from None
        content = terms.model_dump_json(exclude={"name", "reason"})
        known = self.find_repeat(by, key, scope=OPENING, population=name, content=content, reason=reason)
        if known is not None:
            return known
        with self.database.read() as connection:
            if find_population(connection, name) is not None:
                raise _population_exists()
        proposal = Proposal(
            id=make_id(by, key),
            population=name,
            scope=OPENING,
            label="",
            limit=planned.limit,
            was=-1,
            reason=reason,
            proposed_by=by.id,
            proposed_at=moment,
            state=OPEN,
            content=content,
        )
        return self.propose(proposal, at_once=False)

    def find_repeat(self, by: Principal, key: str | None, **said: Any) -> Proposal | None:
        """Return what the same request of the same person made before, or None.

        Parameters
        ----------
        key : str or None
            None where no retry can be told from a new request.
        **said
            What the stored proposal must say.

        Raises
        ------
        IdempotencyKeyReused
            If it says something else.
        """
        if key is None:
            return None
        with self.database.read() as connection:
            known = proposals.find_proposal(connection, make_id(by, key))
        if known is None:
            return None
        if any(getattr(known, name) != value for name, value in said.items()):
            raise key_reused()
        return self._as_seen(known)

    def propose(self, proposal: Proposal, *, at_once: bool) -> Proposal:
        """Carry a proposal out, if it only restricts, or let it wait for somebody else.

        Raises
        ------
        Conflict, LedgerUnverified
        """
        if at_once:
            by, moment = proposal.proposed_by, proposal.proposed_at
            return self._apply(replace(proposal, state=APPLIED, decided_by=by, decided_at=moment), approved_by=by)
        since = timestamp(self.now() - timedelta(days=1))
        try:
            with self.ledger.unit() as ledger:
                receipts = record_proposed(ledger, proposal)  # locks the register: whoever asks beside this one waits
                _check_new(ledger.connection, proposal)
                self._check_count(ledger.connection, proposal.proposed_by, since)
                proposals.insert_proposal(ledger.connection, proposal)
        except Refused:
            self.ledger.guard.check_open()
            return _same(self.get_proposal(proposal.id), proposal)
        self._anchor(receipts)
        return proposal

    @staticmethod
    def _check_count(connection: Connection, principal_id: str, since: str) -> None:
        if proposals.count_open(connection, principal_id) >= OPEN_MAX:
            raise TooManyProposals(
                f"{OPEN_MAX} of your proposals wait already: take some back, or let some be decided, before you ask on."
            )
        if proposals.count_since(connection, principal_id, since) >= MADE_PER_DAY_MAX:
            raise TooManyProposals(f"You have made {MADE_PER_DAY_MAX} proposals within 24 hours: ask on later.")

    # --- Asking back

    def say(
        self, proposal_id: str, text: str, by: Principal, *, of: str | None = None, key: str | None = None
    ) -> Proposal:
        """Ask or answer something about a proposal that waits: the register keeps it, with who said it and when.

        Parameters
        ----------
        of : str, optional
            Id of the principal who must have made it.

        Raises
        ------
        NotFound, RequestInvalid, IdempotencyKeyReused, ProposalDecided, ProposalUnattested, LedgerUnverified
        """
        self.ledger.guard.check_open()
        proposal = self.get_proposal(proposal_id, of=of)
        message = make_id(by, key and f"{proposal.id} {key}", "msg_")
        with self.ledger.unit() as ledger:
            repository.lock(ledger.connection, REGISTER)  # whoever writes beside this one waits
            said = _list_said(ledger.connection, ledger.trust.holds, proposal.id)
            known = next((one for one in said if one.message == message), None)
            if known is not None and known.text != text:
                raise key_reused()
            own = [one for one in said if (one.actor == one.asked_by) == (by.id == one.asked_by)]
            receipts = [] if known is not None else self._write_message(ledger, proposal, message, text, by, len(own))
        self._anchor(receipts)
        return proposal

    def _write_message(
        self, ledger: Ledger, proposal: Proposal, message: str, text: str, by: Principal, count: int
    ) -> list[Receipt]:
        stored = proposals.find_proposal(ledger.connection, proposal.id)
        if stored is None or self._as_seen(stored).state != OPEN:
            raise ProposalDecided("The proposal waits no more, so nothing is asked or answered about it.")
        _check_asked(ledger, stored)
        if count >= MESSAGES_MAX:
            raise RequestInvalid.at("/text", f"your side wrote {MESSAGES_MAX} messages already: decide it, or ask anew")
        said = Discussed(
            actor=by.id,
            time=timestamp(self.now()),
            proposal=stored.id,
            message=message,
            asked_by=stored.proposed_by,
            text=text,
        )
        return ledger.act(said)

    # --- Deciding

    def decide(
        self, proposal_id: str, by: Principal, *, approve: bool, reason: str = "", seen: str | None = None
    ) -> Proposal:
        """Approve or reject a proposal; whoever made it may only take it back.

        Parameters
        ----------
        seen : str, optional
            The digest of the proposal that was shown; a page always has one.

        Raises
        ------
        NotFound, SecondAdminNeeded, Conflict, LedgerUnverified
        """
        proposal = self.get_proposal(proposal_id, seen=seen)
        is_own = proposal.proposed_by == by.id
        if proposal.state == OPEN and approve and is_own:
            raise SecondAdminNeeded("Whoever makes a proposal cannot approve it: ask another privacy officer.")
        return self._decide(proposal, APPROVED if approve else WITHDRAWN if is_own else REJECTED, by, reason)

    def withdraw(self, proposal_id: str, by: Principal, reason: str = "") -> Proposal:
        """Take a proposal of one's own back.

        Raises
        ------
        NotFound
            Also where it is somebody else's.
        ProposalDecided, LedgerUnverified
        """
        return self._decide(self.get_proposal(proposal_id, of=by.id), WITHDRAWN, by, reason)

    def _decide(self, proposal: Proposal, outcome: State, by: Principal, reason: str) -> Proposal:
        moment = timestamp(self.now())
        decided = replace(proposal, state=outcome, decided_by=by.id, decided_at=moment, decision=reason)
        if proposal.state != OPEN:
            return _repeat(proposal, decided)
        self.ledger.guard.check_open()
        if outcome == APPROVED:
            return self._apply(decided, approved_by=by.id)
        return self._close(decided)

    def expire_due(self) -> None:
        """Close what has waited too long, or asks for a permit that would have ended; nothing under a seal.

        Nor what the register does not say was asked so: it would be the curator's word for what is a row's.
        """
        if self.ledger.guard.reason():
            return
        moment = timestamp(self.now())
        with self.database.read() as connection:
            due = [one for one in proposals.list_open(connection) if moment >= end_of(one)]
            unattested = self._list_unattested(connection, due)
        for proposal in due:
            if proposal.id not in unattested:
                self._close(replace(proposal, state=EXPIRED, decided_at=moment))

    def _close(self, decided: Proposal) -> Proposal:
        """Write that a proposal came to nothing; of one that the register does not know, into its row alone."""
        try:
            with self.ledger.unit() as ledger:
                asked = _list_acts(ledger.connection, ledger.trust.holds, [decided.id])[decided.id]
                by = next((act.actor for act in asked if isinstance(act, Proposed)), None)
                receipts = [] if by is None else ledger.act(state_closed(decided, by))
                _close(ledger.connection, decided)
        except Refused:
            self.ledger.guard.check_open()
            return _repeat(self.get_proposal(decided.id), decided)
        self._anchor(receipts)
        return decided

    def _apply(self, proposal: Proposal, *, approved_by: str) -> Proposal:
        try:
            with self.ledger.unit() as ledger:
                if proposal.state == APPROVED:
                    _check_asked(ledger, proposal)
                    self.check_second(ledger, [proposal.proposed_by], approved_by, "asked")
                    if proposal.scope == ACCOUNT and not is_replacement(proposal):
                        spenders = self.list_spenders(ledger.connection, proposal.population)
                        self._check_tokens(ledger, spenders, approved_by, "gains")
                receipts = self.writers[proposal.scope](ledger, proposal, approved_by)
                if proposal.state == APPLIED:
                    _check_new(ledger.connection, proposal)
                    proposals.insert_proposal(ledger.connection, proposal)
                else:
                    _close(ledger.connection, proposal)
                # Earlier proposals were about another state than the one that holds now.
                proposals.supersede(ledger.connection, proposal)
        except (Refused, Conflict) as refused:
            self.ledger.guard.check_open()
            with self.database.read() as connection:
                known = proposals.find_proposal(connection, proposal.id)
            if known is not None and known.state != OPEN:  # another worker was faster
                return _repeat(_same(known, proposal), proposal)
            if isinstance(refused, Conflict):
                raise
            raise LimitConflict(
                "The limit cannot be set: it would fall below what is spent and held, or it was changed in the "
                "meantime. Look at the account and ask anew."
            ) from None
        self._anchor(receipts)
        return proposal

    def check_second(self, ledger: Ledger, people: Collection[str], approved_by: str, what: str) -> None:
        """Check that the approver differs from all who ask or gain, and can act in the name of none of them.

        Parameters
        ----------
        people : collection of str
            The ids of those who asked, or gain.
        approved_by : str
            The id of who approves.
        what : str
            ``asked`` or ``gains``.

        Raises
        ------
        SecondAdminNeeded
        """
        for doubt in filter(None, (self.find_doubt(one, approved_by) for one in people)):
            raise SecondAdminNeeded(f"Whoever {what} cannot approve. {doubt}")
        self._check_tokens(ledger, people, approved_by, what)

    def check_two(self, first: Principal, second: Principal, populations: Collection[str]) -> None:
        """Check that a second person may approve what a first one asks for at the machine, and populations gain by.

        Raises
        ------
        SecondAdminNeeded
        """
        with self.ledger.unit() as ledger:
            self.check_second(ledger, [first.id], second.id, "asked")
            for population in populations:
                self._check_tokens(ledger, self.list_spenders(ledger.connection, population), second.id, "gains")

    def _check_tokens(self, ledger: Ledger, people: Collection[str], approved_by: str, what: str) -> None:
        repository.lock(ledger.connection, REGISTER)  # a token that is being made comes before or after this
        made = list_attested(ledger.connection, REGISTER, TokenIssued, ledger.trust.holds, about=("principal", people))
        if any(self.find_doubt(maker, approved_by) for maker in {act.said.actor for act in made}):
            raise SecondAdminNeeded(
                f"You made a token of somebody who {what}, and could act as that person: ask another privacy officer."
            )

    def _anchor(self, receipts: list[Receipt]) -> None:
        for receipt in receipts:
            self.ledger.guard.anchor_before_send(receipt, just_written=True)

    # --- Looking

    def list_proposals(self, *, of: str | None = None) -> list[Proposal]:
        """Return proposals, what waits first and the newest of it; with `of`, those that this principal made."""
        with self.database.read() as connection:
            found = [self._as_seen(proposal) for proposal in proposals.list_proposals(connection, of=of)]
            return self._as_attested(connection, found)

    def get_proposal(self, proposal_id: str, *, of: str | None = None, seen: str | None = None) -> Proposal:
        """Return a proposal; with `of`, one that this principal made.

        Parameters
        ----------
        of : str, optional
            Id of a principal.
        seen : str, optional
            The digest that it must have.

        Raises
        ------
        NotFound
        ProposalUnattested
            If it is another than was seen.
        """
        found = None
        if _ID_PATTERN.fullmatch(proposal_id):
            with self.database.read() as connection:
                found = proposals.find_proposal(connection, proposal_id)
        if found is None or (of is not None and found.proposed_by != of):
            raise NotFound("There is no proposal of this id.")
        if seen is not None and seen != found.digest:
            raise ProposalUnattested("This is not the proposal that was shown. Nothing was done: look at it anew.")
        return self._as_seen(found)

    def describe(self, proposal: Proposal, reader: Principal) -> ProposalDetailAnswer:
        """Return a proposal with names, the proposed terms and the terms in force that the reader may see."""
        with self.database.read() as connection:
            (proposal,) = self._as_attested(connection, [proposal])
            # Whoever asked may be no officer any more.
            is_own, may = reader.id == proposal.proposed_by, allowed_objects(reader.roles, Action.READ_POPULATIONS)
            is_told = proposal.scope == ACCOUNT and not (is_own and may is None)
            account = find_population(connection, proposal.population) if is_told else None
            messages = self._list_messages(connection, proposal)
        return ProposalDetailAnswer.model_construct(
            **dict(ProposalAnswer.of(proposal)),
            proposer=self.find_name(proposal.proposed_by),
            decider=proposal.decided_by and self.find_name(proposal.decided_by),
            before=self.find_terms_before(proposal, reader),
            amounts=None if account is None else _compare(account, proposal),
            messages=messages,
        )

    def _list_messages(self, connection: Connection, proposal: Proposal) -> list[MessageAnswer]:
        """Return what was said about a proposal, as the register says it; nothing where keys cannot be read."""
        try:
            said = _list_said(connection, self.ledger.guard.trust.holds, proposal.id)
        except SigningError:
            return []
        names = {one.actor: self.find_name(one.actor) or one.actor for one in said}
        return [MessageAnswer.model_construct(by=names[one.actor], at=one.time, text=one.text) for one in said]

    def find_terms_before(self, proposal: Proposal, reader: Principal) -> PermitTerms | None:
        """Return the terms that hold now where a proposal that waits would change some that whoever reads may see."""
        if proposal.state != OPEN or proposal.scope not in self.readers:
            return None
        with self.database.read() as connection:
            return self.readers[proposal.scope](connection, proposal, reader)

    def _as_attested(self, connection: Connection, found: Sequence[Proposal]) -> list[Proposal]:
        """Return proposals, those that wait as they were asked, or as unattested: somebody decides by what is shown."""
        unattested = self._list_unattested(connection, [one for one in found if one.state == OPEN])
        return [replace(one, state=UNATTESTED) if one.id in unattested else one for one in found]

    def _list_unattested(self, connection: Connection, waiting: Sequence[Proposal]) -> set[str]:
        """Return the ids of proposals that differ from the register; none where keys cannot be read."""
        if not waiting:
            return set()
        try:
            acts = _list_acts(connection, self.ledger.guard.trust.holds, [one.id for one in waiting])
        except SigningError:  # nothing can be approved then, either
            return set()
        return {one.id for one in waiting if not _is_said(one, acts[one.id])}

    def _as_seen(self, proposal: Proposal) -> Proposal:
        """Return a proposal as expired if its time is over, even before that is written."""
        is_due = proposal.state == OPEN and timestamp(self.now()) >= end_of(proposal)
        return replace(proposal, state=EXPIRED, decided_at=end_of(proposal)) if is_due else proposal


def _compare(account: Population, proposal: Proposal) -> LimitChange:
    units = proposal.was, proposal.limit, account.posted + account.pending
    before, to, spent_and_held = (AmountModel.of(account.view(amount)) for amount in units)
    return LimitChange.model_construct(before=before, to=to, spent_and_held=spent_and_held)


def make_id(by: Principal, key: str | None, prefix: str = "prp_") -> str:
    """Return the id of what a request makes: of one with a key always the same."""
    return new_id(prefix) if key is None else id_of_request(prefix, by.id, key)


def end_of(proposal: Proposal) -> str:
    """Return the moment from which on a proposal waits no more: a permit is not granted after its own end.

    A row that was changed beyond reading waits until somebody rejects it; the register says nothing of it.
    """
    try:
        last = timestamp(datetime.fromisoformat(proposal.proposed_at) + timedelta(days=DAYS_OPEN))
        ends = json.loads(proposal.content).get("expires_at") if proposal.scope == PERMIT and proposal.content else None
        return min(last, ends or last)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return _NEVER


def record_proposed(ledger: Ledger, proposal: Proposal) -> list[Receipt]:
    """Write into the register what was proposed, in the unit of work that stores it.

    Of terms it has the digest, so that the register stays small whatever is asked.
    """
    return ledger.act(state_proposed(proposal))


def state_proposed(proposal: Proposal) -> Proposed:
    """Return what the register says of a proposal that is made."""
    said: dict[str, Any] = {}
    if proposal.scope == ACCOUNT:
        said |= {"asked_units": str(proposal.limit), "from_units": str(proposal.was)}
    elif proposal.scope == PERMIT:
        said |= {"permit": proposal.label, "permit_version": proposal.was}
    elif proposal.scope == ROWS:
        said |= {"rows": proposal.label}
    if proposal.content:
        said |= {"terms_digest": hashlib.sha256(proposal.content.encode()).hexdigest()}
    return Proposed(
        actor=proposal.proposed_by,
        time=proposal.proposed_at,
        proposal=proposal.id,
        about=proposal.scope or "limit",
        of_population=proposal.population,
        reason=proposal.reason,
        **said,
    )


def state_closed(proposal: Proposal, asked_by: str) -> Closed:
    """Return what the register says of a proposal that was not approved."""
    return _CLOSED[proposal.state](
        actor=proposal.decided_by or "curator",
        time=str(proposal.decided_at),
        proposal=proposal.id,
        reason=proposal.decision,
        asked_by=asked_by,
    )


def decision_of(proposal: Proposal, approved_by: str) -> Decision:
    """Return what the entry of every decision says of it."""
    return {
        "actor": proposal.proposed_by,
        "approved_by": approved_by,
        "reason": proposal.reason,
        "time": str(proposal.decided_at),
        "proposal": proposal.id,
    }


def _same(known: Proposal, asked: Proposal) -> Proposal:
    """Return what is stored of a request that is made again.

    Raises
    ------
    IdempotencyKeyReused
        If it is another one.
    """
    for name in ("scope", "population", "label", "limit", "content", "reason"):
        if getattr(known, name) != getattr(asked, name):
            raise key_reused()
    return known


def _repeat(known: Proposal, asked: Proposal) -> Proposal:
    """Return a decided proposal if the same person repeats the same decision.

    Raises
    ------
    ProposalDecided
    """
    if (known.state, known.decided_by, known.decision) == (asked.state, asked.decided_by, asked.decision):
        return known
    if known.state == EXPIRED:
        raise ProposalDecided(f"The proposal expired at {end_of(known)}: nobody had decided it by then. Ask anew.")
    raise ProposalDecided(f"The proposal was {known.state} before, at {known.decided_at}.")


def _population_exists() -> PopulationExists:
    return PopulationExists("The population exists: a budget is given once, and raised by its limit.")


def is_replacement(proposal: Proposal) -> bool:
    """Return whether a limit is to take the place of one given by mistake: another that is lower holds at once."""
    return proposal.scope == ACCOUNT and proposal.limit <= proposal.was and proposal.state != APPLIED


def _check_unused(connection: Connection, population: str) -> None:
    """Check that nothing was answered under a limit: only then nothing that was seen decides about its replacement.

    Raises
    ------
    LimitConflict
    """
    if repository.was_used(connection, population):
        raise LimitConflict(
            "The limit cannot be replaced: something was charged, held or written off under it, so that the guarantee "
            "stays that of the highest limit. It can be lowered."
        )


def _write_limit(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    account, replaces = proposal.population, is_replacement(proposal)
    units = {"was": proposal.was, "units": proposal.limit}
    head = repository.set_limit(ledger.connection, account, **units, replaces=replaces)
    if head is None:
        raise Refused
    if replaces:
        _check_unused(ledger.connection, account)
    ledger.check(head, limit=proposal.was, posted=head.posted, pending=head.pending)
    return [ledger.record(head, Limit(**decision_of(proposal, approved_by)), proposal.limit)]


def _plan(name: str, terms: PopulationTerms, moment: str) -> Population:
    return plan_population(name, terms.adjacency, terms.accountant, terms.limit.price, terms.delta, moment)


def _write_opening(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    population = _plan(
        proposal.population, PopulationTerms.model_validate_json(proposal.content), str(proposal.decided_at)
    )
    try:
        return [open_population(ledger, population, **decision_of(proposal, approved_by))]
    except PopulationError:
        raise _population_exists() from None


def _write_confirmation(ledger: Ledger, proposal: Proposal, approved_by: str) -> list[Receipt]:
    confirmation = Confirmation(**decision_of(proposal, approved_by), rows=proposal.label)
    return [ledger.note(proposal.population, confirmation)]


def _check_asked(ledger: Ledger, proposal: Proposal) -> None:
    """Hold a proposal that is approved against the register: whoever may change tables alone asks in nobody's name.

    Raises
    ------
    ProposalUnattested
    """
    acts = _list_acts(ledger.connection, ledger.trust.holds, [proposal.id])
    if not _is_said(proposal, acts[proposal.id]):
        raise ProposalUnattested(
            "The register does not say that this was proposed so, by whom it names, and waits: reject it and let it be "
            "asked for anew."
        )


def _list_acts(connection: Connection, holds: Holds, ids: Sequence[str]) -> dict[str, list[Proposed | Closed]]:
    """Return what the register says of proposals, by their ids."""
    found: dict[str, list[Proposed | Closed]] = {one: [] for one in ids}
    kinds: tuple[type[Proposed | Closed], ...] = (Proposed, *_CLOSED.values())
    for kind in kinds:
        for act in list_attested(connection, REGISTER, kind, holds, about=("proposal", found)):
            found[act.said.proposal].append(act.said)
    return found


def _list_said(connection: Connection, holds: Holds, proposal_id: str) -> list[Discussed]:
    """Return what was asked and answered about a proposal, the first first."""
    about = ("proposal", [proposal_id])
    return [one.said for one in list_attested(connection, REGISTER, Discussed, holds, about=about)]


def _is_said(proposal: Proposal, acts: Sequence[Proposed | Closed]) -> bool:
    """Return whether the register says that this was proposed so; with a second act it came to nothing."""
    try:
        return [*acts] == [state_proposed(proposal)]
    except ValueError:  # a row that was changed into what no entry says
        return False


def _check_new(connection: Connection, proposal: Proposal) -> None:
    if proposals.find_proposal(connection, proposal.id) is not None:
        raise Refused


def _close(connection: Connection, proposal: Proposal) -> None:
    if not proposals.decide_proposal(connection, proposal):
        raise Refused
