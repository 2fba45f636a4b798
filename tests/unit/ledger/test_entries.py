"""Every kind of entries: what is written reads back, and nothing else reads as one."""

from collections.abc import Mapping
from typing import Any

import pytest
from entry_examples import EXAMPLES, PERMIT, PLACE

from curator_service.entries.account import Account, Share, Unfounded
from curator_service.entries.base import KINDS, REGISTER, Entry, Event, Units
from curator_service.entries.rules import RULES, Asked, Kinds, Rule, find_broken, is_wider, read_rules
from curator_service.ledger.models import FREQUENT_KINDS

every_kind = pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES)


def test_every_kind_has_an_example() -> None:
    assert KINDS.keys() == EXAMPLES.keys()
    assert all(kind.meaning and (kind.units_are == "0") is (kind.amounts is Units.NONE) for kind in KINDS.values())


@every_kind
def test_what_is_written_reads_back(event: Event) -> None:
    entry = Entry.read(PLACE | event.payload)
    assert entry.said == event
    assert PLACE | event.payload == dict(entry.place) | entry.said.payload


def test_a_kind_is_declared_once() -> None:
    """Whoever declares one of the package's names again would change what entries of it do."""
    with pytest.raises(TypeError, match="'charge' is declared"):
        type("Charge", (Event,), {"kind": "charge", "__module__": __name__})
    with pytest.raises(TypeError, match="'kinds' is declared"):
        type("Kinds", (Rule,), {"name": "kinds", "meaning": "", "__module__": __name__})
    assert KINDS["charge"] is type(EXAMPLES["charge"])
    assert RULES["kinds"] is Kinds


