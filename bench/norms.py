"""Gain of a default row map on real sets: intervals of unweighted coefficients, and predictions.

For each set, under bounds at the ranges of its columns, at those of their middle 98 %, and twice as wide as the ranges,
each ε and number of rows: what least squares and AdaSSP make of a release of that many rows like these, under each
default row map and under the one chosen for the number of rows. Coverage and score are those of 95 % intervals for the
slopes of unweighted least squares, to first order in the noise, where every direction is twice above it; the score is
an interval's length and 40 times the distance by which it misses. Risk is AdaSSP's error on all rows beyond that of
unweighted least squares, over draws of noise. Score and risk are geometric means over those of the small ball. Prints
Markdown.

    python -m bench.norms --data DIR [--draws 5]

DIR holds NAME/data.csv.gz (last column: the response), as in the collection treforevans/uci_datasets.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, Release
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds import Noise
from bench.simulation import DELTA, ROW_CAPACITY, ROW_MAPS, STATISTICS
from curator_service.kinds.gram.defaults import choose_row_map, default_row_maps
from curator_service.kinds.gram.kind import Gram
from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.privacy.accountant import GDP, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, Design, make_design
from curator_service.privacy.row_maps import make_row_map

Floats = npt.NDArray[np.float64]
NAMES = (*ROW_MAPS, "chosen")
EPSILONS = (0.3, 1.0, 3.0)
BOUNDS = ("range", "middle 98 %", "loose")
ROWS = (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
NORMAL = NormalDist()
QUANTILE = NORMAL.inv_cdf(0.975)


@dataclass(frozen=True)
class Mapped:
    """Mean moments of a set's rows under a row map, and what least squares makes of them."""

    norm: float | None
    xtx: Floats
    xty: Floats
    yty: float
    meat: Floats
    beta: Floats
    variance: float

    @classmethod
    def of(cls, X: Floats, y: Floats, norm: float | None) -> "Mapped":
        """Map rows."""
        w = np.ones(len(X)) if norm is None else np.minimum(1.0, norm / np.linalg.norm(X, axis=1))
        Z, u = X * w[:, np.newaxis], y * w
        xtx, xty, n = Z.T @ Z / len(X), Z.T @ u / len(X), len(X)
        beta = np.linalg.solve(xtx, xty)
        meat = (Z * w[:, np.newaxis] ** 2).T @ Z / n
        return cls(norm, xtx, xty, float(u @ u) / n, meat, beta, float(np.sum((u - Z @ beta) ** 2) / (w @ w)))


def noise_of(design: Design, rows: dict[str, float | str], epsilon: float) -> Noise:
    """Return the noise of a request."""
    plan = plan_gram(
        design,
        make_row_map(rows),
        Adjacency.ADD_REMOVE,
        row_capacity=ROW_CAPACITY,
        price=Price(epsilon=epsilon, delta=DELTA),
        shares=default_shares(STATISTICS),
        accountant=GDP,
    )
    return Noise(distribution=plan.parts[0].distribution, **Gram().state_noise(plan.parts))


def intervals(mapped: Mapped, noise: Noise, n: int, plain: Floats) -> tuple[float, float] | None:
    """Return the coverage of unweighted slopes and the mean log score; None where noise hides a direction."""
    law = NoiseLaw.of(noise, len(plain))
    if n * np.linalg.eigvalsh(mapped.xtx)[0] < 2.0 * math.sqrt(len(plain)) * (noise.xtx_offdiagonal or 0.0):
        return None
    inverse = np.linalg.inv(n * mapped.xtx)
    private = law.covariance(mapped.beta)
    assumed = np.sqrt(np.diag(inverse @ (n * mapped.variance * mapped.xtx + private) @ inverse))[1:]
    true = np.sqrt(np.diag(inverse @ (n * mapped.variance * mapped.meat + private) @ inverse))[1:]
    half, shift = QUANTILE * assumed, (mapped.beta - plain)[1:]
    covered, scores = [], []
    for h, b, s in zip(half, shift, true, strict=True):
        covered.append(NORMAL.cdf((h - b) / s) - NORMAL.cdf((-h - b) / s))
        missed = sum(s * NORMAL.pdf(m / s) + m * NORMAL.cdf(m / s) for m in (b - h, -b - h))
        scores.append(math.log(2.0 * h + 40.0 * missed))
    return float(np.mean(covered)), float(np.mean(scores))


