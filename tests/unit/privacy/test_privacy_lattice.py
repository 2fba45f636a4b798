"""The lattice: bounds hold for every float, and a value's integer depends on that value alone."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from curator_service.privacy.lattice import (
    MISSING,
    STORED_UNIT,
    UNIT,
    center_and_scale,
    decimals_of,
    to_decimals,
    to_request_lattice,
    to_stored,
)

FLOAT_MAX = np.finfo(np.float64).max
SUBNORMAL = 5e-324
AWKWARD = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, SUBNORMAL, -SUBNORMAL, FLOAT_MAX, -FLOAT_MAX, 1.0, -1.0, 1e16, 2.0**-1022]
)
AWKWARD_BOUNDS = [
    (-1.0, 1.0),
    (0.0, 1.0),
    (-FLOAT_MAX, FLOAT_MAX),
    (-FLOAT_MAX, -1e308),
    (1.0, math.nextafter(1.0, 2.0)),
    (1e16, 1e16 + 2),
    (1e308, math.nextafter(1e308, math.inf)),
    (0.0, 2e-300),
    (-1e-299, 1e-299),
]


@st.composite
def bounds(draw: st.DrawFn) -> tuple[float, float]:
    finite = st.floats(allow_nan=False, allow_infinity=False)
    lower, upper = draw(finite), draw(finite)
    assume(lower < upper and upper / 2 - lower / 2 >= 1e-300)
    return lower, upper


@pytest.mark.parametrize(("lower", "upper"), AWKWARD_BOUNDS)
def test_awkward_values_stay_within_the_stored_lattice(lower: float, upper: float) -> None:
    near = np.array([lower, upper, math.nextafter(lower, -math.inf), math.nextafter(upper, math.inf)])
    stored = to_stored(np.concatenate([AWKWARD, near]), lower, upper).astype(np.int64)
    present = stored != MISSING
    assert (np.abs(stored[present]) <= STORED_UNIT).all()


@pytest.mark.parametrize(("lower", "upper"), AWKWARD_BOUNDS)
def test_only_nan_is_missing(lower: float, upper: float) -> None:
    stored = to_stored(AWKWARD, lower, upper)
    assert (stored == MISSING).tolist() == np.isnan(AWKWARD).tolist()


@pytest.mark.parametrize(("lower", "upper"), AWKWARD_BOUNDS)
def test_infinities_become_the_bounds(lower: float, upper: float) -> None:
    assert to_stored(np.array([-np.inf, np.inf]), lower, upper).tolist() == [-STORED_UNIT, STORED_UNIT]


def test_the_missing_sentinel_lies_outside_the_lattice() -> None:
    assert MISSING < -STORED_UNIT
    assert np.iinfo(np.int32).min <= MISSING


@given(bounds(), st.lists(st.floats(), min_size=1, max_size=20))
def test_every_value_stays_within_both_lattices(limits: tuple[float, float], values: list[float]) -> None:
    stored = to_stored(np.array(values), *limits)
    requested = to_request_lattice(stored)
    assert (np.abs(stored[stored != MISSING].astype(np.int64)) <= STORED_UNIT).all()
    assert (np.abs(requested) <= UNIT).all()


@given(bounds(), st.lists(st.floats(), min_size=1, max_size=40), st.data())
def test_a_value_gets_the_same_integer_alone_and_in_a_batch(
    limits: tuple[float, float], values: list[float], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(values) - 1))
    batch = to_stored(np.array(values), *limits)
    assert to_stored(np.array(values[k : k + 1]), *limits)[0] == batch[k]


def test_a_strided_or_long_batch_gives_the_same_integers_as_single_values() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 60, size=(1000, 3))
    alone = np.array([to_stored(np.array([v]), -97.3, 101.9)[0] for v in values[:, 1]])
    assert (to_stored(values[:, 1], -97.3, 101.9) == alone).all()


@given(st.floats(-3, 3))
def test_a_value_is_rounded_and_then_clipped(value: float) -> None:
    expected = max(-STORED_UNIT, min(STORED_UNIT, round(Fraction(value) * STORED_UNIT)))
    assert to_stored(np.array([value]), -1.0, 1.0)[0] == expected


@given(bounds(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_the_stored_integer_never_decreases_with_the_value(limits: tuple[float, float], a: float, b: float) -> None:
    low, high = to_stored(np.array([min(a, b), max(a, b)]), *limits).tolist()
    assert low <= high


def test_the_request_lattice_holds_integers_in_float64() -> None:
    stored = np.linspace(-STORED_UNIT, STORED_UNIT, 100_003).astype(np.int32)
    requested = to_request_lattice(stored)
    assert requested.dtype == np.float64
    assert requested.tolist() == [round(Fraction(z * UNIT, STORED_UNIT)) for z in stored.tolist()]


def test_a_damaged_stored_integer_stays_within_the_request_lattice() -> None:
    damaged = np.array([2**31 - 1, -(2**31) + 1, STORED_UNIT + 1], dtype=np.int32)
    assert (np.abs(to_request_lattice(damaged)) <= UNIT).all()


def test_a_single_precision_column_is_mapped_like_its_double_values() -> None:
    values = np.array([1.5, 1e30, -3.25, 0.1], dtype=np.float32)
    for lower, upper in ((-10.0, 10.0), (0.0, 1e300), (0.0, 0.3)):
        expected = to_stored(values.astype(np.float64), lower, upper)
        assert to_stored(values, lower, upper).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (math.nan, 1.0),
        (0.0, math.nan),
        (-math.inf, 0.0),
        (0.0, math.inf),
        (1.0, 1.0),
        (2.0, 1.0),
        (0.0, SUBNORMAL),
        (SUBNORMAL, 2 * SUBNORMAL),
        (0.0, 1e-310),
    ],
)
def test_bad_bounds_are_rejected(lower: float, upper: float) -> None:
    with pytest.raises(ValueError, match="bound"):
        center_and_scale(lower, upper)


@given(bounds())
def test_centre_and_scale_are_finite_and_positive(limits: tuple[float, float]) -> None:
    center, scale = center_and_scale(*limits)
    assert math.isfinite(center)
    assert 0 < scale < math.inf


@given(st.integers(-200, 200), st.integers(1, 400), st.integers(-4, 6), st.data())
def test_numbers_of_few_decimals_are_read_as_the_file_said_them(
    low: int, width: int, exponent: int, data: st.DataObject
) -> None:
    """A condition such as `age >= 63` decides by them: 63 must not come back as 62.99999998."""
    unit = float(f"1e{exponent}")
    lower, upper = low * unit, (low + width) * unit
    said = np.array([float(f"{data.draw(st.integers(low * 1000, (low + width) * 1000))}e{exponent - 3}")])
    center, scale = center_and_scale(lower, upper)
    read = center + scale * (to_stored(said, lower, upper) / STORED_UNIT)
    assert to_decimals(read, decimals_of(lower, upper)).tolist() == said.tolist()


@pytest.mark.parametrize(("lower", "upper"), AWKWARD_BOUNDS)
def test_numbers_move_by_a_few_steps_at_most(lower: float, upper: float) -> None:
    center, scale = center_and_scale(lower, upper)
    read = np.clip(center + scale * np.linspace(-0.999, 0.999, 101), lower, upper)
    moved = np.abs(to_decimals(read.copy(), decimals_of(lower, upper)) - read)
    assert np.all(moved / scale <= 6.0 / STORED_UNIT)
