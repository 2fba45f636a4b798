"""Parts of a release: the same numbers as a release of those columns, noise that is what it is, and honest limits."""

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_examples import FIRST, RECEIPT, RELEASE_TEXT, Curator, ask, compact, release_body
from client_examples import released as released_text
from numpy.typing import NDArray

from analyst_client import (
    OLS,
    AdaSSP,
    BayesianRegression,
    Column,
    EmpiricalBayes,
    EstimationError,
    EstimationWarning,
    LogisticRegression,
    Release,
)
from analyst_client.errors import ServiceError
from analyst_client.kinds import Noise
from analyst_client.verify import main, verify_text

ROOT = Path(__file__).resolve().parents[3]
FLCHAIN = ROOT / "analyst_client" / "tutorial" / "release.json"
SEX = Column.categorical("sex", ["F", "M", "X"], missing="complete")
AGE = Column.numeric("age", 50, 100, missing="complete")
ILL = Column.boolean("ill", missing="complete")
NOISE = Noise(xtx_diagonal=8.0, xtx_offdiagonal=5.0, xty=3.0, yty=2.0, lambda_min=1.0)


def cohort(seed: int = 0, rows: int = 400) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scaled rows (1, age, sex[M], sex[X], ill) and two targets."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 3, rows)
    age = rng.uniform(-1.0, 1.0, rows)
    ill = (rng.uniform(size=rows) < 0.3 + 0.2 * age).astype(float)
    X = np.column_stack([np.ones(rows), age, sex == 1, sex == 2, ill]).astype(float)
    return X, np.column_stack([0.3 * age + 0.2 * ill, 0.1 * age]) + rng.normal(0.0, 0.2, (rows, 2))


def released(X: NDArray[np.float64], Y: NDArray[np.float64], features: list[Any], **options: Any) -> Release:
    gram = X.T @ X
    names = ["kappa", "lambda"][: Y.shape[1]]
    return Release.from_arrays(
        (gram + gram.T) / 2, X.T @ Y, np.sum(Y**2, axis=0), features=features, targets=names, **options
    )


@pytest.fixture
def whole() -> Release:
    X, Y = cohort()
    return released(X, Y, [AGE, SEX, ILL], noise=NOISE, lambda_min=7.0)


def same(a: Release, b: Release) -> None:
    for name in ("xtx", "xty", "yty"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12)
    assert a.terms == b.terms
    assert a.features == b.features


# Numbers


def test_a_part_is_what_a_release_of_those_columns_would_hold(whole: Release) -> None:
    X, Y = cohort()
    same(whole.select(["ill", "age"], "kappa"), released(X[:, [0, 4, 1]], Y[:, :1], [ILL, AGE]))
    same(whole.select(["sex"]), released(X[:, [0, 2, 3]], Y, [SEX]))
    assert whole.select(["sex"]).target_names == ("kappa", "lambda")


def test_a_feature_becomes_the_target_with_its_entries_of_the_matrix(whole: Release) -> None:
    X, _ = cohort()
    part = whole.select(target="ill")
    assert (part.feature_names, part.target_names) == (("age", "sex"), ("ill",))
    assert (part.targets[0].kind, part.term_names) == ("boolean", ("(constant)", "age", "sex[M]", "sex[X]"))
    np.testing.assert_allclose(part.xty, X[:, :4].T @ X[:, [4]])
    np.testing.assert_allclose(part.yty, [np.sum(X[:, 4] ** 2)])


def test_noise_of_a_part_is_that_of_its_entries(whole: Release) -> None:
    assert whole.select(["age"]).noise == Noise(8.0, 5.0, 3.0, 2.0)
    assert whole.select(["age"], "ill").noise == Noise(8.0, 5.0, xty=5.0, yty=8.0)
    assert whole.select(["age"]).lambda_min is None
    assert whole.select(["ill", "age", "sex"]).lambda_min == 7.0


