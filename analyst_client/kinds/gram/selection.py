"""Parts of a release: fewer features, or one of them as the target, cut out of XᵀX, Xᵀy and yᵀy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from analyst_client.kinds.arrays import frozen
from analyst_client.kinds.gram.coding import order_terms
from analyst_client.kinds.gram.quote import Noise
from analyst_client.kinds.gram.statistics import NoisyStatistics
from analyst_client.schema.columns import stored_columns
from analyst_client.schema.row_maps import row_map_named


class Part(NamedTuple):
    """Positions of a part's terms and targets in XᵀX and Xᵀy of the whole; a target that was a feature is in XᵀX."""

    features: tuple[str, ...]
    terms: list[int]
    targets: list[int]
    is_feature: bool


def find_part(
    release: NoisyStatistics,
    whole: NoisyStatistics,
    features: tuple[str, ...],
    targets: tuple[str, ...],
    row_map: str | None,
) -> Part:
    """Find a part of a release, which may be a part of the whole itself. `ValueError` says what would have worked."""
    within = {*release.feature_names, *release.target_names}
    single = {column.name: column for column in whole.features}
    columns = {name: single.get(name) for name in whole.feature_names if name in within}
    released = {name: t for t, name in enumerate(whole.target_names) if name in within}
    for name in targets:
        if name not in released and name not in columns:
            others = [other for other, column in columns.items() if column is not None and column.type != "categorical"]
            beside = f", and may take one of its features: {', '.join(others)}" if others else ""
            raise ValueError(f"the release has no target {name!r}; it has {', '.join(released) or 'none'}{beside}")
    for name in features:
        if name in released and name not in columns:
            raise ValueError(
                f"{name!r} was released as a target: what it has in common with the features has noise of another "
                f"size, so it cannot explain. Features are {', '.join(columns)}"
            )
        if name not in columns:
            raise ValueError(f"the release has no feature {name!r}; it has {', '.join(columns)}")
    if len(set(features)) < len(features) or set(features) & set(targets):
        raise ValueError("each column stands once: among the features, or as the target")
    moved = [name for name in targets if name not in released]
    if moved and (len(moved) < len(targets) or whole.xtx is None):
        raise ValueError(f"{moved[0]!r} as the target needs XᵀX, and a selection of its own")
    for name in moved:
        column = columns[name]
        if column is None or column.type == "categorical" or column.missing == "indicator":
            several = "of several terms" if column is None else "declared with missing = indicator"
            kind = "categorical" if column is not None and column.type == "categorical" else several
            raise ValueError(f"{name!r} is {kind}, so it cannot become a target: ask the curator for it")
    if row_map_named(row_map).divides_terms and (moved or set(features) != set(whole.feature_names)):
        raise ValueError(
            f"{row_map_named(row_map).division}: of a part of the features it holds no model; ask the curator for it"
        )
    if whole.combined and (moved or set(features) != set(whole.feature_names)):
        raise ValueError(
            "rows are of combinations of all features, so a part of them is no model of its own: ask the curator for it"
        )
    if not (terms := _find_terms(whole, features)):
        raise ValueError("a part needs a feature, as the release has no constant")
    places = {term.name: j for j, term in enumerate(whole.terms)}
    found = [places[name] for name in targets] if moved else [released[name] for name in targets]
    return Part(features, terms, found, bool(moved))


def _find_terms(whole: NoisyStatistics, features: Sequence[str]) -> list[int]:
    """Return the places of the constant, of the terms of features in their order, and of what flags missing values."""
    if whole.combined:
        return list(range(len(whole.terms)))
    terms = [0] if whole.has_constant else []
    for name in features:
        terms += [j for j, term in enumerate(whole.terms) if term.column == name]
    return terms + [j for j in _flags(whole, {whole.terms[j].column for j in terms}) if j not in terms]


def _flags(whole: NoisyStatistics, features: "set[str | None]") -> list[int]:
    """Return the indicators of missing values of the columns that features are computed from."""
    made = {name for term in whole.terms if term.column in features for name in term.columns if not term.factors}
    read = stored_columns([column for column in whole.columns if column.name in made])
    flagged = {column.name for column in read if column.missing == "indicator"}
    return [j for j, term in enumerate(whole.terms) if term.kind == "missing" and term.column in flagged]


def select_statistics(whole: NoisyStatistics, part: Part) -> dict[str, Any]:
    """Return what a part has for itself, by the names of its attributes."""
    xtx, xty, yty, noise = whole.xtx, whole.xty, whole.yty, whole.noise
    rows = part.terms
    targets: Sequence[Any] = whole.targets
    if part.is_feature:
        assert xtx is not None  # `find_part` has looked
        targets, xty, yty = whole.terms, xtx, np.diag(xtx)
        noise = Noise(noise.xtx_diagonal, noise.xtx_offdiagonal, distribution=noise.distribution)
        noise = replace(noise, xty=noise.xtx_offdiagonal, yty=noise.xtx_diagonal)
    chosen = tuple(targets[j] for j in part.targets)
    columns = {column.name: column for column in whole.features}
    used = {*part.features, *(target.name for target in chosen)}
    combined = tuple(whole.combined[j] for j in order_terms(whole.combined, part.features))
    used |= {name for term in combined or [whole.terms[j] for j in rows] for name in term.columns}
    same = not part.is_feature and len(rows) == len(whole.terms)  # in another order, which no eigenvalue notices
    return {
        "xtx": None if xtx is None else frozen(xtx[np.ix_(rows, rows)]),
        "xty": None if xty is None else frozen(xty[np.ix_(rows, part.targets)]),
        "yty": None if yty is None else frozen(yty[part.targets]),
        "features": tuple(columns[name] for name in part.features if name in columns),
        "inner_columns": tuple(c for c in whole.columns if c.name in used and c.name not in part.features),
        "terms": tuple(whole.terms[j] for j in rows),
        "combined": combined,
        "targets": chosen,
        "lambda_min": whole.lambda_min if same else None,
        "noise": noise if same else replace(noise, lambda_min=None),
    }
