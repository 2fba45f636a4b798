"""The guessing game with an analyst who stops when the answers say enough.

Each run has a limit of its own. The attacker buys the same fresh release again and again, until the likelihood ratio of
all answers is far enough from 1, or the curator refuses the next one. Then he guesses the coin. All runs count, those
that he stopped early too: a limit bounds how often he is right, and the amount that he had spent when he stopped does
not, except under a pure account (docs/privacy.md, "What an amount spent says").
"""

import math
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit import evidence
from audit.evidence import Floats, Law
from audit.game import UNITS_PER_ONE, Outcome, Test, open_shop, stated_law, values_of
from audit.neighbours import Cell, exact_answer
from curator_service.ledger.service import BudgetExceeded

_RECKONED = 20_000


@dataclass(frozen=True, slots=True)
class Stopping:
    """A release that is bought until the answers say enough.

    Attributes
    ----------
    cell : Cell
        Its price is an equal part of the limit, in the unit of the account.
    limit : float
        In the unit of the account: µ² or ε.
    steps : int
        Releases that the limit holds.
    threshold : float
        The logarithm of the likelihood ratio at which the attacker stops, in either direction.
    """

    cell: Cell
    limit: float
    steps: int
    threshold: float

    @property
    def is_pure(self) -> bool:
        """True if the account is of pure ε."""
        return self.cell.accountant == "pure"

    def mean_bound(self, spent: Floats) -> float:
        """Return the mean over runs of what each run's own amount would allow, were it a bound.

        Under a pure account it is one. Guesses that are right with probabilities of their own reach a number above
        their mean no more often than as many guesses that are all right with the mean probability (Hoeffding 1956).
        """
        if self.is_pure:
            return float(np.mean([evidence.success_bound_of_epsilon(epsilon) for epsilon in spent]))
        return float(np.mean([evidence.success_bound_of_mu(math.sqrt(squared)) for squared in spent]))

    def bound(self, spent: Floats) -> float:
        """Bound how often guesses are right over all runs: by the limit, or under a pure account by what was spent."""
        return self.mean_bound(spent) if self.is_pure else evidence.success_bound_of_mu(math.sqrt(self.limit))


def play_stopping(name: str, game: Stopping, rounds: int) -> Outcome:
    """Play a game: in each run a coin chooses a neighbour, the attacker buys until he has enough, and guesses once."""
    coins = np.frombuffer(secrets.token_bytes(rounds), dtype=np.uint8) & 1
    ratios, spent, moved = np.zeros(rounds), np.empty(rounds), []
    zero, one = (exact_answer(game.cell, rows) for rows in game.cell.datasets)
    most = math.ceil(game.limit * UNITS_PER_ONE)
    with open_shop() as shop:
        pairs = list(zip(("zero", "one"), game.cell.datasets, strict=True))
        datasets = [shop.stock(game.cell, rows, side) for side, rows in pairs]
        for i, coin in enumerate(coins.tolist()):
            before = shop.posted(datasets[coin])
            shop.set_limit(datasets[coin], before + most)
            with suppress(BudgetExceeded):
                for answer in shop.buy(datasets[coin], game.cell.request):
                    law = stated_law(answer)
                    ratios[i] += float(law.log_likelihood_ratio(np.array(values_of(answer)), zero, one))
                    moved.append(law.separation(zero, one) / _charged(game, int(answer["cost"]["units"])))
                    if abs(ratios[i]) >= game.threshold:
                        break
            spent[i] = shop.posted(datasets[coin]) - before
    breaches = []
    if spent.max() > most:
        breaches.append("a run spent more than its limit")
    if max(moved) > 1 + 1e-4:
        breaches.append("moves further than it is charged, by its stated noise")
    charged = _charged(game, most)
    rights, bound = int(np.sum((ratios > 0) == coins)), game.bound(spent / UNITS_PER_ONE)
    if not game.is_pure and rights <= rounds * game.mean_bound(spent / UNITS_PER_ONE):
        breaches.append("the attacker gains nothing by stopping, so the game proves little")
    found = [evidence.power(rounds, *_reckon(game, law, zero, one, factor)) for factor in (0.5, 2**-0.5)]
    test = Test(
        "epsilon" if game.is_pure else "mu",
        charged,
        rounds,
        rights,
        bound,
        evidence.binomial_p_value(rights, rounds, bound),
        (evidence.epsilon_of_success if game.is_pure else evidence.mu_of_success)(evidence.lower_bound(rights, rounds)),
        found[0],
        found[1],
    )
    return Outcome(name, min(moved) * charged, charged, (test,), tuple(breaches))


def _charged(game: Stopping, units: int) -> float:
    """Return units in µ, or in ε under a pure account."""
    return units / UNITS_PER_ONE if game.is_pure else math.sqrt(units / UNITS_PER_ONE)


def _reckon(game: Stopping, law: Law, zero: Floats, one: Floats, factor: float) -> tuple[float, float]:
    """Return how often the attacker would be right if noise had another scale than stated, and the bound."""
    drawn = law.sample(_RECKONED * game.steps, np.random.default_rng(1))
    steps = law.log_likelihood_ratio(one + factor * drawn, zero, one).reshape(_RECKONED, game.steps)
    ratios = np.cumsum(steps, axis=1)
    enough = np.abs(ratios) >= game.threshold
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), game.steps - 1)
    stopped = ratios[np.arange(_RECKONED), last]
    return float(np.mean(stopped > 0)), game.bound((last + 1) * game.limit / game.steps)


_BOX: dict[str, Any] = {"features": ["a"], "targets": ["y"], "rows": {"map": "box"}, "fresh": True}
_ROW = {"a": 1.0, "y": 1.0}
_LAPLACE: dict[str, Any] = {
    "mechanism": "laplace",
    "intercept": False,
    "shares": {"xtx": 0.96, "xty": 0.02, "yty": 0.02},
    "price": {"epsilon": 1.0},
}
STOPPING = {
    "a stopping analyst, add_remove": Stopping(
        Cell("stopping", "add_remove", _BOX | {"price": {"mu": math.sqrt(9 / 8)}}, _ROW),
        limit=9.0,
        steps=8,
        threshold=2.5,
    ),
    "a stopping analyst, pure account, add_remove": Stopping(
        Cell("stopping", "add_remove", _BOX | _LAPLACE, _ROW, accountant="pure"), limit=3.0, steps=3, threshold=0.6
    ),
}
"""Games by name."""
