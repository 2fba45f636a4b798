"""Where the first version with a signed ledger ended this one goes on: ledger, rows, answers, and what clients kept."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from support import Api, CountingNoise, Ticking, World

from analyst_client import AdaSSP, CuratorClient, Release
from curator_service.container import make_curator
from curator_service.settings import Settings

LEFT = Path(__file__).with_name("signed_schema")
# Each after those that it refers to.
TABLES = (
    *("populations", "principals", "tokens", "datasets", "grants", "signing_keys", "ledger_entries", "reservations"),
    *("releases", "idempotency_keys", "shares", "proposals", "seal", "snapshots"),
)


@pytest.fixture
def told() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((LEFT / "told.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture
def place(tmp_path: Path, database_url: str | None, told: dict[str, Any]) -> Iterator[World]:
    """Return what was left, brought to this version as an admin does it."""
    for name in ("data", "data-anchor"):
        shutil.copytree(LEFT / name, tmp_path / name)
    for path in tmp_path.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    settings = Settings(data_dir=tmp_path / "data", database_url=database_url)
    curator = make_curator(settings, noise=CountingNoise(), now=Ticking())
    world = World(settings, curator, Ticking(), tmp_path, CountingNoise(), told["tokens"])
    try:
        with closing(sqlite3.connect(":memory:" if database_url else tmp_path / "data" / told["database"])) as before:
            before.executescript((LEFT / "database.sql").read_text(encoding="utf-8"))
            before.commit()
            if database_url is not None:
                _copy(before, world)
        curator.database.upgrade()
        assert curator.datasets.start() == []
        yield world
    finally:
        world.close()


def _copy(before: sqlite3.Connection, world: World) -> None:
    """Write the rows into PostgreSQL as that version's migrations made it."""
    world.curator.database.upgrade("0002")
    statements = [f"ALTER TABLE {table} DISABLE TRIGGER USER; DELETE FROM {table}" for table in TABLES]
    for table in TABLES:
        for row in before.execute(f"SELECT * FROM {table}"):
            statements.append(f"INSERT INTO {table} VALUES ({', '.join(map(_quote, row))})")
    world.sql(*statements)
    world.sql(*(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in TABLES))


def _quote(value: object) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def client_of(world: World, memory: Path) -> CuratorClient:
    """Return a client that remembers what that version's client saw of the ledger."""
    api: Api = world.api(None)

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        told = api.request(request.method, path, token=None, content=request.content, headers=dict(request.headers))
        return httpx.Response(told.status_code, headers=told.headers, content=told.content)

    return CuratorClient(
        "https://curator.test", world.tokens["ada"], transport=httpx.MockTransport(answer), memory=memory
    )


def test_the_ledger_and_all_that_it_states_hold(place: World) -> None:
    for population in ("town", "valley"):
        assert place.curator.ledger.verify(population).ok
        assert place.discrepancies(population) == []


def test_every_answer_is_the_same_to_the_byte(place: World, told: dict[str, Any]) -> None:
    answered = [step for step in told["told"].values() if step["path"].endswith("/releases")]
    assert len(answered) == 5
    for step in answered:
        api = place.api(step["who"])
        assert api.post(step["path"], json=step["body"], key=step["key"]).text == step["answer"]
        assert api.get(f"/v1/releases/{json.loads(step['answer'])['id']}").text == step["answer"]


def test_the_account_is_what_it_was_and_goes_on(place: World, told: dict[str, Any]) -> None:
    api, before = place.api("ada"), json.loads(told["budget"])
    path, asked = "/v1/datasets/cohort/releases", told["told"]["box"]["body"]
    found = api.get("/v1/datasets/cohort/budget").json()
    assert {name: found[name] for name in before if name != "limit"} == {
        name: value for name, value in before.items() if name != "limit"
    }
    assert api.post(path, json=asked, key="again").headers["curator-answer"] == "stored"
    assert api.post(path, json=asked | {"fresh": True}, key="new").headers["curator-answer"] == "new"
    assert place.curator.ledger.verify("town").ok
    assert place.discrepancies() == []


def test_what_its_client_kept_is_read(place: World, tmp_path: Path, told: dict[str, Any]) -> None:
    saved = Release.load(LEFT / "release.json")
    assert saved.text == told["told"]["box"]["answer"]
    assert np.isfinite(AdaSSP().fit(saved).coef_).all()
    memory = tmp_path / "client-memory.json"
    shutil.copy(LEFT / "client-memory.json", memory)
    with client_of(place, memory) as client:
        assert client.budget("cohort").limit.units == int(json.loads(told["budget"])["limit"]["units"])
        assert client.fetch_release(saved.id).text == saved.text
