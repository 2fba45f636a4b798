"""Tables of a fit: its coefficients, its quality and its caveats, as values, frames and texts."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from analyst_client.display.figures import draw
from analyst_client.display.latex import as_latex
from analyst_client.display.model import Note, View, table
from analyst_client.errors import EstimationError
from analyst_client.estimators.fitted import Fitted
from analyst_client.inference.base import Bound, Results
from analyst_client.inference.caveats import bound_text, bound_warnings
from analyst_client.inference.contrasts import (
    coefficient_table,
)
from analyst_client.inference.estimates import EstimateTable, exponentials, exponentiated, warned
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import (
    CALL,
    FAMILY_NOTE,
    Summary,
    bounds,
    load_pandas,
    numbers,
    p_columns,
    p_text,
    percent_of,
)
from analyst_client.level import takes_level

if TYPE_CHECKING:
    import pandas as pd

Columns = list[tuple[str, Sequence[str]]]
"""Columns of a summary with their heads."""
GLANCE = (
    *("r_squared", "adj_r_squared", "r_squared_low", "r_squared_high", "sigma"),
    *("statistic", "p_value", "df", "df_residual", "nobs", "identification"),
)
"""Columns of `Fit.glance` that are numbers: broom's, with the interval of R² and the strength of the data."""


