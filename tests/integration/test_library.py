"""The library: what a stored release answers already costs nothing, and nothing else is taken for it."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scenes import QUOTES, RELEASES, assert_sound, box, kinds, register_private
from support import Api, World, ZeroNoise, body, make_rows, open_world, problem

from curator_service.privacy.accountant import GDP, Price, own_price
from curator_service.privacy.samplers import Distribution
from curator_service.releases import catalogue, library

LOUD, QUIET = {"mu": 0.01}, {"mu": 0.2}
WIDE = box(features=["age", "sex", "weight", "alive", "ward"], targets=["kappa"], price=QUIET)


class Distinct:
    """Noise of which no two numbers are the same."""

    def __init__(self) -> None:
        self.drawn = 0

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        """Return the next numbers of a sequence, far apart."""
        start, self.drawn = self.drawn, self.drawn + len(scales)
        return [(i + 1) * 10**13 for i in range(start, self.drawn)]


@pytest.fixture
def rich(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    """Return a world with a budget for many releases, once on each database."""
    with open_world(tmp_path, url=database_url, limit=Price(mu=3.0), noise=Distinct()) as world:
        yield world
        assert world.discrepancies() == []


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[World]:
    """Return the same on the embedded database alone."""
    with open_world(tmp_path, limit=Price(mu=3.0), noise=Distinct()) as world:
        yield world
        assert world.discrepancies() == []


@pytest.fixture
def exact_shelf(tmp_path: Path) -> Iterator[World]:
    """Return a world with a budget for many releases, without noise."""
    with open_world(tmp_path, limit=Price(mu=3.0), noise=ZeroNoise()) as world:
        yield world


def buy(api: Api, request: dict[str, Any], key: str, *, at: str = RELEASES) -> tuple[str, dict[str, Any]]:
    """Ask for a release; return where the answer came from, and the answer."""
    answer = api.post(at, json=request, key=key)
    assert answer.status_code in {200, 201}, answer.text
    return answer.headers["curator-answer"], answer.json()


def quote(api: Api, request: dict[str, Any], *, at: str = QUOTES) -> dict[str, Any]:
    """Return what a quote says of the library."""
    answer = api.post(at, json=request)
    assert answer.status_code == 200, answer.text
    return {name: answer.json()[name] for name in ("stored_release", "derivable_from", "offers")}


def entries_of(answer: dict[str, Any]) -> dict[frozenset[str], float]:
    """Return every product of two columns that an answer states, by the columns' names."""
    terms, targets = ([term["name"] for term in answer[role]] for role in ("terms", "targets"))
    stated = {name: part["values"] for name, part in answer["statistics"].items()}
    found: dict[frozenset[str], float] = {}
    if "xtx" in stated:
        values = iter(stated["xtx"])
        found |= {frozenset({a, b}): next(values) for i, a in enumerate(terms) for b in terms[i:]}
    if "xty" in stated:
        values = iter(stated["xty"])
        found |= {frozenset({a, b}): next(values) for a in terms for b in targets}
    if "yty" in stated:
        found |= {frozenset({b}): value for b, value in zip(targets, stated["yty"], strict=True)}
    return found


