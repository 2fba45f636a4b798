"""Competing charges on PostgreSQL, and a mutant that shows that this test would see an overspent budget."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from support import World, body, open_world

from curator_service.identity.policy import Role
from curator_service.ledger import repository
from curator_service.ledger.service import BudgetExceeded
from curator_service.privacy.accountant import Price
from curator_service.releases.schemas import ReleaseRequest
from curator_service.releases.service import AnswerKind

pytestmark = pytest.mark.postgres

Charge = Callable[[Connection, str, int], tuple[int, str] | None]


def compete(world: World) -> list[str]:
    """Send two fresh requests from two threads, each for the whole budget; return how each ended."""
    dataset = next(d for d in world.curator.datasets.list_all() if d.name == "cohort")
    analyst = next(p for p in world.curator.identity.list_principals() if p.role is Role.ANALYST)
    request = ReleaseRequest.model_validate(body(price={"rho": 0.05}, fresh=True))
    prepared = world.curator.releases.prepare(dataset, request)

    def buy(key: str) -> str:
        try:
            _, kind = world.curator.releases.release(prepared, analyst, key)
        except BudgetExceeded:
            return "refused"
        assert kind is AnswerKind.NEW
        return "charged"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(buy, ["one", "two"]))


def is_overspent(world: World) -> bool:
    """Tell whether the chain's charges exceed the limit."""
    charged = sum(int(entry["units"]) for entry in world.entries() if entry["kind"] == "charge")
    return charged > world.account().limit


def meet_before(charge: Charge) -> Charge:
    """Return a charge that waits until both threads are about to charge."""
    barrier = threading.Barrier(2, timeout=10)

    def waiting(connection: Connection, population: str, cost: int) -> tuple[int, str] | None:
        barrier.wait()
        return charge(connection, population, cost)

    return waiting


def naive_charge() -> Charge:
    """Return what must never be written: read, check, and only then write."""
    barrier = threading.Barrier(2, timeout=10)

    def charge(connection: Connection, population: str, cost: int) -> tuple[int, str] | None:
        account = repository.find_population(connection, population)
        assert account is not None
        if account.posted + cost > account.limit:
            return None
        barrier.wait()
        row = connection.execute(
            text(
                "UPDATE populations SET posted_units = :posted, head_sequence = head_sequence + 1 "
                "WHERE name = :name RETURNING head_sequence, head_hash"
            ),
            {"posted": account.posted + cost, "name": population},
        ).one()
        return row[0], row[1]

    return charge


def test_of_two_charges_for_the_whole_budget_one_is_refused(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "charge", meet_before(repository.charge))
        assert compete(world) == ["charged", "refused"]
        assert not is_overspent(world)
        assert world.curator.ledger.verify("town").ok


def test_a_naive_charge_overspends_and_is_detected(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_world(tmp_path, url=postgres_url, limit=Price(rho=0.05)) as world:
        monkeypatch.setattr(repository, "charge", naive_charge())
        assert compete(world) == ["charged", "charged"]
        assert is_overspent(world)
        assert "exceed the limit" in world.curator.ledger.verify("town").reason
