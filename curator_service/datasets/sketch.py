"""Keyed sketches of rows: whether two datasets are of the same people, whatever their columns are called.

What tells people apart is a value, or a pair of values, that one person alone has. In an independent sample of other
people at most one in e (37 %) of them are had by exactly one person as well, whatever the values are: a count that is
binomial or Poisson is 1 with that probability at most. In a copy nearly all of them are. So a sketch keeps, of each
column and of each pair of columns, some of the values that one person alone has: those with the smallest image under a
keyed function, so that two sketches keep the same ones. A column of few values has none, and counts for nothing. Where
nearly every row is there m times, read "m rows" for "one person": the bound holds for any m. It does not hold for
distinct rows: of people with few, coarse columns nearly all with one value have the same row, in every sample.
So identical rows are not counted once, and people whose rows are repeated very unevenly are not recognised.

The order of rows, of columns and of levels, names and bounds do not enter. Numbers are rounded in binary, to 20 bits of
their fraction alone and to 8 in pairs, so that digits beyond the third hardly matter.
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

from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import MISSING, STORED_UNIT, StoredArray, center_and_scale

Codes = npt.NDArray[np.uint64]
_Flags = npt.NDArray[np.bool_]
_Counts = npt.NDArray[np.int64]

KEPT = 256
"""Values that a sketch keeps of a column, or of a pair."""
_WORKING = 2**12
"""Values of which it is known, while rows are read, whether one person alone has them."""
_PENDING = 2**15
"""Small tokens that wait to be counted together: each count costs as much as thousands of them."""
_TILE_ROWS = 12_500
"""Rows whose codes, blocks and images stay in a processor's cache."""
_PAIRED_COLUMNS = 16
_ALONE_BITS, _PAIRED_BITS = 20, 8
_RARE = 0.05
_CHANCE = 1 / math.e
_DEVIATIONS = 5.0
"""Standard deviations above chance at which rows are taken for those of the same people; up to one more is secret."""
_NO_TOKEN = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Values:
    """One column's values as codes: the same value has the same code in every dataset, within its precision.

    Attributes
    ----------
    alone, paired : ndarray of uint64, shape (n,)
        Codes of full and of lower precision.
    present : ndarray of bool, shape (n,)
        False where the value is missing.
    """

    alone: Codes
    paired: Codes
    present: _Flags


