"""Quotes of a refinement before a hold: its steps, impossible ones, and its progress; and jobs of it."""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import World, client_of, open_world

from analyst_client import CuratorClient
from analyst_client.errors import AnswerSpaceError
from analyst_client.refinement import GeneralizedRules, RefinementRules, practice
from analyst_client.refinement.progress import Progress
from analyst_client.terms import col, log, poly
from curator_service.privacy.accountant import Price

FIXED = RefinementRules(enough=None, grams=1, steps=4)
"""The number of their steps does not follow from what is told."""
CALL: dict[str, Any] = {"target": "kappa", "mu": 0.5, "expected_rows": 5000, "rules": FIXED}
NUMBERS = 70
WIDE: list[tuple[str, str, str, tuple[Any, ...], str | None]] = [
    ("site", "categorical", "complete", tuple(f"s{i}" for i in range(70)), None),
    *((f"x{i}", "numeric", "complete", (0.0, 10.0), None) for i in range(NUMBERS)),
    ("y", "numeric", "complete", (0.0, 10.0), None),
]


def spent(client: CuratorClient) -> tuple[float | None, float | None]:
    budget = client.budget("cohort")
    return budget.posted.mu, budget.pending.mu


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("quotes"), limit=Price(mu=30.0)) as opened:
        generator = np.random.default_rng(1)
        rows = [
            {"site": f"s{k % 70}"} | {name: repr(float(generator.uniform(0, 10))) for name, *_ in WIDE[1:]}
            for k in range(100)
        ]
        opened.grant("ada", opened.register("wide", "town", rows, columns=WIDE))
        yield opened


@pytest.fixture
def client(world: World) -> CuratorClient:
    return client_of(world)


TOO_LARGE = {"levels": ["site", "x1"], "numbers": [f"x{i}" for i in range(NUMBERS)]}


class TestTooLarge:
    @pytest.mark.parametrize("features", TOO_LARGE.values(), ids=TOO_LARGE)
    def test_what_cannot_work_is_refused_before_anything_is_held(
        self, client: CuratorClient, features: list[str]
    ) -> None:
        before = spent(client)
        for ask in (client.quote_refinement, client.refine):
            with pytest.raises(
                ValueError, match="at most 64 terms, the constant among them, and these features make 71"
            ):
                ask("wide", features, target="y", mu=4.0, expected_rows=300)
        assert spent(client) == before
        assert list(client.reservations()) == []

    def test_as_many_features_as_it_says_do_work(self, client: CuratorClient, monkeypatch: Any) -> None:
        monkeypatch.setattr(practice, "BODY_MAX", 5000)
        features, options = [f"x{i}" for i in range(20)], CALL | {"target": "y"}
        for ask in (client.quote_refinement, client.refine):
            with pytest.raises(
                ValueError, match=r"at most 5,000 bytes, and this one may take .* of these 20"
            ) as caught:
                ask("wide", features, **options)
        fits = int(str(caught.value).rpartition("The first ")[2].split()[0])
        assert 5 < fits < 20
        assert client.quote_refinement("wide", features[:fits], **options).steps
        with pytest.raises(ValueError, match="at most 5,000 bytes"):
            client.quote_refinement("wide", features[: fits + 1], **options)

    def test_answers_that_there_is_no_room_for_are_refused(self, client: CuratorClient, monkeypatch: Any) -> None:
        before, real = spent(client), CuratorClient.quote

        def quote(*asked: Any, **options: Any) -> Any:
            found = real(client, *asked, **options)
            vars(found)["answer_bytes_left"] = 20_000
            return found

        monkeypatch.setattr(client, "quote", quote)
        for ask in (client.quote_refinement, client.refine):
            with pytest.raises(AnswerSpaceError, match="the curator stores 20,000 more"):
                ask("cohort", ["age"], **CALL)
        assert spent(client) == before


