"""A kind of release from outside of both packages: requested over HTTP, charged, found again, quoted, and read."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from served_worlds import serve_world
from support import ROWS, World, ZeroNoise, body, find_discrepancies
from toy_client import FilledRelease, FilledRequest
from toy_kind import Filled

from analyst_client import CuratorClient, Curators, Release
from analyst_client.errors import ReceiptInvalidError
from analyst_client.kinds import registry as client_registry
from analyst_client.verify import verify_file
from curator_service.kinds.registry import KINDS, KindRegistry
from curator_service.releases import charges

FOREIGN = KindRegistry(*KINDS, Filled())
HELD = sum(row["creatinine"] != "" for row in ROWS)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, CuratorClient]]:
    monkeypatch.setattr(client_registry, "_KINDS", dict(client_registry._KINDS))
    client_registry.register(FilledRequest)
    with (
        serve_world(tmp_path, kinds=FOREIGN, noise=ZeroNoise()) as (world, url),
        CuratorClient(url, world.tokens["ada"], memory=None) as client,
    ):
        yield world, client


def discrepancies(world: World) -> list[str]:
    return find_discrepancies(replace(world.curator, kinds=FOREIGN), "town")


def test_a_foreign_kind_is_quoted_charged_found_again_and_read(served: tuple[World, CuratorClient]) -> None:
    world, client = served
    assert client.dataset("cohort").kinds == ("gram", "counts", "marginals", "score", "filled")
    quote = client.quote("cohort", FilledRequest(["creatinine"], mu=0.1))
    assert (quote.kind, quote.noise.sd, quote.stored_release) == ("filled", {"rows": pytest.approx(10.0)}, None)
    new = client.release("cohort", FilledRequest(["creatinine"], mu=0.1))
    assert (new.rows.tolist(), new.answer) == ([HELD], "new")
    assert new.verify()
    charge = world.entries()[-1]
    assert (charge["kind"], charge["release_kind"], charge["release"]) == ("charge", "filled", new.id)
    again = client.release("cohort", FilledRequest(["creatinine"], mu=0.05))  # more noise would do
    assert (again.id, again.answer) == (new.id, "stored")
    assert client.quote("cohort", FilledRequest(["creatinine"], mu=0.05)).stored_release == new.id
    assert client.quote("cohort", FilledRequest(["creatinine"], mu=0.2)).stored_release is None
    assert [summary.kind for summary in client.releases("cohort")] == ["filled"]
    assert client.fetch_release(new.id) == new
    assert discrepancies(world) == []


def test_a_release_of_it_is_kept_shown_and_sold_by_a_job(served: tuple[World, CuratorClient], tmp_path: Path) -> None:
    _, client = served
    request = FilledRequest(["creatinine", "age"], mu=0.1, project=None)
    assert repr(request) == "FilledRequest(columns=['creatinine', 'age'], mu=0.1)"
    quote = client.quote("cohort", request)
    release = client.wait(client.submit_release("cohort", request))
    assert isinstance(release, FilledRelease)
    assert set(release.by_column) == {"age", "creatinine"}
    assert repr(release).startswith(f"<FilledRelease {release.id} of 'cohort': filled, epsilon=")
    for value, words in ((quote, "Quote for filled of cohort"), (release, "Release filled of cohort")):
        assert words in str(value)
        assert "calibration" in value._repr_html_()
    assert pickle.loads(pickle.dumps(release)).by_column == release.by_column
    path = tmp_path / "filled.json"
    release.save(path)
    assert FilledRelease.load(path).by_column == release.by_column
    assert verify_file(path).verdict == "consistent"
    path.write_text(path.read_text().replace('"creatinine"', '"kappa"'))
    with pytest.raises(ReceiptInvalidError, match="damaged, or was changed"):
        FilledRelease.load(path)


def test_it_is_bought_of_several_curators(served: tuple[World, CuratorClient]) -> None:
    world, client = served
    plan = Curators({"north": client}).plan("cohort", FilledRequest(["creatinine"], mu=0.1))
    assert plan.quotes["north"].noise.sd == {"rows": pytest.approx(10.0)}
    bought = plan.buy()["north"]
    assert isinstance(bought, FilledRelease)
    assert bought.by_column == {"creatinine": HELD}
    assert [entry["kind"] for entry in world.entries()][-3:] == ["reserve", "charge", "void"]


def test_kinds_stand_beside_each_other_on_one_shelf(served: tuple[World, CuratorClient]) -> None:
    """Quotes and requests of a kind look at their own releases alone, whatever was released of the same columns."""
    world, client = served
    other = client.release("cohort", FilledRequest(["age"], mu=0.1))
    gram = client.release("cohort", ["age"], target="kappa", mu=0.1, rows="box")
    assert isinstance(gram, Release)
    for mu in (0.05, 0.2):
        quote = client.quote("cohort", ["age"], target="kappa", mu=mu, rows="box")
        assert other.id not in {quote.stored_release, quote.derivable_from, *(o.release_id for o in quote.offers)}
    assert client.release("cohort", FilledRequest(["age"], mu=0.05)).id == other.id
    assert discrepancies(world) == []


def test_a_curator_that_lost_a_kind_serves_the_others(served: tuple[World, CuratorClient]) -> None:
    """Its entries are then of a kind that is not known, and are named; nobody else's request fails."""
    world, client = served
    client.release("cohort", FilledRequest(["age"], mu=0.1))
    api = world.api()
    assert api.post("/v1/datasets/cohort/quotes", json=body(features=["age"])).status_code == 200
    assert api.post("/v1/datasets/cohort/releases", json=body(features=["age"]), key="k").status_code == 201
    assert api.get("/v1/datasets/cohort/releases").status_code == 200
    refused = api.post("/v1/datasets/cohort/quotes", json=FilledRequest(["age"], mu=0.1).members)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/kind")
    assert len(world.discrepancies()) == 2


@pytest.mark.parametrize("kind", ["gram", "counts", "none"])
def test_an_entry_that_names_another_kind_is_found(
    served: tuple[World, CuratorClient], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    world, client = served
    honest = charges._state_answer
    monkeypatch.setattr(charges, "_state_answer", lambda *given: honest(*given) | {"release_kind": kind})
    found = client.release("cohort", FilledRequest(["age"], mu=0.1)).id
    assert any(found in what for what in discrepancies(world))


def test_what_is_wrong_with_a_request_is_told_by_its_kind(served: tuple[World, CuratorClient]) -> None:
    world, client = served
    before = world.account()
    for members, pointer in (
        ({"columns": ["hair"]}, "/columns/0"),
        ({"columns": ["age"], "rows": {}}, "/rows"),
        ({}, "/columns"),
    ):
        asked = {"kind": "filled", "price": {"mu": 0.1}, **members}
        answer = httpx.post(
            str(client._transport.url.join("/v1/datasets/cohort/quotes")),
            json=asked,
            headers={"Authorization": f"Bearer {world.tokens['ada']}"},
        )
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert world.account() == before
