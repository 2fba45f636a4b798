"""One key is one charge and one answer: however often the answer is lost, whatever else is sent under the key."""

from typing import Any

import pytest
from deployments import ANALYSTS, Caller, Deployment, ball, box
from proxies import LosingProxy

from analyst_client import CuratorClient

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

RESERVATION = {"price": {"mu": 0.1}, "expires_in_s": 3600}
LOSSES = 5


@pytest.mark.parametrize("content", [box(), ball()], ids=["at_once", "reserved_first"])
def test_five_lost_answers_cost_one_charge_and_the_sixth_has_the_same_bytes(
    town: Deployment, content: dict[str, Any]
) -> None:
    path = town.open_account("lost")
    server = town.serve()
    with LosingProxy(server.port, LOSSES) as proxy, Caller(proxy.url, town.tokens[ANALYSTS[0]]) as caller:
        answer = caller.insist(f"{path}/releases", content, "the-key")
    assert answer.status_code == 201
    assert answer.headers["curator-answer"] == "replayed"
    assert [lost.partition(b"\r\n\r\n")[2] for lost in proxy.lost] == [answer.content] * LOSSES
    assert len(town.audit("lost").charges) == 1


def test_the_analysts_client_pays_once_for_an_answer_that_is_lost_again_and_again(town: Deployment) -> None:
    dataset = town.open_account("lost").rpartition("/")[2]
    server = town.serve()
    with LosingProxy(server.port, 3) as proxy:
        with CuratorClient(proxy.url, town.tokens[ANALYSTS[0]], memory=None) as client:
            bought = client.release(dataset, ["age", "sex"], target="kappa", mu=0.01, rows="box", even_so=True)
        with CuratorClient(server.url, town.tokens[ANALYSTS[0]], memory=None) as client:
            again = client.release(dataset, ["age", "sex"], target="kappa", mu=0.01, rows="box", even_so=True)
    assert proxy.losses == 0
    assert again.id == bought.id
    assert len(town.audit("lost").charges) == 1


def test_a_lost_reservation_is_held_once(town: Deployment) -> None:
    path = town.open_account("lost")
    server = town.serve()
    with LosingProxy(server.port, LOSSES) as proxy, Caller(proxy.url, town.tokens[ANALYSTS[0]]) as caller:
        answer = caller.insist(f"{path}/reservations", RESERVATION, "the-key")
    assert answer.status_code == 201
    assert [lost.partition(b"\r\n\r\n")[2] for lost in proxy.lost] == [answer.content] * LOSSES
    books = town.audit("lost", settled=False)
    assert [row[0] for row in books.reservations] == [answer.json()["id"]]
