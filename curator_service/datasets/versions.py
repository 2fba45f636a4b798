"""Versions of a dataset: what was asked to change waits for the next cut, which is always written and looks the same.

At a cut every dataset's rows are written anew into a new folder, and one entry of the ledger commits to them: whether
nothing has changed, or rows came, or five persons were erased. From that entry on nothing is released from the rows of
before, and their files are overwritten. What was released stays as it is, and so does what it has cost.
"""

import json
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from curator_service.datasets import repository
from curator_service.datasets.erasures import ErasureLog, is_signed, sign
from curator_service.datasets.likeness import Marks
from curator_service.datasets.parts import RowsUnreadable
from curator_service.datasets.repository import (
    APPEND,
    ERASE,
    REPLACE,
    RETIRE,
    WITHDRAW,
    WITHDRAWN,
    Change,
    Dataset,
    Version,
)
from curator_service.datasets.rewriting import Plan, Rewritten, cut_duration_s, list_rows, rewrite
from curator_service.datasets.service import DatasetService, OtherPeople
from curator_service.datasets.snapshot import About, Snapshot
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.opening import open_source
from curator_service.datasets.subjects import make_pseudonymiser, make_pseudonyms
from curator_service.entries.rows import Dataset as DatasetEntry
from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection
from curator_service.kit.logs import log_without_data
from curator_service.ledger.accounts.unit_of_work import Ledger, new_id
from curator_service.ledger.chain.entries import Receipt
from curator_service.ledger.chain.signing import SigningError
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.selftest import SelfTestError

log = logging.getLogger("curator_service")

_WITHDRAWABLE = frozenset({ERASE, REPLACE, RETIRE})
RECALL_S = 0.1
"""What looking for erasures that were lost is made to take on the reference machine, in seconds."""


