"""Figures of studies/verdict.md and of docs/which-method.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

from studies.metrics import Floats

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from analyst_client.plots.style import MARKERS, NEUTRAL, ON_LIGHT, plain_ticks

LONGEST = 30.0
"""What is longer, or has no end, stands at the edge."""
LOWEST = -0.5
"""Part of what can be explained, below which it stands at the edge."""


def draw(path: Path, cells: Mapping[tuple[str, float], tuple[Sequence[str], Floats, Floats]]) -> None:
    """Draw, of each model and coefficient and for every ε, the median relative length and the share of agreement.

    Parameters
    ----------
    path : Path
    cells : mapping of (str, float) to (sequence of str, ndarray of shape (P,), ndarray of shape (P,))
        By model and ε: names of coefficients, median relative lengths, and shares of releases.
    """
    models = list(dict.fromkeys(model for model, _ in cells))
    prices = sorted({epsilon for _, epsilon in cells})
    labels: list[str] = []
    places: list[float] = []
    heads: list[tuple[str, float]] = []
    top = 0.0
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.0, 7.2), sharey=True, layout="constrained", gridspec_kw={"wspace": 0.06}
    )
    for model in models:
        names = cells[model, prices[0]][0]
        heads.append((model, top))
        rows = top + 1.0 + np.arange(len(names))
        labels += names
        places += rows.tolist()
        for series, epsilon in enumerate(prices):
            _, lengths, agreed = cells[model, epsilon]
            shown = rows + 0.26 * (series - (len(prices) - 1) / 2)
            style = {"color": ON_LIGHT[series], "linestyle": "none", "markersize": 6.5}
            inside = lengths < LONGEST
            label = f"ε = {epsilon:g}" if model == models[0] else None
            left.plot(lengths[inside], shown[inside], marker=MARKERS[series], label=label, **style)
            for place in shown[~inside]:
                left.plot(LONGEST, place, marker=">", clip_on=False, **style)
            right.plot(agreed, shown, marker=MARKERS[series], clip_on=False, **style)
        top += len(names) + 1.6
    for place in places:
        for axes in (left, right):
            axes.axhline(place, color="#e4e4e4", linewidth=0.8, zorder=0)
    for text, place in heads:
        left.text(-0.02, place, text, transform=left.get_yaxis_transform(), ha="right", va="center", weight="bold")
    left.set_yticks(places, labels)
    left.set_ylim(top - 0.8, -0.8)
    left.set_xscale("log")
    left.set_xlim(0.97, LONGEST)
    left.set_xticks([1, 1.5, 2, 3, 5, 10, LONGEST], ["1", "1.5", "2", "3", "5", "10", "no end"])
    left.minorticks_off()
    left.set_xlabel("length of intervals over those without privacy, median")
    right.set_xlim(-0.03, 1.0)
    right.set_xlabel("releases with sign and significance as without privacy")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=len(prices), frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


@dataclass(frozen=True)
class BandPanel:
    """Lines with bands, of one panel.

    Attributes
    ----------
    title : str
    places : ndarray of shape (k,)
        Along the logarithmic axis.
    bands : mapping of str to ndarray of shape (k, 3)
        By name, the lower end, the line and the upper end; filled where there may be points of that name.
    points : mapping of str to ndarray of shape (m, 2)
        By name, places and values of single points.
    """

    title: str
    places: Floats
    bands: Mapping[str, Floats]
    points: Mapping[str, Floats]

    def draw(self, axes: Axes, low: float, high: float, colors: Mapping[str, str]) -> None:
        """Draw within a range; what is beyond stands at its edge."""
        for name, band in self.bands.items():
            lower, line, upper = np.clip(band, low, high).T
            if name in self.points:
                axes.fill_between(self.places, lower, upper, color=colors[name], alpha=0.14, linewidth=0.0)
            style = {"color": colors[name], "marker": MARKERS[list(colors).index(name)]}
            axes.plot(self.places, line, label=name, linewidth=1.8, markersize=5.0, clip_on=False, zorder=3, **style)
        for name, points in self.points.items():
            x, y = points.T
            style = {"facecolors": "none", "edgecolors": colors[name], "marker": MARKERS[list(colors).index(name)]}
            axes.scatter(x, np.clip(y, low, high), s=16, linewidths=0.8, alpha=0.8, clip_on=False, **style)
        axes.set_title(self.title)
        axes.set_xscale("log")
        axes.set_ylim(low, high)
        axes.grid(visible=True, axis="both", color="#e8e8e8", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)


def draw_bands(path: Path, kept: Sequence[BandPanel], lengths: Sequence[BandPanel]) -> None:
    """Draw what methods keep, and below it lengths of intervals.

    Parameters
    ----------
    path : Path
    kept, lengths : sequence of BandPanel
        Of one column each.
    """
    names = list(kept[0].bands)
    colors = dict(zip(names, (NEUTRAL, ON_LIGHT[1], ON_LIGHT[3], ON_LIGHT[0]), strict=True))
    figure, grid = plt.subplots(
        2, len(kept), figsize=(10.0, 7.6), sharex=True, sharey="row", layout="constrained", squeeze=False
    )
    for axes, panel in zip(grid[0], kept, strict=True):
        panel.draw(axes, LOWEST, 1.05, colors)
        axes.set_yticks([LOWEST, 0.0, 0.5, 1.0], ["−0.5 or less", "0", "0.5", "1"])
    for axes, panel in zip(grid[1], lengths, strict=True):
        axes.set_yscale("log")
        panel.draw(axes, 0.9, LONGEST, colors)
        axes.set_yticks([1, 2, 3, 5, 10, LONGEST], ["1", "2", "3", "5", "10", "30 or no end"])
        axes.minorticks_off()
        axes.set(title="", xlabel="$n\\mu\\,/\\,d^{1.5}$")
        plain_ticks(axes.xaxis, *axes.get_xlim())
    grid[0, 0].set_ylabel("part of what can be explained")
    grid[1, 0].set_ylabel("length of intervals over least squares'")
    grid[0, 0].scatter([], [], s=16, linewidths=0.8, facecolors="none", edgecolors="black", label="real sets")
    figure.get_layout_engine().set(hspace=0.06)
    marks, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(marks, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
