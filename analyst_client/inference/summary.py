"""A fit on paper: a summary as text and as HTML, and as data frames."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.displayable import Displayable
from analyst_client.display.html import as_html
from analyst_client.display.model import Note, View, facts, percent, table
from analyst_client.display.terminal import as_text
from analyst_client.errors import EstimationError
from analyst_client.inference.agreement import heterogeneity_test
from analyst_client.inference.equations import Equations
from analyst_client.inference.heads import head_of
from analyst_client.inference.meat import affords_meat
from analyst_client.inference.multiplicity import count_models, holm
from analyst_client.inference.posterior import CoefficientDraws, PosteriorDraws
from analyst_client.inference.results import Bound, TargetResults
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.shrinkage import NormalPosterior
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.row_lengths import describe_choice

if TYPE_CHECKING:
    import pandas as pd

Rows = list[tuple[str, ...]]
CLIPPED_SHARE = 0.01
DISAGREEMENT = 0.01
PRIVACY_SHARE = 0.8
RHAT_MAX, ESS_MIN = 1.01, 400.0
WEAK_RATIO = 4.0
"""Identification below which bounded intervals may be so by chance; see docs/inference.md."""
SMALL_SHARE = 0.7
"""Of the squared norm of the longest row: what is shrunk no further moves coefficients by little on real sets."""
ESTIMAND_NOTE = (
    "Intervals are of the coefficients of the best linear prediction over all rows alike. A value beyond a declared "
    "bound counts as the bound."
)
HOLM_NOTE = "'p Holm' allows for all slopes of this fit, so that the smallest may be picked."
TOGETHER_NOTE = "Intervals hold one by one; those of conf_int(simultaneous=True) hold all together."
NOISE_DOMINATES = 0.8
"""Share of privacy noise in each variance, below which a shift by weights of rows would be seen."""


@dataclass(frozen=True)
class Summary(Displayable):
    """A table of coefficients with the quality of the fit and warnings.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        A name and a value.
    heads : tuple of str
    rows : tuple of tuple of str
        One for each parameter.
    notes : tuple of str
        Warnings and explanations.
    caption : str
        What the rows are.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    caption: str = "Coefficients"

    def _view(self) -> View:
        numeric = range(1, len(self.heads))
        return (
            facts(self.title, self.facts),
            table(self.caption, self.heads, self.rows, numeric=numeric),
            *map(Note, self.notes),
        )

    def as_text(self) -> str:
        """Return plain text."""
        return as_text(self._view())

    def as_html(self) -> str:
        """Return a piece of HTML: two tables and notes."""
        return as_html(self._view())

    __repr__ = Displayable.__str__


def summarise(
    estimator: str,
    results: TargetResults,
    level: float = 0.95,
    bound: Bound | None = None,
    spent: str | None = None,
) -> Summary:
    """Summarise one target's fit; of one that is biased, the points alone."""
    if results.equations.is_biased:
        return summarise_points(estimator, results)
    target = results.equations.target
    unit = f" ({target.unit})" if target.unit else ""
    title = f"{target.name}{unit} by {estimator}"
    stated = [*head_of(results.equations, spent), ("coefficients", str(len(results.names)))]
    if len(results.equations.sites) > 1:
        weights = ", ".join(f"{weight:.3g}" for weight in results.equations.weights)
        stated.append(("releases, weighted", f"{len(results.equations.sites)} ({weights})"))
    low, high = results.rsquared_interval(level)
    point = "–" if math.isnan(results.rsquared) else number(results.rsquared)
    stated.append(("R²", f"{point}  [{number(low)}, {number(high)}]"))
    stated.append(("residual sd", residual_text(results)))
    if len(results.names) > int(results.equations.has_constant):
        test = results.f_test()
        stated.append(
            (
                f"F({test.constraints}, {test.dof:,.0f})",
                f"{number(test.statistic)}, p {p_text(test.pvalue, relation=True)}",
            )
        )
    strength = results.identification(level)
    meter = number(strength.ratio) if strength.ratio < 100.0 else "above 100"
    stated.append(("identification", f"{meter} (intervals are bounded above 1)"))
    if bound is None:
        sets = results.confidence_sets(level)
    else:
        sets = [ConfidenceSet("interval", *ends) for ends in results.bounded_intervals(bound, level).tolist()]
    tested = p_columns(results.pvalues, int(results.equations.has_constant))
    rows = [
        (name, number(value), number(error), *ps, "–" if math.isnan(share) else f"{share:.0%}", *bounds(found))
        for name, value, error, *ps, share, found in zip(
            results.names, results.params, results.bse, *tested.values(), results.privacy_share, sets, strict=True
        )
    ]
    heads = ("term", "coef", "std err", *tested, "privacy", f"{percent_of(level)} from", "to")
    said = notes(results, sets, level)
    if bound is not None:
        said.insert(1, f"Intervals rest on a bound that was stated, {bound_text(bound)}, and hold only if it is true.")
        said += [f"Warning: {text}" for text in bound_warnings(results, np.array([one.hull for one in sets]))]
    said += [f"Warning: {text}" for text in outside_warnings(results, sets)]
    return Summary(title, tuple(stated), heads, tuple(rows), tuple(said))


