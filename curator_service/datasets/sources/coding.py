"""Raw columns to stored integers: the one coder, whatever rows come from."""

import re
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.batches import SourceBatch
from curator_service.datasets.columns.arrays import FlagArray, Written, Wrong, WrongColumn, name_type
from curator_service.datasets.columns.base import CodedColumn, ColumnDeclaration
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.pseudonyms import Pseudonymiser, find_texts, number_persons
from curator_service.datasets.sketch import Codes, Sketcher
from curator_service.datasets.sources.base import Doubt, Faults, Progress, RawBatch, Source, read_batches
from curator_service.privacy.design import MissingRule

JOINT = "\x1f"
"""Between the identifiers of a subject of several columns: no folded one has it."""
_INVISIBLE = r"[\x00-\x20\x7f]+"
"""What `fold` leaves out of ASCII."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are not seen: joiners, fillers and selectors of variants (Default_Ignorable_Code_Point)."""
_FLOAT = r"^([0-9]+)[.,]00?$"
"""A whole number as programs write it that have made a float of it, as pandas does of a column with a gap."""


@dataclass(frozen=True, slots=True)
class CodedBatch:
    """Rows as they are stored, and what was seen of them before."""

    batch: SourceBatch
    columns: Sequence[CodedColumn]
    keys: Mapping[str, pa.Array]

    @property
    def persons(self) -> Codes | None:
        """A number of each row's person; None where the manifest declares no subject."""
        return None if self.batch.pseudonyms is None else number_persons(self.batch.pseudonyms)


Observer = Callable[[CodedBatch], None]
"""Sees each batch before its rows are stored: a sketch, or a report."""


def iterate_rows(
    manifest: Manifest,
    source: Source,
    observe: Observer,
    progress: Progress = lambda _rows, _share: None,
    faults: Faults | None = None,
    pseudonymiser: Pseudonymiser | None = None,
) -> Generator[SourceBatch]:
    """Yield the rows of a source in order, as stored integers.

    Parameters
    ----------
    observe : callable
        Called with each batch in order.
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.
    faults : Faults, optional
        Takes what breaks the manifest; reading goes on behind it unless it raises. The first fault ends it otherwise.
    pseudonymiser : Pseudonymiser, optional
        Of the subjects, where the manifest declares them; one of this reading alone if not given.

    Raises
    ------
    IngestError
        Naming source, place and column, and showing no value.
    """
    faults, rows = faults or Faults(source), 0
    coder = Coder(manifest, source, faults, pseudonymiser or Pseudonymiser.for_once())
    with closing(read_batches(manifest, source, faults, coder.code)) as batches:
        for raw, coded in batches:
            # A thread of its own costs more turns of the interpreter's lock than it saves, even on the clock.
            observe(coded)
            rows += coded.batch.count
            progress(rows, raw.share)
            yield coded.batch


def observe_sketch(sketcher: Sketcher, key_id: str | None = None) -> Observer:
    """Return what lets a sketcher see raw values, before the lattice, and persons; `key_id` is of their pseudonyms."""
    persons = sketcher.pseudonymiser

    def observe(coded: CodedBatch) -> None:
        sketcher.add([column.values for column in coded.columns], coded.persons)
        if persons is not None and (known := coded.batch.pseudonyms) is not None:
            sketcher.add_subjects(known if persons.key_id == key_id else persons.make(coded.batch.subjects))

    return observe


