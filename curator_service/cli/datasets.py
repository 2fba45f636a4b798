"""Commands of datasets."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from curator_service.cli.common import (
    AsJson,
    DatabaseName,
    DataSource,
    ManifestFile,
    QueryFile,
    Yes,
    actor,
    authenticate_admin,
    check_machine,
    choose_source,
    confirm,
    emit,
    err,
    escape,
    fail,
    open_curator,
    out,
    reading,
)
from curator_service.cli.reports import NOTICE, print_report
from curator_service.container import Curator
from curator_service.datasets.hygiene import Below, Hygiene, HygieneError, QuasiIdentifier, check_columns, measure
from curator_service.datasets.parts import RowsUnreadable
from curator_service.datasets.repository import APPEND, REPLACE, WITHDRAW, WITHDRAWN, Dataset
from curator_service.datasets.response_models import DatasetAnswer
from curator_service.datasets.service import REASON_MAX, OtherPeople
from curator_service.datasets.sources.base import IngestError, Source
from curator_service.datasets.versions import Waiting

app = typer.Typer(no_args_is_help=True)
OtherPeopleReason = Annotated[
    str | None,
    typer.Option(
        metavar="REASON", help="Propose to register rows like another population's: why they are other people."
    ),
]
AdminToken = Annotated[
    str | None, typer.Option(envvar="CURATOR_TOKEN", help="Token of an admin, beside --other-people.")
]
HYGIENE_NOTICE = (
    "For the operator alone. This describes the stored rows, exactly and without noise. It says nothing about "
    "releases, which the budget protects, and none of it may be passed to an analyst."
)


@app.command("add")
def add(
    manifest: ManifestFile,
    data: DataSource = None,
    sql: QueryFile = None,
    database: DatabaseName = None,
    other_people: OtherPeopleReason = None,
    token: AdminToken = None,
    as_json: AsJson = False,
) -> None:
    """Validate, ingest and register a dataset: all of it or nothing.

    The rows are a CSV file, written as MANIFEST declares, a Parquet file, a folder of these, or a query's result.
    """
    rows = choose_source(data, sql, database)
    check_machine()
    with open_curator(to_write=True) as curator:
        said = _read_other_people(curator, other_people, token)
        try:
            with reading((data or sql or manifest).name) as progress:
                dataset = curator.datasets.register(manifest, rows, actor=actor(), other_people=said, progress=progress)
        except IngestError as error:
            fail(f"{error}\nthis is the first fault; `curator manifest check` names all of them")
        shown, report = _state(curator, dataset), curator.datasets.report(dataset)
        if as_json:
            emit({"id": dataset.id, **shown.model_dump(mode="json"), "report": report.render()}, as_json=True, table="")
            return
        print_report(report)
        count = len(dataset.manifest.columns)
        text = f"[green]registered[/green] {dataset.name}: {count} columns, population {dataset.population}"
        out.print(text, soft_wrap=True)
        _tell_same_people(curator, dataset, dataset.version)


@app.command("append")
def append(
    name: str,
    data: DataSource = None,
    sql: QueryFile = None,
    database: DatabaseName = None,
    other_people: OtherPeopleReason = None,
    token: AdminToken = None,
    as_json: AsJson = False,
) -> None:
    """Add rows to a dataset, under its manifest, from its next cut on."""
    _add_rows(APPEND, name, choose_source(data, sql, database), other_people, token, as_json=as_json)


@app.command("replace")
def replace(
    name: str,
    data: DataSource = None,
    sql: QueryFile = None,
    database: DatabaseName = None,
    other_people: OtherPeopleReason = None,
    token: AdminToken = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Put other rows in the place of all rows of a dataset, under its manifest, from its next cut on."""
    rows = choose_source(data, sql, database)
    confirm(f"overwrite all rows of {name} at the next cut, and put these in their place?", yes=yes)
    _add_rows(REPLACE, name, rows, other_people, token, as_json=as_json)


def _add_rows(
    act: str, name: str, rows: Path | Source, other_people: str | None, token: str | None, *, as_json: bool
) -> None:
    check_machine()
    with open_curator(to_write=True) as curator:
        said, versions = _read_other_people(curator, other_people, token), curator.versions
        with reading(name) as progress:
            waiting = versions.add_rows(name, rows, act=act, actor=actor(), other_people=said, progress=progress)
        emit_waiting([waiting], as_json=as_json)
        if not as_json:
            _tell_same_people(curator, waiting.dataset, -waiting.change.number)


