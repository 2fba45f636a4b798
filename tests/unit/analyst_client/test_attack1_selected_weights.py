"""RED: a part of a release of weighted rows is of weighted rows, whatever its own columns are."""

import numpy as np

from analyst_client import OLS, Column, Release

FEATURES = [f"x{j}" for j in range(6)]
NORM = 1.8  # of rows as long as √7


def release() -> Release:
    generator = np.random.default_rng(5)
    X = np.column_stack([np.ones(4000), generator.uniform(-1, 1, (4000, 6))])
    y = X @ [0.1, 0.3, -0.2, 0.1, 0.0, 0.2, -0.1] + 0.2 * generator.standard_normal(4000)
    w = np.minimum(1.0, NORM / np.linalg.norm(X, axis=1))
    Z, y = X * w[:, np.newaxis], y * w
    columns: list[str | Column] = [Column.numeric(name, -1, 1) for name in FEATURES]
    targets: list[str | Column] = [Column.numeric("y", -1, 1)]
    return Release.from_arrays(Z.T @ Z, Z.T @ y, y @ y, features=columns, targets=targets, norm=NORM)


def test_a_part_weighs_rows_where_its_whole_does() -> None:
    whole = release()
    part = whole.select(["x0", "x1"])
    assert whole.weighs_rows
    assert part.weights_rows
    assert part.weighs_rows


def test_the_summary_of_a_part_says_what_weights_do_to_standard_errors() -> None:
    whole, said = release(), "standard errors are upper bounds"
    assert said in " ".join(str(OLS().fit(whole).summary()).split())
    assert said in " ".join(str(OLS().fit(whole, features=["x0", "x1"]).summary()).split())
