"""Survival, rates and ROC curves of noisy tables: without noise the textbook's numbers, with noise its covariance."""

import math
from typing import Any

import numpy as np
import pytest
from counts_examples import release_of
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight, survdiff
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.rates import confint_poisson, confint_poisson_2indep

from analyst_client import Axis, ContingencyTable, CountsRequest, EstimationError
from analyst_client.analyses import Factor, event_rates, kaplan_meier, log_rank_test, roc_curve
from analyst_client.analyses.cell_noise import CellNoise
from analyst_client.analyses.quadrics import normal_square
from analyst_client.analyses.roc import area_of
from analyst_client.analyses.survival import log_rank_of, survival_of

TIGHT: dict[str, float] = {"rel": 1e-9, "abs": 1e-12}
T = 12
TIME = Factor("years", tuple(map(str, range(T))), tuple(np.arange(T + 1.0)))
EVENT = Factor("dead", ("no", "yes"))


def followed(groups: int = 2, n: int = 600) -> tuple[Any, Any, Any]:
    """Return the group, the interval and whether there was an event, of each row."""
    generator = np.random.default_rng(2)
    group = generator.integers(0, groups, n)
    died, left = generator.exponential(5.0 + 2.0 * group), generator.uniform(0.0, T, n)
    return group, np.minimum(np.minimum(died, left), T - 0.5).astype(int), died <= left


def table_of(groups: int = 2, noise: Any = 0.0, seed: int | None = None) -> ContingencyTable:
    group, interval, dead = followed(groups)
    cells = np.zeros((groups, T, 2))
    np.add.at(cells, (group, interval, dead.astype(int)), 1.0)
    if seed is not None:
        cells = cells + np.random.default_rng(seed).normal(0.0, math.sqrt(noise), cells.shape)
    return ContingencyTable(cells, noise, [Factor("arm", tuple("abc"[:groups])), TIME, EVENT])


# Without noise


def test_survival_is_kaplans_and_meiers_without_noise() -> None:
    group, interval, dead = followed()
    found = kaplan_meier(table_of(), "years", "dead", "arm", 0.9)
    for g in (0, 1):
        exact = SurvfuncRight(interval[group == g], dead[group == g].astype(int))
        at = exact.surv_times.astype(int)
        assert found.survival[g, at] == pytest.approx(exact.surv_prob, **TIGHT)
        assert found.se[g, at] == pytest.approx(exact.surv_prob_se, **TIGHT)
        assert found.at_risk[g, at] == pytest.approx(exact.n_risk)
        rows = exact.surv_prob * (1.0 - exact.surv_prob) / exact.surv_prob_se**2
        low, high = proportion_confint(exact.surv_prob * rows, rows, 0.1, method="wilson")
        assert found.low[g, at] == pytest.approx(low, **TIGHT)
        assert found.high[g, at] == pytest.approx(high, **TIGHT)
    together = kaplan_meier(table_of(), "years", "dead")
    everyone = SurvfuncRight(interval, dead.astype(int))
    assert together.groups == ("all",)
    assert together.survival[0, everyone.surv_times.astype(int)] == pytest.approx(everyone.surv_prob, **TIGHT)
    assert together.times.tolist() == list(np.arange(1.0, T + 1.0))


def test_without_censoring_the_interval_is_wilsons() -> None:
    cells = np.zeros((3, 2))
    cells[:, 1] = 5.0, 10.0, 25.0
    found = kaplan_meier(ContingencyTable(cells, 0.0, [Factor("t", ("", "", ""), (0, 1, 2, 3)), EVENT]), "t", "dead")
    low, high = proportion_confint([35, 25, 0], [40, 40, 25], method="wilson")  # at 0 the rows are those at risk
    assert found.low[0] == pytest.approx(low, **TIGHT)
    assert found.high[0] == pytest.approx(high, **TIGHT)
    assert found.covariance[0, 0, 1] == pytest.approx(35 / 40 * 25 / 40 * (5 / (40 * 35)), **TIGHT)


@pytest.mark.parametrize("groups", [2, 3])
def test_the_log_rank_test_is_mantels_without_noise(groups: int) -> None:
    group, interval, dead = followed(groups)
    found = log_rank_test(table_of(groups), "years", "dead", "arm")
    expected = survdiff(interval, dead.astype(int), group)
    assert (found.statistic, found.pvalue) == pytest.approx(expected, **TIGHT)
    assert (found.dof, found.privacy_share) == (groups - 1, 0.0)


