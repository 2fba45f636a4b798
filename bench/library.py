"""Server CPU of quotes and purchases beside 100,000 stored releases, over the same beside none.

Two curators on loopback, one with an empty library, one with a full one, and the client share one core and take turns
in short rounds; each round gives a ratio, and the table states the median and the quartiles. The last line is the
machine's noise: the same ratio of the empty one to itself.

What is stored is put into the tables directly. A release of each kind (box, ball, 1,000 terms) is bought, and its
entry, its answer and its listing are copied under other ids and sequences. Every copy gets a random set of columns and
a random amount of noise, and is listed as such a request would be: under its own keys, and by each of its columns. Nine
in ten are boxes, all on one shelf. The copies lie in a population of their own, so the ledger that is charged is whole.

A worker's first quote is that of services made just now, in this process, on the same databases.

    python -m bench.library [--releases 100000] [--wide 8] [--rounds 15] [--calls 20] [--url postgresql://…]
"""

import argparse
import http.client
import itertools
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from bench.serving import Server, post_release, serve
from curator_service.container import Curator, make_curator
from curator_service.datasets.repository import Dataset
from curator_service.identity.repository import Principal
from curator_service.kinds.gram.schema import GramRequest
from curator_service.kinds.registry import KINDS
from curator_service.ledger.models import LedgerEntryRow
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases.answers import make_listing, read_about
from curator_service.releases.catalogue import Place, make_row
from curator_service.releases.library import least_sd
from curator_service.releases.models import CHUNK, ColumnHoldersRow, ListingRow, ReleaseRow
from curator_service.releases.preparation import Prepared, prepare

NUMBERS, CATEGORIES, LEVELS = [f"c{i}" for i in range(40)], [f"w{i}" for i in range(17)], 59
WIDE = [*CATEGORIES, *NUMBERS[:13]]  # with the constant: 1,000 terms
SUMMARY = ("id", "dataset", "kind", "created_at", "request", "cost")
FIRST = 1_000_000
"""The copies' first sequence: far above those of the account that is charged."""
Act = Callable[[http.client.HTTPConnection, str], int]


def ask(features: list[str], mu: float, rows: str = "box", **more: Any) -> dict[str, object]:
    """Return a request."""
    return {"features": features, "targets": ["c39"], "rows": {"map": rows}, "price": {"mu": mu}, **more}


def set_up(curator: Curator, folder: Path) -> None:
    """Register a small dataset of many columns: what is measured does not read its rows."""
    terms = {"adjacency": Adjacency.ADD_REMOVE, "accountant": "gdp", "limit": Price(mu=40.0), "delta": 1e-6}
    for name in ("people", "stock"):
        curator.ledger.create_population(name, actor="bench", **terms)  # type: ignore[arg-type]
    lines = ['name = "cohort"', 'population = "people"', "row_capacity = 1000", "rows_are_persons = true"]
    for name in (*NUMBERS, *CATEGORIES):
        lines += ["[[columns]]", f'name = "{name}"', 'missing = "midpoint"']
        levels = json.dumps([f"l{i}" for i in range(LEVELS)])
        lines += ['type = "numeric"', "lower = 0.0", "upper = 1.0"] if name in NUMBERS else ['type = "categorical"']
        lines += [] if name in NUMBERS else [f"levels = {levels}"]
    row = ",".join([*("0.5" for _ in NUMBERS), *("l1" for _ in CATEGORIES)])
    manifest, data = folder / "manifest.toml", folder / "rows.csv"
    manifest.write_text("\n".join(lines))
    data.write_text("\n".join([",".join([*NUMBERS, *CATEGORIES]), *([row] * 50)]) + "\n")
    curator.datasets.register(manifest, data, actor="bench")


def services(curator: Curator, request: dict[str, object]) -> tuple[Prepared, Principal]:
    """Return a request as the services take it, and who asks."""
    dataset, analyst = curator.datasets.list_all()[0], curator.identity.list_principals()[0]
    return prepare(KINDS, dataset, GramRequest.model_validate(request)), analyst


