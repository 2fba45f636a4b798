"""The engine of several processes on this machine, each with a range of rows."""

import logging
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import reduce
from operator import iadd
from threading import Lock

from threadpoolctl import threadpool_limits

from curator_service.datasets.engines.base import RowKernel, cut_rows
from curator_service.datasets.engines.numpy import check_null_rows, sum_range
from curator_service.datasets.parts import RowsUnreadable, StoredRows
from curator_service.kit.apart import follow_parent
from curator_service.privacy.lattice import IntArray

log = logging.getLogger("curator_service.datasets")


class ProcessEngine:
    """The engine of worker processes, which all passes share. They start with the first pass, and end with this one.

    A worker that ends in a pass ends all passes that run, without a sum; the next one starts others.

    Parameters
    ----------
    workers : int
        Processes, and the ranges that a pass is cut into.
    """

    name, is_here = "processes", False

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = Lock()
        self._pool: ProcessPoolExecutor | None = None

    def sum(self, kernel: RowKernel, rows: StoredRows) -> IntArray:
        """Sum the contributions of rows: see `Engine`."""
        check_null_rows(kernel)
        pool = self._start()
        try:
            ranges = cut_rows(rows.capacity, self._workers)
            sums = [pool.submit(sum_range, kernel, rows, start, stop) for start, stop in ranges]
            return reduce(iadd, (part.result() for part in sums))
        except BrokenProcessPool:
            self._forget(pool)
            log.error("a worker process of the engine ended in a pass over rows")  # noqa: TRY400 -- no traceback of rows
            raise RowsUnreadable from None

    def _start(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                # Not forked: this process has threads, which hold locks.
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self._workers, mp_context=spawn, initializer=_begin)
            return self._pool

    def _forget(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Make a process one that works for its parent alone."""
    follow_parent()
    threadpool_limits(1, user_api="blas")
