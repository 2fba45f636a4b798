"""Keyed sketches of rows: whether two datasets are of the same people, whatever their columns are called.

What tells people apart is a value, or a pair of values, that few persons have. Take a value that c persons of a table
have, and an independent sample of other people: the number of persons in it with that value is binomial or Poisson, and
is c with a probability of at most one in e (37 %), whatever the value is and for every c. In a copy it is c for nearly
all values. So a sketch keeps, of each column and of each pair of columns, some of the values that at most 8 persons
have, each with their number: those with the smallest image under a keyed function, so that two sketches keep the same
ones. A column of few values has none, and counts for nothing. Where each row is there m times, numbers are m times as
large, and so they are compared up to a factor.

*One person moves little.* Of each column or pair a person has one value, that with the smallest image if there are
several rows. Which values are kept follows from all persons' values in order, so that one person more or less shifts
the last of them by one place. Which columns make pairs follows from declarations. So what two sketches have in common
moves by at most 1 (`Sketch.find_excess`).

The order of rows, of columns and of levels, names and bounds do not enter. Numbers are rounded in binary, to 20 bits of
their fraction alone and to 8 in pairs, so that digits beyond the third hardly matter.

Of a declared subject a sketch keeps the smallest pseudonyms too, whatever the values are: see `same_people`.
"""

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from curator_service.datasets.pseudonyms import PseudonymArray, Pseudonymiser, number_persons
from curator_service.privacy.design import Column
from curator_service.privacy.lattice import MISSING, STORED_UNIT, StoredArray, center_and_scale

Codes = npt.NDArray[np.uint64]
Part = tuple[np.uint64, Codes]
"""Kept tokens in order, behind the limit below which none is left out."""
_Flags = npt.NDArray[np.bool_]
_Counts = npt.NDArray[np.int64]

KEPT = 512
"""Values that a sketch keeps of a column, or of a pair."""
_WORKING = 2**12
"""Persons whose values are held while rows are read: those with the smallest tokens."""
_SUBJECTS_WORDS = 1 + _WORKING
"""Of the kept persons, as they are written: no multiple of what a column takes."""
_PENDING = 2**15
"""Small tokens that wait to be sorted together: each sort costs as much as thousands of them."""
_PAIRED_COLUMNS = 16
_ALONE_BITS, _PAIRED_BITS = 20, 8
_SHARED_MAX = 8
"""Most persons who may have a value that is kept; a token's last bits say how many have it."""
_NUMBER_BITS = np.uint64(_SHARED_MAX - 1)
_CHANCE = 1 / math.e
_DEVIATIONS = 5.0
"""Standard deviations above chance from which on values in common are in excess."""
_COMPARED_MIN = 64
"""As if so many were compared, where there are fewer: of a handful all may be in common by chance."""
_NO_TOKEN = np.uint64(2**64 - 1)
NOBODY: Part = (_NO_TOKEN, np.empty(0, np.uint64))
"""What is kept of no persons."""


@dataclass(frozen=True, slots=True)
class Values:
    """One column's values as codes: the same value has the same code in every dataset, within its precision.

    Attributes
    ----------
    alone, paired : ndarray of uint64, shape (n,)
        Codes of full and of lower precision.
    present : ndarray of bool, shape (n,)
        False where the value is missing.
    variety : float
        How many values the column may have, as it is declared: infinity for numbers.
    """

    alone: Codes
    paired: Codes
    present: _Flags
    variety: float = math.inf


