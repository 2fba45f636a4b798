"""I6: the whole interface, run on two neighbouring datasets, says the same but for what was paid."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy import stats
from support import ADMIN, ROWS, Api, World, body, client_of, make_rows, open_world

from analyst_client import CuratorError
from analyst_client.terms import col
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.samplers import SystemNoise

# Random ids, and digests of requests, which hold the random id of the dataset.
_IDS = re.compile(r"\b(?:(?:rel|job|res|req|prn|prm|ds|key|prp|wrk)_[0-9a-f]{16,32}|[0-9a-f]{64})\b")
# What an answer holds that was paid for, and the hashes and signatures that cover it.
_PAID = {"values"}
_HIDING = {"answer_digest", "snapshot", "entry_hash", "previous_hash", "signature", "evidence", "public_key"}
_OUTLIER = {
    **ROWS[0],
    "age": "-1e300",
    "creatinine": "",
    "weight": "1e300",
    "height": "",
    "smoker": "",
    "treated": "",
    "frail": "",
    "region": "",
    "stage": "",
    "ward": "",
    "kappa": "6",
    "lambda": "",
    "dose": "",
}


class Transcript:
    """Answers that a caller saw, with ids renamed in the order in which they appear."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}

    def add(self, label: str, answer: httpx.Response) -> httpx.Response:
        """Write an answer down: status, headers and body, what was paid and what hides it left out."""
        text = answer.text
        paid = False
        if "json" in answer.headers.get("content-type", ""):
            content = answer.json()
            paid = _mask(content)
            text = json.dumps(content)
        headers = {k: v for k, v in answer.headers.items() if not (paid and k == "content-length")}
        self.lines.append(self._rename(f"{label}: {answer.status_code} {json.dumps(headers)} {text}"))
        return answer

    def _rename(self, line: str) -> str:
        return _IDS.sub(lambda found: self._names.setdefault(found[0], f"id{len(self._names)}"), line)


def _mask(content: Any) -> bool:
    """Blank what was paid, and hashes of it, in place; their number stays. True if something was paid."""
    paid = False
    if isinstance(content, dict):
        for name, value in content.items():
            if name in _PAID:
                content[name] = len(value)
                paid = True
            elif name in _HIDING:
                content[name] = len(value) if value is not None else None
            else:
                paid |= _mask(value)
    elif isinstance(content, list):
        for item in content:
            paid |= _mask(item)
    return paid


def run_script(world: World) -> list[str]:
    """Ask everything, and return what was answered."""
    seen, api = Transcript(), world.api("ada")
    world.add_token("rita", *ADMIN)
    data = "/v1/datasets/cohort"
    for path in ("/v1/datasets", data, f"{data}/budget", "/v1/keys", "/healthz", "/readyz", "/openapi.json", "/docs"):
        seen.add(path, api.get(path))
    requests = _requests()
    for label, request in requests.items():
        seen.add(f"quote {label}", api.post(f"{data}/quotes", json=request))
    for label, request in requests.items():
        seen.add(f"buy {label}", api.post(f"{data}/releases", json=request, key=_key("key", label)))
    for label, request in requests.items():
        seen.add(f"again {label}", api.post(f"{data}/releases", json=request, key=_key("key", label)))
        stored = world.api("ben").post(f"{data}/releases", json=request, key=_key("other", label))
        seen.add(f"stored {label}", stored)
    _reserve_and_wait(seen, api, data)
    _fail(world, seen, api, data)
    for path in (f"{data}/releases", f"{data}/budget", "/v1/datasets/nothing", "/v1/releases/rel_0"):
        seen.add(path, api.get(path))
    for who in ("audra", "root"):
        for path in ("/v1/ledger/town", "/v1/ledger/town/checkpoint", "/v1/admin/seal", "/v1/admin/proposals"):
            seen.add(f"{who} {path}", world.api(who).get(path))
    return seen.lines


