"""A budget that was given by mistake is replaced by two people, as long as nothing was ever answered under it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support import ADMIN, World, body, problem

LIMITS = "/v1/admin/populations/town/limits"
MEANT = {"limit": {"epsilon": 0.5, "delta": 1e-6}, "reason": "a slip: 1 in place of 0.5", "replaces": True}


def approve(world: World, asked: httpx.Response) -> httpx.Response:
    """Let a second officer approve a proposal."""
    if "ruth" not in world.tokens:
        world.add_token("ruth", *ADMIN)
    return world.api("ruth").post(f"/v1/admin/proposals/{asked.json()['id']}/approve")


def buy(world: World) -> None:
    """Charge something."""
    assert world.api().post("/v1/datasets/cohort/releases", json=body(), key="k").status_code == 201


def hold(world: World) -> None:
    """Hold something, and give it back."""
    api = world.api()
    held = api.post("/v1/datasets/cohort/reservations", json={"price": {"mu": 0.05}, "expires_in_s": 600}, key="r")
    assert held.status_code == 201, held.text
    assert api.request("DELETE", f"/v1/reservations/{held.json()['id']}").status_code == 200


def test_two_people_replace_a_limit_that_nobody_used_and_the_guarantee_with_it(both: World) -> None:
    before, root = both.account(), both.api("root")
    asked = root.post(LIMITS, json=MEANT)
    assert (asked.status_code, asked.json()["state"]) == (202, "open")
    assert both.account() == before
    problem(root.post(f"/v1/admin/proposals/{asked.json()['id']}/approve"), "second-admin-needed", 403)
    approved = approve(both, asked)
    assert (approved.status_code, approved.json()["state"]) == (200, "approved")
    account = both.account()
    assert account.highest_limit == account.limit == int(asked.json()["limit_units"]) < before.limit
    shown = both.api().get("/v1/datasets/cohort/budget").json()
    assert shown["highest_limit"] == shown["limit"]
    assert both.curator.ledger.verify("town").ok
    assert both.curator.ledger.guard.start() == ""


def test_a_limit_that_one_person_lowered_is_replaced_too(both: World) -> None:
    """Lowered alone it leaves the guarantee as it was."""
    before = both.account()
    alone = {name: value for name, value in MEANT.items() if name != "replaces"}
    assert both.api("root").post(LIMITS, json=alone).status_code == 200
    assert both.account().highest_limit == before.limit
    assert approve(both, both.api("root").post(LIMITS, json=MEANT)).status_code == 200
    assert both.account().highest_limit == both.account().limit < before.limit
    assert both.curator.ledger.verify("town").ok


@pytest.mark.parametrize("use", [buy, hold])
@pytest.mark.parametrize("when", ["before it is asked", "before it is approved"])
def test_a_limit_under_which_something_was_charged_or_held_is_not_replaced(
    both: World, use: Callable[[World], None], when: str
) -> None:
    root = both.api("root")
    if when == "before it is asked":
        use(both)
        before = both.account()
        problem(root.post(LIMITS, json=MEANT), "limit-conflict", 409)
    else:
        asked = root.post(LIMITS, json=MEANT)
        use(both)
        before = both.account()
        problem(approve(both, asked), "limit-conflict", 409)
    assert both.account() == before
    assert both.curator.ledger.verify("town").ok


def test_a_higher_limit_replaces_none(world: World) -> None:
    higher = MEANT | {"limit": {"epsilon": 2.0, "delta": 1e-6}}
    refused = problem(world.api("root").post(LIMITS, json=higher), "request-invalid", 422)
    assert "/replaces" in str(refused)


def test_a_retry_asks_for_the_same(world: World) -> None:
    root = world.api("root")
    asked = root.post(LIMITS, json=MEANT, key="a")
    assert root.post(LIMITS, json=MEANT, key="a").json() == asked.json()
    alone = {name: value for name, value in MEANT.items() if name != "replaces"}
    problem(root.post(LIMITS, json=alone, key="a"), "idempotency-key-reused", 422)


def test_a_guarantee_that_was_lowered_in_the_table_alone_is_found(world: World) -> None:
    """The chain says whether two people replaced the limit, and that it was not used before."""
    alone: dict[str, Any] = {name: value for name, value in MEANT.items() if name != "replaces"}
    assert world.api("root").post(LIMITS, json=alone).status_code == 200
    world.sql("UPDATE populations SET highest_limit_units = limit_units WHERE name = 'town'")
    assert "highest_limit" in world.curator.ledger.verify("town").reason
