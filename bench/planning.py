"""Plans against what happens: expected half lengths and power beside those of releases by the server's own code.

Rows are drawn anew for each repeat (`simulation.Truth`): uniform features that fill their bounds, or correlated normal
ones with three deviations to the bound. The plan knows their law, coefficients and residual deviation, as a good guess
would have them; "from a pilot" it knows another release of the same rows, at a third of ε. Half lengths: expected over
the observed median, in the median over slopes. Power: of the test of one slope against a value so far off that the plan
expects 0.5 and 0.8. Prints Markdown.

    python -m bench.planning [--repeats 300] [--rows 2000 20000] [--terms 3 10] [--noise gaussian laplace]
"""

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np
import numpy.typing as npt

from analyst_client import OLS, Assumptions, EstimationError, Release, expected_accuracy
from analyst_client.inference.quantiles import student_quantile
from analyst_client.kinds import Quote
from analyst_client.schema import Cost
from bench.simulation import DELTA, Hospital, Truth
from curator_service.privacy.accountant import GDP, Price
from curator_service.privacy.calibration import Mechanism

EPSILONS = (0.1, 0.3, 1.0, 3.0)
POWERS = {0.5: 0.0, 0.8: 0.8416}  # and how far beyond the critical value the effect lies, in standard errors
Floats = npt.NDArray[np.float64]


def quote_of(release: Release, epsilon: float, mechanism: str) -> Quote:
    """Return the quote of a simulated release."""
    price = Price(epsilon=epsilon, delta=None if mechanism == "laplace" else DELTA)
    amount = GDP.spent(GDP.units_of(price), DELTA)
    pure = epsilon if mechanism == "laplace" else None
    cost = Cost(amount.mu, amount.rho, amount.epsilon, amount.delta, amount.units, pure, 0.1)
    return Quote(
        release.dataset,
        "gram",
        release.request,
        release.noise,
        cost,
        features=release.features,
        inner_columns=release.inner_columns,
        expressions=release.expressions,
        terms=release.terms,
        targets=release.targets,
        affordable=True,
        pass_over_rows=True,
        duration_s=0.0,
        answer_bytes=4096,
        answer_bytes_left=2**30,
        stored_release=None,
        derivable_from=None,
        offers=(),
    )


def assume(quote: Quote, truth: Truth, n: int) -> Assumptions:
    """State what the rows are drawn from."""
    names = [f"x{j + 1}" for j in range(len(truth.beta) - 1)]
    laws = {"sds": dict.fromkeys(names, 1.0 / 3.0), "correlation": 0.5} if truth.correlated else {}
    coefficients = dict(zip(["(constant)", *names], truth.beta.tolist(), strict=True))
    return Assumptions.of(quote, rows=n, residual_sd=truth.residual_sd, coefficients=coefficients, **laws)


def intervals_of(release: Release) -> Floats:
    """Return the intervals that are bought; the whole line where there are none."""
    try:
        return OLS().fit(release).conf_int()
    except EstimationError:
        return np.tile([-np.inf, np.inf], (len(release.terms), 1))


def from_pilot(quote: Quote, pilot: Release) -> Floats:
    """Return the half lengths that a pilot lets expect; NaN where it tells too little."""
    try:
        return expected_accuracy(quote, Assumptions.from_release(quote, pilot)).half_lengths
    except ValueError:
        return np.full(len(quote.terms), np.nan)


def run_repeat(case: tuple[int, int, int, bool, str]) -> list[tuple[Floats, Floats]]:
    """Draw one hospital, and buy at every price; return intervals, and what a pilot of it would have let expect."""
    seed, n, d, correlated, mechanism = case
    truth = Truth.of(d, correlated=correlated)
    hospital = Hospital(*truth.draw(np.random.default_rng(seed), n))
    found = []
    for epsilon in EPSILONS:
        release = hospital.release(epsilon, Mechanism(mechanism))
        pilot = hospital.release(epsilon / 3.0, Mechanism(mechanism))
        found.append((intervals_of(release), from_pilot(quote_of(release, epsilon, mechanism), pilot)))
    return found


def summarise(
    n: int, d: int, correlated: bool, mechanism: str, results: list[list[tuple[Floats, Floats]]]
) -> Iterator[str]:
    """Return one line for each price."""
    truth = Truth.of(d, correlated=correlated)
    sample = Hospital(*truth.draw(np.random.default_rng(0), 100))
    for k, epsilon in enumerate(EPSILONS):
        quote = quote_of(sample.release(epsilon, Mechanism(mechanism)), epsilon, mechanism)
        expected = expected_accuracy(quote, assume(quote, truth, n))
        low, high = np.moveaxis(np.array([each[k][0] for each in results])[:, 1:], 2, 0)
        observed = np.median((high - low) / 2.0, axis=0)
        bounded = np.mean(np.isfinite(high - low).all(axis=1))
        features = "correlated" if correlated else "independent"
        head = f"| {n} | {d} | {features} | {mechanism} | {epsilon:g} | {expected.identification:.3g} "
        head += f"| {expected.bounded:.0%} / {bounded:.0%} "
        wanted = expected.half_lengths[1:]
        if not np.isfinite(wanted).all() or not np.isfinite(observed).all():
            agree = "both" if not np.isfinite(wanted).all() and not np.isfinite(observed).all() else "one"
            yield f"{head}| {agree} unbounded | – | – | – |"
            continue
        pilots = np.median(np.array([each[k][1] for each in results])[:, 1:] / observed, axis=1)
        told = pilots[np.isfinite(pilots)]
        quartiles = np.quantile(told, [0.25, 0.5, 0.75]) if len(told) else np.full(3, np.nan)
        head += f"| {np.median(wanted / observed):.3f} "
        head += f"| {quartiles[1]:.2f} ({quartiles[0]:.2f} to {quartiles[2]:.2f}), {len(told) / len(pilots):.0%} "
        z = student_quantile(0.025, 1e9)
        values = [truth.beta[1:] + wanted * (z + beyond) / z for beyond in POWERS.values()]
        power = [np.mean((high < value) | (low > value)) for value in values]
        yield f"{head}| {power[0]:.2f} | {power[1]:.2f} |"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--terms", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--noise", nargs="+", default=["gaussian", "laplace"])
    options = parser.parse_args()
    heads = ("identification", "bounded: expected / observed", "half length: expected / observed")
    more = ("from a pilot (quartiles), pilots that told", "power where 0.5 is expected", "where 0.8 is")
    print(f"{options.repeats} repeats\n\n| n | d | features | noise | ε | {' | '.join(heads + more)} |")
    print("| ---: | ---: | --- | --- |" + " ---: |" * 7)
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for n, d, correlated, mechanism in product(options.rows, options.terms, (False, True), options.noise):
            cases = [(seed, n, d, correlated, mechanism) for seed in range(options.repeats)]
            results = list(workers.map(run_repeat, cases, chunksize=5))
            for line in summarise(n, d, correlated, mechanism, results):
                print(line, flush=True)


if __name__ == "__main__":
    main()
