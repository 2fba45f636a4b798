"""The search for what must not be shown finds it, wherever it is looked for: of each place something is planted."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from canaries import CANARIES, MARK, Canaries
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from support import ROWS, open_world

from curator_service.api.http import RequestGuard
from curator_service.dashboard.sessions import new_secret
from curator_service.identity.tokens import make_token

ROW = f"93.9282{MARK}"


def answer(content: str, media_type: str, headers: dict[str, str] | None = None) -> None:
    """Serve one answer through what every answer passes."""

    async def endpoint(_: Any) -> Response:
        return Response(content, media_type=media_type, headers=headers)

    async def ask() -> None:
        app = RequestGuard(Starlette(routes=[Route("/", endpoint)]), 1000)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://curator.test") as client:
            assert (await client.get("/")).status_code == 200

    asyncio.run(ask())


@pytest.mark.parametrize(
    "media_type", ["application/problem+json", "text/html", "text/plain; version=0.0.4", "text/csv"]
)
@pytest.mark.parametrize("what", ["row", "token", "secret", "session"])
def test_what_an_answer_shows_is_found(media_type: str, what: str) -> None:
    token = make_token()
    shown = {"row": ROW, "token": token.text, "secret": token.secret, "session": new_secret()}[what]
    answer(f"<p>It failed at {shown}.</p>", media_type)
    found = CANARIES.take()
    assert found
    assert all("the answer to GET /" in one and shown not in one for one in found)


def test_what_a_server_in_a_process_of_its_own_answers_is_found() -> None:
    own, headers = Canaries(), {"Content-Type": "application/problem+json"}
    refused = httpx.MockTransport(lambda _: httpx.Response(422, headers=headers, text=f'{{"detail": "{ROW}"}}'))
    with httpx.Client(transport=refused, event_hooks={"response": [own.search_answer]}) as client:
        assert client.get("http://127.0.0.1/v1/x").json() == {"detail": ROW}
    assert own.found == ["the answer to GET of a server shows a number of a row"]


def test_what_a_header_shows_is_found() -> None:
    answer("{}", "application/json", {"Location": f"/v1/x?row={ROW}"})
    assert CANARIES.take() == ["a header of GET / shows a number of a row"]


def test_what_was_asked_for_is_not() -> None:
    """Whoever makes a token is told it, once; and a browser gets its session in a cookie."""
    answer(make_token().text, "application/json", {"Set-Cookie": f"session={new_secret()}"})
    assert CANARIES.take() == []


@pytest.mark.parametrize("level", [logging.INFO, logging.ERROR])
def test_what_the_log_shows_is_found(level: int) -> None:
    logging.getLogger("curator_service.requests").log(level, "row %s", ROW)
    logging.getLogger("curator_service").log(level, "x", extra={"outcome": make_token().text})
    assert [one.partition(" shows ")[2] for one in CANARIES.take()][:2] == ["a number of a row", "a token"]


def test_what_the_log_drops_is_not() -> None:
    logging.getLogger("another.library").error("row %s", ROW)
    assert CANARIES.take() == []


def test_what_a_server_wrote_is_found(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    planted, own = tmp_path / "deep" / "server-0.log", Canaries()
    planted.write_text(f"{{}}\nTraceback\nValueError: {ROW}\n", encoding="utf-8")
    assert own.search_logs(tmp_path) == 1
    planted.unlink()  # the search at the end of the run would find it, too
    assert own.found == ["the log server-0.log shows a number of a row"]


def test_a_private_key_is_found(tmp_path: Path) -> None:
    own = Canaries()
    with open_world(tmp_path) as world:
        keys = [file.read_text(encoding="ascii") for file in world.settings.keys_folder.glob("*.pem")]
    private = [text for text in keys if "PRIVATE" in text]
    assert private
    for text in private:
        own.search(text.splitlines()[1], "a line")
        assert own.take()[0] == "a line shows a private key"


def test_every_row_of_the_tests_worlds_is_marked() -> None:
    assert all(row["age"].endswith(MARK) and row["kappa"].endswith(MARK) for row in ROWS)


def test_a_test_during_which_something_is_shown_fails(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(
        "import logging, sys\n"
        f"def test_log(): logging.getLogger('curator_service').warning('{ROW}')\n"
        f"def test_stream(): sys.stderr.write('{ROW}')\n"
        "def test_other(): pass\n"
        f"def test_file(tmp_path): (tmp_path / 'a.log').write_text('{ROW}')\n",
        encoding="utf-8",
    )
    paths = [str(Path(__file__).parents[1]), *sys.path]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "canaries", "-p", "no:cacheprovider", "test_planted.py"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": ":".join(paths)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout
    assert "4 passed, 3 errors" in ran.stdout, ran.stdout
