"""Questions about one record, and the reports with which a person answers them: everything in both is public."""

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal, TypeAlias

from analyst_client.local.exact import (
    SOURCE,
    Below,
    Number,
    odds_within,
    read_epsilon,
)
from analyst_client.local.mechanisms import Corners, Kary, Unary, Window

CELLS_MAX = 1_000
FORMAT = 1
Levels: TypeAlias = Mapping[str, Sequence[str]] | tuple[tuple[str, tuple[str, ...]], ...]
Loss: TypeAlias = Literal["squared", "logistic"]
Bounds: TypeAlias = Mapping[str, Sequence[Number]] | tuple[tuple[str, tuple[Fraction, Fraction]], ...]


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """A question that people answer with perturbed reports, each ε-locally private by itself.

    Parameters
    ----------
    epsilon : Fraction, str, int or float
        Cost of a report, from 0.001 to 20; a float counts as it is printed. Kept as a fraction.
    study : str
        Name of the study that asks. The same question of another study is another question.
    protects : {"person", "group"}
        The unit of a report: one person's record, or one record of a group such as a ward.

    Examples
    --------
    >>> from analyst_client.local import Question, RandomizedResponse
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1, study="smoking 2026")
    >>> Question.from_json(question.to_json()) == question
    True
    """

    epsilon: Number
    study: str = ""
    protects: Literal["person", "group"] = "person"
    mechanism: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type["Question"]]] = {}

    def __init_subclass__(cls) -> None:
        """Enter a kind of question under the name of its mechanism."""
        if "mechanism" in vars(cls):
            Question._kinds[cls.mechanism] = cls

    def __post_init__(self) -> None:
        """Check and normalise what is declared, so that equal questions have equal digests."""
        self._normalise("epsilon", read_epsilon(self.epsilon))
        if not isinstance(self.study, str) or self.protects not in {"person", "group"}:
            raise ValueError('a study is named by text, and a report protects a "person" or a "group"')
        self._declare()

    @abstractmethod
    def _declare(self) -> None:
        """Check and normalise what a subclass declares."""

    def _normalise(self, name: str, value: object) -> None:
        """Put a declared member in its one form."""
        object.__setattr__(self, name, value)

    @property
    def cost(self) -> Fraction:
        """ε of a report."""
        return read_epsilon(self.epsilon)

    @property
    def odds(self) -> Fraction:
        """The largest ratio of chances of an answer between two records: at most e^ε, exactly."""
        return odds_within(self.cost)

    def to_json(self) -> dict[str, Any]:
        """Return the question as JSON values, from which `from_json` makes an equal one."""
        declared = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"format": FORMAT, "mechanism": self.mechanism, **declared}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Question":
        """Return the question that `to_json` wrote. Raise `ValueError` where it is none."""
        importlib.import_module("analyst_client.local.vectors")  # its kinds are not known before
        declared = dict(document)
        kind = Question._kinds.get(str(declared.pop("mechanism", "")))
        if declared.pop("format", None) != FORMAT or kind is None or {*declared} != {f.name for f in fields(kind)}:
            raise ValueError(f"a question has format {FORMAT}, a known mechanism and its members, as to_json() writes")
        try:
            return kind(**declared)
        except (TypeError, AttributeError):
            raise ValueError("a member of the question is of another type than to_json() writes") from None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the question's canonical JSON, in hexadecimal digits."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def report(self, value: object, below: Below = SOURCE) -> dict[str, Any]:
        """Return a report on a record, drawn anew; a `Participant` keeps it and draws once.

        Parameters
        ----------
        value : object
            The record as a mapping from columns to values; of a single column its value is enough.
        below : callable
            Source of randomness: of n one of 0, …, n − 1. The default is the system's; others are for tests.

        Returns
        -------
        dict
            ``question`` (the digest), ``answer`` (a whole number, or bits as text) and a random ``token``.

        Raises
        ------
        ValueError
            Where the record lacks a column, or a value is no level or no number.
        """
        answer = self._answer(value, below)
        return {"question": self.digest, "token": f"{below(2**128):032x}", "answer": answer}

    @property
    @abstractmethod
    def law(self) -> Kary | Unary | Window | Corners:
        """The law of its answers."""

    @abstractmethod
    def _answer(self, value: object, below: Below) -> int | str:
        """Draw an answer."""


