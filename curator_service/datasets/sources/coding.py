"""Raw columns to stored integers: the one coder, whatever rows come from."""

import re
import unicodedata
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curator_service.datasets.batches import SourceBatch
from curator_service.datasets.manifest import ColumnDeclaration, Manifest
from curator_service.datasets.sketch import Codes, Sketcher, Values, code_levels, code_numbers, code_words
from curator_service.datasets.sources.base import Doubt, IngestError, Progress, RawBatch, Source
from curator_service.kit.instants import MICROSECONDS, parse_instant
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import MISSING, StoredArray, to_stored

_BOOLEAN_WORDS = dict.fromkeys(("false", "0", "f", "no", "n", "0.0"), 0)
_BOOLEAN_WORDS |= dict.fromkeys(("true", "1", "t", "yes", "y", "1.0"), 1)
_BOOLEAN_NUMBERS = {0.0: 0, 1.0: 1}
_UNKNOWN = -1
_INVISIBLE = r"[\x00-\x20\x7f]+"
"""What `fold` leaves out of ASCII."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are not seen: joiners, fillers and selectors of variants (Default_Ignorable_Code_Point)."""

_T = TypeVar("_T")
_Numbers = npt.NDArray[np.float64]


class WrongValue(Exception):
    """A value, or a whole column, breaks its declaration: which row of the batch, and the rule; never the value."""

    def __init__(self, row: int | None, rule: str) -> None:
        super().__init__(rule)
        self.row, self.rule = row, rule


def iterate_rows(
    manifest: Manifest, source: Source, sketcher: Sketcher, progress: Progress = lambda _rows, _share: None
) -> Iterator[SourceBatch]:
    """Yield the rows of a source in order, as stored integers.

    Parameters
    ----------
    manifest : Manifest
    source : Source
    sketcher : Sketcher
        Sees raw values, before the lattice.
    progress : callable
        Called with the number of rows that were read, and their share of all, where it is known.

    Raises
    ------
    IngestError
        Naming source, place and column, and showing no value.
    """
    coder, rows = Coder(manifest, source), 0
    with ThreadPoolExecutor(1) as pool, closing(_code_batches(manifest, source, coder)) as batches:
        sketched = None
        for raw, coded in batches:
            if sketched is not None:
                sketched.result()
            # While this batch is sketched, the caller stores it and the next one is read.
            sketched = pool.submit(sketcher.add, coded.values, coded.persons)
            rows += coded.batch.count
            progress(rows, raw.share)
            yield coded.batch
        if sketched is not None:
            sketched.result()


def _code_batches(manifest: Manifest, source: Source, coder: "Coder") -> Generator[tuple[RawBatch, "_Coded"]]:
    done = 0
    try:
        with closing(source.read(manifest)) as batches:
            for raw in batches:
                coded = coder.code(raw)
                done += 1
                yield raw, coded
    except Doubt:
        pass
    else:
        return
    with closing(source.reread(manifest)) as batches:
        for number, raw in enumerate(batches):
            if number >= done:
                yield raw, coder.code(raw)


@dataclass(frozen=True, slots=True)
class _Coded:
    batch: SourceBatch
    values: list[Values]
    persons: Codes | None


