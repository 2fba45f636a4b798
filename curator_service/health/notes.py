"""Notes of versions, as `CHANGELOG.md` has them."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


class Notes(NamedTuple):
    """The notes of one version."""

    title: str
    notes: list[str]


def _page() -> Path:
    """Return the changelog: inside the installed package, or of a checkout."""
    installed = Path(__file__).with_name("CHANGELOG.md")
    return installed if installed.is_file() else Path(__file__).parents[2] / "CHANGELOG.md"


def read_notes(text: str) -> list[Notes]:
    r"""Return the notes of each version, the newest first, without links.

    Examples
    --------
    >>> read_notes("# Changelog\n\n## [2.0] - 2027-01-01\n\n- **New**: `a`,\n  see [b](c).\n- More.")
    [Notes(title='2.0 - 2027-01-01', notes=['**New**: `a`, see b.', 'More.'])]
    """
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        notes = [" ".join(note.split()) for note in re.split(r"\n\n|\n(?=- )", body)]
        found.append(
            Notes(re.sub(r"[\[\]]", "", title), [_LINK.sub(r"\1", one.removeprefix("- ")) for one in notes if one])
        )
    return found


@cache
def list_notes() -> list[Notes]:
    """Return the notes of this version and of those before it."""
    return read_notes(_page().read_text(encoding="utf-8"))
