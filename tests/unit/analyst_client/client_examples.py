"""Answers of a curator as its wire format has them, its ledger and keys, and a curator that plays the answers."""

import base64
import copy
import hashlib
import json
import math
from typing import Any

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from analyst_client import Column, CuratorClient, Release
from analyst_client.inference.noise import NoiseLaw
from analyst_client.kinds import Noise
from analyst_client.kinds.gram.coding import Coded
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.kinds.gram.local import packed, write_text
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.schema import Term
from analyst_client.schema.columns import Basis, plain_term

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
QUOTE = {
    "dataset": "flchain",
    "kind": "gram",
    "request": {"kind": "gram"},
    "features": [],
    "terms": TERMS,
    "targets": TARGETS,
    "noise": NOISE,
    "cost": COST,
    "affordable": True,
    "pass_over_rows": False,
    "duration_s": 0.0,
    "answer_bytes": 4621,
    "answer_bytes_left": 1_073_741_824,
    "stored_release": None,
    "derivable_from": None,
    "offers": [],
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


def combined_body() -> dict[str, Any]:
    """Return the members of a release of three combinations of the same terms, without its receipt."""
    matrix = {"(constant)": [4, 0, -1], "age": [0, 3, 1], "sex[M]": [0, 0, 2]}
    body = release_body() | {
        "terms": [{"name": f"combination[{k}]", "kind": "combination"} for k in (1, 2, 3)],
        "combined": TERMS,
    }
    return body | {"request": body["request"] | {"rows": {"map": "linear", "bits": 2, "matrix": matrix}}}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


class Signer:
    """A key of a curator, made of one number."""

    def __init__(self, number: int) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        self.raw = self.private.public_key().public_bytes_raw()
        self.public_key = base64.b64encode(self.raw).decode()
        self.key_id = "key_" + hashlib.sha256(self.raw).hexdigest()[:32]

    def sign(self, prefix: str, value: Any) -> str:
        return base64.b64encode(self.private.sign(prefix.encode() + canonical(value))).decode()


FIRST, SECOND, THIRD, STRANGER = map(Signer, (1, 2, 3, 9))


def key_listing(*signers: Signer) -> dict[str, Any]:
    """Return the keys of a curator, each endorsed by the one before."""
    keys: list[dict[str, Any]] = []
    for before, signer in zip((None, *signers), signers, strict=False):
        payload = {"key_id": signer.key_id, "public_key": signer.public_key, "created_at": "2026-01-01T00:00:00Z"}
        payload["previous"] = None if before is None else before.key_id
        keys.append(payload | {"endorsement": None if before is None else before.sign("curator-key:1\n", payload)})
    return {"keys": keys, "active": signers[-1].key_id}


def signed(entry: dict[str, Any], signer: Signer = FIRST) -> dict[str, Any]:
    """Return the receipt of an entry: the entry, its hash, the signature on its checkpoint."""
    entry = entry | {"key_id": signer.key_id}
    entry_hash = hashlib.sha256(b"curator-ledger-entry:2\n" + canonical(entry)).hexdigest()
    names = ("epoch", "key_id", "limit", "pending", "population", "posted", "sequence")
    statement = {name: entry[name] for name in names} | {"entry_hash": entry_hash}
    return entry | {"entry_hash": entry_hash, "signature": signer.sign("curator-checkpoint:1\n", statement)}


class Ledger:
    """The chain of one population, which grows by an entry at a time."""

    def __init__(self, sequence: int = 11, signer: Signer = FIRST, population: str = "olmsted", epoch: int = 1) -> None:
        self.sequence, self.signer, self.population, self.epoch = sequence, signer, population, epoch
        self.head = hashlib.sha256(f"{population} {epoch} {sequence}".encode()).hexdigest()
        self.receipt: dict[str, Any] = {}

    def copy(self) -> "Ledger":
        return copy.copy(self)

    def post(self, **payload: Any) -> dict[str, Any]:
        """Add an entry; return its receipt."""
        self.sequence += 1
        entry = {
            "format": 2,
            "kind": "note",
            "population": self.population,
            "sequence": self.sequence,
            "epoch": self.epoch,
            "units": "0",
            "limit": "9000000000000",
            # Spending never falls, from one entry to the next or from one epoch to the next.
            "posted": str(10**12 * self.epoch + 10**9 * self.sequence),
            "pending": "0",
            "actor": "prn_1",
            "time": "2026-01-01T00:00:00Z",
            "previous_hash": self.head,
        }
        self.receipt = signed(entry | payload, self.signer)
        self.head = self.receipt["entry_hash"]
        return self.receipt

    def release(self, body: dict[str, Any] | None = None, **payload: Any) -> str:
        """Add a charge; return the text of its release."""
        text = compact(release_body() if body is None else body)
        charge = {
            "kind": "charge",
            "units": "56000000000",
            "dataset": "flchain",
            "release": "rel_1",
            "request_digest": "00",
            "answer_digest": hashlib.sha256(text.encode()).hexdigest(),
            "snapshot": "11",
            "mechanism": [{"statistic": "xtx", "sensitivity": "9/4", "scales": ["12", "9"], "copies": 1}],
        }
        return text[:-1] + ',"receipt":' + compact(self.post(**charge | payload)) + "}"

    @property
    def checkpoint(self) -> dict[str, Any]:
        receipt = self.receipt or self.post()
        names = ("entry_hash", "epoch", "key_id", "limit", "pending", "population", "posted", "sequence", "signature")
        return {name: receipt[name] for name in names}

    @property
    def budget(self) -> httpx.Response:
        members = {"dataset": "flchain", "population": self.population, "accountant": "gdp", "delta": 1e-6}
        amounts = dict.fromkeys(("limit", "posted", "pending", "remaining"), AMOUNT)
        rest = {"adjacency": "add_remove", "share_spent": 0.25, "checkpoint": self.checkpoint}
        return httpx.Response(200, content=compact(members | amounts | rest))


def with_receipt(body: dict[str, Any], **payload: Any) -> str:
    """Return the text of a release with the receipt that its curator would have written."""
    return Ledger().release(body, **payload)


RELEASE_TEXT = with_receipt(release_body())
RECEIPT = json.loads(RELEASE_TEXT)["receipt"]


def released(text: str = RELEASE_TEXT, answer: str = "new") -> httpx.Response:
    status = 200 if answer == "stored" else 201
    return httpx.Response(status, content=text.encode(), headers={"Curator-Answer": answer})


def problem(slug: str, status: int, *, retry_after: str | None = None, **members: Any) -> httpx.Response:
    body = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": "why", "instance": "req_7"}
    headers = {"Content-Type": "application/problem+json"} | ({"Retry-After": retry_after} if retry_after else {})
    return httpx.Response(status, content=compact(body | members), headers=headers)


class Curator:
    """Play answers one after the other and keep the requests; an exception is raised in place of an answer.

    The keys are listed whenever they are asked for, and those requests are kept apart.
    """

    def __init__(self, *answers: httpx.Response | type[httpx.RequestError], keys: Any = None) -> None:
        self.answers = list(answers)
        self.listing = key_listing(FIRST) if keys is None else keys
        self.listings = 0
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/keys":
            self.listings += 1
            if isinstance(self.listing, httpx.Response):
                return self.listing
            return httpx.Response(200, content=compact(self.listing))
        if self._is_free(request):
            return problem("not-found", 404)
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.Response):
            return answer
        raise answer("lost")

    def _is_free(self, request: httpx.Request) -> bool:
        """Return whether a request is a look at a quote or a dataset before buying, which no answer was made for."""
        asked = {"quotes": b"answer_bytes", "flchain": b"row_capacity"}.get(request.url.path.rpartition("/")[2])
        following = self.answers[0] if self.answers else None
        return asked is not None and not (isinstance(following, httpx.Response) and asked in following.content)

    def client(self, **options: Any) -> CuratorClient:
        """Return a client whose time passes only while it waits."""
        client = CuratorClient(URL, TOKEN, transport=httpx.MockTransport(self), **{"memory": None} | options)
        client._transport.sleep = self.waits.append
        client._transport.clock = lambda: sum(self.waits)
        return client

    @property
    def checkpoints(self) -> list[Any]:
        """The checkpoint in the header of each request, or None."""
        values = [request.headers.get("Curator-Checkpoint") for request in self.requests]
        return [value and json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))) for value in values]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    @property
    def keys(self) -> list[str | None]:
        return [request.headers.get("Idempotency-Key") for request in self.requests]


