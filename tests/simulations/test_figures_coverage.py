"""Numbers that fits and descriptions print hold the truth: a few cells of `bench.figures`, which has them all.

Each figure of a cell fails where it is beyond its goal by more than three standard errors of the simulation.
"""

import pytest

from bench.figures import Cell, figures_of, population_of, run_cell

pytestmark = pytest.mark.simulations

SHRUNK = {"release": "coefficient"}
"""AdaSSP draws coefficients to 0 by more than their standard errors; its intervals are not drawn."""


@pytest.mark.parametrize(
    ("cell", "repeats"),
    [
        (Cell("groups", 5_000, 3.0, "release"), 60),
        (Cell("gaussian", 1_000, 1.0, "refine"), 40),
        (Cell("counts", 5_000, 1.0, "refine"), 20),
        (Cell("hospitals", 20_000, 1.0, "refinements"), 20),
    ],
    ids=str,
)
def test_no_figure_is_beyond_its_goal(cell: Cell, repeats: int) -> None:
    figures = figures_of(population_of(None, cell.population), cell.way)
    wanted = tuple(name for name in figures if name != SHRUNK.get(cell.way))
    verdicts, _ = run_cell(cell, None, wanted, repeats, repeats)
    missed = {name: one for name, one in verdicts.items() if one.state(final=False) == "missed"}
    assert not missed, [f"{name}: {'; '.join(map(str, one.measures))} ({one.worst})" for name, one in missed.items()]
    assert sum(bool(one.measures) for one in verdicts.values()) > len(verdicts) / 2