class ChangeError(ValueError):
    """A dataset cannot be changed as asked; the message says why, for the operator."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A change that waits for a cut.

    Attributes
    ----------
    dataset : Dataset
    change : Change
    due : str
        When the cut is.
    """

    dataset: Dataset
    change: Change
    due: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A version that is written, but for its name: its commitment, its marks, and the changes that made it."""

    commitment: str
    marks: Marks
    changes: tuple[Change, ...]

    @property
    def acts(self) -> frozenset[str]:
        return frozenset(change.act for change in self.changes)

    @property
    def last(self) -> int:
        return max((change.number for change in self.changes), default=0)


class _Overtaken(Exception):
    """Another host has cut the same version, or a change that it was made of was withdrawn."""


class VersionService:
    """Changes of datasets, and the cuts that carry them out.

    Parameters
    ----------
    check_engine : callable
        Raises `SelfTestError` where the engine sums wrongly; called before anything is cut.
    ending_after : callable
        Makes a block end at a public time, of a duration in seconds on the reference machine.
    """

    def __init__(
        self,
        datasets: DatasetService,
        erasures: ErasureLog,
        *,
        check_engine: Callable[[], None] = lambda: None,
        ending_after: Callable[[float], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.datasets = datasets
        self.database, self.ledger, self.storage = datasets.database, datasets.ledger, datasets.storage
        self.erasures = erasures
        self.calendar, self.now = datasets.calendar, datasets.now
        self.check_engine = check_engine
        self.ending_after = ending_after

    def due(self, dataset: Dataset) -> str:
        """Return when the next version of a dataset begins."""
        return self.calendar.due(dataset.cut_at)

    def _promise(self, dataset: Dataset) -> str:
        """Return from when on a change that is asked for now holds: one that is overdue may be under way."""
        return max(self.due(dataset), self.calendar.next)

    def list_changes(self) -> list[Change]:
        """Return every change that was asked for, those of a dataset in order."""
        with self.database.read() as connection:
            return repository.list_changes(connection)

    # --- What is asked for

    def add_rows(
        self,
        name: str,
        source: Path | Source,
        *,
        act: str,
        actor: str,
        other_people: OtherPeople | None = None,
        progress: Progress = lambda _rows, _share: None,
    ) -> Waiting:
        """Read rows under the manifest of a dataset: from its next cut on they are added, or stand for the others.

        Parameters
        ----------
        name : str
            Of the dataset.
        act : {"append", "replace"}
        other_people : OtherPeople, optional
            As for a registration.
        progress : callable
            As for a registration.

        Raises
        ------
        ChangeError, IngestError, RegistrationError, SigningError
        """
        dataset = self._find(name)
        manifest = dataset.manifest
        rows = open_source(source, manifest.csv_options) if isinstance(source, Path) else source
        folder = f"{dataset.id}.{secrets.token_hex(6)}"
        known = make_pseudonymiser(self.ledger.guard.keys, self._key_of(dataset, act))
        with self.database.read() as connection:
            after = repository.next_number(connection, dataset.id) - 1
        with self.datasets.writing(folder):
            sketcher = self.datasets.likeness.sketcher()
            snapshot = self.storage.ingest(folder, manifest, rows, sketcher, progress, known, of_registered=True)

            def accept(ledger: Ledger) -> Change:
                if act == APPEND:
                    self._check_room(ledger.connection, dataset, snapshot)
                about = About(snapshot.persons, (snapshot.part,), secrets.token_hex(32), dataset.version)
                # Whoever is erased while rows are read is meant by it: `after` is the last change of before.
                content = {"folder": folder, "snapshot": about.commitment, "after": after}
                change = self._ask(ledger.connection, dataset, act, content, actor)
                waiting = Version(dataset.id, dataset.population, -change.number)
                digests = [snapshot.source_digest, snapshot.values_digest]
                likeness = self.datasets.likeness
                likeness.record_digests(ledger.connection, waiting, digests)
                # In the folder, so that a cut deletes as much of the database whether rows came or not.
                sealed = likeness.seal(waiting, snapshot.sketch)
                self.storage.describe(folder, about, {"key_id": sealed.key_id, "sealed": sealed.sealed})
                self.storage.publish(folder)
                return change

            again = dataset if act == APPEND and manifest.subject is None else None
            change = self.datasets.admit(manifest, snapshot, actor, other_people, accept, appended_to=again)
            self.storage.confirm(folder)
        return Waiting(dataset, change, self._promise(dataset))

    def erase(self, identifier: str, *, actor: str, names: Sequence[str] | None = None) -> list[Waiting]:
        """Let a person be forgotten from the next cut on, in every dataset that has rows of that person.

        Parameters
        ----------
        identifier : str
            As the source wrote it.
        names : sequence of str, optional
            Of the datasets; all of them if not given.

        Raises
        ------
        ChangeError, RowsUnreadable, SigningError, ErasureError
        """
        asked = self._list_open() if names is None else [self._find(name) for name in names]
        pseudonyms = make_pseudonyms(self.ledger.guard.keys, identifier)
        found = []
        for dataset in asked:
            if not self._holds(dataset, pseudonyms):
                continue
            content = {"pseudonyms": {key_id: known.hex() for key_id, known in pseudonyms.items()}}
            with self.database.begin() as connection:
                change = self._write_down(connection, dataset, ERASE, content, actor)
            found.append(Waiting(dataset, change, self._promise(dataset)))
        return found

    def retire(self, name: str, *, actor: str, successor: str = "") -> Waiting:
        """Let a dataset end at the next cut: its rows are overwritten, its releases stay.

        Parameters
        ----------
        successor : str
            The name of the dataset that takes its place.

        Raises
        ------
        ChangeError
        """
        dataset = self._find(name)
        if successor and self._find(successor).id == dataset.id:
            raise ChangeError("a dataset cannot be its own successor")
        with self.database.begin() as connection:
            change = self._write_down(connection, dataset, RETIRE, {"successor": successor}, actor)
        return Waiting(dataset, change, self._promise(dataset))

    def withdraw(self, change_id: str, *, actor: str, at_subjects_wish: bool = False) -> Change:
        """Withdraw an erasure, other rows or the end of a dataset before the cut: by somebody else than who asked.

        Parameters
        ----------
        at_subjects_wish : bool
            Whether the person who was to be forgotten wishes it, which whoever withdraws an erasure states.

        Raises
        ------
        ChangeError, SigningError, ErasureError
        """
        self.ledger.guard.check_open()
        with self.database.begin() as connection:
            repository.lock_registrations(connection)
            found = {change.id: change for change in repository.list_changes(connection)}.get(change_id)
            if found is None or found.act not in _WITHDRAWABLE:
                raise ChangeError(
                    f"there is no erasure, replacement or end of a dataset {change_id!r}; `curator datasets changes` "
                    "shows their ids"
                )
            if found.version == WITHDRAWN:
                raise ChangeError(f"{change_id} was withdrawn before")
            dataset = repository.find_dataset_by_id(connection, found.dataset_id, granted_to=None)
            if found.version is not None or dataset is None or self.due(dataset) <= timestamp(self.now()):
                raise ChangeError(
                    f"{change_id} was carried out at its cut, or the cut is under way; only what waits can be withdrawn"
                )
            if found.actor == actor:
                raise ChangeError(f"{actor} asked for {change_id}: another person must withdraw it")
            if at_subjects_wish is not (found.act == ERASE):
                raise ChangeError(
                    "an erasure is withdrawn at the subject's own wish alone: state it with --at-subjects-wish"
                    if found.act == ERASE
                    else f"{change_id} is no erasure: leave --at-subjects-wish out"
                )
            if found.act == REPLACE:
                self._check_stands_without(connection, dataset, found)
            content = {"of": change_id} | ({"wish": "the subject's own"} if at_subjects_wish else {})
            return self._write_down(connection, dataset, WITHDRAW, content, actor)

    def recall_erasures(self, anchors: Sequence[Path] = ()) -> int:
        """Ask again, after a restore, for every erasure that the restored database does not know; return how many.

        Until every dataset is cut again nothing is released.

        Parameters
        ----------
        anchors : sequence of Path
            Folders of other hosts' anchors.

        Raises
        ------
        ErasureError
        """
        with self.database.begin() as connection:
            again = self._recall(connection, [self.erasures, *map(ErasureLog, anchors)])
            repository.forget_cuts(connection)  # of every dataset, that its moment tells nothing
        return again

    def _recall_lost(self) -> None:
        """Ask again for logged erasures that the database lost; nobody waits for it where no row was touched."""
        with self.database.read() as connection:
            lost = self._list_lost(connection, [self.erasures])
        if lost:
            with self.database.begin() as connection:
                self._recall(connection, [self.erasures])

    def _recall(self, connection: Connection, logs: Sequence[ErasureLog]) -> int:
        """Ask again for what was lost; return how much."""
        repository.lock_registrations(connection)  # what is being written down is in the database afterwards
        again = self._list_lost(connection, logs)
        known = {change.id for change in repository.list_changes(connection)}
        for change in again:
            if change.id in known:
                repository.put_back_change(connection, change)
            else:
                renumbered = replace(change, number=repository.next_number(connection, change.dataset_id))
                self.erasures.add(renumbered)
                repository.insert_change(connection, renumbered)
            if change.act == WITHDRAW:
                repository.apply_change(connection, _withdrawn_by(change), WITHDRAWN)
        return len(again)

    def _list_lost(self, connection: Connection, logs: Sequence[ErasureLog]) -> list[Change]:
        """Return what was written down, was not done, and waits no more as it was asked."""
        keys = self.ledger.guard.keys
        asked = {change.id: change for log_of_host in logs for change in log_of_host.read(keys)}
        known = {change.id: change for change in repository.list_changes(connection)}
        both = [*asked.values(), *known.values()]
        withdrawn = {_withdrawn_by(one) for one in both if one.act == WITHDRAW and is_signed(one, keys)}
        live = [found for found in repository.list_datasets(connection, granted_to=None) if not found.is_retired]
        done = {dataset.id: self._list_erasures(dataset) for dataset in live}

        def is_lost(change: Change) -> bool:
            if change.id in done.get(change.dataset_id, [change.id]) or change.id in withdrawn:
                return False
            if change.act != WITHDRAW:
                return known.get(change.id) != change
            target = known.get(_withdrawn_by(change))
            return known.get(change.id) != change or (target is not None and target.version is None)

        return list(filter(is_lost, asked.values()))

    def _list_erasures(self, dataset: Dataset) -> tuple[str, ...]:
        """Return the erasures that the rows of a dataset are without; none while they are gone."""
        with suppress(RowsUnreadable):
            return self.storage.about(dataset.folder).erasures
        return ()

    def _find(self, name: str) -> Dataset:
        self.ledger.guard.check_open()
        for dataset in self._list_open():
            if dataset.name == name:
                return dataset
        raise ChangeError(f"there is no dataset {name!r}, or it has ended")

    def _list_open(self) -> list[Dataset]:
        return [dataset for dataset in self.datasets.list_all() if not dataset.is_retired]

    def _key_of(self, dataset: Dataset, act: str) -> str | None:
        """Return the key of a dataset's pseudonyms: rows of one person have one pseudonym, whenever they came."""
        if dataset.manifest.subject is None:
            return None
        changes = [change for change in self._list_waiting(dataset.id) if change.act == REPLACE]
        folder = json.loads(changes[-1].content)["folder"] if changes else dataset.folder
        subjects = None
        with suppress(RowsUnreadable):  # other rows may stand for those that are gone
            subjects = self.storage.about(folder).parts[0].subjects
        if subjects is None and act == REPLACE:
            return None
        if subjects is None:
            raise ChangeError(
                f"nobody kept whose the rows of {dataset.name!r} are, so it cannot be told which rows of a person "
                "count beside new ones; replace all of them instead"
            )
        return subjects[0]

    def _list_waiting(self, dataset_id: str) -> list[Change]:
        with self.database.read() as connection:
            return repository.list_waiting(connection, dataset_id)

    def _check_room(self, connection: Connection, dataset: Dataset, snapshot: Snapshot) -> None:
        rows = snapshot.part.rows
        waiting = repository.list_waiting(connection, dataset.id)
        total = rows + sum(self.storage.about(name).rows for name, _commitment, _gone in list_rows(dataset, waiting))
        if total > dataset.manifest.row_capacity:
            raise IngestError(
                f"{dataset.name}: {total} rows with these, and its row_capacity is {dataset.manifest.row_capacity}; "
                "register a dataset with a greater one, and let this one end with that as its successor"
            )

    def _check_stands_without(self, connection: Connection, dataset: Dataset, replacement: Change) -> None:
        """Refuse to withdraw other rows on which those rest that came behind them: no cut could be made any more."""
        waiting = [one for one in repository.list_waiting(connection, dataset.id) if one.id != replacement.id]
        with suppress(RowsUnreadable):  # of rows that are gone: no cut can be made of them in any case
            abouts = [self.storage.about(name) for name, _commitment, _gone in list_rows(dataset, waiting)]
            keys = {part.subjects and part.subjects[0] for about in abouts for part in about.parts}
            if sum(about.rows for about in abouts) > dataset.manifest.row_capacity or len(keys) > 1:
                raise ChangeError(
                    f"rows were appended behind {replacement.id} that do not fit beside those of before: more than the "
                    "row_capacity, or of persons under another key. Replace the rows once more instead"
                )

    def _make(self, connection: Connection, dataset: Dataset, act: str, content: dict[str, Any], actor: str) -> Change:
        repository.lock_registrations(connection)  # or two at once have one number
        number = repository.next_number(connection, dataset.id)
        return Change(new_id("chg_"), dataset.id, number, act, json.dumps(content), actor, timestamp(self.now()))

    def _write_down(
        self, connection: Connection, dataset: Dataset, act: str, content: dict[str, Any], actor: str
    ) -> Change:
        """Store a change, signed, and in the file that no restore brings back; a withdrawal holds at once."""
        change = sign(self._make(connection, dataset, act, content, actor), self.ledger.guard.signer())
        if act == WITHDRAW:
            change = replace(change, version=WITHDRAWN)
            repository.apply_change(connection, _withdrawn_by(change), WITHDRAWN)
        self.erasures.add(change)
        repository.insert_change(connection, change)
        return change

    def _ask(self, connection: Connection, dataset: Dataset, act: str, content: dict[str, Any], actor: str) -> Change:
        change = self._make(connection, dataset, act, content, actor)
        repository.insert_change(connection, change)
        return change

    def _holds(self, dataset: Dataset, pseudonyms: dict[str, bytes]) -> bool:
        """Tell whether a dataset has rows of a person, waiting ones included."""
        waiting = [json.loads(change.content) for change in self._list_waiting(dataset.id)]
        for name in [dataset.folder, *(content["folder"] for content in waiting if "folder" in content)]:
            for part in self.storage.about(name).parts:
                if part.subjects is None:
                    continue
                if part.subjects[0] not in pseudonyms:
                    raise SigningError(f"the private key {part.subjects[0]} is not here; persons are under it")
                pseudonym = np.void(pseudonyms[part.subjects[0]])
                if (part.read_subjects(self.storage.root / name) == pseudonym).any():
                    return True
        return False

    # --- Cuts

    def cut_due(self, note_failure: Callable[[Dataset], None] = lambda _: None) -> list[Dataset]:
        """Cut every dataset that is due, and overwrite ended rows; return the new versions.

        One that fails is noted and tried again: it does not keep the others from theirs.
        """
        done: list[Dataset] = []
        if self.ledger.guard.reason():
            return done
        with self.storage.cutting() as alone:
            if not alone:
                return done
            due = [dataset for dataset in self._list_open() if self.due(dataset) <= timestamp(self.now())]
            if due:
                self._check_engine()
                with self.ending_after(RECALL_S):
                    self._recall_lost()
            for dataset in due:
                try:
                    done.append(self.cut(dataset))
                except _Overtaken:
                    continue
                except Exception as error:  # whatever it is, it keeps no other dataset waiting
                    log_without_data(f"the cut of {dataset.name}, which is tried again", error)
                    note_failure(dataset)
                    if self.calendar.is_overdue(dataset.cut_at):
                        log.warning("dataset %s: its cut is overdue; nothing is released until then", dataset.name)
            self.storage.sweep(self.datasets.list_folders)
        return done

    def _check_engine(self) -> None:
        try:
            self.check_engine()
        except SelfTestError as error:
            self.ledger.guard.seal(str(error))
            raise

    def cut(self, dataset: Dataset) -> Dataset:
        """Write the next version of a dataset, or let it end."""
        folder = f"{dataset.id}.{secrets.token_hex(6)}"
        with self.datasets.writing(folder):
            with self.ending_after(cut_duration_s(dataset.manifest)):
                asked = self._list_waiting(dataset.id)
                prepared = self._prepare(dataset, folder, [change for change in asked if change.act != RETIRE])
                self.database.write_back()
            with self.ledger.unit() as ledger:
                cut, receipt = self._publish(ledger, dataset, folder, prepared)
            self.storage.confirm(folder)
        self.ledger.guard.anchor_before_send(receipt, just_written=True)
        self.database.forget_deleted()
        log.info("dataset %s: version %d", cut.name, cut.version)
        ends = next((change for change in asked if change.act == RETIRE), None)
        return cut if ends is None else self._end(cut, ends)

    def _prepare(self, dataset: Dataset, folder: str, waiting: list[Change]) -> "_Prepared":
        """Write the rows of a version, and all that does not have the same size whatever was asked."""
        written, version = self._rewrite(dataset, folder, waiting), dataset.version + 1
        done = (*self._list_erasures(dataset), *(change.id for change in waiting if change.act == ERASE))
        about = About(written.persons, (written.part,), secrets.token_hex(32), version, done)
        self.storage.describe(folder, about)
        of = Version(dataset.id, dataset.population, version)
        marks = self.datasets.likeness.mark(of, written.part.values_digest, written.sketch)
        return _Prepared(about.commitment, marks, tuple(waiting))

    def _rewrite(self, dataset: Dataset, folder: str, waiting: list[Change]) -> Rewritten:
        rows = list_rows(dataset, waiting)
        for name, commitment, _gone in rows:
            if not self.storage.holds(name, dataset.manifest, commitment):
                raise RowsUnreadable  # damage that is known stays known: nothing commits to it anew
        plan = Plan(
            dataset.manifest,
            [(name, gone) for name, _commitment, gone in rows],
            keeps_null_rows=dataset.adjacency is Adjacency.REPLACE_ONE,
        )
        return rewrite(self.storage, folder, plan, self.datasets.likeness.sketcher())

    def _publish(self, ledger: Ledger, dataset: Dataset, folder: str, prepared: "_Prepared") -> tuple[Dataset, Receipt]:
        """Make a version the present one: the same statements and bytes, whatever has changed."""
        version, moment = dataset.version + 1, self.calendar.last
        said = _state(dataset, moment, snapshot=prepared.commitment, version=str(version))
        receipt = ledger.note(dataset.population, said)
        cut = replace(
            dataset,
            commitment=prepared.commitment,
            folder=folder,
            version=version,
            sequence=receipt.signed.checkpoint.sequence,
            cut_at=moment,
        )
        if not repository.put_version(ledger.connection, cut, dataset.commitment):
            raise _Overtaken
        of = Version(dataset.id, dataset.population, version)
        asked = {"is_forgetting": ERASE in prepared.acts, "is_replaced": REPLACE in prepared.acts}
        self.datasets.likeness.renew(ledger.connection, of, prepared.marks, **asked)
        if repository.apply_changes(ledger.connection, dataset.id, prepared.last, version) != len(prepared.changes):
            raise _Overtaken  # one was withdrawn meanwhile
        self.storage.publish(folder)
        return cut, receipt

    def _end(self, dataset: Dataset, change: Change) -> Dataset:
        """Let a dataset end; what its rows are recognised by stays, for its people were charged."""
        moment, successor = self.calendar.last, json.loads(change.content)["successor"]
        said = _state(dataset, moment, snapshot=dataset.commitment, ended=moment)
        with self.ledger.unit() as ledger:
            receipt = ledger.note(dataset.population, said)
            if not repository.retire(ledger.connection, dataset.id, moment, successor):
                raise _Overtaken
            if not repository.apply_change(ledger.connection, change.id, dataset.version):
                raise _Overtaken  # it was withdrawn meanwhile
            of = Version(dataset.id, dataset.population, dataset.version)
            self.datasets.likeness.forget_subjects(ledger.connection, of)
        self.ledger.guard.anchor_before_send(receipt, just_written=True)
        self.database.forget_deleted()
        return replace(dataset, retired_at=moment, successor=successor)


def _withdrawn_by(withdrawal: Change) -> str:
    return str(json.loads(withdrawal.content)["of"])


def _state(dataset: Dataset, moment: str, *, snapshot: str, **members: str) -> DatasetEntry:
    return DatasetEntry(
        actor="curator",
        time=moment,
        dataset=dataset.name,
        dataset_id=dataset.id,
        manifest_digest=dataset.manifest_digest,
        snapshot=snapshot,
        **members,
    )
