"""Raw values to the scaled terms of a release: the curator's coding, repeated on the analyst's side."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyst_client.arrays import FloatArray
from analyst_client.schema.columns import Column, DerivedColumn, Term, stored_columns
from analyst_client.schema.row_maps import row_map_named
from analyst_client.terms.values import Values, basis_values, evaluate

AnyArray = NDArray[Any]


def design_matrix(X: Any, columns: Sequence[Column], terms: Sequence[Term], clip: bool) -> FloatArray:
    """Code raw rows as the curator codes them, with numbers clipped to public bounds or not: of shape (n, D).

    Columns of a frame, or of a mapping, are found by name; those of an array stand in the order of `columns`. A row
    that the missing rule leaves out is all NaN. Raise `ValueError` when a column is absent, a level unknown or a value
    no number.
    """
    used = {name for term in terms for name in term.columns}
    coded = code_columns(X, [c for c in columns if c.name in used or not isinstance(c, DerivedColumn)], clip)
    return matrix_of(coded, columns, terms, None if coded else len(X))


def matrix_of(
    coded: Mapping[str, FloatArray], columns: Sequence[Column], terms: Sequence[Term], count: int | None = None
) -> FloatArray:
    """Return coded columns as scaled terms; `count` is the number of rows where there is no column."""
    matrix = np.ones((len(next(iter(coded.values()))) if count is None else count, len(terms)))
    for j, term in enumerate(terms):
        if term.kind != "constant":
            matrix[:, j] = code_term(term, columns, coded)
    for column in columns:
        if column.missing in {"omit", "complete"} and column.name in coded:
            matrix[np.isnan(coded[column.name])] = np.nan
    return matrix


def code_columns(X: Any, columns: Sequence[Column], clip: bool) -> dict[str, FloatArray]:
    """Return numbers for each column's raw or computed values, by name; NaN for a missing one."""
    stored = stored_columns(columns)
    raw = raw_columns(X, [column.name for column in stored])
    rows = {c.name: Values(code(c, values, clip), c.levels) for c, values in zip(stored, raw, strict=True)}
    coded = {}
    for column in columns:
        if isinstance(column, DerivedColumn):
            numbers = evaluate(column.expression, rows).numbers
            bounded = clip and column.lower is not None and column.upper is not None
            coded[column.name] = np.clip(numbers, column.lower, column.upper) if bounded else numbers
        else:
            coded[column.name] = rows[column.name].numbers
    return coded


def code_term(term: Term, columns: Sequence[Column], coded: Mapping[str, FloatArray]) -> FloatArray:
    """Return the scaled values of a term, of shape (n,), for coded columns."""
    if term.factors:
        product: FloatArray = reduce(np.multiply, [code_term(factor, columns, coded) for factor in term.factors])
        return product
    values = coded[term.columns[0]]
    lost = np.isnan(values)
    if term.kind == "missing":
        return lost.astype(np.float64)
    if term.kind == "level":
        found: FloatArray = (values == level_index(columns, term)).astype(np.float64)
        return found
    if term.basis is not None:
        inner = (values - term.basis.center) / term.basis.scale
        scaled = basis_values(term.basis.word, term.basis.scaled_parameters, inner)[:, term.basis.place]
    else:
        scaled = (values - term.center) / term.scale
    # A missing value stands at the middle of a numeric column, counts as false, and has no function of a basis.
    filled: FloatArray = np.where(lost, 0.0, scaled)
    return filled


def values_beyond(X: Any, columns: Sequence[Column]) -> list[str]:
    """Say of each column how many of its values lie outside of its public bounds, where some do."""
    found = []
    columns = stored_columns(columns)
    for column, values in zip(columns, raw_columns(X, [column.name for column in columns]), strict=True):
        if column.type == "numeric" and column.lower is not None and column.upper is not None:
            numbers = code(column, values, clip=False)
            count = int(np.sum((numbers < column.lower) | (numbers > column.upper)))
            if count:
                bounds = f"{column.lower:g} to {column.upper:g}"
                found.append(f"{count:,} of {len(numbers):,} values of {column.name!r} outside of {bounds}")
    return found


def code_target(X: Any, term: Term, columns: Sequence[Column], clip: bool) -> FloatArray:
    """Return a target's values in scaled units, of shape (n,); NaN where one is missing.

    `columns` has the column that it is, if it is computed; `clip` says that it has bounds, one scale from its center.
    """
    for column in columns:
        if isinstance(column, DerivedColumn) and column.name == term.name:
            return (code_columns(X, [column], clip)[column.name] - term.center) / term.scale
    (values,) = raw_columns(X, [term.name])
    if term.kind == "boolean":
        return code(Column.boolean(term.name), values, clip=False)
    low, high = (term.center - term.scale, term.center + term.scale) if clip else (None, None)
    numbers = code(Column.numeric(term.name, low, high), values, clip=True)
    return (numbers - term.center) / term.scale


