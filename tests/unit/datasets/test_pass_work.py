"""A pass does the same operations on as many numbers whatever the rows hold, and chooses nothing by them."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import pytest

from bench.looks import COLUMNS, LEVEL, draw, make_kernels
from curator_service.datasets.engines.base import RowKernel
from curator_service.privacy.lattice import STORED_UNIT, StoredArray

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
