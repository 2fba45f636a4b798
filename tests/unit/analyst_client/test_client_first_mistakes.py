"""First mistakes: each message names the rule and what would have worked, and that is run here too."""

import http.server
import json
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from client_examples import AGE as AGE_OF_DATASET
from client_examples import DATASET, QUOTE, RELEASE_TEXT, TOKEN, URL, Curator, compact, released
from sklearn.base import clone

from analyst_client import (
    OLS,
    AdaSSP,
    Column,
    CuratorAdmin,
    CuratorClient,
    Curators,
    LogisticRegression,
    Model,
    PoissonRegression,
    Release,
    Ridge,
    TransportError,
    correlations,
    describe,
)
from analyst_client.admin.command import main as run_command
from analyst_client.analyses import ContingencyTable, event_rates, kaplan_meier, log_rank_test, roc_curve
from analyst_client.errors import BoundsWarning, DatasetNotFoundError, FormulaError, ReceiptInvalidError, ServiceError
from analyst_client.kinds import Quote
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.schema import Cost, Job, ReleaseSummary
from analyst_client.schema.permits import permit_body
from analyst_client.schema.requests import as_json
from analyst_client.schema.wire import Fields
from analyst_client.terms import col, log
from analyst_client.terms.formulas import as_declared, needs_declared
from analyst_client.terms.python import read_condition
from analyst_client.tutorial import recorded_client

ROOT = Path(__file__).resolve().parents[3]
FLCHAIN = ROOT / "analyst_client" / "tutorial" / "release.json"
FRAME = pd.DataFrame({"age": [55.0, 75.0, 90.0, 60.0], "kappa": [1.0, 2.0, 3.0, 1.4]})
AGE, KAPPA = Column.numeric("age", 50, 100), Column.numeric("kappa", 0, 6)
PRICE = {"epsilon": 1, "delta": 1e-6}


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("release", "curators.plan(…).buy() buys a release at each; curators.clients['north'].release(…) asks one"),
        (
            "submit_refinement",
            "curators.refine(…) refines at each; curators.clients['north'].submit_refinement(…) asks",
        ),
        ("budget", "curators.clients['north'].budget(…) asks one hospital"),
    ],
)
def test_a_call_of_one_hospital_names_the_one_of_several(name: str, instead: str) -> None:
    curators = Curators({"north": recorded_client("methods"), "south": recorded_client("methods")})
    with pytest.raises(AttributeError, match=re.escape(f"Curators has no attribute {name!r}: {instead}")):
        getattr(curators, name)
    with pytest.raises(AttributeError, match=r"no attribute 'relase'$"):
        curators.relase  # type: ignore[attr-defined]  # noqa: B018
    assert callable(getattr(curators.clients["north"], name))
    with pytest.raises(ValueError, match=re.escape("as {'north': 'cohort', 'south': 'cohort'}; not ['flchain']")):
        curators.fit("kappa ~ age", data=["flchain"], epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, True, False])
@pytest.mark.parametrize("kind", [LogisticRegression, PoissonRegression])
def test_robust_is_an_option_of_an_estimator_and_no_method(kind: Any, value: bool | None) -> None:
    estimator = kind(robust=value)
    with pytest.raises(TypeError, match=re.escape(f"{kind.__name__}(robust=True).fit(refinement) has robust")):
        estimator.robust()
    assert estimator.robust == value
    assert bool(estimator.robust) is bool(value)
    assert repr(estimator.robust) == repr(value)
    assert estimator.get_params() == {"robust": value}
    assert clone(estimator).set_params(robust=True).get_params()["robust"] is True
    assert repr(kind(robust=True)) == f"{kind.__name__}(robust=True)"