def test_rates_have_the_score_interval_without_noise() -> None:
    group, interval, dead = followed()
    found = event_rates(table_of(), "years", "dead", "arm")
    events = [int(dead[group == g].sum()) for g in (0, 1)]
    lived = [float((interval[group == g] + 0.5).sum()) for g in (0, 1)]
    for g in (0, 1):
        assert found.rates[g].value == pytest.approx(events[g] / lived[g], **TIGHT)
        assert found.rates[g].pieces[0] == pytest.approx(confint_poisson(events[g], lived[g], method="score"), **TIGHT)
    both = confint_poisson_2indep(events[1], lived[1], events[0], lived[0], method="score", compare="ratio")
    assert found.ratios[0].pieces[0] == pytest.approx(both, rel=1e-8)


def test_the_area_is_mann_and_whitneys_with_delongs_variance_without_noise() -> None:
    y, x = np.array([40.0, 25.0, 20.0, 10.0, 5.0]), np.array([3.0, 6.0, 9.0, 12.0, 20.0])
    scores = [np.repeat(np.arange(5.0), part.astype(int)) for part in (x, y)]
    table = ContingencyTable(np.stack([y, x], axis=1), 0.0, [Factor("score", tuple("abcde")), EVENT])
    found = roc_curve(table, "score", "dead")
    area = stats.mannwhitneyu(*scores).statistic / (50.0 * 100.0)
    assert found.auc.value == pytest.approx(area, **TIGHT)
    placed = (scores[0][:, None] > scores[1]) + 0.5 * (scores[0][:, None] == scores[1])
    delong = np.var(placed.mean(axis=1)) / 50.0 + np.var(placed.mean(axis=0)) / 100.0
    _, square, linear, constant = area_of(table.values, table.noise, math.erf(math.sqrt(0.5)))
    at_area = -(square * area**2 + linear * area + constant) / (50.0 * 100.0) ** 2
    assert at_area == pytest.approx(delong, **TIGHT)
    for end in np.roots([square, linear, constant]):  # Wilson's: the variance of a share
        assert (end - area) ** 2 == pytest.approx(delong * end * (1.0 - end) / (area * (1.0 - area)), **TIGHT)
    assert found.true_positive.tolist() == pytest.approx([0.0, 0.4, 0.64, 0.82, 0.94, 1.0])
    for values, ends, n in (
        (found.true_positive, found.true_positive_interval, 50.0),
        (found.false_positive, found.false_positive_interval, 100.0),
    ):
        wilson = np.column_stack(proportion_confint(values[1:-1] * n, n, 0.05, method="wilson"))
        assert ends[1:-1] == pytest.approx(wilson, **TIGHT)
        assert ends[[0, -1]].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert found.false_positive.tolist() == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.6, 1.0])
    assert float(np.trapezoid(found.true_positive, found.false_positive)) == pytest.approx(area, **TIGHT)
    assert found.auc.low < area < found.auc.high


# With noise


def test_the_covariance_of_survival_follows_the_noise_of_every_cell() -> None:
    cells = table_of(1).values[0] + 20.0
    unit, exact = (CellNoise(np.eye(2 * T) * sd, np.zeros(2 * T)) for sd in (1.0, 0.0))
    survival, _, _, with_noise, _ = survival_of(cells, unit, 0.95)
    *_, without, _ = survival_of(cells, exact, 0.95)
    step = 1e-5
    moved = [survival_of(cells + step * one, unit, 0.95)[0] for one in np.eye(2 * T).reshape(-1, T, 2)]
    gradient = (np.array(moved) - survival).T / step
    assert with_noise - without == pytest.approx(gradient @ gradient.T, rel=1e-3, abs=1e-9)


def test_the_covariance_of_the_log_rank_test_follows_the_noise_of_every_cell() -> None:
    cells = table_of().values + 30.0
    size = cells.size

    def residual(cells: Any) -> float:
        at_risk = np.cumsum(cells.sum(axis=-1)[:, ::-1], axis=-1)[:, ::-1]
        d = cells[..., 1]
        return float(np.sum(d[0] - at_risk[0] * d.sum(axis=0) / at_risk.sum(axis=0)))

    step = 1e-5
    moved = [residual(cells + step * one) for one in np.eye(size).reshape(-1, *cells.shape)]
    gradient = (np.array(moved) - residual(cells)) / step
    exact, *_ = log_rank_of(cells, CellNoise(np.zeros((size, size)), np.zeros(size)))
    noisy, _, share = log_rank_of(cells, CellNoise(np.eye(size), np.zeros(size)))
    sampling = residual(cells) ** 2 / float(exact)
    assert residual(cells) ** 2 / float(noisy) == pytest.approx(sampling + gradient @ gradient, rel=1e-4)
    assert float(share) == pytest.approx(gradient @ gradient / (sampling + gradient @ gradient), rel=1e-4)


