"""The analyst's client against the real server, over a socket; and the document of the interface, reviewed."""

import json
import os
import pickle
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from client_acts import MODULE, make_module
from served_worlds import serve_world
from support import World

from analyst_client import AdaSSP, BudgetExceededError, CuratorClient, Release, RequestInvalidError
from analyst_client.errors import AuthenticationError, DatasetNotFoundError, PermissionDeniedError
from curator_service.app import create_app
from curator_service.settings import Settings

SNAPSHOT = Path(__file__).with_name("openapi.json")
REGENERATE = "CURATOR_TEST_WRITE_OPENAPI"
FEATURES = ["age", "sex", "height", "region", "smoker"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """Serve a world on a free loopback port."""
    with serve_world(tmp_path_factory.mktemp("contract")) as world:
        yield world


@pytest.fixture
def client(served: tuple[World, str]) -> Iterator[CuratorClient]:
    world, url = served
    with CuratorClient(url, world.tokens["ada"], memory=None) as client:
        yield client


def test_datasets(client: CuratorClient) -> None:
    (dataset,) = client.datasets()
    assert dataset == client.dataset("cohort")
    assert (dataset.name, dataset.population, dataset.rows) == ("cohort", "town", None)
    columns = {column.name: column for column in dataset.columns}
    assert (columns["age"].lower, columns["age"].upper, columns["age"].unit) == (50.0, 100.0, "years")
    assert columns["sex"].levels == ("F", "M", "X")


def test_budget(client: CuratorClient) -> None:
    budget = client.budget("cohort")
    assert budget.limit.epsilon == pytest.approx(1.0)
    assert budget.remaining.mu <= budget.limit.mu


def test_quote_release_fit_list_and_fetch(client: CuratorClient, tmp_path: Path) -> None:
    quote = client.quote("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.3, delta=1e-6)
    assert quote.affordable
    assert (quote.pass_over_rows, quote.stored_release, quote.derivable_from, quote.offers) == (True, None, None, ())
    assert quote.duration_s > 0.0
    assert 4096 < quote.answer_bytes < quote.answer_bytes_left
    release = client.release("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.3, delta=1e-6)
    assert release.answer == "new"
    assert release.terms == quote.terms
    assert release.noise == quote.noise
    assert release.cost.units == quote.cost.units
    assert release.verify()
    again = client.release("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.3, delta=1e-6)
    assert again.answer == "stored"
    assert again == release
    assert (
        client.quote("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.3, delta=1e-6).stored_release
        == release.id
    )
    assert (
        client.quote("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.2, delta=1e-6).stored_release
        == release.id
    )
    louder = client.quote("cohort", FEATURES, target="kappa", rows="ball", epsilon=0.4, delta=1e-6)
    assert louder.stored_release is None
    (offer,) = louder.offers
    assert offer.release_id == release.id
    paid, asked = (f"mu {value.request['price']['mu']:.6g}" for value in (release, louder))
    assert offer.difference == f"its price was {paid}, not {asked}; its noise is larger"
    fetched = client.fetch_release(release.id)
    assert fetched == release
    assert [summary.id for summary in client.releases("cohort")] == [release.id]
    release.save(tmp_path / "release.json")
    assert Release.load(tmp_path / "release.json") == release
    assert len(AdaSSP().fit(release).coef_) == len(release.terms) - 1


def test_laplace_noise_has_a_price_of_epsilon_alone(client: CuratorClient) -> None:
    assert client.dataset("cohort").mechanisms == ("gaussian", "laplace")
    release = client.release("cohort", ["weight"], target="kappa", epsilon=0.05, mechanism="laplace", rows="unit")
    assert (release.noise.distribution, release.row_map) == ("discrete_laplace", "unit")
    assert release.request["shares"] == {"xtx": 0.35, "xty": 0.6, "yty": 0.05}
    assert release.verify()
    published = client.quote("cohort", ["weight"], target="kappa", epsilon=0.05, delta=1e-6, calibration="wang2018")
    assert published.noise.distribution == "discrete_gaussian"


def test_quote_names_the_release_that_a_request_is_cut_out_of(client: CuratorClient) -> None:
    source = client.release("cohort", ["age", "sex", "ward"], target=None, mu=0.02, rows="box", even_so=True)
    quote = client.quote("cohort", ["ward", "age"], target=None, mu=0.01, rows="box")
    assert (quote.stored_release, quote.derivable_from, quote.duration_s) == (None, source.id, 0.0)
    assert client.release("cohort", ["ward", "age"], target=None, mu=0.01, rows="box").derived_from == source.id


@pytest.mark.parametrize("rows", ["box", "ball"])
@pytest.mark.parametrize("respond_async", [False, True])
def test_an_answer_stands_in_the_order_in_which_it_was_asked(
    client: CuratorClient, rows: str, respond_async: bool
) -> None:
    asked = ["region", "smoker", "age", "sex"], ["kappa", "alive"]
    price = 0.05 if respond_async else 0.03  # or the second would be answered with the first
    options = {"rows": rows, "mu": price, "respond_async": respond_async, "even_so": True}
    backwards = [asked[0][::-1], asked[1][::-1]]
    first = client.release("cohort", backwards[0], targets=backwards[1], fresh=True, **options)
    again = client.release("cohort", asked[0], targets=asked[1], **options)
    waited = client.wait(client.submit_release("cohort", asked[0], targets=asked[1], rows=rows, mu=price))
    quote = client.quote("cohort", asked[0], targets=asked[1], rows=rows, mu=price)
    assert (again.text, again.answer) == (first.text, "stored")
    for shown in (again, waited, quote):
        assert [column.name for column in shown.features] == asked[0]
        assert [term.name for term in shown.terms][:3] == ["(constant)", "region[south]", "region[west]"]
        assert [term.name for term in shown.targets] == asked[1]
    assert first.feature_names == tuple(backwards[0])
    kept = client.fetch_release(first.id)
    for release in (first, again, waited):
        assert release.verify()
        for i, term in enumerate(release.term_names):
            for j, other in enumerate(release.term_names):
                place = kept.term_names.index(term), kept.term_names.index(other)
                assert release.xtx[i, j] == kept.xtx[place]
            for j, target in enumerate(release.target_names):
                assert release.xty[i, j] == kept.xty[kept.term_names.index(term), kept.target_names.index(target)]
        assert [release.yty[release.target_names.index(name)] for name in kept.target_names] == kept.yty.tolist()
        copy = pickle.loads(pickle.dumps(release))
        assert (copy.term_names, copy.xtx.tolist()) == (release.term_names, release.xtx.tolist())


def test_the_same_key_gives_the_same_release(client: CuratorClient) -> None:
    first = client.release("cohort", ["age"], mu=0.01, fresh=True, even_so=True, idempotency_key="contract-key")
    again = client.release("cohort", ["age"], mu=0.01, fresh=True, even_so=True, idempotency_key="contract-key")
    assert (first.answer, again.answer) == ("new", "replayed")
    assert again == first


def test_every_page_of_releases_is_read(client: CuratorClient) -> None:
    before = len(client.releases("cohort"))
    for _ in range(3):
        client.release("cohort", ["weight"], mu=0.001, fresh=True, even_so=True)
    assert len(client.releases("cohort")) == before + 3


def test_refusals_are_errors_with_their_facts(served: tuple[World, str], client: CuratorClient) -> None:
    world, url = served
    with pytest.raises(BudgetExceededError) as exceeded:
        client.release("cohort", ["age"], target="kappa", epsilon=3.0, delta=1e-6)
    assert exceeded.value.remaining.units < exceeded.value.requested.units
    assert exceeded.value.largest is not None
    with pytest.raises(DatasetNotFoundError):
        client.dataset("hidden")
    with pytest.raises(RequestInvalidError) as invalid:
        client.quote("cohort", ["salary"], mu=0.1)
    assert [fault.pointer for fault in invalid.value.errors] == ["/features/0"]
    with CuratorClient(url, world.tokens["audra"], memory=None) as auditor, pytest.raises(PermissionDeniedError):
        auditor.release("cohort", ["age"], target="kappa", mu=0.1)
    with CuratorClient(url, "nonsense", memory=None) as nobody, pytest.raises(AuthenticationError):
        nobody.datasets()


def test_the_interface_is_the_reviewed_one(tmp_path: Path) -> None:
    """To change it: run with CURATOR_TEST_WRITE_OPENAPI=1, then review the difference."""
    app = create_app(Settings(data_dir=tmp_path))
    document = app.openapi()
    app.state.curator.database.dispose()
    document["info"]["version"] = "0"
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get(REGENERATE) == "1":
        SNAPSHOT.write_text(text, encoding="utf-8")
        MODULE.write_text(make_module(json.loads(text)), encoding="utf-8")
    assert json.loads(SNAPSHOT.read_text(encoding="utf-8")) == json.loads(text)
    assert {*re.findall(r'"#/components/schemas/(.+?)"', text)} <= document["components"]["schemas"].keys()


def test_the_client_s_table_of_acts_is_the_document_s() -> None:
    assert MODULE.read_text(encoding="utf-8") == make_module(json.loads(SNAPSHOT.read_text(encoding="utf-8")))


def test_the_document_is_the_same_however_often_it_is_asked(tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path))
    first = json.dumps(app.openapi())
    assert json.dumps(app.openapi()) == first
    app.state.curator.database.dispose()


@pytest.mark.parametrize("synchronous_s", [0.0, 1.0], ids=["as a job", "while they wait"])
def test_callers_who_come_at_once_are_all_answered_whether_refused_at_first_or_given_a_job(
    tmp_path: Path, synchronous_s: float
) -> None:
    """Neither 202 nor 429 shows to whoever buys: the key stays the same, and each pays once."""
    with serve_world(tmp_path, synchronous_s=synchronous_s, passes_max=1, jobs_waiting_max=1) as (world, url):

        def buy(i: int) -> Release:
            with CuratorClient(url, world.tokens["ada"], memory=None, max_attempts=100) as client:
                client._transport.sleep = lambda _: time.sleep(0.02)
                return client.release("cohort", FEATURES[: i + 1], mu=0.01, even_so=True)

        with ThreadPoolExecutor(5) as pool:
            releases = list(pool.map(buy, range(5)))
        assert [len(release.features) for release in releases] == [1, 2, 3, 4, 5]
        charged = [entry["kind"] for entry in world.entries()].count("charge")
        assert charged == 5
        assert world.account().pending == 0
