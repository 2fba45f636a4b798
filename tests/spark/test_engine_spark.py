"""The engine of Spark, on two cores of this machine: the integers of every other engine, or no sum at all."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from raw_rows import MANIFEST, counted_table, raw_table
from rows_on_disk import store_rows
from sums_slowly import rows_of, sum_slowly

from curator_service.container import make_engine
from curator_service.datasets.engines.arrow import ClusterRows
from curator_service.datasets.engines.base import Engine
from curator_service.datasets.engines.conformance import CAPACITY, ROWS, check_engine, write_table
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.datasets.parts import RowsUnreadable
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.registry import KINDS
from curator_service.settings import Settings

try:
    import pyspark
except ModuleNotFoundError:
    pytest.skip("Spark is NOT tested: run `make test-spark`", allow_module_level=True)

pytestmark = [
    pytest.mark.spark,
    # The library leaves it to the collector to close sockets to its own processes.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """Return an engine on a session of two cores, whose tasks may fail three times."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    options = {"spark.ui.enabled": "false", "spark.sql.files.openCostInBytes": "0", "spark.sql.shuffle.partitions": "2"}
    builder = pyspark.sql.SparkSession.builder.master("local[2,4]").config(map=options)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    made = make_engine(Settings(engine="spark", engine_workers=3))
    yield made
    made.close()


@pytest.fixture
def parquet(tmp_path: Path) -> ClusterRows:
    """Return the raw table in a folder of files, the last one without rows."""
    folder, table = tmp_path / "cohort", raw_table()
    folder.mkdir()
    for i, (start, stop) in enumerate(((0, 1), (1, 600), (600, ROWS), (ROWS, ROWS))):
        pq.write_table(table.slice(start, stop - start), folder / f"{i}.parquet", row_group_size=100)
    return ClusterRows(str(folder), MANIFEST)


class Fatal(GramKernel):
    """A kernel that ends the process of a task, the first time that it is tried."""

    def map(self, stored: Any, counted: Any, out: Any) -> None:
        task = pyspark.TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            os._exit(1)
        super().map(stored, counted, out)


class Broken(GramKernel):
    """A kernel that fails in every task."""

    def map(self, stored: Any, counted: Any, out: Any) -> None:
        if pyspark.TaskContext.get() is not None:
            raise ValueError(f"what may hold a row: {stored}")
        super().map(stored, counted, out)


def test_the_engine_passes_the_check_of_a_start(engine: Engine, tmp_path: Path) -> None:
    check_engine(engine, KINDS.conformance, tmp_path)


def test_rows_of_the_cluster_sum_to_what_every_engine_and_a_slow_program_say(
    engine: Any, tmp_path: Path, parquet: ClusterRows
) -> None:
    stored, rows = store_rows(tmp_path, counted_table(), CAPACITY), rows_of(counted_table())
    for case in KINDS.conformance:
        sums = engine.sum(case.kernel, parquet)
        assert sums.dtype == np.int64
        assert np.array_equal(sums, NumpyEngine().sum(case.kernel, stored)), case.name
        assert sums.ravel().tolist() == sum_slowly(case.kernel, rows)


@pytest.mark.parametrize("source", ["stored", "cluster"])
def test_a_task_that_was_killed_is_run_again_and_counts_once(
    engine: Any, tmp_path: Path, parquet: ClusterRows, source: str
) -> None:
    kernel: Any = KINDS.conformance[2].kernel
    rows = parquet if source == "cluster" else write_table(tmp_path)
    sums = engine.sum(Fatal(kernel.design, kernel.row_map), rows)
    assert np.array_equal(sums, engine.sum(kernel, rows))


def test_a_pass_that_fails_has_no_sum_and_shows_no_row(
    engine: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel: Any = KINDS.conformance[0].kernel
    with pytest.raises(RowsUnreadable) as raised:
        engine.sum(Broken(kernel.design, kernel.row_map), write_table(tmp_path))
    assert raised.value.__cause__ is None
    assert "what may hold a row" not in caplog.text
    assert "failed in Spark" in caplog.text


def test_rows_that_are_gone_have_no_sum(engine: Any, tmp_path: Path) -> None:
    stored = write_table(tmp_path)
    stored.parts[1].rows_path(tmp_path).unlink()
    for rows in (stored, ClusterRows(str(tmp_path / "gone"), MANIFEST)):
        with pytest.raises(RowsUnreadable):
            engine.sum(KINDS.conformance[0].kernel, rows)


def test_more_rows_than_the_capacity_have_no_sum(engine: Any, parquet: ClusterRows) -> None:
    for capacity in (ROWS, ROWS - 1):
        rows = ClusterRows(parquet.path, MANIFEST.model_copy(update={"row_capacity": capacity}))
        if capacity == ROWS:
            engine.sum(KINDS.conformance[0].kernel, rows)
        else:
            with pytest.raises(RowsUnreadable):
                engine.sum(KINDS.conformance[0].kernel, rows)


def test_a_column_of_another_type_is_refused_before_a_row_is_read(engine: Any, tmp_path: Path) -> None:
    table = raw_table()
    words = table.set_column(table.column_names.index("ties"), "ties", table.column("level"))
    pq.write_table(words, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="the column 'ties' is of type string"):
        engine.sum(KINDS.conformance[0].kernel, ClusterRows(str(tmp_path / "rows.parquet"), MANIFEST))
