"""Sums over rows in SQL, for DuckDB and PostgreSQL: an oracle that shares no arithmetic with the engines.

One query cuts raw values to the stored lattice, as a table of integers with a mark. The others sum over such a table.
Any raw value is brought within public numbers before arithmetic that could overflow or underflow, because a database
ends a statement with an error where a float would become infinite. Each step is a table of its own, `AS MATERIALIZED`:
PostgreSQL would otherwise write the expressions of a step into the next one, and their text would grow without end.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations_with_replacement

import numpy as np

from curator_service.datasets.batches import MARK
from curator_service.kinds.counts.tables import Axis
from curator_service.privacy.bins import cut_points
from curator_service.privacy.design import Column, ColumnType, Design, Term, TermKind
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, IntArray, center_and_scale, to_stored
from curator_service.privacy.row_maps import Ball, Box, RowMap, UnitXY

_WHITESPACE = "".join(sign for sign in map(chr, range(1, 0x3001)) if sign.isspace())
"""Whitespace around a word."""
_LENGTH_MAX = 2**26
"""Above the norm of any row; a radius beyond it shrinks none."""
_NAN = "CAST('NaN' AS double precision)"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Differences between databases in SQL."""

    name: str
    divide: str
    """The sign between two integers, neither below 0, that leaves the remainder out."""
    trim: str
    """The function of a word and the signs to trim off its ends."""


DUCKDB = Dialect("duckdb", "//", "trim")
POSTGRESQL = Dialect("postgresql", "/", "btrim")


class _Steps:
    """A statement: tables, each made of the one before."""

    def __init__(self, source: str) -> None:
        self._last, self._tables = source, list[str]()

    def add(self, columns: Mapping[str, str], where: str = "") -> None:
        """Add a table with columns by name."""
        name = f"step_{len(self._tables) + 1}"
        self._tables.append(f"{name} AS MATERIALIZED (\n{self.select(columns, where)}\n)")
        self._last = name

    def select(self, columns: Mapping[str, str], where: str = "") -> str:
        """Return a query of the last table."""
        listed = ",\n".join(f"  {expression} AS {name}" for name, expression in columns.items())
        return f"SELECT\n{listed}\nFROM {self._last}" + (f"\nWHERE {where}" if where else "")

    def finish(self, query: str) -> str:
        """Return the statement that ends with a query."""
        return f"WITH {', '.join(self._tables)}\n{query}"


def cut_query(columns: Sequence[Column], source: str, dialect: Dialect) -> str:
    """Return a query that cuts raw values to the stored lattice, bit for bit as columns of a cluster are stored.

    Numeric columns are integers or floats in the source, all others are texts. The result has an integer for each
    column, and a mark.
    """
    names = {f"c{j}": column for j, column in enumerate(columns)}
    numeric = {name: column for name, column in names.items() if column.type is ColumnType.NUMERIC}
    scales = {name: center_and_scale(column.lower, column.upper) for name, column in numeric.items()}
    unchanged = {name: name for name in names}
    steps = _Steps(source)
    steps.add({name: _read(column, dialect) for name, column in names.items()})
    steps.add({name: _hold(name, column) if name in numeric else _code(name, column) for name, column in names.items()})
    steps.add(unchanged | {name: f"{name} - {_float(center)}" for name, (center, _) in scales.items()})
    steps.add(unchanged | {name: _scale(name, scale) for name, (_, scale) in scales.items()})
    steps.add(unchanged | {f"{name}_floor": f"CAST(floor({name}) AS bigint)" for name in numeric})
    steps.add(unchanged | {name: _round_up(f"{name}_floor", f"{name} - {name}_floor", "0.5") for name in numeric})
    cut = unchanged | {name: _clip(name, STORED_UNIT, null=MISSING) for name in numeric}
    stored = {_quote(column.name): f"CAST({cut[name]} AS integer)" for name, column in names.items()}
    return steps.finish(steps.select(stored | {_quote(MARK): "1"}))


