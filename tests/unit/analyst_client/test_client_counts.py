"""Counts: requests, tables in the order that was asked, what is made of them, and answers that are refused."""

import copy
import json
from typing import Any

import numpy as np
import pytest
from client_examples import Ledger, compact, with_receipt
from counts_examples import CountsCurator, answer_body, answered, canonical_axis, cohort, count, quote_body, release_of

from analyst_client import Axis, CountsRequest
from analyst_client.errors import ServiceError
from analyst_client.kinds import CountsQuote, CountsRelease
from analyst_client.kinds.counts import consistency
from analyst_client.schema.wire import Fields

AGE = Axis("age", edges=[50, 60, 70, 100])
KAPPA = Axis("kappa", bins=6, missing=True)
ASKED = CountsRequest(["sex", [AGE, "sex"], KAPPA, Axis("age", bins=5)], mu=0.3, shares=[0.1, 0.5, 0.2, 0.2])
NEARLY_EXACT = {"mu": 1e4}


def exact(*axes: str | Axis) -> Any:
    listed = [axis if isinstance(axis, Axis) else Axis(axis) for axis in axes]
    return count(cohort(), [canonical_axis(axis.members) for axis in listed])


def body_of(request: CountsRequest = ASKED) -> dict[str, Any]:
    return copy.deepcopy(answer_body(request.members, cohort(), np.random.default_rng(1)))


# Requests


def test_a_request_sends_what_was_set() -> None:
    request = CountsRequest(
        ["sex", ["dead", Axis("age", edges=iter([50, 75, 100]))], KAPPA],
        epsilon=1.0,
        mechanism="laplace",
        shares=(0.5, 0.25, 0.25),
        fresh=True,
        project="kidney",
        reservation="res_1",
    )
    assert json.loads(request.to_json()) == {
        "kind": "counts",
        "tables": [
            {"axes": [{"column": "sex"}]},
            {"axes": [{"column": "dead"}, {"column": "age", "edges": [50.0, 75.0, 100.0]}]},
            {"axes": [{"column": "kappa", "bins": 6, "missing": True}]},
        ],
        "price": {"epsilon": 1.0},
        "mechanism": "laplace",
        "shares": [0.5, 0.25, 0.25],
        "fresh": True,
        "project": "kidney",
        "reservation": "res_1",
    }
    assert set(CountsRequest(iter(["sex"]), mu=0.1).members) == {"kind", "tables", "price"}


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        ("sex", {}, r"one table is CountsRequest\(\['sex'\], …\)"),
        (AGE, {}, "tables is a list"),
        ([], {}, "at least one table"),
        ([[]], {}, "one to 3 axes"),
        ([["sex", "dead", AGE, KAPPA]], {}, "one to 3 axes"),
        ([["sex", "sex"]], {}, "each of another column"),
        ([["sex", AGE], [AGE, "sex"]], {}, "the same axes"),
        ([[1.5]], {}, "name of one column"),
        (["sex"], {"shares": [0.5, 0.5]}, "one number for each table: 1, not 2"),
        (["sex"], {"epsilon": 1.0}, "state one cost"),
        (["sex"], {"mu": None, "epsilon": 1.0}, "state delta beside epsilon"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_it_is_sent(
    tables: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CountsRequest(tables, **{"mu": 0.2} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": [1, 2], "bins": 1}, "not both"),
        ({"edges": [1]}, "at least two"),
        ({"edges": [1, 1]}, "increase"),
        ({"edges": [1, float("nan")]}, "increase"),
        ({"edges": [1, float("inf")]}, "finite"),
        ({"bins": 0}, "at least 1"),
        ({"bins": 2.5}, "whole number"),
    ],
)
def test_an_axis_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Axis("age", **options)


# Answers in the order that was asked


def test_tables_and_axes_stand_as_they_were_asked() -> None:
    request = CountsRequest(ASKED.tables, **NEARLY_EXACT)
    first, second, third, fourth = release_of(request).tables
    assert [axis.name for axis in second.axes] == ["age", "sex"]
    assert np.allclose(first.values, exact("sex"), atol=0.01)
    assert np.allclose(second.values, exact(AGE, "sex"), atol=0.01)
    assert np.allclose(third.values, exact(KAPPA), atol=0.01)
    assert np.allclose(fourth.values, exact(Axis("age", bins=5)), atol=0.01)
    assert third.axes[0].labels[-2:] == ("[5, 6]", "(missing)")
    assert not np.any(np.diff(exact(AGE, "sex")) == 0.0)  # or an order could be mistaken for the other
    assert not second.values.flags.writeable


def test_a_quote_stands_as_it_was_asked() -> None:
    quote = CountsCurator().client().quote("flchain", ASKED)
    assert isinstance(quote, CountsQuote)
    assert [shape.title for shape in quote.tables] == ["sex", "age × sex", "kappa", "age"]
    sds = [quote.noise.sd[shape.name] for shape in quote.tables]
    assert sds == pytest.approx([1.0 / (0.3 * share**0.5) for share in (0.1, 0.5, 0.2, 0.2)])
    released = release_of(ASKED).tables
    assert [counts.draw_sd for counts in released] == pytest.approx(sds)


def test_edges_that_are_almost_equal_bins_are_not_taken_for_them() -> None:
    uneven = Axis("age", edges=[50.0, 74.99, 100.0])
    for tables in ([Axis("age", bins=2), uneven], [uneven, Axis("age", bins=2)]):
        released = release_of(CountsRequest(tables, **NEARLY_EXACT)).tables
        for axis, counts in zip(tables, released, strict=True):
            assert counts.axes[0].edges == (uneven.edges if axis is uneven else (50.0, 75.0, 100.0))


def test_other_tables_than_were_asked_are_refused() -> None:
    for other in (
        ["sex"],
        ["sex", "dead"],
        ["sex", ["sex", "dead"]],
        ["sex", Axis("dead", missing=True)],
        ["sex", Axis("age", bins=3)],
    ):
        text = with_receipt(body_of(CountsRequest(other, mu=0.3)))
        for asked in (["sex", Axis("age", bins=4)], ["dead"], ["dead", Axis("sex", missing=True)]):
            with pytest.raises(ServiceError, match=r"(other|more) tables than were asked"):
                CountsRequest(asked, mu=0.3).arrange(CountsRelease.from_text(text))
    with pytest.raises(ServiceError, match="more tables than were asked"):
        CountsRequest(["sex"], mu=0.3).arrange(
            CountsRelease.from_text(with_receipt(body_of(CountsRequest(["sex", "dead"], mu=0.3))))
        )


# Answers that are wrong


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b["statistics"]["table_0"]["values"].pop(), "array of"),
        (lambda b: b["statistics"]["table_0"]["values"].__setitem__(0, 1e999), "finite"),
        (lambda b: b["statistics"]["table_0"]["values"].__setitem__(0, True), "array of"),
        (lambda b: b["statistics"]["table_0"].update(shape=[9]), "packing 'full'"),
        (lambda b: b["statistics"]["table_0"].update(packing="upper"), "packing 'full'"),
        (lambda b: b["statistics"]["table_0"].update(draws=[1]), "array of"),
        (lambda b: b["statistics"]["table_0"].update(draws=[0] * 2), "array of|positive integers"),
        (lambda b: b["noise"]["sd"].update(table_0=-1.0), "negative"),
        (lambda b: b["noise"].update(distribution="cauchy"), "a law that this version knows"),
        (lambda b: b["tables"].append(b["tables"][0]), "distinct names"),
        (lambda b: b["tables"][0]["axes"].append(b["tables"][0]["axes"][0]), "distinct columns"),
        (lambda b: b["tables"][0]["axes"][0].update(column="height"), "one of the listed columns"),
        (lambda b: b["tables"][0]["axes"][0].update(edges=[50.0, 40.0]), "increase"),
        (lambda b: b["tables"][0]["axes"][0].update(edges=["a", "b"]), "not a number"),
        (lambda b: b["tables"][-1]["axes"][0].update(cells=["M", "F"]), "the levels of the column"),
    ],
)
def test_a_wrong_answer_is_refused_whole(change: Any, message: str) -> None:
    body = body_of(CountsRequest([AGE, "sex"], mu=0.3))
    change(body)
    with pytest.raises(ServiceError, match=message):
        CountsRelease.from_text(compact(body).replace("Infinity", "1e999"))


