"""Fixtures of the tests with processes: one nursery for all of them, and a town for each test, on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from nursery import Nursery
from support import World
from towns import Town, open_place, open_town


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Return the parent of every process."""
    # The last two are what pyarrow imports at its first use, where they are installed.
    made = Nursery("towns", "faulty", "customers", "curator_service.cli", "pandas", "pyarrow.pandas_compat")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def embedded_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world on the embedded database, which the tests of a module share."""
    with open_place(tmp_path_factory.mktemp("embedded"), None) as world:
        yield world


@pytest.fixture(scope="module")
def postgres_place(tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str) -> Iterator[World]:
    """Return a world on PostgreSQL, which the tests of a module share."""
    with open_place(tmp_path_factory.mktemp("postgres"), module_postgres_url) as world:
        yield world


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest) -> World:
    """Return a world that the tests of a module share. A test that uses it runs on both databases."""
    name = "embedded_place" if request.param == "sqlite" else "postgres_place"
    world: World = request.getfixturevalue(name)
    return world


@pytest.fixture
def town(place: World, nursery: Nursery, tmp_path: Path) -> Iterator[Town]:
    """Return a town, once on each database."""
    with open_town(place, nursery, tmp_path) as made:
        yield made


@pytest.fixture
def embedded_town(embedded_place: World, nursery: Nursery, tmp_path: Path) -> Iterator[Town]:
    with open_town(embedded_place, nursery, tmp_path) as made:
        yield made


@pytest.fixture
def postgres_town(postgres_place: World, nursery: Nursery, tmp_path: Path) -> Iterator[Town]:
    with open_town(postgres_place, nursery, tmp_path) as made:
        yield made


@pytest.fixture
def doomed_town(nursery: Nursery, tmp_path: Path, database_url: str | None) -> Iterator[Town]:
    """Return a town in a world of its own, for what breaks a ledger; once on each database."""
    with open_place(tmp_path, database_url) as world, open_town(world, nursery, tmp_path) as made:
        yield made


@pytest.fixture
def embedded_doomed_town(nursery: Nursery, tmp_path: Path) -> Iterator[Town]:
    """Return the same on the embedded database alone."""
    with open_place(tmp_path, None) as world, open_town(world, nursery, tmp_path) as made:
        yield made
