"""Which method when: what is kept of what can be explained, by nµ/d^1.5.

n is the number of rows, µ the price in Gaussian differential privacy, d the number of terms with the constant. Problems
are drawn with a fixed seed, equally many in each half decade of nµ/d^1.5: 3 to 20 features, 300 to 100,000 rows, ε from
0.1 to 10 at δ = 1e-6, R² from 0.2 to 0.9, correlations of 0 to 0.8; half of them have long tails, log-normal features
and residuals of Student's t. Bounds are those of ``studies.protocol``. Of the same price stand beside each other

- the mean alone: the noisy sum of the target within its bounds, over the number of rows;
- one release, under the default row map for the right ``expected_rows``: AdaSSP, EmpiricalBayes from 4,000 rows on;
- AdaSSP of Wang, as it is published;
- a refinement, under ``RefinementRules.for_predictions()``; for intervals another one, under the default rules.

What is kept is R² on new rows over that of least squares without privacy, or of its winsorised twin where that is
better; where the latter is below 0.05, a problem is left out. Lengths of 95 % intervals are over those of least squares
on the same columns, for residuals of any variance, in the median of slopes. Noise is normal, as wide as the curator
states. With ``--data`` sets of the UCI collection are points of the figure, and have a table. Prints Markdown.

    python -m studies.which [--data DIR] [--out FILE] [--problems 30] [--splits 3]
"""

import argparse
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from analyst_client import AdaSSP, EmpiricalBayes, EstimationError, EstimationWarning, RefinedRegression
from analyst_client.estimators.linear import LinearFit
from analyst_client.inference.quantiles import student_quantile
from analyst_client.refinement.rules import RefinementRules
from bench.ideal import IdealCurator
from bench.refined import cuts, least_squares
from bench.simulation import Hospital, SeededNoise
from studies.common import IMAGES, print_table
from studies.figure import BandPanel, draw_bands
from studies.problems import EDGES, TAILS, Problem, draw_problems, read_sets
from studies.protocol import Floats, draw_bounds, error_without_privacy
from studies.refinement import plain_error

METHODS = ("mean alone", "one release", "AdaSSP of Wang", "refinement")
MEAN, ONE, _, REFINED = range(len(METHODS))
WITH_INTERVALS = (METHODS[ONE], METHODS[REFINED])
BOUNDS = ("tight", "loose")
PLACE = "nµ/d^1.5"
MANY = 4_000
"""Rows from which EmpiricalBayes is the better fit of one release (docs/benchmarks.md)."""
LEAST, MARGIN = 0.05, 0.05
"""R² without privacy below which there is nothing to keep, and the part of it by which one method is worse."""


class Outcome(NamedTuple):
    """Part of what can be explained that each method keeps, and relative lengths of intervals."""

    name: str
    n: int
    d: int
    epsilon: float
    place: float
    rsquared: float
    kept: Floats
    lengths: Floats


Outcomes: TypeAlias = Mapping[str, Sequence[Outcome]]
"""By the kind of bounds."""


def measure(problem: Problem, bounds: Floats) -> tuple[Floats, Floats]:
    """Return squared errors of the mean of new rows, without privacy and of each method, and relative lengths."""
    train, test, mu = problem.train, problem.test, problem.mu
    generator = np.random.default_rng(problem.seed)
    center, scale = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2
    z, new = (np.clip((rows - center) / scale, -1.0, 1.0) for rows in (train, test))
    mean = np.clip((z[:, -1].sum() + generator.standard_normal() / mu) / len(z), -1.0, 1.0)
    z[:, -1] *= 1.5  # a simulated hospital's target lies within ±1.5
    hospital = Hospital.by_default(z[:, :-1], z[:, -1], problem.epsilon)
    release = hospital.release(problem.epsilon, source=SeededNoise(generator))
    one = (EmpiricalBayes() if len(z) >= MANY else AdaSSP()).fit(release)
    curator = IdealCurator.of_rows(train, bounds, generator)
    refined = RefinedRegression().fit(curator.refine(mu, RefinementRules.for_predictions()))
    default = RefinedRegression().fit(curator.refine(mu))
    predicted = [
        test[:, -1].mean(),
        center[-1] + scale[-1] * mean,
        center[-1] + scale[-1] / 1.5 * one.predict(new[:, :-1], clip=True),
        refined.predict(test[:, :-1], clip=True),
    ]
    none, *errors = (float(np.mean((values - test[:, -1]) ** 2)) for values in predicted)
    errors.insert(2, plain_error(train, test, bounds, problem.epsilon, seed=problem.seed + 1))
    lengths = [relative_length(one, z), math.inf]
    if default.refined_.frame is not None:
        low, high = np.transpose(cuts(default.refined_))
        lengths[1] = relative_length(default, np.clip(train, low, high))
    return np.array([none, error_without_privacy(train, test), *errors]), np.array(lengths)