def code_numbers(numbers: npt.NDArray[np.float64]) -> Values:
    """Code numbers; NaN is missing."""
    bits = (np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    paired = _round(bits.copy(), _PAIRED_BITS)
    return Values(_round(bits, _ALONE_BITS), paired, ~np.isnan(numbers))


def code_levels(levels: Sequence[str], stored: StoredArray) -> Values:
    """Code the words of a category or boolean; a word that is a number has the code of that number."""
    alone, paired = (np.array(codes, np.uint64) for codes in zip(*map(_code_word, levels), strict=True))
    place = np.where(stored == MISSING, 0, stored)
    return Values(alone[place], paired[place], stored != MISSING, len(levels))


def code_stored(column: Column, stored: StoredArray) -> Values:
    """Code values as they can be read back from the stored lattice.

    What lies at a bound was perhaps beyond it, and is left out. What is left has the code of the raw value, unless the
    lattice of very wide bounds is coarser than the code, or rounding falls on the other side of an edge.
    """
    if not column.is_number:
        return code_levels(column.levels, stored)
    center, scale = center_and_scale(column.lower, column.upper)
    inside = np.abs(stored.astype(np.int64)) < STORED_UNIT
    return code_numbers(np.where(inside, center + scale * (stored / STORED_UNIT), np.nan))


def _code_word(word: str) -> tuple[int, int]:
    try:
        number = code_numbers(np.array([float(word)]))
    except ValueError:
        code = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        return code, code
    return int(number.alone[0]), int(number.paired[0])


def _round(bits: Codes, kept: int) -> Codes:
    """Round the bits of floats in place."""
    unit = 1 << (52 - kept)
    bits += np.uint64(unit >> 1)
    bits &= np.uint64(2**64 - unit)
    return bits


class _Keyed:
    """A keyed function of two codes: AES of one block, a permutation that nobody without the key can compute."""

    def __init__(self, secret: bytes, purpose: bytes) -> None:
        key = hmac.digest(secret, b"curator-sketch:1:" + purpose, "sha256")[:16]
        self._cipher = Cipher(AES(key), ECB()).encryptor()  # noqa: S305 -- of single blocks, as a permutation
        self._blocks = np.empty((0, 2), "<u8")

    def find_small(self, one: Codes, other: Codes, limit: np.uint64) -> tuple[Codes, npt.NDArray[np.intp]]:
        """Return the tokens of pairs, whatever their order, that are below a limit, and in which rows they are."""
        if len(one) >= len(self._blocks):
            self._blocks = np.empty((len(one) + 1, 2), "<u8")  # what is encrypted into asks for one block more
        blocks, content = self._blocks[: len(one)], self._blocks.data.cast("B")
        np.minimum(one, other, out=blocks[:, 0])
        np.maximum(one, other, out=blocks[:, 1])
        self._cipher.update_into(content[: blocks.nbytes], content)  # in place, which OpenSSL allows
        small = np.flatnonzero(blocks[:, 0] < limit)
        return blocks[small, 0], small


@dataclass(slots=True)
class _Sample:
    """The smallest tokens seen so far of one column or pair: one for each person, of that person's the smallest."""

    limit: np.uint64 = _NO_TOKEN
    tokens: list[Codes] = field(default_factory=list)
    owners: list[Codes] = field(default_factory=list)
    pending: int = 0

    def add(self, tokens: Codes, owners: Codes | None) -> None:
        """Take in tokens below the limit.

        Parameters
        ----------
        tokens : ndarray of uint64
        owners : ndarray of uint64 or None
            The person whose each is; None if each is another person's.
        """
        self.tokens.append(tokens)
        if owners is not None:
            self.owners.append(owners)
        self.pending += len(tokens)
        if self.pending >= _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Hold the persons with the smallest tokens, of all that were seen: it does not matter in which order."""
        tokens = np.concatenate([np.empty(0, np.uint64), *self.tokens])
        if self.owners:
            tokens, owners = _take_persons(tokens, np.concatenate(self.owners))
        else:
            tokens = np.sort(tokens)
        if len(tokens) > _WORKING:
            self.limit = tokens[_WORKING]
        kept = int(np.searchsorted(tokens, self.limit))
        self.tokens, self.pending = [tokens[:kept]], 0
        if self.owners:
            self.owners = [owners[:kept]]

    def finish_persons(self) -> Part:
        """Return the kept tokens of persons, each once, and the limit below which none is left out."""
        self._settle()
        return self.limit, self.tokens[0]

    def finish(self) -> Part:
        """Return the kept tokens with the numbers of their persons, and the limit below which none is left out."""
        self._settle()
        tokens, counts = np.unique(self.tokens[0], return_counts=True)
        few = counts <= _SHARED_MAX
        found = (tokens[few] & ~_NUMBER_BITS) | (counts[few] - 1).astype(np.uint64)
        limit = (found[KEPT] if len(found) > KEPT else self.limit) & ~_NUMBER_BITS
        return limit, found[:KEPT][found[:KEPT] < limit]


def _take_persons(tokens: Codes, owners: Codes) -> tuple[Codes, Codes]:
    """Return tokens in order and whose they are, the smallest of each person: at least of the persons that are held."""
    least = 2 * _WORKING
    if len(tokens) > 2 * least:  # most often these are of enough persons, and no others have to be sorted
        small = tokens <= np.partition(tokens, least)[least]
        if np.count_nonzero(small) < len(tokens):
            found = _take_persons(tokens[small], owners[small])
            if len(found[0]) > _WORKING:
                return found
    order = np.argsort(tokens)
    tokens, owners = tokens[order], owners[order]
    by_owner = np.argsort(owners, kind="stable")
    first = np.concatenate([[True], owners[by_owner[1:]] != owners[by_owner[:-1]]])[: len(owners)]
    kept = np.sort(by_owner[first])
    return tokens[kept], owners[kept]


def _add(
    sample: _Sample, found: tuple[Codes, npt.NDArray[np.intp]], present: Sequence[_Flags], persons: Codes | None
) -> None:
    """Take in the small tokens of a chunk whose values are there."""
    tokens, rows = found
    for there in present:
        tokens, rows = tokens[there[rows]], rows[there[rows]]
    sample.add(tokens, None if persons is None else persons[rows])


class Sketcher:
    """Sketches rows as they are read, in chunks of any size.

    Parameters
    ----------
    secret : bytes
        Two sketches can be compared if theirs is the same.
    pseudonymiser : Pseudonymiser, optional
        Makes the pseudonyms by which persons of two datasets are compared.
    """

    def __init__(self, secret: bytes, pseudonymiser: Pseudonymiser | None = None) -> None:
        self._secret, self.pseudonymiser = secret, pseudonymiser
        self._subjects: _Sample | None = None
        self._alone, self._paired = _Keyed(secret, b"alone"), _Keyed(secret, b"paired")
        self._columns: list[_Sample] = []
        self._pairs: dict[tuple[int, int], _Sample] = {}

    def __reduce__(self) -> tuple[type["Sketcher"], tuple[bytes, Pseudonymiser | None]]:
        """Hand the secrets to another process, before there are rows."""
        assert not self._columns
        return Sketcher, (self._secret, self.pseudonymiser)

    def add_subjects(self, pseudonyms: PseudonymArray) -> None:
        """Take in the persons of a chunk of rows, as the pseudonymiser names them; zeros stand for nobody."""
        self._subjects = sample = self._subjects or _Sample()
        tokens = number_persons(pseudonyms)
        tokens = tokens[(tokens > 0) & (tokens < sample.limit)]
        sample.add(tokens, tokens)

    def add(self, columns: Sequence[Values], persons: Codes | None = None) -> None:
        """Take in a chunk of rows.

        Parameters
        ----------
        persons : ndarray of uint64, optional
            Whose row each is; without it a row is a person.
        """
        if not self._columns:
            self._columns = [_Sample() for _ in columns]
            varied = sorted(range(len(columns)), key=lambda i: -columns[i].variety)
            self._pairs = {pair: _Sample() for pair in combinations(sorted(varied[:_PAIRED_COLUMNS]), 2)}
        gaps = [[] if values.present.all() else [values.present] for values in columns]
        for i, sample in enumerate(self._columns):
            codes = columns[i].alone
            _add(sample, self._alone.find_small(codes, codes, sample.limit), gaps[i], persons)
        for (i, j), sample in self._pairs.items():
            found = self._paired.find_small(columns[i].paired, columns[j].paired, sample.limit)
            _add(sample, found, gaps[i] + gaps[j], persons)

    def finish(self) -> "Sketch":
        """Return the sketch."""
        parts = tuple(sample.finish() for sample in (*self._columns, *self._pairs.values()))
        return Sketch(parts, None if self._subjects is None else self._subjects.finish_persons())


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sample of the values that few persons have, column by column and pair by pair.

    Attributes
    ----------
    parts : tuple
        The kept tokens of each, sorted, behind the limit below which none is left out. The last three bits of a token
        are the number of its persons, less 1.
    subjects : Part, optional
        Of the persons: numbers of their pseudonyms. None where it is not known whose rows they are.
    """

    parts: tuple[Part, ...] = field(repr=False)
    subjects: Part | None = field(default=None, repr=False)

    def to_bytes(self) -> bytes:
        """Return bytes, whose length follows from the number of columns and the presence of subjects."""
        written = [_write_part(part, 1 + KEPT) for part in self.parts]
        if self.subjects is not None:
            written.append(_write_part(self.subjects, _SUBJECTS_WORDS))
        return b"".join(written)

    @classmethod
    def from_bytes(cls, content: bytes) -> "Sketch":
        """Read what `to_bytes` wrote.

        Raises
        ------
        ValueError
        """
        words, subjects = np.frombuffer(content, "<u8").astype(np.uint64), None
        if len(words) % (1 + KEPT):
            words, subjects = words[:-_SUBJECTS_WORDS], _read_part(words[-_SUBJECTS_WORDS:])
        return cls(tuple(map(_read_part, words.reshape(-1, 1 + KEPT))), subjects)

    def find_excess(self, other: "Sketch") -> float:
        """Return by how much values in common exceed what chance explains, where they do most.

        One person more or less, in either, moves it by at most 1, and another person in the place of one by at most 2.

        Notes
        -----
        Take a part of each sketch. Let a(x) and b(x) be how many tokens below x they have, c(x) those in common, with
        numbers of persons that agree up to a factor, and t(M) = M/e + 5 √(M (1 − 1/e)/e). The excess is the largest
        c(x) − t(max(min(a(x), b(x)), 64)) of any two parts and factor, and any x up to the lower of their limits. The
        same is looked at for tokens of one person alone in one, and of any one number of persons in the other.

        One person changes one token of a part. So c(x) moves by at most 1. If a(x) moves, it does by 1 and as c(x)
        does, and t by less than 1, against c(x). The limit moves past one token of that part at most. Between the old
        limit and the new one c grows by at most 1 and t does not fall, so that the largest moves by at most 1 as well.
        """
        mine, theirs = _Flat.make(self), _Flat.make(other)
        begin, end = (np.searchsorted(mine.tokens, theirs.tokens, side) for side in ("left", "right"))
        repeats = end - begin
        there = np.repeat(np.arange(len(theirs.tokens)), repeats)
        here = np.arange(len(there)) + np.repeat(begin - (np.cumsum(repeats) - repeats), repeats)
        below = theirs.tokens[there] < np.minimum(mine.limits[here], theirs.limits[there])
        here, there = here[below], there[below]
        parts = mine.parts[here] * len(other.parts) + theirs.parts[there]
        one, two = mine.numbers[here], theirs.numbers[there]
        factor = np.gcd(one, two)
        base = _SHARED_MAX + 1
        factors = (parts * base + one // factor) * base + two // factor
        alone = np.flatnonzero(np.minimum(one, two) == 1)
        numbers = ((parts * base + one) * base + two)[alone]
        return max(
            -float(_threshold(np.array([_COMPARED_MIN]))[0]),
            _find_largest(factors, mine.places[here], theirs.places[there]),
            _find_largest(numbers, mine.places_of_number[here[alone]], theirs.places_of_number[there[alone]]),
        )


def _write_part(part: Part, words: int) -> bytes:
    limit, tokens = part
    row = np.full(words, _NO_TOKEN, "<u8")
    row[0], row[1 : 1 + len(tokens)] = limit, tokens
    return row.tobytes()


def _read_part(row: Codes) -> Part:
    return row[0], row[1:][row[1:] != _NO_TOKEN]


def count_parts(columns: int) -> int:
    """Return of how many columns and pairs a sketch keeps values."""
    return columns + math.comb(min(columns, _PAIRED_COLUMNS), 2)


@dataclass(frozen=True, slots=True)
class _Flat:
    """Every token of a sketch in order, without its last bits: part, limit, number, and its place in the part."""

    tokens: Codes
    parts: _Counts
    limits: Codes
    numbers: _Counts
    places: _Counts
    places_of_number: _Counts

    @classmethod
    def make(cls, sketch: Sketch) -> "_Flat":
        """Flatten a sketch."""
        whole = np.concatenate([tokens for _, tokens in sketch.parts])
        sizes = [len(tokens) for _, tokens in sketch.parts]
        parts = np.repeat(np.arange(len(sizes)), sizes)
        limits = np.repeat(np.array([limit for limit, _ in sketch.parts], np.uint64), sizes)
        numbers = (whole & _NUMBER_BITS).astype(np.int64) + 1
        places = np.concatenate([np.arange(size) for size in sizes])
        order = np.argsort(whole, kind="stable")
        return cls(
            (whole & ~_NUMBER_BITS)[order],
            parts[order],
            limits[order],
            numbers[order],
            places[order],
            _rank(parts * (_SHARED_MAX + 1) + numbers)[order],
        )


def _rank(groups: _Counts) -> _Counts:
    """Return the place of each entry among those of its group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(groups)])
    sizes = np.diff(starts, append=len(groups))
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return ranks


def _find_largest(groups: _Counts, mine: _Counts, theirs: _Counts) -> float:
    """Return the largest excess behind any token in common, these being in order within each group."""
    compared = np.maximum(np.minimum(mine, theirs) + 1, _COMPARED_MIN)
    return float(np.max(_rank(groups) + 1 - _threshold(compared), initial=-math.inf))


def _threshold(compared: _Counts) -> npt.NDArray[np.float64]:
    deviation: npt.NDArray[np.float64] = np.sqrt(compared * (_CHANCE * (1 - _CHANCE)))
    return compared * _CHANCE + _DEVIATIONS * deviation


def code_rows_stored(columns: Sequence[Column], stored: Mapping[str, StoredArray]) -> list[Values]:
    """Code every column of stored rows."""
    return [code_stored(column, stored[column.name]) for column in columns]
