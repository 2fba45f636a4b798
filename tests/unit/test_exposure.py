"""Settings refused at the start of a server."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from curator_service.exposure import find_exposures, is_loopback
from curator_service.settings import Settings


def found(host: str = "127.0.0.1", **settings: Any) -> list[str]:
    return find_exposures(Settings(**settings), host)


def test_nothing_is_wrong_with_the_defaults() -> None:
    assert found() == []
    assert found(database_url="postgresql://postgres@127.0.0.1/postgres") == []  # by its user, or libpq's own file
    assert found(database_url="postgresql://curator_app:1b7e4d90a2c35f68@database/curator") == []
    assert found(database_url="nonsense") == []  # refused by whoever opens it


@pytest.mark.parametrize("password", ["", "password", "CHANGEME", "curator_app", "postgres", "%E2%80%A6", "<password>"])
def test_a_password_of_an_example_is_refused(password: str) -> None:
    (reason,) = found(database_url=f"postgresql://curator_app:{password}@database/curator")
    assert "password of the database" in reason
    assert not password or password not in reason.replace("password", "").replace("the database", "")


def test_so_is_one_that_comes_from_a_file_and_that_of_a_source(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("changeme\n", encoding="utf-8")
    url = "postgresql://curator_app@database/curator"
    assert len(found(database_url=url, database_password_file=file)) == 1
    (reason,) = found(sources={"hospital": "postgresql://reader:reader@host/records"})
    assert "'hospital'" in reason


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "curator.example.org"])
def test_tokens_do_not_travel_in_the_clear(host: str) -> None:
    (reason,) = found(host)
    assert "CURATOR_PROXY" in reason
    assert found(host, proxy="10.1.2.1") == found(host, proxy="*") == found(host, proxy="10.0.0.0/8, ::1") == []


@pytest.mark.parametrize(
    ("host", "is_local"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("", False)]
)
def test_loopback_is_this_machine(host: str, is_local: bool) -> None:
    assert is_loopback(host) is is_local


@pytest.mark.parametrize("proxy", ["declared", "proxy", "10.0.0.0/99", ""])
def test_a_proxy_is_an_address(proxy: str) -> None:
    with pytest.raises(ValidationError, match="proxy"):
        Settings(proxy=proxy)


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [
        (["-X", "dev"], {}, "development mode"),
        ([], {"PYTHONASYNCIODEBUG": "1"}, "development mode"),
        (["-O"], {}, "python -O"),
        ([], {}, ""),
    ],
)
def test_debugging_is_refused(arguments: list[str], variables: dict[str, str], named: str, tmp_path: Path) -> None:
    program = (
        "from curator_service.exposure import find_exposures; from curator_service.settings import Settings; "
        "print(find_exposures(Settings(), '127.0.0.1'))"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments, "-c", program],
        env=variables | {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (named in ended.stdout) if named else ended.stdout == "[]\n"
