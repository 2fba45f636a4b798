"""Games with few outcomes: exact chances, and what is held against them."""

import math
from collections.abc import Hashable

import numpy as np
import pytest

from audit.chances import Chances, check_chances, judge, separation
from audit.evidence import success_bound_of_epsilon
from audit.local import LOCAL
from audit.sessions import SESSIONS, Game

SCALES = {1: (0.8, 0.8), 2: (1.1, 1.7)}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_transcript_has_the_chance_of_a_sum_over_a_fine_lattice(name: str) -> None:
    """Of discrete Laplace noise in parts of a row, as the service draws it."""
    game, parts = SESSIONS[name], 200
    threshold, question = SCALES[game.sessions[0].opening["positives"]]
    at = np.arange(-40 * parts, 40 * parts + 1)
    rho, nu = (np.exp(-np.abs(at) / (scale * parts)) for scale in (threshold, question))
    tail = np.append(np.cumsum(nu[::-1])[::-1] / nu.sum(), 0.0)
    session, rows = game.sessions[0], game.cell.datasets[1][: 1 + (game.cell.rows_per_person or 1)]
    chances = session.reckon(game.cell, (threshold, question))
    for side in (0, 1):
        assert sum(both[side] for both in chances.values()) == pytest.approx(1.0, abs=1e-9)
    for answers, (_, chance) in chances.items():
        given = rho / rho.sum()
        for i, answer in enumerate(answers):
            asked = session.next(answers[:i])
            assert asked is not None
            yes = tail[np.clip(at - round(asked.level(rows) * parts) + 40 * parts, 0, len(at))]
            given = given * (yes if answer else 1 - yes)
        assert chance == pytest.approx(given.sum(), rel=0.02, abs=1e-5)


@pytest.mark.parametrize("name", LOCAL)
def test_the_law_of_a_report_is_one_of_its_epsilon(name: str) -> None:
    chances = LOCAL[name].reckon(1.0)
    assert separation(chances) == pytest.approx(1.0, abs=1e-9)
    for side in (0, 1):
        assert sum(both[side] for both in chances.values()) == pytest.approx(1.0)


def draw(chances: Chances, coins: np.ndarray, rng: np.random.Generator) -> list[Hashable]:
    names = [*chances]
    shares = np.array([*chances.values()])
    places = [rng.choice(len(names), p=shares[:, coin] / shares[:, coin].sum()) for coin in coins]
    return [names[place] for place in places]


@pytest.mark.parametrize("factor", [1.0, 0.5, 2**-0.5])
def test_noise_of_another_scale_is_found_as_often_as_is_stated(factor: float) -> None:
    game: Game = SESSIONS["a session, add_remove"]

    def reckon(narrower: float) -> Chances:
        return game.reckon([(0.8 * narrower, 0.8 * narrower)])

    rng = np.random.default_rng(11)
    coins = rng.integers(0, 2, 3000).astype(np.uint8)
    found = draw(reckon(factor), coins, rng)
    test, breaches = judge(2.5, reckon, found, coins), [*check_chances(reckon, found, coins)]
    assert test.bound == success_bound_of_epsilon(2.5)
    assert test.power_halved > 0.999
    assert bool(breaches) is (factor < 1)
    assert test.passed or factor < 1


def test_an_outcome_that_has_no_chance_is_found() -> None:
    coins = np.array([0, 1], dtype=np.uint8)
    assert [*check_chances(lambda _: {"a": (0.5, 0.5), "b": (0.5, 0.5)}, ["a", "c"], coins)]
    assert math.isclose(separation({"a": (0.2, 0.8), "b": (0.8, 0.2)}), math.log(4))
