"""Marginals: requests, items in the order that was asked, what is made of them, and answers that are refused."""

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from client_examples import compact, with_receipt
from hypothesis import given
from hypothesis import strategies as st
from marginals_examples import MarginalsCurator, answer_body, cohort, marginals_of

from analyst_client import Column, Flat, MarginalsRequest, Moments, Tree
from analyst_client.errors import ServiceError
from analyst_client.kinds import MarginalsQuote, MarginalsRelease
from analyst_client.kinds.counts.laws import combined_quantile
from analyst_client.kinds.marginals.items import Marginal
from analyst_client.kinds.marginals.tree import apply_inverse, cumulative_variances, fit_tree
from analyst_client.terms import col, log

ASKED = MarginalsRequest(
    [Moments(["kappa", "age"]), Tree(["kappa", "age"], levels=6), Flat(["age"], bins=10)],
    mu=0.5,
    shares=[0.2, 0.6, 0.2],
)
NEARLY_EXACT = {"mu": 1e4}
KNOWN = {name: values[~np.isnan(values)] for name, values in cohort().items()}


def body_of(request: MarginalsRequest = ASKED) -> dict[str, Any]:
    return copy.deepcopy(answer_body(request.members, cohort(), np.random.default_rng(1)))


# Requests


def test_a_request_sends_what_was_set() -> None:
    request = MarginalsRequest(
        iter([Tree(iter(["age", "kappa"])), Flat([col("age") + 1], bins=4), Moments(["kappa"])]),
        epsilon=1.0,
        mechanism="laplace",
        where="sex == 'F'",
        shares=(0.5, 0.25, 0.25),
        fresh=True,
        project="kidney",
        reservation="res_1",
    )
    assert json.loads(request.to_json()) == {
        "kind": "marginals",
        "marginals": [
            {"type": "tree", "columns": ["age", "kappa"], "levels": 8},
            {"type": "flat", "columns": [{"add": ["age", 1]}], "bins": 4},
            {"type": "moments", "columns": ["kappa"]},
        ],
        "where": {"in": ["sex", ["F"]]},
        "price": {"epsilon": 1.0},
        "mechanism": "laplace",
        "shares": [0.5, 0.25, 0.25],
        "fresh": True,
        "project": "kidney",
        "reservation": "res_1",
    }
    assert set(MarginalsRequest([Moments(["age"])], mu=0.1).members) == {"kind", "marginals", "price"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: MarginalsRequest(Tree(["age"]), mu=0.1), r"one item is MarginalsRequest\(\[Tree"),
        (lambda: MarginalsRequest([], mu=0.1), "one or more of"),
        (lambda: MarginalsRequest(["age"], mu=0.1), "one or more of"),
        (lambda: MarginalsRequest([Tree(["age", "kappa"]), Tree(["kappa", "age"])], mu=0.1), "charged twice"),
        (lambda: MarginalsRequest([Tree(["age"])], mu=0.1, shares=[0.5, 0.5]), "one number for each item: 1, not 2"),
        (lambda: MarginalsRequest([Tree(["age"])], epsilon=1.0), "state delta"),
        (lambda: Tree("age"), r"one column is Tree\(\['age'\]\)"),
        (lambda: Moments([]), "one or more columns"),
        (lambda: Flat([1.5]), "a name or an expression"),
        (lambda: Flat(["age", "age"]), "a column twice"),
        (lambda: Tree(["age"], levels=15), "levels is a whole number from 1 to 14"),
        (lambda: Tree(["age"], levels=True), "whole number"),
        (lambda: Flat(["age"], bins=1), "bins is a whole number from 2 to 10,000"),
        (lambda: Flat(["age"], bins=2.5), "whole number"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_it_is_sent(made: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()


# Answers in the order that was asked


def test_items_and_columns_stand_as_they_were_asked() -> None:
    release = marginals_of(MarginalsRequest(ASKED.marginals, **NEARLY_EXACT))
    moments, tree, flat = release.marginals
    assert [marginal.title for marginal in release.marginals] == [
        "moments of kappa, age",
        "tree of kappa, age",
        "flat of age",
    ]
    assert [column.name for column in release.columns] == ["kappa", "age"]
    assert moments.values[:, 0] == pytest.approx([len(KNOWN["kappa"]) / 2, 2000.0], abs=0.01)
    assert tree.values.shape == (2, 126)
    assert tree.values[1, :2] == pytest.approx([np.sum(KNOWN["age"] < 75), np.sum(KNOWN["age"] >= 75)], abs=0.01)
    assert flat.values[0] == pytest.approx(np.histogram(KNOWN["age"], 10, (50, 100))[0], abs=0.01)
    assert not tree.values.flags.writeable


def test_a_quote_stands_as_it_was_asked() -> None:
    quote = MarginalsCurator().client().quote("flchain", ASKED)
    assert isinstance(quote, MarginalsQuote)
    assert [item.title for item in quote.marginals] == ["moments of kappa, age", "tree of kappa, age", "flat of age"]
    sds = [quote.noise.sd[item.name] for item in quote.marginals]
    assert sds == pytest.approx([2 * math.sqrt(2 * 1.5 / 0.2), 2 * math.sqrt(2 * 6 / 0.6), 2 * math.sqrt(1 / 0.2)])
    assert [marginal.sd for marginal in marginals_of(ASKED).marginals] == pytest.approx(sds)
    assert "moments of kappa, age" in str(quote)
    assert sum(quote.laplace_parts) == pytest.approx(1.0)


def test_other_items_than_were_asked_are_refused() -> None:
    text = with_receipt(body_of(MarginalsRequest([Tree(["age"], levels=3)], mu=0.3)))
    for other in (Tree(["age"], levels=4), Flat(["age"]), Tree(["kappa"], levels=3), Tree(["age", "kappa"], levels=3)):
        with pytest.raises(ServiceError, match="other marginals than were asked"):
            MarginalsRequest([other], mu=0.3).arrange(MarginalsRelease.from_text(text))
    both = MarginalsRequest([Tree(["age"], levels=3), Moments(["age"])], mu=0.3)
    with pytest.raises(ServiceError, match="more marginals than were asked"):
        MarginalsRequest([Moments(["age"])], mu=0.3).arrange(MarginalsRelease.from_text(with_receipt(body_of(both))))


def test_a_column_that_is_computed_is_found_by_what_it_is_and_by_its_name() -> None:
    body = body_of(MarginalsRequest([Moments(["age"])], **NEARLY_EXACT))
    computed = {"name": "log(age)", "expression": {"log": ["age"]}, "type": "numeric", "unit": None}
    body["derived"] = [computed | {"lower": 3.0, "upper": 5.0, "missing": "complete"}]
    body["marginals"][0]["columns"] = [{"log": ["age"]}]
    body["marginals"].insert(0, body["marginals"][0] | {"name": "marginal_1", "columns": ["age"]})
    body["statistics"]["marginal_1"] = body["statistics"]["marginal_0"]
    body["noise"]["sd"]["marginal_1"] = 1.0
    request = MarginalsRequest([Moments(["age"]), Moments([log("age")])], mu=1.0)
    release = request.arrange(MarginalsRelease.from_text(compact(body)))
    assert [column.name for column in release.columns] == ["age", "log(age)"]
    with pytest.raises(ValueError, match="no column log\\(kappa\\)"):
        release.count(log("kappa"))
    assert release.count(log("age")) == release.count("log(age)")
    assert pickle.loads(pickle.dumps(release)).columns == release.columns


# Answers that are wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b["statistics"]["marginal_0"]["values"].pop(), "array of"),
        (lambda b: b["statistics"]["marginal_0"]["values"].__setitem__(0, 1e999), "finite"),
        (lambda b: b["statistics"]["marginal_0"].update(shape=[9, 1]), "packing 'full'"),
        (lambda b: b["noise"]["sd"].update(marginal_0=-1.0), "negative"),
        (lambda b: b["noise"].update(distribution="cauchy"), "a law that this version knows"),
        (lambda b: b["marginals"].append(b["marginals"][0]), "distinct names"),
        (lambda b: b["marginals"].clear(), "distinct names"),
        (lambda b: b["marginals"][0].update(type="wavelet"), "a type that this version knows"),
        (lambda b: b["marginals"][0].update(columns=["height"]), "one of the listed columns"),
        (lambda b: b["marginals"][0].update(columns=["age", "age"]), "distinct columns"),
        (lambda b: b["marginals"][0].update(columns=[]), "distinct columns"),
        (lambda b: b["marginals"][0].update(levels=60), "levels is not from 1 to 14"),
        (lambda b: b["columns"][0].update(lower=None, upper=None), "numbers with bounds"),
        (lambda b: b["columns"][0].update(type="boolean", levels=["no", "yes"]), "numbers with bounds"),
    ],
)
def test_a_wrong_answer_is_refused_whole(change: Any, message: str) -> None:
    body = body_of(MarginalsRequest([Tree(["age"], levels=3)], mu=0.3))
    change(body)
    with pytest.raises(ServiceError, match=message):
        MarginalsRelease.from_text(compact(body).replace("Infinity", "1e999"))


