"""Queries of the ledger: accounts, entries, keys and the seal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    and_,
    bindparam,
    case,
    delete,
    exists,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from curator_service.entries.account import FOR_EVER, Charged, Share
from curator_service.entries.base import KINDS, REGISTER
from curator_service.identity.models import GrantRow
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.models import (
    IS_ANSWER,
    IS_RARE,
    SEAL_ID,
    LedgerEntryRow,
    PopulationRow,
    SealRow,
    ShareRow,
    SpendingRow,
)
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant, Amount
from curator_service.privacy.adjacency import Adjacency

_PAGE = 1000
BEFORE_ALL = -(2**63)


@dataclass(frozen=True, slots=True)
class Population:
    """A population with its account, as read at one instant.

    `highest_limit` is the highest that its limit ever was: that of the guarantee. `sealed` is the reason why the
    curator refuses releases; empty while it does not.
    """

    name: str
    adjacency: Adjacency
    accountant: Accountant
    delta: float
    limit: int
    highest_limit: int
    posted: int
    pending: int
    sequence: int
    head: str
    created_at: str
    epoch: int
    sealed: str

    @property
    def remaining(self) -> int:
        """Units that may still be charged."""
        return self.limit - self.posted - self.pending

    def view(self, units: int) -> Amount:
        """View units that were or would be spent in every notion, at the account's δ."""
        return self.accountant.spent(units, self.delta)

    def view_left(self, units: int) -> Amount:
        """View what may still be spent: each notion, used as a price, fits."""
        return self.accountant.affordable(units, self.delta)


@dataclass(frozen=True, slots=True)
class Head:
    """A locked account inside a unit of work: the place of the next entry, and the account after it."""

    population: str
    sequence: int
    previous_hash: str
    epoch: int
    limit: int
    posted: int
    pending: int


_SEALED = select(SealRow.reason).where(SealRow.id == SEAL_ID).scalar_subquery()
_SELECT = select(
    PopulationRow.name,
    PopulationRow.adjacency,
    PopulationRow.accountant,
    PopulationRow.delta,
    PopulationRow.limit_units,
    PopulationRow.highest_limit_units,
    PopulationRow.posted_units,
    PopulationRow.pending_units,
    PopulationRow.head_sequence,
    PopulationRow.head_hash,
    PopulationRow.created_at,
    PopulationRow.epoch,
    _SEALED,
)
_FIND = Statement(_SELECT.where(PopulationRow.name == bindparam("population")))
_LIST = Statement(_SELECT.where(PopulationRow.name != REGISTER).order_by(PopulationRow.name))
_INSERT = InsertIfAbsent(PopulationRow)
_THIS = PopulationRow.name == bindparam("population")
_HEAD = (
    PopulationRow.head_sequence,
    PopulationRow.head_hash,
    PopulationRow.epoch,
    PopulationRow.limit_units,
    PopulationRow.posted_units,
    PopulationRow.pending_units,
)
_POSTED, _PENDING = (bindparam(name, type_=BigInteger) for name in ("posted", "pending"))
# I1 in one statement: the database decides, under its own lock, whether amounts still fit, and nothing is sealed.
_MOVE = Statement(
    update(PopulationRow)
    .where(
        _THIS,
        _SEALED == "",
        PopulationRow.posted_units + PopulationRow.pending_units + _POSTED + _PENDING <= PopulationRow.limit_units,
    )
    .values(
        posted_units=PopulationRow.posted_units + _POSTED,
        pending_units=PopulationRow.pending_units + _PENDING,
        head_sequence=PopulationRow.head_sequence + 1,
    )
    .returning(*_HEAD)
)
_LOCK = Statement(
    update(PopulationRow).where(_THIS).values(head_sequence=PopulationRow.head_sequence).returning(*_HEAD)
)
_HIGHEST = PopulationRow.highest_limit_units


def _at_least(units: ColumnElement[int]) -> ColumnElement[int]:
    return case((units > _HIGHEST, units), else_=_HIGHEST)


def _set_limit(highest: ColumnElement[int]) -> Statement:
    return Statement(
        update(PopulationRow)
        .where(
            _THIS,
            _SEALED == "",
            PopulationRow.limit_units == bindparam("was", type_=BigInteger),
            PopulationRow.posted_units + PopulationRow.pending_units <= bindparam("units", type_=BigInteger),
        )
        .values(
            limit_units=bindparam("units"),
            highest_limit_units=highest,
            head_sequence=PopulationRow.head_sequence + 1,
        )
        .returning(*_HEAD)
    )


