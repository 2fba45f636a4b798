"""What was asked: releases as questions in words, each as the ledger's signed entry states it, without an answer."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from pydantic_core import from_json
from sqlalchemy import bindparam, select

from curator_service.entries.sessions import KIND, OpenSession
from curator_service.kinds.registry import KindRegistry
from curator_service.kinds.wording import describe_rows
from curator_service.kit.db import Connection, Database, Statement
from curator_service.kit.names import NAME
from curator_service.kit.problems import NotFound
from curator_service.ledger import search
from curator_service.ledger.chain.attestation import is_attested
from curator_service.ledger.chain.entries import StoredEntry
from curator_service.ledger.models import PopulationRow, SpendingRow
from curator_service.ledger.repository import Population, find_entry, find_population, list_entries
from curator_service.ledger.service import LedgerService
from curator_service.releases.answers import read_about
from curator_service.releases.audit import is_stated
from curator_service.releases.rendering import answer_digest
from curator_service.releases.repository import StoredRelease, find_release

UNSHOWN = "cannot be shown: what is stored is not the answer that the ledger's entry states"
UNSIGNED = "cannot be shown: the ledger's entry is not one that this curator signed"
_NOTHING_SAID = {"actor": "", "time": "", "units": "0"}
_KINDS = ("charge", "derive")
_SESSION = OpenSession.kind
_LOOKED_THROUGH = 400
"""Questions that one page looks through at most for a column."""
# An index leads from a population to its months: one look each, however much was charged.
_OF_POPULATION = select(SpendingRow.month).where(SpendingRow.population == PopulationRow.name).correlate(PopulationRow)
_LAST_MONTHS = Statement(
    select(
        PopulationRow.name,
        _OF_POPULATION.where(SpendingRow.month <= bindparam("month"), SpendingRow.kind != bindparam("but_for"))
        .order_by(SpendingRow.month.desc())
        .limit(1)
        .scalar_subquery(),
    )
)
_OF_SESSIONS = Statement(
    select(PopulationRow.name)
    .where(_OF_POPULATION.where(SpendingRow.month == bindparam("month"), SpendingRow.kind == KIND).exists())
    .order_by(PopulationRow.name)
)


_Asked = tuple[str, StoredEntry, dict[str, Any]]
"""A population, an entry of its chain, and what that says."""


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
        return search.read_units(self.said["units"]) if self.said["kind"] in {"charge", _SESSION} else 0

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

    def is_answer(self, said: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
        """Tell whether an answer that somebody shows is the stored one that an entry states."""
        with self.database.read() as connection:
            stored = find_release(connection, str(said.get("release")))
        if stored is None or answer_digest(stored.answer) != said.get("answer_digest"):
            return False
        return bool(from_json(stored.answer) == shown)

    def list_words(self, population: str, *, after: int, count: int) -> dict[int, str]:
        """Return what the releases of a page of a chain asked, in words, by the sequence of their entries."""
        with self.database.snapshot() as connection:
            page = list_entries(connection, population, after=after, count=count)
            said = [(entry, search.read_payload(entry)) for entry in page]
            return {
                entry.sequence: self._read(
                    connection, population, entry, find_release(connection, str(payload.get("release")))
                ).words
                for entry, payload in said
                if payload["kind"] in _KINDS
            }

    def find_last_month(self) -> str:
        """Return the last month in which a release was charged, or else anything; empty if nothing ever was."""
        with self.database.read() as connection:
            found = self._list_charged(connection, but_for=KIND) or self._list_charged(connection, but_for="")
        return found[0][0] if found else ""

    @staticmethod
    def _list_charged(connection: Connection, *, month: str = "9999-12", but_for: str) -> list[tuple[str, str]]:
        """Return the last month up to one in which each population was charged, those charged last first."""
        found = [
            (str(last), str(name)) for name, last in _LAST_MONTHS.all(connection, month=month, but_for=but_for) if last
        ]
        return sorted(sorted(found, key=itemgetter(1)), key=itemgetter(0), reverse=True)

    def list_populations(self, month: str) -> list[str]:
        """Return the populations of which something may have been asked in a month: those charged by then.

        An answer that is cut out of another is free; of nothing else. Those charged in that month come first.
        """
        with self.database.read() as connection:
            return [name for _, name in self._list_charged(connection, month=month, but_for=KIND)]

    def list_of(
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
        if not NAME.fullmatch(population):
            return [], None
        with self.database.snapshot() as connection:
            entries = self._iterate(connection, population, said, before, count)
            found, following = self._choose(connection, entries, kind, column, count)
        return found, None if following is None else following.sequence + 1

    def list_of_all(
        self, populations: Sequence[str], said: Sequence[tuple[str, str]], *, kind: str, column: str, count: int
    ) -> tuple[list[Question], bool]:
        """Return what was asked of several populations, the newest first, and whether there is more."""
        with self.database.snapshot() as connection:
            chains = [self._iterate(connection, name, said, 2**62, count // 4) for name in populations]
            entries = heapq.merge(*chains, key=lambda one: str(one[2]["time"]), reverse=True)
            found, following = self._choose(connection, entries, kind, column, count)
        return found, following is not None

    def list_populations_of_sessions(self, month: str) -> list[str]:
        """Return the populations of which threshold sessions were opened in a month."""
        with self.database.read() as connection:
            return [str(name) for (name,) in _OF_SESSIONS.all(connection, month=month)]

    def list_sessions(
        self, populations: Sequence[str], said: Sequence[tuple[str, str]], *, count: int
    ) -> tuple[list[Question], bool]:
        """Return the threshold sessions that were opened, the newest first, and whether there are more."""
        found, is_cut = list[Question](), False
        with self.database.snapshot() as connection:
            for name in filter(NAME.fullmatch, populations):
                page, following = search.list_entries_that_say(
                    connection, name, [*said, ("kind", _SESSION)], before=2**62, count=count
                )
                found += [self._read_session(connection, name, entry, payload) for entry, payload in page]
                is_cut = is_cut or following is not None
        found.sort(key=lambda one: str(one.said["time"]), reverse=True)
        return found[:count], is_cut or len(found) > count

    def _read_session(
        self, connection: Connection, population: str, entry: StoredEntry, said: dict[str, Any]
    ) -> Question:
        account = find_population(connection, population)
        assert account is not None  # whose chain has the entry
        if not is_attested(population, entry, self.ledger.guard.trust.holds):
            return Question(account, entry, {"kind": _SESSION} | _NOTHING_SAID, None, {}, UNSIGNED, "")
        words = f"yes-or-no questions, until {said.get('positives')} of them are answered yes"
        return Question(account, entry, said, None, {}, words, "")

    def _choose(
        self, connection: Connection, entries: Iterable[_Asked], kind: str, column: str, count: int
    ) -> tuple[list[Question], StoredEntry | None]:
        """Return the questions of a kind and about a column, and the entry to go on with; None if there is none."""
        found: list[Question] = []
        for looked, (population, entry, payload) in enumerate(entries):
            if len(found) == count or looked == _LOOKED_THROUGH:
                return found, entry
            if kind and payload.get("release_kind") != kind:
                continue
            stored = find_release(connection, str(payload.get("release")))
            question = self._read(connection, population, entry, stored)
            if not column or any(column == one["name"] for one in question.columns):
                found.append(question)
        return found, None

    @staticmethod
    def _iterate(
        connection: Connection, population: str, said: Sequence[tuple[str, str]], before: int, at_once: int
    ) -> Iterator[_Asked]:
        """Return the entries of answers, the newest first, some at once."""
        account = find_population(connection, population)
        floor = None if account is None else min(before, account.sequence + 1)
        while floor is not None:
            page, floor = search.list_entries_that_say(connection, population, said, before=floor, count=at_once)
            yield from ((population, entry, payload) for entry, payload in page if payload["kind"] in _KINDS)

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
