"""Principal components of a Gram, and how sure their directions are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analyst_client.analyses.moments import Moments
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, percent, table
from analyst_client.errors import EstimationError
from analyst_client.inference.summary import number
from analyst_client.kinds.gram.release import Release

STABLE_DEGREES = 20.0


@dataclass(frozen=True, eq=False)
class PrincipalComponents(Displayable):
    """Directions in which variables vary most.

    Attributes
    ----------
    term_names : tuple of str
    components : ndarray of shape (K, K)
        One direction per row, the largest weight positive.
    explained_variance : ndarray of shape (K,)
        Largest first; below 0 where the noise hides it.
    explained_variance_ratio : ndarray of shape (K,)
    std_error : ndarray of shape (K,)
        Of each variance: sampling error for normal rows, and the noise.
    angle : ndarray of shape (K,)
        Degrees that a direction is off in the root of the mean square, to first order; 90 where it says nothing.
    privacy_share : ndarray of shape (K,)
        Share of the privacy noise in the square of that angle.
    notes : tuple of str
        Caveats of weighted rows and of parts of a release.

    Examples
    --------
    >>> from analyst_client.analyses import principal_components
    >>> from analyst_client.tutorial import exact_release
    >>> found = principal_components(exact_release())
    >>> found.explained_variance_ratio.round(2).tolist(), found.stable.tolist()
    ([0.42, 0.3, 0.16, 0.11], [True, True, True, True])
    """

    term_names: tuple[str, ...]
    components: FloatArray
    explained_variance: FloatArray
    explained_variance_ratio: FloatArray
    std_error: FloatArray
    angle: FloatArray
    privacy_share: FloatArray
    notes: tuple[str, ...] = ()

    @property
    def stable(self) -> NDArray[np.bool_]:
        """True for each direction that is known to about 20 degrees, of shape (K,)."""
        return self.angle < STABLE_DEGREES

    def _view(self) -> View:
        heads = ("component", "variance", "std err", "share", "angle", "privacy", *self.term_names)
        rows = [
            (
                str(k + 1),
                number(float(self.explained_variance[k])),
                number(float(self.std_error[k])),
                percent(float(self.explained_variance_ratio[k])),
                f"{self.angle[k]:.0f}°",
                f"{self.privacy_share[k]:.0%}",
                *(number(float(weight)) for weight in self.components[k]),
            )
            for k in range(len(self.components))
        ]
        stable = int(np.argmin([*self.stable, False]))
        said = f"Stable are the first {stable} of {len(rows)} directions" if stable else "No direction is stable"
        note = (
            f"{said}: off by less than {STABLE_DEGREES:.0f} degrees by privacy noise and sampling error, that of the "
            "covariance of normal rows. Others mix with those of similar variance."
        )
        return (
            table("Principal components", heads, rows, numeric=range(1, len(heads))),
            Note(note),
            *map(Note, self.notes),
        )

    __repr__ = Displayable.__str__


def principal_components(
    release: Release, columns: Sequence[str] | None = None, *, standardize: bool = True
) -> PrincipalComponents:
    r"""Find the principal components of variables, and how far their directions may be off.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    columns : sequence of str, optional
        Features or terms. Default all features.
    standardize : bool
        Whether variables are divided by their standard deviations: components of the correlation matrix. False: of the
        covariance matrix in raw units.

    Returns
    -------
    PrincipalComponents
        Points, with a statement of stability.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or the noise hides how a variable varies.
    ValueError
        When there is no such variable.

    Notes
    -----
    To first order a direction :math:`u_k` moves by :math:`u_l(u_l^\top dS\,u_k)/(\lambda_k - \lambda_l)` for each
    other one [1]_. dS is the noise, whose variance in each product is known, and the sampling error, for normal rows
    :math:`\lambda_k\lambda_l/n`; the angle is the root of the sum of their squares.

    References
    ----------
    .. [1] T. Anderson, "Asymptotic theory for principal component analysis", Annals of Mathematical Statistics 34,
       1963.

    Examples
    --------
    >>> X = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 2.0, 4.0]])
    >>> principal_components(Release.from_arrays(X.T @ X)).explained_variance.round(3).tolist()
    [1.832, 0.168]
    """
    moments = Moments.of(release)
    chosen = list(range(1, len(release.terms))) if columns is None else moments.indices(list(columns))
    if not chosen:
        raise EstimationError("there is no variable to find components of")
    products = moments.residual_products([0], chosen)
    dof = moments.rows - 1.0
    S, forms = products.values / dof, [[form / dof for form in row] for row in products.forms]
    variances = np.diag(S)
    if standardize and not np.all(variances > 0.0):
        raise EstimationError("the noise hides how a variable varies, so that it cannot be standardised")
    scale = 1.0 / np.sqrt(variances) if standardize else np.array([moments.variables[j].scale for j in chosen])
    S = S * np.outer(scale, scale)
    eigenvalues, vectors = np.linalg.eigh(S)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(chosen))])
    vectors = vectors * np.where(signs == 0.0, 1.0, signs)
    scaled = [[forms[i][j] * scale[i] * scale[j] for j in range(len(chosen))] for i in range(len(chosen))]
    if standardize:
        scaled = [
            [scaled[i][j] - S[i, j] / 2.0 * (scaled[i][i] + scaled[j][j]) for j in range(len(chosen))]
            for i in range(len(chosen))
        ]
    stacked = np.array(scaled)
    positive = np.maximum(eigenvalues, 0.0)
    squares, noise_squares, errors = np.zeros(len(chosen)), np.zeros(len(chosen)), np.zeros(len(chosen))
    for k in range(len(chosen)):
        along = np.einsum("i,ijpq->jpq", vectors[:, k], stacked)
        for other in range(len(chosen)):
            form = np.einsum("j,jpq->pq", vectors[:, other], along)
            noise = moments.covariance(form, form)
            if other == k:
                errors[k] = math.sqrt(2.0 * positive[k] ** 2 / dof + noise)
                continue
            gap = eigenvalues[k] - eigenvalues[other]
            gap_squared = max(gap**2, 1e-300)
            squares[k] += (positive[k] * positive[other] / dof + noise) / gap_squared
            noise_squares[k] += noise / gap_squared
    angle = np.minimum(np.degrees(np.sqrt(squares)), 90.0)
    share = np.where(squares > 0.0, noise_squares / np.where(squares > 0.0, squares, 1.0), 0.0)
    names = tuple(moments.variables[j].name for j in chosen)
    ratio = eigenvalues / float(np.sum(eigenvalues))
    return PrincipalComponents(names, vectors.T, eigenvalues, ratio, errors, angle, share, moments.notes)
