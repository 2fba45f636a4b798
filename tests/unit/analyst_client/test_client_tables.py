"""Contingency tables: without noise the textbook's numbers, with noise what a covariance makes of them."""

import math
from typing import Any

import numpy as np
import pytest
from counts_examples import release_of
from scipy import stats
from statsmodels.stats.contingency_tables import Table
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from analyst_client import Axis, Column, ContingencyTable, CountsRequest, EstimationError, Release
from analyst_client.analyses import Factor
from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.quadrics import bilinear, fieller, normal_square, score_statistic
from analyst_client.analyses.tables import X0, X1, Y0, Y1
from analyst_client.kinds.gram.quote import Noise

TIGHT: dict[str, float] = {"rel": 1e-9, "abs": 1e-9}
CELLS = np.array([[30.0, 15.0, 22.0], [70.0, 88.0, 41.0]])
PAIR = np.array([[30.0, 70.0], [15.0, 88.0]])
SEX, STAGE = Factor("sex", ("F", "M")), Factor("stage", ("I", "II", "III"))


# Without noise


def test_independence_is_pearsons_without_noise() -> None:
    found, expected = ContingencyTable(CELLS).independence_test(), stats.chi2_contingency(CELLS, correction=False)
    assert (found.statistic, found.pvalue) == pytest.approx(expected[:2], **TIGHT)
    assert (found.dof, found.privacy_share) == (expected.dof, 0.0)


def test_trend_is_cochrans_and_armitages_without_noise() -> None:
    scores = [1.0, 2.0, 5.0]
    n = CELLS.sum()
    asked = Table(CELLS, shift_zeros=False).test_ordinal_association(np.arange(2.0), np.array(scores))
    found = ContingencyTable(CELLS).trend_test(scores)
    # There the variance is that of a permutation, N / (N − 1) times as large.
    assert found.statistic == pytest.approx(asked.zscore**2 * n / (n - 1.0), **TIGHT)
    assert found.pvalue == pytest.approx(stats.chi2.sf(found.statistic, 1), **TIGHT)
    assert ContingencyTable(CELLS).trend_test().statistic == pytest.approx(
        ContingencyTable(CELLS[::-1]).trend_test([7, 5, 3], [-2, 2]).statistic, **TIGHT
    )


def test_goodness_of_fit_is_pearsons_without_noise() -> None:
    found = ContingencyTable([16.0, 18.0, 16.0, 14.0, 12.0, 12.0]).goodness_of_fit([1, 2, 2, 1, 1, 1])
    expected = stats.chisquare([16, 18, 16, 14, 12, 12], 11.0 * np.array([1, 2, 2, 1, 1, 1]))
    assert (found.statistic, found.pvalue, found.dof) == pytest.approx((*expected, 5), **TIGHT)


def test_proportions_are_wilsons_without_noise() -> None:
    found = ContingencyTable(CELLS, factors=[SEX, STAGE]).proportions("sex", 0.9)
    low, high = proportion_confint(CELLS, CELLS.sum(axis=1, keepdims=True), 0.1, method="wilson")
    assert found.low == pytest.approx(low, **TIGHT)
    assert found.high == pytest.approx(high, **TIGHT)
    assert found.value == pytest.approx(CELLS / CELLS.sum(axis=1, keepdims=True), **TIGHT)
    assert ContingencyTable([0.0, 20.0]).proportions().high == pytest.approx([0.161125158053, 1.0], abs=1e-9)


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")  # of statsmodels' search
@pytest.mark.parametrize(("effect", "compare"), [("odds_ratio", "odds-ratio"), ("risk_ratio", "ratio")])
def test_ratios_have_the_score_interval_without_noise(effect: str, compare: str) -> None:
    found = getattr(ContingencyTable(PAIR), effect)()
    expected = confint_proportions_2indep(88, 103, 70, 100, compare=compare, method="score", correction=False)
    assert found.pieces[0] == pytest.approx(tuple(map(float, expected)), rel=1e-9)
    assert len(found.pieces) == 1