def _key(*words: str) -> str:
    """Return a key, which holds no space."""
    return "-".join(words).replace(" ", "-")


def _requests() -> dict[str, dict[str, Any]]:
    everything = [
        "age",
        "sex",
        "creatinine",
        "weight",
        "height",
        "smoker",
        "treated",
        "frail",
        "region",
        "stage",
        "ward",
    ]
    return {
        "box": body(rows={"map": "box"}),
        "block": body(rows={"map": "box"}, features=["age"], price={"mu": 0.01}),
        "ball": body(),
        "omit": body(rows={"map": "box"}, features=["creatinine", "stage"], targets=["lambda"]),
        "all": body(features=everything, statistics=["xtx", "xty", "yty", "lambda_min"]),
        "unit": body(rows={"map": "unit"}),
        "unit_xy": body(rows={"map": "unit_xy"}, features=["age", "dose"]),
        "laplace": body(rows={"map": "box"}, mechanism="laplace", price={"epsilon": 0.05}),
        "computed": body(features=[{"log": [{"add": ["creatinine", 1]}]}, {"spline": ["age", [60, 80]]}]),
        "selected": body(where={"less": ["age", 51]}, weight={"divide": ["age", 100]}),
        "counted": {
            "kind": "counts",
            "tables": [{"axes": [{"column": "sex"}]}],
            "where": "frail",
            "price": {"mu": 0.02},
        },
        "marginal": {
            "kind": "marginals",
            "marginals": [{"type": "tree", "columns": ["age"], "levels": 3}, {"type": "moments", "columns": ["dose"]}],
            "weight": {"divide": ["age", 100]},
            "price": {"mu": 0.02},
        },
        "no such column": body(features=["nothing"]),
        "too dear": body(price={"mu": 3.0}),
        "malformed": body(price={"mu": -1}),
    }


def _reserve_and_wait(seen: Transcript, api: Api, data: str) -> None:
    reservation = {"price": {"mu": 0.05}, "expires_in_s": 3600}
    made = seen.add("reservation", api.post(f"{data}/reservations", json=reservation, key="reservation")).json()["id"]
    drawn = body(reservation=made, fresh=True, price={"mu": 0.02})
    seen.add("draw", api.post(f"{data}/releases", json=drawn, key="draw"))
    seen.add("reservation now", api.get(f"/v1/reservations/{made}"))
    seen.add("reservation closed", api.request("DELETE", f"/v1/reservations/{made}"))
    started = api.post(
        f"{data}/releases", json=body(features=["age", "ward"]), key="job", headers={"Prefer": "respond-async"}
    )
    job = seen.add("job", started).json()["id"]
    while api.get(f"/v1/jobs/{job}").json()["state"] == "running":
        time.sleep(0.01)
    seen.add("job done", api.get(f"/v1/jobs/{job}"))
    seen.add("cancel too late", api.request("DELETE", f"/v1/jobs/{job}"))


def _fail(world: World, seen: Transcript, api: Api, data: str) -> None:
    """Use up the budget, and break everything that a caller can break."""
    seen.add("key of another request", api.post(f"{data}/releases", json=body(), key="key-box"))
    seen.add("no key", api.post(f"{data}/releases", json=body()))
    seen.add(
        "no JSON", api.post(f"{data}/releases", content=b"{", key="x", headers={"Content-Type": "application/json"})
    )
    seen.add("no token", api.get(data, token=None))
    seen.add("forged checkpoint", api.get(data, headers={"Curator-Checkpoint": "e30"}))
    for i in range(40):
        answer = seen.add("spend", api.post(f"{data}/releases", json=body(fresh=True, price={"mu": 0.06}), key=f"s{i}"))
        if answer.status_code == 409:
            break
    else:
        raise AssertionError("the budget never ended")
    lower = {"limit": {"mu": 0.2}, "reason": "less"}
    seen.add("lower", world.api("root").post("/v1/admin/populations/town/limits", json=lower))


