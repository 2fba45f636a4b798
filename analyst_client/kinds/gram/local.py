"""The text of a release made of one's own arrays, as a curator would have written it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.coding import name_features
from analyst_client.kinds.gram.design import code_target, design_matrix, map_rows
from analyst_client.kinds.gram.quote import Noise
from analyst_client.schema.columns import (
    Column,
    DerivedColumn,
    Term,
    column_json,
    plain_term,
    stored_columns,
    term_json,
    terms_of,
)
from analyst_client.terms.expression import Expression, col


class Coding(NamedTuple):
    """The rule that turns rows into the terms and the targets of a release.

    Attributes
    ----------
    features, columns : tuple of Column
    terms, targets : tuple of Term
    expressions : mapping of str to Expression
        Features and targets as they are asked for, by name.
    clipped : tuple of bool
        Whether the values of each target are clipped to the target's bounds.
    row_map : str or None
        The release's row map, where it is known.
    """

    features: tuple[Column, ...]
    columns: tuple[Column, ...]
    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    expressions: Mapping[str, Expression]
    clipped: tuple[bool, ...]
    row_map: str | None = None


def write_release(
    xtx: ArrayLike,
    xty: ArrayLike | None,
    yty: ArrayLike | None,
    *,
    lambda_min: float | None,
    features: Sequence[str | Column] | None,
    targets: Sequence[str | Column] | None,
    constant: bool,
    noise: float | Noise,
    norm: float | None,
    dataset: str,
) -> str:
    """Write the text; the arguments are those of `Release.from_arrays`."""
    gram = np.asarray(xtx, dtype=np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or gram.shape[0] == 0:
        raise ValueError(f"xtx must be square, not of shape {gram.shape}")
    if not np.isfinite(gram).all() or not np.allclose(gram, gram.T, rtol=1e-12, atol=0.0):
        raise ValueError("xtx must be finite and symmetric")
    d = len(gram)
    cross = None if xty is None else np.asarray(xty, dtype=np.float64)
    cross = cross[:, np.newaxis] if cross is not None and cross.ndim == 1 else cross
    squares = None if yty is None else np.atleast_1d(np.asarray(yty, dtype=np.float64))
    t = cross.shape[-1] if cross is not None else 0 if squares is None else len(squares)
    columns = as_columns(features, default=[f"x{i + 1}" for i in range(d - constant)])
    responses = as_columns(targets, default=["y"] if t == 1 else [f"y{i + 1}" for i in range(t)])
    terms = terms_of(columns, constant)
    if len(terms) != d:
        raise ValueError(f"features and constant make {len(terms)} terms, and xtx has {d} rows")
    for name, array, shape in (("xty", cross, (d, len(responses))), ("yty", squares, (len(responses),))):
        if array is not None and array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    statistics = {"xtx": packed(gram[np.triu_indices(d)], (d, d), "upper")}
    if cross is not None:
        statistics["xty"] = packed(cross, cross.shape)
    if squares is not None:
        statistics["yty"] = packed(squares, squares.shape)
    if lambda_min is not None:
        statistics["lambda_min"] = packed(lambda_min, ())
    return write_text(
        release_id="local",
        dataset=dataset,
        request=request_of([column.name for column in columns], norm),
        features=columns,
        columns=columns,
        terms=terms,
        targets=tuple(plain_term(column) for column in responses),
        statistics=statistics,
        noise=noise if isinstance(noise, Noise) else uniform_noise(float(noise), set(statistics)),
    )


def write_text(
    *,
    release_id: str,
    dataset: str,
    request: Mapping[str, Any],
    features: Sequence[Column],
    columns: Sequence[Column],
    terms: Sequence[Term],
    targets: Sequence[Term],
    statistics: Mapping[str, Any],
    noise: Noise,
    cost: Mapping[str, Any] | None = None,
) -> str:
    """Write the text of a release, as a curator would, of statistics that are packed."""
    members = asdict(noise)
    body = {
        "id": release_id,
        "dataset": dataset,
        "kind": KIND,
        "request": request,
        "features": [column_json(column) for column in features],
        "terms": [term_json(term) for term in terms],
        "targets": [term_json(term) for term in targets],
        "statistics": statistics,
        "noise": {"distribution": members.pop("distribution"), "sd": members},
    }
    if list(columns) != list(features):  # something is computed
        body["columns"] = [column_json(column) for column in stored_columns(columns)]
        body["derived"] = [column_json(column) for column in columns if isinstance(column, DerivedColumn)]
    if cost is not None:
        body["cost"] = cost
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def coding_of(features: Sequence[Column], target: str | Column | Sequence[Column] | None, *, constant: bool) -> Coding:
    """Return the coding of declared columns; the arguments are those of `Release.from_public`."""
    if isinstance(target, str) or target is None:
        raise ValueError("beside columns the target must be a Column, with its bounds")
    responses = (target,) if isinstance(target, Column) else tuple(target)
    return Coding(
        tuple(features),
        tuple(features),
        terms_of(tuple(features), constant),
        tuple(plain_term(column) for column in responses),
        {column.name: col(column.name) for column in features},
        tuple(column.lower is not None for column in responses),
    )


def write_public(frame: Any, coding: Coding, *, dataset: str) -> str:
    """Write the text of a release of the analyst's own rows, coded as stated."""
    features, columns, terms, targets, expressions, clipped, row_map = coding
    twice = {term.name for term in targets} & {column.name for column in features}
    if twice:
        raise ValueError(f"{', '.join(sorted(twice))} stands among the features and the targets")
    rows = map_rows(design_matrix(frame, columns, terms, clip=True), terms, row_map)
    values = np.column_stack(
        [code_target(frame, term, columns, clip) for term, clip in zip(targets, clipped, strict=True)]
    )
    if row_map == "unit_xy":
        raise ValueError("rows mapped by 'unit_xy' are not made here: the target would have to be divided too")
    known = ~np.isnan(np.column_stack([rows, values])).any(axis=1)
    if not known.any():
        raise ValueError("no row is complete")
    rows, values = rows[known], values[known]
    gram = rows.T @ rows
    gram = (gram + gram.T) / 2.0
    request = request_of([expressions[name].to_json() for name in name_features(features, terms)], None)
    if any(target.name in expressions for target in targets):
        request["targets"] = [expressions[target.name].to_json() for target in targets]
    statistics = {
        "xtx": packed(gram[np.triu_indices(len(gram))], gram.shape, "upper"),
        "xty": packed(rows.T @ values, (len(gram), len(targets))),
        "yty": packed(np.sum(values**2, axis=0), (len(targets),)),
    }
    return write_text(
        release_id="local",
        dataset=dataset,
        request=request | {"public": True} | ({"rows": {"map": row_map}} if row_map == "unit" else {}),
        features=features,
        columns=columns,
        terms=terms,
        targets=targets,
        statistics=statistics,
        noise=uniform_noise(0.0, set(statistics)),
    )


