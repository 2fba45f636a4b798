"""Quotes of marginals: the noise of each item."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyst_client.display.model import Block, Note, aligned, join, quiet, table, untrusted
from analyst_client.kinds.counts.axes import read_is_laplace
from analyst_client.kinds.marginals.items import Item, ItemShape, match_items, read_items
from analyst_client.schema.columns import Column
from analyst_client.schema.quotes import AnyQuote, StatisticNoise, parts_of_shares, read_quote
from analyst_client.schema.wire import Fields

NOISE_NOTE = (
    "In rows: of each bin of a tree or a flat item, and of the sums of moments, where the bounds stand at -1 and 1."
)


@dataclass(frozen=True, repr=False)
class MarginalsQuote(AnyQuote):
    """Cost and noise of a request of marginals. Free: no row was read.

    Cost, duration, space and stored releases are stated as by `Quote`.

    Attributes
    ----------
    marginals : tuple of ItemShape
        In the order that was asked, each with its `type`, its `columns` and its `name` in `noise`.
    noise : StatisticNoise
        Its `distribution`, and `sd` by the item's name.
    is_laplace : bool
        Whether the noise is Laplace, or Gaussian.
    request : dict
        The request with every default filled in, in the curator's own order.
    affordable : bool
        Whether the budget would suffice now.
    """

    noise: StatisticNoise
    marginals: tuple[ItemShape, ...]
    is_laplace: bool

    @property
    def laplace_parts(self) -> tuple[float, ...]:
        """Parts of ε of each item."""
        return parts_of_shares(self.request, len(self.marginals))

    @classmethod
    def read(cls, fields: Fields) -> "MarginalsQuote":
        """Read from an answer."""
        marginals = read_items(fields)
        stated = fields.object("noise")
        noise = StatisticNoise.read(stated, [item.name for item in marginals])
        return cls(**read_quote(fields, noise), marginals=marginals, is_laplace=read_is_laplace(stated))

    @property
    def sums(self) -> dict[str, float]:
        """Standard deviation of a number of each item."""
        return {item.title: self.noise.sd[item.name] for item in self.marginals}

    @property
    def told_alone(self) -> tuple[Column, ...]:
        """The columns."""
        return tuple(column for item in self.marginals for column in item.columns)

    def arranged_as(self, asked: Sequence[Item]) -> "MarginalsQuote":
        """Return this quote with items and columns as they were asked. Raise `ServiceError` when it has others."""
        places = match_items(asked, self.marginals)
        return replace(self, marginals=tuple(self.marginals[i].arranged(order) for i, order in places))

    def _asked(self) -> str:
        return f"marginals: {'; '.join(item.title for item in self.marginals)}"

    def _noise_view(self) -> tuple[Block, ...]:
        sds = aligned([self.noise.sd[item.name] for item in self.marginals])
        rows = [
            (untrusted(item.title), f"{item.shape[0] * item.shape[1]:,}", sd)
            for item, sd in zip(self.marginals, sds, strict=True)
        ]
        caption = join("Noise ", quiet("(", untrusted(self.noise.distribution), ")"))
        heads = ("item", "numbers", "standard deviation")
        return table(caption, heads, rows, numeric=(1, 2)), Note(NOISE_NOTE)
