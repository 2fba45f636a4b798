"""PgBouncer on loopback, in front of the PostgreSQL server of the tests."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from patience import wait_for
from sqlalchemy import make_url

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def open_pooler(folder: Path, url: str, *, mode: str = "transaction", size: int = 20) -> Iterator[str]:
    """Run PgBouncer; yield the URL of a database through it.

    Parameters
    ----------
    folder : Path
        Where its configuration and its log are written.
    url : str
        Of the database, with the role that PgBouncer signs in as.
    mode : str
        When a server's connection serves the next client: after each `session`, `transaction` or `statement`.
    size : int
        Connections to the server.
    """
    if PROGRAM is None:
        pytest.skip("connections through PgBouncer are NOT tested: install pgbouncer")
    address = make_url(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    configuration, log = folder / "pgbouncer.ini", folder / "pgbouncer.log"
    server = f"host={address.host} port={address.port or 5432} user={address.username} dbname={address.database}"
    password = "" if address.password is None else f" password={address.password}"
    lines = (
        "[databases]",
        f"{address.database} = {server}{password}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        "auth_type = any",
        f"pool_mode = {mode}",
        f"default_pool_size = {size}",
        "max_client_conn = 500",
    )
    configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
    user = ["--user", "nobody"] if os.geteuid() == 0 else []  # it refuses to run as root
    through = address.set(port=port, host="127.0.0.1").render_as_string(hide_password=False)
    with log.open("wb") as output:
        process = subprocess.Popen([PROGRAM, *user, str(configuration)], stdout=output, stderr=output)
        try:
            wait_for(lambda: _answers(through), f"PgBouncer does not answer; see {log}")
            yield through
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True
