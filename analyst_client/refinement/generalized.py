"""A refinement of a logistic or Poisson regression: gradients of its loss at points that follow from each other.

It goes as the linear one does, and differs where a gradient is not linear in the coefficients. Around the solution θ
the score at θₖ is that of a linear model with A the information H(θ), up to how far H changes on the way: an average of
both ends is taken for it, and what that leaves is counted as noise of the measurement.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.normal_index import offset_of
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.score import MEAT, NORMS, SCORE
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.clipping import clipped_law
from analyst_client.refinement.family import LOSSES, SPREAD_MOST, Family, index_direction, normal_information
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.looks import Looked, look
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.questions import BITS, Question
from analyst_client.refinement.requests import (
    Measurement,
    coordinates,
    gram_request,
    kept_weight,
    measured,
    next_norm,
    score_request,
    standard_frame,
    whitened,
)
from analyst_client.refinement.rules import GeneralizedRules
from analyst_client.refinement.solution import shrunk_coefficients
from analyst_client.schema.columns import CONSTANT
from analyst_client.terms.expression import Expression

_FLOOR = 1e-5
"""Least eigenvalue of E[v vᵀ], and of the information over the mean of m′; more where it is less sure."""
_TOLD = 6.0
"""Deviations from which on every eigenvalue is told well enough for the last XᵀX."""
_SPREADS = 8.0
"""Counts are cut so many deviations above their mean: bounds that are wider would cost precision of residuals."""
_COEFFICIENT = 3.0
"""Deviation of a standard coefficient before anything is measured; wide, as shrinking comes later."""
BEND = 0.25
"""Of a score's error by curvature, over the mean square of the step: half of |m″| ≤ m′, half of which is averaged."""
_MEAT_MISFIT = 0.05
"""Relative distance of Σ g gᵀ from the information, if the model is a bit wrong and gradients are clipped."""
_EXCESS, _CLEAR = 0.4, 2.0
"""Mean excess of a clipped gradient's length over the norm, and the deviations of noise above which it is seen."""
_EXCESSES = np.geomspace(1.0, 24.0, 11)
"""Dispersions of counts that are told apart."""
_EXCESS_MISFIT = 0.1
"""Misfit of one Σ g gᵀ to their dispersion beside its noise, in the logarithm."""
_CLIP_MISFIT = 0.4
"""Relative error of the effect of clipping that is computed for normal terms."""
_RATE_MISFIT = 0.05
"""Relative error of the mean of the target that is computed for normal terms."""
_INDEX_MISFIT = 0.06
"""Relative error of the mean of predictions that is computed for a normal index, of deviation 1."""
_CLIPPED_RATE = 0.1
"""Relative move of the mean of predictions that is expected from clipped gradients."""
_COUNTED = {SCORE: 0.8, NORMS: 0.2}
"""Shares of the first score of a boolean: the base rate, and how many rows there are."""
_PLACED = 0.5
"""Share of the cost of where counts are for looks; the rest is for the first score, which tells their mean."""


@dataclass(frozen=True, eq=False)
class Gradient(Measurement):
    """A score, with what is unsure of each of its numbers beside noise: what clipping took.

    Attributes
    ----------
    unsure : ndarray of shape (k,) or float
    """

    unsure: FloatArray | float = 0.0


