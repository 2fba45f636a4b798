"""Refusal for lack of budget: the largest price that it names passes."""

from typing import Any

import pytest
from fakes import make_dataset, make_population, make_prepared
from toy_kind import Filled

from curator_service.ledger.service import BudgetExceeded, Headroom
from curator_service.privacy.accountant import GDP, PURE, ZCDP, Accountant
from curator_service.releases.refusal import budget_exceeded, reservation_exceeded

LIMIT, LEFT = 10**10, 3_000_000_001
ALONE = {"mechanism": "laplace", "price": {"epsilon": 1.0}}
DEAR: list[tuple[Accountant, dict[str, Any]]] = [
    (GDP, {"price": {"mu": 1.0}}),
    (GDP, {"price": {"epsilon": 3.0, "delta": 1e-6}}),
    (GDP, ALONE),
    (ZCDP, {"price": {"rho": 1.0}}),
    (ZCDP, ALONE),
    (PURE, ALONE),
]
accounts = pytest.mark.parametrize(
    ("accountant", "asked"), DEAR, ids=[f"{account.name} {asked}" for account, asked in DEAR]
)


def refuse(accountant: Accountant, asked: dict[str, Any], left: int = LEFT) -> BudgetExceeded:
    prepared = make_prepared(dataset=make_dataset(accountant), **asked)
    population = make_population(accountant, limit=LIMIT, posted=LIMIT - left)
    return budget_exceeded(prepared, population, Headroom("the population 'town'", LIMIT, left))


def cost(accountant: Accountant, asked: dict[str, Any], price: dict[str, float]) -> int:
    return make_prepared(dataset=make_dataset(accountant), **{**asked, "price": price}).cost


def read_prices(detail: str) -> list[dict[str, float]]:
    """Return the prices that a text names, as somebody copies them out of it."""
    named = detail.split("would pass now is ")[1].split(". A stored", maxsplit=1)[0].removesuffix(" alone")
    prices = (choice.replace(" = ", " ").split(" at ") for choice in named.split(", or "))
    return [{name: float(number) for name, number in map(str.split, price)} for price in prices]


@accounts
def test_every_price_that_the_text_names_passes_and_buys_about_all_that_is_left(
    accountant: Accountant, asked: dict[str, Any]
) -> None:
    prices = read_prices(str(refuse(accountant, asked).detail))
    expected = {"gdp": 2, "zcdp": 2, "pure": 1}[accountant.name] + (asked is ALONE and accountant is not PURE)
    assert len(prices) == expected
    assert any("delta" in price for price in prices) is (accountant is not PURE)
    for price in prices:
        assert 0.99 * LEFT < cost(accountant, asked, price) <= LEFT


@accounts
def test_every_notion_of_the_largest_price_passes(accountant: Accountant, asked: dict[str, Any]) -> None:
    largest = refuse(accountant, asked).members["largest"]
    assert "units" not in largest
    prices = [{name: largest[name]} for name in ("mu", "rho") if largest[name] is not None]
    delta = {} if accountant is PURE else {"delta": largest["delta"]}
    prices.append({"epsilon": largest["epsilon"], **delta})
    if asked is ALONE and accountant is not PURE:
        prices.append({"epsilon": largest.pop("pure_epsilon")})
    assert "pure_epsilon" not in largest
    for price in prices:
        assert cost(accountant, asked, price) <= LEFT


@accounts
def test_a_refusal_states_what_was_asked_what_is_left_and_whose_limit_it_is(
    accountant: Accountant, asked: dict[str, Any]
) -> None:
    refused = refuse(accountant, asked)
    dear = make_prepared(dataset=make_dataset(accountant), **asked).cost
    assert refused.members["requested"]["units"] == str(dear)
    assert refused.members["remaining"]["units"] == str(LEFT)
    text = f"costs {dear / 1e12:.6g} of {accountant.symbol} "
    assert text in refused.detail
    assert "0.003 of 0.01 remain for the population 'town'" in refused.detail


@pytest.mark.parametrize("calibration", ["classical", "wang2018"])
def test_a_published_formula_is_offered_epsilon_and_delta_alone(calibration: str) -> None:
    refused = refuse(GDP, {"calibration": calibration, "price": {"epsilon": 3.0, "delta": 1e-6}})
    assert (refused.members["largest"]["mu"], refused.members["largest"]["rho"]) == (None, None)
    assert [set(price) for price in read_prices(refused.detail)] == [{"epsilon", "delta"}]


@accounts
@pytest.mark.parametrize("left", [0, 1])
def test_where_nothing_buys_it_another_way_is_shown(accountant: Accountant, asked: dict[str, Any], left: int) -> None:
    """Of one unit, ε² or µ² of 10⁻¹², no scale that the sampler has costs so little."""
    refused = refuse(accountant, asked, left)
    assert refused.members["largest"] is None
    assert "What is left is too little for it" in refused.detail


def test_a_price_that_costs_more_than_is_left_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind may sell nothing cheaper."""
    monkeypatch.setattr(Filled, "plan_at", lambda _kind, _dataset, _request, plan, _price: plan)
    assert refuse(GDP, {"price": {"mu": 1.0}}).members["largest"] is None


def test_a_price_of_epsilon_alone_is_repeated_as_such() -> None:
    assert "The request of epsilon = 1.0 alone costs" in refuse(GDP, ALONE).detail
    assert "The request costs" in refuse(GDP, {"price": {"mu": 1.0}}).detail


@pytest.mark.parametrize("accountant", [GDP, ZCDP, PURE])
def test_a_reservation_that_is_too_large_is_told_what_is_left(accountant: Accountant) -> None:
    population = make_population(accountant)
    refused = reservation_exceeded(2 * LEFT, population, Headroom("you", LIMIT, LEFT))
    assert (refused.members["requested"]["units"], refused.members["remaining"]["units"]) == (str(2 * LEFT), str(LEFT))
    assert refused.members["largest"] is None
    assert f"0.006 of {accountant.symbol}, and 0.003 of 0.01 remain for you" in refused.detail
