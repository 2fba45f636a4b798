"""How near a private fit is to the one without privacy, coefficient by coefficient."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Inferred:
    """What a fit says of its P coefficients.

    Attributes
    ----------
    values, pvalues : ndarray of shape (P,)
    intervals : ndarray of shape (P, 2)
        95 %; infinite where an end is unbounded.
    """

    values: Floats
    intervals: Floats
    pvalues: Floats


def overlap(first: Floats, second: Floats) -> Floats:
    """Return how much two intervals have in common, after Karr and others (2006): 1 if equal, 0 if apart.

    The length of what they share, over that of the one and over that of the other, in the mean of both. An interval
    without an end shares nothing of its own length.

    Parameters
    ----------
    first, second : ndarray of shape (..., 2)

    Examples
    --------
    >>> overlap(np.array([0.0, 2.0]), np.array([1.0, 2.0])).tolist()
    0.75
    """
    shared = np.minimum(first[..., 1], second[..., 1]) - np.maximum(first[..., 0], second[..., 0])
    shared = np.maximum(shared, 0.0)
    found: Floats = (_part(shared, first) + _part(shared, second)) / 2.0
    return found


def _part(shared: Floats, interval: Floats) -> Floats:
    length = interval[..., 1] - interval[..., 0]
    endless = np.isinf(length)
    part: Floats = np.where(endless, np.where(np.isinf(shared), 1.0, 0.0), np.where(endless, 0.0, shared) / length)
    return part


def relative_length(private: Floats, plain: Floats) -> Floats:
    """Return how many times as long private intervals are; infinite where one has no end."""
    found: Floats = (private[..., 1] - private[..., 0]) / (plain[..., 1] - plain[..., 0])
    return found


def holds(intervals: Floats, values: Floats | float) -> Flags:
    """Tell whether intervals hold values."""
    found: Flags = (intervals[..., 0] <= values) & (values <= intervals[..., 1])
    return found


def same_conclusion(private: Inferred, plain: Inferred) -> Flags:
    """Tell whether the sign is the one without privacy, and the interval holds zero if that one does."""
    same_sign = np.sign(private.values) == np.sign(plain.values)
    found: Flags = same_sign & (holds(private.intervals, 0.0) == holds(plain.intervals, 0.0))
    return found


def significantly_wrong(private: Inferred, plain: Inferred) -> Flags:
    """Tell whether the sign is not the one without privacy, and p is below 0.05 all the same."""
    found: Flags = (np.sign(private.values) != np.sign(plain.values)) & (private.pvalues < 0.05)
    return found


@dataclass(frozen=True)
class Proportion:
    """A mean over releases, with its Monte-Carlo standard error.

    Examples
    --------
    >>> print(Proportion.of([1.0, 1.0, 0.0, 1.0]))
    0.750 ± 0.250
    """

    value: float
    error: float

    @classmethod
    def of(cls, releases: Iterable[float]) -> "Proportion":
        """Average over releases, each with one number: that of a coefficient, or its mean over several."""
        found = np.array(list(releases), dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error)

    def __str__(self) -> str:
        """Show both."""
        return f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Agreement:
    """Metrics of K releases against the one fit without privacy: arrays of shape (K, P), or (K,) for the model."""

    shift: Floats
    """Private less plain value, in standard errors of the plain one."""
    length: Floats
    overlap: Floats
    sign: Flags
    conclusion: Flags
    covered: Flags
    wrong: Flags

    @classmethod
    def of(cls, private: list[Inferred], plain: Inferred, std_errors: Floats) -> "Agreement":
        """Compare each release."""
        values = np.array([one.values for one in private])
        intervals = np.array([one.intervals for one in private])
        return cls(
            (values - plain.values) / std_errors,
            relative_length(intervals, plain.intervals),
            overlap(intervals, plain.intervals),
            np.sign(values) == np.sign(plain.values),
            np.array([same_conclusion(one, plain) for one in private]),
            holds(intervals, plain.values),
            np.array([significantly_wrong(one, plain) for one in private]),
        )
