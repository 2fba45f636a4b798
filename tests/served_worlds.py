"""A world behind a real server on loopback, in a thread of this process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
from patience import scaled
from support import World, open_world

from curator_service.api.connections import server_options
from curator_service.app import create_app
from curator_service.kinds.registry import KINDS, KindRegistry


@contextmanager
def serve_world(folder: Path, *, kinds: KindRegistry = KINDS, **options: Any) -> Iterator[tuple[World, str]]:
    """Serve a world, made with the options of `open_world`, and yield it with its address."""
    with open_world(folder, moment=datetime.now(UTC), **options) as world, socket.socket() as listener:
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
