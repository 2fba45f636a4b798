"""Proposals: what waits for a second person, with what would change, and what was decided."""

from dataclasses import dataclass, replace
from typing import Any, cast

from fastapi import APIRouter, Response
from pydantic import BaseModel

from curator_service.api.http import read_model
from curator_service.approvals import acts
from curator_service.approvals.problems import ProposalDecided
from curator_service.approvals.repository import ACCOUNT, OPEN, OPENING, ROWS, UNATTESTED, Proposal
from curator_service.approvals.response_models import ProposalAnswer, ProposalDetailAnswer
from curator_service.approvals.service import ApprovalService, is_replacement
from curator_service.approvals.terms import PermitTerms
from curator_service.dashboard.page import SEEN, PageContext, add_form, go_to, list_faults, page, refuse
from curator_service.dashboard.pages.parts import read_price
from curator_service.dashboard.pages.stakes import describe_consequence, list_held, list_stakes
from curator_service.entries.terms import PERMIT
from curator_service.identity.people import Look
from curator_service.identity.policy import Action
from curator_service.kit.problems import NotFound, Problem, RequestInvalid
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/admin")
PAGE = 20
WAITING = frozenset({OPEN, UNATTESTED})
WAITS, EVERY = "waits", "every state"
STATES = (WAITS, "approved", "rejected", "applied", "superseded", "withdrawn", "expired", EVERY)
SCOPES = {"permits": PERMIT, "limits": ACCOUNT, "new budgets": OPENING, "rows of other people": ROWS}
"""What proposals are about, in words."""
UNSAID = "the register does not say that this was asked so: refuse it"
NOTIONS = (("ε", "epsilon"), ("µ", "mu"), ("ρ", "rho"))
TERMS = ("project", "people", "datasets", "purpose", "legal_basis", "conditions", "limit", "expires_at", "rules")


@dataclass(frozen=True, slots=True)
class Change:
    """One term of a permit: as it is, and as it would be."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A proposal as it is shown.

    Attributes
    ----------
    proposal : ProposalAnswer
    digest : str
        What its form says that was seen.
    title : str
    is_own : bool
        Whether whoever looks made it, and so cannot approve it.
    gains : bool
        Whether it would let whoever looks spend.
    amounts : list of (str, AmountModel)
        Limits.
    delta : float
    changes : list of Change
    """

    proposal: ProposalAnswer
    digest: str
    title: str
    is_own: bool
    gains: bool
    amounts: list[tuple[str, AmountModel]]
    accountant: str
    delta: float
    changes: list[Change]


@router.get("/proposals")
@page(Action.READ_PROPOSALS)
def show_proposals(context: PageContext) -> Response:
    """Show the proposals that wait, or those of another state, by what they are about and who asked."""
    query = context.browser.query
    asked = {name: query.get(name, "").strip() for name in ("q", "state", "about")}
    state = asked["state"] if asked["state"] in STATES else WAITS
    found = [
        (proposal, title)
        for proposal in context.get(ApprovalService).list_proposals()
        if (state == EVERY or (proposal.state in WAITING if state == WAITS else proposal.state == state))
        and (not asked["about"] or proposal.scope == SCOPES.get(asked["about"]))
        and _matches(asked["q"].lower(), title := _title(proposal, _terms(proposal)), proposal, context.people)
    ]
    start = context.count("start", 0)
    return context.render(
        "proposals.html",
        listed=found[start : start + PAGE],
        asked=asked | {"state": state},
        states=STATES,
        scopes=list(SCOPES),
        start=start,
        page_size=PAGE,
        found=len(found),
    )


def _matches(text: str, title: str, proposal: Proposal, people: Look) -> bool:
    said = (
        title,
        proposal.population,
        proposal.id,
        people.find(proposal.proposed_by).label,
        *_terms(proposal).get("people", []),
    )
    return not text or any(text in one.lower() for one in said)


@router.get("/proposals/population")
@page(Action.SET_LIMIT)
def show_population_form(context: PageContext) -> Response:
    """Show the form to propose a budget for people."""
    return context.render("population_form.html", entered={}, faults=[])


def _read_population(context: PageContext) -> dict[str, Any]:
    asked = {name: context.text(name) for name in ("name", "reason", "adjacency", "accountant")}
    return asked | {"limit": read_price(context)}


add_form(
    router,
    "/proposals/population",
    acts.propose_population,
    words="Propose a budget",
    read=_read_population,
    done=lambda _: "/admin/proposals?done=asked",
    again=lambda context, problem: context.render(
        "population_form.html", int(problem.status), entered=context.entered, faults=list_faults(problem)
    ),
)


