"""Threshold sessions: many yes-or-no questions, paid when the session is opened."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from analyst_client.display.model import number, percent, ratio
from analyst_client.errors import ReceiptInvalidError, SessionEndedError
from analyst_client.http.problems import under_key
from analyst_client.http.session import Session, path_segment
from analyst_client.schema.requests import as_json, choose_key, selection_members
from analyst_client.schema.sessions import OpenedSession, QuestionAnswer, SessionHistory
from analyst_client.terms.expression import Expression, as_expression, col
from analyst_client.terms.python import read_condition

Condition = str | Expression


class ThresholdSession:
    """A session of `CuratorClient.threshold_session`, which closes it at the end of a ``with`` block.

    Attributes
    ----------
    opened : OpenedSession
        Noise, price and receipt.
    answers : list of QuestionAnswer
        Answers that this object got, in their order.
    """

    def __init__(self, session: Session, opened: OpenedSession) -> None:
        self._session = session
        self.opened = opened
        self.answers: list[QuestionAnswer] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the session, if it is open."""
        self.close()

    @property
    def positives_left(self) -> int:
        """Questions that may still be answered yes."""
        return self.answers[-1].positives_left if self.answers else self.opened.positives

    def above(self, threshold: float, **question: Any) -> bool:
        """Ask if a number of rows is at least a threshold; see `ask`."""
        return self.ask(threshold, direction="above", **question)

    def below(self, threshold: float, **question: Any) -> bool:
        """Ask if a number of rows is at most a threshold; see `ask`."""
        return self.ask(threshold, direction="below", **question)

    def ask(
        self,
        threshold: float,
        *,
        direction: str,
        where: Condition | None = None,
        weight: Condition | None = None,
        share: bool = False,
        idempotency_key: str | None = None,
    ) -> bool:
        """Ask a question.

        Parameters
        ----------
        threshold : float
            In rows; of a share within 0 and 1.
        direction : {"above", "below"}
            At least, or at most.
        where : str or Expression, optional
            A condition; rows in which it does not hold count for nothing.
        weight : str or Expression, optional
            A number within 0 and 1 for which a row counts.
        share : bool
            Ask for the mean weight of those rows, in place of the sum. Only in a session of ``"any"``.
        idempotency_key : str, optional
            Key of an earlier attempt whose answer was lost.

        Returns
        -------
        bool

        Raises
        ------
        SessionEndedError
            Nothing was asked.
        CuratorError
            See `analyst_client.errors`. Its `idempotency_key` is the key that was sent.
        """
        body: dict[str, Any] = {"threshold": threshold, "direction": direction} | selection_members(where, weight)
        if share:
            body["share"] = True
        key, path = choose_key(idempotency_key), f"/v1/sessions/{path_segment(self.opened.id)}/questions"
        with under_key(key):
            answered = self._session.ask("POST", path, content=as_json(body), idempotency_key=key)
            found = QuestionAnswer.read(answered.body)
            stated = {
                "kind": "answer",
                "population": self.opened.population,
                "session": self.opened.id,
                "number": found.number,
                "answer": "positive" if found.is_positive else "negative",
            }
            if found.session != self.opened.id:
                raise ReceiptInvalidError(reasons=("another session's question was answered",))
            self._session.accept_entry(found.receipt, stated, answered.snapshot, self.opened.dataset)
        self.answers.append(found)
        return found.is_positive

    def misses(
        self,
        target: Condition,
        coefficients: Mapping[str, float],
        *,
        bound: float,
        threshold: float,
        intercept: float = 0.0,
        where: Condition | None = None,
        **question: Any,
    ) -> bool:
        """Ask if at least so many rows are further from a linear prediction than a bound.

        Parameters
        ----------
        target : str or Expression
        coefficients : mapping of str to float
        bound : float
            As for `missed`.
        threshold : float
            In rows.
        intercept : float
        where : str or Expression, optional
            A condition; only rows in which it holds are looked at.
        **question
            As for `ask`.

        Returns
        -------
        bool
        """
        far = missed(target, coefficients, bound=bound, intercept=intercept)
        if where is not None:
            far = far & (read_condition(where) if isinstance(where, str) else where)
        return self.above(threshold, where=far, **question)

    def screen(self, questions: Mapping[str, Condition], threshold: float) -> tuple[str, ...]:
        """Ask of each condition if at least so many rows meet it, in order, until the session ends.

        Returns
        -------
        tuple of str
            Names of those that were answered yes.
        """
        found = []
        for name, condition in questions.items():
            if self.positives_left == 0:
                break
            if self.above(threshold, where=condition):
                found.append(name)
        return tuple(found)

    def history(self) -> SessionHistory:
        """Return the session as the curator has it, with a first page of its questions."""
        return SessionHistory.read(self._session.ask("GET", f"/v1/sessions/{path_segment(self.opened.id)}").body)

    def close(self) -> None:
        """End the session; nothing of its price returns. It may have ended before."""
        if self.positives_left == 0:
            return
        try:
            self._session.ask("DELETE", f"/v1/sessions/{path_segment(self.opened.id)}")
        except SessionEndedError:
            return


