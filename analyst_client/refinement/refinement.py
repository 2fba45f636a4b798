"""A refinement: several releases of one budget for one model, bought one after another, kept and read together."""

import json
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from analyst_client.errors import ServiceError
from analyst_client.kinds.gram.quote import Quote, order_terms
from analyst_client.kinds.gram.release import Release
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.kinds.registry import read_answer
from analyst_client.kinds.score.release import ScoreRelease
from analyst_client.refinement.generalized import RefinedGeneralized, refine_generalized
from analyst_client.refinement.plan import Question, Refined, refine
from analyst_client.refinement.problem import Field, Problem
from analyst_client.refinement.rules import GeneralizedRules, RefinementRules
from analyst_client.schema.answers import Answer
from analyst_client.schema.columns import Term
from analyst_client.schema.wire import Fields, parse_json
from analyst_client.terms.expression import read_expression
from analyst_client.terms.matching import match_features

FORMAT = 1
Found: TypeAlias = Refined | RefinedGeneralized


class Coding(NamedTuple):
    """What a model's columns are coded as, in the order that was asked: what a plan asks a quote for."""

    terms: tuple[Term, ...]
    targets: tuple[Term, ...]
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, answer: Any, request: ReleaseRequest) -> "Coding":
        """Read it off a quote, or a release, of the columns of a request.

        Raises
        ------
        ServiceError
            When the answer is of other columns, or of none.
        """
        if not isinstance(answer, Quote | Release | ScoreRelease):
            raise ServiceError("the refinement lacks a release that its plan asks for")
        named = match_features(answer.expressions, answer.columns, request.members)
        if named is None:
            raise ServiceError("the refinement has a release of other columns than its plan asks for")
        terms = answer.terms if isinstance(answer, ScoreRelease) else answer.combined or answer.terms
        targets = (answer.target,) if isinstance(answer, ScoreRelease) else answer.targets
        return cls(tuple(terms[j] for j in order_terms(terms, named.features)), targets, tuple(named.features))


@dataclass(frozen=True, eq=False)
class Refinement:
    """Releases that a plan asked for, one after another, and the plan's problem and rules.

    Made by `CuratorClient.refine`; `RefinedRegression` fits it, and `LogisticRegression` and `PoissonRegression` where
    its family is ``"binomial"`` or ``"poisson"``. What the plan finds is made of the releases again,
    whenever it is needed: nothing else is kept.

    Attributes
    ----------
    problem : Problem
        The model, and its price.
    rules : RefinementRules
    releases : tuple of Answer
        In the order in which they were bought.
    """

    problem: Problem
    rules: RefinementRules
    releases: tuple[Answer, ...]

    def __repr__(self) -> str:
        """Show what was bought."""
        counted = Counter(str(release.request["kind"]) for release in self.releases)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counted.items())
        features = ", ".join(field.name for field in self.problem.features)
        family = "" if self.problem.family == "gaussian" else f"{self.problem.family} "
        return f"<Refinement of {family}{self.problem.target.name} ~ {features}: {kinds}>"

    @cached_property
    def found(self) -> Found:
        """Coefficients and measurements. Raise `ServiceError` where releases are not those that the plan asks for."""
        return replay(self.problem, self.rules, self.releases)

    def save(self, path: str | Path) -> None:
        """Write the refinement to a file, with the exact texts of its releases."""
        problem = asdict(self.problem)
        for field, kept in zip(
            (*problem["features"], problem["target"]), (*self.problem.features, self.problem.target), strict=True
        ):
            field["expression"] = kept.expression.to_json()
        problem["options"] = []  # what the requests said beside stands in the releases
        body = {
            "refinement": FORMAT,
            "problem": problem,
            "rules": asdict(self.rules),
            "releases": [release.text for release in self.releases],
        }
        Path(path).write_text(json.dumps(body, ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Refinement":
        """Read a saved refinement. Raise `ServiceError` for a file that is none."""
        body = Fields(parse_json(Path(path).read_text(encoding="utf-8")))
        if body.integer("refinement") != FORMAT:
            raise body.fault("refinement", f"{FORMAT}, the format that this version reads")
        try:
            problem = body.members["problem"]
            rules = rules_of(problem.get("family", "gaussian"))(**body.members["rules"])
            fields = [
                Field(**(field | {"expression": read_expression(field["expression"])}))
                for field in (*problem["features"], problem["target"])
            ]
            read = Problem(**(problem | {"features": tuple(fields[:-1]), "target": fields[-1], "options": ()}))
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceError(f"malformed refinement: {type(error).__name__}") from None
        return cls(read, rules, tuple(read_answer(text) for text in body.texts("releases")))


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

    def answer(question: Question) -> Any:
        if question.is_quote:
            return Coding.of(quote(question.request), question.request)
        bought.append(release(question.request))
        return bought[-1]

    _follow(problem, rules, answer)
    return Refinement(problem, rules, tuple(bought))


def replay(problem: Problem, rules: RefinementRules, releases: Sequence[Answer]) -> Found:
    """Follow a plan through releases that were bought. Raise `ServiceError` where they are not those that it asks for.

    Terms, which a quote told, are those of the next release.
    """
    left = list(releases)

    def answer(question: Question) -> Any:
        if not left:
            raise ServiceError("the refinement lacks a release that its plan asks for")
        if question.is_quote:
            return Coding.of(left[0], question.request)
        return question.request.arrange(left.pop(0))

    found = _follow(problem, rules, answer)
    if left:
        raise ServiceError("the refinement has releases that its plan does not ask for")
    return found


def rules_of(family: str) -> type[RefinementRules]:
    """Return the class of the rules of a family's plan."""
    return RefinementRules if family == "gaussian" else GeneralizedRules


def _follow(problem: Problem, rules: RefinementRules, answer: Callable[[Question], Any]) -> Found:
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
