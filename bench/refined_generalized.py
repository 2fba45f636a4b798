"""Coverage and length of the 95 % intervals of refined logistic and Poisson regressions, with ideal normal noise.

Rows have four correlated columns, one of two values, within bounds four times as wide as the columns are. Each repeat
draws its rows from a population of them, with replacement, and refines them. The truth is the coefficients of maximum
likelihood on the population's columns as that refinement cut them, and lengths are over those of maximum likelihood
without privacy on the same rows. The shift is the largest mean error of a coefficient, in its standard errors. Refused
intervals are counted, and left out of all of these. Prints Markdown.

    python -m bench.refined_generalized [--repeats 200]
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client import EstimationError
from analyst_client.inference.units import raw_units
from analyst_client.refinement.family import Family
from analyst_client.refinement.generalized import RefinedGeneralized
from analyst_client.refinement.information import likelihood
from analyst_client.schema.columns import Term
from bench.ideal import IdealCurator

Floats = npt.NDArray[np.float64]
FAMILIES = ("binomial", "poisson")
CELLS = ((1_000, 0.25), (2_000, 0.25), (20_000, 0.1), (5_000, 1.0))
"""Rows and µ."""
POPULATION = 60_000
NAMES = ("a", "b", "c", "d")
SLOPES = np.array([0.8, -0.5, 0.7, 0.0])
BOUNDS = dict.fromkeys(NAMES, (-10.0, 10.0))
COUNT_MAX = 60.0
NORMAL = 1.96
"""Half of the length of a 95 % interval, in standard errors."""


class Repeat(NamedTuple):
    """Of one refinement, by coefficient: the error over each standard error, and the latter over that without privacy.

    Attributes
    ----------
    errors : ndarray of shape (2, p)
        Over the standard errors of the family, and over the robust ones.
    length : ndarray of shape (p,)
    """

    errors: Floats
    length: Floats


def draw_population(family: str, seed: int = 77) -> tuple[Floats, Floats]:
    """Draw columns and a target."""
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((POPULATION, len(NAMES)))
    x[:, 1] = 0.6 * x[:, 0] + 0.8 * x[:, 1]
    x[:, 2] = x[:, 2] > 0.5
    if family == "binomial":
        return x, (generator.uniform(size=POPULATION) < 1.0 / (1.0 + np.exp(0.7 - x @ SLOPES))).astype(np.float64)
    return x, np.minimum(generator.poisson(np.exp(0.7 + 0.5 * x @ SLOPES)), COUNT_MAX).astype(np.float64)


def most_likely(family: Family, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients of maximum likelihood, the constant first, and their standard errors."""
    z = np.column_stack([np.ones(len(x)), x])
    theta = np.array([family.link(float(y.mean()) / family.unit), *np.zeros(x.shape[1])])
    for _ in range(7):
        eta = z @ theta
        information = (z * family.slope(eta)[:, np.newaxis]).T @ z
        theta = theta + np.linalg.solve(information, z.T @ (y / family.unit - family.mean(eta)))
    return theta, np.sqrt(family.dispersion * np.diag(np.linalg.inv(information)))


def run(population: tuple[Floats, Floats], family: str, n: int, mu: float, seed: int) -> Repeat | None:
    """Draw rows, refine and compare; None where intervals are refused."""
    generator = np.random.default_rng([seed, n, round(1000.0 * mu)])
    picked = generator.integers(0, POPULATION, n)
    x, y = population[0][picked], population[1][picked]
    bounds = BOUNDS | ({} if family == "binomial" else {"y": (0.0, COUNT_MAX)})
    curator = IdealCurator(dict(zip(NAMES, x.T, strict=True)) | {"y": y}, bounds, generator)
    found = curator.refine(mu, family=family).found
    assert isinstance(found, RefinedGeneralized)
    try:
        told = likelihood(found)
    except EstimationError:
        return None
    assert found.frame is not None
    low, high = np.transpose([(term.center - term.scale, term.center + term.scale) for term in found.frame.terms[1:]])
    truth, _ = most_likely(found.family, np.clip(population[0], low, high), population[1])
    _, plain = most_likely(found.family, np.clip(x, low, high), y)
    forms = raw_units(found.frame.terms, Term("index", "numeric", "index", 0.0, 1.0), None)[0] @ found.frame.matrix
    errors = [np.sqrt(np.diag(told.covariance(forms, robust=robust))) for robust in (False, True)]
    return Repeat((forms @ told.theta - truth) / np.array(errors), errors[0] / plain)


def run_all(family: str, n: int, mu: float, repeats: int) -> tuple[Floats, Floats, int]:
    """Return errors over standard errors, relative lengths, and how many repeats were refused.

    Returns
    -------
    errors : ndarray of shape (2, repeats told, p)
        By the family, and robust.
    lengths : ndarray of shape (repeats told, p)
    refused : int
    """
    population = draw_population(family)
    told = [one for seed in range(repeats) if (one := run(population, family, n, mu, seed)) is not None]
    errors, lengths = (np.array(each) for each in zip(*told, strict=True))
    return errors.swapaxes(0, 1), lengths, repeats - len(told)


def lines(repeats: int) -> Iterator[str]:
    """Simulate, and return a line for each family, number of rows and price."""
    for family in FAMILIES:
        for n, mu in CELLS:
            errors, lengths, refused = run_all(family, n, mu, repeats)
            held = 100.0 * np.mean(np.abs(errors) < NORMAL, axis=1)
            cells = [f"{part:.1f}" for each in held for part in (each.min(), each.mean())]
            cells += [f"{np.abs(errors[0].mean(axis=0)).max():.1f}", f"{lengths.mean():.2f}"]
            yield f"| {family} | {n:,} | {mu:g} | {' | '.join(cells)} | {refused} |"


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200)
    print("| family | n | µ | least | mean | robust: least | mean | shift | length | refused |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for line in lines(parser.parse_args().repeats):
        print(line, flush=True)


if __name__ == "__main__":
    main()
