"""Audit of releases, charges and datasets: stored rows against the entries of the chain."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.datasets.repository import Dataset, list_datasets
from curator_service.datasets.service import DatasetService
from curator_service.datasets.visibility import collection_of
from curator_service.entries.amounts import Answered, Charge, Derive
from curator_service.entries.base import Entry, Event
from curator_service.entries.rows import Dataset as DatasetEntry
from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import AnyKind, KindRegistry
from curator_service.kit.caches import cache_short
from curator_service.kit.db import Connection
from curator_service.kit.problems import NotFound, RequestInvalid
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.chain.verification import Verification
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.service import LedgerService
from curator_service.privacy.accountant import Accountant
from curator_service.releases import catalogue, repository
from curator_service.releases.answers import Answer, divide, make_listing, read_member, read_noise, write_again
from curator_service.releases.catalogue import ListedRelease, Place, Shelves
from curator_service.releases.charges import Stated, agrees_with_charge, recompute_cost
from curator_service.releases.library import cut, is_source, least_sd
from curator_service.releases.rendering import Form, answer_digest, render_free, render_opening
from curator_service.releases.repository import StoredRelease
from curator_service.releases.table_statements import TableStatements

_ANY_PRICE = {"mu": 1.0}
"""The price decides how much noise there is for it, and nothing else."""
_MALFORMED = (RequestInvalid, ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError)


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is stored and differs from what the chain says of it, with the sequence where it does."""

    what: str
    sequence: int | None = None


def verify(
    ledger: LedgerService, datasets: DatasetService, kinds: KindRegistry, population: str
) -> tuple[Verification, list[Discrepancy]]:
    """Verify a chain, and what is stored against it, in one consistent read and one pass.

    Rows that are renewed while it goes on are deleted under it: it begins again then.

    Returns
    -------
    tuple of (Verification, list of Discrepancy)
        Of a chain that does not hold, what is stored is not told.

    Raises
    ------
    NotFound, SigningError
    """
    while True:
        with ledger.database.snapshot() as connection:
            audit = StoredReleaseAudit(connection, datasets, kinds, population)
            chain = ledger.verify_within(connection, population, watch=audit.watch)
            found = audit.end() if chain.ok else []
        if not any(map(datasets.is_renewed, audit.unlike)):
            return chain, found


class StoredReleaseAudit:
    """Holds what is stored against a chain, entry by entry.

    What it names: ids of releases that are not the answer that their entry states, or hold anything but what their
    request does; where a block is not cut out of the release that its entry names, ``the source of ID``; where the
    library would not find one as it is, ``the listing of ID``; entries whose release is gone, as ``sequence N``;
    charges of another amount than their own mechanism costs, as ``the cost of sequence N``; charges that state another
    sensitivity than follows from manifest and request, as ``the sensitivities of sequence N``; charges for a dataset
    that the chain had not registered by then, or for rows that had ended, as ``the dataset of sequence N``; what an
    entry says of who acted, why and when where a table says otherwise, as ``the MEMBER of sequence N``; last,
    datasets whose manifest or snapshot is not the one that was registered last, as ``dataset NAME``, and those whose
    stored rows or sums are not the registered ones, or are gone, as ``the rows of dataset NAME``.

    Parameters
    ----------
    connection : Connection
        Of one consistent read.

    Attributes
    ----------
    unlike : list of Dataset
        Those whose rows are not the registered ones.
    """

    def __init__(self, connection: Connection, datasets: DatasetService, kinds: KindRegistry, population: str) -> None:
        self.unlike: list[Dataset] = []
        account = find_population(connection, population)
        if account is None:
            raise NotFound("There is no population of this name.")
        self._account, self._datasets, self._kinds = account, datasets, kinds
        self._known = {dataset.id: dataset for dataset in list_datasets(connection, granted_to=None)}
        self._tables = TableStatements(connection, self._known.values())
        self._answers = _Answers(connection, account, kinds, self._known)
        self._releases = catalogue.iterate_listed(connection, population)
        self._next = next(self._releases, None)
        self._registered: dict[str, tuple[str, str, str]] = {}
        self._current: dict[str, str] = {}
        self._snapshots: set[tuple[str, str]] = set()
        self._found: list[Discrepancy] = []

    def watch(self, _stored: StoredEntry, entry: Entry[Event]) -> None:
        """Hold what is stored against the next entry."""
        said, sequence = entry.said, entry.place.sequence
        release = self._take(sequence)
        for member in self._tables.list_faults(entry):
            self._name(f"the {member} of sequence {sequence}", sequence)
        if isinstance(said, Answered):
            self._watch_answered(Entry(entry.place, said), release)
        elif release is not None:
            self._name(release.id, sequence)
        if isinstance(said, DatasetEntry):
            self._registered[said.dataset_id] = (said.dataset, said.manifest_digest, said.snapshot)
            self._current[said.dataset] = said.snapshot
            self._snapshots.add((said.dataset, said.snapshot))

    def end(self) -> list[Discrepancy]:
        """Return what was found, by sequence; then hold datasets and their rows against the chain."""
        while self._next is not None:
            self._take(self._next.sequence + 1)
        found = sorted(self._found, key=lambda found: found.sequence or 0)
        for dataset in self._known.values():
            if dataset.population != self._account.name:
                continue
            if self._registered.get(dataset.id) != (dataset.name, dataset.manifest_digest, dataset.commitment):
                found.append(Discrepancy(f"dataset {dataset.name}"))
            if not self._datasets.holds(dataset):
                self.unlike.append(dataset)
                found.append(Discrepancy(f"the rows of dataset {dataset.name}"))
        return found

    def _take(self, sequence: int) -> ListedRelease | None:
        """Return the release of an entry; name those before it, which have none."""
        while self._next is not None and self._next.sequence < sequence:
            self._name(self._next.id, self._next.sequence)
            self._next = next(self._releases, None)
        found = self._next
        if found is None or found.sequence != sequence:
            return None
        self._next = next(self._releases, None)
        return found

    def _name(self, what: str, sequence: int) -> None:
        self._found.append(Discrepancy(what, sequence))

    def _watch_answered(self, entry: Entry[Answered], release: ListedRelease | None) -> None:
        said, sequence = entry.said, entry.place.sequence
        if isinstance(said, Charge):
            if not _is_charged_right(self._kinds, said, int(entry.place.units), self._account.accountant):
                self._name(f"the cost of sequence {sequence}", sequence)
            is_registered = self._current.get(said.dataset) == said.snapshot
        else:  # what was released before may be cut out of rows that have ended
            is_registered = (said.dataset, said.snapshot) in self._snapshots
        if not is_registered:
            self._name(f"the dataset of sequence {sequence}", sequence)
        fault = f"sequence {sequence}" if release is None else self._answers.find_fault(release, entry)
        if fault:
            self._name(fault, sequence)


