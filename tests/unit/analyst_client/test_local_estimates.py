"""Estimates from local reports: what they are where reports are known, and what they refuse."""

import doctest
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from local_laws import draw_reports

from analyst_client.errors import EstimationError
from analyst_client.local import (
    GradientDescent,
    LInfinitySampler,
    MomentSampler,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    Reports,
    UnaryEncoding,
    answer_linear_queries,
    compare_with_central,
    contingency_table,
    estimate_means,
    estimate_shares,
    linear_regression,
)

SMOKER = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
BOTH = RandomizedResponse({"sex": ["F", "M"], "stage": ["1", "2", "3"]}, epsilon=2)
BITS = UnaryEncoding({"stage": ["1", "2", "3"]}, epsilon=1)
PLACE = PiecewiseMechanism({"age": (20, 120)}, epsilon=2)
VECTOR = LInfinitySampler({"age": (20, 120), "weight": (40, 140)}, epsilon=2)
PRODUCTS = MomentSampler({"age": (20, 120), "dose": (0, 4)}, "dose", epsilon=4)


def reports_of(question: Question, answers: Sequence[int | str]) -> Reports:
    return Reports(question, tuple(map(str, range(len(answers)))), tuple(answers))


def expected_reports(question: Question, chances: dict[int | str, Fraction], n: int) -> Reports:
    """Return reports that are as frequent as they are expected to be, as nearly as n allows."""
    answers = [answer for answer, chance in chances.items() for _ in range(round(n * chance))]
    return reports_of(question, answers)


def test_shares_of_expected_reports_are_the_truth() -> None:
    p, q = SMOKER.law.chances
    found = estimate_shares(
        expected_reports(SMOKER, {1: q + (p - q) * Fraction(3, 10), 0: p - (p - q) * Fraction(3, 10)}, 10**5)
    )
    assert found["yes"].value == pytest.approx(0.3, abs=1e-4)
    assert found["no"].value == pytest.approx(0.7, abs=1e-4)
    assert found["yes"].conf_low < 0.3 < found["yes"].conf_high


def test_shares_of_several_columns_have_those_of_each_level() -> None:
    rng = np.random.default_rng(2)
    found = estimate_shares(draw_reports(BOTH, rng.integers(0, 6, 5_000), rng))
    assert found.heads == ("sex", "stage")
    assert len(found) == 6 + 3 + 2
    assert found["F", "(all)"].value == pytest.approx(sum(found["F", stage].value for stage in "123"))
    assert found["(all)", "2"].value == pytest.approx(found["F", "2"].value + found["M", "2"].value)
    assert found["F", "(all)"].std_error < 3.0**0.5 * found["F", "1"].std_error


def test_shares_of_bits_are_those_of_each_cell() -> None:
    rng = np.random.default_rng(3)
    found = estimate_shares(draw_reports(BITS, np.repeat([0, 1, 1, 2], 5_000), rng))
    assert [one.label for one in found.estimates] == [("1",), ("2",), ("3",)]
    assert [one.value for one in found.estimates] == pytest.approx([0.25, 0.5, 0.25], abs=0.06)


def test_an_interval_ends_within_the_range_and_an_estimate_may_not() -> None:
    low = estimate_shares(reports_of(SMOKER, [0] * 500))["yes"]
    assert low.value < 0.0
    assert (low.conf_low, low.conf_high) == (0.0, 0.0)
    mean = estimate_means(reports_of(VECTOR, ["11"] * 500))["age"]
    assert mean.value > 120.0
    assert (mean.conf_low, mean.conf_high) == (120.0, 120.0)
    place = estimate_means(reports_of(PLACE, [PLACE.law.size - 1] * 50))["age"]
    assert (place.conf_low, place.conf_high) == (120.0, 120.0)


