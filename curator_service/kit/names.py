"""Valid names of populations, datasets, columns and principals: safe in addresses, files, tables and logs.

A terminal obeys some characters, and shows what is around others in another order (Bidi_Control): no text that somebody
else wrote reaches one with them.
"""

import re

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"
NAME = re.compile(NAME_PATTERN.strip("^$"))
NAME_RULE = "1 to 63 letters, digits, dots, hyphens or underscores, with a letter first"
DECEIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What changes how a terminal shows the rest."""


def make_visible(text: str) -> str:
    """Return text with such characters as JSON writes them."""
    return DECEIVING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
