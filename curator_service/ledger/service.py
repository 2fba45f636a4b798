"""Rules of the ledger: opening a population, charging it, showing and verifying its chain."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from sqlalchemy import Connection

from curator_service.db import Database
from curator_service.ledger import repository
from curator_service.ledger.chain import (
    FORMAT,
    GENESIS,
    AccountState,
    Receipt,
    StoredEntry,
    Verification,
    canonical,
    entry_hash,
    verify_chain,
)
from curator_service.ledger.repository import Population
from curator_service.names import NAME, NAME_RULE
from curator_service.privacy.accountant import ACCOUNTANTS, PURE, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.conversions import DELTA_MIN
from curator_service.problems import NotFound, Problem

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time of now, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Format a moment as RFC 3339, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class BudgetExceeded(Problem):
    """The cost does not fit into what remains."""

    slug = "budget-exceeded"
    status = HTTPStatus.CONFLICT
    title = "The privacy budget does not allow this request"


class PopulationError(ValueError):
    """A population cannot be created as asked; the message says why, for the admin."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge inside an open unit of work: the account is locked, the entry not yet written."""

    population: str
    sequence: int
    previous_hash: str
    units: int


def _units_of_limit(accountant: Accountant, limit: Price) -> int:
    if limit.is_pure and accountant is not PURE:
        raise PopulationError("state delta beside epsilon: a budget of epsilon alone is for the accountant pure")
    try:
        units = accountant.units_of(limit)
    except ValueError as error:
        raise PopulationError(f"the budget is not valid: {error}") from error
    if not 0 < units < 2**60:
        raise PopulationError(
            f"an account holds from 1e-12 to 1e6 of {accountant.symbol}; this budget is outside of it"
        )
    return units


class Ledger:
    """The ledger of one unit of work.

    Parameters
    ----------
    connection : Connection
        Inside `Database.begin`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def charge(self, population: str, cost: int) -> Charge | None:
        """Charge a cost, decided by the database in one statement; None if it does not fit."""
        head = repository.charge(self.connection, population, cost)
        return None if head is None else Charge(population, *head, cost)

    def record(self, charge: Charge, kind: str, facts: Mapping[str, Any]) -> Receipt:
        """Append the entry of a charge to the chain."""
        payload = canonical(
            {
                **facts,
                "format": FORMAT,
                "kind": kind,
                "population": charge.population,
                "sequence": charge.sequence,
                "units": str(charge.units),
                "previous_hash": charge.previous_hash,
            }
        )
        entry = StoredEntry(charge.sequence, payload, entry_hash(payload))
        repository.append_entry(self.connection, charge.population, entry)
        return Receipt(payload, entry.entry_hash)

    def note(self, population: str, kind: str, facts: Mapping[str, Any]) -> Receipt:
        """Append an entry that charges nothing."""
        return self.record(Charge(population, *repository.advance(self.connection, population), 0), kind, facts)


class LedgerService:
    """What admins and auditors do with the ledger.

    Parameters
    ----------
    database : Database
    now : callable
        The clock.
    """

    def __init__(self, database: Database, now: Clock = utc_now) -> None:
        self.database = database
        self.now = now

    def create_population(
        self, name: str, *, adjacency: Adjacency, accountant: str, limit: Price, delta: float, actor: str
    ) -> Population:
        """Create a population with its budget: the one act that gives people a budget.

        Parameters
        ----------
        name : str
        adjacency : Adjacency
            Fixed for good.
        accountant : str
            ``gdp``, ``zcdp`` or ``pure``; fixed for good.
        limit : Price
            The budget, in a notion that the accountant knows; rounded down to the account's integers.
        delta : float
            The δ at which (ε, δ) views of the account are shown; 0 under ``pure``.
        actor : str

        Raises
        ------
        PopulationError
            If the name is taken, or a number is out of range.
        """
        if not NAME.fullmatch(name):
            raise PopulationError(f"the name must be {NAME_RULE}")
        if accountant not in ACCOUNTANTS:
            raise PopulationError(f"the accountant must be one of {', '.join(ACCOUNTANTS)}")
        counting = ACCOUNTANTS[accountant]
        if counting is PURE:
            delta = 0.0
        elif not float(DELTA_MIN) <= delta < 1:
            raise PopulationError("delta must be at least 1e-15 and below 1")
        units = _units_of_limit(counting, limit)
        moment = timestamp(self.now())
        population = Population(name, adjacency, counting, delta, units, 0, 0, 0, GENESIS, moment)
        with self.database.begin() as connection:
            if not repository.insert_population(connection, population):
                raise PopulationError(
                    f"the population {name!r} exists; a budget is given once, and never refilled by naming it again"
                )
            facts = {"adjacency": adjacency.value, "accountant": accountant, "delta": repr(delta)}
            opening = Charge(name, *repository.advance(connection, name), units)
            Ledger(connection).record(opening, "open", {**facts, "actor": actor, "time": moment})
        return replace(population, sequence=1)

    def list_populations(self) -> list[Population]:
        """Return every population with its account."""
        with self.database.read() as connection:
            return repository.list_populations(connection)

    def get_population(self, name: str) -> Population:
        """Return a population.

        Raises
        ------
        NotFound
        """
        with self.database.read() as connection:
            population = repository.find_population(connection, name)
        if population is None:
            raise NotFound("There is no population of this name.")
        return population

    def list_entries(self, population: str, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """Return a page of a chain, each entry with its hash."""
        with self.database.read() as connection:
            page = repository.list_entries(connection, population, after=after, count=count)
        return [json.loads(entry.payload) | {"entry_hash": entry.entry_hash} for entry in page]

    def verify(self, population: str) -> Verification:
        """Verify a chain against its account, in one consistent read."""
        with self.database.snapshot() as connection:
            row = repository.find_population(connection, population)
            if row is None:
                raise NotFound("There is no population of this name.")
            terms = (row.adjacency.value, row.accountant.name, repr(row.delta), row.created_at)
            account = AccountState(row.limit, row.posted, row.pending, row.sequence, row.head, terms)
            return verify_chain(population, repository.iterate_entries(connection, population), account)
