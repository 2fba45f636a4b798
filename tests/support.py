"""Helpers of the server's tests: a small cohort with every missing rule, doubles, and a world to act in."""

import asyncio
import atexit
import csv
import io
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from canaries import CANARIES, mark
from fastapi import FastAPI
from patience import scaled
from sqlalchemy import make_url

from analyst_client import CuratorClient
from curator_service.app import create_app
from curator_service.container import Curator, make_curator
from curator_service.datasets import reading
from curator_service.entries.base import Entry
from curator_service.identity.policy import Role
from curator_service.kit.apart import Bounds, Told, Work, WorkRefused
from curator_service.ledger.repository import Population, iterate_entries
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution
from curator_service.releases.acts import _prepare_again
from curator_service.releases.audit import StoredReleaseAudit
from curator_service.releases.response_time import ResponseTimer
from curator_service.settings import Settings

# httpx looks for it with each request to an application, in every folder; that it is not there is remembered so.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

EPOCH = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ADMIN = (Role.STEWARD, Role.PRIVACY_OFFICER, Role.AUDITOR, Role.OPERATOR)
"""Every role but the analyst's: what small hospitals give to one person."""
TERMS: dict[str, Any] = {
    "project": "kidney",
    "people": ["ada"],
    "datasets": ["cohort"],
    "purpose": "kidneys",
    "legal_basis": "consent",
    "expires_at": "2099-01-01T00:00:00Z",
    "reason": "a study",
}
"""Of a permit, as it is asked for."""
BUDGET = Price(epsilon=1.0, delta=1e-6)
PUBLIC_PACE: dict[str, Any] = {
    "pace": 1.0,
    "requests_per_minute": 1_000_000,
    "failures_per_minute": 1_000_000,
    "keys_per_day": 10**9,
}
"""The reference machine's, whatever machine tests run on: quotes state times. And nobody waits for a rate."""

# name, type, missing rule, bounds or levels, unit
COLUMNS: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [
    ("age", "numeric", "complete", (50.0, 100.0), "years"),
    ("sex", "categorical", "complete", ("F", "M", "X"), None),
    ("creatinine", "numeric", "omit", (0.0, 3.0), "mg/dL"),
    ("weight", "numeric", "midpoint", (40.0, 160.0), "kg"),
    ("height", "numeric", "indicator", (140.0, 200.0), "cm"),
    ("smoker", "boolean", "midpoint", ("no", "yes"), None),
    ("treated", "boolean", "indicator", ("no", "yes"), None),
    ("frail", "boolean", "omit", ("no", "yes"), None),
    ("alive", "boolean", "complete", (), None),
    ("region", "categorical", "indicator", ("north", "south", "west"), None),
    ("stage", "categorical", "omit", ("I", "II", "III"), None),
    ("ward", "categorical", "midpoint", ("a", "b"), None),
    ("kappa", "numeric", "complete", (0.0, 6.0), "mg/dL"),
    ("lambda", "numeric", "omit", (0.0, 6.0), "mg/dL"),
    ("dose", "numeric", "indicator", (-10.0, 10.0), "mg"),
]


COUNTED = "events"
"""Unit of columns whose numbers are whole."""


def make_rows(count: int = 80, seed: int = 7) -> list[dict[str, str]]:
    """Return rows as text: blanks where the rule allows one, and numbers beyond their bounds."""
    source = random.Random(seed)
    rows = []
    for _ in range(count):
        row = {}
        for name, kind, missing, public, _unit in COLUMNS:
            if missing != "complete" and source.random() < 0.15:
                row[name] = ""
            elif kind == "numeric":
                span = public[1] - public[0]
                row[name] = repr(round(source.uniform(public[0] - 0.1 * span, public[1] + 0.1 * span), 4))
            else:
                row[name] = source.choice(public or ("true", "false", "1", "0"))
        rows.append(row)
    return rows


NUMBERS = [name for name, kind, *_ in COLUMNS if kind == "numeric"]
ROWS = mark(make_rows(), NUMBERS)


