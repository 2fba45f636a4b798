"""Length of private intervals over that of the rows themselves, by size and price: the places that pay.

For n rows, d features and ε (at δ = 1e-6): the expected half length of a slope's 95 % interval over what it would be
without privacy, in the median over slopes, by the formula that `python -m bench.planning` holds against releases of the
server's own code. Rows are those of `simulation.Truth`: correlated normal features with three deviations to the bound.
A request is one step under the small ball. "–": most releases would have no interval with two ends. Prints Markdown.

    python -m bench.sizes [--rows 500 … 1000000] [--terms 2 5 10 20 50] [--epsilons 0.3 1 3]
"""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from analyst_client import expected_accuracy
from bench.planning import assume, quote_of
from bench.simulation import Hospital, Truth
from curator_service.privacy.calibration import Mechanism

ROWS = (500, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000)
TERMS = (2, 5, 10, 20, 50)
EPSILONS = (0.3, 1.0, 3.0)
LONGEST = 2.0
"""Times as long as without privacy, up to which it is said to pay: what a quarter of the rows would tell openly."""


def lengthening(truth: Truth, hospital: Hospital, n: int, epsilon: float) -> float:
    """Return how many times as long an interval is as without privacy; infinite where it has no end."""
    quote = quote_of(hospital.release(epsilon, Mechanism.GAUSSIAN), epsilon, "gaussian")
    expected = expected_accuracy(quote, assume(quote, truth, n))
    if not np.isfinite(expected.half_lengths).all():
        return np.inf
    return float(np.median(1.0 / np.sqrt(1.0 - expected.privacy_shares[1:])))


def table(epsilon: float, rows: Sequence[int], terms: Sequence[int]) -> Iterator[str]:
    """Return the table of one price."""
    yield f"| ε = {epsilon:g}, rows | " + " | ".join(f"{d} features" for d in terms) + " |"
    yield "| ---: |" + " ---: |" * len(terms)
    truths = [Truth.of(d, correlated=True) for d in terms]
    hospitals = [Hospital(*truth.draw(np.random.default_rng(0), 100)) for truth in truths]
    for n in rows:
        found = [lengthening(truth, hospital, n, epsilon) for truth, hospital in zip(truths, hospitals, strict=True)]
        cells = ["–" if np.isinf(x) else f"**{x:.3g}**" if x <= LONGEST else f"{x:.3g}" for x in found]
        yield f"| {n:,} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print a table for each price."""
    parser = argparse.ArgumentParser(description="where private regression pays, by rows, features and epsilon")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--terms", type=int, nargs="+", default=TERMS)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    options = parser.parse_args()
    for epsilon in options.epsilons:
        print("\n".join(table(epsilon, options.rows, options.terms)), end="\n\n")


if __name__ == "__main__":
    main()
