"""The adapter of R: plain values cross, errors keep their class and fields, and an interruption ends one request."""

import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from analyst_client import OLS, AdaSSP, EstimationWarning, r_adapter
from analyst_client.kinds import Axis, CountsRequest
from analyst_client.terms import col
from analyst_client.tutorial import REQUEST, recorded_client

FORMULA = "kappa ~ age + sex + creatinine + lambda"
OPTIONS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "rows": "box", "where": None}
SESSIONS = count()


def recorded() -> dict[str, Any]:
    return {"url": None, "token": None, "key": None, "session": str(next(SESSIONS))}


def ask(do: str, **given: Any) -> Any:
    """Return the answer to a request, of which JSON is all that crosses."""
    return json.loads(r_adapter.call(json.dumps({"do": do, "with": given})))


def buy(**options: Any) -> Any:
    asked = {"curator": recorded(), "data": "flchain", "formula": FORMULA, "options": OPTIONS | options}
    return ask("fit", **asked, yes=True, progress=False)


def test_a_fit_is_told_as_plain_values_and_made_again_of_what_was_kept() -> None:
    told = buy()["value"]
    fit = AdaSSP().fit(recorded_client().release("flchain", **REQUEST, epsilon=1.0))
    assert told["terms"] == fit.param_names_.tolist()
    assert told["coefficients"] == fit.params_.tolist()
    assert told["vcov"] == fit.cov_params().tolist()
    assert told["tidy"]["estimate"] == told["coefficients"]
    assert ask("intervals", source=told["source"], level=0.9)["value"] == fit.conf_int(0.9).tolist()
    r_adapter._read.cache_clear()
    assert ask("show", source=told["source"])["value"] == {name: told[name] for name in told if name != "source"}
    other = ask("refit", source=told["source"], estimator="OLS", params={})["value"]
    assert other["coefficients"] == OLS().fit(fit.source_.releases).params_.tolist()


def test_what_is_not_finite_is_a_text() -> None:
    source = buy(epsilon=0.1, fresh=True)["value"]["source"]
    ends = ask("intervals", source=source, level=0.95)["value"]
    assert ["-Inf", "Inf"] in ends


def test_predictions_take_columns_and_warn() -> None:
    source = buy()["value"]["source"]
    rows = {"age": [60, 200], "sex": ["F", "M"], "creatinine": [1.0, None], "lambda": [1, 2]}
    told = ask("predict", source=source, rows=rows, scale="response", interval="none", level=0.95, clip=None)
    assert told["value"][1] == "NaN"
    assert [one["class"][0] for one in told["warnings"]] == ["bounds_warning"]
    ends = ask("predict", source=source, rows=rows, scale="response", interval="prediction", level=0.95, clip=True)
    fit, low, high = ends["value"][0]
    assert low < fit < high
    assert fit == told["value"][0]


def test_an_error_keeps_its_class_its_fields_and_its_notes() -> None:
    error = buy(epsilon=5.0)["error"]
    assert error["class"] == ["budget_exceeded", "curator"]
    assert error["fields"]["largest"]["epsilon"] == pytest.approx(2.77, abs=0.01)
    assert error["fields"]["idempotency_key"]
    assert ask("predict", source="{")["error"]["class"] == ["type"]
    unknown = ask("refit", source=buy()["value"]["source"], estimator="os", params={})["error"]
    assert unknown["message"].startswith("there is no estimator 'os'; there are OLS, ")


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
def process() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "analyst_client.r_adapter", "attended"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8") as started:
        yield started
        started.kill()


@pytest.mark.slow
def test_a_process_answers_line_by_line_and_outlives_an_interruption_between(
    process: "subprocess.Popen[str]",
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    fit = {"curator": recorded(), "data": "flchain", "formula": FORMULA, "options": OPTIONS, "progress": True}
    for request in ({"do": "key", "with": {}}, {"do": "fit", "with": fit | {"yes": False}}, {"do": "key", "with": {}}):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if request["do"] == "fit":
            assert answer == {"question": True}
            process.stdin.write("y\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        assert "value" in answer
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "of the budget" in said  # the price, which no answer is mixed with
    assert "Buy it?" in said


def test_a_table_runs_as_r_has_it() -> None:
    # The first axis fastest: of a table of counts that the recorded paper bought.
    release = recorded_client("paper").release("flchain", paper_request())
    told = r_adapter._table(r_adapter._keep_counts(release))
    (table,) = release.tables
    found = np.reshape(told["count"], table.values.shape, order="F")
    np.testing.assert_array_equal(found, table.values)
    assert list(told["labels"]) == [axis.name for axis in table.axes]


def paper_request() -> Any:
    years = [min(365.25 * k, 5500.0) if k < 15 else 5500.0 for k in range(16)]
    mgus = col("kappa") + col("lambda") >= 4.72
    return CountsRequest([[Axis("futime", years), "death", mgus]], epsilon=1.0, delta=1e-6)


def test_what_is_kept_stands_in_the_order_that_was_asked() -> None:
    release = recorded_client().release("flchain", **REQUEST, epsilon=1.0)
    asked = release.in_order((release.feature_names[::-1], release.target_names))
    again = r_adapter._read(r_adapter._saved(OLS().fit(asked)))
    assert again.feature_names_in_.tolist() == list(asked.feature_names) != list(release.feature_names)
