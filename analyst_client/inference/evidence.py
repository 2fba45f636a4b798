"""Evidence of releases for a Bayesian regression: noisy moments of one target, from one hospital or several."""

import math
from dataclasses import dataclass, replace

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site

UNKNOWN_VARIANCE = 1e30  # of a yᵀy that was not released: so large that it says nothing


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy sufficient statistics of one release and one target, in the release's own scaled units.

    Attributes
    ----------
    xtx : ndarray of shape (D, D)
        Symmetric.
    xty : ndarray of shape (D,)
    yty : float
        Anything where `yty_variance` is infinite.
    xtx_variance : ndarray of shape (D, D)
        Of the noise, one draw per unordered pair; symmetric. Zero where an entry is exact.
    xty_variance : ndarray of shape (D,)
    yty_variance : float
        Infinite where yᵀy was not released.
    constant : bool
        Whether the first term is the constant.
    rows : float or None
        The number of rows; too small a number errs on the safe side. None: it is the constant's own noisy diagonal
        entry, under row weights the sum of their squares.
    weight : float
        Of the release in the sum of several; see `analyst_client.inference.pooling.pool`.
    weight_slope : float
        How fast the weight grows with the release's own noisy count; see `Equations.xtx`.
    to_common : ndarray of shape (D + 1, D + 1) or None
        P: terms and target in the units of the evidence are P times the release's own. None: they are the same.
    overlap : int
        How many releases of the fit are of the same people, this one included.

    Raises
    ------
    ValueError
        When shapes differ, a variance is negative, or `rows` is not positive, or absent as the constant is.
    """

    xtx: FloatArray
    xty: FloatArray
    yty: float
    xtx_variance: FloatArray
    xty_variance: FloatArray
    yty_variance: float
    constant: bool = True
    rows: float | None = None
    weight: float = 1.0
    weight_slope: float = 0.0
    to_common: FloatArray | None = None
    overlap: int = 1

    def __post_init__(self) -> None:
        """Check shapes and signs."""
        d = len(self.xty)
        if self.xtx.shape != (d, d) or self.xtx_variance.shape != (d, d) or self.xty_variance.shape != (d,):
            raise ValueError(f"xtx and its variance must have shape {(d, d)}, the variance of xty {(d,)}")
        if not all(np.all(of >= 0.0) for of in (self.xtx_variance, self.xty_variance, np.array(self.yty_variance))):
            raise ValueError("variances must not be negative")
        if self.rows is None and not self.constant:
            raise ValueError("without a constant term `rows` must say how many rows there are")
        if self.rows is not None and not (math.isfinite(self.rows) and self.rows > 0.0):
            raise ValueError(f"rows must be finite and positive, not {self.rows!r}")

    @property
    def counted(self) -> bool:
        """True if the constant's own noisy diagonal entry counts the rows."""
        return self.rows is None

    @property
    def noisy_rows(self) -> float:
        """The number of rows, as far as it is known."""
        return float(self.xtx[0, 0]) if self.rows is None else self.rows

    @property
    def rows_variance(self) -> float:
        """Variance of the noise in the number of rows."""
        return float(self.xtx_variance[0, 0]) if self.counted else 0.0

    @property
    def positive_rows(self) -> float:
        """The number of rows, at least as many as the noise in it."""
        return max(self.noisy_rows, math.sqrt(self.rows_variance), 1e-9)

    @property
    def noisy(self) -> FloatArray:
        """The noisy (X, y)ᵀ(X, y), of shape (D + 1, D + 1)."""
        return bordered(self.xtx, self.xty, self.yty if math.isfinite(self.yty_variance) else 0.0)

    @property
    def variance(self) -> FloatArray:
        """Variances of its noise, of shape (D + 1, D + 1)."""
        return bordered(self.xtx_variance, self.xty_variance, min(self.yty_variance, UNKNOWN_VARIANCE))

    @property
    def place(self) -> FloatArray:
        """P, of shape (D + 1, D + 1)."""
        return np.eye(len(self.xty) + 1) if self.to_common is None else self.to_common


