"""Intervals for the mean of a target at new rows, and for new values of it."""

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.inference.base import Results
from analyst_client.inference.equations import SCALE_POINTS
from analyst_client.inference.quantiles import student_quantile, student_tails, variance_points
from analyst_client.inference.results import TargetResults, project_each
from analyst_client.inference.score import critical_value


def mean_intervals(results: Results, rows: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return centers and half lengths of intervals for the mean at scaled rows, each of shape (n,), scaled units."""
    if isinstance(results, TargetResults):
        equations = results.equations.hospitals or results.equations  # a prediction is a sum of coefficients
        kurtosis, spreads = equations.excess_kurtosis(rows), equations.spreads(rows)
        sets = project_each(equations, rows, critical_value(level, results.dof, kurtosis, spreads))
    else:
        sets = results.contrast_sets(rows, np.zeros(len(rows)), level)
    low, high = np.array([one.hull for one in sets]).reshape(-1, 2).T
    bounded = np.isfinite(low)
    center = np.where(bounded, np.where(bounded, low, 0.0) + np.where(bounded, high - low, 0.0) / 2.0, np.nan)
    return center, (high - low) / 2.0


def value_intervals(results: TargetResults, rows: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    r"""Return centers and half lengths of intervals for new values at scaled rows, each of shape (n,), scaled units.

    Notes
    -----
    With the standard error e of the mean (half its interval over Student's quantile) and the residual variance s², a
    new value is off the center by :math:`\sqrt{e^2 + s^2}` times a Student variable. The privacy noise leaves s²
    uncertain: it is taken as normal around its estimate, given that it is positive, and the half length h solves
    :math:`E\,P(|T| > h/\sqrt{e^2 + s^2}) = 1 - \mathrm{level}`. Without noise that is the textbook's interval.
    """
    _ = results.scale  # says so where a release does not tell it
    center, half = mean_intervals(results, rows, level)
    dof, variances = results.dof, variance_points(*results.equations.residual_variance, SCALE_POINTS)
    quantile = student_quantile((1.0 - level) / 2.0, dof)
    deviations = np.sqrt((half[:, np.newaxis] / quantile) ** 2 + variances)
    low, high = quantile * deviations.min(axis=1), quantile * deviations.max(axis=1)
    bounded = np.isfinite(high)
    low, high, deviations = low[bounded], high[bounded], deviations[bounded]
    for _ in range(60):  # bisection: the tail is monotone in h
        middle = (low + high) / 2.0
        above = 2.0 * np.mean(student_tails(middle[:, np.newaxis] / deviations, dof), axis=1) > 1.0 - level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
        if np.all(high - low <= 1e-12 * high):
            break
    found = np.full(len(rows), np.inf)
    found[bounded] = high
    return center, found
