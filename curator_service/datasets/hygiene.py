"""Disclosure hygiene: how many stored rows look alike, for the operator alone.

Exact and unprotected functions of rows: they say nothing of releases, which the budget protects, and must not be passed
on. k-anonymity [1]_ is the size of a class of rows that agree on every quasi-identifier; distinct l-diversity [2]_ the
number of values of a sensitive column within it.

References
----------
.. [1] L. Sweeney, "k-anonymity: a model for protecting privacy", IJUFKS 10 (2002).
.. [2] A. Machanavajjhala, J. Gehrke, D. Kifer, M. Venkitasubramaniam, "l-diversity", ICDE 2006.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from curator_service.datasets.batches import MARK, Batch
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.bins import cut_points, equal_edges, find_bins
from curator_service.privacy.design import Column, MissingRule
from curator_service.privacy.lattice import MISSING, IntArray

PEOPLE = (2, 3, 5, 10)
"""Classes that may hold fewer people than these are counted."""
VALUES = (2, 3, 5)
"""Classes that hold fewer sensitive values than these are counted."""
BINS_MAX = 1000


class HygieneError(ValueError):
    """The options do not fit the declarations; the message says why, for the operator."""


@dataclass(frozen=True, slots=True)
class QuasiIdentifier:
    """A column that an outsider may know of a person, cut into so many equal bins of its bounds, or as it is."""

    name: str
    bins: int | None = None


@dataclass(frozen=True, slots=True)
class Below:
    """Classes below a threshold, and the rows in them."""

    threshold: int
    classes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Diversity:
    """The number of distinct values of a sensitive column within classes."""

    column: str
    fewest: int
    below: tuple[Below, ...]


@dataclass(frozen=True, slots=True)
class Hygiene:
    """The risk that somebody who knows the quasi-identifiers finds a person's row.

    Attributes
    ----------
    rows, left_out : int
        Rows that count, which are what is described, and those beyond a person's share, which are not.
    rows_per_person : int
        A class of n rows holds at least n over this many people.
    classes, smallest_rows, smallest_people : int
        How many classes there are; rows of the smallest, and people that it holds at least.
    below : tuple of Below
        Classes that may hold fewer people than a threshold.
    diversity : tuple of Diversity
    """

    rows: int
    left_out: int
    rows_per_person: int
    classes: int
    smallest_rows: int
    smallest_people: int
    below: tuple[Below, ...]
    diversity: tuple[Diversity, ...]

    def render(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def check_columns(manifest: Manifest, quasi: Sequence[QuasiIdentifier], sensitive: Sequence[str]) -> None:
    """Refuse what does not fit the declarations, before any row is read.

    Raises
    ------
    HygieneError
    """
    names = [*(identifier.name for identifier in quasi), *sensitive]
    for name in names:
        if name not in manifest.by_name:
            raise HygieneError(f"there is no column {name!r}; declared: {', '.join(manifest.by_name)}")
        if names.count(name) > 1:
            raise HygieneError(f"the column {name!r} is named twice")
    for identifier in quasi:
        if identifier.bins is None:
            continue
        if not manifest.by_name[identifier.name].is_number:
            raise HygieneError(f"the column {identifier.name!r} is not numeric, so it has no bins")
        if not 1 <= identifier.bins <= BINS_MAX:
            raise HygieneError(f"a column is cut into 1 to {BINS_MAX} bins")


def measure(
    manifest: Manifest, batches: Iterable[Batch], quasi: Sequence[QuasiIdentifier], sensitive: Sequence[str]
) -> Hygiene:
    """Measure the classes of rows that agree on every quasi-identifier; a missing value is a value of its own.

    Memory grows with the rows: a few times eight bytes for each.

    Parameters
    ----------
    batches : iterable of Batch
        Stored integers of the columns, and marks where a subject is declared.
    quasi : sequence of QuasiIdentifier
        At least one.
    sensitive : sequence of str
        Columns whose values within a class are counted.

    Raises
    ------
    HygieneError
    """
    check_columns(manifest, quasi, sensitive)
    parts = [_counted(stored, count) for stored, count in batches]
    left_out = sum(count for _, count in parts)
    held = {name: np.concatenate([part[name] for part, _ in parts]) for name in _names(quasi, sensitive)}
    rows = len(held[quasi[0].name])
    classes: IntArray = np.zeros(rows, dtype=np.int64)
    for identifier in quasi:
        cut = _cut(manifest.by_name[identifier.name], held[identifier.name], identifier.bins)
        classes = np.unique(_pair(classes, cut), return_inverse=True)[1]
    sizes = np.bincount(classes)
    each = manifest.rows_per_person
    people = -(-sizes // each)
    return Hygiene(
        rows=rows,
        left_out=left_out,
        rows_per_person=each,
        classes=len(sizes),
        smallest_rows=int(sizes.min(initial=rows)),
        smallest_people=int(people.min(initial=rows)),
        below=_below(people, sizes, PEOPLE),
        diversity=tuple(
            _diversity(manifest.by_name[name], classes, sizes, held[name].astype(np.int64)) for name in sensitive
        ),
    )


def _names(quasi: Sequence[QuasiIdentifier], sensitive: Sequence[str]) -> list[str]:
    return [*(identifier.name for identifier in quasi), *sensitive]


def _counted(stored: Mapping[str, Any], count: int) -> tuple[dict[str, Any], int]:
    """Return the rows that count, and how many do not."""
    if MARK not in stored:
        return dict(stored), 0
    marks = stored[MARK] == 1
    return {name: values[marks] for name, values in stored.items()}, count - int(marks.sum())


def _cut(column: Column, stored: Any, bins: int | None) -> IntArray:
    if bins is None:
        codes: IntArray = stored.astype(np.int64)
        return codes
    return find_bins(stored, cut_points(equal_edges(bins, column.lower, column.upper), column.lower, column.upper))


def _pair(classes: IntArray, codes: IntArray) -> IntArray:
    """Return one integer for each pair: there are fewer than 2³¹ classes, and 2³² stored integers."""
    return (classes << 32) + (codes - MISSING)


def _diversity(column: Column, classes: IntArray, sizes: IntArray, codes: IntArray) -> Diversity:
    values = np.bincount(np.unique(_pair(classes, codes)) >> 32, minlength=len(sizes))
    return Diversity(column.name, int(values.min(initial=len(codes))), _below(values, sizes, _possible(column)))


def _possible(column: Column) -> list[int]:
    """Return the thresholds that a class can reach at all."""
    missing = column.missing is not MissingRule.COMPLETE
    return [least for least in VALUES if not column.levels or least <= len(column.levels) + missing]


def _below(held: IntArray, sizes: IntArray, thresholds: Sequence[int]) -> tuple[Below, ...]:
    return tuple(Below(k, int((held < k).sum()), int(sizes[held < k].sum())) for k in thresholds)
