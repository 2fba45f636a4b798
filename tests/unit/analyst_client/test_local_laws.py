"""Local mechanisms have the laws that docs/local.md proves: each sequence of their source is run through, in fractions.

Weights of a real ε are too large for that; odds of 3, 3/2 and 9 take their place, and the code is the same.
"""

import ast
import math
import secrets
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_laws import draw_reports, exact_law, largest_ratio

import analyst_client.local
from analyst_client.local import (
    GradientSampler,
    LInfinitySampler,
    MomentSampler,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    UnaryEncoding,
    exact,
    questions,
)
from analyst_client.local.exact import SOURCE, exp_below, logistic, odds_within, pick_places, read_value
from analyst_client.local.mechanisms import Corners, Kary, Unary, Window

ODDS = [Fraction(3), Fraction(3, 2), Fraction(9)]
ORACLE = mpmath.MPContext()
ORACLE.prec = 600


def cube(d: int) -> list[tuple[bool, ...]]:
    return list(product([False, True], repeat=d))


def signs(bits: str) -> list[int]:
    return [1 if bit == "1" else -1 for bit in bits]


@pytest.fixture(params=ODDS, ids=str)
def odds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fraction:
    """Let every question have odds that are small whole numbers."""
    monkeypatch.setattr(questions, "odds_within", lambda epsilon: request.param)
    return request.param


# --- Odds below e^ε ---------------------------------------------------------------------------------------------------


@given(st.fractions(Fraction(1, 1000), 20, max_denominator=10**6))
def test_odds_are_at_most_the_exponential_and_near_it(epsilon: Fraction) -> None:
    odds = odds_within(epsilon)
    allowed = ORACLE.exp(ORACLE.mpf(epsilon.numerator) / epsilon.denominator)
    exceeding = ORACLE.mpf(odds.numerator) / odds.denominator / allowed - 1
    assert -(ORACLE.mpf(2) ** -60) < exceeding < 0
    assert odds > 1


@given(st.fractions(-30, 30, max_denominator=10**6))
def test_the_logistic_function_is_a_share_and_near(x: Fraction) -> None:
    share = logistic(x)
    assert 0 < share < 1
    assert float(share) == pytest.approx(1.0 / (1.0 + math.exp(-min(max(x, -20), 20))), abs=2**-15)
    assert share + logistic(-x) == 1 or x == 0


def test_an_exponential_of_nothing_is_one() -> None:
    assert exp_below(Fraction(0)) == 2**exact.BITS


# --- Laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odds", ODDS, ids=str)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_randomized_response(size: int, odds: Fraction) -> None:
    law = Kary(size, odds)
    laws = [exact_law(lambda below, code=code: law.draw(code, below)) for code in range(size)]
    p, q = law.chances
    assert laws == [{j: p if j == code else q for j in range(size)} for code in range(size)]
    assert largest_ratio(laws) == odds


@pytest.mark.parametrize("odds", ODDS, ids=str)
@pytest.mark.parametrize("size", [2, 3])
def test_unary_encoding(size: int, odds: Fraction) -> None:
    law = Unary(size, odds)
    laws = [exact_law(lambda below, code=code: law.draw(code, below)) for code in range(size)]
    assert largest_ratio(laws) == odds
    own, other = law.chances
    for code, found in enumerate(laws):
        shares = [sum(chance for bits, chance in found.items() if bits[j] == "1") for j in range(size)]
        assert shares == [own if j == code else other for j in range(size)]


@pytest.mark.parametrize("odds", ODDS, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 5, 8])
def test_the_piecewise_mechanism(steps: int, odds: Fraction) -> None:
    law = Window(steps, odds)
    laws = [exact_law(lambda below, code=code: law.draw(code, below)) for code in range(steps + 1)]
    assert largest_ratio(laws) == odds
    start, slope = law.line
    means = [sum(answer * chance for answer, chance in found.items()) for found in laws]
    assert means == [start + slope * code for code in range(steps + 1)]
    assert all({*found} == {*range(law.size)} for found in laws)


