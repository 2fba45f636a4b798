"""Intervals under a stated bound: they hold every value that bound and release allow, and say when there is none."""

import math
from typing import Any

import numpy as np
import pytest
from client_examples import noised, release_of_rows

from analyst_client import AdaSSP, BayesianRegression, Column, EstimationError, EstimationWarning, Release
from analyst_client.inference.score import ConfidenceSet, ScoreRegion, ScoreView, StatedBounds
from analyst_client.kinds import Noise

NOISE = Noise(70.0, 50.0, 40.0, 40.0, distribution="discrete_gaussian")
BETA = np.array([0.1, 0.3, -0.3, 0.3])


def draw(seed: int, noise: Noise = NOISE, rows: int = 500, units: float = 1.0, weak: float = 1.0) -> Release:
    """Return a release of simulated rows, the first feature in other units, the last of another spread."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.0, 1.0, (rows, 3)) * [1.0, 1.0, weak]
    y = BETA[0] + X @ BETA[1:] + generator.normal(0.0, 0.3, rows)
    columns: list[str | Column] = [Column.numeric("dose", -units, units), "age", "weight"]
    return noised(release_of_rows(X, y, features=columns), noise, generator)


def region(seed: int, d: int) -> tuple[ScoreRegion, Any]:
    """Return a region whose noise leaves some directions open, and its quadratic form: at most 0 inside."""
    generator = np.random.default_rng(seed)
    A = np.diag(generator.uniform(0.3, 3.0, d)) + 0.1 * generator.normal(size=(d, d))
    A = (A + A.T) / 2.0
    theta, W, N = 0.3 * generator.normal(size=d), 0.3 * np.eye(d), 0.3 / d * np.eye(d)

    def value(points: np.ndarray, critical: float) -> np.ndarray:
        off = points - theta
        noise = 1.0 + 2.0 * off @ N @ theta + np.sum(off @ N * off, axis=1)
        found: np.ndarray = np.sum((off @ A) ** 2, axis=1) / 0.3 - critical * noise
        return found

    return ScoreRegion(ScoreView(A, W), theta, N, N @ theta), value


class TestOuterIntervals:
    @pytest.mark.parametrize("groups", [(0, 1), (0, 0)], ids=["each", "together"])
    @pytest.mark.parametrize("seed", range(8))
    def test_hold_every_point_of_the_region_within_the_bounds_and_hardly_more(
        self, seed: int, groups: tuple[int, int]
    ) -> None:
        d, critical = 3, 14.0
        found, value = region(seed, d)
        rows, offsets = np.eye(d)[1:] / 0.8, np.array([0.05, -0.1])
        contrasts = np.vstack([np.eye(d), [[0.5, -1.0, 1.0]]])
        intervals = found.outer_intervals(contrasts, critical, StatedBounds(rows, offsets, np.array(groups)))
        assert intervals is not None
        generator = np.random.default_rng(seed)
        points = generator.uniform(-1.0, 1.0, (400_000, d)) * [6.0, 1.0, 1.0]
        sizes = [np.sum((points @ rows.T + offsets)[:, np.array(groups) == g] ** 2, axis=1) for g in set(groups)]
        inside = (value(points, critical) <= 0.0) & (np.max(sizes, axis=0) <= 1.0)
        reached = points[inside] @ contrasts.T
        assert np.all(reached >= intervals[:, 0])
        assert np.all(reached <= intervals[:, 1])
        # sampled points stay inside of the true ends, and a coefficient's own bound is cut off by the caller
        ends = intervals[[0, 3]][np.abs(intervals[[0, 3]]).max(axis=1) < 5.0]
        near = np.ptp(reached[:, [0, 3]], axis=0)[np.abs(intervals[[0, 3]]).max(axis=1) < 5.0]
        assert np.all(near >= 0.75 * np.ptp(ends, axis=1))

    def test_are_none_where_region_and_bounds_do_not_meet(self) -> None:
        sure = ScoreRegion(ScoreView(np.eye(3) * 9.0, np.eye(3)), np.zeros(3), np.zeros((3, 3)), np.zeros(3))
        far = StatedBounds(np.eye(3)[2:] / 0.01, np.array([-5000.0]), np.zeros(1, dtype=np.int64))
        assert sure.outer_intervals(np.eye(3), 10.0, far) is None

    def test_are_infinite_where_nothing_bounds_a_direction(self) -> None:
        weak = ScoreRegion(ScoreView(np.diag([9.0, 0.1, 9.0]), np.eye(3)), np.zeros(3), 0.1 * np.eye(3), np.zeros(3))
        intervals = weak.outer_intervals(
            np.eye(3), 10.0, StatedBounds(np.eye(3)[2:], np.zeros(1), np.zeros(1, dtype=np.int64))
        )
        assert np.isinf(intervals[1]).all()


def test_a_bound_gives_ends_to_intervals_that_have_none() -> None:
    noise = Noise(56.0, 40.0, 30.0, 30.0, distribution="discrete_gaussian")
    fit = AdaSSP().fit(draw(0, noise, rows=4000, weak=0.02))
    assert np.isinf(fit.conf_int()).all()
    found = fit.conf_int(bound=dict.fromkeys(("dose", "age", "weight"), 0.6))
    assert np.isfinite(found).all()
    assert np.all((found[:, 0] <= BETA) & (found[:, 1] >= BETA))
    assert np.all(np.abs(found[1:]) <= 0.6)
    together = fit.conf_int(bound=0.6)
    assert np.all(np.ptp(together[:3], axis=1) < np.ptp(found[:3], axis=1))
    assert np.all(np.ptp(found[:3], axis=1) < 0.5)  # the last one says nothing beyond its bound


def test_a_bound_that_is_far_off_leaves_the_set_of_the_smaller_size() -> None:
    fit = AdaSSP().fit(draw(1, Noise(3.0, 2.0, 2.0, 2.0, distribution="discrete_gaussian")))
    assert fit.conf_int(bound=50.0) == pytest.approx(fit.conf_int(level=0.96), rel=1e-9)


def test_bounds_are_in_raw_units_and_by_name() -> None:
    coarse, fine = (AdaSSP().fit(draw(5, units=units)) for units in (1.0, 1000.0))
    expected = coarse.conf_int(bound={"dose": 0.6, "age": 0.5, "weight": 0.4, "(constant)": 0.7})
    found = fine.conf_int(bound={"dose": 0.0006, "age": 0.5, "weight": 0.4, "(constant)": 0.7})
    assert found * [[1.0], [1000.0], [1.0], [1.0]] == pytest.approx(expected, rel=1e-4)
    expected, found = coarse.conf_int(bound=0.7), fine.conf_int(bound=0.7)  # of effects, which have no unit but y's
    assert found * [[1.0], [1000.0], [1.0], [1.0]] == pytest.approx(expected, rel=1e-4)


def test_a_bound_that_contradicts_the_release_is_said() -> None:
    fit = AdaSSP().fit(draw(1, Noise(3.0, 2.0, 2.0, 2.0, distribution="discrete_gaussian")))
    with pytest.raises(EstimationError, match="no coefficients within the stated bound agree"):
        fit.conf_int(bound=0.01)


def test_a_single_parameter_without_a_value_is_nan_and_warned_of() -> None:
    fit = AdaSSP().fit(draw(1, Noise(3.0, 2.0, 2.0, 2.0, distribution="discrete_gaussian")))
    just_out = float(fit.conf_int(level=0.96)[1, 0]) * 0.999
    with pytest.warns(EstimationWarning, match="no value of dose agrees"):
        found = fit.conf_int(bound={"dose": just_out})
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2, 3]]).all()
    assert "no value of dose agrees" in " ".join(fit.summary(bound={"dose": just_out}).notes)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, True, "1", {"dose": 0.0}, {"none": 1.0}, {}])
def test_what_is_no_bound_is_refused(bound: Any) -> None:
    with pytest.raises(ValueError, match=r"bound"):
        AdaSSP().fit(draw(1)).conf_int(bound=bound)


def test_a_bound_goes_with_the_score_test_alone() -> None:
    with pytest.raises(ValueError, match="'fieller' alone"):
        AdaSSP().fit(draw(1)).conf_int(method="delta", bound=1.0)


@pytest.mark.filterwarnings("ignore::analyst_client.EstimationWarning")
def test_the_summary_says_that_intervals_rest_on_it() -> None:
    release = draw(5)
    for estimator in (AdaSSP(), BayesianRegression(draws=50, seed=1)):
        fit = estimator.fit(release)
        said = str(fit.summary(bound={"dose": 0.6, "age": 0.6, "weight": 0.6}))
        assert "rest on a bound that was stated, 0.6 for dose" in said.replace("\n", " ")
        assert "∞" not in said
    assert "conf_int(bound=…)" in " ".join(AdaSSP().fit(release).caveats())


def test_two_rays_are_cut_on_either_side_of_their_gap() -> None:
    rays = ConfidenceSet("rays", -1.0, 1.0)
    assert rays.cut(-3.0, 3.0) == (-3.0, 3.0)
    assert rays.cut(-3.0, 0.5) == (-3.0, -1.0)
    assert rays.cut(-0.5, 3.0) == (1.0, 3.0)
    low, high = rays.cut(-0.5, 0.5)
    assert low > high
    assert ConfidenceSet("line", -np.inf, np.inf).cut(-2.0, 2.0) == (-2.0, 2.0)
