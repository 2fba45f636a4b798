"""Coverage of the intervals of marginals: noise is drawn, rows too for a population, and hits are counted.

Each rate of a seeded simulation lies within three standard errors of 95 %, or above where a method is on the safe side.
"""

import math
from typing import Any

import numpy as np
import pytest

from analyst_client import Column
from analyst_client.kinds import MarginalsRelease
from analyst_client.kinds.marginals.items import Marginal

pytestmark = pytest.mark.simulations


X = Column.numeric("x", -1.0, 1.0, missing="complete")
Y = Column.numeric("y", -1.0, 1.0)
REPEATS = 1500
ERROR = 3.0 * math.sqrt(0.95 * 0.05 / REPEATS)


def noisy(
    kind: str, size: int | None, u: Any, sd: float, laplace: bool, generator: np.random.Generator, column: Column = X
) -> Marginal:
    if kind == "moments":
        exact = np.array([len(u) / 2, u.sum(), (u**2).sum() - len(u) / 2])
    else:
        assert size is not None
        bins = size if kind == "flat" else 2**size
        counts = np.bincount(np.minimum(((u + 1) / 2 * bins).astype(int), bins - 1), minlength=bins).astype(float)
        levels = [counts] if kind == "flat" else [counts.reshape(2**k, -1).sum(axis=1) for k in range(1, size + 1)]
        exact = np.concatenate(levels)
    noise = generator.laplace(0, sd * math.sqrt(0.5), exact.shape) if laplace else generator.normal(0, sd, exact.shape)
    return Marginal("marginal_0", kind, (column,), size, (exact + noise)[np.newaxis], sd, laplace)


def released(*marginals: Marginal) -> MarginalsRelease:
    rest: dict[str, Any] = {"created_at": None, "request": {}, "cost": None, "receipt": None}
    return MarginalsRelease(marginals=marginals, text="", id="rel_1", dataset="d", **rest)


def draw(law: str, n: int, generator: np.random.Generator) -> Any:
    if law == "normal":
        return np.clip(generator.normal(0.2, 0.15, n), -1.0, 1.0)
    return np.where(generator.random(n) < 0.9, 1.0, -0.5)  # at a bound


ITEMS: dict[str, list[tuple[str, int | None]]] = {
    "moments": [("moments", None)],
    "tree": [("tree", 5)],
    "flat": [("flat", 12)],
    "all": [("moments", None), ("tree", 5), ("flat", 12)],
}


@pytest.mark.parametrize("laplace", [False, True])
@pytest.mark.parametrize(("law", "n", "sd"), [("normal", 500, 20.0), ("edge", 500, 20.0), ("edge", 100, 30.0)])
@pytest.mark.parametrize("what", ITEMS)
def test_intervals_hold_the_exact_numbers_of_the_dataset(what: str, law: str, n: int, sd: float, laplace: bool) -> None:
    generator = np.random.default_rng(20)
    u = draw(law, n, generator)
    exact = {q: np.quantile(u, q, method="inverted_cdf") for q in (0.1, 0.5)}
    hits: dict[str, int] = {}
    for _ in range(REPEATS):
        release = released(*(noisy(kind, size, u, sd, laplace, generator) for kind, size in ITEMS[what]))
        found = {"count": (release.count("x"), n), "mean": (release.mean("x"), u.mean())}
        found["std"] = (release.std("x"), u.std())
        if what != "moments":
            found |= {f"quantile {q}": (release.quantiles("x", q), truth) for q, truth in exact.items()}
            low, high, _ = release.support("x", 0.05)
            hits["support"] = hits.get("support", 0) + (np.mean(u < low) <= 0.05 and np.mean(u > high) <= 0.05)
        for name, (estimate, truth) in found.items():
            hits[name] = hits.get(name, 0) + (estimate.low - 1e-12 <= truth <= estimate.high + 1e-12)
    coverage = {name: count / REPEATS for name, count in hits.items()}
    assert min(coverage.values()) > 0.95 - ERROR, coverage
    if not laplace:  # exact for Gaussian noise
        assert coverage["count"] < 0.95 + ERROR, coverage
        if n == 500 and what in {"moments", "all"}:
            assert max(coverage["mean"], coverage["std"]) < 0.95 + 1.5 * ERROR, coverage


@pytest.mark.parametrize("what", ["moments", "tree", "all"])
def test_intervals_hold_the_numbers_of_a_population(what: str) -> None:
    generator = np.random.default_rng(21)
    hits = {"mean": 0, "std": 0, "median": 0}
    for _ in range(REPEATS):
        u = draw("normal", 800, generator)
        release = released(*(noisy(kind, size, u, 5.0, False, generator) for kind, size in ITEMS[what]))
        found = {"mean": (release.mean("x", of="population"), 0.2), "std": (release.std("x", of="population"), 0.15)}
        if what != "moments":
            found["median"] = (release.quantiles("x", 0.5, of="population"), 0.2)
        for name, (estimate, truth) in found.items():
            hits[name] += estimate.low <= truth <= estimate.high
    coverage = {name: count / REPEATS for name, count in hits.items() if count}
    assert min(coverage.values()) > 0.95 - ERROR, coverage
    if what == "moments":
        assert max(coverage.values()) < 0.95 + ERROR, coverage


def test_bins_of_a_tree_are_held_one_by_one_and_at_once() -> None:
    generator = np.random.default_rng(22)
    u = draw("normal", 20_000, generator)  # so many that few bins are cut at 0
    truth = np.histogram(u, 8, (-1, 1))[0]
    one = every = 0
    for _ in range(REPEATS):
        histogram = released(noisy("tree", 3, u, 10.0, False, generator)).histogram("x")
        low, high = histogram.interval()[4]
        one += low <= truth[4] <= high
        low, high = histogram.interval(simultaneous=True).T
        every += bool(np.all((low <= truth) & (truth <= high)))
    assert one / REPEATS == pytest.approx(0.95, abs=ERROR)
    assert every / REPEATS > 0.95 - ERROR


def test_missing_values_are_counted() -> None:
    generator, hits = np.random.default_rng(23), 0
    u = draw("normal", 600, generator)
    for _ in range(REPEATS):
        release = released(
            noisy("tree", 4, u, 10.0, False, generator),
            noisy("moments", None, u, 10.0, False, generator),
            noisy("tree", 4, u[:500], 10.0, False, generator, Y),
        )
        found = release.missing("y")
        hits += found.low <= 100 <= found.high
    assert hits / REPEATS == pytest.approx(0.95, abs=ERROR)
