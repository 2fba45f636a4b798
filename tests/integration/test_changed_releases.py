"""Other names, units and reference levels with a real curator: the same rows, declared twice, have the same sums."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import COLUMNS, ZeroNoise, client_of, make_rows, open_world

from analyst_client import OLS, CuratorClient, Curators, EstimationWarning, Release
from analyst_client.inference.pooling import pool
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.terms import interaction, log, poly, reference
from analyst_client.verify import main
from curator_service.privacy.accountant import Price

ROWS = make_rows(300, seed=3)
ORDERED = {"sex": ("M", "X", "F"), "region": ("west", "north", "south"), "ward": ("b", "a")}
ASKED: dict[str, Any] = {"target": "kappa", "mu": 20.0, "rows": "box"}
LATTICE = {"abs": 300 * 4 / 131_071, "rel": 1e-5}
"""Values are rounded down to a lattice."""


def declared(**changed: Any) -> list[Any]:
    """Return the columns of the test cohort with other levels, or with another name, bounds and unit."""
    return [
        (name, kind, missing, changed.get(name, public), unit)
        if kind != "numeric"
        else (*changed.get(name, (name, kind, missing, public, unit)),)
        for name, kind, missing, public, unit in COLUMNS
    ]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorClient]:
    """Return a client of a curator without noise, with several declarations of two files."""
    krea = {"creatinine": ("krea", "numeric", "omit", (0.0, 265.26), "µmol/L")}
    converted = [
        {"krea" if name == "creatinine" else name: value for name, value in row.items()}
        | {"krea": repr(88.42 * float(row["creatinine"])) if row["creatinine"] else ""}
        for row in ROWS
    ]
    short = ORDERED | {"sex": ("M", "F")}
    wide = short | {"creatinine": ("creatinine", "numeric", "omit", (-1.0, 5.0), "mg/dL")}
    south = [row | {"sex": "M" if row["sex"] == "X" else row["sex"]} for row in make_rows(300, seed=5)]
    with open_world(tmp_path_factory.mktemp("changed"), noise=ZeroNoise(), rows=ROWS, limit=Price(mu=1000.0)) as world:
        world.grant("ada", world.register("ordered", "town", ROWS, columns=declared(**ORDERED)))
        world.grant("ada", world.register("metric", "town", converted, columns=declared(**krea)))
        world.grant("ada", world.register("south", "valley", south, columns=declared(**short)))
        world.grant("ada", world.register("south_as_north", "valley", south, columns=declared()))
        world.grant("ada", world.register("wide", "valley", south, columns=declared(**wide)))
        yield client_of(world)


def aligned(release: Release, names: tuple[str, ...]) -> tuple[Any, Any]:
    assert sorted(release.term_names) == sorted(names)
    places = [release.term_names.index(name) for name in names]
    assert release.xtx is not None
    assert release.xty is not None
    return release.xtx[np.ix_(places, places)], release.xty[places]


@pytest.mark.parametrize(
    "features",
    [
        ["age", "sex"],
        ["region", "age"],
        ["age", "sex", "region", interaction("sex", "region")],
        ["sex", "height", interaction("sex", "height"), poly("age", 2), interaction("sex", poly("age", 2))],
        ["age", "sex", "region", interaction("sex", "age"), interaction("region", "age")],
    ],
    ids=str,
)
def test_sums_under_other_reference_levels_are_those_of_another_declaration(
    client: CuratorClient, features: list[Any]
) -> None:
    one, other = (client.release(name, features, **ASKED) for name in ("cohort", "ordered"))
    made = one.relevel({column.name: ORDERED[column.name][0] for column in one.columns if column.name in ORDERED})
    for a, b in zip(aligned(made, other.term_names), aligned(other, other.term_names), strict=True):
        assert a == pytest.approx(b, **LATTICE)
    assert made.verify()
    by_levels = OLS().fit(other).coef_, OLS().fit(made).coef_
    places = [made.term_names.index(name) - 1 for name in other.term_names[1:]]
    assert by_levels[0] == pytest.approx(by_levels[1][places], rel=1e-2, abs=1e-3)


@pytest.mark.parametrize(
    "features",
    [
        ["age", "sex", "creatinine", interaction("sex", "creatinine"), interaction("age", "creatinine")],
        ["region", "height", "creatinine", interaction("region", "creatinine")],
        [poly("age", 2), "sex", interaction("sex", poly("age", 2))],
    ],
    ids=str,
)
def test_common_terms_are_that_function_of_the_own_terms_in_every_row(
    client: CuratorClient, features: list[Any]
) -> None:
    """With other bounds, and levels in another order, or one less."""
    own = client.release("wide", features, **ASKED)
    (equations,) = pool([client.release("cohort", features, **ASKED), own])
    site, rng = equations.sites[1], np.random.default_rng(0)
    frame = {
        "age": rng.uniform(50, 100, 60),
        "creatinine": rng.uniform(-1.0, 5.0, 60),
        "height": rng.uniform(140.0, 200.0, 60),
        "sex": rng.choice(["F", "M"], 60),
        "region": rng.choice(["north", "south", "west"], 60),
    }
    rows = design_matrix(frame, own.columns, own.terms, clip=False)
    common = design_matrix(frame, equations.columns, equations.terms, clip=False)
    assert common == pytest.approx(rows @ site.to_common[:, : len(own.terms)].T, abs=1e-12)
    assert (site.gaps > 0) == ("sex" in own.feature_names)
    assert np.linalg.matrix_rank(site.to_common) == len(equations.terms)


def test_products_of_numbers_in_other_bounds_need_their_parts(client: CuratorClient) -> None:
    features = ["sex", interaction("sex", "creatinine")]
    listed = [client.release(name, features, **ASKED) for name in ("cohort", "wide")]
    with pytest.raises(ValueError, match="ask for the parts of a product too"):
        OLS().fit(listed)


def test_a_reference_that_missing_values_count_as_is_refused(client: CuratorClient) -> None:
    release = client.release("cohort", ["age", "ward"], **ASKED)
    with pytest.raises(ValueError, match=r"'ward' counts as its reference level.*reference\("):
        release.relevel({"ward": "b"})
    asked = client.release("cohort", ["age", reference("ward", "b")], **ASKED)
    assert asked.term_names[-1].endswith("[a]")


@pytest.mark.parametrize(
    "of",
    [
        lambda name: ["age", name],
        lambda name: ["sex", name, interaction("sex", name)],
        lambda name: [poly(name, 2), "age"],
    ],
)
def test_sums_in_other_units_are_those_of_rows_in_these_units(client: CuratorClient, of: Any) -> None:
    features, in_metric = of("creatinine"), of("krea")
    one, other = client.release("cohort", features, **ASKED), client.release("metric", in_metric, **ASKED)
    made = one.rename({"creatinine": "krea"}).convert({"krea": 88.42}, units={"krea": "µmol/L"})
    assert (made.term_names, made.feature_names) == (other.term_names, other.feature_names)
    assert made.xtx == pytest.approx(other.xtx, **LATTICE)
    frame = {"age": [60.0, 90.0], "sex": ["M", "F"], "krea": [80.0, 200.0]}
    assert OLS().fit(made).predict(frame) == pytest.approx(OLS().fit(other).predict(frame), rel=1e-3)
    assert OLS().fit(made, features=in_metric).coef_ == pytest.approx(OLS().fit(made).coef_)
    OLS().fit([made, other])


def test_what_only_the_curator_can_compute_anew_is_refused_until_it_is_left_out(client: CuratorClient) -> None:
    release = client.release("cohort", ["age", log("weight"), "height"], **ASKED)
    with pytest.raises(ValueError, match=r"'log\(weight\)' is computed of 'weight'.*select"):
        release.convert({"weight": 1000.0})
    made = release.rename({"weight": "gewicht"})
    assert made.feature_names == ("age", "log(gewicht)", "height")
    frame = {"age": [60.0], "height": [170.0]}
    before = OLS().fit(release).predict(frame | {"weight": [80.0]})
    assert OLS().fit(made).predict(frame | {"gewicht": [80.0]}) == pytest.approx(before)
    assert made.select([log("gewicht") + 0]).feature_names == ("log(gewicht)",)
    part = release.select(["age", "height"]).convert({"height": 0.01}, units={"height": "m"})
    assert [column.upper for column in part.features] == [100.0, pytest.approx(2.0)]
    assert part.verify()


def test_one_formula_at_two_hospitals_with_other_levels_is_bought_and_fitted(
    client: CuratorClient, tmp_path: Path
) -> None:
    curators = Curators({"north": client, "south": client})
    asked = {"target": "kappa", "mu": 20.0, "rows": "box"}
    formula = "kappa ~ age + sex * creatinine"
    options = {name: value for name, value in asked.items() if name != "target"}
    releases = curators.plan({"north": "cohort", "south": "south"}, formula, **options).buy()
    with pytest.warns(EstimationWarning, match=r"sex\[X\] is declared by 1 of 2"):
        fit = OLS().fit(releases)
    alike = curators.plan({"north": "cohort", "south": "south_as_north"}, formula, **options).buy()
    by_hand = OLS().fit(alike)
    assert fit.param_names_.tolist() == by_hand.param_names_.tolist()
    assert fit.coef_ == pytest.approx(by_hand.coef_, rel=0.05, abs=0.02)
    for name, release in releases.items():
        made = release.relevel({"sex": "F"}).rename({"age": "alter"})
        made.save(tmp_path / name)
        assert main([str(tmp_path / name)]) == 0
        assert Release.load(tmp_path / name) == made


def test_robust_standard_errors_go_along(tmp_path: Path) -> None:
    with open_world(tmp_path, rows=make_rows(300, seed=11), limit=Price(mu=100.0)) as world:
        release = client_of(world).release("cohort", ["age", "sex", "creatinine"], target="kappa", mu=20.0, robust=True)
        assert any(step.meat is not None for step in release.steps)
        before = OLS().fit(release)
        assert before.results_[0].equations.sites[0].spread is not None
        places = {"age": "creatinine", "creatinine": "age"}
        known = dict(zip(before.param_names_, before.std_errors_, strict=True))
        for made, factor, names in (
            (release.rename(places), 1.0, places),
            (release.convert({"age": -12.0, "kappa": -1.0}), 12.0, {}),
        ):
            assert made.verify()
            fit = OLS().fit(made)
            errors = dict(zip(fit.param_names_, fit.std_errors_, strict=True))
            assert factor * errors[names.get("age", "age")] == pytest.approx(known["age"], rel=1e-6)
            assert errors[names.get("creatinine", "creatinine")] == pytest.approx(known["creatinine"], rel=1e-6)
            assert errors["sex[M]"] == pytest.approx(known["sex[M]"], rel=1e-6)
        relevelled = OLS().fit(release.relevel({"sex": "M"}))
        assert relevelled.results_[0].equations.sites[0].spread is not None
        errors = [dict(zip(fit.param_names_, fit.std_errors_, strict=True)) for fit in (before, relevelled)]
        assert errors[1]["sex[F]"] == pytest.approx(errors[0]["sex[M]"])
        assert errors[1]["age"] == pytest.approx(errors[0]["age"])
