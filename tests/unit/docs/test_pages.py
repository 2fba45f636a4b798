"""Pages say what is so: their blocks of Python run, their commands exist, and what they name is there.

Blocks that need a server are named below, with a test that does what they do; their calls are held against signatures.
"""

import ast
import doctest
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import curator_service
from analyst_client import CuratorClient, LogisticRegression, verify
from analyst_client.admin.command import make_parser
from analyst_client.curators import PurchasePlan
from analyst_client.exports import public_names
from curator_service.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*/README.md"),
        *ROOT.glob("studies/*.md"),
    ]
)
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

# Pages whose blocks of Python are run as a whole, and by which test.
RUN_ELSEWHERE = {
    "docs/fhir.md": "tests/unit/docs/test_warehouse_pages.py",
    "docs/recipes.md": "tests/integration/test_recipes.py",
    "docs/which-method.md": "tests/unit/docs/test_which_method.py",
    "docs/planning.md": "tests/unit/analyst_client/test_client_planning.py",
    "docs/kinds.md": "tests/unit/analyst_client/test_client_documentation.py",
    "docs/local.md": "tests/unit/analyst_client/test_local_estimates.py",
    "docs/analyses.md": "tests/unit/analyst_client/test_client_documentation.py",
    "docs/exports.md": "tests/unit/analyst_client/test_client_exports.py",
    "docs/formulas.md": "tests/unit/analyst_client/test_client_formulas.py",
    "docs/tables.md": "tests/unit/analyst_client/test_client_documentation.py",
}
# Blocks that need a server, by their first line, and a test that does what they do with one.
NEEDS_SERVER = {
    ("docs/api.md", "from analyst_client.terms import col"): "tests/integration/test_session_client.py",
    ("docs/planning.md", "plan = Curators("): "tests/contract/test_curators_contract.py",
    ("docs/glm.md", "refinement = client.refine("): "tests/integration/test_generalized_client.py",
    ("docs/identity.md", "client.whoami()"): "tests/e2e/test_openid_provider.py",
    ("docs/identity.md", "from analyst_client import CuratorClient"): "tests/e2e/test_openid_provider.py",
    ("docs/glm.md", "release = client.release("): "tests/contract/test_logistic_contract.py",
    ("docs/planning.md", "quote = client.quote("): "tests/unit/docs/test_notebooks.py",
    ("docs/refinement.md", "from analyst_client import RefinedRegression"): (
        "tests/integration/test_refinement_client.py"
    ),
    ("docs/refinement.md", "curators = Curators("): "tests/integration/test_hospitals_client.py",
    ("docs/refinement.md", "print(client.quote_refinement("): "tests/integration/test_refinement_quotes.py",
}
PUBLIC = {name: getattr(importlib.import_module(module), name) for name, module in public_names().items()}
CALLED = {"client": CuratorClient, "plan": PurchasePlan, "fit": LogisticRegression}


