"""Guesses at one column of a source, for a draft of a manifest that a person completes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.columns.arrays import parse_numbers
from curator_service.datasets.report import CODES
from curator_service.kit.instants import parse_instant

MISSING_WORDS = (
    "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "NaT", "NULL", "null", "#NULL!", "#DIV/0!", "#VALUE!",
    "#REF!", "#NAME?", "#NUM!", "\\N", ".", "..", "?", "-", "--",
)  # fmt: skip
"""Words that stand for a missing value in many files; a number never does without a person's word."""
KNOWN_WORDS = (
    "none", "unknown", "missing", "not done", "not known", "pending", "refused", "n.d.", "n.a.", "nd", "nk", "unk",
    "k.a.", "k. a.", "unbekannt", "fehlt", "keine angabe", "inconnu", "manquant", "desconocido", "sconosciuto",
    "onbekend", "desconhecido", "hemolyzed", "error", "invalid",
)  # fmt: skip
"""Words beside numbers, in lower case: a public list, so that naming one of it shows no value."""
LEVELS_FEW = 20
"""Levels that a draft lists."""
NUMBERS_FEW = 10
"""Distinct whole numbers that may be codes of a category."""
_WORDS_KEPT = 2000
_DISTINCT_ROWS = 50_000
_ALONE_SHARE = 0.9
_TOGETHER_VALUES, _TOGETHER_ROWS = 5, 20
_LONG_DIGITS = 6
_FALSE_TRUE = ({"false", "true"}, {"f", "t"}, {"no", "yes"}, {"n", "y"}, {"0", "1"}, {"0.0", "1.0"}, {"0,0", "1,0"})
DATE = r"[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{1,4}"
"""A date, in whatever order."""
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|(?!" + DATE + r"\Z)[+(]?[0-9][0-9()/ .-]{6,}[0-9]")
"""E-mail addresses and telephone numbers; a number alone, or a date, is told apart before."""
_LEADING_ZERO = re.compile(r"0[0-9]+")
_FRACTION = re.compile(r"[-+]?[0-9]+[.,][0-9]+")


@dataclass(frozen=True, slots=True)
class Coded:
    """Words of a batch, and the number of its word for each row; −1 where there is no value."""

    words: Sequence[str]
    codes: npt.NDArray[np.int64]


@dataclass(slots=True)
class Profile:
    """Observations of one column. Its words stay here, but for those that `shown` has.

    Attributes
    ----------
    header : str
    rows, present, number_rows, fraction_rows : int
        Rows; those with a value, words of `MISSING_WORDS` left out; those with a number; those with one that has the
        other decimal sign.
    counts : dict
        Rows of each word, as long as there are not too many words.
    apart : dict
        Rows of each word that is no number, alike.
    missing_words : set of str
        Of `MISSING_WORDS`.
    shown : set of str
        Words that enough persons have.
    """

    header: str
    rows: int = 0
    present: int = 0
    number_rows: int = 0
    fraction_rows: int = 0
    counts: dict[str, int] = field(default_factory=dict, repr=False)
    apart: dict[str, int] = field(default_factory=dict, repr=False)
    missing_words: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    has_few_words: bool = True
    has_header: bool = False
    has_leading_zeros: bool = False
    are_whole: bool = True
    are_dates: bool = True
    are_instants: bool = True
    are_addresses: bool = True
    are_like_header: bool = True
    runs: int = 0
    _hashes: list[np.ndarray] = field(default_factory=list, repr=False)
    _sampled: int = 0
    _codes: set[float] = field(default_factory=set, repr=False)
    _lowest: float = np.inf
    _highest: float = -np.inf

    def add(self, array: pa.Array, decimal: str) -> Coded:
        """Take in the next values, and return them as codes of words; none where there is no value."""
        words = pc.utf8_trim_whitespace(pc.fill_null(_to_words(array), ""))
        encoded = pc.dictionary_encode(words)
        found, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
        counted = np.bincount(codes, minlength=len(found)).tolist()
        self.rows += len(words)
        self.missing_words |= set(found) & set(MISSING_WORDS)
        is_fresh = np.array([bool(word) and word not in MISSING_WORDS for word in found], np.bool_)
        counts = {word: count for word, count, fresh in zip(found, counted, is_fresh, strict=True) if fresh}
        present = is_fresh[codes] if len(found) else np.zeros(0, np.bool_)
        if not self._sampled:
            kept = codes[present]
            self.runs = int(np.count_nonzero(kept[1:] != kept[:-1])) + (len(kept) > 0)
        if self._sampled < _DISTINCT_ROWS:
            self._hashes.append(np.unique(np.fromiter(map(hash, counts), np.int64, len(counts))))
            self._sampled += sum(counts.values())
        self.present += sum(counts.values())
        self.counts = self._keep(self.counts, counts)
        self.has_few_words = self.has_few_words and len(self.counts) <= _WORDS_KEPT
        self.counts = self.counts if self.has_few_words else {}
        self._judge(counts, decimal)
        return Coded(found, np.where(present, codes, -1).astype(np.int64))

    def _keep(self, kept: dict[str, int], counts: dict[str, int]) -> dict[str, int]:
        if not self.has_few_words:
            return {}
        return kept | {word: kept.get(word, 0) + count for word, count in counts.items()}

    def _judge(self, counts: dict[str, int], decimal: str) -> None:
        words = list(counts)
        numbers, wrong = parse_numbers(pa.array(words, pa.string()), decimal)
        wrong |= ~np.isfinite(numbers)
        rows = np.array(list(counts.values()), np.int64)
        self.number_rows += int(rows[~wrong].sum())
        apart = {word: counts[word] for word, is_wrong in zip(words, wrong, strict=True) if is_wrong}
        self.fraction_rows += sum(count for word, count in apart.items() if _FRACTION.fullmatch(word))
        if len(self.apart) <= _WORDS_KEPT:
            self.apart |= {word: self.apart.get(word, 0) + count for word, count in apart.items()}
        numbers = numbers[~wrong]
        self.are_whole = self.are_whole and bool((numbers == np.rint(numbers)).all())
        found = set(numbers.tolist()) & set(CODES)
        plain = numbers[~np.isin(numbers, CODES)]
        self._codes |= found
        self._lowest = min(self._lowest, plain.min(initial=np.inf))
        self._highest = max(self._highest, plain.max(initial=-np.inf))
        self.has_header = self.has_header or self.header in counts
        self.has_leading_zeros = self.has_leading_zeros or any(map(_LEADING_ZERO.fullmatch, words))
        self.are_dates = self.are_dates and all(parse_instant(word, with_time=False) is not None for word in words)
        self.are_instants = self.are_instants and all(parse_instant(word) is not None for word in words)
        self.are_addresses = self.are_addresses and all(map(ADDRESS.fullmatch, words))
        shape = find_shape(self.header)
        self.are_like_header = (
            self.are_like_header and "0" in shape and all(find_shape(word) == shape for word in words)
        )

    @property
    def words(self) -> set[str]:
        """Distinct values, as long as there are not too many."""
        return set(self.counts)

    @property
    def are_numbers(self) -> bool:
        """True if most values are numbers, and none is a code such as 007."""
        return 2 * self.number_rows > self.present and not self.has_leading_zeros

    @property
    def are_texts(self) -> bool:
        """True if values are neither numbers nor dates."""
        return not self.are_numbers and not self.are_instants

    @property
    def are_boolean(self) -> bool:
        """True if values are two words for false and true."""
        lowered = {word.lower() for word in self.counts}
        return self.has_few_words and any(lowered <= pair for pair in _FALSE_TRUE)

    @property
    def codes(self) -> list[int]:
        """Values of `CODES` that lie beyond all other numbers."""
        return sorted(int(code) for code in self._codes if not self._lowest <= code <= self._highest)

    @property
    def distinct(self) -> int:
        """Distinct values; of the first rows, where there are too many to keep."""
        return len(self.counts) if self.has_few_words else len(np.unique(np.concatenate(self._hashes)))

    @property
    def distinct_rows(self) -> int:
        """The rows with a value that `distinct` is of."""
        return self.present if self.has_few_words else self._sampled

    @property
    def are_alone(self) -> bool:
        """True if nearly every row has a value of its own."""
        return self.distinct > 1 and self.distinct >= _ALONE_SHARE * self.distinct_rows

    @property
    def are_together(self) -> bool:
        """True if rows of one value stand together, as those of one person do."""
        distinct = self.distinct
        return distinct > _TOGETHER_VALUES and self.runs <= distinct and self.distinct_rows >= _TOGETHER_ROWS

    @property
    def are_long(self) -> bool:
        """True if values are long whole numbers of one length, as identifiers are."""
        if not (self.are_numbers and self.are_whole) or self.distinct <= _TOGETHER_VALUES:
            return False
        digits = {len(f"{number:.0f}") for number in (self._lowest, self._highest)}
        return self._lowest > 0 and len(digits) == 1 and min(digits) >= _LONG_DIGITS

    @property
    def top_share(self) -> float:
        """The share of the most frequent value; 0 where there are too many to count."""
        return max(self.counts.values(), default=0) / max(self.present, 1)


def find_shape(word: str) -> str:
    """Return a word with 0 for each digit and a for each letter."""
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "0", word))


def _to_words(array: pa.Array) -> pa.Array:
    """Return words as a CSV file would have them."""
    kind = array.type
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), None, array)
    if pa.types.is_timestamp(kind):
        array = pc.cast(array, pa.timestamp("us"), safe=False)
    try:
        return pc.cast(array, pa.string())
    except pa.ArrowException:
        return pa.nulls(len(array), pa.string())
