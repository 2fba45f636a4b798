"""Standard errors of weighted rows: never below what the rows' own weights give, wherever bounds are centred."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from analyst_client import OLS, Column, Release
from analyst_client.inference.pooling import pool
from bench.weights import KINDS, draw

FloatArray = NDArray[np.float64]
ROWS = 400
NORM = 1.2


OF_EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def weighted(kind: str, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows (1, x) and y, weighted as `ball` does, and their weights."""
    generator = np.random.default_rng(seed)
    X = np.column_stack([np.ones(ROWS), draw(kind, ROWS, 2, generator)])
    y = X @ [0.1, 0.3, -0.2] + 0.2 * generator.standard_normal(ROWS)
    w = np.minimum(1.0, NORM / np.linalg.norm(X, axis=1))
    return X * w[:, np.newaxis], y * w, w


def release_of(Z: FloatArray, y: FloatArray, centers: FloatArray, scales: FloatArray) -> Release:
    """Return the exact release of weighted rows whose columns have these centres and scales, and raw units [−1, 1]."""
    T = np.diag(np.r_[1.0, 1.0 / scales])
    T[1:, 0] = -centers / scales
    A = T @ Z.T @ Z @ T.T
    columns: list[str | Column] = [
        Column.numeric(f"x{j}", float(c - s), float(c + s))
        for j, (c, s) in enumerate(zip(centers, scales, strict=True))
    ]
    targets: list[str | Column] = [Column.numeric("y", -1, 1)]
    return Release.from_arrays((A + A.T) / 2.0, T @ Z.T @ y, y @ y, features=columns, targets=targets, norm=NORM)


@OF_EVERY_KIND
def test_what_is_assumed_is_never_below_what_the_weights_give(kind: str) -> None:
    for seed in range(20):
        Z, y, w = weighted(kind, seed)
        (equations,) = pool(release_of(Z, y, np.zeros(2), np.ones(2)))
        assumed = equations.sampling_covariance(np.ones(1))
        true = (Z * w[:, np.newaxis] ** 2).T @ Z
        assert np.linalg.eigvalsh(assumed - true)[0] >= -1e-9 * np.trace(assumed)


@OF_EVERY_KIND
@settings(max_examples=25)
@given(
    centers=st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=2),
    scales=st.lists(st.floats(0.1, 10.0), min_size=2, max_size=2),
)
def test_moving_and_scaling_terms_changes_no_standard_error(
    kind: str, centers: list[float], scales: list[float]
) -> None:
    Z, y, _ = weighted(kind)
    before = OLS().fit(release_of(Z, y, np.zeros(2), np.ones(2)))
    after = OLS().fit(release_of(Z, y, np.array(centers), np.array(scales)))
    exact: dict[str, Any] = {"rel": 1e-6}
    assert after.std_errors_ == pytest.approx(before.std_errors_, **exact)
    assert after.rsquared_ == pytest.approx(before.rsquared_, **exact)
    assert np.diff(after.conf_int()) == pytest.approx(np.diff(before.conf_int()), **exact)
    assert after.pvalues_ == pytest.approx(before.pvalues_, rel=1e-4, abs=1e-12)


def test_the_residual_variance_is_that_of_the_rows() -> None:
    Z, y, w = weighted("at 0.9")
    residual = y - Z @ np.linalg.solve(Z.T @ Z, Z.T @ y)
    fit = OLS().fit(release_of(Z, y, np.zeros(2), np.ones(2)))
    assert fit.results_[0].scale == pytest.approx(residual @ residual / (w @ w - 3))


@pytest.mark.parametrize(("norm", "noise", "said"), [(1.2, 0.5, True), (1.2, 60.0, False), (1.75, 0.5, False)])
def test_a_small_norm_is_warned_of_where_noise_is_not_by_far_the_larger_error(
    norm: float, noise: float, said: bool
) -> None:
    fit = OLS().fit(shrunk(norm, noise))
    assert any("small norm" in text for text in fit.caveats()) == said
    assert f"Rows longer than {norm:g} in scaled units" in str(fit.summary())


def test_rows_that_all_count_alike_need_no_word() -> None:
    for norm in (None, 2.0):  # the box, and a ball that holds the longest row
        fit = OLS().fit(shrunk(norm, 0.5))
        assert "count for less" not in str(fit.summary())
        assert "shrunk" not in " ".join(fit.caveats())


def shrunk(norm: float | None, noise: float) -> Release:
    """Return a release of three uniform columns, shrunk to a norm."""
    generator = np.random.default_rng(3)
    X = np.column_stack([np.ones(5000), generator.uniform(-1.0, 1.0, (5000, 3))])
    y = X @ [0.1, 0.3, -0.2, 0.0] + 0.2 * generator.standard_normal(5000)
    w = np.ones(5000) if norm is None else np.minimum(1.0, norm / np.linalg.norm(X, axis=1))
    A = (X * w[:, np.newaxis] ** 2).T @ X
    xty = (X * w[:, np.newaxis] ** 2).T @ y
    columns: list[str | Column] = [Column.numeric(name, -1, 1) for name in "abc"]
    targets: list[str | Column] = [Column.numeric("y", -1, 1)]
    return Release.from_arrays(
        (A + A.T) / 2.0, xty, y**2 @ w**2, features=columns, targets=targets, noise=noise, norm=norm
    )


def ball_of_seven() -> Release:
    """Return a release of a constant and six columns: rows as long as √7, shrunk to 1.8."""
    norm = 1.8
    generator = np.random.default_rng(5)
    X = np.column_stack([np.ones(4000), generator.uniform(-1, 1, (4000, 6))])
    y = X @ [0.1, 0.3, -0.2, 0.1, 0.0, 0.2, -0.1] + 0.2 * generator.standard_normal(4000)
    w = np.minimum(1.0, norm / np.linalg.norm(X, axis=1))
    Z, y = X * w[:, np.newaxis], y * w
    columns: list[str | Column] = [Column.numeric(f"x{j}", -1, 1) for j in range(6)]
    targets: list[str | Column] = [Column.numeric("y", -1, 1)]
    return Release.from_arrays(Z.T @ Z, Z.T @ y, y @ y, features=columns, targets=targets, norm=norm)


def test_a_part_weights_rows_where_its_whole_does() -> None:
    whole = ball_of_seven()
    part = whole.select(["x0", "x1"])
    assert whole.weights_rows
    assert part.weights_rows


def test_the_summary_of_a_part_says_what_weights_do_to_standard_errors() -> None:
    whole, said = ball_of_seven(), "standard errors are upper bounds"
    assert said in " ".join(str(OLS().fit(whole).summary()).split())
    assert said in " ".join(str(OLS().fit(whole, features=["x0", "x1"]).summary()).split())
