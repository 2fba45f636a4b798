"""The kind ``marginals``: counts by equal bins, and moments, of single columns."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import KindWords
from curator_service.kinds.counting import PER_CELL_S
from curator_service.kinds.features import SELECTING, at, order_features, read_column
from curator_service.kinds.items import ItemsKind, ItemsPlan
from curator_service.kinds.marginals.conformance import CONFORMANCE
from curator_service.kinds.marginals.kernel import MarginalsKernel
from curator_service.kinds.marginals.listing import MarginalsListing
from curator_service.kinds.marginals.marginals import Binned, Flat, Marginal, Moments, Tree, make_marginal
from curator_service.kinds.marginals.response_models import MARGINALS
from curator_service.kinds.marginals.schema import (
    COLUMNS_MAX,
    EXAMPLE,
    KIND,
    NUMBERS_MAX,
    MarginalRequest,
    MarginalsRequest,
)
from curator_service.kinds.marginals.sensitivity import marginal_l1, marginal_l2_squared
from curator_service.kinds.wording import list_asked
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column

"""What a column takes of an answer beside its numbers, and how often its name or its expression stands there."""

_X = (Column.number("x"),)


class Marginals(ItemsKind[MarginalsRequest, Marginal, MarginalsListing]):
    """Noisy numbers of rows by bin, and noisy moments, of columns by themselves."""

    name = KIND
    request_model = MarginalsRequest
    models = MARGINALS
    listing = MarginalsListing
    asked: ClassVar = ("kind", "marginals", "mechanism", "calibration", "shares", *SELECTING)
    declared: ClassVar = ("columns", "marginals", "derived")
    example: ClassVar = EXAMPLE
    words: ClassVar = KindWords(
        "distributions of single columns",
        "How single columns are distributed: rows by equal bins, and sums of values and of their squares.",
    )
    conformance: ClassVar = CONFORMANCE
    typical: ClassVar = (MarginalsKernel((Tree(_X, 8), Flat(_X, 16), Moments(_X))),)

    def describe_question(self, request: Mapping[str, Any]) -> str:
        """Return what a stored request asks, in words."""
        asked = [
            f"{_ASKED.get(one['type'], one['type'])} of {list_asked(one['columns'])}"
            + (f", in {one['bins']} bins" if "bins" in one else "")
            for one in request["marginals"]
        ]
        return "; ".join(asked)

    def read_items(self, dataset: Dataset, request: MarginalsRequest) -> tuple[Marginal, ...]:
        """Return the marginals, with columns in the manifest's order."""
        marginals: dict[str, Marginal] = {}
        columns = numbers = 0
        for i, asked in enumerate(request.marginals):
            place = f"/marginals/{i}"
            marginal = _read(dataset, asked, place)
            if marginals.setdefault(marginal.key, marginal) is not marginal:
                raise RequestInvalid.at(place, "the marginal is asked for twice; ask once, with a larger share")
            columns, numbers = columns + len(marginal.columns), numbers + marginal.size
            for what, count, most in (("columns", columns, COLUMNS_MAX), ("numbers", numbers, NUMBERS_MAX)):
                if count > most:
                    rule = f"with this marginal there are {count} {what}; at most {most} are released together"
                    raise RequestInvalid.at(place, rule)
            if isinstance(marginal, Binned):  # after they were counted: bins are short to ask for, and long as edges
                try:
                    marginal.cut()
                except ValueError as error:
                    raise RequestInvalid.at(place, f"its bins are too many for a column's bounds: {error}") from None
        return tuple(marginals.values())

    def sensitivity(self, item: Marginal, mechanism: Mechanism, adjacency: Adjacency, rows_per_person: int) -> Fraction:
        """Bound a marginal by its columns, and by what a row adds for each."""
        bound = marginal_l2_squared if mechanism is Mechanism.GAUSSIAN else marginal_l1
        return bound(item, adjacency, rows_per_person)

    def kernel(self, plan: ItemsPlan[Marginal]) -> MarginalsKernel:
        """Return what a row adds to each marginal."""
        return MarginalsKernel(plan.items, plan.selection)

    def exact_s(self, plan: ItemsPlan[Marginal]) -> float:
        """Return a time for bins: cut points, sums and their noise take some even where rows are few."""
        return PER_CELL_S * sum(marginal.size for marginal in plan.items)


_ASKED = {"moments": "mean and standard deviation", "flat": "histogram", "tree": "distribution and quantiles"}
"""Marginals in words, by their types."""


def _read(dataset: Dataset, asked: MarginalRequest, place: str) -> Marginal:
    """Return a marginal; `RequestInvalid` where it means nothing."""
    declared = dataset.manifest.by_name
    columns: dict[str, Column] = {}
    for j, named in enumerate(asked.columns):
        at_column = f"{place}/columns/{j}"
        column = at(at_column, partial(read_column, named, declared))
        if not column.is_number:
            rule = f"the {column.type} column {column.name!r} has no numbers: ask for counts of its levels"
            raise RequestInvalid.at(at_column, rule)
        if column.name in columns:
            raise RequestInvalid.at(at_column, f"the column {column.name!r} is named twice")
        columns[column.name] = column
    return make_marginal(asked.model_dump(), order_features(list(columns.values()), declared))