@pytest.mark.parametrize("odds", ODDS, ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_sampler_of_corners(d: int, odds: Fraction) -> None:
    law = Corners(d, odds)
    laws = {corner: exact_law(lambda below, corner=corner: law.draw(corner, below)) for corner in cube(d)}
    assert largest_ratio(list(laws.values())) == odds
    weights = law.weights(law.near)
    for corner, found in laws.items():
        sides = [1 if bit else -1 for bit in corner]
        means = [sum(signs(bits)[j] * chance for bits, chance in found.items()) for j in range(d)]
        assert means == [law.shrinkage * side for side in sides]
        for bits, chance in found.items():
            agreements = sum(a == b for a, b in zip(signs(bits), sides, strict=True))
            assert chance == Fraction(weights[agreements], math.comb(d, agreements) * sum(weights))


def as_printed(d: int, odds: Fraction) -> tuple[Fraction, Fraction]:
    """Return the largest ratio, and how far the mean shrinks, where corners on the border count to both halves."""
    both = math.comb(d, d // 2) if d % 2 == 0 else 0
    half = Fraction(2**d + both, 2)
    near = odds / (1 + odds)
    chances = {z: near * (sum(z) >= 0) / half + (1 - near) * (sum(z) <= 0) / half for z in product([1, -1], repeat=d)}
    assert sum(chances.values()) == 1
    ratio = max(chances.values()) / min(chances.values())
    return ratio, sum((z[0] * chance for z, chance in chances.items()), start=Fraction(0))


@pytest.mark.parametrize("odds", ODDS, ids=str)
@pytest.mark.parametrize("d", range(1, 9))
def test_the_printed_sampler_breaks_its_epsilon_in_even_dimensions_alone(d: int, odds: Fraction) -> None:
    ratio, shrinkage = as_printed(d, odds)
    assert ratio == (odds if d % 2 else odds + 1)
    if d % 2:  # and where it is right, this one has no more noise
        assert Corners(d, odds).shrinkage >= shrinkage
        majority = Corners(d, odds)._shrinkage((d + 1) // 2)
        assert majority == shrinkage


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("d", [1, 2, 7, 40, 256])
def test_the_sampler_has_weights_of_two_sizes_for_any_epsilon(d: int, epsilon: Fraction) -> None:
    law = Corners(d, odds_within(epsilon))
    each = {Fraction(weight, math.comb(d, j)) for j, weight in enumerate(law.weights(law.near))}
    assert max(each) / min(each) == law.odds
    assert 0 < law.shrinkage <= 1
    assert all(law.shrinkage >= law._shrinkage(near) for near in range(1, d + 1))


def test_places_are_drawn_evenly() -> None:
    found = exact_law(lambda below: frozenset(pick_places(2, 4, below)))
    assert {*found.values()} == {Fraction(1, 6)}
    assert len(found) == 6


def test_the_number_of_draws_does_not_tell_how_many_places_agree() -> None:
    asked: list[int] = []
    for count in range(4):
        calls: list[int] = []
        pick_places(count, 4, lambda n, calls=calls: calls.append(n) or 0)
        asked.append(len(calls))
    assert len({*asked}) == 1


# --- From a record to an answer ---------------------------------------------------------------------------------------

RECORDS = [0, 3, Fraction(7, 3), 6, 99, -99, None, float("nan"), float("inf")]
IN_BOUNDS = [0, 3, Fraction(7, 3), 6, 6, 0, 3, 3, 6]


def answer_law(question: Question, record: Any) -> dict[int | str, Fraction]:
    return exact_law(lambda below: question.report(record, below)["answer"])


def test_a_number_by_the_piecewise_mechanism_is_right_on_average(odds: Fraction) -> None:
    question = PiecewiseMechanism({"x": (0, 6)}, steps=4, epsilon=1)
    laws = [answer_law(question, record) for record in RECORDS]
    assert largest_ratio(laws) == odds
    start, slope = question.law.line
    for found, value in zip(laws, IN_BOUNDS, strict=True):
        mean = sum(int(answer) * chance for answer, chance in found.items())
        assert 6 * (mean - start) / (slope * question.steps) == value


def test_a_number_by_the_two_valued_mechanism_is_right_on_average(odds: Fraction) -> None:
    question = LInfinitySampler({"x": (0, 6)}, epsilon=1)
    laws = [answer_law(question, record) for record in RECORDS]
    assert largest_ratio(laws) == odds
    assert question.law.shrinkage == (odds - 1) / (odds + 1)  # as Duchi, Jordan and Wainwright have it
    for found, value in zip(laws, IN_BOUNDS, strict=True):
        mean = (found["1"] - found["0"]) / question.law.shrinkage
        assert 3 + 3 * mean == value


@pytest.mark.parametrize("d", [2, 3])
def test_a_vector_is_right_on_average(d: int, odds: Fraction) -> None:
    question = LInfinitySampler({f"x{j}": (-1, 1) for j in range(d)}, epsilon=1)
    laws = []
    for values in [(-1,) * d, (0, Fraction(1, 2), 5)[:d], (5, -1, 0)[:d], (1,) * d]:
        found = answer_law(question, {f"x{j}": value for j, value in enumerate(values)})
        means = [sum(signs(str(bits))[j] * chance for bits, chance in found.items()) for j in range(d)]
        assert [mean / question.law.shrinkage for mean in means] == [min(value, 1) for value in values]
        laws.append(found)
    assert largest_ratio(laws) == odds


@pytest.mark.parametrize("odds", [Fraction(3)], ids=str, indirect=True)
def test_products_are_right_on_average(odds: Fraction) -> None:
    question = MomentSampler({"x": (0, 4), "y": (-1, 1)}, "y", epsilon=1)
    assert question.entries == (("x",), ("y",), ("x", "x"), ("x", "y"))
    laws = []
    for x, y in [(0, 1), (4, -1), (3, 1)]:
        found = answer_law(question, {"x": x, "y": y})
        scaled = Fraction(x, 2) - 1
        means = [sum(signs(str(bits))[j] * chance for bits, chance in found.items()) for j in range(4)]
        expected = [scaled, y, 2 * scaled**2 - 1, scaled * y]
        assert [mean / question.law.shrinkage for mean in means] == expected
        laws.append(found)
    assert largest_ratio(laws) <= odds


@pytest.mark.parametrize("clip", [1, Fraction(1, 2)])
def test_a_gradient_is_right_on_average_where_it_is_not_cut(clip: Fraction, odds: Fraction) -> None:
    question = GradientSampler({"x": (-1, 1), "y": (-1, 1)}, "y", coefficients=["1/4", 0], clip=clip, epsilon=1)
    laws = []
    for x, y in [(-1, 1), (1, -1), (Fraction(1, 2), 0), (0, Fraction(1, 4))]:
        found = answer_law(question, {"x": x, "y": y})
        means = [sum(signs(str(bits))[j] * chance for bits, chance in found.items()) for j in range(2)]
        gradient = [(Fraction(1, 4) - y), (Fraction(1, 4) - y) * x]
        cut = [min(max(entry, -clip), clip) for entry in gradient]
        assert [mean * clip / question.law.shrinkage for mean in means] == cut
        laws.append(found)
    assert largest_ratio(laws) <= odds


def test_a_logistic_gradient_is_never_cut() -> None:
    question = GradientSampler({"x": (-1, 1), "y": (0, 1)}, "y", coefficients=[50, -99], loss="logistic", epsilon=1)
    for x, y in product([-1, 0, 1], [0, 1]):
        vector = question._vector(question._scaled({"x": x, "y": y}))
        share = 1.0 / (1.0 + math.exp(-min(max(50 - 99 * x, -20), 20)))
        assert [float(entry) for entry in vector] == pytest.approx([share - y, (share - y) * x], abs=1e-4)
        assert all(-1 < entry < 1 for entry in vector)


def test_cells_of_several_columns_are_all_combinations(odds: Fraction) -> None:
    question = RandomizedResponse({"sex": ["F", "M"], "smoker": ["no", "yes"]}, epsilon=1)
    laws = [answer_law(question, {"sex": sex, "smoker": smoker}) for sex, smoker in product("FM", ["no", "yes"])]
    assert [max(found, key=lambda answer: found[answer]) for found in laws] == [0, 1, 2, 3]
    assert largest_ratio(laws) == odds
    assert answer_law(question, {"sex": None, "smoker": "yes"}) == laws[1]
    unary = UnaryEncoding({"sex": ["F", "M"]}, epsilon=1)
    assert largest_ratio([answer_law(unary, sex) for sex in ("F", "M", None)]) == odds


# --- Numbers without floats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "exact_value"),
    [
        (np.int64(2**62), 5),
        (np.float64(0.1), Fraction(0.1)),
        (np.float32(0.5), Fraction(1, 2)),
        (True, 1),
        (Decimal("0.1"), Fraction(1, 10)),
        (Decimal("-Infinity"), -5),
        (Decimal("NaN"), 0),
        (5e-324, Fraction(5e-324)),
        (np.float64("-inf"), -5),
        (-0.0, 0),
    ],
)
def test_a_value_is_the_fraction_that_it_is(value: Any, exact_value: Fraction) -> None:
    found = read_value(value, Fraction(-5), Fraction(5))
    assert found == exact_value
    assert type(found.numerator) is int


@pytest.mark.parametrize("value", ["7", [1], 1j, object(), b"1"])
def test_what_is_no_number_is_refused_without_being_shown(value: Any) -> None:
    with pytest.raises(ValueError, match="a value of a numeric column is a number") as caught:
        read_value(value, Fraction(0), Fraction(5))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["exact", "mechanisms", "questions", "vectors"])
def test_no_float_stands_between_a_record_and_its_report(name: str) -> None:
    tree = ast.parse(Path(analyst_client.local.__path__[0], f"{name}.py").read_text(encoding="utf-8"))
    floats = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    called = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"float", "math.exp", "round", "random"}
    ]
    # A number of numpy becomes Python's of the same value; `round` of a fraction is a whole number.
    allowed = ["float(value)", "round(min(abs(x), Fraction(20)) * 2 ** 16)"] if name == "exact" else []
    assert (floats, sorted(called)) == ([], allowed)