def test_noise_of_a_part_has_the_variance_that_is_stated_and_is_independent() -> None:
    """The score of a feature as the target, over many draws of GOE noise, has the covariance of the stated law."""
    rng, draws = np.random.default_rng(5), 1500
    X, Y = cohort()
    gram, cross, squares = X.T @ X, X.T @ Y, np.sum(Y**2, axis=0)
    beta = np.array([0.4, -0.7, 0.5])
    scores, sums = np.empty((draws, 3)), np.empty(draws)
    for k in range(draws):
        E = np.triu(rng.normal(0.0, 5.0, gram.shape), 1)
        E = E + E.T + np.diag(rng.normal(0.0, 8.0, len(gram)))
        noisy = Release.from_arrays(
            (gram + gram.T) / 2 + E, cross, squares, features=[AGE, SEX, ILL], targets=["kappa", "lambda"], noise=NOISE
        )
        part = noisy.select(["sex"], "age")
        scores[k] = part.xty[:, 0] - part.xtx @ beta
        sums[k] = part.yty[0] - 2.0 * part.xty[:, 0] @ beta + beta @ part.xtx @ beta
    law = OLS().fit(part).results_[0].equations.sites[0].law
    stated = law.covariance(beta)
    root = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.max(np.abs(np.cov(scores.T) - stated) / root) < 4.5 * np.sqrt(2.0 / draws)  # 1 in 10,000 by chance
    assert np.var(sums) == pytest.approx(law.residual_sum_covariance(beta, beta), rel=4.5 * np.sqrt(2.0 / draws))


def test_fewer_terms_are_known_better_from_one_release_of_a_real_cohort() -> None:
    release = Release.load(FLCHAIN)
    fits = OLS().fit(release), OLS().fit(release, features=["age", "sex"])
    whole, part = (dict(zip(fit.param_names_, fit.std_errors_, strict=True)) for fit in fits)
    assert part["age"] < 0.9 * whole["age"]
    assert part["sex[M]"] < 0.7 * whole["sex[M]"]


# Fits


@pytest.mark.parametrize("estimator", [OLS(), AdaSSP(), EmpiricalBayes()], ids=repr)
def test_fit_selects_as_select_does(whole: Release, estimator: Any) -> None:
    by_fit = type(estimator)().fit(whole, "ill", features=["age"])
    by_hand = type(estimator)().fit(whole.select(["age"], "ill"))
    assert by_fit.coef_.tolist() == by_hand.coef_.tolist()
    assert by_fit.target_names_.tolist() == ["ill"]
    assert by_fit.predict([[75.0]]) == by_hand.predict([[75.0]])


def test_a_logistic_regression_of_a_boolean_feature_is_fitted(whole: Release) -> None:
    fit = LogisticRegression().fit(whole, "ill", features=["age"])
    assert fit.term_names_.tolist() == ["age"]
    assert fit.predict_proba([[100.0]])[0, 1] > fit.predict_proba([[50.0]])[0, 1]


def test_several_releases_are_selected_alike() -> None:
    north, south = (released(*cohort(seed), [AGE, SEX, ILL], noise=NOISE) for seed in (1, 2))
    fit = OLS().fit([north, south], "kappa", features=["age"])
    by_hand = OLS().fit([north.select(["age"], "kappa"), south.select(["age"], "kappa")])
    assert fit.coef_.tolist() == by_hand.coef_.tolist()


def test_two_parts_of_one_release_are_the_same_release_twice(whole: Release) -> None:
    with pytest.raises(ValueError, match="twice"):
        OLS().fit([whole.select(["age", "ill"]), whole.select(["ill", "age"])])


# What is selected of what


def test_a_part_of_a_part_is_a_part_of_the_whole(whole: Release) -> None:
    part = whole.select(["age", "sex"], "kappa").select(["sex"])
    assert part == whole.select(["sex"], "kappa")
    assert part.selected_from == whole
    with pytest.raises(ValueError, match="no feature 'ill'; it has age, sex"):
        whole.select(["age", "sex"]).select(["ill"])


