"""Size and coverage of the analyses of noisy tables, over rows, noise and its law. Prints Markdown.

Rows are drawn from a population, noise is added to each cell, and what a test rejects at 5 %, or a set at 95 %
misses, is counted. What is off 0.05 by more than four standard errors is bold: on the safe side too.

    python -m bench.tables [--repeats 4000] [--seed 1]
"""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analyst_client import ContingencyTable
from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.quadrics import bilinear, chi2_tail, normal_square, score_statistic
from analyst_client.analyses.roc import area_of
from analyst_client.analyses.survival import log_rank_of, rate_quadratic, rate_sums, survival_of
from analyst_client.analyses.tables import X0, X1, Y0, Y1
from analyst_client.errors import EstimationError
from analyst_client.inference.noise import LAPLACE_EXCESS_KURTOSIS

FloatArray = NDArray[np.float64]
LEVEL = 0.95
Z2 = normal_square(LEVEL)
SDS = (0.0, 4.0, 15.0, 40.0)
LAWS = ("gaussian", "laplace")
KURTOSIS = {"gaussian": 0.0, "laplace": LAPLACE_EXCESS_KURTOSIS}


class Draws:
    """Repeats of a table: rows that fall into cells, and noise."""

    def __init__(self, repeats: int, seed: int) -> None:
        self.repeats = repeats
        self.generator = np.random.default_rng(seed)

    def cells(self, rows: int, p: FloatArray, sd: float, law: str) -> FloatArray:
        """Return noisy cells of shape (repeats, *p.shape)."""
        exact = self.generator.multinomial(rows, p.ravel(), self.repeats)
        draw = self.generator.normal if law == "gaussian" else self.generator.laplace
        scale = sd if law == "gaussian" else sd / math.sqrt(2.0)
        return (exact + draw(0.0, scale, exact.shape)).reshape(self.repeats, *p.shape)


def noise_of(size: int, sd: float, law: str) -> CellNoise:
    """Return the noise of independent cells."""
    return CellNoise(sd * np.eye(size), np.full(size, KURTOSIS[law]))


