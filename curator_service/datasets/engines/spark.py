"""The engine of a Spark cluster: ranges of stored rows, or rows that live in the cluster, summed where they are.

Each task gives one partial sum of integers, and partial sums are added in a tree. A task that fails is run again by
Spark, and counts once. Which cluster it is, Spark's own configuration says (`SPARK_CONF_DIR`).
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from operator import add
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from threadpoolctl import threadpool_limits

from curator_service.datasets.engines.arrow import ClusterRows, sum_batches, sum_nothing
from curator_service.datasets.engines.base import RowKernel, cut_rows
from curator_service.datasets.engines.numpy import check_null_rows, sum_range
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import RowsUnreadable, StoredRows
from curator_service.privacy.lattice import IntArray

_SUMS, _NUMBER = "sums", "<i8"
log = logging.getLogger("curator_service.datasets")


class SparkEngine:
    """The engine of a Spark cluster, which starts a session with its first pass.

    Parameters
    ----------
    tasks : int
        Ranges that a pass over stored rows is cut into. The folder of rows must be shared with the cluster.
    """

    name, is_here = "spark", False

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._lock = Lock()
        self._session: SparkSession | None = None

    def sum(self, kernel: RowKernel, rows: StoredRows | ClusterRows) -> IntArray:
        """Sum the contributions of rows: see `Engine`.

        Rows of a cluster are not filled up to their capacity: how long a pass over them works depends on how many there
        are, and its answer shows at a public time all the same.

        Raises
        ------
        RowsUnreadable
            Also if there are more rows in the cluster than their capacity.
        ValueError
            If a column of the cluster has a type that its declaration does not allow.
        """
        check_null_rows(kernel)
        try:
            if isinstance(rows, StoredRows):
                return self._sum_stored(kernel, rows)
            return self._sum_parquet(kernel, rows)
        except (PySparkException, Py4JError) as error:
            log.error("a pass over rows failed in Spark: %s", type(error).__qualname__)  # noqa: TRY400 -- may hold a row
            raise RowsUnreadable from None

    def _sum_stored(self, kernel: RowKernel, rows: StoredRows) -> IntArray:
        ranges = cut_rows(rows.capacity, self._tasks)
        cut = self._start().sparkContext.parallelize(ranges, len(ranges))
        sums: IntArray = cut.map(partial(_sum_range, kernel, rows)).treeReduce(add)
        return sums

    def _sum_parquet(self, kernel: RowKernel, rows: ClusterRows) -> IntArray:
        frame = self._start().read.parquet(rows.path).select(*[f"`{name}`" for name in kernel.columns])
        for field in to_arrow_schema(frame.schema):
            rows.check_type(field.name, field.type)
        partials = frame.mapInArrow(partial(_sum_partition, kernel, rows.manifest), f"{_SUMS} binary").rdd.map(
            _read_sums
        )
        total = partials.treeAggregate(sum_batches(kernel, rows.manifest, ()), add, add)
        if total[0] > rows.manifest.row_capacity:
            log.error("%s has more rows than the manifest's row_capacity", rows.path)
            raise RowsUnreadable
        sums: IntArray = total[1:].reshape(sum_nothing(kernel).shape)
        return sums

    def _start(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
                self._session = SparkSession.builder.appName("curator").getOrCreate()
            return self._session

    def close(self) -> None:
        """End the session."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.stop()


def _sum_range(kernel: RowKernel, rows: StoredRows, bounds: tuple[int, int]) -> IntArray:
    with threadpool_limits(1, user_api="blas"):
        return sum_range(kernel, rows, *bounds)


def _sum_partition(
    kernel: RowKernel, manifest: Manifest, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with threadpool_limits(1, user_api="blas"):
        sums = sum_batches(kernel, manifest, batches)
    yield pa.RecordBatch.from_pydict({_SUMS: [sums.astype(_NUMBER).tobytes()]})


def _read_sums(row: Any) -> IntArray:
    return np.frombuffer(row[_SUMS], dtype=_NUMBER)
