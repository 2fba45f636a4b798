"""The adapter of R: plain values cross, errors keep their class and fields, and an interruption ends one request."""

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest

from analyst_client import OLS, AdaSSP, EstimationWarning, LogisticRegression, PoissonRegression, r_adapter
from analyst_client.errors import BudgetExceededError
from analyst_client.kinds import Axis, CountsRequest
from analyst_client.schema import Amount
from analyst_client.terms import col
from analyst_client.tutorial import REQUEST, recorded_client
from bench.ideal import IdealCurator

FORMULA, CURVED = "kappa ~ age + sex + creatinine", "kappa ~ poly(age, 2) + sex + creatinine"
OPTIONS: dict[str, Any] = {"epsilon": 1.0, "where": None}
ROWS: dict[str, Any] = {"age": [60, 75], "sex": ["F", "M"], "creatinine": [1.0, 1.2]}
SESSIONS = count()


def recorded() -> dict[str, Any]:
    return {"url": None, "token": None, "key": None, "session": str(next(SESSIONS))}


def ask(do: str, **given: Any) -> Any:
    """Return the answer to a request, of which JSON is all that crosses."""
    return json.loads(r_adapter.call(json.dumps({"do": do, "with": given})))


def buy(formula: str = FORMULA, curator: dict[str, Any] | None = None, **options: Any) -> Any:
    asked = {"curator": curator or recorded(), "data": "flchain", "formula": formula, "options": OPTIONS | options}
    return ask("fit", **asked, yes=True, progress=False)


@cache
def bought() -> str:
    return str(buy()["value"]["source"])


@cache
def one_release(epsilon: float = 1.0) -> str:
    """Return a fit of one release of XᵀX, which is worth less than a refinement."""
    release = recorded_client().release("flchain", **REQUEST, epsilon=epsilon, fresh=epsilon < 1.0)
    return r_adapter._saved(AdaSSP().fit(release))


def generalised(family: str) -> Any:
    generator = np.random.default_rng(5)
    x = generator.uniform(-1.0, 1.0, (3000, 1))
    y = generator.binomial(1, 0.5 + 0.3 * x) if family == "binomial" else generator.poisson(np.exp(x))
    bounds = None if family == "binomial" else (0.0, 40.0)
    curator = IdealCurator.of_rows(np.column_stack([x, y]).astype(float), [(-2.0, 2.0), bounds], generator)
    estimator = LogisticRegression() if family == "binomial" else PoissonRegression()
    return estimator.fit(curator.refine(0.3, family=family))


def predict(source: str, scale: str = "response", interval: str = "none", **options: Any) -> Any:
    given = {"rows": ROWS, "level": 0.95, "clip": None} | options
    return ask("predict", source=source, scale=scale, interval=interval, **given)


def test_a_fit_is_told_as_plain_values_and_made_again_of_what_was_kept() -> None:
    told = buy()["value"]
    fit = recorded_client("one_call").fit(FORMULA, data="flchain", epsilon=1.0, yes=True, progress=False)
    assert told["terms"] == fit.param_names_.tolist()
    assert told["coefficients"] == fit.params_.tolist()
    assert told["vcov"] == fit.cov_params().tolist()
    assert told["tidy"]["estimate"] == told["coefficients"]
    assert ask("intervals", source=told["source"], level=0.9)["value"] == fit.conf_int(0.9).tolist()
    r_adapter._read.cache_clear()
    again = ask("show", source=told["source"])["value"]
    assert again == {name: told[name] for name in again}


def test_other_estimators_are_of_what_was_bought() -> None:
    own = ask("refit", source=bought(), estimator=None, params={})["value"]
    assert own["coefficients"] == r_adapter._read(bought()).params_.tolist()
    error = ask("refit", source=bought(), estimator="OLS", params={})["error"]
    assert error["class"] == ["value"]
    assert error["message"].startswith("OLS is fitted on releases")
    assert error["notes"] == ["this fit was bought in steps for one model, and its own estimator is RefinedRegression"]
    release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    ols = ask("refit", source=one_release(), estimator=None, params={})["value"]
    assert ols["coefficients"] == OLS().fit(release).params_.tolist()
    unknown = ask("refit", source=one_release(), estimator="os", params={})["error"]
    assert unknown["message"].startswith("there is no estimator 'os'; there are OLS, ")


def test_the_recorded_curator_sells_its_fits_in_any_order_and_tells_what_is_left() -> None:
    curator = recorded()
    spent = lambda: ask("budget", curator=curator, data="flchain")["value"]["posted"]["mu"]  # noqa: E731
    assert spent() == 0.0
    assert "left in the budget of olmsted: ε = 2.77" in buy(curator=curator)["value"]["charge"]
    first = spent()
    ask("quote", curator=curator, data="flchain", formula=CURVED, options={"epsilon": 1.0})
    assert spent() == first > 0.0
    assert "ε = 2.526" in buy(CURVED, curator)["value"]["charge"]
    assert buy(curator=curator)["value"]["coefficients"]
    assert spent() == pytest.approx(first * 2.0**0.5)