# What is stored, and what is a block of it.
BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fewer features": (WIDE, {"features": ["age", "weight"]}),
    "the Gram alone": (WIDE, {"features": ["sex", "age"], "targets": [], "statistics": ["xtx"]}),
    "one statistic of the target": (WIDE, {"features": ["sex", "age"], "statistics": ["xty"]}),
    "without the constant": (WIDE, {"features": ["weight", "age"], "intercept": False}),
    "a number among the features as the target": (WIDE, {"features": ["age", "sex"], "targets": ["weight"]}),
    "a boolean among the features as the target": (WIDE, {"features": ["sex"], "targets": ["alive"]}),
    "a boolean with a rule for missing values": (
        WIDE | {"features": ["age", "smoker"]},
        {"features": ["age"], "targets": ["smoker"]},
    ),
    "two targets of the features": (WIDE, {"features": ["age", "ward"], "targets": ["alive", "weight"]}),
    "one of several targets": (WIDE | {"targets": ["kappa", "smoker"]}, {"features": ["sex"], "targets": ["smoker"]}),
    "fewer features, and targets in another order": (
        WIDE | {"targets": ["kappa", "smoker"]},
        {"features": ["age", "sex"], "targets": ["smoker", "kappa"]},
    ),
    "columns that flag what is missing": (
        WIDE | {"features": ["age", "height", "region", "treated"]},
        {"features": ["treated", "region", "height"]},
    ),
    "all levels, beside no constant": (
        WIDE | {"intercept": False, "features": ["sex", "age"]},
        {"intercept": False, "features": ["sex"]},
    ),
    "the same terms with their smallest eigenvalue": (
        WIDE | {"statistics": ["xtx", "xty", "yty", "lambda_min"]},
        {"features": ["ward", "age", "alive", "weight", "sex"], "statistics": ["xtx", "lambda_min"], "targets": []},
    ),
    "fewer columns, of which the same omit rows": (
        WIDE | {"features": ["age", "creatinine", "sex"], "targets": ["kappa", "lambda"]},
        {"features": ["sex", "creatinine"], "targets": ["lambda"]},
    ),
    "a feature that omits rows as the target": (
        WIDE | {"features": ["age", "creatinine"]},
        {"features": ["age"], "targets": ["creatinine"]},
    ),
    "a ball, without a target that omits nothing": (
        WIDE | {"rows": {"map": "ball"}, "targets": ["kappa", "smoker", "lambda"]},
        {"features": ["ward", "age", "sex", "alive", "weight"], "targets": ["lambda", "smoker"]},
    ),
    "a ball's Gram, without any target": (WIDE | {"rows": {"map": "ball"}}, {"targets": [], "statistics": ["xtx"]}),
    "one statistic of a ball": (WIDE | {"rows": {"map": "ball", "norm": 1.1}}, {"statistics": ["xty"]}),
    "unit rows, without a target": (
        WIDE | {"rows": {"map": "unit"}, "targets": ["kappa", "smoker"]},
        {"targets": ["smoker"]},
    ),
    "unit rows and targets, without a target": (
        WIDE | {"rows": {"map": "unit_xy"}, "targets": ["kappa", "smoker"]},
        {"targets": ["kappa"]},
    ),
    "Laplace noise": (
        WIDE | {"mechanism": "laplace", "price": {"epsilon": 0.5}},
        {"features": ["age"], "mechanism": "laplace", "price": {"epsilon": 0.005}},
    ),
}


