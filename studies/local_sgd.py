"""Locally private gradient descent against a central curator: excess risk by the number of people, at equal ε.

Source: the overview of privacy methods whose section 5.3 has the ℓ∞ sampler of Duchi, Jordan and Wainwright (JASA 2018)
as Algorithm 2, and section 6.3 locally private SGD (LPSGD) as Algorithm 5. It classifies the sex of people by height
and weight, at α = 1 and α = 0.1, and shows its results in figures alone.

Protocol. Height and weight are made up of two normal laws, and the loss is the logistic one, as there; beside them
stands a linear regression on four uniform features with the squared loss. Locally, each person answers once: with a
gradient at the current coefficients, cut to [−1, 1] in every entry and passed through the sampler at ε; a lot of a
two-hundredth of all people makes a step of length c/√t, and later halves of the steps are averaged. c is the best of a
grid, known from the population, which nobody would know. Centrally, a curator releases sums of the same people once:
pure ε with Laplace noise, the same guarantee as the local one, and (ε, 1e-6) with Gaussian noise. From them `AdaSSP`
and `LogisticRegression` fit. Plans, sums and noise of the curator are the server's own functions without HTTP, through
`bench.simulation.Hospital`; neighbours differ in one person, and n is public. The local noise is simulated here and is
no part of the product.

The overview's program differs from its own Algorithm 5 and from this one: it passes the *mean* gradient of all rows
through the sampler, once in each of 50 steps at α each, with the bound r read off that gradient; draws from the solid
cube, with a bound twice as large, where the sampler is unbiased on its corners; and steps by α in place of the step
length. It is run too, as "the overview's program": that is no ε-local privacy, and no stated privacy at all.

Excess risk is the mean loss over the population beyond the least possible. Prints Markdown.

    python -m studies.local_sgd [--repeats 20] [--figure studies/images/literature_local.png]
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import AdaSSP, EstimationWarning, LogisticRegression
from bench.simulation import Hospital, Truth
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from studies.common import Panel, draw_panels, head, line, parser_of
from studies.metrics import Floats, Proportion

EPSILONS = (1.0, 0.1)
PEOPLE = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
POPULATION, STEPS, TRIALS = 200_000, 200, 4
PRINTED_STEPS = 50
LENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
LONGEST = 20.0
"""Coefficients stay within this of zero."""
SHARES = {Statistic.XTX: Fraction(1, 2), Statistic.XTY: Fraction(1, 2)}
LOCAL, PRINTED, PLAIN = "locally private SGD", "the overview's program (no guarantee)", "the same SGD, no privacy"
LAPLACE, GAUSSIAN = "central, pure ε", "central, (ε, 1e-6)"
MECHANISMS = {LAPLACE: Mechanism.LAPLACE, GAUSSIAN: Mechanism.GAUSSIAN}
Answers = npt.NDArray[Any]


def corner_share(d: int) -> float:
    """Return 1/C_d of the overview's equation 6: how far a random corner of a half cube lies on its own side.

    For an odd number of dimensions alone. With an even one corners lie on the border of both halves, and counting them
    to both, as the sampler's authors do, lets chances differ by a factor of up to e^ε + 1; to one half, as the overview
    does, the view is biased.

    Examples
    --------
    >>> corner_share(1), corner_share(3), corner_share(5)
    (1.0, 0.5, 0.375)
    """
    if d % 2 == 0:
        raise ValueError("the sampler is private and without bias in an odd number of dimensions alone")
    return float(math.comb(d - 1, (d - 1) // 2) / 2 ** (d - 1))


def private_view(values: Floats, bound: float, epsilon: float, generator: np.random.Generator) -> Floats:
    """Return an ε-locally private view of each row, without bias: Algorithm 2, on the corners of the cube.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        Within ±`bound`; d is odd.
    bound : float
        r, public.
    epsilon : float
    generator : Generator
    """
    n, d = values.shape
    reach = bound / (math.tanh(epsilon / 2.0) * corner_share(d))
    rounded = np.where(generator.random((n, d)) < 0.5 + values / (2.0 * bound), 1.0, -1.0)
    same_side = generator.random(n) < 1.0 / (1.0 + math.exp(-epsilon))
    corners = generator.integers(0, 2, (n, d)) * 2.0 - 1.0
    turned = (np.sum(corners * rounded, axis=1) > 0.0) != same_side
    return np.asarray(reach * np.where(turned[:, np.newaxis], -corners, corners), dtype=np.float64)


def printed_view(value: Floats, epsilon: float, generator: np.random.Generator) -> Floats:
    """Return the view that the overview's program draws of one vector: of the solid cube, r read off the vector."""
    bound = float(np.abs(value).max())
    if bound == 0.0:
        return np.zeros_like(value)
    rounded = np.where(generator.random(len(value)) < 0.5 + value / (2.0 * bound), 1.0, -1.0)
    same_side = generator.random() < 1.0 / (1.0 + math.exp(-epsilon))
    reach = 2.0 * bound / (math.tanh(epsilon / 2.0) * corner_share(len(value)))
    drawn = generator.uniform(-reach, reach, len(value))
    return np.asarray(drawn if (drawn @ rounded >= 0.0) == same_side else -drawn, dtype=np.float64)


