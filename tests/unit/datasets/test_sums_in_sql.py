"""DuckDB and PostgreSQL cut raw values, and sum rows, to the integers of the coder and of engines."""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from raw_rows import declare
from rows_on_disk import read_columns, special_rows
from sums_in_sql import DUCKDB, POSTGRESQL, Dialect, counts_query, cut_query, gram_query, read_counts, read_gram
from sums_slowly import rows_of, sum_slowly
from support import ROWS, World, fresh_database

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines import conformance
from curator_service.datasets.repository import Dataset
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.registry import KINDS
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.privacy.design import Column, ColumnType, MissingRule, TermKind, make_design
from curator_service.privacy.expressions import DerivedColumn
from curator_service.privacy.lattice import MISSING, UNIT, center_and_scale
from curator_service.privacy.row_maps import Ball, Box, RowMap, Unit, UnitXY

SERVER = os.environ.get("CURATOR_TEST_POSTGRES_URL", "")
NEEDS_SERVER = pytest.mark.skipif(not SERVER, reason="CURATOR_TEST_POSTGRES_URL is not set")
NUMERIC, CATEGORY, BOOLEAN = ColumnType.NUMERIC, ColumnType.CATEGORICAL, ColumnType.BOOLEAN


@dataclass(frozen=True)
class Warehouse:
    """A database: `fill` makes a table of columns, `ask` asks."""

    dialect: Dialect
    fill: Callable[[str, Mapping[str, pa.Array]], None]
    ask: Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(
    scope="module", params=["duckdb", pytest.param("postgresql", marks=[pytest.mark.postgres, NEEDS_SERVER])]
)
def warehouse(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    if request.param == "duckdb":
        with closing(duckdb.connect()) as duck:

            def fill(name: str, columns: Mapping[str, pa.Array]) -> None:
                rows = pa.table(dict(columns))
                assert rows.num_rows >= 0
                duck.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM rows")

            yield Warehouse(DUCKDB, fill, lambda query: duck.execute(query).fetchall())
        return
    with (
        fresh_database(SERVER) as address,
        psycopg.connect(address, autocommit=True, options="-c statement_timeout=60000") as server,
    ):
        types = {pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision", pa.string(): "text"}

        def fill_server(name: str, columns: Mapping[str, pa.Array]) -> None:
            declared = ", ".join(f'"{column}" {types[values.type]}' for column, values in columns.items())
            server.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({declared})".encode())
            with server.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in zip(*(values.to_pylist() for values in columns.values()), strict=True):
                    copy.write_row(row)

        yield Warehouse(POSTGRESQL, fill_server, lambda query: server.execute(query.encode()).fetchall())


def query_of(kernel: Any, dialect: Dialect) -> str:
    """Return the query of a kernel over the table `lattice`."""
    if isinstance(kernel, CountsKernel):
        return counts_query([t.axes for t in kernel.tables], "lattice")
    return gram_query(kernel.design, kernel.row_map, "lattice", dialect)


def sum_in(warehouse: Warehouse, kernel: Any) -> list[int]:
    """Return the sums of a kernel over the table `lattice`, flat."""
    rows = warehouse.ask(query_of(kernel, warehouse.dialect))
    if isinstance(kernel, CountsKernel):
        return read_counts(rows, [t.size for t in kernel.tables]).tolist()
    return read_gram(rows[0], kernel.width).ravel().tolist()


def is_expressed(kernel: Any) -> bool:
    """Return whether there is a query: of `gram` and `counts`, for declared columns alone, of all rows alike."""
    if isinstance(kernel, MarginalsKernel | ScoreKernel):
        return False
    if isinstance(kernel, CountsKernel):
        columns = [axis.column for table in kernel.tables for axis in table.axes]
        return not kernel.selection and not any(isinstance(column, DerivedColumn) for column in columns)
    is_computed = any(term.kind in {TermKind.BASIS, TermKind.PRODUCT} for term in kernel.design.terms)
    derived = any(isinstance(column, DerivedColumn) for column in kernel.design.sources)
    return not (kernel.selection or is_computed or derived or kernel.design.combinations)


CASES = [case for case in KINDS.conformance if is_expressed(case.kernel)]


def fill_lattice(warehouse: Warehouse, stored: Mapping[str, Any]) -> None:
    warehouse.fill("lattice", {name: pa.array(np.asarray(values, np.int32)) for name, values in stored.items()})


def test_a_warehouse_gives_the_sums_that_every_engine_must_give(warehouse: Warehouse) -> None:
    fill_lattice(warehouse, conformance.make_table())
    assert {case.name for case in CASES} >= {"gram, ball", "gram, unit_xy, omitting", "counts, three axes"}
    for case in CASES:
        assert sum_in(warehouse, case.kernel) == list(case.sums), case.name


def test_a_warehouse_gives_the_sums_of_a_slow_program(warehouse: Warehouse) -> None:
    table = special_rows(1000)
    fill_lattice(warehouse, table)
    for case in CASES:
        assert sum_in(warehouse, case.kernel) == sum_slowly(case.kernel, rows_of(table)), case.name


def test_no_rows_have_sums_of_nothing(warehouse: Warehouse) -> None:
    fill_lattice(warehouse, {name: values[:0] for name, values in conformance.make_table().items()})
    for case in CASES:
        assert sum_in(warehouse, case.kernel) == [0] * len(case.sums)


def test_null_is_missing_and_counts_for_nothing_as_a_mark(warehouse: Warehouse) -> None:
    stored = conformance.make_table()
    columns = {
        name: pa.array(np.where(values == MISSING, 0, values), mask=values == MISSING)
        for name, values in stored.items()
    }
    columns[MARK] = pa.array(stored[MARK], mask=stored[MARK] != 1)
    warehouse.fill("lattice", columns)
    for case in CASES:
        assert sum_in(warehouse, case.kernel) == list(case.sums), case.name


ROW_MAPS: list[RowMap] = [Box(), Ball.of_norm(1.2), Unit(), UnitXY()]


@pytest.mark.parametrize("row_map", ROW_MAPS, ids=lambda row_map: type(row_map).__name__)
@pytest.mark.parametrize(
    "features", ["age sex weight height smoker treated alive region ward", "age creatinine frail stage lambda"]
)
def test_a_registered_dataset_has_the_gram_of_a_warehouse(
    world: World, warehouse: Warehouse, features: str, row_map: RowMap
) -> None:
    """Of sums that are kept since registration, and of a pass over rows."""
    dataset = fill_with_cohort(world, warehouse)
    declared = dataset.manifest.by_name
    for intercept in (True, False):
        columns = tuple(declared[name] for name in features.split())
        kernel = GramKernel(make_design(columns, (declared["kappa"], declared["dose"]), intercept=intercept), row_map)
        assert sum_in(warehouse, kernel) == world.curator.datasets.sum_rows(dataset, kernel).values.ravel().tolist()
    kept = GramKernel(make_design(columns[:1], (declared["kappa"],), intercept=True), Box())
    assert kept.cached_terms is not None
    assert sum_in(warehouse, kept) == world.curator.datasets.sum_rows(dataset, kept).values.ravel().tolist()


def test_a_registered_dataset_has_the_counts_of_a_warehouse(world: World, warehouse: Warehouse) -> None:
    dataset = fill_with_cohort(world, warehouse)
    declared = dataset.manifest.by_name
    asked = [
        Table((Axis(declared["age"], (50.0, 60.0, 75.0, 100.0), False), Axis(declared["stage"], None, True))),
        Table((Axis(declared["lambda"], (0.0, 0.1, 3.0), True), Axis(declared["frail"], None, False))),
        Table((Axis(declared["sex"], None, False),)),
    ]
    kernel = CountsKernel(tuple(asked))
    found = world.curator.datasets.sum_rows(dataset, kernel).values.tolist()
    assert len({*found}) > 3
    assert sum_in(warehouse, kernel) == found


def fill_with_cohort(world: World, warehouse: Warehouse) -> Dataset:
    """Put the stored rows of a registered dataset into the table `lattice`."""
    dataset = next(dataset for dataset in world.curator.datasets.list_all() if dataset.name == "cohort")
    fill_lattice(warehouse, read_columns(world.curator.datasets.storage, dataset))
    return dataset


def test_many_terms_take_a_statement_that_ends(warehouse: Warehouse) -> None:
    """Where steps are no tables of their own, PostgreSQL writes each into the next, wherever it is named."""
    columns = [Column(f"x{j}", NUMERIC, MissingRule.OMIT, -1.0, 1.0) for j in range(40)]
    stored = {c.name: [conformance.spread(i, j) for i in range(50)] for j, c in enumerate(columns)} | {MARK: [1] * 50}
    fill_lattice(warehouse, stored)
    kernel = GramKernel(make_design(tuple(columns[1:]), (columns[0],), intercept=True), Ball.of_norm(1.5))
    assert sum_in(warehouse, kernel) == sum_slowly(kernel, rows_of(stored))


def test_a_root_that_a_float_rounds_up_is_put_right(warehouse: Warehouse) -> None:
    """The square of this row's norm is one below a square: its root as a float is an integer, one too large."""
    row = [127132, *[UNIT] * 12, UNIT, 131069, 129629, 39140]
    squared = sum(z * z for z in row) << 16
    assert math.isqrt(squared) + 1 == math.floor(math.sqrt(squared))
    columns = [Column(f"x{j}", NUMERIC, MissingRule.OMIT, -1.0, 1.0) for j in range(len(row))]
    stored = {c.name: [round(z * 2**30 / UNIT)] for c, z in zip(columns, row, strict=True)} | {MARK: [1]}
    fill_lattice(warehouse, stored)
    kernel = GramKernel(make_design(tuple(columns), (), intercept=False), Unit())
    assert sum_in(warehouse, kernel) == sum_slowly(kernel, rows_of(stored))


@pytest.mark.parametrize("row_map", ROW_MAPS, ids=lambda row_map: type(row_map).__name__)
def test_each_step_is_a_table_and_sums_have_room(row_map: RowMap) -> None:
    """A sum is beyond 64 bits where rows are many, and a step that is no table is written into the next."""
    columns = (conformance.COLUMNS["ties"], conformance.COLUMNS["level"])
    query = gram_query(make_design(columns, (), intercept=True), row_map, "lattice", DUCKDB)
    with closing(duckdb.connect()) as duck:
        lattice = pa.table({name: pa.array(values, pa.int32()) for name, values in conformance.make_table().items()})
        assert lattice.num_rows
        assert {str(kind) for kind in duck.sql(query).types} == {"HUGEINT"}
    for statement in (query, cut_query(columns, "raw", DUCKDB), counts_query([[]], "lattice")):
        assert statement.count(" AS MATERIALIZED (") == len(re.findall(r"step_\d+ AS", statement)) > 0


# Raw values: those of the conformance table, powers of two down to the least, and the largest.
LARGEST = float(np.finfo(np.float64).max)
TRICKY = [*conformance.NUMBERLESS, *conformance.TIES, *conformance.DECIMALS, LARGEST, -LARGEST]
POWERS = (-1074, -1073, -1060, -1022, -600, -40, -31, -30, 1, 600, 1023)
TRICKY += [sign * 2.0**power for sign in (1, -1) for power in POWERS]
BOUNDS = [
    (-1.0, 1.0), (0.1, 0.7), (0.0, 3.0), (50.0, 100.0), (-3.0, 1e-3), (0.0, 2.1e-300), (-7.0, 1e300),
    (-LARGEST, LARGEST), (-1e308, 1.7e308), (-1.7e308, 1e308), (1e308, 1.7e308), (-LARGEST, 0.0), (5e307, LARGEST),
    (1e16, 1e16 + 2), (1.0, 1.0 + 2.0**-51), (1.0 - 2.0**-53, 1.0), (-1.0, -1.0 + 2.0**-53),
]  # fmt: skip


def with_neighbours(lower: float, upper: float) -> list[float]:
    """Return raw values, and ties of these bounds with what is next to them."""
    center, scale = center_and_scale(lower, upper)
    steps = (0, 1, 2, 3, -1, -2, 12345, 2**29, 2**30 - 1, -(2**30))
    special = [lower, upper, center, *(center + scale * ((2 * k + 1) / 2**31) for k in steps)]
    return [*TRICKY, *special, *(math.nextafter(value, to) for value in special for to in (-math.inf, math.inf))]


def cut_in(warehouse: Warehouse, columns: Sequence[Column], raw: Mapping[str, pa.Array]) -> list[tuple[Any, ...]]:
    """Return what a warehouse cuts rows to, in their order."""
    count = len(next(iter(raw.values())))
    place = Column("place", NUMERIC, MissingRule.OMIT, -(2.0**30), 2.0**30)  # which is cut to itself
    warehouse.fill("raw", {"place": pa.array(range(count), pa.int64()), **raw})
    rows = sorted(warehouse.ask(cut_query([place, *columns], "raw", warehouse.dialect)))
    assert [row[0] for row in rows] == list(range(count))
    assert {row[-1] for row in rows} <= {1}
    return [row[1:-1] for row in rows]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_numbers_are_cut_as_the_coder_cuts_them(warehouse: Warehouse, lower: float, upper: float) -> None:
    raw = pa.array([*with_neighbours(lower, upper), None], pa.float64())
    column = Column("x", NUMERIC, MissingRule.OMIT, lower, upper)
    assert [stored for (stored,) in cut_in(warehouse, [column], {"x": raw})] == declare(column).store(raw).tolist()


def test_numbers_of_any_kind_are_cut_as_the_coder_cuts_them(warehouse: Warehouse) -> None:
    """The columns are called as the steps of the query call others."""
    source = np.random.default_rng(3)
    bits = source.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)  # of all sizes, infinite and none
    within = source.uniform(-0.1, 0.9, 20_000)
    columns = [Column("C2", NUMERIC, MissingRule.OMIT, 0.1, 0.7), Column("c1", NUMERIC, MissingRule.OMIT, -1e5, 7e200)]
    raw = {name: pa.array(np.concatenate([bits, within * size])) for name, size in (("C2", 1.0), ("c1", 1e200))}
    expected = [declare(column).store(raw[column.name]).tolist() for column in columns]
    assert cut_in(warehouse, columns, raw) == list(zip(*expected, strict=True))


def test_words_are_cut_as_the_coder_cuts_them(warehouse: Warehouse) -> None:
    words = [
        "F",
        "M",
        " F ",
        "f",
        "",
        " ",
        None,
        "F M",
        "it's",
        "\u00a0M\u3000",
        "\tM\n",
        "M\x1f",
        "M\u200b",
        "\u0085F",
    ]
    truths = ["true", "TRUE", " True", "false", "0", "1", "1.0", "yes", "", None, "t", "fal\u017fe", "no", "2"]
    columns = [
        Column("level", CATEGORY, MissingRule.OMIT, levels=("F", "M", "it's")),
        Column("flag", BOOLEAN, MissingRule.OMIT, levels=("false", "true")),
        Column("said", BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
    ]
    raw = {"level": pa.array(words), "flag": pa.array(truths), "said": pa.array(truths)}
    expected = [declare(column).store(raw[column.name]).tolist() for column in columns]
    assert cut_in(warehouse, columns, raw) == list(zip(*expected, strict=True))


def test_what_is_cut_in_a_warehouse_has_the_sums_of_what_is_cut_here(warehouse: Warehouse) -> None:
    columns = [conformance.COLUMNS[name] for name in conformance.RAW]
    raw = {name: pa.array([*values, None], pa.float64()) for name, values in conformance.RAW.items()}
    raw = {name: pa.concat_arrays([values] * 7)[:140] for name, values in raw.items()}
    warehouse.fill("raw", raw)
    kernel = GramKernel(make_design((columns[1],), (columns[0],), intercept=True), Ball.of_norm(1.1))
    query = cut_query(columns, "raw", warehouse.dialect)
    (row,) = warehouse.ask(gram_query(kernel.design, kernel.row_map, f"({query}) AS lattice", warehouse.dialect))
    stored = {column.name: declare(column).store(raw[column.name]) for column in columns}
    rows = rows_of({**stored, MARK: [1] * 140})
    assert read_gram(row, kernel.width).ravel().tolist() == sum_slowly(kernel, rows)


def test_a_registered_dataset_is_stored_as_a_warehouse_cuts_its_rows(world: World, warehouse: Warehouse) -> None:
    dataset = next(dataset for dataset in world.curator.datasets.list_all() if dataset.name == "cohort")
    columns = list(dataset.manifest.by_name.values())
    raw = {
        column.name: pa.array([float(word) if word else None for word in words], pa.float64())
        if column.type is NUMERIC
        else pa.array(words)
        for column in columns
        for words in [[row[column.name] for row in ROWS]]
    }
    stored = read_columns(world.curator.datasets.storage, dataset)
    expected = zip(*(stored[column.name].tolist() for column in columns), strict=True)
    assert cut_in(warehouse, columns, raw) == list(expected)
