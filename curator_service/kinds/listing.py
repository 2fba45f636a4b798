"""Listing of a release, without its values: its request, its rows, and its noise."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curator_service.privacy.design import Column
from curator_service.privacy.mechanism import Output


@dataclass(frozen=True)
class Listing(ABC):
    """Listing of a release, or of a request for one, without its values. Each kind has a class of its own.

    Attributes
    ----------
    request : mapping
        Canonical, with every default filled in.
    declared : mapping of str to Column
        Every column of the dataset.
    distribution : str
    sd : mapping of str to float
        Standard deviations in scaled units, as answers state them and in their order.
    derived_from : str or None
        The release that it is cut out of.
    """

    request: Mapping[str, Any]
    declared: Mapping[str, Column] = field(repr=False)
    distribution: str
    sd: Mapping[str, float]
    derived_from: str | None = None
    _shelves: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Every column that it is about, once."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Output, ...]:
        """Outputs, in the order of the request's statistics."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what answers and quotes state of its columns, by the members that the kind declares."""

    @property
    @abstractmethod
    def row_rule(self) -> list[Any]:
        """Rule for the weight of each row, and for its values: equal where that is equal."""

    @property
    @abstractmethod
    def entries(self) -> list[Any]:
        """Entries that it holds, in any order of the request: equal where they are the same."""

    @property
    def kind(self) -> str:
        """The kind of release."""
        return str(self.request["kind"])

    @property
    def noise(self) -> dict[str, Any]:
        """Noise, as an answer states it."""
        return {"distribution": self.distribution, "sd": dict(self.sd)}

    @property
    def loudness(self) -> float:
        """The sum of its standard deviations: less only where one of them is less."""
        return sum(self.sd.values())

    def shelf(self, collection: str) -> str:
        """Hash what is equal for two releases exactly when equal entries are equal sums.

        Parameters
        ----------
        collection : str
            The dataset, and whose answers may be served. Noise is compared with noise of its own distribution alone.
        """
        if collection not in self._shelves:
            self._shelves[collection] = _hash([collection, *self.row_rule, self.distribution])
        return self._shelves[collection]

    def members(self, collection: str) -> str:
        """Hash what is equal for two releases exactly when they hold the same entries of the same rows."""
        return _hash([self.shelf(collection), *self.entries])

    def is_quiet_enough(self, sd: Mapping[str, float]) -> bool:
        """Tell whether noise of these standard deviations is nowhere more than was asked."""
        return all(sd[name] <= most for name, most in self.sd.items())


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
