"""Asking in accuracy: the smallest price at which intervals are expected to be as short as wanted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analyst_client.kinds.gram.quote import Quote
from analyst_client.planning.accuracy_plan import AccuracyPlan, epsilon_for
from analyst_client.planning.assumptions import Assumptions
from analyst_client.planning.wording import figures, price_text
from analyst_client.schema.quotes import AnyQuote

PRICES = ("epsilon", "mu", "rho")
ROUNDS_MAX = 4
"""A row map is chosen for a price, and the price for a row map: so often are they brought to agree."""


@dataclass(frozen=True)
class PricedRequest:
    """The options that ask for a wanted accuracy.

    Attributes
    ----------
    options : mapping
        Of a release: a price, and the row map that it was found for.
    quote : Quote
    plans : tuple of AccuracyPlan
        One for each wanted half width.
    """

    options: Mapping[str, Any]
    quote: Quote
    plans: tuple[AccuracyPlan, ...]

    def __str__(self) -> str:
        """Return what is asked, and why, in sentences."""
        return "\n".join(map(str, self.plans))


def price_for_half_widths(
    quote: Callable[..., Quote],
    half_width: Mapping[str, float],
    options: Mapping[str, Any],
    guess: Mapping[str, Any],
    *,
    epsilon: float,
    delta: float,
) -> PricedRequest:
    """Find the smallest price at which all intervals are expected to be as short as wanted.

    Parameters
    ----------
    quote : callable
        Of options of a release; it is free.
    half_width : mapping of str to float
        By term, raw units: the target's per unit of the term.
    options : mapping
        Of the release, without a price.
    guess : mapping
        What is assumed of the rows: the arguments of `Assumptions.of`, ``rows`` at least. Where nothing is said of a
        target's spread, it is taken as uniform within its bounds and as unexplained, which is the widest of guesses.
    epsilon, delta : float
        A price to begin with, and the δ at which ε is stated.

    Raises
    ------
    ValueError
        When a term is unknown, the guess makes no sense, or no price would do.
    """
    if not half_width or not all(isinstance(value, int | float) and value > 0 for value in half_width.values()):
        raise ValueError("half_width names terms, each with a positive number: half_width={'age': 0.1}")
    if stated := [name for name in PRICES if options.get(name) is not None]:
        raise ValueError(f"half_width finds the price: leave out {' and '.join(stated)}")
    if "rows" not in guess:
        raise ValueError("state how many rows you expect: guess={'rows': 5000}, and what else Assumptions.of takes")
    asked = {name: value for name, value in options.items() if name != "delta"}
    chosen = asked.get("rows") is None and asked.get("norm") is None
    if chosen:
        asked.setdefault("expected_rows", round(guess["rows"]))
    is_pure = options.get("mechanism") == "laplace"
    for _ in range(ROUNDS_MAX):
        price = {"epsilon": epsilon} if is_pure else {"epsilon": epsilon, "delta": delta}
        quoted = quote(**asked, **price)
        assumed = Assumptions.of(quoted, **_spread(quoted, guess))
        plans = tuple(epsilon_for(width, name, quoted, assumed, delta or None) for name, width in half_width.items())
        if not all(plan.is_feasible for plan in plans):
            raise ValueError("\n".join(str(plan) for plan in plans if not plan.is_feasible))
        found = max(plan.epsilon for plan in plans)
        same = quoted.request.get("rows")
        if not chosen or math.isclose(found, epsilon, rel_tol=1e-3):
            break
        epsilon = found
    final = {name: value for name, value in asked.items() if name != "expected_rows"} | {"rows": same}
    final.pop("norm", None)
    return PricedRequest(final | price | {"epsilon": found}, quoted, plans)


def check_price(quote: AnyQuote, max_epsilon: float) -> None:
    """Refuse a price above a limit of one's own. Raise `ValueError`; nothing was charged."""
    if not quote.cost.epsilon <= max_epsilon and quote.stored_release is None and quote.derivable_from is None:
        raise ValueError(
            f"this costs {price_text(quote.cost, in_full=True)}, more than max_epsilon = {figures(max_epsilon)}: "
            "nothing was charged"
        )


def _spread(quote: Quote, guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return the guess, with the widest spread of targets where it says nothing of it."""
    if any(guess.get(name) is not None for name in ("residual_sd", "rsquared")):
        return dict(guess)
    stated = guess.get("sds") or {}
    widest = {
        term.name: 0.5 if term.kind == "boolean" else float(stated.get(term.name, term.scale / math.sqrt(3.0)))
        for term in quote.targets
    }
    return dict(guess) | {"residual_sd": widest}
