"""Competing charges on PostgreSQL, and a mutant that shows that this test would see an overspent budget."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from patience import scaled
from sqlalchemy import text
from support import World, body, open_world

from curator_service.identity.policy import Role
from curator_service.kit.db import Connection, Statement
from curator_service.ledger import repository
from curator_service.ledger.accounts.unit_of_work import Ledger
from curator_service.ledger.repository import Head
from curator_service.ledger.service import BudgetExceeded
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.privacy.accountant import Price
from curator_service.releases.preparation import prepare
from curator_service.releases.schemas import ReleaseRequest
from curator_service.releases.service import AnswerKind

pytestmark = pytest.mark.postgres

Move = Callable[..., Head | None]
MOVE = repository.move
PATHS = pytest.mark.parametrize("rows", ["box", "ball"], ids=["at once", "pass"])
SET_FROM_MEMORY = Statement(
    text(
        "UPDATE populations SET posted_units = :posted, pending_units = :pending, head_sequence = head_sequence + 1 "
        "WHERE name = :name RETURNING head_sequence, head_hash, epoch, limit_units, posted_units, pending_units"
    )
)


def compete(world: World, rows: str) -> list[str]:
    """Send two fresh requests from two threads, each for the whole budget; return how each ended."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    analyst = next(p for p in world.curator.identity.list_principals() if p.role is Role.ANALYST)
    request = ReleaseRequest.model_validate(body(price={"rho": 0.05}, rows={"map": rows}, fresh=True))
    prepared = prepare(dataset, request)

    def buy(key: str) -> str:
        try:
            _, kind = world.curator.releases.release(prepared, analyst, key)
        except BudgetExceeded:
            return "refused"
        except (psycopg.errors.CheckViolation, LedgerUnverified):
            return "stopped"
        assert kind is AnswerKind.NEW
        return "charged"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(buy, ["one", "two"]))


def is_overspent(world: World) -> bool:
    """Tell whether the chain's charges exceed the limit."""
    charged = sum(int(entry["units"]) for entry in world.entries() if entry["kind"] == "charge")
    return charged > world.account().limit


def meet_before(move: Move) -> Move:
    """Return a move that waits until both threads are about to spend; what is held already is posted without a wait."""
    barrier = threading.Barrier(2, timeout=scaled(10))

    def waiting(connection: Connection, population: str, *, posted: int, pending: int) -> Head | None:
        if posted + pending > 0:
            barrier.wait()
        return move(connection, population, posted=posted, pending=pending)

    return waiting


def naive_move() -> Move:
    """Return what must never be written: read, check, and only then write."""
    barrier = threading.Barrier(2, timeout=scaled(10))

    def move(connection: Connection, population: str, *, posted: int, pending: int) -> Head | None:
        if posted + pending <= 0:
            return MOVE(connection, population, posted=posted, pending=pending)
        account = repository.find_population(connection, population)
        assert account is not None
        if posted + pending > account.remaining:
            return None
        barrier.wait()
        posted, pending = account.posted + posted, account.pending + pending
        row = SET_FROM_MEMORY.first(connection, posted=posted, pending=pending, name=population)
        assert row is not None
        return Head(population, *row)

    return move


@PATHS
def test_of_two_charges_for_the_whole_budget_one_is_refused(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "move", meet_before(MOVE))
        assert compete(world, rows) == ["charged", "refused"]
        assert not is_overspent(world)
        assert world.account().pending == 0
        assert world.curator.ledger.verify("town").ok


def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let units of work trust the account without asking its last entry."""
    monkeypatch.setattr(Ledger, "check", lambda *_args, **_amounts: None)


def test_a_naive_charge_overspends_and_is_detected(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "move", naive_move())
        unchecked(monkeypatch)
        assert compete(world, "box") == ["charged", "charged"]
        assert is_overspent(world)
        assert "exceed the limit" in world.curator.ledger.verify("town").reason


@PATHS
def test_a_naive_charge_contradicts_the_last_entry_and_seals(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    """The second line of defence: the account, as it was before it moved, must be what the last entry says."""
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "move", naive_move())
        assert sorted(compete(world, rows))[-1] == "stopped"
        assert not is_overspent(world)
        assert "is not what its last entry says" in world.curator.ledger.guard.reason()


def test_a_naive_reservation_is_detected_and_its_posting_stopped(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hold the whole budget; the database itself refuses that what is held falls below nothing."""
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "move", naive_move())
        unchecked(monkeypatch)
        assert compete(world, "ball") == ["charged", "stopped"]
        assert not is_overspent(world)
        assert "exceed the limit" in world.curator.ledger.verify("town").reason
