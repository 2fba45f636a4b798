"""Two-sample t test of a number by a boolean column, or by two levels of a category."""

from analyst_client.analyses.advice import fit_notes
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level

NOTE = (
    "One variance within all groups, as Student's test has it. Interval and p invert the score test (Fieller), privacy "
    "noise included."
)


@takes_level
def ttest_ind(
    release: Release,
    target: str,
    by: str,
    *,
    levels: tuple[str, str] | None = None,
    level: float = 0.95,
) -> EstimateTable:
    """Compare the mean of a number in two groups: Student's two-sample t test.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant, and Xᵀy and yᵀy of a target.
    target : str
        A target, or a numeric or boolean feature.
    by : str
        A boolean or categorical feature.
    levels : tuple of str, optional
        Two levels a and b, for the mean of a less that of b. Default the second less the first, of a column with two.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        One estimate, the difference, in raw units; its label is ``"a − b"``.

    Raises
    ------
    EstimationError
        When the release lacks what this needs, or the noise hides the groups.
    ValueError
        When there is no such column or level.

    Notes
    -----
    The contrast of two levels in the regression on the levels of `by` alone. Other levels take part in the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from analyst_client import Column
    >>> X = np.column_stack([np.ones(4), [0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 3.0, 5.0]])
    >>> columns = [Column.boolean("smoker", ("no", "yes")), "age"]
    >>> release = Release.from_arrays(X.T @ X, [[0.0]] * 3, [1.0], features=columns)
    >>> round(ttest_ind(release, "age", "smoker")["yes − no"].value, 3)
    2.5
    """
    column = next((column for column in release.features if column.name == by), None)
    if column is None or column.type == "numeric":
        raise ValueError(f"{by!r} is no boolean or categorical feature")
    if levels is None:
        if len(column.levels) != 2:
            raise ValueError(f"{by!r} has {len(column.levels)} levels: say which two, as levels=")
        levels = (column.levels[1], column.levels[0])
    unknown = [group for group in levels if group not in column.levels]
    if unknown or len(set(levels)) != 2:
        raise ValueError(f"levels must be two of {', '.join(column.levels)}, not {', '.join(levels)}")
    fit = OLS().fit(release, target, features=[by])
    contrast = [0.0] * len(fit.param_names_)
    for sign, group in zip((1.0, -1.0), levels, strict=True):
        name = by if column.type == "boolean" else f"{by}[{group}]"
        if name in fit.param_names_ and (column.type != "boolean" or group == column.levels[1]):
            contrast[list(fit.param_names_).index(name)] = sign
    (one,) = fit.t_test([contrast], level).estimates
    difference = Estimate(
        (f"{levels[0]} − {levels[1]}",), one.value, one.std_error, one.conf_low, one.conf_high, one.pvalue
    )
    return EstimateTable(
        f"{target} by {by}", ("difference of means",), (difference,), (NOTE, *fit_notes(fit, level=level)), level
    )
