"""The services of one curator, wired together: the command line and the HTTP application share them."""

from dataclasses import dataclass

from curator_service.datasets.service import DatasetService
from curator_service.datasets.storage import Storage
from curator_service.db import Database
from curator_service.identity.service import IdentityService
from curator_service.ledger.service import Clock, LedgerService, utc_now
from curator_service.privacy.samplers import NoiseSource, SystemNoise
from curator_service.releases.service import ReleaseService
from curator_service.settings import Settings


@dataclass(frozen=True, slots=True)
class Curator:
    """Every service on one database and one data folder."""

    database: Database
    ledger: LedgerService
    identity: IdentityService
    datasets: DatasetService
    releases: ReleaseService


def make_curator(settings: Settings, *, noise: NoiseSource | None = None, now: Clock = utc_now) -> Curator:
    """Wire the services.

    Parameters
    ----------
    settings : Settings
    noise : NoiseSource, optional
        A test double; there is no setting for it.
    now : callable
        The clock.
    """
    database = Database(settings.url)
    datasets = DatasetService(database, Storage(settings.data_dir / "datasets"), now)
    return Curator(
        database=database,
        ledger=LedgerService(database, now),
        identity=IdentityService(database, now),
        datasets=datasets,
        releases=ReleaseService(
            database,
            datasets,
            SystemNoise() if noise is None else noise,
            synchronous_row_capacity=settings.synchronous_row_capacity,
            now=now,
        ),
    )
