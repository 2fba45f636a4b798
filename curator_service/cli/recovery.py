"""Commands of keys, backups and recovery."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from curator_service.backup import read_backup, rehearse, write_backup
from curator_service.cli.common import (
    AsJson,
    actor,
    authenticate_admin,
    emit,
    escape,
    fail,
    open_curator,
    out,
    read_settings,
    refusals,
)
from curator_service.cli.ledger import verdict_table, verify_one
from curator_service.container import Curator
from curator_service.entries.base import REGISTER
from curator_service.kit.clock import timestamp, utc_now
from curator_service.kit.milestones import Milestone, note
from curator_service.ledger.chain.entries import SignedCheckpoint
from curator_service.ledger.trust.anchor import Anchor
from curator_service.ledger.trust.histories import History, read_histories
from curator_service.ledger.trust.recovery import reconcile
from curator_service.permits.repository import Permit
from curator_service.permits.response_models import PermitAnswer
from curator_service.privacy.conversions import UNITS_PER_ONE


def backup(
    file: Annotated[Path, typer.Argument(help="A new file, such as curator-2026-03-01.tar.")], as_json: AsJson = False
) -> None:
    """Write everything of one instant into a file, while the curator runs; not the keys, and not the anchor."""
    with open_curator() as curator:
        about = write_backup(curator, file)
        note(read_settings().data_dir, Milestone.BACKUP_WRITTEN)
    shown = f"{file}: revision {about['revision']}, {about['rows']['ledger_entries']} ledger entries"
    del about["sha256"]  # of rows: whoever sees it could test a guess of one
    emit({"file": str(file), **about}, as_json=as_json, table=shown)


def restore(
    file: Annotated[Path | None, typer.Argument(help="A backup, to be restored into an empty database.")] = None,
    rehearse_only: Annotated[
        bool,
        typer.Option(
            "--rehearse", help="Try whether FILE can be restored: signs nothing, serves nobody, keeps nothing."
        ),
    ] = False,
    reconcile_too: Annotated[
        bool, typer.Option("--reconcile", help="Account for what was spent since the backup, and lift the seal.")
    ] = False,
    receipts: Annotated[
        list[Path] | None, typer.Option("--receipt", help="A saved release or receipt: evidence of what was spent.")
    ] = None,
    anchors: Annotated[
        list[Path] | None, typer.Option("--anchor", help="The anchor folder of another host of this curator.")
    ] = None,
    anchor_lost: Annotated[
        bool,
        typer.Option(help="An anchor is gone, and so is its curator: write off all that was left of each budget."),
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            help="A backup of a copy that was served with this curator's keys: what it charged is counted instead of "
            "what it states as spent. Takes two privacy officers, and the copy's --anchor."
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="CURATOR_TOKEN", help="With --history: token of a privacy officer.")
    ] = None,
    second_token: Annotated[
        str | None, typer.Option(envvar="CURATOR_SECOND_TOKEN", help="With --history: that of another one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup, reconcile the ledger with anchors and receipts, or both.

    A curator whose database was restored by other means is reconciled in the same way, without a file.
    """
    if rehearse_only:
        if file is None or reconcile_too or receipts or anchors or anchor_lost or history:
            fail("a rehearsal is of one backup, and reconciles nothing: curator restore --rehearse FILE")
        _rehearse(file, as_json=as_json)
        return
    if file is None and not reconcile_too:
        fail("name a backup to restore, or say --reconcile, or both")
    if history is not None and (not reconcile_too or anchor_lost):
        fail("--history goes with --reconcile, and not with --anchor-lost, which writes off all that was left")
    result: dict[str, object] = {}
    with open_curator(current_schema=file is None, creates=file is not None) as curator:
        if file is not None:
            result["restored"] = {k: v for k, v in read_backup(curator, file).items() if k != "sha256"}
        if not reconcile_too:
            emit(result, as_json=as_json, table="restored; releases are refused until `curator restore --reconcile`")
            return
        curator.keys.recover(timestamp(utc_now()))
        result["erasures_asked_again"] = curator.versions.recall_erasures(anchors or [])
        people, histories = {"actor": actor()}, {}
        if history is not None:
            histories = _read_histories(curator, history)
            people = _find_two(curator, token, second_token, histories)
        done = reconcile(
            curator.ledger,
            [_read_receipt(path) for path in receipts or []],
            [_read_anchor(folder) for folder in anchors or []],
            anchor_lost=anchor_lost,
            histories=histories,
            **people,
        )
        names = {chain.name: chain for chain in curator.ledger.list_chains()}
        curator.datasets.start()
        curator.identity.start()
        curator.versions.cut_due()  # before anything is released again; else the service does it when it starts
        permits = [permit for permit in curator.permits.list_permits() if not permit.ended_at]
    table = Table(
        "population", "kept through", "lost through", "written off", "epoch", "entries set aside", title="Reconciled"
    )
    for one in done:
        symbol = names[one.population].accountant.symbol
        lost = "everything" if one.lost_through is None else str(one.lost_through)
        has_budget = one.population != REGISTER
        written_off = f"{one.written_off / UNITS_PER_ONE:.6g} {symbol}" if has_budget else "no budget"
        name = one.population if has_budget else "the register"
        table.add_row(name, str(one.kept_through), lost, written_off, str(one.epoch), str(one.set_aside))
    result["reconciled"] = [
        {
            "population": d.population,
            "kept_through": d.kept_through,
            "lost_through": d.lost_through,
            "written_off_units": str(d.written_off),
            "epoch": d.epoch,
            "set_aside": d.set_aside,
        }
        for d in done
    ]
    # A backup has permits as they were: what was ended or narrowed since holds again.
    result["active_permits"] = [PermitAnswer.of(permit) for permit in permits]
    emit(result, as_json=as_json, table=table)
    if permits and not as_json:
        out.print(_list_active(permits))