class _Asked:
    """Consequences of a dataset, a kind and a request, without a price: found once for all equal requests."""

    def __init__(self, dataset: Dataset, kind: AnyKind, text: bytes) -> None:
        asked = from_json(text)
        self._dataset, self._kind = dataset, kind
        self._request = kind.request_model.model_validate({**asked, "price": _ANY_PRICE})
        if self._request.model_dump(mode="json", include={*kind.asked}, exclude_none=True) != asked:
            raise ValueError("the request is not stated in full, or more than in full")
        self.listing = kind.listing(asked, dataset.manifest.by_name, "", {})
        self.form = Form(kind, self.listing)

    @cached_property
    def stated(self) -> Stated:
        """Sensitivities that a charge must state; `RequestInvalid` where none follow."""
        return Stated.of(*self._kind.bounds(self._dataset, self._request))


class _Answers:
    """Check of stored answers, with the parts that many of them have in common."""

    def __init__(
        self, connection: Connection, account: Population, kinds: KindRegistry, known: Mapping[str, Dataset]
    ) -> None:
        self._connection, self._kinds, self._known = connection, kinds, known
        self._free = to_json(render_free(account)).decode()
        self._shelves = Shelves(connection)
        self._find_asked = cache_short(maxsize=1024)(
            lambda dataset_id, kind, text: _Asked(known[dataset_id], kinds[kind], text)
        )
        self._read_request = cache_short(maxsize=4096)(self._read_request_anew)
        self._source = lru_cache(maxsize=4)(self._find_source)

    def find_fault(self, release: ListedRelease, entry: Entry[Answered]) -> str:
        """Return what is wrong with a release that an entry states, or nothing."""
        if not _is_stated(release, entry.said):
            return release.id
        fault = self._find_fault(release, entry, release.answer)
        if fault:
            try:
                again = write_again(release.answer, self._kinds[entry.said.release_kind])
                fault = self._find_fault(release, entry, again)
            except _MALFORMED:
                fault = release.id
        return fault

    def _find_fault(self, release: ListedRelease, entry: Entry[Answered], text: str) -> str:
        said = entry.said
        try:
            dataset, kind = self._known[release.dataset_id], self._kinds[said.release_kind]
            answer = divide(text, kind)
            asked = self._read_request(dataset.id, kind.name, answer.request)
            if not self._is_backed(release, kind, answer, entry, asked):
                return release.id
            distribution, sd = read_noise(answer.noise)
            source = answer.derived_from
            listing = replace(asked.listing, distribution=distribution, sd=sd, derived_from=source)
            place = Place(release.id, dataset.id, collection_of(dataset, said.actor), release.sequence)
            own = catalogue.make_row(place, listing, least_sd(kind, listing), answer.noise, answer.summary)
        except _MALFORMED:
            return release.id
        if isinstance(said, Derive) and not self._is_block(dataset, kind, answer, Entry(entry.place, said)):
            return f"the source of {release.id}"
        if not (
            catalogue.is_listed(release.listing, own)
            and (
                isinstance(said, Derive)
                or self._shelves.hold(place.collection, kind.name, release.sequence, listing.columns)
            )
        ):
            return f"the listing of {release.id}"
        if isinstance(said, Charge) and not _states_sensitivities(asked, kind, said):
            return f"the sensitivities of sequence {release.sequence}"
        return ""

    def _read_request_anew(self, dataset_id: str, kind: str, text: str) -> _Asked:
        request, members = read_member(text), self._kinds[kind].asked
        if not _is_request(request, members):
            raise ValueError("a request has other members")
        stated = {name: request[name] for name in members if name in request}
        asked: _Asked = self._find_asked(dataset_id, kind, to_json(stated))
        return asked

    def _is_backed(
        self, release: ListedRelease, kind: AnyKind, answer: Answer, entry: Entry[Answered], asked: _Asked
    ) -> bool:
        """Tell whether an answer is about its dataset, at the price of its entry, and holds all that was asked."""
        name, said = self._known[release.dataset_id].name, entry.said
        return (
            said.dataset == name
            and answer.opening == f"{{{render_opening(release.id, name, kind.name, said.time)}"
            and asked.form.fits(answer)
            and (
                agrees_with_charge(kind, answer, said, entry.place.units) and answer.derived_from is None
                if isinstance(said, Charge)
                else answer.cost == self._free and answer.derived_from is not None
            )
        )

    def _is_block(self, dataset: Dataset, kind: AnyKind, answer: Answer, entry: Entry[Derive]) -> bool:
        """Tell whether a block equals the part cut out of the charged release that its entry names, if it may."""
        said = entry.said
        try:
            statistics, stored, source = self._source(said.source)
            charged = source.said
            asked = _listing(kind, dataset, answer)
            collection, owner = (collection_of(dataset, one.actor) for one in (said, charged))
            if not (
                answer.derived_from == f'"{said.source}"'
                and isinstance(charged, Charge)
                and self._kinds[charged.release_kind] is kind
                and (charged.dataset, charged.snapshot) == (said.dataset, said.snapshot)
                and source.place.sequence < entry.place.sequence
                and asked.shelf(collection) == stored.shelf(owner)
                and is_source(kind, stored, asked)
            ):
                return False
            block, held = cut(kind, stored, asked, statistics), from_json(answer.statistics)
            own = {name: {member: part[member] for member in block.statistics[name]} for name, part in held.items()}
        except _MALFORMED:
            return False
        return (own, asked.sd, asked.distribution) == (block.statistics, block.sd, block.distribution)

    def _find_source(self, release_id: str) -> tuple[dict[str, Any], Listing, Entry[Answered]]:
        """Return the statistics of a release, its listing, and its entry."""
        release = repository.find_release(self._connection, release_id)
        if release is None or not is_stated(release):
            raise ValueError("there is no such release, or it is not what its entry states")
        entry = release.read_entry()
        kind = self._kinds[entry.said.release_kind]
        answer = divide(write_again(release.answer, kind), kind)
        return from_json(answer.statistics), _listing(kind, self._known[release.dataset_id], answer), entry


