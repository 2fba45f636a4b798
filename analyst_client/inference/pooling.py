"""From releases to equations: common units for sites with different bounds, and weights by their noise."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.borrowing import anchored, own_variance
from analyst_client.inference.equations import Equations, ResidualScale, Site
from analyst_client.inference.meat import with_meat
from analyst_client.inference.quantiles import chi2_quantile
from analyst_client.kinds.gram.arguments import check_target
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.recoding import Coding, common_levels, factors_of, skeleton, with_levels
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import Column, Term
from analyst_client.schema.jobs import Job
from analyst_client.schema.quotes import ReleaseSummary
from analyst_client.schema.row_maps import UnknownRowMap

APART = 0.999
"""Probability by which residual variances of hospitals must differ before each weighs by its own."""


def pool(
    releases: Release | Sequence[Release] | Mapping[str, Release],
    target: str | None = None,
    rows: float | Sequence[float] | None = None,
    features: Sequence[str] | None = None,
) -> list[Equations]:
    r"""Return the equations of each target.

    Parameters
    ----------
    releases : Release, or sequence or mapping of Release
        All with the same features and targets; bounds, scalings, noise, order and reference levels may differ, and a
        category may have levels at one of them alone. Terms are those of the first release.
    target : str, optional
        One of the targets, or of the features. Default all targets, in the order of the first release.
    rows : float or sequence of float, optional
        How many rows each release has, where it holds no constant that tells.
    features : sequence of str, optional
        Which columns explain. Default all; see `Release.select`, which picks them, and a target among the features.

    Raises
    ------
    EstimationError
        When a release holds no XᵀX or no Xᵀy.
    ValueError
        When there is no such target, or releases do not fit together.

    Notes
    -----
    Common units: a numeric term spans the widest bounds of all releases. The indicator of a level that a release has
    no term of is its constant less those of the other levels; of a level that it does not declare it has no row.

    Public rows are anchored to the hospitals' coefficients before anything is borrowed from them, see `borrowing`.

    Releases of one population share rows: their noise averages out, their sampling errors are counted in full.

    Weights: with true :math:`A_k = n_kS` and score covariances :math:`\Omega_k`, the covariance of the solution,
    measured in the diagonal of S, is :math:`\sum w_k^2\,\mathrm{tr}(S^{-1}\Omega_k)/(\sum w_kn_k)^2`, least for
    :math:`w_k = n_k/\mathrm{tr}(S^{-1}\Omega_k)`. Without noise that is one over the residual variance, the plain sum
    where hospitals have one; where theirs differ beyond chance each weighs by its own;
    a site whose noise outweighs its rows counts the less. One weight for a whole site, from row counts and noise
    levels, keeps the pooled equations linear and symmetric; that a noisy count raises its own weight is corrected for,
    see `Equations.xtx`.
    """
    listed = as_releases(releases)
    check_target(target)
    if features is not None or (target is not None and target not in listed[0].target_names):
        listed = [release.select(features, target) for release in listed]
    if len({release.original.text for release in listed}) < len(listed):
        raise ValueError("the same release is in the list twice: it tells nothing new the second time")
    if rows is not None and any(release.has_constant for release in listed):
        raise ValueError("rows= is for releases without a constant: one that has it tells of its rows itself")
    counts = _row_counts(rows, len(listed))
    for release in listed:
        if release.xtx is None or release.xty is None or not release.targets:
            raise EstimationError("a fit needs XᵀX and Xᵀy: ask for the statistics 'xtx' and 'xty' with a target")
    names = [target] if target is not None else list(listed[0].target_names)
    own = [release.as_released for release in listed]  # there each entry has noise of its own
    terms, columns = _common_terms(listed[0], own), _common_columns([listed[0], *own[1:]])
    return [_equations(own, name, terms, columns, counts) for name in names]


def as_releases(given: Any) -> list[Release]:
    """Return what a fit is given as a list of releases. Raise `ValueError` for anything else, with the way to one."""
    if isinstance(given, Release):
        return [given]
    values = given.values() if isinstance(given, Mapping) else given
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str | os.PathLike) else [given]
    if not listed:
        raise ValueError("a fit needs at least one release")
    for one in listed:
        if not isinstance(one, Release):
            # A frame and an array are lists of names and of numbers too.
            is_listed = isinstance(given, list | tuple | Mapping)
            raise ValueError(f"a fit takes a release, {release_hint(one if is_listed else given)}")  # noqa: TRY004 -- one kind of error for arguments
    return listed


def release_hint(given: object) -> str:
    """Return a hint for an argument that is not a release: the call that makes one of it."""
    if isinstance(given, str | os.PathLike):
        return f"not the name of a file: Release.load({str(given)!r}) reads one"
    if isinstance(given, Quote):
        return "and a quote holds no statistics: client.release(…) with the same arguments asks for them"
    if isinstance(given, Job):
        return "not a job: client.wait(job) returns its release"
    if isinstance(given, ReleaseSummary):
        return f"not a line of the library: client.fetch_release({given.id!r}) returns the whole"
    return (
        "not rows: client.release(…) asks for one of the curator's rows, and "
        "Release.from_public(frame, [Column.numeric(…), …], Column.numeric(…)) makes one of rows that are yours"
    )


def own_equations(equations: Equations) -> Equations:
    """Return the same sites with public rows as they are, before they were anchored."""
    rows = [site.rows for site in equations.sites]
    own = [
        _site(site.release, _target(site.release, equations.target.name), equations.terms, equations.target, count)
        for site, count in zip(equations.sites, rows, strict=True)
    ]
    return replace(equations, sites=_with_overlaps(tuple(own)))


def without_site(equations: Equations, k: int) -> Equations:
    """Return the equations of all sites but one, pooled anew."""
    own = own_equations(equations).sites
    return _pooled(
        replace(equations, sites=own[:k] + own[k + 1 :], weights=np.ones(len(own) - 1), slopes=None, hospitals=None)
    )


def _equations(
    releases: list[Release], target: str, terms: tuple[Term, ...], columns: tuple[Column, ...], rows: list[float | None]
) -> Equations:
    found = [_target(release, target) for release in releases]
    common = _widest([release.targets[t] for release, t in zip(releases, found, strict=True)])
    sites = tuple(
        _site(release, t, terms, common, count) for release, t, count in zip(releases, found, rows, strict=True)
    )
    return _pooled(Equations(sites, np.ones(len(sites)), columns, terms, common))


def _with_overlaps(sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """Count how many sites are of the same people: of one population at the curator that signs with one key."""
    people = [site.release.people or (str(k), "") for k, site in enumerate(sites)]
    return tuple(replace(site, overlap=people.count(name)) for site, name in zip(sites, people, strict=True))


def _pooled(equations: Equations) -> Equations:
    sites = _with_overlaps(equations.sites)
    equations = replace(equations, sites=sites)
    if len(sites) == 1:
        return equations
    hospitals = tuple(site for site in sites if site.variance is None)
    if not hospitals or len(hospitals) == len(sites):
        return noise_weighted(equations)
    own = noise_weighted(replace(equations, sites=hospitals, weights=np.ones(len(hospitals))))
    together = tuple(site if site.variance is None else anchored(site, own) for site in sites)
    return noise_weighted(replace(equations, sites=together, hospitals=own))


def noise_weighted(equations: Equations) -> Equations:
    """Return the same sites, weighted by their noise; see `pool`. Anchored public rows weigh one over their s²."""
    sites, d = equations.sites, len(equations.terms)
    private = [k for k, site in enumerate(sites) if site.variance is None]
    weights = np.array([1.0 if site.variance is None else 1.0 / (d * site.variance) for site in sites])
    if not private:
        return equations.reweighted(weights)
    counts = np.array([sites[k].rows if sites[k].rows is not None else np.trace(sites[k].xtx) for k in private])
    counts = np.maximum(counts.astype(np.float64), 0.0)
    if not counts.any():
        raise EstimationError("no release tells of any row: the noise outweighs the data")
    weights[private], slopes = np.where(counts > 0.0, 1.0, 0.0), np.zeros(len(sites))
    theta, variances = np.zeros(d), np.full(len(private), _mean_square([sites[k] for k in private], counts) or 1.0)
    diagonals = np.array([np.diag(sites[k].xtx) for k in private]).T
    for _ in range(2):
        plain = np.abs(diagonals @ weights[private])
        shape = np.maximum(plain, 1e-3 * np.max(plain)) / (weights[private] @ counts)
        for k, count, variance in zip(private, counts, variances, strict=True):
            # the site's variance for one row, and that of its noise, both over the mean square of each term
            sampled = variance * sites[k].overlap * d
            noise = float(np.sum(np.diag(sites[k].noise_covariance(theta)) / shape))
            whole = count * sampled + noise
            weights[k] = count / whole if whole > 0.0 else 0.0
            counted = count > 0.0 and sites[k].release.has_constant
            slopes[k] = noise / whole**2 if counted and whole > 0.0 else 0.0
        equations = equations.reweighted(weights, slopes)
        try:
            found, scale = equations.solution, equations.scale
        except EstimationError:
            break
        if np.linalg.eigvalsh(equations.xtx)[0] > 0.0:
            theta, variances = found, _variances_apart(scale, private, counts, variances)
    return equations


def _variances_apart(scale: ResidualScale, private: list[int], counts: FloatArray, before: FloatArray) -> FloatArray:
    """Return the residual variances that weigh hospitals: one for all of them, unless theirs differ beyond chance.

    So hospitals that are alike weigh as their rows together would.
    """
    own, noise = scale.unbiased[private], scale.noise_sd[private] ** 2
    rows = np.maximum(counts, 1.0)
    common = float(rows @ own) / float(np.sum(rows))
    for _ in range(2):
        precision = 1.0 / np.maximum(noise + 2.0 * common**2 / rows, 1e-300)
        common = float(precision @ own) / float(np.sum(precision))
    if len(own) > 1 and precision @ (own - common) ** 2 > chi2_quantile(APART, len(own) - 1):
        return np.where(scale.variances[private] > 0.0, scale.variances[private], before)
    common = common if len(own) > 1 else float(scale.variances[private[0]])
    return np.full(len(own), common) if common > 0.0 else before


def _mean_square(sites: list[Site], counts: FloatArray) -> float:
    """Return the mean square of the target, a first bound on the residual variance."""
    squares = [
        site.target_scale**2 * n if site.yty is None else site.yty for site, n in zip(sites, counts, strict=True)
    ]
    return max(float(np.sum(squares)), 0.0) / float(np.sum(counts))


def _site(release: Release, t: int, terms: tuple[Term, ...], target: Term, rows: float | None) -> Site:
    own_target = release.targets[t]
    scale = own_target.scale / target.scale
    shift = (own_target.center - target.center) / target.scale
    transform = _coding(release).matrix(terms)
    assert release.xtx is not None  # `pool` has looked
    assert release.xty is not None
    xtx, xty = release.xtx, release.xty[:, t]
    yty = None if release.yty is None else float(release.yty[t])
    form = release.constant_form
    count = rows if form is None or rows is not None else float(form @ xtx @ form)
    if shift != 0.0 and not release.has_constant:
        raise ValueError(f"releases with different bounds of {target.name!r} fit together only with a constant")
    own = xty
    if scale != 1.0 or shift != 0.0:
        own = scale * xty + shift * xtx[0]
        if yty is not None:
            yty = float(scale**2 * yty + 2.0 * scale * shift * xty[0] + shift**2 * xtx[0, 0])
    if not np.array_equal(transform, np.eye(len(terms))):
        xtx = transform @ xtx @ transform.T
        xtx, own = (xtx + xtx.T) / 2.0, transform @ own
    site = Site(release, xtx, own, yty, count, _completed(transform), scale, shift)
    if release.is_public:
        return replace(site, variance=own_variance(site))
    return with_meat(site, Equations((site,), np.ones(1), release.columns, terms, target))


def _coding(release: Release) -> Coding:
    return Coding(release.terms, release.columns)


def _completed(transform: FloatArray) -> FloatArray:
    """Return T with columns for as many terms as the release lacks: of what it has no row of."""
    wanted, own = transform.shape
    if wanted == own:
        return transform
    directions, sizes, _ = np.linalg.svd(transform)
    assert sizes[-1] > 0.0  # no term of the release is lost, see `_common_terms`
    completed: FloatArray = np.hstack([transform, directions[:, own:]])
    return completed


def _common_terms(first: Release, releases: list[Release]) -> tuple[Term, ...]:
    """Return the terms of the first release, with those of levels that others declare beside, in the widest bounds."""
    kinds = {skeleton(term) for term in first.terms}
    for release in releases[1:]:
        apart = kinds ^ {skeleton(term) for term in release.terms}
        if apart or release.has_constant != first.has_constant:
            odd = sorted({term.name for term in (*first.terms, *release.terms) if skeleton(term) in apart})
            raise ValueError(f"releases have different terms: {', '.join(odd)}. Ask the same features of every curator")
    if any((release.combined, release.posted) != (first.combined, first.posted) for release in releases):
        raise ValueError(
            "releases are of other combinations, or of terms with other bounds: combine alike at every curator"
        )
    row_maps = {release.mapped_by.name for release in releases}
    divided = next((release.mapped_by for release in releases if release.mapped_by.divides_terms), None)
    unknown = next((one.mapped_by for one in releases if isinstance(one.mapped_by, UnknownRowMap)), None)
    if unknown is not None:
        raise ValueError(f"this client does not know the row map {unknown.name}: a newer one may")
    if divided is not None and len(row_maps) > 1:
        raise ValueError(f"rows mapped by {divided.name!r} make another model: they go with their like alone")
    named = [{column.name: column for column in release.columns} for release in releases]
    listed = with_levels(first.terms, named[0], common_levels(named))
    factors = [{factor.name: factor for term in release.terms for factor in factors_of(term)} for release in releases]
    terms = tuple(_widened(term, factors) for term in listed)
    codings = [_coding(release).matrix(terms) for release in releases]
    if divided is not None and any(not set(np.unique(T)) <= {0.0, 1.0} or len(T) != len(T.T) for T in codings):
        raise ValueError(f"rows mapped by {divided.name!r} under different bounds or levels do not fit together")
    return terms


def _widened(term: Term, factors: list[dict[str, Term]]) -> Term:
    """Return a term with the widest bounds of its factors in all releases."""
    if term.kind in {"constant", "level"}:
        return term
    if term.factors:
        return replace(term, factors=tuple(_widened(factor, factors) for factor in term.factors))
    return _widest([known[term.name] for known in factors if term.name in known])


def _widest(terms: list[Term]) -> Term:
    """Return one term for several of the same name: the same, or one that spans all their bounds."""
    first = terms[0]
    if any(term.kind != first.kind or term.unit != first.unit for term in terms):
        raise ValueError(
            f"releases say different things of {first.name!r}: {first.kind}, {first.unit or 'no unit'}, …. "
            "convert(…) brings a release to another unit"
        )
    if all((term.center, term.scale) == (first.center, first.scale) for term in terms):
        return first
    lower = min(term.center - term.scale for term in terms)
    upper = max(term.center + term.scale for term in terms)
    return replace(first, center=(lower + upper) / 2.0, scale=(upper - lower) / 2.0)


def _common_columns(releases: list[Release]) -> tuple[Column, ...]:
    by_name = [{c.name: c for c in release.columns if c.name not in release.target_names} for release in releases]
    columns, levels = [], common_levels(by_name)
    for column in by_name[0].values():
        same = [named[column.name] for named in by_name if column.name in named]
        lower = [c.lower for c in same if c.lower is not None]
        upper = [c.upper for c in same if c.upper is not None]
        if any((column.type != "categorical" and c.levels != column.levels) or c.type != column.type for c in same):
            raise ValueError(f"releases declare different levels of {column.name!r}")
        known = levels.get(column.name, column.levels)
        bounded = len(lower) == len(same)
        low, high = (min(lower), max(upper)) if bounded else (None, None)
        columns.append(replace(column, lower=low, upper=high, levels=known))
    return tuple(columns)


def _target(release: Release, name: str) -> int:
    if name not in release.target_names:
        raise ValueError(f"a release has no target {name!r}; it has {', '.join(release.target_names)}")
    return release.target_names.index(name)


def _row_counts(rows: float | Sequence[float] | None, count: int) -> list[float | None]:
    if rows is None:
        return [None] * count
    given: list[object] = list(rows) if isinstance(rows, Iterable) else [rows]
    if len(given) != count:
        raise ValueError(f"rows must have one number for each of the {count} releases")
    known: list[float | None] = []
    for value in given:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        if not (math.isfinite(number) and number > 0.0):
            raise ValueError(f"rows must be finite and positive, not {value!r}")
        known.append(number)
    return known
