"""Can a stopwatch tell two neighbouring datasets apart? Three attacks that once could, through the release path.

Each look buys two releases of almost no price, one that would show the secret and a control that would not, and takes
the difference of their times. A threshold is chosen on the first half of the looks, and judged on the second. What all
looks tell together is the rank-sum statistic, in its standard errors under equal laws.

- *One more row*: n is a whole number of the parts in which a wide pass works, and one more person begins another.
- *A rare property*: a column that is 0 for everybody makes XᵀX singular, and λ_min exactly 0.
- *A person of 200 rare properties*: without the person 20,100 sums are 0, and no public time hides what adding to them
  costs. Also in processor time, which a busy machine does not blur: of the release, and of the sums and noise alone.

    python -m bench.timing [--looks 40] [--only person]

The first takes an hour at 40 looks, since a pass is made to take its public time; the others take seconds.
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.serving import open_population
from curator_service.container import Curator, make_curator
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.identity.policy import Role
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import Price
from curator_service.privacy.mechanism import draw_noise
from curator_service.privacy.samplers import SystemNoise
from curator_service.releases import preparation
from curator_service.releases.preparation import Prepared
from curator_service.settings import Settings

WIDTH, GROUPS, PROPERTIES = 999, 800, 200
WARM_UP = 2
Row = Sequence[str]
World = tuple[Curator, dict[str, Any], dict[str, Any]]


def open_curator(folder: Path, header: Row, columns: str, rows: Sequence[Row], capacity: int) -> Curator:
    """Return a curator with one dataset of these rows."""
    curator = make_curator(Settings(data_dir=folder / "data", keys_per_day=10**9))
    curator.database.upgrade()
    open_population(curator, "people", Price(mu=1.0))
    manifest, data = folder / "m.toml", folder / "d.csv"
    manifest.write_text(
        f'name = "d"\npopulation = "people"\nrow_capacity = {capacity}\nrows_are_persons = true\n{columns}'
    )
    data.write_text("\n".join(",".join(row) for row in (header, *rows)) + "\n")
    curator.datasets.register(manifest, data, actor="bench")
    curator.identity.create_token("bench", Role.ANALYST)
    return curator


def column(name: str, levels: Sequence[str] = ()) -> str:
    """Return the declaration of a boolean, or of a category."""
    kind = f'type = "categorical"\nlevels = {list(levels)!r}'.replace("'", '"') if levels else 'type = "boolean"'
    return f'[[columns]]\nname = "{name}"\n{kind}\nmissing = "complete"\n'


def prepare(curator: Curator, request: dict[str, Any]) -> Prepared:
    """Plan a fresh release of almost no price."""
    (dataset,) = curator.datasets.list_all()
    asked = GramRequest.model_validate({"intercept": False, "price": {"mu": 1e-5}, "fresh": True, **request})
    return preparation.prepare(KINDS, dataset, asked)


def take(curator: Curator, request: dict[str, Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Buy a release; return its milliseconds."""
    (analyst,) = curator.identity.list_principals()
    start = clock()
    curator.releases.release(prepare(curator, request), analyst, secrets.token_hex(8))
    return 1e3 * (clock() - start)


def compute(curator: Curator, request: dict[str, Any]) -> float:
    """Read the sums of a release and add noise; return the milliseconds of the processor for these two alone."""
    prepared = prepare(curator, request)
    draws = draw_noise(prepared.plan, SystemNoise())
    start = time.thread_time()
    prepared.perturb(curator.datasets.sum_rows(prepared.dataset, prepared.kernel), draws)
    return 1e3 * (time.thread_time() - start)


def one_more_row(folder: Path, more: int) -> World:
    """Return a curator, a request that shows whether a row is there, and its control."""
    levels = [f"w{i}" for i in range(WIDTH)]
    count = tile_rows(WIDTH + 1) + more
    rows = [(levels[i % WIDTH], "false", "true") for i in range(count)]
    columns = column("ward", levels) + column("y") + column("z")
    request = {"features": ["ward"], "targets": ["y"], "statistics": ["xty"], "rows": {"map": "ball", "norm": 1.0}}
    curator = open_curator(folder, ("ward", "y", "z"), columns, rows, capacity=10_000)
    return curator, request, request | {"targets": ["y", "z"]}