def test_the_risk_difference_has_the_published_score_interval_without_noise() -> None:
    # R. Newcombe, Statistics in Medicine 17, 1998, p. 873: 56/70 − 48/80 by Mee's method.
    found = ContingencyTable([[32.0, 48.0], [14.0, 56.0]]).risk_difference()
    assert [round(found.low, 4), round(found.high, 4)] == [0.0533, 0.3377]
    assert found.value == pytest.approx(0.2)
    at_zero = ContingencyTable(PAIR).independence_test().statistic
    level = stats.chi2.cdf(at_zero, 1)
    assert ContingencyTable(PAIR).risk_difference(level).low == pytest.approx(0.0, abs=1e-9)
    assert ContingencyTable(PAIR).odds_ratio(level).low == pytest.approx(1.0, rel=1e-9)
    assert ContingencyTable(PAIR).risk_ratio(level).low == pytest.approx(1.0, rel=1e-9)


def test_an_empty_cell_leaves_a_ratio_open() -> None:
    found = ContingencyTable([[30.0, 0.0], [40.0, 12.0]])
    odds, risks = found.odds_ratio(), found.risk_ratio()
    assert odds.high == risks.high == math.inf
    assert risks.value == math.inf
    assert 1.0 not in odds
    assert math.inf in odds


# With noise


def test_noise_is_in_the_covariance() -> None:
    exact, noisy = ContingencyTable(CELLS), ContingencyTable(CELLS, 100.0)
    for test in ("independence_test", "trend_test", "goodness_of_fit"):
        without, having = getattr(exact, test)(), getattr(noisy, test)()
        assert having.statistic < without.statistic
        assert having.pvalue > without.pvalue
        assert 0.5 < having.privacy_share < 1.0
    J = np.kron(
        np.eye(2) - CELLS.sum(axis=1)[:, None] / CELLS.sum(), np.eye(3) - CELLS.sum(axis=0)[:, None] / CELLS.sum()
    )
    expected = stats.contingency.expected_freq(CELLS)
    V = J @ (np.diag(expected.ravel()) + 100.0 * np.eye(6)) @ J.T
    residuals = (CELLS - expected).ravel()
    assert noisy.independence_test().statistic == pytest.approx(residuals @ np.linalg.pinv(V) @ residuals, rel=1e-9)


def test_laplace_noise_makes_p_values_of_a_table_larger() -> None:
    cells = np.array([40.0, 55.0, 35.0, 20.0])
    gaussian, laplace = (ContingencyTable(cells, 100.0, excess_kurtosis=k).goodness_of_fit() for k in (0.0, 3.0))
    assert laplace.statistic == gaussian.statistic > 4.0
    far = [ContingencyTable(4.0 * cells, 1600.0, excess_kurtosis=k).goodness_of_fit().pvalue for k in (0.0, 3.0)]
    assert far[1] > far[0]
    request = CountsRequest(["sex"], epsilon=1.0, mechanism="laplace")
    counted = ContingencyTable.from_counts(release_of(request).tables[0])
    assert counted.excess_kurtosis.tolist() == [3.0, 3.0]
    assert counted.margin().draws.shape == (1, 2)


def test_goodness_of_fit_does_not_depend_on_the_cell_that_is_left_out() -> None:
    covariance = np.diag([1.0, 40.0, 9.0, 100.0])
    order = [2, 3, 1, 0]
    cells = np.array([40.0, 50.0, 30.0, 20.0])
    one = ContingencyTable(cells, covariance).goodness_of_fit([1, 2, 3, 4])
    other = ContingencyTable(cells[order], covariance[np.ix_(order, order)]).goodness_of_fit([3, 4, 2, 1])
    assert one.statistic == pytest.approx(other.statistic, rel=1e-9)


