"""Releases of several parts at one cost, such as tables: each with a name, numbers, and columns in some order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Generic, Self

from analyst_client.display.model import Table, untrusted
from analyst_client.error_base import ServiceError
from analyst_client.kinds.columns import column_finder
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.kinds.request import A, PricedRequest, Q
from analyst_client.schema.answers import Stated
from analyst_client.schema.quotes import AnyQuote, StatisticNoise, list_noise, read_deviation, read_is_laplace
from analyst_client.schema.wire import Fields

Part = Any
"""A part: it has `name`, `title`, `shape` and `columns`, and the methods `arranged`, by places, and `places_of`."""


@dataclass(frozen=True, eq=False, repr=False)
class Parts(Stated):
    """Parts of a quote or a release, in the member of the name `member`; a kind says here what they are."""

    member: ClassVar[str]
    asked: ClassVar[str]
    """The request in words, with the parts in braces."""
    comma: ClassVar[str] = ", "
    _read_part: ClassVar[Callable[..., Part]]
    """Reads a part without its numbers, with what finds the columns that it names."""

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read the parts, in the order of the answer."""
        find_column = column_finder(body)
        parts = body.each(cls.member, lambda fields: cls._read_part(fields, find_column))
        if not parts or len({part.name for part in parts}) < len(parts):
            raise body.fault(cls.member, "a list of distinct names")
        return {cls.member: parts}

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts."""
        listed: tuple[Part, ...] = getattr(self, self.member)
        return listed

    @property
    def order(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The names of the parts, each with those of its columns."""
        return tuple((part.name, tuple(column.name for column in part.columns)) for part in self.parts)

    def in_order(self, order: Any) -> Self:
        """Return this with its parts, and their columns, in an order."""
        named = {part.name: part for part in self.parts}
        arranged = []
        for name, columns in order:
            places = {column.name: place for place, column in enumerate(named[name].columns)}
            arranged.append(named[name].arranged([places[column] for column in columns]))
        return replace(self, **{self.member: tuple(arranged)})

    def find_order(self, request: "PartsRequest[Any, Any]") -> Any:
        """Return the order that was asked. Raise `ServiceError` when this has other parts."""
        left, found = list(self.parts), {}
        for number, asked in sorted(enumerate(request.parts), key=lambda one: request.vagueness(one[1])):
            for part in left:
                if (places := part.places_of(asked)) is not None:
                    found[number] = (part.name, tuple(part.columns[place].name for place in places))
                    left.remove(part)
                    break
            else:
                raise ServiceError(f"malformed answer: it has other {self.member} than were asked")
        if left:
            raise ServiceError(f"malformed answer: it has more {self.member} than were asked")
        return [found[number] for number in range(len(found))]

    @property
    def _title(self) -> str:
        return self.comma.join(part.title for part in self.parts)

    @property
    def _asked(self) -> str:
        return self.asked.format(self._title)


@dataclass(frozen=True, eq=False, repr=False)
class PartsRelease(Parts, PublishedAnswer):
    """A release of parts."""

    _read_numbers: ClassVar[Callable[..., Part]]
    """Adds its numbers to a part, from the statistics and their noise."""

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read the parts, in the order of the answer."""
        parts, statistics = super().read_stated(body)[cls.member], body.object("statistics")
        return {cls.member: tuple(cls._read_numbers(part, statistics, body.object("noise")) for part in parts)}


@dataclass(frozen=True, repr=False)
class PartsQuote(Parts, AnyQuote):
    """A quote of parts."""

    heads: ClassVar[tuple[str, str]]
    unit: ClassVar[str] = ""
    noise: StatisticNoise

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read the parts, in the order of the answer, and the noise of each."""
        stated, noise = super().read_stated(body), body.object("noise")
        read_is_laplace(noise)
        sd = {part.name: read_deviation(noise, part.name) for part in stated[cls.member]}
        return stated | {"noise": StatisticNoise(noise.text("distribution"), sd)}

    @property
    def is_laplace(self) -> bool:
        """True if the noise is Laplace, False if it is Gaussian."""
        return self.noise.distribution == "discrete_laplace"

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each part; they sum to 1."""
        shares = self.request.get("shares") or [1.0] * len(self.parts)
        return tuple(share / sum(shares) for share in shares)

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of a number of each part."""
        return {part.title: self.noise.sd[part.name] for part in self.parts}

    def _list_noise(self) -> Table:
        rows = [(untrusted(part.title), math.prod(part.shape), self.noise.sd[part.name]) for part in self.parts]
        return list_noise(self.noise, rows, self.heads, unit=self.unit)


@dataclass(frozen=True, repr=False)
class PartsRequest(PricedRequest[A, Q], Generic[A, Q]):
    """A request of parts."""

    part: ClassVar[str]
    """A part, in a word."""
    _: KW_ONLY
    shares: Sequence[float] | None = None

    @property
    def parts(self) -> Sequence[Any]:
        """The parts as they are asked."""
        raise NotImplementedError

    @staticmethod
    def vagueness(asked: Any) -> int:
        """Return in how many ways a part may be answered: the exact ones find their answers first."""
        return 0

    def _option_members(self) -> dict[str, Any]:
        if self.shares is None:
            return {}
        listed, parts = [float(share) for share in self.shares], len(self.parts)
        if len(listed) != parts:
            raise ValueError(f"shares has one number for each {self.part}: {parts}, not {len(listed)}")
        return {"shares": listed}
