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

from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.marginals.items import Flat, Item, Moments, Tree
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.kinds.marginals.request import MarginalsRequest
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
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
_CLIP_STEP = 1.6
"""How fast the norm of a gradient changes."""
_SURE = 2.0
"""Deviations above 0 from which on an eigenvalue is one to whiten by, where several looks tell of it."""
_LEAST = 1e-4
"""Least eigenvalue, in rows, that several looks are expected to tell."""


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
    target = target if rules.cut else problem.target.uncut(target)
    left = budget - spent - target_cost
    frame, features, cut_target = yield from _frame(problem, places, target)
    belief = Belief.of_standard_terms(n, rules.correlation, frame.known)
    theta, residual, gram = np.zeros(frame.size), 1.0, None
    looks, whitening = rules.look_costs(rules.gram * left), np.eye(frame.size)
    for cost in looks:
        radius = rules.radius_squared(frame.size, n, cost if gram is not None else rules.gram * left)
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
    within = rules.norm_least * usual, rules.norm_most * usual
    for k, cost in enumerate(costs):
        P, shares = _whitening(belief, n, rules), rules.score_shares(k)
        score = yield Question(_score_request(problem, frame, features, cut_target, theta, P, norm, shares, cost))
        measured = _measure(frame, score)
        measurements.append(measured)
        belief.see_score(measured.P, measured.theta - frame.origin, measured.score, measured.sd)
        theta = shrunk_coefficients(belief, n, theta)
        allowed = rules.beyond * math.sqrt(frame.size / costs[min(k + 1, len(costs) - 1)])
        norm = _next_norm(score, norm, allowed, rules.norm_sure, within)
    return Refined(frame, theta + frame.origin, target, n, gram, tuple(measurements))


def _whitening(belief: Belief, n: float, rules: RefinementRules) -> FloatArray:
    """Return P with PᵀXᵀXP near n in the directions of which enough is known."""
    if rules.looks == 1:
        eigenvalues, Q = np.linalg.eigh(belief.xtx)
        return np.asarray(Q / np.sqrt(np.maximum(eigenvalues / n, _FLOOR)), dtype=np.float64)
    eigenvalues, Q, sds = belief.eigen()
    return np.asarray(Q / np.sqrt(np.maximum(np.maximum(eigenvalues, _SURE * sds) / n, _LEAST)), dtype=np.float64)


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
    if not rules.cut:
        places = [field.uncut(place) for field, place in zip(fields, places, strict=True)]
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
    rows = CombinedRows(frame.by_name(frame.matrix @ whitening), norm=math.sqrt(radius_squared))
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
    return np.asarray(np.linalg.solve(frame.matrix, gram.combinations), dtype=np.float64)


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
        statistics=tuple(shares),
        shares=shares,
        **problem.paying(cost),
    )


def _measure(frame: Frame, release: ScoreRelease) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used."""
    assert release.score is not None
    assert release.noise.score is not None
    P = frame.directions_from_terms(release.directions)
    theta, noise = frame.from_terms(release.coefficients), release.noise
    sds = noise.norms or 0.0, noise.meat_diagonal or 0.0
    return Measurement(P, theta, release.score, release.noise.score, release.norms, sds[0], release.meat, sds[1])


def _next_norm(release: ScoreRelease, norm: float, allowed: float, sure: float, within: tuple[float, float]) -> float:
    """Return the norm that about so many rows exceed, near to the last one and within a range."""
    assert release.norms is not None
    longer = np.cumsum(release.norms[::-1])[::-1][1:]  # than each of the edges
    longer -= sure * (release.noise.norms or 0.0) * np.sqrt(np.arange(len(longer), 0, -1))
    place = int(np.argmax(longer <= allowed)) if np.any(longer <= allowed) else len(longer) - 1
    wanted = norm * float(release.norm_edges[place])
    wanted = min(max(wanted, norm / _CLIP_STEP), norm * _CLIP_STEP)
    return min(max(wanted, within[0]), within[1])


def _marginals(problem: Problem, items: list[Item], cost: float) -> MarginalsRequest:
    return MarginalsRequest(items, **problem.paying(cost))


def expected_within(mean: float, sd: float, lower: float = 0.03, upper: float = 1.2) -> float:
    """Return what a number within bounds is expected to be that was measured with normal noise."""
    grid = np.linspace(lower, upper, 200)
    squares = ((grid - mean) / max(sd, 1e-12)) ** 2
    weights = np.exp(-0.5 * (squares - squares.min()))
    return float(weights @ grid / weights.sum())
