"""What a plan of several releases could reach beside AdaSSP: a simulation with ideal noise, to choose its rules by.

A budget µ is spent on marginals of each column, on XᵀX and Xᵀy of recentred rows, and on clipped gradients at points
that follow from what was bought before. Every one of these is a noisy linear measurement of one pair A = XᵀX, b = Xᵀy
of the recentred rows, so they are combined as such: a Gaussian belief about (A, b), begun from what recentred columns
must look like. Rows are those of sets of the UCI collection, with made-up public bounds: ``tight``, the range widened
by 5 to 25 % a side, and ``loose``, three times as wide around another centre. Noise is normal, nothing is rounded, and
what is spent is counted in µ². AdaSSP is Wang's own algorithm [1]_ on the same bounds.

The figure of a cell is the excess of the squared error on test rows over that of least squares, or of its winsorised
twin where that is better, at least 1 % of it; of the ten splits together. The last line is the geometric mean of its
ratio to AdaSSP's over sets that hold a signal. Prints Markdown.

    python -m experiments.plans --data DIR [--epsilons 1 0.1] [--bounds tight loose] [--seeds 2]

References
----------
.. [1] Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, algorithm 2.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.solution import shrunk_coefficients
from bench.uci import load, outward

Floats = npt.NDArray[Any]
RowMap = Callable[[Floats], tuple[Floats, Floats]]
SIGNAL = ("airfoil", "bike", "concrete", "elevators", "protein", "sml", "wine")
BESIDE = ("kin40k", "tamielectric")
DELTA = 1e-6
FLOOR = 0.01


@dataclass(frozen=True)
class Rules:
    """Numbers of the plan that are no statistics of rows.

    Attributes
    ----------
    columns, first : float
        Share of µ² for marginals of the features, and share of that for the first look, at declared ranges.
    reach : float
        Ranges that are looked at again, in standard deviations from the mean.
    gram : float
        Share of the rest for XᵀX and Xᵀy, divided by `shares` with the target's square.
    radius : float
        C² of recentred rows over their number of terms: longer rows are weighted down.
    clip : float
        Where columns are cut, in standard deviations.
    steps, growth : int and float
        Gradients, and how fast their shares grow.
    beyond : float
        How many rows may exceed the norm of a gradient, in √d/µ.
    correlation : float
        Deviation that a correlation of two columns is expected to have, before anything of it is bought.
    """

    columns: float = 0.25
    first: float = 0.3
    reach: float = 3.0
    gram: float = 0.5
    shares: tuple[float, float, float] = (0.8, 0.18, 0.02)
    radius: float = 0.7
    clip: float = 2.5
    steps: int = 10
    growth: float = 1.3
    beyond: float = 4.0
    correlation: float = 0.25


class Curator:
    """Rows within [−1, 1], the target last, and a budget µ²; noise is normal.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    budget : float
        µ².
    generator : Generator
    """

    def __init__(self, rows: Floats, budget: float, generator: np.random.Generator) -> None:
        self._rows, self._generator, self.left = rows, generator, budget

    def _pay(self, cost: float) -> float:
        self.left -= cost
        assert self.left > -1e-12
        return math.sqrt(cost)

    def tree(self, columns: Sequence[int], levels: int, cost: float) -> tuple[list[list[Floats]], float]:
        """Return counts of 1, 2, 4, … cells of each column, and their noise."""
        sd = math.sqrt(levels * len(columns)) / self._pay(cost)
        found = []
        for column in columns:
            counts = [self._count(column, 2 ** (levels - 1))]
            while len(counts[0]) > 1:
                counts.insert(0, counts[0].reshape(-1, 2).sum(axis=1))
            found.append([level + sd * self._generator.standard_normal(level.shape) for level in counts])
        return found, sd

    def flat(self, column: int, bins: int, cost: float) -> tuple[Floats, float]:
        """Return counts of equal bins of a column, and their noise."""
        sd = 1.0 / self._pay(cost)
        return self._count(column, bins) + sd * self._generator.standard_normal(bins), sd

    def moments(self, columns: Sequence[int], ranges: Floats, cost: float) -> tuple[Floats, Floats, float, float]:
        """Return Σu and Σu² − n/2 of columns cut to ranges and scaled by them, the number of rows, and the noise."""
        sd = math.sqrt(5 * len(columns) + 4) / 2 / self._pay(cost)
        lower, upper = ranges.T
        u = (np.clip(self._rows[:, list(columns)], lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2)
        noise = sd * self._generator.standard_normal((3, len(columns)))
        return u.sum(axis=0) + noise[0], (u**2 - 0.5).sum(axis=0) + noise[1], len(u) + noise[2, 0], sd

    def gram(self, row_map: RowMap, lengths: tuple[float, float], shares: Sequence[float], cost: float) -> "Gram":
        """Return XᵀX, Xᵀy and yᵀy of rows that are mapped to given lengths."""
        x, y = row_map(self._rows)
        longest, largest = lengths
        scales = np.array([longest**2, longest * largest, largest**2]) / np.sqrt(np.array(shares) / sum(shares))
        sds = scales / self._pay(cost)
        d = x.shape[1]
        upper = np.triu(self._generator.standard_normal((d, d)), 1) / math.sqrt(2)
        noise = upper + upper.T + np.diag(self._generator.standard_normal(d))
        xty = x.T @ y + sds[1] * self._generator.standard_normal(d)
        yty = float(y @ y + sds[2] * self._generator.standard_normal())
        return Gram(x.T @ x + sds[0] * noise, xty, yty, (sds[0], sds[0] / math.sqrt(2), sds[1]), sds[2])

    def score(self, gradients: Callable[[Floats], Floats], norm: float, cost: float) -> tuple[Floats, float, Floats]:
        """Return the sum of gradients that are clipped to a norm, its noise, and how many were so long.

        The histogram is of norms from `norm` 1.6⁻⁸ to `norm` 1.6⁸, and has 6 % of the cost.
        """
        g = gradients(self._rows)
        norms = np.sqrt(np.sum(g**2, axis=1))
        sd, histogram_sd = norm / self._pay(0.94 * cost), 1.0 / self._pay(0.06 * cost)
        total = np.minimum(1.0, norm / np.maximum(norms, 1e-300)) @ g + sd * self._generator.standard_normal(g.shape[1])
        bins = np.clip(np.ceil(np.log(np.maximum(norms / norm, 1e-12)) / math.log(1.6)).astype(int) + 8, 0, 15)
        return total, sd, np.bincount(bins, minlength=16) + histogram_sd * self._generator.standard_normal(16)

    def _count(self, column: int, bins: int) -> Floats:
        cells = np.minimum(((self._rows[:, column] + 1) / 2 * bins).astype(int), bins - 1)
        return np.bincount(cells, minlength=bins).astype(float)


@dataclass(frozen=True)
class Gram:
    """Noisy statistics; deviations of the noise are those of XᵀX's diagonal, beside it, of Xᵀy and of yᵀy."""

    xtx: Floats
    xty: Floats
    yty: float
    sds: tuple[float, float, float]
    yty_sd: float