def ask(client: CuratorClient, **changes: Any) -> Release:
    """Ask in one request, which is given whole: its row map is the curator's to choose."""
    waiting = {
        name: changes.pop(name) for name in ("idempotency_key", "respond_async", "wait_s", "even_so") if name in changes
    }
    arguments: dict[str, Any] = {"target": "kappa", "epsilon": 1.0, "delta": 1e-6} | changes
    return client.release("flchain", ReleaseRequest(["age", "sex"], **arguments), **waiting)


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


def noised(exact: Release, noise: Noise, generator: np.random.Generator, **declared: Any) -> Release:
    """Return exact statistics with noise of the stated law, of the same features unless others are declared."""
    own = {"features": list(exact.features), "constant": exact.terms[0].kind == "constant"}
    return noisy_release(exact.xtx, exact.xty, exact.yty, noise, generator, **own | declared)


def noisy_release(
    xtx: Any, xty: Any, yty: Any, noise: Noise, generator: np.random.Generator, **options: Any
) -> Release:
    """Return a release of exact statistics, Xᵀy by term and target, with noise of the stated law."""
    law, count = NoiseLaw.of(noise, len(xtx)), xty.shape[1]
    E, e = law.draw(generator, count)
    laplace, sd = law.excess_kurtosis != 0.0, math.sqrt(law.yty or 0.0)
    own = generator.laplace(0.0, sd * math.sqrt(0.5), count) if laplace else generator.normal(0.0, sd, count)
    return Release.from_arrays(xtx + E[0], xty + e.T, yty + own, noise=noise, **options)


