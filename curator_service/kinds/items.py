"""Kinds that release items, as tables are: each is one statistic, with a share of the price and noise of its own."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import model_validator

from curator_service.datasets.repository import Dataset
from curator_service.datasets.schemas import render_column
from curator_service.kinds.base import Planned, ReleaseKind
from curator_service.kinds.features import (
    SELECTING,
    FeatureModel,
    list_derived,
    read_selection,
    render_derived,
    state_selection,
)
from curator_service.kinds.listing import Listing
from curator_service.kinds.request import ReleaseRequest
from curator_service.kit.wire import Positive
from curator_service.privacy.accountant import JointBound, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.allocation import DISTRIBUTIONS, Allocation, Bound, allocate
from curator_service.privacy.calibration import Calibration, Mechanism
from curator_service.privacy.conversions import exact
from curator_service.privacy.design import Column
from curator_service.privacy.mechanism import Output
from curator_service.privacy.parts import Part
from curator_service.privacy.selection import EVERY_ROW, Selection


class Item(Protocol):
    """Item that is released with noise of one scale."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its numbers."""

    @property
    def key(self) -> str:
        """Sorting key of items; of one dataset, equal for equal items alone."""

    @property
    def request(self) -> dict[str, Any]:
        """The item as a canonical request states it."""


ItemT = TypeVar("ItemT", bound=Item)


class ItemsRequest(ReleaseRequest):
    """A request for items. Each kind adds their list.

    Attributes
    ----------
    member : str
        The name of that list.
    noun : str
        One of them, in messages and in names of statistics.
    """

    where: FeatureModel | None = None
    weight: FeatureModel | None = None
    shares: list[Positive] | None = None

    member: ClassVar[str]
    noun: ClassVar[str]

    @model_validator(mode="after")
    def _check_price(self) -> Self:
        if self.calibration is not Calibration.ANALYTIC:
            raise ValueError(f"{self.kind} are calibrated as analytic alone")
        if self.shares is not None and len(self.shares) != len(getattr(self, self.member)):
            raise ValueError(f"shares are one for each {self.noun}")
        if self.shares is not None and not math.isclose(sum(self.shares), 1.0, abs_tol=1e-9):
            raise ValueError("shares must add up to 1")
        return self


RequestT = TypeVar("RequestT", bound=ItemsRequest)


def outputs_of(noun: str, items: Sequence[Item]) -> tuple[Output, ...]:
    """Return what leaves of each item, by its place in a canonical request."""
    return tuple(Output(f"{noun}_{i}", item.shape) for i, item in enumerate(items))


