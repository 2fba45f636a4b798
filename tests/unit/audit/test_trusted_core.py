"""The page of the trusted core names every module on which the guarantee can break."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.core import BESIDE, ROOT, guaranteeing, read_core

NOISE = {"NoiseSource", "SystemNoise", "propose", "draw_noise", "add_noise", "perturb"}
ROWS = {"Batch", "SourceBatch", "StoredRows", "Snapshot", "tiles_of", "open_source", "open_query", "pyarrow"}
TABLES = {
    ("Population", "populations"),
    ("Share", "shares"),
    ("Spending", "spending"),
    ("LedgerEntry", "ledger_entries"),
    ("SigningKey", "signing_keys"),
    ("Seal", "seal"),
    ("Reservation", "reservations"),
    ("Release", "releases"),
    ("Listing", "release_listings"),
    ("IdempotencyKey", "idempotency_keys"),
}
ROW_CLASSES = "|".join(row for row, _ in TABLES)
TABLE_NAMES = "|".join(table for _, table in TABLES)
WRITE = re.compile(
    rf"\b(?:insert|update|delete)\w*\((?:{ROW_CLASSES})Row\b"
    rf"|(?:INSERT INTO|UPDATE|DELETE FROM|TRUNCATE) +(?:{TABLE_NAMES})\b"
)
UNIT = re.compile(r"\.commit\(|\.rollback\(|\bBEGIN\b|ISOLATION LEVEL|isolation_level")
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "curator_service").rglob("*.py"))}


def imported(text: str) -> set[str]:
    """Return the names and packages that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names} | {(node.module or "").partition(".")[0]}
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


RULES: dict[str, tuple[Callable[[str], bool], str, bool]] = {
    "draws noise": (lambda text: bool(imported(text) & NOISE), "curator_service/privacy/mechanism.py", False),
    "writes money or answers": (lambda text: bool(WRITE.search(text)), "curator_service/ledger/repository.py", True),
    "commits": (lambda text: bool(UNIT.search(text)), "curator_service/kit/db.py", False),
    "reads rows": (lambda text: bool(imported(text) & ROWS), "curator_service/datasets/snapshot.py", False),
}


@pytest.mark.parametrize("rule", RULES)
def test_every_module_that_can_break_the_guarantee_is_named(rule: str) -> None:
    is_so, known, is_strict = RULES[rule]
    core = read_core()
    named = set(guaranteeing(core)) if is_strict else {file for files in core.values() for file in files}
    found = {path.relative_to(ROOT).as_posix() for path, text in TEXTS.items() if is_so(text)}
    assert known in found
    assert found <= named, f"docs/trusted-core.md names no module that {rule}: {sorted(found - named)}"


def test_no_file_is_named_twice() -> None:
    core = read_core()
    files = [file for found in core.values() for file in found]
    assert sorted(files) == sorted(set(files))
    assert core[BESIDE]


def test_modules_beside_the_guarantee_draw_no_noise() -> None:
    """They hand its source on."""
    for file in read_core()[BESIDE]:
        assert not imported(TEXTS[Path(ROOT / file)]) & (NOISE - {"NoiseSource", "SystemNoise"}), file
