"""A release of a score: one published answer, at which coefficients and through which directions it was taken."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.display.model import Block, Inline, Note, aligned, folded, number, quiet, table, untrusted
from analyst_client.kinds.arrays import frozen, read_values, unpack_symmetric
from analyst_client.kinds.published import PublishedAnswer
from analyst_client.kinds.score import KIND, MEAT, NORMS, SCORE
from analyst_client.kinds.score.posted import PostedScore
from analyst_client.kinds.score.quote import UNIT_NOTE
from analyst_client.schema.wire import Fields

NORM_EDGES = tuple(1.6**step for step in range(-8, 4))
"""Edges of the histogram of norms, in units of the norm to which gradients are clipped."""


@dataclass(frozen=True, eq=False, repr=False)
class ScoreRelease(PostedScore, PublishedAnswer):
    r"""The noisy score of a loss: the sum over rows of its gradient, through directions, each clipped to a norm.

    A row with the scaled terms x has the residual r of the loss at xᵀθ, the gradient :math:`g = rP^\top x` through the
    directions P, and counts as :math:`g\min(1, 1/\lVert g\rVert)`. Here P is what the curator used, over the norm that
    was asked: so all is in units of that norm, and `score` times it is in units of the directions that were asked. The
    sign is that of a step upwards: adding to θ along the score makes the loss smaller.

    Made by `CuratorClient.release` with a `ScoreRequest`, with terms in the order that was asked; by `load` or
    `CuratorClient.fetch_release` in that of the curator. Arrays are read-only; a statistic that was not asked is None.
    Two releases are equal when their texts are. Text, cost and receipt: see `PublishedAnswer`.

    Attributes
    ----------
    score : ndarray of shape (k,) or None
        Σ ω g of the clipped gradients g and weights ω of rows, one number for each direction.
    norms : ndarray of shape (13,) or None
        Rows, or their weight, by the norm of their gradient before it was clipped: below the first of `norm_edges`,
        from each edge to the next, and from the last on.
    meat : ndarray of shape (k, k) or None
        Σ ω² g gᵀ of the clipped gradients.
    coefficients : ndarray of shape (D,)
        θ as the curator used it, exactly; 0 for terms that were left out.
    directions : ndarray of shape (D, k)
        P over the norm, as the curator used it, exactly.
    terms : tuple of Term
        D of them, the constant first if there is one: x is in their scaled units.
    target : Term
    columns : tuple of Column
        Columns that terms are made of, and a target that is computed.
    loss : str
        ``"linear"``, ``"logistic"`` or ``"poisson"``.
    statistics : tuple of str

    Examples
    --------
    >>> from analyst_client.kinds import ScoreRequest
    >>> from analyst_client.tutorial import recorded_client
    >>> client = recorded_client("methods")
    >>> directions = {"(constant)": [1, 0], "age": [0, 1]}
    >>> options = {"directions": directions, "norm": 2.0, "epsilon": 0.5, "delta": 1e-6}
    >>> request = ScoreRequest(["age"], "kappa", coefficients={"age": 0.3}, **options)
    >>> client.release("flchain", request).score.round().tolist()
    [-1579.0, 607.0]
    """

    kind = KIND
    score: FloatArray | None
    norms: FloatArray | None
    meat: FloatArray | None

    @property
    def norm_edges(self) -> FloatArray:
        """The 12 edges between the numbers of `norms`, in units of the norm to which gradients are clipped.

        The ninth is 1: rows from there on were clipped.
        """
        return frozen(np.array(NORM_EDGES))

    @classmethod
    def read_stated(cls, body: Fields) -> dict[str, Any]:
        """Read what was posted, and the statistics; raise `ServiceError` where something is wrong."""
        posted = super().read_stated(body)
        statistics, count = body.object("statistics"), posted["posted"].directions.count
        meat = _read(statistics, posted, MEAT, [count, count], count * (count + 1) // 2)
        return posted | {
            "score": _read(statistics, posted, SCORE, [count], count),
            "norms": _read(statistics, posted, NORMS, [len(NORM_EDGES) + 1], len(NORM_EDGES) + 1),
            "meat": None if meat is None else frozen(unpack_symmetric(meat, count)),
        }

    def _blocks(self) -> list[Block]:
        return [
            self.noise.table(self.posted.directions.count),
            *self._list_statistics(),
            Note(UNIT_NOTE),
            folded(f"Terms ({len(self.terms):,})", self._list_terms()),
        ]

    def _list_statistics(self) -> list[Block]:
        shown: list[Block] = []
        if self.score is not None:
            rows = [(str(k), value) for k, value in enumerate(aligned(self.score.tolist()), 1)]
            shown.append(table("Score", ("direction", "sum of gradients"), rows, numeric=(0, 1)))
        if self.norms is not None:
            edges = [number(edge) for edge in NORM_EDGES]
            starts, ends = ["0", *edges], [*edges, "∞"]
            values = aligned(self.norms.tolist())
            cells = [(f"{a} to {b}", value) for a, b, value in zip(starts, ends, values, strict=True)]
            shown.append(table("Norms of gradients", ("norm", "rows"), cells, numeric=(1,)))
        return shown

    def _list_terms(self) -> Block:
        rows: list[list[Inline]] = [
            [untrusted(term.name), number(term.center), number(term.scale), number(float(value))]
            for term, value in zip(self.terms, self.coefficients, strict=True)
        ]
        caption = quiet("A raw value x stands in a row as (x − center) / scale")
        return table(caption, ("term", "center", "scale", "coefficient"), rows, numeric=(1, 2, 3))


def _read(statistics: Fields, posted: dict[str, Any], name: str, shape: list[int], size: int) -> FloatArray | None:
    """Read a statistic that was asked for; None where it was not."""
    if name not in posted["statistics"]:
        return None
    values = read_values(statistics, name, shape, size, "upper" if len(shape) == 2 else "full")
    if values is None:
        raise statistics.fault(name, "there, as it was asked for")
    return values
