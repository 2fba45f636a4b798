"""Competing charges on PostgreSQL."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from patience import scaled
from support import World, body, open_world

from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.kit.db import Connection
from curator_service.ledger import repository
from curator_service.ledger.repository import Head
from curator_service.ledger.service import BudgetExceeded
from curator_service.ledger.trust.guard import LedgerUnverified
from curator_service.privacy.accountant import Price
from curator_service.releases.preparation import prepare
from curator_service.releases.service import AnswerKind

pytestmark = pytest.mark.postgres

Move = Callable[..., Head | None]
MOVE = repository.move
PATHS = pytest.mark.parametrize("rows", ["box", "ball"], ids=["at once", "pass"])


def compete(world: World, rows: str) -> list[str]:
    """Send two analysts' fresh requests from two threads, each for the whole budget; return how each ended."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    # Of two people: one person's keys are counted before anything is charged, under a lock.
    analysts = [p for p in world.curator.identity.list_principals() if Role.ANALYST in p.roles]
    request = GramRequest.model_validate(body(price={"rho": 0.05}, rows={"map": rows}, fresh=True))
    prepared = prepare(KINDS, dataset, request)

    def buy(analyst: Principal, key: str) -> str:
        try:
            _, kind = world.curator.releases.release(prepared, analyst, key)
        except BudgetExceeded:
            return "refused"
        except (psycopg.errors.CheckViolation, LedgerUnverified):
            return "stopped"
        assert kind is AnswerKind.NEW
        return "charged"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(buy, analysts, ["one", "two"]))


def meet_before(move: Move) -> Move:
    """Return a move that waits until both threads are about to spend; what is held already is posted without a wait."""
    barrier = threading.Barrier(2, timeout=scaled(10))

    def waiting(connection: Connection, population: str, *, posted: int, pending: int) -> Head | None:
        if posted + pending > 0:
            barrier.wait()
        return move(connection, population, posted=posted, pending=pending)

    return waiting


@PATHS
def test_of_two_charges_for_the_whole_budget_one_is_refused(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "move", meet_before(MOVE))
        ends = compete(world, rows)
        for wrong in (world.curator.ledger.guard.reason(), world.curator.ledger.verify("town").reason):
            assert wrong == "", wrong
        assert ends == ["charged", "refused"]
        assert world.account().pending == 0