def test_a_ratio_is_unbounded_where_the_noise_hides_its_denominator() -> None:
    noisy = ContingencyTable(PAIR, 400.0)
    assert noisy.odds_ratio().pieces == ((0.0, math.inf),)
    difference = noisy.risk_difference()
    assert difference.low < 0.0 < difference.high < 1.0
    hidden = ContingencyTable([[30.0, -5.0], [40.0, 12.0]], 400.0)
    assert hidden.risk_difference().pieces == ((-1.0, 1.0),)
    ratio = hidden.odds_ratio()
    assert math.isnan(ratio.value)
    assert ratio.pieces == ((0.0, math.inf),)


def test_the_statistic_of_a_constraint_is_a_minimum() -> None:
    # With no sampling the covariance is fixed, and the nearest point of x·w = y·z is a minimum that scipy finds too.
    from scipy import optimize

    c, noise = np.array([5.0, 20.0, 9.0, 14.0]), np.diag([4.0, 9.0, 1.0, 2.0])
    drawn = CellNoise(np.sqrt(noise), np.zeros(4))
    Q = bilinear(np.eye(4)[0], np.eye(4)[3]) - bilinear(np.eye(4)[1], np.eye(4)[2])
    found = float(score_statistic(c, drawn, Q, np.zeros(4)))

    def distance(free: Any) -> float:
        m = np.array([free[0] * free[1] / free[2], *free])
        return float((c - m) @ np.linalg.solve(noise, c - m))

    nearest = optimize.minimize(distance, c[1:], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13})
    assert found == pytest.approx(nearest.fun, rel=1e-7)


def pearson_at_the_restricted_maximum(cells: Any, risk: Any, slope: Any, ends: tuple[float, float]) -> float:
    """Return Pearson's χ² of two binomials, the second's risk a function of the first's, by its likelihood's root."""
    from scipy import optimize

    (y0, x0), (y1, x1) = cells

    def score(p: float) -> float:
        q = risk(p)
        return float(x0 / p - y0 / (1.0 - p) + slope(p, q) * (x1 / q - y1 / (1.0 - q)))

    low, high = ends[0] + 1e-13 * (ends[1] - ends[0]), ends[1] - 1e-13 * (ends[1] - ends[0])
    inner = score(low) > 0.0 > score(high)
    p = optimize.brentq(score, low, high, xtol=1e-18, rtol=1e-15) if inner else (low if score(low) <= 0.0 else high)
    return float(
        sum((x - (x + y) * r) ** 2 / ((x + y) * r * (1.0 - r)) for x, y, r in ((x0, y0, p), (x1, y1, risk(p))))
    )


