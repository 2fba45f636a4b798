"""Whether what is stored is what the chain says: releases, charges and datasets against their entries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from pydantic_core import from_json, to_json

from curator_service.datasets.repository import Dataset, list_datasets
from curator_service.datasets.service import DatasetService
from curator_service.datasets.visibility import collection_of
from curator_service.kinds.gram.library import is_block
from curator_service.kinds.gram.listing import Listing
from curator_service.kit.db import Connection
from curator_service.kit.problems import NotFound, RequestInvalid
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.chain.verification import Verification
from curator_service.ledger.repository import Population, find_population
from curator_service.ledger.service import LedgerService
from curator_service.privacy.accountant import Accountant
from curator_service.releases import catalogue, repository
from curator_service.releases.answers import Answer, divide, read_member, read_noise, write_again
from curator_service.releases.catalogue import ListedRelease, Shelves
from curator_service.releases.preparation import derive_stated
from curator_service.releases.rendering import (
    Form,
    Stated,
    agrees_with_charge,
    answer_digest,
    recompute_cost,
    render_free,
    render_opening,
)
from curator_service.releases.repository import StoredRelease
from curator_service.releases.schemas import ReleaseRequest

_ASKED = ("kind", "features", "targets", "intercept", "rows", "statistics", "mechanism", "calibration", "shares")
"""Members of a canonical request; the price decides how much noise there is for it, and nothing else."""
_REQUEST = frozenset({*_ASKED, "price", "fresh"})
_ANY_PRICE = {"mu": 1.0}
_MALFORMED = (RequestInvalid, ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError)


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Something that is stored and differs from what the chain says of it, with the sequence where it does."""

    what: str
    sequence: int | None = None


def verify(ledger: LedgerService, datasets: DatasetService, population: str) -> tuple[Verification, list[Discrepancy]]:
    """Verify a chain, and what is stored against it, in one consistent read and one pass.

    Returns
    -------
    tuple of (Verification, list of Discrepancy)
        Of a chain that does not hold, what is stored is not told.

    Raises
    ------
    NotFound, SigningError
    """
    with ledger.database.snapshot() as connection:
        audit = StoredReleaseAudit(connection, datasets, population)
        chain = ledger.verify_within(connection, population, watch=audit.watch)
        return chain, audit.end() if chain.ok else []


class StoredReleaseAudit:
    """Holds what is stored against a chain, entry by entry.

    What it names: ids of releases that are not the answer that their entry states, or hold anything but what their
    request does; where a block is not cut out of the release that its entry names, ``the source of ID``; where the
    library would not find one as it is, ``the listing of ID``; entries whose release is gone, as ``sequence N``;
    charges of another amount than their own mechanism costs, as ``the cost of sequence N``; charges that state another
    sensitivity than follows from manifest and request, as ``the sensitivities of sequence N``; charges for a dataset
    that the chain had not registered by then, as ``the dataset of sequence N``; last, datasets whose manifest or
    snapshot is not the registered one, as ``dataset NAME``, and those whose stored rows or sums are not the registered
    ones, or are gone, as ``the rows of dataset NAME``.

    Parameters
    ----------
    connection : Connection
        Of one consistent read.
    datasets : DatasetService
    population : str
    """

    def __init__(self, connection: Connection, datasets: DatasetService, population: str) -> None:
        account = find_population(connection, population)
        if account is None:
            raise NotFound("There is no population of this name.")
        self._account, self._datasets = account, datasets
        self._known = {dataset.id: dataset for dataset in list_datasets(connection, granted_to=None)}
        self._answers = _Answers(connection, account, self._known)
        self._releases = catalogue.iterate_listed(connection, population)
        self._next = next(self._releases, None)
        self._registered: set[tuple[str, str, str]] = set()
        self._snapshots: set[tuple[str, str]] = set()
        self._found: list[Discrepancy] = []

    def watch(self, entry: StoredEntry, facts: dict[str, Any]) -> None:
        """Hold what is stored against the next entry."""
        kind, release = facts["kind"], self._take(entry.sequence)
        if kind in {"charge", "derive"}:
            self._watch_answered(entry.sequence, facts, release)
        elif release is not None:
            self._name(release.id, entry.sequence)
        if kind == "dataset":
            self._registered.add((facts["dataset"], facts["manifest_digest"], facts["snapshot"]))
            self._snapshots.add((facts["dataset"], facts["snapshot"]))

    def end(self) -> list[Discrepancy]:
        """Return what was found, by sequence; then hold datasets and their rows against the chain."""
        while self._next is not None:
            self._take(self._next.sequence + 1)
        found = sorted(self._found, key=lambda found: found.sequence or 0)
        for dataset in self._known.values():
            if dataset.population != self._account.name:
                continue
            if (dataset.name, dataset.manifest_digest, dataset.commitment) not in self._registered:
                found.append(Discrepancy(f"dataset {dataset.name}"))
            if not self._datasets.holds(dataset):
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

    def _watch_answered(self, sequence: int, facts: dict[str, Any], release: ListedRelease | None) -> None:
        if facts["kind"] == "charge" and not _is_charged_right(facts, self._account.accountant):
            self._name(f"the cost of sequence {sequence}", sequence)
        if (facts.get("dataset"), facts.get("snapshot")) not in self._snapshots:
            self._name(f"the dataset of sequence {sequence}", sequence)
        fault = f"sequence {sequence}" if release is None else self._answers.find_fault(release, facts)
        if fault:
            self._name(fault, sequence)


