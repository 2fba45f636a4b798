"""Reasons why the numbers of a linear fit are less sure than they look, in words."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import percent
from analyst_client.errors import EstimationError
from analyst_client.inference.agreement import find_hidden, heterogeneity_test
from analyst_client.inference.base import Bound
from analyst_client.inference.equations import Equations
from analyst_client.inference.meat import affords_meat
from analyst_client.inference.multiplicity import count_models
from analyst_client.inference.posterior import CoefficientDraws
from analyst_client.inference.results import TargetResults
from analyst_client.inference.shrinkage import NormalPosterior
from analyst_client.inference.summary import number, p_text
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.row_lengths import describe_choice

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
NOISE_DOMINATES = 0.8
"""Share of privacy noise in each variance, below which a shift by weights of rows would be seen."""


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
        + level_warnings(results.equations)
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


def hidden_text(hospital: str, terms: Sequence[str]) -> str:
    """Return what to say of a hospital that tells nothing of some terms by itself."""
    return f"{hospital} tells nothing of {', '.join(terms)} by itself: there its intervals have no end."


def hidden_warnings(results: TargetResults, level: float, names: Sequence[str]) -> list[str]:
    """Return which of several releases, by their names, tell nothing of which terms by themselves."""
    if len(results.equations.sites) < 2:
        return []
    try:
        hidden = find_hidden(results.equations, results.contrasts, level)
    except EstimationError:  # of releases without yᵀy, say
        return []
    untold = [np.array(results.names)[one] for one in hidden]
    return [hidden_text(name, terms.tolist()) for name, terms in zip(names, untold, strict=True) if len(terms)]


def level_warnings(equations: Equations) -> list[str]:
    """Return which levels are not declared by every hospital: their coefficients are of the others' rows alone."""
    declared = [{column.name: column.levels for column in site.release.columns} for site in equations.sites]
    found = []
    for column in equations.columns:
        for level in column.levels:
            count = sum(level in levels.get(column.name, column.levels) for levels in declared)
            if count < len(declared):
                found.append(
                    f"{column.name}[{level}] is declared by {count} of {len(declared)} releases: its coefficient is of "
                    "their rows alone. Where another has it under another name, rename(levels=…) first."
                )
    return found


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


def outside_warnings(results: TargetResults, level: float = 0.95) -> list[str]:
    """Return which coefficients lie outside of their own intervals: they shrink, and intervals do not."""
    if results.equations.is_biased or results.method != "fieller":
        return []
    triples = zip(results.names, results.params, results.confidence_sets(level), strict=True)
    outside = [name for name, value, found in triples if value not in found]
    if not outside:
        return []
    return [
        f"{', '.join(outside)}: the coefficient is outside of its own interval, as this estimator shrinks it. That "
        "bias is in no standard error. Report the interval, or fit OLS(), which does not shrink."
    ]


def bound_warnings(names: Sequence[str], intervals: FloatArray) -> list[str]:
    """Return what to say where no value of a parameter agrees with a stated bound."""
    empty = [name for name, (low, _) in zip(names, intervals, strict=True) if math.isnan(low)]
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
