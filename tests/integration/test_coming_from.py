"""docs/coming-from.md: each line of its tables runs, on both sides where the other library is here."""

import io
import pickle
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import support
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.linear_model import Ridge as RidgeOfOthers
from statsmodels.iolib.summary2 import summary_col
from support import client_of, make_rows, open_world

import analyst_client
from analyst_client.estimators.base import Fit
from curator_service.privacy.accountant import Price

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
COUNT = 600
COLUMNS: list[Any] = [
    *support.COLUMNS,
    ("visits", "numeric", "complete", (0.0, 20.0), support.COUNTED),
]


def sections() -> dict[str, list[tuple[str, str]]]:
    """Return the lines of each table: their call, and ours."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        cells = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| `")]
        found[title] = [(theirs.strip("`"), ours.strip("`")) for theirs, ours in cells]
    return found


class Yes(io.StringIO):
    """Somebody who agrees to every price."""

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:
        return "y\n"


def draw_rows(seed: int) -> list[dict[str, str]]:
    generator, rows = np.random.default_rng(seed), make_rows(COUNT, seed=seed)
    for row in rows:
        row["visits"] = repr(float(min(generator.poisson(2.0), 20)))
    return rows


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Two hospitals with a dataset `cohort`, rows of one's own, and all public names."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(support, "COLUMNS", COLUMNS)
        patched.setattr(sys, "stdin", Yes())
        worlds = [
            open_world(tmp_path_factory.mktemp(name), rows=draw_rows(k), limit=Price(mu=300.0), anew=True)
            for k, name in enumerate(("north", "south"))
        ]
        with worlds[0] as one, worlds[1] as other:
            own = pd.DataFrame(draw_rows(5)).replace("", None)
            for column in ("age", "weight", "kappa", "visits"):
                own[column] = pd.to_numeric(own[column])
            own["alive"] = own["alive"] == "true"
            own = own[own["weight"].notna()]
            public = {name: getattr(analyst_client, name) for name in analyst_client.__all__}
            yield public | {
                "client": client_of(one),
                "north": client_of(one),
                "south": client_of(other),
                "rows": own,
                "price": {"epsilon": 30.0, "delta": 1e-6},
                "pickle": pickle,
            }


def run(lines: list[str], names: dict[str, Any]) -> list[Any]:
    """Run lines one after another, and return what they are."""
    found = []
    for line in lines:
        assigned = re.match(r"(\w+) = (.*)", line)
        value = eval(assigned[2] if assigned else line, names)
        if assigned:
            names[assigned[1]] = value
        found.append(value)
    return found


@pytest.mark.parametrize("title", sections())
def test_each_of_our_lines_runs(title: str, names: dict[str, Any]) -> None:
    lines = [ours for _, ours in sections()[title] if not ours.startswith("nothing")]
    assert len(lines) >= 8
    found = run(lines, dict(names))
    assert any(isinstance(one, Fit) for one in found)


THEIRS: dict[str, dict[str, Any]] = {
    "From statsmodels": {"smf": smf, "summary_col": summary_col},
    "From scikit-learn": {
        "LinearRegression": LinearRegression,
        "LogisticRegression": LogisticRegression,
        "Ridge": RidgeOfOthers,
        "pickle": pickle,
    },
}


@pytest.mark.parametrize("title", THEIRS)
def test_each_of_their_lines_runs(title: str, names: dict[str, Any]) -> None:
    own = names["rows"]
    lines = [theirs for theirs, _ in sections()[title] if "…" not in theirs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(lines, THEIRS[title] | {"d": own.assign(alive=own["alive"].astype(int)), "rows": own})
