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
    for signed in log_of_anchor:
        if not is_held(connection, signed.checkpoint):
            fault = find_contradiction(connection, signed, verifier, holds)
            if fault:
                return fault
    return ""


def find_needless(
    connection: Connection, log_of_anchor: Iterable[SignedCheckpoint], holds: Holds
) -> set[SignedCheckpoint]:
    """Return the lines of an anchor that prove nothing beside the others, where the ledger holds.

    Of the lines whose entries the ledger has, these are needed: of each population and epoch the last one, since what
    is posted only grows within them, and one of the highest limit; and those of the first entry and of
    reconciliations, by which an anchor is known to be whole. A line whose entry the ledger does not have is needed.
    """
    held: dict[tuple[str, int], list[SignedCheckpoint]] = {}
    for signed in log_of_anchor:
        seen = signed.checkpoint
        if is_held(connection, seen):
            held.setdefault((seen.population, seen.epoch), []).append(signed)
    begun = {
        (population, payload["sequence"])
        for population in {population for population, _epoch in held}
        for payload in list_attested(connection, population, "reconcile", holds)
    }
    needless: set[SignedCheckpoint] = set()
    for lines in held.values():
        latest = max(lines, key=lambda signed: signed.checkpoint.sequence)
        highest = max(lines, key=lambda signed: signed.checkpoint.limit)
        for signed in lines:
            place = signed.checkpoint.population, signed.checkpoint.sequence
            if place[1] > 1 and place not in begun and signed not in {latest, highest}:
                needless.add(signed)
    return needless


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


def is_held(connection: Connection, seen: Checkpoint) -> bool:
    """Tell whether the ledger has the entry of a checkpoint."""
    entry = repository.find_entry(connection, seen.population, seen.sequence)
    return entry is not None and entry.entry_hash == seen.entry_hash


def is_written_off(connection: Connection, population: Population, seen: Checkpoint, holds: Holds) -> bool:
    """Tell whether a reconciliation accounted for the history that a checkpoint is of."""
    if seen.epoch >= population.epoch:
        return False
    reconciled = list_attested(connection, population.name, "reconcile", holds)
    return any(accounts_for(payload, seen) for payload in reconciled)


def accounts_for(payload: Mapping[str, Any], seen: Checkpoint) -> bool:
    """Tell whether one reconciliation accounted for a checkpoint.

    Of a second history whose chain was at hand it names every entry. Of others it has an epoch, and a range of
    sequences in it.
    """
    if seen.epoch >= payload["epoch"]:
        return False
    if seen.entry_hash in payload.get("history", {}).get("entries", ()):
        return True
    ranges = [lost for lost in payload["lost"] if lost["epoch"] == seen.epoch]
    return payload["all"] == "yes" or any(int(r["after"]) < seen.sequence <= int(r["through"]) for r in ranges)
