"""RED (PostgreSQL): of two registrations of the same people at once, under two populations, one is refused."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from patience import scaled
from scenes import another_worker
from support import World, csv_text, make_rows, manifest_text, open_world

from curator_service.datasets.likeness import LikenessService
from curator_service.datasets.service import RegistrationError

PEOPLE = make_rows(90, seed=1234)


@pytest.fixture
def postgres(tmp_path: Path, postgres_url: str) -> Iterator[World]:
    with open_world(tmp_path, url=postgres_url) as made:
        yield made


@pytest.mark.parametrize("disguised", [False, True])
def test_the_same_people_are_not_registered_twice_at_once(
    postgres: World, monkeypatch: pytest.MonkeyPatch, disguised: bool
) -> None:
    """Both have looked for an owner, and found none, before either is committed."""
    world, meeting = postgres, threading.Barrier(2)
    record = LikenessService.record

    def late(self: LikenessService, *arguments: Any) -> None:
        try:  # where one has to wait for the other, before it looks, they do not meet, and nothing is wrong
            meeting.wait(scaled(3.0))
        except threading.BrokenBarrierError:
            pass
        record(self, *arguments)

    monkeypatch.setattr(LikenessService, "record", late)

    def register(population: str) -> str:
        rows = PEOPLE[::-1] if disguised and population == "valley" else PEOPLE
        manifest, data = world.folder / f"twice-{population}.toml", world.folder / f"twice-{population}.csv"
        manifest.write_text(manifest_text(f"twice-{population}", population), encoding="utf-8")
        data.write_text(csv_text(rows), encoding="utf-8")
        curator = another_worker(world)
        try:
            curator.datasets.register(manifest, data, actor="operator:test")
        except RegistrationError:
            return "refused"
        finally:
            curator.close()
        return "registered"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(register, ("town", "valley")))
    assert outcomes == ["refused", "registered"]
