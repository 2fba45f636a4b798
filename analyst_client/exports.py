"""Public names of a package, imported when they are asked for: so that no import of one module brings all others."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def export_lazily(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package: of what its source imports under its own name.

    Type checkers read these imports. Here one is made when its name is asked for.
    """
    module, places = sys.modules[package], _read_places(package)
    names = [name for name, place in places.items() if place != package]

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place = import_module(places[name])
        return getattr(place, name) if place is not module else import_module(f"{package}.{name}")

    return sorted(names, key=lambda name: (not name.isupper(), name)), get, lambda: sorted({*vars(module), *places})


def public_names(package: str = "analyst_client") -> dict[str, str]:
    """Return the public names of a package and of the modules that it lists, each with the module that has it."""
    modules = [f"{package}.{name}" for name, place in _read_places(package).items() if place == package]
    return {name: module for module in (package, *modules) for name in import_module(module).__all__}


def _read_places(package: str) -> dict[str, str]:
    """Return which module has each name that the source of a package imports under its own name."""
    loader: Any = sys.modules[package].__loader__
    return {
        alias.name: str(found.module)
        for found in ast.walk(ast.parse(loader.get_source(package)))
        if isinstance(found, ast.ImportFrom)
        for alias in found.names
        if alias.asname == alias.name and not alias.name.startswith("_")
    }
