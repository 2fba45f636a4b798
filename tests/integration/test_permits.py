"""Permits bind charges: who, what of, how much and until when, decided where the money is counted."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from entry_examples import read as read_entry
from scenes import Gate, assert_sound, await_job, kinds
from support import ADMIN, TERMS, World, body, make_rows, open_world, problem

from curator_service.entries.account import Share
from curator_service.identity.policy import Role
from curator_service.kit.clock import timestamp

RELEASES = "/v1/datasets/cohort/releases"
ASYNC = {"Prefer": "respond-async"}


def buy(world: World, key: str, who: str = "ada", **asked: Any) -> Any:
    asked = {"rows": {"map": "box"}, "price": {"mu": 0.02}, "fresh": True} | asked
    return world.api(who).post(RELEASES, json=body(**asked), key=key)


def end_at(world: World, permit: str, moment: datetime) -> None:
    """Let a permit that was granted end at a moment: as an officer who renews it for a shorter time."""
    asked = TERMS | {"expires_at": timestamp(moment)}
    answer = world.api("olga").post(f"/v1/permits/{permit}", json=asked)
    assert answer.json()["state"] == "applied", answer.text


class TestAsking:
    def test_it_is_granted_by_somebody_else_and_both_are_named(self, both: World) -> None:
        world = both
        world.add_token("olga", Role.PRIVACY_OFFICER)
        proposal = world.api("ada").post("/v1/permits", json=TERMS)
        assert (proposal.status_code, proposal.json()["state"]) == (202, "open")
        assert proposal.json()["terms"]["purpose"] == "kidneys"
        problem(buy(world, "k", project="kidney"), "permit-needed", 403)
        decide = f"/v1/admin/proposals/{proposal.json()['id']}"
        problem(world.api("ada").post(f"{decide}/approve"), "permission-denied", 403)
        granted = world.api("olga").post(f"{decide}/approve", json={"reason": "as discussed"})
        assert (granted.json()["state"], granted.json()["decision"]) == ("approved", "as discussed")
        (permit,) = [p for p in world.api("ada").get("/v1/permits").json()["permits"] if p["project"]]
        assert (permit["people"], permit["datasets"]) == (["ada"], ["cohort"])
        entry = world.entries()[-1]
        assert (entry["kind"], entry["permit"], entry["version"]) == ("permit", permit["id"], 1)
        assert set(entry["people"].values()) == {"ada"}
        assert entry["actor"] != entry["approved_by"]
        assert buy(world, "k", project="kidney").json()["receipt"]["permit"] == permit["id"]
        assert_sound(world)

    def test_whoever_gains_does_not_grant(self, both: World) -> None:
        """Nor does whoever asks: three roles of one person, and of two, are not a second person."""
        world = both
        world.tokens["iris"] = world.curator.identity.create_token("iris", Role.ANALYST, Role.PRIVACY_OFFICER).text
        world.add_token("olga", Role.PRIVACY_OFFICER)
        own = world.api("iris").post("/v1/permits", json=TERMS | {"people": ["iris"]}).json()["id"]
        other = world.api("olga").post("/v1/permits", json=TERMS | {"people": ["iris", "ada"]}).json()["id"]
        for proposal in (own, other):
            problem(world.api("iris").post(f"/v1/admin/proposals/{proposal}/approve"), "second-admin-needed", 403)
        assert [p for p in world.api("olga").get("/v1/permits").json()["permits"] if p["project"]] == []

    def test_it_is_refused_with_a_reason(self, world: World) -> None:
        world.add_token("olga", Role.PRIVACY_OFFICER)
        proposal = world.api("ada").post("/v1/permits", json=TERMS).json()
        before = world.entries()
        decide = f"/v1/admin/proposals/{proposal['id']}/reject"
        refused = world.api("olga").post(decide, json={"reason": "no legal basis"}).json()
        assert (refused["state"], refused["decision"]) == ("rejected", "no legal basis")
        assert world.entries() == before

    @pytest.mark.parametrize(
        ("change", "place"),
        [
            ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
            ({"expires_at": "2099-01-01"}, "/expires_at"),
            ({"expires_at": None}, ""),
            ({"people": ["nobody"]}, "/people"),
            ({"people": ["audra"]}, "/people"),
            ({"people": []}, "/people"),
            ({"people": ["ada", "ada"]}, "/people"),
            ({"datasets": ["nothing"]}, "/datasets"),
            ({"purpose": ""}, ""),
            ({"project": "two words"}, "/project"),
            ({"limit": {"epsilon": 1.0}}, "/limit"),
            ({"reason": ""}, "/reason"),
        ],
        ids=str,
    )
    def test_what_is_not_valid_is_refused(self, world: World, change: dict[str, Any], place: str) -> None:
        before = world.entries()
        refused = problem(world.api("root").post("/v1/permits", json=TERMS | change), "request-invalid", 422)
        assert refused["errors"][0]["pointer"].startswith(place)
        assert world.entries() == before

    def test_what_restricts_holds_at_once_and_what_widens_waits(self, both: World) -> None:
        world = both
        permit = world.permit(people=("ada", "ben"), limit={"mu": 0.1})
        olga, address = world.api("olga"), f"/v1/permits/{permit}"
        terms = TERMS | {"people": ["ada", "ben"], "limit": {"mu": 0.1}}
        for narrower in ({"limit": {"mu": 0.05}}, {"people": ["ada"]}, {"expires_at": "2098-01-01T00:00:00Z"}):
            terms |= narrower
            answer = olga.post(address, json=terms)
            assert (answer.status_code, answer.json()["state"]) == (200, "applied"), narrower
        for wider in ({"limit": {"mu": 0.06}}, {"people": ["ada", "ben"]}, {"expires_at": "2099-01-01T00:00:00Z"}):
            assert olga.post(address, json=terms | wider).status_code == 202, wider
        # Whoever spends under it asks, even for less: other people of the permit are not his to leave out.
        assert world.api("ada").post(address, json=terms | {"limit": {"mu": 0.04}}).status_code == 202
        assert_sound(world)

    def test_a_change_that_was_asked_for_before_another_one_is_not_granted(self, world: World) -> None:
        permit = world.permit(limit={"mu": 0.1})
        asked = world.api("olga").post(f"/v1/permits/{permit}", json=TERMS | {"limit": {"mu": 0.2}}).json()["id"]
        assert world.api("olga").post(f"/v1/permits/{permit}", json=TERMS | {"limit": {"mu": 0.05}}).status_code == 200
        problem(world.api("otto").post(f"/v1/admin/proposals/{asked}/approve"), "proposal-decided", 409)

    def test_a_permit_of_two_populations_has_an_entry_in_each(self, both: World) -> None:
        world = both
        permit = world.permit(datasets=["cohort", "hidden"], limit={"mu": 0.1})
        for population, dataset in (("town", "cohort"), ("valley", "hidden")):
            entry = world.entries(population)[-1]
            assert (entry["permit"], [*entry["datasets"].values()], entry["permit_limit"]) == (
                permit, [dataset], "10000000000",
            )  # fmt: skip
            assert_sound(world, population)
        assert world.api().get("/v1/datasets/hidden").status_code == 200

    def test_others_permits_are_not_there(self, world: World) -> None:
        permit = world.permit(people=["ben"])
        problem(world.api("ada").get(f"/v1/permits/{permit}"), "not-found", 404)
        problem(world.api("ada").post(f"/v1/permits/{permit}", json=TERMS), "not-found", 404)
        assert world.api("audra").get(f"/v1/permits/{permit}").json()["id"] == permit


class TestWhichOne:
    def test_without_a_name_it_is_the_grant_or_the_only_one(self, world: World) -> None:
        plain = buy(world, "k1").json()["receipt"]
        kidney = world.permit()
        assert buy(world, "k2").json()["receipt"]["permit"] == plain["permit"] != kidney
        assert buy(world, "k3", project="kidney").json()["receipt"]["permit"] == kidney
        world.end_grant("ada", world.curator.datasets.list_all()[0].id)
        assert buy(world, "k4").json()["receipt"]["permit"] == kidney

    def test_of_several_projects_one_is_named(self, world: World) -> None:
        world.permit("kidney")
        world.permit("liver")
        world.end_grant("ada", world.curator.datasets.list_all()[0].id)
        refused = problem(buy(world, "k"), "permit-needed", 403)
        assert refused["projects"] == ["kidney", "liver"]
        assert buy(world, "k", project="liver").status_code == 201

    def test_a_project_that_nobody_permitted_is_refused_and_charges_nothing(self, world: World) -> None:
        before = world.entries()
        for path in ("releases", "quotes", "reservations"):
            asked = {"price": {"mu": 0.1}, "expires_in_s": 60} if path == "reservations" else body()
            answer = world.api().post(f"/v1/datasets/cohort/{path}", json=asked | {"project": "typo"}, key="k")
            problem(answer, "permit-needed", 403)
        assert world.entries() == before


class TestTheEnd:
    """Nothing is charged after it, whatever was begun before, and what was released stays."""

    @pytest.fixture
    def lasting(self, tmp_path: Path, database_url: str | None) -> Any:
        with open_world(tmp_path, url=database_url, moment=datetime.now(UTC)) as world:
            world.permit("kidney")
            yield world

    def permit_of(self, world: World) -> str:
        return str(next(p["id"] for p in world.api("audra").get("/v1/permits").json()["permits"] if p["project"]))

    def test_by_the_clock_of_the_service(self, lasting: World) -> None:
        """Which is ahead: the database's own would allow it."""
        world = lasting
        end_at(world, self.permit_of(world), world.clock.moment + timedelta(hours=1))
        first = buy(world, "k1", project="kidney")
        assert first.status_code == 201
        world.clock.advance(hours=1)
        before = world.entries()
        problem(buy(world, "k2", project="kidney"), "permit-expired", 403)
        again = buy(world, "k1", project="kidney")
        assert (again.headers["curator-answer"], again.content) == ("replayed", first.content)
        assert world.api().get(f"/v1/releases/{first.json()['id']}").content == first.content
        assert world.entries() == before
        assert_sound(world)

    def test_by_the_clock_of_the_database(self, lasting: World) -> None:
        """Which is ahead: the service's stands an hour behind."""
        world = lasting
        world.clock.advance(hours=-1)
        end_at(world, self.permit_of(world), datetime.now(UTC) - timedelta(seconds=5))
        before = world.entries()
        problem(buy(world, "k2", project="kidney"), "permit-expired", 403)
        assert world.entries() == before

    def test_a_look_before_it_and_a_charge_after_it(self, lasting: World) -> None:
        """The request has found its permit when it ends: the database decides, in the statement that charges."""
        world = lasting
        permit, api = self.permit_of(world), world.api()
        service = api.app.state.curator.releases
        check, ended = service._check_headroom, []

        def end_after_the_look(*place: Any, **how: Any) -> None:
            check(*place, **how)
            if not ended:
                ended.append(world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code)

        service._check_headroom = end_after_the_look
        before = kinds(world)
        asked = body(project="kidney", fresh=True, rows={"map": "box"})
        problem(api.post(RELEASES, json=asked, key="k"), "permit-needed", 403)
        assert (ended, kinds(world)) == ([200], before)

    @pytest.mark.parametrize("rows", ["box", "ball"])
    def test_the_clock_passes_it_between_the_look_and_the_charge(self, lasting: World, rows: str) -> None:
        world = lasting
        end_at(world, self.permit_of(world), world.clock.moment + timedelta(hours=1))
        api = world.api()
        service = api.app.state.curator.releases
        check = service._check_headroom

        def let_it_pass(*place: Any, **how: Any) -> None:
            check(*place, **how)
            world.clock.advance(hours=1)

        service._check_headroom = let_it_pass
        before = kinds(world)
        asked = body(project="kidney", fresh=True, rows={"map": rows})
        problem(api.post(RELEASES, json=asked, key="k"), "permit-expired", 403)
        assert kinds(world) == before

    def test_a_job_that_is_not_done_gives_back_what_it_held(self, tmp_path: Path, database_url: str | None) -> None:
        gate = Gate()
        with open_world(tmp_path, url=database_url, noise=gate, moment=datetime.now(UTC)) as world:
            permit, api = world.permit(), world.api()
            asked = body(project="kidney", fresh=True)
            job = api.post(RELEASES, json=asked, key="k", headers=ASYNC).json()
            gate.await_entry()
            assert world.account().pending > 0
            assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
            gate.opened.set()
            assert await_job(api, job["id"])["state"] == "expired"
            assert (world.account().posted, world.account().pending) == (0, 0)
            assert kinds(world) == ["reserve", "void"]
            assert_sound(world)

    def test_a_reservation_pays_nothing_and_can_be_given_back(self, lasting: World) -> None:
        world = lasting
        asked = {"price": {"mu": 0.1}, "expires_in_s": 600, "project": "kidney"}
        held = world.api().post("/v1/datasets/cohort/reservations", json=asked, key="r").json()
        end_at(world, self.permit_of(world), world.clock.moment + timedelta(seconds=60))
        world.clock.advance(seconds=61)
        problem(buy(world, "k", reservation=held["id"]), "permit-expired", 403)
        assert world.api().request("DELETE", f"/v1/reservations/{held['id']}").status_code == 200
        assert (world.account().posted, world.account().pending) == (0, 0)
        assert_sound(world)

    def test_ended_its_people_see_nothing_by_it(self, both: World) -> None:
        world = both
        permit = world.permit(datasets=["hidden"])
        assert world.api().get("/v1/datasets/hidden").status_code == 200
        problem(world.api("ada").post(f"/v1/permits/{permit}/end", json={"reason": "x"}), "permission-denied", 403)
        wider = TERMS | {"datasets": ["cohort", "hidden"]}
        before = world.api("olga").post(f"/v1/permits/{permit}", json=wider)
        assert before.status_code == 202
        ended = world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"})
        assert (ended.status_code, ended.json()["people"]) == (200, ["ada"])
        problem(world.api().get("/v1/datasets/hidden"), "dataset-not-found", 404)
        problem(world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "x"}), "permit-ended", 409)
        again = world.api("olga").post(f"/v1/permits/{permit}", json=TERMS | {"datasets": ["hidden"]})
        problem(again, "permit-ended", 409)
        problem(world.api("otto").post(f"/v1/admin/proposals/{before.json()['id']}/approve"), "permit-ended", 409)
        assert_sound(world, "valley")


