"""The comparison of many linear queries: each with Laplace noise by a curator, or all from one round of reports."""

import math
from dataclasses import dataclass
from typing import Literal

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Note, View, facts
from analyst_client.inference.summary import number, percent_of
from analyst_client.level import takes_level
from analyst_client.local.exact import Number, odds_within, read_epsilon

QUERIES_MAX = 10**18


@dataclass(frozen=True)
class QueryComparison(Displayable):
    """Largest errors of k linear queries: by a curator with Laplace noise, and from local reports.

    Attributes
    ----------
    people, queries : int
        n and k.
    epsilon : float
        Of each person, for all queries together.
    level : float
        Probability with which no query errs by more.
    central_error, local_error : float
        Of the largest error of k queries, each over n.
    local_from : int or None
        Smallest number of queries from which on the local bound is lower; None beyond 10¹⁸.

    Examples
    --------
    >>> from analyst_client.local import compare_with_central
    >>> comparison = compare_with_central(10_000, 100, 1)
    >>> comparison.better, round(comparison.central_error, 3), round(comparison.local_error, 3)
    ('local', 0.076, 0.044)
    """

    people: int
    queries: int
    epsilon: float
    level: float
    central_error: float
    local_error: float
    local_from: int | None

    @property
    def better(self) -> Literal["central", "local"]:
        """The way with the lower bound."""
        return "local" if self.local_error < self.central_error else "central"

    def _view(self) -> View:
        start = "beyond 1e18 queries" if self.local_from is None else f"from {self.local_from:,} queries on"
        rows = [
            (f"central, {percent_of(self.level)}", number(self.central_error)),
            (f"local, {percent_of(self.level)}", number(self.local_error)),
            ("lower bound", self.better),
            ("local is lower", start),
        ]
        title = f"{self.queries:,} queries of {self.people:,} people, epsilon = {self.epsilon:g}"
        return facts(title, rows), Note("Bounds of the largest error over all queries, each divided by the people.")

    __repr__ = Displayable.__str__


@takes_level
def compare_with_central(n: int, k: int, epsilon: Number, *, level: float = 0.95) -> QueryComparison:
    r"""Compare two ways to answer k linear queries of n people's bits, weights within ±1, at ε for each person.

    Parameters
    ----------
    n, k : int
        People and queries, 1 or more.
    epsilon : number
        Of all answers together, for each person. Neighbours differ in one person's bit.
    level : float
        Probability 1 − β with which no query errs by more, in [0.5, 1).

    Returns
    -------
    QueryComparison
        The bounds, and the number of queries from which on local reports have the lower one.

    Raises
    ------
    ValueError
        Where a number is outside of its range.

    Notes
    -----
    A curator that gives ε/k to each query adds Laplace noise of scale :math:`b=k/(n\varepsilon)` to
    :math:`q^\top x/n`; the largest of k errors is below :math:`-b\ln(1-(1-\beta)^{1/k})` with probability 1 − β
    exactly. From one round of randomised response every :math:`q_i\hat x_i` lies in a range of length
    :math:`w=(e^\varepsilon+1)/(e^\varepsilon-1)` at most, and by Hoeffding's inequality for both signs of k queries no
    error exceeds :math:`w\sqrt{\ln(2k/\beta)/2n}`, with probability 1 − β at least. The first bound grows as k ln k and
    the second as √ln k, so that their order changes once. This is the comparison of two ways and of no others: for many
    queries a curator has better ones than this.

    Examples
    --------
    >>> compare_with_central(10_000, 100, 1).local_from
    61
    """
    cost = read_epsilon(epsilon)
    if n < 1 or not 1 <= k <= QUERIES_MAX:
        raise ValueError("n and k are 1 or more, and k is at most 10**18")
    odds, rate, beta = float(odds_within(cost)), float(cost), 1.0 - level

    def central(queries: int) -> float:
        return -queries / (n * rate) * math.log(-math.expm1(math.log(level) / queries))

    def local(queries: int) -> float:
        return (odds + 1.0) / (odds - 1.0) * math.sqrt(math.log(2.0 * queries / beta) / (2.0 * n))

    low, high = 0, 1  # the central way has the lower bound at `low`, or that is 0; the local one at `high`
    while high <= QUERIES_MAX and local(high) >= central(high):
        low, high = high, 2 * high
    while high - low > 1 and high <= 2 * QUERIES_MAX:
        middle = (low + high) // 2
        low, high = (low, middle) if local(middle) < central(middle) else (middle, high)
    start = high if high <= QUERIES_MAX else None
    return QueryComparison(n, k, rate, level, central(k), local(k), start)
