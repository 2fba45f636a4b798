"""One release whose row map is chosen in two charged steps, with the real client and the real curator."""

import math
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import World, client_of, make_rows, open_population, open_world, spent

from analyst_client import SSP, BudgetExceededError, CuratorClient, Release, RequestInvalidError, TransportError
from analyst_client.display.model import number
from analyst_client.errors import ReceiptInvalidError
from analyst_client.kinds import ScoreRelease
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_lengths import SHARE, spread_counts
from analyst_client.planning.prices import epsilon_of, gdp_delta
from analyst_client.terms import interaction, log, poly
from analyst_client.verify import verify_file, verify_text
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency

COUNT = 300
FEATURES = ["age", "sex", "height"]
ASKED: dict[str, Any] = {"target": "kappa", "mu": 4.0}


def draw_rows() -> list[dict[str, str]]:
    """Return rows in the middle of their bounds, but for one in ten."""
    generator, rows = np.random.default_rng(5), make_rows(COUNT, seed=11)
    for row in rows:
        age = float(np.clip(generator.normal(75.0, 2.0), 50.0, 100.0))
        row["age"] = repr(age if generator.uniform() < 0.9 else 100.0)
    return rows


ROWS, OTHERS = draw_rows(), make_rows(COUNT, seed=12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, rows=ROWS, limit=Price(mu=100.0)) as opened:
        yield opened


@pytest.fixture
def client(world: World) -> CuratorClient:
    return client_of(world)


def test_two_steps_cost_the_price_and_the_same_call_nothing(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    assert spent(client) == pytest.approx(16.0, rel=1e-6)
    (norms,) = release.steps
    assert norms.cost is not None
    assert release.cost is not None
    assert norms.cost.mu == pytest.approx(4.0 * math.sqrt(SHARE), rel=1e-6)
    assert release.cost.mu == pytest.approx(4.0 * math.sqrt(1.0 - SHARE), rel=1e-6)
    told = dict(SSP().fit(release).summary().facts)["privacy charged"]
    assert told == f"ε = {number(epsilon_of(gdp_delta, 4.0, 1e-6))} at δ = 1e-06"  # of both steps
    assert "cost of row lengths" in str(release)
    again = client.release("cohort", FEATURES, **ASKED)
    assert (again.text, again.steps[0].text, again.answer) == (release.text, norms.text, "replayed")
    assert spent(client) == pytest.approx(16.0, rel=1e-6)
    assert all(one.answer == "replayed" for one in (again, *again.steps))


@pytest.mark.parametrize("robust", [False, True])
def test_another_order_of_the_same_columns_costs_nothing(client: CuratorClient, robust: bool) -> None:
    features, targets = [interaction("sex", "age"), "sex", "age"], {"target": "kappa", "robust": robust, "mu": 4.0}
    release = client.release("cohort", features, **targets)
    before = spent(client)
    other = client.release("cohort", ["age", "sex", interaction("age", "sex")], **targets)
    assert spent(client) == before
    assert client.quote("cohort", features, **targets).term_names == release.term_names
    assert release.term_names != other.term_names
    assert (other.id, [step.id for step in other.steps]) == (release.id, [step.id for step in release.steps])
    order = [release.term_names.index(name) for name in other.term_names]
    first, again = SSP().fit(release), SSP().fit(other)
    assert again.conf_int() == pytest.approx(first.conf_int()[order])


def test_the_counts_are_of_rows_by_their_length_without_the_constant(client: CuratorClient) -> None:
    (norms,) = client.release("cohort", ["age"], target="kappa", mu=60.0).steps
    lengths = [abs(float(row["age"]) - 75.0) / 25.0 for row in ROWS if row["kappa"] and row["age"]]
    exact = np.bincount(np.searchsorted(norms.norm_edges, lengths, side="right"), minlength=13)
    assert norms.norms is not None
    assert norms.norms == pytest.approx(exact, abs=6.0 / (60.0 * math.sqrt(SHARE)) + 3.0)  # ages at an edge are rounded
    squares, rows = spread_counts(norms, 1)
    assert rows.sum() == pytest.approx(len(lengths), abs=4.0)
    assert np.sqrt(squares.max()) == pytest.approx(1.0)


def test_the_map_follows_from_the_counts(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    assert release.norm is not None
    assert math.sqrt(1.3) != release.norm
    assert "about" in str(release)
    assert release.steps[0].id in str(release)
    rough = client.release("cohort", ["age", "height"], target="kappa", mu=0.05)
    assert rough.norm == round(math.sqrt(1.2), 4)  # noise hides the rows: the small ball


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": "box"},
        {"norm": 1.2},
        {"expected_rows": 500},
        {"mechanism": "laplace", "epsilon": 1.0, "mu": None},
        {"target": None},
        {"intercept": False},
        {"statistics": ["xty"]},
        {"calibration": "analytic"},
        {"idempotency_key": "one-request"},
    ],
    ids=str,
)
def test_what_names_or_presumes_a_map_is_one_request(client: CuratorClient, changes: dict[str, Any]) -> None:
    assert client.release("cohort", FEATURES, **(ASKED | changes)).steps == ()
    key = {name: value for name, value in (ASKED | changes).items() if name != "idempotency_key"}
    if "idempotency_key" not in changes:
        assert client.quote("cohort", FEATURES, **key).steps is None