class TestTheTables:
    """Changes of the tables alone get nothing charged that the chain does not permit."""

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE shares SET limit_units = NULL WHERE permit_id = '{permit}'",
            "UPDATE shares SET limit_units = 20000000000 WHERE permit_id = '{permit}'",
            "UPDATE shares SET expires_at = '2199-01-01T00:00:00Z' WHERE permit_id = '{permit}'",
            "UPDATE grants SET permit_id = '{permit}' FROM principals WHERE id = principal_id AND name = 'ben'",
        ],
    )
    def test_they_are_held_against_the_chain(self, both: World, change: str) -> None:
        world = both
        permit = world.permit(limit={"mu": 0.1})
        world.sql(change.format(permit=permit))
        before = world.account()
        who, project = ("ben", "kidney") if "grants" in change else ("ada", "kidney")
        problem(buy(world, "k", who, project=project), "ledger-unverified", 503)
        assert (world.account().posted, world.account().pending) == (before.posted, before.pending)
        assert permit in world.curator.ledger.guard.reason()

    def test_an_invented_permit_is_none(self, both: World) -> None:
        world, fake = both, "prm_" + "0" * 24
        (dataset,) = world.sql("SELECT id FROM datasets WHERE name = 'cohort'")
        (ada,) = world.sql("SELECT id FROM principals WHERE name = 'ada'")
        world.sql(
            f"INSERT INTO permits VALUES ('{fake}', 1, 'mine', '{{}}', '2026-01-01T00:00:00Z', '')",
            f"INSERT INTO grants (principal_id, dataset_id, permit_id, created_at) "
            f"VALUES ('{ada[0]}', '{dataset[0]}', '{fake}', '2026-01-01T00:00:00Z')",
            f"INSERT INTO shares (population, permit_id, posted_units, pending_units, expires_at) "
            f"VALUES ('town', '{fake}', 0, 0, '')",
        )
        problem(buy(world, "k", project="mine"), "ledger-unverified", 503)