@pytest.mark.parametrize("kind", ["odds ratio", "risk ratio", "risk difference"])
def test_tables_of_few_rows_have_the_textbooks_score_statistic(kind: str) -> None:
    generator = np.random.default_rng(4)
    tables, constraints, expected = [], [], []
    while len(tables) < 300:
        cells = generator.multinomial(generator.integers(2, 21), generator.dirichlet(np.ones(4))).reshape(2, 2)
        if not cells.sum(axis=1).all():
            continue
        ratio, apart = math.exp(generator.normal(0.0, 1.5)), generator.uniform(-0.95, 0.95)
        if kind == "odds ratio":
            Q = bilinear(X1, Y0) - ratio * bilinear(Y1, X0)
            known = pearson_at_the_restricted_maximum(
                cells,
                lambda p, r=ratio: r * p / (1.0 - p + r * p),
                lambda p, q: q * (1.0 - q) / (p * (1.0 - p)),
                (0.0, 1.0),
            )
        elif kind == "risk ratio":
            Q = bilinear(X1, X0 + Y0) - ratio * bilinear(X0, X1 + Y1)
            known = pearson_at_the_restricted_maximum(
                cells, lambda p, r=ratio: r * p, lambda _p, _q, r=ratio: r, (0.0, min(1.0, 1.0 / ratio))
            )
        else:
            Q = bilinear(X1, X0 + Y0) - bilinear(X0, X1 + Y1) - apart * bilinear(X1 + Y1, X0 + Y0)
            ends = (max(0.0, -apart), min(1.0, 1.0 - apart))
            known = pearson_at_the_restricted_maximum(cells, lambda p, a=apart: p + a, lambda _p, _q: 1.0, ends)
        tables.append(cells.ravel().astype(float))
        constraints.append(Q)
        expected.append(known)
    found = score_statistic(
        np.array(tables), CellNoise(np.zeros((4, 4)), np.zeros(4)), np.array(constraints), np.ones(4)
    )
    assert found == pytest.approx(np.array(expected), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("cells", "ratio"), [((1, 0, 0, 1), 0.271), ((8, 2, 1, 8), 0.651), ((2, 1, 1, 2), 0.017308464543318983)]
)
def test_the_statistic_of_cells_that_mirror_each_other_is_on_the_constraint(cells: Any, ratio: float) -> None:
    # Two points are equally near in a metric that mirrors them, and what is between them is not on the constraint.
    c = np.array(cells, dtype=float)
    expected = pearson_at_the_restricted_maximum(
        c.reshape(2, 2),
        lambda p: ratio * p / (1.0 - p + ratio * p),
        lambda p, q: q * (1.0 - q) / (p * (1.0 - p)),
        (0, 1),
    )
    Q = bilinear(X1, Y0) - ratio * bilinear(Y1, X0)
    found = score_statistic(c, CellNoise(np.zeros((4, 4)), np.zeros(4)), Q, np.ones(4))
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_laplace_noise_moves_the_statistic_by_the_kurtosis_of_what_it_tests() -> None:
    # Of xn = ym with n and m exact it is x − ρy that is tested: two draws, of weights 1 and −ρ.
    rho, sd = 0.5, 3.0
    c = np.array([14.0, 4.0, 1000.0, 500.0])
    Q = bilinear(np.eye(4)[0], np.eye(4)[2]) - bilinear(np.eye(4)[1], np.eye(4)[3])
    draws = np.diag([sd, sd, 0.0, 0.0])
    normal, longer = (float(score_statistic(c, CellNoise(draws, np.full(4, k)), Q, np.zeros(4))) for k in (0.0, 3.0))
    assert normal == pytest.approx((c[0] - rho * c[1]) ** 2 / (sd**2 * (1.0 + rho**2)), rel=1e-6)
    kurtosis, z = 3.0 * (1.0 + rho**4) / (1.0 + rho**2) ** 2, math.sqrt(longer)
    assert z + kurtosis * (z**3 - 3.0 * z) / 24.0 == pytest.approx(math.sqrt(normal), rel=1e-6)


@pytest.mark.parametrize("effect", ["odds_ratio", "risk_ratio", "risk_difference"])
def test_laplace_noise_makes_sets_wider_by_its_part_in_them(effect: str) -> None:
    def width(sd: float, kurtosis: float) -> float:
        found = getattr(ContingencyTable(10.0 * PAIR, sd**2, excess_kurtosis=kurtosis), effect)()
        return float(found.high - found.low)

    assert width(1.0, 3.0) == pytest.approx(width(1.0, 0.0), rel=1e-4)
    assert width(30.0, 3.0) > 1.01 * width(30.0, 0.0)


def test_proportions_of_laplace_noise_are_those_of_its_kurtosis() -> None:
    gaussian, laplace = (ContingencyTable([60.0, 5000.0], 400.0, excess_kurtosis=k).proportions() for k in (0.0, 3.0))
    assert laplace.high[0] > gaussian.high[0] > gaussian.low[0] > laplace.low[0] > 0.0
    p, variance = 60.0 / 5060.0, 400.0
    own = variance * ((1.0 - p) ** 2 + p**2)
    kurtosis = 3.0 * variance**2 * ((1.0 - p) ** 4 + p**4) / (own + 5060.0 * p * (1.0 - p)) ** 2
    z, at = math.sqrt(normal_square(0.95)), float(laplace.high[0])
    reach = 5060.0 * at * (1.0 - at) + variance * ((1.0 - at) ** 2 + at**2)
    moved = z + kurtosis * (z**3 - 3.0 * z) / 24.0
    assert (5060.0 * at - 60.0) / math.sqrt(reach) == pytest.approx(moved, rel=1e-9)


