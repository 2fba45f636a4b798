"""Checkpoints that somebody saw, held against the ledger: which of them it contradicts."""

from collections.abc import Iterable

from pydantic_core import from_json

from curator_service.entries.base import Entry
from curator_service.entries.recovery import Reconcile
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.chain.attestation import Holds, list_attested
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint, StoredEntry, entry_hash
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


def find_needless(connection: Connection, log_of_anchor: Iterable[SignedCheckpoint]) -> set[SignedCheckpoint]:
    """Return the lines of an anchor that prove nothing beside the others.

    Of the lines whose entries the ledger has, these are needed: of each population and epoch the first one, by which an
    anchor is known to be whole; the last one, since what is posted only grows; and one of the highest limit. Another
    one is needless if the last one is signed over its hash, by way of the entries between. The rows alone do not tell:
    somebody may show those of a lost history for a moment.
    """
    held: dict[tuple[str, int], list[SignedCheckpoint]] = {}
    for signed in log_of_anchor:
        seen = signed.checkpoint
        if is_held(connection, seen):
            held.setdefault((seen.population, seen.epoch), []).append(signed)
    needless: set[SignedCheckpoint] = set()
    for lines in held.values():
        first, latest = min(lines, key=_sequence), max(lines, key=_sequence)
        others = set(lines) - {first, latest, max(lines, key=_limit)}
        covered = _find_covered(connection, latest.checkpoint, {signed.checkpoint for signed in others})
        proved = [signed for signed in others if signed.checkpoint in covered]
        needless |= set(proved) - {max([latest, *proved], key=_limit)}
    return needless


def _find_covered(connection: Connection, head: Checkpoint, others: set[Checkpoint]) -> set[Checkpoint]:
    """Return the earlier checkpoints that a checkpoint's hash covers, by way of the stored texts."""
    by_hash = {seen.entry_hash: seen for seen in others}
    covered: set[Checkpoint] = set()
    last = ""
    after = min((seen.sequence for seen in others), default=head.sequence) - 1
    for entry in repository.iterate_entries(connection, head.population, after=after):
        if last == head.entry_hash:
            break
        if not _follows(entry, last):
            covered.clear()
        last = entry_hash(entry.payload_text)
        if last in by_hash:
            covered.add(by_hash[last])
    return covered if last == head.entry_hash else set()


def _follows(entry: StoredEntry, last: str) -> bool:
    try:
        return bool(from_json(entry.payload_text)["previous_hash"] == last)
    except (ValueError, KeyError, TypeError):  # whoever may write rows may write any text
        return False


def _sequence(signed: SignedCheckpoint) -> int:
    return signed.checkpoint.sequence


def _limit(signed: SignedCheckpoint) -> tuple[int, int]:
    return signed.checkpoint.limit, signed.checkpoint.sequence


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
    reconciled = list_attested(connection, population.name, Reconcile, holds)
    return any(accounts_for(entry, seen) for entry in reconciled)


def accounts_for(entry: Entry[Reconcile], seen: Checkpoint) -> bool:
    """Tell whether one reconciliation accounted for a checkpoint.

    Of a second history whose chain was at hand it names every entry. Of others it has an epoch, and a range of
    sequences in it.
    """
    if seen.epoch >= entry.place.epoch:
        return False
    if seen.entry_hash in entry.said.told:
        return True
    ranges = [lost for lost in entry.said.lost if lost.epoch == seen.epoch]
    return entry.said.all == "yes" or any(int(one.after) < seen.sequence <= int(one.through) for one in ranges)
