"""Buying a refinement: its price and its problem, its reservation, and its releases one after another."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict

from analyst_client.errors import AnswerSpaceError, CuratorError, RequestInvalidError, UselessRequestError
from analyst_client.estimators.warn import warn_caller
from analyst_client.kinds.gram.arguments import as_features
from analyst_client.kinds.gram.quote import Quote
from analyst_client.kinds.gram.request import ReleaseRequest
from analyst_client.planning.prices import gdp_delta, number_of, zcdp_delta
from analyst_client.planning.useless import find_certain
from analyst_client.refinement.holding import Holding, Seller, key_of
from analyst_client.refinement.practice import Practice, Step, practise
from analyst_client.refinement.problem import Problem
from analyst_client.refinement.progress import Progress
from analyst_client.refinement.refinement import Refinement, buy, rules_of
from analyst_client.refinement.rules import RefinementRules
from analyst_client.schema.datasets import Dataset
from analyst_client.schema.requests import check_expected_rows, price
from analyst_client.terms.expression import COLUMN, NUMBER, Expression

_STAYS_WHOLE = {"add", "subtract", "multiply", "minimum", "maximum"}
_SPENT = 1.0 - 1e-9
"""Part of a price that is spent: costs are rounded up, one by one, in units of 10⁻¹²."""


class _UnpaidError(Exception):
    """A step is not stored."""


class RefinementOptions(TypedDict, total=False):
    """Options of `CuratorClient.refine` that decide what is bought."""

    target: str | Expression | None
    family: str
    offset: str | Expression | None
    where: str | Expression | None
    weight: str | Expression | None
    epsilon: float | None
    delta: float | None
    mu: float | None
    rho: float | None
    expected_rows: float | None
    project: str | None
    reservation: str | None
    rules: RefinementRules | None


@dataclass(frozen=True, eq=False)
class Refining:
    """A refinement that can be asked for, as its free quote describes it.

    Attributes
    ----------
    seller : Seller
    declared : Dataset
    request : ReleaseRequest
        One release of the model, at the whole price.
    quote : Quote
        Of that.
    problem : Problem
    rules : RefinementRules
    reservation : str or None
        One of the analyst's own to draw on.
    """

    seller: Seller
    declared: Dataset
    request: ReleaseRequest
    quote: Quote
    problem: Problem
    rules: RefinementRules
    reservation: str | None

    @classmethod
    def read(
        cls,
        seller: Seller,
        declared: Dataset,
        request: ReleaseRequest,
        *,
        offset: str | Expression | None = None,
        expected_rows: float | None,
        project: str | None,
        reservation: str | None,
        rules: RefinementRules | None,
        family: str = "gaussian",
    ) -> "Refining":
        """Read what is asked, and quote it.

        Parameters
        ----------
        seller : Seller
        declared : Dataset
        request : ReleaseRequest
            One release of the model, at the whole price.
        offset : str, Expression or None
            Of counts.
        expected_rows : float or None
        project, reservation : str or None
        rules : RefinementRules or None
            `GeneralizedRules` of a family that is not gaussian.
        family : str
            Of the target.

        Raises
        ------
        ValueError
            When the target, or the rules, are not those of the family.
        """
        check_expected_rows(expected_rows)
        stated = price(request.epsilon, request.delta, request.mu, request.rho)
        targets = request.named_targets or []
        if len(targets) != 1:
            raise ValueError("a refinement is of one target: name it")
        offsets = [] if offset is None else as_features([offset], "offset")
        asked = replace(request, features=[*request.features, *offsets], project=project)
        features = [*as_features(request.in_one_order(declared.columns).features, "features"), *offsets]
        request = replace(asked, features=features)
        said = {name: value for name in ("where", "weight", "project") if (value := getattr(request, name)) is not None}
        quote = seller.quote(declared.name, request)
        problem = Problem.of(
            quote,
            features,
            targets[0],
            offset=offset is not None,
            rows=float(expected_rows or declared.rows or declared.row_capacity / 4.0),
            mu=_mu_of(stated, declared) * math.sqrt(_SPENT),
            accountant=declared.accountant,
            options=tuple(said.items()),
            family=family,
            order=tuple(quote.find_order(asked)[0]),
        )
        kind = rules_of(family)
        if rules is not None and not isinstance(rules, kind):
            raise ValueError(f"rules of a {family} refinement are {kind.__name__}")
        return cls(seller, declared, request, quote, problem, rules or kind(), reservation)

    @property
    def useless(self) -> tuple[str, ...]:
        """Reasons for which no slope would be told, by public numbers."""
        problem, columns = self.problem, len(self.problem.numbers) + 1
        found = find_certain(self.request, self.quote, self.declared, once=False).useless
        if problem.family == "poisson" and not is_whole(problem.target.expression, self.declared):
            found = (
                *found,
                f"a poisson refinement is of counts, and {problem.target.name!r} is not declared as whole numbers: a "
                "column is where the curator's manifest says whole = true",
            )
        if self.rules.expected_to_tell(problem.rows, problem.mu, columns) == "slopes":
            return found
        least = self.rules.rows_for_slopes(problem.mu, columns)
        return (
            *found,
            f"at µ = {problem.mu:.3g} and {problem.rows:,.0f} rows a refinement tells no slope, but the mean of the "
            f"target at most: slopes need {least / problem.rows:.1f} times the µ, or {math.ceil(least):,} rows. State "
            "expected_rows= if there are so many",
        )

    def refuse_useless(self) -> None:
        """Raise `UselessRequestError` where no slope would be told."""
        if self.useless:
            raise UselessRequestError(self.useless)

    def practise(self) -> Practice:
        """Follow the plan on made-up rows. Raise what the curator, or the plan, would refuse later."""
        return practise(self.problem, self.rules, self._quote, self.quote, self.declared.columns)

    def _quote(self, request: Any) -> Any:
        return self.seller.quote(self.declared.name, request)

    def recall(self) -> Refinement | None:
        """Return what the same call has bought before; None where a step of it is still to be paid. Free."""

        def refuse() -> None:
            raise _UnpaidError

        try:
            return self.run(Progress(self.problem.target.name, show=False), before_paying=refuse)
        except _UnpaidError:
            return None

    def hold(self) -> Holding:
        """Hold the price before the first step, where the plan will find it."""
        holding = self._holding(self._quote, lambda: None)
        try:
            holding.reserve()
        except BaseException as error:
            holding.explain(error)
            raise
        return holding

    def _holding(self, quote: Callable[[Any], Any], before_paying: Callable[[], None]) -> Holding:
        problem, rules, request = self.problem, self.rules, self.request
        said = {
            "family": problem.family,
            "offset": problem.offset is not None,
            "rows": problem.rows,
            "rules": [type(rules).__name__, asdict(rules)],
        }
        return Holding(
            self.seller,
            quote,
            self.declared,
            key_of(self.declared, request, **said),
            price(request.epsilon, request.delta, request.mu, request.rho),
            project=request.project,
            given=self.reservation,
            before_paying=before_paying,
        )

    def run(self, progress: Progress, before_paying: Callable[[], None] | None = None) -> Refinement:
        """Follow the plan, and hold the price as long as something has to be paid.

        Parameters
        ----------
        progress : Progress
        before_paying : callable, optional
            Called before anything is held. Default the steps are practised, and refused where they cannot work.

        Raises
        ------
        BaseException
            With a note that says what is held, or that it was given back.
        """
        problem, rules = self.problem, self.rules

        def check_steps() -> None:
            steps = self.practise().steps
            progress.expect(steps)
            check_space(steps[progress.step - 1 :])

        def quote(asked: Any) -> Any:
            try:
                return self._quote(asked)
            except RequestInvalidError:
                self.practise()  # it says more of what is too large
                raise

        holding = self._holding(quote, before_paying or check_steps)

        def release(asked: Any) -> Any:
            progress.begin()
            found = holding.release(asked)
            progress.end(problem.share_of(asked))
            return found

        try:
            found = buy(problem, rules, quote, release)
        except BaseException as error:
            progress.close(done=False)
            holding.explain(error)
            raise
        progress.close(done=True)
        try:
            holding.close()
        except CuratorError as error:  # what was bought is here
            warn_caller(f"the reservation {holding.id} could not be closed: {error}", UserWarning)
        return found


def check_space(steps: Sequence[Step]) -> None:
    """Refuse steps whose answers the curator has no room for. Raise `AnswerSpaceError`."""
    if not steps:
        return
    needed, left = sum(step.answer_bytes for step in steps if not step.is_free), steps[0].answer_bytes_left
    if needed > left:
        raise AnswerSpaceError(
            f"the answers of {len(steps)} steps take about {needed:,} bytes, and the curator stores {left:,} more for "
            "you: nothing was held or charged"
        )


def is_whole(expression: Expression, declared: Dataset) -> bool:
    """Return True if an expression is a whole number in every row, by the declarations of its columns."""
    if expression.operator == COLUMN:
        return any(column.whole for column in declared.columns if column.name == expression.parameters[0])
    if expression.operator == NUMBER:
        return bool(expression.parameters[0] % 1.0 == 0.0)
    return expression.operator in _STAYS_WHOLE and all(is_whole(one, declared) for one in expression.arguments)


def _mu_of(stated: Mapping[str, float], dataset: Dataset) -> float:
    """Return a price as µ; under zCDP as √(2ρ). Raise `ValueError` where there is no Gaussian noise."""
    if dataset.accountant == "pure":
        raise ValueError(
            f"a refinement is of Gaussian noise, and {dataset.name!r} counts in pure ε: ask for a release with "
            "mechanism='laplace'"
        )
    if "mu" in stated:
        return stated["mu"]
    if "rho" in stated:
        return math.sqrt(2.0 * stated["rho"])
    if dataset.accountant == "zcdp":
        return math.sqrt(2.0 * number_of(zcdp_delta, stated["epsilon"], stated["delta"]))
    return number_of(gdp_delta, stated["epsilon"], stated["delta"])
