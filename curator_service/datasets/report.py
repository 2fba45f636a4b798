"""Facts on rows for an operator, and for no analyst: counts, faults with their places, and warnings; never a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from curator_service.datasets.columns.base import CodedColumn, ColumnDeclaration
from curator_service.datasets.keys import KeyOf, looks_like_key
from curator_service.datasets.manifest import Manifest
from curator_service.datasets.sources.base import Faults, Source
from curator_service.datasets.sources.coding import CodedBatch
from curator_service.privacy.lattice import MISSING

FORMAT = 1
PLACES_KEPT = 20
"""Of the rows that break one rule of a column."""
CODES = (*range(-9, 0), 97, 98, 99, 777, 888, 996, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99999, 999999)
CODES += tuple(-code for code in (66, 77, 88, 97, 98, 99, 777, 888, 999, 7777, 8888, 9999, 99999))
"""Numbers that stand for a missing value in many files: a public list, so that naming one of it shows no value."""
_CODES = np.array(sorted(CODES), np.float64)
_CODE_ROWS_MIN = 3
_CODE_SHARE = 0.5
"""Of the values beyond one bound that are the same number of `CODES`."""
_EDGE_SHARE = 0.05
_CLIPPED_SHARE = 0.5
_CONSTANT = "every row that has a value has the same one: it explains nothing"
_FULL_SHARE = 0.9
_BEYOND_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that rows break: of a column or of whole rows, how often, and where first.

    Attributes
    ----------
    column : str or None
    rule : str
    count : int
        Rows; 0 where the column, or the source, breaks it as a whole.
    places : tuple of int
        Of the first `PLACES_KEPT` rows.
    told : str
        The rule without counts and places, as a page may show it; empty where only the terminal says more.
    """

    column: str | None
    rule: str
    count: int
    places: tuple[int, ...]
    told: str = field(default="", compare=False)

    def word(self, place: str) -> str:
        """Return it as a sentence; `place` is what the number of a row counts."""
        said = self.rule if self.column is None else f"{self.column}: {self.rule}"
        if not self.count:
            return said
        shown = ", ".join(map(str, self.places))
        more = self.count - len(self.places)
        return f"{said} ({place}{'s' if self.count > 1 else ''} {shown}{f' and {more:,} more' if more else ''})"


