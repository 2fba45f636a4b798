"""The client computes an expression of raw rows as the curator does of stored ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyst_client.schema.columns import Column as ClientColumn
from analyst_client.terms.expression import read_expression
from analyst_client.terms.matching import make_rows
from analyst_client.terms.values import evaluate
from curator_service.privacy.design import Column, ColumnType, MissingRule
from curator_service.privacy.expressions import DerivedColumn, ExpressionError, derive_column, parse
from curator_service.privacy.expressions.tree import to_json
from curator_service.privacy.lattice import MISSING, STORED_UNIT, to_stored

COLUMNS = {
    column.name: column
    for column in (
        Column("age", ColumnType.NUMERIC, MissingRule.COMPLETE, 50.0, 100.0),
        Column("kappa", ColumnType.NUMERIC, MissingRule.OMIT, 0.5, 6.0),
        Column("change", ColumnType.NUMERIC, MissingRule.INDICATOR, -3.0, 2.0),
        Column("sex", ColumnType.CATEGORICAL, MissingRule.MIDPOINT, levels=("F", "M", "X")),
        Column("frail", ColumnType.BOOLEAN, MissingRule.OMIT, levels=("no", "yes")),
    )
}
ROWS = make_rows(
    [
        ClientColumn(c.name, c.type.value, c.missing.value, c.lower, c.upper, c.levels)
        if c.type is ColumnType.NUMERIC
        else ClientColumn(c.name, c.type.value, c.missing.value, levels=c.levels)
        for c in COLUMNS.values()
    ]
)
STORED = {
    name: np.where(np.isnan(ROWS[name].numbers), MISSING, np.nan_to_num(ROWS[name].numbers)).astype(np.int32)
    if column.levels
    else to_stored(ROWS[name].numbers, column.lower, column.upper)
    for name, column in COLUMNS.items()
}
NUMBERS = st.recursive(
    st.sampled_from(["age", "kappa", "change", 2, 0.5, 70]),
    lambda inner: st.one_of(
        st.builds(
            lambda op, a, b: {op: [a, b]},
            st.sampled_from(["add", "subtract", "multiply", "minimum", "maximum", "divide"]),
            inner,
            inner,
        ),
        st.builds(lambda op, a: {op: [a]}, st.sampled_from(["absolute", "negate", "log", "sqrt"]), inner),
        st.builds(lambda a: {"power": [a, 2]}, inner),
    ),
    max_leaves=5,
)
LEVELS = st.sampled_from(["sex", {"reference": ["sex", "M"]}, {"cut": ["age", [60, 70]]}, {"cut": ["kappa", [2]]}])
TRUTHS = st.recursive(
    st.one_of(
        st.just("frail"),
        st.builds(lambda a: {"missing": [a]}, st.sampled_from(["kappa", "change", "sex", "frail"])),
        st.builds(lambda a, b: {"less": [a, b]}, st.sampled_from(["age", "kappa", "change"]), st.sampled_from([1, 65])),
        st.just({"between": ["age", 60, 80]}),
        st.just({"in": ["sex", ["F", "X"]]}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: {op: [a, b]}, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(lambda a: {"not": [a]}, inner),
    ),
    max_leaves=5,
)


@given(st.one_of(NUMBERS, LEVELS, TRUTHS))
@settings(max_examples=300, deadline=None)
def test_values_of_random_expressions_agree(asked: object) -> None:
    try:
        column = derive_column(parse(asked, COLUMNS))
    except ExpressionError:
        return
    if not isinstance(column, DerivedColumn):
        return
    found = evaluate(read_expression(to_json(column.expression)), ROWS)
    stored = column.read(STORED, len(ROWS["age"].numbers))
    missing = stored == MISSING
    assert np.array_equal(np.isnan(found.numbers), missing)
    if column.type is not ColumnType.NUMERIC:
        assert found.levels == (column.levels if column.type is ColumnType.CATEGORICAL else ())
        assert np.mean(found.numbers[~missing] == stored[~missing]) > 0.99
        return
    center, scale = column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
    known = stored[~missing] / STORED_UNIT * scale + center
    assert found.numbers[~missing] == pytest.approx(known, abs=1e-6 * max(scale, abs(center)))
