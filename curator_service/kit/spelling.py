"""ASCII spellings for characters that an encoding lacks: <= for ≤, epsilon for ε; others are escaped.

Python writes to a pipe or a terminal in an encoding that may be cp1252, cp437, Latin-1 or ASCII, and raises
`UnicodeEncodeError` for a character that it lacks. The analyst's library has the same table, for the packages share no
code; a test holds both equal.
"""

import codecs
import io
from typing import TextIO

HANDLER = "dp-curator-spelling"
"""The name of the error handler. The library's is the same."""

_SPELLED = """
α alpha  β beta  γ gamma  δ delta  ε epsilon  ζ zeta  η eta  θ theta  κ kappa  λ lambda  µ mu  μ mu  ν nu  ξ xi  π pi
ρ rho  σ sigma  τ tau  φ phi  χ chi  ψ psi  ω omega  Γ Gamma  Δ Delta  Θ Theta  Λ Lambda  Π Pi  Σ Sigma  Φ Phi  Ψ Psi
Ω Omega  ᵀ '  … ...  ± +/-  × x  ° deg  · *  → ->  √ sqrt  ∞ inf  ≤ <=  ≥ >=  ≠ !=  ≈ ~  – -  — -  − -  ‘ '  ’ '  “ "
” "  █ #  ▒ +  ░ .  � ?
"""
GLYPHS = dict(zip(_SPELLED.split()[::2], _SPELLED.split()[1::2], strict=True)) | {"\u0302": "hat"}
SUPERSCRIPTS = dict(zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True))
UNREADABLE = "some words are not of this console's encoding: set PYTHONUTF8=1, or a locale such as C.UTF-8"


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, places = error.object, range(error.start, error.end)
    return "".join(_spell_letter(text[k], text[max(k - 1, 0) : k], text[k + 1 : k + 2]) for k in places), error.end


def _spell_letter(letter: str, before: str, after: str) -> str:
    """Spell one character between its neighbours."""
    if letter in SUPERSCRIPTS:
        return SUPERSCRIPTS[letter] if before and before in SUPERSCRIPTS else f"^{SUPERSCRIPTS[letter]}"
    if letter == "µ" and after.isalpha():  # µg
        return "u"
    if "\u2500" <= letter <= "\u257f":  # frames of tables
        return "-" if letter in "─━═╌" else "|" if letter in "│┃║" else "+"
    return GLYPHS.get(letter) or letter.encode("ascii", "backslashreplace").decode()


codecs.register_error(HANDLER, _spell)


def is_unicode(stream: TextIO | None) -> bool:
    """Return whether a stream takes every character, as one in memory does."""
    encoding = getattr(stream, "encoding", None)
    return not encoding or codecs.lookup(encoding).name.startswith("utf")


def spell(text: str, encoding: str) -> str:
    r"""Return a text as an encoding can write it, for columns that stand below each other.

    Examples
    --------
    >>> spell("XᵀX of 10 µg, µ² ≤ 10⁻⁶, ε = ½", "ascii")
    "X'X of 10 ug, mu^2 <= 10^-6, epsilon = \\xbd"
    """
    return text if text.isascii() else text.encode(encoding, HANDLER).decode(encoding)


def let_print(stream: TextIO | None, *instead_of: str) -> None:
    """Let a stream spell what its encoding lacks, where it would raise `UnicodeEncodeError` or write an escape."""
    # Python's own for standard output; the second one in the locale C.
    replaced = instead_of or ("strict", "surrogateescape")
    if isinstance(stream, io.TextIOWrapper) and stream.errors in replaced and not is_unicode(stream):
        stream.reconfigure(errors=HANDLER)