@dataclass(frozen=True)
class Place:
    """Where a column is: centre, scale, and the range to which it is cut."""

    center: float
    scale: float
    lower: float
    upper: float


def consistent(levels: Sequence[Floats]) -> Floats:
    """Return the finest counts of a tree by least squares: Hay and others (VLDB 2010)."""
    up = [levels[-1]]
    for height, level in enumerate(reversed(levels[:-1]), start=2):
        own = (2**height - 2 ** (height - 1)) / (2**height - 1)
        up.insert(0, own * level + (1 - own) * up[0].reshape(-1, 2).sum(axis=1))
    down = up[0]
    for level in up[1:]:
        pairs = level.reshape(-1, 2)
        down = (pairs + ((down - pairs.sum(axis=1)) / 2)[:, None]).ravel()
    return down


def place_by_tree(levels: Sequence[Floats], sd: float, tail: float, margin: float) -> tuple[Place, float]:
    """Place a column by its tree, and count rows."""
    leaves = consistent(levels)
    n = float(leaves.sum())
    sums = np.clip(np.cumsum(leaves), 0, n)
    rising = np.maximum.accumulate(sums) / 2 + np.minimum.accumulate(sums[::-1])[::-1] / 2
    F = np.concatenate([[0.0], rising / max(rising[-1], 1e-9)])
    edges = np.linspace(-1, 1, len(leaves) + 1)
    width = edges[1] - edges[0]
    p = min(max(tail, 3 * sd / n), 0.2)
    low, high = np.interp([p, 1 - p], F + 1e-12 * np.arange(len(F)), edges) + np.array([-width, width])
    middles = (edges[1:] + edges[:-1]) / 2
    weights = np.maximum(np.diff(F), 0) * ((middles >= low) & (middles <= high))
    mean = float(weights @ middles / weights.sum())
    deviation = math.sqrt(float(weights @ (middles - mean) ** 2 / weights.sum()))
    wider = margin * (high - low)
    return Place(mean, max(deviation, width / 2), max(low - wider, -1.0), min(high + wider, 1.0)), n