def missed(target: Condition, coefficients: Mapping[str, float], *, bound: float, intercept: float = 0.0) -> Expression:
    """Return the condition that a row is further from a linear prediction than a bound.

    Parameters
    ----------
    target : str or Expression
        A column, or what is computed of some: the number that is predicted.
    coefficients : mapping of str to float
        Of each feature, in raw units, as a fit has them.
    bound : float
        In units of the target.
    intercept : float

    Returns
    -------
    Expression
    """
    predicted = as_expression(float(intercept))
    for name, value in coefficients.items():
        predicted = predicted + float(value) * col(name)
    residual = (col(target) if isinstance(target, str) else target) - predicted
    return abs(residual) > float(bound)


@dataclass(frozen=True)
class WatchedVersion:
    """Answers about one version of a dataset.

    Attributes
    ----------
    version : int
    snapshot, session : str
        Commitment to its rows, and id of the session.
    answers : dict of str to bool
        By the question's name, in order, up to the first that was answered yes.
    """

    version: int
    snapshot: str
    session: str
    answers: dict[str, bool]


class ModelWatch:
    """Questions that are asked once of each version of a dataset; see `CuratorClient.watch_model`.

    Attributes
    ----------
    history : list of WatchedVersion
        Versions that this object has watched.
    """

    def __init__(
        self, curator: Any, name: str, dataset: str, questions: Mapping[str, Condition], threshold: float, **terms: Any
    ) -> None:
        self._curator, self._name, self._dataset, self._terms = curator, name, dataset, {"positives": 1, **terms}
        self._questions, self._threshold = dict(questions), threshold
        self.history: list[WatchedVersion] = []

    def price(self, versions: int = 1) -> str:
        """State the price of one version and of so many, beside what is left of the budget; this is free."""
        asked = {name: value for name, value in self._terms.items() if name != "project"}
        terms, budget = self._curator.threshold_terms(self._dataset, **asked), self._curator.budget(self._dataset)
        units = terms.cost.units, versions * terms.cost.units, budget.remaining.units
        each, whole, left = (percent(ratio(one, budget.limit.units)) for one in units)
        alone = number(terms.pure_epsilon)
        return f"{each} of the budget for each version (epsilon {alone} alone), {whole} for {versions}; {left} is left"

    def run(self) -> list[WatchedVersion]:
        """Watch the present version, and return the history; a version that was watched costs nothing again.

        Keys of requests follow from the watch's name and the version. So another process gets the same session and the
        same answers. Other questions or another price under one name are refused. A cut between the first two requests
        of a run is the one exception: the new version may then be charged again by another process.

        Raises
        ------
        CuratorError
        """
        found = self._curator.dataset(self._dataset)
        if all(one.snapshot != found.snapshot for one in self.history):
            whole = json.dumps([self._name, self._dataset, found.snapshot])
            key = f"watch-{hashlib.sha256(whole.encode()).hexdigest()[:40]}"
            session = self._curator.threshold_session(self._dataset, idempotency_key=key, **self._terms)
            answers: dict[str, bool] = {}
            for place, (name, where) in enumerate(self._questions.items()):
                answers[name] = session.above(self._threshold, where=where, idempotency_key=f"{key}-{place}")
                if answers[name]:
                    break
            session.close()
            snapshot = session.opened.receipt["snapshot"]
            self.history.append(WatchedVersion(found.version, snapshot, session.opened.id, answers))
        return self.history


def session_body(positives: int, direction: str, epsilon: float, project: str | None) -> bytes:
    """Return the request that opens a session."""
    body: dict[str, Any] = {"positives": positives, "direction": direction, "price": {"epsilon": epsilon}}
    return as_json(body | ({} if project is None else {"project": project}))