# What is made of them


def test_each_column_has_its_count_mean_deviation_and_quantiles() -> None:
    release = marginals_of(MarginalsRequest([Moments(["age", "kappa"]), Tree(["age", "kappa"])], **NEARLY_EXACT))
    for name in ("age", "kappa"):
        known = KNOWN[name]
        assert release.count(name).value == pytest.approx(len(known), abs=0.01)
        assert release.mean(name).value == pytest.approx(known.mean(), rel=1e-4)
        assert release.std(name).value == pytest.approx(known.std(), rel=1e-4)
        for estimate, truth in ((release.mean(name), known.mean()), (release.std(name), known.std())):
            assert estimate.high - estimate.low < 0.01
            assert estimate.low == pytest.approx(truth, rel=1e-3)
        quantiles = release.quantiles(name, [0.1, 0.5, 0.9])
        exact = np.quantile(known, [0.1, 0.5, 0.9], method="inverted_cdf")
        assert np.all((quantiles.low <= exact) & (exact <= quantiles.high))
        assert quantiles.value[1] == release.quantiles(name, 0.5).value
        low, high, _ = release.support(name, 0.01)
        assert np.mean(known < low) <= 0.01
        assert np.mean(known > high) <= 0.01
        assert release.histogram(name).values.sum() == pytest.approx(len(known), abs=0.1)
        assert release.histogram(name).edges[0] == release.columns[0 if name == "age" else 1].lower
    assert release.missing("kappa").value == pytest.approx(4000 - len(KNOWN["kappa"]), abs=0.01)
    assert release.missing("age") == (0.0, 0.0, 0.0, 0.95)


