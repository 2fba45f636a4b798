"""A release of counts: one published answer with its tables."""

from dataclasses import dataclass

from analyst_client.arrays import FloatArray
from analyst_client.display.model import Block, Note
from analyst_client.kinds.counts import KIND
from analyst_client.kinds.counts.consistency import fit_consistent
from analyst_client.kinds.counts.quote import Tables
from analyst_client.kinds.counts.table import NOTE, Table, list_cells, read_table
from analyst_client.kinds.parts import PartsRelease


@dataclass(frozen=True, eq=False, repr=False)
class CountsRelease(Tables, PartsRelease):
    """Noisy counts of a dataset's rows: one or more tables, and their terms of use.

    Made by `CuratorClient.release` with a `CountsRequest`, in the order that was asked; by `load` or
    `CuratorClient.fetch_release` in that of the curator. Two releases are equal when their texts are. Text, cost
    and receipt: see `PublishedAnswer`.

    Attributes
    ----------
    tables : tuple of Table

    Examples
    --------
    >>> from analyst_client import Axis, CountsRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> request = CountsRequest([["sex", Axis("age", edges=[50, 60, 70, 100])]], epsilon=0.5, delta=1e-6)
    >>> release = client.release("flchain", request)
    >>> release.tables[0].values.round().tolist()
    [[1639.0, 1208.0, 1479.0], [1496.0, 1121.0, 898.0]]
    """

    kind = KIND
    _read_numbers = staticmethod(read_table)
    tables: tuple[Table, ...]

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

    def _blocks(self) -> list[Block]:
        return [*map(list_cells, self.tables), Note(NOTE)]