def gram_query(design: Design, row_map: RowMap, lattice: str, dialect: Dialect) -> str:
    """Return a query of Σ z zᵀ over mapped rows z of terms and targets, in integers alone."""
    fields = (*design.terms, *design.targets)
    entries = list(combinations_with_replacement([f"z{j}" for j in range(len(fields))], 2))
    steps, places = _Steps(lattice), {column: f"c{j}" for j, column in enumerate(design.columns)}
    # A statement needs a column even where terms need none.
    steps.add({"row_count": "1"} | _read_stored(places), where=f"{_quote(MARK)} = 1")
    kept = " AND ".join(f"{places[name]} <> {MISSING}" for name in sorted(design.omitting)) or "1 = 1"
    sizes = {
        f"z{j}": f"CASE WHEN {c} = {MISSING} THEN 0 ELSE LEAST(abs({c}), {STORED_UNIT}) * {UNIT} END"
        for j, term in enumerate(fields)
        if term.kind is TermKind.NUMERIC and (c := places[term.column or ""])
    }
    steps.add({"row_count": "1"} | {c: c for c in places.values()} | sizes, where=kept)
    steps.add({f"z{j}": _code_term(f"z{j}", term, places, dialect) for j, term in enumerate(fields)})
    _map_rows(steps, design, row_map, dialect)
    sums = {f"s{place}": f"COALESCE(SUM({one} * {other}), 0)" for place, (one, other) in enumerate(entries)}
    return steps.finish(steps.select(sums))


def read_gram(row: Sequence[int | Decimal], width: int) -> IntArray:
    """Return the sums of a row of `gram_query` as a matrix."""
    upper, gram = np.triu_indices(width), np.zeros((width, width), dtype=np.int64)
    gram[upper] = list(map(int, row))
    gram.T[upper] = gram[upper]
    return gram


def counts_query(tables: Sequence[Sequence[Axis]], lattice: str) -> str:
    """Return a query of how many rows are in each cell of some tables, in any dialect."""
    columns = dict.fromkeys(axis.column.name for axes in tables for axis in axes)
    steps, places = _Steps(lattice), {column: f"c{j}" for j, column in enumerate(columns)}
    steps.add(_read_stored(places), where=f"{_quote(MARK)} = 1")
    cells = [(f"a{i}_{j}", axis) for i, axes in enumerate(tables) for j, axis in enumerate(axes)]
    steps.add({name: _find_cell(places[axis.column.name], axis) for name, axis in cells})
    counts: list[str] = []
    for i, axes in enumerate(tables):
        cell, inside = "0", []
        for j, axis in enumerate(axes):
            cell = f"({cell} * {axis.size} + a{i}_{j})"
            inside.append(f"a{i}_{j} >= 0")
        found = steps.select({"place": str(i), "cell": cell, "row_count": "COUNT(*)"}, " AND ".join(inside))
        counts.append(f"{found}\nGROUP BY 2")
    return steps.finish("\nUNION ALL\n".join(counts))


def read_counts(rows: Iterable[Sequence[int]], sizes: Sequence[int]) -> IntArray:
    """Return the counts of rows of `counts_query` as the kernel has them: cell after cell, in units of q²."""
    counts = [np.zeros(size, dtype=np.int64) for size in sizes]
    for place, cell, count in rows:
        counts[place][cell] = count * UNIT**2
    return np.concatenate(counts)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _float(value: float) -> str:
    return f"CAST('{value!r}' AS double precision)"  # the shortest text that is read as this float


def _read(column: Column, dialect: Dialect) -> str:
    if column.type is ColumnType.NUMERIC:
        return f"CAST({_quote(column.name)} AS double precision)"
    return f"{dialect.trim}(CAST({_quote(column.name)} AS text), {_text(_WHITESPACE)})"


def _hold(name: str, column: Column) -> str:
    """Bring a number to where no step can overflow; whatever is beyond is cut to the same bound."""
    low, high = (_float(_find_limit(column, side)) for side in (-1, 1))
    return (
        f"CASE WHEN {name} IS NULL OR {name} = {_NAN} THEN NULL WHEN {name} < {low} THEN {low} "
        f"WHEN {name} > {high} THEN {high} ELSE {name} END"
    )


def _find_limit(column: Column, side: int) -> float:
    """Return a number that is cut to a bound, as all beyond it are, and whose distance from the centre is a float."""
    center, scale = center_and_scale(column.lower, column.upper)
    for limit in (center + side * 4 * scale, column.upper if side > 0 else column.lower):
        (cut,) = to_stored(np.array([limit]), column.lower, column.upper).tolist()
        if math.isfinite(limit - center) and cut == side * STORED_UNIT:
            return limit
    raise AssertionError(f"no float is cut to a bound of {column.name!r}")


def _scale(name: str, scale: float) -> str:
    """Divide a distance from the centre; one that rounds to nothing is not divided, or it might underflow."""
    return (
        f"CASE WHEN abs({name}) < {_float(scale * 2.0**-32)} THEN 0 ELSE {name} / {_float(scale)} * {STORED_UNIT} END"
    )


def _round_up(floor: str, rest: str, half: str) -> str:
    """Round to the nearest integer, and to the even one of two."""
    return f"{floor} + CASE WHEN {rest} > {half} OR ({rest} = {half} AND {floor} % 2 <> 0) THEN 1 ELSE 0 END"


