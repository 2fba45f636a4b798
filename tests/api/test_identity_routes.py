"""Principals, tokens, and the register over HTTP. Who may do what is in `test_authorization`."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from support import ADMIN, EPOCH, World, body, open_world, problem

from curator_service.identity.policy import Role

ROTATE, TOKENS = "/v1/me/token/rotate", "/v1/admin/tokens"
RELEASES = "/v1/datasets/cohort/releases"


class TestMe:
    def test_anonymous(self, world: World) -> None:
        problem(world.api(None).get("/v1/me"), "authentication-required", 401)

    def test_success(self, world: World) -> None:
        found = world.api().get("/v1/me").json()
        assert found.pop("id").startswith("prn_")
        assert found == {
            "name": "ada", "shown_name": "ada", "email": None, "roles": ["analyst"], "read_only": False,
            "authenticated_by": "token",
            "token": world.tokens["ada"].split("_")[1], "issuer": None, "expires_at": "2026-05-30T12:00:00Z",
            "visas": [],
        }  # fmt: skip

    def test_roles_are_those_of_the_token(self, world: World) -> None:
        token = world.curator.identity.create_token("root", Role.AUDITOR, read_only=True).text
        found = world.api(None).get("/v1/me", token=token).json()
        assert (found["name"], found["roles"], found["read_only"]) == ("root", ["auditor"], True)


class TestScopes:
    def test_a_token_that_only_looks_spends_nothing(self, world: World) -> None:
        token = world.curator.identity.create_token("ada", Role.ANALYST, read_only=True).text
        api = world.api(None)
        assert api.post("/v1/datasets/cohort/quotes", json=body(), token=token).status_code == 200
        detail = problem(api.post(RELEASES, json=body(), key="k", token=token), "permission-denied", 403)["detail"]
        assert "only look" in detail
        assert world.account().posted == 0

    def test_a_token_with_fewer_roles_does_not_do_what_the_others_may(self, world: World) -> None:
        token = world.curator.identity.create_token("root", Role.OPERATOR).text
        api = world.api(None)
        problem(api.get("/v1/admin/proposals", token=token), "permission-denied", 403)
        assert api.get(TOKENS, token=token).status_code == 200

    def test_a_token_keeps_to_what_it_was_made_for_when_its_holder_gets_more(self, world: World) -> None:
        token = world.tokens["ada"]
        world.curator.identity.set_roles("ada", Role.ANALYST, Role.PRIVACY_OFFICER, actor="operator:test")
        assert world.api(None).get("/v1/me", token=token).json()["roles"] == ["analyst"]
        world.curator.identity.set_roles("ada", Role.PRIVACY_OFFICER, actor="operator:test")
        problem(world.api(None).get("/v1/me", token=token), "permission-denied", 403)


class TestRotation:
    def test_the_old_one_ends_at_once(self, world: World) -> None:
        api, old = world.api(), world.tokens["ada"]
        made = api.post(ROTATE)
        assert made.status_code == 201
        new = made.json()["token"]
        problem(api.get("/v1/me", token=old), "authentication-required", 401)
        assert api.get("/v1/me", token=new).json()["name"] == "ada"
        assert made.json()["expires_at"] == "2026-05-30T12:00:00Z"

    def test_the_old_one_goes_on_for_a_grace_and_is_not_rotated_again(self, world: World) -> None:
        api, old = world.api(), world.tokens["ada"]
        new = api.post(ROTATE, json={"grace_s": 60}).json()
        assert api.get("/v1/me", token=old).json()["expires_at"] == "2026-03-01T12:01:00Z"
        problem(api.post(ROTATE, token=old), "request-invalid", 422)
        world.clock.advance(seconds=60)
        problem(api.get("/v1/me", token=old), "authentication-required", 401)
        assert api.get("/v1/me", token=new["token"]).status_code == 200
        shown = {one["id"]: one for one in world.api("root").get(TOKENS).json()["tokens"]}
        assert shown[old.split("_")[1]]["replaced_by"] == new["id"]

    def test_scopes_and_lifetime_stay(self, world: World) -> None:
        api = world.api(None)
        old = world.curator.identity.create_token("root", Role.AUDITOR, days=7, read_only=True).text
        world.clock.advance(days=3)
        new = api.post(ROTATE, token=old).json()
        assert (new["roles"], new["read_only"], new["expires_at"]) == (["auditor"], True, "2026-03-11T12:00:00Z")
        assert api.get("/v1/me", token=new["token"]).json()["roles"] == ["auditor"]

    def test_a_row_that_was_changed_back_does_not_bring_the_old_one_back(self, world: World) -> None:
        old = world.tokens["ada"]
        assert world.api().post(ROTATE).status_code == 201
        world.sql("UPDATE tokens SET expires_at = '2099-01-01T00:00:00Z', replaced_by = ''")
        problem(world.api(None).get("/v1/me", token=old), "authentication-required", 401)

    def test_of_two_at_once_one_is_made(self, world: World) -> None:
        identity, token_id = world.curator.identity, world.tokens["ada"].split("_")[1]
        identity.rotate_token(token_id, grace_s=60, actor="operator:test")
        with pytest.raises(ValueError, match="rotated before"):
            identity.rotate_token(token_id, grace_s=60, actor="operator:test")

    @pytest.mark.parametrize("asked", [{"grace_s": -1}, {"grace_s": 604801}, {"grace_s": "1"}, {"days": 3}])
    def test_problems(self, world: World, asked: dict[str, Any]) -> None:
        problem(world.api().post(ROTATE, json=asked), "request-invalid", 422)


class TestTokens:
    def test_an_operator_makes_them_for_analysts_and_auditors(self, world: World) -> None:
        world.curator.identity.create_token("olga", Role.OPERATOR)
        operator = world.curator.identity.create_token("olga", Role.OPERATOR).text
        api = world.api(None)
        made = api.post(TOKENS, json={"name": "cleo", "roles": ["analyst"], "days": 7}, token=operator)
        assert made.status_code == 201
        assert made.json()["expires_at"] == "2026-03-08T12:00:00Z"
        assert api.get("/v1/me", token=made.json()["token"]).json()["roles"] == ["analyst"]
        act = world.curator.register.list_entries(after=0, count=1000)[-1]
        assert act["actor"] == api.get("/v1/me", token=operator).json()["id"]
        listed = api.get(TOKENS, token=operator)
        assert made.json()["token"] not in listed.text
        assert "secret" not in listed.text

    @pytest.mark.parametrize("role", ["steward", "privacy_officer", "operator", "admin", ""])
    def test_nobody_is_appointed_over_http(self, world: World, role: str) -> None:
        answer = world.api("root").post(TOKENS, json={"name": "cleo", "roles": [role]})
        problem(answer, "request-invalid", 422)
        assert "cleo" not in world.api("root").get("/v1/admin/principals").text

    def test_nor_is_a_token_made_of_somebody_who_was(self, world: World) -> None:
        """Not even one with a harmless role: whoever makes it would be that person."""
        world.curator.identity.create_token("rita", Role.PRIVACY_OFFICER, Role.AUDITOR)
        answer = world.api("root").post(TOKENS, json={"name": "rita", "roles": ["auditor"]})
        assert "at the machine" in problem(answer, "request-invalid", 422)["detail"]

    def test_nor_where_the_row_alone_says_otherwise(self, world: World) -> None:
        world.curator.identity.create_token("rita", Role.PRIVACY_OFFICER, Role.AUDITOR)
        world.sql("UPDATE principals SET roles = 'auditor' WHERE name = 'rita'")
        assert world.api("audra").get("/v1/me").status_code == 200  # the worker has read the register
        problem(world.api("root").post(TOKENS, json={"name": "rita", "roles": ["auditor"]}), "request-invalid", 422)

    def test_roles_that_the_holder_lacks_are_refused(self, world: World) -> None:
        answer = world.api("root").post(TOKENS, json={"name": "ada", "roles": ["auditor"]})
        assert "changes none" in problem(answer, "request-invalid", 422)["detail"]

    def test_a_token_is_revoked_once(self, world: World) -> None:
        root, ada = world.api("root"), world.tokens["ada"].split("_")[1]
        revoked = root.post(f"{TOKENS}/{ada}/revoke")
        assert revoked.json()["revoked_at"] == "2026-03-01T12:00:00Z"
        problem(world.api().get("/v1/me"), "authentication-required", 401)
        assert root.post(f"{TOKENS}/{ada}/revoke").json() == revoked.json()  # asked again, where the answer was lost
        problem(root.post(f"{TOKENS}/nothing/revoke"), "not-found", 404)

    def test_what_was_rotated_of_a_token_is_revoked_with_it(self, world: World) -> None:
        """Whoever found somebody's token has rotated it before anybody notices."""
        api, ada = world.api(), world.tokens["ada"]
        second = api.post(ROTATE).json()["token"]
        third = api.post(ROTATE, token=second).json()["token"]
        assert world.api("root").post(f"{TOKENS}/{ada.split('_')[1]}/revoke").status_code == 200
        for token in (ada, second, third):
            problem(api.get("/v1/me", token=token), "authentication-required", 401)
        assert world.curator.ledger.verify("_register").ok
        kinds = [act["kind"] for act in world.curator.register.list_entries(after=0, count=1000)]
        assert kinds.count("token-revoked") == 3

    def test_principals_are_listed(self, world: World) -> None:
        found = world.api("audra").get("/v1/admin/principals").json()["principals"]
        assert [(one["name"], one["roles"], one["issuer"]) for one in found] == [
            ("ada", ["analyst"], None), ("audra", ["auditor"], None), ("ben", ["analyst"], None),
            ("root", [role.value for role in ADMIN], None),
        ]  # fmt: skip


