"""A curator of counts in small: it counts rows of its own, adds noise, and answers as the wire format has it."""

import json
import math
from typing import Any

import httpx
import numpy as np
from client_examples import COST, FIRST, Curator, Ledger, compact, key_listing, problem
from numpy.typing import NDArray

from analyst_client import CountsRequest, CuratorClient
from analyst_client.planning.prices import epsilon_of, gdp_delta, mu_of_pure, number_of

STEP = 2.0**-30
COLUMNS = [
    {"name": "age", "type": "numeric", "unit": "years", "lower": 50.0, "upper": 100.0, "missing": "complete"},
    {"name": "sex", "type": "categorical", "unit": None, "levels": ["F", "M"], "missing": "complete"},
    {"name": "kappa", "type": "numeric", "unit": "mg/dL", "lower": 0.0, "upper": 6.0, "missing": "omit"},
    {"name": "dead", "type": "boolean", "unit": None, "levels": ["no", "yes"], "missing": "omit"},
]
DECLARED = {column["name"]: column for column in COLUMNS}
SEX_BY_AGE = ["sex", "age"]
UNBOUGHT = {"affordable": True, "pass_over_rows": True, "duration_s": 0.0, "answer_bytes": 4000, "offers": []} | {
    "answer_bytes_left": 2**30,
    "stored_release": None,
    "derivable_from": None,
}
"""What a quote says beside its request, its noise and its cost."""
BOUGHT = {"id": "rel_1", "created_at": "2026-01-01T00:00:00Z"}


def cohort(n: int = 4000, seed: int = 7) -> dict[str, NDArray[np.float64]]:
    """Return rows; nan is a missing value, a level is its place."""
    generator = np.random.default_rng(seed)
    sex = generator.integers(0, 2, n).astype(float)
    age = np.clip(generator.gamma(2.0, 7.0, n) + 50.0 + 2.0 * (1.0 - sex), 50.0, 100.0)
    kappa = np.where(generator.random(n) < 0.1, np.nan, np.clip(generator.gamma(3.0, 0.5, n), 0.0, 6.0))
    dead = np.where(generator.random(n) < 0.05, np.nan, generator.random(n) < (age - 45.0) / 100.0)
    return {"age": age, "sex": sex, "kappa": kappa, "dead": dead}


def canonical_axis(axis: dict[str, Any]) -> dict[str, Any]:
    column = DECLARED[axis["column"]]
    body: dict[str, Any] = {"column": axis["column"]}
    if column["type"] == "numeric":
        edges = axis.get("edges") or np.linspace(column["lower"], column["upper"], axis["bins"] + 1).tolist()
        body["edges"] = [float(edge) for edge in edges]
    return body | {"missing": axis.get("missing", False)}


