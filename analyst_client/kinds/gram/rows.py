"""Row maps as they are asked for: by name, as on the wire, or as combinations of one's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from analyst_client.arrays import FloatArray
from analyst_client.kinds.combinations import BITS_MAX, Combinations

LINEAR = "linear"
"""Row map of combinations of terms."""


@dataclass(frozen=True)
class CombinedRows:
    r"""Rows of k combinations of terms, which recentre, rescale or whiten them by numbers of one's own.

    A row of scaled terms z becomes :math:`v_k = \sum_j w_{jk}z_j`; then v and the targets are multiplied by
    :math:`\min(1, 1/\lVert v\rVert)`. The noise is that of k terms in a ball of norm 1, whatever the weights are. They
    are ``matrix / norm``: so `norm` is how long z @ matrix may be without being shrunk.

    Parameters
    ----------
    matrix : mapping of str to sequence of float
        Numbers, k for each term, by the name that a quote states, such as ``"(constant)"`` or ``"sex[M]"``; a term that
        is left out has zeros.
    norm : float
        Divides the matrix.
    bits : int
        Most binary digits of a weight behind the point, from 0 to 30. Fewer make a body of 64 KiB hold more weights.

    Attributes
    ----------
    posted : dict of str to ndarray of shape (k,)
        The weights that the curator will use: rounded to whole numbers over a power of two, with all bits that can be
        posted.

    Raises
    ------
    ValueError
        When there are no weights, or not as many for each term, or they cannot be posted.

    Examples
    --------
    >>> rows = CombinedRows({"(constant)": [1.0, -0.2], "age": [0.0, 1.6]}, norm=2.0)
    >>> {name: row.round(6).tolist() for name, row in rows.posted.items()}
    {'(constant)': [0.5, -0.1], 'age': [0.0, 0.8]}
    """

    matrix: Mapping[str, Sequence[float]]
    norm: float = 1.0
    bits: int = BITS_MAX

    def __post_init__(self) -> None:
        """Refuse what cannot be posted. Sequences are read once."""
        _ = self.combinations

    @cached_property
    def combinations(self) -> Combinations:
        """The weights as they are posted."""
        return Combinations.nearest(self.matrix, "weights", norm=self.norm, bits=self.bits)

    @property
    def posted(self) -> dict[str, FloatArray]:
        """The weights that the curator will use."""
        return self.combinations.values

    @property
    def members(self) -> dict[str, Any]:
        """The row map as on the wire."""
        return {"map": LINEAR, **self.combinations.members}


Rows: TypeAlias = str | Mapping[str, Any] | CombinedRows


def row_map(rows: Rows | None, norm: float | None) -> dict[str, Any]:
    """Return the row map as on the wire; a norm alone is the ball's."""
    if isinstance(rows, CombinedRows):
        chosen = rows.members
    else:
        chosen = {"map": rows or "ball"} if rows is None or isinstance(rows, str) else dict(rows)
    if norm is not None:
        if chosen.get("map") != "ball" or "norm" in chosen:
            raise ValueError("norm goes with rows='ball', once")
        chosen["norm"] = float(norm)
    return chosen


def asked_combinations(request: Mapping[str, Any]) -> Combinations | None:
    """Return the combinations that a request asks for; None for another row map."""
    rows = request.get("rows")
    if not isinstance(rows, Mapping) or rows.get("map") != LINEAR:
        return None
    return Combinations.canonical(rows["matrix"], rows["bits"])
