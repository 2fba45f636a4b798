"""Findings of checks, each with a remedy: those fast enough for a page, and those of the last `curator doctor`."""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from curator_service.approvals.repository import OPEN
from curator_service.approvals.service import ApprovalService
from curator_service.datasets.service import DatasetService
from curator_service.identity.service import IdentityService
from curator_service.kit.clock import EARLIER_MAX, timestamp
from curator_service.kit.files import write_private
from curator_service.kit.milestones import Milestone, find
from curator_service.kit.wire import load_json
from curator_service.permits.service import PermitService

SOON, DAY = timedelta(days=14), timedelta(days=1)
VERIFIED_WITHIN_S, BACKED_UP_WITHIN_S = 8 * 86_400, 2 * 86_400
WELL, CARE, ILL = "well", "care", "ill"
STATES = (ILL, CARE, WELL)
"""The worst first."""
FULL = 10
"""Percent of a disk or of the memory: where less is free, somebody should look, as in `deploy/alerts.yml`."""
_NOTED, _NOTED_BYTES = "doctor", 2**16


@dataclass(frozen=True, slots=True)
class Finding:
    """A check, its result, and the remedy for a fault."""

    what: str
    state: str
    found: str
    remedy: str = ""


class Noted(NamedTuple):
    """The findings of a run of `curator doctor`, and when it ended, in seconds since 1970."""

    at: float
    findings: list[Finding]


def check_folder(name: str, folder: Path) -> Finding | None:
    """Return what is wrong with a folder of the curator; None if nothing is."""
    if not folder.exists():
        return Finding(name, CARE, f"{folder} is not there yet", "the first command that writes makes it")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Finding(name, ILL, f"{folder} cannot be used by this user", "run as the curator's own user")
    if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding(name, ILL, f"{folder} is open to other users", f"chmod 700 {folder}")
    return None


def check_shares(free: Mapping[str, int], memory: int | None) -> Iterator[Finding]:
    """Say which shares of disks and of the memory are free."""
    for name, share in free.items():
        state = CARE if share < FULL else WELL
        yield Finding(f"disk of {name}", state, f"{share} % are free", "make room" if state == CARE else "")
    if memory is not None:
        state = CARE if memory < FULL else WELL
        remedy = "let fewer passes run at once, or give the machine more" if state == CARE else ""
        yield Finding("memory", state, f"{memory} % or more are free" if memory else "less than 10 % are free", remedy)


def check_rows(datasets: DatasetService) -> Iterator[Finding]:
    """Say whether the files of every dataset are there."""
    there = datasets.has_all_rows()
    remedy = "" if there else "curator ledger verify says of which; restore them from a backup"
    yield Finding("rows", WELL if there else ILL, "are there" if there else "of a dataset are gone", remedy)


def check_tasks(data_dir: Path, now: datetime) -> Iterator[Finding]:
    """Say when the operator's tasks ended last."""
    limits = {
        Milestone.LEDGER_VERIFIED: (VERIFIED_WITHIN_S, "curator ledger verify"),
        Milestone.BACKUP_WRITTEN: (BACKED_UP_WITHIN_S, "curator backup FILE"),
    }
    for milestone, (within_s, command) in limits.items():
        noted, what = find(data_dir, milestone), milestone.value.replace("_", " ")
        if noted is None:
            yield Finding(what, CARE, "never", f"run `{command}` from a timer: docs/operations.md")
        elif not noted.is_well:
            yield Finding(what, ILL, "it failed when it ran last", f"run `{command}`, and read what it says")
        else:
            days = (now.timestamp() - noted.at) / 86_400
            late = not -EARLIER_MAX / DAY <= days <= within_s / 86_400  # before now: the clock was ahead
            yield Finding(what, CARE if late else WELL, f"{days:.1f} days ago", f"run `{command}`" if late else "")


def check_people(
    identity: IdentityService, permits: PermitService, approvals: ApprovalService, now: datetime
) -> Iterator[Finding]:
    """Say what ends soon, and what waits for a second person."""
    today, soon = timestamp(now), timestamp(now + SOON)
    ending = sum(token.revoked_at is None and today < token.expires_at <= soon for token in identity.list_tokens())
    if ending:
        yield Finding("tokens", CARE, f"{ending} expire within {SOON.days} days", "curator tokens list")
    lasting = [p for p in permits.list_permits() if not p.ended_at and p.terms.expires_at]
    ending = sum(today < str(permit.terms.expires_at) <= soon for permit in lasting)
    if ending:
        yield Finding("permits", CARE, f"{ending} end within {SOON.days} days", "curator permits list")
    waiting = sum(proposal.state == OPEN for proposal in approvals.list_proposals())
    if waiting:
        yield Finding("proposals", CARE, f"{waiting} wait for a second person", "curator proposals list")


def note_findings(data_dir: Path, findings: Iterable[Finding]) -> None:
    """Keep the findings of a run that has just ended, in place of those of the run before."""
    fresh = data_dir / f"{_NOTED}.{os.getpid()}"
    write_private(fresh, json.dumps([asdict(finding) for finding in findings]))
    fresh.replace(data_dir / _NOTED)


def find_noted(data_dir: Path) -> Noted | None:
    """Return the findings that were kept; None where there are none, or none that can be read."""
    try:
        with (data_dir / _NOTED).open("rb") as file:
            at, text = os.fstat(file.fileno()).st_mtime, file.read(_NOTED_BYTES)
        findings = [
            Finding(*map(str, (one["what"], one["state"], one["found"], one["remedy"]))) for one in load_json(text)
        ]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Noted(at, findings)