def test_survival_that_the_noise_hides_is_not_told() -> None:
    found = kaplan_meier(table_of(2, 100.0, seed=4), "years", "dead", "arm")
    hidden = np.isnan(found.survival)
    assert hidden[:, -1].all()
    assert not hidden[:, 0].any()
    assert np.all(np.diff(hidden.astype(int), axis=1) >= 0)
    assert np.all(found.low[hidden] == 0.0)
    assert np.all(np.diff(found.high, axis=1) <= 0.0)
    assert np.all((found.low >= 0.0) & (found.low <= found.high) & (found.high <= 1.0))
    assert "–" in str(found)
    nothing = kaplan_meier(table_of(2, 1e8, seed=4), "years", "dead")
    assert nothing.low[0].tolist() == [0.0] * T
    assert nothing.high[0].tolist() == [1.0] * T


def test_sets_have_no_end_where_the_noise_hides_the_events() -> None:
    found = event_rates(table_of(2, 1e6, seed=4), "years", "dead", "arm")
    assert found.ratios[0].high == math.inf
    area = roc_curve(table_of(1, 2500.0, seed=5), "years", "dead").auc
    assert (area.low, area.high) == (0.0, 1.0)


def test_noise_makes_intervals_longer() -> None:
    exact, noisy = (kaplan_meier(table_of(2, noise), "years", "dead", "arm") for noise in (0.0, 16.0))
    assert np.all((noisy.high - noisy.low)[:, :6] > (exact.high - exact.low)[:, :6])
    less, more = (log_rank_test(table_of(2, noise), "years", "dead", "arm") for noise in (0.0, 16.0))
    assert more.statistic < less.statistic
    assert 0.0 < more.privacy_share < 1.0


def test_a_release_of_counts_has_survival_and_a_curve() -> None:
    asked = CountsRequest([["sex", Axis("kappa", bins=6), "dead"]], mu=2.0)
    counts = ContingencyTable.from_counts(release_of(asked).tables[0])
    assert kaplan_meier(counts, "kappa", "dead", "sex").survival.shape == (2, 6)
    assert 0.0 <= log_rank_test(counts, "kappa", "dead", "sex").pvalue <= 1.0
    assert 0.4 < roc_curve(counts, "kappa", "dead").auc.value < 0.6
    assert event_rates(counts, "kappa", "dead").ratios == ()


# What is refused, and what is shown


def test_what_cannot_be_read_is_refused() -> None:
    for call, text in [
        (lambda: kaplan_meier(table_of(), "arm", "dead"), "'arm' needs edges"),
        (lambda: kaplan_meier(table_of(3), "years", "arm"), "'arm' two levels"),
        (lambda: log_rank_test(table_of(1), "years", "dead", "arm"), "needs two groups"),
        (lambda: log_rank_test(table_of(2, 1e8, seed=4), "years", "dead", "arm"), "beyond the noise"),
        (lambda: roc_curve(table_of(3), "years", "arm"), "needs two levels"),
        (lambda: roc_curve(ContingencyTable(-np.ones((3, 2)), 1.0), "axis 0", "axis 1"), "the noise hides"),
    ]:
        with pytest.raises(EstimationError, match=text):
            call()
    with pytest.raises(ValueError, match="no factor 'age'"):
        kaplan_meier(table_of(), "age", "dead")
    with pytest.raises(ValueError, match="95 looks like a percentage"):
        kaplan_meier(table_of(), "years", "dead", level=95)


def test_results_show_themselves() -> None:
    table = table_of(2, 4.0)
    assert "equal survival by arm" in str(log_rank_test(table, "years", "dead", "arm"))
    assert "b to a" in str(event_rates(table, "years", "dead", "arm"))
    assert "<table>" in kaplan_meier(table, "years", "dead", "arm")._repr_html_()
    assert "AUC" in repr(roc_curve(table, "years", "dead"))
    assert normal_square(0.9) < normal_square(0.95)


def test_laplace_noise_makes_sets_and_p_values_larger() -> None:
    cells = table_of().values * [[[1.0]], [[2.0]]]
    cells[1, :, 1] /= 4.0
    gaussian, laplace = (
        ContingencyTable(cells + 0.0, 36.0, [Factor("arm", ("a", "b")), TIME, EVENT], excess_kurtosis=k)
        for k in (0.0, 3.0)
    )
    assert (
        log_rank_test(laplace, "years", "dead", "arm").pvalue > log_rank_test(gaussian, "years", "dead", "arm").pvalue
    )
    for one, other in [
        (kaplan_meier(table, "years", "dead", "arm") for table in (gaussian, laplace)),
        (event_rates(table, "years", "dead", "arm").rates[0] for table in (gaussian, laplace)),
        (event_rates(table, "years", "dead", "arm").ratios[0] for table in (gaussian, laplace)),
        (roc_curve(table, "years", "dead").auc for table in (gaussian, laplace)),
    ]:
        wide, wider = (np.asarray(each.high) - np.asarray(each.low) for each in (one, other))
        assert np.all(wider >= wide)
        assert np.max(wider / wide) > 1.001
