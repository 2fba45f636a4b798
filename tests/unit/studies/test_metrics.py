"""Metrics of the studies, on intervals that can be checked by hand."""

import math

import numpy as np
import pytest

from studies.metrics import (
    Agreement,
    Inferred,
    Proportion,
    holds,
    overlap,
    relative_length,
    same_conclusion,
    significantly_wrong,
)


def inferred(*coefficients: tuple[float, float, float, float]) -> Inferred:
    """Return coefficients, each given as value, interval and p-value."""
    of = np.array(coefficients)
    return Inferred(of[:, 0], of[:, 1:3], of[:, 3])


PLAIN = inferred((1.0, 0.5, 1.5, 0.001), (-1.0, -1.5, -0.5, 0.001), (0.1, -0.1, 0.3, 0.4))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0.0, 1.0), (0.0, 1.0), 1.0),
        ((0.0, 2.0), (1.0, 2.0), 0.75),
        ((0.0, 2.0), (1.0, 3.0), 0.5),
        ((0.0, 4.0), (3.0, 4.0), 0.625),
        ((0.0, 1.0), (1.0, 2.0), 0.0),
        ((0.0, 1.0), (5.0, 6.0), 0.0),
        ((-math.inf, math.inf), (0.0, 1.0), 0.5),
        ((0.5, math.inf), (0.0, 1.0), 0.25),
        ((-math.inf, math.inf), (-math.inf, math.inf), 1.0),
    ],
)
def test_overlap_is_the_mean_of_what_is_shared_of_each(
    first: tuple[float, float], second: tuple[float, float], expected: float
) -> None:
    a, b = np.array(first), np.array(second)
    assert overlap(a, b) == overlap(b, a) == expected
    if math.isfinite(sum((*first, *second))):
        assert overlap(7.0 - 3.0 * a[::-1], 7.0 - 3.0 * b[::-1]) == pytest.approx(expected)


def test_an_interval_is_longer_in_proportion_or_without_measure() -> None:
    private = np.array([[0.0, 3.0], [-math.inf, 2.0]])
    assert relative_length(private, np.array([[5.0, 7.0], [0.0, 1.0]])).tolist() == [1.5, math.inf]


def test_ends_belong_to_an_interval() -> None:
    intervals = np.array([[0.0, 1.0], [0.1, 1.0], [-math.inf, 0.0]])
    assert holds(intervals, 0.0).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("coefficient", "same", "wrong"),
    [
        ((0.8, 0.2, 1.4, 0.01), True, False),  # both above zero
        ((0.8, -0.1, 1.7, 0.08), False, False),  # not significant any more
        ((-0.8, -1.4, -0.2, 0.01), False, True),  # significant, with the wrong sign
        ((-0.8, -1.7, 0.1, 0.08), False, False),  # the wrong sign, and nothing is concluded of it
    ],
)
def test_a_conclusion_is_a_sign_and_its_significance(
    coefficient: tuple[float, float, float, float], same: bool, wrong: bool
) -> None:
    private, plain = inferred(coefficient), inferred((1.0, 0.5, 1.5, 0.001))
    assert same_conclusion(private, plain).tolist() == [same]
    assert significantly_wrong(private, plain).tolist() == [wrong]


def test_what_is_not_significant_without_privacy_should_not_be_with_it() -> None:
    plain = inferred((0.1, -0.1, 0.3, 0.4))
    assert same_conclusion(inferred((0.2, -0.2, 0.6, 0.3)), plain).tolist() == [True]
    assert same_conclusion(inferred((0.2, 0.1, 0.3, 0.01)), plain).tolist() == [False]


def test_a_proportion_has_the_error_of_independent_releases() -> None:
    found = Proportion.of([1.0] * 90 + [0.0] * 10)
    assert found.value == 0.9
    assert found.error == pytest.approx(math.sqrt(0.9 * 0.1 / 99))
    assert str(found) == "0.900 ± 0.030"


def test_releases_agree_coefficient_by_coefficient() -> None:
    near = inferred((1.2, 0.5, 1.9, 0.01), (-1.0, -2.0, 0.0, 0.05), (0.1, -0.1, 0.3, 0.4))
    far = inferred((-1.0, -1.5, -0.5, 0.01), (-0.5, -math.inf, math.inf, 0.9), (0.1, -0.3, 0.5, 0.5))
    found = Agreement.of([near, far], PLAIN, np.array([0.1, 0.2, 0.1]))
    np.testing.assert_allclose(found.shift, [[2.0, 0.0, 0.0], [-20.0, 2.5, 0.0]])
    np.testing.assert_allclose(found.length, [[1.4, 2.0, 1.0], [1.0, math.inf, 2.0]])
    np.testing.assert_allclose(found.overlap, [[(1.0 + 1.0 / 1.4) / 2.0, 0.75, 1.0], [0.0, 0.5, 0.75]])
    assert found.sign.tolist() == [[True, True, True], [False, True, True]]
    assert found.conclusion.tolist() == [[True, False, True], [False, False, True]]
    assert found.covered.tolist() == [[True, True, True], [False, True, True]]
    assert found.wrong.tolist() == [[False, False, False], [True, False, False]]
