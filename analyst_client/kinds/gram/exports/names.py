"""Names and comments that no package takes for anything else, whatever a curator calls its columns and levels."""

import re
import string
import textwrap
import unicodedata
from collections.abc import Sequence

LONGEST = 32
"""Characters of a name in SAS and Stata; SPSS has twice as many, R any number."""
RESERVED = frozenset(
    # Of SPSS; of Stata, and PROC REG's column; of R. Those with an underscore at an end are theirs too: here is none.
    re.findall(
        r"\w+",
        """
        all and by eq ge gt le lt ne not or thru to with collect previous
        byte double float if in int long strl using intercept
        break else for function next repeat while true false null inf nan na
        """,
    )
)
PLAIN = frozenset(string.ascii_letters + string.digits + " _-.,:()[]=<>+*")
"""Characters that stand in a comment: without / no comment ends or begins, without ` and $ Stata expands nothing."""
WIDTH = 100


def safe_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that every package takes, one for each, told apart whatever the case.

    They have at most 32 small letters, digits and underscores, the first a letter, and are no word of a package.

    Examples
    --------
    >>> safe_names(["age", "sex[M]", "sex(m)", "Größe", "if", '"; DROP'])
    ('age', 'sex_m', 'sex_m_2', 'grosse', 'v_if', 'drop')
    """
    found: dict[str, None] = {}
    for name in names:
        letters = unicodedata.normalize("NFKD", name.casefold())
        bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
        stem = re.sub(r"[^a-z0-9]+", "_", bare).strip("_")
        if not stem or not stem[0].isalpha() or stem in RESERVED or re.fullmatch(r"str\d+", stem):
            stem = f"v_{stem}".rstrip("_")
        candidate, number = stem[:LONGEST].rstrip("_"), 1
        while candidate in found:
            number += 1
            candidate = f"{stem[: LONGEST - len(str(number)) - 1].rstrip('_')}_{number}"
        found[candidate] = None
    return tuple(found)


def comment_lines(text: str) -> list[str]:
    r"""Return a text as lines of a comment in plain ASCII; any other character stands as its code.

    Examples
    --------
    >>> comment_lines('a*/b; "ε"')
    ['a*\\x2fb\\x3b \\x22\\u03b5\\x22']
    """
    escaped = "".join(character if character in PLAIN else _escape(character) for character in text)
    return textwrap.wrap(escaped, WIDTH)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
