"""The figure of the verdict: lengths of intervals, and how often the conclusion is the one without privacy."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from experiments.metrics import Floats

mpl.use("Agg")
from matplotlib import pyplot as plt

from analyst_client.plots.style import MARKERS, ON_LIGHT

LONGEST = 30.0
"""What is longer, or has no end, stands at the edge."""


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
