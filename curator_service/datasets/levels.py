"""Levels that are known without any row: lists of words that many files use for one thing."""

from collections.abc import Collection, Sequence

_YES_AND_NO = (
    ("no", "yes"), ("nein", "ja"), ("non", "oui"), ("no", "si"), ("no", "sí"), ("no", "sì"), ("nee", "ja"),
    ("não", "sim"), ("nao", "sim"), ("nej", "ja"), ("nei", "ja"), ("nie", "tak"), ("ne", "ano"), ("ei", "kyllä"),
    ("absent", "present"), ("negative", "positive"), ("negativ", "positiv"),
)  # fmt: skip
"""The false one first."""
_CATEGORIES = (
    ("f", "m"), ("female", "male"), ("w", "m"), ("weiblich", "männlich"), ("femme", "homme"), ("mujer", "hombre"),
    ("femmina", "maschio"), ("vrouw", "man"), ("v", "m"), ("mulher", "homem"), ("feminino", "masculino"),
    ("f", "m", "u"), ("female", "male", "unknown"), ("female", "male", "other"), ("w", "m", "d"),
    ("weiblich", "männlich", "divers"),
    ("left", "right"), ("left", "right", "both"), ("links", "rechts"), ("gauche", "droite"),
    ("alive", "dead"), ("alive", "deceased"), ("control", "treatment"), ("placebo", "treatment"), ("control", "case"),
    ("never", "former", "current"), ("never", "ex", "current"), ("low", "high"), ("low", "medium", "high"),
    ("mild", "moderate", "severe"), ("none", "mild", "moderate", "severe"), ("poor", "fair", "good"),
    ("a", "b", "ab", "o"), ("a", "b", "ab", "0"), ("i", "ii", "iii", "iv"),
    ("single", "married", "divorced", "widowed"), ("urban", "rural"), ("inpatient", "outpatient"),
)  # fmt: skip
_SPELLINGS = (str, str.upper, str.capitalize)


def find_yes_and_no(words: Collection[str]) -> tuple[str, str] | None:
    """Return the two words of a list of no and yes, as they are spelled here; None unless they are these two."""
    found = _find(words, _YES_AND_NO)
    return (found[0], found[1]) if found is not None and len(words) == 2 else None


def find_levels(words: Collection[str]) -> Sequence[str] | None:
    """Return a known list that has all of the words, spelled as they are, and at most one more; None if none has."""
    found = _find(words, _CATEGORIES)
    return found if found is not None and 1 < len(words) >= len(found) - 1 else None


def _find(words: Collection[str], known: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    spelled = (tuple(map(spell, levels)) for levels in known for spell in _SPELLINGS)
    return min((levels for levels in spelled if set(words) <= set(levels)), key=len, default=None)
