"""Shared by the reproductions of studies/literature.md: datasets at a served curator, numbers, tables, figures.

Numbers are means with their standard errors. A released number carries noise from the operating system, so another run
differs by the errors stated; rows that are made up come from fixed seeds.
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from analyst_client import CuratorClient, Release
from bench.recipes import Bounds, register
from bench.serving import Server, open_population, serve
from bench.uci import column_names
from curator_service.container import Curator
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price
from studies.metrics import Floats, Proportion

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from analyst_client.plots.style import ON_LIGHT, marker_of

IMAGES = Path(__file__).with_name("images")
DELTA = 1e-6
ANALYST = "experiment"


class Shelf:
    """Datasets at a served curator, and releases of them through its HTTP interface.

    Parameters
    ----------
    server : Server
    folder : Path
        Where rows are written for registration; it goes with the server.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self._server, self._folder = server, folder
        token = server.curator.identity.create_token(ANALYST, Role.ANALYST).text
        self.client = CuratorClient(f"http://127.0.0.1:{server.port}", token, memory=None)
        self._features: dict[str, list[str]] = {}

    def offer(self, name: str, bounds: Bounds, rows: Floats) -> None:
        """Register rows, the target last, under declared bounds."""
        register(self._server.curator, self._folder, name, bounds, rows)
        self._server.grant(ANALYST, name)
        self._features[name] = column_names(len(bounds))[:-1]

    def buy(self, name: str, **options: Any) -> Release:
        """Buy a release with noise of its own, whatever was released before."""
        options = {"delta": DELTA, "fresh": True} | options
        return self.client.release(name, self._features[name], target="y", **options)

    def charged(self, name: str, **options: Any) -> float:
        """Return the ε at δ = 1e-6 of what the ledger would charge for a release."""
        quote = self.client.quote(name, self._features[name], target="y", **({"delta": DELTA} | options))
        return quote.cost.epsilon


@contextmanager
def open_shelf() -> Iterator[Shelf]:
    """Serve a curator in a temporary folder, with a budget for repeats that no hospital would grant."""
    folders: list[Path] = []

    def set_up(curator: Curator, folder: Path) -> None:
        folders.append(folder)
        open_population(curator, "uci", Price(mu=300.0))

    with serve(set_up, app="curator_service.app:create_app") as server:
        shelf = Shelf(server, folders[0])
        with shelf.client:
            yield shelf


def mean_squared_error(truth: Floats, predicted: Floats, unit: float = 1.0) -> float:
    """Return the mean squared error of predictions, both in multiples of a unit.

    Examples
    --------
    >>> mean_squared_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]), unit=2.0)
    0.5
    """
    return float(np.mean((truth - predicted) ** 2)) / unit**2


def over_folds(values: Iterable[Iterable[float]]) -> Proportion:
    """Average over releases within each fold, then over folds: the error is that of folds, noise included.

    Examples
    --------
    >>> print(over_folds([[1.0, 3.0], [4.0, 4.0]]))
    3.000 ± 1.000
    """
    return Proportion.of([float(np.mean(list(fold))) for fold in values])


def number(value: float) -> str:
    """Show an error to four decimals, and a large one to three digits.

    Examples
    --------
    >>> number(0.05881), number(58.52), number(1.2e9), number(math.inf)
    ('0.0588', '58.5', '1.2e+09', '∞')
    """
    if math.isinf(value):
        return "∞"
    return f"{value:.4f}" if abs(value) < 10.0 else f"{value:.3g}"


def shown(mean: Proportion) -> str:
    """Show a mean and its standard error.

    Examples
    --------
    >>> shown(Proportion(0.05881, 0.0012))
    '0.0588 ± 0.0012'
    """
    return f"{number(mean.value)} ± {number(mean.error)}"


def head(words: Sequence[str], figures: Sequence[str]) -> str:
    """Return the head of a Markdown table: columns of words, then columns of figures.

    Examples
    --------
    >>> print(head(["set"], ["rows"]))
    | set | rows |
    | --- | ---: |
    """
    rule = [*("---" for _ in words), *("---:" for _ in figures)]
    return f"{line(*words, *figures)}\n{line(*rule)}"


def line(*cells: object) -> str:
    """Return a line of a Markdown table.

    Examples
    --------
    >>> line("airfoil", 1503)
    '| airfoil | 1503 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def print_table(words: Sequence[str], figures: Sequence[str], lines: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table and an empty line.

    Examples
    --------
    >>> print_table(["set"], ["rows"], [("airfoil", 1503)])
    | set | rows |
    | --- | ---: |
    | airfoil | 1503 |
    <BLANKLINE>
    """
    print("\n".join([head(words, figures), *(line(*cells) for cells in lines)]), end="\n\n")


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: lines with the standard errors of their points.

    Attributes
    ----------
    title, xlabel, ylabel : str
    series : mapping of str to mapping of float to Proportion
        By name of the line, its points.
    levels : mapping of str to float
        Horizontal lines, by name.
    logarithmic : tuple of bool
        Whether each axis is.
    ylim : tuple of float, optional
    places : tuple of str
        Names of the places 0, 1, … of the first axis: points are not joined.
    """

    title: str
    xlabel: str
    ylabel: str
    series: Mapping[str, Mapping[float, Proportion]]
    levels: Mapping[str, float]
    logarithmic: tuple[bool, bool] = (True, True)
    ylim: tuple[float, float] | None = None
    places: tuple[str, ...] = ()

    def draw(self, axes: Axes, order: Sequence[str]) -> None:
        """Draw; a name has the same colour and mark in every panel."""
        for name, points in self.series.items():
            place = order.index(name)
            style: dict[str, Any] = {"color": ON_LIGHT[place % len(ON_LIGHT)], "marker": marker_of(place)}
            if self.places:
                style["linestyle"] = "none"
            values, errors = ([getattr(point, each) for point in points.values()] for each in ("value", "error"))
            shift = 0.11 * (place - (len(order) - 1) / 2) if self.places else 0.0
            at = [x + shift for x in points]
            axes.errorbar(at, values, errors, label=name, markersize=5.0, capsize=2.0, linewidth=1.2, **style)
        for (name, level), dashes in zip(self.levels.items(), ("--", ":", "-."), strict=False):
            axes.axhline(level, color="#606060", linestyle=dashes, linewidth=1.0, label=name)
        axes.set(title=self.title, xlabel=self.xlabel, ylabel=self.ylabel)
        axes.set_xscale("log" if self.logarithmic[0] else "linear")
        axes.set_yscale("log" if self.logarithmic[1] else "linear")
        if self.places:
            axes.set_xticks(range(len(self.places)), self.places, fontsize="small")
        if self.ylim is not None:
            axes.set_ylim(self.ylim)
        axes.spines[["top", "right"]].set_visible(False)


def draw_panels(path: Path, panels: Sequence[Panel], columns: int) -> None:
    """Draw panels beside each other, with one legend for all."""
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.5 * rows), layout="constrained", squeeze=False)
    order = list(dict.fromkeys(name for panel in panels for name in panel.series))
    for axes, panel in zip(grid.flat, panels, strict=False):
        panel.draw(axes, order)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    marks: dict[str, Any] = {}
    for axes in grid.flat:
        marks |= {label: mark for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(marks.values(), marks, loc="outside upper center", ncols=min(len(marks), 4), frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def parser_of(doc: str, figure: str, *, reads: bool) -> argparse.ArgumentParser:
    """Return a parser with what every reproduction has: where rows are, if it reads any, and where its figure goes."""
    parser = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    if reads:
        parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--figure", type=Path, default=IMAGES / figure)
    return parser
