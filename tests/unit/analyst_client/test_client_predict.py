"""Predictions from raw rows: frames and arrays, clipping, levels, missing values."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyst_client import OLS, Column, Release

AGE = Column.numeric("age", 50, 100, unit="years")
SEX = Column.categorical("sex", ["F", "M"])
MGUS = Column.boolean("mgus", ("no", "yes"))
FRAME = pd.DataFrame({"id": [1, 2, 3], "mgus": ["no", "yes", "no"], "sex": ["M", "F", "F"], "age": [75, 100, 120]})


def fit_of(coefficients: list[float], *features: Column) -> OLS:
    """Return a fit with the given scaled coefficients, the constant's first."""
    return OLS().fit(Release.from_arrays(np.eye(len(coefficients)), coefficients, features=features))


@pytest.fixture
def fit() -> OLS:
    return fit_of([0.5, 0.25, 1.0, 2.0], AGE, SEX, MGUS)


def test_frame_columns_are_found_by_name_and_others_ignored(fit: OLS) -> None:
    assert fit.predict(FRAME, clip=True).tolist() == [1.5, 2.75, 0.75]


def test_array_columns_stand_in_the_order_of_the_features(fit: OLS) -> None:
    rows = np.array([[75, "M", "no"], [100, "F", "yes"], [120, "F", "no"]], dtype=object)
    assert fit.predict(rows, clip=True).tolist() == [1.5, 2.75, 0.75]


def test_list_of_rows_is_an_array(fit: OLS) -> None:
    assert fit.predict([[75, "M", False]]).tolist() == [1.5]


def test_values_are_clipped_to_public_bounds_unless_told_otherwise(fit: OLS) -> None:
    beyond = FRAME.iloc[[2]]
    assert fit.predict(beyond, clip=True).tolist() == [0.75]
    assert fit.predict(beyond, clip=False) == pytest.approx([0.5 + 0.25 * 45 / 25])


def test_infinite_value_is_clipped_too() -> None:
    assert fit_of([0.0, 1.0], AGE).predict([[math.inf], [-math.inf]], clip=True).tolist() == [1.0, -1.0]


def test_column_without_bounds_is_not_clipped() -> None:
    assert fit_of([0.0, 1.0], Column.numeric("x")).predict([[7.0]]).tolist() == [7.0]


def test_prediction_agrees_with_raw_coefficients(fit: OLS) -> None:
    rows = np.array([[60, 1.0, 0.0], [90, 0.0, 1.0]])
    frame = pd.DataFrame({"age": [60, 90], "sex": ["M", "F"], "mgus": [False, True]})
    assert fit.predict(frame) == pytest.approx(rows @ fit.coef_ + fit.intercept_)


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [False, True], [0, 1], [0.0, 1.0], np.array([False, True]), pd.array([False, True], "boolean")],
    ids=str,
)
def test_boolean_is_read_from_labels_flags_and_numbers(labels: Any) -> None:
    assert fit_of([0.0, 1.0], MGUS).predict(pd.DataFrame({"mgus": labels})).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("kind", ["object", "str", "category"])
def test_category_is_read_from_every_kind_of_series(kind: str) -> None:
    frame = pd.DataFrame({"sex": pd.Series(["F", "M"], dtype=kind)})
    assert fit_of([0.0, 1.0], SEX).predict(frame).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("years", [[1995, 1996], [1995.0, 1996.0], ["1995", "1996"]])
def test_levels_that_look_like_numbers_are_read_from_numbers(years: Any) -> None:
    fit = fit_of([0.0, 1.0], Column.categorical("year", ["1995", "1996"]))
    assert fit.predict(pd.DataFrame({"year": years})).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", ["X", "f", "", 1, True])
def test_unknown_level_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=f"column 'sex' has no level {value!r}; declared: F, M"):
        fit_of([0.0, 1.0], SEX).predict([[value]])


@pytest.mark.parametrize("value", [2, -1, "maybe", 0.5])
def test_unknown_label_of_a_boolean_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match="column 'mgus' has no level"):
        fit_of([0.0, 1.0], MGUS).predict([[value]])


@pytest.mark.parametrize("value", ["75", "old", b"75", [75], object()])
def test_value_that_is_no_number_is_named(value: Any) -> None:
    rows = np.empty((1, 1), dtype=object)
    rows[0, 0] = value
    with pytest.raises(ValueError, match="column 'age' is numeric"):
        fit_of([0.0, 1.0], AGE).predict(rows)


MISSING = [None, math.nan, pd.NA, pd.NaT, np.float64("nan")]


@pytest.mark.parametrize("value", MISSING, ids=repr)
@pytest.mark.parametrize("rule", ["omit", "complete"])
@pytest.mark.parametrize("column", [AGE, SEX, MGUS], ids=lambda column: column.name)
def test_missing_value_of_a_required_column_predicts_nan(column: Column, rule: str, value: Any) -> None:
    declared = Column(**{**vars(column), "missing": rule})
    known = {"age": 75, "sex": "F", "mgus": "no"}[column.name]
    predicted = fit_of([0.5, 1.0], declared).predict([[known], [value]])
    assert predicted[0] == 0.5
    assert math.isnan(predicted[1])


