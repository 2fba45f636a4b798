"""From a model to a fit: read, choose, show, buy."""

from collections.abc import Mapping
from typing import Any

from analyst_client.estimators.base import Fit
from analyst_client.fitting.choice import Choice, choose, confirm
from analyst_client.fitting.prices import UNITS, price_left, price_of_accuracy
from analyst_client.fitting.question import Buyer, FitOptions, Question
from analyst_client.kinds.gram.request import Asked
from analyst_client.planning.wording import figures, price_text

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
    question = read_question(client, data, asked, options, price, half_width, guess)
    return buy_choice(choose(question, even_so=even_so), max_epsilon=max_epsilon, yes=yes, progress=progress)


def buy_choice(choice: Choice, *, max_epsilon: float | None, yes: bool, progress: bool) -> Fit:
    """Confirm the way that is taken, buy it and fit. Raise `ValueError` above the largest price."""
    cost = choice.taken.cost
    if max_epsilon is not None and cost is not None and cost.epsilon > max_epsilon:
        raise ValueError(
            f"this costs {price_text(cost, in_full=True)}, more than max_epsilon = {figures(max_epsilon)}: nothing was "
            "charged"
        )
    confirm(choice, yes=yes, show=progress)
    fit = choice.taken.buy(progress)
    fit.choice_ = choice.forget()
    return fit


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
    if half_width is None and price.get("epsilon") != LEFT:
        return Question.read(client, data, asked, options, price)
    if guess.get("rows"):
        options = {**options, "expected_rows": float(guess["rows"])}
    budget = client.budget(data)
    least = {UNITS[budget.accountant]: 1e-3}
    question = Question.read(client, data, asked, options, least)
    if half_width is None:
        return question.at(**price_left(question, budget))
    others = {name: one for name, one in guess.items() if name != "rows"}
    return question.at(**price_of_accuracy(question, budget, half_width, others))