def test_a_charge_is_what_was_paid_and_what_is_left_is_no_condition_of_it() -> None:
    assert r_adapter._charge(recorded_client(), "flchain", None) is None
    release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    assert r_adapter._charge(recorded_client("paper"), "nothing", release.cost) == "charged: ε = 1 at δ = 1e-06"


def test_what_is_not_finite_is_a_text() -> None:
    ends = ask("intervals", source=one_release(0.1), level=0.95)["value"]
    assert ["-Inf", "Inf"] in ends


def test_predictions_take_columns_and_warn() -> None:
    rows = {"age": [60, 200], "sex": ["F", "M"], "creatinine": [1.0, None]}
    told = predict(bought(), rows=rows)
    assert told["value"][1] == "NaN"
    assert [one["class"][0] for one in told["warnings"]] == ["bounds_warning"]
    ends = predict(bought(), interval="prediction", rows=rows, clip=True)
    fit, low, high = ends["value"][0]
    assert low < fit < high
    assert fit == told["value"][0]


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_an_interval_is_on_the_scale_of_its_prediction(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, rows = "of an ideal curator", {"x1": [-0.5, 0.5]}
    fit = generalised(family)
    monkeypatch.setattr(r_adapter, "_read", lambda _: fit)
    scales = {scale: predict(source, scale, rows=rows)["value"] for scale in ("response", "link")}
    link = np.log if family == "poisson" else lambda p: np.log(p / (1.0 - p))
    np.testing.assert_allclose(scales["link"], link(np.array(scales["response"])), rtol=1e-9)
    for scale, found in scales.items():
        both = np.array(predict(source, scale, "confidence", rows=rows)["value"])
        np.testing.assert_allclose(both[:, 0], found, rtol=1e-9)
        assert np.all((both[:, 1] < both[:, 0]) & (both[:, 0] < both[:, 2]))


def test_an_error_keeps_its_class_its_fields_and_its_notes() -> None:
    amounts = {name: Amount(mu=1.0, rho=0.5, epsilon=4.0, delta=1e-6) for name in ("requested", "remaining")}
    error = BudgetExceededError("no. Reserve less: `remaining` is the largest that would pass.", **amounts)
    error.add_note("client.reservations() lists what you hold")
    told = r_adapter._plain(r_adapter._describe(error))
    assert told["class"] == ["budget_exceeded", "curator"]
    assert told["fields"]["largest"] == told["fields"]["remaining"]
    assert told["notes"] == ["reservations(curator) lists what you hold"]
    none = BudgetExceededError("the permit is used up", **amounts)
    assert r_adapter._describe(none)["fields"]["largest"] is None
    assert ask("predict", source="{")["error"]["class"] == ["type"]


@pytest.mark.parametrize(
    ("text", "in_r"),
    [
        ("say yes=True to buy", "say yes = TRUE to buy"),
        ("half_width={'age': 0.1, 'sex[M]': 0.2} is out", "half_width = c(age = 0.1, `sex[M]` = 0.2) is out"),
        ("epsilon='left' or expected_rows= if", 'epsilon = "left" or expected_rows if'),
        ("a condition, such as target=col('kappa') > 3", "a condition, such as kappa > 3 ~ …"),
        ("ask again with idempotency_key='k-1'", "ask again with key = 'k-1'"),
        ("client.refine(…, family='binomial') buys them", "curator_glm(…, family = binomial) buys them"),
        ("cost  1\nthe same as  C().fit(client.refine('f',\n             mu=1.0))\n────", "cost  1\n────"),
        ("not count them; MarginalsRequest([Tree(['age'])]) does.", "not count them."),
        ("they may. Ask with a larger norm, or rows='box'.", "they may."),
        ("the rest waits in reservation='res_1'", "the rest waits in the reservation 'res_1'"),
        ("client.release(…, robust=True) buys robust ones, and client.refine(…).", "a refinement buys robust ones."),
        ("ns(age, df=3)[1]  0.5", "ns(age, df=3)[1]  0.5"),
    ],
)
def test_words_of_python_are_those_of_r(text: str, in_r: str) -> None:
    assert r_adapter._in_r(text) == in_r


@pytest.mark.parametrize("act", ["fit", "quote"])
def test_a_fault_of_the_model_is_told_once(act: str) -> None:
    asked = {"curator": recorded(), "data": "flchain", "formula": "kappa ~ agee", "options": OPTIONS}
    more = {"yes": True, "progress": False} if act == "fit" else {}
    error = ask(act, **asked | {"options": OPTIONS | {"family": "gaussian"}}, **more)["error"]
    assert error["class"][0] == "formula"
    assert error["message"].count("did you mean 'age'") == 1


def test_what_is_shown_has_no_python() -> None:
    asked = {"curator": recorded(), "data": "flchain", "formula": FORMULA, "options": OPTIONS}
    shown = ask("quote", **asked)["value"]["text"] + ask("show", source=bought())["value"]["summary"]
    latex = ask("latex", source=bought(), level=0.9)["value"]
    assert latex.startswith("\\begin{table}")
    for text in (shown, latex):
        assert "client" not in text
        assert "the same as" not in text
    assert "(Intercept)" in shown


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("no")])
def test_an_interruption_is_answered_with_its_notes(raised: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        warnings.warn("doubt", EstimationWarning, stacklevel=1)
        raised.add_note("the rest waits")
        raise raised

    monkeypatch.setattr(r_adapter, "_ACTS", {"act": act})
    told = ask("act")
    assert told["error"]["notes"] == ["the rest waits"]
    assert told["warnings"] == [{"class": ["estimation_warning", "user_warning"], "message": "doubt"}]


def test_a_token_is_told_by_no_error() -> None:
    curator = {"url": "http://elsewhere.example", "token": "s3cret-token", "key": None, "session": "1"}
    text = r_adapter.call(json.dumps({"do": "budget", "with": {"curator": curator, "data": "flchain"}}))
    assert "error" in json.loads(text)
    assert "s3cret" not in text


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "analyst_client.r_adapter", "attended", *request.param]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8") as started:
        yield started
        started.kill()


