"""The guessing game over a whole plan: several releases of one budget, each asked for by what was answered before.

A plan charges µ² for each of its releases. However the next request follows from the answers so far, and whatever else
is bought in between, nobody may guess the coin right more often than the root of their sum allows. The attacker knows
how requests are chosen, so its likelihood ratio is the product of those of the answers.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit import evidence
from audit.evidence import Floats
from audit.game import UNITS_PER_ONE, Outcome, Shop, Test, open_shop, stated_law, values_of
from audit.neighbours import Cell, exact_answer

Request = dict[str, Any]
Step = Callable[[list[Floats]], Request]
"""The next request, by the released numbers so far."""
ROUNDS = 1500
"""Plans bought; each has several releases."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Neighbours, and requests that follow from each other.

    Attributes
    ----------
    cell : Cell
        Whose request is the first.
    steps : tuple of callable
        The requests after it.
    """

    cell: Cell
    steps: tuple[Step, ...]


def play_plan(name: str, plan: Plan, rounds: int = ROUNDS) -> Outcome:
    """Play a plan: a fair coin chooses a neighbour, a whole plan is bought of it, and the attacker guesses once."""
    coins = np.frombuffer(secrets.token_bytes(rounds), dtype=np.uint8) & 1
    ratios, separations, charged, spent = np.empty(rounds), np.empty(rounds), np.empty(rounds), [0, 0]
    with open_shop() as shop:
        pairs = list(zip(("zero", "one"), plan.cell.datasets, strict=True))
        datasets = [shop.stock(plan.cell, rows, side) for side, rows in pairs]
        for i, coin in enumerate(coins.tolist()):
            ratios[i], squared, units = _buy(shop, plan, datasets[coin])
            separations[i], charged[i] = math.sqrt(squared), math.sqrt(units / UNITS_PER_ONE)
            spent[coin] += units
        booked = [shop.posted(dataset) for dataset in datasets]
    mu, breaches = float(charged.max()), []
    if booked != spent:
        breaches.append("the account holds another sum than the answers state")
    if np.any(separations > charged * (1 + 1e-4)):
        breaches.append("moves further than it is charged, by its stated noise")
    right = int(np.sum((ratios > 0) == coins))
    bound = evidence.success_bound_of_mu(mu)
    found = [evidence.power(rounds, evidence.success_bound_of_mu(mu / factor), bound) for factor in (0.5, 2**-0.5)]
    at_least = evidence.mu_of_success(evidence.lower_bound(right, rounds))
    p_value = evidence.binomial_p_value(right, rounds, bound)
    tests = (Test("mu", mu, rounds, right, bound, p_value, at_least, found[0], found[1]),)
    return Outcome(name, float(separations.min()), mu, tests, tuple(breaches))


def _buy(shop: Shop, plan: Plan, dataset: Any) -> tuple[float, float, int]:
    """Buy a plan; return its log-likelihood ratio, how far its exact answers are apart, squared, and its cost."""
    answers: list[Floats] = []
    ratio, squared, units = 0.0, 0.0, 0
    for step in (lambda _: plan.cell.request, *plan.steps):
        request = step(answers)
        answer = next(shop.buy(dataset, request))
        cell = replace(plan.cell, request=request)
        zero, one = (exact_answer(cell, rows) for rows in cell.datasets)
        law, values = stated_law(answer), np.array(values_of(answer))
        ratio += float(law.log_likelihood_ratio(values, zero, one))
        squared += law.separation(zero, one) ** 2
        units += int(answer["cost"]["units"])
        answers.append(values)
    return ratio, squared, units


def _whole(values: Floats, most: int) -> list[int]:
    """Return released numbers as small whole ones: what a request may post."""
    return [int(value) for value in np.clip(np.rint(values), -most, most)]


def _rows_by_marginals(answers: list[Floats]) -> Request:
    """Ask for XᵀX of rows that are recentred by the noisy means, and are longer than 1 whatever these are."""
    _, first, _, _, second, _ = answers[0][:6]
    moved = _whole(np.array([first, second]), 6)
    matrix = {"(constant)": [16, *moved], "a": [0, 20, 0], "b": [0, 0, 20]}
    return {
        "features": ["a", "b"],
        "targets": ["y"],
        "rows": {"map": "linear", "bits": 2, "matrix": matrix},
        "statistics": ["xtx", "xty", "yty"],
        "price": {"mu": 0.45},
        "fresh": True,
    }


def _score_by_gram(answers: list[Floats]) -> Request:
    """Ask for a score at coefficients of noisy numbers, in signs that leave the person a residual of 1 or more."""
    size = [abs(k) for k in _whole(answers[-1][-4:-1], 9)]
    weights = {"(constant)": -size[0], "a": -size[1], "b": size[2]}
    return {
        "kind": "score",
        "features": ["a", "b"],
        "target": "y",
        "loss": "linear",
        "coefficients": {"bits": 2, "weights": weights},
        "directions": {"bits": 2, "matrix": {"(constant)": [8, 0, 0], "a": [0, 8, 0], "b": [0, 0, 8]}},
        "statistics": ["score", "norms"],
        "price": {"mu": 0.4},
        "fresh": True,
    }


def _between(answers: list[Floats]) -> Request:
    """Ask for something else in between."""
    del answers
    return {
        "features": ["a", "b"],
        "targets": [],
        "rows": {"map": "box"},
        "statistics": ["xtx"],
        "price": {"mu": 0.3},
        "fresh": True,
    }


def _again(answers: list[Floats]) -> Request:
    """Ask for a score where the last one led, interleaved with another."""
    return _score_by_gram([np.concatenate([answers[-2][:3], answers[-2][-1:]])])


def _plan(adjacency: str, **more: Any) -> Plan:
    request = {
        "kind": "marginals",
        "marginals": [{"type": "moments", "columns": ["a", "b"]}, {"type": "tree", "columns": ["y"], "levels": 3}],
        "price": {"mu": 0.4},
        "fresh": True,
    }
    cell = Cell("plan", adjacency, request, {"a": 1.0, "b": -1.0, "y": 1.0}, **more)
    return Plan(cell, (_rows_by_marginals, _score_by_gram, _between, _again))


PLANS = {
    "a whole plan, add_remove": _plan("add_remove"),
    "a whole plan, persons of two rows, add_remove": _plan("add_remove", rows_per_person=2),
    "a whole plan, replace_one": _plan("replace_one", replaced_by={"a": -1.0, "b": 1.0, "y": -1.0}),
}
"""Plans by name."""
