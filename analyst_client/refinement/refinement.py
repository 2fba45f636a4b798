"""A refinement: several releases of one budget for one model, bought one after another, kept and read together."""

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias

from analyst_client.display.displayable import Displayable
from analyst_client.display.model import Inline, View, code, facts, join, number, percent, table, untrusted
from analyst_client.errors import ServiceError
from analyst_client.kinds.gram.coding import order_terms
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.gram.rows import CombinedRows
from analyst_client.kinds.registry import read_answer
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.kinds.score.request import ScoreRequest
from analyst_client.refinement.generalized import RefinedGeneralized, refine_generalized
from analyst_client.refinement.plan import Refined, refine
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.questions import Coding, Question
from analyst_client.refinement.rules import FIRST_RULES, GeneralizedRules, RefinementRules
from analyst_client.schema.amounts import Cost
from analyst_client.schema.answers import Answer
from analyst_client.schema.columns import Term
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.terms.expression import read_expression

FORMAT = 1
CUT = r"(?:(?:minimum|maximum)\((?:[-+.\de]+, )?)+{}(?:(?:, [-+.\de]+)?\))+"
"""A column that was cut at numbers, by its name."""
Found: TypeAlias = Refined | RefinedGeneralized


@dataclass(frozen=True, eq=False, repr=False)
class Refinement(Displayable):
    """Releases that a plan asked for, one after another, and the plan's problem and rules.

    Made by `CuratorClient.refine`; `RefinedRegression` fits it, alone or with those of other hospitals, and
    `LogisticRegression` and `PoissonRegression` where its family is ``"binomial"`` or ``"poisson"``. What the plan
    finds is made of the releases again, whenever it is needed: nothing else is kept.

    Attributes
    ----------
    problem : Problem
        The model and the price that were asked for.
    rules : RefinementRules
    releases : tuple of Answer
        In the order in which they were bought.
    codings : tuple of Coding
        The terms that quotes named on the way.

    Examples
    --------
    >>> from analyst_client.tutorial import recorded_client
    >>> client, features = recorded_client("one_call"), ["age", "sex", "creatinine"]
    >>> refinement = client.refine("flchain", features, target="kappa", epsilon=1.0, delta=1e-6)
    >>> sum(hasattr(release, 'score') for release in refinement.releases)
    10
    """

    problem: Problem
    rules: RefinementRules
    releases: tuple[Answer, ...]
    codings: tuple[Coding, ...]

    def __repr__(self) -> str:
        """Show what was bought."""
        counted = Counter(str(release.request["kind"]) for release in self.releases)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counted.items())
        features = self._features
        family = "" if self.problem.family == "gaussian" else f"{self.problem.family} "
        return f"<Refinement of {family}{self.problem.target.name} ~ {features}: {kinds}>"

    def _view(self) -> View:
        """List what was bought, in order, with its cost and how it was answered."""
        costs: list[Cost | None] = [getattr(release, "cost", None) for release in self.releases]
        squares = [cost.mu**2 if cost is not None and cost.mu is not None else 0.0 for cost in costs]
        rows: list[list[Inline]] = [
            [
                str(k),
                str(release.request["kind"]),
                number(square**0.5),
                percent(square / self.problem.mu**2),
                code(release.id),
            ]
            for k, (release, square) in enumerate(zip(self.releases, squares, strict=True), 1)
        ]
        features = self._features
        whole = [("price", f"µ = {number(self.problem.mu)}"), ("spent", f"µ = {number(sum(squares) ** 0.5)}")]
        return (
            facts(join("Refinement ", untrusted(f"{self.problem.target.name} ~ {features}")), whole),
            table("Releases", ("step", "kind", "µ", "of the price", "release"), rows, numeric=(2, 3)),
        )

    @property
    def _features(self) -> str:
        return ", ".join(field.name for field in self.problem.asked if field is not self.problem.offset)

    @cached_property
    def found(self) -> Found:
        """All that the releases tell. Raise `ServiceError` where they are not those that the plan asks for."""
        return self._in_order(replay(self.problem, self.rules, self.releases, self.codings))

    def keep(self, found: Found) -> Self:
        """Keep what the plan found on its way, and return this."""
        vars(self)["found"] = self._in_order(found)
        return self

    def _in_order(self, found: Found) -> Found:
        """Return what was found with its terms in the order of the call."""
        if found.frame is None or found.theta is None:
            return found
        names = self.asked_names
        terms = [replace(term, column=names.get(str(term.column), term.column)) for term in found.frame.terms]
        places = order_terms(terms, [field.name for field in self.problem.asked])
        return replace(found, frame=found.frame.in_order(places))

    @property
    def asked_names(self) -> dict[str, str]:
        """Names under which columns were asked for, by those of the same columns as they were cut."""
        last, fields = self.releases[-1], (*self.problem.numbers, self.problem.target)
        assert isinstance(last, ScoreRelease)
        asked = {field.name: re.compile(CUT.format(re.escape(field.name))) for field in fields}
        return {
            name: known
            for name in last.expressions
            for known, cut in asked.items()
            if name not in asked and cut.fullmatch(name)
        }

    @property
    def people(self) -> tuple[str, str] | None:
        """People whose budget was charged, by the receipt: the population's name, and the id of the curator's key."""
        receipt = self.releases[0].receipt
        return None if receipt is None else (str(receipt.get("population")), str(receipt.get("key_id")))

    def save(self, path: str | Path) -> None:
        """Write the refinement to a file, with the exact texts of its releases."""
        Path(path).write_text(self.to_text(), encoding="utf-8")

    def to_text(self) -> str:
        """Return what `save` writes."""
        problem = asdict(self.problem)
        fields = [*problem["features"], *([problem["offset"]] if problem["offset"] else []), problem["target"]]
        for field, kept in zip(fields, (*self.problem.regressors, self.problem.target), strict=True):
            field["expression"] = kept.expression.to_json()
        problem["options"] = []  # what the requests said beside stands in the releases
        body = {
            "refinement": FORMAT,
            "problem": problem,
            "rules": asdict(self.rules),
            "codings": [coding.to_json() for coding in self.codings],
            "releases": [release.text for release in self.releases],
        }
        return json.dumps(body, ensure_ascii=False, indent=1)

    @classmethod
    def load(cls, path: str | Path) -> "Refinement":
        """Read a saved refinement. Raise `ServiceError` for a file that is none."""
        return cls.from_text(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def from_text(cls, text: str) -> "Refinement":
        """Read what `to_text` returned. Raise `ServiceError` for a text that is none."""
        body = Fields(parse_json(text))
        if body.integer("refinement") != FORMAT:
            raise body.fault("refinement", f"{FORMAT}, the format that this version reads")
        try:
            problem = body.members["problem"]
            rules = rules_of(problem.get("family", "gaussian"))(**(FIRST_RULES | body.members["rules"]))
            *features, target = map(_read_field, (*problem["features"], problem["target"]))
            offset = _read_field(problem["offset"]) if problem.get("offset") else None
            fields = {"features": tuple(features), "target": target, "offset": offset, "options": ()}
            fields["order"] = tuple(problem.get("order", ()))
            read = Problem(**(problem | fields))
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceError(f"malformed refinement: {type(error).__name__}") from None
        codings = body.each("codings", Coding.read)
        return cls(read, rules, tuple(read_answer(text) for text in body.texts("releases")), tuple(codings))


def _read_field(field: dict[str, Any]) -> Field:
    return Field(**(field | {"expression": read_expression(field["expression"])}))


def buy(
    problem: Problem,
    rules: RefinementRules,
    quote: Callable[[Any], Quote],
    release: Callable[[Any], Answer],
) -> Refinement:
    """Follow a plan at a curator.

    Parameters
    ----------
    problem : Problem
    rules : RefinementRules
    quote, release : callable
        What answer a request, for nothing and at its price.

    Returns
    -------
    Refinement
    """
    bought: list[Answer] = []
    codings: list[Coding] = []

    def answer(question: Question) -> Any:
        if question.is_quote:
            quoted = quote(question.request)
            codings.append(Coding(quoted.terms, quoted.targets, quoted.feature_names))
            return codings[-1]
        bought.append(release(question.request))
        return bought[-1]

    found = follow(problem, rules, answer)
    return Refinement(problem, rules, tuple(bought), tuple(codings)).keep(found)


def replay(problem: Problem, rules: RefinementRules, releases: Sequence[Answer], codings: Sequence[Coding]) -> Found:
    """Follow a plan through releases that were bought.

    They are read at the numbers that they state: those that the plan would post may differ in a last digit where it
    runs on another machine. Raise `ServiceError` where they are not those that it asks for.
    """
    left, coded = list(releases), list(codings)

    def answer(question: Question) -> Any:
        if question.is_quote:
            if not coded:
                raise ServiceError("the refinement lacks terms that its plan asks for")
            return coded.pop(0)
        if not left or not _answers(left[0], question.request):
            raise ServiceError("the refinement lacks a release that its plan asks for")
        return left.pop(0)

    found = follow(problem, rules, answer)
    if left:
        raise ServiceError("the refinement has releases that its plan does not ask for")
    signed = {term.name: term for release in releases for term in _terms_of(release)}
    if any(signed.get(term.name, term) != term for coding in codings for term in (*coding.terms, *coding.targets)):
        raise ServiceError("the terms that the refinement states are not those of its releases")
    return found


def _terms_of(release: Answer) -> tuple[Term, ...]:
    if isinstance(release, ScoreRelease):
        return (*release.terms, release.target)
    return (*release.coded_terms, *release.targets) if isinstance(release, Release) else ()


def _answers(release: Answer, request: Any) -> bool:
    """Return whether a release is of the same terms, and as many numbers, as a request."""
    if isinstance(release, ScoreRelease) and isinstance(request, ScoreRequest):
        asked, names, count = request.directions, list(release.term_names), release.directions.shape[1]
    elif isinstance(release, Release) and isinstance(request, ReleaseRequest) and release.combinations is not None:
        rows = request.rows
        assert isinstance(rows, CombinedRows)
        asked, names, count = rows.matrix, [term.name for term in release.combined], release.combinations.shape[1]
    else:
        return False
    return set(asked) <= set(names) and all(len(row) == count for row in asked.values())


def rules_of(family: str) -> type[RefinementRules]:
    """Return the class of the rules of a family's plan."""
    return RefinementRules if family == "gaussian" else GeneralizedRules


def follow(problem: Problem, rules: RefinementRules, answer: Callable[[Question], Any]) -> Found:
    """Follow a plan, whoever answers its questions."""
    steps: Generator[Question, Any, Found]
    if problem.family == "gaussian":
        steps = refine(problem, rules)
    elif isinstance(rules, GeneralizedRules):
        steps = refine_generalized(problem, rules)
    else:
        raise ValueError(f"rules of a {problem.family} refinement are GeneralizedRules")
    try:
        question = next(steps)
        while True:
            question = steps.send(answer(question))
    except StopIteration as end:
        found: Found = end.value
        return found
