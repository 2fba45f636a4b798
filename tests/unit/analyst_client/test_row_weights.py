"""The weight that is written for a score is the one that the curator gives to a row of a release."""

from typing import Any

import numpy as np
import pytest

from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.row_weights import write_weight
from analyst_client.terms import bs, col, cut, interaction, log, poly
from bench.desk import DeskClient, store
from curator_service.datasets.manifest import Manifest
from curator_service.kinds.features import read_selection
from curator_service.privacy.design import code_rows
from curator_service.privacy.lattice import UNIT
from curator_service.privacy.row_maps.ball import Ball

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 20.0, "upper": 90.0},
    {"name": "dose", "type": "numeric", "lower": -5.0, "upper": 5.0, "missing": "complete"},
    {"name": "gap", "type": "numeric", "lower": 0.0, "upper": 1.0, "missing": "midpoint"},
    {"name": "site", "type": "categorical", "levels": ["A", "B", "C"]},
    {"name": "stage", "type": "categorical", "levels": ["I", "II", "III"], "missing": "indicator"},
    {"name": "smoker", "type": "boolean", "missing": "midpoint"},
    {"name": "fever", "type": "boolean", "missing": "indicator"},
    {"name": "kappa", "type": "numeric", "lower": 0.0, "upper": 6.0},
]
MANIFEST = Manifest.model_validate({"name": "rows", "population": "rows", "row_capacity": 1000, "columns": COLUMNS})
COUNT = 400


def draw_rows() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    frame: dict[str, Any] = {c["name"]: rng.integers(0, len(c.get("levels", "ab")), COUNT) for c in COLUMNS}
    for column in COLUMNS:
        if column["type"] == "numeric":
            frame[column["name"]] = rng.uniform(column["lower"], column["upper"], COUNT)
    missing = {name: np.where(rng.uniform(size=COUNT) < 0.2, np.nan, values) for name, values in frame.items()}
    return missing | {"dose": frame["dose"]}


STORED = store(MANIFEST, draw_rows())
CLIENT = DeskClient(MANIFEST, STORED, np.random.default_rng(0))


@pytest.mark.parametrize(
    "features",
    [
        ["age", "dose"],
        ["site", "stage", "smoker", "fever"],
        [poly("age", 4), "site"],
        [poly("dose", 10)],
        [interaction("site", poly("age", 2)), "stage", interaction("fever", "smoker")],
        [interaction("stage", "site", "dose")],
        [log(col("age") + 1), cut("dose", [-2.0, 1.0]), col("age") > 50],
    ],
    ids=str,
)
@pytest.mark.parametrize("norm", [0.7, 1.3])
def test_the_expression_is_the_weight_of_the_ball(features: Any, norm: float) -> None:
    request = ReleaseRequest(features, target="kappa", mu=1.0, norm=norm)
    quote = CLIENT.quote("rows", request)
    weight = write_weight(quote.terms, quote.columns, norm)
    selection = read_selection(None, weight.to_json(), MANIFEST.by_name)
    found, design = selection.weigh(STORED, COUNT), CLIENT._session._prepare(request.to_json()).kernel.design  # type: ignore[attr-defined]
    rows = code_rows(STORED, design, COUNT)
    counts = rows[:, 0] > 0
    shrunk = Ball.of_norm(norm).apply(rows, design)[:, 0] / UNIT
    assert counts.sum() > COUNT / 4
    assert found is not None
    assert found[counts] == pytest.approx(shrunk[counts] ** 2, abs=2e-4)
    assert selection.select(STORED, np.ones(COUNT, dtype=np.bool_))[counts].all()
    assert len(set(found[counts].round(3))) > 1


@pytest.mark.parametrize(
    ("feature", "words"), [(bs("age", df=4), "spline"), ("gap", "midpoint"), (col("smoker") & col("fever"), "misses")]
)
def test_a_length_that_no_expression_gives_is_refused(feature: Any, words: str) -> None:
    quote = CLIENT.quote("rows", [feature], target="kappa", mu=1.0, norm=1.2)
    with pytest.raises(ValueError, match=words):
        write_weight(quote.terms, quote.columns, 1.2)
