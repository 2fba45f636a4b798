"""A refinement of a logistic or Poisson regression: gradients of its loss at points that follow from each other.

It goes as the linear one does, and differs where a gradient is not linear in coefficients. Around the solution θ the
score at θₖ is that of a linear model with A the information H(θ), up to how far H changes on the way: an average of
both ends is taken for it, and what that leaves is counted as noise of the measurement.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.score import MEAT, NORMS, SCORE
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.family import Family, index_direction, normal_information
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.places import Place
from analyst_client.refinement.plan import (
    _CLIP_USUAL,
    _FLOOR,
    Measurement,
    Question,
    _frame,
    _gram_request,
    _measure,
    _next_norm,
    _place_features,
    _place_target,
    _score_request,
    _tell_mean,
)
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.rules import GeneralizedRules
from analyst_client.refinement.solution import shrunk_coefficients

FloatArray = npt.NDArray[np.float64]
_CLIP_MOST, _CLIP_LONG = 30.0, 5.0
"""Of the norm, over its usual, where the histogram shows longer rows, and where noise asks for no shorter one."""
_SPREADS = 8.0
"""Counts are cut so many deviations above their mean: bounds that are wider would cost precision of residuals."""
_WEIGHT_LEAST = 1.0 / 3.0
"""Least mean weight of a row of XᵀX that is made up for; below it noise is what was seen."""
_WEIGHT_MISFIT = 0.15
"""How far the mean weight of rows is from that of the squares of one column, relative."""
_COEFFICIENT = 3.0
"""Deviation of a standard coefficient before anything is measured; wide, as shrinking comes later."""
_BEND = 0.25
"""Of a score's error by curvature, over the mean square of the step: half of |m″| ≤ m′, half is in the mean."""
_MEAT_MISFIT = 0.05
"""How far Σ g gᵀ may be from the information, relative: the model is a little wrong, and gradients are clipped."""
_EXCESS, _CLEAR = 0.4, 1.0
"""How much longer than the norm a clipped gradient is in the mean, and from how many deviations of noise it is seen."""
_RATE_MISFIT = 0.05
"""How far the mean of the target may be from that of normal terms, relative."""
_COUNTED = {SCORE: 0.8, NORMS: 0.2}
"""Shares of the first score: the base rate, and how many rows there are."""


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of terms beside the scores: E[v vᵀ], with the noise of what it was read off.

    Attributes
    ----------
    family : Family
    rate : float
        Mean of the target over its largest, in (0, 1), as it was told first.
    rate_noise : float
        Deviation of its noise, relative.
    rows : float
    belief : Belief
        Of Σ v vᵀ; its b is not read.
    misfit : float
        See `GeneralizedRules`.
    origin : ndarray of shape (d,)
        Coefficients that predict the rate, and nothing of features.
    """

    family: Family
    rate: float
    rate_noise: float
    rows: float
    belief: Belief
    misfit: float
    origin: FloatArray

    @cached_property
    def second(self) -> FloatArray:
        """E[v vᵀ], definite, of shape (d, d)."""
        eigenvalues, Q = np.linalg.eigh(self.belief.xtx / self.rows)
        second: FloatArray = (Q * np.maximum(eigenvalues, _FLOOR / 10.0)) @ Q.T
        return second

    def information(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Return Σ m′ v vᵀ at coefficients as it is for normal terms, definite, and the mean of m′."""
        found, mean = normal_information(self.family, self.second, theta, self.rate_at(theta))
        eigenvalues, Q = np.linalg.eigh(found)
        return self.rows * (Q * np.maximum(eigenvalues, _FLOOR / 10.0 * mean)) @ Q.T, mean

    def rate_at(self, theta: FloatArray) -> float:
        """Return the mean of the target: as told, and as coefficients have it of normal terms, by their noise."""
        mean, _, spread = index_direction(self.second, theta)
        expected = self.family.normal_mean(float(mean @ theta), spread)
        reach = 3.0 * self.rate_noise
        moved = min(max(math.log(max(expected, 1e-300) / self.rate), -reach), reach)
        weight = self.rate_noise**2 / (self.rate_noise**2 + _RATE_MISFIT**2)
        return min(self.rate * math.exp(weight * moved), (1.0 + self.rate) / 2.0)

    def spread(self, theta: FloatArray) -> float:
        """Return the standard deviation of the index."""
        return index_direction(self.second, theta)[2]

    def linearised(self, theta: FloatArray, measurements: Sequence[Measurement]) -> Belief:
        r"""Return what measurements tell of the information H at θ, and of b = H(θ* − origin).

        Parameters
        ----------
        theta : ndarray of shape (d,)
        measurements : sequence of Measurement

        Notes
        -----
        A score at :math:`\theta_k` is :math:`s(\theta) + \bar H_k(\theta - \theta_k)`, with the mean of H on the way,
        for which that of both ends is taken: that of a linear model at
        :math:`\theta + H^{-1}\bar H_k(\theta_k - \theta)`. What is left is of the third order, and below a quarter of
        :math:`n\,E\,m'\,E(\eta_k-\eta)^2` in a direction of variance 1, as |m″| ≤ m′ for both families.
        """
        H, slope = self.information(theta)
        d, scale = len(theta), self.rows * slope
        i, j = np.triu_indices(d)
        entries = len(i)
        unsure = self.rate_noise * _RATE_MISFIT / math.hypot(self.rate_noise, _RATE_MISFIT)
        misfit = self.misfit * min(self.spread(theta), 2.0) + 0.01 + unsure
        # Errors of H are alike in every direction of standard variance: those of R E Rᵀ, with E[v vᵀ] = R Rᵀ.
        S = self.second
        covariance = np.zeros((entries + d, entries + d))
        pairs = S[np.ix_(i, i)] * S[np.ix_(j, j)] + S[np.ix_(i, j)] * S[np.ix_(j, i)]
        covariance[:entries, :entries] = (misfit * scale) ** 2 / 2.0 * pairs
        covariance[entries:, entries:] = (_COEFFICIENT * scale) ** 2 * S
        covariance[:entries, :entries] += slope**2 * self.belief.covariance[:entries, :entries]
        belief = Belief(np.concatenate([H[i, j], np.zeros(d)]), covariance, d)
        for one in measurements:
            step = one.theta - theta
            between = (H + self.information(one.theta)[0]) / 2.0
            far = float(step @ self.second @ step)
            sd = math.hypot(one.sd, _BEND * scale * far)
            at = theta + np.linalg.solve(H, between @ step)
            belief.see_score(one.P, at - self.origin, one.score, sd)
            if one.meat is not None:
                scales = self.dispersion(one, H) * self.family.dispersion
                loose = (_MEAT_MISFIT + far) * scale
                sds = [
                    math.hypot(noise / scales, part * loose) for noise, part in zip(one.meat_sds, (1, 0.7), strict=True)
                ]
                belief.see_products(one.P, one.meat / scales, *sds)
        return belief

    def dispersion(self, one: Measurement, H: FloatArray) -> float:
        """Return the variance of residuals over that of the family, by Σ g gᵀ; 1 for a boolean, which has no other."""
        if self.family.name == "binomial" or one.meat is None:
            return 1.0
        expected = float(np.trace(one.P.T @ H @ one.P)) * self.family.dispersion
        noise = one.meat_sds[0] * math.sqrt(len(H))
        return max(float(np.trace(one.meat)), noise) / max(expected, 1e-300)

    def solved(self, theta: FloatArray, measurements: Sequence[Measurement], most: float) -> FloatArray:
        """Return the coefficients that are expected under a normal prior, no farther than `most` from where they were.

        It is one step of Newton's method. What is known is exact where the last score was taken, and less and less sure
        farther on: going round again without a new score would be drawn to the prior, and back.
        """
        _, slope = self.information(theta)
        belief = self.linearised(theta, measurements)
        wanted = self.origin + shrunk_coefficients(belief, self.rows * slope, theta - self.origin)
        return theta + bounded(self.second, wanted - theta, most)


