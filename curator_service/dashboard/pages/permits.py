"""Permits: all that whoever looks may see, one with what has happened to it, and asking for one or a change of one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Response

from curator_service.approvals.repository import Proposal
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.approvals.service import ApprovalService
from curator_service.dashboard.page import PageContext, add_form, list_faults, page
from curator_service.dashboard.pages.ledger import make_shown
from curator_service.dashboard.pages.parts import NOTIONS, moment_of, parts_of, read_price, state_of
from curator_service.datasets.service import DatasetService
from curator_service.entries.rules import RULES, describe_rules
from curator_service.entries.terms import PERMIT
from curator_service.identity.policy import Action, Objects, Role
from curator_service.kit.problems import Problem
from curator_service.ledger import search
from curator_service.ledger.repository import Population
from curator_service.ledger.service import LedgerService
from curator_service.permits import acts
from curator_service.permits.repository import Permit
from curator_service.permits.response_models import PermitAnswer
from curator_service.permits.service import PermitService

router = APIRouter(prefix="/admin")
PAGE = 50
EVENTS = 200
"""Of each chain, the newest."""
STATES = ("holds", "expired", "ended")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a permit: an entry of a chain, or a proposal.

    Attributes
    ----------
    time, what, said : str
    who : tuple of str
        Actors, as the entry has them.
    address : str
        Of the entry; empty for a proposal.
    """

    time: str
    what: str
    who: tuple[str, ...]
    said: str
    address: str


@router.get("/permits")
@page(Action.READ_PERMIT)
def show_permits(context: PageContext) -> Response:
    """Show permits, the newest first."""
    asked, state = context.browser.query.get("q", "").strip(), context.browser.query.get("state", "")
    of = None if context.objects is Objects.ALL else context.principal.id
    now, start = moment_of(context), context.count("start", 0)
    permits = context.get(PermitService).list_permits(of=of)
    ids = {one for permit in permits for one in permit.people} if asked else set()
    shown = {person.id: person.shown for person in context.people.find_all(ids)}
    found = [(permit, state_of(permit, now)) for permit in permits if _has(permit, asked.lower(), shown)]
    if state in STATES:
        found = [one for one in found if one[1] == state]
    return context.render(
        "permits.html",
        permits=[(PermitAnswer.of(permit), state) for permit, state in found[start : start + PAGE]],
        asked=asked,
        state=state,
        states=STATES,
        start=start,
        page_size=PAGE,
        found=len(found),
        now=now,
        own=_list_own(context),
    )


@router.get("/permits/ask")
@page(Action.ASK_PERMIT)
def show_form(context: PageContext) -> Response:
    """Show the form to ask for a permit."""
    return _show_form(context, {})


@router.get("/permits/{permit_id}")
@page(Action.READ_PERMIT)
def show_permit(context: PageContext, permit_id: str) -> Response:
    """Show one permit."""
    return _show(context, acts.get_visible(context.as_request(), permit_id))


def _describe(act: str) -> Callable[..., tuple[str, list[tuple[str, str]]]]:
    """Return a function that describes the permit of an act: an id tells nobody whose work ends."""

    def describe(context: PageContext, permit_id: str) -> tuple[str, list[tuple[str, str]]]:
        permit = acts.get_visible(context.as_request(), permit_id)
        about = {"project now": [permit.terms.project], "people now": sorted(permit.people.values())}
        about["datasets now"] = sorted(permit.datasets.values())
        return f"{act} the permit {permit.id}", [(name, ", ".join(texts)) for name, texts in about.items()]

    return describe


@router.get("/permits/{permit_id}/change")
@page(Action.ASK_PERMIT)
def show_change(context: PageContext, permit_id: str) -> Response:
    """Show the form to ask for other terms."""
    permit = acts.get_visible(context.as_request(), permit_id)
    return _show_form(context, _entered_of(permit), permit)


def _show(context: PageContext, permit: Permit, problem: Problem | None = None) -> Response:
    populations = {one.name: one for one in context.get(LedgerService).list_populations() if one.name in permit.limits}
    return context.render(
        "permit.html",
        200 if problem is None else int(problem.status),
        permit=PermitAnswer.of(permit),
        rules=describe_rules(permit.terms.rules),
        state=state_of(permit, moment_of(context)),
        now=moment_of(context),
        parts=parts_of(context, permit, populations),
        events=_list_events(context, permit, populations),
        proposals=[one for one in _list_proposals(context, permit) if one.state == "open"],
        entered=context.entered,
        faults=[] if problem is None else list_faults(problem),
    )


def _show_form(
    context: PageContext, entered: dict[str, str], permit: Permit | None = None, problem: Problem | None = None
) -> Response:
    objects = context.objects_of(Action.READ_DATASET)
    visible = [] if objects is None else context.get(DatasetService).list_visible(context.principal, objects)
    people = []
    if context.may(Action.READ_PRINCIPALS):
        found = [one.id for one in context.services.identity.list_principals() if Role.ANALYST in one.roles]
        people = context.people.find_all(found[:200])
    return context.render(
        "permit_form.html",
        200 if problem is None else int(problem.status),
        permit=permit,
        address="/admin/permits/ask" if permit is None else f"/admin/permits/{permit.id}/change",
        entered=entered,
        notions=NOTIONS,
        datasets=[dataset.name for dataset in visible if not dataset.is_retired][:200],
        people=people,
        faults=[] if problem is None else list_faults(problem),
        rules=RULES.values(),
    )


