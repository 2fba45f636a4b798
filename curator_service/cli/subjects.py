"""Commands of one person: what is held of somebody who asks."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from curator_service.cli.catalogue import read_holdings, render_json, write
from curator_service.cli.common import (
    AsJson,
    Yes,
    actor,
    confirm,
    emit,
    err,
    fail,
    open_curator,
    read_input,
    read_settings,
    refusals,
)
from curator_service.cli.datasets import emit_waiting
from curator_service.cli.datasets import find as find_dataset
from curator_service.container import Curator
from curator_service.datasets.access import find_access
from curator_service.datasets.exports.officer_page import render_officer_page
from curator_service.datasets.exports.patient_page import render_patient_page
from curator_service.datasets.exports.patient_words import ENGLISH, GERMAN
from curator_service.datasets.exports.processing import describe_dataset, describe_guarantee
from curator_service.datasets.parts import RowsUnreadable
from curator_service.datasets.reidentification import SubjectKey
from curator_service.datasets.reidentification import change_key as encrypt_again
from curator_service.datasets.subjects import Presence, find_person, identify_rows, names_columns, tells_persons_apart
from curator_service.entries.sessions import KIND

app = typer.Typer(no_args_is_help=True)
_Out = Annotated[Path | None, typer.Option("--out", dir_okay=False, help="Write a file instead.")]
_KeyFile = Annotated[
    Path | None, typer.Option("--key", help="The key's file; that of CURATOR_SUBJECT_KEY_FILE if not given.")
]
_UNREADABLE = "the stored rows of a dataset cannot be read; `curator ledger verify` says of which"


class Audience(StrEnum):
    """Whom an answer is for."""

    PATIENT = "patient"
    OFFICER = "officer"


class Language(StrEnum):
    """Of a page for a patient."""

    ENGLISH = ENGLISH.tag
    GERMAN = GERMAN.tag


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
            "waits_for_a_cut": presence.waits,
            "guarantee": describe_guarantee(populations[presence.dataset.population]),
        }
        for presence in held
    ]
    columns = ("dataset", "population", "since", "rows", "rows_that_count", "waits_for_a_cut")
    table = Table("dataset", "population", "since", "rows", "that count", "wait for a cut", title="Rows of this person")
    for row in shown:
        table.add_row(*(str(row[name]) for name in columns))
    emit(shown, as_json=as_json, table=table if shown else "no row of this person is stored")
    if not as_json:
        for name, guarantee in {row["population"]: row["guarantee"] for row in shown}.items():
            typer.echo(f"\n{name}: {guarantee}")


@app.command("export")
def export(
    out: _Out = None,
) -> None:
    """Write the rows of a person as JSON, in the manifests' units: what was beyond a bound is stored as it."""
    identifier = _ask()
    with open_curator() as curator:
        held = _find(curator, identifier)
    rows: dict[str, list[dict[str, Any]]] = {}
    for presence in held:
        rows.setdefault(presence.dataset.name, []).extend(_rows(presence))
    write(render_json(rows), out, is_private=True)


@app.command("answer")
def answer(
    audience: Annotated[Audience, typer.Option("--for", help="Whom the page is for.")],
    language: Annotated[Language, typer.Option(help="Of the page for a patient.")] = Language.ENGLISH,
    out: _Out = None,
) -> None:
    """Write a page for a person who asks: the data that are held of them, and all that anybody can have learnt."""
    identifier = _ask()
    with open_curator(to_write=True) as curator:
        try:
            access = find_access(curator.versions, identifier)
        except RowsUnreadable:
            fail(_UNREADABLE)
        if audience is Audience.PATIENT:
            page = render_patient_page(access, language)
        else:
            holdings = read_holdings(curator)
            records = {d.name: describe_dataset(d, holdings) for d in access.datasets}
            titles = {kind.name: kind.words.title for kind in curator.kinds} | {KIND: "answers of threshold sessions"}
            page = render_officer_page(access, records, titles)
    write(page, out, is_private=True)


@app.command("make-key")
def make_key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A new file, on another disk than the rows.")],
    as_json: AsJson = False,
) -> None:
    """Make a key under which registrations keep whose rows are: name its file in CURATOR_SUBJECT_KEY_FILE."""
    if path.absolute().resolve().is_relative_to(read_settings().data_dir.absolute().resolve()):
        fail(f"{path} is in the folder of the rows, and would be in its backups: the key is kept elsewhere")
    with refusals():
        key = SubjectKey.make(path)
    emit({"key_id": key.key_id, "file": str(path)}, as_json=as_json, table=f"{key.key_id} in {path}")


