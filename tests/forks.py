"""Processes that are forked from the tests' own, which has imported everything, and begin as new ones do."""

import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkProcess


def fork(
    work: Callable[[], object],
    environment: Mapping[str, str],
    out: int,
    err: int,
    *,
    given: str = os.devnull,
    encoding: str = "utf-8",
) -> ForkProcess:
    """Run work in a session of its own; it reads what is given, and writes to files, in an encoding."""
    told = (work, environment, out, err, given, encoding)
    process = multiprocessing.get_context("fork").Process(target=_run, args=told)
    process.start()
    return process


def _run(
    work: Callable[[], object], environment: Mapping[str, str], out: int, err: int, given: str, encoding: str
) -> None:
    gc.freeze()  # what the tests have open is not closed from here
    os.setsid()
    os.environ.update(environment)
    tempfile.tempdir = None  # read anew
    for stream, file in enumerate((os.open(given, os.O_RDONLY), out, err)):
        os.dup2(file, stream)
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115 -- for as long as the process lives
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    work()
