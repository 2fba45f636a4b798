"""Checks of a curator, with a remedy for each fault."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import typer
from rich.table import Table
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError
from threadpoolctl import threadpool_limits

from curator_service.cli.common import AsJson, emit, escape
from curator_service.container import Curator, make_curator
from curator_service.exposure import find_exposures
from curator_service.health.findings import CARE, DAY, ILL, WELL, Finding, check_folder, note_findings
from curator_service.kinds.registry import KINDS
from curator_service.kit.clock import EARLIER_MAX, LATER_MAX, find_lead, timestamp, utc_now
from curator_service.kit.db import DATABASE_ERRORS, PoolerError, SchemaError, is_absent, name_database
from curator_service.ledger.accounts.reservations import beat
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.trust.anchor import AnchorError
from curator_service.privacy.selftest import SelfTestError, run_self_test
from curator_service.settings import Settings, explain

FREE_BYTES = 2**30
APART = timedelta(minutes=5)


_EMPTY = Finding("schema", CARE, "the database is empty", "the first command that writes makes it")


def doctor(as_json: AsJson = False) -> None:
    """Say what is wrong, and how to mend it."""
    findings = list(examine())
    if any(one.what == "schema" and one.state == WELL for one in findings):  # else there is no curator to note it of
        _note(findings)
    table = Table("", "what", "found", "what to do", title="Doctor")
    shown = {WELL: "[green]well[/green]", CARE: "[yellow]care[/yellow]", ILL: "[red]ill[/red]"}
    for finding in findings:
        table.add_row(shown[finding.state], finding.what, escape(finding.found), escape(finding.remedy))
    emit([asdict(finding) for finding in findings], as_json=as_json, table=table)
    if any(finding.state == ILL for finding in findings):
        raise typer.Exit(1)


def _note(findings: list[Finding]) -> None:
    """Keep the findings for the page of operators, but for why a ledger does not hold."""
    told = [
        replace(one, found="does not hold, or is sealed: run `curator doctor`")
        if one.what == "ledger" and one.state == ILL
        else one
        for one in findings
    ]
    with suppress(OSError):
        note_findings(Settings().data_dir, told)


def examine() -> Iterator[Finding]:
    """Look at everything that can be looked at; what a look depends on comes before it."""
    try:
        settings = Settings()
    except (ValueError, FileNotFoundError) as error:
        yield Finding("settings", ILL, f"cannot be read: {'; '.join(explain(error))}", "see docs/cli.md")
        return
    yield Finding("settings", WELL, "read")
    exposures = find_exposures(settings, settings.host)
    for exposure in exposures:
        yield Finding("exposure", ILL, exposure.partition(": ")[0], exposure.partition(": ")[2])
    yield from _machine()
    yield from _folders(settings)
    try:
        url = make_url(settings.url)
        curator = None if is_absent(url) else make_curator(settings)
    except (SQLAlchemyError, ModuleNotFoundError, OSError):
        yield Finding("database", ILL, "cannot be opened", "check CURATOR_DATABASE_URL and CURATOR_DATA_DIR")
        return
    yield Finding("database", WELL, name_database(url))
    if curator is None:  # opening it would make it
        yield _EMPTY
        return
    try:
        yield from _curator(curator, settings)
    finally:
        curator.datasets.storage.engine.close()
        curator.database.dispose()


def _machine() -> Iterator[Finding]:
    try:
        with threadpool_limits(1, user_api="blas"):
            run_self_test(KINDS.self_tests)
    except SelfTestError as error:
        yield Finding("arithmetic", ILL, str(error), "use another machine or other builds of numpy and Python")
    else:
        yield Finding("arithmetic", WELL, "is what the proofs assume")


def _folders(settings: Settings) -> Iterator[Finding]:
    for name, folder in settings.folders.items():
        yield _folder(name, folder)
    apart = settings.anchor_folder.exists() and settings.data_dir.exists()
    if apart and settings.anchor_folder.stat().st_dev == settings.data_dir.stat().st_dev:
        found = "lies on the same disk as the data"
        yield Finding(
            "disk of the anchor", CARE, found, "put CURATOR_ANCHOR_DIR on a disk that no backup restores with the data"
        )


def _folder(name: str, folder: Path) -> Finding:
    fault = check_folder(name, folder)
    if fault is not None:
        return fault
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        return Finding(name, ILL, f"{free // 2**20} MiB are free in {folder}", "make room: nothing is released without")
    return Finding(name, WELL, f"{folder}, {free // 2**30} GiB free")


def _curator(curator: Curator, settings: Settings) -> Iterator[Finding]:
    try:
        curator.database.check_schema()
    except SchemaError as error:
        if curator.database.is_sqlite and curator.database.revisions()[0] is None:
            yield _EMPTY
        else:
            yield Finding("schema", ILL, str(error), "curator backup FILE, then curator db upgrade")
        return
    except PoolerError as error:
        yield Finding("database", ILL, str(error))
        return
    except DATABASE_ERRORS:
        yield Finding("database", ILL, "does not answer", "start it, and check CURATOR_DATABASE_URL")
        return
    yield Finding("schema", WELL, f"is at revision {curator.database.revisions()[0]}")
    if not curator.database.has_group():
        yield Finding("database", CARE, "the service's role has no rights of its own", "docs/ledger.md has the grants")
    if not curator.database.can_write(lambda connection: beat(connection, "")):  # of no worker: it changes nothing
        remedy = "end whoever holds its lock, or let CURATOR_DATABASE_URL name the server that takes writes"
        yield Finding("database", ILL, "is read and takes no write: nothing can be released", remedy)
    looks: list[Callable[[Curator, Settings], Iterator[Finding]]]
    looks = [_clock, _ledger, _rest, _providers]
    for look in looks:
        yield from look(curator, settings)


def _clock(curator: Curator, _: Settings) -> Iterator[Finding]:
    """Hold the clock against the moments of the ledger, and against the database server's."""
    now, newest = utc_now(), curator.ledger.find_newest_moment()
    behind, apart = -find_lead(now, newest), abs(curator.database.now() - now)
    if behind > EARLIER_MAX:
        found = f"{timestamp(now)} is {behind / DAY:.1f} days before the newest entry of the ledger, of {newest}"
        remedy = (
            "set it; where it is right, it was ahead when that was written, and dates after now in the ledger are wrong"
        )
        yield Finding("clock", ILL, found, remedy)
    elif apart > APART:
        found = f"{timestamp(now)} is {apart / timedelta(minutes=1):.0f} minutes from that of the database's server"
        yield Finding("clock", ILL, found, "set both by one time service, such as chrony")
    else:
        ahead = f", {-behind / DAY:.1f} days after the newest entry of the ledger" if -behind > LATER_MAX else ""
        yield Finding("clock", WELL, f"{timestamp(now)}{ahead}")


