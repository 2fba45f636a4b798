"""Whether what is stored is what the chain says: releases, charges and datasets against their entries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from curator_service.datasets.repository import Dataset
from curator_service.datasets.service import DatasetService
from curator_service.db import Database
from curator_service.ledger.repository import find_population, iterate_entries
from curator_service.privacy.accountant import Accountant
from curator_service.problems import RequestInvalid
from curator_service.releases import catalogue, repository
from curator_service.releases.library import is_block
from curator_service.releases.listings import listing_of
from curator_service.releases.preparation import derive_stated
from curator_service.releases.rendering import (
    Stated,
    account_again,
    agrees_with_charge,
    answer_digest,
    holds_what_is_asked,
)
from curator_service.releases.repository import StoredRelease
from curator_service.releases.schemas import ReleaseRequest

_DECIDES_SENSITIVITY = ("features", "targets", "intercept", "rows", "statistics", "mechanism")
"""Members of a canonical request; price, shares and calibration decide how much noise there is for it."""
_ANY_PRICE = {"mu": 1.0}


@dataclass(frozen=True, slots=True)
class Unbacked:
    """Something that is stored and differs from what the chain says of it, with the sequence where it does."""

    what: str
    sequence: int | None = None


def find_unbacked(database: Database, datasets: DatasetService, population: str) -> list[Unbacked]:
    """Return what is stored and differs from what the population's chain says of it, by sequence.

    Ids of releases that are not the answer that their entry states, or hold anything but what their request does; where
    a block is not cut out of the release that its entry names, ``the source of ID``; where the library would not find
    one as it is, ``the listing of ID``; entries whose release is gone, as ``sequence N``; charges of another amount
    than their own mechanism costs, as ``the cost of sequence N``; charges that state another sensitivity than follows
    from manifest and request, as ``the sensitivities of sequence N``; charges for a dataset that the chain had not
    registered by then, as ``the dataset of sequence N``; last, datasets whose manifest or snapshot is not the
    registered one, as ``dataset NAME``, and those whose stored rows or sums are not the registered ones, or are gone,
    as ``the rows of dataset NAME``.
    """
    bad: list[Unbacked] = []
    known = {dataset.id: dataset for dataset in datasets.list_all()}
    sensitivities = _Sensitivities(known)
    with database.snapshot() as connection:
        blocks = _Blocks(connection)
        answered, registered = _read_chain(connection, population, bad)
        for release in repository.iterate_population(connection, population):
            facts = answered.pop(release.sequence, {"release": None})
            dataset = known.get(release.dataset_id)
            answer = _read(release.answer) if _is_stated(release, facts) else {}
            if dataset is None or not _is_backed(answer, facts, dataset):
                bad.append(Unbacked(release.id, release.sequence))
            elif facts["kind"] == "derive" and not blocks.agree(dataset, answer, facts):
                bad.append(Unbacked(f"the source of {release.id}", release.sequence))
            elif not catalogue.is_listed(connection, dataset, facts["actor"], release):
                bad.append(Unbacked(f"the listing of {release.id}", release.sequence))
            elif facts["kind"] == "charge" and not sensitivities.agree(dataset.id, answer, facts):
                bad.append(Unbacked(f"the sensitivities of sequence {release.sequence}", release.sequence))
    bad += [Unbacked(f"sequence {sequence}", sequence) for sequence in answered]
    bad.sort(key=lambda found: found.sequence or 0)
    for dataset in known.values():
        if dataset.population != population:
            continue
        if (dataset.name, dataset.manifest_digest, dataset.commitment) not in registered:
            bad.append(Unbacked(f"dataset {dataset.name}"))
        if not datasets.holds(dataset):
            bad.append(Unbacked(f"the rows of dataset {dataset.name}"))
    return bad


def _read_chain(
    connection: Connection, population: str, bad: list[Unbacked]
) -> tuple[dict[int, dict[str, Any]], set[tuple[str, str, str]]]:
    """Return the entries that have a release, by sequence, and the datasets that are registered; add bad charges."""
    account = find_population(connection, population)
    assert account is not None
    answered: dict[int, dict[str, Any]] = {}
    registered: set[tuple[str, str, str]] = set()
    snapshots: set[tuple[str, str]] = set()
    for entry in iterate_entries(connection, population):
        facts = json.loads(entry.payload)
        if facts["kind"] in {"charge", "derive"}:
            answered[entry.sequence] = facts
            if facts["kind"] == "charge" and not _is_charged_right(facts, account.accountant):
                bad.append(Unbacked(f"the cost of sequence {entry.sequence}", entry.sequence))
            if (facts["dataset"], facts["snapshot"]) not in snapshots:
                bad.append(Unbacked(f"the dataset of sequence {entry.sequence}", entry.sequence))
        elif facts["kind"] == "dataset":
            registered.add((facts["dataset"], facts["manifest_digest"], facts["snapshot"]))
            snapshots.add((facts["dataset"], facts["snapshot"]))
    return answered, registered


class _Sensitivities:
    """What charges must state of their sensitivities: derived once for requests that differ in price alone."""

    def __init__(self, known: Mapping[str, Dataset]) -> None:
        self._known = known
        self._derive = lru_cache(maxsize=1024)(self._derive_anew)

    def agree(self, dataset_id: str, answer: dict[str, Any], facts: dict[str, Any]) -> bool:
        """Tell whether a charge states what follows from the manifest and the canonical request of its answer."""
        try:
            asked = json.dumps({name: answer["request"][name] for name in _DECIDES_SENSITIVITY})
            return self._derive(dataset_id, asked).agrees(facts)
        except (RequestInvalid, ValueError, KeyError, TypeError):
            return False

    def _derive_anew(self, dataset_id: str, asked: str) -> Stated:
        request = ReleaseRequest.model_validate({**json.loads(asked), "price": _ANY_PRICE})
        return Stated.of(*derive_stated(self._known[dataset_id], request))


class _Blocks:
    """What is cut out of stored releases: cut again. Those of one source often follow one another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._find = lru_cache(maxsize=4)(self._find_source)

    def agree(self, dataset: Dataset, answer: dict[str, Any], facts: dict[str, Any]) -> bool:
        """Tell whether a block is what is cut out of the charged release that its entry names, and answers may be."""
        try:
            source, charged = self._find(facts["source"])
            return (
                answer["derived_from"] == facts["source"]
                and charged["kind"] == "charge"
                and all(charged[name] == facts[name] for name in ("dataset", "snapshot"))
                and charged["sequence"] < facts["sequence"]
                and is_block(dataset, answer, facts["actor"], source, charged["actor"])
            )
        except (ValueError, KeyError, TypeError, IndexError):
            return False

    def _find_source(self, release_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the answer of a release and what its entry says; nothing where they are not each other's."""
        release = repository.find_release(self._connection, release_id)
        return (
            (_read(release.answer), json.loads(release.receipt.payload)) if release and is_stated(release) else ({}, {})
        )


def is_stated(release: StoredRelease) -> bool:
    """Tell whether a stored answer is the one that its entry states."""
    return _is_stated(release, json.loads(release.receipt.payload))


def _is_stated(release: StoredRelease, facts: dict[str, Any]) -> bool:
    return (
        facts.get("release") == release.id
        and facts["request_digest"] == release.request_digest
        and facts["answer_digest"] == answer_digest(release.answer)
    )


def _read(answer: str) -> dict[str, Any]:
    try:
        content = json.loads(answer, object_pairs_hook=_read_once)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _read_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a member that stands twice: only the last would be looked at."""
    if len(members := dict(pairs)) != len(pairs):
        raise ValueError("a member stands twice")
    return members


def _is_backed(answer: dict[str, Any], facts: dict[str, Any], dataset: Dataset) -> bool:
    try:
        return (
            facts["dataset"] == dataset.name
            and holds_what_is_asked(answer, listing_of(dataset, answer))
            and (facts["kind"] == "derive" or agrees_with_charge(answer, facts))
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_charged_right(facts: dict[str, Any], accountant: Accountant) -> bool:
    """Account for a charge again, from the integers of its mechanism."""
    try:
        return account_again(facts, accountant) == int(facts["units"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False
