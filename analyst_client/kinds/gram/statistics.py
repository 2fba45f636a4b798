"""Noisy sufficient statistics of a regression: what a release and its parts hold, as they are read from an answer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.kinds.arrays import frozen, read_values, unpack_symmetric
from analyst_client.kinds.gram.coding import Coded, check_terms
from analyst_client.kinds.gram.quote import Noise
from analyst_client.schema.wire import Fields

SPANNED = 1e-9
"""Largest distance from 1, in any row, of a combination that counts as the constant."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NoisyStatistics(Coded):
    """Statistics of D terms and T targets, in scaled units, with the deviations of their noise.

    Attributes
    ----------
    xtx : ndarray of shape (D, D) or None
    xty : ndarray of shape (D, T) or None
    yty : ndarray of shape (T,) or None
    lambda_min : float or None
        Noisy smallest eigenvalue of XᵀX.
    noise : Noise
        Standard deviations of the noise.

    Examples
    --------
    >>> from analyst_client.tutorial import REQUEST, recorded_client
    >>> release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    >>> release.xtx.shape, release.xty.shape, release.has_constant
    ((5, 5), (5, 1), True)
    """

    xtx: FloatArray | None
    xty: FloatArray | None
    yty: FloatArray | None
    lambda_min: float | None
    noise: Noise

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read terms and statistics; raise `ServiceError` on a wrong one."""
        coding = super().read_stated(body)
        terms, targets = coding["terms"], coding["targets"]
        check_terms(body, (*coding["features"], *coding["inner_columns"]), terms, coding["combined"], targets)
        statistics = body.object("statistics")
        d, t = len(terms), len(targets)
        triangle = read_values(statistics, "xtx", [d, d], d * (d + 1) // 2, packing="upper")
        xty = read_values(statistics, "xty", [d, t], d * t)
        lambda_min = read_values(statistics, "lambda_min", [], 1)
        return coding | {
            "xtx": None if triangle is None else frozen(unpack_symmetric(triangle, d)),
            "xty": None if xty is None else frozen(xty.reshape(d, t)),
            "yty": read_values(statistics, "yty", [t], t),
            "lambda_min": None if lambda_min is None else float(lambda_min[0]),
        }

    @cached_property
    def combinations(self) -> FloatArray | None:
        """The weights of k combinations of `combined`, exactly, of shape (D, k): a row has the terms z @ combinations.

        None where terms are no combinations.
        """
        return (
            None if self.posted is None else self.posted.matrix([term.name for term in self.combined], len(self.terms))
        )

    @cached_property
    def constant_form(self) -> FloatArray | None:
        """Weights of the terms that add up to the constant, of shape (D,); None where none do."""
        if self.combinations is None:
            return np.eye(len(self.terms))[0] if self.has_constant else None
        if self.combined[0].kind != "constant":
            return None
        constant = np.eye(len(self.combined))[0]
        form: FloatArray = np.linalg.lstsq(self.combinations, constant, rcond=None)[0]
        return form if np.allclose(self.combinations @ form, constant, rtol=0.0, atol=SPANNED) else None

    @property
    def has_constant(self) -> bool:
        """True if the first term is the constant."""
        return self.terms[0].kind == "constant"