def place_columns(curator: Curator, p: int, n: float, cost: float, rules: Rules) -> tuple[list[Place], float]:
    """Place the features by their moments: within declared ranges, then within what those told."""
    ranges = np.tile([-1.0, 1.0], (p, 1))
    for share in (rules.first, 1 - rules.first):
        sums, squares, count, sd = curator.moments(range(p), ranges, share * cost)
        n = max(count, 10.0)
        middles, halves = ranges.mean(axis=1), (ranges[:, 1] - ranges[:, 0]) / 2
        means = np.clip(sums / n, -1, 1)
        variances = np.maximum(squares / n + 0.5 - means**2, max(0.5 * sd / n, 1e-3))
        means, scales = middles + halves * means, halves * np.sqrt(variances)
        told = np.column_stack([means - rules.reach * scales, means + rules.reach * scales])
        ranges = np.column_stack([np.maximum(told[:, 0], ranges[:, 0]), np.minimum(told[:, 1], ranges[:, 1])])
    reach = rules.clip * scales
    edges = np.maximum(means - reach, ranges[:, 0]), np.minimum(means + reach, ranges[:, 1])
    return [Place(*place) for place in zip(means, scales, *edges, strict=True)], n


def place_target(curator: Curator, p: int, n: float, cost: float) -> Place:
    """Place the target: by a tree, or by its support and its moments."""
    if 9 / math.sqrt(cost) < 0.1 * n:
        (tree,), sd = curator.tree([p], 9, cost)
        return place_by_tree(tree, sd, 0.002, 0.1)[0]
    counts, sd = curator.flat(p, 16, cost / 2)
    sums, squares, _, moment_sd = curator.moments([p], np.array([[-1.0, 1.0]]), cost / 2)
    told = np.flatnonzero(counts > 2 * sd)
    told = told if len(told) else np.array([np.argmax(counts)])
    edges = np.linspace(-1, 1, 17)
    lower, upper = float(edges[told[0]]), float(edges[told[-1] + 1])
    mean = float(np.clip(sums[0] / n, lower, upper))
    variance = max(float(squares[0]) / n + 0.5 - mean**2, moment_sd / n, 1e-3)
    return Place(mean, math.sqrt(min(variance, ((upper - lower) / 2) ** 2)), lower, upper)