class TestLastUse:
    def test_it_is_written_once_an_hour_and_not_by_the_request(self, world: World) -> None:
        api, used = world.api(), "SELECT last_used_at FROM tokens WHERE last_used_at IS NOT NULL"
        identity = api.app.state.curator.identity
        assert api.get("/v1/me").status_code == 200
        assert world.sql(used) == []
        identity.write_uses()
        assert world.sql(used) == [("2026-03-01T12:00:00Z",)]
        for minutes, expected in ((30, "2026-03-01T12:00:00Z"), (31, "2026-03-01T13:01:00Z")):
            world.clock.advance(minutes=minutes)
            assert api.get("/v1/me").status_code == 200
            identity.write_uses()
            assert world.sql(used) == [(expected,)]

    def test_a_charge_writes_nothing_of_it(self, world: World) -> None:
        assert world.api().post(RELEASES, json=body(), key="k").status_code == 201
        assert world.sql("SELECT count(*) FROM tokens WHERE last_used_at IS NOT NULL") == [(0,)]

    def test_a_token_that_does_not_count_was_not_used(self, world: World) -> None:
        api, token = world.api(None), world.tokens["ada"]
        api.get("/v1/me", token=token[:-1] + ("A" if token[-1] != "A" else "B"))
        api.app.state.curator.identity.write_uses()
        assert world.sql("SELECT count(*) FROM tokens WHERE last_used_at IS NOT NULL") == [(0,)]


