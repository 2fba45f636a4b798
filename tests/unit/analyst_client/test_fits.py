"""The members that every fit has: what each returns, where it is refused, and that they agree with each other."""

import copy
import inspect
import json
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from client_examples import release_of_rows
from matplotlib.figure import Figure
from sklearn.base import clone

import analyst_client
from analyst_client import (
    OLS,
    SSP,
    AdaSSP,
    BayesianRegression,
    Column,
    EmpiricalBayes,
    EstimationError,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    Release,
    Ridge,
    RobustPrivateRegression,
    load_fit,
    tutorial,
)
from analyst_client.errors import BoundsWarning, CuratorError, ReceiptInvalidError, ServiceError
from analyst_client.estimators.base import Fit
from analyst_client.estimators.estimator import Estimator
from analyst_client.estimators.telling import GLANCE
from analyst_client.inference import AnovaTable, EstimateTable, Prior, base
from analyst_client.inference.heads import spent_text
from analyst_client.inference.score import ConfidenceSet
from analyst_client.inference.summary import Summary
from analyst_client.kinds import Noise
from analyst_client.refinement import Refinement
from analyst_client.schema import Cost
from analyst_client.terms import col
from bench.ideal import IdealCurator

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed"),  # tests draw few
    pytest.mark.filterwarnings("ignore:the log odds:analyst_client.EstimationWarning"),
    pytest.mark.filterwarnings("ignore:the standard errors of:analyst_client.EstimationWarning"),
]
X = np.random.default_rng(20).uniform(-1.0, 1.0, (400, 3))
ILL = (0.2 + X @ [0.3, -0.4, 0.1] + np.random.default_rng(21).normal(0.0, 0.1, 400) > 0.2).astype(float)
NAMES = ["(constant)", "x1", "x2", "x3"]
HYPOTHESES = ["x1 - x2", "x3 = 0.1"]


@cache
def released() -> Release:
    """Return what every estimator of releases can be fitted on: a boolean target, a constant, all statistics."""
    noise = Noise(2.0, 1.5, 1.5, 2.0, distribution="discrete_gaussian")
    return release_of_rows(X, ILL, targets=[Column.boolean("y", ("well", "ill"))], noise=noise)


@cache
def refined(family: str, n: int = 3000) -> Refinement:
    """Return a refinement of made-up rows; one of few rows buys no XᵀX."""
    generator = np.random.default_rng([5, n])
    x = generator.uniform(-1.0, 1.0, (n, 3))
    index = x @ [1.0, -0.6, 0.3]
    y, bounds = index + generator.normal(0.0, 0.5, n), (-6.0, 6.0)
    if family == "binomial":
        y, bounds = (generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-index))).astype(float), None
    elif family == "poisson":
        y, bounds = np.minimum(generator.poisson(np.exp(index)), 40).astype(float), (0.0, 40.0)
    curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-2.0, 2.0)] * 3 + [bounds], generator)
    return curator.refine(0.3 if n > 100 else 0.15, family=family)


SAMPLED = {"chains": 2, "draws": 20, "seed": 1}
OF_RELEASES: list[Any] = [
    OLS(),
    SSP(),
    Ridge(penalty=3.0),
    AdaSSP(failure_probability=0.2),
    EmpiricalBayes(),
    BayesianRegression(**SAMPLED),
    RobustPrivateRegression(**SAMPLED),
    LogisticRegression(),
]
OF_REFINEMENTS: list[tuple[Any, str]] = [
    (RefinedRegression(), "gaussian"),
    (BayesianRegression(**SAMPLED), "gaussian"),
    (LogisticRegression(), "binomial"),
    (LogisticRegression(robust=False), "binomial"),
    (PoissonRegression(), "poisson"),
]
FITTED: dict[str, tuple[Any, Callable[[], Any]]] = {f"{one!r} of a release": (one, released) for one in OF_RELEASES} | {
    f"{one!r} of a refinement": (one, lambda family=family: refined(family)) for one, family in OF_REFINEMENTS
}
POINTS: dict[str, tuple[Any, Callable[[], Any]]] = {
    f"{one!r} of few rows": (one, lambda family=family: refined(family, 40))
    for one, family in OF_REFINEMENTS
    if not isinstance(one, BayesianRegression)
}
every_estimator = pytest.mark.parametrize("estimator", [one for one, _ in FITTED.values()], ids=repr)
every_fit = pytest.mark.parametrize("name", FITTED)


