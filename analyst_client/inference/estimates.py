"""Estimates with intervals, as a table for a terminal, a notebook and a data frame."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.display.displayable import Displayable
from analyst_client.display.figures import draw
from analyst_client.display.model import Note, View, table
from analyst_client.inference.multiplicity import holm
from analyst_client.inference.summary import load_pandas, number, p_text, percent_of
from analyst_client.schema.columns import CONSTANT

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Estimate:
    """One number with its uncertainty.

    Attributes
    ----------
    label : tuple of str
        Names under which it stands in its table.
    value : float
    std_error : float
        Of sampling and privacy noise; NaN where none is stated.
    conf_low, conf_high : float
        Ends of the confidence interval; infinite where the release does not bound it.
    pvalue : float
        Of the hypothesis that the table states; NaN where it states none.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> estimate = fit.table()["age"]
    >>> estimate.label, round(estimate.value, 4), round(estimate.std_error, 4), estimate.interval
    (('age',), 0.0175, 0.0017, '[0.01416, 0.02089]')
    """

    label: tuple[str, ...]
    value: float
    std_error: float
    conf_low: float
    conf_high: float
    pvalue: float = math.nan

    @property
    def interval(self) -> str:
        """The interval as text."""
        return f"[{number(self.conf_low)}, {number(self.conf_high)}]"


@dataclass(frozen=True)
class EstimateTable(Displayable):
    """Estimates with confidence intervals, sampling error and privacy noise included.

    Attributes
    ----------
    title : str
    heads : tuple of str
        Meaning of the parts of each label.
    estimates : tuple of Estimate
    notes : tuple of str
        Assumptions, and what to beware of.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).
    across : int or None
        Part of the label that stands in columns where the table is shown.
    ratio : str
        Name of the estimates where they are exponentials, such as odds ratios; standard errors are of their logarithms.

    Examples
    --------
    >>> from analyst_client import Release, describe
    >>> release = Release.from_arrays([[3.0, 0.0], [0.0, 2.0]], [[1.5], [0.6]], features=["age"])
    >>> describe(release)["age", "", "mean"].value
    0.0
    """

    title: str
    heads: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...] = ()
    level: float = 0.95
    across: int | None = None
    ratio: str = ""

    def __getitem__(self, label: str | tuple[str, ...]) -> Estimate:
        """Return the estimate under a label. Raise `KeyError` for an unknown one."""
        wanted = (label,) if isinstance(label, str) else label
        for estimate in self.estimates:
            if estimate.label == wanted:
                return estimate
        raise KeyError(f"no estimate {wanted!r}; labels are {', '.join(self.heads)}")

    def __iter__(self) -> Iterator[Estimate]:
        """Yield the estimates."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """Return how many estimates there are."""
        return len(self.estimates)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the member that has what pandas and statsmodels call so."""
            hint = {"as_latex": ": see to_latex()"} | dict.fromkeys(("to_frame", "summary_frame"), ": see tidy()")
            said = f"{type(self).__name__} has no attribute {name!r}{hint.get(name, '')}"
            raise AttributeError(said, name=name, obj=self)

    @property
    def adjusted_pvalues(self) -> tuple[float, ...]:
        """Holm's p-values of the estimates that test something; the constant is left out, and NaN as those are."""
        family = [j for j, one in enumerate(self.estimates) if CONSTANT not in one.label and not math.isnan(one.pvalue)]
        found = np.full(len(self.estimates), math.nan)
        found[family] = holm(np.array([self.estimates[j].pvalue for j in family]))
        return tuple(found.tolist())

    def tidy(self) -> "pd.DataFrame":
        """Return a data frame with one row for each estimate. Needs pandas."""
        rows = [
            {
                **dict(zip(self.heads, one.label, strict=True)),
                "estimate": one.value,
                "std_error": one.std_error,
                "conf_low": one.conf_low,
                "conf_high": one.conf_high,
                "p_value": one.pvalue,
                "p_holm": adjusted,
            }
            for one, adjusted in zip(self.estimates, self.adjusted_pvalues, strict=True)
        ]
        return load_pandas().DataFrame(rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimates and intervals; needs the extra ``plots``, see `analyst_client.plots.estimate_forest`.

        Parameters
        ----------
        ax : Axes, optional
            Default those of a new figure.

        Returns
        -------
        Axes
            With a row for each estimate.
        """
        return draw("estimate_forest", self, ax)

    def _view(self) -> View:
        shown = self._long() if self.across is None else self._wide(self.across)
        heads, rows = shown
        numeric = range(len(self.heads) - (self.across is not None), len(heads))
        return (table(self.title, heads, rows, numeric=numeric), *map(Note, self.notes))

    def _paper(self) -> View:
        return self._view()[:1]  # without notes

    def _long(self) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        named = [self.ratio, "std err of log"] if self.ratio else ["estimate", "std err"]
        heads = [*self.heads, *named, f"{percent_of(self.level)} from", "to"]
        adjusted = self.adjusted_pvalues
        told = [sum(not math.isnan(p) for p in ps) for ps in ([one.pvalue for one in self.estimates], adjusted)]
        tested = ["p", "p Holm"][: (told[0] > 0) + (told[1] > 1)]
        rows = [
            (
                *one.label,
                *map(number, (one.value, one.std_error, one.conf_low, one.conf_high)),
                *map(p_text, (one.pvalue, holm_pvalue)[: len(tested)]),
            )
            for one, holm_pvalue in zip(self.estimates, adjusted, strict=True)
        ]
        return [*heads, *tested], rows

    def _wide(self, across: int) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        columns = list(dict.fromkeys(one.label[across] for one in self.estimates))
        lines: dict[tuple[str, ...], dict[str, str]] = {}
        for one in self.estimates:
            beside = one.label[:across] + one.label[across + 1 :]
            lines.setdefault(beside, {})[one.label[across]] = f"{number(one.value)} {one.interval}"
        heads = [*self.heads[:across], *self.heads[across + 1 :], *columns]
        return heads, [(*beside, *(cells.get(name, "") for name in columns)) for beside, cells in lines.items()]

    __repr__ = Displayable.__str__


def exponentiated(table: EstimateTable, ratio: str) -> EstimateTable:
    """Return the exponentials of estimates and of both ends of their intervals; the rest is as it was.

    Examples
    --------
    >>> one = Estimate(("age",), 0.0, 0.5, -math.inf, 1.0, 0.3)
    >>> exponentiated(EstimateTable("t", ("term",), (one,)), "odds ratio").estimates[0].interval
    '[0, 2.718]'
    """
    found = []
    for one in table.estimates:
        value, low, high = exponentials([one.value, one.conf_low, one.conf_high])
        found.append(replace(one, value=value, conf_low=low, conf_high=high))
    return replace(table, estimates=tuple(found), ratio=ratio)


def exponentials(values: ArrayLike) -> list[float]:
    """Return exponentials; infinite where they are too large.

    Examples
    --------
    >>> exponentials([-math.inf, 0.0, 1e4])
    [0.0, 1.0, inf]
    """
    with np.errstate(over="ignore"):
        found: list[float] = np.exp(np.asarray(values, dtype=np.float64)).tolist()
    return found


def warned(caveats: Iterable[str]) -> tuple[str, ...]:
    """Return caveats as notes, each once.

    Examples
    --------
    >>> warned(["rows were weighted.", "rows were weighted."])
    ('Warning: rows were weighted.',)
    """
    return tuple(f"Warning: {text}" for text in dict.fromkeys(caveats))
