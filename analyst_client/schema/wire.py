"""JSON of the wire, read strictly.

Unknown members are ignored, so that a newer curator can say more; a member that is missing or of the wrong type makes
the whole answer a `ServiceError`, never a value half read.
"""

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from analyst_client.error_base import ServiceError

T = TypeVar("T")


def parse_json(text: str) -> Any:
    """Read strict JSON: no NaN, no infinity, no name twice in one object. Raise `ServiceError` otherwise."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a name occurs twice in one object")
        return members

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ServiceError(f"malformed answer: not JSON ({error})") from None


class Fields:
    """Members of one JSON object, read with their types checked; each method raises `ServiceError` on a wrong one."""

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, dict):
            raise ServiceError(f"malformed answer: {where or 'the body'} is not an object")
        self.members: dict[str, Any] = value
        self.where = where

    def fault(self, name: str, expected: str) -> ServiceError:
        """Return the error of a member that is not what is expected."""
        return ServiceError(f"malformed answer: {self.where}/{name} is not {expected}")

    def has(self, name: str) -> bool:
        """Return whether a member is there, and not null."""
        return self.members.get(name) is not None

    def is_null(self, name: str) -> bool:
        """Return whether a member is there, and null."""
        return name in self.members and self.members[name] is None

    def text(self, name: str) -> str:
        """Read a string."""
        value = self.members.get(name)
        if not isinstance(value, str):
            raise self.fault(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """Read true or false."""
        value = self.members.get(name)
        if not isinstance(value, bool):
            raise self.fault(name, "true or false")
        return value

    def number(self, name: str) -> float:
        """Read a finite number."""
        value = self.members.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(name, "a number")
        number = as_float(value)
        if not math.isfinite(number):
            raise self.fault(name, "a finite number")
        return number

    def integer(self, name: str) -> int:
        """Read an integer, which may be written as a string of digits."""
        value = self.members.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 100:
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, "an integer")
        return value

    def array(self, name: str) -> list[Any]:
        """Read an array."""
        value = self.members.get(name)
        if not isinstance(value, list):
            raise self.fault(name, "an array")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Read an array of strings."""
        value = self.array(name)
        if not all(isinstance(item, str) for item in value):
            raise self.fault(name, "an array of strings")
        return tuple(value)

    def object(self, name: str) -> "Fields":
        """Read an object."""
        return Fields(self.members.get(name), f"{self.where}/{name}")

    def mapping(self, name: str) -> dict[str, Any]:
        """Read an object as it is."""
        return self.object(name).members

    def each(self, name: str, read: "Callable[[Fields], T]") -> tuple[T, ...]:
        """Read an array of objects."""
        return tuple(read(Fields(item, f"{self.where}/{name}/{i}")) for i, item in enumerate(self.array(name)))

    def optional(self, name: str, read: Callable[[str], T]) -> T | None:
        """Read a member where it is there."""
        return read(name) if self.has(name) else None


def as_float(value: float) -> float:
    """Convert a JSON number; an integer beyond the range of float64 becomes infinite, as a decimal would."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
