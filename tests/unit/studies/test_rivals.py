"""Rivals of the refined regression, without noise and with little, and what is read and printed."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from studies import rivals
from studies.protocol import Floats
from studies.rivals import Price, Rounds, Split, Steps, boost, descend


def rows_with_a_line(n: int = 400) -> tuple[Floats, Floats]:
    """Return rows with a constant, and targets near a line, all within [−1, 1]."""
    generator = np.random.default_rng(5)
    x = np.hstack([np.ones((n, 1)), generator.uniform(-1, 1, (n, 3))])
    return x, x @ [0.1, 0.4, -0.2, 0.1] + generator.normal(0, 0.02, n)


def least_squares(x: Floats, y: Floats) -> Floats:
    """Return coefficients without privacy."""
    found: Floats = np.linalg.lstsq(x, y, rcond=None)[0]
    return found


class Remembering(np.random.Generator):
    """Noise of one standard deviation, always; how often it was asked is remembered."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))
        self.asked = 0

    def standard_normal(self, size=None, dtype=np.float64, out=None):  # type: ignore[no-untyped-def,override]
        """Return ones, so that a deviation shows as it is."""
        self.asked += 1
        return 1.0 if size is None else np.ones(size)


class TestGradientDescent:
    """Clipped gradients, and normal noise."""

    @pytest.mark.parametrize("momentum", [0.0, 0.9])
    def test_without_noise_and_clipping_it_reaches_least_squares(self, momentum: float) -> None:
        x, y = rows_with_a_line()
        last, mean = descend(x, y, [Steps(2000, 100.0, 0.5, momentum)], math.inf, np.random.default_rng(1))[:, 0]
        assert last == pytest.approx(least_squares(x, y), abs=1e-6)
        assert mean == pytest.approx(least_squares(x, y), abs=1e-6)

    def test_settings_side_by_side_are_those_by_themselves(self) -> None:
        x, y = rows_with_a_line()
        settings = [Steps(20, 0.05, 0.3), Steps(20, 1.0, 1.0, 0.9)]
        both = descend(x, y, settings, math.inf, np.random.default_rng(1))
        for k, setting in enumerate(settings):
            alone = descend(x, y, [setting], math.inf, np.random.default_rng(1))
            assert both[:, k] == pytest.approx(alone[:, 0])

    def test_no_row_moves_a_step_by_more_than_the_clip(self) -> None:
        x, y = rows_with_a_line(50)
        setting = Steps(1, 0.05, 1.0)
        with_it = len(y) * descend(x, y, [setting], math.inf, np.random.default_rng(1))[0, 0]
        without = (len(y) - 1) * descend(x[1:], y[1:], [setting], math.inf, np.random.default_rng(1))[0, 0]
        assert np.linalg.norm(with_it - without) <= 0.05 + 1e-12

    def test_all_steps_together_cost_what_they_may(self) -> None:
        x, y = rows_with_a_line(50)
        mu, setting = 0.3, Steps(7, 0.05, 1.0)
        plain = descend(x, np.zeros(50), [dataclasses.replace(setting, steps=1)], math.inf, Remembering())[0, 0]
        assert plain == pytest.approx(np.zeros(4))
        source = Remembering()
        noisy = descend(x, np.zeros(50), [Steps(1, 0.05, 1.0)], mu / math.sqrt(7), source)[0, 0]
        deviation = 50 * np.abs(noisy)
        assert source.asked == 1
        assert 7 * (0.05 / deviation) ** 2 == pytest.approx(np.full(4, mu**2))
        counted = Remembering()
        descend(x, y, [setting], mu, counted)
        assert counted.asked == 7


class TestBoostedAdaSSP:
    """A noisy XᵀX, and rounds of clipped residuals."""

    def test_without_noise_it_is_least_squares(self) -> None:
        x, y = rows_with_a_line()
        found = boost(x, y, Rounds(3, 1.0, 10.0), math.inf, np.random.default_rng(1))
        assert found == pytest.approx(least_squares(x, y), abs=1e-6)

    def test_rounds_reduce_the_error_where_residuals_are_clipped(self) -> None:
        x, y = rows_with_a_line()
        errors = [
            float(np.mean((y - x @ boost(x, y, Rounds(rounds, 1.0, 0.05), math.inf, np.random.default_rng(1))) ** 2))
            for rounds in (1, 4, 16, 64)
        ]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] == pytest.approx(float(np.mean((y - x @ least_squares(x, y)) ** 2)), rel=0.02)

    @pytest.mark.parametrize("rounds", [1, 5, 100])
    @pytest.mark.parametrize("search", [1 / 3, 0.05])
    def test_shares_add_up(self, rounds: int, search: float) -> None:
        gram, least, each = Rounds(rounds, 1.0, 1.0, search).shares()
        assert gram + least + rounds * each == pytest.approx(1.0)

    def test_a_third_each_is_the_paper_s(self) -> None:
        assert Rounds(4, 1.0, 1.0).shares() == pytest.approx((1 / 3, 1 / 3, 1 / 12))


