"""Crashes while rows are asked for, come, go or are written anew leave one version, that of before or the asked.

Each scenario is followed through every change of a file, every statement and every commit. Short form: some of them.
``CURATOR_TEST_LONG=1``: all.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from failpoints import Run, running
from scenes import another_worker
from support import Ticking, World, open_world
from test_versions import ANNA, MORE, OTHERS, add, erase, find, register, rows

from curator_service.datasets.repository import REPLACE

pytestmark = pytest.mark.crashes

IS_LONG = os.environ.get("CURATOR_TEST_LONG") == "1"
SAMPLES = 5
"""Steps of each scenario in the short form."""
BEFORE = ANNA + OTHERS


def _cut(world: World) -> None:
    world.clock.advance(days=31)
    world.curator.versions.cut(find(world, "visits"))
    world.curator.datasets.storage.sweep(world.curator.datasets.list_folders)


def _retire(world: World) -> None:
    world.curator.versions.retire("visits", actor="operator:test")


def _erase(world: World) -> None:
    erase(world)


def _erase_and_add(world: World) -> None:
    erase(world)
    add(world, "visits", MORE)


@dataclass(frozen=True)
class Scenario:
    """Crash of an act, and the rows that it is to make.

    Attributes
    ----------
    act : callable
    asked : str
        The rows that are asked for; nothing where the dataset ends.
    prepare : callable, optional
        What was done before, and so must come about.
    """

    act: Callable[[World], None]
    asked: str
    prepare: Callable[[World], None] | None = None


SCENARIOS = {
    "append": Scenario(lambda world: add(world, "visits", MORE), BEFORE + MORE),
    "replace": Scenario(lambda world: add(world, "visits", MORE, REPLACE), MORE),
    "erase": Scenario(_erase, OTHERS),
    "retire": Scenario(_retire, ""),
    "cut": Scenario(_cut, OTHERS + MORE, _erase_and_add),
    "end": Scenario(_cut, "", _retire),
}
Rows = list[tuple[int, ...]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose folder is copied."""
    with open_world(tmp_path_factory.mktemp("prepared")) as world:
        register(world, "visits", BEFORE)
        yield world


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The stored rows of each text, registered at once."""
    found: dict[str, Rows] = {"": []}
    with open_world(tmp_path_factory.mktemp("models")) as world:
        for i, text in enumerate({BEFORE, *(scenario.asked for scenario in SCENARIOS.values())} - {""}):
            register(world, f"model{i}", text)
            found[text] = rows(world, f"model{i}")
    return found


def copy(world: World, folder: Path) -> World:
    """Return a world of the same state."""
    world.curator.database.dispose()
    for part in ("data", "data-anchor"):
        shutil.copytree(world.folder / part, folder / part)
    settings = world.settings.model_copy(update={"data_dir": folder / "data"})
    made = World(settings, world.curator, Ticking(world.clock.moment), folder, None)
    made.curator = another_worker(made)
    return made


def assert_one_version(world: World) -> None:
    """Start, and find whole rows, nothing beside them, and nothing charged."""
    world.curator.close()
    world.curator = another_worker(world)
    assert world.curator.ledger.guard.start() == ""
    assert world.curator.datasets.start() == []
    root = world.settings.data_dir / "datasets"
    assert {path.name for path in root.iterdir() if path.is_dir()} == world.curator.datasets.list_folders().folders
    assert all(world.curator.datasets.holds(dataset) for dataset in world.curator.datasets.list_all())
    account = world.account()
    assert (account.posted, account.pending) == (0, 0)


def stored(world: World) -> Rows:
    """Return the rows of the dataset; none if it has ended."""
    return [] if find(world, "visits").is_retired else rows(world, "visits")


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Tell at which step an assertion fails."""
    try:
        yield
    except AssertionError as error:
        error.add_note(what)
        raise


@pytest.mark.parametrize("name", SCENARIOS)
def test_whoever_dies_at_any_step_leaves_one_version(
    prepared: World, models: dict[str, Rows], tmp_path: Path, name: str
) -> None:
    scenario = SCENARIOS[name]
    begun, whole = copy(prepared, tmp_path / "begun"), Run()
    if scenario.prepare is not None:
        scenario.prepare(begun)
    world = copy(begun, tmp_path / "whole")
    with running(whole):
        scenario.act(world)
    world.close()
    count = len(whole.steps)
    for at in range(0, count + 1, 1 if IS_LONG else -(-count // SAMPLES)):
        world, died = copy(begun, tmp_path / str(at)), Run(at)
        with telling(f"step {at} of {count}: {[*whole.steps, 'none'][at]}"):
            with running(died):
                scenario.act(world)
            assert died.is_dead == (at < count)
            assert_one_version(world)
            assert stored(world) in (models[BEFORE], models[scenario.asked])
            world.clock.advance(days=31)
            world.curator.versions.cut_due()
            # What waits in the database, or was written down beside the anchor, is a change by now.
            is_asked = scenario.prepare is not None or bool(world.curator.versions.list_changes())
            assert is_asked or at < count
            assert_one_version(world)
            assert stored(world) == models[scenario.asked if is_asked else BEFORE]
        world.close()
        shutil.rmtree(world.folder)
