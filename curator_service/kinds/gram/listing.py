"""What a release is without its values: what was asked, of which rows, with how much noise."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from curator_service.datasets.repository import Dataset
from curator_service.privacy.design import Column, ColumnType, Design, make_design, omits_rows
from curator_service.privacy.parts import Statistic
from curator_service.privacy.row_maps import make_row_map

NOISE_NAMES = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
"""The standard deviations that an answer states, in their fixed order."""
SUMMARY = ("id", "dataset", "kind", "created_at", "request", "cost")
"""The members of an answer that a list of releases shows."""


@dataclass(frozen=True)
class Listing:
    """What a release is, or what a request asks it to be, without its values.

    Attributes
    ----------
    request : mapping
        Canonical, with every default filled in.
    declared : mapping of str to Column
        Every column of the dataset.
    distribution : str
    sd : mapping of str to float
        Standard deviations in scaled units, by `NOISE_NAMES`; of what is released, and nothing else.
    derived_from : str or None
        The release that it is a block of.
    """

    request: Mapping[str, Any]
    declared: Mapping[str, Column] = field(repr=False)
    distribution: str
    sd: Mapping[str, float]
    derived_from: str | None = None
    _shelves: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def features(self) -> frozenset[str]:
        """The columns whose terms are those of XᵀX."""
        return frozenset(self.request["features"])

    @cached_property
    def targets(self) -> frozenset[str]:
        """The columns of Xᵀy."""
        return frozenset(self.request["targets"])

    @cached_property
    def statistics(self) -> frozenset[Statistic]:
        """What is released."""
        return frozenset(Statistic(name) for name in self.request["statistics"])

    @cached_property
    def omitting(self) -> frozenset[str]:
        """Columns whose missing value takes the whole row out."""
        return frozenset(
            name
            for names, as_target in ((self.features, False), (self.targets, True))
            for name in names
            if omits_rows(self.declared[name], as_target=as_target)
        )

    @property
    def intercept(self) -> bool:
        """Whether there is a constant, beside which each category leaves out its first level."""
        return bool(self.request["intercept"])

    def has_terms_of(self, other: "Listing") -> bool:
        """Tell whether every term of another one is among these."""
        return other.features <= self.features and self._is_coded_for(other)

    def covers(self, other: "Listing") -> bool:
        """Tell whether it holds every column of another one, in whatever role, and its constant and levels."""
        return other.features | other.targets <= self.features | self.targets and self._is_coded_for(other)

    def _is_coded_for(self, other: "Listing") -> bool:
        if self.intercept == other.intercept:
            return True
        return self.intercept and not any(self.declared[name].type is ColumnType.CATEGORICAL for name in other.features)

    def has_the_terms_of(self, other: "Listing") -> bool:
        """Tell whether the terms are the same."""
        return self.features == other.features and self.intercept == other.intercept

    @property
    def design(self) -> Design:
        """The terms, in order."""
        targets = tuple(self.declared[name] for name in self.request["targets"])
        return make_design(self.declared_features, targets, intercept=self.intercept)

    @property
    def declared_features(self) -> tuple[Column, ...]:
        """The declarations of its features, in order."""
        return tuple(self.declared[name] for name in self.request["features"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, features first."""
        return (*self.request["features"], *self.request["targets"])

    @property
    def noise(self) -> dict[str, Any]:
        """What an answer states of its noise, as `listing_of` reads it."""
        return {"distribution": self.distribution, "sd": dict(self.sd)}

    @property
    def loudness(self) -> float:
        """The sum of its standard deviations."""
        return loudness_of(self.sd)

    def shelf(self, collection: str) -> str:
        """Return what is equal for two releases exactly when their rows and weights are; see `shelf_of`."""
        if collection not in self._shelves:
            self._shelves[collection] = shelf_of(collection, self.request, self.distribution, self.omitting)
        return self._shelves[collection]

    def members(self, collection: str) -> str:
        """Return what is equal for two releases exactly when they hold the same entries; see `members_of`."""
        return members_of(self.shelf(collection), self.request)


def shelf_of(collection: str, request: Mapping[str, Any], distribution: str, omitting: Collection[str]) -> str:
    """Hash what decides how much each row counts for, and what its coded values become.

    An entry of any statistic is a sum over rows of the product of two mapped values. A mapped value depends on its own
    coded value, on whether the row counts, and on the row's weight. Whether it counts is decided by the columns that
    omit rows, as a set. The weight is 1 under the box, and follows from the squared norm of the terms otherwise: an
    exact sum of integers, so the same in any order of them. Targets have no part in it, under any map. So two requests
    of one shelf have equal integers wherever they have the same two columns, whatever else either holds.

    Parameters
    ----------
    collection : str
        The dataset, and whose answers may be served.
    request : mapping
    distribution : str
        Noise is compared with noise of its own kind alone.
    omitting : collection of str
    """
    rows = request["rows"]
    shaping = [sorted(request["features"]), request["intercept"]] if make_row_map(rows).weighs_terms else []
    return _hash([collection, rows, shaping, sorted(omitting), distribution])


def members_of(shelf: str, request: Mapping[str, Any]) -> str:
    """Hash which entries of which rows a release holds, in whatever order."""
    columns = [sorted(request["features"]), sorted(request["targets"]), request["intercept"]]
    return _hash([shelf, *columns, sorted(request["statistics"])])


def loudness_of(sd: Mapping[str, float]) -> float:
    """Add standard deviations in their fixed order: the sum is less only where one of them is less."""
    return sum(sd.get(name, 0.0) for name in NOISE_NAMES)


def noise_row(sd: Mapping[str, float]) -> tuple[float, ...]:
    """Return the standard deviations by `NOISE_NAMES`, 0 where one is not stated, and their sum."""
    return (*(sd.get(name, 0.0) for name in NOISE_NAMES), loudness_of(sd))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def listing_of_answer(dataset: Dataset, answer: str) -> Listing:
    """Read what an answer states of itself.

    Raises
    ------
    ValueError, KeyError, TypeError
        If it is no answer about this dataset.
    """
    return listing_of(dataset, about_answer(answer))


def listing_of(dataset: Dataset, about: Mapping[str, Any]) -> Listing:
    """Read what an answer states of itself, without its statistics; errors as of `listing_of_answer`."""
    request, noise = about["request"], about["noise"]
    declared = dataset.manifest.by_name
    return Listing(request, declared, noise["distribution"], noise["sd"], about.get("derived_from"))


def about_answer(answer: str) -> dict[str, Any]:
    """Read an answer without its statistics, which may be half a million numbers.

    A quotation mark within a string of JSON has a backslash before it, so neither text stands within one.
    """
    head, _, rest = answer.partition(',"statistics":{')
    _, mark, tail = rest.rpartition('},"noise":{')
    about: dict[str, Any] = json.loads(f'{head},"noise":{{{tail}' if mark else answer)
    return about


def statistic_of(name: str) -> str:
    """Return the statistic that a standard deviation is of."""
    return "xtx" if name.startswith("xtx_") else name
