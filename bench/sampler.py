"""CPU time of both laws of noise beside opendp's integer samplers, in the same run, on one core.

python -m bench.sampler

The largest size is a Gram of d = 1000 terms: 500,500 entries. Each size is measured several times, ours and theirs in
turn; medians and quartiles of CPU time are printed. opendp draws in calls of at most 50,000: its time at 500,000 is
that of ten calls.
"""

import statistics
import time
from collections.abc import Callable

import opendp.prelude as dp

from curator_service.privacy.samplers import Distribution, SystemNoise

SCALE = 2**37 + 11
SIZES = (1, 21, 200, 2_000, 20_000, 500_000)
THEIR_CALL = 50_000
dp.enable_features("contrib")

Draw = Callable[[int], object]


def cpu_seconds(draw: Draw, size: int) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    draw(size)
    return time.process_time() - start


def in_calls(draw: Draw) -> Draw:
    """Draw in calls of bounded size."""

    def act(size: int) -> None:
        for first in range(0, size, THEIR_CALL):
            draw(min(THEIR_CALL, size - first))

    return act


def their_sampler(distribution: Distribution) -> Draw:
    """Return opendp's sampler of integers."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if distribution is Distribution.DISCRETE_GAUSSIAN:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(SCALE))
    else:
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(SCALE))
    return in_calls(lambda size: mechanism([0] * size))


def summary(seconds: list[float]) -> str:
    """Return the median and the quartiles, in milliseconds."""
    low, median, high = (1e3 * value for value in statistics.quantiles(seconds, n=4))
    return f"{median:.3g} ({low:.3g} to {high:.3g})"


def main() -> None:
    """Measure and print a table."""
    noise = SystemNoise()
    print("CPU milliseconds of a call: median (quartiles)\n")
    print("| law | draws | ours | opendp | ratio of medians |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for distribution in Distribution:

        def ours(size: int, law: Distribution = distribution) -> object:
            return noise.sample(law, [SCALE] * size)

        theirs = their_sampler(distribution)
        for size in SIZES:
            repeats = max(5, min(200, 20_000 // size))
            cpu_seconds(ours, size), cpu_seconds(theirs, min(size, 200))  # once, unmeasured
            mine, other = [], []
            for k in range(repeats):
                mine.append(cpu_seconds(ours, size))
                if size < 500_000 or k < 3:
                    other.append(cpu_seconds(theirs, size))
            ratio = statistics.median(other) / statistics.median(mine)
            print(f"| {distribution} | {size:,} | {summary(mine)} | {summary(other)} | {ratio:.2g} |", flush=True)


if __name__ == "__main__":
    main()
