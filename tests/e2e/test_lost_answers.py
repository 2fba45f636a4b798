"""One key is one charge and one answer: however often the answer is lost, whatever else is sent under the key."""

import pytest
from deployments import ANALYSTS, Caller, Deployment
from planned_requests import (
    WishMaker,
    asked_question,
    ball_release,
    box_release,
    opened_session,
    reservation,
)
from proxies import LosingProxy

from analyst_client import CuratorClient

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

LOSSES = 5
LOST = (box_release, ball_release, reservation, opened_session, asked_question)


@pytest.mark.parametrize("make_wish", LOST, ids=lambda wish: wish.__name__)
def test_five_lost_answers_cost_one_charge_and_the_sixth_has_the_same_bytes(
    town: Deployment, make_wish: WishMaker
) -> None:
    path = town.open_account("lost")
    server = town.serve()
    with town.call(server) as caller:
        wish = make_wish(path, caller)
    with LosingProxy(server.port, LOSSES) as proxy, Caller(proxy.url, town.tokens[ANALYSTS[0]]) as caller:
        answer = wish.insist(caller, 1)
    assert wish.kind != "charge" or answer.headers["curator-answer"] == "replayed"
    assert [lost.partition(b"\r\n\r\n")[2] for lost in proxy.lost] == [answer.content] * LOSSES
    wish.check(town.audit("lost", settled=False), 1, "")


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


def test_the_analysts_client_asks_once_whose_answers_are_lost_again_and_again(town: Deployment) -> None:
    dataset = town.open_account("lost").rpartition("/")[2]
    server = town.serve()
    with (
        LosingProxy(server.port, 2, "/sessions") as proxy,
        CuratorClient(proxy.url, town.tokens[ANALYSTS[0]], memory=None) as client,
        client.threshold_session(dataset, positives=9, epsilon=0.1, direction="above") as session,
    ):
        for number in (1, 2):
            proxy.losses = 2
            session.above(10**6)
            assert session.answers[-1].number == number
        proxy.losses = 2
    assert (proxy.losses, len(proxy.lost)) == (0, 8)
    books = town.audit("lost")
    assert [entry["kind"] for entry in books.entries[-4:]] == ["session", "answer", "answer", "close"]
