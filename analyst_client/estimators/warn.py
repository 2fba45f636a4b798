"""Warnings that name the caller's line, however deep in this package they arise."""

import sys
import warnings
from collections.abc import Iterator
from types import FrameType

PACKAGE = __name__.partition(".")[0]


def warn_caller(text: str, category: type[Warning]) -> None:
    """Warn of the line outside of this package that led here."""
    level = next((k for k, frame in enumerate(_frames(), start=2) if not _is_own(frame)), 2)
    warnings.warn(text, category, stacklevel=level)


def _frames() -> Iterator[FrameType]:
    """Return the frames above the one that warns, its own caller first."""
    frame: FrameType | None = sys._getframe(2)
    while (frame := frame.f_back if frame else None) is not None:
        yield frame


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == PACKAGE
