"""The row map of a request that names none: one of three, by how far the expected rows outweigh the noise.

Noise grows with the norm that rows are shrunk to. A small norm has its price too: rows beyond it count for less, so
what is fitted is the best linear prediction of weighted rows, and standard errors are upper bounds (docs/inference.md).
So the norm is small only where noise is the larger error; `python -m bench.norms` measures what that gains.
"""

import math
from collections.abc import Mapping
from typing import Any

from curator_service.privacy.design import Design
from curator_service.privacy.row_maps import small_norm

SMALL_BELOW = 120
"""Rows for each unit of variance of the noise in an entry of Xᵀy. Each row adds 1/120 to the entry's sampling variance
where the feature has a deviation of 0.45 and the residual of 0.2, scaled: with fewer rows noise is the larger error."""
BOX_FROM = 2000
"""With so many, noise under `box` is 6 % of sampling error there, and a ball gains nothing."""
CAPACITY_SHARE = 0.25
"""A capacity is a round number above what its admin expects. Too small a guess costs less than too large a one where
bounds are loose, as declared bounds often are."""
WIDE_SHARE = 0.75
"""Of the squared norm of the longest possible row. No w² is below it, so standard errors are at most 15 % too large."""


def default_row_maps(design: Design) -> tuple[dict[str, Any], ...]:
    """Return the row maps that a request may mean when it names none: a small ball, a wide ball, and the box.

    Examples
    --------
    >>> from curator_service.privacy.design import Column, make_design
    >>> columns = tuple(Column.number(name) for name in "abcdefg")
    >>> [rows.get("norm", rows["map"]) for rows in default_row_maps(make_design(columns, (), intercept=True))]
    [1.3038404810405297, 2.449489742783178, 'box']
    """
    small = small_norm(design)
    wide = max(small, math.sqrt(WIDE_SHARE * design.group_count))
    return {"map": "ball", "norm": small}, {"map": "ball", "norm": wide}, {"map": "box"}


def choose_row_map(
    design: Design, noise_sd: Mapping[str, float], *, expected_rows: int | None, row_capacity: int
) -> dict[str, Any]:
    """Choose one of the defaults, from public numbers and the analyst's guess.

    Parameters
    ----------
    noise_sd : mapping of str to float
        Standard deviations under the small ball, as quotes state them.
    expected_rows : int or None
        The analyst's guess. None: `CAPACITY_SHARE` of the capacity, and never the box.
    """
    small, wide, box = default_row_maps(design)
    norm_squared = small["norm"] ** 2
    if "xty" in noise_sd:
        unit = noise_sd["xty"] ** 2 / norm_squared
    elif "xtx_offdiagonal" in noise_sd:  # as large as that of Xᵀy would be for the same share of the price
        unit = 2 * noise_sd["xtx_offdiagonal"] ** 2 / norm_squared**2
    else:
        return small
    rows = CAPACITY_SHARE * row_capacity if expected_rows is None else min(expected_rows, row_capacity)
    if expected_rows is not None and rows >= BOX_FROM * unit * design.group_count:
        return box
    return small if rows < SMALL_BELOW * unit * norm_squared else wide
