"""Row map with the shortest intervals for one release: of public numbers, the box, or chosen in two charged steps.

Each set is a population: rows are drawn from it anew, with replacement, as many as it has, and of the small ones also
ten times as many. A cell is a set at ε, over draws of rows and noise: in the median over draws and slopes, the length
of 95 % intervals under each map over the shorter of the public default and the box, where one of these two has an end;
the part of slopes that have an end in half of the draws; R²; coverage of the coefficients that the release states (of
weighted rows), and of unweighted ones, among intervals with an end. The counts are paid for. Prints Markdown.

    python -m bench.row_maps --data DIR [--cps FILE] [--flchain FILE] [--draws 50] [--sets NAME …]

DIR holds NAME/data.csv.gz (last column: the response), as in the collection treforevans/uci_datasets; FILE are
`cpssw8.csv` of the R package AER, and `flchain.csv` of the example.
"""

import argparse
import csv
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client import SSP, EstimationError, Release
from analyst_client.kinds import Noise
from analyst_client.kinds.gram.row_lengths import SHARE
from analyst_client.kinds.gram.two_steps import choose_rows
from analyst_client.kinds.score.release import NORM_EDGES
from analyst_client.planning.prices import gdp_delta, number_of
from bench.simulation import DELTA, STATISTICS
from bench.uci import outward
from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.plan import default_shares
from curator_service.privacy.design import Column, ColumnType, make_design

Floats = npt.NDArray[np.float64]
EPSILONS = (0.3, 1.0, 3.0)
SMALL = 20_000
"""Sets of fewer rows are drawn ten times as large, too."""
PARTS = {statistic.value: float(share) for statistic, share in default_shares(STATISTICS).items()}
CAPACITIES = [m * 10**k for k in range(2, 9) for m in (1, 2, 5)]
MAPS = ("public", "box", "two steps")


class Population(NamedTuple):
    """Terms, the constant first, and a target, all within [−1, 1]."""

    x: Floats
    y: Floats


class Cell(NamedTuple):
    """Outcome of one map: lengths and coverage by draw and slope, and the norms."""

    lengths: Floats
    weighted: Floats
    plain: Floats
    squared: Floats


def coded(values: Any, low: float, high: float) -> Floats:
    """Scale a column by its bounds."""
    return np.clip((np.asarray(values, dtype=np.float64) - (low + high) / 2.0) / ((high - low) / 2.0), -1.0, 1.0)


def with_constant(y: Floats, *terms: Floats) -> Population:
    """Return a population of these terms, without those that repeat others."""
    x = np.ones((len(y), 1))
    for term in terms:
        residual = term - x @ np.linalg.lstsq(x, term)[0]
        if residual.var() > 1e-6 * term.var():
            x = np.column_stack([x, term])
    return Population(x, y)


def read_uci(folder: Path) -> Population:
    """Read a set, with bounds at its ranges, rounded outward."""
    data = np.loadtxt(folder / "data.csv.gz", delimiter=",")
    *terms, y = (coded(column, *outward(column.min(), column.max())) for column in data.T)
    return with_constant(y, *terms)


def read_cps(path: Path) -> dict[str, Population]:
    """Return the four formulas of the published doubt: linear, with a square, a cube, an interaction."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wage, age, school = (np.array([float(row[name]) for row in rows]) for name in ("earnings", "age", "education"))
    female = np.array([float(row["gender"] == "female") for row in rows])
    past = np.maximum(0.0, age - school - 6.0)
    y, education = coded(np.log(wage), 0.5, 5.0), coded(school, 4.0, 22.0)
    powers = [coded(past**k, 0.0, 55.0**k) for k in (1, 2, 3)]
    return {
        "cps linear": with_constant(y, education, powers[0], female),
        "cps square": with_constant(y, education, *powers[:2], female),
        "cps cubic": with_constant(y, education, *powers, female),
        "cps interaction": with_constant(y, education, *powers[:2], female, coded(past * female, 0.0, 55.0)),
    }


def read_flchain(path: Path) -> dict[str, Population]:
    """Return kappa by age, sex and lambda within wide bounds, and the logarithms."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    age, kappa, chain = (np.array([float(row[name]) for row in rows]) for name in ("age", "kappa", "lambda"))
    male, top = np.array([float(row["sex"] == "M") for row in rows]), math.log(21.0)
    years = coded(age, 50.0, 110.0)
    return {
        "flchain": with_constant(coded(kappa, 0.0, 20.0), years, male, coded(chain, 0.0, 20.0)),
        "flchain, logs": with_constant(coded(np.log1p(kappa), 0.0, top), years, male, coded(np.log1p(chain), 0.0, top)),
    }