class TestRegister:
    def test_success(self, world: World) -> None:
        first = world.api("audra").get("/v1/admin/register?limit=2").json()["entries"]
        assert [entry["kind"] for entry in first] == ["open", "principal"]
        rest = world.api("audra").get("/v1/admin/register?after=2").json()["entries"]
        assert [entry["sequence"] for entry in rest] == list(range(3, 10))
        assert all(entry["signature"] and entry["entry_hash"] for entry in rest)

    def test_problems(self, world: World) -> None:
        problem(world.api("ada").get("/v1/admin/register"), "permission-denied", 403)
        problem(world.api("audra").get("/v1/admin/register?limit=0"), "request-invalid", 422)


def test_the_world_begins_when_tokens_do() -> None:
    assert EPOCH.isoformat() == "2026-03-01T12:00:00+00:00"


class TestRetriedTokens:
    """A token that is asked for again after a lost answer, with the key that was sent before."""

    KEY = "a-key-of-22-characters-or-more"
    ASKED: ClassVar = {"name": "dora", "roles": ["analyst"], "read_only": False, "days": 30}

    def test_it_is_the_same_one_even_after_the_curator_has_a_new_key(self, world: World) -> None:
        root = world.api("root")
        made = root.post(TOKENS, json=self.ASKED, key=self.KEY).json()
        world.curator.keys.rotate("2026-03-01T12:00:00Z")
        again = world.api("root").post(TOKENS, json=self.ASKED, key=self.KEY)
        assert (again.status_code, again.json()) == (201, made)
        assert world.api(None).get("/v1/me", token=made["token"]).json()["name"] == "dora"
        assert len([one for one in root.get(TOKENS).json()["tokens"] if one["name"] == "dora"]) == 1

    def test_it_follows_from_a_secret_and_from_who_asks(self, world: World, tmp_path: Path) -> None:
        world.add_token("oscar", Role.OPERATOR)
        made = {world.api(who).post(TOKENS, json=self.ASKED, key=self.KEY).json()["token"] for who in ("root", "oscar")}
        with open_world(tmp_path / "other") as other:
            other.curator.keys.rotate("2026-03-01T12:00:00Z")
            made.add(other.api("root").post(TOKENS, json=self.ASKED, key=self.KEY).json()["token"])
        assert len({token.split("_", 2)[2] for token in made}) == 3

    def test_one_whose_private_key_is_gone_is_not_shown_again(self, world: World) -> None:
        made = world.api("root").post(TOKENS, json=self.ASKED, key=self.KEY).json()
        old = next(world.settings.keys_folder.glob("key_*.pem"))
        world.curator.keys.rotate("2026-03-01T12:00:00Z")
        old.rename(old.with_suffix(".gone"))
        refused = problem(world.api("root").post(TOKENS, json=self.ASKED, key=self.KEY), "token-not-shown", 409)
        assert made["id"] in refused["detail"]
        assert made["token"] not in str(refused)

    def test_what_is_revoked_stays_revoked(self, world: World) -> None:
        root = world.api("root")
        made = root.post(TOKENS, json=self.ASKED, key=self.KEY).json()
        root.post(f"{TOKENS}/{made['id']}/revoke")
        again = root.post(TOKENS, json=self.ASKED, key=self.KEY).json()
        assert again["revoked_at"]
        problem(world.api(None).get("/v1/me", token=again["token"]), "authentication-required", 401)

    def test_a_rotation_whose_answer_was_lost_is_answered_within_the_grace(self, world: World) -> None:
        api = world.api()
        first = api.post(ROTATE, json={"grace_s": 60}, key=self.KEY).json()
        assert api.post(ROTATE, json={"grace_s": 60}, key=self.KEY).json() == first
        problem(api.post(ROTATE, json={"grace_s": 60}, key=f"{self.KEY}-other"), "request-invalid", 422)
        answer = api.post(ROTATE, token=first["token"], key=self.KEY)  # the new one is rotated by another request
        problem(answer, "idempotency-key-reused", 422)
        world.clock.advance(seconds=60)
        problem(api.post(ROTATE, json={"grace_s": 60}, key=self.KEY), "authentication-required", 401)
