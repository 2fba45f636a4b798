"""One life of a curator in which nothing is random: keys, ids, clock and noise are fixed, so bytes can be compared.

PYTHONPATH=tests python tests/golden/scenario.py    writes the file anew; read the difference before you commit it
"""

import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support import COLUMNS, PERSONS, World, csv_text, make_rows, manifest_text, open_population, open_world

from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import Distribution

GOLDEN = Path(__file__).with_name("releases.json")
_SHOWN = ("curator-answer", "location", "etag", "retry-after", "cache-control")
_NUMERIC = [column for column in COLUMNS if column[1] != "categorical"]
_BOX = {"rows": {"map": "box"}}
_EPSILON = {"price": {"epsilon": 0.4, "delta": 1e-6}}
_ALL = {"statistics": ["xtx", "xty", "yty", "lambda_min"]}

Step = tuple[str, str, dict[str, Any] | None]
"""Caller, path and body of a request: a body makes it a POST."""


class PatternNoise:
    """Noise that differs from entry to entry and from draw to draw, and is none."""

    def __init__(self) -> None:
        self.calls = 0

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        self.calls += 1
        return [(i * 7919 + self.calls * 104729) % 2003 - 1001 for i in range(len(scales))]


def _ask(features: str, targets: str = "kappa", **more: Any) -> dict[str, Any]:
    asked = {"kind": "gram", "features": features.split(), "targets": targets.split(), "price": {"mu": 0.05}, **more}
    return {name: value for name, value in asked.items() if value is not None}


REQUESTS: dict[str, dict[str, Any]] = {
    "default": _ask("age sex"),
    "permuted": _ask("sex age"),
    "box": _ask("age sex weight", **_BOX),
    "block": _ask("weight", rows={"map": "box"}, price={"mu": 0.02}),
    "block of a target": _ask("age", "weight", rows={"map": "box"}, price={"mu": 0.02}),
    "box, every kind of column": _ask("age sex weight height smoker treated alive region ward", "kappa dose", **_BOX),
    "omitted rows": _ask("creatinine frail stage", "lambda", **_BOX),
    "everything": _ask("age sex", "kappa lambda", **_ALL),
    "no constant": _ask("sex height", intercept=False, rows={"map": "ball", "norm": 1.2}),
    "unit": _ask("age creatinine", rows={"map": "unit"}),
    "unit_xy": _ask("age weight", rows={"map": "unit_xy"}, **_ALL),
    "no target": _ask("age weight height", "", **_BOX),
    "shares": _ask("age", statistics=["xtx", "xty"], shares={"xtx": 0.25, "xty": 0.75}, **_BOX),
    "guess of rows": _ask("age weight", expected_rows=5000),
    "epsilon and delta": _ask("age weight", fresh=True, **_BOX, **_EPSILON),
    "rho": _ask("age weight", price={"rho": 0.002}, **_BOX),
    "classical": _ask("age weight", calibration="classical", **_BOX, **_EPSILON),
    "wang2018": _ask("age smoker", calibration="wang2018", **_BOX, **_EPSILON),
    "laplace": _ask("age smoker", mechanism="laplace", price={"epsilon": 0.2}, **_BOX),
    "laplace, ball": _ask("age smoker", mechanism="laplace", price={"epsilon": 0.2}, rows={"map": "ball"}, **_ALL),
    "nieminen2017": _ask("age weight", mechanism="laplace", calibration="nieminen2017", price={"epsilon": 0.2}, **_BOX),
    "of a project": _ask("weight height", project="kidney", fresh=True, **_BOX),
    "too dear": _ask("age", price={"mu": 30.0}, **_BOX),
    "no such column": _ask("age hair"),
    "category as target": _ask("age", "sex"),
    "named twice": _ask("age age"),
}
_PURE = {
    "laplace": REQUESTS["laplace"],
    "gaussian": _ask("age weight", **_BOX),
    "lambda_min": _ask("age", mechanism="laplace", price={"epsilon": 0.1}, **_BOX, **_ALL),
}
_OF: dict[str, dict[str, dict[str, Any]]] = {
    "cohort": REQUESTS,
    "swapped": {
        **{name: REQUESTS[name] | _EPSILON for name in ("default", "box", "everything", "unit", "unit_xy", "permuted")},
        "laplace, ball": REQUESTS["laplace, ball"],
        "rho": _ask("age weight", price={"rho": 0.002}, **_BOX),
        "mu": _ask("age weight", **_BOX),
        "gaussian": _ask("age sex weight", price={"rho": 0.001}, **_BOX),
        "gaussian, ball": _ask("age sex", price={"rho": 0.001}, rows={"map": "ball"}, **_ALL),
        "two targets": _ask("age", "kappa weight", price={"rho": 0.001}, **_BOX),
    },
    "pure": _PURE,
    "visits": {name: REQUESTS[name] for name in ("default", "box", "laplace", "laplace, ball")},
}


