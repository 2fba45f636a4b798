"""The normal law of XᵀX and Xᵀy, given several noisy linear measurements of them.

A gram release measures A = XᵀX and b = Xᵀy themselves, a score Pᵀ(b − Aθ) at coefficients θ. Each is linear in (A, b),
and their noise is normal, so what is known after any number of them is a normal law of the entries of A above and on
its diagonal, and of b, whatever θ and P were chosen by (they may depend on all that was measured before: given that,
the next noise is new).
"""

from typing import Self

import numpy as np
import numpy.typing as npt

from analyst_client.arrays import FloatArray

BoolArray = npt.NDArray[np.bool_]
TERMS_MAX = 64
"""A law of d terms has d (d + 3)/2 entries, and the square of that covariances."""


class TooLargeError(ValueError):
    """A model that a refinement has no room for.

    Parameters
    ----------
    message : str
    by_features : bool
        Whether fewer of its features may fit.
    """

    def __init__(self, message: str, *, by_features: bool = False) -> None:
        super().__init__(message)
        self.by_features = by_features

    @classmethod
    def of_terms(cls, term_count: int) -> Self:
        """Return the refusal of so many terms."""
        return cls(
            f"a refinement has at most {TERMS_MAX} terms, the constant among them, and these features make {term_count}"
        )


