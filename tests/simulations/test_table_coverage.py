"""Size of tests and coverage of sets of noisy tables: rows are drawn, noise is added, and rejections are counted.

Each rate of a seeded simulation lies within four standard errors of 5 %, and where a method is on the safe side, below.
"""

import math

import numpy as np
import pytest

from bench.tables import (
    Draws,
    misses_of_area,
    misses_of_effects,
    misses_of_proportions,
    misses_of_rates,
    misses_of_survival,
    size_of_tests,
)

pytestmark = pytest.mark.simulations

REPEATS = 1_500
WITHIN = 4.0 * math.sqrt(0.05 * 0.95 / REPEATS)
LAW = pytest.mark.parametrize("law", ["gaussian", "laplace"])


@pytest.fixture
def draws() -> Draws:
    return Draws(REPEATS, seed=20)


def check(found: dict[str, float], *names: str) -> None:
    assert {name: found[name] for name in names} == {name: pytest.approx(0.05, abs=WITHIN) for name in names}


@LAW
@pytest.mark.parametrize("shape", [(2, 2), (4, 5)])
def test_tests_have_their_size(draws: Draws, shape: tuple[int, int], law: str) -> None:
    found = size_of_tests(draws, 2_000, 15.0, law, shape)
    check(found, "independence", "trend", "fit")
    assert found["plain χ²"] > 0.08


@LAW
@pytest.mark.parametrize("sd", [0.0, 15.0])
def test_ratios_are_covered(draws: Draws, sd: float, law: str) -> None:
    check(misses_of_effects(draws, 2_000, sd, law, (0.1, 0.2)), "odds ratio", "risk ratio", "risk difference")


@pytest.mark.parametrize("sd", [40.0, 400.0])
def test_ratios_that_the_noise_hides_are_covered(draws: Draws, sd: float) -> None:
    assert max(misses_of_effects(draws, 300, sd, "gaussian", (0.1, 0.2)).values()) < 0.05 + WITHIN


def test_ratios_of_few_events_in_laplace_noise_are_covered() -> None:
    # The noise of two cells decides; by its variance alone 0.058 are missed, beyond three standard errors of 0.05.
    found = misses_of_effects(Draws(8_000, seed=1), 2_000, 40.0, "laplace", (0.02, 0.03))
    assert max(found.values()) < 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / 8_000)


def test_proportions_are_covered(draws: Draws) -> None:
    check(misses_of_proportions(draws, 2_000, 15.0, "gaussian", (0.6, 0.39, 0.01)), "all cells", "rarest cell")


def test_survival_is_covered(draws: Draws) -> None:
    found = misses_of_survival(draws, 10_000, 15.0, "gaussian", 10)
    check(found, "survival, early", "survival, middle", "survival, last", "log-rank")
    hidden = misses_of_survival(draws, 500, 15.0, "gaussian", 10)
    assert max(hidden["survival, early"], hidden["survival, last"], hidden["log-rank"]) < 0.05 + WITHIN
    assert hidden["hidden at the last"] > 0.9


def test_rates_are_covered(draws: Draws) -> None:
    check(misses_of_rates(draws, 2_000, 15.0, "gaussian", 0.15), "rate", "rate ratio")


def test_a_large_area_of_few_rows_is_covered() -> None:
    # 0.0605 of 120,000 are missed: few rows decide. By the variance at the estimate alone it is 0.077.
    (found,) = misses_of_area(Draws(20_000, seed=5), 500, 0.0, "gaussian", 2.5).values()
    assert found == pytest.approx(0.0605, abs=3.0 * math.sqrt(0.06 * 0.94 / 20_000))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_area_under_the_curve_is_covered(draws: Draws, shift: float) -> None:
    found = misses_of_area(draws, 2_000, 15.0, "gaussian", shift)
    check(found, *found)
    assert np.isfinite(list(found.values())).all()
