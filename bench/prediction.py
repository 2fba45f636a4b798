"""Coverage and width of 95 % prediction intervals for new values, on releases of the server's own code.

300 new rows for each release, drawn as the hospital's (`simulation.Truth`). Width is over that of the true residual
deviation. A cell with unbounded intervals counts those as covering. Prints Markdown.

    python -m bench.prediction [--repeats 200]
"""

import argparse

import numpy as np

from analyst_client import AdaSSP
from bench.simulation import Hospital, Truth

CELLS = [
    (500, 3, 1.0, False),
    (500, 3, 1.0, True),
    (500, 3, 3.0, False),
    (5000, 3, 0.5, False),
    (5000, 10, 0.3, False),
    (5000, 10, 1.0, False),
    (50000, 10, 1.0, True),
]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    repeats = parser.parse_args().repeats
    print(f"{repeats} repeats\n\n| n | d | features | ε | unbounded | coverage | width |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: |")
    for n, d, epsilon, correlated in CELLS:
        truth, covered, widths = Truth.of(d, correlated=correlated), [], []
        for seed in range(repeats):
            generator = np.random.default_rng(seed)
            release = Hospital(*truth.draw(generator, n)).release(epsilon)
            rows, values = truth.draw(generator, 300)
            low, high = AdaSSP().fit(release).predict_interval(rows, clip=True).T
            covered.append(np.mean((low <= values) & (high >= values)))
            widths.append(np.median(high - low) / (2 * 1.96 * truth.residual_sd))
        kind = "correlated" if correlated else "independent"
        unbounded, width = np.mean(np.isinf(widths)), np.median(widths)
        print(
            f"| {n} | {d} | {kind} | {epsilon:g} | {unbounded:.0%} | {np.mean(covered):.3f} | {width:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()
