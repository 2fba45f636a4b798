"""RED: `curator ledger verify` finds an answer that holds more, or quieter numbers, than its entry pays for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scenes import RELEASES, box
from support import World, body, open_world

from curator_service.privacy.accountant import Price
from curator_service.releases import till


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, limit=Price(mu=4.0)) as made:
        yield made


WIDE = box(features=["age", "sex", "weight", "ward"], price={"mu": 0.2})


def test_a_block_whose_numbers_are_not_those_of_its_source_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `derive` entry costs nothing: its numbers must be its source's, and its noise no less than theirs."""
    api = world.api()
    assert api.post(RELEASES, json=WIDE, key="source").status_code == 201
    honest = till.derive_statistics

    def forged(*arguments: Any) -> Any:
        values, sd, distribution = honest(*arguments)
        return {n: [1.0] * len(v) for n, v in values.items()}, dict.fromkeys(sd, 1e-6), distribution

    monkeypatch.setattr(till, "derive_statistics", forged)
    answer = api.post(RELEASES, json=WIDE | {"features": ["age"], "price": {"mu": 0.01}}, key="block")
    assert answer.headers["curator-answer"] == "derived"
    assert answer.json()["noise"]["sd"]["xtx_diagonal"] == 1e-6
    assert world.unbacked() != []


def test_a_block_of_a_source_that_does_not_exist_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    api = world.api()
    assert api.post(RELEASES, json=WIDE, key="source").status_code == 201
    honest = till.derive_facts

    def forged(*arguments: Any) -> Any:
        return honest(*arguments) | {"source": "rel_" + "0" * 24}

    monkeypatch.setattr(till, "derive_facts", forged)
    answer = api.post(RELEASES, json=WIDE | {"features": ["age"], "price": {"mu": 0.01}}, key="block")
    assert answer.headers["curator-answer"] == "derived"
    assert world.unbacked() != []


@pytest.mark.parametrize("extra", ["a statistic that is not in the request", "more terms than the request has"])
def test_an_answer_that_holds_more_than_its_request_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    """Sensitivities are derived from the request that the answer states: it must hold no more numbers than that."""
    honest = till.render_answer

    def forged(*arguments: Any) -> str:
        answer = json.loads(honest(*arguments))
        if extra.startswith("a statistic"):
            answer["statistics"]["lambda_min"] = {"shape": [], "packing": "full", "step": 1.0, "values": [3.25]}
        else:
            answer["terms"].append(answer["terms"][-1] | {"name": "more"})
            answer["statistics"]["xtx"]["values"] += [1.0] * len(answer["terms"])
        return json.dumps(answer, separators=(",", ":"))

    monkeypatch.setattr(till, "render_answer", forged)
    assert world.api().post(RELEASES, json=body(rows={"map": "box"}), key="k").status_code == 201
    assert world.unbacked() != []
