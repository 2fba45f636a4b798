"""The price of a refinement that ends before it is done: what keeps it, what gives it back, and who finds it again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import scaled
from scenes import Gate
from served_worlds import serve_world
from support import World, client_of, make_rows, open_population, open_world

from analyst_client import (
    BudgetExceededError,
    CuratorClient,
    CuratorError,
    EstimationError,
    RequestInvalidError,
    TransportError,
)
from analyst_client.errors import (
    AuthenticationError,
    JobVoidedError,
    PermissionDeniedError,
    PermitNeededError,
    ReservationEndedError,
    ServiceError,
    ServiceUnavailableError,
)
from analyst_client.refinement import Refinement, RefinementRules, holding
from curator_service.privacy.accountant import Price
from curator_service.privacy.samplers import Distribution

PRICE = 4.0
RULES = RefinementRules(looks=(0.05, 0.1), enough=None, grams=1, steps=4)
CALL: dict[str, Any] = {"target": "kappa", "mu": PRICE, "expected_rows": 80, "rules": RULES}
WHOLE = PRICE**2


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A budget of one and a half prices: none is left where one is held or spent twice."""
    with open_world(tmp_path, limit=Price(mu=PRICE * 1.5**0.5)) as opened:
        yield opened


def refine(client: CuratorClient, **changes: Any) -> Refinement:
    return client.refine("cohort", ["age"], **CALL | changes)


def account(client: CuratorClient) -> tuple[float, float]:
    """Return µ² that is posted, and that is held."""
    budget = client.budget("cohort")
    assert budget.posted.mu is not None
    assert budget.pending.mu is not None
    return budget.posted.mu**2, budget.pending.mu**2


def fails_at(client: CuratorClient, step: int, error: BaseException) -> None:
    """Let the client fail once, before it sends anything of a step; each ends with what is read under its key."""
    real, read, errors = client.release, [], [error]

    def release(dataset: str, request: Any, **key: Any) -> Any:
        if len(read) == step - 1 and errors:
            raise errors.pop()
        read.extend(key)
        return real(dataset, request, **key)

    client.release = release  # type: ignore[method-assign, assignment]


