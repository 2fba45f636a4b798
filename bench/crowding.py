"""Load of 45 passes over rows at once on a server: answers to each caller, time of health, and memory.

One process on SQLite, one analyst, one dataset of the stated row capacity (and few rows: a pass works through the
capacity). Health is asked again and again meanwhile; its worst time is stated as a ratio to its median before.

    python -m bench.crowding [--requests 45] [--capacity 2000000]
"""

import argparse
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.serving import ROOT, Server, get, open_population, post_release, serve
from curator_service.container import Curator
from curator_service.privacy.accountant import Price

PATIENCE_S = 20.0


def ball() -> dict[str, object]:
    """Return a request that passes over rows; each is drawn anew."""
    return {
        "features": ["age", "sex", "creatinine"],
        "targets": ["kappa"],
        "rows": {"map": "ball"},
        "price": {"mu": 1e-3},
        "fresh": True,
    }


def memory_mb(server: Server) -> float:
    """Return the server's resident memory, in MB."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def ask_health(server: Server) -> float:
    """Return how long `/readyz` takes to answer, in seconds; `PATIENCE_S` at most."""
    start = time.perf_counter()
    connection = server.connect()
    connection.timeout = PATIENCE_S
    try:
        get(connection, "/readyz")
    except OSError:
        pass
    finally:
        connection.close()
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=45)
    parser.add_argument("--capacity", type=int, default=2_000_000)
    options = parser.parse_args()

    def set_up(curator: Curator, folder: Path) -> None:
        example = ROOT / "examples" / "flchain"
        manifest = folder / "manifest.toml"
        text = (example / "manifest.toml").read_text()
        manifest.write_text(text.replace("row_capacity = 20_000", f"row_capacity = {options.capacity}"))
        open_population(curator, "olmsted", Price(mu=900.0))
        curator.datasets.register(manifest, example / "flchain.csv", actor="bench")

    with serve(set_up) as server:
        token = server.analyst("flchain")
        idle = statistics.median(ask_health(server) for _ in range(50))
        before, peak, asked, over = memory_mb(server), 0.0, [], threading.Event()

        def watch() -> None:
            nonlocal peak
            while not over.is_set():
                asked.append(ask_health(server))
                peak = max(peak, memory_mb(server))

        def buy(_: int) -> int:
            return post_release(server.connect(), "flchain", token, ball())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        with ThreadPoolExecutor(options.requests) as pool:
            statuses = Counter(pool.map(buy, range(options.requests)))
        took_s = time.perf_counter() - start
        time.sleep(2.0)  # a job works on
        over.set()
        watcher.join()
        print(f"capacity {options.capacity}: {options.requests} requests at once: {dict(statuses)} in {took_s:.1f} s")
        print(f"/readyz: worst {max(asked) / idle:.0f} times its median when idle ({len(asked)} asked)")
        print(f"memory: {before:.0f} MB before, {peak:.0f} MB at most")


if __name__ == "__main__":
    main()
