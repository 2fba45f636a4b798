"""Requests of marginals over HTTP: what is refused names its place, and answers are what they say they are."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import QUOTES, RELEASES, assert_sound, kinds
from support import Api, World, make_rows, open_world, problem

from curator_service.kinds.marginals.marginals import Binned
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution

ROWS = make_rows(80, seed=5)


def tree(*columns: Any, levels: Any = 3) -> dict[str, Any]:
    return {"type": "tree", "columns": list(columns), "levels": levels}


def flat(*columns: Any, **bins: Any) -> dict[str, Any]:
    return {"type": "flat", "columns": list(columns), **bins}


def moments(*columns: Any) -> dict[str, Any]:
    return {"type": "moments", "columns": list(columns)}


def marginals(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"kind": "marginals", "marginals": list(items), "price": {"mu": 0.05}, **changes}


def scaled(column: str, factor: int) -> dict[str, Any]:
    return {"multiply": [column, factor]}


MANY = [scaled("age", i) for i in range(2, 202)]
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no marginal": (marginals(), "/marginals", "at least 1"),
    "101 marginals": (marginals(*(tree("age") for _ in range(101))), "/marginals", "at most 100"),
    "no column": (marginals(flat()), "/marginals/0/columns", "at least 1"),
    "201 columns": (marginals(flat(*MANY, "age")), "/marginals/0/columns", "at most 200"),
    "too many columns together": (
        marginals(*(flat(*MANY, bins=2 + i) for i in range(5)), moments("age")),
        "/marginals/5",
        "1001 columns; at most 1000",
    ),
    "too many numbers together": (
        marginals(moments("age"), tree("age", "kappa", "dose", "weight", levels=14)),
        "/marginals/1",
        "131067 numbers; at most 100000",
    ),
    "a type that is none": (marginals({"type": "quantiles", "columns": ["age"]}), "/marginals/0", "tree"),
    "no type": (marginals({"columns": ["age"]}), "/marginals/0", "type"),
    "no levels": (marginals({"type": "tree", "columns": ["age"]}), "/marginals/0/levels", "required"),
    "0 levels": (marginals(tree("age", levels=0)), "/marginals/0/levels", "greater than or equal to 1"),
    "15 levels": (marginals(tree("age", levels=15)), "/marginals/0/levels", "less than or equal to 14"),
    "a boolean for levels": (marginals(tree("age", levels=True)), "/marginals/0/levels", "integer"),
    "levels of a flat one": (marginals(flat("age") | {"levels": 3}), "/marginals/0/levels", "not permitted"),
    "1 bin": (marginals(flat("age", bins=1)), "/marginals/0/bins", "greater than or equal to 2"),
    "10001 bins": (marginals(flat("age", bins=10_001)), "/marginals/0/bins", "less than or equal to 10000"),
    "bins of moments": (marginals(moments("age") | {"bins": 3}), "/marginals/0/bins", "not permitted"),
    "a category": (marginals(moments("age", "sex")), "/marginals/0/columns/1", "ask for counts"),
    "a boolean": (marginals(tree("smoker")), "/marginals/0/columns/0", "ask for counts"),
    "a condition": (marginals(flat({"less": ["age", 60]})), "/marginals/0/columns/0", "ask for counts"),
    "an unknown column": (marginals(flat("age", "nobody")), "/marginals/0/columns/1", "declares no column"),
    "a wrong expression": (marginals(flat({"log": ["dose"]})), "/marginals/0/columns/0/log", "above 0"),
    "a column twice": (marginals(flat("age", "age")), "/marginals/0/columns/1", "named twice"),
    "an expression twice": (
        marginals(moments({"add": ["age", "dose"]}, {"add": ["dose", "age"]})),
        "/marginals/0/columns/1",
        "named twice",
    ),
    "a marginal twice": (
        marginals(tree("age", "dose"), tree("dose", "age")),
        "/marginals/1",
        "asked for twice",
    ),
    "the default twice": (marginals(flat("age"), flat("age", bins=16)), "/marginals/1", "asked for twice"),
    "bins that floats do not tell apart": (
        marginals(tree({"add": ["age", 1e16]}, levels=6)),
        "/marginals/0",
        "too many for a column's bounds",
    ),
    "too few shares": (marginals(flat("age"), moments("age"), shares=[1.0]), "", "one for each marginal"),
    "shares of more": (marginals(flat("age"), moments("age"), shares=[0.5, 0.6]), "", "add up to 1"),
    "a published formula": (
        marginals(flat("age"), calibration="classical"),
        "",
        "marginals are calibrated as analytic alone",
    ),
    "tables": (marginals(flat("age")) | {"tables": []}, "/tables", "not permitted"),
    "a weight beyond 1": (marginals(flat("age"), weight="age"), "/weight", "between 0 and 1"),
}


class NoNoise:
    """Noise that is none: answers are the sums."""

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        del distribution
        return [0] * len(scales)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("marginals")) as made:
        yield made


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("quiet"), noise=NoNoise(), rows=ROWS) as made:
        yield made


@pytest.mark.parametrize("what", WRONG)
def test_a_request_that_means_nothing_is_refused_at_its_place_and_costs_nothing(shared: World, what: str) -> None:
    request, pointer, rule = WRONG[what]
    api = shared.api()
    for address, key in ((QUOTES, None), (RELEASES, "k")):
        content = problem(api.post(address, json=request, key=key), "request-invalid", 422)
        assert content["errors"][0]["pointer"] == pointer
        assert rule.lower() in content["detail"].lower()
    assert kinds(shared) == []


def test_numbers_are_counted_before_bins_become_edges(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short request of many bins must not take the memory of their edges."""
    monkeypatch.setattr(Binned, "cut", lambda marginal: pytest.fail(f"{marginal.size} numbers were cut"))
    problem(shared.api().post(QUOTES, json=marginals(tree(*MANY, levels=14))), "request-invalid", 422)


