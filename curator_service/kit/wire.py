"""Base of the models of JSON: they read exactly what they declare."""

import json
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from curator_service.kit.names import NAME_PATTERN

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Line = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A text of people, on one line."""
Reason = Annotated[Line, StringConstraints(min_length=1)]


class Answer(BaseModel):
    """A value as it is answered. It is made of checked values with `model_construct`, so it is not checked again."""

    model_config = STRICT
    items: ClassVar[str] = ""
    """The member that a command lists; empty where the answer is about one thing."""


Digits = Annotated[
    str, Field(pattern=r"^(0|[1-9][0-9]*)$", description="A whole number, which may be beyond the integers of JSON")
]
Moment = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", description="In UTC")
]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="A SHA-256, in hexadecimal")]


Absent = SkipJsonSchema[None]
"""Beside the type of a member that `left_out` declares; the schema does not name it."""


def is_absent(value: object) -> bool:
    """Return whether a member of an answer says nothing."""
    return value is None


def left_out() -> Any:
    """Declare a member of an answer that is left out where it would say nothing: it is never sent as null."""
    # A default of a factory is not written into the schema.
    return Field(default_factory=lambda: None, exclude_if=is_absent)


def load_json(text: bytes) -> Any:
    """Read JSON strictly: no number that is not finite, and no object that names a member twice.

    Raises
    ------
    ValueError
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=_unique_members, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested deeper than any request is") from None


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a member twice: readers differ in which one counts."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
