"""Fixtures of the server's tests. Nothing here touches a database that it did not create."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from canaries import _canaries_are_searched_for, _no_canary_is_shown, pytest_runtest_logreport  # noqa: F401
from hypothesis import Phase, settings
from support import Api, World, fresh_database, named_database, open_world

from analyst_client.inference import multiplicity

# Arrow loads libraries with its first array. Load them here: else each process that reads rows would.
pa.array([0])

# A worker of the test runner has a width of its own, which commands would keep.
os.environ.pop("COLUMNS", None)

# How long an example takes is the machine's matter.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# A mutant is found by the first example that fails.
settings.register_profile("first_failure", deadline=None, phases=[Phase.explicit, Phase.generate])


def pytest_collection_finish() -> None:
    """Look for garbage less often: what was collected lives until the end, and was a seventh of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


POSTGRES_VARIABLE = "CURATOR_TEST_POSTGRES_URL"
FORBID_SKIPS_VARIABLE = "CURATOR_TEST_FORBID_SKIPS"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that skipped a test, where skipping is forbidden."""
    if os.environ.get(FORBID_SKIPS_VARIABLE) != "1":
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped:
        reporter.write_line(f"{len(skipped)} tests were skipped, and {FORBID_SKIPS_VARIABLE}=1", red=True, bold=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CURATOR_") and not name.startswith("CURATOR_TEST_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_models_of_other_tests() -> None:
    """Forget what was fitted: a summary counts the models of its process, and equal releases count as one."""
    multiplicity._FITTED.clear()


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """Return the URL of a PostgreSQL server on which tests may create databases and roles."""
    url = os.environ.get(POSTGRES_VARIABLE)
    if not url:
        pytest.skip(f"PostgreSQL is NOT tested: set {POSTGRES_VARIABLE}=postgresql://user@host/postgres")
    return url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of a database that is not there yet: `open_world` makes it, as a copy where it can."""
    with named_database(postgres_server) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of a fresh, empty database."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
def module_postgres_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of a fresh, empty database for the tests of one module."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of a database that `open_world` makes; None is the embedded one. Its tests run on both."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_database_url(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of a fresh, empty database; None is the embedded one."""
    return None if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as made:
        yield made


@pytest.fixture
def both(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world, once on each database."""
    with open_world(tmp_path, url=database_url) as made:
        yield made


@pytest.fixture
def api(world: World) -> Api:
    """Return a client with the token of the analyst ada."""
    return world.api()


@pytest.fixture
def town(tmp_path: Path, postgres_url: str) -> Iterator[World]:
    """Return a world on PostgreSQL."""
    with open_world(tmp_path, url=postgres_url) as made:
        yield made
