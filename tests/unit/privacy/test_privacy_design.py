"""The coding of rows: which terms a request has, and what each stored row becomes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_service.privacy.design import (
    CONSTANT,
    Column,
    ColumnType,
    Design,
    MissingRule,
    TermKind,
    cached_design,
    code_rows,
    make_design,
    target_term,
)
from curator_service.privacy.lattice import MISSING, STORED_UNIT, UNIT, StoredArray

q = UNIT


def numeric(name: str, missing: MissingRule = MissingRule.OMIT) -> Column:
    return Column(name, ColumnType.NUMERIC, missing, lower=-1.0, upper=1.0)


def boolean(name: str, missing: MissingRule = MissingRule.OMIT) -> Column:
    return Column(name, ColumnType.BOOLEAN, missing, levels=("no", "yes"))


def category(name: str, count: int, missing: MissingRule = MissingRule.OMIT) -> Column:
    return Column(name, ColumnType.CATEGORICAL, missing, levels=tuple("abcdefgh"[:count]))


def stored(*values: int) -> StoredArray:
    return np.array(values, dtype=np.int32)


def code(design: Design, **columns: StoredArray) -> list[list[int]]:
    return code_rows(columns, design, len(next(iter(columns.values())))).tolist()


def test_a_category_keeps_all_levels_without_a_constant() -> None:
    design = make_design((category("c", 3, MissingRule.MIDPOINT),), (), intercept=False)
    assert [t.name for t in design.terms] == ["c[a]", "c[b]", "c[c]"]
    assert code(design, c=stored(0, 1, 2, MISSING)) == [[q, 0, 0], [0, q, 0], [0, 0, q], [0, 0, 0]]


def test_a_category_drops_its_first_level_beside_a_constant() -> None:
    design = make_design((category("c", 3, MissingRule.MIDPOINT),), (), intercept=True)
    assert [t.name for t in design.terms] == ["(constant)", "c[b]", "c[c]"]
    assert code(design, c=stored(0, 1, 2, MISSING)) == [[q, 0, 0], [q, q, 0], [q, 0, q], [q, 0, 0]]


def test_the_first_level_and_a_missing_category_differ_without_a_constant() -> None:
    design = make_design((category("c", 2, MissingRule.MIDPOINT),), (), intercept=False)
    first, missing = code(design, c=stored(0, MISSING))
    assert first == [q, 0]
    assert missing == [0, 0]


def test_a_boolean_is_zero_or_one() -> None:
    design = make_design((boolean("b", MissingRule.MIDPOINT),), (), intercept=False)
    assert code(design, b=stored(0, 1, MISSING)) == [[0], [q], [0]]


def test_a_numeric_midpoint_is_zero() -> None:
    design = make_design((numeric("x", MissingRule.MIDPOINT),), (), intercept=True)
    assert code(design, x=stored(-STORED_UNIT, MISSING, STORED_UNIT)) == [[q, -q], [q, 0], [q, q]]


def test_a_numeric_indicator_flags_a_missing_value() -> None:
    design = make_design((numeric("x", MissingRule.INDICATOR),), (), intercept=False)
    assert [t.name for t in design.terms] == ["x", "x[missing]"]
    assert code(design, x=stored(STORED_UNIT, MISSING)) == [[q, 0], [0, q]]


def test_a_boolean_indicator_flags_a_missing_value() -> None:
    design = make_design((boolean("b", MissingRule.INDICATOR),), (), intercept=False)
    assert code(design, b=stored(0, 1, MISSING)) == [[0, 0], [q, 0], [0, q]]


def test_a_category_and_its_indicator_are_one_group() -> None:
    design = make_design((category("c", 3, MissingRule.INDICATOR),), (), intercept=True)
    assert (design.group_count, design.wide_group_count) == (2, 1)
    assert code(design, c=stored(0, 1, 2, MISSING)) == [[q, 0, 0, 0], [q, q, 0, 0], [q, 0, q, 0], [q, 0, 0, q]]


def test_a_row_that_misses_an_omitting_column_is_all_zeros() -> None:
    design = make_design((numeric("x"), boolean("b", MissingRule.MIDPOINT)), (numeric("y"),), intercept=True)
    rows = code(design, x=stored(MISSING, 0, 0), b=stored(1, 1, 1), y=stored(STORED_UNIT, MISSING, STORED_UNIT))
    assert rows == [[0, 0, 0, 0], [0, 0, 0, 0], [q, 0, q, q]]


@pytest.mark.parametrize("rule", [MissingRule.MIDPOINT, MissingRule.COMPLETE])
def test_other_rules_omit_no_row(rule: MissingRule) -> None:
    design = make_design((numeric("x", rule),), (numeric("y", rule),), intercept=True)
    assert design.omitting == frozenset()


def test_a_target_with_an_indicator_omits_the_row() -> None:
    design = make_design((), (numeric("y", MissingRule.INDICATOR),), intercept=True)
    assert code(design, y=stored(MISSING, STORED_UNIT)) == [[0, 0], [q, q]]


def test_a_category_cannot_be_a_target() -> None:
    with pytest.raises(ValueError, match="'c' cannot be a target"):
        target_term(category("c", 2))


def test_a_single_level_beside_a_constant_is_not_a_wide_group() -> None:
    design = make_design((category("c", 2),), (), intercept=True)
    assert (design.group_count, design.wide_group_count) == (2, 0)


def test_groups_of_a_mixed_design_are_counted() -> None:
    features = [
        numeric("x", MissingRule.INDICATOR),
        boolean("b"),
        category("c", 4),
        category("d", 2),
        category("e", 2, MissingRule.INDICATOR),
    ]
    design = make_design(tuple(features), (numeric("y"),), intercept=True)
    assert len(design.terms) == 1 + 2 + 1 + 3 + 1 + 2
    assert (design.group_count, design.wide_group_count) == (7, 2)


def test_columns_are_listed_once_and_in_order() -> None:
    design = make_design((category("c", 3), numeric("x", MissingRule.INDICATOR)), (numeric("y"),), intercept=True)
    assert design.columns == ("c", "x", "y")


def test_a_design_knows_its_constant() -> None:
    assert make_design((numeric("x"),), (), intercept=True).has_constant
    assert make_design((), (numeric("y"),), intercept=True).has_constant
    assert not make_design((numeric("x"),), (numeric("y"),), intercept=False).has_constant
    assert not make_design((), (numeric("y"),), intercept=False).has_constant


def test_a_design_without_columns_codes_a_constant() -> None:
    assert code_rows({}, make_design((), (), intercept=True), 2).tolist() == [[q], [q]]


def test_a_feature_named_twice_is_refused_or_counted_twice() -> None:
    # Two terms of one group can both differ from 0 here, so counting the group once would understate R².
    try:
        design = make_design((numeric("x"), numeric("x")), (), intercept=True)
    except ValueError:
        return
    assert design.group_count == 3


@pytest.mark.parametrize("name", ["(constant)", "z[missing]"])
def test_a_column_name_cannot_join_another_group(name: str) -> None:
    try:
        design = make_design((numeric("z", MissingRule.INDICATOR), numeric(name)), (), intercept=True)
    except ValueError:
        return
    assert design.group_count == 4


COLUMNS = st.lists(
    st.tuples(st.sampled_from(ColumnType), st.sampled_from(MissingRule), st.integers(2, 4)), min_size=1, max_size=5
)


def declare(kind: ColumnType, rule: MissingRule, levels: int, name: str) -> Column:
    if kind is ColumnType.CATEGORICAL:
        return category(name, levels, rule)
    return boolean(name, rule) if kind is ColumnType.BOOLEAN else numeric(name, rule)


def random_columns(columns: list[Column], count: int, seed: int) -> dict[str, StoredArray]:
    rng = np.random.default_rng(seed)
    values = {}
    for column in columns:
        if column.type is ColumnType.NUMERIC:
            drawn = rng.integers(-STORED_UNIT, STORED_UNIT, size=count, endpoint=True)
        else:
            drawn = rng.integers(0, len(column.levels), size=count)
        values[column.name] = np.where(rng.random(count) < 0.2, MISSING, drawn).astype(np.int32)
    return values


@given(COLUMNS, st.booleans(), st.integers(0, 2**32 - 1))
def test_at_most_one_term_of_a_group_differs_from_zero(
    kinds: list[tuple[ColumnType, MissingRule, int]], intercept: bool, seed: int
) -> None:
    columns = [declare(*kind, name=f"v{i}") for i, kind in enumerate(kinds)]
    design = make_design(tuple(columns), (), intercept=intercept)
    rows = code_rows(random_columns(columns, 40, seed), design, 40)
    assert (np.abs(rows) <= q).all()
    assert (rows == np.rint(rows)).all()
    for group in {t.group for t in design.terms}:
        members = [j for j, t in enumerate(design.terms) if t.group == group]
        assert ((rows[:, members] != 0).sum(axis=1) <= 1).all()


@given(COLUMNS, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_row_is_coded_alike_alone_and_in_a_batch(
    kinds: list[tuple[ColumnType, MissingRule, int]], intercept: bool, seed: int
) -> None:
    columns = [declare(*kind, name=f"v{i}") for i, kind in enumerate(kinds)]
    design = make_design(tuple(columns), (), intercept=intercept)
    values = random_columns(columns, 12, seed)
    alone = [code_rows({n: v[k : k + 1] for n, v in values.items()}, design, 1)[0].tolist() for k in range(12)]
    assert code_rows(values, design, 12).tolist() == alone


@given(COLUMNS, st.booleans(), st.integers(0, 2**32 - 1))
def test_a_request_without_omission_is_a_block_of_the_cached_design(
    kinds: list[tuple[ColumnType, MissingRule, int]], intercept: bool, seed: int
) -> None:
    columns = [declare(*kind, name=f"v{i}") for i, kind in enumerate(kinds)]
    columns = [c for c in columns if c.missing is not MissingRule.OMIT]
    fit = [c for c in columns if c.type is not ColumnType.CATEGORICAL and c.missing is not MissingRule.INDICATOR]
    targets = fit[: len(fit) // 2]
    features = [c for c in columns if c not in targets]
    values = random_columns(columns, 15, seed)
    wide, request = cached_design(tuple(columns)), make_design(tuple(features), tuple(targets), intercept=intercept)
    assert request.omitting == wide.omitting == frozenset()
    positions = [wide.terms.index(term) for term in (*request.terms, *request.targets)]
    assert code_rows(values, wide, 15)[:, positions].tolist() == code_rows(values, request, 15).tolist()


def test_the_constant_is_a_group_of_its_own() -> None:
    assert CONSTANT.kind is TermKind.CONSTANT
    assert make_design((), (), intercept=True).group_count == 1
