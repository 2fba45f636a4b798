"""Comparisons on sets of the UCI collection: bounds that are made up, AdaSSP, and least squares without privacy.

A hospital declares bounds without looking. Here they are drawn around the range of each column: ``tight``, the range
widened by 5 to 25 % a side and rounded outward, or ``loose``, three times as wide around another centre.

References
----------
.. [1] Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, algorithm 2.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.uci import outward

Floats = npt.NDArray[Any]
SIGNAL = ("airfoil", "bike", "concrete", "elevators", "protein", "sml", "wine")
"""Sets with at least 1,000 rows of which a line explains more than a twentieth."""
BESIDE = ("kin40k", "tamielectric")
"""Those of which it explains nothing."""
DELTA = 1e-6
FLOOR = 0.01
"""Least excess of an error that is told, as a part of the error without privacy."""


def adassp(x: Floats, y: Floats, epsilon: float, generator: np.random.Generator) -> Floats:
    """Return the coefficients of Wang's AdaSSP [1]_ of rows within [−1, 1], noise included."""
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