def relative_length(fit: LinearFit | RefinedRegression, rows: Floats) -> float:
    """Return the length of the intervals of slopes over those of least squares, in the median."""
    try:
        intervals = fit.conf_int()
    except EstimationError:
        return math.inf  # the price was too low for any
    plain = 2.0 * student_quantile(0.025, len(rows)) * least_squares(rows)[1]
    return float(np.median(((intervals[:, 1] - intervals[:, 0]) / plain)[1:]))


def outcomes_of(problems: Iterable[list[Problem]]) -> Outcomes:
    """Measure problems under bounds of each kind, the splits of one together."""
    found: dict[str, list[Outcome]] = {kind: [] for kind in BOUNDS}
    for splits in problems:
        first = splits[0]
        for kind, outcomes in found.items():
            bounds = draw_bounds(np.vstack([first.train, first.test]), kind, first.seed + 7)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", EstimationWarning)
                errors, lengths = zip(*(measure(split, bounds) for split in splits), strict=True)
            none, *each = np.mean(errors, axis=0)
            least, *rsquared = 1.0 - np.array(each) / none
            if least >= LEAST:
                own = (first.name, *first.train.shape, first.epsilon, first.place, least)
                outcomes.append(Outcome(*own, np.array(rsquared) / least, np.median(lengths, axis=0)))
    return found


def by_bin(outcomes: Sequence[Outcome], name: str, edges: Floats = EDGES) -> Iterator[tuple[float, float, Floats]]:
    """Yield the ends of each bin that is not empty, and an array of its outcomes and the methods."""
    places = np.array([outcome.place for outcome in outcomes])
    values = np.array([getattr(outcome, name) for outcome in outcomes])
    for low, high in pairwise(edges.tolist()):
        inside = (low <= places) & (places < high)
        if inside.any():
            yield low, high, values[inside]


def place(value: float) -> str:
    """Write a value of nµ/d^1.5.

    Examples
    --------
    >>> place(0.316), place(316.2), place(1000.0)
    ('0.32', '316', '1,000')
    """
    return f"{value:,.0f}" if value > 9.5 else f"{value:.2g}"


def band(values: Floats) -> Floats:
    """Return the 10, 50 and 90 % points over the first axis, each one of the values, as some are infinite."""
    found: Floats = np.quantile(values, [0.1, 0.5, 0.9], axis=0, method="nearest")
    return found


def part(value: float) -> str:
    """Write a part of what can be explained; below −1 one is as bad as another.

    Examples
    --------
    >>> part(-0.002), part(-0.25), part(-7.0)
    ('0.00', '−0.25', 'below −1')
    """
    return "below −1" if value < -1.0 else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def length(value: float) -> str:
    """Write a relative length."""
    return "no end" if math.isinf(value) else f"{value:.2f}" if value < 10.0 else f"{value:,.0f}"


def kept_lines(found: Outcomes) -> Iterator[Sequence[object]]:
    """Write what each method keeps: the median, and 10 to 90 % of problems."""
    for kind, outcomes in found.items():
        for low, high, kept in by_bin(outcomes, "kept"):
            cells = ["{1} ({0} to {2})".format(*map(part, own)) for own in band(kept).T]
            yield kind, f"{place(low)} to {place(high)}", len(kept), *cells