def _plain(value: object) -> Any:
    """Return JSON of text, whole numbers, fractions and tuples."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Fraction) else value


def record_members(value: object, columns: Sequence[str]) -> list[object]:
    """Return a record's values of some columns."""
    if len(columns) == 1 and not isinstance(value, Mapping):
        return [value]
    if not isinstance(value, Mapping) or not {*columns} <= {*value}:
        raise ValueError(f"a record is a mapping with the columns {', '.join(columns)}; a missing value is None")
    return [value[name] for name in columns]


@dataclass(frozen=True)
class LevelQuestion(Question):
    """A question of levels.

    Parameters
    ----------
    levels : mapping from str to sequence of str
        Levels of each column; of several columns their combinations are the cells. None counts as the first level.

    Raises
    ------
    ValueError
        Where a declaration breaks its rule.
    """

    levels: Levels

    def _declare(self) -> None:
        declared = dict(self.levels)
        found = {name: () if isinstance(named, str) else tuple(named) for name, named in declared.items()}
        self._normalise("levels", tuple(found.items()))
        are_texts = all(isinstance(text, str) for text in (*found, *(one for named in found.values() for one in named)))
        are_apart = all(len({*named}) == len(named) > 1 for named in found.values())
        if not (found and are_texts and are_apart and self.size <= CELLS_MAX):
            raise ValueError(f"levels name for each column two or more texts, in at most {CELLS_MAX} cells in all")

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Levels of each column."""
        return {name: tuple(levels) for name, levels in dict(self.levels).items()}

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(map(len, self.columns.values()))

    def _code(self, value: object) -> int:
        """Return the number of a record's cell."""
        code = 0
        for (name, levels), level in zip(self.columns.items(), record_members(value, [*self.columns]), strict=True):
            if level is not None and level not in levels:
                raise ValueError(f"the value of {name} is none of its levels; a missing one is None")
            code = code * len(levels) + (0 if level is None else levels.index(str(level)))
        return code


@dataclass(frozen=True)
class RandomizedResponse(LevelQuestion):
    r"""Randomised response: the true cell with chance :math:`e^\varepsilon/(e^\varepsilon+k-1)`, else another one.

    Warner [1]_ has two levels; Kairouz, Bonawitz and Ramage [2]_ have k.

    References
    ----------
    .. [1] S. Warner, "Randomized response: a survey technique for eliminating evasive answer bias", JASA 60, 1965.
    .. [2] P. Kairouz, K. Bonawitz, D. Ramage, "Discrete distribution estimation under local privacy", ICML 2016.

    Examples
    --------
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    >>> sorted(question.report("yes"))
    ['answer', 'question', 'token']
    """

    mechanism: ClassVar[str] = "randomized_response"

    @property
    def law(self) -> Kary:
        """The law of its answers."""
        return Kary(self.size, self.odds)

    def _answer(self, value: object, below: Below) -> int:
        return self.law.draw(self._code(value), below)


@dataclass(frozen=True)
class UnaryEncoding(LevelQuestion):
    r"""Optimised unary encoding: one bit for each cell [1]_.

    The bit of the record's own cell is 1 with chance 1/2, each other one with :math:`1/(e^\varepsilon+1)`.
    It has less noise than randomised response from :math:`3e^\varepsilon+2` cells on.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha, "Locally differentially private protocols for frequency estimation",
       USENIX Security 2017.

    Examples
    --------
    >>> from analyst_client.local import UnaryEncoding
    >>> question = UnaryEncoding({"ward": ["a", "b", "c", "d"]}, epsilon=1)
    >>> len(question.report("b")["answer"])  # bits, one for each level
    4
    """

    mechanism: ClassVar[str] = "unary_encoding"

    @property
    def law(self) -> Unary:
        """The law of its answers."""
        return Unary(self.size, self.odds)

    def _answer(self, value: object, below: Below) -> str:
        return self.law.draw(self._code(value), below)
