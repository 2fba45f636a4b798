"""Assumed moments, from statements, rows or releases: pure functions behind `Assumptions`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError
from analyst_client.inference.pooling import pool
from analyst_client.inference.units import raw_units
from analyst_client.kinds.gram.design import design_matrix, map_rows
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.schema.columns import CONSTANT, Term, stored_columns
from analyst_client.schema.row_maps import ROW_MAPS, row_map_named

DUMMY_ROWS = 8192
MISSING_SHARE = 0.1
"""Of a column with an indicator, where nothing is stated: without any missing value it would have no effect to find."""


def row_map_of(quote: Quote) -> tuple[str, float | None]:
    """Return the row map and the norm. Raise `ValueError` for a map whose weights would reach into the target."""
    rows = rows_of(quote)
    if not row_map_named(rows["map"]).is_planned:
        known = ", ".join(repr(name) for name, row_map in ROW_MAPS.items() if row_map.is_planned)
        raise ValueError(f"planning knows the row maps {known}, and not {rows['map']!r}")
    return rows["map"], row_map_named(rows["map"]).norm(rows)


def rows_of(quote: Quote) -> Mapping[str, Any]:
    """Return the row map of a quote as on the wire."""
    return quote.request.get("rows") or {"map": "box"}


def scaled_rows(quote: Quote, frame: Any) -> FloatArray:
    """Code raw rows as the curator does, unweighted."""
    coded = design_matrix(frame, quote.columns, quote.terms, clip=True)
    return map_rows(coded, quote.terms, row_map_of(quote)[0])


def row_weights(quote: Quote, X: FloatArray) -> FloatArray:
    r"""Return :math:`\min(1, R/\lVert x\rVert)` under ``ball``, else 1, of shape (n,)."""
    return row_map_named(row_map_of(quote)[0]).weigh(X, rows_of(quote))


def assumed_missing_shares(quote: Quote, missing: Mapping[str, float] | None) -> tuple[dict[str, float], list[str]]:
    """Return shares of missing values: as stated, or some where an indicator needs them; or none."""
    stated = dict(missing or {})
    flagged = {name for term in quote.terms if term.kind == "missing" for name in term.columns}
    read = stored_columns([column for column in quote.columns if column.name in flagged])
    guessed = [column.name for column in read if column.missing == "indicator" and column.name not in stated]
    notes = [f"a tenth of {', '.join(map(str, guessed))} taken as missing"] if guessed else []
    gaps = stated | {str(name): MISSING_SHARE for name in guessed}
    omitted = [
        column.name for column in stored_columns(quote.columns) if column.missing == "omit" and gaps.get(column.name)
    ]
    if omitted:
        raise ValueError(f"rows that miss {', '.join(omitted)} are left out: count the complete ones in rows=")
    return gaps, notes


def target_means_of(quote: Quote, means: Mapping[str, float], shares: Mapping[str, Any]) -> dict[str, float]:
    """Return the stated means of targets; that of a boolean is its share of true."""
    found: dict[str, float] = {}
    for target in quote.targets:
        low, high = (
            (0.0, 1.0) if target.kind == "boolean" else (target.center - target.scale, target.center + target.scale)
        )
        bounded = (target.center, target.scale) != (0.0, 1.0) or target.kind == "boolean"
        stated = shares if target.kind == "boolean" else means
        other, word = (means, "shares") if target.kind == "boolean" else (shares, "means")
        if target.name in other:
            raise ValueError(f"target {target.name!r} is {target.kind}: state {word}={{{target.name!r}: …}}")
        if target.name in stated:
            found[target.name] = float(stated[target.name])
            if bounded and not low <= found[target.name] <= high:
                raise ValueError(f"the mean of {target.name!r} must lie within its bounds, {low:g} to {high:g}")
    return found


def assumed_target(
    quote: Quote,
    target: Term,
    X: FloatArray,
    stated: tuple[Any, Any, Mapping[str, Any] | None],
    laws: tuple[Mapping[str, float], Mapping[str, float]],
    notes: list[str],
) -> tuple[FloatArray, float]:
    """Return scaled coefficients and the scaled residual variance of one target, from whatever is stated of it.

    Parameters
    ----------
    quote : Quote
    target : Term
    X : ndarray of shape (m, D)
        Assumed rows, not weighted.
    stated : tuple
        Residual deviation, R², coefficients: as `Assumptions.of` takes them.
    laws : tuple of mapping
        Means and deviations by column.
    notes : list of str
        To which is added what was guessed.
    """
    means, sds = laws
    residual_sd, rsquared = (of_target(value, target.name) for value in stated[:2])
    target_sd = sds.get(target.name)
    _check_spread(target.name, residual_sd, rsquared, target_sd)
    spread = np.cov(X, rowvar=False, bias=True).reshape(X.shape[1], X.shape[1])
    coefficients = _of_one_target(stated[2] or {}, target.name, quote)
    slopes = _slopes(quote, target, coefficients)
    if slopes is not None:
        explained = float(slopes @ spread @ slopes) * target.scale**2
        residual_sd = residual_sd or _implied_residual_sd(target.name, explained, rsquared, target_sd)
    else:
        residual_sd, explained = _split(residual_sd, rsquared, target_sd)
        slopes = _even_slopes(spread, explained / target.scale**2)
        if not explained:
            notes.append(
                f"no coefficients and no R² stated for {target.name}: all slopes taken as 0; noise grows with them"
            )
    if residual_sd is None:
        raise ValueError(
            f"state how much of {target.name!r} is left unexplained, in its unit: residual_sd=; or rsquared= with "
            f"sds={{{target.name!r}: …}} or coefficients="
        )
    if quote.terms[0].kind == "constant" and CONSTANT not in coefficients:
        # The intercept that gives the target its mean.
        middle = 0.5 if target.kind == "boolean" else target.center
        mean = (means.get(target.name, middle) - target.center) / target.scale
        slopes[0] = mean - float(X.mean(axis=0)[1:] @ slopes[1:])
        if target.name not in means:
            notes.append(f"the mean of {target.name} taken as {middle:g}, the middle of its bounds")
    return slopes, (residual_sd / target.scale) ** 2


def _check_spread(target: str, residual_sd: float | None, rsquared: float | None, target_sd: float | None) -> None:
    for name, value in (("residual_sd", residual_sd), (f"the sd of {target!r}", target_sd)):
        if value is not None and not 0.0 < value < math.inf:
            raise ValueError(f"{name} must be positive, in the target's unit, not {value!r}")
    if rsquared is not None and not 0.0 <= rsquared < 1.0:
        raise ValueError(f"rsquared must be at least 0 and below 1, not {rsquared!r}")


def _implied_residual_sd(
    target: str, explained: float, rsquared: float | None, target_sd: float | None
) -> float | None:
    """Return the residual deviation beside coefficients that explain so much variance, if it follows."""
    if target_sd is not None:
        if target_sd**2 <= explained:
            raise ValueError(
                f"the coefficients alone give {target!r} an sd of {math.sqrt(explained):.4g}: state a larger one, "
                "smaller coefficients, or residual_sd="
            )
        return math.sqrt(target_sd**2 - explained)
    return math.sqrt(explained * (1.0 - rsquared) / rsquared) if rsquared else None


def _split(residual_sd: float | None, rsquared: float | None, target_sd: float | None) -> tuple[float | None, float]:
    """Return the residual deviation, if it follows, and the variance that is explained."""
    if residual_sd is None:
        if target_sd is None:
            return None, 0.0
        residual_sd = target_sd * math.sqrt(1.0 - (rsquared or 0.0))
    if rsquared is None:
        return residual_sd, max((target_sd or 0.0) ** 2 - residual_sd**2, 0.0)
    return residual_sd, residual_sd**2 * rsquared / (1.0 - rsquared)


def of_target(stated: Any, target: str) -> float | None:
    """Return what is stated of one target: of all of them one number, or one for each."""
    value = stated.get(target) if isinstance(stated, Mapping) else stated
    return None if value is None else float(value)


def _of_one_target(coefficients: Mapping[str, Any], target: str, quote: Quote) -> Mapping[str, float]:
    """Return the coefficients of one target: stated for it, or, where it is the only one, as they are."""
    if target in coefficients and isinstance(coefficients[target], Mapping):
        stated: Mapping[str, float] = coefficients[target]
        return stated
    if len(quote.targets) > 1 and coefficients:
        raise ValueError(f"with several targets state coefficients for each: {{{target!r}: {{term: value}}}}")
    return coefficients


def _slopes(quote: Quote, target: Term, stated: Mapping[str, float]) -> FloatArray | None:
    """Return scaled coefficients of stated raw ones, 0 for the others; None where no slope is stated."""
    names = [term.name for term in quote.terms]
    for name in stated:
        if name not in names:
            raise ValueError(f"there is no term {name!r} to have a coefficient; there are {', '.join(names)}")
    if not set(stated) - {CONSTANT}:
        return None
    L, constant = raw_units(quote.terms, target, row_map_of(quote)[0])
    first = int(quote.terms[0].kind != "constant")
    raw = np.array([float(stated.get(name, 0.0)) for name in names])
    return np.asarray(np.linalg.solve(L[first:], raw - constant[first:]), dtype=np.float64)


def _even_slopes(spread: FloatArray, explained: float) -> FloatArray:
    """Return slopes that explain so much variance, each standardised one alike."""
    deviations = np.sqrt(np.diag(spread))
    slopes: FloatArray = np.where(deviations > 1e-12, 1.0 / np.maximum(deviations, 1e-12), 0.0)
    now = float(slopes @ spread @ slopes)
    return slopes * math.sqrt(explained / now) if now > 0.0 else np.zeros(len(spread))


def read_release(
    quote: Quote, release: Release, rows: float | None, residual_sd: float | Mapping[str, float] | None
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return XᵀX, coefficients and residual variances of a release in the quote's units, and its number of rows."""
    release = release.as_released
    for listed, offered in ((quote.terms, release.term_names), (quote.targets, release.target_names)):
        lacking = [term.name for term in listed if term.name not in offered]
        if lacking:
            raise ValueError(f"release {release.id} lacks {', '.join(lacking)}: state what you assume of them instead")
    if release.xtx is None or release.xty is None:
        raise ValueError(f"release {release.id} holds no XᵀX or no Xᵀy: state what you assume instead")
    if release.mapped_by.divides_terms and release.row_map != row_map_of(quote)[0]:
        raise ValueError(f"release {release.id} is of rows mapped by {release.row_map!r}, which these are not")
    own = _definite(release.xtx, release.noise.xtx_diagonal or 0.0)
    transform = np.zeros((len(quote.terms), len(release.terms)))
    for i, term in enumerate(quote.terms):
        j = release.term_names.index(term.name)
        transform[i, j] = release.terms[j].scale / term.scale
        shift = (release.terms[j].center - term.center) / term.scale
        if shift != 0.0 and not release.has_constant:
            raise ValueError(f"release {release.id} has other bounds of {term.name!r}, and no constant to move them by")
        if shift != 0.0:
            transform[i, 0] += shift
    A = transform @ own @ transform.T
    beta, variances = np.empty((len(quote.terms), len(quote.targets))), np.empty(len(quote.targets))
    for t, target in enumerate(quote.targets):
        k = release.target_names.index(target.name)
        scale = release.targets[k].scale / target.scale
        shift = (release.targets[k].center - target.center) / target.scale
        cross = scale * release.xty[:, k] + (shift * own[0] if release.has_constant else 0.0)
        beta[:, t] = np.linalg.solve(A, transform @ cross)
        stated = of_target(residual_sd, target.name)
        variances[t] = (
            scale**2 * _told_variance(release, target.name) if stated is None else (stated / target.scale) ** 2
        )
    return (A + A.T) / 2.0, beta, variances, _row_count(release, own, rows)