class GatheredFaults(Faults):
    """Takes faults, and lets the reading go on."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._found: dict[tuple[str | None, str], tuple[int, list[int]]] = {}
        self._told: dict[str, str] = {}

    def add(self, rule: str, places: Sequence[int] | None, column: str | None = None) -> None:
        """Take a fault; see `Faults`."""
        count, kept = self._found.get((column, rule), (0, []))
        fresh = places or ()
        self._found[column, rule] = count + len(fresh), [*kept, *fresh[: PLACES_KEPT - len(kept)]]

    def add_of_all(self, rule: str, told: str = "") -> None:
        """Take a fault of the rows together, whose rule counts them; `told` is the rule without counts."""
        self.add(rule, None)
        self._told[rule] = told

    def list_all(self) -> tuple[Fault, ...]:
        """Return the faults, those of one rule together."""
        return tuple(
            Fault(column, rule, count, tuple(kept), self._told.get(rule, rule))
            for (column, rule), (count, kept) in self._found.items()
        )


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """Counts of one column.

    Attributes
    ----------
    name, type : str
    missing : int
        Rows without a value.
    below, above : int or None
        Rows with a value below or above the bounds, which counts as the bound; None where there are no bounds.
    """

    name: str
    type: str
    missing: int
    below: int | None
    above: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a reading of all rows against a manifest.

    Attributes
    ----------
    rows, row_capacity, persons, beyond_share : int
        Rows; their public bound; persons, and rows that are beyond a person's share and never count.
    place : str
        What the number of a row counts: lines, or rows.
    columns : tuple of ColumnReport
    faults : tuple of Fault
    warnings : tuple of str
    """

    rows: int
    row_capacity: int
    persons: int
    beyond_share: int
    place: str
    columns: tuple[ColumnReport, ...]
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Read what `render` gave.

        Raises
        ------
        ValueError, KeyError, TypeError
        """
        if content["format"] != FORMAT:
            raise ValueError("no report of this format")
        numbers = {name: int(content[name]) for name in ("rows", "row_capacity", "persons", "beyond_share")}
        columns = tuple(ColumnReport(**column) for column in content["columns"])
        faults = tuple(
            Fault(fault["column"], fault["rule"], int(fault["count"]), tuple(fault["places"]), str(fault["told"]))
            for fault in content["faults"]
        )
        warnings = tuple(map(str, content["warnings"]))
        return cls(**numbers, place=str(content["place"]), columns=columns, faults=faults, warnings=warnings)

    def render(self) -> dict[str, Any]:
        """Return it as JSON."""
        names = ("rows", "row_capacity", "persons", "beyond_share", "place")
        columns = [{name: getattr(one, name) for name in ColumnReport.__slots__} for one in self.columns]
        faults = [
            {"column": one.column, "rule": one.rule, "count": one.count, "places": list(one.places), "told": one.told}
            for one in self.faults
        ]
        shown = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        return shown | {"columns": columns, "faults": faults, "warnings": list(self.warnings)}


class Reporter:
    """Counts raw values, column by column, while rows are read."""

    def __init__(self, manifest: Manifest, source: Source) -> None:
        self._manifest, self._place = manifest, source.place
        self._columns = [_ColumnCounts(declaration) for declaration in manifest.columns]

    def add(self, coded: CodedBatch) -> None:
        """Take in the next rows."""
        for counts, column in zip(self._columns, coded.columns, strict=True):
            counts.add(column)

    def finish(self, rows: int, persons: int, counted: int, faults: Sequence[Fault] = ()) -> Report:
        """Return the report.

        Parameters
        ----------
        rows, persons, counted : int
            Rows, persons, and rows that count.
        """
        capacity, beyond = self._manifest.row_capacity, rows - counted
        warnings = [f"{one.name}: {text}" for one in self._columns for text in one.warn()]
        if capacity >= rows > _FULL_SHARE * capacity:
            warnings.append(f"{rows / capacity:.0%} of row_capacity is used: more rows than that are refused")
        if beyond > _BEYOND_SHARE * rows:
            warnings.append(
                f"{beyond / rows:.0%} of the rows are beyond a person's share of {self._manifest.rows_per_person} and "
                f"never count: does {', '.join(self._manifest.subject_columns)} tell persons apart?"
            )
        warnings += [
            f"the subject's column {name!r} seems to number records, of which one person may have several"
            for name in self._manifest.subject_columns
            if looks_like_key(name) is KeyOf.RECORD
        ]
        columns = tuple(one.report() for one in self._columns)
        return Report(rows, capacity, persons, beyond, self._place, columns, tuple(faults), tuple(warnings))


class _ColumnCounts:
    """Counts of one column, batch after batch."""

    def __init__(self, declaration: ColumnDeclaration) -> None:
        self.name = declaration.name
        self._column = declaration.column
        self._type, self._is_plain = declaration.type, declaration.is_plain_number
        self._missing = self._present = self._below = self._above = 0
        self._lowest, self._highest = np.inf, -np.inf
        self._codes = np.zeros(len(_CODES), np.int64)
        self._levels = np.zeros(len(self._column.levels), np.int64)

    def add(self, coded: CodedColumn) -> None:
        """Take in the next rows."""
        self._missing += int(np.count_nonzero(coded.missing))
        if coded.numbers is None:
            seen = coded.stored[coded.stored != MISSING]
            self._levels += np.bincount(seen, minlength=len(self._levels))
            self._present += len(seen)
            return
        lower, upper = self._column.lower, self._column.upper
        present = coded.values.present
        numbers = coded.numbers if present.all() else coded.numbers[present]
        if not len(numbers):
            return
        self._present += len(numbers)
        self._lowest, self._highest = min(self._lowest, numbers.min()), max(self._highest, numbers.max())
        outer = numbers[(numbers <= lower) | (numbers >= upper)]
        self._below += int(np.count_nonzero(outer < lower))
        self._above += int(np.count_nonzero(outer > upper))
        places = np.minimum(np.searchsorted(_CODES, outer), len(_CODES) - 1)
        self._codes += np.bincount(places[_CODES[places] == outer], minlength=len(_CODES))

    def report(self) -> ColumnReport:
        """Return the counts."""
        outside = (self._below, self._above) if self._column.is_number else (None, None)
        return ColumnReport(self.name, self._type, self._missing, *outside)

    def warn(self) -> list[str]:
        """Return what looks wrong."""
        if not self._present:
            return ["no row has a value"] if self._missing else []
        if len(self._levels):
            unseen = [level for level, count in zip(self._column.levels, self._levels, strict=True) if not count]
            if len(unseen) == len(self._levels) - 1:
                return [_CONSTANT]
            return [f"no row has the level{'s' if len(unseen) > 1 else ''} {', '.join(unseen)}"] if unseen else []
        coded = self._warn_codes()
        clipped = self._below + self._above
        if not coded and clipped >= _CLIPPED_SHARE * self._present:
            coded.append(f"{clipped / self._present:.0%} of the values are beyond the bounds: is this the right unit?")
        return [*coded, _CONSTANT] if self._lowest == self._highest else coded

    def _warn_codes(self) -> list[str]:
        said: list[str] = []
        if not self._is_plain:
            return said
        for code, count in zip(_CODES, self._codes.tolist(), strict=True):
            lower, upper = self._column.lower, self._column.upper
            at_edge = code in {lower, upper}
            beyond = self._below if code < lower else self._above
            least = _EDGE_SHARE * self._present if at_edge else _CODE_SHARE * beyond
            if count >= max(_CODE_ROWS_MIN, least):
                where = "at a bound" if at_edge else "beyond the bounds"
                said.append(
                    f"{count:,} values are {code:g}, {where}: if that means missing, write missing_values = [{code:g}]"
                )
        return said
