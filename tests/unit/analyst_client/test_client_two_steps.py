"""The rule by which two steps choose a row map: stationary where it says so, and in its limits."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analyst_client.kinds.gram import two_steps
from analyst_client.kinds.gram.row_lengths import spread_counts
from analyst_client.kinds.gram.two_steps import BENT, RESIDUAL_SD, VARYING, choose_rows
from analyst_client.kinds.score.release import NORM_EDGES

GROUPS = 6


def counted(lengths: Any, rows: float = 1.0, sd: float = 0.0) -> Any:
    """Return the first step of rows whose ‖x‖ over its most is known."""
    counts = np.bincount(np.searchsorted(NORM_EDGES, lengths, side="right"), minlength=13) * rows
    return SimpleNamespace(norms=counts, directions=np.eye(GROUPS) / math.sqrt(GROUPS), noise=SimpleNamespace(norms=sd))


LENGTHS = np.exp(np.random.default_rng(1).normal(-1.0, 0.4, 10_000)).clip(0.0, 1.0)


def predicted(norms: Any, squared: float, xty_sd: float) -> float:
    """Return the squared error of a slope as the rule predicts it, with information by count."""
    squares, rows = spread_counts(norms, GROUPS)
    N = rows @ np.minimum(1.0, squared / (1.0 + squares))
    variance = VARYING * float(rows @ squares) / GROUPS / rows.sum()
    moved = BENT**2 * (1.0 - N / rows.sum()) ** 2
    return float(RESIDUAL_SD**2 / variance * (1.0 / N + moved) + squared * xty_sd**2 / (N * variance) ** 2)


@pytest.mark.parametrize("xty_sd", [3.0, 10.0, 30.0, 100.0])
def test_the_norm_is_where_the_predicted_error_is_about_least(xty_sd: float) -> None:
    norms = counted(LENGTHS)
    rows = choose_rows(norms, GROUPS, xty_sd)
    least = min(predicted(norms, 1.0 + GROUPS * x, xty_sd) for x in np.geomspace(1e-4, 1.0, 400))
    assert rows["map"] == "ball"
    assert predicted(norms, rows["norm"] ** 2, xty_sd) <= 1.05 * least
    assert predicted(norms, 1.0 + GROUPS, xty_sd) > 1.1 * least or xty_sd < 10.0


def test_the_norm_grows_with_the_rows_and_ends_with_the_box() -> None:
    norms = [
        choose_rows(counted(LENGTHS, rows), GROUPS, 30.0).get("norm", math.inf) for rows in 10.0 ** np.arange(-1, 9)
    ]
    assert norms == sorted(norms)
    assert norms[0] < norms[4] < norms[-1] == math.inf


def test_many_rows_that_could_be_bent_keep_more_of_their_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    norms = counted(LENGTHS, 10.0)
    norm = choose_rows(norms, GROUPS, 60.0)["norm"]
    monkeypatch.setattr(two_steps, "BENT", 0.0)
    assert choose_rows(norms, GROUPS, 60.0)["norm"] < norm


def test_where_noise_outweighs_all_half_of_the_weight_is_of_longer_rows() -> None:
    norms = counted(LENGTHS)
    squared = choose_rows(norms, GROUPS, 1e6)["norm"] ** 2
    squares, rows = spread_counts(norms, GROUPS)
    weights = rows * np.minimum(1.0, squared / (1.0 + squares))
    assert weights[1.0 + squares > squared].sum() / weights.sum() == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize(("sd", "hidden"), [(400.0, False), (600.0, True)])
def test_counts_that_do_not_tell_the_rows_choose_the_small_ball(sd: float, hidden: bool) -> None:
    small = round(math.sqrt(1.0 + GROUPS / 10.0), 4)
    assert (choose_rows(counted(LENGTHS, sd=sd), GROUPS, 30.0)["norm"] == small) == hidden


@pytest.mark.parametrize("groups", [1, 2, 6, 40])
def test_lengths_are_within_the_longest_row_and_counts_are_all(groups: int) -> None:
    norms = counted(LENGTHS)
    norms.directions = np.eye(groups) / math.sqrt(groups)
    squares, rows = spread_counts(norms, groups)
    assert squares.max() == pytest.approx(groups)
    assert rows.sum() == pytest.approx(len(LENGTHS))
    assert np.sqrt(rows @ squares / rows.sum() / groups) == pytest.approx(np.sqrt(np.mean(LENGTHS**2)), rel=0.1)
