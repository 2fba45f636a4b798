"""Several hospitals: coverage and width of 95 % intervals from the best site alone, from a plain sum, and from ours.

Ten features, uniform over their bounds (`simulation.Truth`); releases by the server's
own code. Width is the half length over that of least squares without privacy on all private rows together. Public rows
are the analyst's own, without noise; their coefficients are those of the hospitals, or shifted by what is stated, in
units of the residual deviation. Prints Markdown.

    python -m bench.sites [--repeats 200]
"""

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, Release
from analyst_client.inference.pooling import pool
from analyst_client.inference.results import Solution, TargetResults
from bench.coverage import half_widths
from bench.simulation import Hospital, Truth

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Hospitals' rows and prices, and the public rows, if any.

    Attributes
    ----------
    name : str
    rows : tuple of int
    epsilons : tuple of float
    bounds : tuple of float
        How much wider than the features each hospital declares its bounds.
    public_rows : int
    shift : float
        Deviation of the public coefficients from the hospitals', in units of the residual deviation.
    shifted : int
        How many of them are shifted.
    """

    name: str
    rows: tuple[int, ...]
    epsilons: tuple[float, ...]
    bounds: tuple[float, ...] = ()
    public_rows: int = 0
    shift: float = 0.0
    shifted: int = 10


CASES = (
    Case("4 × 5000, ε = 1", (5000,) * 4, (1.0,) * 4),
    Case("20000 + 9 × 500, ε = 1", (20000, *(500,) * 9), (1.0,) * 10),
    Case("4 × 5000, ε = 0.1, 0.1, 0.1, 3", (5000,) * 4, (0.1, 0.1, 0.1, 3.0)),
    Case("4 × 5000, ε = 1, bounds 1, 1, 2, 3 times as wide", (5000,) * 4, (1.0,) * 4, (1.0, 1.0, 2.0, 3.0)),
    *(
        Case(f"2 × 5000, ε = 1, and 20000 public rows, {text}", (5000,) * 2, (1.0,) * 2, (), 20000, shift, shifted)
        for text, shift, shifted in (
            ("same coefficients", 0.0, 10),
            ("all shifted by 0.05", 0.05, 10),
            ("all shifted by 0.2", 0.2, 10),
            ("all shifted by 0.5", 0.5, 10),
            ("one shifted by 0.2", 0.2, 1),
            ("one shifted by 0.5", 0.5, 1),
            ("one shifted by 2", 2.0, 1),
        )
    ),
)


def plain_sum(releases: list[Release]) -> Floats:
    """Return intervals from the unweighted sum, public rows and all."""
    (equations,) = pool([as_private(release) for release in releases])
    equations = equations.reweighted(np.ones(len(releases)))
    return TargetResults(equations, Solution(equations.solution, np.linalg.inv(equations.xtx))).conf_int()


def as_private(release: Release) -> Release:
    """Return the release without the mark of public rows."""
    return replace(release, request={**release.request, "public": False})


def best_site(releases: list[Release]) -> Floats:
    """Return the shortest intervals of one site alone: the site with the smallest standard errors."""
    fits = []
    for release in releases:
        if not release.is_public:
            (equations,) = pool(release)
            fits.append(TargetResults(equations, Solution(equations.solution, np.linalg.inv(equations.xtx))))
    return min(fits, key=lambda fit: float(np.median(fit.bse))).conf_int()


METHODS: dict[str, Callable[[list[Release]], Floats]] = {
    "best site": best_site,
    "plain sum": plain_sum,
    "ours": lambda releases: OLS().fit(releases).conf_int(),
}


def draw(seed: int, case: Case) -> tuple[Truth, Floats, list[Release]]:
    """Draw the hospitals once: the truth, half widths without privacy, and releases, with public rows last."""
    generator = np.random.default_rng(seed)
    truth = Truth.of(10)
    rows = [truth.draw(generator, n) for n in case.rows]
    bounds = case.bounds or (1.0,) * len(rows)
    releases = [
        Hospital(*each, feature_bound=bound).release(epsilon)
        for each, bound, epsilon in zip(rows, bounds, case.epsilons, strict=True)
    ]
    if case.public_rows:
        beta = truth.beta.copy()
        beta[1 : 1 + case.shifted] += case.shift * truth.residual_sd * np.where(np.arange(case.shifted) % 2, -1.0, 1.0)
        features, target = replace(truth, beta=beta).draw(generator, case.public_rows)
        frame = {f"x{j + 1}": values for j, values in enumerate(features.T)} | {"y": target}
        releases.append(Release.from_public(frame, releases[0]))
    without = half_widths(np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows]))
    return truth, without, releases


def run_repeat(task: tuple[int, Case]) -> list[tuple[float, float]]:
    """Draw the hospitals once, and see what covers."""
    truth, without, releases = draw(*task)
    found = []
    for method in METHODS.values():
        low, high = method(releases).T
        covered = float(np.mean((low <= truth.beta) & (truth.beta <= high)))
        found.append((covered, float(np.median(((high - low) / (2.0 * without))[1:]))))
    return found


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    print(f"{repeats} repeats\n\n| hospitals | {' | '.join(f'{name}: coverage / width' for name in METHODS)} |")
    print("| --- |" + " ---: |" * len(METHODS))
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for case in CASES:
            tasks = [(seed, case) for seed in range(repeats)]
            table = np.array(list(workers.map(run_repeat, tasks, chunksize=5)))
            cells = [f"{table[:, m, 0].mean():.3f} / {np.median(table[:, m, 1]):.2f}" for m in range(len(METHODS))]
            print(f"| {case.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
