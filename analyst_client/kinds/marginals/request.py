"""The request of noisy marginals."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from analyst_client.kinds.base import own_answer, own_quote
from analyst_client.kinds.marginals import KIND
from analyst_client.kinds.marginals.items import Flat, Item, Moments, Tree
from analyst_client.kinds.marginals.quote import MarginalsQuote
from analyst_client.kinds.marginals.release import MarginalsRelease
from analyst_client.schema.answers import Answer
from analyst_client.schema.quotes import AnyQuote
from analyst_client.schema.requests import as_json, purchase_members, selection_members
from analyst_client.terms.expression import Expression


@dataclass(frozen=True)
class MarginalsRequest:
    """A request of where single numeric columns are, and how spread: one or more items, at one cost.

    Parameters
    ----------
    marginals : sequence of Tree, Flat or Moments
        Each names columns. An item's noise grows with the root of its number of columns, and a tree's with the root of
        its levels.
    where : str or Expression, optional
        Condition on a row, such as ``"sex == 'F' and age >= 60"``. Default all rows count.
    weight : str or Expression, optional
        A number with bounds in [0, 1] by which a row counts. Default 1.
    epsilon, delta, mu, rho : float, optional
        The cost of all items together: `epsilon` with `delta`, or `mu`, or `rho`; with Laplace noise also `epsilon`
        alone.
    mechanism : str, optional
        ``"gaussian"``, the default, or ``"laplace"``.
    shares : sequence of float, optional
        Parts of the cost, one for each item, which sum to 1. Default equal ones.
    fresh : bool
        Draw new noise, and be charged again, even if the same request was answered before.
    project : str, optional
        Label under which the charge is counted.
    reservation : str, optional
        Id of the reservation that is charged.

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

    marginals: Sequence[Item]
    _: KW_ONLY
    where: str | Expression | None = None
    weight: str | Expression | None = None
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    mechanism: str | None = None
    shares: Sequence[float] | None = None
    fresh: bool = False
    project: str | None = None
    reservation: str | None = None

    kind = KIND

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        self.to_json()

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

    @cached_property
    def members(self) -> dict[str, Any]:
        """Members of the body: the options that were set, and nothing else."""
        marginals = [item.members for item in self.items]
        body = {"kind": KIND, "marginals": marginals, **selection_members(self.where, self.weight)}
        return body | purchase_members(self, len(marginals), "item")

    def to_json(self) -> bytes:
        """Return the body of the request."""
        return as_json(self.members)

    def arrange(self, answer: Answer) -> MarginalsRelease:
        """Return a release with items and columns as they were asked; raise `ServiceError` when it has others."""
        return own_answer(answer, MarginalsRelease, KIND).arranged_as(self.items)

    def arrange_quote(self, quote: AnyQuote) -> MarginalsQuote:
        """Return a quote with items and columns as they were asked; raise `ServiceError` when it has others."""
        return own_quote(quote, MarginalsQuote, KIND).arranged_as(self.items)
