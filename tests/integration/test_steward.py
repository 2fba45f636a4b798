"""A data steward's first hour: a file or a table as it comes, a draft, bounds from knowledge, and a first fit.

Of a draft bounds are filled in, and nothing else. The files are those that statsmodels carries: a survey of marriages
(R. Fair, "A theory of extramarital affairs", Journal of Political Economy, 1978), the American National Election
Studies of 1996, and a study of travellers between Australian cities (W. Greene, "Econometric Analysis"); the table is
of the RAND Health Insurance Experiment.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psycopg
import pytest
import statsmodels.datasets
from served_worlds import serve_world
from support import PERSONS, World, fresh_database
from typer.testing import CliRunner

from analyst_client import AdaSSP, CuratorClient
from curator_service.cli.main import app
from curator_service.identity.policy import Role

FOLDER = Path(statsmodels.datasets.__file__).parent
SERVER = os.environ.get("CURATOR_TEST_POSTGRES_URL", "")
NEEDS_SERVER = pytest.mark.skipif(not SERVER, reason="CURATOR_TEST_POSTGRES_URL is not set")


@dataclass(frozen=True)
class Study:
    """A table as it comes; what is known of its columns without it, in the order of the columns; and a first fit."""

    path: str
    bounds: dict[str, tuple[float, float]]
    features: list[str]
    target: str
    table: str = ""
    separator: str = ","
    quote: str = '"'
    unit: str = PERSONS

    def frame(self) -> pd.DataFrame:
        return pd.read_csv(FOLDER / self.path, sep=self.separator, quotechar=self.quote)


STUDIES = {
    "fair": Study(
        "fair/fair.csv",
        {  # the questionnaire's scales; working ages; a marriage and a family of that time
            "rate_marriage": (1, 5), "age": (18, 45), "yrs_married": (0, 25), "children": (0, 6), "religious": (1, 4),
            "educ": (8, 20), "occupation": (1, 6), "occupation_husb": (1, 6), "affairs": (0, 12),
        },
        ["age", "children"],
        "yrs_married",
    ),
    "anes96": Study(
        "anes96/anes96.csv",
        {  # the scales of the codebook; adults; cities of up to a million
            "popul": (0, 1000), "TVnews": (0, 7), "selfLR": (1, 7), "ClinLR": (1, 7), "DoleLR": (1, 7), "PID": (0, 6),
            "age": (18, 90), "educ": (1, 7), "income": (1, 24),
        },
        ["vote"],
        "selfLR",
        separator="\t",
        quote="'",
        unit=f'{PERSONS}\nnot_persons = ["PID"]',  # a party, not a person
    ),
    "modechoice": Study(
        "modechoice/modechoice.csv",
        {  # four ways to travel; minutes and dollars of a trip between two cities; a party in a car
            "mode": (1, 4), "ttme": (0, 90), "invc": (0, 200), "invt": (0, 1500), "gc": (0, 300), "hinc": (0, 80),
            "psize": (1, 6),
        },
        ["invc"],
        "gc",
        separator=";",
        unit='subject = "individual"\nrows_per_subject = 1',
    ),
    "randhie": Study(
        "randhie/randhie.csv",
        {  # visits a year that a clinician would call many; logarithms of rates and of a few thousand dollars
            "mdvis": (0, 30), "lncoins": (0, 5), "lpi": (0, 8), "fmde": (0, 9), "physlm": (0, 1),
            "disea": (0, 60),
        },
        ["idp", "lncoins"],
        "fmde",
        table="visits",
    ),
}  # fmt: skip
PARAMETERS = [
    pytest.param(name, marks=[pytest.mark.postgres, NEEDS_SERVER] if study.table else [])
    for name, study in STUDIES.items()
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    with serve_world(tmp_path_factory.mktemp("steward")) as (world, url):
        yield world, url


@pytest.fixture
def source(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield what a command is given: a file where the package has it, or a query on a table that holds its rows."""
    study = STUDIES[name]
    if not study.table:
        yield [str(FOLDER / study.path)]
        return
    frame = study.frame()
    with fresh_database(SERVER) as address:
        with psycopg.connect(address) as connection:
            columns = ", ".join(f'"{column}" double precision' for column in frame)
            connection.execute(f'CREATE TABLE "{study.table}" ({columns})'.encode())
            with connection.cursor().copy(f'COPY "{study.table}" FROM STDIN (FORMAT csv, HEADER)'.encode()) as copy:
                copy.write((FOLDER / study.path).read_bytes())
        query = tmp_path / f"{name}.sql"
        query.write_text(f'SELECT * FROM "{study.table}"')
        monkeypatch.setenv("CURATOR_SOURCES", json.dumps({"hospital": address}))
        yield ["--sql", str(query), "--database", "hospital"]


def fill_in(text: str, bounds: dict[str, tuple[float, float]], unit: str = PERSONS) -> str:
    """Fill in bounds, from what is known of each column, and whose rows they are; nothing else."""
    head, *columns = text.split("[[columns]]\n")
    head = head if "\nsubject =" in head else f"{unit}\n{head}"
    for place, column in enumerate(columns):
        if "# lower =" in column:
            lower, upper = bounds[column.split('"')[1]]
            columns[place] = column.replace("# lower =", f"lower = {lower}").replace("# upper =", f"upper = {upper}")
    return "[[columns]]\n".join([head, *columns])


@pytest.mark.parametrize("name", PARAMETERS)
def test_from_a_file_to_a_first_fit(
    name: str, source: list[str], served: tuple[World, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world, url), study = served, STUDIES[name]
    monkeypatch.setenv("CURATOR_DATA_DIR", str(world.settings.data_dir))

    def curator(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})
        assert result.exit_code == code, result.output
        return result.output

    manifest, data = tmp_path / "manifest.toml", source
    drafted = ["manifest", "draft", *data, "--name", name, "--population", name, "--row-capacity", "30000"]
    curator(*drafted, "--out", str(manifest))
    assert "needs lower and upper" in curator("manifest", "check", str(manifest), *data, code=1)
    manifest.write_text(fill_in(manifest.read_text(encoding="utf-8"), study.bounds, study.unit), encoding="utf-8")
    curator("populations", "create", name, "--adjacency", "add_remove", "--epsilon", "30", "--delta", "1e-6")
    assert "fine: `curator datasets add`" in curator("manifest", "check", str(manifest), *data)
    assert "registered" in curator("datasets", "add", str(manifest), *data)
    token = json.loads(curator("tokens", "create", f"ana-{name}", "--role", str(Role.ANALYST), "--json"))["token"]
    curator("permits", "grant", f"ana-{name}", name)

    with CuratorClient(url, token, memory=None) as client:
        release = client.release(name, features=study.features, target=study.target, epsilon=30.0, delta=1e-6)
    fit, frame = AdaSSP().fit(release), study.frame()
    x, y = frame[study.features].to_numpy(float), frame[study.target].to_numpy(float)
    slopes = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y, rcond=None)[0][1:]
    assert np.ravel(fit.coef_) == pytest.approx(slopes, rel=0.5)