@dataclass(frozen=True, eq=False)
class Evidence:
    r"""All that is known of one target.

    Attributes
    ----------
    moments : tuple of NoisyMoments
        One of each hospital's release.
    public : tuple of ndarray, of shapes (D, D) and (D,), or None
        What public rows say of the coefficients: a likelihood
        :math:`\exp(-\tfrac12\theta^\top I\theta + h^\top\theta)`, as I and h.
    units : ndarray of shape (D + 1, D + 1) or None
        P: terms and target in the units of the fit are P times those of the evidence. None: they are the same.

    Notes
    -----
    The units of the evidence are those of the release that tells most. Priors are about scaled terms and targets, and
    those of the fit span the widest bounds of all releases: one hospital that tells hardly anything, and declares its
    bounds far too wide, would make a coefficient of 1 in them an enormous one.
    """

    moments: tuple[NoisyMoments, ...]
    public: tuple[FloatArray, FloatArray] | None = None
    units: FloatArray | None = None

    @property
    def constant(self) -> bool:
        """True if the first term is the constant."""
        return self.moments[0].constant

    @classmethod
    def of(cls, equations: Equations) -> "Evidence":
        """Read the releases of a fit.

        Raises
        ------
        EstimationError
            When a release states no noise, or does not tell how many rows it has, or some have yᵀy and others not, or
            the target took part in the weights of rows.
        """
        equations.check_unbiased()
        hospitals = equations if equations.hospitals is None else equations.hospitals
        _ = equations.rows  # says what is missing
        slopes = np.zeros(len(hospitals.sites)) if hospitals.slopes is None else hospitals.slopes
        moments = tuple(
            _moments(equations, site, float(weight), float(slope))
            for site, weight, slope in zip(hospitals.sites, hospitals.weights, slopes, strict=True)
            if weight > 0.0
        )
        if len({math.isinf(of.yty_variance) for of in moments}) > 1:
            raise EstimationError("some releases hold yᵀy and some do not: fit on those that do, or on the others")
        if not moments:
            raise EstimationError("no release tells of any row: the noise outweighs the data")
        units = max(moments, key=lambda of: of.weight * of.noisy_rows).place
        placed = tuple(replace(of, to_common=_relative(of.place, units)) for of in moments)
        known = None if equations.hospitals is None else _public(equations, units)
        return cls(placed, known, _relative(units, np.eye(len(units))))


def _relative(place: FloatArray, units: FloatArray) -> FloatArray | None:
    """Return what takes a release's own terms and target to other units than the fit's; None where they are these."""
    if np.array_equal(place, units):
        return None
    return np.asarray(np.linalg.solve(units, place), dtype=np.float64)


def _public(equations: Equations, units: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return I and h of the public rows: with :math:`\theta = T^{-\top}(r\beta + qe_0)`, in the units of β."""
    public = [(site, site.variance) for site in equations.sites if site.variance is not None]
    information = np.sum([site.xtx / variance for site, variance in public], axis=0)
    vector = np.sum([site.xty / variance for site, variance in public], axis=0)
    to_fit = np.linalg.inv(units[:-1, :-1]).T
    shift, r = to_fit[:, 0] * units[-1, 0], units[-1, -1]
    return r**2 * to_fit.T @ information @ to_fit, r * to_fit.T @ (vector - information @ shift)


def bordered(matrix: FloatArray, vector: FloatArray, corner: float) -> FloatArray:
    """Return a matrix with a row and a column more."""
    d = len(vector)
    found = np.empty((d + 1, d + 1))
    found[:d, :d], found[:d, d], found[d, :d], found[d, d] = matrix, vector, vector, corner
    return found


def _moments(equations: Equations, site: Site, weight: float, slope: float) -> NoisyMoments:
    release, law = site.release, site.law
    t = release.target_names.index(equations.target.name)
    assert release.xtx is not None  # `pool` has looked
    assert release.xty is not None
    known = release.yty is not None and law.yty is not None
    place = bordered(site.to_common, np.zeros(len(site.xty)), site.target_scale)
    place[-1, 0] = site.target_shift
    return NoisyMoments(
        np.pad(release.xtx, (0, site.gaps)),
        np.pad(release.xty[:, t], (0, site.gaps)),
        float(release.yty[t]) if release.yty is not None else 0.0,
        law.xtx,
        law.xty,
        float(law.yty) if known and law.yty is not None else math.inf,
        constant=release.has_constant,
        rows=None if release.has_constant else max(float(site.rows or 0.0), 1.0),
        weight=weight,
        weight_slope=slope,
        to_common=None if np.array_equal(place, np.eye(len(place))) else place,
        overlap=site.overlap,
    )