def test_bins_alone_tell_a_mean_to_half_a_bin() -> None:
    release = marginals_of(MarginalsRequest([Flat(["kappa"], bins=6)], **NEARLY_EXACT))
    truth = KNOWN["kappa"]
    for estimate, exact in ((release.mean("kappa"), truth.mean()), (release.std("kappa"), truth.std())):
        assert estimate.low <= exact <= estimate.high
        assert estimate.high - estimate.low == pytest.approx(1.0, abs=0.02)


def test_a_population_is_less_certain_than_the_dataset() -> None:
    release = marginals_of(MarginalsRequest([Moments(["age"]), Tree(["age"])], mu=5.0))
    for ask in (release.mean, release.std, lambda column, of: release.quantiles(column, 0.5, of=of)):
        dataset, population = ask("age", of="dataset"), ask("age", of="population")
        assert population.high - population.low > dataset.high - dataset.low
    known = KNOWN["age"]
    low, high = (release.mean("age", of="population")[k] for k in (1, 2))
    assert high - low == pytest.approx(2 * 1.96 * known.std() / math.sqrt(len(known)), rel=0.05)


def test_what_a_release_does_not_have_is_refused() -> None:
    release = marginals_of(MarginalsRequest([Moments(["kappa"])], mu=0.3))
    wrong: list[tuple[Any, str]] = [
        (lambda: release.count("height"), "no column 'height'; it has kappa"),
        (lambda: release.quantiles("kappa", 0.5), "only moments of 'kappa'"),
        (lambda: release.missing("kappa"), "no column here is complete"),
        (lambda: release.mean("kappa", 1.0), "level is the probability"),
        (lambda: release.std("kappa", of="sample"), "'dataset' or 'population'"),
        (lambda: release.recentring("kappa"), "columns is a list"),
        (lambda: release.recentring(col("kappa")), "columns is a list"),
    ]
    tree = marginals_of(MarginalsRequest([Tree(["kappa"])], mu=0.3))
    wrong += [
        (lambda: tree.support("kappa", 0.5), r"tail must be in \(0, 0.5\)"),
        (lambda: tree.quantiles("kappa", [0.5, 1.0]), r"q must be in \(0, 1\)"),
    ]
    for made, message in wrong:
        with pytest.raises(ValueError, match=message):
            made()


def test_noise_that_hides_the_rows_leaves_the_bounds() -> None:
    release = marginals_of(MarginalsRequest([Moments(["age"]), Tree(["age"])], mu=1e-4))
    assert release.mean("age")[1:3] == (50.0, 100.0)
    assert release.std("age")[1:3] == (0.0, 25.0)
    assert release.quantiles("age", 0.5)[1:3] == (50.0, 100.0)
    proposed = release.recentring()["age"]
    assert (proposed.center, proposed.scale, proposed.low, proposed.high) == (75.0, 25.0, 50.0, 100.0)
    assert proposed.source == "bounds"


