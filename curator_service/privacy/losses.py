"""Losses of generalised linear models: the residual of one row, whose product with its terms is minus the gradient.

A residual depends on the row and public numbers alone. Links are public tables over multiples of 2^-12, made with the
project's own exponential, so that every engine and every batch finds the same; their digests stand in requests.
"""

import hashlib
from enum import StrEnum
from functools import lru_cache

import numpy as np

from curator_service.privacy.expressions import elementary
from curator_service.privacy.lattice import UNIT, RowArray

STEPS, REACH = 2**12, 16
"""Places of a table for one unit of η, and how far it goes either way; η beyond is cut to that."""
_SHARE = 2**30
"""Values of the logistic table are whole multiples of its inverse, so that a residual is exact."""
DIGESTS = {
    "logistic": "37bf59bccc2477e7b971e67a7ededdae89d36e91b6903d1e8bc30c828f3f842c",
    "poisson": "190618105665c53b5fa0c4ce87099cd253893a7c3bd758adbc0d9f6f0ddb58a9",
}
"""SHA-256 of each link's table, as little-endian float64: what a loss means never changes."""


class Loss(StrEnum):
    """The loss of a target y at η = xᵀθ; its residual is y less the mean at η."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    POISSON = "poisson"


@lru_cache(maxsize=2)
def link_table(loss: Loss) -> RowArray:
    """Return the means at η = −16, −16 + 2^-12, …, 16: of a logistic loss in units of 2^-30, of Poisson's as they are.

    Returns
    -------
    ndarray of float64, shape (131073,)
    """
    eta = np.arange(-REACH * STEPS, REACH * STEPS + 1) / STEPS
    means = elementary.exp(eta) if loss is Loss.POISSON else np.rint(_SHARE / (1.0 + elementary.exp(-eta)))
    means.setflags(write=False)
    return means


def digest_of(loss: Loss) -> str:
    """Return the SHA-256 of a link's table."""
    return hashlib.sha256(link_table(loss).astype("<f8").tobytes()).hexdigest()


def links_are_known() -> bool:
    """Tell whether this machine makes the tables that every other one makes."""
    return all(digest_of(loss) == DIGESTS[loss] for loss in (Loss.LOGISTIC, Loss.POISSON))


def residuals(loss: Loss, eta: RowArray, targets: RowArray, *, center: float = 0.0, scale: float = 1.0) -> RowArray:
    """Return residuals in lattice units.

    Parameters
    ----------
    eta : ndarray of float64, shape (n,)
        xᵀθ in lattice units: a multiple of 2^-30 below 2^52 in size.
    targets : ndarray of float64, shape (n,)
        Integers in ``[-q, q]``.
    center, scale : float
        Of a target of Poisson's loss: its declared bounds are center ± scale, and the lower one is not negative.

    Returns
    -------
    ndarray of float64, shape (n,)
        Of the linear loss y − η, exactly where both have 53 bits; of the logistic loss y − 1/(1 + exp −η), exactly; of
        Poisson's (y − min(exp η, B))/B with the upper bound B of y, so within ±1. Each operation is elementwise.
    """
    if loss is Loss.LINEAR:
        return targets - eta
    places = np.rint(np.clip(eta * (STEPS / UNIT), -REACH * STEPS, REACH * STEPS)).astype(np.int64) + REACH * STEPS
    means: RowArray = link_table(loss).take(places)
    if loss is Loss.LOGISTIC:
        means *= UNIT / _SHARE
        return targets - means
    upper = center + scale
    counts = center + scale * (targets / UNIT)
    found: RowArray = (counts - np.minimum(means, upper)) / upper * UNIT
    return found
