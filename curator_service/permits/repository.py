"""Queries of permits: what holds, and who may use which dataset under which."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Dialect, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import aliased

from curator_service.approvals.terms import PermitTerms
from curator_service.datasets.models import DatasetRow
from curator_service.entries.rules import Rule, read_rules
from curator_service.identity.models import GrantRow, PermitRow, PrincipalRow
from curator_service.kit.db import Connection, InsertIfAbsent, Statement
from curator_service.ledger.models import ShareRow, SpendingRow
from curator_service.ledger.repository import IS_PERMITTED


@dataclass(frozen=True, slots=True)
class PermitRecord:
    """A permit as it is stored: `terms` are JSON of names and ids; `ended_at` is empty while it holds."""

    id: str
    version: int
    project: str
    terms: str
    granted_at: str
    ended_at: str


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit as it is now, with names.

    Attributes
    ----------
    people, datasets : dict of str to str
        Names by id.
    limits : dict of str to (int or None)
        Of each population, what may be spent of it, in units; None for all of it.
    """

    id: str
    version: int
    terms: PermitTerms
    people: dict[str, str]
    datasets: dict[str, str]
    limits: dict[str, int | None]
    granted_at: str
    ended_at: str


@dataclass(frozen=True, slots=True)
class Use:
    """A permit under which an analyst may use a dataset.

    Attributes
    ----------
    permit, project : str
        Its id, and what requests name it by.
    expires_at : str
        Empty for one without an end.
    lasts : bool
        Whether something may be charged under it, by the clock of the service and by that of the database.
    left : int or None
        Units of its limit that may still be charged; None if it has none.
    rules : dict of str to Rule
        By their names.
    """

    permit: str
    project: str
    expires_at: str
    lasts: bool
    left: int | None
    rules: Mapping[str, Rule[Any]]


_PERMIT = (
    PermitRow.id,
    PermitRow.version,
    PermitRow.project,
    PermitRow.terms,
    PermitRow.granted_at,
    PermitRow.ended_at,
)
_FIND = Statement(select(*_PERMIT).where(PermitRow.id == bindparam("permit")))
_LIST = Statement(select(*_PERMIT).order_by(PermitRow.granted_at.desc(), PermitRow.id))
_OF_PERSON = Statement(
    select(*_PERMIT)
    .where(
        PermitRow.id.in_(select(GrantRow.permit_id).where(GrantRow.principal_id == bindparam("principal"))),
    )
    .order_by(PermitRow.granted_at.desc(), PermitRow.id)
)
_INSERT = InsertIfAbsent(PermitRow)
_UPDATE = Statement(
    update(PermitRow)
    .where(PermitRow.id == bindparam("permit"), PermitRow.version == bindparam("was"))
    .values(
        version=bindparam("was") + 1,
        project=bindparam("called"),
        terms=bindparam("content"),
        ended_at=bindparam("ended"),
    )
)
_USES = Statement(
    select(
        GrantRow.permit_id,
        PermitRow.project,
        ShareRow.expires_at,
        IS_PERMITTED,
        ShareRow.limit_units - ShareRow.posted_units - ShareRow.pending_units,
        PermitRow.terms,
    )
    .join(PermitRow, PermitRow.id == GrantRow.permit_id)
    .join(DatasetRow, DatasetRow.id == GrantRow.dataset_id)
    .join(
        ShareRow,
        and_(
            ShareRow.population == DatasetRow.population,
            ShareRow.permit_id == GrantRow.permit_id,
        ),
    )
    .where(GrantRow.principal_id == bindparam("principal"), GrantRow.dataset_id == bindparam("dataset"))
    .order_by(PermitRow.project, GrantRow.permit_id)
)
_CLEAR_GRANTS = Statement(delete(GrantRow).where(GrantRow.permit_id == bindparam("permit")))
_ADD_GRANT = Statement(insert(GrantRow))
_person, _dataset = aliased(PrincipalRow), aliased(DatasetRow)
_GRANTS = Statement(
    select(_person.name, _dataset.name, GrantRow.permit_id)
    .join(_person, _person.id == GrantRow.principal_id)
    .join(_dataset, _dataset.id == GrantRow.dataset_id)
    .order_by(_person.name, _dataset.name, GrantRow.permit_id)
)
_SUMMED_BY: dict[str, Any] = {
    "analyst": func.coalesce(PrincipalRow.name, SpendingRow.principal_id),
    "project": SpendingRow.project,
    "dataset": SpendingRow.dataset,
    "kind": SpendingRow.kind,
    "month": SpendingRow.month,
}


