"""A reading of all rows against a manifest that registers nothing: every fault, and the operator's report."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from curator_service.datasets.batches import SourceBatch
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.persons import Persons
from curator_service.datasets.reading import bound_reading, read_apart
from curator_service.datasets.repeats import KeyWatch
from curator_service.datasets.report import Fault, GatheredFaults, Report, Reporter
from curator_service.datasets.sources.base import IngestError, Progress, Source
from curator_service.datasets.sources.coding import CodedBatch, are_known, iterate_rows


def check_rows(
    manifest: Manifest,
    source: Source,
    progress: Progress = lambda _rows, _share: None,
    *,
    processor_s: int | None = None,
) -> Report:
    """Read every row as registration does, and go on behind what breaks the manifest.

    Parameters
    ----------
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.
    processor_s : int, optional
        Bound of processor time, in seconds; what any table takes if not given.

    Returns
    -------
    Report
        Of the rows up to a fault behind which nothing can be read; that one is its last.
    """
    work, bounds = partial(_check_rows, manifest, source), bound_reading(manifest)
    bounds = bounds if processor_s is None else replace(bounds, processor_s=processor_s)
    try:
        return Report.read(read_apart(work, source.label, bounds, progress))
    except IngestError as error:  # of a reading that was ended
        return Reporter(manifest, source).finish(0, 0, 0, (Fault(None, str(error), 0, ()),))


def _check_rows(manifest: Manifest, source: Source, progress: Progress) -> dict[str, Any]:
    faults, reporter, keys = GatheredFaults(source), Reporter(manifest, source), KeyWatch(manifest)
    persons = None if manifest.subject is None else Persons(manifest.rows_per_person, manifest.keep_by)
    rows = whose = 0

    def observe(coded: CodedBatch) -> None:
        reporter.add(coded)
        keys.add(coded)

    try:
        for batch in iterate_rows(manifest, source, observe, progress, faults):
            rows += batch.count
            whose += batch.count if persons is None else _add_persons(persons, batch)
    except IngestError as error:
        faults.add_of_all(f"{error}; nothing behind this was read")
    else:
        if not rows:
            faults.add_of_all(f"{source.label}: no rows below the header", "there are no rows below the header")
        for fault in keys.find_faults():
            faults.add_of_all(*fault)
    if rows > manifest.row_capacity:
        capacity = f"the row_capacity of {manifest.row_capacity:,}"
        faults.add_of_all(f"{rows:,} rows are more than {capacity}", f"there are more rows than {capacity}")
    if persons is None:
        return reporter.finish(rows, rows, rows, faults.list_all()).render()
    counted = len(persons.find_counted()) + rows - whose
    return reporter.finish(rows, persons.count, counted, faults.list_all()).render()


def _add_persons(persons: Persons, batch: SourceBatch) -> int:
    """Take in the rows whose subject is known, and return how many these are."""
    assert batch.pseudonyms is not None
    known = are_known(batch.subjects)
    persons.add(batch.pseudonyms[known], {name: one[known] for name, one in batch.stored.items()})
    return int(np.count_nonzero(known))
