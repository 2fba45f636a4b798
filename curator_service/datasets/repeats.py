"""Repeats: how many values of a key stand with more than one declared person.

Where a manifest declares a unit that is smaller than a person, such as a visit, one person counts many times, and the
guarantee is for a visit. Then another column of the source often tells: the patient's number stands with many visits.
What is found is for the terminal of whoever reads the rows, and for no ledger, log or answer.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.columns.arrays import Written
from curator_service.datasets.columns.base import CodedColumn
from curator_service.datasets.keys import KeyOf, looks_like_key
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.persons import mix
from curator_service.datasets.pseudonyms import Pseudonymiser, number_persons
from curator_service.datasets.sources.coding import (
    CodedBatch,
    are_known,
    fold_subjects,
)
from curator_service.privacy.lattice import MISSING

SHARE = 0.01
"""Of the values of a key that may stand with more than one person: a number is typed wrong, or given again."""
_KEPT = 2**15
_PENDING = 2**16
_Hashes = npt.NDArray[np.uint64]
_SAYS = {
    KeyOf.PERSON: "seems to number persons",
    KeyOf.RECORD: "seems to number records, of which one person may have several rows",
    KeyOf.STAFF: "seems to number people",
    KeyOf.UNKNOWN: "looks like a key",
}


class KeyWatch:
    """Counts, for each column that looks like a key, the values that stand with more than one declared person.

    Parameters
    ----------
    manifest : Manifest
        Its `not_persons` are not looked at.
    of_registered : bool
        Whether rows are for a registered dataset: then only columns that its manifest does not declare are looked at.
    """

    def __init__(self, manifest: Manifest, *, of_registered: bool = False) -> None:
        self._manifest, self._of_registered = manifest, of_registered
        self._written = Written(".", manifest.missing_values or ())
        self._once = Pseudonymiser.for_once()
        self._declared = {
            place: declaration.header
            for place, declaration in enumerate(manifest.columns)
            if not of_registered
            and not declaration.column.is_truth
            and not {declaration.header, declaration.name} & set(manifest.not_persons)
            and looks_like_key(declaration.header)
        }
        self._pairs: dict[str, tuple[_Partners, _Partners]] = {}
        self._rows = 0

    def add(self, coded: CodedBatch) -> None:
        """Take in the next rows."""
        found = [(name, *self._hash_words(array)) for name, array in coded.keys.items()]
        found += [(name, *_hash_column(coded.columns[place])) for place, name in self._declared.items()]
        count = coded.batch.count
        if found:
            persons, known = self._number_persons(coded)
            for name, values, present in found:
                persons_of, values_of = self._pairs.setdefault(name, (_Partners(), _Partners()))
                rows = present & known
                persons_of.add(values[rows], persons[rows])
                if self._manifest.subject is not None:
                    values_of.add(persons[rows], values[rows])
        self._rows += count

    def find_faults(self) -> Iterator[tuple[str, str]]:
        """Yield a sentence, and one without counts, for each key with values of several persons who seem to be one.

        They do where the key is a person's by name, or where no declared person has several values of it. A column of
        visits has many persons for one number, too, but several numbers for one person.
        """
        is_of_persons = any(looks_like_key(name) is KeyOf.PERSON for name in self._manifest.subject_columns)
        for name, (persons_of, values_of) in self._pairs.items():
            unit = looks_like_key(name)
            assert unit is not None  # no other column is read
            if unit is KeyOf.STAFF and is_of_persons:
                continue
            shared, values = persons_of.count()
            several, persons = values_of.count()
            if shared > SHARE * values and (unit is KeyOf.PERSON or several <= SHARE * persons):
                of = f"its {values:,} values" if persons_of.is_all else f"a sample of {values:,} of its values"
                begin, word = f"the column {name!r} {_SAYS[unit]}:", self._word(name)
                yield f"{begin} {shared:,} of {of} {word}", f"{begin} values of it {word}"

    def _word(self, name: str) -> str:
        columns = ", ".join(map(repr, self._manifest.subject_columns))
        where = f"with more than one value of the subject {columns}" if columns else "in more than one row"
        said = f"are {where}, so that one person may count as many"
        if self._of_registered:
            return f"{said}. If rows with one value may be of different persons, leave the column out of these rows"
        return (
            f"{said}. Name the column that tells persons apart as the subject; or, if rows with one value of "
            f'{name!r} may be of different persons, declare not_persons = ["{name}"]'
        )

    def _number_persons(self, coded: CodedBatch) -> tuple[_Hashes, npt.NDArray[np.bool_]]:
        """Return a number of each row's person, and whether it is known; without a subject, of the row."""
        count = coded.batch.count
        if coded.persons is None:
            return np.arange(self._rows, self._rows + count, dtype=np.uint64), np.ones(count, np.bool_)
        return coded.persons, are_known(coded.batch.subjects)

    def _hash_words(self, array: pa.Array) -> tuple[_Hashes, npt.NDArray[np.bool_]]:
        kind = array.type
        if pa.types.is_string(kind):
            folded = fold_subjects(self._written.blank(array))
            return number_persons(self._once.make(folded)), are_known(folded)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            numbers = pc.cast(array, pa.int64() if pa.types.is_integer(kind) else pa.float64(), safe=False)
            present = pc.is_valid(pc.if_else(pc.is_nan(numbers), None, numbers)).to_numpy(zero_copy_only=False)
            return mix((pc.fill_null(numbers, 0).to_numpy() + 0).view(np.uint64)), present
        encoded = array.dictionary_encode()
        values = encoded.dictionary
        hashes = mix(np.array([hash(value) for value in values.to_pylist()], np.int64).view(np.uint64))
        present = pc.is_valid(encoded.indices).to_numpy(zero_copy_only=False)
        places = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        return (hashes[places] if len(hashes) else np.zeros(len(array), np.uint64)), present


