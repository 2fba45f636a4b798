"""A curator of marginals in small: it adds up rows of its own, adds noise, and answers as the wire format has it."""

import json
import math
from typing import Any

import numpy as np
from counts_examples import BOUGHT, COLUMNS, DECLARED, UNBOUGHT, CountsCurator, cohort, cost_of, mu_of, noisy_array
from numpy.typing import NDArray

UNIT = 2**17 - 1


def canonical(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request with its defaults, columns in the manifest's order and items sorted."""
    names = list(DECLARED)
    shares = request.get("shares") or [1.0 / len(request["marginals"])] * len(request["marginals"])
    ordered = [item | {"columns": sorted(item["columns"], key=names.index)} for item in request["marginals"]]
    pairs = sorted(zip(ordered, shares, strict=True), key=lambda pair: json.dumps(pair[0], sort_keys=True))
    return {
        "kind": "marginals",
        "marginals": [item for item, _ in pairs],
        "mechanism": request.get("mechanism", "gaussian"),
        "calibration": "analytic",
        "price": request["price"],
        "shares": [share for _, share in pairs],
        "fresh": request.get("fresh", False),
    }


def scaled(column: dict[str, Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with the bounds at -1 and 1."""
    center, scale = (column["lower"] + column["upper"]) / 2, (column["upper"] - column["lower"]) / 2
    return np.clip((values - center) / scale, -1.0, 1.0)


def sums_of(item: dict[str, Any], u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exact numbers of one column, whose missing values are nan."""
    known = u[~np.isnan(u)]
    if item["type"] == "moments":
        z, half = np.rint(known * UNIT), (UNIT**2 - 1) // 2
        return np.array([half * len(z), UNIT * z.sum(), (z**2 - half - 1).sum()]) / UNIT**2
    bins = item["bins"] if item["type"] == "flat" else 2 ** item["levels"]
    cells = np.minimum(((known + 1.0) / 2.0 * bins).astype(int), bins - 1)
    counts = [np.bincount(cells, minlength=bins).astype(float)]
    while item["type"] == "tree" and len(counts[0]) > 2:
        counts.insert(0, counts[0].reshape(-1, 2).sum(axis=1))
    return np.concatenate(counts)


def sds_of(request: dict[str, Any]) -> list[float]:
    """Return the standard deviation for each item, under `add_remove` with one row a person."""
    sds = []
    for item, share in zip(request["marginals"], request["shares"], strict=True):
        height = {"tree": item.get("levels"), "flat": 1, "moments": 1.5}[item["type"]]
        if request["mechanism"] == "laplace":
            reach = len(item["columns"]) * (2.0 if item["type"] == "moments" else height)
            sds.append(math.sqrt(2.0) * reach / (request["price"]["epsilon"] * share))
        else:
            sds.append(math.sqrt(height * len(item["columns"]) / share) / mu_of(request["price"]))
    return sds


def common(request: dict[str, Any]) -> dict[str, Any]:
    """Return what an answer and a quote have in common."""
    named = {column for item in request["marginals"] for column in item["columns"]}
    sds = {f"marginal_{i}": sd for i, sd in enumerate(sds_of(request))}
    return {
        "dataset": "flchain",
        "kind": "marginals",
        "request": request,
        "columns": [column for column in COLUMNS if column["name"] in named],
        "marginals": [{"name": f"marginal_{i}"} | item for i, item in enumerate(request["marginals"])],
        "noise": {"distribution": f"discrete_{request['mechanism']}", "sd": sds},
        "cost": cost_of(request),
    }


def quote_body(members: dict[str, Any]) -> dict[str, Any]:
    return common(canonical(members)) | UNBOUGHT


def answer_body(
    members: dict[str, Any], rows: dict[str, NDArray[np.float64]], generator: np.random.Generator
) -> dict[str, Any]:
    request = canonical(members)
    statistics = {}
    for i, (item, sd) in enumerate(zip(request["marginals"], sds_of(request), strict=True)):
        exact = np.array([sums_of(item, scaled(DECLARED[name], rows[name])) for name in item["columns"]])
        statistics[f"marginal_{i}"] = noisy_array(exact, sd, request, generator)
    return BOUGHT | common(request) | {"statistics": statistics}


class MarginalsCurator(CountsCurator):
    """Answer requests of marginals, and keep the releases."""

    quote_body = staticmethod(quote_body)
    answer_body = staticmethod(answer_body)


def marginals_of(request: Any, **options: Any) -> Any:
    return MarginalsCurator(**options).client().release("flchain", request)


__all__ = ["MarginalsCurator", "answer_body", "cohort", "marginals_of", "quote_body"]
