"""Leave a small curator of this version, and what its client kept, for later versions to go on from.

    PYTHONPATH=.:tests python tests/upgrades/record.py tests/upgrades/VERSION

Once for each version, before its tag: docs/releasing.md. Nothing in the folder is ever written again.
"""

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from support import (
    ROWS,
    Api,
    CountingNoise,
    World,
    body,
    csv_text,
    make_rows,
    manifest_text,
    open_population,
    open_world,
)

from analyst_client import CuratorClient
from curator_service.backup import write_backup
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency

BOX = {"rows": {"map": "box"}}
_COUNTS = {"tables": [{"axes": [{"column": "sex"}, {"column": "age", "bins": 4}]}]}
_SCORE = {
    "features": ["age", "sex"],
    "coefficients": {"bits": 3, "weights": {"age": 5}},
    "directions": {"bits": 3, "matrix": {"age": [9, 0], "(constant)": [0, 7]}},
    "target": "alive",
    "loss": "logistic",
}
_COMBINED = {"map": "linear", "bits": 4, "matrix": {"age": [20, 3], "(constant)": [-1, 8]}}
_OF_KINDS: dict[str, dict[str, Any]] = {
    "counts": {"kind": "counts", **_COUNTS},
    "marginals": {"kind": "marginals", "marginals": [{"type": "moments", "columns": ["kappa", "age"]}]},
    "score": {"kind": "score", **_SCORE},
}
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "box": ("ada", "cohort", body(features=["age", "sex"], targets=["kappa", "dose"], **BOX)),
    "ball": ("ada", "cohort", body(features=["age", "sex"], rows={"map": "ball"})),
    "default rows": ("ben", "cohort", body(features=["weight", "age"])),
    "block": ("ben", "cohort", body(features=["age"], price={"mu": 0.01}, **BOX)),
    "laplace": ("ada", "cohort", body(features=["height"], mechanism="laplace", price={"epsilon": 0.05}, **BOX)),
    "pass": ("ada", "cohort", body(features=["creatinine"], statistics=["xtx", "lambda_min"], targets=[])),
    "combinations": ("ada", "cohort", body(features=["age"], rows=_COMBINED)),
    "of a project": ("ada", "cohort", body(features=["age"], project="kidney", fresh=True, **BOX)),
    **{name: ("ada", "cohort", {"price": {"mu": 0.02}, **asked}) for name, asked in _OF_KINDS.items()},
    "own": ("ada", "own", body(features=["age"], **BOX)),
    "own, by another one": ("ben", "own", body(features=["age"], **BOX)),
    "zcdp": ("ada", "swapped", body(features=["age"], price={"rho": 0.001}, **BOX)),
    "pure": ("ada", "pure", body(features=["age"], price={"epsilon": 0.1}, mechanism="laplace", **BOX)),
}
ASKED_AGAIN = "box"
"""The request that the client saved."""


def main(place: Path) -> None:
    """Live a short life and leave it behind."""
    place.mkdir()
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder), limit=Price(mu=1.5), noise=CountingNoise(), rows=ROWS[:20], anew=True) as world,
    ):
        _open_accounts(world)
        told = {name: _ask(world, f"key-{number}", *REQUESTS[name]) for number, name in enumerate(REQUESTS)}
        _cut(world)
        told["of the second version"] = _ask(world, "after-the-cut", "ada", "own", body(features=["weight"], **BOX))
        asked = {"price": {"mu": 0.2}, "expires_in_s": 86400, "project": "kidney"}
        held = world.api().post("/v1/datasets/cohort/reservations", json=asked, key="held")
        assert held.status_code == 201, held.text
        with client_of(world, place / "client-memory.json") as client:
            client.fetch_release(json.loads(told[ASKED_AGAIN]["answer"])["id"]).save(place / "release.json")
            client.budget("cohort")
        _forget_sketches(world)
        state = Path(folder) / "state"
        state.mkdir()
        write_backup(world.curator, state / "backup.tar")
        left = {
            "revision": world.curator.database.revisions()[0],
            "moment": world.clock().isoformat(),
            "tokens": world.tokens,
            "budgets": {name: world.api().get(f"/v1/datasets/{name}/budget").text for name in ("cohort", "pure")},
            "held": held.json()["id"],
            "told": told,
        }
        world.curator.database.dispose()
        (state / "database.sql").write_text(_dump(world.settings.data_dir / "curator.sqlite3"), encoding="utf-8")
        for name in ("keys", "datasets"):
            shutil.copytree(world.settings.data_dir / name, state / "data" / name)
        shutil.copytree(world.settings.anchor_folder, state / "data-anchor")
        shutil.make_archive(str(place / "state"), "zip", state)
    (place / "told.json").write_text(json.dumps(left, indent=1) + "\n", encoding="utf-8")


def _open_accounts(world: World) -> None:
    """Open an account of each kind, with rows, and a permit of a project."""
    text = manifest_text("own", "valley").replace("row_capacity", 'library = "own"\nrow_capacity', 1)
    (world.folder / "own.toml").write_text(text, encoding="utf-8")
    (world.folder / "own.csv").write_text(csv_text(make_rows(10, seed=11)), encoding="utf-8")
    world.curator.datasets.register(world.folder / "own.toml", world.folder / "own.csv", actor="operator:test")
    open_population(world.curator, "swapped", Price(rho=1.0), adjacency=Adjacency.REPLACE_ONE, accountant="zcdp")
    open_population(world.curator, "pure", Price(epsilon=2.0), accountant="pure")
    world.register("swapped", "swapped", make_rows(12, seed=12))
    world.register("pure", "pure", make_rows(12, seed=13))
    for dataset in world.curator.datasets.list_all():
        if dataset.name in {"own", "swapped", "pure"}:
            for analyst in ("ada", "ben"):
                world.grant(analyst, dataset.id)
    world.permit()


def _ask(world: World, key: str, who: str, dataset: str, asked: dict[str, Any]) -> dict[str, Any]:
    path = f"/v1/datasets/{dataset}/releases"
    answer = world.api(who).post(path, json=asked, key=key)
    assert answer.status_code in {200, 201}, (key, answer.text)
    return {"who": who, "path": path, "key": key, "body": asked, "status": answer.status_code, "answer": answer.text}


def _cut(world: World) -> None:
    """Let rows be added to a dataset, and the next version come."""
    more = world.folder / "more.csv"
    more.write_text(csv_text(make_rows(5, seed=14)), encoding="utf-8")
    world.curator.versions.add_rows("own", more, act="append", actor="operator:test")
    world.clock.advance(days=31)
    cut = {found.name for found in world.curator.versions.cut_due()}
    assert "own" in cut


def _forget_sketches(world: World) -> None:
    """Leave out what compares the people of datasets: it does not compress, and is half a megabyte for each version."""
    triggers = world.sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'sketches'")
    world.sql(
        *(f"DROP TRIGGER {name}" for name, _ in triggers), "DELETE FROM sketches", *(made for _, made in triggers)
    )


def _dump(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


@contextmanager
def client_of(world: World, memory: Path) -> Iterator[CuratorClient]:
    """Return ada's client, which remembers the ledgers in a file."""
    api: Api = world.api(None)

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        told = api.request(request.method, path, token=None, content=request.content, headers=dict(request.headers))
        return httpx.Response(told.status_code, headers=told.headers, content=told.content)

    transport = httpx.MockTransport(answer)
    with CuratorClient("https://curator.test", world.tokens["ada"], transport=transport, memory=memory) as client:
        yield client


if __name__ == "__main__":
    main(Path(sys.argv[1]))
