"""Every accountant, mechanism and calibration through the service: what is charged is what the noise costs."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entry_examples import read
from support import CountingNoise, World, body, make_rows, open_population, open_world, problem

from curator_service.kinds.gram import kind as gram
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import ACCOUNTANTS, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.releases import response_time as response_timer
from curator_service.releases.charges import recompute_cost

LIMITS = {"gdp": Price(mu=1.0), "zcdp": Price(rho=0.5), "pure": Price(epsilon=2.0)}
GAUSSIAN = {"price": {"epsilon": 0.5, "delta": 1e-6}}
LAPLACE = {"mechanism": "laplace", "price": {"epsilon": 0.5}}
SOLD: dict[str, dict[str, Any]] = {
    "analytic": GAUSSIAN,
    "classical": GAUSSIAN | {"calibration": "classical"},
    "wang2018": GAUSSIAN | {"calibration": "wang2018"},
    "laplace": LAPLACE,
    "nieminen2017": LAPLACE | {"calibration": "nieminen2017", "rows": {"map": "box"}},
    "unit": GAUSSIAN | {"rows": {"map": "unit"}},
    "unit_xy, laplace": LAPLACE | {"rows": {"map": "unit_xy"}},
}


@pytest.fixture(scope="module", params=list(Adjacency), ids=lambda adjacency: adjacency.value)
def hospital(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world with one population, one dataset and one grant for each accountant."""
    with open_world(tmp_path_factory.mktemp("hospital"), noise=CountingNoise()) as world:
        for seed, (name, limit) in enumerate(LIMITS.items()):
            open_population(world.curator, f"people-{name}", limit, adjacency=request.param, accountant=name)
            world.grant("ada", world.register(name, f"people-{name}", make_rows(seed=100 + seed)))
        yield world


def buy(world: World, dataset: str, request: dict[str, Any], key: str) -> dict[str, Any]:
    answer = world.api().post(f"/v1/datasets/{dataset}/releases", json=body(fresh=True, **request), key=key)
    assert answer.status_code == 201, answer.text
    content: dict[str, Any] = answer.json()
    return content


@pytest.mark.parametrize("accountant", list(LIMITS))
@pytest.mark.parametrize("kind", list(SOLD))
def test_a_charge_is_what_its_own_integers_cost(hospital: World, accountant: str, kind: str) -> None:
    request = SOLD[kind]
    gaussian = "mechanism" not in request
    if gaussian and accountant == "pure":
        answer = hospital.api().post("/v1/datasets/pure/releases", json=body(**request), key=f"{kind}-refused")
        content = problem(answer, "request-invalid", 422)
        assert content["errors"][0]["pointer"] == "/mechanism"
        return
    released = buy(hospital, accountant, request, f"{accountant}-{kind[:4]}-{kind[-4:]}")
    receipt = released["receipt"]
    assert (
        recompute_cost(KINDS, read(receipt).said, ACCOUNTANTS[accountant])
        == int(receipt["units"])
        == int(released["cost"]["units"])
    )
    assert released["noise"]["distribution"] == ("discrete_gaussian" if gaussian else "discrete_laplace")
    (verified,) = (hospital.curator.ledger.verify(f"people-{accountant}"),)
    assert verified.ok
    assert hospital.discrepancies(f"people-{accountant}") == []


def test_pure_epsilon_adds_up_exactly(hospital: World) -> None:
    before = hospital.curator.ledger.get_population("people-pure")
    for _ in range(2):
        buy(hospital, "pure", {"mechanism": "laplace", "price": {"epsilon": 0.1}}, f"tenth-{before.sequence}-{_}")
    after = hospital.curator.ledger.get_population("people-pure")
    spent = after.posted - before.posted
    # Scales are rounded up to integers: what is charged is at most the price, and within a millionth of it.
    assert 0.2 * (1 - 1e-6) < spent / 10**12 <= 0.2


def test_an_entry_can_be_accounted_for_in_every_notion(hospital: World) -> None:
    released = buy(hospital, "gdp", LAPLACE | {"price": {"epsilon": 0.3}}, "views")
    pure, zcdp, gdp = (
        recompute_cost(KINDS, read(released["receipt"]).said, ACCOUNTANTS[name]) for name in ("pure", "zcdp", "gdp")
    )
    assert pure <= 0.3 * 10**12
    assert 0 < zcdp <= 0.3**2 / 2 * 10**12
    assert 2 * zcdp < gdp  # µ² of an ε-DP mechanism is above ε²


def test_a_budget_is_shown_in_the_notions_that_it_implies(hospital: World) -> None:
    api = hospital.api()
    gdp, zcdp, pure = (api.get(f"/v1/datasets/{name}/budget").json() for name in ("gdp", "zcdp", "pure"))
    assert (gdp["limit"]["mu"], gdp["limit"]["rho"]) == (1.0, 0.5)
    assert (zcdp["limit"]["mu"], zcdp["limit"]["rho"]) == (None, 0.5)
    assert (pure["limit"]["epsilon"], pure["limit"]["delta"], pure["delta"]) == (2.0, 0.0, 0.0)
    assert pure["remaining"]["mu"] is None
    # (ε, δ) of one ρ is dearer than of the µ with the same Gaussian mechanism.
    assert zcdp["limit"]["epsilon"] > gdp["limit"]["epsilon"]