def test_all_of_it_is_the_release_itself(whole: Release) -> None:
    assert whole.select() is whole
    assert whole.select(["age"]).selected_from is whole


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        (["weight"], None, "no feature 'weight'; it has age, sex, ill"),
        (["age"], "weight", "no target 'weight'; it has kappa, lambda, and may take one of its features: age, ill"),
        (["age", "kappa"], "lambda", "released as a target"),
        (["age", "age"], None, "once"),
        (["age", "ill"], "ill", "once"),
        (None, "sex", "categorical"),
        ("age", None, r"must be a list: ask with features=\['age'\]"),
    ],
)
def test_what_cannot_be_cut_out_is_refused(
    whole: Release, features: list[str] | None, target: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        whole.select(features, target)


def test_a_column_with_an_indicator_is_no_target() -> None:
    release = Release.from_arrays(np.eye(4), np.ones(4), features=[Column.numeric("a", missing="indicator"), "b"])
    with pytest.raises(ValueError, match="missing = indicator"):
        release.select(target="a")
    assert release.select(["a"]).term_names == ("(constant)", "a", "a[missing]")


def test_columns_of_ones_own_may_have_any_name() -> None:
    release = Release.from_arrays(np.eye(3), np.ones(3), features=["log(x)", "body mass"])
    assert release.select(["body mass"]).term_names == ("(constant)", "body mass")
    assert OLS().fit(release, "log(x)").feature_names_in_.tolist() == ["body mass"]


@pytest.mark.parametrize("row_map", ["unit", "unit_xy"])
def test_rows_divided_by_their_norm_have_no_parts(row_map: str) -> None:
    body = release_body()
    body["request"]["rows"] = {"map": row_map}
    release = Release.from_text(compact(body))
    with pytest.raises(ValueError, match="of a part of the features it holds no model"):
        release.select(["age"])
    assert release.select(["sex", "age"]).feature_names == ("sex", "age")


def test_without_a_constant_a_part_needs_a_feature() -> None:
    release = Release.from_arrays(np.eye(2), np.ones(2), features=["a", "b"], constant=False)
    assert release.select(["b"]).term_names == ("b",)
    with pytest.raises(ValueError, match="needs a feature"):
        release.select([])


# Files and receipts


def test_a_part_survives_a_file_and_a_pickle_with_its_receipt(tmp_path: Path) -> None:
    release = Release.from_text(RELEASE_TEXT)
    part = release.select(["sex"])
    part.save(tmp_path / "part.json")
    for again in (Release.load(tmp_path / "part.json"), pickle.loads(pickle.dumps(part))):
        assert again == part
        assert again.selected_from == release
        assert again.receipt == release.receipt
        same(again, part)
        assert again.verify(FIRST.public_key).verdict == "verified"


def test_the_verifier_checks_the_whole_answer_behind_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Release.from_text(RELEASE_TEXT).select(["sex"]).save(tmp_path / "part.json")
    assert main([str(tmp_path / "part.json"), "--key", FIRST.public_key]) == 0
    assert "verified" in capsys.readouterr().out
    text = (tmp_path / "part.json").read_text(encoding="utf-8")
    (tmp_path / "part.json").write_text(text.replace("900.0", "901.0"), encoding="utf-8")
    assert main([str(tmp_path / "part.json")]) == 1


def test_a_curator_answers_with_no_part() -> None:
    text = Release.from_text(RELEASE_TEXT).select(["sex"]).text
    with pytest.raises(ServiceError, match="no release of the kind 'selection'"):
        ask(Curator(released_text(text)).client())


def test_numbers_of_a_part_are_cut_out_anew_and_never_stored() -> None:
    members = json.loads(Release.from_text(RELEASE_TEXT).select(["sex"]).text)
    assert members == {"kind": "selection", "features": ["sex"], "targets": ["kappa"], "of": RELEASE_TEXT}


KEYS = {FIRST.key_id: FIRST.raw}
PART = json.loads(Release.from_text(RELEASE_TEXT).select(["sex"]).text)
INVENTED = {"id": "rel_0", "statistics": {"xtx": {"values": [1.0]}}, "noise": {"sd": {"xtx_diagonal": 0.0}}}


@pytest.mark.parametrize(
    ("text", "verdict", "reason"),
    [
        (compact(PART | INVENTED), "unverifiable", "nothing else"),
        (compact(PART | {"receipt": RECEIPT} | INVENTED), "unverifiable", "nothing else"),
        (compact({**json.loads(RELEASE_TEXT), **INVENTED, **PART}), "unverifiable", "nothing else"),
        (compact({name: PART[name] for name in ("kind", "of")}), "unverifiable", "nothing else"),
        (compact(PART | {"of": compact(RECEIPT)}), "unverifiable", "kind"),
        (compact(PART | {"of": "[]"}), "unverifiable", "no JSON object"),
        (compact(PART | {"features": ["nothing"]}), "inconsistent", "no feature 'nothing'"),
        (compact(PART | {"targets": ["nothing"]}), "inconsistent", "no target 'nothing'"),
        (compact(PART | {"features": ["kappa"]}), "inconsistent", "released as a target"),
    ],
)
def test_a_part_that_states_more_or_nothing_is_not_verified(text: str, verdict: str, reason: str) -> None:
    """`Release` reads the signed whole, or nothing at all: whoever reads the file otherwise reads unsigned numbers."""
    outcome = verify_text(text, KEYS)
    assert outcome.verdict == verdict
    assert reason in " ".join(outcome.reasons)
    with pytest.raises((ServiceError, ValueError)):
        Release.from_text(text)


# What it is then about


def weighted(seed: int, norm: float) -> tuple[Release, Release]:
    """Return a release of x and z under `ball` and one under `box`, of rows in which x = z/2 + noise."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1.0, 1.0, 20_000)
    x = 0.5 * z + 0.5 * rng.uniform(-1.0, 1.0, len(z))
    y = 0.3 * x + rng.normal(0.0, 0.1, len(z))
    D = np.column_stack([np.ones(len(z)), z, x])
    w = np.minimum(1.0, norm / np.linalg.norm(D, axis=1))[:, np.newaxis]
    columns = [Column.numeric(name, -1.0, 1.0, missing="complete") for name in ("z", "x")]
    rows = ((D * w, (y * w[:, 0])[:, np.newaxis], norm), (D, y[:, np.newaxis], None))
    ball, box = (released(X, Y, columns, norm=radius, noise=1.0) for X, Y, radius in rows)
    return ball, box


def test_a_target_that_took_part_in_the_weights_biases_the_fit_and_has_no_interval() -> None:
    ball, box = weighted(1, 1.0)
    unweighted = OLS().fit(box, "x")
    low, high = unweighted.conf_int()[1]
    assert low < 0.5 < high
    assert ball.select(target="x").weights_target
    with pytest.warns(EstimationWarning, match="x took part in the weights") as caught:
        fit = OLS().fit(ball, "x")
    assert caught[0].filename == __file__
    assert fit.coef_[0] < 0.46
    assert fit.coef_[0] < low
    assert fit.predict([[0.5]]).shape == (1,)
    assert "took part in the weights" in str(fit.summary())
    assert any("there are no intervals" in text for text in fit.caveats())
    asked: list[Any] = [
        fit.conf_int,
        fit.cov_params,
        fit.f_test,
        fit.confidence_sets,
        fit.identification,
        fit.rsquared_interval,
        fit.tidy,
        lambda: fit.std_errors_,
        lambda: fit.pvalues_,
        lambda: fit.privacy_share_,
        lambda: fit.predict_interval([[0.5]]),
        *(lambda method=method: fit.conf_int(method=method) for method in ("delta", "bootstrap", "posterior")),
        lambda: BayesianRegression(seed=1).fit(ball, "x"),
    ]
    for question in asked:
        with pytest.raises(EstimationError, match="took part in the weights"):
            question()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EstimationWarning)
        bayes = EmpiricalBayes().fit(ball, "x")
    for method in ("fieller", "posterior"):
        with pytest.raises(EstimationError, match="took part in the weights"):
            bayes.conf_int(method=method)


def test_what_the_message_suggests_has_intervals() -> None:
    _, box = weighted(1, 1.0)
    assert np.isfinite(OLS().fit(box, "x").conf_int()).all()
    assert [text for text in OLS().fit(box, "x").caveats() if "weight" in text] == []


def test_a_norm_that_no_row_can_exceed_weights_nothing() -> None:
    ball, _ = weighted(1, 2.0)
    assert not ball.weights_rows
    fit = OLS().fit(ball, "x")
    assert np.isfinite(fit.conf_int()).all()
    assert [text for text in fit.caveats() if "weight" in text] == []


def test_a_part_of_weighted_rows_names_its_estimand() -> None:
    ball, box = weighted(1, 1.0)
    fit = OLS().fit(ball, features=["z"])
    assert any(caveat.startswith("weights are those of the full request (z, x)") for caveat in fit.caveats())
    assert "weights are those of the full request" in " ".join(str(fit.summary()).split())
    assert np.isfinite(fit.conf_int()).all()
    for other in (OLS().fit(box, features=["z"]), OLS().fit(ball)):
        assert "full request" not in " ".join(other.caveats())
    assert ball.select(["x", "z"]).caveats == ()


def test_a_part_whose_rows_lack_others_says_whose() -> None:
    columns = [Column.numeric("a", missing="omit"), Column.numeric("b", missing="midpoint"), "c"]
    release = Release.from_arrays(np.eye(4) * 9, np.ones((4, 2)), np.ones(2), features=columns, targets=["y", "u"])
    assert release.select(["a", "c"]).caveats == ()
    (caveat,) = release.select(["b", "c"]).caveats
    assert "a row that misses a counts for nothing" in caveat
    (caveat,) = release.select(["a", "b"], "c").caveats
    assert "misses y or u" in caveat
