"""A release of counts: one published answer with its tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analyst_client.display.model import Note, View, facts, join, quiet, untrusted
from analyst_client.display.terminal import plain
from analyst_client.kinds.arrays import FloatArray
from analyst_client.kinds.counts import KIND
from analyst_client.kinds.counts.axes import Axis, match_tables, read_shapes
from analyst_client.kinds.counts.consistency import fit_consistent
from analyst_client.kinds.counts.table import NOTE, Table, list_cells, read_table
from analyst_client.kinds.published import PublishedAnswer, list_published
from analyst_client.schema.amounts import write_cost
from analyst_client.schema.quotes import list_request
from analyst_client.schema.receipts import fold_receipt
from analyst_client.schema.wire import Fields


@dataclass(frozen=True, eq=False, repr=False)
class CountsRelease(PublishedAnswer):
    """Noisy counts of a dataset's rows: one or more tables, and their terms of use.

    Made by `CuratorClient.release` with a `CountsRequest`, in the order that was asked; by `load` or
    `CuratorClient.fetch_release` in that of the curator. Two releases are equal when their texts are.

    Text, request, cost, receipt and way of the answer are stated as by `Release`.

    Attributes
    ----------
    tables : tuple of Table
    """

    _kind = KIND
    tables: tuple[Table, ...]

    def __repr__(self) -> str:
        """Show what was counted, and its cost."""
        cost = "" if self.cost is None else f", epsilon={self.cost.epsilon:.4g}, delta={self.cost.delta:.4g}"
        return plain(f"<CountsRelease {self.id} of {self.dataset!r}: {self._titles}{cost}>")

    @property
    def _titles(self) -> str:
        return ", ".join(counts.title for counts in self.tables)

    def consistent(self) -> tuple[FloatArray, ...]:
        r"""Return counts that contradict neither each other nor what a count is, one array for each table.

        The closest to the noisy values, by squares weighted with 1/sd², among those that some rows could have: none is
        negative, and tables that share columns agree on what they share. `tables` keeps the raw values, which alone
        have intervals. It is made of what was released and costs nothing.

        Raises
        ------
        ValueError
            When the tables together have too many cells.

        Notes
        -----
        Unknown are the counts :math:`x\ge0` of the joint cells of all columns of tables that share columns, with
        a cell for whatever an axis leaves out; a table is a sum :math:`M_tx` of these, and :math:`x` minimises
        :math:`\sum_t |(M_tx-y_t)/s_t|^2`. Where tables overlap their averaged estimates have less noise than either.
        Forcing noise up to 0 makes sums of small cells too large: for a total, take the raw one.
        """
        return fit_consistent(self.tables)

    def arranged_as(self, asked: Sequence[Sequence[Axis]]) -> "CountsRelease":
        """Return this release with tables and axes as they were asked. Raise `ServiceError` when it has others."""
        places = match_tables(asked, self.tables)
        return replace(self, tables=tuple(self.tables[i].arranged(order) for i, order in places))

    @classmethod
    def _read_statistics(cls, body: Fields) -> dict[str, Any]:
        statistics, noise = body.object("statistics"), body.object("noise")
        return {"tables": tuple(read_table(shape, statistics, noise) for shape in read_shapes(body))}

    def __reduce__(self) -> "tuple[Callable[..., CountsRelease], tuple[Any, ...]]":
        """Pickle the text and the order: read anew, the arrays are read-only again."""
        asked = tuple(tuple(axis.as_asked for axis in counts.axes) for counts in self.tables)
        return _read_arranged, (self.text, self.answer, asked)

    def _view(self) -> View:
        stated = list_published(self)
        if self.cost is not None:
            stated.append(("cost", write_cost(self.cost)))
        return (
            facts(
                join("Release ", untrusted(f"counts of {self._titles}"), quiet(" of "), untrusted(self.dataset)),
                stated + list_request(self.request),
            ),
            *map(list_cells, self.tables),
            Note(NOTE),
            *([] if self.receipt is None else [fold_receipt(self.receipt)]),
        )


def _read_arranged(text: str, answer: str | None, asked: Sequence[Sequence[Axis]]) -> CountsRelease:
    return CountsRelease.from_text(text, answer).arranged_as(asked)
