"""Recorded sessions with a real curator. They run offline, and give the same answers each time.

The notebooks of docs/notebooks and the analyst's lines of README.md run on them.

>>> client = recorded_client()
>>> client.quote("flchain", **REQUEST, epsilon=1.0).affordable
True
"""

import csv
import json
from pathlib import Path
from typing import Any

import httpx

from analyst_client.client import CuratorClient
from analyst_client.kinds.gram.release import Release

HERE = Path(__file__).parent
ANSWERS, RELEASE, KEY, EXACT, HELD_OUT = (
    HERE / name for name in ("answers.json", "release.json", "curator-key.txt", "exact.json", "held_out.csv")
)
PAPER, PAPER_KEY, PAPER_EXACT = (HERE / name for name in ("paper.json", "paper-key.txt", "paper_exact.json"))
SESSIONS = {"first_fit": (ANSWERS, KEY), "paper": (PAPER, PAPER_KEY)}
"""By the name of their notebook: what was answered, and the curator's key."""
ADDRESS = "https://curator.example"
REQUEST: dict[str, Any] = {
    "features": ["age", "sex", "creatinine", "lambda"],
    "target": "kappa",
    "rows": "box",
    "delta": 1e-6,
}


class Recorded(httpx.BaseTransport):
    """Answer requests from a file. Of several answers to one request each is given in its turn, and the last again."""

    def __init__(self, path: Path = ANSWERS) -> None:
        self.answers: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next answer to a request. Raise `httpx.ConnectError` for one that was never asked."""
        asked = describe(request)
        found = [answer for answer in self.answers if answer["request"] == asked]
        if not found:
            raise httpx.ConnectError("only what was recorded can be asked here", request=request)
        if len(found) > 1:
            self.answers.remove(found[0])
        return httpx.Response(found[0]["status"], headers=found[0]["headers"], text=found[0]["text"])


def describe(request: httpx.Request) -> dict[str, Any]:
    """Return what an answer depends on: no token, no idempotency key."""
    body = json.loads(request.content) if request.content else None
    return {"method": request.method, "path": request.url.path, "body": body}


def recorded_client(session: str = "first_fit") -> CuratorClient:
    """Return a client of a recorded curator. It asks nobody, trusts the curator's own key, and remembers nothing.

    Parameters
    ----------
    session : str
        The name of a notebook: ``"first_fit"`` or ``"paper"``.
    """
    answers = Recorded(SESSIONS[session][0])
    return CuratorClient(ADDRESS, "a-token", key=curator_key(session), memory=None, max_attempts=1, transport=answers)


def curator_key(session: str = "first_fit") -> str:
    """Return the recorded curator's public key, as it would have come by another way than from the server."""
    return SESSIONS[session][1].read_text(encoding="utf-8").strip()


def paper_exact() -> dict[str, Any]:
    """Return what no analyst has: the figures of the notebook ``paper`` from the rows themselves."""
    found: dict[str, Any] = json.loads(PAPER_EXACT.read_text(encoding="utf-8"))
    return found


def exact_release() -> Release:
    """Return what no analyst has: the statistics of the curator's rows without noise, to compare with."""
    return Release.load(EXACT)


def held_out() -> dict[str, list[Any]]:
    """Return the columns of 1,319 people of the cohort whom the curator never saw, in raw units."""
    with HELD_OUT.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {name: [row[j] if name == "sex" else float(row[j]) for row in rows] for j, name in enumerate(header)}
