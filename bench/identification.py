"""Coverage of intervals with an end shown by the release, against the identification that a plan expected.

Designs are raw powers of one column (mean 0.4, deviation 0.25 of its bounds) and two columns of correlation 0.99.
Noise is normal, in the proportions that a request has; its size is that at which a release without a draw of it has the
identification of the first column. `WEAK_RATIO` is the threshold of `analyst_client.inference.summary`. Prints
Markdown.

    python -m bench.identification [--repeats 1000]
"""

import argparse
import math
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EstimationWarning, Release
from analyst_client.inference.caveats import WEAK_RATIO
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds import Noise

DESIGNS = {
    "x, x²": (2000, (0.2, 0.9, -0.6)),
    "x, x², steep": (2000, (0.2, 3.0, -2.5)),
    "x, x², x³": (20000, (0.2, 2.5, -3.5, 1.5)),
    "two alike": (2000, (0.2, 0.6, -0.4)),
}
"""Rows, and the intercept and slopes in scaled units; the residual deviation is 0.3."""
EXPECTED = (0.15, 0.3, 0.6, 1.2, 2.5, 5.0, 10.0, 20.0)
Floats = npt.NDArray[np.float64]
warnings.simplefilter("ignore", EstimationWarning)


def draw_release(design: str, generator: np.random.Generator, size: float, *, drawn: bool = True) -> Release:
    """Draw rows and return a release of them with noise of a size, or one that only states it."""
    n, beta = DESIGNS[design]
    if design == "two alike":
        first, own = 0.4 * generator.standard_normal((2, n))
        features = np.clip(np.column_stack([first, 0.95 * first + 0.1 * own]), -1.0, 1.0)
    else:
        x = np.clip(generator.normal(0.4, 0.25, n), 0.0, 1.0)
        features = np.column_stack([2.0 * x**power - 1.0 for power in range(1, len(beta))])
    X = np.column_stack([np.ones(n), features])
    y = X @ beta + generator.normal(0.0, 0.3, n)
    noise = Noise(1.4 * size, size, 0.8 * size, 1.5 * size, distribution="discrete_gaussian")
    (E,), (e,) = NoiseLaw.of(noise, len(beta)).draw(generator, 1)
    f = generator.normal(0.0, 1.5 * size)
    share = float(drawn)
    gram = X.T @ X
    return Release.from_arrays((gram + gram.T) / 2.0 + share * E, X.T @ y + share * e, y @ y + share * f, noise=noise)


@cache
def size_at(design: str, expected: float) -> float:
    """Return the size of noise at which the expected identification is a given one."""
    size = 1.0
    for _ in range(30):  # identification is nearly as the square of the noise's precision
        stated = draw_release(design, np.random.default_rng(0), size, drawn=False)
        size *= math.sqrt(AdaSSP().fit(stated).identification().ratio / expected)
    return size


def run_repeat(task: tuple[str, float, int]) -> tuple[float, float]:
    """Return the identification of one release, and the share of slopes that their intervals hold."""
    design, expected, seed = task
    fit = AdaSSP().fit(draw_release(design, np.random.default_rng([1, seed]), size_at(design, expected)))
    low, high = fit.conf_int()[1:].T
    slopes = np.array(DESIGNS[design][1][1:])
    return fit.identification().ratio, float(np.mean((low <= slopes) & (slopes <= high)))


def share(values: Floats) -> str:
    """Return a mean and its standard error."""
    return f"{np.mean(values):.3f} ± {np.std(values) / math.sqrt(len(values)):.3f}" if len(values) else "–"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000)
    options = parser.parse_args()
    heads = ("design", "expected", "all bounded", "coverage", "coverage of these", f"of these below {WEAK_RATIO:g}")
    print(f"{options.repeats} releases\n\n| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for design in DESIGNS:
            for expected in EXPECTED:
                tasks = [(design, expected, seed) for seed in range(options.repeats)]
                shown, held = np.array(list(workers.map(run_repeat, tasks, chunksize=50))).T
                bounded = shown > 1.0
                warned = (shown < WEAK_RATIO)[bounded].astype(np.float64)
                cells = (f"{np.mean(bounded):.3f}", share(held), share(held[bounded]), f"{np.mean(warned):.3f}")
                print(f"| {design} | {expected:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