def test_a_table_adds_up_and_its_noise_is_that_of_each_report() -> None:
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(6), [400, 100, 100, 200, 100, 100])
    tables = [contingency_table(draw_reports(BOTH, codes, rng)) for _ in range(400)]
    assert tables[0].total == pytest.approx(1_000.0)
    assert [factor.name for factor in tables[0].factors] == ["sex", "stage"]
    drawn = np.cov([table.values.ravel() for table in tables], rowvar=False)
    stated = np.mean([table.covariance for table in tables], axis=0)
    scale = np.sqrt(np.outer(np.diag(stated), np.diag(stated)))
    assert np.abs((drawn - stated) / scale).max() < 4.5 * math.sqrt(2.0 / 400)
    np.testing.assert_allclose(
        np.mean([table.values.ravel() for table in tables], axis=0), [400, 100, 100, 200, 100, 100], atol=12
    )


def test_means_of_expected_reports_are_the_truth() -> None:
    c = VECTOR.law.shrinkage
    ones = (1 + c * Fraction(1, 2)) / 2
    found = estimate_means(expected_reports(VECTOR, {"10": ones, "01": 1 - ones}, 10**5))
    assert found["age"].value == pytest.approx(95.0, abs=1e-2)
    assert found["weight"].value == pytest.approx(65.0, abs=1e-2)
    start, slope = PLACE.law.line
    assert PLACE.law.size == 1024 + PLACE.law.width
    middle = float(start + slope * 512)
    found = estimate_means(reports_of(PLACE, [math.floor(middle), math.ceil(middle)]))
    assert found["age"].value == pytest.approx(70.0, abs=0.2)


def test_linear_queries_undo_the_response_and_weigh_people() -> None:
    answers = [1, 0, 1, 1]
    p = float(SMOKER.law.chances[0])
    bits = 0.5 + (np.array(answers) - 0.5) / (2.0 * p - 1.0)
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 0.5, -1.0, 0.0]])
    found = answer_linear_queries(reports_of(SMOKER, answers), weights)
    assert [one.value for one in found.estimates] == pytest.approx((weights @ bits).tolist())
    deviation = math.sqrt(p * (1.0 - p)) / (2.0 * p - 1.0)
    assert [one.std_error for one in found.estimates] == pytest.approx([2.0 * deviation, deviation * math.sqrt(1.25)])


def test_a_regression_is_in_raw_units() -> None:
    rng, n = np.random.default_rng(5), 60_000
    age = rng.uniform(-1.0, 1.0, n)
    dose = 0.3 + 0.5 * age
    vectors = np.column_stack([age, dose, 2.0 * age**2 - 1.0, age * dose])
    found = linear_regression(draw_reports(PRODUCTS, vectors, rng))
    # The dose in raw units is 2 + 2 (0.3 + 0.5 (age − 70)/50).
    assert found["age"].value == pytest.approx(0.02, abs=4.0 * found["age"].std_error)
    assert found["(constant)"].value == pytest.approx(1.2, abs=4.0 * found["(constant)"].std_error)
    assert found["age"].std_error < 0.001
    assert found["age"].pvalue < 1e-6


def test_products_stand_where_the_equations_take_them() -> None:
    question = MomentSampler({"a": (-1, 1), "y": (-1, 1), "b": (-1, 1)}, "y", epsilon=20)
    from analyst_client.local.regression import _places

    T, U, A0 = _places(question)
    x, y = {"a": Fraction(1, 2), "b": Fraction(-1, 4)}, Fraction(3, 4)
    m = np.array([float(one) for one in question._vector({"a": x["a"], "y": y, "b": x["b"]})])
    row = np.array([1.0, 0.5, -0.25])
    np.testing.assert_allclose(A0 + T @ m, np.outer(row, row), atol=1e-15)
    np.testing.assert_allclose(U @ m, row * 0.75, atol=1e-15)


def test_a_regression_under_noise_is_refused() -> None:
    rng = np.random.default_rng(6)
    vectors = rng.uniform(-1.0, 1.0, (20, 4))
    with pytest.raises(EstimationError, match="noise hides the moments: their smallest eigenvalue is"):
        linear_regression(draw_reports(PRODUCTS, vectors, rng))


