"""A part of the budget held for a study, and releases paid from it."""

from typing import Any

import httpx
import pytest
from client_examples import AMOUNT, QUOTE, Curator, Ledger, ask, compact, problem, released

from analyst_client import CuratorClient, TransportError
from analyst_client.errors import (
    LedgerForkedError,
    ReceiptInvalidError,
    ReservationEndedError,
    ReservationNotFoundError,
)
from analyst_client.schema import Reservation

ID = "res_0123456789abcdef01234567"
PRICE: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def reserved(ledger: Ledger | None = None, answer: str | None = None, **changes: Any) -> httpx.Response:
    payload = {"units": "56000000000", "expires_at": "2026-02-01T00:00:00Z"}
    receipt = (ledger or Ledger()).post(kind="reserve", reservation=ID, **payload)
    members: dict[str, Any] = {
        "id": ID,
        "dataset": "flchain",
        "population": "olmsted",
        "state": "open",
        "reserved": AMOUNT,
        "drawn": AMOUNT | {"units": "0", "mu": 0.0, "rho": 0.0, "epsilon": 0.0},
        "remaining": AMOUNT,
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-02-01T00:00:00Z",
        "project": None,
        "receipt": receipt,
    }
    headers = {} if answer is None else {"Curator-Answer": answer}
    return httpx.Response(201, content=compact(members | changes), headers=headers)


def reserve(client: CuratorClient, **changes: Any) -> Reservation:
    return client.reserve("flchain", **PRICE | {"expires_in_s": 3600} | changes)


def highest(client: CuratorClient) -> int:
    return client._session.trust.memory.refresh().highest["olmsted"].sequence


def test_reservation_is_asked_for_and_read() -> None:
    curator = Curator(reserved(project="kidney"))
    reservation = reserve(curator.client(), project="kidney", idempotency_key="mine")
    assert curator.requests[0].url.path == "/v1/datasets/flchain/reservations"
    assert curator.bodies == [{"price": PRICE, "expires_in_s": 3600, "project": "kidney"}]
    assert curator.keys == ["mine"]
    assert (reservation.id, reservation.state, reservation.project) == (ID, "open", "kidney")
    assert (reservation.reserved.units, reservation.drawn.units, reservation.remaining.mu) == (
        56_000_000_000,
        0,
        0.2367,
    )
    assert (reservation.population, reservation.expires_at) == ("olmsted", "2026-02-01T00:00:00Z")


def test_project_that_is_not_given_is_not_sent() -> None:
    curator = Curator(reserved())
    reserve(curator.client())
    assert "project" not in curator.bodies[0]


