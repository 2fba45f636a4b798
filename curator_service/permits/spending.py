"""Who spent what: the ledger's sums of charges, grouped, with names, in every notion of the account."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from curator_service.identity.repository import list_principals
from curator_service.kit.db import Connection, Database
from curator_service.ledger.chain.verification import Charged
from curator_service.ledger.repository import Population, list_populations, list_spending
from curator_service.ledger.schemas import render_amount

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
"""What a cell must not begin with, or a spreadsheet takes it for a formula."""


class By(StrEnum):
    """What charges are grouped by."""

    ANALYST = "analyst"
    PROJECT = "project"
    DATASET = "dataset"
    KIND = "kind"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a group of charges of one population adds up to.

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


def list_spent(database: Database, by: Sequence[By], first_kind: str, population: str | None = None) -> list[Spent]:
    """Return what was charged, by population and group.

    Parameters
    ----------
    database : Database
    by : sequence of By
    first_kind : str
        What releases are of whose entries name no kind.
    population : str, optional
        All of them if not given.

    Returns
    -------
    list of Spent
        In the order of population and group.
    """
    with database.snapshot() as connection:
        names = {principal.id: principal.name for principal in list_principals(connection)}
        accounts = [one for one in list_populations(connection) if population in {None, one.name}]
        return [spent for account in accounts for spent in _group(connection, account, by, names, first_kind)]


def _group(
    connection: Connection, account: Population, by: Sequence[By], names: dict[str, str], first_kind: str
) -> Iterable[Spent]:
    sums: dict[tuple[str, ...], list[int]] = {}
    for charged, (charges, units) in list_spending(connection, account.name).items():
        found = sums.setdefault(tuple(_named(charged, one, names, first_kind) for one in by), [0, 0])
        found[0], found[1] = found[0] + charges, found[1] + units
    for key in sorted(sums):
        yield Spent(account, dict(zip(by, key, strict=True)), *sums[key])


def _named(charged: Charged, by: By, names: dict[str, str], first_kind: str) -> str:
    match by:
        case By.ANALYST:
            return names.get(charged.actor, charged.actor)
        case By.KIND:
            return charged.kind or first_kind
        case _:
            return str(getattr(charged, by))


def render_spent(spent: Spent) -> dict[str, Any]:
    """Return it as JSON."""
    return {
        "population": spent.population.name,
        **{by.value: name for by, name in spent.group.items()},
        "charges": spent.charges,
        "spent": render_amount(spent.population.view(spent.units)),
    }


def write_csv(found: Sequence[Spent], by: Sequence[By]) -> str:
    """Return it as CSV (RFC 4180) in which no cell is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["population", *by, "charges", "units", "epsilon", "delta", "mu", "rho"])
    for spent in found:
        amount = render_amount(spent.population.view(spent.units))
        numbers = [amount[name] for name in ("units", "epsilon", "delta", "mu", "rho")]
        cells = [spent.population.name, *(spent.group[one] for one in by), spent.charges, *numbers]
        writer.writerow(["" if cell is None else _safe(str(cell)) for cell in cells])
    return text.getvalue()


def write_jsonl(found: Sequence[Spent]) -> str:
    """Return it as a line of JSON for each group."""
    return "".join(f"{json.dumps(render_spent(spent), ensure_ascii=False)}\n" for spent in found)


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_DANGEROUS) else cell
