"""Count disguised copies that a sketch recognises, and false alarms between datasets of other people.

    python -m bench.copies [--cohort FILE.csv …] [--uci DIR] [--pairs 200] [--rows 2000]

A copy is a table of the same people under a disguise; an alarm between two tables of other people is false: disjoint
parts of one cohort (of equal or unequal size, of all or some columns), and tables that were made up with the same law.
Cohorts are files with a header; DIR holds NAME/data.csv.gz. A copy counts as recognised if at most one draw of the
noise in a thousand misses it, and an alarm counts if one in a thousand gives it. Prints two tables.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from curator_service.datasets.likeness import EXCESS
from curator_service.datasets.sketch import Sketch, Sketcher, Values, code_levels, code_numbers, code_stored
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.lattice import to_stored

SECRET = bytes(range(32))
NOISE = 23.0
"""What the noise of a decision exceeds in one draw of a thousand, as the sum of two Laplace laws of 2.5 and 3.34."""
Table = list[np.ndarray]  # columns, of floats with NaN or of text with ""
Rng = np.random.Generator


def code(column: np.ndarray) -> Values:
    """Code a column as registration does."""
    if column.dtype.kind == "f":
        return code_numbers(column)
    levels = sorted(set(column.tolist()) - {""}) or ["", "x"]
    place = {level: i for i, level in enumerate(levels)}
    stored = np.array([place.get(word, -(2**31)) for word in column.tolist()], np.int32)
    return code_levels(levels, stored)


def sketch(table: Table, chunk: int = 50_000) -> Sketch:
    """Sketch a table in chunks."""
    sketcher = Sketcher(SECRET)
    for start in range(0, len(table[0]), chunk):
        sketcher.add([code(column[start : start + chunk]) for column in table])
    return sketcher.finish()


def stored_sketch(table: Table) -> Sketch:
    """Sketch a table as one that was registered before there were sketches: from the lattice of its middle 95 %."""
    columns = []
    for column in table:
        if column.dtype.kind != "f":
            columns.append(code(column))
            continue
        lower, upper = np.nanquantile(column, [0.025, 0.975]) + np.array([-1e-3, 1e-3])
        declared = Column("x", ColumnType.NUMERIC, MissingRule.OMIT, float(lower), float(upper))
        columns.append(code_stored(declared, to_stored(column, float(lower), float(upper))))
    sketcher = Sketcher(SECRET)
    sketcher.add(columns)
    return sketcher.finish()


def read_cohort(path: Path) -> Table:
    """Read a file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [_column([row[j] for row in rows]) for j in range(len(rows[0]))]


def _column(words: list[str]) -> np.ndarray:
    try:
        return np.array([float(word) if word else np.nan for word in words])
    except ValueError:
        return np.array(words)


def make_up(rng: Rng, rows: int) -> Table:
    """Make people up: as coarse and as correlated as a clinic's tables are."""
    severity = rng.normal(size=rows)
    return [
        rng.integers(18, 95, rows).astype(float),
        rng.choice(["F", "M"], rows),
        np.round(70 + 12 * rng.normal(size=rows)),
        np.round(np.exp(0.3 * severity), 1),
        np.round(np.exp(0.5 * severity + 0.2 * rng.normal(size=rows)), 2),
        np.round(120 + 15 * severity + 10 * rng.normal(size=rows), 0),
        rng.choice(["a", "b", "c", "d"], rows, p=[0.5, 0.3, 0.15, 0.05]),
        rng.poisson(2.0, rows).astype(float),
    ]


def take(table: Table, rows: np.ndarray) -> Table:
    """Take rows."""
    return [column[rows] for column in table]


def _numeric(table: Table) -> list[int]:
    return [j for j, column in enumerate(table) if column.dtype.kind == "f"]


def _changed(table: Table, change: Callable[[int, np.ndarray], np.ndarray]) -> Table:
    return [change(j, column) if column.dtype.kind == "f" else column for j, column in enumerate(table)]


def _one_value(table: Table, shift: float) -> Table:
    place = _numeric(table)[0]
    changed = [column.copy() for column in table]
    row = int(np.flatnonzero(~np.isnan(changed[place]))[0])
    changed[place][row] += shift
    return changed


def _ranks(column: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(column), np.nan, np.argsort(np.argsort(column)).astype(float))


