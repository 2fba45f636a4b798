"""A rule of permits of one new file outside of the package, and the rule of kinds: asked, granted, held, shown."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboard_worlds import Person, text_of, token_of
from support import TERMS, World, body, client_of, open_world, problem
from toy_rule import AtMost

from curator_service.entries.base import Entry
from curator_service.entries.rules import RULES
from curator_service.evidence.check_page import _environment

RULES.pop(AtMost.name)  # declared with its class: no other test knows it
PRICE = {"mu": 0.1}  # 10**10 units
MOST = 10**10
RELEASES = "/v1/datasets/cohort/releases"
OF_PROJECT: dict[str, Any] = {"project": TERMS["project"], "price": PRICE}
COUNT = {"kind": "counts", "tables": [{"axes": [{"column": "sex"}]}], **OF_PROJECT}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setitem(RULES, AtMost.name, AtMost)
    with open_world(tmp_path) as world:
        yield world


def test_a_release_that_it_does_not_allow_is_refused_and_not_charged(world: World) -> None:
    world.permit(rules={"at_most": MOST})
    before = world.entries()
    refused = problem(
        world.api().post(RELEASES, json=body(**OF_PROJECT | {"price": {"mu": 0.2}}), key="a"), "permit-needed", 403
    )
    assert "Its rule 'at_most' says: 10000000000" in refused["detail"]
    assert world.entries() == before
    assert world.api().post(RELEASES, json=body(**OF_PROJECT), key="b").status_code == 201
    assert world.curator.ledger.verify("town").ok
    assert world.discrepancies() == []


def test_kinds_are_a_rule_of_the_package(world: World) -> None:
    world.permit(rules={"kinds": ["counts"]})
    refused = problem(world.api().post(RELEASES, json=body(**OF_PROJECT), key="a"), "permit-needed", 403)
    assert "Its rule 'kinds' says: counts" in refused["detail"]
    assert world.api().post(RELEASES, json=COUNT, key="b").status_code == 201


@pytest.mark.parametrize("who", ["ada", "root"])
def test_a_name_of_no_kind_is_refused_with_the_names_that_there_are(world: World, who: str) -> None:
    """A permit whose rule nothing can meet is of no use; sessions of thresholds have a name beside the kinds."""
    for rule in (["counts", "count"], ["session"]):
        refused = world.api(who).post("/v1/permits", json=TERMS | {"rules": {"kinds": rule}})
        (error,) = problem(refused, "request-invalid", 422)["errors"]
        assert error["pointer"] == "/rules/kinds"
        assert error["detail"] == (
            f"there is no kind {rule[-1]!r}; kinds are counts, gram, marginals, score and threshold"
        )
    assert world.curator.approvals.list_proposals() == []
    world.permit(rules={"kinds": ["score", "threshold"]})
    asked = {"positives": 1, "direction": "above", "price": {"epsilon": 0.1}, "project": TERMS["project"]}
    assert world.api().post("/v1/datasets/cohort/sessions", json=asked, key="s").status_code == 201
    problem(world.api().post(RELEASES, json=COUNT, key="c"), "permit-needed", 403)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ("replace(terms, 'kinds', 'colours')", 'Rule coloursnot known here: ["counts"]'),
        (r"""replace(terms, '[\"counts\"]', '{}')""", "Rule kindsnot known here: {}"),
    ],
)
def test_a_permit_with_a_rule_that_is_not_known_is_shown_and_only_two_people_change_it(
    world: World, changed: str, shown: str
) -> None:
    """Its row may be from a curator with other rules: what it says is shown, and lifting it is no restriction."""
    permit = world.permit(rules={"kinds": ["counts"]})
    world.sql(f"UPDATE permits SET terms = {changed}")
    person = Person(world, app=world.api("root").app)
    person.sign_in(world.tokens["root"])
    page = person.get(f"/admin/permits/{permit}")
    assert (page.status_code, person.get(f"/admin/permits/{permit}/change").status_code) == (200, 200)
    assert shown in text_of(page.text)
    for rules in ({}, {"kinds": ["counts"]}):
        asked = world.api("root").post(f"/v1/permits/{permit}", json=TERMS | {"rules": rules})
        assert asked.json()["state"] == "open", asked.text


@pytest.mark.parametrize("drawn", [False, True])
def test_the_chain_does_not_hold_where_it_is_broken(world: World, monkeypatch: pytest.MonkeyPatch, drawn: bool) -> None:
    """Whoever skips it in the service is told by the chain; from a reservation too."""
    world.permit(rules={"at_most": MOST})
    asked = body(**OF_PROJECT | {"price": {"mu": 0.2}})
    if drawn:
        held = {"price": {"mu": 0.21}, "expires_in_s": 600, "project": TERMS["project"]}
        reserved = world.api().post("/v1/datasets/cohort/reservations", json=held, key="r")
        assert reserved.status_code == 201, reserved.text
        asked |= {"reservation": reserved.json()["id"]}
    with monkeypatch.context() as skipping:
        skipping.setattr(AtMost, "allows", lambda *_: True)
        assert world.api().post(RELEASES, json=asked, key="a").status_code == 201
    assert world.curator.ledger.verify("town").reason == "the permit's rule 'at_most' does not allow it"


def test_rows_without_it_do_not_lift_it(world: World) -> None:
    """The chain has the terms; a permit's row that was changed only restricts."""
    world.permit(rules={"at_most": MOST})
    terms = "replace(terms, 'at_most', 'nothing')"
    world.sql(f"UPDATE permits SET terms = {terms}")
    RULES["nothing"] = AtMost
    try:
        refused = world.api().post(RELEASES, json=body(**OF_PROJECT | {"price": {"mu": 0.05}}), key="a")
        assert refused.status_code == 201  # what the chain allows
        refused = world.api().post(RELEASES, json=body(**OF_PROJECT | {"price": {"mu": 0.2}}), key="b")
        assert refused.status_code in {403, 503}
    finally:
        del RULES["nothing"]


