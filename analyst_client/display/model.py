"""A value as words, tables and bars: one model, which a notebook and a terminal render.

A plain string is text. Names, descriptions and reasons come from a server: whoever renders them makes sure that they
are never more than text.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

ROWS_MAX = 100
"""Longest table that is shown; what follows is counted."""

# Characters that no document may hold, or that UTF-8 cannot encode: controls, lone surrogates, noncharacters.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Words:
    """Text with a meaning.

    Attributes
    ----------
    kind : str
        ``"untrusted"`` text of a server, a ``"code"`` such as an id, ``"quiet"``, ``"strong"``, ``"listing"``,
        ``"swatch"``, or nothing.
    parts : tuple of str or Words
        Of a listing its items; of a swatch which part of a bar it is the key of.
    """

    kind: str
    parts: tuple["Inline", ...]


Inline: TypeAlias = str | Words


@dataclass(frozen=True)
class Facts:
    """A table of names and values."""

    caption: Inline
    rows: tuple[tuple[Inline, Inline], ...]


@dataclass(frozen=True)
class Table:
    """A table with a head; the first cell of a row is the row's own head.

    Attributes
    ----------
    caption : str or Words
    heads : tuple of str or Words
    rows : tuple of sequence of str or Words
    numeric : frozenset of int
        Columns of numbers.
    total : int
        The row under a stronger line, or -1.
    """

    caption: Inline
    heads: tuple[Inline, ...]
    rows: tuple[Sequence[Inline], ...]
    numeric: frozenset[int]
    total: int


@dataclass(frozen=True)
class Bar:
    """Parts of one whole, each a kind and a fraction, with their meaning in words."""

    parts: tuple[tuple[str, float], ...]
    label: str


@dataclass(frozen=True)
class Note:
    """A sentence or two."""

    words: Inline


@dataclass(frozen=True)
class Folded:
    """Blocks that open on demand, where that can be done."""

    summary: Inline
    blocks: tuple["Block", ...]


Block: TypeAlias = Facts | Table | Bar | Note | Folded
View: TypeAlias = tuple[Block, ...]


def untrusted(value: str) -> Words:
    """Return a server's text for use within a sentence: it is rendered as text alone, and isolated."""
    return Words("untrusted", (value,))


def code(value: str) -> Words:
    """Return an id or a hash."""
    return Words("code", (value,))


def quiet(*parts: Inline) -> Words:
    """Return what is of less importance."""
    return Words("quiet", parts)


def strong(*parts: Inline) -> Words:
    """Return what is of more importance."""
    return Words("strong", parts)


def join(*parts: Inline, by: str = "") -> Words:
    """Join parts."""
    apart = [part for one in parts for part in (by, one)]
    return Words("", tuple(apart[1:] if by else parts))


def listing(items: Sequence[Inline]) -> Words:
    """Return a list, as long as a table may be."""
    shown = list(items[:ROWS_MAX])
    if len(items) > ROWS_MAX:
        shown.append(quiet(f"… and {len(items) - ROWS_MAX:,} more"))
    return Words("listing", tuple(shown))


def swatch(kind: str) -> Words:
    """Return the key of a part of a bar, for the eye alone."""
    return Words("swatch", (kind,))


def facts(caption: Inline, rows: Iterable[tuple[Inline, Inline]]) -> Facts:
    """Return a table of names and values."""
    return Facts(caption, tuple(rows))


def table(
    caption: Inline,
    heads: Sequence[Inline],
    rows: Iterable[Sequence[Inline]],
    *,
    numeric: Iterable[int] = (),
    total: int = -1,
) -> Table:
    """Return a table with a head; see `Table`."""
    return Table(caption, tuple(heads), tuple(rows), frozenset(numeric), total)


def bar(parts: Sequence[tuple[str, float]], label: str) -> Bar:
    """Return a bar whose parts stay within their whole."""
    fitting, start = [], 0.0
    for kind, fraction in parts:
        width = min(max(fraction, 0.0), 1.0 - start)
        fitting.append((kind, width))
        start += width
    return Bar(tuple(fitting), label)


def folded(summary: Inline, *blocks: Block) -> Folded:
    """Return blocks that open on demand."""
    return Folded(summary, blocks)


def percent(share: float | None) -> str:
    """Write a share with two decimals, and none as nothing that is something.

    Examples
    --------
    >>> percent(0.13354), percent(1e-9), percent(0.999999), percent(0.0), percent(None)
    ('13.35%', '<0.01%', '>99.99%', '0.00%', '–')
    """
    if share is None or not math.isfinite(share):
        return "–"
    if 0.0 < share < 5e-5:
        return "<0.01%"
    if 1.0 - 5e-5 <= share < 1.0:
        return ">99.99%"
    return f"{share:.2%}"


def number(value: float) -> str:
    """Write a number with four significant digits.

    Examples
    --------
    >>> number(1.0), number(1e-6), number(0.236704), number(math.inf)
    ('1', '1e-06', '0.2367', '∞')
    """
    return f"{value:.4g}" if math.isfinite(value) else "∞"


def aligned(values: Sequence[float]) -> list[str]:
    """Write numbers with the same decimals, so that the smallest keeps three digits.

    Examples
    --------
    >>> aligned([17.9, 4.25, 0.0])
    ['17.90', '4.25', '0.00']
    """
    smallest = min((abs(value) for value in values if value), default=1.0)
    if not smallest >= 1e-6 or not all(abs(value) < 1e9 for value in values):
        return [number(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(smallest)))
    return [f"{value:,.{decimals}f}" for value in values]


def ratio(part: int | None, whole: int | None) -> float | None:
    """Divide two integers, however large; None where that says nothing."""
    try:
        return None if part is None or whole is None else part / whole
    except (ZeroDivisionError, OverflowError):
        return None


TEXT_MAX = 600


def write_json(value: Any) -> str:
    """Write any JSON value in one line, shortened."""
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        written = ", ".join(map(str, value))
    else:
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= TEXT_MAX else written[:TEXT_MAX] + "…"