def changes(payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a payload with a member more, and with each member less, empty, or of another type."""
    found = {"more": {**payload, "more": ""}, "drawn_from": {**payload, "drawn_from": "res_1"}}
    members = {field.alias or name for name, field in KINDS[payload["kind"]].model_fields.items()}
    found |= {f"{name} null": {**payload, name: None} for name in members}
    for name, value in payload.items():
        found[f"{name} less"] = {one: text for one, text in payload.items() if one != name}
        for other in (None, [value], {"a": value}, 1.5, True, str(value) if isinstance(value, int) else 7):
            found[f"{name} {other!r}"] = {**payload, name: other}
    return found


@every_kind
def test_nothing_else_reads_as_one(event: Event) -> None:
    for what, payload in changes(PLACE | event.payload).items():
        with pytest.raises((ValueError, KeyError, TypeError)):
            pytest.fail(f"{what}: {Entry.read(payload)}")


@every_kind
def test_it_stands_in_its_chains_with_its_amounts_alone(event: Event) -> None:
    """An amount where none belongs, none where one does, and a chain of another kind are told by name."""
    for population, units in (("town", 0), ("town", 5), (REGISTER, 0), (REGISTER, 5)):
        place = PLACE | {"population": population, "units": str(units)}
        in_register = population == REGISTER
        belongs = (event.in_register and not units) if in_register else event.in_populations
        belongs = belongs and (
            in_register or event.amounts is Units.ANY or (units > 0) is (event.amounts is Units.SOME)
        )
        try:
            Entry.read(place | event.payload).move(Account(limit=10, sequence=1))
            told = ""
        except Unfounded as found:
            told = str(found)
        assert ("does not belong" in told) is not belongs, (population, units, told)


def test_kinds_that_are_frequent_or_uses_are_these() -> None:
    """An index of the database leaves out the frequent ones; uses fix a limit for good."""
    assert {*FREQUENT_KINDS} == {"charge", "reserve", "void", "derive"}
    assert {name for name, kind in KINDS.items() if kind.is_use} == {
        "charge", "reserve", "derive", "reconcile", "session",
    }  # fmt: skip


def held() -> Account:
    """Return an account of which one permit holds something for a job and for a study."""
    share = Share(limit=9, posted=1, pending=5, people=frozenset({"prn_ada"}))
    return Account(
        limit=9, highest_limit=9, posted=1, pending=5, sequence=1, shares={PERMIT: share},
        reservations={"job_1": 2, "res_1": 3},
    )  # fmt: skip


def reconcile(account: Account, place: Mapping[str, Any], **members: Any) -> Account:
    """Move an account by a reconciliation at a place."""
    said = EXAMPLES["reconcile"].payload | {"voided": {"job_1": "2", "res_1": "3"}} | members
    Entry.read(PLACE | {"epoch": 2, "units": "4"} | dict(place) | said).move(account)
    return account


def test_a_reconciliation_posts_what_was_lost_and_holds_nothing() -> None:
    account = reconcile(held(), {"limit": "7"}, highest_limit="12")
    found = account.limit, account.highest_limit, account.posted, account.pending, account.epoch, account.is_used
    assert found == (7, 12, 5, 0, 2, True)
    assert account.reservations == {}
    assert (account.shares[PERMIT].posted, account.shares[PERMIT].pending) == (1, 0)


@pytest.mark.parametrize(
    ("place", "members", "reason"),
    [
        ({}, {"voided": {"job_1": "2"}}, "closes other reservations"),
        ({}, {"voided": {"job_1": "2", "res_1": "4"}}, "closes other reservations"),
        ({"epoch": 1}, {}, "not a new one"),
        ({"limit": "4"}, {}, "the charges exceed the limit"),
    ],
)
def test_a_reconciliation_that_does_not_follow_is_told(
    place: dict[str, Any], members: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unfounded, match=reason):
        reconcile(held(), place, **members)


def test_a_second_history_fills_a_permit_up_to_its_limit() -> None:
    """What was charged there is summed as if it had been charged here; a permit's limit is not passed by it."""
    like = {"month": "2026-03", "actor": "prn_ada", "project": "", "dataset": "cohort", "kind": "gram"}
    charges = [like | {"permit": PERMIT, "count": "2", "units": "9"}, like | {"permit": "", "count": "1", "units": "2"}]
    told = {"history": {"after": "1", "entries": ["0f" * 32]}, "charges": charges, "approved_by": "prn_otto"}
    account = reconcile(held(), {"units": "11", "limit": "20"}, **told)
    assert {key[2]: sums for key, sums in account.spending.items()} == {PERMIT: (2, 9), "": (1, 2)}
    assert (account.posted, account.shares[PERMIT].posted) == (12, 9)
    account = held()
    account.shares[PERMIT].limit = None
    assert reconcile(account, {"units": "11", "limit": "20"}, **told).shares[PERMIT].posted == 10


@pytest.mark.parametrize("less", ["approved_by", "charges"])
def test_a_second_history_names_its_second_person_and_its_charges(less: str) -> None:
    told = {"history": {"after": "1", "entries": []}, "charges": [], "approved_by": "prn_otto"}
    del told[less]
    with pytest.raises(Unfounded, match="second"):
        reconcile(held(), {"units": "0"}, **told)


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        ({}, {}, False),
        ({}, {"kinds": ["counts"]}, False),
        ({"kinds": ["counts"]}, {}, True),
        ({"kinds": ["counts"]}, {"kinds": ["counts", "gram"]}, True),
        ({"kinds": ["counts", "gram"]}, {"kinds": ["gram"]}, False),
    ],
)
def test_a_rule_less_or_looser_is_wider(before: dict[str, Any], after: dict[str, Any], wider: bool) -> None:
    assert is_wider(read_rules(after), read_rules(before)) is wider


def test_rules_are_read_to_the_letter() -> None:
    assert read_rules(None) == {}
    for stated in ({"kinds": []}, {"kinds": "counts"}, {"kinds": [1]}, {"other": 1}):
        with pytest.raises(ValueError, match="kinds"):
            read_rules(stated)
    counts = read_rules({"kinds": ["counts"]})
    assert find_broken(counts, Asked("counts", "cohort", 1)) is None
    assert find_broken(counts, Asked("gram", "cohort", 1)) == counts["kinds"]


def test_only_the_register_may_begin_in_a_later_epoch() -> None:
    for population, epoch in (("town", 1), (REGISTER, 3)):
        account = Account()
        opening = Entry.read(PLACE | {"population": population, "epoch": 3, "units": "0"} | EXAMPLES["open"].payload)
        opening.said.move(opening.place, account)
        assert account.epoch == epoch


def test_a_reconciliation_accounts_for_the_entries_of_a_second_history_alone() -> None:
    assert EXAMPLES["reconcile"].told == frozenset()  # type: ignore[attr-defined]


def test_a_charge_is_summed_under_its_permit_and_project() -> None:
    said = EXAMPLES["charge"].payload
    plain = Entry.read(PLACE | said).said.charged
    paid = Entry.read(PLACE | said | {"permit": PERMIT, "project": "kidney"}).said.charged
    assert (plain.permit, plain.project) == ("", "")
    assert (paid.permit, paid.project) == (PERMIT, "kidney")
