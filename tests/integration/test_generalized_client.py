"""Logistic and Poisson regression by score steps, with the real client and the real curator."""

import pickle
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import support
from support import World, client_of, make_rows, open_world

from analyst_client import (
    CuratorClient,
    EstimationError,
    LogisticRegression,
    PoissonRegression,
    RefinedRegression,
    load_fit,
)
from analyst_client.kinds.gram.design import design_matrix
from analyst_client.refinement import GeneralizedRules, Refinement, RefinementRules
from analyst_client.terms import col, log
from curator_service.privacy.accountant import Price

COUNT = 1000
FEATURES = ["age", "sex", "weight"]
EXACT: dict[str, Any] = {"mu": 300.0, "expected_rows": COUNT}
FITS: dict[str, Any] = {"binomial": LogisticRegression, "poisson": PoissonRegression}
TARGETS = {"binomial": "alive", "poisson": "lambda"}


def draw_rows() -> list[dict[str, str]]:
    """Return rows of which a boolean and a count depend on age and sex."""
    generator, rows = np.random.default_rng(5), make_rows(COUNT, seed=11)
    for row in rows:
        age = float(np.clip(generator.normal(66.0, 5.0), 50.0, 100.0))
        index = 0.15 * (age - 66.0) + 0.8 * (row["sex"] == "M") - 0.4
        row["age"], row["weight"] = repr(age), repr(float(np.clip(generator.normal(80.0, 12.0), 41.0, 159.0)))
        row["alive"] = "true" if generator.uniform() < 1.0 / (1.0 + np.exp(-index)) else "false"
        row["lambda"] = repr(float(min(generator.poisson(np.exp(0.4 * index)), 6)))
    return rows


ROWS = draw_rows()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    counted = [(*column[:4], support.COUNTED) if column[0] == "lambda" else column for column in support.COLUMNS]
    written = support.manifest_text

    def write(name: str = "cohort", *arguments: Any, **options: Any) -> str:
        return written(name, *arguments, **options | ({"columns": counted} if name == "cohort" else {}))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(support, "manifest_text", write)
        with open_world(tmp_path_factory.mktemp("generalized"), rows=ROWS, limit=Price(mu=1000.0)) as opened:
            yield opened


@pytest.fixture(scope="module")
def client(world: World) -> CuratorClient:
    return client_of(world)


@pytest.fixture(scope="module")
def exact(client: CuratorClient) -> dict[str, Refinement]:
    return {
        family: client.refine("cohort", FEATURES, target=target, family=family, **EXACT)
        for family, target in TARGETS.items()
    }


def frame() -> dict[str, list[Any]]:
    return {name: [float(row[name]) if name in {"age", "weight"} else row[name] for row in ROWS] for name in FEATURES}


def reference(family: str, fit: Any) -> Any:
    """Return the fit of statsmodels on the columns as they are declared."""
    x = design_matrix(frame(), fit.columns_, fit.terms_, True)
    if family == "binomial":
        y = np.array([float(row["alive"] == "true") for row in ROWS])
        return x, y, sm.Logit(y, x).fit(disp=0)
    y = np.array([float(row["lambda"]) for row in ROWS])
    return x, y, sm.GLM(y, x, family=sm.families.Poisson()).fit()


