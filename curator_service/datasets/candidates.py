"""Columns that may tell persons apart, and which words so many persons have that a draft may show them.

Nothing here decides whose rows they are: a person declares that. It decides what is not drafted as a column to release,
and what is shown.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from curator_service.datasets.identifying import find_words, is_identifying, is_name
from curator_service.datasets.keys import KeyOf, looks_like_key
from curator_service.datasets.profiles import Coded, Profile

PERSONS_MIN = 5
"""A word of a row is shown from so many persons on."""
_WORDS_MAX = 50
"""Words of one column whose persons are counted."""
_LIKELY_MAX = 20
"""Columns that are neither called nor built as keys, by which persons are counted all the same."""
_LIKELY_VALUES = 20
_LIKELY_PRESENT, _LIKELY_TOP = 0.9, 0.1
_CATEGORY_VALUES, _CATEGORY_ROWS = 2, 20
_NUMBERING = {"no", "num", "obs", "index", "row", "rows", "rowname", "rownames", "rowid", "rownumber", "unnamed"}
"""Words of a header that, alone, say that a column numbers something."""
_IDS = {"id", "ids", "nr", "uuid", "guid", "identifier"}
"""Last words of a header that say so of whatever is before."""


def find_key(profile: Profile) -> str:
    """Return why a column may tell persons or their records apart; nothing if it hardly does."""
    if (
        not profile.present
        or profile.are_instants
        or 2 * profile.fraction_rows > profile.present
        or (profile.are_numbers and not profile.are_whole)
    ):
        return ""
    is_called = is_called_key(profile.header) and not _is_category(profile)
    is_name_of_person = profile.are_texts and (is_identifying(profile.header) or is_name(profile.header))
    reasons = {
        "is called as one that tells persons or their records apart": is_called,
        "is called as one of names or addresses": is_name_of_person,
        "has another value in nearly every row": profile.are_alone,
        "has long whole numbers of one length, as identifiers are": profile.are_long,
        "has the rows of each value together, as those of a person are": profile.are_together,
        "has many texts": profile.are_texts and profile.distinct > _LIKELY_VALUES,
        "has few rows of each text": profile.are_texts and max(profile.counts.values(), default=0) < PERSONS_MIN,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def is_called_key(header: str) -> bool:
    """Return whether a column is called as one that numbers persons, records, rows or anything else."""
    ends_as_id = not _IDS.isdisjoint(find_words(header)[-1:])
    return looks_like_key(header) is not None or is_called_number(header) or ends_as_id


def is_called_number(header: str) -> bool:
    """Return whether a column is called a number, and of nothing."""
    words = set(find_words(header)) - {"0"}
    return bool(words) and words <= _NUMBERING


def _is_category(profile: Profile) -> bool:
    return profile.distinct <= _CATEGORY_VALUES and profile.present >= _CATEGORY_ROWS


def _is_unit_of_persons(profile: Profile) -> bool:
    """Return whether values of a likely key are as many as persons, or more: four visits of each person are not."""
    if not find_key(profile):
        return False
    return looks_like_key(profile.header) not in {KeyOf.RECORD, KeyOf.STAFF} or profile.distinct > _LIKELY_VALUES


def _is_likely(profile: Profile) -> bool:
    return (
        (profile.are_whole or not profile.are_numbers)
        and profile.distinct > _LIKELY_VALUES
        and profile.present >= _LIKELY_PRESENT * profile.rows
        and profile.top_share <= _LIKELY_TOP
    )


class ShownWords:
    """Counts the persons of a word by each column that may tell them apart.

    Where no column does, a row may be a person. Columns are chosen after the first batch.
    """

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles
        self._by: list[int] | None = None
        self._persons: dict[tuple[int, int, str], set[str]] = defaultdict(set)

    def add(self, batch: Sequence[Coded]) -> None:
        """Take in a batch of all columns."""
        if self._by is None:
            self._by = self._choose()
        for place, (profile, coded) in enumerate(zip(self._profiles, batch, strict=True)):
            if words := _list_words(profile):
                for by in self._by:
                    if by != place:
                        self._count(place, by, words, coded, batch[by])

    def _choose(self) -> list[int]:
        kept = [place for place, profile in enumerate(self._profiles) if _is_unit_of_persons(profile)]
        likely = [place for place, profile in enumerate(self._profiles) if place not in kept and _is_likely(profile)]
        return kept + sorted(likely, key=lambda place: self._profiles[place].distinct)[:_LIKELY_MAX]

    def _count(self, place: int, by: int, words: set[str], coded: Coded, persons: Coded) -> None:
        wanted = [
            code
            for code, word in enumerate(coded.words)
            if word in words and len(self._persons[place, by, word]) < PERSONS_MIN
        ]
        if not wanted:
            return
        both = (coded.codes >= 0) & (persons.codes >= 0)
        pairs = np.unique(coded.codes[both] * len(persons.words) + persons.codes[both])
        starts = np.searchsorted(pairs, np.array(wanted) * len(persons.words))
        for code, start in zip(wanted, starts.tolist(), strict=True):
            for pair in pairs[start : start + PERSONS_MIN].tolist():
                if pair // len(persons.words) == code:
                    self._persons[place, by, coded.words[code]].add(persons.words[pair % len(persons.words)])

    def finish(self) -> None:
        """Give every profile its words that may be shown."""
        for place, profile in enumerate(self._profiles):
            counts = profile.counts | profile.apart
            profile.shown = {
                word
                for word in _list_words(profile)
                if counts[word] >= PERSONS_MIN
                and all(len(self._persons[place, by, word]) >= PERSONS_MIN for by in self._by or () if by != place)
            }


def _list_words(profile: Profile) -> set[str]:
    """Return the words that a draft might show: levels, or the words beside numbers."""
    words = profile.counts if profile.has_few_words and len(profile.counts) <= _WORDS_MAX else profile.apart
    return set(words) if len(words) <= _WORDS_MAX else set()
