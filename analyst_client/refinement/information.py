"""Intervals of a refined logistic or Poisson regression: what its scores tell of coefficients, and how surely."""

import math
from dataclasses import dataclass

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.refinement.belief import Belief
from analyst_client.refinement.family import index_direction
from analyst_client.refinement.generalized import BEND, Gradient, Moments, RefinedGeneralized
from analyst_client.refinement.requests import Measurement

UNSURE_MOST = 0.4
"""Of the information along a coefficient, relative: above it an interval has no end."""
_VARIANCE_MISFIT = 0.25
"""Expected relative distance of Σ g gᵀ from the family's, for a model that is a little wrong."""
_LEAST_SHARE = 0.25
"""Least variance of scores over that of the family, in any direction: below it noise is what was seen."""
_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of coefficients in standard coordinates given the scores, without a prior.

    Attributes
    ----------
    theta : ndarray of shape (d,)
    information : ndarray of shape (d, d)
        H at θ.
    sampling, robust : ndarray of shape (d, d)
        Covariance of the score as rows are sampled: by the family's variance, and by Σ g gᵀ. The latter is None where
        that was not bought.
    privacy : ndarray of shape (d, d)
        Covariance of what noise, curvature and what is unsure of H add to the score at θ.
    unsure : Uncertainty
    counts : bool
        Whether the variance of the family may be too small.
    bend : float
        How far H may change from here to the true coefficients, relative.
    dispersion : float or None
        Variance of residuals over that of the family, by Σ g gᵀ.
    """

    theta: FloatArray
    information: FloatArray
    sampling: FloatArray
    robust: FloatArray | None
    privacy: FloatArray
    unsure: "Uncertainty"
    counts: bool
    bend: float
    dispersion: float | None

    def is_robust(self, robust: bool | None = None) -> bool:
        """Return whether covariances rest on Σ g gᵀ: by default wherever it was bought, and always of counts.

        Raises
        ------
        EstimationError
            Where they would, and Σ g gᵀ is none.
        """
        wanted = (self.counts or self.robust is not None) if robust is None else robust
        if wanted and self.robust is None:
            raise EstimationError(
                "the price was not enough for Σ g gᵀ, so there are no robust standard errors"
                + (", and counts may vary by more than their mean: intervals have no end" if self.counts else "")
                + ". At a higher price, or with more rows, a refinement buys it"
            )
        return wanted

    def covariance(self, forms: FloatArray, *, robust: bool | None = None) -> FloatArray:
        r"""Return the covariance of linear forms of the coefficients.

        Parameters
        ----------
        forms : ndarray of shape (p, d)
        robust : bool, optional
            By Σ g gᵀ, or by the family's variance; see `is_robust`.

        Returns
        -------
        ndarray of shape (p, p)
            With ∞ on its diagonal, and 0 beside it, of a form whose information noise could hide.

        Raises
        ------
        EstimationError
            As `is_robust`.

        Notes
        -----
        It is :math:`C = H^{-1}(J + S)H^{-1}` with J the covariance of the score by sampling and S that of noise. What
        is unsure of H makes expected squares longer: variances grow by the factor 1 + 3r², with r the deviation of
        :math:`u^\top Hu` over itself at :math:`u = H^{-1}c`, and how far H may change up to the true coefficients.
        A form of which r is above `UNSURE_MOST` has no bound. With Σ g gᵀ, one deviation of its noise is added.
        """
        is_robust, J = self.is_robust(robust), self._score_covariance(robust)
        U = np.linalg.solve(self.information, forms[:, : len(self.information)].T)
        found = U.T @ (J + self.privacy) @ U
        longer = np.zeros(len(forms))
        for k, u in enumerate(U.T):
            form = float(u @ self.information @ u)
            ratio = math.hypot(self.unsure.information_deviation(u) / form, self.bend)
            if ratio < UNSURE_MOST:
                variance = (1.0 + 3.0 * ratio**2) * float(found[k, k])
                variance += self.unsure.robust_deviation(u) if is_robust else 0.0
                longer[k] = math.sqrt(variance / float(found[k, k]))
        covariance: FloatArray = longer[:, None] * found * longer
        covariance[np.diag_indices(len(forms))] += np.where(longer > 0.0, 0.0, np.inf)
        return covariance

    def privacy_share(self, forms: FloatArray, *, robust: bool | None = None) -> FloatArray:
        """Return the share of each variance of `covariance` that is not of sampling rows; NaN of one without a bound.

        Parameters
        ----------
        forms : ndarray of shape (p, d)
        robust : bool, optional
            See `is_robust`.

        Returns
        -------
        ndarray of shape (p,)
        """
        U = np.linalg.solve(self.information, forms[:, : len(self.information)].T)
        sampled = np.sum(U * (self._score_covariance(robust) @ U), axis=0)
        whole = np.diag(self.covariance(forms, robust=robust))
        return np.where(np.isfinite(whole), 1.0 - sampled / whole, np.nan)

    def _score_covariance(self, robust: bool | None) -> FloatArray:
        """Return the covariance of the score as rows are sampled; see `is_robust`."""
        return self.robust if self.is_robust(robust) and self.robust is not None else self.sampling


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Deviations of forms of H and of Σ g gᵀ."""

    belief: Belief
    meats: tuple[tuple[float, Measurement], ...]

    def information_deviation(self, u: FloatArray) -> float:
        """Return that of uᵀHu."""
        return self.belief.xtx_deviation(u)

    def robust_deviation(self, u: FloatArray) -> float:
        """Return that of uᵀJu by Σ g gᵀ."""
        return math.sqrt(sum((weight * _noise_of_form(one, u)) ** 2 for weight, one in self.meats))


