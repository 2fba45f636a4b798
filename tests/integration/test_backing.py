"""`curator ledger verify` finds an answer that holds more, or other numbers, than its entry pays for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scenes import RELEASES, box, register_private
from support import World, open_world

from curator_service.privacy.accountant import Price
from curator_service.releases import preparation, till

WIDE = box(features=["age", "sex", "weight", "ward"], targets=["kappa", "dose"], price={"mu": 0.2})
NARROW = WIDE | {"features": ["weight", "age"], "targets": ["dose"], "price": {"mu": 0.01}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, limit=Price(mu=4.0)) as made:
        yield made


def derive(world: World, request: dict[str, Any] = NARROW, *, at: str = RELEASES, key: str = "block") -> dict[str, Any]:
    """Buy the wide release, and have a block cut out of it; return the block."""
    api = world.api()
    assert api.post(at, json=WIDE, key="source").status_code in {200, 201}
    answer = api.post(at, json=request, key=key)
    assert answer.headers["curator-answer"] == "derived"
    content: dict[str, Any] = answer.json()
    return content


def rewrite(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the till render other answers: with entries, hashes and signatures that are right for them."""
    honest = getattr(till, name)

    def forged(*arguments: Any) -> str:
        answer = json.loads(honest(*arguments))
        change(answer)
        return json.dumps(answer, separators=(",", ":"))

    monkeypatch.setattr(till, name, forged)


def test_blocks_of_any_kind_are_backed(world: World) -> None:
    derive(world)
    derive(world, NARROW | {"features": ["sex"], "statistics": ["xty"]}, key="products")
    derive(world, NARROW | {"features": ["ward"], "targets": ["dose", "kappa"]}, key="levels")
    assert world.unbacked() == []


def test_a_block_and_a_source_in_the_stated_order_of_columns_are_backed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers of before the canonical order stand in the order in which they were asked."""
    monkeypatch.setattr(preparation, "_in_order", lambda _dataset, columns: columns)
    block = derive(world)
    assert [term["name"] for term in block["terms"]] == ["(constant)", "weight", "age"]
    monkeypatch.undo()
    assert world.unbacked() == []


@pytest.mark.parametrize("what", ["values", "one value", "sd", "distribution"])
def test_a_block_whose_numbers_are_not_those_of_its_source_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A `derive` entry costs nothing: its numbers must be its source's, and its noise no less than theirs."""
    honest = till.derive_statistics

    def forged(*arguments: Any) -> Any:
        values, sd, distribution = honest(*arguments)
        if what == "values":
            values = {name: [1.0] * len(held) for name, held in values.items()}
        elif what == "one value":
            values["yty"][-1] += 2.0**-30
        elif what == "sd":
            sd = dict.fromkeys(sd, 1e-6)
        else:
            distribution = "discrete_laplace"
        return values, sd, distribution

    monkeypatch.setattr(till, "derive_statistics", forged)
    block = derive(world)
    assert world.unbacked() == [f"the source of {block['id']}"]


@pytest.mark.parametrize("source", ["none", "itself", "another block", "other rows"])
def test_a_block_that_names_no_release_that_it_is_cut_out_of_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    api = world.api()
    named = "rel_" + "0" * 24
    if source == "another block":
        named = derive(world, key="other")["id"]
    elif source == "other rows":
        named = api.post(RELEASES, json=WIDE | {"rows": {"map": "ball"}}, key="other").json()["id"]
    honest_facts, honest_answer = till.derive_facts, till.render_derived

    def forged(release_id: str, *arguments: Any) -> Any:
        return honest_facts(release_id, *arguments) | {"source": release_id if source == "itself" else named}

    def rendered(release_id: str, *arguments: Any) -> str:
        content = json.loads(honest_answer(release_id, *arguments))
        content["derived_from"] = release_id if source == "itself" else named
        return json.dumps(content, separators=(",", ":"))

    monkeypatch.setattr(till, "derive_facts", forged)
    monkeypatch.setattr(till, "render_derived", rendered)
    block = derive(world, NARROW | {"features": ["age"]})
    assert world.unbacked() == [f"the source of {block['id']}"]


def test_a_block_of_what_another_one_bought_for_himself_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address = register_private(world, "ada", "ben")
    at = f"{address}/releases"
    bens = world.api("ben").post(at, json=WIDE, key="source").json()["id"]
    honest_facts = till.derive_facts
    derive(world, at=at, key="mine")
    assert world.unbacked() == []
    monkeypatch.setattr(till, "derive_facts", lambda *given: honest_facts(*given) | {"source": bens})
    rewrite(monkeypatch, "render_derived", lambda answer: answer.update(derived_from=bens))
    block = derive(world, NARROW | {"features": ["sex"]}, at=at, key="his")
    assert world.unbacked() == [f"the source of {block['id']}"]


def _add_statistic(answer: dict[str, Any]) -> None:
    answer["statistics"]["lambda_min"] = {"shape": [], "packing": "full", "step": 1.0, "values": [3.25]}


def _add_term(answer: dict[str, Any]) -> None:
    answer["terms"].append(answer["terms"][-1] | {"name": "more"})
    answer["statistics"]["xtx"]["values"] += [1.0] * len(answer["terms"])


MORE: dict[str, Callable[[dict[str, Any]], object]] = {
    "a statistic": _add_statistic,
    "a term": _add_term,
    "a target": lambda answer: answer["targets"].append(answer["targets"][-1]),
    "a feature": lambda answer: answer["features"].append(answer["features"][-1]),
    "a value": lambda answer: answer["statistics"]["xty"]["values"].append(1.0),
    "a value that is a list": lambda answer: answer["statistics"]["yty"].update(values=[[1.0, 2.0]]),
    "another shape": lambda answer: answer["statistics"]["yty"].update(shape=[2]),
    "a member": lambda answer: answer.update(exact=[1.0]),
    "a member of a statistic": lambda answer: answer["statistics"]["xtx"].update(exact=[1.0]),
    "a member of a term": lambda answer: answer["terms"][0].update(exact=1.0),
}


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("kind", ["charge", "derive"])
def test_an_answer_that_holds_more_than_its_request_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, more: str
) -> None:
    """Sensitivities are derived from the request that the answer states: it must hold no more numbers than that."""
    if kind == "charge":
        rewrite(monkeypatch, "render_answer", MORE[more])
        found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    else:
        rewrite(monkeypatch, "render_derived", MORE[more])
        found = derive(world)["id"]
    assert world.unbacked() == [found]


def test_an_answer_with_a_member_twice_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it may see the first, or the last."""
    honest = till.render_answer
    monkeypatch.setattr(till, "render_answer", lambda *given: honest(*given)[:-1] + ',"kind":"gram"}')
    found = world.api().post(RELEASES, json=NARROW, key="k").json()["id"]
    assert world.unbacked() == [found]
