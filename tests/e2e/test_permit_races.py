"""Many requests around the instant in which a permit ends, or its limit is lowered: nothing is charged after it.

``CURATOR_TEST_REQUESTS`` sets how many there are; 100,000 is the full claim (`make races`).
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployments import AMPLE, ANALYSTS, Caller, Deployment, box
from ledger_books import LedgerBooks
from patience import scaled
from planned_requests import question, session

from curator_service.kit.clock import timestamp

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

REQUESTS = int(os.environ.get("CURATOR_TEST_REQUESTS", "2000"))
CUSTOMERS = 8
CALM = {"CURATOR_LEASE_S": "15"}
PERMITTED = {"project": "kidney", "purpose": "kidneys", "legal_basis": "consent", "reason": "a race"}


def permit(town: Deployment, dataset: str, **terms: Any) -> str:
    """Let all analysts use a dataset for a project."""
    people = [town.full(analyst) for analyst in ANALYSTS]
    granted = town.world.permit(people=people, datasets=[dataset], **terms)
    town.world.curator.database.dispose()
    return granted


def start(town: Deployment, urls: list[str], path: str, start_at: float) -> list[tuple[Any, Path]]:
    """Send customers who buy from an instant on, each for a project: releases, sessions, or answers of one session."""
    buyers, project = [], {"project": "kidney"}
    for i in range(CUSTOMERS):
        url, token = urls[i % len(urls)], town.tokens[ANALYSTS[i % len(ANALYSTS)]]
        with Caller(url, token) as caller:
            opened = caller.insist(f"{path}/sessions", session(**project), "before").json()
        wishes = (
            (f"{path}/releases", box(**project)),
            (f"{path}/sessions", session(**project)),
            (f"/v1/sessions/{opened['id']}/questions", question(0)),
        )
        record = town.folder / f"{path.rpartition('/')[2]}-{i}.record"
        arguments = {
            "url": url,
            "token": token,
            "path": wishes[i % 3][0],
            "content": wishes[i % 3][1],
            "keys": [f"{path}-{i}-{j}".replace("/", "_") for j in range(REQUESTS // CUSTOMERS)],
            "start_at": start_at,
            "record": str(record),
        }
        log = record.with_suffix(".log")
        buyers.append((town.process_factory.fork("customers:buy_across", arguments, {}, log), record))
    return buyers


def await_all(buyers: list[tuple[Any, Path]]) -> list[tuple[float, int, str]]:
    """Return when each request was sent, and how it ended."""
    for child, _ in buyers:
        assert child.wait(scaled(120) + REQUESTS) == 0, child.text
    lines = (line for _, record in buyers for line in record.read_text(encoding="utf-8").splitlines())
    return [tuple(json.loads(line)) for line in lines]


def count_answers(books: LedgerBooks) -> int:
    """Return how many there are of releases, sessions and their questions, but for the sessions that were there."""
    return len(books.charges) + len(books.sessions) + len(books.questions) - CUSTOMERS


def test_nothing_is_charged_after_the_end_of_a_permit(
    town: Deployment, record_property: Callable[[str, object], None]
) -> None:
    path = town.open_account("ending", AMPLE)
    urls = [town.serve(**CALM).url for _ in range(2)]
    begin = time.time() + scaled(1)
    # Half of what it takes, by what a request took when it was looked at last; later, where the machine is slow.
    end = int(begin + scaled(1) + REQUESTS / 600)
    permit(town, path.rpartition("/")[2], expires_at=timestamp(datetime.fromtimestamp(end, UTC)))
    sold = await_all(start(town, urls, path, begin))
    outcome = Counter((status, slug) for _, status, slug in sold)
    assert outcome.keys() == {(201, ""), (403, "permit-expired")}, outcome
    assert max(sent for sent, status, _ in sold if status == 201) < end
    books = town.audit("ending")
    assert count_answers(books) == outcome[201, ""]
    assert books.pending == 0
    record_property("outcome", str(outcome))


def test_nothing_is_charged_beyond_a_limit_that_was_lowered_meanwhile(
    town: Deployment, record_property: Callable[[str, object], None]
) -> None:
    path = town.open_account("lowered", AMPLE)
    dataset = path.rpartition("/")[2]
    granted = permit(town, dataset)
    servers = [town.serve(**CALM) for _ in range(2)]
    begin = time.time() + scaled(1)
    buyers = start(town, [server.url for server in servers], path, begin)
    time.sleep(max(0.0, begin - time.time()) + scaled(0.5))
    officer = {"Authorization": f"Bearer {town.world.tokens['olga']}"}
    people, terms = [town.full(analyst) for analyst in ANALYSTS], {"expires_at": "2099-01-01T00:00:00Z"}
    asked = PERMITTED | terms | {"people": people, "datasets": [dataset]}
    state = None
    while state != "applied":  # on a slow machine more than twice is spent before the limit is set
        spent = town.look("lowered").posted
        lowered = httpx.post(
            f"{servers[0].url}/v1/permits/{granted}",
            json=asked | {"limit": {"mu": (2 * spent / 1e12) ** 0.5}},
            headers=officer,
            timeout=scaled(60),
        )
        state = lowered.json().get("state")
        assert state == "applied" or lowered.json()["type"] == "/problems/limit-conflict", lowered.text
    outcome = Counter((status, slug) for _, status, slug in await_all(buyers))
    assert outcome.keys() == {(201, ""), (409, "budget-exceeded")}, outcome
    books = town.audit("lowered")
    assert (count_answers(books), books.posted <= 2 * spent) == (outcome[201, ""], True)
    record_property("outcome", str(outcome))
