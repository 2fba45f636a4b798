"""No neighbour moves a table further than its stated sensitivity: random and adversarial rows, by a slow count."""

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rows_on_disk import map_rows, store_rows

from curator_service.datasets.batches import MARK, Batch
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.manifest import Manifest
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.schema import CountsRequest
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import GDP
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import MissingRule
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, IntArray, to_stored

LOWER, UPPER = -3.0, 7.0
COUNTS = KINDS["counts"]
EDGES = ([LOWER, UPPER], [LOWER, 0.0, UPPER], [-2.5, -1.0, 0.1, 6.999], [0.0, 1 / 3, UPPER], [LOWER, LOWER + 1e-6])
Row = dict[str, int]


def manifest(rows_per_subject: int = 1) -> Manifest:
    """Declare a column of each type under each missing rule, and persons of several rows."""
    columns: list[dict[str, Any]] = []
    for kind, rule in itertools.product(("numeric", "boolean", "categorical"), MissingRule):
        public: dict[str, Any] = {
            "numeric": {"lower": LOWER, "upper": UPPER},
            "boolean": {},
            "categorical": {"levels": ("a", "b", "c")},
        }[kind]
        columns.append({"name": f"{kind}-{rule}", "type": kind, "missing": rule.value, **public})
    return Manifest.model_validate(
        {
            "name": "cohort",
            "population": "town",
            "row_capacity": 10_000,
            "subject": "person",
            "rows_per_subject": rows_per_subject,
            "columns": columns,
        }
    )


DECLARED = manifest()


def draw_axis(source: random.Random, name: str) -> dict[str, Any]:
    column = DECLARED.by_name[name]
    axis: dict[str, Any] = {"column": name}
    if column.type == "numeric":
        axis |= source.choice([{"edges": edges} for edges in EDGES] + [{"bins": n} for n in (1, 2, 7)])
    return axis | {"missing": column.missing is not MissingRule.COMPLETE and source.random() < 0.5}


def draw_request(source: random.Random, **changes: Any) -> CountsRequest:
    """Return one to three tables over one to three columns."""
    tables: dict[tuple[str, ...], Any] = {}
    for _ in range(source.randint(1, 3)):
        names = source.sample(list(DECLARED.by_name), source.randint(1, 3))
        tables[tuple(sorted(names))] = {"axes": [draw_axis(source, name) for name in names]}
    return CountsRequest.model_validate(
        {"kind": "counts", "tables": list(tables.values()), "price": {"mu": 0.5}} | changes
    )


def plan_of(request: CountsRequest, adjacency: Adjacency, rows_per_person: int) -> Any:
    dataset = SimpleNamespace(manifest=manifest(rows_per_person), adjacency=adjacency, accountant=GDP)
    return COUNTS.plan(dataset, request).plan  # type: ignore[arg-type]


def draw_row(source: random.Random) -> Row:
    """Return stored integers: of values near edges and bounds, missing, not a level's, or of a damaged file."""
    row = {}
    for name, column in DECLARED.by_name.items():
        levels = range(-1, len(column.levels) + 1)
        near = [source.choice(source.choice(EDGES)) + source.choice((-1e-8, 0.0, 1e-8)) for _ in range(3)]
        values = [*near, -np.inf, np.inf, np.nan, source.uniform(LOWER - 1, UPPER + 1)]
        sound = to_stored(np.array(values), LOWER, UPPER).tolist() if column.type == "numeric" else list(levels)
        damaged = (MISSING, MISSING + 1, 2**31 - 1, STORED_UNIT + 1, -STORED_UNIT - 1)
        row[name] = int(source.choice(sound if source.random() < 0.7 else damaged))
    return row


def batch_of(rows: Sequence[Row]) -> Batch:
    return {name: np.array([row[name] for row in rows], dtype=np.int32) for name in DECLARED.by_name}, len(rows)


def cell_on(axis: Axis, stored: int) -> int | None:
    """Find a cell as the rule says it, one value at a time."""
    if stored == MISSING:
        return axis.size - 1 if axis.missing else None
    if axis.edges is None:
        return stored if 0 <= stored < len(axis.column.levels) else None
    cuts = to_stored(np.array(axis.edges), LOWER, UPPER).tolist()
    if stored == STORED_UNIT and axis.edges[-1] == UPPER:
        return len(cuts) - 2
    return next((i for i, (a, b) in enumerate(itertools.pairwise(cuts)) if a <= stored < b), None)


def count_slowly(tables: Sequence[Table], rows: Sequence[Row]) -> list[list[int]]:
    """Count rows by cell, in units of q²."""
    counts = []
    for table in tables:
        cells = dict.fromkeys(itertools.product(*(range(size) for size in table.shape)), 0)
        for row in rows:
            place = tuple(cell_on(axis, row[axis.column.name]) for axis in table.axes)
            if None not in place:
                cells[place] += UNIT**2  # type: ignore[index]
        counts.append(list(cells.values()))
    return counts


