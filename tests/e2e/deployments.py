"""A town: a world that is served by processes of its own, called over HTTP, and audited from outside."""

import json
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import faulty
import httpx
import uvicorn
from canaries import CANARIES
from ledger_books import LedgerBooks, read_books
from patience import scaled, wait_for
from process_factory import Child, ProcessFactory
from support import World, body, make_rows, open_population, open_world, service_url
from uvicorn import _subprocess as subprocess

from curator_service.cli import main
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price

GUARDED = "curator_service.api.connections:GuardedProtocol"
LEASE_S = scaled(0.4)
READY_S, ANSWER_S = scaled(30.0), scaled(30.0)
AMPLE = Price(mu=3.0)
ANALYSTS = tuple(f"analyst-{i}" for i in range(8))
AUDITOR = "auditor"


def box(**changes: Any) -> dict[str, Any]:
    """Return a request that needs no pass over rows: charged and answered in one unit of work."""
    return body(rows={"map": "box"}, **{"price": {"mu": 0.01}, "fresh": True, **changes})


def ball(**changes: Any) -> dict[str, Any]:
    """Return a request that passes over rows: reserved, computed, posted."""
    return body(
        targets=[], rows={"map": "ball"}, statistics=["xtx"], **{"price": {"mu": 0.01}, "fresh": True, **changes}
    )


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(port: int, path: str, timeout_s: float = 5) -> int:
    """Return the status of an answer; 0 if there is none. It costs little, for whoever asks again and again."""
    try:
        with closing(HTTPConnection("127.0.0.1", port, timeout=scaled(timeout_s))) as connection:
            connection.request("GET", path)
            return connection.getresponse().status
    except (OSError, HTTPException):
        return 0


class Server:
    """A curator in a process of its own, which can be started again at the same address."""

    def __init__(
        self, process_factory: ProcessFactory, environment: Mapping[str, str], log: Path, log_level: str = "warning"
    ) -> None:
        self._process_factory = process_factory
        self.environment = dict(environment)
        self._log, self._log_level = log, log_level
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.child: Child | None = None

    @property
    def process(self) -> Child:
        """The process that serves, or served last."""
        assert self.child is not None
        return self.child

    def launch(self) -> Child:
        """Start, and do not wait."""
        assert self.child is None or self.child.poll() is not None, "it runs already"
        arguments = {"port": self.port, "log_level": self._log_level}
        self.child = self._process_factory.fork("faulty:serve", arguments, self.environment, self._log)
        return self.child

    def start(self) -> "Server":
        """Start, and wait until it answers."""
        self.child = self.launch()
        end = time.monotonic() + READY_S
        while not self._is_ready():
            assert self.child.poll() is None, f"the server ended: {self.child.text[-3000:]}"
            assert time.monotonic() < end, f"the server did not get ready: {self.child.text[-3000:]}"
            time.sleep(0.01)
        return self

    def _is_ready(self) -> bool:
        return ask(self.port, "/healthz") == 200

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self.process.signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        """Ask it to end, as an operator does, and wait until it has: uvicorn cleans up, and ends by the signal."""
        self.process.signal(signal.SIGTERM)
        assert self.process.wait() in {0, -signal.SIGTERM}, self.process.text[-2000:]

    def close(self) -> None:
        """End it, if it runs."""
        if self.child is not None and self.child.poll() is None:
            self.child.signal(signal.SIGCONT)
            self.kill()


def is_stopped(server: Server) -> bool:
    """Return whether a server's process was stopped by a signal."""
    stat = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii")
    return stat.rpartition(")")[2].split()[0] == "T"


