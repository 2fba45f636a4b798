"""Test with a stopwatch to tell a cut at which a person was erased or came from one without a change.

One dataset is cut again and again. Before each cut a die decides: nothing is asked, a person is erased, or a person's
row is appended. Of each cut it notes how long it takes, how much of that is behind the public time, for how long the
cut holds the write lock, and for how long another process finds it held, which asks for it all the time. The table has
the area under the curve (AUC) of each time, against cuts at which nothing changed: 0.5 where it tells nothing. Behind
it is the standard deviation of that area where nothing is told.

    python -m bench.stopwatch [--cuts 300] [--rows 2000] [--database URL]
"""

import argparse
import contextlib
import math
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from scipy.stats import mannwhitneyu

from bench.cuts import MANIFEST, Clock
from curator_service.container import Curator, make_curator
from curator_service.datasets.repository import APPEND
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.settings import Settings

ACTS = ("nothing", "erased", "came")
TIMES = ("the cut", "behind the public time", "lock held", "lock seen from outside")
Times = dict[str, dict[str, list[float]]]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--database", default=None)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        times = measure(Path(name), asked.cuts, asked.rows, asked.database)
    print("| persons who | time | where nothing changed | times as long | AUC |\n|---|---|---:|---:|---:|")
    for act in ACTS[1:]:
        for kind in TIMES:
            still, moved = times[kind][ACTS[0]], times[kind][act]
            ratio = statistics.median(moved) / statistics.median(still)
            auc, noise = compute_auc(still, moved)
            said = (
                f"| {act} | {kind} | {1e3 * statistics.median(still):.1f} ms | {ratio:.2f} | {auc:.2f} ± {noise:.2f} |"
            )
            print(said)


def compute_auc(still: list[float], moved: list[float]) -> tuple[float, float]:
    """Return how often a time of the second is the longer one, and the deviation of that if their law is one."""
    m, n = len(still), len(moved)
    return float(mannwhitneyu(moved, still).statistic) / (m * n), math.sqrt((m + n + 1) / (12 * m * n))


def measure(folder: Path, cuts: int, rows: int, url: str | None) -> Times:
    """Cut again and again; return the times by their kind and what was asked."""
    curator, clock = make_world(folder, rows, url)
    rng, present, coming = np.random.default_rng(7), list(range(rows)), rows
    times: Times = {kind: {act: [] for act in ACTS} for kind in TIMES}
    with watching(curator) as watch, asking(curator) as outside:
        for i in range(cuts + 3):
            act = ACTS[rng.integers(len(ACTS))]
            if act == "erased":
                gone = present.pop(int(rng.integers(len(present))))
                curator.versions.erase(f"p{gone}", actor="bench")
            elif act == "came":
                write_rows(folder / "one.csv", [coming])
                curator.versions.add_rows("d0", folder / "one.csv", act=APPEND, actor="bench")
                present.append(coming)
                coming += 1
            clock.moment = clock.moment.fromisoformat(curator.versions.due(curator.datasets.list_all()[0]))
            watch.clear()
            time.sleep(0.02)
            outside.value = 0.0
            dataset = curator.datasets.list_all()[0]
            begun = time.perf_counter()
            curator.versions.cut(dataset)
            ended = time.perf_counter()
            time.sleep(0.02)
            if i >= 3:
                found = ended - begun, ended - watch["public"], watch["held"], outside.value
                for kind, seconds in zip(TIMES, found, strict=True):
                    times[kind][act].append(seconds)
            curator.datasets.storage.sweep(curator.datasets.list_folders)
    curator.close()
    return times


def write_rows(path: Path, persons: list[int]) -> None:
    """Write a row of each person."""
    lines = [f"p{n}," + ",".join(map(str, np.random.default_rng(n).random(9).round(4))) for n in persons]
    path.write_text("\n".join([",".join(["who", *(f"v{i}" for i in range(9))]), *lines]) + "\n")


def make_world(folder: Path, rows: int, url: str | None) -> tuple[Curator, Clock]:
    """Register persons."""
    clock = Clock()
    curator = make_curator(Settings(data_dir=folder / "data", database_url=url, cuts="daily"), now=clock)
    curator.database.upgrade()
    options: dict[str, Any] = {"adjacency": Adjacency.ADD_REMOVE, "accountant": "gdp", "delta": 1e-6, "actor": "bench"}
    curator.ledger.create_population("town", limit=Price(mu=1.0), **options)
    write_rows(folder / "rows.csv", list(range(rows)))
    (folder / "m.toml").write_text(MANIFEST.format(n=0, capacity=2 * rows))
    curator.datasets.register(folder / "m.toml", folder / "rows.csv", actor="bench")
    return curator, clock


@contextmanager
def watching(curator: Curator) -> Iterator[dict[str, float]]:
    """Note when the public time is over, and for how long units of work of the cut are open."""
    found: dict[str, float] = {}
    ending, begin = curator.versions.ending_after, curator.database.begin

    @contextmanager
    def end(duration_s: float) -> Iterator[None]:
        with ending(duration_s):
            yield
        found["public"], found["held"] = time.perf_counter(), 0.0

    @contextmanager
    def hold() -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(begin())
            since = time.perf_counter()
            yield connection
        found["held"] = found.get("held", 0.0) + time.perf_counter() - since

    curator.versions.ending_after, curator.database.begin = end, hold  # type: ignore[method-assign]
    yield found


@contextmanager
def asking(curator: Curator) -> Iterator["Synchronized[float]"]:
    """Ask for the lock from another process, all the time; note for how long it was held."""
    context = multiprocessing.get_context("spawn")
    held, begun, over = context.Value("d", 0.0), context.Event(), context.Event()
    url = curator.database.url.set(drivername=curator.database.url.get_backend_name())
    asker = context.Process(target=ask, args=(url.render_as_string(hide_password=False), held, begun, over))
    asker.start()
    begun.wait()
    try:
        yield held
    finally:
        over.set()
        asker.join()


def ask(url: str, held: "Synchronized[float]", begun: Event, over: Event) -> None:
    """Ask until it is over."""
    connect = _connect_sqlite if url.startswith("sqlite") else _connect_postgres
    is_free, before = connect(url), time.perf_counter()
    begun.set()
    while not over.is_set():
        time.sleep(1e-4)
        free, now = is_free(), time.perf_counter()
        if not free:
            held.value += now - before
        before = now


def _connect_sqlite(url: str) -> Any:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)

    def is_free() -> bool:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True

    return is_free


def _connect_postgres(url: str) -> Any:
    connection = psycopg.connect(url, autocommit=True)

    def is_free() -> bool:
        try:
            connection.execute("SELECT 1 FROM populations WHERE name = 'town' FOR UPDATE NOWAIT")
        except psycopg.errors.LockNotAvailable:
            return False
        return True

    return is_free


if __name__ == "__main__":
    main()
