"""What a release is without its values: what was asked, of which rows, with how much noise."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import rfc8785

from curator_service.datasets.repository import Dataset
from curator_service.privacy.design import Design, make_design
from curator_service.privacy.parts import Statistic
from curator_service.releases.preparation import Prepared

NOISE_NAMES = ("xtx_diagonal", "xtx_offdiagonal", "xty", "yty", "lambda_min")
"""The standard deviations that an answer states, in their fixed order."""
SUMMARY = ("id", "dataset", "kind", "created_at", "request", "cost")
"""The members of an answer that a list of releases shows."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a release is, or what a request asks it to be, without its values.

    Attributes
    ----------
    request : mapping
        Canonical, with every default filled in.
    design : Design
    distribution : str
    sd : mapping of str to float
        Standard deviations in scaled units, by `NOISE_NAMES`; of what is released, and nothing else.
    derived_from : str or None
        The release that it is a block of.
    """

    request: Mapping[str, Any]
    design: Design
    distribution: str
    sd: Mapping[str, float]
    derived_from: str | None = None

    @property
    def statistics(self) -> frozenset[Statistic]:
        """What is released."""
        return frozenset(Statistic(name) for name in self.request["statistics"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, features first."""
        return (*self.request["features"], *self.request["targets"])

    @property
    def loudness(self) -> float:
        """The sum of its standard deviations."""
        return loudness_of(self.sd)

    def shelf(self, collection: str) -> str:
        """Return what is equal for two releases exactly when their rows and weights are; see `shelf_of`."""
        return shelf_of(collection, self.request, self.distribution, self.design.omitting)

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
    shaping = [] if rows["map"] == "box" else [sorted(request["features"]), request["intercept"]]
    return _hash([collection, rows, shaping, sorted(omitting), distribution])


def members_of(shelf: str, request: Mapping[str, Any]) -> str:
    """Hash which entries of which rows a release holds, in whatever order."""
    columns = [sorted(request["features"]), sorted(request["targets"]), request["intercept"]]
    return _hash([shelf, *columns, sorted(request["statistics"])])


def loudness_of(sd: Mapping[str, float]) -> float:
    """Add standard deviations in their fixed order: the sum is less only where one of them is less."""
    return sum(sd.get(name, 0.0) for name in NOISE_NAMES)


def _hash(value: object) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()  # type: ignore[arg-type]


def listing_of_request(prepared: Prepared) -> Listing:
    """Return what a request asks for."""
    part = prepared.plan.parts[0]
    return Listing(prepared.canonical, prepared.plan.design, part.distribution.value, prepared.noise_sd)


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
    return Listing(request, design_of(dataset, request), noise["distribution"], noise["sd"], about.get("derived_from"))


def design_of(dataset: Dataset, request: Mapping[str, Any]) -> Design:
    """Return the design of a canonical request."""
    columns = dataset.manifest.by_name
    features, targets = (tuple(columns[name] for name in request[role]) for role in ("features", "targets"))
    return make_design(features, targets, intercept=request["intercept"])


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


def collection_of(dataset: Dataset, principal_id: str) -> str:
    """Return the name of the answers that a principal may be served: a dataset's, or, where it says so, his own."""
    return dataset.id if dataset.manifest.library == "shared" else f"{dataset.id}/{principal_id}"
