"""Every number that fits, descriptions and tests print, held against the truth of populations that are known.

Each repeat draws rows of a population (`bench.populations`), buys at its curator (`bench.desk`) as a newcomer types it,
`client.fit(…)`, `client.release(…)` or `client.refine(…)` with nothing but the model and the price, and fits. Each
figure has one judge, by the kind of number that it is:

- an interval holds the truth in 0.93 of repeats on average over coefficients, and in 0.90 for the worst: counted are
  intervals that have both ends, of coefficients of which at least half have them; R² within [0, 1] counts as none;
- a p-value of a hypothesis that is true is below 0.05 in 0.06 of repeats at most;
- an estimate is off by half of its stated error at most, on average;
- a stated error is not below the spread of its estimates by more than a fifth;
- a number without a stated error is near the truth in the median;
- predictions are no worse than the mean, on average.

A cell fails where it is beyond its goal by more than three standard errors of the simulation. What is nearer is run
again with more repeats, and then its estimate must meet the goal. Prints Markdown; writes `build/bench/figures.json`.

    python -m bench.figures [--data DIR] [--screen 300] [--repeats 1000] [--epsilons 0.3 1 3] [--jobs 2] [--missed]
        [--ways fit release robust refine sites refinements] [--populations cps …] [--figures interval …]

DIR holds NAME/data.csv.gz (see `bench.uci`), in itself or in uci/, and cps/cpssw8.csv (see `studies.cps`). Sets of
statsmodels and lifelines are taken from there, if they are installed. Standard error names what is left out.
"""

import argparse
import inspect
import json
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from inspect import get_annotations
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analyst_client import (
    AdaSSP,
    EstimationError,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    describe,
    table_one,
    ttest_ind,
)
from analyst_client.estimators.estimator import Estimator
from analyst_client.exports import public_names
from analyst_client.refinement import Refinement
from bench.judges import (
    Floats,
    Parts,
    Verdict,
    judge_equal,
    judge_error,
    judge_gain,
    judge_interval,
    judge_point,
    judge_share,
    judge_shrunk,
    judge_size,
    near,
)
from bench.populations import DELTA, NOTHING, Draw, Population, populations, raw_map
from bench.run import OUTPUT

Told = dict[str, tuple[float, ...]]
"""What one repeat tells of a figure, by the names of its parts: numbers that its judge knows the meaning of."""
NORMAL = 1.959964
SEEN = 10
"""Rows of which predictions are asked."""
GAINED = 500
"""Rows on which predictions are compared with the mean."""
MISSED_MOST = 0.05
"""Share of figures that may miss their goals."""
FITS = {"gaussian": RefinedRegression, "binomial": LogisticRegression, "poisson": PoissonRegression}
WAYS = ("fit", "release", "robust", "refine", "sites", "refinements")
USUAL = ("fit", "release", "sites", "refinements")
"""What is run where no ways are named: `fit` mostly refines."""


@dataclass(frozen=True, eq=False)
class Case:
    """One repeat: rows, a fit, and the truth."""

    population: Population
    draw: Draw
    release: Any
    fit: Any

    @cached_property
    def truth(self) -> "Truth":
        """Of the population."""
        return truth_of(self.population)

    @cached_property
    def names(self) -> list[str]:
        """Of the parameters, as they were asked: the constant first."""
        return [term.name for term in self.population.coded.terms]

    @cached_property
    def intervals(self) -> Floats:
        """As `conf_int` returns them."""
        return np.asarray(self.fit.conf_int())

    @cached_property
    def plain(self) -> tuple[Floats, Floats]:
        """Parameters without privacy, and their standard errors, of the rows of this repeat."""
        return without_privacy(self.population, self.draw.x, self.draw.y)

    @cached_property
    def seen(self) -> tuple[dict[str, Any], Floats, Floats]:
        """Some rows of the population as a data frame has them, their true means and their targets, in raw units."""
        return self.rows(SEEN)

    def rows(self, count: int) -> tuple[dict[str, Any], Floats, Floats]:
        """Draw rows of the population: a frame, true means and targets."""
        population, truth = self.population, self.truth
        known = np.flatnonzero(population.coded.known)
        picked, others = self.draw.generator.choice(known, (2, count))
        frame = {name: values[picked] for name, values in population.raw.items()}
        return frame, truth.means[picked], truth.targets[others if population.shuffled else picked]

    @cached_property
    def people(self) -> Any:
        """A release of as much that tells of people."""
        return of_people(self.population, self.draw, self.release.cost.epsilon)

    @cached_property
    def group(self) -> str | None:
        """A column of two groups, where there is one."""
        features = self.release.features
        return next((column.name for column in features if column.type != "numeric"), None)


@dataclass(frozen=True, eq=False)
class Truth:
    """Of a population: parameters in raw units, means and targets by row, and what the model as a whole is worth."""

    theta: Floats
    means: Floats
    targets: Floats
    residual_sd: float
    r_squared: float
    vif: Floats
    index_sd: float