def test_a_refusal_names_what_would_pass_and_that_passes(hospital: World) -> None:
    for name in LIMITS:
        request = body(mechanism="laplace", price={"epsilon": 5.0}, fresh=True)
        answer = hospital.api().post(f"/v1/datasets/{name}/releases", json=request, key=f"too-much-{name}")
        largest = problem(answer, "budget-exceeded", 409)["largest"]
        price = {"epsilon": largest["epsilon"]} | ({} if name == "pure" else {"delta": largest["delta"]})
        quote = hospital.api().post(f"/v1/datasets/{name}/quotes", json=request | {"price": price}).json()
        assert quote["affordable"], quote
        assert int(quote["cost"]["units"]) > 0.999 * hospital.curator.ledger.get_population(f"people-{name}").remaining


def test_a_askedread_off_an_answer_is_the_same_request(hospital: World) -> None:
    statistics = [["xty", "yty"], ["xtx", "yty", "lambda_min"], ["xtx", "xty", "yty", "lambda_min"], ["xtx", "xty"]]
    kinds: list[dict[str, Any]] = [LAPLACE, GAUSSIAN, SOLD["classical"], SOLD["nieminen2017"]]
    for chosen, kind in itertools.product(statistics, kinds):
        if "lambda_min" in chosen and kind.get("calibration") == "nieminen2017":
            continue
        for shares in (None, {name: (k + 1) / 7 for k, name in enumerate(chosen)}):
            stated = {} if shares is None else {"shares": {n: v / sum(shares.values()) for n, v in shares.items()}}
            quote = hospital.api().post("/v1/datasets/gdp/quotes", json=body(**kind, statistics=chosen, **stated))
            assert quote.status_code == 200, quote.text
            canonical = quote.json()["request"]
            again = hospital.api().post("/v1/datasets/gdp/quotes", json=canonical).json()["request"]
            assert again == canonical


def test_what_is_left_over_is_not_offered_where_it_buys_nothing(tmp_path: Path) -> None:
    with open_world(tmp_path, limit=Price(rho=0.01)) as world:
        buy(world, "cohort", {"price": {"rho": 0.009999999999}}, "all-but-two-units")
        assert 0 < world.curator.ledger.get_population("town").remaining < 10
        answer = world.api().post("/v1/datasets/cohort/releases", json=body(fresh=True), key="more")
        refusal = problem(answer, "budget-exceeded", 409)
        assert refusal["largest"] is None
        assert "What is left is too little" in refusal["detail"]


def test_a_refusal_of_pure_epsilon_speaks_of_pure_epsilon(hospital: World) -> None:
    request = body(mechanism="laplace", price={"epsilon": 3.0}, fresh=True)
    for name in ("gdp", "zcdp"):
        answer = hospital.api().post(f"/v1/datasets/{name}/releases", json=request, key=f"pure-{name}")
        refusal = problem(answer, "budget-exceeded", 409)
        assert "of epsilon = 3.0 alone" in refusal["detail"]
        offered = {"price": {"epsilon": refusal["largest"]["pure_epsilon"]}}
        quote = hospital.api().post(f"/v1/datasets/{name}/quotes", json=request | offered).json()
        assert quote["affordable"]
        assert quote["cost"]["pure_epsilon"] == pytest.approx(offered["price"]["epsilon"], rel=1e-6)


def test_a_refusal_of_a_formula_offers_what_a_formula_can_be_paid_in(tmp_path: Path) -> None:
    with open_world(tmp_path, limit=Price(epsilon=0.1, delta=1e-6)) as world:
        request = body(calibration="classical", price={"epsilon": 2.0, "delta": 1e-6})
        answer = world.api().post("/v1/datasets/cohort/releases", json=request, key="formula")
        refusal = problem(answer, "budget-exceeded", 409)
        assert "rho" not in refusal["detail"].split("largest")[1]
        assert (refusal["largest"]["mu"], refusal["largest"]["rho"]) == (None, None)
        price = {name: refusal["largest"][name] for name in ("epsilon", "delta")}
        assert world.api().post("/v1/datasets/cohort/quotes", json=request | {"price": price}).json()["affordable"]


def test_a_delta_of_zero_is_none(hospital: World) -> None:
    request = body(mechanism="laplace", price={"epsilon": 0.01, "delta": 0})
    quote = hospital.api().post("/v1/datasets/pure/quotes", json=request)
    assert quote.json()["request"]["price"] == {"epsilon": 0.01}


@pytest.mark.parametrize(
    ("asked", "duration_s"),
    [
        ({"rows": {"map": "box"}, "statistics": ["xtx", "xty"]}, 0.0),
        (
            {"rows": {"map": "box"}, "statistics": ["xtx", "xty", "lambda_min"]},
            gram.LAMBDA_MIN_S + 4**3 * gram.LAMBDA_MIN_PER_CUBE_S,
        ),
        (
            {"rows": {"map": "ball"}, "statistics": ["xtx", "xty"]},
            response_timer.PASS_S + 6 * 1000 * 5 * (response_timer.NUMBER_S + 5 * response_timer.PRODUCT_S),
        ),
        (
            {"features": ["age", "creatinine"], "rows": {"map": "box"}, "statistics": ["xtx", "xty"]},
            response_timer.PASS_S + 6 * 1000 * 4 * (response_timer.NUMBER_S + 4 * response_timer.PRODUCT_S),
        ),
    ],
    ids=["at once", "lambda_min", "pass", "omitted rows"],
)
def test_the_time_of_a_computation_is_public(
    hospital: World, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], duration_s: float
) -> None:
    """Of 1000 rows that are declared, not of 80 that are there."""
    slept: list[float] = []
    monkeypatch.setattr(response_timer, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    buy(hospital, "gdp", {"price": {"mu": 0.01}} | asked, f"time-{duration_s}".replace(".", "-"))
    assert sum(slept) == pytest.approx(duration_s)
    quote = hospital.api().post("/v1/datasets/gdp/quotes", json=body(price={"mu": 0.01}) | asked).json()
    assert quote["duration_s"] == pytest.approx(duration_s)
