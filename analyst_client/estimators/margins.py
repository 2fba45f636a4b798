"""Average marginal effects: what one unit more, or another level, changes in the expected target.

Each is a function of the coefficients, with its gradient: exact for a linear fit, the delta method for others.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.base import Results
from analyst_client.inference.contrasts import Constraints, estimate_forms
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.normal_index import NODE_WEIGHTS, NODES
from analyst_client.inference.quantiles import chi2_tail
from analyst_client.kinds.gram.design import code, code_columns, raw_columns
from analyst_client.refinement.belief import Belief
from analyst_client.schema.columns import Column, DerivedColumn, stored_columns
from analyst_client.schema.row_maps import row_map_named

STEP = 1e-4
"""Of a numeric derivative, as a share of the range of its column."""
LEAST_SPREAD = 1e-2
"""Deviation of an index at which derivatives are taken."""
PER_UNIT = "per unit"
NEEDS_ROWS = "so the release tells no average: margins(frame) averages over rows of your own"
Response = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Expected targets of linear predictors, and how fast they grow."""


class Effect(NamedTuple):
    """An average marginal effect.

    Attributes
    ----------
    label : tuple of str
    value : float
    gradient : ndarray of shape (D,)
        By the scaled coefficients.
    noise : float
        Deviation by the noise in what it was averaged over.
    """

    label: tuple[str, str]
    value: float
    gradient: FloatArray
    noise: float = 0.0


def estimate_margins(results: Results, effects: Sequence[Effect], level: float, notes: Sequence[str]) -> EstimateTable:
    """Estimate effects, and test that each is 0. Raise `EstimationError` where there are none."""
    if not effects:
        raise EstimationError("there is no term beside the constant to have an effect")
    gradients = np.array([one.gradient for one in effects])
    offsets = np.array([one.value for one in effects]) - gradients @ results.solved.theta
    constraints = Constraints(tuple(" ".join(one.label) for one in effects), gradients, np.zeros(len(effects)))
    title = f"Average marginal effects on {results.target.name}"
    table = estimate_forms(results, constraints, offsets, level, (title, "column"), notes)
    found = [replace(one, label=effect.label) for one, effect in zip(table.estimates, effects, strict=True)]
    if any(effect.noise for effect in effects):
        quantile = results.quantile(level)
        found = [_widened(one, effect.noise, quantile) for one, effect in zip(found, effects, strict=True)]
    return replace(table, heads=("column", "contrast"), estimates=tuple(found))


def _widened(one: Estimate, noise: float, quantile: float) -> Estimate:
    """Return an estimate with Wald's interval and test, and further noise in its error."""
    error = math.hypot(one.std_error, noise)
    tail = chi2_tail((one.value / error) ** 2, 1) if math.isfinite(error) else math.nan
    return Estimate(one.label, one.value, error, one.value - quantile * error, one.value + quantile * error, tail)


# Over rows.


def effects_on_rows(
    results: Results, columns: Sequence[Column], rows: Mapping[str, Any], design: Any, response: Response
) -> Iterator[Effect]:
    """Yield effects averaged over rows: by column, of which each row has another value, and all others as they are.

    `design` makes the rows on which the fit is linear of coded columns.
    """
    theta, coded = results.solved.theta, code_columns(rows, columns, clip=True)
    fixed = {c.name: coded[c.name] for c in columns if isinstance(c, DerivedColumn) and c.type != "numeric"}
    for column in _variables(results, columns):
        for label, high, low, step in _contrasts(column, rows):
            ends = []
            for changed in (high, low):
                if isinstance(column, DerivedColumn):
                    ends.append(design(coded | {column.name: changed}))
                else:  # a condition is a column of its own, and stays as it is
                    ends.append(design(code_columns({**rows, column.name: changed}, columns, clip=True) | fixed))
            (mean_high, slope_high), (mean_low, slope_low) = (response(D @ theta) for D in ends)
            each = (mean_high - mean_low) / step
            known = np.isfinite(each)
            if not known.any():
                raise EstimationError(f"no row has a value of {column.name} and all others")
            gradients = (slope_high[:, np.newaxis] * ends[0] - slope_low[:, np.newaxis] * ends[1])[known]
            gradient = np.mean(gradients / np.broadcast_to(step, each.shape)[known, np.newaxis], axis=0)
            yield Effect(label, float(each[known].mean()), gradient)


