"""The server as an operator runs it: `curator serve` in a process of its own, its log, its metrics and its end."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import httpx
import pytest
from deployments import Caller, Deployment, ask, ball, box, describe, free_port
from faulty import LIMITS_VARIABLE
from patience import scaled, wait_for
from process_factory import ROOT, Child, clean_environment
from prometheus_client.parser import text_string_to_metric_families

from curator_service.api.connections import STOP_S
from curator_service.kit.logs import FIELDS

pytestmark = pytest.mark.slow

CANARY = "canary-4711"
HTTP = httpx.Client(verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
"""Each request on a connection of its own: whichever worker answers."""


@dataclass
class Service:
    """A process of `curator serve`, and what it has written."""

    process: Child
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def lines(self) -> list[dict[str, object]]:
        """The log: each line that begins as JSON does must be it."""
        return [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]

    @property
    def text(self) -> str:
        return self.process.text

    def is_ready(self) -> bool:
        return ask(self.port, "/readyz", 2) == 200


def launch(town: Deployment, *options: str, **changes: str) -> Child:
    """Start a server as an operator does."""
    output = town.folder / f"serve-{len(list(town.folder.glob('serve-*')))}.log"
    words = {"words": ["serve", *options]}
    return town.process_factory.fork("deployments:run_command", words, town.service_environment | changes, output)


@contextmanager
def served(town: Deployment, *options: str, **changes: str) -> Iterator[Service]:
    """Serve as an operator does; end it whatever happens."""
    port = free_port()
    process = launch(town, *options, "--port", str(port), **changes)
    service = Service(process, port)
    try:
        wait_for(lambda: process.poll() is not None or service.is_ready(), "the server is ready", 30)
        assert process.poll() is None, service.text
        yield service
    finally:
        process.signal(signal.SIGTERM)
        with suppress(AssertionError):
            process.wait(STOP_S)
        process.signal(signal.SIGKILL)


def refused(town: Deployment, *options: str, **changes: str) -> str:
    """Start a server that must not start; return what it says."""
    process = launch(town, *options, **changes)
    assert process.wait() == 1, process.text
    assert "Traceback" not in process.text
    return process.text


def test_it_does_not_start_where_tokens_or_passwords_are_everybody_s(embedded_town: Deployment) -> None:
    town = embedded_town
    said = refused(town, "--host", "0.0.0.0")
    assert "CURATOR_PROXY" in said
    said = refused(town, CURATOR_DATABASE_URL="postgresql://curator:changeme@127.0.0.1:1/curator")
    assert "one of an example" in said
    assert "changeme" not in said
    environment = clean_environment() | town.service_environment | {"PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "1"}
    command = [sys.executable, "-c", "from curator_service.cli import main; main()", "serve"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=scaled(30), check=False
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert "development mode" in ended.stderr


def test_behind_a_declared_proxy_it_listens_and_believes_it(embedded_town: Deployment) -> None:
    path = embedded_town.open_account("proxied")
    with served(
        embedded_town, "--host", "0.0.0.0", CURATOR_PROXY="127.0.0.1", CURATOR_FAILURES_PER_MINUTE="2"
    ) as service:
        statuses = [
            HTTP.get(
                f"{service.url}{path}", headers={"Authorization": "Bearer x", "X-Forwarded-For": client}
            ).status_code
            for client in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2")
        ]
        assert statuses == [401, 401, 429, 401]
        # A line is written when its answer has left.
        wait_for(lambda: peers(service) == {"192.0.2.1", "192.0.2.2"}, "both are in the log")


def peers(service: Service) -> set[object]:
    return {line["peer"] for line in service.lines if line.get("status") == 401}


def counted(service: Service) -> dict[tuple[str, ...], float]:
    """Return every number of the metrics' page, by its name and its labels."""
    families = text_string_to_metric_families(HTTP.get(f"{service.url}/metrics").text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.mark.parametrize("workers", [1, 2])
def test_its_log_is_lines_of_listed_fields_and_its_metrics_count_for_all_workers(
    embedded_town: Deployment, workers: int
) -> None:
    town, asked = embedded_town, 30
    path = town.open_account("watched")
    with served(town, "--workers", str(workers)) as service:
        for i in range(asked):
            with town.call(service) as caller:  # type: ignore[arg-type]
                answer = caller.post(f"{path}/releases", box(), f"{CANARY}-{i}", headers={"X-Canary": CANARY})
                assert answer.status_code == 201, describe(answer)
        assert HTTP.get(f"{service.url}/{CANARY}?{CANARY}={CANARY}").status_code == 404
        everything = {
            ("curator_releases_total", "gram", "new"): float(asked),
            ("curator_request_seconds_count", "/v1/datasets/{name}/releases"): float(asked),
            ("curator_ready",): 1.0,
        }
        wait_for(lambda: everything.items() <= counted(service).items(), "all answers are counted")
        for _ in range(5):  # whichever worker answers
            assert everything.items() <= counted(service).items()
        page = HTTP.get(f"{service.url}/metrics").text
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.sendall(f"GET /{CANARY} HTTP/9\r\n{CANARY}\r\n\r\n".encode())
            assert connection.recv(100)
        refusal = ("curator_refusals_total", "body-malformed")  # of a connection, before there is a request
        wait_for(lambda: counted(service).get(refusal) == 1.0, "it is counted")
    requests = [line for line in service.lines if line["event"] == "request" and line["status"] == 201]
    assert len(requests) == asked
    assert not [line for line in service.lines if line.get("logger") == "uvicorn.access"], "a second line for each"
    for line in service.lines:
        assert set(line) <= {*FIELDS, "time", "level"}, line
    assert all(line.startswith(("{", "public times:", "sealed:")) for line in service.text.splitlines()), service.text
    assert CANARY not in service.text
    assert CANARY not in page
    assert not any(token in service.text for token in town.tokens.values())


@pytest.mark.parametrize("workers", [1, 2])
def test_asked_to_end_it_answers_what_it_works_on_and_lets_nobody_in(embedded_town: Deployment, workers: int) -> None:
    """A pass of two seconds is under way when it is asked to end."""
    town = embedded_town
    path = f"{town.open_account('ended', row_capacity=100_000)}/releases"
    changes = {"CURATOR_PACE": repr(scaled(64.0)), "CURATOR_SYNCHRONOUS_S": "60"}
    with served(town, "--workers", str(workers), **changes) as service, ThreadPoolExecutor(1) as pool:
        with town.call(service) as caller:  # type: ignore[arg-type]
            working = pool.submit(caller.post, path, ball(), "the-key")
            wait_for(lambda: town.look("ended").pending > 0, "it works")
            asked_at = time.monotonic()
            service.process.signal(signal.SIGTERM)
            wait_for(lambda: ask(service.port, "/healthz", 1) != 200, "nobody is let in")
            assert not working.done(), "it had answered before it was asked to end"
            answer = working.result(scaled(STOP_S))
            assert answer.status_code == 201, describe(answer)
        assert service.process.wait(STOP_S) in {0, -signal.SIGTERM}
        assert time.monotonic() - asked_at < scaled(STOP_S)
    assert not any(line["level"] in {"error", "critical"} for line in service.lines), service.text
    assert "Traceback" not in service.text
    books = town.audit("ended")
    assert (len(books.charges), books.pending) == (1, 0)


def test_what_takes_too_long_to_wait_for_is_given_up_and_costs_nothing(town: Deployment) -> None:
    """A pass of half a minute: the server ends within its bound all the same, and holds nothing afterwards."""
    path, bound_s = f"{town.open_account('endless', row_capacity=100_000)}/releases", 0.5
    limits = {LIMITS_VARIABLE: json.dumps({"STOP_S": bound_s})}
    server = town.serve(CURATOR_PACE="1024", CURATOR_SYNCHRONOUS_S="60", CURATOR_LEASE_S="3600", **limits)
    with town.call(server) as caller, ThreadPoolExecutor(1) as pool:
        cut_off = pool.submit(attempt, caller, path)
        wait_for(lambda: town.look("endless").pending > 0, "it works")
        asked_at = time.monotonic()
        server.terminate()
        assert time.monotonic() - asked_at < scaled(bound_s + 3)
        answer = cut_off.result()
        assert answer is None or answer.status_code == 500, describe(answer)
    books = town.audit("endless")
    assert (len(books.charges), books.pending) == (0, 0)


def attempt(caller: Caller, path: str) -> httpx.Response | None:
    try:
        return caller.post(path, ball(), "the-key")
    except httpx.TransportError:
        return None


def test_a_ledger_that_a_timer_finds_broken_turns_the_server_red(embedded_doomed_town: Deployment) -> None:
    town = embedded_doomed_town
    path = town.open_account("watched")
    with served(town) as service:
        with town.call(service) as caller:  # type: ignore[arg-type]
            assert caller.post(f"{path}/releases", box(), "k").status_code == 201
        town.run("ledger", "verify")
        assert service.is_ready()
        with closing(sqlite3.connect(town.world.settings.data_dir / "curator.sqlite3")) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("UPDATE releases SET answer = replace(answer, '1', '2')")
        output = town.folder / "verdict"
        words = {"words": ["ledger", "verify", "--json"]}
        assert town.process_factory.fork("deployments:run_command", words, town.environment, output).wait() == 1
        assert HTTP.get(f"{service.url}/readyz").json() == {"status": "not ready"}
        assert "curator_ledger_holds 0.0" in HTTP.get(f"{service.url}/metrics").text
