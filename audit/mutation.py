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

from audit.digest import ROOT
from audit.mutants import MUTANTS, Mutant

ROUNDS = 1500
"""Releases per cell of a mutant: half of an audit's, which is enough for each of them."""

_COPIED = ("analyst_client", "audit", "curator_service", "migrations", "tests", "pyproject.toml")
_FAILED = 1  # the exit status of pytest, and of `audit.run --cells`, when something was found
_TIMEOUT_S = 240


class StaleMutantError(RuntimeError):
    """A mutant's text is not in the source exactly once."""


@dataclass(frozen=True, slots=True)
class Catch:
    """What became of a mutant.

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
        """Whether it was found."""
        return bool(self.by) and not self.trouble


def patch(mutant: Mutant, root: Path) -> None:
    """Apply a mutant to a copy.

    Raises
    ------
    StaleMutantError
    """
    path = root / mutant.path
    text = path.read_text(encoding="utf-8")
    for old, new in mutant.replacements:
        if text.count(old) != 1:
            raise StaleMutantError(f"{mutant.path} holds {text.count(old)} times, not once: {old.strip()}")
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


@contextmanager
def copy_of_repository() -> Iterator[Path]:
    """Copy what a mutant needs to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="curator-mutant-") as folder:
        for name in _COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)
        yield Path(folder)


class Baseline:
    """Which test files are green without a mutant: only then does a red one prove anything. Each is run once."""

    def __init__(self) -> None:
        self._trouble: dict[str, str] = {}
        self._locks = {name: threading.Lock() for mutant in MUTANTS for name in mutant.tests}

    def trouble(self, name: str) -> str:
        """Return what is wrong with a file on an unchanged copy; empty if it is green."""
        with self._locks[name]:
            if name not in self._trouble:
                with copy_of_repository() as root:
                    found, trouble = _pytest(root, (name,))
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
    with copy_of_repository() as root:
        try:
            patch(mutant, root)
        except StaleMutantError as error:
            return Catch(mutant, (), str(error))
        if mutant.cells:
            found, trouble = _play(root, mutant.cells)
            if trouble:
                return Catch(mutant, (), trouble)
            by += [found] if found else []
        for name in mutant.tests:
            if by and not everything:
                break
            if trouble := baseline.trouble(name):
                return Catch(mutant, (), trouble)
            found, trouble = _pytest(root, (name,))
            if trouble:
                return Catch(mutant, (), trouble)
            by += [found] if found else []
    return Catch(mutant, tuple(by))


def _play(root: Path, cells: tuple[str, ...]) -> tuple[str, str]:
    finished = _run(root, "-m", "audit.run", "--rounds", str(ROUNDS), "--cells", *cells)
    if finished.returncode == _FAILED and finished.stdout.startswith("{"):
        outcome = json.loads(finished.stdout)
        return f"{outcome['name']}: {outcome['findings'][0]}", ""
    return "", "" if finished.returncode == 0 else _last_line(finished)


def _pytest(root: Path, files: tuple[str, ...]) -> tuple[str, str]:
    options = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not postgres", "--tb=line")
    finished = _run(root, "-m", "pytest", *options, *files)
    if finished.returncode == _FAILED:
        failures = re.findall(r"^FAILED (?:\S*/)?(\S+?\.py::[^\s\[]+)", finished.stdout, re.MULTILINE)
        return (failures[0], "") if failures else ("", _last_line(finished))
    return "", "" if finished.returncode == 0 else _last_line(finished)


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy, whose packages come before those that are installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CURATOR_")}
    environment |= {"PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
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