def test_proportions_stay_honest_where_the_total_is_hidden() -> None:
    found = ContingencyTable([[3.0, -5.0], [400.0, 300.0]], 400.0, [SEX, Factor("dead", ("no", "yes"))])
    within = found.proportions("sex")
    assert np.isnan(within.value[0]).all()
    assert within.low[0].tolist() == [0.0, 0.0]
    assert within.high[0].tolist() == [1.0, 1.0]
    plain = ContingencyTable([[3.0, 5.0], [400.0, 300.0]]).proportions("axis 0")
    assert within.low[1, 0] < plain.low[1, 0] < plain.high[1, 0] < within.high[1, 0]


def test_margins_and_levels_carry_their_noise() -> None:
    generator = np.random.default_rng(3)
    root = generator.normal(size=(12, 12))
    covariance = root @ root.T
    age = Factor("age", ("young", "old"), (50.0, 70.0, 100.0))
    found = ContingencyTable(np.arange(12.0).reshape(2, 3, 2), covariance, [SEX, STAGE, age])
    margin = found.margin("age", "sex")
    assert margin.values == pytest.approx(found.values.sum(axis=1).T)
    assert margin.factors == (age, SEX)
    spread = covariance.reshape(2, 3, 2, 2, 3, 2).sum(axis=(1, 4))
    assert margin.covariance.reshape(2, 2, 2, 2) == pytest.approx(spread.transpose(1, 0, 3, 2))
    kept = found.margin("stage").keep("stage", ["III", "I"])
    assert kept.values.tolist() == found.values.sum(axis=(0, 2))[[2, 0]].tolist()
    assert kept.covariance[0, 1] == pytest.approx(found.margin("stage").covariance[2, 0])
    assert found.margin().total == pytest.approx(66.0)


# From releases


def test_a_table_of_counts_is_taken_with_its_noise() -> None:
    asked = CountsRequest([["sex", "dead", Axis("kappa", bins=4, missing=True)]], mu=0.5)
    (counts,) = release_of(asked).tables
    found = ContingencyTable.from_counts(counts)
    assert found.values == pytest.approx(counts.values[..., :4])
    assert np.diag(found.covariance) == pytest.approx(counts.draw_sd**2)
    assert found.factors[2].edges == counts.axes[2].edges
    by_sex = ContingencyTable.from_counts(counts, "dead", "sex")
    assert by_sex.values == pytest.approx(counts.margin("dead", "sex").values)
    assert np.diag(by_sex.covariance) == pytest.approx(5.0 * counts.draw_sd**2)


NESTED = CountsRequest([["sex", Axis("kappa", bins=bins), "dead"] for bins in (2, 4, 8)], mu=0.5)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_nested_tables_are_one_by_least_squares(mechanism: str) -> None:
    price = {"mu": 0.5} if mechanism == "gaussian" else {"epsilon": 0.5}
    tables = release_of(CountsRequest([*NESTED.tables], mechanism=mechanism, **price)).tables
    found = ContingencyTable.from_nested(tables)
    finest = max(tables, key=lambda counts: counts.size)
    assert found.values.shape == finest.values.shape == (2, 8, 2)
    rows, released = [], []
    for counts in tables:
        cells = np.arange(counts.size).reshape(counts.shape)
        for index in np.ndindex(counts.shape):
            width = 8 // counts.shape[1]
            one = np.zeros((2, 8, 2))
            one[index[0], index[1] * width : (index[1] + 1) * width, index[2]] = 1.0 / counts.draw_sd
            rows.append(one.ravel())
            released.append(counts.values.ravel()[cells[index]] / counts.draw_sd)
    expected, *_ = np.linalg.lstsq(np.array(rows), np.array(released), rcond=None)
    assert found.values.ravel() == pytest.approx(expected, **TIGHT)
    assert found.covariance == pytest.approx(np.linalg.inv(np.array(rows).T @ np.array(rows)), **TIGHT)
    assert set(found.excess_kurtosis) == {0.0 if mechanism == "gaussian" else 3.0}
    halves = found.covariance.reshape(2, 8, 2, 2, 8, 2)[0, :4, 0, 0, :4, 0].sum()
    assert halves < finest.draw_sd**2 < 4.0 * finest.draw_sd**2  # four cells of the finest hold four draws


