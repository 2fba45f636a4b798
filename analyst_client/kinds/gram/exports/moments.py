"""Moments of a release in raw units: number of rows, means and covariances, if they can be those of rows at all."""

from typing import NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.statistics import NoisyStatistics
from analyst_client.schema.columns import Term
from analyst_client.schema.row_maps import row_map_named

SINGULAR = 1e-10
"""Packages take terms for collinear from about here, as the smallest eigenvalue of their correlations."""
FLOOR = 1e-6
"""Smallest eigenvalue after a projection, as a share of the largest one: packages invert the matrix."""


class RawMoments(NamedTuple):
    """Moments of P variables, the terms beside the constant and then the target, in raw units.

    `covariances` are centred sums over `whole_rows` − 1, the rounded number of `rows`; `smallest` is their smallest
    eigenvalue as they were released, in scaled units, where they were projected.
    """

    variables: tuple[Term, ...]
    rows: float
    whole_rows: int
    means: FloatArray
    covariances: FloatArray
    smallest: float | None

    @property
    def sums(self) -> FloatArray:
        """Sums of squares and products, the intercept first, of shape (1 + P, 1 + P)."""
        means = np.concatenate([[1.0], self.means])
        sums = self.rows * np.outer(means, means)
        sums[1:, 1:] += (self.whole_rows - 1) * self.covariances
        return sums


def raw_moments(statistics: NoisyStatistics, row_map: str | None, *, nearest: bool) -> RawMoments:
    r"""Compute the moments of a release of one target; `nearest` takes the nearest covariances where these are none.

    A product is what a fit's coefficient is of: of raw values where the model has its parts. Raise `ValueError` when
    the release lacks what this needs, or its noise hides it.

    Notes
    -----
    With :math:`\beta = L\theta` the coefficients in raw units, :math:`z^\top\theta = x^\top\beta` for every θ says that
    the raw values are :math:`x = L^{-\top}z`. Centred sums are computed in scaled units, where rounding loses less.

    The nearest matrix keeps n and the means: with these as they were released, the distance of XᵀX, Xᵀy and yᵀy in
    scaled units is that of the centred sums, and the nearest of them with no eigenvalue below a floor has the same
    eigenvectors [1]_.

    References
    ----------
    .. [1] N. Higham, "Computing a nearest symmetric positive semidefinite matrix", Linear Algebra and its Applications
       103, 1988.
    """
    check_exportable(statistics, row_map)
    assert statistics.xtx is not None
    assert statistics.xty is not None
    assert statistics.yty is not None
    d = len(statistics.terms)
    rows = float(statistics.xtx[0, 0])
    whole_rows = round(rows)
    if whole_rows <= d:
        raise ValueError(
            f"the release tells of {rows:.1f} rows, too few for {d} coefficients: a larger price lowers the noise, "
            "and fewer terms need fewer rows"
        )
    matrix = np.block([[statistics.xtx, statistics.xty], [statistics.xty.T, np.diag(statistics.yty)]])
    centred = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / rows
    smallest = None
    if not is_covariance(centred):
        smallest = float(np.linalg.eigvalsh(centred)[0]) / rows
        if not nearest:
            raise ValueError(
                "the noisy moments are no covariance matrix: the noise outweighs the data in some direction, or terms "
                "are collinear. A larger price lowers the noise; fewer terms may do, release.select([…]).export(…), at "
                "no cost; or nearest=True takes the nearest covariance matrix"
            )
        centred = project(centred)
    target = statistics.targets[0]
    L, _ = raw_units(statistics.terms, Term("", "numeric"), row_map)
    to_raw = np.zeros((d + 1, d + 1))
    to_raw[:d, :d] = np.linalg.inv(L).T
    to_raw[d, [0, d]] = target.center, target.scale
    means = to_raw[1:] @ np.concatenate([[1.0], matrix[0, 1:] / rows])
    covariances = to_raw[1:, 1:] @ centred @ to_raw[1:, 1:].T / (whole_rows - 1)
    symmetric = (covariances + covariances.T) / 2.0
    return RawMoments((*statistics.terms[1:], target), rows, whole_rows, means, symmetric, smallest)


def check_exportable(statistics: NoisyStatistics, row_map: str | None) -> None:
    """Raise `ValueError` for a release that has no moments of one target, with what would have worked."""
    if row_map_named(row_map).divides_terms:
        raise ValueError(
            f"{row_map_named(row_map).division}: sums of them are no moments of the columns. "
            "Ask for rows='box' or rows='ball'"
        )
    if statistics.combined:
        raise ValueError(
            "an export is of terms, and the release is of combinations of these: ask for the terms themselves"
        )
    if not statistics.has_constant:
        raise ValueError(
            "without a constant the release tells neither how many rows there are nor their means: ask with "
            "intercept=True"
        )
    if len(statistics.terms) == 1:
        raise ValueError("an export needs a term beside the constant")
    if len(statistics.targets) != 1:
        names = ", ".join(statistics.target_names)
        beside = f"the target, one of {names}" if names else "a feature as the target"
        raise ValueError(f"an export is of one target: release.select(target=…).export(…) takes {beside}")
    held = {"xtx": statistics.xtx, "xty": statistics.xty, "yty": statistics.yty}
    if lacking := [name for name, values in held.items() if values is None]:
        raise ValueError(
            f"the release lacks {' and '.join(lacking)}, and an export needs the moments of the target: ask for "
            "statistics=['xtx', 'xty', 'yty']"
        )


def is_covariance(matrix: FloatArray) -> bool:
    """Return whether a symmetric matrix is positive definite, in a way that no unit of a variable changes.

    Examples
    --------
    >>> is_covariance(np.diag([1.0, 1e-9])), is_covariance(np.ones((2, 2)))
    (True, False)
    """
    squares = np.diag(matrix)
    if not (squares > 0.0).all():
        return False
    roots = np.sqrt(squares)
    return bool(np.linalg.eigvalsh(matrix / np.outer(roots, roots))[0] > SINGULAR)


def project(matrix: FloatArray) -> FloatArray:
    """Return the nearest symmetric matrix whose eigenvalues are at least a share `FLOOR` of the largest.

    Raise `ValueError` when no eigenvalue is positive.

    Examples
    --------
    >>> project(np.array([[1.0, 2.0], [2.0, 1.0]])).round(2).tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """
    eigenvalues, vectors = np.linalg.eigh(matrix)
    if eigenvalues[-1] <= 0.0:
        raise ValueError("the noise hides how any term varies: only a larger price helps, no projection")
    kept: FloatArray = (vectors * np.maximum(eigenvalues, FLOOR * eigenvalues[-1])) @ vectors.T
    return kept
