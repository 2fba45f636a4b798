"""Commands of limits and proposals. Each acts as the privacy officer whose token it is given: a raise takes two."""

from typing import Annotated, Any

import typer
from rich.table import Table

from curator_service.approvals.repository import ACCOUNT, ROWS, Proposal
from curator_service.approvals.response_models import ProposalAnswer
from curator_service.cli.common import AsJson, authenticate_admin, emit, escape, fail, open_curator
from curator_service.identity.policy import Action, Role
from curator_service.identity.repository import Principal
from curator_service.privacy.accountant import Price
from curator_service.privacy.conversions import UNITS_PER_ONE

limits = typer.Typer(no_args_is_help=True)
proposals = typer.Typer(no_args_is_help=True)
Token = Annotated[
    str,
    typer.Option(
        envvar="CURATOR_TOKEN", prompt="Privacy officer's token", hide_input=True, help="Token of a privacy officer."
    ),
]
OPERATOR = Principal("", "", frozenset({Role.OPERATOR}))
"""Who reads at the machine: every permit."""
Why = Annotated[str, typer.Option(help="Why, for whoever proposed it.")]


@limits.command("set")
def set_limit(
    population: str,
    reason: Annotated[str, typer.Option(help="Why, for the ledger.")],
    token: Token,
    epsilon: Annotated[float | None, typer.Option(help="Limit as (epsilon, delta); alone under pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the limit.")] = None,
    mu: Annotated[float | None, typer.Option(help="Limit as mu.")] = None,
    rho: Annotated[float | None, typer.Option(help="Limit as rho.")] = None,
    replaces: Annotated[
        bool, typer.Option("--replaces", help="Propose it in the place of a limit given by mistake and never used.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Lower a limit at once, or propose to raise it, or to replace it."""
    try:
        price = Price(epsilon, delta, mu, rho)
    except ValueError as error:
        fail(f"the limit is not valid: {error}")
    with open_curator(to_write=True) as curator:
        officer = authenticate_admin(curator, token)
        proposal = curator.approvals.propose_limit(population, price, reason, officer, replaces=replaces)
    _show([proposal], as_json=as_json)


@proposals.command("list")
def list_proposals(as_json: AsJson = False) -> None:
    """Show proposals, the newest first."""
    with open_curator() as curator:
        _show(curator.approvals.list_proposals(), as_json=as_json)


@proposals.command("show")
def show_proposal(proposal: str, as_json: AsJson = False) -> None:
    """Show a proposal, the terms in force now and the proposed terms."""
    with open_curator() as curator:
        found = curator.approvals.get_proposal(proposal)
        detail = curator.approvals.describe(found, OPERATOR).model_dump(mode="json", by_alias=True)
    table = Table("", "now", "asked", title=f"Proposal {proposal}")
    now = detail.get("before", {})
    rows: dict[str, tuple[Any, Any]] = {name: (now.get(name), value) for name, value in detail.get("terms", {}).items()}
    rows |= {name: (value, None) for name, value in now.items() if name not in rows}
    if "amounts" in detail:
        rows = {"limit": (_amount(detail["amounts"]["from"]), _amount(detail["amounts"]["to"]))}
        rows |= {"spent and held": (_amount(detail["amounts"]["spent_and_held"]), None)}
    said = ("state", "population", "label", "reason", "proposer", "proposed_at", "decider", "decided_at", "decision")
    for name in said:
        table.add_row(name.replace("_", " "), "", escape(_write(detail.get(name))))
    for name, (before, after) in rows.items():
        table.add_row(name.replace("_", " "), escape(_write(before)), escape(_write(after)))
    emit(detail, as_json=as_json, table=table)


@proposals.command("withdraw")
def withdraw(
    proposal: str,
    token: Annotated[str, typer.Option(envvar="CURATOR_TOKEN", prompt="Token", hide_input=True, help="Who asked.")],
    reason: Annotated[str, typer.Option(help="Why, for the register.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take a proposal of one's own back."""
    with open_curator(to_write=True) as curator:
        by = curator.identity.authenticate(f"Bearer {token}")
        curator.identity.authorize(by, Action.WITHDRAW)
        withdrawn = curator.approvals.withdraw(proposal, by, reason)
    _show([withdrawn], as_json=as_json)


@proposals.command("approve")
def approve(proposal: str, token: Token, reason: Why = "", as_json: AsJson = False) -> None:
    """Approve what somebody else proposed: a permit, a higher limit, or rows that are like another population's."""
    with open_curator(to_write=True) as curator:
        officer = authenticate_admin(curator, token)
        decided = curator.approvals.decide(proposal, officer, approve=True, reason=reason)
    _show([decided], as_json=as_json)


@proposals.command("reject")
def reject(proposal: str, token: Token, reason: Why = "", as_json: AsJson = False) -> None:
    """Reject a proposal, or take it back."""
    with open_curator(to_write=True) as curator:
        officer = authenticate_admin(curator, token)
        decided = curator.approvals.decide(proposal, officer, approve=False, reason=reason)
    _show([decided], as_json=as_json)


def _amount(amount: dict[str, Any]) -> str:
    return f"{amount['units']} units, ε {amount['epsilon']} at δ {amount['delta']:g}"


def _write(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} = {number!r}" for name, number in value.items() if number is not None)
    return "" if value is None else str(value)


def _show(found: list[Proposal], *, as_json: bool) -> None:
    table = Table("id", "population", "what", "limit", "was", "state", "reason", title="Proposals")
    for p in found:
        limit, was = f"{p.limit / UNITS_PER_ONE:.6g}", "none" if p.was < 0 else f"{p.was / UNITS_PER_ONE:.6g}"
        what = {ACCOUNT: "the limit", ROWS: "rows of other people"}.get(p.scope, f"{p.scope} {p.label}")
        if p.scope not in {ACCOUNT, "analyst", "project"}:
            limit, was = "", ""
        table.add_row(p.id, p.population, what, limit, was, p.state, escape(p.reason))
    emit([ProposalAnswer.of(p) for p in found], as_json=as_json, table=table)
