"""The verification of a chain: pure functions of its stored text."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic_core import from_json

from curator_service.ledger.chain.entries import (
    EPOCH_FIRST,
    FORMAT,
    GENESIS,
    Checkpoint,
    StoredEntry,
    entry_hash,
)

UNCHARGED_KINDS = frozenset({"dataset", "derive", "key", "refusal", "confirmation"})
USING_KINDS = frozenset({"charge", "reserve", "derive", "reconcile"})
"""Kinds of entries after which something was, or may have been, answered under a limit."""
REGISTER = "_register"
"""The chain of the curator's own acts, a name that no population may have. Its limit is 0: nothing is charged to it."""
PROPOSED = "proposed"
ACTS = frozenset(
    {"principal", "token", "token-revoked", PROPOSED, "proposal-rejected", "proposal-withdrawn", "proposal-expired"}
)
"""Kinds of the register's entries, beside those that every chain has."""
_OPENING_TERMS = ("adjacency", "accountant", "delta", "time")
_STATED = ("project", "purpose", "legal_basis", "conditions")


PERMIT = "permit"
"""The kind of a permit's entries, and the member by which others name it."""
FOR_EVER = ""
"""The end of a permit that has none."""


@dataclass(slots=True)
class Share:
    """What one permit has of an account; without a limit of its own it is bound by the account's.

    Attributes
    ----------
    limit : int or None
    posted, pending : int
        Units.
    expires_at : str
        When nothing is charged any more; empty for a permit without an end.
    people, datasets : frozenset of str
        Ids of who may spend, and names of what of; the chain alone says so.
    stated : tuple of str
        Project, purpose, legal basis and conditions: what the second person agreed to.
    """

    limit: int | None = None
    posted: int = 0
    pending: int = 0
    expires_at: str = FOR_EVER
    people: frozenset[str] = field(default=frozenset(), compare=False)
    datasets: frozenset[str] = field(default=frozenset(), compare=False)
    stated: tuple[str, ...] = field(default=(), compare=False)


class Charged(NamedTuple):
    """Of what charges are summed: month, analyst's id, permit, project, dataset's name, and kind of release."""

    month: str
    actor: str
    permit: str
    project: str
    dataset: str
    kind: str

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "Charged":
        """Read it from the entry of a charge."""
        permit, project = payload.get(PERMIT, ""), payload.get("project", "")
        return cls(payload["time"][:7], payload["actor"], permit, project, payload["dataset"], payload["release_kind"])


