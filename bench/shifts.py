"""Shift of coefficients by clipping on rows of all kinds, beside the share of gradients that it cuts off.

Of each population's least squares: gradients in the directions in which XᵀX is the identity, clipped to a norm in
residual deviations times √d. `moved` is the largest part of the mean length that is cut off by which a coefficient's
score moves, and 1 would be the bound of Cauchy and Schwarz; `s.e.` is that shift in standard errors of n rows; `guess`
is the mean length cut off that a refinement takes before it has seen a histogram.
`analyst_client.refinement.tails.ALIGNED` is taken from this table. Prints Markdown.

    python -m bench.shifts [--data DIR] [--norms 2 3 4] [--rows 5000]
"""

import argparse
import math
from pathlib import Path

import numpy as np

from analyst_client.refinement.tails import ALIGNED, Tails
from bench.populations import Floats, Population, populations

_VARIANCE = 0.5
"""Of residuals, in squares of the target's spread: as where half is explained. The guess hardly depends on it."""


def shifts(population: Population, norm: float) -> tuple[float, float, float, float, float]:
    """Return the part of rows clipped, the mean length cut off, its guess, its largest moved part, and the errors."""
    coded = population.coded
    x, y = coded.x[coded.known], coded.y[coded.known]
    spread = np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0)
    spread[0] = 1.0
    z: Floats = x / spread
    eigenvalues, Q = np.linalg.eigh(z.T @ z / len(z))
    told = eigenvalues > 1e-9
    v = z @ (Q[:, told] / np.sqrt(eigenvalues[told]))
    residual = y - v @ (v.T @ y / len(v))
    gradients = v * (residual / residual.std())[:, None]
    lengths = np.linalg.norm(gradients, axis=1)
    beyond = np.maximum(lengths - norm * math.sqrt(v.shape[1]), 0.0)
    shift = (gradients * (beyond / np.maximum(lengths, 1e-12))[:, None]).mean(axis=0)
    # Coefficient j is told by a unit direction in these coordinates; its standard error is by Σ g gᵀ.
    directions = (Q[:, told] / np.sqrt(eigenvalues[told])).T
    directions = directions / np.linalg.norm(directions, axis=0)
    moved, errors = np.abs(directions.T @ shift), np.sqrt(np.mean((gradients @ directions) ** 2, axis=0))
    cut = float(beyond.mean())
    unseen = Tails(v.shape[1], 1.0, _VARIANCE).shift(np.array([norm * math.sqrt(v.shape[1] * _VARIANCE)]))
    guess = float(unseen[0]) / ALIGNED / math.sqrt(_VARIANCE)
    part = float(np.mean(beyond > 0.0))
    return part, cut, guess, float(moved.max()) / max(cut, 1e-12), float(np.max(moved / errors))


def main() -> None:
    """Print a line for each population and norm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--norms", type=float, nargs="+", default=[2.0, 3.0, 4.0])
    parser.add_argument("--rows", type=int, default=5000)
    options = parser.parse_args()
    print("| rows | norm | clipped | cut off | guess | moved | s.e. |\n| --- " + "| ---: " * 6 + "|")
    for name, make in populations(options.data).items():
        population = make()
        if population.family != "gaussian" or population.shuffled:
            continue
        for norm in options.norms:
            part, cut, guess, moved, errors = shifts(population, norm)
            off = f"{math.sqrt(options.rows) * errors:.2f}"
            print(f"| {name} | {norm:g} | {part:.2%} | {cut:.3f} | {guess:.3f} | {moved:.2f} | {off} |", flush=True)


if __name__ == "__main__":
    main()
