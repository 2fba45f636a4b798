"""Reservations: an amount that an analyst holds for a stated time, and draws releases from."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from scenes import (
    ASYNC,
    RELEASES,
    RESERVATIONS,
    Gate,
    Interrupted,
    assert_sound,
    await_job,
    box,
    checkpoint_of,
    kinds,
    open_reservations,
    register_private,
    seen,
)
from support import ADMIN, Api, World, body, make_rows, open_world, problem

from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

STEP = 10**12 // 2048  # units of µ² in rho = 1/4096, to the unit
BUDGET_STEPS = 64


@pytest.fixture
def reservation_world(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world with a budget of 64 steps, once on each database."""
    with open_world(tmp_path, url=database_url, limit=Price(rho=BUDGET_STEPS / 4096), noise=Interrupted()) as world:
        yield world


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[World]:
    """Return the same on the embedded database alone."""
    with open_world(tmp_path, limit=Price(rho=BUDGET_STEPS / 4096), noise=Interrupted()) as world:
        yield world


def reserve(api: Api, steps: int, key: str = "reserves", **more: Any) -> dict[str, Any]:
    answer = api.post(RESERVATIONS, json=asked(steps, **more), key=key)
    assert answer.status_code == 201, answer.text
    reservation: dict[str, Any] = answer.json()
    return reservation


def asked(steps: int, **more: Any) -> dict[str, Any]:
    return {"price": {"rho": steps / 4096}, "expires_in_s": 3600, **more}


def amounts(reservation: dict[str, Any]) -> tuple[int, ...]:
    """Return what was reserved, what of it is drawn, and what remains, in units."""
    return tuple(int(reservation[name]["units"]) for name in ("reserved", "drawn", "remaining"))


def account(world: World) -> tuple[int, int]:
    found = world.account()
    return found.posted, found.pending


def address(reservation: dict[str, Any]) -> str:
    return f"/v1/reservations/{reservation['id']}"