@dataclass(slots=True)
class AccountState:
    """An account as its rows state it, or as its chain implies it.

    Attributes
    ----------
    limit, posted, pending : int
        Units.
    highest_limit : int
        The highest that the limit ever was, in units: that of the guarantee. Of limits that two people replaced before
        the first use none counts.
    is_used : bool
        Whether the chain has an entry of `USING_KINDS`; of an account's rows it is not asked.
    sequence, epoch : int
    head : str
        The hash of the last entry.
    terms : tuple of str
        Adjacency, accountant, delta and time of creation, which the opening entry fixes for good.
    shares : dict
        By permit.
    reservations : dict of str to int
        What is left of each open reservation.
    spending : dict of Charged to (int, int)
        How many charges there were, and their units.
    """

    limit: int = 0
    highest_limit: int = 0
    posted: int = 0
    pending: int = 0
    sequence: int = 0
    epoch: int = EPOCH_FIRST
    head: str = GENESIS
    terms: tuple[str, ...] = ()
    shares: dict[str, Share] = field(default_factory=dict)
    reservations: dict[str, int] = field(default_factory=dict)
    spending: dict[Charged, tuple[int, int]] = field(default_factory=dict)
    is_used: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found.

    Attributes
    ----------
    entries : int
        How many entries were read up to the first bad one.
    bad_sequence : int or None
        The first sequence at which the chain does not hold.
    reason : str
    state : AccountState
        What the entries up to there imply.
    """

    entries: int
    bad_sequence: int | None
    reason: str
    state: AccountState

    @property
    def ok(self) -> bool:
        """Whether every entry holds and the account agrees."""
        return self.bad_sequence is None


_NO_ENTRY = "the entry's text is not an entry"
_UNSIGNED = "the signature is not one of this curator's on this entry"


class _Bad(Exception):
    """An entry that does not hold."""


SignatureCheck = Callable[[Checkpoint, str], bool]
Watch = Callable[[StoredEntry, dict[str, Any]], None]
"""Is shown each entry that holds, with what it says."""


def verify_chain(
    population: str,
    entries: Iterable[StoredEntry],
    account: AccountState,
    holds: SignatureCheck,
    *,
    every_signature: bool = True,
    watch: Watch = lambda _entry, _payload: None,
) -> Verification:
    """Check every entry's hash, link, place and meaning, its signature, and the account's rows against their sum.

    Parameters
    ----------
    population : str
    entries : iterable of StoredEntry
        In the order of their sequence.
    account : AccountState
        What the account's rows say.
    holds : callable
        Whether a signature on a checkpoint is one of the curator's.
    every_signature : bool
        Otherwise the last one alone, which covers the hashes of all entries before.
    watch : callable
        Is shown each entry that holds, with what it says: so that its text is read once.

    Returns
    -------
    Verification
    """
    state, count, last = AccountState(), 0, None
    for entry in entries:
        count += 1
        expected = state.sequence + 1
        try:
            payload = _read(entry.payload_text)
            last = _apply(population, entry, payload, state)
        except _Bad as bad:
            return Verification(count, expected, str(bad), state)
        if every_signature and not holds(last, entry.signature):
            return Verification(count, expected, _UNSIGNED, state)
        signature = entry.signature
        watch(entry, payload)
    if last is None:
        return Verification(0, 1, "there are no entries, not even the opening one", state)
    if not every_signature and not holds(last, signature):
        return Verification(count, state.sequence, _UNSIGNED, state)
    if state != account:
        return Verification(count, state.sequence + 1, _disagreement(state, account), state)
    return Verification(count, None, "", state)


def _read(payload_text: str) -> dict[str, Any]:
    try:
        payload = from_json(payload_text)
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        raise _Bad(_NO_ENTRY)
    return payload


def _apply(population: str, entry: StoredEntry, payload: dict[str, Any], state: AccountState) -> Checkpoint:
    """Add an entry to the state; return its checkpoint."""
    try:
        if payload["format"] != FORMAT:
            raise _Bad(f"the entry is not of the format {FORMAT}, the only one that there is")
        if entry_hash(entry.payload_text) != entry.entry_hash:
            raise _Bad("the hash does not match the entry's text")
        _check_place(population, entry, payload, state)
        units = int(payload["units"])
        _count(payload, units, state)
        state.sequence, state.head = entry.sequence, entry.entry_hash
        checkpoint = Checkpoint(
            population,
            entry.sequence,
            entry.entry_hash,
            state.epoch,
            state.limit,
            state.posted,
            state.pending,
            payload["key_id"],
        )
        stated = payload["epoch"], payload["limit"], payload["posted"], payload["pending"]
    except (ValueError, KeyError, TypeError):
        raise _Bad(_NO_ENTRY) from None
    if stated != (state.epoch, str(state.limit), str(state.posted), str(state.pending)):
        raise _Bad("the entry states another account than the entries up to it add up to")
    return checkpoint


def _check_place(population: str, entry: StoredEntry, payload: dict[str, Any], state: AccountState) -> None:
    expected = state.sequence + 1
    if payload["kind"] == "reconcile":
        expected = max(expected, int(payload["sequence"]))  # it leaves out the sequences that were lost
    if entry.sequence != expected:
        raise _Bad(f"sequence {entry.sequence} stands where {expected} belongs")
    if (payload["population"], payload["sequence"]) != (population, expected):
        raise _Bad("population or sequence inside the entry do not match its place")
    if payload["previous_hash"] != state.head:
        raise _Bad("the entry does not follow the one before")


def _count(payload: dict[str, Any], units: int, state: AccountState) -> None:
    """Move the account as an entry says."""
    kind = payload["kind"]
    if units < 0 or (kind == "open") is not (state.sequence == 0):
        raise _Bad(f"an entry of kind {kind!r} does not belong here")
    if payload["population"] == REGISTER:
        _count_act(payload, units, state)
    elif kind == "open":
        state.limit = units
        state.terms = tuple(str(payload[name]) for name in _OPENING_TERMS)
    elif kind == "charge" and units > 0:
        _count_charge(payload, units, state)
    elif kind == "reserve" and units > 0:
        _count_reserve(payload, units, state)
    elif kind == "void":
        _count_void(payload, units, state)
    elif kind == "limit":
        _count_limit(payload, units, state)
    elif kind == PERMIT and units == 0:
        _count_permit(payload, state)
    elif kind == "reconcile":
        _count_reconciliation(payload, units, state)
    elif kind not in UNCHARGED_KINDS or units != 0:
        raise _Bad(f"an entry of kind {kind!r} with {units} units does not belong here")
    state.is_used = state.is_used or kind in USING_KINDS
    state.highest_limit = max(state.highest_limit, state.limit)
    if state.posted + state.pending > state.limit:
        raise _Bad("the charges exceed the limit")


def _count_act(payload: dict[str, Any], units: int, state: AccountState) -> None:
    """Add an entry of the register: it has no amounts, and may begin again where a restore has lost all of it."""
    kind = payload["kind"]
    if units != 0 or kind not in ACTS | {"open", "key", "reconcile"}:
        raise _Bad(f"an entry of kind {kind!r} with {units} units does not belong into the register")
    if kind == "open":
        state.terms = tuple(str(payload[name]) for name in _OPENING_TERMS)
        state.epoch = int(payload["epoch"])
    elif kind == "reconcile":
        _count_reconciliation(payload, units, state)


def _shares(payload: dict[str, Any], state: AccountState) -> list[Share]:
    """Return the share that an entry touches: its permit's."""
    if PERMIT in payload:
        share = state.shares.get(payload[PERMIT])
        if share is None:
            raise _Bad("the entry names a permit that was not granted")
        return [share]
    if state.shares:
        raise _Bad("the entry names no permit")
    return []