def _listing(kind: AnyKind, dataset: Dataset, answer: Answer) -> Listing:
    about = {"request": read_member(answer.request), "noise": read_member(answer.noise)}
    return make_listing(kind, dataset, about | {"derived_from": answer.derived_from})


def is_stated(release: StoredRelease) -> bool:
    """Tell whether a stored answer is the one that its entry states."""
    return _is_stated(release, release.read_entry().said)


def _is_stated(release: StoredRelease | ListedRelease, said: Event) -> bool:
    return isinstance(said, Answered) and (said.release, said.request_digest, said.answer_digest) == (
        release.id,
        release.request_digest,
        answer_digest(release.answer),
    )


def _is_request(request: Mapping[str, Any], members: tuple[str, ...]) -> bool:
    """Tell whether a request has a price, and no member that requests do not have; `_Asked` looks at the others."""
    price = request["price"]
    return (
        request.keys() <= {*members, "price", "fresh"}
        and type(request["fresh"]) is bool
        and price.keys() in _NOTIONS
        and set(map(type, price.values())) <= {float, int}
    )


_NOTIONS: tuple[set[str], ...] = ({"mu"}, {"rho"}, {"epsilon"}, {"epsilon", "delta"})


def _is_charged_right(kinds: KindRegistry, said: Charge, units: int, accountant: Accountant) -> bool:
    """Account for a charge again, from the integers of its mechanism."""
    try:
        return recompute_cost(kinds, said, accountant) == units
    except _MALFORMED:
        return False


def _states_sensitivities(asked: _Asked, kind: AnyKind, said: Charge) -> bool:
    """Tell whether a charge states the sensitivities of the manifest and its answer's request."""
    try:
        return asked.stated.agrees(kind, said)
    except _MALFORMED:
        return False
