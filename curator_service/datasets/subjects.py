"""Data that the curator holds of one person, found with the person's identifier and the curator's private keys."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from curator_service.datasets.batches import MARK
from curator_service.datasets.pseudonyms import SIZE, Pseudonymiser
from curator_service.datasets.reidentification import (
    ReversiblePseudonymiser,
    SubjectKey,
    SubjectKeyError,
    identify,
    list_keys,
)
from curator_service.datasets.repository import Change, Dataset
from curator_service.datasets.snapshot import Storage
from curator_service.datasets.sources.coding import JOINT, fold_identifier
from curator_service.ledger.chain.signing import KeyRing, SigningError
from curator_service.privacy.design import Column
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
    waits : bool
        Whether these rows are in no answer before the dataset's next cut.
    """

    dataset: Dataset
    counted: Any = field(repr=False)
    values: dict[str, list[Any]] = field(repr=False)
    waits: bool = False


def make_pseudonymiser(keys: KeyRing, key_id: str | None = None) -> Pseudonymiser:
    """Return what makes pseudonyms under a key, or under the newest; it keeps whose they are if a key for it is named.

    Raises
    ------
    SigningError
        If the private key is not here.
    """
    key_id = keys.list_keys()[-1].key_id if key_id is None else key_id
    secret = keys.secret(key_id, "pseudonym")
    if keys.subject_key_file is None:
        return Pseudonymiser(key_id, secret)
    return ReversiblePseudonymiser(key_id, secret, key_file=keys.subject_key_file)


def make_pseudonyms(keys: KeyRing, identifier: str) -> dict[str, bytes]:
    """Return a person's pseudonyms under each private key that is here, by the key's id."""
    folded = pa.array([fold_identifier(identifier)])
    found = {}
    for key in keys.list_keys():
        with suppress(SigningError):
            found[key.key_id] = bytes(make_pseudonymiser(keys, key.key_id).make(folded)[0])
    return found


def find_person(
    storage: Storage, keys: KeyRing, datasets: list[Dataset], identifier: str, changes: Iterable[Change] = ()
) -> Iterator[Presence]:
    """Yield what each dataset holds of a person, where it holds anything.

    Parameters
    ----------
    datasets : list of Dataset
        Those without pseudonyms are passed over: see `tells_persons_apart`.
    identifier : str
        As the source wrote it; letter case, spaces and invisible characters do not matter. Tabs stand between the
        identifiers of a subject of several columns.
    changes : iterable of Change
        Rows that wait for a cut are looked through too.

    Raises
    ------
    RowsUnreadable, SigningError
    """
    folded = pa.array([fold_identifier(identifier)])
    waiting = [(change.dataset_id, json.loads(change.content)) for change in changes if change.version is None]
    for dataset in datasets:
        if dataset.is_retired:
            continue
        added = [content["folder"] for owner, content in waiting if owner == dataset.id and "folder" in content]
        for name in (dataset.folder, *added):
            folder, about = storage.root / name, storage.about(name)
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
                stored, columns = _take(storage, name, names, mask), dataset.manifest.by_name
                values = {name: _decode(columns[name], stored[name]) for name in names}
                yield Presence(dataset, stored[MARK] == 1, values, waits=name != dataset.folder)


def tells_persons_apart(storage: Storage, dataset: Dataset, identifier: str) -> bool:
    """Tell whether the rows of a dataset can be searched for a person: it is known whose they are, by such identifiers.

    Raises
    ------
    RowsUnreadable
    """
    if dataset.is_retired:
        return True
    parts = storage.about(dataset.folder).parts
    return names_columns(dataset, identifier) and all(part.subjects is not None for part in parts)


def names_columns(dataset: Dataset, identifier: str) -> bool:
    """Tell whether an identifier has as many columns as the subject of a dataset."""
    return fold_identifier(identifier).count(JOINT) + 1 == len(dataset.manifest.subject_columns)


def find_identified(storage: Storage, datasets: Iterable[Dataset]) -> frozenset[str]:
    """Return the ids of those datasets that keep whose rows are, encrypted."""
    return frozenset(dataset.id for dataset in datasets if list_keys(storage.root / dataset.folder))


def identify_rows(storage: Storage, dataset: Dataset, key: SubjectKey, rows: Sequence[int]) -> list[str]:
    """Return the folded identifiers of whose rows are; tabs stand between those of several columns.

    Parameters
    ----------
    rows : sequence of int
        As they are stored, from 1: of a first version, as they stood in the source.

    Raises
    ------
    SubjectKeyError
        If there is no such row, or it is not kept whose it is, or not under this key.
    RowsUnreadable
    """
    folder, parts = storage.root / dataset.folder, storage.about(dataset.folder).parts
    read = (part.read_subjects(folder) if part.subjects else np.zeros(part.rows, f"V{SIZE}") for part in parts)
    pseudonyms = np.concatenate(list(read))
    if not all(1 <= row <= len(pseudonyms) for row in rows):
        raise SubjectKeyError(f"rows of {dataset.name!r} have the numbers 1 to {len(pseudonyms)}")
    asked = [pseudonyms[row - 1].tobytes() for row in rows]
    known = identify(folder, key, set(asked))
    missing = [str(row) for row, pseudonym in zip(rows, asked, strict=True) if pseudonym not in known]
    if missing:
        raise SubjectKeyError(f"whose these rows are was not kept under {key.key_id}: {', '.join(missing)}")
    return [known[pseudonym].replace(JOINT, "\t") for pseudonym in asked]


def _take(storage: Storage, folder: str, names: tuple[str, ...], mask: Any) -> dict[str, StoredArray]:
    taken, start = [], 0
    for stored, count in storage.iterate_rows(folder, names):
        taken.append({name: numbers[mask[start : start + count]] for name, numbers in stored.items()})
        start += count
    return {name: np.concatenate([rows[name] for rows in taken]) for name in (*names, MARK)}


def _decode(column: Column, stored: StoredArray) -> list[Any]:
    if not column.is_number:
        return [None if code == MISSING else column.levels[code] for code in stored.tolist()]
    center, scale = center_and_scale(column.lower, column.upper)
    digits = math.floor(math.log10(STORED_UNIT / 2) - math.log10(scale))  # what a stored integer can tell apart
    values = (None if number == MISSING else center + scale * (number / STORED_UNIT) for number in stored.tolist())
    return [None if value is None else round(value, digits) for value in values]