_UNITS = bindparam("units", type_=BigInteger)
_SET_LIMIT, _REPLACE_LIMIT = _set_limit(_at_least(_UNITS)), _set_limit(_UNITS)
_SET_ACCOUNT = Statement(
    update(PopulationRow)
    .where(_THIS)
    .values(
        pending_units=0,
        limit_units=bindparam("limit", type_=BigInteger),
        highest_limit_units=_at_least(bindparam("highest", type_=BigInteger)),
        posted_units=_POSTED,
        epoch=bindparam("next_epoch", type_=Integer),
        head_sequence=bindparam("place", type_=BigInteger),
    )
    .returning(*_HEAD)
)
_SET_HEAD = Statement(update(PopulationRow).where(_THIS).values(head_hash=bindparam("head")))


class ThisMoment(FunctionElement[str]):
    """The database's own clock as the statement runs, as `kit.clock.timestamp` writes it."""

    inherit_cache = True


@compiles(ThisMoment, "sqlite")
def _sqlite_moment(*_: object, **__: object) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"


@compiles(ThisMoment, "postgresql")
def _postgres_moment(*_: object, **__: object) -> str:
    # Not now(), which is when the transaction began: this one may have waited for the account.
    return """to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


IS_PERMITTED = or_(
    ShareRow.expires_at == FOR_EVER,
    and_(ShareRow.expires_at > bindparam("moment"), ShareRow.expires_at > ThisMoment()),
)
_THIS_POPULATION = ShareRow.population == bindparam("population")
_THIS_SHARE = and_(_THIS_POPULATION, ShareRow.permit_id == bindparam("permit"))
_SETTLED = {"posted_units": ShareRow.posted_units + _POSTED, "pending_units": ShareRow.pending_units + _PENDING}
# Beside I1, and in the same way: the database decides whether a permit lets this be charged, now.
_MOVE_SHARE = Statement(
    update(ShareRow)
    .where(
        _THIS_SHARE,
        IS_PERMITTED,
        exists().where(
            GrantRow.permit_id == bindparam("permit"),
            GrantRow.principal_id == bindparam("principal"),
            GrantRow.dataset_id == bindparam("dataset"),
        ),
        or_(
            ShareRow.limit_units.is_(None),
            ShareRow.posted_units + ShareRow.pending_units + _POSTED + _PENDING <= ShareRow.limit_units,
        ),
    )
    .values(_SETTLED)
)
_FILL_SHARE = Statement(
    update(ShareRow)
    .where(_THIS_SHARE)
    .values(
        posted_units=case(
            (ShareRow.posted_units + _POSTED > ShareRow.limit_units, ShareRow.limit_units),
            else_=ShareRow.posted_units + _POSTED,
        )
    )
)
_GIVE_BACK_SHARE = Statement(update(ShareRow).where(_THIS_SHARE).values(_SETTLED))
_OPEN_SHARE = InsertIfAbsent(ShareRow)
_SET_SHARE = Statement(
    update(ShareRow)
    .where(
        _THIS_SHARE,
        or_(
            bindparam("units", type_=BigInteger).is_(None),
            ShareRow.posted_units + ShareRow.pending_units <= bindparam("units", type_=BigInteger),
        ),
    )
    .values(limit_units=bindparam("units", type_=BigInteger), expires_at=bindparam("expires"))
)
_CLEAR_SHARES = Statement(update(ShareRow).where(_THIS_POPULATION).values(pending_units=literal(0)))
_SHARE = (ShareRow.limit_units, ShareRow.posted_units, ShareRow.pending_units, ShareRow.expires_at)
_SHARES = Statement(select(ShareRow.permit_id, *_SHARE).where(_THIS_POPULATION).order_by(ShareRow.permit_id))
_FIND_SHARE = Statement(select(*_SHARE).where(_THIS_SHARE))


class _AddSpending(Statement):
    """Add a charge to the sum of those like it."""

    def __init__(self) -> None:
        super().__init__(insert(SpendingRow))

    def _build(self, dialect: Any) -> Any:
        insertion = (sqlite if dialect.name == "sqlite" else postgresql).insert(SpendingRow)
        added = {
            "charges": SpendingRow.charges + insertion.excluded.charges,
            "units": SpendingRow.units + insertion.excluded.units,
        }
        return insertion.on_conflict_do_update(index_elements=list(SpendingRow.__table__.primary_key), set_=added)


_ADD_SPENDING = _AddSpending()
_CHARGED = (
    SpendingRow.month,
    SpendingRow.principal_id,
    SpendingRow.permit_id,
    SpendingRow.project,
    SpendingRow.dataset,
    SpendingRow.kind,
)
_SPENDING = Statement(
    select(*_CHARGED, SpendingRow.charges, SpendingRow.units)
    .where(SpendingRow.population == bindparam("population"))
    .order_by(*_CHARGED)
)
_INSERT_ENTRY = Statement(insert(LedgerEntryRow))
_ENTRY = (LedgerEntryRow.sequence, LedgerEntryRow.payload, LedgerEntryRow.entry_hash, LedgerEntryRow.signature)
_OF_CHAIN = LedgerEntryRow.population == bindparam("population")
_ENTRIES = Statement(
    select(*_ENTRY)
    .where(_OF_CHAIN, LedgerEntryRow.sequence > bindparam("after"))
    .order_by(LedgerEntryRow.sequence)
    .limit(bindparam("count"))
)
_FIND_ENTRY = Statement(select(*_ENTRY).where(_OF_CHAIN, LedgerEntryRow.sequence == bindparam("sequence")))
_DELETE_ENTRY = Statement(delete(LedgerEntryRow).where(_OF_CHAIN, LedgerEntryRow.sequence == bindparam("sequence")))
_FIND_TRIGGER = Statement(text("SELECT sql FROM sqlite_master WHERE name = 'ledger_entries_no_delete'"))
_FIND_HEAD = Statement(select(*_ENTRY).where(_OF_CHAIN).order_by(LedgerEntryRow.sequence.desc()).limit(1))
_HEAD_AND_SEAL = Statement(select(*_ENTRY, _SEALED).where(_OF_CHAIN).order_by(LedgerEntryRow.sequence.desc()).limit(1))
_RARE = Statement(
    select(*_ENTRY)
    .where(_OF_CHAIN, LedgerEntryRow.sequence > bindparam("after"), text(IS_RARE), text(f"NOT {IS_ANSWER}"))
    .order_by(LedgerEntryRow.sequence)
)
_ANSWERS_BACK = Statement(
    select(*_ENTRY)
    .where(
        _OF_CHAIN,
        LedgerEntryRow.sequence > bindparam("after"),
        LedgerEntryRow.sequence < bindparam("before"),
        text(IS_RARE),
        text(IS_ANSWER),
        LedgerEntryRow.payload.like(bindparam("pattern")),
    )
    .order_by(LedgerEntryRow.sequence.desc())
    .limit(1)
)
# Kinds stand first among an entry's members in no canonical order, so this reads the text; it is asked once in a while.
_OF_KIND = Statement(
    select(*_ENTRY)
    .where(_OF_CHAIN, LedgerEntryRow.sequence > bindparam("after"), LedgerEntryRow.payload.like(bindparam("pattern")))
    .order_by(LedgerEntryRow.sequence)
)


def insert_population(connection: Connection, population: Population) -> bool:
    """Insert a population; False if its name is taken."""
    inserted = _INSERT.changed(
        connection,
        name=population.name,
        adjacency=population.adjacency.value,
        accountant=population.accountant.name,
        delta=repr(population.delta),
        limit_units=population.limit,
        highest_limit_units=population.highest_limit,
        posted_units=population.posted,
        pending_units=population.pending,
        head_sequence=population.sequence,
        head_hash=population.head,
        created_at=population.created_at,
        epoch=population.epoch,
    )
    return inserted == 1


def find_population(connection: Connection, name: str) -> Population | None:
    """Return a population with its account, or None."""
    row = _FIND.first(connection, population=name)
    return None if row is None else _population(row)


def list_populations(connection: Connection) -> list[Population]:
    """Return every population, by name."""
    found = [_population(row) for row in _LIST.all(connection)]
    return sorted(found, key=lambda one: one.name)  # whatever a database's collation: in this order they are locked


def list_chains(connection: Connection) -> list[Population]:
    """Return the account of every chain, in the order in which they are locked: populations by name, then the register.

    The register's has no budget: only what looks after chains as such may ask for it.
    """
    register = find_population(connection, REGISTER)
    return [*list_populations(connection), *([] if register is None else [register])]


def move(connection: Connection, population: str, *, posted: int, pending: int) -> Head | None:
    """Add to what is posted and held, if it fits and nothing is sealed; lock the account.

    Returns
    -------
    Head or None
        The next entry's place; None if the amounts do not fit, or the curator is sealed.
    """
    return _head(population, _MOVE.first(connection, population=population, posted=posted, pending=pending))


def lock(connection: Connection, population: str) -> Head:
    """Lock the account, and take no sequence: for units of work that read other rows first."""
    head = _head(population, _LOCK.first(connection, population=population))
    assert head is not None
    return head


def set_limit(connection: Connection, population: str, *, was: int, units: int, replaces: bool = False) -> Head | None:
    """Set a limit if the old one is still `was`, unless it would be below the posted and held units.

    With `replaces` it is also the highest from now on: only of an account that was never used, see `was_used`.
    """
    statement = _REPLACE_LIMIT if replaces else _SET_LIMIT
    return _head(population, statement.first(connection, population=population, was=was, units=units))


def was_used(connection: Connection, population: str) -> bool:
    """Tell whether anything was ever charged, held or answered, or lost with a history; the account must be locked."""
    return any(iterate_kind(connection, population, name) for name, kind in KINDS.items() if kind.is_use)


def set_account(
    connection: Connection, population: str, *, limit: int, highest: int, posted: int, epoch: int, sequence: int
) -> Head:
    """Write an account as a reconciliation found it; nothing is held any more.

    `highest` is the highest limit of which there is evidence; what was known of one before stays.
    """
    row = _SET_ACCOUNT.first(
        connection,
        population=population,
        limit=limit,
        highest=highest,
        posted=posted,
        next_epoch=epoch,
        place=sequence,
    )
    head = _head(population, row)
    assert head is not None
    return head


def move_share(
    connection: Connection,
    population: str,
    permit: str,
    *,
    principal: str,
    dataset: str,
    posted: int,
    pending: int,
    moment: str,
) -> bool:
    """Add to what a permit has posted and holds; False if it forbids it. The account must be locked.

    Parameters
    ----------
    principal, dataset : str
        Ids: the permit may have been changed so that they are not in it any more.
    posted, pending : int
        Units; what was held and becomes posted is passed as both.
    moment : str
        What the entry states as its time: the permit must last beyond it, and beyond the database's own now.

    Returns
    -------
    bool
        Whether it was added.
    """
    moved = _MOVE_SHARE.changed(
        connection,
        population=population,
        permit=permit,
        principal=principal,
        dataset=dataset,
        posted=posted,
        pending=pending,
        moment=moment,
    )
    return moved == 1


def give_back_share(connection: Connection, population: str, permit: str, units: int) -> None:
    """Give back units that a permit held, even if it has ended."""
    _GIVE_BACK_SHARE.execute(connection, population=population, permit=permit, posted=0, pending=-units)


def fill_share(connection: Connection, population: str, permit: str, units: int) -> None:
    """Add what was charged elsewhere to a permit that holds nothing, at most up to its limit."""
    _FILL_SHARE.execute(connection, population=population, permit=permit, posted=units)


def set_share(connection: Connection, population: str, permit: str, *, units: int | None, expires_at: str) -> bool:
    """Set a permit's limit and its end; False if the limit would fall below what is posted and held."""
    _OPEN_SHARE.execute(
        connection,
        population=population,
        permit_id=permit,
        limit_units=None,
        expires_at=FOR_EVER,
        posted_units=0,
        pending_units=0,
    )
    changed = _SET_SHARE.changed(connection, population=population, permit=permit, units=units, expires=expires_at)
    return changed == 1


