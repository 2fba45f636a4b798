"""Registering datasets, and finding those that a principal may see."""

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from curator_service.approvals import repository as proposals
from curator_service.approvals.repository import OPEN, ROWS, Proposal
from curator_service.approvals.service import record_proposed
from curator_service.datasets import repository
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.likeness import Compared, LikenessService
from curator_service.datasets.manifest import Manifest, load_manifest
from curator_service.datasets.parts import RowsUnreadable
from curator_service.datasets.report import Report
from curator_service.datasets.repository import Dataset, Version
from curator_service.datasets.rewriting import list_rows
from curator_service.datasets.same_people import TRIES_MAX, choose
from curator_service.datasets.sketch import Part
from curator_service.datasets.snapshot import About, Registered, Snapshot, Storage
from curator_service.datasets.sources.base import Progress, Source
from curator_service.datasets.sources.opening import open_source
from curator_service.datasets.subjects import make_pseudonymiser
from curator_service.entries.rows import Dataset as DatasetEntry
from curator_service.entries.rows import Refusal
from curator_service.entries.told import Registration, Told
from curator_service.identity.policy import Objects
from curator_service.identity.repository import Principal
from curator_service.kit.clock import Clock, timestamp, utc_now
from curator_service.kit.cuts import Calendar, Schedule
from curator_service.kit.db import DATABASE_ERRORS, Connection, Database
from curator_service.kit.problems import Problem, Unavailable
from curator_service.kit.tries import Tries
from curator_service.ledger.accounts.unit_of_work import Ledger, new_id, read_told
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.chain.signing import SigningError
from curator_service.ledger.repository import find_population, iterate_kind, list_populations
from curator_service.ledger.service import LedgerService
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.mechanism import ExactSums

T = TypeVar("T")
log = logging.getLogger("curator_service")

REFUSALS_MAX = 10
"""Uploads per day that may be refused because their rows are like others: each refusal tells a little of these."""
_REFUSALS_SPAN = timedelta(days=1)
REASON_MAX = 500
"""Characters of why rows that are like others are of other people."""
CHANGED = "somebody changed the file since it was looked at: look at it again"


class DatasetNotFound(Problem):
    """No dataset of this name, or none that the caller may see: which of these is not said."""

    slug = "dataset-not-found"
    status = HTTPStatus.NOT_FOUND
    title = "There is no such dataset"


class DatasetUnavailable(Problem):
    """The stored rows of a dataset are gone, or cannot be read."""

    slug = "dataset-unavailable"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    title = "The dataset cannot be read now"


class DatasetClosed(Problem):
    """A dataset has ended: its releases are served, and nothing more is released from it."""

    slug = "dataset-closed"
    status = HTTPStatus.CONFLICT
    title = "The dataset has ended"


class RegistrationError(ValueError):
    """A dataset cannot be registered as asked; the message says why, for the admin."""


@dataclass(frozen=True, slots=True)
class OtherPeople:
    """An admin's word that rows which are like another population's are of other people; a second one must agree."""

    admin: Principal
    reason: str


