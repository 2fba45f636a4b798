"""Noise per unit of sensitivity that (1, 1e-6) buys under each account, and by each published formula.

First three equal statistics in one release, then k releases of one statistic within the total. Scales are those that
the product plans, at the share of the total that each rule gives a release: Wang and Kalaja split ε and δ, so their k
releases add up by basic composition. Of one statistic alone Wang's formula draws less noise than (ε, δ) needs, and
`plan_gram` refuses it: there the table has the formula's own scale, which is sound for the k together.

    python -m bench.multipliers
"""

import math
from fractions import Fraction

from curator_service.kinds.gram.plan import plan_gram
from curator_service.kinds.gram.statistics import Statistic
from curator_service.privacy.accountant import GDP, ZCDP, Accountant, Price
from curator_service.privacy.adjacency import Adjacency
from curator_service.privacy.calibration import Calibration, sigma_of_formula
from curator_service.privacy.conversions import UNITS_PER_ONE, exact, root_down, round_down
from curator_service.privacy.design import Column, ColumnType, make_design
from curator_service.privacy.parts import GaussianPart
from curator_service.privacy.row_maps import Box

EPSILON, DELTA = 1.0, 1e-6
RELEASES = (10, 100, 1000)
RULES = ("gdp", "zcdp", "wang2018", "classical")
_DESIGN = make_design((Column("x", ColumnType.NUMERIC),), (Column("y", ColumnType.NUMERIC),), intercept=True)
_THREE = (Statistic.XTX, Statistic.XTY, Statistic.YTY)


def plan_multiplier(
    statistics: tuple[Statistic, ...], price: Price, accountant: Accountant, calibration: Calibration
) -> float:
    """Return the noise per unit of sensitivity of a release of equal parts."""
    plan = plan_gram(
        _DESIGN,
        Box(),
        Adjacency.ADD_REMOVE,
        row_capacity=1000,
        price=price,
        shares={s: Fraction(1, len(statistics)) for s in statistics},
        accountant=accountant,
        calibration=calibration,
    )
    found = [p.sigma / math.sqrt(p.sensitivity_squared) for p in plan.parts if isinstance(p, GaussianPart)]
    assert max(found) - min(found) < 1e-6 * max(found)
    return max(found)


def compute_multiplier(rule: str, releases: int, statistics: tuple[Statistic, ...]) -> float:
    """Return the noise per unit of sensitivity of each of so many releases within (1, 1e-6) by a rule."""
    if rule in {"wang2018", "classical"}:
        epsilon, delta = exact(EPSILON) / releases, exact(DELTA) / releases
        if rule == "wang2018" and len(statistics) == 1:
            return sigma_of_formula(Calibration.WANG2018, Fraction(2**60), epsilon, delta) / 2**30
        return plan_multiplier(statistics, Price(float(epsilon), float(delta)), GDP, Calibration(rule))
    accountant = GDP if rule == "gdp" else ZCDP
    number = Fraction(accountant.units_of(Price(epsilon=EPSILON, delta=DELTA)), UNITS_PER_ONE * releases)
    price = Price(mu=root_down(number)) if rule == "gdp" else Price(rho=round_down(number))
    return plan_multiplier(statistics, price, accountant, Calibration.ANALYTIC)


def compute_table() -> dict[str, dict[str, float]]:
    """Return the noise by rows of the table, then by rule."""
    table = {"one release of three statistics": {rule: compute_multiplier(rule, 1, _THREE) for rule in RULES}}
    for k in RELEASES:
        table[f"{k} releases of one"] = {rule: compute_multiplier(rule, k, _THREE[:1]) for rule in RULES}
    return table


def main() -> None:
    """Print the table."""
    print(f"| noise per unit of sensitivity at ({EPSILON:g}, 1e-6) | gdp | zcdp | Wang 2018 | Kalaja 2020 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, line in compute_table().items():
        digits = 2 if "three" in name else 1
        print(f"| {name} | " + " | ".join(f"{line[rule]:.{digits}f}" for rule in RULES) + " |")


if __name__ == "__main__":
    main()
