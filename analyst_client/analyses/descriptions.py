"""Counts, means, standard deviations and shares that a Gram holds, for all rows and by group."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from analyst_client.analyses.advice import counts_advice
from analyst_client.analyses.inversion import (
    RatioProblem,
    count_interval,
    invert_ratios,
    invert_tail,
    likely_variances,
    noise_nodes,
    noise_of_ratio,
    normal_quantile,
    proportion,
)
from analyst_client.analyses.moments import Group, Moments
from analyst_client.arrays import FloatArray
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.quadratic import Quadratic
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level
from analyst_client.schema.columns import Term
from analyst_client.schema.quotes import write_expression

HEADS = ("variable", "level", "statistic")
COUNT_NOTE = "Intervals of n are of the rows that there are: privacy noise alone. All others are of the population."
SHARE_NOTE = "Shares: binomial sampling error and the noise of both counts, in score form (Wilson)."
MEAN_NOTE = "Means: sampling error from the second moments and the noise, in score form (Fieller)."
SD_NOTE = "Standard deviations: values are taken as normal, since a Gram has no fourth moments."
POOLED_NOTE = "Means by group: one standard deviation within all groups, as in analysis of variance."
MIDPOINT_NOTE = "missing values count as the middle of the bounds, or as false, and as the first level."


@takes_level
def describe(release: Release, *, level: float = 0.95) -> EstimateTable:
    r"""Describe the columns of a release: n, means, standard deviations, shares of levels and of missing values.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the variable, its level (or "") and the statistic: ``"n"``, ``"mean"``, ``"sd"`` or ``"share"``. Raw
        units. `n` of a column declared with ``missing = indicator`` counts the rows that have a value, and the others
        are of these rows.

    Raises
    ------
    EstimationError
        When rows are weighted, the release lacks what this needs, or the noise hides the number of rows.

    Notes
    -----
    The mean m is the ratio of Σx and n, two released numbers: :math:`\Sigma x - mn` has the variance
    :math:`s^2n + v_x + m^2v_n`, and its test is inverted (Fieller). The variance is
    :math:`(\Sigma x^2 - (\Sigma x)^2/n)/(n - 1)`, with the mean of its noise taken off; noise left in it is allowed for
    as `OLS` does. Without noise the interval is that of Student. A share is binomial, see Wilson's interval; each count
    is released twice, in the row of the constant and on the diagonal, and both are used. The interval of a standard
    deviation inverts the law of :math:`s^2`, χ² for normal values and the noise added to it.

    Examples
    --------
    >>> import numpy as np
    >>> from analyst_client import Column
    >>> X = np.column_stack([np.ones(4), [0.0, 1.0, 1.0, 1.0]])
    >>> smoker = Column.boolean("smoker", ("no", "yes"))
    >>> table = describe(Release.from_arrays(X.T @ X, features=[smoker]))
    >>> round(table["smoker", "yes", "share"].conf_low, 3)
    0.301
    """
    moments, found = Moments.of_people(release), list[Estimate]()
    assert moments.rows  # which says so where the noise hides it
    found.append(_count(moments, moments.size(moments.unit(0)), ("(rows)", "", "n"), level))
    variables = tuple(listed(moments, beside=None))
    sums = {j: _sums_within(moments, j, [moments.all_rows]) for j in _numbers(variables)}
    means = _means(moments, list(sums.items()), level)
    for name, category, j in variables:
        if j is None or category:
            found += _shares(moments, name, category, j, moments.all_rows, (), level)
        else:
            variable = moments.variables[j]
            if moments.missing(variable.column) is not None:
                form = moments.observed(moments.unit(0), variable.column)
                found.append(_count(moments, form, (name, "", "n"), level))
            found += [next(means), _deviation(moments, j, sums[j], level)]
    advice = counts_advice(release, _tables(moments), "Shares of levels alone")
    notes = (COUNT_NOTE, MEAN_NOTE, SD_NOTE, SHARE_NOTE, *_missing_notes(moments), *advice, *moments.notes)
    return EstimateTable(f"Columns of {release.dataset}", HEADS, tuple(found), notes, level)


@takes_level
def table_one(release: Release, by: str, *, level: float = 0.95) -> EstimateTable:
    r"""Describe the columns of a release by the levels of one of them: n, means and shares of each group.

    Parameters
    ----------
    release : Release
        With XᵀX and a constant.
    by : str
        A categorical or boolean feature.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the variable, its level (or ""), the statistic and the group; ``"all"`` is of all rows.

    Raises
    ------
    EstimationError
        When rows are weighted, the release lacks what this needs, or the noise hides the number of rows.
    ValueError
        When `by` is no categorical or boolean feature.

    Notes
    -----
    The entry of a level and a number in XᵀX is the number's sum over the level's rows, that of two levels the number of
    rows that have both, and the level's diagonal its number of rows. So every mean and share is a ratio of two released
    numbers, as in `describe`. What a Gram does not tell is the spread within one group: means take the one within all
    groups, pooled, with n less the number of groups as degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from analyst_client import Column
    >>> X = np.column_stack([np.ones(4), [0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 3.0, 5.0]])
    >>> columns = [Column.categorical("sex", ["F", "M"]), "age"]
    >>> table = table_one(Release.from_arrays(X.T @ X, features=columns), by="sex")
    >>> table["age", "", "mean", "M"].value
    4.0
    """
    moments, found = Moments.of_people(release), list[Estimate]()
    assert moments.rows
    everyone, groups = moments.all_rows, moments.groups(by)
    for group in (everyone, *groups):
        found.append(_count(moments, moments.size(group.indicator), ("(rows)", "", "n", group.level), level))
    variables = tuple(listed(moments, beside=by))
    within = [(j, _sums_within(moments, j, kept)) for j in _numbers(variables) for kept in ([everyone], groups)]
    means = _means(moments, within, level)
    for name, category, j in variables:
        if j is None or category:
            for group in (everyone, *groups):
                found += _shares(moments, name, category, j, group, (group.level,), level)
        else:
            found += [_relabel(mean := next(means), (*mean.label, group.level)) for group in (everyone, *groups)]
    advice = counts_advice(release, _tables(moments) - 1, f"Shares of levels by {by} alone")
    notes = (COUNT_NOTE, MEAN_NOTE, POOLED_NOTE, SHARE_NOTE, *_missing_notes(moments), *advice, *moments.notes)
    return EstimateTable(f"{release.dataset} by {by}", (*HEADS, by), tuple(found), notes, level, across=3)


def listed(moments: Moments, beside: str | None) -> Iterator[tuple[str, str, int | None]]:
    """Yield each variable to describe: its column, its level if it is a share, and its position.

    The level that the terms leave out has none.
    """
    features = {column.name: column for column in moments.release.features}
    seen: set[str] = set()
    for j, variable in enumerate(moments.variables):
        if variable.kind in {"constant", "basis", "product"} or (
            j < len(moments.release.terms) and variable.column == beside
        ):
            continue
        column = features.get(str(variable.column)) if j < len(moments.release.terms) else None
        if variable.kind == "level" and column is not None:
            if column.name not in seen:
                present = {v.level: k for k, v in enumerate(moments.variables) if v.column == column.name}
                for level in column.levels:
                    yield column.name, level, present.get(level)
                seen.add(column.name)
        elif variable.kind == "boolean":
            yield variable.name, column.levels[1] if column is not None else "true", j
        elif variable.kind == "missing":
            yield str(variable.column), "(missing)", j
        elif not math.isnan(moments.matrix[j, j]):
            yield variable.name, "", j


def _numbers(variables: Sequence[tuple[str, str, int | None]]) -> list[int]:
    """Return the positions of those of `listed` that are numbers."""
    return [j for _, category, j in variables if j is not None and not category]


def _count(moments: Moments, form: FloatArray, label: tuple[str, ...], level: float) -> Estimate:
    return Estimate(label, *count_interval(moments, form, level))


def _relabel(one: Estimate, label: tuple[str, ...]) -> Estimate:
    return Estimate(label, one.value, one.std_error, one.conf_low, one.conf_high, one.pvalue)


def _shares(
    moments: Moments,
    name: str,
    category: str,
    j: int | None,
    group: Group,
    tail: tuple[str, ...],
    level: float,
) -> list[Estimate]:
    """Return the share of one level among the rows of a group."""
    if j is None:  # the level that the terms leave out
        others = [k for k, v in enumerate(moments.variables) if v.kind == "level" and v.column == name]
        below = moments.observed(group.indicator, name)
        above = below - np.sum([moments.total(group.indicator, k) for k in others], axis=0)
    else:
        variable = moments.variables[j]
        above = moments.total(group.indicator, j)
        of_rows = variable.kind == "missing" or j >= len(moments.release.terms)
        below = moments.size(group.indicator) if of_rows else moments.observed(group.indicator, variable.column)
    found = proportion(moments, above, below, level)
    return [Estimate((name, category, "share", *tail), found.value, found.std_error, *found.interval.hull)]


class _Sums(NamedTuple):
    """Sums of a number in groups of rows, and its variance within all of them.

    Attributes
    ----------
    above, below : list of ndarray of shape (P, P)
        The forms of the sum in each group and of the number of its rows that have a value.
    variance, noise_sd, kurtosis, dof : float
        Of the number within groups, the deviation and the excess kurtosis of its noise, and its degrees of freedom.
    """

    above: list[FloatArray]
    below: list[FloatArray]
    variance: float
    noise_sd: float
    kurtosis: float
    dof: float


def _sums_within(moments: Moments, j: int, groups: Sequence[Group]) -> _Sums:
    """Return the sums of a number in each group, and its variance within all of them."""
    lost = moments.variables[j].column if j < len(moments.release.terms) else None
    above = [moments.total(group.indicator, j) for group in groups]
    below = [moments.observed(group.indicator, lost) for group in groups]
    square = np.zeros_like(above[0])
    square[j, j] = 1.0
    total, rows = moments.value(square), 0.0
    for a, b in zip(above, below, strict=True):
        size = moments.value(b)
        rows += size
        if size <= 0.0:
            continue
        mean = moments.value(a) / size
        total += (noise_of_ratio(moments, a, b).at(mean) - moments.value(a) * mean * size) / size
        square = square - 2.0 * mean * a + mean**2 * b
    dof = max(rows - len(above), 1.0)
    noise = moments.covariance(square, square)
    return _Sums(above, below, total / dof, math.sqrt(noise) / dof, moments.kurtosis(square, noise), dof)


def _means(moments: Moments, numbers: Sequence[tuple[int, _Sums]], level: float) -> Iterator[Estimate]:
    """Yield the mean of each number in each of its groups, with one variance within all of them."""
    problems = list[RatioProblem]()
    for _, (above, below, variance, sd, _, dof) in numbers:
        points = likely_variances(variance, sd)
        assumed = max(variance, 0.0) if points is None else float(np.mean(points))
        for a, b in zip(above, below, strict=True):
            noise, rows = noise_of_ratio(moments, a, b), max(moments.value(b), 0.0)
            whole = Quadratic(noise.constant + assumed * rows, noise.slope, noise.square)
            ratio = moments.value(a) / rows if rows > 0.0 else 0.0
            spread = None if points is None else np.maximum(noise.at(ratio) + points * rows, 1e-300)
            problems.append(RatioProblem(a, b, whole, dof, spread))
    variables = (moments.variables[j] for j, sums in numbers for _ in sums.above)
    for variable, mean in zip(variables, invert_ratios(moments, problems, level), strict=True):
        low, high = mean.interval.hull
        yield Estimate(
            (variable.name, "", "mean"),
            variable.center + variable.scale * mean.value,
            variable.scale * mean.std_error,
            variable.center + variable.scale * low,
            variable.center + variable.scale * high,
        )


def _deviation(moments: Moments, j: int, sums: _Sums, level: float) -> Estimate:
    r"""Return the standard deviation of a number: values within their bounds, and the noise of their squares.

    Notes
    -----
    Of values at most M from their mean the fourth moment is at most :math:`M^2\sigma^2`. So s² varies no more than that
    of :math:`2\nu/(M^2/\sigma^2 - 1)` normal values, which is less than ν where M is more than :math:`\sqrt 3\sigma`.
    """
    from scipy import special  # noqa: PLC0415 -- see `inference.quantiles`

    variable: Term = moments.variables[j]
    variance, sd, dof = sums.variance, sums.noise_sd, sums.dof
    reach = 1.0 + abs(float(np.clip(moments.value(sums.above[0]) / max(moments.value(sums.below[0]), 1.0), -1.0, 1.0)))
    dof = 2.0 * dof / max(reach**2 / max(variance, 1e-12) - 1.0, 2.0)
    sampling = variance * math.sqrt(2.0 / dof)
    standard, weights = noise_nodes(sd / sampling if sampling > 0.0 else math.inf, sums.kurtosis)
    points = np.maximum(variance - sd * standard, 0.0)

    def tail(sigma: float) -> float:
        return float(weights @ special.chdtr(dof, points * dof / max(sigma, 1e-150) ** 2))

    value = math.sqrt(max(variance, 0.0))
    largest = math.sqrt(float(np.max(points))) * 100.0 * (1.0 + dof**-0.5)
    error = math.hypot(sampling, sd) / (2.0 * value) if value > 0.0 else math.inf
    step = 1.1 * normal_quantile(level) * error if value > 0.0 else 0.0
    low, high = invert_tail(tail, max(value, 1e-12), 0.0, max(largest, 1e-12), level, step)
    return Estimate((variable.name, "", "sd"), *(variable.scale * number for number in (value, error, low, high)))


def _tables(moments: Moments) -> int:
    """Return how many tables of counts the shares are of: one for each column that has any."""
    kinds = {"level", "boolean", "missing"}
    return len({variable.column for variable in moments.variables if variable.kind in kinds})


def _missing_notes(moments: Moments) -> tuple[str, ...]:
    """Return notes on columns with missing values, and on figures that the release cannot give."""
    hidden = [v.name for j, v in enumerate(moments.variables) if v.kind == "numeric" and np.isnan(moments.matrix[j, j])]
    left_out = (f"{', '.join(hidden)}: not here, as the release does not hold its squares (yᵀy).",) if hidden else ()
    release = moments.release
    named = [column.name for column in release.features if column.missing == "midpoint"]
    middle = (f"{', '.join(named)}: {MIDPOINT_NOTE}",) if named else ()
    omitting = [column.name for column in release.columns if column.missing == "omit"]
    whole = (f"All figures, n too, are of rows that have {' and '.join(omitting)}.",) if omitting else ()
    where = release.request.get("where")
    chosen = (f"All figures, n too, are of rows where {write_expression(where)}.",) if where is not None else ()
    return (*left_out, *middle, *whole, *chosen)
