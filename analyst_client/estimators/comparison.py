"""Fits side by side: coefficients with intervals, rows, what was charged, and the share of privacy noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, Note, Table, View, table, untrusted
from analyst_client.errors import EstimationError
from analyst_client.estimators.base import Fit
from analyst_client.inference.estimates import Estimate
from analyst_client.inference.summary import load_pandas, number, percent_of
from analyst_client.level import takes_level

if TYPE_CHECKING:
    import pandas as pd

NOTE = (
    "'privacy noise' is its share in the variance of each coefficient beside the constant. Fits of one release share "
    "what was charged for it."
)


@dataclass(frozen=True)
class ComparedFit:
    """One fit of a comparison.

    Attributes
    ----------
    name : str
    estimator, target : str
        The target on the scale of the coefficients.
    rows, charged : str
        As a summary states them; empty where they are not told.
    estimates : tuple of Estimate
        One for each parameter; NaN and infinite where the fit tells points alone.
    privacy_shares : tuple of float
        Share of privacy noise in each variance; NaN where it is not told.
    slopes : range
        Places of the parameters beside the constant.
    notes : tuple of str
        Reasons and caveats.
    """

    name: str
    estimator: str
    target: str
    rows: str
    charged: str
    estimates: tuple[Estimate, ...]
    privacy_shares: tuple[float, ...]
    slopes: range
    notes: tuple[str, ...]

    @property
    def noise(self) -> str:
        """The least and the largest share of privacy noise, as text."""
        told = [share for j in self.slopes if not np.isnan(share := self.privacy_shares[j])]
        ends = list(dict.fromkeys(f"{share:.0%}" for share in (min(told), max(told)))) if told else ["–"]
        return " to ".join(ends)


@dataclass(frozen=True, repr=False)
class Comparison(Displayable):
    """Fits side by side.

    Attributes
    ----------
    fits : tuple of ComparedFit
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    """

    fits: tuple[ComparedFit, ...]
    level: float

    def tidy(self) -> "pd.DataFrame":
        """Return a data frame with one row for each fit and parameter, with the columns of `Fit.tidy`. Needs pandas."""
        rows = [
            {
                "fit": fit.name,
                "target": fit.target,
                "term": one.label[0],
                "estimate": one.value,
                "std_error": one.std_error,
                "conf_low": one.conf_low,
                "conf_high": one.conf_high,
                "p_value": one.pvalue,
                "privacy_share": share,
                "estimator": fit.estimator,
            }
            for fit in self.fits
            for one, share in zip(fit.estimates, fit.privacy_shares, strict=True)
        ]
        return load_pandas().DataFrame(rows)

    def _view(self) -> View:
        said = [f"{fit.name}: {text}" for fit in self.fits for text in fit.notes]
        return (self._table(self._beside()), *map(Note, [NOTE, *said]))

    def _paper(self) -> View:
        """Return coefficients, n and the charge; targets where they differ."""
        left_out = {"estimator", "privacy noise", *["target"] * (len({fit.target for fit in self.fits}) == 1)}
        return (self._table({head: cells for head, cells in self._beside().items() if head not in left_out}),)

    def _beside(self) -> dict[str, list[str]]:
        """Return what stands below coefficients, fit by fit."""
        return {
            "target": [fit.target for fit in self.fits],
            "estimator": [fit.estimator for fit in self.fits],
            "n": [fit.rows for fit in self.fits],
            "privacy charged": [fit.charged for fit in self.fits],
            "privacy noise": [fit.noise for fit in self.fits],
        }

    def _table(self, beside: Mapping[str, Sequence[str]]) -> Table:
        terms = dict.fromkeys(one.label[0] for fit in self.fits for one in fit.estimates)
        found = [{one.label[0]: one for one in fit.estimates} for fit in self.fits]
        rows: list[Sequence[Inline]] = [
            (untrusted(term), *(_cell(of_fit[term]) if term in of_fit else "" for of_fit in found)) for term in terms
        ]
        total = len(rows)
        rows += [(head, *map(untrusted, values)) for head, values in beside.items() if any(values)]
        heads: tuple[Inline, ...] = ("term", *(untrusted(fit.name) for fit in self.fits))
        caption = f"Coefficients with {percent_of(self.level)} intervals"
        return table(caption, heads, rows, numeric=range(1, len(heads)), total=total)

    __repr__ = Displayable.__str__


@takes_level
def compare(*fits: Fit | Mapping[str, Fit], level: float = 0.95, target: str | None = None, **named: Fit) -> Comparison:
    """Put fits side by side: coefficients with intervals, rows, what was charged, and the share of privacy noise.

    Parameters
    ----------
    *fits : fits, or mappings of str to fits
        A fit without a name has that of its class.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    target : str, optional
        One of the targets; needed where a fit has several.
    **named : fits
        By name: ``compare(small=fit, large=other)``.

    Returns
    -------
    Comparison
        With a column for each fit, in the order that was given; `tidy` makes a data frame of it.

    Raises
    ------
    EstimationError
        When one is not fitted.
    ValueError
        When there is no fit, one is none, two have one name, or a fit has several targets.

    Examples
    --------
    >>> from analyst_client import OLS, AdaSSP, Release, compare
    >>> release = Release.from_arrays([[300.0, 0.0], [0.0, 20.0]], [150.0, 6.0], 90.0, features=["age"], noise=3.0)
    >>> both = compare(OLS().fit(release), AdaSSP().fit(release))
    >>> [fit.name for fit in both.fits], round(both.fits[1].estimates[1].value, 3)
    (['OLS', 'AdaSSP'], 0.211)
    """
    listed = list(_named([*fits, named]))
    names = [name for name, _ in listed]
    if not listed:
        raise ValueError("a comparison needs at least one fit")
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two fits have the name {', '.join(sorted(twice))}")
    return Comparison(tuple(_compared(name, fit, level, target) for name, fit in listed), level)


def _named(given: Sequence[object]) -> Iterator[tuple[str, Fit]]:
    """Yield fits with their names; those of one class are numbered from the second on."""
    counts: dict[str, int] = {}
    for one in given:
        if isinstance(one, Fit):
            name = type(one).__name__
            counts[name] = counts.get(name, 0) + 1
            yield (name if counts[name] == 1 else f"{name} ({counts[name]})"), one
        elif isinstance(one, Mapping) and all(isinstance(fit, Fit) for fit in one.values()):
            yield from ((str(name), fit) for name, fit in one.items())
        else:
            raise ValueError(f"a comparison is of fits, and a {type(one).__name__} is none")


def _compared(name: str, fit: Fit, level: float, target: str | None) -> ComparedFit:
    """Return what a comparison shows of a fit."""
    results = fit._results_of(target)
    head, none = dict(fit._head(results)), np.full(len(results.names), np.nan)
    ends, errors, pvalues, shares = np.column_stack([none, none]), none, none, none
    try:
        ends, errors, pvalues = results.conf_int(level), results.std_errors, results.pvalues
        shares = np.broadcast_to(fit._privacy_share(results), none.shape)
        count = len(fit.caveats(level, target))
        notes = [f"{count} caveat{'s' * (count > 1)}: see its summary()."] if count else []
    except EstimationError as error:
        notes = [f"points alone, as {error}."]
    numbers = (results.params, errors, *ends.T, pvalues)
    columns = zip(results.names, *(column.tolist() for column in numbers), strict=True)
    return ComparedFit(
        name=name,
        estimator=repr(fit),
        target=f"{fit._link}{results.target.name}",
        rows=head.get("n", ""),
        charged=head.get("privacy charged", ""),
        estimates=tuple(Estimate((term,), *values) for term, *values in columns),
        privacy_shares=tuple(shares.tolist()),
        slopes=range(results.first, len(results.names)),
        notes=tuple(notes),
    )


def _cell(one: Estimate) -> str:
    return number(one.value) if np.isnan(one.conf_low) else f"{number(one.value)} {one.interval}"
