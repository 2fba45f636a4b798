"""Values that read themselves from an answer: each member by its annotation, so that it is described once."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Self, TypeAlias, get_args, get_origin, get_type_hints

from analyst_client.error_base import ServiceError
from analyst_client.schema.wire import Fields

Reader: TypeAlias = Callable[[Fields, str], Any]
"""Reads the member of this name; raises `ServiceError` on a wrong one."""
HERE = object()
"""Mark of a member that is read from the object of its value, and not from an object within."""
LOCAL = object()
"""Mark of a member that no answer states: it keeps its default."""
_READERS: Mapping[Any, Reader] = {
    str: Fields.text,
    bool: Fields.flag,
    int: Fields.integer,
    float: Fields.number,
    tuple[str, ...]: Fields.texts,
    dict[str, Any]: Fields.mapping,
    Mapping[str, Any]: Fields.mapping,
}


class Readable:
    """A frozen dataclass that reads itself from an answer.

    A member is read by its annotation. It may be absent or null where it has a default or may be None. Marks within
    ``Annotated`` say the rest: a string is the member's name on the wire, and a `Reader` reads it in another way.
    """

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read from an answer. Raise `ServiceError` when a member is missing or wrong."""
        try:
            return cls(**read_members(cls, fields))
        except ValueError as error:  # a value may refuse members that contradict each other
            raise ServiceError(f"malformed answer: {fields.where}: {error}") from None


def read_members(of: type, fields: Fields, **given: Any) -> dict[str, Any]:
    """Read the members of a dataclass, by their names; those that are given are not read."""
    found = {name: read(fields, stated) for name, stated, read in _list_members(of) if name not in given}
    return given | found


@cache
def _list_members(of: type) -> tuple[tuple[str, str, Reader], ...]:
    """Return of each member its name, its name on the wire, and its reader: found when a first answer is read."""
    hints = get_type_hints(of, include_extras=True)
    found = []
    for member in dataclasses.fields(of):
        hint, *marks = get_args(hints[member.name]) if _is_marked(hints[member.name]) else (hints[member.name],)
        stated = next((mark for mark in marks if isinstance(mark, str)), member.name)
        own = next((mark for mark in marks if callable(mark)), None)
        if LOCAL not in marks:
            found.append((member.name, stated, own or _reader_of_member(member, hint, inside=HERE not in marks)))
    return tuple(found)


def _is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _reader_of_member(member: "dataclasses.Field[Any]", hint: Any, *, inside: bool) -> Reader:
    if not inside:
        return lambda fields, _: hint.read(fields)
    read, default, make = _reader_of(hint), member.default, member.default_factory
    if default is not dataclasses.MISSING:
        return lambda fields, name: read(fields, name) if fields.has(name) else default
    if make is not dataclasses.MISSING:
        return lambda fields, name: read(fields, name) if fields.has(name) else make()
    return read


def _reader_of(hint: Any) -> Reader:
    """Return what reads a member of a type."""
    if hint in _READERS:
        return _READERS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        (read,) = (_reader_of(one) for one in inner if one is not NoneType)
        return lambda fields, name: fields.optional(name, lambda _: read(fields, name))
    if origin is tuple:
        return lambda fields, name: fields.each(name, inner[0].read)
    if origin in (dict, Mapping):
        read = _reader_of(inner[1])
        return lambda fields, name: _read_mapping(fields.object(name), read)
    return lambda fields, name: hint.read(fields.object(name))


def _read_mapping(within: Fields, read: Reader) -> dict[str, Any]:
    return {name: read(within, name) for name in within.members}
