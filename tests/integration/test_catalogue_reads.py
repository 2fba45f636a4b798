"""Reads of a look into the library: only the releases looked for, however much was sold beside it."""

from pathlib import Path
from typing import Any
from unittest import mock

from scenes import QUOTES, RELEASES, box
from support import World, ZeroNoise, open_world

from curator_service.kit.db import Connection, Statement
from curator_service.privacy.accountant import Price

SOLD, HOLDING = 4000, 40
READ_MAX = 150
"""Of releases a quote looks at a page of a shelf, at those that hold its columns, and at offers."""


def fill(world: World) -> None:
    """List copies of the one release that there is: one in 40 holds its columns, all are too noisy in one statistic."""
    ((bits,),) = world.sql("SELECT DISTINCT bits FROM column_holders")
    held = int(bits, 16) | sum(1 << 1000 + n for n in range(0, SOLD, HOLDING))
    quiet, loud = "least_sd / (1e6 + n)", "replace(noise, 'e-', '')"
    copied = f"dataset_id, collection, 1000 + n, shelf, 'members ' || n, {quiet}, loudness * 1e6, {loud}, summary"
    columns = "dataset_id, collection, sequence, shelf, members, least_sd, loudness, noise, summary"
    world.sql(
        "ALTER TABLE release_listings DROP CONSTRAINT fk_release_listings_release_id_releases",
        f"INSERT INTO release_listings (release_id, {columns}) SELECT 'rel ' || n, {copied} "
        f"FROM release_listings, generate_series(0, {SOLD - 1}) AS n",
        f"UPDATE column_holders SET bits = '{held:x}'",
    )


def rows_read(plan: dict[str, Any]) -> int:
    """Return how many rows a plan took from tables, those among them that it threw away."""
    own = 0
    if "Relation Name" in plan:
        thrown = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
        own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return own + sum(rows_read(part) for part in plan.get("Plans", ()))


def test_a_quote_reads_what_it_looks_for(tmp_path: Path, postgres_url: str) -> None:
    """PostgreSQL without statistics takes a list for a filter, and reads a whole collection to find three releases."""
    run: list[tuple[Statement, Connection, dict[str, object]]] = []
    execute = Statement.execute

    def recording(self: Statement, connection: Connection, /, **values: object) -> Any:
        run.append((self, connection, values))
        return execute(self, connection, **values)

    def explain(statement: Statement, values: dict[str, object]) -> tuple[int, str]:
        with world.curator.database.read() as connection:
            text, literals = statement._compile(connection.dialect)
            cursor = connection.cursor()
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", literals | values)
            row: Any = cursor.fetchone()
            return rows_read(row[0][0]["Plan"]), text

    with open_world(tmp_path, url=postgres_url, limit=Price(mu=50.0), noise=ZeroNoise()) as world:
        assert world.api().post(RELEASES, json=box(price={"mu": 0.1}), key="k").status_code == 201
        fill(world)
        with mock.patch.object(Statement, "execute", recording):
            quote = world.api().post(QUOTES, json=box(price={"mu": 0.2})).json()
        assert quote["derivable_from"] is None
        read = [explain(statement, values) for statement, _, values in run]
    tables = {name for _, text in read for name in ("release_listings", "column_holders") if name in text}
    assert tables == {"release_listings", "column_holders"}
    assert [text for count, text in read if count > READ_MAX] == []
    assert sum(count for count, text in read if "release_listings" in text) <= 2 * READ_MAX
