"""Simulations, and the page of what they found: `make simulate`.

    python tests/simulations/simulate.py           run them, and write docs/simulations.md
    python tests/simulations/simulate.py --check   run them where the page is about other code

The page states the digest of the code that they are about, without its comments and docstrings: a word that changes
there makes no simulation due.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from audit.code import read_code

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulations.md"
CODE = (
    "tests/simulations",
    "analyst_client/analyses",
    "analyst_client/estimators",
    "analyst_client/inference",
    "analyst_client/kinds",
    "analyst_client/planning",
    "analyst_client/refinement",
    "analyst_client/terms",
    "curator_service/kinds",
    "curator_service/privacy",
)
"""Folders that simulations run, beside the modules of `bench` that they import."""
_OF_BENCH = re.compile(r"^\s*(?:from|import) (bench\.\w+)", re.MULTILINE)
_LINE = re.compile(r"^Digest of the simulated code \(SHA-256\): `([0-9a-f]{64})`$", re.MULTILINE)


def list_files() -> list[Path]:
    """Return the simulated files, in order: those of the folders, and the modules of `bench` that they import."""
    found = {path for name in CODE for path in (ROOT / name).rglob("*.py")}
    pending = list(found)
    while pending:
        named = _OF_BENCH.findall(pending.pop().read_text(encoding="utf-8"))
        further = {ROOT / f"{name.replace('.', '/')}.py" for name in named} - found
        found |= further
        pending += further
    return sorted(found)


def make_digest() -> str:
    """Hash paths and code, each after its length."""
    digest = hashlib.sha256()
    for path in list_files():
        for content in (str(path.relative_to(ROOT)).encode(), read_code(path.read_text(encoding="utf-8")).encode()):
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def is_current() -> bool:
    """Return whether the page is about this code."""
    return PAGE.is_file() and _LINE.findall(PAGE.read_text(encoding="utf-8")) == [make_digest()]


def run(workers: int) -> tuple[int, str]:
    """Run every simulation; return pytest's status and the page of what they found."""
    with tempfile.TemporaryDirectory() as folder:
        report, began = Path(folder) / "report.xml", time.monotonic()
        words = [
            "-m",
            "pytest",
            "tests/simulations",
            "-q",
            "-n",
            str(workers),
            "--dist",
            "load",
            f"--junitxml={report}",
        ]
        ended = subprocess.run([sys.executable, *words], cwd=ROOT, check=False)
        page = write_page(ElementTree.parse(report).getroot(), time.monotonic() - began)
    return ended.returncode, page


def write_page(report: ElementTree.Element, seconds: float) -> str:
    """Return the page: how many cases of each file held."""
    lines = [
        "# Simulations",
        "",
        "`make simulate` wrote this page. Each case repeats releases of made or real rows, with seeds, and compares",
        "rates with what they should be: a coverage, a size, a spread. It fails beyond three standard errors.",
        "",
        f"Digest of the simulated code (SHA-256): `{make_digest()}`",
        "",
        f"All of them took {seconds:,.0f} s, beside other work or not.",
        "",
        "| file | cases | held | failed |",
        "| --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *_rows(report)]) + "\n"


def _rows(report: ElementTree.Element) -> Iterator[str]:
    cases: dict[str, list[bool]] = {}
    for case in report.iter("testcase"):
        failed = any(child.tag in {"failure", "error"} for child in case)
        cases.setdefault(case.get("classname", "").split(".")[2], []).append(failed)
    for name, failed in sorted(cases.items()):
        yield f"| `{name}.py` | {len(failed)} | {failed.count(False)} | {failed.count(True)} |"


def main() -> int:
    """Run the simulations where they are due, or asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only where the page is about other code; write nothing")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.check and is_current():
        return 0
    status, page = run(given.workers)
    if not given.check:
        PAGE.write_text(page, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
