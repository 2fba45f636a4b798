"""The classifiers of studies/overview.md, on what can be computed by hand."""

import doctest
import math

import numpy as np
import pytest

from studies import overview


def test_examples_run() -> None:
    outcome = doctest.testmod(overview)
    assert (outcome.failed, outcome.attempted) == (0, 1)


def test_a_fit_is_judged_by_its_order_of_the_rows() -> None:
    scores, y = np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(overview.judge(scores, y), [3 / 4, 2 / 3, 2 / 3])
    np.testing.assert_allclose(overview.judge(-scores, y), [3 / 4, 1 / 3, 1 / 3])


def test_the_rule_that_knows_the_laws_is_best() -> None:
    x, y = overview.bodies(np.random.default_rng(1), 20_000)
    best = overview.judge(overview.log_odds(x), y)
    np.testing.assert_allclose(x[y == 1.0].mean(axis=0), overview.MEN[0], rtol=0.01)
    assert np.corrcoef(x[y == 0.0].T)[0, 1] == pytest.approx(overview.CORRELATION, abs=0.01)
    plain = overview.judge(x @ overview.climb(x, y, np.random.default_rng(2)), y)
    assert best[0] > plain[0] > best[0] - 0.02


def test_the_clip_of_the_program_bounds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise, fits of the overview's clip and of one a thousand times as long are the same."""
    x, y = overview.bodies(np.random.default_rng(3), 4_900)
    fits = {}
    for clip in (51.05, 51_050.0, 5.105):
        monkeypatch.setattr(overview, "CLIP", clip)
        fits[clip] = overview.climb(x, y, np.random.default_rng(4), sigma=0.05 * 51.05 / clip)
    np.testing.assert_allclose(fits[51.05], fits[51_050.0], rtol=1e-9)
    assert np.abs(fits[51.05] - fits[5.105]).max() > 1e-4


def test_of_dpsgd_as_written_little_privacy_is_left() -> None:
    (_, written, printed), (_, *high) = (overview.promised(sigma, delta) for sigma, delta in overview.PRIVACY)
    assert written == math.inf  # above 1000
    assert printed > 100.0
    assert high[0] > 100.0 > 8.09 > high[1]


@pytest.mark.parametrize("far", [(54.0, 80.0, 80.0, 270.0), (-1e9, 0.0, 1e9, 1e9)])
def test_a_person_moves_a_central_step_by_two_over_n_at_most(
    monkeypatch: pytest.MonkeyPatch, far: tuple[float, ...]
) -> None:
    monkeypatch.setattr(overview, "CENTRAL_STEPS", 1)
    x, y = overview.bodies(np.random.default_rng(5), 50)
    half, slopes = (overview.HIGH - overview.LOW) / 2.0, []
    for person, answer in ((far[:2], 1.0), (far[2:], 1.0)):
        x[0], y[0] = person, answer
        fitted = overview.descend_centrally(x, y, np.random.default_rng(6), mu=math.inf)
        slopes.append(fitted * half / overview.CENTRAL_LENGTH)
    moved = float(np.linalg.norm(slopes[0] - slopes[1]))
    assert 0.5 * 2.0 / 50 < moved <= 2.0 / 50


def test_people_who_answer_locally_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "LOCAL_STEPS", 4)
    x, y = overview.bodies(np.random.default_rng(7), 60)
    asked = []
    report = overview.GradientDescent

    class Counted(report):  # type: ignore[misc, valid-type]
        def step(self, reports: list[overview.Reports]) -> None:
            asked.extend(len(one) for one in reports)
            super().step(reports)

    monkeypatch.setattr(overview, "GradientDescent", Counted)
    assert overview.descend_locally(x, y, np.random.default_rng(8), epsilon=1.0).shape == (2,)
    assert (len(asked), sum(asked)) == (8, 60)