@pytest.mark.parametrize("family", FITS)
class TestLargePrice:
    def test_it_is_maximum_likelihood(self, exact: dict[str, Refinement], family: str) -> None:
        fit = FITS[family]().fit(exact[family])
        _, _, expected = reference(family, fit)
        found = fit.refined_.frame.to_terms(fit.refined_.theta)
        assert np.abs((found - expected.params) / expected.bse).max() < 0.1

    def test_standard_errors_are_the_textbook_s(self, exact: dict[str, Refinement], family: str) -> None:
        fit = FITS[family]().fit(exact[family])
        x, y, _ = reference(family, fit)
        forms = np.linalg.inv(fit.results_[0].contrasts)  # back to scaled terms
        assert fit.std_errors_ == pytest.approx(FITS[family](robust=True).fit(exact[family]).std_errors_)
        for robust, cov_type in ((False, "nonrobust"), (True, "HC0")):
            model = sm.Logit(y, x) if family == "binomial" else sm.GLM(y, x, family=sm.families.Poisson())
            wanted = model.fit(disp=0, cov_type=cov_type).bse
            covariance = forms @ FITS[family](robust).fit(exact[family]).cov_params() @ forms.T
            assert np.sqrt(np.diag(covariance)) == pytest.approx(wanted, rel=0.15)

    def test_predictions_are_of_raw_rows(self, exact: dict[str, Refinement], family: str) -> None:
        fit = FITS[family]().fit(exact[family])
        _, _, expected = reference(family, fit)
        found = fit.predict_proba(frame(), clip=True)[:, 1] if family == "binomial" else fit.predict(frame(), clip=True)
        assert found == pytest.approx(expected.predict(), abs=0.02)
        assert (
            fit.score(
                frame(),
                [row["alive"] == "true" for row in ROWS]
                if family == "binomial"
                else [float(row["lambda"]) for row in ROWS],
            )
            > 0.05
        )

    def test_a_saved_one_is_the_same(self, exact: dict[str, Refinement], family: str, tmp_path: Path) -> None:
        exact[family].save(tmp_path / "refined.json")
        loaded = Refinement.load(tmp_path / "refined.json")
        assert repr(loaded) == repr(exact[family])
        assert family in repr(loaded)
        first, second = FITS[family]().fit(exact[family]), FITS[family]().fit(loaded)
        assert first.coef_ == pytest.approx(second.coef_, rel=1e-9)
        assert first.conf_int() == pytest.approx(second.conf_int(), rel=1e-9)
        assert pickle.loads(pickle.dumps(first)).conf_int() == pytest.approx(first.conf_int(), rel=1e-12)
        first.save(tmp_path / "fit.json")
        again = load_fit(tmp_path / "fit.json")
        assert again.params == first.params
        assert again.source_.releases.releases == first.source_.releases.releases

    def test_a_summary_has_ratios_and_intervals(self, exact: dict[str, Refinement], family: str) -> None:
        fit = FITS[family]().fit(exact[family])
        text, heads = str(fit.summary()), fit.summary().heads
        assert ("odds ratio" if family == "binomial" else "rate ratio") in heads
        assert "robust std err" in heads
        assert "robust" in text
        assert ("dispersion" in text) == (family == "poisson")
        low, high = fit.conf_int().T
        assert np.all((low < fit.params_) & (fit.params_ < high))
        assert fit.pvalues_[1] < 1e-6


def test_the_price_is_spent_and_no_more(client: CuratorClient) -> None:
    before = client.budget("cohort").posted.mu
    found = client.refine("cohort", ["age"], target="alive", family="binomial", mu=2.0, expected_rows=COUNT)
    after = client.budget("cohort").posted.mu
    assert before is not None
    assert after is not None
    assert after**2 - before**2 == pytest.approx(4.0, rel=1e-4)
    kinds = [str(one.request["kind"]) for one in found.releases]
    looked, steps = len(GeneralizedRules().looks) + 1, GeneralizedRules().steps
    assert kinds[:looked] == ["score"] * looked
    assert kinds[-steps:] == ["score"] * steps
    assert set(kinds[looked:-steps]) == {"gram"}
    assert len(kinds[looked:-steps]) <= GeneralizedRules().grams


def test_no_number_among_the_features_and_a_comparison_as_target(client: CuratorClient) -> None:
    found = client.refine(
        "cohort",
        ["sex"],
        target=col("age") > 66.0,
        family="binomial",
        where="weight > 70",
        mu=20.0,
        expected_rows=COUNT,
    )
    fit = LogisticRegression().fit(found)
    rows = [row for row in ROWS if float(row["weight"]) > 70.0]
    share = np.mean([float(row["age"]) > 66.0 for row in rows if row["sex"] == "F"])
    assert fit.predict_proba({"sex": ["F"]})[0, 1] == pytest.approx(share, abs=0.02)
    assert fit.predict({"sex": ["F", "M"]}).shape == (2,)


class TestLowPrices:
    @pytest.mark.parametrize("family", FITS)
    def test_the_mean_alone_is_told(self, client: CuratorClient, family: str) -> None:
        found = client.refine(
            "cohort", FEATURES, target=TARGETS[family], family=family, mu=0.028, expected_rows=COUNT, even_so=True
        )
        fit = FITS[family]().fit(found)
        assert len(found.releases) == (1 if family == "binomial" else len(GeneralizedRules().means) + 1)
        assert fit.coef_.shape == (0,)
        predicted = fit.predict({"age": [60.0, 72.0], "sex": ["F", "M"], "weight": [80.0, 80.0]})
        assert predicted[0] == predicted[1]
        with pytest.raises(EstimationError, match="not enough for XᵀX"):
            fit.conf_int()
        assert "not enough for XᵀX" in str(fit.summary())

    @pytest.mark.parametrize("family", FITS)
    @pytest.mark.parametrize("mu", [0.04, 0.1])
    def test_whatever_the_noise_there_is_a_fit(self, client: CuratorClient, family: str, mu: float) -> None:
        found = client.refine("cohort", FEATURES, target=TARGETS[family], family=family, mu=mu, expected_rows=COUNT)
        fit = FITS[family]().fit(found)
        assert np.isfinite(fit.coef_).all()
        assert np.isfinite(fit.predict(frame(), clip=True)).all()
        assert str(fit.summary())
        with suppress(EstimationError):  # which says what would do
            assert not np.isnan(fit.conf_int()).any()


def test_an_offset_is_held_at_1_and_saved(client: CuratorClient, tmp_path: Path) -> None:
    exposure = log(col("weight"))
    found = client.refine(
        "cohort", ["age"], target=2.0 + col("lambda"), family="poisson", offset=exposure, mu=100.0, expected_rows=COUNT
    )
    fit = PoissonRegression().fit(found)
    rows = [(float(row["age"]), float(row["weight"]), 2.0 + float(row["lambda"])) for row in ROWS if row["weight"]]
    age, weight, y = np.array(rows).T
    expected = sm.GLM(y, sm.add_constant(age), family=sm.families.Poisson(), offset=np.log(weight)).fit(cov_type="HC0")
    assert fit.param_names_.tolist() == ["(constant)", "age"]
    low, high = fit.conf_int().T
    assert ((low < expected.params) & (expected.params < high)).all()
    assert high - low == pytest.approx(3.92 * expected.bse, rel=0.3)
    predicted = fit.predict({"age": age, "weight": weight})
    assert predicted == pytest.approx(expected.predict(), rel=0.05)
    found.save(tmp_path / "rates.json")
    again = PoissonRegression().fit(Refinement.load(tmp_path / "rates.json"))
    assert again.predict({"age": age, "weight": weight}) == pytest.approx(predicted, rel=1e-9)


class TestRefusals:
    def test_a_family_has_its_targets(self, client: CuratorClient) -> None:
        refine: Any = client.refine
        for target, family, said in (
            ("kappa", "binomial", "is of a boolean"),
            ("alive", "poisson", "is none"),
            ("dose", "poisson", "begin below 0"),
            ("kappa", "poisson", "whole = true"),
            (col("lambda") / 2.0, "poisson", "whole = true"),
            ("alive", "gamma", "family is one of"),
        ):
            with pytest.raises(ValueError, match=said):
                refine("cohort", ["age"], target=target, family=family, mu=1.0)
        for offset, family, said in (("weight", "binomial", "is of counts"), ("sex", "poisson", "is a number")):
            with pytest.raises(ValueError, match=said):
                refine("cohort", ["age"], target=TARGETS[family], family=family, offset=offset, mu=1.0)
        with pytest.raises(ValueError, match="are GeneralizedRules"):
            refine("cohort", ["age"], target="alive", family="binomial", mu=1.0, rules=RefinementRules())

    def test_an_estimator_has_its_family(self, exact: dict[str, Refinement]) -> None:
        with pytest.raises(ValueError, match="binomial family"):
            PoissonRegression().fit(exact["binomial"])
        with pytest.raises(ValueError, match="fit it with PoissonRegression"):
            RefinedRegression().fit(exact["poisson"])
        with pytest.raises(ValueError, match="takes nothing else"):
            LogisticRegression().fit(exact["binomial"], "alive")

    def test_before_fit(self) -> None:
        with pytest.raises(EstimationError, match="not fitted"):
            PoissonRegression().predict({"age": [1.0]})
        with pytest.raises(EstimationError, match="not fitted yet"):
            LogisticRegression().conf_int()
