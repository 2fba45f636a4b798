"""Observation of requests: a log and counters of closed sets, with nothing of a row or a secret."""

import json
import logging
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import Api, BrokenNoise, World, body, client_of, make_rows, open_world, problem
from typer.testing import CliRunner

from curator_service import __version__
from curator_service.api.metrics import METHODS, OTHER
from curator_service.cli.main import app as commands
from curator_service.kinds.registry import KINDS
from curator_service.kit import db, logs
from curator_service.kit.milestones import Milestone, note

RELEASES, QUOTES = "/v1/datasets/cohort/releases", "/v1/datasets/cohort/quotes"
CANARY = "canary-4711"
NUMBER = "67.4321875"  # of a row


class Lines(logging.Handler):
    """The log, as it would be written."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logs.LineFormatter("json"))
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(self.format(record))

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.written) if line["event"] == "request"]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    ours, level = logging.getLogger(logs.OURS), logging.getLogger(logs.OURS).level
    root.addHandler(handler)
    ours.setLevel(logging.INFO)
    yield handler
    ours.setLevel(level)
    root.removeHandler(handler)


def samples(page: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return every number of a page, by its name and its labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def metrics_of(api: Api) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    answer = api.get("/metrics", token=None)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return samples(answer.text)


def count(found: dict[str, dict[tuple[tuple[str, str], ...], float]], name: str, **labels: str) -> float:
    return found.get(name, {}).get(tuple(sorted(labels.items())), 0.0)


def provoke(world: World, api: Api) -> list[httpx.Response]:
    """Send what a caller may send, with the canary in every place that he writes to."""
    hidden = {"Curator-Checkpoint": CANARY, "traceparent": CANARY, "X-Forwarded-For": CANARY, "User-Agent": CANARY}
    return [
        api.post(QUOTES, json=body(), headers=hidden),
        api.post(RELEASES, json=body(rows={"map": "box"}), key="a-key"),
        api.post(RELEASES, json=body(rows={"map": "box"}), key="a-key"),
        api.post(RELEASES, json=body(targets=[], statistics=["xtx"], rows={"map": "ball"}), key=f"{CANARY}-1"),
        api.post(RELEASES, json=body(features=[CANARY]), key=f"{CANARY}-2"),
        api.post(RELEASES, json={CANARY: CANARY}, key=f"{CANARY}-3"),
        api.post(RELEASES, content=CANARY.encode(), key=f"{CANARY}-4"),
        api.post(RELEASES, json=body(price={"mu": 100.0}), key=f"{CANARY}-5"),
        api.get(f"/v1/datasets/{CANARY}"),
        api.get(f"/v1/releases/{CANARY}?token={CANARY}"),
        api.get(f"/{CANARY}?{CANARY}={NUMBER}"),
        api.request(CANARY.upper(), "/v1/keys"),
        api.get("/v1/keys", token=f"cur_{CANARY}_{CANARY}"),
        api.get(f"/v1/datasets?after={CANARY}", token=world.tokens["root"]),
    ]


def test_nothing_of_a_row_a_token_or_a_key_is_told(tmp_path: Path, lines: Lines) -> None:
    rows = make_rows(30)
    rows[0] |= {"age": NUMBER}
    with open_world(tmp_path, rows=rows) as world:
        api = world.api()
        answers = provoke(world, api)
        broken = world.api(noise=BrokenNoise(f"{CANARY} {NUMBER}")).post(RELEASES, json=body(fresh=True), key="b")
        answers.append(broken)
        page = api.get("/metrics", token=None).text
        problems = [answer.text for answer in answers if answer.status_code >= 400]
        keys = [file.read_text(encoding="ascii") for file in world.settings.keys_folder.glob("*.pem")]
        secrets = {
            CANARY,
            CANARY.upper(),
            NUMBER,
            *world.tokens.values(),
            *(token.split("_", 2)[2] for token in world.tokens.values()),  # a secret may have underscores
        }
        secrets |= {line for key in keys for line in key.splitlines() if line and not line.startswith("-----")}
    assert {200, 201, 401, 404, 405, 409, 422, 500} <= {answer.status_code for answer in answers}
    assert len(lines.requests) > len(answers)
    for secret in secrets:
        assert secret not in page
        assert secret not in "".join(lines.written)
        # A refusal may quote a caller's own words to that caller, and nobody else's.
        assert secret in {CANARY, CANARY.upper()} or secret not in "".join(problems)
    assert NUMBER not in "".join(problems)


def test_a_line_says_who_asked_for_what_and_how_it_ended(world: World, lines: Lines) -> None:
    api = world.api()
    answer = api.post(RELEASES, json=body(rows={"map": "box"}), key="k")
    problem(api.get("/v1/datasets/none?x=y"), "dataset-not-found", 404)
    first, second = lines.requests
    assert first | {"time": "", "duration_ms": 0} == {
        "time": "",
        "level": "info",
        "event": "request",
        "request": answer.headers["x-request-id"],
        "method": "POST",
        "route": "/v1/datasets/{name}/releases",
        "status": 201,
        "kind": "gram",
        "outcome": "new",
        "duration_ms": 0,
        "principal": first["principal"],
        "peer": "127.0.0.1",
    }
    assert first["principal"] in {principal.id for principal in world.curator.identity.list_principals()}
    assert (second["route"], second["status"], second["problem"]) == ("/v1/datasets/{name}", 404, "dataset-not-found")
    assert {*first, *second} - {"time", "level"} <= set(logs.FIELDS)


class TestMetrics:
    def test_answers_refusals_and_releases_are_counted(self, world: World) -> None:
        api = world.api()
        provoke(world, api)
        found = metrics_of(api)
        route = "/v1/datasets/{name}/releases"
        assert count(found, "curator_requests_total", method="POST", route=route, status="2xx") == 3
        assert count(found, "curator_requests_total", method="POST", route=route, status="4xx") == 4
        assert count(found, "curator_request_seconds_count", route=route) == 7
        assert count(found, "curator_requests_total", method=OTHER, route="/v1/keys", status="4xx") == 1
        assert count(found, "curator_requests_total", method="GET", route=OTHER, status="4xx") == 1
        assert count(found, "curator_refusals_total", problem="budget-exceeded") == 1
        assert count(found, "curator_refusals_total", problem="authentication-required") == 1
        assert count(found, "curator_releases_total", kind="gram", outcome="new") == 2
        assert count(found, "curator_releases_total", kind="gram", outcome="replayed") == 1
        assert count(found, "curator_releases_total", kind="gram", outcome="refused") == 1
        assert found["curator_build_info"] == {(("version", __version__),): 1.0}

    def test_labels_are_of_closed_sets(self, world: World) -> None:
        api = world.api()
        provoke(world, api)
        routes = {*api.app.openapi()["paths"], "/metrics", OTHER}
        outcomes = {"new", "replayed", "stored", "derived", "job", "refused"}
        sections = re.findall(r"^## ([a-z-]+)$", Path("docs/problems.md").read_text(encoding="utf-8"), re.MULTILINE)
        sets = {
            "route": routes,
            "method": {*METHODS, OTHER},
            "status": {"1xx", "2xx", "3xx", "4xx", "5xx", "none"},
            "kind": {*KINDS.names, OTHER},
            "outcome": outcomes,
            "problem": set(sections),
            "folder": {"data", "keys", "anchor"},
            "version": {__version__},
        }
        page = metrics_of(api)
        assert len(page) > 10
        for name, found in page.items():
            for labels in found:
                for label, value in labels:
                    assert value in sets[label] if label != "le" else float(value) >= 0, (name, label, value)

    def test_nothing_is_told_of_the_process_of_budgets_or_of_populations(self, world: World) -> None:
        """Processor time would show the work of a pass more finely than its answer, which comes at a public time."""
        page = world.api(None).get("/metrics").text
        for word in (
            "process_",
            "python_",
            "cpu",
            "memory",
            "resident",
            "epsilon",
            "budget_",
            "town",
            "cohort",
            "_created",
        ):
            assert word not in page, word

    def test_the_state_is_that_of_the_moment(self, world: World) -> None:
        api, data_dir = world.api(), world.settings.data_dir
        found = metrics_of(api)
        assert (found["curator_ready"], found["curator_sealed"]) == ({(): 1.0}, {(): 0.0})
        assert found["curator_jobs_open"] == {(): 0.0}
        assert "curator_backup_timestamp_seconds" not in found
        assert "curator_ledger_verified_timestamp_seconds" not in found
        for value in found["curator_disk_free_ratio"].values():
            assert 0 <= value <= 1
            assert round(value, 2) == value
        assert note(data_dir, Milestone.BACKUP_WRITTEN)
        assert note(data_dir, Milestone.LEDGER_VERIFIED)
        found = metrics_of(api)
        written = (data_dir / Milestone.BACKUP_WRITTEN).stat().st_mtime
        assert found["curator_backup_timestamp_seconds"] == {(): pytest.approx(written)}
        assert found["curator_ledger_holds"] == {(): 1.0}
        world.curator.ledger.guard.seal("a reason")
        found = metrics_of(api)
        assert (found["curator_ready"], found["curator_sealed"]) == ({(): 0.0}, {(): 1.0})

    def test_a_job_that_waits_is_counted(self, world: World) -> None:
        api = world.api()
        asked = body(targets=[], statistics=["xtx"], rows={"map": "ball"}, fresh=True)
        assert api.post(RELEASES, json=asked, key="j", headers={"Prefer": "respond-async"}).status_code == 202
        assert metrics_of(api)["curator_jobs_open"][()] in {0.0, 1.0}  # it may be done by now
        assert count(metrics_of(api), "curator_releases_total", kind="gram", outcome="job") == 1


def test_a_ledger_that_was_verified_and_does_not_hold_is_not_ready_until_it_does(world: World) -> None:
    api, data_dir = world.api(None), world.settings.data_dir
    for is_well, status in ((True, 200), (False, 503), (True, 200)):
        assert note(data_dir, Milestone.LEDGER_VERIFIED, is_well=is_well)
        assert api.get("/readyz").status_code == status


def test_rows_that_are_gone_are_not_ready(world: World) -> None:
    api = world.api(None)
    (folder,) = {dataset.folder for dataset in world.curator.datasets.list_all() if dataset.name == "hidden"}
    (world.settings.data_dir / "datasets" / folder).rename(world.folder / "aside")
    assert api.get("/readyz").json() == {"status": "not ready"}


def ready(api: Api) -> str:
    return str(api.get("/readyz").json()["status"])


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look make a write of its own, which soon gives up."""
    monkeypatch.setattr("curator_service.readiness.WRITTEN_EVERY_S", 0.0)
    monkeypatch.setattr(db, "PROBE_MS", 200)


