"""Other names, units and reference levels of a release: fits as of rows that were changed by hand, and tampering."""

import json
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_examples import FIRST, RELEASE_TEXT, combined_body, compact

from analyst_client import (
    OLS,
    AdaSSP,
    BayesianRegression,
    Column,
    EmpiricalBayes,
    EstimationWarning,
    Release,
    Ridge,
    describe,
)
from analyst_client.analyses import standardized_coefficients
from analyst_client.errors import ReceiptInvalidError, ServiceError
from analyst_client.estimators.linear import LinearFit
from analyst_client.inference.agreement import heterogeneity_test
from analyst_client.kinds import Noise
from analyst_client.kinds.gram.design import code_target, design_matrix
from analyst_client.schema.columns import plain_term, terms_of
from analyst_client.verify import main, verify_text

NOISE = Noise(8.0, 5.0, 3.0, 2.0, lambda_min=1.0, distribution="discrete_gaussian")
SEX = Column.categorical("sex", ["F", "M", "X"], missing="complete")
AGE = Column.numeric("age", 50, 100, missing="complete", unit="years")
CREATININE = Column.numeric("creatinine", 0, 3, missing="complete", unit="mg/dL")
ILL = Column.boolean("ill", missing="complete")
KAPPA = Column.numeric("kappa", 0, 6, unit="mg/dL")
FEATURES = [AGE, SEX, CREATININE, ILL]
QUIET = replace(NOISE, xtx_diagonal=1e-6, xtx_offdiagonal=1e-6, xty=1e-6, yty=1e-6)
EXACT: dict[str, Any] = {"rel": 1e-9, "abs": 1e-9}
Rows = dict[str, Any]


def rows_of(seed: int = 0, count: int = 600, levels: Sequence[str] = ("F", "M", "X")) -> Rows:
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(50.0, 100.0, count), rng.choice(levels, count)
    creatinine, ill = rng.uniform(0.2, 2.8, count), rng.uniform(size=count) < 0.3
    kappa = 1.0 + 0.02 * age + 0.5 * (sex == "M") - 0.3 * (sex == "X") + 0.4 * creatinine + rng.normal(0.0, 0.3, count)
    return {"age": age, "sex": sex, "creatinine": creatinine, "ill": ill, "kappa": np.clip(kappa, 0.0, 6.0)}


def released(
    rows: Rows, features: Sequence[Column] = FEATURES, target: Column = KAPPA, noise: Noise = NOISE, **options: Any
) -> Release:
    """Return the exact sums of raw rows, with noise that is stated and not drawn."""
    Z = design_matrix(rows, features, terms_of(tuple(features), constant=True), clip=True)
    y = code_target(rows, plain_term(target), [], clip=True)
    gram = Z.T @ Z
    return Release.from_arrays(
        (gram + gram.T) / 2, Z.T @ y, y @ y, features=list(features), targets=[target], noise=noise, **options
    )


def together(*rows: Rows) -> Rows:
    return {name: np.concatenate([one[name] for one in rows]) for name in rows[0]}


def coefficients(fit: LinearFit) -> dict[str, float]:
    return dict(zip(fit.param_names_, fit.params_, strict=True))


def same_fit(one: LinearFit, other: LinearFit) -> None:
    order = [list(other.param_names_).index(name) for name in one.param_names_]
    assert one.params_ == pytest.approx(other.params_[order], **EXACT)
    assert one.cov_params() == pytest.approx(other.cov_params()[np.ix_(order, order)], rel=1e-6, abs=1e-12)
    assert one.conf_int() == pytest.approx(other.conf_int()[order], **EXACT)


# Names


