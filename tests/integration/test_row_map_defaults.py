"""A request that names no row map: its canonical form says what it means, and nobody pays for two guesses."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenes import QUOTES, RELEASES, kinds
from support import Api, World, body, open_world, problem

from curator_service.privacy.accountant import Price

WIDE = {"map": "ball", "norm": math.sqrt(0.75 * 3)}
SMALL = {"map": "ball", "norm": math.sqrt(1.3)}
BOX = {"map": "box"}
GUESSES = [(1, SMALL), (15, SMALL), (16, WIDE), (500, WIDE), (1000, BOX), (10**9, BOX)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a world with a budget for many precise releases; its row capacity is 1000."""
    with open_world(tmp_path, limit=Price(mu=30.0)) as world:
        yield world


def asked(**changes: Any) -> dict[str, Any]:
    """Return a request for age and sex that names no row map."""
    return body(price={"mu": 5.0}, **changes)


def buy(api: Api, request: dict[str, Any], key: str) -> tuple[str, dict[str, Any]]:
    answer = api.post(RELEASES, json=request, key=key)
    assert answer.status_code in {200, 201}, answer.text
    return answer.headers["curator-answer"], answer.json()


@pytest.mark.parametrize(("guess", "rows"), GUESSES)
def test_a_guess_chooses_the_row_map_and_is_not_in_the_canonical_request(
    world: World, guess: int, rows: dict[str, Any]
) -> None:
    shown = world.api().post(QUOTES, json=asked(expected_rows=guess)).json()
    assert shown["request"]["rows"] == rows
    assert "expected_rows" not in shown["request"]


def test_without_a_guess_a_quarter_of_the_capacity_decides(world: World) -> None:
    assert world.api().post(QUOTES, json=asked()).json()["request"]["rows"] == WIDE
    assert world.api().post(QUOTES, json=body()).json()["request"]["rows"] == SMALL  # a hundredth of the price


def test_guesses_of_one_row_map_are_one_request(world: World) -> None:
    api = world.api()
    kind, first = buy(api, asked(expected_rows=100), "k1")
    assert kind == "new"
    for key, request in (("k2", asked(expected_rows=400)), ("k3", asked()), ("k4", first["request"])):
        kind, again = buy(api, request, key)
        assert (kind, again["id"]) == ("stored", first["id"])
    kind, again = buy(api, asked(rows=WIDE), "k1")
    assert (kind, again["id"]) == ("replayed", first["id"])
    assert kinds(world).count("charge") == 1


def test_a_quote_offers_first_what_another_guess_bought(world: World) -> None:
    api = world.api()
    _, bought = buy(api, asked(expected_rows=100), "wide")
    for number in range(12):
        buy(api, asked(rows={"map": "ball", "norm": 1.2 + 0.01 * number}), f"k{number}")
    for guess, mapped in ((1, "not norm 1.14"), (1000, "not by box")):
        offers = api.post(QUOTES, json=asked(expected_rows=guess)).json()["offers"]
        assert len(offers) == 3
        assert offers[0]["release"] == bought["id"]
        assert mapped in offers[0]["difference"]
    # Whoever names a row map means it: then the last ones are offered, as ever.
    offers = api.post(QUOTES, json=asked(rows=SMALL)).json()["offers"]
    assert bought["id"] not in {offer["release"] for offer in offers}


def test_the_box_of_a_large_guess_is_cut_out_of_what_is_stored(world: World) -> None:
    api = world.api()
    wider = asked(features=["age", "sex", "ward"], rows=BOX, targets=["kappa"]) | {"price": {"mu": 9.0}}
    _, stored = buy(api, wider, "k1")
    kind, answer = buy(api, asked(expected_rows=1000), "k2")
    assert (kind, answer["derived_from"]) == ("derived", stored["id"])


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": BOX, "expected_rows": 100},
        {"rows": {"map": "ball"}, "expected_rows": 100},
        {"expected_rows": 0},
        {"expected_rows": -5},
        {"expected_rows": 10**9 + 1},
        {"expected_rows": 10.5},
        {"expected_rows": True},
        {"expected_rows": "100"},
    ],
    ids=str,
)
def test_what_is_no_guess_is_refused(world: World, changes: dict[str, Any]) -> None:
    answer = world.api().post(QUOTES, json=asked(**changes))
    problem(answer, "request-invalid", 422)


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, {"rows": {"map": "ball"}}), ({"expected_rows": 1}, {})],
    ids=["open, then the small ball", "a guess, then open"],
)
def test_a_key_stands_for_the_rows_that_were_meant(world: World, first: dict[str, Any], second: dict[str, Any]) -> None:
    api, requests = world.api(), [body(price={"mu": 2.0}, **changes) for changes in (first, second)]
    meant = [api.post(QUOTES, json=request).json()["request"]["rows"] for request in requests]
    assert meant[0] != meant[1]
    assert buy(api, requests[0], "k")[1]["request"]["rows"] == meant[0]
    problem(api.post(RELEASES, json=requests[1], key="k"), "idempotency-key-reused", 422)