def blocks(name: str, *languages: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [block for language, block in FENCE.findall(text) if language in languages]


def all_blocks(*languages: str) -> list[tuple[str, str]]:
    return [(name, block) for name in NAMES for block in blocks(name, *languages)]


def inline_code() -> list[tuple[str, str]]:
    """Return what stands as code within sentences."""
    found = []
    for name in NAMES:
        text = FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
        found += [(name, code) for code in CODE.findall(text)]
    return found


def needs_server(name: str, block: str) -> bool:
    return any(name == page and block.startswith(start) for page, start in NEEDS_SERVER)


class TestPython:
    def test_every_block_is_run_or_named_as_one_that_needs_a_server(self) -> None:
        left = [
            (name, block.splitlines()[0])
            for name, block in all_blocks("python", "pycon")
            if name not in RUN_ELSEWHERE and not needs_server(name, block)
        ]
        first = "from analyst_client.tutorial import recorded_client"
        assert left == [("README.md", first)]  # tests/unit/docs/test_readme.py runs it

    @pytest.mark.parametrize("test", sorted({*RUN_ELSEWHERE.values(), *NEEDS_SERVER.values()}))
    def test_the_tests_that_are_named_exist(self, test: str) -> None:
        assert (ROOT / test).is_file()

    @pytest.mark.parametrize(("page", "start"), list(NEEDS_SERVER))
    def test_a_block_that_needs_a_server_calls_what_there_is(self, page: str, start: str) -> None:
        (block,) = (block for block in blocks(page, "python") if block.startswith(start))
        assert wrong_calls(block) == []

    @pytest.mark.parametrize(
        "line",
        [
            "client.relase('d', [], target='t')",
            "client.release('d', [], target='t', epsilom=1.0)",
            "AdaSPP().fit(release)",
        ],
    )
    def test_a_wrong_call_would_be_seen(self, line: str) -> None:
        assert wrong_calls(line)

    @pytest.mark.parametrize(
        "module",
        [
            module.name
            for module in pkgutil.walk_packages(curator_service.__path__, "curator_service.")
            if module.name != "curator_service.datasets.engines.spark"  # needs an extra that is not in this lock
        ],
    )
    def test_examples_of_the_server_run_as_written(self, module: str) -> None:
        assert doctest.testmod(importlib.import_module(module)).failed == 0


def wrong_calls(block: str) -> list[str]:
    """Return what a block calls, or reads of a value, that the library does not have so."""
    wrong = []
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Call):
            function = resolve(node.func)
            if function is not None:
                try:
                    signature = inspect.signature(function)
                    arguments: list[Any] = [None] * len(node.args)
                    if "self" in signature.parameters:
                        arguments.insert(0, None)
                    signature.bind_partial(*arguments, **{key.arg: None for key in node.keywords if key.arg})
                except TypeError as error:
                    wrong.append(f"{ast.unparse(node)}: {error}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in CALLED:
            known = CALLED[node.value.id]
            if not hasattr(known, node.attr) and node.attr not in inspect.getsource(known):
                wrong.append(f"{ast.unparse(node)} does not exist")
        if isinstance(node, ast.Name) and node.id[0].isupper() and node.id not in PUBLIC:
            wrong.append(f"{node.id} is no public name")
    return wrong


def resolve(function: ast.expr) -> Any:
    """Return the function of the library that an expression calls, or None."""
    if isinstance(function, ast.Name):
        return PUBLIC.get(function.id)
    if isinstance(function, ast.Attribute):
        if isinstance(function.value, ast.Name) and function.value.id in CALLED:
            return getattr(CALLED[function.value.id], function.attr, None)
        if isinstance(function.value, ast.Call) and isinstance(function.value.func, ast.Name):
            return getattr(PUBLIC.get(function.value.func.id), function.attr, None)
    return None


class TestData:
    @pytest.mark.parametrize(("name", "block"), all_blocks("json"))
    def test_json_is_json(self, name: str, block: str) -> None:
        whole = re.sub(r",?\s*…(?=\s*[\]}])", "", re.sub(r"<\w+>", "null", block))
        assert json.loads(whole), name

    @pytest.mark.parametrize(("name", "block"), all_blocks("toml"))
    def test_toml_is_toml(self, name: str, block: str) -> None:
        assert tomllib.loads(block), name


def shell_commands() -> Iterator[tuple[str, str]]:
    """Yield each command of the blocks, and those that stand in a sentence with more than their name."""
    for name, block in all_blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            yield name, line
    for name, code in inline_code():
        if re.match(r"(?:curator|curator-verify|make|python) \S", code):
            yield name, code


def words(line: str) -> list[str]:
    """Return a command's words, without a comment, variables before it, a container around it, and a file after it."""
    split = list(itertools.takewhile(lambda word: word != ">", shlex.split(line, comments=True)))
    while split and re.match(r"[A-Z_]+=", split[0]):
        split = split[1:]
    if split[:3] == ["docker", "compose", "run"]:
        at = next((at for at, word in enumerate(split[3:], 3) if word == "curator"), len(split))
        return split[at:]  # the service has the name of the command that it runs
    return split


COMMANDS = [(name, line, words(line)) for name, line in shell_commands()]
CURATOR = sorted({(name, line) for name, line, split in COMMANDS if split[:1] == ["curator"]})


@pytest.fixture
def documented_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where every file that a page gives to a command is."""
    for path in (
        "examples/flchain/manifest.toml",
        "examples/flchain/flchain.csv",
        "cohort/manifest.toml",
        "cohort/flchain.csv",
        "manifest.toml",
        "flchain.csv",
        "rows.csv",
        "rows.parquet",
        "weights.toml",
        "diabetes.omop.toml",
        "diabetes.toml",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CURATOR_TOKEN", "cur_x_y")


def parse(split: list[str], *, whole: bool) -> None:
    """Parse a command of `curator` as the command line does, and run nothing."""
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="curator")
    rest = split[1:]
    while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        context = typer.Context(command, info_name=name, parent=context)
    if whole:
        assert not hasattr(command, "resolve_command"), "a group of commands is none"
        command.make_context(context.info_name, list(rest), parent=context.parent)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {
        "--help"
    }
    for option in (word for word in rest if word.startswith("--")):
        if option not in known:
            raise ValueError(f"No such option: {option}")


class TestShell:
    def test_there_are_commands(self) -> None:
        assert len(CURATOR) > 40

    @pytest.mark.usefixtures("documented_files")
    @pytest.mark.parametrize(
        ("name", "line"),
        sorted({(n, line) for n, b in all_blocks("sh") for line in b.splitlines() if (n, line) in CURATOR}),
    )
    def test_a_command_of_a_block_is_complete(self, name: str, line: str) -> None:
        parse(words(line.replace(" FILE", " file").replace("/in/", "").replace("/srv/", "")), whole=True)

    @pytest.mark.parametrize(("name", "line"), CURATOR)
    def test_commands_and_options_exist(self, name: str, line: str) -> None:
        parse(words(line), whole=False)

    @pytest.mark.parametrize("line", ["curator population list", "curator serve --ports 8", "curator tokens make ada"])
    def test_a_wrong_command_would_be_seen(self, line: str) -> None:
        with pytest.raises(Exception, match="No such"):
            parse(words(line), whole=False)

    @pytest.mark.parametrize("page", ["README.md", "docs/cli.md"])
    def test_commands_of_curator_admin_are_complete(self, page: str) -> None:
        lines = [split[1:] for name, _, split in COMMANDS if name == page and split[:1] == ["curator-admin"]]
        assert all(make_parser().parse_args(line) for line in lines)
        assert len(lines) > 5

    def test_options_of_curator_verify_exist(self) -> None:
        environment = os.environ | {"COLUMNS": "200"}
        command = [sys.executable, "-m", verify.__name__, "--help"]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        used = {
            word for _, _, split in COMMANDS if split[:1] == ["curator-verify"] for word in split if word[:2] == "--"
        }
        assert used
        assert used <= set(re.findall(r"--[\w-]+", shown))

    def test_targets_of_make_exist(self) -> None:
        there = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        used = {word for _, _, split in COMMANDS if split[:1] == ["make"] for word in split[1:] if word.isalpha()}
        assert used
        assert used <= there

    def test_programs_of_the_repository_exist(self) -> None:
        missing = []
        for name, line, split in COMMANDS:
            if split[:1] != ["python"]:
                continue
            program = next(word for word in split[1:] if word.endswith(".py") or split[split.index(word) - 1] == "-m")
            path = program if program.endswith(".py") else program.replace(".", "/") + ".py"
            if not (ROOT / path).is_file() and program not in {"hatchling", "http.server"}:
                missing.append((name, line))
        assert missing == []


@cache
def named_paths() -> list[tuple[str, str]]:
    pattern = re.compile(
        r"(?:tests|bench|studies|audit|examples|deploy|migrations|locks|docs|analyst_client|curator_service)/[\w./-]+"
    )
    return sorted({(name, code) for name, code in inline_code() if pattern.fullmatch(code)})


@pytest.mark.parametrize(("name", "path"), named_paths())
def test_a_path_that_a_page_names_exists(name: str, path: str) -> None:
    made = "examples/flchain/output/"  # by the demo
    assert path == made or (ROOT / path).exists(), f"{name} names {path}"
