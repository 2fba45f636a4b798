"""Entry of a charge: its cost follows from it, and its sensitivities from declarations."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from entry_examples import EXAMPLES, PLACE
from fakes import BARE, JOINT, MOMENT, make_dataset, make_prepared, render

from curator_service.entries.amounts import Charge
from curator_service.kinds.registry import KINDS, AnyKind, KindRegistry
from curator_service.ledger.accounts.unit_of_work import Payer
from curator_service.ledger.chain.entries import Receipt, canonical
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant
from curator_service.releases.answers import Answer, divide
from curator_service.releases.charges import Stated, agrees_with_charge, recompute_cost, state_charge, state_derived
from curator_service.releases.preparation import Prepared
from curator_service.releases.repository import StoredRelease

PAYER = Payer("prn_ada", "prm_" + "0" * 24)
LAPLACE = {"mechanism": "laplace", "price": {"epsilon": 0.1}}
Change = Callable[[dict[str, Any]], object]


def charge(prepared: Prepared) -> dict[str, Any]:
    return state_charge("rel_1", prepared, render(prepared), MOMENT, PAYER, None).payload


def read(payload: dict[str, Any]) -> Charge:
    members = {name: value for name, value in payload.items() if name != "kind"}
    return Charge.model_validate(members, by_alias=True, by_name=False)


def stated(prepared: Prepared) -> Stated:
    return Stated.of(*prepared.kind.bounds(prepared.dataset, prepared.request))


def recompute(payload: dict[str, Any], kind: AnyKind = BARE, accountant: Accountant = GDP) -> int:
    return recompute_cost(KindRegistry(*KINDS, kind), read(payload), accountant)


@pytest.mark.parametrize(
    ("kind", "accountant", "members"),
    [
        (BARE, GDP, {}),
        (JOINT, GDP, {}),
        (JOINT, ZCDP, {"price": {"rho": 0.01}}),
        (BARE, GDP, LAPLACE),
        (BARE, ZCDP, LAPLACE),
        (BARE, PURE, LAPLACE),
    ],
)
def test_a_charge_costs_what_its_own_integers_cost(
    kind: AnyKind, accountant: Accountant, members: dict[str, Any]
) -> None:
    prepared = make_prepared("age", "weight", kind=kind, dataset=make_dataset(accountant), **members)
    assert recompute(charge(prepared), kind, accountant) == prepared.cost > 0


def test_a_charge_costs_less_by_its_joint_bound() -> None:
    payload = charge(make_prepared(kind=JOINT))
    together = recompute(payload, JOINT)
    del payload["curvature"]
    assert recompute(payload, JOINT) == pytest.approx(2 * together, abs=1)


@pytest.mark.parametrize("release_kind", ["none", "gram"])
def test_a_charge_names_its_kind(release_kind: str) -> None:
    """Its joint bound is read by that kind; an unknown one is no kind at all."""
    payload = charge(make_prepared(kind=JOINT)) | {"release_kind": release_kind}
    if release_kind == "none":
        with pytest.raises(KeyError):
            recompute(payload, JOINT)
    else:
        assert recompute(payload, JOINT) > recompute(charge(make_prepared(kind=JOINT)), JOINT)


MISSTATED: dict[str, Change] = {
    "no part": lambda entry: entry["mechanism"].clear(),
    "another distribution": lambda entry: entry["mechanism"][0].update(distribution="discrete_laplace"),
    "a fraction not in lowest terms": lambda entry: entry["mechanism"][0].update(
        sensitivity=f"{2 * Fraction(entry['mechanism'][0]['sensitivity'])}/2"
    ),
    "the other norm": lambda entry: entry["mechanism"][0].update(norm="L1"),
    "copies as text": lambda entry: entry["mechanism"][0].update(copies="1"),
    "scales as numbers": lambda entry: entry["mechanism"][0].update(scales=[2**20, 2**20]),
    "one scale": lambda entry: entry["mechanism"][0]["scales"].pop(),
    "a member more": lambda entry: entry["mechanism"][0].update(more=""),
    "a member less": lambda entry: entry["mechanism"][0].pop("norm"),
    "no mechanism": lambda entry: entry.pop("mechanism"),
}


@pytest.mark.parametrize("change", MISSTATED.values(), ids=MISSTATED)
def test_a_mechanism_that_is_not_written_to_the_letter_has_no_cost(change: Change) -> None:
    entry = charge(make_prepared())
    change(entry)
    with pytest.raises((ValueError, KeyError, TypeError)):
        recompute(entry)


def test_a_laplace_part_has_one_scale() -> None:
    entry = charge(make_prepared(**LAPLACE))
    scale, _ = entry["mechanism"][0]["scales"]
    entry["mechanism"][0]["scales"] = [scale, str(int(scale) + 1)]
    with pytest.raises(ValueError, match="something else"):
        recompute(entry)


# --- Its sensitivities


@pytest.mark.parametrize("kind", [BARE, JOINT])
def test_a_charge_states_the_sensitivities_that_follow_from_declarations(kind: AnyKind) -> None:
    prepared = make_prepared("age", "weight", kind=kind)
    assert stated(prepared).agrees(kind, read(charge(prepared)))
    assert not stated(make_prepared("age", kind=kind)).agrees(kind, read(charge(prepared)))


def test_a_joint_bound_that_does_not_follow_is_found() -> None:
    entry, expected = charge(make_prepared(kind=JOINT)), stated(make_prepared(kind=BARE))
    assert not expected.agrees(JOINT, read(entry))


UNLIKE: dict[str, Change] = {
    "statistic": lambda entry: entry["mechanism"][0].update(statistic="cells"),
    "distribution": lambda entry: entry["mechanism"][0].update(distribution="discrete_laplace"),
    "sensitivity": lambda entry: entry["mechanism"][0].update(sensitivity="1"),
    "norm": lambda entry: entry["mechanism"][0].update(norm="L1"),
    "copies": lambda entry: entry["mechanism"][0].update(copies=2),
    "two scales without pairs": lambda entry: entry["mechanism"][0].update(scales=["2048", "1024"]),
    "a part more": lambda entry: entry["mechanism"].append(entry["mechanism"][0]),
    "a part less": lambda entry: entry["mechanism"].clear(),
    "another joint bound": lambda entry: entry.update(curvature="1/3"),
    "the joint bound written otherwise": lambda entry: entry.update(curvature="2/4"),
    "no joint bound": lambda entry: entry.pop("curvature"),
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_each_misstated_sensitivity_is_found(change: Change) -> None:
    prepared = make_prepared(kind=JOINT)
    entry = charge(prepared)
    change(entry)
    assert not stated(prepared).agrees(JOINT, read(entry))


def test_where_pairs_weigh_more_they_may_have_a_scale_of_their_own() -> None:
    prepared = make_prepared()
    entry, expected = charge(prepared), stated(prepared)
    entry["mechanism"][0]["scales"] = ["2048", "1024"]
    assert Stated(expected.parts, [True], None).agrees(BARE, read(entry))


# --- Its answer


def answer_of(prepared: Prepared, **members: str) -> Answer:
    return divide(render(prepared), prepared.kind)._replace(**members)


@pytest.mark.parametrize("members", [{}, LAPLACE])
def test_an_answer_states_the_cost_and_the_noise_of_its_charge(members: dict[str, Any]) -> None:
    prepared = make_prepared(**members)
    assert agrees_with_charge(BARE, answer_of(prepared), read(charge(prepared)), str(prepared.cost))


OTHERWISE: dict[str, Callable[[Answer], Answer]] = {
    "units": lambda a: a._replace(cost=a.cost.replace('"units":"', '"units":"1')),
    "a cost without a view": lambda a: a._replace(cost=a.cost.replace('"rho":', '"pure_epsilon":')),
    "a cost with more members": lambda a: a._replace(cost=a.cost[:-1] + ',"more":1}'),
    "a view that is a text": lambda a: a._replace(cost=a.cost.replace('"delta":1e-6', '"delta":"1e-6"')),
    "a cost that states its units twice": lambda a: a._replace(cost='{"units":"1",' + a.cost[1:]),
    "the size of its noise": lambda a: a._replace(noise=a.noise.replace('"rows":', '"rows":1')),
    "the kind of its noise": lambda a: a._replace(noise=a.noise.replace("gaussian", "laplace")),
}


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=OTHERWISE)
def test_an_answer_that_states_something_else_is_found(change: Callable[[Answer], Answer]) -> None:
    prepared = make_prepared()
    answer = answer_of(prepared)
    assert change(answer) != answer
    assert not agrees_with_charge(BARE, change(answer), read(charge(prepared)), str(prepared.cost))


@pytest.mark.parametrize(
    "change", [MISSTATED["a fraction not in lowest terms"], lambda e: e["mechanism"][0].update(sensitivity="1/0")]
)
def test_no_answer_agrees_with_a_mechanism_that_cannot_be_read(change: Change) -> None:
    prepared = make_prepared()
    entry = charge(prepared)
    change(entry)
    assert not agrees_with_charge(BARE, answer_of(prepared), read(entry), str(prepared.cost))


def test_a_derived_answer_is_charged_nothing_and_names_its_source() -> None:
    prepared = make_prepared()
    receipt = Receipt(canonical(EXAMPLES["charge"].payload | PLACE), "0" * 64, "")
    source = StoredRelease("rel_1", "ds_1", "town", 7, "0" * 64, "{}", receipt)
    entry = state_derived("rel_2", prepared, "text", MOMENT, PAYER, source).payload
    assert (entry["source"], entry["snapshot"]) == ("rel_1", EXAMPLES["charge"].payload["snapshot"])
    assert entry.keys() == charge(prepared).keys() - {"mechanism"} | {"source"}