def bounded(second: FloatArray, step: FloatArray, most: float) -> FloatArray:
    """Return a step of coefficients that moves the index by no more than so many standard deviations."""
    length = math.sqrt(max(float(step @ second @ step), 0.0))
    return step * (most / length) if length > most else step


@dataclass(frozen=True, eq=False)
class RefinedGeneralized:
    """What a refinement of a logistic or Poisson regression found.

    Attributes
    ----------
    family : Family
    rate : float
        Mean of the target over its largest, as it was told first.
    rows : float
        Noisy count.
    frame : Frame or None
        None where the budget told the rate alone.
    theta : ndarray of shape (d,) or None
        Coefficients of standard coordinates, shrunk.
    gram : Release or None
        XᵀX of weighted rows; None where it was not affordable.
    moments : Moments or None
    measurements : tuple of Measurement
        Scores, one after another.
    clipped : float
        Share of the rows that the last score clipped.
    """

    family: Family
    rate: float
    rows: float
    frame: Frame | None = None
    theta: FloatArray | None = None
    gram: Release | None = None
    moments: Moments | None = None
    measurements: tuple[Measurement, ...] = ()
    clipped: float = 0.0


def refine_generalized(problem: Problem, rules: GeneralizedRules) -> Generator[Question, Any, RefinedGeneralized]:
    """Follow the plan of a refinement of a logistic or Poisson regression; see `analyst_client.refinement.plan.refine`.

    Parameters
    ----------
    problem : Problem
    rules : GeneralizedRules

    Yields
    ------
    Question
        Answered by a quote, or by a release of its kind.

    Returns
    -------
    RefinedGeneralized
    """
    budget, n = problem.mu**2, problem.rows
    if n * problem.mu < rules.least_rows:
        return (yield from _rate_alone(problem, budget))
    spent = rules.columns * budget if problem.numbers else 0.0
    places, n = yield from _place_features(problem, rules, spent)
    target_cost = rules.target_share(problem.rows * problem.mu) * budget
    family, rate, counted, target = yield from _tell_rate(problem, n, target_cost)
    n = n if problem.numbers else counted
    left = budget - spent - target_cost
    found, features, cut_target = yield from _frame(problem, places, target)
    frame = replace(found, target_scale=1.0, target_center=0.0)  # coefficients are of η, not of the target
    origin = family.link(rate) * np.eye(frame.size)[0]
    belief, gram = Belief.of_standard_terms(n, rules.correlation, frame.known), None
    first: list[Measurement] = []
    radius = rules.radius_squared(frame.size, n, rules.gram * left)
    if radius is not None:
        shares = {"xtx": rules.xtx, "xty": rules.xty}
        gram = yield Question(_gram_request(problem, frame, features, cut_target, radius, shares, rules.gram * left))
        left -= rules.gram * left
        trust = trust_in_places(len(problem.numbers), (1.0 - rules.first) * spent, n)
        first.append(see_gram(belief, frame, gram, n, family, origin, trust))
    wide = (problem.target.high or 1.0) / family.unit  # the rate was told within the declared bounds
    moments = Moments(family, rate, rate_noise(rate / wide, n, target_cost), n, belief, rules.misfit, origin)
    # Of rows that were weighted down where they are long: good for a start, and no score of all rows alike.
    theta = moments.solved(origin, first, rules.step_most)
    scores: list[Measurement] = []
    clipped, norm = 0.0, 0.0
    costs = rules.step_costs(left)
    for k, cost in enumerate(costs):
        information, slope = moments.information(theta)
        usual = _CLIP_USUAL * math.sqrt(family.dispersion * slope * frame.size)
        norm = norm or usual
        H = moments.linearised(theta, scores).xtx if scores else information
        eigenvalues, Q = np.linalg.eigh(H / (n * slope))
        P = Q / np.sqrt(np.maximum(eigenvalues, _FLOOR))
        parts = step_shares(rules, k, frame.size, n, cost)
        score = yield Question(_score_request(problem, frame, features, cut_target, theta, P, norm, parts, cost))
        measured = _measure(frame, score)
        scores.append(replace(measured, sd=math.hypot(measured.sd, _clipping(score))))
        theta = moments.solved(theta, scores, rules.step_most)
        coming = costs[min(k + 1, len(costs) - 1)]
        norm = _next_norm(score, norm, usual, rules.beyond * math.sqrt(frame.size / coming), _CLIP_MOST)
        # Noise that is well below the error of sampling rows hurts nobody, and clipping would.
        unseen = rules.unseen * math.sqrt(family.dispersion * slope * n * coming)
        norm = max(norm, min(unseen, _CLIP_LONG * usual))
        clipped = _share_clipped(score)
    return RefinedGeneralized(family, rate, n, frame, theta, gram, moments, tuple(scores), clipped)