def _told_variance(release: Release, target: str) -> float:
    """Return the residual variance that a release tells of, or the deviation of its noise where that hides it."""
    try:
        scale = pool(release, target)[0].scale
    except EstimationError as error:
        raise ValueError(
            f"release {release.id} does not tell the residual variance of {target!r} ({error}): state residual_sd="
        ) from None
    return float(scale.variances[0]) or float(scale.noise_sd[0])


def _row_count(release: Release, own: FloatArray, rows: float | None) -> float:
    """Return how many rows a release tells of, at the least."""
    if not release.has_constant:
        if rows is None:
            raise ValueError(f"release {release.id} has no constant to tell the number of rows: state rows=")
        return float(rows)
    return max(float(own[0, 0]), float(np.trace(own)) / release.norm**2 if release.norm else 0.0)


def _definite(A: FloatArray, floor: float) -> FloatArray:
    """Return A with eigenvalues below a floor set to it."""
    eigenvalues, vectors = np.linalg.eigh(A)
    raised = np.maximum(eigenvalues, max(floor, 1e-9 * float(eigenvalues[-1])))
    definite: FloatArray = (vectors * raised) @ vectors.T
    return definite


def same_terms(quote: Quote, release: Release) -> bool:
    """Return whether rows of both weigh the same: the same terms with the same bounds."""
    keys = [{(term.name, term.center, term.scale) for term in terms} for terms in (quote.terms, release.terms)]
    return keys[0] == keys[1]


def normal_like(moments: FloatArray, quote: Quote) -> FloatArray:
    """Make up normal rows with the given second moments, clipped to their bounds."""
    d = len(moments)
    first = int(quote.terms[0].kind == "constant")
    mean = moments[0, first:] if first else np.zeros(d)
    covariance = _definite(moments[first:, first:] - np.outer(mean, mean), 0.0)
    drawn = np.random.default_rng(0).standard_normal((max(DUMMY_ROWS, 20 * d), d - first))
    drawn -= drawn.mean(axis=0)
    drawn = drawn @ np.linalg.inv(np.linalg.cholesky(drawn.T @ drawn / len(drawn))).T
    rows = np.clip(mean + drawn @ np.linalg.cholesky(covariance).T, -1.0, 1.0)
    return np.column_stack([np.ones((len(rows), first)), rows])
