"""The request of noisy marginals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analyst_client.kinds.marginals.items import Flat, Item, Moments, Tree
from analyst_client.kinds.marginals.quote import MarginalsQuote
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.kinds.parts import PartsRequest


@dataclass(frozen=True, repr=False)
class MarginalsRequest(PartsRequest[MarginalsRelease, MarginalsQuote]):
    """A request of where single numeric columns are, and how spread: one or more items, at one cost.

    Which rows count, the cost, and who is charged: see `PricedRequest`.

    Parameters
    ----------
    marginals : sequence of Tree, Flat or Moments
        Each names columns. An item's noise grows with the root of its number of columns, and a tree's with the root of
        its levels.
    shares : sequence of float, optional
        Parts of the cost, one for each item, which sum to 1. Default equal ones.

    Raises
    ------
    ValueError
        When the arguments contradict each other, or one makes no sense.

    Examples
    --------
    >>> request = MarginalsRequest([Tree(["age", "kappa"]), Moments(["age"])], epsilon=1.0, delta=1e-6)
    >>> request.members["marginals"][1]
    {'type': 'moments', 'columns': ['age']}
    """

    part = "item"
    marginals: Sequence[Item]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The items. The sequence is read once."""
        if isinstance(self.marginals, Tree | Flat | Moments):
            raise ValueError(f"marginals is a list: one item is MarginalsRequest([{self.marginals!r}], …)")  # noqa: TRY004 -- one kind of error for arguments
        items = tuple(self.marginals)
        if not items or not all(isinstance(item, Tree | Flat | Moments) for item in items):
            raise ValueError("marginals are one or more of Tree(columns), Flat(columns) and Moments(columns)")
        if len({item.key for item in items}) < len(items):
            raise ValueError("two items ask for the same: it would be charged twice")
        return items

    @property
    def parts(self) -> tuple[Item, ...]:
        """The items."""
        return self.items

    def _asked_members(self) -> dict[str, Any]:
        return {"marginals": [item.members for item in self.items]}