def _tell_same_people(curator: Curator, dataset: Dataset, version: int) -> None:
    """Say on a terminal, and nowhere else, when people seem to be in another population too: all else is done."""
    if sys.stderr.isatty() and (other := curator.datasets.find_same_people(dataset, version)):
        text = (
            f"More than about a fifth of these people seem to be in the population {other!r} too, or of those in it to "
            "be here: identifiers are the same. Each population has a budget, and for these people both add up. Use "
            f'one population, or say same_people_as = ["{other}"] in a manifest. This is estimated with noise, and is '
            "told here alone."
        )
        err.print(f"[yellow]note:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


@app.command("retire")
def retire(
    name: str,
    successor: Annotated[str, typer.Option(help="The dataset that takes its place.")] = "",
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let a dataset end at its next cut: its rows are overwritten; its releases and its population's budget stay."""
    confirm(f"end {name} and overwrite its rows at the next cut?", yes=yes)
    with open_curator(to_write=True) as curator:
        waiting = curator.versions.retire(name, actor=actor(), successor=successor)
    emit_waiting([waiting], as_json=as_json)


@app.command("withdraw")
def withdraw(
    change: Annotated[str, typer.Argument(help="Its id, as `curator datasets changes` shows it.")],
    at_subjects_wish: Annotated[
        bool, typer.Option("--at-subjects-wish", help="State that the person who was to be forgotten wishes it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Withdraw an erasure, other rows or the end of a dataset before its cut, as another person than who asked.

    An erasure is withdrawn at the subject's own wish alone. Nothing shows outside when something is withdrawn.
    """
    with open_curator(to_write=True) as curator:
        withdrawal = curator.versions.withdraw(change, actor=actor(), at_subjects_wish=at_subjects_wish)
    shown = {"withdrawn": change, "change": withdrawal.id, "actor": withdrawal.actor, "time": withdrawal.asked_at}
    emit(shown, as_json=as_json, table=f"{change} is withdrawn")


@app.command("changes")
def changes(as_json: AsJson = False) -> None:
    """Show what was asked to change, and when it takes effect. For the operator alone: it counts erasures."""
    with open_curator() as curator:
        names = {dataset.id: dataset for dataset in curator.datasets.list_all()}
        shown = [
            {
                "id": change.id,
                "dataset": names[change.dataset_id].name,
                "act": change.act,
                "asked_at": change.asked_at,
                "actor": change.actor,
                "version": change.version or None,
                "is_withdrawn": change.version == WITHDRAWN and change.act != WITHDRAW,
                "due": curator.versions.due(names[change.dataset_id]) if change.version is None else None,
            }
            for change in curator.versions.list_changes()
        ]
    table = Table("id", "dataset", "change", "asked", "by", "takes effect", title="Changes")
    for row in shown:
        effect = f"version {row['version']}" if row["version"] else str(row["due"] or row["asked_at"])
        effect = "withdrawn" if row["is_withdrawn"] else effect
        table.add_row(*(escape(str(row[name])) for name in ("id", "dataset", "act", "asked_at", "actor")), effect)
    emit({"notice": NOTICE, "changes": shown}, as_json=as_json, table=table if shown else "nothing was asked to change")


@app.command("cut")
def cut(as_json: AsJson = False) -> None:
    """Write the versions that are due, as the service does by itself; none before its time: that would tell."""
    check_machine()
    failed: list[Dataset] = []
    with open_curator(to_write=True) as curator:
        done = curator.versions.cut_due(failed.append)
        following = sorted(
            {curator.versions.due(found) for found in curator.datasets.list_all() if not found.is_retired}
        )
    shown = [{"dataset": found.name, "version": found.version, "ended": found.is_retired} for found in done]
    words = (
        "\n".join(f"{found.name}: {'ended' if found.is_retired else f'version {found.version}'}" for found in done)
        or f"nothing is due{f' before {following[0]}' if following else ''}"
    )
    emit({"cut": shown, "next": following[:1]}, as_json=as_json, table=words)
    if failed:
        fail(f"not cut: {', '.join(found.name for found in failed)}; the lines above say where it failed. Run it again")


def emit_waiting(waiting: list[Waiting], *, as_json: bool) -> None:
    """Show the changes that wait for a cut, and its time."""
    shown = [
        {"dataset": found.dataset.name, "change": found.change.id, "act": found.change.act, "due": found.due}
        for found in waiting
    ]
    words = "\n".join(f"{found.dataset.name}: {found.change.act}, from {found.due} on" for found in waiting)
    emit(shown, as_json=as_json, table=words)


@app.command("report")
def show_report(name: str, as_json: AsJson = False) -> None:
    """Show again what registration found of the rows: counts and warnings. For the operator alone."""
    with open_curator() as curator:
        dataset = find(curator.datasets.list_all(), name)
        try:
            report = curator.datasets.report(dataset)
        except RowsUnreadable:
            why = "its rows were renewed at a cut, or its files are gone"
            fail(f"dataset {name}: there is no report; {why}")
    if as_json:
        emit({"notice": NOTICE, "dataset": name, **report.render()}, as_json=True, table="")
        return
    print_report(report)


@app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """Show every dataset."""
    with open_curator() as curator:
        found = curator.datasets.list_all()
        shown = [_state(curator, dataset) for dataset in found]
    table = Table(
        "dataset", "population", "adjacency", "capacity", "rows each", "registered", "version", title="Datasets"
    )
    for dataset in found:
        manifest = dataset.manifest
        table.add_row(
            dataset.name,
            dataset.population,
            dataset.adjacency,
            f"{manifest.row_capacity:,}",
            str(manifest.rows_per_person),
            dataset.created_at[:10],
            f"ended {dataset.retired_at[:10]}" if dataset.is_retired else str(dataset.version),
        )
    emit(shown, as_json=as_json, table=table)


@app.command("show")
def show(name: str, as_json: AsJson = False) -> None:
    """Show one dataset's public declaration."""
    with open_curator() as curator:
        dataset = find(curator.datasets.list_all(), name)
        shown = _state(curator, dataset)
    table = Table("column", "type", "unit", "bounds or levels", "missing", "description", title=dataset.name)
    for declared in dataset.manifest.columns:
        column = declared.column
        public = ", ".join(column.levels) or f"{column.lower:g} to {column.upper:g}"
        texts = (column.unit or "", public, column.missing, declared.description)
        table.add_row(column.name, column.type, *(escape(text) for text in texts))
    if others := dataset.manifest.same_people_as:
        table.caption = f"The same people as {', '.join(others)}: the budgets add up"
    emit(shown, as_json=as_json, table=table)


@app.command("hygiene")
def hygiene(
    name: str,
    quasi: Annotated[
        list[str],
        typer.Option(help="What an outsider may know of a person: age:10,sex cuts the bounds of age into 10 bins."),
    ],
    sensitive: Annotated[
        list[str] | None, typer.Option(help="Columns that must not follow from it: diagnosis,mgus.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count stored rows that few others look like: k-anonymity and l-diversity. For the operator alone."""
    # Either option may be given more than once: names count alike within commas and apart.
    known = [_read_quasi(text) for text in ",".join(quasi).split(",")]
    hidden = [text for text in ",".join(sensitive or ()).split(",") if text]
    with open_curator() as curator:
        dataset = find(curator.datasets.list_all(), name)
        try:
            check_columns(dataset.manifest, known, hidden)
        except HygieneError as error:
            raise typer.BadParameter(str(error), param_hint="--quasi, --sensitive") from None
        names = [*(identifier.name for identifier in known), *hidden]
        try:
            batches = curator.datasets.storage.iterate_rows(dataset.folder, names)
            found = measure(dataset.manifest, batches, known, hidden)
        except RowsUnreadable:
            fail(f"dataset {name}: its rows cannot be read")
    if as_json:
        asked = [{"name": identifier.name, "bins": identifier.bins} for identifier in known]
        emit({"notice": HYGIENE_NOTICE, "dataset": name, "quasi": asked, **found.render()}, as_json=True, table="")
        return
    out.print(HYGIENE_NOTICE, style="bold", soft_wrap=True)
    out.print(_hygiene_words(found), highlight=False, soft_wrap=True)
    out.print(_below_table("k", "people", found.below, found.rows))
    for diverse in found.diversity:
        out.print(f"Values of {diverse.column} within a class: {diverse.fewest:,} at the fewest.", highlight=False)
        out.print(_below_table("l", "values", diverse.below, found.rows))


def _read_other_people(curator: Curator, reason: str | None, token: str | None) -> OtherPeople | None:
    if reason is None:
        return None
    if not token or not 0 < len(reason) <= REASON_MAX:
        fail(f"--other-people takes a reason of up to {REASON_MAX} characters, and an admin's token")
    return OtherPeople(authenticate_admin(curator, token), reason)


def _read_quasi(text: str) -> QuasiIdentifier:
    found = re.fullmatch(r"([^:]+)(?::([0-9]{1,4}))?", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a column, or a column with a number of bins, such as age:10")
    name, bins = found.groups()
    return QuasiIdentifier(name, int(bins) if bins else None)


def _hygiene_words(found: Hygiene) -> str:
    words = f"{found.rows:,} rows, {found.classes:,} classes of rows that look alike. Rows of the smallest class: "
    words += f"{found.smallest_rows:,}"
    if found.rows_per_person > 1:
        words += f", of at least {found.smallest_people:,} people: up to {found.rows_per_person} rows are of one person"
    if found.left_out:
        words += f". {found.left_out:,} stored rows beyond a person's share never count, and are left out"
    return f"{words}."


def _below_table(symbol: str, what: str, below: tuple[Below, ...], rows: int) -> Table:
    table = Table(symbol, f"classes below {symbol} {what}", "rows in them", "share of rows")
    for column in table.columns:
        column.justify = "right"
    for line in below:
        table.add_row(str(line.threshold), f"{line.classes:,}", f"{line.rows:,}", f"{line.rows / max(rows, 1):.1%}")
    return table


def _state(curator: Curator, dataset: Dataset) -> DatasetAnswer:
    due = curator.versions.due(dataset)
    return DatasetAnswer.of(dataset, curator.datasets.public_count(dataset), curator.datasets.kinds, due)


def find(datasets: list[Dataset], name: str) -> Dataset:
    """Return a dataset by name, or end the command."""
    for dataset in datasets:
        if dataset.name == name:
            return dataset
    known = ", ".join(dataset.name for dataset in datasets) or "none yet"
    fail(f"there is no dataset {name!r}; registered: {known}")