class DatasetService:
    """Datasets of one curator.

    Parameters
    ----------
    now : callable
        The clock.
    schedule : {"daily", "weekly", "monthly"}
        When rows are renewed.
    kinds : sequence of str
        Names of the kinds of release that may be asked of them.
    """

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        storage: Storage,
        now: Clock = utc_now,
        *,
        schedule: Schedule = "monthly",
        kinds: Sequence[str] = (),
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.storage = storage
        self.likeness = LikenessService(ledger.guard.keys, storage)
        self.now = now
        self.calendar = Calendar(schedule, now)
        self.kinds = list(kinds)

    def register(
        self,
        manifest: Path | Manifest,
        source: Path | Source,
        *,
        actor: str,
        other_people: OtherPeople | None = None,
        progress: Progress = lambda _rows, _share: None,
        is_meant: Callable[[str], bool] = lambda _digest: True,
    ) -> Dataset:
        """Validate, ingest and register a dataset: all of it or nothing.

        Parameters
        ----------
        manifest : Path or Manifest
            The manifest, or its file (TOML).
        source : Path or Source
            The rows: a CSV file, a Parquet file, a folder of these, or a query.
        actor : str
            Who registers, for the ledger.
        other_people : OtherPeople, optional
            Proposes to register rows that are like another population's; another admin must approve before.
        progress : callable
            Called with the number of rows that were read, and their share of all, where it is known.
        is_meant : callable
            Tells of the SHA-256 of the source's bytes whether these are the ones to register.

        Raises
        ------
        ManifestError, IngestError, RegistrationError
            Naming file, place and rule.
        SigningError
            If a key that older digests or sketches need is not here.
        """
        manifest = load_manifest(manifest) if isinstance(manifest, Path) else manifest
        self.check_registrable(manifest)
        rows = open_source(source, manifest.csv_options) if isinstance(source, Path) else source
        self.ledger.guard.signer()  # a new curator has a key from here on
        dataset_id = f"ds_{secrets.token_hex(12)}"
        with self.writing(dataset_id):
            known, sketcher = make_pseudonymiser(self.likeness.keys), self.likeness.sketcher()
            self.database.give_back()
            snapshot = self.storage.ingest(dataset_id, manifest, rows, sketcher, progress, known)
            if not is_meant(snapshot.source_digest):
                raise RegistrationError(CHANGED)
            dataset, receipt = self.admit(
                manifest,
                snapshot,
                actor,
                other_people,
                lambda ledger: self._insert(ledger, dataset_id, manifest, snapshot, actor),
            )
            self.storage.confirm(dataset_id)
        self.ledger.guard.anchor_before_send(receipt, just_written=True)
        return dataset

    @contextmanager
    def writing(self, folder: str) -> Iterator[None]:
        """Keep what is being written; remove it if that fails, unless it was committed, or perhaps was."""
        with self.storage.writing():
            try:
                yield
            except BaseException:
                with suppress(*DATABASE_ERRORS):  # then the next start decides
                    if folder not in self.list_folders().folders:
                        self.storage.discard(folder)
                raise

    def measure_waiting(self) -> int:
        """Return how many bytes of rows are stored beside the versions that hold now: of changes, and of a cut."""
        current = {dataset.folder for dataset in self.list_all()}
        return self.storage.measure(but_for=current)

    def list_folders(self) -> Registered:
        """Return the folders and versions that the database names."""
        with self.database.read() as connection:
            datasets = repository.list_datasets(connection, granted_to=None)
            changes = repository.list_changes(connection)
        live = {dataset.id: dataset for dataset in datasets if not dataset.is_retired}
        waiting = [
            json.loads(change.content).get("folder")
            for change in changes
            if change.version is None and change.dataset_id in live
        ]
        folders = {dataset.folder for dataset in live.values()} | {name for name in waiting if name}
        versions = {dataset.id: dataset.version + dataset.is_retired for dataset in datasets}
        return Registered(frozenset(folders), versions)

    def check_registrable(self, manifest: Manifest) -> None:
        """Refuse a dataset for what the curator has, before any row is read.

        Raises
        ------
        RegistrationError, LedgerUnverified
        """
        self.ledger.guard.check_open()
        with self.database.read() as connection:
            if find_population(connection, manifest.population) is None:
                raise RegistrationError(
                    f"the population {manifest.population!r} does not exist; create it with "
                    "`curator populations create`, or correct the name: a new name would be a second budget"
                )
            for name in manifest.same_people_as:
                if find_population(connection, name) is None:
                    raise RegistrationError(f"same_people_as: the population {name!r} does not exist")
            if repository.find_dataset(connection, manifest.name, granted_to=None) is not None:
                raise RegistrationError(f"the dataset {manifest.name!r} exists")
            self._read_refusals(connection)

    def _read_refusals(self, connection: Connection) -> bytes:
        """Return what all refusals so far are, in short.

        Raises
        ------
        RegistrationError
            If there were too many within a day.
        """
        since = timestamp(self.now() - _REFUSALS_SPAN)
        refused = [
            entry
            for population in list_populations(connection)
            for entry in iterate_kind(connection, population.name, "refusal")
        ]
        if sum(json.loads(entry.payload_text)["time"] > since for entry in refused) >= REFUSALS_MAX:
            raise RegistrationError(
                f"{REFUSALS_MAX} uploads of rows that are like others were refused within a day; nothing more is "
                "compared, and so nothing is registered or appended, until that is over"
            )
        return hashlib.sha256("".join(entry.entry_hash for entry in refused).encode()).digest()

    def admit(
        self,
        manifest: Manifest,
        snapshot: Snapshot,
        actor: str,
        other_people: OtherPeople | None,
        accept: Callable[[Ledger], T],
        *,
        appended_to: Dataset | None = None,
    ) -> T:
        """Accept rows in one unit of work; refuse people with a budget under another name.

        Parameters
        ----------
        appended_to : Dataset, optional
            One in which a row is a person: rows that are nearly those that it has are refused, too.

        Raises
        ------
        RegistrationError
            They are refused; the ledger says so.
        """
        compared: Compared = {}
        # Faults of this comparison are told below. A pooler may have one connection: a second one would wait in vain.
        with suppress(SigningError), self.database.shared_read(), self.database.read() as connection:
            others = self._list_others(connection, manifest, snapshot)
            self.likeness.compare(connection, manifest.population, snapshot, compared, others=others)
        with self.ledger.unit() as ledger:
            # Two that are registered at once do not see each other: the second one looks when the first is committed.
            repository.lock_registrations(ledger.connection)
            refusals = self._read_refusals(ledger.connection)
            owner = self.likeness.find_owner(
                ledger.connection,
                manifest.population,
                snapshot,
                refusals=refusals,
                others=self._list_others(ledger.connection, manifest, snapshot),
                compared=compared,
            )
            if owner is None and appended_to is not None:
                known = self.likeness.is_known(ledger.connection, appended_to.id, snapshot, refusals=refusals)
                owner = manifest.population if known else None
            if owner is None:
                return accept(ledger)
            proposal, receipts = self._refuse(ledger, manifest, snapshot, owner, actor, other_people)
        for receipt in receipts:
            self.ledger.guard.anchor_before_send(receipt, just_written=True)
        log.warning("rows for %r were refused: they are like those of %r", manifest.name, owner)
        if owner == manifest.population:
            raise RegistrationError(
                f"these rows are nearly those that {manifest.name!r} has, and without a subject a row that comes again "
                "is another person; replace all rows instead"
            )
        said = f"the same rows, or nearly, are registered under the population {owner!r}; the same people must not get "
        said += f"a second budget: name the population {owner!r} in the manifest. "
        raise RegistrationError(
            said + "If they are other people, a privacy officer may say so with --other-people, and another one approve"
            if not proposal
            else f"{said}Another officer may approve {proposal} (`curator proposals approve`); then add it again"
        )

    def _list_others(self, connection: Connection, manifest: Manifest, snapshot: Snapshot) -> set[str]:
        """Return the populations of which two admins agreed, by a signed entry, that their people are others."""
        confirmed = read_told(connection, Told(manifest.population), self.ledger.guard.trust.holds).confirmed
        return {
            population.name
            for population in list_populations(connection)
            if self.likeness.label(manifest.digest, snapshot, population.name) in confirmed
        }

    def _refuse(
        self,
        ledger: Ledger,
        manifest: Manifest,
        snapshot: Snapshot,
        owner: str,
        actor: str,
        other_people: OtherPeople | None,
    ) -> tuple[str, list[Receipt]]:
        """Write a refusal, and what an admin proposes; return the proposal's id, or nothing, and the receipts."""
        moment = timestamp(self.now())
        proposed = None
        if other_people is not None and owner != manifest.population:
            admin = other_people.admin.id
            name, label = manifest.population, self.likeness.label(manifest.digest, snapshot, owner)
            proposed = Proposal(new_id("prp_"), name, ROWS, label, 0, 0, other_people.reason, admin, moment, OPEN)
            proposals.insert_proposal(ledger.connection, proposed)
            proposals.supersede(ledger.connection, replace(proposed, decided_by=admin, decided_at=moment))
        refusal = Refusal(
            actor=actor,
            time=moment,
            dataset=manifest.name,
            manifest_digest=manifest.digest,
            like=owner,
            proposal=None if proposed is None else proposed.id,
        )
        receipts = [ledger.note(manifest.population, refusal)]
        if proposed is not None:  # after the population's account: they are locked in one order
            receipts += record_proposed(ledger, proposed)
        return refusal.proposal or "", receipts

    def _insert(
        self, ledger: Ledger, dataset_id: str, manifest: Manifest, snapshot: Snapshot, actor: str
    ) -> tuple[Dataset, Receipt]:
        moment = timestamp(self.now())
        about = About(snapshot.persons, (snapshot.part,), secrets.token_hex(32))
        connection = ledger.connection
        registered = DatasetEntry(
            actor=actor,
            time=moment,
            dataset=manifest.name,
            dataset_id=dataset_id,
            manifest_digest=manifest.digest,
            snapshot=about.commitment,
        )
        receipt = ledger.note(manifest.population, registered)
        population = find_population(connection, manifest.population)
        assert population is not None
        dataset = Dataset(
            id=dataset_id,
            name=manifest.name,
            population=manifest.population,
            adjacency=population.adjacency,
            accountant=population.accountant,
            manifest=manifest,
            commitment=about.commitment,
            created_at=moment,
            manifest_digest=manifest.digest,
            folder=dataset_id,
            cut_at=moment,
        )
        if not repository.insert_dataset(connection, dataset):
            raise RegistrationError(f"the dataset {manifest.name!r} exists")
        digests = [snapshot.source_digest, snapshot.values_digest]
        self.likeness.record(connection, Version(dataset_id, manifest.population), digests, snapshot.sketch)
        self.storage.describe(dataset_id, about)
        self.storage.publish(dataset_id)
        return dataset, receipt

    def find_same_people(self, dataset: Dataset, version: int) -> str | None:
        """Return another population that people of a dataset seem to be in; None also where nothing is compared.

        For the terminal of somebody at this machine alone. It tells of persons, with the noise of `same_people`, and
        is counted whatever it says.

        Parameters
        ----------
        version : int
            Of the rows, as sketches have it: below zero of rows that wait.
        """
        with suppress(OSError, SigningError, *DATABASE_ERRORS):
            with self.database.read() as connection:
                subjects = self.likeness.list_subjects(connection)
                datasets = repository.list_datasets(connection, granted_to=None)
            mine = [part for about, part in subjects if (about.dataset_id, about.version) == (dataset.id, version)]
            declared = {dataset.population, *dataset.manifest.same_people_as}
            there = {one.id for one in datasets if dataset.population in one.manifest.same_people_as}
            others: dict[str, list[Part]] = {}
            for about, part in subjects:
                if about.population not in declared and about.dataset_id not in there:
                    others.setdefault(about.population, []).append(part)
            tries = Tries(self.ledger.guard.trust.anchor.folder / "comparisons", TRIES_MAX)
            if mine and others and tries.take(self.now()):
                return choose(mine[0], others, self.likeness.noise)
        return None

    def start(self) -> list[str]:
        """Remove what a killed process left, and say which rows are lost.

        Call it when the ledger was found to hold, and before anything is registered.

        Returns
        -------
        list of str
            One sentence for each dataset whose rows cannot be used.
        """
        try:
            for name in self.storage.sweep(self.list_folders):
                log.warning("removed %s: rows of a registration or a restore that did not end", name)
        except OSError as error:
            log.error("what was left of earlier is still there: %s", error)  # noqa: TRY400 -- the message says it all
        faults = self.list_faults()
        for fault in faults:
            log.error("%s", fault)
        return faults

    def list_faults(self) -> list[str]:
        """Return one sentence for each fault of stored or waiting rows: files that are gone or were changed."""
        with self.database.read() as connection:
            datasets = repository.list_datasets(connection, granted_to=None)
            waiting = {dataset.id: repository.list_waiting(connection, dataset.id) for dataset in datasets}
        faults = []
        for dataset in datasets:
            if dataset.is_retired:
                continue
            if fault := self.storage.find_fault(dataset.folder, dataset.commitment):
                faults.append(f"dataset {dataset.name}: its {fault}")
            for folder, commitment, _gone in list_rows(dataset, waiting[dataset.id]):
                if folder != dataset.folder and (fault := self.storage.find_fault(folder, commitment)):
                    faults.append(
                        f"dataset {dataset.name}: its waiting {fault}, so that it cannot be cut; bring them back, or "
                        "replace all rows (`curator datasets replace`)"
                    )
        return faults

    def has_all_rows(self) -> bool:
        """Return whether the files of every dataset are there."""
        return all(dataset.is_retired or self.storage.has_files(dataset.folder) for dataset in self.list_all())

    def holds(self, dataset: Dataset) -> bool:
        """Return True if stored rows and sums equal the registered ones, number by number, or if it has none."""
        if dataset.is_retired:
            return True
        return self.storage.holds(dataset.folder, dataset.manifest, dataset.commitment)

    def is_renewed(self, dataset: Dataset) -> bool:
        """Return whether a dataset has other rows by now, or none."""
        with self.database.read() as connection:
            found = repository.list_datasets(connection, granted_to=None)
        return dataset.folder not in {one.folder for one in found if not one.is_retired}

    def report(self, dataset: Dataset) -> Report:
        """Return what registration found of the rows: for the operator alone, and so for no route.

        Raises
        ------
        RowsUnreadable
            Also if there is none.
        """
        return self.storage.report(dataset.folder)

    def public_count(self, dataset: Dataset) -> int | None:
        """Return the number of rows, or of persons, where it is public; None where not, or while the rows are gone."""
        if dataset.adjacency is not Adjacency.REPLACE_ONE or dataset.is_retired:
            return None
        try:
            return self.storage.about(dataset.folder).persons
        except RowsUnreadable:
            return None

    def find_fault(self) -> str:
        """Return which dataset is not as the ledger registered it, or what rows lie beside no ledger; or nothing."""
        latest: dict[str, Registration] = {}
        with self.database.snapshot() as connection:
            populations = list_populations(connection)
            for population in populations:
                latest |= read_told(connection, Told(population.name), self.ledger.guard.trust.holds).latest
            datasets = repository.list_datasets(connection, granted_to=None)
        if not populations and self.storage.has_rows():
            return "the ledger is empty, and beside it are stored rows of one that was not"
        for dataset in datasets:
            if latest.get(dataset.id) != dataset.registration:  # nor one of its versions of before: their rows ended
                return f"the dataset {dataset.name!r} is not the one that the ledger registered"
        return ""

    def check_available(self, dataset: Dataset) -> None:
        """Refuse what would need rows that are gone, before anything is held for it.

        Raises
        ------
        DatasetUnavailable
        """
        with self.database.read() as connection:
            self.check_current(connection, dataset)
        if not self.storage.has_files(dataset.folder):
            log.error("dataset %s: its rows are gone", dataset.name)
            raise _unavailable()

    def check_current(self, connection: Connection, dataset: Dataset) -> None:
        """Refuse what would be released from rows that are not the present ones any more, or should not be.

        The latter of every dataset alike, whether anything of it was to change or not.

        Raises
        ------
        DatasetClosed, Unavailable
        """
        commitment, retired_at, cut_at = repository.find_current(connection, dataset.id)
        if retired_at:
            heir = f" Its successor is {dataset.successor!r}." if dataset.successor else ""
            raise DatasetClosed(
                f"The dataset {dataset.name!r} ended on {retired_at[:10]}. Nothing was charged; what was released from "
                f"it is served.{heir}"
            )
        if commitment != dataset.commitment or self.calendar.is_overdue(cut_at):
            raise Unavailable("The rows of this dataset are being renewed. Nothing was charged; send it again.")

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

    def _check_named(self, dataset: Dataset) -> None:
        """Check that the folder holds what was registered: whoever may change the table could name another one."""
        if self.storage.about(dataset.folder).commitment != dataset.commitment:
            raise RowsUnreadable

    def sum_rows(self, dataset: Dataset, kernel: RowKernel) -> ExactSums:
        """Sum what rows contribute, exactly; call only inside a unit of work that has charged for it.

        Raises
        ------
        DatasetUnavailable, DatasetClosed, Unavailable
        """
        try:
            self._check_named(dataset)
            return ExactSums(self.storage.sum_rows(dataset.folder, dataset.manifest, kernel))
        except RowsUnreadable:
            with self.database.read() as connection:
                self.check_current(connection, dataset)  # their version may have ended meanwhile
            log.error("dataset %s: its rows cannot be read", dataset.name)  # noqa: TRY400 -- an exception may hold a row
            raise _unavailable() from None


def _unavailable() -> DatasetUnavailable:
    return DatasetUnavailable(
        "The rows of this dataset cannot be read now. Nothing was charged; stored releases are served. The curator's "
        "log says more."
    )


def _restriction(principal: Principal, objects: Objects) -> str | None:
    return None if objects is Objects.ALL else principal.id


def _found(dataset: Dataset | None) -> Dataset:
    if dataset is None:
        raise DatasetNotFound("There is no dataset of this name among those that you were granted.")
    return dataset
