"""Proposals: what waits for a second person, with what would change, and what was decided."""

from dataclasses import dataclass, replace
from typing import Any, cast

from fastapi import APIRouter, Response

from curator_service.api.http import read_model
from curator_service.approvals import acts
from curator_service.approvals.repository import ACCOUNT, OPEN, UNATTESTED, Proposal
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.approvals.service import ApprovalService, is_replacement
from curator_service.dashboard.page import SEEN, PageContext, add_form, go_to, list_faults, page, refuse
from curator_service.dashboard.pages.ledger import list_names
from curator_service.dashboard.pages.parts import read_price
from curator_service.entries.terms import PERMIT
from curator_service.identity.policy import Action
from curator_service.kit.problems import NotFound, Problem
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AmountModel
from curator_service.ledger.service import LedgerService

router = APIRouter(prefix="/admin")
DECIDED = 50
WAITING = frozenset({OPEN, UNATTESTED})
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
    proposed_by, decided_by : str
        Names.
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
    proposed_by: str
    decided_by: str
    is_own: bool
    gains: bool
    amounts: list[tuple[str, AmountModel]]
    accountant: str
    delta: float
    changes: list[Change]


@router.get("/proposals")
@page(Action.READ_PROPOSALS)
def show_proposals(context: PageContext) -> Response:
    """Show the proposals that wait, and the last decided ones."""
    return _show(context)


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
    shown = _make(context, proposal, list_names(context), populations.get(proposal.population))
    amounts = [
        (title, ", ".join(f"{sign} {value}" for sign, name in NOTIONS if (value := getattr(amount, name)) is not None))
        for title, amount in shown.amounts
    ]
    terms = [(one.name, f"{one.before} → {one.after}" if one.before else one.after) for one in shown.changes]
    return f"Approve: {shown.title}", [
        ("proposed by", shown.proposed_by),
        ("because", proposal.reason),
        *amounts,
        *terms,
        *([("state", UNSAID)] if proposal.state == UNATTESTED else []),
    ]


@router.post("/proposals/{proposal_id}/approve")
@page(Action.SET_LIMIT, act=_describe_approval)
def approve(context: PageContext, proposal_id: str) -> Response:
    """Approve what somebody else proposed, as it was seen."""
    try:
        reason = read_model({"reason": context.text("reason")}, cast(Any, acts.approve_proposal.body)).reason
        seen, approvals = context.text(SEEN), context.get(ApprovalService)
        approvals.decide(proposal_id, context.principal, approve=True, reason=reason, seen=seen)
    except Problem as problem:
        return _show_again(context, problem)
    return go_to("/admin/proposals?done=approved")


add_form(
    router,
    "/proposals/{proposal_id}/reject",
    acts.reject_proposal,
    done=lambda _: "/admin/proposals?done=rejected",
    again=lambda context, problem, proposal_id: _show_again(context, problem),
)
add_form(
    router,
    "/proposals/{proposal_id}/withdraw",
    acts.withdraw_proposal,
    done=lambda _: "/admin/permits?done=withdrawn",
    again=lambda context, problem, proposal_id: refuse(context, problem),
)


def _show_again(context: PageContext, problem: Problem) -> Response:
    return refuse(context, problem) if isinstance(problem, NotFound) else _show(context, problem)


def _show(context: PageContext, problem: Problem | None = None) -> Response:
    proposals, names = context.get(ApprovalService).list_proposals(), list_names(context)
    waiting = [one for one in proposals if one.state in WAITING]
    decided = [one for one in proposals if one.state not in WAITING][:DECIDED]
    populations = {one.name: one for one in context.get(LedgerService).list_populations()}
    return context.render(
        "proposals.html",
        200 if problem is None else int(problem.status),
        waiting=[_make(context, one, names, populations.get(one.population)) for one in waiting],
        decided=[_make(context, one, names, populations.get(one.population)) for one in decided],
        faults=[] if problem is None else list_faults(problem),
    )


def _make(context: PageContext, proposal: Proposal, names: dict[str, str], population: Population | None) -> Shown:
    amounts = []
    if proposal.scope == ACCOUNT and population is not None:
        stated = {"from": proposal.was, "to": proposal.limit, "spent and held": population.posted + population.pending}
        amounts = [(name, AmountModel.of(population.view(units))) for name, units in stated.items()]
    shown = ProposalAnswer.of(proposal)
    terms = {} if shown.terms is None else shown.terms.model_dump(mode="json")
    return Shown(
        shown,
        proposal.digest,
        _title(proposal, terms),
        names.get(proposal.proposed_by, proposal.proposed_by),
        names.get(proposal.decided_by or "", proposal.decided_by or ""),
        proposal.proposed_by == context.principal.id,
        context.principal.name in terms.get("people", []),
        amounts,
        "" if population is None else population.accountant.name,
        0.0 if population is None else population.delta,
        _list_changes(context, proposal, terms),
    )


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
