"""Checkpoints that somebody saw, held against the ledger: which of them it contradicts."""

from collections.abc import Iterable, Mapping
from typing import Any

from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.chain.attestation import Holds, list_attested
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint
from curator_service.ledger.chain.signing import Verifier
from curator_service.ledger.repository import Population


def find_contradicted_line(
    connection: Connection, log_of_anchor: Iterable[SignedCheckpoint], verifier: Verifier, holds: Holds
) -> str:
    """Return how the database contradicts the first line of an anchor that it contradicts, or nothing."""
    hashes: dict[str, dict[int, str]] = {}
    for signed in log_of_anchor:
        seen = signed.checkpoint
        if seen.population not in hashes:
            hashes[seen.population] = repository.list_hashes(connection, seen.population)
        if hashes[seen.population].get(seen.sequence) != seen.entry_hash:
            fault = find_contradiction(connection, signed, verifier, holds)
            if fault:
                return fault
    return ""


def find_contradiction(connection: Connection, signed: SignedCheckpoint, verifier: Verifier, holds: Holds) -> str:
    """Return how the database contradicts a checkpoint that this curator signed, or nothing."""
    seen = signed.checkpoint
    if not verifier.holds(seen, signed.signature):
        return f"a checkpoint of {seen.population!r} is not signed by any key of this curator"
    entry = repository.find_entry(connection, seen.population, seen.sequence)
    if entry is not None and entry.entry_hash == seen.entry_hash:
        return ""
    population = repository.find_population(connection, seen.population)
    if population is not None and is_written_off(connection, population, seen, holds):
        return ""
    what = "has no entry" if entry is None else "has another entry"
    return f"the ledger of {seen.population!r} {what} at sequence {seen.sequence} (epoch {seen.epoch})"


def is_written_off(connection: Connection, population: Population, seen: Checkpoint, holds: Holds) -> bool:
    """Tell whether a reconciliation accounted for the history that a checkpoint is of."""
    if seen.epoch >= population.epoch:
        return False
    reconciled = list_attested(connection, population.name, "reconcile", holds)
    return any(_accounts_for(payload, seen) for payload in reconciled)


def _accounts_for(payload: Mapping[str, Any], seen: Checkpoint) -> bool:
    """Tell whether one reconciliation accounted for a checkpoint: by its epoch, and a range of sequences in it."""
    if seen.epoch >= payload["epoch"]:
        return False
    ranges = [lost for lost in payload["lost"] if lost["epoch"] == seen.epoch]
    return payload["all"] == "yes" or any(int(r["after"]) < seen.sequence <= int(r["through"]) for r in ranges)