class Coder:
    """Checks raw batches against declarations.

    Parameters
    ----------
    faults : Faults
        Takes what breaks a declaration.
    """

    def __init__(self, manifest: Manifest, source: Source, faults: Faults, pseudonymiser: Pseudonymiser) -> None:
        self._manifest = manifest
        self._faults = faults
        self._pseudonymiser = pseudonymiser
        self._columns = [_ColumnCoder(c, manifest, source.decimal) for c in manifest.columns]

    def code(self, raw: RawBatch) -> CodedBatch:
        """Return stored integers and what an observer sees.

        Raises
        ------
        IngestError
            From where faults are taken.
        Doubt
            Instead, where the batch does not say where its rows are.
        """
        names = self._manifest.subject_columns
        coded = {
            coder.name: self._code_column(raw, coder, array)
            for coder, array in zip(self._columns, raw.columns[len(names) :], strict=True)
        }
        parts = [self._code_subjects(raw, *one) for one in zip(names, raw.columns[: len(names)], strict=True)]
        folded = join_subjects(parts) if parts else None
        pseudonyms = None if folded is None else self._pseudonymiser.make(folded)
        stored = {name: one.stored for name, one in coded.items()}
        batch = SourceBatch(stored, folded, len(raw.columns[0]), pseudonyms)
        return CodedBatch(batch, list(coded.values()), raw.keys)

    def _code_column(self, raw: RawBatch, coder: "_ColumnCoder", array: pa.Array) -> CodedColumn:
        wrong = Wrong(len(array))
        try:
            coded = coder.code(array, wrong)
        except WrongColumn as error:
            wrong.add(None, str(error))
            coded = coder.code(pa.nulls(len(array), pa.string()), Wrong(len(array)))
            coded.missing[:] = False
        self._tell(raw, coder.name, wrong)
        return coded

    def _code_subjects(self, raw: RawBatch, name: str, array: pa.Array) -> pa.Array:
        wrong = Wrong(len(array))
        try:
            folded = _fold_array(array)
            if (missing := ~are_known(folded)).any():
                wrong.add(missing, "subject is missing; whose row is it?")
        except WrongColumn as error:
            wrong.add(None, str(error))
            folded = pa.array([""] * len(array), pa.string())
        self._tell(raw, name, wrong)
        return folded

    def _tell(self, raw: RawBatch, name: str, wrong: Wrong) -> None:
        if wrong.found and raw.places is None:
            raise Doubt
        for rows, rule in wrong.found:
            places = None if rows is None else [raw.places[row] for row in rows]  # type: ignore[index]
            self._faults.add(f"the {rule}", places, name)


class _ColumnCoder:
    """One declared column of a source."""

    def __init__(self, declaration: ColumnDeclaration, manifest: Manifest, decimal: str) -> None:
        self.name = declaration.name
        self._declaration = declaration
        own = declaration.missing_values
        self._written = Written(decimal, (manifest.missing_values or ()) if own is None else own)

    def code(self, array: pa.Array, wrong: Wrong) -> CodedColumn:
        """Return the column; what is wrong is noted, and then stored as missing."""
        read = self._declaration.read(array, self._written, wrong)
        missing = ~read.values.present & ~wrong.rows
        if self._declaration.missing is MissingRule.COMPLETE and missing.any():
            wrong.add(missing, "value is missing, and the manifest declares it complete")
        return CodedColumn(*read, missing)


def are_known(subjects: pa.Array) -> FlagArray:
    """Return which folded identifiers are not empty."""
    known: FlagArray = pc.binary_length(subjects).to_numpy(zero_copy_only=False) > 0
    return known


def _fold_array(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        array = pc.cast(array, pa.string())
    elif not pa.types.is_string(array.type):
        raise WrongColumn(f"column holds {name_type(array.type)}; a subject is a text or a whole number")
    return fold_subjects(pc.fill_null(array, ""))


def join_subjects(parts: Sequence[pa.Array]) -> pa.Array:
    """Return one folded identifier of each row, of those of several columns; nothing where one of them is missing."""
    if len(parts) == 1:
        return parts[0]
    known = np.logical_and.reduce([are_known(part) for part in parts])
    return pc.if_else(pa.array(known), pc.binary_join_element_wise(*parts, JOINT), "")


def fold_identifier(identifier: str) -> str:
    """Return a person's identifier as rows have it; tabs stand between those of several columns."""
    return JOINT.join(fold_subjects(pa.array(identifier.strip().split("\t"), pa.string())).to_pylist())


def fold_subjects(words: pa.Array) -> pa.Array:
    """Return what look-alikes have in common: taking two persons for one is safe, taking one for two is not.

    Each identifier is folded by itself: were others looked at, one person's would decide whose rows another's are.
    """
    seen = find_texts(words)[0]  # expressions are run where they may change something
    has_point = seen.max(initial=0) > 127
    if has_point:
        folded = pa.array([_fold(word) for word in words.to_pylist()], pa.string())
    else:
        folded = pc.ascii_lower(words)
        if seen.min(initial=127) < 33 or (seen == 127).any():
            folded = pc.replace_substring_regex(folded, _INVISIBLE, "")
        has_point = (seen == ord(".")).any() or (seen == ord(",")).any()
    return pc.replace_substring_regex(folded, _FLOAT, r"\1") if has_point else folded


def _fold(subject: str) -> str:
    for _ in range(2):  # what is not seen may keep apart what is put together
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", subject).casefold())
        subject = _UNSEEN.sub(
            "", "".join(c for c in folded if unicodedata.category(c) not in {"Cf", "Cc", "Zs", "Zl", "Zp"})
        )
    return unicodedata.normalize("NFKC", subject)
