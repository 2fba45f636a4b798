"""Amounts and accounts as JSON: the account's integer first, its views beside it."""

import math
from typing import Any

from curator_service.ledger.repository import Population
from curator_service.privacy.accountant import Amount, affordable, spent


def render_amount(amount: Amount) -> dict[str, Any]:
    """Return an amount as JSON: the account's integer as a string, and its views."""
    return {
        "units": str(amount.units),
        "mu": amount.mu,
        "rho": amount.rho,
        "epsilon": amount.epsilon if math.isfinite(amount.epsilon) else None,
        "delta": amount.delta,
    }


def render_budget(population: Population) -> dict[str, Any]:
    """Return an account as JSON: the account's unit first, (ε, δ), µ and ρ beside it."""
    delta = population.delta
    return {
        "population": population.name,
        "accountant": population.accountant,
        "adjacency": population.adjacency,
        "delta": delta,
        "limit": render_amount(spent(population.limit, delta)),
        "posted": render_amount(spent(population.posted, delta)),
        "pending": render_amount(spent(population.pending, delta)),
        "remaining": render_amount(affordable(population.remaining, delta)),
        "share_spent": (population.posted + population.pending) / population.limit,
    }
