"""Queries of the ledger."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, insert, select, update

from curator_service.db import InsertIfAbsent, Statement
from curator_service.ledger.chain import StoredEntry
from curator_service.ledger.models import LedgerEntryRow, PopulationRow
from curator_service.privacy.accountant import ACCOUNTANTS, Accountant, Amount
from curator_service.privacy.adjacency import Adjacency

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Population:
    """A population with its account, as read at one instant."""

    name: str
    adjacency: Adjacency
    accountant: Accountant
    delta: float
    limit: int
    posted: int
    pending: int
    sequence: int
    head: str
    created_at: str

    @property
    def remaining(self) -> int:
        """What may still be charged."""
        return self.limit - self.posted - self.pending

    def view(self, units: int) -> Amount:
        """View units that were or would be spent in every notion, at the account's δ."""
        return self.accountant.spent(units, self.delta)

    def view_remaining(self) -> Amount:
        """View what remains: each notion, used as a price, fits."""
        return self.accountant.affordable(self.remaining, self.delta)


_SELECT = select(
    PopulationRow.name,
    PopulationRow.adjacency,
    PopulationRow.accountant,
    PopulationRow.delta,
    PopulationRow.limit_units,
    PopulationRow.posted_units,
    PopulationRow.pending_units,
    PopulationRow.head_sequence,
    PopulationRow.head_hash,
    PopulationRow.created_at,
)
_FIND = Statement(_SELECT.where(PopulationRow.name == bindparam("population")))
_LIST = Statement(_SELECT.order_by(PopulationRow.name))
_INSERT = InsertIfAbsent(PopulationRow)
# I1 in one statement: the database decides, under its own lock, whether the cost still fits.
_CHARGE = Statement(
    update(PopulationRow)
    .where(
        PopulationRow.name == bindparam("population"),
        bindparam("cost", type_=BigInteger) > 0,
        PopulationRow.posted_units + PopulationRow.pending_units + bindparam("cost") <= PopulationRow.limit_units,
    )
    .values(posted_units=PopulationRow.posted_units + bindparam("cost"), head_sequence=PopulationRow.head_sequence + 1)
    .returning(PopulationRow.head_sequence, PopulationRow.head_hash)
)
_ADVANCE = Statement(
    update(PopulationRow)
    .where(PopulationRow.name == bindparam("population"))
    .values(head_sequence=PopulationRow.head_sequence + 1)
    .returning(PopulationRow.head_sequence, PopulationRow.head_hash)
)
_SET_HEAD = Statement(
    update(PopulationRow).where(PopulationRow.name == bindparam("population")).values(head_hash=bindparam("head"))
)
_INSERT_ENTRY = Statement(insert(LedgerEntryRow))
_ENTRIES = Statement(
    select(LedgerEntryRow.sequence, LedgerEntryRow.payload, LedgerEntryRow.entry_hash)
    .where(LedgerEntryRow.population == bindparam("population"), LedgerEntryRow.sequence > bindparam("after"))
    .order_by(LedgerEntryRow.sequence)
    .limit(bindparam("count"))
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
        posted_units=population.posted,
        pending_units=population.pending,
        head_sequence=population.sequence,
        head_hash=population.head,
        created_at=population.created_at,
    )
    return inserted == 1


def find_population(connection: Connection, name: str) -> Population | None:
    """Return a population with its account, or None."""
    row = _FIND.first(connection, population=name)
    return None if row is None else _population(row)


def list_populations(connection: Connection) -> list[Population]:
    """Return every population, by name."""
    return [_population(row) for row in _LIST.all(connection)]


def charge(connection: Connection, population: str, cost: int) -> tuple[int, str] | None:
    """Charge a cost if it fits, and lock the account.

    Returns
    -------
    tuple of (int, str) or None
        The new entry's sequence and the hash before it; None if the cost does not fit.
    """
    row = _CHARGE.first(connection, population=population, cost=cost)
    return None if row is None else (row[0], row[1])


def advance(connection: Connection, population: str) -> tuple[int, str]:
    """Take the next sequence without a charge, and lock the account."""
    row = _ADVANCE.first(connection, population=population)
    assert row is not None
    return row[0], row[1]


def append_entry(connection: Connection, population: str, entry: StoredEntry) -> None:
    """Append an entry to the chain and move its head. The account's row must be locked."""
    _INSERT_ENTRY.execute(
        connection,
        population=population,
        sequence=entry.sequence,
        payload=entry.payload,
        entry_hash=entry.entry_hash,
    )
    _SET_HEAD.execute(connection, population=population, head=entry.entry_hash)


def list_entries(connection: Connection, population: str, *, after: int, count: int) -> list[StoredEntry]:
    """Return up to `count` entries after a sequence, in order."""
    return [StoredEntry(*row) for row in _ENTRIES.all(connection, population=population, after=after, count=count)]


def iterate_entries(connection: Connection, population: str) -> Iterator[StoredEntry]:
    """Yield the whole chain in pages."""
    after = 0
    while page := list_entries(connection, population, after=after, count=_PAGE):
        yield from page
        after = page[-1].sequence


def _population(row: tuple[Any, ...]) -> Population:
    name, adjacency, accountant, delta, *account = row
    return Population(name, Adjacency(adjacency), ACCOUNTANTS[accountant], float(delta), *account)
