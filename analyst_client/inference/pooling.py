"""From releases to equations: common units for sites with different bounds, and weights by their noise."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyst_client.columns import Column, Term
from analyst_client.errors import EstimationError
from analyst_client.inference.equations import Equations, Site
from analyst_client.release import Release

FloatArray = NDArray[np.float64]


def pool(
    releases: Release | Sequence[Release], target: str | None = None, rows: float | Sequence[float] | None = None
) -> list[Equations]:
    r"""Return the equations of each target.

    Parameters
    ----------
    releases : Release or sequence of Release
        All with the same terms and targets; bounds, scalings, noise and order may differ.
    target : str, optional
        One of the targets. Default all, in the order of the first release.
    rows : float or sequence of float, optional
        How many rows each release has, where it holds no constant that tells.

    Returns
    -------
    list of Equations

    Raises
    ------
    EstimationError
        When a release holds no XᵀX or no Xᵀy.
    ValueError
        When there is no such target, or releases do not fit together.

    Notes
    -----
    Common units: a numeric term spans the widest bounds of all releases.

    Weights: with true :math:`A_k = n_kS` and score covariances :math:`\Omega_k`, the covariance of the solution,
    measured in the diagonal of S, is :math:`\sum w_k^2\,\mathrm{tr}(S^{-1}\Omega_k)/(\sum w_kn_k)^2`, least for
    :math:`w_k = n_k/\mathrm{tr}(S^{-1}\Omega_k)`. Without noise that is one over the residual variance, the plain sum;
    a site whose noise outweighs its rows counts the less. One weight for a whole site, from row counts and noise
    levels, keeps the pooled equations linear, symmetric and exactly centred at the true coefficients.
    """
    listed = [releases] if isinstance(releases, Release) else list(releases)
    if not listed:
        raise ValueError("a fit needs at least one release")
    counts = _row_counts(rows, len(listed))
    for release in listed:
        if release.xtx is None or release.xty is None or not release.targets:
            raise EstimationError("a fit needs XᵀX and Xᵀy: ask for the statistics 'xtx' and 'xty' with a target")
    first = listed[0]
    if target is not None and target not in first.target_names:
        raise ValueError(f"the release has no target {target!r}; it has {', '.join(first.target_names)}")
    terms, columns = _common_terms(listed), _common_columns(listed)
    names = [target] if target is not None else list(first.target_names)
    return [_equations(listed, name, terms, columns, counts) for name in names]


def _equations(
    releases: list[Release], target: str, terms: tuple[Term, ...], columns: tuple[Column, ...], rows: list[float | None]
) -> Equations:
    found = [_target(release, target) for release in releases]
    common = _widest([release.targets[t] for release, t in zip(releases, found, strict=True)])
    sites = tuple(
        _site(release, t, terms, common, count) for release, t, count in zip(releases, found, rows, strict=True)
    )
    equations = Equations(sites, np.ones(len(sites)), columns, terms, common)
    return equations if len(sites) == 1 else noise_weighted(equations)


def noise_weighted(equations: Equations) -> Equations:
    """Return the same sites, weighted by their noise; see `pool`."""
    sites = equations.sites
    counts = np.array([site.rows if site.rows is not None else max(np.trace(site.xtx), 0.0) for site in sites])
    counts = np.maximum(counts, 0.0)
    if not counts.any():
        raise EstimationError("no release tells of any row: the noise outweighs the data")
    theta = np.zeros(len(equations.terms))
    squares = [
        site.target_scale**2 * n if site.yty is None else site.yty for site, n in zip(sites, counts, strict=True)
    ]
    variances = np.full(len(sites), max(np.sum(squares), 0.0) / np.sum(counts))
    for _ in range(2):
        plain = np.array([np.diag(site.xtx) for site in sites]).T @ equations.weights
        floor = 1e-3 * np.max(plain)
        shape = np.maximum(plain, floor) / (equations.weights @ counts)
        costs = np.empty(len(sites))
        for k, site in enumerate(sites):
            sampling = counts[k] * shape * variances[k] + site.spread * (counts[k] * shape) ** 2
            costs[k] = np.sum((sampling + np.diag(site.noise_covariance(theta))) / shape)
        equations = equations.reweighted(counts / costs)
        try:
            theta, scale = equations.solution, equations.scale
        except EstimationError:
            break
        if np.all(scale.variances > 0.0) and np.linalg.eigvalsh(equations.xtx)[0] > 0.0:
            variances = scale.variances
        else:
            theta = np.zeros(len(equations.terms))
    return equations


def _site(release: Release, t: int, terms: tuple[Term, ...], target: Term, rows: float | None) -> Site:
    own_target = release.targets[t]
    scale = own_target.scale / target.scale
    shift = (own_target.center - target.center) / target.scale
    transform = _transform(release, terms)
    assert release.xtx is not None  # `pool` has looked
    assert release.xty is not None
    xtx, xty = release.xtx, release.xty[:, t]
    yty = None if release.yty is None else float(release.yty[t])
    count = float(xtx[0, 0]) if release.has_constant else rows
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
    return Site(release, xtx, own, yty, count, transform, scale, shift)


def _transform(release: Release, terms: tuple[Term, ...]) -> FloatArray:
    """Return T with common terms = T · the release's own terms."""
    places = {term.name: j for j, term in enumerate(release.terms)}
    transform = np.zeros((len(terms), len(terms)))
    for i, term in enumerate(terms):
        own = release.terms[places[term.name]]
        transform[i, places[term.name]] = own.scale / term.scale
        shift = (own.center - term.center) / term.scale
        if shift != 0.0:
            if not release.has_constant:
                raise ValueError(f"releases with different bounds of {term.name!r} fit together only with a constant")
            transform[i, 0] += shift
    return transform


