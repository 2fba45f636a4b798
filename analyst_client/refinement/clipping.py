"""The effect of clipping on gradients of a generalised linear model, computed for normal terms."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.refinement.family import Family

_LOG_DRAWS = 12
_KEPT_LEAST = 0.2
"""Least part of a score that clipping is taken to leave: below it the model is not to be trusted."""


class Clipped(NamedTuple):
    """Expectations for one row.

    Attributes
    ----------
    moved : ndarray of shape (k,)
        Mean of a clipped gradient where that of an unclipped one is 0.
    kept : float
        How much a clipped score moves with the true coefficients, over one that is not clipped.
    share : float
        Rows whose gradient is longer than 1.
    square : float
        Mean square of the norm of a clipped gradient.
    """

    moved: FloatArray
    kept: float
    share: float
    square: float


def clipped_law(family: Family, second: FloatArray, theta: FloatArray, P: FloatArray, excess: float) -> Clipped:
    r"""Return what clipping does to gradients :math:`P^\top v(y - m(v^\top\theta))` at the true coefficients.

    Parameters
    ----------
    family : Family
    second : ndarray of shape (d, d)
        E[v vᵀ] of terms v, the constant first; they are taken as normal.
    theta : ndarray of shape (d,)
    P : ndarray of shape (d, k)
        Directions, over the norm to which gradients are clipped.
    excess : float
        Variance of counts over that of the family.

    Notes
    -----
    With c(g) the clipped gradient, `moved` is E c(g), and by the identity of the likelihood's score its derivative by
    the true coefficients is :math:`E\,c(g)(y-m)v^\top` over the dispersion: `kept` is its trace over that without
    clipping. Expectations are means over points of Sobol's sequence, the same each time.
    """
    z, u = _points(len(theta))
    mean = second[0] / second[0, 0]
    eigenvalues, Q = np.linalg.eigh(second - np.outer(mean, mean))
    v = mean + (z * np.sqrt(np.maximum(eigenvalues, 0.0))) @ Q.T
    means, weights = family.mean(v @ theta), np.ones(len(v))
    outcomes: tuple[tuple[FloatArray, FloatArray], ...]
    if family.name == "binomial":
        outcomes = ((1.0 - means, means), (-means, 1.0 - means))
    else:
        uneven = max(excess - 1.0, 0.0) * float(means.mean()) * family.dispersion / float(np.mean(means**2))
        outcomes = ((_counts(means, u, family.dispersion, uneven) - means, weights),)
        weights = 1.0 / (1.0 + uneven * means / family.dispersion)
    directed = v @ P
    long = np.sqrt(np.sum(directed**2, axis=1))
    moved, whole, kept, share, square = np.zeros(P.shape[1]), 0.0, 0.0, 0.0, 0.0
    for residual, chance in outcomes:
        length = long * np.abs(residual)
        factor = chance / np.maximum(length, 1.0)
        moved += (factor * residual) @ directed
        kept += float((factor * weights) @ length**2)
        whole += float((chance * weights) @ length**2)
        share += float(chance @ (length > 1.0))
        square += float(chance @ np.minimum(length, 1.0) ** 2)
    n = len(v)
    return Clipped(moved / n, max(kept / max(whole, 1e-300), _KEPT_LEAST), share / n, square / n)


def _counts(means: FloatArray, u: FloatArray, dispersion: float, uneven: float) -> FloatArray:
    """Return counts at given probabilities, of a gamma law with the variance of a negative binomial one."""
    from scipy import special  # noqa: PLC0415 -- the import of the client stays quick

    shape = 1.0 / (dispersion / means + uneven)
    counts: FloatArray = special.gammaincinv(np.maximum(shape, 1e-2), u) * means / np.maximum(shape, 1e-2)
    return counts


@lru_cache(maxsize=8)
def _points(d: int) -> tuple[FloatArray, FloatArray]:
    """Return standard normal points of d coordinates, and probabilities beside them."""
    from scipy import special, stats  # noqa: PLC0415

    points = stats.qmc.Sobol(d + 1, scramble=True, seed=0).random_base2(_LOG_DRAWS)
    points = np.clip(points, 1e-9, 1.0 - 1e-9)
    return np.asarray(special.ndtri(points[:, :d])), np.asarray(points[:, d])