class Belief:
    """A normal law of A and b.

    Parameters
    ----------
    mean : ndarray of shape (d (d + 3)/2,)
        Of A's upper triangle, row after row, and of b.
    covariance : ndarray of shape (d (d + 3)/2, d (d + 3)/2)
    term_count : int
        d.
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray, term_count: int) -> None:
        if term_count > TERMS_MAX:
            raise TooLargeError.of_terms(term_count)
        self.term_count = term_count
        self.mean, self.covariance = mean, covariance
        self._upper = np.triu_indices(term_count)

    @classmethod
    def of_standard_terms(cls, n: float, correlation: float, known: BoolArray) -> Self:
        """Return what is known of rows before anything is measured.

        Rows may be weighted down, so the diagonal is expected below n.

        Parameters
        ----------
        n : float
            Rows.
        correlation : float
            Deviation that the correlation of two standard scores is expected to have.
        known : ndarray of bool, of shape (d,)
            Which terms are a constant, the first, or standard scores; others are within ±1, and nothing else is known.
        """
        d = len(known)
        i, j = np.triu_indices(d)
        both = known[i] & known[j]
        deviations = np.where(i == j, 0.4, np.where(both, np.where(i == 0, 0.2, correlation), 0.5))
        mean = np.concatenate([np.where(both, 0.8, 0.4) * n * (i == j), np.zeros(d)])
        return cls(mean, np.diag((n * np.concatenate([deviations, np.full(d, 0.6)])) ** 2), d)

    @property
    def xtx(self) -> FloatArray:
        """XᵀX as it is expected, shape (d, d)."""
        A = np.zeros((self.term_count, self.term_count))
        A[self._upper] = self.mean[: -self.term_count]
        expected: FloatArray = A + np.triu(A, 1).T
        return expected

    @property
    def xty(self) -> FloatArray:
        """Xᵀy as it is expected, shape (d,)."""
        return self.mean[-self.term_count :]

    def see_xtx(self, A: FloatArray, diagonal_sd: float, offdiagonal_sd: float) -> None:
        """Take in A with independent noise, of the same rows.

        Parameters
        ----------
        A : ndarray of shape (d, d)
            Symmetric; its upper triangle is read.
        diagonal_sd, offdiagonal_sd : float
        """
        i, j = self._upper
        sds = np.where(i == j, diagonal_sd, offdiagonal_sd)
        seen = len(sds)  # each entry by itself: no product with an identity
        self._see(self.covariance[:, :seen], A[self._upper] - self.mean[:seen], self.covariance[:seen, :seen], sds**2)

    def see_combined(self, T: FloatArray, A: FloatArray, diagonal_sd: float, offdiagonal_sd: float) -> None:
        """Take in TᵀXᵀXT, that of combinations of the terms, with independent noise.

        Parameters
        ----------
        T : ndarray of shape (d, d)
        A : ndarray of shape (d, d)
            Symmetric; its upper triangle is read.
        diagonal_sd, offdiagonal_sd : float
        """
        i, j = self._upper
        weights = T[i][:, i] * T[j][:, j]  # of entry (k, l) of XᵀX, in row, in that of combinations, in column
        weights += (i != j)[:, None] * T[j][:, i] * T[i][:, j]
        spread, sds = self.covariance[:, : len(i)] @ weights, np.where(i == j, diagonal_sd, offdiagonal_sd)
        surprise = A[self._upper] - weights.T @ self.mean[: len(i)]
        self._see(spread, surprise, weights.T @ spread[: len(i)], sds**2)

    def eigen(self, added: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return eigenvalues and eigenvectors of XᵀX as it is expected, and how sure each qᵀXᵀXq is, as a deviation.

        Something that is sure may be added to it, shape (d, d).
        """
        eigenvalues, Q = np.linalg.eigh(self.xtx + added)
        i, j = self._upper
        forms = Q[i] * Q[j] * np.where(i == j, 1.0, 2.0)[:, None]
        variances = np.einsum("ek,ef,fk->k", forms, self.covariance[: len(i), : len(i)], forms, optimize=True)
        return eigenvalues, Q, np.sqrt(np.maximum(variances, 0.0))

    def see_score(self, P: FloatArray, theta: FloatArray, score: FloatArray, sd: float | FloatArray) -> None:
        """Take in Pᵀ(b − Aθ) with independent noise.

        Parameters
        ----------
        P : ndarray of shape (d, k)
        theta : ndarray of shape (d,)
        score : ndarray of shape (k,)
        sd : float or ndarray of shape (k,)
            Of each number's noise.
        """
        form = self._form(P, theta)
        spread = self.covariance @ form.T
        self._see(spread, score - form @ self.mean, form @ spread, np.broadcast_to(np.square(sd), len(score)))

    def see_products(self, P: FloatArray, products: FloatArray, diagonal_sd: float, offdiagonal_sd: float) -> None:
        """Take in PᵀAP with independent noise.

        Parameters
        ----------
        P : ndarray of shape (d, k)
        products : ndarray of shape (k, k)
            Symmetric; its upper triangle is read.
        diagonal_sd, offdiagonal_sd : float
        """
        (i, j), (a, b) = self._upper, np.triu_indices(P.shape[1])
        first, second = P[i][:, a] * P[j][:, b], P[j][:, a] * P[i][:, b]
        form = np.zeros((len(a), len(self.mean)))
        form[:, : len(i)] = (first + (i != j)[:, None] * second).T
        spread = self.covariance @ form.T
        sds = np.where(a == b, diagonal_sd, offdiagonal_sd)
        self._see(spread, products[a, b] - form @ self.mean, form @ spread, sds**2)

    def xtx_deviation(self, u: FloatArray) -> float:
        """Return the standard deviation of uᵀAu."""
        i, j = self._upper
        form = np.where(i == j, 1.0, 2.0) * u[i] * u[j]
        variance = form @ self.covariance[: len(form), : len(form)] @ form
        return float(np.sqrt(max(float(variance), 0.0)))

    def score_covariance(self, theta: FloatArray) -> FloatArray:
        """Return the covariance of b − Aθ, shape (d, d)."""
        form = self._form(np.eye(self.term_count), theta)
        covariance: FloatArray = form @ self.covariance @ form.T
        return covariance

    def _form(self, P: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the matrix by which Pᵀ(b − Aθ) follows from the entries."""
        i, j = self._upper
        weights = P[i] * theta[j][:, None] + (i != j)[:, None] * P[j] * theta[i][:, None]
        form: FloatArray = np.hstack([-weights.T, P.T])
        return form

    def _see(self, spread: FloatArray, surprise: FloatArray, expected: FloatArray, variances: FloatArray) -> None:
        gain = np.linalg.solve(expected + np.diag(variances), spread.T).T
        self.mean = self.mean + gain @ surprise
        covariance = self.covariance - gain @ spread.T
        self.covariance = (covariance + covariance.T) / 2
