"""One coefficient over several hospitals: each by itself, all in common, and their mean where they differ."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from analyst_client.analyses.advice import fit_notes
from analyst_client.errors import EstimationError
from analyst_client.estimators.ridge import OLS
from analyst_client.inference.agreement import heterogeneity_test, random_effects
from analyst_client.inference.estimates import Estimate, EstimateTable
from analyst_client.inference.quantiles import student_quantile
from analyst_client.inference.results import TargetResults
from analyst_client.inference.summary import p_text
from analyst_client.kinds.gram.release import Release
from analyst_client.level import takes_level
from analyst_client.terms.expression import Expression

COMMON, MEAN = "common coefficient", "mean of hospitals that differ"
NOTE = (
    "Each hospital and the common coefficient: sampling error with one residual variance, and the privacy noise "
    "(Fieller). The mean takes a hospital's coefficient for a draw (Paule and Mandel; Knapp and Hartung): the mixed "
    "model in two stages."
)


@takes_level
def meta_analysis(
    releases: Mapping[str, Release],
    term: str,
    target: str | None = None,
    *,
    features: "Sequence[str | Expression] | None" = None,
    level: float = 0.95,
) -> EstimateTable:
    """Compare one coefficient over hospitals, and average it.

    Parameters
    ----------
    releases : mapping of str to Release
        By the hospital's name.
    term : str
        Name of a parameter, such as ``"age"`` or ``"sex[M]"``.
    target : str, optional
        A target, or a feature; needed where there are several targets.
    features : sequence of str or Expression, optional
        Features that explain. Default all but the target.
    level : float
        Probability that an interval holds the truth, in [0.5, 1).

    Returns
    -------
    EstimateTable
        A row for each hospital; ``"common coefficient"``, if all have the same; and ``"mean of hospitals that
        differ"``, if they do not. `analyst_client.plots.estimate_forest` draws it.

    Raises
    ------
    EstimationError
        When fewer than two hospitals bound the coefficient by themselves.
    ValueError
        When there is one release alone, or no such term or column.

    Notes
    -----
    See `LinearFit.conf_int` under ``"random-effects"``, and `LinearFit.heterogeneity_test`.

    Examples
    --------
    >>> from analyst_client import Release
    >>> from analyst_client.analyses import meta_analysis
    >>> north = Release.from_arrays([[300.0, 0.0], [0.0, 90.0]], [150.0, 27.0], 90.0, features=["age"], noise=2.0)
    >>> south = Release.from_arrays([[400.0, 0.0], [0.0, 110.0]], [180.0, 35.0], 120.0, features=["age"], noise=2.0)
    >>> for estimate in meta_analysis({"north": north, "south": south}, "age"):
    ...     print(*estimate.label, round(estimate.value, 2), estimate.interval)
    north 0.3 [0.2406, 0.3606]
    south 0.32 [0.2543, 0.3829]
    common coefficient 0.31 [0.2658, 0.3557]
    mean of hospitals that differ 0.31 [0.02543, 0.5914]
    """
    if len(releases) < 2:
        raise ValueError("a meta-analysis is of two releases at least")
    parts = {name: release.select(features, target) for name, release in releases.items()}
    pooled = OLS().fit(list(parts.values()))
    together = pooled._results_of(None)
    if term not in together.names:
        raise ValueError(f"the fit has no parameter {term!r}; it has {', '.join(together.names)}")
    found = [_alone(name, part, term, level) for name, part in parts.items()]
    found.append(_row(COMMON, together, term, level))
    j = together.names.index(term)
    center, half = random_effects(together.equations, together.contrasts[j : j + 1], level)
    middle, width = float(center[0] + together.offsets[j]), float(half[0])
    error = width / student_quantile((1.0 - level) / 2.0, len(parts) - 1.0)
    found.append(Estimate((MEAN,), middle, float(error), middle - width, middle + width))
    test = heterogeneity_test(together.equations)
    said = f"If all coefficients were the same everywhere, hospitals would differ so with p {p_text(test.pvalue)}."
    title = f"{term} in {together.equations.target.name}"
    return EstimateTable(title, ("hospital",), tuple(found), (NOTE, said, *fit_notes(pooled, level=level)), level)


def _alone(name: str, release: Release, term: str, level: float) -> Estimate:
    try:
        return _row(name, OLS().fit(release)._results_of(None), term, level)
    except EstimationError:  # its noise hides everything
        return Estimate((name,), math.nan, math.nan, -math.inf, math.inf)


def _row(name: str, results: TargetResults, term: str, level: float) -> Estimate:
    j = results.names.index(term)
    one = results.contrast_sets(results.contrasts[j : j + 1], np.array([results.offsets[j]]), level)[0]
    return Estimate(
        (name,), float(results.params[j]), float(results.std_errors[j]), *one.hull, float(results.pvalues[j])
    )
