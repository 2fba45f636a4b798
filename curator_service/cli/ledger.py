"""Commands of populations and their ledgers."""

from typing import Annotated, Any

import typer
from rich.table import Table

from curator_service.cli.common import AsJson, actor, emit, err, escape, fail, open_curator, out, read_settings
from curator_service.container import Curator
from curator_service.kit.milestones import Milestone, note
from curator_service.ledger.repository import Population
from curator_service.ledger.response_models import AccountModel, SealAnswer
from curator_service.ledger.schemas import SPENT_NOTE
from curator_service.privacy.accountant import ACCOUNTANTS, PURE, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import UNITS_PER_ONE
from curator_service.releases import audit

populations = typer.Typer(no_args_is_help=True)
app = typer.Typer(no_args_is_help=True)

DEFAULT_VIEW_DELTA = 1e-6


@populations.command("create")
def create(
    name: Annotated[str, typer.Argument(help="A name for the people, such as 'olmsted'.")],
    adjacency: Annotated[Adjacency, typer.Option(help="Which datasets are neighbours; fixed for good.")],
    epsilon: Annotated[float | None, typer.Option(help="Budget as (epsilon, delta); alone under pure.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the budget, and of the views of the account.")] = None,
    mu: Annotated[float | None, typer.Option(help="Budget as mu of Gaussian differential privacy.")] = None,
    rho: Annotated[float | None, typer.Option(help="Budget as rho = mu²/2 of zero-concentrated DP.")] = None,
    accountant: Annotated[str, typer.Option(help="gdp, zcdp or pure; fixed for good.")] = "gdp",
    accept_large_delta: Annotated[
        bool,
        typer.Option(
            "--accept-large-delta",
            help="Accept a delta above 1e-4: with up to that probability nothing protects a person, and a row may be "
            "published as it is.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a population with its one budget."""
    if accountant not in ACCOUNTANTS:
        fail(f"the accountant must be one of {', '.join(ACCOUNTANTS)}")
    given = sum(value is not None for value in (epsilon, mu, rho))
    pure = accountant == PURE.name
    if given != 1 or (epsilon is not None and (delta is None) is not pure):
        fail("state the budget once: --epsilon with --delta (alone under pure), or --mu, or --rho")
    if not all(0 < value < float("inf") for value in (epsilon, mu, rho) if value is not None):
        fail("the budget must be a positive number")
    try:
        price = Price(epsilon, delta if epsilon is not None else None, mu, rho)
    except ValueError:
        fail("delta must be at least 1e-15 and below 1")
    with open_curator(to_write=True, creates=True) as curator:
        population = curator.ledger.create_population(
            name,
            adjacency=adjacency,
            accountant=accountant,
            limit=price,
            delta=DEFAULT_VIEW_DELTA if delta is None else delta,
            actor=actor(),
            accepts_delta=accept_large_delta,
        )
    emit(AccountModel.of(population), as_json=as_json, table=_budget_table([population]))


@populations.command("list")
def list_populations(as_json: AsJson = False) -> None:
    """Show every population with its account."""
    with open_curator() as curator:
        found = curator.ledger.list_populations()
    emit([AccountModel.of(p) for p in found], as_json=as_json, table=_budget_table(found))


@app.command("show")
def show(
    population: str,
    after: Annotated[int, typer.Option(help="Show entries after this sequence.", min=0, max=2**62)] = 0,
    limit: Annotated[int, typer.Option(help="How many entries.", min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """Show a population's entries and what remains."""
    with open_curator() as curator:
        account = curator.ledger.get_population(population)
        entries = curator.ledger.list_entries(population, after=after, count=limit)
        names = {p.id: p.name for p in curator.identity.list_principals()}
    if as_json:
        emit(dict(AccountModel.of(account)) | {"entries": entries}, as_json=True, table="")
        return
    out.print(_budget_table([account]))
    out.print(_entries_table(account, entries, names))


@app.command("register")
def register(
    after: Annotated[int, typer.Option(help="Show entries after this sequence.", min=0, max=2**62)] = 0,
    limit: Annotated[int, typer.Option(help="How many entries.", min=1, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """Show the curator's own acts: whom it knows, which tokens it issued and revoked."""
    with open_curator() as curator:
        entries = curator.register.list_entries(after=after, count=limit)
        names = {p.id: p.name for p in curator.identity.list_principals()}
    table = Table("#", "UTC", "act", "by", "of whom", "what", title="The curator's own acts")
    for entry in entries:
        what = ", ".join(entry.get("roles") or entry.get("scopes") or [])
        by, of = names.get(entry["actor"], entry["actor"]), entry.get("name") or entry.get("holder") or ""
        moment = entry["time"][2:16].replace("T", " ")
        table.add_row(str(entry["sequence"]), moment, entry["kind"], escape(by), escape(of), what)
    emit(entries, as_json=as_json, table=table)


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Say whether the curator is sealed, and why."""
    with open_curator() as curator:
        reason, since = curator.ledger.guard.status()
    shown = f"[red]sealed[/red]: {escape(reason)}" if reason else "[green]open[/green]: nothing is sealed"
    answer = SealAnswer.model_construct(sealed=bool(reason), reason=reason, since=since or None)
    emit(answer, as_json=as_json, table=shown)
    if reason:
        raise typer.Exit(1)


@app.command("begin-anchor")
def begin_anchor(as_json: AsJson = False) -> None:
    """Begin this machine's anchor: on a further host, or where it is lost and the database was not restored."""
    with open_curator() as curator:
        curator.ledger.guard.inspection.begin_anchor()
        folder = curator.ledger.guard.anchor.folder
    text = f"the anchor in {folder} begins with the ledger as it stands; what left before is not in it"
    emit({"anchor": str(folder)}, as_json=as_json, table=text)


@app.command("verify")
def verify(
    population: Annotated[str | None, typer.Argument(help="One population; all if not named.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every hash and link, the account against its entries, and stored releases against both."""
    with open_curator() as curator:
        known = [chain.name for chain in curator.ledger.list_chains()]
        results = [verify_one(curator, name) for name in (known if population is None else [population])]
        behind = curator.ledger.guard.inspection.find_contradiction()
    holds = not behind and all(result["ok"] for result in results)
    if population is None or not holds:
        note(read_settings().data_dir, Milestone.LEDGER_VERIFIED, is_well=holds)
    emit(results, as_json=as_json, table=verdict_table(results, "Ledger verification"))
    if behind:
        err.print(f"[red]error:[/red] {escape(behind)}, which the anchor holds", soft_wrap=True)
    if not holds:
        raise typer.Exit(1)


def verify_one(curator: Curator, name: str) -> dict[str, Any]:
    """Verify a chain, and what is stored against it; return the verdict as JSON."""
    chain, discrepancies = audit.verify(curator.ledger, curator.datasets, curator.kinds, name)
    sequences = [found.sequence for found in discrepancies if found.sequence is not None]
    reason = "" if chain.ok else f"sequence {chain.bad_sequence}: {chain.reason}"
    if discrepancies:
        reason = f"the chain and what is stored disagree on {', '.join(found.what for found in discrepancies[:5])}"
    return {
        "population": name,
        "entries": chain.entries,
        "ok": chain.ok and not discrepancies,
        "bad_sequence": min(sequences, default=chain.bad_sequence),
        "reason": reason,
    }


def verdict_table(results: list[dict[str, Any]], title: str) -> Table:
    """Return verdicts of `verify_one` as a table."""
    table = Table("population", "entries", "verdict", title=title)
    for result in results:
        verdict = "[green]holds[/green]" if result["ok"] else f"[red]broken[/red] at {result['reason']}"
        table.add_row(result["population"], str(result["entries"]), verdict)
    return table


def _budget_table(found: list[Population]) -> Table:
    table = Table(title="Budgets: the account's unit first, epsilon at its delta beside it")
    table.add_column("population", overflow="fold")
    for header in ("limit", "spent", "share", "limit ε", "spent ε", "fits ε", "delta"):
        table.add_column(header, justify="right", no_wrap=True)
    for p in found:
        limit, posted = p.view(p.limit), p.view(p.posted + p.pending)
        table.add_row(
            p.name,
            f"{p.limit / UNITS_PER_ONE:.5g} {p.accountant.symbol}",
            f"{(p.posted + p.pending) / UNITS_PER_ONE:.5g}",
            f"{(p.posted + p.pending) / p.limit:.1%}",
            f"{limit.epsilon:.4g}",
            f"{posted.epsilon:.4g}",
            f"{p.view_left(p.remaining).epsilon:.4g}",
            f"{p.delta:g}",
        )
    lowered = [
        f"{p.name} {p.highest_limit / UNITS_PER_ONE:.5g} {p.accountant.symbol}, ε {p.view(p.highest_limit).epsilon:.4g}"
        for p in found
        if p.highest_limit != p.limit
    ]
    table.caption = SPENT_NOTE
    if lowered:
        table.caption += f" The guarantee is that of the highest limit there ever was: {'; '.join(lowered)}"
    return table


def _entries_table(account: Population, entries: list[dict[str, Any]], names: dict[str, str]) -> Table:
    table = Table(title=f"Ledger of {account.name}: {account.adjacency}, {account.accountant.name}")
    for header in ("#", "UTC", "kind", "who"):
        table.add_column(header, no_wrap=True)
    table.add_column("what", no_wrap=True)
    for header in (account.accountant.symbol, f"ε at {account.delta:g}"):
        table.add_column(header, justify="right", no_wrap=True)
    for entry in entries:
        amount = account.view(int(entry["units"]))
        table.add_row(
            str(entry["sequence"]),
            entry["time"][2:16].replace("T", " "),
            entry["kind"],
            names.get(entry["actor"], entry["actor"]),
            entry.get("dataset", ""),
            f"{amount.units / UNITS_PER_ONE:.5g}" if amount.units else "",
            f"{amount.epsilon:.4g}" if amount.units else "",
        )
    return table
