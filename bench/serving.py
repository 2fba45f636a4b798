"""Helpers of the benches: a curator on loopback in its own process, its CPU time, and a plain keep-alive client."""

import http.client
import json
import os
import secrets
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Response

from curator_service.app import create_app
from curator_service.container import Curator, make_curator
from curator_service.identity.policy import Role
from curator_service.privacy.accountant import Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
EMPTY_PATH, DURABLE_PATH = "/bench/empty", "/bench/durable"
NONE: Mapping[str, str] = {}
GUARDED = "curator_service.api.connections:GuardedProtocol"


def create_bench_app() -> FastAPI:
    """Build the curator's application with two bare routes under the same middleware.

    One is empty. The other, in a worker thread, commits one row of 5 kB to a database of its own, as durably as the
    curator does, and appends a line to a file: what durability costs without anything that a curator does.
    """
    app = create_app()
    folder = Path(os.environ["CURATOR_DATA_DIR"])
    database = sqlite3.connect(folder / "bench.sqlite3", isolation_level=None, check_same_thread=False)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE IF NOT EXISTS t (v TEXT)"):
        database.execute(statement)
    lines, turn = os.open(folder / "bench-lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), threading.Lock()

    @app.post(DURABLE_PATH)
    def durable() -> Response:
        with turn:
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO t VALUES (?)", ("x" * 5000,))
            database.execute("COMMIT")
            os.write(lines, b"x" * 400)
            os.fdatasync(lines)
        return Response(b"{}", media_type="application/json")

    @app.get(EMPTY_PATH)
    async def empty() -> Response:
        return Response(b"{}", media_type="application/json")

    return app


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]
    curator: Curator
    settings: Settings

    def cpu_s(self) -> float:
        """Return the CPU seconds that the server and its workers have used so far, to the nanosecond."""
        tasks = (
            task
            for pid in (self.process.pid, *_children(self.process.pid))
            for task in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def connect(self) -> http.client.HTTPConnection:
        """Open a keep-alive connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def analyst(self, dataset: str, name: str = "bench") -> str:
        """Return the token of an analyst who may use a dataset."""
        token = self.curator.identity.create_token(name, Role.ANALYST)
        self.grant(name, dataset)
        return token.text

    def grant(self, name: str, dataset: str) -> None:
        """Let an analyst use another dataset."""
        found = next(d for d in self.curator.datasets.list_all() if d.name == dataset)
        self.curator.permits.grant(name, found.name, actor="operator:bench")


def open_population(curator: Curator, name: str, limit: Price) -> None:
    """Create a population under Gaussian differential privacy."""
    curator.ledger.create_population(
        name, adjacency=Adjacency.ADD_REMOVE, accountant="gdp", limit=limit, delta=1e-6, actor="bench"
    )


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def serve(
    set_up: Callable[[Curator, Path], None],
    *,
    workers: int = 1,
    url: str | None = None,
    app: str = "bench.serving:create_bench_app",
    http: str = GUARDED,
) -> Iterator[Server]:
    """Start a curator in a temporary folder on disk; stop it and remove the folder at the end.

    Without a URL it is on embedded SQLite.
    """
    with tempfile.TemporaryDirectory(prefix="curator-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        data_dir = Path(folder) / "data"
        settings = Settings(data_dir=data_dir, database_url=url)
        curator = make_curator(settings)
        curator.database.upgrade()
        set_up(curator, Path(folder))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", app, "--factory", "--no-access-log", "--http", http]
        process = subprocess.Popen(
            [*command, "--port", str(port), "--workers", str(workers), "--log-level", "warning"],
            cwd=ROOT,
            env=os.environ
            | {"CURATOR_DATA_DIR": str(data_dir), "OPENBLAS_NUM_THREADS": "1"}
            | {"CURATOR_REQUESTS_PER_MINUTE": "1000000", "CURATOR_KEYS_PER_DAY": "1000000000"}
            | ({} if url is None else {"CURATOR_DATABASE_URL": url}),
        )
        try:
            server = Server(port, process, curator, settings)
            _wait_until_ready(server)
            yield server
        finally:
            process.terminate()
            process.wait(30)
            curator.database.dispose()


def _wait_until_ready(server: Server) -> None:
    for _ in range(900):
        connection = server.connect()
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError("the server did not start")


def get(
    connection: http.client.HTTPConnection, path: str, token: str | None = None, headers: Mapping[str, str] = NONE
) -> int:
    """Send a GET; return the status."""
    sent = {**headers, "Authorization": f"Bearer {token}"} if token else headers
    connection.request("GET", path, headers=dict(sent))
    response = connection.getresponse()
    response.read()
    return response.status


def post(connection: http.client.HTTPConnection, path: str) -> int:
    """Send a POST without a body; return the status."""
    connection.request("POST", path)
    response = connection.getresponse()
    response.read()
    return response.status


def post_release(
    connection: http.client.HTTPConnection,
    dataset: str,
    token: str,
    request: dict[str, object],
    *,
    to: str = "releases",
) -> int:
    """Buy a release under a new key, or ask what it costs; return the status."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": secrets.token_hex(16),
    }
    connection.request("POST", f"/v1/datasets/{dataset}/{to}", json.dumps(request), headers)
    response = connection.getresponse()
    response.read()
    return response.status
