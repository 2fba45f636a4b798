"""Several hospitals: coverage and width of 95 % intervals from the best site alone, from a plain sum, and from ours.

Ten features, uniform over their bounds (`simulation.Truth`); releases by the server's
own code. Width is the half length over that of least squares without privacy on all private rows together. Public rows
are the analyst's own, without noise; their coefficients are those of the hospitals, or shifted by what is stated, in
units of the residual deviation. Prints Markdown.

    python -m bench.sites [--repeats 200]
"""

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, EstimationWarning, Release
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
    residual_sds : tuple of float
        Of each hospital's residuals; 1/3 of all where it is empty.
    """

    name: str
    rows: tuple[int, ...]
    epsilons: tuple[float, ...]
    bounds: tuple[float, ...] = ()
    public_rows: int = 0
    shift: float = 0.0
    shifted: int = 10
    residual_sds: tuple[float, ...] = ()


CASES = (
    Case("4 × 5000, ε = 1", (5000,) * 4, (1.0,) * 4),
    Case("20000 + 9 × 500, ε = 1", (20000, *(500,) * 9), (1.0,) * 10),
    Case("4 × 5000, ε = 0.1, 0.1, 0.1, 3", (5000,) * 4, (0.1, 0.1, 0.1, 3.0)),
    Case("4 × 5000, ε = 1, bounds 1, 1, 2, 3 times as wide", (5000,) * 4, (1.0,) * 4, (1.0, 1.0, 2.0, 3.0)),
    *(
        Case(f"2 × 5000, ε = {e:g}, residuals of 0.1 and 0.5", (5000,) * 2, (e,) * 2, residual_sds=(0.1, 0.5))
        for e in (1.0, 3.0, 10.0)
    ),
    Case("20000 + 9 × 500, ε = 3, 0.1 and 0.5", (20000, *(500,) * 9), (3.0,) * 10, residual_sds=(0.1, *(0.5,) * 9)),
    Case("500 + 5000, ε = 10, 0.1 and 0.5", (500, 5000), (10.0,) * 2, residual_sds=(0.1, 0.5)),
    Case("5000 + 500, ε = 10, 0.1 and 0.5", (5000, 500), (10.0,) * 2, residual_sds=(0.1, 0.5)),
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
    return min(fits, key=lambda fit: float(np.median(fit.std_errors_))).conf_int()


METHODS: dict[str, Callable[[list[Release]], Floats]] = {
    "best site": best_site,
    "plain sum": plain_sum,
    "ours": lambda releases: OLS().fit(releases).conf_int(),
}


def draw(seed: int, case: Case) -> tuple[Truth, Floats, list[Release]]:
    """Draw the hospitals once: the truth, half widths without privacy, and releases, with public rows last."""
    generator = np.random.default_rng(seed)
    truth = Truth.of(10)
    sds = case.residual_sds or (truth.residual_sd,) * len(case.rows)
    rows = [replace(truth, residual_sd=sd).draw(generator, n) for n, sd in zip(case.rows, sds, strict=True)]
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


def run_repeat(task: tuple[int, Case]) -> tuple[Floats, Floats, float]:
    """Draw the hospitals once: by method and coefficient what covers, median widths, and p of that they are alike."""
    truth, without, releases = draw(*task)
    covered, widths = [], []
    for method in METHODS.values():
        low, high = method(releases).T
        covered.append((low <= truth.beta) & (truth.beta <= high))
        widths.append(float(np.median(((high - low) / (2.0 * without))[1:])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        pvalue = OLS().fit(releases).heterogeneity_test().pvalue
    return np.array(covered, dtype=np.float64), np.array(widths), pvalue


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    print(
        f"{repeats} repeats\n\n| hospitals | {' | '.join(f'{name}: coverage / width' for name in METHODS)} "
        "| ours: worst coefficient | size of the heterogeneity test |"
    )
    print("| --- |" + " ---: |" * (len(METHODS) + 2))
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for case in CASES:
            tasks = [(seed, case) for seed in range(repeats)]
            covered, widths, pvalues = map(np.array, zip(*workers.map(run_repeat, tasks, chunksize=5), strict=True))
            cells = [f"{covered[:, m].mean():.3f} / {np.median(widths[:, m]):.2f}" for m in range(len(METHODS))]
            cells += [f"{covered[:, -1].mean(axis=0).min():.3f}", f"{np.mean(pvalues < 0.05):.3f}"]
            print(f"| {case.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
