"""Acts of a new file, attacked: a route and a page take what their document allows, and refuse the rest."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from dashboard_worlds import Person, token_of
from fastapi import APIRouter
from pydantic import Field
from support import Api, World, open_world

from curator_service.acts import SLICES
from curator_service.api.acts import Acts, After
from curator_service.api.context import RequestContext
from curator_service.dashboard.pages.acts import add_act
from curator_service.identity.policy import Action
from curator_service.kit.wire import Answer, Name

acts = Acts("toys")


class ToyAnswer(Answer):
    """A toy."""

    text: str


@acts.route(Action.READ_SELF, "GET /v1/toys")
def find_toy(
    context: RequestContext,
    kind: Annotated[Literal["ball", "box"], Field(description="Kind of it.")],
    after: After,
    name: Annotated[Name | None, Field(description="Name of it.")] = None,
) -> ToyAnswer:
    """Find a toy."""
    return ToyAnswer(text=f"{kind} {after} {name}")


@acts.route(Action.READ_SELF, "POST /v1/toys", "toys make", has_page=True)
def make_toy(
    context: RequestContext,
    count: Annotated[int, Field(ge=-3, le=3, description="How many.")],
    size: Annotated[float, Field(gt=0, description="How large.")],
) -> ToyAnswer:
    """Make a toy."""
    return ToyAnswer(text=f"{count} {size}")


@acts.route(Action.READ_SELF, "POST /v1/toys/{name}", "toys break")
def break_toy(context: RequestContext, name: str) -> ToyAnswer:
    """Break a toy."""
    return ToyAnswer(text=name)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Api]]:
    with open_world(tmp_path_factory.mktemp("toys")) as world:
        yield world, world.api("ada", acts=(*SLICES, acts))


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("kind=ball&after=1", ""),
        ("kind=ball&after=1&name=x", ""),
        ("", "?kind"),
        ("kind=ball", "?after"),
        ("kind=&after=1", "?kind"),
        ("kind=sofa&after=1", "?kind"),
        ("kind=ball&after=-1", "?after"),
        ("kind=ball&after=1&name=..", "?name"),
        ("kind=ball&after=1&name=", "?name"),
    ],
)
def test_a_query_holds_to_its_document(toys: tuple[World, Api], query: str, wrong: str) -> None:
    _, api = toys
    answer = api.get(f"/v1/toys?{query}")
    assert answer.status_code == (422 if wrong else 200), answer.text
    assert [one["pointer"] for one in answer.json().get("errors", [])] == ([wrong] if wrong else [])
    described = {one["name"]: one for one in api.get("/openapi.json").json()["paths"]["/v1/toys"]["get"]["parameters"]}
    assert [name for name, one in described.items() if one.get("required")] == ["kind", "after"]
    assert all("default" not in one["schema"] for one in described.values())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"count": "-3", "size": "0.5"}, 303),
        ({"count": "9" * 5000, "size": "1"}, 422),
        ({"count": "--1", "size": "1"}, 422),
        ({"count": "1.0", "size": "1"}, 422),
        ({"count": "\u00b2", "size": "1"}, 422),
        ({"count": "1", "size": "inf"}, 422),
        ({"count": "1", "size": "nan"}, 422),
        ({"count": "1", "size": "big"}, 422),
        ({"count": "1"}, 422),
    ],
)
def test_numbers_of_a_form_are_those_of_a_body(toys: tuple[World, Api], sent: dict[str, Any], status: int) -> None:
    world, api = toys
    person = Person(world, app=api.app)
    person.sign_in(world.tokens["ada"])
    form = token_of(person.get("/admin/acts/toys/make"))
    assert person.post("/admin/acts/toys/make", {"form_token": form, **sent}).status_code == status


def test_a_page_is_not_made_of_an_act_whose_object_its_form_could_not_name(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        add_act(APIRouter(), break_toy)
