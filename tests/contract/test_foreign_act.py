"""An act of one new file outside of the package: route, document, command, page and client follow from it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_act
from client_acts import make_module
from dashboard_worlds import Person, token_of
from support import Api, World, open_world
from typer.testing import CliRunner

from analyst_client.admin import command
from curator_service.acts import SLICES
from curator_service.cli.acts import make_group

SENT = {"population": "town", "words": "hello", "budget": {"mu": 0.5}, "times": 2}
SAID = "town, hello hello (warm, mu 0.5)"


@pytest.fixture
def greeted(tmp_path: Path) -> Iterator[tuple[World, Api]]:
    with open_world(tmp_path) as world:
        yield world, world.api("root", acts=(*SLICES, toy_act.acts))


def test_its_route_authorises_reads_and_answers(greeted: tuple[World, Api]) -> None:
    world, api = greeted
    answer = api.post("/v1/admin/greetings", json=SENT)
    assert (answer.status_code, answer.json()["text"]) == (200, SAID)
    assert api.post("/v1/admin/greetings", json=SENT, token=world.tokens["ada"]).status_code == 403
    for wrong, pointer in (({"times": 4}, "/times"), ({"tone": "sharp"}, "/tone"), ({"budget": {}}, "/budget")):
        refused = api.post("/v1/admin/greetings", json=SENT | wrong)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    assert api.post("/v1/admin/greetings", json=SENT | {"more": 1}).status_code == 422


def test_its_document_makes_the_client_s_method_and_command(greeted: tuple[World, Api]) -> None:
    _, api = greeted
    document = json.loads(api.get("/openapi.json").text)
    described = document["paths"]["/v1/admin/greetings"]["post"]
    assert described["summary"] == "Greet the people of a population (privacy officer)"
    module = make_module(document)
    assert "def greet(" in module
    assert 'tone: Literal["warm", "cool"] = "warm",' in module
    assert '"greetings say": Command("greet", ("population",), consequence="People hear it"),' in module


def test_its_command_from_afar_asks_as_its_route_does(
    greeted: tuple[World, Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a table that is made of the document: an amount may have any name."""
    _, api = greeted
    made: dict[str, Any] = {"__name__": "made"}
    module = make_module(json.loads(api.get("/openapi.json").text)).replace("GreetingAnswer", "dict")
    exec(compile(module.replace("dict[str, Any].read(", "dict("), "made", "exec"), made)
    sent: list[Any] = []
    admin = type("Admin", (made["Acts"],), {"_post": lambda _, *asked: sent.append(asked) or {}})
    monkeypatch.setattr(command, "CuratorAdmin", admin)
    monkeypatch.setattr(command, "TABLE", {"greetings say": made["COMMANDS"]["greetings say"]})
    words = ["greetings", "say", "town", "--words", "hello", "--mu", "0.5", "--times", "2", "--key", "one", "--yes"]
    given = vars(command.make_parser().parse_args(words))
    command._do("greetings say", admin(None), given)
    assert sent == [("/v1/admin/greetings", SENT | {"aloud": False, "tone": "warm"}, "one")]


def test_its_command_is_the_operator_s(greeted: tuple[World, Api]) -> None:
    world, _ = greeted
    place = {"CURATOR_DATA_DIR": str(world.settings.data_dir), "CURATOR_PACE": "1"}
    group = make_group("greetings", [toy_act.acts])
    group.callback()(lambda: None)  # a group of one command
    words = ["say", "town", "--words", "hello", "--mu", "0.5", "--times", "2", "--json"]
    ended = CliRunner().invoke(group, words, env=place)
    assert ended.exit_code == 0, ended.output
    answer = json.loads(ended.stdout)
    assert answer["text"] == SAID
    assert answer["by"].startswith("operator:")
    assert CliRunner().invoke(group, [*words, "--times", "4"], env=place).exit_code == 2


def test_its_page_has_a_form_that_does_it(greeted: tuple[World, Api]) -> None:
    world, api = greeted
    person = Person(world, app=api.app)
    person.sign_in(world.tokens["root"])
    shown = person.get("/admin/acts/greetings/say")
    for field in ('name="population"', 'name="words"', 'name="notion"', "<option>cool</option>", 'type="checkbox"'):
        assert field in shown.text
    form = {"form_token": token_of(shown), "population": "town", "words": "hello", "notion": "mu", "mu": "0.5"}
    done = person.post("/admin/acts/greetings/say", form | {"times": "2", "aloud": "yes"})
    assert (done.status_code, done.headers["location"]) == (303, "/admin/acts/greetings/say?done=done")
    refused = person.post("/admin/acts/greetings/say", form | {"times": "9"})
    assert refused.status_code == 422
    assert "times" in refused.text
    assert 'value="hello"' in refused.text
    assert person.post("/admin/acts/greetings/say", form | {"form_token": "0" * 64}).status_code == 403
