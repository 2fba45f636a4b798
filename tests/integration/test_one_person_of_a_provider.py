"""Persons whom an identity provider identifies otherwise to each application, or by another claim than before."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from issuers import NOW, Documents, T, claims, provider, providers, sign
from pydantic import ValidationError
from support import TERMS, Api, World, body, open_world, problem

from curator_service.entries.base import REGISTER
from curator_service.identity.oidc.providers import IdentityProviders

RAISE = {"limit": {"mu": 2.0}, "reason": "more"}
RELEASES = "/v1/datasets/cohort/releases"
FEATURES = {"a": "age", "b": "sex"}
OID = {"oid": "11111111-aaaa", "tid": "tenant"}


@pytest.fixture
def place(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    with open_world(tmp_path, url=database_url) as world:
        assert world.clock() == NOW
        yield world


def served(world: World, **changes: Any) -> Api:
    api = world.api(None)
    api.app.state.curator.identity.providers = providers(Documents(), now=world.clock, **changes)
    return api


def token(sub: str, application: str = "notebooks", *groups: str, **changes: Any) -> str:
    return sign(claims(sub=sub, azp=application, groups=groups or ["dpo"], **changes))


def propose(api: Api, text: str) -> str:
    answer = api.post("/v1/admin/populations/town/limits", json=RAISE, token=text)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def approve(api: Api, proposal: str, text: str) -> Any:
    return api.post(f"/v1/admin/proposals/{proposal}/approve", token=text)


def who(api: Api, text: str) -> dict[str, Any]:
    answer = api.get("/v1/me", token=text)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


def acts(world: World) -> list[dict[str, Any]]:
    assert world.curator.ledger.verify(REGISTER).ok
    return world.curator.register.list_entries(after=0, count=1000)


class TestTwoApplications:
    """A provider with pairwise subjects states another `sub` of one woman to each application."""

    def test_one_person_through_two_applications_does_not_approve(self, place: World) -> None:
        api, count = served(place), len(place.entries())
        asked = propose(api, token("pairwise-1", "notebooks"))
        refused = problem(approve(api, asked, token("pairwise-2", "desk")), "second-admin-needed", 403)
        assert "two applications" in refused["detail"]
        assert len(place.entries()) == count

    @pytest.mark.parametrize("application", ["", ..., 7])
    def test_nor_through_one_that_is_not_named(self, place: World, application: Any) -> None:
        api = served(place)
        asked = propose(api, token("pairwise-1", application))
        problem(approve(api, asked, token("pairwise-2", application)), "second-admin-needed", 403)

    def test_two_subjects_of_one_application_are_two_persons(self, place: World) -> None:
        api = served(place)
        assert approve(api, propose(api, token("ada")), token("olga")).status_code == 200

    def test_whoever_came_through_the_other_one_as_well_is_another_person(self, place: World) -> None:
        api = served(place)
        who(api, token("olga", "notebooks"))
        asked = propose(api, token("ada", "notebooks"))
        assert approve(api, asked, token("olga", "desk")).status_code == 200
        applications = [act.get("applications") for act in acts(place) if act.get("issuer")]
        assert applications == [["token:notebooks"], ["token:notebooks"], ["token:desk"]]

    @pytest.mark.parametrize("changes", [{"subjects": "public"}, {"subject_claim": "oid"}], ids=str)
    def test_a_provider_that_tells_people_apart_may_have_many_applications(
        self, place: World, changes: dict[str, Any]
    ) -> None:
        api = served(place, **changes)
        asked = propose(api, token("1", "notebooks", **OID))
        other = token("2", "desk", oid="22222222-bbbb", tid="tenant")
        assert approve(api, asked, other).status_code == 200
        assert all("applications" not in act for act in acts(place))

    def test_one_person_is_one_by_a_claim_that_both_applications_state(self, place: World) -> None:
        api = served(place, subject_claim="oid")
        asked = propose(api, token("1", "notebooks", **OID))
        problem(approve(api, asked, token("2", "desk", **OID)), "second-admin-needed", 403)

    def test_whoever_gains_does_not_approve_through_another_application(self, place: World) -> None:
        api = served(place)
        analyst = who(api, token("pairwise-1", "notebooks", "researchers"))["name"]
        terms = TERMS | {"people": [analyst]}
        asked = place.api("ada").post("/v1/permits", json=terms).json()["id"]
        problem(approve(api, asked, token("pairwise-2", "desk")), "second-admin-needed", 403)
        assert approve(api, asked, token("olga", "notebooks")).status_code == 200

    def test_so_many_applications_are_noted_and_no_more(self, place: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("curator_service.identity.service.APPLICATIONS_MAX", 3)
        api, count = served(place), len(acts(place))
        for n in range(6):
            who(api, token("ada", f"application-{n}"))
            who(api, token("ada", f"application-{n}"))
        assert len(acts(place)) == count + 4  # one is of the displayed name

    def test_an_older_token_through_another_application_widens_nothing(self, place: World) -> None:
        api = served(place)
        who(api, token("ada", "notebooks", "researchers", iat=T - 5))
        assert api.get("/v1/me", token=token("ada", "desk", "dpo", iat=T - 50)).status_code == 403
        assert who(api, token("ada", "notebooks", "researchers", iat=T - 5))["roles"] == ["analyst"]
        assert acts(place)[-1]["roles"] == ["analyst"]


class TestAnotherClaim:
    """The setting `subject_claim` names another claim than before."""

    @pytest.fixture
    def before(self, place: World) -> World:
        """One woman, who was two persons: an analyst in notebooks, an officer at the desk."""
        api = served(place)
        self.analyst = who(api, token("pairwise-1", "notebooks", "researchers"))
        self.officer = who(api, token("pairwise-2", "desk"))
        place.curator.permits.grant(self.analyst["name"], "cohort", actor="operator:test")
        self.charge(api, token("pairwise-1", "notebooks", "researchers"), "a" * 22)
        self.asked = propose(api, token("pairwise-2", "desk"))
        return place

    @staticmethod
    def charge(api: Api, text: str, key: str) -> None:
        answer = api.post(RELEASES, json=body(features=[FEATURES[key[0]]]), key=key, token=text)
        assert answer.status_code == 201, answer.text

    def test_links_who_somebody_was_with_limits_and_permits(self, before: World) -> None:
        api, count = served(before, subject_claim="oid"), len(acts(before))
        found = who(api, token("pairwise-1", "notebooks", "researchers", **OID))
        assert (found["id"], found["name"]) == (self.analyst["id"], self.analyst["name"])
        (act,) = acts(before)[count:]
        assert (act["principal"], act["claim"]) == (self.analyst["id"], "oid")
        assert act["identity"] not in {self.analyst["id"], self.officer["id"]}
        self.charge(api, token("pairwise-1", "notebooks", "researchers", **OID), "b" * 22)
        charges = [entry["actor"] for entry in before.entries() if entry["kind"] == "charge"]
        assert charges == [self.analyst["id"]] * 2
        who(api, token("pairwise-1", "notebooks", "researchers", **OID))
        who(served(before, subject_claim="oid"), token("pairwise-1", "notebooks", "researchers", **OID))
        assert len(acts(before)) == count + 1

    @pytest.mark.parametrize("order", [("notebooks", "desk"), ("desk", "notebooks")])
    def test_two_ids_of_one_person_become_the_one_with_permits(self, before: World, order: tuple[str, ...]) -> None:
        api = served(before, subject_claim="oid")
        texts = {
            "notebooks": token("pairwise-1", "notebooks", "researchers", "dpo", iat=T - 5, **OID),
            "desk": token("pairwise-2", "desk", "researchers", "dpo", iat=T - 5, **OID),
        }
        for application in order:
            who(api, texts[application])
        assert {who(api, text)["id"] for text in texts.values()} == {self.analyst["id"]}
        (links,) = [act["links"] for act in acts(before) if "links" in act]
        assert links == [self.officer["id"]]
        roles = {one.id: one.roles for one in before.curator.identity.list_principals()}
        assert roles[self.officer["id"]] == frozenset()
        again = served(before, subject_claim="oid")
        assert {who(again, text)["id"] for text in texts.values()} == {self.analyst["id"]}
        # What the officer had asked is her own, whichever id she had then.
        problem(approve(again, self.asked, texts["desk"]), "second-admin-needed", 403)

    def test_two_processes_that_link_one_person_at_once_agree(self, before: World) -> None:
        texts = [
            token("pairwise-1", "notebooks", "researchers", "dpo", iat=T - 5, **OID),
            token("pairwise-2", "desk", "researchers", "dpo", iat=T - 5, **OID),
        ]
        apis = [served(before, subject_claim="oid") for _ in texts]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda at: apis[at].get("/v1/me", token=texts[at]), range(2)))
        again = served(before, subject_claim="oid")
        for _ in range(2):
            found = [who(again, text)["id"] for text in texts]
        assert len(set(found)) == 1
        problem(approve(again, self.asked, texts[0]), "second-admin-needed", 403)
        problem(approve(again, self.asked, texts[1]), "second-admin-needed", 403)

    def test_until_then_the_old_id_may_nothing(self, before: World) -> None:
        api = served(before, subject_claim="oid")
        who(api, token("pairwise-1", "notebooks", "researchers", **OID))
        officer = token("pairwise-1", "notebooks", iat=T - 5, **OID)
        refused = problem(approve(api, self.asked, officer), "second-admin-needed", 403)
        assert "linked" in refused["detail"]
        other = token("3", "desk", oid="333", tid="tenant")
        problem(approve(api, self.asked, other), "second-admin-needed", 403)
        who(api, token("pairwise-2", "desk", iat=T - 4, **OID))
        assert approve(api, self.asked, other).status_code == 200

    def test_a_token_without_the_claim_lets_nobody_in(self, before: World) -> None:
        api = served(before, subject_claim="oid")
        for changes in ({}, {"oid": "1"}, {"oid": "", "tid": "t"}, {"oid": ["1"], "tid": "t"}, {"oid": "1", "tid": 7}):
            text = token("pairwise-1", "notebooks", "researchers", **changes)
            problem(api.get("/v1/me", token=text), "authentication-required", 401)

    def test_the_same_person_of_another_tenant_is_somebody_else(self, before: World) -> None:
        api = served(before, subject_claim="oid", subject_claim_before="")
        one = who(api, token("1", **OID))["id"]
        text = token("1", oid=OID["oid"], tid="another")
        problem(api.get("/v1/me", token=text), "authentication-required", 401)  # the name is the first one's
        assert who(api, token("1", **OID))["id"] == one

    def test_a_subject_that_came_to_somebody_else_links_nobody_twice(self, before: World) -> None:
        api = served(before, subject_claim="oid")
        who(api, token("pairwise-1", "notebooks", "researchers", **OID))
        other = who(api, token("pairwise-1", "notebooks", "researchers", oid="999", tid="tenant"))
        assert other["id"] != self.analyst["id"]
        assert api.get("/v1/datasets/cohort", token=token("pairwise-1", oid="999", tid="tenant")).status_code != 200

    def test_nobody_is_linked_where_settings_say_so(self, before: World) -> None:
        api = served(before, subject_claim="oid", subject_claim_before="")
        found = who(api, token("pairwise-1", "notebooks", "researchers", **OID))
        assert (found["id"] != self.analyst["id"], found["name"]) == (True, f"hospital.{OID['oid']}")

    def test_under_a_seal_nobody_is_linked(self, before: World) -> None:
        api = served(before, subject_claim="oid")
        before.curator.ledger.guard.seal("an incident")
        text = token("pairwise-1", "notebooks", "researchers", **OID)
        problem(api.get("/v1/me", token=text), "ledger-unverified", 503)

    def test_the_claim_of_before_comes_back(self, before: World) -> None:
        text = token("pairwise-1", "notebooks", "researchers", **OID)
        who(served(before, subject_claim="oid"), text)
        assert who(served(before, subject_claim_before="oid"), text)["id"] == self.analyst["id"]
        assert acts(before)[-1]["claim"] == "sub"


def test_a_link_that_another_process_wrote_counts_at_once(place: World) -> None:
    """The session of somebody who was linked goes on at another worker, which has not read of it yet."""
    browser = {"client_id": "dashboard"}
    found = who(served(place, browser=browser), token("olga"))["id"]
    apis = [served(place, browser=browser, subject_claim="oid") for _ in range(3)]
    first, second, third = (api.app.state.curator.identity for api in apis)
    assert second.find_vouched(found) is None
    assert third.find_vouched(found) is None
    text = token("olga", **OID)
    assert who(apis[0], text)["id"] == found
    assert second.find_vouched(found) is not None
    assert third.is_of(first.providers.sign_in(text).principal.id, found)


@pytest.mark.parametrize("claim", ["email", "preferred_username", "upn", "UPN", "name", ""])
def test_a_claim_that_may_change_says_nothing_of_who_somebody_is(claim: str) -> None:
    with pytest.raises(ValidationError):
        provider(subject_claim=claim)
    if claim:  # nobody is linked by one, either
        with pytest.raises(ValidationError):
            provider(subject_claim="oid", subject_claim_before=claim)


def test_a_session_ends_where_another_claim_says_who_somebody_is(place: World) -> None:
    api = served(place, browser={"client_id": "dashboard"})
    identity = api.app.state.curator.identity
    found = who(api, token("olga"))["id"]
    assert identity.find_vouched(found) is not None
    other = provider(browser={"client_id": "dashboard"}, subject_claim="oid")
    identity.providers = IdentityProviders((other,), (), place.clock, Documents())
    assert identity.find_vouched(found) is None
