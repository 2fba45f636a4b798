"""The trusted core: the files that docs/trusted-core.md names, by heading.

    python -m audit.core

prints how many lines stand under each heading.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE_PAGE = "docs/trusted-core.md"
BESIDE = "Beside it"
"""The heading of files that hand noise or rows on; every other one holds a claim of the guarantee."""

_HEADING = re.compile(r"^##+ (.+)$")
_NAME = re.compile(r"^- `([^`]+)`$")


class MissingPathError(ValueError):
    """A named path does not exist, or has no Python file."""


def files_below(name: str, root: Path = ROOT) -> list[str]:
    """Return a file, or every Python file of a folder, by path and in order.

    Raises
    ------
    MissingPathError
    """
    path = root / name
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    if not found:
        raise MissingPathError(f"there is no Python file at {name}")
    return [one.relative_to(root).as_posix() for one in found]


def read_core(root: Path = ROOT) -> dict[str, list[str]]:
    """Return the files under each heading of the page.

    Raises
    ------
    MissingPathError
    """
    core: dict[str, list[str]] = {}
    heading = ""
    for line in (root / CORE_PAGE).read_text(encoding="utf-8").splitlines():
        if found := _HEADING.match(line):
            heading = found[1]
        elif found := _NAME.match(line):
            core.setdefault(heading, []).extend(files_below(found[1], root))
    return core


def guaranteeing(core: dict[str, list[str]]) -> list[str]:
    """Return the files on which a claim of the guarantee rests."""
    return sorted(file for heading, files in core.items() if heading != BESIDE for file in files)


def count_lines(files: list[str], root: Path = ROOT) -> int:
    """Return the lines of some files."""
    return sum(len((root / file).read_text(encoding="utf-8").splitlines()) for file in files)


if __name__ == "__main__":
    CORE = read_core()
    for one, named in CORE.items():
        print(f"{count_lines(named):>6} {one}")
    print(f"{count_lines(guaranteeing(CORE)):>6} in all, without “{BESIDE}”")
