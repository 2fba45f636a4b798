"""Scores: requests, what is posted of them, terms in the order that was asked, and answers that are refused."""

import copy
import json
from typing import Any

import numpy as np
import pytest
from client_examples import compact, with_receipt
from hypothesis import given
from hypothesis import strategies as st
from score_examples import ScoreCurator, answer_body, canonical, cohort, sums_of

from analyst_client.errors import ServiceError
from analyst_client.kinds import ScoreQuote, ScoreRelease, ScoreRequest
from analyst_client.kinds.combinations import WEIGHTS_MAX, Combinations
from analyst_client.terms import log

DIRECTIONS = {"(constant)": [1.0, 0.0], "age": [0.0, 1.0], "sex[M]": [0.3, -0.7]}
COEFFICIENTS = {"(constant)": -0.4, "age": 0.1}
OPTIONS: dict[str, Any] = {
    "coefficients": COEFFICIENTS,
    "directions": DIRECTIONS,
    "norm": 0.8,
    "statistics": ["score", "norms", "meat"],
}
ASKED = ScoreRequest(["sex", "age"], "kappa", **OPTIONS, mu=0.5)
NEARLY_EXACT = ScoreRequest(["sex", "age"], "kappa", **OPTIONS, mu=1e5)


def score_of(request: ScoreRequest, **options: Any) -> ScoreRelease:
    return ScoreCurator(**options).client().release("flchain", request)


def body_of(request: ScoreRequest = ASKED) -> dict[str, Any]:
    return copy.deepcopy(answer_body(request.members, cohort(), np.random.default_rng(1)))


# Requests


def test_a_request_sends_what_was_set() -> None:
    request = ScoreRequest(
        iter(["age", log("kappa")]),  # type: ignore[arg-type]
        "dead",
        loss="logistic",
        coefficients={"age": 0.25, "log(kappa)": 0.0},
        directions={"age": [0.5, 6.0], "(constant)": (0, 0)},
        norm=2.0,
        intercept=False,
        statistics=["meat", "score"],
        shares={"meat": 0.25, "score": 0.75},
        where="sex == 'F'",
        mechanism="laplace",
        epsilon=1.0,
        fresh=True,
        project="kidney",
        reservation="res_1",
    )
    assert json.loads(request.to_json()) == {
        "kind": "score",
        "features": ["age", {"log": ["kappa"]}],
        "target": "dead",
        "loss": "logistic",
        "coefficients": {"bits": 2, "weights": {"age": 1}},
        "directions": {"bits": 2, "matrix": {"age": [1, 12]}},
        "statistics": ["score", "meat"],
        "intercept": False,
        "where": {"in": ["sex", ["F"]]},
        "price": {"epsilon": 1.0},
        "mechanism": "laplace",
        "shares": {"meat": 0.25, "score": 0.75},
        "fresh": True,
        "project": "kidney",
        "reservation": "res_1",
    }
    plain = ScoreRequest(["age"], "kappa", directions={"age": [1.0]}, mu=0.1)
    assert plain.members["coefficients"] == {"bits": 0, "weights": {}}
    assert plain.members["statistics"] == ["score"]
    assert "intercept" not in plain.members


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "hinge"}, "loss is one of linear, logistic, poisson, not 'hinge'"),
        ({"statistics": ["score", "score"]}, "each once"),
        ({"statistics": ["gradient"]}, "statistics are some of score, norms, meat"),
        ({"statistics": []}, "statistics are some of"),
        ({"statistics": "score"}, "statistics must be a list"),
        ({"shares": {"score": 1.0, "meat": 1.0}}, "shares name exactly"),
        ({"directions": {}}, "by the names of terms"),
        ({"directions": [[1.0, 2.0]]}, "by the names of terms"),
        ({"directions": {"age": 1.0}}, "directions of 'age' are a list"),
        ({"directions": {"age": []}}, "directions of 'age' are a list"),
        ({"directions": {"age": [1.0], "sex[M]": [1.0, 2.0]}}, "'sex\\[M\\]' are 2 numbers, where those of the first"),
        ({"directions": {"age": [1.0, 0.0]}}, "combination 2 are all 0"),
        ({"directions": {"age": [2.0**-32]}}, "smaller than 2\\^-31: they are posted as whole numbers over 2\\^30"),
        ({"directions": {"age": [np.nan]}}, "finite"),
        ({"directions": {"age": [2.0**36]}}, "more than 2\\^35"),
        ({"directions": {"age": [1e308]}}, "more than 2\\^35"),
        ({"coefficients": {"age": np.inf}}, "finite"),
        ({"coefficients": [0.5]}, "coefficients are given by the names of terms"),
        ({"norm": 0.0}, "norm must be finite and positive"),
        ({"norm": np.nan}, "norm must be finite and positive"),
        ({"bits": 31}, "bits must be a whole number from 0 to 30"),
        ({"bits": True}, "bits must be a whole number"),
        ({"mu": None}, "state one cost"),
        ({"features": "age"}, "features must be a list"),
        ({"target": ["kappa"]}, "target is one name"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_it_is_sent(changes: dict[str, Any], message: str) -> None:
    options = {"features": ["age"], "target": "kappa", "directions": {"age": [1.0]}, "mu": 0.1} | changes
    with pytest.raises(ValueError, match=message):
        ScoreRequest(**options)


# What is posted


FINITE = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda value: value == 0.0 or abs(value) > 1e-6)