@pytest.mark.parametrize(("item", "source"), [(Tree, "tree"), (Flat, "flat"), (Moments, "moments")])
def test_a_proposal_is_where_the_column_is(item: Any, source: str) -> None:
    proposed = marginals_of(MarginalsRequest([item(["age", "kappa"])], mu=1.0)).recentring(["kappa"])
    assert set(proposed) == {"kappa"}
    place, known = proposed["kappa"], KNOWN["kappa"]
    assert place.source == source
    assert place.center == pytest.approx(known.mean(), abs=0.15)
    assert place.scale == pytest.approx(known.std(), rel=0.25)
    assert 0.0 <= place.low < np.quantile(known, 0.05)
    assert np.quantile(known, 0.95) < place.high < 6.0
    if source == "moments":
        assert place.high == pytest.approx(place.center + 2.5 * place.scale)


def test_a_proposal_falls_back_on_moments_where_bins_tell_too_little() -> None:
    request = MarginalsRequest([Tree(["age"], levels=12), Moments(["age"])], mu=0.5, shares=[1e-5, 1 - 1e-5])
    assert marginals_of(request).recentring()["age"].source == "moments"


def test_all_items_tell_of_the_count() -> None:
    release = marginals_of(ASKED)
    both = release.count("age")
    alone = [
        marginals_of(MarginalsRequest([item], mu=0.5 * math.sqrt(share))).count("age")
        for item, share in zip(ASKED.items, (0.2, 0.6, 0.2), strict=True)
    ]
    precisions = [1.0 / (one.high - one.low) ** 2 for one in alone]
    assert (both.high - both.low) ** -2 == pytest.approx(sum(precisions), rel=1e-6)


def made(*items: tuple[str, Column, list[float]], sd: float = 1.0) -> MarginalsRelease:
    """Return a release of items of one column each."""
    marginals = tuple(
        Marginal(f"marginal_{i}", kind, (column,), len(values), np.array([values]), sd, False)
        for i, (kind, column, values) in enumerate(items)
    )
    rest: dict[str, Any] = {"created_at": None, "request": {}, "cost": None, "receipt": None}
    return MarginalsRelease(marginals=marginals, text="", id="rel_1", dataset="d", **rest)


A, B = (Column.numeric(name, -1, 1, missing="complete") for name in "ab")
C = Column.numeric("c", -1, 1)


def test_complete_columns_together_tell_how_many_rows_there_are() -> None:
    release = made(("flat", A, [60.0, 42.0]), ("flat", B, [50.0, 48.0]), ("flat", C, [40.0, 50.0]))
    found = release.missing("c")
    assert found.value == pytest.approx(100.0 - 90.0)
    # Each count has the variance 2: of both together 1.
    assert found.high - found.low == pytest.approx(2 * 1.959964 * math.sqrt(1.0 + 2.0), rel=1e-6)
    fewer = made(("flat", A, [40.0, 40.0]), ("flat", C, [40.0, 50.0])).missing("c")
    assert (fewer.value, fewer.low, fewer.high) == (pytest.approx(-10.0), 0.0, 0.0)


def test_moments_of_several_items_are_averaged_by_their_precision() -> None:
    one, other = ("moments", C, [50.0, 20.0, -30.0]), ("moments", C, [52.0, 30.0, -32.0])
    single, both = made(one), made(one, other)
    assert both.count("c").value == pytest.approx(102.0)
    assert both.mean("c").value == pytest.approx(25.0 / 102.0)
    assert both.std("c").value == pytest.approx(math.sqrt(20.0 / 102.0 - (25.0 / 102.0) ** 2), rel=1e-3)
    for name in ("count", "mean"):
        wide, narrow = getattr(single, name)("c"), getattr(both, name)("c")
        assert narrow.high - narrow.low == pytest.approx((wide.high - wide.low) / math.sqrt(2.0), rel=0.05)