def likelihood(found: RefinedGeneralized) -> Likelihood:
    r"""Return what the scores of a refinement tell without a prior.

    Raises
    ------
    EstimationError
        When the budget bought no XᵀX, or the information is not sure enough for intervals with ends.

    Notes
    -----
    Xᵀy of weighted rows stays out, and so does the first half of the scores: more of their rows were clipped. The
    coefficients solve :math:`b = H\beta` of `Moments.linearised`, around themselves. H is at first what normal terms
    would make of XᵀX at these coefficients, within a tolerance; scores at other coefficients and Σ g gᵀ, which is the
    information at the truth, correct it.
    """
    moments = found.moments
    if found.frame is None or moments is None or found.theta is None or found.gram is None:
        raise EstimationError(
            "the price was not enough for XᵀX, so intervals have no end; coef_ and predictions are there. At a higher "
            "price, or with more rows, a refinement buys it"
        )
    theta, scores = found.theta, found.measurements[len(found.measurements) // 2 :]
    belief = moments.linearised(theta, scores)
    H = definite(belief, moments.rows * moments.information(theta)[1])
    sampling = moments.family.dispersion * H
    meats = _weighed(moments, H, scores)
    robust = _robust(sampling, moments, H, meats) if meats else None
    privacy, beside = belief.score_covariance(moments.beside(theta)), moments.beside(theta)
    far = _distance(moments, H, (sampling if robust is None else robust) + privacy, theta)
    bend = (BEND * far * moments.rows * moments.information(theta)[1]) ** 2 * moments.second[: len(H), : len(H)]
    step = np.asarray(np.linalg.solve(H, belief.xty - H @ beside), dtype=np.float64)
    return Likelihood(
        moments.moved(theta, step),
        H,
        sampling,
        robust,
        privacy + bend,
        Uncertainty(belief, meats),
        moments.family.name == "poisson",
        BEND * math.sqrt(far),
        moments.told_excess,
    )


def definite(belief: Belief, scale: float) -> FloatArray:
    """Return H as it is expected, with no eigenvalue below half of how unsure it is."""
    eigenvalues, Q, sds = belief.eigen()
    H: FloatArray = (Q * np.maximum(eigenvalues, np.maximum(0.5 * sds, 1e-6 * scale))) @ Q.T
    return H


def _distance(moments: Moments, H: FloatArray, noise: FloatArray, theta: FloatArray) -> float:
    """Return the expected mean square difference between the index at the true and at these coefficients.

    Under a normal prior by which each direction adds as much to the variance of the index: its size is the variance
    that is found, and what is unsure of it.
    """
    second = moments.second[: len(H), : len(H)]
    root = np.linalg.cholesky(second)
    inner = np.linalg.solve(root, np.linalg.solve(root, H).T)
    told = inner @ np.linalg.solve(np.linalg.solve(root, np.linalg.solve(root, noise).T), inner)
    precisions = np.maximum(np.linalg.eigvalsh(told), 0.0)
    found, far = index_direction(second, theta[: len(H)])[2] ** 2, 1.0
    for _ in range(_ROUNDS):
        far = float(np.sum(1.0 / (precisions + (len(H) - 1) / max(found + far, 1e-12))))
    return far


def _weighed(moments: Moments, H: FloatArray, scores: tuple[Gradient, ...]) -> tuple[tuple[float, Measurement], ...]:
    """Return measurements of Σ g gᵀ with their weights, which leave something to the family's variance."""
    bought = [one for one in scores if one.meat is not None]
    if not bought:
        return ()
    scale = moments.family.dispersion * float(np.trace(H)) / len(H)
    tolerance = (_VARIANCE_MISFIT * scale) ** 2
    precisions = [1.0 / max(one.meat_sd**2, 1e-12 * tolerance) for one in bought]
    whole = sum(precisions) + 1.0 / tolerance
    return tuple((precision / whole, one) for precision, one in zip(precisions, bought, strict=True))


def _robust(
    sampling: FloatArray, moments: Moments, H: FloatArray, meats: tuple[tuple[float, Measurement], ...]
) -> FloatArray:
    """Return the covariance of scores by Σ g gᵀ, and by the family as far as noise hides the former; definite."""
    left, J = 1.0, np.zeros_like(sampling)
    for weight, one in meats:
        assert one.meat is not None
        inverse = np.linalg.inv(one.P[: len(H)])
        J += weight * inverse.T @ one.meat @ inverse
        left -= weight
    psi = np.mean([moments.dispersion(one, H) for _, one in meats])
    J += max(left, 0.0) * float(psi) * sampling
    root = np.linalg.cholesky(sampling)
    inverse = np.linalg.inv(root)
    eigenvalues, V = np.linalg.eigh(inverse @ J @ inverse.T)
    robust: FloatArray = root @ (V * np.maximum(eigenvalues, _LEAST_SHARE)) @ V.T @ root.T
    return robust


def _noise_of_form(one: Measurement, u: FloatArray) -> float:
    """Return the deviation of the noise of uᵀJu, J of Σ g gᵀ through directions P."""
    squares = np.linalg.solve(one.P[: len(u)], u) ** 2
    diagonal, beside = one.meat_sd, one.meat_sd_beside
    pairs = (float(squares.sum()) ** 2 - float(squares @ squares)) / 2.0
    return math.sqrt(float(squares @ squares) * diagonal**2 + 4.0 * pairs * beside**2)