def csv_text(rows: list[dict[str, str]], *, quoting: int = csv.QUOTE_MINIMAL) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), quoting=quoting, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


PERSONS = "rows_are_persons = true"
"""The line of a manifest of which no subject is declared."""


def manifest_text(
    name: str = "cohort",
    population: str = "town",
    *,
    columns: list[tuple[str, str, str, tuple[Any, ...], str | None]] | None = None,
    row_capacity: int = 1000,
) -> str:
    lines = [f'name = "{name}"', f'population = "{population}"', f"row_capacity = {row_capacity}"]
    lines.append(PERSONS)
    for column, kind, missing, public, unit in COLUMNS if columns is None else columns:
        lines += ["", "[[columns]]", f'name = "{column}"', f'type = "{kind}"', f'missing = "{missing}"']
        lines += [f'unit = "{unit}"'] if unit else []
        if kind == "numeric":
            lines += [f"lower = {public[0]!r}", f"upper = {public[1]!r}"]
            lines += ["whole = true"] if unit == COUNTED else []
        elif public:
            lines.append(f"levels = {json.dumps(public, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def body(**changes: Any) -> dict[str, Any]:
    """Return a valid release request, changed."""
    request: dict[str, Any] = {
        "kind": "gram",
        "features": ["age", "sex"],
        "targets": ["kappa"],
        "price": {"mu": 0.05},
        **changes,
    }
    return {name: value for name, value in request.items() if value is not ...}


class Ticking:
    """A clock that tests set."""

    def __init__(self, moment: datetime = EPOCH) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **span: float) -> None:
        """Let time pass."""
        self.moment += timedelta(**span)


