"""A forest of coefficients: points and intervals, also those that have no end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyst_client.estimators.base import Fit
from analyst_client.inference.base import IntervalMethod, Results
from analyst_client.inference.estimates import EstimateTable
from analyst_client.inference.score import ConfidenceSet
from analyst_client.level import takes_level
from analyst_client.plots.style import (
    Axes,
    Line2D,
    add_legend,
    add_line,
    axes_or_new,
    color_of,
    mark_zero,
    marker_of,
    name_rows,
    percent,
    plain,
    with_unit,
)
from analyst_client.schema.columns import Term

METHOD_NAMES: dict[IntervalMethod, str] = {
    "fieller": "Fieller",
    "delta": "delta method",
    "bootstrap": "bootstrap",
    "posterior": "credible",
    "random-effects": "random effects",
}
REACH = 1e3
"""By how many widths of the Axes an unbounded interval is drawn beyond their edge: it stays so when one zooms out."""


@dataclass(frozen=True)
class Estimate:
    """A coefficient and what a method says of it."""

    value: float
    found: ConfidenceSet

    def times(self, factor: float) -> "Estimate":
        """Return it in units of which one holds `factor` (positive) of these."""
        found = ConfidenceSet(self.found.kind, factor * self.found.lower, factor * self.found.upper)
        return Estimate(factor * self.value, found)

    @property
    def numbers(self) -> list[float]:
        """The values that the axis must show: the point, and the finite ends."""
        ends = (self.value, self.found.lower, self.found.upper)
        return [number for number in ends if np.isfinite(number)]


@takes_level
def coefficient_forest(
    fits: Fit | Mapping[str, Fit],
    terms: Sequence[str] | None = None,
    level: float = 0.95,
    method: IntervalMethod | None = None,
    ax: Axes | None = None,
    *,
    target: str | None = None,
    scaled: bool = False,
) -> Axes:
    """Draw coefficients and their confidence intervals, privacy noise included.

    Parameters
    ----------
    fits : a fit, or mapping of str to fits
        One fit, or several by name: of several methods, costs or sites. A term that a fit has not is left out there.
    terms : sequence of str, optional
        Terms to draw, from top to bottom. Default all but the constant, whose size says little beside the others'.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    method : str, optional
        As for `conf_int` of the fits. Default the confidence sets of each: Fieller's of linear fits, Wald's of
        generalised ones. An unbounded interval runs to the edge of the Axes, and ends there in an arrow. Where the set
        is all but a gap, two rays leave the gap open.
    ax : Axes, optional
        Default those of a new figure.
    target : str, optional
        Needed where a fit has several.
    scaled : bool
        Multiply each coefficient with half the range of its term (1 for a level or a boolean; the widest range, where
        fits have different ones), so that they compare.

    Returns
    -------
    Axes
        With a row for each term.

    Raises
    ------
    EstimationError
        When a release lacks what intervals need, or a fit is not fitted.
    ValueError
        When there is no fit, no such term or no such target.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import coefficient_forest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> [label.get_text() for label in coefficient_forest(fit).get_yticklabels()]
    ['age (years)', 'sex[M]', 'creatinine (mg/dL)']
    """
    listed = {"": fits} if isinstance(fits, Fit) else dict(fits)
    if not listed:
        raise ValueError("a forest needs at least one fit")
    results = {name: fit._results_of(target) for name, fit in listed.items()}
    known = known_terms(results)
    names = [name for name, term in known.items() if term.kind != "constant"] if terms is None else list(terms)
    if not names or any(name not in known for name in names):
        absent = ", ".join(repr(name) for name in names if name not in known)
        raise ValueError(f"no fit has the term(s) {absent}" if absent else "there is no term to draw")
    factors = {name: known[name].scale if scaled else 1.0 for name in names}
    series = [
        {name: one.times(factors[name]) for name, one in estimates(of_one, level, method).items() if name in factors}
        for of_one in results.values()
    ]
    ax = axes_or_new(ax, height=1.3 + 0.14 * len(names) * (1 + len(listed)))
    left, right = limits([one for estimated in series for one in estimated.values()])
    mark_zero(ax, vertical=True)
    for i, estimated in enumerate(series):
        offset = (i - (len(series) - 1) / 2) * min(0.22, 0.7 / len(series))
        for row, name in enumerate(names):
            if name in estimated:
                draw_estimate(ax, estimated[name], row + offset, i, REACH * (right - left))
    ax.set_xlim(left, right)
    ax.set_ylim(len(names) - 0.4, -0.6)
    labels = [label_of(known[name], scaled=scaled) for name in names]
    name_rows(ax, labels)
    beside = max(max(map(len, labels)) - 8, 0)
    names_of = dict.fromkeys(METHOD_NAMES[method] if method else one.inverts for one in results.values())
    note = f"{percent(level)} intervals ({', '.join(names_of)})"
    if any(not one.found.is_bounded for estimated in series for one in estimated.values()):
        ax.tick_params(axis="y", pad=11.0)  # room for the arrows
        note += ", arrows: no bound"
    explained, link = next(iter(results.values())).target, next(iter(listed.values()))._link
    per = "over half of the term's range" if scaled else "for one unit of the term"
    label = f"change of {link}{with_unit(explained.name, explained.unit)} {per}\n{note}"
    ax.set_xlabel(label, loc="center" if beside < 8 else "right", parse_math=False)
    if len(listed) > 1:
        handles = [Line2D([], [], color=color_of(ax, i), marker=marker_of(i), markersize=5) for i in range(len(listed))]
        add_legend(ax, handles, list(listed), beside=beside)
    return ax


def estimate_forest(table: EstimateTable, ax: Axes | None = None) -> Axes:
    """Draw the rows of a table of estimates: points and intervals, such as those of `meta_analysis`.

    Parameters
    ----------
    table : EstimateTable
        Of one coefficient, or of several that compare.
    ax : Axes, optional
        Default those of a new figure.

    Returns
    -------
    Axes
        With a row for each estimate.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from analyst_client.plots import estimate_forest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> [label.get_text() for label in estimate_forest(fit.margins()).get_yticklabels()]
    ['age per unit', 'sex M - F', 'creatinine per unit']
    """
    drawn = [Estimate(one.value, _as_set(one.conf_low, one.conf_high)) for one in table.estimates]
    ax = axes_or_new(ax, height=1.3 + 0.28 * len(drawn))
    none = 1.0 if table.ratio else 0.0
    left, right = limits(drawn, none)
    mark_zero(ax, vertical=True, at=none)
    for row, one in enumerate(drawn):
        draw_estimate(ax, one, row, 0, REACH * (right - left))
    ax.set_xlim(left, right)
    ax.set_ylim(len(drawn) - 0.4, -0.6)
    labels = [" ".join(filter(None, one.label)) for one in table.estimates]
    name_rows(ax, [plain(label, 30) for label in labels])
    note = f"{percent(table.level)} intervals"
    ax.set_xlabel(f"{plain(table.title)}\n{note}", parse_math=False)
    return ax


def _as_set(low: float, high: float) -> ConfidenceSet:
    return ConfidenceSet("interval" if np.isfinite(low) and np.isfinite(high) else "line", low, high)


def known_terms(results: Mapping[str, Results]) -> dict[str, Term]:
    """Return the terms of all fits by name, with the largest scale among those that the coefficients are of."""
    found: dict[str, Term] = {}
    for one in results.values():
        target_scale = one.target.scale
        for term, entry in zip(one.terms, np.diag(one.contrasts), strict=True):
            scale = float(target_scale / entry)  # 1 where rows were divided by their norm: terms stay scaled there
            if term.name not in found or found[term.name].scale < scale:
                found[term.name] = replace(term, scale=scale)
    return found


def estimates(results: Results, level: float, method: IntervalMethod | None) -> dict[str, Estimate]:
    """Return what a fit says of each of its parameters."""
    if method is None or (method == "fieller" and results.inverts == METHOD_NAMES[method]):
        sets = results.confidence_sets(level)
    else:
        sets = [ConfidenceSet("interval", low, high) for low, high in results.conf_int(level, method).tolist()]
    return {
        name: Estimate(float(value), found)
        for name, value, found in zip(results.names, results.params, sets, strict=True)
    }


def limits(drawn: Sequence[Estimate], none: float = 0.0) -> tuple[float, float]:
    """Return limits that hold no effect and every number there is."""
    numbers = [none, *(number for one in drawn for number in one.numbers)]
    low, high = min(numbers), max(numbers)
    span = high - low if high > low else 1.0
    margin = (0.06 if all(one.found.is_bounded for one in drawn) else 0.12) * span  # rays need room to be seen
    return low - margin, high + margin


def draw_estimate(ax: Axes, one: Estimate, y: float, series: int, reach: float) -> None:
    """Draw a point and its set in the row y."""
    color = color_of(ax, series)
    style = {"color": color, "linewidth": 1.6, "solid_capstyle": "butt", "zorder": 2.0}
    found = one.found
    if found.kind == "interval":
        add_line(ax, [found.lower, found.upper], [y, y], **style)
    elif found.kind == "rays":
        add_line(ax, [found.lower - reach, found.lower], [y, y], **style)
        add_line(ax, [found.upper, found.upper + reach], [y, y], **style)
        add_line(ax, [found.lower, found.upper], [y, y], color=color, linestyle="", marker="|", markersize=7)
    else:
        add_line(ax, [-reach, reach], [y, y], **style)
    if not found.is_bounded:
        for edge, head in ((0.0, "<"), (1.0, ">")):
            place = {"transform": ax.get_yaxis_transform(), "clip_on": False}
            add_line(ax, [edge], [y], color=color, linestyle="", marker=head, markersize=6, **place)
    add_line(ax, [one.value], [y], color=color, linestyle="", marker=marker_of(series), markersize=5, zorder=3.0)


def label_of(term: Term, *, scaled: bool) -> str:
    """Return what stands beside a row: the term, and by how much it changes where that is not one unit.

    Examples
    --------
    >>> age = Term("age", "numeric", "age", 75.0, 25.0, "years")
    >>> label_of(age, scaled=False), label_of(age, scaled=True)
    ('age (years)', 'age (+25 years)')
    """
    if not scaled or term.scale == 1.0:
        return with_unit(term.name, term.unit)
    return f"{plain(term.name)} (+{term.scale:.4g}{' ' + plain(term.unit, 16) if term.unit else ''})"