CALLS: dict[str, Callable[[CuratorClient, Curators], Any]] = {
    "fit": lambda client, _: client.fit(["age"], "flchain", epsilom=1),
    "refine": lambda client, _: client.refine("flchain", ["age"], eps=1),
    "quote_refinement": lambda client, _: client.quote_refinement("flchain", ["age"], epsilom=1),
    "submit_refinement": lambda client, _: client.submit_refinement("flchain", ["age"], epsilom=1),
    "fit of several": lambda _, curators: curators.fit(["age"], data="flchain", eps=1),
    "refine of several": lambda _, curators: curators.refine("flchain", ["age"], epsilom=1),
    "plan": lambda _, curators: curators.plan("flchain", ["age"], epsilom=1),
    "plan of one": lambda _, curators: curators.plan("flchain", ["age"], each={"north": {"epsilom": 1}}),
    "refine of one": lambda _, curators: curators.refine("flchain", ["age"], each={"north": {"epsilom": 1}}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_misspelt_option_names_the_one_that_was_meant(call: Callable[[CuratorClient, Curators], Any]) -> None:
    curators = Curators({"north": recorded_client("one_call")})
    with pytest.raises(TypeError, match=r"has no argument 'eps(ilom)?': did you mean epsilon=1\?$"):
        call(curators.clients["north"], curators)


def test_an_option_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    curators = Curators({"north": recorded_client("one_call")})
    with pytest.raises(TypeError, match=r"fit\(\) has no argument 'half_width'; it has model, data, target"):
        curators.fit(["age"], data="flchain", half_width={"age": 0.1})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"fit\(\) takes model, data by place, and the others by name: target="):
        curators.fit(["age"], "flchain", "kappa")  # type: ignore[misc]


def test_a_misspelt_dataset_is_answered_with_the_one_that_was_meant() -> None:
    missing = {"type": "/problems/dataset-not-found", "title": "There is no such dataset", "detail": "None is granted."}
    listing = httpx.Response(200, content=compact({"datasets": [DATASET]}))
    for name, said in (("flchian", r": did you mean 'flchain'\?$"), ("nhanes", "; there are flchain$")):
        curator = Curator(httpx.Response(404, content=compact(missing)), listing)
        with pytest.raises(DatasetNotFoundError, match=f"None is granted{said}"):
            curator.client().budget(name)
    with pytest.raises(DatasetNotFoundError, match=r"None is granted\.$"):  # where the list is refused, too
        Curator(*[httpx.Response(404, content=compact(missing))] * 2).client().budget("flchian")


def quoted() -> tuple[Curator, CuratorClient]:
    curator = Curator(httpx.Response(200, content=compact(QUOTE)))
    return curator, curator.client()


# What a fit is given


@pytest.mark.parametrize(
    "rows", [(FRAME,), (FRAME[["age"]], FRAME["kappa"]), (np.eye(3), np.ones(3)), ([[1.0], [2.0]],)]
)
@pytest.mark.parametrize("estimator", [AdaSSP, LogisticRegression])
def test_rows_are_not_fitted_and_a_release_of_ones_own_rows_is(estimator: Any, rows: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"not rows: .*Release\.from_public\(frame, \[Column"):
        estimator().fit(*rows)
    assert AdaSSP().fit(Release.from_public(FRAME, [AGE], KAPPA)).coef_.shape == (1,)


@pytest.mark.parametrize("wrap", [str, Path, lambda path: [str(path)]])
def test_the_name_of_a_file_is_not_fitted_and_the_file_is(wrap: Callable[[Path], Any]) -> None:
    with pytest.raises(ValueError, match="not the name of a file") as caught:
        AdaSSP().fit(wrap(FLCHAIN))
    (call,) = re.findall(r"Release\.load\('.*?'\)", str(caught.value))
    assert AdaSSP().fit(eval(call)).coef_.shape == (4,)


def test_a_quote_or_a_job_is_not_fitted_and_what_it_leads_to_is() -> None:
    quote = Quote.read(Fields(QUOTE))
    with pytest.raises(ValueError, match=r"a quote holds no statistics: client\.release"):
        AdaSSP().fit(quote)  # type: ignore[arg-type]
    release = Release.from_text(RELEASE_TEXT)
    job = Job.at_once(release, "key")
    with pytest.raises(ValueError, match=r"client\.wait\(job\)"):
        AdaSSP().fit([job])  # type: ignore[list-item]
    curator = Curator()
    assert AdaSSP().fit(curator.client().wait(job)).coef_.shape == (2,)


def test_targets_are_not_given_as_a_list_to_a_fit_nor_as_values() -> None:
    release = Release.load(FLCHAIN)
    with pytest.raises(ValueError, match=r"target='kappa'"):
        AdaSSP().fit(release, target=["kappa"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no values are given"):
        AdaSSP().fit(release, FRAME["kappa"])  # type: ignore[arg-type]
    assert AdaSSP().fit(release, target="kappa").target_names_.tolist() == ["kappa"]


# What a request names


@pytest.mark.parametrize("features", [["age", "age:sex"], ["log(age)"], ["age*sex"], ["I(age^2)"]])
def test_a_term_of_a_formula_is_not_asked_by_itself_and_an_object_is(features: Any) -> None:
    curator, client = quoted()
    with pytest.raises(ValueError, match=r"names of columns or expressions, .*such as log\(col\('kappa'\)\)"):
        client.quote("flchain", features, target="kappa", **PRICE)
    assert curator.requests == []
    client.quote("flchain", ["age", log(col("creatinine"))], target="kappa", rows="box", **PRICE)
    assert curator.bodies[0]["features"] == ["age", {"log": ["creatinine"]}]


def test_a_target_is_one_name_and_several_are_targets() -> None:
    curator, client = quoted()
    with pytest.raises(ValueError, match=r"target is one name, such as target='kappa'; several .* targets="):
        client.quote("flchain", ["age"], target=["kappa"], **PRICE)  # type: ignore[arg-type]
    client.quote("flchain", ["age"], targets=["kappa"], rows="box", **PRICE)
    assert curator.bodies[0]["targets"] == ["kappa"]


@pytest.mark.parametrize("method", ["quote", "release", "submit_release"])
def test_an_argument_of_another_name_is_answered_with_its_own(method: str) -> None:
    _, client = quoted()
    ask: Callable[..., Any] = getattr(client, method)
    with pytest.raises(TypeError, match=r"has no argument 'eps': did you mean epsilon=1\?"):
        ask("flchain", ["age"], target="kappa", eps=1)
    with pytest.raises(ValueError, match=r"such as delta=1e-6"):
        ask("flchain", ["age"], target="kappa", epsilon=1)
    with pytest.raises(TypeError, match="did you mean delta=1e-06"):
        ask("flchain", ["age"], target="kappa", epsilon=1, dleta=1e-6)
    with pytest.raises(TypeError, match="'nothing'; it has dataset, features"):
        ask("flchain", ["age"], nothing=1)


def test_what_the_messages_led_to_is_asked() -> None:
    curator, client = quoted()
    assert client.quote("flchain", ["age"], target="kappa", epsilon=1, delta=1e-6, rows="box").affordable
    assert curator.bodies[0]["price"] == {"epsilon": 1.0, "delta": 1e-6}


def test_a_reservation_knows_its_arguments_too() -> None:
    _, client = quoted()
    with pytest.raises(TypeError, match="did you mean expires_in_s=60"):
        client.reserve("flchain", expires_in=60, epsilon=1.0)  # type: ignore[call-arg]


# Files


@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
def test_a_damaged_file_is_not_read_and_its_release_can_be_fetched(tmp_path: Path, part: bool) -> None:
    release = Release.from_text(RELEASE_TEXT)
    (release.select(["sex"]) if part else release).save(path := tmp_path / "flchain.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("900.0", "700.0"), encoding="utf-8")
    with pytest.raises(ReceiptInvalidError, match=r"flchain\.json is damaged.*the body was changed") as caught:
        Release.load(path)
    assert caught.value.reasons == ("answer_digest: the body was changed",)
    (call,) = re.findall(r"client\.fetch_release\('.*?'\)", str(caught.value))
    assert eval(call, {"client": Curator(released(answer="stored")).client()}) == release


@pytest.mark.parametrize(
    "found", ['"values":', '"shape":', '"sd":', '"center":75.0', '"population":"olmsted"', '"signature":"']
)
def test_every_digit_of_a_file_counts(tmp_path: Path, found: str) -> None:
    """Whatever is changed is noticed: in the numbers, in what they mean, or in the receipt."""
    head, name, tail = RELEASE_TEXT.partition(found)
    place = next(k for k, letter in enumerate(tail) if letter.isdigit())
    damaged = head + name + tail[:place] + str((int(tail[place]) + 1) % 10) + tail[place + 1 :]
    (tmp_path / "damaged.json").write_text(damaged, encoding="utf-8")
    if found == '"signature":"':  # no part of what is hashed: a key tells
        assert Release.load(tmp_path / "damaged.json").verify().verdict == "consistent"
        return
    with pytest.raises((ReceiptInvalidError, ServiceError), match=r"damaged\.json (is damaged|holds no whole)"):
        Release.load(tmp_path / "damaged.json")


def test_a_release_that_lost_its_receipt_is_not_read(tmp_path: Path) -> None:
    head, _, _ = RELEASE_TEXT.partition(',"receipt"')
    (tmp_path / "cut.json").write_text(head + "}", encoding="utf-8")
    with pytest.raises(ReceiptInvalidError, match="carries no receipt"):
        Release.load(tmp_path / "cut.json")


def test_a_receipt_of_another_format_is_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "newer.json").write_text(RELEASE_TEXT.replace('"format":2', '"format":3'), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"newer\.json was not checked: receipts of format 3") as caught:
        assert Release.load(tmp_path / "newer.json").id == "rel_1"
    assert caught[0].filename == __file__


def test_what_was_saved_of_ones_own_arrays_is_read(tmp_path: Path) -> None:
    Release.from_public(FRAME, [AGE], KAPPA).save(tmp_path / "own.json")
    assert Release.load(tmp_path / "own.json").is_public


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"  \n", "it is empty"),
        (RELEASE_TEXT[: len(RELEASE_TEXT) // 2].encode(), "not JSON"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"[]", "not an object"),
        (b'{"kind":"gram"}', "features is not an array"),
        (b'{"kind":"selection","features":["weight"],"targets":[],"of":"{}"}', "kind is not a string"),
    ],
)
def test_an_empty_or_truncated_file_is_named_with_the_way_to_a_whole_one(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "flchain.json").write_bytes(content)
    with pytest.raises(ServiceError, match=rf"flchain\.json holds no whole release: .*{message}") as caught:
        Release.load(tmp_path / "flchain.json")
    suggested = re.findall(r"client\.(?:fetch_release\('(.*?)'\)|fetch_release\(…)", str(caught.value))
    assert suggested == (["rel_1"] if b"rel_1" in content else [""])


# Addresses


@pytest.mark.parametrize("end", ["/v1", "/v1/"])
def test_an_address_with_the_version_is_refused_and_the_one_named_is_not(end: str) -> None:
    with pytest.raises(ValueError, match="without /v1") as caught:
        CuratorClient(f"https://curator.example/hospital{end}", TOKEN)
    (named,) = re.findall(r"'(https.*?)'", str(caught.value))
    assert named == "https://curator.example/hospital"
    assert repr(CuratorClient(named, TOKEN)) == f"CuratorClient({named!r})"


class Plain(http.server.BaseHTTPRequestHandler):
    """A curator without TLS, who has no datasets."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "15")
        self.end_headers()
        self.wfile.write(b'{"datasets":[]}')

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def plain_port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_tls_to_a_plain_port_is_named_at_once_and_the_plain_address_works(plain_port: int) -> None:
    with CuratorClient(f"https://127.0.0.1:{plain_port}", TOKEN, memory=None, max_attempts=9) as client:
        waits: list[float] = []
        client._transport.sleep = waits.append
        with pytest.raises(TransportError, match="not in TLS") as caught:
            client.datasets()
        assert waits == []
    (named,) = re.findall(r"'(.*?)'", str(caught.value))
    with CuratorClient(named, TOKEN, memory=None) as client:
        assert client.datasets() == ()


def test_tls_that_fails_otherwise_is_tried_again() -> None:
    curator = Curator(httpx.ConnectError, httpx.ConnectError)
    client = curator.client(max_attempts=2)
    with pytest.raises(TransportError, match="no answer"):
        client.datasets()
    assert len(curator.waits) == 1


# Predictions


@pytest.fixture
def fit() -> OLS:
    return OLS().fit(Release.from_public(FRAME, [AGE], KAPPA))


def test_a_dict_of_one_persons_values_is_refused_and_one_of_lists_is_not(fit: OLS) -> None:
    with pytest.raises(ValueError, match="in a list even if there is one row") as caught:
        fit.predict({"age": 60.0})
    (named,) = re.findall(r"\{.*\}", str(caught.value))
    assert fit.predict(eval(named.replace(", …", ""))).shape == (1,)
    with pytest.raises(ValueError, match="same number of rows"):
        OLS().fit(Release.from_arrays(np.eye(3), np.ones(3))).predict({"x1": [1.0, 0.5], "x2": [1.0]})


def test_a_list_of_dicts_is_refused_and_its_columns_are_not(fit: OLS) -> None:
    rows = [{"age": 60.0}, {"age": 70.0}]
    with pytest.raises(ValueError, match="rows come as a data frame") as caught:
        fit.predict(rows)
    columns = eval(str(caught.value).partition("or as columns: ")[2], {"rows": rows})
    assert fit.predict(columns).tolist() == fit.predict(pd.DataFrame(rows)).tolist()


def test_values_beyond_their_bounds_are_clipped_with_a_warning_that_names_both_ways_out(fit: OLS) -> None:
    beyond = [[120.0], [75.0]]
    for predict in (fit.predict, fit.predict_interval):
        with pytest.warns(BoundsWarning, match=r"1 of 2 values of 'age' outside of 50 to 100") as caught:
            clipped = predict(beyond)
        assert caught[0].filename == __file__
        assert np.array_equal(predict(beyond, clip=True), clipped)
        assert not np.array_equal(predict(beyond, clip=False), clipped)
    assert np.array_equal(fit.predict([[100.0], [50.0]]), fit.predict([[100.0], [50.0]], clip=True))
    assert np.isnan(fit.predict([[None], [75.0]])[0])


@pytest.mark.filterwarnings("ignore::analyst_client.EstimationWarning")
def test_log_odds_warn_of_bounds_too_and_scores_clip_as_the_curator_does(fit: OLS) -> None:
    ill = Column.boolean("ill")
    rows = FRAME.assign(ill=[False, True, True, False])
    logistic = LogisticRegression().fit(Release.from_public(rows, [AGE], ill))
    with pytest.warns(BoundsWarning, match="age") as caught:
        logistic.predict_proba([[120.0]])
    assert caught[0].filename == __file__
    assert logistic.score([[120.0], [50.0]], [True, False]) == 1.0
    assert fit.score([[120.0], [50.0]], [4.0, 1.0]) < 1.0


# Conditions and formulas

COLUMNS = ["sex", "age", "is.ill.2", "alk.phos", "alk-phos", "insured", "lambda"]


@pytest.mark.parametrize(
    ("written", "rule", "meant"),
    [
        ("sex == 'M' & age > 7", "put each comparison in parentheses, or ", "sex == 'M' and age > 7"),
        ("age > 60 & age < 70 | `alk-phos` > 3", "parentheses, or ", "age > 60 and age < 70 or `alk-phos` > 3"),
        ("insured & age > 60", "parentheses, or ", "insured and age > 60"),
        ("sex = 'a = b' AND age <> 3", "no expression of Python: ", "sex == 'a = b' and age != 3"),
        ("!insured && age > 3", "no expression of Python: ", "not insured and age > 3"),
        ("lambda^2 > 4", r"\^ is no power here: ", "lambda**2"),
    ],
)
def test_a_condition_of_another_language_is_answered_with_its_own_words(written: str, rule: str, meant: str) -> None:
    with pytest.raises(FormulaError, match=rule) as caught:
        read_condition(written, COLUMNS)
    assert caught.value.rule.endswith(f"write {meant}")
    read_condition(meant, COLUMNS)


def test_joins_in_parentheses_and_names_in_backquotes_are_read() -> None:
    assert read_condition("(sex == 'M') & (age > 7)").to_json() == read_condition("sex == 'M' and age > 7").to_json()
    assert read_condition("(insured & sex) == 1").to_json() == {"equal": [{"and": ["insured", "sex"]}, 1.0]}
    assert read_condition("a == True and b != True").to_json() == {"and": ["a", {"not": ["b"]}]}
    assert read_condition("a == False and b != False").to_json() == {"and": [{"not": ["a"]}, "b"]}
    asked = read_condition("`alk-phos` + `lambda` > `alk.phos` * `is.ill.2`", COLUMNS)
    assert asked.columns == ("alk-phos", "lambda", "alk.phos", "is.ill.2")


def test_a_place_is_shown_below_its_letters_after_a_column_called_as_a_word_of_python() -> None:
    with pytest.raises(FormulaError) as caught:
        read_condition("lambda > 3 and agee > 4", COLUMNS)
    assert caught.value.text[caught.value.start : caught.value.stop] == "agee"


@pytest.mark.parametrize("formula", ["kappa ~ log(`alk.phos`)", "kappa ~ `alk.phos`", "kappa ~ alk.phos"])
def test_a_name_with_a_dot_stands_in_a_formula_in_backquotes_or_without(formula: str) -> None:
    columns = [KAPPA, Column.numeric("alk.phos", 1, 9)]
    assert Model(formula).read(columns).features[0].columns == ("alk.phos",)
    with pytest.raises(FormulaError, match="did you mean 'alk_phos'"):
        Model(formula).read([KAPPA, Column.numeric("alk_phos", 1, 9)])


def test_a_power_in_a_formula_is_written_as_in_python() -> None:
    with pytest.raises(FormulaError, match=r"\^ is no power here: write age \*\* 2\n"):
        Model("kappa ~ I(age ^ 2)").read([AGE, KAPPA])
    assert repr(Model("kappa ~ I(age ** 2)").read([AGE, KAPPA]).features[0]) == "age ** 2"


KAPPA_OF_DATASET = AGE_OF_DATASET | {"name": "kappa", "lower": 0.0, "upper": 6.0}
INSURED = {
    "name": "insured",
    "type": "boolean",
    "unit": None,
    "description": "",
    "levels": ["false", "true"],
    "missing": "omit",
}


@pytest.mark.parametrize(("word", "level"), [("yes", "true"), ("No", "false"), ("1", "true"), ("true", "true")])
@pytest.mark.parametrize("ask", ["features", "where", "request", "model"])
def test_a_boolean_without_labels_is_at_the_words_of_its_file(ask: str, word: str, level: str) -> None:
    dataset = httpx.Response(200, content=compact(DATASET | {"columns": [AGE_OF_DATASET, INSURED, KAPPA_OF_DATASET]}))
    curator = Curator(dataset, *[httpx.Response(200, content=compact(QUOTE))] * 3)
    client, condition = curator.client(), f"insured == '{word}'"
    written: Any = {"in": ["insured", [level]]}
    if ask == "features":
        written = "insured" if level == "true" else {"not": ["insured"]}
        client.quote("flchain", ["age", col("insured") == word], target="kappa", rows="box", **PRICE)
    elif ask == "where":
        client.quote("flchain", ["age"], target="kappa", where=condition, rows="box", **PRICE)
    elif ask == "request":
        client.quote("flchain", ReleaseRequest(["age"], target="kappa", where=condition, **PRICE))
    else:
        curator.answers.insert(1, dataset)
        client.quote("flchain", Model("kappa ~ age").where(condition), rows="box", **PRICE)
    (asked,) = (json.loads(request.content) for request in curator.requests if request.content)
    assert (asked["features"][1] if ask == "features" else asked["where"]) == written


def test_labels_of_a_boolean_and_levels_of_a_category_are_asked_for_as_they_are() -> None:
    columns = {"a": Column.boolean("a", ("no", "yes")), "b": Column.categorical("b", ["No", "Yes"])}
    asked = read_condition("a == 'yes' and b == 'Yes' and b != 'true'")
    assert needs_declared([asked])
    assert as_declared(asked, columns).to_json() == asked.to_json()
    assert not needs_declared([read_condition("b == 'F' and age > 1")])


@pytest.mark.parametrize("rows", [{"insured": ["yes", "No", "1"], "sex": ["F", "M", "M"]}])
@pytest.mark.parametrize("frame", [dict, pd.DataFrame])
def test_a_prediction_takes_the_words_of_the_file(frame: Any, rows: dict[str, Any]) -> None:
    features = [Column.boolean("insured"), Column.categorical("sex", ["F", "M"])]
    fit = OLS().fit(Release.from_arrays(np.eye(3), [0.0, 2.0, 4.0], features=features))
    assert fit.predict(frame(rows)).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(ValueError, match="'insured' has no level 'maybe'; declared: false, true"):
        fit.predict(frame(rows | {"insured": ["maybe"] * 3}))


# Names of other libraries


def test_members_of_other_libraries_lead_to_those_of_a_fit(fit: OLS) -> None:
    for name in (
        *("coef", "intercept", "stderr", "rsquared", "summary2", "tvalues", "nobs", "fvalue", "resid"),
        *("get_margeff", "marginal_effects", "wald_test", "compare_f_test", "to_frame"),
    ):
        with pytest.raises(AttributeError, match=rf"OLS has no attribute '{name}': see ") as caught:
            getattr(fit, name)
        named = str(caught.value).partition(": see ")[2].partition(" of your own")[0]
        assert eval(f"fit.{named}", {"fit": fit, "X": FRAME}) is not None
    for name in ("llf", "aic", "bic", "prsquared", "compare_lr_test"):
        with pytest.raises(AttributeError, match=f"'{name}': a likelihood is of rows, which stay with the curator"):
            getattr(fit, name)
    for one in (fit, OLS):
        with pytest.raises(AttributeError, match=r"no attribute 'load': load_fit\(path\) reads a fit"):
            _ = one.load  # type: ignore[attr-defined]
    for one, name, meant in [
        (fit, "odds_ratios", r"tidy\(exponentiate=True\)"),
        (fit, "get_robustcov_results", "std_errors_: those of a refinement are robust"),
        (fit, "robust", r"std_errors_: client\.release\(…, robust=True\) and client\.refine\(…\) buy robust ones"),
        (fit.summary(), "as_latex", r"to_latex\(\)"),
        (fit.table(), "summary_frame", r"tidy\(\)"),
    ]:
        with pytest.raises(AttributeError, match=f"no attribute '{name}': see {meant}"):
            getattr(one, name)
    with pytest.raises(AttributeError, match=r"'coef_': call fit\(…\) first"):
        _ = OLS().coef_
    with pytest.raises(AttributeError, match=r"'rsquared'$"):
        _ = LogisticRegression().rsquared  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask", ["anova", "table", "summary", "tidy", "test"])
def test_two_fits_are_put_side_by_side_by_compare(fit: OLS, ask: str) -> None:
    for given in [{"target": fit}] if ask == "test" else [{"level": fit}] if ask == "tidy" else [{}, {"target": fit}]:
        with pytest.raises(ValueError, match=r"compare\(fit, other\) puts fits side by side"):
            getattr(fit, ask)(*([] if given else [fit]), **given)
    for other in ("0.95", None):
        with pytest.raises(ValueError, match=f"at least 0.5 and below 1, as 0.95, not {other!r}"):
            fit.table(other)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [OLS, Ridge, AdaSSP, LogisticRegression])
def test_an_estimator_takes_no_data(kind: Any) -> None:
    for args, options in [(["kappa ~ age"], {"data": FRAME}), ([FRAME["kappa"], FRAME], {}), ([FRAME], {})]:
        with pytest.raises(
            TypeError, match=rf"{kind.__name__}\(\)\.fit\(release\); client\.fit\(.*epsilon=1\) is the one"
        ):
            kind(*args, **options)
    with pytest.raises(AttributeError, match=r"'from_formula': client\.fit\(.* takes a formula"):
        kind.from_formula("kappa ~ age", FRAME)
    assert isinstance(kind(), kind)


def test_a_line_of_the_library_leads_to_its_release() -> None:
    line = ReleaseSummary("rel_1", "flchain", "gram", "2026-01-01T00:00:00Z", {}, Cost(1.0, None, 0.2, 1e-6))
    for ask in (describe, correlations):
        with pytest.raises(AttributeError, match=r"client\.fetch_release\('rel_1'\) returns the whole"):
            ask(line)
    assert pickle.loads(pickle.dumps(line)) == line


SEX_OF_DATASET = AGE_OF_DATASET | {"name": "sex", "type": "categorical", "levels": ["F", "M"]}


@pytest.mark.parametrize("ask", ["where", "model"])
def test_a_level_without_its_quotes_is_answered_with_them(ask: str) -> None:
    columns = [AGE_OF_DATASET, SEX_OF_DATASET, KAPPA_OF_DATASET]
    client = Curator(*[httpx.Response(200, content=compact(DATASET | {"columns": columns}))] * 2).client()
    asked: Any = ["age"] if ask == "where" else Model("kappa ~ age").where("age > 60 and sex == M")
    options = {"target": "kappa", "where": "age > 60 and sex != M"} if ask == "where" else {}
    with pytest.raises(ValueError, match=r"no column 'M'.*: write sex == 'M'"):
        client.quote("flchain", asked, **options, **PRICE)
    with pytest.raises(FormulaError, match=r"no column 'M'; there are sex, age\. A level has quotes: write sex == 'M'"):
        read_condition("sex == M", ["sex", "age"])


def test_formulas_without_their_extra_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic.parser", None)
    with pytest.raises(ImportError, match=r"pip install 'dp-curator-client\[formula\]'"):
        Model("kappa ~ age").read([AGE, KAPPA])


def test_numbers_by_name_are_used_as_a_series(fit: OLS) -> None:
    params, names = fit.params, list(fit.params)
    assert params["Intercept"] == params["const"] == params["(constant)"] == fit.intercept_
    for found, wanted in [
        (params * 2, 2 * fit.params_),
        (1 - params, 1 - fit.params_),
        (2 / params, 2 / fit.params_),
        (-params, -fit.params_),
        (params / fit.bse, fit.params_ / fit.std_errors_),
        (params + dict(fit.bse), fit.params_ + fit.std_errors_),
    ]:
        assert list(found) == names
        assert np.asarray(found).tolist() == wanted.tolist()
    assert (fit.pvalues < 0.05) == dict(zip(names, (fit.pvalues_ < 0.05).tolist(), strict=True))
    assert (params >= fit.params_) == dict.fromkeys(names, True)
    with pytest.raises(ValueError, match="numbers by other names: age beside"):
        params + {"age": 1.0}
    for name in ("loc", "index", "round", "to_frame"):
        with pytest.raises(AttributeError, match=rf"'{name}': it is a dict, and pandas\.Series\(…\) makes a series"):
            getattr(params, name)
    assert pickle.loads(pickle.dumps(params)) == params


def test_a_level_has_the_name_that_other_libraries_give_it() -> None:
    release = Release.from_arrays(np.eye(3), [0.0, 2.0, 4.0], features=[Column.categorical("sex", ["F", "M", "X"])])
    assert OLS().fit(release).params["sex[T.X]"] == 4.0


def test_arguments_of_other_libraries_lead_to_those_of_an_estimator(fit: OLS) -> None:
    with pytest.raises(TypeError, match=r"Ridge\(\) has no argument 'alpha': did you mean penalty=2\?"):
        Ridge(alpha=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"AdaSSP\(\) has no argument 'alpha'; it has failure_probability"):
        AdaSSP(alpha=2)  # type: ignore[call-arg]
    assert Ridge(penalty=2).get_params() == {"penalty": 2}
    with pytest.raises(TypeError, match=r"predict\(\) has no argument 'return_std': predict_interval\(…\) has it"):
        fit.predict(FRAME, return_std=True)
    assert fit.predict_interval(FRAME).shape == (4, 2)
    for other in (True, "confidence", "prediction"):
        with pytest.raises(ValueError, match=rf"interval is 'mean', .*or 'value', .*, not {other!r}"):
            fit.predict(FRAME, interval=other)


# Tokens, times, and names of hospitals

WHOLE = f"cur_{'0' * 16}_{'s' * 43}"


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ("", "it is empty"),
        ("\n", "it is empty"),
        (WHOLE[:20], "of 64 characters it has 20"),
        (f"{WHOLE[:20]}…", "ends in dots"),
        (f"'{WHOLE}'", "quotes around it"),
        (f'{WHOLE}"', "quotes around it"),
        (f" {WHOLE}", "a blank around it"),
        (f"{WHOLE} \n", "a blank around it"),
        (f"Bearer {WHOLE}", "the word Bearer"),
        (f"{WHOLE[:30]}\n{WHOLE[30:]}", "something else is in it"),
    ],
)
def test_a_token_that_was_copied_wrongly_is_answered_with_the_reason_and_not_repeated(
    token: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for client in (CuratorClient, CuratorAdmin):
        with pytest.raises(ValueError, match=rf"the token must be printable ASCII .*{hint}") as caught:
            client(URL, token)
        assert WHOLE[:10] not in str(caught.value)
    if token:
        monkeypatch.setenv("CURATOR_TOKEN", token)
        assert run_command(["--server", URL, "permits", "list"]) != 0
        told = capsys.readouterr().err
        assert hint in told
        assert WHOLE[:10] not in told


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_end_of_a_line_after_a_token_is_left_out(end: str) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, content=b'{"datasets":[]}')

    CuratorClient(URL, WHOLE + end, transport=httpx.MockTransport(answer), memory=None).datasets()
    assert seen == [f"Bearer {WHOLE}"]


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2027, 12, 31, 23, 59, 59, 999, tzinfo=UTC),
        datetime(2028, 1, 1, 0, 59, 59, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2027-12-31T23:59:59Z"),
        "2027-12-31T23:59:59Z",
    ],
)
def test_a_time_with_its_zone_is_written_as_the_wire_has_it(moment: Any) -> None:
    terms = {"purpose": "a study", "legal_basis": "consent", "expires_at": moment, "reason": "asked"}
    body = json.loads(permit_body(["ada"], ["flchain"], limit=None, **terms))
    assert body["expires_at"] == "2027-12-31T23:59:59Z"


@pytest.mark.parametrize("moment", [datetime(2027, 12, 31), date(2027, 12, 31), pd.Timestamp("2027-12-31")])  # noqa: DTZ001 -- the mistake
def test_a_time_without_its_zone_is_refused_with_one_that_has_it(moment: Any) -> None:
    with pytest.raises(ValueError, match=r"has no time zone: write datetime\(2027, 12, 31, 23, 59, ") as caught:
        as_json({"expires_at": moment})
    (code, text) = re.findall(r"write (datetime\(.*?\)), or '(.*?)'", str(caught.value))[0]
    written = json.loads(as_json({"at": eval(code, {"datetime": datetime, "timezone": timezone})}))["at"]
    assert written == text == "2027-12-31T23:59:00Z"


@pytest.mark.parametrize("wrap", [lambda client: [client], lambda client: client, lambda _: {}])
def test_curators_are_named(wrap: Callable[[CuratorClient], Any]) -> None:
    _, client = quoted()
    with pytest.raises(ValueError, match="by a name of your own") as caught:
        Curators(wrap(client))
    (call,) = re.findall(r"Curators\(.*\)", str(caught.value))
    assert eval(call, {"Curators": Curators, "client": client, "other": client}).names == ("north", "south")


def test_a_hospital_that_failed_is_named_as_the_analyst_names_it() -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("lost")

    client = CuratorClient(URL, TOKEN, transport=httpx.MockTransport(fail), max_attempts=1, memory=None)
    curators = Curators({"north": client})
    with pytest.raises(TransportError, match=r"^at the curator 'north': no answer from 'north' after 1") as told:
        curators.plan("flchain", ["age"], target="kappa", **PRICE)
    assert "curator.example" not in str(told.value)


def test_analyses_of_counts_say_how_to_have_them() -> None:
    release = Release.from_text(RELEASE_TEXT)
    for analyse in (kaplan_meier, log_rank_test, event_rates, roc_curve, ContingencyTable.from_counts):
        with pytest.raises(ValueError, match=r"not a Release: ask for counts with .*CountsRequest.*from_counts"):
            analyse(release)  # type: ignore[arg-type, call-arg, operator]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("kappa ~ age", "flchain", 1.0), {}, "takes model, data by place, and the others by name: target=…"),
        (("kappa ~ age",), {"dataset": "flchain"}, "did you mean data='flchain'?"),
        ((), {"formula": "kappa ~ age"}, "did you mean model='kappa ~ age'?"),
        (("kappa ~ age",), {"data": "flchain", "weight": "age"}, "did you mean weights='age'?"),
    ],
)
def test_arguments_of_the_one_call_that_others_have(
    arguments: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        recorded_client("one_call").fit(*arguments, **options)
