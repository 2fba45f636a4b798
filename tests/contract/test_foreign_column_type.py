"""A column type of one new file outside of the package: declared, read, refused, released, described and fitted."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from dashboard_worlds import Person
from served_worlds import serve_world
from support import World, ZeroNoise
from toy_column_type import Icd10

from analyst_client import OLS, CountsRequest, CuratorClient
from curator_service.datasets.columns.base import COLUMN_TYPES
from curator_service.datasets.exports.columns import describe_column
from curator_service.datasets.manifest import ManifestError, load_manifest
from curator_service.datasets.sources.base import IngestError

COLUMN_TYPES.pop("icd10")  # declared with its class: no other test knows it
MANIFEST = """
name = "stays"
population = "town"
row_capacity = 100
rows_are_persons = true
missing_values = ["?"]
[[columns]]
name = "diagnosis"
type = "icd10"
letters = ["C", "I", "J"]
description = "Main diagnosis of the stay"
[[columns]]
name = "days"
type = "numeric"
lower = 0
upper = 10
"""
ROWS = [("C50.9", 2), ("i10", 4), ("C34", 6), ("J45.0", 8), ("?", 9), ("I21.0", 6)]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, CuratorClient]]:
    monkeypatch.setitem(COLUMN_TYPES, "icd10", Icd10)
    with (
        serve_world(tmp_path, noise=ZeroNoise()) as (world, url),
        CuratorClient(url, world.tokens["ada"], memory=None) as client,
    ):
        world.grant("ada", register(world, ROWS))
        yield world, client


def register(world: World, rows: list[tuple[str, int]], name: str = "stays") -> str:
    manifest, data = world.folder / f"{name}.toml", world.folder / f"{name}.csv"
    manifest.write_text(MANIFEST.replace("stays", name))
    data.write_text("diagnosis,days\n" + "".join(f"{code},{days}\n" for code, days in rows))
    return world.curator.datasets.register(manifest, data, actor="operator:test").id


def test_it_is_released_by_its_levels_and_fitted_by_a_client_that_knows_nothing_of_it(
    served: tuple[World, CuratorClient],
) -> None:
    world, client = served
    column = client.dataset("stays").columns[0]
    assert (column.type, column.levels) == ("categorical", ("C", "I", "J"))
    counts = client.release("stays", CountsRequest(["diagnosis"], mu=0.1))
    assert counts.tables[0].values.tolist() == [2, 2, 1]
    release = client.release("stays", ["diagnosis"], target="days", mu=0.1, even_so=True)
    assert release.verify()
    fit = OLS().fit(release)
    assert dict(zip(fit.param_names_, fit.params_, strict=True)) == pytest.approx(
        {"(constant)": 4.0, "diagnosis[I]": 1.0, "diagnosis[J]": 4.0}, abs=1e-4
    )
    assert world.discrepancies() == []


def test_a_value_that_is_none_is_refused_by_its_rule_and_shown_to_nobody(served: tuple[World, CuratorClient]) -> None:
    world, _ = served
    with pytest.raises(
        IngestError, match="line 3, column 'diagnosis': the value is not one of the declared levels C, I, J"
    ) as told:
        register(world, [("C50", 1), ("X99", 2)], "others")
    assert "X99" not in str(told.value)


def test_its_members_are_checked_and_others_refused(served: tuple[World, CuratorClient]) -> None:
    world, _ = served
    manifest = world.folder / "wrong.toml"
    for change, rule in [
        ('letters = ["C", "C"]', "levels must differ"),
        ('levels = ["C", "I"]', "a icd10 column has no levels; of its own it has letters"),
        ("", "letters: Field required"),
    ]:
        manifest.write_text(MANIFEST.replace('letters = ["C", "I", "J"]', change))
        with pytest.raises(ManifestError, match=rule):
            load_manifest(manifest)


def test_it_is_described_on_pages_and_in_catalogues(served: tuple[World, CuratorClient]) -> None:
    world, _ = served
    (dataset,) = (one for one in world.curator.datasets.list_all() if one.name == "stays")
    assert describe_column(dataset.manifest.columns[0]).startswith("Main diagnosis of the stay. One of: C, I, J.")
    person = Person(world, app=world.api("root").app)
    person.sign_in(world.tokens["root"])
    assert "C, I, J" in person.get("/admin/datasets/stays").text


def test_a_cluster_is_told_where_a_type_reads_no_raw_column() -> None:
    with pytest.raises(NotImplementedError, match="icd10 columns are not read in a cluster"):
        Icd10(name="x", letters=("A", "B")).store(pa.array(["A10"]))


def test_a_second_type_of_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COLUMN_TYPES, "icd10", Icd10)
    with pytest.raises(TypeError, match="'icd10' is declared already"):

        class _Second(Icd10):
            pass
