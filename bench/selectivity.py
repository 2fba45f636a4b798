"""Test of time, bytes and jobs for traces of a condition's row count, and the time of computed columns.

First: one dataset, and requests whose conditions are true for no row, for one in a hundred and for half, on a server of
their own over HTTP. A round sends each once, in an order drawn anew. For each kind the table has medians over those of
no row, of the time on the caller's clock and of the server's processor time, and the least p-value of
Kolmogorov-Smirnov tests of each pair; an alarm is one below 0.05 over the number of pairs. Sizes are those of answers
whose numbers are blanked, for what was paid for may differ. A fifth as often the same is bought by jobs.

Then: what a row takes for each node of an expression, each function of a basis, each factor of a product, a condition
and a weight, in products of two numbers on the slowest of the kernels that set the pace, and as a part of what public
times count for it. Each is the least of four measurements; the greatest is above it by the part that is its noise.
Last, a pass over 20 computed features over one over 20 stored ones.

    python -m bench.selectivity [--looks 300] [--rows 50000] [--only nodes]
"""

import argparse
import http.client
import itertools
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ks_2samp
from threadpoolctl import threadpool_limits

from bench.looks import look, store
from bench.serving import ROOT, Server, open_population, serve
from curator_service.container import Curator
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import tile_rows
from curator_service.datasets.parts import StoredRows
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import read_column, read_feature, read_selection
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import Price
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import STORED_UNIT, StoredArray
from curator_service.privacy.row_maps import Ball
from curator_service.releases.response_time import NUMBER_S, PRODUCT_S, row_s

ALARM = 0.05
SELECTED = {"none": 0.1, "1 %": 0.3, "50 %": 0.5}
"""What `s` is below in so many rows: texts of one length."""
PRICE: dict[str, Any] = {"price": {"mu": 1e-5}, "fresh": True}
REQUESTS: dict[str, dict[str, Any]] = {
    "gram": {"features": ["v0", {"log": [{"add": ["v1", 1]}]}], "targets": ["v2"], "rows": {"map": "ball"}, **PRICE},
    "counts": {"kind": "counts", "tables": [{"axes": [{"column": "v0", "bins": 20}]}], "weight": "v1", **PRICE},
}
_COLUMN = '[[columns]]\nname = "{name}"\ntype = "numeric"\nlower = 0\nupper = 1\nmissing = "complete"\n'
NAMES = ("s", "v0", "v1", "v2")


def set_up(rows: int) -> Callable[[Curator, Path], None]:
    """Return what registers a dataset of so many rows."""

    def register(curator: Curator, folder: Path) -> None:
        open_population(curator, "people", Price(mu=1.0))
        rng = np.random.default_rng(7)
        values = rng.random((rows, len(NAMES))).round(4)
        values[:, 0] = rng.permutation(np.where(np.arange(rows) * 100 < rows, 0.2, 0.4 + 0.2 * (np.arange(rows) % 2)))
        header = f'name = "d"\npopulation = "people"\nrow_capacity = {rows}\nrows_are_persons = true\n'
        (folder / "m.toml").write_text(header + "".join(_COLUMN.format(name=name) for name in NAMES))
        np.savetxt(folder / "d.csv", values, "%.4f", ",", header=",".join(NAMES), comments="")
        curator.datasets.register(folder / "m.toml", folder / "d.csv", actor="bench")

    return register


def blank(content: Any) -> Any:
    """Return JSON with 0 for each number."""
    if isinstance(content, dict):
        return {name: blank(value) for name, value in content.items()}
    if isinstance(content, list):
        return [blank(value) for value in content]
    return 0 if isinstance(content, int | float) and not isinstance(content, bool) else content