class Telling(Fitted):
    """The part of a fit that shows it."""

    @takes_level
    def table(self, level: float = 0.95, target: str | None = None, *, exponentiate: bool = False) -> EstimateTable:
        """Return the parameters by name, each with its standard error, interval and p-value.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        target : str, optional
            One of the targets; needed where the fit has several.
        exponentiate : bool
            Of logistic and Poisson fits odds or rate ratios, and their intervals. Standard errors stay those of
            coefficients.

        Returns
        -------
        EstimateTable
            Of `params_`, `std_errors_`, `conf_int` and `pvalues_`: ``fit.table()["age"].std_error``.

        Raises
        ------
        ValueError
            When the exponential of a coefficient is no ratio: of a linear fit.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> age = fit.table()["age"]
        >>> round(age.value, 4), age.interval
        (0.0175, '[0.01416, 0.02089]')
        """
        self._check_ratios(exponentiate)
        results = self._results_of(target)
        notes = (*self._test_notes(results), *warned(self.caveats(level, target)))
        return self._coefficients(results, level, notes, exponentiate)

    def _check_ratios(self, exponentiate: bool) -> None:
        if exponentiate and not self._ratio:
            raise ValueError(
                "exponentiate=True is of logistic and Poisson fits, which have odds and rate ratios: coefficients of "
                f"{type(self).__name__} are in units of the target"
            )

    def _coefficients(self, results: Any, level: float, notes: Sequence[str], exponentiate: bool) -> EstimateTable:
        found = coefficient_table(results, level, notes)
        return exponentiated(found, self._ratio) if exponentiate else found

    @takes_level
    def tidy(self, level: float = 0.95, *, exponentiate: bool = False) -> "pd.DataFrame":
        """Return a data frame with one row for each parameter and target. Needs pandas.

        Its columns are broom's (``term``, ``estimate``, ``std_error``, ``statistic``, ``p_value``, ``conf_low``,
        ``conf_high``) beside ``target``, ``p_holm``, ``conf_set``, ``privacy_share`` and ``estimator``. The statistic
        is the signed root of the one that p-values are of: Student's without noise. NaN is what a model has not.

        Parameters
        ----------
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        exponentiate : bool
            As for `table`, and in broom.

        Returns
        -------
        DataFrame
            With an index of its own.

        Raises
        ------
        ValueError
            When the exponential of a coefficient is no ratio: of a linear fit.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.tidy()[["term", "estimate", "conf_low", "conf_high"]].round(3)
                 term  estimate  conf_low  conf_high
        0  (constant)    -0.819    -1.074     -0.565
        1         age     0.018     0.014      0.021
        2      sex[M]    -0.073    -0.153      0.006
        3  creatinine     1.052     0.869      1.236
        """
        self._check_ratios(exponentiate)
        frames = []
        for results in self._all_results():
            frame = self._coefficients(results, level, (), exponentiate).tidy()
            frame["p_holm"] = results.adjusted_pvalues()
            frame.insert(0, "target", results.target.name)
            frame.insert(4, "statistic", results.statistics)
            frame["conf_set"] = [found.kind for found in results.confidence_sets(level)]
            frames.append(frame.assign(privacy_share=self._privacy_share(results), estimator=type(self).__name__))
        return load_pandas().concat(frames, ignore_index=True)

    @takes_level
    def glance(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a data frame with one row for each target: what the fit as a whole is worth. Needs pandas.

        Its columns are broom's (``r_squared``, ``adj_r_squared``, ``sigma``, ``statistic``, ``p_value``, ``df``,
        ``df_residual``, ``nobs``) beside ``target``, ``estimator``, ``r_squared_low``, ``r_squared_high``,
        ``identification`` and ``releases``. NaN is what a model has not, or the noise hides.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.glance()["r_squared"].round(2).tolist()
        [0.26]
        """
        rows = []
        for results in self._all_results():
            told = self._glance(results.told, level)
            if len(results.slopes):
                test = results.f_test()
                told |= {"statistic": test.statistic, "p_value": test.pvalue, "df": test.constraints}
            head = {"target": results.target.name, "estimator": type(self).__name__}
            rows.append(head | dict.fromkeys(GLANCE, np.nan) | told)
        return load_pandas().DataFrame(rows)

    @abstractmethod
    def _glance(self, results: Any, level: float) -> dict[str, float]:
        """Return the columns of `glance` that this kind of fit knows, and the number of releases."""

    def _privacy_share(self, results: Any) -> Any:
        """Return the share of each parameter's variance that is privacy noise; NaN where it is not told."""
        return np.nan

    @takes_level
    def caveats(self, level: float = 0.95, target: str | None = None) -> tuple[str, ...]:
        """Return what makes the fit less sure than its numbers look, as `summary` says it; empty where nothing does.

        Weak identification, releases that disagree, a target that seems to have been clipped to its bounds, standard
        errors that assume one residual variance, a posterior that is mostly the prior's, too few cases, separated
        classes, rows that were clipped, bounds that let a few rows lie far out.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        tuple of str
            A sentence for each.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.caveats()
        ()
        """
        return tuple(self._caveats(self._results_of(target), level))

    @abstractmethod
    def _caveats(self, results: Any, level: float) -> Iterable[str]:
        """Return what to beware of."""

    @takes_level
    def summary(self, level: float = 0.95, target: str | None = None, bound: Bound | None = None) -> Summary:
        """Return a table of coefficients with the quality of the fit and warnings; HTML in notebooks.

        Parameters
        ----------
        level, target : optional
            As for `table`.
        bound : float or mapping of str to float, optional
            As for `conf_int`, whose intervals under it are shown; of a Bayesian fit those of the score test, which have
            no prior. Default none.

        Returns
        -------
        Summary
            Printed, it is text. Of points alone where nothing else can be told; a note says why.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> print(fit.summary())  # doctest: +ELLIPSIS
        kappa (mg/dL) by RefinedRegression()
        ────────────────────────────────────────────────────────────────────────────────
        n                6,460 rows, noisy
        ...
        age          0.01752  0.001716  < 0.001  < 0.001      67%   0.01416   0.02089
        ...
        """
        shown = self._summarise(level, target, bound)
        if "choice_" not in vars(self):
            return shown
        return replace(shown, facts=(*shown.facts, (CALL, self.choice_.call)))

    def _summarise(self, level: float, target: str | None, bound: Bound | None = None) -> Summary:
        """Return the summary without the call that does the same, which is too long for a document."""
        results = self._results_of(target)
        stated = [*self._head(results), ("coefficients", str(len(results.names)))]
        columns = self._points(results)
        try:
            columns, notes = self._figures(results, level, bound)
            stated += self._facts(results, level, bound)
        except EstimationError as error:
            if bound is not None:
                raise
            notes = [f"Warning: {error}."]
        notes += self._own_notes()
        with suppress(EstimationError):  # which is the reason that there are points alone
            notes += warned(self._caveats(results, level))
        unit = f" ({results.target.unit})" if results.target.unit else ""
        heads, cells = zip(*columns, strict=True)
        title = f"{results.target.name}{unit} by {self!r}"
        return Summary(
            title, tuple(stated), ("term", *heads), tuple(zip(results.names, *cells, strict=True)), tuple(notes)
        )

    @takes_level
    def plot(
        self,
        terms: Sequence[str] | None = None,
        level: float = 0.95,
        ax: Any = None,
        *,
        target: str | None = None,
        scaled: bool = False,
    ) -> Any:
        """Draw the coefficients with their intervals; needs the extra ``plots``.

        Parameters
        ----------
        terms : sequence of str, optional
            Terms to draw, from top to bottom. Default all but the constant.
        level : float
            Probability that an interval holds the truth, in [0.5, 1).
        ax : Axes, optional
            Default those of a new figure.
        target : str, optional
            One of the targets; needed where the fit has several.
        scaled : bool
            Multiply each coefficient with half the range of its term, so that they compare.

        Returns
        -------
        Axes
            With a row for each term: see `analyst_client.plots.coefficient_forest`, which draws several fits too.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> [label.get_text() for label in fit.plot().get_yticklabels()]
        ['age (years)', 'sex[M]', 'creatinine (mg/dL)']
        """
        self._check_fitted()
        return draw("coefficient_forest", self, terms, level, ax=ax, target=target, scaled=scaled)

    @takes_level
    def to_html(self, level: float = 0.95, target: str | None = None) -> str:
        """Return the `summary` as HTML.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        str
            An element with a style of its own.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> "<table" in fit.to_html()
        True
        """
        return self._summarise(level, target).to_html()

    @takes_level
    def to_latex(
        self,
        level: float = 0.95,
        target: str | None = None,
        *,
        caption: str | None = None,
        label: str | None = None,
    ) -> str:
        r"""Return the coefficients as a table of LaTeX for a paper, with n and the privacy charged below.

        It has estimates, standard errors, intervals and p-values; of logistic and Poisson fits odds or rate ratios and
        their intervals, too. Quality and warnings stand in `summary`.

        Parameters
        ----------
        level, target : optional
            As for `table`.
        caption : str, optional
            Text. Default says what coefficients are of.
        label : str, optional
            Such as ``"tab:kappa"``, for ``\ref``. Default none.

        Returns
        -------
        str
            A float, for a document with ``\usepackage{booktabs}``.

        Raises
        ------
        ValueError
            When LaTeX could not read the label.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.to_latex().splitlines()[2]
        '\\caption{Coefficients for kappa (mg/dL)}'
        """
        return as_latex(self._paper(self._results_of(target), level), caption, label)

    def _paper(self, results: Any, level: float) -> View:
        """Return the coefficients with intervals, n, and what was charged."""
        (_, values), *ratios = self._points(results)
        columns: Columns = [("estimate", values), *ratios]
        with suppress(EstimationError):  # points are all there is
            found, interval = coefficient_table(results, level, ()), f"{percent_of(level)} interval"
            errors = numbers(one.std_error for one in found)
            columns[1:1] = [
                (self._error_head(results), errors),
                (interval, [one.interval for one in found]),
                ("p", [p_text(one.pvalue) for one in found]),
            ]
            if ratios:
                columns.append((interval, [one.interval for one in exponentiated(found, self._ratio)]))
        heads, cells = zip(*columns, strict=True)
        unit = f" ({results.target.unit})" if results.target.unit else ""
        caption = f"Coefficients for {self._link}{results.target.name}{unit}"
        rows = zip(results.names, *cells, strict=True)
        told = [Note(f"{name}: {value}") for name, value in self._head(results) if name in {"n", "privacy charged"}]
        return (table(caption, ("term", *heads), rows, numeric=range(1, 1 + len(heads))), *told)

    @takes_level
    def to_markdown(self, level: float = 0.95, target: str | None = None) -> str:
        """Return the `summary` in Markdown.

        Parameters
        ----------
        level, target : optional
            As for `table`.

        Returns
        -------
        str
            Tables and paragraphs.

        Examples
        --------
        >>> from analyst_client.tutorial import recorded_client
        >>> client = recorded_client("one_call")
        >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
        >>> fit.to_markdown().splitlines()[0]
        '**kappa (mg/dL) by RefinedRegression()**'
        """
        return self._summarise(level, target).to_markdown()

    def _figures(self, results: Any, level: float, bound: Bound | None) -> tuple[Columns, list[str]]:
        """Return the columns of a summary, and notes on them."""
        points, *ratios = self._points(results)
        errors, tested = numbers(results.std_errors.tolist()), p_columns(results.pvalues, results.first)
        columns = [points, (self._error_head(results), errors), *tested.items(), *self._beside(results).items()]
        if bound is None:
            sets = results.confidence_sets(level)
        else:
            sets = [ConfidenceSet("interval", *ends) for ends in results.conf_int(level, "fieller", bound).tolist()]
        low, high = zip(*map(bounds, sets), strict=True)
        columns += [(f"{percent_of(level)} from", low), ("to", high)]
        if ratios:
            lower, upper = np.array([one.hull for one in sets]).T
            columns += [*ratios, ("from", numbers(exponentials(lower))), ("to", numbers(exponentials(upper)))]
        notes = self._notes(results, sets)
        if "p Holm" in tested:
            notes.insert(1, FAMILY_NOTE)
        if bound is not None:
            said = f"Intervals rest on a bound that was stated, {bound_text(bound)}, and hold only if it is true."
            notes.insert(1, said)
            notes += warned(bound_warnings(results.names, np.array([one.hull for one in sets])))
        return columns, notes

    def _points(self, results: Results) -> Columns:
        """Return the coefficients as columns of a summary, and their exponentials where these are ratios."""
        values = results.params.tolist()
        return [("coef", numbers(values)), *[(self._ratio, numbers(exponentials(values)))] * bool(self._ratio)]

    @abstractmethod
    def _head(self, results: Any) -> list[tuple[str, str]]:
        """Return the facts of a summary that points have: n, what was charged, the baseline levels."""

    def _facts(self, results: Any, level: float, bound: Bound | None) -> list[tuple[str, str]]:
        """Return the other facts of a summary."""
        return []

    def _error_head(self, results: Any) -> str:
        """Return the head of the standard errors."""
        return "std err"

    def _beside(self, results: Any) -> dict[str, list[str]]:
        """Return columns of a summary that stand before intervals."""
        return {}

    @abstractmethod
    def _notes(self, results: Any, sets: Sequence[ConfidenceSet]) -> list[str]:
        """Return what the figures of a summary are, and on what they rest."""

    def _own_notes(self) -> tuple[str, ...]:
        """Return what a summary says of this estimator, also of points."""
        return ()
