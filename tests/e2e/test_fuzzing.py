"""Whatever the OpenAPI document lets somebody send, and what it does not, with tokens of every role, to a real server.

Nothing answers with an error of the server, everything fits what is documented, no answer holds a value of a row, and
the ledger holds afterwards. `make fuzz` goes on for as long as it is told, from another seed each time.
"""

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from deployments import Deployment
from guarded_world import Guarded, guarded_world
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from process_factory import ProcessFactory
from support import COLUMNS
from test_operations import Service, served

from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.slow

SECONDS, SEED = "CURATOR_TEST_FUZZ_SECONDS", "CURATOR_TEST_FUZZ_SEED"
EXAMPLES = int(os.environ.get("EX","8"))
"""Of each operation, kind of data and round."""
OPERATION_MAX_S = 30.0
NAMES = [name for name, *_ in COLUMNS]
WORDS: dict[str, list[Any]] = {
    "features": NAMES, "targets": ["kappa", "lambda", "alive"], "column": NAMES, "columns": NAMES,
    "people": ["ada", "ben", "cleo"], "datasets": ["cohort", "twin", "hidden"], "project": ["kidney", "liver", ""],
    "expires_at": ["2199-01-01T00:00:00Z", "2027-06-01T00:00:00+02:00"], "name": ["town", "newcomer", "eve"],
    "price": [{"mu": 0.01}, {"epsilon": 0.01, "delta": 1e-9}, {"rho": 1e-5}],
}  # fmt: skip
"""What is known here, by the member of a body: else nearly every request would end at its first name."""
PLACES = {
    "name": ["cohort", "twin", "private", "hidden", "nothing"],
    "population": ["town", "valley", "hill", "nowhere", "_register"],
}
EXPECTED_BUSY = {"/problems/busy"}
"""What a server may say of itself without being at fault."""


def season(value: Any, chance: random.Random, reservations: list[str]) -> Any:
    """Put what is known here into a body, in half of its places."""
    if isinstance(value, list):
        return [season(one, chance, reservations) for one in value]
    if not isinstance(value, dict):
        return value
    known = WORDS | {"reservation": reservations}
    found = {}
    for name, one in value.items():
        words = known.get(name)
        if words and chance.random() < 0.6:
            found[name] = chance.choice(words)
            if isinstance(one, list):
                found[name] = chance.sample(words, min(len(words), chance.randint(1, 3)))
        else:
            found[name] = season(one, chance, reservations)
    return found