def sub_request(stored: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {**stored, "price": LOUD, **change}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_equals_the_direct_answer_number_for_number(exact_shelf: World, name: str) -> None:
    stored, change = BLOCKS[name]
    asked, api = sub_request(stored, change), exact_shelf.api()
    assert buy(api, stored, "stored")[0] == "new"
    kind, derived = buy(api, asked, "derived")
    assert kind == "derived"
    kind, direct = buy(api, asked | {"fresh": True}, "direct")
    assert kind == "new"
    assert derived["statistics"] == direct["statistics"]
    assert [term["name"] for term in derived["terms"]] == [term["name"] for term in direct["terms"]]
    for member in ("dataset", "kind", "features", "targets"):
        assert derived[member] == direct[member]
    assert derived["request"] == direct["request"] | {"fresh": False}


@pytest.mark.parametrize("name", [name for name in BLOCKS if "eigenvalue" not in name])
def test_a_block_has_the_stored_numbers_and_states_their_noise(shelf: World, name: str) -> None:
    """No number is drawn again, and each states the standard deviation that it was drawn with."""
    stored, change = BLOCKS[name]
    api = shelf.api()
    _, source = buy(api, stored, "stored")
    drawn = shelf.noise.drawn
    kind, derived = buy(api, sub_request(stored, change), "derived")
    assert (kind, derived["derived_from"], shelf.noise.drawn) == ("derived", source["id"], drawn)
    held = entries_of(source)
    assert entries_of(derived).items() <= held.items()
    sd, source_targets = source["noise"]["sd"], {target["name"] for target in source["targets"]}
    of_xtx, own = sd["xtx_offdiagonal"], {target["name"] for target in derived["targets"]} <= source_targets
    scales = ("xtx_diagonal", "xtx_offdiagonal") if "xtx" in derived["statistics"] else ()
    expected = {scale: sd[scale] for scale in scales}
    for part in {"xty", "yty"} & set(derived["statistics"]):
        expected[part] = sd[part] if own else of_xtx
    assert derived["noise"] == {"distribution": source["noise"]["distribution"], "sd": expected}


def test_a_block_costs_nothing_and_has_its_own_entry_and_receipt(rich: World) -> None:
    world, asked = rich, sub_request(WIDE, {"features": ["age", "sex"]})
    world.permit(people=["ben"])
    api = world.api()
    _, source = buy(api, WIDE, "stored")
    before = world.account()
    assert quote(api, asked) == {"stored_release": None, "derivable_from": source["id"], "offers": []}
    answer = world.api("ben").post(RELEASES, json=asked | {"project": "kidney"}, key="k")
    assert (answer.status_code, answer.headers["curator-answer"]) == (200, "derived")
    derived = answer.json()
    after = world.account()
    assert (after.limit, after.posted, after.pending) == (before.limit, before.posted, before.pending)
    assert (derived["cost"]["units"], derived["cost"]["epsilon"], derived["cost"]["share_of_budget"]) == ("0", 0.0, 0.0)
    receipt, entry = derived["receipt"], world.entries()[-1]
    assert receipt == entry
    assert (entry["kind"], entry["units"], entry["source"]) == ("derive", "0", source["id"])
    assert list(derived)[-2:] == ["derived_from", "receipt"]
    assert (entry["release"], entry["project"]) == (derived["id"], "kidney")
    assert entry["posted"] == source["receipt"]["posted"]
    assert api.get(answer.headers["location"]).content == answer.content
    for who, key, came_from in (("ben", "k", "replayed"), ("ben", "k2", "stored"), ("ada", "k", "stored")):
        project = {"project": "kidney"} if key == "k" and who == "ben" else {}
        again = world.api(who).post(RELEASES, json=asked | project, key=key)
        assert (again.headers["curator-answer"], again.content) == (came_from, answer.content)
    assert quote(api, asked)["stored_release"] == derived["id"]
    problem(world.api("ben").post(RELEASES, json=WIDE, key="k"), "idempotency-key-reused", 422)
    assert kinds(world) == ["charge", "derive"]
    assert_sound(world)


def test_a_block_is_answered_when_the_budget_is_spent(tmp_path: Path) -> None:
    with open_world(tmp_path, limit=Price(mu=0.2)) as world:
        api = world.api()
        assert buy(api, WIDE, "stored")[0] == "new"
        assert buy(api, sub_request(WIDE, {"features": ["sex"]}), "derived")[0] == "derived"
        assert_sound(world)


# What is stored, what is asked beside it, and a clause of how the quote offers what is stored; empty where it does not.
LARGER, OTHER_KIND = "its noise is larger", "its noise is {}, not {}"
WEIGHTED, LEFT_OUT = "its rows were weighted by other terms", "rows that miss {} were left out of it"
NO_BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a column more": (WIDE, {"features": ["age", "smoker"]}, ""),
    "less noise": (WIDE, {"features": ["age"], "price": {"mu": 0.4}}, LARGER),
    "less noise in one statistic": (
        WIDE,
        {"price": {"mu": 0.199}, "shares": {"xtx": 0.05, "xty": 0.05, "yty": 0.9}},
        "its noise is larger in yty and smaller in xtx and xty",
    ),
    "all levels, where a constant took one": (WIDE, {"features": ["sex"], "intercept": False}, ""),
    "a constant, where there is none": (
        WIDE | {"intercept": False, "features": ["sex", "age"]},
        {"intercept": True, "features": ["age"]},
        "",
    ),
    "the smallest eigenvalue of fewer terms": (
        WIDE | {"statistics": ["xtx", "xty", "yty", "lambda_min"]},
        {"features": ["age"], "statistics": ["xtx", "lambda_min"], "targets": []},
        "its lambda_min is that of other terms",
    ),
    "a smallest eigenvalue that was not bought": (
        WIDE,
        {"statistics": ["xtx", "lambda_min"], "targets": []},
        "it holds no lambda_min",
    ),
    "a statistic that was not bought": (
        WIDE | {"statistics": ["xtx", "xty"]},
        {"statistics": ["xtx", "xty", "yty"]},
        "it holds no yty",
    ),
    "targets of two noises": (
        WIDE,
        {"features": ["age"], "targets": ["kappa", "weight"]},
        "weight is a feature in it, not a target",
    ),
    "a product of two targets": (
        WIDE | {"targets": ["kappa", "smoker"]},
        {"features": ["smoker"], "targets": ["kappa"]},
        "smoker is a target in it, not a feature",
    ),
    "Laplace noise, of Gaussian": (
        WIDE,
        {"features": ["age"], "mechanism": "laplace", "price": {"epsilon": 0.001}},
        OTHER_KIND.format("gaussian", "laplace"),
    ),
    "Gaussian noise, of Laplace": (
        WIDE | {"mechanism": "laplace", "price": {"epsilon": 0.5}},
        {"features": ["age"], "mechanism": "gaussian"},
        OTHER_KIND.format("laplace", "gaussian"),
    ),
    "the ball, of the box": (
        WIDE,
        {"features": ["age"], "rows": {"map": "ball"}},
        "its rows were mapped by box, not by ball",
    ),
    "the box, of the ball": (
        WIDE | {"rows": {"map": "ball"}},
        {"features": ["age"], "rows": {"map": "box"}},
        "its rows were mapped by ball, not by box",
    ),
    "a smaller ball of the ball": (WIDE | {"rows": {"map": "ball"}}, {"features": ["age"]}, WEIGHTED),
    "a target of a ball among its features": (
        WIDE | {"rows": {"map": "ball"}},
        {"features": ["age", "sex", "alive", "ward"], "targets": ["weight"]},
        WEIGHTED,
    ),
    "a block of unit rows": (WIDE | {"rows": {"map": "unit"}}, {"features": ["age"]}, WEIGHTED),
    "a block of rows that were left out by another column": (
        WIDE | {"features": ["age", "creatinine"]},
        {"features": ["age"]},
        LEFT_OUT.format("creatinine"),
    ),
    "a block of rows that were left out by another target": (
        WIDE | {"targets": ["kappa", "lambda"]},
        {"features": ["age"], "targets": ["kappa"]},
        LEFT_OUT.format("lambda"),
    ),
    "a block of rows that its target's indicator left out": (
        WIDE | {"targets": ["dose"]},
        {"features": ["age"], "targets": [], "statistics": ["xtx"]},
        LEFT_OUT.format("dose"),
    ),
    "a target whose indicator leaves rows out, of a feature that keeps them": (
        WIDE | {"features": ["age", "height"]},
        {"features": ["age"], "targets": ["height"]},
        "rows that miss height were not left out of it",
    ),
}