@contextmanager
def pair(tmp_path: Path, adjacency: Adjacency, url: str | None = None) -> Iterator[tuple[World, World]]:
    """Open two worlds on neighbouring rows: one person more, or one person replaced."""
    more = [*ROWS, _OUTLIER]
    rows = ([*ROWS, ROWS[3]], more) if adjacency is Adjacency.REPLACE_ONE else (ROWS, more)
    options: dict[str, Any] = {"adjacency": adjacency, "noise": SystemNoise(), "limit": Price(mu=0.4)}
    del url
    with (
        open_world(tmp_path / "one", rows=rows[0], **options) as one,
        open_world(tmp_path / "other", rows=rows[1], **options) as other,
    ):
        yield one, other


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_everything_but_paid_bodies_is_the_same_on_neighbours(tmp_path: Path, adjacency: Adjacency) -> None:
    with pair(tmp_path, adjacency) as (one, other):
        first, second = run_script(one), run_script(other)
    for a, b in zip(first, second, strict=True):
        assert a == b


def _said(world: World) -> list[str]:
    """Return what the client says for nothing: quotes and their times, defaults, and refusals."""
    client, model = client_of(world), {"target": "kappa"}
    asked: list[Callable[[], object]] = [
        lambda: client.dataset("cohort"),
        lambda: client.budget("cohort"),
        lambda: client.quote("cohort", ["age", "sex"], **model, mu=0.2),
        lambda: client.quote("cohort", ["age", "sex"], **model, mu=0.2, robust=True),
        lambda: client.quote("cohort", ["age", "sex"], **model, mu=0.2, expected_rows=3),
        lambda: client.quote("cohort", ["creatinine", "stage"], target=None, mu=0.2),
        lambda: client.quote_refinement("cohort", ["age", "creatinine"], **model, mu=0.3),
        lambda: client.quote_refinement("cohort", ["age", "weight"], target="smoker", mu=0.3, family="binomial"),
        lambda: client.quote_refinement("cohort", ["age"], target="dose", mu=0.3, family="poisson"),
        lambda: client.refine("cohort", ["age", "creatinine"], **model, mu=0.001),
        lambda: client.refine("cohort", ["age", "creatinine"], **model, mu=3.0, expected_rows=10**6),
        lambda: client.release("cohort", ["age"], **model, mu=3.0),
        lambda: client.release("cohort", ["age"], **model, mu=0.2, where="age > 200"),
        lambda: client.release("cohort", ["age", 2 * col("age")], **model, mu=0.2),
        lambda: client.release("cohort", ["age"], **model, half_width={"age": 1e-9}, guess={"rows": 5}),
    ]
    found = []
    for ask in asked:
        try:
            found.append(f"{ask()!r} {ask()}")
        except (CuratorError, ValueError) as error:
            found.append(f"{type(error).__name__} {error} {getattr(error, '__notes__', '')}")
    return [_IDS.sub("id", one) for one in found]


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_what_the_client_says_for_nothing_is_the_same_on_neighbours(tmp_path: Path, adjacency: Adjacency) -> None:
    with pair(tmp_path, adjacency) as (one, other):
        first, second = _said(one), _said(other)
        spent = [client_of(world).budget("cohort").posted.mu for world in (one, other)]
    for a, b in zip(first, second, strict=True):
        assert a == b
    assert spent == [0.0, 0.0]
    assert {"UselessRequestError", "BudgetExceededError"} <= {text.split()[0] for text in first}


