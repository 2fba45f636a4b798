"""Raw columns to stored integers: the one coder, whatever rows come from."""

import re
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.batches import SourceBatch
from curator_service.datasets.manifest import ColumnDeclaration, Manifest
from curator_service.datasets.pseudonyms import Pseudonymiser, find_texts, number_persons
from curator_service.datasets.sketch import Codes, Sketcher, Values, code_levels, code_numbers
from curator_service.datasets.sources.base import Doubt, Faults, Progress, RawBatch, Source, read_batches
from curator_service.kit.instants import MICROSECONDS, parse_instant
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, StoredArray, to_stored

_BOOLEAN_WORDS = dict.fromkeys(("false", "0", "f", "no", "n", "0.0"), 0)
_BOOLEAN_WORDS |= dict.fromkeys(("true", "1", "t", "yes", "y", "1.0"), 1)
_BOOLEAN_NUMBERS = {0.0: 0, 1.0: 1}
_MICROSECONDS_OF = {"d": 86_400e6, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_UNKNOWN = -1
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

_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


class _WrongColumn(Exception):
    """A whole column breaks its declaration: the rule."""


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One column of a batch.

    Attributes
    ----------
    stored : ndarray of int32, shape (n,)
        Stored integers; missing where a value breaks the declaration.
    values : Values
        What a sketch sees.
    numbers : ndarray of float64, shape (n,), or None
        Numbers before the lattice, NaN where missing; None of levels.
    missing : ndarray of bool, shape (n,)
        True where there is no value; not where one breaks the declaration.
    """

    stored: StoredArray
    values: Values
    numbers: _Numbers | None
    missing: _Flags


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
            coder.column.name: self._code_column(raw, coder, array)
            for coder, array in zip(self._columns, raw.columns[len(names) :], strict=True)
        }
        parts = [self._code_subjects(raw, *one) for one in zip(names, raw.columns[: len(names)], strict=True)]
        folded = join_subjects(parts) if parts else None
        pseudonyms = None if folded is None else self._pseudonymiser.make(folded)
        stored = {name: one.stored for name, one in coded.items()}
        batch = SourceBatch(stored, folded, len(raw.columns[0]), pseudonyms)
        return CodedBatch(batch, list(coded.values()), raw.keys)

    def _code_column(self, raw: RawBatch, coder: "_ColumnCoder", array: pa.Array) -> CodedColumn:
        wrong = _Wrong(len(array))
        try:
            coded = coder.code(array, wrong)
        except _WrongColumn as error:
            wrong.add(None, str(error))
            coded = coder.code(pa.nulls(len(array), pa.string()), _Wrong(len(array)))
            coded.missing[:] = False
        self._tell(raw, coder.column.name, wrong)
        return coded

    def _code_subjects(self, raw: RawBatch, name: str, array: pa.Array) -> pa.Array:
        wrong = _Wrong(len(array))
        try:
            folded = _fold_array(array)
            if (missing := ~are_known(folded)).any():
                wrong.add(missing, "subject is missing; whose row is it?")
        except _WrongColumn as error:
            wrong.add(None, str(error))
            folded = pa.array([""] * len(array), pa.string())
        self._tell(raw, name, wrong)
        return folded

    def _tell(self, raw: RawBatch, name: str, wrong: "_Wrong") -> None:
        if wrong.found and raw.places is None:
            raise Doubt
        for rows, rule in wrong.found:
            places = None if rows is None else [raw.places[row] for row in rows]  # type: ignore[index]
            self._faults.add(f"the {rule}", places, name)


class _Wrong:
    """Rows that break a declaration within one column of a batch."""

    def __init__(self, count: int) -> None:
        self.rows: _Flags = np.zeros(count, np.bool_)
        self.found: list[tuple[list[int] | None, str]] = []

    def add(self, rows: _Flags | None, rule: str) -> None:
        """Note rows, or the whole column, unless they were noted for another rule; the rule never shows a value."""
        fresh = None if rows is None else np.flatnonzero(rows & ~self.rows).tolist()
        if fresh != []:
            self.rows |= True if rows is None else rows
            self.found.append((fresh, rule))


class _ColumnCoder:
    """One declared column."""

    def __init__(self, declaration: ColumnDeclaration, manifest: Manifest, decimal: str) -> None:
        self.column: Column = declaration.column
        self._declaration = declaration
        self._decimal = decimal
        own = declaration.missing_values
        words = (manifest.missing_values or ()) if own is None else own
        self._missing = pa.array(["", *words], pa.string())
        self._missing_numbers = [number for word in words if (number := _to_number(word, decimal)) is not None]

    def code(self, array: pa.Array, wrong: _Wrong) -> CodedColumn:
        """Return the column; what is wrong is noted, and then stored as missing."""
        numbers = None
        if self.column.type is ColumnType.NUMERIC:
            read = self._read_instants if self._declaration.format else self._read_numbers
            numbers = read(array, wrong)
            if self._declaration.whole:
                broken = (numbers % 1.0 != 0.0) & ~np.isnan(numbers)
                wrong.add(broken, "value is not a whole number, and the manifest declares it whole")
                numbers = np.where(broken, np.nan, numbers)
            stored, values = to_stored(numbers, self.column.lower, self.column.upper), code_numbers(numbers)
        else:
            stored = self._read_levels(array, wrong)
            values = code_levels(self.column.levels, stored)
        missing = ~values.present & ~wrong.rows
        if self.column.missing is MissingRule.COMPLETE and missing.any():
            wrong.add(missing, "value is missing, and the manifest declares it complete")
        return CodedColumn(stored, values, numbers, missing)

    def _read_numbers(self, array: pa.Array, wrong: _Wrong) -> _Numbers:
        if pa.types.is_string(array.type):
            numbers, unread = parse_numbers(self._blank(array), self._decimal)
            wrong.add(unread, "value is not a number")
        else:
            numbers = _to_floats(array)
        if np.isinf(numbers).any():
            wrong.add(np.isinf(numbers), "value is not a number, but an infinity")
            numbers = np.where(np.isinf(numbers), np.nan, numbers)
        for missing in self._missing_numbers:
            numbers = np.where(numbers == missing, np.nan, numbers)
        return numbers

    def _read_instants(self, array: pa.Array, wrong: _Wrong) -> _Numbers:
        form, origin = self._declaration.format, parse_instant(self._declaration.origin or "")
        assert origin is not None
        if pa.types.is_string(array.type):
            instants, present = _parse_instants(self._blank(array), form == "datetime", wrong)
        else:
            instants, present = _to_instants(array, form == "datetime", wrong)
        numbers: _Numbers = (instants - origin) / MICROSECONDS[self._declaration.unit or "days"]
        numbers[~present | wrong.rows] = np.nan
        return numbers

    def _read_levels(self, array: pa.Array, wrong: _Wrong) -> StoredArray:
        levels = self.column.levels
        bare = self.column.type is ColumnType.BOOLEAN and not self._declaration.levels
        numbers = _BOOLEAN_NUMBERS if bare else self._declaration.number_levels
        if pa.types.is_boolean(array.type):
            if self.column.type is not ColumnType.BOOLEAN:
                raise _WrongColumn("column holds booleans, and its declaration is a category")
            coded: StoredArray = pc.fill_null(pc.cast(array, pa.int32()), MISSING).to_numpy(zero_copy_only=False)
            return coded
        if not pa.types.is_string(array.type):
            if not numbers:
                raise _WrongColumn(
                    "column holds numbers, and its declared levels are texts: write the levels as numbers"
                )
            return self._check_levels(self._match_numbers(_to_floats(array), numbers), wrong)
        words = self._blank(array)
        found = pc.dictionary_encode(words)
        codes = {level: code for code, level in enumerate(levels)}
        if bare:
            codes = _BOOLEAN_WORDS
        by_word = [
            self._match_word(_lower(word) if bare else word, codes, numbers) for word in found.dictionary.to_pylist()
        ]
        coded = np.array(by_word or [MISSING], dtype=np.int32)[found.indices.to_numpy(zero_copy_only=False)]
        return self._check_levels(coded, wrong)

    def _match_word(self, word: str, codes: Mapping[str, int], numbers: Mapping[float, int]) -> int:
        if not word:
            return MISSING
        if word in codes:
            return codes[word]
        number = _to_number(word, self._decimal) if self._declaration.levels and numbers else None
        if number is None:
            return _BOOLEAN_WORDS.get(word.replace(",", "."), _UNKNOWN) if self._is_comma_boolean(word) else _UNKNOWN
        return MISSING if np.isnan(number) or number in self._missing_numbers else numbers.get(number, _UNKNOWN)

    def _is_comma_boolean(self, word: str) -> bool:
        return self._decimal == "," and not self._declaration.levels and word in {"0,0", "1,0"}

    def _match_numbers(self, floats: _Numbers, numbers: Mapping[float, int]) -> StoredArray:
        coded = np.full(len(floats), _UNKNOWN, dtype=np.int32)
        for number, code in numbers.items():
            coded[floats == number] = code
        for missing in self._missing_numbers:
            coded[floats == missing] = MISSING
        coded[np.isnan(floats)] = MISSING
        return coded

    def _check_levels(self, coded: StoredArray, wrong: _Wrong) -> StoredArray:
        levels = self.column.levels
        unknown = coded == _UNKNOWN
        if self._declaration.other is not None:
            coded = np.where(unknown, np.int32(levels.index(self._declaration.other)), coded)
        elif unknown.any():
            wrong.add(unknown, f"value is not one of the declared levels {', '.join(levels)}")
            coded = np.where(unknown, np.int32(MISSING), coded)
        return coded

    def _blank(self, words: pa.Array) -> pa.Array:
        """Return words without spaces around them; empty ones where the value is missing."""
        return blank(words, self._missing)


def blank(words: pa.Array, missing: pa.Array) -> pa.Array:
    """Return words without spaces around them; empty ones for those that stand for a missing value."""
    words = pc.utf8_trim_whitespace(pc.fill_null(words, ""))
    return words if len(missing) == 1 else pc.if_else(pc.is_in(words, missing), "", words)


def _lower(word: str) -> str:
    return str(pc.utf8_lower(pa.scalar(word, pa.string())).as_py())


def parse_numbers(words: pa.Array, decimal: str) -> tuple[_Numbers, _Flags]:
    """Return numbers, NaN for an empty word, and which words are none, NaN as well."""
    filled = pc.if_else(pc.equal(words, ""), "nan", words)
    wrong = np.zeros(len(words), np.bool_)
    if decimal != ".":
        wrong |= pc.match_substring(filled, ".").to_numpy(zero_copy_only=False)
        filled = pc.replace_substring(filled, decimal, ".")
    if wrong.any():
        filled = pc.if_else(pa.array(wrong), "nan", filled)
    try:
        return pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False), wrong
    except pa.ArrowInvalid:
        found = pc.dictionary_encode(filled)
        unread = np.array([_to_number(word, ".") is None for word in found.dictionary.to_pylist()], np.bool_)
        wrong |= unread[found.indices.to_numpy(zero_copy_only=False)]
    return pc.cast(pc.if_else(pa.array(wrong), "nan", filled), pa.float64()).to_numpy(zero_copy_only=False), wrong


def _to_number(word: str, decimal: str) -> float | None:
    if decimal != ".":
        if "." in word:
            return None
        word = word.replace(decimal, ".")
    with suppress(pa.ArrowInvalid):
        return float(pc.cast(pa.array([word], pa.string()), pa.float64())[0].as_py())
    return None


def _to_floats(array: pa.Array) -> _Numbers:
    """Return numbers as the same digits in a CSV file would be read; null is NaN."""
    kind = array.type
    if pa.types.is_decimal(kind):
        array = pc.cast(pc.cast(array, pa.string()), pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        array = pc.cast(array, pa.float64(), safe=False)
    else:
        raise _WrongColumn(f"column holds {name_type(kind)}, and its declaration asks for numbers")
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def _parse_instants(words: pa.Array, with_time: bool, wrong: _Wrong) -> tuple[npt.NDArray[np.int64], _Flags]:
    found = pc.dictionary_encode(words)
    texts = found.dictionary.to_pylist()
    parsed = [0 if not text else parse_instant(text, with_time=with_time) for text in texts]
    places = found.indices.to_numpy(zero_copy_only=False)
    unread = np.array([instant is None for instant in parsed], np.bool_)
    if unread.any():
        example = "2020-01-31T23:59:00" if with_time else "2020-01-31"
        wrong.add(unread[places], f"value is not a {'time' if with_time else 'date'} like {example}")
    instants = np.array([instant or 0 for instant in parsed], np.int64)
    return instants[places], np.array([bool(text) for text in texts], np.bool_)[places]


def _to_instants(array: pa.Array, with_time: bool, wrong: _Wrong) -> tuple[npt.NDArray[np.int64], _Flags]:
    kind = array.type
    if not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
        raise _WrongColumn(f"column holds {name_type(kind)}, and its declaration asks for dates or times")
    present = pc.is_valid(array).to_numpy(zero_copy_only=False)
    counted = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    counts = pc.fill_null(pc.cast(array, counted), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    unit = "d" if pa.types.is_date32(kind) else "ms" if pa.types.is_date(kind) else kind.unit
    far = np.abs(counts.astype(np.float64)) * _MICROSECONDS_OF[unit] > 2**58  # 7,000 years before and after 1970
    wrong.add(far, "value is no instant of the years 1 to 9999")
    # Digits finer than microseconds are left out, as of words.
    near = np.where(far, 0, counts)
    instants = near // 1000 if unit == "ns" else near * int(_MICROSECONDS_OF[unit])
    if not with_time:
        apart = instants % MICROSECONDS["days"] != 0
        wrong.add(apart, "value has a time of the day, and its declaration asks for a date")
    return instants, present


def are_known(subjects: pa.Array) -> _Flags:
    """Return which folded identifiers are not empty."""
    known: _Flags = pc.binary_length(subjects).to_numpy(zero_copy_only=False) > 0
    return known


def _fold_array(array: pa.Array) -> pa.Array:
    if pa.types.is_integer(array.type):
        array = pc.cast(array, pa.string())
    elif not pa.types.is_string(array.type):
        raise _WrongColumn(f"column holds {name_type(array.type)}; a subject is a text or a whole number")
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


def name_type(kind: pa.DataType) -> str:
    """Return a short name of a type; that of a nested one may be long."""
    return "nested values" if pa.types.is_nested(kind) else str(kind)[:40]