@pytest.mark.usefixtures("unhurried")
class TestAWriteOfItsOwn:
    """`/readyz` is red where reads are answered and nothing can be released."""

    def test_a_locked_database_is_not_ready_until_it_is_free(self, world: World) -> None:
        api = world.api(None)
        assert ready(api) == "ready"
        with closing(sqlite3.connect(world.settings.data_dir / "curator.sqlite3")) as somebody:
            somebody.execute("BEGIN IMMEDIATE")
            assert ready(api) == "not ready"
            found = CliRunner().invoke(commands, ["doctor"], env={"CURATOR_DATA_DIR": str(world.settings.data_dir)})
            assert "takes no write" in " ".join(found.output.split())
            assert world.api().get("/v1/datasets").status_code == 200
            somebody.rollback()
        assert ready(api) == "ready"

    def test_a_crowd_that_commits_is_no_fault(self, world: World) -> None:
        api, over = world.api(None), threading.Event()

        def crowd() -> None:
            """Hold the lock nearly always, and commit."""
            with closing(sqlite3.connect(world.settings.data_dir / "curator.sqlite3", timeout=20)) as somebody:
                somebody.isolation_level = None
                while not over.is_set():
                    somebody.execute("BEGIN IMMEDIATE")
                    somebody.execute("INSERT INTO workers (id, beat) VALUES ('wrk_0', 0)")
                    somebody.execute("DELETE FROM workers WHERE id = 'wrk_0'")
                    time.sleep(0.05)
                    somebody.execute("COMMIT")

        crowds = [threading.Thread(target=crowd) for _ in range(4)]
        for one in crowds:
            one.start()
        try:
            assert {ready(api) for _ in range(20)} == {"ready"}
        finally:
            over.set()
            for one in crowds:
                one.join()

    def test_a_line_of_writers_is_not_waited_in(self, world: World) -> None:
        api = world.api(None)
        database = world.apps[-1].state.curator.database
        with database._in_line():
            assert ready(api) == "ready"

    @pytest.mark.postgres
    def test_a_database_that_only_reads_is_not_ready(self, town: World) -> None:
        api = town.api(None)
        assert ready(api) == "ready"
        database, name = town.apps[-1].state.curator.database, town.curator.database.url.database
        for value, status in (("on", "not ready"), ("off", "ready")):
            writing = {"autocommit": True, "options": "-c default_transaction_read_only=off"}
            with psycopg.connect(str(town.settings.database_url), **writing) as connection:
                connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {value}')
            database.dispose()  # as after a failover
            town.curator.database.dispose()
            assert ready(api) == status
            assert town.api().get("/v1/datasets").status_code == 200

    def test_whoever_asks_makes_no_write_each_time(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("curator_service.readiness.WRITTEN_EVERY_S", 60.0)
        api, made = world.api(None), []
        database = world.apps[-1].state.curator.database
        monkeypatch.setattr(database, "can_write", lambda _write: made.append(None) or True)
        assert {ready(api) for _ in range(50)} == {"ready"}
        assert len(made) == 1


class TestRates:
    def test_a_principal_is_told_when_to_ask_again_and_others_are_served(self, tmp_path: Path) -> None:
        with open_world(tmp_path, requests_per_minute=3) as world:
            ada = world.api()
            for _ in range(3):
                assert ada.post(QUOTES, json=body()).status_code == 200
            answer = ada.post(QUOTES, json=body())
            assert "3 requests" in problem(answer, "too-many-requests", 429)["detail"]
            assert 1 <= int(answer.headers["retry-after"]) <= 20
            assert ada.get("/v1/keys", token=world.tokens["ben"]).status_code == 200
            assert count(metrics_of(ada), "curator_refusals_total", problem="too-many-requests") == 1

    def test_the_client_waits_as_long_as_it_is_told(self, tmp_path: Path) -> None:
        clock, slept = [0.0], []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            clock[0] += seconds

        with open_world(tmp_path, requests_per_minute=60) as world:
            client = client_of(world)
            client._session.transport.sleep = sleep
            world.apps[-1].state.curator.rate._now = lambda: clock[0]
            for _ in range(60):
                assert world.apis[-1].get("/v1/keys", token=world.tokens["ada"]).status_code == 200
            assert [dataset.name for dataset in client.datasets()] == ["cohort"]
        assert len(slept) == 1
        assert 1.0 <= slept[0] <= 2.0

    def test_an_address_whose_tokens_fail_is_refused_and_whoever_it_knows_is_served(self, tmp_path: Path) -> None:
        with open_world(tmp_path, failures_per_minute=4) as world:
            api = world.api()
            assert api.get("/v1/keys").status_code == 200
            for _ in range(4):
                problem(api.get("/v1/keys", token="cur_0123456789abcdef_wrong"), "authentication-required", 401)
            answer = api.get("/v1/keys", token="cur_0123456789abcdef_wrong")
            problem(answer, "too-many-requests", 429)
            assert 1 <= int(answer.headers["retry-after"]) <= 15
            problem(api.get("/v1/keys", token=world.tokens["ben"]), "too-many-requests", 429)  # unknown here as yet
            assert api.get("/v1/keys").status_code == 200
            assert api.get("/healthz", token=None).status_code == 200


class TestProxies:
    @pytest.mark.parametrize("proxy", ["*", "0.0.0.0/0", "10.0.0.1, ::/0"])
    @pytest.mark.parametrize("last", ["198.51.100.7", "198.51.100.7:4711", "[2001:db8::1]:4711", "2001:db8::1"])
    def test_where_any_address_is_a_proxy_the_nearest_one_says_who_asks(
        self, tmp_path: Path, proxy: str, last: str
    ) -> None:
        """Whoever asks writes the first addresses, and the proxy that he reaches appends his own."""
        with open_world(tmp_path, proxy=proxy, failures_per_minute=3) as world:
            api = world.api(None)
            statuses = [
                api.get("/v1/me", token="wrong", headers={"X-Forwarded-For": f"203.0.113.{n}, 192.0.2.9, {last}"})
                for n in range(5)
            ]
            assert [answer.status_code for answer in statuses] == [401, 401, 401, 429, 429]
            others = {"X-Forwarded-For": "203.0.113.4, 198.51.100.8"}
            assert api.get("/v1/me", token="wrong", headers=others).status_code == 401

    def test_nobody_s_word_on_who_asks_is_taken_where_no_proxy_is_declared(self, tmp_path: Path) -> None:
        with open_world(tmp_path, failures_per_minute=1) as world:
            api = world.api(None)
            for n, status in enumerate((401, 429)):
                headers = {"X-Forwarded-For": f"203.0.113.{n}"}
                assert api.get("/v1/me", token="wrong", headers=headers).status_code == status
