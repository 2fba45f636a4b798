"""Sweeps: tests that take minutes, each run when the code that it is about has changed.

    python tests/sweeps.py                run all of them, and write docs/sweeps.md
    python tests/sweeps.py crashes        run this one
    python tests/sweeps.py --check        run those that are due, and write nothing

A sweep is made of the tests with its marker, which is the sweep's name: of a file (`pytestmark`), or on a case.
docs/sweeps.md states the digest of the code that its results are about. Comments and docstrings of Python do not count:
a word that changes there makes no sweep due.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from audit.code import read_code

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sweeps.md"
HEAD = """\
# Sweeps

`make sweeps` wrote this page. A sweep is a set of tests that takes minutes. `make test` leaves it out. `.ci/run` runs a
sweep when the code that it is about is not the code of this page.
"""
_IMPORTED = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)
_SECTION = re.compile(r"^## (\w+)\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"^Digest of the code \(SHA-256\): `([0-9a-f]{64})`$", re.MULTILINE)


@dataclass(frozen=True)
class Sweep:
    """A sweep in words, and the files and folders whose code it is about, beside its tests."""

    words: str
    code: tuple[str, ...]


SWEEPS = {
    "simulations": Sweep(
        "Each case repeats releases of made or real rows, with seeds, and compares rates with what they should be: a "
        "coverage, a size, a spread. It fails beyond three standard errors.",
        (
            "analyst_client/analyses",
            "analyst_client/estimators",
            "analyst_client/inference",
            "analyst_client/kinds",
            "analyst_client/local",
            "analyst_client/planning",
            "analyst_client/refinement",
            "analyst_client/terms",
            "curator_service/kinds",
            "curator_service/privacy",
        ),
    ),
    "crashes": Sweep(
        "Servers are killed, their disks fill, their databases fail, stop or are replaced by older ones, at steps all "
        "over a request, on SQLite and on PostgreSQL. Rows of every table are changed, deleted and brought back. No "
        "charge may be lost, nothing sold twice, and nobody allowed more.",
        (
            "curator_service/api",
            "curator_service/approvals",
            "curator_service/datasets",
            "curator_service/entries",
            "curator_service/kit",
            "curator_service/ledger",
            "curator_service/permits",
            "curator_service/register",
            "curator_service/releases",
            "curator_service/sessions",
            "curator_service/app.py",
            "curator_service/backup.py",
            "curator_service/container.py",
            "migrations",
            "tests/support.py",
        ),
    ),
    "machines": Sweep(
        "The product stands on machinery of others: a bare Debian under systemd, Chromium, nginx and Caddy, an OpenID "
        "provider, a validator of RO-Crates, and curl.",
        (
            "Dockerfile",
            "Makefile",
            "curator_service/dashboard",
            "curator_service/evidence",
            "curator_service/identity",
            "deploy",
            "docs/first-hour.md",
            "examples",
            "locks",
        ),
    ),
    "package": Sweep(
        "The R package with the library that it runs: R CMD check, and fits and tables beside those of the library.",
        (
            "Makefile",
            "analyst_client/client.py",
            "analyst_client/estimators",
            "analyst_client/fitting",
            "analyst_client/r_adapter.py",
            "analyst_client/tutorial",
            "r",
        ),
    ),
}


def list_tests(name: str) -> list[Path]:
    """Return the files with tests of a sweep, in order."""
    mark = f"pytest.mark.{name}"
    return sorted(path for path in _modules().values() if mark in path.read_text(encoding="utf-8"))


def list_files(name: str) -> list[Path]:
    """Return the files that a sweep is about, in order: those named, its tests, and modules that these import."""
    modules, pending = _modules(), list_tests(name)
    found = set(pending)
    while pending:
        named = _IMPORTED.findall(pending.pop().read_text(encoding="utf-8"))
        further = {modules[module] for module in named if module in modules} - found
        found |= further
        pending += further
    return sorted({*found, *(path for place in SWEEPS[name].code for path in _files_of(place))})


def _modules() -> dict[str, Path]:
    """Return the files of tests, which import each other by plain names, and those of `bench`."""
    tests = {path.stem: path for path in _files_of("tests") if path.suffix == ".py" and path.name != "conftest.py"}
    return tests | {f"bench.{path.stem}": path for path in _files_of("bench") if path.suffix == ".py"}


def _files_of(place: str) -> Iterator[Path]:
    at = ROOT / place
    for path in at.rglob("*") if at.is_dir() else [at]:
        if path.is_file() and path.suffix != ".pyc":
            yield path


def make_digest(name: str) -> str:
    """Hash paths and what stands there, each after its length."""
    digest = hashlib.sha256()
    for path in list_files(name):
        text = path.read_bytes()
        code = read_code(text.decode()).encode() if path.suffix == ".py" else text
        for content in (str(path.relative_to(ROOT)).encode(), code):
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def read_sections() -> dict[str, str]:
    """Return the page's section of each sweep that it tells of."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    return {found[1].lower(): found[0] for found in _SECTION.finditer(page)}


def is_due(name: str) -> bool:
    """Return whether the page is about other code, or tells nothing of this sweep."""
    return _DIGEST.findall(read_sections().get(name, "")) != [make_digest(name)]


def run(name: str, workers: int) -> str | None:
    """Run a sweep; return the section of what it found, or None where a case failed or was skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report, began = Path(folder) / "report.xml", time.monotonic()
        chosen = [*map(str, list_tests(name)), "-m", name, "-q", f"--junitxml={report}"]
        words = [*chosen, "-n", str(workers), "--dist", "loadfile"]
        ended = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False)
        if ended.returncode != 0:
            return None
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        seconds = time.monotonic() - began
    if skipped := [case.get("name", "") for case in cases if case.find("skipped") is not None]:
        print(f"{name}: not held to have passed, since {len(skipped)} cases were skipped: {', '.join(skipped[:5])}")
        return None
    return write_section(name, [case.get("classname", "") for case in cases], seconds)


def write_section(name: str, modules: list[str], seconds: float) -> str:
    """Return the section of a sweep whose cases held: how many each file has."""
    lines = [
        f"## {name.capitalize()}",
        "",
        *textwrap.wrap(SWEEPS[name].words, 120),
        "",
        f"Digest of the code (SHA-256): `{make_digest(name)}`",
        "",
        f"All cases held. They took {seconds:,.0f} s, beside other work or not.",
        "",
        "| file | cases |",
        "| --- | ---: |",
        *_rows(modules),
    ]
    return "\n".join(lines) + "\n"


def _rows(modules: list[str]) -> Iterator[str]:
    files = [next(part for part in module.split(".") if part.startswith("test_")) for module in modules]
    for file in sorted(set(files)):
        yield f"| `{file}.py` | {files.count(file)} |"


def main() -> int:
    """Run sweeps; return 1 where one did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SWEEPS)}: these alone")
    parser.add_argument("--check", action="store_true", help="only where they are due; write nothing")
    parser.add_argument("--workers", type=int, default=3)
    given = parser.parse_args()
    if unknown := set(given.names) - set(SWEEPS):
        parser.error(f"no sweep {', '.join(sorted(unknown))}: there are {', '.join(SWEEPS)}")
    status, sections = 0, read_sections()
    for name in given.names or SWEEPS:
        if given.check and not is_due(name):
            print(f"{name}: docs/sweeps.md is about this code")
            continue
        section = run(name, given.workers)
        if section is None:
            status = 1
        elif not given.check:
            sections[name] = section
            told = [sections[one].rstrip() + "\n" for one in SWEEPS if one in sections]
            PAGE.write_text("\n".join([HEAD, *told]), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
