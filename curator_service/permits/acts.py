"""Acts of permits."""

from typing import Annotated

from pydantic import Field

from curator_service.api.acts import Acts, AtHost, Host, RetryKey
from curator_service.api.context import RequestContext
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.approvals.terms import PermitTerms
from curator_service.identity.policy import Action, Objects
from curator_service.kit.problems import NotFound, RequestInvalid
from curator_service.kit.wire import STRICT, Line, Name, Reason
from curator_service.ledger.service import LedgerService
from curator_service.permits.repository import Permit
from curator_service.permits.response_models import (
    EndedPermitAnswer,
    PermitAnswer,
    PermitsAnswer,
    SpendingAnswer,
    SpentAnswer,
)
from curator_service.permits.service import PermitError, PermitService
from curator_service.permits.spending import By, list_spent

acts = Acts("permits")
PermitId = Annotated[str, Field(description="A permit's id; `permits list` shows it.")]
Analyst = Annotated[Name, Field(description="Name of the analyst.")]
DatasetName = Annotated[Name, Field(description="Name of the dataset.")]
Why = Annotated[Reason, Field(description="Why, for the ledger.")]


class PermitRequest(PermitTerms):
    """A permit that is asked for, or a change of one."""

    model_config = STRICT

    reason: Reason


EXAMPLE = {
    "project": "kidney-2027",
    "people": ["ada", "ben"],
    "datasets": ["flchain"],
    "purpose": "Which blood values foretell kidney disease",
    "legal_basis": "Art. 53(1)(e) Regulation (EU) 2025/327",
    "limit": {"epsilon": 1.0, "delta": 1e-06},
    "expires_at": "2027-12-31T23:59:59Z",
    "reason": "the study of protocol 2027-14",
}
_MEMBERS = {"/people": "/analyst", "/datasets": "/dataset"}
"""What members of a permit's terms are called in a plain grant."""
Terms = Annotated[PermitRequest, Field(description="Its terms.")]


@acts.route(Action.READ_PERMIT, "GET /v1/permits", "permits list", host=Host.OPERATOR)
def list_permits(context: RequestContext) -> PermitsAnswer:
    """List permits, the newest first; to an analyst, those that hold and let them spend."""
    of = None if context.objects is Objects.ALL else context.principal.id
    found = context.get(PermitService).list_permits(of=of)
    return PermitsAnswer.model_construct(permits=[PermitAnswer.of(permit) for permit in found])


@acts.route(Action.READ_PERMIT, "GET /v1/permits/{permit_id}", "permits show", host=Host.OPERATOR)
def get_permit(context: RequestContext, permit_id: PermitId) -> PermitAnswer:
    """Show one permit."""
    return PermitAnswer.of(get_visible(context, permit_id))


@acts.route(
    Action.ASK_PERMIT,
    "POST /v1/permits",
    "permits ask",
    in_file=True,
    host=Host.HOLDER,
    key=RetryKey.OPTIONAL,
    status=202,
    waits="A privacy officer decides",
    example=EXAMPLE,
)
def ask_permit(context: RequestContext, terms: Terms) -> ProposalAnswer:
    """Ask for a permit, which a privacy officer grants or refuses."""
    asked = context.get(PermitService).ask(terms, terms.reason, context.principal, key=context.retry_key)
    return ProposalAnswer.of(asked)


@acts.route(
    Action.ASK_PERMIT,
    "POST /v1/permits/{permit_id}",
    "permits change",
    in_file=True,
    host=Host.HOLDER,
    key=RetryKey.OPTIONAL,
    waits="A privacy officer decides",
    example=EXAMPLE,
)
def change_permit(context: RequestContext, permit_id: PermitId, terms: Terms) -> ProposalAnswer:
    """Ask for other terms of a permit; terms that only restrict it hold at once."""
    permit, key = get_visible(context, permit_id), context.retry_key
    asked = context.get(PermitService).ask(terms, terms.reason, context.principal, permit.id, key=key)
    return ProposalAnswer.of(asked)


