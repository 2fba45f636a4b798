"""Intervals from local reports hold the truth as often as they say, and tests of a true hypothesis have their size.

Reports are drawn in floats by the weights of their law (`local_laws`), which test_local_laws.py holds to the law of the
product. A rate fails beyond three standard errors, on either side. People are drawn anew in each repeat, except where
the estimate is about them.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from local_laws import draw_reports

from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import EstimateTable
from analyst_client.local import (
    GradientDescent,
    LInfinitySampler,
    MomentSampler,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    UnaryEncoding,
    answer_linear_queries,
    contingency_table,
    estimate_means,
    estimate_shares,
    linear_regression,
)

pytestmark = pytest.mark.simulations

Floats = npt.NDArray[np.float64]
LEVEL = 0.95


def margin(repeats: int, rate: float = LEVEL) -> float:
    """Return three standard errors of a rate."""
    return 3.0 * math.sqrt(rate * (1.0 - rate) / repeats)


def coverage(draw: Callable[[], EstimateTable], truth: Floats, repeats: int) -> Floats:
    """Return how often the interval of each number holds it."""
    held = np.zeros(len(truth))
    for _ in range(repeats):
        found = draw().estimates
        ends = np.array([[one.conf_low, one.conf_high] for one in found])
        held += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return held / repeats


def judge(rates: Floats, repeats: int) -> None:
    """Hold rates to the level, from both sides."""
    print(f"{np.min(rates):.3f} to {np.max(rates):.3f}")
    assert np.abs(rates - LEVEL).max() <= margin(repeats)


@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding])
@pytest.mark.parametrize(("n", "epsilon"), [(300, 1), (3_000, "0.5"), (3_000, 3)])
def test_shares(kind: type[RandomizedResponse | UnaryEncoding], n: int, epsilon: float | str) -> None:
    rng, repeats, shares = np.random.default_rng(1), 2_000, np.array([0.5, 0.3, 0.15, 0.05])
    question: Question = kind({"stage": ["1", "2", "3", "4"]}, epsilon=epsilon)
    rates = coverage(
        lambda: estimate_shares(draw_reports(question, rng.choice(4, size=n, p=shares), rng)), shares, repeats
    )
    judge(rates, repeats)


def test_shares_of_a_table_and_of_its_levels() -> None:
    rng, repeats = np.random.default_rng(2), 1_500
    cells = np.array([0.3, 0.1, 0.1, 0.1, 0.15, 0.25])
    question = RandomizedResponse({"sex": ["F", "M"], "stage": ["1", "2", "3"]}, epsilon=1)
    table = cells.reshape(2, 3)
    whole = np.vstack([np.column_stack([table, table.sum(axis=1)]), [*table.sum(axis=0), 1.0]]).ravel()[:-1]
    rates = coverage(
        lambda: estimate_shares(draw_reports(question, rng.choice(6, size=2_000, p=cells), rng)), whole, repeats
    )
    judge(rates, repeats)


@pytest.mark.parametrize(("n", "epsilon"), [(2_000, 1), (5_000, "0.5"), (1_000, 3)])
def test_independence_is_rejected_in_one_of_twenty(n: int, epsilon: float | str) -> None:
    rng, repeats = np.random.default_rng(3), 2_000
    cells = np.outer([0.6, 0.4], [0.5, 0.3, 0.2]).ravel()
    question = RandomizedResponse({"sex": ["F", "M"], "stage": ["1", "2", "3"]}, epsilon=epsilon)
    found = [
        contingency_table(draw_reports(question, rng.choice(6, size=n, p=cells), rng)).independence_test().pvalue
        for _ in range(repeats)
    ]
    rate = float(np.mean(np.array(found) < 1.0 - LEVEL))
    print(f"{rate:.3f}")
    assert abs(rate - (1.0 - LEVEL)) <= margin(repeats)


def skewed(rng: np.random.Generator, n: int) -> Floats:
    return rng.beta(1.0, 4.0, n)


@pytest.mark.parametrize(("n", "epsilon"), [(200, 1), (1_000, "0.5"), (1_000, 4)])
def test_means_of_the_piecewise_mechanism(n: int, epsilon: float | str) -> None:
    rng, repeats = np.random.default_rng(4), 2_000
    question = PiecewiseMechanism({"x": (0, 1)}, epsilon=epsilon)

    def draw() -> EstimateTable:
        place = skewed(rng, n) * question.steps
        codes = np.floor(place) + (rng.random(n) < place % 1.0)
        return estimate_means(draw_reports(question, codes, rng))

    judge(coverage(draw, np.array([0.2]), repeats), repeats)


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize(("n", "epsilon"), [(300, 1), (2_000, 3)])
def test_means_of_vectors(d: int, n: int, epsilon: float) -> None:
    rng, repeats = np.random.default_rng(5), 1_500
    question = LInfinitySampler({f"x{j}": (0, 1) for j in range(d)}, epsilon=epsilon)

    def draw() -> EstimateTable:
        return estimate_means(draw_reports(question, 2.0 * rng.beta(1.0, 4.0, (n, d)) - 1.0, rng))

    judge(coverage(draw, np.full(d, 0.2), repeats), repeats)


def test_linear_queries_of_the_people_themselves() -> None:
    rng, repeats, n = np.random.default_rng(6), 2_000, 200
    question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    bits, weights = (rng.random(n) < 0.2).astype(np.int64), rng.uniform(-1.0, 1.0, (5, n))
    rates = coverage(lambda: answer_linear_queries(draw_reports(question, bits, rng), weights), weights @ bits, repeats)
    judge(rates, repeats)


def rows(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
    """Return two features that depend on each other, and a target with a spread that depends on them."""
    a = rng.uniform(-1.0, 1.0, n)
    b = 0.5 * a + 0.5 * rng.uniform(-1.0, 1.0, n)
    return a, b, 0.1 + 0.4 * a - 0.2 * b + 0.3 * (0.5 + 0.5 * np.abs(a)) * rng.uniform(-1.0, 1.0, n)


@pytest.mark.parametrize(("n", "epsilon"), [(6_000, 1), (20_000, 1)])
def test_linear_regression_on_one_feature(n: int, epsilon: float) -> None:
    rng, repeats = np.random.default_rng(7), 800
    question = MomentSampler({"a": (-1, 1), "y": (-1, 1)}, "y", epsilon=epsilon)

    def draw() -> EstimateTable:
        a, _, y = rows(rng, n)
        return linear_regression(draw_reports(question, np.column_stack([a, y, 2 * a * a - 1, a * y]), rng))

    judge(coverage(draw, np.array([0.1, 0.3]), repeats), repeats)


@pytest.mark.parametrize(("n", "epsilon"), [(60_000, 3), (12_000, 8)])
def test_linear_regression_on_two_features(n: int, epsilon: float) -> None:
    """The second case is as weak as may be: a few fits are refused, and the others' intervals hold all the same."""
    rng, repeats, refused = np.random.default_rng(8), 300, 0
    question = MomentSampler({"a": (-1, 1), "b": (-1, 1), "y": (-1, 1)}, "y", epsilon=epsilon)

    def draw() -> EstimateTable:
        nonlocal refused
        while True:
            a, b, y = rows(rng, n)
            vectors = np.column_stack([a, b, y, 2 * a * a - 1, a * b, 2 * b * b - 1, a * y, b * y])
            try:
                return linear_regression(draw_reports(question, vectors, rng))
            except EstimationError:
                refused += 1

    judge(coverage(draw, np.array([0.1, 0.4, -0.2]), repeats), repeats)
    assert refused < 0.1 * repeats


