"""Problems along nµ/d^1.5: rows that are made up, and sets of the UCI collection at three prices."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from analyst_client.planning.prices import gdp_delta, number_of
from bench.uci import load
from studies.protocol import DELTA, Floats

EDGES = 10.0 ** np.arange(-1.0, 4.01, 0.5)
"""Half decades of nµ/d^1.5."""
TAILS = ("normal", "long tails")
NEW_ROWS = 5_000


@dataclass(frozen=True)
class Problem:
    """Rows to fit and new rows, the target last, and a price."""

    name: str
    train: Floats
    test: Floats
    epsilon: float
    seed: int

    @property
    def mu(self) -> float:
        """The price as µ."""
        return number_of(gdp_delta, self.epsilon, DELTA)

    @property
    def place(self) -> float:
        """The number nµ/d^1.5: there are as many terms as columns, one is the constant and none the target."""
        n, d = self.train.shape
        return n * self.mu / d**1.5


def draw_problems(count: int) -> Iterator[list[Problem]]:
    """Draw so many problems of each half decade; each is a list of one split."""
    generator = np.random.default_rng(20261124)
    for low, high in pairwise(EDGES):
        drawn = 0
        while drawn < count:
            n, features = round(300 * (100_000 / 300) ** generator.uniform()), int(generator.integers(3, 21))
            epsilon = 10.0 ** generator.uniform(-1.0, 1.0)
            if low <= n * number_of(gdp_delta, epsilon, DELTA) / (features + 1) ** 1.5 < high:
                rows = draw_rows(generator, n + NEW_ROWS, features, has_tails=drawn % 2 == 1)
                yield [Problem(TAILS[drawn % 2], rows[:n], rows[n:], epsilon, int(generator.integers(2**31)))]
                drawn += 1


def draw_rows(generator: np.random.Generator, n: int, features: int, *, has_tails: bool) -> Floats:
    """Draw features and a target; where tails are long, a third of the features are log-normal."""
    rsquared, correlation = generator.uniform(0.2, 0.9), generator.choice([0.0, 0.25, 0.5, 0.8])
    own = generator.standard_normal((n, features))
    x = math.sqrt(correlation) * generator.standard_normal((n, 1)) + math.sqrt(1.0 - correlation) * own
    if has_tails:
        skewed = generator.uniform(size=features) < 1 / 3
        x[:, skewed] = np.exp(x[:, skewed])
    signal = (x - x.mean(axis=0)) / x.std(axis=0) @ generator.standard_normal(features)
    residual = generator.standard_t(3, n) / math.sqrt(3.0) if has_tails else generator.standard_normal(n)
    return np.column_stack([x, math.sqrt(rsquared) * signal / signal.std() + math.sqrt(1.0 - rsquared) * residual])


def read_sets(folder: Path, count: int) -> Iterator[list[Problem]]:
    """Read so many splits of each set, at three prices."""
    for path in sorted(own.parent for own in folder.glob("*/data.csv.gz")):
        rows, masks = load(path)
        for epsilon in (0.1, 1.0, 10.0):
            splits = enumerate(masks.T[:count])
            yield [Problem(path.name, rows[~mask], rows[mask], epsilon, seed=k) for k, mask in splits]