def length_lines(found: Outcomes) -> Iterator[Sequence[object]]:
    """Write how many intervals are bounded, and how long they are, of one release and of a refinement."""
    for kind, outcomes in found.items():
        for low, high, lengths in by_bin(outcomes, "lengths"):
            shares, bands = np.isfinite(lengths).mean(axis=0), band(lengths).T
            cells = ["{1} ({0} to {2})".format(*map(length, own)) for own in bands]
            yield kind, f"{place(low)} to {place(high)}", f"{shares[0]:.0%}", cells[0], f"{shares[1]:.0%}", cells[1]


def failure_lines(found: Outcomes) -> Iterator[Sequence[object]]:
    """Write how often a refinement is worse than one release and than the mean alone."""
    for kind, outcomes in found.items():
        for tails in TAILS:
            for low, high, kept in by_bin([own for own in outcomes if own.name == tails], "kept", EDGES[::2]):
                worse = [f"{np.mean(kept[:, REFINED] < kept[:, other] - MARGIN):.0%}" for other in (ONE, MEAN)]
                yield kind, tails, f"{place(low)} to {place(high)}", part(np.median(kept[:, REFINED])), *worse


def set_lines(sets: Outcomes) -> Iterator[Sequence[object]]:
    """Write what one release and a refinement keep of sets of the collection, and the length of the latter."""
    for both in zip(*sets.values(), strict=True):
        own = both[0]
        cells = [(part(each.kept[ONE]), part(each.kept[REFINED]), length(each.lengths[1])) for each in both]
        yield own.name, f"{own.n:,}", own.d, f"{own.epsilon:g}", place(own.place), part(own.rsquared), *sum(cells, ())


def draw(path: Path, found: Outcomes, sets: Outcomes) -> None:
    """Draw what is kept, and lengths, with sets of the collection as points."""
    panels = []
    for name, methods in (("kept", METHODS), ("lengths", WITH_INTERVALS)):
        for kind, outcomes in found.items():
            bins = list(by_bin(outcomes, name))
            bands = np.array([band(values) for _, _, values in bins])
            points = np.array([(own.place, *getattr(own, name)) for own in sets[kind]]).reshape(-1, 1 + len(methods))
            panels.append(
                BandPanel(
                    title=f"{kind} bounds",
                    places=np.array([math.sqrt(low * high) for low, high, _ in bins]),
                    bands={method: bands[:, :, k] for k, method in enumerate(methods)},
                    points={method: points[:, [0, 1 + methods.index(method)]] for method in WITH_INTERVALS},
                )
            )
    draw_bands(path, panels[: len(BOUNDS)], panels[len(BOUNDS) :])


def main() -> None:
    """Draw problems, measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="sets of the UCI collection")
    parser.add_argument("--out", type=Path, default=IMAGES / "which_method.png")
    parser.add_argument("--problems", type=int, default=30, help="of each half decade")
    parser.add_argument("--splits", type=int, default=3, help="of each set")
    options = parser.parse_args()
    begin = time.perf_counter()
    found = outcomes_of(draw_problems(options.problems))
    sets = outcomes_of(read_sets(options.data, options.splits) if options.data else [])
    print_table(["bounds", PLACE], ["problems", *METHODS], kept_lines(found))
    lengths = [f"{name}: {what}" for name in WITH_INTERVALS for what in ("bounded", "length")]
    print_table(["bounds", PLACE], lengths, length_lines(found))
    failures = ["a refinement keeps", "worse than one release", "worse than the mean"]
    print_table(["bounds", "rows", PLACE], failures, failure_lines(found))
    if options.data:
        each = [f"{kind}: {method}" for kind in BOUNDS for method in (*WITH_INTERVALS, "its length")]
        print_table(["set"], ["rows", "terms", "ε", PLACE, "R²", *each], set_lines(sets))
    draw(options.out, found, sets)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
