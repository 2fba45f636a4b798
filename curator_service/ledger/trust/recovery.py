"""Reconciling a ledger that was restored from a backup: what cannot be proved unspent is written off.

The anchor moves before any answer leaves, so a charge beyond it has never left. Where the anchor survives, what was
spent after the backup is known to the unit; where it is lost, everything that was left is taken as spent.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from curator_service.entries.account import Charged
from curator_service.entries.base import REGISTER, Entry
from curator_service.entries.recovery import HistoryChargesModel, HistoryModel, LostModel, Reconcile
from curator_service.kit.clock import timestamp
from curator_service.kit.db import Connection
from curator_service.kit.files import sync
from curator_service.ledger import repository
from curator_service.ledger.accounts import reservations
from curator_service.ledger.chain.attestation import Holds, is_attested, list_attested
from curator_service.ledger.chain.entries import Checkpoint, Receipt, SignedCheckpoint, StoredEntry
from curator_service.ledger.chain.keys import set_seal
from curator_service.ledger.chain.signing import Verifier
from curator_service.ledger.repository import Head, Population
from curator_service.ledger.service import LedgerService
from curator_service.ledger.trust.anchor import Anchor
from curator_service.ledger.trust.contradictions import is_held, is_written_off
from curator_service.ledger.trust.guard import SEEN_BY_CLIENT
from curator_service.ledger.trust.histories import History, list_new, sum_charges
from curator_service.ledger.trust.inspection import verify_population

SET_ASIDE = "set_aside.jsonl"
"""The file beside the anchor with entries that nobody signed."""


class ReconciliationError(ValueError):
    """The ledger cannot be reconciled as asked; the message says why, and what to do, for the admin."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Result of a reconciliation for one population.

    Attributes
    ----------
    population : str
    kept_through : int
        The last sequence that the restored ledger holds.
    lost_through : int or None
        The last sequence of which there is evidence; None if the anchor was lost and everything was written off.
    written_off : int
        Units.
    epoch : int
        The new one.
    set_aside : int
        How many entries that nobody signed were taken out of the chain.
    """

    population: str
    kept_through: int
    lost_through: int | None
    written_off: int
    epoch: int
    set_aside: int = 0


def reconcile(
    ledger: LedgerService,
    receipts: Sequence[SignedCheckpoint] = (),
    anchors: Sequence[Anchor] = (),
    *,
    actor: str,
    anchor_lost: bool,
    histories: Mapping[str, History] = {},
    approved_by: str = "",
) -> list[Reconciliation]:
    """Bring every account to at least what was spent, begin a new epoch, and lift the seal.

    Parameters
    ----------
    receipts : sequence of SignedCheckpoint
        What holders of releases still have.
    anchors : sequence of Anchor
        Those of other hosts; this host's own is read in any case.
    anchor_lost : bool
        The operator's word that an anchor is gone: then everything that was left is written off.
    histories : mapping of str to History
        The second history of populations that have one, whose charges are counted one by one. Its anchor must be among
        `anchors`.
    approved_by : str
        The privacy officer who approves that, beside the one who is the `actor`.

    Raises
    ------
    ReconciliationError
        If a chain does not hold without the entries that nobody signed, evidence is not signed by this curator, or no
        anchor goes back far enough and nobody said so; or there is evidence that a second history does not hold.
        Nothing is changed then.
    HistoryError
        If a part of a second history was written off before.
    AnchorError
    """
    logs = [anchor.log() for anchor in (ledger.guard.anchor, *anchors)]
    evidence = [*(signed for log in logs for signed in log), *receipts]
    with ledger.database.read() as connection:
        if not repository.list_chains(connection):
            raise ReconciliationError("the ledger is empty: restore a backup first")
    verifier = ledger.guard.keys.verifier()
    for signed in evidence:
        if not verifier.holds(signed.checkpoint, signed.signature):
            raise ReconciliationError(
                f"a checkpoint of {signed.checkpoint.population!r} at sequence {signed.checkpoint.sequence} is not "
                "signed by any key of this curator"
            )
    holds = ledger.guard.trust.holds
    with ledger.database.snapshot() as connection:
        populations = repository.list_chains(connection)
        seen = {signed.checkpoint.population for signed in evidence}
        # The register is begun anew where a backup is older than it: nobody's budget is in it.
        strange = seen - {REGISTER} - {population.name for population in populations}
        if strange:
            raise ReconciliationError(
                f"the ledger has no population {min(strange)!r}, and there is evidence of one: restore a later backup"
            )
        strays: dict[str, list[StoredEntry]] = {}
        for population in populations:
            own = [signed.checkpoint for signed in evidence if signed.checkpoint.population == population.name]
            strays[population.name] = _find_strays(connection, population, verifier, holds, own)
            if anchor_lost or population.name == REGISTER:
                continue
            if not any(_is_whole(connection, population, log, holds) for log in logs):
                raise ReconciliationError(
                    f"there is no anchor of {population.name!r} from its beginning: answers may have left of which "
                    f"nothing is known. Bring the anchor of the lost curator back, to {ledger.guard.anchor.folder} or "
                    "with --anchor. To try a backup while its curator lives, use `curator restore --rehearse FILE`, "
                    "which signs nothing. Only where the curator and its anchor are gone for good, say --anchor-lost: "
                    "then all that was left of the budget is written off"
                )
            if population.name in histories:
                _check_history(connection, histories[population.name], own, logs[1:], holds)
    # Of a ledger that was wound back all is in the history that was lost; one that runs may have parted from another.
    reason = ledger.guard.reason() or ledger.guard.inspection.find_contradiction()
    beside = not reason or reason.endswith(SEEN_BY_CLIENT)
    done = []
    names = [population.name for population in populations if population.name != REGISTER]
    for name in [*names, *([REGISTER] if REGISTER in seen | {p.name for p in populations} else [])]:
        own = [signed.checkpoint for signed in evidence if signed.checkpoint.population == name]
        done.append(
            _reconcile_one(
                ledger,
                name,
                own,
                strays.get(name, []),
                histories.get(name),
                {"actor": actor, "approved_by": approved_by},
                anchor_lost=anchor_lost,
                beside=beside,
            )
        )
    with ledger.database.begin() as connection:
        set_seal(connection, "", timestamp(ledger.now()))
    return done


def _check_history(
    connection: Connection,
    history: History,
    evidence: list[Checkpoint],
    anchors: list[list[SignedCheckpoint]],
    holds: Holds,
) -> None:
    """Check that the second history is all of which there is evidence, and that its anchor is among it."""
    hashes = history.hashes
    for seen in evidence:
        if seen.entry_hash not in hashes and _is_lost(connection, seen, holds):
            raise ReconciliationError(
                f"there is evidence of sequence {seen.sequence} (epoch {seen.epoch}) of {history.population!r}, which "
                "the second history does not hold either: bring a later backup of it, or reconcile without --history, "
                "which writes off what the evidence states"
            )
    if list_new(connection, history, holds) and not any(
        s.checkpoint.entry_hash in hashes for log in anchors for s in log
    ):
        raise ReconciliationError(
            f"none of the anchors that --anchor names is of the second history of {history.population!r}: it shows up "
            "to where answers have left. Bring it, or reconcile without --history"
        )


def _is_whole(connection: Connection, population: Population, log: list[SignedCheckpoint], holds: Holds) -> bool:
    """Tell whether an anchor saw all of this history: its first entry, or a reconciliation that accounted for more.

    One that began later, beside a database that had been in use, may be of another history than what clients hold.
    """
    begun = {1, *(one.place.sequence for one in list_attested(connection, population.name, Reconcile, holds))}
    seen = {s.checkpoint.sequence: s.checkpoint.entry_hash for s in log if s.checkpoint.population == population.name}
    entries = (repository.find_entry(connection, population.name, sequence) for sequence in begun & seen.keys())
    return any(entry is not None and entry.entry_hash == seen[entry.sequence] for entry in entries)


def _find_strays(
    connection: Connection, population: Population, verifier: Verifier, holds: Holds, evidence: list[Checkpoint]
) -> list[StoredEntry]:
    """Return the entries that nobody signed in their place, and without which the chain holds.

    The database's role of the service may insert them. It may not change or delete entries, so that all signed ones are
    there. An entry that evidence names is none of them: somebody broke its text or its signature.

    Raises
    ------
    ReconciliationError
        If the chain does not hold without them either.
    """
    found = verify_population(connection, population, verifier, every_signature=True)
    if found.ok:
        return []
    entries = repository.iterate_entries(connection, population.name)
    strays = [entry for entry in entries if not is_attested(population.name, entry, holds)]
    without = {entry.sequence for entry in strays}
    named = {(checkpoint.sequence, checkpoint.entry_hash) for checkpoint in evidence}
    mended = verify_population(connection, population, verifier, without, every_signature=True)
    if not mended.ok or any((entry.sequence, entry.entry_hash) in named for entry in strays):
        raise ReconciliationError(
            f"the ledger of {population.name!r} is broken at sequence {found.bad_sequence}: {found.reason}. It cannot "
            "be reconciled: restore a backup whose chain holds"
        )
    return strays


def _set_aside(folder: Path, population: str, strays: list[StoredEntry]) -> str:
    """Keep entries that nobody signed as lines of a file, durably; return the digest of the lines."""
    rows = ({"population": population, **dataclasses.asdict(entry)} for entry in strays)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path = folder / SET_ASIDE
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        file.write(lines)
    sync(path)
    sync(folder)
    return hashlib.sha256(lines).hexdigest()


def _reconcile_one(
    ledger: LedgerService,
    name: str,
    evidence: list[Checkpoint],
    strays: list[StoredEntry],
    history: History | None,
    people: Mapping[str, str],
    *,
    anchor_lost: bool,
    beside: bool,
) -> Reconciliation:
    with ledger.unit() as unit:
        connection, moment = unit.connection, timestamp(ledger.now())
        begun: list[Receipt] = []
        if name == REGISTER:
            begun = unit.open_register(moment, above=max((checkpoint.epoch for checkpoint in evidence), default=0))
        kept = repository.lock(connection, name)
        aside = None
        if strays:
            repository.delete_entries(connection, name, [entry.sequence for entry in strays])
            aside = _set_aside(ledger.guard.anchor.folder, name, strays)
        holds = ledger.guard.trust.holds
        told = [] if history is None else list_new(connection, history, holds)
        charges = sum_charges(connection, name, told)
        named = {entry.entry_hash for entry in told}
        losses = _find_losses(connection, kept, [one for one in evidence if one.entry_hash not in named], holds, beside)
        lost = [checkpoint for checkpoint in evidence if _is_lost(connection, checkpoint, holds)]
        posted = kept.posted + sum(loss.units for loss in losses) + sum(units for _count, units in charges.values())
        latest = max(lost, key=lambda checkpoint: checkpoint.order, default=None)
        raised = kept.limit if latest is None or latest.epoch < kept.epoch else latest.limit
        limit = max(posted, min(raised, kept.limit) if told else raised)  # a second history raises no limit here
        if anchor_lost:
            posted = limit = max(kept.limit, limit)
        highest = max([limit, *(checkpoint.limit for checkpoint in lost)])
        reserved = {}
        for reservation in reservations.list_open(connection, name):
            reserved[reservation.id] = str(reservation.left)
            reservations.close_reservation(connection, reservation.id, reservations.VOIDED)
        repository.clear_pending(connection, name)
        _take_over(connection, name, charges)
        ends = [*evidence, *([] if history is None else [history.head])]
        last = max([kept.sequence, *(checkpoint.sequence for checkpoint in ends)])
        epoch = max([kept.epoch, *(checkpoint.epoch for checkpoint in ends)]) + 1
        head = repository.set_account(
            connection, name, limit=limit, highest=highest, posted=posted, epoch=epoch, sequence=last + 1
        )
        said = Reconcile(
            actor=people["actor"],
            time=moment,
            kept_through=str(kept.sequence),
            lost=[lost_range for loss in losses for lost_range in loss.ranges],
            all="yes" if anchor_lost else "no",
            highest_limit=str(highest),
            voided=reserved,
            set_aside=aside,
            beside=_state_beside(losses, beside=beside),
        )
        if history is not None and told:
            said = said.model_copy(update=_state_history(history, told, charges, people["approved_by"]))
        receipt = unit.record(head, said, posted - kept.posted)
    for written in (*begun, receipt):
        ledger.guard.anchor_before_send(written, just_written=True)
    through = None if anchor_lost else max([kept.sequence, *(checkpoint.sequence for checkpoint in lost)])
    return Reconciliation(name, kept.sequence, through, posted - kept.posted, head.epoch, len(strays))


def _take_over(connection: Connection, name: str, charges: Mapping[Charged, tuple[int, int]]) -> None:
    """Add the charges of a second history to those of the analysts and permits that were charged there."""
    for charged, (count, units) in charges.items():
        repository.add_spending(connection, name, charged, units, charges=count)
        repository.fill_share(connection, name, charged.permit, units)


def _state_history(
    history: History, told: list[StoredEntry], charges: Mapping[Charged, tuple[int, int]], approved_by: str
) -> dict[str, Any]:
    """Return what the entry says of a second history: each entry, so that any other one that somebody saw seals."""
    return {
        "approved_by": approved_by,
        "history": HistoryModel(after=str(history.after), entries=[entry.entry_hash for entry in told]),
        "charges": [
            HistoryChargesModel(**charged._asdict(), count=str(count), units=str(units))
            for charged, (count, units) in sorted(charges.items())
        ],
        "beside": "0",
    }


def _state_beside(losses: list["_Loss"], *, beside: bool) -> str | None:
    """Return what of other histories is counted beside this one: more of them may be seen later."""
    counted = [checkpoint.posted for loss in losses if loss.known == 0 for checkpoint in loss.lost]
    return str(max(counted)) if beside and counted else None


@dataclass(frozen=True, slots=True)
class _Loss:
    """A history of which this ledger has the beginning alone.

    Attributes
    ----------
    lost : list of Checkpoint
        What is known of its end.
    after, epoch : int
        The last entry that this ledger has of it: its sequence and its epoch.
    known : int
        What of its posted amount this ledger holds already.
    """

    lost: list[Checkpoint]
    after: int
    epoch: int
    known: int

    @property
    def units(self) -> int:
        """Units spent in it that are not in this ledger."""
        return max(0, *(checkpoint.posted - self.known for checkpoint in self.lost))

    @property
    def ranges(self) -> list[LostModel]:
        """The lost sequences, epoch by epoch.

        Of another epoch than that of the last entry here none was kept, however far this ledger goes. In the same
        epoch a history may have parted from this one before its end.
        """
        by_epoch: dict[int, list[int]] = {}
        for checkpoint in self.lost:
            by_epoch.setdefault(checkpoint.epoch, []).append(checkpoint.sequence)
        return [
            LostModel(
                epoch=epoch,
                after=str(min(self.after, min(sequences) - 1) if epoch == self.epoch else 0),
                through=str(max(sequences)),
            )
            for epoch, sequences in sorted(by_epoch.items())
        ]


def _find_losses(
    connection: Connection, kept: Head, evidence: list[Checkpoint], holds: Holds, beside: bool
) -> list[_Loss]:
    """Return the histories that went on where this ledger ends, and those where an earlier reconciliation began.

    A checkpoint of an epoch that this ledger has left belongs to the life before that reconciliation, which accounted
    for what was known then: what it proves beyond is lost as well.

    Of a history `beside` this one, which went on while this one did, nobody can tell by checkpoints where they parted:
    nothing of it counts as known.
    """
    reconciled = list_attested(connection, kept.population, Reconcile, holds)
    grouped: dict[int, _Loss] = {}
    for checkpoint in evidence:
        if not _is_lost(connection, checkpoint, holds):
            continue
        before = next((one for one in reconciled if one.place.epoch > checkpoint.epoch), None)
        begun_anew = before is None and checkpoint.epoch < kept.epoch  # nothing of that life is left
        place, after, known = (
            (kept.sequence, 0 if begun_anew else kept.sequence, 0 if beside else kept.posted)
            if before is None
            else (
                before.place.sequence,
                int(before.said.kept_through),
                int(before.said.beside or before.place.posted),
            )
        )
        loss = grouped.setdefault(place, _Loss([], after, _epoch_of(connection, kept.population, after), known))
        loss.lost.append(checkpoint)
    return list(grouped.values())


def _epoch_of(connection: Connection, population: str, sequence: int) -> int:
    """Return the epoch of an entry of a chain that holds; 0 where there is none."""
    entry = repository.find_entry(connection, population, sequence)
    return 0 if entry is None else Entry.read(from_json(entry.payload_text)).place.epoch


def _is_lost(connection: Connection, seen: Checkpoint, holds: Holds) -> bool:
    if is_held(connection, seen):
        return False
    population = repository.find_population(connection, seen.population)
    return population is None or not is_written_off(connection, population, seen, holds)
