"""Whether what is stored is what the chain says: releases, charges and datasets against their entries."""

import json
from typing import Any

from curator_service.datasets.service import DatasetService
from curator_service.db import Database
from curator_service.ledger.repository import find_population, iterate_entries
from curator_service.privacy.accountant import Accountant
from curator_service.releases import catalogue, repository
from curator_service.releases.rendering import account_again, agrees_with_charge, answer_digest
from curator_service.releases.repository import StoredRelease


def find_unbacked(database: Database, datasets: DatasetService, population: str) -> list[str]:
    """Return what is stored and differs from what the population's chain says of it.

    Ids of releases; where the library would not find one as it is, ``the listing of ID``; entries whose release is
    gone, as ``sequence N``; charges of another amount than their own mechanism costs, as ``the cost of sequence N``;
    charges for a dataset that the chain had not registered by then, as ``the dataset of sequence N``; datasets whose
    manifest or snapshot is not the registered one, as ``dataset NAME``.
    """
    bad = []
    known = datasets.list_all()
    by_id = {dataset.id: dataset for dataset in known}
    registered: set[tuple[str, str, str]] = set()
    snapshots: set[tuple[str, str]] = set()
    with database.snapshot() as connection:
        account = find_population(connection, population)
        assert account is not None
        answered: dict[int, dict[str, Any]] = {}
        for entry in iterate_entries(connection, population):
            facts = json.loads(entry.payload)
            if facts["kind"] in {"charge", "derive"}:
                answered[entry.sequence] = facts
                if facts["kind"] == "charge" and not _is_charged_right(facts, account.accountant):
                    bad.append(f"the cost of sequence {entry.sequence}")
                if (facts["dataset"], facts["snapshot"]) not in snapshots:
                    bad.append(f"the dataset of sequence {entry.sequence}")
            elif facts["kind"] == "dataset":
                registered.add((facts["dataset"], facts["manifest_digest"], facts["snapshot"]))
                snapshots.add((facts["dataset"], facts["snapshot"]))
        for release in repository.iterate_population(connection, population):
            facts = answered.pop(release.sequence, {"release": None})
            dataset = by_id.get(release.dataset_id)
            if dataset is None or not _is_backed(release, facts, dataset.name):
                bad.append(release.id)
            elif not catalogue.is_listed(connection, dataset, facts["actor"], release):
                bad.append(f"the listing of {release.id}")
    bad += [f"sequence {sequence}" for sequence in answered]
    return bad + [
        f"dataset {dataset.name}"
        for dataset in known
        if dataset.population == population
        and (dataset.name, dataset.manifest_digest, dataset.commitment) not in registered
    ]


def is_stated(release: StoredRelease) -> bool:
    """Tell whether a stored answer is the one that its entry states."""
    return _is_stated(release, json.loads(release.receipt.payload))


def _is_stated(release: StoredRelease, facts: dict[str, Any]) -> bool:
    return (
        facts.get("release") == release.id
        and facts["request_digest"] == release.request_digest
        and facts["answer_digest"] == answer_digest(release.answer)
    )


def _is_backed(release: StoredRelease, facts: dict[str, Any], dataset: str) -> bool:
    return (
        _is_stated(release, facts)
        and facts["dataset"] == dataset
        and (facts["kind"] == "derive" or agrees_with_charge(release.answer, facts))
    )


def _is_charged_right(facts: dict[str, Any], accountant: Accountant) -> bool:
    """Account for a charge again, from the integers of its mechanism."""
    try:
        return account_again(facts, accountant) == int(facts["units"])
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        return False
