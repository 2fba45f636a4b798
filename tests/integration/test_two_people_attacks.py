"""One person, or whoever has the database's login alone, against what takes two people and against the register."""

import base64
import hashlib
import hmac
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from dashboard_worlds import Person, fields_of
from support import ADMIN, TERMS, World, problem

from curator_service.entries.base import REGISTER
from curator_service.identity import service as identity_service
from curator_service.identity.policy import Role
from curator_service.identity.repository import Principal, TokenRecord
from curator_service.identity.service import IdentityError
from curator_service.identity.tokens import derive_token
from curator_service.kit.idempotency import id_of_request

ASKED = TERMS | {"people": ["puppet"]}
RAISE = {"limit": {"mu": 2.0}, "reason": "more"}
KEY = "k3yk3yk3yk3yk3yk3yk3yk3y"
PUPPET = {"name": "puppet", "roles": ["analyst"]}


def acts(world: World) -> list[dict[str, Any]]:
    found = world.curator.register.list_entries(after=0, count=10_000)
    assert world.curator.ledger.verify(REGISTER).ok
    return found


def id_of(world: World, name: str) -> str:
    return next(one.id for one in world.curator.identity.list_principals() if one.name == name)


def swap_names(world: World, one: str, other: str) -> None:
    ids = {name: id_of(world, name) for name in (one, other)}
    world.sql(
        f"UPDATE principals SET name = 'nobody' WHERE id = '{ids[one]}'",
        f"UPDATE principals SET name = '{one}' WHERE id = '{ids[other]}'",
        f"UPDATE principals SET name = '{other}' WHERE id = '{ids[one]}'",
    )