class Caller:
    """Caller of one server, on one connection."""

    def __init__(self, server: Server) -> None:
        self.server, self.connection = server, server.connect()
        self.token = server.analyst("d")

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[http.client.HTTPResponse, Any]:
        """Send a request; return the answer and its content."""
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        self.connection.request(method, path, None if body is None else json.dumps(body), sent)
        response = self.connection.getresponse()
        return response, json.loads(response.read())

    def release(self, request: object, **headers: str) -> tuple[http.client.HTTPResponse, Any]:
        """Buy a release."""
        key = {"Idempotency-Key": secrets.token_hex(16)}
        return self.ask("POST", "/v1/datasets/d/releases", request, **key, **headers)

    def look(self, request: object) -> tuple[float, float, int]:
        """Return the time that shows, the processor time of the server, and the size of the answer."""
        used, start = self.server.cpu_s(), time.perf_counter()
        response, content = self.release(request)
        seconds = time.perf_counter() - start
        assert response.status == 201, content
        headers = sum(len(name) for name, _ in response.getheaders())
        return seconds, self.server.cpu_s() - used, headers + len(json.dumps(blank(content)))

    def wait(self, request: object) -> float:
        """Start a job; return how long it runs, as its state tells. Progress follows from the clock alone."""
        start = time.perf_counter()
        _, job = self.release(request, Prefer="respond-async")
        while self.ask("GET", f"/v1/jobs/{job['id']}")[1]["state"] == "running":
            time.sleep(0.002)
        return time.perf_counter() - start


def compare(name: str, measured: Mapping[str, Sequence[float]]) -> list[str]:
    """Print a line about what was measured at each selectivity; return its alarms."""
    pairs = list(itertools.combinations(measured, 2))
    tests = {pair: float(ks_2samp(measured[pair[0]], measured[pair[1]]).pvalue) for pair in pairs}
    medians = {key: statistics.median(values) for key, values in measured.items()}
    first, *others = medians.values()
    shown = " | ".join(f"{other / first:.3f}" for other in others)
    noise = np.subtract(*np.percentile(next(iter(measured.values())), [75, 25])) / first
    print(f"| {name} | {1e3 * first:.2f} ms | {shown} | {noise:.2f} | {min(tests.values()):.4f} |", flush=True)
    return [f"{name}: {a} and {b}, p = {p:.1e}" for (a, b), p in tests.items() if p < ALARM / len(pairs)]


