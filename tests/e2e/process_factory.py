"""Processes that start at once: a parent that has imported everything forks them, and ends them by their ids.

Run as a program, this module is the parent: it reads orders from its standard input, a line of JSON each, and answers
each with a line. When its input ends, as when the tests are killed, it ends every child that is left.
"""

import gc
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patience import SCALE_VARIABLE, scaled

ROOT = Path(__file__).parents[2]
POLL_S = 0.005


class ProcessFactory:
    """A parent of processes, as the tests hold it.

    Parameters
    ----------
    modules : str
        What the parent imports before it forks.
    """

    def __init__(self, *modules: str) -> None:
        places = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(ROOT)]
        self._parent = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *modules],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment() | {"PYTHONPATH": os.pathsep.join(places), "TERM": "dumb"},  # files have no colours
        )
        self._turn = threading.Lock()

    def fork(
        self, function: str, arguments: Mapping[str, Any], environment: Mapping[str, str], output: Path
    ) -> "Child":
        """Run a function, ``module:name``, in a new process, with keyword arguments; its output goes to a file."""
        order = {
            "function": function,
            "arguments": dict(arguments),
            "environment": dict(environment),
            "output": str(output),
        }
        return Child(self, self._ask(order), output)

    def poll(self, pid: int) -> int | None:
        """Return how a child ended, as `subprocess` counts: a signal is negative; None while it lives."""
        code: int | None = self._ask({"pid": pid})
        return code

    def _ask(self, order: dict[str, Any]) -> Any:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with self._turn:
            self._parent.stdin.write(json.dumps(order) + "\n")
            self._parent.stdin.flush()
            return json.loads(self._parent.stdout.readline())

    def close(self) -> None:
        """End every child, and the parent."""
        self._parent.stdin.close()
        self._parent.wait(scaled(30))
        self._parent.stdout.close()


@dataclass
class Child:
    """A process that the factory made."""

    process_factory: ProcessFactory
    pid: int
    output: Path
    code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            self.code = self.process_factory.poll(self.pid)
        return self.code

    def wait(self, timeout_s: float = 30) -> int:
        """Wait for its end; return how it ended."""
        end = time.monotonic() + scaled(timeout_s)
        while self.poll() is None:
            assert time.monotonic() < end, f"the process {self.pid} does not end: {self.text[-2000:]}"
            time.sleep(POLL_S)
        assert self.code is not None
        return self.code

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    @property
    def text(self) -> str:
        """The output of the process so far."""
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.is_file() else ""


def clean_environment() -> dict[str, str]:
    """Return the environment without the product's settings, and without threads of libraries: a parent forks."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("CURATOR_") or name == SCALE_VARIABLE
    }
    return kept | {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def _fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _redirect(order["output"])
        os.environ.update(order["environment"])
        module, _, name = order["function"].partition(":")
        getattr(importlib.import_module(module), name)(**order["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # as on a full disk
                code = code or 74
        os._exit(code)


def _redirect(output: str) -> None:
    silence, file = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(silence, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 -- for as long as the process lives
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", write_through=True)


def main() -> None:
    """Fork what is ordered until there are no more orders."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not be forked"
    gc.collect()
    gc.freeze()
    children: dict[int, int | None] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "function" in order:
            forked = _fork(order)
            children[forked] = None
            answer: int | None = forked
        else:
            pid = order["pid"]
            if children[pid] is None:
                ended, status = os.waitpid(pid, os.WNOHANG)
                children[pid] = os.waitstatus_to_exitcode(status) if ended else None
            answer = children[pid]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid, code in children.items():
        if code is None and os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
