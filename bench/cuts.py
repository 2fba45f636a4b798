"""Cost of a cut, and a test of its time for traces of the erased persons.

Four datasets of the same persons, of one capacity: nobody is erased from one, one from the next, then five, and a
thousand. At each cut, in an order drawn anew, each is cut; afterwards all begin again. The table has medians of
processor time over that of nobody, and the p-value of a Kolmogorov-Smirnov test against it; an alarm is one below 0.05
over the number of tests. The last line is the time of a cut, as a multiple of the time in which the rows alone are
written to the same disk, durably.

    python -m bench.cuts [--rows 200000] [--cuts 40]
"""

import argparse
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp
from threadpoolctl import threadpool_limits

from curator_service.container import Curator, make_curator
from curator_service.datasets.pseudonyms import SIZE
from curator_service.datasets.rewriting import Plan, rewrite
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.settings import Settings

ERASED = (0, 1, 5, 1000)
ALARM = 0.05
MANIFEST = """name = "d{n}"
population = "town"
row_capacity = {capacity}
subject = "who"
rows_per_subject = 1
""" + "".join(f'[[columns]]\nname = "v{i}"\ntype = "numeric"\nlower = 0\nupper = 1\n' for i in range(9))


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.moment


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--cuts", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1, user_api="blas"):
        curator, clock = make_world(Path(name), asked.rows)
        times = measure(curator, clock, asked.cuts)
        bare = write_bare(Path(name), asked.rows)
        curator.close()
    tests = len(ERASED) - 1
    print(f"{asked.rows:,} rows of 9 columns in a capacity of {2 * asked.rows:,}; {asked.cuts} cuts\n")
    print("| erased | processor time, over that of nobody | p |\n|---:|---:|---:|")
    for k in ERASED:
        p = ks_2samp(times[k]["cpu"], times[0]["cpu"]).pvalue
        said = "" if k == 0 else f"{p:.2f}" + (" ALARM" if p < ALARM / tests else "")
        print(f"| {k:,} | {statistics.median(times[k]['cpu']) / statistics.median(times[0]['cpu']):.3f} | {said} |")
    wall = statistics.median(times[0]["wall"])
    print(f"\nA cut takes {wall:.2f} s: {wall / bare:.1f} times a durable write of as many bytes ({bare:.2f} s).")


def make_world(folder: Path, rows: int) -> tuple[Curator, Clock]:
    """Register the same persons once for each number of erased ones."""
    clock = Clock()
    curator = make_curator(Settings(data_dir=folder / "data", cuts="daily"), now=clock)
    curator.database.upgrade()
    options = {"adjacency": Adjacency.ADD_REMOVE, "accountant": "gdp", "delta": 1e-6, "actor": "bench"}
    curator.ledger.create_population("town", limit=Price(mu=1.0), **options)  # type: ignore[arg-type]
    values = np.random.default_rng(5).random((rows, 9)).round(4)
    data = folder / "rows.csv"
    with data.open("w") as file:
        file.write(",".join(["who", *(f"v{i}" for i in range(9))]) + "\n")
        file.writelines(f"p{n}," + ",".join(map(str, row)) + "\n" for n, row in enumerate(values.tolist()))
    for n in ERASED:
        (folder / "m.toml").write_text(MANIFEST.format(n=n, capacity=2 * rows))
        curator.datasets.register(folder / "m.toml", data, actor="bench")
    return curator, clock


def measure(curator: Curator, clock: Clock, cuts: int) -> dict[int, dict[str, list[float]]]:
    """Cut all datasets again and again; return processor and wall times by number of erased persons."""
    rng, storage = np.random.default_rng(6), curator.datasets.storage
    times: dict[int, dict[str, list[float]]] = {k: {"cpu": [], "wall": []} for k in ERASED}
    sketcher = curator.datasets.likeness.sketcher
    for round_ in range(cuts + 1):
        clock.moment += timedelta(days=1)
        for k in rng.permutation(ERASED).tolist():
            dataset = next(found for found in curator.datasets.list_all() if found.name == f"d{k}")
            (part,) = storage.about(dataset.folder).parts
            whose = part.read_subjects(storage.root / dataset.folder)
            assert part.subjects is not None
            gone = {bytes(who) for who in whose[rng.choice(len(whose), k, replace=False)]}
            plan = Plan(dataset.manifest, [(dataset.folder, {part.subjects[0]: gone})], keeps_null_rows=False)
            begun, worked = time.perf_counter(), time.process_time()
            rewrite(storage, f"{dataset.id}.bench", plan, sketcher())
            if round_:  # the first one warms up
                times[k]["cpu"].append(time.process_time() - worked)
                times[k]["wall"].append(time.perf_counter() - begun)
            storage.discard(f"{dataset.id}.bench")
    return times


def write_bare(folder: Path, rows: int) -> float:
    """Return the median time of writing as many bytes as a version has, durably."""
    content, times = bytes(2 * rows * 10 * 4 + rows * SIZE), []
    for _ in range(5):
        begun = time.perf_counter()
        with (folder / "bare").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