@pytest.mark.parametrize("name", NO_BLOCKS)
def test_what_is_no_block_is_bought_and_what_is_stored_is_offered_under_its_own_name(shelf: World, name: str) -> None:
    stored, change, offered = NO_BLOCKS[name]
    asked, api = sub_request(stored, change), shelf.api()
    _, source = buy(api, stored, "stored")
    shown = quote(api, asked)
    assert (shown["stored_release"], shown["derivable_from"]) == (None, None)
    assert [offer["release"] for offer in shown["offers"]] == ([source["id"]] if offered else [])
    assert all(offered in offer["difference"].split("; ") for offer in shown["offers"])
    kind, answer = buy(api, asked, "k")
    assert (kind, "derived_from" in answer) == ("new", False)
    assert kinds(shelf).count("charge") == 2


# A request, how what is stored differs from it in one thing, and the words for that and for what follows from it alone.
ASKED = body(features=["age", "weight"], rows={"map": "ball", "norm": 1.1}, price={"mu": 0.05})
BOX, UNIT, UNIT_XY, OMITTING = (
    {"rows": {"map": "box"}},
    {"rows": {"map": "unit"}},
    {"rows": {"map": "unit_xy"}},
    {"rows": {"map": "box"}, "features": ["age", "creatinine"]},
)
SMALLER_PRICE = {"price": {"mu": 0.025}}
LOUDER = "its price was mu 0.025, not mu 0.05; its noise is larger"
ALONE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a smaller price": ({}, SMALLER_PRICE, LOUDER),
    "a smaller price, box": (BOX, SMALLER_PRICE, LOUDER),
    "a smaller price, unit": (UNIT, SMALLER_PRICE, LOUDER),
    "a smaller price, unit_xy": (UNIT_XY, SMALLER_PRICE, LOUDER),
    "a smaller price, rows left out": (OMITTING, SMALLER_PRICE, LOUDER),
    "a price that differs in its last digits": (
        {"price": {"mu": 0.06250000001}},
        {"price": {"mu": 0.0625}},
        "its price was mu 0.0625, not mu 0.06250000001",
    ),
    "a feature": (
        {},
        {"features": ["age", "weight", "sex"]},
        "it also holds the feature sex; its rows were weighted by other terms",
    ),
    "a feature, unit": (
        UNIT,
        {"features": ["age", "weight", "smoker"]},
        "it also holds the feature smoker; its rows were weighted by other terms",
    ),
    "a feature, box": (
        BOX,
        {"features": ["age", "weight", "smoker"]},
        "it also holds the feature smoker; its noise is larger in xtx and xty",
    ),
    "a feature that leaves rows out": (
        BOX,
        {"features": ["creatinine", "age", "weight"]},
        "it also holds the feature creatinine; rows that miss creatinine were left out of it; "
        "its noise is larger in xtx and xty",
    ),
    "many features": (
        BOX,
        {"features": ["age", "weight", "smoker", "alive", "sex", "ward", "treated", "height"]},
        "it also holds the features sex, height, smoker, treated and 2 more; its noise is larger in xtx and xty",
    ),
    "a target": (
        {},
        {"targets": ["alive", "kappa"]},
        "it also holds the target alive; its noise is larger in xty and yty",
    ),
    "a target that leaves rows out": (
        {},
        {"targets": ["kappa", "lambda"]},
        "it also holds the target lambda; rows that miss lambda were left out of it; "
        "its noise is larger in xty and yty",
    ),
    "the role of a column": (
        {"targets": ["alive", "kappa"]},
        {"targets": ["kappa"], "features": ["age", "weight", "alive"]},
        "alive is a feature in it, not a target; its rows were weighted by other terms",
    ),
    "the role of a column, box": (
        BOX | {"targets": ["alive"]},
        {"targets": ["kappa"], "features": ["age", "weight", "alive"]},
        "alive is a feature in it, not a target; it also holds the target kappa; its noise is larger",
    ),
    "a feature, beside the smallest eigenvalue": (
        BOX | {"statistics": ["xtx", "lambda_min"], "targets": []},
        {"features": ["age", "weight", "smoker"]},
        "it also holds the feature smoker; its lambda_min is that of other terms; its noise is larger in xtx",
    ),
    "the row map": ({}, UNIT, "its rows were mapped by unit, not by ball"),
    "the row map, box": ({}, BOX, "its rows were mapped by box, not by ball"),
    "the row map, unit": (UNIT, UNIT_XY, "its rows were mapped by unit_xy, not by unit"),
    "the norm": (
        {},
        {"rows": {"map": "ball", "norm": 1.2}},
        "its rows were mapped by ball with norm 1.2, not norm 1.1",
    ),
    "the mechanism": ({}, {"mechanism": "laplace"}, "its noise is laplace, not gaussian"),
    "the calibration": (
        {"shares": {"xtx": 0.5, "xty": 0.25, "yty": 0.25}},
        {"calibration": "classical", "price": {"epsilon": 0.1, "delta": 1e-6}},
        "its noise was calibrated as classical, not as analytic; "
        "its price was epsilon 0.1 and delta 1e-06, not mu 0.05; its noise is larger",
    ),
    "the shares": (
        {},
        {"shares": {"xtx": 0.25, "xty": 0.665, "yty": 0.085}},
        "its price was split in other shares; its noise is larger in xtx and smaller in xty",
    ),
    "a statistic more": (
        {},
        {"statistics": ["xtx", "xty", "yty", "lambda_min"]},
        "it also holds lambda_min; its noise is larger",
    ),
    "a statistic less": ({}, {"statistics": ["xtx", "xty"]}, "it holds no yty; its noise is smaller in xtx and xty"),
    "a constant": (
        {"intercept": False},
        {"intercept": True},
        "it has a constant term; its rows were weighted by other terms",
    ),
    "a constant, unit": (
        UNIT | {"intercept": False},
        {"intercept": True},
        "it has a constant term; its noise is larger in xtx and xty",
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_an_offer_names_exactly_what_differs(shelf: World, name: str) -> None:
    change, stored, difference = ALONE[name]
    asked, api = ASKED | change, shelf.api()
    _, source = buy(api, asked | stored, "stored")
    offers = [{"release": source["id"], "difference": difference}]
    assert quote(api, asked) == {"stored_release": None, "derivable_from": None, "offers": offers}


# What is stored, and what it answers as it stands.
ANSWERED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "features in another order": ({}, {"features": ["weight", "age"]}),
    "targets in another order": ({"targets": ["kappa", "alive"]}, {"targets": ["alive", "kappa"]}),
    "features in another order, with levels": (
        {"features": ["age", "region", "sex", "treated"]},
        {"features": ["treated", "sex", "region", "age"]},
    ),
    "less precision": ({}, {"price": {"mu": 0.045}}),
    "the same price in another notion": ({"price": {"mu": 0.0625}}, {"price": {"rho": 0.001953125}}),
    "the same price as epsilon and delta": (
        {"price": {"epsilon": 0.3, "delta": 1e-6}},
        {"price": {"mu": own_price(GDP, GDP.units_of(Price(epsilon=0.3, delta=1e-6)))}},
    ),
    "shares that are the default ones": ({}, {"shares": {"xtx": 0.5, "xty": 0.415, "yty": 0.085}}),
    "a larger norm by default": ({"rows": {"map": "ball"}}, {"rows": {"map": "ball"}, "features": ["weight", "age"]}),
    "a published formula, with more noise": (
        {"price": {"mu": 0.2}},
        {"calibration": "classical", "price": {"epsilon": 0.1, "delta": 1e-6}},
    ),
}
MAPS = [{"map": "ball", "norm": 1.1}, {"map": "box"}, {"map": "unit"}, {"map": "unit_xy"}]