def share(rejected: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Return the share of repeats that are rejected, or missed."""
    return float(np.mean(rejected))


def rejections(tables: FloatArray, sd: float, law: str, test: Callable[[ContingencyTable], float]) -> float:
    """Return how often a test's p-value is below 5 %; what it refuses to test is not rejected."""

    def p_of(cells: FloatArray) -> float:
        try:
            return test(ContingencyTable(cells, sd**2, excess_kurtosis=KURTOSIS[law]))
        except EstimationError:
            return 1.0

    return share([p_of(cells) < 0.05 for cells in tables])


def plain(cells: FloatArray) -> float:
    """Return the p-value of Pearson's test of noisy counts, as if they had none."""
    expected = stats.contingency.expected_freq(cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.sum((cells - expected) ** 2 / expected)
    return float(stats.chi2.sf(statistic, (cells.shape[0] - 1) * (cells.shape[1] - 1)))


def size_of_tests(draws: Draws, rows: int, sd: float, law: str, shape: tuple[int, int]) -> dict[str, float]:
    """Return the sizes of the tests of a table whose hypothesis is true."""
    p, q = (np.arange(2.0, 2.0 + k) for k in shape)
    joint = np.outer(p / p.sum(), q / q.sum())
    tables = draws.cells(rows, joint, sd, law)
    return {
        "independence": rejections(tables, sd, law, lambda table: table.independence_test().pvalue),
        "trend": rejections(tables, sd, law, lambda table: table.trend_test().pvalue),
        "fit": rejections(tables, sd, law, lambda table: table.goodness_of_fit(joint).pvalue),
        "plain χ²": share([plain(cells) < 0.05 for cells in tables]),
    }


def misses_of_effects(draws: Draws, rows: int, sd: float, law: str, risks: tuple[float, float]) -> dict[str, float]:
    """Return how often the sets of 2 × 2 cells miss what is true, groups being 2 to 3."""
    low, high = risks
    p = np.array([[0.4 * (1.0 - low), 0.4 * low], [0.6 * (1.0 - high), 0.6 * high]])
    cells = draws.cells(rows, p, sd, law).reshape(-1, 4)
    apart = bilinear(X1, X0 + Y0) - bilinear(X0, X1 + Y1)
    constraints = {
        "odds ratio": bilinear(X1, Y0) - high * (1.0 - low) / (low * (1.0 - high)) * bilinear(Y1, X0),
        "risk ratio": bilinear(X1, X0 + Y0) - high / low * bilinear(X0, X1 + Y1),
        "risk difference": apart - (high - low) * bilinear(X1 + Y1, X0 + Y0),
    }
    noise = noise_of(4, sd, law)
    return {name: share(score_statistic(cells, noise, Q, np.ones(4)) > Z2) for name, Q in constraints.items()}


def misses_of_proportions(draws: Draws, rows: int, sd: float, law: str, p: Sequence[float]) -> dict[str, float]:
    """Return how often intervals of proportions miss: of the whole table, and of the rarest cell."""
    true = np.array(p)
    missed = []
    for cells in draws.cells(rows, true, sd, law):
        found = ContingencyTable(cells, sd**2, excess_kurtosis=KURTOSIS[law]).proportions(level=LEVEL)
        missed.append((found.low > true) | (true > found.high))
    return {"all cells": share(np.array(missed)), "rarest cell": share(np.array(missed)[:, int(np.argmin(true))])}


HAZARDS = np.array([0.03, 0.05, 0.06, 0.08, 0.1, 0.1, 0.12, 0.15, 0.15, 0.2])
CENSORED = np.array([0.02, 0.02, 0.05, 0.05, 0.1, 0.1, 0.15, 0.2, 0.3, 1.0])


def lifetimes(hazards: FloatArray) -> FloatArray:
    """Return the probabilities of time by event, of shape (T, 2); who is censored leaves after the events."""
    there, p = 1.0, np.zeros((len(hazards), 2))
    for k, (hazard, leaving) in enumerate(zip(hazards, CENSORED, strict=True)):
        p[k] = there * (1.0 - hazard) * leaving, there * hazard
        there -= p[k].sum()
    return p


def misses_of_survival(draws: Draws, rows: int, sd: float, law: str, T: int = 10) -> dict[str, float]:
    """Return how often intervals of survival miss, and the log-rank test rejects equal groups of 2 to 3."""
    one = lifetimes(HAZARDS)
    cells = draws.cells(rows, np.stack([0.4 * one, 0.6 * one]), sd, law)
    first = cells[:, 0]
    survival, low, high, *_ = survival_of(first, noise_of(2 * T, sd, law), LEVEL)
    true = np.cumprod(1.0 - HAZARDS)
    missed = (low > true) | (true > high)
    found, kurtosis, _ = log_rank_of(cells, noise_of(4 * T, sd, law))
    p = [chi2_tail(*each) for each in np.nan_to_num(np.stack([found, np.ones_like(found), kurtosis], axis=1))]
    return {
        "survival, early": share(missed[:, 1]),
        "survival, middle": share(missed[:, 5]),
        "survival, last": share(missed[:, -1]),
        "hidden at the last": share(np.isnan(survival[:, -1])),
        "log-rank": share(np.array(p) < 1.0 - LEVEL),
    }


def misses_of_rates(draws: Draws, rows: int, sd: float, law: str, rate: float, T: int = 10) -> dict[str, float]:
    """Return how often sets of a rate and of the ratio of equal rates miss; whole time is left evenly over T units."""
    fine = (np.arange(1_000 * T) + 0.5) / 1_000.0
    there = np.exp(-rate * fine) / 1_000.0
    one = np.stack([there / T, rate * there * (1.0 - fine / T)], axis=1).reshape(T, 1_000, 2).sum(axis=1)
    one /= one.sum()
    cells = draws.cells(rows, np.stack([0.4 * one, 0.6 * one]), sd, law)
    M = rate_sums(2, np.arange(T + 1.0))
    sums, noise = cells.reshape(-1, 4 * T) @ M.T, noise_of(4 * T, sd, law).of(M)
    square, linear, constant = rate_quadratic(sums[:, :2], noise.of(np.eye(4)[:2]), LEVEL)
    d0, t0, d1, t1 = np.eye(4)
    Q = bilinear(d1, t0) - bilinear(d0, t1)
    ratio = score_statistic(sums, noise, Q, d0 + d1) > Z2
    return {"rate": share(square * rate**2 + linear * rate + constant > 0.0), "rate ratio": share(ratio)}


def misses_of_area(draws: Draws, rows: int, sd: float, law: str, shift: float, B: int = 12) -> dict[str, float]:
    """Return how often the set of an area under the curve misses it; a fifth of the rows have the outcome."""
    edges = np.concatenate([[-np.inf], np.linspace(-2.0, 2.0 + shift, B - 1), [np.inf]])
    y, x = (np.diff(stats.norm.cdf(edges, at)) for at in (0.0, shift))
    true = float(x @ (np.cumsum(y) - y / 2.0))
    cells = draws.cells(rows, np.stack([0.8 * y, 0.2 * x], axis=1), sd, law)
    _, square, linear, constant = area_of(cells, noise_of(2 * B, sd, law), LEVEL)
    return {f"AUC {true:.2f}": share(square * true**2 + linear * true + constant > 0.0)}


def row(head: str, found: dict[str, float], repeats: int) -> str:
    """Return a line; what is off 5 % is bold."""
    cells = []
    for name, value in found.items():
        off = abs(value - 0.05) > 4.0 * math.sqrt(0.05 * 0.95 / repeats) and not name.startswith(("plain", "hidden"))
        cells.append(f"**{value:.3f}**" if off else f"{value:.3f}")
    return f"| {head} | {' | '.join(cells)} |"


def grid(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of all tables."""
    draws = Draws(options.repeats, options.seed)
    parts: list[tuple[str, Callable[..., dict[str, float]], Sequence[object], Sequence[int]]] = [
        ("Tests, size", size_of_tests, ((2, 2), (2, 4), (4, 5)), (300, 2_000, 10_000)),
        ("Ratios of 2 × 2, misses", misses_of_effects, ((0.1, 0.2), (0.3, 0.5), (0.02, 0.03)), (300, 2_000, 10_000)),
        ("Proportions, misses", misses_of_proportions, ((0.5, 0.3, 0.2), (0.6, 0.39, 0.01)), (300, 2_000, 10_000)),
        ("Survival, misses", misses_of_survival, (10,), (500, 2_000, 10_000)),
        ("Rates, misses", misses_of_rates, (0.02, 0.15), (500, 2_000, 10_000)),
        ("Area under the curve, misses", misses_of_area, (0.0, 1.0, 2.5), (500, 2_000, 10_000)),
    ]
    for title, measure, cases, sizes in parts:
        yield f"\n### {title}\n"
        last: list[str] = []
        for case in cases:
            for rows in sizes:
                for sd in SDS:
                    for law in LAWS if sd else LAWS[:1]:
                        found = measure(draws, rows, sd, law, case)
                        if list(found) != last:
                            last = list(found)
                            yield f"\n| case, rows, sd, law | {' | '.join(found)} |\n| :--- |{' ---: |' * len(found)}"
                        yield row(f"{case}, {rows:,}, {sd:g}, {law if sd else '–'}", found, options.repeats)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="size and coverage of analyses of noisy tables")
    parser.add_argument("--repeats", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    for line in grid(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
