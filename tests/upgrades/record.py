"""Leave a small curator of this version, and what its client kept, for later versions to go on from.

    PYTHONPATH=tests python tests/upgrades/record.py tests/upgrades/NAME

Once for each tag, by its own code: docs/releasing.md. Nothing in the folder is ever written again.
"""

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from support import ROWS, CountingNoise, body, csv_text, make_rows, manifest_text, open_world

from analyst_client import CuratorClient
from curator_service.privacy.accountant import Price

COHORT, OWN = "/v1/datasets/cohort", "/v1/datasets/own"
BOX = {"rows": {"map": "box"}}
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "box": ("ada", COHORT, body(features=["age", "sex"], targets=["kappa", "dose"], **BOX)),
    "ball": ("ada", COHORT, body(features=["age", "sex"], rows={"map": "ball"})),
    "default rows": ("ben", COHORT, body(features=["weight", "age"])),
    "block": ("ben", COHORT, body(features=["age"], price={"mu": 0.01}, **BOX)),
    "laplace": ("ada", COHORT, body(features=["height"], mechanism="laplace", price={"epsilon": 0.05}, **BOX)),
    "pass": ("ada", COHORT, body(features=["creatinine"], statistics=["xtx", "lambda_min"], targets=[])),
    "own": ("ada", OWN, body(features=["age"], **BOX)),
    "own, by another one": ("ben", OWN, body(features=["age"], **BOX)),
}


def main(place: Path) -> None:
    """Live a short life and leave it behind."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_world(Path(folder), limit=Price(mu=1.5), noise=CountingNoise(), rows=ROWS[:20]) as world,
    ):
        text = manifest_text("own", "valley").replace("row_capacity", 'library = "own"\nrow_capacity', 1)
        (world.folder / "own.toml").write_text(text, encoding="utf-8")
        (world.folder / "own.csv").write_text(csv_text(make_rows(10, seed=11)), encoding="utf-8")
        dataset = world.curator.datasets.register(
            world.folder / "own.toml", world.folder / "own.csv", actor="operator:test"
        )
        for analyst in ("ada", "ben"):
            world.grant(analyst, dataset.id)
        told = {}
        for number, (name, (who, path, asked)) in enumerate(REQUESTS.items()):
            answer = world.api(who).post(f"{path}/releases", json=asked, key=f"key-{number}")
            assert answer.status_code in {200, 201}, (name, answer.text)
            told[name] = {
                "who": who,
                "path": f"{path}/releases",
                "key": f"key-{number}",
                "body": asked,
                "status": answer.status_code,
                "answer": answer.text,
            }
        api = world.api("ada")

        def send(request: httpx.Request) -> httpx.Response:
            asked = request.url.raw_path.decode()
            got = api.request(request.method, asked, token=None, content=request.content, headers=dict(request.headers))
            return httpx.Response(got.status_code, headers=got.headers, content=got.content)

        memory = place / "client-memory.json"
        place.mkdir()
        with CuratorClient(
            "https://curator.test", world.tokens["ada"], transport=httpx.MockTransport(send), memory=memory
        ) as client:
            client.fetch_release(json.loads(told["box"]["answer"])["id"]).save(place / "release.json")
            client.budget("cohort")
        budget = api.get(f"{COHORT}/budget").text
        revision = world.curator.database.revisions()[0]
        world.curator.database.dispose()
        (database,) = (path for path in world.settings.data_dir.iterdir() if path.suffix == ".sqlite3")
        with closing(sqlite3.connect(database)) as connection:
            # A quarter of a megabyte each, and made anew at a start where there is none.
            for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                if trigger.startswith("sketches"):
                    connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute("DELETE FROM sketches")
            text = "\n".join(connection.iterdump()) + "\n"
        (place / "database.sql").write_text(text, encoding="utf-8")
        for name in ("keys", "datasets"):
            shutil.copytree(world.settings.data_dir / name, place / "data" / name)
        shutil.copytree(world.settings.anchor_folder, place / "data-anchor")
        left = {"revision": revision, "tokens": world.tokens, "budget": budget, "told": told, "database": database.name}
        (place / "told.json").write_text(json.dumps(left, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
