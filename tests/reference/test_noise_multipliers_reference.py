"""Noise per unit of sensitivity: the table of the documentation, from published formulas and from the product."""

import math
from fractions import Fraction

import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

from bench import multipliers
from curator_service.kinds.gram.plan import GramPlan, plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, ZCDP, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration
from curator_service.privacy.conversions import UNITS_PER_ONE, epsilon_of_units, exact, gdp_delta
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.row_maps import Ball, Box, RowMap

TABLE = {
    "one release of three statistics": {"gdp": 7.32, "zcdp": 7.85, "wang2018": 11.85, "classical": 16.51},
    "10 releases of one": {"gdp": 13.4, "zcdp": 14.3, "wang2018": 41.0, "classical": 57.2},
    "100 releases of one": {"gdp": 42.2, "zcdp": 45.3, "wang2018": 437.2, "classical": 610.6},
    "1000 releases of one": {"gdp": 133.6, "zcdp": 143.3, "wang2018": 4627.8, "classical": 6472.5},
}


@pytest.fixture(scope="module")
def computed() -> dict[str, dict[str, float]]:
    return multipliers.compute_table()


@pytest.mark.parametrize("rule", ["gdp", "zcdp", "wang2018", "classical"])
@pytest.mark.parametrize("line", TABLE)
def test_the_table_is_the_published_one(computed: dict[str, dict[str, float]], line: str, rule: str) -> None:
    published = TABLE[line][rule]
    assert computed[line][rule] == pytest.approx(published, abs=0.0051 if "three" in line else 0.051)


@pytest.mark.parametrize("k", [10, 100, 1000])
def test_the_scales_of_k_releases_are_those_of_the_formulas(computed: dict[str, dict[str, float]], k: int) -> None:
    line = computed[f"{k} releases of one"]
    one = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(1.0, 1e-6)).standard_deviation
    assert line["gdp"] == pytest.approx(math.sqrt(k) * one, rel=1e-5)
    assert line["wang2018"] == pytest.approx(math.sqrt(math.log(2 * k / 1e-6)) * k, rel=1e-8)
    assert line["classical"] == pytest.approx(math.sqrt(2 * math.log(1.25 * k / 1e-6)) * k, rel=1e-8)
    rho = k / (2 * line["zcdp"] ** 2)
    assert epsilon_of_units(ZCDP.curve, round(rho * UNITS_PER_ONE), exact(1e-6)) == pytest.approx(1.0, rel=1e-6)


def test_noise_grows_with_the_root_of_the_releases_under_both_accounts(computed: dict[str, dict[str, float]]) -> None:
    for rule in ("gdp", "zcdp"):
        ten, thousand = computed["10 releases of one"][rule], computed["1000 releases of one"][rule]
        assert thousand / ten == pytest.approx(10, rel=1e-6)


def test_the_bench_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    multipliers.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(TABLE)
    for line, (name, published) in zip(lines[2:], TABLE.items(), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[0] == name
        assert [float(cell) for cell in cells[1:]] == list(published.values())


# --- Wang's scales as a joint release ---------------------------------------------------------------------------------


def wang_plan(row_map: RowMap, epsilon: float = 1.0) -> GramPlan:
    columns = tuple(Column(f"x{i}", ColumnType.NUMERIC) for i in range(4))
    return plan_gram(
        make_design(columns, (Column("y", ColumnType.NUMERIC),), intercept=True),
        row_map,
        Adjacency.ADD_REMOVE,
        row_capacity=1000,
        price=Price(epsilon=epsilon, delta=1e-6),
        shares=dict.fromkeys((Statistic.XTX, Statistic.XTY, Statistic.YTY), Fraction(1, 3)),
        accountant=GDP,
        calibration=Calibration.WANG2018,
    )


@pytest.mark.parametrize("row_map", [Box(), Ball.of_norm(1.2)], ids=["box", "ball"])
def test_wang_s_scales_as_a_joint_release(row_map: RowMap) -> None:
    cost = wang_plan(row_map).cost
    mu = math.sqrt(cost / UNITS_PER_ONE)
    assert mu == pytest.approx(0.146, abs=5e-4)
    assert mu == pytest.approx(math.sqrt(3) / (3 * math.sqrt(math.log(6e6))), rel=1e-6)
    assert float(gdp_delta(Fraction(1), Fraction(cost, UNITS_PER_ONE))) == pytest.approx(1.3e-13, rel=0.05)
    assert GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(1.0) == pytest.approx(1.3e-13, rel=0.05)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0, 10.0])
def test_wang_s_joint_release_is_within_its_price(epsilon: float) -> None:
    assert wang_plan(Box(), epsilon).cost < GDP.units_of(Price(epsilon=epsilon, delta=1e-6)) * 0.7
