"""Answers of a real application on every route, and the recorded answers of this version."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from issuers import Documents, claims, providers, sign, visa
from patience import scaled
from support import ADMIN, COUNTED, ROWS, TERMS, CountingNoise, World, body, csv_text, manifest_text, open_world

from analyst_client.local import RandomizedResponse, UnaryEncoding, survey_terms
from curator_service.datasets.service import OtherPeople, RegistrationError
from curator_service.health.findings import Finding, note_findings
from curator_service.kit.milestones import Milestone, note
from curator_service.kit.samples import Sample
from curator_service.ledger.chain.entries import Checkpoint, SignedCheckpoint
from curator_service.ledger.trust.recovery import reconcile
from curator_service.privacy.samplers import Distribution

TESTS = Path(__file__).parents[1]
COHORT = "/v1/datasets/cohort"
RELEASES = f"{COHORT}/releases"
_BOX = {"rows": {"map": "box"}}
_CURVES = [{"polynomial": ["age", 2]}, {"spline": ["weight", [70, 90]]}, {"natural_spline": ["kappa", [2]]}]
_COMPUTED = (
    body(
        features=[*_CURVES, {"interaction": ["sex", "age"]}, {"interaction": [{"polynomial": ["age", 2]}, "height"]}],
        targets=[{"log": [{"add": ["dose", 11]}]}],
        where={"in": ["sex", ["F"]]},
        weight={"divide": ["age", 100]},
        price={"mu": 0.02},
    ),
    {
        "kind": "counts",
        "tables": [{"axes": [{"column": {"cut": ["age", [60, 70]]}}]}],
        "where": "alive",
        "weight": {"divide": ["age", 100]},
        "price": {"mu": 0.01},
    },
    body(
        features=["age", {"interaction": ["age", "sex"]}, {"spline": ["kappa", [2]]}],
        targets=["alive"],
        rows={"map": "linear", "bits": 3, "matrix": {"age": [9, 1], "(constant)": [0, -4]}},
        price={"mu": 0.01},
    ),
    {
        "kind": "score",
        "features": [{"log": ["age"]}],
        "target": "alive",
        "loss": "logistic",
        "coefficients": {"bits": 1, "weights": {"(constant)": 3}},
        "directions": {"bits": 1, "matrix": {"(constant)": [3, 1]}},
        "statistics": ["score", "norms", "meat"],
        "where": "alive",
        "weight": {"divide": ["age", 100]},
        "price": {"mu": 0.01},
    },
    {
        "kind": "marginals",
        "marginals": [
            {"type": "tree", "columns": ["age"], "levels": 2},
            {"type": "flat", "columns": [{"log": ["age"]}], "bins": 3},
            {"type": "moments", "columns": ["age", "kappa"]},
        ],
        "where": "alive",
        "weight": {"divide": ["age", 100]},
        "price": {"mu": 0.01},
    },
)
_PASS = body(features=["creatinine", "stage"], targets=["lambda"], rows={"map": "ball"}, price={"mu": 0.02})


@dataclass(frozen=True)
class Recorded:
    """An answer: what it answers, and its body."""

    method: str
    path: str
    status: int
    media_type: str
    body: str

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    def operation(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return what a document says of the operation that gave this answer."""
        return next(
            item[self.method]
            for template, item in document["paths"].items()
            if self.method in item and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), self.path)
        )

    def schema(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return the schema that a document states for this answer."""
        responses = self.operation(document)["responses"]
        response = responses.get(str(self.status)) or responses[f"{self.status // 100}XX"]
        schema: dict[str, Any] = response["content"][self.media_type]["schema"]
        return schema


class HeldNoise(CountingNoise):
    """Noise that is not drawn while it is held."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.goes_on.set()

    def sample(self, distribution: Distribution, scales: Sequence[int]) -> list[int]:
        assert self.goes_on.wait(scaled(20))
        return super().sample(distribution, scales)


class _Recorder:
    """Sends requests to one application, and keeps what it answers."""

    def __init__(self, world: World) -> None:
        self.world, self.api = world, world.api()
        self.answers: list[Recorded] = []

    def send(self, who: str | None, method: str, path: str, content: Any = None, **options: Any) -> httpx.Response:
        """Send a request, with a new key where it has none."""
        token = None if who is None else self.world.tokens[who]
        sent_before = sum(answer.method != "get" for answer in self.answers)  # how often a job is polled is chance
        key = options.pop("key", f"key-of-22-characters-or-more-{sent_before}")
        sent = {} if content is None else {"json": content}
        answer = self.api.request(method.upper(), path, token=token, key=key, **sent, **options)
        media_type = answer.headers.get("content-type", "")
        path = path.partition("?")[0]
        self.answers.append(Recorded(method, path, answer.status_code, media_type, answer.text))
        return answer


def record_life(folder: Path) -> list[Recorded]:
    """Live a curator's life on every route; return what was answered, in its order."""
    with open_world(folder / "life", noise=HeldNoise()) as world:
        life = _Recorder(world)
        for name in ("rita", "root"):
            world.add_token(name, *ADMIN)
        _read_declarations(life)
        _permit(life)
        _buy(life)
        _buy_without_space(life)
        _wait_for_jobs(life)
        _hold(life)
        _ask_questions(life)
        _survey(life)
        _set_limits(life)
        _identify(life)
        _spend_no_more(life)
        _register_the_same_people(life)
        _declare_whole_numbers(life)
        world.curator.keys.rotate("2026-03-02T00:00:00Z")
        for who, path in (("audra", "/v1/ledger/town"), ("audra", "/v1/ledger/valley"), ("ada", "/v1/keys")):
            life.send(who, "get", path)
        _seal_and_reconcile(life)
    return life.answers


def _read_declarations(life: _Recorder) -> None:
    for path in ("/healthz", "/readyz"):
        life.send(None, "get", path)
    for path in ("/v1/datasets", COHORT, f"{COHORT}/budget", "/v1/keys", "/v1/datasets/hidden", "/v1/ledger/town"):
        life.send("ada", "get", path)
    for path in ("/v1/ledger/town/checkpoint", "/v1/admin/seal"):
        life.send("audra", "get", path)


def _permit(life: _Recorder) -> None:
    """Ask for permits, of which one is granted and one refused, and for a change that only restricts."""
    asked = [life.send("ada", "post", "/v1/permits", TERMS | more).json() for more in ({}, {"project": "liver"})]
    for proposal, verdict in zip(asked, ("approve", "reject"), strict=True):
        decide = f"/v1/admin/proposals/{proposal['id']}/{verdict}"
        life.send("root", "post", decide, {"reason": "as discussed"})
    for limit in ({"mu": 1.0}, {"mu": 2.0}):
        life.send("root", "post", f"/v1/permits/{asked[0]['label']}", TERMS | {"limit": limit})
    change = life.send("ada", "post", f"/v1/permits/{asked[0]['label']}", TERMS).json()["id"]
    for who, path in (("ada", f"/v1/proposals/{change}"), ("audra", f"/v1/admin/proposals/{change}")):
        life.send(who, "get", path)
    for who in ("ada", "ben"):
        life.send(who, "post", f"/v1/proposals/{change}/withdraw", {"reason": "not now"})
    for path in ("/v1/proposals", f"/v1/proposals/{change}"):
        life.send("ada", "get", path)
    for who, path in (("ada", "/v1/permits"), ("root", "/v1/permits"), ("ada", f"/v1/permits/{asked[0]['label']}")):
        life.send(who, "get", path)
    for project in ("typo", "kidney"):
        life.send("ada", "post", f"{COHORT}/quotes", body(project=project))


def _identify(life: _Recorder) -> None:
    """Read the caller; change tokens; set and erase a displayed name; read the principals and the register."""
    for who in ("ada", "root"):
        life.send(who, "get", "/v1/me")
    life.send(None, "get", "/v1/sign-in")
    made = life.send("root", "post", "/v1/admin/tokens", {"name": "cleo", "roles": ["analyst"], "read_only": True})
    life.world.tokens["cleo"] = made.json()["token"]
    for roles in (["steward"], ["auditor"]):
        life.send("root", "post", "/v1/admin/tokens", {"name": "cleo", "roles": roles})
    new = life.send("cleo", "post", "/v1/me/token/rotate", {"grace_s": 60}).json()["id"]
    for _ in range(2):
        life.send("root", "post", f"/v1/admin/tokens/{new}/revoke")
    own = "/v1/principals/ada/display-name"
    for name in ("Ada Lovelace", "\u0410da Lovelace"):
        life.send("ada", "post", own, {"display_name": name, "email": "ada@hospital.example"})
    life.send("ben", "post", own, {"display_name": "Ada Lovelace"})
    life.send("ada", "get", "/v1/me")
    for who in ("ada", "ben"):
        life.send(who, "post", f"{own}/erase", {})
    trusted = providers(Documents(), now=life.world.clock)
    life.api.app.state.curator.identity.providers = trusted
    life.send(None, "get", "/v1/sign-in")
    life.world.tokens["mary"] = sign(claims(ga4gh_passport_v1=[visa()]))
    life.send("mary", "get", "/v1/me")
    for sub in ("1", "2"):
        life.world.tokens[sub] = sign(claims(sub=sub, azp="notebooks", oid="of-mary", tid="tenant"))
        life.send(sub, "get", "/v1/me")
    life.api.app.state.curator.identity.providers = providers(Documents(), now=life.world.clock, subject_claim="oid")
    for sub in ("1", "2"):
        life.send(sub, "get", "/v1/me")
    for path in ("/v1/admin/principals", "/v1/admin/tokens", "/v1/admin/register?limit=1000"):
        life.send("root", "get", path)


def _spend_no_more(life: _Recorder) -> None:
    """Look at spending, end the permit, and let people have a budget of their own."""
    for query in ("", "?by=analyst,month", "?by=nothing"):
        life.send("root", "get", f"/v1/admin/spending{query}")
    permit = next(p for p in life.send("ada", "get", "/v1/permits").json()["permits"] if p["project"])
    terms = TERMS | {"limit": {"mu": 1.0}, "expires_at": "2026-03-01T12:00:10Z"}
    life.send("root", "post", f"/v1/permits/{permit['id']}", terms)
    life.world.clock.advance(seconds=10)
    life.send("ada", "post", RELEASES, body(features=["dose"], project="kidney"))
    for who in ("root", "root"):
        life.send(who, "post", f"/v1/permits/{permit['id']}/end", {"reason": "over"})
    for who in ("ben", "nobody"):
        life.send("root", "post", "/v1/admin/permits/revoke", {"analyst": who, "dataset": "cohort", "reason": "over"})
    late = TERMS | {"project": "late", "expires_at": "2026-03-01T12:05:00Z"}
    asked = life.send("ada", "post", "/v1/permits", late).json()["id"]
    life.send("rita", "post", f"/v1/admin/proposals/{asked}/messages", {"text": "Why so late?"})
    life.send("ada", "post", f"/v1/proposals/{asked}/messages", {"text": "The study is short."})
    life.world.clock.advance(minutes=5)
    life.api.app.state.curator.approvals.expire_due()
    people = {"name": "city", "adjacency": "add_remove", "limit": {"mu": 1.0}, "reason": "a cohort"}
    proposal = life.send("root", "post", "/v1/admin/populations", people).json()["id"]
    life.send("rita", "post", f"/v1/admin/proposals/{proposal}/approve")
    life.send("root", "post", "/v1/admin/populations", people)
    for path in ("/v1/admin/populations", "/v1/ledger/city"):
        life.send("root", "get", path)
    for dataset in ("cohort", "nothing"):
        plain = {"analyst": "ben", "dataset": dataset, "reason": "a look"}
        life.send("root", "post", "/v1/admin/permits/grant", plain)


def _buy(life: _Recorder) -> None:
    """Quote and buy a release with every kind of term, and answers that follow from it."""
    features = ["age", "sex", "smoker", "height", "region"]
    asked = body(features=features, statistics=["xtx", "xty", "yty", "lambda_min"], **_BOX)
    post = partial(life.send, "ada", "post")
    post(f"{COHORT}/quotes", asked)
    bought = post(RELEASES, asked, key="bought")
    for again in (
        asked,
        body(features=features, **_BOX),
        body(features=["age", "smoker"], price={"mu": 0.01}, project="kidney", **_BOX),
    ):
        post(f"{COHORT}/quotes", again)
        post(RELEASES, again)
    post(f"{COHORT}/quotes", body(features=features, price={"mu": 0.06}, **_BOX))
    post(RELEASES, body(mechanism="laplace", price={"epsilon": 0.05}, project="kidney", **_BOX))
    post(RELEASES, body(price={"mu": 30.0}))
    post(RELEASES, body(mechanism="laplace", price={"epsilon": 30.0}))
    post(f"{COHORT}/quotes", body(features=["hair"]))
    table = [{"column": "age", "bins": 2}, {"column": "region", "missing": True}]
    counts = {"kind": "counts", "tables": [{"axes": table}], "price": {"mu": 0.02}}
    for asked in (counts, counts | {"tables": [{"axes": table[1:]}], "price": {"mu": 0.01}}):
        post(f"{COHORT}/quotes", asked)
        post(RELEASES, asked)
    for asked in _COMPUTED:
        post(f"{COHORT}/quotes", asked)
        post(RELEASES, asked)
    for page in ("", "?limit=1"):
        life.send("ada", "get", f"{RELEASES}{page}")
    path = bought.headers["location"]
    etag = life.send("ada", "get", path).headers["etag"]
    life.send("ada", "get", path, headers={"If-None-Match": etag})


def _buy_without_space(life: _Recorder) -> None:
    publisher = life.api.app.state.curator.releases.publisher
    most, publisher.answer_bytes_max = publisher.answer_bytes_max, 5000
    life.send("ada", "post", RELEASES, body(features=["ward"]))
    publisher.answer_bytes_max = most


def _wait_for_jobs(life: _Recorder) -> None:
    """Let a job be cancelled while it works, one paid from a reservation too, and another be done."""
    send = partial(life.send, "ada", "post", RELEASES, headers={"Prefer": "respond-async"})
    life.world.noise.goes_on.clear()
    reservation = _reserve(life)
    cancelled, done = (send(_PASS | {"price": {"mu": mu}}).headers["location"] for mu in (0.02, 0.03))
    send(_PASS)
    life.send("ada", "get", cancelled)
    for path in ("/v1/jobs", "/v1/reservations"):
        life.send("root", "get", path)
    for _ in range(2):
        life.send("ada", "delete", cancelled)
    life.send("ada", "delete", send(_PASS | {"fresh": True, "reservation": reservation}).headers["location"])
    life.world.noise.goes_on.set()
    end = time.monotonic() + scaled(20)
    while life.send("ada", "get", done).json()["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)


def _reserve(life: _Recorder) -> str:
    reservation = {"price": {"mu": 0.06}, "expires_in_s": 3600, "project": "kidney"}
    reservation_id: str = life.send("ada", "post", f"{COHORT}/reservations", reservation).json()["id"]
    return reservation_id


def _hold(life: _Recorder) -> None:
    reservation_id = _reserve(life)
    life.send("ada", "post", RELEASES, body(features=["weight"], fresh=True, reservation=reservation_id))
    for method in ("get", "delete"):
        life.send("ada", method, f"/v1/reservations/{reservation_id}")
    life.send("ada", "post", RELEASES, body(features=["weight"], fresh=True, reservation=reservation_id))


def _ask_questions(life: _Recorder) -> None:
    """Let a session be quoted, opened, asked, shown, closed, and refused afterwards."""
    asked = {"positives": 1, "direction": "any", "price": {"epsilon": 0.001}, "project": "kidney"}
    life.send("ada", "post", f"{COHORT}/sessions/quotes", asked)
    opened = life.send("ada", "post", f"{COHORT}/sessions", asked).json()["id"]
    question = {
        "where": {"less": ["age", 70]},
        "weight": {"divide": ["kappa", 6]},
        "share": True,
        "threshold": 0.9,
        "direction": "above",
    }
    life.send("ada", "post", f"/v1/sessions/{opened}/questions", question)
    for who, path in (("root", "/v1/sessions"), ("ada", f"/v1/sessions/{opened}")):
        life.send(who, "get", path)
    life.send("ada", "delete", f"/v1/sessions/{opened}")
    life.send("ada", "post", f"/v1/sessions/{opened}/questions", question)
    life.send("ada", "get", f"/v1/sessions/ses_{'0' * 24}")


def _survey(life: _Recorder) -> None:
    """Let a survey be opened, answered, refused, read and closed."""
    question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    at, report = "/v1/surveys/smoking", {"question": question.digest, "token": "0" * 32, "answer": 1}
    for _ in range(2):
        life.send("root", "post", "/v1/surveys", survey_terms("smoking", question, reports_max=2))
    bits = UnaryEncoding({"ward": ["a", "b"]}, epsilon=1)
    life.send("root", "post", "/v1/surveys", survey_terms("wards", bits, reports_max=2, participants="anyone"))
    invited = life.send("root", "post", f"{at}/invitations", {}).json()["invitations"]
    life.send("ada", "post", f"{at}/reports", report)
    for token in ("0" * 32, "1" * 32):
        life.send("ada", "post", f"{at}/reports", report | {"token": token, "invitation": invited[0]})
    for path in ("/v1/surveys", at, f"{at}/reports", "/v1/surveys/other"):
        life.send("ada", "get", path)
    life.send("root", "post", f"{at}/close")
    life.send("ada", "post", f"{at}/reports", report | {"token": "1" * 32, "invitation": invited[1]})


def _set_limits(life: _Recorder) -> None:
    limits, proposals = "/v1/admin/populations/town/limits", "/v1/admin/proposals"
    for mu in (0.23, 0.01):
        life.send("root", "post", limits, {"limit": {"mu": mu}, "reason": "a share"})
    for verdict in ("approve", "reject"):
        raised = {"limit": {"mu": 0.235 if verdict == "approve" else 3.0}, "reason": "a second study"}
        proposal = life.send("root", "post", limits, raised).json()["id"]
        life.send("root", "get", f"{proposals}/{proposal}")
        for who in ("root", "rita"):
            life.send(who, "post", f"{proposals}/{proposal}/{verdict}")
    life.send("root", "get", proposals)


def _register_the_same_people(life: _Recorder) -> None:
    """Register rows that are like another population's: refused, until two admins say that they are of others."""
    world = life.world
    manifest, rows = world.folder / "twins.toml", world.folder / "twins.csv"
    manifest.write_text(manifest_text("twins", "valley"), encoding="utf-8")
    rows.write_text(csv_text(ROWS), encoding="utf-8")
    for name in ("", "root"):
        admin = world.curator.identity.authenticate(f"Bearer {world.tokens[name]}") if name else None
        other_people = None if admin is None else OtherPeople(admin, "their twins")
        with pytest.raises(RegistrationError):
            world.curator.datasets.register(manifest, rows, actor="operator:test", other_people=other_people)
    for proposal in life.send("root", "get", "/v1/admin/proposals").json()["proposals"]:
        if proposal["scope"] == "rows":
            life.send("rita", "post", f"/v1/admin/proposals/{proposal['id']}/approve")


def _declare_whole_numbers(life: _Recorder) -> None:
    world = life.world
    manifest, rows = world.folder / "counted.toml", world.folder / "counted.csv"
    columns = [("admissions", "numeric", "complete", (0.0, 9.0), COUNTED)]
    manifest.write_text(manifest_text("counted", "valley", columns=columns), encoding="utf-8")
    rows.write_text("admissions\n" + "1\n0\n4\n" * 9, encoding="utf-8")
    world.curator.datasets.register(manifest, rows, actor="operator:test")
    life.send("root", "get", "/v1/datasets/counted")


def _seal_and_reconcile(life: _Recorder) -> None:
    ledger = life.world.curator.ledger
    ledger.guard.seal("a reason")
    life.send(None, "get", "/readyz")
    life.send("audra", "get", "/v1/admin/seal")
    life.send("ada", "post", RELEASES, body(features=["ward"], fresh=True))
    lost = Checkpoint("town", 1000, "0" * 64, 1, 10**11, 10**11, 0, life.world.curator.keys.list_keys()[-1].key_id)
    signed = SignedCheckpoint(lost, life.world.curator.keys.signer(lost.entry_hash).sign(lost))
    reconcile(ledger, [signed], actor="operator:test", anchor_lost=True)
    life.send("audra", "get", "/v1/ledger/town?after=3&limit=1000&words=true")
    asked = life.send("audra", "get", "/v1/admin/populations/town/questions?limit=3").json()["questions"]
    life.send("audra", "get", f"/v1/admin/questions/{asked[-1]['release']}")
    life.send("audra", "get", "/v1/admin/register?limit=1000")
    _look_at_health(life)


def _look_at_health(life: _Recorder) -> None:
    """Look as an operator does; of a machine of which what is free is known, or nothing is."""
    health = life.api.app.state.curator.health
    before, data_dir = life.world.clock().timestamp() - 600, life.world.settings.data_dir
    health.memory, health.disks = (lambda: 60), (lambda: {"data": 40})
    life.send("root", "get", "/v1/admin/health")
    health.samples.add(before, Sample(40, 2, 1, 60, 40))
    health.samples.add(before - 600, Sample(3))
    note_findings(data_dir, [Finding("arithmetic", "well", "is what the proofs assume")])
    note(data_dir, Milestone.BACKUP_WRITTEN)
    for noted in (data_dir / "doctor", data_dir / Milestone.BACKUP_WRITTEN):
        os.utime(noted, (before, before))
    life.send("root", "get", "/v1/admin/health")


_GOLDEN_PATHS = {
    "quote": ("post", "quotes"),
    "release": ("post", "releases"),
    "what it declares": ("get", ""),
    "what is left": ("get", "budget"),
}


def read_golden() -> Iterator[Recorded]:
    """Yield what this version is held to answer: every accountant, adjacency, mechanism and formula."""
    told = json.loads((TESTS / "golden" / "releases.json").read_text(encoding="utf-8"))["told"]
    for name, step in told.items():
        dataset, _, what = name.partition(": ")
        for word, (method, place) in _GOLDEN_PATHS.items():
            if what.startswith(word):
                problem = "problem+" if step["status"] >= 400 else ""
                path = f"/v1/datasets/{dataset}/{place}".rstrip("/")
                yield Recorded(method, path, step["status"], f"application/{problem}json", step["body"])
