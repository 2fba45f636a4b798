"""Server CPU, latency and throughput of releases, new and stored, and of a budget read, as ratios to an empty endpoint.

One run, one server, durable SQLite (WAL, synchronous=FULL), a box release of five terms from the cached Gram. The
empty endpoint is a bare ``async`` route under the same middleware, without authentication or database; "durable writes"
is one that commits a row to SQLite and syncs a line to a file, in a worker thread, and does nothing else. Server and
client share one core, so that a CPU second means the same for every endpoint. The endpoints take turns in short
rounds, each round gives a ratio, and the table states their median and quartiles.

    python -m bench.release [--requests 60] [--rounds 40]
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.serving import DURABLE_PATH, EMPTY_PATH, ROOT, Server, get, open_population, post, post_release, serve
from curator_service.container import Curator
from curator_service.privacy.accountant import Price

REQUEST: dict[str, object] = {
    "features": ["age", "sex", "creatinine", "lambda"],  # with the constant: five terms
    "targets": ["kappa"],
    "rows": {"map": "box"},
    "price": {"epsilon": 0.01, "delta": 1e-6},
    "fresh": True,
}
OK = {200, 201, 304}
Act = Callable[[object], int]


def set_up(curator: Curator, folder: Path) -> None:
    """Register the cohort with every column declared without omission, so that the box Gram is cached."""
    example = ROOT / "examples" / "flchain"
    manifest = folder / "manifest.toml"
    manifest.write_text((example / "manifest.toml").read_text().replace('"omit"', '"midpoint"'))
    open_population(curator, "olmsted", Price(mu=900.0))
    curator.datasets.register(manifest, example / "flchain.csv", actor="bench")


def measure(server: Server, act: Act, requests: int) -> tuple[float, list[float]]:
    """Return the server's CPU seconds per request and each request's latency."""
    connection = server.connect()
    act(connection)
    latencies, before = [], server.cpu_s()
    for _ in range(requests):
        start = time.perf_counter()
        status = act(connection)
        latencies.append(time.perf_counter() - start)
        if status not in OK:
            raise RuntimeError(f"status {status}")
    return (server.cpu_s() - before) / requests, latencies


def throughput(server: Server, acts: Sequence[Act], clients: int, requests: int) -> float:
    """Return requests per second with so many keep-alive clients, who are the analysts in turn."""

    def run(act: Act) -> None:
        connection = server.connect()
        for _ in range(requests // clients):
            if (status := act(connection)) not in OK:
                raise RuntimeError(f"status {status}")

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(run, acts[i % len(acts)]) for i in range(clients)]:
            done.result()
    return requests / (time.perf_counter() - start)


def make_acts(token: str, stored: str, etag: str) -> dict[str, Act]:
    """Return what one analyst does, by name."""
    return {
        "empty endpoint": lambda c: get(c, EMPTY_PATH),
        "durable writes": lambda c: post(c, DURABLE_PATH),
        "budget read": lambda c: get(c, "/v1/datasets/flchain/budget", token),
        "release": lambda c: post_release(c, "flchain", token, REQUEST),
        "stored release": lambda c: get(c, stored, token),
        "unchanged release": lambda c: get(c, stored, token, {"If-None-Match": etag}),
    }


def buy(server: Server, token: str) -> tuple[str, str]:
    """Buy a release; return its address and its entity tag."""
    connection = server.connect()
    post_release(connection, "flchain", token, REQUEST)
    connection.request("GET", "/v1/datasets/flchain/releases", headers={"Authorization": f"Bearer {token}"})
    address = f"/v1/releases/{json.load(connection.getresponse())['releases'][0]['id']}"
    connection.request("GET", address, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    return address, response.headers["ETag"]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with serve(set_up) as server:
        tokens = [server.analyst("flchain", name) for name in ("ada", "ben", "cora", "dan")]
        stored = buy(server, tokens[0])
        everybody = [make_acts(token, *stored) for token in tokens]
        acts = everybody[0]
        cpu: dict[str, list[float]] = {name: [] for name in acts}
        latency: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(options.rounds):
            for name, act in acts.items():
                used, waited = measure(server, act, options.requests)
                cpu[name].append(used)
                latency[name] += waited
        print(f"{'':18}{'CPU/request':>14}{'ratio':>8}{'quartiles':>15}{'p50':>10}{'p99':>10}{'p50 ratio':>11}")
        base_p50 = statistics.median(latency["empty endpoint"])
        for name in acts:
            ratios = [used / base for used, base in zip(cpu[name], cpu["empty endpoint"], strict=True)]
            low, ratio, high = statistics.quantiles(ratios, n=4)
            quartiles = f"{low:.1f} to {high:.1f}"
            waited = sorted(latency[name])
            p50, p99 = waited[len(waited) // 2], waited[int(len(waited) * 0.99)]
            print(
                f"{name:18}{statistics.median(cpu[name]) * 1e6:11.0f} µs{ratio:8.1f}{quartiles:>15}{p50 * 1e6:7.0f} µs"
                f"{p99 * 1e6:7.0f} µs{p50 / base_p50:11.1f}"
            )
        for clients in (8, 32):
            rates = {
                name: throughput(server, [acts[name] for acts in everybody], clients, options.requests * 10)
                for name in acts
            }
            text = ", ".join(
                f"{name} {rate:.0f}/s ({rate / rates['empty endpoint']:.3f})" for name, rate in rates.items()
            )
            print(f"throughput with {clients} clients (ratio to empty): {text}")


if __name__ == "__main__":
    main()
