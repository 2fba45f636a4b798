"""Shares, tables, means and linear queries from reports, with intervals that hold privacy noise and sampling."""

import math
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.analyses.table_results import Factor
from analyst_client.analyses.tables import ContingencyTable
from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.quantiles import student_quantile
from analyst_client.level import takes_level
from analyst_client.local.mechanisms import Kary, Unary
from analyst_client.local.questions import RandomizedResponse, UnaryEncoding
from analyst_client.local.reports import Reports
from analyst_client.local.vectors import LInfinitySampler, PiecewiseMechanism

ALL = "(all)"
NORMAL = 1e12
"""Degrees of freedom at which Student's law is the normal one."""
UNITS = "Each report is of one {unit}; intervals are about the population of which they are an independent sample."
BEYOND = "Estimates are right on average, and so may lie beyond the range; intervals are cut to it."


@takes_level
def estimate_shares(reports: Reports, *, level: float = 0.95) -> EstimateTable:
    r"""Estimate the shares of all cells, and of two or more columns under randomised response also of each level.

    Parameters
    ----------
    reports : Reports
        Of `RandomizedResponse` or `UnaryEncoding`.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are a level of each column; ``"(all)"`` of the columns that are added up.

    Raises
    ------
    EstimationError
        Where there is no report, or the question is another one.

    Notes
    -----
    Of a set of s cells with share π the number of reports in it is binomial, with chance
    :math:`\lambda=sq+(p-q)\pi`; p and q are the chances of the true answer and of each other one. The interval is
    Wilson's of λ [1]_, carried over to π.

    References
    ----------
    .. [1] E. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> from analyst_client.local import estimate_shares
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> share = estimate_shares(client.survey_reports("smoking"))["yes"]
    >>> round(share.value, 2), share.interval
    (0.12, '[0, 0.4969]')
    """
    question = reports.question
    if not isinstance(question, RandomizedResponse | UnaryEncoding):
        raise EstimationError("shares are of reports of RandomizedResponse or UnaryEncoding")
    columns, law = question.columns, question.law
    p, q = map(float, law.chances)
    hits = _hits(reports, law).reshape(-1, *map(len, columns.values()))
    margins = isinstance(law, Kary) and len(columns) > 1
    found = []
    for label in product(*((*levels, *[ALL] * margins) for levels in columns.values())):
        if {*label} == {ALL}:
            continue
        places = [
            slice(None) if level == ALL else levels.index(level)
            for level, levels in zip(label, columns.values(), strict=True)
        ]
        inside = hits[(slice(None), *places)].reshape(len(reports), -1)
        size = inside.shape[1]
        found.append(_binomial(label, float(inside.sum()), len(reports), (size * q, p - q), (0.0, 1.0), level))
    notes = (UNITS.format(unit=question.protects), BEYOND)
    return EstimateTable(f"Shares by {len(reports)} local reports", tuple(columns), tuple(found), notes, level)


def contingency_table(reports: Reports) -> ContingencyTable:
    r"""Return the table of counts that reports tell, with the covariance of their privacy noise, to test and compare.

    Parameters
    ----------
    reports : Reports
        Of `RandomizedResponse`.

    Returns
    -------
    ContingencyTable
        Its tests and intervals are about the population.

    Raises
    ------
    EstimationError
        Where there is no report, or the question is another one.

    Notes
    -----
    With counts c of answers the table is :math:`\hat N=(c-nq)/(p-q)`. Given the true cells N its covariance is
    :math:`\sum_jN_j(\mathrm{diag}(P_j)-P_jP_j^\top)/(p-q)^2`, where :math:`P_j` has p at j and q elsewhere; N̂ stands
    for N there, negative cells as 0.

    Examples
    --------
    >>> from analyst_client.local import contingency_table
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> contingency_table(client.survey_reports("smoking")).values.round(1).tolist()
    [27.4, 3.6]
    """
    question = reports.question
    if not isinstance(question, RandomizedResponse):
        raise EstimationError("a table is of reports of RandomizedResponse")
    columns, law = question.columns, question.law
    p, q = map(float, law.chances)
    cells = (_hits(reports, law).sum(axis=0) - len(reports) * q) / (p - q)
    P = q + (p - q) * np.eye(law.size)
    N = np.maximum(cells, 0.0)
    covariance = (np.diag(N @ P) - (P * N) @ P) / (p - q) ** 2
    factors = [Factor(name, levels) for name, levels in columns.items()]
    return ContingencyTable(cells.reshape([*map(len, columns.values())]), covariance, factors)


