"""Measure the ledger: durable releases per second beside the empty endpoint and the raw commits of the same database.

    python -m bench.ledger [--postgres URL] [--seconds S] [--rounds N]

Every release is a request without a pass over rows: charge, noise, entry, signature and body in one commit, then the
anchor. All rates of a line are of the same run, one after the other, so that their ratios mean something on a machine
whose speed changes. The account's lock is timed in the server, from the UPDATE that takes it to the end of the commit.
"""

import argparse
import json
import multiprocessing
import os
import random
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI, Response
from sqlalchemy import text

from bench.serving import EMPTY_PATH, Server, create_bench_app, get, open_population, post_release, serve
from curator_service.container import Curator
from curator_service.entries.account import GENESIS, Account
from curator_service.entries.amounts import Charge, PartModel
from curator_service.entries.base import FORMAT, Entry, Place
from curator_service.entries.terms import Open
from curator_service.kinds.registry import KINDS
from curator_service.kit.db import Database
from curator_service.ledger import repository
from curator_service.ledger.chain.entries import StoredEntry, canonical, entry_hash
from curator_service.ledger.chain.verification import verify_chain
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution
from curator_service.releases.preparation import prepare

POPULATIONS = 32
REQUEST: dict[str, object] = {
    "features": ["x1", "x2", "x3", "x4"],  # with the constant: five terms
    "targets": ["y"],
    "rows": {"map": "box"},
    "price": {"mu": 0.001},
    "fresh": True,
}
LOCKS_PATH = "/bench/locks"
CLIENT_PROCESSES = 2


def create_timed_app() -> FastAPI:
    """Build the bench's application, which times how long each account is locked."""
    app = create_bench_app()
    held: list[float] = []
    local = threading.local()
    move, begin = repository.move, Database.begin

    def timed_move(*args: Any, **kwargs: Any) -> Any:
        head = move(*args, **kwargs)
        local.since = time.perf_counter()
        return head

    @contextmanager
    def timed_begin(self: Database) -> Iterator[Any]:
        local.since = None
        with begin(self) as connection:
            yield connection
        if local.since is not None:
            held.append(time.perf_counter() - local.since)

    repository.move = timed_move
    Database.begin = timed_begin  # type: ignore[method-assign]

    @app.get(LOCKS_PATH)
    async def locks() -> Response:
        """Return what this worker has timed since it was asked last."""
        taken, held[:] = list(held), []
        return Response(json.dumps(taken), media_type="application/json")

    return app


def set_up(curator: Curator, folder: Path, *, populations: int = POPULATIONS, columns: int = 4) -> None:
    """Register a small dataset in each of many populations."""
    names = [*(f"x{i + 1}" for i in range(columns)), "y"]
    declared = "".join(
        f'\n[[columns]]\nname = "{name}"\ntype = "numeric"\nmissing = "complete"\nlower = 0.0\nupper = 1.0\n'
        for name in names
    )
    source = random.Random(5)
    for i in range(populations):
        open_population(curator, f"people{i}", Price(mu=900.0))
        manifest, data = folder / f"{i}.toml", folder / f"{i}.csv"
        manifest.write_text(
            f'name = "set{i}"\npopulation = "people{i}"\nrow_capacity = 1000\nrows_are_persons = true\n{declared}'
        )
        rows = [",".join(f"{source.random():.6f}" for _ in names) for _ in range(200)]
        data.write_text("\n".join([",".join(names), *rows]) + "\n")
        curator.datasets.register(manifest, data, actor="bench")


Act = Callable[[Any, int], int]