def products_frame() -> dict[str, Any]:
    """Return the analyst's own rows of `with_products`."""
    rng = np.random.default_rng(3)
    return {"sex": rng.choice(["F", "M"], 90), "age": rng.uniform(50, 100, 90), "dose": rng.uniform(0, 8, 90)}


def with_products() -> Release:
    """Return a release of an analyst's own rows with a product and polynomials."""
    sex, age, dose = Column.categorical("sex", ["F", "M"]), Column.numeric("age", 50, 100), Column.numeric("dose", 0, 8)
    male, years = Term("sex[M]", "level", "sex", level="M"), plain_term(age)
    powers = [Basis("dose", "polynomial", (2,), 4.0, 4.0, place) for place in (0, 1)]
    terms = (
        Term("(constant)", "constant"),
        male,
        years,
        *(Term(f"polynomial(dose, 2)[{b.place + 1}]", "basis", "polynomial(dose, 2)", basis=b) for b in powers),
        Term("sex[M]:age", "product", "sex:age", factors=(male, years)),
    )
    target = plain_term(Column.numeric("y", 0, 6))
    X = design_matrix(products_frame(), (sex, age, dose), terms, clip=True)
    y = np.random.default_rng(4).uniform(-1, 1, 90)
    gram = X.T @ X
    text = write_text(
        Coded(features=(sex, age, dose), inner_columns=(), terms=terms, targets=(target,), expressions={}),
        release_id="local",
        dataset="own",
        request={
            "kind": "gram",
            "features": ["sex", "age", {"polynomial": ["dose", 2]}, {"interaction": ["sex", "age"]}],
            "targets": ["y"],
        },
        statistics={
            "xtx": packed(gram[np.triu_indices(6)], (6, 6), "upper"),
            "xty": packed(X.T @ y, (6, 1)),
            "yty": packed(y @ y, (1,)),
        },
        noise=Noise(0.0, 0.0, 0.0, 0.0),
    )
    return Release.from_text(text)
