"""Every value that reads itself: what answers state it has, and what is wrong of them is told by its name."""

import copy
import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import analyst_client.admin  # noqa: F401 -- it imports every class that is read
from analyst_client.error_base import ServiceError
from analyst_client.kinds.counts.quote import CountsQuote
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.marginals.quote import MarginalsQuote
from analyst_client.kinds.registry import read_answer, read_quote
from analyst_client.kinds.score.quote import ScoreQuote
from analyst_client.schema.administration import Spent
from analyst_client.schema.amounts import Amount
from analyst_client.schema.columns import Column, DerivedColumn, Term
from analyst_client.schema.jobs import Job
from analyst_client.schema.quotes import AnyQuote, NamedNoise
from analyst_client.schema.reading import Readable
from analyst_client.schema.receipts import Receipt
from analyst_client.schema.wire import Fields

GOLDEN = Path(__file__).parents[2] / "golden" / "answers.json"
RANDOM = (
    ("key_#", f"key_{'0' * 32}"),
    ('"entry_hash":"#"', f'"entry_hash":"{"0" * 64}"'),
    ('"signature":"~"', f'"signature":"{"A" * 86}=="'),
    ("cur_…", f"cur_{'0' * 16}_{'A' * 43}"),
)
"""What golden answers leave out, and what stands there in turn."""
ABSENT: Any = object()
WRONG: tuple[Any, ...] = (
    *(ABSENT, None, True, "", "text", "12", "9" * 101, 7, -1, 7.5, math.inf, math.nan, 10**400),
    *([], [None], [{}], ["a", 1], ["a"], {}, {"a": None}, {"a": {}}),
)
ON_WIRE = {"release_id": "release", "text": "token", "canonical": "question"}
ALWAYS_STATED = {"distribution", "missing", "share_of_budget", "request", "id", "created_at"}
"""Members that have a default for callers, or are None in some other way, and are on the wire."""
NEVER_NEGATIVE = {"duration_s", "answer_bytes", "answer_bytes_left"}
CHECKED = {"state", "text", "checkpoint", "request"}
"""Members that must be more than of their type."""


def list_answers() -> list[Any]:
    """Return the bodies of all recorded answers of success."""
    found: list[Any] = []
    for _, _, status, _, body in json.loads(GOLDEN.read_text(encoding="utf-8")):
        text = re.sub(r"(?<=\d)\.#", ".0", body)
        for sign, value in RANDOM:
            text = text.replace(sign, value)
        found += [json.loads(text)] if status.startswith("2") and text else []
    return found


def list_objects(value: Any, but: str = "") -> Iterator[dict[str, Any]]:
    """Yield every object of an answer, but those within a member of some name."""
    if isinstance(value, dict):
        yield value
        value = [inner for name, inner in value.items() if name != but]
    for inner in value if isinstance(value, list) else ():
        yield from list_objects(inner, but)


def list_classes(of: type = Readable) -> Iterator[Any]:
    for found in of.__subclasses__():
        yield found
        yield from list_classes(found)


ANSWERS = list_answers()
OBJECTS = {json.dumps({name: type(v).__name__ for name, v in one.items()}): one for one in list_objects(ANSWERS)}
CLASSES = [found for found in (*list_classes(), Job, Spent) if found not in {DerivedColumn, NamedNoise}]


def read(of: Any, body: dict[str, Any]) -> Any:
    """Read a body, or return the error."""
    try:
        return of.read(Fields(body))
    except ServiceError as error:
        return error


def list_examples(of: Any) -> list[dict[str, Any]]:
    """Return the recorded objects that a class reads: of all, those with the most members."""
    found = [one for one in OBJECTS.values() if not isinstance(read(of, one), ServiceError)]
    return sorted(found, key=len, reverse=True)[:5]


def list_members(of: Any) -> "list[tuple[dataclasses.Field[Any], str]]":
    """Return the members of a class that answers state, each with its name on the wire."""
    described = AnyQuote if issubclass(of, AnyQuote) else of
    return [(member, ON_WIRE.get(member.name, member.name)) for member in dataclasses.fields(described)]


def is_said(value: Any, stated: Any) -> bool:
    """Return whether a member is what an answer states of it; objects within it have classes of their own."""
    if stated is None:
        return value in (None, "", math.inf)
    if isinstance(stated, list):
        return len(value) == len(stated) and all(map(is_said, value, stated))
    if isinstance(stated, dict):
        return not isinstance(value, Mapping) or all(is_said(value[name], one) for name, one in stated.items())
    return bool(value == stated or str(value) == stated)