class Attack:
    """A server, whoever calls it, and what was found.

    Parameters
    ----------
    guarded : Guarded
    service : Service
    """

    def __init__(self, guarded: Guarded, service: Service) -> None:
        self.guarded, self.service = guarded, service
        self.session = requests.Session()
        self.session.trust_env = False
        self.tokens = {who: guarded.world.tokens[who] for who in ("ada", "ben", "stella", "olga", "audra", "opal")}
        self.tokens |= {"nobody": "", "looks": guarded.world.curator.identity.create_token("ada", Role.ANALYST, read_only=True).text}
        self.found: dict[tuple[str, str], str] = {}
        self.answers: dict[tuple[str, int], int] = {}

    def address(self, name: str, chance: random.Random) -> str:
        """Return something that an address can name."""
        kind = name.removesuffix("_id")
        if name in PLACES:
            return chance.choice(PLACES[name])
        return chance.choice([one.make(is_new=False) for one in self.guarded.objects[kind].values()])

    def send(self, case: Any, number: int) -> None:
        """Send one request, and hold its answer against the document."""
        from schemathesis import checks

        chance = random.Random(number)
        for name in case.path_parameters or {}:
            if chance.random() < 0.7:
                case.path_parameters[name] = self.address(name, chance)
        if isinstance(case.body, dict | list) and chance.random() < 0.8:
            held = [one.make(is_new=False) for one in self.guarded.objects["reservation"].values()]
            case.body = season(case.body, chance, held)
        who = chance.choice(list(self.tokens))
        if case.operation.path.endswith("/end") and chance.random() < 0.9:
            case.path_parameters["permit_id"] = self.guarded.objects["permit to end"]["own"].make()
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if self.tokens[who] else {}
        if case.method == "POST" and chance.random() < 0.8:
            headers["Idempotency-Key"] = f"key{chance.randrange(10**9)}"
        answer = case.call(base_url=self.service.url, session=self.session, headers=headers, timeout=60)
        label = case.operation.label
        self.answers[label, answer.status_code] = self.answers.get((label, answer.status_code), 0) + 1
        if label.startswith("POST /v1/me/token/rotate") and answer.status_code == 201:
            self.tokens[who] = answer.json()["token"]
        wrong = list(self.judge(answer))
        try:
            case.validate_response(answer, checks=checks.CHECKS.get_by_names(CHECKED + BODIES * bool(case.operation.body)), headers=headers)
        except BaseExceptionGroup as group:
            wrong += [f"{type(one).__name__}: {one}" for one in group.exceptions]
        for one in wrong:
            text = f"{one}\n{who}: {case.as_curl_command(base_url=self.service.url)}\n{answer.status_code} {answer.text[:600]}"
            self.found.setdefault((label, one.partition("\n")[0][:80]), text)

    def judge(self, answer: Any) -> Iterator[str]:
        """Yield what is wrong with any answer, whatever was asked."""
        if answer.headers["content-type"][0].startswith("application/problem+json"):
            content = answer.json()
            if content["instance"] != answer.headers["x-request-id"][0]:
                yield "the problem is of another request"
            if answer.status_code >= 500 and content["type"] not in EXPECTED_BUSY:
                yield f"an error of the server: {content['type']}"
        elif answer.status_code >= 500:
            yield "an error of the server"
        if answer.headers["cache-control"] not in (["no-store"], ["private, no-cache"]):
            yield "an answer may be kept by others"


CHECKED = [
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance",
]  # fmt: skip
BODIES = ["negative_data_rejection"]
"""Of what has a body: what a query names and nobody reads is let pass, as HTTP has it."""


@pytest.fixture
def attack(tmp_path: Path, process_factory: ProcessFactory) -> Iterator[Attack]:
    with guarded_world(tmp_path, passes=False, limit=Price(mu=5.0)) as guarded:
        town = Deployment(guarded.world, process_factory, tmp_path, "", dict(guarded.world.tokens))
        with served(town) as service:
            yield Attack(guarded, service)


def test_no_answer_is_other_than_documented(attack: Attack) -> None:
    import schemathesis

    document = httpx.get(f"{attack.service.url}/openapi.json").json()
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    first, seconds = int(os.environ.get(SEED, "0")), float(os.environ.get(SECONDS, "0"))
    end, number = time.monotonic() + seconds, first
    while True:
        print(f"{SEED}={number}", flush=True)
        for operation in operations:
            for mode in schemathesis.GenerationMode:
                fuzz(attack, operation, mode, number)
        number += 1
        if attack.found or time.monotonic() >= end:
            break
    for key, n in sorted(attack.answers.items()): print(key, n)
    report = "\n\n".join(attack.found.values())
    assert not attack.found, f"{SEED}={number - 1}\n{report}"


def fuzz(attack: Attack, operation: Any, mode: Any, number: int) -> None:
    """Send requests of one operation, as documented or not."""
    from hypothesis.errors import Unsatisfiable

    @seed(number)
    @settings(
        max_examples=EXAMPLES, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(operation.as_strategy(generation_mode=mode), st.integers(0, 2**32))
    def send(case: Any, chance: int) -> None:
        attack.send(case, chance)

    try:
        send()
    except Unsatisfiable:  # where nothing can be sent, nothing can be sent otherwise
        assert operation.path in {"/healthz", "/readyz", "/v1/sign-in"}, operation.label
