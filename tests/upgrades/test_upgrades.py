"""Where an earlier version ended this one goes on: ledger, rows, answers, backups, and what clients kept."""

import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record import ASKED_AGAIN, client_of
from served_worlds import serve_world
from support import PUBLIC_PACE, CountingNoise, Ticking, World
from typer.testing import CliRunner

from analyst_client import AdaSSP, Release
from analyst_client.verify import main as verify
from curator_service.cli.main import app as cli
from curator_service.container import make_curator
from curator_service.evidence.pack import make_files, write_folder
from curator_service.privacy.accountant import Price
from curator_service.releases.response_time import ResponseTimer
from curator_service.settings import Settings

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/told.json"))
ACCOUNTS = {"town", "valley", "swapped", "pure"}


@dataclass(frozen=True)
class Left:
    """What a version left in a folder, and what its callers were told."""

    folder: Path
    told: dict[str, Any]

    def unpack(self, place: Path) -> None:
        """Write its state, for its user alone."""
        with zipfile.ZipFile(self.folder / "state.zip") as state:
            state.extractall(place)
        for path in place.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def left(request: pytest.FixtureRequest) -> Left:
    folder: Path = request.param
    return Left(folder, json.loads((folder / "told.json").read_text(encoding="utf-8")))


@pytest.fixture
def place(tmp_path: Path, empty_database_url: str | None, left: Left) -> Iterator[World]:
    """Return what was left, brought to this version as an admin does it."""
    left.unpack(tmp_path)
    clock = Ticking(datetime.fromisoformat(left.told["moment"]) + timedelta(hours=1))
    settings = Settings(data_dir=tmp_path / "data", database_url=empty_database_url, **PUBLIC_PACE)
    curator = make_curator(settings, noise=CountingNoise(), now=clock, response_timer=ResponseTimer(0))
    world = World(settings, curator, clock, tmp_path, CountingNoise(), left.told["tokens"])
    try:
        at = ":memory:" if empty_database_url else tmp_path / "data" / "curator.sqlite3"
        with closing(sqlite3.connect(at)) as old:
            old.executescript((tmp_path / "database.sql").read_text(encoding="utf-8"))
            old.commit()
            if empty_database_url is not None:
                _copy(old, world, left.told["revision"])
        curator.database.upgrade()
        assert curator.ledger.guard.start() == ""
        assert curator.datasets.start() == []
        yield world
    finally:
        world.close()


def _copy(before: sqlite3.Connection, world: World, revision: str) -> None:
    """Write the rows into PostgreSQL as that version's migrations made it."""
    world.curator.database.upgrade(revision)
    statements = ["SET LOCAL session_replication_role = replica"]  # no trigger, and any order
    names = before.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'alembic_version'")
    for (table,) in names.fetchall():
        statements.append(f"DELETE FROM {table}")
        rows = before.execute(f"SELECT * FROM {table}")
        columns = ", ".join(f'"{column[0]}"' for column in rows.description)
        for row in rows:
            statements.append(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(map(_quote, row))})")
    world.sql(*statements)


def _quote(value: object) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def test_every_ledger_and_all_that_it_states_hold(place: World) -> None:
    assert {population.name for population in place.curator.ledger.list_populations()} == ACCOUNTS
    for chain in place.curator.ledger.list_chains():
        assert place.curator.ledger.verify(chain.name).ok
    for population in ACCOUNTS:
        assert place.discrepancies(population) == []


def test_every_answer_is_the_same_to_the_byte(place: World, left: Left) -> None:
    assert len(left.told["told"]) >= 15
    for step in left.told["told"].values():
        api = place.api(step["who"])
        assert api.post(step["path"], json=step["body"], key=step["key"]).text == step["answer"]
        assert api.get(f"/v1/releases/{json.loads(step['answer'])['id']}").text == step["answer"]


def test_accounts_are_what_they_were_and_go_on(place: World, left: Left) -> None:
    api = place.api()
    for name, budget in left.told["budgets"].items():
        assert api.get(f"/v1/datasets/{name}/budget").json() == json.loads(budget)
    for name, step in left.told["told"].items():
        asked = step["body"] | {"fresh": True} if "fresh" in step["body"] else step["body"]
        again = place.api(step["who"]).post(step["path"], json=step["body"], key=f"again-{step['key']}")
        assert again.headers["curator-answer"] in ({"new"} if asked.get("fresh") else {"stored", "derived"}), name
    step = left.told["told"][ASKED_AGAIN]
    fresh = api.post(step["path"], json=step["body"] | {"fresh": True}, key="new")
    assert fresh.headers["curator-answer"] == "new"
    assert place.curator.ledger.verify("town").ok
    assert place.discrepancies() == []


