"""Calibration of the posterior of refined fits: coefficients drawn from the prior, rows, and ideal normal noise.

Each repeat draws coefficients of standardised columns from the default prior, given that they leave a tenth of the
target's variance or more, normal rows, and a refinement with the rules for intervals that leaves numbers as they are.
Coverage is that of slopes by intervals with equal tails, weighted draws of the rough normal posterior with the weights
of the density in place of a chain, or with ``--chains`` those of `BayesianRegression`. Prints Markdown.

    python -m bench.refined_posterior [--repeats 200] [--rows 500 1000 5000] [--features 3] [--epsilons 1 3] [--chains]
"""

import argparse
import math
import time
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client import BayesianRegression, EstimationError, EstimationWarning
from analyst_client.inference import Prior
from analyst_client.inference.corrected_posterior import CorrectedModel
from analyst_client.planning.prices import gdp_delta, number_of
from analyst_client.refinement import RefinementRules
from analyst_client.refinement.inference import corrected_equations
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.refinement import Refinement
from bench.ideal import IdealCurator

Floats = npt.NDArray[np.float64]
DELTA = 1e-6
LEVELS = (0.5, 0.8, 0.95)
EXPLAINED_MOST = 0.9
DRAWS = 2000
TAIL_DOF = 8.0


class Case(NamedTuple):
    """A refinement of rows with known coefficients."""

    refinement: Refinement
    slopes: Floats
    intercept: float


class Repeat(NamedTuple):
    """Slopes held at each level, of shape (levels, d), and the share of the prior's spread that is left."""

    held: Floats
    left: float


def draw(seed: int, n: int, d: int, mu: float, prior: Prior | None = None) -> Case:
    """Draw coefficients from a prior, rows, and a refinement of them."""
    generator, prior = np.random.default_rng([seed, n, d]), Prior() if prior is None else prior
    gamma = np.ones(d)
    while gamma @ gamma > EXPLAINED_MOST:
        lam = generator.gamma(prior.coefficient_shape, 1.0 / prior.coefficient_rate)
        gamma = generator.standard_normal(d) / math.sqrt(lam)
    x, spread = generator.standard_normal((n, d)), np.geomspace(0.5, 20.0, d)
    noise = math.sqrt(1.0 - gamma @ gamma) * generator.standard_normal(n)
    intercept, scale = 40.0, 10.0
    rows = np.column_stack([x * spread, intercept + scale * (x @ gamma + noise)])
    bounds = [*((-7.0 * s, 6.0 * s) for s in spread), (intercept - 9.0 * scale, intercept + 7.0 * scale)]
    curator = IdealCurator.of_rows(rows, bounds, generator)
    return Case(curator.refine(mu, RefinementRules()), scale * gamma / spread, intercept)


def weighted_draws(model: CorrectedModel, rng: np.random.Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
    """Return draws of a multivariate t law around the rough posterior, and weights by the density over that law's."""
    center, factor = model.rough_posterior()
    z = rng.standard_normal((draws, model.size)) / np.sqrt(rng.chisquare(TAIL_DOF, (draws, 1)) / TAIL_DOF)
    gamma = center + z @ factor.T
    logs = model.log_density(gamma)[0] + 0.5 * (TAIL_DOF + model.size) * np.log1p(np.sum(z**2, axis=1) / TAIL_DOF)
    weights = np.exp(logs - np.max(logs))
    return gamma, weights / weights.sum()


def weighted_intervals(refinement: Refinement, seed: int, levels: tuple[float, ...]) -> tuple[Floats, float]:
    """Return intervals in raw units, of shape (levels, d, 2), and the mean share of the prior's spread that is left."""
    found, prior = refinement.found, Prior()
    assert isinstance(found, Refined)
    model = CorrectedModel(corrected_equations(found), prior)
    gamma, weights = weighted_draws(model, np.random.default_rng(seed))
    mean = weights @ gamma
    left = np.sqrt(weights @ (gamma - mean) ** 2) / prior.coefficient_sd(model.size, constant=True)
    frame = found.frame
    assert frame is not None
    raw = (model.units.origin + gamma @ model.units.matrix.T)[:, 1:]
    raw = raw * frame.target.scale / np.array([term.scale for term in frame.terms[1:]])
    intervals = np.empty((len(levels), raw.shape[1], 2))
    for j, values in enumerate(raw.T):
        order = np.argsort(values)
        cumulated = np.cumsum(weights[order])
        for k, level in enumerate(levels):
            places = np.searchsorted(cumulated, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
            intervals[k, j] = values[order][np.minimum(places, DRAWS - 1)]
    return intervals, float(np.mean(left[1:]))


def run(seed: int, n: int, d: int, mu: float, *, chains: bool = False) -> Repeat | None:
    """Draw and fit; None where the price bought no XᵀX."""
    case = draw(seed, n, d, mu)
    try:
        if chains:
            fit = BayesianRegression(draws=500, chains=2, seed=seed).fit(case.refinement)
            intervals = np.array([fit.conf_int(level)[1:] for level in LEVELS])
            left = float(np.mean(fit.posteriors_[0].sd_ratio[1:]))
        else:
            intervals, left = weighted_intervals(case.refinement, seed, LEVELS)
    except EstimationError:
        return None
    held = (intervals[..., 0] <= case.slopes) & (case.slopes <= intervals[..., 1])
    return Repeat(held.astype(np.float64), left)


def coverage(repeats: int, n: int, d: int, mu: float, *, chains: bool = False) -> tuple[Floats, Floats, float, int]:
    """Return coverage at each level and its standard error, the prior's share, and how many repeats there were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        found = [one for seed in range(repeats) if (one := run(seed, n, d, mu, chains=chains)) is not None]
    held = np.array([one.held.mean(axis=1) for one in found]).reshape(-1, len(LEVELS))
    errors = held.std(axis=0) / math.sqrt(max(len(found), 1))
    return held.mean(axis=0), errors, float(np.mean([one.left for one in found])), len(found)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 1000, 5000])
    parser.add_argument("--features", type=int, nargs="+", default=[3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--chains", action="store_true", help="draw by chains, as BayesianRegression does")
    options = parser.parse_args()
    print(f"| n | d | ε | repeats | sd / prior | {' | '.join(f'{level:.0%}' for level in LEVELS)} | seconds |")
    print("| ---: " * (6 + len(LEVELS)) + "|")
    for d in options.features:
        for n in options.rows:
            for epsilon in options.epsilons:
                start = time.perf_counter()
                mu = number_of(gdp_delta, epsilon, DELTA)
                share, errors, left, count = coverage(options.repeats, n, d, mu, chains=options.chains)
                cells = [f"{one:.3f} ± {error:.3f}" for one, error in zip(share, errors, strict=True)]
                took = time.perf_counter() - start
                print(
                    f"| {n:,} | {d} | {epsilon:g} | {count} | {left:.2f} | {' | '.join(cells)} | {took:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
