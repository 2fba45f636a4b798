"""The sampler: its range, its exact decisions, and that nothing can be seeded."""

import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from curator_service.privacy import samplers
from curator_service.privacy.samplers import SIGMA_MAX, SIGMA_MIN, LazyUniform, SystemNoise, propose


@pytest.mark.parametrize("sigma", [0, SIGMA_MAX + 1, -SIGMA_MIN, 2**60, -1])
def test_a_scale_out_of_range_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="sigma must be"):
        SystemNoise().sample_discrete_gaussian([SIGMA_MIN, sigma])


def test_a_scale_that_is_not_an_integer_is_refused() -> None:
    with pytest.raises(TypeError):
        SystemNoise().sample_discrete_gaussian([SIGMA_MIN + 0.5])  # type: ignore[list-item]


@pytest.mark.parametrize("sigma", [1, SIGMA_MIN, SIGMA_MAX])
def test_the_ends_of_the_range_give_integers(sigma: int) -> None:
    draws = SystemNoise().sample_discrete_gaussian([sigma] * 5)
    assert len(draws) == 5
    assert all(type(draw) is int for draw in draws)
    assert max(map(abs, draws)) < 60 * sigma  # beyond it with probability below 1e-780


def test_no_draw_is_asked_for_and_none_comes() -> None:
    assert SystemNoise().sample_discrete_gaussian([]) == []


def test_each_scale_gets_its_own_draw_in_order() -> None:
    sigmas = [2**10, 2**40, 2**53, 1] * 50
    sizes = np.abs(SystemNoise().sample_discrete_gaussian(sigmas)) / np.array(sigmas)
    assert sizes.max() < 12  # beyond it with probability below 1e-30
    assert np.median(sizes[1::4]) > 0.1  # so small for 50 draws with probability below 1e-20


def test_many_draws_cross_the_chunks() -> None:
    assert len(SystemNoise().sample_discrete_gaussian([2**20] * (samplers._CHUNK + 3))) == samplers._CHUNK + 3


def test_nothing_can_be_seeded() -> None:
    assert list(inspect.signature(SystemNoise).parameters) == []
    assert list(inspect.signature(SystemNoise.sample_discrete_gaussian).parameters) == ["self", "sigmas"]


def test_every_random_bit_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(count: int) -> bytes:
        return np.random.default_rng(7).bytes(count)

    monkeypatch.setattr(os, "urandom", repeat)
    first, second = (SystemNoise().sample_discrete_gaussian([2**40] * 20) for _ in range(2))
    assert first == second


def test_two_calls_never_repeat_their_draws() -> None:
    noise = SystemNoise()
    first, second = (noise.sample_discrete_gaussian([2**40] * 50) for _ in range(2))
    assert not set(first) & set(second)  # a false alarm has probability below 1e-8


def test_threads_that_share_a_source_draw_apart() -> None:
    noise = SystemNoise()
    with ThreadPoolExecutor(16) as pool:
        draws = list(pool.map(lambda _: tuple(noise.sample_discrete_gaussian([2**45 + 1] * 20)), range(64)))
    flat = [draw for batch in draws for draw in batch]
    assert len(set(flat)) == len(flat) == 64 * 20  # a false alarm has probability below 1e-7


@pytest.mark.parametrize("sigma", [1, 2, 7, 1024, 2**37 + 5, SIGMA_MAX])
def test_the_float_decides_as_exact_rationals_do(sigma: int) -> None:
    words = np.random.default_rng(sigma).integers(0, 2**64, size=(3, 2000), dtype=np.uint64)
    scales = np.full(2000, sigma)
    value, kept = propose(scales, words)
    exact_value, exact_kept = propose(scales, words, exactly=True)
    assert (kept == exact_kept).all()
    assert (value[kept] == exact_value[kept]).all()


def test_a_coin_beside_its_chance_is_decided_exactly() -> None:
    # Words around the chance of each trial itself: the float cannot tell, the exact path must.
    sigma = 2**40 + 3
    rng = np.random.default_rng(5)
    words = rng.integers(0, 2**64, size=(3, 200), dtype=np.uint64)
    words[0] %= np.uint64(sigma)
    offsets = [int(word) for word in words[0]]
    steps = [sum(int(word) < int(t) for t in samplers._EXP_WORDS) for word in words[1]]
    expected, sure = [], []
    with mpmath.workdps(60):
        for i, (offset, step) in enumerate(zip(offsets, steps, strict=True)):
            ratio = mpmath.mpf(offset) / sigma
            chance = mpmath.exp(-(ratio + (ratio + step - 1) ** 2 / 2)) * 2**64
            shift = int(rng.integers(2, 2000)) * (1 if i % 2 else -1)
            word = min(max(int(mpmath.floor(chance)) + shift, 0), 2**64 - 1)
            words[2, i] = word
            expected.append(bool(word < chance))
            sure.append(bool(2000 < chance < 2**64 - 2000))  # elsewhere the word is cut, and further bits decide
    _, kept = propose(np.full(200, sigma), words)
    assert sum(sure) > 150
    assert kept[sure].tolist() == np.array(expected)[sure].tolist()


def test_the_thresholds_are_the_floors_of_scaled_exponentials() -> None:
    with mpmath.workdps(100):
        floors = [int(mpmath.floor(mpmath.exp(-v) * mpmath.mpf(2) ** 64)) for v in range(44, 0, -1)]
        assert mpmath.exp(-45) * mpmath.mpf(2) ** 64 < 1
    assert [int(word) for word in samplers._EXP_WORDS] == floors


def test_minus_zero_is_rejected_and_plus_zero_is_kept() -> None:
    # U = 0, V = 0 and a coin of 0: m = 0, kept with either sign but for the rule.
    top = np.uint64(1) << np.uint64(63)
    words = np.array([[0, top], [2**64 - 1, 2**64 - 1], [1, 1]], dtype=np.uint64)
    value, kept = propose(np.full(2, 1024), words)
    assert value.tolist() == [0, 0]
    assert kept.tolist() == [True, False]


def test_a_lazy_uniform_asks_for_bits_only_while_it_must() -> None:
    asked: list[int] = []

    def more() -> int:
        asked.append(1)
        return 2**64 - 1

    with mpmath.workdps(100):
        beside = int(mpmath.floor(mpmath.exp(mpmath.mpf(-1) / 3) * mpmath.mpf(2) ** 64))
    assert LazyUniform(beside - 5, more).is_below_exp(Fraction(1, 3))
    assert not LazyUniform(beside + 5, more).is_below_exp(Fraction(1, 3))
    assert asked == []
    # exp(-1/3) 2^64 has a fraction below 1: the further bits, all ones, lie above it.
    assert not LazyUniform(beside, more).is_below_exp(Fraction(1, 3))
    assert len(asked) == 1


def test_every_uniform_is_below_one() -> None:
    assert LazyUniform(2**64 - 1).is_below_exp(Fraction(0))