class _SumSpending(Statement):
    """Sum charges by population and group, in the order of their names."""

    def __init__(self, by: tuple[str, ...], *, of_one: bool) -> None:
        super().__init__(select(SpendingRow.population))
        self._by = by
        self._of_one = of_one

    def _build(self, dialect: Dialect) -> Any:
        keys = [SpendingRow.population.label("of"), *(_SUMMED_BY[name].label(f"by_{name}") for name in self._by)]
        # Populations in the order of their index, so that a page reads those that it shows alone; groups within one in
        # the same order on both databases, whatever the server's language is.
        shown = [keys[0], *(key if dialect.name == "sqlite" else key.collate("C") for key in keys[1:])]
        chosen = select(*keys, func.sum(SpendingRow.charges), func.sum(SpendingRow.units)).join(
            PrincipalRow, PrincipalRow.id == SpendingRow.principal_id, isouter=True
        )
        if self._of_one:
            chosen = chosen.where(SpendingRow.population == bindparam("population"))
        page = {name: bindparam(name, type_=BigInteger) for name in ("count", "start")}
        return chosen.group_by(*keys).order_by(*shown).limit(page["count"]).offset(page["start"])


@cache
def _sum_spending(by: tuple[str, ...], of_one: bool) -> _SumSpending:
    return _SumSpending(by, of_one=of_one)


def sum_spending(
    connection: Connection,
    by: tuple[str, ...],
    population: str | None,
    *,
    start: int = 0,
    count: int | None = None,
) -> list[tuple[Any, ...]]:
    """Return what was charged, by population and group.

    Parameters
    ----------
    by : tuple of str
        Of analyst, project, dataset, kind, month.
    population : str or None
        All of them if None.
    start, count : int
        Which of the groups; all of them without a count.

    Returns
    -------
    list of tuple
        Population, the group's names, how many charges, and their units.
    """
    asked: dict[str, Any] = {"start": start, "count": 2**62 if count is None else count}
    asked |= {} if population is None else {"population": population}
    return _sum_spending(by, population is not None).all(connection, **asked)


def find_permit(connection: Connection, permit_id: str) -> PermitRecord | None:
    """Return a permit, or None."""
    row = _FIND.first(connection, permit=permit_id)
    return None if row is None else PermitRecord(*row)


def list_permits(connection: Connection, *, of: str | None = None) -> list[PermitRecord]:
    """Return permits, the newest first; with `of`, those that hold and let this principal spend."""
    found = _LIST.all(connection) if of is None else _OF_PERSON.all(connection, principal=of)
    return [PermitRecord(*row) for row in found]


def list_uses(connection: Connection, principal_id: str, dataset_id: str, moment: str) -> list[Use]:
    """Return the permits under which an analyst may use a dataset, by project."""
    found = _USES.all(connection, principal=principal_id, dataset=dataset_id, moment=moment)
    return [
        Use(permit, project, expires_at, bool(lasts), left, _rules_of(terms))
        for permit, project, expires_at, lasts, left, terms in found
    ]


def _rules_of(stored: str) -> dict[str, Rule[Any]]:
    """Read the rules of a permit's row, for the text of a refusal; the chain's hold, whatever the row says."""
    if "rules" not in stored:  # most have none, and every quote asks
        return {}
    try:
        return read_rules(json.loads(json.loads(stored)["terms"]).get("rules"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def list_grants(connection: Connection) -> list[tuple[str, str, str]]:
    """Return grants as (analyst's name, dataset's name, permit's id)."""
    return [(analyst, dataset, permit) for analyst, dataset, permit in _GRANTS.all(connection)]


def write_permit(connection: Connection, record: PermitRecord, uses: list[tuple[str, str]], moment: str) -> bool:
    """Write a permit and its uses; False if it is not at the version before this one.

    Parameters
    ----------
    uses : list of (str, str)
        Ids of principals and datasets.

    Returns
    -------
    bool
        Whether it was written.
    """
    if record.version == 1:
        values = {name: getattr(record, name) for name in ("id", "version", "project", "terms", "granted_at")}
        written = _INSERT.changed(connection, **values, ended_at=record.ended_at) == 1
    else:
        asked = {"permit": record.id, "was": record.version - 1, "called": record.project, "ended": record.ended_at}
        written = _UPDATE.changed(connection, **asked, content=record.terms) == 1
    if not written:
        return False
    _CLEAR_GRANTS.execute(connection, permit=record.id)
    rows: list[dict[str, object]] = [
        {"principal_id": principal_id, "dataset_id": dataset_id, "permit_id": record.id, "created_at": moment}
        for principal_id, dataset_id in uses
    ]
    _ADD_GRANT.execute_each(connection, rows)  # a hundred people and a hundred datasets, and the accounts are locked
    return True
