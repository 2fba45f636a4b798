"""The curator of the benches answers as a server does: the same noise gives the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_worlds import serve_world

from analyst_client import CuratorClient, RefinedRegression
from bench.desk import DeskClient, store
from bench.simulation import SeededNoise
from curator_service.datasets.manifest import load_manifest
from curator_service.privacy.accountant import Price

COLUMNS = [
    ("age", "numeric", "omit", (0.0, 100.0), "years"),
    ("sex", "categorical", "complete", ("F", "M"), None),
    ("smoker", "boolean", "complete", ("no", "yes"), None),
    ("dose", "numeric", "complete", (-5.0, 5.0), "mg"),
]
PRICE = {"epsilon": 1.0, "delta": 1e-6}


def test_a_release_and_a_refinement_are_those_of_a_server(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 400
    frame: dict[str, Any] = {
        "age": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(50.0, 20.0, n).round(2)),
        "sex": rng.integers(0, 2, n),
        "smoker": rng.integers(0, 2, n),
        "dose": rng.normal(0.0, 2.0, n).round(2),
    }
    words = {"sex": ("F", "M"), "smoker": ("no", "yes")}
    rows = [
        {
            name: words[name][int(value)] if name in words else "" if np.isnan(value) else str(value)
            for name, value in zip(frame, row, strict=True)
        }
        for row in zip(*frame.values(), strict=True)
    ]

    def ask(client: CuratorClient) -> tuple[Any, ...]:
        plain = client.release("clinic", ["age", "sex", "smoker"], target="dose", **PRICE)
        formula = client.release("clinic", "log(age + 1) ~ sex * dose", where="smoker == 'yes'", **PRICE)
        refined = client.refine("clinic", ["age", "sex", "dose"], target="smoker", family="binomial", **PRICE)
        fit = RefinedRegression().fit(client.refine("clinic", ["age", "sex"], target="dose", **PRICE))
        scores = [one.score for one in refined.releases if getattr(one, "score", None) is not None]
        return plain.xtx, plain.xty, plain.yty, formula.xtx, *scores, fit.intercept_, fit.coef_

    noise = SeededNoise(np.random.default_rng(2))
    with serve_world(tmp_path, limit=Price(epsilon=100.0, delta=1e-6), noise=noise) as (world, url):
        world.grant("ada", world.register("clinic", "town", rows, columns=COLUMNS, row_capacity=1000))
        with CuratorClient(url, world.tokens["ada"], memory=None) as client:
            served = ask(client)
        manifest = load_manifest(tmp_path / "clinic.toml")
    desk = ask(DeskClient(manifest, store(manifest, frame), np.random.default_rng(2)))
    assert len(served) == len(desk) > 8
    for one, other in zip(served, desk, strict=True):
        assert other == pytest.approx(one, rel=1e-12)
