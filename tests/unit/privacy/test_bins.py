"""A value's bin is that of a textbook search, whatever the steps by which it is found."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.bins import find_bins
from curator_service.privacy.lattice import MISSING, STORED_UNIT

CUTS = st.lists(st.integers(-STORED_UNIT, STORED_UNIT + 1), min_size=2, max_size=70, unique=True).map(sorted)


@given(CUTS, st.lists(st.integers(-STORED_UNIT, STORED_UNIT), max_size=20))
def test_a_bin_holds_what_is_between_its_cut_points(cuts: list[int], values: list[int]) -> None:
    near = [cut + move for cut in cuts for move in (-1, 0, 1)]
    stored = np.clip([MISSING, *values, *near], MISSING, 2**31 - 1).astype(np.int32)
    expected = [next((k for k in range(len(cuts) - 1) if cuts[k] <= v < cuts[k + 1]), -1) for v in stored.tolist()]
    assert find_bins(stored, np.array(cuts, dtype=np.int64)).tolist() == expected
