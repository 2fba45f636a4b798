"""Robust standard errors of the model that a release names: one more charged step, with the real client and curator."""

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import World, client_of, make_rows, open_population, open_world, spent

from analyst_client import OLS, CuratorClient, Release, TransportError
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_lengths import SHARE
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.gram.two_steps import ROBUST_SHARE
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.terms import bs, col, poly
from curator_service.privacy.accountant import Price

FEATURES = ["age", "sex"]
ASKED: dict[str, Any] = {"target": "kappa", "mu": 8.0, "robust": True}
ASSUMED = "assume one residual variance"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, rows=make_rows(300, seed=11), limit=Price(mu=100.0)) as opened:
        yield opened


@pytest.fixture
def client(world: World) -> CuratorClient:
    return client_of(world)


def said(release: Release, **options: Any) -> str:
    return " ".join(OLS().fit(release, **options).caveats())


def test_three_steps_cost_the_price_and_the_same_call_nothing(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    assert spent(client) == pytest.approx(64.0, rel=1e-6)
    norms, meat = release.steps
    shares = [SHARE, ROBUST_SHARE, 1.0 - SHARE - ROBUST_SHARE]
    for step, share in zip((norms, meat, release), shares, strict=True):
        assert step.cost is not None
        assert step.cost.mu == pytest.approx(8.0 * math.sqrt(share), rel=1e-6)
    again = client.release("cohort", FEATURES, **ASKED)
    assert [one.answer for one in (again, *again.steps)] == ["replayed"] * 3
    assert (again.text, again.steps[1].text) == (release.text, meat.text)
    plain = client.release("cohort", FEATURES, **(ASKED | {"robust": False}))
    assert len(plain.steps) == 1
    assert spent(client) == pytest.approx(64.0 * (2.0 - SHARE), rel=1e-5)  # the counts are stored


def test_the_named_model_assumes_nothing_and_others_do(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    assert ASSUMED not in said(release)
    assert ASSUMED not in said(release, features=FEATURES[::-1])
    part = OLS().fit(release, features=["age"])
    assert part.results_[0].equations.sites[0].spread is None
    plain = client.release("cohort", FEATURES, **(ASKED | {"robust": False}))
    assert "robust=True" in said(plain)
    assert ASSUMED in said(plain)


@pytest.mark.parametrize("options", [{"rows": "box"}, {"norm": 1.2}, {"expected_rows": 500}], ids=str)
def test_where_the_map_is_named_there_are_two_steps(client: CuratorClient, options: dict[str, Any]) -> None:
    quote = client.quote("cohort", FEATURES, **(ASKED | options))
    release = client.release("cohort", FEATURES, **(ASKED | options))
    (meat,) = release.steps
    assert meat.meat is not None
    assert ("weight" in meat.request) == release.weights_rows
    assert spent(client) == pytest.approx(64.0, rel=1e-6)
    assert quote.noise.xtx_diagonal is not None
    assert quote.steps.wide.noise.xtx_diagonal == release.noise.xtx_diagonal
    assert quote.cost.mu == pytest.approx(8.0)
    assert "one more charged step, of 5% of the price" in " ".join(str(quote).split())


def test_an_own_selection_is_that_of_the_step(client: CuratorClient) -> None:
    options = {"where": "age > 55", "weight": "age / 100", "norm": 1.2}
    release = client.release("cohort", [poly("age", 2), "sex"], **(ASKED | options))
    (meat,) = release.steps
    assert meat.request["where"] == release.request["where"]
    assert "minimum" in str(meat.request["weight"])
    assert OLS().fit(release).results_[0].equations.sites[0].spread is not None


def test_a_saved_release_keeps_its_errors(client: CuratorClient, tmp_path: Path) -> None:
    release = client.release("cohort", FEATURES, **ASKED)
    release.save(tmp_path / "release.json")
    expected = OLS().fit(release).conf_int()
    for read in (Release.load(tmp_path / "release.json"), pickle.loads(pickle.dumps(release))):
        assert read.steps == release.steps
        assert np.sort(OLS().fit(read).conf_int(), axis=0) == pytest.approx(np.sort(expected, axis=0), rel=1e-9)
        assert ASSUMED not in said(read)


def test_what_would_tell_too_little_is_given_back(client: CuratorClient) -> None:
    release = client.release("cohort", FEATURES, **(ASKED | {"mu": 2.0}))
    assert [step.meat for step in release.steps] == [None]
    assert spent(client) == pytest.approx(4.0 * (1.0 - ROBUST_SHARE), rel=1e-6)
    assert not list(client.reservations())
    fit = OLS().fit(release)
    assert fit.privacy_share_.min() > 0.8 or "robust=True buys no others" in " ".join(fit.caveats())


def test_the_same_call_goes_on_after_the_release(client: CuratorClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = CuratorClient.release

    def lose(self: CuratorClient, dataset: str, request: Any, **options: Any) -> Any:
        if isinstance(request, ScoreRequest) and "meat" in request.statistics:
            raise TransportError("no answer")
        return ask(self, dataset, request, **options)

    with monkeypatch.context() as patch:
        patch.setattr(CuratorClient, "release", lose)
        with pytest.raises(TransportError):
            client.release("cohort", FEATURES, **ASKED)
    release = client.release("cohort", FEATURES, **ASKED)
    assert (release.answer, len(release.steps)) == ("replayed", 2)
    assert spent(client) == pytest.approx(64.0, rel=1e-5)


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        (FEATURES, {"target": None}, "one target"),
        (FEATURES, {"target": None, "targets": ["kappa", "alive"]}, "one target, not 2"),
        (FEATURES, {"mechanism": "laplace", "mu": None, "epsilon": 1.0}, "Gaussian"),
        (FEATURES, {"calibration": "classical", "mu": None, "epsilon": 0.9, "delta": 1e-6}, "calibration"),
        (FEATURES, {"intercept": False}, "constant"),
        (FEATURES, {"statistics": ["xtx", "xty"]}, "yty"),
        (FEATURES, {"rows": "unit"}, "'unit'"),
        (FEATURES, {"rows": "unit_xy"}, "'unit_xy'"),
        (FEATURES, {"rows": CombinedRows({"age": [1.0]})}, "'linear'"),
        (FEATURES, {"idempotency_key": "one"}, "idempotency_key"),
        (FEATURES, {"half_width": {"age": 0.1}, "mu": None}, "half_width"),
        ([bs("age", df=4)], {}, "spline"),
        (ReleaseRequest(FEATURES, target="kappa", mu=1.0), {"target": None, "mu": None}, "features or a formula"),
    ],
    ids=str,
)
def test_what_has_no_such_step_is_refused_before_anything_is_charged(
    client: CuratorClient, features: Any, options: dict[str, Any], words: str
) -> None:
    stated = {name: value for name, value in (ASKED | options).items() if value is not None or name == "target"}
    if isinstance(features, ReleaseRequest):
        stated = {"robust": True}
    with pytest.raises(ValueError, match=words):
        client.release("cohort", features, **stated)
    if not {"idempotency_key", "half_width"} & set(stated):
        with pytest.raises(ValueError, match=words):
            client.quote("cohort", features, **stated)
    assert spent(client) == 0.0
    assert not list(client.reservations())


def test_a_spline_in_the_box_needs_no_weight_and_a_job_is_one_step(client: CuratorClient) -> None:
    assert client.quote("cohort", [bs("age", df=4)], **(ASKED | {"rows": "box"})).steps.meat is not None
    with pytest.raises(ValueError, match="a job is one"):
        client.submit_release("cohort", FEATURES, **ASKED)


def test_too_long_a_weight_and_an_account_in_pure_epsilon_are_refused(world: World, client: CuratorClient) -> None:
    with pytest.raises(ValueError, match="at most 200 columns"):
        client.release("cohort", [poly("age", 10), poly(col("age") * 2, 10)], **ASKED)
    open_population(world.curator, "lake", Price(epsilon=50.0), accountant="pure")
    world.grant("ada", world.register("clinic", "lake", make_rows(50, seed=1)))
    with pytest.raises(ValueError, match="Gaussian"):
        client.release("clinic", FEATURES, target="kappa", epsilon=5.0, mechanism="laplace", robust=True)
