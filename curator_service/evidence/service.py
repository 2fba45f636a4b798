"""Gathering evidence: every entry that a pack quotes is attested, and read in one consistent look."""

import json
import re
from collections.abc import Sequence
from typing import Any

from curator_service.datasets.repository import Dataset, find_dataset_by_id
from curator_service.datasets.service import DatasetService
from curator_service.datasets.subjects import find_identified
from curator_service.entries.account import Unfounded
from curator_service.entries.base import Entry as ReadEntry
from curator_service.entries.sessions import AnswerQuestion, CloseSession, OpenSession
from curator_service.entries.terms import PERMIT
from curator_service.entries.told import Told
from curator_service.evidence.facts import Entry, Evidence, PermitFacts, ReleaseFacts, SessionFacts
from curator_service.identity.people import People
from curator_service.identity.policy import Action, Objects, allowed_objects
from curator_service.identity.repository import Principal, list_principals
from curator_service.kinds.registry import KindRegistry
from curator_service.kinds.wording import describe_rows
from curator_service.kit.db import Connection, Database
from curator_service.kit.problems import NotFound
from curator_service.ledger import repository as accounts
from curator_service.ledger.chain.entries import Receipt, StoredEntry
from curator_service.ledger.chain.keys import PublicKey, list_keys
from curator_service.ledger.repository import Population
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.guard import unverified
from curator_service.releases.answers import make_listing, read_about
from curator_service.releases.audit import is_stated
from curator_service.releases.repository import StoredRelease, find_release
from curator_service.releases.service import ReleaseService

_PERMIT_ID = re.compile(r"prm_[0-9a-f]{24}")
_RELEASED = ("charge", "derive")
_OF_SESSIONS = ("session", "answer", "close", "dataset", "reconcile")
"""Kinds of entries that open a threshold session, answer in one, or end one."""


class EvidenceError(ValueError):
    """No evidence can be given; the message says why, for the operator."""


