"""A kind of release from outside of the package: in how many rows each of some columns has a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from curator_service.datasets.repository import Dataset
from curator_service.datasets.schemas import render_column
from curator_service.kinds.base import KindWords, Planned, ReleaseKind
from curator_service.kinds.listing import Listing
from curator_service.kinds.registry import KINDS
from curator_service.kinds.request import ColumnName, ReleaseRequest
from curator_service.kit.problems import RequestInvalid
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.allocation import DISTRIBUTIONS, Allocation, Bound, allocate
from curator_service.privacy.lattice import MISSING, UNIT, FlagArray, IntArray, RowArray, StoredArray
from curator_service.privacy.mechanism import Output
from curator_service.privacy.parts import Part


class FilledRequest(ReleaseRequest):
    kind: Literal["filled"] = "filled"
    columns: Annotated[list[ColumnName], Field(min_length=1)]


@dataclass(frozen=True)
class FilledKernel:
    columns: tuple[str, ...]
    cached_terms: tuple[()] | None = None
    width = products = property(lambda self: len(self.columns))

    def map(self, stored: Mapping[str, StoredArray], counted: FlagArray, out: RowArray) -> None:
        for i, name in enumerate(self.columns):
            out[:, i] = (stored[name] != MISSING) & counted

    def sum(self, rows: RowArray) -> IntArray:
        return rows.sum(axis=0).astype(np.int64) * UNIT**2


@dataclass(frozen=True)
class FilledPlan:
    columns: tuple[str, ...]
    allocation: Allocation
    joint: JointBound | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        return _outputs(self.columns)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.allocation.parts


class FilledListing(Listing):
    columns = property(lambda self: tuple(self.request["columns"]))
    outputs = property(lambda self: _outputs(self.columns))
    row_rule = property(lambda self: [self.kind])
    entries = property(lambda self: sorted(self.columns))

    def describe(self) -> dict[str, Any]:
        return {"columns": [render_column(self.declared[name]) for name in self.columns]}


class Filled(ReleaseKind[FilledRequest, FilledPlan, FilledListing]):
    name = "filled"
    request_model = FilledRequest
    models = KINDS.first.models
    listing = FilledListing
    asked: ClassVar = ("kind", "columns", "mechanism", "calibration")
    declared: ClassVar = ("columns",)
    example: ClassVar = {"kind": "filled", "columns": ["age"], "price": {"mu": 0.1}}
    words: ClassVar = KindWords("counts of values", "In how many rows each column has a value.")

    def plan(self, dataset: Dataset, request: FilledRequest) -> Planned[FilledPlan]:
        for i, name in enumerate(request.columns):
            if name not in dataset.manifest.by_name or name in request.columns[:i]:
                raise RequestInvalid.at(f"/columns/{i}", "there is no such column, or it is named twice")
        stated = {name: getattr(request, name) for name in self.asked}
        in_order = {"columns": [name for name in dataset.manifest.by_name if name in request.columns]}
        return Planned(
            stated | {"price": request.state_price()},
            stated | in_order | {"price": request.own_price(dataset.accountant)},
            self._plan(dataset, request, tuple(in_order["columns"]), request.price.price),
        )

    def plan_at(self, dataset: Dataset, request: FilledRequest, plan: FilledPlan, price: Price) -> FilledPlan:
        return self._plan(dataset, request, plan.columns, price)

    def _plan(self, dataset: Dataset, request: FilledRequest, columns: tuple[str, ...], price: Price) -> FilledPlan:
        bounds, joint = self.bounds(dataset, request)
        allocation = allocate(
            bounds,
            [Fraction(1)],
            price=price,
            accountant=dataset.accountant,
            mechanism=request.mechanism,
            joint=joint,
        )
        return FilledPlan(columns, allocation, joint)

    def bounds(self, dataset: Dataset, request: FilledRequest) -> tuple[tuple[Bound, ...], JointBound | None]:
        # A row moves each number up or down by one, whether it is added or replaced.
        moved = Fraction(dataset.manifest.rows_per_person * UNIT**2)
        bound = len(request.columns) * (moved**2 if request.mechanism == "gaussian" else moved)
        return (Bound("rows", DISTRIBUTIONS[request.mechanism], bound),), None

    def kernel(self, plan: FilledPlan) -> FilledKernel:
        return FilledKernel(plan.columns)


def _outputs(columns: tuple[str, ...]) -> tuple[Output, ...]:
    return (Output("rows", (len(columns),)),)
