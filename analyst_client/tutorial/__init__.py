"""Recorded sessions with a real curator. They run offline, and give the same answers each time.

The notebooks of docs/notebooks and the analyst's lines of README.md run on them.

>>> client = recorded_client()
>>> client.quote("flchain", **REQUEST, epsilon=1.0).affordable
True
"""

import base64
import csv
import gzip
import json
from pathlib import Path
from typing import Any

import httpx

from analyst_client.admin import CuratorAdmin
from analyst_client.client import CuratorClient
from analyst_client.kinds.gram.release import Release

HERE = Path(__file__).parent
ANSWERS, RELEASE, KEY, EXACT, HELD_OUT = (
    HERE / name for name in ("answers.json", "release.json", "curator-key.txt", "exact.json", "held_out.csv")
)
PAPER, PAPER_KEY, PAPER_EXACT = (HERE / name for name in ("paper.json", "paper-key.txt", "paper_exact.json"))
ONE_CALL, ONE_CALL_KEY = HERE / "one_call.json.gz", HERE / "one-call-key.txt"
METHODS, METHODS_KEY = HERE / "methods.json.gz", HERE / "methods-key.txt"
ADMINISTRATION = HERE / "administration.json.gz"
SESSIONS = {
    "first_fit": (ANSWERS, KEY),
    "paper": (PAPER, PAPER_KEY),
    "one_call": (ONE_CALL, ONE_CALL_KEY),
    "methods": (METHODS, METHODS_KEY),
    "administration": (ADMINISTRATION, METHODS_KEY),
}
"""By the name of their notebook, or for the examples of docstrings: what was answered, and the curator's key."""
ADDRESS = "https://curator.example"
REQUEST: dict[str, Any] = {
    "features": ["age", "sex", "creatinine", "lambda"],
    "target": "kappa",
    "rows": "box",
    "delta": 1e-6,
}


NEAR = 1e-6
"""Relative difference of two numbers of a request that are the same: other machines round in other last digits."""


class Recorded(httpx.BaseTransport):
    """Answer requests from a file. Of several answers to one request each is given in its turn, and the last again."""

    def __init__(self, path: Path = ANSWERS) -> None:
        whole = path.read_bytes()
        self.answers: list[dict[str, Any]] = json.loads(gzip.decompress(whole) if path.suffix == ".gz" else whole)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the next answer to a request. Raise `httpx.ConnectError` for one that was never asked."""
        asked = describe(request)
        found = [k for k, answer in enumerate(self.answers) if is_same(answer["request"], asked)]
        if not found:
            raise httpx.ConnectError("only what was recorded can be asked here", request=request)
        answer = self.take(found, request)
        content = base64.b64decode(answer["base64"]) if "base64" in answer else answer["text"].encode()
        return httpx.Response(answer["status"], headers=answer["headers"], content=content)

    def take(self, found: list[int], request: httpx.Request) -> dict[str, Any]:
        """Return the next of several answers by their places, each once but for the last."""
        return self.answers.pop(found[0]) if len(found) > 1 else self.answers[found[0]]


def describe(request: httpx.Request) -> dict[str, Any]:
    """Return what an answer depends on: no token, no idempotency key."""
    body = json.loads(request.content) if request.content else None
    return {"method": request.method, "path": request.url.path, "body": body}


def is_same(one: Any, other: Any) -> bool:
    """Return whether two requests are the same, but for the last digits of what was computed."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= NEAR * max(abs(one), abs(other)) + (isinstance(one, int) and abs(one) > 1000)
    return bool(one == other)


def recorded_client(session: str = "first_fit") -> CuratorClient:
    """Return a client of a recorded curator. It asks nobody, trusts the curator's own key, and remembers nothing.

    Parameters
    ----------
    session : str
        The name of a notebook: ``"first_fit"``, ``"paper"`` or ``"one_call"``. Or ``"methods"``, which answers what the
        examples of docstrings ask.

    Examples
    --------
    >>> client = recorded_client("one_call")
    >>> fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    >>> fit.coef_.round(2).tolist()
    [0.02, -0.07, 1.05]
    """
    answers = Recorded(SESSIONS[session][0])
    return CuratorClient(ADDRESS, "a-token", key=curator_key(session), memory=None, max_attempts=1, transport=answers)


def recorded_admin() -> CuratorAdmin:
    """Return a privacy officer's side of the recorded curator of ``"methods"``.

    Examples
    --------
    >>> len(recorded_admin().list_keys())
    1
    """
    return CuratorAdmin(ADDRESS, "a-token", transport=Recorded(ADMINISTRATION))


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