def test_without_a_word_of_a_target_there_is_one_step(client: CuratorClient) -> None:
    assert client.quote("cohort", FEATURES, mu=4.0).steps is None
    assert client.release("cohort", FEATURES, mu=4.0, even_so=True).steps == ()


def test_a_request_given_whole_and_a_job_are_one_request(client: CuratorClient) -> None:
    assert client.release("cohort", ReleaseRequest(FEATURES, **ASKED)).steps == ()
    answered = client.wait(client.submit_release("cohort", ["age"], **ASKED))
    assert isinstance(answered, Release)
    assert answered.steps == ()


def test_a_release_that_is_stored_already_is_what_the_same_call_gets(client: CuratorClient) -> None:
    whole = client.release("cohort", ReleaseRequest(FEATURES, **ASKED))
    before = spent(client)
    assert client.release("cohort", FEATURES, **ASKED).text == whole.text
    assert spent(client) == before


@pytest.mark.parametrize(
    ("features", "options"),
    [
        ([poly("age", 2), "sex", interaction("height", "sex")], {}),
        ([log("age"), "sex"], {"where": "age > 60", "weight": "age / 100"}),
        (FEATURES, {"target": None, "targets": ["kappa", "alive"]}),
        (FEATURES, {"target": "alive", "statistics": ["xtx", "xty"], "fresh": True, "project": "kidney"}),
    ],
    ids=["bases", "selected", "targets", "fresh"],
)
def test_any_design_is_bought_in_two_steps(world: World, client: CuratorClient, features: Any, options: Any) -> None:
    if "project" in options:
        world.permit()
    release = client.release("cohort", features, **(ASKED | options))
    assert len(release.steps) == 1
    assert spent(client) == pytest.approx(16.0, rel=1e-6)
    assert SSP().fit(release).coef_.size


def test_a_quote_shows_both_outcomes(client: CuratorClient) -> None:
    quote = client.quote("cohort", FEATURES, **ASKED)
    assert quote.steps is not None
    narrow, wide = quote.steps.narrow, quote.steps.wide
    assert narrow.noise.xtx_diagonal is not None
    assert wide.noise.xtx_diagonal is not None
    release = client.release("cohort", FEATURES, **ASKED)
    assert release.noise.xtx_diagonal is not None
    assert narrow.noise.xtx_diagonal <= release.noise.xtx_diagonal <= wide.noise.xtx_diagonal
    assert quote.cost.mu == pytest.approx(4.0)
    assert quote.steps.norms.noise.norms == pytest.approx(1.0 / (4.0 * math.sqrt(SHARE)), rel=1e-3)
    assert all(words in " ".join(str(quote).split()) for words in ("at the least", "at the most", "two charged steps"))
    again = client.quote("cohort", FEATURES, **ASKED)
    assert (again.steps, again.stored_release) == (None, release.id)


