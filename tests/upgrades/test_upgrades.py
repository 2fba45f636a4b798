"""Where an earlier version ended this one goes on: ledger, rows, answers, and what clients kept."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from served_worlds import serve_world
from support import Api, CountingNoise, Ticking, World

from analyst_client import AdaSSP, CuratorClient, Release
from analyst_client.verify import main as verify
from curator_service.container import make_curator
from curator_service.evidence.pack import make_files, write_folder
from curator_service.evidence.words import NO_PERMIT
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price
from curator_service.settings import Settings

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/told.json"))


@dataclass(frozen=True)
class Left:
    """What a version left in a folder, and what its callers were told."""

    folder: Path
    told: dict[str, Any]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def left(request: pytest.FixtureRequest) -> Left:
    folder: Path = request.param
    return Left(folder, json.loads((folder / "told.json").read_text(encoding="utf-8")))


@pytest.fixture
def place(tmp_path: Path, database_url: str | None, left: Left) -> Iterator[World]:
    """Return what was left, brought to this version as an admin does it."""
    for name in ("data", "data-anchor"):
        shutil.copytree(left.folder / name, tmp_path / name)
    for path in tmp_path.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    settings = Settings(data_dir=tmp_path / "data", database_url=database_url)
    curator = make_curator(settings, noise=CountingNoise(), now=Ticking())
    world = World(settings, curator, Ticking(), tmp_path, CountingNoise(), left.told["tokens"])
    try:
        with closing(sqlite3.connect(":memory:" if database_url else tmp_path / "data" / left.told["database"])) as old:
            old.executescript((left.folder / "database.sql").read_text(encoding="utf-8"))
            old.commit()
            if database_url is not None:
                _copy(old, world, left.told["revision"])
        curator.database.upgrade()
        assert curator.start() == ""
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


def test_grants_are_permits_now(place: World) -> None:
    """With what was spent before; and each entry fits what the interface says of entries."""
    app = place.api("ada").app
    document = app.openapi()
    schema = document["components"]["schemas"]["LedgerAnswer"] | {"components": document["components"]}
    for population in ("town", "valley"):
        adopted = [entry for entry in place.entries(population) if "adopts" in entry]
        named = {name for entry in adopted for name in entry["people"].values()}
        assert named == ({"ada", "ben"} if population == "town" or adopted else set())
        account = place.account(population)
        spent = place.curator.ledger.verify(population).state
        own = [spent.shares["permit", entry["permit"]] for entry in adopted if entry["adopts"][0] == "analyst"]
        assert sum(share.posted for share in own) == account.posted
        assert sum(units for _, units in spent.spending.values()) == account.posted
        sequence = place.account(population).sequence
        place.add_token("olga", Role.PRIVACY_OFFICER)
        answer = place.api("olga").get(f"/v1/ledger/{population}?after={max(0, sequence - 3)}").json()
        assert list(Draft202012Validator(schema).iter_errors(answer)) == []
    assert place.curator.permits.adopt() is None
    assert place.account().sequence == len(place.entries())


def test_every_answer_is_the_same_to_the_byte(place: World, left: Left) -> None:
    answered = [step for step in left.told["told"].values() if step["path"].endswith("/releases")]
    assert len(answered) >= 5
    for step in answered:
        api = place.api(step["who"])
        assert api.post(step["path"], json=step["body"], key=step["key"]).text == step["answer"]
        assert api.get(f"/v1/releases/{json.loads(step['answer'])['id']}").text == step["answer"]


def test_the_account_is_what_it_was_and_goes_on(place: World, left: Left) -> None:
    api, before = place.api("ada"), json.loads(left.told["budget"])
    path, asked = "/v1/datasets/cohort/releases", left.told["told"]["box"]["body"]
    found = api.get("/v1/datasets/cohort/budget").json()
    changed = {"limit", "remaining", "checkpoint"}  # the last with the entries that take grants over
    assert {name: found[name] for name in before if name not in changed} == {
        name: value for name, value in before.items() if name not in changed
    }
    assert api.post(path, json=asked, key="again").headers["curator-answer"] == "stored"
    assert api.post(path, json=asked | {"fresh": True}, key="new").headers["curator-answer"] == "new"
    counts = {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], "price": {"mu": 0.01}}
    assert api.post(path, json=counts, key="counts").headers["curator-answer"] == "new"
    assert place.curator.ledger.verify("town").ok
    assert place.discrepancies() == []


def test_the_library_finds_what_it_found(place: World, left: Left) -> None:
    """A block of what was stored, and what another one asked for himself alone."""
    path, asked = "/v1/datasets/cohort/releases", left.told["told"]["box"]["body"]
    block = asked | {"features": asked["features"][1:], "price": {"mu": 0.01}}
    answer = place.api("ben").post(path, json=block, key="block")
    assert answer.headers.get("curator-answer") == "derived", answer.text
    own = left.told["told"].get("own")
    if own is not None:
        asked = own["body"] | {"price": {"mu": 0.01}}
        for who in ("ada", "ben"):
            answer = place.api(who).post(own["path"], json=asked, key=f"own-{who}")
            assert answer.headers["curator-answer"] == "stored"
            mine = [step for step in left.told["told"].values() if (step["who"], step["path"]) == (who, own["path"])]
            assert answer.text in {step["answer"] for step in mine}
    assert place.discrepancies() == []


def test_what_its_client_kept_is_read(place: World, tmp_path: Path, left: Left) -> None:
    saved = Release.load(left.folder / "release.json")
    assert saved.text == left.told["told"]["box"]["answer"]
    assert np.isfinite(AdaSSP().fit(saved).coef_).all()
    memory = tmp_path / "client-memory.json"
    shutil.copy(left.folder / "client-memory.json", memory)
    with client_of(place, memory) as client:
        assert client.budget("cohort").limit.units == int(json.loads(left.told["budget"])["limit"]["units"])
        assert client.fetch_release(saved.id).text == saved.text


def test_what_it_released_has_evidence_that_knows_no_permit(place: World, tmp_path: Path, left: Left) -> None:
    """Of what it granted, which was taken over, there is evidence too."""
    evidence = place.curator.evidence
    answered = [json.loads(step["answer"]) for step in left.told["told"].values() if step["path"].endswith("/releases")]
    for number, answer in enumerate(answered):
        found = evidence.gather_release(answer["id"])
        evidence.verify(found)
        files, folder = make_files(found), tmp_path / f"release-{number}"
        write_folder(files, folder)
        assert NO_PERMIT in files["check.html"].decode()
        assert not [name for name in files if name.startswith("permit/")]
        names = [str(folder / name) for name in ("receipt.json", "answer.json")]
        assert verify(["--key", str(folder / "keys.json"), *names]) == 0
    taken_over = place.curator.permits.list_permits()
    assert taken_over
    for permit in taken_over:
        found = evidence.gather_permit(permit.id)
        folder = tmp_path / permit.id
        write_folder(make_files(found), folder)
        assert "taken over from an earlier version" in (folder / "check.html").read_text("utf-8")
        entries = [str(path) for path in (folder / "permit").iterdir()]
        assert verify(["--key", str(folder / "keys.json"), *entries]) == 0


EARLIER_CLIENT = """
import sys
from pathlib import Path
from analyst_client import AdaSSP, BudgetExceededError, CuratorClient, Release
import analyst_client
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
    part = client.release(dataset.name, ["age"], target="kappa", rows="box", mu=0.2)
    client.close_reservation(held.id)
    job = client.submit_release(dataset.name, ["creatinine"], target="kappa", mu=0.1)
    assert client.wait(job).verify()
    assert len(AdaSSP().fit(release).coef_) == len(release.terms) - 1
    release.save(Path(folder) / "release.json")
    assert Release.load(Path(folder) / "release.json") == release
    listed = client.releases(dataset.name)
    assert {"gram", "counts"} == {summary.kind for summary in listed}, listed
    try:
        client.release(dataset.name, ["age"], target="kappa", mu=100.0)
    except BudgetExceededError:
        pass
    assert client.budget(dataset.name).posted.mu > 0
print("done")
"""


def test_the_client_of_before_works_with_this_server(tmp_path: Path) -> None:
    """It asks, pays from a reservation, waits for a job, reads its errors, and lists what it cannot read."""
    newest = max(path for path in FOLDERS if (path / "client.zip").exists())
    shutil.copy(newest / "client.zip", tmp_path)
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
