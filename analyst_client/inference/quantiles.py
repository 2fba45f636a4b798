"""Distribution functions. scipy is imported when the first is called, so that importing the client stays quick."""

import numpy as np

from analyst_client.arrays import FloatArray


def student_quantile(upper_tail: float, dof: float) -> float:
    """Return the value that Student's t exceeds with the given probability.

    Examples
    --------
    >>> round(student_quantile(0.025, 10.0), 3)
    2.228
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(-special.stdtrit(dof, upper_tail))


def f_tail(value: float, constraints: float, dof: float) -> float:
    """Return the probability that F exceeds a value.

    Examples
    --------
    >>> round(f_tail(4.10, 2, 10.0), 3)
    0.05
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(special.fdtrc(constraints, dof, value))


def student_tails(values: FloatArray, dof: float) -> FloatArray:
    """Return the probability that Student's t exceeds each value."""
    from scipy import special  # noqa: PLC0415 -- see the module

    tails: FloatArray = special.stdtr(dof, -values)
    return tails


def chi2_quantile(lower_tail: float, dof: float) -> float:
    """Return the value below which a χ² variable stays with the given probability.

    Examples
    --------
    >>> round(chi2_quantile(0.95, 1.0), 3)
    3.841
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(special.chdtri(dof, 1.0 - lower_tail))


def chi2_tail(value: float, dof: float) -> float:
    """Return the probability that χ² exceeds a value.

    Examples
    --------
    >>> round(chi2_tail(3.841, 1.0), 3)
    0.05
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    return float(special.chdtrc(dof, value))


def variance_points(estimate: float, sd: float, count: int) -> FloatArray:
    """Return equally likely values of a residual variance that noise of a known deviation leaves uncertain.

    Those of a normal law around the estimate that is cut off at 0; around one deviation for an estimate below it, whose
    own law, so near 0, would forget that the true variance may well be twice the deviation.

    Examples
    --------
    >>> variance_points(-1.0, 1.0, 2).round(3).tolist(), variance_points(0.5, 0.0, 1).tolist()
    ([0.665, 1.805], [0.5])
    """
    return np.full(count, estimate) if sd == 0.0 else truncated_normal_points(max(estimate, sd), sd, count)


def truncated_normal_points(mean: float, sd: float, count: int) -> FloatArray:
    """Return equally likely points of a normal law that is cut off at 0.

    Examples
    --------
    >>> truncated_normal_points(1.0, 0.0, 3).tolist()
    [1.0, 1.0, 1.0]
    >>> truncated_normal_points(0.0, 1.0, 2).round(3).tolist()
    [0.319, 1.15]
    >>> truncated_normal_points(-100.0, 1.0, 2).round(4).tolist()
    [0.0029, 0.0139]
    """
    from scipy import special  # noqa: PLC0415 -- see the module

    if sd == 0.0:
        return np.full(count, mean)
    shares = (np.arange(count) + 0.5) / count
    if mean < -6.0 * sd:  # so far out the tail is exponential, and its share too small for a float's difference
        return -np.log1p(-shares) * sd**2 / -mean
    above = special.ndtr(mean / sd)
    tails = above * (1.0 - shares)
    points: FloatArray = np.maximum(mean - sd * special.ndtri(tails), 0.0)
    return points
