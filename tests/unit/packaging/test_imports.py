"""Imports, of types and within functions too, form no circle, and follow the order of the architecture's page."""

import re
from pathlib import Path

import grimp
import pytest

PACKAGES = ("analyst_client", "curator_service")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "architecture.md"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def find_circle(graph: grimp.ImportGraph) -> list[str]:
    """Return one shortest circle of modules, its first one again at the end; or nothing."""
    circles = [
        [module, *path]
        for module in sorted(graph.modules)
        for imported in graph.find_modules_directly_imported_by(module)
        if (path := graph.find_shortest_chain(importer=imported, imported=module))
    ]
    return min(circles, key=len, default=[])


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    assert graph.count_imports() > len(graph.modules)  # the imports were found at all
    assert find_circle(graph) == []


def test_server_and_client_import_nothing_of_each_other(graph: grimp.ImportGraph) -> None:
    assert graph.find_illegal_dependencies_for_layers([grimp.Layer(*PACKAGES)]) == set()


def test_folders_of_the_server_import_in_the_order_of_the_page_alone(graph: grimp.ImportGraph) -> None:
    """Each folder, and each module beside them, has one place; those of one place import nothing of each other."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Direction of imports\n")[2]
    places = [re.findall(r"\w+", names) for names in section.split("```")[1].removeprefix("text").split("→")]
    children = {child.rpartition(".")[2] for child in graph.find_children("curator_service")}
    assert sorted(name for names in places for name in names) == sorted(children)
    layers = [grimp.Layer(*names) for names in places]
    assert graph.find_illegal_dependencies_for_layers(layers, containers={"curator_service"}) == set()


def test_a_circle_is_found_wherever_an_import_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.syspath_prepend(tmp_path)
    circle = ["pond.deep.newt", "pond.deep.toad", "pond.frog", "pond.deep.newt"]
    assert find_circle(grimp.build_graph("pond", cache_dir=None)) == circle
    (package / "frog.py").write_text("", encoding="utf-8")
    assert find_circle(grimp.build_graph("pond", cache_dir=None)) == []
