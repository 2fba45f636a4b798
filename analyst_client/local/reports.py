"""Reports of one question, read from a file and checked: no server is needed."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analyst_client.arrays import FloatArray
from analyst_client.errors import EstimationError, ReportInvalidError
from analyst_client.local.questions import Question

LINE_MAX = 10_000
_TOKEN = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Reports:
    """Reports of one question, each person's or group's once.

    Attributes
    ----------
    question : Question
    tokens : tuple of str
        Random name of each report.
    answers : tuple of int or str
        Whole numbers, or bits as text.

    Examples
    --------
    >>> from analyst_client.local import RandomizedResponse, Reports
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    >>> reports = Reports.collect(question, [question.report("yes"), question.report("no")])
    >>> len(reports), reports.numbers.shape
    (2, (2,))
    """

    question: Question
    tokens: tuple[str, ...]
    answers: tuple[int | str, ...]

    @classmethod
    def collect(cls, question: Question, lines: Iterable[str | bytes | dict[str, Any]]) -> "Reports":
        """Check reports and put them together.

        A report that stands twice, with its token and its answer, is kept once: people repeat reports. Two answers
        with one token are refused.

        Parameters
        ----------
        question : Question
            The one that all of them answer.
        lines : iterable of str, bytes or dict
            Reports, as JSON or as `Question.report` returns them.

        Returns
        -------
        Reports
            In the order in which each first stands.

        Raises
        ------
        ReportInvalidError
            With the number of the line, and nothing of its content.
        """
        found: dict[str, int | str] = {}
        for number, line in enumerate(lines, start=1):
            fault, report = _parse(question, line)
            if not fault and found.setdefault(report["token"], report["answer"]) != report["answer"]:
                fault = "its token stands before with another answer"
            if fault:
                raise ReportInvalidError(f"line {number} is no report of this question: {fault}", line=number)
        return cls(question, tuple(found), tuple(found.values()))

    def __len__(self) -> int:
        """Return how many people or groups reported."""
        return len(self.answers)

    @property
    def numbers(self) -> FloatArray:
        """Answers that are whole numbers, of shape (n,); bits of the others, of shape (n, number of bits)."""
        if not self.answers:
            raise EstimationError("there is no report: collect one at least")
        if isinstance(self.answers[0], int):
            return np.array(self.answers, dtype=np.float64)
        text = "".join(map(str, self.answers)).encode()
        bits = np.frombuffer(text, dtype=np.uint8).reshape(len(self), -1) - ord("0")
        return bits.astype(np.float64)


def _parse(question: Question, line: str | bytes | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a fault, or none, and the report. Errors of parsers hold content, so none of them leaves."""
    report: Any = line
    if not isinstance(line, dict):
        try:
            report = json.loads(line) if len(line) <= LINE_MAX else None
        except (ValueError, RecursionError):
            report = None
    if not isinstance(report, dict) or {*report} != {"question", "token", "answer"}:
        return "it is no JSON object with question, token and answer", {}
    if report["question"] != question.digest:
        return "it states the digest of another question", {}
    if not (isinstance(report["token"], str) and _TOKEN.fullmatch(report["token"])):
        return "its token is not 32 hexadecimal digits", {}
    if not question.law.reads(report["answer"]):
        return "its answer is none of the question's", {}
    return "", report


def read_reports(path: Path, question: Question) -> Reports:
    """Read a file of JSON lines, each one report of the same question; see `Reports.collect` for what stands twice.

    Parameters
    ----------
    path : Path
        The file.
    question : Question
        The one that all of them answer.

    Returns
    -------
    Reports
        Of the question.

    Raises
    ------
    ReportInvalidError
        With the number of the first line that is no report, and nothing of its content.
    OSError
        Where the file cannot be read.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from analyst_client.local import RandomizedResponse, read_reports
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.jsonl"
    ...     written = path.write_text(json.dumps(question.report("yes")))
    ...     reports = read_reports(path, question)
    >>> len(reports)
    1
    """
    with path.open("rb") as file:
        return Reports.collect(question, iter(lambda: file.readline(LINE_MAX + 1), b""))