def _describe_approval(context: PageContext, proposal_id: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what an approval does: whoever signs in again in between sees what the last click is good for."""
    approvals = context.get(ApprovalService)
    found = approvals.get_proposal(proposal_id, seen=context.text(SEEN))
    proposal = replace(found, state=approvals.describe(found, context.principal).state)
    populations = {one.name: one for one in context.get(LedgerService).list_populations()}
    shown = _make(context, proposal, populations.get(proposal.population))
    amounts = [
        (title, ", ".join(f"{sign} {value}" for sign, name in NOTIONS if (value := getattr(amount, name)) is not None))
        for title, amount in shown.amounts
    ]
    terms = [(one.name, f"{one.before} → {one.after}" if one.before else one.after) for one in shown.changes]
    return f"Approve: {shown.title}", [
        ("proposed by", context.people.find(proposal.proposed_by).name),
        ("because", proposal.reason),
        *amounts,
        *terms,
        *([("state", UNSAID)] if proposal.state == UNATTESTED else []),
    ]


@router.get("/proposals/{proposal_id}")
@page(Action.READ_PROPOSALS)
def show_proposal(context: PageContext, proposal_id: str) -> Response:
    """Show one proposal: what would change, what it takes and would tell, and what was said about it."""
    return _show(context, proposal_id)


@router.get("/asked/{proposal_id}")
@page(Action.READ_OWN_PROPOSALS)
def show_own_proposal(context: PageContext, proposal_id: str) -> Response:
    """Show a proposal of one's own, and what was asked and answered about it."""
    return _show_own(context, proposal_id)


@router.post("/proposals/{proposal_id}/confirm")
@page(Action.SET_LIMIT)
def confirm(context: PageContext, proposal_id: str) -> Response:
    """Say what follows from a decision, before it is taken."""
    outcome = "approve" if context.text("outcome") == "approve" else "reject"
    try:
        proposal = context.get(ApprovalService).get_proposal(proposal_id, seen=context.text(SEEN))
        if proposal.state != OPEN:
            raise ProposalDecided("It was decided in the meantime. Your decision was not taken.")
        _read_reason(context)
    except Problem as problem:
        return _show_again(context, problem, proposal_id)
    is_own = proposal.proposed_by == context.principal.id
    return context.render(
        "decide.html",
        proposal=proposal,
        title=_title(proposal, _terms(proposal)),
        outcome=outcome,
        is_own=is_own,
        consequences=describe_consequence(
            proposal,
            list_stakes(context, proposal, ProposalAnswer.of(proposal).terms or None),
            "withdraw" if is_own else outcome,
        ),
    )


@router.post("/proposals/{proposal_id}/approve")
@page(Action.SET_LIMIT, act=_describe_approval)
def approve(context: PageContext, proposal_id: str) -> Response:
    """Approve what somebody else proposed, as it was seen."""
    return _decide(context, proposal_id, approve=True)


@router.post("/proposals/{proposal_id}/reject")
@page(Action.SET_LIMIT)
def reject(context: PageContext, proposal_id: str) -> Response:
    """Refuse what somebody else proposed, or take one's own back, as it was seen."""
    return _decide(context, proposal_id, approve=False)


def _decide(context: PageContext, proposal_id: str, *, approve: bool) -> Response:
    act = acts.approve_proposal if approve else acts.reject_proposal
    try:
        reason = read_model({"reason": _read_reason(context)}, cast(Any, act.body)).reason
        seen, approvals = context.text(SEEN), context.get(ApprovalService)
        approvals.decide(proposal_id, context.principal, approve=approve, reason=reason, seen=seen)
    except Problem as problem:
        return _show_again(context, problem, proposal_id)
    return go_to(f"/admin/proposals/{proposal_id}?done={'approved' if approve else 'rejected'}")


def _read_reason(context: PageContext) -> str:
    """Return the reason that a form states.

    Raises
    ------
    RequestInvalid
    """
    reason = context.text("reason")
    if not reason:
        raise RequestInvalid.at("/reason", "state why: whoever asked reads it")
    return reason


def _show_again(context: PageContext, problem: Problem, proposal_id: str) -> Response:
    return refuse(context, problem) if isinstance(problem, NotFound) else _show(context, proposal_id, problem)


def _show_own_again(context: PageContext, problem: Problem, proposal_id: str) -> Response:
    return refuse(context, problem) if isinstance(problem, NotFound) else _show_own(context, proposal_id, problem)


add_form(
    router,
    "/proposals/{proposal_id}/messages",
    acts.ask_about_proposal,
    done=lambda answer: f"/admin/proposals/{answer.id}?done=said",
    again=_show_again,
)
add_form(
    router,
    "/asked/{proposal_id}/messages",
    acts.answer_about_proposal,
    done=lambda answer: f"/admin/asked/{answer.id}?done=said",
    again=_show_own_again,
)
add_form(
    router,
    "/proposals/{proposal_id}/withdraw",
    acts.withdraw_proposal,
    done=lambda _: "/admin/permits?done=withdrawn",
    again=lambda context, problem, proposal_id: refuse(context, problem),
)


def _show(context: PageContext, proposal_id: str, problem: Problem | None = None) -> Response:
    approvals = context.get(ApprovalService)
    proposal = approvals.get_proposal(proposal_id)
    detail, terms = approvals.describe(proposal, context.principal), ProposalAnswer.of(proposal).terms or None
    waits = detail.state == OPEN
    return _render(
        context,
        proposal,
        detail,
        problem,
        is_asked_as_own=False,
        stakes=list_stakes(context, proposal, terms) if waits else [],
        held=list_held(context, proposal, terms) if waits and isinstance(terms, PermitTerms) else None,
    )


def _show_own(context: PageContext, proposal_id: str, problem: Problem | None = None) -> Response:
    approvals = context.get(ApprovalService)
    proposal = approvals.get_proposal(proposal_id, of=context.principal.id)
    detail = approvals.describe(proposal, context.principal)
    return _render(context, proposal, detail, problem, is_asked_as_own=True, stakes=[], held=None)


def _render(
    context: PageContext, proposal: Proposal, detail: ProposalDetailAnswer, problem: Problem | None, **shown: Any
) -> Response:
    populations = {one.name: one for one in context.get(LedgerService).list_populations()}
    decided = replace(proposal, state=detail.state)
    return context.render(
        "proposal.html",
        200 if problem is None else int(problem.status),
        shown=_make(context, decided, populations.get(proposal.population)),
        detail=detail,
        entered=context.entered,
        faults=[] if problem is None else list_faults(problem),
        **shown,
    )


def _make(context: PageContext, proposal: Proposal, population: Population | None) -> Shown:
    amounts = []
    if proposal.scope == ACCOUNT and population is not None and context.may(Action.READ_POPULATIONS):
        stated = {"from": proposal.was, "to": proposal.limit, "spent and held": population.posted + population.pending}
        amounts = [(name, AmountModel.of(population.view(units))) for name, units in stated.items()]
    terms = _terms(proposal)
    return Shown(
        ProposalAnswer.of(proposal),
        proposal.digest,
        _title(proposal, terms),
        proposal.proposed_by == context.principal.id,
        context.principal.name in terms.get("people", []),
        amounts,
        "" if population is None else population.accountant.name,
        0.0 if population is None else population.delta,
        _list_changes(context, proposal, terms),
    )


def _terms(proposal: Proposal) -> dict[str, Any]:
    """Return the terms of a proposal as they are shown; none where the row was changed beyond reading."""
    terms = ProposalAnswer.of(proposal).terms
    return terms.model_dump(mode="json") if isinstance(terms, BaseModel) else {}


def _title(proposal: Proposal, terms: dict[str, Any]) -> str:
    match proposal.scope:
        case "":
            what = "Raise" if proposal.limit > proposal.was else "Replace" if is_replacement(proposal) else "Lower"
            return f"{what} the limit of {proposal.population}"
        case "permit":
            what = f"of the project {terms['project']}" if terms.get("project") else "without a project"
            return f"{'Change' if proposal.was else 'Grant'} a permit {what}"
        case "population":
            return f"Give the population {proposal.population} a budget"
        case _:
            return f"Rows of {proposal.population} are of other people"


def _list_changes(context: PageContext, proposal: Proposal, terms: dict[str, Any]) -> list[Change]:
    """Return every term that is asked; where a permit is to change, with what it is now."""
    if proposal.scope != PERMIT:
        return [Change(name, "", _write(value)) for name, value in terms.items()]
    before = context.get(ApprovalService).find_terms_before(proposal, context.principal)
    now = {} if before is None else before.model_dump(mode="json")
    changes = [Change(name, _write(now.get(name)), _write(terms.get(name))) for name in TERMS]
    return [one for one in changes if one.before or one.after]


def _write(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_write_member(one)}" for name, one in value.items() if one is not None)
    return "" if value is None else str(value)


def _write_member(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else repr(value)
