"""The style of all figures: colours that survive colour blindness, plain names, few lines."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.display.model import UNPRINTABLE

__all__ = ["Artist", "Axes", "FixedLocator", "Line2D", "MaxNLocator", "NullLocator"]

if TYPE_CHECKING:
    from matplotlib.axis import Axis

try:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
except ImportError:
    raise ImportError("figures need matplotlib: pip install 'dp-curator-client[plots]'") from None

# Okabe and Ito's palette, in two orders: what is lost on a page comes last or not at all.
ON_LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
ON_DARK = ("#56B4E9", "#E69F00", "#00B98A", "#CC79A7", "#F0E442", "#D55E00")
MARKERS = ("o", "s", "^", "D", "v", "P")
NEUTRAL = "#808080"
LONGEST_NAME = 36
CHARACTERS_PER_INCH = 12.0
LEGEND_MARK = 7
"""Characters that a mark in a legend takes."""


def axes_or_new(ax: Axes | None, width: float = 6.0, height: float = 4.0) -> Axes:
    """Return the Axes, or those of a new figure of this size in inches; without the lines that say nothing."""
    if ax is None:
        from matplotlib import pyplot as plt  # noqa: PLC0415 -- whoever brings an Axes may do without pyplot

        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def foreground(ax: Axes) -> Any:
    """Return the colour of the text around an Axes: dark on light, light on dark."""
    return ax.xaxis.label.get_color()


def color_of(ax: Axes, series: int) -> str:
    """Return the colour of the series at a position; the first two differ most."""
    palette = ON_DARK if sum(to_rgb(foreground(ax))) > 1.5 else ON_LIGHT
    return palette[series % len(palette)]


def marker_of(series: int) -> str:
    """Return the mark of the series at a position; with its colour, 30 series are told apart."""
    return MARKERS[(series + series // len(ON_LIGHT)) % len(MARKERS)]


def plain(name: str, longest: int = LONGEST_NAME) -> str:
    r"""Return a name that can be printed, in one line, shortened in its middle.

    Examples
    --------
    >>> plain("age\n\x07"), plain("systolic blood pressure", 16)
    ('age �', 'systolic…ressure')
    """
    shown = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(name.split()) if name.strip() else name)
    if len(shown) <= longest:
        return shown
    kept = longest - 1
    return f"{shown[: kept - kept // 2]}…{shown[len(shown) - kept // 2 :]}"


def with_unit(name: str, unit: str | None, longest: int = LONGEST_NAME) -> str:
    """Return a name and its unit.

    Examples
    --------
    >>> with_unit("age", "years"), with_unit("x", None)
    ('age (years)', 'x')
    """
    return f"{plain(name, longest)} ({plain(unit, 16)})" if unit else plain(name, longest)


def percent(share: float) -> str:
    """Write a probability as a percentage with no more decimals than it has.

    Examples
    --------
    >>> percent(0.95), percent(1 - 0.001)
    ('95%', '99.9%')
    """
    return f"{100.0 * share:.4g}%"


def mark_zero(ax: Axes, *, vertical: bool, at: float = 0.0) -> None:
    """Draw the line of no effect, which is at 1 of ratios."""
    draw = ax.axvline if vertical else ax.axhline
    draw(at, color=NEUTRAL, linewidth=0.8, zorder=0.5)


def plain_ticks(axis: "Axis", low: float, high: float) -> None:
    """Write 0.1, 1 and 10 along a logarithmic axis, and numbers between them where there is room."""
    decades = math.log10(high / low)
    between = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0, 3.0) if decades < 4.0 else (1.0,)
    axis.set_major_locator(LogLocator(subs=between))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: write_tick(value))


def write_tick(value: float) -> str:
    """Write a number of a logarithmic axis.

    Examples
    --------
    >>> write_tick(0.05), write_tick(-2000.0), write_tick(1e6)
    ('0.05', '−2,000', '10⁶')
    """
    if 1e-4 <= abs(value) < 1e5 or value == 0.0:
        return f"{value:,.10g}".replace("-", "−")
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    factor = f"{value / 10.0**exponent:.3g}·".replace("-", "−")
    power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'' if factor == '1·' else factor}10{power}"


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Label the rows of an axis with names, from top to bottom; no name is read as a mathematical formula."""
    ax.set_yticks(range(len(names)), list(names), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def width_of(ax: Axes) -> int:
    """Return how many characters stand beside each other in an Axes, roughly: a layout may still change it."""
    figure = ax.get_figure(root=True)
    inches = figure.get_figwidth() if figure is not None else 6.0
    return int(CHARACTERS_PER_INCH * inches * min(1.15 * ax.get_position().width, 1.0))


def add_legend(
    ax: Axes, handles: Sequence[Artist], names: Sequence[str], *, beside: int = 0, small: bool = False
) -> None:
    """Put a legend above the Axes, where it covers nothing; a name is never a formula.

    Parameters
    ----------
    ax : Axes
    handles : sequence of Artist
    names : sequence of str
    beside : int
        Characters of the width that something else takes.
    small : bool
        Small print.
    """
    shown = [plain(name, 56) for name in names]
    width = int(1.4 * width_of(ax)) if small else width_of(ax) - beside
    legend = ax.legend(
        handles,
        ["…"] * len(shown),  # matplotlib leaves out names that begin with an underscore
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        borderpad=0.2,
        columnspacing=1.5,
        fontsize="small" if small else "medium",
        handlelength=1.0 if small else 2.0,
        frameon=False,
        ncols=count_columns([len(name) + LEGEND_MARK for name in shown], width),
    )
    for text, name in zip(legend.get_texts(), shown, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def count_columns(lengths: Sequence[int], width: int) -> int:
    """Return the largest number of columns, filled one after the other, that fit a width.

    Examples
    --------
    >>> count_columns([10, 10, 10], 30), count_columns([10, 10, 30, 5], 40)
    (3, 2)
    """
    for count in range(len(lengths), 1, -1):
        rows, longer = divmod(len(lengths), count)
        ends = [rows * (i + 1) + min(i + 1, longer) for i in range(count)]
        if sum(max(lengths[start:end]) for start, end in zip([0, *ends], ends, strict=False)) <= width:
            return count
    return 1


def add_line(ax: Axes, x: ArrayLike, y: ArrayLike, **style: Any) -> Line2D:
    """Add a line that does not move the limits of the Axes."""
    line = Line2D(np.asarray(x), np.asarray(y), **style)
    ax.add_artist(line)
    return line