@cache
def fit_of(name: str) -> Any:
    estimator, source = (FITTED | POINTS)[name]
    return clone(estimator).fit(source())


def is_array(*shape: int) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, np.ndarray) and found.shape == shape


def is_a(kind: type) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, kind)


def has_names(found: Any) -> bool:
    return isinstance(found, dict) and list(found) == NAMES and pd.Series(found).index.tolist() == NAMES


MEMBERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "coef_": (lambda fit: fit.coef_, is_array(3)),
    "intercept_": (lambda fit: fit.intercept_, is_a(float)),
    "term_names_": (lambda fit: fit.term_names_, lambda found: found.tolist() == NAMES[1:]),
    "target_names_": (lambda fit: fit.target_names_, lambda found: found.tolist() == ["y"]),
    "feature_names_in_": (lambda fit: fit.feature_names_in_, lambda found: found.tolist() == NAMES[1:]),
    "n_features_in_": (lambda fit: fit.n_features_in_, lambda found: found == 3),
    "param_names_": (lambda fit: fit.param_names_, lambda found: found.tolist() == NAMES),
    "params_": (lambda fit: fit.params_, is_array(4)),
    "std_errors_": (lambda fit: fit.std_errors_, is_array(4)),
    "pvalues_": (lambda fit: fit.pvalues_, is_array(4)),
    "params": (lambda fit: fit.params, has_names),
    "bse": (lambda fit: fit.bse, has_names),
    "pvalues": (lambda fit: fit.pvalues, has_names),
    "cov_params": (lambda fit: fit.cov_params(), is_array(4, 4)),
    "conf_int": (lambda fit: fit.conf_int(0.9), is_array(4, 2)),
    "conf_int together": (lambda fit: fit.conf_int(method="delta", simultaneous=True), is_array(4, 2)),
    "adjusted_pvalues": (lambda fit: fit.adjusted_pvalues("fit"), is_array(4)),
    "adjusted_pvalues of all": (lambda fit: fit.adjusted_pvalues("release"), is_array(4)),
    "confidence_sets": (
        lambda fit: fit.confidence_sets(0.9, "y"),
        lambda found: list(found) == NAMES and all(isinstance(one, ConfidenceSet) for one in found.values()),
    ),
    "table": (lambda fit: fit.table(0.9, "y"), is_a(EstimateTable)),
    "tidy": (lambda fit: fit.tidy(0.9), is_a(pd.DataFrame)),
    "glance": (lambda fit: fit.glance(0.9), is_a(pd.DataFrame)),
    "f_test": (lambda fit: fit.f_test(target="y"), is_a(base.TestResult)),
    "test": (lambda fit: fit.test("x1 = x2, x3 = 0", target="y"), is_a(base.TestResult)),
    "f_test of terms": (lambda fit: fit.f_test(["x1", "x2 - x3"]), is_a(base.TestResult)),
    "f_test of a value": (lambda fit: fit.f_test("x1 = 0.3"), is_a(base.TestResult)),
    "t_test": (lambda fit: fit.t_test(HYPOTHESES, 0.9, target="y"), is_a(EstimateTable)),
    "anova": (lambda fit: fit.anova("y"), is_a(AnovaTable)),
    "margins": (lambda fit: fit.margins(level=0.9, target="y"), is_a(EstimateTable)),
    "margins of rows": (lambda fit: fit.margins(X[:50], 0.9), is_a(EstimateTable)),
    "raw_powers": (lambda fit: fit.raw_powers(0.9), is_a(EstimateTable)),
    "caveats": (lambda fit: fit.caveats(0.9, "y"), is_a(tuple)),
    "summary": (lambda fit: fit.summary(0.9, "y"), is_a(Summary)),
    "to_latex": (lambda fit: fit.to_latex(0.9, "y"), is_a(str)),
    "to_markdown": (lambda fit: fit.to_markdown(0.9, "y"), is_a(str)),
    "to_html": (lambda fit: fit.to_html(0.9, "y"), is_a(str)),
    "predict": (lambda fit: fit.predict(X[:5]), is_array(5)),
    "predict_interval": (lambda fit: fit.predict_interval(X[:5], 0.9, mean=True), is_array(5, 2)),
    "predict with interval": (lambda fit: fit.predict(X[:5], interval="mean"), is_a(pd.DataFrame)),
    "score": (lambda fit: fit.score(X[:50], ILL[:50]), is_a(float)),
}
WITH_POINTS = {
    *("coef_", "intercept_", "term_names_", "target_names_", "feature_names_in_", "n_features_in_"),
    *("param_names_", "params_", "params", "summary", "predict", "score"),
    *("to_latex", "to_markdown", "to_html"),
}
TESTED_BY_PROJECTION = {
    *("pvalues_", "pvalues", "adjusted_pvalues", "adjusted_pvalues of all"),
    *("test", "f_test", "f_test of terms", "anova"),
}
MISSING = {  # members that a fit has not, and what it says that would have given them
    "LogisticRegression() of a release": (
        set(MEMBERS) - WITH_POINTS - TESTED_BY_PROJECTION - {"caveats"},
        r"tells no standard errors of log odds.*client\.refine\(…, family='binomial'\) buys them",
    )
}


