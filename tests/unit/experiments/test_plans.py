"""Parts of the simulated plan, on numbers that can be checked by hand."""

import math

import numpy as np
import pytest

from experiments.plans import Belief, Curator, Gram, Rules, consistent, refine


def test_a_tree_is_made_consistent_by_least_squares() -> None:
    generator = np.random.default_rng(1)
    levels = [generator.normal(0.0, 5.0, 2**k) + 80.0 / 2**k for k in range(4)]
    rows = [np.repeat(np.eye(2**k), 8 // 2**k, axis=1) for k in range(4)]
    expected, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(levels), rcond=None)
    assert consistent(levels) == pytest.approx(expected)


def test_exact_statistics_and_exact_scores_are_solved_for() -> None:
    generator = np.random.default_rng(2)
    X = np.hstack([np.ones((500, 1)), generator.standard_normal((500, 3))])
    y = X @ [0.1, 1.0, -0.5, 0.3] + 0.1 * generator.standard_normal(500)
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    belief = Belief(4, 500.0, 0.25)
    belief.see_gram(Gram(X.T @ X, X.T @ y, float(y @ y), 1e-3, 1e-3))
    assert belief.solve(500.0, np.zeros(4)) == pytest.approx(expected, abs=1e-2)
    told = Belief(4, 500.0, 0.25)
    for theta in (np.zeros(4), *np.eye(4)):  # gradients at five points tell all of A and b
        told.see_score(np.eye(4), theta, X.T @ (y - X @ theta), 1e-3)
    assert told.pair[0] == pytest.approx(X.T @ X, abs=1e-1)
    assert told.pair[1] == pytest.approx(X.T @ y, abs=1e-1)


@pytest.mark.parametrize("epsilon_like", [0.02, 0.3, 3.0])
def test_a_plan_spends_all_and_no_more(epsilon_like: float) -> None:
    generator = np.random.default_rng(3)
    x = np.clip(generator.normal(0.2, 0.2, (2000, 3)), -1, 1)
    y = np.clip(x @ [0.5, -0.3, 0.2] + generator.normal(0, 0.05, 2000), -1, 1)
    curator = Curator(np.hstack([x, y[:, None]]), epsilon_like**2, generator)
    predicted = refine(curator, 2000, 4, Rules())(np.hstack([x, y[:, None]]))
    assert 0.0 <= curator.left < 1e-9 * epsilon_like**2
    error = float(np.mean((predicted - y) ** 2))
    assert math.isfinite(error)
    assert epsilon_like < 3.0 or error < 0.003