def _check_permitted(payload: dict[str, Any], share: Share) -> None:
    """Check that a permit lets whoever acts spend at this moment."""
    if PERMIT not in payload:
        return
    if payload["actor"] not in share.people:
        raise _Bad("the permit is somebody else's")
    if "dataset" in payload and payload["dataset"] not in share.datasets:
        raise _Bad("the permit is for other datasets")
    if share.expires_at and payload["time"] >= share.expires_at:
        raise _Bad("the permit had expired")


def _count_charge(payload: dict[str, Any], units: int, state: AccountState) -> None:
    reservation = payload.get("reservation")
    if reservation is not None:
        _take(state, reservation, units, whole=reservation.startswith("job_"))
        state.pending -= units
    state.posted += units
    charged = Charged.read(payload)
    count, sum_of_units = state.spending.get(charged, (0, 0))
    state.spending[charged] = count + 1, sum_of_units + units
    for share in _shares(payload, state):
        share.posted += units
        share.pending -= 0 if reservation is None else units
        _check_share(share)
        _check_permitted(payload, share)


def _count_reserve(payload: dict[str, Any], units: int, state: AccountState) -> None:
    reservation, drawn_from = payload["reservation"], payload.get("from")
    if reservation in state.reservations:
        raise _Bad("the reservation is open already")
    if drawn_from is not None:
        _take(state, drawn_from, units)
    else:
        state.pending += units
        for share in _shares(payload, state):
            share.pending += units
            _check_share(share)
            _check_permitted(payload, share)
    state.reservations[reservation] = units


def _count_void(payload: dict[str, Any], units: int, state: AccountState) -> None:
    reservation, drawn_from = payload["reservation"], payload.get("to")
    if state.reservations.pop(reservation, None) != units:
        raise _Bad("the entry gives back another amount than was left of the reservation")
    if drawn_from is not None:
        if drawn_from not in state.reservations:
            raise _Bad("the entry gives back to a reservation that is not open")
        state.reservations[drawn_from] += units
        return
    state.pending -= units
    for share in _shares(payload | {"actor": payload["holder"]}, state):
        share.pending -= units


def _count_limit(payload: dict[str, Any], units: int, state: AccountState) -> None:
    raised = units > state.limit
    state.limit = units
    is_of_two = payload["actor"] != payload["approved_by"]
    if raised and not is_of_two:
        raise _Bad("a limit was raised without a second admin")
    if not raised and is_of_two and not state.is_used:
        state.highest_limit = units  # replaced, and never used


