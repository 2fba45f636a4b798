"""Commands of limits. Each acts as the admin whose token it is given: raising one takes two of them."""

from typing import Annotated

import typer
from rich.table import Table

from curator_service.approvals.repository import ROWS, Proposal
from curator_service.approvals.schemas import render_proposal
from curator_service.cli.common import AsJson, authenticate_admin, emit, escape, fail, open_curator
from curator_service.privacy.accountant import Price
from curator_service.privacy.conversions import UNITS_PER_ONE

app = typer.Typer(no_args_is_help=True)
Token = Annotated[
    str, typer.Option(envvar="CURATOR_TOKEN", prompt="Admin's token", hide_input=True, help="Token of an admin.")
]


@app.command("set")
def set_limit(
    population: str,
    reason: Annotated[str, typer.Option(help="Why, for the ledger.")],
    token: Token,
    epsilon: Annotated[float | None, typer.Option(help="Limit as (epsilon, delta); alone under pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the limit.")] = None,
    mu: Annotated[float | None, typer.Option(help="Limit as mu.")] = None,
    rho: Annotated[float | None, typer.Option(help="Limit as rho.")] = None,
    analyst: Annotated[str | None, typer.Option(help="The limit of this analyst, within the population's.")] = None,
    project: Annotated[str | None, typer.Option(help="The limit of this project, within the population's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Lower a limit at once, or propose to raise it."""
    if analyst is not None and project is not None:
        fail("name an analyst or a project, not both")
    try:
        price = Price(epsilon, delta, mu, rho)
    except ValueError as error:
        fail(f"the limit is not valid: {error}")
    scope = "analyst" if analyst is not None else "project" if project is not None else ""
    with open_curator(to_write=True) as curator:
        admin = authenticate_admin(curator, token)
        proposal = curator.limits.propose(population, scope, analyst or project or "", price, reason, admin)
    _show([proposal], as_json=as_json)


@app.command("list")
def list_proposals(as_json: AsJson = False) -> None:
    """Show proposals, the newest first."""
    with open_curator() as curator:
        _show(curator.limits.list_proposals(), as_json=as_json)


@app.command("approve")
def approve(proposal: str, token: Token, as_json: AsJson = False) -> None:
    """Approve what another admin proposed: a higher limit, or rows that are like another population's."""
    with open_curator(to_write=True) as curator:
        decided = curator.limits.decide(proposal, authenticate_admin(curator, token), approve=True)
    _show([decided], as_json=as_json)


@app.command("reject")
def reject(proposal: str, token: Token, as_json: AsJson = False) -> None:
    """Reject a proposal, or take it back."""
    with open_curator() as curator:
        decided = curator.limits.decide(proposal, authenticate_admin(curator, token), approve=False)
    _show([decided], as_json=as_json)


def _show(proposals: list[Proposal], *, as_json: bool) -> None:
    table = Table("id", "population", "of", "limit", "was", "state", "reason", title="Limits")
    for p in proposals:
        was = "none" if p.was < 0 else f"{p.was / UNITS_PER_ONE:.6g}"
        whose = f"{p.scope} {p.label}" if p.scope else "everybody"
        limit = f"{p.limit / UNITS_PER_ONE:.6g}"
        if p.scope == ROWS:
            whose, limit, was = "rows of other people", "", ""
        table.add_row(p.id, p.population, whose, limit, was, p.state, escape(p.reason))
    emit([render_proposal(p) for p in proposals], as_json=as_json, table=table)
