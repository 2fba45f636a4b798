"""Two curators at once, over sockets: reserved at both before anything is bought at either."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_worlds import serve_world
from support import ZeroNoise

from analyst_client import BudgetExceededError, CuratorClient, Curators, EmpiricalBayes, Release, TransportError
from curator_service.privacy.accountant import Price

ASKED: dict[str, Any] = {"target": "kappa", "epsilon": 0.3, "delta": 1e-6}


class Wire(httpx.BaseTransport):
    """Carries requests, and loses the answers of those it is told to."""

    def __init__(self) -> None:
        self.real = httpx.HTTPTransport()
        self.sent: list[tuple[str, str]] = []
        self.lose = ""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((request.method, request.url.path))
        response = self.real.handle_request(request)
        if self.lose and request.method == "POST" and request.url.path.endswith(self.lose):
            response.read()
            raise httpx.ReadError("lost")
        return response

    def close(self) -> None:
        self.real.close()

    def posted(self, ending: str) -> int:
        return sum(method == "POST" and path.endswith(ending) for method, path in self.sent)


@contextmanager
def open_towns(folder: Path) -> Iterator[tuple[Curators, dict[str, Wire]]]:
    """Serve two curators: the second has a budget of half a release."""
    wires = {"north": Wire(), "south": Wire()}
    exact = {"noise": ZeroNoise()}  # how fits weigh sites follows from noise as it is stated, and from what was drawn
    with (
        serve_world(folder / "north", **exact) as north,
        serve_world(folder / "south", limit=Price(mu=0.06), **exact) as south,
    ):
        clients = {
            name: CuratorClient(url, world.tokens["ada"], memory=None, transport=wires[name], max_attempts=1)
            for name, (world, url) in {"north": north, "south": south}.items()
        }
        with Curators(clients) as curators:
            yield curators, wires


@pytest.fixture
def towns(tmp_path: Path) -> Iterator[tuple[Curators, dict[str, Wire]]]:
    with open_towns(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Curators, dict[str, Wire]]]:
    with open_towns(tmp_path_factory.mktemp("towns")) as opened:
        yield opened


@pytest.fixture
def untouched(shared_towns: tuple[Curators, dict[str, Wire]]) -> Iterator[tuple[Curators, dict[str, Wire]]]:
    """Return two curators for a test that leaves them as they are."""
    curators, wires = shared_towns
    for wire in wires.values():
        wire.sent.clear()
    yield curators, wires
    assert spent(curators, "north") == spent(curators, "south") == (0.0, 0.0)


def spent(curators: Curators, name: str) -> tuple[float, float]:
    budget = curators.clients[name].budget("cohort")
    return budget.share_spent, budget.pending.rho or 0.0


def test_a_plan_quotes_everywhere_and_spends_nothing(untouched: tuple[Curators, dict[str, Wire]]) -> None:
    curators, _ = untouched
    plan = curators.plan("cohort", ["age", "sex"], **ASKED)
    assert list(plan.quotes) == ["north", "south"]
    assert not plan.is_affordable
    assert "not affordable" in repr(plan)
    assert spent(curators, "north") == spent(curators, "south") == (0.0, 0.0)


def test_nothing_is_bought_anywhere_when_one_curator_refuses(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], **ASKED)
    with pytest.raises(BudgetExceededError) as refusal:
        plan.buy()
    assert "at the curator 'south'" in refusal.value.__notes__
    assert wires["north"].posted("/reservations") == 1
    assert wires["north"].posted("/releases") == wires["south"].posted("/releases") == 0
    assert spent(curators, "north") == (0.0, 0.0)


def test_each_is_asked_what_it_can_afford_and_the_fit_weighs_them(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    assert plan.is_affordable
    releases = plan.buy()
    assert list(releases) == ["north", "south"]
    assert all(isinstance(release, Release) and release.verify() for release in releases.values())
    assert wires["north"].posted("/reservations") == wires["south"].posted("/reservations") == 1
    assert [spent(curators, name)[1] for name in curators.names] == [0.0, 0.0]
    fit = EmpiricalBayes().fit(list(releases.values()))
    north, south = fit.results_[0].equations.weights
    assert north == 1.0
    assert south < 0.5


def test_a_lost_purchase_is_fetched_by_buying_again_and_paid_once(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    wires["south"].lose = "/releases"
    with pytest.raises(TransportError):
        plan.buy()
    assert list(plan.bought) == ["north"]
    wires["south"].lose = ""
    north, south = spent(curators, "north"), plan.quotes["south"].cost.share_of_budget
    releases = plan.buy()
    assert list(releases) == ["north", "south"]
    assert spent(curators, "north") == north
    assert spent(curators, "south")[0] == pytest.approx(south)
    assert wires["north"].posted("/releases") == 1


def test_a_lost_reservation_is_not_held_twice(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    wires["south"].lose = "/reservations"
    with pytest.raises(TransportError):
        plan.buy()
    assert spent(curators, "north") == (0.0, 0.0)
    wires["south"].lose = ""
    assert list(plan.buy()) == ["north", "south"]
    assert spent(curators, "south")[1] == 0.0


def test_a_purchase_lost_and_cancelled_is_fetched_all_the_same(towns: tuple[Curators, dict[str, Wire]]) -> None:
    """What was paid is asked for again by the very same request, although its reservation is closed."""
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, fresh=True, **ASKED)
    wires["south"].lose = "/releases"
    with pytest.raises(TransportError):
        plan.buy()
    wires["south"].lose = ""
    plan.cancel()
    assert list(plan.buy()) == ["north", "south"]
    assert spent(curators, "south") == (pytest.approx(plan.quotes["south"].cost.share_of_budget), 0.0)


def test_a_purchase_that_never_arrived_is_bought_after_cancelling(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    real = wires["south"].handle_request

    def down(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/releases"):
            raise httpx.ConnectError("down")
        return real(request)

    wires["south"].handle_request = down  # type: ignore[method-assign]
    with pytest.raises(TransportError):
        plan.buy()
    wires["south"].handle_request = real  # type: ignore[method-assign]
    plan.cancel()
    assert spent(curators, "south") == (0.0, 0.0)
    assert list(plan.buy()) == ["north", "south"]
    assert spent(curators, "south") == (pytest.approx(plan.quotes["south"].cost.share_of_budget), 0.0)


def test_a_lost_reservation_is_found_and_given_back(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    wires["south"].lose = "/reservations"
    with pytest.raises(TransportError):
        plan.buy(expires_in_s=600)
    wires["south"].lose = ""
    plan.cancel()
    assert spent(curators, "south")[1] == 0.0
    assert list(plan.buy()) == ["north", "south"]


def test_an_interrupt_gives_back_what_is_held(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    real = wires["south"].handle_request

    def stop(request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and request.url.path.endswith("/reservations"):
            raise KeyboardInterrupt
        return real(request)

    wires["south"].handle_request = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        plan.buy()
    wires["south"].handle_request = real  # type: ignore[method-assign]
    assert spent(curators, "north")[1] == 0.0


def test_one_curator_under_two_names_is_refused(untouched: tuple[Curators, dict[str, Wire]]) -> None:
    client = untouched[0].clients["north"]
    with pytest.raises(ValueError, match="under two names"):
        Curators({"a": client, "b": client}).plan("cohort", ["age"], **ASKED)


def test_two_clients_of_one_address_are_one_curator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked: the second would have been charged, and the fit of both refused."""
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_: pytest.fail("nothing is asked"))
    addresses = "http://127.0.0.1:1", "http://127.0.0.1:1/"
    first, second = (CuratorClient(url, "a-token", memory=None) for url in addresses)
    for call in ("plan", "refine"):
        with pytest.raises(ValueError, match="a and b are one curator"):
            getattr(Curators({"a": first, "b": second}), call)("cohort", ["age"], **ASKED)
    with pytest.raises(ValueError, match="a and b are one curator"):
        Curators({"a": first, "b": second}).fit("kappa ~ age", data="cohort", epsilon=1.0, yes=True)


