"""CPU time of the discrete Gaussian sampler beside opendp's integer sampler, in the same run.

python bench/sampler.py
"""

import statistics
import time
from collections.abc import Callable

import opendp.prelude as dp

from curator_service.privacy.samplers import SystemNoise

SIGMA = 2**37 + 11
dp.enable_features("contrib")


def measure(act: Callable[[], object], repeats: int) -> float:
    """Return the median CPU seconds of a call."""
    act()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print a table."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=float(SIGMA))
    ours = SystemNoise()
    print("| draws | ours | opendp | ratio |")
    print("| ---: | ---: | ---: | ---: |")
    for size in (1, 21, 200, 2_000, 20_000, 500_000):
        repeats = max(3, min(100, 40_000 // size))
        mine = measure(lambda size=size: ours.sample_discrete_gaussian([SIGMA] * size), repeats)
        if size <= 20_000:
            other = measure(lambda size=size: theirs([0] * size), repeats)
            print(f"| {size:,} | {mine * 1e3:.2f} ms | {other * 1e3:.2f} ms | {other / mine:.1f} |")
        else:
            print(f"| {size:,} | {mine * 1e3:.0f} ms | | |")


if __name__ == "__main__":
    main()
