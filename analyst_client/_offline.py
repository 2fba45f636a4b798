"""The text of a release made of one's own arrays, as a curator would have written it."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.columns import Column, column_json, plain_term, term_json, terms_of
from analyst_client.values import Noise


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
    members = asdict(noise if isinstance(noise, Noise) else even_noise(float(noise), set(statistics)))
    body = {
        "id": "local",
        "dataset": dataset,
        "kind": "gram",
        "request": {"kind": "gram", "features": [column.name for column in columns]},
        "features": [column_json(column) for column in columns],
        "terms": [term_json(term) for term in terms],
        "targets": [term_json(plain_term(column)) for column in responses],
        "statistics": statistics,
        "noise": {"distribution": members.pop("distribution"), "sd": members},
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def as_columns(given: Sequence[str | Column] | None, default: list[str]) -> tuple[Column, ...]:
    """Return columns; a name alone is a numeric column without bounds."""
    names = default if given is None else given
    return tuple(item if isinstance(item, Column) else Column.numeric(item) for item in names)


def packed(values: ArrayLike, shape: tuple[int, ...], packing: str = "full") -> dict[str, Any]:
    """Pack one statistic."""
    numbers = np.ravel(np.asarray(values, dtype=np.float64)).tolist()
    return {"shape": list(shape), "packing": packing, "values": numbers}


def even_noise(sd: float, statistics: set[str]) -> Noise:
    """Return the same deviation for every entry of the given statistics."""
    others = {name: sd for name in ("xty", "yty", "lambda_min") if name in statistics}
    return Noise(sd, sd, others.get("xty"), others.get("yty"), others.get("lambda_min"))