def refine(curator: Curator, rows: int, d: int, rules: Rules) -> Callable[[Floats], Floats]:
    """Spend a curator's budget on a fit, and return what it predicts of rows within [−1, 1].

    Parameters
    ----------
    curator : Curator
    rows : int
        Public guess.
    d : int
        Terms, the constant included.
    rules : Rules
    """
    budget, p = curator.left, d - 1
    mu = math.sqrt(budget)
    if rows * mu < 30:
        sums, _, count, _ = curator.moments([p], np.array([[-1.0, 1.0]]), budget)
        mean = float(np.clip(sums[0] / max(count, 1.0), -1, 1))
        return lambda x: np.full(len(x), mean)
    places, n = place_columns(curator, p, rows, rules.columns * budget, rules)
    target = place_target(curator, p, n, float(np.clip(20 / (rows * mu), 0.05, 0.25)) * budget)
    center, scale, lower, upper = np.array([(q.center, q.scale, q.lower, q.upper) for q in places]).T
    radius = math.sqrt(rules.radius * d)

    def terms_of(x: Floats) -> Floats:
        return np.hstack([np.ones((len(x), 1)), (np.clip(x[:, :p], lower, upper) - center) / scale])

    def recentre(x: Floats) -> tuple[Floats, Floats]:
        terms = terms_of(x)
        weights = np.minimum(1.0, radius / np.sqrt(np.sum(terms**2, axis=1)))
        y = (np.clip(x[:, p], target.lower, target.upper) - target.center) / target.scale
        return terms * weights[:, None], y * weights

    belief, theta, residual = Belief.of_standard_terms(d, n, rules.correlation), np.zeros(d), 1.0
    cost = curator.left * rules.gram
    affordable = math.sqrt(2 * d) * radius**2 / (math.sqrt(cost) * n) < 0.15 * math.sqrt(d)
    if affordable:
        largest = max(target.upper - target.center, target.center - target.lower) / target.scale
        gram = curator.gram(recentre, (radius, largest), rules.shares, cost)
        belief.see_gram(gram.xtx, gram.xty, gram.sds)
        theta = shrunk_coefficients(belief, n, theta)
        A, b = belief.xtx, belief.xty
        variance = gram.yty_sd**2 + theta @ belief.score_covariance(theta) @ theta
        residual = expected_within((gram.yty - 2 * theta @ b + theta @ A @ theta) / n, math.sqrt(variance) / n)
    costs = rules.growth ** np.arange(rules.steps)
    costs *= curator.left / costs.sum() * (1 - 1e-12)
    usual = 1.3 * math.sqrt(residual * d)
    norm = usual
    for k, cost in enumerate(costs):
        eigenvalues, Q = np.linalg.eigh(belief.xtx)
        P = Q / np.sqrt(np.maximum(eigenvalues / n, 0.1))

        def gradients(x: Floats, P: Floats = P, theta: Floats = theta) -> Floats:
            terms, y = recentre(x)
            product: Floats = (terms @ P) * (y - terms @ theta)[:, None]
            return product

        score, sd, histogram = curator.score(gradients, norm, cost)
        belief.see_score(P, theta, score, sd)
        theta = shrunk_coefficients(belief, n, theta)
        longer = np.append(np.cumsum(histogram[::-1])[::-1], 0.0)[1:]
        allowed = rules.beyond * math.sqrt(d / costs[min(k + 1, rules.steps - 1)])
        place = int(np.argmax(longer <= allowed))
        norm = float(np.clip(norm * 1.6 ** (place - 8), norm / 1.6, norm * 1.6))
        norm = float(np.clip(norm, 0.7 * usual, 3 * usual))

    def predict(x: Floats) -> Floats:
        return np.clip(target.center + target.scale * (terms_of(x) @ theta), target.lower, target.upper)

    return predict


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / sd) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())


def adassp(x: Floats, y: Floats, epsilon: float, generator: np.random.Generator) -> Floats:
    """Return Wang's coefficients of rows within [−1, 1]."""
    d = x.shape[1]
    scale = math.sqrt(math.log(6 / DELTA)) / (epsilon / 3)
    A = x.T @ x
    least = float(np.linalg.eigvalsh(A)[0]) + d * scale * (generator.standard_normal() - math.sqrt(math.log(6 / DELTA)))
    wanted = math.sqrt(d * math.log(6 / DELTA) * math.log(2 * d**2 / 0.05)) * d / (epsilon / 3)
    upper = np.triu(generator.standard_normal((d, d)))
    noisy = A + d * scale * (upper + np.triu(upper, 1).T) + max(0.0, wanted - max(least, 0.0)) * np.eye(d)
    solved: Floats = np.linalg.solve(noisy, x.T @ y + math.sqrt(d) * scale * generator.standard_normal(d))
    return solved


