"""The sampler's door: its range, and that nothing can be seeded."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest

from curator_service.privacy.samplers import SIGMA_MAX, SIGMA_MIN, OpenDpNoise


@pytest.mark.parametrize("sigma", [0, 1, SIGMA_MIN - 1, SIGMA_MAX + 1, -SIGMA_MIN, 2**60])
def test_a_scale_out_of_range_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="sigma must be"):
        OpenDpNoise().sample_discrete_gaussian(sigma, 1)


def test_a_scale_that_is_not_an_integer_is_refused() -> None:
    with pytest.raises((ValueError, TypeError)):
        OpenDpNoise().sample_discrete_gaussian(SIGMA_MIN + 0.5, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [SIGMA_MIN, SIGMA_MAX])
def test_the_ends_of_the_range_give_integers(sigma: int) -> None:
    draws = OpenDpNoise().sample_discrete_gaussian(sigma, 5)
    assert len(draws) == 5
    assert all(type(draw) is int for draw in draws)
    assert max(map(abs, draws)) < 60 * sigma  # beyond it with probability below 1e-780


def test_no_draw_is_asked_for_and_none_comes() -> None:
    assert OpenDpNoise().sample_discrete_gaussian(SIGMA_MIN, 0) == []


def test_nothing_can_be_seeded() -> None:
    assert list(inspect.signature(OpenDpNoise).parameters) == []
    assert list(inspect.signature(OpenDpNoise.sample_discrete_gaussian).parameters) == ["self", "sigma", "size"]


def test_two_calls_never_repeat_their_draws() -> None:
    noise = OpenDpNoise()
    first, second = (noise.sample_discrete_gaussian(2**40, 50) for _ in range(2))
    assert not set(first) & set(second)  # a false alarm has probability below 1e-8


def test_threads_that_share_a_scale_draw_apart() -> None:
    noise = OpenDpNoise()
    with ThreadPoolExecutor(16) as pool:
        draws = list(pool.map(lambda _: tuple(noise.sample_discrete_gaussian(2**45 + 1, 20)), range(64)))
    flat = [draw for batch in draws for draw in batch]
    assert len(set(flat)) == len(flat) == 64 * 20  # a false alarm has probability below 1e-7