def canonical(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with its defaults, axes in the manifest's order and tables sorted."""
    names = list(DECLARED)
    shares = request.get("shares") or [1.0 / len(request["tables"])] * len(request["tables"])
    tables = []
    for table, share in zip(request["tables"], shares, strict=True):
        axes = sorted(map(canonical_axis, table["axes"]), key=lambda axis: names.index(axis["column"]))
        tables.append((json.dumps(axes), {"axes": axes}, share))
    tables.sort(key=lambda table: table[0])
    return {
        "kind": "counts",
        "tables": [table for _, table, _ in tables],
        "mechanism": request.get("mechanism", "gaussian"),
        "calibration": "analytic",
        "price": request["price"],
        "shares": [share for *_, share in tables],
        "fresh": request.get("fresh", False),
    }


def answered_axis(axis: dict[str, Any]) -> dict[str, Any]:
    cells = {"edges": axis["edges"]} if "edges" in axis else {"cells": DECLARED[axis["column"]]["levels"]}
    return {"column": axis["column"], **cells, "missing": axis["missing"]}


def size_of(axis: dict[str, Any]) -> int:
    cells = len(axis["edges"]) - 1 if "edges" in axis else len(DECLARED[axis["column"]]["levels"])
    return cells + axis["missing"]


def count(rows: dict[str, NDArray[np.float64]], axes: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Return the exact counts."""
    places = []
    for axis in axes:
        values, column = rows[axis["column"]], DECLARED[axis["column"]]
        if "edges" in axis:
            edges = np.array(axis["edges"])
            place = np.searchsorted(edges, values, side="right") - 1
            place[(values == edges[-1]) & (edges[-1] == column["upper"])] = len(edges) - 2
            place[(place >= len(edges) - 1) | (place < 0)] = -1
        else:
            place = np.where(np.isnan(values), 0.0, values).astype(int)
        place[np.isnan(values)] = size_of(axis) - 1 if axis["missing"] else -1
        places.append(place)
    shape = tuple(map(size_of, axes))
    found = np.zeros(shape)
    inside = np.all([place >= 0 for place in places], axis=0)
    np.add.at(found, tuple(place[inside] for place in places), 1.0)
    return found


def sds_of(request: dict[str, Any]) -> list[float]:
    """Return the standard deviation for each table, under `add_remove` with one row a person."""
    price = request["price"]
    if request["mechanism"] == "laplace":
        return [math.sqrt(2.0) / (price["epsilon"] * share) for share in request["shares"]]
    mu = mu_of(price)
    return [1.0 / (mu * math.sqrt(share)) for share in request["shares"]]


def mu_of(price: dict[str, float]) -> float:
    if "epsilon" in price:
        return number_of(gdp_delta, price["epsilon"], price["delta"])
    return price.get("mu") or math.sqrt(2.0 * price["rho"])


def noise_of(generator: np.random.Generator, sd: float, shape: tuple[int, ...], mechanism: str) -> NDArray[np.float64]:
    draws = (
        generator.laplace(0.0, sd * math.sqrt(0.5), shape)
        if mechanism == "laplace"
        else generator.normal(0.0, sd, shape)
    )
    return np.round(draws / STEP) * STEP


def noisy_array(
    exact: NDArray[np.float64], sd: float, request: dict[str, Any], rng: np.random.Generator, packing: str = "full"
) -> dict[str, Any]:
    """Return an array with noise, as the wire format has it."""
    values = exact[np.triu_indices(len(exact))] if packing == "upper" else exact.ravel()
    noisy = values + noise_of(rng, sd, values.shape, request["mechanism"])
    return {"shape": list(exact.shape), "packing": packing, "step": STEP, "values": noisy.tolist()}


def common(request: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer and a quote have in common."""
    named = {axis["column"] for table in request["tables"] for axis in table["axes"]}
    sds = sds_of(request)
    return {
        "dataset": "flchain",
        "kind": "counts",
        "request": request,
        "columns": [column for column in COLUMNS if column["name"] in named],
        "tables": [
            {"name": f"table_{i}", "axes": list(map(answered_axis, table["axes"]))}
            for i, table in enumerate(request["tables"])
        ],
        "noise": {
            "distribution": f"discrete_{request['mechanism']}",
            "sd": {f"table_{i}": sd for i, sd in enumerate(sds)},
        },
        "cost": cost_of(request),
    }


def cost_of(request: dict[str, Any]) -> dict[str, Any]:
    """Return the cost to an account that counts µ²; of a Laplace request to one that counts ε."""
    if request["mechanism"] == "laplace":
        epsilon = request["price"]["epsilon"]
        pure = {"epsilon": epsilon, "pure_epsilon": epsilon, "delta": 0.0}
        return COST | pure | {"mu": mu_of_pure(epsilon), "rho": epsilon**2 / 2.0}
    mu = mu_of(request["price"])
    epsilon = epsilon_of(gdp_delta, mu, 1e-6)
    views = {"mu": mu, "rho": mu**2 / 2.0, "epsilon": epsilon if math.isfinite(epsilon) else None}
    return COST | views | {"share_of_budget": mu**2 / 0.42}


def quote_body(members: dict[str, Any]) -> dict[str, Any]:
    return common(canonical(members)) | UNBOUGHT


def answer_body(
    members: dict[str, Any], rows: dict[str, NDArray[np.float64]], generator: np.random.Generator
) -> dict[str, Any]:
    request = canonical(members)
    statistics = {}
    for i, (table, sd) in enumerate(zip(request["tables"], sds_of(request), strict=True)):
        statistics[f"table_{i}"] = noisy_array(count(rows, table["axes"]), sd, request, generator)
    return BOUGHT | common(request) | {"statistics": statistics}


class CountsCurator(Curator):
    """Answer requests of counts, and keep the releases."""

    quote_body = staticmethod(quote_body)
    answer_body = staticmethod(answer_body)

    def __init__(self, rows: dict[str, NDArray[np.float64]] | None = None, seed: int = 1, jobs: bool = False) -> None:
        super().__init__(keys=key_listing(FIRST))
        self.rows = cohort() if rows is None else rows
        self.generator = np.random.default_rng(seed)
        self.stored: dict[str, str] = {}
        self.jobs = jobs

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/keys":
            return super().__call__(request)
        if request.url.path.endswith("/flchain"):  # a quote is one without it
            return problem("not-found", 404)
        self.requests.append(request)
        path = request.url.path
        if path.endswith("/quotes"):
            return httpx.Response(200, content=compact(self.quote_body(json.loads(request.content))))
        if request.method == "POST":
            text = Ledger().release(self.answer_body(json.loads(request.content), self.rows, self.generator))
            self.stored["rel_1"] = text
            return httpx.Response(202, content=compact(self.job())) if self.jobs else answered(text)
        if path.startswith("/v1/jobs/"):
            return httpx.Response(200, content=compact(self.job() | {"state": "done", "release": "rel_1"}))
        return answered(self.stored[path.rpartition("/")[2]], "stored")

    @staticmethod
    def job() -> dict[str, Any]:
        rest = {"progress": 0.5, "created_at": "2026-01-01T00:00:00Z", "request": {}}
        return {"id": "job_1", "dataset": "flchain", "state": "running"} | rest


def answered(text: str, answer: str = "new") -> httpx.Response:
    headers = {"Curator-Answer": answer}
    return httpx.Response(201 if answer == "new" else 200, content=text.encode(), headers=headers)


def counts_client(**options: Any) -> CuratorClient:
    return CountsCurator(**options).client()


def release_of(request: CountsRequest, **options: Any) -> Any:
    return counts_client(**options).release("flchain", request)