def test_moments_are_what_they_are_of() -> None:
    """Half of the rows, Σu, and Σu² less half of the rows, of a column whose bounds are 10 and 30."""
    values = np.array([10.0, 18.0, 20.0, 26.0] * 1000)
    u = (values - 20.0) / 10.0
    release = made(("moments", Column.numeric("x", 10, 30), [len(u) / 2, u.sum(), (u**2).sum() - len(u) / 2]), sd=1e-6)
    assert release.count("x").value == pytest.approx(4000.0)
    assert release.mean("x").value == pytest.approx(values.mean())
    assert release.std("x").value == pytest.approx(values.std())
    # Rounding to the lattice alone is left.
    assert release.mean("x").high - release.mean("x").low == pytest.approx(20.0 * 0.5 / 131_071, rel=0.01)
    assert release.std("x", of="population").value == pytest.approx(values.std(ddof=1))


def test_rows_that_noise_makes_negative_have_no_mean_and_no_deviation() -> None:
    release = made(("moments", C, [-5.0, 3.0, 4.0]))
    for estimate, bounds in ((release.mean("c"), (-1.0, 1.0)), (release.std("c"), (0.0, 1.0))):
        assert math.isnan(estimate.value)
        assert (estimate.low, estimate.high) == bounds
    assert release.count("c") == (-10.0, 0.0, 0.0, 0.95)


def test_a_population_of_which_there_are_three_rows_has_any_deviation() -> None:
    release = made(("moments", C, [1.5, 0.3, -1.0]), sd=1e-9)
    assert release.std("c", of="population")[1:3] == (0.0, 1.0)


def test_a_variance_that_noise_makes_negative_is_a_deviation_of_0() -> None:
    release = made(("moments", C, [500.0, 0.0, -520.0]), sd=5.0)
    value, low, high, _ = release.std("c")
    assert (value, low) == (0.0, 0.0)
    assert high < 0.1
    assert release.recentring()["c"].source == "bounds"


# Least squares of a tree


def adding(levels: int) -> Any:
    """Return how the finest bins add up to those of every level."""
    heights = range(1, levels + 1)
    return np.vstack([np.kron(np.eye(2**k), np.ones((1, 2 ** (levels - k)))) for k in heights])


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_two_passes_are_generalised_least_squares(levels: int, seed: int) -> None:
    H = adding(levels)
    values = np.random.default_rng(seed).normal(0.0, 100.0, (3, len(H)))
    assert fit_tree(values) == pytest.approx(np.linalg.lstsq(H, values.T, rcond=None)[0].T, abs=1e-9)


@pytest.mark.parametrize("levels", [1, 2, 3, 6])
def test_covariances_are_those_of_least_squares(levels: int) -> None:
    H, n = adding(levels), 2**levels
    inverse = np.linalg.inv(H.T @ H)
    assert apply_inverse(np.eye(n)) == pytest.approx(inverse, abs=1e-12)
    for q in (0.05, 0.5):
        forms = np.tril(np.ones((n + 1, n)), -1) - q
        assert cumulative_variances(n, q) == pytest.approx(np.diagonal(forms @ inverse @ forms.T), abs=1e-12)


def test_a_fit_of_what_agrees_is_itself() -> None:
    leaves = np.arange(16.0)
    assert fit_tree(adding(4) @ leaves) == pytest.approx(leaves)


# The law of sums of draws


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6), st.sampled_from([0.1, 0.05, 0.025, 0.005, 0.0005]))
def test_no_sum_of_laplace_draws_has_a_longer_tail(weights: list[float], tail: float) -> None:
    """By inverting the characteristic function of the sum, with a step and a range at which errors are below 1e-6."""
    w = np.array(weights) / np.linalg.norm(weights)
    x = combined_quantile(tail, laplace=True)
    step = 2.0 * math.pi / 80.0
    t = step * (np.arange(40_000) + 0.5)
    phi = np.exp(-np.log1p(np.outer(t**2 / 2.0, w**2)).sum(axis=1))
    exceeding = 0.5 - step / math.pi * np.sum(np.sin(t * x) / t * phi)
    assert exceeding <= tail * 1.001 + 1e-6


# What is shown, and the page


def test_a_release_shows_its_columns() -> None:
    shown = str(marginals_of(ASKED))
    assert "kappa (mg/dL)" in shown
    assert "95% interval" in shown
    assert "Release marginals: moments of kappa, age; tree of kappa, age; flat of age of flchain" in " ".join(
        shown.split()
    )
    assert "[60, 65)" in str(marginals_of(MarginalsRequest([Flat(["age"], bins=10)], mu=0.3)).histogram("age"))
    assert repr(marginals_of(ASKED).histogram("age")).startswith("<Histogram of age: 64 bins, sd ")
    assert repr(marginals_of(ASKED)).startswith("<MarginalsRelease rel_1 of 'flchain': moments of kappa, age; tree")