def _rehearse(file: Path, *, as_json: bool) -> None:
    settings = read_settings()
    with refusals(), rehearse(settings, file) as (curator, about):
        results = [verify_one(curator, chain.name) for chain in curator.ledger.list_chains()]
        keys = [key.key_id for key in curator.keys.list_keys()]
    missing = [key for key in keys if not (settings.keys_folder / f"{key}.pem").is_file()]
    shown = {"rehearsed": str(file), "created_at": about["created_at"], "ledgers": results, "keys_missing": missing}
    title = f"Rehearsal of {escape(str(file))}; nothing of it is kept"
    emit(shown, as_json=as_json, table=verdict_table(results, title))
    if missing and not as_json:
        needed = f"To restore it, {settings.keys_folder} needs the private keys {', '.join(missing)}"
        out.print(f"{escape(needed)}; a rehearsal needs none", soft_wrap=True)
    if not all(result["ok"] for result in results):
        raise typer.Exit(1)


def _read_histories(curator: Curator, file: Path) -> dict[str, History]:
    """Read a copy's backup as a rehearsal does, with its answers and rows: nothing of it is kept."""
    with rehearse(read_settings(), file) as (other, _about):
        for result in (verify_one(other, population.name) for population in other.ledger.list_populations()):
            if not result["ok"]:
                fail(f"{file} does not hold: the ledger of {result['population']!r} is broken at {result['reason']}")
        return read_histories(curator.ledger, other.ledger)


def _find_two(
    curator: Curator, token: str | None, second_token: str | None, populations: Collection[str]
) -> dict[str, str]:
    """Return the two privacy officers who say that a second history was this one, and has ended."""
    first = authenticate_admin(curator, token or _ask("Privacy officer's token"))
    second = authenticate_admin(curator, second_token or _ask("Another privacy officer's token"))
    curator.approvals.check_two(first, second, populations)
    return {"actor": first.id, "approved_by": second.id}


def _ask(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, err=True))


def _list_active(permits: list[Permit]) -> Table:
    title = "Permits that hold now: look through them, and end again what had ended since the backup"
    table = Table("permit", "project", "people", "datasets", "until", title=title)
    for permit in permits:
        people, datasets = ", ".join(permit.people.values()), ", ".join(permit.datasets.values())
        until = permit.terms.expires_at or "no end"
        table.add_row(permit.id, escape(permit.terms.project), people, datasets, until)
    return table


def _read_anchor(folder: Path) -> Anchor:
    anchor = Anchor(folder)
    if not anchor.path.is_file() or not anchor.log():
        fail(f"{folder} holds no anchor: there is no file {anchor.path.name!r} in it")
    return anchor


def _read_receipt(path: Path) -> SignedCheckpoint:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return SignedCheckpoint.read(content.get("receipt", content))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        fail(f"{path} holds no receipt of a release")