def outside_warnings(results: TargetResults, sets: Sequence[ConfidenceSet]) -> list[str]:
    """Return which coefficients lie outside of their own intervals: they shrink, and intervals do not."""
    outside = [
        name for name, value, found in zip(results.names, results.params, sets, strict=True) if value not in found
    ]
    if not outside:
        return []
    return [
        f"{', '.join(outside)}: the coefficient is outside of its own interval, as this estimator shrinks it. That "
        "bias is in no standard error. Report the interval, or fit OLS(), which does not shrink."
    ]


def residual_text(results: TargetResults) -> str:
    """Return the residual deviation as text; a dash where the noise hides it."""
    return "–" if math.isnan(results.scale) else number(math.sqrt(results.scale))


def summarise_points(estimator: str, results: TargetResults) -> Summary:
    """Summarise a fit of which nothing is told but its points."""
    target = results.equations.target
    title = f"{target.name}{f' ({target.unit})' if target.unit else ''} by {estimator}"
    stated = (*head_of(results.equations), ("coefficients", str(len(results.names))))
    rows = tuple((name, number(value)) for name, value in zip(results.names, results.params, strict=True))
    return Summary(title, stated, ("term", "coef"), rows, tuple(f"Warning: {text}" for text in warnings_of(results)))


def summarise_posterior(
    estimator: str,
    results: TargetResults,
    drawn: CoefficientDraws,
    draws: FloatArray,
    level: float = 0.95,
    caveats: Sequence[str] = (),
    spent: str | None = None,
) -> Summary:
    """Summarise one target's posterior, of which `draws` are the parameters in raw units."""
    target = results.equations.target
    unit = f" ({target.unit})" if target.unit else ""
    flat = draws.reshape(-1, draws.shape[-1])
    low, high = np.quantile(flat, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    if isinstance(drawn, PosteriorDraws):
        residuals = target.scale / np.sqrt(drawn.residual_precision)
        residual = f"{number(float(np.mean(residuals)))} ± {number(float(np.std(residuals)))}"
    else:  # of a refinement it is taken as known
        residual = residual_text(results)
    stated = [
        *head_of(results.equations, spent),
        ("draws", f"{draws.shape[1]:,} in each of {draws.shape[0]} chains"),
        ("residual sd", residual),
        ("definite draws", f"{drawn.definite_share:.0%} of the latent XᵀX"),
    ]
    columns = (flat.mean(axis=0), flat.std(axis=0), low, high, drawn.sd_ratio, drawn.ess, drawn.rhat)
    rows = [
        (name, *map(number, values[:4]), f"{values[4]:.2f}", f"{values[5]:.0f}", f"{values[6]:.3f}")
        for name, *values in zip(results.names, *(map(float, column) for column in columns), strict=True)
    ]
    found = ["sd / prior is how much of the prior's spread is left, in scaled units: near 0 the data speak."]
    found += weight_notes(results)
    said = [*posterior_warnings(results, drawn), *clipping_warnings(results), *caveats]
    if not isinstance(drawn, PosteriorDraws):
        said += variance_warnings(results)
    found += [f"Warning: {text}" for text in said]
    heads = ("term", "mean", "sd", f"{percent_of(level)} from", "to", "sd / prior", "ESS", "R̂")
    return Summary(f"{target.name}{unit} by {estimator}", tuple(stated), heads, tuple(rows), tuple(found))


def bound_warnings(results: TargetResults, intervals: FloatArray) -> list[str]:
    """Return what to say where no value of a parameter agrees with a stated bound."""
    empty = [name for name, (low, _) in zip(results.names, intervals, strict=True) if math.isnan(low)]
    if not empty:
        return []
    return [f"no value of {', '.join(empty)} agrees with both the release and the stated bound: is the bound true?"]


def bound_text(bound: Bound) -> str:
    """Return a stated bound as text.

    Examples
    --------
    >>> bound_text(2.0), bound_text({"age": 0.1})
    ('2 for the effects of all terms together', '0.1 for age')
    """
    if not isinstance(bound, Mapping):
        return f"{number(bound)} for the effects of all terms together"
    return ", ".join(f"{number(limit)} for {name}" for name, limit in bound.items())


def percent_of(level: float) -> str:
    """Return the coverage of intervals as a percentage.

    Examples
    --------
    >>> percent_of(0.95), percent_of(0.999)
    ('95%', '99.9%')
    """
    return f"{100.0 * level:.6g}%"


def notes(results: TargetResults, sets: Sequence[ConfidenceSet], level: float) -> list[str]:
    """Return what a reader should know."""
    found = [
        "Standard errors hold sampling and privacy noise; 'privacy' is the share of each variance that is privacy "
        "noise. Intervals and p-values invert the score test of the true coefficients (Fieller), whatever the "
        "estimator. All of them take rows for independent: several rows of one person count as persons."
    ]
    if len(results.names) > 1 + int(results.equations.has_constant):
        found.append(f"{HOLM_NOTE} {TOGETHER_NOTE}")
    found += weight_notes(results) + ([ESTIMAND_NOTE] if results.equations.counts_alike else [])
    found += [f"Warning: {text}" for text in warnings_of(results, level)]
    rays = [name for name, one in zip(results.names, sets, strict=True) if one.kind == "rays"]
    if rays:
        found.append(f"The set of {', '.join(rays)} is all but the open gap between the two numbers.")
    return found


def warnings_of(results: TargetResults, level: float = 0.95) -> list[str]:
    """Return what makes intervals less sure than they look: weak identification, disagreement, clipped targets."""
    if results.equations.is_biased:
        return selection_warnings(results)
    found = identification_warnings(results, level)
    if results.equations.residual_variance[0] <= 0.0:
        found.append(
            "the noise hides the residual variance: its estimate was below 0, so R² and the residual sd are not told. "
            "Prediction intervals allow for it."
        )
    return (
        found
        + agreement_warnings(results.equations)
        + selection_warnings(results)
        + family_warnings(results)
        + weight_warnings(results)
        + clipping_warnings(results)
        + variance_warnings(results)
    )


def weighted_releases(results: TargetResults) -> list[Release]:
    """Return the releases whose curators gave less weight to long rows: not those of a refinement, see its scores."""
    return [site.release for site in results.equations.sites if site.release.weights_rows and site.corrected is None]


def weight_notes(results: TargetResults) -> list[str]:
    """Return what the coefficients are of, where some curator gave less weight to long rows."""
    how = dict.fromkeys(release.weighting for release in weighted_releases(results) if release.weighting is not None)
    chosen = filter(None, map(describe_choice, weighted_releases(results)))
    robust = all(site.spread is not None for site in results.equations.sites)
    bounded = "" if robust else "; standard errors are upper bounds"
    return [
        f"{clause[0].upper()}{clause[1:]}: coefficients are those of the best linear prediction of rows so weighted, "
        f"which are those of unweighted rows only where the model is exactly linear{bounded}."
        for clause in how
    ] + [f"Row map: the {choice}." for choice in chosen]


def weight_warnings(results: TargetResults) -> list[str]:
    """Return what to say where the weights of rows may move coefficients further than the noise does."""
    small = any(r.norm is not None and r.norm**2 < SMALL_SHARE * r.longest_squared for r in weighted_releases(results))
    if not small or np.min(results.noise_share) >= NOISE_DOMINATES:
        return []
    return [
        "rows were shrunk to a small norm, and privacy noise is not by far the larger error: where the model is not "
        "exactly linear, coefficients may differ from those of unweighted rows by more than their standard errors. "
        "Ask with a larger norm, or rows='box'."
    ]


def variance_warnings(results: TargetResults) -> list[str]:
    """Return which standard errors rest on the assumption of one residual variance, because noise does not hide it."""
    first = int(results.equations.has_constant)
    pairs = zip(results.names[first:], results.noise_share[first:], strict=True)
    sampled = [name for name, share in pairs if share < PRIVACY_SHARE]
    sites = results.equations.sites
    if not sampled or all(site.spread is not None for site in sites):
        return []
    rest = (
        f"the standard errors of {', '.join(sampled)} are sampling errors in good part, and assume one residual "
        "variance"
    )
    if any(site.corrected is not None for site in sites):
        return [
            f"{rest}, as the price did not buy Σ g gᵀ from so few rows: where residuals are wider for some rows, "
            "intervals may hold the truth less often than they say."
        ]
    way = "client.release(…, robust=True) buys robust ones of one model, and so does client.refine(…)"
    if not all(site.spread is not None or affords_meat(site.release) for site in sites):
        way = "robust=True buys no others of so few rows at this price; a higher price does, and client.refine(…) may"
    return [
        f"{rest}, which a release cannot check: where residuals are wider for some rows they may be half of the truth. "
        f"{way}."
    ]


def agreement_warnings(equations: Equations) -> list[str]:
    """Return what to say where releases do not tell of the same coefficients, as far as they tell at all."""
    if len(equations.sites) < 2:
        return []
    try:
        agreement = heterogeneity_test(equations)
    except EstimationError:  # of releases without yᵀy, say
        return []
    if agreement.pvalue >= DISAGREEMENT:
        return []
    return [
        f"the releases do not tell of the same coefficients (p {p_text(agreement.pvalue, relation=True)}): what is "
        "fitted is an average of theirs, and the intervals do not hold their differences. "
        "conf_int(method='random-effects') does, and leave_one_site_out() shows who differs."
    ]


def family_warnings(results: TargetResults) -> list[str]:
    """Return what to say where several models were fitted on a release: the best of them is no test by itself."""
    models = max(count_models(site.release) for site in results.equations.sites)
    if models < 2:
        return []
    return [
        f"{models} models were fitted on this release in this session: the smallest p of several models is no test at "
        "its stated level, and their intervals do not hold together. adjusted_pvalues('release') and "
        f"conf_int(simultaneous='release') do, for all {results.family_size('release'):,} slopes of all fits that its "
        "columns allow."
    ]


def selection_warnings(results: TargetResults) -> list[str]:
    """Return what a fit is about, where it is of a part of a release."""
    return list(dict.fromkeys(text for site in results.equations.sites for text in site.release.caveats))


def bias_warnings(equations: Equations) -> list[str]:
    """Return a warning if the target took part in the weights of rows, so that the fit is biased."""
    if not equations.is_biased:
        return []
    return [f"{equations.target.name} took part in the weights of the rows: its fit is biased, and has no intervals."]


def identification_warnings(results: TargetResults, level: float = 0.95) -> list[str]:
    """Return what to say where the noise hides how terms vary: intervals are unbounded, or bounded by chance."""
    strength = results.identification(level)
    if strength.is_bounded:
        if strength.ratio >= WEAK_RATIO:
            return []
        return [
            f"XᵀX is barely told from noise (identification {number(strength.ratio)}): intervals are lopsided, and "
            "where a plan expects few releases to have bounded ones, these cover less than they say. Take "
            "orthogonal terms (poly), fewer of them, or a higher price."
        ]
    weakest = [
        name
        for name, weight in zip(results.names, strength.direction, strict=True)
        if weight**2 >= max(0.1, 0.5 * np.max(strength.direction**2))
    ]
    recovery_hint = (
        f"µ of the cost, or the number of rows, would have to be about {strength.factor:.2g} times as large, and "
        "more if terms are correlated"
        if math.isfinite(strength.factor)
        else "this release does not show how much more would bound them: the data are lost in the noise"
    )
    return [
        f"intervals are unbounded, because the noise hides the spread of {' and '.join(weakest)}; {recovery_hint}. "
        "Fewer terms, or bounds that fit more closely, help as well. So does what you know of the coefficients' size: "
        "conf_int(bound=…)."
    ]


def posterior_warnings(results: TargetResults, drawn: CoefficientDraws | NormalPosterior | None) -> list[str]:
    """Return why a posterior is not to be believed, or tells of the prior alone."""
    found: list[str] = []
    if drawn is None:
        return found
    dominated = [name for name, is_so in zip(results.names, drawn.prior_dominated, strict=True) if is_so]
    if dominated:
        found.append(f"the posterior of {', '.join(dominated)} is mostly the prior's: the release says little.")
    if isinstance(drawn, NormalPosterior):
        return [f"{text} Its intervals may miss much, those of 'fieller' do not." for text in found]
    if np.max(drawn.rhat) > RHAT_MAX or np.min(drawn.ess) < ESS_MIN:
        found.append("the chains have not mixed: draw more, or look at their traces.")
    return found


def clipping_warnings(results: TargetResults) -> list[str]:
    """Return what to say when a share of the target seems to be beyond its bounds, as two moments tell."""
    name, found = results.equations.target.name, []
    for bound, outside in beyond_bounds(results).items():
        if outside > CLIPPED_SHARE:
            found.append(
                f"{name} may be clipped at its declared bound of {number(bound)}: of a normal law with its mean and "
                f"variance {percent(outside)} would lie beyond. This release does not count them; "
                f"MarginalsRequest([Tree([{name!r}])]) does. Coefficients are those of the clipped values, drawn "
                "towards 0."
            )
    return found


def beyond_bounds(results: TargetResults) -> dict[float, float]:
    """Return the share of a normal law of the target's mean and variance that is beyond each of its declared bounds.

    A bound of 0 is left out: amounts and counts have no values below it, and many are 0 or small.
    """
    equations, shares = results.equations, dict[float, float]()
    if not equations.has_constant or equations.target.kind == "boolean":
        return shares
    for site in equations.sites:
        release = site.release
        if site.corrected is not None:  # its XᵀX is of combinations, and its target was cut to what was found
            continue
        target = release.target_names.index(equations.target.name)
        declared = release.targets[target]
        if (declared.scale == 1.0 and declared.center == 0.0) or release.yty is None or release.xty is None:
            continue
        assert release.xtx is not None
        rows = float(release.xtx[0, 0])
        if rows <= 0.0:
            continue
        mean = float(release.xty[0, target]) / rows
        variance = float(release.yty[target]) / rows - mean**2
        for side in (-1.0, 1.0):
            bound = declared.center + side * declared.scale
            if variance > 0.0 and abs(bound) > 1e-9 * declared.scale:
                share = 0.5 * math.erfc((1.0 - side * mean) / math.sqrt(2.0 * variance))
                shares[bound] = max(share, shares.get(bound, 0.0))
    return shares


def tidy(estimator: str, all_results: Sequence[TargetResults], level: float = 0.95) -> "pd.DataFrame":
    """Return one row for each parameter and target."""
    pandas = load_pandas()
    frames = []
    for results in all_results:
        interval = results.conf_int(level)
        frames.append(
            pandas.DataFrame(
                {
                    "target": results.equations.target.name,
                    "term": list(results.names),
                    "estimate": results.params,
                    "std_error": results.bse,
                    "p_value": results.pvalues,
                    "p_holm": results.adjusted_pvalues(),
                    "conf_low": interval[:, 0],
                    "conf_high": interval[:, 1],
                    "conf_set": [found.kind for found in results.confidence_sets(level)],
                    "privacy_share": results.privacy_share,
                    "estimator": estimator,
                }
            )
        )
    return pandas.concat(frames, ignore_index=True)


def glance(estimator: str, all_results: Sequence[TargetResults], level: float = 0.95) -> "pd.DataFrame":
    """Return one row for each target: what the fit as a whole is worth."""
    rows = []
    for results in all_results:
        low, high = results.rsquared_interval(level)
        test = results.f_test() if len(results.names) > int(results.equations.has_constant) else None
        strength = results.identification(level)
        rows.append(
            {
                "target": results.equations.target.name,
                "estimator": estimator,
                "rows": math.nan if (people := results.equations.people) is None else people,
                "dof": results.dof,
                "r_squared": results.rsquared,
                "r_squared_low": low,
                "r_squared_high": high,
                "residual_sd": math.sqrt(results.scale),
                "f_statistic": math.nan if test is None else test.statistic,
                "f_p_value": math.nan if test is None else test.pvalue,
                "identification": strength.ratio,
                "releases": len(results.equations.sites),
            }
        )
    return load_pandas().DataFrame(rows)


def load_pandas() -> Any:
    """Return pandas. Raise `EstimationError` where it is not installed."""
    try:
        import pandas  # noqa: PLC0415 -- not in the base install
    except ImportError:
        raise EstimationError("data frames need pandas: pip install pandas") from None
    return pandas


def bounds(found: ConfidenceSet) -> tuple[str, str]:
    """Return the two ends of a confidence set as text."""
    if found.kind == "line":
        return "−∞", "∞"
    if found.kind == "rays":
        return f"≤ {number(found.lower)}", f"or ≥ {number(found.upper)}"
    return number(found.lower), number(found.upper)


def number(value: float) -> str:
    """Return a number with four significant digits.

    Examples
    --------
    >>> number(0.123456), number(-1234567.0), number(float("inf"))
    ('0.1235', '−1.235e+06', '∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "−", 1)


def p_columns(pvalues: FloatArray, first: int) -> dict[str, list[str]]:
    """Return p-values as text, and Holm's where there are several slopes: the constant, `first`, is in no family.

    Examples
    --------
    >>> p_columns(np.array([0.5, 0.01, 0.2]), 1)
    {'p': ['0.500', '0.010', '0.200'], 'p Holm': ['–', '0.020', '0.200']}
    """
    columns = {"p": [p_text(p) for p in pvalues.tolist()]}
    if len(pvalues) > 1 + first:
        columns["p Holm"] = ["–"] * first + [p_text(p) for p in holm(pvalues[first:]).tolist()]
    return columns


def p_text(value: float, *, relation: bool = False) -> str:
    """Return a p-value, with its relation in a sentence.

    Examples
    --------
    >>> p_text(0.04321), p_text(1e-9), p_text(math.nan), p_text(0.04321, relation=True)
    ('0.043', '< 0.001', '–', '= 0.043')
    """
    if math.isnan(value):
        return "–"
    if value < 0.001:
        return "< 0.001"
    return f"{'= ' if relation else ''}{value:.3f}"