def test_a_renamed_release_is_one_that_was_declared_so() -> None:
    rows = rows_of()
    new = rows | {"gender": np.where(rows["sex"] == "M", "male", rows["sex"]), "kap": rows["kappa"]}
    made = released(rows).rename({"sex": "gender", "kappa": "kap"}, levels={"sex": {"M": "male"}})
    declared = [AGE, replace(SEX, name="gender", levels=("F", "male", "X")), CREATININE, ILL]
    by_hand = released(new, declared, replace(KAPPA, name="kap"))
    assert (made.terms, made.targets, made.features) == (by_hand.terms, by_hand.targets, by_hand.features)
    assert made.noise == by_hand.noise
    assert np.array_equal(made.xtx, by_hand.xtx)
    fit = OLS().fit(made)
    same_fit(fit, OLS().fit(by_hand))
    assert fit.predict(new) == pytest.approx(OLS().fit(released(rows)).predict(rows))


def test_two_names_change_places() -> None:
    made = released(rows_of()).rename({"age": "creatinine", "creatinine": "age"})
    before, after = (coefficients(OLS().fit(one)) for one in (released(rows_of()), made))
    assert after["creatinine"] == before["age"]
    assert after["age"] == before["creatinine"]


# Units


@pytest.mark.parametrize("factor", [88.42, -2.5, 1e-3])
@pytest.mark.parametrize("offset", [0.0, 32.0])
@pytest.mark.parametrize("name", ["creatinine", "kappa"])
def test_a_converted_release_is_of_converted_rows(name: str, factor: float, offset: float) -> None:
    rows = rows_of()
    known = {column.name: column for column in (*FEATURES, KAPPA)}
    bounds = sorted([factor * known[name].lower + offset, factor * known[name].upper + offset])
    known[name] = replace(known[name], lower=bounds[0], upper=bounds[1], unit="µmol/L")
    by_hand = released(rows | {name: factor * rows[name] + offset}, [known[c.name] for c in FEATURES], known["kappa"])
    made = released(rows).convert({name: (factor, offset)}, units={name: "µmol/L"})
    assert made.noise == by_hand.noise
    assert made.xtx == pytest.approx(by_hand.xtx, **EXACT)
    assert made.xty == pytest.approx(by_hand.xty, **EXACT)
    for term, other in zip((*made.terms, *made.targets), (*by_hand.terms, *by_hand.targets), strict=True):
        assert (term.name, term.unit) == (other.name, other.unit)
        assert (term.center, term.scale) == pytest.approx((other.center, other.scale), rel=1e-12)
    same_fit(OLS().fit(made), OLS().fit(by_hand))
    same_fit(OLS().fit([made, released(rows_of(1)).convert({name: (factor, offset)}, units={name: "µmol/L"})]), (
        OLS().fit([by_hand, released(rows_of(1)).convert({name: (factor, offset)}, units={name: "µmol/L"})])
    ))  # fmt: skip


def test_a_unit_is_stated_alone() -> None:
    made = released(rows_of()).convert({}, units={"kappa": "mg/dl"})
    assert (made.targets[0].unit, made.targets[0].scale) == ("mg/dl", 3.0)
    assert made.convert({"kappa": 2.0}).targets[0].unit is None


def test_hospitals_with_other_words_and_units_are_fitted_as_all_their_rows() -> None:
    north, south = rows_of(1), rows_of(2)
    german = {"alter": south["age"], "sex": south["sex"], "krea": 88.42 * south["creatinine"], "ill": south["ill"]}
    declared = [
        replace(AGE, name="alter"),
        SEX,
        Column.numeric("krea", 0, 400, missing="complete", unit="µmol/L"),
        ILL,
    ]
    other = released(german | {"kappa": south["kappa"]}, declared, noise=QUIET)
    with pytest.raises(ValueError, match=r"different terms: age, alter, creatinine, krea"):
        OLS().fit([released(north, noise=QUIET), other])
    named = other.rename({"alter": "age", "krea": "creatinine"})
    with pytest.raises(ValueError, match=r"different things of 'creatinine'.*convert"):
        OLS().fit([released(north), named])
    converted = named.convert({"creatinine": 1 / 88.42}, units={"creatinine": "mg/dL"})
    fit = OLS().fit([released(north, noise=QUIET), converted])
    whole = OLS().fit(released(together(north, south), noise=QUIET))
    assert coefficients(fit) == pytest.approx(coefficients(whole), rel=1e-6)