class _Partners:
    """The values of one column that have more than one partner in another: their lowest and highest partners differ.

    Values and partners are hashes. Once there are more than `_KEPT` values, those with small hashes alone are kept: a
    sample of the values, whatever the number of their rows.
    """

    def __init__(self) -> None:
        self._values, self._low, self._high = (np.empty(0, np.uint64) for _ in range(3))
        self._waiting: list[tuple[_Hashes, _Hashes]] = []
        self._pending = 0
        self._shift = 0

    @property
    def is_all(self) -> bool:
        """True if all values are kept."""
        return self._shift == 0

    def add(self, values: _Hashes, partners: _Hashes) -> None:
        """Take in a partner of each value."""
        kept = self._is_kept(values)
        self._waiting.append((values[kept], partners[kept]))
        self._pending += int(np.count_nonzero(kept))
        if self._pending > _PENDING:
            self._merge()

    def count(self) -> tuple[int, int]:
        """Return how many values have more than one partner, and how many values there are, of those that are kept."""
        self._merge()
        return int(np.count_nonzero(self._low != self._high)), len(self._values)

    def _is_kept(self, values: _Hashes) -> npt.NDArray[np.bool_]:
        kept: npt.NDArray[np.bool_] = values <= np.uint64((2**64 - 1) >> self._shift)
        return kept

    def _merge(self) -> None:
        fresh = [np.concatenate(one) for one in zip(*self._waiting, strict=True)] if self._waiting else []
        self._waiting, self._pending = [], 0
        if not fresh or not len(fresh[0]):
            return
        values = np.concatenate([self._values, fresh[0]])
        order = np.argsort(values)
        values = values[order]
        starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        self._low = np.minimum.reduceat(np.concatenate([self._low, fresh[1]])[order], starts)
        self._high = np.maximum.reduceat(np.concatenate([self._high, fresh[1]])[order], starts)
        self._values = values[starts]
        while len(self._values) > _KEPT:
            self._shift += 1
            kept = self._is_kept(self._values)
            self._values, self._low, self._high = (one[kept] for one in (self._values, self._low, self._high))


def _hash_column(column: CodedColumn) -> tuple[_Hashes, npt.NDArray[np.bool_]]:
    """Return a hash of each value of a declared column, and where there is one."""
    if column.numbers is None:
        return mix(column.stored.astype(np.uint64)), column.stored != MISSING
    return mix((column.numbers + 0.0).view(np.uint64)), ~np.isnan(column.numbers)