def test_the_differential_sees_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison finds a leak that is put in: the number of rows beside the capacity."""
    from curator_service.datasets import acts

    shown = acts._state
    with pair(tmp_path, Adjacency.ADD_REMOVE) as (one, other):
        counts = {
            d.id: w.curator.datasets.storage.about(d.id).rows
            for w in (one, other)
            for d in w.curator.datasets.list_all()
        }
        monkeypatch.setattr(
            acts, "_state", lambda context, dataset: dict(shown(context, dataset)) | {"hint": counts[dataset.id]}
        )
        a, b = (Transcript().add("d", world.api().get("/v1/datasets/cohort")).text for world in (one, other))
    assert a != b


def _latencies(worlds: tuple[World, ...], request: dict[str, Any], rounds: int) -> list[list[float]]:
    """Time the same request on each world by turns, so that the machine's moods meet all of them."""
    apis = [world.api() for world in worlds]
    times: list[list[float]] = [[] for _ in worlds]
    for i in range(rounds):
        order = range(len(worlds)) if i % 2 else reversed(range(len(worlds)))
        for k in order:
            start = time.perf_counter()
            answer = apis[k].post("/v1/datasets/cohort/releases", json=request, key=f"t{i}")
            times[k].append(time.perf_counter() - start)
            assert answer.status_code == 201, answer.text
    return times


def test_times_of_a_pass_have_the_same_law_on_datasets_of_any_size(tmp_path: Path) -> None:
    """Kolmogorov and Smirnov see no difference between 80 rows, one more, and 1,000 under one declared capacity."""
    options: dict[str, Any] = {"noise": SystemNoise(), "limit": Price(mu=900.0)}
    request = body(fresh=True, price={"mu": 0.001})
    with (
        open_world(tmp_path / "few", rows=ROWS, **options) as few,
        open_world(tmp_path / "one more", rows=[*ROWS, _OUTLIER], **options) as one_more,
        open_world(tmp_path / "many", rows=make_rows(1000, seed=9), **options) as many,
    ):
        for world in (few, one_more, many):
            world.api().post("/v1/datasets/cohort/releases", json=request, key="warm")
        base, neighbour, large = _latencies((few, one_more, many), request, 100)
    assert stats.ks_2samp(base, neighbour).pvalue > 1e-4
    assert stats.ks_2samp(base, large).pvalue > 1e-4


def aged(share: float) -> list[dict[str, str]]:
    """Return 1,000 rows, a share of which are of 52 years and all others of 90: one condition tells them apart."""
    young = int(1000 * share)
    return [row | {"age": "52" if i < young else "90"} for i, row in enumerate(make_rows(1000, seed=9))]


@pytest.mark.parametrize("more", [{}, {"weight": {"divide": ["age", 100]}}], ids=["where", "where and weight"])
def test_times_and_sizes_have_the_same_law_however_many_rows_a_condition_selects(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """One request, of rows of which nobody, one in a hundred, and half are selected."""
    options: dict[str, Any] = {"noise": SystemNoise(), "limit": Price(mu=900.0)}
    request = body(fresh=True, price={"mu": 0.001}, where={"less": ["age", 60]}, **more)
    with (
        open_world(tmp_path / "none", rows=aged(0.0), **options) as none,
        open_world(tmp_path / "few", rows=aged(0.01), **options) as few,
        open_world(tmp_path / "half", rows=aged(0.5), **options) as half,
    ):
        worlds = (none, few, half)
        for world in worlds:
            world.api().post("/v1/datasets/cohort/releases", json=request, key="warm")
        base, *others = _latencies(worlds, request, 100)
        seen = [_watch_job(world, request) for world in worlds]
    for other in others:
        assert stats.ks_2samp(base, other).pvalue > 1e-4
    assert seen[0] == seen[1] == seen[2]


def _watch_job(world: World, request: dict[str, Any]) -> list[str]:
    """Return what a job shows, but for how often it was looked at."""
    seen, api = Transcript(), world.api()
    started = api.post("/v1/datasets/cohort/releases", json=request, key="job", headers={"Prefer": "respond-async"})
    job = seen.add("job", started).json()["id"]
    while api.get(f"/v1/jobs/{job}").json()["state"] == "running":
        time.sleep(0.01)
    done = seen.add("done", api.get(f"/v1/jobs/{job}")).json()
    seen.add("release", api.get(f"/v1/releases/{done['release']}"))
    return seen.lines
