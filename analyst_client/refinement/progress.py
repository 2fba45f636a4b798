"""Progress of a refinement, shown in a terminal or a notebook, or read by the caller."""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from threading import Event
from typing import Any

from analyst_client.display.terminal import plain
from analyst_client.refinement.practice import Step


class Progress:
    """Steps of a refinement as they are taken.

    Parameters
    ----------
    name : str
        Of the target.
    show : bool
        Write to standard error where that is a terminal, or below the cell of a notebook.

    Attributes
    ----------
    step, step_count : int
        Step that is being taken, from 1, and how many there will be; 0 while that is not known.
    spent : float
        Share of the price that finished steps have taken, those that were bought before among them.
    left_s : float
        Public times of what is left, in seconds.
    """

    def __init__(self, name: str, *, show: bool) -> None:
        self._name, self._is_shown = name, show
        self.step, self.step_count, self.spent, self.left_s = 0, 0, 0.0, 0.0
        self._cancelled, self._durations, self._began = Event(), list[float](), time.monotonic()
        self._notebook = find_notebook() if show else None
        self._handle: Any = None

    def cancel(self) -> None:
        """Let no further step begin."""
        self._cancelled.set()

    def expect(self, steps: Sequence[Step]) -> None:
        """Take in what steps are expected."""
        self.step_count, self._durations = len(steps), [step.duration_s for step in steps]
        self._update()

    def begin(self) -> None:
        """Begin a step. Raise `CancelledError` where none is to begin any more."""
        if self._cancelled.is_set():
            raise CancelledError("the refinement was cancelled")
        self.step += 1
        self._update()

    def end(self, share: float) -> None:
        """Count a step that is done, at a share of the price."""
        self.spent += share

    def close(self, *, done: bool) -> None:
        """Write a last line."""
        if done:
            took = _span(time.monotonic() - self._began)
            self._write(f"refining {self._name}: done, {self.step} steps in {took}", last=True)
        elif self.step:
            self._write(f"{self}: ended early", last=True)

    def _update(self) -> None:
        self.left_s = sum(self._durations[max(self.step - 1, 0) :])
        if self.step:
            self._write(str(self))

    def __str__(self) -> str:
        """Say which step of how many it is, what was spent, and how long it takes still."""
        of = f" of {max(self.step_count, self.step)}" if self.step_count else ""
        left = f", about {_span(self.left_s)} left" if self.left_s else ""
        return plain(f"refining {self._name}: step {self.step}{of}, {self.spent:.0%} of the price spent{left}")

    def _write(self, text: str, *, last: bool = False) -> None:
        if not self._is_shown:
            return
        if self._notebook is not None:
            bundle = {"text/plain": text}
            if self._handle is None:
                self._handle = self._notebook.display(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)
        elif sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r{text[:79]:79}" + "\n" * last)
            sys.stderr.flush()


def find_notebook() -> Any:
    """Return what draws in a notebook; None elsewhere. Nothing is imported that is not there."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if getattr(shell, "kernel", None) is None else sys.modules.get("IPython.display")


def _span(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400.0 else f"{seconds / 3600:.1f} h"