@given(st.lists(st.lists(FINITE, min_size=2, max_size=2), min_size=1, max_size=5), st.floats(0.1, 10.0))
def test_what_was_rounded_once_is_the_same_when_it_is_posted_again(rows: list[list[float]], norm: float) -> None:
    weights = {f"x{j}": row for j, row in enumerate([*rows, [1.0, -1.0]])}
    found = Combinations.nearest(weights, "weights", norm=norm)
    assert Combinations.nearest(found.values, "weights") == found
    finer = Combinations.canonical({name: [4 * n for n in row] for name, row in found.numbers.items()}, found.bits + 2)
    assert finer == found
    sizes = np.abs(np.array(list(found.numbers.values()))).sum(axis=0)
    assert max(sizes) <= WEIGHTS_MAX
    for name, row in weights.items():
        error = np.abs(found.values.get(name, np.zeros(2)) - np.array(row) / norm)
        # As many bits as can be: one more would have left no space for the largest combination, or there are 30.
        largest = np.abs(np.array(list(weights.values())) / norm).sum(axis=0).max()
        assert error.max() <= max(2.0**-31, largest * 2.0**-34)


def test_fewer_bits_are_posted_where_that_is_asked() -> None:
    found = Combinations.nearest({"age": [1 / 3]}, "weights", bits=4)
    assert (found.numbers, found.bits) == ({"age": (5,)}, 4)


def test_a_request_tells_what_is_posted() -> None:
    assert ASKED.posted_coefficients["age"] == round(0.1 * 2**30) / 2**30
    assert ASKED.posted_directions["sex[M]"] == pytest.approx([0.375, -0.875])
    again = ScoreRequest(
        ["sex", "age"],
        "kappa",
        coefficients=ASKED.posted_coefficients,
        directions=ASKED.posted_directions,
        statistics=["score", "norms", "meat"],
        mu=0.5,
    )
    assert again.members == ASKED.members


# Answers


def test_terms_stand_as_they_were_asked_and_arrays_with_them() -> None:
    release = score_of(NEARLY_EXACT)
    assert isinstance(release, ScoreRelease)
    assert release.term_names == ("(constant)", "sex[M]", "age")
    assert release.feature_names == ("sex", "age")
    assert (release.target.name, release.loss) == ("kappa", "linear")
    posted = NEARLY_EXACT.posted_directions
    assert release.directions.tolist() == [posted[name].tolist() for name in release.term_names]
    assert release.coefficients.tolist() == [NEARLY_EXACT.posted_coefficients.get(n, 0.0) for n in release.term_names]
    exact = sums_of(canonical(NEARLY_EXACT.members), cohort())
    assert release.score == pytest.approx(exact["score"], abs=1e-3)
    assert release.norms == pytest.approx(exact["norms"], abs=1e-3)
    assert release.meat == pytest.approx(exact["meat"], abs=1e-3)
    assert release.norm_edges == pytest.approx(1.6 ** np.arange(-8.0, 4.0))
    assert len(release.norms) == len(release.norm_edges) + 1
    for array in (release.score, release.norms, release.meat, release.coefficients, release.directions):
        assert not array.flags.writeable
    # In the curator's own order every array follows.
    other = ScoreCurator.answer_body(NEARLY_EXACT.members, cohort(), np.random.default_rng(1))
    plain = ScoreRelease.from_text(compact(other))
    assert plain.term_names == ("(constant)", "age", "sex[M]")
    assert plain.directions[[0, 2, 1]].tolist() == release.directions.tolist()


def test_a_statistic_that_was_not_asked_is_none() -> None:
    release = score_of(ScoreRequest(["age"], "dead", loss="logistic", directions={"age": [1.0]}, mu=0.5))
    assert release.score is not None
    assert (release.norms, release.meat) == (None, None)
    assert release.noise.sd == {"score": pytest.approx(2.0)}
    assert release.coefficients.tolist() == [0.0, 0.0]
    assert "logistic score of dead ~ age" in str(release)


def test_a_quote_stands_as_it_was_asked() -> None:
    quote = ScoreCurator().client().quote("flchain", ASKED)
    assert isinstance(quote, ScoreQuote)
    assert quote.term_names == ("(constant)", "sex[M]", "age")
    assert quote.directions.tolist() == score_of(ASKED).directions.tolist()
    assert quote.noise == score_of(ASKED).noise
    assert list(quote.noise.sd) == ["score", "norms", "meat_diagonal", "meat_offdiagonal"]
    assert sum(quote.laplace_parts) == pytest.approx(1.0)
    assert "meat, off-diagonal" in str(quote)


