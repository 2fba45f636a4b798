"""A small run of docs/which-method.md's measurement gives its tables and its figure."""

import doctest
from pathlib import Path

import numpy as np
import pytest

from studies import problems, which


def test_examples_run() -> None:
    assert doctest.testmod(which).failed == 0


def test_problems_are_where_they_are_drawn_for_and_as_many_in_each_half_decade() -> None:
    drawn = problems.draw_problems(2)
    few = [next(drawn)[0] for _ in range(6)]
    assert np.digitize([problem.place for problem in few], problems.EDGES).tolist() == [1, 1, 2, 2, 3, 3]
    assert [problem.name for problem in few] == [*problems.TAILS] * 3
    again = next(problems.draw_problems(2))[0]
    assert (again.train == few[0].train).all()


def test_a_small_run_gives_tables_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(1)
    rows = problems.draw_rows(generator, 2_000, 3, has_tails=False)
    made = [[problems.Problem("normal", rows[:1000], rows[1000:], epsilon, 1)] for epsilon in (0.1, 10.0)]
    found = which.outcomes_of(made)
    poor, rich = found["tight"]
    assert rich.kept[which.REFINED] > 0.9
    assert (rich.kept > poor.kept)[[which.ONE, which.REFINED]].all()
    assert abs(rich.kept[which.MEAN]) < 0.1
    assert rich.lengths[1] < 2.0
    which.print_table(["bounds", which.PLACE], ["problems", *which.METHODS], which.kept_lines(found))
    which.print_table(["bounds"], ["a"], [*which.length_lines(found), *which.failure_lines(found)])
    which.print_table(["set"], ["a"], which.set_lines(found))
    printed = capsys.readouterr().out
    assert "\n| tight | 3.2 to 10 | 1 | " in printed
    assert "| normal | 1,000 | 4 | 10 |" in printed
    assert "nan" not in printed
    which.draw(tmp_path / "figure.png", found, found)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
