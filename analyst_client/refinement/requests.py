"""Requests that plans share, and how their answers are read in standard coordinates."""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client.arrays import FloatArray
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.family import LOSSES
from analyst_client.refinement.frame import Frame
from analyst_client.refinement.places import Place
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.questions import BITS, Coding, Question, norm_exceeded_by
from analyst_client.refinement.rules import RefinementRules
from analyst_client.terms.expression import Expression

BoolArray = npt.NDArray[np.bool_]
_KEPT_LEAST = 0.2
"""Least part of a score that clipping is taken to leave: below it the model of residuals is not to be trusted."""
_WEIGHT_LEAST = 1.0 / 3.0
"""Least mean weight of a row that XᵀX is corrected for."""
_MIDDLES = (np.arange(50) + 0.5) / 50.0
"""Probabilities by which a law is taken at equally likely points."""
SURE = 2.0
"""Deviations above 0 from which on an eigenvalue is one to whiten by."""
_BOOLEAN_LEAST = 0.1
"""Least variance of a boolean that is whitened by, over that of a standard score."""
LEAST = 1e-4
"""Least eigenvalue, in rows, that is whitened by."""
_CLIP_STEP = 1.6
"""Largest factor by which the clipping norm changes from one step to the next."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A score in standard coordinates: `score` is Pᵀ(b − Aθ) with noise, made up for what clipping took.

    Attributes
    ----------
    P : ndarray of shape (d, k)
    theta : ndarray of shape (d,)
    score : ndarray of shape (k,)
    sd : float
    meat : ndarray of shape (k, k) or None
        Σ g gᵀ of clipped gradients, in the same way.
    meat_sd, meat_sd_beside : float
        Of an entry on its diagonal, and of one beside it.
    shift : float
        How far clipping may have moved the score in one direction; 0 where that is not told.
    """

    P: FloatArray
    theta: FloatArray
    score: FloatArray
    sd: float
    meat: FloatArray | None = None
    meat_sd: float = 0.0
    meat_sd_beside: float = 0.0
    shift: float = 0.0


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
        field.cut(places[field.name]) if field.name in places else field.expression for field in problem.regressors
    ]
    cut = problem.target.cut(target) if problem.target.is_number else problem.target.expression
    request = ReleaseRequest(features, target=cut, rows="box", **problem.paying(problem.mu**2))
    quote: Coding = yield Question(request, is_quote=True)
    renamed = {
        name: places[field.name]
        for field, name in zip(problem.regressors, quote.feature_names, strict=True)
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


def kept_weight(T: FloatArray, xtx: FloatArray, n: float) -> float:
    """Return the mean weight of rows in a release of XᵀX of combinations Tᵀv, by the count that it tells.

    Parameters
    ----------
    T : ndarray of shape (d, d)
    xtx : ndarray of shape (d, d)
    n : float
        Rows.

    Returns
    -------
    float
        From a third to 1: below that noise is what was seen.
    """
    constant = np.linalg.solve(T, np.eye(len(T))[0])  # weights that add up to the constant
    return min(max(float(constant @ xtx @ constant) / n, _WEIGHT_LEAST), 1.0)


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


def measured(frame: Frame, release: ScoreRelease, kept: float = 1.0) -> Measurement:
    """Return a score in standard coordinates, at the coefficients and directions that the curator used.

    Parameters
    ----------
    frame : Frame
    release : ScoreRelease
    kept : float
        How much a clipped score moves with θ, over one that is not: see `share_kept`. The measurement is made up for
        it, and so is its noise.

    Returns
    -------
    Measurement
    """
    assert release.score is not None
    order, noise = frame.places_in(release.terms), release.noise
    assert noise.score is not None
    P, theta = frame.directions_from_terms(release.directions[order]), frame.from_terms(release.coefficients[order])
    meat = None if release.meat is None else release.meat / kept**2
    sds = (noise.meat_diagonal or 0.0) / kept**2, (noise.meat_offdiagonal or 0.0) / kept**2
    return Measurement(P, theta, release.score / kept, noise.score / kept, meat, *sds)


def share_kept(release: ScoreRelease, norm: float, rows: float, d: int, variance: float) -> float:
    r"""Return how much a clipped score moves with the coefficients, over one that is not clipped.

    Parameters
    ----------
    release : ScoreRelease
        Its histogram of norms is read where it has one.
    norm : float
        To which gradients were clipped.
    rows : float
    d : int
        Numbers of a gradient, each of about variance 1 but for its residual.
    variance : float
        Of residuals.

    Returns
    -------
    float
        From 0.2 to 1.

    Notes
    -----
    A clipped gradient :math:`v r` of norm C does not move with θ where :math:`|v||r| > C`, so the derivative is
    :math:`\sum vv^\top 1\{|v||r| \le C\}`. Its trace over d is, for normal v, the share of rows with
    :math:`|v'||r| \le C` for v' of d + 2 numbers. With normal residuals that is known; a histogram of norms tells by
    how much more, or fewer, of the rows themselves are within the norm.
    """
    bound = norm / math.sqrt(variance)
    kept = _share_within(bound, d + 2)
    if release.norms is not None:
        within = float(release.norms[: int(np.searchsorted(release.norm_edges, 1.0 - 1e-9)) + 1].sum()) / rows
        kept *= within / _share_within(bound, d)
    return min(max(kept, _KEPT_LEAST), 1.0)


def _share_within(bound: float, d: int) -> float:
    """Return P(|v||r| ≤ bound) of d + 1 independent standard normal numbers, v and r."""
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    squares = 2.0 * special.gammaincinv(d / 2.0, _MIDDLES)  # of |v|², equally likely
    return float(special.erf(bound / np.sqrt(2.0 * squares)).mean())


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


def whitened(belief: Belief, n: float, known: BoolArray) -> FloatArray:
    """Return the symmetric P with PᵀAP near n in the directions of which enough is known.

    A boolean that is rarely true, which is no standard score, is taken to vary no less than `_BOOLEAN_LEAST`: its rows
    would be longer than all others, and be clipped.
    """
    rarely = np.maximum(_BOOLEAN_LEAST - np.diag(belief.xtx) / n, 0.0) * ~known
    eigenvalues, Q, sds = belief.eigen(n * np.diag(rarely))
    return inverse_root(np.maximum(np.maximum(eigenvalues, SURE * sds) / n, LEAST), Q)