# Reference levels


def test_a_relevelled_release_is_that_of_the_other_coding() -> None:
    rows = rows_of()
    for levels in (("M", "F", "X"), ("X", "F", "M")):
        by_hand = released(rows, [AGE, replace(SEX, levels=levels), CREATININE, ILL])
        made = released(rows).relevel({"sex": levels[0]})
        assert made.features == by_hand.features
        assert made.lambda_min is None
        places = [made.term_names.index(name) for name in by_hand.term_names]
        assert tuple(made.terms[j] for j in places) == by_hand.terms
        assert made.xtx is not None
        assert made.xty is not None
        assert made.xtx[np.ix_(places, places)] == pytest.approx(by_hand.xtx, **EXACT)
        assert made.xty[places] == pytest.approx(by_hand.xty, **EXACT)


@pytest.mark.parametrize("estimator", [OLS(), AdaSSP(), Ridge(0.0), EmpiricalBayes()], ids=repr)
def test_levels_differ_by_as_much_whatever_the_reference_is(estimator: Any) -> None:
    """Contrasts, their errors and their intervals: so the covariance of the noise went along."""
    whole = released(rows_of())
    before, after = estimator.fit(whole), type(estimator)(**estimator.get_params()).fit(whole.relevel({"sex": "M"}))
    if isinstance(estimator, OLS | Ridge):
        a, b = coefficients(before), coefficients(after)
        assert b["sex[F]"] == pytest.approx(-a["sex[M]"])
        assert b["sex[X]"] == pytest.approx(a["sex[X]"] - a["sex[M]"])
        assert b["(constant)"] == pytest.approx(a["(constant)"] + a["sex[M]"])
        assert b["age"] == pytest.approx(a["age"])
    errors = [dict(zip(fit.param_names_, fit.std_errors_, strict=True)) for fit in (before, after)]
    if isinstance(estimator, OLS):
        assert errors[1]["sex[F]"] == pytest.approx(errors[0]["sex[M]"])
        assert errors[1]["age"] == pytest.approx(errors[0]["age"])
        ends = [dict(zip(fit.param_names_, fit.conf_int().tolist(), strict=True)) for fit in (before, after)]
        assert ends[1]["sex[F]"] == pytest.approx([-ends[0]["sex[M]"][1], -ends[0]["sex[M]"][0]])
    assert after.predict(rows_of(3)).shape == (600,)


def test_the_noise_of_a_relevelled_release_is_that_of_its_sums() -> None:
    """Over many draws: the score of the new terms has the covariance that a fit takes."""
    rng, draws, beta = np.random.default_rng(5), 4000, np.array([0.4, -0.7, 0.5, 0.2])
    exact = released(rows_of(), [SEX, ILL])
    assert exact.xtx is not None
    scores = np.empty((draws, 4))
    for k in range(draws):
        E = np.triu(rng.normal(0.0, 5.0, (4, 4)), 1)
        E = E + E.T + np.diag(rng.normal(0.0, 8.0, 4))
        noisy = Release.from_arrays(exact.xtx + E, exact.xty, features=[SEX, ILL], targets=[KAPPA], noise=NOISE)
        made = noisy.relevel({"sex": "X"})
        assert made.xtx is not None
        assert made.xty is not None
        scores[k] = made.xty[:, 0] - made.xtx @ beta
    site = OLS().fit(exact.relevel({"sex": "X"})).results_[0].equations.sites[0]
    assert site.target_scale == 1.0
    assert site.law.yty == 4.0
    e = site.to_common @ np.diag(site.law.xty) @ site.to_common.T
    stated = site.noise_covariance(beta) - e
    root = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.max(np.abs(np.cov(scores.T) - stated) / root) < 5.0 * np.sqrt(2.0 / draws)
    assert exact.relevel({"sex": "X"}).noise == Noise(yty=2.0, distribution="discrete_gaussian")


