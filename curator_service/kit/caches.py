"""Caches that are bounded by what they hold, not by how many things they hold."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache, update_wrapper, wraps
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

V = TypeVar("V")
P = ParamSpec("P")

SHORT = 2**14


class SizedCache(Generic[V]):
    """The values that were used last, of at most so many bytes together; one that is larger is not kept."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._size = 0

    def get(self, key: Hashable, make: Callable[[], V], size_of: Callable[[V], int]) -> V:
        """Return the value of a key, made anew where it is not held; two threads may make one twice."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        value = make()
        size = size_of(value)
        if size <= self.bytes_max:
            with self._lock:
                if key not in self._held:
                    self._held[key] = value, size
                    self._size += size
                while self._size > self.bytes_max:
                    _, (_, released) = self._held.popitem(last=False)
                    self._size -= released
        return value


class Remembered(Generic[P, V]):
    """A function that remembers results of at most so many bytes together; see `cache_sized`.

    Parameters
    ----------
    function : callable
        Of arguments that can be hashed.
    size_of : callable
        The bytes of a result, with what it was made of.
    """

    def __init__(self, function: Callable[P, V], bytes_max: int, size_of: Callable[[V], int]) -> None:
        self._function, self._size_of = function, size_of
        self.results: SizedCache[V] = SizedCache(bytes_max)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> V:
        """Return the result, made anew where it is not held."""
        key = args, tuple(kwargs.items())
        return self.results.get(key, lambda: self._function(*args, **kwargs), self._size_of)

    def cache_clear(self) -> None:
        """Forget every result."""
        self.results = SizedCache(self.results.bytes_max)


def cache_sized(bytes_max: int, size_of: Callable[[V], int]) -> Callable[[Callable[P, V]], Remembered[P, V]]:
    """Remember a function by the bytes of its results: `lru_cache` counts calls, and callers choose how long."""

    def decorate(function: Callable[P, V]) -> Remembered[P, V]:
        return Remembered(function, bytes_max, size_of)

    return decorate


def cache_short(maxsize: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Remember a function of texts, but for long ones: `lru_cache` counts calls, and texts may have megabytes."""

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        remembered = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> V:
            for value in args:
                if isinstance(value, str | bytes) and len(value) > SHORT:
                    return function(*args, **kwargs)
            return remembered(*args, **kwargs)  # type: ignore[arg-type]  # texts, and what is hashed by itself

        return call

    return decorate