class TestQuote:
    def test_it_says_steps_times_and_lengths_and_reads_no_row(self, client: CuratorClient) -> None:
        before = spent(client)
        quote = client.quote_refinement("cohort", ["age", "sex"], **CALL)
        grams = [step.kind for step in quote.steps].count("gram")
        assert grams >= 1
        assert len(quote.steps) > len(RefinementRules().looks) + 4
        assert sum(step.share for step in quote.steps) == pytest.approx(1.0)
        assert quote.duration_s == sum(step.duration_s for step in quote.steps)
        assert quote.terms == ("age", "sex[M]", "sex[X]")
        assert np.all(quote.half_lengths > quote.without_privacy)
        # Without privacy: 1.96 √((1 − R²) VIF/n) for a deviation of the target; half of it is explained.
        assert quote.without_privacy[0] == pytest.approx(1.96 * np.sqrt(0.5 * 1.05 / 5000), rel=0.06)
        assert quote.cost.mu == pytest.approx(0.5)
        assert quote.affordable
        assert spent(client) == before
        text = str(quote)
        assert f"{len(quote.steps)}: {len(quote.steps) - grams} score, {grams} gram" in text
        assert "5,000 made-up rows" in text

    def test_what_is_expected_is_about_what_other_rows_are_told(self, client: CuratorClient) -> None:
        options = CALL | {"mu": 1.0, "rules": None}
        half = [client.quote_refinement("cohort", ["age", "sex"], **options | {"expected_rows": n}) for n in (2e3, 8e3)]
        lengths = half[0].half_lengths / half[1].half_lengths
        assert np.all((lengths > 1.8) & (lengths < 3.0))  # √4, and more where noise counts
        dear = client.quote_refinement("cohort", ["age", "sex"], **options | {"mu": 20.0, "expected_rows": 8e3})
        assert dear.half_lengths == pytest.approx(dear.without_privacy, rel=0.15)

    @pytest.mark.parametrize(
        ("features", "options"),
        [
            (["age", "sex"], {"target": "alive", "family": "binomial", "rules": GeneralizedRules()}),
            (["age"], {"family": "poisson", "rules": None}),
            ([poly("age", 2), log(col("weight")), "region"], {}),
            (["age"], {"where": "height > 150", "mu": None, "epsilon": 1.0, "delta": 1e-6}),
        ],
        ids=["binomial", "poisson", "terms", "epsilon"],
    )
    def test_any_model_is_practised_to_its_end(self, client: CuratorClient, features: Any, options: Any) -> None:
        refining = client._read_refinement("cohort", features, CALL | options)  # type: ignore[typeddict-item]
        assert refining.practise().refinement is not None
        assert np.isfinite(client.quote_refinement("cohort", features, **CALL | options).without_privacy).all()

    def test_an_offset_is_no_term_and_features_stand_in_the_order_of_the_call(self, client: CuratorClient) -> None:
        options = {"family": "poisson", "offset": "log(weight)", "rules": None, "mu": 5.0}
        quote = client.quote_refinement("cohort", ["sex", "age"], **CALL | options)
        other = client.quote_refinement("cohort", ["age", "sex"], **CALL | options)
        assert quote.terms == ("sex[M]", "sex[X]", "age")
        assert np.isfinite(quote.half_lengths).all()
        assert quote.half_lengths == pytest.approx(other.half_lengths[[1, 2, 0]])
        assert quote.without_privacy == pytest.approx(other.without_privacy[[1, 2, 0]])

    def test_made_up_rows_that_fail_are_no_reason_to_refuse(self, client: CuratorClient, monkeypatch: Any) -> None:
        monkeypatch.setattr(practice.MadeUpRows, "answer", lambda *_: 1 / 0)
        assert np.isinf(client.quote_refinement("cohort", ["age"], **CALL).half_lengths).all()
        assert client.refine("cohort", ["age"], **CALL).found.frame is not None

    def test_it_says_what_was_bought_and_what_is_too_little(self, client: CuratorClient) -> None:
        client.refine("cohort", ["weight"], **CALL)
        assert any("was bought before" in note for note in client.quote_refinement("cohort", ["weight"], **CALL).notes)
        bounded = client.quote_refinement("cohort", ["weight"], **CALL)
        for n_mu, warned in ((7.0, True), (20.0, False)):
            assert any("without ends" in note for note in replace(bounded, n_mu=n_mu).notes) is warned
        little = client.quote_refinement("cohort", ["weight"], **CALL | {"mu": 1e-4})
        assert {step.kind for step in little.steps} == {"score"}
        assert "no interval is expected to have an end" in " ".join(little.notes)


