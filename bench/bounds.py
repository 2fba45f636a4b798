"""Intervals under a bound that the analyst states: how often they cover where it is reached, and how wide they are.

In the first table noise hides much. Slopes are as large as what is stated: each of them ("each"), or the root of their
sum of squares ("together", whose half lengths are those of the last column). "Cut at once" is what must not be done:
the score test's region at one degree of freedom, cut by the bounds of each. The second table is of real sets, on
whose rows the server's own code makes releases. There the root of the sum of squares of all slopes is stated to be at
most `--bound`, in scaled units; half lengths are medians over terms and releases, beside the shares of intervals
with ends without the bound, and of those that tell more than the bound itself. Prints Markdown.

    python -m bench.bounds [--repeats 300] [--data DIR] [--sets protein bike] [--releases 5] [--bound 3.0]

DIR is that of `bench.uci`.
"""

import argparse
import math
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EstimationError, EstimationWarning
from analyst_client.inference.score import StatedBounds
from bench.simulation import Hospital, Truth
from bench.uci import load, outward
from curator_service.privacy.calibration import Mechanism

CELLS = (
    (500, 3, 0.3, False, "gaussian"),
    (500, 3, 0.3, True, "laplace"),
    (500, 10, 1.0, False, "gaussian"),
    (5000, 3, 0.1, True, "gaussian"),
    (5000, 10, 0.3, True, "gaussian"),
    (5000, 10, 1.0, True, "laplace"),
)
"""Rows, features, ε, correlated or not, noise."""
Floats = npt.NDArray[np.float64]
warnings.simplefilter("ignore", EstimationWarning)  # an empty interval counts as one that does not cover


def run_repeat(task: tuple[int, tuple[int, int, float, bool, str]]) -> tuple[float, ...]:
    """Draw one hospital and one release; return what intervals hold, and what share of them had an end without."""
    seed, (n, d, epsilon, correlated, mechanism) = task
    slopes = np.where(np.arange(d) % 2 == 0, 0.6, -0.6) / math.sqrt(d)
    truth = Truth(np.concatenate([[0.1], slopes]), correlated=correlated)
    release = Hospital(*truth.draw(np.random.default_rng(seed), n)).release(epsilon, Mechanism(mechanism))
    fit = AdaSSP().fit(release)
    results = fit.results_[0]
    bounded = np.isfinite(fit.conf_int()).all(axis=1)
    size, nowhere = float(np.abs(slopes[0])), np.full((d + 1, 2), np.nan)
    each, together = dict.fromkeys(results.names[1:], size), float(np.linalg.norm(slopes))
    intervals = []
    for bound in (each, together):
        try:
            intervals.append(fit.conf_int(bound=bound))
        except EstimationError:
            intervals.append(nowhere)
    stated = StatedBounds(results.contrasts[1:] / size, results.offsets[1:] / size, np.arange(d))
    at_once = results.equations.region.outer_intervals(results.contrasts, 3.84, stated)
    intervals.append(nowhere if at_once is None else at_once)
    held = [np.mean(((low <= truth.beta) & (truth.beta <= high))[1:]) for low, high in np.swapaxes(intervals, 1, 2)]
    width = np.ptp(intervals[1], axis=1)[1:] / (2.0 * together)
    return (*map(float, held), float(np.mean(bounded)), float(np.median(width)))


def measure_set(task: tuple[Path, float, int, float]) -> tuple[float, ...]:
    """Return the median half length of slopes' intervals under the bound, and two shares of intervals."""
    folder, epsilon, releases, bound = task
    data = load(folder)[0]
    low, high = np.array([outward(column.min(), column.max()) for column in data.T]).T
    scaled = 2.0 * (data - low) / (high - low) - 1.0
    hospital = Hospital(scaled[:, :-1], scaled[:, -1], target_bound=1.0)
    alone, stated = [], []
    for _ in range(releases):
        fit = AdaSSP().fit(hospital.release(epsilon))
        alone.append(np.isfinite(fit.conf_int()).all(axis=1)[1:])
        try:
            stated.append(np.ptp(fit.conf_int(bound=bound), axis=1)[1:] / 2.0)
        except EstimationError:
            stated.append(np.full(data.shape[1] - 1, np.nan))
    lengths = np.array(stated)
    return float(np.nanmedian(lengths)), float(np.mean(alone)), float(np.mean(lengths < 0.99 * bound))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", help="default all of them")
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--bound", type=float, default=3.0)
    options = parser.parse_args()
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        print(f"{options.repeats} repeats\n")
        print("| n | d | features | noise | ε | ends without | each | together | cut at once | half length / bound |")
        print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for cell in CELLS:
            tasks = [(seed, cell) for seed in range(options.repeats)]
            table = np.array(list(workers.map(run_repeat, tasks, chunksize=5)))
            each, together, at_once, ends = table[:, :4].mean(axis=0)
            n, d, epsilon, correlated, mechanism = cell
            kind = "correlated" if correlated else "independent"
            width = np.nanmedian(table[:, 4])
            print(
                f"| {n} | {d} | {kind} | {mechanism} | {epsilon:g} | {ends:.0%} | {each:.3f} | {together:.3f} "
                f"| {at_once:.3f} | {width:.2f} |",
                flush=True,
            )
        if options.data is None:
            return
        print(
            "\n| set | ε | ends without | half length | narrower than the bound |\n| --- | ---: | ---: | ---: | ---: |"
        )
        names = options.sets or sorted(path.parent.name for path in options.data.glob("*/data.csv.gz"))
        prices = (1.0, 3.0)
        cases = [(options.data / name, price, options.releases, options.bound) for name in names for price in prices]
        for (folder, epsilon, *_), found in zip(cases, workers.map(measure_set, cases), strict=True):
            length, ends, narrower = found
            print(f"| {folder.name} | {epsilon:g} | {ends:.0%} | {length:.2f} | {narrower:.0%} |", flush=True)


if __name__ == "__main__":
    main()
