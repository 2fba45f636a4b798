"""A pass does the same operations on as many numbers whatever rows hold, and what its public time counts."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from bench.looks import COLUMNS, LEVEL, draw, make_kernels, store
from curator_service.datasets import parts
from curator_service.datasets.engines.base import RowKernel
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.schema import AxisRequest
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import read_feature, read_selection
from curator_service.kinds.gram.kernel import GramKernel
from curator_service.kinds.gram.statistics import Statistic as GramStatistic
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.marginals.marginals import Moments, Tree
from curator_service.kinds.registry import KINDS
from curator_service.kinds.score.kernel import ScoreKernel
from curator_service.kinds.score.statistics import Statistic
from curator_service.privacy.combinations import Combinations
from curator_service.privacy.design import Column, ColumnType, MissingRule, combine_terms, make_design
from curator_service.privacy.lattice import STORED_UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.losses import Loss
from curator_service.privacy.row_maps import Ball
from curator_service.privacy.selection import EVERY_ROW
from curator_service.releases.response_time import HEADROOM, PRODUCT_S, pass_duration_s, row_s

ROWS = 500
KERNELS = make_kernels()
_RNG = np.random.default_rng(3)
ROWS_OF: dict[str, dict[str, StoredArray]] = {
    "none missing": draw(_RNG, ROWS, 0.0),
    "half missing": draw(_RNG, ROWS, 0.5),
    "all missing": draw(_RNG, ROWS, 1.0),
    "all equal": {c.name: np.full(ROWS, 2 if c is LEVEL else STORED_UNIT // 3, np.int32) for c in (*COLUMNS, LEVEL)},
}
CHOOSING = {
    *("where", "select", "choose", "piecewise", "compress", "extract", "nonzero", "flatnonzero", "argwhere", "delete"),
    *("unique", "sort", "argsort", "lexsort", "partition", "searchsorted", "isin", "copyto", "place", "putmask"),
    *("repeat", "trim_zeros", "digitize", "any", "all"),
}
"""Functions whose work, or whose predictions of it by a processor, follow from what they find."""


class Traced(np.ndarray):
    """Numbers that write down what is done to them, and refuse to be chosen from."""

    log: ClassVar[list[tuple[object, ...]]] = []

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **options: Any) -> Any:
        assert options.get("where", True) is True, ufunc.__name__
        self.log.append((ufunc.__name__, method, *map(_shape, inputs)))
        options |= {"out": tuple(map(_bare, out))} if out else {}
        found = getattr(ufunc, method)(*map(_bare, inputs), **options)
        return out[0] if out else _traced(found)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        assert function.__name__ not in CHOOSING, function.__name__
        self.log.append((function.__name__, *map(_shape, arguments)))
        return super().__array_function__(function, types, arguments, options)

    def __getitem__(self, key: Any) -> Any:
        _check_places(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _check_places(key)
        super().__setitem__(key, value)


for _name in CHOOSING & set(dir(np.ndarray)):

    def _refuse(*_: object, name: str = _name, **__: object) -> None:
        raise AssertionError(name)

    setattr(Traced, _name, _refuse)


def _check_places(key: object) -> None:
    for part in key if isinstance(key, tuple) else (key,):
        is_public = not isinstance(part, Traced) and getattr(part, "dtype", None) != np.bool_
        assert is_public, "rows are picked"


def _shape(value: object) -> object:
    return getattr(value, "shape", None)


def _bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Traced) else value


def _traced(value: Any) -> Any:
    return value.view(Traced) if isinstance(value, np.ndarray) else value


def work_of(kernel: RowKernel, stored: dict[str, StoredArray], counted: np.ndarray) -> list[tuple[object, ...]]:
    """Return what mapping and adding rows does, operation by operation."""
    Traced.log.clear()
    out = np.empty((ROWS, kernel.width), order="F").view(Traced)
    kernel.map({name: stored[name].view(Traced) for name in kernel.columns}, counted.view(Traced), out)
    kernel.sum(out)
    return Traced.log.copy()


@pytest.mark.parametrize("name", KERNELS)
def test_rows_are_mapped_and_added_by_the_same_operations_whatever_they_hold(name: str) -> None:
    counted = np.ones(ROWS, np.bool_)
    works = [work_of(KERNELS[name], stored, counted) for stored in ROWS_OF.values()]
    works.append(work_of(KERNELS[name], ROWS_OF["none missing"], np.zeros(ROWS, np.bool_)))
    assert len(works[0]) > 3
    assert all(work == works[0] for work in works)


@pytest.mark.parametrize(
    "choose",
    [
        lambda values: np.where(values > 0, values, 0),
        lambda values: values[values > 0],
        lambda values: values.__setitem__(values > 0, 0),
        lambda values: np.multiply(values, 2, where=values > 0),
        lambda values: values.nonzero(),
        np.unique,
        np.sort,
    ],
)
def test_a_choice_by_rows_would_be_seen(choose: Callable[[Any], Iterable[object]]) -> None:
    with pytest.raises(AssertionError):
        choose(np.arange(-3.0, 3.0).view(Traced))


# --- Bytes and rows


class Watched:
    """A kernel that writes down how many rows it maps and adds."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel, self.mapped, self.added = kernel, 0, 0
        self.columns, self.width = kernel.columns, kernel.width
        self.products, self.cached_terms = kernel.products, kernel.cached_terms

    def map(self, stored: dict[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        assert all(len(values) == len(out) == len(counted) for values in stored.values())
        self.mapped += len(out)
        self.kernel.map(stored, counted, out)

    def sum(self, rows: RowArray) -> IntArray:
        self.added += len(rows)
        return self.kernel.sum(rows)


@pytest.mark.parametrize("rows", [1, ROWS // 2, ROWS])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_pass_reads_and_adds_its_whole_capacity_however_much_of_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, threads: int
) -> None:
    read: list[int] = []

    def preadv(*arguments: Any) -> int:
        read.append(os.preadv(*arguments))
        return read[-1]

    stored = store(tmp_path, "d", ROWS_OF["none missing"], rows, ROWS)
    kernel = Watched(KERNELS["`ball`, 4 numbers"])
    monkeypatch.setattr(parts, "os", SimpleNamespace(**vars(os) | {"preadv": preadv}))
    NumpyEngine(threads).sum(kernel, stored)
    checked = 6  # the null rows that every pass begins with
    assert (kernel.mapped, kernel.added) == (ROWS + checked, ROWS + checked)
    assert sum(read) == (len(kernel.columns) + 1) * ROWS * 4  # the marks beside the columns


# --- What public times count


def _columns(count: int) -> tuple[Column, ...]:
    return tuple(Column(f"v{i}", ColumnType.NUMERIC, MissingRule.OMIT, 0.1, 1.0) for i in range(count))


def _selected(is_weighed: bool) -> Any:
    return read_selection(None, "v0", {"v0": _columns(1)[0]}) if is_weighed else EVERY_ROW


def tables(count: int = 3, axes: int = 1, bins: int = 20, *, weighed: bool = False) -> CountsKernel:
    sides = [Axis.of(c, AxisRequest(column=c.name, bins=bins, missing=True)) for c in _columns(count * axes)]
    return CountsKernel(tuple(Table(tuple(sides[i * axes : (i + 1) * axes])) for i in range(count)), _selected(weighed))


def trees(count: int = 3, levels: int = 4, *, weighed: bool = False) -> MarginalsKernel:
    return MarginalsKernel((Tree(_columns(count), levels),), _selected(weighed))


def moments(count: int = 3, *, weighed: bool = False) -> MarginalsKernel:
    return MarginalsKernel((Moments(_columns(count)),), _selected(weighed))


def gram(terms: int = 3, combined: int = 0, extra: Iterable[object] = (), *, weighed: bool = False) -> GramKernel:
    columns = _columns(terms)
    declared = {column.name: column for column in columns}
    features = (*columns[:-1], *(read_feature(one, declared) for one in extra))
    design = make_design(features, columns[-1:], intercept=True)
    if combined:
        design = combine_terms(design, _ones(terms, combined))
    return GramKernel(design, Ball.of_norm(1.0), _selected(weighed))


def score(terms: int = 10, directions: int = 1, *statistics: Statistic, extra: Iterable[object] = ()) -> ScoreKernel:
    columns = _columns(terms)
    declared = {column.name: column for column in columns}
    features = (*columns[:-1], *(read_feature(one, declared) for one in extra))
    design = make_design(features, columns[-1:], intercept=True)
    count = len(design.terms)
    return ScoreKernel(design, Loss.LINEAR, _ones(count, 1), _ones(count, directions), (Statistic.SCORE, *statistics))


def _ones(terms: int, count: int) -> Combinations:
    return Combinations(((1,) * count,) * terms, 1)


_LOGS = [{"log": [f"v{i}"]} for i in range(8)]
_PRODUCTS = [{"interaction": ["v0", f"v{i}"]} for i in range(1, 9)]
_SPLINES = [{"spline": [f"v{i}", [0.3, 0.5]]} for i in range(5)]
FACTORS: dict[str, tuple[RowKernel, RowKernel]] = {
    "tables": (tables(1), tables(11)),
    "axes of a table": (tables(1, 2, 3), tables(1, 6, 3)),
    "cells of an axis": (tables(1, 1, 3), tables(1, 1, 1000)),
    "weights of counts": (tables(), tables(weighed=True)),
    "columns of trees": (trees(1), trees(11)),
    "levels of a tree": (trees(levels=2), trees(levels=12)),
    "weights of trees": (trees(), trees(weighed=True)),
    "columns of moments": (moments(1), moments(11)),
    "weights of moments": (moments(), moments(weighed=True)),
    "terms of a Gram": (gram(10), gram(410)),
    "combinations of terms": (gram(400, 1), gram(400, 41)),
    "weights of a Gram": (gram(10), gram(10, weighed=True)),
    "terms of a score": (score(10, 40), score(410, 40)),
    "directions of a score": (score(400, 1), score(400, 41)),
    "products of a score": (score(10, 200), score(10, 200, Statistic.MEAT)),
    "norms of a score": (score(), score(10, 1, Statistic.NORMS)),
    **{
        f"{name} of a {make.__name__}": (make(10), make(10, extra=extra))
        for name, extra in (("logarithms", _LOGS), ("interactions", _PRODUCTS), ("splines", _SPLINES))
        for make in (gram, score)
    },
}
_NUMBER, _CELL, _PART = 10, 500, 0.85
"""What an operation on one number, and adding to a cell, count for in products of two numbers; and which part of that
public times must state. Each is so large that a factor that is forgotten is missed."""
_CHEAP = {"weights of a Gram": 4, "interactions of a gram": 6}
"""Operations on numbers that are in a processor's cache."""


def counted_work(kernel: RowKernel, number: float) -> float:
    """Return the operations of a row, in products of two numbers."""
    stored = {name: np.arange(ROWS, dtype=np.int32) for name in kernel.columns}
    total = 0.0
    for name, *shapes in work_of(kernel, stored, np.ones(ROWS, np.bool_)):
        arrays = [shape for shape in shapes if isinstance(shape, tuple) and shape]
        if name == "matmul":
            total += math.prod(arrays[0]) * arrays[1][-1]
        else:
            each = _CELL if name == "bincount" else number
            total += each * max((math.prod(shape) for shape in arrays), default=0)
    return total / ROWS


@pytest.mark.parametrize("name", FACTORS)
def test_a_public_time_counts_every_factor_of_the_work(name: str) -> None:
    fewer, more = FACTORS[name]
    added_s = pass_duration_s(more, 10**6) - pass_duration_s(fewer, 10**6)
    assert added_s == pytest.approx(HEADROOM * 10**6 * (row_s(more) - row_s(fewer)))
    number = _CHEAP.get(name, _NUMBER)
    least = _PART * (counted_work(more, number) - counted_work(fewer, number))
    stated = (row_s(more) - row_s(fewer)) / PRODUCT_S
    assert stated >= least > 0


def _plan(kernel: RowKernel | None = None, size: int = 0, **changes: Any) -> Any:
    outputs = (SimpleNamespace(size=size),)
    design = getattr(kernel, "design", None)
    return SimpleNamespace(kernel=kernel, design=design, outputs=outputs, parts=(), **changes)


_LAMBDA = (SimpleNamespace(statistic=GramStatistic.LAMBDA_MIN),)


@pytest.mark.parametrize(
    ("kind", "fewer", "more", "least_s"),
    [
        ("counts", _plan(items=()), _plan(items=(SimpleNamespace(size=10**4),)), 2e-3),
        ("marginals", _plan(items=()), _plan(items=(SimpleNamespace(size=10**4),)), 2e-3),
        ("score", _plan(score()), _plan(score(), 10**4), 2e-3),
        ("score", _plan(score()), _plan(score(extra=_SPLINES)), 0.02 * 25),
        ("gram", _plan(gram(10, 2)), _plan(gram(10, 2), 10**4), 2e-3),
        ("gram", _plan(gram(10)), _plan(gram(10, extra=_SPLINES)), 0.02 * 25),
    ],
)
def test_a_public_time_counts_numbers_that_leave_and_tables_of_bases(
    kind: str, fewer: Any, more: Any, least_s: float
) -> None:
    exact_s = KINDS[kind].exact_s
    assert exact_s(more) - exact_s(fewer) >= least_s


def test_a_public_time_counts_the_terms_of_an_eigenvalue() -> None:
    plans = [_plan(gram(terms)) for terms in (10, 410)]
    for plan in plans:
        plan.parts = _LAMBDA
    few, many = (KINDS["gram"].exact_s(plan) for plan in plans)
    assert many - few >= 1e-9 * (410**3 - 10**3)
