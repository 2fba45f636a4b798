"""The words of docs/glossary.md as help on pages: what a word means where it stands, and a list at the page's foot."""

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

_ROW = re.compile(r"^\| (?P<words>[^|]+) \| [^|]* \| (?P<meaning>.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def _page() -> Path:
    """Return the glossary: inside the installed package, or in the documentation of a checkout."""
    installed = Path(__file__).with_name("glossary.md")
    return installed if installed.is_file() else Path(__file__).parents[2] / "docs" / "glossary.md"


def read_glossary(text: str) -> dict[str, str]:
    """Return what each word means, as plain text.

    Examples
    --------
    >>> read_glossary("| limit, spent | `x` | what [may](a.md) be `spent` |")
    {'limit': 'what may be spent', 'spent': 'what may be spent'}
    """
    found: dict[str, str] = {}
    for row in _ROW.finditer(text):
        meaning = _LINK.sub(r"\1", row["meaning"]).replace("`", "").strip()
        found |= {word.strip(): meaning for word in row["words"].split(",")}
    return found


@cache
def glossary() -> dict[str, str]:
    """Return the glossary's words with their meanings."""
    return read_glossary(_page().read_text(encoding="utf-8"))


class Words:
    """The words that a page explains.

    Attributes
    ----------
    used : dict of str to str
        In the order in which they stand on the page, with their meanings.
    """

    def __init__(self) -> None:
        self.used: dict[str, str] = {}

    def __call__(self, word: str, shown: str = "") -> Markup:
        """Return a word with what it means, and remember it for the list at the page's foot."""
        self.used[word] = glossary()[word]
        return Markup('<abbr title="{}">{}</abbr>').format(self.used[word], shown or word)