def rare_property(folder: Path, someone: int) -> World:
    """Return a curator, a request that shows whether anybody has a property, and its control."""
    levels = [f"w{i}" for i in range(GROUPS)]
    rows = [(levels[i % GROUPS], str(someone and i == 0).lower(), str(i == 1).lower()) for i in range(2 * GROUPS)]
    columns = column("ward", levels) + column("secret") + column("known")
    request = {"features": ["ward", "secret"], "statistics": ["lambda_min"], "rows": {"map": "box"}}
    curator = open_curator(folder, ("ward", "secret", "known"), columns, rows, capacity=10_000)
    return curator, request, request | {"features": ["ward", "known"]}


def rare_person(folder: Path, someone: int) -> World:
    """Return a curator, a request that shows whether a person with many rare properties is there, and its control."""
    names, others = ([f"{letter}{i}" for i in range(PROPERTIES)] for letter in "pq")
    rows = [[str(someone and i == 0).lower()] * PROPERTIES + ["false"] * PROPERTIES for i in range(500)]
    columns = "".join(column(name) for name in (*names, *others))
    request = {"features": names, "statistics": ["xtx"], "rows": {"map": "box"}, "price": {"mu": 4.2e-4}}
    return open_curator(folder, (*names, *others), columns, rows, 10_000), request, request | {"features": others}


ATTACKS: tuple[tuple[str, Callable[[Path, int], World], Callable[[Curator, dict[str, Any]], float]], ...] = (
    ("one more row", one_more_row, take),
    ("a rare property", rare_property, take),
    ("a person of 200 rare properties", rare_person, take),
    ("that person, processor time", rare_person, partial(take, clock=time.thread_time)),
    ("that person, sums and noise alone", rare_person, compute),
)


def look(worlds: Sequence[World], measure: Callable[[Curator, dict[str, Any]], float], looks: int) -> Any:
    """Return the differences of times, of both worlds; which is looked at first, and by which request, is tossed."""
    toss = np.random.default_rng()
    taken = np.zeros((len(worlds), looks + WARM_UP))
    for turn in range(looks + WARM_UP):
        for truth in toss.permutation(len(worlds)):
            curator, *requests = worlds[truth]
            times = {which: measure(curator, requests[which]) for which in toss.permutation(2)}
            taken[truth, turn] = times[0] - times[1]
    return taken[:, WARM_UP:]


def judge(taken: Any) -> tuple[float, float]:
    """Return how often a guess from one look is right, and how far all looks tell the worlds apart."""
    looks = taken.shape[1]
    first, second = taken[:, : looks // 2], taken[:, looks // 2 :]
    threshold = np.median(first, axis=1).mean()
    above = np.median(first[1]) > np.median(first[0])
    right = np.mean([(second[0] > threshold) != above, (second[1] > threshold) == above])
    larger = np.mean(taken[1][:, None] > taken[0][None, :])
    return float(right), float((larger - 0.5) / np.sqrt((2 * looks + 1) / (12 * looks**2)))


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--looks", type=int, default=40)
    parser.add_argument("--only", default="", help="the attacks whose name contains this")
    asked = parser.parse_args()
    looks: int = asked.looks
    print("| secret | difference, absent | difference, present | one look is right | all looks, standard errors |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, world, measure in ATTACKS:
        if asked.only in name:
            with tempfile.TemporaryDirectory() as absent, tempfile.TemporaryDirectory() as present:
                worlds = [world(Path(folder), truth) for truth, folder in ((0, absent), (1, present))]
                taken = look(worlds, measure, looks)
            right, apart = judge(taken)
            spread = [f"{np.median(t):.3f} ms (± {np.std(t) / np.sqrt(looks):.3f})" for t in taken]
            score = f"{100 * right:.0f} % of {2 * (looks - looks // 2)}"
            print(f"| {name} | {spread[0]} | {spread[1]} | {score} | {apart:+.1f} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1, user_api="blas"):
        main()
