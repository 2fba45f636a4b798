"""Rows of combinations: what is posted of them, fits through their matrix, and answers that contradict themselves."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from client_examples import Curator, combined_body, compact, release_body, released, with_receipt

from analyst_client import OLS, EstimationError, Release
from analyst_client.errors import ServiceError
from analyst_client.kinds import CombinedRows, Quote
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.schema.wire import Fields

MATRIX = {"(constant)": [1.0, 0.0, -0.25], "age": [0.0, 0.75, 0.25], "sex[M]": [0.0, 0.0, 0.5]}
M = np.array(list(MATRIX.values()))
Change = Callable[[dict[str, Any]], object]


def test_a_request_sends_whole_numbers_over_a_power_of_two() -> None:
    twice = {name: [2.0 * number for number in row] for name, row in MATRIX.items()}
    rows = CombinedRows(twice | {"bmi": [0.0, 0.0, 0.0]}, norm=2.0)
    request = ReleaseRequest(["age", "sex"], target="kappa", rows=rows, mu=0.2)
    assert request.members["rows"] == combined_body()["request"]["rows"]
    assert {name: row.tolist() for name, row in rows.posted.items()} == MATRIX
    with pytest.raises(ValueError, match="norm goes with rows='ball'"):
        ReleaseRequest(["age"], target="kappa", rows=rows, norm=1.0, mu=0.2)
    with pytest.raises(ValueError, match="expected_rows chooses a row map"):
        ReleaseRequest(["age"], target="kappa", rows=rows, expected_rows=100, mu=0.2)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: CombinedRows({}), "weights are given by the names of terms"),
        (lambda: CombinedRows({"age": [0.0]}), "weights of combination 1 are all 0"),
        (lambda: CombinedRows({"age": [1e-12]}), "smaller than 2\\^-31"),
        (lambda: CombinedRows({"age": [2.0**36]}), "add up to more than 2\\^35"),
        (lambda: CombinedRows({"age": [1.0]}, norm=-1.0), "norm must be finite and positive"),
        (lambda: CombinedRows({"age": [1e308]}, norm=1e-10), "over the norm"),
        (lambda: CombinedRows({"age": [1.0], "sex[M]": [1.0, 2.0]}), "are 2 numbers, where those of the first term"),
    ],
)
def test_weights_that_cannot_be_posted_are_refused(made: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()


def test_an_answer_is_read_in_the_order_that_was_asked() -> None:
    curator = Curator(released(with_receipt(combined_body())))
    release = curator.client().release("flchain", ["sex", "age"], target="kappa", mu=0.2, rows=CombinedRows(MATRIX))
    assert release.feature_names == ("sex", "age")
    assert release.term_names == ("combination[1]", "combination[2]", "combination[3]")
    assert [term.name for term in release.combined] == ["(constant)", "sex[M]", "age"]
    assert release.combinations is not None
    assert release.combinations.tolist() == M[[0, 2, 1]].tolist()
    assert release.constant_form == pytest.approx([1.0, 0.0, 0.0])
    assert release.weights_rows
    assert (release.norm, release.row_map) == (None, "linear")
    assert release.verify()


def test_other_combinations_than_were_asked_are_refused() -> None:
    for rows in (CombinedRows(MATRIX, norm=2.0), "box", "ball"):
        client = Curator(released(with_receipt(combined_body()))).client()
        with pytest.raises(ServiceError, match="combined otherwise than was asked"):
            client.release("flchain", ["age", "sex"], target="kappa", mu=0.2, rows=rows)
    client = Curator(released()).client()
    with pytest.raises(ServiceError, match="combined otherwise than was asked"):
        client.release("flchain", ["age", "sex"], target="kappa", mu=0.2, rows=CombinedRows(MATRIX))


def change_rows(**members: Any) -> Change:
    return lambda body: body["request"]["rows"].update(members)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.pop("combined"), "either terms of the request or combinations"),
        (lambda body: body.update(combined=[]), "either terms of the request or combinations"),
        (lambda body: body.update(terms=body["combined"]), "either terms of the request or combinations"),
        (lambda body: body["terms"].__setitem__(0, body["combined"][0]), "either terms of the request"),
        (lambda body: body["combined"].append(body["terms"][0]), "either terms of the request"),
        (lambda body: body["terms"][1].update(name="combination[1]"), "distinct names"),
        (lambda body: body["combined"].append(body["combined"][2]), "distinct names"),
        (lambda body: body["combined"].reverse(), "at most one constant, at its head"),
        (lambda body: body["combined"][1].update(column="bmi"), "listed features"),
        (lambda body: body["terms"].pop(), "of one length"),
        (lambda body: body["request"].pop("rows"), "rows is not an object"),
        (change_rows(matrix={}), "whole numbers"),
        (change_rows(matrix={"age": [1, 2]}), "of one length"),
        (change_rows(matrix={"age": [1, 2, 0]}), "combinations of nothing"),
        (change_rows(matrix={"bmi": [1, 2, 3]}), "terms that are listed"),
        (change_rows(matrix={"age": [1, 2, 2**36]}), "whole numbers"),
        (change_rows(matrix={"age": [1, 2, True]}), "whole numbers"),
        (change_rows(matrix={"age": "123"}), "whole numbers"),
        (change_rows(bits=-1), "bits is not from 0 to 30"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(change: Change, message: str) -> None:
    body = copy.deepcopy(combined_body())
    change(body)
    with pytest.raises(ServiceError, match=message):
        Release.from_text(json.dumps(body))


def test_a_quote_that_contradicts_itself_is_refused() -> None:
    body = combined_body() | {"affordable": True, "pass_over_rows": True, "duration_s": 0.0, "answer_bytes": 4000}
    body |= {"answer_bytes_left": 2**30, "offers": []}
    assert Quote.read(Fields(copy.deepcopy(body))).posted == CombinedRows(MATRIX).combinations
    body["request"]["rows"]["matrix"] = {"age": [1]}
    with pytest.raises(ServiceError, match="of one length"):
        Quote.read(Fields(body))


# Fits


def rows_of(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    X = np.column_stack([np.ones(n), generator.uniform(-1, 1, n), generator.integers(0, 2, n)])
    return X, X @ [0.1, 0.4, -0.2] + generator.normal(0, 0.1, n)


def release_of(body: dict[str, Any], X: np.ndarray, y: np.ndarray) -> Release:
    """Return a release of these rows, with next to no noise."""
    k = X.shape[1]
    packed = {
        "xtx": ([k, k], "upper", (X.T @ X)[np.triu_indices(k)]),
        "xty": ([k, 1], "full", X.T @ y),
        "yty": ([1], "full", [y @ y]),
    }
    statistics = {
        name: {"shape": shape, "packing": packing, "values": list(map(float, values))}
        for name, (shape, packing, values) in packed.items()
    }
    sd = dict.fromkeys(("xtx_diagonal", "xtx_offdiagonal", "xty", "yty"), 1e-6)
    return Release.from_text(
        compact(body | {"statistics": statistics, "noise": {"distribution": "discrete_gaussian", "sd": sd}})
    )


def test_a_fit_of_combinations_is_that_of_the_terms_seen_through_the_matrix() -> None:
    X, y = rows_of()
    plain, combined = OLS().fit(release_of(release_body(), X, y)), OLS().fit(release_of(combined_body(), X @ M, y))
    frame = {"age": [50.0, 61.0, 93.0], "sex": ["F", "M", "M"]}
    assert combined.predict(frame) == pytest.approx(plain.predict(frame))
    assert combined.predict_interval(frame) == pytest.approx(plain.predict_interval(frame), rel=1e-6)
    expected, found = plain.results_[0], combined.combined_terms().estimates
    assert [one.label for one in found] == [("(constant)",), ("age",), ("sex[M]",)]
    assert [one.value for one in found] == pytest.approx(expected.params)
    assert [one.std_error for one in found] == pytest.approx(expected.std_errors, rel=1e-6)
    assert [(one.conf_low, one.conf_high) for one in found] == [
        pytest.approx(pair, rel=1e-6) for pair in plain.conf_int().tolist()
    ]
    assert [one.value for one in combined.raw_powers().estimates] == pytest.approx(expected.params)
    assert combined.rsquared_ == pytest.approx(plain.rsquared_)
    assert combined.rsquared_adj_ == pytest.approx(plain.rsquared_adj_)
    one, other = combined.f_test(), plain.f_test()
    assert (one.constraints, one.dof) == (other.constraints, pytest.approx(other.dof))
    assert one.statistic == pytest.approx(other.statistic, rel=1e-6)


def test_fewer_combinations_are_a_fit_within_their_span() -> None:
    X, y = rows_of()
    body = combined_body()
    body["terms"] = body["terms"][:2]
    matrix = body["request"]["rows"]["matrix"]
    body["request"]["rows"]["matrix"] = {name: row[:2] for name, row in matrix.items()}
    release = release_of(body, X @ M[:, :2], y)
    fit = OLS().fit(release)
    theta = np.linalg.lstsq(X @ M[:, :2], y, rcond=None)[0]
    assert fit.scaled_coef_ == pytest.approx(theta)
    target = release.targets[0]
    predicted = target.center + target.scale * (np.array([[1.0, 0.2, 1.0]]) @ M[:, :2] @ theta)
    assert fit.predict({"age": [80.0], "sex": ["M"]}) == pytest.approx(predicted)
    # sex is in no combination.
    assert [one.label for one in fit.combined_terms().estimates] == [("(constant)",), ("age",)]


def test_a_fit_of_terms_has_no_combined_ones() -> None:
    X, y = rows_of()
    with pytest.raises(EstimationError, match="those of the terms already"):
        OLS().fit(release_of(release_body(), X, y)).combined_terms()


@pytest.mark.parametrize(
    "rows", [{"map": ""}, {"map": ["box"]}, {"map": 0}, {"map": "x" * 100_000}, [1], 5, {"norm": 2}]
)
def test_rows_that_a_client_does_not_know_are_fitted_by_nothing(rows: object) -> None:
    body = release_body()
    body["request"]["rows"] = rows
    release = Release.from_text(compact(body))
    assert "does not know" in (release.weighting or "")
    with pytest.raises(ValueError, match="does not know the row map") as told:
        OLS().fit(release)
    assert len(str(told.value)) < 300


@pytest.mark.parametrize("norm", [10**400, 1e200])
def test_a_norm_of_any_size_is_a_number(norm: float) -> None:
    body = release_body()
    body["request"]["rows"] = {"map": "ball", "norm": norm}
    assert not Release.from_text(compact(body)).weights_rows