class Terminal:
    """Standard error as a terminal."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        self.text, self.isatty = "", lambda: is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing waits."""


class TestProgress:
    def test_a_terminal_shows_steps_cost_and_time(self, client: CuratorClient, monkeypatch: Any) -> None:
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        found = client.refine("cohort", ["height"], **CALL | {"mu": 0.51})
        lines = [line.strip() for line in shown.text.split("\r") if line.strip()]
        steps = len(found.releases)
        assert any(re.search("step 7 of [0-9]+, [0-9]+% of the price spent, about", line) for line in lines)
        assert lines[-1].startswith(f"refining kappa: done, {steps} steps in ")
        assert shown.text.endswith("\n")
        assert max(map(len, shown.text.replace("\n", "").split("\r"))) < 80

    def test_it_is_silent_elsewhere_and_where_it_is_turned_off(self, client: CuratorClient, monkeypatch: Any) -> None:
        for shown, progress in ((Terminal(is_terminal=False), True), (Terminal(), False)):
            monkeypatch.setattr(sys, "stderr", shown)
            client.refine("cohort", ["height"], **CALL | {"mu": 0.51}, progress=progress)
            assert shown.text == ""

    def test_a_notebook_shows_one_line_below_its_cell(self, monkeypatch: Any) -> None:
        shown: list[str] = []
        handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle["text/plain"]))

        def display(bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
            shown.append(bundle["text/plain"])
            return handle

        shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
        progress = Progress("kappa", show=True)
        progress.begin()
        progress.expect(
            [practice.Step("score", 0.25, 100.0, 1, 1, False), practice.Step("gram", 0.75, 20.0, 1, 1, False)]
        )
        progress.end(0.25)
        progress.begin()
        progress.close(done=False)
        assert shown == [
            "refining kappa: step 1, 0% of the price spent",
            "refining kappa: step 1 of 2, 0% of the price spent, about 2 min left",
            "refining kappa: step 2 of 2, 25% of the price spent, about 20 s left",
            "refining kappa: step 2 of 2, 25% of the price spent, about 20 s left: ended early",
        ]


class TestBackground:
    def test_a_job_is_asked_waited_for_and_done(self, client: CuratorClient) -> None:
        job = client.submit_refinement("cohort", ["age"], **CALL | {"mu": 0.52})
        found = job.result()
        assert job.done
        assert found.found.frame is not None
        assert repr(job) == "<RefinementJob done>"
        assert job.cancel() is False
        assert list(client.reservations()) == []

    def test_a_cancelled_one_gives_back_the_rest(self, world: World, client: CuratorClient) -> None:
        before, real, entered, opened = spent(client), client.release, Event(), Event()
        read: list[str] = []

        def release(dataset: str, request: Any, **key: Any) -> Any:
            if len(read) == 2 and not key:
                entered.set()
                assert opened.wait(60.0)
            read.extend(key)
            return real(dataset, request, **key)

        client.release = release  # type: ignore[method-assign, assignment]
        job = client.submit_refinement("cohort", ["age"], **CALL | {"mu": 0.53})
        assert entered.wait(60.0)
        assert "step 3 of 1" in repr(job)
        with pytest.raises(TimeoutError):
            job.result(timeout_s=0.01)
        assert len(client_of(world).reservations()) == 1
        opened.set()
        assert job.cancel() is True
        assert len(read) <= 4  # the step that was being taken, or the next
        with pytest.raises(CancelledError):
            job.result()
        assert list(client.reservations()) == []
        (posted, pending), (posted_before, _) = spent(client), before
        assert pending == 0.0
        assert posted is not None
        assert posted_before is not None
        assert 0.0 < posted**2 - posted_before**2 < 0.53**2 / 2.0
        client_of(world).refine("cohort", ["age"], **CALL | {"mu": 0.53})
        assert spent(client)[0] == pytest.approx(np.hypot(posted_before, 0.53), rel=1e-6)

    def test_what_is_wrong_is_said_at_once(self, client: CuratorClient) -> None:
        with pytest.raises(ValueError, match="one target"):
            client.submit_refinement("cohort", ["age"], mu=1.0)
        with pytest.raises(TypeError, match="cutt"):
            client.submit_refinement("cohort", ["age"], cutt=1.0)  # type: ignore[call-arg]
