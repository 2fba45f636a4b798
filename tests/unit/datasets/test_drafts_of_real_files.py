"""Drafts of files that packages ship: none takes a first row for a header, or a number of persons for a feature.

The columns that tell persons, states or firms apart were read off the files' descriptions.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import sklearn.datasets
import statsmodels

from curator_service.datasets.drafting import draft_manifest
from curator_service.datasets.sources.base import IngestError
from curator_service.datasets.sources.csv import TolerantCsv
from curator_service.datasets.sources.sniffing import sniff

FOLDERS = {"statsmodels": Path(statsmodels.__file__).parent, "sklearn": Path(str(files(sklearn.datasets))) / "data"}
IDENTIFIERS: dict[str, list[str]] = {
    "statsmodels/datasets/anes96/anes96.csv": [],
    "statsmodels/datasets/cancer/cancer.csv": [],
    "statsmodels/datasets/ccard/ccard.csv": [],
    "statsmodels/datasets/committee/committee.csv": ["COMMITTEE"],
    "statsmodels/datasets/copper/copper.csv": ["TIME"],
    "statsmodels/datasets/cpunish/cpunish.csv": ["STATE"],
    "statsmodels/datasets/danish_data/data.csv": ["period"],
    "statsmodels/datasets/engel/engel.csv": [],
    "statsmodels/datasets/fair/fair.csv": [],
    "statsmodels/datasets/fair/fair_pt.csv": ["identifier"],
    "statsmodels/datasets/grunfeld/grunfeld.csv": ["firm"],
    "statsmodels/datasets/heart/heart.csv": [],
    "statsmodels/datasets/longley/longley.csv": ["Obs"],
    "statsmodels/datasets/modechoice/modechoice.csv": ["individual"],
    "statsmodels/datasets/randhie/randhie.csv": [],
    "statsmodels/datasets/scotland/scotvote.csv": ["COUNCILDIST"],
    "statsmodels/datasets/star98/star98.csv": [],
    "statsmodels/datasets/statecrime/statecrime.csv": ["state"],
    "statsmodels/datasets/strikes/strikes.csv": [],
    "statsmodels/duration/tests/results/bmt.csv": [],
    "statsmodels/gam/tests/results/autos.csv": ["make"],
    "statsmodels/gam/tests/results/autos_predict.csv": ["Row.names"],
    "statsmodels/gam/tests/results/motorcycle.csv": [],
    "statsmodels/genmod/tests/results/epil.csv": ["subject"],
    "statsmodels/genmod/tests/results/stata_cancer_glm.csv": [],
    "statsmodels/genmod/tests/results/stata_lbw_glm.csv": ["id"],
    "statsmodels/genmod/tests/results/stata_medpar1_glm.csv": [],
    "statsmodels/miscmodels/tests/results/ologit_ucla.csv": [],
    "statsmodels/othermod/tests/results/methylation-test.csv": ["ID", "id", "Basename"],
    "statsmodels/regression/tests/results/lme00.csv": ["groups"],
    "statsmodels/regression/tests/results/lme05.csv": ["groups"],
    "statsmodels/regression/tests/results/lme11.csv": ["groups"],
    "statsmodels/regression/tests/results/pastes.csv": ["sample"],
    "statsmodels/stats/tests/results/anova-rm-test-data.csv": ["id"],
    "statsmodels/stats/tests/results/binary_constrict.csv": ["Case"],
    "statsmodels/stats/tests/results/framing.csv": [],
    "statsmodels/stats/tests/results/results_influence_logit.csv": ["Case"],
    "statsmodels/treatment/tests/results/cataneo2.csv": [],
}
ROW_FIRST = (
    "statsmodels/discrete/tests/results/mnlogit_resid.csv",
    "statsmodels/discrete/tests/results/nbinom_resids.csv",
    "statsmodels/genmod/tests/results/enet_poisson.csv",
    "statsmodels/genmod/tests/results/gee_linear_1.csv",
    "statsmodels/genmod/tests/results/gee_nominal_1.csv",
    "statsmodels/genmod/tests/results/iris.csv",
    "sklearn/breast_cancer.csv",
    "sklearn/diabetes_target.csv.gz",
    "sklearn/digits.csv.gz",
    "sklearn/iris.csv",
    "sklearn/wine_data.csv",
)
"""Their first lines are rows, or counts."""
OTHER_SIGNS = (
    "sklearn/diabetes_data_raw.csv.gz",
    "sklearn/linnerud_exercise.csv",
    "statsmodels/datasets/spector/spector.csv",
)
"""Their fields are separated by spaces."""


def find(name: str) -> Path:
    package, _, rest = name.partition("/")
    return FOLDERS[package] / rest


def draft(name: str, **options: Any) -> str:
    path = find(name)
    found = sniff(path)
    return draft_manifest(TolerantCsv(path, found), found, name="d", population="p", **options)


def test_forty_files_are_drafted() -> None:
    """A package that ships them no longer must not make this test empty."""
    names = [*IDENTIFIERS, *ROW_FIRST, *OTHER_SIGNS]
    assert len(names) > 50
    assert [name for name in names if not find(name).is_file()] == []


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_no_row_is_a_person_and_no_identifier_a_feature(name: str) -> None:
    said: list[str] = []
    content = tomllib.loads(draft(name, tell=said.append))
    assert not content.keys() & {"subject", "rows_are_persons"}
    assert not {column.get("source", column["name"]) for column in content["columns"]} & set(IDENTIFIERS[name])
    candidates = "\n".join(said)
    assert [header for header in IDENTIFIERS[name] if f'"{header}": ' not in candidates] == []


@pytest.mark.parametrize("name", ROW_FIRST)
def test_no_row_is_a_header(name: str) -> None:
    with pytest.raises(IngestError, match="the first line may be a person's row"):
        draft(name)


@pytest.mark.parametrize("name", OTHER_SIGNS)
def test_other_separators_are_named(name: str) -> None:
    with pytest.raises(IngestError, match="seem separated by spaces"):
        draft(name)
