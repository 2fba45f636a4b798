"""A world behind a real server on loopback, in a thread of this process."""

import atexit
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import certifi
import pytest
import uvicorn
from patience import scaled
from support import World, open_world

from curator_service.api.connections import server_options
from curator_service.app import create_app
from curator_service.kinds.registry import KINDS, KindRegistry


@cache
def _one_authority() -> str:
    """Return the path of a file with one authority: every client reads all that it trusts, and none is asked here."""
    first, end, _ = Path(certifi.where()).read_text(encoding="ascii").partition("-----END CERTIFICATE-----")
    descriptor, path = tempfile.mkstemp(prefix="curator-tests-", suffix=".pem")
    os.write(descriptor, f"{first}{end}\n".encode())
    os.close(descriptor)
    atexit.register(os.unlink, path)
    return path


@contextmanager
def serve_world(folder: Path, *, kinds: KindRegistry = KINDS, **options: Any) -> Iterator[tuple[World, str]]:
    """Serve a world, made with the options of `open_world`, and yield it with its address."""
    with (
        pytest.MonkeyPatch.context() as patch,
        open_world(folder, moment=datetime.now(UTC), **options) as world,
        socket.socket() as listener,
    ):
        patch.setenv("SSL_CERT_FILE", _one_authority())
        listener.bind(("127.0.0.1", 0))
        app = create_app(world.settings, kinds=kinds, noise=options.get("noise"))
        world.apps.append(app)
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, log_level="error", lifespan="on", **server_options(world.settings))
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        for _ in range(int(scaled(200))):
            if server.started:
                break
            time.sleep(0.05)
        assert server.started
        try:
            yield world, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(scaled(20))