def code_numbers(numbers: npt.NDArray[np.float64]) -> Values:
    """Code numbers; NaN is missing."""
    bits = (np.asarray(numbers, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    paired = _round(bits.copy(), _PAIRED_BITS)
    return Values(_round(bits, _ALONE_BITS), paired, ~np.isnan(numbers))


def code_levels(levels: Sequence[str], stored: StoredArray) -> Values:
    """Code the words of a category or boolean; a word that is a number has the code of that number."""
    alone, paired = (np.array(codes, np.uint64) for codes in zip(*map(_code_word, levels), strict=True))
    place = np.where(stored == MISSING, 0, stored)
    return Values(alone[place], paired[place], stored != MISSING)


def code_stored(column: Column, stored: StoredArray) -> Values:
    """Code values as they can be read back from the stored lattice.

    What lies at a bound was perhaps beyond it, and is left out. What is left has the code of the raw value, unless the
    lattice of very wide bounds is coarser than the code, or rounding falls on the other side of an edge.
    """
    if column.type is not ColumnType.NUMERIC:
        return code_levels(column.levels, stored)
    center, scale = center_and_scale(column.lower, column.upper)
    inside = np.abs(stored.astype(np.int64)) < STORED_UNIT
    return code_numbers(np.where(inside, center + scale * (stored / STORED_UNIT), np.nan))


def code_words(words: Sequence[str]) -> Codes:
    """Code words that tell persons apart."""
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _code_word(word: str) -> tuple[int, int]:
    try:
        number = code_numbers(np.array([float(word)]))
    except ValueError:
        return (code := int(code_words([word])[0])), code
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
        self._blocks = np.empty((_TILE_ROWS, 2), "<u8")
        self._images = np.empty((_TILE_ROWS + 1, 2), "<u8")  # what is encrypted into asks for one block more

    def find_small(self, one: Codes, other: Codes, limit: np.uint64) -> tuple[Codes, npt.NDArray[np.intp]]:
        """Return the tokens of pairs, whatever their order, that are below a limit, and in which rows they are."""
        found, rows = [np.empty(0, np.uint64)], [np.empty(0, np.intp)]
        for start in range(0, len(one), _TILE_ROWS):
            ours, theirs = one[start : start + _TILE_ROWS], other[start : start + _TILE_ROWS]
            blocks = self._blocks[: len(ours)]
            np.minimum(ours, theirs, out=blocks[:, 0])
            np.maximum(ours, theirs, out=blocks[:, 1])
            self._cipher.update_into(blocks.data.cast("B"), self._images.data.cast("B"))
            tokens = self._images[: len(ours), 0]
            small = np.flatnonzero(tokens < limit)
            found.append(tokens[small])
            rows.append(small + start)
        return np.concatenate(found), np.concatenate(rows)


@dataclass(slots=True)
class _Sample:
    """The smallest tokens seen so far of one column or pair, and how many persons have each."""

    limit: np.uint64 = _NO_TOKEN
    tokens: Codes = field(default_factory=lambda: np.empty(0, np.uint64))
    owners: Codes = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: _Counts = field(default_factory=lambda: np.empty(0, np.int64))
    pending: list[Codes] = field(default_factory=list)

    def add(self, tokens: Codes, owners: Codes | None) -> None:
        """Take in tokens below the limit; of a token that stays, every occurrence is counted.

        Parameters
        ----------
        tokens : ndarray of uint64
        owners : ndarray of uint64 or None
            The person whose each is; None if each is another person's.
        """
        if owners is not None:
            self._count_owned(tokens, owners)
            return
        self.pending.append(tokens)
        if sum(map(len, self.pending)) >= _PENDING:
            self._count_pending()

    def _count_owned(self, tokens: Codes, owners: Codes) -> None:
        if not len(tokens):
            return
        counts = np.concatenate([self.counts, np.ones(len(tokens), np.int64)])
        tokens, owners = np.concatenate([self.tokens, tokens]), np.concatenate([self.owners, owners])
        order = np.lexsort((owners, tokens))
        tokens, owners, counts = tokens[order], owners[order], counts[order]
        again = np.concatenate([[False], (tokens[1:] == tokens[:-1]) & (owners[1:] == owners[:-1])])
        counts[again] = 0  # another row of the same person
        first = np.flatnonzero(np.concatenate([[True], tokens[1:] != tokens[:-1]]))
        counts = np.add.reduceat(counts, first)
        self.tokens, self.owners, self.counts = tokens[first][:_WORKING], owners[first][:_WORKING], counts[:_WORKING]
        if len(first) > _WORKING:
            self.limit = tokens[first][_WORKING]

    def _count_pending(self) -> None:
        """Count tokens of different persons; sorting them alone is several times as fast."""
        tokens = np.sort(np.concatenate([np.empty(0, np.uint64), *self.pending]))
        self.pending.clear()
        if not len(tokens):
            return
        first = np.flatnonzero(np.concatenate([[True], tokens[1:] != tokens[:-1]]))
        counts = np.diff(first, append=len(tokens))[: _WORKING + 1]  # those behind have no place, and bound none
        tokens = tokens[first[: _WORKING + 1]]
        places = np.searchsorted(self.tokens, tokens)
        known = np.zeros(len(tokens), np.bool_)
        there = places < len(self.tokens)
        known[there] = self.tokens[places[there]] == tokens[there]
        self.counts[places[known]] += counts[known]
        if known.all():
            return
        merged = np.concatenate([self.tokens, tokens[~known]])
        order = np.argsort(merged, kind="stable")  # two sorted runs, which it merges
        counts = np.concatenate([self.counts, counts[~known]])[order]
        if len(merged) > _WORKING:
            self.limit = merged[order[_WORKING]]
        self.tokens, self.counts = merged[order[:_WORKING]], counts[:_WORKING]

    def finish(self) -> tuple[np.uint64, Codes]:
        """Return the kept tokens of single persons, and the limit below which none is left out."""
        self._count_pending()
        if not len(self.counts):
            return self.limit, self.tokens
        usual = self.counts.min()
        if np.mean(self.counts == usual) < _RARE:  # rows that are repeated, but for some
            usual = np.bincount(self.counts).argmax()
        found = self.tokens[self.counts == usual]
        return (found[KEPT], found[:KEPT]) if len(found) > KEPT else (self.limit, found)


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
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._alone, self._paired = _Keyed(secret, b"alone"), _Keyed(secret, b"paired")
        self._columns: list[_Sample] = []
        self._pairs: dict[tuple[int, int], _Sample] = {}

    def __reduce__(self) -> tuple[type["Sketcher"], tuple[bytes]]:
        """Hand the secret to another process, before there are rows."""
        assert not self._columns
        return Sketcher, (self._secret,)

    def add(self, columns: Sequence[Values], persons: Codes | None = None) -> None:
        """Take in a chunk of rows.

        Parameters
        ----------
        columns : sequence of Values
        persons : ndarray of uint64, optional
            Whose row each is; without it a row is a person.
        """
        if not self._columns:
            self._columns = [_Sample() for _ in columns]
            varied = sorted(range(len(columns)), key=lambda i: -len(np.unique(columns[i].alone[columns[i].present])))
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
        return Sketch(tuple(sample.finish() for sample in (*self._columns, *self._pairs.values())))


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is kept of the values that one person alone has, column by column and pair by pair.

    Attributes
    ----------
    parts : tuple
        The kept tokens of each, sorted, behind the limit below which none is left out.
    """

    parts: tuple[tuple[np.uint64, Codes], ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return bytes whose number follows from the number of columns alone."""
        table = np.full((len(self.parts), 1 + KEPT), _NO_TOKEN, "<u8")
        for row, (limit, tokens) in zip(table, self.parts, strict=True):
            row[0], row[1 : 1 + len(tokens)] = limit, tokens
        return table.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Sketch":
        """Read what `to_bytes` wrote.

        Raises
        ------
        ValueError
        """
        table = np.frombuffer(content, "<u8").reshape(-1, 1 + KEPT).astype(np.uint64)
        return cls(tuple((row[0], row[1:][row[1:] != _NO_TOKEN]) for row in table))

    def is_like(self, other: "Sketch", *, margin: float = 0.0) -> bool:
        """Tell whether the rows are those of the same people, or nearly: whether any part is shared beyond chance.

        Parameters
        ----------
        other : Sketch
        margin : float
            What is added to the threshold, from 0 to 1 standard deviations: who does not know it cannot read one
            person off the answer.
        """
        mine, theirs = _flatten(self), _flatten(other)
        begin, end = (np.searchsorted(mine[0], theirs[0], side) for side in ("left", "right"))
        shared: dict[tuple[int, int], int] = {}
        for k in np.flatnonzero(end > begin):
            for i in range(begin[k], end[k]):
                place = int(mine[1][i]), int(theirs[1][k])
                if theirs[0][k] < min(self.parts[place[0]][0], other.parts[place[1]][0]):
                    shared[place] = shared.get(place, 0) + 1
        return any(
            count >= self._threshold(other, place, _DEVIATIONS + margin) for place, count in shared.items() if count > 1
        )

    def _threshold(self, other: "Sketch", place: tuple[int, int], deviations: float) -> float:
        (mine, tokens), (theirs, others) = self.parts[place[0]], other.parts[place[1]]
        limit = min(mine, theirs)
        compared = min(int((tokens < limit).sum()), int((others < limit).sum()))
        return compared * _CHANCE + deviations * math.sqrt(compared * _CHANCE * (1 - _CHANCE))


def count_parts(columns: int) -> int:
    """Return of how many columns and pairs a sketch keeps values."""
    return columns + math.comb(min(columns, _PAIRED_COLUMNS), 2)


def _flatten(sketch: Sketch) -> tuple[Codes, npt.NDArray[np.intp]]:
    """Return every token in order, and which part each is of."""
    tokens = np.concatenate([tokens for _, tokens in sketch.parts])
    parts = np.repeat(np.arange(len(sketch.parts)), [len(tokens) for _, tokens in sketch.parts])
    order = np.argsort(tokens, kind="stable")
    return tokens[order], parts[order]


def code_rows_stored(columns: Sequence[Column], stored: Mapping[str, StoredArray]) -> list[Values]:
    """Code every column of stored rows."""
    return [code_stored(column, stored[column.name]) for column in columns]
