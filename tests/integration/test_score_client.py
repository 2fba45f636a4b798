"""Scores with the real client and the real curator: sums of a slow program, at the numbers that were posted."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rows_on_disk import read_columns
from sums_slowly import rows_of, sum_slowly
from support import World, ZeroNoise, client_of, make_rows, open_world

from analyst_client import CuratorClient, RequestInvalidError
from analyst_client.kinds import ScoreQuote, ScoreRelease, ScoreRequest
from analyst_client.terms import col, log
from curator_service.kinds.registry import KINDS
from curator_service.privacy.lattice import UNIT

ROWS = make_rows(300, seed=3)
OPTIONS: dict[str, Any] = {
    "coefficients": {"(constant)": 0.21, "log(age)": -1.7, "sex[M]": 0.05},
    "directions": {"(constant)": [1.0, 0.2], "log(age)": [0.3, 1.0], "sex[X]": [0.0, 1.0]},
    "norm": 0.7,
    "statistics": ["meat", "norms", "score"],
    "mu": 0.02,
}
FEATURES = ["sex", log("age")]
ASKED = ScoreRequest(FEATURES, "kappa", **OPTIONS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a curator that adds no noise."""
    with open_world(tmp_path_factory.mktemp("score"), noise=ZeroNoise(), rows=ROWS) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(world: World) -> CuratorClient:
    return client_of(world)


def slow_sums(world: World, request: ScoreRequest) -> list[float]:
    """Return the sums of a slow program for what the client posts."""
    kind = KINDS[request.kind]
    dataset = next(found for found in world.curator.datasets.list_all() if found.name == "cohort")
    kernel = kind.kernel(kind.plan(dataset, kind.request_model.model_validate(request.members)).plan)
    rows = [dict(row) for row in rows_of(read_columns(world.curator.datasets.storage, dataset))]
    return [number / UNIT**2 for number in sum_slowly(kernel, rows)]


@pytest.mark.parametrize(
    "request_",
    [
        ASKED,
        ScoreRequest(FEATURES, "alive", loss="logistic", **OPTIONS),
        ScoreRequest(FEATURES, col("kappa") < 2, loss="logistic", weight=col("age") / 100, **OPTIONS),
        ScoreRequest(FEATURES, "lambda", loss="poisson", where="sex != 'F'", **OPTIONS),
        ScoreRequest(["age"], "dose", directions={"age": [3.0]}, intercept=False, mu=0.02),
    ],
    ids=["linear", "logistic", "weighted", "poisson", "plain"],
)
def test_numbers_are_those_of_the_slow_program(world: World, client: CuratorClient, request_: ScoreRequest) -> None:
    release = client.release("cohort", request_)
    assert isinstance(release, ScoreRelease)
    parts = [release.score, release.norms]
    if release.meat is not None:
        parts.append(release.meat[np.triu_indices(len(release.meat))])
    found = np.concatenate([part for part in parts if part is not None])
    assert found == pytest.approx(slow_sums(world, request_), rel=1e-12)


def test_numbers_are_those_of_the_formula_at_what_was_posted(client: CuratorClient) -> None:
    release = client.release("cohort", ASKED)
    assert release.term_names == ("(constant)", "sex[M]", "sex[X]", "log(age)")
    assert release.coefficients.tolist() == [ASKED.posted_coefficients.get(name, 0.0) for name in release.term_names]
    posted = ASKED.posted_directions
    assert release.directions.tolist() == [posted.get(n, np.zeros(2)).tolist() for n in release.term_names]
    ages = np.log(np.clip([float(row["age"]) for row in ROWS], 50, 100))
    age = release.terms[3]
    flags = [[row["sex"] == level for row in ROWS] for level in ("M", "X")]
    X = np.column_stack([np.ones(len(ROWS)), *flags, (ages - age.center) / age.scale])
    y = (np.clip([float(row["kappa"]) for row in ROWS], 0, 6) - release.target.center) / release.target.scale
    g = (y - X @ release.coefficients)[:, np.newaxis] * (X @ release.directions)
    norms = np.linalg.norm(g, axis=1)
    clipped = g / np.maximum(norms, 1.0)[:, np.newaxis]
    assert release.score == pytest.approx(clipped.sum(axis=0), abs=5e-3)
    assert release.meat == pytest.approx(clipped.T @ clipped, abs=5e-3)
    assert release.norms == pytest.approx(np.histogram(norms, [0.0, *release.norm_edges, math.inf])[0])
    # In units of the directions that were asked: gradients are clipped to the norm.
    ten_times = ScoreRequest(FEATURES, "kappa", **(OPTIONS | {"norm": 1e3}))
    wide = client.release("cohort", ten_times)
    whole = (y - X @ wide.coefficients)[:, np.newaxis] * (X @ wide.directions) * ten_times.norm
    assert wide.score is not None
    assert wide.score * ten_times.norm == pytest.approx(whole.sum(axis=0), abs=300 * 1e3 / UNIT)