def compare_selectivities(looks: int, rows: int) -> None:
    """Measure requests over HTTP, and print a table."""
    rng, alarms = np.random.default_rng(looks), list[str]()
    print(f"{rows:,} rows, {looks} looks at each; alarm below p = {ALARM / 3:.4f}\n")
    print("| | none | 1 % | 50 % | its quartiles' distance | least p |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    with serve(set_up(rows)) as server:
        caller = Caller(server)
        for kind, request in REQUESTS.items():
            asked = {name: request | {"where": {"less": ["s", bound]}} for name, bound in SELECTED.items()}
            taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in asked}
            for turn in range(looks + 5):
                for name in rng.permutation(list(asked)).tolist():
                    seen = caller.look(asked[name])
                    if turn >= 5:
                        taken[name].append(seen)
            for i, what in enumerate(("time", "processor time of the server")):
                alarms += compare(f"{kind}: {what}", {name: [seen[i] for seen in taken[name]] for name in asked})
            sizes = {name: sorted({seen[2] for seen in of_name}) for name, of_name in taken.items()}
            same = len({tuple(found) for found in sizes.values()}) == 1
            print(f"| {kind}: bytes | {sizes['none']} | {'same' if same else sizes} | | | |", flush=True)
            alarms += [] if same else [f"{kind}: sizes {sizes}"]
            waited: dict[str, list[float]] = {name: [] for name in asked}
            for _ in range(looks // 5):
                for name in rng.permutation(list(asked)).tolist():
                    waited[name].append(caller.wait(asked[name]))
            alarms += compare(f"{kind}: until a job is done", waited)
    print("\n" + "\n".join(alarms or ["no alarm"]) + "\n")


# --- what is computed -------------------------------------------------------------------------------------------------

COLUMNS = {f"v{i}": Column(f"v{i}", ColumnType.NUMERIC, MissingRule.OMIT, 0.1, 0.9) for i in range(24)}
COLUMNS["level"] = Column("level", ColumnType.CATEGORICAL, MissingRule.OMIT, levels=tuple("abcdefgh"))
COLUMNS["flag"] = Column("flag", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes"))
V = [f"v{i}" for i in range(20)]


def gram(features: Sequence[object], where: object = None, weight: object = None) -> GramKernel:
    """Return a kernel of features, in a ball."""
    design = make_design(tuple(read_feature(f, COLUMNS) for f in features), (COLUMNS["v23"],), intercept=True)
    return GramKernel(design, Ball.of_norm(1.3), read_selection(where, weight, COLUMNS))


def each(make: Callable[[str, str], object], names: Sequence[str] = V) -> list[object]:
    """Return what is made of each column and the next one."""
    return [make(one, other) for one, other in zip(names, [*names[1:], names[0]], strict=True)]


def table(column: object) -> CountsKernel:
    """Return a kernel of one table."""
    return CountsKernel((Table((Axis(read_column(column, COLUMNS), None, True),)),))


_LOGS = [{"log": [name]} for name in V[:8]]
COMPUTED: dict[str, tuple[RowKernel, RowKernel]] = {
    "log": (gram(each(lambda v, _: {"log": [v]})), gram(V)),
    "exp": (gram(each(lambda v, _: {"exp": [v]})), gram(V)),
    "sqrt": (gram(each(lambda v, _: {"sqrt": [v]})), gram(V)),
    "add": (gram(each(lambda v, w: {"add": [v, w]})), gram(V)),
    "multiply": (gram(each(lambda v, w: {"multiply": [v, w]})), gram(V)),
    "divide": (gram(each(lambda v, w: {"divide": [v, w]})), gram(V)),
    "power 2": (gram(each(lambda v, _: {"power": [v, 2]})), gram(V)),
    "power 9": (gram(each(lambda v, _: {"power": [v, 9]})), gram(V)),
    "less, and": (gram(each(lambda v, w: {"and": [{"less": [v, w]}, {"less": [v, 0.5]}]})), gram(V)),
    "in": (gram(each(lambda v, _: {"or": [{"in": ["level", list("abc")]}, {"less": [v, 0.5]}]})), gram(V)),
    "cut into 4": (gram(each(lambda v, _: {"cut": [v, [0.3, 0.5, 0.7]]}, V[:7])), gram([*V, "v20"])),
    "sum of 8 logs, 4 numbers": (gram([{"add": _LOGS}, {"multiply": _LOGS}]), gram(V[:2])),
    "polynomial of 10": (gram([{"polynomial": ["v0", 10]}, {"polynomial": ["v1", 10]}]), gram(V)),
    "spline": (gram([{"spline": [v, [0.5]]} for v in V[:5]]), gram(V)),
    "spline, 4 numbers": (gram([{"spline": ["v0", [0.5], 1]}]), gram(V[:2])),
    "interaction of 2": (gram(each(lambda v, w: {"interaction": [v, w]})), gram(V)),
    "interaction of 4": (gram([{"interaction": V[i : i + 4]} for i in range(17)]), gram(V[:17])),
    "interaction with levels": (gram([{"interaction": [v, "level"]} for v in V[:3]]), gram([*V, "v20"])),
    "where": (gram(V, where={"less": ["v20", 0.5]}), gram(V)),
    "where, 4 numbers": (gram(V[:2], where={"less": ["v20", 0.5]}), gram(V[:2])),
    "weight": (gram(V, weight="v20"), gram(V)),
    "weight, 4 numbers": (gram(V[:2], weight="v20"), gram(V[:2])),
    "200 logs of 20 columns": (
        gram([{"log": [{"add": [v, i]}]} for v in V for i in range(1, 11)]),
        gram([{"polynomial": [v, 10]} for v in V]),
    ),
    "a table of a cut": (table({"cut": ["v0", [0.3, 0.5, 0.7]]}), table("level")),
}
"""Kernels that compute something, and those that they are held against."""
MIXED = [
    *_LOGS[:6],
    *({"power": [v, 2]} for v in V[6:12]),
    *each(lambda v, w: {"interaction": [v, w]}, V[12:16]),
    {"spline": ["v16", [0.5]]},
]
"""Twenty terms."""


def make_rows(kernel: RowKernel, count: int) -> dict[str, StoredArray]:
    """Return values of a whole lattice, and codes of levels."""
    spread = np.linspace(-STORED_UNIT, STORED_UNIT, count).astype(np.int32)
    stored = {name: np.roll(spread, 7 * i) for i, name in enumerate(kernel.columns)}
    codes = {name: (np.arange(count) % max(2, len(COLUMNS[name].levels))).astype(np.int32) for name in stored}
    return {name: stored[name] if COLUMNS[name].type is ColumnType.NUMERIC else codes[name] for name in stored}


def row_takes(kernel: RowKernel, repeats: int = 15) -> float:
    """Return the processor time of a row, as a machine's pace is measured."""
    count = tile_rows(kernel.width)
    stored, counted = make_rows(kernel, count), np.ones(count, dtype=np.bool_)
    mapped, taken = np.empty((count, kernel.width), order="F"), list[float]()
    for _ in range(repeats):
        start = time.thread_time()
        kernel.map({name: values.copy() for name, values in stored.items()}, counted, mapped)
        kernel.sum(mapped)
        taken.append(time.thread_time() - start)
    return min(taken) / count


def compare_nodes() -> None:
    """Measure what is computed, and print a table."""
    COLUMNS.update({c.name: c for kernel in KINDS.typical for c in _columns_of(kernel)})
    pace, later = (max(row_takes(kernel) / row_s(kernel) for kernel in KINDS.typical) for _ in range(2))
    print(f"The slowest typical kernel takes {pace:.3f} of its row on the reference machine, and {later:.3f} once")
    print("memory is used again. A server that starts measures the first, in which all of this is stated.\n")
    print("| computed | products | counted | used | whole row, of what is counted | its noise |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (kernel, base) in COMPUTED.items():
        rounds = [(row_takes(kernel, 7), row_takes(base, 7)) for _ in range(4)]
        spent, without = (min(of) for of in zip(*rounds, strict=True))
        noise = (max(one for one, _ in rounds) - spent) / spent
        found = ((spent - without) / pace - NUMBER_S * (kernel.width - base.width)) / PRODUCT_S
        counted = kernel.products - base.products
        whole = spent / pace / row_s(kernel)
        shown = f"{found:.0f} | {counted} | {found / counted:.2f}" if counted > 0 else "| | "
        print(f"| {name} | {shown} | {whole:.2f} | {noise:.2f} |", flush=True)


def _columns_of(kernel: Any) -> Sequence[Column]:
    if isinstance(kernel, CountsKernel):
        return [axis.column for table in kernel.tables for axis in table.axes]
    if isinstance(kernel, MarginalsKernel):
        return [column for marginal in kernel.marginals for column in marginal.columns]
    return list(kernel.design.sources)


def compare_passes(rows: int, looks: int) -> None:
    """Measure passes over 20 computed features and over 20 stored ones in turn, and print their ratio."""
    kernels = {"computed": gram(MIXED), "stored": gram(V)}
    assert len({kernel.width for kernel in kernels.values()}) == 1
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    with tempfile.TemporaryDirectory() as folder:
        datasets: dict[str, StoredRows] = {}
        for name, kernel in kernels.items():
            datasets[name] = store(Path(folder), name, make_rows(kernel, rows), rows, rows)
        for turn in range(looks + 3):
            for name, kernel in kernels.items():
                spent, _, _ = look(datasets[name], kernel)
                if turn >= 3:
                    seconds[name].append(spent)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    quartiles = {name: np.subtract(*np.percentile(taken, [75, 25])) / medians[name] for name, taken in seconds.items()}
    print(
        f"\nA pass over {rows:,} rows of 20 computed terms (6 logs, 6 squares, 4 interactions, a spline of 4) takes "
        f"{medians['computed'] / medians['stored']:.2f} times one of 20 stored columns, {1e3 * medians['stored']:.1f} "
        f"ms; a quarter of the passes differ by more than {max(quartiles.values()):.2f} of the median from another."
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--looks", type=int, default=300)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--only", default="", choices=["", "requests", "nodes"])
    asked = parser.parse_args()
    if asked.only == "":  # each in a process of its own: what a process did before decides what memory costs it
        for part in ("requests", "nodes"):
            options = ["--looks", str(asked.looks), "--rows", str(asked.rows), "--only", part]
            subprocess.run([sys.executable, "-m", "bench.selectivity", *options], cwd=ROOT, check=True)
    elif asked.only == "requests":
        compare_selectivities(asked.looks, asked.rows)
    else:
        with threadpool_limits(1, user_api="blas"):
            compare_nodes()
            compare_passes(asked.rows, min(asked.looks, 50))


if __name__ == "__main__":
    main()