def interrupt(world: World, step: int = 4) -> tuple[str, list[str]]:
    """Interrupt a refinement, and return what it held, with the ids of what it bought."""
    client = client_of(world)
    fails_at(client, step, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        refine(client)
    (held,) = client.reservations()
    assert held.id in caught.value.__notes__[0]
    assert account(client)[1] > 0.0
    return held.id, [summary.id for summary in client.releases("cohort")]


KEPT = [
    KeyboardInterrupt(),
    TransportError("no answer"),
    SystemExit(1),
    AuthenticationError("the token has ended"),
    ServiceUnavailableError("busy"),
    JobVoidedError("the work ended before it was finished"),
    ServiceError("it failed", status=500),
    RequestInvalidError("slower", slug="too-many-requests", status=429),
    OSError("no room"),
]
GIVEN_BACK = [
    ValueError("a wrong number"),
    PermitNeededError("none", status=403),
    np.linalg.LinAlgError("singular"),
    KeyError("age"),
    EstimationError("not determined"),
    RequestInvalidError("too long", slug="request-invalid", status=422),
    PermissionDeniedError("an analyst only", status=403),
    ServiceError("malformed answer", status=None),
    BudgetExceededError("none is left", status=409),
]


class Drawn:
    """Normal noise of the scales that are asked."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        return [round(self.generator.normal() * scale) for scale in scales]


def name_of_error(value: object) -> str:
    return f"{type(value).__name__}-{getattr(value, 'status', None)}"


@pytest.mark.parametrize("error", [*KEPT, *GIVEN_BACK], ids=name_of_error)
def test_a_failure_that_the_same_call_would_meet_again_is_told_from_one_that_passes(error: BaseException) -> None:
    assert holding.recurs(error) is (error in GIVEN_BACK)


class TestEnds:
    @pytest.mark.parametrize("error", KEPT[:2], ids=name_of_error)
    def test_an_interruption_keeps_the_price_for_the_same_call(self, world: World, error: BaseException) -> None:
        client = client_of(world)
        fails_at(client, 3, error)
        with pytest.raises(type(error)) as caught:
            refine(client)
        (held,) = client.reservations()
        (note,) = caught.value.__notes__
        assert f"client.close_reservation({held.id!r})" in note
        posted, pending = account(client)
        assert posted + pending == pytest.approx(WHOLE, rel=1e-6)
        refine(client_of(world))
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    @pytest.mark.parametrize("error", GIVEN_BACK[:2], ids=name_of_error)
    def test_what_the_same_call_would_meet_again_gives_the_rest_back(self, world: World, error: BaseException) -> None:
        client = client_of(world)
        fails_at(client, 3, error)
        with pytest.raises(type(error)) as caught:
            refine(client)
        assert "was given back" in caught.value.__notes__[-1]
        assert list(client.reservations()) == []
        posted, pending = account(client)
        assert 0.0 < posted < WHOLE / 2.0
        assert pending == 0.0
        refine(client_of(world))  # and once its cause is gone the same call goes on
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_a_failure_that_cannot_give_back_says_so(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        client = client_of(world)
        fails_at(client, 3, ValueError("wrong"))
        monkeypatch.setattr(client, "close_reservation", lambda _: (_ for _ in ()).throw(TransportError("gone")))
        with pytest.raises(ValueError, match="wrong") as caught:
            refine(client)
        assert "could not be closed: gone" in caught.value.__notes__[0]
        assert len(client.reservations()) == 1

    def test_a_lost_answer_to_the_reservation_is_named_too(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        client, real = client_of(world), CuratorClient.reserve

        def lose(*asked: Any, **options: Any) -> Any:
            real(client, *asked, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(client, "reserve", lose)
        with pytest.raises(KeyboardInterrupt) as caught:
            refine(client)
        assert "the same call finds it" in caught.value.__notes__[0]
        refine(client_of(world))
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_a_rest_that_cannot_be_given_back_at_the_end_loses_nothing_that_was_bought(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = client_of(world)
        monkeypatch.setattr(client, "close_reservation", lambda _: (_ for _ in ()).throw(TransportError("gone")))
        with pytest.warns(UserWarning, match="could not be closed"):
            assert refine(client).releases


class TestAgain:
    def test_it_goes_on_where_it_stopped(self, world: World) -> None:
        held, bought = interrupt(world)
        client = client_of(world)
        found = refine(client)
        assert [release.id for release in found.releases][: len(bought)] == bought
        assert client.reservation(held).state == "closed"
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    @pytest.mark.parametrize("ends", ["closed", "expired"])
    def test_after_its_reservation_has_ended_the_rest_alone_is_held(self, world: World, ends: str) -> None:
        held, bought = interrupt(world)
        client = client_of(world)
        if ends == "closed":
            assert client.close_reservation(client.reservations()[0]).state == "closed"
        else:
            world.clock.advance(seconds=holding.HELD_S)
        rest = WHOLE - account(client)[0]
        fails_at(client, len(bought) + 2, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            refine(client)
        (other,) = [one for one in client.reservations() if one.id != held]
        assert client.reservation(other.id).reserved.mu == pytest.approx(rest**0.5, rel=1e-9)
        refine(client_of(world))  # and that one is found, too
        assert client.reservation(other.id).state == "closed"
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_a_refinement_outlives_its_reservation(self, world: World) -> None:
        client, read, began = client_of(world), [], world.clock.moment
        real = client.release

        def release(dataset: str, request: Any, **key: Any) -> Any:
            if len(read) == 3 and world.clock.moment == began:
                world.clock.advance(seconds=holding.HELD_S)
            read.extend(key)
            return real(dataset, request, **key)

        client.release = release  # type: ignore[method-assign, assignment]
        refine(client)
        assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_one_that_was_completed_is_free_for_everybody_and_holds_nothing(self, world: World) -> None:
        texts = [release.text for release in refine(client_of(world)).releases]
        before = len(world.entries())
        for who in ("ada", "ben"):  # half of the price is left
            assert [release.text for release in refine(client_of(world, who)).releases] == texts
        assert len(world.entries()) == before
        with pytest.raises(BudgetExceededError) as caught:
            refine(client_of(world), mu=PRICE * 1.01)
        assert "client.reservations()" in caught.value.__notes__[0]
        dear = client_of(world).quote_refinement("cohort", ["age"], **CALL | {"mu": PRICE * 1.01})
        assert not dear.affordable
        assert any("client.reservations()" in note for note in dear.notes)

    def test_another_call_has_a_reservation_of_its_own(self, world: World) -> None:
        held, _ = interrupt(world, 3)
        client = client_of(world)
        client.close_reservation(held)
        fails_at(client, 3, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            refine(client, expected_rows=81)
        (other,) = client.reservations()
        assert client.reservation(other.id).reserved.mu == pytest.approx(PRICE)  # the whole: nothing of it was spent

    def test_steps_that_are_not_those_that_were_bought_are_refused_where_nothing_is_left(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refine(client_of(world))
        monkeypatch.setattr(RefinementRules, "score_shares", lambda *_, **__: {"score": 0.9, "norms": 0.1})
        with pytest.raises(BudgetExceededError) as caught:
            refine(client_of(world))
        assert "another version of the library" in caught.value.__notes__[0]
        assert account(client_of(world)) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_a_dearer_one_of_the_same_model_changes_no_step_of_it(self, tmp_path: Path) -> None:
        with open_world(tmp_path, limit=Price(mu=20.0), noise=Drawn()) as world:
            client = client_of(world)
            bought = refine(client, mu=2.0).releases
            fails_at(client, 5, KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                refine(client, mu=3.0)
            refine(client_of(world, "ben"), mu=8.0)
            again = client_of(world)
            assert [one.id for one in refine(again, mu=2.0).releases] == [one.id for one in bought]
            refine(again, mu=3.0)
            assert account(again) == pytest.approx((4.0 + 9.0 + 64.0, 0.0), rel=1e-6)

    def test_a_step_that_is_cancelled_after_the_rest_was_given_back_is_bought_again(self, tmp_path: Path) -> None:
        gate = Gate()
        with open_world(tmp_path, limit=Price(mu=PRICE * 1.5**0.5), noise=gate) as world:
            client = client_of(world)
            gate.opened.set()
            real, read = client.release, []

            def release(dataset: str, request: Any, **key: Any) -> Any:
                if len(read) == 2 and not key:
                    gate.opened.clear()
                    client.submit_release(dataset, request)
                    raise KeyboardInterrupt
                read.extend(key)
                return real(dataset, request, **key)

            client.release = release  # type: ignore[method-assign, assignment]
            with pytest.raises(KeyboardInterrupt):
                refine(client)
            (held,), (job,) = client.reservations(), client.jobs()
            client.close_reservation(held)
            assert client.cancel(job).state == "cancelled"
            gate.opened.set()
            assert client.reservation(held.id).drawn.mu == pytest.approx(account(client)[0] ** 0.5, rel=1e-6)
            refine(client_of(world))
            assert account(client) == pytest.approx((WHOLE, 0.0), rel=1e-6)

    def test_one_that_is_given_stays_open(self, world: World) -> None:
        client = client_of(world)
        given = client.reserve("cohort", expires_in_s=600, mu=PRICE)
        fails_at(client, 3, ValueError("wrong"))
        with pytest.raises(ValueError, match="wrong") as caught:
            refine(client, reservation=given.id)
        assert "which you gave" in caught.value.__notes__[0]
        refine(client, reservation=given.id)
        assert client.reservation(given.id).state == "open"
        client.close_reservation(given)
        with pytest.raises(ReservationEndedError):
            refine(client, reservation=given.id, mu=1.0)


def test_an_account_that_counts_in_rho_is_held_and_goes_on_alike(world: World) -> None:
    open_population(world.curator, "lake", Price(rho=WHOLE * 0.55), accountant="zcdp")
    world.grant("ada", world.register("shore", "lake", make_rows(80, seed=3)))
    client, call = client_of(world), {name: value for name, value in CALL.items() if name != "mu"}
    fails_at(client, 4, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        client.refine("shore", ["age"], rho=WHOLE / 2.0, **call)
    client.close_reservation(client.reservations()[0])
    client_of(world).refine("shore", ["age"], rho=WHOLE / 2.0, **call)
    budget = client.budget("shore")
    assert budget.posted.rho == pytest.approx(WHOLE / 2.0, rel=1e-6)
    assert budget.pending.rho == 0.0


def test_a_project_pays_for_all_of_it_and_finds_its_own_reservation(world: World) -> None:
    world.permit()
    client = client_of(world)
    fails_at(client, 4, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        refine(client, project="kidney")
    (held,) = client.reservations()
    assert held.project == "kidney"
    found = refine(client_of(world), project="kidney")
    assert {release.receipt["project"] for release in found.releases if release.receipt is not None} == {"kidney"}
    assert client.reservation(held.id).state == "closed"


def test_the_key_is_of_all_that_decides_the_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def tell(*_: Any, idempotency_key: str, **__: Any) -> Any:
        keys.append(idempotency_key)
        raise KeyboardInterrupt

    def ask(client: CuratorClient, features: list[str], **options: Any) -> None:
        monkeypatch.setattr(client, "reserve", tell)
        with pytest.raises(KeyboardInterrupt):
            client.refine("cohort", features, **CALL | options)

    client = client_of(world)
    for _ in range(2):
        ask(client_of(world), ["age"])
    assert len(set(keys)) == 1
    changes: list[dict[str, Any]] = [
        {"mu": 3.0},
        {"mu": None, "epsilon": 1.0, "delta": 1e-6},
        {"expected_rows": 200},
        {"where": "age > 60"},
        {"rules": RefinementRules(clip=4.0)},
        {"target": "alive", "family": "binomial", "rules": None},
    ]
    for change in changes:
        ask(client, ["age"], **change)
    ask(client, ["age", "weight"])
    monkeypatch.setattr(holding, "__version__", "9.9")
    ask(client, ["age"])
    assert len(set(keys)) == 1 + len(changes) + 2


def test_open_jobs_and_reservations_are_listed(tmp_path: Path) -> None:
    gate = Gate()
    with open_world(tmp_path, noise=gate, limit=Price(mu=9.0)) as world:
        client = client_of(world)
        held = client.reserve("cohort", expires_in_s=600, mu=1.0)
        job = client.submit_release("cohort", ["age"], target="kappa", rows="ball", mu=2.0)
        try:
            gate.await_entry()
            (listed,) = client.jobs()
            assert (listed.id, listed.holder, listed.expires_at) == (job.id, "ada", None)
            assert listed.remaining.mu == pytest.approx(2.0, rel=1e-6)
            assert client.job(listed).is_running
            assert "job_" in str(client.jobs())
            (open_one,) = client.reservations()
            assert (open_one.id, open_one.expires_at) == (held.id, held.expires_at)
            assert list(client_of(world, "ben").reservations()) == list(client_of(world, "ben").jobs()) == []
        finally:
            gate.opened.set()
        client.wait(listed)
        client.close_reservation(open_one)
        assert list(client.jobs()) == list(client.reservations()) == []


REFINE = """
import json, sys
from analyst_client import CuratorClient
from analyst_client.refinement import RefinementRules
asked = json.load(sys.stdin)
client = CuratorClient(asked["url"], asked["token"], memory=None)
real = client.release
def release(*given, **key):
    found = real(*given, **key)
    if key:
        print(found.id, flush=True)
    return found
client.release = release
client.refine("cohort", ["age"], **asked["call"], rules=RefinementRules(**asked["rules"]))
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    with serve_world(tmp_path_factory.mktemp("held"), limit=Price(mu=5.0)) as found:
        yield found


@pytest.fixture
def connect(served: tuple[World, str]) -> Iterator[Callable[[], CuratorClient]]:
    world, url = served
    with ExitStack() as stack:
        yield lambda: stack.enter_context(CuratorClient(url, world.tokens["ada"], memory=None))


def test_the_same_call_goes_on_after_the_process_was_killed(
    served: tuple[World, str], connect: Callable[[], CuratorClient]
) -> None:
    client, (world, url) = connect(), served
    before = account(client)
    call = {name: value for name, value in CALL.items() if name != "rules"} | {"mu": 3.0}
    asked = json.dumps({"url": url, "token": world.tokens["ada"], "call": call, "rules": asdict(RULES)})
    with subprocess.Popen([sys.executable, "-c", REFINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked.encode())
        process.stdin.close()
        bought = [process.stdout.readline().decode().strip() for _ in range(4)]
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(scaled(20)) == -signal.SIGKILL
    (held,) = client.reservations()
    assert held.remaining.mu is not None
    assert held.remaining.mu > 1.0
    with pytest.raises(CuratorError):  # no other study has room beside it
        client.reserve("cohort", expires_in_s=60, mu=4.5)
    found = refine(client, mu=3.0)
    assert [release.id for release in found.releases][:4] == bought
    assert client.reservation(held.id).state == "closed"
    assert np.subtract(account(client), before) == pytest.approx((9.0, 0.0), rel=1e-6)


def test_a_call_that_the_same_one_overtakes_reads_what_that_one_bought(
    served: tuple[World, str], connect: Callable[[], CuratorClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had reserved, and the other one gave the rest of the same reservation back."""
    before, honest, ahead = account(connect()), holding.Holding._buy, list[Any]()

    def late(self: Any, asked: Any) -> Any:
        if not ahead:
            ahead.append(None)
            ahead[0] = connect().refine("cohort", ["weight"], **CALL | {"mu": 1.5})
        return honest(self, asked)

    monkeypatch.setattr(holding.Holding, "_buy", late)
    found = connect().refine("cohort", ["weight"], **CALL | {"mu": 1.5})
    assert [release.id for release in found.releases] == [release.id for release in ahead[0].releases]
    assert np.subtract(account(connect()), before) == pytest.approx((2.25, 0.0), rel=1e-6)


def test_two_processes_that_make_the_same_call_at_once_pay_once(
    served: tuple[World, str], connect: Callable[[], CuratorClient]
) -> None:
    before, entries = account(connect()), len(served[0].entries())
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(
            lambda client: client.refine("cohort", ["weight"], **CALL | {"mu": 2.5}), [connect(), connect()]
        )
        one, other = both
    assert [release.id for release in one.releases] == [release.id for release in other.releases]
    assert np.subtract(account(connect()), before) == pytest.approx((6.25, 0.0), rel=1e-6)
    made = [entry for entry in served[0].entries()[entries:] if entry["kind"] == "reserve"]
    assert len([entry for entry in made if entry["reservation"].startswith("res_")]) == 1
