"""The arithmetic of the audit; mutants name cells and tests that exist, and texts that stand in the source once."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from audit.cells import CELLS
from audit.core import ROOT
from audit.digest import audited_files
from audit.mutants import MUTANTS, Mutant
from audit.mutation import StaleMutantError, patch
from audit.neighbours import Cell, exact_answer
from audit.run import NAMES


def cell(rows: dict[str, object], **row: float) -> Cell:
    """Return a cell of one feature `a`, without a constant, and a target `y`."""
    request = {"features": ["a"], "targets": ["y"], "intercept": False, "rows": rows}
    return Cell("test", "add_remove", request, row)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"map": "box"}, [0.25, 0.5, 1.0]),
        ({"map": "ball", "norm": 0.25}, [0.0625, 0.125, 0.25]),
        ({"map": "ball", "norm": 1.0}, [0.25, 0.5, 1.0]),
        ({"map": "unit"}, [1.0, 1.0, 1.0]),
        ({"map": "unit_xy"}, [1.0, 1.0, 1.0]),
    ],
)
def test_a_row_is_clipped_and_mapped(rows: dict[str, object], expected: list[float]) -> None:
    asked = cell(rows, a=0.5, y=3.0)
    assert exact_answer(asked, asked.datasets[1]) == pytest.approx(expected)


def test_neighbours_differ_in_one_person() -> None:
    for asked in CELLS.values():
        zero, one = asked.datasets
        assert zero[0] == one[0]
        assert all(row == asked.row for row in one[1:])
        assert all(row == asked.replaced_by for row in zero[1:])
        assert (len(zero) == len(one)) is (asked.adjacency == "replace_one")


def test_neighbours_move_the_answer() -> None:
    for asked in CELLS.values():
        zero, one = (exact_answer(asked, rows) for rows in asked.datasets)
        assert zero.shape == one.shape
        assert np.any(zero != one)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_names_what_exists(mutant: Mutant, tmp_path: Path) -> None:
    assert mutant.cells or mutant.tests
    assert set(mutant.cells) <= {*NAMES}
    for name in mutant.tests:
        file, *within = name.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        places = [*(f"class {place}" for place in within[:-1]), *(f"def {test}" for test in within[-1:])]
        assert all(place in text for place in places)
    files = {mutant.path, *(path for _, _, *other in mutant.replacements for path in other)}
    assert files <= {*audited_files()}
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    patch(mutant, tmp_path)  # raises where a text does not stand in the source once


def test_a_text_that_is_not_there_once_is_told(tmp_path) -> None:
    mutant = Mutant("test", "a.py", (("x = 1", "x = 2"),))
    for text in ("y = 1\n", "x = 1\nx = 1\n"):
        (tmp_path / "a.py").write_text(text)
        with pytest.raises(StaleMutantError):
            patch(mutant, tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    patch(mutant, tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