def test_a_reservation_is_held_drawn_from_and_closed(reservation_world: World) -> None:
    world = reservation_world
    world.permit()
    api = world.api()
    reservation = reserve(api, 20, project="kidney")
    assert {name: reservation[name] for name in ("dataset", "population", "state", "project")} == {
        "dataset": "cohort",
        "population": "town",
        "state": "open",
        "project": "kidney",
    }
    assert (reservation["created_at"], reservation["expires_at"]) == ("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
    receipt = reservation["receipt"]
    assert (receipt["kind"], receipt["reservation"], receipt["units"]) == ("reserve", reservation["id"], str(20 * STEP))
    assert amounts(reservation) == (20 * STEP, 0, 20 * STEP)
    assert account(world) == (0, 20 * STEP)
    bought = [
        api.post(RELEASES, json=request(price={"mu": 0.05}, reservation=reservation["id"]), key=key)
        for key, request in (("box", box), ("ball", body))
    ]
    costs = [int(answer.json()["cost"]["units"]) for answer in bought]
    for answer in bought:
        assert (answer.status_code, answer.json()["receipt"]["project"]) == (201, "kidney")
    assert bought[0].json()["receipt"]["reservation"] == reservation["id"]
    assert bought[1].json()["receipt"]["reservation"].startswith("job_")
    left = 20 * STEP - sum(costs)
    assert amounts(api.get(address(reservation)).json()) == (20 * STEP, sum(costs), left)
    assert account(world) == (sum(costs), left)
    closed = api.request("DELETE", address(reservation))
    assert (closed.status_code, closed.json()["state"], closed.json()["receipt"]) == (200, "closed", receipt)
    assert amounts(closed.json()) == (20 * STEP, sum(costs), 0)
    assert account(world) == (sum(costs), 0)
    assert kinds(world) == ["reserve", "charge", "reserve", "charge", "void"]
    assert_sound(world)


def test_a_key_gives_the_same_bytes_after_everything_that_happens_to_the_reservation(reservation_world: World) -> None:
    world = reservation_world
    api = world.api()
    first = api.post(RESERVATIONS, json=asked(5), key="k")
    released = api.post(RELEASES, json=box(reservation=first.json()["id"], price={"mu": 0.02}), key="r")
    assert released.status_code == 201
    for act in (
        lambda: None,
        lambda: api.request("DELETE", address(first.json())),
        lambda: world.clock.advance(days=9),
    ):
        act()
        again = world.api().post(RESERVATIONS, json=asked(5), key="k")
        assert (again.status_code, again.content) == (201, first.content)
        replayed = api.post(RELEASES, json=box(reservation=first.json()["id"], price={"mu": 0.02}), key="r")
        assert (replayed.headers["curator-answer"], replayed.content) == ("replayed", released.content)
    assert kinds(world) == ["reserve", "charge", "void"]
    for other in (asked(6), asked(5, project="kidney"), asked(5) | {"expires_in_s": 60}):
        problem(api.post(RESERVATIONS, json=other, key="k"), "idempotency-key-reused", 422)
    problem(api.post(RELEASES, json=box(), key="k"), "idempotency-key-reused", 422)
    problem(api.post(RESERVATIONS, json=asked(5), key="r"), "idempotency-key-reused", 422)
    assert world.api("ben").post(RESERVATIONS, json=asked(5), key="k").json()["id"] != first.json()["id"]


def test_a_reservation_pays_no_more_than_it_holds(reservation_world: World) -> None:
    """What the account has beside it does not count, and the refusal says what the reservation has."""
    world = reservation_world
    api = world.api()
    reservation = reserve(api, 6)
    before = world.entries()
    for request in (box, body):
        dear = request(price={"rho": 7 / 4096}, reservation=reservation["id"], fresh=True)
        refused = problem(api.post(RELEASES, json=dear, key="k"), "budget-exceeded", 409)
        assert int(refused["remaining"]["units"]) == 6 * STEP
        assert reservation["id"] in refused["detail"]
    assert world.entries() == before
    largest = {"rho": refused["largest"]["rho"]}
    bought = api.post(RELEASES, json=box(price=largest, reservation=reservation["id"]), key="k")
    assert bought.status_code == 201
    left = 6 * STEP - int(bought.json()["cost"]["units"])
    assert 0 <= left < STEP // 100
    refused = api.post(RELEASES, json=box(reservation=reservation["id"], fresh=True), key="k2")
    assert int(problem(refused, "budget-exceeded", 409)["remaining"]["units"]) == left
    assert_sound(world)


def test_what_a_reservation_holds_is_kept_from_everybody_else(embedded: World) -> None:
    world = embedded
    reserve(world.api(), 60)
    for who in ("ada", "ben"):
        dear = box(price={"rho": 5 / 4096})
        refused = problem(world.api(who).post(RELEASES, json=dear, key="k"), "budget-exceeded", 409)
        assert int(refused["remaining"]["units"]) == 4 * STEP
        held = problem(world.api(who).post(RESERVATIONS, json=asked(5), key="s"), "budget-exceeded", 409)
        assert int(held["remaining"]["units"]) == 4 * STEP
        assert int(held["requested"]["units"]) == 5 * STEP
    assert reserve(world.api("ben"), 4)["state"] == "open"
    assert account(world) == (0, 64 * STEP)


@pytest.mark.parametrize("price", [{"mu": 9e-7}, {"rho": 1e-13}, {"mu": 1e-300}], ids=str)
def test_an_amount_below_the_smallest_unit_is_no_reservation(reservation_world: World, price: dict[str, float]) -> None:
    """An entry of nothing would break the chain for good."""
    world = reservation_world
    before = world.entries()
    asked_for = {"price": price, "expires_in_s": 60}
    problem(world.api().post(RESERVATIONS, json=asked_for, key="k"), "request-invalid", 422)
    assert world.entries() == before
    assert reserve(world.api(), 1, "k")["state"] == "open"
    assert_sound(world)


def test_a_reservation_of_somebody_else_is_not_there(reservation_world: World) -> None:
    world = reservation_world
    reservation = reserve(world.api(), 20)
    ben, unknown = world.api("ben"), "res_000000000000000000000000"
    for name in (reservation["id"], unknown, "res_0", "job_000000000000000000000000", "%00"):
        problem(ben.get(f"/v1/reservations/{name}"), "reservation-not-found", 404)
        problem(ben.request("DELETE", f"/v1/reservations/{name}"), "reservation-not-found", 404)
    for name, request in product((reservation["id"], unknown), (box, body)):
        problem(ben.post(RELEASES, json=request(reservation=name), key="k"), "reservation-not-found", 404)
    details = [ben.get(f"/v1/reservations/{name}").json()["detail"] for name in (reservation["id"], unknown)]
    assert details[0] == details[1]
    problem(world.api("audra").get(address(reservation)), "permission-denied", 403)
    assert account(world) == (0, 20 * STEP)


def test_an_admin_sees_and_ends_anybodys_reservation_so_that_nobody_hoards(reservation_world: World) -> None:
    world = reservation_world
    reservation, admin = reserve(world.api(), 20), world.api("root")
    assert admin.get(address(reservation)).json()["state"] == "open"
    problem(admin.post(RESERVATIONS, json=asked(1), key="k"), "permission-denied", 403)
    problem(admin.post(RELEASES, json=box(reservation=reservation["id"]), key="k"), "permission-denied", 403)
    assert admin.request("DELETE", address(reservation)).json()["state"] == "closed"
    problem(world.api().request("DELETE", address(reservation)), "reservation-ended", 409)
    assert account(world) == (0, 0)
    assert world.entries()[-1]["actor"] != world.entries()[-1]["holder"]
    assert_sound(world)


def test_a_reservation_pays_for_every_dataset_of_its_people_and_for_no_others(embedded: World) -> None:
    world = embedded
    twin = world.register("twin", "town", make_rows(30, seed=11))
    hidden = next(d.id for d in world.curator.datasets.list_all() if d.name == "hidden")
    for dataset in (twin, hidden):
        world.grant("ada", dataset)
    reservation, api = reserve(world.api(), 20), world.api()
    assert api.post("/v1/datasets/twin/releases", json=box(reservation=reservation["id"]), key="k1").status_code == 201
    other = api.post("/v1/datasets/hidden/releases", json=box(reservation=reservation["id"]), key="k2")
    problem(other, "reservation-not-found", 404)
    assert account(world)[0] > 0
    assert world.account("valley").posted == 0


def test_a_reservation_is_of_one_project(embedded: World) -> None:
    embedded.permit()
    api = embedded.api()
    reservation = reserve(api, 20, project="kidney")
    wrong = api.post(RELEASES, json=box(reservation=reservation["id"], project="liver"), key="k")
    problem(wrong, "reservation-not-found", 404)
    right = api.post(RELEASES, json=box(reservation=reservation["id"], project="kidney"), key="k")
    assert right.json()["receipt"]["project"] == "kidney"


def test_a_reservation_whose_time_is_over_pays_nothing_even_before_it_is_closed(reservation_world: World) -> None:
    world = reservation_world
    api = world.api()
    reservation = reserve(api, 20)
    world.clock.advance(seconds=3599)
    assert api.post(RELEASES, json=box(reservation=reservation["id"]), key="k0").status_code == 201
    world.clock.advance(seconds=1)
    for request in (box, body):
        late = api.post(RELEASES, json=request(reservation=reservation["id"], fresh=True), key="k")
        problem(late, "reservation-ended", 409)
    assert world.curator.job_runner.sweep() == [reservation["id"]]
    assert world.curator.job_runner.sweep() == []
    assert api.get(address(reservation)).json()["state"] == "expired"
    assert account(world)[1] == 0
    problem(api.request("DELETE", address(reservation)), "reservation-ended", 409)
    problem(api.post(RELEASES, json=box(reservation=reservation["id"], fresh=True), key="k"), "reservation-ended", 409)
    assert world.entries()[-1]["outcome"] == "expired"
    assert_sound(world)


def test_a_closed_reservation_serves_what_is_stored(embedded: World) -> None:
    """An answer that costs nothing needs nobody to pay."""
    api = embedded.api()
    reservation = reserve(api, 20)
    first = api.post(RELEASES, json=box(reservation=reservation["id"]), key="k1")
    api.request("DELETE", address(reservation))
    problem(api.request("DELETE", address(reservation)), "reservation-ended", 409)
    stored = api.post(RELEASES, json=box(reservation=reservation["id"]), key="k2")
    assert (stored.status_code, stored.content) == (200, first.content)


def test_a_reservation_that_is_closed_in_the_instant_of_a_charge_pays_nothing(reservation_world: World) -> None:
    """The request looked while it was open; the database decides."""
    world = reservation_world
    api = world.api()
    reservation = reserve(api, 20)
    service = api.app.state.curator.releases
    check, closed = service._check_headroom, []

    def close_after_the_look(*place: Any, **how: Any) -> None:
        check(*place, **how)
        if not closed:
            closed.append(world.api().request("DELETE", address(reservation)).status_code)

    service._check_headroom = close_after_the_look
    for request in (box, body):
        refused = api.post(RELEASES, json=request(reservation=reservation["id"]), key="k")
        problem(refused, "reservation-ended", 409)
    assert closed == [200]
    assert (account(world), kinds(world)) == ((0, 0), ["reserve", "void"])
    assert_sound(world)


@pytest.mark.parametrize("ends", ["used up", "closed"])
def test_an_answer_that_ends_a_reservation_is_found_by_whoever_asks_the_same_at_once(
    reservation_world: World, ends: str
) -> None:
    """The other one looked for an answer before there was one, and at the reservation when nothing was left."""
    world = reservation_world
    api = world.api()
    reservation = reserve(api, 20)
    asked_for = body(reservation=reservation["id"], price={"rho": 20 / 4096 if ends == "used up" else 1 / 4096})
    service = api.app.state.curator.releases
    check, first = service._check_headroom, []

    def look_late(*place: Any, **how: Any) -> None:
        if not first:
            first.append(None)
            first[0] = world.api().post(RELEASES, json=asked_for, key="first")
            if ends == "closed":
                assert world.api().request("DELETE", address(reservation)).status_code == 200
        check(*place, **how)

    service._check_headroom = look_late
    answer = api.post(RELEASES, json=asked_for, key="second")
    assert (answer.status_code, answer.content) == (200, first[0].content), answer.text
    assert kinds(world).count("charge") == 1
    assert_sound(world)


@pytest.mark.parametrize("ends", ["closed", "expired"])
def test_a_job_of_a_reservation_that_ends_meanwhile_keeps_what_it_holds(
    tmp_path: Path, database_url: str | None, ends: str
) -> None:
    gate = Gate()
    with open_world(tmp_path, url=database_url, noise=gate) as world:
        api = world.api()
        reservation = reserve(api, 20)
        jobs = [
            api.post(RELEASES, json=body(reservation=reservation["id"], fresh=True), key=f"k{i}", headers=ASYNC).json()
            for i in range(2)
        ]
        held = open_reservations(world)
        gate.await_entry()
        if ends == "closed":
            assert api.request("DELETE", address(reservation)).status_code == 200
        else:
            world.clock.advance(hours=2)
            assert world.curator.job_runner.sweep() == [reservation["id"]]
        cost = held[jobs[0]["id"]]
        assert account(world) == (0, 2 * cost)
        assert api.get(address(reservation)).json()["state"] == ends
        assert amounts(api.get(address(reservation)).json()) == (20 * STEP, 2 * cost, 0)
        assert api.request("DELETE", f"/v1/jobs/{jobs[1]['id']}").status_code == 200
        assert account(world) == (0, cost)  # the account has it, for the reservation is over
        gate.opened.set()
        assert await_job(api, jobs[0]["id"])["state"] == "done"
        assert account(world) == (cost, 0)
        assert_sound(world)


def test_a_job_that_is_given_up_gives_back_to_its_reservation(reservation_world: World) -> None:
    world = reservation_world
    api = world.api()
    reservation = reserve(api, 20)
    world.noise.breaks = "a row"
    assert api.post(RELEASES, json=body(reservation=reservation["id"]), key="k").status_code == 500
    assert amounts(api.get(address(reservation)).json()) == (20 * STEP, 0, 20 * STEP)
    assert account(world) == (0, 20 * STEP)
    assert world.entries()[-1]["to"] == reservation["id"]
    world.noise.breaks = ""
    assert api.post(RELEASES, json=body(reservation=reservation["id"]), key="k").status_code == 201
    assert_sound(world)


# --- Limits of permits


def limit(world: World, steps: int, project: str | None = None, *, who: str = "root") -> Any:
    """Set the limit of the account, or of ada's permit: of a project, or the one that she has without."""
    asked_for: dict[str, Any] = {"limit": {"rho": steps / 4096}, "reason": "parts"}
    if project is None:
        return world.api(who).post("/v1/admin/populations/town/limits", json=asked_for)
    permits = world.api("ada").get("/v1/permits").json()["permits"]
    (permit,) = (permit for permit in permits if permit["project"] == project)
    named = ("project", "people", "datasets", "purpose", "legal_basis")
    asked_for |= {name: permit[name] for name in named}
    asked_for |= {"expires_at": permit["expires_at"]} if permit["expires_at"] else {}
    return world.api(who).post(f"/v1/permits/{permit['id']}", json=asked_for)


@pytest.mark.parametrize("label", ["", "kidney"])
def test_a_part_binds_reservations_jobs_and_releases_alike(reservation_world: World, label: str) -> None:
    world = reservation_world
    world.permit()
    api = world.api()
    assert limit(world, 10, label).status_code == 200
    project = {"project": label} if label else {}
    reservation = reserve(api, 6, **project)
    refused = problem(api.post(RESERVATIONS, json=asked(5, **project), key="s2"), "budget-exceeded", 409)
    assert int(refused["remaining"]["units"]) == 4 * STEP
    for request in (box, body):
        dear = request(price={"rho": 5 / 4096}, **project)
        refused = problem(api.post(RELEASES, json=dear, key="k"), "budget-exceeded", 409)
        assert int(refused["remaining"]["units"]) == 4 * STEP
    assert api.post(RELEASES, json=box(price={"rho": 3 / 4096}, **project), key="k").status_code == 201
    # What is reserved was counted when it was reserved: nothing is asked again.
    drawn = box(price={"rho": 5 / 4096}, reservation=reservation["id"])
    assert api.post(RELEASES, json=drawn, key="k2").status_code == 201
    free = world.api("ben").post(RELEASES, json=box(price={"rho": 9 / 4096}), key="k")
    assert free.status_code == 201  # neither his nor of the project
    assert_sound(world)


def test_a_part_never_falls_below_what_is_spent_and_held_and_rises_with_two_admins(reservation_world: World) -> None:
    world = reservation_world
    world.add_token("rita", *ADMIN)
    world.permit()
    reservation = reserve(world.api(), 20, project="kidney")
    for project in (None, "kidney"):
        problem(limit(world, 19, project), "limit-conflict", 409)
        assert limit(world, 20, project).status_code == 200
        raised = limit(world, 30, project)
        assert (raised.status_code, raised.json()["state"]) == (202, "open")
        decide = f"/v1/admin/proposals/{raised.json()['id']}/approve"
        problem(world.api().post(RESERVATIONS, json=asked(1, project="kidney"), key="s2"), "budget-exceeded", 409)
        problem(world.api().post(decide), "permission-denied", 403)
        problem(world.api("root").post(decide), "second-admin-needed", 403)
        assert world.api("rita").post(decide).json()["state"] == "approved"
        assert world.api("rita").post(decide).json()["state"] == "approved"  # the same act, asked for again
        problem(world.api("rita").post(decide, json={"reason": "another"}), "proposal-decided", 409)
    entry = world.entries()[-1]
    assert {entry["actor"], entry["approved_by"]} == {
        p.id for p in world.curator.identity.list_principals() if Role.OPERATOR in p.roles
    }
    assert reserve(world.api(), 10, "s2", project="kidney")["state"] == "open"
    assert world.api().request("DELETE", address(reservation)).status_code == 200
    assert_sound(world)


def test_every_view_states_the_highest_limit_that_there_was(both: World) -> None:
    """The guarantee is that of the highest limit ever set: lowered or not, and raised to less than it was."""
    world = both
    world.add_token("rita", *ADMIN)

    def stated() -> set[tuple[int, int]]:
        views = world.api().get("/v1/datasets/cohort/budget"), world.api("audra").get("/v1/ledger/town")
        assert_sound(world)
        found = {(int(v.json()["limit"]["units"]), int(v.json()["highest_limit"]["units"])) for v in views}
        return found | {(world.account().limit, world.account().highest_limit)}

    (opened,) = {limit for limit, _ in stated()}
    assert stated() == {(opened, opened)}
    for steps, highest in ((10, opened), (50, opened), (400, 400 * STEP), (300, 400 * STEP)):
        raised = limit(world, steps)
        if raised.status_code == 202:
            assert world.api("rita").post(f"/v1/admin/proposals/{raised.json()['id']}/approve").status_code == 200
        assert stated() == {(steps * STEP, highest)}
    # A part that an analyst has is no promise to anybody.
    assert limit(world, 290, "").status_code == 200
    assert stated() == {(300 * STEP, 400 * STEP)}


def test_an_approval_is_of_the_limit_that_was_seen(embedded: World) -> None:
    """Two raises that were proposed beside each other do not add up, nor does one undo a lowering in between."""
    world = embedded
    world.add_token("rita", *ADMIN)
    first, second = (limit(world, steps).json()["id"] for steps in (80, 90))
    assert limit(world, 70, "").status_code == 200
    other = limit(world, 75, "").json()["id"]
    assert world.api("rita").post(f"/v1/admin/proposals/{first}/approve").status_code == 200
    problem(world.api("rita").post(f"/v1/admin/proposals/{second}/approve"), "proposal-decided", 409)
    third, fourth = (limit(world, steps).json()["id"] for steps in (100, 110))
    assert world.api("root").post(f"/v1/admin/proposals/{fourth}/reject").json()["state"] == "withdrawn"
    assert limit(world, 10).status_code == 200
    problem(world.api("rita").post(f"/v1/admin/proposals/{third}/approve"), "proposal-decided", 409)
    assert world.account().limit == 10 * STEP
    shown = world.api("root").get("/v1/admin/proposals").json()["proposals"]
    states = {proposal["id"]: proposal["state"] for proposal in shown}
    assert [states[one] for one in (first, second, third, fourth, other)] == [
        "approved",
        "superseded",
        "superseded",
        "withdrawn",
        "open",
    ]
    assert world.api("rita").post(f"/v1/admin/proposals/{other}/approve").status_code == 200
    assert_sound(world)


def test_a_receipt_of_a_reservation_is_a_checkpoint(embedded: World) -> None:
    reservation = reserve(embedded.api(), 5)
    headers = seen(checkpoint_of(reservation["receipt"]))
    assert embedded.api().post(RELEASES, json=box(), key="k", headers=headers).status_code == 201


def test_reservations_of_a_private_dataset_are_like_any_other(embedded: World) -> None:
    private = register_private(embedded, "ada")
    api = embedded.api()
    reservation = api.post(f"{private}/reservations", json=asked(20), key="s").json()
    bought = api.post(f"{private}/releases", json=box(reservation=reservation["id"]), key="k")
    assert (reservation["dataset"], bought.status_code) == ("private", 201)
