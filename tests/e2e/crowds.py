"""Customers in processes of their own who buy without a break, and the settling of their accounts afterwards."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from customers import Submission, read_record
from deployments import ANALYSTS, Caller, Deployment, Server, ball, box, describe
from ledger_books import LedgerBooks
from planned_requests import COUNTED, question, session
from process_factory import Child

PATIENCE_S = 60.0


class Crowd:
    """Customers who buy all kinds for some seconds, each from its own server.

    Parameters
    ----------
    town : Deployment
    servers : sequence of Server
    path : str
        Of the dataset.
    seconds : float
    count : int
        How many customers.
    """

    def __init__(self, town: Deployment, servers: Sequence[Server], path: str, seconds: float, count: int = 4) -> None:
        self.town = town
        self._running: list[tuple[str, Child, Path]] = []
        self._answered: set[int] = set()
        kinds = [box(), ball(), box(fresh=False), ball(price={"mu": 0.02}, fresh=False)]
        for i, analyst in enumerate(ANALYSTS[:count]):
            with town.call(servers[i % len(servers)], analyst) as caller:
                opened = caller.insist(f"{path}/sessions", session(), "before").json()
            self._answered.add(opened["receipt"]["sequence"])
            requests = [(f"{path}/releases", kind) for kind in kinds]
            requests += [(f"{path}/sessions", session()), (f"/v1/sessions/{opened['id']}/questions", question(1))]
            record, log = town.folder / f"crowd-{i}.record", town.folder / f"crowd-{i}.log"
            arguments = {
                "url": servers[i % len(servers)].url,
                "token": town.tokens[analyst],
                "planned_requests": requests,
                "prefix": f"crowd-{i}",
                "seconds": seconds,
                "record": str(record),
            }
            child = town.process_factory.fork("customers:buy_until_cut_off", arguments, {}, log)
            self._running.append((analyst, child, record))

    def count_served(self) -> int:
        """Return how many requests were answered so far."""
        records = [record for _, _, record in self._running if record.is_file()]
        return sum(submission.status == 201 for record in records for submission in read_record(record))

    def settle(self, server: Server, population: str) -> tuple[list[Submission], LedgerBooks]:
        """Wait for the customers, ask again with every key, and audit.

        Every answer that came must come again in the same bytes, every other key must be answered now, and nothing may
        be charged beside.
        """
        sent = []
        for analyst, child, record in self._running:
            assert child.wait(120) == 0, child.text
            with self.town.call(server, analyst) as caller:
                for submission in read_record(record):
                    sent.append(submission)
                    self._answered.add(self._ask_again(caller, submission))
        books = self.town.audit(population)
        found = {entry["sequence"] for entry in books.entries if entry["kind"] in COUNTED}
        assert self._answered == found, "an answer belongs to nobody of the crowd"
        return sent, books

    @staticmethod
    def _ask_again(caller: Caller, submission: Submission) -> int:
        assert submission.status in {0, 200, 201, 409, 503}, submission
        answer = caller.insist(submission.path, submission.content, submission.key, within_s=PATIENCE_S)
        assert answer.status_code in {200, 201}, describe(answer)
        if submission.status in {200, 201}:
            assert hashlib.sha256(answer.content).hexdigest() == submission.digest, submission.key
        return int(answer.json()["receipt"]["sequence"])