@dataclass(frozen=True, slots=True)
class ItemsPlan(Generic[ItemT]):
    """Items, in their one order, the share of the price and the noise of each, and the rows that count."""

    items: tuple[ItemT, ...]
    shares: tuple[float, ...]
    outputs: tuple[Output, ...]
    allocation: Allocation
    selection: Selection = EVERY_ROW
    joint: JointBound | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each item with the scale of its noise."""
        return self.allocation.parts


class ItemsListing(Listing, Generic[ItemT]):
    """Listing of a release of items, or of a request for one."""

    member: ClassVar[str]
    noun: ClassVar[str]

    @property
    @abstractmethod
    def items(self) -> tuple[ItemT, ...]:
        """The items, in order."""

    @property
    @abstractmethod
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of the items, declared or computed, each once."""

    @cached_property
    def selection(self) -> Selection:
        """Rows that count, and their weights."""
        return read_selection(self.request.get("where"), self.request.get("weight"), self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every declared column that is read, in the manifest's order."""
        used = {name for column in (*self.read_columns, *self.selection.columns) for name in column.reads}
        return tuple(name for name in self.declared if name in used)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The numbers of each item."""
        return outputs_of(self.noun, self.items)

    def describe(self) -> dict[str, Any]:
        """Return columns, each item by its name, and what is computed."""
        return {
            "columns": [render_column(self.declared[name]) for name in self.columns],
            self.member: [
                {"name": output.statistic, **self.describe_item(item)}
                for output, item in zip(self.outputs, self.items, strict=True)
            ],
            **render_derived(list_derived((*self.read_columns, *self.selection.columns))),
        }

    def describe_item(self, item: ItemT) -> dict[str, Any]:
        """Return an item as answers describe it."""
        return item.request

    @property
    def row_rule(self) -> list[Any]:
        """Every row that counts counts for its weight: equal items are equal sums, whatever else is asked."""
        return [self.kind, state_selection(self.selection)] if self.selection else [self.kind]

    @property
    def entries(self) -> list[Any]:
        """The items, in their one order."""
        return [self.request[self.member]]


ListingT = TypeVar("ListingT", bound=ItemsListing[Any])


class ItemsKind(ReleaseKind[RequestT, ItemsPlan[ItemT], ListingT], Generic[RequestT, ItemT, ListingT]):
    """A kind that releases items: how requests of them are checked, ordered and planned."""

    @abstractmethod
    def read_items(self, dataset: Dataset, request: RequestT) -> tuple[ItemT, ...]:
        """Return the items as they are asked. Raise `RequestInvalid` where one means nothing."""

    @abstractmethod
    def sensitivity(self, item: ItemT, mechanism: Mechanism, adjacency: Adjacency, rows_per_person: int) -> Fraction:
        """Bound how far a person moves an item: in L2, squared, for Gaussian noise, in L1 for Laplace noise."""

    def plan(self, dataset: Dataset, request: RequestT) -> Planned[ItemsPlan[ItemT]]:
        """Check a request against declarations, fill in its defaults, and plan it."""
        items = self.read_items(dataset, request)
        selection = read_selection(request.where, request.weight, dataset.manifest.by_name)
        shares = request.shares or [1 / len(items)] * len(items)
        chosen, split = zip(*sorted(zip(items, shares, strict=True), key=lambda pair: pair[0].key), strict=True)
        # First: it tells a price that is not sold.
        plan = self._plan(dataset, request, chosen, split, selection, request.price.price)
        stated = _state(request, items, shares, request.state_price())
        stated |= {name: given for name in SELECTING if (given := getattr(request, name)) is not None}
        canonical = _state(request, chosen, split, request.own_price(dataset.accountant)) | state_selection(selection)
        return Planned(stated, canonical, plan)

    def plan_at(self, dataset: Dataset, request: RequestT, plan: ItemsPlan[ItemT], price: Price) -> ItemsPlan[ItemT]:
        """Plan the same request at another price."""
        return self._plan(dataset, request, plan.items, plan.shares, plan.selection, price)

    def bounds(self, dataset: Dataset, request: RequestT) -> tuple[tuple[Bound, ...], None]:
        """Derive the sensitivities that a charge must state, from declarations alone."""
        items = sorted(self.read_items(dataset, request), key=lambda item: item.key)
        return self._bounds(dataset, request, items), None

    def _plan(
        self,
        dataset: Dataset,
        request: RequestT,
        items: tuple[ItemT, ...],
        shares: tuple[float, ...],
        selection: Selection,
        price: Price,
    ) -> ItemsPlan[ItemT]:
        whole = sum(map(exact, shares))
        allocation = allocate(
            self._bounds(dataset, request, items),
            [exact(share) / whole for share in shares],
            price=price,
            accountant=dataset.accountant,
            mechanism=request.mechanism,
        )
        return ItemsPlan(items, shares, outputs_of(request.noun, items), allocation, selection)

    def _bounds(self, dataset: Dataset, request: RequestT, items: Sequence[ItemT]) -> tuple[Bound, ...]:
        mechanism, rows = request.mechanism, dataset.manifest.rows_per_person
        return tuple(
            Bound(
                output.statistic,
                DISTRIBUTIONS[mechanism],
                self.sensitivity(item, mechanism, dataset.adjacency, rows),
            )
            for output, item in zip(outputs_of(request.noun, items), items, strict=True)
        )


def _state(
    request: ItemsRequest, items: Sequence[Item], shares: Sequence[float], price: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "kind": request.kind,
        request.member: [item.request for item in items],
        "mechanism": request.mechanism,
        "calibration": request.calibration,
        "price": price,
        "shares": list(shares),
    }
