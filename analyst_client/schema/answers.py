"""Answers: members that a release of any kind has, with any statistics, and what its quote has in common with it."""

import os
from typing import Any, Protocol, Self

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, join, quiet, untrusted
from analyst_client.schema.receipts import Receipt
from analyst_client.schema.wire import Fields


class Answer(Protocol):
    """A release as the ledger and the wire see it; each kind adds its statistics, see `analyst_client.kinds`.

    Attributes
    ----------
    text : str
        The exact text of the answer.
    id, dataset, created_at : str
    request : dict
        The request with every default filled in.
    receipt : Receipt or None
        The ledger entry of the charge.
    """

    @property
    def text(self) -> str: ...  # noqa: D102 -- see the class

    @property
    def id(self) -> str: ...  # noqa: D102 -- see the class

    @property
    def dataset(self) -> str: ...  # noqa: D102 -- see the class

    @property
    def created_at(self) -> str | None: ...  # noqa: D102 -- see the class

    @property
    def request(self) -> dict[str, Any]: ...  # noqa: D102 -- see the class

    @property
    def receipt(self) -> Receipt | None: ...  # noqa: D102 -- see the class

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the exact text to a file, whole or not at all."""


class Stated(Displayable):
    """Common base of the quotes and the releases of a kind: how they are read, and the order of their parts."""

    dataset: str

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read the members that no annotation reads, by name. Raise `ServiceError` on a wrong one."""
        return {}

    @property
    def order(self) -> Any:
        """The order of columns, or of other parts, as `in_order` takes it."""
        return ()

    def in_order(self, order: Any) -> Self:
        """Return this with its parts in an order that it, or `find_order`, has stated."""
        return self

    def find_order(self, request: Any) -> Any:
        """Return the order of a request of the kind. Raise `ServiceError` when this is of something else."""
        return self.order

    def arranged_as(self, request: Any) -> Self:
        """Return this in the order of a request of the kind. Raise `ServiceError` when it is of something else."""
        return self.in_order(self.find_order(request))

    @property
    def _title(self) -> str:
        """The parts or the model, in a few words."""
        raise NotImplementedError

    @property
    def _asked(self) -> str:
        """All that is asked, in a few words."""
        return self._title

    def _caption(self) -> Inline:
        """Say what is asked, and of what dataset."""
        return join(untrusted(self._asked), quiet(" of "), untrusted(self.dataset))
