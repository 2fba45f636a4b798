"""Posteriors on releases of the server's own code: coverage of 95 % intervals, effective sizes and time of 1,000 draws.

Rows are drawn anew for each repeat, with known coefficients (`simulation.Truth`). "Definite" is the mean share of draws
whose latent XᵀX is positive definite: where it is small the release is not informative, and the fit says that the
posterior is the prior's. The last columns are the published posterior that takes noisy statistics for exact ones, and
the time and the effective sizes of 1,000 draws in four chains. Prints Markdown.

    python -m bench.posterior [--repeats 60]
"""

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

from analyst_client import BayesianRegression, RobustPrivateRegression
from bench.simulation import Hospital, Truth
from curator_service.privacy.calibration import Mechanism

CELLS = [
    *product((500, 5000, 50000), (3,), (0.5, 1.0, 3.0)),
    *product((5000, 50000), (10,), (0.5, 1.0, 3.0)),
]


def run_repeat(case: tuple[int, int, int, float, bool, str]) -> tuple[float, ...]:
    """Draw one hospital and one release, and both posteriors."""
    seed, n, d, epsilon, correlated, mechanism = case
    truth = Truth.of(d, correlated=correlated)
    release = Hospital(*truth.draw(np.random.default_rng(seed), n)).release(epsilon, Mechanism(mechanism))
    start = time.perf_counter()
    fit = BayesianRegression(draws=250, chains=4, seed=seed).fit(release)
    took = time.perf_counter() - start
    plugin = RobustPrivateRegression(draws=250, chains=4, seed=seed).fit(release)
    covered = []
    for each in (fit, plugin):
        low, high = each.conf_int().T
        covered.append(float(np.mean((low <= truth.beta) & (high >= truth.beta))))
    drawn = fit.posteriors_[0]
    return (*covered, drawn.definite_share, float(np.min(drawn.ess)), took)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    repeats = parser.parse_args().repeats
    print(
        f"{repeats} repeats\n\n| n | d | features | noise | ε | definite | coverage | plug-in | ESS of the worst | s |"
    )
    print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for (n, d, epsilon), (correlated, mechanism) in product(CELLS, ((False, "gaussian"), (True, "laplace"))):
            cases = [(seed, n, d, epsilon, correlated, mechanism) for seed in range(repeats)]
            table = np.array(list(workers.map(run_repeat, cases, chunksize=4)))
            covered, plugin, definite = table[:, :3].mean(axis=0)
            ess, took = np.median(table[:, 3:], axis=0)
            kind = "correlated" if correlated else "independent"
            print(
                f"| {n} | {d} | {kind} | {mechanism} | {epsilon:g} | {definite:.0%} | {covered:.3f} | {plugin:.3f} "
                f"| {ess:.0f} | {took:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