def _entered_of(permit: Permit) -> dict[str, str]:
    """Return a permit's terms as its form shows them."""
    terms, price = permit.terms, permit.terms.limit
    entered = {name: getattr(terms, name) for name in ("project", "purpose", "legal_basis", "conditions")}
    entered |= {"people": "\n".join(terms.people), "datasets": "\n".join(terms.datasets)}
    entered |= {"expires_at": (terms.expires_at or "").removesuffix("Z"), "notion": ""}
    entered |= {f"rule_{name}": text for name, text in describe_rules(terms.rules).items()}
    if price is not None:
        stated = price.model_dump()
        entered |= {name: repr(value) for name, value in stated.items()}
        notion = next(iter(stated))
        entered["notion"] = "pure" if notion == "epsilon" and "delta" not in stated else notion
    return entered


def _names(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _has(permit: Permit, asked: str, shown: Mapping[str, str]) -> bool:
    """Tell whether a text is in what a permit is called, whom it is of, by either name, or of what."""
    people = (*permit.people.values(), *(shown.get(one, "") for one in permit.people))
    told = (permit.id, permit.terms.project, *people, *permit.datasets.values())
    return any(asked in text.lower() for text in told)


def _list_own(context: PageContext) -> list[ProposalAnswer]:
    """Return the viewer's own proposals, those that wait first."""
    if not context.may(Action.READ_OWN_PROPOSALS):
        return []
    found = context.get(ApprovalService).list_proposals(of=context.principal.id)
    return [ProposalAnswer.of(proposal) for proposal in found[:PAGE]]


def _list_proposals(context: PageContext, permit: Permit) -> list[Proposal]:
    if not context.may(Action.READ_PROPOSALS):
        return []
    found = context.get(ApprovalService).list_proposals()
    return [one for one in found if one.scope == PERMIT and one.label == permit.id]


def _list_events(context: PageContext, permit: Permit, populations: dict[str, Population]) -> list[Event]:
    """Return the events of a permit that the viewer may read, the newest first."""
    events = []
    if context.may(Action.READ_LEDGER):
        said = [("kind", PERMIT), ("permit", permit.id)]
        for name, population in populations.items():
            with context.services.database.read() as connection:
                found, _ = search.list_entries_that_say(
                    connection, name, said, before=population.sequence + 1, count=EVENTS
                )
            for entry, payload in found:
                shown = make_shown(population, entry, payload)
                what = f"version {payload['version']} holds for {name}" if payload["people"] else f"ended for {name}"
                both = tuple(dict.fromkeys(one for one in (shown.actor, shown.approved_by) if one))
                address = f"/admin/populations/{name}/ledger/{entry.sequence}"
                events.append(Event(payload["time"], what, both, payload["reason"], address))
    for proposal in _list_proposals(context, permit):
        asked = "a change was asked for" if proposal.was else "it was asked for"
        events.append(Event(proposal.proposed_at, asked, (proposal.proposed_by,), proposal.reason, ""))
        if proposal.decided_at is not None and proposal.state == "rejected":
            decider = (proposal.decided_by or "",)
            events.append(Event(proposal.decided_at, "the proposal was rejected", decider, proposal.decision, ""))
    # What was granted at once was asked for before.
    return sorted(events, key=lambda event: event.time, reverse=True)


def _read_request(context: PageContext) -> dict[str, Any]:
    """Return what the form states, as the members of a body."""
    asked: dict[str, Any] = {name: context.text(name) for name in ("project", "purpose", "legal_basis", "conditions")}
    asked |= {name: _names(context.text(name)) for name in ("people", "datasets")}
    asked |= {"reason": context.text("reason"), "limit": read_price(context)}
    ends = context.text("expires_at")
    asked["expires_at"] = f"{ends if ends.count(':') != 1 else ends + ':00'}Z" if ends else None
    written = {name: context.text(f"rule_{name}") for name in RULES}
    asked["rules"] = {name: _read_rule(name, text) for name, text in written.items() if text}
    return asked


def _read_rule(name: str, text: str) -> Any:
    """Return a rule as a body has it; of a text that is none the text, which is refused with its place."""
    try:
        return RULES[name].of_text(text).root
    except ValueError:
        return text


add_form(
    router,
    "/permits/ask",
    acts.ask_permit,
    read=_read_request,
    done=lambda _: "/admin/permits?done=asked",
    again=lambda context, problem: _show_form(context, dict(context.entered), problem=problem),
)
add_form(
    router,
    "/permits/{permit_id}/change",
    acts.change_permit,
    words=_describe("Change"),
    read=_read_request,
    done=lambda answer: f"/admin/permits/{answer.label}?done={'asked' if answer.state == 'open' else 'restricted'}",
    again=lambda context, problem, permit_id: _show_form(
        context, dict(context.entered), acts.get_visible(context.as_request(), permit_id), problem
    ),
)
add_form(
    router,
    "/permits/{permit_id}/end",
    acts.end_permit,
    words=_describe("End"),
    done=lambda answer: f"/admin/permits/{answer.id}?done=ended",
    again=lambda context, problem, permit_id: _show(
        context, acts.get_visible(context.as_request(), permit_id), problem
    ),
)
