"""What the curator holds of one person, for whoever has the person's identifier and the curator's private keys."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from curator_service.datasets.batches import MARK
from curator_service.datasets.pseudonyms import Pseudonymiser
from curator_service.datasets.repository import Dataset
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.coding import fold_subjects
from curator_service.ledger.chain.signing import KeyRing
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.lattice import MISSING, STORED_UNIT, StoredArray, center_and_scale


@dataclass(frozen=True, slots=True)
class Presence:
    """A person's rows in a dataset.

    Attributes
    ----------
    dataset : Dataset
    counted : ndarray of bool, shape (rows,)
        Which of them count.
    values : dict of str to list
        What is stored, in the manifest's units: numbers within their bounds, labels, None where a value is missing.
    """

    dataset: Dataset
    counted: Any = field(repr=False)
    values: dict[str, list[Any]] = field(repr=False)


def make_pseudonymiser(keys: KeyRing, key_id: str | None = None) -> Pseudonymiser:
    """Return what makes pseudonyms under a key, or under the newest.

    Raises
    ------
    SigningError
        If the private key is not here.
    """
    key_id = keys.list_keys()[-1].key_id if key_id is None else key_id
    return Pseudonymiser(key_id, keys.secret(key_id, "subject"))


def find_person(storage: Storage, keys: KeyRing, datasets: list[Dataset], identifier: str) -> Iterator[Presence]:
    """Yield what each dataset holds of a person, where it holds anything.

    Parameters
    ----------
    storage : Storage
    keys : KeyRing
    datasets : list of Dataset
        Those without pseudonyms, as every one of before they were kept, are passed over: see `tells_persons_apart`.
    identifier : str
        As the source wrote it; letter case, spaces and invisible characters do not matter.

    Raises
    ------
    RowsUnreadable, SigningError
    """
    folded = fold_subjects(pa.array([identifier], pa.string()))
    for dataset in datasets:
        folder, about = storage.root / dataset.id, storage.about(dataset.id)
        names = about.parts[0].columns
        found = []
        for part in about.parts:
            if part.subjects is not None:
                pseudonym = make_pseudonymiser(keys, part.subjects[0]).make(folded)[0]
                found.append(part.read_subjects(folder) == pseudonym)
            else:
                found.append(np.zeros(part.rows, dtype=np.bool_))
        mask = np.concatenate(found)
        if mask.any():
            stored = _take(storage, dataset, names, mask)
            columns = dataset.manifest.by_name
            yield Presence(dataset, stored[MARK] == 1, {name: _decode(columns[name], stored[name]) for name in names})


def tells_persons_apart(storage: Storage, dataset: Dataset) -> bool:
    """Tell whether it is known whose the rows of a dataset are.

    Raises
    ------
    RowsUnreadable
    """
    return all(part.subjects is not None for part in storage.about(dataset.id).parts)


def _take(storage: Storage, dataset: Dataset, names: tuple[str, ...], mask: Any) -> dict[str, StoredArray]:
    taken, start = [], 0
    for stored, count in storage.iterate_rows(dataset.id, names):
        taken.append({name: numbers[mask[start : start + count]] for name, numbers in stored.items()})
        start += count
    return {name: np.concatenate([rows[name] for rows in taken]) for name in (*names, MARK)}


def _decode(column: Column, stored: StoredArray) -> list[Any]:
    if column.type is not ColumnType.NUMERIC:
        return [None if code == MISSING else column.levels[code] for code in stored.tolist()]
    center, scale = center_and_scale(column.lower, column.upper)
    digits = math.floor(math.log10(STORED_UNIT / 2) - math.log10(scale))  # what a stored integer can tell apart
    values = (None if number == MISSING else center + scale * (number / STORED_UNIT) for number in stored.tolist())
    return [None if value is None else round(value, digits) for value in values]
