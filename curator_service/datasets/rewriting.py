"""Writing the rows of a dataset's next version: what was there, what came to it, and without whom is to be forgotten.

Everything is read and written anew at each cut, whether something has changed or not, so that the work does not tell
whether somebody was erased; and sums are those of the rows that are left, not the difference of two. Files are read
and written to their capacity. To add rows up, sketch them and choose which count takes longer for more rows: that is
made to end at a public time. Where the number of persons is public, the rows of whoever is erased become null rows:
every value missing, nobody's, and never counted. Elsewhere they are gone.
"""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.batches import MARK, RowMarks, SourceBatch
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.parts import Part, RowsUnreadable
from curator_service.datasets.persons import Persons, ReadRows, to_arrow
from curator_service.datasets.pseudonyms import SIZE, PseudonymArray, number_persons
from curator_service.datasets.reidentification import carry
from curator_service.datasets.repository import APPEND, ERASE, REPLACE, Change, Dataset
from curator_service.datasets.sketch import Sketch, Sketcher, code_rows_stored, count_parts
from curator_service.datasets.snapshot import Storage, tiles_of, write_part
from curator_service.datasets.sources.base import IngestError
from curator_service.privacy.design import cached_design
from curator_service.privacy.lattice import MISSING, IntArray, StoredArray

Erased = Mapping[str, Set[bytes]]
"""Pseudonyms of persons who are to be forgotten, by the key that they are under."""
_NOBODY = np.void(bytes(SIZE))
"""Stands for a pseudonym at null rows."""


_ROW_S, _CODE_S, _NUMBER_S, _PRODUCT_S = 1.5e-6, 0.14e-6, 16e-9, 0.2e-9
"""What a cut needs on the reference machine for a row, each of its codes, its terms, and its products of two terms."""
_FILES_S = 0.25
"""What it is made to take beside: files are opened and made durable, more of them where rows came."""
_HEADROOM = 2


def cut_duration_s(manifest: Manifest) -> float:
    """Return how long a cut is made to take on the reference machine, from public numbers, in seconds."""
    codes, terms = count_parts(len(manifest.columns)), len(cached_design(manifest.cacheable).terms)
    row_s = _ROW_S + codes * _CODE_S + terms * _NUMBER_S + terms**2 * _PRODUCT_S
    return _FILES_S + _HEADROOM * manifest.row_capacity * row_s


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The rows of a version that was written, and not published yet.

    Attributes
    ----------
    persons : int
        As `About` has it.
    part : Part
    sketch : Sketch
        Of the stored integers.
    """

    persons: int
    part: Part
    sketch: Sketch = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows and the manifest of a new version.

    Attributes
    ----------
    manifest : Manifest
    rows : sequence of str and Erased
        Folders in order, and who of each is to be forgotten.
    keeps_null_rows : bool
        Whether the number of persons is public.
    """

    manifest: Manifest
    rows: Sequence[tuple[str, Erased]]
    keeps_null_rows: bool


def rewrite(storage: Storage, name: str, plan: Plan, sketcher: Sketcher) -> Rewritten:
    """Write a version under a temporary name, durably; call it while `writing`.

    Raises
    ------
    RowsUnreadable
    IngestError
        If the rows are more than the manifest's capacity, or the disk has no room for them. Nothing stays behind.
    """
    with storage.staging(name) as staging:
        return _Rewriting(storage, staging, plan, sketcher).run()