def test_a_saved_release_keeps_both_receipts(client: CuratorClient, tmp_path: Path) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    file = tmp_path / "release.json"
    release.save(file)
    for read in (Release.load(file), pickle.loads(pickle.dumps(release))):
        assert (read.text, read.steps, read.norm) == (release.text, release.steps, release.norm)
    assert verify_file(file)
    assert release.verify()
    part = release.select(["age"])
    part.save(file)
    assert Release.load(file).steps == release.steps
    assert Release.load(file).feature_names == ("age",)
    assert verify_file(file)


@pytest.mark.parametrize("part", [False, True])
def test_a_changed_step_is_found(client: CuratorClient, tmp_path: Path, part: bool) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    file = tmp_path / "release.json"
    (release.select(["age"]) if part else release).save(file)
    text = file.read_text(encoding="utf-8")
    changed = re.sub(r"(norms[^\[]*\[13\][^\[]*\[)", r"\g<1>1", text)
    assert changed != text
    assert not verify_text(changed)
    file.write_text(changed, encoding="utf-8")
    with pytest.raises(ReceiptInvalidError):
        Release.load(file)


def test_a_price_that_does_not_fit_is_refused_as_that_of_one_request(client: CuratorClient) -> None:
    with pytest.raises(BudgetExceededError) as refused:
        client.release("cohort", FEATURES, target="kappa", mu=101.0)
    assert refused.value.largest is not None
    assert spent(client) == 0.0


def test_what_is_stored_costs_nothing_where_the_budget_is_spent(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, target="kappa", mu=99.0)
    assert client.release("cohort", FEATURES, target="kappa", mu=99.0).text == release.text
    assert spent(client) == pytest.approx(99.0**2, rel=1e-6)


@pytest.mark.parametrize(
    ("failure", "held"),
    [(TransportError("no answer"), True), (KeyboardInterrupt(), True), (RequestInvalidError("no such map"), False)],
    ids=["lost", "interrupted", "refused"],
)
def test_the_same_call_goes_on_after_the_first_step_and_costs_the_price(
    client: CuratorClient, monkeypatch: pytest.MonkeyPatch, failure: BaseException, held: bool
) -> None:
    ask = CuratorClient.release

    def lose(self: CuratorClient, dataset: str, request: Any, **options: Any) -> Any:
        if isinstance(request, ReleaseRequest) and request.rows is not None:
            raise failure
        return ask(self, dataset, request, **options)

    with monkeypatch.context() as patch:
        patch.setattr(CuratorClient, "release", lose)
        with pytest.raises(type(failure)) as caught:
            client.release("cohort", FEATURES, **ASKED)
    assert getattr(caught.value, "idempotency_key", None) is None
    assert any("reservation" in note for note in caught.value.__notes__)
    assert spent(client) == pytest.approx(16.0 if held else 16.0 * SHARE, rel=1e-5)
    release = client.release("cohort", FEATURES, **ASKED)
    assert [step.answer for step in release.steps] == ["replayed"]
    assert spent(client) == pytest.approx(16.0, rel=1e-5)


