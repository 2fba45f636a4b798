"""Fixtures of tests with processes: one process factory for all, and a deployment for each test, on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deployments import Deployment, open_place, open_town
from process_factory import ProcessFactory
from support import World


@pytest.fixture(scope="session")
def process_factory() -> Iterator[ProcessFactory]:
    """Return the parent of every process."""
    # The last two are what pyarrow imports at its first use, where they are installed.
    made = ProcessFactory("deployments", "faulty", "customers", "warm", "pandas", "pyarrow.pandas_compat")
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
def town(place: World, process_factory: ProcessFactory, tmp_path: Path) -> Iterator[Deployment]:
    """Return a town, once on each database."""
    with open_town(place, process_factory, tmp_path) as made:
        yield made


@pytest.fixture
def embedded_town(embedded_place: World, process_factory: ProcessFactory, tmp_path: Path) -> Iterator[Deployment]:
    with open_town(embedded_place, process_factory, tmp_path) as made:
        yield made


@pytest.fixture
def postgres_town(postgres_place: World, process_factory: ProcessFactory, tmp_path: Path) -> Iterator[Deployment]:
    with open_town(postgres_place, process_factory, tmp_path) as made:
        yield made


@pytest.fixture
def doomed_town(process_factory: ProcessFactory, tmp_path: Path, database_url: str | None) -> Iterator[Deployment]:
    """Return a town in a world of its own, for what breaks a ledger; once on each database."""
    with open_place(tmp_path, database_url) as world, open_town(world, process_factory, tmp_path) as made:
        yield made


@pytest.fixture
def embedded_doomed_town(process_factory: ProcessFactory, tmp_path: Path) -> Iterator[Deployment]:
    """Return the same on the embedded database alone."""
    with open_place(tmp_path, None) as world, open_town(world, process_factory, tmp_path) as made:
        yield made