def test_analyses_of_a_relevelled_release_are_those_before() -> None:
    whole = released(rows_of())
    made = whole.relevel({"sex": "X"})
    assert str(describe(made)) == str(describe(whole))
    one, other = (standardized_coefficients(release) for release in (made, whole))
    assert [row.value for row in one] == pytest.approx([row.value for row in other])
    assert [row.pvalue for row in one] == pytest.approx([row.pvalue for row in other])


def test_parts_of_a_relevelled_release_are_fitted_with_their_noise() -> None:
    whole = released(rows_of())
    fits = [OLS().fit(one, features=["age", "sex"]) for one in (whole, whole.relevel({"sex": "M"}))]
    errors = [dict(zip(fit.param_names_, fit.std_errors_, strict=True)) for fit in fits]
    assert errors[1]["age"] == pytest.approx(errors[0]["age"])
    assert errors[1]["sex[F]"] == pytest.approx(errors[0]["sex[M]"])


def test_the_smallest_eigenvalue_is_of_the_curators_terms_alone() -> None:
    told, untold = (released(rows_of(), **given) for given in ({"lambda_min": 1e4}, {}))
    assert AdaSSP().fit(told).lambda_min_ > 0.0
    assert (
        AdaSSP().fit(told.relevel({"sex": "M"})).lambda_min_ == AdaSSP().fit(untold.relevel({"sex": "M"})).lambda_min_
    )


# Several hospitals


@pytest.mark.parametrize("seed", range(4))
def test_levels_in_any_order_and_at_one_hospital_alone(seed: int) -> None:
    """Fits agree with that of all rows under one coding, whichever release comes first."""
    rng = np.random.default_rng(seed)
    known = [list(rng.permutation(levels)) for levels in (["F", "M"], ["F", "M", "X"], ["X", "M"])]
    rows = [rows_of(10 * seed + k, 900, levels) for k, levels in enumerate(known)]
    sites = [
        released(one, [AGE, replace(SEX, levels=tuple(levels)), CREATININE, ILL], noise=QUIET)
        for one, levels in zip(rows, known, strict=True)
    ]
    for first in range(3):
        listed = sites[first:] + sites[:first]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EstimationWarning)
            fit = OLS().fit(listed)
        levels = tuple(dict.fromkeys(level for k in range(3) for level in known[(first + k) % 3]))
        whole = OLS().fit(released(together(*rows), [AGE, replace(SEX, levels=levels), CREATININE, ILL], noise=QUIET))
        assert coefficients(fit) == pytest.approx(coefficients(whole), rel=1e-6, abs=1e-9)
        assert set(fit.param_names_) == set(whole.param_names_)
        assert fit.predict(rows[1]) == pytest.approx(whole.predict(rows[1]), rel=1e-6)
        assert fit.std_errors_ == pytest.approx(
            [dict(zip(whole.param_names_, whole.std_errors_, strict=True))[name] for name in fit.param_names_], rel=0.05
        )


def two_sites() -> list[Release]:
    short = replace(SEX, levels=("M", "F"))
    return [
        released(rows_of(1, 900), [AGE, SEX, ILL]),
        released(rows_of(2, 900, ("F", "M")), [AGE, short, ILL]),
        released(rows_of(3, 900), [AGE, replace(SEX, levels=("X", "F", "M")), ILL]),
    ]


def test_a_level_that_a_hospital_lacks_has_neither_rows_nor_noise_there() -> None:
    with pytest.warns(EstimationWarning, match=r"sex\[X\] is declared by 2 of 3 releases"):
        fit = OLS().fit(two_sites())
    lacking = fit.results_[0].equations.sites[1]
    place = fit.term_names_.tolist().index("sex[X]") + 1
    theta = np.arange(1.0, 6.0)
    assert lacking.xtx[place] == pytest.approx(0.0)
    assert lacking.noise_covariance(theta)[place] == pytest.approx(0.0)
    assert lacking.noise_covariance(theta)[0, 0] > 1.0


