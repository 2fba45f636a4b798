"""What is installed: every dependency pinned by version and hash, no addresses, and a wheel that is whole."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {
    "dev": PROJECT["project"]["optional-dependencies"].keys() - {"spark"},
    "server": {"server"},
    "spark": PROJECT["project"]["optional-dependencies"].keys(),
}
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
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    wanted += [requirement for extra in EXTRAS[name] for requirement in extras[extra]]
    locked = pins(LOCKS[name])
    for requirement in map(Requirement, wanted):
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement.name} is not in the lock: make lock"
        assert all(requirement.specifier.contains(version, prereleases=True) for version in versions)


@pytest.mark.parametrize("name", ["server", "spark"])
def test_the_locks_agree(name: str) -> None:
    dev, other = pins(LOCKS["dev"]), pins(LOCKS[name])
    assert {name: dev[name] for name in other if name in dev} == {name: other[name] for name in other if name in dev}


def test_spark_is_in_its_own_lock_alone() -> None:
    """It is larger than everything else together, and `make test` does without it."""
    assert [name for name in LOCKS if "pyspark" in pins(LOCKS[name])] == ["spark"]


def test_the_analyst_s_install_is_light() -> None:
    names = {Requirement(text).name for text in PROJECT["project"]["dependencies"]}
    assert names == {"cryptography", "httpx", "numpy", "scipy"}


@pytest.mark.slow
def test_the_wheel_holds_both_packages_the_migrations_and_the_licence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for wanted in (
        "analyst_client/py.typed",
        "curator_service/app.py",
        "curator_service/kinds/gram/conformance.json",
        "curator_service/migrations/env.py",
        "curator_service/dashboard/glossary.md",
        "curator_service/dashboard/static/htmx.LICENSE.txt",
        "curator_service/dashboard/static/style.css",
        "curator_service/dashboard/templates/base.html",
    ):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"analyst_client", "curator_service"}


def test_the_client_imports_nothing_of_the_server() -> None:
    program = "import sys, analyst_client; print([m for m in sys.modules if m.split('.')[0] in sys.argv[1:]])"
    server = ["curator_service", "fastapi", "sqlalchemy", "pydantic", "pyarrow", "sklearn", "pandas"]
    done = subprocess.run([sys.executable, "-c", program, *server], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
