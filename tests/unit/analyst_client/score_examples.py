"""A curator of scores in small: it adds up clipped gradients of its rows, adds noise, and answers as on the wire."""

import math
from typing import Any

import numpy as np
from counts_examples import BOUGHT, COLUMNS, DECLARED, UNBOUGHT, CountsCurator, cohort, cost_of, mu_of, noisy_array
from numpy.typing import NDArray

SHARES = {"score": 94, "norms": 6, "meat": 40}
EDGES = [1.6**step for step in range(-8, 4)]
FloatArray = NDArray[np.float64]


def canonical(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with its defaults, features in the manifest's order and the fewest bits."""
    whole = sum(SHARES[name] for name in request["statistics"])
    shares = request.get("shares") or {name: SHARES[name] / whole for name in request["statistics"]}
    return {
        "kind": "score",
        "features": sorted(request["features"], key=list(DECLARED).index),
        "target": request["target"],
        "intercept": request.get("intercept", True),
        "loss": request["loss"],
        "coefficients": request["coefficients"],
        "directions": request["directions"],
        "statistics": [name for name in SHARES if name in request["statistics"]],
        "mechanism": request.get("mechanism", "gaussian"),
        "calibration": "analytic",
        "price": request["price"],
        "shares": {name: shares[name] for name in SHARES if name in shares},
        "fresh": request.get("fresh", False),
    }


def term_of(name: str) -> list[dict[str, Any]]:
    """Return the terms of a column beside a constant."""
    column = DECLARED[name]
    if column["type"] == "categorical":
        return [
            {"name": f"{name}[{level}]", "kind": "level", "column": name, "level": level}
            for level in column["levels"][1:]
        ]
    if column["type"] == "boolean":
        return [{"name": name, "kind": "boolean", "column": name}]
    center, scale = (column["lower"] + column["upper"]) / 2, (column["upper"] - column["lower"]) / 2
    return [{"name": name, "kind": "numeric", "column": name, "center": center, "scale": scale, "unit": column["unit"]}]


def terms_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    constant = [{"name": "(constant)", "kind": "constant"}] if request["intercept"] else []
    return constant + [term for name in request["features"] for term in term_of(name)]


def coded(term: dict[str, Any], rows: dict[str, FloatArray]) -> FloatArray:
    if term["kind"] == "constant":
        return np.ones(len(rows["age"]))
    values = rows[term["column"]]
    if term["kind"] == "level":
        return (values == DECLARED[term["column"]]["levels"].index(term["level"])).astype(float)
    return (values - term.get("center", 0.0)) / term.get("scale", 1.0)


def weights_of(stated: dict[str, Any], member: str, terms: list[dict[str, Any]]) -> FloatArray:
    numbers = stated[member]
    count = np.size(next(iter(numbers.values()), 0))
    rows = [np.ravel(numbers.get(term["name"], np.zeros(count))) for term in terms]
    return np.array(rows, dtype=float) / 2.0 ** stated["bits"]


def gradients(request: dict[str, Any], rows: dict[str, FloatArray]) -> FloatArray:
    """Return what rows that miss nothing contribute, before it is clipped."""
    terms = terms_of(request)
    X = np.column_stack([coded(term, rows) for term in terms])
    (target,) = term_of(request["target"])
    y = coded(target, rows)
    known = ~np.isnan(X).any(axis=1) & ~np.isnan(y)
    X, y = X[known], y[known]
    eta = X @ weights_of(request["coefficients"], "weights", terms)[:, 0]
    if request["loss"] == "poisson":
        upper = target["center"] + target["scale"]
        residual = (target["center"] + target["scale"] * y - np.minimum(np.exp(eta), upper)) / upper
    else:
        residual = y - (eta if request["loss"] == "linear" else 1.0 / (1.0 + np.exp(-eta)))
    return residual[:, np.newaxis] * (X @ weights_of(request["directions"], "matrix", terms))


def sums_of(request: dict[str, Any], rows: dict[str, FloatArray]) -> dict[str, FloatArray]:
    g = gradients(request, rows)
    norms = np.linalg.norm(g, axis=1)
    clipped = g / np.maximum(norms, 1.0)[:, np.newaxis]
    counted = np.histogram(norms, [0.0, *EDGES, np.inf])[0].astype(float)
    found = {"score": clipped.sum(axis=0), "norms": counted, "meat": clipped.T @ clipped}
    return {name: found[name] for name in request["statistics"]}


def sds_of(request: dict[str, Any]) -> dict[str, float]:
    """Return standard deviations under `add_remove` with one row a person."""
    if request["mechanism"] == "laplace":
        k = np.size(next(iter(request["directions"]["matrix"].values())))
        reach = {"score": math.sqrt(k), "norms": 1.0, "meat": float(k)}
        made = {n: math.sqrt(2.0) * reach[n] / (request["price"]["epsilon"] * s) for n, s in request["shares"].items()}
    else:
        made = {name: 1.0 / (mu_of(request["price"]) * math.sqrt(s)) for name, s in request["shares"].items()}
    meat = made.pop("meat", None)
    return made | ({} if meat is None else {"meat_diagonal": meat, "meat_offdiagonal": meat / math.sqrt(2.0)})


def common(request: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer and a quote have in common."""
    used = {*request["features"], request["target"]}
    return {
        "dataset": "flchain",
        "kind": "score",
        "request": request,
        "columns": [column for column in COLUMNS if column["name"] in used],
        "terms": terms_of(request),
        "target": term_of(request["target"])[0],
        "noise": {"distribution": f"discrete_{request['mechanism']}", "sd": sds_of(request)},
        "cost": cost_of(request),
    }


def quote_body(members: dict[str, Any]) -> dict[str, Any]:
    return common(canonical(members)) | UNBOUGHT


def answer_body(members: dict[str, Any], rows: dict[str, FloatArray], generator: np.random.Generator) -> dict[str, Any]:
    request = canonical(members)
    sds, statistics = sds_of(request), {}
    for name, exact in sums_of(request, rows).items():
        sd, packing = (sds["meat_diagonal"], "upper") if name == "meat" else (sds[name], "full")
        statistics[name] = noisy_array(exact, sd, request, generator, packing)
    return BOUGHT | common(request) | {"statistics": statistics}


class ScoreCurator(CountsCurator):
    """Answer requests of scores, and keep the releases."""

    quote_body = staticmethod(quote_body)
    answer_body = staticmethod(answer_body)


__all__ = ["ScoreCurator", "answer_body", "cohort", "quote_body", "sums_of"]