@pytest.mark.parametrize(
    ("estimate", "question", "answers"),
    [
        (estimate_shares, PLACE, [1]),
        (estimate_means, SMOKER, [1]),
        (estimate_means, PRODUCTS, ["1111"]),
        (estimate_means, PLACE, [1]),
        (contingency_table, BITS, ["111"]),
        (linear_regression, VECTOR, ["11"]),
        (linear_regression, PRODUCTS, ["1111"] * 4),
        (lambda reports: answer_linear_queries(reports, [[1.0]]), BOTH, [1]),
        *[(estimate, question, []) for estimate, question in [(estimate_shares, SMOKER), (estimate_means, VECTOR)]],
    ],
)
def test_reports_of_another_question_or_none_are_refused(
    estimate: Callable[[Reports], object], question: Question, answers: list[int | str]
) -> None:
    with pytest.raises(EstimationError):
        estimate(reports_of(question, answers))


@pytest.mark.parametrize("weights", [[1.0, 1.0], [[1.0]], [[[1.0, 1.0]]]])
def test_weights_of_another_shape_are_refused(weights: list[object]) -> None:
    with pytest.raises(ValueError, match="a weight for each of 2 reports"):
        answer_linear_queries(reports_of(SMOKER, [1, 0]), weights)


def test_a_report_of_a_group_says_so() -> None:
    ward = RandomizedResponse({"full": ["no", "yes"]}, epsilon=1, protects="group")
    assert "one group" in estimate_shares(reports_of(ward, [1, 0])).notes[0]


# --- Descent ----------------------------------------------------------------------------------------------------------


def descent_of(**options: object) -> GradientDescent:
    given = {"epsilon": "1/2", "steps": 5, "groups": 2, "chains": 2, **options}
    return GradientDescent({"x": (0, 2), "y": (0, 10)}, "y", **given)  # type: ignore[arg-type]


def test_a_contact_costs_and_groups_are_asked_in_turn() -> None:
    descent, asked = descent_of(), []
    assert (descent.contacts, descent.cost) == (3, Fraction(3, 2))
    while descent.done < descent.steps:
        asked.append(descent.group)
        descent.step([reports_of(question, ["10", "11", "01"]) for question in descent.questions])
    assert asked == [0, 1, 0, 1, 0]
    assert max(map(asked.count, {*asked})) == descent.contacts
    assert descent_of(groups=None).cost == Fraction(1, 2)


def test_every_question_of_a_descent_is_another_one() -> None:
    descent, digests = descent_of(), list[str]()
    for _ in range(descent.steps):
        digests += [question.digest for question in descent.questions]
        descent.step([reports_of(question, ["10", "01"]) for question in descent.questions])  # a step of length 0
    assert len({*digests}) == descent.steps * descent.chains