def step_shares(rules: GeneralizedRules, k: int, d: int, n: float, cost: float) -> dict[str, float]:
    """Return what a step is divided into: the last ones buy Σ g gᵀ where it tells something."""
    meat = rules.meat if rules.buys_meat(k, d, n, cost) else 0.0
    parts = {SCORE: 1.0 - rules.norms - meat, NORMS: rules.norms}
    return parts | {MEAT: meat} if meat else parts


def _rate_alone(problem: Problem, cost: float) -> Generator[Question, Any, RefinedGeneralized]:
    if problem.family == "binomial":
        family, rate, n, _ = yield from _tell_rate(problem, problem.rows, cost)
        return RefinedGeneralized(family, rate, n)
    mean = yield from _tell_mean(problem, cost)
    family = Family("poisson", problem.target.high or 1.0)
    return RefinedGeneralized(family, _inside(mean.target.center / family.unit, mean.rows, cost), mean.rows)


def _tell_rate(problem: Problem, n: float, cost: float) -> Generator[Question, Any, tuple[Family, float, float, Place]]:
    """Return the family, the mean of the target over its largest, rows, and to what a number is cut."""
    if problem.family == "binomial":
        request = ScoreRequest(
            [field.expression for field in problem.features],
            problem.target.expression,
            loss="logistic",
            directions={"(constant)": [1.0]},
            norm=0.5,  # of every row: the residual of one half
            statistics=list(_COUNTED),
            shares=_COUNTED,
            **problem.paying(cost),
        )
        release: ScoreRelease = yield Question(request)
        assert release.score is not None
        assert release.norms is not None
        counted = max(float(release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1]), 10.0)
        rows = n if problem.numbers else counted
        rate = _inside(0.5 + float(release.score[0]) / 2.0 / rows, rows, cost)
        return Family("binomial"), rate, counted, Place(0.0, 1.0, 0.0, 1.0)
    place = yield from _place_target(problem, n, cost)
    low, high = problem.target.low or 0.0, problem.target.high or 1.0
    mean = _inside(place.center / high, n, cost) * high
    cut = replace(place, low=low, high=min(max(place.high, mean + _SPREADS * place.scale, 4.0 * mean), high))
    return Family("poisson", cut.high), mean / cut.high, n, cut


