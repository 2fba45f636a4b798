"""The services of one curator, wired together: the command line and the HTTP application share them."""

from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from curator_service.approvals.service import ApprovalService
from curator_service.dashboard.proofs import RowProofs
from curator_service.dashboard.sessions import BrowserSessions
from curator_service.dashboard.sign_ins import ProviderSignIns
from curator_service.datasets.engines.base import Engine
from curator_service.datasets.engines.conformance import check_engine
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.engines.processes import ProcessEngine
from curator_service.datasets.erasures import ErasureLog
from curator_service.datasets.inbox import Inbox
from curator_service.datasets.service import DatasetService
from curator_service.datasets.snapshot import INCOMING, Storage
from curator_service.datasets.versions import VersionService
from curator_service.evidence.service import EvidenceService
from curator_service.health.service import HealthService
from curator_service.identity.oidc.providers import IdentityProviders
from curator_service.identity.service import AuthenticationRequired, IdentityService
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.kit.clock import Clock, SettledClock, utc_now
from curator_service.kit.db import Database
from curator_service.kit.limiter import ConcurrencyLimiter, FailureLimiter, RateLimiter
from curator_service.ledger.accounts.unit_of_work import Trust, announce_key
from curator_service.ledger.chain.attestation import holds_receipt
from curator_service.ledger.chain.signing import KeyRing
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.anchor import Anchor
from curator_service.ledger.trust.guard import Guard
from curator_service.permits.service import PermitService
from curator_service.privacy.samplers import NoiseSource, SystemNoise
from curator_service.questions.service import QuestionService
from curator_service.register.service import Register
from curator_service.releases.jobs import JobRunner
from curator_service.releases.keys import KeyClaims
from curator_service.releases.presence import Presence
from curator_service.releases.publisher import ReleasePublisher
from curator_service.releases.reservations import ReservationService
from curator_service.releases.response_time import ResponseTimer
from curator_service.releases.service import ReleaseService
from curator_service.sessions.service import SessionService
from curator_service.settings import Settings
from curator_service.surveys.service import SurveyService

S = TypeVar("S")
THREADS = 40
"""Requests that a process works on at once: what the framework's pool has threads for."""


@dataclass(frozen=True, slots=True)
class Curator:
    """Every service on one database and one data folder."""

    database: Database
    kinds: KindRegistry
    clock: SettledClock
    keys: KeyRing
    ledger: LedgerService
    approvals: ApprovalService
    permits: PermitService
    identity: IdentityService
    browser_sessions: BrowserSessions
    sign_ins: ProviderSignIns
    datasets: DatasetService
    inbox: Inbox
    versions: VersionService
    job_runner: JobRunner
    releases: ReleaseService
    reservations: ReservationService
    sessions: SessionService
    questions: QuestionService
    evidence: EvidenceService
    surveys: SurveyService
    health: HealthService
    requests: ConcurrencyLimiter
    rate: RateLimiter
    pages: RateLimiter
    failures: FailureLimiter

    def get(self, service: type[S], /) -> S:
        """Return the service of a class."""
        return next(held for held in (getattr(self, field.name) for field in fields(self)) if isinstance(held, service))

    register: Register

    def start(self) -> str:
        """Inspect what is stored, and seal the curator if it does not hold.

        Returns
        -------
        str
            Why it is sealed, or in doubt; empty where all of it holds.
        """
        reason = self.ledger.guard.start()
        if not reason:
            self.datasets.start()
            self.identity.start()
        return reason

    def check_engine(self) -> None:
        """Sum rows whose sums are known, in the folder of rows: the engine may see no other one of this machine.

        Raises
        ------
        SelfTestError
        """
        _check_engine(self.datasets.storage, self.kinds)

    def close(self) -> None:
        """Give up what this process works on, and close its connections."""
        try:
            self.job_runner.stop()
        finally:
            self.datasets.storage.engine.close()
            self.database.dispose()


