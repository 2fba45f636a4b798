"""Requests that plans share, and how their answers are read in standard coordinates."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.family import LOSSES
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import BITS, Coding, Question, norm_exceeded_by
from analyst_client.refinement.rules import RefinementRules
from analyst_client.terms.expression import Expression

FloatArray = npt.NDArray[np.float64]
_CLIP_STEP = 1.6
"""How fast the norm of a gradient changes."""


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
        Σ g gᵀ of clipped gradients.
    meat_sd, meat_sd_beside : float
        Of an entry on its diagonal, and of one beside it.
    """

    P: FloatArray
    theta: FloatArray
    score: FloatArray
    sd: float
    meat: FloatArray | None = None
    meat_sd: float = 0.0
    meat_sd_beside: float = 0.0


def standard_frame(
    problem: Problem, places: Mapping[str, Place], target: Place
) -> Generator[Question, Any, tuple[Frame, list[Expression], Expression]]:
    """Ask what terms columns make that are cut to their places: a quote names them.

    Parameters
    ----------
    problem : Problem
    places : mapping of str to Place
        By the name of a feature that is a number.
    target : Place
        Cuts a target that is a number.

    Yields
    ------
    Question

    Returns
    -------
    frame : Frame
        Standard coordinates.
    features : list of Expression
        As they are cut.
    target : Expression
        As it is cut.
    """
    features = [
        field.cut(places[field.name]) if field.name in places else field.expression for field in problem.features
    ]
    cut = problem.target.cut(target) if problem.target.is_number else problem.target.expression
    request = ReleaseRequest(features, target=cut, rows="box", **problem.paying(problem.mu**2))
    quote: Coding = yield Question(request, is_quote=True)
    renamed = {
        name: places[field.name]
        for field, name in zip(problem.features, quote.feature_names, strict=True)
        if field.name in places
    }
    return Frame.of(quote.terms, quote.targets[0], renamed, target), features, cut


def gram_request(
    problem: Problem,
    frame: Frame,
    features: Sequence[Expression],
    target: Expression,
    whitening: FloatArray,
    radius_squared: float,
    shares: Mapping[str, float],
    cost: float,
) -> ReleaseRequest:
    """Ask for statistics of rows in standard coordinates.

    Parameters
    ----------
    problem : Problem
    frame : Frame
    features : sequence of Expression
    target : Expression
    whitening : ndarray of shape (d, k)
        Combinations of coordinates that are asked for.
    radius_squared : float
        Of their norm: longer rows are weighted down.
    shares : mapping of str to float
        Of the cost, by statistic.
    cost : float
        µ².

    Returns
    -------
    ReleaseRequest
    """
    rows = CombinedRows(frame.by_name(frame.matrix @ whitening), norm=math.sqrt(radius_squared), bits=BITS)
    return ReleaseRequest(
        features, target=target, rows=rows, statistics=list(shares), shares=shares, **problem.paying(cost)
    )


def coordinates(frame: Frame, gram: Release) -> FloatArray:
    """Return T, by which a release's combinations follow from standard coordinates: they are Tᵀv."""
    assert gram.combinations is not None
    order = frame.places_in(gram.combined)
    return np.asarray(np.linalg.solve(frame.matrix, gram.combinations[order]), dtype=np.float64)


def score_request(
    problem: Problem,
    frame: Frame,
    features: Sequence[Expression],
    target: Expression,
    theta: FloatArray,
    P: FloatArray,
    norm: float,
    shares: Mapping[str, float],
    cost: float,
) -> ScoreRequest:
    """Ask for a score of the family's loss in standard coordinates.

    Parameters
    ----------
    problem : Problem
    frame : Frame
    features : sequence of Expression
    target : Expression
    theta : ndarray of shape (d,)
        Coefficients of coordinates.
    P : ndarray of shape (d, k)
        Directions.
    norm : float
        To which gradients are clipped.
    shares : mapping of str to float
        Of the cost, by statistic.
    cost : float
        µ².

    Returns
    -------
    ScoreRequest
    """
    coefficients = frame.to_terms(theta)
    return ScoreRequest(
        features,
        target,
        loss=LOSSES[problem.family],
        coefficients={term.name: float(c) for term, c in zip(frame.terms, coefficients, strict=True)},
        directions=frame.by_name(frame.directions_to_terms(P)),
        norm=norm,
        bits=BITS,
        statistics=tuple(shares),
        shares=shares,
        **problem.paying(cost),
    )


def measured(frame: Frame, release: ScoreRelease) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used."""
    assert release.score is not None
    order, noise = frame.places_in(release.terms), release.noise
    assert noise.score is not None
    P, theta = frame.directions_from_terms(release.directions[order]), frame.from_terms(release.coefficients[order])
    sds = noise.meat_diagonal or 0.0, noise.meat_offdiagonal or 0.0
    return Measurement(P, theta, release.score, noise.score, release.meat, *sds)


def next_norm(release: ScoreRelease, norm: float, usual: float, allowed: float, rules: RefinementRules) -> float:
    """Return the norm that about so many rows exceed, near to the last one and to the usual one."""
    found = norm_exceeded_by(release, norm, allowed, rules.norm_sure)
    wanted = usual if found is None else min(max(found, norm / _CLIP_STEP), norm * _CLIP_STEP)
    return min(max(wanted, rules.norm_least * usual), rules.norm_most * usual)


def inverse_root(eigenvalues: FloatArray, Q: FloatArray) -> FloatArray:
    """Return the symmetric P with PᵀAP = 1, by eigenvalues and eigenvectors of A.

    Of all that do so the symmetric one alone hardly moves with the last digits of A, where eigenvalues are near each
    other: a plan that is followed again must ask the same.
    """
    return np.asarray((Q / np.sqrt(eigenvalues)) @ Q.T, dtype=np.float64)
