"""Formulas and terms: a curator's sums are those of the analyst's own coding, and fits are those of statsmodels."""

import builtins
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from support import ZeroNoise, client_of, make_rows, open_world

from analyst_client import (
    OLS,
    Assumptions,
    Axis,
    CountsRequest,
    CuratorClient,
    Model,
    Release,
    RequestInvalidError,
    expected_accuracy,
)
from analyst_client.errors import FormulaError, ServiceError
from analyst_client.inference import Estimate
from analyst_client.kinds import Noise
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.terms import bs, col, cut, interaction, log, maximum, ns, poly, reference, sqrt
from curator_service.privacy.accountant import Price

BOX: dict[str, Any] = {"mu": 2.0, "rows": "box"}
NUMBERS = ("age", "creatinine", "weight", "height", "kappa", "lambda", "dose")
CLIPS = {
    "age": (50, 100), "creatinine": (0, 3), "weight": (40, 160), "height": (140, 200), "kappa": (0, 6),
    "lambda": (0, 6), "dose": (-10, 10),
}  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorClient]:
    """Return a client of a curator that adds no noise."""
    rows = make_rows(400, seed=3)
    with open_world(tmp_path_factory.mktemp("formulas"), noise=ZeroNoise(), rows=rows, limit=Price(mu=30.0)) as world:
        yield client_of(world)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Return the rows that the curator has, as an analyst would read them."""
    found = pd.DataFrame(make_rows(400, seed=3)).replace("", np.nan)
    for name in NUMBERS:
        found[name] = found[name].astype(float)
    found["alive"] = found["alive"].isin(["true", "1"])
    return found


def clipped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{name: frame[name].clip(*bounds) for name, bounds in CLIPS.items()})


FEATURES: list[list[Any]] = [
    ["age", log(col("age") - 40), poly("age", 4)],
    [bs("age", df=5), ns("height", df=3), "sex"],
    [bs(log(col("creatinine") + 1), knots=[0.3, 0.9], degree=2), interaction("sex", poly("weight", 2))],
    [interaction("sex", "region"), interaction("height", "dose", "frail"), "sex"],
    [cut("age", [60, 70]), reference("sex", "X"), col("age") / maximum("weight", 50)],
    [(col("age") >= 60) & ~(col("sex") == "F"), col("dose").is_missing(), sqrt("lambda") * col("age") ** 2],
    ["height", log("height"), poly("height", 2), bs("dose", df=4), col("dose") > 0],
    [interaction(reference("stage", "III"), ns("age", knots=[70, 80])), "smoker", "treated"],
]


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_curator_s_sums_are_those_of_the_analyst_s_own_coding(
    client: CuratorClient, frame: pd.DataFrame, features: list[Any], intercept: bool
) -> None:
    targets = ["kappa", log(col("lambda") + 1)] if "lambda" not in str(features) else ["kappa"]
    release = client.release("cohort", features, targets=targets, intercept=intercept, even_so=True, **BOX)
    own = Release.from_public(frame, release)
    assert own.terms == release.terms
    for name in ("xtx", "xty", "yty"):
        np.testing.assert_allclose(getattr(own, name), getattr(release, name), atol=400 * 3e-5)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("sex == 'F'", lambda f: f["sex"] == "F"),
        ("60 <= age < 80 and sex != 'X'", lambda f: f["age"].between(60, 80, "left") & (f["sex"] != "X")),
        ("not (weight > 100)", lambda f: f["weight"] <= 100),
        ("frail == 'yes' or region in ['north']", lambda f: (f["frail"] == "yes") | (f["region"] == "north")),
        ("missing(dose) & ~missing(height)", lambda f: f["dose"].isna() & f["height"].notna()),
        ("abs(age - 75) <= 10 and log(age) > 4.3", lambda f: ((f["age"] - 75).abs() <= 10) & (np.log(f["age"]) > 4.3)),
    ],
)
def test_a_condition_selects_the_rows_in_which_it_is_true(
    client: CuratorClient, frame: pd.DataFrame, condition: str, rows: Any
) -> None:
    release = client.release("cohort", ["age", "dose"], target="kappa", where=condition, even_so=True, **BOX)
    own = Release.from_public(frame[rows(clipped(frame))], release)
    assert round(own.xtx[0, 0]) == round(release.xtx[0, 0]) > 10
    np.testing.assert_allclose(own.xtx, release.xtx, atol=400 * 3e-5)


FITS = [
    "kappa ~ age * sex",
    "kappa ~ weight*age + sex",
    "kappa ~ np.log(age) + C(stage, Treatment('II')) + alive",
    "kappa ~ sex + sex:stage + stage + I(age**2)",
    "kappa ~ (age + sex + alive)**2",
    "kappa ~ 0 + sex + age",
    "sqrt(kappa) ~ age + I((age - 75) * weight / 10)",
]


@pytest.mark.parametrize("formula", FITS)
def test_a_fit_is_that_of_statsmodels(client: CuratorClient, frame: pd.DataFrame, formula: str) -> None:
    complete = clipped(frame).dropna(subset=["weight", "stage"])
    reference = smf.ols(formula.replace("sqrt", "np.sqrt"), complete).fit()
    condition = "not missing(weight) and not missing(stage)"
    fit = OLS().fit(client.release("cohort", Model(formula).where(condition), **BOX))
    np.testing.assert_allclose(fit.predict(complete), reference.predict(complete), atol=2e-3)
    known = {
        name.replace("[T.", "[").replace("Intercept", "(constant)"): value for name, value in reference.params.items()
    }
    same = [name for name in fit.results_[0].names if name in known and ("~ 0" not in formula or name == "age")]
    assert same
    found = dict(zip(fit.results_[0].names, fit.results_[0].params, strict=True))
    for name in same:
        assert found[name] == pytest.approx(known[name], abs=2e-3 + 2e-3 * abs(known[name])), name


def test_raw_powers_are_those_of_a_fit_of_powers(client: CuratorClient, frame: pd.DataFrame) -> None:
    complete = clipped(frame)
    reference = smf.ols("kappa ~ (age + I(age**2) + I(age**3)) * alive", complete).fit()
    release = client.release("cohort", "kappa ~ poly(age, 3) * alive", **BOX)
    fit = OLS().fit(replace(release, noise=Noise(0.0, 0.0, 0.0, 0.0)))
    table = fit.raw_powers()
    names = {
        "(constant)": "Intercept", "age": "age", "age^2": "I(age ** 2)", "age^3": "I(age ** 3)",
        "alive": "alive[T.True]", "age:alive": "age:alive[T.True]", "age^2:alive": "I(age ** 2):alive[T.True]",
        "age^3:alive": "I(age ** 3):alive[T.True]",
    }  # fmt: skip
    assert {one.label[0] for one in table.estimates} == set(names)
    for ours, theirs in names.items():
        one: Estimate = table[ours]
        assert one.value == pytest.approx(reference.params[theirs], rel=0.01)
        assert one.std_error == pytest.approx(reference.bse[theirs], rel=0.01)
        assert (one.conf_low, one.conf_high) == pytest.approx(tuple(reference.conf_int().loc[theirs]), rel=0.01)
        assert one.pvalue == pytest.approx(reference.pvalues[theirs], abs=0.01)


def test_what_was_asked_stands_in_its_order(client: CuratorClient, tmp_path: Path) -> None:
    twice = 2 * col("age")
    asked = [interaction(poly("age", 2), "sex"), "weight", log(1 + col("creatinine")), "sex", twice - col("age")]
    release = client.release("cohort", asked, target="kappa", **BOX)
    names = ("sex:polynomial(age, 2)", "weight", "log(creatinine + 1)", "sex", "age")
    assert release.feature_names == names
    assert client.quote("cohort", asked, target="kappa", **BOX).feature_names == names
    order = list(dict.fromkeys(term.column for term in release.terms[1:]))
    assert tuple(order) == names
    assert pickle.loads(pickle.dumps(release)).term_names == release.term_names
    part = release.select([log(col("creatinine") + 1), interaction("sex", poly("age", 2))])
    assert part.feature_names == ("log(creatinine + 1)", "sex:polynomial(age, 2)")
    part.save(tmp_path / "part.json")
    loaded = Release.load(tmp_path / "part.json")
    assert loaded.feature_names == part.feature_names
    assert np.array_equal(loaded.xtx, part.xtx)
    assert {column.name for column in loaded.columns} == {"log(creatinine + 1)", "sex", "age"}
    moved = release.select(["weight"], target=log(col("creatinine") + 1))
    assert moved.target_names == ("log(creatinine + 1)",)
    with pytest.raises(ValueError, match="of several terms"):
        release.select(["weight"], target="sex:polynomial(age, 2)")


def test_what_is_computed_from_a_column_keeps_its_indicator(client: CuratorClient) -> None:
    asked = ["sex", poly("height", 2), "age", log(col("dose") + 20)]
    release = client.release("cohort", asked, target="kappa", **BOX)
    assert {term.name for term in release.terms if term.kind == "missing"} == {"height[missing]", "dose[missing]"}
    assert release.feature_names == ("sex", "polynomial(height, 2)", "age", "log(dose + 20)")
    part = release.select([poly("height", 2)])
    assert part.term_names[-1] == "height[missing]"
    assert len(part.terms) == 4
    again = client.release("cohort", [poly("height", 2)], target="kappa", **(BOX | {"mu": 0.0005}))
    assert again.answer == "derived"
    np.testing.assert_array_equal(again.xtx, part.xtx)


def test_an_answer_to_something_else_is_noticed(client: CuratorClient) -> None:
    release = client.release("cohort", [log(col("age") + 1)], target="kappa", **BOX)
    for other in (log(col("age") + 2), poly("age", 2), interaction("age", "sex"), col("weight")):
        request = ReleaseRequest([other], target="kappa", **BOX)
        with pytest.raises(ServiceError, match="other columns than were asked"):
            request.arrange(release)


def test_equal_requests_are_one_release(client: CuratorClient) -> None:
    one = client.release("cohort", "kappa ~ age*sex + log(1 + creatinine)", where="age > 60 and alive", **BOX)
    other = client.release(
        "cohort",
        ["sex", log(col("creatinine") + 1), interaction("sex", "age"), "age"],
        target="kappa",
        where=col("alive") & (col("age") > 60),
        **BOX,
    )
    assert (other.id, other.answer) == (one.id, "stored")


def test_an_array_has_the_columns_that_terms_are_made_of(client: CuratorClient, frame: pd.DataFrame) -> None:
    fit = OLS().fit(client.release("cohort", "log(lambda + 1) ~ log(age):alive + log(age) + alive + kappa", **BOX))
    names = list(fit.feature_names_in_)
    assert sorted(names) == ["age", "alive", "kappa"]
    rows = frame[names].to_numpy()
    assert np.array_equal(fit.predict(rows, clip=True), fit.predict(frame, clip=True))
    assert fit.predict_interval(rows, clip=True).shape == (400, 2)


FAULTS = [
    ("kappa ~ agee", "no column 'agee': did you mean 'age'", "agee"),
    ("kappa ~ age + scale(weight)", "scale is not needed", "scale"),
    ("kappa ~ age + sine(weight)", "there is no function 'sine'", "sine"),
    ("kappa ~ age + log(weigth + 1)", "did you mean 'weight'", "weigth"),
    ("kappa ~ age + + * sex", "this is no formula", "+ + *"),
    ("kappa ~ (age", "this is no formula", "("),
    ("kappa ~ age | sex", "one part on each side", "kappa ~ age | sex"),
    ("kappa ~ 1", "names a column that explains", "kappa ~ 1"),
    ("kappa ~ age:sex", "needs age in the model: write age*sex", "age:sex"),
    ("kappa ~ sex + age:sex", "needs age in the model", "age:sex"),
    ("kappa ~ 0 + alive", "needs the constant", "alive"),
    ("kappa ~ 0 + sex + region", "write it with the constant", "region"),
    ("kappa ~ 0 + sex*age", "write it with the constant", "sex*age"),
    ("kappa ~ age + poly(poly(age, 2), 2)", "is several terms", "poly(poly(age, 2), 2)"),
    ("kappa ~ bs(log(age), df=5)", "give knots", "bs(log(age), df=5)"),
    ("kappa ~ bs(age, df=2)", "df is at least 4", "bs(age, df=2)"),
    ("kappa ~ age + cut(weight, [3, 2])", "numbers that increase", "cut(weight, [3, 2])"),
    ("kappa ~ I([x for x in age])", "no part of an expression", "[x for x in age]"),
    ("kappa ~ __import__('os')", "there is no function '__import__'", "__import__"),
]


@pytest.mark.parametrize(("formula", "rule", "place"), FAULTS)
def test_a_fault_shows_its_place_in_the_formula(client: CuratorClient, formula: str, rule: str, place: str) -> None:
    with pytest.raises(FormulaError) as caught:
        client.quote("cohort", formula, **BOX)
    assert rule in caught.value.rule
    text, marks = str(caught.value).splitlines()[-2:]
    start, stop = marks.index("^"), marks.rindex("^") + 1
    assert text[start:stop].strip() == place.strip()


def test_a_curator_s_refusal_shows_its_place_in_the_formula(client: CuratorClient) -> None:
    with pytest.raises(RequestInvalidError, match="above 0") as caught:
        client.quote("cohort", "kappa ~ age + log(creatinine)", **BOX)
    assert caught.value.__notes__ == ["    kappa ~ age + log(creatinine)\n                  ^^^^^^^^^^^^^^^"]


def test_the_model_and_the_options_do_not_say_the_same_twice(client: CuratorClient) -> None:
    with pytest.raises(ValueError, match="the model says targets already"):
        client.quote("cohort", "kappa ~ age", targets=["lambda"], **BOX)
    with pytest.raises(ValueError, match="the model says target already"):
        client.quote("cohort", "kappa ~ age", target="lambda", **BOX)
    with pytest.raises(ValueError, match="the model says where already"):
        client.quote("cohort", Model("kappa ~ age").where("sex == 'F'"), where="age > 60", **BOX)


def test_without_the_extra_objects_say_the_same(client: CuratorClient, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name.startswith("formulaic"):
            raise ImportError(name)
        return plain(name, *rest, **options)

    asked = client.quote("cohort", "kappa ~ log(age) + sex", where="age > 60", **BOX)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="need the extra 'formula'"):
        client.quote("cohort", "kappa ~ age", **BOX)
    same = client.quote("cohort", [log("age"), "sex"], target="kappa", where="age > 60", **BOX)
    assert same.request == asked.request


def test_a_quote_is_planned_with_what_it_computes(client: CuratorClient) -> None:
    quote = client.quote("cohort", "log(kappa + 1) ~ poly(age, 2) * sex + bs(weight, df=4)", mu=20.0)
    assumed = Assumptions.of(quote, rows=5000, residual_sd=0.3, coefficients={"polynomial(age, 2)[1]": 0.2})
    accuracy = expected_accuracy(quote, assumed)
    assert len(accuracy.names) == len(quote.terms)
    assert np.all(np.isfinite(accuracy.half_lengths))


def test_tables_of_what_is_computed_count_the_selected_rows(client: CuratorClient, frame: pd.DataFrame) -> None:
    old, ratio = cut("age", [60, 80]), log(col("creatinine") + 1)
    asked = [[old, "sex"], [Axis(ratio, edges=[0.0, 0.5, 1.0])], [col("dose").is_missing()]]
    release = client.release("cohort", CountsRequest(asked, where="alive and sex != 'X'", mu=0.1))
    rows = clipped(frame)[frame["alive"] & (frame["sex"] != "X")]
    cells = pd.crosstab(pd.cut(rows["age"], [0, 60, 80, 101], right=False), rows["sex"])
    table = release.tables[0]
    assert table.values[:, :2].round(6).tolist() == cells.to_numpy().tolist()
    values = np.log(rows["creatinine"] + 1)
    wanted = [np.sum((values >= low) & (values < high)) for low, high in ((0, 0.5), (0.5, 1.0))]
    assert release.tables[1].values.round(6).tolist() == wanted
    assert release.tables[2].values.round(6).tolist() == [rows["dose"].notna().sum(), rows["dose"].isna().sum()]
    weighted = client.release("cohort", CountsRequest(["sex"], weight=col("age") / 100, mu=0.1))
    assert weighted.tables[0].values.round(2).tolist() == [
        round(float(clipped(frame).query("sex == @level")["age"].sum() / 100), 2) for level in ("F", "M", "X")
    ]


GUESS = {"rows": 400, "means": {"age": 75}, "sds": {"age": 15}}


def test_an_accuracy_is_asked_for_and_its_price_is_found(
    client: CuratorClient, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"age": 0.2}
    release = client.release("cohort", "kappa ~ age", half_width=wanted, guess=GUESS)
    said = capsys.readouterr().err
    assert said.startswith("±0.2 on age needs ε = ")
    assert release.cost is not None
    assert f"ε = {release.cost.epsilon:.3g}" in said
    quote = client.quote("cohort", "kappa ~ age", rows=release.request["rows"], mu=release.cost.mu)
    assumed = Assumptions.of(quote, residual_sd=3 / np.sqrt(3), **GUESS)
    reached = expected_accuracy(quote, assumed)
    assert reached.half_lengths[reached.names.index("age")] == pytest.approx(0.2, rel=1e-3)
    other = client.release("cohort", ["age"], target="kappa", half_width=wanted, guess=GUESS, max_epsilon=1)
    assert (other.id, other.answer) == (release.id, "stored")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"half_width": {"age": 1e-5}, "guess": GUESS}, "out of reach at any ε"),
        ({"half_width": {"age": 0.1}}, "state how many rows you expect"),
        ({"half_width": {"age": 0.1}, "guess": GUESS, "mu": 0.1}, "leave out mu"),
        ({"half_width": {"sex": 0.1}, "guess": GUESS}, "no parameter 'sex'|there is no"),
        ({"half_width": {}, "guess": GUESS}, "names terms"),
        ({"half_width": {"age": 0.2}, "guess": GUESS, "max_epsilon": 1e-4, "fresh": True}, "more than max_epsilon"),
        ({"mu": 0.2, "max_epsilon": 0.5, "fresh": True}, "more than max_epsilon = 0.5: nothing was charged"),
    ],
)
def test_a_price_that_was_not_meant_is_not_charged(client: CuratorClient, changes: dict[str, Any], rule: str) -> None:
    before = client.budget("cohort").posted
    with pytest.raises(ValueError, match=rule):
        client.release("cohort", "kappa ~ age + alive", **changes)
    assert client.budget("cohort").posted == before


@pytest.mark.parametrize("label", ["yes", "no"])
@pytest.mark.parametrize("formula", ["I(smoker == '{}') ~ age", "kappa ~ I(smoker == '{}')"])
def test_a_boolean_at_its_label_is_itself_or_its_opposite(client: CuratorClient, formula: str, label: str) -> None:
    release = client.release("cohort", formula.format(label), rows="box", epsilon=5.0, delta=1e-6)
    assert any("smoker" in name for name in (*release.term_names, *release.target_names))