def test_nested_tables_that_do_not_fit_are_refused() -> None:
    asked = CountsRequest([["sex", Axis("age", bins=4)], ["sex", Axis("age", bins=3)], ["sex", "dead"]], mu=0.5)
    tables = release_of(asked).tables
    four, three = (next(counts for counts in tables if counts.size == size) for size in (8, 6))
    with pytest.raises(ValueError, match="edges of 'age' that the finest has too"):
        ContingencyTable.from_nested([four, three])
    with pytest.raises(ValueError, match="the same columns"):
        ContingencyTable.from_nested([four, next(counts for counts in tables if counts.size == 4)])
    with pytest.raises(ValueError, match="there are no tables"):
        ContingencyTable.from_nested([])


def rows_of(n: int = 400) -> dict[str, list[str]]:
    generator = np.random.default_rng(11)
    stage = generator.choice(["I", "II", "III"], n, p=[0.5, 0.3, 0.2])
    return {
        "stage": stage.tolist(),
        "sex": generator.choice(["F", "M"], n).tolist(),
        "dead": [str(bool(x)).lower() for x in generator.random(n) < 0.3],
        "smokes": [[None, "false", "true"][k] for k in generator.integers(0, 3, n)],
    }


COLUMNS = [
    Column.categorical("stage", ["I", "II", "III"]),
    Column.categorical("sex", ["F", "M"]),
    Column.boolean("smokes", missing="indicator"),
]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("pair", [("stage", "sex"), ("smokes", "stage"), ("dead", "stage"), ("sex", "dead")])
def test_a_gram_without_noise_holds_the_exact_table(pair: tuple[str, str], constant: bool) -> None:
    rows = rows_of()
    release = Release.from_public(rows, COLUMNS, Column.boolean("dead"), constant=constant)
    found = ContingencyTable.from_gram(release, *pair)
    spelled = [["(missing)" if value is None else value for value in rows[name]] for name in pair]
    exact = [
        [sum(cell == (one, other) for cell in zip(*spelled, strict=True)) for other in found.factors[1].levels]
        for one in found.factors[0].levels
    ]
    assert found.values == pytest.approx(np.array(exact, dtype=float), abs=1e-9)
    assert not found.covariance.any()


def test_the_covariance_of_a_gram_is_that_of_its_noise() -> None:
    public = Release.from_public(rows_of(), COLUMNS[:2], Column.boolean("dead"))
    generator = np.random.default_rng(5)
    diagonal, off = 4.0, 3.0
    noise = Noise(diagonal, off, distribution="discrete_gaussian")
    exact = ContingencyTable.from_gram(public, "stage", "sex")
    errors = []
    for _ in range(1000):
        e = np.triu(generator.normal(0.0, off, public.xtx.shape), 1)
        e = e + e.T + np.diag(generator.normal(0.0, diagonal, len(e)))
        drawn = Release.from_arrays(public.xtx + e, features=COLUMNS[:2], noise=noise)
        found = ContingencyTable.from_gram(drawn, "stage", "sex")
        errors.append((found.values - exact.values).ravel())
    measured = np.cov(np.array(errors).T)
    scale = np.sqrt(np.outer(np.diag(found.covariance), np.diag(found.covariance)))
    assert np.abs(measured - found.covariance).max() < 4.0 * math.sqrt(2.0 / 1000) * scale.max()
    assert np.abs(np.mean(errors, axis=0)).max() < 4.0 * math.sqrt(scale.max() / 1000)


