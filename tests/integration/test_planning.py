"""Documentation of the demo's cohort agrees with its curator's answers, and each purchase was planned."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import World, client_of, open_population, open_world

from analyst_client import OLS, Assumptions, Release, dummy_twin, epsilon_for, expected_accuracy
from analyst_client.kinds import Quote
from analyst_client.kinds.gram.examples import QUOTE
from analyst_client.planning import rehearse
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.wire import Fields
from curator_service.privacy.accountant import Price
from curator_service.privacy.samplers import SystemNoise

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "flchain"


def quote(world: World, dataset: str, **request: Any) -> Quote:
    answer = world.api().post(f"/v1/datasets/{dataset}/quotes", json={"kind": "gram", **request})
    assert answer.status_code == 200, answer.text
    return Quote.read(Fields(answer.json()))


@pytest.fixture(scope="module")
def flchain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a world with the demo's dataset, sold with true noise."""
    with open_world(tmp_path_factory.mktemp("planning"), noise=SystemNoise()) as world:
        open_population(world.curator, "olmsted", Price(epsilon=3.0, delta=1e-6))
        dataset = world.curator.datasets.register(DEMO / "manifest.toml", DEMO / "flchain.csv", actor="operator:test")
        world.grant("ada", dataset.id)
        yield world


def test_the_quote_of_the_examples_is_the_curator_s(flchain: World) -> None:
    found = quote(
        flchain, "flchain", features=QUOTE.request["features"], targets=["kappa"], price=QUOTE.request["price"]
    )
    assert found == QUOTE


def test_formulas_of_the_documentation_are_accepted(flchain: World) -> None:
    pages = [ROOT / "docs" / "formulas.md"]
    pages += (ROOT / "analyst_client" / name for name in ("client.py", "terms/formulas.py"))
    text = "\n".join(page.read_text() for page in pages)
    formulas = set(re.findall(r"[\"`]([^\"`\n]*kappa[^\"`\n]* ~ [^\"`\n]+)[\"`]", text))
    formulas -= {"kappa ~ age + log(creatinin)"}  # the one that shows what a fault looks like
    assert len(formulas) >= 2
    client = client_of(flchain)
    for formula in formulas:
        assert client.quote("flchain", formula, epsilon=1.0, delta=1e-6).terms, formula


def test_a_half_width_of_the_documentation_has_a_price(flchain: World) -> None:
    page = (ROOT / "docs" / "planning.md").read_text()
    (example,) = re.findall(r"^client\.release\((.*?)\)\n```", page, re.DOTALL | re.MULTILINE)
    bought = eval(f"buy({example})", {"buy": client_of(flchain).release})
    assert 1 < bought.cost.epsilon < 2.5


def test_a_planned_price_buys_the_planned_accuracy(flchain: World) -> None:
    pilot = flchain.api().post("/v1/datasets/flchain/releases", key="pilot", json=QUOTE.request)
    assumptions = Assumptions.from_release(QUOTE, Release.from_text(pilot.text))
    plan = epsilon_for(0.003, "age", QUOTE, assumptions)
    request = QUOTE.request | {"price": {"epsilon": round(plan.epsilon, 6), "delta": 1e-6}}
    dear = quote(flchain, "flchain", **{name: value for name, value in request.items() if name != "kind"})
    assert dear.cost.share_of_budget == pytest.approx(plan.share_of_budget, rel=1e-4)
    assert expected_accuracy(dear, assumptions).half_length("age") == pytest.approx(0.003, rel=1e-3)
    bought = Release.from_text(flchain.api().post("/v1/datasets/flchain/releases", key="dear", json=request).text)
    low, high = OLS().fit(bought).conf_int()[1]
    assert (high - low) / 2 == pytest.approx(0.003, rel=0.5)


def test_a_quote_for_every_rule_of_missing_values_can_be_planned(world: World) -> None:
    features = ["age", "sex", "weight", "height", "treated", "region", "ward"]
    found = quote(world, "cohort", features=features, targets=["kappa", "lambda"], price={"mu": 0.2})
    assumptions = Assumptions.of(found, rows=5000, residual_sd=0.5)
    expected = expected_accuracy(found, assumptions, target="lambda")
    assert expected.names == tuple(term.name for term in found.terms)
    dataset = Dataset.read(Fields(world.api().get("/v1/datasets/cohort").json()))
    rehearsal = rehearse(found, Assumptions.from_rows(found, dummy_twin(dataset, 5000, missing=0.1)))
    bought = Release.from_text(world.api().post("/v1/datasets/cohort/releases", key="k", json=found.request).text)
    assert (rehearsal.terms, rehearsal.targets, rehearsal.features) == (bought.terms, bought.targets, bought.features)
    assert (rehearsal.request, rehearsal.noise) == (bought.request, bought.noise)
    np.testing.assert_equal([a is None for a in (rehearsal.xtx, rehearsal.lambda_min)], [False, True])