class _Asked:
    """What follows from a dataset and a request, its price aside: found once for all that ask the same."""

    def __init__(self, dataset: Dataset, text: bytes) -> None:
        asked = from_json(text)
        self._dataset = dataset
        self._request = ReleaseRequest.model_validate({**asked, "price": _ANY_PRICE})
        if self._request.model_dump(mode="json", include={*_ASKED}) != asked:
            raise ValueError("the request is not stated in full, or more than in full")
        self._listing = Listing(asked, dataset.manifest.by_name, "", {})
        self.columns = self._listing.columns
        self.form = Form(self._listing)

    @cached_property
    def stated(self) -> Stated:
        """What a charge must state of its sensitivities; `RequestInvalid` where none follow."""
        return Stated.of(*derive_stated(self._dataset, self._request))

    def place(self, collection: str, distribution: str) -> tuple[str, str]:
        """Return on which shelf the catalogue has a release of it, and with which members."""
        listing = replace(self._listing, distribution=distribution)
        return listing.shelf(collection), listing.members(collection)


class _Answers:
    """What stored answers must be, with what many of them have in common."""

    def __init__(self, connection: Connection, account: Population, known: Mapping[str, Dataset]) -> None:
        self._connection, self._known = connection, known
        self._free = to_json(render_free(account)).decode()
        self._shelves = Shelves(connection)
        self._find_asked = lru_cache(maxsize=1024)(lambda dataset_id, text: _Asked(known[dataset_id], text))
        self._read_request = lru_cache(maxsize=4096)(self._read_request_anew)
        self._place = lru_cache(maxsize=4096)(_Asked.place)
        self._source = lru_cache(maxsize=32)(self._find_source)

    def find_fault(self, release: ListedRelease, facts: dict[str, Any]) -> str:
        """Return what is wrong with a release that an entry states, or nothing."""
        if not _is_stated(release, facts):
            return release.id
        fault = self._find_fault(release, facts, release.answer)
        if fault:
            try:
                fault = self._find_fault(release, facts, write_again(release.answer))
            except _MALFORMED:
                fault = release.id
        return fault

    def _find_fault(self, release: ListedRelease, facts: dict[str, Any], text: str) -> str:
        is_free = facts["kind"] == "derive"
        try:
            dataset, answer = self._known[release.dataset_id], divide(text)
            asked, noise = self._read_request(dataset.id, answer.request), read_noise(answer.noise)
            if not self._is_backed(release, answer, facts, asked):
                return release.id
            collection = collection_of(dataset, facts["actor"])
            shelf, members = self._place(asked, collection, noise.distribution)
        except _MALFORMED:
            return release.id
        if is_free and not self._is_block(dataset, answer, facts, shelf):
            return f"the source of {release.id}"
        place = (release.id, dataset.id, collection, release.sequence, "" if is_free else shelf, members)
        if not (
            catalogue.is_listed(release.listing, (*place, *noise.row, answer.summary))
            and (is_free or self._shelves.hold(collection, release.sequence, asked.columns))
        ):
            return f"the listing of {release.id}"
        if not is_free and not _states_sensitivities(asked, facts):
            return f"the sensitivities of sequence {release.sequence}"
        return ""

    def _read_request_anew(self, dataset_id: str, text: str) -> _Asked:
        request = read_member(text)
        if not _is_request(request):
            raise ValueError("a request has other members")
        asked: _Asked = self._find_asked(dataset_id, to_json({name: request[name] for name in _ASKED}))
        return asked

    def _is_backed(self, release: ListedRelease, answer: Answer, facts: Mapping[str, Any], asked: _Asked) -> bool:
        """Tell whether an answer is about its dataset, at the price of its entry, and holds what is asked."""
        name = self._known[release.dataset_id].name
        return (
            facts["dataset"] == name
            and answer.opening == f"{{{render_opening(release.id, name, facts['time'])}"
            and asked.form.fits(answer)
            and (
                answer.cost == self._free and answer.derived_from is not None
                if facts["kind"] == "derive"
                else agrees_with_charge(answer, facts) and answer.derived_from is None
            )
        )

    def _is_block(self, dataset: Dataset, answer: Answer, facts: Mapping[str, Any], shelf: str) -> bool:
        """Tell whether a block is what is cut out of the charged release that its entry names, and answers may be."""
        try:
            source, stored, shelf_of_source, charged = self._source(facts["source"])
            return (
                answer.derived_from == f'"{facts["source"]}"'
                and charged["kind"] == "charge"
                and all(charged[name] == facts[name] for name in ("dataset", "snapshot"))
                and charged["sequence"] < facts["sequence"]
                and shelf == shelf_of_source
                and is_block(_listing(dataset, answer), from_json(answer.statistics), stored, source)
            )
        except _MALFORMED:
            return False

    def _find_source(self, release_id: str) -> tuple[dict[str, Any], Listing, str, dict[str, Any]]:
        """Return the statistics of a release, what it is, its shelf, and what its entry says."""
        release = repository.find_release(self._connection, release_id)
        if release is None or not is_stated(release):
            raise ValueError("there is no such release, or it is not what its entry states")
        dataset, answer = self._known[release.dataset_id], divide(write_again(release.answer))
        facts, listing = from_json(release.receipt.payload), _listing(dataset, answer)
        return from_json(answer.statistics), listing, listing.shelf(collection_of(dataset, facts["actor"])), facts


