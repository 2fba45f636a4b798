"""From a model to a fit: read, choose, show, buy."""

from collections.abc import Mapping
from typing import Any

from analyst_client.errors import BudgetExceededError
from analyst_client.estimators.base import Fit
from analyst_client.fitting.choice import Choice, choose, confirm
from analyst_client.fitting.prices import price_left, price_of_accuracy
from analyst_client.fitting.question import Buyer, FitOptions, Question
from analyst_client.kinds.gram.request import Asked
from analyst_client.planning.wording import figures, price_text
from analyst_client.schema.amounts import NOTIONS, Amount

LEFT = "left"


def fit_model(
    client: Buyer,
    data: str,
    asked: Asked,
    options: FitOptions,
    price: Mapping[str, Any],
    *,
    half_width: Mapping[str, float] | None,
    guess: Mapping[str, Any],
    max_epsilon: float | None,
    yes: bool,
    even_so: bool,
    progress: bool,
) -> Fit:
    """Choose the way, confirm it, buy it and fit; see `CuratorClient.fit`."""
    check_arguments(data, half_width)
    check_yes(yes)
    question = read_question(client, data, asked, options, price, half_width, guess)
    choice, left = choose(question, even_so=even_so), None
    if not choice.taken.affordable:
        left = client.budget(data).remaining
    return buy_choice(choice, max_epsilon=max_epsilon, yes=yes, progress=progress, left=left)


def buy_choice(
    choice: Choice, *, max_epsilon: float | None, yes: bool, progress: bool, left: Amount | None = None
) -> Fit:
    """Confirm the way that is taken, buy it and fit.

    Raises
    ------
    BudgetExceededError
        Where it cannot be paid: nobody is asked.
    ValueError
        Above the largest price.
    """
    cost = choice.taken.cost
    if cost is not None and not choice.taken.affordable:
        short = [name for name, way in choice.taken.places.items() if not way.affordable]
        where = f" at {', '.join(short)}" if short else ""
        known = "" if left is None else f" (the budget has ε = {figures(left.epsilon)}, and a permit may leave less)"
        instead = "leave it out, or state a lower price" if short else "epsilon='left' buys all of it"
        raise BudgetExceededError(
            f"this costs {price_text(cost, in_full=True)}, more than is left{where}{known}: {instead}. Nothing was "
            "charged",
            requested=cost,
            remaining=left,
            slug="budget-exceeded",
        )
    if max_epsilon is not None and cost is not None and not cost.epsilon <= max_epsilon:  # NaN allows nothing
        raise ValueError(
            f"this costs {price_text(cost, in_full=True)}, more than max_epsilon = {figures(max_epsilon)}: nothing was "
            "charged"
        )
    confirm(choice, is_free=choice.is_free, yes=yes, show=progress)
    fit = choice.taken.buy(progress)
    fit.choice_ = choice.forget()
    return fit


def check_arguments(data: object, half_width: object) -> None:
    """Refuse what other libraries call so. Raise `ValueError`."""
    if not isinstance(data, str):
        raise ValueError(f"data is the name of a dataset at the curator, not a {type(data).__name__}: rows stay there")  # noqa: TRY004 -- one kind of error for arguments
    if half_width is not None and not isinstance(half_width, Mapping):
        raise ValueError(f"half_width names terms, each with a number: half_width={{'age': {half_width!r}}}")


def check_yes(yes: object) -> None:
    """Refuse a word in the place of a yes: "no" would be one. Raise `ValueError`."""
    if not isinstance(yes, bool):
        raise ValueError(f"yes is True or False, not {yes!r}")  # noqa: TRY004 -- as above


def read_question(
    client: Buyer,
    data: str,
    asked: Asked,
    options: FitOptions,
    price: Mapping[str, Any],
    half_width: Mapping[str, float] | None,
    guess: Mapping[str, Any],
) -> Question:
    """Return the question at its price. Raise `ValueError` where it is stated twice, or not at all."""
    stated = [name for name in ("epsilon", "mu", "rho") if price.get(name) is not None]
    if half_width is not None and stated:
        raise ValueError(f"half_width finds the price: leave out {' and '.join(stated)}")
    if half_width is None and not stated:
        raise ValueError(
            "state a price: epsilon=1.0; epsilon='left' for all that is left; or half_width={'age': 0.1} for the least "
            "that an accuracy takes"
        )
    if price.get("epsilon") == LEFT and len(stated) > 1:
        raise ValueError(f"epsilon='left' is the whole price: leave out {stated[-1]}")
    if half_width is None and price.get("epsilon") != LEFT:
        return Question.read(client, data, asked, options, price)
    if guess.get("rows"):
        options = {**options, "expected_rows": float(guess["rows"])}
    budget = client.budget(data)
    least = {NOTIONS[budget.accountant]: 1e-3}
    question = Question.read(client, data, asked, options, least)
    if half_width is None:
        return question.at(**price_left(question, budget))
    others = {name: one for name, one in guess.items() if name != "rows"}
    return question.at(**price_of_accuracy(question, budget, half_width, others))