@pytest.mark.slow
@pytest.mark.parametrize("process", [[], ["ascii"]], indirect=True)
def test_a_process_answers_line_by_line_and_outlives_an_interruption_between(
    process: "subprocess.Popen[str]", request: pytest.FixtureRequest
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    fit = {"curator": recorded(), "data": "flchain", "formula": FORMULA, "options": OPTIONS, "progress": True}
    value: Any = None
    for act in ({"do": "key", "with": {}}, {"do": "fit", "with": fit | {"yes": False}}, {"do": "key", "with": {}}):
        process.stdin.write(json.dumps(act) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if act["do"] == "fit":
            assert answer == {"question": True}
            process.stdin.write("y\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            value = answer["value"]
        assert "value" in answer
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "of the budget" in said  # the price, which no answer is mixed with
    assert "Buy it?" in said
    assert "the same as" not in said
    is_plain = request.node.callspec.params["process"] == ["ascii"]
    assert (said + value["summary"] + value["charge"]).isascii() == is_plain


def test_a_table_runs_as_r_has_it() -> None:
    # The first axis fastest: of a table of counts that the recorded paper bought.
    release = recorded_client("paper").release("flchain", paper_request())
    told = r_adapter._table(r_adapter._keep_counts(release))
    (table,) = release.tables
    found = np.reshape(told["count"], table.values.shape, order="F")
    np.testing.assert_array_equal(found, table.values)
    assert list(told["labels"]) == [axis.name for axis in table.axes]


def test_a_table_shows_its_price_and_is_bought_after_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    years = paper_request().axes[0][0].edges
    axes = [{"column": "futime", "edges": list(years)}, {"column": "death"}, {"column": "(kappa + lambda) >= 4.72"}]
    asked = {"curator": recorded(), "data": "flchain", "axes": axes, "options": {"epsilon": 1.0}}
    quoted = ask("quote_counts", **asked)["value"]
    assert quoted["share_of_budget"] == pytest.approx(0.1335, rel=1e-3)
    refused = ask("counts", **asked, key="one", yes=False)["error"]
    assert refused["class"][0] == "not_confirmed"
    assert "say yes = TRUE" in refused["message"]
    assert "of the budget" in capsys.readouterr().err
    told = ask("counts", **asked, key="one", yes=True)["value"]
    assert told["charge"].startswith("charged: ε = 1 at δ = 1e-06; left")


def paper_request() -> Any:
    years = [min(365.25 * k, 5500.0) if k < 15 else 5500.0 for k in range(16)]
    mgus = col("kappa") + col("lambda") >= 4.72
    return CountsRequest([[Axis("futime", years), "death", mgus]], epsilon=1.0, delta=1e-6)


def test_what_is_kept_stands_in_the_order_that_was_asked() -> None:
    release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    asked = release.in_order((release.feature_names[::-1], release.target_names))
    again = r_adapter._read(r_adapter._saved(OLS().fit(asked)))
    assert again.feature_names_in_.tolist() == list(asked.feature_names) != list(release.feature_names)