def test_every_estimator_is_here() -> None:
    exported = [getattr(analyst_client, name) for name in analyst_client.__all__]
    kinds = {value for value in exported if isinstance(value, type) and issubclass(value, Estimator)}
    assert {type(estimator) for estimator, _ in FITTED.values()} == kinds


@pytest.mark.parametrize("member", MEMBERS)
@every_fit
def test_each_member_is_what_it_is_of_any_fit_or_says_what_would_give_it(name: str, member: str) -> None:
    (ask, is_right), (missing, said) = MEMBERS[member], MISSING.get(name, (set(), ""))
    if member in missing:
        with pytest.raises(EstimationError, match=said):
            ask(fit_of(name))
    else:
        assert is_right(ask(fit_of(name)))


@pytest.mark.parametrize("member", sorted(set(MEMBERS) - {"caveats"}))
@pytest.mark.parametrize("name", POINTS)
def test_a_price_that_bought_points_alone_says_so(name: str, member: str) -> None:
    ask, _ = MEMBERS[member]
    if member in WITH_POINTS:
        ask(fit_of(name))
    elif member not in {"test", "f_test of terms", "f_test of a value", "t_test"}:  # of terms that there are not
        with pytest.raises(EstimationError, match=r"the price was not enough for XᵀX.*At a higher price"):
            ask(fit_of(name))
    assert "the price was not enough for XᵀX" in " ".join(fit_of(name).summary().notes)


@pytest.mark.parametrize("member", sorted(name for name in {*dir(Fit)} - {*dir(Estimator)} if not name.startswith("_")))
@every_estimator
def test_each_member_takes_the_same_arguments_and_refuses_before_fit(estimator: Any, member: str) -> None:
    its, common = getattr(type(estimator), member), getattr(Fit, member)
    if not isinstance(common, property):
        assert list(inspect.signature(its).parameters.items()) == list(inspect.signature(common).parameters.items())
    if member in MEMBERS:
        with pytest.raises(EstimationError, match=rf"this {type(estimator).__name__} is not fitted yet: call fit"):
            MEMBERS[member][0](clone(estimator))