class ZeroNoise:
    """No noise: an answer then states the exact statistics."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        return [0] * len(scales)


class CountingNoise:
    """Noise that differs from draw to draw, and counts its draws."""

    def __init__(self) -> None:
        self.calls = 0

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        self.calls += 1
        return [self.calls] * len(scales)


@dataclass
class BrokenNoise:
    """Noise that fails until it is repaired, with a message that holds a secret."""

    message: str
    broken: bool = True

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        if self.broken:
            raise RuntimeError(self.message)
        return [0] * len(scales)


class Api:
    """An httpx client on the application itself, called from synchronous tests."""

    def __init__(self, app: FastAPI, token: str | None = None) -> None:
        self.app = app
        self.token = token
        self.runner = asyncio.Runner()

    def request(
        self, method: str, url: str, *, token: str | None = "", key: str | None = None, **options: Any
    ) -> httpx.Response:
        """Send one request; `token=None` sends none."""
        headers = dict(options.pop("headers", {}))
        sent = self.token if token == "" else token
        if sent is not None:
            headers.setdefault("Authorization", f"Bearer {sent}")
        if key is not None:
            headers["Idempotency-Key"] = key

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://curator.test") as client:
                return await client.request(method, url, headers=headers, **options)

        return self.runner.run(send())

    def get(self, url: str, **options: Any) -> httpx.Response:
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        return self.request("POST", url, **options)

    def close(self) -> None:
        self.runner.close()


def find_discrepancies(curator: Curator, population: str) -> list[str]:
    """Return stored releases that contradict a chain, even if the chain itself does not hold."""
    with curator.database.snapshot() as connection:
        audit = StoredReleaseAudit(connection, curator.datasets, curator.kinds, population)
        for entry in iterate_entries(connection, population):
            audit.watch(entry, Entry.read(json.loads(entry.payload_text)))
        return [found.what for found in audit.end()]


@contextmanager
def reading_here() -> Iterator[None]:
    """Read rows in this process, where nothing is asked of the one apart: a fork for each file takes longer."""

    def work_here(work: Work, _bounds: Bounds, refusals: type[Exception], hear: Callable[[Any], None]) -> Told:
        try:
            told: Told = json.loads(json.dumps(work(hear)))
        except refusals as error:
            raise WorkRefused(str(error)) from None
        return told

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "work_apart", work_here)
        yield


@dataclass
class World:
    """A curator with two populations, tokens for every role, and one granted dataset.

    ``cohort`` (population ``town``) is granted to the analysts ada and ben; ``hidden`` (population ``valley``) is not.
    `curator` acts as the owner of the database, as an admin does on the command line. Applications are `served` as a
    hospital serves them: on PostgreSQL with the rights of the service's group alone.
    """

    settings: Settings
    curator: Curator
    clock: Ticking
    folder: Path
    noise: Any
    tokens: dict[str, str] = field(default_factory=dict)
    apis: list[Api] = field(default_factory=list)
    apps: list[FastAPI] = field(default_factory=list)
    served: Settings | None = None

    def api(self, who: str | None = "ada", *, noise: Any = None, **options: Any) -> Api:
        """Return a client on a new application."""
        noise = self.noise if noise is None else noise
        app = create_app(self.served or self.settings, noise=noise, now=self.clock, **options)
        api = Api(app, None if who is None else self.tokens[who])
        self.apis.append(api)
        self.apps.append(app)
        return api

    def account(self, population: str = "town") -> Population:
        return self.curator.ledger.get_population(population)

    def entries(self, population: str = "town") -> list[dict[str, Any]]:
        return self.curator.ledger.list_entries(population, count=1000)

    def discrepancies(self, population: str = "town") -> list[str]:
        """Return stored releases that contradict a chain."""
        return find_discrepancies(self.curator, population)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run raw SQL in one transaction; return the rows of the last statement."""
        with self.curator.database.begin() as connection:
            for statement in statements:
                cursor = connection.cursor()
                cursor.execute(statement)
            return [] if cursor.description is None else list(cursor.fetchall())

    def register(
        self, name: str, population: str, rows: list[dict[str, str]], *, columns: Any = None, row_capacity: int = 1000
    ) -> str:
        """Register rows; return the dataset's id."""
        manifest, data = self.folder / f"{name}.toml", self.folder / f"{name}.csv"
        manifest.write_text(
            manifest_text(name, population, columns=columns, row_capacity=row_capacity), encoding="utf-8"
        )
        data.write_text(csv_text(rows), encoding="utf-8")
        with reading_here():
            return self.curator.datasets.register(manifest, data, actor="operator:test").id

    def add_token(self, who: str, *roles: Role) -> str:
        self.tokens[who] = self.curator.identity.create_token(who, *roles).text
        return self.tokens[who]

    def grant(self, analyst: str, dataset_id: str) -> str:
        """Let an analyst use a dataset, as an operator does; return the permit's id."""
        name = next(dataset.name for dataset in self.curator.datasets.list_all() if dataset.id == dataset_id)
        return self.curator.permits.grant(analyst, name, actor="operator:test")

    def end_grant(self, analyst: str, dataset_id: str) -> None:
        """Take a grant back."""
        name = next(dataset.name for dataset in self.curator.datasets.list_all() if dataset.id == dataset_id)
        self.curator.permits.revoke(analyst, name, actor="operator:test")

    def permit(self, project: str = "kidney", people: Sequence[str] = ("ada",), **terms: Any) -> str:
        """Let a project be asked for and granted by two privacy officers; return the permit's id."""
        asked = TERMS | {"project": project, "people": [*people]} | terms
        for officer in ("olga", "otto"):
            if officer not in self.tokens:
                self.add_token(officer, Role.PRIVACY_OFFICER)
        proposal = self.api("olga").post("/v1/permits", json=asked)
        assert proposal.status_code == 202, proposal.text
        granted = self.api("otto").post(f"/v1/admin/proposals/{proposal.json()['id']}/approve")
        assert granted.status_code == 200, granted.text
        return str(proposal.json()["label"])

    def close(self) -> None:
        """Give up jobs, close connections and loops."""
        for api in self.apis:
            api.close()
        for app in self.apps:
            app.state.curator.close()
            vars(
                app
            ).clear()  # FastAPI remembers every function that it looked at, and those of its pages hold their app
        self.curator.close()


