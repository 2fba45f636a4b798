"""A price that is not stated as a number: all that is left, or what a wanted accuracy takes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from analyst_client.fitting.question import Question
from analyst_client.fitting.ways import Way, assume, assumed_sds, find_ways
from analyst_client.refinement.practice import EXPLAINED
from analyst_client.schema.accounts import Budget
from analyst_client.schema.amounts import Amount, price_of_units

SPARED = 1.0 - 1e-9
"""Part of what is left that is asked for: a curator rounds each cost up."""
ROUNDS = 11
"""Prices that are tried for a wanted accuracy; each is quoted as a whole purchase."""
LEAST = 1e-8
"""Part of a budget, as the account counts, below which no price is sought, and which is as good as nothing left."""


def price_left(question: Question, budget: Budget) -> dict[str, float]:
    """Return all that the budget, and the permit, have left for this caller.

    Where nothing is, what the caller holds of the dataset is: a call that was interrupted holds it, and is found by its
    price.

    Raises
    ------
    ValueError
        Where nothing is left or held.
    """
    whole = _units(budget.remaining)
    if whole <= LEAST * _units(budget.limit):
        return _held(question, budget, f"nothing is left of the budget of {budget.population!r}")
    low, high = 0.0, 1.0
    for _ in range(24):
        part = high if low == 0.0 and high == 1.0 else (low + high) / 2.0
        if question.at(**_part(budget, whole, part)).quote.affordable:
            low = part
            if part == 1.0:
                break
        else:
            high = part
    if low <= LEAST:
        return _held(question, budget, f"the permit leaves nothing of the budget of {budget.population!r}")
    return _part(budget, whole, low)


def _held(question: Question, budget: Budget, fault: str) -> dict[str, float]:
    """Return the price of the last reservation of the caller's that is open. Raise `ValueError` without one."""
    held = [one.id for one in question.client.reservations() if one.dataset == question.data]
    if not held:
        raise ValueError(fault)
    return price_of_units(budget.accountant, _units(question.client.reservation(held[-1]).reserved))


def _units(amount: Amount) -> int:
    return amount.units or 0


def _part(budget: Budget, whole: int, part: float) -> dict[str, float]:
    return price_of_units(budget.accountant, int(whole * part * SPARED))


def price_of_accuracy(
    question: Question, budget: Budget, half_width: Mapping[str, float], guess: Mapping[str, Any]
) -> dict[str, float]:
    """Return the least price at which intervals should be as short as wanted.

    Parameters
    ----------
    question : Question
        At any price.
    budget : Budget
        No price beyond its limit is tried.
    half_width : mapping of str to float
        By term, raw units: the target's per unit of the term, or on the scale of the link.
    guess : mapping
        What is expected of the rows, as `Assumptions.of` takes it.

    Raises
    ------
    ValueError
        When a term is unknown, or no price within the limit would do.
    """
    wanted = standardized(question, half_width, guess)

    def best(amount: int) -> Way | None:
        ways, _ = find_ways(question.at(**_part(budget, amount, 1.0)))
        return min(ways, key=lambda way: way.expected, default=None)

    def suffices(amount: int) -> bool:
        way = best(amount)
        return way is not None and all(way.half_lengths[place] <= length for place, length in wanted.items())

    high = _units(budget.limit)
    if not suffices(high):
        raise ValueError(
            f"half_width={dict(half_width)!r} is out of reach of the whole budget with {question.rows:,.0f} rows: "
            "state wider ones, or expected_rows= if there are more"
        )
    low = max(int(high * LEAST), 1)
    for _ in range(ROUNDS):
        middle = math.isqrt(low * high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return _part(budget, high, 1.0)


def standardized(question: Question, half_width: Mapping[str, float], guess: Mapping[str, Any]) -> dict[int, float]:
    """Return the wanted half lengths by the place of their slope, for a change by one deviation of the term."""
    if not half_width or not all(isinstance(one, int | float) and one > 0 for one in half_width.values()):
        raise ValueError("half_width names terms, each with a positive number: half_width={'age': 0.1}")
    quote = question.quote
    slopes = [term.name for term in quote.terms if term.kind != "constant"]
    if unknown := [name for name in half_width if name not in slopes]:
        raise ValueError(f"half_width names {unknown[0]!r}, and the terms are {', '.join(slopes)}")
    (target,) = quote.targets
    said = dict(guess)
    spread = said.pop("residual_sd", None)
    own = dict(said.pop("sds", {}))
    sds = assumed_sds(quote) | own
    if target.kind == "numeric" and target.name not in own:
        sds[target.name] = spread / math.sqrt(1.0 - EXPLAINED) if spread else target.scale / math.sqrt(3.0)
    assumed = assume(quote, question.rows, sds, **said)
    deviations = np.sqrt(np.diag(assumed.moments) - assumed.moments[0] ** 2)
    raw = {term.name: sd * term.scale for term, sd in zip(quote.terms, deviations, strict=True)}
    unit = sds[target.name] if target.kind == "numeric" and question.family[0] == "gaussian" else 1.0
    return {slopes.index(name): width * raw[name] / unit for name, width in half_width.items()}