def count(kernel: CountsKernel, rows: Sequence[Row]) -> IntArray:
    batch, size = batch_of(rows)
    return kernel.sum(map_rows(kernel, batch, size))


def moves(kernel: CountsKernel, rows: Sequence[Row], others: Sequence[Row]) -> list[tuple[int, int]]:
    """Return by how much each table differs: in L1, and in L2 squared."""
    sizes = np.cumsum([table.size for table in kernel.tables])[:-1]
    apart = np.split(count(kernel, rows) - count(kernel, others), sizes)
    return [(sum(abs(d) for d in part.tolist()), sum(d * d for d in part.tolist())) for part in apart]


@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_counted_in_the_cell_that_the_rule_names(seed: int) -> None:
    source = random.Random(seed)
    plan = plan_of(draw_request(source), Adjacency.ADD_REMOVE, 1)
    rows = [draw_row(source) for _ in range(60)]
    expected = [cell for table in count_slowly(plan.items, rows) for cell in table]
    assert count(COUNTS.kernel(plan), rows).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("m", [1, 3])
def test_no_neighbour_moves_a_table_further_than_is_stated_and_one_moves_it_so_far(
    mechanism: str, adjacency: Adjacency, m: int
) -> None:
    """The bounds that are compared are those from which the noise of a charge is found."""
    for seed in range(30):
        source = random.Random(f"{mechanism} {adjacency} {m} {seed}")
        price = {"mu": 0.5} if mechanism == "gaussian" else {"epsilon": 0.5}
        plan = plan_of(draw_request(source, mechanism=mechanism, price=price), adjacency, m)
        kernel: Any = COUNTS.kernel(plan)
        common = [draw_row(source) for _ in range(10)]
        stated = [
            Fraction(part.sensitivity if mechanism == "laplace" else part.sensitivity_squared) for part in plan.parts
        ]
        reached = [Fraction(0)] * len(stated)
        persons = [[draw_row(source) for _ in range(m)] for _ in range(12)]
        persons += [[draw_row(source)] * m for _ in range(60)]
        for person, other in zip(persons, persons[1:] + persons[:1], strict=True):
            instead = other if adjacency is Adjacency.REPLACE_ONE else []
            for i, (l1, l2_squared) in enumerate(moves(kernel, common + person, common + instead)):
                moved = l1 if mechanism == "laplace" else l2_squared
                assert moved <= stated[i]
                reached[i] = max(reached[i], Fraction(moved))
        for i, table in enumerate(plan.items):
            if table.size > 1 and len(table.axes) == 1:  # of more, few of the drawn rows fall into any cell
                assert reached[i] == stated[i], table.key


def test_what_a_row_is_counted_in_depends_on_that_row_alone() -> None:
    """Neither the rows beside it, nor their order, nor where batches are cut decide."""
    source = random.Random(5)
    for _ in range(10):
        kernel: Any = COUNTS.kernel(plan_of(draw_request(source), Adjacency.ADD_REMOVE, 1))
        rows = [draw_row(source) for _ in range(40)]
        whole = map_rows(kernel, *batch_of(rows))
        alone = [map_rows(kernel, *batch_of([row])) for row in rows]
        assert whole.tolist() == np.concatenate(alone).tolist()
        shuffled = source.sample(rows, len(rows))
        assert count(kernel, shuffled).tolist() == count(kernel, rows).tolist()
        cut = source.randint(1, 39)
        parts = [count(kernel, rows[:cut]), count(kernel, rows[cut:])]
        assert (parts[0] + parts[1]).tolist() == count(kernel, rows).tolist()


def test_rows_that_do_not_count_are_in_no_cell(tmp_path: Path) -> None:
    """Those beyond a person's share, those added up to the capacity, and those whose mark is damaged."""
    source = random.Random(6)
    for size in (1, 7, 64):
        kernel: Any = COUNTS.kernel(plan_of(draw_request(source), Adjacency.ADD_REMOVE, 3))
        rows = [draw_row(source) for _ in range(size)]
        marks = [source.choice((1, 1, 0, 2, -1, MISSING)) for _ in rows]
        batch, _ = batch_of(rows)
        counted = [row for row, mark in zip(rows, marks, strict=True) if mark == 1]
        stored = store_rows(tmp_path, batch | {MARK: np.array(marks, dtype=np.int32)}, 70)
        found = NumpyEngine().sum(kernel, stored)
        assert found.tolist() == [cell for table in count_slowly(kernel.tables, counted) for cell in table]
