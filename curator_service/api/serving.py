"""Processes that serve: one, or several behind one socket."""

import logging
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from curator_service.kit.files import lock

log = logging.getLogger("curator_service")
_SHARED_PREFIX = "curator-metrics-"


class Workers(Multiprocess):
    """Worker processes and their parent, which holds their socket.

    Asked to end, the parent closes it too: else whoever comes while the workers finish is let in by the system, waits
    for nobody, and is cut off in the end.
    """

    def terminate_all(self) -> None:
        """Ask every worker to end."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def bind(host: str, port: int) -> socket.socket:
    """Take an address, before anything is started for it.

    Raises
    ------
    OSError
        If it is taken, or not one of this machine.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def run_server(listener: socket.socket, *, workers: int, public_url: str | None = None, **options: Any) -> None:
    """Serve until a signal; a start that fails ends the process with a status of its own.

    Parameters
    ----------
    listener : socket.socket
        Bound to the address.
    public_url : str, optional
        Where people reach it; the address of this machine if not given.
    **options
        Of uvicorn.

    Raises
    ------
    OSError
        If somebody else listens at the address by now.
    """
    config = uvicorn.Config(workers=workers, **options)
    host, port = listener.getsockname()[:2]
    here = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    log.info("will serve on %s; its pages are at %s/admin", here, public_url or here)
    if workers == 1:
        server = uvicorn.Server(config)
        server.run([listener])
        started = server.started
    else:
        supervisor = Workers(config, [listener])
        supervisor.run()
        started = all(process.exitcode != STARTUP_FAILURE for process in supervisor.processes)
    if not started:
        sys.exit(STARTUP_FAILURE)


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder for a while, where worker processes add up counters; remove those of parents that were killed."""
    for left in Path(gettempdir()).glob(f"{_SHARED_PREFIX}*"):
        with suppress(OSError):
            held = lock(left / "lock")
            if held is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(held)
    with TemporaryDirectory(prefix=_SHARED_PREFIX) as folder:
        held = lock(Path(folder) / "lock", os.O_CREAT)
        try:
            yield Path(folder)
        finally:
            if held is not None:
                os.close(held)
