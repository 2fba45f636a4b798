"""Figures of counts: a bar for each cell, with the interval of its exact count."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from analyst_client.kinds.counts.axes import TableAxis
from analyst_client.level import takes_level
from analyst_client.plots.style import (
    NEUTRAL,
    Axes,
    MaxNLocator,
    add_legend,
    axes_or_new,
    color_of,
    foreground,
    percent,
    plain,
    width_of,
    with_unit,
)


class NoisyTable(Protocol):
    """The members of a `Table` that a histogram needs."""

    @property
    def axes(self) -> tuple[TableAxis, ...]: ...  # noqa: D102 -- see `Table`

    @property
    def values(self) -> NDArray[np.float64]: ...  # noqa: D102 -- see `Table`

    def interval(self, level: float = 0.95) -> NDArray[np.float64]: ...  # noqa: D102 -- see `Table`


@takes_level
def histogram(table: NoisyTable, ax: Axes | None = None, *, level: float = 0.95) -> Axes:
    """Draw a table of one or two axes as bars, with intervals for the exact counts, one cell at a time.

    Parameters
    ----------
    table : Table
        The first axis goes along; each cell of the second has a colour. Bars are counts, and equally wide whatever
        their bins are.
    ax : Axes, optional
        Default those of a new figure.
    level : float
        Coverage of the intervals, in [0.5, 1).

    Returns
    -------
    Axes
        With a bar for each cell.

    Raises
    ------
    ValueError
        When the table has no axis, or more than two: draw a `margin`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import histogram
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> histogram(client.release("flchain", request).tables[0]).get_ylabel()
    'rows, with 95% intervals'
    """
    if not 1 <= len(table.axes) <= 2:
        raise ValueError("a table of one or two axes is drawn: take a margin of this one")
    ax = axes_or_new(ax)
    along = table.axes[0]
    names = ("",) if len(table.axes) == 1 else table.axes[1].labels
    values = table.values.reshape(along.size, len(names))
    limits = table.interval(level).reshape(along.size, len(names), 2)
    width = 0.8 / len(names)
    bars = []
    for k in range(len(names)):
        x = np.arange(along.size) + (k - (len(names) - 1) / 2.0) * width
        bars.append(ax.bar(x, values[:, k], width, color=color_of(ax, k), alpha=0.6, linewidth=0.0)[0])
        middle, half = limits[:, k].mean(axis=1), (limits[:, k, 1] - limits[:, k, 0]) / 2.0
        ax.errorbar(x, middle, half, fmt="none", ecolor=foreground(ax), elinewidth=1.2, capsize=2.5)
    ax.axhline(0.0, color=NEUTRAL, linewidth=0.8)
    _name_cells(ax, along)
    ax.yaxis.set_major_locator(MaxNLocator(6))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}".replace("-", "−"))
    ax.set_ylabel(f"rows, with {percent(level)} intervals", parse_math=False)
    if len(names) > 1:
        add_legend(ax, bars, [f"{table.axes[1].name} {name}" for name in names])
    return ax


def _name_cells(ax: Axes, axis: TableAxis) -> None:
    """Name the cells, or as many of them as there is room for; always that of missing values, which is no bin."""
    longest = max(map(len, axis.labels))
    room = max(width_of(ax) // (min(longest, 16) + 2), 2)
    step = -(-axis.size // room)
    shown = list(range(0, axis.size, step))
    if axis.missing and shown[-1] != axis.size - 1:
        shown = [i for i in shown if i <= axis.size - 1 - step] + [axis.size - 1]
    ax.set_xticks(shown, [plain(axis.labels[i], 16) for i in shown], parse_math=False)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(with_unit(axis.name, axis.column.unit), parse_math=False)