def test_a_gram_that_does_not_count_is_refused() -> None:
    public = Release.from_public(rows_of(), COLUMNS[:2], Column.boolean("dead"))
    with pytest.raises(ValueError, match="no column 'age' with levels; it has dead, stage, sex"):
        ContingencyTable.from_gram(public, "age", "sex")
    with pytest.raises(ValueError, match="needs two columns"):
        ContingencyTable.from_gram(public, "sex", "sex")
    numeric = Release.from_arrays(np.eye(3), features=["age", COLUMNS[1]])
    with pytest.raises(ValueError, match="the levels of 'age' are no cells"):
        ContingencyTable.from_gram(numeric, "age", "sex")
    weighted = Release.from_arrays(public.xtx, features=COLUMNS[:2], norm=1.0)
    with pytest.raises(EstimationError, match="not those of people"):
        ContingencyTable.from_gram(weighted, "stage", "sex")
    booleans = [Column.boolean("smokes"), Column.boolean("dead")]
    with pytest.raises(EstimationError, match="does not tell all cells"):
        ContingencyTable.from_gram(Release.from_arrays(np.eye(2), features=booleans, constant=False), "smokes", "dead")


# What is refused, and what is shown


def test_wrong_arguments_are_refused() -> None:
    table = ContingencyTable(CELLS, 1.0, [SEX, STAGE])
    for call, text in [
        (lambda: ContingencyTable(CELLS, 1.0, [SEX]), "other cells"),
        (lambda: ContingencyTable(CELLS, np.eye(5)), "symmetric matrix"),
        (lambda: ContingencyTable(CELLS, -1.0), "no negative eigenvalue"),
        (lambda: ContingencyTable(np.ones(3001)), "at most 3000 cells"),
        (lambda: ContingencyTable([math.nan, 1.0]), "finite"),
        (lambda: table.margin("age"), "no factor 'age'; it has sex, stage"),
        (lambda: table.margin("sex", "sex"), "each factor stands once"),
        (lambda: table.keep("stage", ["IV"]), "no level 'IV'"),
        (lambda: table.trend_test([1.0, 2.0]), "2 row scores and 3 scores"),
        (lambda: table.goodness_of_fit([1.0, 2.0]), "positive proportions"),
        (lambda: table.proportions(level=1.0), "level is the probability"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()


def test_a_table_that_cannot_tell_says_so() -> None:
    for call, text in [
        (lambda: ContingencyTable(CELLS).odds_ratio(), "2 × 2"),
        (lambda: ContingencyTable(CELLS.ravel()).independence_test(), "two factors"),
        (lambda: ContingencyTable(-CELLS, 1.0).goodness_of_fit(), "hides all rows"),
        (lambda: ContingencyTable([[1.0, 2.0], [0.0, 0.0]]).independence_test(), "is empty"),
    ]:
        with pytest.raises(EstimationError, match=text):
            call()


def test_results_show_themselves() -> None:
    table = ContingencyTable(PAIR, 4.0, [SEX, Factor("dead", ("no", "<yes>"))])
    assert "30.0" in str(table)
    assert "&lt;yes&gt;" in table._repr_html_()
    assert repr(table) == "<ContingencyTable 2 × 2 cells>"
    assert "independence of sex and dead" in str(table.independence_test())
    assert "odds ratio of <yes>: M against F" in str(table.odds_ratio())


@pytest.mark.parametrize(
    ("coefficients", "pieces"),
    [
        ((1.0, 0.0, 1.0), ()),
        ((-1.0, 0.0, -1.0), ((0.0, 5.0),)),
        ((0.0, 2.0, -4.0), ((0.0, 2.0),)),
        ((0.0, -2.0, 4.0), ((2.0, 5.0),)),
        ((1.0, 0.0, -4.0), ((0.0, 2.0),)),
        ((0.0, 0.0, 1.0), ()),
    ],
)
def test_a_quadratic_is_solved_in_every_case(coefficients: Any, pieces: Any) -> None:
    assert fieller(*coefficients, 0.0, 5.0) == pieces
    assert normal_square(0.95) == pytest.approx(stats.chi2.ppf(0.95, 1))