def test_a_quote_of_an_unknown_law_is_refused() -> None:
    body = quote_body(ASKED.members)
    body["noise"]["distribution"] = "cauchy"
    with pytest.raises(ServiceError, match="a law that this version knows"):
        CountsQuote.read(Fields(body))


# What is made of tables


def test_a_margin_adds_up_cells_and_their_noise() -> None:
    (counts,) = release_of(CountsRequest([["sex", AGE, KAPPA]], mu=0.3)).tables
    margin = counts.margin("kappa", "sex")
    assert margin.shape == (7, 2)
    assert np.allclose(margin.values, counts.values.sum(axis=1).T)
    assert np.all(margin.draws == 3)
    assert np.allclose(margin.sd, counts.sd[0, 0, 0] * 3**0.5)
    assert counts.total() == (pytest.approx(counts.values.sum()), *counts.margin().interval(), 0.95)
    for wrong, message in ((("height",), "no column 'height'; it has sex, age, kappa"), (("sex", "sex"), "once")):
        with pytest.raises(ValueError, match=message):
            counts.margin(*wrong)


def test_draws_of_a_derived_answer_scale_the_noise() -> None:
    body = body_of(CountsRequest(["sex"], mu=0.3))
    body["statistics"]["table_0"]["draws"] = [4, 16]
    body["noise"]["sd"]["table_0"] = 8.0
    (counts,) = CountsRelease.from_text(compact(body)).tables
    assert counts.sd.tolist() == [4.0, 8.0]
    (low, high), _ = counts.interval()
    assert high - low == pytest.approx(2 * 1.959964 * 4.0)