def test_the_source_is_the_systems() -> None:
    assert SOURCE is secrets.randbelow
    answers = {RandomizedResponse({"a": ["0", "1"]}, epsilon="0.001").report("0")["answer"] for _ in range(60)}
    assert answers == {0, 1}


@pytest.mark.parametrize("epsilon", [0, "1/2000", 21, "0.0000001", -1])
def test_an_epsilon_beyond_its_range_is_refused(epsilon: Any) -> None:
    with pytest.raises(ValueError, match=r"from 0\.001 to 20"):
        RandomizedResponse({"a": ["0", "1"]}, epsilon=epsilon)


@pytest.mark.parametrize(
    "epsilon", [True, float("nan"), float("inf"), "1 ", "１", "1_0", "9" * 19, "1/0", "1e999", None]
)
def test_an_epsilon_that_is_no_short_number_is_refused(epsilon: Any) -> None:
    with pytest.raises(ValueError, match="at most 18 digits"):
        RandomizedResponse({"a": ["0", "1"]}, epsilon=epsilon)


def test_fast_draws_of_tests_have_the_law_of_the_product(odds: Fraction) -> None:
    rng, n = np.random.default_rng(1), 40_000
    kary, unary = (kind({"a": ["0", "1", "2"]}, epsilon=1) for kind in (RandomizedResponse, UnaryEncoding))
    window = PiecewiseMechanism({"x": (0, 4)}, steps=4, epsilon=1)
    corner = LInfinitySampler({"x": (-1, 1), "y": (-1, 1)}, epsilon=1)
    for question, code, record in [
        (kary, np.full(n, 1), "1"),
        (unary, np.full(n, 1), "1"),
        (window, np.full(n, 1), 1),
        (corner, np.tile([0.5, -1.0], (n, 1)), {"x": 0.5, "y": -1}),
    ]:
        law = answer_law(question, record)
        counts = dict.fromkeys(law, 0)
        for answer in draw_reports(question, code, rng).answers:
            counts[answer] += 1
        statistic = sum((counts[one] - n * float(chance)) ** 2 / (n * float(chance)) for one, chance in law.items())
        assert statistic < len(law) + 6.0 * math.sqrt(2.0 * len(law))


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 3, 5])
def test_windows_have_the_length_of_those_on_the_line(epsilon: Fraction) -> None:
    law = Window(1024, odds_within(Fraction(epsilon)))
    assert law.width / law.size == pytest.approx(1.0 / (math.exp(epsilon / 2.0) + 1.0), abs=1e-3)
