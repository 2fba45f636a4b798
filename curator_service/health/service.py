"""The state of the service for its operators. Of rows it tells nothing: of people, what they ask, as numbers."""

import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from curator_service import __version__
from curator_service.api.metrics import measure_free
from curator_service.approvals.service import ApprovalService
from curator_service.datasets.service import DatasetService
from curator_service.entries.base import REGISTER
from curator_service.health.findings import (
    ILL,
    STATES,
    Finding,
    Noted,
    check_folder,
    check_people,
    check_rows,
    check_shares,
    check_tasks,
    find_noted,
)
from curator_service.health.machine import measure_memory
from curator_service.identity.service import IdentityService
from curator_service.kit import milestones
from curator_service.kit.clock import EARLIER_MAX, SETTLING_S, Clock, SettledClock
from curator_service.kit.milestones import Milestone
from curator_service.kit.samples import Sample, Samples
from curator_service.ledger import search
from curator_service.ledger.accounts.reservations import summarise_jobs
from curator_service.ledger.service import LedgerService
from curator_service.permits.service import PermitService

SEALS_SHOWN = 20
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""What machines ask for again and again: it would hide what people do."""
BY_DOCTOR = frozenset({"settings", "exposure", "arithmetic", "disk of the anchor", "database", "clock", "ledger"})
"""What `curator doctor` alone looks at, beside the sign-ins at providers: it takes too long for a page.

Its words on folders are not among it: they tell the free space to the gigabyte, and so that rows came.
"""


@dataclass(frozen=True, slots=True)
class Seal:
    """A seal of the past, as the entry of the reconciliation that ended it has it.

    Attributes
    ----------
    ended_at : str
    actor, approved_by : str
        Who reconciled; the latter is empty where one person did.
    """

    ended_at: str
    actor: str
    approved_by: str


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the service now, and the last day.

    Attributes
    ----------
    findings : list of Finding
        The worst first.
    doctor : Noted or None
        What the last run of `curator doctor` found of what is not looked at now; None where none is known.
    backup, verified : Noted or None
        How these tasks ended last.
    cut_made, cut_came, cut_next : str
        When the newest version of a dataset begins, empty without one; the last and the next moment of the calendar.
    overdue : int
        Datasets that should have been cut, and release nothing until they are.
    jobs : int
        Jobs that wait or are worked on, of every process.
    oldest_job : str
        When the oldest of them was asked for; empty without one.
    sealed_since : str or None
        None if the curator is not sealed; empty where the moment is not known.
    seals : list of Seal
        The newest first.
    day : list of (int, Sample or None)
        The last day in slots of five minutes, the oldest first, each with its begin in seconds since 1970.
    version, python, database, revision : str
    """

    findings: list[Finding]
    doctor: Noted | None
    backup: milestones.Noted | None
    verified: milestones.Noted | None
    cut_made: str
    cut_came: str
    cut_next: str
    overdue: int
    jobs: int
    oldest_job: str
    sealed_since: str | None
    seals: list[Seal]
    day: list[tuple[int, Sample | None]]
    version: str
    python: str
    database: str
    revision: str