def fits(hint: Any, value: Any) -> bool:
    """Return whether a value may stand for a member of a type."""
    inner = get_args(hint)
    if NoneType in inner:
        return value is None or fits(inner[0], value)
    if hint is float:
        return type(value) in {int, float} and -1e308 < value < 1e308
    if hint is int:
        return type(value) is int or (isinstance(value, str) and value.isdigit() and len(value) <= 100)
    if hint in {str, bool}:
        return type(value) is hint
    if get_origin(hint) is tuple:
        return isinstance(value, list) and all(inner[0] is str and isinstance(item, str) for item in value)
    if get_origin(hint) in {dict, Mapping}:
        return isinstance(value, dict) and inner[1] is not Amount and all(fits(inner[1], one) for one in value.values())
    return hint is Any or (hint is Receipt and isinstance(value, dict))


def is_right(member: "dataclasses.Field[Any]", hint: Any, value: Any) -> bool:
    """Return whether a member may be so, or be absent."""
    has_default = {member.default, member.default_factory} != {dataclasses.MISSING}
    may_be_absent = (NoneType in get_args(hint) or has_default) and member.name not in ALWAYS_STATED
    if value is ABSENT or value is None:
        return may_be_absent or member.name == "decision" or (member.name == "epsilon" and value is None)
    return fits(hint, value) and not (member.name in NEVER_NEGATIVE and int(value) < 0)


@pytest.mark.parametrize("of", CLASSES)
def test_a_value_has_what_its_answer_states(of: Any) -> None:
    examples = list_examples(of)
    assert examples
    for body in examples:
        for member, wire in list_members(of):
            assert wire not in body or is_said(getattr(read(of, body), member.name), body[wire]), member.name
        assert read(of, body | {"later": [{}]}) == read(of, body)  # a newer curator may say more


@pytest.mark.parametrize("of", [*CLASSES, Quote, CountsQuote, MarginalsQuote, ScoreQuote])
def test_a_wrong_member_is_told_by_its_name(of: Any) -> None:
    hints = get_type_hints(of)
    tried = 0
    for body in list_examples(of)[:2]:
        for member, wire in [(member, wire) for member, wire in list_members(of) if wire in body]:
            for value in WRONG:
                found = read(of, changed(body, (wire,), value))
                tried += 1
                if not is_right(member, hints[member.name], value):
                    assert isinstance(found, ServiceError), (member.name, value)
                    assert re.match(f"malformed answer: /{wire}[/ ]", str(found)), (member.name, value)
                elif isinstance(found, ServiceError):  # it is of the type, and contradicts itself
                    assert of is Column or member.name in CHECKED, (member.name, value)
    assert tried >= len(WRONG)


def list_places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*at, name)
        yield from list_places(inner, (*at, name))


def changed(body: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Return a copy in which another value stands in a place."""
    copied = inner = copy.deepcopy(body)
    for name in at[:-1]:
        inner = inner[name]
    if value is ABSENT:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return copied


def read_any(body: dict[str, Any]) -> Any:
    return read_quote(Fields(body)) if "affordable" in body else read_answer(json.dumps(body))


def of_kinds() -> list[Any]:
    """Return a quote and an answer of each kind, those that say the most."""
    told = [body for body in ANSWERS if {"kind", "request"} <= body.keys()]
    found = {(body["kind"], "affordable" in body): body for body in sorted(told, key=lambda one: len(str(one)))}
    return list(found.values())


@pytest.mark.parametrize("body", of_kinds(), ids=lambda body: body["kind"])
def test_no_answer_of_any_kind_raises_anything_else(body: Any) -> None:
    """Any member of a quote or a release may be wrong, however deep."""
    places = {tuple("" if isinstance(name, int) else name for name in at): at for at in list_places(body)}
    later = copy.deepcopy(body)
    for inner in list(list_objects(later, "request")):
        if len(inner) > 1:  # or it is an expression
            inner["later"] = [{}]  # a newer curator may say more
    read_any(later)
    refused = 0
    for at in places.values():
        for value in (ABSENT, None, "text", 10**400, [None], {"a": {}}):
            try:
                read_any(changed(body, at, value))
            except ServiceError:
                refused += 1
    assert refused > 100


def test_terms_within_terms_without_end_are_refused() -> None:
    term: dict[str, Any] = {"name": "a", "kind": "numeric", "column": "a"}
    for _ in range(400):
        term = {"name": "a", "kind": "product", "factors": [term]}
    assert isinstance(read(Term, json.loads(json.dumps(term))), ServiceError)
