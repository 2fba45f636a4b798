"""A refinement, step by step: what is asked next follows from public numbers and from what was answered before.

A plan is a generator. It yields questions, is sent their answers, and returns what they tell. So the same program buys
at a curator, reads stored answers again, and is tested without either.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.looks import Looked, look
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import BITS, Question, histogram_share, norm_exceeded_by
from analyst_client.refinement.rules import RefinementRules
from analyst_client.refinement.solution import shrunk_coefficients

FloatArray = npt.NDArray[np.float64]
_FLOOR = 0.1
"""Least eigenvalue, in rows, that gradients are whitened by."""
_CLIP_STEP = 1.6
"""How fast the norm of a gradient changes."""
_SURE = 2.0
"""Deviations above 0 from which on an eigenvalue is one to whiten by, where several Grams tell of it."""
_LEAST = 1e-4
"""Least eigenvalue, in rows, that several Grams are expected to tell."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A score in standard coordinates: `score` is Pᵀ(b − Aθ) with noise.

    Attributes
    ----------
    P : ndarray of shape (d, k)
    theta : ndarray of shape (d,)
    score : ndarray of shape (k,)
    sd : float
    norms : ndarray of shape (13,) or None
        Rows by the norm of their gradient, in units of the norm to which it is clipped.
    norms_sd : float
    meat : ndarray of shape (k, k) or None
        Σ g gᵀ of clipped gradients.
    meat_sd : float
        Of an entry on its diagonal.
    """

    P: FloatArray
    theta: FloatArray
    score: FloatArray
    sd: float
    norms: FloatArray | None = None
    norms_sd: float = 0.0
    meat: FloatArray | None = None
    meat_sd: float = 0.0


@dataclass(frozen=True, eq=False)
class Refined:
    """What a refinement found.

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
    """

    frame: Frame | None
    theta: FloatArray | None
    target: Place
    rows: float
    gram: Release | None = None
    measurements: tuple[Measurement, ...] = ()


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
    looked = yield from look(problem, fields, before, [share * budget for share in rules.looks], rules, first=True)
    left = (1.0 - sum(rules.looks)) * budget
    if looked.mean_sd[-1] > rules.lost:
        return (yield from _tell_mean(problem, looked.of(slice(-1, None)), left, rules))
    n = looked.rows
    *found, target = looked.places(fields, [rules.clip] * (len(fields) - 1) + [rules.reach])
    places = {field.name: place for field, place in zip(problem.numbers, found, strict=True)}
    if not rules.cut:
        places = {field.name: field.uncut(places[field.name]) for field in problem.numbers}
        target = problem.target.uncut(target)
    frame, features, cut_target = yield from _frame(problem, places, target)
    belief = _believe(frame, looked, rules)
    theta, residual, gram = np.zeros(frame.size), 1.0, None
    whitening = np.eye(frame.size)
    for cost in rules.gram_costs(whole := rules.gram * left):
        radius = rules.radius_squared(frame.size, n, cost if gram is not None else whole)
        if radius is None:
            break
        request = _gram_request(problem, frame, features, cut_target, whitening, radius, rules, cost)
        gram = yield Question(request)
        left -= cost
        residual = _see_gram(belief, frame, gram)
        theta = shrunk_coefficients(belief, n, theta)
        whitening = _whitening(belief, n, rules)
    measurements: list[Measurement] = []
    costs = rules.step_costs(left)
    norm = usual = rules.first_norm(frame.size, n, costs) * math.sqrt(residual * frame.size)
    for k, cost in enumerate(costs):
        P = _whitening(belief, n, rules)
        shares = rules.score_shares(k, histogram_share(n, cost, rules.told, rules.dear))
        score = yield Question(_score_request(problem, frame, features, cut_target, theta, P, norm, shares, cost))
        measured = _measure(frame, score)
        measurements.append(measured)
        belief.see_score(measured.P, measured.theta - frame.origin, measured.score, measured.sd)
        theta = shrunk_coefficients(belief, n, theta)
        allowed = rules.beyond * math.sqrt(frame.size / costs[min(k + 1, len(costs) - 1)])
        norm = _next_norm(score, norm, usual, allowed, rules)
    return Refined(frame, theta + frame.origin, target, n, gram, tuple(measurements))


def _whitening(belief: Belief, n: float, rules: RefinementRules) -> FloatArray:
    """Return the symmetric P with PᵀXᵀXP near n in the directions of which enough is known.

    Of all that do so the symmetric one alone hardly moves with the last digits of XᵀX, where eigenvalues are near each
    other: a plan that is followed again must ask the same.
    """
    if rules.grams == 1:
        eigenvalues, Q = np.linalg.eigh(belief.xtx)
        least = np.maximum(eigenvalues / n, _FLOOR)
    else:
        eigenvalues, Q, sds = belief.eigen()
        least = np.maximum(np.maximum(eigenvalues, _SURE * sds) / n, _LEAST)
    return np.asarray((Q / np.sqrt(least)) @ Q.T, dtype=np.float64)


def _tell_mean(
    problem: Problem, known: Looked, left: float, rules: RefinementRules
) -> Generator[Question, Any, Refined]:
    """Spend what is left on where the target is."""
    costs = [share * left for share in rules.means]
    looked = yield from look(problem, (problem.target,), known, costs, rules, first=False)
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


def _frame(problem: Problem, places: Mapping[str, Place], target: Place) -> Generator[Question, Any, Any]:
    """Return standard coordinates, and features and target as they are cut: a quote names their terms."""
    features = [
        field.cut(places[field.name]) if field.name in places else field.expression for field in problem.features
    ]
    cut = problem.target.cut(target)
    request = ReleaseRequest(features, target=cut, rows="box", **problem.paying(problem.mu**2))
    quote: Quote = yield Question(request, is_quote=True)
    renamed = {
        name: places[field.name]
        for field, name in zip(problem.features, quote.feature_names, strict=True)
        if field.name in places
    }
    return Frame.of(quote.terms, quote.targets[0], renamed, target), features, cut


def _gram_request(
    problem: Problem,
    frame: Frame,
    features: list[Any],
    target: Any,
    whitening: FloatArray,
    radius_squared: float,
    rules: RefinementRules,
    cost: float,
) -> ReleaseRequest:
    rows = CombinedRows(frame.by_name(frame.matrix @ whitening), norm=math.sqrt(radius_squared), bits=BITS)
    shares = {"xtx": rules.xtx, "xty": rules.xty, "yty": rules.yty}
    return ReleaseRequest(features, target=target, rows=rows, shares=shares, **problem.paying(cost))


def _see_gram(belief: Belief, frame: Frame, gram: Release) -> float:
    """Take in XᵀX and Xᵀy, and return what the variance of residuals is expected to be, in squares of the spread."""
    assert gram.xtx is not None
    assert gram.xty is not None
    assert gram.yty is not None
    noise, unit, T = gram.noise, frame.target_scale, coordinates(frame, gram)
    assert noise.xtx_diagonal is not None
    assert noise.xtx_offdiagonal is not None
    assert noise.xty is not None
    assert noise.yty is not None
    belief.see_combined(T, gram.xtx, noise.xtx_diagonal, noise.xtx_offdiagonal)
    belief.see_score(T, -frame.origin, gram.xty[:, 0] / unit, noise.xty / unit)
    rows, origin = max(float(belief.xtx[0, 0]), 1.0), frame.origin
    theta = shrunk_coefficients(belief, rows, np.zeros(frame.size))
    squares = float(gram.yty[0]) / unit**2 - 2.0 * origin @ belief.xty - origin @ belief.xtx @ origin  # around the mean
    squares -= 2.0 * theta @ belief.xty - theta @ belief.xtx @ theta
    variance = (noise.yty / unit**2) ** 2 + theta @ belief.score_covariance(theta) @ theta
    return expected_within(float(squares) / rows, math.sqrt(float(variance)) / rows)


def coordinates(frame: Frame, gram: Release) -> FloatArray:
    """Return T, by which a release's combinations follow from standard coordinates: they are Tᵀv."""
    assert gram.combinations is not None
    order = frame.places_in(gram.combined)
    return np.asarray(np.linalg.solve(frame.matrix, gram.combinations[order]), dtype=np.float64)


