"""Raw values of a cluster: cut to the same lattice as a registration cuts them, and total, whatever they are."""

import re
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from raw_rows import MANIFEST, counted_table, declare, raw_table
from sums_slowly import rows_of, sum_slowly

from curator_service.datasets.engines.arrow import ClusterRows, sum_batches
from curator_service.datasets.engines.conformance import ROWS
from curator_service.kinds.registry import KINDS
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import MISSING, STORED_UNIT

AGE = Column("age", ColumnType.NUMERIC, lower=0.0, upper=100.0)
SEX = Column("sex", ColumnType.CATEGORICAL, levels=("F", "M"))
ALIVE = Column("alive", ColumnType.BOOLEAN, levels=("false", "true"))
SMOKES = Column("smokes", ColumnType.BOOLEAN, levels=("never", "ever"))


@pytest.mark.parametrize("cuts", [[0, ROWS], [0, 0, 1, 400, 999, ROWS]])
def test_raw_values_sum_to_what_a_slow_program_says(cuts: list[int]) -> None:
    table, rows = raw_table().combine_chunks(), rows_of(counted_table())
    (batch,) = table.to_batches()
    batches = [batch.slice(start, stop - start) for start, stop in pairwise(cuts)]
    for case in KINDS.conformance:
        assert sum_batches(case.kernel, MANIFEST, batches).tolist() == [ROWS, *sum_slowly(case.kernel, rows)], case.name


def test_no_batch_sums_to_nothing() -> None:
    for case in KINDS.conformance:
        assert sum_batches(case.kernel, MANIFEST, ()).tolist() == [0] * (1 + len(case.sums))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        (AGE, pa.array([0, 50, 100, 2**60, None]), [-STORED_UNIT, 0, STORED_UNIT, STORED_UNIT, MISSING]),
        (AGE, pa.array([float("-inf"), 75.0, float("nan")], pa.float32()), [-STORED_UNIT, STORED_UNIT // 2, MISSING]),
        (AGE, pa.array([Decimal("25.00"), None]), [-STORED_UNIT // 2, MISSING]),
        (SEX, pa.array(["F", " M ", "", None, "f", "X"]), [0, 1, MISSING, MISSING, -1, -1]),
        (ALIVE, pa.array(["TRUE", "0", "maybe", None]), [1, 0, -1, MISSING]),
        (ALIVE, pa.array([True, False, None]), [1, 0, MISSING]),
        (SMOKES, pa.array([True, False, None]), [1, 0, MISSING]),
    ],
)
def test_any_value_becomes_something_of_the_lattice(column: Column, values: Any, expected: list[int]) -> None:
    assert declare(column).store(values).tolist() == expected


@pytest.mark.parametrize(
    ("name", "found"), [("ties", pa.string()), ("ties", pa.date32()), ("level", pa.int64()), ("flag", pa.float64())]
)
def test_a_column_of_another_type_is_refused_with_those_that_would_do(name: str, found: pa.DataType) -> None:
    rule = re.escape(f"cohort.parquet: the column '{name}' is of type {found}, and must be ")
    with pytest.raises(ValueError, match=rf"{rule}\w+"):
        ClusterRows("cohort.parquet", MANIFEST).check_type(name, found)


def test_a_level_of_undeclared_words_is_refused_in_a_cluster() -> None:
    column = MANIFEST.declared["level"].model_copy(update={"other": "a"})
    with pytest.raises(ValueError, match="declare no `other`"):
        ClusterRows("cohort.parquet", MANIFEST.model_copy(update={"columns": (column,)}))


def test_rows_of_persons_are_refused_in_a_cluster() -> None:
    manifest = MANIFEST.model_copy(update={"subject": "patient", "rows_per_subject": 2})
    with pytest.raises(ValueError, match="declare no subject"):
        ClusterRows("cohort.parquet", manifest)
