"""Views as text for a terminal, as wide as that is.

No word of a server may move the cursor, change a colour or turn the direction of writing.
"""

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

from analyst_client.display.model import ROWS_MAX, UNPRINTABLE, Bar, Block, Facts, Folded, Inline, Note, Table, View
from analyst_client.spelling import spell

WIDTH_MIN, WIDTH_MAX = 40, 120
BAR_WIDTH = 50
RULE = "\x00"
"""Stands for a line as long as the longest, until that is known."""
GAP = "  "
MARKS = {"spent": "█", "held": "▒", "left": "░"}
INTERVAL = re.compile(r"(\[[^\s\[\]]+) ([^\s\[\]]+\])")
"""Two numbers, between which no line is broken."""
BETWEEN_WORDS = re.compile(r"([ \n]+|(?<=\w\()(?=\w))")
"""Spaces, and where the argument of a function begins, as in a term of a formula."""
# Characters that turn the direction of writing, or are invisible.
DIRECTIONS = re.compile("[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class _Wrapper(textwrap.TextWrapper):
    wordsep_simple_re = BETWEEN_WORDS


def as_text(view: View, width: int | None = None) -> str:
    """Return a view as lines that are no longer than the terminal is wide."""
    if width is None:
        width = min(max(shutil.get_terminal_size().columns, WIDTH_MIN), WIDTH_MAX)
    lines: list[str] = []
    longest = 0
    for k, block in enumerate(view):
        is_table = isinstance(block, Facts | Table)
        if k and (is_table or isinstance(view[k - 1], Facts | Table)):
            lines.append(RULE)
        written = wrap(plain(block.caption), width) if isinstance(block, Facts | Table) else []
        if k == 0 or isinstance(block, Facts):
            written.append(RULE)
        written += write_block(block, width)
        lines += written
        if is_table:
            longest = max(longest, *map(measure, written))
    return "\n".join(lines).replace(RULE, spell("─") * longest)


def plain(words: Inline) -> str:
    """Return words as text; the items of a listing are lines."""
    if isinstance(words, str):
        return spell(one_line(words))
    if words.kind == "swatch":
        return f"{spell(MARKS.get(str(words.parts[0]), ' '))} "
    return ("\n" if words.kind == "listing" else "").join(map(plain, words.parts))


def one_line(words: str) -> str:
    """Return text without what cannot be printed, and what turns the direction of writing, in one line."""
    shown = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", DIRECTIONS.sub("\N{REPLACEMENT CHARACTER}", words))
    return re.sub(r"\s", " ", shown)


def write_block(block: Block, width: int) -> Iterator[str]:
    """Write a block line by line, without its caption."""
    if isinstance(block, Facts):
        yield from write_rows([[plain(name), plain(value)] for name, value in block.rows], width, frozenset())
    elif isinstance(block, Table):
        yield from write_table(block, width)
    elif isinstance(block, Bar):
        ends = [
            round(min(BAR_WIDTH, width) * sum(share for _, share in block.parts[: k + 1]))
            for k in range(len(block.parts))
        ]
        lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        yield "".join(spell(MARKS[kind]) * length for (kind, _), length in zip(block.parts, lengths, strict=True))
    elif isinstance(block, Folded):
        yield from wrap(plain(block.summary), width)
    elif isinstance(block, Note):
        yield from wrap(plain(block.words), width)


def write_table(block: Table, width: int) -> Iterator[str]:
    """Write a table; columns without a word are left out."""
    rows = [[plain(cell) for cell in row] for row in islice(block.rows, ROWS_MAX)]
    shown = [j for j in range(len(block.heads)) if j == 0 or not rows or any(row[j].strip() for row in rows)]
    cells = [[row[j] for j in shown] for row in [list(map(plain, block.heads)), *rows]]
    numeric = frozenset(k for k, j in enumerate(shown) if j in block.numeric)
    for k, part in enumerate(split(cells, width, numeric)):
        if k:
            yield RULE
        chosen = [[row[j] for j in part] for row in cells]
        right = frozenset(i for i, j in enumerate(part) if j in numeric)
        yield from write_rows(chosen, width, right, block.total + 1 if block.total >= 0 else -1)
    if len(block.rows) > ROWS_MAX:
        yield plain(f"… and {len(block.rows) - ROWS_MAX:,} more")


def split(cells: Sequence[Sequence[str]], width: int, numeric: frozenset[int]) -> list[list[int]]:
    """Return the columns of a table, in several parts where their words are too long to stand beside each other.

    Each part begins with the columns of words on the left of numbers, or the first of these. Both ends of an interval
    stay in one part, and so does an estimate whose interval follows as ``from`` and ``to``.

    Examples
    --------
    >>> split([["term", "at 5 years", "at 10 years"], ["age", "0.5", "0.6"]], 10, frozenset({1, 2}))
    [[0, 1], [0, 2]]
    """
    leasts = [max(map(longest_word, column)) for column in zip(*cells, strict=True)]
    labels = list(range(next((j for j in range(1, len(leasts)) if j in numeric), 1)))
    others = list(range(len(labels), len(leasts)))

    def fits(chosen: Sequence[int]) -> bool:
        return sum(leasts[j] for j in chosen) + len(GAP) * (len(chosen) - 1) <= width

    if fits([*labels, *others]):
        return [[*labels, *others]]
    while len(labels) > 1 and not all(fits([*labels, j]) for j in others):
        others.insert(0, labels.pop())
    together: list[list[int]] = []
    for j in others:
        if together and cells[0][j] in {"from", "to"}:
            together[-1].append(j)
        else:
            together.append([j])
    parts: list[list[int]] = []
    for some in together:
        if parts and fits([*parts[-1], *some]):
            parts[-1] += some
        else:
            parts.append([*labels, *some])
    return parts or [labels]


def write_rows(
    rows: Sequence[Sequence[str]], width: int, numeric: frozenset[int], total: int | None = None
) -> Iterator[str]:
    """Write rows of cells; of a table, which states where its total is, the first is the head."""
    columns = list(zip(*rows, strict=True))
    longest, leasts = ([max(map(of, column)) for column in columns] for of in (longest_line, longest_word))
    widths = fit(longest, leasts, width, numeric)
    for i, row in enumerate(rows):
        if total is not None and i == total:
            yield RULE
        cells = [wrap(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        for k in range(max(map(len, cells))):
            parts = [
                pad(lines[k] if k < len(lines) else "", wide, right=j in numeric)
                for j, (lines, wide) in enumerate(zip(cells, widths, strict=True))
            ]
            yield GAP.join(parts).rstrip()
        if total is not None and i == 0:
            yield RULE


def fit(widths: list[int], leasts: list[int], width: int, numeric: frozenset[int]) -> list[int]:
    """Narrow the widest columns until all fit beside each other, those of words first; words are broken last.

    Examples
    --------
    >>> fit([10, 40, 8, 60], [10, 9, 8, 9], 80, frozenset({2}))
    [10, 28, 8, 28]
    >>> fit([10, 40, 20, 60], [10, 40, 9, 39], 104, frozenset({2}))
    [10, 40, 9, 39]
    """
    fitted = list(widths)
    spare = width - len(GAP) * (len(widths) - 1)
    columns = range(len(fitted))
    of_words = [j for j in columns if j not in numeric]
    for narrowed, floors in ((of_words, leasts), (columns, leasts), (columns, [4] * len(fitted))):
        while sum(fitted) > spare and (able := [j for j in narrowed if fitted[j] > floors[j]]):
            fitted[max(reversed(able), key=lambda j: fitted[j])] -= 1
    return fitted


def wrap(value: str, width: int) -> list[str]:
    """Break text into lines of at most a width; its own lines stay apart."""
    if measure(value) > len(value):  # wide letters, which textwrap counts as one
        width = max(width // 2, 1)
    wrapper = _Wrapper(max(width, 1), break_on_hyphens=False)
    lines = [part for line in glue(value).split("\n") for part in wrapper.wrap(line) or [""]]
    return [line.replace("\xa0", " ") for line in lines] if len(lines) > 1 else [value.rstrip()]


def glue(value: str) -> str:
    """Return a text in which no line is broken within an interval."""
    return INTERVAL.sub("\\1\xa0\\2", value)


def measure(value: str) -> int:
    """Return how many columns of a terminal a line takes.

    Examples
    --------
    >>> measure("XᵀX"), measure("年龄"), measure("e\u0301")
    (3, 4, 1)
    """
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in value
    )


def longest_line(value: str) -> int:
    """Return the width of the longest line of a text."""
    return max(map(measure, value.split("\n")))


def longest_word(value: str) -> int:
    """Return the width of the longest word of a text."""
    return max(measure(word) for word in BETWEEN_WORDS.split(glue(value)) if word is not None)


def pad(value: str, width: int, *, right: bool) -> str:
    """Fill a cell with spaces."""
    space = " " * max(width - measure(value), 0)
    return space + value if right else value + space