@pytest.mark.parametrize(
    ("loss", "people", "epsilon"), [("squared", 100, 1), ("squared", 200, 3), ("logistic", 300, 2)]
)
def test_coefficients_of_a_descent(loss: str, people: int, epsilon: float) -> None:
    """Of chains with so many people at each step: bias that intervals do not hold is small beside them here."""
    rng, repeats, truth = np.random.default_rng(8), 150, np.array([0.1, 0.4, -0.2])
    truth = truth if loss == "squared" else 2.0 * truth
    bounds = {"a": (-1, 1), "b": (-1, 1), "y": (-1, 1)}

    def gradients(theta: Floats) -> Floats:
        X = np.column_stack([np.ones(people), rng.uniform(-1.0, 1.0, (people, 2))])
        if loss == "squared":
            y = X @ truth + 0.3 * rng.uniform(-1.0, 1.0, people)
            residual = X @ theta - y
        else:
            residual = 1.0 / (1.0 + np.exp(-X @ theta)) - (rng.random(people) < 1.0 / (1.0 + np.exp(-X @ truth)))
        return np.clip(residual[:, np.newaxis] * X / 2.0 ** (loss == "squared"), -1.0, 1.0)

    def draw() -> EstimateTable:
        options = {"loss": loss, "epsilon": epsilon, "clip": 2 if loss == "squared" else 1}
        descent = GradientDescent(bounds, "y", **options)  # type: ignore[arg-type]
        while descent.done < descent.steps:
            thetas = [np.array([float(Fraction(b)) for b in one.coefficients]) for one in descent.questions]
            vectors = [gradients(theta) for theta in thetas]
            pairs = zip(descent.questions, vectors, strict=True)
            descent.step([draw_reports(question, vector, rng) for question, vector in pairs])
        return descent.estimate()

    judge(coverage(draw, truth, repeats), repeats)
