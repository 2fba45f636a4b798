"""No module of a package imports another that leads back to it, not even for its types."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("analyst_client", "curator_service")

Graph = Mapping[str, frozenset[str]]


def read_imports(package: Path) -> Graph:
    """Return which modules of a package each of its modules names in an import, wherever that stands in the file."""
    files = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return {module: frozenset(imported(module, file, files)) - {module} for module, file in sorted(files.items())}


def imported(module: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
                source = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            # A name of a package is a module of it, or something that the package itself has.
            named = [name if (name := f"{source}.{alias.name}") in modules else source for alias in node.names]
        else:
            continue
        yield from (name for name in named if name in modules)


def find_circle(graph: Graph) -> list[str]:
    """Return one shortest circle, its first module again at the end; or nothing."""
    circles = [path for module in graph if (path := find_path(graph, module, module))]
    return min(circles, key=len, default=[])


def find_path(graph: Graph, start: str, end: str) -> list[str]:
    """Return a shortest path of at least one step; or nothing."""
    paths, seen = [[start]], set[str]()
    for path in paths:
        for module in sorted(graph[path[-1]] - seen):
            if module == end:
                return [*path, end]
            seen.add(module)
            paths.append([*path, module])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    graph = read_imports(ROOT / package)
    assert sum(map(len, graph.values())) > len(graph)  # the imports were found at all
    circle = find_circle(graph)
    assert not circle, " → ".join(circle)


def by_folder(graph: Graph) -> Graph:
    """Return which folders of a package, and which of the modules beside them, import which others."""

    def folder(module: str) -> str:
        return ".".join(module.split(".")[:2])

    folders = {folder(module) for module in graph}
    return {
        one: frozenset(folder(name) for module, names in graph.items() if folder(module) == one for name in names)
        - {one}
        for one in sorted(folders)
    }


def test_no_folders_of_the_server_import_each_other_in_a_circle() -> None:
    folders = by_folder(read_imports(ROOT / "curator_service"))
    assert len(folders) >= 12
    circle = find_circle(folders)
    assert not circle, " → ".join(circle)


def test_a_circle_of_folders_is_found() -> None:
    graph = {
        "pond.a.one": frozenset({"pond.b.two"}),
        "pond.b.two": frozenset(),
        "pond.b.three": frozenset({"pond.a.four"}),
    }
    assert find_circle(by_folder(graph | {"pond.a.four": frozenset()})) == ["pond.a", "pond.b", "pond.a"]


def test_a_circle_is_found_wherever_an_import_stands(tmp_path: Path) -> None:
    package = tmp_path / "pond"
    (package / "deep").mkdir(parents=True)
    sources = {
        "__init__": "from pond import frog",
        "frog": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pond.deep.newt import Newt",
        "deep/__init__": "from . import toad",
        "deep/newt": "def spawn() -> None:\n    from ..deep import toad",
        "deep/toad": "import pond.frog",
    }
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    circle = ["pond.deep.newt", "pond.deep.toad", "pond.frog", "pond.deep.newt"]
    assert find_circle(read_imports(package)) == circle
    (package / "frog.py").write_text("", encoding="utf-8")
    assert find_circle(read_imports(package)) == []