@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.parametrize("rows", MAPS, ids=lambda rows: rows["map"])
@pytest.mark.parametrize("more", [[], ["creatinine"]], ids=["every_row", "rows_left_out"])
def test_the_same_columns_with_no_less_noise_are_answered_with_the_stored_bytes(
    shelf: World, name: str, rows: dict[str, Any], more: list[str]
) -> None:
    first, change = (
        {**ASKED, "rows": rows, **part} for part in (ANSWERED[name][0], {**ANSWERED[name][0], **ANSWERED[name][1]})
    )
    for request in (first, change):
        request["features"] = [*more, *request["features"]]
    api = shelf.api()
    bought = api.post(RELEASES, json=first, key="first")
    assert bought.status_code == 201, bought.text
    before = shelf.account()
    assert quote(api, change)["stored_release"] == bought.json()["id"]
    answer = api.post(RELEASES, json=change, key="second")
    assert (answer.status_code, answer.headers["curator-answer"]) == (200, "stored"), answer.text
    assert answer.content == bought.content
    assert shelf.account() == before  # no charge, and no entry
    assert api.post(RELEASES, json=change, key="second").content == bought.content


def test_of_several_answers_the_quietest_is_served_and_of_equal_ones_the_first(shelf: World) -> None:
    api = shelf.api()
    ids = [
        buy(api, ASKED | {"price": {"mu": mu}, "fresh": True}, f"k{i}")[1]["id"]
        for i, mu in enumerate([0.06, 0.1, 0.1])
    ]
    assert quote(api, ASKED)["stored_release"] == ids[1]
    assert quote(api, ASKED | {"price": {"mu": 0.11}})["stored_release"] is None