def test_a_score_of_something_else_is_refused() -> None:
    release = ScoreRelease.from_text(with_receipt(body_of()))
    for changes, message in (
        ({"features": ["age"], "directions": {"age": [1.0]}, "coefficients": {}}, "other columns"),
        ({"target": "dead"}, "other columns"),
        ({"loss": "poisson"}, "another loss"),
        ({"intercept": False}, "another loss than was asked, or of other terms"),
        ({"statistics": ["score", "norms"]}, "other statistics"),
        ({"coefficients": COEFFICIENTS | {"age": 0.1 + 2.0**-29}}, "other coefficients"),
        ({"norm": 0.9}, "other directions"),
        ({"directions": DIRECTIONS | {"age": [1e-9, 1.0]}}, "other directions"),
    ):
        asked = {"features": ["sex", "age"], "target": "kappa", **OPTIONS, "mu": 0.5} | changes
        with pytest.raises(ServiceError, match=message):
            ScoreRequest(**asked).arrange(release)


def change_request(**members: Any) -> Any:
    return lambda body: body["request"].update(members)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b["statistics"]["score"]["values"].pop(), "array of 2 numbers"),
        (lambda b: b["statistics"]["score"]["values"].__setitem__(0, 1e999), "not JSON|finite"),
        (lambda b: b["statistics"]["score"]["values"].__setitem__(0, True), "array of 2 numbers"),
        (lambda b: b["statistics"]["norms"].update(shape=[12]), "packing 'full'"),
        (lambda b: b["statistics"]["meat"].update(packing="full"), "packing 'upper'"),
        (lambda b: b["statistics"].pop("meat"), "meat is not there"),
        (lambda b: b["noise"]["sd"].update(score=-1.0), "negative"),
        (lambda b: b["noise"].update(distribution="cauchy"), "a law that this version knows"),
        (lambda b: b["terms"].append(b["terms"][1]), "distinct names"),
        (lambda b: b["terms"].clear(), "at most one constant"),
        (lambda b: b["terms"].append({"name": "combination[1]", "kind": "combination"}), "terms of the request"),
        (lambda b: b["terms"][1].update(column="weight"), "listed features"),
        (lambda b: b["target"].update(kind="level", level="M"), "numeric or boolean"),
        (lambda b: b["target"].update(name="age"), "target of the request"),
        (change_request(target="age"), "target of the request"),
        (change_request(loss="hinge"), "loss is not one that this version knows"),
        (change_request(statistics=[]), "statistics that this version knows"),
        (change_request(statistics=["score", "bread"]), "statistics that this version knows"),
        (change_request(directions={"bits": 0, "matrix": {}}), "whole numbers, of one length"),
        (change_request(directions={"bits": 0, "matrix": {"age": [0, 1]}}), "combinations of nothing"),
        (change_request(directions={"bits": 0, "matrix": {"age": [1], "sex[M]": [1, 2]}}), "of one length"),
        (change_request(directions={"bits": 0, "matrix": {"age": [1.5, 2]}}), "whole numbers"),
        (change_request(directions={"bits": 0, "matrix": {"age": [2**36, 2]}}), "whole numbers"),
        (change_request(directions={"bits": 0, "matrix": {"hair": [1, 2]}}), "terms that are listed"),
        (change_request(directions={"bits": 31, "matrix": {"age": [1, 2]}}), "bits is not from 0 to 30"),
        (change_request(directions={"bits": 0, "matrix": {"age": [1, 2, 3]}}), "packing"),
        (change_request(coefficients={"bits": 0, "weights": {"age": "1"}}), "whole numbers"),
        (lambda b: b.pop("columns"), "listed features"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(change: Any, message: str) -> None:
    body = body_of()
    change(body)
    with pytest.raises(ServiceError, match=message):
        ScoreRelease.from_text(json.dumps(body))


# What is shown, and the page


def test_a_release_shows_its_sums_and_norms() -> None:
    shown = " ".join(str(score_of(ASKED)).split())
    assert "Release linear score of kappa ~ sex, age of flchain" in shown
    assert "0.625 to 1" in shown
    assert "In units of the norm to which gradients are clipped" in shown
    assert repr(score_of(ASKED)).startswith("<ScoreRelease rel_1 of 'flchain': linear score of kappa ~ sex, age, eps")


def test_coefficients_that_are_rounded_to_nothing_are_zeros() -> None:
    directions = {"age": [1.0]}
    tiny = ScoreRequest(["age"], "kappa", coefficients={"age": 1e-17}, directions=directions, mu=0.3)
    assert tiny.members == ScoreRequest(["age"], "kappa", directions=directions, mu=0.3).members
