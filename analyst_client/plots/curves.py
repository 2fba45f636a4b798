"""Curves of noisy tables: survival with its intervals, and receiver operating characteristics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analyst_client.analyses.roc import RocCurve
from analyst_client.analyses.survival import SurvivalCurves
from analyst_client.inference.summary import number
from analyst_client.plots.style import (
    NEUTRAL,
    Artist,
    Axes,
    Line2D,
    add_legend,
    add_line,
    axes_or_new,
    color_of,
    marker_of,
    percent,
    plain,
)


def survival_plot(curves: SurvivalCurves, ax: Axes | None = None) -> Axes:
    """Draw survival by group as steps, with intervals that hold at one time at a time.

    Parameters
    ----------
    curves : SurvivalCurves
        Of `kaplan_meier`. A curve ends where the noise hides who is at risk; its interval goes on.
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        With time along, and survival from 0 to 1.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, kaplan_meier
    >>> years = Factor("years", ("[0, 1)", "[1, 2)", "[2, 3)"), (0.0, 1.0, 2.0, 3.0))
    >>> factors = [years, Factor("dead", ("no", "yes")), Factor("arm", ("old", "new"))]
    >>> cells = [[[21.0, 18.0], [60.0, 41.0]], [[25.0, 22.0], [55.0, 38.0]], [[180.0, 240.0], [59.0, 41.0]]]
    >>> counts = ContingencyTable(cells, 2.0, factors=factors)
    >>> from analyst_client.plots import survival_plot
    >>> survival_plot(kaplan_meier(counts, "years", "dead", "arm")).get_ylabel()
    'survival, with 95% intervals'
    """
    ax = axes_or_new(ax)
    start = min(0.0, float(curves.times[0]))
    times = np.concatenate([[start], curves.times])
    handles: list[Artist] = []
    for g in range(len(curves.groups)):
        survival, low, high = (np.concatenate([[1.0], part[g]]) for part in (curves.survival, curves.low, curves.high))
        color = color_of(ax, g)
        ax.fill_between(times, low, high, step="post", color=color, alpha=0.18, linewidth=0.0, zorder=1.0)
        line = add_line(ax, times, survival, drawstyle="steps-post", color=color, linewidth=1.6, zorder=2.0)
        handles.append(line)
    ax.set_xlim(start, float(times[-1]))
    ax.set_ylim(0.0, 1.02)
    hidden = "\nno curve where the noise hides who is at risk" if np.isnan(curves.survival).any() else ""
    ax.set_xlabel(f"{plain(curves.time)}{hidden}", parse_math=False)
    ax.set_ylabel(f"survival, with {percent(curves.level)} intervals", parse_math=False)
    if len(handles) > 1:
        add_legend(ax, handles, list(curves.groups))
    return ax


def roc_plot(curves: RocCurve | Mapping[str, RocCurve], ax: Axes | None = None) -> Axes:
    """Draw receiver operating characteristics, with the intervals of both rates at each edge of the bins.

    Parameters
    ----------
    curves : RocCurve, or mapping of str to RocCurve
        Of `roc_curve`: one, or several by name.
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        With the line of no information, and the area under each curve with its interval.

    Raises
    ------
    ValueError
        When there is no curve.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client import ContingencyTable
    >>> from analyst_client.analyses import Factor, roc_curve
    >>> factors = [Factor("risk", ("low", "middle", "high")), Factor("ill", ("no", "yes"))]
    >>> counts = ContingencyTable([[310.0, 18.0], [140.0, 41.0], [52.0, 96.0]], 2.0, factors=factors)
    >>> from analyst_client.plots import roc_plot
    >>> roc_plot(roc_curve(counts, "risk", "ill")).get_xlabel().splitlines()
    ['false positive rate', '95% intervals, one rate at a time']
    """
    listed = {"": curves} if isinstance(curves, RocCurve) else dict(curves)
    if not listed:
        raise ValueError("a figure needs at least one curve")
    ax = axes_or_new(ax, width=5.0, height=5.0)
    add_line(ax, [0.0, 1.0], [0.0, 1.0], color=NEUTRAL, linewidth=0.8, zorder=0.5)
    handles: list[Artist] = []
    names = []
    for k, (name, curve) in enumerate(listed.items()):
        x, y = curve.false_positive, curve.true_positive
        style: dict[str, Any] = {"color": color_of(ax, k), "zorder": 2.0}
        for j, ((left, right), (low, high)) in enumerate(
            zip(curve.false_positive_interval, curve.true_positive_interval, strict=True)
        ):
            add_line(ax, [left, right], [y[j], y[j]], linewidth=1.0, alpha=0.5, **style)
            add_line(ax, [x[j], x[j]], [low, high], linewidth=1.0, alpha=0.5, **style)
        add_line(ax, x, y, linewidth=1.6, marker=marker_of(k), markersize=3.5, **style)
        handles.append(Line2D([], [], marker=marker_of(k), markersize=3.5, linewidth=1.6, color=color_of(ax, k)))
        area = f"AUC {number(curve.auc.value)} [{number(curve.auc.low)}, {number(curve.auc.high)}]"
        names.append(f"{name}: {area}" if name else area)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    levels = ", ".join(dict.fromkeys(percent(curve.auc.level) for curve in listed.values()))
    ax.set_xlabel(f"false positive rate\n{levels} intervals, one rate at a time", parse_math=False)
    ax.set_ylabel("true positive rate", parse_math=False)
    add_legend(ax, handles, names)
    return ax
