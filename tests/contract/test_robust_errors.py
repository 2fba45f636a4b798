"""Robust standard errors with next to no noise are those of the rows as they were weighted."""

from typing import Any

import numpy as np
import pytest

from analyst_client import OLS
from bench.desk import DeskClient, store
from curator_service.datasets.manifest import Manifest

N = 3000
BOUNDS = {"age": (20.0, 100.0), "dose": (-6.0, 6.0), "y": (-40.0, 40.0)}


@pytest.mark.parametrize(
    "options", [{"rows": "box"}, {"norm": 1.05}, {"norm": 1.05, "weight": "age / 100", "where": "dose > -3"}], ids=str
)
def test_without_noise_the_spread_is_that_of_the_rows(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    age, dose = rng.uniform(20.0, 100.0, N), rng.normal(0.0, 1.5, N).clip(-6.0, 6.0)
    y = 0.1 * age - dose + rng.uniform(-1.0, 1.0, N) * np.where(age > 80.0, 3.0, 1.0)
    columns = [{"name": name, "type": "numeric", "lower": a, "upper": b} for name, (a, b) in BOUNDS.items()]
    manifest = Manifest.model_validate({"name": "rows", "population": "rows", "row_capacity": N, "columns": columns})
    client = DeskClient(manifest, store(manifest, {"age": age, "dose": dose, "y": y}), np.random.default_rng(5))
    release = client.release("rows", ["age", "dose"], target="y", mu=1e3, robust=True, **options)
    (site,) = OLS().fit(release).results_[0].equations.sites
    assert site.spread is not None

    x = np.column_stack([np.ones(N), (age - 60.0) / 40.0, dose / 6.0])
    weight = np.minimum(1.0, options.get("norm", 9.0) ** 2 / np.sum(x**2, axis=1))
    weight *= (age / 100.0 if "weight" in options else 1.0) * (dose > -3.0 if "where" in options else 1.0)
    A = x.T @ (x * weight[:, np.newaxis])
    residuals = y / 40.0 - x @ np.linalg.solve(A, x.T @ (weight * y / 40.0))
    exact = x.T @ (x * ((weight * residuals) ** 2)[:, np.newaxis])
    variance = float(OLS().fit(release).results_[0].equations.scale.variances[0])
    root = np.linalg.cholesky(exact)
    turned = np.linalg.solve(root, np.linalg.solve(root, variance * site.spread).T)
    assert turned == pytest.approx(np.eye(3), abs=0.02)
    assert np.linalg.solve(variance * A, exact)[1, 1] > 1.3 or "norm" in options
