"""Two worker processes behind real sockets: a budget is never overspent, a key never charged twice."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from deployments import two_workers
from patience import scaled
from process_factory import ProcessFactory
from support import World, body, make_rows, open_population, open_world, service_url

from curator_service.privacy.accountant import Price

pytestmark = pytest.mark.slow

Answers = list[httpx.Response]
ANALYSTS = tuple(f"analyst-{i}" for i in range(10))
SCENARIOS = ("one_analyst", "ten_analysts", "one_key", "same_request")
ROWS = ("box", "ball")  # a charge at once, and a reservation that is posted after a pass over rows
PATHS = pytest.mark.parametrize("rows", ROWS, ids=["at once", "pass"])


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, process_factory: ProcessFactory
) -> Iterator[tuple[World, str]]:
    """Serve one world from two workers: a dataset with a population of its own for each scenario and path."""
    url = None if request.param == "sqlite" else request.getfixturevalue("module_postgres_url")
    folder = tmp_path_factory.mktemp("served")
    with open_world(folder, url=url, analysts=ANALYSTS, moment=datetime.now(UTC)) as world:
        for seed, (scenario, rows) in enumerate(itertools.product(SCENARIOS, ROWS), start=100):
            name = f"{scenario}_{rows}"
            open_population(world.curator, name, Price(rho=0.5))  # ten requests of rho = 0.05
            dataset = world.register(f"of_{name}", name, make_rows(40, seed=seed))
            for analyst in ANALYSTS:
                world.grant(analyst, dataset)
        environment = {
            "CURATOR_DATA_DIR": str(world.settings.data_dir),
            "CURATOR_REQUESTS_PER_MINUTE": "1000000",
            "CURATOR_KEYS_PER_DAY": "1000000",
        }
        if url is not None:
            environment["CURATOR_DATABASE_URL"] = service_url(url)
        with two_workers(process_factory, "curator_service.app:create_app", environment, folder / "log") as address:
            yield world, address


async def ask(client: httpx.AsyncClient, dataset: str, token: str, key: str, request: dict[str, Any]) -> Answers:
    """Send a request, and again with the same key while it, or too much else, is worked on, as every client does."""
    answers: Answers = []
    deadline = time.monotonic() + scaled(60)
    while not answers or (is_for_later(answers[-1]) and time.monotonic() < deadline):
        if answers:
            assert answers[-1].headers["retry-after"] == "1"
            await asyncio.sleep(0.2)
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
        answers.append(await client.post(f"/v1/datasets/{dataset}/releases", json=request, headers=headers))
    return answers


def is_for_later(answer: httpx.Response) -> bool:
    return answer.status_code == 429 or is_in_progress(answer)


def is_in_progress(answer: httpx.Response) -> bool:
    return answer.status_code == 409 and answer.json()["type"] == "/problems/release-in-progress"


def send_together(
    url: str, dataset: str, tokens_and_keys: list[tuple[str, str]], *, rows: str, fresh: bool
) -> list[Answers]:
    """Send every request at once, each on a connection of its own; return all that each was told."""
    # A tenth of what an account of rho = 0.5 holds.
    request = body(targets=[], rows={"map": rows}, statistics=["xtx"], price={"rho": 0.05}, fresh=fresh)

    async def send() -> list[Answers]:
        limits = httpx.Limits(max_connections=len(tokens_and_keys))
        async with httpx.AsyncClient(base_url=url, timeout=scaled(60), limits=limits) as client:
            return await asyncio.gather(*(ask(client, dataset, token, key, request) for token, key in tokens_and_keys))

    return asyncio.run(send())


def charges(world: World, population: str) -> list[int]:
    """Return what the chain says was charged, after verifying it."""
    verification = world.curator.ledger.verify(population)
    assert verification.ok, verification
    assert world.discrepancies(population) == []
    units = [int(e["units"]) for e in world.entries(population) if e["kind"] == "charge"]
    account = world.account(population)
    assert sum(units) == account.posted <= account.limit
    assert account.pending == 0
    return units


@PATHS
@pytest.mark.parametrize("scenario", ["one_analyst", "ten_analysts"])
def test_a_budget_for_ten_grants_exactly_ten_of_fifty(served: tuple[World, str], scenario: str, rows: str) -> None:
    world, url = served
    analysts = ANALYSTS[:1] if scenario == "one_analyst" else ANALYSTS
    senders = [(world.tokens[analysts[i % len(analysts)]], f"{scenario}-{rows}-{i}") for i in range(50)]
    told = send_together(url, f"of_{scenario}_{rows}", senders, rows=rows, fresh=True)
    answers = [last for *_earlier, last in told]
    # Fresh draws under keys of their own wait for nobody's answer, for a place at most.
    assert {answer.status_code for *earlier, _last in told for answer in earlier} <= {429}
    codes = [answer.status_code for answer in answers]
    assert (codes.count(201), codes.count(409)) == (10, 40), codes
    assert {a.json()["type"] for a in answers if a.status_code == 409} == {"/problems/budget-exceeded"}
    assert len(charges(world, f"{scenario}_{rows}")) == 10
    assert len({a.json()["id"] for a in answers if a.status_code == 201}) == 10


@PATHS
def test_fifty_requests_with_one_key_charge_once_and_get_the_same_bytes(served: tuple[World, str], rows: str) -> None:
    world, url = served
    senders = [(world.tokens["analyst-0"], f"the-key-{rows}")] * 50
    told = send_together(url, f"of_one_key_{rows}", senders, rows=rows, fresh=True)
    answers = [last for *_earlier, last in told]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sorted(a.headers["curator-answer"] for a in answers) == ["new"] + ["replayed"] * 49
    assert len(charges(world, f"one_key_{rows}")) == 1
    assert_told_of_one_job(told, rows)


@PATHS
def test_fifty_equal_requests_of_several_analysts_charge_once(served: tuple[World, str], rows: str) -> None:
    world, url = served
    senders = [(world.tokens[ANALYSTS[i % 10]], f"same-{rows}-{i}") for i in range(50)]
    told = send_together(url, f"of_same_request_{rows}", senders, rows=rows, fresh=False)
    answers = [last for *_earlier, last in told]
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert len({answer.content for answer in answers}) == 1
    assert len(charges(world, f"same_request_{rows}")) == 1
    assert_told_of_one_job(told, rows)


def assert_told_of_one_job(told: list[Answers], rows: str) -> None:
    """Assert that whoever came while it was worked on was told so, and of one job; at once, nothing is worked on."""
    waited = [answer for *earlier, _last in told for answer in earlier if is_in_progress(answer)]
    assert len({answer.json()["job"] for answer in waited}) <= 1
    assert not waited or rows == "ball"
