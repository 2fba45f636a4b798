"""Caches end where memory would: by bytes, and without long texts."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from curator_service.kit.caches import SHORT, SizedCache, cache_short
from curator_service.privacy.design import DESIGNS_BYTES, Column, ColumnType, bytes_of_design, make_design


def make(made: list[str], key: str, size: int) -> tuple[str, Callable[[], bytes], Callable[[bytes], int]]:
    def value() -> bytes:
        made.append(key)
        return bytes(size)

    return key, value, len


def test_what_was_used_last_is_held_within_the_bytes() -> None:
    cache: SizedCache[bytes] = SizedCache(100)
    made: list[str] = []
    for key in "abab":
        assert len(cache.get(*make(made, key, 40))) == 40
    assert made == ["a", "b"]
    cache.get(*make(made, "c", 40))  # "a" was used before "b"
    cache.get(*make(made, "b", 40))
    cache.get(*make(made, "a", 40))
    assert made == ["a", "b", "c", "a"]
    assert sum(size for _, size in cache._held.values()) == cache._size <= 100


def test_what_is_larger_than_all_is_made_and_not_held() -> None:
    cache: SizedCache[bytes] = SizedCache(100)
    made: list[str] = []
    cache.get(*make(made, "small", 60))
    for _ in range(2):
        assert len(cache.get(*make(made, "large", 101))) == 101
    cache.get(*make(made, "small", 60))
    assert made == ["small", "large", "large"]


def test_threads_share_one_and_count_it_once() -> None:
    cache: SizedCache[bytes] = SizedCache(1000)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: len(cache.get(i % 5, lambda: bytes(90), len)), range(500)))
    assert set(found) == {90}
    assert cache._size == sum(size for _, size in cache._held.values()) == 450


def test_designs_of_long_requests_are_remembered_within_bytes() -> None:
    """Who asks for a thousand terms again and again, each time for others, makes no memory of it."""
    target = Column("y", ColumnType.NUMERIC, lower=-1.0, upper=1.0)
    made = []
    for k in range(40):
        columns = tuple(Column(f"x{k}.{i}", ColumnType.NUMERIC, lower=-1.0, upper=1.0) for i in range(1000))
        made.append(make_design(columns, (target,), intercept=True))
    assert 40 * bytes_of_design(made[0]) > DESIGNS_BYTES >= make_design.results._size > 0
    assert make_design(columns, (target,), intercept=True) is made[-1]


@pytest.mark.parametrize("kind", [str, bytes])
def test_long_texts_are_not_remembered(kind: type[str] | type[bytes]) -> None:
    calls: list[int] = []

    @cache_short(maxsize=8)
    def length(text: str | bytes) -> int:
        calls.append(sys.getsizeof(text))
        return len(text)

    short, long = ("x" * n if kind is str else b"x" * n for n in (SHORT, SHORT + 1))
    for _ in range(3):
        assert (length(short), length(long)) == (SHORT, SHORT + 1)
    assert len(calls) == 1 + 3
