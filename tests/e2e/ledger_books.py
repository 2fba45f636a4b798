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
    stated : list of int
        The sequence of the entry that is the answer of a key.
    sessions : dict of str to int
        The sequence of the entry that opened each session.
    questions : dict of tuple to int
        For each session and number the sequence of the answer's entry.
    noise : list of str
        The sessions whose noise is there.
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
    stated: list[int]
    sessions: dict[str, int]
    questions: dict[tuple[str, int], int]
    noise: list[str]
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
        self._check_sessions()
        charged = sum(int(entry["units"]) for entry in (*self.charges, *self.of_kind("session")))
        assert charged == self.posted, "the account is not what was charged"
        held = sum(units - drawn for _, units, drawn, state in self.reservations if state == "open")
        assert held == self.pending, "the account is not what is held"
        assert self.posted >= 0
        assert self.pending >= 0
        assert self.posted + self.pending <= self.limit
        assert [entry["sequence"] for entry in self.entries] == list(range(1, len(self.entries) + 1))
        if settled:
            assert self.pending == 0, [row for row in self.reservations if row[3] == "open"]

    def _check_sessions(self) -> None:
        """Check that sessions, questions, keys and chain are one story, and that nothing follows a session's end."""
        opened, answers = self.of_kind("session"), self.of_kind("answer")
        assert {entry["session"]: entry["sequence"] for entry in opened} == self.sessions
        assert {(entry["session"], entry["number"]): entry["sequence"] for entry in answers} == self.questions
        stated = [entry["sequence"] for entry in self.entries if entry["kind"] in {"session", "answer"}]
        assert sorted(self.stated) == stated, "an answer belongs to no key, or to two"
        for entry in opened:
            _, *own = [later for later in self.entries if later.get("session") == entry["session"]]
            told = [one for one in own if one["kind"] == "answer"]
            yes = [one["answer"] == "positive" for one in told]
            assert [one["number"] for one in told] == list(range(1, len(told) + 1))
            assert [one["positives"] for one in told] == [sum(yes[:i]) for i in range(len(yes))]
            most = entry["positives"]
            assert sum(yes) <= most
            is_over = [
                one["kind"] == "close" or one["positives"] + (one["answer"] == "positive") == most for one in own
            ]
            assert not any(is_over[:-1]), "it went on after its end"
            assert any(is_over) or entry["session"] in self.noise, "it was paid, and cannot be asked"


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
        stated = read("SELECT sequence FROM idempotency_keys WHERE population = %s", [population])
        sessions = read("SELECT id, sequence FROM sessions WHERE population = %s", [population])
        questions = read(
            "SELECT q.session_id, q.number, q.sequence FROM session_questions q "
            "JOIN sessions s ON s.id = q.session_id WHERE s.population = %s",
            [population],
        )
        noise = read("SELECT session_id FROM session_noise", [])
        ((seal,),) = read("SELECT reason FROM seal", [])
    return LedgerBooks(
        limit=limit,
        posted=posted,
        pending=pending,
        entries=[json.loads(payload_text) for (payload_text,) in entries],
        releases=dict(releases),
        keys={(principal, key): (release, reservation) for principal, key, release, reservation in keys},
        reservations=reservations,
        stated=[sequence for (sequence,) in stated],
        sessions=dict(sessions),
        questions={(session, number): sequence for session, number, sequence in questions},
        noise=[session for (session,) in noise],
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
