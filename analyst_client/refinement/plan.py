"""A refinement, step by step: what is asked next follows from public numbers and from what was answered before.

A plan is a generator. It yields questions, is sent their answers, and returns what they tell. So the same program buys
at a curator, reads stored answers again, and is tested without either.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from analyst_client.kinds.combinations import BITS_MAX
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.marginals.items import Flat, Item, Moments, Tree
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.kinds.marginals.request import MarginalsRequest
from analyst_client.kinds.score import NORMS, SCORE
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.family import LOSSES
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.places import (
    Place,
    count_rows,
    place_by_flat,
    place_by_tree,
    places_by_moments,
)
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.rules import RefinementRules
from analyst_client.refinement.solution import shrunk_coefficients

FloatArray = npt.NDArray[np.float64]
LEVELS, BINS = 9, 16
"""Of the target's tree, and of its flat histogram."""
_FLOOR = 0.1
"""Least eigenvalue, in rows, that gradients are whitened by."""
_CLIP_USUAL, _CLIP_LEAST, _CLIP_MOST, _CLIP_STEP = 1.3, 0.7, 3.0, 1.6
"""The norm of a gradient over the root of residual variance times d: where it begins, its range, and its pace."""


@dataclass(frozen=True)
class Question:
    """A request to be quoted, for nothing, or to be paid for.

    Attributes
    ----------
    request : Request
    is_quote : bool
    """

    request: Any
    is_quote: bool = False


@dataclass(frozen=True, eq=False)
class Measurement:
    """A score in standard coordinates: `score` is Pᵀ(b − Aθ) with noise.

    Attributes
    ----------
    P : ndarray of shape (d, k)
    theta : ndarray of shape (d,)
    score : ndarray of shape (k,)
    sd : float
    meat : ndarray of shape (k, k) or None
        Σ g gᵀ through the same P, with noise of deviations `meat_sds` on and beside its diagonal.
    meat_sds : tuple of float
    """

    P: FloatArray
    theta: FloatArray
    score: FloatArray
    sd: float
    meat: FloatArray | None = None
    meat_sds: tuple[float, float] = (0.0, 0.0)


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


Steps: TypeAlias = Generator[Question, Any, Any]
"""Yields questions, and is sent answers."""


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
    budget = problem.mu**2
    n = problem.rows
    if n * problem.mu < rules.least_rows:
        return (yield from _tell_mean(problem, budget))
    spent = rules.columns * budget if problem.numbers else 0.0
    places, n = yield from _place_features(problem, rules, spent)
    target_cost = rules.target_share(problem.rows * problem.mu) * budget
    target = yield from _place_target(problem, n, target_cost)
    left = budget - spent - target_cost
    frame, features, cut_target = yield from _frame(problem, places, target)
    belief = Belief.of_standard_terms(n, rules.correlation, frame.known)
    theta, residual, gram = np.zeros(frame.size), 1.0, None
    radius = rules.radius_squared(frame.size, n, rules.gram * left)
    if radius is not None:
        shares = {"xtx": rules.xtx, "xty": rules.xty, "yty": rules.yty}
        request = _gram_request(problem, frame, features, cut_target, radius, shares, rules.gram * left)
        gram = yield Question(request)
        left -= rules.gram * left
        residual = _see_gram(belief, frame, gram)
        theta = shrunk_coefficients(belief, n, theta)
    measurements: list[Measurement] = []
    norm = usual = _CLIP_USUAL * math.sqrt(residual * frame.size)
    costs = rules.step_costs(left)
    parts = {SCORE: 1.0 - rules.norms, NORMS: rules.norms}
    for k, cost in enumerate(costs):
        eigenvalues, Q = np.linalg.eigh(belief.xtx)
        P = Q / np.sqrt(np.maximum(eigenvalues / n, _FLOOR))
        at = theta + frame.origin
        score = yield Question(_score_request(problem, frame, features, cut_target, at, P, norm, parts, cost))
        measured = _measure(frame, score)
        measurements.append(measured)
        belief.see_score(measured.P, measured.theta - frame.origin, measured.score, measured.sd)
        theta = shrunk_coefficients(belief, n, theta)
        allowed = rules.beyond * math.sqrt(frame.size / costs[min(k + 1, len(costs) - 1)])
        norm = _next_norm(score, norm, usual, allowed)
    return Refined(frame, theta + frame.origin, target, n, gram, tuple(measurements))