class EvidenceService:
    """Evidence of releases and permits."""

    def __init__(
        self,
        database: Database,
        ledger: LedgerService,
        releases: ReleaseService,
        datasets: DatasetService,
        kinds: KindRegistry,
        people: People,
    ) -> None:
        self.database = database
        self.ledger = ledger
        self.releases = releases
        self.datasets = datasets
        self.kinds = kinds
        self.people = people

    def gather_release(
        self, release_id: str, *, with_answers: bool = True, reader: Principal | None = None
    ) -> Evidence:
        """Return the evidence of a release.

        Parameters
        ----------
        with_answers : bool
            Whether the pack holds the released numbers.
        reader : Principal, optional
            For whom it is; the caller has checked that they may read it. A permit is theirs to see by their role, or if
            they may spend under it. None is the operator.

        Raises
        ------
        NotFound, LedgerUnverified
        """
        self.ledger.guard.check_open()
        stored, names = self.releases.get_release(release_id), self._list_names()
        with self.database.snapshot() as connection:
            release = self._read_release(connection, stored, with_answer=with_answers)
            populations = [release.entry.population]
            permit: PermitFacts | None = self._read_permit(connection, release.entry.says[PERMIT], populations)
            if permit is not None and reader is not None and not _may_see(reader, permit):
                permit, names = None, {reader.id: names[reader.id]}
            return self._gather(
                connection, release_id, (release,), permit, populations, names, [release.dataset],
                has_answers=with_answers,
            )  # fmt: skip

    def gather_permit(self, permit_id: str, *, with_answers: bool = False) -> Evidence:
        """Return the evidence of a permit and of every release under it.

        Raises
        ------
        NotFound, LedgerUnverified
        """
        self.ledger.guard.check_open()
        names = self._list_names()
        with self.database.snapshot() as connection:
            populations = [one.name for one in accounts.list_populations(connection)]
            known = _PERMIT_ID.fullmatch(permit_id) is not None
            permit = self._read_permit(connection, permit_id, populations) if known else None
            if permit is None or not permit.entries:
                raise NotFound("There is no permit of this id.")
            populations = list(permit.highest_limits)
            releases = tuple(
                self._read_release(connection, self._find_release(connection, entry), with_answer=with_answers)
                for population in populations
                for entry in self._list_released(connection, population, permit_id)
            )
            sessions = [one for name in populations for one in self._list_sessions(connection, name, permit_id)]
            used = {key for entry in permit.entries for key in entry.says["datasets"]}
            datasets = [find_dataset_by_id(connection, key, granted_to=None) for key in used]
            return self._gather(
                connection, permit_id, releases, permit, populations, names,
                [dataset for dataset in datasets if dataset is not None],
                sessions, has_answers=with_answers,
            )  # fmt: skip

    def _list_names(self) -> dict[str, str]:
        """Return how principals are called, by id."""
        with self.database.read() as connection:
            ids = [one.id for one in list_principals(connection)]
        return {key: person.label for key, person in zip(ids, self.people.look().find_all(ids), strict=True)}

    def verify(self, evidence: Evidence) -> None:
        """Verify the chains that evidence is of as a whole, every signature included: for whoever has the machine.

        Raises
        ------
        EvidenceError
        """
        for population in evidence.accounts:
            found = self.ledger.verify(population)
            if not found.ok:
                raise EvidenceError(f"the ledger of {population!r} does not hold: {found.reason}")

    def _gather(
        self,
        connection: Connection,
        subject: str,
        releases: tuple[ReleaseFacts, ...],
        permit: PermitFacts | None,
        populations: Sequence[str],
        names: dict[str, str],
        datasets: Sequence[Dataset],
        sessions: Sequence[SessionFacts] = (),
        *,
        has_answers: bool,
    ) -> Evidence:
        heads = [self._read_head(connection, population) for population in populations]
        for _, head in heads:
            self.ledger.guard.anchor_before_send(head.receipt)
        quoted = [entry for release in releases for entry in (release.entry, release.charge)]
        quoted += [entry for one in sessions for entry in one.list_files(has_answers=has_answers).values()]
        quoted += [] if permit is None else permit.entries
        if permit is not None:
            names = permit.people | names
        return Evidence(
            subject=subject,
            is_of_permit=subject.startswith("prm_"),
            as_of=max(entry.time for _, entry in heads),
            releases=releases,
            permit=permit,
            accounts={account.name: account for account, _ in heads},
            names=names,
            keys=_needed(list_keys(connection), {entry.says["key_id"] for entry in quoted}),
            has_answers=has_answers,
            datasets=tuple(sorted(datasets, key=lambda dataset: dataset.name)),
            identified=find_identified(self.datasets.storage, datasets),
            sessions=tuple(sessions),
        )

    def _read_head(self, connection: Connection, population: str) -> tuple[Population, Entry]:
        """Return an account and the last entry of its chain, which says the same."""
        account, head = accounts.find_population(connection, population), accounts.find_head(connection, population)
        assert account is not None
        assert head is not None
        entry = self._attest(population, head)
        said = tuple(int(entry.says[name]) for name in ("limit", "posted", "pending"))
        if said != (account.limit, account.posted, account.pending):
            raise unverified()
        return account, entry

    def _attest(self, population: str, stored: StoredEntry) -> Entry:
        """Return an entry that this curator signed; seal the curator where it did not."""
        self.ledger.guard.check_attested(population, stored)
        return Entry(Receipt(stored.payload_text, stored.entry_hash, stored.signature))

    def _read_permit(self, connection: Connection, permit_id: str, populations: Sequence[str]) -> PermitFacts:
        entries, spent = [], {}
        for population in populations:
            found = accounts.iterate_kind(connection, population, PERMIT)
            own = [one for one in found if json.loads(one.payload_text)[PERMIT] == permit_id]
            entries += [self._attest(population, one) for one in own]
            share = accounts.find_share(connection, population, permit_id)
            if own and share is not None:
                spent[population] = share.posted + share.pending
        return PermitFacts(permit_id, tuple(entries), spent)

    def _list_released(self, connection: Connection, population: str, permit_id: str) -> list[Entry]:
        found = [entry for kind in _RELEASED for entry in accounts.iterate_kind(connection, population, kind)]
        own = [one for one in found if json.loads(one.payload_text).get(PERMIT) == permit_id]
        return [self._attest(population, one) for one in sorted(own, key=lambda one: one.sequence)]

    def _list_sessions(self, connection: Connection, population: str, permit_id: str) -> list[SessionFacts]:
        """Return the threshold sessions of a permit, as the chain has them."""
        stored = [one for kind in _OF_SESSIONS for one in accounts.iterate_kind(connection, population, kind)]
        told, own = Told(population), dict[str, list[Entry]]()
        try:
            for one in sorted(stored, key=lambda one: one.sequence):
                said = ReadEntry.read(json.loads(one.payload_text)).said
                said.tell(told)
                if isinstance(said, OpenSession) and said.permit == permit_id:
                    own[said.session] = []
                if isinstance(said, OpenSession | AnswerQuestion | CloseSession) and said.session in own:
                    own[said.session].append(self._attest(population, one))
        except (ValueError, KeyError, TypeError, Unfounded):
            raise unverified() from None
        return [
            SessionFacts(
                opened,
                tuple(entry for entry in rest if entry.says["kind"] == AnswerQuestion.kind),
                next((entry for entry in rest if entry.says["kind"] == CloseSession.kind), None),
                is_open=session in told.sessions,
            )
            for session, (opened, *rest) in own.items()
        ]

    def _find_release(self, connection: Connection, entry: Entry) -> StoredRelease:
        release = find_release(connection, entry.says["release"])
        if release is None or release.sequence != entry.sequence or not is_stated(release):
            raise unverified()
        return release

    def _read_release(self, connection: Connection, stored: StoredRelease, *, with_answer: bool) -> ReleaseFacts:
        entry = self._attest(stored.population, stored.entry)
        dataset = find_dataset_by_id(connection, stored.dataset_id, granted_to=None)
        assert dataset is not None
        source = None
        if "source" in entry.says:
            charged = find_release(connection, entry.says["source"])
            if charged is None or charged.population != stored.population:
                raise unverified()
            source = self._attest(charged.population, charged.entry)
        kind = self.kinds[entry.says["release_kind"]]
        about, body = read_about(stored.answer), stored.body if with_answer else b""
        return ReleaseFacts(
            id=stored.id,
            entry=entry,
            source=source,
            dataset=dataset,
            kind=kind.name,
            answer=_read_shapes(stored.answer),
            body=body,
            columns=make_listing(kind, dataset, about).columns,
            asked=kind.describe_question(about["request"]) + describe_rows(about["request"]),
            words=kind.words,
        )


def _read_shapes(answer: str) -> dict[str, Any]:
    """Read an answer, of its statistics the shapes alone."""
    content: dict[str, Any] = json.loads(answer)
    shapes = {
        name: {"shape": part["shape"], "numbers": len(part["values"])} for name, part in content["statistics"].items()
    }
    return content | {"statistics": shapes}


def _may_see(reader: Principal, permit: PermitFacts) -> bool:
    return reader.id in permit.people or allowed_objects(reader.roles, Action.READ_PERMIT) is Objects.ALL


def _needed(keys: Sequence[PublicKey], signing: set[str]) -> tuple[PublicKey, ...]:
    """Return the keys from the first one to the last that signed."""
    places = [place for place, key in enumerate(keys) if key.key_id in signing]
    return tuple(keys[: max(places, default=0) + 1])