def test_what_is_stored_needs_no_reservation(towns: tuple[Curators, dict[str, Wire]]) -> None:
    curators, wires = towns
    bought = curators.clients["north"].release("cohort", ["age", "sex"], idempotency_key="in-one-step", **ASKED)
    before = spent(curators, "north")
    plan = curators.plan({"north": "cohort"}, ["age", "sex"], **ASKED)
    assert plan.is_affordable
    assert "free" in repr(plan)
    assert plan.buy() == {"north": bought}
    assert wires["north"].posted("/reservations") == 0
    assert spent(curators, "north") == before


def test_a_curator_that_takes_no_reservations_is_bought_from_all_the_same(
    towns: tuple[Curators, dict[str, Wire]], monkeypatch: pytest.MonkeyPatch
) -> None:
    curators, wires = towns

    def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/reservations"):
            body = b'{"type":"/problems/not-found","title":"Not found","status":404,"detail":"no such route"}'
            return httpx.Response(404, content=body, headers={"Content-Type": "application/problem+json"})
        return wires["north"].real.handle_request(request)

    monkeypatch.setattr(wires["north"], "handle_request", refuse)
    plan = curators.plan("cohort", ["age", "sex"], each={"south": {"epsilon": 0.1}}, **ASKED)
    assert list(plan.buy()) == ["north", "south"]
    assert spent(curators, "north")[0] > 0.0


@pytest.mark.parametrize(
    "wrong",
    [{"dataset": {"west": "cohort"}}, {"dataset": "cohort", "each": {"west": {"epsilon": 0.1}}}, {"dataset": {}}],
)
def test_an_unknown_curator_is_refused_before_anything_is_sent(
    untouched: tuple[Curators, dict[str, Wire]], wrong: dict[str, Any]
) -> None:
    curators, wires = untouched
    with pytest.raises(ValueError, match=r"no curator is named west|at least"):
        curators.plan(features=["age"], **wrong, **ASKED)
    assert wires["north"].sent == wires["south"].sent == []


def test_no_curators_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Curators({})