@cache
def truth_of(population: Population) -> Truth:
    """Fit the model to all rows of a population, as they are declared."""
    coded, family = population.coded, population.family
    L, constant = raw_map(coded, family)
    x, y = coded.x[coded.known], coded.y[coded.known]
    alone = [i for i, term in enumerate(coded.terms) if term.column == NOTHING]
    varying = [i for i in range(len(coded.terms)) if i not in alone]
    kept = [0] if population.shuffled else varying
    scaled = np.zeros(len(coded.terms))
    scaled[kept] = solve(x[:, kept], unit_target(population, y), family)[0]
    means = np.full(len(coded.x), np.nan)
    index = coded.x @ scaled
    means[coded.known] = raw_mean(population, index[coded.known])
    targets = coded.target.center + coded.target.scale * coded.y
    error = (targets - means)[coded.known]
    vif = np.ones(len(coded.terms))
    vif[varying] = np.diag(np.linalg.pinv(x[:, varying].T @ x[:, varying])) * len(x) * np.var(x[:, varying], axis=0)
    variance = float(np.var(targets[coded.known]))
    return Truth(
        L @ scaled + constant,
        means,
        targets,
        float(np.sqrt(np.mean(error**2))),
        max(1.0 - float(np.mean(error**2)) / variance, 0.0),
        vif,
        float(np.std(index[coded.known])),
    )


def unit_target(population: Population, y: Floats) -> Floats:
    """Return a scaled target as its family has it: as it is, or raw counts."""
    target = population.coded.target
    return y if population.family == "gaussian" else target.center + target.scale * y


def raw_mean(population: Population, index: Floats) -> Floats:
    """Return means in raw units by the linear predictor."""
    target = population.coded.target
    match population.family:
        case "gaussian":
            return target.center + target.scale * index
        case "binomial":
            return 1.0 / (1.0 + np.exp(-index))
        case _:
            return np.exp(index)


def solve(x: Floats, y: Floats, family: str) -> tuple[Floats, Floats]:
    """Return the coefficients of maximum likelihood, and their covariance whatever the variance of residuals."""
    theta = np.zeros(x.shape[1])
    if family != "gaussian":
        rate = float(y.mean())
        theta[0] = math.log(rate / (1.0 - rate)) if family == "binomial" else math.log(rate)
    for _ in range(1 if family == "gaussian" else 12):
        eta = np.clip(x @ theta, -30.0, 30.0)
        mean = eta if family == "gaussian" else 1.0 / (1.0 + np.exp(-eta)) if family == "binomial" else np.exp(eta)
        weight = {"gaussian": np.ones_like(mean), "binomial": mean * (1.0 - mean), "poisson": mean}[family]
        inverse = np.linalg.pinv(x.T @ (x * weight[:, np.newaxis]), rcond=1e-12, hermitian=True)
        theta = theta + inverse @ (x.T @ (y - mean))
    g = x * (y - (x @ theta if family == "gaussian" else mean))[:, np.newaxis]
    return theta, inverse @ (g.T @ g) @ inverse


