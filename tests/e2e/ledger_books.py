"""The books of one population, read straight from the database's tables, and what must hold of them."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class LedgerBooks:
    """The contents of the ledger's tables.

    Attributes
    ----------
    limit, posted, pending : int
        Units of the account.
    entries : list of dict
        The chain.
    releases : dict of str to int
        The sequence of every stored answer.
    keys : dict of tuple to tuple
        For each principal's key its release and its reservation.
    reservations : list of tuple
        Id, units, drawn units and state.
    seal : str
        Why the curator is sealed; empty while it is not.
    """

    limit: int
    posted: int
    pending: int
    entries: list[dict[str, Any]]
    releases: dict[str, int]
    keys: dict[tuple[str, str], tuple[str | None, str | None]]
    reservations: Rows
    seal: str

    @property
    def charges(self) -> list[dict[str, Any]]:
        return self.of_kind("charge")

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["kind"] == kind]

    def check(self, *, settled: bool) -> None:
        """Check that charges, answers, keys, reservations and the account are one story.

        With `settled`, also that nothing is held any more.
        """
        assert self.seal == "", self.seal
        answered = [entry for entry in self.entries if entry["kind"] in {"charge", "derive"}]
        assert {entry["release"]: entry["sequence"] for entry in answered} == self.releases
        assert len(answered) == len(self.releases), "two entries are of one release"
        claimed = {release for release, _ in self.keys.values()}
        assert set(self.releases) <= claimed, "an answer belongs to no key: a phantom charge"
        assert claimed - {None} <= set(self.releases), "a key has an answer that is not stored"
        assert sum(int(entry["units"]) for entry in self.charges) == self.posted, "the account is not what was charged"
        held = sum(units - drawn for _, units, drawn, state in self.reservations if state == "open")
        assert held == self.pending, "the account is not what is held"
        assert self.posted >= 0
        assert self.pending >= 0
        assert self.posted + self.pending <= self.limit
        assert [entry["sequence"] for entry in self.entries] == list(range(1, len(self.entries) + 1))
        if settled:
            assert self.pending == 0, [row for row in self.reservations if row[3] == "open"]


def read_books(url: str, population: str) -> LedgerBooks:
    with _snapshot(url) as read:
        ((limit, posted, pending),) = read(
            "SELECT limit_units, posted_units, pending_units FROM populations WHERE name = %s", [population]
        )
        entries = read("SELECT payload FROM ledger_entries WHERE population = %s ORDER BY sequence", [population])
        releases = read("SELECT id, sequence FROM releases WHERE population = %s", [population])
        keys = read(
            "SELECT k.principal_id, k.key, k.release_id, k.reservation_id FROM idempotency_keys k "
            "LEFT JOIN releases r ON r.id = k.release_id LEFT JOIN reservations v ON v.id = k.reservation_id "
            "WHERE coalesce(r.population, v.population) = %s OR coalesce(r.population, v.population) IS NULL",
            [population],
        )
        reservations = read(
            "SELECT id, units, drawn_units, state FROM reservations WHERE population = %s", [population]
        )
        ((seal,),) = read("SELECT reason FROM seal", [])
    return LedgerBooks(
        limit=limit,
        posted=posted,
        pending=pending,
        entries=[json.loads(payload_text) for (payload_text,) in entries],
        releases=dict(releases),
        keys={(principal, key): (release, reservation) for principal, key, release, reservation in keys},
        reservations=reservations,
        seal=seal,
    )


@contextmanager
def _snapshot(url: str) -> Iterator[Any]:
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as embedded:
            embedded.execute("BEGIN")
            yield lambda text, values: embedded.execute(text.replace("%s", "?"), values).fetchall()
        return
    with psycopg.connect(url) as server:
        server.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def read(text: str, values: Sequence[Any]) -> Rows:
            return server.execute(text, values).fetchall()

        yield read
