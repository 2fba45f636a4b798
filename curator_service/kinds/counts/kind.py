"""The kind ``counts``: joint histograms over one to three columns each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from curator_service.datasets.repository import Dataset
from curator_service.kinds.base import Planned, ReleaseKind
from curator_service.kinds.counts.conformance import CONFORMANCE
from curator_service.kinds.counts.kernel import CountsKernel
from curator_service.kinds.counts.library import CountsLibrary
from curator_service.kinds.counts.listing import CountsListing
from curator_service.kinds.counts.response_models import COUNTS
from curator_service.kinds.counts.schema import CELLS_MAX, EDGES_MAX, EXAMPLE, KIND, AxisRequest, CountsRequest
from curator_service.kinds.counts.sensitivity import table_l1, table_l2_squared
from curator_service.kinds.counts.tables import Axis, Table, name_of, outputs_of
from curator_service.kinds.features import SELECTING, at, order_features, read_column, read_selection, state_selection
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.allocation import DISTRIBUTIONS, Allocation, Bound, allocate
from curator_service.privacy.calibration import Mechanism
from curator_service.privacy.conversions import exact
from curator_service.privacy.design import Column, ColumnType
from curator_service.privacy.mechanism import Output
from curator_service.privacy.parts import Part
from curator_service.privacy.selection import EVERY_ROW, Selection

PER_CELL_S = 4e-7
"""Of the public duration; about ten times what a cell takes."""

EDGE_BYTES = 3 * 25


@dataclass(frozen=True, slots=True)
class CountsPlan:
    """Tables, in their one order, the share of the price and the noise of each, and the rows that count."""

    tables: tuple[Table, ...]
    shares: tuple[float, ...]
    allocation: Allocation
    joint: JointBound | None = None
    selection: Selection = EVERY_ROW

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each table with the scale of its noise."""
        return self.allocation.parts

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The cells of each."""
        return outputs_of(self.tables)


_TWENTY_BINS = Axis.of(Column("x", ColumnType.NUMERIC), AxisRequest(column="x", bins=20))


class Counts(ReleaseKind[CountsRequest, CountsPlan, CountsListing]):
    """Noisy numbers of rows by cell."""

    name = KIND
    request_model = CountsRequest
    models = COUNTS
    listing = CountsListing
    asked: ClassVar = ("kind", "tables", "mechanism", "calibration", "shares", *SELECTING)
    declared: ClassVar = ("columns", "tables", "derived")
    example: ClassVar = EXAMPLE
    library = CountsLibrary()
    conformance: ClassVar = CONFORMANCE
    typical: ClassVar = (CountsKernel((Table((_TWENTY_BINS,)),)),)

    def plan(self, dataset: Dataset, request: CountsRequest) -> Planned[CountsPlan]:
        """Check a request against declarations, fill in its defaults, and plan it."""
        tables = _tables(dataset, request)
        selection = read_selection(request.where, request.weight, dataset.manifest.by_name)
        shares = request.shares or [1 / len(tables)] * len(tables)
        chosen, split = zip(*sorted(zip(tables, shares, strict=True), key=lambda pair: pair[0].key), strict=True)
        plan = _plan(dataset, request, chosen, split, request.price.price)  # first: it tells a price that is not sold
        stated = _state(request, tables, shares, request.state_price())
        stated |= {name: given for name in SELECTING if (given := getattr(request, name)) is not None}
        canonical = _state(request, chosen, split, request.own_price(dataset.accountant)) | state_selection(selection)
        return Planned(stated, canonical, replace(plan, selection=selection))

    def plan_at(self, dataset: Dataset, request: CountsRequest, plan: CountsPlan, price: Price) -> CountsPlan:
        """Plan the same request at another price."""
        return replace(_plan(dataset, request, plan.tables, plan.shares, price), selection=plan.selection)

    def bounds(self, dataset: Dataset, request: CountsRequest) -> tuple[tuple[Bound, ...], None]:
        """Derive the sensitivities that a charge must state, from declarations alone."""
        return _bounds(dataset, len(_tables(dataset, request)), request.mechanism), None

    def kernel(self, plan: CountsPlan) -> CountsKernel:
        """Return what a row adds to each table."""
        return CountsKernel(plan.tables, plan.selection)

    def text_bytes(self, plan: CountsPlan) -> int:
        """Return what edges take: they stand in the request, beside their table, and in lists."""
        edges = sum(len(axis.edges or ()) for table in plan.tables for axis in table.axes)
        return EDGE_BYTES * edges

    def exact_s(self, plan: CountsPlan) -> float:
        """Return a time for cells: cut points, sums and their noise take some even where rows are few."""
        return PER_CELL_S * sum(table.size for table in plan.tables)


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


def _state(
    request: CountsRequest, tables: Sequence[Table], shares: Sequence[float], price: dict[str, Any]
) -> dict[str, Any]:
    return {
        "kind": request.kind,
        "tables": [{"axes": [axis.request for axis in table.axes]} for table in tables],
        "mechanism": request.mechanism,
        "calibration": request.calibration,
        "price": price,
        "shares": list(shares),
    }


def _plan(
    dataset: Dataset, request: CountsRequest, tables: tuple[Table, ...], shares: tuple[float, ...], price: Price
) -> CountsPlan:
    whole = sum(map(exact, shares))
    allocation = allocate(
        _bounds(dataset, len(tables), request.mechanism),
        [exact(share) / whole for share in shares],
        price=price,
        accountant=dataset.accountant,
        mechanism=request.mechanism,
    )
    return CountsPlan(tables, shares, allocation)


def _bounds(dataset: Dataset, count: int, mechanism: Mechanism) -> tuple[Bound, ...]:
    bound = table_l2_squared if mechanism is Mechanism.GAUSSIAN else table_l1
    sensitivity = bound(dataset.adjacency, dataset.manifest.rows_per_person)
    return tuple(Bound(name_of(i), DISTRIBUTIONS[mechanism], sensitivity) for i in range(count))
