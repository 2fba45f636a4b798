"""The power of the tests: mutants of twelve modules, drawn by a seed, and how many of them the tests find.

    python -m audit.power [NAME …] [--write]

compares the shares with those that tests/power.toml states, and exits with 1 where one has fallen. With `--write` it
states the new ones. A mutant is a function's code, compiled from a changed syntax tree, put into a forked process:
nothing is written, and a test that starts a process of its own does not see it.
"""

import argparse
import ast
import importlib
import inspect
import json
import os
import random
import signal
import sys
import time
import tomllib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from audit.core import ROOT

FILE = ROOT / "tests" / "power.toml"
_TIMEOUT_S, _TIMES = 20, 5
"""How long the tests of a mutant may take: so many seconds, and so many times as long as without it."""
_TEXT_MAX = 60
_PYTEST = (
    *("-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
    "--hypothesis-profile=first_failure",
)
_SWAPS: Mapping[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

Change = Callable[[], str]
"""Changes a syntax tree in place, and returns what was changed into what."""


Apply = Callable[[], object]
"""Puts a mutant into this process."""
Mutant = Callable[[], tuple[str, Apply] | None]
"""Makes a mutant: how it is told, and what puts it there; None if its function cannot take it."""


@dataclass(frozen=True, slots=True)
class Power:
    """Mutants that were tried, and those that no test found."""

    tried: int
    alive: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of mutants that were found."""
        return 1 - len(self.alive) / self.tried if self.tried else 0.0


# --- Changes of a syntax tree ------------------------------------------------------------------------------------


def changes(function: ast.AST) -> Iterator[Change]:
    """Yield each change of a function that makes a mutant: an operator, a constant, a condition, a statement."""
    for node in ast.walk(function):
        match node:
            case ast.Compare(ops=[op, *rest]) if type(op) in _SWAPS:
                yield partial(_set, node, "ops", [_SWAPS[type(op)](), *rest])
            case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _SWAPS:
                yield partial(_set, node, "op", _SWAPS[type(op)]())
            case ast.Constant(value=bool() as value):
                yield partial(_set, node, "value", not value)
            case ast.Constant(value=int() | float() as value):
                yield partial(_set, node, "value", value + 1)
            case ast.UnaryOp(op=ast.USub()):
                yield partial(_set, node, "op", ast.UAdd())
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield partial(_negate, node, test)
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                yield from _changes_of_block(block)


def _changes_of_block(block: list[ast.stmt]) -> Iterator[Change]:
    for i, statement in enumerate(block):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Expr | ast.Raise | ast.AugAssign | ast.Assert | ast.Delete) and not is_text:
            yield partial(_delete, block, i)
        if i and _is_call(statement) and _is_call(block[i - 1]):
            yield partial(_swap, block, i)


def _set(node: ast.AST, name: str, value: object) -> str:
    before = _shorten(node)
    setattr(node, name, value)
    return f"{before} → {_shorten(ast.fix_missing_locations(node))}"


def _negate(node: ast.AST, test: ast.expr) -> str:
    setattr(node, "test", ast.UnaryOp(ast.Not(), test))  # noqa: B010 -- three classes have it
    return f"{_shorten(test)} → not so"


def _delete(block: list[ast.stmt], i: int) -> str:
    said = f"{_shorten(block[i])} → deleted"
    block[i] = ast.Pass()
    return said


def _swap(block: list[ast.stmt], i: int) -> str:
    block[i - 1], block[i] = block[i], block[i - 1]
    return f"{_shorten(block[i - 1])} → before {_shorten(block[i])}"


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call)


def _shorten(node: ast.AST) -> str:
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"


# --- Mutants of a module -----------------------------------------------------------------------------------------


def list_mutants(path: str) -> list[Mutant]:
    """Return every mutant of a module: of its functions, and of its tables of tables."""
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    return [*_mutants_of_functions(ROOT / path, module), *_mutants_of_tables(module)]


def _mutants_of_tables(module: types.ModuleType) -> Iterator[Mutant]:
    """Yield mutants that add an entry to a table, or take one away."""
    for name, table in vars(module).items():
        if isinstance(table, dict) and table and all(isinstance(one, dict) for one in table.values()):
            values = {key: value for one in table.values() for key, value in one.items()}
            for place, inner in table.items():
                for key, value in values.items():
                    told = f"{name}[{place}]: {key} {'deleted' if key in inner else 'added'}"
                    change = partial(inner.pop, key) if key in inner else partial(inner.__setitem__, key, value)
                    yield partial(_pair, told, change)


def _pair(told: str, change: Callable[[], object]) -> tuple[str, Apply]:
    return told, change


def _functions(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name, inner.name), inner) for inner in node.body if isinstance(inner, ast.FunctionDef))


def _mutants_of_functions(path: Path, module: types.ModuleType) -> Iterator[Mutant]:
    text = path.read_text(encoding="utf-8")
    for names, function in _functions(ast.parse(text)):
        target = _find(module, names)
        if target is not None:
            for index, _ in enumerate(changes(function)):
                yield partial(_make, text, names, index, target)


def _find(module: types.ModuleType, names: Sequence[str]) -> types.FunctionType | None:
    held: Any = module
    for name in names:
        held = vars(held).get(name)
    while held is not None and not isinstance(held, types.FunctionType):
        within = (getattr(held, name, None) for name in ("fget", "__func__", "func", "__wrapped__"))
        held = next((one for one in within if one is not None), None)
    return None if held is None else inspect.unwrap(held)


def _make(text: str, names: Sequence[str], index: int, target: types.FunctionType) -> tuple[str, Apply] | None:
    tree = ast.parse(text)
    function = next(found for where, found in _functions(tree) if where == names)
    said = list(changes(function))[index]()
    code = compile(ast.fix_missing_locations(tree), target.__code__.co_filename, "exec")
    for name in names:
        found = [one for one in code.co_consts if isinstance(one, types.CodeType) and one.co_name == name]
        if not found:
            return None
        code = found[-1]
    if code.co_freevars != target.__code__.co_freevars:
        return None
    return f"{'.'.join(names)}: {said}", partial(setattr, target, "__code__", code)


# --- Runs --------------------------------------------------------------------------------------------------------


def _passes(tests: Sequence[str], apply: Apply | None = None, limit_s: int = 0) -> bool:
    """Run tests in a forked process, of a mutant if one is given; return whether all of them passed in time."""
    child = os.fork()
    if not child:
        signal.alarm(limit_s)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        if apply is not None:
            apply()
        os._exit(0 if pytest.main([*_PYTEST, *tests]) == pytest.ExitCode.OK else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def measure(modules: Sequence[str], tests: Sequence[str], count: int, seed: int) -> Power:
    """Try mutants of some modules, drawn by a seed.

    Raises
    ------
    RuntimeError
        If the tests fail without a mutant.
    """
    start = time.monotonic()
    if not _passes(tests):
        raise RuntimeError(f"these tests fail without a mutant: {' '.join(tests)}")
    limit_s = _TIMEOUT_S + round(_TIMES * (time.monotonic() - start))
    everything = [mutant for module in modules for mutant in list_mutants(module)]
    random.Random(seed).shuffle(everything)
    tried, alive = 0, []
    for mutant in everything:
        if tried == count:
            break
        made = mutant()
        if made is None:
            continue
        tried += 1
        if _passes(tests, made[1], limit_s):
            alive.append(made[0])
            print(f"  alive: {made[0]}", flush=True)
    return Power(tried, tuple(alive))


# --- The file ----------------------------------------------------------------------------------------------------

_HEAD = """\
# Twelve responsibilities: their modules, the tests that must find their mutants, and how many are found.
# `python -m audit.power` tries mutants drawn by the seed, and fails where a share fell; `--write` states new ones.
"""


def read_file() -> dict[str, Any]:
    """Return what tests/power.toml states."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def write_file(stated: Mapping[str, Any]) -> None:
    """Write tests/power.toml."""
    lines = [_HEAD, *(f"{name} = {value}" for name, value in stated.items() if not isinstance(value, dict))]
    for name, part in stated.items():
        if isinstance(part, dict):
            lines += ["", f"[{name}]"]
            for key, value in part.items():
                if isinstance(value, list):
                    inner = "".join(f"  {json.dumps(one, ensure_ascii=False)},\n" for one in value)
                    lines.append(f"{key} = [\n{inner}]" if value else f"{key} = []")
                else:
                    lines.append(f"{key} = {value}")
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Measure the responsibilities that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m audit.power")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    stated = read_file()
    parts = {name: part for name, part in stated.items() if isinstance(part, dict)}
    fallen = []
    for name in given.names or parts:
        part = parts[name]
        found = measure(part["modules"], part["tests"], stated["count"], stated["seed"])
        before = 1 - len(part["alive"]) / part["tried"] if part.get("tried") else 0.0
        print(
            f"{name}: {found.tried - len(found.alive)} of {found.tried} found, {found.share:.2f} ({before:.2f} before)"
        )
        if found.share < before:
            fallen.append(name)
        if given.write:
            part["tried"], part["alive"] = found.tried, list(found.alive)
            write_file(stated)
    return 1 if fallen and not given.write else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(ROOT)))
    sys.exit(main())