@dataclass(frozen=True, eq=False)
class Moments:
    """The second moments E[v vᵀ] of terms, known apart from the scores, with their noise.

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
    target_sd : float
        Deviation of counts, over their largest.
    free : int
        Coefficients that are estimated: the first ones. Behind them is an offset's, which is known.
    told_excess : float or None
        Variance of counts over that of the family, as Σ g gᵀ told it.
    excess_sd : float
        Deviation of what is known of its logarithm. Looks cut counts, so that at first it is far off.
    """

    family: Family
    rate: float
    rate_noise: float
    rows: float
    belief: Belief
    misfit: float
    origin: FloatArray
    target_sd: float
    free: int
    told_excess: float | None = None
    excess_sd: float = 0.7

    @cached_property
    def second(self) -> FloatArray:
        """E[v vᵀ], definite, of shape (d, d)."""
        eigenvalues, Q, sds = self.belief.eigen()
        least = np.clip(0.5 * sds / self.rows, _FLOOR, 100.0 * _FLOOR)
        second: FloatArray = (Q * np.maximum(eigenvalues / self.rows, least)) @ Q.T
        return second

    def information(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """Return Σ m′ v vᵀ at coefficients as it is for normal terms, definite, and the mean of m′."""
        found, mean = normal_information(self.family, self.second, theta, self.rate_at(theta))
        eigenvalues, Q = np.linalg.eigh(found)
        return self.rows * (Q * np.maximum(eigenvalues, _FLOOR * mean)) @ Q.T, mean

    def rate_at(self, theta: FloatArray) -> float:
        """Return the mean of the target: as it was told, and as coefficients have it of normal terms, by the noise."""
        mean, _, spread = index_direction(self.second, theta)
        expected = self.family.normal_mean(float(mean @ theta), spread)
        reach = 3.0 * self.rate_noise
        moved = min(max(math.log(max(expected, 1e-300) / self.rate), -reach), reach)
        weight = self.rate_noise**2 / (self.rate_noise**2 + _RATE_MISFIT**2)
        return min(self.rate * math.exp(weight * moved), (1.0 + self.rate) / 2.0)

    def rate_for_predictions(self, theta: FloatArray, measurements: Sequence[Gradient]) -> float:
        """Return the mean of the target: as it was told, and as scores have it, each by its noise."""
        mean, _, spread = index_direction(self.second, theta)
        found = self.family.normal_mean(float(mean @ theta), spread)
        rarer = min(self.rate, 1.0 - self.rate) * self.rows
        scored = float(self.linearised(theta, measurements).score_covariance(self.beside(theta))[0, 0])
        own = (scored / rarer**2) + _CLIPPED_RATE**2
        weight = own / (own + self.rate_noise**2 + (_INDEX_MISFIT * spread) ** 2)
        return min(max(found + weight * (self.rate - found), 1e-6), 1.0 - 1e-6)

    def spread(self, theta: FloatArray) -> float:
        """Return the standard deviation of the index."""
        return index_direction(self.second, theta)[2]

    def excess(self, theta: FloatArray) -> float:
        """Return the variance of counts over that of the family, by the target's and the index's."""
        if self.family.name == "binomial":
            return 1.0
        if self.told_excess is not None:
            return self.told_excess
        mean, _, spread = index_direction(self.second, theta)
        explained = self.family.normal_variance(float(mean @ theta), spread)
        left = (self.target_sd**2 - explained) / (self.rate * self.family.dispersion)
        return float(min(max(left, 1.0), _EXCESSES[-1]))

    def linearised(self, theta: FloatArray, measurements: Sequence[Gradient]) -> Belief:
        r"""Return what measurements tell of the information H at θ, and of b = H(θ* − origin).

        Parameters
        ----------
        theta : ndarray of shape (d,)
        measurements : sequence of Gradient

        Notes
        -----
        A score at :math:`\theta_k` is :math:`s(\theta) + \bar H_k(\theta - \theta_k)`, with the mean of H on the way,
        for which the mean of both ends is taken: that of a linear model at
        :math:`\theta + H^{-1}\bar H_k(\theta_k - \theta)`. What is left is of the third order, and below a quarter of
        :math:`n\,E\,m'\,E(\eta_k-\eta)^2` in a direction of variance 1, as |m″| ≤ m′ for both families.
        """
        whole, slope = self.information(theta)
        d, scale = self.free, self.rows * slope
        H = whole[:d, :d]
        i, j = np.triu_indices(d)
        entries = len(i)
        unsure = self.rate_noise * _RATE_MISFIT / math.hypot(self.rate_noise, _RATE_MISFIT)
        misfit = self.misfit * min(self.spread(theta), 2.0) + 0.03 + unsure
        # Errors of H are alike in every direction of standard variance: those of R E Rᵀ, with E[v vᵀ] = R Rᵀ.
        S = self.second[:d, :d]
        kept = [k for k, pair in enumerate(zip(*np.triu_indices(len(theta)), strict=True)) if max(pair) < d]
        covariance = np.zeros((entries + d, entries + d))
        pairs = S[np.ix_(i, i)] * S[np.ix_(j, j)] + S[np.ix_(i, j)] * S[np.ix_(j, i)]
        covariance[:entries, :entries] = (misfit * scale) ** 2 / 2.0 * pairs
        covariance[entries:, entries:] = (_COEFFICIENT * scale) ** 2 * S
        covariance[:entries, :entries] += slope**2 * self.belief.covariance[np.ix_(kept, kept)]
        belief = Belief(np.concatenate([H[i, j], np.zeros(d)]), covariance, d)
        for one in measurements:
            step, P = (one.theta - theta)[:d], one.P[:d]
            between = (H + self.information(one.theta)[0][:d, :d]) / 2.0
            far = float(step @ S @ step)
            sd = np.hypot(np.hypot(one.sd, one.unsure), BEND * scale * far * np.sqrt(np.einsum("ik,ij,jk->k", P, S, P)))
            belief.see_score(P, self.beside(theta) + np.linalg.solve(H, between @ step), one.score, sd)
            if one.meat is not None:
                scales = self.dispersion(one, H) * self.family.dispersion
                loose, beside = (_MEAT_MISFIT + far) * scale, (one.meat_sd, one.meat_sd_beside)
                sds = [math.hypot(noise / scales, part * loose) for noise, part in zip(beside, (1, 0.7), strict=True)]
                belief.see_products(P, one.meat / scales, *sds)
        return belief

    def beside(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients that are estimated, less those of the origin."""
        return (theta - self.origin)[: self.free]

    def moved(self, theta: FloatArray, step: FloatArray) -> FloatArray:
        """Return coefficients after a step, which moves the estimated ones alone."""
        return theta + np.append(step, np.zeros(len(theta) - self.free))

    def dispersion(self, one: Measurement, H: FloatArray) -> float:
        """Return the variance of residuals over that of the family, by Σ g gᵀ; 1 for a boolean, which has no other."""
        if self.family.name == "binomial" or one.meat is None:
            return 1.0
        expected = float(np.trace(one.P[: self.free].T @ H @ one.P[: self.free])) * self.family.dispersion
        noise = one.meat_sd * math.sqrt(len(H))
        return max(float(np.trace(one.meat)), noise) / max(expected, 1e-300)

    def with_excess(self, seen: Measurement) -> "Moments":
        """Return it with the spread of counts that Σ g gᵀ of clipped gradients tells, beside what was known of it."""
        if self.family.name == "binomial" or seen.meat is None:
            return self
        square, found = float(np.trace(seen.meat)) / self.rows, self.excess(seen.theta)
        laws = [clipped_law(self.family, self.second, seen.theta, seen.P, one).square for one in _EXCESSES]
        noise = math.hypot(seen.meat_sd * math.sqrt(seen.P.shape[1]) / self.rows, _MEAT_MISFIT * square)
        own = np.log(_EXCESSES / found) / self.excess_sd
        logs = -0.5 * ((square - np.array(laws)) / noise) ** 2 - 0.5 * own**2
        weights = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        mean = float(weights @ np.log(_EXCESSES))
        sd = math.sqrt(float(weights @ np.log(_EXCESSES) ** 2) - mean**2)
        return replace(self, told_excess=math.exp(mean), excess_sd=math.hypot(sd, _EXCESS_MISFIT))

    def unclipped(self, seen: Measurement, release: ScoreRelease) -> Gradient:
        """Return a score made up for what clipping took, as far as normal terms tell, and less sure by the rest."""
        assert release.norms is not None
        assert release.noise.norms is not None
        law = clipped_law(self.family, self.second, seen.theta, seen.P, self.excess(seen.theta))
        longer = release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1 :]
        more = float(longer.sum()) - self.rows * law.share - _CLEAR * release.noise.norms * math.sqrt(len(longer))
        moved = self.rows * law.moved
        return Gradient(
            seen.P,
            seen.theta,
            (seen.score - moved) / law.kept,
            seen.sd / law.kept,
            None if seen.meat is None else seen.meat / law.kept**2,
            seen.meat_sd / law.kept**2,
            seen.meat_sd_beside / law.kept**2,
            unsure=np.hypot(_CLIP_MISFIT * moved, _EXCESS * max(more, 0.0) / math.sqrt(len(moved))) / law.kept,
        )

    def solved(self, theta: FloatArray, measurements: Sequence[Gradient], most: float) -> FloatArray:
        """Return the coefficients that are expected under a normal prior, no farther than `most` from where they were.

        It is one step of Newton's method: where the last score was taken it is exact, and farther on it is less and
        less sure, so that going round again would be drawn to the prior, and back.
        """
        _, slope = self.information(theta)
        belief = self.linearised(theta, measurements)
        wanted = shrunk_coefficients(belief, self.rows * slope, self.beside(theta))
        step = bounded(self.second[: self.free, : self.free], wanted - self.beside(theta), most)
        return self.moved(theta, step)


def bounded(second: FloatArray, step: FloatArray, most: float) -> FloatArray:
    """Return a step of coefficients that moves the index by no more than so many standard deviations."""
    length = math.sqrt(max(float(step @ second @ step), 0.0))
    return step * (most / length) if length > most else step


@dataclass(frozen=True, eq=False)
class RefinedGeneralized:
    """The result of a refinement of a logistic or Poisson regression.

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
    measurements : tuple of Gradient
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
    measurements: tuple[Gradient, ...] = ()
    clipped: float = 0.0

    @cached_property
    def calibrated(self) -> FloatArray | None:
        """Coefficients for predictions: with the constant at which a normal index has the base rate as its mean.

        Clipped gradients lose more of the rarer class, which moves the constant most, and the rate was told without.
        """
        if self.theta is None or self.moments is None:
            return self.theta
        mean, _, spread = index_direction(self.moments.second, self.theta)
        rate = self.moments.rate_for_predictions(self.theta, self.measurements)
        wanted = offset_of(self.family.mean, self.family.link, rate, min(spread, SPREAD_MOST))
        moved: FloatArray = self.theta + (wanted - float(mean @ self.theta)) * np.eye(len(self.theta))[0]
        return moved


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
    budget, numbers = problem.mu**2, problem.numbers
    n_mu, looked = problem.rows * problem.mu, Looked.before(numbers, problem.rows, rules)
    if n_mu < rules.least_rows:
        told = yield from _tell_rate(problem, looked, budget, rules)
        return RefinedGeneralized(told.family, told.rate, told.rows)
    costs = [share * budget for share in rules.looks] if numbers else []
    if numbers:
        looked = yield from look(problem, numbers, looked, costs, rules, first=True, has_target=False)
    target_cost = rules.target_share(n_mu) * budget
    left = budget - sum(costs) - target_cost
    told = yield from _tell_rate(problem, looked, target_cost, rules)
    n, family = told.rows, told.family
    places = _places(numbers, looked, rules)
    offset = None if problem.offset is None else places[problem.offset.name]
    framed, features, cut_target = yield from standard_frame(problem, places, told.target)
    frame = replace(framed, target_scale=1.0, target_center=0.0)  # coefficients are of η, not of the target
    free, origin = frame.size, family.link(told.rate) * np.eye(frame.size)[0]
    if offset is not None:
        free -= 1
        origin[0], origin[-1] = offset_of(family.mean, family.link, told.rate, offset.scale), offset.scale
    belief, asked = Belief.of_standard_terms(n, rules.correlation, frame.known), (problem, frame, features, cut_target)
    bought, spent = yield from _buy_grams(asked, belief, n, rules, left)
    left -= spent
    first = [see_gram(frame, one, n, family, origin) for one in bought]
    target_sd = told.target.scale / family.unit
    moments = Moments(family, told.rate, told.noise, n, belief, rules.misfit, origin, target_sd, free)
    # Of rows that were weighted down where they are long: good for a start, and no score of all rows alike.
    theta = moments.solved(origin, first if offset is None else [], rules.step_most)
    scores: list[Gradient] = []
    answers: list[tuple[Measurement, ScoreRelease]] = []
    clipped, norm = 0.0, 0.0
    costs = rules.step_costs(left)
    for k, cost in enumerate(costs):
        _, slope = moments.information(theta)
        P = np.eye(frame.size, free) @ whitened(moments.linearised(theta, scores), n * slope, frame.known[:free])
        variance = family.dispersion * slope * moments.excess(theta)
        ratio = rules.gradient_norm(free, n, costs, rarity(family, told.rate))
        usual = ratio * math.sqrt(variance * free)
        norm = norm or usual
        parts = step_shares(rules, k, free, n, cost, ratio, family)
        score = yield Question(score_request(problem, frame, features, cut_target, theta, P, norm, parts, cost))
        answers.append((measured(frame, score), score))
        moments = moments.with_excess(answers[-1][0])
        scores = [moments.unclipped(*one) for one in answers]
        theta = moments.solved(theta, scores, rules.step_most)
        following = costs[min(k + 1, len(costs) - 1)]
        norm = next_norm(score, norm, usual, rules.beyond * math.sqrt(free / following), rules)
        clipped = _share_clipped(score)
    return RefinedGeneralized(
        family, told.rate, n, frame, theta, bought[-1] if bought else None, moments, tuple(scores), clipped
    )


def _buy_grams(
    asked: tuple[Problem, Frame, list[Expression], Expression],
    belief: Belief,
    n: float,
    rules: GeneralizedRules,
    budget: float,
) -> Generator[Question, Any, tuple[list[Release], float]]:
    """Ask for XᵀX several times, each but the first of rows that are whitened by those before; return what they cost.

    Long rows were weighted down, and those of scores are not. The count tells by how much in the mean.
    """
    bought: list[Release] = []
    frame = asked[1]
    whole = rules.gram_cost(frame.size, n, budget)
    if rules.radius_squared(frame.size, n, whole) is None:
        return bought, 0.0
    for k in range(rules.grams):
        last = k == rules.grams - 1 or (k > 0 and is_told(belief))
        cost = (1.0 - k * rules.explored) * whole if last else rules.explored * whole
        radius = rules.radius_squared(frame.size, n, cost) or rules.radius * frame.size
        whitening = whitened(belief, n, frame.known) if k else np.eye(frame.size)
        gram = yield Question(gram_request(*asked, whitening, radius, {"xtx": rules.xtx, "xty": rules.xty}, cost))
        assert gram.noise.xtx_diagonal is not None
        assert gram.noise.xtx_offdiagonal is not None
        T = coordinates(frame, gram)
        kept = kept_weight(T, gram.xtx, n)
        belief.see_combined(math.sqrt(kept) * T, gram.xtx, gram.noise.xtx_diagonal, gram.noise.xtx_offdiagonal)
        bought.append(gram)
        if last:
            break
    return bought, whole


def rarity(family: Family, rate: float) -> float:
    """Return the root mean square of a gradient of the rarer class, over that of all rows; 1 of counts."""
    rarer = min(rate, 1.0 - rate)
    return math.sqrt((1.0 - rarer) / rarer) if family.name == "binomial" else 1.0


def is_told(belief: Belief) -> bool:
    """Return whether all of XᵀX is known well enough for the last release of it."""
    eigenvalues, _, sds = belief.eigen()
    return bool(np.all(eigenvalues > _TOLD * sds))


def step_shares(
    rules: GeneralizedRules, k: int, d: int, n: float, cost: float, ratio: float, family: Family
) -> dict[str, float]:
    """Return what a step is divided into: the last ones buy Σ g gᵀ where it tells something."""
    meat = rules.meat if rules.buys_meat(k, d, n, cost, ratio, counts=family.name == "poisson") else 0.0
    parts = {SCORE: 1.0 - rules.norms - meat, NORMS: rules.norms}
    return parts | {MEAT: meat} if meat else parts


def _places(numbers: Sequence[Field], looked: Looked, rules: GeneralizedRules) -> dict[str, Place]:
    """Return where features are, by name."""
    found = zip(numbers, looked.places(numbers, [rules.clip] * len(numbers)), strict=True)
    return {field.name: place if rules.cut else field.uncut(place) for field, place in found}


class _Told(NamedTuple):
    """The place of the target, and the first estimates of its rate and of the rows."""

    family: Family
    rate: float
    """Mean over the largest."""
    rows: float
    """Noisy count."""
    target: Place
    """Range to which a number is cut."""
    noise: float
    """Deviation of what is known of the rate, relative to it or to what is beside it; at most 1."""

    @classmethod
    def of(
        cls, release: ScoreRelease, family: Family, rows: float, rows_sd: float, target: Place, cost: float, at: float
    ) -> "_Told":
        """Read the mean of the target off a score of the constant alone."""
        assert release.score is not None
        assert release.noise.score is not None
        constant = list(release.term_names).index(CONSTANT)
        unit = float(release.directions[constant, 0])
        rate = _inside(at + float(release.score[0]) / unit / rows, rows, cost)
        sd = math.hypot(release.noise.score / unit, (rate - at) * rows_sd)
        return cls(family, rate, rows, target, min(sd / (rows * min(rate, 1.0 - rate)), 1.0))


def _tell_rate(
    problem: Problem, looked: Looked, cost: float, rules: GeneralizedRules
) -> Generator[Question, Any, _Told]:
    """Tell the mean of the target: of a boolean by one score, of counts by looks and then one score."""
    if problem.family == "binomial":
        family, at = Family("binomial"), 0.5
        release = yield from _first_score(problem, problem.target.expression, 0.0, at, _COUNTED, cost)
        rows, rows_sd = _count(release, looked if problem.numbers else None)
        return _Told.of(release, family, rows, rows_sd, Place(0.0, 1.0, 0.0, 1.0), cost, at)
    offset = problem.numbers[-1:] if problem.offset else ()
    (where,) = looked.of(slice(-1, None)).places(offset, [rules.clip]) if offset else (None,)
    before, asked = Looked.before((problem.target,), looked.rows, rules), (1.0 - _PLACED) * cost
    looks = [share * _PLACED * cost for share in rules.means]
    looked = yield from look(problem, (problem.target,), before, looks, rules, first=True)
    (place,) = looked.places((problem.target,), [_SPREADS])
    cut = replace(place, low=problem.target.low or 0.0)
    far = place.high
    if not rules.cut:
        cut = problem.target.uncut(cut)
    family = Family("poisson", cut.high)
    rate = _inside(cut.center / family.unit, looked.rows, asked)
    norm = min(max(rate, 1.0 - rate), far / family.unit)
    at = offset_of(family.mean, family.link, rate, 0.0 if where is None else where.scale)
    release = yield from _first_score(problem, problem.target.cut(cut), at, norm, {SCORE: 1.0}, asked, where)
    return _Told.of(release, family, looked.rows, looked.rows_sd, cut, asked, rate)


def _count(release: ScoreRelease, looked: Looked | None) -> tuple[float, float]:
    """Return the rows that a first score counted, with what looks told of them, and the deviation of that."""
    assert release.norms is not None
    assert release.noise.norms is not None
    counted = max(float(release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1]), 10.0)
    if looked is None:
        return counted, release.noise.norms
    own = looked.rows_sd**2 / (looked.rows_sd**2 + release.noise.norms**2)
    return looked.rows + own * (counted - looked.rows), math.sqrt(own) * release.noise.norms


def _first_score(
    problem: Problem,
    target: Expression,
    at: float,
    norm: float,
    shares: dict[str, float],
    cost: float,
    offset: Place | None = None,
) -> Generator[Question, Any, ScoreRelease]:
    """Ask for the sum of residuals of the constant alone, and of an offset. No row exceeds the norm."""
    coefficients = {CONSTANT: at}
    if problem.offset is not None and offset is not None:
        low, high = problem.offset.low or 0.0, problem.offset.high or 0.0
        coefficients = {CONSTANT: at + (low + high) / 2.0 - offset.center, problem.offset.name: (high - low) / 2.0}
    release: ScoreRelease = yield Question(
        ScoreRequest(
            [field.expression for field in problem.regressors],
            target,
            loss=LOSSES[problem.family],
            coefficients=coefficients,
            directions={CONSTANT: [1.0]},
            norm=norm,
            bits=BITS,
            statistics=tuple(shares),
            shares=shares,
            **problem.paying(cost),
        )
    )
    return release


def _inside(rate: float, rows: float, cost: float) -> float:
    """Keep a rate off 0 and 1 by a row, and by about a deviation of the noise that a cost µ² has for it."""
    least = min((1.0 + 1.0 / math.sqrt(cost)) / (rows + 2.0), 0.25)
    return min(max(rate, least), 1.0 - least)


def see_gram(frame: Frame, gram: Release, n: float, family: Family, origin: FloatArray) -> Gradient:
    """Return Xᵀy of combinations Tᵀv as a score at the base rate."""
    assert gram.xtx is not None
    assert gram.xty is not None
    noise, T = gram.noise, coordinates(frame, gram)
    assert noise.xtx_diagonal is not None
    assert noise.xty is not None
    kept = kept_weight(T, gram.xtx, n)
    unit = gram.targets[0].scale / family.unit
    start = gram.targets[0].center / family.unit - float(family.mean(origin[:1])[0])
    constant = np.linalg.solve(T, np.eye(frame.size)[0])  # weights that add up to the constant
    score = (unit * gram.xty[:, 0] + start * gram.xtx @ constant) / kept
    sd = math.hypot(unit * noise.xty, start * noise.xtx_diagonal * float(np.linalg.norm(constant))) / kept
    return Gradient(T, origin, score, sd)


def _share_clipped(release: ScoreRelease) -> float:
    """Return the share of the rows whose gradient was longer than the norm, as far as it stands out of the noise."""
    assert release.norms is not None
    longer = release.norms[int(np.searchsorted(release.norm_edges, 0.99)) + 1 :]
    seen = float(longer.sum()) - _CLEAR * (release.noise.norms or 0.0) * math.sqrt(len(longer))
    return min(max(seen / max(float(release.norms.sum()), 1.0), 0.0), 1.0)
