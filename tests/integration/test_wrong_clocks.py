"""A clock that was wrong for a start ends nothing for good, and gives nobody more than there was to be had."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from scenes import RELEASES, RESERVATIONS, assert_sound, box
from support import Api, World, open_world, problem
from test_versions import MORE, add, find, register, rows

from curator_service.app import _ending
from curator_service.identity.policy import Role
from curator_service.kit.clock import timestamp

HELD = {"price": {"mu": 0.1}, "expires_in_s": 7200}


@pytest.fixture
def world(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world of the middle of this month, so that the database's own clock is near."""
    with open_world(tmp_path, url=database_url, moment=datetime.now(UTC)) as world:
        yield world


def start(world: World) -> Api:
    """Start a process, and let it end once all that it finds due."""
    api = world.api()
    curator = api.app.state.curator
    curator.job_runner.sweep()
    _ending(curator.clock, curator.versions.cut_due)()
    _ending(curator.clock, curator.approvals.expire_due)()
    return api


def believe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a clock be believed at once, as ten minutes later."""
    monkeypatch.setattr("curator_service.kit.clock.SETTLING_S", 0.0)


def test_reservations_and_cuts_wait_while_the_clock_is_ahead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(world, "visits")
    add(world, "visits", MORE)
    before, version = rows(world, "visits"), find(world, "visits").version
    held = world.api().post(RESERVATIONS, json=HELD, key="held").json()
    world.clock.advance(days=40)
    ahead = start(world)
    problem(ahead.post(RELEASES, json=box(reservation=held["id"]), key="k"), "busy", 503)  # its rows seem overdue
    assert (rows(world, "visits"), find(world, "visits").version) == (before, version)
    world.clock.advance(days=-40)
    right = start(world)
    assert right.get(f"/v1/reservations/{held['id']}").json()["state"] == "open"
    assert right.post(RELEASES, json=box(reservation=held["id"]), key="k").status_code == 201
    assert (rows(world, "visits"), find(world, "visits").version) == (before, version)
    assert_sound(world)
    world.clock.advance(days=40)
    believe(monkeypatch)
    assert start(world).get(f"/v1/reservations/{held['id']}").json()["state"] == "expired"
    assert len(rows(world, "visits")) > len(before)
    assert_sound(world)


def test_no_dataset_is_cut_while_the_clock_is_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    register(world, "visits")
    version = find(world, "visits").version
    world.clock.advance(days=40)
    world.curator.versions.cut_due()
    assert find(world, "visits").version == version + 1
    world.clock.advance(days=-40)
    start(world)
    assert find(world, "visits").version == version + 1
    believe(monkeypatch)
    start(world)
    assert find(world, "visits").version == version + 2


def test_a_clock_that_is_behind_prolongs_nothing_that_has_ended_by_the_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.permit("kidney", expires_at=timestamp(world.clock.moment + timedelta(days=1)))
    world.permit("liver", expires_at=timestamp(world.clock.moment + timedelta(days=9)))
    held = world.api().post(RESERVATIONS, json=HELD | {"project": "kidney"}, key="held").json()["id"]
    short = world.curator.identity.create_token("ada", Role.ANALYST, days=1).text
    world.clock.advance(days=2)
    assert world.api().post(RESERVATIONS, json=HELD | {"project": "liver"}, key="later").status_code == 201
    world.clock.advance(days=-2)
    api = start(world)
    for asked in ({"project": "kidney"}, {"reservation": held}):
        problem(api.post(RELEASES, json=box(**asked), key="k"), "permit-expired", 403)
    problem(api.get("/v1/me", token=short), "authentication-required", 401)
    assert api.post(RELEASES, json=box(project="liver"), key="liver").status_code == 201
    believe(monkeypatch)
    assert start(world).get("/v1/me", token=short).status_code == 200  # it was two days ahead before
    assert_sound(world)


def test_a_permit_that_was_ended_while_the_clock_was_ahead_stays_ended(world: World) -> None:
    permit = world.permit("kidney", expires_at=timestamp(world.clock.moment + timedelta(days=90)))
    world.clock.advance(days=30)
    assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
    world.clock.advance(days=-30)
    problem(start(world).post(RELEASES, json=box(project="kidney"), key="k"), "permit-needed", 403)
    assert_sound(world)
