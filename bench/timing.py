"""Can a stopwatch tell two neighbouring datasets apart? Two attacks that once could, through the release path.

Each look buys two releases of almost no price, one that would show the secret and a control that would not, and takes
the difference of their times. A threshold is chosen on the first half of the looks, and judged on the second.

- *One more row*: n is a whole number of the parts in which a wide pass works, and one more person begins another.
- *A rare property*: a column that is 0 for everybody makes XᵀX singular, and λ_min exactly 0.

    python bench/timing.py [--looks 40]
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from curator_service.curator import Curator, make_curator
from curator_service.datasets.storage import _batch_rows
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases.schemas import ReleaseRequest
from curator_service.settings import Settings

WIDTH, GROUPS = 999, 800
Row = Sequence[str]


def open_curator(folder: Path, header: Row, columns: str, rows: Sequence[Row], capacity: int) -> Curator:
    """Return a curator with one dataset of these rows."""
    curator = make_curator(Settings(data_dir=folder / "data"))
    curator.database.upgrade()
    curator.ledger.create_population(
        "people", adjacency=Adjacency.ADD_REMOVE, accountant="gdp", limit=Price(mu=1.0), delta=1e-6, actor="bench"
    )
    manifest, data = folder / "m.toml", folder / "d.csv"
    manifest.write_text(f'name = "d"\npopulation = "people"\nrow_capacity = {capacity}\n{columns}')
    data.write_text("\n".join(",".join(row) for row in (header, *rows)) + "\n")
    curator.datasets.register(manifest, data, actor="bench")
    curator.identity.create_token("bench", Role.ANALYST)
    return curator


def column(name: str, levels: Sequence[str] = ()) -> str:
    """Return the declaration of a boolean, or of a category."""
    kind = f'type = "categorical"\nlevels = {list(levels)!r}'.replace("'", '"') if levels else 'type = "boolean"'
    return f'[[columns]]\nname = "{name}"\n{kind}\nmissing = "complete"\n'


def take(curator: Curator, **request: Any) -> float:
    """Buy a fresh release of almost no price; return its milliseconds."""
    (dataset,), (analyst,) = curator.datasets.list_all(), curator.identity.list_principals()
    asked = ReleaseRequest.model_validate({"intercept": False, "price": {"mu": 1e-5}, "fresh": True, **request})
    start = time.perf_counter()
    curator.releases.release(curator.releases.prepare(dataset, asked), analyst, secrets.token_hex(8))
    return 1e3 * (time.perf_counter() - start)


def one_more_row(folder: Path, more: int) -> tuple[Curator, dict[str, Any], dict[str, Any]]:
    """Return a curator, a request that shows whether a row is there, and its control."""
    levels = [f"w{i}" for i in range(WIDTH)]
    count = _batch_rows(WIDTH + 1) + more
    rows = [(levels[i % WIDTH], "false", "true") for i in range(count)]
    columns = column("ward", levels) + column("y") + column("z")
    request = {"features": ["ward"], "targets": ["y"], "statistics": ["xty"], "rows": {"map": "ball", "norm": 1.0}}
    curator = open_curator(folder, ("ward", "y", "z"), columns, rows, capacity=10_000)
    return curator, request, request | {"targets": ["y", "z"]}


def rare_property(folder: Path, someone: int) -> tuple[Curator, dict[str, Any], dict[str, Any]]:
    """Return a curator, a request that shows whether anybody has a property, and its control."""
    levels = [f"w{i}" for i in range(GROUPS)]
    rows = [(levels[i % GROUPS], str(someone and i == 0).lower(), str(i == 1).lower()) for i in range(2 * GROUPS)]
    columns = column("ward", levels) + column("secret") + column("known")
    request = {"features": ["ward", "secret"], "statistics": ["lambda_min"], "rows": {"map": "box"}}
    curator = open_curator(folder, ("ward", "secret", "known"), columns, rows, capacity=10_000)
    return curator, request, request | {"features": ["ward", "known"]}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--looks", type=int, default=40)
    looks = parser.parse_args().looks
    print("| secret | difference, absent | difference, present | guess from one look is right |")
    print("| --- | ---: | ---: | ---: |")
    for name, world in (("one more row", one_more_row), ("a rare property", rare_property)):
        with tempfile.TemporaryDirectory() as absent, tempfile.TemporaryDirectory() as present:
            worlds = [world(Path(folder), truth) for truth, folder in ((0, absent), (1, present))]
            taken: tuple[list[float], list[float]] = ([], [])
            for turn in range(looks + 2):
                for truth, (curator, request, control) in enumerate(worlds):
                    difference = take(curator, **request) - take(curator, **control)
                    if turn >= 2:
                        taken[truth].append(difference)
        first, second = (np.array(taken)[:, part] for part in (slice(looks // 2), slice(looks // 2, None)))
        threshold = np.median(first, axis=1).mean()
        above = np.median(first[1]) > np.median(first[0])
        right = np.mean([(second[0] > threshold) != above, (second[1] > threshold) == above])
        spread = [f"{np.median(t):.2f} ms (± {np.std(t) / np.sqrt(looks):.2f})" for t in taken]
        print(f"| {name} | {spread[0]} | {spread[1]} | {100 * right:.0f} % of {2 * second.shape[1]} |")


if __name__ == "__main__":
    with threadpool_limits(1, user_api="blas"):
        main()