Disguise = Callable[[Table, Rng], Table]
DISGUISES: dict[str, Disguise] = {
    "another order of rows": lambda t, r: take(t, r.permutation(len(t[0]))),
    "two rows swapped": lambda t, _: take(t, np.r_[1, 0, 2 : len(t[0])]),
    "another order of columns": lambda t, _: t[::-1],
    "a column less": lambda t, _: t[:-1],
    "half of the columns": lambda t, r: [t[j] for j in sorted(r.permutation(len(t))[: (len(t) + 1) // 2])],
    "two columns": lambda t, _: [t[j] for j in sorted(range(len(t)), key=lambda j: -len(np.unique(t[j])))[:2]],
    "a column more": lambda t, r: [*t, r.normal(size=len(t[0]))],
    "20 columns of noise more": lambda t, r: [*t, *r.normal(size=(20, len(t[0])))],
    "a row less": lambda t, _: take(t, np.arange(1, len(t[0]))),
    "a row more": lambda t, _: take(t, np.r_[0, 0 : len(t[0])]),
    "each row twice": lambda t, _: take(t, np.repeat(np.arange(len(t[0])), 2)),
    "each row twice, and one once": lambda t, _: take(t, np.r_[0, np.repeat(np.arange(1, len(t[0])), 2)]),
    "each row once to three times": lambda t, r: take(t, np.repeat(np.arange(len(t[0])), r.integers(1, 4, len(t[0])))),
    "half of the rows": lambda t, r: take(t, r.permutation(len(t[0]))[: len(t[0]) // 2]),
    "a fifth of the rows": lambda t, r: take(t, r.permutation(len(t[0]))[: len(t[0]) // 5]),
    "one value changed by 1e-9": lambda t, _: _one_value(t, 1e-9),
    "one value changed by 1": lambda t, _: _one_value(t, 1.0),
    "every value changed by 1e-9": lambda t, _: _changed(t, lambda _, x: x + 1e-9),
    "every value changed by a part in 10⁶": lambda t, r: _changed(
        t, lambda _, x: x * (1 + 1e-6 * r.normal(size=len(x)))
    ),
    "a tenth of all values missing": lambda t, r: _changed(t, lambda _, x: np.where(r.random(len(x)) < 0.1, np.nan, x)),
    "one column in other units": lambda t, _: _changed(t, lambda j, x: x * 2.2046 if j == _numeric(t)[0] else x),
    "clipped to the middle 95 %": lambda t, _: _changed(t, lambda _, x: np.clip(x, *np.nanquantile(x, [0.025, 0.975]))),
    "every value rounded to 3 digits": lambda t, _: _changed(t, lambda _, x: np.array([float(f"{v:.3g}") for v in x])),
    "every column in other units": lambda t, _: _changed(t, lambda _, x: x * 2.2046),
    "every value changed by a part in 100": lambda t, r: _changed(
        t, lambda _, x: x * (1 + 0.01 * r.normal(size=len(x)))
    ),
    "ranks in place of values": lambda t, _: _changed(t, lambda _, x: _ranks(x)),
}


def other_people(cohorts: dict[str, Table], rng: Rng, pairs: int, rows: int) -> Iterator[tuple[str, Table, Table]]:
    """Yield pairs of tables that share nobody: half of the pairs disjoint parts of cohorts, half made up."""
    names = list(cohorts)
    for k in range(pairs):
        if names and k % 2:
            name = names[k // 2 % len(names)]
            whole = cohorts[name]
            size = len(whole[0])
            order = rng.permutation(size)
            cut = size // 2 if k % 3 else size // 5
            columns = sorted(rng.permutation(len(whole))[: len(whole) if k % 4 < 2 else max(2, len(whole) // 2)])
            some = [whole[j] for j in columns]
            yield f"disjoint parts of {name}", take(some, order[:cut]), take(some, order[cut:])
        else:
            yield "made up", make_up(rng, int(rng.integers(50, rows))), make_up(rng, int(rng.integers(50, rows)))


def main() -> None:
    """Print the caught and the missed copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohort", type=Path, nargs="*", default=[Path("examples/flchain/flchain.csv")])
    parser.add_argument("--uci", type=Path)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(20261122)
    cohorts = {path.stem: read_cohort(path) for path in arguments.cohort}
    if arguments.uci:
        for path in sorted(arguments.uci.glob("*/data.csv.gz")):
            cohorts[path.parent.name] = list(np.loadtxt(path, delimiter=",").T)

    originals = {**cohorts, "made up": make_up(rng, arguments.rows), "50 made up": make_up(rng, 50)}
    new = {name: sketch(table) for name, table in originals.items()}
    old = {name: stored_sketch(table) for name, table in originals.items()}
    print(f"| disguise | recognised, of {len(originals)} | of those registered before there were sketches | not |")
    print("| --- | ---: | ---: | --- |")
    for disguise, apply in DISGUISES.items():
        copies = {name: sketch(apply(table, rng)) for name, table in originals.items()}
        caught = {name for name, copy in copies.items() if copy.find_excess(new[name]) >= EXCESS + NOISE}
        caught_old = {name for name, copy in copies.items() if copy.find_excess(old[name]) >= EXCESS + NOISE}
        missed = ", ".join(name for name in originals if name not in caught)
        print(f"| {disguise} | {len(caught)} | {len(caught_old)} | {missed} |")

    alarms: dict[str, list[int]] = {}
    for name, one, other in other_people(cohorts, rng, arguments.pairs, arguments.rows):
        count = alarms.setdefault(name, [0, 0])
        count[0] += 1
        count[1] += sketch(one).find_excess(sketch(other)) >= EXCESS - NOISE
    print("\n| other people | pairs | false alarms |\n| --- | ---: | ---: |")
    for name, (count, false) in sorted(alarms.items()):
        print(f"| {name} | {count} | {false} |")
    print(f"| all | {sum(c for c, _ in alarms.values())} | {sum(f for _, f in alarms.values())} |")

    table = [rng.normal(size=1_000_000) for _ in range(13)]
    start = time.process_time()
    sketch(table)
    print(f"\n10⁶ rows of 13 columns: {time.process_time() - start:.1f} s of CPU")


if __name__ == "__main__":
    main()