def test_what_was_held_is_paid_from_and_given_back(place: World, left: Left) -> None:
    step, api = left.told["told"][ASKED_AGAIN], place.api()
    asked = step["body"] | {"fresh": True, "project": "kidney", "price": {"mu": 0.01}, "reservation": left.told["held"]}
    paid = api.post(step["path"], json=asked, key="paid")
    assert paid.headers.get("curator-answer") == "new", paid.text
    ended = api.request("DELETE", f"/v1/reservations/{left.told['held']}", key="back")
    assert ended.status_code == 200, ended.text
    assert api.get("/v1/datasets/cohort/budget").json()["pending"]["units"] == "0"
    assert place.curator.ledger.verify("town").ok


def test_rows_are_added_and_erased_in_the_versions_that_follow(place: World) -> None:
    place.clock.advance(days=31)
    cut = {found.name: found.version for found in place.curator.versions.cut_due()}
    assert cut["own"] == 3
    assert place.api().get("/v1/datasets/own").json()["version"] == 3
    assert place.curator.ledger.verify("valley").ok


def test_what_its_client_kept_is_read(place: World, tmp_path: Path, left: Left) -> None:
    saved = Release.load(left.folder / "release.json")
    assert saved.text == left.told["told"][ASKED_AGAIN]["answer"]
    assert saved.verify()
    assert np.isfinite(AdaSSP().fit(saved).coef_).all()
    memory = tmp_path / "client-memory.json"
    shutil.copy(left.folder / "client-memory.json", memory)
    with client_of(place, memory) as client:
        limit = json.loads(left.told["budgets"]["cohort"])["limit"]["units"]
        assert str(client.budget("cohort").limit.units) == str(limit)
        assert client.fetch_release(saved.id).text == saved.text


def test_what_it_released_has_evidence(place: World, tmp_path: Path, left: Left) -> None:
    for number, step in enumerate(left.told["told"].values()):
        found = place.curator.evidence.gather_release(json.loads(step["answer"])["id"])
        place.curator.evidence.verify(found)
        folder = tmp_path / f"release-{number}"
        write_folder(make_files(found), folder)
        assert verify(["--key", str(folder / "keys.json"), str(folder / "receipt.json")]) == 0


def test_its_backup_is_restored(tmp_path: Path, empty_database_url: str | None, left: Left) -> None:
    """On either database, with its keys and its anchor, as docs/operations.md restores."""
    left.unpack(tmp_path)
    settings = {"CURATOR_DATA_DIR": str(tmp_path / "restored"), "CURATOR_KEYS_DIR": str(tmp_path / "data" / "keys")}
    settings["CURATOR_ANCHOR_DIR"] = str(tmp_path / "data-anchor")
    if empty_database_url is not None:
        settings["CURATOR_DATABASE_URL"] = empty_database_url
    for words in (["restore", str(tmp_path / "backup.tar")], ["ledger", "verify"]):
        ended = CliRunner().invoke(cli, words, env=settings)
        assert ended.exit_code == 0, (words, ended.output)


EARLIER_CLIENT = """
import sys
from pathlib import Path
import analyst_client
from analyst_client import AdaSSP, CuratorClient, Release
from analyst_client.errors import BudgetExceededError
assert "client.zip" in analyst_client.__file__, analyst_client.__file__
url, token, folder = sys.argv[1:]
with CuratorClient(url, token, memory=Path(folder) / "memory.json") as client:
    (dataset,) = client.datasets()
    asked = dict(target="kappa", epsilon=0.5, delta=1e-6)
    quote = client.quote(dataset.name, ["age", "sex"], **asked)
    assert quote.affordable and repr(quote)
    held = client.reserve(dataset.name, expires_in_s=600, mu=0.3)
    release = client.release(dataset.name, ["sex", "age"], reservation=held.id, **asked)
    assert release.answer == "new" and release.feature_names == ("sex", "age") and release.verify()
    assert client.release(dataset.name, ["age", "sex"], **asked).answer == "stored"
    client.release(dataset.name, ["age"], target="kappa", rows="box", mu=0.2)
    client.close_reservation(held.id)
    job = client.submit_release(dataset.name, ["creatinine"], target="kappa", mu=0.1)
    assert client.wait(job).verify()
    assert len(AdaSSP().fit(release).coef_) == len(release.terms) - 1
    release.save(Path(folder) / "release.json")
    assert Release.load(Path(folder) / "release.json") == release
    kinds = {summary.kind for summary in client.releases(dataset.name)}
    assert kinds >= {"gram", "counts"}, kinds
    try:
        client.release(dataset.name, ["age"], target="kappa", mu=100.0)
    except BudgetExceededError:
        pass
    assert client.budget(dataset.name).posted.mu > 0
print("done")
"""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_client_works_with_this_server(folder: Path, tmp_path: Path) -> None:
    """It asks, pays from a reservation, waits for a job, reads its errors, and lists what it did not ask for."""
    shutil.copy(folder / "client.zip", tmp_path)
    with serve_world(tmp_path / "world", limit=Price(mu=5.0)) as (world, url):
        counts = {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.01}}
        assert world.api().post("/v1/datasets/cohort/releases", json=counts, key="k").status_code == 201
        ran = subprocess.run(
            [sys.executable, "-c", EARLIER_CLIENT, url, world.tokens["ada"], str(tmp_path)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path / "client.zip"), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr
