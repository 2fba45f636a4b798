"""Average marginal effects: those of predictions, of coefficients where these are all, and of maximum likelihood."""

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from client_examples import combined_body, products_frame, release_body, release_of_rows, with_products
from test_client_combined import M, release_of, rows_of

from analyst_client import (
    OLS,
    Column,
    EstimationError,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    Release,
    Ridge,
    tutorial,
)
from analyst_client.errors import BoundsWarning
from analyst_client.estimators.margins import NormalTerms, normal_effects
from analyst_client.kinds import Noise
from analyst_client.kinds.gram.coding import Coded
from analyst_client.kinds.gram.local import packed, write_text
from analyst_client.schema import Term
from analyst_client.schema.columns import DerivedColumn, plain_term
from analyst_client.terms import col, log
from bench.ideal import IdealCurator

pytestmark = pytest.mark.filterwarnings("ignore:.*values of 'creatinine' outside of")
TOLD = OLS().fit(Release.load(tutorial.RELEASE))
KINDS: dict[str, Any] = {"binomial": LogisticRegression, "poisson": PoissonRegression}


def ends(one: Any) -> list[float]:
    return [one.value, one.std_error, one.conf_low, one.conf_high, one.pvalue]


@pytest.mark.parametrize("rows", [None, tutorial.held_out()], ids=["told", "rows"])
def test_of_a_linear_fit_they_are_the_coefficients(rows: Any) -> None:
    found, table = TOLD.margins(rows, 0.9), TOLD.table(0.9)
    assert [one.label for one in found] == [
        *(("age", "per unit"), ("sex", "M - F"), ("creatinine", "per unit"), ("lambda", "per unit"))
    ]
    for one, other in zip(found, ["age", "sex[M]", "creatinine", "lambda"], strict=True):
        assert ends(one) == pytest.approx(ends(table[other]), rel=1e-6)
    assert found.heads == ("column", "contrast")
    assert "rows that were given" in found.notes[-1] or "as the fit is linear" in found.notes[-1]


def test_they_do_not_shrink_with_the_estimator_s_intervals_and_are_its_coefficients() -> None:
    fit = Ridge(penalty=3.0).fit(Release.load(tutorial.RELEASE))
    assert [one.value for one in fit.margins()] == pytest.approx(fit.coef_)


def test_levels_without_a_constant_are_compared_with_the_first() -> None:
    generator = np.random.default_rng(2)
    site = generator.integers(0, 3, 300)
    U = np.column_stack([site == k for k in range(3)]).astype(float)
    y = U @ [0.1, 0.3, -0.2] + generator.normal(0.0, 0.1, 300)
    release = release_of_rows(U, y, features=[Column.categorical("site", ["A", "B", "C"])], constant=False)
    fit = OLS().fit(release, rows=300)
    wanted = [fit.t_test(f"site[{level}] - site[A]").estimates[0] for level in "BC"]
    for rows in (None, {"site": ["A", "C"]}):
        found = fit.margins(rows)
        assert [one.label for one in found] == [("site", "B - A"), ("site", "C - A")]
        assert [ends(one) for one in found] == [pytest.approx(ends(one)) for one in wanted]


class TestFunctionsOfColumns:
    fit = OLS().fit(with_products())
    rows = products_frame()

    def test_without_rows_they_are_refused_with_the_terms(self) -> None:
        with pytest.raises(
            EstimationError, match=r"effect of polynomial\(dose, 2\)\[1\], .*sex\[M\]:age depends.*margins\(frame\)"
        ):
            self.fit.margins()

    def test_they_are_the_mean_slopes_of_predictions(self) -> None:
        found = self.fit.margins(self.rows)
        for name in ("age", "dose"):
            above, below = (
                self.fit.predict(self.rows | {name: self.rows[name] + h}, clip=False) for h in (1e-3, -1e-3)
            )
            assert found[name, "per unit"].value == pytest.approx(np.mean(above - below) / 2e-3, rel=1e-6)
        men, women = (self.fit.predict(self.rows | {"sex": [sex] * 90}) for sex in "MF")
        assert found["sex", "M - F"].value == pytest.approx(np.mean(men - women))

    def test_intervals_are_those_of_contrasts(self) -> None:
        found = self.fit.margins(self.rows, 0.9)
        for label, contrast in {
            ("sex", "M - F"): f"sex[M] + {np.mean(self.rows['age'])} * sex[M]:age",
            ("age", "per unit"): f"age + {np.mean(self.rows['sex'] == 'M')} * sex[M]:age",
        }.items():
            wanted = self.fit.t_test(contrast, 0.9).estimates[0]
            assert ends(found[label]) == pytest.approx(ends(wanted), rel=1e-5)

    def test_at_a_bound_the_slope_is_that_within(self) -> None:
        at, near = (self.fit.margins({"sex": ["M"], "age": [60.0], "dose": [dose]}) for dose in (8.0, 7.999))
        assert at["dose", "per unit"].value == pytest.approx(near["dose", "per unit"].value, rel=1e-2)
        with pytest.warns(BoundsWarning, match="of 'dose' outside of 0 to 8"):
            beyond = self.fit.margins({"sex": ["M"], "age": [60.0], "dose": [9.0]})
        assert beyond["dose", "per unit"].value == pytest.approx(at["dose", "per unit"].value)


def test_combinations_have_the_effects_of_their_terms() -> None:
    X, y = rows_of()
    plain, combined = OLS().fit(release_of(release_body(), X, y)), OLS().fit(release_of(combined_body(), X @ M, y))
    for rows in (None, {"age": [60.0, 70.0], "sex": ["F", "M"]}):
        for one, other in zip(combined.margins(rows), plain.margins(rows), strict=True):
            assert ends(one) == pytest.approx(ends(other), rel=1e-4)


def test_rows_without_a_value_are_left_out() -> None:
    rows = tutorial.held_out()
    rows["age"] = [float("nan"), *rows["age"][1:]]
    assert TOLD.margins(rows)["age", "per unit"].value == pytest.approx(TOLD.coef_[0])
    with pytest.raises(EstimationError, match="no row has a value of age and all others"):
        TOLD.margins(rows | {"age": [float("nan")] * len(rows["sex"])})


def test_rows_over_their_norm_need_rows() -> None:
    X = np.random.default_rng(1).uniform(-1.0, 1.0, (200, 2))
    exact = release_of_rows(X, X[:, 0], noise=0.1)
    fit = OLS().fit(Release.from_text(exact.text.replace('"request":{', '"request":{"rows":{"map":"unit"},', 1)))
    with pytest.raises(EstimationError, match=r"divided by their norm.*margins\(frame\)"):
        fit.margins()
    rows = {"x1": X[:, 0], "x2": X[:, 1]}
    above, below = (fit.predict(rows | {"x1": rows["x1"] + h}) for h in (1e-5, -1e-5))
    assert fit.margins(rows)["x1", "per unit"].value == pytest.approx(np.mean(above - below) / 2e-5, rel=1e-3)


@cache
def cohort(family: str, mu: float = 3.0, n: int = 8000) -> tuple[Any, dict[str, Any], Any]:
    """Return a refinement, its rows, and statsmodels' fit of these."""
    generator = np.random.default_rng(5)
    x = np.column_stack(
        [
            generator.uniform(-1.0, 1.0, n),
            generator.normal(0.0, 0.7, n).clip(-2.0, 2.0),
            generator.uniform(size=n) < 0.3,
        ]
    ).astype(float)
    index = -0.5 + x @ [1.0, -0.6, 0.8]
    if family == "binomial":
        y = (generator.uniform(size=n) < 1.0 / (1.0 + np.exp(-index))).astype(float)
    else:
        y = np.minimum(generator.poisson(np.exp(index)), 40).astype(float)
    bounds: list[Any] = [(-2.0, 2.0), (-2.0, 2.0), None, None if family == "binomial" else (0.0, 40.0)]
    curator = IdealCurator.of_rows(np.column_stack([x, y]), bounds, generator)
    X = sm.add_constant(x)
    reference = (sm.Logit if family == "binomial" else sm.Poisson)(y, X).fit(disp=0)
    rows = {"x1": x[:, 0], "x2": x[:, 1], "x3": x[:, 2].astype(bool)}
    return curator.refine(mu, family=family), rows, reference.get_margeff(dummy=True)


@cache
def found_of(family: str) -> tuple[Any, Any, Any, Any]:
    """Return a fit, its effects over rows and over what it tells, and statsmodels'."""
    refinement, rows, reference = cohort(family)
    fit = KINDS[family]().fit(refinement)
    return fit, fit.margins(rows), fit.margins(), reference


