"""The ledger's sums of charges, grouped, with names, in every notion of the account."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from curator_service.kit.db import Database
from curator_service.ledger.repository import Population, find_population, list_populations
from curator_service.ledger.response_models import AmountModel
from curator_service.permits.repository import sum_spending

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell must not begin with, or a spreadsheet takes it for a formula: signs of full width, too."""


class By(StrEnum):
    """The members by which charges are grouped."""

    ANALYST = "analyst"
    PROJECT = "project"
    DATASET = "dataset"
    KIND = "kind"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Spent:
    """The sum of a group of charges of one population.

    Attributes
    ----------
    population : Population
    group : dict of By to str
    charges : int
        How many.
    units : int
        Of the account.
    """

    population: Population
    group: dict[By, str]
    charges: int
    units: int


def list_spent(
    database: Database,
    by: Sequence[By],
    population: str | None = None,
    *,
    start: int = 0,
    count: int | None = None,
) -> list[Spent]:
    """Return what was charged, by population and group.

    Parameters
    ----------
    population : str, optional
        All of them if not given.
    start, count : int
        Which of the groups; all of them without a count.

    Returns
    -------
    list of Spent
        In the order of population and group.
    """
    groups = tuple(one.value for one in by)
    with database.snapshot() as connection:
        found = sum_spending(connection, groups, population, start=start, count=count)
        names = {row[0] for row in found}
        if len(names) == 1:
            accounts = {name: find_population(connection, name) for name in names}
        else:
            accounts = {one.name: one for one in list_populations(connection)}
    return [_spent(accounts[name], by, row) for name, *row in found]


def _spent(account: Population | None, by: Sequence[By], row: list[Any]) -> Spent:
    *names, charges, units = row
    assert account is not None
    return Spent(account, dict(zip(by, names, strict=True)), int(charges), int(units))


def write_csv(found: Sequence[Spent], by: Sequence[By]) -> str:
    """Return it as CSV (RFC 4180) in which no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["population", *by, "charges", "units", "epsilon", "delta", "mu", "rho"])
    for spent in found:
        amount = AmountModel.of(spent.population.view(spent.units))
        numbers = [amount.units, amount.epsilon, amount.delta, amount.mu, amount.rho]
        cells = [spent.population.name, *(spent.group[one] for one in by), spent.charges, *numbers]
        writer.writerow(["" if cell is None else _safe(str(cell)) for cell in cells])
    return text.getvalue()


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_DANGEROUS) else cell