def make_sets(n: int = 5000, d: int = 5) -> dict[str, Population]:
    """Return made populations, of n rows and d features, each of one kind of trouble."""
    generator, beta = np.random.default_rng(1), np.array([0.5, -0.3, 0.2, 0.1, 0.0])
    normal = generator.standard_normal((n, d))
    heavy = generator.standard_t(3, (n, d))
    zeros = generator.gamma(1.0, 1.0, (n, d)) * (generator.uniform(size=(n, d)) < 0.2)
    residual = generator.standard_normal(n)
    made = {
        "gaussian": (normal, normal @ beta + residual, (-5.0, 5.0), (-8.0, 8.0)),
        "heteroskedastic": (normal, normal @ beta + residual * np.exp(normal[:, 0] / 2.0), (-5.0, 5.0), (-8.0, 8.0)),
        "t3": (heavy, heavy @ beta + generator.standard_t(3, n), (-15.0, 15.0), (-20.0, 20.0)),
        "zero-inflated": (zeros, zeros @ beta + residual, (0.0, 10.0), (-8.0, 8.0)),
    }
    return {
        name: with_constant(coded(y, *range_y), *(coded(column, *range_x) for column in x.T))
        for name, (x, y, range_x, range_y) in made.items()
    }


def moments(population: Population, counts: Floats, squared: float) -> tuple[Floats, Floats, float]:
    """Return XᵀX, Xᵀy and yᵀy of rows that are drawn so often, and shrunk to a norm."""
    weights = counts * np.minimum(1.0, squared / np.sum(population.x**2, axis=1))
    weighted = population.x * weights[:, np.newaxis]
    return weighted.T @ population.x, weighted.T @ population.y, float(weights @ population.y**2)


def release(sums: tuple[Floats, Floats, float], squared: float, mu: float, generator: np.random.Generator) -> Release:
    """Add a curator's noise."""
    xtx, xty, yty = sums
    d = len(xty)
    sd = {
        name: length / (mu * math.sqrt(PARTS[name]))
        for name, length in (("xtx", squared), ("xty", math.sqrt(squared)), ("yty", 1.0))
    }
    beside = np.triu(sd["xtx"] / math.sqrt(2.0) * generator.standard_normal((d, d)), 1)
    noise = beside + beside.T + np.diag(sd["xtx"] * generator.standard_normal(d))
    return Release.from_arrays(
        (xtx + xtx.T) / 2.0 + noise,
        (xty + sd["xty"] * generator.standard_normal(d))[:, np.newaxis],
        np.array([yty + sd["yty"] * generator.standard_normal()]),
        noise=Noise(sd["xtx"], sd["xtx"] / math.sqrt(2.0), sd["xty"], sd["yty"], distribution="discrete_gaussian"),
        norm=None if squared >= d else math.sqrt(squared),
    )