@pytest.mark.filterwarnings("ignore::analyst_client.EstimationWarning")
def test_what_is_inferred_of_several_hospitals_allows_for_a_level_that_one_lacks() -> None:
    fit = OLS().fit(two_sites())
    test = heterogeneity_test(fit.results_[0].equations)
    assert test.dof == 5 + 4 + 5 - 5
    assert test.pvalue > 1e-4
    assert np.isfinite(fit.conf_int(method="random-effects")).all()
    assert len(fit.leave_one_site_out()) == 3
    drawn = BayesianRegression(seed=1).fit(two_sites())
    assert drawn.params_ == pytest.approx(fit.params_, rel=0.2, abs=0.1)


def test_public_rows_are_coded_as_a_changed_release() -> None:
    made = released(rows_of(1, 900)).rename({"age": "alter"}).convert({"creatinine": 88.42}).relevel({"sex": "X"})
    rows = rows_of(4, 900)
    german = rows | {"alter": rows["age"], "creatinine": 88.42 * rows["creatinine"]}
    public = Release.from_public(german, made)
    by_hand = Release.from_public(rows, released(rows_of(1, 900)).relevel({"sex": "X"}))
    assert public.xtx == pytest.approx(by_hand.xtx, **EXACT)
    assert set(OLS().fit([made, public]).param_names_) == {
        "(constant)",
        "alter",
        "sex[F]",
        "sex[M]",
        "creatinine",
        "ill",
    }


@pytest.mark.parametrize("reference", ["F", "X"])
def test_public_rows_without_a_level_are_refused(reference: str) -> None:
    public = Release.from_public(rows_of(2, 900, ("F", "M")), [AGE, replace(SEX, levels=("F", "M")), ILL], KAPPA)
    with pytest.raises(Exception, match="rows of every level"):
        OLS().fit([two_sites()[0].relevel({"sex": reference}), public])


# Saved, loaded, verified


@pytest.fixture
def changed() -> Release:
    """Return a chain of changes of a release that a curator signed."""
    return (
        Release.from_text(RELEASE_TEXT)
        .rename({"age": "alter"})
        .convert({"alter": (12.0, 1.0)}, units={"alter": "months"})
        .relevel({"sex": "M"})
        .rename({"sex": "gender"}, levels={"sex": {"F": "w"}})
        .convert({"kappa": -2.0})
    )


def test_a_chain_of_changes_is_saved_loaded_and_verified(changed: Release, tmp_path: Path) -> None:
    assert changed.term_names == ("(constant)", "alter", "gender[w]")
    assert (changed.terms[1].center, changed.terms[1].scale) == (901.0, 300.0)
    assert changed.verify(FIRST.public_key).verdict == "verified"
    assert changed.original == Release.from_text(RELEASE_TEXT)
    assert changed.receipt == changed.original.receipt
    file = tmp_path / "changed.json"
    changed.save(file)
    loaded = Release.load(file)
    for one in (loaded, pickle.loads(pickle.dumps(changed))):
        assert one == changed
        assert one.terms == changed.terms
        assert np.array_equal(one.xtx, changed.xtx)
        assert one.as_released.noise == changed.original.noise
    assert main([str(file), "--key", FIRST.public_key]) == 0
    assert json.loads(file.read_text(encoding="utf-8"))["of"] == RELEASE_TEXT


def test_a_release_and_what_it_was_changed_to_are_one_release(changed: Release) -> None:
    with pytest.raises(ValueError, match="same release is in the list twice"):
        OLS().fit([changed.convert({"kappa": -0.5}).select(), changed.relevel({"gender": "w"})])


def test_no_change_is_the_release_itself() -> None:
    whole = released(rows_of())
    assert whole.rename({}) is whole.rename(levels={}) is whole.convert({}) is whole.relevel({}) is whole


def test_parts_of_changes_and_changes_of_parts_are_verified(changed: Release, tmp_path: Path) -> None:
    part = changed.select(["gender"])
    whole = Release.from_text(RELEASE_TEXT)
    again = whole.select(["sex"]).relevel({"sex": "M"}).rename({"sex": "gender"}, levels={"sex": {"F": "w"}})
    assert np.array_equal(part.xtx, again.xtx)
    assert part.terms == again.terms
    for number, one in enumerate((part, again, part.rename({"gender": "g"}))):
        assert one.verify(FIRST.public_key).verdict == "verified"
        one.save(tmp_path / str(number))
        assert Release.load(tmp_path / str(number)) == one
        assert one.original == whole
        assert any("rows are those of the full request" in caveat for caveat in one.caveats)
        assert repr(one)
        assert one._repr_html_()


def tampered(text: str, how: str) -> str:
    body = json.loads(text)
    if how == "unit":
        body["changes"][1]["units"]["alter"][0] = 13.0
    elif how == "reference":
        body["changes"][2]["references"]["sex"] = "F"
    elif how == "dropped":
        del body["changes"][2]
    elif how == "number":
        body["result"]["statistics"]["xtx"][1][1] += 1.0
    elif how == "scale":
        body["result"]["terms"][1]["scale"] = 200.0
    elif how == "noise":
        body["result"]["noise"] = {"xtx_diagonal": 0.1}
    elif how == "reference name":
        body["changes"][1]["levels"] = {"sex": {"M": "x"}}
        body["changes"][2]["references"]["sex"] = "x"
    elif how == "beside":
        body["noise"] = {"xtx_diagonal": 0.1}
    elif how == "huge":
        body["changes"][1]["units"]["alter"][0] = 10**400
    elif how == "original":
        body["of"] = body["of"].replace("900.0", "901.0")
    elif how == "both":  # a number of the original, and all that follows from it
        other = Release.from_text(body["of"].replace("300.0", "301.0"))._changed(*Release.from_text(text).changes)
        body = json.loads(other.text)
    return compact(body)


@pytest.mark.parametrize(
    "how",
    [
        "unit",
        "reference",
        "dropped",
        "number",
        "scale",
        "noise",
        "beside",
        "reference name",
        "huge",
        "original",
        "both",
    ],
)
def test_a_file_that_was_changed_is_refused(changed: Release, how: str, tmp_path: Path) -> None:
    text = tampered(changed.text, how)
    assert not verify_text(text)
    file = tmp_path / "changed.json"
    file.write_text(text, encoding="utf-8")
    assert main([str(file)]) != 0
    with pytest.raises((ServiceError, ReceiptInvalidError)):
        Release.load(file)


@pytest.mark.parametrize(
    "other",
    [
        lambda one: replace(one, xtx=one.xtx * 1.01),
        lambda one: replace(one, xty=one.xty + 1.0),
        lambda one: replace(one, terms=one.original.terms),
        lambda one: replace(one, noise=Noise(1.0, 1.0, 1.0, 1.0)),
        lambda one: replace(one, before_relevel=replace(one.before_relevel, noise=Noise(1.0, 1.0, 1.0, 1.0))),
        lambda one: replace(one, before_relevel=replace(one.before_relevel, xtx=2.0 * one.xtx)),
        lambda one: replace(one, before_relevel=None),
        lambda one: replace(one, changed_from=replace(one.changed_from, text=RELEASE_TEXT.replace("900.0", "901.0"))),
        lambda one: replace(one, text=tampered(one.text, "unit")),
        lambda one: replace(Release.from_text(tampered(one.text, "both")), changed_from=one.changed_from),
        lambda one: replace(one, receipt=None),
        lambda one: replace(one.select(["gender"]), xtx=np.eye(2)),
        lambda one: replace(one.original, xtx=np.eye(3)),
    ],
)
def test_numbers_in_memory_that_do_not_follow_are_found(changed: Release, other: Any) -> None:
    assert changed.verify()
    outcome = other(changed).verify()
    assert outcome.verdict == "inconsistent"


# Refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.rename({"weight": "w"}), "'weight' is not in the release; it has age, sex"),
        (lambda r: r.rename({"age": "creatinine"}), "new names are distinct"),
        (lambda r: r.rename({"age": "a[b]"}), "without spaces, brackets"),
        (lambda r: r.rename(levels={"sex": {"Z": "Y"}}), "has the level"),
        (lambda r: r.rename(levels={"sex": {"M": "X"}}), "would be one"),
        (lambda r: r.rename(levels={"age": {"M": "X"}}), "of no category"),
        (lambda r: r.convert({"sex": 2.0}), "is no number"),
        (lambda r: r.convert({"ill": 2.0}), "is no number"),
        (lambda r: r.convert({"age": 0.0}), "a that is not 0"),
        (lambda r: r.convert({"age": (1.0, np.inf)}), "finite a and b"),
        (lambda r: r.convert({"age": 1e308}), "no numbers in its new unit"),
        (lambda r: r.relevel({"age": "F"}), "no category 'age'; it has sex"),
        (lambda r: r.relevel({"sex": "Z"}), "no level 'Z'; it has F, M, X"),
    ],
)
def test_a_change_that_names_nothing_or_is_not_exact_is_refused(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change(released(rows_of()))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Release.from_arrays(np.eye(2), [1.0, 1.0], features=[replace(SEX, levels=("F", "M"))], constant=False),
         "without a constant"),
        (lambda: released(rows_of(), [replace(SEX, missing="midpoint")]), "counts as its reference level"),
        (lambda: Release.from_text(compact(combined_body())), "rows are of combinations"),
    ],
)  # fmt: skip
def test_a_reference_level_that_only_the_curator_can_change_is_refused(made: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made().relevel({"sex": "M"})


def test_rows_that_were_divided_by_their_norm_have_other_units_and_the_same_reference_levels() -> None:
    body = json.loads(RELEASE_TEXT)
    body["request"]["rows"] = {"map": "unit"}
    divided = Release.from_text(compact({name: body[name] for name in body if name not in {"receipt", "cost"}}))
    assert divided.convert({"age": 12.0}).terms[1].scale == 300.0
    with pytest.raises(ValueError, match="no level is what the others leave"):
        divided.relevel({"sex": "M"})


def test_a_missing_level_is_one_of_the_others() -> None:
    column = replace(SEX, missing="indicator")
    rows = rows_of()
    rows["sex"] = np.where(np.arange(600) % 7 == 0, None, rows["sex"])
    made = released(rows, [AGE, column]).relevel({"sex": "X"})
    by_hand = released(rows, [AGE, replace(column, levels=("X", "F", "M"))])
    assert set(made.terms) == set(by_hand.terms)
    places = [made.term_names.index(name) for name in by_hand.term_names]
    assert made.xtx is not None
    assert made.xtx[np.ix_(places, places)] == pytest.approx(by_hand.xtx, **EXACT)


def test_combinations_keep_their_weights_under_new_names_and_units() -> None:
    release = Release.from_text(compact(combined_body()))
    made = release.rename({"age": "alter"}).convert({"alter": 12.0})
    assert made.posted is not None
    assert list(made.posted.numbers) == ["(constant)", "alter", "sex[M]"]
    assert np.array_equal(made.combinations, release.combinations)
    frame: Mapping[str, Any] = {"sex": ["F", "M"]}
    before, after = OLS().fit(release), OLS().fit(made)
    assert after.predict({**frame, "alter": [720.0, 960.0]}) == pytest.approx(
        before.predict({**frame, "age": [60.0, 80.0]})
    )
    with pytest.raises(ValueError, match="take a > 0"):
        release.convert({"age": -1.0})


def test_weights_by_length_are_said_to_be_those_of_the_old_reference() -> None:
    made = released(rows_of(), norm=1.2).relevel({"sex": "M"})
    assert any("under the curator's reference levels" in text for text in made.caveats)
    assert not any("reference levels" in text for text in released(rows_of()).relevel({"sex": "M"}).caveats)


def test_a_target_that_took_part_in_the_weights_did_so_under_any_name() -> None:
    part = released(rows_of(), norm=1.2).select(["age", "sex"], "ill")
    assert part.weights_target
    assert part.rename({"ill": "krank"}).weights_target
    assert part.rename({"ill": "krank"}).select(["age"]).weights_target