def test_a_quantile_is_within_its_bin_and_leaves_out_what_is_missing() -> None:
    request = CountsRequest([["sex", Axis("kappa", bins=60, missing=True)]], **NEARLY_EXACT)
    (counts,) = release_of(request).tables
    known = cohort()["kappa"][~np.isnan(cohort()["kappa"])]
    for q in (0.1, 0.5, 0.9):
        value, low, high, _ = counts.quantile("kappa", q)
        assert low <= np.quantile(known, q, method="inverted_cdf") <= high
        assert value == pytest.approx(np.quantile(known, q), abs=0.05)
        assert high - low == pytest.approx(0.1)
    assert counts.median("kappa") == counts.quantile("kappa", 0.5)
    for column, q, message in (("sex", 0.5, "only a numeric column"), ("kappa", 1.0, r"within|in \(0, 1\)")):
        with pytest.raises(ValueError, match=message):
            counts.quantile(column, q)


def test_proportions_are_of_the_dataset_or_the_population() -> None:
    (counts,) = release_of(CountsRequest(["sex"], **NEARLY_EXACT)).tables
    value, low, high, _ = counts.proportions()
    assert value == pytest.approx(exact("sex") / 4000, abs=1e-4)
    assert np.all(high - low < 1e-4)
    share, n, z2 = value[0], 4000, 1.959964**2
    _, low, high, _ = counts.proportions(of="population")
    wilson = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = 1.959964 / (1 + z2 / n) * (share * (1 - share) / n + z2 / (4 * n**2)) ** 0.5
    assert (low[0], high[0]) == pytest.approx((wilson - half, wilson + half), abs=1e-5)
    with pytest.raises(ValueError, match="'dataset' or 'population'"):
        counts.proportions(of="sample")


# Consistent counts


def test_consistent_counts_are_least_squares_where_nothing_is_negative() -> None:
    """Two levels, told directly and by a table of them and age: the margins are averaged by their variances."""
    release = release_of(CountsRequest(["sex", ["sex", AGE]], mu=0.3, shares=[0.2, 0.8]))
    raw, table = release.tables
    once, cells = release.consistent()
    own, other = 1.0 / raw.draw_sd**2, 1.0 / (3.0 * table.draw_sd**2)
    joint = (own * raw.values + other * table.values.sum(axis=1)) / (own + other)
    assert once == pytest.approx(joint, rel=1e-6)
    assert cells.sum(axis=1) == pytest.approx(once, rel=1e-9)
    assert cells == pytest.approx(table.values + (joint - table.values.sum(axis=1))[:, None] / 3.0, rel=1e-5)


def test_consistent_counts_are_not_negative_and_nearer_to_the_exact_ones() -> None:
    request = CountsRequest([["sex", "dead"], ["dead", Axis("kappa", bins=12, missing=True)], ["sex", AGE]], mu=0.02)
    release = release_of(request, rows=cohort(800))
    raw = fitted = 0.0
    for axes, counts, values in zip(request.axes, release.tables, release.consistent(), strict=True):
        assert values.min() >= 0.0
        truth = count(cohort(800), [canonical_axis(axis.members) for axis in axes])
        raw += float(np.sum((counts.values - truth) ** 2))
        fitted += float(np.sum((values - truth) ** 2))
    assert min(counts.values.min() for counts in release.tables) < 0.0
    assert fitted < 0.8 * raw


def test_consistent_tables_differ_by_what_an_axis_leaves_out() -> None:
    """Rows that miss kappa, or lie outside of its edges, are in no cell of its table: it says less of sex than sex."""
    for part in (Axis("kappa", edges=[1.0, 2.0]), Axis("age", edges=[60.0, 80.0])):  # no row misses its age
        release = release_of(CountsRequest(["sex", ["sex", part]], **NEARLY_EXACT))
        sex, both = release.consistent()
        assert sex == pytest.approx(exact("sex"), abs=0.05)
        assert both == pytest.approx(exact("sex", part), abs=0.05)
        assert both.sum() < sex.sum()


def test_coarse_and_fine_edges_of_a_column_agree() -> None:
    release = release_of(CountsRequest([Axis("age", bins=2), Axis("age", bins=10)], mu=0.05))
    coarse, fine = release.consistent()
    assert coarse == pytest.approx([fine[:5].sum(), fine[5:].sum()], rel=1e-9)


def test_tables_without_a_shared_column_are_fitted_apart() -> None:
    release = release_of(CountsRequest(["sex", "dead"], mu=0.3))
    for counts, values in zip(release.tables, release.consistent(), strict=True):
        assert values == pytest.approx(counts.values, rel=1e-6)


def test_joint_cells_that_are_too_many_are_not_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consistency, "CELLS_MAX", 23)
    assert len(release_of(CountsRequest(["sex", Axis("age", bins=12)], mu=0.3)).consistent()) == 2
    with pytest.raises(ValueError, match="the tables have 24 joint cells, and at most 23 are solved for"):
        release_of(CountsRequest(["sex", ["sex", Axis("age", bins=12)]], mu=0.3)).consistent()


# Answers of a curator that counts


def test_the_example_is_an_answer_that_verifies() -> None:
    text = Ledger().release(body_of())
    assert answered(text).status_code == 201
    assert CountsRelease.from_text(text).verify()