def make_curator(
    settings: Settings,
    *,
    kinds: KindRegistry = KINDS,
    noise: NoiseSource | None = None,
    now: Clock = utc_now,
    response_timer: ResponseTimer | None = None,
) -> Curator:
    """Wire the services.

    Parameters
    ----------
    kinds : KindRegistry
        The kinds of release that it knows.
    noise : NoiseSource, optional
        A test double; there is no setting for it.
    now : callable
        The clock.
    response_timer : ResponseTimer, optional
        For measurements of something else than time; there is no setting for it.
    """
    database = Database(settings.url)
    storage = Storage(settings.data_dir / "datasets", make_engine(settings))
    anchor = Anchor(settings.anchor_folder)
    trust = Trust(anchor, lambda receipt: holds_receipt(keys, receipt))
    keys = KeyRing(database, settings.keys_folder, announce_key(trust), settings.subject_key_file)
    ledger = LedgerService(database, Guard(database, keys, trust, now), now)
    register = Register(ledger)
    clock = SettledClock(now, ledger.find_newest_moment)
    identity = IdentityService(
        database,
        register,
        now,
        IdentityProviders(settings.providers, settings.visa_issuers, clock.judge),
        lambda: keys.list_secrets("tokens"),
        clock.judge,
    )
    approvals = ApprovalService(database, ledger, identity.find_doubt, identity.find_name, now)
    permits = PermitService(database, ledger, approvals, now, clock.judge, kinds.names, settings.visas)
    identity.has_approved_for = permits.has_approved_for
    datasets = DatasetService(database, ledger, storage, now, schedule=settings.cuts, kinds=kinds.names)
    ledger.guard.inspection.checks.append(datasets.find_fault)
    job_runner = JobRunner(
        database,
        ledger,
        Presence(settings.anchor_folder / "workers"),
        lease_s=settings.lease_s,
        waiting_max=settings.jobs_waiting_max,
        clock=clock,
    )
    response_timer = ResponseTimer() if response_timer is None else response_timer
    pace = 1.0 if settings.pace is None else settings.pace
    claims = KeyClaims(settings.keys_per_day, now)
    source = SystemNoise() if noise is None else noise
    passes = ConcurrencyLimiter(settings.passes_max, "releases that take time", retry_after_s=1)
    publisher = ReleasePublisher(
        database,
        ledger,
        datasets,
        source,
        job_runner,
        claims=claims,
        passes=passes,
        response_timer=response_timer,
        answer_bytes_max=settings.answer_bytes_max,
        now=now,
    )
    releases = ReleaseService(
        database,
        ledger,
        permits,
        publisher,
        synchronous_s=settings.synchronous_s,
        pace=pace,
        now=clock.judge,
    )
    browser_sessions = BrowserSessions(database, identity, now, RowProofs(keys, now))
    return Curator(
        database=database,
        kinds=kinds,
        clock=clock,
        keys=keys,
        ledger=ledger,
        approvals=approvals,
        permits=permits,
        identity=identity,
        browser_sessions=browser_sessions,
        sign_ins=ProviderSignIns(
            database,
            identity,
            browser_sessions,
            now,
            settings.public_url or "",
        ),
        datasets=datasets,
        inbox=Inbox(settings.inbox, datasets),
        versions=VersionService(
            datasets,
            ErasureLog(settings.anchor_folder),
            check_engine=lambda: _check_engine(storage, kinds),
            ending_after=lambda duration_s: response_timer.ending_at_public_time(pace * duration_s),
        ),
        job_runner=job_runner,
        releases=releases,
        reservations=ReservationService(database, ledger, permits, claims, now),
        sessions=SessionService(
            database,
            ledger,
            datasets,
            permits,
            source,
            claims=claims,
            passes=passes,
            response_timer=response_timer,
            pace=pace,
            now=now,
        ),
        questions=QuestionService(database, ledger, kinds),
        evidence=EvidenceService(database, ledger, releases, datasets, kinds, identity.people),
        surveys=SurveyService(
            database,
            register,
            ledger.guard,
            rate=RateLimiter(settings.requests_per_minute, "looks at surveys and reports of one address"),
            now=now,
        ),
        health=HealthService(settings.folders, ledger, datasets, identity, permits, approvals, clock=clock, now=now),
        requests=ConcurrencyLimiter(THREADS, "requests", retry_after_s=1),
        rate=RateLimiter(settings.requests_per_minute, "requests of one principal"),
        # Apart: whoever has somebody's token, or that one's session, keeps them from the other way in no longer.
        pages=RateLimiter(settings.requests_per_minute, "pages of one principal"),
        failures=FailureLimiter(
            RateLimiter(settings.failures_per_minute, "invalid tokens of one address"),
            AuthenticationRequired,
        ),
        register=register,
    )


def _check_engine(storage: Storage, kinds: KindRegistry) -> None:
    with storage.writing(), TemporaryDirectory(prefix=INCOMING, dir=storage.root) as folder:
        check_engine(storage.engine, kinds.conformance, Path(folder))


def make_engine(settings: Settings) -> Engine:
    """Return the engine that the settings name; nothing is started before its first pass."""
    match settings.engine:
        case "numpy":
            return NumpyEngine(settings.engine_workers)
        case "processes":
            return ProcessEngine(settings.engine_workers)
        case "spark":
            from curator_service.datasets.engines.spark import SparkEngine  # noqa: PLC0415 -- an extra

            return SparkEngine(settings.engine_workers)
