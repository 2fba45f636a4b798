"""Try the mutants: each in a copy of the repository, with the cells of the game first and the tests next."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from audit.core import ROOT
from audit.mutants import MUTANTS, Mutant

ROUNDS = 1500
"""Releases per cell of a mutant: half of an audit's, which is enough for each of them."""

_KEPT = {"CURATOR_TEST_POSTGRES_URL", "CURATOR_TEST_TIME_SCALE"}
_COPIED = ("analyst_client", "audit", "bench", "curator_service", "migrations", "tests", "pyproject.toml")
_PYTEST = (
    *("-m", "pytest", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"),
    "--hypothesis-profile=first_failure",
)
_FAILED = 1  # the exit status of pytest, and of `audit.run --cells`, when something was found
_TIMEOUT_S = 240


class StaleMutantError(RuntimeError):
    """A mutant's text is not in the source exactly once."""


@dataclass(frozen=True, slots=True)
class Catch:
    """Result for a mutant.

    Attributes
    ----------
    mutant : Mutant
    by : tuple of str
        The cells and the tests that found it.
    trouble : str
        Why it could not be tried; empty if it could.
    """

    mutant: Mutant
    by: tuple[str, ...]
    trouble: str = ""

    @property
    def caught(self) -> bool:
        """True if a test found it."""
        return bool(self.by) and not self.trouble


def patch(mutant: Mutant, root: Path) -> None:
    """Apply a mutant to a copy.

    Raises
    ------
    StaleMutantError
    """
    for old, new, *other in mutant.replacements:
        name = other[0] if other else mutant.path
        text = (root / name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise StaleMutantError(f"{name} holds {text.count(old)} times, not once: {old.strip()}")
        (root / name).write_text(text.replace(old, new), encoding="utf-8")


@contextmanager
def copy_of_repository(mutant: Mutant | None = None) -> Iterator[Path]:
    """Copy what tests need to a temporary folder, with a mutant in it or without.

    Raises
    ------
    StaleMutantError
    """
    with tempfile.TemporaryDirectory(prefix="curator-mutant-") as folder:
        for name in _COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)
        if mutant is not None:
            patch(mutant, Path(folder))
        yield Path(folder)


class Baseline:
    """Test files that are green without a mutant: only then does a red one prove anything. Each is run once."""

    def __init__(self) -> None:
        self._trouble: dict[str, str] = {}
        self._locks = {name: threading.Lock() for mutant in MUTANTS for name in mutant.tests}

    def trouble(self, name: str) -> str:
        """Return what is wrong with a file on an unchanged copy; empty if it is green."""
        with self._locks[name]:
            if name not in self._trouble:
                with copy_of_repository() as root:
                    found, trouble = _pytest(root, name)
                self._trouble[name] = f"{name} is not green without a mutant: {found or trouble}" * bool(
                    found or trouble
                )
        return self._trouble[name]

    def check(self, workers: int, *, everything: bool) -> list[str]:
        """Run the files that are needed for sure: the first of each mutant that no cell is named for."""
        names = {name for mutant in MUTANTS if not mutant.cells for name in mutant.tests[:1]}
        if everything:
            names |= set(self._locks)
        with ThreadPoolExecutor(workers) as pool:
            return [trouble for trouble in pool.map(self.trouble, sorted(names)) if trouble]


def try_mutants(baseline: Baseline, workers: int, *, everything: bool = False) -> Iterator[Catch]:
    """Yield what becomes of each mutant, as it comes; with `everything`, tests run on those also that a cell caught."""
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(try_mutant, mutant, baseline, everything=everything) for mutant in MUTANTS]
        for future in as_completed(futures):
            yield future.result()


def try_mutant(mutant: Mutant, baseline: Baseline, *, everything: bool = False) -> Catch:
    """Patch a copy; play cells on it, then run tests, until one finds the flaw."""
    by: list[str] = []
    try:
        with copy_of_repository(mutant) as root:
            if mutant.cells:
                found, trouble = _play(root, mutant.cells)
                if trouble:
                    return Catch(mutant, (), trouble)
                by += [found] if found else []
            for name in mutant.tests:
                if by and not everything and "::" not in name:
                    break
                if trouble := baseline.trouble(name):
                    return Catch(mutant, (), trouble)
                found, trouble = _pytest(root, name, mutant.sign)
                if not found and "::" in name:
                    trouble = trouble or f"{name} stays green"
                if trouble:
                    return Catch(mutant, (), trouble)
                by += [found] if found else []
    except StaleMutantError as error:
        return Catch(mutant, (), str(error))
    return Catch(mutant, tuple(by))


def _play(root: Path, cells: tuple[str, ...]) -> tuple[str, str]:
    finished = _run(root, "-m", "audit.run", "--rounds", str(ROUNDS), "--cells", *cells)
    if finished.returncode == _FAILED and finished.stdout.startswith("{"):
        outcome = json.loads(finished.stdout)
        return f"{outcome['name']}: {outcome['findings'][0]}", ""
    return "", "" if finished.returncode == 0 else _last_line(finished)


def _pytest(root: Path, name: str, sign: str = "") -> tuple[str, str]:
    """Run a file until a test of it is red, or a single test in every case: all green, or all red with the sign."""
    is_single = "::" in name
    finished = _run(root, *_PYTEST, *(() if is_single else ("-x", "-m", "not postgres")), name)
    if finished.returncode == 0:
        return "", ""
    failures = re.findall(r"^FAILED (?:\S*/)?(\S+?\.py::[^\s\[]+)", finished.stdout, re.MULTILINE)
    reasons = re.findall(r"^/\S+:\d+: (.*)$", finished.stdout, re.MULTILINE)
    is_red = finished.returncode == _FAILED and bool(failures)
    if is_single:
        is_red &= not re.search(r"\d+ (passed|skipped|error)", finished.stdout) and all(sign in why for why in reasons)
    return (failures[0], "") if is_red else ("", _last_line(finished))


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose packages come before those that are installed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("CURATOR_") or name in _KEPT
    }
    environment |= {"PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _last_line(finished: subprocess.CompletedProcess[str]) -> str:
    lines = (finished.stdout + finished.stderr).strip().splitlines()
    return f"exit status {finished.returncode}: {lines[-1] if lines else 'no output'}"
