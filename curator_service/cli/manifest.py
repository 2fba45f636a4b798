"""Commands of manifests: they need no database of the curator's, and register nothing."""

from pathlib import Path

import typer

from curator_service.cli.common import (
    AsJson,
    DatabaseName,
    DataSource,
    ManifestFile,
    QueryFile,
    choose_source,
    emit,
    out,
    reading,
    refusals,
)
from curator_service.cli.reports import NOTICE, print_report
from curator_service.datasets.checking import check_rows
from curator_service.datasets.manifest import load_manifest
from curator_service.datasets.sources.opening import open_source

app = typer.Typer(no_args_is_help=True)


@app.command("check")
def check(
    manifest: ManifestFile,
    data: DataSource = None,
    sql: QueryFile = None,
    database: DatabaseName = None,
    as_json: AsJson = False,
) -> None:
    """Read all rows against a manifest, and register nothing: every fault at once. For the operator alone.

    Exit status: 0 if the rows can be registered, warnings or not; 1 if not.
    """
    with refusals():
        declared = load_manifest(manifest)
        rows = choose_source(data, sql, database)
        source = open_source(rows, declared) if isinstance(rows, Path) else rows
        with reading((data or sql or manifest).name) as progress:
            report = check_rows(declared, source, progress)
    if as_json:
        emit({"notice": NOTICE, **report.render()}, as_json=True, table="")
    else:
        print_report(report)
        if not report.faults:
            out.print("[green]fine:[/green] `curator datasets add` would take these rows", highlight=False)
    if report.faults:
        raise typer.Exit(1)