def test_a_quote_is_that_of_what_was_asked(client: CuratorClient) -> None:
    quote = client.quote("cohort", ASKED)
    assert isinstance(quote, ScoreQuote)
    assert quote.term_names == ("(constant)", "sex[M]", "sex[X]", "log(age)")
    assert quote.coefficients.tolist() == client.release("cohort", ASKED).coefficients.tolist()
    assert quote.noise.score == pytest.approx(1 / (0.02 * math.sqrt(94 / 140)), rel=1e-3)
    assert quote.noise == client.release("cohort", ASKED).noise


def test_what_was_posted_is_the_same_request_when_it_is_sent_again(client: CuratorClient, tmp_path: Path) -> None:
    first = client.release("cohort", ASKED)
    again = ScoreRequest(
        list(reversed(FEATURES)),
        "kappa",
        coefficients=dict(zip(first.term_names, first.coefficients, strict=True)),
        directions=dict(zip(first.term_names, first.directions, strict=True)),
        statistics=["score", "norms", "meat"],
        mu=0.02,
    )
    assert client.quote("cohort", again).stored_release == first.id
    second = client.release("cohort", again)
    assert (second.id, second.answer) == (first.id, "stored")
    assert second.term_names == ("(constant)", "log(age)", "sex[M]", "sex[X]")
    assert second.directions[[0, 2, 3, 1]].tolist() == first.directions.tolist()
    first.save(tmp_path / "score.json")
    loaded = ScoreRelease.load(tmp_path / "score.json")
    assert loaded == first == client.fetch_release(first.id)
    assert first.verify()


def test_a_reservation_and_a_job_pay_for_a_score(client: CuratorClient) -> None:
    held = client.reserve("cohort", expires_in_s=3600, mu=0.03)
    request = ScoreRequest(["age"], "kappa", directions={"age": [1.0]}, mu=0.02, reservation=held.id)
    release = client.wait(client.submit_release("cohort", request))
    assert isinstance(release, ScoreRelease)
    drawn = client.reservation(held.id).drawn
    assert drawn.mu == pytest.approx(0.02, rel=1e-3)


def test_laplace_noise_is_asked_for(client: CuratorClient) -> None:
    request = ScoreRequest(["age"], "kappa", directions={"age": [1.0]}, epsilon=0.1, mechanism="laplace")
    release = client.release("cohort", request)
    assert release.noise.distribution == "discrete_laplace"
    assert release.noise.score == pytest.approx(2**0.5 / 0.1, rel=1e-3)


def test_what_is_no_term_and_no_target_of_the_loss_is_refused(client: CuratorClient) -> None:
    with pytest.raises(RequestInvalidError, match="the features make no term 'weight'"):
        client.quote("cohort", ScoreRequest(["age"], "kappa", directions={"weight": [1.0]}, mu=0.02))
    with pytest.raises(RequestInvalidError, match="the logistic loss is of a boolean"):
        client.quote("cohort", ScoreRequest(["age"], "kappa", loss="logistic", directions={"age": [1.0]}, mu=0.02))