def test_a_step_goes_against_the_mean_gradient() -> None:
    descent = descent_of(step_length=0.5, clip=2)
    first, second = descent.questions
    descent.step([reports_of(first, ["10", "10"]), reports_of(second, ["01", "01"])])
    length = 0.5 * 2.0 / float(first.law.shrinkage)
    moved = [[float(Fraction(b)) for b in question.coefficients] for question in descent.questions]
    np.testing.assert_allclose(moved, [[-length, length], [length, -length]], atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_descent_ends_near_the_truth(loss: str) -> None:
    rng = np.random.default_rng(7)
    descent = descent_of(loss=loss, steps=60, groups=None, chains=4, epsilon=8, study="s")
    for _ in range(descent.steps):
        reports = []
        for question in descent.questions:
            x = rng.uniform(-1.0, 1.0, 2_000)
            theta = [float(Fraction(b)) for b in question.coefficients]
            fitted = theta[0] + theta[1] * x
            if loss == "squared":
                residual = fitted - (0.1 + 0.4 * x)
            else:
                residual = 1.0 / (1.0 + np.exp(-fitted)) - (rng.random(2_000) < 1.0 / (1.0 + np.exp(-0.5 - x)))
            vectors = np.clip(np.column_stack([residual, residual * x]), -1.0, 1.0)
            reports.append(draw_reports(question, vectors, rng))
        descent.step(reports)
    found = descent.estimate()
    if loss == "squared":  # y = 5 + 5 (0.1 + 0.4 (x − 1)) in raw units
        assert found["x"].value == pytest.approx(2.0, abs=0.3)
        assert found["(constant)"].value == pytest.approx(3.5, abs=0.3)
    else:
        assert found["x"].value == pytest.approx(1.0, abs=0.3)
        assert found["(constant)"].value == pytest.approx(-0.5, abs=0.3)


def test_a_descent_refuses_other_reports_and_an_early_end() -> None:
    descent = descent_of()
    reports = [reports_of(question, ["10"]) for question in descent.questions]
    with pytest.raises(EstimationError, match="0 of 5 steps were taken"):
        descent.estimate()
    for wrong in (reports[:1], reports[::-1], [reports[0], reports_of(VECTOR, ["10"])]):
        with pytest.raises(EstimationError, match="reports of its 2 questions"):
            descent.step(wrong)
    descent.step(reports)
    with pytest.raises(EstimationError, match="reports of its 2 questions"):
        descent.step(reports)  # of the step before
    assert descent.done == 1


@pytest.mark.parametrize("wrong", [{"steps": 1}, {"chains": 1}, {"groups": 0}, {"groups": 6}, {"step_length": 0.0}])
def test_a_descent_that_cannot_end_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="steps and chains are 2 or more"):
        descent_of(**wrong)


# --- Comparison -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "epsilon"), [(100, 1), (10_000, "0.1"), (10_000, 3), (1, 1)])
def test_the_local_way_has_the_lower_bound_from_the_stated_number_on(n: int, epsilon: float | str) -> None:
    start = compare_with_central(n, 1, epsilon).local_from
    assert start is not None
    assert compare_with_central(n, start, epsilon).better == "local"
    assert compare_with_central(n, 10 * start, epsilon).better == "local"
    if start > 1:
        assert compare_with_central(n, start - 1, epsilon).better == "central"


def test_the_start_grows_as_the_root_of_the_people() -> None:
    starts = [compare_with_central(n, 1, 1).local_from or 0 for n in (10**4, 10**6, 10**8)]
    assert all(5.0 < later / sooner < 10.0 for sooner, later in pairwise(starts))


@pytest.mark.parametrize(("n", "k"), [(0, 1), (1, 0), (1, 10**19)])
def test_numbers_beyond_their_range_are_refused(n: int, k: int) -> None:
    with pytest.raises(ValueError, match="n and k are 1 or more"):
        compare_with_central(n, k, 1)


def test_bounds_hold_against_simulation() -> None:
    """Largest errors of both ways stay below the bound as often as it says; the central bound is exact."""
    n, k, repeats, rng = 400, 12, 4_000, np.random.default_rng(8)
    found = compare_with_central(n, k, 1, level=0.9)
    weights = rng.uniform(-1.0, 1.0, (k, n))
    weights[0] = 1.0
    bits = (rng.random(n) < 0.3).astype(float)
    central = np.abs(rng.laplace(0.0, k / n, (repeats, k))).max(axis=1)
    p = float(SMOKER.law.chances[0])
    answers = np.where(rng.random((repeats, n)) < p, bits, 1.0 - bits)
    local = np.abs((0.5 + (answers - 0.5) / (2.0 * p - 1.0) - bits) @ weights.T / n).max(axis=1)
    error = 3.0 * math.sqrt(0.9 * 0.1 / repeats)
    assert np.mean(central <= found.central_error) == pytest.approx(0.9, abs=error)
    assert np.mean(local <= found.local_error) >= 0.9 - error
    assert found.local_error < 3.0 * float(np.quantile(local, 0.9))


def test_a_comparison_is_printed() -> None:
    text = str(compare_with_central(10_000, 100, 1))
    assert "100 queries of 10,000 people, epsilon = 1" in text
    assert "from 61 queries on" in text


def test_the_page_says_what_is_so() -> None:
    page = Path(__file__).parents[3] / "docs" / "local.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted == 13
    assert found.failed == 0