def clear_pending(connection: Connection, population: str) -> None:
    """Let no share hold anything any more."""
    _CLEAR_SHARES.execute(connection, population=population)


def find_share(connection: Connection, population: str, permit: str) -> Share | None:
    """Return what a permit has of an account, or None."""
    row = _FIND_SHARE.first(connection, population=population, permit=permit)
    return None if row is None else Share(*row)


def list_shares(connection: Connection, population: str) -> dict[str, Share]:
    """Return every share of an account, by permit."""
    return {permit: Share(*amounts) for permit, *amounts in _SHARES.all(connection, population=population)}


def add_spending(connection: Connection, population: str, charged: Charged, units: int, *, charges: int = 1) -> None:
    """Add charges to the sum of those like them. The account must be locked."""
    month, actor, permit, project, dataset, kind = charged
    _ADD_SPENDING.execute(
        connection,
        population=population,
        month=month,
        principal_id=actor,
        permit_id=permit,
        project=project,
        dataset=dataset,
        kind=kind,
        charges=charges,
        units=units,
    )


def list_spending(connection: Connection, population: str) -> dict[Charged, tuple[int, int]]:
    """Return how many charges there were of an account, and their units, by what they are summed."""
    found = _SPENDING.all(connection, population=population)
    return {Charged(*row[:6]): (row[6], row[7]) for row in found}


