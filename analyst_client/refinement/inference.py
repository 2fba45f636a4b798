"""Equations of a refined fit: XᵀX as it was bought, and Xᵀy as the last scores tell it, with the law of their noise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site
from analyst_client.inference.noise import CorrectedLaw, NoiseLaw
from analyst_client.kinds.gram.release import Release
from analyst_client.refinement.plan import Measurement, Refined, in_coordinates

FloatArray = npt.NDArray[np.float64]
_WEIGHT_LEAST = 1.0 / 3.0
"""Least mean weight of a row that a sampling covariance is corrected for; below it noise is what was seen."""


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
    are not: the estimand is that of scores, of all rows alike, as the difference weighs :math:`\beta-\bar\theta` alone.
    """
    frame, gram = found.frame, found.gram
    if frame is None or gram is None or gram.combinations is None or gram.xtx is None:
        raise EstimationError(
            "the price was not enough for XᵀX, so intervals have no end; coef_ and predict are there. At a higher "
            "price, or with more rows, a refinement buys it"
        )
    C, s = float(frame.matrix[0, 0] / gram.combinations[0, 0]), frame.target_scale
    center, moved, noise = _later_scores(found.measurements)
    plain = NoiseLaw.of(gram.noise, frame.size)
    law = CorrectedLaw(
        plain.xtx, np.zeros(frame.size), plain.yty, plain.excess_kurtosis, C * s * center, (s / C) ** 2 * noise
    )
    xty = gram.xtx @ law.center + s / C * moved
    to_terms = np.asarray(np.linalg.inv(gram.combinations).T, dtype=np.float64)
    whole = replace(gram, terms=gram.combined, combined=(), posted=None)
    site = Site(
        whole,
        to_terms @ gram.xtx @ to_terms.T,
        to_terms @ xty,
        None if gram.yty is None else float(gram.yty[0]),
        float(gram.constant_form @ gram.xtx @ gram.constant_form) if gram.constant_form is not None else None,
        to_terms,
        1.0,
        0.0,
        corrected=law,
        spread=to_terms @ _spread(found, gram) @ to_terms.T,
    )
    return Equations((site,), np.ones(1), gram.columns, whole.terms, gram.targets[0])


def _later_scores(measurements: Sequence[Measurement]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the weighted mean of θ, of the scores in coordinates, and the latter's covariance."""
    later = measurements[len(measurements) // 2 :]
    inverses = [np.linalg.inv(one.P).T for one in later]
    weights = np.array([1.0 / (one.sd**2 * np.sum(inverse**2)) for one, inverse in zip(later, inverses, strict=True)])
    weights /= weights.sum()
    center = np.tensordot(weights, np.array([one.theta for one in later]), axes=1)
    moved = sum(w * inverse @ one.score for w, inverse, one in zip(weights, inverses, later, strict=True))
    noise = sum(
        (w * one.sd) ** 2 * inverse @ inverse.T for w, inverse, one in zip(weights, inverses, later, strict=True)
    )
    return center, np.asarray(moved), np.asarray(noise)


def _spread(found: Refined, gram: Release) -> FloatArray:
    """Return XᵀX of rows of weight 1, as far as is known, in the release's own coordinates.

    Where rows were weighted down XᵀX is too small for the sampling error of scores, which are of all rows. The count
    tells by how much in the mean, and standard scores, whose squares add up to it, coordinate by coordinate.
    """
    assert found.frame is not None
    assert gram.xtx is not None
    A, _, _, _ = in_coordinates(found.frame, gram)
    diagonal = np.where(found.frame.known, np.diag(A), A[0, 0])
    root = np.sqrt(1.0 / np.clip(diagonal / found.rows, _WEIGHT_LEAST, 1.0))
    spread: FloatArray = root[:, np.newaxis] * gram.xtx * root
    return spread
