"""The request of noisy tables."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from analyst_client.kinds.counts.axes import Axis
from analyst_client.kinds.counts.quote import CountsQuote
from analyst_client.kinds.counts.release import CountsRelease
from analyst_client.kinds.parts import PartsRequest
from analyst_client.terms.expression import Expression, sort_key

AxisAsked: TypeAlias = str | Expression | Axis
TableAsked: TypeAlias = AxisAsked | Sequence[AxisAsked]
AXES_MAX = 3


@dataclass(frozen=True, repr=False)
class CountsRequest(PartsRequest[CountsRelease, CountsQuote]):
    """A request of noisy counts: one or more tables, each of one to three columns, at one cost.

    Which rows count, the cost, and who is charged: see `PricedRequest`.

    Parameters
    ----------
    tables : sequence
        A table is the name of a column, what `analyst_client.terms` computes of some, an `Axis`, or a sequence of
        these: ``["sex", "age"]`` are two tables, ``[["sex", "age"]]`` is one of two axes. A number needs an `Axis`,
        with edges or bins.
    shares : sequence of float, optional
        Parts of the cost, one for each table, which sum to 1. Default equal ones.

    Raises
    ------
    ValueError
        When the arguments contradict each other, or one makes no sense.

    Examples
    --------
    >>> request = CountsRequest(["sex", ["sex", Axis("age", edges=[50, 60, 70, 101])]], epsilon=1.0, delta=1e-6)
    >>> request.members["tables"][1]["axes"]
    [{'column': 'sex'}, {'column': 'age', 'edges': [50.0, 60.0, 70.0, 101.0]}]
    """

    part = "table"
    tables: Sequence[TableAsked]

    @cached_property
    def axes(self) -> tuple[tuple[Axis, ...], ...]:
        """Axes of each table. Sequences are read once."""
        if isinstance(self.tables, str | Axis | Expression):
            raise ValueError(f"tables is a list: one table is CountsRequest([{self.tables!r}], …)")  # noqa: TRY004 -- one kind of error for arguments
        asked = []
        for table in self.tables:
            parts = [table] if isinstance(table, str | Axis | Expression) else list(table)
            axes = tuple(part if isinstance(part, Axis) else Axis(part) for part in parts)
            if not 1 <= len(axes) <= AXES_MAX or len({sort_key(axis.expression) for axis in axes}) < len(axes):
                raise ValueError(f"a table has one to {AXES_MAX} axes, each of another column")
            asked.append(axes)
        if not asked:
            raise ValueError("at least one table is needed")
        if len({frozenset(json.dumps(axis.members) for axis in axes) for axes in asked}) < len(asked):
            raise ValueError("two tables have the same axes: it would be charged twice")
        return tuple(asked)

    @property
    def parts(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes of each table."""
        return self.axes

    @staticmethod
    def vagueness(asked: Sequence[Axis]) -> int:
        """Return how many axes have equal bins: such an axis could take the answer of one with edges of its own."""
        return sum(axis.bins is not None for axis in asked)

    def _asked_members(self) -> dict[str, Any]:
        return {"tables": [{"axes": [axis.members for axis in axes]} for axes in self.axes]}
