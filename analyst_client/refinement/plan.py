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
from analyst_client.refinement.questions import Question, histogram_share, norm_exceeded_by
from analyst_client.refinement.rules import RefinementRules
from analyst_client.refinement.solution import shrunk_coefficients

FloatArray = npt.NDArray[np.float64]
_FLOOR = 0.1
"""Least eigenvalue, in rows, that gradients are whitened by."""
_CLIP_LEAST, _CLIP_MOST, _CLIP_STEP = 0.7, 3.0, 1.6
"""The norm of a gradient over the usual one: its range, and its pace."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A score in standard coordinates: `score` is Pᵀ(b − Aθ) with noise.

    Attributes
    ----------
    P : ndarray of shape (d, k)
    theta : ndarray of shape (d,)
    score : ndarray of shape (k,)
    sd : float
    """

    P: FloatArray
    theta: FloatArray
    score: FloatArray
    sd: float


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
    frame, features, cut_target = yield from _frame(problem, places, target)
    belief = _believe(frame, looked, rules)
    theta, residual, gram = np.zeros(frame.size), 1.0, None
    radius = rules.radius_squared(frame.size, n, rules.gram * left)
    if radius is not None:
        request = _gram_request(problem, frame, features, cut_target, radius, rules, rules.gram * left)
        gram = yield Question(request)
        left -= rules.gram * left
        residual = _see_gram(belief, frame, gram)
        theta = shrunk_coefficients(belief, n, theta)
    measurements: list[Measurement] = []
    norm = usual = rules.usual * math.sqrt(residual * frame.size)
    costs = rules.step_costs(left)
    for k, cost in enumerate(costs):
        eigenvalues, Q = np.linalg.eigh(belief.xtx)
        P = Q / np.sqrt(np.maximum(eigenvalues / n, _FLOOR))
        share = histogram_share(n, cost, rules.told, rules.dear)
        score = yield Question(_score_request(problem, frame, features, cut_target, theta, P, norm, share, cost))
        measured = _measure(frame, score)
        measurements.append(measured)
        belief.see_score(measured.P, measured.theta - frame.origin, measured.score, measured.sd)
        theta = shrunk_coefficients(belief, n, theta)
        allowed = rules.beyond * math.sqrt(frame.size / costs[min(k + 1, len(costs) - 1)])
        norm = _next_norm(score, norm, usual, allowed)
    return Refined(frame, theta + frame.origin, target, n, gram, tuple(measurements))


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
    radius_squared: float,
    rules: RefinementRules,
    cost: float,
) -> ReleaseRequest:
    rows = CombinedRows(frame.by_name(frame.matrix), norm=math.sqrt(radius_squared))
    shares = {"xtx": rules.xtx, "xty": rules.xty, "yty": rules.yty}
    return ReleaseRequest(features, target=target, rows=rows, shares=shares, **problem.paying(cost))


def _see_gram(belief: Belief, frame: Frame, gram: Release) -> float:
    """Take in XᵀX and Xᵀy, and return what the variance of residuals is expected to be, in squares of the spread."""
    A, b, yty, noise = in_coordinates(frame, gram)
    belief.see_xtx(A, noise.xtx_diagonal, noise.xtx_offdiagonal)
    belief.see_score(np.eye(frame.size), -frame.origin, b, noise.xty)
    theta = shrunk_coefficients(belief, max(float(A[0, 0]), 1.0), np.zeros(frame.size))
    rows = max(float(belief.xtx[0, 0]), 1.0)
    squares = yty - 2.0 * frame.origin @ b + frame.origin @ A @ frame.origin  # around the expected mean
    squares -= 2.0 * theta @ belief.xty - theta @ belief.xtx @ theta
    variance = noise.yty**2 + theta @ belief.score_covariance(theta) @ theta
    return expected_within(float(squares) / rows, math.sqrt(float(variance)) / rows)


@dataclass(frozen=True)
class GramNoise:
    """Deviations of the noise of a Gram in standard coordinates."""

    xtx_diagonal: float
    xtx_offdiagonal: float
    xty: float
    yty: float


def in_coordinates(frame: Frame, gram: Release) -> tuple[FloatArray, FloatArray, float, GramNoise]:
    """Return A, b and yᵀy of a Gram in standard coordinates, and their noise."""
    assert gram.xtx is not None
    assert gram.xty is not None
    assert gram.yty is not None
    assert gram.combinations is not None
    C, s = float(frame.matrix[0, 0] / gram.combinations[0, 0]), frame.target_scale
    noise = gram.noise
    assert noise.xtx_diagonal is not None
    assert noise.xtx_offdiagonal is not None
    assert noise.xty is not None
    assert noise.yty is not None
    return (
        C**2 * gram.xtx,
        C / s * gram.xty[:, 0],
        float(gram.yty[0]) / s**2,
        GramNoise(C**2 * noise.xtx_diagonal, C**2 * noise.xtx_offdiagonal, C / s * noise.xty, noise.yty / s**2),
    )


def _score_request(
    problem: Problem,
    frame: Frame,
    features: list[Any],
    target: Any,
    theta: FloatArray,
    P: FloatArray,
    norm: float,
    share: float,
    cost: float,
) -> ScoreRequest:
    coefficients = frame.to_terms(theta + frame.origin)
    return ScoreRequest(
        features,
        target,
        coefficients={term.name: float(c) for term, c in zip(frame.terms, coefficients, strict=True)},
        directions=frame.by_name(frame.directions_to_terms(P)),
        norm=norm,
        statistics=("score", "norms") if share else ("score",),
        shares={"score": 1.0 - share, "norms": share} if share else None,
        **problem.paying(cost),
    )


def _measure(frame: Frame, release: ScoreRelease) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used."""
    assert release.score is not None
    assert release.noise.score is not None
    P = frame.directions_from_terms(release.directions)
    return Measurement(P, frame.from_terms(release.coefficients), release.score, release.noise.score)


def _next_norm(release: ScoreRelease, norm: float, usual: float, allowed: float) -> float:
    """Return the norm that about so many rows exceed, near to the last one."""
    found = norm_exceeded_by(release, norm, allowed)
    wanted = usual if found is None else min(max(found, norm / _CLIP_STEP), norm * _CLIP_STEP)
    return min(max(wanted, _CLIP_LEAST * usual), _CLIP_MOST * usual)


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / max(sd, 1e-12)) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())