def append_entry(connection: Connection, population: str, entry: StoredEntry) -> None:
    """Append an entry to the chain and move its head. The account's row must be locked."""
    _INSERT_ENTRY.execute(
        connection,
        population=population,
        sequence=entry.sequence,
        payload=entry.payload_text,
        entry_hash=entry.entry_hash,
        signature=entry.signature,
    )
    _SET_HEAD.execute(connection, population=population, head=entry.entry_hash)


def delete_entries(connection: Connection, population: str, sequences: Iterable[int]) -> None:
    """Delete entries past the trigger that keeps the log append-only; on PostgreSQL the tables' owner alone may."""
    if connection.dialect.name == "sqlite":
        ((trigger,),) = _FIND_TRIGGER.all(connection)
        before, after = "DROP TRIGGER ledger_entries_no_delete", trigger
    else:
        switch = "ALTER TABLE ledger_entries {} TRIGGER ledger_entries_append_only"
        before, after = switch.format("DISABLE"), switch.format("ENABLE")
    connection.run(before)
    _DELETE_ENTRY.execute_each(connection, ({"population": population, "sequence": sequence} for sequence in sequences))
    connection.run(after)


def find_entry(connection: Connection, population: str, sequence: int) -> StoredEntry | None:
    """Return one entry, or None."""
    row = _FIND_ENTRY.first(connection, population=population, sequence=sequence)
    return None if row is None else StoredEntry(*row)


