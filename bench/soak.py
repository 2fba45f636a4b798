"""Serve for minutes, and look for what grows: memory, open descriptors and latency of one worker.

    python -m bench.soak [--postgres URL] [--minutes M] [--clients N]

Clients buy releases at once and after a pass over rows, ask for quotes, budgets, stored answers and pages of the
library, each in turn and without a pause. A window of the run is a line; the first third is warm-up. Growth is the
slope of a least-squares line through the windows that are left, times their span; it counts where it is beyond three of
its standard errors and beyond a twentieth of the mean. The exit status is 1 where something grows.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.ledger import REQUEST, fresh_database, set_up
from bench.serving import Server, get, post_release, serve

WINDOWS = 30
KINDS = ("release", "pass", "stored", "quote", "budget", "page")


@dataclass
class Window:
    """Measurements in one stretch of the run."""

    rss_mb: float
    descriptors: int
    answered: int
    p50_ms: dict[str, float]
    p99_ms: dict[str, float]


@dataclass
class Clock:
    """The latencies of the window at hand, by kind of request, in seconds."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    waited: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def note(self, kind: str, span_s: float) -> None:
        """Note an answer."""
        with self.turn:
            self.waited[kind].append(span_s)

    def take(self) -> dict[str, list[float]]:
        """Return what was noted since the last call."""
        with self.turn:
            taken, self.waited = self.waited, {kind: [] for kind in KINDS}
        return taken


def buy_and_read(server: Server, token: str, number: int, clock: Clock, stop: threading.Event) -> None:
    """Send one request of each kind after the other."""
    connection, path = server.connect(), f"/v1/datasets/set{number}"
    asked: dict[str, dict[str, object]] = {
        "release": REQUEST,
        "pass": REQUEST | {"rows": {"map": "ball"}},
        "stored": REQUEST | {"fresh": False},
    }
    while not stop.is_set():
        for kind in KINDS:
            start = time.perf_counter()
            if kind in asked:
                status = post_release(connection, f"set{number}", token, asked[kind])
            elif kind == "quote":
                status = post_release(connection, f"set{number}", token, REQUEST, to="quotes")
            else:
                status = get(connection, f"{path}/budget" if kind == "budget" else f"{path}/releases?limit=20", token)
            if status == 429 and kind == "pass":  # as many wait as may
                time.sleep(0.05)
            elif status not in {200, 201}:
                raise RuntimeError(f"{kind}: status {status}")
            else:
                clock.note(kind, time.perf_counter() - start)


def look(server: Server, clock: Clock) -> Window:
    """Close a window."""
    waited = {kind: sorted(spans) for kind, spans in clock.take().items()}
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    (rss,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return Window(
        int(rss) / 1024,
        len(os.listdir(f"/proc/{server.process.pid}/fd")),
        sum(map(len, waited.values())),
        {kind: 1e3 * statistics.median(spans) for kind, spans in waited.items()},
        {kind: 1e3 * spans[int(0.99 * len(spans))] for kind, spans in waited.items()},
    )


def growth(values: list[float]) -> tuple[float, float, float]:
    """Return the mean, the growth over the run, and the growth's standard error, of values at equal distances."""
    x = np.linspace(-0.5, 0.5, len(values))
    slope = float(x @ values / (x @ x))
    residuals = np.array(values) - np.mean(values) - slope * x
    error = float(np.sqrt(residuals @ residuals / (len(values) - 2) / (x @ x)))
    return float(np.mean(values)), slope, error


def soak(url: str | None, minutes: float, clients: int) -> list[str]:
    """Run on one database, print the windows, and return what grows."""
    clock, stop, windows = Clock(), threading.Event(), []
    with serve(set_up, url=url) as server:
        tokens = [server.analyst(f"set{i}", f"analyst{i}") for i in range(clients)]
        running = [
            threading.Thread(target=buy_and_read, args=(server, token, i, clock, stop), daemon=True)
            for i, token in enumerate(tokens)
        ]
        for thread in running:
            thread.start()
        for _ in range(WINDOWS):
            time.sleep(60 * minutes / WINDOWS)
            if not all(thread.is_alive() for thread in running):
                stop.set()
                raise RuntimeError("a client failed")
            windows.append(look(server, clock))
            print(_line(windows[-1]), flush=True)
        stop.set()
        for thread in running:
            thread.join()
    return list(_judge(windows[WINDOWS // 3 :]))


def _judge(windows: list[Window]) -> Iterator[str]:
    series = {"memory, MB": [w.rss_mb for w in windows], "descriptors": [float(w.descriptors) for w in windows]}
    series |= {f"p50 of {kind}, ms": [w.p50_ms[kind] for w in windows] for kind in KINDS}
    print(f"{'':24}{'mean':>10}{'growth':>10}{'± error':>10}")
    for name, values in series.items():
        mean, grown, error = growth(values)
        grows = grown > 3 * error and grown > mean / 20
        print(f"{name:24}{mean:10.2f}{grown:10.2f}{error:10.2f}{'  GROWS' if grows else ''}")
        if grows:
            yield name


def _line(window: Window) -> str:
    spans = ", ".join(f"{kind} {window.p50_ms[kind]:.1f}/{window.p99_ms[kind]:.0f}" for kind in KINDS)
    return f"{window.rss_mb:7.1f} MB {window.descriptors:4d} fds {window.answered:6d} answers; p50/p99 ms: {spans}"


@contextmanager
def _databases(server_url: str | None) -> Iterator[list[tuple[str, str | None]]]:
    if server_url is None:
        yield [("SQLite", None)]
        return
    with fresh_database(server_url) as url:
        yield [("SQLite", None), ("PostgreSQL", url)]


def main() -> int:
    """Soak each database."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", default=os.environ.get("CURATOR_TEST_POSTGRES_URL"), help="URL of a server")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    found = []
    with _databases(options.postgres) as databases:
        for name, url in databases:
            print(f"== {name}: {options.minutes:g} minutes, {options.clients} clients")
            found += [f"{name}: {what}" for what in soak(url, options.minutes, options.clients)]
    print("grows: " + "; ".join(found) if found else "nothing grows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