class _Rewriting:
    def __init__(self, storage: Storage, staging: Path, plan: Plan, sketcher: Sketcher) -> None:
        self._storage, self._staging, self._plan, self._sketcher = storage, staging, plan, sketcher
        manifest = plan.manifest
        self._columns = [declaration.column for declaration in manifest.columns]
        self._names = [column.name for column in self._columns]
        self._abouts = [(storage.root / name, storage.about(name)) for name, _gone in plan.rows]
        self._key_id = self._find_key()
        self._persons = None
        if manifest.subject is not None and self._key_id is not None:
            self._persons = Persons(manifest.rows_per_person, manifest.keep_by, staging)
        self._nulls: list[IntArray] = []
        self._marks = None
        if manifest.subject is not None and self._key_id is None:
            self._marks = RowMarks(sum(about.rows for _folder, about in self._abouts))
        self._rows = 0

    def run(self) -> Rewritten:
        """Write it."""
        part = write_part(self._staging, self._plan.manifest, self._read(), self._find_counted, self._key_id)
        for (folder, _about), (_name, gone) in zip(self._abouts, self._plan.rows, strict=True):
            carry(folder, self._staging, frozenset[bytes]().union(*gone.values()))
        if self._rows == 0:
            self._sketch_subjects(np.empty(0, f"V{SIZE}"))
            nothing = {name: np.empty(0, np.int32) for name in self._names}
            self._sketcher.add(code_rows_stored(self._columns, nothing))
        # Added up, and not counted anew: that would tell whether somebody who came was there before, or was erased.
        persons = sum(about.persons for _folder, about in self._abouts)
        return Rewritten(persons, part, self._sketcher.finish())

    def _find_key(self) -> str | None:
        """Return the key of all pseudonyms; None where nobody knows whose the rows are."""
        keys = {part.subjects[0] if part.subjects else None for _folder, about in self._abouts for part in about.parts}
        if len(keys) > 1:
            raise RowsUnreadable
        return keys.pop()

    def _read(self) -> Iterator[SourceBatch]:
        for (folder, about), (_name, erased) in zip(self._abouts, self._plan.rows, strict=True):
            gone = erased.get(self._key_id or "", frozenset())
            for part in about.parts:
                whose = part.read_subjects(folder) if self._key_id is not None else None
                start = 0
                for stored, count in tiles_of(folder, part, self._names):
                    here = None if whose is None else whose[start : start + count]
                    start += count
                    batch = self._forget({name: stored[name] for name in self._names}, here, count, gone)
                    if self._rows + batch.count > self._plan.manifest.row_capacity:
                        raise IngestError(f"more rows than the row_capacity of {self._plan.manifest.row_capacity}")
                    if self._marks is not None:
                        self._marks.set(np.flatnonzero(stored[MARK] == 1) + self._rows)
                    self._rows += batch.count
                    self._sketch(batch)
                    yield batch

    def _forget(
        self, stored: dict[str, StoredArray], whose: PseudonymArray | None, count: int, gone: Set[bytes]
    ) -> SourceBatch:
        """Return rows as they go on: without those of whom is to be forgotten, or with null rows in their place."""
        if whose is None:
            return SourceBatch(stored, None, count)
        found = pc.is_in(to_arrow(whose), pa.array(sorted(gone), pa.binary(SIZE))).to_numpy(zero_copy_only=False)
        if not self._plan.keeps_null_rows:
            kept = ~found
            stored = {name: numbers[kept] for name, numbers in stored.items()}
            whose, count = whose[kept], int(kept.sum())
        else:
            stored = {name: np.where(found, MISSING, numbers).astype(np.int32) for name, numbers in stored.items()}
            whose = whose.copy()
            whose[found] = _NOBODY
        return SourceBatch(stored, None, count, whose)

    def _sketch(self, batch: SourceBatch) -> None:
        owners = None
        whose = batch.pseudonyms
        if whose is not None:
            owners = number_persons(whose)
            self._sketch_subjects(whose)
            self._nulls.append(np.flatnonzero(whose == _NOBODY) + self._rows - batch.count)
            if self._persons is not None:
                self._persons.add(whose, batch.stored)
        if batch.count:
            self._sketcher.add(code_rows_stored(self._columns, batch.stored), owners)

    def _sketch_subjects(self, whose: PseudonymArray) -> None:
        """Sketch persons; nobody if their pseudonyms are not under the key that those of all datasets are compared by.

        The sketch is as large then, or a cut after an erasure would write less than any other one.
        """
        known = self._sketcher.pseudonymiser
        if known is not None and self._key_id is not None:
            self._sketcher.add_subjects(whose if known.key_id == self._key_id else whose[:0])

    def _find_counted(self, read_rows: ReadRows) -> RowMarks | None:
        if self._persons is None:
            return self._marks
        counted = self._persons.find_counted(read_rows)
        for rows in self._nulls:
            counted.clear(rows)
        return counted


def list_rows(dataset: Dataset, waiting: Sequence[Change]) -> Sequence[tuple[str, str, Erased]]:
    """Return the folders of the next version's rows in order, their commitments, and the people to forget.

    Rows that were read after an erasure are not meant by it: a person may come again.
    """
    rows: list[tuple[str, str, dict[str, set[bytes]], int]] = [(dataset.folder, dataset.commitment, {}, 0)]
    for change in waiting:
        content = json.loads(change.content)
        if change.act == REPLACE:
            rows = []
        if change.act in {APPEND, REPLACE}:
            rows.append((content["folder"], content["snapshot"], {}, content["after"]))
    for change in waiting:
        if change.act == ERASE:
            for key_id, text in json.loads(change.content)["pseudonyms"].items():
                for _folder, _commitment, gone, after in rows:
                    if change.number > after:
                        gone.setdefault(key_id, set()).add(bytes.fromhex(text))
    return [(folder, commitment, gone) for folder, commitment, gone, _after in rows]
