"""Installed packages: every dependency pinned by version and hash, no addresses, and two wheels that stand alone."""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import analyst_client
import curator_service

ROOT = Path(__file__).resolve().parents[3]
SERVER, CLIENT = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")) for folder in (".", "analyst_client")
)
EXTRAS = {
    "dev": {"traces", "docs", "dev", "plots", "formula", "truststore"},
    "demo": {"plots"},
    "server": set[str](),
    "client": set[str](),
    "spark": {"spark", "traces", "docs", "dev", "plots", "formula", "truststore"},
}
"""What each lock holds beside the dependencies."""
LOCKS = {name: ROOT / "locks" / f"{name}.lock" for name in (*EXTRAS, "crate")}
"""The last is of a program that tests run in an environment of its own."""


def blocks(lock: Path) -> list[str]:
    """Return one text per pinned requirement, its hashes included."""
    return re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").replace("\\\n", " ").strip())


def pins(lock: Path) -> dict[str, set[str]]:
    """Return the pinned versions by name; a name may have one per range of Python."""
    found: dict[str, set[str]] = {}
    for block in blocks(lock):
        requirement = Requirement(block.split("--hash", 1)[0].strip())
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), set()).add(pin.version)
    return found


@pytest.mark.parametrize("name", list(LOCKS))
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    assert all("--hash=sha256:" in block for block in blocks(LOCKS[name]))


@pytest.mark.parametrize("name", list(LOCKS))
def test_a_lock_holds_no_address(name: str) -> None:
    text = LOCKS[name].read_text(encoding="utf-8")
    assert re.search(r"://| @ |^ *-[-a-z]*(index|find-links|host)", text, re.MULTILINE) is None


@pytest.mark.parametrize("name", list(EXTRAS))
def test_the_lock_meets_what_the_project_asks_for(name: str) -> None:
    projects = {"server": [SERVER], "client": [CLIENT]}.get(name, [SERVER, CLIENT])
    wanted = [] if name == "client" else [*SERVER["build-system"]["requires"]]
    for project in (project["project"] for project in projects):
        wanted += project["dependencies"]
        wanted += [text for extra in EXTRAS[name] for text in project["optional-dependencies"].get(extra, [])]
    locked = pins(LOCKS[name])
    for requirement in map(Requirement, wanted):
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement.name} is not in the lock: make lock"
        assert all(requirement.specifier.contains(version, prereleases=True) for version in versions)


@pytest.mark.parametrize("name", ["demo", "server", "client", "spark"])
def test_the_locks_agree(name: str) -> None:
    dev, other = pins(LOCKS["dev"]), pins(LOCKS[name])
    assert {name: dev[name] for name in other if name in dev} == {name: other[name] for name in other if name in dev}


def test_spark_is_in_its_own_lock_alone() -> None:
    """It is larger than everything else together, and `make test` does without it."""
    assert [name for name in LOCKS if "pyspark" in pins(LOCKS[name])] == ["spark"]


def test_the_analyst_s_install_is_light() -> None:
    names = {Requirement(text).name for text in CLIENT["project"]["dependencies"]}
    assert names == {"cryptography", "httpx", "numpy", "scipy"}


def test_both_distributions_say_the_same_of_themselves() -> None:
    assert analyst_client.__version__ == curator_service.__version__
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "analyst_client" / "LICENSE").read_bytes()
    for member in ("requires-python", "license", "keywords", "classifiers"):
        assert SERVER["project"][member] == CLIENT["project"][member]
    assert SERVER["build-system"] == CLIENT["build-system"]
    assert SERVER["tool"]["numpydoc_validation"] == CLIENT["tool"]["numpydoc_validation"]


# --- Each wheel alone, with the packages of its lock and no others

MODULES = """
import importlib, json, pkgutil, sys
package, missing = importlib.import_module(sys.argv[1]), {}
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".", missing.setdefault)]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        missing[name] = str(error)
print(json.dumps({"names": names, "missing": missing}))
"""


@pytest.fixture(scope="module", params=["server", "client"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[str]]:
    """Return which distribution it is, an environment that has it and what its lock names, and the wheel's files."""
    folder = tmp_path_factory.mktemp(request.param)
    source = ROOT / {"server": ".", "client": "analyst_client"}[request.param]
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv")
    (site,) = (folder / "venv").glob("lib/python3*/site-packages")
    for name in pins(LOCKS[request.param]):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:  # of another system, or another Python
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(distribution(name).locate_file(top)))
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(folder / "venv/bin/python"), "install"]
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([*pip, *options, str(wheel)], check=True, capture_output=True)
    with zipfile.ZipFile(wheel) as archive:
        return request.param, folder / "venv", archive.namelist()


def run_alone(environment: Path, *command: str) -> str:
    """Run a program of an environment, which sees nothing of this one."""
    program, *words = command
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [environment / "bin" / program, *words],
        cwd=environment,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_has_its_own_files_and_none_of_the_other(installed: tuple[str, Path, list[str]]) -> None:
    name, _, files = installed
    package, wanted = {
        "client": (
            "analyst_client",
            {"py.typed", "refinement/holding.py", "tutorial/answers.json", "tutorial/held_out.csv"},
        ),
        "server": (
            "curator_service",
            {
                "app.py",
                "kinds/gram/conformance.json",
                "migrations/env.py",
                "migrations/versions/0001_schema.py",
                "dashboard/glossary.md",
                "health/CHANGELOG.md",
                "dashboard/static/htmx.LICENSE.txt",
                "dashboard/static/style.css",
                "dashboard/templates/base.html",
                "datasets/exports/templates/officer.html",
                "evidence/templates/check.html",
                "kit/templates/paper.css",
            },
        ),
    }[name]
    assert {f"{package}/{file}" for file in wanted} <= set(files)
    assert any(file.endswith("licenses/LICENSE") for file in files)
    assert {file.split("/")[0] for file in files if ".dist-info/" not in file} == {package}
    tracked = subprocess.run(["git", "ls-files", package], cwd=ROOT, check=False, capture_output=True, text=True).stdout
    project = {f"{package}/{file}" for file in ("LICENSE", "README.md", "pyproject.toml")}
    assert set(tracked.split()) - project <= set(files)


@pytest.mark.slow
def test_every_module_of_a_wheel_is_imported_alone(installed: tuple[str, Path, list[str]]) -> None:
    name, environment, _ = installed
    package, other, optional = {
        "client": ("analyst_client", "curator_service", "analyst_client.plots"),
        "server": ("curator_service", "analyst_client", "curator_service.datasets.engines.spark"),
    }[name]
    found = json.loads(run_alone(environment, "python", "-c", MODULES, package))
    assert len(found["names"]) > 150
    assert {name: why for name, why in found["missing"].items() if not name.startswith(optional)} == {}
    assert {next(word for word in ("matplotlib", "py4j") if word in why) for why in found["missing"].values()} == {
        {"client": "matplotlib", "server": "py4j"}[name]
    }
    absent = f"import importlib.util; print(importlib.util.find_spec({other!r}))"
    assert run_alone(environment, "python", "-c", absent) == "None\n"


@pytest.mark.slow
def test_the_commands_of_a_wheel_run_alone(installed: tuple[str, Path, list[str]]) -> None:
    name, environment, _ = installed
    commands = {"client": {"curator-admin", "curator-verify"}, "server": {"curator"}}[name]
    own = {"client": CLIENT, "server": SERVER}[name]
    assert own["project"]["scripts"].keys() == commands
    for command in commands:
        assert "usage" in run_alone(environment, command, "--help").lower()
