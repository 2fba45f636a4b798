"""Answers of a curator as its wire format has them, and a curator that plays them."""

import hashlib
import json
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from analyst_client import Column, CuratorClient, Noise, Release

TOKEN = "token-with-a-secret-in-it"
URL = "https://curator.example"
AMOUNT = {"units": "56000000000", "mu": 0.2367, "rho": 0.028, "epsilon": 1.0, "delta": 1e-6}
COST = AMOUNT | {"share_of_budget": 0.11}
AGE = {
    "name": "age",
    "type": "numeric",
    "unit": "years",
    "description": "age at enrolment",
    "lower": 50.0,
    "upper": 100.0,
    "missing": "omit",
}
SEX = {"name": "sex", "type": "categorical", "unit": None, "description": "", "levels": ["F", "M"], "missing": "omit"}
DATASET = {
    "name": "flchain",
    "description": "a cohort",
    "population": "olmsted",
    "adjacency": "add_remove",
    "row_capacity": 10_000,
    "rows_per_person": 1,
    "rows": None,
    "columns": [AGE, SEX],
    "kinds": ["gram"],
    "row_maps": ["box", "ball"],
    "accountant": "gdp",
    "mechanisms": ["gaussian", "laplace"],
}
TERMS = [
    {"name": "(constant)", "kind": "constant"},
    {"name": "age", "kind": "numeric", "column": "age", "center": 75.0, "scale": 25.0, "unit": "years"},
    {"name": "sex[M]", "kind": "level", "column": "sex", "level": "M"},
]
TARGETS = [{"name": "kappa", "kind": "numeric", "column": "kappa", "center": 3.0, "scale": 3.0, "unit": "mg/dL"}]
NOISE = {
    "distribution": "discrete_gaussian",
    "sd": {"xtx_diagonal": 17.9, "xtx_offdiagonal": 12.7, "xty": 9.1, "yty": 4.2, "lambda_min": 30.5},
}


def release_body() -> dict[str, Any]:
    """Return the members of a release, without its receipt."""
    return {
        "id": "rel_1",
        "dataset": "flchain",
        "kind": "gram",
        "created_at": "2026-01-01T00:00:00Z",
        "request": {"kind": "gram", "features": ["age", "sex"], "targets": ["kappa"]},
        "features": [AGE, SEX],
        "terms": TERMS,
        "targets": TARGETS,
        "statistics": {
            "xtx": {
                "shape": [3, 3],
                "packing": "upper",
                "step": 0.5,
                "values": [900.0, 100.0, 400.5, 300.0, 50.0, 390],
            },
            "xty": {"shape": [3, 1], "packing": "full", "step": 0.5, "values": [-400.0, 80.5, -150.0]},
            "yty": {"shape": [1], "packing": "full", "step": 0.5, "values": [300.0]},
            "lambda_min": {"shape": [], "packing": "full", "step": 0.5, "values": [120.0]},
        },
        "noise": NOISE,
        "cost": COST,
    }


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def with_receipt(body: dict[str, Any]) -> str:
    """Return the text of a release with the receipt that its curator would have written."""
    text = compact(body)
    receipt = {
        "format": 1,
        "kind": "charge",
        "population": "olmsted",
        "sequence": 12,
        "units": "56000000000",
        "actor": "prn_1",
        "dataset": "flchain",
        "release": "rel_1",
        "request_digest": "00",
        "answer_digest": hashlib.sha256(text.encode()).hexdigest(),
        "snapshot": "11",
        "mechanism": [{"statistic": "xtx", "sensitivity": "9/4", "scales": ["12", "9"], "copies": 1}],
        "time": "2026-01-01T00:00:00Z",
        "previous_hash": "22",
    }
    canonical = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    receipt["entry_hash"] = hashlib.sha256(b"curator-ledger-entry:1\n" + canonical).hexdigest()
    return text[:-1] + ',"receipt":' + compact(receipt) + "}"


RELEASE_TEXT = with_receipt(release_body())


def released(text: str = RELEASE_TEXT, answer: str = "new") -> httpx.Response:
    status = 200 if answer == "stored" else 201
    return httpx.Response(status, content=text.encode(), headers={"Curator-Answer": answer})


def problem(slug: str, status: int, *, retry_after: str | None = None, **members: Any) -> httpx.Response:
    body = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": "why", "instance": "req_7"}
    headers = {"Content-Type": "application/problem+json"} | ({"Retry-After": retry_after} if retry_after else {})
    return httpx.Response(status, content=compact(body | members), headers=headers)


class Curator:
    """Play answers one after the other and keep the requests; an exception is raised in place of an answer."""

    def __init__(self, *answers: httpx.Response | type[httpx.RequestError]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer("lost")

    def client(self, **options: Any) -> CuratorClient:
        client = CuratorClient(URL, TOKEN, transport=httpx.MockTransport(self), **options)
        client._transport._sleep = self.waits.append
        return client

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("Idempotency-Key") for request in self.requests]


def ask(client: CuratorClient, **changes: Any) -> Release:
    """Ask for a release that is well formed."""
    arguments: dict[str, Any] = {"target": "kappa", "epsilon": 1.0, "delta": 1e-6} | changes
    return client.release("flchain", ["age", "sex"], **arguments)


def release_of_rows(
    U: NDArray[np.float64],
    Y: NDArray[np.float64],
    *,
    features: list[str | Column] | None = None,
    targets: list[str | Column] | None = None,
    constant: bool = True,
    weights: NDArray[np.float64] | None = None,
    noise: float | Noise = 0.0,
) -> Release:
    """Return the exact statistics of scaled rows, as a curator without noise would release them."""
    design = np.column_stack([np.ones(len(U)), U]) if constant else U
    w = np.ones(len(U)) if weights is None else weights
    design, Y = design * w[:, None], Y * (w if Y.ndim == 1 else w[:, None])
    squares = np.sum(np.atleast_2d(Y.T) ** 2, axis=1)
    gram = design.T @ design
    gram = (gram + gram.T) / 2
    return Release.from_arrays(
        gram, design.T @ Y, squares, features=features, targets=targets, constant=constant, noise=noise
    )
