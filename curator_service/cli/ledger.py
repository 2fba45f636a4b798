"""The command that verifies ledgers, beside the acts of the ledger."""

from typing import Annotated, Any

import typer
from rich.table import Table

from curator_service.cli.acts import make_group
from curator_service.cli.common import AsJson, emit, err, escape, open_curator, read_settings
from curator_service.container import Curator
from curator_service.kit.milestones import Milestone, note
from curator_service.releases import audit

app = make_group("ledger")


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
