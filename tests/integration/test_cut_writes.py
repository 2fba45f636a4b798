"""A cut writes as much whoever was erased or came: what follows its public time has no length of its own to tell by."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from failpoints import Run, running
from support import World
from test_versions import ANNA, MORE, OTHERS, add, erase, find, register
from test_withdrawals import withdraw

from curator_service.datasets.repository import REPLACE, list_waiting
from curator_service.kit.db import Connection, Database, Statement


def still(_world: World) -> None:
    """Ask for nothing."""


ACTS = {
    "erased": erase,
    "erased and withdrawn": lambda world: withdraw(world, lambda _: erase(world, identifier="p5")),
    "three erased": lambda world: [erase(world, identifier=who) for who in ("anna-canary", "p1", "p2")],
    "came": lambda world: add(world, "visits", "q1,2010,true,2\n"),
    "came in two uploads": lambda world: [add(world, "visits", MORE), add(world, "visits", "q3,2010,true,2\n")],
    "came and erased": lambda world: [add(world, "visits", MORE), erase(world, identifier="p6")],
}


@dataclass
class Written:
    """Writes of a cut behind its public time.

    Attributes
    ----------
    steps : list of str
        Changes of files and of their names, statements and commits, in order.
    statements : list of tuple
        Their texts, and of their values the lengths.
    anchored : int
        Bytes.
    pages : int
        Of the embedded database's log.
    changes : int
        That waited.
    """

    steps: list[str] = field(default_factory=list)
    statements: list[tuple[str, Any]] = field(default_factory=list)
    anchored: int = 0
    pages: int = 0
    changes: int = 0


def _measure(values: dict[str, Any]) -> dict[str, int]:
    return {name: len(value) if isinstance(value, str) else 8 for name, value in values.items()}


@contextmanager
def following(world: World, written: Written) -> Iterator[None]:
    """Note what is written from the end of the public time on."""
    run, forget = Run(), Database.forget_deleted
    execute, execute_each = Statement.execute, Statement.execute_each

    def note(self: Statement, connection: Connection, /, **values: Any) -> Any:
        written.statements.append((self._compile(connection.dialect)[0], _measure(values)))
        return execute(self, connection, **values)

    def note_each(self: Statement, connection: Connection, rows: Any) -> None:
        rows = list(rows)
        written.statements.append((self._compile(connection.dialect)[0], [_measure(row) for row in rows]))
        execute_each(self, connection, rows)

    def count_pages(self: Database) -> None:
        if self.is_sqlite:
            with self.read() as connection:
                written.pages = connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
        forget(self)

    @contextmanager
    def end(_duration_s: float) -> Iterator[None]:
        yield
        run.steps.clear()
        written.statements.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statement, "execute", note)
        patch.setattr(Statement, "execute_each", note_each)
        patch.setattr(Database, "forget_deleted", count_pages)
        patch.setattr(world.curator.versions, "ending_after", end)
        anchor = world.curator.ledger.guard.anchor.path
        before = anchor.stat().st_size
        with running(run):
            yield
        written.anchored = anchor.stat().st_size - before
    written.steps = [re.sub(r"[0-9a-f]{12,}", "*", step) for step in run.steps]


def cut_after(world: World, act: Any) -> Written:
    """Ask for something, and follow the next cut."""
    act(world)
    world.clock.advance(days=31)
    with world.curator.database.read() as connection:
        written = Written(changes=len(list_waiting(connection, find(world, "visits").id)))
    with following(world, written):
        world.curator.versions.cut(find(world, "visits"))
    world.curator.datasets.storage.sweep(world.curator.datasets.list_folders)
    return written


def assert_same(found: Written, still: Written) -> None:
    """Hold a cut against one at which nothing changed."""
    assert found.steps == still.steps
    assert found.statements == still.statements
    assert found.anchored == still.anchored
    # One statement notes the changes as made, each on a page at most; and random digests fall on other pages.
    assert abs(found.pages - still.pages) <= max(found.changes, still.changes) + 2


@pytest.mark.parametrize("replaces", [False, True])
def test_behind_its_public_time_a_cut_writes_the_same_whatever_was_asked(both: World, *, replaces: bool) -> None:
    """Also where others stand for the rows, whoever is erased with them."""
    register(both, "visits")
    cuts = [cut_after(both, still) for _ in range(12)]  # numbers have two digits from here on
    for act in ACTS.values() if not replaces else [still, erase, still]:
        if replaces:
            add(both, "visits", ANNA + OTHERS, REPLACE)
        cuts += [cut_after(both, act), cut_after(both, still)]
    found = cuts[-6::2] if replaces else cuts[11:]
    assert sum(text.startswith("INSERT") for text, _ in found[0].statements) >= 3
    for one in found:
        assert_same(one, found[0])