@app.command("identify")
def identify(
    name: Annotated[str, typer.Argument(metavar="DATASET")],
    rows: Annotated[list[int], typer.Argument(help="Numbers of rows, as they stood in the source, from 1.")],
    key_file: _KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Name the people of rows, to reach them; it takes the key under which the identifiers were kept."""
    key = _read_key(key_file)
    with open_curator() as curator:
        dataset = find_dataset(curator.datasets.list_all(), name)
        try:
            found = identify_rows(curator.datasets.storage, dataset, key, rows)
        except RowsUnreadable:
            fail(_UNREADABLE)
    table = Table("row", "identifier, folded", title=f"Rows of {escape(dataset.name)}")
    for row, identifier in zip(rows, found, strict=True):
        table.add_row(str(row), escape(identifier))
    shown = [{"row": row, "identifier": identifier} for row, identifier in zip(rows, found, strict=True)]
    emit(shown, as_json=as_json, table=table)


@app.command("change-key")
def change_key(
    old: Annotated[Path, typer.Argument(help="The file of the key until now.")],
    new: Annotated[Path, typer.Argument(help="The file of the key from now on.")],
    as_json: AsJson = False,
) -> None:
    """Encrypt the identifiers of every dataset under another key; backups of before still take the old one."""
    with refusals():
        keys = SubjectKey.read(old), SubjectKey.read(new)
    with open_curator(to_write=True) as curator:
        storage = curator.datasets.storage
        with storage.alone():
            count = sum(encrypt_again(storage.root / name, *keys) for name in curator.datasets.list_folders().folders)
    told = f"{count} identifiers were under {keys[0].key_id}, and are under {keys[1].key_id}"
    emit({"changed": count, "key_id": keys[1].key_id}, as_json=as_json, table=told)


def _read_key(path: Path | None) -> SubjectKey:
    path = path or read_settings().subject_key_file
    if path is None:
        fail("name the file of the key with --key, or in CURATOR_SUBJECT_KEY_FILE")
    with refusals():
        return SubjectKey.read(path)


@app.command("erase")
def erase(
    dataset: Annotated[list[str] | None, typer.Option(help="Of this dataset alone; may be given again.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let a person be forgotten from the next cut on; the identifier is asked for, or read from standard input.

    Nothing shows outside when a person is forgotten: cuts have their moments, and all look the same. What was released
    stays, and so does what it has cost.
    """
    identifier = _ask()
    confirm(f"erase every row of this person from {', '.join(dataset or ['all datasets'])} at the next cut?", yes=yes)
    with open_curator(to_write=True) as curator:
        unknown = _not_searched(curator, identifier)
        try:
            waiting = curator.versions.erase(identifier, actor=actor(), names=dataset)
        except RowsUnreadable:
            fail("the stored rows of a dataset cannot be read; `curator ledger verify` says of which")
    _warn(unknown)
    if not waiting and not as_json:
        fail("no row of this person is stored, so nothing waits for a cut")
    emit_waiting(waiting, as_json=as_json)


def _rows(presence: Presence) -> list[dict[str, Any]]:
    about = {"waits_for_a_cut": presence.waits}
    return [
        {"counts": bool(counts), **about, "values": {name: values[i] for name, values in presence.values.items()}}
        for i, counts in enumerate(presence.counted)
    ]


def _ask() -> str:
    """Read an identifier: on a command line it would stay in the shell's history, and in the list of processes."""
    if sys.stdin.isatty():
        identifier: str = typer.prompt("identifier of the person", hide_input=True, err=True)
    else:
        identifier = read_input().rstrip("\r\n")
    if not identifier.strip():
        fail("no identifier was given; it is read from standard input, as the source of the rows writes it")
    return identifier


def _find(curator: Curator, identifier: str) -> list[Presence]:
    datasets, storage = curator.datasets.list_all(), curator.datasets.storage
    try:
        unknown = _not_searched(curator, identifier)
        held = list(find_person(storage, curator.keys, datasets, identifier, curator.versions.list_changes()))
    except RowsUnreadable:
        fail(_UNREADABLE)
    _warn(unknown)
    return held


def _not_searched(curator: Curator, identifier: str) -> list[str]:
    """Return which datasets cannot be searched, and why."""
    datasets, storage = curator.datasets.list_all(), curator.datasets.storage
    unknown = [found for found in datasets if not tells_persons_apart(storage, found, identifier)]
    other = [found for found in unknown if found.manifest.subject_columns and not names_columns(found, identifier)]
    names = ", ".join(found.name for found in unknown if found not in other)
    said = [f"not searched, for nobody kept whose their rows are: {names}"] if names else []
    for found in other:
        columns = ", ".join(map(repr, found.manifest.subject_columns))
        said.append(f"not searched: {found.name}, where a person is {columns}: give one value of each, tabs between")
    return said


def _warn(unknown: list[str]) -> None:
    for said in unknown:
        err.print(said, highlight=False, soft_wrap=True)
