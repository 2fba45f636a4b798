"""Texts of a manifest: names, headers, levels and words, as pydantic checks them."""

import datetime
import re
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, StrictFloat, StrictInt, StringConstraints, Tag

from curator_service.kit.names import NAME_PATTERN

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Text = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
LEVEL = re.compile(r"[^\x00-\x1f\x7f\[\]]{1,200}")
Level = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=f"^{LEVEL.pattern}$")]
Header = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$", strip_whitespace=True)
]


def _kind_of_level(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "whole number" if isinstance(value, int) else "number"
    return "text"


def _to_word(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def to_iso(value: object) -> object:
    """Return a date of TOML as its text; anything else as it is."""
    return value.isoformat() if isinstance(value, datetime.date) else value


AnyLevel = Annotated[
    Annotated[Level, Tag("text")]
    | Annotated[StrictInt, Field(ge=-(2**53), le=2**53), Tag("whole number")]
    | Annotated[StrictFloat, Tag("number")],
    Discriminator(_kind_of_level),
]
Word = Annotated[
    str,
    BeforeValidator(_to_word),
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$", strip_whitespace=True),
]
Words = Annotated[tuple[Word, ...], Field(max_length=100)]
Instant = Annotated[str, BeforeValidator(to_iso), StringConstraints(max_length=40)]


def is_unset(value: object) -> bool:
    """Tell whether a stored manifest omits a field."""
    return value is None
