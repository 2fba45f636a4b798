"""A person's own keeper of what was spent on them, and of the reports that they gave: one file, never a record."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from analyst_client.errors import LocalBudgetError, ParticipantFileError
from analyst_client.ledger.files import locked, make_private_folder, replace_file
from analyst_client.local.exact import SOURCE, Below, Number, read_number
from analyst_client.local.questions import Question

FORMAT = 1


@dataclass
class _State:
    """Content of the file: the limit, amounts spent elsewhere, and each question's cost and report."""

    limit: Fraction
    elsewhere: list[tuple[str, Fraction]]
    reports: dict[str, tuple[Fraction, dict[str, Any]]]

    @property
    def spent(self) -> Fraction:
        amounts = [amount for _, amount in self.elsewhere] + [cost for cost, _ in self.reports.values()]
        return sum(amounts, start=Fraction(0))

    def to_json(self) -> bytes:
        reports = {digest: {"epsilon": str(cost), "report": report} for digest, (cost, report) in self.reports.items()}
        elsewhere = [[name, str(amount)] for name, amount in self.elsewhere]
        content = {"format": FORMAT, "limit": str(self.limit), "elsewhere": elsewhere, "reports": reports}
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes) -> "_State":
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise ValueError("another format")
        elsewhere = [(str(name), Fraction(amount)) for name, amount in found["elsewhere"]]
        reports = {key: (Fraction(kept["epsilon"]), dict(kept["report"])) for key, kept in found["reports"].items()}
        return cls(Fraction(found["limit"]), elsewhere, reports)


class Participant:
    """A person's own keeper: adds up their ε, refuses beyond their limit, and repeats a report at no further cost.

    The file holds amounts and reports, which are private already, and no value of the record. Threads and processes
    share it through a lock. Without it questions would be answered anew, and their costs forgotten: keep a copy.

    Parameters
    ----------
    path : Path
        The file; its folder is made where there is none.
    limit : number, optional
        Largest ε of everything together. Needed for a new file; of a file that exists it must be the same.

    Raises
    ------
    ParticipantFileError
        Where the file cannot be read, written or understood.
    ValueError
        Where a new file has no limit above 0, or an existing one has another.

    Notes
    -----
    Pure ε adds up over answers, whoever gives them and however the next question is chosen [1]_.

    References
    ----------
    .. [1] C. Dwork, A. Roth, "The algorithmic foundations of differential privacy", 2014, theorem 3.16.

    Examples
    --------
    >>> import tempfile
    >>> from analyst_client.local import RandomizedResponse
    >>> person = Participant(Path(tempfile.mkdtemp()) / "privacy.json", limit=2)
    >>> question = RandomizedResponse({"smoker": ["no", "yes"]}, epsilon=1)
    >>> person.answer(question, "yes") == person.answer(question, "yes")
    True
    >>> person.spent, person.remaining
    (Fraction(1, 1), Fraction(1, 1))
    """

    def __init__(self, path: Path, limit: Number | None = None) -> None:
        self.path, stated = path, None if limit is None else read_number(limit)
        with self._changing(stated) as state:
            if stated not in {None, state.limit}:
                raise ValueError(f"{path} has the limit {state.limit}: give that or none, and change it by set_limit()")

    @property
    def limit(self) -> Fraction:
        """Largest ε of everything together."""
        return self._read(None).limit

    @property
    def spent(self) -> Fraction:
        """The sum of all amounts, those that were noted and those of reports."""
        return self._read(None).spent

    @property
    def remaining(self) -> Fraction:
        """The rest of the limit; 0 where notes go beyond it."""
        state = self._read(None)
        return max(state.limit - state.spent, Fraction(0))

    def answer(self, question: Question, value: object, below: Below = SOURCE) -> dict[str, Any]:
        """Return the report on a question: the one that was given before, or a new one within the limit.

        A new report is on the disk, with its cost, before it is returned.

        Parameters
        ----------
        question : Question
            Public; of the study that asks.
        value : object
            The record, as `Question.report` takes it; not looked at where a report was given or the limit refuses.
        below : callable
            Source of randomness; see `Question.report`.

        Returns
        -------
        dict
            The report. It does not tell whether it was given before.

        Raises
        ------
        LocalBudgetError
            Where the cost goes beyond the limit.
        ParticipantFileError
            Where the file cannot be used; then no report leaves.
        ValueError
            Where the record does not fit the question; nothing is spent.
        """
        with self._changing() as state:
            if question.digest not in state.reports:
                self._check(state, question.cost)
                state.reports[question.digest] = question.cost, question.report(value, below)
            return dict(state.reports[question.digest][1])

    def note(self, name: str, epsilon: Number) -> None:
        """Add an amount that was spent elsewhere, such as by a curator that holds the person's rows.

        It is added even beyond the limit, since it is spent already. A δ that goes with it is not added up.

        Parameters
        ----------
        name : str
            Of the curator, population or study; each call adds another amount.
        epsilon : number
            0 or more.

        Raises
        ------
        ValueError
            Where ε is below 0.
        ParticipantFileError
            Where the file cannot be used.
        """
        if (amount := read_number(epsilon)) < 0:
            raise ValueError("an amount that was spent is 0 or more")
        with self._changing() as state:
            state.elsewhere.append((name, amount))

    def set_limit(self, limit: Number) -> None:
        """Change the limit. Raise `ValueError` unless it is above 0."""
        with self._changing() as state:
            state.limit = _positive(read_number(limit))

    def _check(self, state: _State, cost: Fraction) -> None:
        remaining = max(state.limit - state.spent, Fraction(0))
        if cost > remaining:
            raise LocalBudgetError(
                f"the report costs ε = {cost}, and {remaining} of the limit {state.limit} remains: a question of at "
                "most that would be answered, or set_limit() raises the limit",
                requested=cost,
                remaining=remaining,
            )

    @contextmanager
    def _changing(self, limit: Fraction | None = None) -> Iterator[_State]:
        """Give the state to be changed, with others kept out; write it unless that raises."""
        try:
            make_private_folder(self.path.parent)
            with locked(self.path):
                state = self._read(limit)
                before = state.to_json() if self.path.exists() else b""
                yield state
                if (after := state.to_json()) != before:
                    replace_file(self.path, after)
        except OSError as error:
            raise self._unusable(os.strerror(error.errno) if error.errno else "no reason given") from None

    def _read(self, limit: Fraction | None) -> _State:
        try:
            return _State.from_json(self.path.read_bytes())
        except FileNotFoundError:
            if limit is None:
                raise ValueError(f"{self.path} does not exist: limit= is needed for a new one") from None
            return _State(_positive(limit), [], {})
        except OSError as error:
            raise self._unusable(os.strerror(error.errno) if error.errno else "no reason given") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # the error would hold content of the file
        raise self._unusable("its content is damaged: put back a copy")

    def _unusable(self, reason: str) -> ParticipantFileError:
        return ParticipantFileError(f"{self.path} cannot be used ({reason}); no report was given", path=self.path)


def _positive(limit: Fraction) -> Fraction:
    if limit <= 0:
        raise ValueError("a limit is above 0, such as 2")
    return limit