def buy(curator: Curator, request: dict[str, object]) -> str:
    """Buy a release, and return its answer."""
    return curator.releases.release(*services(curator, request), f"{random.getrandbits(96):x}")[0].answer


def fill(curator: Curator, count: int, wide: int) -> None:
    """Copy releases until so many are stored."""
    source, dataset = random.Random(1), curator.datasets.list_all()[0]
    patterns = {
        "box": buy(curator, ask(NUMBERS[:5], 0.01)),
        "ball": buy(curator, ask(NUMBERS[:5], 0.01, "ball")),
        "wide": buy(curator, ask(WIDE, 0.01)),
    }
    kinds = ["wide"] * wide + ["ball" if i % 10 == 0 else "box" for i in range(count - wide)]
    source.shuffle(kinds)
    bits: dict[tuple[str, int], int] = {}
    with curator.database.engine.begin() as connection:
        entry = dict(connection.execute(select(LedgerEntryRow.__table__)).mappings().fetchall()[-1])
        for start in range(0, count, 500):
            rows = [
                copy(dataset, source, patterns[kind], kind, FIRST + start + i)
                for i, kind in enumerate(kinds[start : start + 500])
            ]
            entries = [entry | {"population": "stock", "sequence": row["sequence"]} for row, _, _ in rows]
            store(connection, dataset, entries, [(row, answer) for row, answer, _ in rows])
            for row, _answer, names in rows:
                chunk, place = divmod(row["sequence"], CHUNK)
                for name in names:
                    bits[name, chunk] = bits.get((name, chunk), 0) | 1 << place
        held = [
            {"collection": dataset.id, "kind": KINDS.first.name, "name": name, "chunk": chunk, "bits": f"{value:x}"}
            for (name, chunk), value in bits.items()
        ]
        connection.execute(insert(ColumnHoldersRow), held)
    # What a database does by itself in time: statistics of its tables, and its log written back.
    tidy = ("ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)") if curator.database.is_sqlite else ("VACUUM ANALYZE",)
    with curator.database.read() as connection:
        for statement in tidy:
            connection.run(statement)


def copy(
    dataset: Dataset, source: random.Random, answer: str, kind: str, sequence: int
) -> tuple[dict[str, Any], str, list[str]]:
    """Return the listing of a copy with other columns and noise, its answer, and its columns."""
    about = read_about(answer)
    request = dict(about["request"])
    if kind != "wide":
        drawn = source.sample(NUMBERS, source.randint(4, 9))
        request |= {"features": sorted(drawn[1:]), "targets": drawn[:1]}
    by = source.uniform(0.5, 2.0)
    sd = {name: value * by for name, value in about["noise"]["sd"].items()}
    release_id = f"rel_{sequence:024x}"
    about |= {"id": release_id, "request": request, "noise": about["noise"] | {"sd": sd}}
    kind_of = KINDS[request["kind"]]
    listing = make_listing(kind_of, dataset, about)
    noise, summary = (
        json.dumps(part, separators=(",", ":")) for part in (listing.noise, {n: about[n] for n in SUMMARY})
    )
    place = Place(release_id, dataset.id, dataset.id, sequence)
    values = make_row(place, listing, least_sd(kind_of, listing), noise, summary)
    row = dict(zip((column.name for column in ListingRow.__table__.columns), values, strict=True))
    return row, answer, list(listing.columns)


def store(
    connection: Connection, dataset: Dataset, entries: list[dict[str, Any]], rows: list[tuple[dict[str, Any], str]]
) -> None:
    """Insert copies."""
    releases = [
        {
            "id": row["release_id"],
            "dataset_id": dataset.id,
            "population": "stock",
            "sequence": row["sequence"],
            "request_digest": "0" * 64,
            "answer": answer,
        }
        for row, answer in rows
    ]
    connection.execute(insert(LedgerEntryRow), entries)
    connection.execute(insert(ReleaseRow), releases)
    connection.execute(insert(ListingRow), [row for row, _ in rows])


