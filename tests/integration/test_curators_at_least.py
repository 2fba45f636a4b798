"""Several real curators, of which some fail: nothing is charged until enough have granted the budget."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import World, ZeroNoise, carry_to, open_world

from analyst_client import CuratorClient, CuratorError, Curators, TransportError

ASKED: dict[str, Any] = {"target": "kappa", "mu": 0.05}
NAMES = ("north", "south", "west")
QUOTE, RESERVE, BUY = "/quotes", "/reservations", "/releases"


class Wire:
    """Carries requests to a curator, and fails as it is told to: before one arrives, or behind it."""

    def __init__(self, world: World) -> None:
        self.real, self.down, self.lose, self.posted = carry_to(world.api()), "", "", list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        ending = request.url.path[request.url.path.rindex("/") :] if request.method == "POST" else ""
        if self.down and (self.down == "all" or ending == self.down):
            raise httpx.ConnectError("[Errno 111] no way to curator.west.example:8443")
        self.posted += [ending] if ending else []
        answer = self.real.handle_request(request)
        if self.lose and ending == self.lose:
            raise httpx.ReadError("lost")
        return answer


Hospitals = tuple[Callable[..., Curators], dict[str, Wire], dict[str, World]]


@pytest.fixture
def hospitals(tmp_path: Path) -> Iterator[Hospitals]:
    """Return what makes curators of three hospitals, their wires and worlds."""
    with (
        open_world(tmp_path / "north", noise=ZeroNoise()) as north,
        open_world(tmp_path / "south", noise=ZeroNoise()) as south,
        open_world(tmp_path / "west", noise=ZeroNoise()) as west,
    ):
        worlds = dict(zip(NAMES, (north, south, west), strict=True))
        wires = {name: Wire(world) for name, world in worlds.items()}

        def make(at_least: int | None = None) -> Curators:
            return Curators(
                {
                    name: CuratorClient(
                        f"https://curator.{name}.example:8443",
                        world.tokens["ada"],
                        memory=None,
                        max_attempts=1,
                        transport=httpx.MockTransport(wires[name]),
                    )
                    for name, world in worlds.items()
                },
                at_least=at_least,
            )

        yield make, wires, worlds


def spent(worlds: dict[str, World]) -> list[tuple[int, int]]:
    """Return of each hospital the charges that were posted, and the amount that is held."""
    found = []
    for world in worlds.values():
        kinds = [entry["kind"] for entry in world.entries()]
        found.append((kinds.count("charge"), world.account().pending))
    return found


@pytest.mark.parametrize("fails", [QUOTE, RESERVE, BUY])
@pytest.mark.parametrize("how", ["down", "lose"])
def test_enough_hospitals_are_bought_from_whatever_fails_at_another(hospitals: Hospitals, fails: str, how: str) -> None:
    make, wires, worlds = hospitals
    setattr(wires["west"], how, fails)
    plan = make(2).plan("cohort", ["age", "sex"], **ASKED)
    with pytest.warns(UserWarning, match="no release of west"):
        bought = plan.buy()
    assert list(bought) == ["north", "south"]
    assert list(bought.failed) == ["west"]
    told = bought.failed["west"]
    assert isinstance(told, TransportError)
    assert "at the curator 'west'" in str(told)
    assert "example" not in str(told)
    setattr(wires["west"], how, "")
    charged = (1 if (fails, how) == (BUY, "lose") else 0, 0)
    assert [state[0] for state in spent(worlds)] == [1, 1, charged[0]]
    if fails == QUOTE:
        assert "west: failed" in repr(plan)
        return
    again = plan.buy()
    assert (list(again), again.failed) == (list(NAMES), {})
    assert spent(worlds) == [(1, 0)] * 3
    assert wires["north"].posted.count(BUY) == wires["south"].posted.count(BUY) == 1


@pytest.mark.parametrize(("at_least", "down"), [(None, ["west"]), (3, ["west"]), (2, ["south", "west"]), (1, NAMES)])
@pytest.mark.parametrize("fails", [QUOTE, RESERVE])
def test_nothing_is_charged_where_too_few_are_left(
    hospitals: Hospitals, at_least: int | None, down: list[str], fails: str
) -> None:
    make, wires, worlds = hospitals
    for name in down:
        wires[name].down = fails
    with pytest.raises(TransportError, match="at the curator"):
        make(at_least).plan("cohort", ["age", "sex"], **ASKED).buy()
    assert spent(worlds) == [(0, 0)] * 3
    assert not any(BUY in wire.posted for wire in wires.values())


def test_where_a_purchase_fails_nothing_more_is_charged_than_can_be_used(hospitals: Hospitals) -> None:
    make, wires, worlds = hospitals
    plan = make(3).plan("cohort", ["age", "sex"], **ASKED)
    wires["north"].down = BUY
    with pytest.raises(TransportError) as told:
        plan.buy()
    assert "at the curator 'north'" in told.value.__notes__
    assert [state[0] for state in spent(worlds)] == [0, 0, 0]
    wires["north"].down = ""
    assert list(plan.buy()) == list(NAMES)
    assert spent(worlds) == [(1, 0)] * 3


def test_two_that_fail_at_different_steps_are_both_counted_and_named(hospitals: Hospitals) -> None:
    make, wires, worlds = hospitals
    wires["north"].down = QUOTE
    plan = make(2).plan("cohort", ["age", "sex"], **ASKED)
    wires["south"].down = RESERVE
    with pytest.raises(CuratorError) as told:
        plan.buy()
    assert "failed: north, south; at most 1 could be spared" in told.value.__notes__
    assert spent(worlds) == [(0, 0)] * 3


def test_a_hospital_that_holds_nothing_is_asked_first(hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no reservations, so it may refuse yet: then nothing was charged at the others."""
    make, wires, worlds = hospitals
    real = wires["west"].real

    def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith((RESERVE, BUY)):
            slug, status = ("not-found", 404) if request.url.path.endswith(RESERVE) else ("dataset-closed", 409)
            body = f'{{"type":"/problems/{slug}","title":"No","status":{status},"detail":"no"}}'.encode()
            return httpx.Response(status, content=body, headers={"Content-Type": "application/problem+json"})
        return real.handle_request(request)

    monkeypatch.setattr(wires["west"], "real", httpx.MockTransport(refuse))
    with pytest.raises(CuratorError, match="at the curator 'west'"):
        make().plan("cohort", ["age", "sex"], **ASKED).buy()
    assert [state[0] for state in spent(worlds)] == [0, 0, 0]


@pytest.mark.parametrize("at_least", [0, 4, True, 1.5])
def test_a_number_of_hospitals_that_makes_no_sense_is_refused(hospitals: Hospitals, at_least: Any) -> None:
    make, wires, _ = hospitals
    with pytest.raises(ValueError, match="a number of hospitals from 1 to 3"):
        make(at_least)
    with pytest.raises(ValueError, match="at_least is 3, and the plan asks 1: north"):
        make(3).plan({"north": "cohort"}, ["age"], **ASKED)
    assert not wires["north"].posted