def _ledger(curator: Curator, _: Settings) -> Iterator[Finding]:
    reason = curator.ledger.guard.reason()
    if reason:
        yield Finding("ledger", ILL, f"sealed: {reason}", "curator ledger status, then curator restore --reconcile")
        return
    try:
        reason = curator.ledger.guard.inspection.find_contradiction() if curator.ledger.list_populations() else ""
    except (SigningError, AnchorError) as error:
        yield Finding("ledger", ILL, str(error), "bring the keys and the anchor back: docs/ledger.md#recovery")
        return
    remedy = "stop the server, and read docs/ledger.md#recovery" if reason else ""
    yield Finding("ledger", ILL if reason else WELL, reason or "and the anchor agree", remedy)


def _rest(curator: Curator, _: Settings) -> Iterator[Finding]:
    yield from curator.health.check_rest()


def _providers(curator: Curator, settings: Settings) -> Iterator[Finding]:
    """Look at the providers at which people sign in with a browser, as they describe themselves now."""
    for provider in settings.providers:
        if provider.browser is not None and not provider.tells_people_apart:
            yield Finding(
                f"people of {provider.name}",
                CARE,
                "two of them approve each other only through one application, since one person may have two subjects",
                "set subject_claim or subjects of the provider: docs/identity.md#two-applications-of-one-provider",
            )
    for name in curator.sign_ins.list_names():
        what, fault = f"sign-in at {name}", curator.sign_ins.find_fault(name)
        if fault:
            yield Finding(what, ILL, fault, "check providers.issuer and the way there: docs/identity.md")
        else:
            found = f"it answers, and sends browsers back to {curator.sign_ins.redirect_uri(name)}"
            yield Finding(what, WELL, found)
