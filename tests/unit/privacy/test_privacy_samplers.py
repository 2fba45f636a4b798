"""The sampler: its law read off the code in exact arithmetic, its decisions, and that nothing can be seeded."""

import inspect
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy import samplers
from curator_service.privacy.samplers import (
    BINS_PER_SCALE,
    SCALE_MAX,
    SCALE_MIN,
    Distribution,
    LazyUniform,
    SystemNoise,
    propose,
)

GAUSSIAN, LAPLACE = Distribution.DISCRETE_GAUSSIAN, Distribution.DISCRETE_LAPLACE
BOTH = pytest.mark.parametrize("distribution", [GAUSSIAN, LAPLACE], ids=str)

TABLE = 2**16
SIGN = 2**16
COIN_SHIFT, COIN_BITS = 17, 47
LAST_PLACE = 2**64 - 1
"""A word of the place that Lemire's rule keeps, for any width: it stands for the last place."""


# --- what goes in and comes out -------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("scale", [0, SCALE_MAX + 1, -SCALE_MIN, 2**60, 2**64, -1])
def test_a_scale_out_of_range_is_refused(distribution: Distribution, scale: int) -> None:
    with pytest.raises((ValueError, TypeError), match=r"a scale must be an integer from 1 to 2\*\*53"):
        SystemNoise().sample(distribution, [SCALE_MIN, scale])


@BOTH
@pytest.mark.parametrize("scale", [SCALE_MIN + 0.5, float(SCALE_MIN), "1024", None, Fraction(2048)])
def test_a_scale_that_is_not_an_integer_is_refused(distribution: Distribution, scale: Any) -> None:
    with pytest.raises(TypeError):
        SystemNoise().sample(distribution, [scale])


@BOTH
@pytest.mark.parametrize("scale", [1, SCALE_MIN, SCALE_MAX])
def test_the_ends_of_the_range_give_integers(distribution: Distribution, scale: int) -> None:
    draws = SystemNoise().sample(distribution, [scale] * 5)
    assert len(draws) == 5
    assert draws.dtype == np.int64
    assert max(map(abs, draws)) < 60 * scale  # beyond it with probability below 1e-24


@BOTH
def test_no_draw_is_asked_for_and_none_comes(distribution: Distribution) -> None:
    assert SystemNoise().sample(distribution, []).size == 0


@BOTH
def test_each_scale_gets_its_own_draw_in_order(distribution: Distribution) -> None:
    scales = [2**10, 2**40, 2**53, 1] * 50
    sizes = np.abs(SystemNoise().sample(distribution, scales)) / np.array(scales)
    assert sizes.max() < 40  # beyond it with probability below 1e-14
    assert np.median(sizes[1::4]) > 0.05  # so small for 50 draws with probability below 1e-20
    assert np.median(sizes[0::4]) > 0.05


@BOTH
def test_many_draws_cross_the_chunks(distribution: Distribution) -> None:
    scales = [2**20] * samplers._CHUNK + [2**50] * 3
    draws = SystemNoise().sample(distribution, scales)
    assert len(draws) == len(scales)
    assert max(map(abs, draws[-3:])) > 2**25  # otherwise with probability below 1e-20


# --- randomness -----------------------------------------------------------------------------------------------------


def test_nothing_can_be_seeded() -> None:
    assert list(inspect.signature(SystemNoise).parameters) == []
    assert list(inspect.signature(SystemNoise.sample).parameters) == ["self", "distribution", "scales"]


