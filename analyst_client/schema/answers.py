"""Answers: members that a release of any kind has, with any statistics."""

import os
from typing import Any, Protocol

from analyst_client.schema.receipts import Receipt


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
