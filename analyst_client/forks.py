"""Forked processes: whatever another thread may hold is made anew, since a fork has only the thread that forked."""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object with locks or connections."""

    def start_anew(self) -> None:
        """Make locks and connections anew."""


_HOLDERS: "weakref.WeakSet[Forked]" = weakref.WeakSet()


def renew_in_forks(holder: Forked) -> None:
    """Let an object start anew in every process that is forked from this one."""
    _HOLDERS.add(holder)


def _start_anew() -> None:
    for holder in list(_HOLDERS):
        holder.start_anew()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_start_anew)