_AGES, _REGIONS = {"column": "age", "bins": 4}, {"column": "region", "missing": True}
_COUNTS: dict[str, dict[str, Any]] = {
    "two tables": {"tables": [{"axes": [_REGIONS, _AGES]}, {"axes": [{"column": "sex"}]}], "shares": [0.75, 0.25]},
    "margin": {"tables": [{"axes": [_AGES]}], "price": {"mu": 0.01}},
    "coarser bins": {
        "tables": [{"axes": [{"column": "age", "edges": [50, 75, 100]}, {"column": "region"}]}],
        "price": {"mu": 0.01},
    },
    "three columns, laplace": {
        "tables": [{"axes": [{"column": name} for name in ("treated", "alive", "stage")]}],
        "mechanism": "laplace",
        "price": {"epsilon": 0.1},
    },
    "no bins": {"tables": [{"axes": [{"column": "age"}]}]},
}
_TREE, _MOMENTS = ({"type": name, "columns": ["kappa", "age"]} for name in ("tree", "moments"))
_MARGINALS: dict[str, dict[str, Any]] = {
    "one of each": {
        "marginals": [_TREE | {"levels": 3}, {"type": "flat", "columns": ["height"], "bins": 5}, _MOMENTS],
        "shares": [0.5, 0.25, 0.25],
        "price": {"mu": 0.02},
    },
    "the same in another order": {
        "marginals": [_MOMENTS, {"type": "flat", "columns": ["height"], "bins": 5}, _TREE | {"levels": 3}],
        "shares": [0.25, 0.25, 0.5],
        "price": {"mu": 0.01},
    },
    "computed, weighed, laplace": {
        "marginals": [{"type": "moments", "columns": [{"log": [{"add": ["creatinine", 1]}]}]}],
        "where": {"less": ["age", 80]},
        "weight": {"divide": ["kappa", 6]},
        "mechanism": "laplace",
        "price": {"epsilon": 0.05},
    },
    "a category": {"marginals": [{"type": "flat", "columns": ["sex"]}], "price": {"mu": 0.02}},
}


def _steps() -> Iterator[tuple[str, Step]]:
    for dataset, asked in _OF.items():
        for name, request in asked.items():
            at = f"/v1/datasets/{dataset}"
            yield f"{dataset}: quote {name}", ("ada", f"{at}/quotes", request)
            yield f"{dataset}: release {name}", ("ada", f"{at}/releases", request)
    study = {"price": {"mu": 0.3}, "expires_in_s": 3600, "project": "kidney"}
    drawn = _ask("age height", fresh=True, reservation="{a study}", **_BOX)
    lower, higher = ({"limit": {"mu": mu}, "reason": "a new protocol"} for mu in (1.5, 3.0))
    yield "a study", ("ada", "/v1/datasets/cohort/reservations", study)
    yield "a release of the study", ("ada", "/v1/datasets/cohort/releases", drawn)
    yield "a study of somebody else", ("ben", "/v1/datasets/cohort/releases", drawn)
    yield "a lower limit", ("root", "/v1/admin/populations/town/limits", lower)
    yield "a higher limit", ("root", "/v1/admin/populations/town/limits", higher)
    yield "what is proposed", ("root", "/v1/admin/proposals", None)
    yield "a stored answer for another analyst", ("ben", "/v1/datasets/cohort/releases", REQUESTS["default"])
    yield "a page of releases", ("ben", "/v1/datasets/cohort/releases?limit=3", None)
    yield "one release", ("ada", "/v1/releases/{cohort: release default}", None)
    for dataset in _OF:
        yield f"{dataset}: what it declares", ("ada", f"/v1/datasets/{dataset}", None)
        yield f"{dataset}: what is left", ("ada", f"/v1/datasets/{dataset}/budget", None)
    yield "the ledger", ("audra", "/v1/ledger/town", None)
    yield "the ledger's head", ("audra", "/v1/ledger/town/checkpoint", None)
    yield "the keys", ("ada", "/v1/keys", None)
    for dataset in ("cohort", "visits"):
        for name, asked in _COUNTS.items():
            request = {"kind": "counts", "price": {"mu": 0.05}, **asked}
            yield f"{dataset}: quote counts, {name}", ("ada", f"/v1/datasets/{dataset}/quotes", request)
            yield f"{dataset}: release counts, {name}", ("ada", f"/v1/datasets/{dataset}/releases", request)
    for name, asked in _MARGINALS.items():
        request = {"kind": "marginals", **asked}
        yield f"quote marginals, {name}", ("ada", "/v1/datasets/visits/quotes", request)
        yield f"release marginals, {name}", ("ada", "/v1/datasets/visits/releases", request)
    posted: dict[str, Any] = {
        "kind": "score",
        "features": ["age", "sex"],
        "coefficients": {"bits": 3, "weights": {"age": 5}},
        "directions": {"bits": 3, "matrix": {"age": [9, 0], "(constant)": [0, 7]}},
        "price": {"mu": 0.02},
    }
    every: dict[str, Any] = {"statistics": ["score", "norms", "meat"], "fresh": True}
    for name, more in {
        "linear": {"target": "dose", "loss": "linear", **every},
        "logistic": {"target": "alive", "loss": "logistic", "weight": {"divide": ["kappa", 6]}},
        "poisson, laplace": {"target": "kappa", "loss": "poisson", "mechanism": "laplace", **every},
        "a number of a logistic loss": {"target": "kappa", "loss": "logistic"},
    }.items():
        for end in ("quotes", "releases"):
            price = {"price": {"epsilon": 0.05}} if "laplace" in name else {}
            yield f"{end} of scores, {name}", ("ada", f"/v1/datasets/visits/{end}", posted | more | price)
    combined = {"map": "linear", "bits": 4, "matrix": {"age": [20, 3], "(constant)": [-1, 8]}}
    for dataset in ("cohort", "visits"):
        for end in ("quotes", "releases"):
            asked = _ask("age sex", rows=combined, fresh=True, **_ALL)
            yield f"{dataset}: {end} of combined rows", ("ada", f"/v1/datasets/{dataset}/{end}", asked)


