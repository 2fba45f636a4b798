"""A row map of one new file outside of the packages: asked for, bounded, applied, found again, told apart, fitted."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served_worlds import serve_world
from support import World, ZeroNoise, body
from toy_row_map import Diamond, DiamondRows, KnownDiamond

from analyst_client import OLS, Assumptions, CuratorClient, EstimationError, Release, expected_accuracy
from analyst_client.schema import row_maps as known
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.row_maps import ROW_MAPS, Ball
from curator_service.privacy.row_maps.base import Rows

ROW_MAPS.pop("diamond")  # declared with its class: no other test knows it
ASKED = {"features": ["age", "weight"], "rows": {"map": "diamond"}, "price": {"mu": 0.1}}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, CuratorClient]]:
    monkeypatch.setitem(ROW_MAPS, "diamond", DiamondRows)
    monkeypatch.setitem(known.ROW_MAPS, "diamond", KnownDiamond())
    with (
        serve_world(tmp_path, noise=ZeroNoise()) as (world, url),
        CuratorClient(url, world.tokens["ada"], memory=None) as client,
    ):
        yield world, client


def buy(client: CuratorClient, **changes: object) -> Release:
    found = client.release("cohort", ["age", "weight"], target="kappa", rows="diamond", mu=0.1, **changes)  # type: ignore[arg-type]
    assert isinstance(found, Release)
    return found


def test_a_release_of_it_is_bounded_by_its_norm_and_backed_by_its_charge(served: tuple[World, CuratorClient]) -> None:
    world, client = served
    assert client.dataset("cohort").row_maps[-1] == "diamond"
    release = buy(client, even_so=True)
    assert release.verify()
    ball = ASKED | {"rows": {"map": "ball", "norm": 1.0}}
    of_ball = world.api().post("/v1/datasets/cohort/quotes", json=body(**ball))
    assert of_ball.json()["noise"]["sd"]["xtx_diagonal"] == pytest.approx(release.noise.xtx_diagonal)
    assert buy(client, even_so=True).id == release.id
    assert world.discrepancies() == []
    assert world.curator.ledger.verify("town").ok


def test_no_row_is_larger_than_its_bound() -> None:
    class Two:
        terms = (None, None)

    rows = np.asfortranarray(np.random.default_rng(1).integers(-UNIT, UNIT + 1, size=(20_000, 3)).astype(np.float64))
    rows[:3] = [[UNIT, UNIT, 5], [-UNIT, 0, UNIT], [0, 0, -UNIT]]
    mapped = Diamond().apply(rows, Two())  # type: ignore[arg-type]
    assert (mapped == np.trunc(mapped)).all()
    assert (np.abs(mapped[:, :2]).sum(axis=1) <= UNIT).all()
    assert np.square(mapped[:, :2].astype(object)).sum(axis=1).max() <= Diamond().norm_squared(Two())  # type: ignore[arg-type]
    assert mapped[:3].tolist() == [[UNIT // 2, UNIT // 2, 2], [-UNIT, 0, UNIT], [0, 0, -UNIT]]


def test_a_fit_of_it_says_that_rows_were_weighted(served: tuple[World, CuratorClient]) -> None:
    _, client = served
    release = buy(client, even_so=True)
    assert "rows whose terms add up to more than 1 count for less" in (release.weighting or "")
    fit = OLS().fit(release)
    assert np.isfinite(fit.params_).all()


def test_its_accuracy_is_expected_before_it_is_bought(served: tuple[World, CuratorClient]) -> None:
    _, client = served
    quote = client.quote("cohort", ["age", "weight"], target="kappa", rows="diamond", mu=0.1)
    accuracy = expected_accuracy(quote, Assumptions.of(quote, rows=100_000, residual_sd=1.0))
    assert accuracy.names[1:] == ("age", "weight")


def test_it_is_told_apart_from_others(served: tuple[World, CuratorClient]) -> None:
    world, client = served
    release = buy(client, even_so=True)
    answer = world.api().post("/v1/datasets/cohort/quotes", json=body(**ASKED | {"rows": {"map": "box"}})).json()
    assert {"release": release.id, "difference": "its rows were mapped by diamond, not by box"} in answer["offers"]


def test_the_document_describes_it(served: tuple[World, CuratorClient]) -> None:
    world, _ = served
    schemas = json.loads(world.api("root").get("/openapi.json").text)["components"]["schemas"]
    assert schemas["DiamondRows"]["properties"]["map"]["const"] == "diamond"


def test_a_client_that_does_not_know_it_reads_it_and_fits_nothing(
    served: tuple[World, CuratorClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = served
    monkeypatch.delitem(known.ROW_MAPS, "diamond")
    release = buy(client, even_so=True)
    assert release.verify()
    with pytest.raises((EstimationError, ValueError), match="does not know the row map 'diamond'"):
        OLS().fit(release)


def test_an_undeclared_one_is_refused_with_those_that_there_are(served: tuple[World, CuratorClient]) -> None:
    world, _ = served
    answer = world.api().post("/v1/datasets/cohort/quotes", json=body(rows={"map": "cube"}))
    assert answer.json()["errors"] == [
        {"pointer": "/rows/map", "detail": "the row map is one of box, ball, unit, unit_xy, linear, diamond"}
    ]


def test_a_second_one_of_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match="'box' is declared already"):
        type("Second", (Rows,), {"__annotations__": {"map": ROW_MAPS["box"].model_fields["map"].annotation}})
    assert ROW_MAPS["box"].make({}) != Ball(1)
