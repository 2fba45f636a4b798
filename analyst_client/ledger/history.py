"""The history of a curator's ledger as a client saw it: a value that grows, and refuses what contradicts it."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from analyst_client.errors import LedgerForkedError
from analyst_client.ledger.checkpoints import Checkpoint, LedgerPosition
from analyst_client.ledger.keys import HASH_PATTERN, PUBLIC_KEY_SIZE, TrustedKeys, decode_base64, key_id_of
from analyst_client.schema.wire import parse_json

MEMORY_FORMAT = 1
ENTRIES_KEPT = 1000


@dataclass(frozen=True)
class LedgerHistory:
    """Keys, datasets, checkpoints and entries that were seen and checked.

    Attributes
    ----------
    keys : mapping of str to bytes
        Trusted public keys by their ids.
    datasets : mapping of str to str
        The population of each dataset.
    highest : mapping of str to Checkpoint
        The highest checkpoint of each population.
    seen : mapping of str to mapping of (epoch, sequence) to str
        Entry hashes of each population, the highest `ENTRIES_KEPT`.
    """

    keys: TrustedKeys = field(default_factory=dict)
    datasets: Mapping[str, str] = field(default_factory=dict)
    highest: Mapping[str, Checkpoint] = field(default_factory=dict)
    seen: Mapping[str, Mapping[tuple[int, int], str]] = field(default_factory=dict)

    def with_keys(self, keys: TrustedKeys) -> "LedgerHistory":
        """Add trusted keys."""
        return replace(self, keys={**keys, **self.keys})

    def with_checkpoint(self, checkpoint: Checkpoint, previous_hash: str | None = None) -> "LedgerHistory":
        """Add a checkpoint, and with it an entry.

        Parameters
        ----------
        checkpoint : Checkpoint
        previous_hash : str, optional
            Hash of the entry before, as the entry states it.

        Raises
        ------
        LedgerForkedError
            If another entry was seen at the same place, or at the place before; or if less is spent later.
        """
        population, (epoch, sequence) = checkpoint.population, checkpoint.order
        self._refuse_another(checkpoint, received=checkpoint)
        # Across epochs the entry before may be another one: what came after the backup is lost.
        if previous_hash is not None:
            self._refuse_another(LedgerPosition(population, epoch, sequence - 1, previous_hash), received=checkpoint)
        entries = {**self.seen.get(population, {}), checkpoint.order: checkpoint.entry_hash}
        grown = replace(self, seen={**self.seen, population: latest(entries)})
        before = self.highest.get(population)
        if before is not None:
            self._refuse_refund(before, checkpoint)
        if before is not None and before.order >= checkpoint.order:
            return grown
        return replace(grown, highest={**self.highest, population: checkpoint})

    def with_dataset(self, name: str, checkpoint: Checkpoint) -> "LedgerHistory":
        """Add that a dataset belongs to the population of a checkpoint, for good.

        Raises
        ------
        LedgerForkedError
            If it belonged to another: a fresh population would be a fresh budget for the same people.
        """
        known = self.datasets.get(name, checkpoint.population)
        if known != checkpoint.population:
            raise LedgerForkedError(
                f"the dataset {name!r} belonged to the population {known!r}, and now to {checkpoint.population!r}",
                remembered=self.highest.get(known),
                received=checkpoint,
            )
        return replace(self, datasets={**self.datasets, name: known})

    def merged(self, other: "LedgerHistory") -> "LedgerHistory":
        """Add all that another client saw; the highest checkpoints win. Raise `LedgerForkedError` if both disagree."""
        merged = self.with_keys(other.keys)
        for population, entries in other.seen.items():
            for (epoch, sequence), entry_hash in entries.items():
                place = LedgerPosition(population, epoch, sequence, entry_hash)
                merged._refuse_another(place, received=place)
            both = {**merged.seen.get(population, {}), **entries}
            merged = replace(merged, seen={**merged.seen, population: latest(both)})
        for checkpoint in other.highest.values():
            merged = merged.with_checkpoint(checkpoint)
        for name, population in other.datasets.items():
            merged = merged.with_dataset(name, other.highest[population])
        return merged

    @staticmethod
    def _refuse_refund(before: Checkpoint, received: Checkpoint) -> None:
        """Refuse an account whose spending fell: what was posted stays, whatever happens to the curator."""
        earlier, later = sorted((before, received), key=lambda checkpoint: checkpoint.order)
        if later.posted < earlier.posted:
            raise LedgerForkedError(
                f"the account of {later.population!r} states less spent at {later} than at {earlier}",
                remembered=before,
                received=received,
            )

    def _refuse_another(self, place: LedgerPosition, received: LedgerPosition) -> None:
        known = self.seen.get(place.population, {}).get(place.order)
        if known is None or known == place.entry_hash:
            return
        highest = self.highest.get(place.population)
        remembered = LedgerPosition(place.population, place.epoch, place.sequence, known)
        raise LedgerForkedError(
            f"the curator's ledger forked: it showed ({remembered}), and now ({place})",
            remembered=highest if highest is not None and highest.order == place.order else remembered,
            received=received,
        )

    def to_json(self, curator: str) -> bytes:
        """Write what is remembered; `curator` is the address, for whoever reads the file."""
        populations = {
            name: {
                "checkpoint": checkpoint.members,
                "entries": [[*place, entry_hash] for place, entry_hash in sorted(self.seen[name].items())],
            }
            for name, checkpoint in sorted(self.highest.items())
        }
        members = {
            "format": MEMORY_FORMAT,
            "curator": curator,
            "keys": {key_id: base64.b64encode(key).decode() for key_id, key in sorted(self.keys.items())},
            "datasets": dict(sorted(self.datasets.items())),
            "populations": populations,
        }
        return (json.dumps(members, allow_nan=False) + "\n").encode()

    @classmethod
    def from_json(cls, text: str) -> "LedgerHistory":
        """Read what `to_json` wrote. Raise `ServiceError` or `ValueError` when anything else stands there."""
        members = parse_json(text)
        if not isinstance(members, dict) or type(members.get("format")) is not int:
            raise ValueError("it is no memory of a ledger")
        if members["format"] != MEMORY_FORMAT:
            raise ValueError(f"it is of format {members['format']}, which this version does not know")
        keys = {key_id: decode_base64(key, PUBLIC_KEY_SIZE) for key_id, key in as_object(members, "keys").items()}
        if any(key_id_of(key) != key_id for key_id, key in keys.items()):
            raise ValueError("a key does not have the id that is made of it")
        state = cls(keys=keys)
        for name, population in as_object(members, "populations").items():
            checkpoint, entries = read_population(population, keys)
            if checkpoint.population != name:
                raise ValueError(f"the checkpoint of {name!r} is that of another population")
            seen, highest = {**state.seen, name: latest(entries)}, {**state.highest, name: checkpoint}
            state = replace(state, seen=seen, highest=highest)
        for name, known in as_object(members, "datasets").items():
            if not isinstance(known, str) or known not in state.highest:
                raise ValueError(f"the population of {name!r} is not remembered")
            state = state.with_dataset(name, state.highest[known])
        return state


def latest(entries: Mapping[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    """Return the highest entries, as many as are kept."""
    return {place: entries[place] for place in sorted(entries)[-ENTRIES_KEPT:]}


def as_object(members: Any, name: str) -> dict[str, Any]:
    """Return a member that is an object. Raise `ValueError` when it is not."""
    value = members.get(name) if isinstance(members, dict) else None
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")  # noqa: TRY004 -- one kind of error for what is read
    return value


def read_population(population: Any, keys: TrustedKeys) -> tuple[Checkpoint, dict[tuple[int, int], str]]:
    """Read the highest checkpoint of a population and its entries. Raise `ValueError` when they cannot be right."""
    checkpoint = Checkpoint.read(as_object(population, "checkpoint"))
    if not isinstance(population.get("entries"), list):
        raise ValueError("entries is not an array")  # noqa: TRY004 -- one kind of error for what is read
    entries = dict(map(read_entry, population["entries"]))
    if entries.get(checkpoint.order) != checkpoint.entry_hash or max(entries) > checkpoint.order:
        raise ValueError(f"the checkpoint ({checkpoint}) is not the highest of its entries")
    if checkpoint.key_id not in keys or not checkpoint.is_signed_by(keys[checkpoint.key_id]):
        raise ValueError(f"the checkpoint ({checkpoint}) does not have the signature of a remembered key")
    return checkpoint, entries


def read_entry(entry: Any) -> tuple[tuple[int, int], str]:
    """Read one remembered entry."""
    if not isinstance(entry, list) or [type(item) for item in entry] != [int, int, str]:
        raise ValueError("an entry is not made of epoch, sequence and hash")
    epoch, sequence, entry_hash = entry
    if not HASH_PATTERN.fullmatch(entry_hash):
        raise ValueError("an entry holds no hash")
    return (epoch, sequence), entry_hash
