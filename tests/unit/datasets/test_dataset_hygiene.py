"""k-anonymity and l-diversity of stored rows, against pandas; which rows they are about; what is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from descriptions import declare
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_service.datasets.batches import MARK, Batch
from curator_service.datasets.hygiene import (
    PEOPLE,
    VALUES,
    Hygiene,
    HygieneError,
    QuasiIdentifier,
    check_columns,
    measure,
)
from curator_service.datasets.manifest import Manifest
from curator_service.privacy.lattice import MISSING, to_stored

MANIFEST = declare()
SEX, AGE, REGION = QuasiIdentifier("sex"), QuasiIdentifier("age", 5), QuasiIdentifier("region")
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(40, 110)), st.sampled_from([0, 1, 2]), st.sampled_from([MISSING, 0, 1, 2])
    ),
    min_size=1,
    max_size=60,
)


def batches(frame: pd.DataFrame, size: int = 7) -> Iterator[Batch]:
    for start in range(0, len(frame), size):
        part = frame.iloc[start : start + size]
        yield {str(name): part[name].to_numpy(dtype=np.int32) for name in frame}, len(part)


def stored(rows: list[tuple[float | None, int, int]]) -> pd.DataFrame:
    ages = np.array([np.nan if age is None else age for age, _, _ in rows])
    frame = pd.DataFrame({"age": to_stored(ages, 50.0, 100.0)})
    return frame.assign(sex=[sex for _, sex, _ in rows], region=[region for _, _, region in rows])


def shared(rows_per_subject: int) -> Manifest:
    return MANIFEST.model_copy(update={"subject": "patient", "rows_per_subject": rows_per_subject})


def found(frame: pd.DataFrame, *quasi: QuasiIdentifier, manifest: Manifest = MANIFEST, **options: Any) -> Hygiene:
    return measure(manifest, batches(frame), quasi, options.get("sensitive", []))


@given(ROWS)
@settings(deadline=None)
def test_classes_are_those_that_pandas_groups(rows: list[tuple[float | None, int, int]]) -> None:
    bands = pd.cut(
        np.clip([np.nan if age is None else age for age, _, _ in rows], 50, 100),
        [50, 60, 70, 80, 90, 100.001],
        right=False,
        labels=False,
    )
    frame = stored(rows)
    groups = frame.assign(age=bands).groupby(["age", "sex"], dropna=False)
    sizes = groups.size()
    values = groups["region"].nunique()
    answer = found(frame, AGE, SEX, sensitive=["region"])
    assert (answer.rows, answer.classes, answer.smallest_rows) == (len(frame), len(sizes), sizes.min())
    assert [(b.threshold, b.classes, b.rows) for b in answer.below] == [
        (k, (sizes < k).sum(), sizes[sizes < k].sum()) for k in PEOPLE
    ]
    (diverse,) = answer.diversity
    assert diverse.fewest == values.min()
    assert [(b.classes, b.rows) for b in diverse.below] == [
        ((values < least).sum(), sizes[values < least].sum()) for least in VALUES if least <= 4
    ]


def test_an_uncut_number_is_told_apart_to_the_last_bit() -> None:
    frame = pd.DataFrame({"age": np.array([2**30, 2**30 - 1, -(2**30), MISSING, MISSING])})
    assert found(frame, QuasiIdentifier("age")).classes == 4


def test_bins_are_those_of_the_declared_bounds_and_hold_the_last_one() -> None:
    frame = pd.DataFrame({"age": to_stored(np.array([50.0, 59.9, 60.0, 99.0, 100.0, 140.0]), 50.0, 100.0)})
    answer = found(frame, AGE)
    assert (answer.classes, answer.smallest_rows) == (3, 1)


def test_a_missing_value_is_a_value_of_its_own() -> None:
    frame = stored([(60.0, 0, 1), (60.0, 0, MISSING)])
    assert found(frame, REGION).classes == 2
    assert found(frame, SEX, sensitive=["region"]).diversity[0].fewest == 2


def test_rows_beyond_a_persons_share_are_left_out_and_counted() -> None:
    frame = stored([(60.0, 0, 1)] * 3 + [(60.0, 1, 1)]).assign(**{MARK: [1, 0, 0, 1]})
    answer = found(frame, SEX, manifest=shared(1))
    assert (answer.rows, answer.left_out, answer.smallest_rows) == (2, 2, 1)


def test_several_rows_of_a_person_are_not_taken_for_several_people() -> None:
    frame = stored([(60.0, 0, 1)] * 6).assign(**{MARK: 1})
    answer = found(frame, SEX, manifest=shared(3))
    assert (answer.smallest_rows, answer.smallest_people) == (6, 2)
    assert [(b.threshold, b.classes) for b in answer.below] == [(2, 0), (3, 1), (5, 1), (10, 1)]


def test_a_threshold_that_no_class_can_reach_is_not_shown() -> None:
    answer = measure(MANIFEST, batches(stored([(60.0, 0, 1)]).assign(alive=1)), [AGE], ["alive", "region"])
    assert [[b.threshold for b in diverse.below] for diverse in answer.diversity] == [[2], [2, 3]]


@pytest.mark.parametrize(
    ("quasi", "sensitive", "message"),
    [
        ([QuasiIdentifier("zip")], [], "there is no column 'zip'; declared: age, sex"),
        ([SEX, SEX], [], "named twice"),
        ([SEX], ["sex"], "named twice"),
        ([QuasiIdentifier("sex", 3)], [], "not numeric"),
        ([QuasiIdentifier("age", 0)], [], "1 to 1000 bins"),
        ([QuasiIdentifier("age", 1001)], [], "1 to 1000 bins"),
    ],
)
def test_what_does_not_fit_the_declarations_is_refused(quasi: list[Any], sensitive: list[str], message: str) -> None:
    with pytest.raises(HygieneError, match=message):
        check_columns(MANIFEST, quasi, sensitive)
