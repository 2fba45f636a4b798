"""Linear regression from perturbed products, and linear or logistic regression by locally private gradient descent."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.quantiles import student_quantile, student_tails
from analyst_client.level import takes_level
from analyst_client.local.estimates import NORMAL, UNITS
from analyst_client.local.exact import Number, read_epsilon
from analyst_client.local.questions import Bounds, Loss
from analyst_client.local.reports import Reports
from analyst_client.local.vectors import GradientSampler, MomentSampler, RegressionQuestion
from analyst_client.schema.columns import CONSTANT

STRENGTH_MIN = 5.0
"""Deviations of its noise that the smallest eigenvalue of the moments exceeds, or they tell no coefficients."""
DIGITS = 10**6
HEADS = ("term",)


@takes_level
def linear_regression(reports: Reports, *, level: float = 0.95) -> EstimateTable:
    r"""Estimate a linear regression, the least squares of the population, from locally private moments.

    Parameters
    ----------
    reports : Reports
        Of `MomentSampler`.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the constant and the features; raw units. The p-value is of a coefficient being 0.

    Raises
    ------
    EstimationError
        Where there are too few reports, the question is another one, or noise hides an eigenvalue of the moments.

    Notes
    -----
    A report z over c is right on average for a person's products m. With :math:`A(m)` and :math:`v(m)` the products of
    the features and of them with the target, :math:`\hat\theta=A(\bar m)^{-1}v(\bar m)` solves
    :math:`\sum\psi_i=0`, :math:`\psi_i=v(m_i)-A(m_i)\theta`. Its covariance is the sandwich
    :math:`A^{-1}\,\mathrm{Cov}(\psi_i)\,A^{-\top}/n` with the covariance of the reports themselves: noise, sampling and
    whatever the residuals are. Intervals are normal, and need A to be well above its noise: five deviations in the
    weakest direction, or the fit is refused.

    Examples
    --------
    >>> import random
    >>> from analyst_client.local import MomentSampler, Reports, linear_regression
    >>> question = MomentSampler({"age": (0, 100), "weight": (0, 200)}, target="weight", epsilon=4)
    >>> people, draw = [{"age": age, "weight": 2 * age} for age in range(100)], random.Random(1).randrange
    >>> reports = Reports.collect(question, [question.report(person, draw) for person in people for _ in range(10)])
    >>> round(linear_regression(reports)["age"].value, 1)
    2.0
    """
    question, n = reports.question, len(reports)
    if not isinstance(question, MomentSampler):
        raise EstimationError("a linear regression is of reports of MomentSampler")
    if n <= len(question.entries):
        raise EstimationError(f"{len(question.entries)} products need more reports than {n}")
    T, U, A0 = _places(question)
    z = 2.0 * reports.numbers - 1.0
    c = float(question.law.shrinkage)
    m, S = z.mean(axis=0) / c, np.cov(z.T) / (c**2 * n)
    A, v = A0 + T @ m, U @ m
    eigenvalues, vectors = np.linalg.eigh(A)
    weak = np.einsum("r,rsk,s->k", vectors[:, 0], T, vectors[:, 0])
    strength = float(eigenvalues[0]) / math.sqrt(float(weak @ S @ weak))
    if strength < STRENGTH_MIN:
        raise EstimationError(
            f"noise hides the moments: their smallest eigenvalue is {strength:.1f} of its deviations, and "
            f"{STRENGTH_MIN:g} are needed: ask more people, fewer features, or at a larger epsilon"
        )
    theta = np.linalg.solve(A, v)
    H = np.linalg.solve(A, U - np.einsum("rsk,s->rk", T, theta))
    L, shift = _raw_units(question)
    errors = np.sqrt(np.diagonal(L @ H @ S @ H.T @ L.T))
    title = f"Linear regression of {question.target} by {n} local reports"
    return _table(title, question, L @ theta + shift, errors, NORMAL, level)


class GradientDescent:
    r"""Locally private stochastic gradient descent: chains, each of its own people, who are asked group after group.

    Parameters
    ----------
    bounds : mapping from str to (number, number)
        Public ends of the features and the target.
    target : str
        Column that is explained; all others are features.
    epsilon : number
        Of one contact: a report at the coefficients that a chain has reached.
    loss : {"squared", "logistic"}
    steps : int
        Steps of each chain, 2 or more.
    groups : int, optional
        Groups of people, which are asked in turn. Default one for each step, so that nobody is asked twice.
    chains : int
        Independent chains, 2 or more: within a group each person belongs to one of them.
    step_length : float, optional
        Step t has this length over √t. Default 1, and 4 of the logistic loss.
    clip : number
        Entries of gradients are cut to ± this; see `GradientSampler`.
    study : str
        Name of the study; steps and chains are added to it.
    protects : {"person", "group"}
        The unit of a report.

    Raises
    ------
    ValueError
        Where a declaration breaks its rule.

    Notes
    -----
    Duchi, Jordan and Wainwright [1]_. Each contact is ε-locally private given all reports before it, so a person's
    total is ε times their contacts. Each chain averages the later half of its steps, and the estimate is the mean of
    the chains. As chains share no person they are independent, and the interval is Student's with one degree of freedom
    less than chains. It does not hold the bias of a chain: of too few or too short steps, of clipping, and of noise in
    coefficients at which the logistic gradient bends.

    References
    ----------
    .. [1] J. Duchi, M. Jordan, M. Wainwright, "Minimax optimal procedures for locally private estimation", JASA 113,
       2018, section 5.

    Examples
    --------
    >>> descent = GradientDescent({"x": (0, 1), "y": (0, 1)}, "y", epsilon=1, steps=100, groups=50)
    >>> descent.contacts, descent.cost, len(descent.questions)
    (2, Fraction(2, 1), 10)
    """

    def __init__(
        self,
        bounds: Bounds,
        target: str,
        *,
        epsilon: Number,
        loss: Loss = "squared",
        steps: int = 100,
        groups: int | None = None,
        chains: int = 10,
        step_length: float | None = None,
        clip: Number = 1,
        study: str = "",
        protects: Literal["person", "group"] = "person",
    ) -> None:
        self.steps, self.groups, self.chains = steps, steps if groups is None else groups, chains
        self.step_length = step_length if step_length is not None else 4.0 if loss == "logistic" else 1.0
        if steps < 2 or chains < 2 or not 1 <= self.groups <= steps or not self.step_length > 0.0:
            raise ValueError("steps and chains are 2 or more, groups from 1 to steps, and step_length above 0")
        self._asked: dict[str, Any] = {"bounds": bounds, "target": target, "loss": loss, "clip": clip}
        self._asked |= {"epsilon": epsilon, "protects": protects}
        self._study, self._path = study, [np.zeros((chains, len(bounds)))]
        _ = self.questions  # checks them

    @property
    def contacts(self) -> int:
        """The most contacts that one person has."""
        return -(-self.steps // self.groups)

    @property
    def cost(self) -> Fraction:
        """The most ε that one person spends: of all contacts."""
        return self.contacts * read_epsilon(self._asked["epsilon"])

    @property
    def done(self) -> int:
        """Number of steps that were taken."""
        return len(self._path) - 1

    @property
    def group(self) -> int:
        """Number of the group, from 0, that the next step asks."""
        return self.done % self.groups

    @property
    def questions(self) -> tuple[GradientSampler, ...]:
        """The questions of the next step, one for each chain."""
        return tuple(
            GradientSampler(
                **self._asked,
                coefficients=[Fraction(round(b * DIGITS), DIGITS) for b in theta.tolist()],
                study=f"{self._study} step {self.done + 1} chain {chain}",
            )
            for chain, theta in enumerate(self._path[-1], start=1)
        )

    def step(self, reports: Sequence[Reports]) -> None:
        """Take one step of each chain along the reports on its question.

        Parameters
        ----------
        reports : sequence of Reports
            One for each of `questions`, in their order.

        Raises
        ------
        EstimationError
            Where all steps were taken, or reports are of other questions.
        """
        questions = self.questions
        if self.done == self.steps or [one.question for one in reports] != list(questions):
            raise EstimationError(f"a step takes reports of its {self.chains} questions, and there are {self.steps}")
        scale = float(Fraction(questions[0].clip) / questions[0].law.shrinkage)
        gradients = scale * np.array([(2.0 * one.numbers - 1.0).mean(axis=0) for one in reports])
        self._path.append(self._path[-1] - self.step_length / math.sqrt(self.done + 1) * gradients)

    @takes_level
    def estimate(self, *, level: float = 0.95) -> EstimateTable:
        """Estimate the coefficients.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).

        Returns
        -------
        EstimateTable
            Labels are the constant and the features; raw units, of the logistic loss log odds.

        Raises
        ------
        EstimationError
            Where steps are left.
        """
        if self.done < self.steps:
            raise EstimationError(f"{self.done} of {self.steps} steps were taken: take the others first")
        question = self.questions[0]
        L, shift = _raw_units(question, has_units=question.loss == "squared")
        ends = np.mean(self._path[1 + self.steps // 2 :], axis=0) @ L.T + shift
        errors = ends.std(axis=0, ddof=1) / math.sqrt(self.chains)
        title = f"{question.loss.capitalize()} loss of {question.target} by {self.chains} chains of {self.steps} steps"
        return _table(title, question, ends.mean(axis=0), errors, self.chains - 1.0, level)


def _places(question: MomentSampler) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return T, U and A₀ with A(m) = A₀ + T m and v(m) = U m; a square stands in m as 2x² − 1."""
    place = {names: k for k, names in enumerate(question.entries)}
    names = ((), *((name,) for name in question.features))
    p, size = len(names), len(place)
    T, U, A0 = np.zeros((p, p, size)), np.zeros((p, size)), np.zeros((p, p))
    A0[0, 0] = 1.0
    for r, row in enumerate(names):
        U[r, place[(*row, question.target)]] = 1.0
        for s in range(max(r, 1), p):
            is_square = r == s
            T[r, s, place[row + names[s]]] = T[s, r, place[row + names[s]]] = 0.5 if is_square else 1.0
            A0[r, s] += 0.5 * is_square
    return T, U, A0


