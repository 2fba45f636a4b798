"""Sums of so many rows that they do not fit int64 are exact, in any order, and noise is added to them as to others."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.datasets.batches import MARK
from curator_service.datasets.engines.numpy import NumpyEngine
from curator_service.kinds.gram.kernel import GramKernel, flatten
from curator_service.kinds.gram.plan import default_shares, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.kinds.wide import WideKernel, kernel_for
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.design import Column, ColumnType, MissingRule, make_design
from curator_service.privacy.lattice import STORED_UNIT, UNIT, FlagArray, IntArray, RowArray
from curator_service.privacy.mechanism import ExactSums, add_noise, add_noise_to_limbs, perturb
from curator_service.privacy.row_maps import Box
from curator_service.privacy.sums import (
    INT64_CAPACITY_MAX,
    LIMB_BITS,
    ROW_CAPACITY_MAX,
    carry,
    compute_gram,
    round_limbs,
    split,
)

LARGEST = ROW_CAPACITY_MAX * UNIT**2
INT64, SUMS = st.integers(-(2**63), 2**63 - 1), st.integers(-LARGEST, LARGEST)


def in_limbs(values: Any) -> IntArray:
    return split(np.array(values, dtype=object)).astype(np.int64)


def joined(limbs: IntArray) -> list[int]:
    low, high = limbs.astype(object)
    return (high * 2**LIMB_BITS + low).tolist()  # type: ignore[no-any-return]


def test_the_largest_sums_fit_their_limbs_in_any_cut_into_batches() -> None:
    assert INT64_CAPACITY_MAX < ROW_CAPACITY_MAX
    assert ROW_CAPACITY_MAX * (2**LIMB_BITS - 1) < 2**63 - 2**LIMB_BITS  # a batch for each row, and a draw
    assert LARGEST // 2**LIMB_BITS + ROW_CAPACITY_MAX < 2**45 < 2**53
    assert LARGEST > 2**70


@given(st.lists(st.lists(INT64, min_size=3, max_size=3), min_size=1))
def test_limbs_of_batches_add_up_to_the_sum_of_all(batches: list[list[int]]) -> None:
    limbs = sum(split(np.array(batch, dtype=np.int64)) for batch in batches)
    assert isinstance(limbs, np.ndarray)
    expected = [sum(of_entry) for of_entry in zip(*batches, strict=True)]
    assert joined(limbs) == joined(carry(limbs)) == expected
    assert carry(limbs).tolist() == in_limbs(expected).tolist()


@given(st.lists(st.tuples(SUMS, INT64), min_size=1))
def test_noise_is_added_exactly_whatever_sum_and_draw(pairs: list[tuple[int, int]]) -> None:
    sums, draws = zip(*pairs, strict=True)
    noisy = add_noise_to_limbs(in_limbs(sums), np.array(draws, dtype=np.int64))
    assert noisy == [a + b for a, b in pairs]
    assert {type(value) for value in noisy} == {int}


@given(st.lists(st.tuples(SUMS, INT64), min_size=1))
def test_it_does_not_matter_how_limbs_were_carried(pairs: list[tuple[int, int]]) -> None:
    """After the noise nothing is left of how a sum came about."""
    sums, draws = zip(*pairs, strict=True)
    moved = in_limbs(sums) + np.array([[2**LIMB_BITS * 5], [-5]])
    assert add_noise_to_limbs(moved, np.array(draws)) == add_noise_to_limbs(in_limbs(sums), np.array(draws))


def test_what_may_not_fit_is_refused_before_it_is_added() -> None:
    limbs, draws = in_limbs([1, 2]), np.zeros(2, dtype=np.int64)
    for one, other in ((limbs.astype(np.float64), draws), (limbs, draws.astype(object))):
        with pytest.raises(TypeError, match="sums and draws are of int64"):
            add_noise_to_limbs(one, other)
    with pytest.raises(ValueError, match="one draw for each entry"):
        add_noise_to_limbs(limbs, draws[:1])


@given(st.lists(SUMS, min_size=1))
def test_limbs_are_rounded_once(sums: list[int]) -> None:
    assert round_limbs(in_limbs(sums)).tolist() == [float(Fraction(value)) for value in sums]


def make_kernel(width: int = 3) -> GramKernel:
    columns = [Column(f"x{i}", ColumnType.NUMERIC, MissingRule.COMPLETE, -1.0, 1.0) for i in range(width)]
    return GramKernel(make_design(tuple(columns[:-1]), tuple(columns[-1:]), intercept=True), Box())


class Repeated:
    """Rows of one tile, again and again."""

    def __init__(self, tile: dict[str, Any], times: int) -> None:
        self.tile, self.times = tile, times
        self.count = len(tile[MARK])
        self.capacity = self.count * times

    def tiles(self, _names: tuple[str, ...], size: int, start: int, stop: int) -> Iterator[tuple[dict[str, Any], int]]:
        assert (start, stop) == (0, self.capacity)
        assert self.count <= size
        for _ in range(self.times):
            yield self.tile, self.count


class Heavy(GramKernel):
    """A kernel each of whose tiles stands for 2²⁵ of them."""

    def sum(self, rows: RowArray) -> IntArray:
        return super().sum(rows) * 2**25


def test_a_pass_beyond_int64_is_that_of_python_integers() -> None:
    kernel = make_kernel()
    rng = np.random.default_rng(3)
    tile = {name: rng.integers(-STORED_UNIT, STORED_UNIT, 12, dtype=np.int32) for name in kernel.columns}
    tile |= {MARK: np.ones(12, dtype=np.int32)}
    tile[kernel.columns[0]][:] = STORED_UNIT
    heavy = Heavy(kernel.design, kernel.row_map)
    found = joined(NumpyEngine().sum(WideKernel(heavy), cast(Any, Repeated(tile, 25))))
    mapped: RowArray = np.empty((12, kernel.width), order="F")
    every: FlagArray = np.ones(12, dtype=np.bool_)
    kernel.map(tile, every, mapped)
    rows = mapped.astype(np.int64).astype(object)
    assert found == (rows.T @ rows * 2**25 * 25).tolist()
    assert max(map(max, found)) > 2**63  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [INT64_CAPACITY_MAX // 64 * 64, ROW_CAPACITY_MAX // 64 * 64])
def test_what_leaves_of_wide_sums_is_what_leaves_of_the_integers(count: int) -> None:
    kernel, rng = make_kernel(4), np.random.default_rng(5)
    rows = rng.choice([-UNIT, UNIT, 1], size=(64, kernel.width)).astype(np.float64)
    rows[:, 0] = UNIT
    plan = plan_gram(
        kernel.design,
        kernel.row_map,
        Adjacency.ADD_REMOVE,
        row_capacity=count,
        price=Price(rho=0.05),
        shares=default_shares(tuple(Statistic)),
    )
    whole = compute_gram([rows], kernel.width)
    limbs = WideKernel(kernel).sum(rows) * (count // 64)
    exact = flatten(limbs, 4, plan.outputs, plan.lambda_min_tolerance)
    draws = rng.integers(-(2**53), 2**53, size=exact.shape[1])
    noisy = perturb(ExactSums(exact), plan, draws).values
    gram = whole.astype(object) * (count // 64)
    expected = [*(gram[i, j] for i in range(4) for j in range(i, 4)), *(gram[i, 4] for i in range(4)), gram[4, 4]]
    found = [value for output in plan.outputs for value in noisy[output.statistic]]
    assert found[:-1] == [a + int(b) for a, b in zip(expected, draws[:-1], strict=True)]
    if count <= INT64_CAPACITY_MAX:
        narrow = flatten(gram.astype(np.int64), 4, plan.outputs, plan.lambda_min_tolerance)
        assert found == add_noise(narrow, draws)
    else:
        assert max(map(abs, expected)) > 2**63


def test_the_capacity_alone_decides_whether_there_are_limbs() -> None:
    kernel = make_kernel()
    assert kernel_for(kernel, INT64_CAPACITY_MAX) is kernel
    wide = kernel_for(kernel, INT64_CAPACITY_MAX + 1)
    assert wide == WideKernel(kernel)
    assert (wide.columns, wide.width, wide.products) == (kernel.columns, kernel.width, kernel.products)
    assert kernel.cached_terms is not None
    assert wide.cached_terms is None