class TestSomebodyWhoMakesTokens:
    """An operator who is a privacy officer as well can act in the name of whom he made a token for."""

    @pytest.mark.parametrize("name", ["puppet", "ada"])
    def test_approves_nothing_that_such_a_one_asked(self, both: World, name: str) -> None:
        world = both
        world.add_token("olga", Role.OPERATOR, Role.PRIVACY_OFFICER)
        world.add_token("otto", Role.PRIVACY_OFFICER)
        olga = world.api("olga")
        made = olga.post("/v1/admin/tokens", json=PUPPET | {"name": name}, key=KEY).json()
        turned = olga.post("/v1/me/token/rotate", json={}, token=made["token"]).json()
        terms = ASKED | {"people": [name]}
        asked = olga.post("/v1/permits", json=terms, token=turned["token"]).json()["id"]
        olga.post(f"/v1/admin/tokens/{turned['id']}/revoke")
        count = len(world.entries())
        refused = problem(olga.post(f"/v1/admin/proposals/{asked}/approve"), "second-admin-needed", 403)
        assert "token" in refused["detail"]
        assert len(world.entries()) == count
        assert world.api("otto").post(f"/v1/admin/proposals/{asked}/approve").status_code == 200

    def ask_for_puppet(self, world: World) -> str:
        world.add_token("olga", Role.OPERATOR, Role.PRIVACY_OFFICER)
        world.add_token("otto", Role.PRIVACY_OFFICER)
        world.add_token("puppet", Role.ANALYST)
        return str(world.api("ada").post("/v1/permits", json=ASKED).json()["id"])

    @pytest.mark.parametrize("rotated", [False, True])
    def test_approves_nothing_by_which_such_a_one_gains(self, both: World, rotated: bool) -> None:
        world, asked = both, self.ask_for_puppet(both)
        olga = world.api("olga")
        made = olga.post("/v1/admin/tokens", json=PUPPET, key=KEY).json()
        if rotated:
            made = olga.post("/v1/me/token/rotate", json={}, token=made["token"]).json()
        olga.post(f"/v1/admin/tokens/{made['id']}/revoke")
        refused = problem(olga.post(f"/v1/admin/proposals/{asked}/approve"), "second-admin-needed", 403)
        assert "token of somebody who gains" in refused["detail"]
        assert world.api("otto").post(f"/v1/admin/proposals/{asked}/approve").status_code == 200

    def test_makes_no_token_of_somebody_for_whom_she_approved(self, both: World) -> None:
        world, asked = both, self.ask_for_puppet(both)
        olga = world.api("olga")
        assert olga.post(f"/v1/admin/proposals/{asked}/approve").status_code == 200
        refused = problem(olga.post("/v1/admin/tokens", json=PUPPET, key=KEY), "request-invalid", 422)
        assert "approved" in refused["detail"]
        assert world.api("root").post("/v1/admin/tokens", json=PUPPET, key=KEY).status_code == 201

    def test_raises_no_limit_of_which_such_a_one_spends(self, both: World) -> None:
        world, asked = both, self.ask_for_puppet(both)
        otto, olga = world.api("otto"), world.api("olga")
        assert otto.post(f"/v1/admin/proposals/{asked}/approve").status_code == 200
        raised = otto.post("/v1/admin/populations/town/limits", json=RAISE).json()["id"]
        assert olga.post("/v1/admin/tokens", json=PUPPET, key=KEY).status_code == 201
        problem(olga.post(f"/v1/admin/proposals/{raised}/approve"), "second-admin-needed", 403)

    def test_makes_no_token_of_somebody_whose_limit_she_raised(self, both: World) -> None:
        world, asked = both, self.ask_for_puppet(both)
        otto, olga = world.api("otto"), world.api("olga")
        assert otto.post(f"/v1/admin/proposals/{asked}/approve").status_code == 200
        raised = otto.post("/v1/admin/populations/town/limits", json=RAISE).json()["id"]
        assert olga.post(f"/v1/admin/proposals/{raised}/approve").status_code == 200
        problem(olga.post("/v1/admin/tokens", json=PUPPET, key=KEY), "request-invalid", 422)

    @pytest.mark.parametrize("role", [Role.PRIVACY_OFFICER, Role.STEWARD, Role.OPERATOR])
    @pytest.mark.parametrize("row", ["there", "gone", "another role"])
    def test_an_operator_revokes_no_token_of_those_who_decide(self, both: World, role: Role, row: str) -> None:
        world = both
        world.add_token("otto", Role.PRIVACY_OFFICER)
        world.add_token("oscar", Role.OPERATOR)
        token = world.add_token("victim", role)
        one = token.split("_")[1]
        if row == "gone":
            world.sql(f"UPDATE tokens SET id = 'kept' WHERE id = '{one}'")
        elif row != "there":
            world.sql("UPDATE principals SET roles = 'analyst' WHERE name = 'victim'")
        count = len(acts(world))
        problem(world.api("oscar").post(f"/v1/admin/tokens/{one}/revoke"), "permission-denied", 403)
        assert len(acts(world)) == count
        if row != "gone":
            answer = Person(world, "oscar").submit("/admin/tokens", f"/admin/tokens/{one}/revoke")
            assert answer.status_code == 403
        world.sql(f"UPDATE tokens SET id = '{one}' WHERE id = 'kept'")
        assert world.api("otto").post(f"/v1/admin/tokens/{one}/revoke").status_code == 200
        assert world.api(None).get("/v1/me", token=token).status_code == 401

    def test_an_operator_revokes_a_token_of_her_own(self, both: World) -> None:
        one = both.add_token("oscar", Role.OPERATOR).split("_")[1]
        assert both.api("oscar").post(f"/v1/admin/tokens/{one}/revoke").status_code == 200

    def test_makes_none_for_whoever_was_appointed_in_the_meantime(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        identity, root = world.curator.identity, world.curator.identity.authenticate(f"Bearer {world.tokens['root']}")
        derive = identity._derive

        def appoint(*asked: Any) -> Any:
            monkeypatch.setattr(identity, "_derive", derive)
            identity.set_roles("ada", Role.ANALYST, Role.PRIVACY_OFFICER, actor="operator:test")
            return derive(*asked)

        monkeypatch.setattr(identity, "_derive", appoint)
        with pytest.raises(IdentityError, match="at the machine"):
            identity.create_token_over_http("ada", Role.ANALYST, days=1, read_only=False, by=root, key=KEY)


class TestRows:
    """Changes of the tables without a key."""

    def test_what_an_officer_sees_is_what_was_asked(self, both: World) -> None:
        """Terms that are shown for a moment, and put back before somebody approves."""
        world = both
        for name in ("olga", "otto"):
            world.add_token(name, Role.PRIVACY_OFFICER)
        asked = world.api("olga").post("/v1/permits", json=ASKED | {"people": ["ada"], "limit": {"mu": 0.4}}).json()
        otto, one = world.api("otto"), f"/v1/admin/proposals/{asked['id']}"
        world.sql("UPDATE proposals SET content = replace(content, '0.4', '0.1')")
        shown = [otto.get(one).json(), *otto.get("/v1/admin/proposals").json()["proposals"]]
        assert {found["state"] for found in shown} == {"unattested"}
        world.sql("UPDATE proposals SET content = replace(content, '0.1', '0.4')")
        shown = [otto.get(one).json(), *otto.get("/v1/admin/proposals").json()["proposals"]]
        assert {found["state"] for found in shown} == {"open"}
        world.sql("UPDATE proposals SET content = replace(content, '0.4', '0.1')")
        assert otto.post(f"{one}/reject", json={"reason": "not so"}).json()["state"] == "rejected"

    def test_a_page_says_so_and_lets_it_be_refused_alone(self, world: World) -> None:
        for name in ("olga", "otto"):
            world.add_token(name, Role.PRIVACY_OFFICER)
        asked = world.api("olga").post("/v1/permits", json=ASKED | {"people": ["ada"]}).json()["id"]
        otto = Person(world, "otto")
        one = f"/admin/proposals/{asked}"
        assert 'value="approve"' in otto.get(one).text
        world.sql("UPDATE proposals SET content = replace(content, 'kidneys', 'anything')")
        assert "anything" not in otto.get("/admin/proposals").text
        page = otto.get(one).text
        assert 'value="approve"' not in page
        assert "The register does not say that this was asked so" in page
        assert 'value="reject"' in page

    def test_a_name_that_was_moved_to_somebody_else_gets_no_permit(self, both: World) -> None:
        world = both
        world.add_token("mallory", Role.ANALYST)
        for name in ("olga", "otto"):
            world.add_token(name, Role.PRIVACY_OFFICER)
        asked = world.api("olga").post("/v1/permits", json=ASKED | {"people": ["ada"]}).json()["id"]
        mallory = id_of(world, "mallory")
        swap_names(world, "ada", "mallory")
        answer = world.api("otto").post(f"/v1/admin/proposals/{asked}/approve")
        assert answer.status_code == 503, answer.text
        assert not any(mallory in permit.people for permit in world.curator.permits.list_permits())

    def test_a_name_that_was_moved_to_somebody_else_gets_no_token_and_no_role(self, both: World) -> None:
        world = both
        world.add_token("mallory", Role.ANALYST)
        ada, count = id_of(world, "ada"), len(acts(world))
        swap_names(world, "ada", "mallory")
        problem(
            world.api("root").post("/v1/admin/tokens", json=PUPPET | {"name": "mallory"}, key=KEY),
            "request-invalid",
            422,
        )
        for act in (world.curator.identity.set_roles, world.curator.identity.create_token):
            with pytest.raises(IdentityError, match="register"):
                act("mallory", Role.ANALYST, actor="operator:test")
        assert len(acts(world)) == count
        assert [token.principal.id for token in world.curator.identity.list_tokens()].count(ada) == 1

    def test_a_name_that_was_moved_is_not_signed_when_its_holder_signs_in(self, both: World) -> None:
        world, identity = both, both.curator.identity
        person = Principal("prn_" + "a" * 24, "hospital.mia", frozenset({Role.ANALYST}), issuer="https://login.example")
        identity.admit(person, "2026-03-01T12:00:00Z")
        swap_names(world, "ada", "hospital.mia")
        wider = replace(person, roles=frozenset({Role.ANALYST, Role.AUDITOR}))
        assert identity.admit(wider, "2026-03-01T12:01:00Z").name == "hospital.mia"
        assert acts(world)[-1]["name"] == "hospital.mia"

    def test_a_name_that_was_moved_to_somebody_else_says_nothing_in_a_discussion(self, both: World) -> None:
        world = both
        for name in ("olga", "otto"):
            world.add_token(name, Role.PRIVACY_OFFICER)
        asked = world.api("ada").post("/v1/permits", json=ASKED | {"people": ["ada"]}).json()["id"]
        text = "The ethics board has agreed."
        assert world.api("ada").post(f"/v1/proposals/{asked}/messages", json={"text": text}).status_code == 200
        swap_names(world, "ada", "olga")
        shown = world.api("otto").get(f"/v1/admin/proposals/{asked}").json()
        assert (shown["proposer"], [(one["by"], one["text"]) for one in shown["messages"]]) == ("ada", [("ada", text)])
        page = Person(world, "otto").get(f"/admin/proposals/{asked}").text
        assert "<code>olga</code>" not in page.partition('id="discussion"')[2].partition("<form")[0]

    def test_whoever_signs_in_elsewhere_by_the_register_gets_no_token_and_no_role_here(self, both: World) -> None:
        world, identity = both, both.curator.identity
        mia = Principal("prn_" + "a" * 24, "hospital.mia", frozenset({Role.ANALYST}), issuer="https://login.example")
        identity.admit(mia, "2026-03-01T12:00:00Z")
        world.sql(f"UPDATE principals SET issuer = '' WHERE id = '{mia.id}'")
        for act in (identity.set_roles, identity.create_token):
            with pytest.raises(IdentityError, match=r"signs in at https://login\.example"):
                act("hospital.mia", Role.ANALYST, actor="operator:test")

    @pytest.mark.parametrize(
        "change",
        ["scopes = 'privacy_officer'", "created_at = '2016-03-01T12:00:00Z', expires_at = '2099-01-01T00:00:00Z'"],
    )
    def test_a_token_rotated_by_its_holder_may_do_no_more_and_no_longer_than_the_register_says(
        self, both: World, change: str
    ) -> None:
        world, identity = both, both.curator.identity
        looks = identity.create_token("olga", Role.PRIVACY_OFFICER, days=30, read_only=True)
        world.tokens["olga"] = looks.text
        world.sql(f"UPDATE tokens SET {change} WHERE id = '{looks.id}'")
        made = world.api("olga").post("/v1/me/token/rotate", json={}, key=KEY)
        assert made.status_code == 201, made.text
        (issued,) = [act for act in acts(world) if act.get("replaces") == looks.id]
        assert issued["scopes"] == ["privacy_officer", "read"]
        assert (issued["time"], issued["expires_at"]) == ("2026-03-01T12:00:00Z", "2026-03-31T12:00:00Z")
        world.tokens["olga"] = made.json()["token"]
        problem(world.api("olga").post("/v1/admin/populations/town/limits", json=RAISE), "permission-denied", 403)

    @pytest.mark.parametrize("change", ["principal", "secret", "revoked", "rotated", "ended", "gone"])
    def test_an_operator_rotates_no_token_whose_row_is_not_as_the_register_says(self, both: World, change: str) -> None:
        world, identity = both, both.curator.identity
        world.add_token("mallory", Role.ANALYST)
        token = next(one for one in identity.list_tokens() if one.principal.name == "mallory")
        if change == "revoked":
            identity.revoke_token(token.id)
        elif change == "rotated":
            identity.rotate_token(token.id, grace_s=3600, actor="operator:test")
        elif change == "ended":
            world.clock.advance(days=91)
            world.add_token("root", *ADMIN)
        changes = {
            "principal": f"principal_id = '{id_of(world, 'ada')}'",
            "secret": f"secret_hash = '{'0' * 64}'",
            "revoked": "revoked_at = NULL",
            "rotated": "replaced_by = ''",
            "ended": "expires_at = '2099-01-01T00:00:00Z'",
            "gone": f"id = '{'0' * 16}'",
        }
        world.sql(f"UPDATE tokens SET {changes[change]} WHERE id = '{token.id}'")
        root, found = Person(world, "root"), "0" * 16 if change == "gone" else token.id
        place, count = f"/admin/tokens/{found}/rotate", len(acts(world))
        answer = root.post(place, fields_of(root.get(place)) | {"grace_s": ["0"]})
        assert (answer.status_code, "cur_" in answer.text) == (422, False)
        with pytest.raises(IdentityError, match="has ended"):
            identity.rotate_token(found, actor="operator:test")
        assert len(acts(world)) == count

    def test_nothing_is_signed_of_a_proposal_that_nobody_made(self, both: World) -> None:
        world = both
        ada, count = id_of(world, "ada"), len(acts(world))
        columns = "id, population, scope, label, limit_units, from_units, reason, proposed_by, proposed_at, state"
        columns += ", content, decision"
        for digit in "ef":
            world.sql(
                f"INSERT INTO proposals ({columns}) VALUES ('prp_{digit * 24}', 'town', '', '', 1, 0, 'mine', '{ada}', "
                "'2020-01-01T00:00:00Z', 'open', '', '')"
            )
        world.curator.approvals.expire_due()
        assert len(acts(world)) == count

    def test_nobody_is_said_to_have_asked_what_another_one_asked(self, both: World) -> None:
        world = both
        world.add_token("otto", Role.PRIVACY_OFFICER)
        asked = world.api("ada").post("/v1/permits", json=ASKED | {"people": ["ada"]}).json()["id"]
        world.sql(f"UPDATE proposals SET proposed_by = '{id_of(world, 'ben')}'")
        assert world.api("otto").post(f"/v1/admin/proposals/{asked}/reject").status_code == 200
        assert acts(world)[-1]["asked_by"] == id_of(world, "ada")

    def test_what_waits_is_not_ended_before_its_time(self, both: World) -> None:
        world = both
        asked = world.api("ada").post("/v1/permits", json=ASKED | {"people": ["ada"]}).json()["id"]
        count = len(acts(world))
        world.sql("UPDATE proposals SET proposed_at = '2020-01-01T00:00:00Z'")
        world.curator.approvals.expire_due()
        assert len(acts(world)) == count
        assert world.sql(f"SELECT state FROM proposals WHERE id = '{asked}'") == [("open",)]

    @pytest.mark.parametrize("successor", ["", "0" * 16, "itself"])
    def test_a_token_that_was_rotated_is_revoked_with_what_came_of_it(self, both: World, successor: str) -> None:
        world = both
        api, old = world.api("root"), world.tokens["ada"].split("_")[1]
        new = api.post("/v1/me/token/rotate", json={"grace_s": 600}, token=world.tokens["ada"]).json()["token"]
        last = api.post("/v1/me/token/rotate", json={"grace_s": 600}, token=new).json()["token"]
        named = old if successor == "itself" else successor
        world.sql(f"UPDATE tokens SET replaced_by = '{named}' WHERE id = '{old}'")
        assert api.post(f"/v1/admin/tokens/{old}/revoke").status_code == 200
        for token in (world.tokens["ada"], new, last):
            assert api.get("/v1/me", token=token).status_code == 401

    @pytest.mark.parametrize("gone", ["ada's", "its successor's"])
    def test_a_row_that_is_gone_for_a_moment_keeps_no_token_from_being_revoked(self, both: World, gone: str) -> None:
        world = both
        root, old = world.api("root"), world.tokens["ada"].split("_")[1]
        token = world.tokens["ada"]
        if gone != "ada's":
            token = root.post("/v1/me/token/rotate", json={"grace_s": 600}, token=token).json()["token"]
        lost = token.split("_")[1]
        world.sql(f"UPDATE tokens SET id = 'kept' WHERE id = '{lost}'")
        answered = root.post(f"/v1/admin/tokens/{old}/revoke").status_code
        assert answered == (404 if lost == old else 200)
        world.sql(f"UPDATE tokens SET id = '{lost}' WHERE id = 'kept'")
        assert root.get("/v1/me", token=token).status_code == 401
        revoked = [act for act in acts(world) if (act["kind"], act.get("token")) == ("token-revoked", lost)]
        assert [act["holder"] for act in revoked] == ["ada"]


class TestTokensOfRetries:
    def test_the_secret_follows_from_all_of_the_key(self) -> None:
        """What is public of a token, and 32 bits more, do not decide what its holder sends."""
        request_id = id_of_request("", "prn_x", KEY)
        token = derive_token("prn_x", KEY, b"secret")
        assert token.id == request_id[:16]
        for short in (request_id, request_id[:16]):
            made = hmac.new(b"secret", f"token:{short}".encode(), hashlib.sha256).digest()
            assert token.secret != base64.urlsafe_b64encode(made).rstrip(b"=").decode()

    @pytest.mark.parametrize("act", ["create", "rotate"])
    def test_one_request_that_is_sent_four_times_at_once_makes_one(self, both: World, act: str) -> None:
        world = both
        apis = [world.api("root") for _ in range(4)]
        for api in apis:
            api.get("/v1/me")
        path, asked = {
            "create": ("/v1/admin/tokens", PUPPET),
            "rotate": ("/v1/me/token/rotate", {"grace_s": 600}),
        }[act]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda api: api.post(path, json=asked, key=KEY), apis))
        assert {answer.status_code for answer in answers} == {201}, [a.text for a in answers]
        assert len({answer.json()["token"] for answer in answers}) == 1
        made = answers[0].json()["id"]
        assert [act["kind"] for act in acts(world) if act.get("token") == made] == ["token"]

    def test_a_rotation_made_since_the_reading_is_found(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second of two equal requests has read the old token before the first has replaced it."""
        identity, old = world.curator.identity, world.tokens["ada"].split("_")[1]
        first, read = [], identity.get_token

        def reads_late(token_id: str) -> TokenRecord:
            found = read(token_id)
            if not first:
                monkeypatch.setattr(identity, "get_token", read)
                first.append(identity.rotate_token(old, grace_s=600, actor="ada", key=KEY))
            return found

        monkeypatch.setattr(identity, "get_token", reads_late)
        again = identity.rotate_token(old, grace_s=600, actor="ada", key=KEY)
        assert again[0].secret == first[0][0].secret

    def test_a_key_gives_nobody_else_anything(self, world: World) -> None:
        world.add_token("oscar", Role.OPERATOR)
        made = world.api("root").post("/v1/admin/tokens", json=PUPPET, key=KEY).json()
        other = world.api("oscar").post("/v1/admin/tokens", json=PUPPET, key=KEY).json()
        assert other["id"] != made["id"]
        problem(world.api("ada").post("/v1/admin/tokens", json=PUPPET, key=KEY), "permission-denied", 403)
        world.curator.identity.revoke_token(made["id"])
        again = world.api("root").post("/v1/admin/tokens", json=PUPPET, key=KEY).json()
        assert again["revoked_at"] is not None
        assert world.api(None).get("/v1/me", token=again["token"]).status_code == 401

    def test_so_many_rotations_within_a_day_and_no_more(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is an entry for ever, which everybody may write: also with a token that may only look."""
        monkeypatch.setattr(identity_service, "ROTATIONS_PER_DAY_MAX", 3)
        api, token = world.api(None), world.tokens["ada"]
        for _ in range(3):
            token = api.post("/v1/me/token/rotate", json={}, token=token).json()["token"]
        count = len(acts(world))
        problem(api.post("/v1/me/token/rotate", json={}, token=token), "request-invalid", 422)
        assert len(acts(world)) == count
        assert api.post("/v1/me/token/rotate", json={}, token=world.tokens["ben"]).status_code == 201
        world.clock.advance(days=1)
        assert api.post("/v1/me/token/rotate", json={}, token=token).status_code == 201


class TestWhatHeld:
    def test_one_officer_by_two_tokens_is_one(self, world: World) -> None:
        world.add_token("olga", Role.PRIVACY_OFFICER)
        first = world.tokens["olga"]
        world.add_token("olga", Role.PRIVACY_OFFICER)
        olga = world.api("olga")
        asked = olga.post("/v1/admin/populations/town/limits", json=RAISE, token=first).json()["id"]
        problem(olga.post(f"/v1/admin/proposals/{asked}/approve"), "second-admin-needed", 403)
        assert olga.post(f"/v1/admin/proposals/{asked}/reject").json()["state"] == "withdrawn"
        problem(olga.post(f"/v1/admin/proposals/{asked}/approve"), "proposal-decided", 409)

    def test_what_was_taken_back_is_not_asked_again_by_its_key(self, world: World) -> None:
        for name in ("olga", "otto"):
            world.add_token(name, Role.PRIVACY_OFFICER)
        path = "/v1/admin/populations/town/limits"
        asked = world.api("olga").post(path, json=RAISE, key=KEY).json()["id"]
        world.api("olga").post(f"/v1/proposals/{asked}/withdraw")
        again = world.api("olga").post(path, json=RAISE, key=KEY).json()
        assert (again["id"], again["state"]) == (asked, "withdrawn")
        problem(world.api("otto").post(f"/v1/admin/proposals/{asked}/approve"), "proposal-decided", 409)

    def test_the_same_key_of_two_people_is_two_requests(self, world: World) -> None:
        ids = {
            who: world.api(who).post("/v1/permits", json=ASKED | {"people": [who]}, key=KEY).json()["id"]
            for who in ("ada", "ben")
        }
        assert len(set(ids.values())) == 2
        theirs = world.api("ada").get(f"/v1/proposals/{ids['ben']}").json()
        nothing = world.api("ada").get(f"/v1/proposals/prp_{'0' * 24}").json()
        assert {**theirs, "instance": ""} == {**nothing, "instance": ""}
