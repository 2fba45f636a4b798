"""A kind of entries of one new file outside of the package: it is written, verified, answered, described and shown."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_worlds import Person
from entry_examples import BY, read
from support import World, open_world
from toy_entry import Greeting

from curator_service.entries.base import KINDS

GREETING = Greeting(**BY, words="good morning")
KINDS.pop(Greeting.kind)  # declared with its class: no other test knows it


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setitem(KINDS, Greeting.kind, Greeting)
    with open_world(tmp_path) as world:
        with world.curator.ledger.unit() as ledger:
            ledger.note("town", GREETING)
        yield world


def test_it_stands_in_a_chain_that_holds(world: World) -> None:
    assert world.curator.ledger.verify("town").ok
    assert world.discrepancies() == []
    assert read(world.entries()[-1]).said == GREETING
    assert world.curator.start() == ""


def test_it_costs_nothing_and_stands_in_no_register(world: World) -> None:
    with world.curator.ledger.unit() as ledger:
        ledger.record(ledger.next("town"), GREETING, 5)
        ledger.act(GREETING)
    found = world.curator.ledger.verify("town")
    assert found.reason == "an entry of kind 'greeting' with 5 units does not belong here"
    assert "does not belong into the register" in world.curator.ledger.verify("_register").reason


def test_it_is_answered_as_the_document_describes_it(world: World) -> None:
    api = world.api("root")
    schemas = json.loads(api.get("/openapi.json").text)["components"]["schemas"]
    assert schemas["GreetingEntry"]["properties"]["words"] == {"type": "string", "title": "Words"}
    assert "#/components/schemas/GreetingEntry" in json.dumps(schemas["LedgerAnswer"])
    answered = world.api("root").get("/v1/ledger/town").json()["entries"][-1]
    assert (answered["kind"], answered["words"]) == ("greeting", "good morning")


def test_its_meaning_is_shown(world: World) -> None:
    person = Person(world, app=world.api("root").app)
    person.sign_in(world.tokens["root"])
    assert "an officer greeted people" in person.get("/admin/populations/town/ledger?kind=greeting").text