def numbers_of(name: str, lower: float, upper: float, rows: Sequence[dict[str, Any]]) -> np.ndarray:
    """Return values of a column in scaled units, without missing ones."""
    values = np.array([float(row[name]) for row in rows if row[name] != ""])
    return np.clip((values - (lower + upper) / 2) / ((upper - lower) / 2), -1, 1)


BOUNDS = {"age": (50.0, 100.0), "creatinine": (0.0, 3.0), "dose": (-10.0, 10.0)}


def test_without_noise_an_answer_has_the_numbers_of_its_rows(quiet: World) -> None:
    request = marginals(tree("dose", "age"), flat("creatinine", bins=5), moments("age", "creatinine", "dose"))
    answer = quiet.api().post(RELEASES, json=request, key="a")
    assert (answer.status_code, answer.headers["curator-answer"]) == (201, "new")
    content = answer.json()
    assert [column["name"] for column in content["columns"]] == ["age", "creatinine", "dose"]
    by_type = {item["type"]: item for item in content["marginals"]}
    assert [item["name"] for item in content["marginals"]] == ["marginal_0", "marginal_1", "marginal_2"]
    assert {k: v for k, v in by_type["tree"].items() if k != "name"} == tree("age", "dose")
    found = {
        kind: np.array(content["statistics"][item["name"]]["values"]).reshape(
            content["statistics"][item["name"]]["shape"]
        )
        for kind, item in by_type.items()
    }
    for i, name in enumerate(("age", "dose")):
        values = numbers_of(name, *BOUNDS[name], ROWS)
        levels = [np.histogram(values, 2**level, (-1, 1))[0] for level in (1, 2, 3)]
        assert found["tree"][i].tolist() == np.concatenate(levels).tolist()
    creatinine = numbers_of("creatinine", *BOUNDS["creatinine"], ROWS)
    assert found["flat"].tolist() == [np.histogram(creatinine, 5, (-1, 1))[0].tolist()]
    for i, name in enumerate(("age", "creatinine", "dose")):
        u = numbers_of(name, *BOUNDS[name], ROWS)
        half, first, second = found["moments"][i]
        assert 2 * half == pytest.approx(len(u), abs=1e-6)
        assert [first, second + half] == pytest.approx([u.sum(), (u**2).sum()], abs=len(u) / 2**17)


