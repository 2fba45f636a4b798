"""Releases made of one's own arrays or rows: their text is as a curator would have written it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from analyst_client.error_base import ServiceError
from analyst_client.kinds.gram import KIND
from analyst_client.kinds.gram.coding import Coded
from analyst_client.kinds.gram.design import code_target, design_matrix, map_rows
from analyst_client.kinds.gram.quote import Noise
from analyst_client.kinds.gram.statistics import NoisyStatistics
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.schema.columns import (
    Column,
    DerivedColumn,
    column_json,
    plain_term,
    stored_columns,
    term_json,
    terms_of,
)
from analyst_client.schema.row_maps import NAME_MAX, RowMap, row_map_named
from analyst_client.terms.expression import col


def write_text(
    coded: Coded,
    *,
    release_id: str,
    dataset: str,
    request: Mapping[str, Any],
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
        "features": [column_json(column) for column in coded.features],
        "terms": [term_json(term) for term in coded.terms],
        "targets": [term_json(term) for term in coded.targets],
        "statistics": statistics,
        "noise": {"distribution": members.pop("distribution"), "sd": members},
    }
    if coded.inner_columns:  # something is computed
        body["columns"] = [column_json(column) for column in stored_columns(coded.columns)]
        body["derived"] = [column_json(column) for column in coded.columns if isinstance(column, DerivedColumn)]
    if cost is not None:
        body["cost"] = cost
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def coded_of(features: Sequence[Column], responses: Sequence[Column], *, constant: bool) -> Coded:
    """Return how declared columns are coded."""
    return Coded(
        features=tuple(features),
        inner_columns=(),
        terms=terms_of(tuple(features), constant),
        targets=tuple(map(plain_term, responses)),
        expressions={column.name: col(column.name) for column in features},
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


@dataclass(frozen=True, eq=False, repr=False)
class MadeHere(NoisyStatistics, PublishedAnswer):
    """A release that may be made of one's own arrays or rows, to be read as if a curator had answered it."""

    kind = KIND

    @property
    def rows_asked(self) -> Mapping[str, Any]:
        """The row map as on the wire; empty where rows were not mapped."""
        rows = self.request.get("rows")
        if rows is None:
            return {}
        return rows if isinstance(rows, dict) and "map" in rows else {"map": rows}  # which is no name of one

    @property
    def row_map(self) -> str | None:
        """Row map of the curator: ``"box"``, ``"ball"``, ``"unit"``, ``"unit_xy"`` or ``"linear"``, or None."""
        name = self.rows_asked.get("map")
        return name if name is None or isinstance(name, str) else str(name)[:NAME_MAX]

    @property
    def mapped_by(self) -> RowMap:
        """Facts of the row map."""
        return row_map_named(self.rows_asked.get("map"))

    @classmethod
    def from_arrays(
        cls,
        xtx: ArrayLike,
        xty: ArrayLike | None = None,
        yty: ArrayLike | None = None,
        *,
        lambda_min: float | None = None,
        features: Sequence[str | Column] | None = None,
        targets: Sequence[str | Column] | None = None,
        constant: bool = True,
        noise: float | Noise = 0.0,
        norm: float | None = None,
        dataset: str = "local",
    ) -> Self:
        r"""Make a release of one's own arrays, to work offline; it has no cost and no receipt.

        Parameters
        ----------
        xtx : array-like of shape (D, D)
            Symmetric, finite; the constant first if there is one, then the terms of `features` in order.
        xty : array-like of shape (D, T) or (D,), optional
            One column for each target. Default the release has none.
        yty : array-like of shape (T,) or scalar, optional
            Sum of squares of each target. Default the release has none.
        lambda_min : float, optional
            Smallest eigenvalue of XᵀX. Default the release has none.
        features : sequence of str or Column, optional
            A string is a numeric column without bounds, whose raw values are the scaled ones. A numeric `Column`
            with bounds says that the arrays were made of ``(x - center) / scale``. A categorical one with L levels
            stands for L − 1 terms beside a constant and for L without. Default ``x1``, ``x2``, ….
        targets : sequence of str or Column, optional
            Default ``y``, or ``y1``, ``y2``, ….
        constant : bool
            Whether the first row of `xtx` is the constant's.
        noise : float or Noise
            Standard deviation of the noise: one for all entries, or one for each statistic.
        norm : float, optional
            Radius to which rows were weighted, as the row map ``"ball"`` does. Default rows were not weighted.
        dataset : str
            A name to show.

        Raises
        ------
        ValueError
            When the shapes do not fit together or a number is not finite.

        Examples
        --------
        >>> from analyst_client import Release
        >>> age, y = np.array([-1.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.8])
        >>> X = np.column_stack([np.ones(3), age])
        >>> age_in_years = Column.numeric("age", 50, 100, unit="years")
        >>> release = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=[age_in_years], targets=["kappa"])
        >>> release
        <Release local of 'local': kappa ~ age>
        """
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
        coded = coded_of(columns, responses, constant=constant)
        if len(coded.terms) != d:
            raise ValueError(f"features and constant make {len(coded.terms)} terms, and xtx has {d} rows")
        for name, array, shape in (("xty", cross, (d, len(responses))), ("yty", squares, (len(responses),))):
            if array is not None and array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
        beside = {"xty": cross, "yty": squares, "lambda_min": None if lambda_min is None else np.asarray(lambda_min)}
        statistics = {"xtx": packed(gram[np.triu_indices(d)], (d, d), "upper")}
        statistics |= {name: packed(array, array.shape) for name, array in beside.items() if array is not None}
        return cls._read_own(
            coded,
            dataset=dataset,
            request=request_of([column.name for column in columns], norm),
            statistics=statistics,
            noise=noise if isinstance(noise, Noise) else uniform_noise(float(noise), set(statistics)),
        )

    @classmethod
    def from_public(
        cls,
        frame: Any,
        features: "MadeHere | Sequence[Column]",
        target: str | Column | Sequence[Column] | None = None,
        *,
        constant: bool = True,
        dataset: str = "public",
    ) -> Self:
        """Make a release, without noise, of rows that the analyst owns: to be fitted beside hospitals' releases.

        A fit keeps its residual variance apart, and tests whether its coefficients agree before it borrows.

        Parameters
        ----------
        frame : data frame, or mapping of str to array-like
            Raw units. Rows that miss a value are coded as the columns' rule for missing values says.
        features : Release or sequence of Column
            A release whose columns, targets and coding are taken over; or the columns themselves, with the bounds to
            which values are clipped.
        target : str, Column or sequence of Column, optional
            Beside columns: the column or columns to explain. Beside a release: one of its targets, default all.
        constant : bool
            Beside columns: whether the terms hold a constant.
        dataset : str
            A name to show.

        Raises
        ------
        ValueError
            When a column is absent, a level unknown or a value no number, or no row is complete.

        Examples
        --------
        >>> from analyst_client import Release
        >>> rows = {"age": [50.0, 75.0, 100.0], "kappa": [1.0, 2.0, 3.0]}
        >>> columns = [Column.numeric("age", 50, 100)], Column.numeric("kappa", 0, 6)
        >>> Release.from_public(rows, *columns).xty.round(2).tolist()
        [[-1.0], [0.67]]
        """
        coded: Coded
        row_map = None
        if isinstance(features, MadeHere):
            if features.combined:
                raise ValueError("rows of combinations are not made here: ask for a release of the terms themselves")
            if not isinstance(target, str | None):
                raise ValueError("beside a release the target must be the name of one of its targets")  # noqa: TRY004
            targets = tuple(term for term in features.targets if target in {None, term.name})
            if not targets:
                raise ValueError(f"the release has no target {target!r}; it has {', '.join(features.target_names)}")
            coded, row_map = replace(features, targets=targets), features.row_map
            # A curator's targets have bounds; those of a release made here have none where its units are the raw ones.
            clipped = [features.receipt is not None or (t.center, t.scale) != (0.0, 1.0) for t in targets]
        else:
            if isinstance(target, str) or target is None:
                raise ValueError("beside columns the target must be a Column, with its bounds")
            responses = (target,) if isinstance(target, Column) else tuple(target)
            coded = coded_of(features, responses, constant=constant)
            clipped = [column.lower is not None for column in responses]
        columns, terms, targets, expressions = coded.columns, coded.terms, coded.targets, coded.expressions
        twice = {term.name for term in targets} & {column.name for column in coded.features}
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))} stands among the features and the targets")
        rows = map_rows(design_matrix(frame, columns, terms, clip=True), terms, row_map)
        values = np.column_stack(
            [code_target(frame, term, columns, clip) for term, clip in zip(targets, clipped, strict=True)]
        )
        if row_map_named(row_map).divides_targets:
            raise ValueError(f"rows mapped by {row_map!r} are not made here: the target would have to be divided too")
        known = ~np.isnan(np.column_stack([rows, values])).any(axis=1)
        if not known.any():
            raise ValueError("no row is complete")
        rows, values = rows[known], values[known]
        gram = rows.T @ rows
        gram = (gram + gram.T) / 2.0
        request = request_of([expressions[name].to_json() for name in coded.feature_names], None)
        if any(target.name in expressions for target in targets):
            request["targets"] = [expressions[target.name].to_json() for target in targets]
        statistics = {
            "xtx": packed(gram[np.triu_indices(len(gram))], gram.shape, "upper"),
            "xty": packed(rows.T @ values, (len(gram), len(targets))),
            "yty": packed(np.sum(values**2, axis=0), (len(targets),)),
        }
        return cls._read_own(
            coded,
            dataset=dataset,
            request=request
            | {"public": True}
            | ({"rows": {"map": row_map}} if row_map_named(row_map).divides_terms else {}),
            statistics=statistics,
            noise=uniform_noise(0.0, set(statistics)),
        )

    @classmethod
    def _read_own(cls, coded: Coded, **members: Any) -> Self:
        try:
            return cls.from_text(write_text(coded, release_id="local", **members))
        except ServiceError as error:
            raise ValueError(str(error).removeprefix("malformed answer: ")) from None