def draw_bounds(data: Floats, kind: str, seed: int) -> Floats:
    """Return made-up public bounds of each column."""
    generator, bounds = np.random.default_rng(seed), []
    for column in data.T:
        low, high = float(column.min()), float(column.max())
        width = (high - low) or 1.0
        low, high = outward(low - generator.uniform(0.05, 0.25) * width, high + generator.uniform(0.05, 0.25) * width)
        shift = generator.uniform(-0.8, 0.8)
        if kind == "loose":
            middle, width = (low + high) / 2 + shift * (high - low), high - low
            low, high = outward(middle - 1.5 * width, middle + 1.5 * width)
        bounds.append((low, high))
    return np.array(bounds)


def error_without_privacy(train: Floats, test: Floats) -> float:
    """Return the error of least squares, or of its winsorised twin, whichever is less."""
    ranges = [(train.min(axis=0), train.max(axis=0)), tuple(np.quantile(train, [0.01, 0.99], axis=0))]
    errors = []
    for low, high in ranges:
        x, new = (np.clip(rows, low, high)[:, :-1] for rows in (train, test))
        center, scale = x.mean(axis=0), np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
        z, mean = (x - center) / scale, train[:, -1].mean()
        beta = np.linalg.solve(z.T @ z + 1e-6 * len(z) * np.eye(z.shape[1]), z.T @ (train[:, -1] - mean))
        predicted = np.clip(mean + (new - center) / scale @ beta, train[:, -1].min(), train[:, -1].max())
        errors.append(float(np.mean((predicted - test[:, -1]) ** 2)))
    return min(errors)


def measure(folder: Path, kind: str, epsilon: float, seeds: int, rules: Rules) -> tuple[float, float, float, float]:
    """Return the error without privacy, of AdaSSP and of the plan, and the target's variance, over splits and seeds."""
    data, masks = load(folder)
    bounds = draw_bounds(data, kind, seed=7)
    center, scale = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2
    budget = number_of(gdp_delta, epsilon, DELTA) ** 2
    found = []
    for seed in range(seeds):
        for k, mask in enumerate(masks.T):
            generator = np.random.default_rng([seed, k])
            train, test = (np.clip((data[rows] - center) / scale, -1, 1) for rows in (~mask, mask))
            x, new = (np.hstack([np.ones((len(rows), 1)), rows[:, :-1]]) for rows in (train, test))
            plain = np.clip(new @ adassp(x, train[:, -1], epsilon, generator), -1, 1)
            predict = refine(Curator(train, budget, generator), len(train), train.shape[1], rules)
            errors = [np.mean((predicted - test[:, -1]) ** 2) for predicted in (plain, predict(test))]
            found.append((error_without_privacy(train, test), *errors, np.var(test[:, -1])))
    return tuple(np.mean(found, axis=0).tolist())


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=[*SIGNAL, *BESIDE])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.1])
    parser.add_argument("--bounds", nargs="+", default=["tight", "loose"])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    for epsilon in options.epsilons:
        for kind in options.bounds:
            print(f"\nε = {epsilon:g}, {kind} bounds\n\n| set | R² | AdaSSP | the plan | excess: AdaSSP | the plan |")
            print("| --- |" + " ---: |" * 5)
            ratios = []
            for name in options.sets:
                least, plain, planned, variance = measure(options.data / name, kind, epsilon, options.seeds, Rules())
                excess = [max(error / least - 1, FLOOR) for error in (plain, planned)]
                shares = [f"{1 - error / variance:.3f}" for error in (least, plain, planned)]
                print(f"| {name} | {' | '.join(shares)} | {excess[0]:.3f} | {excess[1]:.3f} |", flush=True)
                ratios += [math.log(excess[0] / excess[1])] if name in SIGNAL else []
            if ratios:
                print(f"\nAdaSSP's excess is {math.exp(float(np.mean(ratios))):.1f} times that of the plan")


if __name__ == "__main__":
    main()
