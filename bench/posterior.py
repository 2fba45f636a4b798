"""Posteriors on releases of the server's own code: coverage of 95 % intervals, effective sizes and time of 1,000 draws.

Rows are drawn anew for each repeat, with known coefficients (`simulation.Truth`). "Definite" is the mean share of draws
whose latent XᵀX is positive definite: where it is small the release is not informative, and the fit says that the
posterior is the prior's. The other columns are the closed form, the published posterior that takes noisy statistics for
exact ones, and the time and the effective sizes of 1,000 draws in four chains. The second table is of several
hospitals, those of `bench.sites`: coverage, and the width over that of least squares without privacy. Prints Markdown.

    python -m bench.posterior [--repeats 60]
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

from analyst_client import BayesianRegression, EmpiricalBayes, EstimationWarning, RobustPrivateRegression
from bench.simulation import Hospital, Truth
from bench.sites import CASES, Case, Floats, draw
from curator_service.privacy.calibration import Mechanism

CELLS = [*product((500, 5000, 50000), (3,), (0.5, 1.0, 3.0)), *product((5000, 50000), (10,), (0.5, 1.0, 3.0))]


warnings.simplefilter("ignore", EstimationWarning)  # the table says it


def run_repeat(case: tuple[int, int, int, float, bool, str]) -> tuple[float, ...]:
    """Draw one hospital and one release, and both posteriors."""
    seed, n, d, epsilon, correlated, mechanism = case
    truth = Truth.of(d, correlated=correlated)
    release = Hospital(*truth.draw(np.random.default_rng(seed), n)).release(epsilon, Mechanism(mechanism))
    start = time.perf_counter()
    fit = BayesianRegression(draws=250, chains=4, seed=seed).fit(release)
    took = time.perf_counter() - start
    closed = EmpiricalBayes().fit(release)
    plugin = RobustPrivateRegression(draws=250, chains=4, seed=seed).fit(release)
    covered = [coverage(each.conf_int(method="posterior"), truth) for each in (fit, closed, plugin)]
    drawn = fit.posteriors_[0]
    return (*covered, drawn.definite_share, float(np.min(drawn.ess)), took)


def run_sites(task: tuple[int, Case]) -> tuple[float, ...]:
    """Draw several hospitals and one release of each, and one posterior of them all."""
    truth, without, releases = draw(*task)
    start = time.perf_counter()
    fit = BayesianRegression(draws=250, chains=4, seed=task[0]).fit(releases)
    took = time.perf_counter() - start
    interval, drawn = fit.conf_int(), fit.posteriors_[0]
    width = float(np.median((np.ptp(interval, axis=1) / (2.0 * without))[1:]))
    return coverage(interval, truth), width, drawn.definite_share, float(np.min(drawn.ess)), took


def coverage(interval: Floats, truth: Truth) -> float:
    """Return the share of coefficients that intervals hold."""
    low, high = interval.T
    return float(np.mean((low <= truth.beta) & (high >= truth.beta)))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    print(
        f"{repeats} repeats\n\n| n | d | features | noise | ε | definite | coverage | closed form | plug-in "
        "| ESS of the worst | s |"
    )
    print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for (n, d, epsilon), (correlated, mechanism) in product(CELLS, ((False, "gaussian"), (True, "laplace"))):
            cases = [(seed, n, d, epsilon, correlated, mechanism) for seed in range(repeats)]
            table = np.array(list(workers.map(run_repeat, cases, chunksize=4)))
            covered, closed, plugin, definite = table[:, :4].mean(axis=0)
            ess, took = np.median(table[:, 4:], axis=0)
            kind = "correlated" if correlated else "independent"
            print(
                f"| {n} | {d} | {kind} | {mechanism} | {epsilon:g} | {definite:.0%} | {covered:.3f} | {closed:.3f} "
                f"| {plugin:.3f} | {ess:.0f} | {took:.1f} |",
                flush=True,
            )
        print("\n| hospitals | definite | coverage / width | ESS of the worst | s |")
        print("| --- | ---: | ---: | ---: | ---: |")
        for case in CASES:
            table = np.array(list(workers.map(run_sites, [(seed, case) for seed in range(repeats)], chunksize=4)))
            covered, definite = table[:, [0, 2]].mean(axis=0)
            width, ess, took = np.median(table[:, [1, 3, 4]], axis=0)
            print(
                f"| {case.name} | {definite:.0%} | {covered:.3f} / {width:.2f} | {ess:.0f} | {took:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
