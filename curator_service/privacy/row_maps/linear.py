"""Rows of combinations of terms, shrunk into the ball of norm 1.

The weights are the analyst's own: they recentre, rescale or whiten terms by public numbers, or by numbers that were
paid for. Whatever they are, a row's combinations are rounded to the lattice, and then shrunk as `Ball` does, to a norm
of q exactly; targets are shrunk alike. So weights decide what is measured, and never how far a row can move it.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from curator_service.privacy.combinations import BITS_MAX, WEIGHTS_MAX
from curator_service.privacy.row_maps.ball import Ball
from curator_service.privacy.row_maps.base import Rows

TermName = Annotated[str, Field(min_length=1, max_length=2000)]
Weight = Annotated[int, Field(ge=-WEIGHTS_MAX, le=WEIGHTS_MAX)]
BitsModel = Annotated[int, Field(ge=0, le=BITS_MAX, description="Binary digits of a weight behind the point")]
WeightsModel = Annotated[dict[TermName, Weight], Field(max_length=1000)]
"""One number for each term; a term that is not named has 0."""
MatrixModel = Annotated[
    dict[TermName, Annotated[list[Weight], Field(min_length=1, max_length=1000)]], Field(min_length=1, max_length=1000)
]
"""A list of numbers for each term, as many as there are combinations; a term that is not named has zeros."""


class LinearRows(Rows):
    """Combinations of terms, whose weights are whole numbers over a power of two, shrunk to a norm of 1."""

    map: Literal["linear"]
    bits: BitsModel
    matrix: MatrixModel
    row_map: ClassVar = Ball.of_norm(1.0)  # whatever the weights are: the design has the combinations