def _open_accounts(world: World) -> None:
    """Open an account of each kind, and register rows of other people in it."""
    swapped, pure, visits = (make_rows(60, seed=seed) for seed in (31, 32, 33))
    limits = {"swapped": Price(rho=1.0), "pure": Price(epsilon=2.0), "visits": Price(mu=2.0)}
    for name, accountant in (("swapped", "zcdp"), ("pure", "pure"), ("visits", "gdp")):
        adjacency = Adjacency.REPLACE_ONE if name == "swapped" else Adjacency.ADD_REMOVE
        open_population(world.curator, name, limits[name], adjacency=adjacency, accountant=accountant)
    world.register("swapped", "swapped", swapped)
    world.register("pure", "pure", pure, columns=_NUMERIC)
    manifest, data = world.folder / "visits.toml", world.folder / "visits.csv"
    subject = 'subject = "who"\nrows_per_subject = 3'
    manifest.write_text(manifest_text("visits", "visits").replace(PERSONS, subject), encoding="utf-8")
    data.write_text(csv_text([{"who": f"p{i // 4}", **row} for i, row in enumerate(visits)]), encoding="utf-8")
    world.curator.datasets.register(manifest, data, actor="operator:test")
    for dataset in world.curator.datasets.list_all():
        if dataset.name not in {"cohort", "hidden"}:
            for analyst in ("ada", "ben"):
                world.grant(analyst, dataset.id)
    world.permit()


@contextmanager
def nothing_random() -> Iterator[None]:
    """Let every id, nonce, token and key follow from how many there were before."""
    counts: dict[int, itertools.count[int]] = {}

    def token_hex(size: int) -> str:
        number = next(counts.setdefault(size, itertools.count(1)))
        return number.to_bytes(size, "big").hex()

    keys = itertools.count(1)

    def generate() -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes([next(keys)]) * 32)

    with ExitStack() as stack:
        stack.enter_context(mock.patch("secrets.token_hex", token_hex))
        stack.enter_context(mock.patch("curator_service.ledger.chain.signing.Ed25519PrivateKey.generate", generate))
        yield


def run(folder: Path) -> dict[str, Any]:
    """Live this life; return what everybody was told, and the ledgers' rows as they are stored."""
    with (
        nothing_random(),
        open_world(folder, limit=Price(mu=2.0), noise=PatternNoise(), rows=make_rows(), anew=True) as world,
    ):
        _open_accounts(world)
        told: dict[str, dict[str, Any]] = {}
        for name, (who, path, body) in _steps():
            ids = {named: json.loads(before["body"]).get("id", "") for named, before in told.items()}
            asked = json.loads(_fill(json.dumps(body), ids))
            told[name] = _take(world, f"key-{len(told)}", (who, _fill(path, ids), asked))
        entries = {
            population.name: [list(row) for row in world.sql(_ENTRIES.format(population.name))]
            for population in world.curator.ledger.list_populations()
        }
    return {"told": told, "entries": entries}


_ENTRIES = (
    "SELECT sequence, payload, entry_hash, signature FROM ledger_entries WHERE population = '{}' ORDER BY sequence"
)


def _fill(text: str, ids: dict[str, str]) -> str:
    """Put the ids of what was made before in their places."""
    for name, found in ids.items():
        text = text.replace(f"{{{name}}}", found)
    return text


def _take(world: World, key: str, step: Step) -> dict[str, Any]:
    who, path, body = step
    api = world.api(who)
    answer = api.get(path) if body is None else api.post(path, json=body, key=key)
    headers = {name: answer.headers[name] for name in _SHOWN if name in answer.headers}
    return {"status": answer.status_code, "headers": headers, "body": answer.text}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        content = json.dumps(run(Path(scratch) / "world"), indent=1, ensure_ascii=False)
        GOLDEN.write_text(content + "\n", encoding="utf-8")