@pytest.mark.parametrize("family", KINDS)
class TestGeneralised:
    def test_they_are_those_of_maximum_likelihood(self, family: str) -> None:
        _, *tables, reference = found_of(family)
        for table in tables:
            values, errors = (np.array([getattr(one, name) for one in table]) for name in ("value", "std_error"))
            assert np.abs(values - reference.margeff).max() < 0.5 * reference.margeff_se.min()
            assert errors == pytest.approx(reference.margeff_se, rel=0.2)
            low, high = np.array([(one.conf_low, one.conf_high) for one in table]).T
            assert (high - low) / errors == pytest.approx(2 * 1.959964, rel=1e-6)

    def test_gradients_are_those_of_the_values(self, family: str) -> None:
        """An interval of rows is the delta method's: of values at moved coefficients."""
        fit, of_rows, _, _ = found_of(family)
        results = fit.results_[0]
        moved = KINDS[family]().fit(fit.source_.releases)
        root = np.linalg.cholesky(results.covariance_of(np.eye(4)))
        squares = np.zeros(3)
        for column in root.T:
            moved.results_[0]._solved = results.solved._replace(theta=results.solved.theta + 1e-4 * column)
            rows = cohort(family)[1]
            values = np.array([one.value for one in moved.margins(rows)])
            squares += ((values - [one.value for one in of_rows]) / 1e-4) ** 2
        assert np.array([one.std_error for one in of_rows]) == pytest.approx(np.sqrt(squares), rel=1e-2)

    def test_the_noise_of_what_is_averaged_over_is_in_the_errors(self, family: str) -> None:
        """It is that of effects over terms as other noise would have told them."""
        fit = KINDS[family]().fit(cohort(family, 0.3)[0])
        results, moments = fit.results_[0], fit.refined_.moments
        coordinates, law = np.linalg.inv(fit.refined_.frame.matrix), moments.belief
        i, j = np.triu_indices(4)
        generator = np.random.default_rng(1)
        noise = generator.multivariate_normal(np.zeros(10), law.covariance[:10, :10], 400)

        def effects(entries: Any) -> list[Any]:
            A = np.zeros((4, 4))
            A[i, j] = A[j, i] = entries / moments.rows
            terms = NormalTerms(moments.second + A, coordinates, law, moments.rows)
            return list(normal_effects(results, fit.columns_, terms, partial(fit._respond, results)))

        drawn = np.std([[one.value for one in effects(0.1 * entries)] for entries in noise], axis=0) / 0.1
        told = effects(np.zeros(10))
        assert [one.noise for one in told] == pytest.approx(drawn, rel=0.1)
        for one, shown in zip(told, fit.margins(), strict=True):
            own = float(results.covariance_of(one.gradient[np.newaxis])[0, 0])
            assert shown.std_error == pytest.approx(np.sqrt(own + one.noise**2))
            assert shown.value == pytest.approx(one.value)


def test_of_a_refined_line_they_are_its_coefficients() -> None:
    generator = np.random.default_rng(5)
    x = generator.uniform(-1.0, 1.0, (3000, 2))
    y = x @ [1.0, -0.6] + generator.normal(0.0, 0.5, 3000)
    curator = IdealCurator.of_rows(np.column_stack([x, y]), [(-9.0, 9.0)] * 2 + [(-9.0, 9.0)], generator)
    fit = RefinedRegression().fit(curator.refine(1.0))
    for found in (fit.margins(), fit.margins({"x1": [0.1, 8.0], "x2": [0.2, 0.3]})):
        assert [one.label[0] for one in found] == ["x1", "x2"]
        for one, other in zip(found, list(fit.table())[1:], strict=True):
            assert ends(one) == pytest.approx(ends(other), rel=1e-6)


def test_a_weak_release_bounds_no_effect() -> None:
    xtx = [[900.0, 20.0, 10.0], [20.0, 12.0, 5.0], [10.0, 5.0, 300.0]]
    noise = Noise(9.0, 9.0, 9.0, 9.0)
    fit = OLS().fit(Release.from_arrays(xtx, [90.0, 60.0, 60.0], 90.0, features=["age", "dose"], noise=noise))
    assert fit.margins()["age", "per unit"].conf_high == np.inf
    assert "Unbounded intervals" in " ".join(fit.margins().notes)


def test_a_condition_is_a_column_of_its_own() -> None:
    """The slope of age is that between the steps that the condition makes."""
    age = Column.numeric("age", 50, 100)
    old = DerivedColumn(
        **vars(Column.boolean("age > 70", missing="complete")), expression=col("age") > 70, sources=(age,)
    )
    years = DerivedColumn(**vars(Column.numeric("log(age)", 3.9, 4.7)), expression=log(col("age")), sources=(age,))
    terms = (Term("(constant)", "constant"), *map(plain_term, (years, old)))
    y = plain_term(Column.numeric("y", 0, 2))
    coded = Coded(features=(years, old), inner_columns=(age,), terms=terms, targets=(y,), expressions={})
    statistics = {
        "xtx": packed([90, 1, 40, 30, 2, 40], (3, 3), "upper"),
        "xty": packed([9, 3, 6], (3, 1)),
        "yty": packed([9], (1,)),
    }
    text = write_text(
        coded,
        release_id="local",
        dataset="own",
        request={"kind": "gram"},
        statistics=statistics,
        noise=Noise(1.0, 1.0, 1.0, 1.0),
    )
    fit = OLS().fit(Release.from_text(text))
    found = fit.margins({"age": [60.0, 70.001, 90.0]})
    assert [one.label for one in found] == [("age", "per unit"), ("age > 70", "true - false")]
    assert found["age", "per unit"].value == pytest.approx(
        fit.coef_[0] * np.mean([1 / 60, 1 / 70.001, 1 / 90]), rel=1e-6
    )
    assert found["age > 70", "true - false"].value == pytest.approx(fit.coef_[1])
    told = fit.margins()
    assert [one.label for one in told] == [("log(age)", "per unit"), ("age > 70", "true - false")]
    assert [one.value for one in told] == pytest.approx(fit.coef_)