def _raw_units(question: RegressionQuestion, *, has_units: bool = True) -> tuple[FloatArray, FloatArray]:
    """Return factors and shifts of raw coefficients: L θ + shift; without the target's units its log odds."""
    centers, halves = {}, {}
    for name, (low, high) in question.columns.items():
        centers[name], halves[name] = float(low + high) / 2.0, float(high - low) / 2.0
    unit, center = (halves[question.target], centers[question.target]) if has_units else (1.0, 0.0)
    L = np.diag([unit, *(unit / halves[name] for name in question.features)])
    L[0, 1:] = [-unit * centers[name] / halves[name] for name in question.features]
    return L, np.array([center, *(0.0 for _ in question.features)])


def _table(
    title: str, question: RegressionQuestion, values: FloatArray, errors: FloatArray, dof: float, level: float
) -> EstimateTable:
    reach = student_quantile((1.0 - level) / 2.0, dof) * errors
    pvalues = 2.0 * student_tails(np.abs(values) / errors, dof)
    rows = np.column_stack([values, errors, values - reach, values + reach, pvalues]).tolist()
    names = (CONSTANT, *question.features)
    found = tuple(Estimate((name,), *row) for name, row in zip(names, rows, strict=True))
    return EstimateTable(title, HEADS, found, (UNITS.format(unit=question.protects),), level)
