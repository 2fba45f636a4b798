"""Registering datasets, and finding those that a principal may see."""

import hashlib
import secrets
from http import HTTPStatus
from pathlib import Path

from curator_service.clock import Clock, timestamp, utc_now
from curator_service.datasets import repository
from curator_service.datasets.manifest import Manifest, load_manifest
from curator_service.datasets.repository import Dataset, NewDataset
from curator_service.datasets.storage import Progress, Snapshot, Storage
from curator_service.db import Database
from curator_service.identity.policy import Objects
from curator_service.identity.repository import Principal
from curator_service.ledger.book import Registration, list_registrations
from curator_service.ledger.repository import find_population, list_populations
from curator_service.ledger.service import LedgerService
from curator_service.privacy.design import Design
from curator_service.privacy.rows import RowMap
from curator_service.privacy.statistics import SufficientStatistics, split_gram
from curator_service.problems import Problem


class DatasetNotFound(Problem):
    """No dataset of this name, or none that the caller may see: which of these is not said."""

    slug = "dataset-not-found"
    status = HTTPStatus.NOT_FOUND
    title = "There is no such dataset"


class RegistrationError(ValueError):
    """A dataset cannot be registered as asked; the message says why, for the admin."""


class DatasetService:
    """Datasets of one curator.

    Parameters
    ----------
    database : Database
    ledger : LedgerService
    storage : Storage
    now : callable
        The clock.
    """

    def __init__(self, database: Database, ledger: LedgerService, storage: Storage, now: Clock = utc_now) -> None:
        self.database = database
        self.ledger = ledger
        self.storage = storage
        self.now = now

    def register(
        self, manifest_path: Path, source: Path, *, actor: str, progress: Progress = lambda _: None
    ) -> Dataset:
        """Validate, ingest and register a dataset: all of it or nothing.

        Parameters
        ----------
        manifest_path, source : Path
            The manifest (TOML) and the rows (CSV).
        actor : str
            Who registers, for the ledger.
        progress : callable
            Called with the share of the file that was read.

        Returns
        -------
        Dataset

        Raises
        ------
        ManifestError, IngestError, RegistrationError
            Naming file, place and rule.
        """
        manifest = load_manifest(manifest_path)
        self.ledger.guard.check_open()
        self._check_registrable(manifest)
        dataset_id = f"ds_{secrets.token_hex(12)}"
        snapshot = self.storage.ingest(dataset_id, manifest, source, progress)
        try:
            return self._publish(dataset_id, manifest, snapshot, actor)
        except BaseException:
            self.storage.discard(dataset_id)
            raise

    def _check_registrable(self, manifest: Manifest) -> None:
        with self.database.read() as connection:
            if find_population(connection, manifest.population) is None:
                raise RegistrationError(
                    f"the population {manifest.population!r} does not exist; create it with "
                    "`curator populations create`, or correct the name: a new name would be a second budget"
                )
            if repository.find_dataset(connection, manifest.name, granted_to=None) is not None:
                raise RegistrationError(f"the dataset {manifest.name!r} exists")

    def _publish(self, dataset_id: str, manifest: Manifest, snapshot: Snapshot, actor: str) -> Dataset:
        nonce, moment = secrets.token_hex(32), timestamp(self.now())
        # It hides: without the nonce a digest of rows would let anyone test guesses of the last one.
        commitment = hashlib.sha256(bytes.fromhex(nonce + snapshot.lattice_digest)).hexdigest()
        with self.ledger.unit() as ledger:
            connection = ledger.connection
            facts = {"dataset": manifest.name, "manifest_digest": manifest.digest, "snapshot": commitment}
            facts |= {"dataset_id": dataset_id, "actor": actor, "time": moment}
            receipt = ledger.note(manifest.population, "dataset", facts)
            for digest in (snapshot.source_digest, snapshot.values_digest):
                owner = repository.claim_snapshot(connection, digest, manifest.population)
                if owner != manifest.population:
                    raise RegistrationError(
                        f"the same rows are registered under the population {owner!r}; the same people must not "
                        "get a second budget"
                    )
            population = find_population(connection, manifest.population)
            assert population is not None
            dataset = Dataset(
                id=dataset_id,
                name=manifest.name,
                population=manifest.population,
                adjacency=population.adjacency,
                accountant=population.accountant,
                manifest=manifest,
                row_count=snapshot.person_count,
                commitment=commitment,
                created_at=moment,
                manifest_digest=manifest.digest,
            )
            if not repository.insert_dataset(connection, NewDataset(dataset, snapshot.lattice_digest, nonce)):
                raise RegistrationError(f"the dataset {manifest.name!r} exists")
            self.storage.publish(dataset_id, snapshot)
        self.ledger.guard.let_out(receipt, just_written=True)
        return dataset

    def find_fault(self) -> str:
        """Return which dataset is not as the ledger registered it, or what rows lie beside no ledger; or nothing."""
        registered: frozenset[Registration] = frozenset()
        with self.database.snapshot() as connection:
            populations = list_populations(connection)
            for population in populations:
                registered |= list_registrations(connection, population.name, self.ledger.guard.trust.holds)
            datasets = repository.list_datasets(connection, granted_to=None)
        if not populations and self.storage.has_rows():
            return "the ledger is empty, and beside it are stored rows of one that was not"
        for dataset in datasets:
            if not dataset.registration.is_among(registered):
                return f"the dataset {dataset.name!r} is not the one that the ledger registered"
        return ""

    def get_visible(self, principal: Principal, objects: Objects, name: str) -> Dataset:
        """Return a dataset that a principal may see.

        Raises
        ------
        DatasetNotFound
        """
        with self.database.read() as connection:
            dataset = repository.find_dataset(connection, name, granted_to=_restriction(principal, objects))
        return _found(dataset)

    def get_visible_by_id(self, principal: Principal, objects: Objects, dataset_id: str) -> Dataset:
        """Return a dataset that a principal may see, by id.

        Raises
        ------
        DatasetNotFound
        """
        with self.database.read() as connection:
            dataset = repository.find_dataset_by_id(connection, dataset_id, granted_to=_restriction(principal, objects))
        return _found(dataset)

    def list_visible(self, principal: Principal, objects: Objects) -> list[Dataset]:
        """Return the datasets that a principal may see, by name."""
        with self.database.read() as connection:
            return repository.list_datasets(connection, granted_to=_restriction(principal, objects))

    def list_all(self) -> list[Dataset]:
        """Return every dataset, by name, for an admin."""
        with self.database.read() as connection:
            return repository.list_datasets(connection, granted_to=None)

    def compute_statistics(self, dataset: Dataset, design: Design, row_map: RowMap) -> SufficientStatistics:
        """Compute exact statistics; call only inside a unit of work that has charged for them."""
        gram = self.storage.compute_gram(dataset.id, dataset.manifest, design, row_map)
        return split_gram(gram, len(design.terms))


def _restriction(principal: Principal, objects: Objects) -> str | None:
    return None if objects is Objects.ALL else principal.id


def _found(dataset: Dataset | None) -> Dataset:
    if dataset is None:
        raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
    return dataset
