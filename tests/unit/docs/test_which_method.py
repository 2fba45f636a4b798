"""The number of docs/which-method.md is what its example says, and its tables are those that are printed."""

import doctest
from pathlib import Path

import pytest

from studies.which import METHODS, WITH_INTERVALS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "which-method.md"


def test_the_example_of_the_page_is_what_comes_out() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 5
    assert found.failed == 0


@pytest.mark.parametrize("columns", [METHODS, [f"{WITH_INTERVALS[0]}: bounded"]])
def test_tables_have_the_columns_that_are_printed(columns: list[str]) -> None:
    heads = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| bounds |")]
    assert any(all(f"| {column} |" in head for column in columns) for head in heads)
