"""Pure functions of studies/literature.md, on what can be computed by hand or by another formula."""

import doctest
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import spearmanr

from analyst_client import Release
from analyst_client.kinds import Noise
from curator_service.privacy.calibration import Calibration
from studies import common, kalaja, local_sgd, nieminen, wang
from studies.metrics import Proportion


@pytest.mark.parametrize("module", [common, wang, kalaja, nieminen, local_sgd], ids=lambda module: module.__name__)
def test_examples_run(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.failed == 0
    assert outcome.attempted > 0


class TestStudies:
    def test_the_error_over_folds_is_that_of_their_means(self) -> None:
        folds = [[0.0, 2.0], [4.0, 4.0], [1.0, 1.0]]
        mean = common.over_folds(folds)
        assert mean.value == pytest.approx(2.0)
        assert mean.error == pytest.approx(np.std([1.0, 4.0, 1.0], ddof=1) / math.sqrt(3))

    @pytest.mark.parametrize("places", [(), ("a", "b")])
    def test_panels_are_drawn(self, tmp_path: Path, places: tuple[str, ...]) -> None:
        points = {0.0 if places else 0.1: Proportion(0.2, 0.01), 1.0: Proportion(0.1, 0.01)}
        panel = common.Panel("title", "x", "y", {"one": points, "two": points}, {"zero": 0.3}, (not places, True))
        common.draw_panels(tmp_path / "figure.png", [panel, panel, panel], columns=2)
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


class TestWang:
    def test_rows_are_prepared_as_published(self) -> None:
        rows = wang.prepared(np.random.default_rng(0).gamma(2.0, size=(50, 4)))
        np.testing.assert_allclose(rows[:, :-1].mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(rows[:, :-1].std(axis=0), 1.0)
        assert np.abs(rows[:, -1]).max() == 1.0
        np.testing.assert_allclose(np.linalg.norm(wang.directions(rows[:, :-1]), axis=1), 1.0)

    def test_a_column_that_never_varies_is_zero(self) -> None:
        assert wang.prepared(np.array([[5.0, 1.0], [5.0, 2.0]]))[:, 0].tolist() == [0.0, 0.0]

    def test_with_a_large_epsilon_his_program_is_ridge_without_privacy(self) -> None:
        generator = np.random.default_rng(1)
        X = wang.directions(generator.normal(size=(400, 3)))
        y = X @ np.array([0.3, -0.2, 0.1])
        np.testing.assert_allclose(wang.adassp_again(X, y, 1e6, generator), wang.ridge(X, y), atol=1e-4)

    def test_published_means_have_the_errors_of_ten_folds(self) -> None:
        mean = wang.PUBLISHED["airfoil"].mean(1.0)
        assert (mean.value, mean.error) == (0.0588, pytest.approx(0.0109 / math.sqrt(10)))


class TestKalaja:
    def test_clipping_is_above_alone_and_by_other_rows_where_asked(self) -> None:
        rows = np.array([[0.0, 1.0], [10.0, 2.0]])
        other = np.array([[0.0, 0.0], [2.0, 0.0]])
        assert kalaja.clipped_above(rows, 1.0).tolist() == rows.tolist()
        assert kalaja.clipped_above(rows, 0.5, other).tolist() == [[0.0, 1.0], [1.5, 2.0]]
        assert kalaja.clipped_above(-rows, 0.0, other).tolist() == (-rows).tolist()

    def test_every_variant_has_its_rows(self) -> None:
        data = np.random.default_rng(2).normal(size=(30, 3))
        offered = {name: (bounds, rows) for name, bounds, rows in kalaja.datasets(data[:20], data)}
        assert {variant.bounds for variant in kalaja.VARIANTS.values()} == set(offered)
        for bounds, rows in offered.values():
            assert rows.shape == (20, 3)
            assert len(bounds) == 3
        assert {label for _, drawn in kalaja.FIGURES for label in drawn.values()} <= set(kalaja.VARIANTS)

    def test_under_the_thesis_bounds_no_row_is_longer_than_one(self) -> None:
        data = np.random.default_rng(3).gamma(1.0, size=(40, 4))
        for name, bounds, rows in kalaja.datasets(data, data):
            if name != "public" and name != "training, y":
                low, high = np.array(bounds).T
                scaled = (rows - (low + high) / 2) / ((high - low) / 2)
                assert np.linalg.norm(scaled[:, :-1], axis=1).max() == pytest.approx(1.0)
                assert np.abs(scaled[:, -1]).max() == pytest.approx(1.0)


class TestNieminen:
    def test_rank_correlation_is_scipy_s(self) -> None:
        truth, predicted = np.random.default_rng(4).normal(size=(2, 30))
        assert nieminen.rank_correlation(truth, predicted) == pytest.approx(spearmanr(truth, predicted).statistic)

    def test_splits_are_all_of_the_grid(self) -> None:
        found = set(nieminen.splits())
        assert len(found) == 171
        assert nieminen.SPLIT in found
        assert all(math.isclose(sum(split), 1.0) and min(split) > 0.0 for split in found)
        assert sum(nieminen.shares_of(nieminen.SPLIT).values()) == 1

    def test_his_noise_is_that_of_his_algorithm_and_the_tight_one_half_of_it_in_xtx(self) -> None:
        his, tight = (
            nieminen.noise_of(calibration, 2.0, nieminen.SPLIT)
            for calibration in (Calibration.NIEMINEN2017, Calibration.ANALYTIC)
        )
        d, halved = nieminen.FEATURES, [0.5, 1.0, 1.0]
        sensitivities = (d * (d + 1), 2 * d, 1)
        expected = [math.sqrt(2.0) * s / (2.0 * p) for s, p in zip(sensitivities, nieminen.SPLIT, strict=True)]
        assert [his.xtx_offdiagonal, his.xty, his.yty] == pytest.approx(expected, rel=1e-6)
        tight_sd = np.array([tight.xtx_offdiagonal, tight.xty, tight.yty])
        np.testing.assert_allclose(tight_sd, np.multiply(expected, halved), rtol=1e-6)

    def test_without_noise_a_search_scores_the_posterior_mean_on_rows_held_out(self) -> None:
        search = nieminen.Search.of(200, sets=1, draws=1, seed=5)
        scores = search.scores(Noise(0.0, 0.0, 0.0, 0.0))
        assert scores.shape == (1, 20, 20)
        (rows,) = search.rows
        kept, new = rows.take(slice(0, 200)), rows.take(slice(200, None))
        Bx, By = (2.0 * sigma for sigma in search.deviations)
        Z, u = np.clip(kept.features, -Bx, Bx), np.clip(kept.target, -By, By)
        beta = np.linalg.solve(Z.T @ Z + np.eye(nieminen.FEATURES), Z.T @ u)
        assert scores[0, -1, -1] == pytest.approx(float(nieminen.rank_correlation(new.target, new.features @ beta)))
        assert search.scores(Noise(0.0, 0.0, 0.0, 0.0), (19, 19)).item() == scores[0, -1, -1]

    def test_sums_of_several_releases_are_told_in_raw_units(self) -> None:
        parts = [Release.from_arrays(np.eye(2) * k, [k, 0.0], float(k), constant=False, noise=1.0) for k in (1.0, 2.0)]
        told = nieminen.in_raw_units(parts, (2.0, 3.0))
        assert told.xtx.tolist() == [[12.0, 0.0], [0.0, 12.0]]
        assert told.xty[:, 0].tolist() == [18.0, 0.0]
        assert told.yty.tolist() == [27.0]
        assert (told.noise.xtx_diagonal, told.noise.xty, told.noise.yty) == (4.0, 6.0, 9.0)

    def test_a_split_shares_no_row_and_knows_its_thresholds(self) -> None:
        rows = nieminen.Rows(np.random.default_rng(6).normal(size=(300, 10)), np.arange(300.0))
        split = nieminen.Split.of(rows, 150, seed=1)
        assert split.count == 150 + nieminen.PUBLIC
        assert np.std(split.private.target, ddof=1) * 0.5 == pytest.approx(split.thresholds((1.0, 0.5))[1])
        assert nieminen.Split.of(rows, 0, seed=1).thresholds((0.1, 0.1))[0] == 1.0


class TestLocalSgd:
    @pytest.mark.parametrize("d", [1, 3, 5])
    def test_a_private_view_is_unbiased(self, d: int) -> None:
        generator = np.random.default_rng(d)
        values = np.tile(np.linspace(-0.9, 0.6, d), (200_000, 1))
        view = local_sgd.private_view(values, 1.0, 1.0, generator)
        reach = np.abs(view).max()
        np.testing.assert_allclose(view.mean(axis=0), values[0], atol=5.0 * reach / math.sqrt(len(values)))

    def test_in_an_even_number_of_dimensions_there_is_none(self) -> None:
        with pytest.raises(ValueError, match="odd"):
            local_sgd.private_view(np.zeros((3, 2)), 1.0, 1.0, np.random.default_rng(0))

    @pytest.mark.parametrize("d", [1, 3])
    def test_a_private_view_is_as_private_as_it_says(self, d: int) -> None:
        """The largest ratio of the chances of a corner, over inputs at the corners, is e^ε."""
        generator, epsilon, count = np.random.default_rng(8), 1.0, 400_000
        shares = []
        for corner in np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T:
            view = local_sgd.private_view(np.tile(corner, (count, 1)), 1.0, epsilon, generator)
            shares.append(np.bincount((view > 0.0) @ 2 ** np.arange(d), minlength=2**d) / count)
        ratios = np.max(shares, axis=0) / np.min(shares, axis=0)
        assert ratios.max() <= math.exp(epsilon) * 1.03
        assert ratios.max() >= math.exp(epsilon) * 0.97

    def test_without_noise_descent_finds_the_coefficients(self) -> None:
        task = local_sgd.linear_task()
        assert task.excess(np.zeros(5)) > 0.01
        assert local_sgd.local_excess(task, 20_000, None, 1.0, seed=1) < 1e-3
        assert local_sgd.local_excess(task, 20_000, 1e3, 1.0, seed=1) < 0.05

    def test_the_least_logistic_risk_is_least(self) -> None:
        task = local_sgd.logistic_task()
        assert task.excess(np.array([0.0, 5.0, 0.0])) > 0.0

    def test_the_printed_view_stays_within_its_bound(self) -> None:
        generator, value = np.random.default_rng(9), np.array([0.2, -0.1, 0.0])
        views = np.array([local_sgd.printed_view(value, 1.0, generator) for _ in range(2000)])
        reach = 2.0 * 0.2 / (math.tanh(0.5) * local_sgd.corner_share(3))
        assert np.abs(views).max() <= reach
        assert local_sgd.printed_view(np.zeros(3), 1.0, generator).tolist() == [0.0, 0.0, 0.0]
