"""A refinement, step by step: what is asked next follows from public numbers and from what was answered before.

A plan is a generator. It yields questions, is sent their answers, and returns what they tell. So the same program buys
at a curator, reads stored answers again, and is tested without either.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyst_client.arrays import FloatArray
from analyst_client.inference.sums import ResidualSums
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.score import SCORE
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.looks import Looked, look
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import Question, histogram_share
from analyst_client.refinement.requests import (
    Measurement,
    coordinates,
    gram_request,
    inverse_root,
    kept_weight,
    measured,
    next_norm,
    score_request,
    share_kept,
    standard_frame,
    whitened,
)
from analyst_client.refinement.rules import CUT_COLUMNS, RefinementRules
from analyst_client.refinement.solution import shrunk_coefficients
from analyst_client.refinement.sums import tell_sums
from analyst_client.refinement.tails import Tails
from analyst_client.terms.expression import Expression

BoolArray = npt.NDArray[np.bool_]
_FLOOR = 0.1
"""Least eigenvalue, in rows, that gradients are whitened by."""
_TOLD = 6.0
"""Deviations from which on every eigenvalue is told well enough to whiten by."""
_CLIPPED = 0.25
"""Relative error of the number of rows from looks: a clipped row counts for less there."""
_KEPT_LEAST = 0.2
"""Least part of a score that clipping is taken to leave: below it the law of norms is not to be trusted."""


@dataclass(frozen=True, eq=False)
class Refined:
    """The result of a refinement.

    Attributes
    ----------
    frame : Frame or None
        None where the budget told the mean alone.
    theta : ndarray of shape (d,) or None
        Coefficients of standard coordinates.
    target : Place
        Where the target is; predictions are cut to its range.
    rows : float
        Noisy count.
    gram : Release or None
        XᵀX and Xᵀy of weighted rows; None where it was not affordable.
    measurements : tuple of Measurement
    sums : ResidualSums or None
        Residual and total sums of squares of all rows; None where they were not bought.
    residual : float
        Variance of residuals as it is expected, in squares of the target's spread.
    untold : str
        Why there are no intervals; empty where there are.
    """

    frame: Frame | None
    theta: FloatArray | None
    target: Place
    rows: float
    gram: Release | None = None
    measurements: tuple[Measurement, ...] = ()
    sums: ResidualSums | None = None
    residual: float = 1.0
    untold: str = ""


def refine(problem: Problem, rules: RefinementRules) -> Generator[Question, Any, Refined]:
    """Follow the plan of a refinement.

    Parameters
    ----------
    problem : Problem
    rules : RefinementRules

    Yields
    ------
    Question
        Answered by a quote, or by a release of its kind.

    Returns
    -------
    Refined
    """
    fields, budget = (*problem.numbers, problem.target), problem.mu**2
    before = Looked.before(fields, problem.rows, rules)
    if rules.expected_to_tell(problem.rows, problem.mu, len(fields)) != "slopes":
        return (yield from _tell_mean(problem, before, budget, rules, first=True))
    looked = yield from look(problem, fields, before, [share * budget for share in rules.looks], rules, first=True)
    looked, left = yield from _settle(problem, looked, (1.0 - sum(rules.looks)) * budget, rules)
    if looked.mean_sd[-1] > rules.lost or looked.rows * problem.mu < rules.needed_told * len(fields):
        return (yield from _tell_mean(problem, looked, left, rules, first=False))
    n = looked.rows
    *found, target = looked.places(fields, [rules.clip] * (len(fields) - 1) + [rules.reach])
    places = {field.name: place for field, place in zip(problem.numbers, found, strict=True)}
    if not rules.cut:
        places = {field.name: field.uncut(places[field.name]) for field in problem.numbers}
        target = problem.target.uncut(target)
    frame, features, cut_target = yield from standard_frame(problem, places, target)
    untold = CUT_COLUMNS if rules.cut else ""
    needed = (rules.enough or 0.0) * frame.size**1.5
    if n * problem.mu < needed:
        rules = replace(rules.for_predictions(cut=rules.cut), looks=rules.looks)
        short = needed / (n * problem.mu)
        untold = (
            "the price was too low, or rows too few, for intervals with an end, so all of it was spent on predictions: "
            f"they need about {short:.2g} times the price in µ, or {short:.2g} times the rows"
        )
    belief = _believe(frame, looked, rules)
    theta, square, gram = np.zeros(frame.size), (1.0, 0.0), None
    parts = {"xtx": rules.xtx, "xty": rules.xty, "yty": rules.yty}
    whole = rules.gram_cost(frame.size, n, left)
    sums, last_cost = None, 0.0
    if rules.radius_squared(frame.size, n, whole) is not None:
        last_cost = 0.0 if untold else rules.sums * budget
        left -= whole + last_cost
        for k in range(rules.grams):
            last = k == rules.grams - 1 or (k > 0 and _is_told(belief))
            cost = (1.0 - k * rules.explored) * whole if last else rules.explored * whole
            radius = rules.radius_squared(frame.size, n, cost) or rules.radius * frame.size
            whitening = _whitening(belief, n, rules, frame.known) if k else np.eye(frame.size)
            request = gram_request(problem, frame, features, cut_target, whitening, radius, parts, cost)
            gram = yield Question(request)
            square = _see_gram(belief, frame, gram, n if rules.grams > 1 else None)
            theta = shrunk_coefficients(belief, n, theta)
            if last:
                break
    asked = _Model(problem, frame, features, cut_target, n)
    if rules.enough is None or gram is None:
        scores = yield from _follow_scores(asked, belief, theta, square, rules, left, blind=gram is None)
    else:
        scores = yield from _tell_scores(asked, belief, theta, square, rules, left)
    theta, measurements, residual, n = scores
    if last_cost:
        sums = yield from tell_sums(problem, frame, features, cut_target, belief, n, theta, residual, last_cost)
    return Refined(frame, theta + frame.origin, target, n, gram, tuple(measurements), sums, residual, untold)


class _Model(NamedTuple):
    """The model of a score: the coded columns, and the number of rows."""

    problem: Problem
    frame: Frame
    features: Sequence[Expression]
    target: Expression
    rows: float

    def score(
        self, theta: FloatArray, P: FloatArray, norm: float, shares: dict[str, float], cost: float
    ) -> Generator[Question, Any, ScoreRelease]:
        """Ask for a score at coefficients θ beside the origin."""
        at = theta + self.frame.origin
        request = score_request(self.problem, self.frame, self.features, self.target, at, P, norm, shares, cost)
        release: ScoreRelease = yield Question(request)
        return release


_Scores = tuple[FloatArray, list[Measurement], float, float]
"""Coefficients, what was measured, the expected variance of residuals, and how many rows there are."""


def _follow_scores(
    asked: _Model,
    belief: Belief,
    theta: FloatArray,
    square: tuple[float, float],
    rules: RefinementRules,
    budget: float,
    *,
    blind: bool,
) -> Generator[Question, Any, _Scores]:
    """Buy many scores with short norms, each where the last one led: they reach far, and are for predictions."""
    n, d = asked.rows, asked.frame.size
    measurements: list[Measurement] = []
    costs = rules.step_costs(budget, blind=blind)
    residual, first = _residual_variance(belief, n, theta, square), rules.first_norm(d, n, costs)
    norm = first * math.sqrt(residual * d)
    for k, cost in enumerate(costs):
        P = _whitening(belief, n, rules, asked.frame.known)
        shares = rules.score_shares(k, histogram_share(n, cost, rules.told, rules.dear), meat=first >= rules.norm_worth)
        score = yield from asked.score(theta, P, norm, shares, cost)
        seen = measured(asked.frame, score, share_kept(score, norm, n, d, residual))
        measurements.append(seen)
        belief.see_score(seen.P, seen.theta - asked.frame.origin, seen.score, seen.sd)
        theta = shrunk_coefficients(belief, n, theta)
        residual = _residual_variance(belief, n, theta, square)
        allowed = rules.beyond * math.sqrt(d / costs[min(k + 1, len(costs) - 1)])
        norm = next_norm(score, norm, first * math.sqrt(residual * d), allowed, rules)
    return theta, measurements, residual, n


def _tell_scores(
    asked: _Model, belief: Belief, theta: FloatArray, square: tuple[float, float], rules: RefinementRules, budget: float
) -> Generator[Question, Any, _Scores]:
    """Buy few scores: pilots, and those on which intervals rest, with the norm that makes these shortest."""
    n, d, count = asked.rows, asked.frame.size, len(rules.scores)
    precision = (_CLIPPED * n) ** -2.0
    measurements: list[Measurement] = []
    tails = Tails(d, n, _residual_variance(belief, n, theta, square))
    for k, share in enumerate(rules.scores):
        cost, last = share * budget, k >= count // 2
        shares = rules.interval_shares(d, n, cost, last=last)
        norm = rules.pilot * tails.scale * math.sqrt(d)
        if last:
            norm = tails.norm(sum(rules.scores[count // 2 :]) * budget * shares[SCORE])
        score = yield from asked.score(theta, _whitening(belief, n, rules, asked.frame.known), norm, shares, cost)
        if score.norms is not None:  # which counts each row, however long it is
            told = 1.0 / (len(score.norms) * (score.noise.norms or 0.0) ** 2 + 1.0)
            precision += told
            n += told / precision * (float(score.norms.sum()) - n)
        tails.rows = n
        tails.see(score, norm)
        kept = max(tails.kept(norm), _KEPT_LEAST)
        shift = float(tails.shift(np.array([norm]))[0]) / norm / kept
        seen = replace(measured(asked.frame, score, kept), shift=shift)
        measurements.append(seen)
        belief.see_score(seen.P, seen.theta - asked.frame.origin, seen.score, seen.sd)
        theta = shrunk_coefficients(belief, n, theta)
        tails.variance = _residual_variance(belief, n, theta, square)
    return theta, measurements, tails.variance, n


def _is_told(belief: Belief) -> bool:
    """Return whether all of XᵀX is known well enough for the last release of it."""
    eigenvalues, _, sds = belief.eigen()
    return bool(np.all(eigenvalues > _TOLD * sds))


def _whitening(belief: Belief, n: float, rules: RefinementRules, known: BoolArray) -> FloatArray:
    """Return the symmetric P with PᵀXᵀXP near n in the directions of which enough is known.

    See `inverse_root` for why it is symmetric.
    """
    if rules.grams > 1:
        return whitened(belief, n, known if rules.enough is not None else np.ones_like(known))
    eigenvalues, Q = np.linalg.eigh(belief.xtx)
    return inverse_root(np.maximum(eigenvalues / n, _FLOOR), Q)


def _settle(
    problem: Problem, known: Looked, left: float, rules: RefinementRules
) -> Generator[Question, Any, tuple[Looked, float]]:
    """Look at the target by itself where its place is not told well enough; return what is known, and what is left."""
    if known.mean_sd[-1] <= rules.unsettled:
        return known, left
    costs = [share * left for share in rules.settling]
    alone = yield from look(problem, (problem.target,), known.of(slice(-1, None)), costs, rules, first=False)
    return known.with_last(alone), left - sum(costs)


def _tell_mean(
    problem: Problem, known: Looked, left: float, rules: RefinementRules, *, first: bool
) -> Generator[Question, Any, Refined]:
    """Spend what is left on where the target is."""
    costs = [share * left for share in rules.means]
    looked = yield from look(problem, (problem.target,), known.of(slice(-1, None)), costs, rules, first=first)
    (place,) = looked.places((problem.target,), [rules.reach])
    return Refined(None, None, place, looked.rows)


def _believe(frame: Frame, looked: Looked, rules: RefinementRules) -> Belief:
    """Return what looks tell of XᵀX and Xᵀy: the former's first row and diagonal, and the latter's first entry."""
    d, n = frame.size, looked.rows
    known, (i, j) = frame.known, np.triu_indices(d)
    means, squares = np.full(d, 0.5), np.full(d, 0.4)
    means[known] = np.append(0.02, np.minimum(looked.mean_sd[:-1] + 0.05, 0.7))
    squares[known] = np.append(0.02, np.minimum(looked.square_sd[:-1] + 0.1, 0.5))
    both = known[i] & known[j]
    beside = np.where(i == j, squares[i], np.where(i == 0, means[j], np.where(both, rules.correlation, 0.5)))
    target = np.append(min(float(looked.mean_sd[-1]) + 0.05, 0.7), np.full(d - 1, 0.6))
    mean = np.concatenate([np.where(both, 1.0, 0.4) * n * (i == j), np.zeros(d)])
    return Belief(mean, np.diag((n * np.concatenate([beside, target])) ** 2), d)


def _see_gram(belief: Belief, frame: Frame, gram: Release, n: float | None) -> tuple[float, float]:
    """Take in XᵀX and Xᵀy, and return the mean square of the target around its mean in rows, and its deviation.

    It is in squares of the spread that the target is taken to have. Of several releases each weighs rows in its own way
    and has to be made up for that, by the number n of rows; one that is alone is shrunk by it, which predicts no worse.
    """
    assert gram.xtx is not None
    assert gram.xty is not None
    assert gram.yty is not None
    noise, unit, T = gram.noise, frame.target_scale, coordinates(frame, gram)
    assert noise.xtx_diagonal is not None
    assert noise.xtx_offdiagonal is not None
    assert noise.xty is not None
    assert noise.yty is not None
    kept = 1.0 if n is None else kept_weight(T, gram.xtx, n)
    belief.see_combined(math.sqrt(kept) * T, gram.xtx, noise.xtx_diagonal, noise.xtx_offdiagonal)
    belief.see_score(kept * T, -frame.origin, gram.xty[:, 0] / unit, noise.xty / unit)
    rows, origin = max(float(belief.xtx[0, 0]), 1.0), frame.origin
    squares = float(gram.yty[0]) / kept / unit**2 - 2.0 * origin @ belief.xty - origin @ belief.xtx @ origin
    return float(squares) / rows, noise.yty / kept / unit**2 / rows


def _residual_variance(belief: Belief, n: float, theta: FloatArray, square: tuple[float, float]) -> float:
    """Return what the variance of residuals is expected to be, in squares of the target's spread.

    It is the target's mean square, and its deviation, less what θ explains: y² − 2θᵀ(b − Aθ/2).
    """
    explained = 2.0 * theta @ belief.xty - theta @ belief.xtx @ theta
    variance = 4.0 * theta @ belief.score_covariance(theta / 2.0) @ theta
    return expected_within(square[0] - float(explained) / n, math.hypot(square[1], math.sqrt(float(variance)) / n))


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / max(sd, 1e-12)) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())