def first_quote(server: Server) -> float:
    """Return the CPU seconds of a quote by services that were made just now, as those of a new worker are."""
    curator = make_curator(server.settings)
    try:
        prepared, analyst = services(curator, ask(["c0", "c1", "c2"], 0.02))
        before = time.process_time()
        curator.releases.quote(prepared, analyst)
        return time.process_time() - before
    finally:
        curator.database.dispose()


def quote(features: list[str], mu: float, rows: str = "box") -> Act:
    """Return what asks for a quote."""
    return lambda c, token: post(c, "/v1/datasets/cohort/quotes", token, ask(features, mu, rows))


def submission(features: list[str], **more: Any) -> Act:
    """Return what buys a release, each at another price, quieter than before."""
    prices = itertools.count()
    return lambda c, token: post_release(c, "cohort", token, ask(features, 0.05 * (1 + next(prices) / 1000), **more))


def post(connection: http.client.HTTPConnection, path: str, token: str, request: dict[str, object]) -> int:
    """Send a request; return the status."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(request), headers)
    response = connection.getresponse()
    response.read()
    return response.status


ACTS: dict[str, Act] = {
    "quote, four columns": quote(["c0", "c1", "c2"], 0.002),
    "quote, two columns": quote(["c0"], 0.002),
    "quote, quieter than all": quote(["c0"], 3.0),
    "quote, ball": quote(["c0", "c1", "c2"], 0.02, "ball"),
    "quote, 30 columns": quote(NUMBERS[:30], 0.02),
    "quote, 1,000 terms": quote(WIDE, 1.0),
    "purchase, four columns": submission(["c0", "c1", "c2"]),
    "purchase, 30 columns": submission(NUMBERS[:30]),
    "purchase, fresh": submission(["c0", "c1", "c2"], fresh=True),
}


def cpu_s(act: Act, server: Server, token: str, calls: int) -> float:
    """Return the server's CPU seconds of a call."""
    with closing(server.connect()) as connection:
        before = server.cpu_s()
        for _ in range(calls):
            status = act(connection, token)
            if status not in {200, 201}:
                raise RuntimeError(f"status {status}")
        return (server.cpu_s() - before) / calls


def show(name: str, pairs: list[tuple[float, float]]) -> None:
    """Print a line of the table."""
    low, ratio, high = statistics.quantiles([full / empty for empty, full in pairs], n=4)
    used = statistics.median(full for _, full in pairs)
    print(f"{name:28}{used * 1e3:11.2f} ms{ratio:8.2f}{f'{low:.2f} to {high:.2f}':>17}", flush=True)


def main() -> None:
    """Fill a library, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=100_000)
    parser.add_argument("--wide", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--url", help="An empty database for the full library; an embedded one otherwise.")
    parser.add_argument("--empty-url", help="Another one for the empty library.")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with serve(set_up, url=options.empty_url) as empty, serve(set_up, url=options.url) as full:
        tokens = {id(server): server.analyst("cohort") for server in (empty, full)}
        fill(full.curator, options.releases, options.wide)

        def measure(act: Act, one: Server, other: Server, calls: int) -> list[tuple[float, float]]:
            both = one, other
            for server in both:
                cpu_s(act, server, tokens[id(server)], 2)
            pairs = [tuple(cpu_s(act, s, tokens[id(s)], calls) for s in both) for _ in range(options.rounds)]
            return [(a, b) for a, b in pairs]

        print(f"{'beside ' + format(options.releases, ','):28}{'CPU/call':>14}{'ratio':>8}{'quartiles':>17}")
        for name, act in ACTS.items():
            show(name, measure(act, empty, full, max(1, options.calls // 5) if "1,000" in name else options.calls))
        show("a worker's first quote", [(first_quote(empty), first_quote(full)) for _ in range(2 * options.rounds)])
        show("noise: empty over empty", measure(ACTS["quote, four columns"], empty, empty, options.calls))


if __name__ == "__main__":
    main()