@every_fit
class TestTheyAgree:
    def test_parameters_are_the_intercept_and_the_coefficients(self, name: str) -> None:
        fit = fit_of(name)
        assert fit.params_ == pytest.approx([fit.intercept_, *fit.coef_])
        assert fit.param_names_.tolist() == ["(constant)", *fit.term_names_]

    def test_numbers_by_name_are_those_of_the_arrays(self, name: str) -> None:
        fit = fit_of(name)
        assert np.asarray(fit.params).tolist() == fit.params_.tolist()
        assert fit.params["x1"] == fit.params_[1]
        assert pd.Series(fit.pvalues).to_numpy() == pytest.approx(fit.pvalues_, nan_ok=True)
        if name not in MISSING:
            assert fit.bse == pytest.approx(dict(zip(NAMES, fit.std_errors_, strict=True)))
        assert pickle.loads(pickle.dumps(fit.params)) == fit.params
        assert [line.split()[0] for line in str(fit.params).split("\n") if "x" in line] == NAMES[1:]

    def test_the_test_of_one_term_is_its_p_value(self, name: str) -> None:
        fit = fit_of(name)
        for k, term in enumerate(NAMES[1:], 1):
            assert fit.f_test(term).pvalue == pytest.approx(fit.pvalues_[k], rel=1e-6, abs=1e-12)
            assert fit.anova()[term].pvalue == pytest.approx(fit.pvalues_[k], rel=1e-6, abs=1e-12)

    def test_a_joint_test_is_that_of_its_contrasts_and_shows_what_was_asked(self, name: str) -> None:
        fit = fit_of(name)
        found = fit.test("x1 = x2, x3 = 0")
        assert found == fit.f_test([[0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
        assert fit.test().statistic == pytest.approx(fit.f_test(["x1", "x2", "x3"]).statistic)
        assert str(found).startswith("x1 = x2, x3 = 0\n")
        assert "F(2, " in str(found)
        assert str(fit.test()).startswith("no term beside the constant matters\n")

    def test_a_summary_has_every_parameter_and_all_caveats(self, name: str) -> None:
        fit = fit_of(name)
        summary = fit.summary()
        assert [row[0] for row in summary.rows] == NAMES
        assert summary.title == f"y by {fit!r}"
        assert dict(summary.facts)["coefficients"] == "4"
        assert {f"Warning: {text}" for text in fit.caveats()} <= set(summary.notes)

    def test_another_target_is_refused(self, name: str) -> None:
        for ask in (fit_of(name).table, fit_of(name).caveats, fit_of(name).summary, fit_of(name).anova):
            with pytest.raises(ValueError, match="the fit has no target 'z'; it has y"):
                ask(target="z")

    def test_it_is_cloned_without_what_it_learnt(self, name: str) -> None:
        fit = fit_of(name)
        copied = clone(fit)
        assert type(copied) is type(fit)
        assert copied.get_params() == fit.get_params()
        assert [learnt for learnt in vars(copied) if learnt.endswith("_")] == []


@pytest.mark.parametrize("name", sorted(set(FITTED) - set(MISSING)))
def test_tables_hold_the_arrays(name: str) -> None:
    fit = fit_of(name)
    table, tidy, (low, high) = fit.table(0.9), fit.tidy(0.9), fit.conf_int(0.9).T
    assert fit.std_errors_ == pytest.approx(np.sqrt(np.diag(fit.cov_params())))
    columns = {
        "estimate": fit.params_,
        "std_error": fit.std_errors_,
        "conf_low": low,
        "conf_high": high,
        "p_value": fit.pvalues_,
    }
    for column, values in columns.items():
        assert tidy[column].to_numpy() == pytest.approx(values, nan_ok=True)
        assert table.tidy()[column].to_numpy() == pytest.approx(values, nan_ok=True)
    assert tidy["p_holm"].to_numpy() == pytest.approx(fit.adjusted_pvalues())
    assert np.sign(tidy["statistic"]).tolist() == np.sign(fit.params_).tolist()
    assert tidy["term"].tolist() == [one.label[0] for one in table.estimates] == NAMES
    assert set(tidy["estimator"]) == {type(fit).__name__}
    assert table["x1"].std_error == fit.std_errors_[1]
    assert table.level == 0.9


RATIOS = {
    "LogisticRegression() of a refinement": "odds ratio",
    "PoissonRegression() of a refinement": "rate ratio",
}


@pytest.mark.parametrize(("name", "ratio"), RATIOS.items())
def test_ratios_are_exponentials_with_intervals_of_their_own(name: str, ratio: str) -> None:
    fit = fit_of(name)
    plain, found = fit.tidy(0.9), fit.tidy(0.9, exponentiate=True)
    ends = ["estimate", "conf_low", "conf_high"]
    assert found[ends].to_numpy() == pytest.approx(np.exp(plain[ends].to_numpy()))
    pd.testing.assert_frame_equal(found.drop(columns=ends), plain.drop(columns=ends))
    table = fit.table(0.9, exponentiate=True)
    assert table.tidy()[ends].to_numpy() == pytest.approx(found[ends].to_numpy())
    assert table["x1"].std_error == fit.bse["x1"]
    assert re.search(rf"term +{ratio} +std err of log +90% from +to", str(table))
    assert table.plot().lines[0].get_xdata()[0] == 1.0  # no effect
    low, high = found.loc[1, ends[1:]]
    assert rf"& {ratio} & 90\% interval \\" in fit.to_latex(0.9)
    assert rf"{{[}}{low:.4g}, {high:.4g}{{]}} \\" in fit.to_latex(0.9)
    summary = fit.summary(0.9)
    assert summary.heads[1:3] == ("coef", fit._error_head(fit.results_[0]))
    assert summary.heads[-5:] == ("90% from", "to", ratio, "from", "to")
    assert summary.rows[1][-3:] == tuple(f"{value:.4g}" for value in found.loc[1, ends])


@pytest.mark.parametrize("ask", ["table", "tidy"])
def test_coefficients_of_a_linear_fit_are_no_logarithms_of_ratios(ask: str) -> None:
    with pytest.raises(ValueError, match=r"exponentiate=True is of logistic and Poisson fits.*OLS are in units"):
        getattr(fit_of("OLS() of a release"), ask)(exponentiate=True)


@pytest.mark.parametrize("width", [80, 100])
def test_a_ratio_stands_beside_its_interval(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = str(fit_of("LogisticRegression() of a refinement").summary())
    assert max(map(len, shown.splitlines())) <= width
    assert re.search(r"^term .*odds ratio +from +to$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(FITTED) - set(MISSING)))
def test_a_glance_has_one_set_of_columns_and_the_test_of_all_slopes(name: str) -> None:
    fit = fit_of(name)
    (row,) = fit.glance().to_dict("records")
    assert set(row) == {"target", "estimator", "releases", *GLANCE}
    test = fit.f_test()
    assert (row["statistic"], row["p_value"], row["df"]) == (test.statistic, test.pvalue, 3)
    assert row["nobs"] > 100.0


def test_a_refined_linear_fit_has_one_number_of_rows() -> None:
    client = tutorial.recorded_client("one_call")
    fit = client.fit(["age", "sex", "creatinine"], target="kappa", data="flchain", epsilon=1.0, yes=True)
    rows = fit.refined_.rows
    (glance,) = fit.glance().to_dict("records")
    assert glance["nobs"] == glance["df_residual"] + 4 == rows
    assert dict(fit.summary().facts)["n"] == f"{rows:,.0f} rows, noisy"
    assert f"F(3, {rows - 4:,.0f})" in dict(fit.summary().facts)


@pytest.mark.parametrize("name", [name for name in FITTED if name.endswith("of a release")])
def test_a_fit_survives_pickling(name: str) -> None:
    fit = fit_of(name)
    copied = pickle.loads(pickle.dumps(fit, protocol=5))
    assert copied.predict(X) == pytest.approx(fit.predict(X), abs=0.0)
    assert np.array_equal(copied.pvalues_, fit.pvalues_, equal_nan=True)
    assert name in MISSING or np.array_equal(copied.conf_int(), fit.conf_int())
    assert copied.get_params() == fit.get_params()


@pytest.mark.parametrize("name", sorted(set(FITTED) - set(MISSING)))
class TestPredictedIntervals:
    def test_a_frame_keeps_its_index_and_has_predictions_beside_intervals(self, name: str) -> None:
        fit = fit_of(name)
        frame = pd.DataFrame(X[:7], columns=NAMES[1:], index=list("abcdefg"))
        found = fit.predict(frame, interval="mean", level=0.9)
        assert found.columns.tolist() == ["fit", "lower", "upper"]
        assert found.index.tolist() == list("abcdefg")
        assert found[["lower", "upper"]].to_numpy() == pytest.approx(fit.predict_interval(frame, 0.9, mean=True))
        classes = fit._estimator_type == "classifier"
        assert found["fit"].to_numpy() == pytest.approx(
            fit.predict_proba(X[:7])[:, 1] if classes else fit.predict(frame)
        )
        assert (found["upper"] - found["lower"] > 0.0).all()
        longer = fit.predict(X[:7], interval="mean", level=0.99)
        assert longer.index.tolist() == list(range(7))
        assert (longer["lower"] < found["lower"].to_numpy()).all()

    def test_that_of_a_row_is_that_of_its_contrast(self, name: str) -> None:
        fit = fit_of(name)
        table = fit.t_test([[1.0, 0.3, -0.2, 0.5]], 0.9)
        ends = np.array([table["c0"].conf_low, table["c0"].conf_high])
        if hasattr(fit, "_mean"):
            ends = fit._mean(ends)
        assert fit.predict_interval([[0.3, -0.2, 0.5]], 0.9, mean=True)[0] == pytest.approx(ends, rel=1e-6)

    def test_new_values_have_longer_ones_or_none_with_the_reason(self, name: str) -> None:
        fit = fit_of(name)
        if hasattr(fit, "_mean"):
            with pytest.raises(EstimationError, match=r"interval='mean'\) has (those|intervals) of (prob|expected)"):
                fit.predict(X[:3], interval="value")
        else:
            mean, value = (fit.predict(X[:3], interval=interval) for interval in ("mean", "value"))
            assert (value["upper"] - value["lower"] > mean["upper"] - mean["lower"]).all()

    def test_a_row_without_a_value_has_none_and_bounds_are_named_once(self, name: str) -> None:
        fit = fit_of(name)
        frame = {name: [0.5, np.nan] for name in NAMES[1:]}
        assert fit.predict(frame, interval="mean").isna().all(axis=1).tolist() == [False, True]
        if hasattr(fit, "refined_"):
            with pytest.warns(BoundsWarning) as caught:
                fit.predict([[9.0, 0.0, 0.0]], interval="mean")
            assert len(caught) == 1


def test_a_frame_of_intervals_is_of_one_target_and_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = OLS().fit(release_of_rows(X, np.column_stack([ILL, X[:, 0]]), targets=["ill", "dose"], noise=1.0))
    with pytest.raises(ValueError, match="this needs a fit of one target"):
        fit.predict(X, interval="mean")
    assert fit.predict_interval(X[:4]).shape == (4, 2, 2)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EstimationError, match="data frames need pandas"):
        fit_of("OLS() of a release").predict(X, interval="mean")


class TestSaved:
    @pytest.mark.parametrize("name", [name for name in FITTED if name.endswith("of a release")])
    def test_it_is_equal_when_it_is_loaded(self, name: str, tmp_path: Path) -> None:
        fit = fit_of(name)
        fit.save(tmp_path / "fit.json")
        loaded = load_fit(tmp_path / "fit.json")
        assert type(loaded) is type(fit)
        assert loaded.get_params() == loaded.fitted_params_ == fit.fitted_params_
        assert loaded.params == fit.params
        assert str(loaded.summary()) == str(fit.summary())
        assert loaded.source_.releases == fit.source_.releases

    def test_draws_without_a_seed_and_a_prior_are_equal_too(self, tmp_path: Path) -> None:
        fit = BayesianRegression(Prior(constant_sd=3.0), draws=20, chains=2).fit(released())
        fit.save(tmp_path / "fit.json")
        loaded = load_fit(tmp_path / "fit.json")
        assert np.array_equal(loaded.posterior_draws(), fit.posterior_draws())
        assert loaded.seed is None
        assert loaded.prior == fit.prior
        assert not np.array_equal(clone(fit).fit(released()).posterior_draws(), fit.posterior_draws())
        both = release_of_rows(X, np.column_stack([ILL, X[:, 0]]), targets=["ill", "dose"], noise=1.0)
        fit = BayesianRegression(draws=20, chains=2).fit(both)
        fit.save(tmp_path / "fit.json")
        assert np.array_equal(load_fit(tmp_path / "fit.json").coef_, fit.coef_)

    def test_a_part_of_several_releases_in_an_order_of_its_own_is_equal(self, tmp_path: Path) -> None:
        other = release_of_rows(X[:300], ILL[:300], targets=[Column.boolean("y", ("well", "ill"))], noise=2.0)
        whole = {"north": released().in_order((["x2", "x3", "x1"], ["y"])), "south": other}
        fit = Ridge(penalty=np.float64(2.0)).fit(iter(whole.values()), "x3", features=["x2", "x1"])  # type: ignore[arg-type]
        fit.save(tmp_path / "fit.json")
        loaded = load_fit(tmp_path / "fit.json")
        assert loaded.params == fit.params
        assert loaded.source_[1:] == fit.source_[1:] == ("x3", ["x2", "x1"], None)
        assert loaded.source_.releases[0].order == whole["north"].order

    def test_columns_that_were_named_by_expressions_are_so_again(self, tmp_path: Path) -> None:
        features: Any = (col("x2"), "x1")
        fit = OLS().fit(released(), features=features)
        fit.save(tmp_path / "fit.json")
        loaded = load_fit(tmp_path / "fit.json")
        assert loaded.params == fit.params
        assert repr(loaded.source_.features) == repr(fit.source_.features) == "[x2, 'x1']"

    def test_a_release_that_was_changed_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "fit.json"
        OLS().fit(Release.load(tutorial.RELEASE)).save(file)
        file.write_text(file.read_text().replace("flchain", "flchaim", 1), encoding="utf-8")
        with pytest.raises(ReceiptInvalidError, match="is damaged, or was changed"):
            load_fit(file)

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ('"OLS"', '"Estimator"', "'Estimator' is no estimator of this library"),
            ('"OLS"', '"RidgePath"', "'RidgePath' is no estimator of this library"),
            ('"OLS"', '"os.system"', "'os.system' is no estimator of this library"),
            ('"fit": 1', '"fit": 2', "/fit is not 1, the format that this version reads"),
            ('"parameters": {}', '"parameters": {"penalty": 2}', "OLS() has no argument 'penalty': it takes none"),
            ('"parameters": {}', '"parameters": {"penalty": {"os": 2}}', "a prior is none"),
            ('"target": null', '"targets": null', "/call is not that of one fit"),
            ('"fit": 1,', "", "it has no member 'fit'"),
            ("{", "", "not JSON"),
            ("x1", "x4", "/order is not of this release"),
        ],
    )
    def test_a_file_of_no_fit_says_why(self, old: str, new: str, said: str, tmp_path: Path) -> None:
        file = tmp_path / "fit.json"
        fit_of("OLS() of a release").save(file)
        head, text = file.read_text(encoding="utf-8").rsplit(old, 1) if old == "x1" else ("", "")
        changed = head + new + text if old == "x1" else file.read_text(encoding="utf-8").replace(old, new, 1)
        file.write_text(changed, encoding="utf-8")
        with pytest.raises(ServiceError, match=f"fit.json holds no fit that this version reads: .*{re.escape(said)}"):
            load_fit(file)

    @pytest.mark.parametrize("hostile", [None, [None], 1e300, "x"], ids=repr)
    def test_a_file_of_anything_is_refused_as_one_or_fitted_within_bounds(self, hostile: Any, tmp_path: Path) -> None:
        """Whoever wrote the file could ask for draws without end, or for what is no text, number or name."""
        file, places = tmp_path / "fit.json", list[tuple[dict[str, Any], tuple[Any, ...]]]()
        for fit, parts in (
            (OLS(), ("call",)),
            (BayesianRegression(draws=20, chains=2), ("parameters", "chosen")),
        ):
            fit.fit(released()).save(file)
            whole = json.loads(file.read_text(encoding="utf-8"))
            places += [(whole, (part, name)) for part in parts for name in whole[part]]
            if isinstance(fit, OLS):
                places += [(whole, (name,)) for name in whole]
                places += [(whole, ("releases", 0, name)) for name in whole["releases"][0]]
        for original, place in places:
            changed = copy.deepcopy(original)
            within = changed
            for step in place[:-1]:
                within = within[step]
            within[place[-1]] = hostile
            file.write_text(json.dumps(changed), encoding="utf-8")
            with warnings.catch_warnings(), suppress(CuratorError):
                warnings.simplefilter("ignore")
                load_fit(file)
        for draws, chains in ((1_000_001, 1), (1001, 1000), (10**12, 10**12)):
            changed = copy.deepcopy(whole)
            changed["parameters"] |= {"draws": draws, "chains": chains}
            file.write_text(json.dumps(changed), encoding="utf-8")
            with pytest.raises(ServiceError, match="1,000,000 draws together at most"):
                load_fit(file)

    def test_what_cannot_be_saved_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(EstimationError, match="not fitted yet"):
            OLS().save(tmp_path / "fit.json")
        seed: Any = np.random.default_rng(1)
        with pytest.raises(ValueError, match=r"cannot be saved: Generator .* is no value of a file"):
            BayesianRegression(draws=20, chains=2, seed=seed).fit(released()).save(tmp_path / "fit.json")
        (tmp_path / "other").write_bytes(b"\xff")
        with pytest.raises(ServiceError, match="it is not text in UTF-8"):
            load_fit(tmp_path / "other")


@every_estimator
class TestParameters:
    def test_repr_is_how_to_make_the_estimator(self, estimator: Any) -> None:
        made = eval(repr(estimator), {name: getattr(analyst_client, name) for name in analyst_client.__all__})
        assert type(made) is type(estimator)
        assert made.get_params() == estimator.get_params()

    def test_they_are_set_by_name_and_no_others(self, estimator: Any) -> None:
        new = type(estimator)().set_params(**estimator.get_params())
        assert new.get_params() == estimator.get_params()
        with pytest.raises(ValueError, match=f"{type(new).__name__} has no parameter 'alpha'"):
            new.set_params(alpha=2.0)


@pytest.mark.parametrize("estimator", OF_RELEASES, ids=repr)
def test_a_fit_is_the_same_on_one_release_and_on_a_list_of_it(estimator: Any) -> None:
    alone, listed = clone(estimator).fit(released()), clone(estimator).fit([released()])
    assert np.array_equal(alone.coef_, listed.coef_)
    assert alone.intercept_ == listed.intercept_


@pytest.mark.parametrize("member", ["params", "bse", "pvalues"])
def test_numbers_by_name_are_of_one_target(member: str) -> None:
    fit = OLS().fit(release_of_rows(X, np.column_stack([ILL, X[:, 0]]), targets=["ill", "dose"], noise=1.0))
    with pytest.raises(ValueError, match=r"several, ill, dose: fit\(release, target='ill'\) has one"):
        getattr(fit, member)
    with pytest.raises(KeyError, match=r"no 'x4'; there are \(constant\), x1, x2, x3"):
        getattr(fit_of("OLS() of a release"), member)["x4"]


def test_a_second_fit_forgets_the_first() -> None:
    fit = LogisticRegression().fit(refined("binomial"))
    assert "spread_" not in vars(fit)
    fit.fit(released())
    assert "refined_" not in vars(fit)
    fit = BayesianRegression(**SAMPLED).fit(refined("gaussian")).fit(released())
    assert "spent_" not in vars(fit)


@pytest.mark.parametrize("estimator", [OLS(), RobustPrivateRegression()], ids=repr)
def test_what_is_for_releases_names_what_is_for_refinements(estimator: Any) -> None:
    with pytest.raises(ValueError, match="is fitted on releases; RefinedRegression and BayesianRegression"):
        estimator.fit(refined("gaussian"))


@pytest.mark.parametrize("estimator", [RefinedRegression(), PoissonRegression()], ids=repr)
def test_what_is_for_refinements_names_how_to_buy_one(estimator: Any) -> None:
    with pytest.raises(ValueError, match=rf"is fitted on what client\.refine\(…, family='{estimator._family}'\)"):
        estimator.fit(released())


@pytest.mark.parametrize("method", ["fieller", "bootstrap", "posterior", "random-effects"])
def test_a_generalised_fit_names_its_method(method: str) -> None:
    with pytest.raises(EstimationError, match="are those of method 'delta'"):
        fit_of("PoissonRegression() of a refinement").conf_int(method=method)
    with pytest.raises(EstimationError, match="are those of method 'delta'"):
        fit_of("PoissonRegression() of a refinement").summary(bound=1.0)


def test_a_forest_shows_a_generalised_fit_on_the_scale_of_its_link() -> None:
    plots = pytest.importorskip("analyst_client.plots")
    fit = fit_of("LogisticRegression() of a refinement")
    ax = plots.coefficient_forest(fit, ax=Figure().subplots())
    assert ax.get_xlabel() == "change of the log odds of y for one unit of the term\n95% intervals (Wald)"
    shown = sorted(tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2)
    assert [pair for pair in shown if pair[0] < pair[1]] == [
        pytest.approx(pair) for pair in sorted(map(tuple, fit.conf_int()[1:]))
    ]
    with pytest.raises(EstimationError, match="are those of method 'delta'"):
        plots.coefficient_forest(fit, method="fieller", ax=ax)


def test_fits_of_one_refinement_state_the_price_of_all_of_it() -> None:
    bought = refined("gaussian")
    price = Cost(0.16738, None, 0.68, 1e-6)
    whole = replace(bought, releases=tuple(replace(one, cost=price) for one in bought.releases))
    fits = RefinedRegression().fit(whole), BayesianRegression(**SAMPLED).fit(whole)
    charged = [dict(fit.summary().facts)["privacy charged"] for fit in fits]
    assert charged == [spent_text([("", price)] * len(whole.releases))] * 2
