"""Listing of a ``marginals`` release: the release without its values."""

from functools import cached_property
from typing import ClassVar

from curator_service.kinds.items import ItemsListing
from curator_service.kinds.marginals.marginals import Marginal, read_marginals
from curator_service.kinds.marginals.schema import MarginalsRequest
from curator_service.privacy.design import Column


class MarginalsListing(ItemsListing[Marginal]):
    """Listing of a release, or of a request for one: its marginals."""

    member: ClassVar = MarginalsRequest.member
    noun: ClassVar = MarginalsRequest.noun

    @cached_property
    def items(self) -> tuple[Marginal, ...]:
        """The marginals, in order."""
        return read_marginals(self.request, self.declared)

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """Columns of all marginals."""
        return tuple(dict.fromkeys(column for marginal in self.items for column in marginal.columns))