def test_its_limit_binds_all_of_its_people_together(both: World) -> None:
    world = both
    world.permit(people=["ada", "ben"], limit={"mu": 0.03})
    assert buy(world, "k1", "ada", project="kidney").status_code == 201
    refused = problem(buy(world, "k2", "ben", project="kidney", price={"mu": 0.025}), "budget-exceeded", 409)
    assert "the project 'kidney'" in refused["detail"]
    assert buy(world, "k3", "ben", project="kidney").status_code == 201
    assert buy(world, "k4", "ben").status_code == 201  # of his own grant, and of the same account
    assert_sound(world)


def test_grants_of_one_population_are_one_permit(world: World) -> None:
    twin = world.register("twin", "town", make_rows(30, seed=11))
    (before,) = world.api().get("/v1/permits").json()["permits"]
    assert world.grant("ada", twin) == before["id"]
    (after,) = world.api().get("/v1/permits").json()["permits"]
    assert (after["version"], after["datasets"]) == (2, ["cohort", "twin"])
    world.end_grant("ada", twin)
    assert [d["name"] for d in world.api().get("/v1/datasets").json()["datasets"]] == ["cohort"]


def test_what_is_wider_is_what_lets_anybody_do_more() -> None:
    held = Share(10, expires_at="2027", people=frozenset({"a", "b"}), datasets=frozenset({"x"}))
    for change in (
        {"limit": 11}, {"limit": None}, {"expires_at": "2028"}, {"expires_at": ""},
        {"people": frozenset({"a", "c"})}, {"datasets": frozenset({"x", "y"})},
    ):  # fmt: skip
        assert Share(**{**_members(held), **change}).is_wider_than(held), change
    for change in ({"limit": 9}, {"expires_at": "2026"}, {"people": frozenset()}, {"datasets": frozenset()}, {}):
        assert not Share(**{**_members(held), **change}).is_wider_than(held), change
    assert held.is_wider_than(None)


def _members(share: Share) -> dict[str, Any]:
    return {name: getattr(share, name) for name in ("limit", "expires_at", "people", "datasets")}


def test_an_entry_reads_back_as_the_permission_that_it_is(world: World) -> None:
    world.permit(limit={"mu": 0.1})
    read = read_entry(world.entries()[-1]).said.share
    assert (read.limit, read.expires_at, read.datasets) == (10**10, "2099-01-01T00:00:00Z", frozenset({"cohort"}))


def test_roles_that_were_an_admin_s_still_grant_alone_nothing(world: World) -> None:
    """One person with every role but the analyst's asks, and cannot approve."""
    world.add_token("rita", *ADMIN)
    proposal = world.api("rita").post("/v1/permits", json=TERMS).json()["id"]
    problem(world.api("rita").post(f"/v1/admin/proposals/{proposal}/approve"), "second-admin-needed", 403)