def test_columns_stand_in_the_order_of_the_manifest(shelf: World) -> None:
    _, answer = buy(shelf.api(), WIDE | {"features": ["ward", "age", "sex"], "targets": ["kappa", "smoker"]}, "k")
    assert answer["request"]["features"] == [column["name"] for column in answer["features"]] == ["age", "sex", "ward"]
    assert answer["request"]["targets"] == ["smoker", "kappa"]
    assert [term["name"] for term in answer["terms"]][:2] == ["(constant)", "age"]


@pytest.mark.parametrize("rows", ["box", "ball"])
def test_the_answer_itself_is_not_offered_as_something_else(shelf: World, rows: str) -> None:
    api, asked = shelf.api(), body(rows={"map": rows})
    _, stored = buy(api, asked, "k")
    assert quote(api, asked) == {"stored_release": stored["id"], "derivable_from": None, "offers": []}


def test_fresh_numbers_are_drawn_and_charged(shelf: World) -> None:
    api, asked = shelf.api(), sub_request(WIDE, {"features": ["age"]})
    buy(api, WIDE, "stored")
    assert quote(api, asked | {"fresh": True})["derivable_from"] is None
    kind, answer = buy(api, asked | {"fresh": True}, "k")
    assert (kind, int(answer["cost"]["units"]) > 0) == ("new", True)


def test_a_block_is_cut_out_of_the_release_with_the_least_noise_and_never_out_of_a_block(shelf: World) -> None:
    api = shelf.api()
    _, loud = buy(api, WIDE | {"price": {"mu": 0.1}}, "loud")
    _, quiet = buy(api, WIDE | {"fresh": True}, "quiet")
    _, late = buy(api, WIDE | {"price": {"mu": 0.15}, "fresh": True}, "late")
    first = buy(api, sub_request(WIDE, {"features": ["age", "sex"]}), "first")
    second = buy(api, sub_request(WIDE, {"features": ["age"]}), "second")
    assert [kind for kind, _ in (first, second)] == ["derived", "derived"]
    assert [answer["derived_from"] for _, answer in (first, second)] == [quiet["id"], quiet["id"]]
    assert len({loud["id"], quiet["id"], late["id"], first[1]["id"], second[1]["id"]}) == 5