def risk(mapped: Mapped, noise: Noise, n: int, plain: Floats, spread: Floats, draws: int) -> float:
    """Return AdaSSP's mean squared error beyond that of unweighted least squares, over draws of noise."""
    generator, law = np.random.default_rng(7), NoiseLaw.of(noise, len(plain))
    root = np.linalg.cholesky(n * mapped.variance * mapped.meat + 1e-12 * np.eye(len(plain)))
    found = []
    for _ in range(draws):
        xtx, xty = law.draw(generator, 1)
        sampled = root @ generator.standard_normal(len(plain))
        yty = n * mapped.yty + 2.0 * mapped.beta @ sampled + (noise.yty or 0.0) * generator.standard_normal()
        release = Release.from_arrays(
            n * (mapped.xtx + mapped.xtx.T) / 2.0 + xtx[0], n * mapped.xty + sampled + xty[0], yty, noise=noise
        )
        fit = AdaSSP().fit(release)
        error = np.r_[fit.intercept_, fit.coef_] - plain
        found.append(error @ spread @ error)
    return float(np.mean(found))


def scaled(data: Floats, bounds: str) -> Floats:
    """Scale columns to [−1, 1] by their bounds; what repeats other columns is left out."""
    lower, upper = np.quantile(data, [0.01, 0.99] if bounds == "middle 98 %" else [0.0, 1.0], axis=0)
    reach = (upper - lower) * (1.0 if bounds == "loose" else 0.5)
    varies = reach > 0.0
    coded = np.clip((data - (lower + upper) / 2.0)[:, varies] / reach[varies], -1.0, 1.0)
    kept: list[int] = []
    for j in range(coded.shape[1] - 1):
        others = np.column_stack([np.ones(len(coded)), coded[:, kept]])
        residual = coded[:, j] - others @ np.linalg.lstsq(others, coded[:, j])[0]
        if residual.var() > 1e-4 * coded[:, j].var():
            kept.append(j)
    return coded[:, [*kept, -1]]


def measure(data: Floats, draws: int) -> Iterator[tuple[float, dict[str, tuple[tuple[float, float] | None, float]]]]:
    """Yield ε and, by row map, intervals and risk, for every ε and number of rows."""
    X, y = np.column_stack([np.ones(len(data)), data[:, :-1]]), data[:, -1]
    names = [f"x{j}" for j in range(1, X.shape[1])]
    design = make_design(
        tuple(Column(name, ColumnType.NUMERIC, lower=-1.0, upper=1.0) for name in names),
        (Column("y", ColumnType.NUMERIC, lower=-1.0, upper=1.0),),
        intercept=True,
    )
    plain, spread = np.linalg.lstsq(X, y)[0], X.T @ X / len(X)
    maps = default_row_maps(design)
    mapped = [Mapped.of(X, y, rows.get("norm")) for rows in maps]
    for epsilon in EPSILONS:
        noises = [noise_of(design, rows, epsilon) for rows in maps]
        for n in ROWS:
            chosen = choose_row_map(design, {"xty": noises[0].xty or 0.0}, expected_rows=n, row_capacity=ROW_CAPACITY)
            found = {
                name: (intervals(of, noise, n, plain), risk(of, noise, n, plain, spread, draws))
                for name, of, noise in zip(NAMES, mapped, noises, strict=False)
            }
            yield epsilon, found | {"chosen": found[NAMES[maps.index(chosen)]]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    print("| bounds | ε | row map | coverage | score | risk |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for bounds in BOUNDS:
        cells = []
        for path in sorted(options.data.glob("*/data.csv.gz")):
            cells += list(measure(scaled(np.loadtxt(path, delimiter=","), bounds), options.draws))
        for epsilon in EPSILONS:
            of_price = [found for each, found in cells if each == epsilon]
            bounded = [found for found in of_price if all(cell[0] is not None for cell in found.values())]
            for name in NAMES:
                covered, scores = zip(*(found[name][0] or (0.0, 0.0) for found in bounded), strict=True)
                least = [(found["small"][0] or (0.0, 0.0))[1] for found in bounded]
                gained = np.mean([math.log(found[name][1] / found["small"][1]) for found in of_price])
                score = math.exp(np.mean(np.subtract(scores, least)))
                numbers = f"{np.mean(covered):.3f} | {score:.2f} | {math.exp(gained):.2f}"
                print(f"| {bounds} | {epsilon:g} | {name} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
