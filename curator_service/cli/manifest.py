"""Commands of manifests: they need no database of the curator's, and register nothing."""

from pathlib import Path
from typing import Annotated

import typer

from curator_service.cli.common import (
    AsJson,
    DatabaseName,
    DataSource,
    ManifestFile,
    QueryFile,
    choose_source,
    emit,
    err,
    escape,
    fail,
    out,
    reading,
    refusals,
    write_document,
)
from curator_service.cli.reports import NOTICE, print_report
from curator_service.datasets.checking import check_rows
from curator_service.datasets.drafting import ROWS_MAX, draft_manifest
from curator_service.datasets.manifest import CsvOptions, load_manifest
from curator_service.datasets.omop.declaration import load_declaration
from curator_service.datasets.omop.draft import draft_manifest as draft_cohort
from curator_service.datasets.omop.query import MADE, make_query
from curator_service.datasets.sources.base import Source
from curator_service.datasets.sources.csv import TolerantCsv
from curator_service.datasets.sources.opening import is_csv, open_source
from curator_service.datasets.sources.sniffing import sniff

app = typer.Typer(no_args_is_help=True)


@app.command("draft")
def draft(
    data: DataSource = None,
    sql: QueryFile = None,
    database: DatabaseName = None,
    name: Annotated[str | None, typer.Option(help="Of the dataset; else the file's.")] = None,
    population: Annotated[str | None, typer.Option(help="Whose budget protects these people.")] = None,
    row_capacity: Annotated[
        int | None, typer.Option(min=1, help="Public bound on the number of rows: a round number, from knowledge.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="A new file; else standard output.")] = None,
    all_rows: Annotated[
        bool, typer.Option("--all", help=f"Look at all rows, not at {ROWS_MAX:,} and blocks of those behind.")
    ] = False,
    header: Annotated[
        str | None, typer.Option(help="Of a file without one: the names of its columns, with commas between them.")
    ] = None,
) -> None:
    """Propose a manifest for a person to complete: names, types, units; bounds, levels and the person stay empty.

    Of the rows it shows words that at least five persons have. What the error stream says is for the operator alone:
    it counts rows. Nothing leaves this machine.
    """
    if to is not None and to.exists():
        fail(f"{to} exists; a draft never replaces what somebody completed")
    told: list[str] = []
    with refusals():
        rows = choose_source(data, sql, database)
        label = (data or sql or Path("dataset")).name
        source, options = _open_to_draft(rows, header)
        with reading(label) as progress:
            text = draft_manifest(
                source,
                options,
                name=name or label.split(".")[0],
                population=population,
                row_capacity=row_capacity,
                rows_max=None if all_rows else ROWS_MAX,
                tell=told.append,
                progress=progress,
            )
        source.close()
    err.print(NOTICE, style="bold", soft_wrap=True)
    for line in told:
        err.print(escape(line), highlight=False, soft_wrap=True)
    if to is None:
        write_document(text)
        return
    to.write_text(text, encoding="utf-8")
    err.print(
        f"wrote {to}: {_count_empty(text)} lines to fill in, {text.count('check:')} to look at",
        highlight=False,
    )


def _open_to_draft(rows: Path | Source, header: str | None) -> tuple[Source, CsvOptions | None]:
    """Return a source, and how it seems to be written where it is CSV."""
    if isinstance(rows, Path) and is_csv(rows):
        names = None if header is None else [name.strip() for name in header.split(",")]
        if names is not None and (not all(names) or len(set(names)) < len(names)):
            raise typer.BadParameter("names of columns differ, and none is empty", param_hint="--header")
        options = sniff(rows, names)
        return TolerantCsv(rows, options), options
    if header is not None:
        raise typer.BadParameter("a file of Parquet or a query names its columns itself", param_hint="--header")
    return open_source(rows, CsvOptions()) if isinstance(rows, Path) else rows, None


@app.command("omop")
def draft_omop(
    declaration: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)],
    to: Annotated[
        Path | None, typer.Option("--out", exists=True, file_okay=False, help="A folder; else that of DECLARATION.")
    ] = None,
) -> None:
    """Write a manifest to complete, and its query, for a declared cohort of an OMOP CDM. Neither asks a database.

    They are called as the dataset is: NAME.toml and NAME.sql. The query takes the place of an earlier one, the manifest
    does not.
    """
    with refusals():
        declared = load_declaration(declaration)
    folder = to or declaration.parent
    manifest, query = (folder / f"{declared.name}{ending}" for ending in (".toml", ".sql"))
    if manifest.exists() and manifest.samefile(declaration):
        fail(f"{declaration} is where the manifest goes; call it otherwise, such as {declared.name}.omop.toml")
    if query.exists() and not query.read_bytes().startswith(MADE.encode()):
        fail(f"{query} exists, and was not made by this command; it is not replaced")
    query.write_text(make_query(declared), encoding="utf-8")
    if manifest.exists():
        err.print(f"wrote {query}; {manifest} is there, and stays as it is", highlight=False)
        return
    text = draft_cohort(declared)
    manifest.write_text(text, encoding="utf-8")
    err.print(f"wrote {query} and {manifest}: {_count_empty(text)} lines to fill in", highlight=False)


def _count_empty(text: str) -> int:
    return sum(text.count(f"\n# {name} =") for name in ("lower", "upper", "levels", "subject"))


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
        source = open_source(rows, declared.csv_options) if isinstance(rows, Path) else rows
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