class Coder:
    """Checks raw batches against declarations.

    Parameters
    ----------
    manifest : Manifest
    source : Source
    """

    def __init__(self, manifest: Manifest, source: Source) -> None:
        self._manifest = manifest
        self._source = source
        self._columns = [_ColumnCoder(c, manifest, source.decimal) for c in manifest.columns]

    def code(self, raw: RawBatch) -> _Coded:
        """Return stored integers and what a sketch sees.

        Raises
        ------
        IngestError
            At the first column that breaks its declaration, and its first row.
        Doubt
            Instead, where the batch does not say where its rows are.
        """
        stored: dict[str, StoredArray] = {}
        values: list[Values] = []
        arrays = list(raw.columns)
        subjects = None if self._manifest.subject is None else arrays.pop(0)
        for coder, array in zip(self._columns, arrays, strict=True):
            name = coder.column.name
            stored[name], seen = self._tell(raw, name, coder.code, array)
            values.append(seen)
        count = len(raw.columns[0])
        if subjects is None:
            return _Coded(SourceBatch(stored, None, count), values, None)
        assert self._manifest.subject is not None
        folded = self._tell(raw, self._manifest.subject, _code_subjects, subjects)
        return _Coded(SourceBatch(stored, folded, count), values, code_words(folded))

    def _tell(self, raw: RawBatch, name: str, code: Callable[[pa.Array], _T], array: pa.Array) -> _T:
        try:
            return code(array)
        except WrongValue as wrong:
            row, rule = wrong.row, wrong.rule
        if raw.places is None:
            raise Doubt
        place = "" if row is None else f", {self._source.place} {raw.places[row]}"
        raise IngestError(f"{self._source.label}{place}, column {name!r}: the {rule}")


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

    def code(self, array: pa.Array) -> tuple[StoredArray, Values]:
        """Return stored integers, and what a sketch sees."""
        if self.column.type is ColumnType.NUMERIC:
            numbers = self._read_instants(array) if self._declaration.format else self._read_numbers(array)
            stored, values = to_stored(numbers, self.column.lower, self.column.upper), code_numbers(numbers)
        else:
            stored = self._read_levels(array)
            values = code_levels(self.column.levels, stored)
        if self.column.missing is MissingRule.COMPLETE and not values.present.all():
            raise WrongValue(int(np.argmin(values.present)), "value is missing, and the manifest declares it complete")
        return stored, values

    def _read_numbers(self, array: pa.Array) -> _Numbers:
        if pa.types.is_string(array.type):
            numbers = parse_numbers(self._blank(array), self._decimal)
        else:
            numbers = _to_floats(array)
        if np.isinf(numbers).any():
            raise WrongValue(int(np.argmax(np.isinf(numbers))), "value is not a number, but an infinity")
        for missing in self._missing_numbers:
            numbers = np.where(numbers == missing, np.nan, numbers)
        return numbers

    def _read_instants(self, array: pa.Array) -> _Numbers:
        form, origin = self._declaration.format, parse_instant(self._declaration.origin or "")
        assert origin is not None
        if pa.types.is_string(array.type):
            instants, present = _parse_instants(self._blank(array), form == "datetime")
        else:
            instants, present = _to_instants(array, form == "datetime")
        numbers: _Numbers = (instants - origin) / MICROSECONDS[self._declaration.unit or "days"]
        numbers[~present] = np.nan
        return numbers

    def _read_levels(self, array: pa.Array) -> StoredArray:
        levels = self.column.levels
        bare = self.column.type is ColumnType.BOOLEAN and not self._declaration.levels
        numbers = _BOOLEAN_NUMBERS if bare else self._declaration.number_levels
        if pa.types.is_boolean(array.type):
            if self.column.type is not ColumnType.BOOLEAN:
                raise WrongValue(None, "column holds booleans, and its declaration is a category")
            coded: StoredArray = pc.fill_null(pc.cast(array, pa.int32()), MISSING).to_numpy(zero_copy_only=False)
            return coded
        if not pa.types.is_string(array.type):
            if not numbers:
                raise WrongValue(
                    None, "column holds numbers, and its declared levels are texts: write the levels as numbers"
                )
            return self._match_numbers(_to_floats(array), numbers)
        words = self._blank(array)
        found = pc.dictionary_encode(words)
        codes = {level: code for code, level in enumerate(levels)}
        if bare:
            codes = _BOOLEAN_WORDS
        by_word = [
            self._match_word(_lower(word) if bare else word, codes, numbers) for word in found.dictionary.to_pylist()
        ]
        coded = np.array(by_word or [MISSING], dtype=np.int32)[found.indices.to_numpy(zero_copy_only=False)]
        return self._check_levels(coded)

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
        return self._check_levels(coded)

    def _check_levels(self, coded: StoredArray) -> StoredArray:
        if (coded == _UNKNOWN).any():
            rule = f"value is not one of the declared levels {', '.join(self.column.levels)}"
            raise WrongValue(int(np.argmax(coded == _UNKNOWN)), rule)
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


