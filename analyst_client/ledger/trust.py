"""Trust in a curator's ledger: every signed answer is checked against it, then remembered."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from analyst_client.errors import (
    CuratorError,
    KeyUntrustedError,
    LedgerForkedError,
    LedgerRestoredWarning,
    ReceiptInvalidError,
)
from analyst_client.ledger.checkpoints import Checkpoint
from analyst_client.ledger.history import LedgerHistory
from analyst_client.ledger.keys import CuratorKey, TrustedKeys, extend_trust, parse_key, trust_on_first_use
from analyst_client.ledger.memory import Memory

Freshness: TypeAlias = Literal["new", "head", "any"]
"""The claim of an answer on its entry: written for it, the last of its ledger, or any that there is."""


@dataclass(frozen=True)
class LedgerSnapshot:
    """The history just before a request was sent: an honest answer cannot be behind it.

    Attributes
    ----------
    highest : mapping of str to Checkpoint
        By population.
    populations : mapping of str to str
        By dataset.
    """

    highest: Mapping[str, Checkpoint]
    populations: Mapping[str, str]

    def headers(self, dataset: str) -> dict[str, str]:
        """Return the header that tells the curator what was seen of a dataset's population, if anything was."""
        checkpoint = self.highest.get(self.populations.get(dataset, ""))
        return {} if checkpoint is None else {"Curator-Checkpoint": checkpoint.header}


class LedgerTrust:
    """Check what a curator signs.

    Parameters
    ----------
    memory : Memory
        What was seen before.
    key : str or None
        A public key, or its id, that the analyst knows to be the curator's. None: the keys that were remembered; and
        if there are none, the first that is seen.
    list_keys : callable
        Asks the curator for its keys.

    Raises
    ------
    ValueError
        If `key` is neither.
    """

    def __init__(self, memory: Memory, key: str | None, list_keys: Callable[[], tuple[CuratorKey, ...]]) -> None:
        self.memory = memory
        self._list_keys = list_keys
        self._root_key_id: str | None = None
        self._endorsed_keys: TrustedKeys = {}
        if key is not None:
            self._root_key_id, public_key = parse_key(key)
            self._endorsed_keys = {} if public_key is None else {self._root_key_id: public_key}
        self._listed_populations: dict[str, str] = {}

    def note_population(self, dataset: str, population: str) -> None:
        """Note, for this process alone, where a listing puts a dataset: nothing signed says so yet."""
        self._listed_populations = {**self._listed_populations, dataset: population}

    def take_snapshot(self) -> LedgerSnapshot:
        """Return what is remembered now."""
        state = self.memory.refresh()
        return LedgerSnapshot(state.highest, {**self._listed_populations, **state.datasets})

    def accept(
        self,
        checkpoint: Checkpoint,
        snapshot: LedgerSnapshot,
        freshness: Freshness,
        *,
        dataset: str | None = None,
        previous_hash: str | None = None,
    ) -> None:
        """Check a checkpoint and remember it.

        Parameters
        ----------
        checkpoint : Checkpoint
            Of a receipt or of a budget.
        snapshot : LedgerSnapshot
            From before the request was sent.
        freshness : str
            What the answer claims: ``"new"`` must be above the snapshot, ``"head"`` not below it.
        dataset : str, optional
            The dataset whose population it is.
        previous_hash : str, optional
            Hash of the entry before.

        Raises
        ------
        KeyUntrustedError, ReceiptInvalidError, LedgerForkedError, LedgerMemoryError
            Nothing is remembered then.

        Warns
        -----
        LedgerRestoredWarning
            When the epoch is higher than any that was seen.
        """
        listed = () if self._find_key(self.memory.refresh(), checkpoint.key_id) else self._ask_for_keys(checkpoint)
        before: list[Checkpoint | None] = []

        def change(state: LedgerHistory) -> LedgerHistory:
            trusted = self._trust(state, checkpoint.key_id, listed)
            if not checkpoint.is_signed_by(trusted[checkpoint.key_id]):
                raise ReceiptInvalidError(reasons=(f"signature: it is not that of {checkpoint.key_id}",))
            check_order(checkpoint, snapshot.highest.get(checkpoint.population), freshness)
            before.append(state.highest.get(checkpoint.population))
            if self._root_key_id is not None:
                self._endorsed_keys = trusted
            state = state.with_keys(trusted).with_checkpoint(checkpoint, previous_hash)
            return state if dataset is None else state.with_dataset(dataset, checkpoint)

        self.memory.update(change)
        warn_of_restoration(before[0], checkpoint)

    def _find_key(self, state: LedgerHistory, key_id: str) -> bytes | None:
        return (self._endorsed_keys if self._root_key_id is not None else state.keys).get(key_id)

    def _ask_for_keys(self, checkpoint: Checkpoint) -> tuple[CuratorKey, ...]:
        try:
            return self._list_keys()
        except CuratorError as error:
            message = (
                f"the ledger is signed by the unknown key {checkpoint.key_id}, and the curator lists no keys: {error}"
            )
            raise KeyUntrustedError(message, key_id=checkpoint.key_id) from error

    def _trust(self, state: LedgerHistory, key_id: str, listed: tuple[CuratorKey, ...]) -> dict[str, bytes]:
        """Return every key that is trusted, this one among them."""
        if self._root_key_id is not None:
            named = {key.key_id: key.public_key for key in listed if key.key_id == self._root_key_id}
            trusted = extend_trust({**named, **self._endorsed_keys}, listed)
        elif state.keys:
            trusted = extend_trust(state.keys, listed)
        else:
            trusted = trust_on_first_use(key_id, listed)
        if key_id in trusted:
            return trusted
        if self._root_key_id is None and not state.keys:
            raise KeyUntrustedError(f"the ledger is signed by {key_id}, which the curator does not list", key_id=key_id)
        known = self._root_key_id or ", ".join(sorted(state.keys))
        raise KeyUntrustedError(
            f"the ledger is signed by {key_id}, which no trusted key ({known}) endorsed. Ask the curator's admin, by "
            "another way than this address, which keys are the curator's: a key that came later needs the endorsement "
            "of the one before; an older one is trusted when it is given as key=. A curator that was set up anew needs "
            "a new file as memory=.",
            key_id=key_id,
        )


def check_order(received: Checkpoint, floor: Checkpoint | None, freshness: Freshness) -> None:
    """Raise `LedgerForkedError` when an answer is behind what was seen before its request was sent."""
    if floor is None or freshness == "any":
        return
    if freshness == "new" and received.order <= floor.order:
        said = "a charge was answered as new, but its entry is not above what the ledger held before"
    elif freshness == "head" and received.order < floor.order:
        said = "the head of the ledger is below what it held before"
    else:
        return
    raise LedgerForkedError(f"{said}: seen ({floor}), now ({received})", remembered=floor, received=received)


def warn_of_restoration(before: Checkpoint | None, received: Checkpoint) -> None:
    """Warn when the ledger entered a higher epoch."""
    if before is not None and received.epoch > before.epoch:
        message = f"the curator was restored from a backup: seen before ({before}), now ({received})"
        warnings.warn(LedgerRestoredWarning(message, remembered=before, received=received), stacklevel=2)
