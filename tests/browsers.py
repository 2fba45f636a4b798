"""Debian's Chromium, and what axe finds on its pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLOURS = ["color-contrast", "link-in-text-block"]


@contextmanager
def launch() -> Iterator[Any]:
    """Run a browser, which is the system's: playwright brings one of its own by network alone.

    Worlds come first and go last: no other loop of events runs in a thread in which playwright does.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("the dashboard is NOT tested in a browser: install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=sandbox)
        yield launched
        launched.close()


def list_violations(page: Any, scheme: str = "light") -> list[Any]:
    """Return what axe finds on a page that bypasses its policy: axe is a script.

    In the dark scheme it looks at colours alone: everything else is as in the light one.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    asked = {"type": "tag", "values": WCAG} if scheme == "light" else {"type": "rule", "values": OF_COLOURS}
    found = axe.run(page, options={"runOnly": asked}).response["violations"]
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
