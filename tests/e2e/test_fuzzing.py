"""Requests that the OpenAPI document allows, and others, with tokens of every role, to a real server.

Nothing answers with an error of the server, everything fits what is documented, no answer holds a value of a row or a
token of somebody, and the ledger holds afterwards. `make fuzz` goes on for as long as it is told, on either database,
from another seed each time; the seed of a round is printed, and is all that it takes to do the round again.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from canaries import Canaries
from deployments import Deployment
from guarded_world import PEOPLE, Guarded, guarded_world
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from process_factory import ProcessFactory
from support import COLUMNS
from test_operations import Service, served

from curator_service.identity.policy import Role
from curator_service.kinds.registry import KINDS
from curator_service.privacy.accountant import Price

pytestmark = [pytest.mark.slow, pytest.mark.crashes]

SECONDS, SEED = "CURATOR_TEST_FUZZ_SECONDS", "CURATOR_TEST_FUZZ_SEED"
SPENDING = {f"/v1/datasets/{{name}}/{what}" for what in ("quotes", "releases")}
SESSIONS, QUESTIONS = "/v1/datasets/{name}/sessions", "/v1/sessions/{session_id}/questions"
EXAMPLES_MORE, EXAMPLES, EXAMPLES_LESS = 30, 12, 6
"""Requests of an operation in a round, as documented, and as many otherwise: what spends, what has a body, others."""
BUSY_AGAIN = 3
"""How often a request is sent again that was told so: what is busy for good is an error by another name."""
NAMES = [name for name, *_ in COLUMNS]
WORDS: dict[str, list[Any]] = {
    "features": NAMES, "targets": ["kappa", "lambda", "alive"], "column": NAMES, "columns": NAMES,
    "people": ["ada", "ben", "cleo"], "datasets": ["cohort", "twin", "hidden"], "project": ["kidney", "liver", ""],
    "expires_at": ["2199-01-01T00:00:00Z", "2027-06-01T00:00:00+02:00"], "name": ["town", "newcomer", "eve"],
    "price": [{"mu": 0.01}, {"epsilon": 0.01, "delta": 1e-9}, {"rho": 1e-5}],
}  # fmt: skip
"""What is known here, by the member of a body: else nearly every request would end at its first name."""
LIMIT = {"limit": {"epsilon": 1e3, "delta": 1e-6}, "reason": "more"}
TERMS = {
    "project": "kidney", "people": ["ada"], "datasets": ["cohort"], "purpose": "p", "legal_basis": "l", "reason": "r",
    "expires_at": "2199-01-01T00:00:00Z",
}  # fmt: skip
HELD = {"price": {"mu": 0.01}, "expires_in_s": 600}
SESSION = {"positives": 9, "direction": "any", "price": {"epsilon": 0.01}}
QUESTION = {"where": {"greater": ["age", 50]}, "threshold": 9, "direction": "above"}
EXAMPLES_OF: dict[str, list[dict[str, Any]]] = {
    "/v1/datasets/{name}/quotes": [kind.example for kind in KINDS],
    "/v1/datasets/{name}/releases": [kind.example for kind in KINDS],
    "/v1/datasets/{name}/reservations": [HELD],
    SESSIONS: [SESSION], f"{SESSIONS}/quotes": [SESSION], QUESTIONS: [QUESTION],
    "/v1/permits": [TERMS],
    "/v1/permits/{permit_id}": [TERMS],
    "/v1/admin/populations": [LIMIT | {"name": "newcomer", "adjacency": "add_remove"}],
    "/v1/admin/populations/{population}/limits": [LIMIT],
    "/v1/permits/{permit_id}/end": [{"reason": "over"}],
    "/v1/admin/tokens": [{"name": "newcomer", "roles": ["analyst"]}],
}  # fmt: skip
"""Bodies from which others are made by changing one member, which leads further than a body that was made up whole."""
PLACES = {
    "name": [*["cohort"] * 4, "twin", "private", "hidden", "nothing"],
    "population": ["town", "valley", "hill", "nowhere", "_register"],
}
ENTERED = {
    (f"POST {SESSIONS}", 201): "session", (f"POST {QUESTIONS}", 201): "answer",
    ("DELETE /v1/sessions/{session_id}", 200): "close",
}  # fmt: skip
"""What adds an entry of a kind, and nothing else does."""
ANSWERED = {
    ("POST /v1/datasets/{name}/quotes", 200), ("POST /v1/datasets/{name}/releases", 201),
    ("POST /v1/datasets/{name}/reservations", 201), ("POST /v1/permits", 202), ("GET /v1/releases/{release_id}", 200),
    ("GET /v1/ledger/{population}", 200), ("GET /v1/admin/tokens", 200), ("POST /v1/admin/tokens", 201),
    ("POST /v1/permits/{permit_id}/end", 200), ("POST /v1/admin/populations", 202),
    (f"POST {SESSIONS}/quotes", 200), ("GET /v1/sessions/{session_id}", 200),
} | set(ENTERED)  # fmt: skip
"""What somebody is told in a run: else it would show that a closed door is closed."""
CHECKED = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection",
]  # fmt: skip


def season(value: Any, chance: random.Random, reservations: list[str]) -> Any:
    """Put what is known here into a body, in half of its places."""
    if isinstance(value, list):
        return [season(one, chance, reservations) for one in value]
    if not isinstance(value, dict):
        return value
    known, found = WORDS | {"reservation": reservations}, {}
    for name, one in value.items():
        words = known.get(name)
        if not words or chance.random() < 0.5:
            found[name] = season(one, chance, reservations)
        elif isinstance(one, list):
            found[name] = chance.sample(words, min(len(words), chance.randint(1, 3)))
        else:
            found[name] = chance.choice(words)
    return found


class Attack:
    """A server, whoever calls it, and what was found.

    Parameters
    ----------
    guarded : Guarded
    service : Service
    """

    def __init__(self, guarded: Guarded, service: Service) -> None:
        self.guarded, self.service, identity = guarded, service, guarded.world.curator.identity
        self.session = requests.Session()
        self.session.trust_env = False
        self.tokens = {who: guarded.world.tokens[who] for who in ("ada", "ben", "stella", "olga", "audra", "opal")}
        self.tokens["ada, who only looks"] = identity.create_token("ada", Role.ANALYST, read_only=True).text
        self.tokens["nobody"] = ""
        self.canaries = Canaries()
        self.found: dict[tuple[str, str], str] = {}
        self.answers: Counter[tuple[str, int]] = Counter()
        self._let_in: dict[str, list[str]] = {}
        self._opened: list[tuple[str, str]] = []
        self._entered: set[tuple[str, str]] = set()
        self._before = self._count_entries()

    def _address(self, name: str, chance: random.Random) -> str:
        """Return something that an address can name."""
        if name in PLACES:
            return chance.choice(PLACES[name])
        objects = self.guarded.objects[name.removesuffix("_id")]
        return chance.choice([one.make(is_new=False) for one in objects.values()])

    def _prepare(self, case: Any, chance: random.Random) -> tuple[str, bool]:
        """Turn a request towards what is there; return who sends it, and whether its body is as it was made up."""
        label, path, body = case.operation.label, case.operation.path, case.body
        for name in case.path_parameters or {}:
            if chance.random() < 0.85:
                case.path_parameters[name] = self._address(name, chance)
        if path == "/v1/permits/{permit_id}/end" and chance.random() < 0.5:
            case.path_parameters["permit_id"] = self.guarded.objects["permit to end"]["own"].make()
        if isinstance(case.body, dict | list) and chance.random() < 0.8:
            held = [one.make(is_new=False) for one in self.guarded.objects["reservation"].values()]
            example = chance.choice(EXAMPLES_OF.get(path, [{}]))
            if not example or not isinstance(case.body, dict) or chance.random() < 0.3:
                case.body = season(case.body, chance, held)
            elif chance.random() < 0.5:
                changed = chance.sample(sorted(case.body, key=repr), min(len(case.body), 1))
                case.body = season(example | {name: case.body[name] for name in changed}, chance, held)
            else:
                case.body = example | ({"price": chance.choice(WORDS["price"])} if path in SPENDING else {})
        let_in = self._let_in.get(label, [])
        who = chance.choice(let_in if let_in and chance.random() < 0.75 else list(self.tokens))
        if path == QUESTIONS and self._opened and chance.random() < 0.5:
            who, case.path_parameters["session_id"] = chance.choice(self._opened)
        if chance.random() < 0.9:
            case.headers = {**case.headers, "Authorization": f"Bearer {self.tokens[who]}"}
        if case.method == "POST" and chance.random() < 0.9:
            case.headers = {**case.headers, "Idempotency-Key": f"key{chance.randrange(10**9)}"}
        return str(who), case.body is body

    def send(self, case: Any, chance: random.Random) -> None:
        """Send one request, and hold its answer against the document."""
        from schemathesis import checks

        (who, is_whole), label = self._prepare(case, chance), case.operation.label
        answer = case.call(base_url=self.service.url, session=self.session, timeout=60)
        for _ in range(BUSY_AGAIN):
            if answer.status_code != 503 or answer.json()["type"] != "/problems/busy":
                break
            time.sleep(1)  # as it asks
            answer = case.call(base_url=self.service.url, session=self.session, timeout=60)
        self.answers[label, answer.status_code] += 1
        if answer.status_code == 403 and "needed_role" in answer.json():
            needed = answer.json()["needed_role"]
            self._let_in[label] = [one for one, roles in PEOPLE.items() if {*roles} & {*needed}]
        if label == "POST /v1/me/token/rotate" and answer.status_code == 201:
            self.tokens[who] = answer.json()["token"]
        if kind := ENTERED.get((label, answer.status_code)):
            self._entered.add((kind, answer.text))
            self._opened += [(who, answer.json()["id"])] if kind == "session" else []
        wrong = list(self._judge(answer, label))
        try:
            case.validate_response(answer, checks=checks.CHECKS.get_by_names(CHECKED))
        except BaseExceptionGroup as group:
            told = [f"{type(one).__name__}: {one}" for one in group.exceptions]
            # What is refused is refused; and what a query names and nobody reads is let pass, as HTTP has it.
            is_fine = answer.status_code >= 400 or not case.operation.body or not is_whole
            wrong += [one for one in told if not (is_fine and one.startswith("AcceptedNegativeData"))]
        for one in wrong:
            sent = f"{who}: {case.as_curl_command(base_url=self.service.url)}"
            text = f"{one}\n{sent}\n{answer.status_code} {answer.text[:600]}"
            self.found.setdefault((label, one.partition("\n")[0][:80]), text)

    def _judge(self, answer: Any, label: str) -> Iterator[str]:
        """Yield what is wrong with any answer, whatever was asked."""
        headers = {name: "".join(values) for name, values in answer.headers.items()}
        is_problem = headers.get("content-type", "") == "application/problem+json"
        if is_problem and answer.json()["instance"] != headers["x-request-id"]:
            yield "the problem is of another request"
        if answer.status_code >= 500:
            yield "an error of the server"
        if headers["cache-control"] not in {"no-store", "private, no-cache"}:
            yield "an answer may be kept by others"
        if label not in {"POST /v1/me/token/rotate", "POST /v1/admin/tokens"} and "zip" not in headers["content-type"]:
            self.canaries.search(answer.text, "an answer")
        self.canaries.search("\n".join(headers.values()), "a header")
        yield from self.canaries.take()

    def fuzz(self, operation: Any, mode: Any, number: int) -> None:
        """Send requests of one operation, as documented or not."""
        # Not of Hypothesis, which begins with what is small, and again and again with the same.
        chance = random.Random(f"{number} {operation.label} {mode}")

        count = EXAMPLES_MORE if operation.path in SPENDING else EXAMPLES if operation.body else EXAMPLES_LESS

        @seed(number)
        @settings(
            max_examples=count, phases=[Phase.generate], database=None, deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            self.send(case, chance)

        try:
            send()
        except Unsatisfiable:  # what nothing can be sent to, nothing can be sent to otherwise
            assert operation.path in {"/healthz", "/readyz", "/v1/sign-in", "/v1/surveys/{survey}"}, operation.label

    def _count_entries(self) -> Counter[str]:
        ledger, kinds = self.guarded.world.curator.ledger, set(ENTERED.values())
        chains = [ledger.list_entries(one.name, count=10**6) for one in ledger.list_populations()]
        return Counter(entry["kind"] for chain in chains for entry in chain if entry["kind"] in kinds)

    def check_entries(self) -> None:
        """Check that every answer about a session has its entry, and no refusal has one."""
        assert self._count_entries() - self._before == Counter(kind for kind, _ in self._entered)

    def report(self) -> str:
        """Return what was found, in all."""
        return "\n\n".join(self.found.values())


@contextmanager
def attacked(folder: Path, process_factory: ProcessFactory, url: str | None) -> Iterator[Attack]:
    """Serve a world to be attacked; afterwards the log, the ledger and the state must be as if nobody had been."""
    with guarded_world(folder, passes=False, limit=Price(mu=5.0), url=url) as guarded:
        curator = guarded.world.curator
        town = Deployment(guarded.world, process_factory, folder, "", dict(guarded.world.tokens))
        with served(town) as service:
            yield Attack(guarded, service)
            assert httpx.get(f"{service.url}/readyz").status_code == 200
        failures = [line for line in service.lines if line["level"] == "error" or line["event"] == "failure"]
        assert failures == []
        assert "Traceback" not in service.text
        assert curator.ledger.guard.reason() == ""
        names = [population.name for population in curator.ledger.list_populations()]
        assert {"town", "valley", "harbour", "hill"} <= set(names)
        for name in [*names, "_register"]:
            found = curator.ledger.verify(name)
            assert found.ok, found
        assert all(guarded.world.discrepancies(name) == [] for name in names)


def spend(attack: Attack) -> None:
    """Attack for as long as it was told, and for one round at least."""
    import schemathesis

    document = httpx.get(f"{attack.service.url}/openapi.json").json()
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    assert len(operations) == len([0 for item in document["paths"].values() for _ in item])
    number, end = int(os.environ.get(SEED, "1")), time.monotonic() + float(os.environ.get(SECONDS, "0"))
    while True:
        print(f"{SEED}={number}", flush=True)
        for operation in operations:
            for mode in schemathesis.GenerationMode:
                attack.fuzz(operation, mode, number)
        assert not attack.found, f"{SEED}={number}\n{attack.report()}"
        number += 1
        if time.monotonic() >= end:
            break
    attack.check_entries()
    assert set(attack.answers) >= ANSWERED, sorted(ANSWERED - set(attack.answers))


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)][: 2 if SECONDS in os.environ else 1]
)
def url(request: pytest.FixtureRequest) -> str | None:
    """Return a fresh database's URL; None is the embedded one, and enough for one round."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_no_answer_is_other_than_documented(
    tmp_path: Path, process_factory: ProcessFactory, url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For permits that are granted here, to be ended; the server, a process of its own, keeps to what people may.
    monkeypatch.setattr("curator_service.approvals.service.MADE_PER_DAY_MAX", 10**6)
    with attacked(tmp_path, process_factory, url) as attack:
        spend(attack)