def _client(server: Server, act: Act, threads: int, seconds: float, first: int, counts: Any) -> None:
    def run(number: int) -> None:
        connection = server.connect()
        end, done = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            if act(connection, number) not in {200, 201}:
                raise RuntimeError("a request failed")
            done += 1
        counts.put(done)

    running = [threading.Thread(target=run, args=(first + i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def rate(server: Server, act: Act, clients: int, seconds: float) -> float:
    """Return answers per second to so many keep-alive clients, in two processes where there are more than one."""
    context = multiprocessing.get_context("fork")
    counts = context.SimpleQueue()
    processes = min(CLIENT_PROCESSES, clients)
    share = clients // processes
    running = [
        context.Process(target=_client, args=(server, act, share, seconds, i * share, counts)) for i in range(processes)
    ]
    for process in running:
        process.start()
    total = sum(counts.get() for _ in range(clients))
    for process in running:
        process.join()
    return total / seconds


def raw_commits(database: Database, seconds: float) -> float:
    """Return durable commits per second of one row, on one connection."""
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS bench_commits (id INTEGER)"))
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        with database.begin() as connection:
            connection.run("INSERT INTO bench_commits VALUES (1)")
        done += 1
    return done / seconds


def lock_times(server: Server, workers: int) -> list[float]:
    """Return how long accounts were locked since the last call, over all workers, in seconds."""
    found: list[float] = []
    for _ in range(8 * workers):  # a new connection each: the workers share the port
        connection = server.connect()
        connection.request("GET", LOCKS_PATH)
        found += json.loads(connection.getresponse().read())
        connection.close()
    return found


def measure_rates(url: str | None, workers: int, seconds: float, rounds: int) -> None:
    """Print a line for each number of clients, on one population and on many."""
    with serve(set_up, workers=workers, url=url, app="bench.ledger:create_timed_app") as server:
        token = server.analyst("set0")
        for i in range(1, POPULATIONS):
            server.grant("bench", f"set{i}")

        def empty(connection: Any, _number: int) -> int:
            return get(connection, EMPTY_PATH)

        def one(connection: Any, _number: int) -> int:
            return post_release(connection, "set0", token, REQUEST)

        def many(connection: Any, number: int) -> int:
            return post_release(connection, f"set{number % POPULATIONS}", token, REQUEST)

        kind = "SQLite" if url is None else "PostgreSQL"
        for clients in (1, 8, 32):
            rates: dict[str, list[float]] = {"empty": [], "one": [], "many": [], "commits": []}
            locks: list[float] = []
            for _ in range(rounds):
                rates["empty"].append(rate(server, empty, clients, seconds))
                lock_times(server, workers)
                rates["one"].append(rate(server, one, clients, seconds))
                locks += lock_times(server, workers)
                rates["many"].append(rate(server, many, clients, seconds))
                rates["commits"].append(raw_commits(server.curator.database, seconds / 2))
            middle = {name: statistics.median(found) for name, found in rates.items()}
            ratios = sorted(a / b for a, b in zip(rates["one"], rates["empty"], strict=True))
            print(
                f"{kind:11}{workers:8}{clients:9}{middle['empty']:10.0f}/s{middle['commits']:9.0f}/s"
                f"{middle['one']:9.0f}/s{statistics.median(ratios):8.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
                f"{middle['many']:9.0f}/s{middle['many'] / middle['empty']:8.3f}"
                f"{statistics.median(locks) * 1e3:9.2f} ms",
                flush=True,
            )


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Create an empty PostgreSQL database, and drop it afterwards."""
    name = f"curator_bench_{secrets.token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield server_url.rpartition("/")[0] + f"/{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _chain(count: int) -> tuple[list[StoredEntry], Account]:
    """Make a chain of charges as the service writes them."""
    actor, limit, posted, previous = "prn_0123456789abcdef01234567", 10**15, 0, GENESIS
    moment, digest = "2026-03-01T12:00:00Z", "0f" * 32
    opening = Open(actor="operator:bench", time=moment, adjacency=Adjacency.ADD_REMOVE, accountant="gdp", delta="1e-06")
    parts = [
        PartModel(
            statistic=name,
            distribution=Distribution.DISCRETE_GAUSSIAN,
            sensitivity="4987722800260386420",
            norm="L2 squared",
            copies=1,
            scales=("631678576510",) * 2,
        )
        for name in ("xtx", "xty", "yty")
    ]
    charge = Charge(
        actor=actor,
        time=moment,
        dataset="flchain",
        release="rel_" + "0" * 24,
        request_digest=digest,
        answer_digest=digest,
        snapshot=digest,
        release_kind="gram",
        mechanism=tuple(parts),
    )
    state, entries = Account(), []
    for sequence in range(1, count + 1):
        event, units = (opening, limit) if sequence == 1 else (charge, 25)
        posted += 0 if sequence == 1 else 25
        place = Place(
            format=FORMAT,
            population="people",
            sequence=sequence,
            previous_hash=previous,
            units=str(units),
            epoch=1,
            limit=str(limit),
            posted=str(posted),
            pending="0",
            key_id="key_" + "0" * 32,
        )
        Entry(place, event).move(state)
        payload_text = canonical(event.payload | dict(place))
        previous = entry_hash(payload_text)
        entries.append(StoredEntry(sequence, payload_text, previous, ""))
    state.sequence, state.head = count, previous
    return entries, state


def measure_verification(count: int) -> None:
    """Print how fast a chain is verified: all but the signatures, and the signatures."""
    entries, state = _chain(count)
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        found = verify_chain("people", entries, state, lambda *_: True, every_signature=False)
        rates.append(count / (time.perf_counter() - start))
        assert found.ok, found.reason
    print(
        f"verification of {count:,} entries: {statistics.median(rates):,.0f} entries/s "
        f"({min(rates):,.0f} to {max(rates):,.0f}): text, hash, link, place, account; "
        f"{len(entries[-1].payload_text)} bytes each"
    )
    with tempfile.TemporaryDirectory(prefix="curator-bench-") as folder:
        measure_signatures(Path(folder))


def measure_signatures(folder: Path) -> None:
    """Print how fast signatures are made and checked."""
    from curator_service.container import make_curator  # noqa: PLC0415
    from curator_service.ledger.chain.entries import Checkpoint  # noqa: PLC0415
    from curator_service.settings import Settings  # noqa: PLC0415

    curator = make_curator(Settings(data_dir=folder / "data", keys_per_day=10**9))
    curator.database.upgrade()
    signer = curator.ledger.guard.signer()
    checkpoint = Checkpoint("people", 7, "0f" * 32, 1, 10**15, 25, 0, signer.key_id)
    start = time.perf_counter()
    signatures = [signer.sign(checkpoint) for _ in range(2000)]
    middle = time.perf_counter()
    assert all(signer.holds(checkpoint, signature) for signature in signatures)
    end = time.perf_counter()
    print(f"signatures: {2000 / (middle - start):,.0f} made, {2000 / (end - middle):,.0f} checked per second")
    curator.close()


DESIGNS, PRICES = 40, (0.001, 0.002, 0.003, 0.005)


def buy(curator: Curator, count: int, *, own_prices: bool) -> None:
    """Buy releases of one dataset, 3 to 6 of its columns each; about one in ten is cut out of another one."""
    from curator_service.identity.policy import Role  # noqa: PLC0415
    from curator_service.kinds.gram.schema import GramRequest  # noqa: PLC0415

    token = curator.identity.create_token("ada", Role.ANALYST).text
    analyst, dataset = curator.identity.authenticate(f"Bearer {token}"), curator.datasets.list_all()[0]
    source, names = random.Random(7), [column.name for column in dataset.manifest.columns]
    designs = [source.sample(names[:-1], source.randint(3, 6)) for _ in range(DESIGNS)]
    for i in range(count):
        features, is_block = source.choice(designs), i > DESIGNS and source.random() < 0.1
        mu = source.uniform(PRICES[0], PRICES[-1]) if own_prices else source.choice(PRICES)
        asked = {"features": features, "targets": ["y"], "rows": {"map": "box"}, "price": {"mu": mu}, "fresh": True}
        if is_block:
            asked |= {"features": features[:2], "price": {"mu": mu / 8}, "fresh": False}
        prepared = prepare(KINDS, dataset, GramRequest.model_validate(asked))
        curator.releases.release(prepared, analyst, f"bench-{i:020d}")


def ed25519_s(count: int = 1000) -> float:
    """Return the processor time of one Ed25519 verification, each of another message, with a key that is ready."""
    key = Ed25519PrivateKey.generate()
    public, messages = key.public_key(), [secrets.token_bytes(300) for _ in range(count)]
    signatures = [key.sign(message) for message in messages]
    start = time.process_time()
    for signature, message in zip(signatures, messages, strict=True):
        public.verify(signature, message)
    return (time.process_time() - start) / count


def measure_command(count: int, rounds: int) -> None:
    """Print what `curator ledger verify` costs for each entry, over one Ed25519 verification in the same round.

    Processor time, and what does not grow with the ledger aside: the start of Python, and the dataset's rows.
    """
    from curator_service.container import make_curator  # noqa: PLC0415
    from curator_service.releases import audit  # noqa: PLC0415
    from curator_service.settings import Settings  # noqa: PLC0415

    for own_prices in (False, True):
        with tempfile.TemporaryDirectory(prefix="curator-bench-") as folder:
            curator = make_curator(Settings(data_dir=Path(folder) / "data", answer_bytes_max=2**40, keys_per_day=10**9))
            curator.database.upgrade()
            set_up(curator, Path(folder), populations=1, columns=12)
            buy(curator, count, own_prices=own_prices)
            datasets, ratios = curator.datasets, []
            assert all(datasets.holds(dataset) for dataset in datasets.list_all())  # imports what reads rows
            for _ in range(rounds):
                one, start = ed25519_s(), time.process_time()
                chain = curator.ledger.verify("people0")
                middle = time.process_time()
                _, discrepancies = audit.verify(curator.ledger, datasets, curator.kinds, "people0")
                end = time.process_time()
                assert chain.ok, chain.reason
                assert not discrepancies
                ratios.append(((middle - start) / chain.entries / one, (end - middle) / chain.entries / one, one))
            middles = [statistics.median(column) for column in zip(*ratios, strict=True)]
            prices = "a price of its own for each" if own_prices else f"{len(PRICES)} prices"
            print(
                f"verification of {chain.entries:,} entries, {DESIGNS} sets of columns, {prices}: "
                f"chain {middles[0]:.2f}, whole {middles[1]:.2f} of an Ed25519 verification "
                f"({middles[2] * 1e6:.0f} µs) an entry",
                flush=True,
            )
            curator.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", default=os.environ.get("CURATOR_TEST_POSTGRES_URL"), help="URL of a server")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--bought", type=int, nargs="*", default=[5_000], help="releases in a ledger to verify")
    options = parser.parse_args()
    measure_verification(options.entries)
    for count in options.bought:
        measure_command(count, options.rounds)
    print(
        f"{'database':11}{'workers':>8}{'clients':>9}{'empty':>12}{'raw commits':>11}{'one':>9}   ratio{'':18}"
        f"{'of 32':>10}{'ratio':>8}{'locked':>12}"
    )
    for workers in (1, 2):
        measure_rates(None, workers, options.seconds, options.rounds)
        if options.postgres:
            with fresh_database(options.postgres) as url:
                measure_rates(url, workers, options.seconds, options.rounds)


if __name__ == "__main__":
    main()