def _inside(rate: float, rows: float, cost: float) -> float:
    """Keep a rate off 0 and 1 by a row, and by about a deviation of the noise that a cost µ² has for it."""
    least = min((1.0 + 1.0 / math.sqrt(cost)) / (rows + 2.0), 0.25)
    return min(max(rate, least), 1.0 - least)


def rate_noise(rate: float, rows: float, cost: float) -> float:
    """Return the deviation of the noise that a cost µ² has for a rate within 0 and 1, over the rate; at most 1."""
    return min(1.0 / (math.sqrt(cost) * rows * min(rate, 1.0 - rate)), 1.0)


def trust_in_places(count: int, cost: float, rows: float) -> float:
    """Return how far standard scores have a mean square of 1, from 0 to 1: their scales were told with noise.

    Moments of so many columns at a cost µ² have the noise √(5p + 4)/2µ; a column that is cut where it was looked at has
    a variance of about a seventh there. The other way, rows' mean weight, is off by about `_WEIGHT_MISFIT`.
    """
    if not count:
        return 1.0
    noise = 7.0 * math.sqrt(5.0 * count + 4.0) / 2.0 / math.sqrt(cost) / rows
    return _WEIGHT_MISFIT**2 / (_WEIGHT_MISFIT**2 + noise**2)


def see_gram(
    belief: Belief, frame: Frame, gram: Release, n: float, family: Family, origin: FloatArray, trust: float
) -> Measurement:
    """Take in XᵀX, and return Xᵀy as a score at the base rate.

    Long rows were weighted down, and those of scores are not. The count tells by how much in the mean, and standard
    scores, whose squares add up to it, coordinate by coordinate, as far as they can be trusted.
    """
    assert gram.xtx is not None
    assert gram.xty is not None
    assert gram.combinations is not None
    assert gram.noise.xtx_diagonal is not None
    assert gram.noise.xtx_offdiagonal is not None
    assert gram.noise.xty is not None
    C = float(frame.matrix[0, 0] / gram.combinations[0, 0])
    A, unit = C**2 * gram.xtx, gram.targets[0].scale / family.unit
    start = gram.targets[0].center / family.unit - float(family.mean(origin[:1])[0])
    weights = np.where(frame.known, trust * np.diag(A) + (1.0 - trust) * A[0, 0], A[0, 0]) / n
    root = np.sqrt(1.0 / np.clip(weights, _WEIGHT_LEAST, 1.0))
    longest, unsure = C**2 * float(root @ root) / len(root), _WEIGHT_MISFIT * (1.0 - trust) * n
    sds = [math.hypot(longest * sd, unsure) for sd in (gram.noise.xtx_diagonal, gram.noise.xtx_offdiagonal)]
    belief.see_xtx(root[:, None] * A * root, *sds)
    score = (C * unit * gram.xty[:, 0] + start * A[0]) * root * root[0]
    sd = math.hypot(C * unit * gram.noise.xty, start * C**2 * gram.noise.xtx_diagonal)
    return Measurement(np.eye(frame.size), origin, score, sd * float(root.max() * root[0]))


def _clipping(release: ScoreRelease) -> float:
    """Return how far clipping may have moved a score, as far as rows that were clipped stand out of the noise."""
    assert release.norms is not None
    assert release.noise.norms is not None
    longer = release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1 :]
    seen = float(longer.sum()) - _CLEAR * release.noise.norms * math.sqrt(len(longer))
    return _EXCESS * max(seen, 0.0)


def _share_clipped(release: ScoreRelease) -> float:
    assert release.norms is not None
    longer = float(release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1 :].sum())
    return min(max(longer / max(float(release.norms.sum()), 1.0), 0.0), 1.0)