def test_an_interruption_after_the_reservation_keeps_it_for_the_same_call(
    client: CuratorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, most = CuratorClient.reserve, {"target": "kappa", "mu": 90.0}

    def lose(*asked: Any, **options: Any) -> Any:
        reserve(*asked, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CuratorClient, "reserve", lose)
        with pytest.raises(KeyboardInterrupt):
            client.release("cohort", FEATURES, **most)
    assert len(client.release("cohort", FEATURES, **most).steps) == 1
    assert spent(client) == pytest.approx(90.0**2, rel=1e-6)


def test_fresh_steps_that_are_interrupted_hold_nothing_for_a_call_that_would_not_find_it(
    client: CuratorClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = CuratorClient.release

    def lose(self: CuratorClient, dataset: str, request: Any, **options: Any) -> Any:
        if isinstance(request, ReleaseRequest) and request.rows is not None:
            raise TransportError("no answer")
        return ask(self, dataset, request, **options)

    with monkeypatch.context() as patch:
        patch.setattr(CuratorClient, "release", lose)
        with pytest.raises(TransportError) as caught:
            client.release("cohort", FEATURES, fresh=True, **ASKED)
    assert "given back" in caught.value.__notes__[0]
    assert list(client.reservations()) == []
    assert spent(client) == pytest.approx(16.0 * SHARE, rel=1e-5)


def test_an_own_reservation_that_is_too_small_pays_no_first_step(client: CuratorClient) -> None:
    held = client.reserve("cohort", mu=2.0, expires_in_s=3600)
    with pytest.raises(BudgetExceededError):
        client.release("cohort", FEATURES, reservation=held.id, **ASKED)
    assert client.reservation(held.id).drawn.units == 0


def test_one_of_several_projects_pays_both_steps(world: World, client: CuratorClient) -> None:
    for project in ("kidney", "heart"):
        world.permit(project)
    (dataset,) = [one.id for one in world.curator.datasets.list_all() if one.name == "cohort"]
    world.end_grant("ada", dataset)
    release = client.release("cohort", FEATURES, project="heart", **ASKED)
    receipts = [one.receipt for one in (release, *release.steps)]
    assert [receipt and receipt["project"] for receipt in receipts] == ["heart", "heart"]


def test_an_own_reservation_pays_both_steps_and_stays_open(client: CuratorClient) -> None:
    held = client.reserve("cohort", mu=5.0, expires_in_s=3600)
    release = client.release("cohort", FEATURES, reservation=held.id, **ASKED)
    assert isinstance(release.steps[0], ScoreRelease)
    now = client.reservation(held.id)
    assert now.state == "open"
    assert now.drawn.mu == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize(
    ("accountant", "limit", "price", "adjacency"),
    [
        ("zcdp", Price(rho=50.0), {"rho": 8.0}, Adjacency.ADD_REMOVE),
        ("gdp", Price(mu=50.0), {"epsilon": 20.0, "delta": 1e-6}, Adjacency.REPLACE_ONE),
    ],
)
def test_other_accounts_are_split_alike(
    world: World, client: CuratorClient, accountant: str, limit: Price, price: dict[str, float], adjacency: Adjacency
) -> None:
    open_population(world.curator, "lake", limit, accountant=accountant, adjacency=adjacency)
    world.grant("ada", world.register("clinic", "lake", OTHERS))
    one = client.quote("clinic", FEATURES, target="kappa", rows="box", **price)
    release = client.release("clinic", FEATURES, target="kappa", **price)
    budget, (norms,) = client.budget("clinic"), release.steps
    assert budget.posted.units == pytest.approx(one.cost.units or 0, rel=1e-6)
    assert (norms.cost.units if norms.cost else 0) == pytest.approx(SHARE * (one.cost.units or 0), rel=1e-6)
    assert budget.pending.units == 0


def test_an_account_in_pure_epsilon_has_one_step(world: World, client: CuratorClient) -> None:
    open_population(world.curator, "lake", Price(epsilon=50.0), accountant="pure")
    world.grant("ada", world.register("clinic", "lake", OTHERS))
    with pytest.raises(RequestInvalidError):
        client.release("clinic", FEATURES, target="kappa", epsilon=5.0, delta=1e-6)
    assert client.release("clinic", FEATURES, target="kappa", epsilon=5.0, mechanism="laplace").steps == ()
