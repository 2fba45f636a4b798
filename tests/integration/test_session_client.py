"""Threshold sessions by the client: what is asked, what is verified, and how sure an answer is."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support import World, ZeroNoise, client_of, open_world
from test_versions import cut

from analyst_client import CuratorClient
from analyst_client.errors import RequestInvalidError, SessionEndedError
from analyst_client.schema.sessions import SessionTerms
from analyst_client.terms import col
from analyst_client.thresholds import ThresholdSession, missed
from curator_service.privacy.accountant import Price


@pytest.fixture
def rich(tmp_path: Any) -> Iterator[World]:
    """Return a world with a budget for loud sessions."""
    with open_world(tmp_path, limit=Price(mu=8.0)) as world:
        yield world


def test_a_session_is_asked_and_closed(rich: World) -> None:
    with client_of(rich) as client:
        terms = client.threshold_terms("cohort", positives=2, epsilon=2.0)
        spent = client.budget("cohort").posted.units
        with client.threshold_session("cohort", positives=2, epsilon=2.0) as session:
            assert session.opened.cost == terms.cost
            assert session.above(10_000) is False
            assert session.above(-0.0 + 0.0, where=col("age") >= 50) is True
            assert session.positives_left == 1
            assert [one.is_positive for one in session.history().questions] == [False, True]
        assert client.budget("cohort").posted.units == spent + session.opened.cost.units
        with pytest.raises(SessionEndedError):
            session.above(5)


def test_a_model_is_watched_and_columns_are_screened(rich: World) -> None:
    with client_of(rich) as client, client.threshold_session("cohort", positives=3, epsilon=3.0) as session:
        assert session.misses("kappa", {"age": 0.0}, bound=10.0, threshold=60) is False
        assert session.misses("kappa", {"age": 10.0}, bound=1.0, threshold=20, where="age > 500") is False
        assert session.misses("kappa", {"age": 10.0}, bound=1.0, threshold=20) is True
        asked = {"nobody": col("age") > 200, "everybody": col("age") >= 0, "more": col("kappa") >= 0}
        assert session.screen(asked, 20)[0] in {"everybody"}


def test_a_lost_answer_is_fetched_by_its_key(rich: World) -> None:
    with client_of(rich) as client, client.threshold_session("cohort", positives=2, epsilon=1.0) as session:
        first = session.ask(40, direction="above", idempotency_key="q")
        assert session.ask(40, direction="above", idempotency_key="q") is first
        assert session.answers[0] == session.answers[1]


def test_each_version_is_watched_once_and_paid_once(rich: World) -> None:
    """Whoever watches again, in another process, too, gets the same answers and pays nothing."""
    rich.noise = ZeroNoise()
    questions = {"far": missed("kappa", {"age": 0.0}, bound=5.9), "near": missed("kappa", {"age": 0.0}, bound=0.1)}
    changed = questions | {"far": missed("kappa", {"age": 0.0}, bound=5.8)}

    def watch(client: CuratorClient, name: str = "kappa of 2026", asked: Any = questions, epsilon: float = 0.5) -> Any:
        return client.watch_model(name, "cohort", asked, 60, epsilon=epsilon)

    with client_of(rich) as client, client_of(rich) as other:
        first, spent = watch(client), [client.budget("cohort").posted.units]
        assert re.fullmatch(r"(.+)% of the budget for each version \(epsilon 0\.5 alone\), .*", first.price(12))
        shares = [float(one) for one in re.findall(r"([\d.]+)%", first.price(12))]
        assert shares == pytest.approx([shares[0], 12 * shares[0], 100.0], abs=0.1)
        assert client.budget("cohort").posted.units == spent[0]
        for version in (1, 2):
            (*_, found) = first.run()
            assert (found.version, found.answers) == (version, {"far": False, "near": True})
            spent.append(client.budget("cohort").posted.units)
            assert [*watch(other).run()] == [found]
            assert first.run()[-1] is found
            for wrong in (watch(other, asked=changed), watch(other, epsilon=0.4)):
                with pytest.raises(RequestInvalidError, match="key"):
                    wrong.run()
            assert client.budget("cohort").posted.units == spent[-1]
            cut(rich)
        cost = client.threshold_terms("cohort", positives=1, epsilon=0.5).cost.units
        assert [after - before for before, after in pairwise(spent)] == [cost, cost]
        assert len(first.history) == 2
        assert watch(client, "another").run()[0].session not in {one.session for one in first.history}
        assert client.budget("cohort").posted.units == spent[-1] + (cost or 0)
    assert rich.curator.ledger.verify("town").ok


def test_a_watch_that_was_interrupted_goes_on_in_its_session(rich: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rich.noise = ZeroNoise()
    questions = {"many": col("age") > 200, "all": col("age") >= 0}
    with client_of(rich) as client:
        with monkeypatch.context() as patched:
            answered = iter([False])
            patched.setattr(ThresholdSession, "above", lambda *_, **__: next(answered))
            with pytest.raises(StopIteration):
                client.watch_model("w", "cohort", questions, 60, epsilon=0.5).run()
        spent = client.budget("cohort").posted.units
        (found,) = client.watch_model("w", "cohort", questions, 60, epsilon=0.5).run()
        assert found.answers == {"many": False, "all": True}
        assert client.budget("cohort").posted.units == spent


@pytest.mark.simulations
@pytest.mark.parametrize(("questions", "positives"), [(1, 1), (20, 1), (200, 5)])
def test_answers_are_right_as_often_as_the_accuracy_says(questions: int, positives: int) -> None:
    """Numbers exactly α away: the worst number of those above the threshold has β of the runs with a wrong answer."""
    scale, step, beta, runs = 2.0, 1, 0.1, 20_000
    rng = np.random.default_rng(questions)
    noise = {"threshold_scale": int(scale * 1000), "question_scale": int(2 * positives * scale * 1000), "step": step}
    terms = SessionTerms("d", "p", "above", positives, sensitivity=1, pure_epsilon=1.0, cost=None, **noise)  # type: ignore[arg-type]
    alpha = terms.accuracy(questions, beta)
    rho = rng.laplace(scale=noise["threshold_scale"], size=runs)
    nu = rng.laplace(scale=noise["question_scale"], size=(runs, questions))
    shares = []
    for above in range(min(positives, questions) + 1):
        is_above = np.arange(questions) < above
        margin = np.where(is_above, alpha, -alpha)
        shares.append(((margin + nu - rho[:, np.newaxis] >= 0) != is_above).any(axis=1).mean())
    assert abs(max(shares) - beta) <= 3 * math.sqrt(beta * (1 - beta) / runs)


@pytest.mark.parametrize("ratio", [1e-3, 0.079, 0.5, 2.0, 100.0])
@pytest.mark.parametrize("beta", [0.3, 1e-9, 1e-30])
def test_the_accuracy_of_one_question_has_its_law_at_any_ratio_and_chance(ratio: float, beta: float) -> None:
    """The difference of two Laplace noises exceeds α by a chance in closed form."""
    terms = SessionTerms("d", "p", "above", 5, 2**30, 2**30, round(ratio * 2**50), 2**50, 1.0, None)  # type: ignore[arg-type]
    alpha = terms.accuracy(1, beta) * terms.step / terms.question_scale
    wrong = (ratio**2 * math.exp(-alpha / ratio) - math.exp(-alpha)) / (2 * (ratio**2 - 1))
    assert math.log(wrong) == pytest.approx(math.log(beta), rel=1e-4)


def test_the_accuracy_of_many_answers_is_finite_and_grows_as_the_chance_falls() -> None:
    terms = SessionTerms("d", "p", "any", 1_000, 2**30, 2**30, round(0.079 * 2**50), 2**50, 1.0, None)  # type: ignore[arg-type]
    found = [terms.accuracy(10**6, beta) for beta in (1e-3, 1e-6, 1e-9, 1e-12)]
    steps = np.diff(found) * terms.step / terms.question_scale
    assert steps == pytest.approx(math.log(1e3), rel=1e-2), found
