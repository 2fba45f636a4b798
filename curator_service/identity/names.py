"""The rule of displayed names: any script, and nothing that hides, turns or imitates letters.

The script of a letter is the first word of its name in Unicode: LATIN, CYRILLIC, ARABIC. Letters of several scripts
that look alike, as a and а, cannot stand in one word.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

NAME_MAX, EMAIL_MAX = 100, 254
"""Characters of a name and of an e-mail address."""
STORED_MAX = 320
"""Characters of either, as it is stored: what a provider states has escapes in it."""
_MARKS_MAX = 4
"""Marks on one letter: more of them cover the lines around."""
_SIGNS = frozenset("’·–־׳״・་") | {chr(code) for code in range(0x20, 0x7F)} - {"\\"}
"""Beside letters, marks and digits. A backslash begins an escape."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks without a shape (Default_Ignorable_Code_Point)."""
_THAI_LAO = frozenset("ำຳໜໝ")
"""Letters that are in every name of a script, though Unicode has another spelling of them."""
_NON_JOINER, _JOINERS = "\u200c", frozenset("\u200c\u200d")
_VIRAMA = 9
_NO_SCRIPT = frozenset({"COMBINING", "MODIFIER", "DIGIT"})
_HAN = "CJK"
_SAME_SCRIPT = {"IDEOGRAPHIC": _HAN, "VERTICAL": _HAN}
_TOGETHER = ({_HAN, "HIRAGANA", "KATAKANA"}, {_HAN, "HANGUL"}, {_HAN, "BOPOMOFO"})
"""Scripts that one word may have: Japanese, Korean, Chinese."""
_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@.]+(\.[^\s@.]+)*")


class NameRefused(ValueError):
    """A name or an address cannot be displayed; the message says which character is in the way.

    Parameters
    ----------
    member : str
        Which of them.
    """

    def __init__(self, member: Literal["display_name", "email"], why: str) -> None:
        super().__init__(why)
        self.member = member


def read_name(text: str) -> str:
    """Return a person's name as it is stored.

    Raises
    ------
    NameRefused
    """
    name = _tidy(text)
    if not any(letter.isalpha() for letter in name):
        raise NameRefused("display_name", "a name has a letter")
    return _check("display_name", name, NAME_MAX)


def read_email(text: str) -> str:
    """Return an e-mail address as it is stored; none is an empty text.

    Raises
    ------
    NameRefused
    """
    address = _tidy(text)
    if address and not (address.isascii() and _EMAIL.fullmatch(address)):
        raise NameRefused("email", "an e-mail address is such as ada@hospital.example, in ASCII")
    return _check("email", address, EMAIL_MAX)


def make_plain(text: str, longest: int) -> str:
    r"""Return a text of somebody else's, in which every character that a name may not have is written as an escape.

    Examples
    --------
    >>> make_plain("Ada \u202eecalevoL", 100)
    'Ada \\u202eecalevoL'
    """
    letters = list(_tidy(text)[:longest])
    for place, _ in _find_faults("".join(letters)):
        code = ord(letters[place])
        letters[place] = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return "".join(letters)[:STORED_MAX]


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()


def _check(member: Literal["display_name", "email"], text: str, longest: int) -> str:
    if len(text) > longest:
        raise NameRefused(member, f"it has at most {longest} characters")
    for place, why in _find_faults(text):
        raise NameRefused(member, f"character {place + 1}, U+{ord(text[place]):04X}, {why}")
    return text


def _find_faults(text: str) -> Iterator[tuple[int, str]]:
    """Find the characters that stand in the way, and say why."""
    marks, word = 0, list[int]()
    for place, letter in enumerate(text):
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind in {"Mn", "Me"} else 0
        why = _find_fault(text, place, kind)
        if not why and kind[0] == "M" and not word:
            why = "is a mark without a letter"
        if not why and marks > _MARKS_MAX:
            why = f"is a mark on a letter that has {_MARKS_MAX} already"
        if why:
            yield place, why
        elif kind[0] in "LMN":
            word.append(place)
        elif letter not in _JOINERS:
            yield from _find_mixed(text, word)
            word = []
    yield from _find_mixed(text, word)


def _find_fault(text: str, place: int, kind: str) -> str:
    """Say why a character cannot be in any name; empty where it can."""
    letter = text[place]
    if letter in _JOINERS and _joins(text, place):
        return ""
    if kind in {"Cc", "Cf", "Zl", "Zp"} or _UNSEEN.match(letter):
        return "cannot be seen, or turns the direction of text"
    if kind[0] not in "LM" and kind != "Nd" and letter not in _SIGNS:
        return "is no letter, mark, digit or sign that a name may have"
    if unicodedata.decomposition(letter).startswith("<") and letter not in _THAI_LAO:
        return "is another form of a letter: use the letter itself"
    return ""


def _joins(text: str, place: int) -> bool:
    """Return whether a joiner changes the shape of its letters: after a virama, or within a word of Arabic letters."""
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if not (before and after):
        return False
    both = {_script(before), _script(after)}
    return unicodedata.combining(before) == _VIRAMA or (text[place] == _NON_JOINER and both == {"ARABIC"})


def _script(letter: str) -> str:
    """Return the script of a letter; empty of one that every script has."""
    first = re.split("[ -]", unicodedata.name(letter, ""))[0]
    return "" if first in _NO_SCRIPT else _SAME_SCRIPT.get(first, first)


def _find_mixed(text: str, word: list[int]) -> Iterator[tuple[int, str]]:
    """Find the letters of a word that are of another script than it: than Latin, where it has such letters."""
    scripts = {place: script for place in word if (script := _script(text[place]))}
    found = set(scripts.values())
    if len(found) < 2 or any(found <= one for one in _TOGETHER):
        return
    own = "LATIN" if "LATIN" in found else next(iter(scripts.values()))
    for place, script in scripts.items():
        if script != own:
            yield place, f"is {script.title()} in a word that has {own.title()} letters: one word, one script"