def find_head(connection: Connection, population: str) -> StoredEntry | None:
    """Return the last entry of a chain, or None."""
    row = _FIND_HEAD.first(connection, population=population)
    return None if row is None else StoredEntry(*row)


def find_head_and_seal(connection: Connection, population: str) -> tuple[StoredEntry | None, str]:
    """Return the last entry of a chain, and why the curator is sealed, as of now."""
    row = _HEAD_AND_SEAL.first(connection, population=population)
    return (None, "") if row is None else (StoredEntry(*row[:4]), row[4])


def list_entries(connection: Connection, population: str, *, after: int, count: int) -> list[StoredEntry]:
    """Return up to `count` entries after a sequence, in order."""
    return [StoredEntry(*row) for row in _ENTRIES.all(connection, population=population, after=after, count=count)]


def iterate_entries(connection: Connection, population: str, *, after: int = BEFORE_ALL) -> Iterator[StoredEntry]:
    """Yield the entries after a sequence, in pages; else the whole chain, and what stands before its beginning."""
    while page := list_entries(connection, population, after=after, count=_PAGE):
        yield from page
        after = page[-1].sequence


def iterate_rare(connection: Connection, population: str, *, after: int = BEFORE_ALL) -> list[StoredEntry]:
    """Return every entry after a sequence that is about no amount, and some that say so falsely, in order.

    Answers of threshold sessions are left out: see `iterate_answers_back`.
    """
    return [StoredEntry(*row) for row in _RARE.all(connection, population=population, after=after)]


def iterate_answers_back(
    connection: Connection, population: str, session: str, *, after: int, before: int
) -> Iterator[StoredEntry]:
    """Yield the entries between two that say that they answer a session's question, the last one first."""
    asked = {"population": population, "after": after, "pattern": f'%"session":"{session}"%'}
    while (row := _ANSWERS_BACK.first(connection, **asked, before=before)) is not None:
        yield StoredEntry(*row)
        before = row[0]


def iterate_kind(connection: Connection, population: str, kind: str, *, after: int = BEFORE_ALL) -> list[StoredEntry]:
    """Return every entry of one kind after a sequence, in order."""
    asked = {"population": population, "after": after, "pattern": f'%"kind":"{kind}"%'}
    found = [StoredEntry(*row) for row in _OF_KIND.all(connection, **asked)]
    return [entry for entry in found if _is_of_kind(entry, kind)]


def _is_of_kind(entry: StoredEntry, kind: str) -> bool:
    try:
        return bool(from_json(entry.payload_text)["kind"] == kind)
    except (ValueError, KeyError, TypeError):  # whoever may insert may insert any text
        return False


def _population(row: tuple[Any, ...]) -> Population:
    name, adjacency, accountant, delta, *account = row
    return Population(name, Adjacency(adjacency), ACCOUNTANTS[accountant], float(delta), *account)


def _head(population: str, row: tuple[Any, ...] | None) -> Head | None:
    return None if row is None else Head(population, *row)