def test_conditions_and_weights_say_which_rows_count_and_for_how_much(quiet: World) -> None:
    asked = [flat("age", bins=4), moments("age")]
    old = {"where": {"less_equal": [75, "age"]}}
    half = {"weight": {"divide": [{"subtract": ["age", 50]}, 100]}}  # 0 to 1/2
    answers = [
        quiet.api().post(RELEASES, json=marginals(*asked, price={"mu": 0.01}, **more), key=f"w{i}").json()
        for i, more in enumerate((old, half))
    ]
    u = numbers_of("age", *BOUNDS["age"], ROWS)
    for answer, weights in zip(answers, ((u >= 0).astype(float), (u + 1) / 4), strict=True):
        name = {item["type"]: item["name"] for item in answer["marginals"]}
        bins = np.histogram(u, 4, (-1, 1), weights=weights)[0]
        assert answer["statistics"][name["flat"]]["values"] == pytest.approx(bins.tolist(), abs=1e-4)
        expected = [(weights / 2).sum(), (weights * u).sum(), (weights * (u**2 - 0.5)).sum()]
        assert answer["statistics"][name["moments"]]["values"] == pytest.approx(expected, abs=1e-3)


def test_who_means_the_same_is_answered_the_same(api: Api, world: World) -> None:
    asked = marginals(tree("dose", "age"), moments("age"), shares=[0.25, 0.75])
    turned = marginals(moments("age"), tree("age", "dose"), shares=[0.75, 0.25])
    first = api.post(RELEASES, json=asked, key="a")
    assert first.status_code == 201
    for request, key, how in ((asked, "a", "replayed"), (turned, "b", "stored")):
        again = api.post(RELEASES, json=request, key=key)
        assert (again.headers["curator-answer"], again.json()["id"]) == (how, first.json()["id"])
    less = api.post(QUOTES, json=turned | {"price": {"mu": 0.01}}).json()
    assert (less["stored_release"], less["derivable_from"], less["offers"]) == (first.json()["id"], None, [])
    part = api.post(RELEASES, json=marginals(moments("age"), price={"mu": 0.01}), key="c")
    assert part.headers["curator-answer"] == "new"  # one marginal is not cut out of two
    assert kinds(world).count("charge") == 2
    assert_sound(world)


def test_the_noise_of_a_marginal_is_that_of_its_share_and_its_bound(api: Api) -> None:
    request = marginals(tree("age", "dose"), flat("age"), moments("age"), shares=[0.5, 0.25, 0.25], price={"mu": 0.1})
    quote = api.post(QUOTES, json=request).json()
    sd = {item["type"]: quote["noise"]["sd"][item["name"]] for item in quote["marginals"]}
    mu = {"tree": 0.1 * 0.5**0.5, "flat": 0.05, "moments": 0.05}
    l2 = {"tree": 6**0.5, "flat": 1.0, "moments": 1.5**0.5}
    assert sd == {name: pytest.approx(l2[name] / mu[name], rel=1e-4) for name in mu}


def test_a_charge_states_the_bounds_of_its_parts(tmp_path: Path) -> None:
    with open_world(tmp_path, adjacency=Adjacency.REPLACE_ONE) as world:
        request = marginals(moments("age", "dose"), mechanism="laplace", price={"epsilon": 0.1})
        answer = world.api().post(RELEASES, json=request, key="a").json()
        (part,) = answer["receipt"]["mechanism"]
        assert Fraction(part["sensitivity"]) == Fraction(9, 2) * (2**17 - 1) ** 2
        assert answer["receipt"]["release_kind"] == "marginals"
        assert_sound(world)
