"""Readers of HTTP: what an empty request costs with each, and how long an endless header stops the others' answers.

`httptools` and `h11` are uvicorn's own; `guarded` is the product's: httptools with bounds. CPU is the server's, of the
empty endpoint on one keep-alive connection, in rounds that take turns; ratios are to httptools. Then one connection
without a token sends a header that does not end, and another one asks for `/healthz` meanwhile.

At the end: what the addresses that need no token cost, as ratios to the empty endpoint.

    python -m bench.connections [--requests 400] [--rounds 15] [--header-mb 32]
"""

import argparse
import os
import socket
import statistics
import threading
import time
from contextlib import ExitStack

from bench.serving import EMPTY_PATH, GUARDED, Server, get, serve

READERS = {"httptools": "httptools", "guarded": GUARDED, "h11": "h11"}


def cpu_per_request(server: Server, requests: int, path: str = EMPTY_PATH) -> float:
    """Return the server's CPU seconds per request."""
    connection = server.connect()
    get(connection, path)
    before = server.cpu_s()
    for _ in range(requests):
        get(connection, path)
    connection.close()
    return (server.cpu_s() - before) / requests


def send_header(server: Server, megabytes: int, over: threading.Event) -> None:
    """Send a header that does not end, as far as the server takes it."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as attacker:
            attacker.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
            for _ in range(megabytes):
                attacker.sendall(b"a" * 1_000_000)
    except OSError:
        pass
    finally:
        over.set()


def worst_answer(server: Server, megabytes: int) -> float:
    """Return how many times its idle median `/healthz` takes at worst while a header does not end."""

    def ask() -> float:
        start = time.perf_counter()
        connection = server.connect()
        get(connection, "/healthz")
        connection.close()
        return time.perf_counter() - start

    idle = statistics.median(ask() for _ in range(100))
    over = threading.Event()
    attacker = threading.Thread(target=send_header, args=(server, megabytes, over))
    attacker.start()
    worst = 0.0
    while not over.is_set():
        worst = max(worst, ask())
    worst = max(worst, ask())
    attacker.join()
    return worst / idle


def asked_by_anybody(server: Server, requests: int, rounds: int) -> dict[str, float]:
    """Return what addresses that need no token cost, as median ratios to the empty endpoint."""
    ratios: dict[str, list[float]] = {"/healthz": [], "/readyz": [], "/openapi.json": []}
    for _ in range(rounds):
        empty = cpu_per_request(server, requests)
        for path, found in ratios.items():
            found.append(cpu_per_request(server, requests, path) / empty)
    return {path: statistics.median(found) for path, found in ratios.items()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--header-mb", type=int, default=32)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(serve(lambda _curator, _folder: None, http=http))
            for name, http in READERS.items()
        }
        costs = [
            {name: cpu_per_request(server, options.requests) for name, server in servers.items()}
            for _ in range(options.rounds)
        ]
        for name, server in servers.items():
            quartiles = statistics.quantiles([cost[name] / cost["httptools"] for cost in costs], n=4)
            low, middle, high = (f"{ratio:.2f}" for ratio in quartiles)
            worst = worst_answer(server, options.header_mb)
            print(
                f"{name:10} {middle} times httptools' CPU ({low} to {high}); "
                f"a header of {options.header_mb} MB: /healthz up to {worst:.0f} times its idle median"
            )
        asked = asked_by_anybody(servers["guarded"], options.requests // 4, options.rounds)
        print(", ".join(f"{path} {ratio:.2f}" for path, ratio in asked.items()), "times the empty endpoint's CPU")


if __name__ == "__main__":
    main()
