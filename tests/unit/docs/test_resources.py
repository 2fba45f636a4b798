"""docs/resources.md has a row for whatever can grow: what the code has and the page has not fails, and the reverse."""

import ast
import fnmatch
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import World, body

from curator_service.identity.policy import PUBLIC
from curator_service.kit.db import Base

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "curator_service"
REMEMBERING = {"cache", "lru_cache", "cache_short", "cache_sized"}
STORES = {"SizedCache", "OrderedDict", "WeakKeyDictionary", "Counter", "defaultdict"}
COLLECTIONS = STORES | {"dict", "set", "list", "deque"}
RUNNING = {"Thread", "ThreadPoolExecutor", "ProcessPoolExecutor", "Periodic", "create_engine", "get_context"}
WHO = {"stranger", "analyst", "steward", "officer", "operator", "nobody"}


class Row(NamedTuple):
    """A row of the page."""

    what: str
    who: str
    bound: str
    test: str


@cache
def rows_of(section: str) -> list[Row]:
    page = (ROOT / "docs" / "resources.md").read_text(encoding="utf-8")
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [Row(*cells) for cells in lines]


def listed(section: str) -> list[str]:
    """Return the names that a section has; of a module's the module stands before each."""
    found = []
    for row in rows_of(section):
        for name in re.findall(r"`([^`]+)`", row.what):
            module, colon, names = name.partition(": ")
            found += [f"{module}: {one}" for one in names.split()] if colon else [name]
    return found


def name_of(node: ast.AST | None) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_collection(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not ast.unparse(value).strip("{}[]")
    if not isinstance(value, ast.Call):
        return False
    factories = [name_of(one.value) for one in value.keywords if one.arg == "default_factory"]
    return name_of(value) in COLLECTIONS or bool({"dict", "set"} & {*factories})


def stores_of(tree: ast.Module) -> Iterator[str]:
    """Yield functions that remember their arguments, and collections of a module or an object that lives on."""
    frozen = {
        id(member)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "frozen=True" in " ".join(map(ast.unparse, node.decorator_list))
        for member in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if node.args.args and REMEMBERING & {name_of(one) for one in node.decorator_list}:
                yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and id(node) not in frozen:
            (target,) = node.targets[:1] if isinstance(node, ast.Assign) else (node.target,)
            remembers = isinstance(node.value, ast.Call) and name_of(node.value) in REMEMBERING
            lives_on = (
                isinstance(target, ast.Attribute) or node.col_offset == 0 or "default_factory" in ast.unparse(node)
            )
            if remembers or (lives_on and is_collection(node.value)):
                yield name_of(target)


def running_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if name_of(node.func) in RUNNING:
                yield name_of(node.func)
            elif ast.unparse(node.func) == "os.open":
                yield "os.open"


def found_by(find: Any) -> set[str]:
    return {
        f"{path.relative_to(PACKAGE).as_posix()}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in find(ast.parse(path.read_text(encoding="utf-8")))
    }


def compare(section: str, found: set[str]) -> None:
    names = listed(section)
    assert len(names) == len(set(names)), "a resource has two rows"
    assert (found - set(names), set(names) - found) == (set(), set()), "without a row, and rows without a resource"


def test_tables() -> None:
    compare("Tables", set(Base.metadata.tables))


def test_memory() -> None:
    compare("Memory", found_by(stores_of))


def test_threads_processes_connections_and_descriptors() -> None:
    compare("Threads, processes and descriptors", found_by(running_in))


def test_addresses(world: World) -> None:
    world.api()
    found, pending = set(), list(world.apps[-1].routes)
    while pending:
        route = pending.pop()
        pending += getattr(getattr(route, "original_router", None), "routes", None) or []
        path, action = getattr(route, "path", None), getattr(getattr(route, "endpoint", None), "action", None)
        if path is not None:
            methods = " ".join(sorted(getattr(route, "methods", None) or {"GET"}))
            is_open = action is None or action in PUBLIC
            found.add(f"{methods} {path}" if is_open else "/admin/…" if path.startswith("/admin") else "/v1/…")
    compare("Addresses", found)


def test_files(world: World) -> None:
    api = world.api()
    assert api.post("/v1/datasets/cohort/releases", json=body(), key="k").status_code == 201
    folders = {"data": world.settings.data_dir, "anchor": world.settings.anchor_folder}
    found = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in folders.items()
        for path in folder.rglob("*")
        if path.is_file()
    }
    patterns = listed("Files")
    assert {file for file in found if not any(fnmatch.fnmatch(file, one) for one in patterns)} == set()
    code = " ".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    named = {max(re.split(r"[*/]", one.rpartition("/")[2] or one), key=len) for one in patterns}
    assert {name for name in named if name.lstrip(".") not in code} == set()


SECTIONS = ["Tables", "Addresses", "Memory", "Threads, processes and descriptors", "Files"]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_says_who_what_bounds_it_and_which_test_fills_it(section: str) -> None:
    for row in rows_of(section):
        assert set(row.who.split(", ")) <= WHO, row
        assert len(row.bound) > 3, row
        if row.test == "none":
            continue
        file, *names = row.test.strip("`").split("::")
        tree: ast.AST = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        for name in names:
            members = {getattr(one, "name", ""): one for one in getattr(tree, "body", [])}
            assert name in members, row
            tree = members[name]