def test_a_block_of_another_dataset_of_the_same_people_is_another_thing(shelf: World) -> None:
    twin = shelf.register("twin", "town", make_rows(30, seed=11))
    shelf.grant("ada", twin)
    api = shelf.api()
    buy(api, WIDE, "stored")
    asked = sub_request(WIDE, {"features": ["age"]})
    assert quote(api, asked, at="/v1/datasets/twin/quotes")["derivable_from"] is None
    assert buy(api, asked, "k", at="/v1/datasets/twin/releases")[0] == "new"


def test_another_worker_knows_what_was_stored_since_it_looked(rich: World) -> None:
    first, second = rich.api(), rich.api()
    asked = sub_request(WIDE, {"features": ["age"]})
    assert quote(second, asked)["derivable_from"] is None
    _, source = buy(first, WIDE, "stored")
    assert quote(second, asked)["derivable_from"] == source["id"]
    assert buy(second, asked, "k")[0] == "derived"


# --- A dataset whose releases are for whoever bought them


def test_a_private_library_serves_shows_and_tells_nobody_elses_releases(rich: World) -> None:
    world = rich
    private = register_private(world, "ada", "ben")
    at, quotes = f"{private}/releases", f"{private}/quotes"
    ada, ben = world.api(), world.api("ben")
    requests = [WIDE, WIDE | {"rows": {"map": "ball"}}, sub_request(WIDE, {"features": ["age"]})]
    bought = [buy(ada, request, f"k{i}", at=at) for i, request in enumerate(requests)]
    assert [kind for kind, _ in bought] == ["new", "new", "derived"]
    for request in (*requests, sub_request(WIDE, {"features": ["sex"]})):
        assert quote(ben, request, at=quotes) == {"stored_release": None, "derivable_from": None, "offers": []}
    for _, answer in bought:
        problem(ben.get(f"/v1/releases/{answer['id']}"), "not-found", 404)
        assert ada.get(f"/v1/releases/{answer['id']}").json() == answer
        assert world.api("root").get(f"/v1/releases/{answer['id']}").json() == answer
    assert ben.get(at).json() == {"releases": [], "next": None}
    own = [buy(ben, request, f"k{i}", at=at) for i, request in enumerate(requests)]
    assert [kind for kind, _ in own] == ["new", "new", "derived"]
    assert own[2][1]["derived_from"] == own[0][1]["id"]
    for api, mine in ((ada, bought), (ben, own)):
        assert [item["id"] for item in api.get(at).json()["releases"]] == [answer["id"] for _, answer in mine]
        assert buy(api, requests[0], "again", at=at)[0] == "stored"
        assert buy(api, requests[0], "k0", at=at) == ("replayed", mine[0][1])
    assert len(world.api("root").get(at).json()["releases"]) == 6
    assert_sound(world)


def test_a_page_of_a_private_library_does_not_count_what_it_hides(shelf: World) -> None:
    private = register_private(shelf, "ada", "ben")
    at = f"{private}/releases"
    ada, ben = shelf.api(), shelf.api("ben")
    for i in range(3):
        buy(ada, WIDE | {"fresh": True}, f"k{i}", at=at)
    assert ben.get(f"{at}?limit=1").json() == {"releases": [], "next": None}
    _, own = buy(ben, WIDE, "k", at=at)
    page = ben.get(f"{at}?limit=1").json()
    assert [item["id"] for item in page["releases"]] == [own["id"]]


def test_the_same_request_in_two_private_hands_is_two_charges(shelf: World) -> None:
    private = register_private(shelf, "ada", "ben")
    answers = [buy(shelf.api(who), WIDE, "k", at=f"{private}/releases") for who in ("ada", "ben")]
    assert [kind for kind, _ in answers] == ["new", "new"]
    assert len({json.dumps(answer["statistics"]) for _, answer in answers}) == 2
    assert kinds(shelf).count("charge") == 2


# --- The catalogue