def test_it_is_widened_by_two_people_and_restricted_by_one(world: World) -> None:
    permit = world.permit(rules={"at_most": MOST})
    for rules, state in (({"at_most": MOST - 1}, "applied"), ({"at_most": MOST}, "open"), ({}, "open")):
        asked = world.api("root").post(f"/v1/permits/{permit}", json=TERMS | {"rules": rules})
        assert asked.json()["state"] == state, rules


@pytest.mark.parametrize(
    ("rules", "said"),
    [({"none": 1}, "there is no rule 'none'"), ({"at_most": 0}, "greater than"), ({"at_most": "1"}, "integer")],
)
def test_what_is_none_is_refused(world: World, rules: dict[str, Any], said: str) -> None:
    refused = problem(world.api().post("/v1/permits", json=TERMS | {"rules": rules}), "request-invalid", 422)
    assert said in json.dumps(refused)


def test_the_document_the_client_the_pages_and_the_evidence_show_it(world: World) -> None:
    permit = world.permit(rules={"at_most": MOST})
    schemas = json.loads(world.api("root").get("/openapi.json").text)["components"]["schemas"]
    assert {*schemas["PermitRules"]["properties"]} == {"kinds", "at_most"}
    with client_of(world) as client:
        (held,) = [one for one in client.permits() if one.id == permit]
    assert held.rules == {"at_most": MOST}
    assert "at_most = 10000000000" in held._repr_html_()
    person = Person(world, app=world.api("root").app)
    person.sign_in(world.tokens["root"])
    assert "Rule at_most" in person.get(f"/admin/permits/{permit}").text
    form = person.get(f"/admin/permits/{permit}/change")
    assert 'name="rule_at_most" maxlength="500" value="10000000000"' in form.text
    refused = person.post(
        f"/admin/permits/{permit}/change",
        {"form_token": token_of(form), "people": "ada", "datasets": "cohort", "reason": "so", "rule_at_most": "many"},
    )
    assert refused.status_code == 422
    (entry,) = [one for one in world.entries() if one["kind"] == "permit" and one["permit"] == permit]
    read = Entry.read({name: value for name, value in entry.items() if name not in {"entry_hash", "signature"}})
    assert {*read.said.share.rules} == {"at_most"}
    assert [rule.text for rule in _environment().globals["rules_of"](entry)] == ["10000000000"]
