"""Equations of a refined fit: XᵀX as it was bought, and Xᵀy as the last scores tell it, with the law of their noise."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site, StandardUnits
from analyst_client.inference.meat import steadied
from analyst_client.inference.noise import CorrectedLaw, NoiseLaw
from analyst_client.kinds.gram.release import Release
from analyst_client.refinement.plan import Refined
from analyst_client.refinement.requests import Measurement, coordinates, kept_weight
from analyst_client.refinement.tails import allowance

_VARIANCE_LEAST = 1e-3
"""Least residual variance that is believed, in squares of the target's spread."""


def corrected_equations(found: Refined) -> Equations:
    r"""Return the equations that intervals and tests of a refined fit invert.

    Raises
    ------
    EstimationError
        When the budget bought no XᵀX.

    Notes
    -----
    With scores :math:`s_k = P_k^\top(b - A\theta_k) + e_k` of the later half of the steps and weights
    :math:`w_k \propto 1/\mathrm{tr}(\mathrm{Var}(P_k^{-\top}e_k))`, the pair is :math:`\tilde A`, as it was released,
    and :math:`\tilde b = \sum w_k(\tilde A\theta_k + P_k^{-\top}s_k)`. Its noise is that of `CorrectedLaw` around
    :math:`\bar\theta = \sum w_k\theta_k`. Rows of :math:`\tilde A` are weighted where they are long, those of scores
    are not, so coordinates are stretched until their squares add up to the rows: what is left of the difference weighs
    :math:`\beta-\bar\theta` alone, and the estimand is that of scores, of all rows alike.

    Where scores have their Σ g gᵀ, the sampling covariance is made of that, and holds for residuals of any variance;
    else it is :math:`s^2A`. For what clipping may have moved, `tails.allowance` is added, alike in all directions in
    which XᵀX is whitened.
    """
    frame, gram = found.frame, found.gram
    if found.untold:
        raise EstimationError(found.untold)
    if frame is None or gram is None or gram.combinations is None or gram.xtx is None:
        raise EstimationError(
            "the price was not enough for XᵀX, so intervals have no end; coef_ and predict are there. At a higher "
            "price, or with more rows, a refinement buys it"
        )
    later, s = found.measurements[len(found.measurements) // 2 :], frame.target_scale
    center, moved, noise = _later_scores(later)
    T = _unweighted(found, gram)
    told = _sampling(later, T, gram.xtx)
    if later[-1].shift:
        noise = noise + _allowed(later, noise, T, found.residual * gram.xtx if told is None else told[0])
    plain = NoiseLaw.of(gram.noise, frame.size)
    own_center: FloatArray = s * np.asarray(np.linalg.solve(T, center), dtype=np.float64)
    law = CorrectedLaw(
        plain.xtx,
        np.zeros(frame.size),
        plain.yty,
        plain.excess_kurtosis,
        own_center,
        s**2 * (T.T @ noise @ T),
    )
    xty = gram.xtx @ law.center + s * T.T @ moved
    to_terms = np.asarray(np.linalg.inv(frame.matrix @ T).T, dtype=np.float64)
    sums, spread = found.sums, None
    variance = None if sums is None else max(sums.residual, 0.0) / sums.rows
    if told is not None:
        variance = s**2 * told[1]
        spread = to_terms @ (told[0] / told[1]) @ to_terms.T
    site = Site(
        replace(gram, terms=frame.terms, combined=(), posted=None),
        to_terms @ gram.xtx @ to_terms.T,
        to_terms @ xty,
        None if gram.yty is None else float(gram.yty[0]),
        found.rows,
        to_terms,
        1.0,
        0.0,
        variance=variance,
        corrected=law,
        spread=spread,
        sums=sums,
    )
    standard = StandardUnits(s * frame.matrix, frame.to_terms(frame.origin))
    return Equations((site,), np.ones(1), gram.columns, frame.terms, gram.targets[0], standard=standard)


def _later_scores(later: Sequence[Measurement]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the weighted mean of θ, of the scores in coordinates, and the latter's covariance."""
    inverses = [np.linalg.inv(one.P).T for one in later]
    weights = _weights(later)
    center = np.tensordot(weights, np.array([one.theta for one in later]), axes=1)
    moved = sum(w * inverse @ one.score for w, inverse, one in zip(weights, inverses, later, strict=True))
    noise = sum(
        (w * one.sd) ** 2 * inverse @ inverse.T for w, inverse, one in zip(weights, inverses, later, strict=True)
    )
    return center, np.asarray(moved), np.asarray(noise)


def _allowed(later: Sequence[Measurement], noise: FloatArray, T: FloatArray, sampling: FloatArray) -> FloatArray:
    """Return an allowance for the effect of clipping on scores: a covariance in standard coordinates.

    It is judged in the directions of the last score, in which XᵀX is about the rows times the identity.
    """
    last, weights, d = later[-1].P, _weights(later), len(T)
    lengths = [np.linalg.norm(np.linalg.solve(one.P, last)) / math.sqrt(d) for one in later]
    shift = sum(w * one.shift * length for w, one, length in zip(weights, later, lengths, strict=True))
    back = np.linalg.solve(T, last)
    variance = np.trace(last.T @ noise @ last + back.T @ sampling @ back) / d
    inverse = np.linalg.inv(last)
    return np.asarray(allowance(np.array(shift), np.array(variance)) * inverse.T @ inverse, dtype=np.float64)


def _weights(later: Sequence[Measurement]) -> FloatArray:
    """Return weights of scores by their noise, that add up to 1."""
    noise = [(one.sd**2 + one.shift**2) * np.sum(np.linalg.inv(one.P) ** 2) for one in later]
    weights = 1.0 / np.array(noise)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _unweighted(found: Refined, gram: Release) -> FloatArray:
    """Return T with Tᵀv the coordinates in which a release's XᵀX is that of rows of weight 1, as far as is known.

    Where rows were weighted down XᵀX is too small for scores, which are of all rows. The count tells by how much in the
    mean. Directions with long tails are weighted down by more: of these it stays too small, and intervals too long.
    """
    assert found.frame is not None
    assert gram.xtx is not None
    T = coordinates(found.frame, gram)
    return math.sqrt(kept_weight(T, gram.xtx, found.rows)) * T


def _sampling(later: Sequence[Measurement], T: FloatArray, xtx: FloatArray) -> tuple[FloatArray, float] | None:
    """Return the sampling covariance of a score of coordinates Tᵀv, and the residual variance; None if not bought.

    It is Σ g gᵀ in coordinates in which XᵀX is whitened, as `steadied` returns it. The target is in units of its
    spread.
    """
    told = [one for one in later if one.meat is not None]
    if not told:
        return None
    weights = np.array([1.0 / one.meat_sd**2 for one in told])
    weights /= weights.sum()
    back = np.linalg.inv(T)
    A = back.T @ xtx @ back
    last, noise = told[-1].P, 0.0
    H = np.zeros_like(A)
    for weight, one in zip(weights, told, strict=True):
        assert one.meat is not None
        turn = np.linalg.solve(one.P, last)
        H += weight * turn.T @ one.meat @ turn
        noise += float(weight * one.meat_sd * np.sum(turn**2) / len(turn)) ** 2
    H, variance = steadied(H, last.T @ A @ last, noise, _VARIANCE_LEAST)
    move = np.linalg.solve(last, T)
    return np.asarray(move.T @ H @ move, dtype=np.float64), variance
