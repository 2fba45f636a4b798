"""Scaled coefficients to raw units."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyst_client.schema.columns import Term

FloatArray = NDArray[np.float64]


def raw_units(terms: Sequence[Term], target: Term, row_map: str | None) -> tuple[FloatArray, FloatArray]:
    r"""Return L and l such that :math:`L\theta + l` are the intercept and the coefficients in raw units.

    Parameters
    ----------
    terms : sequence of Term
        D of them, the constant first if there is one.
    target : Term
    row_map : str or None
        Under ``"unit"``, and under ``"unit_xy"`` with a constant, the model is linear in the scaled terms over their
        norm, so the coefficients stay those of the scaled terms.

    Returns
    -------
    L : ndarray of shape (1 + D', D)
        D' terms beside the constant.
    l : ndarray of shape (1 + D',)

    Notes
    -----
    :math:`\beta'_j = \beta_j s_y/s_j` and :math:`\beta'_0 = c_y + s_y\beta_0 - \sum_j \beta'_j c_j`, with center
    :math:`c` and scale :math:`s` of each term and of the target (Kalaja 2020, equation 3.7).

    Examples
    --------
    >>> L, l = raw_units([Term("(constant)", "constant"), Term("age", "numeric", "age", 50.0, 25.0)],
    ...     Term("y", "numeric", "y", 3.0, 5.0), "box")
    >>> (L @ [0.1, 0.2] + l).round(3).tolist()
    [1.5, 0.04]
    """
    first = int(terms[0].kind == "constant")
    if row_map == "unit" or (row_map == "unit_xy" and first):
        terms = [replace(term, center=0.0, scale=1.0) for term in terms]
    beside = terms[first:]
    scale = np.array([term.scale for term in beside])
    center = np.array([term.center for term in beside])
    L = np.zeros((1 + len(beside), len(terms)))
    L[1:, first:] = np.diag(target.scale / scale)
    L[0] = -center @ L[1:]
    if first:
        L[0, 0] = target.scale
    constant = np.zeros(1 + len(beside))
    constant[0] = target.center
    return L, constant
