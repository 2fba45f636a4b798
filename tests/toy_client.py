"""The client's half of `toy_kind`: this file, and `registry.register(FilledRequest)`."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyst_client.kinds.arrays import Statistic
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.kinds.request import PricedRequest
from analyst_client.schema.quotes import AnyQuote


@dataclass(frozen=True, eq=False, repr=False)
class FilledRelease(PublishedAnswer):
    kind = "filled"
    rows: Statistic

    @property
    def by_column(self) -> dict[str, float]:
        return dict(zip(self.request["columns"], self.rows.tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class FilledRequest(PricedRequest[FilledRelease, AnyQuote]):
    columns: Sequence[str]
