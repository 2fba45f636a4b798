"""Waiting time of an analyst for `describe` and `predict` of a release, beside a decomposition of this machine.

The release is the tutorial's, of four features. `describe` is of all that it holds, `predict` of 1,000 rows of a frame.
Medians of calls that take turns, with their quartiles; the ratio is to the eigenvalues of a symmetric matrix of 300.

    python -m bench.reading [--rounds 200]
"""

import argparse
import time
import warnings

import numpy as np

from analyst_client import AdaSSP, EstimationWarning, Release, describe
from analyst_client.tutorial import REQUEST, recorded_client

FEATURES = ("age", "sex", "creatinine", "lambda")


def main() -> None:
    """Take turns and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    release: Release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    generator, count = np.random.default_rng(1), 1000
    frame = {
        "age": generator.uniform(50, 100, count),
        "sex": generator.choice(["F", "M"], count),
        "creatinine": generator.uniform(0.5, 2.0, count),
        "lambda": generator.uniform(0.5, 4.0, count),
    }
    square = generator.standard_normal((300, 300))
    warnings.simplefilter("ignore", EstimationWarning)
    fit = AdaSSP().fit(release)
    calls = {
        "describe": lambda: describe(release),
        "predict": lambda: fit.predict(frame, clip=True),
        "eigenvalues": lambda: np.linalg.eigvalsh(square + square.T),
    }
    times = {name: np.empty(options.rounds) for name in calls}
    for k in range(options.rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name][k] = time.perf_counter() - begin
    print("| call | ms, median | quartiles | over eigenvalues |\n| --- | ---: | ---: | ---: |")
    base = float(np.median(times["eigenvalues"]))
    for name, taken in times.items():
        low, middle, high = 1e3 * np.quantile(taken, [0.25, 0.5, 0.75])
        print(f"| {name} | {middle:.2f} | {low:.2f} to {high:.2f} | {middle / 1e3 / base:.2f} |")


if __name__ == "__main__":
    main()