def request_of(features: list[Any], norm: float | None) -> dict[str, Any]:
    """Return what a curator would have been asked."""
    request: dict[str, Any] = {"kind": KIND, "features": features}
    if norm is not None:
        if not (math.isfinite(norm) and norm > 0.0):
            raise ValueError(f"norm must be finite and positive, not {norm!r}")
        request["rows"] = {"map": "ball", "norm": float(norm)}
    return request


def as_columns(given: Sequence[str | Column] | None, default: list[str]) -> tuple[Column, ...]:
    """Return columns; a name alone is a numeric column without bounds."""
    names = default if given is None else given
    return tuple(item if isinstance(item, Column) else Column.numeric(item) for item in names)


def packed(values: ArrayLike, shape: tuple[int, ...], packing: str = "full") -> dict[str, Any]:
    """Pack one statistic."""
    numbers = np.ravel(np.asarray(values, dtype=np.float64)).tolist()
    return {"shape": list(shape), "packing": packing, "values": numbers}


def uniform_noise(sd: float, statistics: set[str]) -> Noise:
    """Return the same deviation for every entry of the given statistics."""
    others = {name: sd for name in ("xty", "yty", "lambda_min") if name in statistics}
    return Noise(sd, sd, others.get("xty"), others.get("yty"), others.get("lambda_min"))