@acts.route(
    Action.ASK_PERMIT,
    "POST /v1/admin/permits/grant",
    "permits grant",
    host=Host.OPERATOR,
    has_page=True,
    key=RetryKey.OPTIONAL,
    status=202,
    waits="Another privacy officer decides",
    answer=ProposalAnswer,
    example={"analyst": "ada", "dataset": "flchain", "reason": "the study of protocol 2027-14"},
)
def grant_dataset(
    context: RequestContext,
    analyst: Analyst,
    dataset: DatasetName,
    reason: Annotated[Why, AtHost(None, default="")],
) -> ProposalAnswer | PermitAnswer:
    """Let one analyst use one dataset, without a project, a limit or an end.

    At the machine it is done, and the answer is the permit. From afar it is proposed, and another person decides.
    """
    if context.is_at_host:
        permits = context.get(PermitService)
        return PermitAnswer.of(permits.get_permit(permits.grant(analyst, dataset, actor=context.principal.id)))
    terms = PermitRequest(people=[analyst], datasets=[dataset], reason=reason)
    try:
        asked: ProposalAnswer = ask_permit(context, terms=terms)
    except RequestInvalid as error:
        places = error.members["errors"]
        renamed = [place | {"pointer": _MEMBERS.get(place["pointer"], place["pointer"])} for place in places]
        raise RequestInvalid(error.detail, errors=renamed) from None
    return asked


@acts.route(
    Action.END_PERMIT,
    "POST /v1/permits/{permit_id}/end",
    "permits end",
    host=Host.OPERATOR,
    consequence="A permit that was ended is not revived",
    example={"reason": "the study is over"},
)
def end_permit(
    context: RequestContext, permit_id: PermitId, reason: Annotated[Line, Field(description="Why, for the ledger.")]
) -> EndedPermitAnswer:
    """End a permit: from now on nothing is charged under it."""
    permits = context.get(PermitService)
    ended = permits.end(permit_id, reason, context.principal.id)
    return EndedPermitAnswer.of_ended(ended, permits.list_other_uses(ended))


@acts.route(
    Action.END_PERMIT,
    "POST /v1/admin/permits/revoke",
    "permits revoke",
    host=Host.OPERATOR,
    has_page=True,
    consequence="To give it again takes two people",
    example={"analyst": "ada", "dataset": "flchain", "reason": "ada has left the hospital"},
)
def revoke_dataset(
    context: RequestContext,
    analyst: Analyst,
    dataset: DatasetName,
    reason: Annotated[Why, AtHost(Why, default="taken back at the machine")],
) -> EndedPermitAnswer:
    """Take one dataset out of an analyst's plain grant; the permit ends with its last dataset."""
    permits = context.get(PermitService)
    try:
        left = permits.revoke(analyst, dataset, actor=context.principal.id, reason=reason)
    except PermitError as error:
        raise NotFound(f"Nothing was taken back: {error}.") from None
    return EndedPermitAnswer.of_ended(left, permits.list_other_uses(left, dataset))


@acts.route(Action.READ_SPENDING, "GET /v1/admin/spending", "spending")
def list_spending(
    context: RequestContext,
    by: Annotated[
        str, Field(description="Groups of charges, with commas between: analyst, project, dataset, kind, month.")
    ] = ",".join(By),
    population: Annotated[str | None, Field(description="Of one population; of all if it is left out.")] = None,
) -> SpendingAnswer:
    """Sum charges by analyst, project, dataset, kind and month, or by some of them."""
    known = by.split(",")
    if not set(known) <= set(By) or len(set(known)) != len(known):
        raise RequestInvalid.at("?by", f"name some of {', '.join(By)}, each once, with commas between them")
    if population is not None:
        context.get(LedgerService).get_population(population)
    found = list_spent(context.services.database, [By(name) for name in known], population)
    return SpendingAnswer.model_construct(spending=[SpentAnswer.of(spent) for spent in found])


def get_visible(context: RequestContext, permit_id: str) -> Permit:
    """Return a permit on which the caller may act so: an analyst's are those that let them spend.

    Raises
    ------
    NotFound
    """
    permit = context.get(PermitService).get_permit(permit_id)
    if context.objects is not Objects.ALL and context.principal.id not in permit.people:
        raise NotFound("There is no permit of this id.")
    return permit
