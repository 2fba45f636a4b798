"""The kind ``counts``: joint histograms over one to three columns each."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import KindWords
from curator_service.kinds.counting import PER_CELL_S
from curator_service.kinds.counts.conformance import CONFORMANCE
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.library import CountsLibrary
from curator_service.kinds.counts.listing import CountsListing
from curator_service.kinds.counts.response_models import COUNTS
from curator_service.kinds.counts.schema import CELLS_MAX, EDGES_MAX, EXAMPLE, KIND, AxisRequest, CountsRequest
from curator_service.kinds.counts.sensitivity import table_l1, table_l2_squared
from curator_service.kinds.counts.tables import Axis, Table
from curator_service.kinds.features import SELECTING, at, order_features, read_column
from curator_service.kinds.items import ItemsKind, ItemsPlan
from curator_service.kinds.wording import write_asked
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.design import Column

_TWENTY_BINS = Axis.of(Column.number("x"), AxisRequest(column="x", bins=20))


class Counts(ItemsKind[CountsRequest, Table, CountsListing]):
    """Noisy numbers of rows by cell."""

    name = KIND
    request_model = CountsRequest
    models = COUNTS
    listing = CountsListing
    asked: ClassVar = ("kind", "tables", "mechanism", "calibration", "shares", *SELECTING)
    declared: ClassVar = ("columns", "tables", "derived")
    example: ClassVar = EXAMPLE
    words: ClassVar = KindWords("tables of counts", "How many rows fall into each cell of one or more tables.")
    library = CountsLibrary()
    conformance: ClassVar = CONFORMANCE
    typical: ClassVar = (CountsKernel((Table((_TWENTY_BINS,)),)),)

    def read_items(self, dataset: Dataset, request: CountsRequest) -> tuple[Table, ...]:
        """Return the tables, with axes in the manifest's order."""
        return _tables(dataset, request)

    def sensitivity(self, item: Table, mechanism: Mechanism, adjacency: Adjacency, rows_per_person: int) -> Fraction:
        """Bound a table: as any other, for a row is in one cell of it."""
        del item
        bound = table_l2_squared if mechanism is Mechanism.GAUSSIAN else table_l1
        return bound(adjacency, rows_per_person)

    def kernel(self, plan: ItemsPlan[Table]) -> CountsKernel:
        """Return what a row adds to each table."""
        return CountsKernel(plan.items, plan.selection)

    def describe_question(self, request: Mapping[str, Any]) -> str:
        """Return what a stored request asks, in words."""
        tables = [" × ".join(write_asked(axis["column"]) for axis in table["axes"]) for table in request["tables"]]
        return f"counts of rows by {'; by '.join(tables)}"

    def exact_s(self, plan: ItemsPlan[Table]) -> float:
        """Return a time for cells: cut points, sums and their noise take some even where rows are few."""
        return PER_CELL_S * sum(table.size for table in plan.items)


def _tables(dataset: Dataset, request: CountsRequest) -> tuple[Table, ...]:
    """Return the tables of a request, with axes in the manifest's order; `RequestInvalid` where one means nothing."""
    declared = dataset.manifest.by_name
    tables: dict[str, Table] = {}
    cells = edges = 0
    for i, asked in enumerate(request.tables):
        axes: dict[str, Axis] = {}
        for j, axis in enumerate(asked.axes):
            place = f"/tables/{i}/axes/{j}"
            column = at(f"{place}/column", partial(read_column, axis.column, declared))
            if column.name in axes:
                raise RequestInvalid.at(f"{place}/column", f"the column {column.name!r} is named twice")
            try:
                axes[column.name] = Axis.of(column, axis)
            except ValueError as error:
                raise RequestInvalid.at(place, str(error)) from None
            edges += len(axes[column.name].edges or ())
            if edges > EDGES_MAX:
                rule = f"with this axis there are {edges} edges; at most {EDGES_MAX} are written together"
                raise RequestInvalid.at(place, rule)
        table = Table(
            tuple(axes[column.name] for column in order_features([a.column for a in axes.values()], declared))
        )
        if tables.setdefault(table.key, table) is not table:
            raise RequestInvalid.at(f"/tables/{i}", "the table is asked for twice; ask once, with a larger share")
        cells += table.size
        if cells > CELLS_MAX:  # at once: bins are short to ask for, and long as edges
            rule = f"with this table there are {cells} cells; at most {CELLS_MAX} are released together"
            raise RequestInvalid.at(f"/tables/{i}", rule)
    return tuple(tables.values())