@dataclasses.dataclass(frozen=True)
class Made:
    """A setting with an error that is known."""

    error: float

    def words(self) -> str:
        """Say it."""
        return f"{self.error:g}"


class Known:
    """A rival whose errors are those of its settings."""

    name = "known"

    def __init__(self, errors: Sequence[float]) -> None:
        self.grid = [Made(error) for error in errors]
        self.tried: list[int] = []

    def errors(
        self, split: Split, settings: Sequence[Made], price: Price, generator: np.random.Generator
    ) -> list[float]:
        """Return them."""
        self.tried.append(len(settings))
        return [setting.error for setting in settings]


def splits(count: int) -> list[Split]:
    """Return splits whose target has variance 1."""
    rows = np.array([[0.0, -1.0], [0.0, 1.0]])
    return [Split(rows, rows, 0.5)] * count


class TestTuning:
    """A grid on some splits, and its best on all."""

    def test_the_best_of_the_grid_is_found_and_the_default_is_kept(self) -> None:
        rival = Known([0.9, 0.4, 0.2, 0.3])
        found = rivals.measure(rival, splits(5), Price(1.0, 0.2), screened=2, kept=1)
        assert found == {"tuned": pytest.approx(0.8), "default": pytest.approx(0.1), "setting": "0.2", "splits": 5}
        assert rival.tried == [4, 4, 2, 2, 2]

    def test_names_of_settings_are_distinct(self) -> None:
        for rival in (*rivals.LINES, rivals.CURVES):
            words = [setting.words() for setting in rival.grid]
            assert len(set(words)) == len(words)


class TestTables:
    """Tables that are read and printed."""

    PRINTED = """
ε = 1, tight bounds

| set | R² | AdaSSP | at ε = 100 | refined | excess: AdaSSP | refined | µ² spent |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| airfoil | 0.514 | 0.1 | 0.5 | 0.499 | 1.0 | 0.03 | 0.056 |

AdaSSP's excess is 5.0 times that of the refinement

ε = 0.1, loose bounds

| set | R² | AdaSSP | at ε = 100 | refined | excess: AdaSSP | refined | µ² spent |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| airfoil | 0.514 | 0.1 | 0.5 | -0.010 | 1.0 | 0.03 | 0.056 |
"""

    def test_the_refined_column_is_read(self) -> None:
        expected = {("airfoil", "tight", 1.0): 0.499, ("airfoil", "loose", 0.1): -0.01}
        assert rivals.refined_of(self.PRINTED) == expected

    def test_a_miss_is_bold_and_what_is_missing_is_a_dash(self) -> None:
        results: rivals.Results = {
            rivals.key_of("airfoil", "tight", 1.0, method): {"tuned": value}
            for method, value in (("gradient descent", 0.507), ("boosted AdaSSP", 0.54))
        }
        *_, line = rivals.table(["airfoil"], "tight", 1.0, results, {("airfoil", "tight", 1.0): 0.499})
        assert line == "| airfoil | – | 0.499 | 0.507 | 0.540 | **−0.041** |"

    def test_it_runs_and_does_nothing_twice(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        generator = np.random.default_rng(2)
        x = generator.uniform(-1, 1, (200, 2))
        (tmp_path / "airfoil").mkdir()
        np.savetxt(tmp_path / "airfoil" / "data.csv.gz", np.column_stack([x, x @ [1.0, 0.5]]), delimiter=",")
        mask = np.arange(200)[:, None] % 10 == np.arange(10)
        np.savetxt(tmp_path / "airfoil" / "test_mask.csv.gz", mask.astype(int), delimiter=",", fmt="%d")
        monkeypatch.setattr(rivals.GradientDescent, "grid", [Steps(10, 0.1, 1.0), Steps(10, 0.3, 1.0)])
        monkeypatch.setattr(rivals.BoostedAdaSSP, "grid", [Rounds(1, 1.0, 1.0)])
        monkeypatch.setattr(rivals.ExplainableBoosting, "is_installed", staticmethod(lambda: False))
        words = ["--data", str(tmp_path), "--sets", "airfoil", "--results", str(tmp_path / "results.json")]
        rivals.main([*words, "--epsilons", "1", "--bounds", "tight", "--splits", "3"])
        printed = capsys.readouterr().out
        assert "DP-EBM is not computed" in printed
        assert "| airfoil | 1 rounds" in printed or "| airfoil | 10 steps" in printed
        monkeypatch.setattr(rivals, "measure", None)
        rivals.main([*words, "--epsilons", "1", "--bounds", "tight", "--splits", "3"])
        assert capsys.readouterr().out == printed
