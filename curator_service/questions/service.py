"""What was asked: releases as questions in words, each as the ledger's signed entry states it, without an answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select

from curator_service.kinds.registry import KindRegistry
from curator_service.kinds.wording import describe_rows
from curator_service.kit.db import Connection, Database, Statement
from curator_service.kit.problems import NotFound
from curator_service.ledger import search
from curator_service.ledger.chain.attestation import is_attested
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.models import SpendingRow
from curator_service.ledger.repository import Population, find_entry, find_population
from curator_service.ledger.service import LedgerService
from curator_service.releases.answers import read_about
from curator_service.releases.audit import is_stated
from curator_service.releases.repository import StoredRelease, find_release

UNSHOWN = "cannot be shown: what is stored is not the answer that the ledger's entry states"
UNSIGNED = "cannot be shown: the ledger's entry is not one that this curator signed"
_NOTHING_SAID = {"actor": "", "time": "", "units": "0"}
_KINDS = ("charge", "derive")
_LOOKED_THROUGH = 400
"""Questions that one page looks through at most for a column."""
_MONTHS = Statement(select(SpendingRow.month).distinct().order_by(SpendingRow.month.desc()).limit(240))
_SPENT = Statement(
    select(SpendingRow.population)
    .where(SpendingRow.month == bindparam("month"))
    .distinct()
    .order_by(SpendingRow.population)
)


@dataclass(frozen=True, slots=True)
class Question:
    """A release as what was asked.

    Attributes
    ----------
    population : Population
    entry : StoredEntry
    said : dict
        Members of the entry.
    request : dict or None
        As the caller stated it; None where it cannot be shown.
    about : dict
        Members of the answer beside its numbers; empty where it cannot be shown.
    words, formula : str
        The latter is empty where there is none.
    """

    population: Population
    entry: StoredEntry
    said: dict[str, Any]
    request: dict[str, Any] | None
    about: dict[str, Any]
    words: str
    formula: str

    @property
    def release_id(self) -> str:
        """Id of the release."""
        return str(self.said["release"])

    @property
    def units(self) -> int:
        """What it was charged, in units of the account; 0 of one that was cut out of another."""
        return search.read_units(self.said["units"]) if self.said["kind"] == "charge" else 0

    @property
    def columns(self) -> list[dict[str, Any]]:
        """Columns that it is about, with their public declarations; none where it cannot be shown."""
        about = self.about
        columns = about.get("columns") or [*about.get("features", []), *map(_declare, about.get("targets", []))]
        return [*columns, *about.get("derived", [])]


class QuestionService:
    """Questions, for whoever may read the ledger.

    Nothing is taken from a row that its attested entry does not state: an entry has the digest of an answer, which has
    the request.
    """

    def __init__(self, database: Database, ledger: LedgerService, kinds: KindRegistry) -> None:
        self.database, self.ledger, self.kinds = database, ledger, kinds

    def find(self, release_id: str) -> Question:
        """Return what was asked by a release. Raise `NotFound` where there is none."""
        with self.database.snapshot() as connection:
            stored = find_release(connection, release_id)
            entry = None if stored is None else find_entry(connection, stored.population, stored.sequence)
            if stored is None or entry is None:
                raise NotFound("There is no release of this id.")
            return self._read(connection, stored.population, entry, stored)

    def find_of_entry(self, population: str, entry: StoredEntry) -> Question | None:
        """Return what was asked by an entry's release; None where the entry is of none."""
        said = search.read_payload(entry)
        if said["kind"] not in _KINDS:
            return None
        with self.database.snapshot() as connection:
            return self._read(connection, population, entry, find_release(connection, str(said.get("release"))))

    def list_months(self) -> list[str]:
        """Return the months in which something was charged, the newest first."""
        with self.database.read() as connection:
            return [str(month) for (month,) in _MONTHS.all(connection)]

    def list_populations(self, month: str) -> list[str]:
        """Return the populations that were charged in a month."""
        with self.database.read() as connection:
            return [str(name) for (name,) in _SPENT.all(connection, month=month)]

    def list(
        self,
        population: str,
        said: Sequence[tuple[str, str]],
        *,
        kind: str = "",
        column: str = "",
        before: int,
        count: int,
    ) -> tuple[list[Question], int | None]:
        """Return what was asked of a population, the newest first.

        Parameters
        ----------
        said : sequence of (str, str)
            Members that entries must state, as `ledger.search` takes them.
        kind, column : str
            A kind of release, and a column that it is about; any if empty.
        before : int
            The sequence before which to look.

        Returns
        -------
        list of Question
        int or None
            Before which sequence to go on; None where there is nothing more.
        """
        found: list[Question] = []
        with self.database.snapshot() as connection:
            account = find_population(connection, population)
            if account is None:
                return [], None
            before = min(before, account.sequence + 1)
            for looked, (entry, payload) in enumerate(self._iterate(connection, population, said, before)):
                if len(found) == count or looked == _LOOKED_THROUGH:
                    return found, entry.sequence + 1
                if kind and payload.get("release_kind") != kind:
                    continue
                stored = find_release(connection, str(payload.get("release")))
                question = self._read(connection, population, entry, stored)
                if not column or any(column == one["name"] for one in question.columns):
                    found.append(question)
        return found, None

    @staticmethod
    def _iterate(
        connection: Connection, population: str, said: Sequence[tuple[str, str]], before: int
    ) -> Iterator[tuple[StoredEntry, dict[str, Any]]]:
        """Return the entries of answers, the newest first, a window at a time."""
        floor: int | None = before
        while floor is not None:
            page, floor = search.list_entries_that_say(connection, population, said, before=floor, count=100)
            yield from ((entry, payload) for entry, payload in page if payload["kind"] in _KINDS)

    def _read(
        self, connection: Connection, population: str, entry: StoredEntry, stored: StoredRelease | None
    ) -> Question:
        account = find_population(connection, population)
        assert account is not None  # whose chain has the entry
        said = {"release": ""} | search.read_payload(entry)
        if not is_attested(population, entry, self.ledger.guard.trust.holds):
            told = {name: said[name] for name in ("release", "kind")}
            return Question(account, entry, told | _NOTHING_SAID, None, {}, UNSIGNED, "")
        if (
            stored is None
            or (stored.population, stored.sequence) != (population, entry.sequence)
            or not is_stated(stored)
        ):
            return Question(account, entry, said, None, {}, UNSHOWN, "")
        about = read_about(stored.answer)
        kind, request = self.kinds[about["kind"]], about["request"]
        words = kind.describe_question(request) + describe_rows(request)
        return Question(account, entry, said, request, about, words, kind.write_formula(request))


def _declare(target: dict[str, Any]) -> dict[str, Any]:
    """Return a target as a column: its answer states the middle of its bounds, and half of their distance."""
    if target["kind"] == "boolean":
        return {**target, "levels": ["false", "true"]}
    return {**target, "lower": target["center"] - target["scale"], "upper": target["center"] + target["scale"]}
