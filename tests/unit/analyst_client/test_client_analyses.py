"""Analyses of a Gram: equal to statsmodels and scikit-learn without noise, and honest about the noise."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from client_examples import noised, release_of_rows
from matplotlib.figure import Figure
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import enet_path as sklearn_enet_path
from statsmodels.sandbox.regression.gmm import IV2SLS
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.proportion import proportion_confint

from analyst_client import (
    OLS,
    Column,
    ContingencyTable,
    EstimationError,
    EstimationWarning,
    Release,
    correlations,
    describe,
    table_one,
    ttest_ind,
    tutorial,
)
from analyst_client.analyses import (
    enet_path,
    lasso_path,
    linear_discriminants,
    mediation,
    meta_analysis,
    partial_correlations,
    principal_components,
    standardized_coefficients,
    two_stage_least_squares,
)
from analyst_client.analyses.inversion import invert_tail
from analyst_client.analyses.moments import Moments, make_form
from analyst_client.kinds import Noise
from analyst_client.plots import estimate_forest
from analyst_client.schema import Cost

RNG = np.random.default_rng(4)
N = 300
AGE = RNG.uniform(50.0, 100.0, N)
SMOKER = RNG.random(N) < 0.4
SITE = RNG.choice(3, N, p=[0.5, 0.3, 0.2])
DOSE = np.clip(2.0 + 0.04 * AGE + SMOKER + RNG.normal(0.0, 1.0, N), 0.0, 10.0)
KAPPA = 1.0 + 0.02 * AGE + 0.2 * DOSE + 0.3 * SITE + RNG.normal(0.0, 0.5, N)
AGED = AGE + RNG.normal(0.0, 5.0, N)
COLUMNS: list[str | Column] = [
    Column.numeric("age", 50, 100),
    Column.numeric("dose", 0, 10),
    Column.boolean("smoker", ("no", "yes")),
    Column.categorical("site", ["A", "B", "C"]),
]
TARGET: list[str | Column] = [Column.numeric("kappa", 0, 8)]
U = np.column_stack([(AGE - 75.0) / 25.0, (DOSE - 5.0) / 5.0, SMOKER, SITE == 1, SITE == 2]).astype(np.float64)
RAW = np.column_stack([AGE, DOSE, SMOKER, SITE == 1, SITE == 2]).astype(np.float64)
NOISE = Noise(6.0, 4.0, 3.0, 2.0, distribution="discrete_gaussian")
EXACT = {"abs": 1e-9, "rel": 1e-9}


def exact() -> Release:
    return release_of_rows(U, (KAPPA - 4.0) / 4.0, features=COLUMNS, targets=TARGET)


def noisy(noise: Noise = NOISE, seed: int = 0) -> Release:
    return noised(exact(), noise, np.random.default_rng(seed), targets=TARGET)


class TestDescribeWithoutNoise:
    table = describe(exact())

    @pytest.mark.parametrize(("name", "values"), [("age", AGE), ("dose", DOSE), ("kappa", KAPPA)])
    def test_means(self, name: str, values: Any) -> None:
        one = self.table[name, "", "mean"]
        low, high = stats.t.interval(0.95, N - 1, values.mean(), stats.sem(values))
        assert (one.value, one.std_error) == (pytest.approx(values.mean(), **EXACT), pytest.approx(stats.sem(values)))
        assert (one.conf_low, one.conf_high) == (pytest.approx(low, **EXACT), pytest.approx(high, **EXACT))

    def test_standard_deviations(self) -> None:
        one, variance = self.table["age", "", "sd"], AGE.var(ddof=1)
        assert one.value == pytest.approx(math.sqrt(variance), **EXACT)
        reach = 25.0 + abs(AGE.mean() - 75.0)  # within 50 to 100
        dof = 2.0 * (N - 1) / max(reach**2 / variance - 1.0, 2.0)
        ends = np.sqrt(dof * variance / stats.chi2.ppf([0.975, 0.025], dof))
        assert (one.conf_low, one.conf_high) == (pytest.approx(ends[0], **EXACT), pytest.approx(ends[1], **EXACT))

    def test_the_deviation_of_a_skewed_number_is_held(self) -> None:
        """Of normal values alone it would be in three of four samples."""
        generator, held = np.random.default_rng(29), []
        values = np.minimum(np.exp(generator.standard_normal(100_000)), 30.0)
        for _ in range(60):
            drawn = (generator.choice(values, 4_000) - 15.0) / 15.0
            column = Column.numeric("x", 0.0, 30.0)
            release = release_of_rows(drawn[:, None], np.zeros(len(drawn)), features=[column], targets=TARGET)
            one = describe(release)["x", "", "sd"]
            held.append(one.conf_low <= values.std() <= one.conf_high)
        assert np.mean(held) > 0.9

    @pytest.mark.parametrize(
        ("name", "level", "rows"), [("smoker", "yes", SMOKER), ("site", "A", SITE == 0), ("site", "C", SITE == 2)]
    )
    def test_shares(self, name: str, level: str, rows: Any) -> None:
        one = self.table[name, level, "share"]
        low, high = proportion_confint(rows.sum(), N, method="wilson")
        assert one.value == pytest.approx(rows.mean(), **EXACT)
        assert (one.conf_low, one.conf_high) == (pytest.approx(low, **EXACT), pytest.approx(high, **EXACT))

    def test_count(self) -> None:
        assert (self.table["(rows)", "", "n"].value, self.table["(rows)", "", "n"].conf_low) == (N, N)


class TestTableOneWithoutNoise:
    table = table_one(exact(), by="site")

    def test_means_are_those_of_one_way_analysis_of_variance(self) -> None:
        reference = sm.OLS(KAPPA, np.eye(3)[SITE]).fit()
        for k, level in enumerate("ABC"):
            one = self.table["kappa", "", "mean", level]
            assert one.value == pytest.approx(reference.params[k], **EXACT)
            assert one.std_error == pytest.approx(reference.bse[k], **EXACT)
            assert (one.conf_low, one.conf_high) == pytest.approx(tuple(reference.conf_int()[k]), **EXACT)

    def test_shares_of_each_group(self) -> None:
        for k, level in enumerate("ABC"):
            rows = SMOKER[k == SITE]
            one = self.table["smoker", "yes", "share", level]
            expected = proportion_confint(rows.sum(), len(rows), method="wilson")
            assert one.value == pytest.approx(rows.mean(), **EXACT)
            assert (one.conf_low, one.conf_high) == pytest.approx(expected, **EXACT)
            assert self.table["(rows)", "", "n", level].value == pytest.approx(len(rows), **EXACT)

    def test_shares_of_levels_by_a_boolean(self) -> None:
        table = table_one(exact(), by="smoker")
        for name, kept in (("no", ~SMOKER), ("yes", SMOKER)):
            for k, level in enumerate("ABC"):
                expected = np.mean(SITE[kept] == k)
                assert table["site", level, "share", name].value == pytest.approx(expected, **EXACT)

    def test_all_rows_stand_beside(self) -> None:
        assert self.table["kappa", "", "mean", "all"].value == pytest.approx(KAPPA.mean(), **EXACT)

    def test_a_number_has_no_groups(self) -> None:
        with pytest.raises(ValueError, match="'age' is no categorical or boolean feature; there are smoker, site"):
            table_one(exact(), by="age")


class TestMissingValues:
    lost = np.random.default_rng(8).random(N) < 0.2
    columns = (
        Column.numeric("age", 50, 100, missing="indicator"),
        Column.categorical("site", ["A", "B", "C"], missing="indicator"),
    )
    unknown = np.random.default_rng(9).random(N) < 0.1
    design = np.column_stack(
        [np.where(lost, 0.0, (AGE - 75.0) / 25.0), lost, (SITE == 1) & ~unknown, (SITE == 2) & ~unknown, unknown]
    ).astype(np.float64)

    def release(self) -> Release:
        gram = np.column_stack([np.ones(N), self.design])
        return Release.from_arrays(gram.T @ gram, features=self.columns)

    def test_figures_are_of_the_rows_that_have_a_value(self) -> None:
        table, known = describe(self.release()), AGE[~self.lost]
        assert table["age", "", "n"].value == pytest.approx(len(known), **EXACT)
        low, high = stats.t.interval(0.95, len(known) - 1, known.mean(), stats.sem(known))
        one = table["age", "", "mean"]
        assert (one.value, one.conf_low, one.conf_high) == pytest.approx((known.mean(), low, high), **EXACT)
        assert table["age", "", "sd"].value == pytest.approx(known.std(ddof=1), **EXACT)
        assert table["age", "(missing)", "share"].value == pytest.approx(self.lost.mean(), **EXACT)
        assert table["site", "(missing)", "share"].value == pytest.approx(self.unknown.mean(), **EXACT)
        assert table["site", "A", "share"].value == pytest.approx(np.mean(SITE[~self.unknown] == 0), **EXACT)

    def test_by_a_column_that_misses_values(self) -> None:
        table, known = table_one(self.release(), by="site"), ~self.lost
        for k, level in enumerate("ABC"):
            rows = (k == SITE) & ~self.unknown
            assert table["(rows)", "", "n", level].value == pytest.approx(rows.sum(), **EXACT)
            assert table["age", "", "mean", level].value == pytest.approx(AGE[rows & known].mean(), **EXACT)
        assert table["age", "", "mean", "(missing)"].value == pytest.approx(AGE[self.unknown & known].mean(), **EXACT)

    def test_midpoints_are_said(self) -> None:
        X = np.column_stack([np.ones(N), U[:, 0]])
        column = Column.numeric("age", 50, 100, missing="midpoint")
        assert any("middle" in note for note in describe(Release.from_arrays(X.T @ X, features=[column])).notes)


class TestCorrelationsWithoutNoise:
    def test_fisher(self) -> None:
        one = correlations(exact())["age", "kappa"]
        reference = stats.pearsonr(AGE, KAPPA)
        assert one.value == pytest.approx(reference.statistic, **EXACT)
        assert (one.conf_low, one.conf_high) == pytest.approx(tuple(reference.confidence_interval()), **EXACT)
        z = math.atanh(reference.statistic) * math.sqrt(N - 3)
        assert one.pvalue == pytest.approx(2.0 * stats.norm.sf(abs(z)), rel=1e-6, abs=1e-12)

    def test_two_binary_variables(self) -> None:
        one = correlations(exact())["smoker", "site[B]"]
        table = np.histogram2d(SMOKER, SITE == 1, bins=2)[0]
        assert one.value == pytest.approx(np.corrcoef(SMOKER, SITE == 1)[0, 1], **EXACT)
        assert one.pvalue == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, **EXACT)
        assert -1.0 < one.conf_low < one.value < one.conf_high < 1.0

    def test_levels_of_one_column_are_not_correlated(self) -> None:
        with pytest.raises(KeyError):
            correlations(exact())["site[B]", "site[C]"]

    def test_partial(self) -> None:
        table = partial_correlations(exact(), ["age", "kappa"], ["dose", "smoker", "site"])
        beside = sm.add_constant(RAW[:, 1:])
        left = [values - beside @ np.linalg.lstsq(beside, values, rcond=None)[0] for values in (AGE, KAPPA)]
        r = np.corrcoef(*left)[0, 1]
        half = stats.norm.ppf(0.975) / math.sqrt(N - 3 - 4)
        one = table["age", "kappa"]
        assert one.value == pytest.approx(r, **EXACT)
        assert (one.conf_low, one.conf_high) == pytest.approx(
            tuple(np.tanh(math.atanh(r) + np.array([-half, half]))), **EXACT
        )

    def test_partial_given_all_others(self) -> None:
        table = partial_correlations(exact(), ["age", "dose", "kappa"])
        precision = np.linalg.inv(np.cov(np.column_stack([AGE, DOSE, KAPPA]).T))
        expected = -precision[0, 1] / math.sqrt(precision[0, 0] * precision[1, 1])
        assert table["age", "dose"].value == pytest.approx(expected, **EXACT)

    def test_correlated_or_given(self) -> None:
        with pytest.raises(ValueError, match="either correlated or given"):
            partial_correlations(exact(), ["age", "dose"], ["dose"])


class TestHypothesesWithoutNoise:
    import pandas as pd

    frame = pd.DataFrame(
        {"age": AGE, "dose": DOSE, "smoker": SMOKER.astype(float), "site": np.array(list("ABC"))[SITE], "kappa": KAPPA}
    )
    reference = sm.OLS.from_formula("kappa ~ age + dose + smoker + site", frame).fit()
    fit = OLS().fit(exact())

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            ("site[B] - site[C] = 0", "site[T.B] - site[T.C] = 0"),
            ("2*age + dose / 4 = 0.1", "2*age + dose / 4 = 0.1"),
            ("dose = age", "dose - age = 0"),
            ("(constant) = 1 - smoker", "Intercept + smoker = 1"),
        ],
    )
    def test_contrasts(self, ours: str, theirs: str) -> None:
        (one,), expected = self.fit.t_test(ours).estimates, self.reference.t_test(theirs)
        assert one.value == pytest.approx(float(expected.effect[0]), **EXACT)
        assert one.std_error == pytest.approx(float(np.ravel(expected.sd)[0]), **EXACT)
        assert (one.conf_low, one.conf_high) == pytest.approx(tuple(expected.conf_int()[0]), **EXACT)
        assert one.pvalue == pytest.approx(float(expected.pvalue), rel=1e-8, abs=1e-30)

    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            ("site", "site[T.B] = 0, site[T.C] = 0"),
            (["site", "age = 0.02"], "site[T.B] = 0, site[T.C] = 0, age = 0.02"),
            ("age - dose, smoker = 0", "age - dose = 0, smoker = 0"),
        ],
    )
    def test_joint_tests(self, ours: Any, theirs: str) -> None:
        test, expected = self.fit.f_test(ours), self.reference.f_test(theirs)
        assert test.statistic == pytest.approx(float(expected.fvalue), rel=1e-8)
        assert test.pvalue == pytest.approx(float(expected.pvalue), rel=1e-7, abs=1e-100)
        assert test.constraints == expected.df_num

    def test_contrasts_as_an_array(self) -> None:
        row = [0.0, 1.0, -2.0, 0.0, 0.0, 0.0]
        assert self.fit.t_test(row)["c0"].value == pytest.approx(self.fit.params_ @ row, **EXACT)

    def test_analysis_of_covariance(self) -> None:
        expected = anova_lm(self.reference, typ=3)
        table = self.fit.anova()
        for name in ("age", "dose", "smoker", "site"):
            assert table[name].statistic == pytest.approx(expected.loc[name, "F"], rel=1e-8)
            assert table[name].pvalue == pytest.approx(expected.loc[name, "PR(>F)"], rel=1e-6, abs=1e-60)
        assert "site" in str(table)
        with pytest.raises(KeyError, match="no column 'kappa'"):
            table["kappa"]

    def test_one_way_and_two_way_analysis_of_variance(self) -> None:
        groups = [KAPPA[k == SITE] for k in range(3)]
        one_way = OLS().fit(exact(), features=["site"]).anova()["site"]
        assert one_way.statistic == pytest.approx(stats.f_oneway(*groups).statistic, rel=1e-9)
        two_way = OLS().fit(exact(), features=["site", "smoker"]).anova()
        expected = anova_lm(sm.OLS.from_formula("kappa ~ site + smoker", self.frame).fit(), typ=2)
        for name in ("site", "smoker"):
            assert two_way[name].statistic == pytest.approx(expected.loc[name, "F"], rel=1e-8)

    def test_adjusted_r_squared(self) -> None:
        assert self.fit.rsquared_adj_ == pytest.approx(self.reference.rsquared_adj, **EXACT)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("height = 0", "no sum of parameters; there are"),
            ("age = dose = 0", "several signs of equality"),
            ("age dose = 0", "no sum of parameters"),
            ("site - age = 0", "'site' has several terms"),
            ("age = 0, age = 1", "repeat or contradict"),
            ("1 = 1", "say nothing of a parameter"),
            ("", "no sum of parameters"),
        ],
    )
    def test_what_is_no_hypothesis(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.fit.f_test(text)

    def test_an_array_of_another_length(self) -> None:
        with pytest.raises(ValueError, match="one finite factor for each of"):
            self.fit.t_test([1.0, 0.0])


class TestTTestWithoutNoise:
    def test_a_boolean(self) -> None:
        one = ttest_ind(exact(), "kappa", "smoker")["yes − no"]
        reference = stats.ttest_ind(KAPPA[SMOKER], KAPPA[~SMOKER])
        assert one.value / one.std_error == pytest.approx(reference.statistic, rel=1e-9)
        assert one.pvalue == pytest.approx(reference.pvalue, rel=1e-8)
        assert (one.conf_low, one.conf_high) == pytest.approx(tuple(reference.confidence_interval()), **EXACT)

    def test_the_other_way_round(self) -> None:
        one = ttest_ind(exact(), "kappa", "smoker", levels=("no", "yes"))["no − yes"]
        assert one.value == pytest.approx(KAPPA[~SMOKER].mean() - KAPPA[SMOKER].mean(), **EXACT)

    def test_two_of_three_levels_share_the_variance_of_all(self) -> None:
        one = ttest_ind(exact(), "age", "site", levels=("B", "C"))["B − C"]
        reference = sm.OLS(AGE, np.eye(3)[SITE]).fit().t_test([0, 1, -1])
        assert one.value == pytest.approx(float(reference.effect[0]), **EXACT)
        assert one.pvalue == pytest.approx(float(reference.pvalue), rel=1e-8)

    @pytest.mark.parametrize(
        ("by", "levels", "message"),
        [
            ("site", None, "say which two"),
            ("age", None, "no boolean or categorical"),
            ("site", ("A", "D"), "must be two of A, B, C"),
        ],
    )
    def test_what_has_no_two_groups(self, by: str, levels: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ttest_ind(exact(), "kappa", by, levels=levels)


class TestStandardizedWithoutNoise:
    def test_coefficients(self) -> None:
        table = standardized_coefficients(exact())
        reference = sm.OLS(stats.zscore(KAPPA), stats.zscore(RAW)).fit()
        assert [one.value for one in table.estimates] == pytest.approx(reference.params.tolist(), **EXACT)

    def test_with_one_term_it_is_the_correlation(self) -> None:
        one = standardized_coefficients(exact(), features=["age"])["age"]
        r = np.corrcoef(AGE, KAPPA)[0, 1]
        assert one.value == pytest.approx(r, **EXACT)
        assert one.std_error == pytest.approx((1.0 - r**2) / math.sqrt(N), **EXACT)

    def test_a_feature_as_the_target(self) -> None:
        one = standardized_coefficients(exact(), "dose", ["age"])["age"]
        assert one.value == pytest.approx(np.corrcoef(AGE, DOSE)[0, 1], **EXACT)


class TestInstrumentsWithoutNoise:
    @pytest.mark.parametrize("instruments", [["age"], ["age", "site"]])
    def test_coefficients_and_intervals(self, instruments: list[str]) -> None:
        release = exact()
        table = two_stage_least_squares(release, "kappa", ["dose"], instruments, ["smoker"])
        Z = [AGE, *([SITE == 1, SITE == 2] if "site" in instruments else []), SMOKER]
        X = sm.add_constant(np.column_stack([DOSE, SMOKER]).astype(np.float64))
        fit = IV2SLS(KAPPA, X, sm.add_constant(np.column_stack(Z).astype(np.float64))).fit()
        assert [one.value for one in table.estimates] == pytest.approx(fit.params.tolist(), **EXACT)
        residual = KAPPA - X @ fit.params
        projected = X.T @ (Zs := sm.add_constant(np.column_stack(Z).astype(np.float64))) @ np.linalg.inv(Zs.T @ Zs)
        covariance = residual @ residual / (N - 3) * np.linalg.inv(projected @ Zs.T @ X)
        errors = np.sqrt(np.diag(covariance))
        assert [one.std_error for one in table.estimates] == pytest.approx(errors.tolist(), rel=1e-9)
        half = stats.t.ppf(0.975, N - 3) * errors
        assert [one.conf_low for one in table.estimates] == pytest.approx((fit.params - half).tolist(), rel=1e-8)
        p = 2.0 * stats.t.sf(np.abs(fit.params / errors), N - 3)
        assert [one.pvalue for one in table.estimates] == pytest.approx(p.tolist(), rel=1e-6, abs=1e-60)
        assert "First stage of dose: F(" in str(table)

    def test_without_endogenous_columns_it_would_be_least_squares(self) -> None:
        with pytest.raises(ValueError, match="one at least is endogenous"):
            two_stage_least_squares(exact(), "kappa", [], ["age"])

    def test_too_few_instruments(self) -> None:
        with pytest.raises(ValueError, match="fewer terms of instruments"):
            two_stage_least_squares(exact(), "kappa", ["site"], ["age"])

    def test_weighted_rows_are_refused(self) -> None:
        release = exact()
        other = Release.from_arrays(release.xtx, release.xty, release.yty, features=COLUMNS, targets=TARGET, norm=1.2)
        with pytest.raises(EstimationError, match="rows='box'"):
            two_stage_least_squares(other, "kappa", ["dose"], ["age"])


@pytest.mark.parametrize(
    "table", [describe, lambda release, level: mediation(release, "kappa", "age", "dose", level=level)]
)
def test_noise_with_longer_tails_makes_longer_intervals(table: Any) -> None:
    release = exact()
    lengths = []
    for law in ("discrete_gaussian", "discrete_laplace"):
        noise = Noise(3.0, 2.0, 2.0, 2.0, distribution=law)
        noisy = Release.from_arrays(
            release.xtx, release.xty, release.yty, features=COLUMNS, targets=TARGET, noise=noise
        )
        chosen = [one for one in table(noisy, level=0.999).estimates if one.label[-1] in {"sd", "indirect"}]
        lengths.append([one.conf_high - one.conf_low for one in chosen])
    assert lengths[0]
    assert all(laplace > 1.01 * gaussian for gaussian, laplace in zip(*lengths, strict=True))


class TestMediationWithoutNoise:
    table = mediation(exact(), "kappa", "age", "dose", ["smoker"])
    first = sm.OLS(DOSE, sm.add_constant(np.column_stack([AGE, SMOKER]).astype(float))).fit()
    second = sm.OLS(KAPPA, sm.add_constant(np.column_stack([AGE, DOSE, SMOKER]).astype(float))).fit()

    def test_aroian(self) -> None:
        a, b = self.first.params[1], self.second.params[2]
        one, both = self.table["indirect"], self.first.bse[1] * self.second.bse[2]
        error = math.sqrt(a**2 * self.second.bse[2] ** 2 + b**2 * self.first.bse[1] ** 2 + both**2)
        assert (one.value, one.std_error) == pytest.approx((a * b, error), **EXACT)

    def test_effects_add_up(self) -> None:
        assert self.table["direct"].value == pytest.approx(self.second.params[1], **EXACT)
        both = self.table["direct"].value + self.table["indirect"].value
        assert self.table["total"].value == pytest.approx(both, **EXACT)

    def test_a_category_is_no_mediator(self) -> None:
        with pytest.raises(ValueError, match="'site' must be a numeric or boolean feature"):
            mediation(exact(), "kappa", "age", "site")


class TestPointsWithoutNoise:
    @pytest.mark.parametrize("ratio", [1.0, 0.4])
    def test_elastic_net(self, ratio: float) -> None:
        y = (KAPPA - 4.0) / 4.0
        path = enet_path(exact(), l1_ratio=ratio, alphas=[0.1, 0.03, 0.001])
        _, coef, _ = sklearn_enet_path(
            U - U.mean(axis=0), y - y.mean(), l1_ratio=ratio, alphas=[0.1, 0.03, 0.001], tol=1e-14, max_iter=100_000
        )
        expected = coef.T * 4.0 / [25.0, 5.0, 1.0, 1.0, 1.0]
        assert path.coef == pytest.approx(expected, **EXACT)
        centers = KAPPA.mean() - path.coef @ RAW.mean(axis=0)
        assert path.intercept == pytest.approx(centers, **EXACT)

    def test_a_path_begins_without_terms(self) -> None:
        path = lasso_path(exact())
        assert path.alphas.shape == (100,)
        assert not path.coef[0].any()
        assert np.count_nonzero(path.coef[-1]) == 5
        assert "by the lasso" in str(path)

    def test_penalties_out_of_range(self) -> None:
        with pytest.raises(ValueError, match="l1_ratio must be"):
            enet_path(exact(), l1_ratio=0.0)
        with pytest.raises(ValueError, match="finite and positive"):
            lasso_path(exact(), alphas=[0.0])

    def test_a_matrix_that_noise_made_indefinite_has_a_path(self) -> None:
        path = lasso_path(noisy(Noise(120.0, 90.0, 5.0, 5.0), seed=3))
        assert np.isfinite(path.coef).all()

    @pytest.mark.parametrize("standardize", [True, False])
    def test_principal_components(self, standardize: bool) -> None:
        found = principal_components(exact(), ["age", "dose", "smoker"], standardize=standardize)
        values = RAW[:, :3] / (RAW[:, :3].std(axis=0, ddof=1) if standardize else 1.0)
        reference = PCA().fit(values)
        assert found.explained_variance == pytest.approx(reference.explained_variance_, **EXACT)
        assert found.explained_variance_ratio == pytest.approx(reference.explained_variance_ratio_, **EXACT)
        assert np.abs(found.components) == pytest.approx(np.abs(reference.components_), **EXACT)
        assert found.privacy_share == pytest.approx(np.zeros(3), abs=1e-15)
        assert "Stable are the first" in str(found) or "No direction is stable" in str(found)

    @pytest.mark.parametrize("by", ["smoker", "site"])
    def test_linear_discriminants(self, by: str) -> None:
        found = linear_discriminants(exact(), by, ["age", "dose"])
        classes = SITE if by == "site" else SMOKER.astype(int)
        reference = LinearDiscriminantAnalysis(solver="lsqr").fit(RAW[:, :2], classes)
        coef, intercept = reference.coef_, reference.intercept_
        if by == "smoker":
            assert found.coef[1] - found.coef[0] == pytest.approx(coef[0], **EXACT)
            assert found.intercept[1] - found.intercept[0] == pytest.approx(intercept[0], **EXACT)
        else:
            assert found.coef == pytest.approx(coef, **EXACT)
            assert found.intercept == pytest.approx(intercept, **EXACT)
        levels = np.array(["A", "B", "C"] if by == "site" else ["no", "yes"])
        assert found.predict(RAW[:20, :2]).tolist() == levels[reference.predict(RAW[:20, :2])].tolist()
        assert f"Linear discriminants of {by}" in str(found)

    def test_discriminants_by_themselves(self) -> None:
        with pytest.raises(ValueError, match="must be others of"):
            linear_discriminants(exact(), "smoker", ["smoker"])


class TestMoments:
    moments = Moments.of(noisy())

    def test_covariance_of_noise_is_that_of_draws(self) -> None:
        law = np.random.default_rng(0)
        size = len(self.moments.variables)
        sd = np.sqrt(self.moments.variances)
        a, b = law.normal(size=(2, size))
        E = np.triu(law.normal(size=(40_000, size, size)) * sd)
        E = E + np.triu(E, 1).swapaxes(1, 2)
        on = [0, 2, 3]
        drawn = np.cov(np.column_stack([(E @ a)[:, on], (E @ b)[:, on]]).T)[:3, 3:]
        assert self.moments.noise_of_products(a, b, on) == pytest.approx(drawn, abs=0.05 * np.abs(drawn).max())
        form = make_form(a, b)
        assert self.moments.covariance(form, form) == pytest.approx(np.var(a @ E @ b), rel=0.05)

    def test_a_count_that_is_released_twice_has_less_noise(self) -> None:
        once = make_form(self.moments.unit(0), self.moments.unit(3))
        best = self.moments.count(3)
        assert self.moments.covariance(best, best) == pytest.approx(1.0 / (1.0 / 16.0 + 1.0 / 36.0))
        assert self.moments.covariance(once, once) == pytest.approx(16.0)

    def test_sampling_covariance_of_normal_rows(self) -> None:
        """Of r and of a mean: (1 − ρ²)²/n and s²/n."""
        generator = np.random.default_rng(2)
        rows = np.column_stack([np.ones(5000), 3.0 + generator.normal(size=5000)])
        moments = Moments.of(Release.from_arrays(rows.T @ rows))
        mean = moments.matrix[0, 1] / 5000.0
        form = (
            make_form(moments.unit(0), moments.unit(1)) - mean * make_form(moments.unit(0), moments.unit(0))
        ) / 5000.0
        expected = rows[:, 1].var() / 5000.0
        assert moments.sampling_covariance([form])[0, 0] == pytest.approx(expected, rel=1e-6)

    def test_what_a_release_must_hold(self) -> None:
        with pytest.raises(EstimationError, match="without a constant"):
            Moments.of(release_of_rows(U, KAPPA, constant=False))
        two = release_of_rows(U, np.column_stack([KAPPA, DOSE]), targets=["a", "b"])
        assert describe(two)["b", "", "mean"].value == pytest.approx(DOSE.mean(), **EXACT)
        with pytest.raises(KeyError):
            correlations(two)["a", "b"]
        with pytest.raises(EstimationError, match="the release tells of"):
            describe(Release.from_arrays([[1.0, 0.0], [0.0, 1.0]], features=["age"]))


BALL = {"rows": {"map": "ball", "norm": 1.2}}
WEIGHTED: list[dict[str, Any]] = [
    BALL,
    {"rows": {"map": "unit"}},
    {"rows": {"map": "linear", "matrix": {}, "bits": 0}},
    {"weight": ["column", "dose"]},
]


class TestWeightedRows:
    """A figure of weighted rows is not a figure of people."""

    @pytest.mark.parametrize("asked", WEIGHTED, ids=lambda asked: str(asked)[:30])
    @pytest.mark.parametrize(
        "read",
        [
            describe,
            lambda release: table_one(release, "site"),
            lambda release: linear_discriminants(release, "site"),
            lambda release: ContingencyTable.from_gram(release, "site", "smoker"),
        ],
    )
    def test_figures_of_people_are_refused_with_the_way_out(self, read: Any, asked: dict[str, Any]) -> None:
        release = exact()
        with pytest.raises(EstimationError, match=r"not those of people.*rows='box'.*CountsRequest.*MarginalsRequest"):
            read(replace(release, request=release.request | asked))

    def test_summaries_tell_no_number_of_rows(self) -> None:
        release = exact()
        plain, weighted = OLS().fit(release), OLS().fit(replace(release, request=release.request | BALL))
        assert f"{N} rows" in str(plain.summary())
        assert plain.glance()["nobs"].tolist() == pytest.approx([N])
        assert dict(weighted.summary().facts)["n"] == "not told, as rows are weighted"
        said = [" ".join(fit.summary().notes) for fit in (plain, weighted)]
        assert ["over all rows alike" in text for text in said] == [True, False]
        assert math.isnan(weighted.glance().loc[0, "nobs"])

    def test_the_request_of_the_readme_tells_of_people(self) -> None:
        """Of rows that the default row map weights every one of these was wrong: 66 % women for 55 %."""
        truth = describe(tutorial.exact_release())
        for one in describe(Release.load(tutorial.RELEASE)).estimates:
            assert one.conf_low <= truth[one.label].value <= one.conf_high, one.label

    def test_a_norm_that_no_row_exceeds_weights_none(self) -> None:
        release = exact()
        wide = {"rows": {"map": "ball", "norm": math.sqrt(5.0)}}
        assert describe(replace(release, request=release.request | wide)).estimates == describe(release).estimates

    @pytest.mark.parametrize(
        "read",
        [
            correlations,
            lambda release: partial_correlations(release, ["age", "dose"]),
            principal_components,
            lasso_path,
            lambda release: ttest_ind(release, "kappa", "smoker"),
            standardized_coefficients,
            lambda release: OLS().fit(release).t_test("age"),
            lambda release: OLS().fit(release).anova(),
        ],
    )
    def test_figures_of_weighted_rows_say_so(self, read: Any) -> None:
        release = exact()
        said = "rows longer than 1.2 in scaled units, the constant included, count for less"
        shown = " ".join(str(read(replace(release, request=release.request | BALL))).split())
        assert said in shown.lower()
        assert said not in " ".join(str(read(release)).split()).lower()

    def test_rows_that_count_for_nothing_are_said(self) -> None:
        column = replace(Column.numeric("age", 50, 100), missing="omit")
        table = describe(release_of_rows(U[:, :1], KAPPA, features=[column]))
        assert "All figures, n too, are of rows that have age." in table.notes


class TestWithNoise:
    def test_noise_widens_every_interval(self) -> None:
        without, within = exact(), noisy()
        for read in (
            describe,
            lambda release: table_one(release, "site"),
            correlations,
            standardized_coefficients,
            lambda release: ttest_ind(release, "kappa", "smoker"),
            lambda release: two_stage_least_squares(release, "kappa", ["dose"], ["age"]),
            lambda release: mediation(release, "kappa", "age", "dose"),
        ):
            narrow, wide = read(without).estimates, read(within).estimates
            for a, b in zip(narrow, wide, strict=True):
                assert a.label == b.label
                assert b.conf_high - b.conf_low > a.conf_high - a.conf_low - 1e-9, a.label

    def test_little_noise_changes_little(self) -> None:
        little = noisy(Noise(1e-6, 1e-6, 1e-6, 1e-6))
        for a, b in zip(describe(exact()).estimates, describe(little).estimates, strict=True):
            assert (b.value, b.conf_low, b.conf_high) == pytest.approx((a.value, a.conf_low, a.conf_high), rel=1e-4)
        for a, b in zip(correlations(exact()).estimates, correlations(little).estimates, strict=True):
            assert (b.value, b.conf_low, b.conf_high) == pytest.approx((a.value, a.conf_low, a.conf_high), abs=1e-3)

    def test_noise_that_hides_a_variance_is_said(self) -> None:
        table = correlations(noisy(Noise(60.0, 20.0, 20.0, 500.0)), ["age", "kappa"])
        assert (table["age", "kappa"].conf_low, table["age", "kappa"].conf_high) == (-1.0, 1.0)
        assert any("hides" in note for note in table.notes)

    def test_noise_takes_its_share_of_how_far_components_are_off(self) -> None:
        found = [principal_components(noisy(Noise(sd, sd, sd, sd))) for sd in (0.1, 3.0, 9.0)]
        shares = [float(components.privacy_share[0]) for components in found]
        assert shares == sorted(shares)
        assert 0.0 < shares[0] < shares[-1] < 1.0

    def test_a_table_shows_and_tidies(self) -> None:
        table = table_one(noisy(), "site")
        frame = table.tidy()
        assert list(frame.columns[:4]) == ["variable", "level", "statistic", "site"]
        assert len(frame) == len(table)
        assert "<table" in table._repr_html_()
        assert "C" in str(table)
        with pytest.raises(KeyError, match="labels are variable, level, statistic, site"):
            table["nothing"]


def test_a_request_of_counts_is_advised_where_it_would_cost_less() -> None:
    """K tables move by √(2K) at most: noise of 30 rows costs µ ≤ √(2·2)/30, a small part of 0.5."""
    rng = np.random.default_rng(3)
    columns = [Column.boolean("ill"), Column.categorical("sex", ["F", "M"]), Column.numeric("age", 0, 1)]
    X = np.column_stack([np.ones(5000), rng.random((5000, 2)) < 0.4, rng.random(5000)])
    cheap = Release.from_arrays(X.T @ X, features=columns, noise=Noise(30.0, 30.0, distribution="discrete_gaussian"))
    paid = replace(cheap, cost=Cost(0.5, 0.1, 2.0, 1e-6, 1, None, 0.3))
    (note,) = (note for note in describe(paid).notes if "CountsRequest" in note)
    assert "mu=0.06667) would tell these with noise as small for 1.78% of what this release cost" in note.replace(
        ",", ""
    )
    (note,) = (note for note in table_one(paid, by="ill").notes if "CountsRequest" in note)
    assert "by ill alone" in note
    assert not any("CountsRequest" in note for note in describe(cheap).notes)
    dear = replace(cheap, cost=Cost(0.08, 0.1, 2.0, 1e-6, 1, None, 0.3))
    assert not any("CountsRequest" in note for note in describe(dear).notes)


def test_a_meta_analysis_is_that_of_statsmodels(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    releases, means, variances = {}, [], []
    for k in range(6):
        x = rng.normal(size=400)
        y = (0.5 + 0.4 * rng.normal()) * x + rng.normal(size=400)
        X = np.column_stack([np.ones(400), x])
        releases[f"hospital {k}"] = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=["x"])
        fit = sm.OLS(y, X).fit()
        means.append(fit.params[1])
        variances.append(fit.bse[1] ** 2)
    with pytest.warns(EstimationWarning, match="same coefficients"):
        table = meta_analysis(releases, "x")
    reference = combine_effects(np.array(means), np.array(variances), method_re="iterated", use_t=True)
    assert [one.label[0] for one in table.estimates] == [
        *releases,
        "common coefficient",
        "mean of hospitals that differ",
    ]
    for k, name in enumerate(releases):
        assert table[name].value == pytest.approx(means[k], rel=1e-9)
        assert table[name].std_error == pytest.approx(variances[k] ** 0.5, rel=1e-9)
    low, high = reference.conf_int()[3]  # of random effects, with Knapp and Hartung's factor
    mean = table["mean of hospitals that differ"]
    assert mean.value == pytest.approx(reference.mean_effect_re, rel=1e-6)
    assert (mean.conf_low, mean.conf_high) == pytest.approx((low, high), rel=1e-6)
    assert "p < 0.001" in table.notes[1]
    ax = estimate_forest(table, Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["hospital 0", "hospital 1"]
    ax.figure.savefig(tmp_path / "forest.png")  # type: ignore[union-attr]


def test_a_meta_analysis_shows_a_hospital_whose_noise_hides_everything() -> None:
    rng = np.random.default_rng(9)
    releases = {}
    for name, rows in (("north", 4000), ("south", 3000), ("hidden", 20)):
        X = np.column_stack([np.ones(rows), rng.normal(size=rows)])
        y = X @ [1.0, 0.5] + rng.normal(size=rows)
        noise = Noise(60.0, 60.0, 60.0, 60.0) if name == "hidden" else Noise(1.0, 1.0, 1.0, 1.0)
        releases[name] = Release.from_arrays(X.T @ X, X.T @ y, y @ y, features=["x"], noise=noise)
    table = meta_analysis(releases, "x")
    assert math.isinf(table["hidden"].conf_high)
    assert table["common coefficient"].conf_high - table["common coefficient"].conf_low < 0.2
    assert len(estimate_forest(table, Figure().subplots()).get_yticklabels()) == 5
    with pytest.raises(ValueError, match="no parameter 'z'"):
        meta_analysis(releases, "z")
    with pytest.raises(ValueError, match="two releases at least"):
        meta_analysis({"north": releases["north"]}, "x")


def test_the_ends_of_a_tail_are_exact_and_found_in_few_steps() -> None:
    asked: list[float] = []

    def tail(sigma: float) -> float:
        asked.append(sigma)
        return float(stats.chi2.cdf(300.0 / sigma**2, 300))

    ends = np.sqrt(300.0 / stats.chi2.ppf([0.975, 0.025], 300))
    assert invert_tail(tail, 1.0, 0.0, 100.0, 0.95, 0.09) == pytest.approx(tuple(ends), rel=1e-10)
    assert len(asked) <= 13
