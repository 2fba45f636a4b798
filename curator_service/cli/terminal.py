"""Output of commands: glyphs that the terminal's encoding has, and tables of its width, with every word whole."""

from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from curator_service.kit.spelling import spell


class Terminal(Console):
    """A console that fits tables by their words, and knows the encoding of the stream that it writes to."""

    @property
    def encoding(self) -> str:
        """The encoding of the stream."""
        return getattr(self.file, "encoding", None) or "utf-8"

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        """Return text with its markup read, as the stream can write it."""
        return super().render_str(spell(text, self.encoding), *arguments, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects, and tables so that they fit."""
        super().print(*(fit(self, one) if isinstance(one, Table) else one for one in objects), **options)


def fit(terminal: Console, table: Table) -> Table:
    """Return a table that is no wider than the terminal: narrowed between words, or as a list of each row's cells."""
    measured = [
        [Measurement.get(terminal, terminal.options, cell) for cell in (column.header, *column.cells)]
        for column in table.columns
    ]
    spare = terminal.width - 3 * len(measured) - 1  # of the frame
    widths = [max(cell.maximum for cell in cells) for cells in measured]
    leasts = [max(cell.minimum for cell in cells) for cells in measured]
    if sum(widths) <= spare:
        return table
    if sum(leasts) > spare and len(widths) > 2:
        return list_cells(table)
    while sum(widths) > spare:
        able = [j for j, least in enumerate(leasts) if widths[j] > least] or range(len(widths))
        widths[max(able, key=lambda j: widths[j])] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.no_wrap, column.overflow = width, False, "fold"
    return table


def list_cells(table: Table) -> Table:
    """Return a table with two columns: the head and the value of every cell, row after row."""
    listed = Table("", "", title=table.title, caption=table.caption, show_header=False)
    listed.columns[1].overflow = "fold"
    heads = [column.header for column in table.columns]
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    for row in rows or [("",) * len(heads)]:
        filled = [(head, cell) for head, cell in zip(heads, row, strict=True) if cell or not rows]
        for k, (head, cell) in enumerate(filled, start=1):
            listed.add_row(head, cell, end_section=k == len(filled))
    return listed