def open_population(
    curator: Curator, name: str, limit: Price, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, accountant: str = "gdp"
) -> None:
    """Create a population as an operator does."""
    curator.ledger.create_population(
        name, adjacency=adjacency, accountant=accountant, limit=limit, delta=1e-6, actor="operator:test"
    )


_STARTED = datetime.now(UTC)
"""When worlds of now were made: they are as old as the tests of this process."""


@cache
def _prepared_world(
    limit: Price, adjacency: Adjacency, analysts: tuple[str, ...], server: str | None, moment: datetime, rows: str
) -> tuple[Path, str, dict[str, str]]:
    """Build a world once, with a database of its own on a server if there is one; tests get copies of both."""
    folder = Path(tempfile.mkdtemp(prefix="curator-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = None
    if server is not None:
        named = named_database(server)
        url = named.__enter__()
        atexit.register(named.__exit__, None, None, None)
        create_database(server, url)
    own = json.loads(rows) if rows else ROWS
    with _new_world(folder, url, limit, adjacency, ZeroNoise(), own, analysts, {}, Ticking(moment)) as world:
        tokens = dict(world.tokens)
    return folder, url or "", tokens


@contextmanager
def _new_world(
    folder: Path,
    url: str | None,
    limit: Price,
    adjacency: Adjacency,
    noise: Any,
    rows: list[dict[str, str]],
    analysts: tuple[str, ...],
    settings: dict[str, Any],
    clock: Ticking,
) -> Iterator[World]:
    chosen = Settings(data_dir=folder / "data", database_url=url, **PUBLIC_PACE | settings)
    curator = make_curator(chosen, noise=noise, now=clock, response_timer=ResponseTimer(0))
    world = World(chosen, curator, clock, folder, noise)
    try:
        curator.database.upgrade()
        if url is not None:
            world.served = chosen.model_copy(update={"database_url": service_url(url)})
        for population in ("town", "valley"):
            open_population(curator, population, limit, adjacency=adjacency)
        cohort = world.register("cohort", "town", rows)
        others = make_rows(40, seed=8)
        # Where rows are given, as by what must be the same for ever, they all are as they are.
        world.register("hidden", "valley", mark(others, NUMBERS) if rows is ROWS else others)
        world.add_token("root", *ADMIN)
        world.add_token("audra", Role.AUDITOR)
        for analyst in analysts:
            world.add_token(analyst, Role.ANALYST)
            world.grant(analyst, cohort)
        yield world
    finally:
        world.close()


@contextmanager
def open_world(
    folder: Path,
    *,
    url: str | None = None,
    limit: Price = BUDGET,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    noise: Any = None,
    rows: list[dict[str, str]] | None = None,
    analysts: tuple[str, ...] = ("ada", "ben"),
    moment: datetime = EPOCH,
    anew: bool = False,
    **settings: Any,
) -> Iterator[World]:
    """Open a world: a copy of one that was made before, unless it is to be made anew."""
    _prepare_again.cache_clear()  # worlds are copies of one: a test may have changed how its requests are prepared
    folder.mkdir(parents=True, exist_ok=True)
    source, clock = CountingNoise() if noise is None else noise, Ticking(moment)
    server = None if url is None else os.environ["CURATOR_TEST_POSTGRES_URL"]
    if anew:
        if server is not None and url is not None:
            create_database(server, url)
        shown = ROWS if rows is None else rows
        with _new_world(folder, url, limit, adjacency, source, shown, analysts, settings, clock) as made:
            yield made
        return
    made = _STARTED if timedelta(0) <= moment - _STARTED < timedelta(hours=2) else moment
    shown = "" if rows is None else json.dumps(rows)
    original, original_url, tokens = _prepared_world(limit, adjacency, analysts, server, made, shown)
    for part in ("data", "data-anchor"):
        shutil.copytree(original / part, folder / part)
    chosen = Settings(data_dir=folder / "data", database_url=url, **PUBLIC_PACE | settings)
    served = None
    if server is not None and url is not None:
        create_database(server, url, name_of(original_url))
        served = chosen.model_copy(update={"database_url": service_url(url)})
    curator = make_curator(chosen, noise=source, now=clock, response_timer=ResponseTimer(0))
    world = World(chosen, curator, clock, folder, source, dict(tokens), served=served)
    try:
        yield world
    finally:
        world.close()


def carry_to(api: Api) -> httpx.MockTransport:
    """Return what carries a client's requests to this curator."""

    def answer(request: httpx.Request) -> httpx.Response:
        sent = dict(request.headers) | {"host": "curator.test"}
        got = api.request(request.method, str(request.url), token=None, headers=sent, content=request.content)
        return httpx.Response(got.status_code, headers=got.headers, content=got.content)

    return httpx.MockTransport(answer)


def client_of(world: World, who: str = "ada") -> CuratorClient:
    """Return an analyst's client of this curator."""
    return CuratorClient("http://127.0.0.1", world.tokens[who], memory=None, transport=carry_to(world.api()))


def spent(client: CuratorClient) -> float:
    """Return µ² that is posted or held."""
    budget = client.budget("cohort")
    assert budget.posted.mu is not None
    assert budget.pending.mu is not None
    return budget.posted.mu**2 + budget.pending.mu**2


def problem(answer: httpx.Response, slug: str, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = answer.json()
    assert content["type"] == f"/problems/{slug}"
    assert content["status"] == status
    assert content["title"]
    assert content["detail"]
    assert content["instance"] == answer.headers["x-request-id"]
    return content


def cost_of(world: World, request: Mapping[str, Any]) -> int:
    """Return what a request costs, in the account's units."""
    answer = world.api().post("/v1/datasets/cohort/quotes", json=dict(request))
    assert answer.status_code == 200, answer.text
    return int(answer.json()["cost"]["units"])


@cache
def _service_login(server: str) -> tuple[str, str]:
    """Make a role that is in the service's group and owns nothing; it is dropped when the tests are over."""
    name, password = f"curator_test_{secrets.token_hex(8)}", CANARIES.add(secrets.token_hex(16))

    def run(statement: str) -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(statement)

    run(f"CREATE ROLE {name} LOGIN PASSWORD '{password}' IN ROLE curator_service")
    atexit.register(run, f"DROP ROLE {name}")
    return name, password


def service_url(url: str) -> str:
    """Return the URL of a database, whose schema is there, for the service alone."""
    name, password = _service_login(os.environ["CURATOR_TEST_POSTGRES_URL"])
    return make_url(url).set(username=name, password=password).render_as_string(hide_password=False)


@contextmanager
def named_database(server: str) -> Iterator[str]:
    """Name a database that is not there yet; drop it afterwards."""
    url = f"{server.rpartition('/')[0]}/curator_test_{secrets.token_hex(8)}"
    try:
        yield url
    finally:
        _drop_database(server, name_of(url))


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """Create an empty database, and drop it afterwards."""
    with named_database(server) as url:
        create_database(server, url)
        yield url


def create_database(server: str, url: str, template: str = "template1") -> None:
    """Create a database, as a copy of another one; what has its name is dropped."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name_of(url)}")
        connection.execute(f"CREATE DATABASE {name_of(url)} TEMPLATE {template}")


def name_of(url: str) -> str:
    """Return what a database is called within its server."""
    return url.rpartition("/")[2]


def _drop_database(server: str, name: str) -> None:
    """Drop a database; say who keeps it, where that takes too long."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [str(int(1000 * scaled(30)))])
        try:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        except psycopg.errors.QueryCanceled:
            found = connection.execute(
                "SELECT pid, application_name, state, wait_event FROM pg_stat_activity WHERE datname = %s", [name]
            ).fetchall()
            raise AssertionError(f"{name} is not dropped after {scaled(30):g} s; sessions in it: {found}") from None
