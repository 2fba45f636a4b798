"""Commands of one person: what is held of somebody who asks."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from curator_service.cli.catalogue import render_json, write
from curator_service.cli.common import AsJson, emit, err, fail, open_curator
from curator_service.container import Curator
from curator_service.datasets.exports.processing import describe_guarantee
from curator_service.datasets.parts import RowsUnreadable
from curator_service.datasets.subjects import Presence, find_person, tells_persons_apart

app = typer.Typer(no_args_is_help=True)


@app.command("find")
def find(as_json: AsJson = False) -> None:
    """Tell which datasets hold rows of a person; the identifier is asked for, or read from standard input."""
    identifier = _ask()
    with open_curator() as curator:
        held = _find(curator, identifier)
        populations = {population.name: population for population in curator.ledger.list_populations()}
    shown = [
        {
            "dataset": presence.dataset.name,
            "population": presence.dataset.population,
            "since": presence.dataset.created_at,
            "rows": len(presence.counted),
            "rows_that_count": int(presence.counted.sum()),
            "guarantee": describe_guarantee(populations[presence.dataset.population]),
        }
        for presence in held
    ]
    table = Table("dataset", "population", "since", "rows", "that count", title="Rows of this person")
    for row in shown:
        table.add_row(*(str(row[name]) for name in ("dataset", "population", "since", "rows", "rows_that_count")))
    emit(shown, as_json=as_json, table=table if shown else "no row of this person is stored")
    if not as_json:
        for name, guarantee in {row["population"]: row["guarantee"] for row in shown}.items():
            typer.echo(f"\n{name}: {guarantee}")


@app.command("export")
def export(
    out: Annotated[Path | None, typer.Option("--out", dir_okay=False, help="Write a file instead.")] = None,
) -> None:
    """Write the rows of a person as JSON, in the manifests' units: what was beyond a bound is stored as it."""
    identifier = _ask()
    with open_curator() as curator:
        held = _find(curator, identifier)
    write(render_json({presence.dataset.name: _rows(presence) for presence in held}), out)


def _rows(presence: Presence) -> list[dict[str, Any]]:
    columns = presence.values
    return [
        {"counts": bool(counts), "values": {name: values[i] for name, values in columns.items()}}
        for i, counts in enumerate(presence.counted)
    ]


def _ask() -> str:
    """Read an identifier: on a command line it would stay in the shell's history, and in the list of processes."""
    if sys.stdin.isatty():
        identifier: str = typer.prompt("identifier of the person", hide_input=True, err=True)
    else:
        identifier = sys.stdin.readline().rstrip("\r\n")
    if not identifier.strip():
        fail("no identifier was given; it is read from standard input, as the source of the rows writes it")
    return identifier


def _find(curator: Curator, identifier: str) -> list[Presence]:
    datasets, storage = curator.datasets.list_all(), curator.datasets.storage
    try:
        unknown = [dataset.name for dataset in datasets if not tells_persons_apart(storage, dataset)]
        held = list(find_person(storage, curator.keys, datasets, identifier))
    except RowsUnreadable:
        fail("the stored rows of a dataset cannot be read; `curator ledger verify` says of which")
    if unknown:
        names = ", ".join(unknown)
        err.print(f"not searched, for nobody kept whose their rows are: {names}", highlight=False, soft_wrap=True)
    return held
