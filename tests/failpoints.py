"""A death at any step of what runs in this process: each change of a file, each statement, each commit.

Steps are those that the interpreter audits (files opened for writing, made, renamed, removed), `os.fsync`, `os.pwrite`,
and the database's statements and commits. From the step on at which a run dies, every further one fails as well, so
that no handler tidies up: what a killed process would have left is left.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest

from curator_service.kit.db import Connection, Statement

_CHANGES = frozenset({"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})


class Killed(BaseException):
    """The process is no more."""


class Run:
    """The steps of a run, and at which of them it dies.

    Parameters
    ----------
    at : int, optional
        From 0; it lives if none is given, or it has fewer.
    """

    def __init__(self, at: int | None = None) -> None:
        self.steps: list[str] = []
        self.is_dead = False
        self._at, self._process = at, os.getpid()

    def step(self, name: str) -> None:
        """Pass a step, unless this is where it ends."""
        if os.getpid() != self._process:
            return  # what reads in a process of its own dies with this one
        self.is_dead = self.is_dead or len(self.steps) == self._at
        if self.is_dead:
            raise Killed(name)
        self.steps.append(name)


_runs: list[Run] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _runs:
        return
    is_opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if (is_opened or event in _CHANGES) and not isinstance(arguments[0], int):
        _runs[-1].step(f"{event} {os.path.basename(arguments[0])}")


@cache
def _install() -> None:
    sys.addaudithook(_audit)  # for good: it does nothing beside a run


@contextmanager
def running(run: Run) -> Iterator[Run]:
    """Follow what is done within, and end it where it dies."""
    _install()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((os, "fsync"), (os, "pwrite"), (Statement, "execute"), (Statement, "execute_each")):
            patch.setattr(owner, name, _before(getattr(owner, name), name))
        commit = Connection.commit

        def followed(self: Connection) -> None:
            run.step("before commit")
            commit(self)
            run.step("after commit")

        patch.setattr(Connection, "commit", followed)
        _runs.append(run)
        try:
            yield run
        except Killed:
            pass
        finally:
            _runs.clear()


def _before(act: Callable[..., Any], name: str) -> Callable[..., Any]:
    def followed(*arguments: Any, **options: Any) -> Any:
        _runs[-1].step(name)
        return act(*arguments, **options)

    return followed