class Caller:
    """One analyst's connection to one server, with the retries of a patient client."""

    def __init__(self, url: str, token: str, *, timeout_s: float = ANSWER_S) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=timeout_s,
            verify=False,
            trust_env=False,
            event_hooks={"response": [CANARIES.search_answer]},
        )

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, *, order: Mapping[str, Any] | None = None) -> httpx.Response:
        """GET, with an order for the server's test hand."""
        return self._http.get(path, headers={} if order is None else {faulty.HEADER: json.dumps(order)})

    def post(
        self,
        path: str,
        content: Mapping[str, Any],
        key: str,
        *,
        order: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request once, with an order for the server's test hand."""
        sent = {"Idempotency-Key": key, **(headers or {})}
        if order is not None:
            sent[faulty.HEADER] = json.dumps(order)
        return self._http.post(path, json=dict(content), headers=sent)

    def delete(self, path: str, *, order: Mapping[str, Any] | None = None) -> httpx.Response:
        """DELETE, with an order for the server's test hand."""
        return self._http.delete(path, headers={} if order is None else {faulty.HEADER: json.dumps(order)})

    def insist(
        self,
        path: str,
        content: Mapping[str, Any],
        key: str,
        *,
        headers: Mapping[str, str] | None = None,
        within_s: float = 60.0,
    ) -> httpx.Response:
        """Send a request with its key until it is answered or refused for good; follow its job, if it becomes one.

        What promises another outcome (a lost answer, 503 ``busy``, 429, 409 ``release-in-progress``) is sent again;
        nobody else's hand is needed.
        """
        end = time.monotonic() + scaled(within_s)
        while True:
            answer = self._send(path, content, key, headers)
            if answer is not None and not is_retried(answer):
                if answer.status_code != 202:
                    return answer
                self.follow(answer.json()["id"], end)
            assert time.monotonic() < end, f"no answer to {key!r} in {scaled(within_s)} s: {describe(answer)}"
            time.sleep(0.02)

    def _send(
        self, path: str, content: Mapping[str, Any], key: str, headers: Mapping[str, str] | None
    ) -> httpx.Response | None:
        try:
            return self.post(path, content, key, headers=headers)
        except httpx.TransportError:
            return None

    def follow(self, job: str, end: float) -> str:
        """Wait until a job ends; return its state."""
        while True:
            try:
                answer = self.get(f"/v1/jobs/{job}")
            except httpx.TransportError:
                state = "running"
            else:
                assert answer.status_code in {200, 503}, describe(answer)
                state = str(answer.json().get("state", "running")) if answer.status_code == 200 else "running"
            if state != "running":
                return state
            assert time.monotonic() < end, f"the job {job} does not end"
            time.sleep(0.02)


def slug(answer: httpx.Response) -> str:
    """Return the slug of a problem; empty for what is none."""
    if not answer.headers["content-type"].startswith("application/problem+json"):
        return ""
    return str(answer.json()["type"]).removeprefix("/problems/")


def is_retried(answer: httpx.Response) -> bool:
    """Return whether an answer promises another outcome, and says when."""
    if slug(answer) not in {"busy", "release-in-progress", "too-many-requests"}:
        return False
    assert answer.headers["retry-after"].isdigit(), describe(answer)
    return True


def describe(answer: httpx.Response | None) -> str:
    return "none" if answer is None else f"{answer.status_code} {answer.text[:400]}"


@dataclass
class Deployment:
    """The part of a world that one test has: populations and analysts of its own, and servers of the process factory.

    Attributes
    ----------
    prefix : str
        Begins the name of everything that the test makes in the world, which others may share.
    tokens : dict of str to str
        Of the test's analysts, and of the world's auditor.
    """

    world: World
    process_factory: ProcessFactory
    folder: Path
    prefix: str
    tokens: dict[str, str] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)

    @property
    def url(self) -> str | None:
        """Of the database; None is the embedded one."""
        return self.world.settings.database_url

    @property
    def is_sqlite(self) -> bool:
        return self.url is None

    @property
    def environment(self) -> dict[str, str]:
        """The settings of commands: an admin's, who owns the database."""
        chosen = {"CURATOR_DATA_DIR": str(self.world.settings.data_dir), "CURATOR_LEASE_S": str(LEASE_S)}
        chosen["CURATOR_PACE"] = "1"
        chosen |= {"CURATOR_REQUESTS_PER_MINUTE": "1000000", "CURATOR_FAILURES_PER_MINUTE": "1000000"}  # nobody waits
        chosen["CURATOR_KEYS_PER_DAY"] = "1000000000"
        return chosen | ({} if self.url is None else {"CURATOR_DATABASE_URL": self.url})

    @property
    def service_environment(self) -> dict[str, str]:
        """The settings of servers: on PostgreSQL they have the rights of the service's group alone."""
        return self.environment | ({} if self.url is None else {"CURATOR_DATABASE_URL": service_url(self.url)})

    def serve(self, **changes: str) -> Server:
        return self.serve_to(self.folder / f"server-{len(self.servers)}.log", "warning", **changes)

    def serve_to(self, log: Path, level: str, **changes: str) -> Server:
        """Start a curator that writes to a file of one's own."""
        server = Server(self.process_factory, self.service_environment | changes, log, level)
        self.servers.append(server)
        return server.start()

    def serve_elsewhere(self, **changes: str) -> Server:
        """Start a curator as on a second host: on PostgreSQL with copies of the rows, and an anchor of its own."""
        if self.is_sqlite:
            return self.serve(**changes)
        home = self.world.settings.data_dir
        host = self.folder / f"host-{len(self.servers)}"
        shutil.copytree(home, host / "data", ignore=shutil.ignore_patterns("keys"))
        settings = {"CURATOR_DATA_DIR": str(host / "data"), "CURATOR_KEYS_DIR": str(home / "keys")}
        self.run("ledger", "begin-anchor", **settings)
        return self.serve(**settings, **changes)

    def call(self, server: Server, who: str = ANALYSTS[0]) -> Caller:
        """Return an analyst's connection."""
        return Caller(server.url, self.tokens[who])

    def full(self, name: str) -> str:
        """Return the name that a population or an analyst of this test has in the world."""
        return f"{self.prefix}{name}"

    def open_account(self, name: str, limit: Price = AMPLE, *, row_capacity: int = 1000) -> str:
        """Create a population with a budget and one dataset, which all analysts may use; return its path."""
        open_population(self.world.curator, self.full(name), limit)
        dataset, rows = f"{self.full(name)}_data", make_rows(40, seed=secrets.randbits(32))
        registered = self.world.register(dataset, self.full(name), rows, row_capacity=row_capacity)
        for analyst in ANALYSTS:
            self.world.grant(self.full(analyst), registered)
        self.world.curator.database.dispose()  # the database is the servers' alone
        return f"/v1/datasets/{dataset}"

    def run(self, *words: str, **changes: str) -> Any:
        """Run a command of the product, which must succeed; return the JSON that it prints."""
        output = self.folder / f"command-{secrets.token_hex(4)}.json"
        environment = self.environment | changes
        child = self.process_factory.fork("deployments:run_command", {"words": [*words, "--json"]}, environment, output)
        assert child.wait() == 0, child.text
        return json.loads(child.text)

    def audit(self, population: str, *, settled: bool = True) -> LedgerBooks:
        """Verify the ledger by the command, read the tables beside it, and check that both say the same."""
        verdicts = self.run("ledger", "verify", self.full(population))
        assert all(verdict["ok"] for verdict in verdicts), verdicts
        return self.look(population, settled=settled)

    def look(self, population: str, *, settled: bool = False) -> LedgerBooks:
        """Read the tables, and check that they are one story."""
        books = read_books(self.world.settings.url, self.full(population))
        books.check(settled=settled)
        return books

    def settle(self, population: str, within_s: float = 10.0) -> LedgerBooks:
        """Wait until nothing is held any more, without doing anything for it, and audit."""
        wait_for(lambda: self.look(population).pending == 0, "nothing is held", within_s)
        return self.audit(population)

    def anchored(self, population: str) -> int:
        """Return the highest sequence of a population that the anchor has; 0 where it has none."""
        file = self.world.settings.anchor_folder / "checkpoints"
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        written = [json.loads(line) for line in lines]
        return max((line["sequence"] for line in written if line["population"] == self.full(population)), default=0)

    def trace(self) -> Path:
        """Return a new file for the steps of a request."""
        return self.folder / f"trace-{secrets.token_hex(6)}"

    def close(self) -> None:
        for server in self.servers:
            server.close()