def test_a_page_shows_the_members_of_each_answer_and_reads_none(rich: World, monkeypatch: pytest.MonkeyPatch) -> None:
    api = rich.api()
    bought = [buy(api, WIDE | {"features": ["age", name], "fresh": True}, name)[1] for name in ("sex", "alive")]
    bought.append(buy(api, sub_request(WIDE, {"features": ["age"]}), "block")[1])
    shown = [
        {name: answer[name] for name in ("id", "dataset", "kind", "created_at", "request", "cost")} for answer in bought
    ]
    assert api.get(RELEASES).json() == {"releases": shown, "next": None}
    first = api.get(f"{RELEASES}?limit=2").json()
    assert first == {"releases": shown[:2], "next": str(bought[1]["receipt"]["sequence"])}
    assert api.get(f"{RELEASES}?limit=2&after={first['next']}").json() == {"releases": shown[2:], "next": None}
    monkeypatch.setattr("curator_service.releases.service.PAGE_BYTES_MAX", 1)
    short = api.get(f"{RELEASES}?limit=1000").json()
    assert (short["releases"], short["next"]) == (shown[:1], str(bought[0]["receipt"]["sequence"]))


def test_releases_beyond_one_chunk_of_sequences_are_found(rich: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "CHUNK", 3)
    monkeypatch.setattr(library, "_FEW", 1)
    api = rich.api()
    for i, name in enumerate(("sex", "alive", "ward", "smoker", "sex", "alive")):
        buy(api, WIDE | {"features": ["age", name], "price": {"mu": 0.1 + i / 100}, "fresh": True}, f"k{i}")
    for name in ("sex", "alive", "ward", "smoker"):
        assert quote(api, WIDE | {"features": [name], "price": {"mu": 0.05}})["derivable_from"], name
    assert len(quote(api, WIDE | {"features": ["age"], "price": {"mu": 1.0}})["offers"]) == 3
    assert quote(api, WIDE | {"features": ["sex", "alive"], "price": {"mu": 0.01}})["derivable_from"] is None
    assert rich.discrepancies() == []


def test_the_source_is_found_among_many_that_hold_the_columns_and_are_no_source(
    shelf: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and however few of them are looked at together."""
    monkeypatch.setattr(library, "_FEW", 1)
    api = shelf.api()
    for i in range(4):
        buy(api, WIDE | {"features": ["age", "sex"], "targets": [], "statistics": ["xtx"], "fresh": True}, f"q{i}")
    _, source = buy(api, WIDE | {"features": ["age", "sex"], "price": {"mu": 0.1}}, "source")
    asked = WIDE | {"features": ["age"], "statistics": ["xty"], "price": {"mu": 0.02}}
    assert quote(api, asked)["derivable_from"] == source["id"]


@pytest.mark.parametrize("rows", ["box", "ball"])
def test_an_analyst_stores_no_more_than_there_is_space_for(tmp_path: Path, rows: str) -> None:
    with open_world(tmp_path, limit=Price(mu=3.0), noise=Distinct(), answer_bytes_max=2**20) as world:
        api, ben = world.api(), world.api("ben")
        world.sql("UPDATE answer_space SET bytes = 0")
        asked = WIDE | {"rows": {"map": rows}}
        size = api.post(QUOTES, json=asked).json()["answer_bytes"]
        _, source = buy(api, asked, "first")
        assert len(json.dumps(source["statistics"])) < size
        after = api.post(QUOTES, json=asked).json()
        assert (after["answer_bytes"], after["answer_bytes_left"]) == (size, 2**20 - size)
        more = asked | {"fresh": True}
        size = api.post(QUOTES, json=more).json()["answer_bytes"]
        world.sql(f"UPDATE answer_space SET bytes = {2**20 - size + 1}")
        before = world.account()
        refused = problem(api.post(RELEASES, json=more, key="more"), "answer-space-exceeded", 409)
        assert (refused["answer_bytes"], refused["answer_bytes_left"]) == (size, size - 1)
        wide = {"fresh": True, "price": {"mu": 100.0}}
        problem(api.post(RELEASES, json=asked | wide, key="both"), "answer-space-exceeded", 409)
        assert (world.account(), kinds(world).count("charge")) == (before, 1)
        assert buy(api, asked, "again")[0] == "stored"  # what is stored takes no more space
        assert buy(ben, asked | {"fresh": True}, "his")[0] == "new"  # and the space is each analyst's own
        world.sql("UPDATE answer_space SET bytes = 1048576")
        block = asked | {"targets": [], "statistics": ["xtx"], "price": LOUD}
        problem(api.post(RELEASES, json=block, key="block"), "answer-space-exceeded", 409)
        assert_sound(world)
