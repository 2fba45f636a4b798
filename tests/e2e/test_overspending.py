"""Many customers and a budget for a hundred of them: exactly a hundred are served, however they race.

``CURATOR_TEST_ROUNDS`` sets how often the race is run, and lets two workers of one uvicorn serve it, as the product is
served, in place of two servers that start faster; 20 is the full claim.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from customers import read_record
from deployments import ANALYSTS, Deployment, ball, box, two_workers
from patience import scaled

from curator_service.privacy.accountant import Price
from curator_service.privacy.conversions import UNITS_PER_ONE

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("CURATOR_TEST_ROUNDS", "0"))
CUSTOMERS, GRANTED = 8, 100
# A lease of product length: nobody is taken for dead because the machine is busy.
CALM = {"CURATOR_LEASE_S": "15"}


@contextmanager
def served(town: Deployment) -> Iterator[list[str]]:
    """Serve a town from two workers; yield the addresses to ask."""
    if not ROUNDS:
        yield [town.serve(**CALM).url for _ in range(2)]
        return
    environment = town.service_environment | CALM
    with two_workers(town.process_factory, "faulty:create_app", environment, town.folder / "workers.log") as url:
        yield [url]


def price_of(town: Deployment, url: str, path: str, content: dict[str, Any]) -> int:
    """Return what a request costs, in units."""
    token = town.tokens[ANALYSTS[0]]
    answer = httpx.post(f"{url}{path}/quotes", json=content, headers={"Authorization": f"Bearer {token}"}, verify=False)
    return int(answer.json()["cost"]["units"])


def race(
    town: Deployment, urls: list[str], name: str, content: dict[str, Any], cost: int, granted: int = GRANTED
) -> Counter[tuple[int, str]]:
    """Open a budget for some requests, let customers ask at once for four times as many, and count the answers."""
    path = town.open_account(name, Price(rho=(granted + 0.5) * cost / UNITS_PER_ONE / 2))
    start_at = time.time() + scaled(0.5)
    buyers = []
    for i in range(CUSTOMERS):
        record = town.folder / f"{name}-{i}.record"
        arguments = {
            "url": urls[i % len(urls)],
            "token": town.tokens[ANALYSTS[i % len(ANALYSTS)]],
            "path": f"{path}/releases",
            "content": content,
            "keys": [f"{name}-{i}-{j}" for j in range(granted * 4 // CUSTOMERS)],
            "start_at": start_at,
            "record": str(record),
        }
        log = town.folder / f"{name}-{i}.log"
        buyers.append((town.process_factory.fork("customers:buy", arguments, {}, log), record))
    for child, _ in buyers:
        assert child.wait(300) == 0, child.text
    return Counter((sold.status, sold.slug) for _, record in buyers for sold in read_record(record))


def test_of_four_hundred_requests_for_a_hundred_exactly_a_hundred_are_granted(
    town: Deployment, record_property: Callable[[str, object], None]
) -> None:
    rounds = {
        "at_once": (box(), max(1, ROUNDS), GRANTED),
        "reserved_first": (ball(), max(1, ROUNDS // 4), GRANTED if ROUNDS else GRANTED // 5),
    }
    with served(town) as urls:
        for kind, (content, count, granted) in rounds.items():
            cost = price_of(town, urls[0], town.open_account(f"priced_{kind}"), content)
            for i in range(count):
                name = f"{kind}_{i}"
                outcome = race(town, urls, name, content, cost, granted)
                assert outcome[201, ""] <= granted, f"the charges exceed the limit: {outcome}"
                assert outcome == {(201, ""): granted, (409, "budget-exceeded"): 3 * granted}
                books = town.audit(name)
                assert (len(books.charges), books.posted, books.pending) == (granted, granted * cost, 0)
            record_property(kind, count)