@BOTH
def test_every_random_bit_comes_from_the_operating_system(
    distribution: Distribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source() -> Callable[[int], bytes]:
        return np.random.default_rng(7).bytes

    scales = [2**40] * 2000 + [3] * 2000  # tails and rejected trials among them
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(os, "urandom", source())
        drawn.append(SystemNoise().sample(distribution, scales).tolist())
    assert drawn[0] == drawn[1]


@BOTH
def test_every_draw_has_bits_of_its_own(distribution: Distribution, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    urandom = os.urandom

    def counting(count: int) -> bytes:
        taken.append(count)
        return urandom(count)

    monkeypatch.setattr(os, "urandom", counting)
    noise = SystemNoise()
    for size in (1, 21, 999, 1000, samplers._CHUNK + 1):
        taken.clear()
        noise.sample(distribution, [2**40] * size)
        assert sum(taken) >= 16 * size


@BOTH
def test_two_calls_never_repeat_their_draws(distribution: Distribution) -> None:
    noise = SystemNoise()
    first, second = (noise.sample(distribution, [2**40] * 50) for _ in range(2))
    assert len(set(first) | set(second)) == 100  # a false alarm has probability below 1e-8


@BOTH
def test_threads_that_share_a_source_draw_apart(distribution: Distribution) -> None:
    noise = SystemNoise()
    with ThreadPoolExecutor(16) as pool:
        draws = list(pool.map(lambda _: tuple(noise.sample(distribution, [2**45 + 1] * 20)), range(64)))
    flat = [draw for batch in draws for draw in batch]
    assert len(set(flat)) == len(flat) == 64 * 20  # a false alarm has probability below 1e-7


FORKING = """
import os
from curator_service.privacy.samplers import Distribution, SystemNoise
noise = SystemNoise()
draw = lambda: [noise.sample(d, [2**45 + 1] * 20).tolist() for d in Distribution]
draw()
child = os.fork()
drawn = draw()
status = os.waitpid(child, 0)[1] if child else 0
print(*drawn[0], *drawn[1], flush=True)
os._exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_shares_no_draw_with_its_parent() -> None:
    # In a process of its own: this one may have threads.
    text = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True).stdout
    draws = text.split()
    assert len(draws) == len(set(draws)) == 80  # a false alarm has probability below 1e-9


# --- the exact law --------------------------------------------------------------------------------------------------


def chance_at(ratio: Fraction, gamma: Fraction) -> Any:
    """Return ratio · exp(−γ) with 50 digits."""
    with mpmath.workdps(50):
        decay = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)
        return decay * ratio.numerator / ratio.denominator


def gamma_of(distribution: Distribution, scale: int, m: int) -> Fraction:
    """Return γ(m) of the stated law."""
    return Fraction(m * m, 2 * scale * scale) if distribution is GAUSSIAN else Fraction(abs(m), scale)


@dataclass
class Recorder:
    """Takes the place of `LazyUniform`: keeps every trial, and remembers with what chance it should be kept."""

    chances: list[tuple[Fraction, Fraction]] = field(default_factory=list)

    def __call__(self, value: int, bits: int) -> "Recorder":
        assert bits == COIN_BITS
        assert 0 <= value < 2**COIN_BITS
        return self

    def is_below(self, ratio: Fraction, gamma: Fraction) -> bool:
        self.chances.append((Fraction(ratio), Fraction(gamma)))
        return True


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(samplers, "LazyUniform", made)
    return made


def words_of(places: np.ndarray[Any, Any], words: list[int], *, sign: int = 0, coin: int = 1) -> Any:
    """Pack random bits: places of the table, a sign and a coin; and words of the place within the bin."""
    packed = places.astype(np.uint64) | np.uint64(sign << 16) | np.uint64(coin << COIN_SHIFT)
    return np.stack([packed, np.array(words, dtype=np.uint64)])


def places_within(width: int) -> Iterator[tuple[int, int]]:
    """Give, for each place of a bin, a word that is kept for it and how many of the 2^64 words are."""
    for place in range(width):
        first, end = (-(-(p << 64) // width) for p in (place, place + 1))
        word = np.array([first, first + 1, end - 1], dtype=np.uint64)
        got, even = samplers._multiply(np.full(3, width, dtype=np.uint64), word)
        assert got.tolist() == [place] * 3
        # Only the first word of a place can be rejected: each word moves the low product by the width.
        assert even.tolist()[1:] == [True, True]
        yield first + 1, end - first - (not even[0])


def body_law(distribution: Distribution, scale: int, recorder: Recorder) -> dict[int, tuple[Fraction, Fraction]]:
    """Return, per integer, its γ and the probability of keeping it in one trial over exp(−γ), read off `propose`."""
    law = samplers._LAWS[distribution]
    width = -(-scale // BINS_PER_SCALE)
    first_place = np.searchsorted(law.bins, np.arange(law.bin_count))
    count_of = np.bincount(law.bins, minlength=law.bin_count + 1).tolist()
    masses: dict[int, tuple[Fraction, Fraction]] = {}
    for word, count in places_within(width):
        for sign in (0, 1):
            recorder.chances.clear()
            words = words_of(first_place, [word] * law.bin_count, sign=sign)
            value, kept = propose(distribution, np.full(law.bin_count, scale), words, exactly=True)
            for k, (v, (ratio, gamma)) in enumerate(zip(value.tolist(), recorder.chances, strict=True)):
                assert bool(kept[k]) == (v != 0 or sign == 0)
                if not kept[k]:
                    continue
                assert v not in masses
                assert chance_at(ratio, gamma) <= 1
                masses[v] = gamma, Fraction(count_of[k], TABLE) * Fraction(count, 2**64) / 2 * ratio
    return masses


def tail_law(
    distribution: Distribution, scale: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> dict[int, tuple[Fraction, Fraction]]:
    """Return the same for the tail's first blocks, its random bits and places enumerated."""
    law = samplers._LAWS[distribution]
    bits: list[int] = []
    place = 0
    monkeypatch.setattr(samplers, "_random_words", lambda count: np.array([bits.pop(0)], dtype=np.uint64))
    monkeypatch.setattr(samplers, "_random_below", lambda bound: place if bound == scale else 1 / 0)
    width = -(-scale // BINS_PER_SCALE)
    # A word that stands for no place rejects a trial in a bin. What it does to the tail must be the same.
    rejected = 2**64 % width > 0 and not propose(distribution, np.array([scale]), words_of(np.array([0]), [0]))[1][0]
    tail = np.array([TABLE - 1])
    kept_words = 2**64
    if rejected:
        bits[:] = [0]
        if not propose(distribution, np.array([scale]), words_of(tail, [0]), exactly=True)[1][0]:
            kept_words -= 2**64 % width
    tail_count = int((law.bins == law.bin_count).sum())
    masses: dict[int, tuple[Fraction, Fraction]] = {}
    for block in range(blocks):
        for place in range(scale):  # noqa: B007
            for sign in (0, 1):
                recorder.chances.clear()
                bits[:] = [2**64 - 1] * block + [2**64 - 2]
                value, kept = propose(distribution, np.array([scale]), words_of(tail, [LAST_PLACE], sign=sign))
                assert kept[0]
                assert bits == []
                ((ratio, gamma),) = recorder.chances
                assert chance_at(ratio, gamma) <= 1
                chance = Fraction(tail_count, TABLE) / 2 ** (block + 1) / scale / 2 * Fraction(kept_words, 2**64)
                assert int(value[0]) not in masses
                masses[int(value[0])] = gamma, chance * ratio
    return masses


@BOTH
@pytest.mark.parametrize("scale", [1, 2, 3, 5, 7, 8, 9, 16, 17, 25, 34])
def test_the_law_of_the_code_is_exactly_the_stated_one(
    distribution: Distribution, scale: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    masses = body_law(distribution, scale, recorder)
    body = max(masses)
    masses |= tail_law(distribution, scale, recorder, monkeypatch, blocks=6)
    # Every integer once, from the body through the tail.
    assert sorted(masses) == list(range(-max(masses), max(masses) + 1))
    assert max(masses) == body + 6 * scale
    assert all(gamma == gamma_of(distribution, scale, m) for m, (gamma, _) in masses.items())
    # P(m)/exp(−γ(m)) is one rational number for all m: the law is exact, not near.
    assert len({factor for _, factor in masses.values()}) == 1


@BOTH
@pytest.mark.parametrize("scale", [1, 2, 3, 5, 8, 17])
def test_the_law_of_the_code_adds_up_to_the_target(
    distribution: Distribution, scale: int, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    masses = body_law(distribution, scale, recorder) | tail_law(distribution, scale, recorder, monkeypatch, blocks=4)
    with mpmath.workdps(40):

        def number(value: Fraction) -> Any:
            return mpmath.mpf(value.numerator) / value.denominator

        kept = {m: number(factor) * mpmath.exp(-number(gamma)) for m, (gamma, factor) in masses.items()}
        factor = number(masses[0][1])
        # Later blocks have the same factor, by the formula of their ratio.
        beyond = range(max(masses) + 1, max(masses) + 400 * scale)
        rest = 2 * mpmath.fsum(factor * mpmath.exp(-number(gamma_of(distribution, scale, m))) for m in beyond)
        total = mpmath.fsum(kept.values()) + rest
        everything = range(1, max(masses) + 400 * scale)
        weights = 1 + 2 * mpmath.fsum(mpmath.exp(-number(gamma_of(distribution, scale, m))) for m in everything)
        for m, chance in kept.items():
            target = mpmath.exp(-number(gamma_of(distribution, scale, m))) / weights
            assert abs(chance / total / target - 1) < 1e-15
        assert total < 1


@BOTH
@pytest.mark.parametrize("width", [3, 5, 2**20 + 1, 2**34 + 3, 2**64 // 16385 + 1])
def test_a_word_that_stands_for_no_place_rejects_every_trial(distribution: Distribution, width: int) -> None:
    # Lemire's rule rejects the word 0 here. If it rejected trials in bins and not in the tail, the tail would be too
    # likely, by up to 2^-14 in proportion at the largest widths.
    law = samplers._LAWS[distribution]
    first_place = np.searchsorted(law.bins, np.arange(law.bin_count + 1))
    for _ in range(20):
        words = words_of(first_place, [0] * len(first_place), coin=0)
        _, kept = propose(distribution, np.full(len(first_place), BINS_PER_SCALE * width), words)
        assert not kept.any()


def test_a_word_is_rejected_exactly_where_places_would_be_uneven() -> None:
    # All words of a smaller machine: with 2^8 in place of 2^64 the rule can be enumerated.
    for width in range(1, 256):
        kept = [word * width >> 8 for word in range(256) if word * width % 256 >= 256 % width]
        assert {kept.count(place) for place in range(width)} == {256 // width}


UINT64 = st.one_of(
    st.integers(0, 2**64 - 1),
    st.builds(lambda e, d: (2**e + d) % 2**64, st.integers(0, 64), st.integers(-2, 2)),
    st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 2**32, 2**64 - 1]),
)
WIDTHS = st.one_of(st.integers(1, 2**50), st.builds(lambda e, d: 2**e + d, st.integers(2, 49), st.integers(-2, 2)))


@given(st.lists(st.tuples(WIDTHS, UINT64), min_size=1, max_size=30))
def test_a_product_of_words_equals_python_integers(pairs: list[tuple[int, int]]) -> None:
    width, word = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    high, even = samplers._multiply(width, word)
    assert high.dtype == np.int64
    assert high.tolist() == [a * b >> 64 for a, b in pairs]
    assert even.tolist() == [a * b % 2**64 >= 2**64 % a for a, b in pairs]


def test_a_product_of_words_equals_python_integers_at_every_extreme() -> None:
    widths = [1, 2, 3, 2**32 - 1, 2**32, 2**32 + 1, 2**50 - 1, 2**50, *(2**64 // k + 1 for k in range(16385, 16400))]
    starts = {-(-(place << 64) // a) for a in widths for place in (0, 1, a // 2, a - 1)}
    words = sorted({(start + d) % 2**64 for start in starts for d in range(-2, 3)})
    pairs = [(a, b) for a in widths for b in words]
    width, word = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    high, even = samplers._multiply(width, word)
    assert high.tolist() == [a * b >> 64 for a, b in pairs]
    assert even.tolist() == [a * b % 2**64 >= 2**64 % a for a, b in pairs]


@given(st.integers(1, SCALE_MAX))
def test_a_number_below_a_bound_is_kept_where_its_place_is_even(bound: int) -> None:
    given_words = [0, 1, 2**64 - 1, -(-(1 << 64) // bound)]
    queue = [*given_words, 2**64 - 1]
    original = samplers._random_words
    samplers._random_words = lambda count: np.array([queue.pop(0)], dtype=np.uint64)
    try:
        got = samplers._random_below(bound)
    finally:
        samplers._random_words = original
    expected = next(w * bound >> 64 for w in given_words if w * bound % 2**64 >= 2**64 % bound)
    assert got == expected


# --- the table ------------------------------------------------------------------------------------------------------


@BOTH
def test_the_table_covers_its_places_and_bounds_every_chance(distribution: Distribution) -> None:
    law = samplers._LAWS[distribution]
    assert sum(law.counts) == len(law.bins) == TABLE
    assert np.bincount(law.bins).tolist() == list(law.counts)
    assert (np.diff(law.bins) >= 0).all()
    assert law.ratios.tolist() == [law.envelope / count for count in law.counts]
    assert not law.bins.flags.writeable
    assert not law.ratios.flags.writeable
    for k in range(law.bin_count + 1):
        need = chance_at(Fraction(law.envelope), gamma_of(distribution, BINS_PER_SCALE, k))
        assert law.counts[k] >= need * (2 * BINS_PER_SCALE if k == law.bin_count else 1)


@BOTH
def test_the_envelope_is_the_largest_that_fits(distribution: Distribution) -> None:
    law = samplers._LAWS[distribution]
    larger = Fraction(law.envelope + 1)
    needs = [chance_at(larger, gamma_of(distribution, BINS_PER_SCALE, k)) for k in range(law.bin_count + 1)]
    needs[-1] *= 2 * BINS_PER_SCALE
    assert sum(int(mpmath.ceil(need)) for need in needs) > TABLE


SCALES = st.one_of(st.integers(1, 200), st.integers(1, SCALE_MAX), st.integers(-9, 0).map(lambda d: SCALE_MAX + d))


@BOTH
@given(scale=SCALES, data=st.data())
def test_no_chance_is_above_one_and_no_decay_above_a_thousand(
    distribution: Distribution, scale: int, data: st.DataObject
) -> None:
    law = samplers._LAWS[distribution]
    width = -(-scale // BINS_PER_SCALE)
    k = data.draw(st.integers(0, law.bin_count - 1))
    place = data.draw(st.sampled_from([0, width - 1]))
    gamma = law.exact_decay(k * width + place, scale)
    assert gamma == gamma_of(distribution, scale, k * width + place)
    assert gamma < 1000
    assert chance_at(Fraction(law.envelope, law.counts[k]), gamma) <= 1
    block = data.draw(st.integers(0, 40))
    lowest = law.exact_decay(law.bin_count * width + block * scale, scale)
    assert chance_at(Fraction(law.envelope * scale * 2 ** (block + 1), law.counts[-1] * width), lowest) <= 1


@BOTH
def test_the_bits_of_a_word_are_used_once(distribution: Distribution) -> None:
    # 16 of the bin, 1 of the sign, 47 of the coin: flipping one changes nothing else.
    rng = np.random.default_rng(8)
    words = rng.integers(0, 2**64, size=(2, 500), dtype=np.uint64)
    scales = np.full(500, 2**30 + 1)
    body = samplers._LAWS[distribution].bins[words[0] % TABLE] < samplers._LAWS[distribution].bin_count
    value, kept = propose(distribution, scales, words)
    opposite, kept_too = propose(distribution, scales, words ^ np.array([[SIGN], [0]], dtype=np.uint64))
    assert (opposite == -value)[body].all()
    assert (kept == kept_too)[body].all()
    for bit in range(COIN_SHIFT, 64):
        other, _ = propose(distribution, scales, words ^ np.array([[1 << bit], [0]], dtype=np.uint64))
        assert (other == value)[body].all()
    # A coin of 0 is kept in every bin; one of all ones is not, but where the chance is 1 to the last bit.
    low, high = (words[0] % np.uint64(2**17) | np.uint64(coin << COIN_SHIFT) for coin in (0, 2**47 - 1))
    assert propose(distribution, scales, np.stack([low, words[1]]))[1][body].all()
    assert not propose(distribution, scales, np.stack([high, words[1]]))[1][body & (value != 0)].any()


def test_minus_zero_is_rejected_and_plus_zero_is_kept() -> None:
    for distribution in Distribution:
        for scale in (1, 2, 1024, SCALE_MAX):
            for exactly in (False, True):
                words = np.array([[0, SIGN], [1 << 32, 1 << 32]], dtype=np.uint64)
                value, kept = propose(distribution, np.full(2, min(scale, 2**31)), words, exactly=exactly)
                assert value.tolist() == [0, 0]
                assert kept.tolist() == [True, False]


# --- the coin -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("scale", [1, 2, 3, 7, 8, 9, 15, 1024, 1025, 2**37 + 5, SCALE_MAX - 7, SCALE_MAX])
def test_the_float_decides_as_exact_rationals_do(distribution: Distribution, scale: int) -> None:
    words = np.random.default_rng(scale).integers(0, 2**64, size=(2, 1000), dtype=np.uint64)
    law = samplers._LAWS[distribution]
    words = words[:, law.bins[words[0] % TABLE] < law.bin_count]  # the tail draws bits of its own
    scales = np.full(words.shape[1], scale)
    value, kept = propose(distribution, scales, words)
    exact_value, exact_kept = propose(distribution, scales, words, exactly=True)
    assert (kept == exact_kept).all()
    assert (value == exact_value).all()
    assert kept.any()


@BOTH
@pytest.mark.parametrize("scale", [3, 1000, 2**40 + 3, SCALE_MAX - 1])
def test_a_coin_beside_its_chance_is_decided_exactly(
    distribution: Distribution, scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Coins around the chance of each trial itself: the float cannot tell, the exact path must.
    asked: list[int] = []

    class Watched(LazyUniform):
        def __init__(self, value: int, bits: int) -> None:
            asked.append(value)
            super().__init__(value, bits)

    monkeypatch.setattr(samplers, "LazyUniform", Watched)
    law = samplers._LAWS[distribution]
    rng = np.random.default_rng(5)
    words = rng.integers(0, 2**64, size=(2, 300), dtype=np.uint64)
    words = words[:, law.bins[words[0] % TABLE] < law.bin_count]
    scales = np.full(words.shape[1], scale)
    value, _ = propose(distribution, scales, words)
    which = law.bins[words[0] % TABLE]
    expected, chosen = [], []
    asked.clear()
    with mpmath.workdps(60):
        for i in range(words.shape[1]):
            ratio = Fraction(law.envelope, law.counts[which[i]])
            middle = int(mpmath.floor(chance_at(ratio, gamma_of(distribution, scale, int(value[i]))) * 2**COIN_BITS))
            shift = int(rng.integers(1, 500)) * (1 if i % 2 else -1)
            if not 2**46 < middle + shift < 2**COIN_BITS - 1:
                continue
            words[0, i] = int(words[0, i]) % 2**COIN_SHIFT | (middle + shift) << COIN_SHIFT
            expected.append(shift < 0 and not (value[i] == 0 and int(words[0, i]) & SIGN))
            chosen.append(i)
    assert len(chosen) > 200 or scale == 3
    _, kept = propose(distribution, scales[chosen], words[:, chosen])
    assert len(asked) == len(chosen)  # the float left all of them to exact arithmetic
    assert kept.tolist() == expected


@BOTH
def test_the_error_of_the_float_is_far_below_its_margin(distribution: Distribution) -> None:
    law = samplers._LAWS[distribution]
    rng = np.random.default_rng(6)
    scales = [1, 2, 3, 9, 1023, 2**31 - 1, 2**53 - 9, 2**53 - 1, 2**53, *rng.integers(1, 2**53, size=11).tolist()]
    worst = 0.0
    for scale in scales:
        width = -(-scale // BINS_PER_SCALE)
        values = [int(k) * width + int(rng.integers(0, width)) for k in rng.integers(0, law.bin_count, size=40)]
        values.append(law.bin_count * width - 1)  # the largest γ
        floats = np.exp(-law.decay(np.array(values, dtype=np.int64) / np.full(len(values), scale)))
        with mpmath.workdps(60):
            for value, got in zip(values, floats.tolist(), strict=True):
                gamma = gamma_of(distribution, scale, value)
                if gamma < 700:  # below it the exponential is a normal number
                    exact = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator)
                    worst = max(worst, float(abs(got / exact - 1)))
    assert worst < 2.0**-40


def test_where_the_exponential_underflows_a_coin_of_zero_is_not_decided_by_the_float(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # σ = 1: m = 39 has γ = 760.5, and float64 knows no such small number.
    law = samplers._LAWS[GAUSSIAN]
    place = np.searchsorted(law.bins, [39, 39])
    words = words_of(place, [1, 1], coin=0)
    words[0, 1] |= np.uint64(1 << COIN_SHIFT)
    asked: list[int] = []

    class Yes:
        def __init__(self, value: int, bits: int) -> None:
            asked.append(value)

        def is_below(self, ratio: Fraction, gamma: Fraction) -> bool:
            assert gamma == Fraction(1521, 2)
            return True

    monkeypatch.setattr(samplers, "LazyUniform", Yes)
    value, kept = propose(GAUSSIAN, np.full(2, 1), words)
    assert value.tolist() == [39, 39]
    assert asked == [0]
    assert kept.tolist() == [True, False]


RATIOS = st.fractions(min_value=Fraction(1, 1000), max_value=16)
GAMMAS = st.one_of(
    st.fractions(min_value=0, max_value=1100, max_denominator=10**6),
    st.builds(lambda m, s: Fraction(m * m, 2 * s * s), st.integers(0, 2**54), st.integers(2**50, 2**53)),
)


@given(RATIOS, GAMMAS, st.sampled_from([47, 64, 111, 175, 303]))
def test_the_scaled_exponential_is_within_one(ratio: Fraction, gamma: Fraction, bits: int) -> None:
    with mpmath.workdps(1000):
        exact = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * ratio.numerator / ratio.denominator
        assert abs(samplers._floor_exp(ratio, gamma, bits) - int(mpmath.floor(exact * mpmath.mpf(2) ** bits))) <= 1


def test_a_lazy_uniform_asks_for_bits_only_while_it_must() -> None:
    asked: list[int] = []

    def more_of(word: int) -> Callable[[], int]:
        def more() -> int:
            asked.append(1)
            return word

        return more

    ratio, gamma = Fraction(7, 8), Fraction(1, 3)
    with mpmath.workdps(100):
        scaled = mpmath.mpf(7) / 8 * mpmath.exp(mpmath.mpf(-1) / 3) * mpmath.mpf(2) ** 47
        beside, after = int(mpmath.floor(scaled)), int(mpmath.floor((scaled - mpmath.floor(scaled)) * 2**64))
    assert LazyUniform(beside - 5, 47, more_of(0)).is_below(ratio, gamma)
    assert not LazyUniform(beside + 5, 47, more_of(0)).is_below(ratio, gamma)
    assert asked == []
    assert not LazyUniform(beside, 47, more_of(2**64 - 1)).is_below(ratio, gamma)
    assert len(asked) == 1
    assert LazyUniform(beside, 47, more_of(0)).is_below(ratio, gamma)
    # The next 64 bits beside their own threshold, too.
    assert LazyUniform(beside, 47, more_of(after - 3)).is_below(ratio, gamma)
    assert not LazyUniform(beside, 47, more_of(after + 3)).is_below(ratio, gamma)


def test_a_lazy_uniform_that_agrees_for_long_is_told_apart_in_the_end() -> None:
    with mpmath.workdps(200):
        scaled = mpmath.exp(mpmath.mpf(-1) / 3) * mpmath.mpf(2) ** (47 + 256)
        digits = int(mpmath.floor(scaled))
    for last, below in ((-10, True), (10, False)):
        number = digits + last
        words = [number >> 64 * k & 2**64 - 1 for k in (3, 2, 1, 0)]
        uniform = LazyUniform(number >> 256, 47, lambda words=words: words.pop(0))
        assert uniform.is_below(Fraction(1), Fraction(1, 3)) == below
        assert words == []


def test_every_uniform_is_below_one_and_none_below_nothing() -> None:
    assert LazyUniform(2**47 - 1, 47, lambda: 2**63).is_below(Fraction(1), Fraction(0))
    assert LazyUniform(2**47 - 3, 47).is_below(Fraction(1), Fraction(0))
    assert not LazyUniform(5, 47).is_below(Fraction(1), Fraction(1000))
    assert LazyUniform(2**47 - 1, 47).is_below(Fraction(3, 2), Fraction(0))


def test_gamma_grows_by_more_than_a_factor_of_two_from_block_to_block() -> None:
    for distribution in Distribution:
        law = samplers._LAWS[distribution]
        assert law.exact_decay(law.bin_count + 8, 8) - law.exact_decay(law.bin_count, 8) > math.log(2)