def parse_numbers(words: pa.Array, decimal: str) -> _Numbers:
    """Return numbers; NaN for an empty word.

    Raises
    ------
    WrongValue
    """
    filled = pc.if_else(pc.equal(words, ""), "nan", words)
    if decimal != ".":
        if pc.any(pc.match_substring(filled, ".")).as_py():
            raise WrongValue(pc.index(pc.match_substring(filled, "."), True).as_py(), "value is not a number")
        filled = pc.replace_substring(filled, decimal, ".")
    try:
        numbers: _Numbers = pc.cast(filled, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        row = next(i for i, word in enumerate(filled.to_pylist()) if _to_number(word, ".") is None)
    else:
        return numbers
    raise WrongValue(row, "value is not a number")


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
        raise WrongValue(None, f"column holds {name_type(kind)}, and its declaration asks for numbers")
    return np.asarray(pc.fill_null(array, np.nan).to_numpy(zero_copy_only=False), np.float64)


def _parse_instants(words: pa.Array, with_time: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    found = pc.dictionary_encode(words)
    texts = found.dictionary.to_pylist()
    parsed = [0 if not text else parse_instant(text, with_time=with_time) for text in texts]
    places = found.indices.to_numpy(zero_copy_only=False)
    wrong = np.array([instant is None for instant in parsed], np.bool_)
    if wrong.any():
        example = "2020-01-31T23:59:00" if with_time else "2020-01-31"
        raise WrongValue(
            int(np.argmax(wrong[places])), f"value is not a {'time' if with_time else 'date'} like {example}"
        )
    instants = np.array([instant or 0 for instant in parsed], np.int64)
    return instants[places], np.array([bool(text) for text in texts], np.bool_)[places]


def _to_instants(array: pa.Array, with_time: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    kind = array.type
    if not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
        raise WrongValue(None, f"column holds {name_type(kind)}, and its declaration asks for dates or times")
    present = pc.is_valid(array).to_numpy(zero_copy_only=False)
    try:
        whole = pc.cast(array, pa.timestamp("us"), safe=False) if pa.types.is_date(kind) else _to_microseconds(array)
        instants = pc.fill_null(pc.cast(whole, pa.int64()), 0).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        instants = None
    if instants is None or (np.abs(instants) > 2**58).any():  # 7,000 years before and after 1970
        row = 0 if instants is None else int(np.argmax(np.abs(instants) > 2**58))
        raise WrongValue(row, "value is no instant of the years 1 to 9999")
    if not with_time and (apart := instants % MICROSECONDS["days"] != 0).any():
        raise WrongValue(int(np.argmax(apart)), "value has a time of the day, and its declaration asks for a date")
    return instants, present


def _to_microseconds(array: pa.Array) -> pa.Array:
    """Return instants in microseconds; finer digits are left out, as of words."""
    if array.type.unit == "ns":
        nanoseconds = pc.fill_null(pc.cast(array, pa.int64()), 0).to_numpy(zero_copy_only=False)
        return pa.array(nanoseconds // 1000, pa.int64())
    return pc.cast(array, pa.timestamp("us", array.type.tz))


def _code_subjects(array: pa.Array) -> Sequence[str]:
    if pa.types.is_integer(array.type):
        array = pc.cast(array, pa.string())
    elif not pa.types.is_string(array.type):
        raise WrongValue(None, f"column holds {name_type(array.type)}; a subject is a text or a whole number")
    folded = fold_subjects(pc.fill_null(array, ""))
    if "" in folded:
        raise WrongValue(folded.index(""), "subject is missing; whose row is it?")
    return folded


def fold_subjects(words: pa.Array) -> list[str]:
    """Return what look-alikes have in common: taking two persons for one is safe, taking one for two is not."""
    if pc.all(pc.string_is_ascii(words)).as_py():
        plain: list[str] = pc.replace_substring_regex(pc.ascii_lower(words), _INVISIBLE, "").to_pylist()
        return plain
    return [_fold(word) for word in words.to_pylist()]


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