def run_command(words: list[str]) -> None:
    """Run the product's command line in this process."""
    sys.argv = ["curator", *words]
    main()


def run_uvicorn(words: list[str]) -> None:
    """Run the command line of uvicorn in this process."""
    uvicorn.main(words)


@contextmanager
def open_place(folder: Path, url: str | None) -> Iterator[World]:
    """Open a world on a fresh database, for the deployments of several tests."""
    with open_world(folder, url=url, analysts=(), moment=datetime.now(UTC)) as world:
        world.curator.database.dispose()
        yield world


@contextmanager
def open_town(world: World, process_factory: ProcessFactory, folder: Path) -> Iterator[Deployment]:
    town = Deployment(world, process_factory, folder, f"t{secrets.token_hex(4)}_", {AUDITOR: world.tokens["audra"]})
    for analyst in ANALYSTS:
        town.tokens[analyst] = world.add_token(town.full(analyst), Role.ANALYST)
    world.curator.database.dispose()
    try:
        yield town
    finally:
        town.close()


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Do things at the same instant, each on a thread of its own; return their results in order."""
    barrier = threading.Barrier(len(actions), timeout=scaled(10))

    def act(action: Callable[[], Any]) -> Any:
        barrier.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


@contextmanager
def two_workers(
    process_factory: ProcessFactory, app: str, environment: Mapping[str, str], output: Path
) -> Iterator[str]:
    """Serve an application from two workers of one uvicorn; yield its address."""
    port = free_port()
    process = process_factory.fork("deployments:run_workers", {"app": app, "port": port}, environment, output)
    try:
        wait_for(lambda: process.poll() is not None or ask(port, "/readyz", 1) == 200, "the server is ready", 30)
        assert process.poll() is None, process.text
        yield f"http://127.0.0.1:{port}"
    finally:
        process.signal(signal.SIGTERM)
        process.wait(20)


def run_workers(app: str, port: int) -> None:
    """Serve an application from two workers, forked, where uvicorn would start interpreters."""
    subprocess.spawn = get_context("fork")  # type: ignore[assignment]
    uvicorn.run(app, factory=True, host="127.0.0.1", port=port, workers=2, log_level="warning", http=GUARDED)