def _tell_mean(problem: Problem, budget: float) -> Generator[Question, Any, Refined]:
    release = yield Question(_marginals(problem, [Moments([problem.target.expression])], budget))
    (place,) = places_by_moments(release.marginals[0], count_rows(release.marginals[0]), 2.5)
    return Refined(None, None, place, count_rows(release.marginals[0]))


def _place_features(
    problem: Problem, rules: RefinementRules, cost: float
) -> Generator[Question, Any, tuple[dict[str, Place], float]]:
    """Place the features that are numbers by their moments: within their bounds, then within what those told."""
    fields, n = problem.numbers, problem.rows
    if not fields:
        return {}, n
    asked = [field.expression for field in fields]
    places: list[Place] = []
    for share, reach in ((rules.first, rules.reach), (1.0 - rules.first, rules.clip)):
        release: MarginalsRelease = yield Question(_marginals(problem, [Moments(asked)], share * cost))
        n = count_rows(release.marginals[0])
        places = places_by_moments(release.marginals[0], n, reach)
        asked = [field.cut(place) for field, place in zip(fields, places, strict=True)]
    return {field.name: place for field, place in zip(fields, places, strict=True)}, n


def _place_target(problem: Problem, n: float, cost: float) -> Generator[Question, Any, Place]:
    """Place the target: by a tree, or by its support and its moments."""
    asked = [problem.target.expression]
    if LEVELS / math.sqrt(cost) < 0.1 * n:
        release = yield Question(_marginals(problem, [Tree(asked, LEVELS)], cost))
        if (place := place_by_tree(release.marginals[0])) is not None:
            return place
        low, high = problem.target.low or 0.0, problem.target.high or 0.0
        return Place((low + high) / 2.0, (high - low) / 2.0, low, high)
    release = yield Question(_marginals(problem, [Flat(asked, BINS), Moments(asked)], cost))
    flat, moments = release.marginals
    return place_by_flat(flat, moments, n)


def _frame(problem: Problem, places: Mapping[str, Place], target: Place) -> Generator[Question, Any, Any]:
    """Return standard coordinates, and features and target as they are cut: a quote names their terms."""
    features = [
        field.cut(places[field.name]) if field.name in places else field.expression for field in problem.features
    ]
    cut = problem.target.cut(target) if problem.target.is_number else problem.target.expression
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
    shares: Mapping[str, float],
    cost: float,
) -> ReleaseRequest:
    rows = CombinedRows(frame.by_name(frame.matrix), norm=math.sqrt(radius_squared))
    return ReleaseRequest(
        features, target=target, rows=rows, statistics=list(shares), shares=shares, **problem.paying(cost)
    )


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
    shares: Mapping[str, float],
    cost: float,
) -> ScoreRequest:
    coefficients = frame.to_terms(theta)
    coefficients[np.abs(coefficients) < 2.0**-BITS_MAX] = 0.0  # what is smaller cannot be posted
    return ScoreRequest(
        features,
        target,
        loss=LOSSES[problem.family],
        coefficients={term.name: float(c) for term, c in zip(frame.terms, coefficients, strict=True)},
        directions=frame.by_name(frame.directions_to_terms(P)),
        norm=norm,
        statistics=list(shares),
        shares=shares,
        **problem.paying(cost),
    )


def _measure(frame: Frame, release: ScoreRelease) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used."""
    assert release.score is not None
    assert release.noise.score is not None
    P = frame.directions_from_terms(release.directions)
    sds = (release.noise.meat_diagonal or 0.0, release.noise.meat_offdiagonal or 0.0)
    return Measurement(P, frame.from_terms(release.coefficients), release.score, release.noise.score, release.meat, sds)


def _next_norm(release: ScoreRelease, norm: float, usual: float, allowed: float, most: float = _CLIP_MOST) -> float:
    """Return the norm that about so many rows exceed, near to the last one."""
    assert release.norms is not None
    longer = np.cumsum(release.norms[::-1])[::-1][1:]  # than each of the edges
    place = int(np.argmax(longer <= allowed)) if np.any(longer <= allowed) else len(longer) - 1
    wanted = norm * float(release.norm_edges[place])
    wanted = min(max(wanted, norm / _CLIP_STEP), norm * _CLIP_STEP)
    return min(max(wanted, _CLIP_LEAST * usual), most * usual)


def _marginals(problem: Problem, items: list[Item], cost: float) -> MarginalsRequest:
    return MarginalsRequest(items, **problem.paying(cost))


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / max(sd, 1e-12)) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())