@pytest.mark.parametrize("value", MISSING, ids=repr)
@pytest.mark.parametrize("column", [AGE, SEX, MGUS], ids=lambda column: column.name)
def test_missing_value_at_the_midpoint_adds_nothing(column: Column, value: Any) -> None:
    declared = Column(**{**vars(column), "missing": "midpoint"})
    assert fit_of([0.5, 1.0], declared).predict([[value]]).tolist() == [0.5]


@pytest.mark.parametrize("column", [AGE, SEX, MGUS], ids=lambda column: column.name)
def test_missing_value_with_an_indicator_adds_its_coefficient(column: Column) -> None:
    declared = Column(**{**vars(column), "missing": "indicator"})
    known = {"age": 100, "sex": "M", "mgus": "yes"}[column.name]
    assert fit_of([0.5, 1.0, 4.0], declared).predict([[known], [None]]).tolist() == [1.5, 4.5]


def test_nullable_series_of_pandas_are_read() -> None:
    frame = pd.DataFrame({"age": pd.array([75, None], "Int64"), "sex": pd.array(["M", None], "string")})
    predicted = fit_of([0.5, 1.0, 2.0], AGE, SEX).predict(frame)
    assert predicted[0] == 2.5
    assert math.isnan(predicted[1])


def test_absent_column_is_named(fit: OLS) -> None:
    with pytest.raises(ValueError, match="the frame has no column 'sex', 'mgus'"):
        fit.predict(FRAME[["age"]])


@pytest.mark.parametrize("rows", [[75, "M", "no"], [[75, "M"]], np.zeros((2, 2, 3)), 3.0])
def test_array_of_another_shape_is_refused(fit: OLS, rows: Any) -> None:
    with pytest.raises(ValueError, match=r"X must have the 3 column\(s\) age, sex, mgus"):
        fit.predict(rows)


def test_no_rows_make_no_predictions(fit: OLS) -> None:
    assert fit.predict(FRAME.iloc[:0]).shape == (0,)


def test_constant_alone_predicts_itself() -> None:
    fit = OLS().fit(Release.from_arrays([[2.0]], [1.0]))
    assert fit.predict(pd.DataFrame(index=range(3))).tolist() == [0.5] * 3
    assert fit.predict(np.empty((2, 0))).tolist() == [0.5] * 2


def test_score_leaves_out_rows_that_cannot_be_predicted() -> None:
    fit = fit_of([0.0, 1.0], AGE)
    assert fit.score([[50], [75], [100], [None], [60]], [-1.0, 0.0, 1.0, 5.0, math.nan]) == 1.0


def test_score_needs_rows_that_differ() -> None:
    with pytest.raises(ValueError, match="values of y that differ"):
        fit_of([0.0, 1.0], AGE).score([[50], [75]], [1.0, 1.0])


def test_score_needs_as_many_targets_as_rows() -> None:
    with pytest.raises(ValueError, match="X has 2 rows and y 1"):
        fit_of([0.0, 1.0], AGE).score([[50], [75]], [1.0])


def mapped_fit(row_map: str, coefficients: list[float]) -> OLS:
    """Return a fit with the given scaled coefficients on a release whose rows were mapped."""
    columns = [Column.numeric("a", -1, 3), Column.numeric("b", -2, 2)]
    targets = [Column.numeric("y", -10, 10)]
    release = Release.from_arrays(
        np.eye(len(coefficients)), coefficients, features=columns, targets=targets, constant=len(coefficients) == 3
    )
    return OLS().fit(replace(release, request={"rows": {"map": row_map}}))


def test_under_unit_predictions_are_linear_in_the_direction_of_a_row() -> None:
    fit = mapped_fit("unit", [0.1, 0.5, 0.25])
    # Scaled rows (0.3, 0.4), (−0.6, −0.8) and (0, 0): their directions are (0.6, 0.8), its negative, and none.
    predicted = fit.predict([[1.6, 0.8], [-0.2, -1.6], [1.0, 0.0]])
    assert predicted == pytest.approx([10 * 0.6, 10 * -0.4, 10 * 0.1])
    assert fit.coef_ == pytest.approx([5.0, 2.5])


def test_under_unit_xy_predictions_are_linear_in_the_row() -> None:
    without = mapped_fit("unit_xy", [0.5, 0.25])
    assert without.predict([[1.6, 0.8]]) == pytest.approx([10 * (0.5 * 0.3 + 0.25 * 0.4)])
    assert without.predict([[1.6, 0.8]]) == pytest.approx(np.array([1.6, 0.8]) @ without.coef_ + without.intercept_)
    with_constant = mapped_fit("unit_xy", [0.1, 0.5, 0.25])
    assert with_constant.predict([[1.6, 0.8]]) == pytest.approx([10 * (0.1 * 0.5 + 0.5 * 0.3 + 0.25 * 0.4)])