@pytest.mark.parametrize("price", [{"mu": 0.1}, {"rho": 0.01}, {"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-6}])
def test_amount_is_stated_in_any_notion(price: dict[str, float]) -> None:
    curator = Curator(reserved())
    curator.client().reserve("flchain", expires_in_s=60, **price)
    assert curator.bodies[0]["price"] == price


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": None, "delta": None}, "state one cost"),
        ({"mu": 0.1}, "state one cost"),
        ({"epsilon": None, "mu": 0.1}, "delta goes with epsilon"),
        ({"expires_in_s": 60.5}, "whole number"),
        ({"expires_in_s": True}, "whole number"),
        ({"idempotency_key": "with space"}, "idempotency_key"),
    ],
)
def test_contradiction_is_refused_before_anything_is_sent(changes: dict[str, Any], message: str) -> None:
    curator = Curator()
    with pytest.raises(ValueError, match=message):
        reserve(curator.client(), **changes)
    assert curator.requests == []


def test_entry_of_a_reservation_is_remembered_and_sent_back() -> None:
    ledger = Ledger()
    curator = Curator(reserved(ledger), released(ledger.release()))
    client = curator.client()
    reserve(client)
    assert highest(client) == 12
    ask(client)
    assert [found and found["sequence"] for found in curator.checkpoints] == [None, 12]
    assert highest(client) == 13


@pytest.mark.parametrize(
    "receipt",
    [
        {"format": 1},
        Ledger().post() | {"units": "1"},
        Ledger().post() | {"signature": Ledger(40).post()["signature"]},
        Ledger().post() | {"note": None},
        Ledger(population="town").post(),
        {},
    ],
    ids=range(6),
)
def test_receipt_that_does_not_hold_is_refused_and_the_reservation_kept(receipt: dict[str, Any]) -> None:
    client = Curator(reserved(receipt=receipt)).client()
    with pytest.raises(ReceiptInvalidError) as caught:
        reserve(client, idempotency_key="mine")
    assert (caught.value.reservation.id, caught.value.idempotency_key) == (ID, "mine")
    assert client._session.trust.memory.refresh().highest == {}


def test_new_reservation_below_what_was_seen_is_a_fork() -> None:
    client = Curator(Ledger(20).budget, reserved(Ledger(7), "new"), reserved(Ledger(7), "replayed")).client()
    client.budget("flchain")
    with pytest.raises(LedgerForkedError) as caught:
        reserve(client)
    assert caught.value.reservation is not None
    assert reserve(client).id == ID


def test_reservation_is_read_again_and_closed() -> None:
    ledger = Ledger()
    curator = Curator(reserved(ledger), reserved(ledger, state="closed"))
    client = curator.client()
    assert client.reservation(ID).state == "open"
    assert client.close_reservation(ID).state == "closed"
    assert [request.method for request in curator.requests] == ["GET", "DELETE"]
    assert {request.url.path for request in curator.requests} == {f"/v1/reservations/{ID}"}
    assert highest(client) == 13


def test_closing_whose_answer_was_lost_is_no_error() -> None:
    curator = Curator(httpx.ReadTimeout, problem("reservation-ended", 409), reserved(state="closed"))
    assert curator.client().close_reservation(ID).state == "closed"


def test_refusals_have_their_errors() -> None:
    curator = Curator(problem("reservation-not-found", 404), problem("reservation-ended", 409), reserved())
    client = curator.client()
    with pytest.raises(ReservationNotFoundError):
        client.reservation(ID)
    with pytest.raises(ReservationEndedError):
        client.close_reservation(ID)


def test_lost_answer_keeps_the_key() -> None:
    with pytest.raises(TransportError, match="may have been charged") as caught:
        reserve(Curator(httpx.ReadTimeout).client(max_attempts=1), idempotency_key="mine")
    assert caught.value.idempotency_key == "mine"


@pytest.mark.parametrize("named", [{}, {"project": "kidney"}, {"reservation": ID}, {"project": "a", "reservation": ID}])
def test_release_and_quote_name_who_pays(named: dict[str, str]) -> None:
    curator = Curator(released(), httpx.Response(200, content=compact(QUOTE)), released(answer="stored"))
    client = curator.client()
    ask(client, **named)
    client.quote("flchain", ["age", "sex"], target="kappa", rows="box", **PRICE, **named)
    client.submit_release("flchain", ["age", "sex"], target="kappa", **PRICE, **named)
    for body in curator.bodies:
        assert {name: body[name] for name in ("project", "reservation") if name in body} == named


@pytest.mark.parametrize(
    "payload",
    [
        {"kind": "charge"},
        {"reservation": "res_000000000000000000000000"},
        {"units": "1"},
        {"expires_at": "2027-02-01T00:00:00Z"},
    ],
)
def test_receipt_of_something_else_is_not_that_of_a_reservation(payload: dict[str, Any]) -> None:
    right = {"kind": "reserve", "reservation": ID, "units": "56000000000", "expires_at": "2026-02-01T00:00:00Z"}
    with pytest.raises(ReceiptInvalidError, match="states another"):
        reserve(Curator(reserved(receipt=Ledger().post(**right | payload))).client())
