"""Quotes of marginals: the noise of each item."""

from dataclasses import dataclass

from analyst_client.display.model import Block, Note
from analyst_client.kinds.marginals.items import ItemShape, read_item
from analyst_client.kinds.parts import Parts, PartsQuote
from analyst_client.schema.columns import Column

NOISE_NOTE = (
    "In rows: of each bin of a tree or a flat item, and of the sums of moments, where the bounds stand at -1 and 1."
)


class Marginals(Parts):
    """Items of a release or a quote."""

    member = "marginals"
    asked = "marginals: {}"
    comma = "; "
    _read_part = staticmethod(read_item)


@dataclass(frozen=True, repr=False)
class MarginalsQuote(Marginals, PartsQuote):
    """Cost and noise of a request of marginals. Free: no row was read.

    Cost, time and stored releases that would do: see `AnyQuote`.

    Attributes
    ----------
    marginals : tuple of ItemShape
        In the order that was asked, each with its `type`, its `columns` and its `name` in `noise`.
    noise : StatisticNoise
        Its `distribution`, and `sd` by the item's name.

    Examples
    --------
    >>> from analyst_client import Flat, MarginalsRequest, Moments, Tree
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = MarginalsRequest([Tree(["age"]), Flat(["kappa"]), Moments(["age"])], epsilon=0.5, delta=1e-6)
    >>> quote = client.quote("flchain", request)
    >>> quote.affordable, round(quote.cost.epsilon, 3)
    (True, 0.5)
    """

    heads = ("item", "numbers")
    marginals: tuple[ItemShape, ...]

    @property
    def told_alone(self) -> tuple[Column, ...]:
        """The columns."""
        return tuple(column for item in self.marginals for column in item.columns)

    def _noise_view(self) -> tuple[Block, ...]:
        return self._list_noise(), Note(NOISE_NOTE)