@dataclass(frozen=True)
class Task:
    """A regression: how people are drawn, the gradient of a person, and the loss over the population.

    Attributes
    ----------
    name : str
    draw : callable
        From a generator and n: features within [−1, 1], and answers.
    residual : callable
        From predictors and answers to what the gradient is of x.
    excess : callable
        From coefficients, the constant first, to their risk beyond the least.
    fit : callable
        From a hospital, ε and a mechanism to coefficients.
    is_overviews : bool
        Whether the overview's program is for it.
    """

    name: str
    draw: Callable[[np.random.Generator, int], tuple[Floats, Answers]]
    residual: Callable[[Floats, Answers], Floats]
    excess: Callable[[Floats], float]
    fit: Callable[[Hospital, float, Mechanism], Floats]
    is_overviews: bool = False

    def gradients(self, X: Floats, y: Answers, theta: Floats) -> Floats:
        """Return each person's gradient, cut to [−1, 1]."""
        return np.clip(X * self.residual(X @ theta, y)[:, np.newaxis], -1.0, 1.0)


def descend(task: Task, X: Floats, y: Answers, length: float, view: Callable[[Floats], Floats]) -> Floats:
    """Pass over the people once, a lot at a time, and average the later half of the steps."""
    theta, kept = np.zeros(X.shape[1]), []
    for t, lot in enumerate(np.array_split(np.arange(len(X)), STEPS), start=1):
        gradient = view(task.gradients(X[lot], y[lot], theta)).mean(axis=0)
        theta = np.clip(theta - length / math.sqrt(t) * gradient, -LONGEST, LONGEST)
        kept.append(theta)
    return np.asarray(np.mean(kept[STEPS // 2 :], axis=0), dtype=np.float64)


def descend_as_printed(task: Task, X: Floats, y: Answers, epsilon: float, generator: np.random.Generator) -> Floats:
    """Take steps of length ε along a view of the mean gradient of everybody, as the overview's program does."""
    theta = np.zeros(X.shape[1])
    for _ in range(PRINTED_STEPS):
        gradient = task.gradients(X, y, theta).mean(axis=0)
        theta = np.clip(theta - epsilon * printed_view(gradient, epsilon, generator), -LONGEST, LONGEST)
    return theta


def logistic(t: Floats) -> Floats:
    """Return 1/(1 + e⁻ᵗ)."""
    return np.asarray(1.0 / (1.0 + np.exp(-t)), dtype=np.float64)


def bodies(generator: np.random.Generator, count: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Draw heights and weights of women and men, scaled from 135 to 205 cm and from 35 to 125 kg, and who is a man."""
    male = generator.random(count) < 0.5
    height = np.where(male, 176.0, 162.0) + 7.0 * generator.standard_normal(count)
    weight = np.where(male, 84.0, 66.0) + 0.8 * (height - np.where(male, 176.0, 162.0))
    weight = weight + 10.0 * generator.standard_normal(count)
    features = np.column_stack([(height - 170.0) / 35.0, (weight - 80.0) / 45.0])
    return np.clip(features, -1.0, 1.0), male


def with_constant(features: Floats) -> Floats:
    """Put a column of ones first."""
    return np.column_stack([np.ones(len(features)), features])


def logistic_task() -> Task:
    """Return the overview's: who is a man, by height and weight."""
    features, male = bodies(np.random.default_rng(1), POPULATION)
    X = with_constant(features)

    def risk(theta: Floats) -> float:
        predictors = X @ theta
        return float(np.mean(np.logaddexp(0.0, predictors) - male * predictors))

    best = np.zeros(X.shape[1])
    for _ in range(30):  # Newton's method: the loss is convex and the classes overlap
        p = logistic(X @ best)
        best = best - np.linalg.solve((X * (p * (1.0 - p))[:, None]).T @ X, X.T @ (p - male))
    least = risk(best)

    def fit(hospital: Hospital, epsilon: float, mechanism: Mechanism) -> Floats:
        fitted = LogisticRegression().fit(hospital.release(epsilon, mechanism, shares=SHARES))
        return np.append(fitted.intercept_, fitted.coef_)

    return Task(
        "logistic: sex by height and weight",
        bodies,
        lambda predictors, answers: logistic(predictors) - answers,
        lambda theta: risk(theta) - least,
        fit,
        is_overviews=True,
    )


def linear_task() -> Task:
    """Return a linear regression on four uniform features; the risk is half the squared error."""
    truth = Truth.of(4)
    moments = np.diag([1.0, *np.full(4, 1.0 / 3.0)])

    def excess(theta: Floats) -> float:
        error = theta - truth.beta
        return float(error @ moments @ error) / 2.0

    def fit(hospital: Hospital, epsilon: float, mechanism: Mechanism) -> Floats:
        fitted = AdaSSP().fit(hospital.release(epsilon, mechanism))
        return np.append(fitted.intercept_, fitted.coef_)

    return Task("linear: four features", truth.draw, lambda predictors, answers: predictors - answers, excess, fit)


def best_length(task: Task, n: int, epsilon: float | None) -> float:
    """Return the step length that does best over a few trials, judged by the population."""

    def mean_excess(length: float) -> float:
        return float(np.mean([local_excess(task, n, epsilon, length, 10_000 + trial) for trial in range(TRIALS)]))

    return min(LENGTHS, key=mean_excess)


def local_excess(task: Task, n: int, epsilon: float | None, length: float, seed: int) -> float:
    """Return the excess risk of one pass, private or not, over people that are new."""
    generator = np.random.default_rng([seed, n])
    features, answers = task.draw(generator, n)

    def view(gradients: Floats) -> Floats:
        return gradients if epsilon is None else private_view(gradients, 1.0, epsilon, generator)

    return task.excess(descend(task, with_constant(features), answers, length, view))


def measure(task: Task, n: int, epsilon: float, repeats: int) -> dict[str, Proportion]:
    """Return mean excess risks of all methods, each over people that are drawn anew, the same for all."""
    lengths = {LOCAL: best_length(task, n, epsilon), PLAIN: best_length(task, n, None)}
    found: dict[str, list[float]] = {}
    for seed in range(repeats):
        generator = np.random.default_rng([seed, n])
        features, answers = task.draw(generator, n)
        hospital = Hospital(features, answers, rows="box", adjacency=Adjacency.REPLACE_ONE)
        risks = {
            LOCAL: local_excess(task, n, epsilon, lengths[LOCAL], seed),
            **{name: task.excess(task.fit(hospital, epsilon, mechanism)) for name, mechanism in MECHANISMS.items()},
            PLAIN: local_excess(task, n, None, lengths[PLAIN], seed),
        }
        if task.is_overviews:
            printed = descend_as_printed(task, with_constant(features), answers, epsilon, generator)
            risks[PRINTED] = task.excess(printed)
        for name, risk in risks.items():
            found.setdefault(name, []).append(risk)
    return {name: Proportion.of(values) for name, values in found.items()}


def brief(mean: Proportion) -> str:
    """Show a number of any size to two digits, with its error.

    Examples
    --------
    >>> brief(Proportion(0.00123, 0.0002))
    '1.2e-03 ± 2.0e-04'
    """
    return f"{mean.value:.1e} ± {mean.error:.1e}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw."""
    parser = parser_of(__doc__, "literature_local.png", reads=False)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--people", type=int, nargs="+", default=list(PEOPLE))
    options = parser.parse_args(arguments)
    panels = []
    for task, epsilon in product((linear_task(), logistic_task()), EPSILONS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimationWarning)  # that noise is large, which the tables show
            found = {n: measure(task, n, epsilon, options.repeats) for n in options.people}
        names = list(found[options.people[0]])
        print(f"\n{task.name}, ε = {epsilon:g}:\n\n{head([], ['people', *names])}")
        for n, means in found.items():
            print(line(f"{n:,}", *(brief(means[name]) for name in names)), flush=True)
        series = {name: {float(n): means[name] for n, means in found.items()} for name in names}
        title = f"{task.name}, ε = {epsilon:g}"
        panels.append(Panel(title, "people", "excess risk", series, {}))
    draw_panels(options.figure, panels, columns=2)


if __name__ == "__main__":
    main()