def public_square(n: int, d: int, mu: float) -> float:
    """Return R² of the default that public numbers choose, at the next round capacity above 1.2 n."""
    columns = tuple(Column(f"x{j}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for j in range(d - 1))
    design = make_design(columns, (), intercept=True)
    norm = default_row_maps(design)[0]["norm"]
    capacity = next(c for c in CAPACITIES if c >= 1.2 * n)
    noise = {"xty": norm / (mu * math.sqrt(PARTS["xty"]))}
    return float(choose_row_map(design, noise, expected_rows=None, row_capacity=capacity)["norm"]) ** 2


def chosen_square(population: Population, counts: Floats, mu: float, generator: np.random.Generator) -> float:
    """Return R² as two steps choose it."""
    groups, sd = population.x.shape[1] - 1, 1.0 / (mu * math.sqrt(SHARE))
    lengths = np.sqrt(np.sum(population.x[:, 1:] ** 2, axis=1) / groups)
    places = np.searchsorted(NORM_EDGES, lengths, side="right")
    told = np.bincount(places, counts, minlength=len(NORM_EDGES) + 1) + sd * generator.standard_normal(13)
    norms: Any = SimpleNamespace(norms=told, directions=np.eye(1) / math.sqrt(groups), noise=SimpleNamespace(norms=sd))
    rows = choose_rows(norms, groups, 1.0 / (mu * math.sqrt(PARTS["xty"] * (1.0 - SHARE))))
    return float(rows.get("norm", math.sqrt(groups + 1.0))) ** 2


def measure(population: Population, n: int, epsilon: float, draws: int) -> dict[str, Cell]:
    """Buy releases under each map, and hold their intervals against the population."""
    whole, d = len(population.y), population.x.shape[1]
    mu = number_of(gdp_delta, epsilon, DELTA)
    once = np.ones(whole)
    plain = np.linalg.solve(*moments(population, once, float(d))[:2])[1:]
    found: dict[str, list[tuple[Floats, ...]]] = {name: [] for name in MAPS}
    truths: dict[float, Floats] = {}
    for draw in range(draws):
        generator = np.random.default_rng(draw)
        counts = generator.multinomial(n, np.full(whole, 1.0 / whole)).astype(np.float64)
        squares = {
            "public": public_square(n, d, mu),
            "box": float(d),
            "two steps": chosen_square(population, counts, mu, generator),
        }
        for name, squared in squares.items():
            if squared not in truths:
                truths[squared] = np.linalg.solve(*moments(population, once, squared)[:2])[1:]
            paid = mu * math.sqrt(1.0 - SHARE) if name == "two steps" else mu
            bought = release(moments(population, counts, squared), squared, paid, generator)
            try:
                low, high = SSP().fit(bought).conf_int().T[:, 1:]
            except EstimationError:  # noise hides the rows
                low, high = np.full(d - 1, -np.inf), np.full(d - 1, np.inf)
            ends = np.isfinite(high - low)
            held = [np.where(ends, (low <= truth) & (truth <= high), np.nan) for truth in (truths[squared], plain)]
            found[name].append((np.where(ends, high - low, np.inf), *held, np.array([squared])))
    return {name: Cell(*map(np.array, zip(*draws_of, strict=True))) for name, draws_of in found.items()}


def cells(options: argparse.Namespace) -> Iterator[tuple[str, int, float, dict[str, Cell]]]:
    """Yield each set, number of rows and ε, with the outcome of each map."""
    sets = {path.parent.name: read_uci(path.parent) for path in sorted(options.data.glob("*/data.csv.gz"))}
    sets |= read_flchain(options.flchain) if options.flchain else {}
    sets |= (read_cps(options.cps) if options.cps else {}) | make_sets()
    for name, population in sets.items():
        if options.sets and name not in options.sets:
            continue
        for times in (1, 10) if len(population.y) < SMALL else (1,):
            for epsilon in EPSILONS:
                n = times * len(population.y)
                yield name, n, epsilon, measure(population, n, epsilon, options.draws)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cps", type=Path)
    parser.add_argument("--flchain", type=Path)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--sets", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| set | rows | ε | public | box | two steps | with an end | R² | coverage | of unweighted, public and here |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    ratios, weighted = [], []
    for name, n, epsilon, found in cells(options):
        length = {each: np.median(cell.lengths, axis=0) for each, cell in found.items()}
        best = np.minimum(length["public"], length["box"])
        ends = np.isfinite(best)
        ratio = [float(np.median(length[each][ends] / best[ends])) if ends.any() else math.nan for each in MAPS]
        covered = [float(np.nanmean(cell)) for cell in (found["two steps"].weighted, found["two steps"].plain)]
        before = float(np.nanmean(found["public"].plain))
        shares = " / ".join(f"{np.mean(np.isfinite(length[each])):.2f}" for each in MAPS)
        squares = " / ".join(f"{np.median(found[each].squared):.3g}" for each in ("public", "two steps"))
        numbers = " | ".join(f"{one:.2f}" for one in ratio)
        print(
            f"| {name} | {n:,} | {epsilon:g} | {numbers} | {shares} | {squares} | {covered[0]:.3f} "
            f"| {before:.3f} / {covered[1]:.3f} |",
            flush=True,
        )
        if ends.mean() >= 0.5:
            ratios.append((name, ratio[-1]))
            weighted.append(covered[0])
    lengths = np.array([one for _, one in ratios])
    worst = sorted({name for name, one in ratios if one > 1.2})
    print(
        f"\nWhere at least half of the slopes have an end ({len(ratios)} cells): "
        f"{np.exp(np.mean(np.log(lengths))):.2f} of the shorter of both in the geometric mean, {lengths.max():.2f} at "
        f"worst; above 1.2: "
        f"{', '.join(worst) or 'none'}. Coverage of the stated coefficients: {np.mean(weighted):.3f}, at worst "
        f"{min(weighted):.3f}."
    )


if __name__ == "__main__":
    main()
