"""What the benches share: a curator on loopback in its own process, its CPU time, and a plain keep-alive client."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Response

from curator_service.app import create_app
from curator_service.curator import Curator, make_curator
from curator_service.identity.policy import Role
from curator_service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
EMPTY_PATH = "/bench/empty"
GUARDED = "curator_service.connections:GuardedProtocol"


def create_bench_app() -> FastAPI:
    """Build the curator's application with one bare route under the same middleware."""
    app = create_app()

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
        self.curator.identity.add_grant(name, found.id)


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
        curator = make_curator(Settings(data_dir=data_dir, database_url=url))
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
            | ({} if url is None else {"CURATOR_DATABASE_URL": url}),
        )
        try:
            server = Server(port, process, curator)
            _wait_until_ready(server)
            yield server
        finally:
            process.terminate()
            process.wait(30)
            curator.database.dispose()


def _wait_until_ready(server: Server) -> None:
    for _ in range(600):
        try:
            connection = server.connect()
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def get(connection: http.client.HTTPConnection, path: str, token: str | None = None) -> int:
    """Send a GET; return the status."""
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    response = connection.getresponse()
    response.read()
    return response.status


def post_release(connection: http.client.HTTPConnection, dataset: str, token: str, request: dict[str, object]) -> int:
    """Buy a release under a new key; return the status."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": secrets.token_hex(16),
    }
    connection.request("POST", f"/v1/datasets/{dataset}/releases", json.dumps(request), headers)
    response = connection.getresponse()
    response.read()
    return response.status