def _count_permit(payload: dict[str, Any], state: AccountState) -> None:
    """Let people spend from now on, under a limit and until a time; or change that, or end it."""
    name, limit = payload[PERMIT], payload.get("permit_limit")
    share = state.shares.get(name)
    before = share
    if share is None:
        share = state.shares[name] = Share()
    after = Share(
        None if limit is None else int(limit),
        share.posted,
        share.pending,
        payload.get("expires_at", FOR_EVER),
        frozenset(payload["people"]),
        frozenset(payload["datasets"].values()),
        tuple(payload.get(member, "") for member in _STATED),
    )
    by, approved_by = payload["actor"], payload["approved_by"]
    if is_wider(before, after) and not is_host(by) and approved_by in {by, *after.people}:
        raise _Bad("a permit was granted or widened without a second person")
    state.shares[name] = after
    _check_share(after)


def is_host(actor: str) -> bool:
    """Tell whether whoever acts has the machine itself: an operator at its command line."""
    return actor.startswith("operator:")


def is_wider(before: Share | None, after: Share) -> bool:
    """Tell whether a permit lets anybody do what they could not do before, or for something else."""
    if before is None:
        return True
    longer = before.expires_at != FOR_EVER and (after.expires_at == FOR_EVER or after.expires_at > before.expires_at)
    higher = before.limit is not None and (after.limit is None or after.limit > before.limit)
    others = not after.people <= before.people or not after.datasets <= before.datasets
    return longer or higher or others or after.stated != before.stated


def _count_reconciliation(payload: dict[str, Any], units: int, state: AccountState) -> None:
    if payload["voided"] != {name: str(left) for name, left in state.reservations.items()}:
        raise _Bad("the entry closes other reservations than were open")
    state.reservations.clear()
    for share in state.shares.values():
        share.pending = 0
    state.pending = 0
    if payload["epoch"] <= state.epoch:
        raise _Bad("the entry begins an epoch that is not a new one")
    state.epoch = payload["epoch"]
    state.posted += units
    if "history" in payload:
        _count_history(payload, units, state)
    state.limit = int(payload["limit"])
    # Of a history that was lost a higher limit may be known than the last; entries of before do not state it.
    state.highest_limit = max(state.highest_limit, int(payload.get("highest_limit", 0)))


def _count_history(payload: dict[str, Any], units: int, state: AccountState) -> None:
    """Add the charges of a second history to those of the analysts who were charged there."""
    if payload["actor"] == payload["approved_by"]:
        raise _Bad("the charges of a second history were taken over without a second person")
    charges = [
        (Charged(*(str(one[name]) for name in Charged._fields)), int(one["count"]), int(one["units"]))
        for one in payload["charges"]
    ]
    if any(count <= 0 or cost <= 0 for _, count, cost in charges) or sum(cost for *_, cost in charges) != units:
        raise _Bad("the entry counts another amount than the charges that it names")
    for charged, count, cost in charges:
        before, sum_of_units = state.spending.get(charged, (0, 0))
        state.spending[charged] = before + count, sum_of_units + cost
        share = state.shares.get(charged.permit)
        if share is not None:
            share.posted += cost
            share.posted = share.posted if share.limit is None else min(share.posted, share.limit)


def _take(state: AccountState, reservation: str, units: int, *, whole: bool = False) -> None:
    left = state.reservations.get(reservation, -1) - units
    if left < 0 or (whole and left):
        raise _Bad("the entry takes another amount than was left of the reservation")
    state.reservations[reservation] = left
    if whole:
        del state.reservations[reservation]


def _check_share(share: Share) -> None:
    if share.limit is not None and share.posted + share.pending > share.limit:
        raise _Bad("the charges exceed the limit of a permit")


def _disagreement(chain: AccountState, account: AccountState) -> str:
    if account.sequence != chain.sequence:
        verdict = "entries are missing" if account.sequence > chain.sequence else "entries were added"
        return f"the log ends at {chain.sequence}, the account's row says {account.sequence}: {verdict}"
    names = (
        "limit",
        "highest_limit",
        "posted",
        "pending",
        "epoch",
        "head",
        "terms",
        "shares",
        "reservations",
        "spending",
    )
    fields = [name for name in names if getattr(chain, name) != getattr(account, name)]
    return f"the account's row and the log disagree on {', '.join(fields)}"
