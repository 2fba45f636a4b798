"""Work in a process of its own, within bounds: what reads files of strangers may fill a memory, or end its process.

The process is forked on Linux, so that secrets are handed over in memory; elsewhere, where libraries do not stand that,
it is started anew, and they cross a pipe. What comes back is JSON, which is not believed more than a file. It works for
its parent alone, ends with it, and writes to no terminal: what a library prints of a value is not seen.
"""

import faulthandler
import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import parent_process
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

Told = Mapping[str, Any]
"""What JSON holds."""
Work = Callable[[Callable[[Any], None]], Told]
"""Work, of what it calls to tell something on the way."""
_ANSWER_BYTES_MAX = 2**28
_PACKAGE = Path(__file__).resolve().parents[1]
_IS_LINUX = sys.platform == "linux"


class WorkEnded(Exception):
    """The process ended without an answer; the message says how, in words without data."""


class WorkRefused(Exception):
    """The work raised an error whose message is for the operator."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a process.

    Attributes
    ----------
    memory_bytes : int
        Beyond what it begins with. Linux alone can tell; on macOS nothing bounds it.
    processor_s : int
    """

    memory_bytes: int
    processor_s: int


def work_apart(
    work: Work,
    bounds: Bounds,
    refusals: type[Exception],
    hear: Callable[[Any], None] = lambda _said: None,
) -> Told:
    """Do some work in a process of its own.

    Parameters
    ----------
    work : callable
        It can be pickled.
    refusals : type of Exception
        Errors whose message may be told.
    hear : callable
        Called with what the work tells on the way.

    Raises
    ------
    WorkRefused, WorkEnded, OSError
    """
    context: BaseContext = multiprocessing.get_context("fork" if _IS_LINUX else "spawn")
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(work, bounds, refusals, its), daemon=True)  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        # Of locks that other threads hold: those of Python and Arrow are made anew, and no other one is used.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    its.close()
    try:
        return _listen(mine, process, hear)
    finally:
        process.kill()
        process.join()
        mine.close()


def _listen(pipe: Connection, process: Any, hear: Callable[[Any], None]) -> Told:
    while True:
        try:
            kind, said = json.loads(pipe.recv_bytes(_ANSWER_BYTES_MAX))
        except EOFError:
            break
        except (OSError, ValueError):
            process.kill()
            break
        match kind:
            case "told":
                hear(said)
            case "done":
                return dict(said)
            case "refused":
                raise WorkRefused(said)
            case "system":
                raise OSError(said, os.strerror(said))
            case _:
                raise WorkEnded(said)
    process.join()
    code = process.exitcode or 0
    if code == -signal.SIGXCPU:
        raise WorkEnded("it took more processor time than it may")
    raise WorkEnded(f"its process was ended by {signal.Signals(-code).name}" if code < 0 else "its process ended")


def _work(work: Work, bounds: Bounds, refusals: type[Exception], pipe: Connection) -> NoReturn:
    try:
        _confine(bounds)
        answer = _answer(work, refusals, lambda said: pipe.send_bytes(json.dumps(("told", said)).encode()))
        pipe.send_bytes(json.dumps(answer).encode())
    finally:
        os._exit(0)  # nothing of the parent's is closed twice


def _answer(work: Work, refusals: type[Exception], tell: Callable[[Any], None]) -> tuple[str, Any]:
    try:
        return "done", work(tell)
    except refusals as error:
        return "refused", str(error)
    except MemoryError:
        return "ended", "it takes more memory than it may"
    except OSError as error:
        if error.errno is None:
            return "ended", _find_place(error)
        return "system", error.errno
    except BaseException as error:
        return "ended", _find_place(error)


def _find_place(error: BaseException) -> str:
    """Return where in this package an error arose, in words without data."""
    place, trace = "", error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            place = f" in {path.relative_to(_PACKAGE)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"


def _confine(bounds: Bounds) -> None:
    """Bound this process, and cut it off from the terminal and from what its parent would still do."""
    follow_parent()
    gc.freeze()  # what the parent has open is not closed from here
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = os.fdopen(nowhere, "w")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, bounds.processor_s)
    if _IS_LINUX:
        import pyarrow as pa  # noqa: PLC0415 -- what needs no bound needs no Arrow

        # Its own allocator takes a gibibyte at once, whatever is asked of it.
        pa.set_memory_pool(pa.system_memory_pool())
        _limit(resource.RLIMIT_DATA, _data_bytes() + bounds.memory_bytes)


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, hard if kind == resource.RLIMIT_CPU else most))  # at the hard one it says nothing


def _data_bytes() -> int:
    """Return how much private memory this process may write to."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))


def follow_parent() -> None:
    """Make this process one that works for its parent alone: it does not hear Ctrl-C, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of them; the parent decides
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the parent, even if it was killed: those of a pool would wait for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