def without_privacy(population: Population, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return parameters in raw units and their standard errors, which hold for residuals of any variance."""
    known = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    L, constant = raw_map(population.coded, population.family)
    theta, covariance = solve(x[known], unit_target(population, y[known]), population.family)
    return L @ theta + constant, np.sqrt(np.diag(L @ covariance @ L.T))


# What figures are told: numbers of one repeat, by part.


def _each(names: Iterable[str], *columns: Any) -> Told:
    return dict(
        zip(names, zip(*(np.asarray(column, dtype=np.float64) for column in columns), strict=True), strict=True)
    )


def _coefficients(of: Case, errors: Any) -> Told:
    return _each(of.names, of.fit.params_, of.truth.theta, errors)


def _shrunk(of: Case) -> Told:
    """Return the excess squared errors of shrunk coefficients, and of the solution of the same equations."""
    results, x = of.fit.results_[0], of.population.coded.x[of.population.coded.known]
    solved = results.contrasts @ np.linalg.lstsq(results.equations.xtx, results.equations.xty)[0] + results.offsets
    L, _ = raw_map(of.population.coded, "gaussian")
    off = np.linalg.solve(L, np.array([of.fit.params_, solved]).T - of.truth.theta[:, np.newaxis])
    return {"excess": tuple(np.mean((x @ off) ** 2, axis=0))}


def _intervals(of: Case, intervals: Floats) -> Told:
    return _each(of.names, *intervals.T, of.truth.theta, NORMAL * of.plain[1])


def _null(of: Case, pvalues: Any) -> Told:
    return {of.names[i]: (float(pvalues[i]),) for i in of.population.nothing_places}


def _spread(of: Case, errors: Any) -> Told:
    return _each(of.names, errors, of.fit.params_)


def _privacy(of: Case) -> Told:
    """Return shares, how far estimates are from those without privacy, and the standard errors of these."""
    results, (plain, errors) = of.fit.results_[0], of.plain
    estimates = results.contrasts @ (results.solution.inverse @ results.equations.xty) + results.offsets
    return _each(of.names, of.fit.privacy_share_, estimates - plain, errors)


def _rows_known(of: Case) -> float:
    return float(np.sum(~np.isnan(of.draw.x).any(axis=1)))


def _dof(of: Case) -> Told:
    """Of F: rows, as they are weighted where they are, less coefficients."""
    releases = of.release if isinstance(of.release, list) else [of.release]
    squares = np.nansum(of.draw.x**2, axis=1)[~np.isnan(of.draw.x).any(axis=1)]
    norms = [getattr(release, "norm", None) for release in releases]  # of a refinement all rows count alike
    rows = [
        np.sum(np.minimum(1.0, norm**2 / part)) if norm else len(part)
        for norm, part in zip(norms, np.array_split(squares, len(norms)), strict=True)
    ]
    return {"dof": (of.fit.results_[0].dof, float(sum(rows)) - len(of.names))}


def _r_squared(of: Case, value: float) -> Told:
    """Return R², and an error by its interval; nothing where it is 0, of which no R² is an unbiased estimate."""
    if of.population.shuffled:
        return {}
    low, high = of.fit.rsquared_interval()
    half = math.nan if (low, high) == (0.0, 1.0) else (high - low) / 2.0 / NORMAL
    return {"R²": (float(value), of.truth.r_squared, half or math.nan)}


def _r_squared_interval(of: Case) -> Told:
    low, high = map(float, of.fit.rsquared_interval())
    return {
        "R²": (-math.inf, math.inf, 0.0, 1.0) if (low, high) == (0.0, 1.0) else (low, high, of.truth.r_squared, 0.5)
    }


def _true_slopes(of: Case, count: int | None = None) -> tuple[Floats, Floats]:
    """Return contrasts that are the first slopes, or all, and the scaled values that are true of them."""
    results, slopes = of.fit.results_[0], slice(1, None if count is None else 1 + count)
    return results.contrasts[slopes], of.truth.theta[slopes] - results.offsets[slopes]


def _f_test(of: Case) -> Told:
    found = {"all slopes at the truth": (of.fit.results_[0].test(*_true_slopes(of)).pvalue,)}
    return found | ({"F": (of.fit.f_test().pvalue,)} if of.population.shuffled else {})


def _contrast(of: Case) -> Told:
    weights = np.zeros(len(of.names))
    weights[1:3] = 1.0, -1.0
    (one,) = of.fit.t_test([weights.tolist()]).estimates
    return {"first − second": (one.conf_low, one.conf_high, float(weights @ of.truth.theta), math.nan)}


def _anova(of: Case) -> Told:
    pairs = zip(of.population.features, of.fit.anova().rows, strict=True)
    return {name: (row.test.pvalue,) for name, row in pairs if of.population.shuffled or name == NOTHING}


def _identified(of: Case) -> Told:
    return {"bounded": (of.fit.identification().is_bounded, np.isfinite(of.intervals).all())}


def _predicted(of: Case, *, mean: bool) -> Told:
    frame, means, targets = of.seen
    ends = of.fit.predict_interval(frame, mean=mean, clip=True)
    names = [f"row {k + 1}" for k in range(SEEN)]
    return _each(names, *ends.T, means if mean else targets, np.full(SEEN, NORMAL * of.truth.residual_sd))


def _points(of: Case) -> Told:
    frame, means, _ = of.seen
    ends = of.fit.predict_interval(frame, mean=True, clip=True)
    half = np.where(np.isfinite(ends[:, 1]), ends[:, 1] - ends[:, 0], np.nan) / 2.0 / NORMAL
    return _each([f"row {k + 1}" for k in range(SEEN)], of.fit.predict(frame, clip=True), means, half)


def _robust(of: Case) -> Any:
    """Return the fit of which standard errors are by Σ g gᵀ."""
    return FITS[of.population.family](robust=True).fit(of.release)


def _dispersion(of: Case) -> Told:
    """Return how far counts vary, over what their means say, in all rows; nothing of another family."""
    if of.population.family != "poisson":
        return {}
    truth, known = of.truth, of.population.coded.known
    squares = (truth.targets - truth.means)[known] ** 2
    return {"dispersion": (of.fit.dispersion_, float(np.mean(squares) / np.mean(truth.means[known])))}


def _gain(of: Case) -> Told:
    """Return the loss of predictions on rows of the population, and that of its mean, where there is more to tell."""
    if of.population.shuffled:
        return {}
    frame, _, targets = of.rows(GAINED)
    average = float(np.nanmean(of.truth.targets))
    family = of.population.family
    if family == "binomial":
        p = np.clip(of.fit.predict_proba(frame, clip=True)[:, 1], 1e-9, 1.0 - 1e-9)
        losses = [-np.where(targets > 0.5, np.log(q), np.log(1.0 - q)) for q in (p, average)]
    else:
        found = of.fit.predict(frame, clip=True)
        if family == "gaussian":
            losses = [(targets - q) ** 2 for q in (found, average)]
        else:
            logs = np.log(np.maximum(targets, 1e-9))  # the deviance
            losses = [targets * (logs - np.log(q)) - targets + q for q in (np.maximum(found, 1e-9), average)]
    return {"loss": tuple(float(np.mean(loss)) for loss in losses)}


def _mean_prediction(of: Case) -> Told:
    frame, means, _ = of.rows(GAINED)
    binomial = of.population.family == "binomial"
    found = of.fit.predict_proba(frame, clip=True)[:, 1] if binomial else of.fit.predict(frame, clip=True)
    return {"mean": (float(np.mean(found)), float(np.mean(means)))}


def _described(of: Case, statistic: str) -> Told:
    """Of `describe`: intervals of one statistic of each column, by the population's rows."""
    known = of.population.coded.known
    found: Told = {}
    for one in describe(of.people).estimates:
        name, level, kind = one.label
        if kind != statistic or name == NOTHING:  # which is drawn of all rows
            continue
        if kind == "n":
            truth = _rows_known(of)
        elif level:
            truth = float(np.mean(_is_level(of.population, name, level)[known]))
        else:
            values = _declared_values(of.population, name)[known]
            truth = float(np.mean(values) if kind == "mean" else np.std(values))
        found[" ".join(filter(None, one.label))] = (one.conf_low, one.conf_high, truth, math.nan)
    return found


def _by_group(of: Case) -> Told:
    """Of `table_one`: intervals of means and shares by group."""
    if of.group is None or of.population.shuffled:
        return {}
    known, found = of.population.coded.known, Told()
    for one in table_one(of.people, of.group).estimates:
        name, level, kind, group = one.label
        kept = known if group == "all" else known & _is_level(of.population, of.group, group)
        if kind == "n" or NOTHING in name:
            continue
        values = _is_level(of.population, name, level) if level else _declared_values(of.population, name)
        found[" ".join(filter(None, one.label))] = (one.conf_low, one.conf_high, float(np.mean(values[kept])), math.nan)
    return found


def _t_test_of_groups(of: Case) -> Told:
    levels = next((column.levels for column in of.release.features if column.name == of.group), ())
    if of.group is None or len(levels) != 2:
        return {}
    (one,) = ttest_ind(of.release, of.release.targets[0].name, of.group).estimates
    known, values = of.population.coded.known, of.truth.targets
    low, high = (np.mean(values[known & _is_level(of.population, of.group, level)]) for level in levels)
    truth = 0.0 if of.population.shuffled else float(high - low)
    return {one.label[0]: (one.conf_low, one.conf_high, truth, math.nan)}


def _declared_values(population: Population, name: str) -> Floats:
    """Return a column or the target cut to its bounds."""
    coded = population.coded
    if name == coded.target.name:
        return coded.target.center + coded.target.scale * coded.y
    term = next(i for i, term in enumerate(coded.terms) if term.name == name)
    return coded.terms[term].center + coded.terms[term].scale * coded.x[:, term]


def _is_level(population: Population, name: str, level: str) -> npt.NDArray[np.bool_]:
    values, own = population.raw[name], population.declared[name]
    found: npt.NDArray[np.bool_] = values == level if own is not None else values == (level == "true")
    return found


def _disagreement(of: Case) -> Told:
    return {"sites": (of.fit.heterogeneity_test().pvalue,)}


def _shown_rows(of: Case) -> Told:
    rows = of.fit.results_[0].equations.people if of.population.family == "gaussian" else of.fit.refined_.rows
    return {} if rows is None else {"rows": (float(rows), _rows_known(of))}


def _best(of: Case, adjusted: Any) -> Told:
    """Of adjusted p-values: the smallest of those slopes that are 0."""
    places = of.population.nothing_places
    return {"best null slope": (float(np.min(np.asarray(adjusted)[places])),)} if len(places) else {}


def _together(of: Case) -> Told:
    """Of simultaneous intervals: 0 where the truth of any slope is outside, as a p-value would be."""
    low, high = np.asarray(of.fit.conf_int(simultaneous=True))[1:].T
    truth = of.truth.theta[1:]
    return {"all slopes": (float(np.all((low <= truth) & (truth <= high))),)}


@dataclass(frozen=True)
class Figure:
    """A figure: how it is told of one repeat, how it is judged, and where it is printed.

    Attributes
    ----------
    tell : callable
        What one repeat tells.
    judge : callable
        A verdict on what all repeats told.
    printed : str
        Names of members, columns and lines that print it, with spaces between them.
    ways : str
        Ways of buying it is printed for.
    """

    tell: Callable[[Case], Told]
    judge: Callable[[Parts], Verdict]
    printed: str
    ways: str = "release refine sites"


LINEAR = {
    "coefficient": Figure(
        lambda of: _coefficients(of, of.fit.std_errors_),
        judge_point,
        "coef_ intercept_ params_ params value estimate coef",
        "refine",
    ),
    "shrunk coefficient": Figure(_shrunk, judge_shrunk, "coef_ intercept_ params_ coef", "release sites"),
    "interval": Figure(
        lambda of: _intervals(of, of.intervals),
        judge_interval,
        "conf_int confidence_sets lower upper hull conf_low conf_high conf_set from to",
    ),
    "p-value": Figure(lambda of: _null(of, of.fit.pvalues_), judge_size, "pvalues_ pvalues statistics tests p_value p"),
    "adjusted p-value": Figure(
        lambda of: _best(of, of.fit.adjusted_pvalues()), judge_size, "adjusted_pvalues p_holm p_Holm"
    ),
    "intervals together": Figure(_together, judge_size, "conf_int"),
    "standard error": Figure(
        lambda of: _spread(of, of.fit.std_errors_),
        judge_error,
        "std_errors_ bse std_errors cov_params covariance_of std_error std_err",
    ),
    "privacy share": Figure(_privacy, judge_share, "privacy_share privacy_share_ noise_share privacy"),
    "variance inflation": Figure(lambda of: _each(of.names[1:], of.fit.vif_, of.truth.vif[1:]), near(0.25), "vif vif_"),
    "R²": Figure(lambda of: _r_squared(of, of.fit.rsquared_), judge_point, "rsquared rsquared_ r_squared R²"),
    "adjusted R²": Figure(
        lambda of: _r_squared(of, of.fit.rsquared_adj_), judge_point, "rsquared_adj rsquared_adj_ adj_r_squared"
    ),
    "interval of R²": Figure(_r_squared_interval, judge_interval, "rsquared_interval r_squared_low r_squared_high"),
    "residual sd": Figure(
        lambda of: {"sd": (math.sqrt(of.fit.scale_), of.truth.residual_sd)}, near(0.1), "scale scale_ sigma residual_sd"
    ),
    "rows": Figure(_shown_rows, near(0.05), "rows nobs n"),
    "degrees of freedom": Figure(_dof, near(0.05), "dof df df_residual"),
    "F": Figure(_f_test, judge_size, "f_test statistic pvalue F"),
    "Wald test": Figure(
        lambda of: {"two slopes at the truth": (of.fit.results_[0].test(*_true_slopes(of, 2)).pvalue,)},
        judge_size,
        "test",
    ),
    "contrast": Figure(_contrast, judge_interval, "t_test contrast_sets conf_low conf_high interval"),
    "analysis of variance": Figure(_anova, judge_size, "anova test rows"),
    "identification": Figure(_identified, judge_equal, "identification strength critical ratio is_bounded"),
    "prediction": Figure(_points, judge_point, "predict"),
    "interval of a mean": Figure(partial(_predicted, mean=True), judge_interval, "predict_interval"),
    "interval of a value": Figure(partial(_predicted, mean=False), judge_interval, ""),
    "loss of predictions": Figure(_gain, judge_gain, "score", "refine"),
    "described n": Figure(partial(_described, statistic="n"), judge_interval, "n", "release"),
    "described mean": Figure(partial(_described, statistic="mean"), judge_interval, "mean", "release"),
    "described sd": Figure(partial(_described, statistic="sd"), judge_interval, "sd", "release"),
    "described share": Figure(partial(_described, statistic="share"), judge_interval, "share", "release"),
    "described by group": Figure(_by_group, judge_interval, "mean share", "release"),
    "t test": Figure(_t_test_of_groups, judge_interval, "difference pvalue", "release"),
    "disagreement of sites": Figure(
        _disagreement, judge_size, "heterogeneity_test statistic dof pvalue differences_of_hospitals", "sites"
    ),
}
GENERALIZED = {
    "coefficient": Figure(
        lambda of: _coefficients(of, of.fit.std_errors_), judge_point, "coef_ intercept_ params_ odds_ratio rate_ratio"
    ),
    "interval": Figure(lambda of: _intervals(of, of.intervals), judge_interval, "conf_int"),
    "robust interval": Figure(
        lambda of: _intervals(of, np.asarray(_robust(of).conf_int())), judge_interval, "conf_int"
    ),
    "p-value": Figure(lambda of: _null(of, of.fit.pvalues_), judge_size, "pvalues_"),
    "adjusted p-value": Figure(lambda of: _best(of, of.fit.adjusted_pvalues()), judge_size, "adjusted_pvalues p_Holm"),
    "intervals together": Figure(_together, judge_size, "conf_int"),
    "standard error": Figure(lambda of: _spread(of, of.fit.std_errors_), judge_error, "std_errors_ cov_params"),
    "robust standard error": Figure(
        lambda of: _spread(of, _robust(of).std_errors_), judge_error, "std_errors_ robust_std_err"
    ),
    "Wald test": Figure(_f_test, judge_size, "f_test statistic pvalue"),
    "contrast": Figure(_contrast, judge_interval, "t_test contrast_sets"),
    "analysis of variance": Figure(_anova, judge_size, "anova test"),
    "dispersion": Figure(_dispersion, near(0.25), "dispersion_ dispersion,_about"),
    "rows": Figure(_shown_rows, near(0.05), "n"),
    "mean, as first told": Figure(
        lambda of: {"mean": (of.fit.refined_.rate * of.fit.refined_.family.unit, float(np.nanmean(of.truth.targets)))},
        near(0.1),
        "mean,_as_first_told base_rate_",
    ),
    "sd of the index": Figure(
        lambda of: {"sd": (of.fit.refined_.moments.spread(of.fit.refined_.theta), of.truth.index_sd)},
        near(0.25),
        "sd_of_the_index spread_",
    ),
    "mean of predictions": Figure(_mean_prediction, near(0.1), "predict_proba decision_function predict"),
    "loss of predictions": Figure(_gain, judge_gain, "predict score"),
    "disagreement of sites": Figure(_disagreement, judge_size, "heterogeneity_test statistic dof pvalue", ""),
}
TOGETHER = (
    *("coefficient", "interval", "p-value", "adjusted p-value", "intervals together", "standard error", "F"),
    *("Wald test", "contrast", "analysis of variance", "interval of a mean", "mean of predictions"),
    *("loss of predictions", "disagreement of sites"),
)
"""Figures of a fit of several refinements."""
OF_ONE_HOSPITAL = ("R²", "adjusted R²", "interval of R²", "residual sd", "privacy share", "interval of a value")
"""Figures without a truth where hospitals have other residuals."""


@dataclass(frozen=True)
class Cell:
    """Setting that is repeated.

    Attributes
    ----------
    population : str
    rows : int
    epsilon : float
    way : str
        ``"release"``, ``"refine"``, or of half as many rows each two releases, ``"sites"``, or ``"refinements"``.
    """

    population: str
    rows: int
    epsilon: float
    way: str

    def __str__(self) -> str:
        """Show it as a row of a table begins."""
        return f"{self.population} | {self.rows:,} | {self.epsilon:g} | {self.way}"


def figures_of(population: Population, way: str) -> dict[str, Figure]:
    """Return the figures that a way of buying prints, by name."""
    listed = LINEAR if population.family == "gaussian" else GENERALIZED
    apart = () if population.second is None else OF_ONE_HOSPITAL
    way = {"robust": "release", "fit": "refine"}.get(way, way)
    if way == "refinements":
        return {name: listed[name] for name in TOGETHER if name in listed}
    return {name: figure for name, figure in listed.items() if way in figure.ways.split() and name not in apart}


def buy(population: Population, draw: Draw, epsilon: float, way: str) -> tuple[Any, Any]:
    """Buy as a newcomer types it, and fit; return the answer, and the fit."""
    model, target = population.asked
    price = {"epsilon": epsilon, "delta": DELTA}
    if way == "fit":
        fit = draw.client.fit(model, data="rows", epsilon=epsilon, yes=True, progress=False, **target)
        made = fit.source_.releases
        return made if isinstance(made, Refinement) else made[0], fit
    if way == "refine":
        family = {} if population.family == "gaussian" else {"family": population.family}
        refinement = draw.client.refine("rows", model, **target, **family, **price)
        return refinement, FITS[population.family]().fit(refinement)
    robust = {"robust": True} if way == "robust" else {}
    release = draw.client.release("rows", model, **target, **price, **robust)
    return release, AdaSSP().fit(release)


def of_people(population: Population, draw: Draw, epsilon: float) -> Any:
    """Buy a release in which every row counts for 1: what describes people."""
    model, target = population.asked
    return draw.client.release("rows", model, **target, rows="box", epsilon=epsilon, delta=DELTA)


def run_repeat(population: Population, cell: Cell, seed: int, only: Iterable[str] = ()) -> dict[str, Told]:
    """Draw, buy, fit, and return what each figure is told; nothing of those that the fit cannot tell."""
    figures = figures_of(population, cell.way)
    if cell.way in {"sites", "refinements"}:
        sites = [population.draw(cell.rows // 2, 2 * seed + k) for k in range(2)]
        if population.second is not None:
            sites[1] = population.second.draw(cell.rows // 2, 2 * seed + 1)
        way, fit = ("release", AdaSSP()) if cell.way == "sites" else ("refine", FITS[population.family]())
        bought = [buy(population, site, cell.epsilon, way)[0] for site in sites]
        x, y, picked = (np.concatenate([getattr(site, name) for site in sites]) for name in ("x", "y", "picked"))
        draw = Draw(sites[0].client, x, y, sites[0].generator, picked)
        case = Case(population, draw, bought, fit.fit(bought))
    else:
        draw = population.draw(cell.rows, seed)
        case = Case(population, draw, *buy(population, draw, cell.epsilon, cell.way))
    told = {}
    for name in only or figures:
        try:
            told[name] = figures[name].tell(case)
        except EstimationError:
            told[name] = {}
    return told


@cache
def _populations(data: Path | None) -> Mapping[str, Callable[[], Population]]:
    return populations(data)


@cache
def population_of(data: Path | None, name: str) -> Population:
    """Return a population, made once."""
    return _populations(data)[name]()


def _run(data: Path | None, cell: Cell, only: tuple[str, ...], seed: int) -> dict[str, Told]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run_repeat(population_of(data, cell.population), cell, seed, only)


def gather(repeats: Iterable[Mapping[str, Told]]) -> dict[str, Parts]:
    """Return what all repeats told, by figure and part; NaN where one told nothing."""
    listed = list(repeats)
    found: dict[str, Parts] = {}
    for name in listed[0]:
        parts = dict.fromkeys(part for told in listed for part in told[name])
        width = next((len(value) for told in listed for value in told[name].values()), 1)
        nothing = (math.nan,) * width
        found[name] = {part: np.array([told[name].get(part, nothing) for told in listed]) for part in parts}
    return found


def judge(population: Population, cell: Cell, told: Mapping[str, Parts], repeats: int) -> dict[str, Verdict]:
    """Return a verdict for each figure."""
    figures, found = figures_of(population, cell.way), {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, parts in told.items():
            found[name] = figures[name].judge(parts) if parts else Verdict(told=0.0)
            found[name].repeats = repeats
    return found


HEAD = "| population | rows | ε | way | figure | told | measures | worst part | length | repeats | state |"


def lines(cell: Cell, verdicts: Mapping[str, Verdict], *, final: bool) -> Iterator[str]:
    """Return a row of the table for each figure of a cell."""
    for name, one in verdicts.items():
        length = f"{one.length:.2f}" if math.isfinite(one.length) else "–"
        measured = "; ".join(map(str, one.measures)) or "–"
        state = one.state(final=final)
        shown = f"**{state}**" if state == "missed" else state
        yield f"| {cell} | {name} | {one.told:.2f} | {measured} | {one.worst} | {length} | {one.repeats} | {shown} |"


def records(cell: Cell, verdicts: Mapping[str, Verdict], *, final: bool) -> Iterator[dict[str, Any]]:
    """Return a cell's figures as JSON has them."""
    for name, one in verdicts.items():
        length = one.length if math.isfinite(one.length) else None
        yield asdict(cell) | {"figure": name} | asdict(one) | {"length": length, "state": one.state(final=final)}


def run_cell(
    cell: Cell,
    data: Path | None,
    only: tuple[str, ...],
    screen: int,
    repeats: int,
    run: Callable[[Callable[[int], dict[str, Told]], Iterable[int]], Iterable[dict[str, Told]]] = map,
) -> tuple[dict[str, Verdict], bool]:
    """Screen a cell, and repeat it more often where a figure is near its goal.

    Returns
    -------
    verdicts : dict of str to Verdict
    final : bool
        Whether it was repeated more often.
    """
    population, once = population_of(data, cell.population), partial(_run, data, cell, only)
    told = list(run(once, range(screen)))
    found = judge(population, cell, gather(told), screen)
    close = tuple(name for name, one in found.items() if one.state(final=False) == "near")
    if not close or repeats <= screen:
        return found, False
    more = list(run(partial(_run, data, cell, close), range(screen, repeats)))
    longer = gather([{name: one[name] for name in close} for one in told] + more)
    return found | judge(population, cell, longer, repeats), True


def cells(data: Path | None, epsilons: Iterable[float], ways: Iterable[str], wanted: Iterable[str]) -> Iterator[Cell]:
    """Return what is run: of each population all its numbers of rows, prices and ways of buying."""
    for name in _populations(data):
        if wanted and name not in wanted:
            continue
        population = population_of(data, name)
        refined = [way for way in ways if way in {"fit", "refine", "refinements"}]
        offered = ways if population.family == "gaussian" else refined
        for rows, epsilon, way in product(population.rows, epsilons, offered):
            if way not in {"sites", "refinements"} or not population.shuffled:
                yield Cell(name, rows, epsilon, way)


# What is printed, by name, from the classes themselves.

TABLES = "summary table tidy glance results_ estimates"
"""Members that return figures, which are judged one by one."""
UNJUDGED = {
    "names, settings and texts": (
        "choice_ param_names_ target_names_ caveats names columns_ feature_names_in_ fit fitted_params_ "
        "n_features_in_ row_map_ targets_ term_names_ terms_ get_params set_params classes_ constraints source notes "
        "title kind inverts label across level heads as_html as_text caption facts term coefficients scores target "
        "to_html to_latex to_markdown plot save source_ hypothesis robust "
        "estimator releases releases,_weighted baseline terms combined cut_columns_ hospitals_ hospitals"
    ),
    "how a fit was computed": (
        "constant_penalty_ lambda_min_ threshold_ penalty_ scaled_coef_ combinations contrasts equations "
        "excess_kurtosis main_site offsets solution solved told raw slopes first method method_of quantile cut "
        "direction refined_ linear_ scale_ seed_"
    ),
    "of a prior, which repeats of one truth do not judge: see bench.posterior and bench.refined_posterior": (
        "posterior_draws posteriors_ to_inference_data posterior_cov_ prior_variance_ residual_variance_ posterior "
        "posterior_interval"
    ),
    "linear maps of coefficients that are judged": "raw_powers combined_terms",
    "of linear fits a linear map; of others judged by tests/simulations/test_margins_coverage.py": "margins",
    "of a bound that an analyst states": "bounded_intervals",
    "counts of what was asked, and a sum of prices": "family_size privacy_charged spent_",
    "what it would take, roughly": "factor",
    "judged by bench.sites": "leave_one_site_out",
}
"""Members that print no figure of the truth, or one that another bench judges, by the reason."""


def judged() -> set[str]:
    """Return the names of members, columns and lines that have a judge, or a reason to have none."""
    listed = [figure.printed for figure in (*LINEAR.values(), *GENERALIZED.values())]
    return {name for text in (*listed, TABLES, *UNJUDGED.values()) for name in text.split()}


def printed() -> set[str]:
    """Return the names of all public members of estimators and of what they return, and of columns and lines."""
    public = [getattr(import_module(module), name) for name, module in public_names().items()]
    waiting = [one for one in public if inspect.isclass(one) and issubclass(one, Estimator)]
    inner = {name for text in UNJUDGED.values() for name in text.split()}
    found, seen = _shown(), set[type]()
    while waiting:
        seen.add(one := waiting.pop())
        owners = [owner for owner in one.__mro__ if owner.__module__.startswith("analyst_client")]
        for owner, name in [(own, name) for own in owners for name in {*vars(own), *get_annotations(own)}]:
            if not name.startswith("_"):
                found.add(name)
                waiting += [] if name in inner else set(_returned(owner, name)) - seen
    return found


def _returned(owner: type, member: str) -> Iterator[type]:
    """Yield the classes of this library that a member's annotation names."""
    found = inspect.getattr_static(owner, member, None)
    function = getattr(found, "fget", None) or getattr(found, "func", None) or found
    stated = getattr(function, "__annotations__", {}).get("return", get_annotations(owner).get(member))
    for word in re.findall(r"[A-Za-z]\w+", str(stated)):
        named = getattr(inspect.getmodule(owner), word, None)
        if inspect.isclass(named) and named.__module__.startswith("analyst_client"):
            yield named


def _shown() -> set[str]:
    """Return the names of lines and columns of tables, of one small fit of each kind."""
    found = {"difference"}
    for name, way in (("groups", "release"), ("groups", "refine"), ("logit", "refine"), ("counts", "refine")):
        population = population_of(None, name)
        draw = population.draw(2_000, 0)
        answer, fit = buy(population, draw, 3.0, way)
        summaries, frames = [fit.summary()], []
        other, _ = buy(population, population.draw(2_000, 1), 3.0, way)
        summaries.append(type(fit)().fit([answer, other]).summary())
        if way == "release":
            people = of_people(population, draw, 3.0)
            found |= {one.label[2] for one in (*describe(people).estimates, *table_one(people, "x2").estimates)}
        if name == "groups":
            frames = [fit.tidy(), fit.glance()]
        lines = [word for one in summaries for word in (*dict(one.facts), *one.heads)]
        found |= {re.sub(r"\(.*|^[\d.]+% ", "", line).strip().replace(" ", "_") for line in lines}
        found |= {str(column) for frame in frames for column in frame.columns}
    return found


def main() -> int:
    """Simulate, print, and write; return 1 where more is missed than may be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of real sets")
    parser.add_argument("--screen", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=1000, help="where a figure is near its goal")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--ways", nargs="+", default=USUAL, choices=WAYS)
    parser.add_argument("--populations", nargs="*", default=[])
    parser.add_argument("--figures", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--missed", action="store_true", help="print what is not met alone")
    parser.add_argument("--output", type=Path, default=OUTPUT / "figures.json")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    print(HEAD + "\n| --- | ---: | ---: | --- | --- | ---: | --- | --- | ---: | ---: | --- |")
    with ProcessPoolExecutor(options.jobs) as pool:
        run = partial(pool.map, chunksize=5) if options.jobs > 1 else map
        for cell in cells(options.data, options.epsilons, options.ways, options.populations):
            figures = figures_of(population_of(options.data, cell.population), cell.way)
            only = tuple(name for name in figures if not options.figures or name in options.figures)
            verdicts, final = run_cell(cell, options.data, only, options.screen, options.repeats, run)
            found += records(cell, verdicts, final=final)
            shown = {n: v for n, v in verdicts.items() if not options.missed or v.state(final=final) != "met"}
            print("\n".join(lines(cell, shown, final=final)), flush=True)
    counts = Counter(one["state"] for one in found)
    print(f"\n{len(found)} figures: {', '.join(f'{count} {state}' for state, count in counts.most_common())}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    return int(counts["missed"] > MISSED_MOST * len(found))


if __name__ == "__main__":
    sys.exit(main())
