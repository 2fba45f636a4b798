"""Proposals and their results: entries that verify, bounds, ends, and rows that nobody asked for."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dashboard_worlds import Person
from support import TERMS, World, problem

from curator_service.app import _ending
from curator_service.approvals.service import DAYS_OPEN, MADE_PER_DAY_MAX, MESSAGES_MAX, OPEN_MAX
from curator_service.entries.base import REGISTER
from curator_service.identity.policy import Role
from curator_service.kit.problems import RequestInvalid

LIMITS = "/v1/admin/populations/town/limits"
RAISE = {"limit": {"mu": 2.0}, "reason": "more"}


@pytest.fixture
def officers(world: World) -> World:
    return with_officers(world)


def with_officers(world: World) -> World:
    for name in ("olga", "otto"):
        world.add_token(name, Role.PRIVACY_OFFICER)
    return world


def acts(world: World, proposal: str) -> list[dict[str, Any]]:
    found = world.curator.register.list_entries(after=0, count=10_000)
    assert world.curator.ledger.verify(REGISTER).ok
    return [act for act in found if act.get("proposal") == proposal]


def name_of(world: World, principal_id: str) -> str:
    return next(one.name for one in world.curator.identity.list_principals() if one.id == principal_id)


def test_what_is_asked_and_refused_stands_in_the_register_with_who_did_it(both: World) -> None:
    world = with_officers(both)
    asked = world.api("ada").post("/v1/permits", json=TERMS).json()
    (said,) = acts(world, asked["id"])
    assert (said["kind"], name_of(world, said["actor"]), said["about"], said["reason"]) == (
        "proposed", "ada", "permit", "a study",
    )  # fmt: skip
    assert (said["permit"], said["permit_version"], len(said["terms_digest"])) == (asked["label"], 0, 64)
    world.api("otto").post(f"/v1/admin/proposals/{asked['id']}/reject", json={"reason": "no basis"})
    _, refused = acts(world, asked["id"])
    assert (refused["kind"], name_of(world, refused["actor"]), refused["reason"]) == (
        "proposal-rejected", "otto", "no basis",
    )  # fmt: skip
    assert refused["asked_by"] == said["actor"]


def test_what_is_approved_names_its_proposal_in_the_chain(both: World) -> None:
    world = with_officers(both)
    raised = world.api("olga").post(LIMITS, json=RAISE).json()
    (said,) = acts(world, raised["id"])
    assert (said["about"], said["asked_units"], said["from_units"]) == (
        "limit", raised["limit_units"], raised["from_units"],
    )  # fmt: skip
    assert world.api("otto").post(f"/v1/admin/proposals/{raised['id']}/approve").status_code == 200
    entry = world.entries()[-1]
    assert (entry["kind"], entry["proposal"]) == ("limit", raised["id"])
    assert len(acts(world, raised["id"])) == 1


class TestBounds:
    def test_so_many_wait_and_no_more(self, officers: World) -> None:
        world = officers
        ada = world.api("ada")
        made = [ada.post("/v1/permits", json=TERMS).json()["id"] for _ in range(OPEN_MAX)]
        before = world.curator.register.list_entries(after=0, count=10_000)
        problem(ada.post("/v1/permits", json=TERMS), "too-many-proposals", 409)
        assert world.curator.register.list_entries(after=0, count=10_000) == before
        assert ada.post(f"/v1/proposals/{made[0]}/withdraw").status_code == 200
        assert ada.post("/v1/permits", json=TERMS).status_code == 202
        assert world.api("ben").post("/v1/permits", json=TERMS | {"people": ["ben"]}).status_code == 202

    def test_so_many_are_made_within_a_day_and_no_more(self, world: World) -> None:
        """Each is an entry for ever: whoever takes them back at once fills the register all the same."""
        ada = world.api("ada")
        for _ in range(MADE_PER_DAY_MAX):
            made = ada.post("/v1/permits", json=TERMS).json()["id"]
            assert ada.post(f"/v1/proposals/{made}/withdraw").status_code == 200
        count = len(world.curator.register.list_entries(after=0, count=10_000))
        problem(ada.post("/v1/permits", json=TERMS), "too-many-proposals", 409)
        assert len(world.curator.register.list_entries(after=0, count=10_000)) == count
        world.clock.advance(days=1)
        assert ada.post("/v1/permits", json=TERMS).status_code == 202


class TestMessages:
    def ask(self, world: World) -> tuple[str, str]:
        made = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
        return f"/v1/admin/proposals/{made}", f"/v1/proposals/{made}"

    def texts(self, answer: Any) -> list[tuple[str, str]]:
        assert answer.status_code == 200, answer.text
        return [(one["by"], one["text"]) for one in answer.json()["messages"]]

    def test_both_sides_read_what_the_register_keeps_and_nobody_else(self, both: World) -> None:
        world = with_officers(both)
        ada, ben, otto = (world.api(name) for name in ("ada", "ben", "otto"))
        theirs, own = self.ask(world)
        assert self.texts(ada.get(own)) == []
        asked = otto.post(f"{theirs}/messages", json={"text": "why?"})
        assert self.texts(asked) == [("otto", "why?")]
        said = [("otto", "why?"), ("ada", "so")]
        assert self.texts(ada.post(f"{own}/messages", json={"text": "so"})) == said
        assert self.texts(world.api("olga").get(theirs)) == self.texts(ada.get(own)) == said
        problem(ben.get(own), "not-found", 404)
        problem(ben.post(f"{own}/messages", json={"text": "I"}), "not-found", 404)
        problem(ada.post(f"{theirs}/messages", json={"text": "I"}), "permission-denied", 403)
        problem(otto.post(f"{own}/messages", json={"text": "I"}), "not-found", 404)  # it is not otto's own
        kept = [act for act in acts(world, own.rpartition("/")[2]) if act["kind"] == "proposal-discussed"]
        assert [(name_of(world, act["actor"]), act["text"]) for act in kept] == said
        assert {name_of(world, act["asked_by"]) for act in kept} == {"ada"}

    def test_so_many_are_said_and_no_more(self, officers: World) -> None:
        theirs, own = self.ask(officers)
        for k in range(2 * MESSAGES_MAX):
            api, address = (officers.api("otto"), theirs) if k % 2 else (officers.api("ada"), own)
            assert api.post(f"{address}/messages", json={"text": str(k)}).status_code == 200
        for text in ("more", "x" * 501, "", "a\nb"):
            problem(officers.api("ada").post(f"{own}/messages", json={"text": text}), "request-invalid", 422)
        assert len(self.texts(officers.api("ada").get(own))) == 2 * MESSAGES_MAX

    def test_whoever_asks_silences_no_officer(self, officers: World) -> None:
        theirs, own = self.ask(officers)
        for k in range(MESSAGES_MAX):
            assert officers.api("ada").post(f"{own}/messages", json={"text": str(k)}).status_code == 200
        problem(officers.api("ada").post(f"{own}/messages", json={"text": "more"}), "request-invalid", 422)
        assert self.texts(officers.api("otto").post(f"{theirs}/messages", json={"text": "why?"}))[-1] == (
            "otto",
            "why?",
        )

    def test_one_key_at_two_proposals_is_two_messages(self, officers: World) -> None:
        found = set()
        for _ in range(2):
            _, own = self.ask(officers)
            assert officers.api("ada").post(f"{own}/messages", json={"text": "so"}, key="a").status_code == 200
            found |= {act["message"] for act in acts(officers, own.rpartition("/")[2]) if "message" in act}
        assert len(found) == 2

    def test_many_at_once_are_each_said_once_up_to_the_bound(self, both: World) -> None:
        world = with_officers(both)
        _, own = self.ask(world)
        otto = next(one for one in world.curator.identity.list_principals() if one.name == "otto")

        def say(k: int) -> bool:
            try:
                world.curator.approvals.say(own.rpartition("/")[2], str(k), otto)
            except RequestInvalid:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(say, range(MESSAGES_MAX + 10)))
        assert found.count(True) == MESSAGES_MAX
        assert len({text for _, text in self.texts(world.api("ada").get(own))}) == MESSAGES_MAX

    def test_a_retry_is_the_same_message_and_another_text_is_refused(self, officers: World) -> None:
        theirs, own = self.ask(officers)
        otto = officers.api("otto")
        for _ in range(2):
            assert self.texts(otto.post(f"{theirs}/messages", json={"text": "why?"}, key="a")) == [("otto", "why?")]
        problem(otto.post(f"{theirs}/messages", json={"text": "how?"}, key="a"), "idempotency-key-reused", 422)
        assert self.texts(officers.api("ada").get(own)) == [("otto", "why?")]

    def test_nothing_is_said_about_what_waits_no_more_or_was_not_asked_so(self, both: World) -> None:
        world = with_officers(both)
        theirs, own = self.ask(world)
        world.sql(f"UPDATE proposals SET reason = 'another' WHERE id = '{own.rpartition('/')[2]}'")
        problem(world.api("otto").post(f"{theirs}/messages", json={"text": "why?"}), "proposal-unattested", 409)
        theirs, own = self.ask(world)
        world.api("otto").post(f"{theirs}/reject", json={"reason": "no"})
        problem(world.api("otto").post(f"{theirs}/messages", json={"text": "why?"}), "proposal-decided", 409)
        problem(world.api("ada").post(f"{own}/messages", json={"text": "but"}), "proposal-decided", 409)
        assert self.texts(world.api("ada").get(own)) == []


def test_whoever_is_no_officer_any_more_reads_no_account(officers: World) -> None:
    world = officers
    made = world.api("olga").post(LIMITS, json=RAISE).json()["id"]
    places = world.api("olga"), Person(world, "olga"), f"/v1/proposals/{made}", f"/admin/asked/{made}"
    api, browser, own, page = places
    assert "spent_and_held" in api.get(own).json()["amounts"]
    assert "Spent and held" in browser.get(page).text
    world.curator.identity.set_roles("olga", Role.ANALYST, actor="operator:test")
    world.add_token("olga", Role.ANALYST)
    assert "amounts" not in world.api("olga").get(own).json()
    answer = Person(world, "olga").get(page)
    assert (answer.status_code, "Spent and held" in answer.text) == (200, False)


class TestExpiry:
    @pytest.mark.parametrize(("ends", "days"), [("2099-01-01T00:00:00Z", DAYS_OPEN), ("2026-03-11T12:00:00Z", 10)])
    def test_what_nobody_decides_expires(self, officers: World, ends: str, days: int) -> None:
        world = officers
        asked = world.api("ada").post("/v1/permits", json=TERMS | {"expires_at": ends}).json()["id"]
        world.clock.advance(days=days, seconds=-1)
        world.curator.approvals.expire_due()
        assert world.curator.approvals.get_proposal(asked).state == "open"
        world.clock.advance(seconds=1)
        assert world.curator.approvals.get_proposal(asked).state == "expired"  # before it is written
        otto = world.curator.identity.create_token("otto", Role.PRIVACY_OFFICER).text
        decide = f"/v1/admin/proposals/{asked}/approve"
        assert "expired" in problem(world.api("otto").post(decide, token=otto), "proposal-decided", 409)["detail"]
        for _ in range(2):
            world.curator.approvals.expire_due()
        _, expired = acts(world, asked)
        assert (expired["kind"], expired["actor"]) == ("proposal-expired", "curator")
        assert world.curator.permits.list_permits() == [
            p for p in world.curator.permits.list_permits() if not p.terms.project
        ]

    def test_a_clock_that_was_ahead_for_a_start_ends_nothing(
        self, officers: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = officers

        def start() -> None:
            curator = world.api().app.state.curator
            _ending(curator.clock, curator.approvals.expire_due)()

        asked = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
        world.clock.advance(days=2 * DAYS_OPEN)
        start()
        world.clock.advance(days=-2 * DAYS_OPEN)
        start()
        assert world.curator.approvals.get_proposal(asked).state == "open"
        assert len(acts(world, asked)) == 1
        world.clock.advance(days=DAYS_OPEN)
        monkeypatch.setattr("curator_service.kit.clock.SETTLING_S", 0.0)
        start()
        assert acts(world, asked)[-1]["kind"] == "proposal-expired"

    def test_nothing_is_written_under_a_seal(self, officers: World) -> None:
        world = officers
        asked = world.api("ada").post("/v1/permits", json=TERMS).json()["id"]
        world.curator.ledger.guard.seal("an incident")
        world.clock.advance(days=DAYS_OPEN)
        world.curator.approvals.expire_due()
        world.clock.advance(days=-DAYS_OPEN)
        problem(world.api("ada").post("/v1/permits", json=TERMS), "ledger-unverified", 503)
        problem(world.api("ada").post(f"/v1/proposals/{asked}/withdraw"), "ledger-unverified", 503)
        for verdict in ("reject", "approve"):
            answer = world.api("otto").post(f"/v1/admin/proposals/{asked}/{verdict}")
            problem(answer, "ledger-unverified", 503)
        assert world.curator.approvals.get_proposal(asked).state == "open"
        assert len(acts(world, asked)) == 1


class TestRaces:
    def test_one_request_that_is_sent_four_times_at_once_is_one(self, both: World) -> None:
        world = with_officers(both)
        apis = [world.api("olga") for _ in range(4)]
        for api in apis:
            api.get("/v1/me")
        for path, asked in (
            ("/v1/permits", TERMS),
            (LIMITS, RAISE),
            (LIMITS, {"limit": {"mu": 0.1}, "reason": "less"}),
        ):
            key = f"key{len(path)}{asked['reason'].replace(' ', '')}"
            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda api, p=path, a=asked, k=key: api.post(p, json=a, key=k), apis))  # type: ignore[misc]
            assert {answer.status_code for answer in answers} <= {200, 202, 503}, [a.text for a in answers]
            (proposal,) = {answer.json()["id"] for answer in answers if answer.status_code != 503}
            assert len(acts(world, proposal)) == (0 if asked["reason"] == "less" else 1)
        assert [entry["kind"] for entry in world.entries()].count("limit") == 1
        assert world.curator.ledger.verify("town").ok

    def test_two_who_decide_at_once_agree_on_what_was_decided(self, both: World) -> None:
        world = with_officers(both)
        world.add_token("oona", Role.PRIVACY_OFFICER)
        raised = world.api("olga").post(LIMITS, json=RAISE).json()["id"]
        asked = [("otto", "approve"), ("oona", "reject"), ("otto", "approve"), ("olga", "reject")]
        apis = [(world.api(who), verdict) for who, verdict in asked]
        for api, _ in apis:
            api.get("/v1/me")
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda one: one[0].post(f"/v1/admin/proposals/{raised}/{one[1]}"), apis))
        won = {answer.json()["state"] for answer in answers if answer.status_code == 200}
        assert len(won) == 1
        assert world.curator.approvals.get_proposal(raised).state in won
        for answer in answers:
            assert answer.status_code == 200 or answer.json()["type"] == "/problems/proposal-decided", answer.text
        assert len(acts(world, raised)) == (1 if won == {"approved"} else 2)
        assert world.curator.ledger.verify("town").ok


class TestRowsThatNobodyAskedFor:
    """Changes of the tables alone ask in nobody's name: one officer who is deceived is not two people."""

    @pytest.mark.parametrize(
        "change",
        [
            "content = replace(content, '\"ada\"', '\"ben\"')",
            "content = replace(content, 'kidneys', 'anything')",
            "content = '{}'",
            "reason = 'the board wants it'",
            "proposed_by = (SELECT id FROM principals WHERE name = 'root')",
            "population = 'valley'",
        ],
    )
    def test_a_changed_permit(self, officers: World, change: str) -> None:
        world = officers
        asked = world.api("olga").post("/v1/permits", json=TERMS).json()["id"]
        world.sql(f"UPDATE proposals SET {change} WHERE id = '{asked}'")
        (shown,) = world.api("otto").get("/v1/admin/proposals").json()["proposals"]
        assert shown["state"] == "unattested"
        assert ("terms" in shown) is (change != "content = '{}'")  # what no request says is no permit's terms
        problem(world.api("otto").post(f"/v1/admin/proposals/{asked}/approve"), "proposal-unattested", 409)
        assert [p for p in world.curator.permits.list_permits() if p.terms.project] == []
        assert world.api("otto").post(f"/v1/admin/proposals/{asked}/reject").json()["state"] == "rejected"

    @pytest.mark.parametrize(
        "change",
        [
            "content = '['",
            "content = '5'",
            'content = replace(content, \'"expires_at":"\', \'"expires_at":5, "x":"\')',
            "proposed_at = 'x'",
            "proposed_at = '2026-01-01'",
            "scope = 'x'",
        ],
    )
    def test_one_beyond_reading_hides_no_other_and_can_be_rejected(self, officers: World, change: str) -> None:
        world = officers
        asked, left, _ = (world.api("ada").post("/v1/permits", json=TERMS).json()["id"] for _ in range(3))
        world.sql(f"UPDATE proposals SET {change} WHERE id IN ('{asked}', '{left}')")
        otto, place = Person(world, "otto"), f"/v1/admin/proposals/{asked}"
        for page in ("/admin", "/admin/proposals", f"/admin/proposals/{asked}"):
            assert otto.get(page).status_code == 200
        for api, address in ((world.api("otto"), "/v1/admin/proposals"), (world.api("ada"), "/v1/proposals")):
            states = {one["id"]: one["state"] for one in api.get(address).json()["proposals"]}
            assert sorted(states.values()) == ["open", "unattested", "unattested"]
            assert states[asked] == "unattested"
        problem(world.api("otto").post(f"{place}/approve"), "proposal-unattested", 409)
        assert world.api("otto").post(f"{place}/reject", json={"reason": "no"}).json()["state"] == "rejected"
        world.clock.advance(days=91)
        world.curator.approvals.expire_due()
        found = {one.id: one.state for one in world.curator.approvals.list_proposals()}
        assert {state for one, state in found.items() if one not in {asked, left}} == {"expired"}

    def test_one_that_was_refused_and_waits_again_by_its_row(self, officers: World) -> None:
        world = officers
        asked = world.api("olga").post(LIMITS, json=RAISE).json()["id"]
        assert world.api("otto").post(f"/v1/admin/proposals/{asked}/reject").status_code == 200
        world.sql(f"UPDATE proposals SET state = 'open', decided_by = NULL, decided_at = NULL WHERE id = '{asked}'")
        world.add_token("oona", Role.PRIVACY_OFFICER)
        problem(world.api("oona").post(f"/v1/admin/proposals/{asked}/approve"), "proposal-unattested", 409)

    def test_a_higher_limit_and_one_that_was_inserted(self, officers: World) -> None:
        world = officers
        asked = world.api("olga").post(LIMITS, json=RAISE).json()["id"]
        invented = f"prp_{'f' * 24}"
        columns = "population, scope, label, limit_units, from_units, reason, content, decision"
        columns += ", proposed_by, proposed_at, state"
        world.sql(
            f"INSERT INTO proposals (id, {columns}) SELECT '{invented}', {columns} FROM proposals WHERE id = '{asked}'",
            f"UPDATE proposals SET limit_units = limit_units + 1 WHERE id = '{asked}'",
        )
        before = world.account()
        for one in (asked, invented):
            problem(world.api("otto").post(f"/v1/admin/proposals/{one}/approve"), "proposal-unattested", 409)
        assert world.account() == before


def test_terms_that_hold_are_shown_to_whoever_may_see_the_permit_alone(world: World) -> None:
    """Somebody who asked as a steward, and is one no more, sees what they asked, and not what holds now."""
    permit = world.permit()
    world.add_token("stella", Role.STEWARD)
    asked = world.api("stella").post(f"/v1/permits/{permit}", json=TERMS | {"people": ["ada", "ben"]}).json()["id"]
    assert world.api("stella").get(f"/v1/proposals/{asked}").json()["before"]["people"] == ["ada"]
    world.curator.identity.set_roles("stella", Role.ANALYST, actor="operator:test")
    world.add_token("stella", Role.ANALYST)
    shown = world.api("stella").get(f"/v1/proposals/{asked}").json()
    assert (shown["state"], shown["terms"]["people"], "before" in shown) == ("open", ["ada", "ben"], False)
