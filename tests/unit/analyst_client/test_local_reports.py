"""Questions are public values with digests, and files of reports are read line by line, or refused by number."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from analyst_client.errors import EstimationError, ReportInvalidError
from analyst_client.local import (
    GradientSampler,
    LInfinitySampler,
    MomentSampler,
    PiecewiseMechanism,
    Question,
    RandomizedResponse,
    Reports,
    UnaryEncoding,
    read_reports,
)

BOUNDS = {"age": (0, 120), "höhe": ("1/2", 2.5)}
QUESTIONS: list[Question] = [
    RandomizedResponse({"sex": ["F", "M"], "smoker": ["no", "yes"]}, epsilon=0.1, study="µ"),
    UnaryEncoding({"ward": ["a", "b", "c"]}, epsilon="1/3", protects="group"),
    PiecewiseMechanism({"age": (0, 120)}, steps=8, epsilon=2),
    LInfinitySampler(BOUNDS, epsilon=1),
    MomentSampler(BOUNDS, "age", epsilon=1),
    GradientSampler(BOUNDS, "age", coefficients=(0.5, "-1/3"), loss="logistic", clip=2, epsilon=1),
]
RECORD = {"sex": "F", "smoker": "yes", "ward": "c", "age": 71, "höhe": 1.7}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.mechanism)
class TestQuestion:
    def test_it_is_read_back_from_json(self, question: Question) -> None:
        again = Question.from_json(json.loads(json.dumps(question.to_json())))
        assert again == question
        assert hash(again) == hash(question)
        assert again.digest == question.digest

    def test_its_reports_are_small_json(self, question: Question) -> None:
        report = question.report(RECORD)
        assert json.loads(json.dumps(report)) == report
        assert report["question"] == question.digest
        assert len(json.dumps(report)) < 300
        assert len(Reports.collect(question, [report, json.dumps(report), json.dumps(report).encode()])) == 1

    def test_a_member_more_or_less_is_refused(self, question: Question) -> None:
        document = question.to_json()
        for changed in ({**document, "more": 1}, {name: document[name] for name in document if name != "study"}):
            with pytest.raises(ValueError, match="as to_json"):
                Question.from_json(changed)

    @pytest.mark.parametrize("value", [None, 5, [[]], [["a", None]], {}, "text"])
    def test_a_member_of_another_type_is_refused(self, question: Question, value: object) -> None:
        document = question.to_json()
        member = "levels" if "levels" in document else "bounds"
        with pytest.raises(ValueError, match=r"levels|bounds|digits|to_json|unpack|sequence"):
            Question.from_json({**document, member: value})


def test_digests_stay() -> None:
    """Else a keeper would answer a question again that it answered before."""
    found = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1).digest
    assert found == "017c44589c74d101b998bf6e4dc8b3e510be7d0dce436cc1d2c8fe9b6fb6deec"


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": 2},
        {"study": "another"},
        {"protects": "group"},
        {"levels": {"a": ["1", "0"]}},
        {"levels": {"b": ["0", "1"]}},
    ],
)
def test_any_other_declaration_is_another_question(changed: dict[str, Any]) -> None:
    declared: dict[str, Any] = {"levels": {"a": ["0", "1"]}, "epsilon": 1}
    assert RandomizedResponse(**declared | changed).digest != RandomizedResponse(**declared).digest


def test_an_epsilon_has_one_form() -> None:
    written = [0.5, "0.5", "1/2", Fraction(1, 2), "5e-1"]
    assert len({RandomizedResponse({"a": ["0", "1"]}, epsilon=one).digest for one in written}) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomizedResponse({}, epsilon=1),
        lambda: RandomizedResponse({"a": ["0"]}, epsilon=1),
        lambda: RandomizedResponse({"a": ["0", "0"]}, epsilon=1),
        lambda: RandomizedResponse({"a": "01", "b": ["0", "1"]}, epsilon=1),
        lambda: RandomizedResponse({"a": ["0", 1]}, epsilon=1),
        lambda: UnaryEncoding({"a": [str(k) for k in range(1001)]}, epsilon=1),
        lambda: PiecewiseMechanism({"a": (0, 1), "b": (0, 1)}, epsilon=1),
        lambda: PiecewiseMechanism({"a": (0, 1)}, steps=0, epsilon=1),
        lambda: PiecewiseMechanism({"a": (0, 1)}, steps=True, epsilon=1),
        lambda: LInfinitySampler({"a": (1, 1)}, epsilon=1),
        lambda: LInfinitySampler({f"x{j}": (0, 1) for j in range(257)}, epsilon=1),
        lambda: MomentSampler({"a": (0, 1)}, "a", epsilon=1),
        lambda: MomentSampler({"a": (0, 1), "b": (0, 1)}, "c", epsilon=1),
        lambda: GradientSampler({"a": (0, 1), "b": (0, 1)}, "a", coefficients=[1], epsilon=1),
        lambda: GradientSampler({"a": (0, 1), "b": (0, 1)}, "a", coefficients=[1, 1], clip=0, epsilon=1),
        lambda: GradientSampler({"a": (0, 1), "b": (0, 1)}, "a", coefficients=[1, 1], loss="hinge", epsilon=1),
        lambda: RandomizedResponse({"a": ["0", "1"]}, epsilon=1, protects="ward"),
    ],
)
def test_a_declaration_that_breaks_its_rule_is_refused(make: Callable[[], Question]) -> None:
    with pytest.raises(ValueError, match=r"levels|takes|bounds|entries|coefficients|clip|protects"):
        make()


def test_a_record_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="a mapping with the columns age, höhe"):
        LInfinitySampler(BOUNDS, epsilon=1).report({"age": 71})
    with pytest.raises(ValueError, match="a mapping with the columns"):
        LInfinitySampler(BOUNDS, epsilon=1).report(71)


# --- Files ------------------------------------------------------------------------------------------------------------

SMOKER = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
BITS = UnaryEncoding({"smoker": ["no", "yes"]}, epsilon=1)


def line(answer: object, token: object = "0" * 32, question: object = SMOKER.digest) -> bytes:
    return json.dumps({"question": question, "token": token, "answer": answer}).encode() + b"\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_bytes(line(1, "a" * 32) + line(0, "b" * 32) + line(1, "a" * 32) + line(0, "c" * 32).rstrip())
    found = read_reports(path, SMOKER)
    assert found.answers == (1, 0, 0)
    assert found.tokens == ("a" * 32, "b" * 32, "c" * 32)
    assert found.numbers.tolist() == [1.0, 0.0, 0.0]


def test_bits_are_read() -> None:
    lines = [line("10", "a" * 32, BITS.digest), line("11", "b" * 32, BITS.digest)]
    assert Reports.collect(BITS, lines).numbers.tolist() == [[1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (b"\n", "no JSON object"),
        (b"secret\n", "no JSON object"),
        (b'{"secret": 1}\n', "no JSON object"),
        (b'"secret"\n', "no JSON object"),
        (b"\xff\xfesecret\n", "no JSON object"),
        (b"[" * 9_000 + b"\n", "no JSON object"),
        (b"9" * 9_000 + b"\n", "no JSON object"),
        (b'{"secret": "' + b"x" * 20_000 + b'"}\n', "no JSON object"),
        (line(1, question="secret"), "another question"),
        (line(1, question=["secret"]), "another question"),
        (line(1, token="secret"), "32 hexadecimal digits"),
        (line(1, token=7), "32 hexadecimal digits"),
        (line(1, token="b" * 32 + "\n"), "32 hexadecimal digits"),
        (line("secret"), "none of the question's"),
        (line(2), "none of the question's"),
        (line(-1), "none of the question's"),
        (line(True), "none of the question's"),
        (line(1.0), "none of the question's"),
        (line(None), "none of the question's"),
        (line(0, "a" * 32), "stands before with another answer"),
    ],
)
def test_a_wrong_line_is_told_by_its_number_alone(wrong: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    path.write_bytes(line(1, "a" * 32) + wrong + line(0, "c" * 32))
    with pytest.raises(ReportInvalidError, match=f"line 2 is no report of this question: .*{fault}") as caught:
        read_reports(path, SMOKER)
    assert caught.value.line == 2
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("answer", ["1", "111", "1x", "１1", 11, ["1", "1"], "11\n"])
def test_bits_that_are_none_are_refused(answer: object) -> None:
    with pytest.raises(ReportInvalidError, match="line 1"):
        Reports.collect(BITS, [line(answer, question=BITS.digest)])


def test_no_report_tells_nothing() -> None:
    with pytest.raises(EstimationError, match="there is no report"):
        _ = Reports.collect(SMOKER, []).numbers