def _score_request(
    problem: Problem,
    frame: Frame,
    features: list[Any],
    target: Any,
    theta: FloatArray,
    P: FloatArray,
    norm: float,
    shares: Mapping[str, float],
    cost: float,
) -> ScoreRequest:
    coefficients = frame.to_terms(theta + frame.origin)
    return ScoreRequest(
        features,
        target,
        coefficients={term.name: float(c) for term, c in zip(frame.terms, coefficients, strict=True)},
        directions=frame.by_name(frame.directions_to_terms(P)),
        norm=norm,
        bits=BITS,
        statistics=tuple(shares),
        shares=shares,
        **problem.paying(cost),
    )


def _measure(frame: Frame, release: ScoreRelease) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used."""
    assert release.score is not None
    assert release.noise.score is not None
    order, noise = frame.places_in(release.terms), release.noise
    P, theta = frame.directions_from_terms(release.directions[order]), frame.from_terms(release.coefficients[order])
    sds = noise.norms or 0.0, noise.meat_diagonal or 0.0
    return Measurement(P, theta, release.score, release.noise.score, release.norms, sds[0], release.meat, sds[1])


def _next_norm(release: ScoreRelease, norm: float, usual: float, allowed: float, rules: RefinementRules) -> float:
    """Return the norm that about so many rows exceed, near to the last one and to the usual one."""
    found = norm_exceeded_by(release, norm, allowed, rules.norm_sure)
    wanted = usual if found is None else min(max(found, norm / _CLIP_STEP), norm * _CLIP_STEP)
    return min(max(wanted, rules.norm_least * usual), rules.norm_most * usual)


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / max(sd, 1e-12)) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())
