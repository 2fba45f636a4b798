"""A guess of the rows is a number of rows, wherever it is stated; nothing is asked with another one."""

import math
from typing import Any

import pytest

from analyst_client.schema.requests import ROWS_MAX, check_expected_rows
from analyst_client.tutorial import recorded_client


@pytest.mark.parametrize("rows", [0, -1, 0.5, 1e300, ROWS_MAX + 1, math.nan, math.inf, "many", True, [5]])
def test_what_is_no_number_of_rows_is_refused_before_anything_is_asked(rows: Any) -> None:
    client = recorded_client("one_call")
    features = ["age", "sex", "creatinine"]
    calls = (
        lambda: client.refine("flchain", features, target="kappa", epsilon=1.0, delta=1e-6, expected_rows=rows),
        lambda: client.quote("flchain", features, target="kappa", epsilon=1.0, delta=1e-6, expected_rows=rows),
        lambda: client.fit(features, target="kappa", data="flchain", epsilon=1.0, yes=True, expected_rows=rows),
    )
    for call in calls:
        with pytest.raises(ValueError, match="expected_rows is a number of rows from 1 to 1,000,000,000,000"):
            call()


def test_a_number_of_rows_is_kept() -> None:
    assert [check_expected_rows(rows) for rows in (None, 1, 6500, 1e6)] == [None, 1, 6500, 1e6]