class HealthService:
    """Looks at the service, and samples it.

    Parameters
    ----------
    folders : mapping of str to Path
        Those of the data, the keys and the anchor.

    Attributes
    ----------
    memory, disks : callable
        Return what is free of the memory, and of the disk of each folder, in percent.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        ledger: LedgerService,
        datasets: DatasetService,
        identity: IdentityService,
        permits: PermitService,
        approvals: ApprovalService,
        *,
        clock: SettledClock,
        now: Clock,
    ) -> None:
        self.folders, self.data_dir = folders, folders["data"]
        self.ledger, self.datasets = ledger, datasets
        self.identity, self.permits, self.approvals = identity, permits, approvals
        self.clock, self.now = clock, now
        self.memory: Callable[[], int | None] = measure_memory
        self.disks: Callable[[], dict[str, int]] = self._measure_disks
        self.samples = Samples(self.data_dir / "samples")
        self._counting, self._counted = threading.Lock(), Sample()

    def count(self, route: str, status: int) -> None:
        """Count a request that was answered."""
        if route not in PROBES:
            with self._counting:
                self._counted += Sample(1, 400 <= status < 500, status >= 500)

    def sample(self) -> None:
        """Write what was counted since the last call, and what is free now."""
        with self._counting:
            counted, self._counted = self._counted, Sample()
        disk = min(self.disks().values(), default=None)
        try:
            self.samples.add(self.now().timestamp(), counted + Sample(0, 0, 0, self.memory(), disk))
        except OSError:
            with self._counting:
                self._counted += counted
            raise

    def _measure_disks(self) -> dict[str, int]:
        try:
            waiting_bytes = self.datasets.measure_waiting()
        except Exception:  # the database does not answer: without it nobody knows what is to be hidden
            return {}
        return measure_free(self.folders, self.data_dir, waiting_bytes)

    def look(self) -> Health:
        """Look at what takes no time, and add what other runs have left."""
        since = self._find_seal()
        database, calendar = self.ledger.database, self.datasets.calendar
        live = [one.cut_at for one in self.datasets.list_all() if not one.is_retired]
        overdue = sum(calendar.is_overdue(cut_at) for cut_at in live)
        with database.read() as connection:
            jobs, oldest = summarise_jobs(connection)
            said = [("kind", "reconcile")]
            found, _ = search.list_entries_that_say(connection, REGISTER, said, before=2**62, count=SEALS_SHOWN)
        revision, _head = database.revisions()
        findings = [*self._look_now(since, overdue), *self.check_rest()]
        return Health(
            findings=sorted(findings, key=lambda one: STATES.index(one.state)),
            doctor=self._find_noted(),
            backup=milestones.find(self.data_dir, Milestone.BACKUP_WRITTEN),
            verified=milestones.find(self.data_dir, Milestone.LEDGER_VERIFIED),
            cut_made=max(live, default=""),
            cut_came=calendar.last,
            cut_next=calendar.next,
            overdue=overdue,
            jobs=jobs,
            oldest_job=oldest,
            sealed_since=since,
            seals=[Seal(*(str(one.get(name, "")) for name in ("time", "actor", "approved_by"))) for _, one in found],
            day=self.samples.read(self.now().timestamp()),
            version=__version__,
            python=platform.python_version(),
            database="SQLite" if database.is_sqlite else "PostgreSQL",
            revision=str(revision),
        )

    def check_rest(self) -> Iterator[Finding]:
        """Look at rows, tasks and people, as `curator doctor` does, too."""
        yield from check_rows(self.datasets)
        yield from check_tasks(self.data_dir, self.now())
        yield from check_people(self.identity, self.permits, self.approvals, self.now())

    def _find_seal(self) -> str | None:
        reason, since = self.ledger.guard.status()
        return since if reason else None

    def _look_now(self, sealed_since: str | None, overdue: int) -> Iterator[Finding]:
        """Look at what `curator doctor` says in other words; why the curator is sealed, officers and auditors read."""
        if sealed_since is not None:
            remedy = "curator ledger status, then curator restore --reconcile"
            yield Finding("seal", ILL, "the curator is sealed: it releases nothing", remedy)
        for name, folder in self.folders.items():
            fault = check_folder(name, folder)
            if fault is not None:
                yield fault
        yield from check_shares(self.disks(), self.memory())
        if not self.clock.is_settled():
            remedy = (
                f"if it is right, wait {SETTLING_S / 60:.0f} minutes; else set it by a time service such as chrony: "
                "docs/operations.md#the-clock-was-wrong"
            )
            found = "is not believed yet: it is far from the newest entry of the ledger, as after days without one"
            yield Finding("clock", ILL, found, remedy)
        if overdue:
            found = (
                f"{overdue} datasets were not cut, and release nothing"
                if overdue > 1
                else ("a dataset was not cut, and releases nothing")
            )
            yield Finding("cuts", ILL, found, "the log says why: a disk that is full, or damaged rows that wait")

    def _find_noted(self) -> Noted | None:
        noted = find_noted(self.data_dir)
        if noted is None:
            return None
        own = [one for one in noted.findings if one.what in BY_DOCTOR or one.what.startswith(("sign-in", "people of"))]
        return Noted(noted.at, sorted(own, key=lambda one: STATES.index(one.state) if one.state in STATES else 0))


def age_of(at: float, now: float) -> str:
    """Return how long ago a moment was, in words; a moment to come is of a clock that was ahead.

    Examples
    --------
    >>> age_of(0, 200_000), age_of(0, 8000), age_of(0, 1)
    ('2.3 days ago', '2 hours ago', 'less than an hour ago')
    """
    hours = (now - at) / 3600
    if hours < -EARLIER_MAX / timedelta(hours=1):
        return "after now: the clock was ahead"
    if hours < 1:
        return "less than an hour ago"
    return f"{hours / 24:.1f} days ago" if hours >= 48 else f"{hours:.0f} {'hour' if hours < 1.5 else 'hours'} ago"
