"""Dummy data: rows made up from public declarations alone, to develop against or as an analyst assumes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst_client.arrays import FloatArray
from analyst_client.schema.columns import Column
from analyst_client.schema.datasets import Dataset

AnyArray = NDArray[Any]


def dummy_twin(
    dataset: Dataset | Sequence[Column], rows: int, seed: int = 0, *, missing: float = 0.0
) -> dict[str, AnyArray]:
    """Make up rows that look as a dataset's schema says, to develop against. Nothing of the data is in them.

    Numbers are uniform within their bounds, levels and labels equally likely, and columns independent: a fit on them
    says nothing of the real rows.

    Parameters
    ----------
    dataset : Dataset or sequence of Column
        From `CuratorClient.dataset`, or the columns alone.
    rows : int
        Number of rows.
    seed : int
        The same seed gives the same rows.
    missing : float
        Share of missing values in each column that is not declared complete.

    Returns
    -------
    dict of str to ndarray
        Raw units, by column; ``pandas.DataFrame`` takes it as it is.

    Raises
    ------
    ValueError
        When `rows` is not a positive integer, or `missing` not a share.

    Examples
    --------
    >>> rows = dummy_twin([Column.numeric("age", 50, 100), Column.categorical("sex", ["F", "M"])], rows=3)
    >>> rows["age"].round(1).tolist(), rows["sex"].tolist()
    ([76.8, 92.4, 63.6], ['F', 'M', 'M'])
    """
    columns = dataset.columns if isinstance(dataset, Dataset) else tuple(dataset)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(f"rows must be a positive whole number, not {rows!r}")
    gaps = {column.name: missing for column in columns if column.missing != "complete"}
    return dummy_rows(columns, rows, seed, missing=gaps)


def dummy_rows(
    columns: Sequence[Column],
    count: int,
    seed: int,
    *,
    means: Mapping[str, float] | None = None,
    sds: Mapping[str, float] | None = None,
    shares: Mapping[str, Any] | None = None,
    missing: Mapping[str, float] | None = None,
    correlation: ArrayLike = 0.0,
    even: bool = False,
) -> dict[str, AnyArray]:
    """Return raw columns by name.

    Parameters
    ----------
    columns : sequence of Column
    count : int
    seed : int
    means, sds : mapping of str to float, optional
        Of numeric columns, raw units: those are normal. The others are uniform within their bounds.
    shares : mapping, optional
        Of categories: a mapping of level to share. Of booleans: the share of true. Default all levels alike.
    missing : mapping of str to float, optional
        Share of missing values, default none.
    correlation : float or array-like of shape (d, d)
        Of the normal law behind each pair of columns (a Gaussian copula).
    even : bool
        Spread each column's values evenly over its law, and give the normal law behind them exactly the stated
        correlations: averages over few rows are then close to those over many.

    Raises
    ------
    ValueError
        When a name is of no column, or a number makes no sense.
    """
    means, sds, shares, missing = means or {}, sds or {}, shares or {}, missing or {}
    check_names(columns, means, sds, shares, missing)
    generator = np.random.default_rng(seed)
    normal = _normal_rows(generator, count, correlation_matrix(correlation, len(columns)), exact=even)
    ranks = np.argsort(np.argsort(normal, axis=0), axis=0)
    places = (ranks + (0.5 if even else generator.random(ranks.shape))) / count
    rows: dict[str, AnyArray] = {}
    for j, column in enumerate(columns):
        if column.type != "numeric":
            values: AnyArray = _levels(column, places[:, j], shares.get(column.name))
        elif column.name in means or column.name in sds:
            low, high = bounds_of(column)
            mean = float(means.get(column.name, (low + high) / 2.0))
            values = mean + _positive(sds.get(column.name, (high - low) / 12.0**0.5), column.name) * normal[:, j]
        else:
            low, high = bounds_of(column)
            values = low + (high - low) * places[:, j]
        if column.whole:
            values = np.rint(values)
        rows[column.name] = _with_gaps(values, missing.get(column.name, 0.0), column, generator)
    return rows


def bounds_of(column: Column) -> tuple[float, float]:
    """Return the bounds of a numeric column; without any −1 and 1, the bounds of whatever is already scaled."""
    if column.lower is None or column.upper is None:
        return -1.0, 1.0
    return column.lower, column.upper


def check_names(columns: Sequence[Column], *stated: Mapping[str, Any]) -> None:
    """Refuse what is stated of a column that there is not, or of one of another type."""
    known = {column.name: column for column in columns}
    means, sds, shares, _ = stated
    for name in {name for each in stated for name in each}:
        if name not in known:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(known)}")
        if (name in means or name in sds) and known[name].type != "numeric":
            raise ValueError(f"column {name!r} is {known[name].type}: state shares={{{name!r}: …}}, not a mean or sd")
        if name in shares and known[name].type == "numeric":
            raise ValueError(f"column {name!r} is numeric: state a mean and an sd, not shares")


def correlation_matrix(correlation: ArrayLike, d: int) -> FloatArray:
    """Return the correlations of d columns. Raise `ValueError` when they are none."""
    given = np.asarray(correlation, dtype=np.float64)
    if given.ndim == 0:
        given = np.full((d, d), float(given)) + (1.0 - float(given)) * np.eye(d)
    if given.shape != (d, d):
        raise ValueError(f"correlation must be one number, or of shape ({d}, {d}): one for each pair of columns")
    is_one = np.allclose(given, given.T) and np.allclose(np.diag(given), 1.0) and np.isfinite(given).all()
    if not is_one or (d > 0 and float(np.linalg.eigvalsh(given)[0]) < 1e-9):
        lowest = f"; one number for {d} columns must be above {-1.0 / (d - 1):.2f}" if d > 1 else ""
        raise ValueError(f"correlation must be positive definite, with ones on the diagonal{lowest} and below 1")
    return given


def _normal_rows(generator: np.random.Generator, count: int, correlation: FloatArray, *, exact: bool) -> FloatArray:
    """Draw standard normal rows of the given correlations; exactly, if there are rows enough to correct them."""
    d = len(correlation)
    drawn = generator.standard_normal((count, d))
    if d == 0:
        return drawn
    if exact and count > 2 * d:
        drawn -= drawn.mean(axis=0)
        drawn = np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / count), drawn.T).T
    correlated: FloatArray = drawn @ np.linalg.cholesky(correlation).T
    return correlated


def _levels(column: Column, places: FloatArray, stated: Any) -> AnyArray:
    """Return labels, each as often as its share says."""
    labels = column.levels
    if stated is None:
        stated = {}
    elif column.type == "boolean" and not isinstance(stated, Mapping):
        stated = {labels[1]: float(stated)}
    if not isinstance(stated, Mapping) or set(stated) - set(labels):
        raise ValueError(f"shares of {column.name!r} must be by level: {', '.join(labels)}")
    rest = 1.0 - sum(float(value) for value in stated.values())
    others = [label for label in labels if label not in stated]  # what is left is shared by levels that are not stated
    share = np.array([float(stated[label]) if label in stated else rest / len(others) for label in labels])
    if not (np.all(share >= 0.0) and abs(share.sum() - 1.0) < 1e-6):
        raise ValueError(f"shares of {column.name!r} must be between 0 and 1 and add up to 1 over {', '.join(labels)}")
    found = np.searchsorted(np.cumsum(share)[:-1], places, side="right")
    return np.array(labels, dtype=object)[found]


def _with_gaps(values: AnyArray, share: float, column: Column, generator: np.random.Generator) -> AnyArray:
    """Return the values with some of them missing."""
    if not 0.0 <= share < 1.0:
        raise ValueError(f"the share of missing values of {column.name!r} must be at least 0 and below 1")
    count = round(share * len(values))
    if count and column.missing == "complete":
        raise ValueError(f"column {column.name!r} is declared complete: it has no missing values")
    if count:
        values[generator.permutation(len(values))[:count]] = np.nan if column.type == "numeric" else None
    return values


def _positive(value: float, name: str) -> float:
    if not 0.0 < value < np.inf:
        raise ValueError(f"the sd of {name!r} must be positive, in its unit, not {value!r}")
    return float(value)