def _common_terms(releases: list[Release]) -> tuple[Term, ...]:
    first = releases[0]
    for release in releases[1:]:
        if set(release.term_names) != set(first.term_names) or release.has_constant != first.has_constant:
            odd = sorted(set(release.term_names) ^ set(first.term_names))
            raise ValueError(f"releases have different terms: {', '.join(odd)}. Ask the same features of every curator")
    divided = {release.row_map for release in releases} & {"unit", "unit_xy"}
    if divided and len({release.row_map for release in releases}) > 1:
        raise ValueError("rows mapped by 'unit' or 'unit_xy' make another model: they go with their like alone")
    by_name = [{term.name: term for term in release.terms} for release in releases]
    terms = tuple(_widest([named[term.name] for named in by_name]) for term in first.terms)
    if divided and any(terms != tuple(named[name] for name in first.term_names) for named in by_name):
        raise ValueError("rows mapped by 'unit' or 'unit_xy' under different bounds do not fit together")
    return terms


def _widest(terms: list[Term]) -> Term:
    """Return one term for several of the same name: the same, or one that spans all their bounds."""
    first = terms[0]
    if any(term.kind != first.kind or term.unit != first.unit for term in terms):
        raise ValueError(f"releases say different things of {first.name!r}: {first.kind}, {first.unit or 'no unit'}, …")
    if all((term.center, term.scale) == (first.center, first.scale) for term in terms):
        return first
    lower = min(term.center - term.scale for term in terms)
    upper = max(term.center + term.scale for term in terms)
    return replace(first, center=(lower + upper) / 2.0, scale=(upper - lower) / 2.0)


def _common_columns(releases: list[Release]) -> tuple[Column, ...]:
    by_name = [{column.name: column for column in release.features} for release in releases]
    columns = []
    for column in releases[0].features:
        same = [named[column.name] for named in by_name if column.name in named]
        lower = [c.lower for c in same if c.lower is not None]
        upper = [c.upper for c in same if c.upper is not None]
        if any(c.levels != column.levels or c.type != column.type for c in same):
            raise ValueError(f"releases declare different levels of {column.name!r}")
        bounded = len(lower) == len(same)
        columns.append(replace(column, lower=min(lower) if bounded else None, upper=max(upper) if bounded else None))
    return tuple(columns)


def _target(release: Release, name: str) -> int:
    if name not in release.target_names:
        raise ValueError(f"a release has no target {name!r}; it has {', '.join(release.target_names)}")
    return release.target_names.index(name)


def _row_counts(rows: float | Sequence[float] | None, count: int) -> list[float | None]:
    if rows is None:
        return [None] * count
    listed = [float(rows)] if isinstance(rows, int | float) else [float(value) for value in rows]
    if len(listed) != count:
        raise ValueError(f"rows must have one number for each of the {count} releases")
    return list(listed)
