"""Attacks on permits: what one person, an unlucky moment, or two at once must not bring about."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scenes import Gate, assert_sound, await_job, kinds
from support import TERMS, World, body, make_rows, open_population, open_world, problem
from test_seal_and_recovery import account_for, restore

from analyst_client.admin import command as admin_command
from curator_service.backup import write_backup
from curator_service.entries.terms import Permit
from curator_service.identity.policy import Role
from curator_service.kit.clock import timestamp
from curator_service.privacy.accountant import Price

RELEASES = "/v1/datasets/cohort/releases"
ASYNC = {"Prefer": "respond-async"}
ASKED = TERMS | {"people": ["ada", "ben"]}


def buy(world: World, key: str, who: str = "ada", **asked: Any) -> Any:
    asked = {"rows": {"map": "box"}, "price": {"mu": 0.02}, "fresh": True, "project": "kidney"} | asked
    return world.api(who).post(RELEASES, json=body(**asked), key=key)


def leave_out(world: World, permit: str, **change: Any) -> None:
    answer = world.api("olga").post(f"/v1/permits/{permit}", json=ASKED | change)
    assert answer.json()["state"] == "applied", answer.text


def rename(world: World, permit: str) -> None:
    asked = world.api("olga").post(f"/v1/permits/{permit}", json=ASKED | {"project": "liver"}).json()
    assert world.api("otto").post(f"/v1/admin/proposals/{asked['id']}/approve").status_code == 200


@pytest.fixture
def now(tmp_path: Path, database_url: str | None) -> Any:
    with open_world(tmp_path, url=database_url, moment=datetime.now(UTC)) as world:
        yield world


class TestTheEnd:
    def test_ending_what_has_expired_leaves_a_ledger_that_holds(self, now: World) -> None:
        world = now
        end = timestamp(world.clock.moment + timedelta(hours=1))
        permit = world.permit(expires_at=end)
        world.clock.advance(hours=2)
        ended = world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "tidy up"})
        assert ended.status_code == 200
        assert_sound(world)


class TestLeavingOut:
    """A permit that goes on is changed so that somebody, or a dataset, is not in it any more."""

    def test_a_job_in_flight_ends_and_seals_nothing(self, tmp_path: Path, database_url: str | None) -> None:
        gate = Gate()
        with open_world(tmp_path, url=database_url, noise=gate, moment=datetime.now(UTC)) as world:
            permit, api = world.permit(people=["ada", "ben"]), world.api("ada")
            asked = body(project="kidney", fresh=True)
            job = api.post(RELEASES, json=asked, key="k", headers=ASYNC).json()
            gate.await_entry()
            leave_out(world, permit, people=["ben"])
            gate.opened.set()
            assert await_job(api, job["id"])["state"] == "expired"
            assert world.curator.ledger.guard.reason() == ""
            assert (world.account().posted, world.account().pending) == (0, 0)
            assert_sound(world)

    @pytest.mark.parametrize("rows", ["box", "ball"])
    def test_between_the_look_and_the_charge_seals_nothing(self, now: World, rows: str) -> None:
        """At ``ball`` something is reserved first: an entry that would not hold afterwards."""
        world = now
        permit, api = world.permit(people=["ada", "ben"]), world.api("ada")
        service = api.app.state.curator.releases
        check, done = service._check_headroom, []

        def leave_out_after_the_look(*place: Any, **how: Any) -> None:
            check(*place, **how)
            if not done:
                done.append(True)
                leave_out(world, permit, people=["ben"])

        service._check_headroom = leave_out_after_the_look
        before = kinds(world)
        answer = api.post(RELEASES, json=body(project="kidney", fresh=True, rows={"map": rows}), key="k")
        assert world.curator.ledger.guard.reason() == ""
        problem(answer, "permit-needed", 403)
        assert kinds(world) == before
        assert_sound(world)

    @pytest.mark.parametrize(("rows", "told"), [("box", "permit-needed"), ("ball", "permit-expired")])
    def test_another_project_between_the_look_and_the_charge_seals_nothing(
        self, now: World, rows: str, told: str
    ) -> None:
        world = now
        permit, api = world.permit(people=["ada", "ben"]), world.api("ada")
        service = api.app.state.curator.releases
        check, done = service._check_headroom, []

        def rename_after_the_look(*place: Any, **how: Any) -> None:
            check(*place, **how)
            if not done:
                done.append(True)
                rename(world, permit)

        service._check_headroom = rename_after_the_look
        answer = api.post(RELEASES, json=body(project="kidney", fresh=True, rows={"map": rows}), key="k")
        assert world.curator.ledger.guard.reason() == ""
        problem(answer, told, 403)
        assert world.account().posted == 0
        assert_sound(world)

    def test_what_is_held_goes_by_the_project_that_it_was_held_for(self, now: World) -> None:
        world = now
        permit = world.permit(people=["ada", "ben"])
        asked = {"price": {"mu": 0.05}, "expires_in_s": 600, "project": "kidney"}
        held = world.api().post("/v1/datasets/cohort/reservations", json=asked, key="held").json()["id"]
        rename(world, permit)
        drawn = body(price={"mu": 0.02}, reservation=held, fresh=True)
        assert world.api().post(RELEASES, json=drawn, key="drawn").status_code == 201
        assert world.entries()[-1]["project"] == "kidney"
        problem(buy(world, "old"), "permit-needed", 403)
        assert buy(world, "new", project="liver").status_code == 201
        assert_sound(world)

    @pytest.mark.parametrize("rows", ["box", "ball"])
    def test_a_row_with_another_project_is_charged_for_nothing(self, now: World, rows: str) -> None:
        """Else a signed entry would say what no officer granted."""
        world = now
        permit = world.permit(people=["ada", "ben"])
        world.sql(f"UPDATE permits SET project = 'liver' WHERE id = '{permit}'")
        assert buy(world, "k", project="liver", rows={"map": rows}).status_code in {403, 503}
        assert world.account().posted == 0
        assert "charge" not in {entry["kind"] for entry in world.entries()}
        assert_sound(world)

    def test_a_reservation_of_an_analyst_at_that_moment_leaves_a_ledger_that_holds(self, now: World) -> None:
        world = now
        permit, api = world.permit(people=["ada", "ben"]), world.api("ada")
        service = api.app.state.curator.reservations
        choose, done = service.permits.choose, []

        def leave_out_after_the_look(*asked: Any) -> Any:
            found = choose(*asked)
            if not done:
                done.append(True)
                leave_out(world, permit, people=["ben"])
            return found

        service.permits.choose = leave_out_after_the_look
        asked = {"price": {"mu": 0.1}, "expires_in_s": 600, "project": "kidney"}
        problem(api.post("/v1/datasets/cohort/reservations", json=asked, key="r"), "permit-needed", 403)
        assert_sound(world)


class TestOnePersonAlone:
    @pytest.mark.parametrize(
        "change", [{"purpose": "insurance"}, {"legal_basis": "none"}, {"conditions": ""}, {"project": "liver"}], ids=str
    )
    def test_what_it_is_for_is_not_rewritten_by_one_officer(self, both: World, change: dict[str, str]) -> None:
        permit = both.permit(people=["ada", "ben"], conditions="nothing about named hospitals")
        terms = ASKED | {"conditions": "nothing about named hospitals"} | change
        assert both.api("olga").post(f"/v1/permits/{permit}", json=terms).json()["state"] == "open"


class TestWhatIsSent:
    @pytest.mark.parametrize("name", ["%00", "prm_%00", "a" * 5000, "%F0%9F%92%A9", "..%2f.."])
    def test_a_permit_of_no_name_is_not_there(self, now: World, name: str) -> None:
        now.add_token("olga", Role.PRIVACY_OFFICER)
        api = now.api("olga")
        assert api.get(f"/v1/permits/{name}").status_code == 404
        assert api.post(f"/v1/permits/{name}", json=ASKED).status_code == 404
        assert api.post(f"/v1/permits/{name}/end", json={"reason": "x"}).status_code == 404


class TestSeveralOfOneProject:
    def test_one_that_is_used_up_does_not_hide_another(self, world: World) -> None:
        """A project that was given more, as a second permit: requests can name the project alone."""
        for limit in (0.021, 0.021, 0.021, 0.021):
            world.permit("kidney", limit={"mu": limit})
        for number in range(4):
            answer = buy(world, f"k{number}")
            assert answer.status_code == 201, (number, answer.text)


class TestFlood:
    def test_an_analyst_does_not_push_what_waits_out_of_sight(self, world: World) -> None:
        world.add_token("olga", Role.PRIVACY_OFFICER)
        olga, ben = world.api("olga"), world.api("ben")
        wanted = world.api("ada").post("/v1/permits", json=ASKED).json()["id"]
        sent = [ben.post("/v1/permits", json=ASKED | {"people": ["ben"]}) for _ in range(22)]
        assert [answer.status_code for answer in sent] == [202] * 20 + [409] * 2
        for answer in sent[:20]:
            olga.post(f"/v1/admin/proposals/{answer.json()['id']}/reject")
        listed = olga.get("/v1/admin/proposals").json()["proposals"]
        assert listed[0]["id"] == wanted


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        ["\u2028\u2029\u0085", "\ufeff\ufffe\uffff", "🧬" * 500, '"kind":"reconcile"', "%_\\' \" {0}", "\x80\x9b2J"],
    )
    def test_odd_ones_leave_a_ledger_that_holds(self, both: World, text: str) -> None:
        permit = both.permit(purpose=text, legal_basis=text, conditions=text, reason=text)
        assert buy(both, "k").status_code == 201
        assert both.api().get(f"/v1/permits/{permit}").json()["purpose"] == text
        assert_sound(both)

    @pytest.mark.parametrize("raw", ["\\ud800", "\\u0000", "\\udfff\\ud800", "\\u001b"])
    def test_what_is_no_text_is_refused(self, both: World, raw: str) -> None:
        content = json.dumps(ASKED | {"purpose": "X"}).replace("X", raw)
        assert both.api().post(
            "/v1/permits", content=content, headers={"content-type": "application/json"}
        ).status_code in {400, 422}

    def test_the_officer_s_command_shows_no_control_characters(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """C1 characters and those that turn a line around are in texts of people; JSON writes them as they are."""
        admin_command._show({"purpose": "a\x9b2Jb\u202ec"}, as_json=True)
        written = capsys.readouterr().out
        assert not {"\x9b", "\u202e"} & set(written)
        assert json.loads(written) == {"purpose": "a\x9b2Jb\u202ec"}


def test_a_hundred_people_and_a_hundred_datasets(both: World) -> None:
    world = both
    for number in range(2, 40):
        world.add_token(f"p{number}", Role.ANALYST)
    names = [f"p{number}" for number in range(2, 40)] + ["ada"]
    world.permit(people=names, datasets=["cohort", "hidden"])
    assert buy(world, "k").status_code == 201
    assert_sound(world)
    assert_sound(world, "valley")


class TestMixedAccounts:
    def test_a_limit_that_one_account_lacks_is_refused_and_writes_nothing(self, both: World) -> None:
        world = both
        open_population(world.curator, "pure", Price(epsilon=1.0), accountant="pure")
        world.register("strict", "pure", make_rows(30, seed=12))
        world.add_token("olga", Role.PRIVACY_OFFICER)
        for limit in ({"mu": 0.1}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}):
            refused = world.api("olga").post(
                "/v1/permits", json=ASKED | {"datasets": ["cohort", "strict"], "limit": limit}
            )
            assert refused.status_code == 422, refused.text
        world.permit(datasets=["cohort", "strict"])
        for population in ("town", "pure"):
            assert_sound(world, population)


class TestRestore:
    @pytest.fixture
    def elsewhere(self, request: pytest.FixtureRequest, database_url: str | None) -> str | None:
        """The other database: what is saved of one is restored into the other one."""
        return request.getfixturevalue("empty_postgres_url") if database_url is None else None

    def test_a_permit_moves_with_its_ends_and_what_was_ended_since_is_as_the_backup_has_it(
        self, both: World, elsewhere: str | None
    ) -> None:
        world = both
        permit = world.permit(limit={"mu": 0.1})
        other = world.permit("liver", datasets=["cohort", "hidden"])
        assert buy(world, "k1").status_code == 201
        write_backup(world.curator, world.folder / "backup.tar")
        assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
        restored = restore(world, world.folder / "backup.tar", url=elsewhere)
        account_for(restored)
        assert_sound(restored)
        assert_sound(restored, "valley")
        assert buy(restored, "k2", project="liver").json()["receipt"]["permit"] == other
        # The restored chain knows of no end: docs/permits.md says to look, and what to do.
        assert buy(restored, "k3").status_code == 201


class TestClocks:
    def test_an_end_by_a_clock_that_is_ahead_holds_at_once(self, tmp_path: Path, database_url: str | None) -> None:
        """Its moment is in the future of whoever charges: what nobody may use any more is not charged all the same."""
        gate = Gate()
        with open_world(tmp_path, url=database_url, noise=gate, moment=datetime.now(UTC)) as world:
            permit, api = world.permit(), world.api("ada")
            job = api.post(RELEASES, json=body(project="kidney", fresh=True), key="k", headers=ASYNC).json()
            gate.await_entry()
            world.clock.advance(hours=1)
            assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
            world.clock.advance(hours=-1)
            gate.opened.set()
            assert await_job(api, job["id"])["state"] == "expired"
            assert world.curator.ledger.guard.reason() == ""
            assert_sound(world)


class TestRaces:
    def test_ends_and_changes_at_once(self, both: World) -> None:
        world = both
        permit = world.permit("kidney", datasets=["cohort", "hidden"], limit={"mu": 0.5})
        terms = ASKED | {"people": ["ada"], "datasets": ["cohort", "hidden"], "limit": {"mu": 0.4}}
        acts = [
            (f"/v1/permits/{permit}/end", {"reason": "over"}),
            (f"/v1/permits/{permit}", terms),
            (f"/v1/permits/{permit}", terms | {"datasets": ["hidden"]}),
            (f"/v1/permits/{permit}", terms | {"datasets": ["cohort"], "limit": {"mu": 0.3}}),
        ]
        apis = [_warm(world, "olga") for _ in acts]
        with ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(
                    lambda place: place[0].post(place[1][0], json=place[1][1]).status_code, zip(apis, acts, strict=True)
                )
            )
        assert set(found) <= {200, 202, 409}, found
        assert_sound(world)
        assert_sound(world, "valley")

    def test_a_population_whose_datasets_all_leave_a_permit(self, both: World) -> None:
        permit = both.permit("kidney", datasets=["cohort", "hidden"], limit={"mu": 0.5})
        terms = ASKED | {"people": ["ada"], "datasets": ["cohort"], "limit": {"mu": 0.3}}
        assert both.api("olga").post(f"/v1/permits/{permit}", json=terms).status_code == 200
        assert_sound(both)
        assert_sound(both, "valley")

    def test_charges_while_permits_of_two_populations_change(self, both: World) -> None:
        world = both
        world.permit("kidney", datasets=["cohort", "hidden"])
        permits = [world.permit(f"p{n}", datasets=["cohort", "hidden"], limit={"mu": 0.5}) for n in range(3)]
        answers: list[int] = []

        officers, analysts = [_warm(world, "olga") for _ in range(3)], [_warm(world, "ada") for _ in range(4)]

        def change(n: int) -> None:
            api = officers[n]
            for mu in (0.45, 0.4, 0.35):
                terms = ASKED | {
                    "project": f"p{n}",
                    "people": ["ada"],
                    "datasets": ["cohort", "hidden"],
                    "limit": {"mu": mu},
                }
                answers.append(api.post(f"/v1/permits/{permits[n]}", json=terms).status_code)

        def spend(n: int) -> None:
            api = analysts[n]
            dataset = ("cohort", "hidden")[n % 2]
            for k in range(4):
                asked = body(rows={"map": "box"}, price={"mu": 0.02}, fresh=True, project="kidney")
                answers.append(api.post(f"/v1/datasets/{dataset}/releases", json=asked, key=f"{n}-{k}").status_code)

        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda act: act(),
                    [lambda n=n: change(n) for n in range(3)] + [lambda n=n: spend(n) for n in range(4)],
                )
            )
        assert set(answers) <= {200, 201}, answers
        assert_sound(world)
        assert_sound(world, "valley")


def _warm(world: World, who: str) -> Any:
    """Return a client whose application has looked at its functions: it does so at its first request."""
    api = world.api(who)
    assert api.get("/v1/permits").status_code == 200
    assert api.post("/v1/permits/nothing/end", json={"reason": "over"}).status_code in {403, 404}
    return api


class TestAfterTheEnd:
    def test_what_a_reservation_held_goes_back(self, now: World) -> None:
        """docs/permits.md: "held amounts of jobs and reservations go back to the account"."""
        world = now
        permit = world.permit()
        asked = {"price": {"mu": 0.1}, "expires_in_s": 86400, "project": "kidney"}
        assert world.api().post("/v1/datasets/cohort/reservations", json=asked, key="r").status_code == 201
        world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"})
        assert len(world.curator.job_runner.sweep()) == 1
        assert world.account().pending == 0


class TestWhatIsSaid:
    def test_an_analyst_learns_no_names_by_asking(self, world: World) -> None:
        """What is hidden and what is not there are one answer everywhere else."""
        ada = world.api("ada")
        hidden = ada.post("/v1/permits", json=ASKED | {"people": ["ada"], "datasets": ["hidden"]})
        absent = ada.post("/v1/permits", json=ASKED | {"people": ["ada"], "datasets": ["nothing"]})
        assert hidden.status_code == absent.status_code
        assert "valley" not in hidden.text


class TestSecondPerson:
    def test_whoever_gains_is_none_in_the_chain_either(self, world: World) -> None:
        permit = world.permit(people=["ada"])
        last = world.entries()[-1]
        members = ("permit", "version", "project", "datasets", "purpose", "legal_basis", "conditions", "expires_at")
        said = {name: last[name] for name in (*members, "time", "actor")} | {"reason": "x"}
        (ben,) = world.sql("SELECT id FROM principals WHERE name = 'ben'")[0]
        with world.curator.ledger.unit() as ledger:
            head = ledger.next("town")
            ledger.record(head, Permit(**said, people=last["people"] | {ben: "ben"}, approved_by=ben), 0)
        found = world.curator.ledger.verify("town")
        assert (found.bad_sequence, found.reason) == (
            last["sequence"] + 1, "a permit was granted or widened without a second person",
        ), permit  # fmt: skip

    def test_two_approve_two_changes_of_one_permit_at_once(self, both: World) -> None:
        """Each is a wider one: only one of them may come about, and both officers and all entries agree on which."""
        world = both
        permit = world.permit(people=["ada"], limit={"mu": 0.1}, datasets=["cohort", "hidden"])
        terms = ASKED | {"datasets": ["cohort", "hidden"]}
        changes = [{"people": ["ada"], "limit": {"mu": 0.2}}, {"people": ["ada", "ben"], "limit": {"mu": 0.1}}]
        ids = [world.api("olga").post(f"/v1/permits/{permit}", json=terms | one).json()["id"] for one in changes]
        asked = [ids[0], ids[1], ids[0], ids[1]]
        apis = [_warm(world, "otto") for _ in asked]
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(
                    lambda place: place[0].post(f"/v1/admin/proposals/{place[1]}/approve").status_code,
                    zip(apis, asked, strict=True),
                )
            )
        assert sorted(answers) == [200, 200, 409, 409]  # the same act twice, and another one twice
        assert world.api("olga").get(f"/v1/permits/{permit}").json()["version"] == 2
        assert_sound(world)
        assert_sound(world, "valley")


class TestPolicy:
    ALLOWED: ClassVar = {
        ("GET", "/v1/permits"): {"analyst", "steward", "privacy_officer", "auditor", "operator"},
        ("POST", "/v1/permits"): {"analyst", "steward", "privacy_officer"},
        ("POST", "/v1/permits/{permit}"): {"steward", "privacy_officer"},  # an analyst of it as well
        ("POST", "/v1/permits/{permit}/end"): {"privacy_officer"},
        ("GET", "/v1/admin/spending"): {"privacy_officer", "auditor"},
        ("GET", "/v1/admin/proposals"): {"privacy_officer", "auditor"},
        ("GET", "/v1/proposals"): {"analyst", "steward", "privacy_officer"},
        ("POST", "/v1/admin/proposals/prp_000000000000000000000000/approve"): {"privacy_officer"},
        ("POST", "/v1/admin/proposals/prp_000000000000000000000000/reject"): {"privacy_officer"},
        ("POST", "/v1/admin/populations"): {"privacy_officer"},
    }

    def test_each_role_on_each_route(self, world: World) -> None:
        permit = world.permit(people=["ben"])
        for role in Role:
            world.add_token(f"only_{role.value}", role)
        for (method, path), allowed in self.ALLOWED.items():
            for role in Role:
                answer = world.api(f"only_{role.value}").request(
                    method, path.format(permit=permit), json=ASKED if path.endswith("}") else {}
                )
                refused = answer.status_code == 403 or (role is Role.ANALYST and answer.json().get("status") == 404)
                assert refused is (role.value not in allowed), (method, path, role, answer.text)
                if method == "POST":
                    assert world.api(None).request(method, path.format(permit=permit), json={}).status_code == 401


def test_a_job_on_a_reservation_gives_back_through_it_after_the_end(tmp_path: Path, database_url: str | None) -> None:
    gate = Gate()
    with open_world(tmp_path, url=database_url, noise=gate, moment=datetime.now(UTC)) as world:
        permit, api = world.permit(limit={"mu": 0.2}), world.api("ada")
        asked = {"price": {"mu": 0.1}, "expires_in_s": 600, "project": "kidney"}
        held = api.post("/v1/datasets/cohort/reservations", json=asked, key="r").json()["id"]
        sent = body(price={"mu": 0.02}, reservation=held, fresh=True)
        job = api.post(RELEASES, json=sent, key="k", headers=ASYNC).json()
        gate.await_entry()
        assert world.api("olga").post(f"/v1/permits/{permit}/end", json={"reason": "over"}).status_code == 200
        gate.opened.set()
        assert await_job(api, job["id"])["state"] == "expired"
        assert_sound(world)
        assert api.request("DELETE", f"/v1/reservations/{held}").status_code == 200
        assert (world.account().posted, world.account().pending) == (0, 0)
        assert_sound(world)
