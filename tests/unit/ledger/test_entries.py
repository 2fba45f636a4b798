"""Every kind of entries: what is written reads back, and nothing else reads as one."""

from collections.abc import Mapping
from typing import Any

import pytest
from entry_examples import EXAMPLES, PLACE

from curator_service.entries.account import Account, Unfounded
from curator_service.entries.base import KINDS, REGISTER, Entry, Event, Units
from curator_service.ledger.models import FREQUENT_KINDS

every_kind = pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES)


def test_every_kind_has_an_example() -> None:
    assert KINDS.keys() == EXAMPLES.keys()
    assert all(kind.meaning and (kind.units_are == "0") is (kind.amounts is Units.NONE) for kind in KINDS.values())


@every_kind
def test_what_is_written_reads_back(event: Event) -> None:
    entry = Entry.read(PLACE | event.payload)
    assert entry.said == event
    assert PLACE | event.payload == dict(entry.place) | entry.said.payload


def changes(payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a payload with a member more, and with each member less, empty, or of another type."""
    found = {"more": {**payload, "more": ""}, "drawn_from": {**payload, "drawn_from": "res_1"}}
    for name, value in payload.items():
        found[f"{name} less"] = {one: text for one, text in payload.items() if one != name}
        for other in (None, [value], {"a": value}, 1.5, True, str(value) if isinstance(value, int) else 7):
            found[f"{name} {other!r}"] = {**payload, name: other}
    return found


@every_kind
def test_nothing_else_reads_as_one(event: Event) -> None:
    for what, payload in changes(PLACE | event.payload).items():
        with pytest.raises((ValueError, KeyError, TypeError)):
            pytest.fail(f"{what}: {Entry.read(payload)}")


@every_kind
def test_it_stands_in_its_chains_with_its_amounts_alone(event: Event) -> None:
    """An amount where none belongs, none where one does, and a chain of another kind are told by name."""
    for population, units in (("town", 0), ("town", 5), (REGISTER, 0), (REGISTER, 5)):
        place = PLACE | {"population": population, "units": str(units)}
        in_register = population == REGISTER
        belongs = (event.in_register and not units) if in_register else event.in_populations
        belongs = belongs and (
            in_register or event.amounts is Units.ANY or (units > 0) is (event.amounts is Units.SOME)
        )
        try:
            Entry.read(place | event.payload).move(Account(limit=10, sequence=1))
            told = ""
        except Unfounded as found:
            told = str(found)
        assert ("does not belong" in told) is not belongs, (population, units, told)


def test_kinds_that_are_frequent_or_uses_are_these() -> None:
    """An index of the database leaves out the frequent ones; uses fix a limit for good."""
    assert {*FREQUENT_KINDS} == {"charge", "reserve", "void", "derive"}
    assert {name for name, kind in KINDS.items() if kind.is_use} == {"charge", "reserve", "derive", "reconcile"}