def map_rows(matrix: FloatArray, terms: Sequence[Term], row_map: str | None) -> FloatArray:
    """Return the rows on which a fit is linear, of scaled terms, for the way in which the curator mapped them.

    ``"unit"``: the terms beside the constant over their norm. ``"unit_xy"``: the target was divided too, so the
    constant stands for the norm. Other maps weight rows, and change nothing here.
    """
    mapped_by = row_map_named(row_map)
    if not mapped_by.divides_terms:
        return matrix
    mapped = matrix.copy()
    beside = np.array([term.kind != "constant" for term in terms])
    norm = np.linalg.norm(matrix[:, beside], axis=1, keepdims=True)
    if not mapped_by.divides_targets:
        mapped[:, beside] /= np.where(norm == 0.0, 1.0, norm)
    else:
        mapped[:, ~beside] *= norm
    return mapped


def level_index(columns: Sequence[Column], term: Term) -> int:
    """Return the position of a term's level in its column."""
    return next(column.levels.index(str(term.level)) for column in columns if column.name == term.column)


def raw_columns(X: Any, names: Sequence[str]) -> list[AnyArray]:
    """Return one array of raw values for each name."""
    if isinstance(X, Mapping) or (hasattr(X, "columns") and hasattr(X, "__getitem__")):  # of pandas or another library
        absent = [name for name in names if name not in (X if isinstance(X, Mapping) else X.columns)]
        if absent:
            raise ValueError(f"the frame has no column {', '.join(map(repr, absent))}")
        raw = [np.asarray(X[name]) for name in names]
        if any(values.ndim != 1 for values in raw):
            raise ValueError(
                "each column holds one value for each row, in a list even if there is one row: "
                f"{{{names[0]!r}: [{X[names[0]]!r}], …}}"
            )
        if len({len(values) for values in raw}) > 1:
            raise ValueError("all columns must have the same number of rows")
        return raw
    array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim == 1 and len(array) and isinstance(array[0], Mapping):
        columns = f"{{name: [row[name] for row in rows] for name in {list(names)!r}}}"
        raise ValueError(f"rows come as a data frame, as a list of lists, or as columns: {columns}")
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ValueError(f"X must have the {len(names)} column(s) {', '.join(names)}, not shape {array.shape}")
    return [array[:, j] for j in range(len(names))]


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 -- NaN is the value that differs from itself
    except TypeError:  # pandas' NA refuses to be true or false
        return True


def find_missing(values: AnyArray) -> NDArray[np.bool_]:
    """Return which values are missing."""
    if values.dtype.kind in "biu":
        return np.zeros(len(values), dtype=np.bool_)
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.array([is_missing(value) for value in values], dtype=np.bool_)


def code(column: Column, values: AnyArray, clip: bool) -> FloatArray:
    """Return numbers for raw values: a number as it is, false and true as 0 and 1, a level as its position."""
    if column.type != "numeric":
        return np.array(
            [np.nan if is_missing(value) else code_level(column, value) for value in values], dtype=np.float64
        )
    plain = values.dtype.kind in "biuf"
    numbers = values.astype(np.float64) if plain else read_each(as_number, column, values)
    if clip and column.lower is not None and column.upper is not None:
        return np.clip(numbers, column.lower, column.upper)
    return numbers


def read_each(read: Callable[[Column, Any], float], column: Column, values: AnyArray) -> FloatArray:
    """Read value after value; a missing one is NaN."""
    return np.array([np.nan if is_missing(value) else read(column, value) for value in values], dtype=np.float64)


def as_number(column: Column, value: Any) -> float:
    """Return a number. Text is refused: it may be the wrong column."""
    if isinstance(value, str | bytes):
        raise ValueError(f"column {column.name!r} is numeric, and {value!r} is not a number")  # noqa: TRY004 -- as for a level
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"column {column.name!r} is numeric, and {value!r} is not a number") from None


def code_level(column: Column, value: Any) -> int:
    """Return the position of a level; a boolean's is 0 for false and 1 for true."""
    if isinstance(value, str):
        if (label := column.label(value)) in column.levels:
            return column.levels.index(label)
    elif column.type == "boolean" and value in (0, 1):
        return int(value)
    else:  # levels such as years, read as numbers
        label = str(int(value)) if isinstance(value, float | np.floating) and value == int(value) else str(value)
        if label in column.levels:
            return column.levels.index(label)
    shown = value.item() if isinstance(value, np.generic) else value
    raise ValueError(f"column {column.name!r} has no level {shown!r}; declared: {', '.join(column.levels)}")