@takes_level
def estimate_means(reports: Reports, *, level: float = 0.95) -> EstimateTable:
    r"""Estimate the means of the columns, as they are cut to their bounds.

    Parameters
    ----------
    reports : Reports
        Of `PiecewiseMechanism` or `LInfinitySampler`.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the columns; units are those of the bounds.

    Raises
    ------
    EstimationError
        Where there is no report (of the piecewise mechanism: fewer than two), or the question is another one.

    Notes
    -----
    A bit of a corner is 1 with chance :math:`(1+cm)/2`, m the mean from −1 to 1, so that Wilson's interval of that
    chance is carried over. Answers of the piecewise mechanism are right on average and bounded: Student's interval.

    Examples
    --------
    >>> import random
    >>> from analyst_client.local import PiecewiseMechanism, Reports, estimate_means
    >>> question, draw = PiecewiseMechanism({"age": (0, 120)}, epsilon=2), random.Random(1).randrange
    >>> reports = Reports.collect(question, [question.report(age, draw) for age in range(40, 80) for _ in range(10)])
    >>> round(estimate_means(reports)["age"].value)
    61
    """
    question, n = reports.question, len(reports)
    notes = (UNITS.format(unit=question.protects), BEYOND)
    numbers, found = reports.numbers, list[Estimate]()
    if isinstance(question, PiecewiseMechanism):
        if n < 2:
            raise EstimationError("a mean of the piecewise mechanism needs two reports or more")
        ((name, (low, high)),) = question.columns.items()
        start, slope = map(float, question.law.line)
        values = float(low) + float(high - low) * (numbers - start) / (slope * question.steps)
        error = float(values.std(ddof=1)) / math.sqrt(n)
        reach = student_quantile((1.0 - level) / 2.0, n - 1.0) * error
        mean = float(values.mean())
        ends = _cut((mean - reach, mean + reach), (float(low), float(high)))
        found.append(Estimate((name,), mean, error, *ends))
    elif type(question) is LInfinitySampler:
        c = float(question.law.shrinkage)
        for (name, declared), ones in zip(question.columns.items(), numbers.sum(axis=0), strict=True):
            ends = (float(declared[0]), float(declared[1]))
            width = ends[1] - ends[0]  # the chance is (1 − c)/2 at the lower end, and c more at the upper one
            line = (0.5 - c / 2.0 - c * ends[0] / width, c / width)
            found.append(_binomial((name,), float(ones), n, line, ends, level))
    else:
        raise EstimationError("means are of reports of PiecewiseMechanism or LInfinitySampler")
    return EstimateTable(f"Means by {n} local reports", ("variable",), tuple(found), notes, level)


@takes_level
def answer_linear_queries(reports: Reports, queries: ArrayLike, *, level: float = 0.95) -> EstimateTable:
    r"""Answer linear queries :math:`q^\top x` of the bits of the very people who reported.

    Parameters
    ----------
    reports : Reports
        Of `RandomizedResponse` of one column of two levels; a bit is 1 at the second.
    queries : array-like of shape (k, n)
        Public weights of each query, in the order of the reports.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        Labels are the numbers of the queries, from 1. Any number of queries costs no more privacy.

    Raises
    ------
    EstimationError
        Where there is no report, or the question is another one.
    ValueError
        Where the weights are not of shape (k, n).

    Notes
    -----
    With answers Y the bits :math:`\hat x=\frac12+(Y-\frac12)/(2p-1)` are right on average, and each has the variance
    :math:`p(1-p)/(2p-1)^2`, whatever the bit is. Intervals are normal: exact as :math:`\sum q_i^2` outgrows each
    :math:`q_i^2`, so no single person may have most of the weight. There is no sampling in them.

    Examples
    --------
    >>> from analyst_client.local import answer_linear_queries
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> reports = client.survey_reports("smoking")
    >>> weights = [[1.0] * len(reports)]  # one query: how many said yes
    >>> [round(estimate.value, 1) for estimate in answer_linear_queries(reports, weights)]
    [3.6]
    """
    question, weights = reports.question, np.asarray(queries, dtype=np.float64)
    if not isinstance(question, RandomizedResponse) or len(question.columns) != 1 or question.size != 2:
        raise EstimationError("linear queries are of reports of RandomizedResponse of one column of two levels")
    if weights.ndim != 2 or weights.shape[1] != len(reports):
        raise ValueError(f"queries have a row each, with a weight for each of {len(reports)} reports")
    p = float(question.law.chances[0])
    values = weights @ (0.5 + (reports.numbers - 0.5) / (2.0 * p - 1.0))
    errors = math.sqrt(p * (1.0 - p)) / (2.0 * p - 1.0) * np.sqrt(np.sum(weights**2, axis=1))
    reach = student_quantile((1.0 - level) / 2.0, NORMAL) * errors
    rows = np.column_stack([values, errors, values - reach, values + reach]).tolist()
    found = tuple(Estimate((str(k),), *row) for k, row in enumerate(rows, start=1))
    notes = ("Intervals are about the people who reported, and hold privacy noise alone.",)
    return EstimateTable(f"Linear queries by {len(reports)} local reports", ("query",), found, notes, level)


def _hits(reports: Reports, law: Kary | Unary) -> FloatArray:
    """Return 1 where a report supports a cell, of shape (n, cells)."""
    numbers = reports.numbers
    return numbers if isinstance(law, Unary) else np.eye(law.size)[numbers.astype(np.int64)]


def _binomial(
    label: tuple[str, ...],
    count: float,
    n: int,
    line: tuple[float, float],
    ends: tuple[float, float],
    level: float,
) -> Estimate:
    """Estimate x of a count whose chance is `line[0]` + `line[1]` x: Wilson's interval, carried over and cut."""
    rate, z = count / n, student_quantile((1.0 - level) / 2.0, NORMAL)
    center = (rate + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    reach = z * math.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
    value, low, high = ((chance - line[0]) / line[1] for chance in (rate, center - reach, center + reach))
    return Estimate(label, value, math.sqrt(rate * (1.0 - rate) / n) / line[1], *_cut((low, high), ends))


def _cut(interval: tuple[float, float], ends: tuple[float, float]) -> tuple[float, float]:
    """Cut an interval to a range; what lies beyond it becomes its end, which a truth there may be."""
    low, high = (min(max(end, ends[0]), ends[1]) for end in interval)
    return low, high