def _clip(name: str, bound: int, *, null: int) -> str:
    return f"CASE WHEN {name} IS NULL THEN {null} ELSE GREATEST(LEAST({name}, {bound}), {-bound}) END"


def _code(name: str, column: Column) -> str:
    codes = {level: code for code, level in enumerate(column.levels)}
    if column.type is ColumnType.BOOLEAN and column.levels == ("false", "true"):
        codes, name_of = codes | {"0": 0, "1": 1}, f"lower({name})"
    else:
        name_of = name
    cases = " ".join(f"WHEN {name_of} = {_text(level)} THEN {code}" for level, code in codes.items())
    return f"CASE WHEN {name} IS NULL OR {name} = '' THEN {MISSING} {cases} ELSE -1 END"


def _read_stored(places: Mapping[str, str]) -> dict[str, str]:
    return {name: f"CAST(COALESCE({_quote(column)}, {MISSING}) AS bigint)" for column, name in places.items()}


def _find_cell(name: str, axis: Axis) -> str:
    if axis.edges is None:
        cell = f"WHEN {name} BETWEEN 0 AND {len(axis.column.levels) - 1} THEN {name}"
    else:
        cuts = cut_points(axis.edges, axis.column.lower, axis.column.upper).tolist()
        cell = " ".join(f"WHEN {name} < {cut} THEN {bin_ - 1}" for bin_, cut in enumerate(cuts))
    missing = f"WHEN {name} = {MISSING} THEN {axis.size - 1} " if axis.missing else ""
    return f"CASE {missing}{cell} ELSE -1 END"


def _code_term(z: str, term: Term, places: Mapping[str, str], dialect: Dialect) -> str:
    if term.column is None:
        return f"CAST({UNIT} AS bigint)"
    place = places[term.column]
    if term.kind is TermKind.NUMERIC:
        whole = f"({z} {dialect.divide} {STORED_UNIT})"
        size = _round_up(whole, f"{z} % {STORED_UNIT}", str(STORED_UNIT // 2))
        return f"({_sign(place)}) * ({size})"
    code = {TermKind.BOOLEAN: 1, TermKind.MISSING: MISSING}.get(term.kind, term.level)
    return f"CASE WHEN {place} = {code} THEN CAST({UNIT} AS bigint) ELSE 0 END"


def _sign(name: str) -> str:
    return f"CASE WHEN {name} < 0 THEN -1 ELSE 1 END"


def _map_rows(steps: _Steps, design: Design, row_map: RowMap, dialect: Dialect) -> None:
    """Add the steps of a row map: see `row_maps`, where each has its proof."""
    if isinstance(row_map, Box):
        return
    terms = [f"z{j}" for j in range(len(design.terms))]
    names = {z: z for z in [*terms, *(f"z{j}" for j in range(len(terms), len(terms) + len(design.targets)))]}
    if isinstance(row_map, Ball):
        measured, divided, bits, radius = terms, list(names), 0, min(row_map.radius, _LENGTH_MAX)
        shrinks = f"squared > {radius**2}"
    else:
        measured = terms[design.has_constant :]
        divided = list(names)[design.has_constant :] if isinstance(row_map, UnitXY) else measured
        bits, radius, shrinks = 16, UNIT << 8, "squared > 0"
    squared = " + ".join(f"{z} * {z}" for z in measured) or "CAST(0 AS bigint)"
    steps.add(names | {"squared": f"({squared}) * {2**bits}"})
    # The square is a float, exactly, so that its root is rounded up to an integer at most; integers decide.
    guess = "CAST(floor(sqrt(CAST(squared AS double precision))) AS bigint)"
    steps.add(names | {"squared": "squared", "guess": guess})
    above = "guess + CASE WHEN guess * guess > squared THEN 0 ELSE 1 END"
    steps.add(names | {"squared": "squared", "above": above})
    mapped = {z: f"({_sign(z)}) * ((abs({z}) * {radius}) {dialect.divide} above)" for z in divided}
    if not isinstance(row_map, Ball):
        targets = list(names)[len(terms) :]
        mapped |= {z: f"GREATEST(LEAST({mapped[z]}, {UNIT}), {-UNIT})" for z in targets if z in mapped}
    steps.add(
        names | {z: f"CASE WHEN {shrinks} THEN {new} ELSE {_otherwise(z, row_map)} END" for z, new in mapped.items()}
    )


def _otherwise(z: str, row_map: RowMap) -> str:
    """Return what an entry is in a row that is not divided."""
    return z if isinstance(row_map, Ball) else "0"
