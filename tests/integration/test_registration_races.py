"""Registrations at once: nobody gets two budgets, and no more guesses are answered than one after another."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patience import scaled
from scenes import another_worker
from support import World, csv_text, make_rows, manifest_text, open_world

from curator_service.datasets.likeness import LikenessService
from curator_service.datasets.service import REFUSALS_MAX, RegistrationError

pytestmark = pytest.mark.crashes

PEOPLE = make_rows(300, seed=1234)


@pytest.fixture
def place(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    with open_world(tmp_path, url=database_url) as made:
        yield made


def register(world: World, name: str, population: str, rows: list[dict[str, str]]) -> str:
    """Register rows as another process does; return what became of it."""
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(manifest_text(name, population), encoding="utf-8")
    data.write_text(csv_text(rows), encoding="utf-8")
    curator = another_worker(world)
    try:
        curator.datasets.register(manifest, data, actor="operator:test")
    except RegistrationError as error:
        return "refused" if "the same rows, or nearly" in str(error) else str(error)
    finally:
        curator.close()
    return "registered"


def meet_before(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let two threads wait for each other before a step of theirs; where one has to wait elsewhere they do not meet."""
    meeting, step = threading.Barrier(2), getattr(LikenessService, name)

    def late(self: LikenessService, *arguments: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            meeting.wait(scaled(1.0))
        return step(self, *arguments)

    monkeypatch.setattr(LikenessService, name, late)


@pytest.mark.parametrize("disguised", [False, True])
def test_the_same_people_are_not_registered_twice_at_once(
    place: World, monkeypatch: pytest.MonkeyPatch, disguised: bool
) -> None:
    """Both would look for an owner, and find none, before either is committed."""
    meet_before(monkeypatch, "record")
    rows = {"town": PEOPLE, "valley": PEOPLE[::-1] if disguised else PEOPLE}
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda name: register(place, f"twice-{name}", name, rows[name]), rows))
    assert sorted(outcomes) == ["refused", "registered"]
    loser = list(rows)[outcomes.index("refused")]
    (entry,) = [entry for entry in place.entries(loser) if entry["kind"] == "refusal"]
    assert entry["like"] != loser


def test_guesses_at_once_are_not_answered_beyond_the_limit(place: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert register(place, "people", "town", PEOPLE) == "registered"
    for i in range(REFUSALS_MAX - 1):
        assert register(place, f"guess{i}", "valley", PEOPLE[i:]) == "refused"
    meet_before(monkeypatch, "sketcher")  # behind the first look at how many were refused
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda i: register(place, f"last{i}", "valley", PEOPLE[20 + i :]), range(2)))
    assert outcomes.count("refused") == 1
    assert sum("within a day" in outcome for outcome in outcomes) == 1
    assert sum(entry["kind"] == "refusal" for entry in place.entries("valley")) == REFUSALS_MAX