def rows_of(X: Any, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the stored columns of a frame or an array by name, numbers clipped to their bounds."""
    stored = stored_columns(columns)
    raw = raw_columns(X, [column.name for column in stored])
    return {
        column.name: code(column, values, clip=True) if column.type == "numeric" else values
        for column, values in zip(stored, raw, strict=True)
    }


def _variables(results: Results, columns: Sequence[Column]) -> list[Column]:
    """Return the columns that effects are of: stored ones, and conditions."""
    used = {name for term in results.combined or results.terms for name in term.columns}
    found: dict[str, Column] = {}
    for column in columns:
        if column.name in used:
            is_number = isinstance(column, DerivedColumn) and column.type == "numeric"
            found |= {one.name: one for one in (stored_columns([column]) if is_number else [column])}
    return list(found.values())


def _contrasts(column: Column, rows: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any, Any, Any]]:
    """Yield the contrasts of a column: a label, the values to compare, and how far apart they are."""
    count = len(next(iter(rows.values())))
    if column.type == "numeric":
        values = np.asarray(rows[column.name], dtype=np.float64)
        low, high = (-np.inf, np.inf) if column.lower is None or column.upper is None else (column.lower, column.upper)
        reach = STEP * (high - low if np.isfinite(high) else max(1.0, float(np.nanmax(np.abs(values)))))
        above, below = np.minimum(values + reach, high), np.maximum(values - reach, low)
        yield (column.name, PER_UNIT), above, below, above - below
        return
    for k, level in enumerate(column.levels[1:], 1):
        is_coded = isinstance(column, DerivedColumn)
        ends = (float(k), 0.0) if is_coded else (level, column.levels[0])
        high_values, low_values = (np.full(count, end, dtype=None if is_coded else object) for end in ends)
        yield (column.name, f"{level} - {column.levels[0]}"), high_values, low_values, 1.0


# Over what releases tell.


class Change(NamedTuple):
    """A contrast of one column's terms.

    Attributes
    ----------
    label : tuple of str
    terms : list of int
        Places of the terms of the column.
    high, low : ndarray of shape (D,)
        Scaled values of these terms that are compared; of a number one more unit, and none.
    is_number : bool
    """

    label: tuple[str, str]
    terms: list[int]
    high: FloatArray
    low: FloatArray
    is_number: bool


def plain_changes(results: Results, columns: Sequence[Column]) -> list[Change]:
    """Return the contrast of each column. Raise `EstimationError` where it would depend on other values of a row."""
    if row_map_named(results.solved.row_map).divides_terms:
        raise EstimationError(f"{row_map_named(results.solved.row_map).division}, {NEEDS_ROWS}")
    terms = results.combined or results.terms
    if functions := [term.name for term in terms if term.kind in {"product", "basis"}]:
        raise EstimationError(f"the effect of {', '.join(functions)} depends on the values of a row, {NEEDS_ROWS}")
    named = {column.name: column for column in columns}
    sources: set[str] = set()
    found = []
    size = len(results.combined or results.solved.terms)
    for name in dict.fromkeys(term.column for term in terms if term.kind not in {"constant", "missing"}):
        places = [j for j, term in enumerate(terms) if term.column == name and term.kind != "missing"]
        first = terms[places[0]]
        if first.kind == "numeric":
            own = {column.name for column in stored_columns([named[first.columns[0]]])}
            if shared := own & sources:
                raise EstimationError(f"{', '.join(sorted(shared))} is in several terms, {NEEDS_ROWS}")
            sources |= own
            found.append(
                Change((first.name, PER_UNIT), places, _unit(size, places[0]) / first.scale, np.zeros(size), True)
            )
            continue
        levels = named[str(name)].levels
        if first.kind == "boolean":
            ends = [_unit(size, places[0]) * (value - first.center) / first.scale for value in (0.0, 1.0)]
        else:
            coded = {terms[j].level: _unit(size, j) for j in places}
            ends = [coded.get(level, np.zeros(size)) for level in levels]
        found += [
            Change((str(name), f"{level} - {levels[0]}"), places, high, ends[0], False)
            for level, high in zip(levels[1:], ends[1:], strict=True)
        ]
    return found


def _unit(size: int, place: int) -> FloatArray:
    unit: FloatArray = np.eye(size)[place]
    return unit


def linear_effects(results: Results, columns: Sequence[Column]) -> Iterator[Effect]:
    """Yield effects of a fit that is linear in its columns: coefficients, and differences of them."""
    for change in plain_changes(results, columns):
        form = results.target.scale * (change.high - change.low)
        gradient = form if results.combinations is None else form @ results.combinations
        yield Effect(change.label, float(gradient @ results.solved.theta), gradient)


@dataclass(frozen=True, eq=False)
class NormalTerms:
    """A normal law of terms, as releases tell it, with its noise.

    Attributes
    ----------
    second : ndarray of shape (D, D)
        E[v vᵀ] of coordinates v, the constant first.
    coordinates : ndarray of shape (D, D)
        Coefficients of scaled terms to those of these coordinates.
    law : Belief
        Of the sums of v vᵀ over rows.
    rows : float
    """

    second: FloatArray
    coordinates: FloatArray
    law: Belief
    rows: float

    def index(self, theta: FloatArray) -> tuple[float, float, FloatArray, FloatArray]:
        """Return an index's mean and variance, the mean of scaled terms, and their covariance with the index."""
        r = self.coordinates @ theta
        mean = self.second[0] / self.second[0, 0]
        q = self.second @ r / self.second[0, 0] - mean * float(mean @ r)
        return float(mean @ r), max(float(r @ q), 0.0), self.coordinates.T @ mean, self.coordinates.T @ q

    def deviation(self, theta: FloatArray, by_mean: float, by_variance: float) -> float:
        """Return the deviation by noise of what depends on an index's mean and variance so steeply."""
        r, size = self.coordinates @ theta, float(self.second[0, 0])
        mean, square = float(self.second[0] @ r) / size, float(r @ self.second @ r) / size
        by_mean -= 2.0 * mean * by_variance  # the variance is the mean square less the squared mean
        i, j = np.triu_indices(len(r))
        form = by_mean * r[j] * (i == 0) + by_variance * np.where(i == j, 1.0, 2.0) * r[i] * r[j]
        form[0] -= by_mean * mean + by_variance * square  # as means are sums over the noisy count
        variance = float(form @ self.law.covariance[: len(form), : len(form)] @ form)
        return math.sqrt(max(variance, 0.0)) / (self.rows * size)


def normal_effects(
    results: Results, columns: Sequence[Column], terms: NormalTerms, response: Response
) -> Iterator[Effect]:
    r"""Yield effects of a generalised fit, averaged over a normal law of its terms.

    Parameters
    ----------
    results : Results
    columns : sequence of Column
    terms : NormalTerms
    response : callable
        See `Response`.

    Notes
    -----
    For normal z of mean μ and covariance Σ and the index :math:`\eta=z^\top\theta` of variance s², Stein's identity
    gives :math:`\nabla E\,m^{(k)}(\eta) = \mu E\,m^{(k+1)} + \Sigma\theta\,E\,m^{(k+2)}`, with
    :math:`E\,m^{(2)}=E[m^{(1)}Z]/s` and :math:`E\,m^{(3)}=E[m^{(1)}(Z^2-1)]/s^2`; by s² the derivative is
    :math:`\tfrac12E\,m^{(k+2)}`. A number's effect is :math:`\theta_jE\,m^{(1)}(\eta)`; a level's is
    :math:`E[m(\eta_r+\theta_k)-m(\eta_r)]` with the index :math:`\eta_r` of the other columns.
    """
    theta = results.solved.theta

    def expect(center: float, variance: float) -> FloatArray:
        """Return the expected mean of an index, and its first three derivatives."""
        spread = max(math.sqrt(variance), LEAST_SPREAD)
        means, slopes = response(center + spread * NODES)
        weighted = NODE_WEIGHTS * slopes
        bends = weighted @ NODES / spread, weighted @ (NODES**2 - 1.0) / spread**2
        return np.array([NODE_WEIGHTS @ means, weighted.sum(), *bends])

    for change in plain_changes(results, columns):
        own = np.isin(np.arange(len(theta)), change.terms)
        rest = theta if change.is_number else np.where(own, 0.0, theta)
        center, variance, mean, q = terms.index(rest)
        if change.is_number:
            expected = expect(center, variance)
            value, first, second = float(change.high @ theta) * expected[1:]
            gradient = expected[1] * change.high + mean * first + q * second
        else:
            high, low = (expect(center + float(form @ theta), variance) for form in (change.high, change.low))
            value, first, second = (high - low)[:3]
            gradient = ~own * (mean * first + q * second) + high[1] * change.high - low[1] * change.low
        noise = terms.deviation(rest, float(first), float(second) / 2.0)
        yield Effect(change.label, float(value), gradient, noise)
