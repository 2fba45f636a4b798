"""Paths of the lasso and of the elastic net on a Gram: points, without intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyst_client.analyses.moments import Moments
from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, table
from analyst_client.errors import EstimationError
from analyst_client.inference.pooling import pool
from analyst_client.inference.summary import number
from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.release import Release

SWEEPS_MAX = 100_000
TOLERANCE = 1e-14
NOTE = (
    "Points, without intervals: which terms are chosen depends on sampling and on privacy noise. Tests of the "
    "chosen ones hold on another release."
)


@dataclass(frozen=True, eq=False)
class ElasticNetPath(Displayable):
    """Coefficients along a path of penalties.

    Attributes
    ----------
    alphas : ndarray of shape (L,)
        Penalties, the largest first, in scaled units.
    l1_ratio : float
    coef : ndarray of shape (L, D')
        Raw units.
    intercept : ndarray of shape (L,)
    term_names : tuple of str
    target : str
    notes : tuple of str
        Caveats of weighted rows and of parts of a release.

    Examples
    --------
    >>> from analyst_client.analyses import enet_path
    >>> from analyst_client.tutorial import exact_release
    >>> path = enet_path(exact_release(), alphas=[0.1, 0.01], l1_ratio=0.5)
    >>> path.term_names, path.coef.round(2).tolist()
    (('age', 'sex[M]', 'creatinine', 'lambda'), [[0.0, 0.0, 0.0, 0.07], [0.01, 0.0, 0.25, 0.6]])
    """

    alphas: FloatArray
    l1_ratio: float
    coef: FloatArray
    intercept: FloatArray
    term_names: tuple[str, ...]
    target: str
    notes: tuple[str, ...] = ()

    def _view(self) -> View:
        heads = ("alpha", "terms", *self.term_names)
        rows = [
            (number(float(alpha)), str(int(np.count_nonzero(coef))), *(number(float(value)) for value in coef))
            for alpha, coef in zip(self.alphas, self.coef, strict=True)
        ]
        title = f"{self.target} by the lasso" if self.l1_ratio == 1.0 else f"{self.target} by the elastic net"
        return (table(title, heads, rows, numeric=range(len(heads))), Note(NOTE), *map(Note, self.notes))

    __repr__ = Displayable.__str__


def lasso_path(
    release: Release,
    target: str | None = None,
    alphas: Sequence[float] | None = None,
    *,
    features: Sequence[str] | None = None,
) -> ElasticNetPath:
    """Fit the lasso along a path of penalties; see `enet_path`.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy.
    target : str, optional
        A target, or a numeric or boolean feature; needed where there are several targets.
    alphas : sequence of float, optional
        Penalties. Default 100, from the smallest at which no term is chosen to a thousandth of it.
    features : sequence of str, optional
        Columns that explain. Default all but the target.

    Returns
    -------
    ElasticNetPath
        Points, in raw units.

    Raises
    ------
    EstimationError
        When the release lacks what this needs.
    ValueError
        When it is not said which target, or a penalty is not positive.

    Examples
    --------
    >>> X, y = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0]]), np.array([1.0, 0.0, 2.0, 4.0])
    >>> lasso_path(Release.from_arrays(X.T @ X, X.T @ y, y @ y), alphas=[0.1]).coef.round(3).tolist()
    [[1.02]]
    """
    return enet_path(release, target, alphas, l1_ratio=1.0, features=features)


def enet_path(
    release: Release,
    target: str | None = None,
    alphas: Sequence[float] | None = None,
    *,
    l1_ratio: float = 0.5,
    features: Sequence[str] | None = None,
) -> ElasticNetPath:
    r"""Fit the elastic net along a path of penalties, by coordinate descent on the Gram.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy.
    target : str, optional
        A target, or a numeric or boolean feature; needed where there are several targets.
    alphas : sequence of float, optional
        Penalties. Default 100, from the smallest at which no term is chosen to a thousandth of it.
    l1_ratio : float
        Share of the absolute penalty, in (0, 1].
    features : sequence of str, optional
        Columns that explain. Default all but the target.

    Returns
    -------
    ElasticNetPath
        Points, in raw units.

    Raises
    ------
    EstimationError
        When the release lacks what this needs.
    ValueError
        When it is not said which target, or `l1_ratio` or a penalty is out of range.

    Notes
    -----
    Minimises :math:`\theta^\top S\theta/2n - s^\top\theta/n + \alpha\rho|\theta|_1 + \alpha(1-\rho)|\theta|_2^2/2` over
    scaled slopes, S and s the centred sums: scikit-learn's objective, for columns scaled as in the release. Where noise
    left S with negative eigenvalues there is no minimum: S is replaced by the nearest matrix [1]_ whose eigenvalues are
    at least the deviation of the noise in an entry.

    References
    ----------
    .. [1] A. Datta, H. Zou, "CoCoLasso for high-dimensional error-in-variables regression", Annals of Statistics 45,
       2017.

    Examples
    --------
    >>> X, y = np.column_stack([np.ones(4), [0.0, 1.0, 2.0, 3.0]]), np.array([1.0, 0.0, 2.0, 4.0])
    >>> enet_path(Release.from_arrays(X.T @ X, X.T @ y, y @ y), alphas=[0.1]).coef.round(3).tolist()
    [[1.019]]
    """
    if not 0.0 < l1_ratio <= 1.0:
        raise ValueError(f"l1_ratio must be in (0, 1], not {l1_ratio!r}")
    pooled = pool(release, target, None, features)
    if len(pooled) > 1:
        raise ValueError("a path is of one target: say which")
    (equations,) = pooled
    moments = Moments.of(equations.sites[0].release)
    rows = moments.rows
    xtx, xty = equations.xtx, equations.xty
    mean, center = xtx[0, 1:] / rows, xty[0] / rows
    noise = math.sqrt(moments.variances[0, 1]) / rows if len(mean) else 0.0
    S = nearest_definite(xtx[1:, 1:] / rows - np.outer(mean, mean), noise)
    s = xty[1:] / rows - mean * center
    if not len(s):
        raise EstimationError("there is no term beside the constant")
    path = _penalties(s, l1_ratio) if alphas is None else np.sort(np.asarray(alphas, dtype=np.float64))[::-1]
    if not (len(path) and np.all(path > 0.0) and np.all(np.isfinite(path))):
        raise ValueError("alphas must be finite and positive")
    theta, slopes = np.zeros(len(s)), []
    for alpha in path:
        theta = descend(S, s, float(alpha) * l1_ratio, float(alpha) * (1.0 - l1_ratio), theta)
        slopes.append(theta)
    coefficients = np.array(slopes)
    whole = np.column_stack([center - coefficients @ mean, coefficients])
    L, offsets = raw_units(equations.terms, equations.target, equations.row_map)
    raw = whole @ L.T + offsets
    names = tuple(term.name for term in equations.terms[1:])
    return ElasticNetPath(path, l1_ratio, raw[:, 1:], raw[:, 0], names, equations.target.name, moments.notes)


def _penalties(s: FloatArray, l1_ratio: float) -> FloatArray:
    largest = max(float(np.max(np.abs(s))) / l1_ratio, 1e-300)
    path: FloatArray = largest * np.logspace(0.0, -3.0, 100)
    return path


def nearest_definite(S: FloatArray, least: float) -> FloatArray:
    """Return the matrix if it has no negative eigenvalue, and else with all of them `least` at least."""
    eigenvalues, vectors = np.linalg.eigh(S)
    if eigenvalues[0] >= -1e-12 * eigenvalues[-1]:
        return S
    nearest: FloatArray = (vectors * np.maximum(eigenvalues, least)) @ vectors.T
    return nearest


def descend(S: FloatArray, s: FloatArray, absolute: float, square: float, start: FloatArray) -> FloatArray:
    r"""Minimise :math:`\theta^\top S\theta/2 - s^\top\theta + a|\theta|_1 + b|\theta|_2^2/2`, coordinate by coordinate.

    Examples
    --------
    >>> descend(np.eye(2), np.array([1.0, 0.05]), 0.1, 0.0, np.zeros(2)).tolist()
    [0.9, 0.0]
    """
    theta, gradient = start.copy(), s - S @ start
    size = max(float(np.max(np.abs(s))), 1e-300)
    for _ in range(SWEEPS_MAX):
        moved = 0.0
        for j in range(len(theta)):
            curvature = S[j, j] + square
            if curvature <= 0.0:
                continue
            pull = gradient[j] + S[j, j] * theta[j]
            new = math.copysign(max(abs(pull) - absolute, 0.0), pull) / curvature
            step = new - theta[j]
            if step != 0.0:
                gradient -= step * S[:, j]
                theta[j] = new
                moved = max(moved, abs(step) * curvature)
        if moved <= TOLERANCE * size:
            return theta
    raise EstimationError("coordinate descent did not converge: terms are nearly collinear; take larger penalties")