def _listing(dataset: Dataset, answer: Answer) -> Listing:
    noise, source = read_noise(answer.noise), answer.derived_from
    return Listing(read_member(answer.request), dataset.manifest.by_name, noise.distribution, noise.sd, source)


def is_stated(release: StoredRelease) -> bool:
    """Tell whether a stored answer is the one that its entry states."""
    return _is_stated(release, json.loads(release.receipt.payload))


def _is_stated(release: StoredRelease | ListedRelease, facts: Mapping[str, Any]) -> bool:
    return (
        facts.get("release") == release.id
        and facts["request_digest"] == release.request_digest
        and facts["answer_digest"] == answer_digest(release.answer)
    )


def _is_request(request: Mapping[str, Any]) -> bool:
    """Tell whether a request has a price, and no member that requests do not have; `_Asked` looks at the others."""
    price = request["price"]
    return (
        request.keys() == _REQUEST
        and type(request["fresh"]) is bool
        and price.keys() in _NOTIONS
        and set(map(type, price.values())) <= {float, int}
    )


_NOTIONS: tuple[set[str], ...] = ({"mu"}, {"rho"}, {"epsilon"}, {"epsilon", "delta"})


def _is_charged_right(facts: Mapping[str, Any], accountant: Accountant) -> bool:
    """Account for a charge again, from the integers of its mechanism."""
    try:
        return recompute_cost(facts, accountant) == int(facts["units"])
    except _MALFORMED:
        return False


def _states_sensitivities(asked: _Asked, facts: Mapping[str, Any]) -> bool:
    """Tell whether a charge states what follows from the manifest and the request of its answer."""
    try:
        return asked.stated.agrees(facts)
    except _MALFORMED:
        return False
